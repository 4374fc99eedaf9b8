//! `OffsetFetchResponse`: response, versions 1-10, flexible from 6.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use atonce_kernel::Uuid;
use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 1-10, flexible from 6.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetFetchResponse {
    /// `int32`, in versions from 3, dropped in others.
    pub throttle_time_ms: i32,
    /// `[]OffsetFetchResponseTopic`, in versions 1 to 7.
    pub topics: Vec<OffsetFetchResponseTopic>,
    /// `int16`, in versions 2 to 7, dropped in others.
    pub error_code: i16,
    /// `[]OffsetFetchResponseGroup`, in versions from 8.
    pub groups: Vec<OffsetFetchResponseGroup>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for OffsetFetchResponse {
    const NAME: &'static str = "OffsetFetchResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 1..=10;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 6;
        let mut message = Self::default();
        if version >= 3 {
            message.throttle_time_ms = reader.i32()?;
        }
        if version <= 7 {
            message.topics = reader.array(flexible, 1, |reader| OffsetFetchResponseTopic::decode(reader, version))?;
        }
        if (2..=7).contains(&version) {
            message.error_code = reader.i16()?;
        }
        if version >= 8 {
            message.groups = reader.array(flexible, 1, |reader| OffsetFetchResponseGroup::decode(reader, version))?;
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
        if version >= 3 {
            writer.put_i32(self.throttle_time_ms);
        }
        if version <= 7 {
            wire::put_array(writer, &self.topics, flexible, |writer, it| it.write(writer, version))?;
        } else if !self.topics.is_empty() {
            return Err(EncodeError::FieldNotInVersion { owner: "OffsetFetchResponse", field: "topics", version });
        }
        if (2..=7).contains(&version) {
            writer.put_i16(self.error_code);
        }
        if version >= 8 {
            wire::put_array(writer, &self.groups, flexible, |writer, it| it.write(writer, version))?;
        } else if !self.groups.is_empty() {
            return Err(EncodeError::FieldNotInVersion { owner: "OffsetFetchResponse", field: "groups", version });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetFetchResponse",
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
        each(self.error_code);
        for it in &self.groups {
            it.error_codes(each);
        }
    }
}

/// A part of [`OffsetFetchResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetFetchResponseTopic {
    /// `string`, in versions 1 to 7.
    pub name: String,
    /// `[]OffsetFetchResponsePartition`, in versions 1 to 7.
    pub partitions: Vec<OffsetFetchResponsePartition>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl OffsetFetchResponseTopic {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 6;
        let mut message = Self::default();
        if version <= 7 {
            message.name = reader.string(flexible)?;
        }
        if version <= 7 {
            message.partitions =
                reader.array(flexible, 1, |reader| OffsetFetchResponsePartition::decode(reader, version))?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 6;
        if version <= 7 {
            wire::put_string(writer, &self.name, flexible)?;
        } else if !self.name.is_empty() {
            return Err(EncodeError::FieldNotInVersion { owner: "OffsetFetchResponseTopic", field: "name", version });
        }
        if version <= 7 {
            wire::put_array(writer, &self.partitions, flexible, |writer, it| it.write(writer, version))?;
        } else if !self.partitions.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetFetchResponseTopic",
                field: "partitions",
                version,
            });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetFetchResponseTopic",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        for it in &self.partitions {
            it.error_codes(each);
        }
    }
}

/// A part of [`OffsetFetchResponse`].
#[derive(Clone, Debug, PartialEq)]
pub struct OffsetFetchResponsePartition {
    /// `int32`, in versions 1 to 7.
    pub partition_index: i32,
    /// `int64`, in versions 1 to 7.
    pub committed_offset: i64,
    /// `int32`, in versions 5 to 7, -1 if not set, dropped in others.
    pub committed_leader_epoch: i32,
    /// `string`, in versions 1 to 7, may be null.
    pub metadata: Option<String>,
    /// `int16`, in versions 1 to 7.
    pub error_code: i16,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for OffsetFetchResponsePartition {
    fn default() -> Self {
        Self {
            partition_index: 0,
            committed_offset: 0,
            committed_leader_epoch: -1,
            metadata: Some(String::new()),
            error_code: 0,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl OffsetFetchResponsePartition {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 6;
        let mut message = Self::default();
        if version <= 7 {
            message.partition_index = reader.i32()?;
        }
        if version <= 7 {
            message.committed_offset = reader.i64()?;
        }
        if (5..=7).contains(&version) {
            message.committed_leader_epoch = reader.i32()?;
        }
        if version <= 7 {
            message.metadata = reader.nullable_string(flexible)?;
        }
        if version <= 7 {
            message.error_code = reader.i16()?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 6;
        if version <= 7 {
            writer.put_i32(self.partition_index);
        } else if self.partition_index != 0 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetFetchResponsePartition",
                field: "partition_index",
                version,
            });
        }
        if version <= 7 {
            writer.put_i64(self.committed_offset);
        } else if self.committed_offset != 0 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetFetchResponsePartition",
                field: "committed_offset",
                version,
            });
        }
        if (5..=7).contains(&version) {
            writer.put_i32(self.committed_leader_epoch);
        }
        if version <= 7 {
            wire::put_nullable_string(writer, self.metadata.as_deref(), flexible)?;
        } else if self.metadata.as_ref().is_none_or(|it| !it.is_empty()) {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetFetchResponsePartition",
                field: "metadata",
                version,
            });
        }
        if version <= 7 {
            writer.put_i16(self.error_code);
        } else if self.error_code != 0 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetFetchResponsePartition",
                field: "error_code",
                version,
            });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetFetchResponsePartition",
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

/// A part of [`OffsetFetchResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetFetchResponseGroup {
    /// `string`, in versions from 8.
    pub group_id: String,
    /// `[]OffsetFetchResponseTopics`, in versions from 8.
    pub topics: Vec<OffsetFetchResponseTopics>,
    /// `int16`, in versions from 8.
    pub error_code: i16,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl OffsetFetchResponseGroup {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 6;
        let mut message = Self::default();
        if version >= 8 {
            message.group_id = reader.string(flexible)?;
        }
        if version >= 8 {
            message.topics = reader.array(flexible, 1, |reader| OffsetFetchResponseTopics::decode(reader, version))?;
        }
        if version >= 8 {
            message.error_code = reader.i16()?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 6;
        if version >= 8 {
            wire::put_string(writer, &self.group_id, flexible)?;
        } else if !self.group_id.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetFetchResponseGroup",
                field: "group_id",
                version,
            });
        }
        if version >= 8 {
            wire::put_array(writer, &self.topics, flexible, |writer, it| it.write(writer, version))?;
        } else if !self.topics.is_empty() {
            return Err(EncodeError::FieldNotInVersion { owner: "OffsetFetchResponseGroup", field: "topics", version });
        }
        if version >= 8 {
            writer.put_i16(self.error_code);
        } else if self.error_code != 0 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetFetchResponseGroup",
                field: "error_code",
                version,
            });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetFetchResponseGroup",
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
        each(self.error_code);
    }
}

/// A part of [`OffsetFetchResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetFetchResponseTopics {
    /// `string`, in versions 8 to 9, dropped in others.
    pub name: String,
    /// `uuid`, in version 10, dropped in others.
    pub topic_id: Uuid,
    /// `[]OffsetFetchResponsePartitions`, in versions from 8.
    pub partitions: Vec<OffsetFetchResponsePartitions>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl OffsetFetchResponseTopics {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 6;
        let mut message = Self::default();
        if (8..=9).contains(&version) {
            message.name = reader.string(flexible)?;
        }
        if version >= 10 {
            message.topic_id = reader.uuid()?;
        }
        if version >= 8 {
            message.partitions =
                reader.array(flexible, 1, |reader| OffsetFetchResponsePartitions::decode(reader, version))?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 6;
        if (8..=9).contains(&version) {
            wire::put_string(writer, &self.name, flexible)?;
        }
        if version >= 10 {
            writer.put_slice(&self.topic_id.0);
        }
        if version >= 8 {
            wire::put_array(writer, &self.partitions, flexible, |writer, it| it.write(writer, version))?;
        } else if !self.partitions.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetFetchResponseTopics",
                field: "partitions",
                version,
            });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetFetchResponseTopics",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        for it in &self.partitions {
            it.error_codes(each);
        }
    }
}

/// A part of [`OffsetFetchResponse`].
#[derive(Clone, Debug, PartialEq)]
pub struct OffsetFetchResponsePartitions {
    /// `int32`, in versions from 8.
    pub partition_index: i32,
    /// `int64`, in versions from 8.
    pub committed_offset: i64,
    /// `int32`, in versions from 8, -1 if not set, dropped in others.
    pub committed_leader_epoch: i32,
    /// `string`, in versions from 8, may be null.
    pub metadata: Option<String>,
    /// `int16`, in versions from 8.
    pub error_code: i16,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for OffsetFetchResponsePartitions {
    fn default() -> Self {
        Self {
            partition_index: 0,
            committed_offset: 0,
            committed_leader_epoch: -1,
            metadata: Some(String::new()),
            error_code: 0,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl OffsetFetchResponsePartitions {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 6;
        let mut message = Self::default();
        if version >= 8 {
            message.partition_index = reader.i32()?;
        }
        if version >= 8 {
            message.committed_offset = reader.i64()?;
        }
        if version >= 8 {
            message.committed_leader_epoch = reader.i32()?;
        }
        if version >= 8 {
            message.metadata = reader.nullable_string(flexible)?;
        }
        if version >= 8 {
            message.error_code = reader.i16()?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 6;
        if version >= 8 {
            writer.put_i32(self.partition_index);
        } else if self.partition_index != 0 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetFetchResponsePartitions",
                field: "partition_index",
                version,
            });
        }
        if version >= 8 {
            writer.put_i64(self.committed_offset);
        } else if self.committed_offset != 0 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetFetchResponsePartitions",
                field: "committed_offset",
                version,
            });
        }
        if version >= 8 {
            writer.put_i32(self.committed_leader_epoch);
        }
        if version >= 8 {
            wire::put_nullable_string(writer, self.metadata.as_deref(), flexible)?;
        } else if self.metadata.as_ref().is_none_or(|it| !it.is_empty()) {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetFetchResponsePartitions",
                field: "metadata",
                version,
            });
        }
        if version >= 8 {
            writer.put_i16(self.error_code);
        } else if self.error_code != 0 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetFetchResponsePartitions",
                field: "error_code",
                version,
            });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetFetchResponsePartitions",
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
