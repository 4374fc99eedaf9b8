//! The header of a record batch (magic 2), and the marker that ends a transaction: all that a log reads
//! of what it stores.
//!
//! **What it does not know**: records, keys, values, compression. The bytes behind the header are opaque here, but
//! for control batches, whose one record is never compressed. `atonce_protocol` reads whole batches; a log walks over
//! headers alone, whose batches are not in memory.
//!
//! Layout (big-endian, 61 bytes, then the records):
//! `base_offset i64 | length i32 (of what follows it) | partition_leader_epoch i32 | magic i8 | crc u32
//! (CRC-32C of all that follows it) | attributes i16 | last_offset_delta i32 | base_timestamp i64 | max_timestamp i64 |
//! producer_id i64 | producer_epoch i16 | base_sequence i32 | records_count i32`.
//!
//! `base_offset` and `partition_leader_epoch` stand before the checksum's range: a log puts its own there
//! and nothing is computed again.

use atonce_kernel::{Offset, Outcome, ProducerIdentity, Sequence, Timestamp};
use atonce_protocol::records::{BatchView, marker_batch, read_marker};
use bytes::Bytes;

use crate::fields::Fields;

/// Bytes before the first record.
pub const HEADER_BYTES: usize = 61;
/// Bytes that stand before the range that the length field counts.
pub(crate) const LENGTH_OVERHEAD_BYTES: usize = 12;
/// Where the checksum's range begins.
const CRC_RANGE_START: usize = 21;

const ATTRIBUTE_LOG_APPEND_TIME: i16 = 1 << 3;
const ATTRIBUTE_TRANSACTIONAL: i16 = 1 << 4;
const ATTRIBUTE_CONTROL: i16 = 1 << 5;
const MAGIC: i8 = 2;

/// Why bytes are no batch that a log can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// Fewer bytes than a header, or than the header promises.
    #[error("the batch is cut short: {found} bytes, {expected} are needed")]
    Truncated {
        /// Bytes that must be there.
        expected: u64,
        /// Bytes that are.
        found: u64,
    },
    /// More than one batch, or rubbish behind it.
    #[error("{extra} bytes follow the batch; one batch was expected")]
    TrailingBytes {
        /// Bytes beyond the batch.
        extra: u64,
    },
    /// A length field below the header's size.
    #[error("the batch's length field says {length}, less than a header")]
    BadLength {
        /// The field.
        length: i32,
    },
    /// A format before Kafka 0.11.
    #[error("the batch has magic {magic}; this log stores magic 2")]
    BadMagic {
        /// The field.
        magic: i8,
    },
    /// The last offset lies before the first.
    #[error("the batch's last offset delta is {last_offset_delta}")]
    BadOffsetDelta {
        /// The field.
        last_offset_delta: i32,
    },
    /// The checksum is another.
    #[error("the batch's checksum is {stored:#010x}, its bytes give {computed:#010x}")]
    BadChecksum {
        /// What the header says.
        stored: u32,
        /// What the bytes say.
        computed: u32,
    },
    /// A control batch where only data may come.
    #[error("a control batch cannot be appended as data")]
    ControlBatch,
    /// A control batch without the one record of an end-of-transaction marker.
    #[error("the control batch holds no end-of-transaction marker")]
    BadMarker,
}

/// The fields of a batch's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record.
    pub base_offset: Offset,
    /// Bytes of the whole batch, header included.
    pub size: usize,
    /// The leader's epoch when it was appended.
    pub leader_epoch: i32,
    /// CRC-32C of everything behind it, as stored.
    pub crc: u32,
    /// Compression (bits 0-2), timestamp type (3), transactional (4), control (5), delete horizon (6).
    pub attributes: i16,
    /// Last offset minus base offset.
    pub last_offset_delta: i32,
    /// What the records' timestamps are relative to; the delete horizon if attribute bit 6 is set.
    pub base_timestamp: Timestamp,
    /// The largest timestamp, or the time of append.
    pub max_timestamp: Timestamp,
    /// Who wrote it; `NONE` if not idempotent.
    pub producer: ProducerIdentity,
    /// Sequence of the first record; `NONE` if not idempotent or control.
    pub base_sequence: Sequence,
    /// Number of records.
    pub records_count: i32,
}

impl BatchHeader {
    /// Reads the header at the start of `bytes`, which need not hold the records.
    ///
    /// Errors: `Truncated`, `BadLength`, `BadMagic`, `BadOffsetDelta`. The checksum is not looked at.
    pub fn parse(bytes: &[u8]) -> Result<Self, BatchError> {
        let truncated = BatchError::Truncated { expected: HEADER_BYTES as u64, found: bytes.len() as u64 };
        let mut fields = Fields::of(bytes.get(..HEADER_BYTES).ok_or(truncated)?);
        Self::read(&mut fields).ok_or(truncated).and_then(|(magic, length, header)| {
            if magic != MAGIC {
                return Err(BatchError::BadMagic { magic });
            }
            if header.size < HEADER_BYTES {
                return Err(BatchError::BadLength { length });
            }
            if header.last_offset_delta < 0
                || header.base_offset.checked_add(i64::from(header.last_offset_delta)).is_none()
            {
                return Err(BatchError::BadOffsetDelta { last_offset_delta: header.last_offset_delta });
            }
            Ok(header)
        })
    }

    fn read(fields: &mut Fields<'_>) -> Option<(i8, i32, Self)> {
        let base_offset = fields.i64()?;
        let length = fields.i32()?;
        let leader_epoch = fields.i32()?;
        let magic = fields.i8()?;
        let header = Self {
            base_offset,
            size: usize::try_from(length).map_or(0, |length| length.saturating_add(LENGTH_OVERHEAD_BYTES)),
            leader_epoch,
            crc: fields.u32()?,
            attributes: fields.i16()?,
            last_offset_delta: fields.i32()?,
            base_timestamp: Timestamp(fields.i64()?),
            max_timestamp: Timestamp(fields.i64()?),
            producer: ProducerIdentity::new(fields.i64()?, fields.i16()?),
            base_sequence: Sequence(fields.i32()?),
            records_count: fields.i32()?,
        };
        Some((magic, length, header))
    }

    /// Reads the header of the one batch that `bytes` are.
    ///
    /// Errors: as [`parse`](Self::parse), and `Truncated` or `TrailingBytes` if `bytes` are not exactly one batch.
    pub fn parse_whole(bytes: &[u8]) -> Result<Self, BatchError> {
        let header = Self::parse(bytes)?;
        match bytes.len().cmp(&header.size) {
            std::cmp::Ordering::Less => {
                Err(BatchError::Truncated { expected: header.size as u64, found: bytes.len() as u64 })
            }
            std::cmp::Ordering::Greater => Err(BatchError::TrailingBytes { extra: (bytes.len() - header.size) as u64 }),
            std::cmp::Ordering::Equal => Ok(header),
        }
    }

    /// Offset of the last record.
    #[must_use]
    pub fn last_offset(&self) -> Offset {
        self.base_offset + i64::from(self.last_offset_delta)
    }

    /// Offset after the last record.
    #[must_use]
    pub fn next_offset(&self) -> Offset {
        self.last_offset() + 1
    }

    /// Sequence of the last record; `NONE` if there is none.
    #[must_use]
    pub fn last_sequence(&self) -> Sequence {
        if self.base_sequence == Sequence::NONE {
            Sequence::NONE
        } else {
            self.base_sequence.plus(self.last_offset_delta)
        }
    }

    /// Whether an idempotent producer wrote it.
    #[must_use]
    pub fn has_producer(&self) -> bool {
        self.producer.id.is_some()
    }

    /// Whether it belongs to a transaction.
    #[must_use]
    pub fn is_transactional(&self) -> bool {
        self.attributes & ATTRIBUTE_TRANSACTIONAL != 0
    }

    /// Whether it is a control batch.
    #[must_use]
    pub fn is_control(&self) -> bool {
        self.attributes & ATTRIBUTE_CONTROL != 0
    }

    /// Whether its timestamps are the time of append (`message.timestamp.type=LogAppendTime`).
    #[must_use]
    pub fn is_log_append_time(&self) -> bool {
        self.attributes & ATTRIBUTE_LOG_APPEND_TIME != 0
    }
}

/// Compares the checksum of the one batch that `bytes` are.
pub fn verify_checksum(header: &BatchHeader, bytes: &[u8]) -> Result<(), BatchError> {
    let computed = crc32c::crc32c(bytes.get(CRC_RANGE_START..header.size).unwrap_or_default());
    if computed == header.crc { Ok(()) } else { Err(BatchError::BadChecksum { stored: header.crc, computed }) }
}

/// What a transaction's control record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndTransactionMarker {
    /// How it ended.
    pub outcome: Outcome,
    /// The epoch of the coordinator that wrote it.
    pub coordinator_epoch: i32,
}

impl EndTransactionMarker {
    /// Reads the marker in the control batch that `bytes` are.
    ///
    /// Errors: `BadMarker` if its first record is none.
    pub fn parse(bytes: &[u8]) -> Result<Self, BatchError> {
        let marker = || {
            let record = BatchView::new(bytes).ok()?.records().ok()?.next()?.ok()?;
            read_marker(&record).ok()
        };
        let marker = marker().ok_or(BatchError::BadMarker)?;
        Ok(Self { outcome: marker.outcome, coordinator_epoch: marker.coordinator_epoch })
    }

    /// The control batch of this marker, at offset 0.
    pub(crate) fn encode(self, producer: ProducerIdentity, timestamp: Timestamp) -> Bytes {
        marker_batch(producer, self.outcome, self.coordinator_epoch, timestamp.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_reads_back_and_its_checksum_holds() {
        let marker = EndTransactionMarker { outcome: Outcome::Commit, coordinator_epoch: 3 };
        let bytes = marker.encode(ProducerIdentity::new(7, 2), Timestamp(1000));
        let header = BatchHeader::parse_whole(&bytes).unwrap();
        assert_eq!(verify_checksum(&header, &bytes), Ok(()));
        assert!(header.is_control() && header.is_transactional());
        assert_eq!(header.producer, ProducerIdentity::new(7, 2));
        assert_eq!(header.last_sequence(), Sequence::NONE);
        assert_eq!(EndTransactionMarker::parse(&bytes), Ok(marker));
    }

    #[test]
    fn every_truncation_is_refused() {
        let marker = EndTransactionMarker { outcome: Outcome::Abort, coordinator_epoch: 0 };
        let bytes = marker.encode(ProducerIdentity::new(7, 2), Timestamp(1000));
        for length in 0..bytes.len() {
            assert!(BatchHeader::parse_whole(&bytes[..length]).is_err(), "{length} bytes");
        }
    }
}
