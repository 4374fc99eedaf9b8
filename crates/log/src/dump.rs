//! Says what is in a log's files, in the words of Kafka's own DumpLogSegments, so that the two can be compared line
//! by line.
//!
//! **What it does not know**: folders, what a coordinator's records mean.

use std::fmt::Write;

use atonce_kernel::{Outcome, ProducerEpoch, ProducerId, Sequence, Timestamp};
use atonce_protocol::records::{BatchView, RecordError, RecordView, batches, read_marker};

use crate::aborted::parse_aborted;
use crate::fields::Fields;
use crate::reader::AbortedTransaction;

/// A batch that unpacks to more than this is not shown record by record.
const UNPACKED_BYTES_MAX: usize = 256 << 20;
/// The version of a producer snapshot that Kafka has written since 0.11.
const SNAPSHOT_VERSION: i16 = 1;

/// What a dump shows of a log's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Batches.
    Batches,
    /// Batches and records, with key and value as text.
    Records,
}

/// A producer as Kafka's `.snapshot` file has it: with its last batch alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotProducer {
    /// Who.
    pub id: ProducerId,
    /// The newest epoch.
    pub epoch: ProducerEpoch,
    /// Sequence of the last record; `NONE` if there is no batch.
    pub last_sequence: Sequence,
    /// Offset of the last record; -1 if there is no batch.
    pub last_offset: i64,
    /// Last offset minus base offset of the last batch.
    pub offset_delta: i32,
    /// Of the last batch or marker.
    pub timestamp: Timestamp,
    /// Of the last marker; -1 if there was none.
    pub coordinator_epoch: i32,
    /// First offset of the open transaction; -1 if none is open.
    pub transaction_first_offset: i64,
}

/// The lines for a `.log` file's bytes. Ends where a batch is cut off, as a file may be.
///
/// Errors: bytes that are no batch.
pub fn log_lines(bytes: &[u8], detail: Detail) -> Result<Vec<String>, RecordError> {
    let mut lines = Vec::new();
    let mut position = 0;
    for batch in batches(bytes) {
        let batch = batch?;
        lines.push(batch_line(&batch, position));
        match detail {
            Detail::Batches => {}
            Detail::Records => record_lines(&batch, &mut lines)?,
        }
        position += batch.size_bytes();
    }
    Ok(lines)
}

fn batch_line(batch: &BatchView<'_>, position: usize) -> String {
    let horizon = batch.delete_horizon_ms().map_or("OptionalLong.empty".to_owned(), |ms| format!("OptionalLong[{ms}]"));
    format!(
        "baseOffset: {} lastOffset: {} count: {} baseSequence: {} lastSequence: {} producerId: {} producerEpoch: {} \
         partitionLeaderEpoch: {} isTransactional: {} isControl: {} deleteHorizonMs: {horizon} position: {position} \
         CreateTime: {} size: {} magic: 2 compresscodec: {} crc: {} isvalid: {}",
        batch.base_offset(),
        batch.last_offset(),
        batch.records_count(),
        batch.base_sequence(),
        batch.last_sequence(),
        batch.producer().id,
        batch.producer().epoch,
        batch.partition_leader_epoch(),
        batch.is_transactional(),
        batch.is_control(),
        batch.max_timestamp(),
        batch.size_bytes(),
        batch.compression().map_or("unknown", |compression| compression.name()),
        batch.crc(),
        batch.computed_crc() == batch.crc(),
    )
}

fn record_lines(batch: &BatchView<'_>, lines: &mut Vec<String>) -> Result<(), RecordError> {
    let payload = batch.decompress(UNPACKED_BYTES_MAX)?;
    for record in batch.records_in(&payload) {
        lines.push(record_line(batch, &record?));
    }
    Ok(())
}

fn record_line(batch: &BatchView<'_>, record: &RecordView<'_>) -> String {
    let size = |bytes: Option<&[u8]>| bytes.map_or(-1, |bytes| i64::try_from(bytes.len()).unwrap_or(i64::MAX));
    let sequence = if batch.base_sequence() == Sequence::NONE {
        Sequence::NONE
    } else {
        batch.base_sequence().plus(record.offset_delta)
    };
    let keys: Vec<_> = record.headers().map(|header| header.key_text().into_owned()).collect();
    let mut line = format!(
        "| offset: {} CreateTime: {} keySize: {} valueSize: {} sequence: {sequence} headerKeys: [{}]",
        record.offset,
        record.timestamp,
        size(record.key),
        size(record.value),
        keys.join(","),
    );
    let result = if batch.is_control() {
        match read_marker(record) {
            Ok(marker) => {
                let outcome = match marker.outcome {
                    Outcome::Commit => "COMMIT",
                    Outcome::Abort => "ABORT",
                };
                write!(line, " endTxnMarker: {outcome} coordinatorEpoch: {}", marker.coordinator_epoch)
            }
            Err(error) => write!(line, " controlType: {error}"),
        }
    } else {
        let text = |name, bytes: Option<&[u8]>| {
            bytes.map_or(String::new(), |bytes| format!(" {name}: {}", String::from_utf8_lossy(bytes)))
        };
        write!(line, "{}{}", text("key", record.key), text("payload", record.value))
    };
    debug_assert!(result.is_ok(), "text can always be added to");
    line
}

/// The entries of a `.txnindex` file; `None` if it is not one.
#[must_use]
pub fn transaction_index(bytes: &[u8]) -> Option<Vec<AbortedTransaction>> {
    parse_aborted(bytes)
}

/// The line for an entry of a `.txnindex` file.
#[must_use]
pub fn aborted_line(aborted: &AbortedTransaction) -> String {
    format!(
        "version: 0 producerId: {} firstOffset: {} lastOffset: {} lastStableOffset: {}",
        aborted.producer_id, aborted.first_offset, aborted.last_offset, aborted.last_stable_offset
    )
}

/// The producers in a `.snapshot` file; `None` if it is not one, or its checksum is wrong.
///
/// Layout (big-endian): `version i16 | checksum u32 (CRC-32C of what follows) | count i32`, then per producer `id i64
/// | epoch i16 | last_sequence i32 | last_offset i64 | offset_delta i32 | timestamp i64 | coordinator_epoch i32 |
/// first_offset i64`.
#[must_use]
pub fn producer_snapshot(bytes: &[u8]) -> Option<Vec<SnapshotProducer>> {
    let mut fields = Fields::of(bytes);
    if fields.i16()? != SNAPSHOT_VERSION || fields.u32()? != crc32c::crc32c(fields.rest()) {
        return None;
    }
    let count = fields.i32()?;
    let mut producers = Vec::new();
    for _ in 0..count {
        producers.push(SnapshotProducer {
            id: ProducerId(fields.i64()?),
            epoch: ProducerEpoch(fields.i16()?),
            last_sequence: Sequence(fields.i32()?),
            last_offset: fields.i64()?,
            offset_delta: fields.i32()?,
            timestamp: Timestamp(fields.i64()?),
            coordinator_epoch: fields.i32()?,
            transaction_first_offset: fields.i64()?,
        });
    }
    Some(producers)
}

/// The line for a producer of a `.snapshot` file.
#[must_use]
pub fn producer_line(producer: &SnapshotProducer) -> String {
    let open = match producer.transaction_first_offset {
        -1 => "OptionalLong.empty".to_owned(),
        offset => format!("OptionalLong[{offset}]"),
    };
    let mut line = format!(
        "producerId: {} producerEpoch: {} coordinatorEpoch: {} currentTxnFirstOffset: {open} lastTimestamp: {}",
        producer.id, producer.epoch, producer.coordinator_epoch, producer.timestamp
    );
    if producer.last_sequence != Sequence::NONE {
        let first = producer.last_sequence.plus(-producer.offset_delta);
        line += &format!(
            " firstSequence: {first} lastSequence: {} lastOffset: {} offsetDelta: {} timestamp: {}",
            producer.last_sequence, producer.last_offset, producer.offset_delta, producer.timestamp
        );
    }
    line
}

#[cfg(test)]
#[path = "dump_tests.rs"]
mod tests;
