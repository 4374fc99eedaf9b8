//! What a broker demands of a batch that a client sends: exactly one, whole, consistent, and of a kind that
//! clients may write. The order of the checks is Kafka's, because clients see the first that fails.
//!
//! Stricter than Apache Kafka 4.4 in two places, where that would lose records or show aborted ones: a second batch that is cut off is
//! refused (there it is dropped, and the producer told that all is well), and so is a transactional batch that names no producer (there
//! no abort ever reaches it).

use super::batch::batch_bytes;
use super::{BatchView, RecordError};

/// What depends on the topic, and on the version of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducedRules {
    /// The topic is compacted: a record without a key could never be replaced.
    pub requires_keys: bool,
    /// The most that the records may take once decompressed, in bytes.
    pub decompressed_bytes_max: usize,
}

/// A batch that may be written.
#[derive(Clone, Copy, Debug)]
pub struct ProducedBatch<'a> {
    /// It, without what may follow it.
    pub batch: BatchView<'a>,
    /// Whether its records are numbered 0, 1, 2 …. If not, they are to be numbered anew ([`renumber`](super::renumber)) before they
    /// are written: two records of one offset, or none of another, is what a log never has.
    pub is_numbered: bool,
}

/// Reads all of `bytes`, which a client sent as the records of one partition, and returns the one batch.
pub fn validate_produced(bytes: &[u8], rules: ProducedRules) -> Result<ProducedBatch<'_>, RecordError> {
    let batch = BatchView::new(bytes)?;
    let base_offset = batch.base_offset();
    let not_allowed = |what| Err(RecordError::NotAllowed { base_offset, what });
    // A length that is too short is told by the checksum before it is told by what seems to follow.
    batch.validate()?;
    match bytes.get(batch.size_bytes()..).map(batch_bytes) {
        // Fewer bytes than say how long a batch is, and of what format: there is no record in them. As Kafka does.
        None | Some(Err(RecordError::Truncated { .. })) => {}
        // A message set of the past counts as a batch here.
        Some(Ok(_) | Err(RecordError::OldMagic { .. })) => {
            return not_allowed("something follows it, and a partition gets one batch at a time");
        }
        Some(Err(error)) => return Err(error),
    }
    if base_offset != 0 {
        return not_allowed("its base offset is not 0, and only a log gives offsets");
    }
    if batch.is_control() {
        return not_allowed("clients may not write control records");
    }
    if batch.records_count() <= 0 {
        return not_allowed("it has no records");
    }
    if i64::from(batch.records_count()) != i64::from(batch.last_offset_delta()) + 1 {
        return not_allowed("its count of records is not that of its offsets");
    }
    if batch.producer().id.is_some() && batch.base_sequence().0 < 0 {
        return not_allowed("it names a producer and has no sequence");
    }
    if batch.is_transactional() && !batch.producer().id.is_some() {
        return not_allowed("it is transactional and names no producer");
    }
    let mut is_numbered = true;
    let payload = batch.decompress(rules.decompressed_bytes_max)?;
    for (record, index) in batch.records_in(&payload).zip(0..) {
        let record = record?;
        let malformed = |what| Err(RecordError::MalformedRecord { base_offset, index, what });
        is_numbered &= record.offset_delta == index;
        if rules.requires_keys && record.key.is_none() {
            return malformed("it has no key, and the topic is compacted");
        }
    }
    Ok(ProducedBatch { batch, is_numbered })
}
