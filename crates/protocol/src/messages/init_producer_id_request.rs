//! `InitProducerIdRequest`: request, versions 0-6, flexible from 2.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-6, flexible from 2.
#[derive(Clone, Debug, PartialEq)]
pub struct InitProducerIdRequest {
    /// `string`, may be null.
    pub transactional_id: Option<String>,
    /// `int32`.
    pub transaction_timeout_ms: i32,
    /// `int64`, in versions from 3, -1 if not set.
    pub producer_id: i64,
    /// `int16`, in versions from 3, -1 if not set.
    pub producer_epoch: i16,
    /// `bool`, in version 6.
    pub enable2_pc: bool,
    /// `bool`, in version 6.
    pub keep_prepared_txn: bool,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for InitProducerIdRequest {
    fn default() -> Self {
        Self {
            transactional_id: Some(String::new()),
            transaction_timeout_ms: 0,
            producer_id: -1,
            producer_epoch: -1,
            enable2_pc: false,
            keep_prepared_txn: false,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl Message for InitProducerIdRequest {
    const NAME: &'static str = "InitProducerIdRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=6;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 2;
        let mut message = Self::default();
        message.transactional_id = reader.nullable_string(flexible)?;
        message.transaction_timeout_ms = reader.i32()?;
        if version >= 3 {
            message.producer_id = reader.i64()?;
        }
        if version >= 3 {
            message.producer_epoch = reader.i16()?;
        }
        if version >= 6 {
            message.enable2_pc = reader.bool()?;
        }
        if version >= 6 {
            message.keep_prepared_txn = reader.bool()?;
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
        wire::put_nullable_string(writer, self.transactional_id.as_deref(), flexible)?;
        writer.put_i32(self.transaction_timeout_ms);
        if version >= 3 {
            writer.put_i64(self.producer_id);
        } else if self.producer_id != -1 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "InitProducerIdRequest",
                field: "producer_id",
                version,
            });
        }
        if version >= 3 {
            writer.put_i16(self.producer_epoch);
        } else if self.producer_epoch != -1 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "InitProducerIdRequest",
                field: "producer_epoch",
                version,
            });
        }
        if version >= 6 {
            wire::put_bool(writer, self.enable2_pc);
        } else if self.enable2_pc {
            return Err(EncodeError::FieldNotInVersion {
                owner: "InitProducerIdRequest",
                field: "enable2_pc",
                version,
            });
        }
        if version >= 6 {
            wire::put_bool(writer, self.keep_prepared_txn);
        } else if self.keep_prepared_txn {
            return Err(EncodeError::FieldNotInVersion {
                owner: "InitProducerIdRequest",
                field: "keep_prepared_txn",
                version,
            });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "InitProducerIdRequest",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
