//! Reading a partition, from any thread.
//!
//! **What it does not know**: who appends, journals, what is staged. It sees what is durable, and nothing else.

#![expect(clippy::disallowed_types, reason = "readers on other threads look at what the one writer publishes")]

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use atonce_kernel::disk::{Disk, DiskFile};
use atonce_kernel::{Offset, ProducerId, Timestamp, TopicPartition};
use atonce_protocol::records::{BatchView, TimestampType};
use bytes::Bytes;

use crate::aborted::{self, AbortedIndex, Damaged, Rebuilt};
use crate::batch::BatchHeader;
use crate::error::{Damage, ReadError};
use crate::handles::{Handles, SegmentNumber};
use crate::index;
use crate::segment::{Extent, Segment, file_path};

/// A batch that unpacks to more than this is not searched by time.
const UNPACKED_BYTES_MAX: usize = 256 << 20;

/// How far a reader sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsolationLevel {
    /// To the high watermark, whatever becomes of open transactions.
    ReadUncommitted,
    /// To the last stable offset; what was aborted is named, for the reader to skip.
    ReadCommitted,
}

/// An aborted transaction with data in one partition.
///
/// Layout in a `.txnindex` file, as Kafka's: `version i16 (0) | producer_id i64 | first_offset i64 | last_offset i64 |
/// last_stable_offset i64` (34 bytes, big-endian).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// Whose.
    pub producer_id: ProducerId,
    /// Its first record.
    pub first_offset: Offset,
    /// Its marker.
    pub last_offset: Offset,
    /// The last stable offset when the marker was written; no abort that overlaps earlier offsets comes later.
    pub last_stable_offset: Offset,
}

/// A partition's ends, all of one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// The first offset that is kept.
    pub log_start_offset: Offset,
    /// The first offset of the earliest open transaction, or the high watermark.
    pub last_stable_offset: Offset,
    /// The offset after the last durable record.
    pub high_watermark: Offset,
    /// Rises with every change of the others; for those who wait.
    pub generation: u64,
}

impl Watermarks {
    /// The offset after the last that a reader sees.
    #[must_use]
    pub fn end(&self, isolation: IsolationLevel) -> Offset {
        match isolation {
            IsolationLevel::ReadUncommitted => self.high_watermark,
            IsolationLevel::ReadCommitted => self.last_stable_offset,
        }
    }
}

/// What a read found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// Whole batches in order. The first may begin below the offset asked for: a batch is never cut.
    pub batches: Vec<Bytes>,
    /// The partition's ends at that moment.
    pub watermarks: Watermarks,
    /// Aborted transactions that overlap the batches, by first offset; `None` unless reading committed.
    pub aborted: Option<Vec<AbortedTransaction>>,
}

/// What a read found, of which what is in a file was not read yet.
pub struct Found<F> {
    /// Whole batches in order. The first may begin below the offset asked for: a batch is never cut.
    pub batches: Batches<F>,
    /// The partition's ends at that moment.
    pub watermarks: Watermarks,
    /// Aborted transactions that overlap the batches, by first offset; `None` unless reading committed.
    pub aborted: Option<Vec<AbortedTransaction>>,
}

/// Where batches are.
pub enum Batches<F> {
    /// Here.
    Memory(Vec<Bytes>),
    /// One after the other in a file.
    File(FileBatches<F>),
}

impl<F> Batches<F> {
    /// Bytes of all of them.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Memory(batches) => batches.iter().map(Bytes::len).sum(),
            Self::File(batches) => batches.bytes(),
        }
    }
}

/// Whole batches in a segment's file. They stay as they are while this is held, whatever becomes of the file's name.
pub struct FileBatches<F> {
    file: Arc<F>,
    segment: Arc<Segment>,
    extent: Extent,
}

impl<F> fmt::Debug for FileBatches<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileBatches").field("path", &self.segment.path).field("extent", &self.extent).finish()
    }
}

impl<F: DiskFile> FileBatches<F> {
    /// Reads them.
    /// Errors: `Disk`; `Corrupt`, if the file is shorter than it was.
    pub fn read(&self) -> Result<Vec<Bytes>, ReadError> {
        self.segment.read(&*self.file, &self.extent)
    }
}

impl<F> FileBatches<F> {
    /// The file, for who sends them from there.
    #[must_use]
    pub fn file(&self) -> &Arc<F> {
        &self.file
    }

    /// Where they begin in it.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.extent.position
    }

    /// How many bytes they are.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.extent.bytes
    }
}

impl Read {
    /// Bytes of all batches.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.batches.iter().map(Bytes::len).sum()
    }
}

/// A record found by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampedOffset {
    /// Its offset.
    pub offset: Offset,
    /// Its timestamp.
    pub timestamp: Timestamp,
    /// The leader's epoch when it was appended.
    pub leader_epoch: i32,
}

/// A batch in memory.
#[derive(Clone, Debug)]
pub(crate) struct TailBatch {
    pub(crate) base_offset: Offset,
    pub(crate) last_offset: Offset,
    pub(crate) max_timestamp: Timestamp,
    /// A slice of the journal group that it was written with.
    pub(crate) bytes: Bytes,
}

/// One partition, for reading. Lives as long as anybody holds it; after the topic's deletion it only says so.
pub struct PartitionReader<D: Disk> {
    partition: TopicPartition,
    handles: Arc<Handles<D>>,
    view: RwLock<View>,
}

/// What is durable. Only the writer changes it, and only after a commit.
pub(crate) struct View {
    pub(crate) watermarks: Watermarks,
    pub(crate) is_deleted: bool,
    /// Nobody reads it.
    pub(crate) damage: Option<Arc<Damage>>,
    /// Recent batches, up to the high watermark without a gap. What is below is in the segments.
    pub(crate) tail: VecDeque<TailBatch>,
    /// By base offset.
    pub(crate) segments: Vec<Arc<Segment>>,
    /// Those whose markers are in memory, by last offset. All others stand in the indexes of their segments.
    pub(crate) aborted: VecDeque<AbortedTransaction>,
    /// How often compaction has put other segments in the place of some.
    pub(crate) swaps: u64,
}

impl View {
    /// First offset that is in memory.
    fn tail_start(&self) -> Offset {
        self.tail.front().map_or(self.watermarks.high_watermark, |batch| batch.base_offset)
    }

    fn has(&self, number: SegmentNumber) -> bool {
        self.segments.iter().any(|segment| segment.number == number)
    }

    /// The segment that holds `offset`, if it is not below all of them.
    fn segment_at(&self, offset: Offset) -> Option<&Arc<Segment>> {
        let after = self.segments.partition_point(|segment| segment.base_offset <= offset);
        self.segments.get(after.checked_sub(1)?)
    }

    /// Where to look when there is nothing more in the segment at `base_offset`.
    fn place_after(&self, base_offset: Offset) -> Offset {
        let next = self.segments.partition_point(|segment| segment.base_offset <= base_offset);
        self.segments.get(next).map_or(self.tail_start(), |segment| segment.base_offset)
    }

    /// Whole batches from memory: those below `end`, at most `bytes_max`, one at least.
    fn read_tail(&self, offset: Offset, end: Offset, bytes_max: usize) -> Vec<Bytes> {
        let first = self.tail.partition_point(|batch| batch.last_offset < offset);
        let mut bytes = 0;
        self.tail
            .range(first..)
            .take_while(|batch| {
                bytes += batch.bytes.len();
                batch.base_offset < end && (bytes == batch.bytes.len() || bytes <= bytes_max)
            })
            .map(|batch| batch.bytes.clone())
            .collect()
    }

    /// Drops the `count` oldest batches from memory, and what is known of markers among them: both are in a segment.
    pub(crate) fn drop_from_tail(&mut self, count: usize) {
        self.tail.drain(..count);
        let tail_start = self.tail_start();
        let gone = self.aborted.partition_point(|aborted| aborted.last_offset < tail_start);
        self.aborted.drain(..gone);
    }

    /// The first segment that may have markers of aborted transactions from `offset` on, and the end of those that its index
    /// tells of; `None`: all that there are, are in memory.
    fn aborted_place(&self, offset: Offset) -> Option<(Arc<Segment>, Offset)> {
        let tail_start = self.tail_start();
        let first = self.segments.partition_point(|segment| segment.base_offset <= offset).saturating_sub(1);
        let below = |segment: &&Arc<Segment>| offset < tail_start && segment.base_offset < tail_start;
        let mut candidates = self.segments.iter().enumerate().skip(first).take_while(|(_, segment)| below(segment));
        let (place, segment) = candidates.find(|(_, segment)| segment.aborted_bytes() > 0)?;
        let end = self.segments.get(place + 1).map_or(Offset::MAX, |next| next.base_offset);
        Some((Arc::clone(segment), end.min(tail_start)))
    }
}

/// Gathers aborted transactions with data below `end`, in the order of their markers.
struct Gathered {
    end: Offset,
    found: Vec<AbortedTransaction>,
}

impl Gathered {
    /// `false`: what was aborted later began at or above this one's last stable offset, and does not matter.
    fn take(&mut self, aborted: AbortedTransaction) -> bool {
        if aborted.first_offset < self.end {
            self.found.push(aborted);
        }
        aborted.last_stable_offset < self.end
    }
}

/// What became of a look into a segment's index.
enum Taken {
    /// There may be more in later segments.
    All,
    /// What comes later does not matter.
    Enough,
    /// The segment was replaced, or removed, meanwhile.
    Replaced,
}

/// Where the batches of a read come from.
enum Source {
    Nothing,
    Memory(Vec<Bytes>),
    File(Arc<Segment>),
}

impl<D: Disk> PartitionReader<D> {
    pub(crate) fn new(partition: TopicPartition, handles: Arc<Handles<D>>, log_start_offset: Offset) -> Self {
        let watermarks = Watermarks {
            log_start_offset,
            last_stable_offset: log_start_offset,
            high_watermark: log_start_offset,
            generation: 0,
        };
        let view = View {
            watermarks,
            is_deleted: false,
            damage: None,
            tail: VecDeque::new(),
            segments: Vec::new(),
            aborted: VecDeque::new(),
            swaps: 0,
        };
        Self { partition, handles, view: RwLock::new(view) }
    }

    pub(crate) fn view(&self) -> RwLockReadGuard<'_, View> {
        self.view.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn view_mut(&self) -> RwLockWriteGuard<'_, View> {
        self.view.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which partition.
    #[must_use]
    pub fn partition(&self) -> &TopicPartition {
        &self.partition
    }

    /// Whether its topic was deleted.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        self.view().is_deleted
    }

    /// The present ends.
    #[must_use]
    pub fn watermarks(&self) -> Watermarks {
        self.view().watermarks
    }

    /// Whether a read from `offset` on needs no file, as things stand now.
    #[must_use]
    pub fn is_in_memory(&self, offset: Offset) -> bool {
        let view = self.view();
        offset >= view.tail_start() || offset < view.watermarks.log_start_offset
    }

    /// Reads batches from `offset` on, at most `bytes_max` of them, but one at least if there is one.
    ///
    /// At the end for that isolation it finds nothing, which is no error. It may find less than there is: a read ends
    /// where a segment does.
    /// Errors: `OutOfRange` below the log start or above the high watermark; `Deleted`; `Disk`; `Corrupt`.
    pub fn read(&self, offset: Offset, bytes_max: usize, isolation: IsolationLevel) -> Result<Read, ReadError> {
        let Found { batches, watermarks, aborted } = self.find(offset, bytes_max, isolation)?;
        let batches = match batches {
            Batches::Memory(batches) => batches,
            Batches::File(batches) => batches.read()?,
        };
        Ok(Read { batches, watermarks, aborted })
    }

    /// As [`read`](Self::read), without reading what is in a file: for who sends it from there.
    pub fn find(
        &self,
        offset: Offset,
        bytes_max: usize,
        isolation: IsolationLevel,
    ) -> Result<Found<D::File>, ReadError> {
        loop {
            let swaps = self.view().swaps;
            let (watermarks, source) = self.plan(offset, offset, bytes_max, isolation)?;
            let batches = self.follow(source, offset, watermarks.end(isolation), bytes_max, isolation)?;
            let aborted = match isolation {
                IsolationLevel::ReadUncommitted => None,
                IsolationLevel::ReadCommitted => Some(self.aborted_in(offset, &batches)?),
            };
            // What compaction has made meanwhile may have the name of a file that was meant, and its index may say no more
            // what was aborted among batches that it has dropped.
            if self.view().swaps == swaps {
                return Ok(Found { batches, watermarks, aborted });
            }
        }
    }

    /// Looks where the plan says, and goes on where compaction has left nothing there.
    fn follow(
        &self,
        mut source: Source,
        offset: Offset,
        end: Offset,
        bytes_max: usize,
        isolation: IsolationLevel,
    ) -> Result<Batches<D::File>, ReadError> {
        let mut place = offset;
        loop {
            let segment = match source {
                Source::Nothing => return Ok(Batches::Memory(Vec::new())),
                Source::Memory(batches) => return Ok(Batches::Memory(batches)),
                Source::File(segment) => segment,
            };
            match self.find_in_segment(&segment, offset, end, bytes_max) {
                Ok(None) => {
                    place = self.view().place_after(segment.base_offset);
                    if place >= end {
                        return Ok(Batches::Memory(Vec::new()));
                    }
                    (_, source) = self.plan(offset, place, bytes_max, isolation)?;
                }
                Ok(Some(batches)) => return Ok(Batches::File(batches)),
                // The log start may have moved over the segment in the meantime, or compaction have replaced it.
                Err(error) => match self.plan(offset, place, bytes_max, isolation)?.1 {
                    Source::File(other) if other.number != segment.number => source = Source::File(other),
                    memory @ Source::Memory(_) => source = memory,
                    Source::File(_) | Source::Nothing => return Err(error),
                },
            }
        }
    }

    /// Where the batches from `offset` on are; it is known that none is below `place`.
    fn plan(
        &self,
        offset: Offset,
        place: Offset,
        bytes_max: usize,
        isolation: IsolationLevel,
    ) -> Result<(Watermarks, Source), ReadError> {
        let view = self.view();
        self.check_range(&view, offset)?;
        let end = view.watermarks.end(isolation);
        let source = if place >= end {
            Source::Nothing
        } else if place >= view.tail_start() {
            Source::Memory(view.read_tail(offset, end, bytes_max))
        } else if let Some(segment) = view.segment_at(place) {
            Source::File(Arc::clone(segment))
        } else {
            Source::Nothing
        };
        Ok((view.watermarks, source))
    }

    fn check_range(&self, view: &View, offset: Offset) -> Result<(), ReadError> {
        self.check_there(view)?;
        let Watermarks { log_start_offset, high_watermark, .. } = view.watermarks;
        if offset < log_start_offset || offset > high_watermark {
            return Err(ReadError::OutOfRange {
                partition: self.partition.clone(),
                offset,
                log_start_offset,
                high_watermark,
            });
        }
        Ok(())
    }

    fn check_there(&self, view: &View) -> Result<(), ReadError> {
        if view.is_deleted {
            return Err(ReadError::Deleted(self.partition.clone()));
        }
        match &view.damage {
            Some(damage) => Err(ReadError::Offline { partition: self.partition.clone(), damage: Arc::clone(damage) }),
            None => Ok(()),
        }
    }

    /// Why nobody can read or write this partition, if so: its files were found damaged at the start.
    #[must_use]
    pub fn damage(&self) -> Option<Arc<Damage>> {
        self.view().damage.clone()
    }

    fn find_in_segment(
        &self,
        segment: &Arc<Segment>,
        offset: Offset,
        end: Offset,
        bytes_max: usize,
    ) -> Result<Option<FileBatches<D::File>>, ReadError> {
        let file = self.open(segment)?;
        let place = self.place_of(segment, &file, offset)?;
        let extent = segment.extent(&*file, place, offset, end, bytes_max)?;
        // Deleted meanwhile? Then a new topic of this name may have a file where the old one was.
        if self.is_deleted() {
            return Err(ReadError::Deleted(self.partition.clone()));
        }
        Ok(extent.map(|extent| FileBatches { file, segment: Arc::clone(segment), extent }))
    }

    /// A place at or before the batch with `offset` in it, without a walk; `None`: it takes one.
    fn place_of(&self, segment: &Segment, file: &D::File, offset: Offset) -> Result<Option<u64>, ReadError> {
        if let Some(place) = segment.place_of_last_read(offset) {
            return Ok(Some(place));
        }
        if !segment.has_index_files() {
            return Ok(None);
        }
        // Before the first entry, the segment's beginning is near enough.
        Ok(Some(index::position_of(self.handles.disk(), segment, file, offset)?.unwrap_or(0)))
    }

    /// A place before which no record has a time of `timestamp` or later; `None`: no record in the segment has.
    fn place_of_time(&self, segment: &Segment, file: &D::File, timestamp: Timestamp) -> Result<Option<u64>, ReadError> {
        if segment.known_max_timestamp().is_some_and(|max| max < timestamp) {
            return Ok(None);
        }
        if !segment.has_index_files() {
            return segment.position_at_timestamp(file, timestamp);
        }
        let disk = self.handles.disk();
        let before = index::offset_before(disk, segment, file, timestamp)?;
        let place = before.map(|offset| index::position_of(disk, segment, file, offset)).transpose()?;
        Ok(Some(place.flatten().unwrap_or(0)))
    }

    pub(crate) fn open(&self, segment: &Segment) -> Result<Arc<D::File>, ReadError> {
        self.handles.get(segment.number, &segment.path).map_err(|error| ReadError::disk(&segment.path, &error))
    }

    /// What was aborted among the batches that are really returned. All of it was decided when they were read, as
    /// they are below the last stable offset of that moment; only a log start that has moved over them can have
    /// dropped it since.
    fn aborted_in(&self, offset: Offset, batches: &Batches<D::File>) -> Result<Vec<AbortedTransaction>, ReadError> {
        let end = match batches {
            Batches::Memory(batches) => {
                batches.last().and_then(|batch| BatchHeader::parse(batch).ok()).map(|last| last.next_offset())
            }
            Batches::File(batches) => Some(batches.extent.next_offset),
        };
        let Some(end) = end else { return Ok(Vec::new()) };
        let found = self.aborted_between(offset, end)?;
        self.check_range(&self.view(), offset)?;
        Ok(found)
    }

    /// Aborted transactions with data in `offset..end`, by first offset: some readers rely on that order.
    ///
    /// Memory: of them alone. Which they are is looked up in the indexes of the segments, from that of `offset` on, up to
    /// the first transaction whose last stable offset says that none that matters can follow.
    pub(crate) fn aborted_between(&self, offset: Offset, end: Offset) -> Result<Vec<AbortedTransaction>, ReadError> {
        let mut gathered = Gathered { end, found: Vec::new() };
        let mut next = offset;
        loop {
            let (segment, upto) = {
                let view = self.view();
                self.check_there(&view)?;
                match view.aborted_place(next) {
                    Some(place) => place,
                    None => {
                        let first = view.aborted.partition_point(|aborted| aborted.last_offset < next);
                        let _ = view.aborted.range(first..).all(|aborted| gathered.take(*aborted));
                        break;
                    }
                }
            };
            match self.take_from_index(&segment, next..upto, &mut gathered)? {
                Taken::All => next = upto,
                Taken::Enough => break,
                // It is looked for in what stands in its place.
                Taken::Replaced => {}
            }
        }
        gathered.found.sort_by_key(|aborted| aborted.first_offset);
        Ok(gathered.found)
    }

    /// Takes the transactions whose markers are in that part of a segment. If its index is damaged the markers tell.
    fn take_from_index(
        &self,
        segment: &Arc<Segment>,
        markers: Range<Offset>,
        gathered: &mut Gathered,
    ) -> Result<Taken, ReadError> {
        let before = gathered.found.len();
        let known = segment.rebuilt().clone().filter(|rebuilt| markers.end <= rebuilt.end);
        let rebuilt = match known {
            Some(rebuilt) => rebuilt,
            None => {
                match self.visit_index(segment, &markers, gathered) {
                    Ok(true) => return Ok(Taken::Enough),
                    Ok(false) => return Ok(Taken::All),
                    Err(Damaged) => gathered.found.truncate(before),
                }
                let made = self.rebuild_aborted(segment, markers.end);
                if !self.view().has(segment.number) {
                    return Ok(Taken::Replaced);
                }
                made?
            }
        };
        let wanted = rebuilt.aborted.iter().filter(|aborted| markers.contains(&aborted.last_offset));
        let is_all = wanted.into_iter().all(|aborted| gathered.take(*aborted));
        Ok(if is_all { Taken::All } else { Taken::Enough })
    }

    fn visit_index(
        &self,
        segment: &Segment,
        markers: &Range<Offset>,
        gathered: &mut Gathered,
    ) -> Result<bool, Damaged> {
        // In this order: it has at least so many.
        let aborted_bytes = segment.aborted_bytes();
        let path = segment.aborted_path();
        let file = self.handles.get_aborted(segment.number, &path).or_else(|error| {
            // A swap's index takes its right name before its segment does.
            let folder = path.parent().unwrap_or(Path::new(""));
            let name = file_path(folder, segment.base_offset, "txnindex");
            if name == path { Err(error) } else { self.handles.get_aborted(segment.number, &name) }
        });
        let file = file.map_err(|_| Damaged)?;
        AbortedIndex::new(&*file, segment, aborted_bytes).visit(markers, |aborted| gathered.take(aborted))
    }

    /// Reads what the index of a segment should say from the markers of the log, as far as `end`, and remembers it until it is
    /// written.
    pub(crate) fn rebuild_aborted(&self, segment: &Arc<Segment>, end: Offset) -> Result<Arc<Rebuilt>, ReadError> {
        let mut place = segment.rebuilt();
        if let Some(rebuilt) = place.as_ref().filter(|rebuilt| end <= rebuilt.end) {
            return Ok(Arc::clone(rebuilt));
        }
        let segments: Vec<Arc<Segment>> = {
            let view = self.view();
            view.segments.iter().filter(|it| it.base_offset <= segment.base_offset).cloned().collect()
        };
        let mut rebuilt = aborted::rebuild(self.handles.disk(), &segments)?;
        let is_last = self.view().segments.last().is_some_and(|last| last.number == segment.number);
        if !is_last {
            rebuilt.end = Offset::MAX;
        }
        Ok(Arc::clone(place.insert(Arc::new(rebuilt))))
    }

    /// The first record whose timestamp is `timestamp` or later, if it is below the end for that isolation.
    pub fn offset_for_timestamp(
        &self,
        timestamp: Timestamp,
        isolation: IsolationLevel,
    ) -> Result<Option<TimestampedOffset>, ReadError> {
        let found = self.with_snapshot(|Snapshot { watermarks, segments, tail, .. }| {
            let start = watermarks.log_start_offset;
            let found = match self.find_in_segments(segments, timestamp, start)? {
                Some(found) => Some(found),
                None => tail
                    .iter()
                    .filter(|batch| batch.max_timestamp >= timestamp && batch.last_offset >= start)
                    .find_map(|batch| first_record_at(&batch.bytes, timestamp, start)),
            };
            Ok(found.filter(|found| found.offset < watermarks.end(isolation)))
        })?;
        Ok(found)
    }

    /// Looks through all of it, and once more if what was looked at is replaced meanwhile.
    fn with_snapshot<T>(&self, look: impl Fn(&Snapshot) -> Result<T, ReadError>) -> Result<T, ReadError> {
        loop {
            let snapshot = self.snapshot()?;
            let looked = look(&snapshot);
            let view = self.view();
            self.check_there(&view)?;
            let numbers = view.segments.iter().map(|segment| segment.number);
            let is_same = || numbers.eq(snapshot.segments.iter().map(|segment| segment.number));
            if view.swaps == snapshot.swaps && (looked.is_ok() || is_same()) {
                return looked;
            }
        }
    }

    fn find_in_segments(
        &self,
        segments: &[Arc<Segment>],
        timestamp: Timestamp,
        start: Offset,
    ) -> Result<Option<TimestampedOffset>, ReadError> {
        for segment in segments {
            if segment.known_max_timestamp().is_some_and(|max| max < timestamp) {
                continue;
            }
            let file = self.open(segment)?;
            let mut position = self.place_of_time(segment, &file, timestamp)?;
            while let Some(at) = position
                && let Some(batch) = segment.batch_at(&*file, at)?
            {
                if let Some(found) = first_record_at(&batch, timestamp, start) {
                    return Ok(Some(found));
                }
                position = Some(at + batch.len() as u64);
            }
        }
        Ok(None)
    }

    /// The record with the largest timestamp, the first of equals, if it is below the end for that isolation.
    pub fn offset_of_max_timestamp(&self, isolation: IsolationLevel) -> Result<Option<TimestampedOffset>, ReadError> {
        let max = self.with_snapshot(|Snapshot { tail, segments, .. }| {
            let mut max = tail.iter().map(|batch| batch.max_timestamp).max();
            for segment in segments {
                max = max.max(match segment.known_max_timestamp() {
                    Some(known) => Some(known),
                    None => segment.max_timestamp(&*self.open(segment)?)?,
                });
            }
            Ok(max)
        })?;
        match max {
            Some(max) => self.offset_for_timestamp(max, isolation),
            None => Ok(None),
        }
    }

    fn snapshot(&self) -> Result<Snapshot, ReadError> {
        let view = self.view();
        self.check_there(&view)?;
        Ok(Snapshot {
            watermarks: view.watermarks,
            swaps: view.swaps,
            segments: view.segments.clone(),
            tail: view.tail.iter().cloned().collect(),
        })
    }
}

/// What a search by time looks through.
struct Snapshot {
    watermarks: Watermarks,
    swaps: u64,
    segments: Vec<Arc<Segment>>,
    tail: Vec<TailBatch>,
}

/// The first record of a batch at or after `timestamp`, and not below `start`. Records are looked at only if the
/// header says that one may be there; what cannot be unpacked holds none.
fn first_record_at(batch: &[u8], timestamp: Timestamp, start: Offset) -> Option<TimestampedOffset> {
    let view = BatchView::new(batch).ok()?;
    if view.max_timestamp() < timestamp.0 || view.last_offset() < start {
        return None;
    }
    let leader_epoch = view.partition_leader_epoch();
    if view.timestamp_type() == TimestampType::LogAppendTime {
        let timestamp = Timestamp(view.max_timestamp());
        return Some(TimestampedOffset { offset: view.base_offset().max(start), timestamp, leader_epoch });
    }
    let payload = view.decompress(UNPACKED_BYTES_MAX).ok()?;
    let records = view.records_in(&payload);
    let found = records.flatten().find(|record| record.timestamp >= timestamp.0 && record.offset >= start)?;
    Some(TimestampedOffset { offset: found.offset, timestamp: Timestamp(found.timestamp), leader_epoch })
}
