//! `EndTxnRequest`: request, versions 0-5, flexible from 3.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-5, flexible from 3.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndTxnRequest {
    /// `string`.
    pub transactional_id: String,
    /// `int64`.
    pub producer_id: i64,
    /// `int16`.
    pub producer_epoch: i16,
    /// `bool`.
    pub committed: bool,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for EndTxnRequest {
    const NAME: &'static str = "EndTxnRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=5;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 3;
        let mut message = Self::default();
        message.transactional_id = reader.string(flexible)?;
        message.producer_id = reader.i64()?;
        message.producer_epoch = reader.i16()?;
        message.committed = reader.bool()?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 3;
        wire::put_string(writer, &self.transactional_id, flexible)?;
        writer.put_i64(self.producer_id);
        writer.put_i16(self.producer_epoch);
        wire::put_bool(writer, self.committed);
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "EndTxnRequest",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
