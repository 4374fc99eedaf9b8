//! `JoinGroupRequest`: request, versions 0-9, flexible from 6.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::{BufMut, Bytes};

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-9, flexible from 6.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinGroupRequest {
    /// `string`.
    pub group_id: String,
    /// `int32`.
    pub session_timeout_ms: i32,
    /// `int32`, in versions from 1, -1 if not set, dropped in others.
    pub rebalance_timeout_ms: i32,
    /// `string`.
    pub member_id: String,
    /// `string`, in versions from 5, may be null.
    pub group_instance_id: Option<String>,
    /// `string`.
    pub protocol_type: String,
    /// `[]JoinGroupRequestProtocol`.
    pub protocols: Vec<JoinGroupRequestProtocol>,
    /// `string`, in versions from 8, may be null, dropped in others.
    pub reason: Option<String>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for JoinGroupRequest {
    fn default() -> Self {
        Self {
            group_id: String::new(),
            session_timeout_ms: 0,
            rebalance_timeout_ms: -1,
            member_id: String::new(),
            group_instance_id: None,
            protocol_type: String::new(),
            protocols: Vec::new(),
            reason: None,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl Message for JoinGroupRequest {
    const NAME: &'static str = "JoinGroupRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=9;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 6;
        let mut message = Self::default();
        message.group_id = reader.string(flexible)?;
        message.session_timeout_ms = reader.i32()?;
        if version >= 1 {
            message.rebalance_timeout_ms = reader.i32()?;
        }
        message.member_id = reader.string(flexible)?;
        if version >= 5 {
            message.group_instance_id = reader.nullable_string(flexible)?;
        }
        message.protocol_type = reader.string(flexible)?;
        message.protocols = reader.array(flexible, 3, |reader| JoinGroupRequestProtocol::decode(reader, version))?;
        if version >= 8 {
            message.reason = reader.nullable_string(flexible)?;
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
        let flexible = version >= 6;
        wire::put_string(writer, &self.group_id, flexible)?;
        writer.put_i32(self.session_timeout_ms);
        if version >= 1 {
            writer.put_i32(self.rebalance_timeout_ms);
        }
        wire::put_string(writer, &self.member_id, flexible)?;
        if version >= 5 {
            wire::put_nullable_string(writer, self.group_instance_id.as_deref(), flexible)?;
        } else if self.group_instance_id.is_some() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "JoinGroupRequest",
                field: "group_instance_id",
                version,
            });
        }
        wire::put_string(writer, &self.protocol_type, flexible)?;
        wire::put_array(writer, &self.protocols, flexible, |writer, it| it.write(writer, version))?;
        if version >= 8 {
            wire::put_nullable_string(writer, self.reason.as_deref(), flexible)?;
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "JoinGroupRequest",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`JoinGroupRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JoinGroupRequestProtocol {
    /// `string`.
    pub name: String,
    /// `bytes`.
    pub metadata: Bytes,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl JoinGroupRequestProtocol {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 6;
        let mut message = Self::default();
        message.name = reader.string(flexible)?;
        message.metadata = reader.bytes(flexible)?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 6;
        wire::put_string(writer, &self.name, flexible)?;
        wire::put_bytes(writer, &self.metadata, flexible)?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "JoinGroupRequestProtocol",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
