//! `GroupMetadataValue`: embedded message, versions 0-4, flexible from 4.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::{BufMut, Bytes};

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-4, flexible from 4.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupMetadataValue {
    /// `string`.
    pub protocol_type: String,
    /// `int32`.
    pub generation: i32,
    /// `string`, may be null.
    pub protocol: Option<String>,
    /// `string`, may be null.
    pub leader: Option<String>,
    /// `int64`, in versions from 2, -1 if not set, dropped in others.
    pub current_state_timestamp: i64,
    /// `[]MemberMetadata`.
    pub members: Vec<MemberMetadata>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for GroupMetadataValue {
    fn default() -> Self {
        Self {
            protocol_type: String::new(),
            generation: 0,
            protocol: Some(String::new()),
            leader: Some(String::new()),
            current_state_timestamp: -1,
            members: Vec::new(),
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl Message for GroupMetadataValue {
    const NAME: &'static str = "GroupMetadataValue";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=4;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 4;
        let mut message = Self::default();
        message.protocol_type = reader.string(flexible)?;
        message.generation = reader.i32()?;
        message.protocol = reader.nullable_string(flexible)?;
        message.leader = reader.nullable_string(flexible)?;
        if version >= 2 {
            message.current_state_timestamp = reader.i64()?;
        }
        message.members = reader.array(flexible, 15, |reader| MemberMetadata::decode(reader, version))?;
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
        wire::put_string(writer, &self.protocol_type, flexible)?;
        writer.put_i32(self.generation);
        wire::put_nullable_string(writer, self.protocol.as_deref(), flexible)?;
        wire::put_nullable_string(writer, self.leader.as_deref(), flexible)?;
        if version >= 2 {
            writer.put_i64(self.current_state_timestamp);
        }
        wire::put_array(writer, &self.members, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "GroupMetadataValue",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`GroupMetadataValue`].
#[derive(Clone, Debug, PartialEq)]
pub struct MemberMetadata {
    /// `string`.
    pub member_id: String,
    /// `string`, in versions from 3, may be null, dropped in others.
    pub group_instance_id: Option<String>,
    /// `string`.
    pub client_id: String,
    /// `string`.
    pub client_host: String,
    /// `int32`, in versions from 1, -1 if not set, dropped in others.
    pub rebalance_timeout: i32,
    /// `int32`.
    pub session_timeout: i32,
    /// `bytes`.
    pub subscription: Bytes,
    /// `bytes`.
    pub assignment: Bytes,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for MemberMetadata {
    fn default() -> Self {
        Self {
            member_id: String::new(),
            group_instance_id: None,
            client_id: String::new(),
            client_host: String::new(),
            rebalance_timeout: -1,
            session_timeout: 0,
            subscription: Bytes::new(),
            assignment: Bytes::new(),
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl MemberMetadata {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 4;
        let mut message = Self::default();
        message.member_id = reader.string(flexible)?;
        if version >= 3 {
            message.group_instance_id = reader.nullable_string(flexible)?;
        }
        message.client_id = reader.string(flexible)?;
        message.client_host = reader.string(flexible)?;
        if version >= 1 {
            message.rebalance_timeout = reader.i32()?;
        }
        message.session_timeout = reader.i32()?;
        message.subscription = reader.bytes(flexible)?;
        message.assignment = reader.bytes(flexible)?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 4;
        wire::put_string(writer, &self.member_id, flexible)?;
        if version >= 3 {
            wire::put_nullable_string(writer, self.group_instance_id.as_deref(), flexible)?;
        }
        wire::put_string(writer, &self.client_id, flexible)?;
        wire::put_string(writer, &self.client_host, flexible)?;
        if version >= 1 {
            writer.put_i32(self.rebalance_timeout);
        }
        writer.put_i32(self.session_timeout);
        wire::put_bytes(writer, &self.subscription, flexible)?;
        wire::put_bytes(writer, &self.assignment, flexible)?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "MemberMetadata",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
