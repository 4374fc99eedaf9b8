//! `DescribeGroupsResponse`: response, versions 0-6, flexible from 5.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::{BufMut, Bytes};

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-6, flexible from 5.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeGroupsResponse {
    /// `int32`, in versions from 1, dropped in others.
    pub throttle_time_ms: i32,
    /// `[]DescribedGroup`.
    pub groups: Vec<DescribedGroup>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for DescribeGroupsResponse {
    const NAME: &'static str = "DescribeGroupsResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=6;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 5;
        let mut message = Self::default();
        if version >= 1 {
            message.throttle_time_ms = reader.i32()?;
        }
        message.groups = reader.array(flexible, 12, |reader| DescribedGroup::decode(reader, version))?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 5;
        if version >= 1 {
            writer.put_i32(self.throttle_time_ms);
        }
        wire::put_array(writer, &self.groups, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DescribeGroupsResponse",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        for it in &self.groups {
            it.error_codes(each);
        }
    }
}

/// A part of [`DescribeGroupsResponse`].
#[derive(Clone, Debug, PartialEq)]
pub struct DescribedGroup {
    /// `int16`.
    pub error_code: i16,
    /// `string`, in version 6, may be null.
    pub error_message: Option<String>,
    /// `string`.
    pub group_id: String,
    /// `string`.
    pub group_state: String,
    /// `string`.
    pub protocol_type: String,
    /// `string`.
    pub protocol_data: String,
    /// `[]DescribedGroupMember`.
    pub members: Vec<DescribedGroupMember>,
    /// `int32`, in versions from 3, -2147483648 if not set.
    pub authorized_operations: i32,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for DescribedGroup {
    fn default() -> Self {
        Self {
            error_code: 0,
            error_message: None,
            group_id: String::new(),
            group_state: String::new(),
            protocol_type: String::new(),
            protocol_data: String::new(),
            members: Vec::new(),
            authorized_operations: i32::MIN,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl DescribedGroup {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 5;
        let mut message = Self::default();
        message.error_code = reader.i16()?;
        if version >= 6 {
            message.error_message = reader.nullable_string(flexible)?;
        }
        message.group_id = reader.string(flexible)?;
        message.group_state = reader.string(flexible)?;
        message.protocol_type = reader.string(flexible)?;
        message.protocol_data = reader.string(flexible)?;
        message.members = reader.array(flexible, 7, |reader| DescribedGroupMember::decode(reader, version))?;
        if version >= 3 {
            message.authorized_operations = reader.i32()?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 5;
        writer.put_i16(self.error_code);
        if version >= 6 {
            wire::put_nullable_string(writer, self.error_message.as_deref(), flexible)?;
        } else if self.error_message.is_some() {
            return Err(EncodeError::FieldNotInVersion { owner: "DescribedGroup", field: "error_message", version });
        }
        wire::put_string(writer, &self.group_id, flexible)?;
        wire::put_string(writer, &self.group_state, flexible)?;
        wire::put_string(writer, &self.protocol_type, flexible)?;
        wire::put_string(writer, &self.protocol_data, flexible)?;
        wire::put_array(writer, &self.members, flexible, |writer, it| it.write(writer, version))?;
        if version >= 3 {
            writer.put_i32(self.authorized_operations);
        } else if self.authorized_operations != i32::MIN {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DescribedGroup",
                field: "authorized_operations",
                version,
            });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DescribedGroup",
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

/// A part of [`DescribeGroupsResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribedGroupMember {
    /// `string`.
    pub member_id: String,
    /// `string`, in versions from 4, may be null, dropped in others.
    pub group_instance_id: Option<String>,
    /// `string`.
    pub client_id: String,
    /// `string`.
    pub client_host: String,
    /// `bytes`.
    pub member_metadata: Bytes,
    /// `bytes`.
    pub member_assignment: Bytes,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl DescribedGroupMember {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 5;
        let mut message = Self::default();
        message.member_id = reader.string(flexible)?;
        if version >= 4 {
            message.group_instance_id = reader.nullable_string(flexible)?;
        }
        message.client_id = reader.string(flexible)?;
        message.client_host = reader.string(flexible)?;
        message.member_metadata = reader.bytes(flexible)?;
        message.member_assignment = reader.bytes(flexible)?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 5;
        wire::put_string(writer, &self.member_id, flexible)?;
        if version >= 4 {
            wire::put_nullable_string(writer, self.group_instance_id.as_deref(), flexible)?;
        }
        wire::put_string(writer, &self.client_id, flexible)?;
        wire::put_string(writer, &self.client_host, flexible)?;
        wire::put_bytes(writer, &self.member_metadata, flexible)?;
        wire::put_bytes(writer, &self.member_assignment, flexible)?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DescribedGroupMember",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
