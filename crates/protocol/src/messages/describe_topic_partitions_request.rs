//! `DescribeTopicPartitionsRequest`: request, versions 0, all flexible.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0, all flexible.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribeTopicPartitionsRequest {
    /// `[]TopicRequest`.
    pub topics: Vec<TopicRequest>,
    /// `int32`, 2000 if not set.
    pub response_partition_limit: i32,
    /// `Cursor`, may be null.
    pub cursor: Option<Cursor>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for DescribeTopicPartitionsRequest {
    fn default() -> Self {
        Self { topics: Vec::new(), response_partition_limit: 2000, cursor: None, unknown_tagged_fields: Vec::new() }
    }
}

impl Message for DescribeTopicPartitionsRequest {
    const NAME: &'static str = "DescribeTopicPartitionsRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=0;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        message.topics = reader.array(true, 2, |reader| TopicRequest::decode(reader, version))?;
        message.response_partition_limit = reader.i32()?;
        message.cursor = if reader.is_present()? { Some(Cursor::decode(reader, version)?) } else { None };
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        wire::put_array(writer, &self.topics, true, |writer, it| it.write(writer, version))?;
        writer.put_i32(self.response_partition_limit);
        match &self.cursor {
            Some(value) => {
                writer.put_i8(1);
                value.write(writer, version)?;
            }
            None => writer.put_i8(-1),
        }
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`DescribeTopicPartitionsRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicRequest {
    /// `string`.
    pub name: String,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl TopicRequest {
    fn decode(reader: &mut Reader, _version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.name = reader.string(true)?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, _version: i16) -> Result<(), EncodeError> {
        wire::put_string(writer, &self.name, true)?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`DescribeTopicPartitionsRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cursor {
    /// `string`.
    pub topic_name: String,
    /// `int32`.
    pub partition_index: i32,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Cursor {
    fn decode(reader: &mut Reader, _version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.topic_name = reader.string(true)?;
        message.partition_index = reader.i32()?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, _version: i16) -> Result<(), EncodeError> {
        wire::put_string(writer, &self.topic_name, true)?;
        writer.put_i32(self.partition_index);
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}
