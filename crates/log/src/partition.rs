//! One partition's log, as its writer sees it: what is staged, what producers there are, and the segment files behind.
//!
//! **What it does not know**: the journal, other partitions, when a commit happens.
//!
//! Invariants: `written_end ≤ high watermark ≤ next_offset`; what lies between the first two is in the reader's tail;
//! a file with unsynced writes stays open until it is synced.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use atonce_kernel::disk::Disk;
use atonce_kernel::{Offset, Outcome, Timestamp, TopicId, TopicPartition};
use bytes::Bytes;

use crate::batch::{BatchHeader, EndTransactionMarker};
use crate::compaction::{Cleaned, Overview, SegmentOverview};
use crate::error::Damage;
use crate::files::{FileError, Files, SegmentFiles};
use crate::handles::{Handles, SegmentNumber};
use crate::index::IndexJob;
use crate::producer::Producers;
use crate::reader::{AbortedTransaction, PartitionReader, TailBatch};
use crate::settings::Settings;
use crate::storage::Slot;

/// More than this hardly ever waits to be written.
const SEGMENT_BYTES_MUCH: u64 = 128 << 10;

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
    /// Below, compaction has left each key once.
    pub(crate) cleaned_end: Offset,
    /// Compaction met damage: it is not tried again in this run.
    pub(crate) is_uncleanable: bool,
    /// Its files are not what they were: nobody reads or writes it. What the journal has of it is kept all the same.
    pub(crate) damage: Option<Arc<Damage>>,
    /// Batches that left memory before their turn.
    dropped_ahead: usize,
    /// Something was staged since the last commit.
    pub(crate) is_touched: bool,
    /// It waits in the storage's queue for its segment to be written.
    pub(crate) is_queued: bool,
    staged: Vec<StagedBatch>,
    staged_aborted: Vec<AbortedTransaction>,
    pub(crate) files: Files<D>,
}

/// What a checkpoint found of a partition's files.
pub(crate) struct FoundFiles {
    pub(crate) written_end: Offset,
    pub(crate) cleaned_end: Offset,
    pub(crate) last_swap: u64,
    pub(crate) segments: Vec<SegmentFiles>,
    pub(crate) has_folder: bool,
    pub(crate) damage: Option<Arc<Damage>>,
}

impl FoundFiles {
    /// Of a partition without files.
    pub(crate) fn none() -> Self {
        Self { written_end: 0, cleaned_end: 0, last_swap: 0, segments: Vec::new(), has_folder: false, damage: None }
    }
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
        Self::with_files(name, topic_id, folder, settings, shared, FoundFiles::none(), Producers::default(), 0)
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
            view.damage.clone_from(&found.damage);
            view.watermarks.high_watermark = found.written_end;
            view.watermarks.last_stable_offset = last_stable_offset(&producers, found.written_end, log_start_offset);
        }
        Self {
            name,
            topic_id,
            reader,
            producers,
            settings,
            next_offset: found.written_end,
            log_start_offset,
            cleaned_end: found.cleaned_end,
            is_uncleanable: false,
            damage: found.damage.clone(),
            dropped_ahead: 0,
            is_touched: false,
            is_queued: false,
            staged: Vec::new(),
            staged_aborted: Vec::new(),
            files: Files::new(folder, found),
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
                self.files.wait_for_writing(bytes.len());
                view.tail.push_back(TailBatch { base_offset, last_offset, max_timestamp, bytes });
            }
        }
        self.files.wait_for_indexing(&self.staged_aborted);
        view.aborted.extend(self.staged_aborted.drain(..));
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
        self.files.unwritten_bytes()
    }

    /// Offset below which everything is in a segment file.
    pub(crate) fn written_end(&self) -> Offset {
        self.files.written_end()
    }

    /// Drops the `count` oldest batches from memory; they are in the segments.
    pub(crate) fn drop_from_tail(&mut self, count: usize) {
        let gone = count.min(self.dropped_ahead);
        self.dropped_ahead -= gone;
        let mut view = self.reader.view_mut();
        let count = (count - gone).min(view.tail.len());
        debug_assert!(
            view.tail.range(..count).all(|batch| batch.last_offset < self.files.written_end()),
            "{}: a batch that is in no segment leaves memory",
            self.name
        );
        view.drop_from_tail(count);
    }

    /// Writes what is durable and not yet in a segment. Plain writes: nothing is durable there before a checkpoint.
    ///
    /// Errors: what was not written stays in memory and in the journal.
    pub(crate) fn write_segments(&mut self, shared: &mut Shared<D>) -> Result<(), FileError> {
        let batches: Vec<TailBatch> = {
            let view = self.reader.view();
            let first = view.tail.partition_point(|batch| batch.base_offset < self.files.written_end());
            view.tail.range(first..).cloned().collect()
        };
        if batches.is_empty() {
            return Ok(());
        }
        let reader = &self.reader;
        self.files.write_batches(&batches, self.topic_id, &self.settings, shared, |segment| {
            reader.view_mut().segments.push(segment);
        })
    }

    /// Segments that lie below the log start leave the log; returns their files, to be removed when a checkpoint does
    /// not name them any more.
    pub(crate) fn drop_old_segments(&mut self, shared: &Shared<D>) -> Vec<PathBuf> {
        let mut removed = Vec::new();
        // What is damaged stays as it is, to be looked at.
        if self.damage.is_some() {
            return removed;
        }
        let mut view = self.reader.view_mut();
        let log_start_offset = view.watermarks.log_start_offset;
        while let Some((segment, paths)) = self.files.drop_below(log_start_offset) {
            view.segments.retain(|it| it.number != segment.number);
            shared.handles.forget(segment.number);
            removed.extend(paths);
        }
        removed
    }

    /// Recovery's: makes indexes of aborted transactions anew. If the log cannot be read, its readers are told where.
    pub(crate) fn rebuild_aborted(&mut self, base_offsets: &BTreeSet<Offset>, shared: &Shared<D>) {
        let lost = self.files.segments().filter(|files| base_offsets.contains(&files.segment.base_offset));
        lost.for_each(|files| drop(self.reader.rebuild_aborted(&files.segment, 0)));
        self.files.repair_aborted(true, shared);
    }

    /// What a choice of what to compact looks at.
    pub(crate) fn overview(&self) -> Overview {
        let segments = self.files.segments().map(|files| SegmentOverview {
            base_offset: files.segment.base_offset,
            bytes: files.segment.written_bytes(),
            stamps: files.stamps,
        });
        let watermarks = self.reader.watermarks();
        Overview {
            partition: self.name.clone(),
            topic_id: self.topic_id,
            settings: self.settings,
            log_start_offset: watermarks.log_start_offset,
            last_stable_offset: watermarks.last_stable_offset,
            cleaned_end: self.cleaned_end,
            segments: segments.collect(),
        }
    }

    /// Whether what waits to be written may be old enough for retention, or would fill a segment for compaction.
    pub(crate) fn may_be_cleaned(&self, now: Timestamp) -> bool {
        let waiting = self.files.unwritten_bytes();
        if waiting == 0 {
            return false;
        }
        let is_much =
            self.settings.is_compacted && waiting as u64 >= self.settings.segment_bytes.min(SEGMENT_BYTES_MUCH);
        let is_surplus =
            self.settings.is_deleted && self.settings.retention_bytes.is_some_and(|max| waiting as u64 > max);
        let is_old = || {
            let written_end = self.files.written_end();
            let view = self.reader.view();
            let first = view.tail.partition_point(|batch| batch.base_offset < written_end);
            let oldest = view.tail.get(first).map_or(now, |batch| batch.max_timestamp);
            self.settings.is_deleted && self.settings.retention_ms.is_some_and(|ms| now.0.saturating_sub(oldest.0) > ms)
        };
        is_much || is_surplus || is_old()
    }

    /// Where the log must begin so that it is as young and as small as its topic says; `None`: where it does now.
    ///
    /// Whole segments go, oldest first, as long as they lie below the last stable offset.
    pub(crate) fn retention_offset(&self, now: Timestamp) -> Option<Offset> {
        let watermarks = self.reader.watermarks();
        let sizes = self.files.segments().map(|files| files.segment.written_bytes());
        let bytes = sizes.sum::<u64>() + self.files.unwritten_bytes() as u64;
        let mut surplus = self.settings.retention_bytes.map_or(0, |max| bytes.saturating_sub(max));
        let ends = self.files.segments().skip(1).map(|files| files.segment.base_offset);
        let mut offset = None;
        for (files, end) in self.files.segments().zip(ends.chain([self.next_offset])) {
            let is_last = end == self.next_offset;
            let max_timestamp = files.stamps.max_timestamp;
            let is_old = max_timestamp >= Timestamp(0)
                && self.settings.retention_ms.is_some_and(|ms| now.0.saturating_sub(max_timestamp.0) > ms);
            let size = files.segment.written_bytes();
            let is_surplus = size > 0 && surplus >= size;
            // What waits to be written is in the last one, and younger than what its stamps say.
            let is_whole = !is_last || (self.files.unwritten_bytes() == 0 && size > 0);
            if !(is_old || is_surplus) || !is_whole || end > watermarks.last_stable_offset {
                break;
            }
            surplus = surplus.saturating_sub(size);
            offset = Some(end);
        }
        offset.filter(|offset| *offset > watermarks.log_start_offset)
    }

    /// Whether a segment lies below the log start.
    pub(crate) fn has_old_segments(&self) -> bool {
        let log_start_offset = self.reader.watermarks().log_start_offset;
        let mut segments = self.files.segments();
        match (segments.next(), segments.next()) {
            (Some(_), Some(second)) => second.segment.base_offset <= log_start_offset,
            (Some(_), None) => self.files.unwritten_bytes() == 0 && self.files.written_end() <= log_start_offset,
            (None, _) => false,
        }
    }

    /// Complete segments that have no index files yet.
    pub(crate) fn index_jobs(&self, slot: Slot) -> Vec<IndexJob> {
        if self.damage.is_some() {
            return Vec::new();
        }
        let wanted = |files: &&SegmentFiles| files.swap.is_none() && !files.segment.has_index_files();
        let complete = self.files.segments().rev().skip(1).filter(wanted);
        complete
            .map(|files| IndexJob {
                slot,
                folder: self.files.folder.clone(),
                segment: Arc::clone(&files.segment),
                interval_bytes: self.settings.index_interval_bytes,
            })
            .collect()
    }

    /// Whether all of these are still segments of the log.
    pub(crate) fn has_segments(&self, numbers: &[SegmentNumber]) -> bool {
        numbers.iter().all(|number| self.files.segments().any(|files| files.segment.number == *number))
    }

    /// Lets readers see what compaction has made. Returns the files that go with the next checkpoint; `None` if the log has
    /// changed so that it does not fit any more.
    pub(crate) fn swap_in(
        &mut self,
        cleaned: &Cleaned,
        shared: &mut Shared<D>,
    ) -> Result<Option<Vec<PathBuf>>, FileError> {
        let Some(retired) = self.files.swap_in(&cleaned.targets, shared)? else { return Ok(None) };
        self.cleaned_end = self.cleaned_end.max(cleaned.end);
        let mut view = self.reader.view_mut();
        view.segments = self.files.segments().map(|files| Arc::clone(&files.segment)).collect();
        // Memory holds what was aborted there, too.
        let count = view.tail.partition_point(|batch| batch.base_offset < cleaned.replaced.end);
        view.drop_from_tail(count);
        view.swaps += 1;
        self.dropped_ahead += count;
        Ok(Some(retired))
    }

    /// Its files are what they should be again.
    pub(crate) fn end_damage(&mut self) {
        self.damage = None;
        self.reader.view_mut().damage = None;
    }

    /// A checkpoint names what compaction has made.
    pub(crate) fn finish_swap(&mut self, base_offset: Offset, shared: &mut Shared<D>) -> Result<(), FileError> {
        // Who looks meanwhile waits: the old name is gone before the new one can be seen.
        let mut view = self.reader.view_mut();
        if let Some(segment) = self.files.finish_swap(base_offset, shared)?
            && let Some(place) = view.segments.iter_mut().find(|it| it.base_offset == base_offset)
        {
            *place = segment;
            view.swaps += 1;
        }
        Ok(())
    }
}

/// The last stable offset when everything is durable.
fn last_stable_offset(producers: &Producers, high_watermark: Offset, log_start_offset: Offset) -> Offset {
    producers.first_unstable_offset().map_or(high_watermark, |first| first.max(log_start_offset))
}
