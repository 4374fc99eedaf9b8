//! Building batches: records are written one behind the other into one buffer, the head when it is finished.

use atonce_kernel::{ProducerIdentity, Sequence};
use bytes::{BufMut, Bytes, BytesMut};

use super::batch::{CONTROL, CRC_END, LENGTH_END, TRANSACTIONAL};
use super::varint::{put_varlong, varlong_bytes};
use super::{BATCH_HEADER_BYTES, Compression, MAGIC, RecordError, compress};

/// What the head of a batch says beyond its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchOptions {
    /// Who writes it.
    pub producer: ProducerIdentity,
    /// The sequence of the first record.
    pub base_sequence: Sequence,
    /// Part of a transaction.
    pub is_transactional: bool,
    /// Not for applications.
    pub is_control: bool,
    /// How to compress the records.
    pub compression: Compression,
    /// The offset of the first record; a producer leaves it at 0, the broker sets it.
    pub base_offset: i64,
    /// A producer leaves it at -1, the broker sets it.
    pub partition_leader_epoch: i32,
}

impl Default for BatchOptions {
    fn default() -> Self {
        Self {
            producer: ProducerIdentity::NONE,
            base_sequence: Sequence::NONE,
            is_transactional: false,
            is_control: false,
            compression: Compression::None,
            base_offset: 0,
            partition_leader_epoch: -1,
        }
    }
}

/// Collects records into a batch.
///
/// Invariants: offset deltas rise; the buffer begins with room for the head.
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    bytes: BytesMut,
    base_timestamp: i64,
    /// The base timestamp is not that of the first record.
    has_base_timestamp: bool,
    max_timestamp: i64,
    next_offset_delta: i32,
    records_count: i32,
}

impl Default for BatchBuilder {
    fn default() -> Self {
        Self::with_capacity(0)
    }
}

impl BatchBuilder {
    /// With room for `bytes` of records.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        let mut buffer = BytesMut::with_capacity(BATCH_HEADER_BYTES + bytes);
        buffer.put_bytes(0, BATCH_HEADER_BYTES);
        Self {
            bytes: buffer,
            base_timestamp: -1,
            has_base_timestamp: false,
            max_timestamp: -1,
            next_offset_delta: 0,
            records_count: 0,
        }
    }

    /// Lets timestamps count from `base_timestamp`, whatever the first record's is. Before the first record.
    pub(super) fn count_from(&mut self, base_timestamp: i64) {
        (self.base_timestamp, self.has_base_timestamp) = (base_timestamp, true);
    }

    /// Adds a record. Headers are key and value; an empty array is none.
    ///
    /// Errors: a length that the format cannot say (above 2 GB).
    #[inline]
    pub fn append<'h, H>(
        &mut self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: H,
    ) -> Result<(), RecordError>
    where
        H: IntoIterator<Item = (&'h [u8], Option<&'h [u8]>)>,
        H::IntoIter: Clone,
    {
        self.append_at(self.next_offset_delta, timestamp, key, value, headers)
    }

    /// Adds a record with a gap before it, as compaction leaves them.
    ///
    /// Errors: a length that the format cannot say, or an offset that does not rise.
    pub fn append_at<'h, H>(
        &mut self,
        offset_delta: i32,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: H,
    ) -> Result<(), RecordError>
    where
        H: IntoIterator<Item = (&'h [u8], Option<&'h [u8]>)>,
        H::IntoIter: Clone,
    {
        let index = self.records_count;
        let malformed = |what| RecordError::MalformedRecord { base_offset: 0, index, what };
        let next_offset_delta = offset_delta.checked_add(1).ok_or(malformed("too many records"))?;
        if offset_delta < self.next_offset_delta {
            return Err(malformed("its offset is not above the one before it"));
        }
        let is_first_base = index == 0 && !self.has_base_timestamp;
        let base_timestamp = if is_first_base { timestamp } else { self.base_timestamp };
        let timestamp_delta = timestamp.checked_sub(base_timestamp).ok_or(malformed("its timestamp is too far off"))?;
        let headers = headers.into_iter();
        let (mut headers_count, mut headers_bytes) = (0_usize, 0_usize);
        for (key, value) in headers.clone() {
            headers_count += 1;
            headers_bytes = headers_bytes.saturating_add(field_bytes(Some(key))).saturating_add(field_bytes(value));
        }
        let size = (1 + varlong_bytes(timestamp_delta) + varlong_bytes(i64::from(offset_delta)))
            .saturating_add(field_bytes(key))
            .saturating_add(field_bytes(value))
            .saturating_add(varlong_bytes(length(headers_count)))
            .saturating_add(headers_bytes);
        // One check for all: a part is not longer than the whole.
        let room = usize::try_from(i32::MAX).unwrap_or(usize::MAX) - self.bytes.len().min(i32::MAX as usize);
        if size.saturating_add(5) > room {
            return Err(malformed("the batch would be longer than 2 GB"));
        }
        self.bytes.reserve(size + 5);
        put_varlong(&mut self.bytes, length(size));
        self.bytes.put_u8(0);
        put_varlong(&mut self.bytes, timestamp_delta);
        put_varlong(&mut self.bytes, i64::from(offset_delta));
        put_field(&mut self.bytes, key);
        put_field(&mut self.bytes, value);
        put_varlong(&mut self.bytes, length(headers_count));
        for (key, value) in headers {
            put_field(&mut self.bytes, Some(key));
            put_field(&mut self.bytes, value);
        }
        self.base_timestamp = base_timestamp;
        self.max_timestamp = if index == 0 { timestamp } else { self.max_timestamp.max(timestamp) };
        self.next_offset_delta = next_offset_delta;
        self.records_count = index + 1;
        Ok(())
    }

    /// Records so far.
    #[must_use]
    pub fn records_count(&self) -> i32 {
        self.records_count
    }

    /// Whether there is none yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records_count == 0
    }

    /// The length that the batch would have now, before compression.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The highest timestamp so far, -1 if there is none.
    #[must_use]
    pub fn max_timestamp(&self) -> i64 {
        self.max_timestamp
    }

    /// Writes the head, and compresses if asked to.
    ///
    /// Errors: the codec is left out of this build, or failed.
    ///
    /// Panics: if there is no record; a batch without any is nothing that a broker takes.
    pub fn finish(self, options: &BatchOptions) -> Result<Bytes, RecordError> {
        assert!(self.records_count > 0, "a batch has at least one record");
        let last_offset_delta = self.next_offset_delta - 1;
        self.finish_rewritten(options, 0, last_offset_delta, None)
    }

    /// The same for a batch that was one before: with more attributes, its last offset and, if it is not that of the records,
    /// its highest timestamp. It may be empty.
    pub(super) fn finish_rewritten(
        self,
        options: &BatchOptions,
        more_attributes: i16,
        last_offset_delta: i32,
        max_timestamp: Option<i64>,
    ) -> Result<Bytes, RecordError> {
        let (mut bytes, compression) = (self.bytes, options.compression);
        if compression != Compression::None {
            let payload = bytes.get(BATCH_HEADER_BYTES..).unwrap_or_default();
            let mut compressed = Vec::with_capacity(BATCH_HEADER_BYTES + payload.len() / 2);
            compressed.resize(BATCH_HEADER_BYTES, 0);
            compress::compress(compression, payload, &mut compressed)
                .map_err(|refusal| refusal.of_batch(options.base_offset, compression, payload.len()))?;
            // Bytes taken over and back keep the one buffer.
            bytes = BytesMut::from(Bytes::from(compressed));
        }
        let mut attributes = compression.codec() | more_attributes;
        if options.is_transactional {
            attributes |= TRANSACTIONAL;
        }
        if options.is_control {
            attributes |= CONTROL;
        }
        let mut head = [0; BATCH_HEADER_BYTES];
        let mut writer = &mut head[..];
        writer.put_i64(options.base_offset);
        // The builder keeps the whole below 2 GB.
        writer.put_i32(i32::try_from(bytes.len() - LENGTH_END).unwrap_or(i32::MAX));
        writer.put_i32(options.partition_leader_epoch);
        writer.put_i8(MAGIC);
        writer.put_u32(0);
        writer.put_i16(attributes);
        writer.put_i32(last_offset_delta);
        writer.put_i64(self.base_timestamp);
        writer.put_i64(max_timestamp.unwrap_or(self.max_timestamp));
        writer.put_i64(options.producer.id.0);
        writer.put_i16(options.producer.epoch.0);
        writer.put_i32(options.base_sequence.0);
        writer.put_i32(self.records_count);
        if let Some(place) = bytes.first_chunk_mut::<BATCH_HEADER_BYTES>() {
            *place = head;
        }
        let crc = crc32c::crc32c(bytes.get(CRC_END..).unwrap_or_default());
        if let Some(place) = bytes.get_mut(CRC_END - 4..CRC_END) {
            place.copy_from_slice(&crc.to_be_bytes());
        }
        Ok(bytes.freeze())
    }
}

/// The most that a record can add to a batch: for the question whether it still fits, before it is written.
#[must_use]
pub fn record_bytes_max<'h>(
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: impl IntoIterator<Item = (&'h [u8], Option<&'h [u8]>)>,
) -> usize {
    /// Length, attributes, timestamp, offset and the count of headers, each at its longest.
    const FRAME_BYTES_MAX: usize = 5 + 1 + 10 + 5 + 5;
    let headers = headers.into_iter().map(|(key, value)| field_bytes(Some(key)).saturating_add(field_bytes(value)));
    headers.fold(FRAME_BYTES_MAX + field_bytes(key) + field_bytes(value), usize::saturating_add)
}

fn length(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

#[inline]
fn field_bytes(field: Option<&[u8]>) -> usize {
    match field {
        None => 1,
        Some(bytes) => varlong_bytes(length(bytes.len())).saturating_add(bytes.len()),
    }
}

#[inline]
fn put_field(writer: &mut BytesMut, field: Option<&[u8]>) {
    match field {
        None => put_varlong(writer, -1),
        Some(bytes) => {
            put_varlong(writer, length(bytes.len()));
            writer.put_slice(bytes);
        }
    }
}
