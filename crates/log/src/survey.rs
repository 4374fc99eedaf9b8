//! Looking at every byte of a segment: which batches are whole, and what lies between them that is none.
//!
//! **What it does not know**: what is to be done about it.

use std::path::{Path, PathBuf};

use atonce_kernel::Offset;
use atonce_kernel::disk::DiskFile;
use atonce_protocol::records::BatchView;
use bytes::{Bytes, BytesMut};

use crate::batch::{BatchHeader, HEADER_BYTES};
use crate::error::Damage;

/// Bytes read at a time.
const PIECE_BYTES: usize = 1 << 20;
/// Where in a batch the format stands.
const MAGIC_AT: usize = 16;

/// A segment that is looked at: up to `bytes`, with offsets in `base_offset..end`.
pub(crate) struct Surveyed<'a, F> {
    pub(crate) file: &'a F,
    pub(crate) path: &'a Path,
    pub(crate) bytes: u64,
    pub(crate) base_offset: Offset,
    pub(crate) end: Offset,
}

impl<F: DiskFile> Surveyed<'_, F> {
    /// Calls `whole` with each batch whose checksum holds and whose offsets fit, in order. Returns what is damaged.
    pub(crate) fn survey(&self, mut whole: impl FnMut(&BatchHeader, &Bytes)) -> std::io::Result<Vec<Damage>> {
        let length = self.file.length()?.min(self.bytes);
        let (mut position, mut next_offset, mut damages) = (0, self.base_offset, Vec::new());
        while position < length {
            match self.batch_at(position, length, next_offset)? {
                Ok((header, batch)) => {
                    whole(&header, &batch);
                    position += header.size as u64;
                    next_offset = header.next_offset();
                }
                Err(what) => {
                    damages.push(self.damage(position, what));
                    position = self.next_batch(position + 1, length, next_offset)?;
                }
            }
        }
        if length < self.bytes {
            damages.push(self.damage(length, format!("the file ends here, and should have {} bytes", self.bytes)));
        }
        Ok(damages)
    }

    fn damage(&self, position: u64, what: String) -> Damage {
        Damage { path: PathBuf::from(self.path), position, what }
    }

    /// The whole batch at a place, or why there is none.
    fn batch_at(
        &self,
        position: u64,
        length: u64,
        next_offset: Offset,
    ) -> std::io::Result<Result<(BatchHeader, Bytes), String>> {
        let head = self.read(position, HEADER_BYTES, length)?;
        let header = match BatchHeader::parse(&head) {
            Ok(header) => header,
            Err(error) => return Ok(Err(error.to_string())),
        };
        if header.base_offset < next_offset || header.last_offset() >= self.end {
            let (first, last, end) = (header.base_offset, header.last_offset(), self.end);
            return Ok(Err(format!("offsets {first} to {last} stand where {next_offset} to {end} belong")));
        }
        if header.size as u64 > length - position {
            return Ok(Err(format!("a batch of {} bytes is cut off", header.size)));
        }
        let batch = self.read(position, header.size, length)?;
        let valid = BatchView::new(&batch).and_then(|view| view.validate());
        Ok(valid.map(|()| (header, batch)).map_err(|error| error.to_string()))
    }

    /// The next place where a whole batch stands; the end if there is none.
    fn next_batch(&self, from: u64, length: u64, next_offset: Offset) -> std::io::Result<u64> {
        let mut start = from;
        while start < length {
            let piece = self.read(start, PIECE_BYTES, length)?;
            let places = piece.windows(MAGIC_AT + 1).enumerate();
            for (at, window) in places.filter(|(_, window)| window.last() == Some(&2)) {
                let offset = window.first_chunk::<8>().map(|bytes| i64::from_be_bytes(*bytes));
                let may_be = offset.is_some_and(|offset| (next_offset..self.end).contains(&offset));
                let place = start + at as u64;
                if may_be && self.batch_at(place, length, next_offset)?.is_ok() {
                    return Ok(place);
                }
            }
            if piece.len() <= MAGIC_AT {
                break;
            }
            start += (piece.len() - MAGIC_AT) as u64;
        }
        Ok(length)
    }

    fn read(&self, position: u64, bytes: usize, length: u64) -> std::io::Result<Bytes> {
        let left = usize::try_from(length.saturating_sub(position)).unwrap_or(usize::MAX);
        let mut buffer = BytesMut::zeroed(bytes.min(left));
        let count = self.file.read_at(&mut buffer, position)?;
        buffer.truncate(count);
        Ok(buffer.freeze())
    }
}
