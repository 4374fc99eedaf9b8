//! `OffsetCommitResponse`: response, versions 2-10, flexible from 8.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use atonce_kernel::Uuid;
use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 2-10, flexible from 8.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetCommitResponse {
    /// `int32`, in versions from 3, dropped in others.
    pub throttle_time_ms: i32,
    /// `[]OffsetCommitResponseTopic`.
    pub topics: Vec<OffsetCommitResponseTopic>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for OffsetCommitResponse {
    const NAME: &'static str = "OffsetCommitResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 2..=10;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 8;
        let mut message = Self::default();
        if version >= 3 {
            message.throttle_time_ms = reader.i32()?;
        }
        message.topics = reader.array(flexible, 3, |reader| OffsetCommitResponseTopic::decode(reader, version))?;
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
        if version >= 3 {
            writer.put_i32(self.throttle_time_ms);
        }
        wire::put_array(writer, &self.topics, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetCommitResponse",
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

/// A part of [`OffsetCommitResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetCommitResponseTopic {
    /// `string`, in versions 2 to 9, dropped in others.
    pub name: String,
    /// `uuid`, in version 10, dropped in others.
    pub topic_id: Uuid,
    /// `[]OffsetCommitResponsePartition`.
    pub partitions: Vec<OffsetCommitResponsePartition>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl OffsetCommitResponseTopic {
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
            reader.array(flexible, 6, |reader| OffsetCommitResponsePartition::decode(reader, version))?;
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
                owner: "OffsetCommitResponseTopic",
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

/// A part of [`OffsetCommitResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetCommitResponsePartition {
    /// `int32`.
    pub partition_index: i32,
    /// `int16`.
    pub error_code: i16,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl OffsetCommitResponsePartition {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 8;
        let mut message = Self::default();
        message.partition_index = reader.i32()?;
        message.error_code = reader.i16()?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 8;
        writer.put_i32(self.partition_index);
        writer.put_i16(self.error_code);
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetCommitResponsePartition",
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
