//! Kafka's index of aborted transactions: a `.txnindex` file beside the segment that holds their markers, an entry for each, in
//! the order of the markers. What readers of committed data must skip is looked up there; memory has only what lies above all
//! segments.
//!
//! **What it does not know**: who reads, what is staged.
//!
//! An index is never the truth: the markers in the segments are. A file that is missing, cut, or makes no sense is made anew from
//! them, by whoever meets it, and written at the next checkpoint.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use atonce_kernel::disk::{Disk, DiskFile};
use atonce_kernel::{Offset, Outcome, ProducerId};
use bytes::{BufMut, BytesMut};

use crate::batch::{BatchHeader, EndTransactionMarker};
use crate::error::ReadError;
use crate::fields::Fields;
use crate::files::cleaned_path;
use crate::producer::Producers;
use crate::reader::AbortedTransaction;
use crate::segment::{Segment, file_path};

/// Bytes of an aborted transaction in a `.txnindex` file.
pub(crate) const ABORTED_BYTES: usize = 34;
/// Entries are read so many at a time: 4 KiB.
const ENTRIES_PER_READ: u64 = 120;

/// Layout: at [`AbortedTransaction`].
pub(crate) fn encode_aborted(aborted: &AbortedTransaction, buffer: &mut BytesMut) {
    buffer.put_i16(0);
    buffer.put_i64(aborted.producer_id.0);
    buffer.put_i64(aborted.first_offset);
    buffer.put_i64(aborted.last_offset);
    buffer.put_i64(aborted.last_stable_offset);
}

/// An entry; `None` if it makes no sense.
fn decode(bytes: &[u8]) -> Option<AbortedTransaction> {
    let mut fields = Fields::of(bytes);
    if fields.i16()? != 0 {
        return None;
    }
    let aborted = AbortedTransaction {
        producer_id: ProducerId(fields.i64()?),
        first_offset: fields.i64()?,
        last_offset: fields.i64()?,
        last_stable_offset: fields.i64()?,
    };
    let is_sound = aborted.first_offset >= 0
        && aborted.first_offset < aborted.last_offset
        && (0..=aborted.last_offset + 1).contains(&aborted.last_stable_offset);
    is_sound.then_some(aborted)
}

/// All entries of a `.txnindex` file; `None` if it is not one.
pub(crate) fn parse_aborted(bytes: &[u8]) -> Option<Vec<AbortedTransaction>> {
    let mut all: Vec<AbortedTransaction> = Vec::new();
    for entry in bytes.chunks(ABORTED_BYTES) {
        let entry = decode(entry)?;
        if all.last().is_some_and(|last| last.last_offset >= entry.last_offset) {
            return None;
        }
        all.push(entry);
    }
    Some(all)
}

/// The file is not what was written: it must be made anew.
#[derive(Debug)]
pub(crate) struct Damaged;

/// A segment's index, as far as it is written.
pub(crate) struct AbortedIndex<'a, F> {
    file: &'a F,
    entries: u64,
    /// No marker is below.
    base_offset: Offset,
}

impl<'a, F: DiskFile> AbortedIndex<'a, F> {
    pub(crate) fn new(file: &'a F, segment: &Segment, aborted_bytes: u64) -> Self {
        Self { file, entries: aborted_bytes / ABORTED_BYTES as u64, base_offset: segment.base_offset }
    }

    /// Calls `visit` with each transaction whose marker lies in `markers`, until it says `false`. Returns whether it did.
    pub(crate) fn visit(
        &self,
        markers: &Range<Offset>,
        mut visit: impl FnMut(AbortedTransaction) -> bool,
    ) -> Result<bool, Damaged> {
        let mut number = self.first_from(markers.start)?;
        // So far the markers have come, and only rise.
        let mut before = markers.start.max(self.base_offset) - 1;
        while number < self.entries {
            let count = (self.entries - number).min(ENTRIES_PER_READ);
            // All of a piece makes sense, or none of it is believed.
            let entries = parse_aborted(&self.read(number, count)?).ok_or(Damaged)?;
            if entries.first().is_none_or(|first| first.last_offset <= before) {
                return Err(Damaged);
            }
            for entry in entries {
                if entry.last_offset >= markers.end {
                    return Ok(false);
                }
                if !visit(entry) {
                    return Ok(true);
                }
                before = entry.last_offset;
            }
            number += count;
        }
        Ok(false)
    }

    /// The number of the first entry whose marker is not below `offset`.
    fn first_from(&self, offset: Offset) -> Result<u64, Damaged> {
        let (mut low, mut high) = (0, self.entries);
        while low < high {
            let middle = low + (high - low) / 2;
            let entry = decode(&self.read(middle, 1)?).filter(|entry| entry.last_offset >= self.base_offset);
            if entry.ok_or(Damaged)?.last_offset < offset {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    fn read(&self, number: u64, count: u64) -> Result<Vec<u8>, Damaged> {
        let mut bytes = vec![0; usize::try_from(count).map_err(|_| Damaged)? * ABORTED_BYTES];
        let read = self.file.read_at(&mut bytes, number * ABORTED_BYTES as u64).map_err(|_| Damaged)?;
        if read == bytes.len() { Ok(bytes) } else { Err(Damaged) }
    }
}

/// What was read from a segment's markers, in the place of an index that is damaged.
#[derive(Debug)]
pub(crate) struct Rebuilt {
    /// Of the last of the segments that were read, in the order of their markers.
    pub(crate) aborted: Vec<AbortedTransaction>,
    /// All markers below are known.
    pub(crate) end: Offset,
}

/// Reads what was aborted from the markers of a log: `segments` are all up to the one that is asked for, the last.
pub(crate) fn rebuild<D: Disk>(disk: &D, segments: &[Arc<Segment>]) -> Result<Rebuilt, ReadError> {
    let mut producers = Producers::default();
    let mut rebuilt = Rebuilt { aborted: Vec::new(), end: 0 };
    for segment in segments {
        let file = disk.open(&segment.path).map_err(|error| ReadError::disk(&segment.path, &error))?;
        rebuilt.aborted.clear();
        let mut failed = None;
        segment.for_each_header(&file, |position, header| {
            rebuilt.end = header.next_offset();
            if !header.is_transactional() {
                return;
            }
            let batch = if header.is_control() { segment.batch_at(&file, position) } else { Ok(None) };
            match batch {
                Ok(batch) => rebuilt.aborted.extend(follow(&mut producers, header, &batch.unwrap_or_default())),
                Err(error) => failed = failed.take().or(Some(error)),
            }
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
    }
    Ok(rebuilt)
}

/// The transaction that a batch aborts, if it is such a marker and the transaction has data here.
pub(crate) fn follow(producers: &mut Producers, header: &BatchHeader, batch: &[u8]) -> Option<AbortedTransaction> {
    if !header.is_control() {
        producers.apply_batch(header, header.base_offset);
        return None;
    }
    let marker = EndTransactionMarker::parse(batch).ok()?;
    let completed = producers.apply_marker(header, marker, header.base_offset)?;
    (marker.outcome == Outcome::Abort).then_some(AbortedTransaction {
        producer_id: header.producer.id,
        first_offset: completed.first_offset,
        last_offset: header.base_offset,
        last_stable_offset: completed.last_stable_offset,
    })
}

/// Puts an index that was made anew in its place: beside first, so that it is there whole or not at all. The folder's names
/// are to be synced. Returns its length.
pub(crate) fn write_anew<D: Disk>(disk: &D, folder: &Path, base_offset: Offset, rebuilt: &Rebuilt) -> io::Result<u64> {
    let mut bytes = BytesMut::with_capacity(rebuilt.aborted.len() * ABORTED_BYTES);
    rebuilt.aborted.iter().for_each(|entry| encode_aborted(entry, &mut bytes));
    let beside = cleaned_path(folder, base_offset, "txnindex");
    let file = disk.open_or_create(&beside)?;
    file.set_length(0)?;
    file.write_at(&bytes, 0)?;
    file.sync()?;
    disk.rename(&beside, &file_path(folder, base_offset, "txnindex"))?;
    Ok(bytes.len() as u64)
}

#[cfg(test)]
#[path = "aborted_tests.rs"]
mod tests;
