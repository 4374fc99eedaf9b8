//! `ConsumerGroupMemberMetadataValue`: embedded message, versions 0, all flexible.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::{BufMut, Bytes};

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0, all flexible.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerGroupMemberMetadataValue {
    /// `string`, may be null.
    pub instance_id: Option<String>,
    /// `string`, may be null.
    pub rack_id: Option<String>,
    /// `string`.
    pub client_id: String,
    /// `string`.
    pub client_host: String,
    /// `[]string`.
    pub subscribed_topic_names: Vec<String>,
    /// `string`, may be null.
    pub subscribed_topic_regex: Option<String>,
    /// `int32`, -1 if not set.
    pub rebalance_timeout_ms: i32,
    /// `string`, may be null.
    pub server_assignor: Option<String>,
    /// `ClassicMemberMetadata`, tag 0, may be null.
    pub classic_member_metadata: Option<ClassicMemberMetadata>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for ConsumerGroupMemberMetadataValue {
    fn default() -> Self {
        Self {
            instance_id: Some(String::new()),
            rack_id: Some(String::new()),
            client_id: String::new(),
            client_host: String::new(),
            subscribed_topic_names: Vec::new(),
            subscribed_topic_regex: Some(String::new()),
            rebalance_timeout_ms: -1,
            server_assignor: Some(String::new()),
            classic_member_metadata: Some(ClassicMemberMetadata::default()),
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl Message for ConsumerGroupMemberMetadataValue {
    const NAME: &'static str = "ConsumerGroupMemberMetadataValue";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=0;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        message.instance_id = reader.nullable_string(true)?;
        message.rack_id = reader.nullable_string(true)?;
        message.client_id = reader.string(true)?;
        message.client_host = reader.string(true)?;
        message.subscribed_topic_names = reader.array(true, 1, |reader| reader.string(true))?;
        message.subscribed_topic_regex = reader.nullable_string(true)?;
        message.rebalance_timeout_ms = reader.i32()?;
        message.server_assignor = reader.nullable_string(true)?;
        let mut unknown = Vec::new();
        reader.tagged_fields(&mut unknown, |tag, reader| {
            match tag {
                0 => {
                    message.classic_member_metadata = if reader.unsigned_varint()? > 0 {
                        Some(ClassicMemberMetadata::decode(reader, version)?)
                    } else {
                        None
                    }
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        message.unknown_tagged_fields = unknown;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        wire::put_nullable_string(writer, self.instance_id.as_deref(), true)?;
        wire::put_nullable_string(writer, self.rack_id.as_deref(), true)?;
        wire::put_string(writer, &self.client_id, true)?;
        wire::put_string(writer, &self.client_host, true)?;
        wire::put_array(writer, &self.subscribed_topic_names, true, |writer, it| wire::put_string(writer, it, true))?;
        wire::put_nullable_string(writer, self.subscribed_topic_regex.as_deref(), true)?;
        writer.put_i32(self.rebalance_timeout_ms);
        wire::put_nullable_string(writer, self.server_assignor.as_deref(), true)?;
        let mut tagged = TaggedFields::default();
        if self.classic_member_metadata != Some(ClassicMemberMetadata::default()) {
            tagged.add(0, |writer| {
                match &self.classic_member_metadata {
                    Some(value) => {
                        writer.put_i8(1);
                        value.write(writer, version)?;
                    }
                    None => writer.put_i8(0),
                }
                Ok(())
            })?;
        }
        tagged.write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`ConsumerGroupMemberMetadataValue`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassicMemberMetadata {
    /// `int32`.
    pub session_timeout_ms: i32,
    /// `[]ClassicProtocol`.
    pub supported_protocols: Vec<ClassicProtocol>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl ClassicMemberMetadata {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.session_timeout_ms = reader.i32()?;
        message.supported_protocols = reader.array(true, 3, |reader| ClassicProtocol::decode(reader, version))?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        writer.put_i32(self.session_timeout_ms);
        wire::put_array(writer, &self.supported_protocols, true, |writer, it| it.write(writer, version))?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`ConsumerGroupMemberMetadataValue`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassicProtocol {
    /// `string`.
    pub name: String,
    /// `bytes`.
    pub metadata: Bytes,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl ClassicProtocol {
    fn decode(reader: &mut Reader, _version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.name = reader.string(true)?;
        message.metadata = reader.bytes(true)?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, _version: i16) -> Result<(), EncodeError> {
        wire::put_string(writer, &self.name, true)?;
        wire::put_bytes(writer, &self.metadata, true)?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}
