//! Open files for readers, a bounded number of them.
//!
//! **What it does not know**: what is in them. A file with unsynced writes is held by who wrote it, not here.

#![expect(clippy::disallowed_types, reason = "readers on any thread open files")]

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use atonce_kernel::disk::Disk;

/// A segment's number in this run of the storage; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SegmentNumber(pub(crate) u64);

/// Which of a segment's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Log,
    Aborted,
}

type FileKey = (SegmentNumber, Kind);

pub(crate) struct Handles<D: Disk> {
    disk: Arc<D>,
    capacity: usize,
    open: Mutex<Open<D>>,
}

struct Open<D: Disk> {
    /// With the number of its last use.
    files: BTreeMap<FileKey, (Arc<D::File>, u64)>,
    uses: u64,
}

impl<D: Disk> Handles<D> {
    pub(crate) fn new(disk: Arc<D>, capacity: usize) -> Self {
        Self { disk, capacity: capacity.max(1), open: Mutex::new(Open { files: BTreeMap::new(), uses: 0 }) }
    }

    /// The file, opened now if it was not.
    pub(crate) fn get(&self, number: SegmentNumber, path: &Path) -> io::Result<Arc<D::File>> {
        self.get_file((number, Kind::Log), path)
    }

    /// Its index of aborted transactions.
    pub(crate) fn get_aborted(&self, number: SegmentNumber, path: &Path) -> io::Result<Arc<D::File>> {
        self.get_file((number, Kind::Aborted), path)
    }

    fn get_file(&self, key: FileKey, path: &Path) -> io::Result<Arc<D::File>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.uses += 1;
        let now = open.uses;
        if let Some((file, last_use)) = open.files.get_mut(&key) {
            *last_use = now;
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(self.disk.open(path)?);
        if open.files.len() >= self.capacity {
            open.evict();
        }
        open.files.insert(key, (Arc::clone(&file), now));
        Ok(file)
    }

    pub(crate) fn disk(&self) -> &D {
        &self.disk
    }

    pub(crate) fn forget(&self, number: SegmentNumber) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        [Kind::Log, Kind::Aborted].iter().for_each(|kind| drop(open.files.remove(&(number, *kind))));
    }
}

impl<D: Disk> Open<D> {
    /// Drops the half that was not used for longest, so that this is not done again at once.
    fn evict(&mut self) {
        let mut uses: Vec<u64> = self.files.values().map(|(_, last_use)| *last_use).collect();
        uses.sort_unstable();
        let middle = uses.get(uses.len() / 2).copied().unwrap_or(u64::MAX);
        self.files.retain(|_, (_, last_use)| *last_use > middle);
    }
}
