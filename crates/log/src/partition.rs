//! One partition's log, as its writer sees it: what is staged, what producers there are, and the segment files behind.
//!
//! **What it does not know**: the journal, other partitions, when a commit happens.
//!
//! Invariants: `written_end ≤ high watermark ≤ next_offset`; what lies between the first two is in the reader's tail;
//! a file with unsynced writes stays open until it is synced.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use atonce_kernel::disk::{Disk, DiskFile};
use atonce_kernel::{Offset, Outcome, Timestamp, TopicId, TopicPartition};
use bytes::{BufMut, Bytes, BytesMut};

use crate::batch::{BatchHeader, EndTransactionMarker};
use crate::catalog::Topic;
use crate::folders::{METADATA_FILE, prepare_folder};
use crate::handles::{Handles, SegmentNumber};
use crate::producer::Producers;
use crate::reader::{AbortedTransaction, PartitionReader, TailBatch};
use crate::segment::{Segment, file_path};

/// Bytes of an aborted transaction in a `.txnindex` file.
pub(crate) const ABORTED_BYTES: usize = 34;
/// Batches below this are gathered into one write; larger ones are written as they stand, which saves the copy.
const GATHER_BYTES: usize = 32 << 10;

/// A topic's settings, as far as a log obeys them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) segment_bytes: u64,
    pub(crate) is_log_append_time: bool,
}

impl Settings {
    /// A setting that makes no sense counts as not given: the broker has refused it long before.
    pub(crate) fn of(topic: &Topic, default_segment_bytes: u64) -> Self {
        let segment_bytes = topic.configs.get("segment.bytes").and_then(|text| text.parse().ok());
        Self {
            segment_bytes: segment_bytes.unwrap_or(default_segment_bytes),
            is_log_append_time: topic.configs.get("message.timestamp.type").is_some_and(|text| text == "LogAppendTime"),
        }
    }
}

/// What all partitions of a storage share.
pub(crate) struct Shared<D: Disk> {
    pub(crate) disk: Arc<D>,
    pub(crate) handles: Arc<Handles<D>>,
    last_segment: u64,
}

impl<D: Disk> Shared<D> {
    pub(crate) fn new(disk: Arc<D>, open_files_max: usize) -> Self {
        Self { handles: Arc::new(Handles::new(Arc::clone(&disk), open_files_max)), disk, last_segment: 0 }
    }

    pub(crate) fn next_segment(&mut self) -> SegmentNumber {
        self.last_segment += 1;
        SegmentNumber(self.last_segment)
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
    fn new(operation: &'static str, path: &Path, cause: io::Error) -> Self {
        Self { operation, path: path.to_owned(), cause }
    }
}

/// Where in the groups of this commit a batch stands.
#[derive(Clone, Debug)]
pub(crate) struct GroupRange {
    pub(crate) group: usize,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

struct StagedBatch {
    base_offset: Offset,
    last_offset: Offset,
    max_timestamp: Timestamp,
    range: GroupRange,
}

/// See the module's comment.
pub(crate) struct Partition<D: Disk> {
    pub(crate) name: TopicPartition,
    pub(crate) topic_id: TopicId,
    pub(crate) reader: Arc<PartitionReader<D>>,
    pub(crate) producers: Producers,
    pub(crate) settings: Settings,
    /// The offset that the next batch gets; staged.
    pub(crate) next_offset: Offset,
    /// Staged.
    pub(crate) log_start_offset: Offset,
    /// Something was staged since the last commit.
    pub(crate) is_touched: bool,
    /// It waits in the storage's queue for its segment to be written.
    pub(crate) is_queued: bool,
    staged: Vec<StagedBatch>,
    staged_aborted: Vec<AbortedTransaction>,
    pub(crate) files: Files<D>,
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
    /// Files with unsynced writes.
    unsynced: UnsyncedFiles<D>,
    /// Batches below are in the segments.
    written_end: Offset,
    unwritten_bytes: usize,
    unwritten_aborted: VecDeque<AbortedTransaction>,
}

pub(crate) struct SegmentFiles {
    pub(crate) segment: Arc<Segment>,
    pub(crate) aborted_bytes: u64,
}

struct Active<D: Disk> {
    log: Arc<D::File>,
    is_log_unsynced: bool,
    aborted: Option<Arc<D::File>>,
}

/// What a checkpoint found of a partition's files.
pub(crate) struct FoundFiles {
    pub(crate) written_end: Offset,
    pub(crate) segments: Vec<SegmentFiles>,
    pub(crate) aborted: Vec<AbortedTransaction>,
}

impl<D: Disk> Partition<D> {
    /// An empty partition without files.
    pub(crate) fn new(
        name: TopicPartition,
        topic_id: TopicId,
        data_folder: &Path,
        settings: Settings,
        shared: &Shared<D>,
    ) -> Self {
        let folder = data_folder.join(name.to_string());
        let found = FoundFiles { written_end: 0, segments: Vec::new(), aborted: Vec::new() };
        Self::with_files(name, topic_id, folder, settings, shared, found, Producers::default(), 0)
    }

    /// A partition as a checkpoint vouches for it.
    #[expect(clippy::too_many_arguments, reason = "each is another thing, and all are needed")]
    pub(crate) fn with_files(
        name: TopicPartition,
        topic_id: TopicId,
        folder: PathBuf,
        settings: Settings,
        shared: &Shared<D>,
        found: FoundFiles,
        producers: Producers,
        log_start_offset: Offset,
    ) -> Self {
        let reader = Arc::new(PartitionReader::new(name.clone(), Arc::clone(&shared.handles), log_start_offset));
        {
            let mut view = reader.view_mut();
            view.segments = found.segments.iter().map(|files| Arc::clone(&files.segment)).collect();
            view.aborted = found.aborted.into();
            view.watermarks.high_watermark = found.written_end;
            view.watermarks.last_stable_offset = last_stable_offset(&producers, found.written_end, log_start_offset);
        }
        let has_folder = !found.segments.is_empty();
        Self {
            name,
            topic_id,
            reader,
            producers,
            settings,
            next_offset: found.written_end,
            log_start_offset,
            is_touched: false,
            is_queued: false,
            staged: Vec::new(),
            staged_aborted: Vec::new(),
            files: Files {
                folder,
                has_folder,
                is_folder_synced: has_folder,
                segments: found.segments.into(),
                active: None,
                unsynced: Vec::new(),
                written_end: found.written_end,
                unwritten_bytes: 0,
                unwritten_aborted: VecDeque::new(),
            },
        }
    }

    /// Follows a data batch that stands at `range` with `next_offset` in it.
    pub(crate) fn stage_batch(&mut self, header: &BatchHeader, range: GroupRange) {
        self.producers.apply_batch(header, self.next_offset);
        self.stage(header, range);
    }

    /// Follows a marker that stands at `range` with `next_offset` in it.
    pub(crate) fn stage_marker(&mut self, header: &BatchHeader, marker: EndTransactionMarker, range: GroupRange) {
        let completed = self.producers.apply_marker(header, marker, self.next_offset);
        match (marker.outcome, completed) {
            (Outcome::Abort, Some(completed)) => self.staged_aborted.push(AbortedTransaction {
                producer_id: header.producer.id,
                first_offset: completed.first_offset,
                last_offset: self.next_offset,
                last_stable_offset: completed.last_stable_offset,
            }),
            (Outcome::Abort, None) | (Outcome::Commit, Some(_) | None) => {}
        }
        self.stage(header, range);
    }

    fn stage(&mut self, header: &BatchHeader, range: GroupRange) {
        let base_offset = self.next_offset;
        let last_offset = base_offset + i64::from(header.last_offset_delta);
        self.staged.push(StagedBatch { base_offset, last_offset, max_timestamp: header.max_timestamp, range });
        self.next_offset = last_offset + 1;
    }

    /// Makes what is staged visible; `groups` are those of this commit. Returns how many batches that were.
    pub(crate) fn publish(&mut self, groups: &[Bytes]) -> usize {
        let count = self.staged.len();
        let mut view = self.reader.view_mut();
        for staged in self.staged.drain(..) {
            let StagedBatch { base_offset, last_offset, max_timestamp, range } = staged;
            if let Some(group) = groups.get(range.group) {
                let bytes = group.slice(range.start..range.end);
                self.files.unwritten_bytes += bytes.len();
                view.tail.push_back(TailBatch { base_offset, last_offset, max_timestamp, bytes });
            }
        }
        self.files.unwritten_aborted.extend(self.staged_aborted.iter().copied());
        view.aborted.extend(self.staged_aborted.drain(..));
        while view.aborted.front().is_some_and(|aborted| aborted.last_offset < self.log_start_offset) {
            view.aborted.pop_front();
        }
        view.watermarks.log_start_offset = self.log_start_offset;
        view.watermarks.high_watermark = self.next_offset;
        view.watermarks.last_stable_offset =
            last_stable_offset(&self.producers, self.next_offset, self.log_start_offset);
        view.watermarks.generation += 1;
        drop(view);
        self.is_touched = false;
        count
    }

    /// Readers learn that there is nothing to read any more.
    pub(crate) fn mark_deleted(&mut self) {
        let mut view = self.reader.view_mut();
        view.is_deleted = true;
        view.tail.clear();
        view.segments.clear();
        view.aborted.clear();
        view.watermarks.generation += 1;
    }

    pub(crate) fn unwritten_bytes(&self) -> usize {
        self.files.unwritten_bytes
    }

    /// Offset below which everything is in a segment file.
    pub(crate) fn written_end(&self) -> Offset {
        self.files.written_end
    }

    /// Drops the `count` oldest batches from memory; they are in the segments.
    pub(crate) fn drop_from_tail(&mut self, count: usize) {
        let mut view = self.reader.view_mut();
        let count = count.min(view.tail.len());
        debug_assert!(
            view.tail.range(..count).all(|batch| batch.last_offset < self.files.written_end),
            "{}: a batch that is in no segment leaves memory",
            self.name
        );
        view.tail.drain(..count);
    }

    /// Writes what is durable and not yet in a segment. Plain writes: nothing is durable there before a checkpoint.
    ///
    /// Errors: what was not written stays in memory and in the journal.
    pub(crate) fn write_segments(&mut self, shared: &mut Shared<D>) -> Result<(), FileError> {
        let batches: Vec<TailBatch> = {
            let view = self.reader.view();
            let first = view.tail.partition_point(|batch| batch.base_offset < self.files.written_end);
            view.tail.range(first..).cloned().collect()
        };
        if batches.is_empty() {
            return Ok(());
        }
        self.files.make_folder(self.topic_id, shared)?;
        let mut gathered = Gathered { bytes: BytesMut::new(), end: self.files.written_end };
        for batch in &batches {
            if self.files.must_roll(&gathered, batch, self.settings.segment_bytes) {
                self.files.write(&mut gathered, shared)?;
                let segment = self.files.roll(batch.base_offset, shared)?;
                self.reader.view_mut().segments.push(segment);
            }
            if batch.bytes.len() >= GATHER_BYTES {
                self.files.write(&mut gathered, shared)?;
                self.files.write_bytes(&batch.bytes, batch.last_offset + 1, shared)?;
                gathered.end = batch.last_offset + 1;
            } else {
                gathered.bytes.put_slice(&batch.bytes);
                gathered.end = batch.last_offset + 1;
                if gathered.bytes.len() >= 4 * GATHER_BYTES {
                    self.files.write(&mut gathered, shared)?;
                }
            }
        }
        self.files.write(&mut gathered, shared)
    }

    /// Segments that lie below the log start leave the log; returns their files, to be removed when a checkpoint does
    /// not name them any more.
    pub(crate) fn drop_old_segments(&mut self, shared: &Shared<D>) -> Vec<PathBuf> {
        let mut removed = Vec::new();
        let mut view = self.reader.view_mut();
        let log_start_offset = view.watermarks.log_start_offset;
        while self.files.segments.get(1).is_some_and(|second| second.segment.base_offset <= log_start_offset) {
            let Some(first) = self.files.segments.pop_front() else { break };
            view.segments.retain(|segment| segment.number != first.segment.number);
            shared.handles.forget(first.segment.number);
            removed.push(first.segment.path.clone());
            if first.aborted_bytes > 0 {
                removed.push(file_path(&self.files.folder, first.segment.base_offset, "txnindex"));
            }
        }
        removed
    }
}

/// The last stable offset when everything is durable.
fn last_stable_offset(producers: &Producers, high_watermark: Offset, log_start_offset: Offset) -> Offset {
    producers.first_unstable_offset().map_or(high_watermark, |first| first.max(log_start_offset))
}

/// Small batches on their way into one write.
struct Gathered {
    bytes: BytesMut,
    end: Offset,
}

impl<D: Disk> Files<D> {
    pub(crate) fn segments(&self) -> impl ExactSizeIterator<Item = &SegmentFiles> {
        self.segments.iter()
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

    fn make_folder(&mut self, topic_id: TopicId, shared: &Shared<D>) -> Result<(), FileError> {
        if self.has_folder {
            return Ok(());
        }
        let disk = &*shared.disk;
        prepare_folder(disk, &self.folder, topic_id)
            .map_err(|cause| FileError::new("making room for", &self.folder, cause))?;
        disk.create_directories(&self.folder).map_err(|cause| FileError::new("making", &self.folder, cause))?;
        let path = self.folder.join(METADATA_FILE);
        let file = disk.open_or_create(&path).map_err(|cause| FileError::new("making", &path, cause))?;
        let text = format!("version: 0\ntopic_id: {topic_id}");
        file.write_at(text.as_bytes(), 0).map_err(|cause| FileError::new("writing", &path, cause))?;
        self.unsynced.push((path, Arc::new(file)));
        self.has_folder = true;
        self.is_folder_synced = false;
        Ok(())
    }

    fn must_roll(&self, gathered: &Gathered, batch: &TailBatch, segment_bytes: u64) -> bool {
        let Some(active) = self.segments.back() else { return true };
        let bytes = active.segment.written_bytes() + gathered.bytes.len() as u64;
        let is_full = bytes > 0 && bytes + batch.bytes.len() as u64 > segment_bytes;
        // Kafka's index holds offsets relative to the base in 32 bits.
        let is_far = batch.last_offset - active.segment.base_offset > i64::from(i32::MAX);
        is_full || is_far
    }

    fn roll(&mut self, base_offset: Offset, shared: &mut Shared<D>) -> Result<Arc<Segment>, FileError> {
        let path = file_path(&self.folder, base_offset, "log");
        let log = shared.disk.open_or_create(&path).map_err(|cause| FileError::new("making", &path, cause))?;
        let segment = Arc::new(Segment::new(shared.next_segment(), base_offset, path, 0));
        self.is_folder_synced = false;
        self.active = Some(Active { log: Arc::new(log), is_log_unsynced: false, aborted: None });
        self.segments.push_back(SegmentFiles { segment: Arc::clone(&segment), aborted_bytes: 0 });
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
            file.write_at(&aborted, files.aborted_bytes).map_err(|cause| FileError::new("writing", &path, cause))?;
            files.aborted_bytes += aborted.len() as u64;
        }
        self.unwritten_aborted.drain(..count);
        segment.set_written_bytes(position + bytes.len() as u64);
        self.written_end = end;
        self.unwritten_bytes = self.unwritten_bytes.saturating_sub(bytes.len());
        Ok(())
    }
}

/// Layout: at [`AbortedTransaction`].
fn encode_aborted(aborted: &AbortedTransaction, buffer: &mut BytesMut) {
    buffer.put_i16(0);
    buffer.put_i64(aborted.producer_id.0);
    buffer.put_i64(aborted.first_offset);
    buffer.put_i64(aborted.last_offset);
    buffer.put_i64(aborted.last_stable_offset);
}
