//! `AlterPartitionReassignmentsRequest`: request, versions 0-1, all flexible.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-1, all flexible.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterPartitionReassignmentsRequest {
    /// `int32`, 60000 if not set.
    pub timeout_ms: i32,
    /// `bool`, in version 1, true if not set.
    pub allow_replication_factor_change: bool,
    /// `[]ReassignableTopic`.
    pub topics: Vec<ReassignableTopic>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for AlterPartitionReassignmentsRequest {
    fn default() -> Self {
        Self {
            timeout_ms: 60000,
            allow_replication_factor_change: true,
            topics: Vec::new(),
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl Message for AlterPartitionReassignmentsRequest {
    const NAME: &'static str = "AlterPartitionReassignmentsRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=1;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        message.timeout_ms = reader.i32()?;
        if version >= 1 {
            message.allow_replication_factor_change = reader.bool()?;
        }
        message.topics = reader.array(true, 3, |reader| ReassignableTopic::decode(reader, version))?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        writer.put_i32(self.timeout_ms);
        if version >= 1 {
            wire::put_bool(writer, self.allow_replication_factor_change);
        } else if !self.allow_replication_factor_change {
            return Err(EncodeError::FieldNotInVersion {
                owner: "AlterPartitionReassignmentsRequest",
                field: "allow_replication_factor_change",
                version,
            });
        }
        wire::put_array(writer, &self.topics, true, |writer, it| it.write(writer, version))?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`AlterPartitionReassignmentsRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReassignableTopic {
    /// `string`.
    pub name: String,
    /// `[]ReassignablePartition`.
    pub partitions: Vec<ReassignablePartition>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl ReassignableTopic {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.name = reader.string(true)?;
        message.partitions = reader.array(true, 6, |reader| ReassignablePartition::decode(reader, version))?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        wire::put_string(writer, &self.name, true)?;
        wire::put_array(writer, &self.partitions, true, |writer, it| it.write(writer, version))?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`AlterPartitionReassignmentsRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReassignablePartition {
    /// `int32`.
    pub partition_index: i32,
    /// `[]int32`, may be null.
    pub replicas: Option<Vec<i32>>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl ReassignablePartition {
    fn decode(reader: &mut Reader, _version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.partition_index = reader.i32()?;
        message.replicas = reader.nullable_array(true, 4, Reader::i32)?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, _version: i16) -> Result<(), EncodeError> {
        writer.put_i32(self.partition_index);
        wire::put_nullable_array(writer, self.replicas.as_deref(), true, |writer, it| {
            writer.put_i32(*it);
            Ok(())
        })?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}
