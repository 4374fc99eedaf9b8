//! What can go wrong, who says it, and what may be done.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use atonce_kernel::TopicPartition;

use atonce_protocol::ErrorCode;

use crate::batch::BatchError;
use crate::catalog::CatalogError;
use crate::producer::ProducerRefusal;

/// A write or sync of the journal, or a sync of what stands behind it, has failed.
///
/// It is never tried again: the kernel may have marked the lost pages clean. The storage answers nothing more, and
/// whoever holds it stops; the next start takes from the journal what is whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("storage has stopped: {operation} of {path} failed: {cause}; check the disk, then start again", path = .path.display())]
pub struct JournalFailed {
    /// What was tried.
    pub operation: &'static str,
    /// On which file or folder.
    pub path: PathBuf,
    /// What the disk said.
    pub cause: String,
}

/// What is wrong with a partition's files. It is offline: nobody reads or writes it until the files are what they were, or
/// were salvaged. All other partitions go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path} at {position}: {what}", path = .path.display())]
pub struct Damage {
    /// Which file.
    pub path: PathBuf,
    /// Where in it, in bytes.
    pub position: u64,
    /// What is wrong.
    pub what: String,
}

/// Why an entry cannot be staged, whatever it says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StageError {
    /// Nothing is lost; appends are taken again once there is space.
    #[error(
        "the disk is nearly full: {available_bytes} bytes are left, {reserve_bytes} of them kept for ending transactions and deleting"
    )]
    DiskFull {
        /// Bytes that are free.
        available_bytes: u64,
        /// Bytes that clients may not use.
        reserve_bytes: u64,
    },
    /// What must not be divided is larger than a journal group can be.
    #[error(
        "{needed} bytes do not fit into one journal group, which has {left} left; commit before, or use a larger journal file"
    )]
    GroupFull {
        /// Bytes of this entry.
        needed: u64,
        /// Bytes left in the group.
        left: u64,
    },
    /// The storage has stopped.
    #[error(transparent)]
    Failed(#[from] JournalFailed),
}

/// Why a batch or marker is not appended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// No such topic, or not so many partitions.
    #[error("there is no partition {0}")]
    UnknownPartition(TopicPartition),
    /// The bytes are no batch.
    #[error("{partition}: {error}")]
    Batch {
        /// Where to.
        partition: TopicPartition,
        /// What is wrong with it.
        error: BatchError,
    },
    /// The producer may not write this.
    #[error("{partition}: {refusal}")]
    Producer {
        /// Where to.
        partition: TopicPartition,
        /// Why not.
        refusal: ProducerRefusal,
    },
    /// KAFKA_STORAGE_ERROR: its files are damaged.
    #[error("{partition} is offline: {damage}")]
    Offline {
        /// Where to.
        partition: TopicPartition,
        /// What is wrong.
        damage: Arc<Damage>,
    },
    /// Nothing can be staged.
    #[error(transparent)]
    Storage(#[from] StageError),
}

/// Why records cannot be deleted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeleteRecordsError {
    /// No such topic, or not so many partitions.
    #[error("there is no partition {0}")]
    UnknownPartition(TopicPartition),
    /// The offset is not below or at the high watermark.
    #[error("{partition}: cannot delete up to {requested}, the high watermark is {high_watermark}")]
    OutOfRange {
        /// Where.
        partition: TopicPartition,
        /// Up to what.
        requested: i64,
        /// What there is.
        high_watermark: i64,
    },
    /// KAFKA_STORAGE_ERROR: its files are damaged.
    #[error("{partition} is offline: {damage}")]
    Offline {
        /// Where.
        partition: TopicPartition,
        /// What is wrong.
        damage: Arc<Damage>,
    },
    /// Nothing can be staged.
    #[error(transparent)]
    Storage(#[from] StageError),
}

/// Why a partition cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// OFFSET_OUT_OF_RANGE.
    #[error("{partition}: offset {offset} is outside {log_start_offset}..={high_watermark}")]
    OutOfRange {
        /// Where.
        partition: TopicPartition,
        /// What was asked for.
        offset: i64,
        /// The first offset there is.
        log_start_offset: i64,
        /// The offset after the last.
        high_watermark: i64,
    },
    /// The topic was deleted.
    #[error("{0} was deleted")]
    Deleted(TopicPartition),
    /// KAFKA_STORAGE_ERROR: its files were found damaged at the start.
    #[error("{partition} is offline: {damage}")]
    Offline {
        /// Which.
        partition: TopicPartition,
        /// What is wrong.
        damage: Arc<Damage>,
    },
    /// The disk failed.
    #[error("reading {path} failed: {cause}", path = .path.display())]
    Disk {
        /// Which file.
        path: PathBuf,
        /// What the disk said.
        cause: String,
    },
    /// A segment does not hold what it held.
    #[error("{path} at {position}: {what}", path = .path.display())]
    Corrupt {
        /// Which file.
        path: PathBuf,
        /// Where in it, in bytes.
        position: u64,
        /// What is wrong.
        what: String,
    },
}

/// Why a data folder cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The disk failed.
    #[error("{operation} of {path} failed: {cause}", path = .path.display())]
    Disk {
        /// What was tried.
        operation: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// What the disk said.
        cause: String,
    },
    /// A durable byte is not what it was. Nothing was changed.
    #[error("{path} at {position}: {what}; the data was durable here before, so this disk or file was damaged", path = .path.display())]
    Corrupt {
        /// Which file.
        path: PathBuf,
        /// Where in it, in bytes.
        position: u64,
        /// What is wrong.
        what: String,
    },
    /// There is data, and no checkpoint to begin from. Nothing was changed.
    #[error("{path} holds data, or held some, but no checkpoint file; is it the right folder?", path = .path.display())]
    NoCheckpoint {
        /// The folder.
        path: PathBuf,
    },
    /// A later version of this program wrote it. Nothing was changed.
    #[error(
        "{path} has format version {found}, and this program knows versions up to {known}; use the program that wrote it, or a later one",
        path = .path.display()
    )]
    NewerFormat {
        /// The checkpoint.
        path: PathBuf,
        /// Its version.
        found: u8,
        /// The latest that is known here.
        known: u8,
    },
    /// Settings that cannot work.
    #[error("storage settings: {0}")]
    Settings(&'static str),
    /// A step after recovery failed as a running storage's would.
    #[error(transparent)]
    Failed(#[from] JournalFailed),
}

impl JournalFailed {
    pub(crate) fn new(operation: &'static str, path: &Path, cause: &io::Error) -> Self {
        Self { operation, path: path.to_owned(), cause: cause.to_string() }
    }
}

impl OpenError {
    pub(crate) fn disk(operation: &'static str, path: &Path, cause: &io::Error) -> Self {
        Self::Disk { operation, path: path.to_owned(), cause: cause.to_string() }
    }

    pub(crate) fn corrupt(path: &Path, position: u64, what: impl Into<String>) -> Self {
        Self::Corrupt { path: path.to_owned(), position, what: what.into() }
    }
}

impl ReadError {
    pub(crate) fn disk(path: &Path, cause: &io::Error) -> Self {
        Self::Disk { path: path.to_owned(), cause: cause.to_string() }
    }
}

impl StageError {
    /// As Kafka's clients know it.
    #[must_use]
    pub fn error_code(&self) -> ErrorCode {
        match self {
            Self::DiskFull { .. } | Self::Failed(_) => ErrorCode::KafkaStorageError,
            Self::GroupFull { .. } => ErrorCode::MessageTooLarge,
        }
    }
}

impl ProducerRefusal {
    /// As Kafka's clients know it.
    #[must_use]
    pub fn error_code(&self) -> ErrorCode {
        match self {
            Self::StaleEpoch { .. } => ErrorCode::InvalidProducerEpoch,
            Self::OutOfOrder { .. } => ErrorCode::OutOfOrderSequenceNumber,
            Self::NotVerified { .. } | Self::InsideTransaction { .. } => ErrorCode::InvalidTxnState,
            Self::CoordinatorFenced { .. } => ErrorCode::TransactionCoordinatorFenced,
        }
    }
}

impl AppendError {
    /// As Kafka's clients know it.
    #[must_use]
    pub fn error_code(&self) -> ErrorCode {
        match self {
            Self::UnknownPartition(_) => ErrorCode::UnknownTopicOrPartition,
            Self::Batch { error, .. } => match error {
                // What would be the same the next time.
                BatchError::Truncated { .. }
                | BatchError::TrailingBytes { .. }
                | BatchError::BadOffsetDelta { .. }
                | BatchError::ControlBatch
                | BatchError::BadMarker => ErrorCode::InvalidRecord,
                // Damage on the way: the client sends again.
                BatchError::BadLength { .. } | BatchError::BadMagic { .. } | BatchError::BadChecksum { .. } => {
                    ErrorCode::CorruptMessage
                }
            },
            Self::Producer { refusal, .. } => refusal.error_code(),
            Self::Offline { .. } => ErrorCode::KafkaStorageError,
            Self::Storage(error) => error.error_code(),
        }
    }
}

impl DeleteRecordsError {
    /// As Kafka's clients know it.
    #[must_use]
    pub fn error_code(&self) -> ErrorCode {
        match self {
            Self::UnknownPartition(_) => ErrorCode::UnknownTopicOrPartition,
            Self::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
            Self::Offline { .. } => ErrorCode::KafkaStorageError,
            Self::Storage(error) => error.error_code(),
        }
    }
}

impl CatalogError {
    /// As Kafka's clients know it.
    #[must_use]
    pub fn error_code(&self) -> ErrorCode {
        match self {
            Self::TopicExists(_) | Self::TopicIdExists(_) => ErrorCode::TopicAlreadyExists,
            Self::UnknownTopic(_) => ErrorCode::UnknownTopicId,
            Self::InvalidName(_) => ErrorCode::InvalidTopicException,
            Self::InvalidPartitions { .. } => ErrorCode::InvalidPartitions,
            Self::Storage(error) => error.error_code(),
        }
    }
}

impl ReadError {
    /// As Kafka's clients know it.
    #[must_use]
    pub fn error_code(&self) -> ErrorCode {
        match self {
            Self::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
            Self::Deleted(_) => ErrorCode::UnknownTopicOrPartition,
            Self::Offline { .. } | Self::Disk { .. } | Self::Corrupt { .. } => ErrorCode::KafkaStorageError,
        }
    }
}
