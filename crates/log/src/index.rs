//! Kafka's index files: where in a segment an offset or a time is. `.index` has `offset u32 (from the base) | position u32`,
//! `.timeindex` has `timestamp i64 | offset u32`, big-endian, one entry for every `index.interval.bytes` or so.
//!
//! An entry of the first says that the batch which ends with that offset stands at that place; of the second, that no batch up to
//! that offset has a later time, and that one's is this.
//!
//! **What it does not know**: when they are made (beside a checkpoint, of segments that are complete).
//!
//! They are hints. What a look-up finds is compared with the batch itself, so a file that is torn, or of other bytes, costs a walk
//! over headers, and never a wrong answer.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use atonce_kernel::disk::{Disk, DiskFile};
use atonce_kernel::{Offset, Timestamp};
use bytes::{BufMut, BytesMut};

use crate::batch::BatchHeader;
use crate::error::ReadError;
use crate::handles::SegmentNumber;
use crate::segment::{Segment, file_path};
use crate::storage::Slot;

const OFFSET_ENTRY_BYTES: u64 = 8;
const TIME_ENTRY_BYTES: u64 = 12;

/// Both files' content, as Kafka would have written it while appending.
#[derive(Debug)]
struct Builder {
    base_offset: Offset,
    interval_bytes: u64,
    bytes_since: u64,
    latest: Option<(Timestamp, Offset)>,
    last_time: Option<Timestamp>,
    offsets: BytesMut,
    times: BytesMut,
}

impl Builder {
    fn new(base_offset: Offset, interval_bytes: u64) -> Self {
        let (offsets, times) = (BytesMut::new(), BytesMut::new());
        Self { base_offset, interval_bytes, bytes_since: 0, latest: None, last_time: None, offsets, times }
    }

    fn note(&mut self, position: u64, header: &BatchHeader) {
        let (time, offset) = (header.max_timestamp, header.last_offset());
        if self.latest.is_none_or(|(latest, _)| time > latest) {
            self.latest = Some((time, offset));
        }
        if self.bytes_since > self.interval_bytes {
            if let (Some(offset), Ok(position)) = (self.relative(offset), u32::try_from(position)) {
                self.offsets.put_u32(offset);
                self.offsets.put_u32(position);
            }
            self.put_time();
            self.bytes_since = 0;
        }
        self.bytes_since += header.size as u64;
    }

    fn put_time(&mut self) {
        if let Some((time, offset)) = self.latest
            && self.last_time.is_none_or(|last| time > last)
            && let Some(offset) = self.relative(offset)
        {
            self.times.put_i64(time.0);
            self.times.put_u32(offset);
            self.last_time = Some(time);
        }
    }

    fn relative(&self, offset: Offset) -> Option<u32> {
        u32::try_from(offset - self.base_offset).ok()
    }
}

/// Index files to be made.
pub(crate) struct IndexJob {
    pub(crate) slot: Slot,
    pub(crate) folder: PathBuf,
    pub(crate) segment: Arc<Segment>,
    pub(crate) interval_bytes: u64,
}

impl IndexJob {
    /// Reads the segment's headers, and writes both files. `None`: it could not be; the segment is read without.
    pub(crate) fn run<D: Disk>(&self, disk: &D) -> Option<(Slot, SegmentNumber)> {
        let file = disk.open(&self.segment.path).ok()?;
        let mut builder = Builder::new(self.segment.base_offset, self.interval_bytes);
        self.segment.for_each_header(&file, |position, header| builder.note(position, header)).ok()?;
        builder.put_time();
        for (extension, bytes) in [("index", &builder.offsets), ("timeindex", &builder.times)] {
            let path = file_path(&self.folder, self.segment.base_offset, extension);
            let file = disk.open_or_create(&path).ok()?;
            file.set_length(0).ok()?;
            file.write_at(bytes, 0).ok()?;
            file.sync().ok()?;
        }
        Some((self.slot, self.segment.number))
    }
}

/// A place at or before the batch with `offset` in it, by the index file beside a segment.
pub(crate) fn position_of<D: Disk>(
    disk: &D,
    segment: &Segment,
    log: &D::File,
    offset: Offset,
) -> Result<Option<u64>, ReadError> {
    let base_offset = segment.base_offset;
    let entry = last_entry(disk, segment, "index", OFFSET_ENTRY_BYTES, |bytes| {
        let (entry, position) = (u32_at(bytes, 0)?, u32_at(bytes, 4)?);
        let entry = base_offset + i64::from(entry);
        (entry <= offset).then_some((entry, u64::from(position)))
    });
    let Some((last_offset, position)) = entry else { return Ok(None) };
    let header = segment.header_at(log, position)?;
    Ok(header.filter(|header| header.last_offset() == last_offset).map(|_| position))
}

/// An offset at or before which no batch has a time of `timestamp` or later, by the index file beside a segment.
pub(crate) fn offset_before<D: Disk>(
    disk: &D,
    segment: &Segment,
    log: &D::File,
    timestamp: Timestamp,
) -> Result<Option<Offset>, ReadError> {
    let base_offset = segment.base_offset;
    let entry = last_entry(disk, segment, "timeindex", TIME_ENTRY_BYTES, |bytes| {
        let time = bytes.first_chunk::<8>().map(|bytes| i64::from_be_bytes(*bytes))?;
        let offset = base_offset + i64::from(u32_at(bytes, 8)?);
        (time < timestamp.0).then_some((time, offset))
    });
    let Some((time, offset)) = entry else { return Ok(None) };
    let Some(position) = position_of(disk, segment, log, offset)? else { return Ok(None) };
    let header = segment.header_from(log, position, offset)?;
    let is_it = |header: &BatchHeader| header.last_offset() == offset && header.max_timestamp.0 == time;
    Ok(header.filter(is_it).map(|_| offset))
}

/// The last entry for which `wanted` gives something; entries for which it does come first.
fn last_entry<D: Disk, T>(
    disk: &D,
    segment: &Segment,
    extension: &str,
    entry_bytes: u64,
    wanted: impl Fn(&[u8]) -> Option<T>,
) -> Option<T> {
    let folder = segment.path.parent().unwrap_or(Path::new(""));
    let file = disk.open(&file_path(folder, segment.base_offset, extension)).ok()?;
    let (mut low, mut high) = (0, file.length().ok()? / entry_bytes);
    let mut found = None;
    while low < high {
        let middle = low + (high - low) / 2;
        let mut bytes = vec![0; usize::try_from(entry_bytes).ok()?];
        if file.read_at(&mut bytes, middle * entry_bytes).ok()? < bytes.len() {
            return None;
        }
        match wanted(&bytes) {
            Some(entry) => {
                found = Some(entry);
                low = middle + 1;
            }
            None => high = middle,
        }
    }
    found
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use atonce_testkit::disk::FaultyDisk;

    use super::*;

    /// What Apache Kafka wrote beside the segments that are among the tests' data.
    #[test]
    fn the_times_are_those_that_kafka_wrote() {
        let folders = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/segments");
        let mut compared = 0;
        for folder in std::fs::read_dir(folders).unwrap().map(|entry| entry.unwrap().path()) {
            let Ok(said) = std::fs::read(folder.join("00000000000000000000.timeindex")) else { continue };
            let bytes = std::fs::read(folder.join("00000000000000000000.log")).unwrap();
            let disk = FaultyDisk::new();
            let path = file_path(Path::new("/"), 0, "log");
            disk.open_or_create(&path).unwrap().write_at(&bytes, 0).unwrap();
            let segment = Arc::new(Segment::new(SegmentNumber(1), 0, path, bytes.len() as u64));
            let job = IndexJob { slot: 0, folder: "/".into(), segment, interval_bytes: 4096 };
            assert_eq!(job.run(&disk), Some((0, SegmentNumber(1))));
            assert_eq!(disk.bytes(Path::new("/00000000000000000000.timeindex")).unwrap(), said, "{}", folder.display());
            compared += 1;
        }
        assert!(compared > 10, "{compared} files");
    }
}
