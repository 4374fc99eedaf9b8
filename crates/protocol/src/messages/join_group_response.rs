//! `JoinGroupResponse`: response, versions 0-9, flexible from 6.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::{BufMut, Bytes};

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-9, flexible from 6.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinGroupResponse {
    /// `int32`, in versions from 2, dropped in others.
    pub throttle_time_ms: i32,
    /// `int16`.
    pub error_code: i16,
    /// `int32`, -1 if not set.
    pub generation_id: i32,
    /// `string`, in versions from 7, may be null, dropped in others.
    pub protocol_type: Option<String>,
    /// `string`, may be null in versions from 7.
    pub protocol_name: Option<String>,
    /// `string`.
    pub leader: String,
    /// `bool`, in version 9.
    pub skip_assignment: bool,
    /// `string`.
    pub member_id: String,
    /// `[]JoinGroupResponseMember`.
    pub members: Vec<JoinGroupResponseMember>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for JoinGroupResponse {
    fn default() -> Self {
        Self {
            throttle_time_ms: 0,
            error_code: 0,
            generation_id: -1,
            protocol_type: None,
            protocol_name: Some(String::new()),
            leader: String::new(),
            skip_assignment: false,
            member_id: String::new(),
            members: Vec::new(),
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl Message for JoinGroupResponse {
    const NAME: &'static str = "JoinGroupResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=9;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 6;
        let mut message = Self::default();
        if version >= 2 {
            message.throttle_time_ms = reader.i32()?;
        }
        message.error_code = reader.i16()?;
        message.generation_id = reader.i32()?;
        if version >= 7 {
            message.protocol_type = reader.nullable_string(flexible)?;
        }
        message.protocol_name =
            if version >= 7 { reader.nullable_string(flexible)? } else { Some(reader.string(flexible)?) };
        message.leader = reader.string(flexible)?;
        if version >= 9 {
            message.skip_assignment = reader.bool()?;
        }
        message.member_id = reader.string(flexible)?;
        message.members = reader.array(flexible, 4, |reader| JoinGroupResponseMember::decode(reader, version))?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 6;
        if version >= 2 {
            writer.put_i32(self.throttle_time_ms);
        }
        writer.put_i16(self.error_code);
        writer.put_i32(self.generation_id);
        if version >= 7 {
            wire::put_nullable_string(writer, self.protocol_type.as_deref(), flexible)?;
        }
        if self.protocol_name.is_none() && version < 7 {
            return Err(EncodeError::NullNotAllowed { owner: "JoinGroupResponse", field: "protocol_name", version });
        }
        wire::put_nullable_string(writer, self.protocol_name.as_deref(), flexible)?;
        wire::put_string(writer, &self.leader, flexible)?;
        if version >= 9 {
            wire::put_bool(writer, self.skip_assignment);
        } else if self.skip_assignment {
            return Err(EncodeError::FieldNotInVersion {
                owner: "JoinGroupResponse",
                field: "skip_assignment",
                version,
            });
        }
        wire::put_string(writer, &self.member_id, flexible)?;
        wire::put_array(writer, &self.members, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "JoinGroupResponse",
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

/// A part of [`JoinGroupResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JoinGroupResponseMember {
    /// `string`.
    pub member_id: String,
    /// `string`, in versions from 5, may be null, dropped in others.
    pub group_instance_id: Option<String>,
    /// `bytes`.
    pub metadata: Bytes,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl JoinGroupResponseMember {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 6;
        let mut message = Self::default();
        message.member_id = reader.string(flexible)?;
        if version >= 5 {
            message.group_instance_id = reader.nullable_string(flexible)?;
        }
        message.metadata = reader.bytes(flexible)?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 6;
        wire::put_string(writer, &self.member_id, flexible)?;
        if version >= 5 {
            wire::put_nullable_string(writer, self.group_instance_id.as_deref(), flexible)?;
        }
        wire::put_bytes(writer, &self.metadata, flexible)?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "JoinGroupResponseMember",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
