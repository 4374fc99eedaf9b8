//! Record batches (format 2): reading them where they lie, building them without an allocation per record,
//! and the control batches that end transactions.
//!
//! Layout of a batch, big-endian: `base_offset i64 | batch_length i32 | partition_leader_epoch i32 | magic i8 |
//! crc u32 | attributes i16 | last_offset_delta i32 | base_timestamp i64 | max_timestamp i64 | producer_id i64 |
//! producer_epoch i16 | base_sequence i32 | records_count i32` (61 bytes), then the records, compressed as one.
//! `batch_length` counts from behind itself; `crc` (CRC-32C) covers all behind itself, so that a broker can set
//! the offset and the epoch without touching it. `docs/format/records.md` has the rest.
//!
//! **What it does not know**: offsets of a log, producers' state, what a topic allows.
//!
//! Invariants: nothing panics on any bytes; what is decompressed never outgrows the caller's limit.

mod batch;
mod build;
mod compress;
mod marker;
mod recompress;
mod rewrite;
mod validate;
mod varint;

pub use batch::{
    BatchHeader, BatchView, Batches, HeaderView, Headers, RecordView, Records, TimestampType, batches, set_base_offset,
    set_log_append_time, set_partition_leader_epoch, set_producer,
};
pub use build::{BatchBuilder, BatchOptions, record_bytes_max};
pub use compress::Compression;
pub use marker::{Marker, MarkerError, marker_batch, read_marker};
pub use recompress::recompress;
pub use rewrite::{renumber, rewrite_batch};
pub use validate::{ProducedBatch, ProducedRules, validate_produced};

use crate::ErrorCode;

/// Bytes before the records of a batch.
pub const BATCH_HEADER_BYTES: usize = 61;

/// The only format there is nowadays.
pub const MAGIC: i8 = 2;

/// A batch that is not one, or that may not be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The bytes end before the batch does.
    #[error("a batch of {needed} bytes is cut off after {found}")]
    Truncated {
        /// The batch's length, or that of its head.
        needed: usize,
        /// What there is.
        found: usize,
    },
    /// A length that leaves no room for the head.
    #[error("a batch says that it is {length} bytes long, less than its own head")]
    BatchTooShort {
        /// What it says.
        length: i32,
    },
    /// A format of the past: message sets of Kafka before 0.11.
    #[error("a batch is of format {magic}; only format 2 can be written here")]
    OldMagic {
        /// What it says.
        magic: i8,
    },
    /// A format nobody knows.
    #[error("a batch is of format {magic}, which nobody knows")]
    UnknownMagic {
        /// What it says.
        magic: i8,
    },
    /// The checksum is not that of the bytes.
    #[error("a batch at offset {base_offset} has checksum {found:#010x} and says {expected:#010x}")]
    Checksum {
        /// Of the batch.
        base_offset: i64,
        /// What it says.
        expected: u32,
        /// What the bytes give.
        found: u32,
    },
    /// A compression nobody knows.
    #[error("a batch is compressed by codec {codec}, which nobody knows")]
    UnknownCompression {
        /// The number in the attributes.
        codec: i16,
    },
    /// A compression left out of this build.
    #[error("a batch is compressed by {compression}, which this build leaves out")]
    CompressionNotBuilt {
        /// Which.
        compression: Compression,
    },
    /// The codec could not read it.
    #[error("a batch at offset {base_offset} is not {compression}: {reason}")]
    Decompression {
        /// Of the batch.
        base_offset: i64,
        /// What it says.
        compression: Compression,
        /// What the codec says.
        reason: String,
    },
    /// More bytes come out than the caller allows.
    #[error("a batch at offset {base_offset} holds more than {limit} bytes, decompressed")]
    TooLargeDecompressed {
        /// Of the batch.
        base_offset: i64,
        /// What the caller allows.
        limit: usize,
    },
    /// A record whose lengths do not fit.
    #[error("record {index} of the batch at offset {base_offset}: {what}")]
    MalformedRecord {
        /// Of the batch.
        base_offset: i64,
        /// From 0.
        index: i32,
        /// What is wrong.
        what: &'static str,
    },
    /// The head and the records disagree, or the batch is of a kind that may not be written so.
    #[error("the batch at offset {base_offset}: {what}")]
    NotAllowed {
        /// Of the batch.
        base_offset: i64,
        /// What is wrong.
        what: &'static str,
    },
}

impl RecordError {
    /// What a broker answers to it. `CORRUPT_MESSAGE` invites the client to send again, so it is kept for damage on
    /// the way; what would be the same the next time is `INVALID_RECORD`. Apache Kafka 4.4 answers so too, but for
    /// bytes that their codec cannot read, of which it only says `UNKNOWN_SERVER_ERROR` (and so do we to a producer).
    #[must_use]
    pub fn error_code(&self) -> ErrorCode {
        match self {
            Self::BatchTooShort { .. } | Self::UnknownMagic { .. } | Self::Checksum { .. } => ErrorCode::CorruptMessage,
            Self::Truncated { .. }
            | Self::OldMagic { .. }
            | Self::UnknownCompression { .. }
            | Self::Decompression { .. }
            | Self::MalformedRecord { .. }
            | Self::NotAllowed { .. } => ErrorCode::InvalidRecord,
            Self::CompressionNotBuilt { .. } => ErrorCode::UnsupportedCompressionType,
            Self::TooLargeDecompressed { .. } => ErrorCode::MessageTooLarge,
        }
    }
}
