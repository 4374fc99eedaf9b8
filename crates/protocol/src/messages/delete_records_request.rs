//! `DeleteRecordsRequest`: request, versions 0-2, flexible from 2.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-2, flexible from 2.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteRecordsRequest {
    /// `[]DeleteRecordsTopic`.
    pub topics: Vec<DeleteRecordsTopic>,
    /// `int32`.
    pub timeout_ms: i32,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for DeleteRecordsRequest {
    const NAME: &'static str = "DeleteRecordsRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=2;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 2;
        let mut message = Self::default();
        message.topics = reader.array(flexible, 3, |reader| DeleteRecordsTopic::decode(reader, version))?;
        message.timeout_ms = reader.i32()?;
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
        wire::put_array(writer, &self.topics, flexible, |writer, it| it.write(writer, version))?;
        writer.put_i32(self.timeout_ms);
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DeleteRecordsRequest",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`DeleteRecordsRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteRecordsTopic {
    /// `string`.
    pub name: String,
    /// `[]DeleteRecordsPartition`.
    pub partitions: Vec<DeleteRecordsPartition>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl DeleteRecordsTopic {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 2;
        let mut message = Self::default();
        message.name = reader.string(flexible)?;
        message.partitions = reader.array(flexible, 12, |reader| DeleteRecordsPartition::decode(reader, version))?;
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
                owner: "DeleteRecordsTopic",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`DeleteRecordsRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteRecordsPartition {
    /// `int32`.
    pub partition_index: i32,
    /// `int64`.
    pub offset: i64,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl DeleteRecordsPartition {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 2;
        let mut message = Self::default();
        message.partition_index = reader.i32()?;
        message.offset = reader.i64()?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 2;
        writer.put_i32(self.partition_index);
        writer.put_i64(self.offset);
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DeleteRecordsPartition",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
