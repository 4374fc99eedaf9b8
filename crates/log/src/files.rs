//! The files of one partition's log: segments, indexes of aborted transactions, and which writes are not synced yet.
//!
//! **What it does not know**: what is staged, producers, who reads.
//!
//! Invariants: a file with unsynced writes stays open until it is synced; only the last segment is written to; a segment that
//! compaction has made stands beside the old one under another name until a checkpoint names it.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use atonce_kernel::disk::{Disk, DiskFile};
use atonce_kernel::{Offset, Timestamp, TopicId};
use bytes::{BufMut, BytesMut};

use crate::aborted::{encode_aborted, write_anew};
use crate::compaction::Target;
use crate::folders::{METADATA_FILE, Metadata, prepare_folder, read_metadata};
use crate::handles::SegmentNumber;
use crate::partition::{FoundFiles, Shared};
use crate::reader::{AbortedTransaction, TailBatch};
use crate::segment::{Segment, file_path, parse_file_name};
use crate::settings::Settings;

/// Batches below this are gathered into one write; larger ones are written as they stand, which saves the copy.
pub(crate) const GATHER_BYTES: usize = 32 << 10;

/// What may belong to a segment beside its `.log`.
pub(crate) const BESIDE_LOG: [&str; 4] = ["txnindex", "index", "timeindex", "snapshot"];

/// What is known of the times in a segment. Timestamps below 0: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamps {
    /// The largest of the first batch: the segment's age counts from it.
    pub(crate) first_timestamp: Timestamp,
    pub(crate) max_timestamp: Timestamp,
    /// The last offset of the first batch that has it.
    pub(crate) max_timestamp_offset: Offset,
}

impl Stamps {
    /// Of an empty segment.
    pub(crate) const NONE: Self =
        Self { first_timestamp: Timestamp::NONE, max_timestamp: Timestamp::NONE, max_timestamp_offset: -1 };

    /// Follows a batch.
    pub(crate) fn note(&mut self, max_timestamp: Timestamp, last_offset: Offset) {
        if self.max_timestamp_offset < 0 {
            (self.first_timestamp, self.max_timestamp_offset) = (max_timestamp, last_offset);
            self.max_timestamp = max_timestamp;
        } else if max_timestamp > self.max_timestamp {
            (self.max_timestamp, self.max_timestamp_offset) = (max_timestamp, last_offset);
        }
    }
}

/// A failed operation on a file: which, and what the disk said.
#[derive(Debug)]
pub(crate) struct FileError {
    pub(crate) operation: &'static str,
    pub(crate) path: PathBuf,
    pub(crate) cause: io::Error,
}

impl FileError {
    pub(crate) fn new(operation: &'static str, path: &Path, cause: io::Error) -> Self {
        Self { operation, path: path.to_owned(), cause }
    }
}

/// Files with unsynced writes, which stay open until they are synced.
pub(crate) type UnsyncedFiles<D> = Vec<(PathBuf, Arc<<D as Disk>::File>)>;

/// The segment files.
pub(crate) struct Files<D: Disk> {
    pub(crate) folder: PathBuf,
    has_folder: bool,
    /// The folder's names, and its own name, are durable.
    is_folder_synced: bool,
    /// Oldest first; the last one is written to.
    segments: VecDeque<SegmentFiles>,
    active: Option<Active<D>>,
    /// The last segment is not written to any more.
    is_sealed: bool,
    /// The number of the last swap; it only rises.
    pub(crate) last_swap: u64,
    /// Files with unsynced writes.
    unsynced: UnsyncedFiles<D>,
    /// Batches below are in the segments.
    written_end: Offset,
    unwritten_bytes: usize,
    unwritten_aborted: VecDeque<AbortedTransaction>,
}

#[derive(Clone)]
pub(crate) struct SegmentFiles {
    pub(crate) segment: Arc<Segment>,
    pub(crate) stamps: Stamps,
    /// Compaction made it, and no checkpoint names it yet: its files still have the names of that swap.
    pub(crate) swap: Option<u64>,
}

struct Active<D: Disk> {
    log: Arc<D::File>,
    is_log_unsynced: bool,
    aborted: Option<Arc<D::File>>,
}

/// Small batches on their way into one write.
pub(crate) struct Gathered {
    bytes: BytesMut,
    end: Offset,
}

/// The name of a file that compaction has made, and no checkpoint names yet. The number tells it from the next one's, which
/// may be made before the checkpoint after that.
pub(crate) fn swap_path(folder: &Path, base_offset: Offset, extension: &str, swap: u64) -> PathBuf {
    file_path(folder, base_offset, &format!("{extension}.{swap}.swap"))
}

/// The name of a file that compaction is making.
pub(crate) fn cleaned_path(folder: &Path, base_offset: Offset, extension: &str) -> PathBuf {
    file_path(folder, base_offset, &format!("{extension}.cleaned"))
}

impl<D: Disk> Files<D> {
    pub(crate) fn new(folder: PathBuf, found: FoundFiles) -> Self {
        Self {
            folder,
            has_folder: found.has_folder,
            is_folder_synced: found.has_folder,
            segments: found.segments.into(),
            active: None,
            // Nothing is written behind damage.
            is_sealed: found.damage.is_some(),
            last_swap: found.last_swap,
            unsynced: Vec::new(),
            written_end: found.written_end,
            unwritten_bytes: 0,
            unwritten_aborted: VecDeque::new(),
        }
    }

    /// A segment has index files now, if it still is the same.
    pub(crate) fn note_indexed(&self, number: SegmentNumber) {
        if let Some(files) = self.segments.iter().find(|files| files.segment.number == number) {
            files.segment.set_has_index_files();
        }
    }

    /// Writes indexes of aborted transactions that readers found damaged. What the disk does not take stays in memory. The last
    /// one only before anything is written to it.
    pub(crate) fn repair_aborted(&mut self, with_last: bool, shared: &Shared<D>) {
        let segments = self.segments.iter().rev().skip(usize::from(!with_last));
        for files in segments.filter(|files| files.swap.is_none()) {
            let segment = &files.segment;
            let Some(mut place) = segment.rebuilt_already() else { continue };
            let Some(rebuilt) = place.as_deref() else { continue };
            if let Ok(bytes) = write_anew(&*shared.disk, &self.folder, segment.base_offset, rebuilt) {
                segment.set_aborted_bytes(bytes);
                shared.handles.forget(segment.number);
                self.is_folder_synced = false;
                *place = None;
            }
        }
    }

    /// Lets nothing more be written to the last segment.
    pub(crate) fn seal(&mut self) {
        (self.is_sealed, self.active) = (true, None);
    }

    /// Salvage's: the folder is there, and says whose it is.
    pub(crate) fn restore_folder(&mut self, topic_id: TopicId, shared: &Shared<D>) -> Result<(), FileError> {
        if read_metadata(&*shared.disk, &self.folder) == Metadata::Topic(topic_id) {
            return Ok(());
        }
        shared.disk.create_directories(&self.folder).map_err(|cause| FileError::new("making", &self.folder, cause))?;
        self.has_folder = true;
        self.is_folder_synced = false;
        self.write_metadata(topic_id, shared)
    }

    pub(crate) fn segments(&self) -> impl DoubleEndedIterator<Item = &SegmentFiles> + ExactSizeIterator {
        self.segments.iter()
    }

    /// Offset below which everything is in a segment file.
    pub(crate) fn written_end(&self) -> Offset {
        self.written_end
    }

    pub(crate) fn unwritten_bytes(&self) -> usize {
        self.unwritten_bytes
    }

    /// These are durable, and in no segment yet.
    pub(crate) fn wait_for_writing(&mut self, bytes: usize) {
        self.unwritten_bytes += bytes;
    }

    pub(crate) fn wait_for_indexing(&mut self, aborted: &[AbortedTransaction]) {
        self.unwritten_aborted.extend(aborted.iter().copied());
    }

    /// Writes batches that follow each other and what is in the segments. Returns the segments that were begun.
    ///
    /// Errors: what was not written stays to be written.
    pub(crate) fn write_batches(
        &mut self,
        batches: &[TailBatch],
        topic_id: TopicId,
        settings: &Settings,
        shared: &mut Shared<D>,
        mut begun: impl FnMut(Arc<Segment>),
    ) -> Result<(), FileError> {
        self.make_folder(topic_id, shared)?;
        let mut gathered = Gathered { bytes: BytesMut::new(), end: self.written_end };
        for batch in batches {
            if self.must_roll(&gathered, batch, settings) {
                self.write(&mut gathered, shared)?;
                begun(self.roll(batch.base_offset, shared)?);
            }
            if let Some(files) = self.segments.back_mut() {
                files.stamps.note(batch.max_timestamp, batch.last_offset);
                files.segment.set_max_timestamp(files.stamps.max_timestamp);
            }
            if batch.bytes.len() >= GATHER_BYTES {
                self.write(&mut gathered, shared)?;
                self.write_bytes(&batch.bytes, batch.last_offset + 1, shared)?;
            } else {
                gathered.bytes.put_slice(&batch.bytes);
            }
            gathered.end = batch.last_offset + 1;
            if gathered.bytes.len() >= 4 * GATHER_BYTES {
                self.write(&mut gathered, shared)?;
            }
        }
        self.write(&mut gathered, shared)
    }

    /// Takes the oldest segment out of the log, if it lies below `log_start_offset` whole. The last one only when nothing waits
    /// to be written behind it. Returns it with the files that go with it.
    pub(crate) fn drop_below(&mut self, log_start_offset: Offset) -> Option<(Arc<Segment>, Vec<PathBuf>)> {
        let end = match self.segments.get(1) {
            Some(second) => second.segment.base_offset,
            None if self.unwritten_bytes == 0 => self.written_end,
            None => return None,
        };
        if end > log_start_offset {
            return None;
        }
        let first = self.segments.pop_front()?;
        if self.segments.is_empty() {
            self.active = None;
        }
        let mut paths = self.paths_of(first.segment.base_offset);
        if let Some(swap) = first.swap {
            paths.extend(["log", "txnindex"].map(|it| swap_path(&self.folder, first.segment.base_offset, it, swap)));
        }
        Some((first.segment, paths))
    }

    /// Whether a file has the name of one of the segments, or of what belongs to it.
    pub(crate) fn is_named(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str()).and_then(parse_file_name);
        name.is_some_and(|(base_offset, _)| self.segments.iter().any(|it| it.segment.base_offset == base_offset))
    }

    /// All files that a segment may have.
    fn paths_of(&self, base_offset: Offset) -> Vec<PathBuf> {
        std::iter::once("log").chain(BESIDE_LOG).map(|it| file_path(&self.folder, base_offset, it)).collect()
    }

    /// Whether what compaction has made still waits for a checkpoint.
    pub(crate) fn has_swaps(&self) -> bool {
        self.segments.iter().any(|files| files.swap.is_some())
    }

    /// Where in the segments those stand that `target` replaces, if all of them are still there.
    fn place_of(&self, target: &Target) -> Option<std::ops::Range<usize>> {
        let first = target.old.first()?;
        let start = self.segments.iter().position(|files| files.segment.number == *first)?;
        let range = start..start + target.old.len();
        // The last segment is written to, and is never replaced.
        if range.end > self.segments.len() || (range.end == self.segments.len() && !self.is_sealed) {
            return None;
        }
        let found = self.segments.range(range.clone()).map(|files| files.segment.number);
        found.eq(target.old.iter().copied()).then_some(range)
    }

    /// Puts what compaction has made in the place of what it was made from, in memory; on disk it stands beside, called `.swap`,
    /// until a checkpoint names it. Returns the files that must go then; `None` if the segments are not the same any more.
    ///
    /// Errors: nothing was changed, but for names that recovery removes.
    pub(crate) fn swap_in(
        &mut self,
        targets: &[Target],
        shared: &mut Shared<D>,
    ) -> Result<Option<Vec<PathBuf>>, FileError> {
        if !targets.iter().all(|target| self.place_of(target).is_some()) {
            return Ok(None);
        }
        self.last_swap += 1;
        let swap = self.last_swap;
        for target in targets {
            for extension in target.extensions() {
                let from = cleaned_path(&self.folder, target.base_offset, extension);
                let to = swap_path(&self.folder, target.base_offset, extension, swap);
                shared.disk.rename(&from, &to).map_err(|cause| FileError::new("renaming", &from, cause))?;
            }
        }
        let mut retired = Vec::new();
        for target in targets {
            let Some(range) = self.place_of(target) else { continue };
            let path = swap_path(&self.folder, target.base_offset, "log", swap);
            let segment = Segment::new(shared.next_segment(), target.base_offset, path, target.log_bytes);
            segment.set_max_timestamp(target.stamps.max_timestamp);
            segment.set_aborted_bytes(target.aborted_bytes);
            let files = SegmentFiles { segment: Arc::new(segment), stamps: target.stamps, swap: Some(swap) };
            let start = range.start;
            let old: Vec<SegmentFiles> = self.segments.drain(range).collect();
            self.segments.insert(start, files);
            for files in old {
                shared.handles.forget(files.segment.number);
                let base_offset = files.segment.base_offset;
                // Of the first, the new file takes the name.
                let is_renamed_over = |path: &PathBuf| {
                    base_offset == target.base_offset
                        && target.extensions().any(|it| *path == file_path(&self.folder, base_offset, it))
                };
                retired.extend(self.paths_of(base_offset).into_iter().filter(|path| !is_renamed_over(path)));
            }
        }
        self.is_folder_synced = false;
        Ok(Some(retired))
    }

    /// A checkpoint names the new segment: it takes the old one's name. Returns it under that name, with its place.
    pub(crate) fn finish_swap(
        &mut self,
        base_offset: Offset,
        shared: &mut Shared<D>,
    ) -> Result<Option<Arc<Segment>>, FileError> {
        let folder = &self.folder;
        let found = self.segments.iter_mut().find(|files| files.segment.base_offset == base_offset);
        let Some((files, swap)) = found.and_then(|files| files.swap.map(|swap| (files, swap))) else {
            return Ok(None);
        };
        if files.segment.aborted_bytes() > 0 {
            let from = swap_path(folder, base_offset, "txnindex", swap);
            match shared.disk.rename(&from, &file_path(folder, base_offset, "txnindex")) {
                Ok(()) => {}
                // The last attempt came so far.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(cause) => return Err(FileError::new("renaming", &from, cause)),
            }
        }
        let (from, to) = (swap_path(folder, base_offset, "log", swap), file_path(folder, base_offset, "log"));
        shared.disk.rename(&from, &to).map_err(|cause| FileError::new("renaming", &from, cause))?;
        shared.handles.forget(files.segment.number);
        files.segment = Arc::new(files.segment.renamed(shared.next_segment(), to));
        files.swap = None;
        self.is_folder_synced = false;
        Ok(Some(Arc::clone(&files.segment)))
    }

    pub(crate) fn has_folder(&self) -> bool {
        self.has_folder
    }

    /// Hands out the files with unsynced writes, to be synced by who asks, and whether folders must be synced as well.
    pub(crate) fn take_unsynced(&mut self) -> (UnsyncedFiles<D>, bool) {
        if let Some(active) = &mut self.active {
            active.is_log_unsynced = false;
        }
        // Opened again when it is written to: a thousand partitions need not hold a thousand files open.
        self.active = None;
        let is_folder_unsynced = self.has_folder && !self.is_folder_synced;
        self.is_folder_synced = true;
        (std::mem::take(&mut self.unsynced), is_folder_unsynced)
    }

    pub(crate) fn unsynced_count(&self) -> usize {
        self.unsynced.len()
    }

    pub(crate) fn is_unsynced(&self) -> bool {
        !self.unsynced.is_empty() || (self.has_folder && !self.is_folder_synced)
    }

    /// Recovery's: a file was cut, or a name removed.
    pub(crate) fn note_unsynced(&mut self, path: PathBuf, file: D::File) {
        self.unsynced.push((path, Arc::new(file)));
    }

    pub(crate) fn note_folder_unsynced(&mut self) {
        self.is_folder_synced = false;
    }

    /// Syncs all of it now, to save handles.
    pub(crate) fn sync(&mut self, disk: &D) -> Result<(), FileError> {
        let (files, is_folder_unsynced) = self.take_unsynced();
        for (path, file) in files {
            file.sync().map_err(|cause| FileError::new("syncing", &path, cause))?;
        }
        if is_folder_unsynced {
            for folder in [Some(self.folder.as_path()), self.folder.parent()].into_iter().flatten() {
                disk.sync_directory(folder).map_err(|cause| FileError::new("syncing", folder, cause))?;
            }
        }
        Ok(())
    }

    pub(crate) fn make_folder(&mut self, topic_id: TopicId, shared: &Shared<D>) -> Result<(), FileError> {
        if self.has_folder {
            return Ok(());
        }
        let disk = &*shared.disk;
        prepare_folder(disk, &self.folder, topic_id)
            .map_err(|cause| FileError::new("making room for", &self.folder, cause))?;
        disk.create_directories(&self.folder).map_err(|cause| FileError::new("making", &self.folder, cause))?;
        self.write_metadata(topic_id, shared)?;
        self.has_folder = true;
        self.is_folder_synced = false;
        Ok(())
    }

    fn write_metadata(&mut self, topic_id: TopicId, shared: &Shared<D>) -> Result<(), FileError> {
        let path = self.folder.join(METADATA_FILE);
        let file = shared.disk.open_or_create(&path).map_err(|cause| FileError::new("making", &path, cause))?;
        let text = format!("version: 0\ntopic_id: {topic_id}");
        let write = || {
            file.set_length(0)?;
            file.write_at(text.as_bytes(), 0)
        };
        write().map_err(|cause| FileError::new("writing", &path, cause))?;
        self.unsynced.push((path, Arc::new(file)));
        Ok(())
    }

    /// Whether `batch` belongs into a new segment. A batch without a time has no age.
    fn must_roll(&self, gathered: &Gathered, batch: &TailBatch, settings: &Settings) -> bool {
        let Some(active) = self.segments.back() else { return true };
        let bytes = active.segment.written_bytes() + gathered.bytes.len() as u64;
        let is_full = bytes > 0 && bytes + batch.bytes.len() as u64 > settings.active_bytes;
        let first = active.stamps.first_timestamp;
        let is_old =
            bytes > 0 && first >= Timestamp(0) && batch.max_timestamp.0.saturating_sub(first.0) > settings.segment_ms;
        // Kafka's index holds offsets relative to the base in 32 bits.
        let is_far = batch.last_offset - active.segment.base_offset > i64::from(i32::MAX);
        self.is_sealed || is_full || is_old || is_far
    }

    fn roll(&mut self, base_offset: Offset, shared: &mut Shared<D>) -> Result<Arc<Segment>, FileError> {
        let path = file_path(&self.folder, base_offset, "log");
        let log = shared.disk.open_or_create(&path).map_err(|cause| FileError::new("making", &path, cause))?;
        if self.is_sealed {
            // A run that nobody vouches for may have left one.
            log.set_length(0).map_err(|cause| FileError::new("emptying", &path, cause))?;
            self.is_sealed = false;
        }
        let segment = Arc::new(Segment::new(shared.next_segment(), base_offset, path, 0));
        self.is_folder_synced = false;
        self.active = Some(Active { log: Arc::new(log), is_log_unsynced: false, aborted: None });
        self.segments.push_back(SegmentFiles { segment: Arc::clone(&segment), stamps: Stamps::NONE, swap: None });
        Ok(segment)
    }

    fn write(&mut self, gathered: &mut Gathered, shared: &Shared<D>) -> Result<(), FileError> {
        if gathered.bytes.is_empty() {
            return Ok(());
        }
        let bytes = gathered.bytes.split();
        self.write_bytes(&bytes, gathered.end, shared)
    }

    /// Writes batches that end before `end` to the active segment, and what was aborted among them to its index.
    fn write_bytes(&mut self, bytes: &[u8], end: Offset, shared: &Shared<D>) -> Result<(), FileError> {
        let Some(files) = self.segments.back_mut() else {
            return Err(FileError::new("writing", &self.folder, io::Error::from(io::ErrorKind::NotFound)));
        };
        let segment = &files.segment;
        if self.active.is_none() {
            let log =
                shared.disk.open(&segment.path).map_err(|cause| FileError::new("opening", &segment.path, cause))?;
            self.active = Some(Active { log: Arc::new(log), is_log_unsynced: false, aborted: None });
        }
        let Some(active) = &mut self.active else { return Ok(()) };
        let position = segment.written_bytes();
        if !active.is_log_unsynced {
            active.is_log_unsynced = true;
            self.unsynced.push((segment.path.clone(), Arc::clone(&active.log)));
        }
        active.log.write_at(bytes, position).map_err(|cause| FileError::new("writing", &segment.path, cause))?;
        let mut aborted = BytesMut::new();
        let count = self.unwritten_aborted.iter().take_while(|entry| entry.last_offset < end).count();
        self.unwritten_aborted.range(..count).for_each(|entry| encode_aborted(entry, &mut aborted));
        if !aborted.is_empty() {
            let path = file_path(&self.folder, segment.base_offset, "txnindex");
            let file = match &active.aborted {
                Some(file) => Arc::clone(file),
                None => {
                    let file =
                        shared.disk.open_or_create(&path).map_err(|cause| FileError::new("making", &path, cause))?;
                    let file = Arc::new(file);
                    self.unsynced.push((path.clone(), Arc::clone(&file)));
                    // It may be new, and its name not durable.
                    self.is_folder_synced = false;
                    active.aborted = Some(Arc::clone(&file));
                    file
                }
            };
            let written = segment.aborted_bytes();
            file.write_at(&aborted, written).map_err(|cause| FileError::new("writing", &path, cause))?;
            segment.set_aborted_bytes(written + aborted.len() as u64);
        }
        self.unwritten_aborted.drain(..count);
        segment.set_written_bytes(position + bytes.len() as u64);
        self.written_end = end;
        self.unwritten_bytes = self.unwritten_bytes.saturating_sub(bytes.len());
        Ok(())
    }
}
