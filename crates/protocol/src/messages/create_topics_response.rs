//! `CreateTopicsResponse`: response, versions 2-7, flexible from 5.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use atonce_kernel::Uuid;
use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 2-7, flexible from 5.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CreateTopicsResponse {
    /// `int32`.
    pub throttle_time_ms: i32,
    /// `[]CreatableTopicResult`.
    pub topics: Vec<CreatableTopicResult>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for CreateTopicsResponse {
    const NAME: &'static str = "CreateTopicsResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 2..=7;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 5;
        let mut message = Self::default();
        message.throttle_time_ms = reader.i32()?;
        message.topics = reader.array(flexible, 6, |reader| CreatableTopicResult::decode(reader, version))?;
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
        writer.put_i32(self.throttle_time_ms);
        wire::put_array(writer, &self.topics, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "CreateTopicsResponse",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        for it in &self.topics {
            it.error_codes(each);
        }
    }
}

/// A part of [`CreateTopicsResponse`].
#[derive(Clone, Debug, PartialEq)]
pub struct CreatableTopicResult {
    /// `string`.
    pub name: String,
    /// `uuid`, in version 7, dropped in others.
    pub topic_id: Uuid,
    /// `int16`.
    pub error_code: i16,
    /// `string`, may be null.
    pub error_message: Option<String>,
    /// `int16`, tag 0, in versions from 5, dropped in others.
    pub topic_config_error_code: i16,
    /// `int32`, in versions from 5, -1 if not set, dropped in others.
    pub num_partitions: i32,
    /// `int16`, in versions from 5, -1 if not set, dropped in others.
    pub replication_factor: i16,
    /// `[]CreatableTopicConfigs`, in versions from 5, may be null, dropped in others.
    pub configs: Option<Vec<CreatableTopicConfigs>>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for CreatableTopicResult {
    fn default() -> Self {
        Self {
            name: String::new(),
            topic_id: Uuid::ZERO,
            error_code: 0,
            error_message: Some(String::new()),
            topic_config_error_code: 0,
            num_partitions: -1,
            replication_factor: -1,
            configs: Some(Vec::new()),
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl CreatableTopicResult {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 5;
        let mut message = Self::default();
        message.name = reader.string(flexible)?;
        if version >= 7 {
            message.topic_id = reader.uuid()?;
        }
        message.error_code = reader.i16()?;
        message.error_message = reader.nullable_string(flexible)?;
        if version >= 5 {
            message.num_partitions = reader.i32()?;
        }
        if version >= 5 {
            message.replication_factor = reader.i16()?;
        }
        if version >= 5 {
            message.configs =
                reader.nullable_array(flexible, 1, |reader| CreatableTopicConfigs::decode(reader, version))?;
        }
        if flexible {
            let mut unknown = Vec::new();
            reader.tagged_fields(&mut unknown, |tag, reader| {
                match tag {
                    0 => message.topic_config_error_code = reader.i16()?,
                    _ => return Ok(false),
                }
                Ok(true)
            })?;
            message.unknown_tagged_fields = unknown;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 5;
        wire::put_string(writer, &self.name, flexible)?;
        if version >= 7 {
            writer.put_slice(&self.topic_id.0);
        }
        writer.put_i16(self.error_code);
        wire::put_nullable_string(writer, self.error_message.as_deref(), flexible)?;
        if version >= 5 {
            writer.put_i32(self.num_partitions);
        }
        if version >= 5 {
            writer.put_i16(self.replication_factor);
        }
        if version >= 5 {
            wire::put_nullable_array(writer, self.configs.as_deref(), flexible, |writer, it| {
                it.write(writer, version)
            })?;
        }
        if flexible {
            let mut tagged = TaggedFields::default();
            if self.topic_config_error_code != 0 {
                tagged.add(0, |writer| {
                    writer.put_i16(self.topic_config_error_code);
                    Ok(())
                })?;
            }
            tagged.write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "CreatableTopicResult",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        each(self.error_code);
        each(self.topic_config_error_code);
    }
}

/// A part of [`CreateTopicsResponse`].
#[derive(Clone, Debug, PartialEq)]
pub struct CreatableTopicConfigs {
    /// `string`, in versions from 5.
    pub name: String,
    /// `string`, in versions from 5, may be null.
    pub value: Option<String>,
    /// `bool`, in versions from 5.
    pub read_only: bool,
    /// `int8`, in versions from 5, -1 if not set, dropped in others.
    pub config_source: i8,
    /// `bool`, in versions from 5.
    pub is_sensitive: bool,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for CreatableTopicConfigs {
    fn default() -> Self {
        Self {
            name: String::new(),
            value: Some(String::new()),
            read_only: false,
            config_source: -1,
            is_sensitive: false,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl CreatableTopicConfigs {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 5;
        let mut message = Self::default();
        if version >= 5 {
            message.name = reader.string(flexible)?;
        }
        if version >= 5 {
            message.value = reader.nullable_string(flexible)?;
        }
        if version >= 5 {
            message.read_only = reader.bool()?;
        }
        if version >= 5 {
            message.config_source = reader.i8()?;
        }
        if version >= 5 {
            message.is_sensitive = reader.bool()?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 5;
        if version >= 5 {
            wire::put_string(writer, &self.name, flexible)?;
        } else if !self.name.is_empty() {
            return Err(EncodeError::FieldNotInVersion { owner: "CreatableTopicConfigs", field: "name", version });
        }
        if version >= 5 {
            wire::put_nullable_string(writer, self.value.as_deref(), flexible)?;
        } else if self.value.as_ref().is_none_or(|it| !it.is_empty()) {
            return Err(EncodeError::FieldNotInVersion { owner: "CreatableTopicConfigs", field: "value", version });
        }
        if version >= 5 {
            wire::put_bool(writer, self.read_only);
        } else if self.read_only {
            return Err(EncodeError::FieldNotInVersion { owner: "CreatableTopicConfigs", field: "read_only", version });
        }
        if version >= 5 {
            writer.put_i8(self.config_source);
        }
        if version >= 5 {
            wire::put_bool(writer, self.is_sensitive);
        } else if self.is_sensitive {
            return Err(EncodeError::FieldNotInVersion {
                owner: "CreatableTopicConfigs",
                field: "is_sensitive",
                version,
            });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "CreatableTopicConfigs",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
