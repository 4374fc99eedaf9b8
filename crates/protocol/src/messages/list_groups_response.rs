//! `ListGroupsResponse`: response, versions 0-5, flexible from 3.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-5, flexible from 3.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListGroupsResponse {
    /// `int32`, in versions from 1, dropped in others.
    pub throttle_time_ms: i32,
    /// `int16`.
    pub error_code: i16,
    /// `[]ListedGroup`.
    pub groups: Vec<ListedGroup>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for ListGroupsResponse {
    const NAME: &'static str = "ListGroupsResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=5;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 3;
        let mut message = Self::default();
        if version >= 1 {
            message.throttle_time_ms = reader.i32()?;
        }
        message.error_code = reader.i16()?;
        message.groups = reader.array(flexible, 3, |reader| ListedGroup::decode(reader, version))?;
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
        if version >= 1 {
            writer.put_i32(self.throttle_time_ms);
        }
        writer.put_i16(self.error_code);
        wire::put_array(writer, &self.groups, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "ListGroupsResponse",
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

/// A part of [`ListGroupsResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListedGroup {
    /// `string`.
    pub group_id: String,
    /// `string`.
    pub protocol_type: String,
    /// `string`, in versions from 4, dropped in others.
    pub group_state: String,
    /// `string`, in version 5, dropped in others.
    pub group_type: String,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl ListedGroup {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 3;
        let mut message = Self::default();
        message.group_id = reader.string(flexible)?;
        message.protocol_type = reader.string(flexible)?;
        if version >= 4 {
            message.group_state = reader.string(flexible)?;
        }
        if version >= 5 {
            message.group_type = reader.string(flexible)?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 3;
        wire::put_string(writer, &self.group_id, flexible)?;
        wire::put_string(writer, &self.protocol_type, flexible)?;
        if version >= 4 {
            wire::put_string(writer, &self.group_state, flexible)?;
        }
        if version >= 5 {
            wire::put_string(writer, &self.group_type, flexible)?;
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "ListedGroup",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
