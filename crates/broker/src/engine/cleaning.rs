//! Old records: the writer looks now and then which logs are to be compacted, and which are too old or too large.
//!
//! It only looks, and takes over what was made: a compaction's copying runs on a thread of its own, beside everything else,
//! one log at a time. What retention decides is staged like any other work.
//!
//! **What it does not know**: which records go; the log does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use atonce_kernel::Timestamp;
use atonce_log::{CompactionDone, CompactionProgress};

use super::{Engine, WakeUp};
use crate::configuration::{BROKER_KEYS, Settings, TOPIC_KEYS, Values, find};

/// When to look again, and the compaction that runs.
pub(super) struct Cleaning {
    next_retention: Timestamp,
    /// `None`: never, or not before the one that runs is done.
    next_compaction: Option<Timestamp>,
    /// Files wait to be removed until then.
    next_removal: Option<Timestamp>,
    /// Bytes that a compaction may read and write in a second, as the bits of a float.
    bytes_per_second_max: Arc<AtomicU64>,
    running: Option<JoinHandle<()>>,
    /// Ends the one that runs after its next step.
    stop: Arc<AtomicBool>,
}

impl Cleaning {
    pub(super) fn new(settings: &Settings, now: Timestamp) -> Self {
        Self {
            next_retention: now.plus_ms(settings.retention_check_interval_ms),
            next_compaction: settings.is_cleaner_enabled.then(|| now.plus_ms(settings.cleaner_backoff_ms)),
            next_removal: None,
            bytes_per_second_max: Arc::new(AtomicU64::new(f64::MAX.to_bits())),
            running: None,
            stop: Arc::default(),
        }
    }

    /// No compaction runs.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.running.is_none()
    }

    pub(super) fn next_deadline(&self) -> Timestamp {
        let others = self.next_compaction.into_iter().chain(self.next_removal);
        others.fold(self.next_retention, Ord::min)
    }
}

impl Engine {
    /// What the log takes for topics that do not say otherwise.
    pub(super) fn topic_defaults(&self) -> BTreeMap<String, String> {
        let dynamic = self.dynamic();
        let values = Values::new(&self.settings, &dynamic);
        TOPIC_KEYS.iter().map(|key| (key.key.name.to_owned(), values.topic_default(key).into_owned())).collect()
    }

    /// Looks, where it is time to.
    pub(super) fn clean_if_due(&mut self) {
        if self.cleaning.next_retention <= self.now {
            self.cleaning.next_retention = self.now.plus_ms(self.settings.retention_check_interval_ms);
            self.enforce_retention();
        }
        if self.cleaning.next_removal.is_some_and(|next| next <= self.now) {
            self.cleaning.next_removal = self.storage.remove_old_files(self.now);
        }
        let is_wanted = self.storage.is_compaction_wanted();
        if self.cleaning.next_compaction.is_some_and(|next| is_wanted || next <= self.now) {
            self.cleaning.next_compaction = Some(self.now.plus_ms(self.settings.cleaner_backoff_ms));
            self.begin_compaction();
        }
    }

    /// A checkpoint is written: files that it does not name may be removed, in time.
    pub(super) fn look_for_old_files(&mut self) {
        self.cleaning.next_removal = Some(self.now);
    }

    /// How fast compaction may be now.
    pub(super) fn hold_compaction_back(&self) {
        let dynamic = self.dynamic();
        let key = find(BROKER_KEYS, "log.cleaner.io.max.bytes.per.second").ok();
        let value = key.and_then(|key| Values::new(&self.settings, &dynamic).value(key));
        let rate: f64 = value.and_then(|text| text.trim().parse().ok()).unwrap_or(f64::MAX);
        self.cleaning.bytes_per_second_max.store(rate.to_bits(), Ordering::Relaxed);
    }

    fn enforce_retention(&mut self) {
        if let Err(failed) = self.storage.write_what_may_be_cleaned(self.now) {
            self.failed = Some(failed.to_string());
            return;
        }
        match self.storage.enforce_retention(self.now) {
            Ok(moved) => {
                for choice in moved {
                    let (partition, offset) = (&choice.partition, choice.offset);
                    tracing::info!(%partition, offset, "old records go: the log begins here now");
                }
            }
            Err(error) => tracing::error!(%error, "old records stay for now"),
        }
    }

    fn begin_compaction(&mut self) {
        if let Err(failed) = self.storage.write_what_may_be_cleaned(self.now) {
            self.failed = Some(failed.to_string());
            return;
        }
        let Some(choice) = self.storage.choose_compaction(self.now) else { return };
        let Some(mut work) = self.storage.begin_compaction(&choice, self.now) else { return };
        let (partition, dirty_bytes) = (&choice.partition, choice.dirty_bytes);
        tracing::debug!(%partition, dirty_bytes, "compaction begins");
        let (stop, wake_ups) = (Arc::clone(&self.cleaning.stop), self.wake_ups.clone());
        let rate = Arc::clone(&self.cleaning.bytes_per_second_max);
        let thread = std::thread::Builder::new().name("atonce-compaction".to_owned()).spawn(move || {
            let (mut pace, mut moved_bytes, mut last) = (Pace::default(), 0, Instant::now());
            while !stop.load(Ordering::Relaxed) && work.step() == CompactionProgress::More {
                let (before, began) = (moved_bytes, last);
                (moved_bytes, last) = (work.moved_bytes(), Instant::now());
                let rate = f64::from_bits(rate.load(Ordering::Relaxed));
                let wait = pace.wait(moved_bytes.saturating_sub(before), last - began, rate);
                // Whoever wants it to stop wakes it.
                while last.elapsed() < wait && !stop.load(Ordering::Relaxed) {
                    std::thread::park_timeout(wait.saturating_sub(last.elapsed()));
                }
            }
            let _ = wake_ups.send(WakeUp::Compacted(work.finish()));
        });
        match thread {
            Ok(thread) => {
                self.cleaning.running = Some(thread);
                self.cleaning.next_compaction = None;
            }
            Err(error) => {
                tracing::error!(%error, "no thread can be started for compaction; there is none until the next start");
                self.cleaning.next_compaction = None;
            }
        }
    }

    /// Takes over what a compaction has made, and looks for the next log at once.
    pub(super) fn finish_compaction(&mut self, done: CompactionDone) {
        self.join_compaction();
        let partition = done.partition().clone();
        let (before, after) = done.bytes();
        match self.storage.finish_compaction(done) {
            Ok(()) => {
                tracing::info!(%partition, before, after, "compacted");
                self.cleaning.next_compaction = Some(self.now);
            }
            Err(error) => {
                tracing::error!(%partition, %error, "a compaction came to nothing");
                self.cleaning.next_compaction = Some(self.now.plus_ms(self.settings.cleaner_backoff_ms));
            }
        }
    }

    /// Ends the compaction that runs, if one does: it comes to nothing.
    pub(super) fn stop_compaction(&mut self) {
        self.cleaning.stop.store(true, Ordering::Relaxed);
        if let Some(running) = &self.cleaning.running {
            running.thread().unpark();
        }
        self.join_compaction();
    }

    fn join_compaction(&mut self) {
        if let Some(thread) = self.cleaning.running.take() {
            let _ = thread.join();
        }
    }
}

/// Holds a compaction back to a number of bytes a second.
#[derive(Debug, Default)]
struct Pace {
    /// How much faster than allowed it was so far.
    ahead_seconds: f64,
}

impl Pace {
    /// How long to wait after a step that moved so many bytes, so long after the step before. What was slower than
    /// allowed is not made up for by a burst.
    fn wait(&mut self, bytes: u64, since: Duration, bytes_per_second_max: f64) -> Duration {
        /// Then it looks again: the rate may have been changed.
        const LONGEST: Duration = Duration::from_secs(5);
        self.ahead_seconds += bytes as f64 / bytes_per_second_max - since.as_secs_f64();
        self.ahead_seconds = self.ahead_seconds.max(0.0);
        Duration::try_from_secs_f64(self.ahead_seconds).unwrap_or(LONGEST).min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_compaction_moves_so_many_bytes_in_a_second_and_no_more() {
        let mut pace = Pace::default();
        // Each step moves 1000 bytes, and takes a tenth of a second beside the wait.
        let (mut seconds, mut wait, mut moved) = (0.0, Duration::ZERO, 0);
        for _ in 0..100 {
            let since = wait + SECOND / 10;
            seconds += since.as_secs_f64();
            moved += 1000;
            wait = pace.wait(1000, since, 2000.0);
        }
        let rate = f64::from(moved) / (seconds + wait.as_secs_f64());
        assert!((1999.0..2001.0).contains(&rate), "{rate} bytes a second");
    }

    #[test]
    fn what_was_slow_is_not_made_up_for_and_without_a_limit_nothing_waits() {
        let mut pace = Pace::default();
        assert_eq!(pace.wait(1000, 100 * SECOND, 1000.0), Duration::ZERO);
        assert_eq!(pace.wait(2000, SECOND, 1000.0), SECOND);
        assert_eq!(Pace::default().wait(u64::MAX, Duration::ZERO, f64::MAX), Duration::ZERO);
        assert_eq!(Pace::default().wait(u64::MAX, Duration::ZERO, 1.0), 5 * SECOND);
    }
}
