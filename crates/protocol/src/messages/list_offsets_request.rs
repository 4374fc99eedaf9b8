//! `ListOffsetsRequest`: request, versions 1-11, flexible from 6.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 1-11, flexible from 6.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListOffsetsRequest {
    /// `int32`.
    pub replica_id: i32,
    /// `int8`, in versions from 2.
    pub isolation_level: i8,
    /// `[]ListOffsetsTopic`.
    pub topics: Vec<ListOffsetsTopic>,
    /// `int32`, in versions from 10, dropped in others.
    pub timeout_ms: i32,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for ListOffsetsRequest {
    const NAME: &'static str = "ListOffsetsRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 1..=11;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 6;
        let mut message = Self::default();
        message.replica_id = reader.i32()?;
        if version >= 2 {
            message.isolation_level = reader.i8()?;
        }
        message.topics = reader.array(flexible, 3, |reader| ListOffsetsTopic::decode(reader, version))?;
        if version >= 10 {
            message.timeout_ms = reader.i32()?;
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
        writer.put_i32(self.replica_id);
        if version >= 2 {
            writer.put_i8(self.isolation_level);
        } else if self.isolation_level != 0 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "ListOffsetsRequest",
                field: "isolation_level",
                version,
            });
        }
        wire::put_array(writer, &self.topics, flexible, |writer, it| it.write(writer, version))?;
        if version >= 10 {
            writer.put_i32(self.timeout_ms);
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "ListOffsetsRequest",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`ListOffsetsRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListOffsetsTopic {
    /// `string`.
    pub name: String,
    /// `[]ListOffsetsPartition`.
    pub partitions: Vec<ListOffsetsPartition>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl ListOffsetsTopic {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 6;
        let mut message = Self::default();
        message.name = reader.string(flexible)?;
        message.partitions = reader.array(flexible, 12, |reader| ListOffsetsPartition::decode(reader, version))?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 6;
        wire::put_string(writer, &self.name, flexible)?;
        wire::put_array(writer, &self.partitions, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "ListOffsetsTopic",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`ListOffsetsRequest`].
#[derive(Clone, Debug, PartialEq)]
pub struct ListOffsetsPartition {
    /// `int32`.
    pub partition_index: i32,
    /// `int32`, in versions from 4, -1 if not set, dropped in others.
    pub current_leader_epoch: i32,
    /// `int64`.
    pub timestamp: i64,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for ListOffsetsPartition {
    fn default() -> Self {
        Self { partition_index: 0, current_leader_epoch: -1, timestamp: 0, unknown_tagged_fields: Vec::new() }
    }
}

impl ListOffsetsPartition {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 6;
        let mut message = Self::default();
        message.partition_index = reader.i32()?;
        if version >= 4 {
            message.current_leader_epoch = reader.i32()?;
        }
        message.timestamp = reader.i64()?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 6;
        writer.put_i32(self.partition_index);
        if version >= 4 {
            writer.put_i32(self.current_leader_epoch);
        }
        writer.put_i64(self.timestamp);
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "ListOffsetsPartition",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
