//! Markers: the control records that end a transaction in a partition (KIP-98).
//!
//! Layout of the key: `version i16 | type i16` (0 is abort, 1 is commit); of the value: `version i16 |
//! coordinator_epoch i32`.

use atonce_kernel::{Outcome, ProducerIdentity, Sequence};
use bytes::{BufMut, Bytes};

use super::{BatchBuilder, BatchOptions, RecordView};

/// The end of a producer's transaction in this partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    /// How it ended.
    pub outcome: Outcome,
    /// The epoch of the transaction coordinator that said so.
    pub coordinator_epoch: i32,
}

/// A control record that is no marker we know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MarkerError {
    /// A control record of another kind, as Raft's: to be skipped.
    #[error("a control record of type {kind} ends no transaction")]
    OtherControlRecord {
        /// The number in the key.
        kind: i16,
    },
    /// Too short, or without key or value.
    #[error("a marker is cut off")]
    Truncated,
}

/// The batch of one record that ends `producer`'s transaction. Its offset is set by the log.
#[must_use]
pub fn marker_batch(producer: ProducerIdentity, outcome: Outcome, coordinator_epoch: i32, timestamp: i64) -> Bytes {
    let mut key = [0; 4];
    let mut writer = &mut key[..];
    writer.put_i16(0);
    writer.put_i16(match outcome {
        Outcome::Abort => ABORT,
        Outcome::Commit => COMMIT,
    });
    let mut value = [0; 6];
    let mut writer = &mut value[..];
    writer.put_i16(0);
    writer.put_i32(coordinator_epoch);
    let mut builder = BatchBuilder::with_capacity(32);
    builder.append(timestamp, Some(&key), Some(&value), []).expect("ten bytes fit");
    let options = BatchOptions {
        producer,
        base_sequence: Sequence::NONE,
        is_transactional: true,
        is_control: true,
        ..BatchOptions::default()
    };
    builder.finish(&options).expect("nothing is compressed")
}

const ABORT: i16 = 0;
const COMMIT: i16 = 1;

/// Reads the record of a control batch. Versions above ours have the same beginning, as Kafka promises itself.
pub fn read_marker(record: &RecordView<'_>) -> Result<Marker, MarkerError> {
    let key = record.key.and_then(|it| it.first_chunk::<4>()).ok_or(MarkerError::Truncated)?;
    let [_, _, kind @ ..] = *key;
    let outcome = match i16::from_be_bytes(kind) {
        ABORT => Outcome::Abort,
        COMMIT => Outcome::Commit,
        kind => return Err(MarkerError::OtherControlRecord { kind }),
    };
    let value = record.value.and_then(|it| it.first_chunk::<6>()).ok_or(MarkerError::Truncated)?;
    let [_, _, coordinator_epoch @ ..] = *value;
    Ok(Marker { outcome, coordinator_epoch: i32::from_be_bytes(coordinator_epoch) })
}
