//! `AlterReplicaLogDirsResponse`: response, versions 1-2, flexible from 2.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 1-2, flexible from 2.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlterReplicaLogDirsResponse {
    /// `int32`.
    pub throttle_time_ms: i32,
    /// `[]AlterReplicaLogDirTopicResult`.
    pub results: Vec<AlterReplicaLogDirTopicResult>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for AlterReplicaLogDirsResponse {
    const NAME: &'static str = "AlterReplicaLogDirsResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 1..=2;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 2;
        let mut message = Self::default();
        message.throttle_time_ms = reader.i32()?;
        message.results = reader.array(flexible, 3, |reader| AlterReplicaLogDirTopicResult::decode(reader, version))?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 2;
        writer.put_i32(self.throttle_time_ms);
        wire::put_array(writer, &self.results, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "AlterReplicaLogDirsResponse",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        for it in &self.results {
            it.error_codes(each);
        }
    }
}

/// A part of [`AlterReplicaLogDirsResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlterReplicaLogDirTopicResult {
    /// `string`.
    pub topic_name: String,
    /// `[]AlterReplicaLogDirPartitionResult`.
    pub partitions: Vec<AlterReplicaLogDirPartitionResult>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl AlterReplicaLogDirTopicResult {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 2;
        let mut message = Self::default();
        message.topic_name = reader.string(flexible)?;
        message.partitions =
            reader.array(flexible, 6, |reader| AlterReplicaLogDirPartitionResult::decode(reader, version))?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 2;
        wire::put_string(writer, &self.topic_name, flexible)?;
        wire::put_array(writer, &self.partitions, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "AlterReplicaLogDirTopicResult",
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

/// A part of [`AlterReplicaLogDirsResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlterReplicaLogDirPartitionResult {
    /// `int32`.
    pub partition_index: i32,
    /// `int16`.
    pub error_code: i16,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl AlterReplicaLogDirPartitionResult {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 2;
        let mut message = Self::default();
        message.partition_index = reader.i32()?;
        message.error_code = reader.i16()?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 2;
        writer.put_i32(self.partition_index);
        writer.put_i16(self.error_code);
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "AlterReplicaLogDirPartitionResult",
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
