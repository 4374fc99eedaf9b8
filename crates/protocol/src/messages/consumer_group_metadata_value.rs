//! `ConsumerGroupMetadataValue`: embedded message, versions 0, all flexible.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0, all flexible.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerGroupMetadataValue {
    /// `int32`.
    pub epoch: i32,
    /// `int64`, tag 0.
    pub metadata_hash: i64,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for ConsumerGroupMetadataValue {
    const NAME: &'static str = "ConsumerGroupMetadataValue";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=0;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        message.epoch = reader.i32()?;
        let mut unknown = Vec::new();
        reader.tagged_fields(&mut unknown, |tag, reader| {
            match tag {
                0 => message.metadata_hash = reader.i64()?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        message.unknown_tagged_fields = unknown;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        writer.put_i32(self.epoch);
        let mut tagged = TaggedFields::default();
        if self.metadata_hash != 0 {
            tagged.add(0, |writer| {
                writer.put_i64(self.metadata_hash);
                Ok(())
            })?;
        }
        tagged.write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}
