//! `TxnOffsetCommitResponse`: response, versions 0-6, flexible from 3.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use atonce_kernel::Uuid;
use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-6, flexible from 3.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TxnOffsetCommitResponse {
    /// `int32`.
    pub throttle_time_ms: i32,
    /// `[]TxnOffsetCommitResponseTopic`.
    pub topics: Vec<TxnOffsetCommitResponseTopic>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for TxnOffsetCommitResponse {
    const NAME: &'static str = "TxnOffsetCommitResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=6;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 3;
        let mut message = Self::default();
        message.throttle_time_ms = reader.i32()?;
        message.topics = reader.array(flexible, 3, |reader| TxnOffsetCommitResponseTopic::decode(reader, version))?;
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
        writer.put_i32(self.throttle_time_ms);
        wire::put_array(writer, &self.topics, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "TxnOffsetCommitResponse",
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

/// A part of [`TxnOffsetCommitResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TxnOffsetCommitResponseTopic {
    /// `string`, in versions 0 to 5, dropped in others.
    pub name: String,
    /// `uuid`, in version 6, dropped in others.
    pub topic_id: Uuid,
    /// `[]TxnOffsetCommitResponsePartition`.
    pub partitions: Vec<TxnOffsetCommitResponsePartition>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl TxnOffsetCommitResponseTopic {
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
            reader.array(flexible, 6, |reader| TxnOffsetCommitResponsePartition::decode(reader, version))?;
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
                owner: "TxnOffsetCommitResponseTopic",
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

/// A part of [`TxnOffsetCommitResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TxnOffsetCommitResponsePartition {
    /// `int32`.
    pub partition_index: i32,
    /// `int16`.
    pub error_code: i16,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl TxnOffsetCommitResponsePartition {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 3;
        let mut message = Self::default();
        message.partition_index = reader.i32()?;
        message.error_code = reader.i16()?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 3;
        writer.put_i32(self.partition_index);
        writer.put_i16(self.error_code);
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "TxnOffsetCommitResponsePartition",
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
