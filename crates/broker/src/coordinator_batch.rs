//! The coordinators' records as batches, there and back: what the hosts stage, and what recovery reads.
//!
//! **What it does not know**: what a record means.

use atonce_kernel::{Offset, Outcome, ProducerIdentity, Sequence, Timestamp};
use atonce_protocol::EncodeError;
use atonce_protocol::records::{BatchBuilder, BatchOptions, BatchView, RecordError, read_marker};
use bytes::Bytes;

/// Most bytes that a compressed batch of a coordinator may hold; ours are not compressed, Kafka's need not be.
const DECOMPRESSED_BYTES_MAX: usize = 256 << 20;

/// Puts encoded records into one batch, which is part of `producer`'s transaction if there is one.
///
/// Panics: if there are none.
pub(crate) fn encode(
    records: impl Iterator<Item = Result<(Bytes, Option<Bytes>), EncodeError>>,
    producer: Option<ProducerIdentity>,
    now: Timestamp,
) -> Result<Bytes, String> {
    let mut builder = BatchBuilder::default();
    for record in records {
        let (key, value) = record.map_err(|error| error.to_string())?;
        builder.append(now.0, Some(&key), value.as_deref(), []).map_err(|error| error.to_string())?;
    }
    let options = BatchOptions {
        producer: producer.unwrap_or(ProducerIdentity::NONE),
        base_sequence: Sequence::NONE,
        is_transactional: producer.is_some(),
        ..BatchOptions::default()
    };
    builder.finish(&options).map_err(|error| error.to_string())
}

/// What stands in a coordinator's log.
pub(crate) enum Logged {
    /// A record.
    Record {
        key: Bytes,
        value: Option<Bytes>,
        /// Whose transaction it is part of.
        producer: Option<ProducerIdentity>,
        offset: Offset,
        timestamp: Timestamp,
    },
    /// The end of a transaction.
    Marker { producer: ProducerIdentity, outcome: Outcome, offset: Offset },
}

/// Hands on what stands in `batch` from offset `from` on. Returns the offset after the batch.
pub(crate) fn decode(
    batch: &Bytes,
    from: Offset,
    entry: &mut impl FnMut(Logged) -> Result<(), String>,
) -> Result<Offset, String> {
    let mut next = from;
    for view in atonce_protocol::records::batches(batch) {
        let view = view.map_err(|error| error.to_string())?;
        decode_one(&view, from, entry)?;
        next = view.next_offset();
    }
    Ok(next)
}

fn decode_one(
    view: &BatchView<'_>,
    from: Offset,
    entry: &mut impl FnMut(Logged) -> Result<(), String>,
) -> Result<(), String> {
    let text = |error: RecordError| error.to_string();
    let payload = view.decompress(DECOMPRESSED_BYTES_MAX).map_err(text)?;
    for record in view.records_in(&payload) {
        let record = record.map_err(text)?;
        if record.offset < from {
            continue;
        }
        if view.is_control() {
            // Control records of other kinds end no transaction.
            if let Ok(marker) = read_marker(&record) {
                entry(Logged::Marker { producer: view.producer(), outcome: marker.outcome, offset: record.offset })?;
            }
            continue;
        }
        entry(Logged::Record {
            key: Bytes::copy_from_slice(record.key.unwrap_or_default()),
            value: record.value.map(Bytes::copy_from_slice),
            producer: view.is_transactional().then(|| view.producer()),
            offset: record.offset,
            timestamp: Timestamp(record.timestamp),
        })?;
    }
    Ok(())
}
