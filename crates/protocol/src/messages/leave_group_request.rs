//! `LeaveGroupRequest`: request, versions 0-5, flexible from 4.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-5, flexible from 4.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeaveGroupRequest {
    /// `string`.
    pub group_id: String,
    /// `string`, in versions 0 to 2.
    pub member_id: String,
    /// `[]MemberIdentity`, in versions from 3.
    pub members: Vec<MemberIdentity>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for LeaveGroupRequest {
    const NAME: &'static str = "LeaveGroupRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=5;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 4;
        let mut message = Self::default();
        message.group_id = reader.string(flexible)?;
        if version <= 2 {
            message.member_id = reader.string(flexible)?;
        }
        if version >= 3 {
            message.members = reader.array(flexible, 1, |reader| MemberIdentity::decode(reader, version))?;
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
        if version <= 2 {
            wire::put_string(writer, &self.member_id, flexible)?;
        } else if !self.member_id.is_empty() {
            return Err(EncodeError::FieldNotInVersion { owner: "LeaveGroupRequest", field: "member_id", version });
        }
        if version >= 3 {
            wire::put_array(writer, &self.members, flexible, |writer, it| it.write(writer, version))?;
        } else if !self.members.is_empty() {
            return Err(EncodeError::FieldNotInVersion { owner: "LeaveGroupRequest", field: "members", version });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "LeaveGroupRequest",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`LeaveGroupRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemberIdentity {
    /// `string`, in versions from 3.
    pub member_id: String,
    /// `string`, in versions from 3, may be null.
    pub group_instance_id: Option<String>,
    /// `string`, in version 5, may be null, dropped in others.
    pub reason: Option<String>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl MemberIdentity {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 4;
        let mut message = Self::default();
        if version >= 3 {
            message.member_id = reader.string(flexible)?;
        }
        if version >= 3 {
            message.group_instance_id = reader.nullable_string(flexible)?;
        }
        if version >= 5 {
            message.reason = reader.nullable_string(flexible)?;
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
            return Err(EncodeError::FieldNotInVersion { owner: "MemberIdentity", field: "member_id", version });
        }
        if version >= 3 {
            wire::put_nullable_string(writer, self.group_instance_id.as_deref(), flexible)?;
        } else if self.group_instance_id.is_some() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "MemberIdentity",
                field: "group_instance_id",
                version,
            });
        }
        if version >= 5 {
            wire::put_nullable_string(writer, self.reason.as_deref(), flexible)?;
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "MemberIdentity",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
