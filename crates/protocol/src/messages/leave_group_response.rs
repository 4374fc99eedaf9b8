//! `LeaveGroupResponse`: response, versions 0-5, flexible from 4.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-5, flexible from 4.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeaveGroupResponse {
    /// `int32`, in versions from 1, dropped in others.
    pub throttle_time_ms: i32,
    /// `int16`.
    pub error_code: i16,
    /// `[]MemberResponse`, in versions from 3.
    pub members: Vec<MemberResponse>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for LeaveGroupResponse {
    const NAME: &'static str = "LeaveGroupResponse";
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
        if version >= 3 {
            message.members = reader.array(flexible, 1, |reader| MemberResponse::decode(reader, version))?;
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
        if version >= 1 {
            writer.put_i32(self.throttle_time_ms);
        }
        writer.put_i16(self.error_code);
        if version >= 3 {
            wire::put_array(writer, &self.members, flexible, |writer, it| it.write(writer, version))?;
        } else if !self.members.is_empty() {
            return Err(EncodeError::FieldNotInVersion { owner: "LeaveGroupResponse", field: "members", version });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "LeaveGroupResponse",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        each(self.error_code);
        for it in &self.members {
            it.error_codes(each);
        }
    }
}

/// A part of [`LeaveGroupResponse`].
#[derive(Clone, Debug, PartialEq)]
pub struct MemberResponse {
    /// `string`, in versions from 3.
    pub member_id: String,
    /// `string`, in versions from 3, may be null.
    pub group_instance_id: Option<String>,
    /// `int16`, in versions from 3.
    pub error_code: i16,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for MemberResponse {
    fn default() -> Self {
        Self {
            member_id: String::new(),
            group_instance_id: Some(String::new()),
            error_code: 0,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl MemberResponse {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 4;
        let mut message = Self::default();
        if version >= 3 {
            message.member_id = reader.string(flexible)?;
        }
        if version >= 3 {
            message.group_instance_id = reader.nullable_string(flexible)?;
        }
        if version >= 3 {
            message.error_code = reader.i16()?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 4;
        if version >= 3 {
            wire::put_string(writer, &self.member_id, flexible)?;
        } else if !self.member_id.is_empty() {
            return Err(EncodeError::FieldNotInVersion { owner: "MemberResponse", field: "member_id", version });
        }
        if version >= 3 {
            wire::put_nullable_string(writer, self.group_instance_id.as_deref(), flexible)?;
        } else if self.group_instance_id.as_ref().is_none_or(|it| !it.is_empty()) {
            return Err(EncodeError::FieldNotInVersion {
                owner: "MemberResponse",
                field: "group_instance_id",
                version,
            });
        }
        if version >= 3 {
            writer.put_i16(self.error_code);
        } else if self.error_code != 0 {
            return Err(EncodeError::FieldNotInVersion { owner: "MemberResponse", field: "error_code", version });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "MemberResponse",
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
