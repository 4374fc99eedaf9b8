//! `ListOffsetsResponse`: response, versions 1-11, flexible from 6.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 1-11, flexible from 6.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListOffsetsResponse {
    /// `int32`, in versions from 2, dropped in others.
    pub throttle_time_ms: i32,
    /// `[]ListOffsetsTopicResponse`.
    pub topics: Vec<ListOffsetsTopicResponse>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for ListOffsetsResponse {
    const NAME: &'static str = "ListOffsetsResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 1..=11;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 6;
        let mut message = Self::default();
        if version >= 2 {
            message.throttle_time_ms = reader.i32()?;
        }
        message.topics = reader.array(flexible, 3, |reader| ListOffsetsTopicResponse::decode(reader, version))?;
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
        if version >= 2 {
            writer.put_i32(self.throttle_time_ms);
        }
        wire::put_array(writer, &self.topics, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "ListOffsetsResponse",
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

/// A part of [`ListOffsetsResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListOffsetsTopicResponse {
    /// `string`.
    pub name: String,
    /// `[]ListOffsetsPartitionResponse`.
    pub partitions: Vec<ListOffsetsPartitionResponse>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl ListOffsetsTopicResponse {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 6;
        let mut message = Self::default();
        message.name = reader.string(flexible)?;
        message.partitions =
            reader.array(flexible, 22, |reader| ListOffsetsPartitionResponse::decode(reader, version))?;
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
                owner: "ListOffsetsTopicResponse",
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

/// A part of [`ListOffsetsResponse`].
#[derive(Clone, Debug, PartialEq)]
pub struct ListOffsetsPartitionResponse {
    /// `int32`.
    pub partition_index: i32,
    /// `int16`.
    pub error_code: i16,
    /// `int64`, -1 if not set.
    pub timestamp: i64,
    /// `int64`, -1 if not set.
    pub offset: i64,
    /// `int32`, in versions from 4, -1 if not set.
    pub leader_epoch: i32,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for ListOffsetsPartitionResponse {
    fn default() -> Self {
        Self {
            partition_index: 0,
            error_code: 0,
            timestamp: -1,
            offset: -1,
            leader_epoch: -1,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl ListOffsetsPartitionResponse {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 6;
        let mut message = Self::default();
        message.partition_index = reader.i32()?;
        message.error_code = reader.i16()?;
        message.timestamp = reader.i64()?;
        message.offset = reader.i64()?;
        if version >= 4 {
            message.leader_epoch = reader.i32()?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 6;
        writer.put_i32(self.partition_index);
        writer.put_i16(self.error_code);
        writer.put_i64(self.timestamp);
        writer.put_i64(self.offset);
        if version >= 4 {
            writer.put_i32(self.leader_epoch);
        } else if self.leader_epoch != -1 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "ListOffsetsPartitionResponse",
                field: "leader_epoch",
                version,
            });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "ListOffsetsPartitionResponse",
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
