//! `DeleteRecordsResponse`: response, versions 0-2, flexible from 2.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-2, flexible from 2.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteRecordsResponse {
    /// `int32`.
    pub throttle_time_ms: i32,
    /// `[]DeleteRecordsTopicResult`.
    pub topics: Vec<DeleteRecordsTopicResult>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for DeleteRecordsResponse {
    const NAME: &'static str = "DeleteRecordsResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=2;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 2;
        let mut message = Self::default();
        message.throttle_time_ms = reader.i32()?;
        message.topics = reader.array(flexible, 3, |reader| DeleteRecordsTopicResult::decode(reader, version))?;
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
        wire::put_array(writer, &self.topics, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DeleteRecordsResponse",
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

/// A part of [`DeleteRecordsResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteRecordsTopicResult {
    /// `string`.
    pub name: String,
    /// `[]DeleteRecordsPartitionResult`.
    pub partitions: Vec<DeleteRecordsPartitionResult>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl DeleteRecordsTopicResult {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 2;
        let mut message = Self::default();
        message.name = reader.string(flexible)?;
        message.partitions =
            reader.array(flexible, 14, |reader| DeleteRecordsPartitionResult::decode(reader, version))?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 2;
        wire::put_string(writer, &self.name, flexible)?;
        wire::put_array(writer, &self.partitions, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DeleteRecordsTopicResult",
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

/// A part of [`DeleteRecordsResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteRecordsPartitionResult {
    /// `int32`.
    pub partition_index: i32,
    /// `int64`.
    pub low_watermark: i64,
    /// `int16`.
    pub error_code: i16,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl DeleteRecordsPartitionResult {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 2;
        let mut message = Self::default();
        message.partition_index = reader.i32()?;
        message.low_watermark = reader.i64()?;
        message.error_code = reader.i16()?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 2;
        writer.put_i32(self.partition_index);
        writer.put_i64(self.low_watermark);
        writer.put_i16(self.error_code);
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DeleteRecordsPartitionResult",
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
