//! `SyncGroupResponse`: response, versions 0-5, flexible from 4.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::{BufMut, Bytes};

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-5, flexible from 4.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SyncGroupResponse {
    /// `int32`, in versions from 1, dropped in others.
    pub throttle_time_ms: i32,
    /// `int16`.
    pub error_code: i16,
    /// `string`, in version 5, may be null, dropped in others.
    pub protocol_type: Option<String>,
    /// `string`, in version 5, may be null, dropped in others.
    pub protocol_name: Option<String>,
    /// `bytes`.
    pub assignment: Bytes,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for SyncGroupResponse {
    const NAME: &'static str = "SyncGroupResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=5;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 4;
        let mut message = Self::default();
        if version >= 1 {
            message.throttle_time_ms = reader.i32()?;
        }
        message.error_code = reader.i16()?;
        if version >= 5 {
            message.protocol_type = reader.nullable_string(flexible)?;
        }
        if version >= 5 {
            message.protocol_name = reader.nullable_string(flexible)?;
        }
        message.assignment = reader.bytes(flexible)?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 4;
        if version >= 1 {
            writer.put_i32(self.throttle_time_ms);
        }
        writer.put_i16(self.error_code);
        if version >= 5 {
            wire::put_nullable_string(writer, self.protocol_type.as_deref(), flexible)?;
        }
        if version >= 5 {
            wire::put_nullable_string(writer, self.protocol_name.as_deref(), flexible)?;
        }
        wire::put_bytes(writer, &self.assignment, flexible)?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "SyncGroupResponse",
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
