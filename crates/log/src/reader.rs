//! Reading a partition, from any thread.
//!
//! **What it does not know**: who appends, journals, what is staged. It sees what is durable, and nothing else.

use std::sync::Arc;

use atonce_kernel::disk::Disk;
use atonce_kernel::{Offset, ProducerId, Timestamp, TopicPartition};
use bytes::Bytes;

use crate::error::ReadError;

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

/// One partition, for reading. Lives as long as anybody holds it; after the topic's deletion it only says so.
pub struct PartitionReader<D: Disk> {
    partition: TopicPartition,
    _disk: Arc<D>,
}

impl<D: Disk> PartitionReader<D> {
    /// Which partition.
    #[must_use]
    pub fn partition(&self) -> &TopicPartition {
        &self.partition
    }

    /// The present ends.
    #[must_use]
    pub fn watermarks(&self) -> Watermarks {
        Watermarks { log_start_offset: 0, last_stable_offset: 0, high_watermark: 0, generation: 0 }
    }

    /// Reads batches from `offset` on, at most `bytes_max` of them, but one at least if there is one.
    ///
    /// At the end for that isolation it finds nothing, which is no error.
    /// Errors: `OutOfRange` below the log start or above the high watermark; `Deleted`; `Disk`; `Corrupt`.
    pub fn read(&self, offset: Offset, bytes_max: usize, isolation: IsolationLevel) -> Result<Read, ReadError> {
        let _ = (offset, bytes_max, isolation);
        Err(ReadError::Deleted(self.partition.clone()))
    }

    /// The first record whose timestamp is `timestamp` or later, if it is below the end for that isolation.
    pub fn offset_for_timestamp(
        &self,
        timestamp: Timestamp,
        isolation: IsolationLevel,
    ) -> Result<Option<TimestampedOffset>, ReadError> {
        let _ = (timestamp, isolation);
        Err(ReadError::Deleted(self.partition.clone()))
    }

    /// The record with the largest timestamp, the first of equals, if it is below the end for that isolation.
    pub fn offset_of_max_timestamp(&self, isolation: IsolationLevel) -> Result<Option<TimestampedOffset>, ReadError> {
        let _ = isolation;
        Err(ReadError::Deleted(self.partition.clone()))
    }
}
