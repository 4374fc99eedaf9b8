//! Old records: the writer looks now and then which logs are to be compacted, and which are too old or too large.
//!
//! It only looks, and takes over what was made: a compaction's copying runs on a thread of its own, beside everything else,
//! one log at a time. What retention decides is staged like any other work.
//!
//! **What it does not know**: which records go; the log does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use atonce_kernel::Timestamp;
use atonce_log::{CompactionDone, CompactionProgress};

use super::{Engine, WakeUp};
use crate::configuration::{Settings, TOPIC_KEYS, Values};

/// When to look again, and the compaction that runs.
pub(super) struct Cleaning {
    next_retention: Timestamp,
    /// `None`: never, or not before the one that runs is done.
    next_compaction: Option<Timestamp>,
    running: Option<JoinHandle<()>>,
    /// Ends the one that runs after its next step.
    stop: Arc<AtomicBool>,
}

impl Cleaning {
    pub(super) fn new(settings: &Settings, now: Timestamp) -> Self {
        Self {
            next_retention: now.plus_ms(settings.retention_check_interval_ms),
            next_compaction: settings.is_cleaner_enabled.then(|| now.plus_ms(settings.cleaner_backoff_ms)),
            running: None,
            stop: Arc::default(),
        }
    }

    pub(super) fn next_deadline(&self) -> Timestamp {
        self.next_compaction.map_or(self.next_retention, |next| next.min(self.next_retention))
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
        if self.cleaning.next_compaction.is_some_and(|next| next <= self.now) {
            self.cleaning.next_compaction = Some(self.now.plus_ms(self.settings.cleaner_backoff_ms));
            self.begin_compaction();
        }
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
        let thread = std::thread::Builder::new().name("atonce-compaction".to_owned()).spawn(move || {
            while !stop.load(Ordering::Relaxed) && work.step() == CompactionProgress::More {}
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
        self.join_compaction();
    }

    fn join_compaction(&mut self) {
        if let Some(thread) = self.cleaning.running.take() {
            let _ = thread.join();
        }
    }
}
