//! `SyncGroupRequest`: request, versions 0-5, flexible from 4.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::{BufMut, Bytes};

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-5, flexible from 4.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SyncGroupRequest {
    /// `string`.
    pub group_id: String,
    /// `int32`.
    pub generation_id: i32,
    /// `string`.
    pub member_id: String,
    /// `string`, in versions from 3, may be null.
    pub group_instance_id: Option<String>,
    /// `string`, in version 5, may be null, dropped in others.
    pub protocol_type: Option<String>,
    /// `string`, in version 5, may be null, dropped in others.
    pub protocol_name: Option<String>,
    /// `[]SyncGroupRequestAssignment`.
    pub assignments: Vec<SyncGroupRequestAssignment>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for SyncGroupRequest {
    const NAME: &'static str = "SyncGroupRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=5;

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
        if version >= 5 {
            message.protocol_type = reader.nullable_string(flexible)?;
        }
        if version >= 5 {
            message.protocol_name = reader.nullable_string(flexible)?;
        }
        message.assignments =
            reader.array(flexible, 3, |reader| SyncGroupRequestAssignment::decode(reader, version))?;
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
                owner: "SyncGroupRequest",
                field: "group_instance_id",
                version,
            });
        }
        if version >= 5 {
            wire::put_nullable_string(writer, self.protocol_type.as_deref(), flexible)?;
        }
        if version >= 5 {
            wire::put_nullable_string(writer, self.protocol_name.as_deref(), flexible)?;
        }
        wire::put_array(writer, &self.assignments, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "SyncGroupRequest",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`SyncGroupRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SyncGroupRequestAssignment {
    /// `string`.
    pub member_id: String,
    /// `bytes`.
    pub assignment: Bytes,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl SyncGroupRequestAssignment {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 4;
        let mut message = Self::default();
        message.member_id = reader.string(flexible)?;
        message.assignment = reader.bytes(flexible)?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 4;
        wire::put_string(writer, &self.member_id, flexible)?;
        wire::put_bytes(writer, &self.assignment, flexible)?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "SyncGroupRequestAssignment",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
