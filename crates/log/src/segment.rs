//! A segment file, as readers see it: Kafka's batches one after the other, and an index in memory.
//!
//! **What it does not know**: what is visible, who writes. It is read up to `written_bytes`, which only the writer
//! raises, after the bytes are there.
//!
//! Complete segments have Kafka's index files beside them, see [`crate::index`]. Without those, and for the segment that is written
//! to, the index is built in memory while the file is read: a place every 32 KiB or so, found again by walking over headers.

#![expect(clippy::disallowed_types, reason = "readers on any thread extend the index while they read")]

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atonce_kernel::disk::DiskFile;
use atonce_kernel::{Offset, Timestamp};
use bytes::{Bytes, BytesMut};

use crate::aborted::Rebuilt;
use crate::batch::{BatchError, BatchHeader, HEADER_BYTES};
use crate::error::ReadError;
use crate::handles::SegmentNumber;

/// Bytes between two entries of the index. Kafka has 4 KiB; a reader that asks for 1 MiB does not mind 32.
const INDEX_INTERVAL_BYTES: u64 = 32 << 10;
/// Headers are walked in pieces of this size.
const WALK_BYTES: usize = 128 << 10;
/// Where batches are meant to be sent as they stand, headers alone are read: of many small batches at once.
const HEADERS_BYTES: usize = 4 << 10;

/// The name that Kafka gives to a segment's files: its first offset in twenty digits.
pub(crate) fn file_path(folder: &Path, base_offset: Offset, extension: &str) -> PathBuf {
    folder.join(format!("{base_offset:020}.{extension}"))
}

/// The base offset in a segment file's name, and the extension.
pub(crate) fn parse_file_name(name: &str) -> Option<(Offset, &str)> {
    let (digits, extension) = name.split_once('.')?;
    if digits.len() == 20 { Some((digits.parse().ok()?, extension)) } else { None }
}

/// One `.log` file.
pub(crate) struct Segment {
    pub(crate) number: SegmentNumber,
    pub(crate) base_offset: Offset,
    pub(crate) path: PathBuf,
    written_bytes: AtomicU64,
    /// Of its index of aborted transactions, so many bytes are in the file.
    aborted_bytes: AtomicU64,
    /// What stands in that index, if the file is damaged.
    rebuilt: Mutex<Option<Arc<Rebuilt>>>,
    /// Of all batches, as far as known: nothing later is in it. Raised before batches are visible.
    max_timestamp: AtomicI64,
    /// There are index files beside it: look-ups read those, and nothing is kept in memory.
    has_index_files: AtomicBool,
    index: Mutex<Index>,
    /// Where the last reads ended: those who read in order go on there.
    read_ends: Mutex<VecDeque<(Offset, u64)>>,
}

/// Readers of one segment that go on where they were; more find their place anew.
const READ_ENDS_MAX: usize = 16;

/// Places in the file, in order. All of `..walked_bytes` is covered.
#[derive(Default)]
struct Index {
    entries: Vec<IndexEntry>,
    walked_bytes: u64,
    /// The offset after the last batch walked over; the segment's base offset before the first.
    next_offset: Option<Offset>,
}

#[derive(Clone, Copy, Debug)]
struct IndexEntry {
    base_offset: Offset,
    position: u64,
    /// Of the batches from here to the next entry.
    max_timestamp: Timestamp,
}

impl Index {
    fn add(&mut self, position: u64, header: &BatchHeader) {
        let is_far = self.entries.last().is_none_or(|entry| position >= entry.position + INDEX_INTERVAL_BYTES);
        if is_far {
            self.entries.push(IndexEntry {
                base_offset: header.base_offset,
                position,
                max_timestamp: header.max_timestamp,
            });
        } else if let Some(entry) = self.entries.last_mut() {
            entry.max_timestamp = entry.max_timestamp.max(header.max_timestamp);
        }
        self.walked_bytes = position + header.size as u64;
        self.next_offset = Some(header.next_offset());
    }
}

/// Whole batches in a segment, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) position: u64,
    pub(crate) bytes: usize,
    /// After the last of them.
    pub(crate) next_offset: Offset,
}

impl Segment {
    pub(crate) fn new(number: SegmentNumber, base_offset: Offset, path: PathBuf, written_bytes: u64) -> Self {
        Self {
            number,
            base_offset,
            path,
            written_bytes: AtomicU64::new(written_bytes),
            aborted_bytes: AtomicU64::new(0),
            rebuilt: Mutex::default(),
            max_timestamp: AtomicI64::new(i64::MAX),
            has_index_files: AtomicBool::new(false),
            index: Mutex::default(),
            read_ends: Mutex::default(),
        }
    }

    /// The latest time in it; `None`: not known.
    pub(crate) fn known_max_timestamp(&self) -> Option<Timestamp> {
        Some(self.max_timestamp.load(Ordering::Acquire)).filter(|time| *time != i64::MAX).map(Timestamp)
    }

    /// The writer's: no batch in it has a later time.
    pub(crate) fn set_max_timestamp(&self, time: Timestamp) {
        self.max_timestamp.store(time.0, Ordering::Release);
    }

    pub(crate) fn has_index_files(&self) -> bool {
        self.has_index_files.load(Ordering::Acquire)
    }

    /// Index files are there: what was kept in memory instead is dropped.
    pub(crate) fn set_has_index_files(&self) {
        self.has_index_files.store(true, Ordering::Release);
        *self.index() = Index::default();
    }

    fn read_ends(&self) -> MutexGuard<'_, VecDeque<(Offset, u64)>> {
        self.read_ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the batch with `offset` stands, if a read ended just there.
    pub(crate) fn place_of_last_read(&self, offset: Offset) -> Option<u64> {
        self.read_ends().iter().find(|(end, _)| *end == offset).map(|(_, position)| *position)
    }

    /// The batches from `start`, where one begins, up to the one with `offset` in it, are stepped over.
    pub(crate) fn header_from<F: DiskFile>(
        &self,
        file: &F,
        start: u64,
        offset: Offset,
    ) -> Result<Option<BatchHeader>, ReadError> {
        let mut position = start;
        while let Some(header) = self.header_at(file, position)? {
            if header.last_offset() >= offset {
                return Ok(Some(header));
            }
            position += header.size as u64;
        }
        Ok(None)
    }

    /// The header at a place; `None` if none is there.
    pub(crate) fn header_at<F: DiskFile>(&self, file: &F, position: u64) -> Result<Option<BatchHeader>, ReadError> {
        let end = self.written_bytes();
        if position >= end {
            return Ok(None);
        }
        Ok(BatchHeader::parse(&self.read_at(file, position, HEADER_BYTES, end)?).ok())
    }

    /// Calls `visit` with all headers and their places.
    pub(crate) fn for_each_header<F: DiskFile>(
        &self,
        file: &F,
        mut visit: impl FnMut(u64, &BatchHeader),
    ) -> Result<(), ReadError> {
        let (mut start, end) = (0, self.written_bytes());
        while start < end {
            let piece = self.read_at(file, start, WALK_BYTES, end)?;
            let mut next = start;
            for_each_header(&piece, |position, header| {
                visit(start + position, header);
                next = start + position + header.size as u64;
                Ok(true)
            })
            .map_err(|error| self.walk_error(start, error))?;
            if next == start {
                return Err(self.corrupt(start, "the file ends inside a batch header"));
            }
            start = next;
        }
        Ok(())
    }

    /// The same bytes under another name.
    pub(crate) fn renamed(&self, number: SegmentNumber, path: PathBuf) -> Self {
        let renamed = Self::new(number, self.base_offset, path, self.written_bytes());
        renamed.max_timestamp.store(self.max_timestamp.load(Ordering::Acquire), Ordering::Release);
        renamed.set_aborted_bytes(self.aborted_bytes());
        *renamed.index() = std::mem::take(&mut *self.index());
        renamed
    }

    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Ordering::Acquire)
    }

    /// The writer's: bytes up to here are in the file.
    pub(crate) fn set_written_bytes(&self, bytes: u64) {
        self.written_bytes.store(bytes, Ordering::Release);
    }

    /// How much of its index of aborted transactions is written.
    pub(crate) fn aborted_bytes(&self) -> u64 {
        self.aborted_bytes.load(Ordering::Acquire)
    }

    /// The writer's: entries up to here are in the index.
    pub(crate) fn set_aborted_bytes(&self, bytes: u64) {
        self.aborted_bytes.store(bytes, Ordering::Release);
    }

    /// Where that index is: it is called like the segment, also while that has the name of a swap.
    pub(crate) fn aborted_path(&self) -> PathBuf {
        let name = self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        self.path.with_file_name(name.replacen(".log", ".txnindex", 1))
    }

    /// What was made in the place of a damaged index. Who holds it makes it, and others wait.
    pub(crate) fn rebuilt(&self) -> MutexGuard<'_, Option<Arc<Rebuilt>>> {
        self.rebuilt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, unless somebody is making it now.
    pub(crate) fn rebuilt_already(&self) -> Option<MutexGuard<'_, Option<Arc<Rebuilt>>>> {
        self.rebuilt.try_lock().ok()
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn corrupt(&self, position: u64, what: impl Into<String>) -> ReadError {
        ReadError::Corrupt { path: self.path.clone(), position, what: what.into() }
    }

    /// Walks on from what the index covers until `is_enough`.
    fn walk<F: DiskFile>(
        &self,
        file: &F,
        index: &mut Index,
        is_enough: impl Fn(&Index) -> bool,
    ) -> Result<(), ReadError> {
        let end = self.written_bytes();
        while index.walked_bytes < end && !is_enough(index) {
            let start = index.walked_bytes;
            let piece = self.read_at(file, start, WALK_BYTES, end)?;
            for_each_header(&piece, |position, header| {
                self.check_order(index, position, header)?;
                index.add(start + position, header);
                // What comes behind may be damaged, and is not asked for.
                Ok(!is_enough(index))
            })
            .map_err(|error| self.walk_error(start, error))?;
            if index.walked_bytes == start {
                return Err(self.corrupt(start, "the file ends inside a batch header"));
            }
        }
        Ok(())
    }

    fn check_order(&self, index: &Index, position: u64, header: &BatchHeader) -> Result<(), WalkError> {
        let expected = index.next_offset.unwrap_or(self.base_offset);
        // Compaction leaves gaps; going back is damage.
        if header.base_offset < expected {
            return Err(WalkError { position, what: format!("offset {} follows {expected}", header.base_offset) });
        }
        Ok(())
    }

    fn walk_error(&self, start: u64, error: WalkError) -> ReadError {
        self.corrupt(start + error.position, error.what)
    }

    fn read_at<F: DiskFile>(&self, file: &F, position: u64, bytes: usize, end: u64) -> Result<Bytes, ReadError> {
        let left = usize::try_from(end.saturating_sub(position)).unwrap_or(usize::MAX);
        let mut buffer = BytesMut::zeroed(bytes.min(left));
        let count = file.read_at(&mut buffer, position).map_err(|error| ReadError::disk(&self.path, &error))?;
        if count < buffer.len() {
            return Err(self.corrupt(position + count as u64, "the file is shorter than what was written to it"));
        }
        Ok(buffer.freeze())
    }

    /// Where the whole batches stand from the one that contains `offset` on: those below `end_offset`, at most `bytes_max`, one
    /// at least. `place` is a place at or before it, if one is known. Only headers are read.
    pub(crate) fn extent<F: DiskFile>(
        &self,
        file: &F,
        place: Option<u64>,
        offset: Offset,
        end_offset: Offset,
        bytes_max: usize,
    ) -> Result<Option<Extent>, ReadError> {
        let mut start = match place {
            Some(place) => place,
            None => self.position_of(file, offset)?,
        };
        let end = self.written_bytes();
        let mut found: Option<Extent> = None;
        let mut is_enough = false;
        while !is_enough && start < end {
            let piece = self.read_at(file, start, HEADERS_BYTES, end)?;
            let mut next = start;
            let mut index = self.index();
            let walked = for_each_header(&piece, |position, header| {
                let at = start + position;
                if at == index.walked_bytes && !self.has_index_files() {
                    self.check_order(&index, position, header)?;
                    index.add(at, header);
                }
                next = at + header.size as u64;
                if header.last_offset() < offset {
                    return Ok(true);
                }
                let has_room = found.as_ref().is_none_or(|found| found.bytes + header.size <= bytes_max);
                if header.base_offset >= end_offset || !has_room {
                    is_enough = true;
                    return Ok(false);
                }
                if next > end {
                    return Err(WalkError { position, what: "the file ends inside a batch".to_owned() });
                }
                let found = found.get_or_insert(Extent { position: at, bytes: 0, next_offset: header.base_offset });
                found.bytes += header.size;
                found.next_offset = header.next_offset();
                Ok(true)
            });
            drop(index);
            match walked {
                Ok(()) if next > start => {}
                // Damage takes what is behind it, and nothing that stands before.
                Ok(()) | Err(_) if found.is_some() => break,
                Ok(()) => return Err(self.corrupt(start, "the file ends inside a batch header")),
                Err(error) => return Err(self.walk_error(start, error)),
            }
            start = next;
        }
        if let Some(found) = &found {
            let mut read_ends = self.read_ends();
            read_ends.retain(|(end, _)| *end != offset && *end != found.next_offset);
            read_ends.push_back((found.next_offset, found.position + found.bytes as u64));
            if read_ends.len() > READ_ENDS_MAX {
                read_ends.pop_front();
            }
        }
        Ok(found)
    }

    /// The batches that stand there, each for itself.
    pub(crate) fn read<F: DiskFile>(&self, file: &F, extent: &Extent) -> Result<Vec<Bytes>, ReadError> {
        let piece = self.read_at(file, extent.position, extent.bytes, self.written_bytes())?;
        let mut batches = Vec::new();
        for_each_header(&piece, |position, header| {
            let from = usize::try_from(position).unwrap_or(usize::MAX);
            let batch = from.checked_add(header.size).filter(|to| *to <= piece.len()).map(|to| piece.slice(from..to));
            let whole =
                batch.ok_or_else(|| WalkError { position, what: "a batch has grown since it was found".to_owned() });
            batches.push(whole?);
            Ok(true)
        })
        .map_err(|error| self.walk_error(extent.position, error))?;
        Ok(batches)
    }

    /// The whole batches from a place on where one begins: as many as are in `bytes_max`, one at least.
    pub(crate) fn batches_from<F: DiskFile>(
        &self,
        file: &F,
        start: u64,
        bytes_max: usize,
    ) -> Result<Vec<Bytes>, ReadError> {
        let end = self.written_bytes();
        let mut piece = self.read_at(file, start, bytes_max.max(HEADER_BYTES), end)?;
        let mut batches = Vec::new();
        let mut position = 0;
        while position < piece.len() {
            let rest = piece.get(position..).unwrap_or_default();
            let header = match BatchHeader::parse(rest) {
                Ok(header) => header,
                // The next piece begins with it.
                Err(BatchError::Truncated { .. }) if !batches.is_empty() => break,
                Err(error) => return Err(self.corrupt(start + position as u64, error.to_string())),
            };
            if rest.len() < header.size {
                if !batches.is_empty() {
                    break;
                }
                piece = self.read_at(file, start, header.size, end)?;
                if piece.len() < header.size {
                    return Err(self.corrupt(start, "the file ends inside a batch"));
                }
            }
            batches.push(piece.slice(position..position + header.size));
            position += header.size;
        }
        Ok(batches)
    }

    /// A place at or before the batch that contains `offset`.
    fn position_of<F: DiskFile>(&self, file: &F, offset: Offset) -> Result<u64, ReadError> {
        let mut index = self.index();
        self.walk(file, &mut index, |index| index.next_offset.is_some_and(|next| next > offset))?;
        let after = index.entries.partition_point(|entry| entry.base_offset <= offset);
        Ok(after.checked_sub(1).and_then(|at| index.entries.get(at)).map_or(0, |entry| entry.position))
    }

    /// A place from which on the first record at or after `timestamp` stands, if there is one.
    pub(crate) fn position_at_timestamp<F: DiskFile>(
        &self,
        file: &F,
        timestamp: Timestamp,
    ) -> Result<Option<u64>, ReadError> {
        let mut index = self.index();
        self.walk(file, &mut index, |_| false)?;
        Ok(index.entries.iter().find(|entry| entry.max_timestamp >= timestamp).map(|entry| entry.position))
    }

    /// The largest timestamp of any batch.
    pub(crate) fn max_timestamp<F: DiskFile>(&self, file: &F) -> Result<Option<Timestamp>, ReadError> {
        let mut index = self.index();
        self.walk(file, &mut index, |_| false)?;
        Ok(index.entries.iter().map(|entry| entry.max_timestamp).max())
    }

    /// The batch at a place; `None` at the end.
    pub(crate) fn batch_at<F: DiskFile>(&self, file: &F, position: u64) -> Result<Option<Bytes>, ReadError> {
        let end = self.written_bytes();
        if position >= end {
            return Ok(None);
        }
        let piece = self.read_at(file, position, HEADER_BYTES, end)?;
        let header = BatchHeader::parse(&piece).map_err(|error| self.corrupt(position, error.to_string()))?;
        let batch = self.read_at(file, position, header.size, end)?;
        if batch.len() < header.size {
            return Err(self.corrupt(position, "the file ends inside a batch"));
        }
        Ok(Some(batch))
    }
}

/// Damage, `position` bytes into the piece that was walked.
struct WalkError {
    position: u64,
    what: String,
}

/// Calls `visit` with every whole header in `piece`, which begins with one, and its place, until it says `false`.
fn for_each_header(
    piece: &[u8],
    mut visit: impl FnMut(u64, &BatchHeader) -> Result<bool, WalkError>,
) -> Result<(), WalkError> {
    let mut position = 0;
    while let Some(rest) = piece.get(position..)
        && rest.len() >= HEADER_BYTES
    {
        let header = BatchHeader::parse(rest)
            .map_err(|error| WalkError { position: position as u64, what: error.to_string() })?;
        if !visit(position as u64, &header)? {
            break;
        }
        position = position.saturating_add(header.size);
    }
    Ok(())
}
