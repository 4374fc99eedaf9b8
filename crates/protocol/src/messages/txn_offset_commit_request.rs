//! `TxnOffsetCommitRequest`: request, versions 0-6, flexible from 3.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use atonce_kernel::Uuid;
use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-6, flexible from 3.
#[derive(Clone, Debug, PartialEq)]
pub struct TxnOffsetCommitRequest {
    /// `string`.
    pub transactional_id: String,
    /// `string`.
    pub group_id: String,
    /// `int64`.
    pub producer_id: i64,
    /// `int16`.
    pub producer_epoch: i16,
    /// `int32`, in versions from 3, -1 if not set.
    pub generation_id_or_member_epoch: i32,
    /// `string`, in versions from 3.
    pub member_id: String,
    /// `string`, in versions from 3, may be null.
    pub group_instance_id: Option<String>,
    /// `[]TxnOffsetCommitRequestTopic`.
    pub topics: Vec<TxnOffsetCommitRequestTopic>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for TxnOffsetCommitRequest {
    fn default() -> Self {
        Self {
            transactional_id: String::new(),
            group_id: String::new(),
            producer_id: 0,
            producer_epoch: 0,
            generation_id_or_member_epoch: -1,
            member_id: String::new(),
            group_instance_id: None,
            topics: Vec::new(),
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl Message for TxnOffsetCommitRequest {
    const NAME: &'static str = "TxnOffsetCommitRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=6;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 3;
        let mut message = Self::default();
        message.transactional_id = reader.string(flexible)?;
        message.group_id = reader.string(flexible)?;
        message.producer_id = reader.i64()?;
        message.producer_epoch = reader.i16()?;
        if version >= 3 {
            message.generation_id_or_member_epoch = reader.i32()?;
        }
        if version >= 3 {
            message.member_id = reader.string(flexible)?;
        }
        if version >= 3 {
            message.group_instance_id = reader.nullable_string(flexible)?;
        }
        message.topics = reader.array(flexible, 3, |reader| TxnOffsetCommitRequestTopic::decode(reader, version))?;
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
        wire::put_string(writer, &self.transactional_id, flexible)?;
        wire::put_string(writer, &self.group_id, flexible)?;
        writer.put_i64(self.producer_id);
        writer.put_i16(self.producer_epoch);
        if version >= 3 {
            writer.put_i32(self.generation_id_or_member_epoch);
        } else if self.generation_id_or_member_epoch != -1 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "TxnOffsetCommitRequest",
                field: "generation_id_or_member_epoch",
                version,
            });
        }
        if version >= 3 {
            wire::put_string(writer, &self.member_id, flexible)?;
        } else if !self.member_id.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "TxnOffsetCommitRequest",
                field: "member_id",
                version,
            });
        }
        if version >= 3 {
            wire::put_nullable_string(writer, self.group_instance_id.as_deref(), flexible)?;
        } else if self.group_instance_id.is_some() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "TxnOffsetCommitRequest",
                field: "group_instance_id",
                version,
            });
        }
        wire::put_array(writer, &self.topics, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "TxnOffsetCommitRequest",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`TxnOffsetCommitRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TxnOffsetCommitRequestTopic {
    /// `string`, in versions 0 to 5, dropped in others.
    pub name: String,
    /// `uuid`, in version 6, dropped in others.
    pub topic_id: Uuid,
    /// `[]TxnOffsetCommitRequestPartition`.
    pub partitions: Vec<TxnOffsetCommitRequestPartition>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl TxnOffsetCommitRequestTopic {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 3;
        let mut message = Self::default();
        if version <= 5 {
            message.name = reader.string(flexible)?;
        }
        if version >= 6 {
            message.topic_id = reader.uuid()?;
        }
        message.partitions =
            reader.array(flexible, 14, |reader| TxnOffsetCommitRequestPartition::decode(reader, version))?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 3;
        if version <= 5 {
            wire::put_string(writer, &self.name, flexible)?;
        }
        if version >= 6 {
            writer.put_slice(&self.topic_id.0);
        }
        wire::put_array(writer, &self.partitions, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "TxnOffsetCommitRequestTopic",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`TxnOffsetCommitRequest`].
#[derive(Clone, Debug, PartialEq)]
pub struct TxnOffsetCommitRequestPartition {
    /// `int32`.
    pub partition_index: i32,
    /// `int64`.
    pub committed_offset: i64,
    /// `int32`, in versions from 2, -1 if not set, dropped in others.
    pub committed_leader_epoch: i32,
    /// `string`, may be null.
    pub committed_metadata: Option<String>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for TxnOffsetCommitRequestPartition {
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

impl TxnOffsetCommitRequestPartition {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 3;
        let mut message = Self::default();
        message.partition_index = reader.i32()?;
        message.committed_offset = reader.i64()?;
        if version >= 2 {
            message.committed_leader_epoch = reader.i32()?;
        }
        message.committed_metadata = reader.nullable_string(flexible)?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 3;
        writer.put_i32(self.partition_index);
        writer.put_i64(self.committed_offset);
        if version >= 2 {
            writer.put_i32(self.committed_leader_epoch);
        }
        wire::put_nullable_string(writer, self.committed_metadata.as_deref(), flexible)?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "TxnOffsetCommitRequestPartition",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
