//! What a broker demands of a batch that a client sends: exactly one, whole, consistent, and of a kind that
//! clients may write. The order of the checks is Kafka's, because clients see the first that fails.
//!
//! Stricter than Apache Kafka 4.4 in two places: bytes of a second, torn batch are refused (there they are dropped), and so are
//! records whose offsets do not count from 0 in steps of 1 (there they are not looked at unless they are compressed).

use super::{BatchView, RecordError};

/// What depends on the topic, and on the version of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducedRules {
    /// The topic is compacted: a record without a key could never be replaced.
    pub requires_keys: bool,
    /// The most that the records may take once decompressed, in bytes.
    pub decompressed_bytes_max: usize,
}

/// Reads all of `bytes`, which a client sent as the records of one partition, and returns the one batch.
pub fn validate_produced(bytes: &[u8], rules: ProducedRules) -> Result<BatchView<'_>, RecordError> {
    let batch = BatchView::new(bytes)?;
    let base_offset = batch.base_offset();
    let not_allowed = |what| Err(RecordError::NotAllowed { base_offset, what });
    // A length that is too short is told by the checksum before it is told by what seems to follow.
    batch.validate()?;
    if batch.size_bytes() != bytes.len() {
        return not_allowed("something follows it, and a partition gets one batch at a time");
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
    let payload = batch.decompress(rules.decompressed_bytes_max)?;
    for (record, index) in batch.records_in(&payload).zip(0..) {
        let record = record?;
        let malformed = |what| Err(RecordError::MalformedRecord { base_offset, index, what });
        if record.offset_delta != index {
            return malformed("its offset does not follow the one before it");
        }
        if rules.requires_keys && record.key.is_none() {
            return malformed("it has no key, and the topic is compacted");
        }
    }
    Ok(batch)
}
