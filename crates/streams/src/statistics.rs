//! Counts of what an application has done since it started, readable at any time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use atonce_streams_core::TaskCounts;

/// Counts since the start, over all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Commits that stand: transactions, or under the other guarantees intervals.
    pub committed: u64,
    /// Intervals that were undone.
    pub aborted: u64,
    /// Refusals that said another is in charge now: of the transaction, or of the group's partitions.
    pub fenced: u64,
    /// Commits that had no answer at first. Each was settled before anything else was done.
    pub in_doubt: u64,
    /// Records processed in intervals that were committed.
    pub records: u64,
    /// Records written by sinks, whatever became of them.
    pub output_records: u64,
    /// Change-log records replayed into stores.
    pub restored_records: u64,
    /// Stores that could not be trusted, and were rebuilt.
    pub rebuilt_stores: u64,
    /// Records dropped because they had no key, or no value where one is needed.
    pub dropped_records: u64,
    /// Records that failed and were left out, as the failure handler said.
    pub skipped_records: u64,
    /// Records that failed and were put into a dead-letter topic.
    pub dead_letters: u64,
    /// Stores of former tasks that were thrown away.
    pub cleaned_stores: u64,
    /// Workers that could not go on and were replaced.
    pub replaced_workers: u64,
    /// From the start to the first commit that stands.
    pub first_commit_after: Option<Duration>,
}

/// The counters behind [`Statistics`].
#[derive(Debug)]
pub(crate) struct Counters {
    started: Instant,
    first_commit_after: Mutex<Option<Duration>>,
    pub(crate) committed: AtomicU64,
    pub(crate) aborted: AtomicU64,
    pub(crate) fenced: AtomicU64,
    pub(crate) in_doubt: AtomicU64,
    pub(crate) records: AtomicU64,
    pub(crate) output_records: AtomicU64,
    pub(crate) restored_records: AtomicU64,
    pub(crate) rebuilt_stores: AtomicU64,
    pub(crate) dropped_records: AtomicU64,
    skipped_records: AtomicU64,
    dead_letters: AtomicU64,
    pub(crate) cleaned_stores: AtomicU64,
    pub(crate) replaced_workers: AtomicU64,
}

impl Counters {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            first_commit_after: Mutex::new(None),
            committed: AtomicU64::new(0),
            aborted: AtomicU64::new(0),
            fenced: AtomicU64::new(0),
            in_doubt: AtomicU64::new(0),
            records: AtomicU64::new(0),
            output_records: AtomicU64::new(0),
            restored_records: AtomicU64::new(0),
            rebuilt_stores: AtomicU64::new(0),
            dropped_records: AtomicU64::new(0),
            skipped_records: AtomicU64::new(0),
            dead_letters: AtomicU64::new(0),
            cleaned_stores: AtomicU64::new(0),
            replaced_workers: AtomicU64::new(0),
        }
    }

    /// One more commit that stands.
    pub(crate) fn count_commit(&self) {
        if self.committed.fetch_add(1, Ordering::Relaxed) == 0 {
            let mut first = self.first_commit_after.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            first.get_or_insert(self.started.elapsed());
        }
    }

    /// Takes in what a task has left out between two looks at its counts.
    pub(crate) fn count_left_out(&self, before: TaskCounts, after: TaskCounts) {
        add(&self.dropped_records, after.dropped - before.dropped);
        add(&self.skipped_records, after.skipped - before.skipped);
        add(&self.dead_letters, after.dead_letters - before.dead_letters);
    }

    pub(crate) fn read(&self) -> Statistics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Statistics {
            committed: read(&self.committed),
            aborted: read(&self.aborted),
            fenced: read(&self.fenced),
            in_doubt: read(&self.in_doubt),
            records: read(&self.records),
            output_records: read(&self.output_records),
            restored_records: read(&self.restored_records),
            rebuilt_stores: read(&self.rebuilt_stores),
            dropped_records: read(&self.dropped_records),
            skipped_records: read(&self.skipped_records),
            dead_letters: read(&self.dead_letters),
            cleaned_stores: read(&self.cleaned_stores),
            replaced_workers: read(&self.replaced_workers),
            first_commit_after: *self.first_commit_after.lock().unwrap_or_else(std::sync::PoisonError::into_inner),
        }
    }
}

/// Adds to a counter; order does not matter, each is read on its own.
pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}
