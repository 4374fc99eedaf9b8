//! Who wants to hear how stores follow their change logs.

use std::path::Path;

use atonce_kernel::{Offset, TopicPartition};
use atonce_streams_core::TaskId;

/// A store on its way, as its listener is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoringStore<'a> {
    /// Whose it is.
    pub task: TaskId,
    /// Its name.
    pub store: &'a str,
    /// Its change log.
    pub changelog: &'a TopicPartition,
}

/// Hears how stores follow their change logs. It is called in the worker's loop: what takes long holds the worker up.
///
/// Each store that has something to replay is told of by [`on_restore_start`](Self::on_restore_start), any number of batches, and one of
/// [`on_restore_end`](Self::on_restore_end) and [`on_restore_suspended`](Self::on_restore_suspended).
///
/// ```
/// use atonce::{RestoreListener, RestoringStore};
///
/// struct Tells;
///
/// impl RestoreListener for Tells {
///     fn on_restore_start(&self, store: &RestoringStore<'_>, from: i64, to: i64) {
///         println!("{} replays {} from {from} to {to}", store.store, store.changelog);
///     }
/// }
/// ```
pub trait RestoreListener: Send + Sync {
    /// A store begins to follow its change log, from an offset to its end (exclusive).
    fn on_restore_start(&self, store: &RestoringStore<'_>, from: Offset, to: Offset) {
        let _ = (store, from, to);
    }

    /// It has taken in so many records, and will go on at this offset.
    fn on_batch_restored(&self, store: &RestoringStore<'_>, next: Offset, records: u64) {
        let _ = (store, next, records);
    }

    /// It is where its change log was; it has taken in so many records in all.
    fn on_restore_end(&self, store: &RestoringStore<'_>, total: u64) {
        let _ = (store, total);
    }

    /// Its task went away, or it begins anew, after so many records.
    fn on_restore_suspended(&self, store: &RestoringStore<'_>, total: u64) {
        let _ = (store, total);
    }

    /// It cannot be trusted, for this reason: it was set aside, and is made anew. `kept` is where what it had on disk lies now.
    fn on_store_set_aside(&self, store: &RestoringStore<'_>, reason: &str, kept: Option<&Path>) {
        let _ = (store, reason, kept);
    }
}
