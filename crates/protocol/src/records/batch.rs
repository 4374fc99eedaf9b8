//! Reading batches where they lie.

use std::borrow::Cow;

use atonce_kernel::{ProducerIdentity, Sequence};
use bytes::Bytes;

use super::varint::Cursor;
use super::{BATCH_HEADER_BYTES, Compression, MAGIC, RecordError, compress};

/// Bytes before what `batch_length` counts: the base offset and the length itself.
pub(super) const LENGTH_END: usize = 12;
/// Bytes before what the checksum covers.
pub(super) const CRC_END: usize = 21;

const COMPRESSION_MASK: i16 = 0b111;
pub(super) const LOG_APPEND_TIME: i16 = 1 << 3;
pub(super) const TRANSACTIONAL: i16 = 1 << 4;
pub(super) const CONTROL: i16 = 1 << 5;
pub(super) const DELETE_HORIZON: i16 = 1 << 6;

/// Who set the timestamps of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum TimestampType {
    /// The producer.
    #[default]
    CreateTime,
    /// The broker: all records have the time of the append.
    LogAppendTime,
}

/// The head of a batch, in the order of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// The offset of the first record that the producer put into it.
    pub base_offset: i64,
    /// Bytes behind this field.
    pub batch_length: i32,
    /// That of the leader which took it, -1 before.
    pub partition_leader_epoch: i32,
    /// The format.
    pub magic: i8,
    /// CRC-32C of all that follows.
    pub crc: u32,
    /// Compression and flags.
    pub attributes: i16,
    /// The last offset, from the base; it stays when compaction takes the last record away.
    pub last_offset_delta: i32,
    /// What records' timestamps count from; with a delete horizon, that.
    pub base_timestamp: i64,
    /// The highest timestamp.
    pub max_timestamp: i64,
    /// Who wrote it.
    pub producer: ProducerIdentity,
    /// The sequence of the first record.
    pub base_sequence: Sequence,
    /// Records in it.
    pub records_count: i32,
}

impl BatchHeader {
    fn read(bytes: &[u8]) -> Option<Self> {
        fn next<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
            let (first, rest) = bytes.split_first_chunk::<N>()?;
            *bytes = rest;
            Some(*first)
        }
        let rest = &mut { bytes };
        Some(Self {
            base_offset: i64::from_be_bytes(next(rest)?),
            batch_length: i32::from_be_bytes(next(rest)?),
            partition_leader_epoch: i32::from_be_bytes(next(rest)?),
            magic: i8::from_be_bytes(next(rest)?),
            crc: u32::from_be_bytes(next(rest)?),
            attributes: i16::from_be_bytes(next(rest)?),
            last_offset_delta: i32::from_be_bytes(next(rest)?),
            base_timestamp: i64::from_be_bytes(next(rest)?),
            max_timestamp: i64::from_be_bytes(next(rest)?),
            producer: ProducerIdentity::new(i64::from_be_bytes(next(rest)?), i16::from_be_bytes(next(rest)?)),
            base_sequence: Sequence(i32::from_be_bytes(next(rest)?)),
            records_count: i32::from_be_bytes(next(rest)?),
        })
    }
}

/// A batch of format 2 in borrowed bytes: exactly its own, head and records.
///
/// The head was read and its length fits; the checksum was not looked at. See [`validate`](Self::validate).
#[derive(Clone, Copy, Debug)]
pub struct BatchView<'a> {
    header: BatchHeader,
    bytes: &'a [u8],
}

impl<'a> BatchView<'a> {
    /// The batch at the front of `bytes`; more may follow it.
    pub fn new(bytes: &'a [u8]) -> Result<Self, RecordError> {
        // Format and length come first: a message set of an old format may be shorter than our head.
        let length = batch_bytes(bytes)?;
        let Some((bytes, _)) = bytes.split_at_checked(length) else {
            return Err(RecordError::Truncated { needed: length, found: bytes.len() });
        };
        let header = BatchHeader::read(bytes);
        let header = header.ok_or(RecordError::Truncated { needed: BATCH_HEADER_BYTES, found: bytes.len() })?;
        Ok(Self { header, bytes })
    }

    /// Its head.
    #[must_use]
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// All its bytes.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Its length with head, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The offset of its first record.
    #[must_use]
    pub fn base_offset(&self) -> i64 {
        self.header.base_offset
    }

    /// The offset of its last record.
    #[must_use]
    pub fn last_offset(&self) -> i64 {
        self.header.base_offset.saturating_add(i64::from(self.header.last_offset_delta))
    }

    /// The offset behind it.
    #[must_use]
    pub fn next_offset(&self) -> i64 {
        self.last_offset().saturating_add(1)
    }

    /// The distance from first to last offset.
    #[must_use]
    pub fn last_offset_delta(&self) -> i32 {
        self.header.last_offset_delta
    }

    /// The epoch of the leader that took it.
    #[must_use]
    pub fn partition_leader_epoch(&self) -> i32 {
        self.header.partition_leader_epoch
    }

    /// Its checksum, as it says.
    #[must_use]
    pub fn crc(&self) -> u32 {
        self.header.crc
    }

    /// How its records are compressed.
    pub fn compression(&self) -> Result<Compression, RecordError> {
        let codec = self.header.attributes & COMPRESSION_MASK;
        Compression::from_codec(codec).ok_or(RecordError::UnknownCompression { codec })
    }

    /// Who set its timestamps.
    #[must_use]
    pub fn timestamp_type(&self) -> TimestampType {
        if self.has(LOG_APPEND_TIME) { TimestampType::LogAppendTime } else { TimestampType::CreateTime }
    }

    /// Whether it is part of a transaction, or ends one.
    #[must_use]
    pub fn is_transactional(&self) -> bool {
        self.has(TRANSACTIONAL)
    }

    /// Whether its records are not for applications: a marker.
    #[must_use]
    pub fn is_control(&self) -> bool {
        self.has(CONTROL)
    }

    /// When compaction may take its tombstones and markers away, if that was set. Milliseconds since 1970.
    #[must_use]
    pub fn delete_horizon_ms(&self) -> Option<i64> {
        self.has(DELETE_HORIZON).then_some(self.header.base_timestamp)
    }

    fn has(&self, flag: i16) -> bool {
        self.header.attributes & flag != 0
    }

    /// What its records' timestamps count from.
    #[must_use]
    pub fn base_timestamp(&self) -> i64 {
        self.header.base_timestamp
    }

    /// Its highest timestamp.
    #[must_use]
    pub fn max_timestamp(&self) -> i64 {
        self.header.max_timestamp
    }

    /// Who wrote it.
    #[must_use]
    pub fn producer(&self) -> ProducerIdentity {
        self.header.producer
    }

    /// The sequence of its first record.
    #[must_use]
    pub fn base_sequence(&self) -> Sequence {
        self.header.base_sequence
    }

    /// The sequence of its last record.
    #[must_use]
    pub fn last_sequence(&self) -> Sequence {
        if self.header.base_sequence == Sequence::NONE {
            Sequence::NONE
        } else {
            self.header.base_sequence.plus(self.header.last_offset_delta)
        }
    }

    /// How many records it says to hold.
    #[must_use]
    pub fn records_count(&self) -> i32 {
        self.header.records_count
    }

    /// The checksum of its bytes as they are.
    #[must_use]
    pub fn computed_crc(&self) -> u32 {
        crc32c::crc32c(self.bytes.get(CRC_END..).unwrap_or_default())
    }

    /// Says whether the bytes are what was written: the checksum fits, the codec is known, and the numbers in
    /// the head are possible.
    pub fn validate(&self) -> Result<(), RecordError> {
        let (base_offset, expected, found) = (self.header.base_offset, self.header.crc, self.computed_crc());
        if expected != found {
            return Err(RecordError::Checksum { base_offset, expected, found });
        }
        self.compression()?;
        let not_allowed = |what| Err(RecordError::NotAllowed { base_offset, what });
        if self.header.last_offset_delta < 0 {
            return not_allowed("its last offset is before its first");
        }
        if self.header.records_count < 0 {
            return not_allowed("it says to hold less than no records");
        }
        Ok(())
    }

    /// The records as they lie, compressed or not.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(BATCH_HEADER_BYTES..).unwrap_or_default()
    }

    /// The records, decompressed to at most `limit` bytes; borrowed if they were not compressed.
    pub fn decompress(&self, limit: usize) -> Result<Cow<'a, [u8]>, RecordError> {
        let compression = self.compression()?;
        compress::decompress(compression, self.payload(), limit)
            .map_err(|refusal| refusal.of_batch(self.header.base_offset, compression, limit))
    }

    /// [`decompress`](Self::decompress) into shared bytes. `source` holds this batch, and is shared if it was not
    /// compressed: `payload.slice_ref(key)` then makes a key of its own without copying it.
    ///
    /// Panics: if the batch does not lie in `source`, a mistake of the caller.
    pub fn decompress_shared(&self, source: &Bytes, limit: usize) -> Result<Bytes, RecordError> {
        Ok(match self.decompress(limit)? {
            Cow::Borrowed(payload) => source.slice_ref(payload),
            Cow::Owned(payload) => Bytes::from(payload),
        })
    }

    /// The records of a batch that is not compressed. One that is needs [`decompress`](Self::decompress) first,
    /// which this says by an error.
    pub fn records(&self) -> Result<Records<'a>, RecordError> {
        match self.compression()? {
            Compression::None => Ok(self.records_in(self.payload())),
            Compression::Gzip | Compression::Snappy | Compression::Lz4 | Compression::Zstd => {
                let base_offset = self.header.base_offset;
                Err(RecordError::NotAllowed { base_offset, what: "it is compressed, and was not decompressed" })
            }
        }
    }

    /// The records in `payload`, which is what [`decompress`](Self::decompress) returned.
    #[must_use]
    pub fn records_in<'b>(&self, payload: &'b [u8]) -> Records<'b> {
        Records {
            cursor: Cursor { bytes: payload },
            base_offset: self.header.base_offset,
            base_timestamp: self.header.base_timestamp,
            log_append_time: self.has(LOG_APPEND_TIME).then_some(self.header.max_timestamp),
            count: self.header.records_count,
            index: 0,
        }
    }
}

/// The length of the batch at the front of `bytes`, its head included, after a look at length and format.
pub(super) fn batch_bytes(bytes: &[u8]) -> Result<usize, RecordError> {
    /// Formats 0 and 1: offset, size, checksum, magic, attributes.
    const OLD_HEADER_BYTES: usize = 14;
    let truncated = RecordError::Truncated { needed: BATCH_HEADER_BYTES, found: bytes.len() };
    let Some(length) = bytes.get(8..LENGTH_END).and_then(|it| it.first_chunk::<4>()) else { return Err(truncated) };
    let length = i32::from_be_bytes(*length);
    let too_short = RecordError::BatchTooShort { length };
    let Ok(size) = usize::try_from(length) else { return Err(too_short) };
    if size < OLD_HEADER_BYTES {
        return Err(too_short);
    }
    match bytes.get(16).map(|&magic| i8::from_be_bytes([magic])) {
        None => Err(truncated),
        Some(magic @ (0 | 1)) => Err(RecordError::OldMagic { magic }),
        Some(MAGIC) if size < BATCH_HEADER_BYTES - LENGTH_END => Err(too_short),
        Some(MAGIC) => Ok(size + LENGTH_END),
        Some(magic) => Err(RecordError::UnknownMagic { magic }),
    }
}

/// The batches in `bytes`, one behind the other.
///
/// The last one may be cut off, as a fetch that is full or a write that was interrupted leaves it: the iterator
/// ends before it, and [`Batches::torn_bytes`] says how much there is of it. Bytes that begin no batch are an
/// error, the last item.
#[must_use]
pub fn batches(bytes: &[u8]) -> Batches<'_> {
    Batches { bytes }
}

/// See [`batches`].
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    bytes: &'a [u8],
}

impl Batches<'_> {
    /// Bytes not yet taken; after the end, those of a torn batch.
    #[must_use]
    pub fn torn_bytes(&self) -> usize {
        self.bytes.len()
    }
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<BatchView<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        match BatchView::new(self.bytes) {
            Ok(batch) => {
                self.bytes = self.bytes.get(batch.size_bytes()..).unwrap_or_default();
                Some(Ok(batch))
            }
            Err(RecordError::Truncated { .. }) => None,
            Err(error) => {
                self.bytes = &[];
                Some(Err(error))
            }
        }
    }
}

/// A record in borrowed bytes.
#[derive(Clone, Copy, Debug)]
pub struct RecordView<'a> {
    /// Its place in the partition.
    pub offset: i64,
    /// Its place in the batch.
    pub offset_delta: i32,
    /// Milliseconds since 1970, or -1.
    pub timestamp: i64,
    /// Its key.
    pub key: Option<&'a [u8]>,
    /// Its value; none is a tombstone.
    pub value: Option<&'a [u8]>,
    headers: Headers<'a>,
}

impl<'a> RecordView<'a> {
    /// Its headers, in their order, each as often as it was given.
    #[must_use]
    pub fn headers(&self) -> Headers<'a> {
        self.headers
    }
}

/// The headers of a record. They were checked when the record was read.
#[derive(Clone, Copy, Debug)]
pub struct Headers<'a> {
    cursor: Cursor<'a>,
    left: i32,
}

/// A header in borrowed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderView<'a> {
    /// Its key: text, as far as clients keep to it; brokers do not check.
    pub key: &'a [u8],
    /// Its value.
    pub value: Option<&'a [u8]>,
}

impl<'a> HeaderView<'a> {
    /// The key as text; what is not UTF-8 is replaced, as Java's client does.
    #[must_use]
    pub fn key_text(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.key)
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = HeaderView<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left <= 0 {
            return None;
        }
        self.left -= 1;
        let length = self.cursor.varint()?;
        Some(HeaderView { key: self.cursor.take(length)?, value: self.cursor.nullable_bytes()? })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // Every header takes two bytes at least, so the bytes bound the count.
        let left = usize::try_from(self.left).unwrap_or(0).min(self.cursor.bytes.len() / 2);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Headers<'_> {}

/// The records of a batch, in order. Ends after the first error, and says so if bytes are left over.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    cursor: Cursor<'a>,
    base_offset: i64,
    base_timestamp: i64,
    log_append_time: Option<i64>,
    count: i32,
    index: i32,
}

impl<'a> Records<'a> {
    #[inline]
    fn read(&mut self) -> Result<RecordView<'a>, &'static str> {
        const CUT: &str = "its lengths do not fit";
        let length = self.cursor.varint().ok_or("its length cannot be read")?;
        let mut record = Cursor { bytes: self.cursor.take(length).ok_or("it is longer than the batch")? };
        let _attributes = record.byte().ok_or(CUT)?;
        let timestamp_delta = record.varlong().ok_or(CUT)?;
        let offset_delta = record.varint().ok_or(CUT)?;
        let key = record.nullable_bytes().ok_or(CUT)?;
        let value = record.nullable_bytes().ok_or(CUT)?;
        let count = record.varint().ok_or(CUT)?;
        let headers = Headers { cursor: record, left: count };
        if count < 0 {
            return Err("it says to have less than no headers");
        }
        for _ in 0..count {
            let length = record.varint().ok_or(CUT)?;
            record.take(length).ok_or(CUT)?;
            record.nullable_bytes().ok_or(CUT)?;
        }
        if !record.bytes.is_empty() {
            return Err("it is shorter than it says");
        }
        let offset = self.base_offset.checked_add(i64::from(offset_delta)).ok_or("its offset is too large")?;
        let timestamp = match self.log_append_time {
            Some(time) => time,
            None => self.base_timestamp.checked_add(timestamp_delta).ok_or("its timestamp is too large")?,
        };
        Ok(RecordView { offset, offset_delta, timestamp, key, value, headers })
    }

    fn fail(&mut self, what: &'static str) -> Option<Result<RecordView<'a>, RecordError>> {
        let error = RecordError::MalformedRecord { base_offset: self.base_offset, index: self.index, what };
        self.cursor = Cursor { bytes: &[] };
        self.index = self.count;
        Some(Err(error))
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<RecordView<'a>, RecordError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.index >= self.count {
            return if self.cursor.bytes.is_empty() { None } else { self.fail("bytes are left behind the last one") };
        }
        match self.read() {
            Ok(record) => {
                self.index += 1;
                Some(Ok(record))
            }
            Err(what) => self.fail(what),
        }
    }
}

/// Sets the base offset of the batch at the front of `batch`; the checksum does not cover it.
///
/// Panics: if there is no whole head, a mistake of the caller.
pub fn set_base_offset(batch: &mut [u8], base_offset: i64) {
    put(batch, 0, base_offset.to_be_bytes());
}

/// Sets the leader epoch of the batch at the front of `batch`; the checksum does not cover it.
///
/// Panics: if there is no whole head, a mistake of the caller.
pub fn set_partition_leader_epoch(batch: &mut [u8], partition_leader_epoch: i32) {
    put(batch, LENGTH_END, partition_leader_epoch.to_be_bytes());
}

/// Says in `batch`, which is exactly one, that it was appended at `timestamp`, and renews the checksum.
///
/// Panics: if there is no whole head, a mistake of the caller.
pub fn set_log_append_time(batch: &mut [u8], timestamp: i64) {
    const ATTRIBUTES: usize = CRC_END;
    let attributes = batch.get(ATTRIBUTES..).and_then(|it| it.first_chunk::<2>());
    let attributes = i16::from_be_bytes(*attributes.expect("a batch has a head")) | LOG_APPEND_TIME;
    put(batch, ATTRIBUTES, attributes.to_be_bytes());
    put(batch, 35, timestamp.to_be_bytes());
    let crc = crc32c::crc32c(batch.get(CRC_END..).expect("a batch has a head"));
    put(batch, CRC_END - 4, crc.to_be_bytes());
}

/// Writes another producer and sequence into `batch`, which is exactly one, and renews the checksum: for a batch
/// that was refused under the identity it was built for.
///
/// Panics: if there is no whole head, a mistake of the caller.
pub fn set_producer(batch: &mut [u8], producer: ProducerIdentity, base_sequence: Sequence) {
    put(batch, 43, producer.id.0.to_be_bytes());
    put(batch, 51, producer.epoch.0.to_be_bytes());
    put(batch, 53, base_sequence.0.to_be_bytes());
    let crc = crc32c::crc32c(batch.get(CRC_END..).expect("a batch has a head"));
    put(batch, CRC_END - 4, crc.to_be_bytes());
}

fn put<const N: usize>(batch: &mut [u8], at: usize, bytes: [u8; N]) {
    let place = batch.get_mut(at..).and_then(|it| it.first_chunk_mut::<N>());
    *place.expect("a batch has a head") = bytes;
}

#[cfg(test)]
mod producer_tests {
    use super::*;
    use crate::records::{BatchBuilder, BatchOptions};

    #[test]
    fn a_batch_gets_another_producer_and_stays_sound() {
        let build = |options: &BatchOptions| {
            let mut builder = BatchBuilder::default();
            builder.append(1, Some(b"key"), Some(b"value"), []).expect("appends");
            builder.finish(options).expect("finishes")
        };
        let producer = ProducerIdentity::new(7, 3);
        let base_sequence = Sequence(9);
        let mut batch = build(&BatchOptions::default()).to_vec();
        set_producer(&mut batch, producer, base_sequence);
        assert_eq!(batch, build(&BatchOptions { producer, base_sequence, ..BatchOptions::default() }));
    }
}
