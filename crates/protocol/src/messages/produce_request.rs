//! `ProduceRequest`: request, versions 3-13, flexible from 9.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use atonce_kernel::Uuid;
use bytes::{BufMut, Bytes};

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 3-13, flexible from 9.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProduceRequest {
    /// `string`, may be null.
    pub transactional_id: Option<String>,
    /// `int16`.
    pub acks: i16,
    /// `int32`.
    pub timeout_ms: i32,
    /// `[]TopicProduceData`.
    pub topic_data: Vec<TopicProduceData>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for ProduceRequest {
    const NAME: &'static str = "ProduceRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 3..=13;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 9;
        let mut message = Self::default();
        message.transactional_id = reader.nullable_string(flexible)?;
        message.acks = reader.i16()?;
        message.timeout_ms = reader.i32()?;
        message.topic_data = reader.array(flexible, 3, |reader| TopicProduceData::decode(reader, version))?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 9;
        wire::put_nullable_string(writer, self.transactional_id.as_deref(), flexible)?;
        writer.put_i16(self.acks);
        writer.put_i32(self.timeout_ms);
        wire::put_array(writer, &self.topic_data, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "ProduceRequest",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`ProduceRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicProduceData {
    /// `string`, in versions 3 to 12, dropped in others.
    pub name: String,
    /// `uuid`, in version 13, dropped in others.
    pub topic_id: Uuid,
    /// `[]PartitionProduceData`.
    pub partition_data: Vec<PartitionProduceData>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl TopicProduceData {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 9;
        let mut message = Self::default();
        if version <= 12 {
            message.name = reader.string(flexible)?;
        }
        if version >= 13 {
            message.topic_id = reader.uuid()?;
        }
        message.partition_data = reader.array(flexible, 6, |reader| PartitionProduceData::decode(reader, version))?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 9;
        if version <= 12 {
            wire::put_string(writer, &self.name, flexible)?;
        }
        if version >= 13 {
            writer.put_slice(&self.topic_id.0);
        }
        wire::put_array(writer, &self.partition_data, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "TopicProduceData",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`ProduceRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartitionProduceData {
    /// `int32`.
    pub index: i32,
    /// `records`, may be null.
    pub records: Option<Bytes>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl PartitionProduceData {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 9;
        let mut message = Self::default();
        message.index = reader.i32()?;
        message.records = reader.nullable_bytes(flexible)?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 9;
        writer.put_i32(self.index);
        wire::put_records(writer, self.records.as_deref(), flexible)?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "PartitionProduceData",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
