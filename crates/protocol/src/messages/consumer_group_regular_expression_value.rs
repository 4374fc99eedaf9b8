//! `ConsumerGroupRegularExpressionValue`: embedded message, versions 0, all flexible.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0, all flexible.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerGroupRegularExpressionValue {
    /// `[]string`.
    pub topics: Vec<String>,
    /// `int64`.
    pub version: i64,
    /// `int64`.
    pub timestamp: i64,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for ConsumerGroupRegularExpressionValue {
    const NAME: &'static str = "ConsumerGroupRegularExpressionValue";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=0;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        message.topics = reader.array(true, 1, |reader| reader.string(true))?;
        message.version = reader.i64()?;
        message.timestamp = reader.i64()?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        wire::put_array(writer, &self.topics, true, |writer, it| wire::put_string(writer, it, true))?;
        writer.put_i64(self.version);
        writer.put_i64(self.timestamp);
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}
