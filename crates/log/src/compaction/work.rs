//! The slow part of a compaction: reading all of it twice, and writing what is kept.
//!
//! **What it does not know**: the storage; it has a copy of all it needs. What it makes lies in files of its own names, which
//! mean nothing until the storage takes them over, and are removed by the next start if it never does.
//!
//! First pass: the last offset of each key between the first dirty offset and as far as memory reaches. Second pass: all
//! segments from the first on, in groups that fit into a segment again. What memory did not reach is the next compaction's.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use atonce_kernel::disk::{Disk, DiskFile};
use atonce_kernel::{Offset, ProducerEpoch, ProducerId, Timestamp, TopicPartition};
use atonce_protocol::records::{BatchView, RecordView, rewrite_batch};
use bytes::{Bytes, BytesMut};

use super::keys::KeyMap;
use super::transactions::{MarkerFate, Transactions};
use crate::aborted::encode_aborted;
use crate::batch::{BatchHeader, EndTransactionMarker};
use crate::error::ReadError;
use crate::files::{GATHER_BYTES, Stamps, cleaned_path};
use crate::handles::SegmentNumber;
use crate::reader::PartitionReader;
use crate::segment::Segment;
use crate::settings::Settings;

/// A batch that unpacks to more than this is not compacted, and neither is its log.
const UNPACKED_BYTES_MAX: usize = 256 << 20;

/// Why a compaction came to nothing. The log is as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompactionError {
    /// A segment cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The new files cannot be written; the disk may be full.
    #[error("{operation} of {path} failed: {cause}", path = .path.display())]
    Write {
        /// What was tried.
        operation: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the disk said.
        cause: String,
    },
}

/// Whether there is more to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionProgress {
    /// Call [`CompactionWork::step`] again.
    More,
    /// Hand [`CompactionWork::finish`] to the storage.
    Done,
}

/// A segment that may be compacted.
#[derive(Clone)]
pub(crate) struct SourceSegment {
    pub(crate) segment: Arc<Segment>,
    /// The base offset of the next one.
    pub(crate) end: Offset,
}

/// All that a compaction looks at.
pub(crate) struct Source<D: Disk> {
    pub(crate) partition: TopicPartition,
    pub(crate) folder: PathBuf,
    pub(crate) segments: Vec<SourceSegment>,
    /// Knows what was aborted.
    pub(crate) reader: Arc<PartitionReader<D>>,
    /// The last data of each producer that is remembered; `None`: it has only markers, of this epoch.
    pub(crate) producers: BTreeMap<ProducerId, (ProducerEpoch, Option<Offset>)>,
    pub(crate) log_start_offset: Offset,
    pub(crate) first_dirty_offset: Offset,
    pub(crate) settings: Settings,
    pub(crate) now: Timestamp,
    pub(crate) key_map_bytes_max: usize,
    pub(crate) step_bytes: usize,
}

/// A segment that compaction has made out of others.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) old: Vec<SegmentNumber>,
    pub(crate) base_offset: Offset,
    pub(crate) log_bytes: u64,
    /// Of its index of aborted transactions.
    pub(crate) aborted_bytes: u64,
    pub(crate) stamps: Stamps,
}

impl Target {
    /// Of the files it has.
    pub(crate) fn extensions(&self) -> impl Iterator<Item = &'static str> + use<> {
        let aborted = if self.aborted_bytes == 0 { None } else { Some("txnindex") };
        std::iter::once("log").chain(aborted)
    }
}

/// What compaction has made of a log's beginning.
#[derive(Debug)]
pub(crate) struct Cleaned {
    pub(crate) targets: Vec<Target>,
    /// Offsets of the segments that are replaced.
    pub(crate) replaced: Range<Offset>,
    /// Below, each key is there once.
    pub(crate) end: Offset,
}

/// What became of a compaction. Hand it to [`Storage::finish_compaction`](crate::Storage::finish_compaction).
#[derive(Debug)]
#[must_use]
pub struct CompactionDone {
    pub(crate) slot: usize,
    partition: TopicPartition,
    /// Bytes of the segments that were read, and of those that take their place.
    bytes: (u64, u64),
    /// What was read.
    pub(crate) sources: Vec<SegmentNumber>,
    /// Files that were made, whatever became of them.
    pub(crate) made: Vec<PathBuf>,
    pub(crate) result: Result<Cleaned, CompactionError>,
}

impl CompactionDone {
    /// Which log.
    pub fn partition(&self) -> &TopicPartition {
        &self.partition
    }

    /// Bytes of the segments that were compacted, before and after.
    pub fn bytes(&self) -> (u64, u64) {
        self.bytes
    }
}

/// A compaction under way. It touches nothing that the writer needs, so it may run on another thread.
pub struct CompactionWork<D: Disk> {
    disk: Arc<D>,
    slot: usize,
    source: Source<D>,
    transactions: Transactions,
    keys: KeyMap,
    phase: Phase<D>,
    groups: Vec<Range<usize>>,
    targets: Vec<Target>,
    made: Vec<PathBuf>,
    /// Read and written so far.
    moved_bytes: u64,
    failed: Option<CompactionError>,
}

enum Phase<D: Disk> {
    Mapping(Cursor<D>),
    /// Copies the group of that index.
    Copying(usize, Cursor<D>, Output<D>),
    Done,
}

/// A place in the segments that are read.
struct Cursor<D: Disk> {
    segment: usize,
    position: u64,
    file: Option<D::File>,
}

impl<D: Disk> Cursor<D> {
    fn at(segment: usize) -> Self {
        Self { segment, position: 0, file: None }
    }
}

/// A segment that is being written.
struct Output<D: Disk> {
    file: D::File,
    path: PathBuf,
    waiting: BytesMut,
    written: u64,
    base_offset: Offset,
    stamps: Stamps,
    /// Entries of its index of aborted transactions.
    aborted: BytesMut,
}

impl<D: Disk> CompactionWork<D> {
    pub(crate) fn new(disk: Arc<D>, slot: usize, source: Source<D>) -> Self {
        let first = source.segments.iter().position(|it| it.end > source.first_dirty_offset);
        Self {
            disk,
            slot,
            transactions: Transactions::default(),
            keys: KeyMap::new(source.key_map_bytes_max, source.first_dirty_offset),
            phase: first.map_or(Phase::Done, |first| Phase::Mapping(Cursor::at(first))),
            source,
            groups: Vec::new(),
            targets: Vec::new(),
            made: Vec::new(),
            moved_bytes: 0,
            failed: None,
        }
    }

    /// Which log.
    pub fn partition(&self) -> &TopicPartition {
        &self.source.partition
    }

    /// Bytes read and written so far, by which its holder may hold it back.
    pub fn moved_bytes(&self) -> u64 {
        let writing = match &self.phase {
            Phase::Copying(_, _, output) => output.written,
            Phase::Mapping(_) | Phase::Done => 0,
        };
        self.moved_bytes + writing + self.targets.iter().map(|target| target.log_bytes).sum::<u64>()
    }

    /// Does a bounded piece of it: reads some megabytes, writes as many at most.
    pub fn step(&mut self) -> CompactionProgress {
        if let Err(error) = self.try_step() {
            self.failed = Some(error);
            self.phase = Phase::Done;
        }
        match self.phase {
            Phase::Mapping(_) | Phase::Copying(..) => CompactionProgress::More,
            Phase::Done => CompactionProgress::Done,
        }
    }

    /// What became of it. If it is not done, it comes to nothing.
    pub fn finish(self) -> CompactionDone {
        let sources = self.source.segments.iter().map(|it| it.segment.number).collect();
        let count = self.groups.last().map_or(0, |group| group.end);
        let replaced = self.source.segments.get(..count).unwrap_or_default();
        let before = replaced.iter().map(|it| it.segment.written_bytes()).sum();
        let after = self.targets.iter().map(|target| target.log_bytes).sum();
        let start = replaced.first().map_or(0, |it| it.segment.base_offset);
        let replaced = start..replaced.last().map_or(start, |it| it.end);
        let result = match (self.failed, self.phase) {
            (Some(error), _) => Err(error),
            (None, Phase::Done) => Ok(Cleaned { targets: self.targets, replaced, end: self.keys.end() }),
            (None, Phase::Mapping(_) | Phase::Copying(..)) => {
                Ok(Cleaned { targets: Vec::new(), replaced: 0..0, end: self.source.first_dirty_offset })
            }
        };
        CompactionDone {
            slot: self.slot,
            partition: self.source.partition,
            bytes: (before, after),
            sources,
            made: self.made,
            result,
        }
    }

    fn try_step(&mut self) -> Result<(), CompactionError> {
        match std::mem::replace(&mut self.phase, Phase::Done) {
            Phase::Mapping(mut cursor) => {
                if self.map_piece(&mut cursor)? {
                    self.phase = Phase::Mapping(cursor);
                } else {
                    self.groups = self.choose_groups();
                    self.transactions.begin_pass();
                    self.begin_group(0)?;
                }
            }
            Phase::Copying(group, mut cursor, mut output) => {
                let end = self.groups.get(group).map_or(0, |group| group.end);
                if self.copy_piece(end, &mut cursor, &mut output)? {
                    self.phase = Phase::Copying(group, cursor, output);
                } else {
                    self.end_group(group, output)?;
                    self.begin_group(group + 1)?;
                }
            }
            Phase::Done => {}
        }
        Ok(())
    }

    /// The next batches at the cursor in segments below `end`, each with its place; `None` behind the last one.
    fn read_piece(&mut self, cursor: &mut Cursor<D>, end: usize) -> Result<Option<Piece>, CompactionError> {
        while cursor.segment < end
            && let Some(source) = self.source.segments.get(cursor.segment)
        {
            let segment = Arc::clone(&source.segment);
            if cursor.position >= segment.written_bytes() {
                *cursor = Cursor::at(cursor.segment + 1);
                continue;
            }
            if cursor.file.is_none() {
                let file = self.disk.open(&segment.path).map_err(|error| ReadError::disk(&segment.path, &error))?;
                cursor.file = Some(file);
                let aborted = self.source.reader.aborted_between(segment.base_offset, source.end)?;
                self.transactions.begin_segment(aborted);
            }
            let Some(file) = &cursor.file else { continue };
            let batches = segment.batches_from(file, cursor.position, self.source.step_bytes)?;
            let start = cursor.position;
            let bytes = batches.iter().map(|batch| batch.len() as u64).sum::<u64>();
            cursor.position += bytes;
            self.moved_bytes += bytes;
            return Ok(Some(Piece { segment, start, batches }));
        }
        Ok(None)
    }

    /// Takes keys of some batches. `false`: memory is full, or this was the end.
    fn map_piece(&mut self, cursor: &mut Cursor<D>) -> Result<bool, CompactionError> {
        let Some(piece) = self.read_piece(cursor, self.source.segments.len())? else {
            self.keys.set_end(self.source.segments.last().map_or(self.source.first_dirty_offset, |last| last.end));
            return Ok(false);
        };
        for (position, bytes) in piece.places() {
            let (header, view) = piece.open(position, bytes)?;
            if header.last_offset() < self.source.first_dirty_offset {
                continue;
            }
            if self.keys.is_full() {
                return Ok(false);
            }
            if !header.is_control() && !self.transactions.meet_data(&header) {
                self.map_batch(&piece, position, &view)?;
            }
            self.keys.set_end(header.next_offset());
        }
        Ok(true)
    }

    fn map_batch(&mut self, piece: &Piece, position: u64, view: &BatchView<'_>) -> Result<(), CompactionError> {
        let corrupt = |error: atonce_protocol::records::RecordError| piece.corrupt(position, error.to_string());
        let payload = view.decompress(UNPACKED_BYTES_MAX).map_err(corrupt)?;
        for record in view.records_in(&payload) {
            let record = record.map_err(corrupt)?;
            if let Some(key) = record.key
                && record.offset >= self.source.first_dirty_offset
            {
                self.keys.put(key, record.offset);
            }
        }
        Ok(())
    }

    /// Which segments become one: neighbours whose bytes fit into a segment, and whose offsets into its index.
    fn choose_groups(&self) -> Vec<Range<usize>> {
        let mut groups: Vec<Range<usize>> = Vec::new();
        let (mut bytes, mut base_offset) = (0, 0);
        for (index, source) in self.source.segments.iter().enumerate() {
            if source.segment.base_offset >= self.keys.end() {
                break;
            }
            let more = source.segment.written_bytes();
            let fits =
                bytes + more <= self.source.settings.segment_bytes && source.end - base_offset <= i64::from(i32::MAX);
            match groups.last_mut().filter(|_| fits) {
                Some(group) => {
                    group.end = index + 1;
                    bytes += more;
                }
                None => {
                    groups.push(index..index + 1);
                    (bytes, base_offset) = (more, source.segment.base_offset);
                }
            }
        }
        groups
    }

    /// Opens the file for a group; behind the last one, all is done.
    fn begin_group(&mut self, group: usize) -> Result<(), CompactionError> {
        let Some(first) = self.groups.get(group).map(|it| it.start) else { return Ok(()) };
        let Some(base_offset) = self.source.segments.get(first).map(|it| it.segment.base_offset) else { return Ok(()) };
        let path = cleaned_path(&self.source.folder, base_offset, "log");
        let file = self.make(&path)?;
        let output = Output {
            file,
            path,
            waiting: BytesMut::new(),
            written: 0,
            base_offset,
            stamps: Stamps::NONE,
            aborted: BytesMut::new(),
        };
        self.phase = Phase::Copying(group, Cursor::at(first), output);
        Ok(())
    }

    fn make(&mut self, path: &Path) -> Result<D::File, CompactionError> {
        let failed = |error| CompactionError::write("making", path, &error);
        // One that was given up may have left its own.
        let file = self.disk.open_or_create(path).map_err(failed)?;
        self.made.push(path.to_owned());
        file.set_length(0).map_err(failed)?;
        Ok(file)
    }

    fn end_group(&mut self, group: usize, mut output: Output<D>) -> Result<(), CompactionError> {
        output.flush()?;
        output.file.sync().map_err(|error| CompactionError::write("syncing", &output.path, &error))?;
        if !output.aborted.is_empty() {
            let path = cleaned_path(&self.source.folder, output.base_offset, "txnindex");
            let file = self.make(&path)?;
            file.write_at(&output.aborted, 0).map_err(|error| CompactionError::write("writing", &path, &error))?;
            file.sync().map_err(|error| CompactionError::write("syncing", &path, &error))?;
        }
        let group = self.groups.get(group).cloned().unwrap_or_default();
        let old = self.source.segments.get(group).unwrap_or_default();
        self.targets.push(Target {
            old: old.iter().map(|it| it.segment.number).collect(),
            base_offset: output.base_offset,
            log_bytes: output.written,
            aborted_bytes: output.aborted.len() as u64,
            stamps: output.stamps,
        });
        Ok(())
    }

    /// Copies some batches of segments below `end`. `false`: there are no more.
    fn copy_piece(
        &mut self,
        end: usize,
        cursor: &mut Cursor<D>,
        output: &mut Output<D>,
    ) -> Result<bool, CompactionError> {
        let Some(piece) = self.read_piece(cursor, end)? else { return Ok(false) };
        for (position, bytes) in piece.places() {
            let (header, view) = piece.open(position, bytes)?;
            if header.last_offset() < self.source.log_start_offset {
                continue;
            }
            if let Some(kept) = self.keep(&piece, position, bytes, &header, &view, output)? {
                output.put(&kept, &header)?;
            }
        }
        Ok(true)
    }

    /// What stays of a batch; `None`: nothing.
    fn keep(
        &mut self,
        piece: &Piece,
        position: u64,
        bytes: &Bytes,
        header: &BatchHeader,
        view: &BatchView<'_>,
        output: &mut Output<D>,
    ) -> Result<Option<Bytes>, CompactionError> {
        let corrupt = |error: atonce_protocol::records::RecordError| piece.corrupt(position, error.to_string());
        let is_spent_marker = if header.is_control() {
            match self.meet_marker(piece, position, bytes, header)? {
                MarkerFate::Needed(aborted) => {
                    aborted.iter().for_each(|entry| encode_aborted(entry, &mut output.aborted));
                    return Ok(Some(bytes.clone()));
                }
                MarkerFate::Spent => true,
            }
        } else {
            false
        };
        let is_aborted = !header.is_control() && self.transactions.meet_data(header);
        if header.base_offset >= self.keys.end() {
            return Ok(Some(bytes.clone()));
        }
        let horizon = view.delete_horizon_ms();
        let is_past_horizon = horizon.is_some_and(|horizon| horizon <= self.source.now.0);
        let mut kept: Vec<RecordView<'_>> = Vec::new();
        let payload;
        let goes_whole = is_aborted || (is_spent_marker && is_past_horizon);
        if !goes_whole {
            payload = view.decompress(UNPACKED_BYTES_MAX).map_err(corrupt)?;
            for record in view.records_in(&payload) {
                let record = record.map_err(corrupt)?;
                if header.is_control() || self.is_kept(&record, is_past_horizon) {
                    kept.push(record);
                }
            }
        }
        if kept.is_empty() {
            if !self.is_last_of_producer(header) {
                return Ok(None);
            }
            if header.records_count == 0 {
                return Ok(Some(bytes.clone()));
            }
            return rewrite_batch(view, &[], None).map(Some).map_err(|error| corrupt(error).into());
        }
        let has_tombstones = !header.is_control() && kept.iter().any(|record| record.value.is_none());
        let new_horizon = ((has_tombstones || is_spent_marker) && horizon.is_none())
            .then(|| self.source.now.0.saturating_add(self.source.settings.delete_retention_ms));
        if new_horizon.is_none() && usize::try_from(header.records_count) == Ok(kept.len()) {
            return Ok(Some(bytes.clone()));
        }
        rewrite_batch(view, &kept, new_horizon).map(Some).map_err(|error| corrupt(error).into())
    }

    fn meet_marker(
        &mut self,
        piece: &Piece,
        position: u64,
        bytes: &Bytes,
        header: &BatchHeader,
    ) -> Result<MarkerFate, CompactionError> {
        // Its record is gone: it ended nothing that is left.
        if header.records_count == 0 {
            return Ok(MarkerFate::Spent);
        }
        let marker = EndTransactionMarker::parse(bytes).map_err(|error| piece.corrupt(position, error.to_string()))?;
        Ok(self.transactions.meet_marker(header, marker.outcome))
    }

    /// A record without a key can never be replaced, and does not belong here. A tombstone goes after its horizon, when
    /// all that had seen what it deletes have seen that it was deleted.
    fn is_kept(&self, record: &RecordView<'_>, is_past_horizon: bool) -> bool {
        let Some(key) = record.key else { return false };
        let is_spent_tombstone = record.value.is_none() && is_past_horizon;
        !is_spent_tombstone && !self.keys.is_replaced(key, record.offset)
    }

    /// The last that is remembered of a producer is kept, even empty: else its next sequence would be unknown.
    fn is_last_of_producer(&self, header: &BatchHeader) -> bool {
        if !header.has_producer() {
            return false;
        }
        match self.source.producers.get(&header.producer.id) {
            Some((_, Some(last_offset))) => header.last_offset() == *last_offset,
            Some((epoch, None)) => header.is_control() && header.producer.epoch == *epoch,
            None => false,
        }
    }
}

/// Batches that were read at once.
struct Piece {
    segment: Arc<Segment>,
    start: u64,
    batches: Vec<Bytes>,
}

impl Piece {
    fn places(&self) -> impl Iterator<Item = (u64, &Bytes)> {
        self.batches.iter().scan(self.start, |position, batch| {
            let place = *position;
            *position += batch.len() as u64;
            Some((place, batch))
        })
    }

    /// Damage is not copied: its checksum would say that it is well.
    fn open<'a>(&self, position: u64, bytes: &'a Bytes) -> Result<(BatchHeader, BatchView<'a>), CompactionError> {
        let header = BatchHeader::parse(bytes).map_err(|error| self.corrupt(position, error.to_string()))?;
        let view = BatchView::new(bytes).map_err(|error| self.corrupt(position, error.to_string()))?;
        view.validate().map_err(|error| self.corrupt(position, error.to_string()))?;
        Ok((header, view))
    }

    fn corrupt(&self, position: u64, what: String) -> ReadError {
        ReadError::Corrupt { path: self.segment.path.clone(), position, what }
    }
}

impl<D: Disk> Output<D> {
    fn put(&mut self, batch: &Bytes, header: &BatchHeader) -> Result<(), CompactionError> {
        let max_timestamp = BatchHeader::parse(batch).map_or(header.max_timestamp, |kept| kept.max_timestamp);
        self.stamps.note(max_timestamp, header.last_offset());
        self.waiting.extend_from_slice(batch);
        if self.waiting.len() >= 4 * GATHER_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), CompactionError> {
        let bytes = self.waiting.split();
        if bytes.is_empty() {
            return Ok(());
        }
        self.file
            .write_at(&bytes, self.written)
            .map_err(|error| CompactionError::write("writing", &self.path, &error))?;
        self.written += bytes.len() as u64;
        Ok(())
    }
}

impl CompactionError {
    fn write(operation: &'static str, path: &Path, cause: &io::Error) -> Self {
        Self::Write { operation, path: path.to_owned(), cause: cause.to_string() }
    }
}
