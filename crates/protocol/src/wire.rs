//! The wire's primitive types, read from shared bytes and written to a growing buffer.
//!
//! **What it does not know**: any message. The generated code in [`messages`](crate::messages) says which
//! primitives follow each other in which version.
//!
//! Invariants: no length or count from outside sizes an allocation before it was held against the bytes
//! that are there; nothing here panics on any input; bytes fields are slices that share the frame's memory.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut, RangeInclusive};

use atonce_kernel::Uuid;
use bytes::{Buf, BufMut, Bytes, BytesMut};

/// A struct of the protocol that stands alone: a request, a response, a record of a log.
pub trait Message: Sized + Default + Clone + std::fmt::Debug + PartialEq {
    /// The schema's name, for errors.
    const NAME: &'static str;
    /// The versions that can be read and written.
    const VERSIONS: RangeInclusive<i16>;

    /// Reads one, and leaves `reader` behind it. [`Reader::finish`] says whether that was all.
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError>;

    /// Writes it as `version`.
    ///
    /// Errors: a field is set to something that this version cannot carry, unless Kafka's schema calls the
    /// field ignorable.
    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError>;

    /// [`write`](Self::write), to a plain buffer.
    fn encode(&self, bytes: &mut BytesMut, version: i16) -> Result<(), EncodeError> {
        let mut writer = Writer::new(std::mem::take(bytes));
        let written = self.write(&mut writer, version);
        *bytes = writer.bytes;
        written
    }

    /// Every error code that it says, `NONE` too: of the whole and of each part. None, where it has no place for one.
    fn error_codes(&self, _each: &mut dyn FnMut(i16)) {}

    /// Reads one that fills `bytes` to the last.
    fn decode_all(bytes: Bytes, version: i16) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let message = Self::decode(&mut reader, version)?;
        reader.finish()?;
        Ok(message)
    }

    /// Reads one that follows its own version, as records of the coordinators' logs do.
    ///
    /// Layout: `version i16 | message`.
    fn decode_versioned(bytes: Bytes) -> Result<(i16, Self), DecodeError> {
        let mut reader = Reader::new(bytes);
        let version = reader.i16()?;
        let message = Self::decode(&mut reader, version)?;
        reader.finish()?;
        Ok((version, message))
    }

    /// [`decode_versioned`](Self::decode_versioned), for messages whose layout only grows at its end: a version above
    /// ours is read as our highest, and what it adds is left unread. The consumer protocol's subscriptions and
    /// assignments are so: members of one group may run different clients.
    fn decode_versioned_or_later(bytes: Bytes) -> Result<(i16, Self), DecodeError> {
        let mut reader = Reader::new(bytes);
        let version = reader.i16()?;
        let message = Self::decode(&mut reader, version.min(*Self::VERSIONS.end()))?;
        Ok((version, message))
    }

    /// Writes it behind its version.
    ///
    /// Layout: `version i16 | message`.
    fn encode_versioned(&self, version: i16) -> Result<Bytes, EncodeError> {
        let mut writer = BytesMut::new();
        writer.put_i16(version);
        self.encode(&mut writer, version)?;
        Ok(writer.freeze())
    }
}

/// A message that is asked of a broker.
pub trait Request: Message {
    /// The key in the header.
    const KEY: crate::ApiKey;
    /// What is answered.
    type Response: Message;
}

/// Bytes that are not what they were said to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// A version we have no layout for.
    #[error("{message} has no version {version} that we know")]
    UnsupportedVersion {
        /// The message.
        message: &'static str,
        /// What was asked for.
        version: i16,
    },
    /// The bytes end too early.
    #[error("at byte {position}: {needed} bytes are needed, {remaining} are left")]
    Truncated {
        /// Where.
        position: usize,
        /// What the next value takes.
        needed: usize,
        /// What there is.
        remaining: usize,
    },
    /// A length below zero which does not mean null.
    #[error("at byte {position}: {length} is no length")]
    NegativeLength {
        /// Behind the length.
        position: usize,
        /// What it says.
        length: i64,
    },
    /// More elements than the bytes that are left can hold.
    #[error("at byte {position}: {count} elements cannot stand in the {remaining} bytes that are left")]
    CountTooLarge {
        /// Behind the count.
        position: usize,
        /// What it says.
        count: usize,
        /// What there is.
        remaining: usize,
    },
    /// A variable-length number that does not end, or does not fit its type.
    #[error("at byte {position}: a number of variable length is too long")]
    VarintTooLong {
        /// Where it begins.
        position: usize,
    },
    /// Text that is not UTF-8.
    #[error("at byte {position}: text is not UTF-8")]
    InvalidUtf8 {
        /// Behind the text.
        position: usize,
    },
    /// Null where this version has none.
    #[error("at byte {position}: null is not allowed here")]
    UnexpectedNull {
        /// Behind it.
        position: usize,
    },
    /// Tags that do not rise.
    #[error("at byte {position}: tag {tag} does not come after the one before it")]
    TagOutOfOrder {
        /// Behind the tag.
        position: usize,
        /// The tag.
        tag: u32,
    },
    /// Bytes behind the end.
    #[error("at byte {position}: {count} bytes too many")]
    TrailingBytes {
        /// The end.
        position: usize,
        /// How many.
        count: usize,
    },
}

/// A message that cannot be said in the version asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// A version we have no layout for.
    #[error("{message} has no version {version} that we know")]
    UnsupportedVersion {
        /// The message.
        message: &'static str,
        /// What was asked for.
        version: i16,
    },
    /// A field is set that the version does not have.
    #[error("{owner}.{field} is set, and version {version} cannot carry it")]
    FieldNotInVersion {
        /// The struct.
        owner: &'static str,
        /// The field.
        field: &'static str,
        /// What was asked for.
        version: i16,
    },
    /// A field is null, and the version needs a value.
    #[error("{owner}.{field} is null, and version {version} needs a value")]
    NullNotAllowed {
        /// The struct.
        owner: &'static str,
        /// The field.
        field: &'static str,
        /// What was asked for.
        version: i16,
    },
    /// A length that its prefix cannot say.
    #[error("{length} bytes or elements are more than the length before them can say")]
    TooLong {
        /// What there is.
        length: usize,
    },
    /// An unknown tagged field has the tag of one that is known in this version.
    #[error("tag {tag} stands twice, or unknown tags do not rise")]
    TagOutOfOrder {
        /// The tag.
        tag: u32,
    },
}

/// A tagged field that this code does not know. It is kept, and written again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawTaggedField {
    /// Its tag.
    pub tag: u32,
    /// Its value.
    pub data: Bytes,
}

/// Elements for which room is made before the first is read: enough for most, and little for an attacker who
/// sends large counts with a few bytes per element. The rest grows as elements arrive.
const ELEMENTS_RESERVED_MAX: usize = 64;

/// Reads the wire's types from a frame, from front to back.
#[derive(Clone, Debug)]
pub struct Reader {
    bytes: Bytes,
    /// Bytes of the frame before `bytes`, for errors.
    position: usize,
}

impl Reader {
    /// Reads `bytes` from their first.
    #[must_use]
    pub fn new(bytes: Bytes) -> Self {
        Self { bytes, position: 0 }
    }

    /// Bytes read so far.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }

    /// Bytes not read yet.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes not read yet, shared; the reader stays where it is.
    #[must_use]
    pub fn rest(&self) -> Bytes {
        self.bytes.clone()
    }

    /// Says that all must have been read.
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.bytes.len() {
            0 => Ok(()),
            count => Err(DecodeError::TrailingBytes { position: self.position, count }),
        }
    }

    /// The next `length` bytes, shared.
    pub fn take(&mut self, length: usize) -> Result<Bytes, DecodeError> {
        self.expect(length)?;
        self.position += length;
        Ok(self.bytes.split_to(length))
    }

    fn expect(&self, needed: usize) -> Result<(), DecodeError> {
        let remaining = self.bytes.len();
        if needed > remaining {
            return Err(DecodeError::Truncated { position: self.position, needed, remaining });
        }
        Ok(())
    }

    fn array_of<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let Some(first) = self.bytes.first_chunk::<N>() else {
            return Err(DecodeError::Truncated { position: self.position, needed: N, remaining: self.bytes.len() });
        };
        let array = *first;
        self.bytes.advance(N);
        self.position += N;
        Ok(array)
    }

    /// One byte: anything but zero is true.
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        Ok(self.i8()? != 0)
    }

    /// A signed byte.
    pub fn i8(&mut self) -> Result<i8, DecodeError> {
        Ok(i8::from_be_bytes(self.array_of()?))
    }

    /// Two bytes, signed.
    pub fn i16(&mut self) -> Result<i16, DecodeError> {
        Ok(i16::from_be_bytes(self.array_of()?))
    }

    /// Two bytes, unsigned.
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_be_bytes(self.array_of()?))
    }

    /// Four bytes, signed.
    pub fn i32(&mut self) -> Result<i32, DecodeError> {
        Ok(i32::from_be_bytes(self.array_of()?))
    }

    /// Four bytes, unsigned.
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_be_bytes(self.array_of()?))
    }

    /// Eight bytes, signed.
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from_be_bytes(self.array_of()?))
    }

    /// Eight bytes, IEEE 754.
    pub fn f64(&mut self) -> Result<f64, DecodeError> {
        Ok(f64::from_be_bytes(self.array_of()?))
    }

    /// Sixteen bytes.
    pub fn uuid(&mut self) -> Result<Uuid, DecodeError> {
        Ok(Uuid(self.array_of()?))
    }

    /// Seven bits to a byte, the low ones first; the high bit says that another byte follows.
    pub fn unsigned_varint(&mut self) -> Result<u32, DecodeError> {
        let start = self.position;
        let mut value = 0_u32;
        for shift in [0, 7, 14, 21, 28] {
            let byte = u32::from(self.array_of::<1>()?[0]);
            if shift == 28 && byte > 0x0f {
                break;
            }
            value |= (byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::VarintTooLong { position: start })
    }

    /// A length or count: `None` is null. Flexible versions send it plus one, so that zero is null.
    fn length(&mut self, compact: bool, short: bool) -> Result<Option<usize>, DecodeError> {
        if compact {
            return Ok(self.unsigned_varint()?.checked_sub(1).map(to_usize));
        }
        let length = if short { i32::from(self.i16()?) } else { self.i32()? };
        match length {
            -1 => Ok(None),
            length => match usize::try_from(length) {
                Ok(length) => Ok(Some(length)),
                Err(_) => Err(DecodeError::NegativeLength { position: self.position, length: i64::from(length) }),
            },
        }
    }

    fn present<T>(&self, value: Option<T>) -> Result<T, DecodeError> {
        value.ok_or(DecodeError::UnexpectedNull { position: self.position })
    }

    /// Text.
    pub fn string(&mut self, compact: bool) -> Result<String, DecodeError> {
        let text = self.nullable_string(compact)?;
        self.present(text)
    }

    /// Text or null.
    pub fn nullable_string(&mut self, compact: bool) -> Result<Option<String>, DecodeError> {
        let Some(length) = self.length(compact, true)? else { return Ok(None) };
        self.expect(length)?;
        let (text, _) = self.bytes.split_at_checked(length).unwrap_or_default();
        let text = match std::str::from_utf8(text) {
            Ok(text) => text.to_owned(),
            Err(_) => return Err(DecodeError::InvalidUtf8 { position: self.position }),
        };
        self.bytes.advance(length);
        self.position += length;
        Ok(Some(text))
    }

    /// Bytes, shared with the frame.
    pub fn bytes(&mut self, compact: bool) -> Result<Bytes, DecodeError> {
        let bytes = self.nullable_bytes(compact)?;
        self.present(bytes)
    }

    /// Bytes, shared with the frame, or null.
    pub fn nullable_bytes(&mut self, compact: bool) -> Result<Option<Bytes>, DecodeError> {
        match self.length(compact, false)? {
            None => Ok(None),
            Some(length) => Ok(Some(self.take(length)?)),
        }
    }

    /// An array, whose elements take at least `element_bytes_min` bytes each.
    pub fn array<T>(
        &mut self,
        compact: bool,
        element_bytes_min: usize,
        element: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let elements = self.nullable_array(compact, element_bytes_min, element)?;
        self.present(elements)
    }

    /// An array or null.
    pub fn nullable_array<T>(
        &mut self,
        compact: bool,
        element_bytes_min: usize,
        mut element: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Option<Vec<T>>, DecodeError> {
        let Some(count) = self.length(compact, false)? else { return Ok(None) };
        let remaining = self.bytes.len();
        if count > remaining / element_bytes_min.max(1) {
            return Err(DecodeError::CountTooLarge { position: self.position, count, remaining });
        }
        let mut elements = Vec::with_capacity(count.min(ELEMENTS_RESERVED_MAX));
        for _ in 0..count {
            elements.push(element(self)?);
        }
        Ok(Some(elements))
    }

    /// Whether a nullable struct follows.
    pub fn is_present(&mut self) -> Result<bool, DecodeError> {
        Ok(self.i8()? >= 0)
    }

    /// The tagged fields at the end of a struct. `known` reads the fields it knows and returns true; what it
    /// does not know it leaves alone, and that goes to `unknown`.
    pub fn tagged_fields(
        &mut self,
        unknown: &mut Vec<RawTaggedField>,
        mut known: impl FnMut(u32, &mut Self) -> Result<bool, DecodeError>,
    ) -> Result<(), DecodeError> {
        let count = self.unsigned_varint()?;
        let mut next_tag = 0;
        for _ in 0..count {
            let tag = self.unsigned_varint()?;
            if u64::from(tag) < next_tag {
                return Err(DecodeError::TagOutOfOrder { position: self.position, tag });
            }
            next_tag = u64::from(tag) + 1;
            let length = to_usize(self.unsigned_varint()?);
            let position = self.position;
            let mut field = Self { bytes: self.take(length)?, position };
            if known(tag, &mut field)? {
                field.finish()?;
            } else {
                unknown.push(RawTaggedField { tag, data: field.bytes });
            }
        }
        Ok(())
    }
}

fn to_usize(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Where a message is written: a buffer, and places in it where records belong that stay elsewhere.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: BytesMut,
    /// For each `records` field to come, how many bytes of it are elsewhere; 0: it is written as it is.
    lengths_apart: VecDeque<usize>,
    /// How much had been written where those of each such field belong.
    places_apart: Vec<usize>,
}

impl Writer {
    /// Writes behind `bytes`.
    #[must_use]
    pub fn new(bytes: BytesMut) -> Self {
        Self { bytes, ..Self::default() }
    }

    /// Of the message's `records` fields, in their order, so many bytes are elsewhere: their length alone is written.
    pub(crate) fn set_apart(&mut self, lengths: impl IntoIterator<Item = usize>) {
        self.lengths_apart.extend(lengths);
    }

    /// What was written, and the places in it.
    pub(crate) fn into_parts(self) -> (BytesMut, Vec<usize>) {
        (self.bytes, self.places_apart)
    }
}

impl Deref for Writer {
    type Target = BytesMut;

    fn deref(&self) -> &BytesMut {
        &self.bytes
    }
}

impl DerefMut for Writer {
    fn deref_mut(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }
}

/// Writes 1 or 0.
pub(crate) fn put_bool(writer: &mut BytesMut, value: bool) {
    writer.put_u8(u8::from(value));
}

/// Writes a number of variable length.
pub fn put_unsigned_varint(writer: &mut BytesMut, mut value: u32) {
    while value >= 0x80 {
        writer.put_u8((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    writer.put_u8(value as u8);
}

fn put_length(writer: &mut BytesMut, length: usize, compact: bool, short: bool) -> Result<(), EncodeError> {
    let too_long = |_| EncodeError::TooLong { length };
    if compact {
        // One more is sent, and a length stays below 2^31 as in the other encoding.
        let length = i32::try_from(length).map_err(too_long)?;
        put_unsigned_varint(writer, length.unsigned_abs() + 1);
    } else if short {
        writer.put_i16(i16::try_from(length).map_err(too_long)?);
    } else {
        writer.put_i32(i32::try_from(length).map_err(too_long)?);
    }
    Ok(())
}

fn put_null(writer: &mut BytesMut, compact: bool, short: bool) {
    if compact {
        writer.put_u8(0);
    } else if short {
        writer.put_i16(-1);
    } else {
        writer.put_i32(-1);
    }
}

/// Writes text.
pub(crate) fn put_string(writer: &mut BytesMut, text: &str, compact: bool) -> Result<(), EncodeError> {
    if text.len() > usize::from(i16::MAX.unsigned_abs()) {
        return Err(EncodeError::TooLong { length: text.len() });
    }
    put_length(writer, text.len(), compact, true)?;
    writer.put_slice(text.as_bytes());
    Ok(())
}

/// Writes text or null.
pub(crate) fn put_nullable_string(writer: &mut BytesMut, text: Option<&str>, compact: bool) -> Result<(), EncodeError> {
    match text {
        Some(text) => put_string(writer, text, compact),
        None => {
            put_null(writer, compact, true);
            Ok(())
        }
    }
}

/// Writes bytes.
pub(crate) fn put_bytes(writer: &mut BytesMut, bytes: &[u8], compact: bool) -> Result<(), EncodeError> {
    put_length(writer, bytes.len(), compact, false)?;
    writer.put_slice(bytes);
    Ok(())
}

/// Writes bytes or null.
pub(crate) fn put_nullable_bytes(
    writer: &mut BytesMut,
    bytes: Option<&[u8]>,
    compact: bool,
) -> Result<(), EncodeError> {
    match bytes {
        Some(bytes) => put_bytes(writer, bytes, compact),
        None => {
            put_null(writer, compact, false);
            Ok(())
        }
    }
}

/// Writes record batches or null; of those that are elsewhere, the length.
pub(crate) fn put_records(writer: &mut Writer, records: Option<&[u8]>, compact: bool) -> Result<(), EncodeError> {
    match writer.lengths_apart.pop_front() {
        None | Some(0) => put_nullable_bytes(writer, records, compact),
        Some(length) => {
            put_length(writer, length, compact, false)?;
            let place = writer.len();
            writer.places_apart.push(place);
            Ok(())
        }
    }
}

/// Writes an array, element by element.
pub(crate) fn put_array<T>(
    writer: &mut Writer,
    elements: &[T],
    compact: bool,
    mut element: impl FnMut(&mut Writer, &T) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    put_length(writer, elements.len(), compact, false)?;
    elements.iter().try_for_each(|it| element(writer, it))
}

/// Writes an array or null.
pub(crate) fn put_nullable_array<T>(
    writer: &mut Writer,
    elements: Option<&[T]>,
    compact: bool,
    element: impl FnMut(&mut Writer, &T) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    match elements {
        Some(elements) => put_array(writer, elements, compact, element),
        None => {
            put_null(writer, compact, false);
            Ok(())
        }
    }
}

/// The tagged fields at the end of a struct, known and unknown, in the order of their tags.
#[derive(Debug, Default)]
pub(crate) struct TaggedFields {
    // Allocates for a field that is set, which is rare; a struct without any costs its one byte.
    fields: Vec<(u32, BytesMut)>,
}

impl TaggedFields {
    /// Adds a known field; tags rise.
    pub(crate) fn add(
        &mut self,
        tag: u32,
        value: impl FnOnce(&mut Writer) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let mut writer = Writer::default();
        value(&mut writer)?;
        self.fields.push((tag, writer.bytes));
        Ok(())
    }

    /// Writes them all, merged with those that were not known when the struct was read.
    pub(crate) fn write(self, writer: &mut BytesMut, unknown: &[RawTaggedField]) -> Result<(), EncodeError> {
        let count = self.fields.len() + unknown.len();
        put_unsigned_varint(writer, u32::try_from(count).map_err(|_| EncodeError::TooLong { length: count })?);
        if count == 0 {
            return Ok(());
        }
        let known = self.fields.iter().map(|(tag, bytes)| (*tag, bytes.as_ref()));
        let mut all: Vec<(u32, &[u8])> = known.chain(unknown.iter().map(|it| (it.tag, it.data.as_ref()))).collect();
        all.sort_by_key(|(tag, _)| *tag);
        let mut last_tag = None;
        for (tag, bytes) in all {
            if last_tag == Some(tag) {
                return Err(EncodeError::TagOutOfOrder { tag });
            }
            last_tag = Some(tag);
            put_unsigned_varint(writer, tag);
            let length = u32::try_from(bytes.len()).map_err(|_| EncodeError::TooLong { length: bytes.len() })?;
            put_unsigned_varint(writer, length);
            writer.put_slice(bytes);
        }
        Ok(())
    }
}
