//! `HeartbeatRequest`: request, versions 0-4, flexible from 4.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-4, flexible from 4.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeartbeatRequest {
    /// `string`.
    pub group_id: String,
    /// `int32`.
    pub generation_id: i32,
    /// `string`.
    pub member_id: String,
    /// `string`, in versions from 3, may be null.
    pub group_instance_id: Option<String>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for HeartbeatRequest {
    const NAME: &'static str = "HeartbeatRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=4;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 4;
        let mut message = Self::default();
        message.group_id = reader.string(flexible)?;
        message.generation_id = reader.i32()?;
        message.member_id = reader.string(flexible)?;
        if version >= 3 {
            message.group_instance_id = reader.nullable_string(flexible)?;
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
        let flexible = version >= 4;
        wire::put_string(writer, &self.group_id, flexible)?;
        writer.put_i32(self.generation_id);
        wire::put_string(writer, &self.member_id, flexible)?;
        if version >= 3 {
            wire::put_nullable_string(writer, self.group_instance_id.as_deref(), flexible)?;
        } else if self.group_instance_id.is_some() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "HeartbeatRequest",
                field: "group_instance_id",
                version,
            });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "HeartbeatRequest",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
