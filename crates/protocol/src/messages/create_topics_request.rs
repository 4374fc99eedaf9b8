//! `CreateTopicsRequest`: request, versions 2-7, flexible from 5.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 2-7, flexible from 5.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateTopicsRequest {
    /// `[]CreatableTopic`.
    pub topics: Vec<CreatableTopic>,
    /// `int32`, 60000 if not set.
    pub timeout_ms: i32,
    /// `bool`.
    pub validate_only: bool,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for CreateTopicsRequest {
    fn default() -> Self {
        Self { topics: Vec::new(), timeout_ms: 60000, validate_only: false, unknown_tagged_fields: Vec::new() }
    }
}

impl Message for CreateTopicsRequest {
    const NAME: &'static str = "CreateTopicsRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 2..=7;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 5;
        let mut message = Self::default();
        message.topics = reader.array(flexible, 10, |reader| CreatableTopic::decode(reader, version))?;
        message.timeout_ms = reader.i32()?;
        message.validate_only = reader.bool()?;
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
        wire::put_array(writer, &self.topics, flexible, |writer, it| it.write(writer, version))?;
        writer.put_i32(self.timeout_ms);
        wire::put_bool(writer, self.validate_only);
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "CreateTopicsRequest",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`CreateTopicsRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CreatableTopic {
    /// `string`.
    pub name: String,
    /// `int32`.
    pub num_partitions: i32,
    /// `int16`.
    pub replication_factor: i16,
    /// `[]CreatableReplicaAssignment`.
    pub assignments: Vec<CreatableReplicaAssignment>,
    /// `[]CreatableTopicConfig`.
    pub configs: Vec<CreatableTopicConfig>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl CreatableTopic {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 5;
        let mut message = Self::default();
        message.name = reader.string(flexible)?;
        message.num_partitions = reader.i32()?;
        message.replication_factor = reader.i16()?;
        message.assignments =
            reader.array(flexible, 6, |reader| CreatableReplicaAssignment::decode(reader, version))?;
        message.configs = reader.array(flexible, 3, |reader| CreatableTopicConfig::decode(reader, version))?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 5;
        wire::put_string(writer, &self.name, flexible)?;
        writer.put_i32(self.num_partitions);
        writer.put_i16(self.replication_factor);
        wire::put_array(writer, &self.assignments, flexible, |writer, it| it.write(writer, version))?;
        wire::put_array(writer, &self.configs, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "CreatableTopic",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`CreateTopicsRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CreatableReplicaAssignment {
    /// `int32`.
    pub partition_index: i32,
    /// `[]int32`.
    pub broker_ids: Vec<i32>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl CreatableReplicaAssignment {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 5;
        let mut message = Self::default();
        message.partition_index = reader.i32()?;
        message.broker_ids = reader.array(flexible, 4, Reader::i32)?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 5;
        writer.put_i32(self.partition_index);
        wire::put_array(writer, &self.broker_ids, flexible, |writer, it| {
            writer.put_i32(*it);
            Ok(())
        })?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "CreatableReplicaAssignment",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`CreateTopicsRequest`].
#[derive(Clone, Debug, PartialEq)]
pub struct CreatableTopicConfig {
    /// `string`.
    pub name: String,
    /// `string`, may be null.
    pub value: Option<String>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for CreatableTopicConfig {
    fn default() -> Self {
        Self { name: String::new(), value: Some(String::new()), unknown_tagged_fields: Vec::new() }
    }
}

impl CreatableTopicConfig {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 5;
        let mut message = Self::default();
        message.name = reader.string(flexible)?;
        message.value = reader.nullable_string(flexible)?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 5;
        wire::put_string(writer, &self.name, flexible)?;
        wire::put_nullable_string(writer, self.value.as_deref(), flexible)?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "CreatableTopicConfig",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
