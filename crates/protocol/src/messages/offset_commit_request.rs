//! `OffsetCommitRequest`: request, versions 2-10, flexible from 8.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use atonce_kernel::Uuid;
use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 2-10, flexible from 8.
#[derive(Clone, Debug, PartialEq)]
pub struct OffsetCommitRequest {
    /// `string`.
    pub group_id: String,
    /// `int32`, -1 if not set.
    pub generation_id_or_member_epoch: i32,
    /// `string`.
    pub member_id: String,
    /// `string`, in versions from 7, may be null.
    pub group_instance_id: Option<String>,
    /// `int64`, in versions 2 to 4, -1 if not set, dropped in others.
    pub retention_time_ms: i64,
    /// `[]OffsetCommitRequestTopic`.
    pub topics: Vec<OffsetCommitRequestTopic>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for OffsetCommitRequest {
    fn default() -> Self {
        Self {
            group_id: String::new(),
            generation_id_or_member_epoch: -1,
            member_id: String::new(),
            group_instance_id: None,
            retention_time_ms: -1,
            topics: Vec::new(),
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl Message for OffsetCommitRequest {
    const NAME: &'static str = "OffsetCommitRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 2..=10;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 8;
        let mut message = Self::default();
        message.group_id = reader.string(flexible)?;
        message.generation_id_or_member_epoch = reader.i32()?;
        message.member_id = reader.string(flexible)?;
        if version >= 7 {
            message.group_instance_id = reader.nullable_string(flexible)?;
        }
        if version <= 4 {
            message.retention_time_ms = reader.i64()?;
        }
        message.topics = reader.array(flexible, 3, |reader| OffsetCommitRequestTopic::decode(reader, version))?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 8;
        wire::put_string(writer, &self.group_id, flexible)?;
        writer.put_i32(self.generation_id_or_member_epoch);
        wire::put_string(writer, &self.member_id, flexible)?;
        if version >= 7 {
            wire::put_nullable_string(writer, self.group_instance_id.as_deref(), flexible)?;
        } else if self.group_instance_id.is_some() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetCommitRequest",
                field: "group_instance_id",
                version,
            });
        }
        if version <= 4 {
            writer.put_i64(self.retention_time_ms);
        }
        wire::put_array(writer, &self.topics, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetCommitRequest",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`OffsetCommitRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetCommitRequestTopic {
    /// `string`, in versions 2 to 9, dropped in others.
    pub name: String,
    /// `uuid`, in version 10, dropped in others.
    pub topic_id: Uuid,
    /// `[]OffsetCommitRequestPartition`.
    pub partitions: Vec<OffsetCommitRequestPartition>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl OffsetCommitRequestTopic {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 8;
        let mut message = Self::default();
        if version <= 9 {
            message.name = reader.string(flexible)?;
        }
        if version >= 10 {
            message.topic_id = reader.uuid()?;
        }
        message.partitions =
            reader.array(flexible, 14, |reader| OffsetCommitRequestPartition::decode(reader, version))?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 8;
        if version <= 9 {
            wire::put_string(writer, &self.name, flexible)?;
        }
        if version >= 10 {
            writer.put_slice(&self.topic_id.0);
        }
        wire::put_array(writer, &self.partitions, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetCommitRequestTopic",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`OffsetCommitRequest`].
#[derive(Clone, Debug, PartialEq)]
pub struct OffsetCommitRequestPartition {
    /// `int32`.
    pub partition_index: i32,
    /// `int64`.
    pub committed_offset: i64,
    /// `int32`, in versions from 6, -1 if not set, dropped in others.
    pub committed_leader_epoch: i32,
    /// `string`, may be null.
    pub committed_metadata: Option<String>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for OffsetCommitRequestPartition {
    fn default() -> Self {
        Self {
            partition_index: 0,
            committed_offset: 0,
            committed_leader_epoch: -1,
            committed_metadata: Some(String::new()),
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl OffsetCommitRequestPartition {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 8;
        let mut message = Self::default();
        message.partition_index = reader.i32()?;
        message.committed_offset = reader.i64()?;
        if version >= 6 {
            message.committed_leader_epoch = reader.i32()?;
        }
        message.committed_metadata = reader.nullable_string(flexible)?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 8;
        writer.put_i32(self.partition_index);
        writer.put_i64(self.committed_offset);
        if version >= 6 {
            writer.put_i32(self.committed_leader_epoch);
        }
        wire::put_nullable_string(writer, self.committed_metadata.as_deref(), flexible)?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetCommitRequestPartition",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
