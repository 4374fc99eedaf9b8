//! `ListPartitionReassignmentsRequest`: request, versions 0, all flexible.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0, all flexible.
#[derive(Clone, Debug, PartialEq)]
pub struct ListPartitionReassignmentsRequest {
    /// `int32`, 60000 if not set.
    pub timeout_ms: i32,
    /// `[]ListPartitionReassignmentsTopics`, may be null.
    pub topics: Option<Vec<ListPartitionReassignmentsTopics>>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for ListPartitionReassignmentsRequest {
    fn default() -> Self {
        Self { timeout_ms: 60000, topics: None, unknown_tagged_fields: Vec::new() }
    }
}

impl Message for ListPartitionReassignmentsRequest {
    const NAME: &'static str = "ListPartitionReassignmentsRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=0;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        message.timeout_ms = reader.i32()?;
        message.topics =
            reader.nullable_array(true, 3, |reader| ListPartitionReassignmentsTopics::decode(reader, version))?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        writer.put_i32(self.timeout_ms);
        wire::put_nullable_array(writer, self.topics.as_deref(), true, |writer, it| it.write(writer, version))?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`ListPartitionReassignmentsRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListPartitionReassignmentsTopics {
    /// `string`.
    pub name: String,
    /// `[]int32`.
    pub partition_indexes: Vec<i32>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl ListPartitionReassignmentsTopics {
    fn decode(reader: &mut Reader, _version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.name = reader.string(true)?;
        message.partition_indexes = reader.array(true, 4, Reader::i32)?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, _version: i16) -> Result<(), EncodeError> {
        wire::put_string(writer, &self.name, true)?;
        wire::put_array(writer, &self.partition_indexes, true, |writer, it| {
            writer.put_i32(*it);
            Ok(())
        })?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}
