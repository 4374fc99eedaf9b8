//! `InitProducerIdResponse`: response, versions 0-6, flexible from 2.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-6, flexible from 2.
#[derive(Clone, Debug, PartialEq)]
pub struct InitProducerIdResponse {
    /// `int32`.
    pub throttle_time_ms: i32,
    /// `int16`.
    pub error_code: i16,
    /// `int64`, -1 if not set.
    pub producer_id: i64,
    /// `int16`.
    pub producer_epoch: i16,
    /// `int64`, in version 6, -1 if not set.
    pub ongoing_txn_producer_id: i64,
    /// `int16`, in version 6, -1 if not set.
    pub ongoing_txn_producer_epoch: i16,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for InitProducerIdResponse {
    fn default() -> Self {
        Self {
            throttle_time_ms: 0,
            error_code: 0,
            producer_id: -1,
            producer_epoch: 0,
            ongoing_txn_producer_id: -1,
            ongoing_txn_producer_epoch: -1,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl Message for InitProducerIdResponse {
    const NAME: &'static str = "InitProducerIdResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=6;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 2;
        let mut message = Self::default();
        message.throttle_time_ms = reader.i32()?;
        message.error_code = reader.i16()?;
        message.producer_id = reader.i64()?;
        message.producer_epoch = reader.i16()?;
        if version >= 6 {
            message.ongoing_txn_producer_id = reader.i64()?;
        }
        if version >= 6 {
            message.ongoing_txn_producer_epoch = reader.i16()?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 2;
        writer.put_i32(self.throttle_time_ms);
        writer.put_i16(self.error_code);
        writer.put_i64(self.producer_id);
        writer.put_i16(self.producer_epoch);
        if version >= 6 {
            writer.put_i64(self.ongoing_txn_producer_id);
        } else if self.ongoing_txn_producer_id != -1 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "InitProducerIdResponse",
                field: "ongoing_txn_producer_id",
                version,
            });
        }
        if version >= 6 {
            writer.put_i16(self.ongoing_txn_producer_epoch);
        } else if self.ongoing_txn_producer_epoch != -1 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "InitProducerIdResponse",
                field: "ongoing_txn_producer_epoch",
                version,
            });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "InitProducerIdResponse",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        each(self.error_code);
    }
}
