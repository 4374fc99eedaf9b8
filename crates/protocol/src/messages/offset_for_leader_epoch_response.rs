//! `OffsetForLeaderEpochResponse`: response, versions 2-4, flexible from 4.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 2-4, flexible from 4.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetForLeaderEpochResponse {
    /// `int32`.
    pub throttle_time_ms: i32,
    /// `[]OffsetForLeaderTopicResult`.
    pub topics: Vec<OffsetForLeaderTopicResult>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for OffsetForLeaderEpochResponse {
    const NAME: &'static str = "OffsetForLeaderEpochResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 2..=4;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 4;
        let mut message = Self::default();
        message.throttle_time_ms = reader.i32()?;
        message.topics = reader.array(flexible, 3, |reader| OffsetForLeaderTopicResult::decode(reader, version))?;
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
        writer.put_i32(self.throttle_time_ms);
        wire::put_array(writer, &self.topics, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetForLeaderEpochResponse",
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

/// A part of [`OffsetForLeaderEpochResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetForLeaderTopicResult {
    /// `string`.
    pub topic: String,
    /// `[]EpochEndOffset`.
    pub partitions: Vec<EpochEndOffset>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl OffsetForLeaderTopicResult {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 4;
        let mut message = Self::default();
        message.topic = reader.string(flexible)?;
        message.partitions = reader.array(flexible, 18, |reader| EpochEndOffset::decode(reader, version))?;
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
                owner: "OffsetForLeaderTopicResult",
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

/// A part of [`OffsetForLeaderEpochResponse`].
#[derive(Clone, Debug, PartialEq)]
pub struct EpochEndOffset {
    /// `int16`.
    pub error_code: i16,
    /// `int32`.
    pub partition: i32,
    /// `int32`, -1 if not set.
    pub leader_epoch: i32,
    /// `int64`, -1 if not set.
    pub end_offset: i64,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for EpochEndOffset {
    fn default() -> Self {
        Self { error_code: 0, partition: 0, leader_epoch: -1, end_offset: -1, unknown_tagged_fields: Vec::new() }
    }
}

impl EpochEndOffset {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 4;
        let mut message = Self::default();
        message.error_code = reader.i16()?;
        message.partition = reader.i32()?;
        message.leader_epoch = reader.i32()?;
        message.end_offset = reader.i64()?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 4;
        writer.put_i16(self.error_code);
        writer.put_i32(self.partition);
        writer.put_i32(self.leader_epoch);
        writer.put_i64(self.end_offset);
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "EpochEndOffset",
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
