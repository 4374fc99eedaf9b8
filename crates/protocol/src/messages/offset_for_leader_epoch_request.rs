//! `OffsetForLeaderEpochRequest`: request, versions 2-4, flexible from 4.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 2-4, flexible from 4.
#[derive(Clone, Debug, PartialEq)]
pub struct OffsetForLeaderEpochRequest {
    /// `int32`, in versions from 3, -2 if not set, dropped in others.
    pub replica_id: i32,
    /// `[]OffsetForLeaderTopic`.
    pub topics: Vec<OffsetForLeaderTopic>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for OffsetForLeaderEpochRequest {
    fn default() -> Self {
        Self { replica_id: -2, topics: Vec::new(), unknown_tagged_fields: Vec::new() }
    }
}

impl Message for OffsetForLeaderEpochRequest {
    const NAME: &'static str = "OffsetForLeaderEpochRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 2..=4;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 4;
        let mut message = Self::default();
        if version >= 3 {
            message.replica_id = reader.i32()?;
        }
        message.topics = reader.array(flexible, 3, |reader| OffsetForLeaderTopic::decode(reader, version))?;
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
        if version >= 3 {
            writer.put_i32(self.replica_id);
        }
        wire::put_array(writer, &self.topics, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetForLeaderEpochRequest",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`OffsetForLeaderEpochRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetForLeaderTopic {
    /// `string`.
    pub topic: String,
    /// `[]OffsetForLeaderPartition`.
    pub partitions: Vec<OffsetForLeaderPartition>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl OffsetForLeaderTopic {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 4;
        let mut message = Self::default();
        message.topic = reader.string(flexible)?;
        message.partitions = reader.array(flexible, 12, |reader| OffsetForLeaderPartition::decode(reader, version))?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 4;
        wire::put_string(writer, &self.topic, flexible)?;
        wire::put_array(writer, &self.partitions, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetForLeaderTopic",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`OffsetForLeaderEpochRequest`].
#[derive(Clone, Debug, PartialEq)]
pub struct OffsetForLeaderPartition {
    /// `int32`.
    pub partition: i32,
    /// `int32`, -1 if not set.
    pub current_leader_epoch: i32,
    /// `int32`.
    pub leader_epoch: i32,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for OffsetForLeaderPartition {
    fn default() -> Self {
        Self { partition: 0, current_leader_epoch: -1, leader_epoch: 0, unknown_tagged_fields: Vec::new() }
    }
}

impl OffsetForLeaderPartition {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 4;
        let mut message = Self::default();
        message.partition = reader.i32()?;
        message.current_leader_epoch = reader.i32()?;
        message.leader_epoch = reader.i32()?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 4;
        writer.put_i32(self.partition);
        writer.put_i32(self.current_leader_epoch);
        writer.put_i32(self.leader_epoch);
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetForLeaderPartition",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
