//! `ListPartitionReassignmentsResponse`: response, versions 0, all flexible.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0, all flexible.
#[derive(Clone, Debug, PartialEq)]
pub struct ListPartitionReassignmentsResponse {
    /// `int32`.
    pub throttle_time_ms: i32,
    /// `int16`.
    pub error_code: i16,
    /// `string`, may be null.
    pub error_message: Option<String>,
    /// `[]OngoingTopicReassignment`.
    pub topics: Vec<OngoingTopicReassignment>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for ListPartitionReassignmentsResponse {
    fn default() -> Self {
        Self {
            throttle_time_ms: 0,
            error_code: 0,
            error_message: Some(String::new()),
            topics: Vec::new(),
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl Message for ListPartitionReassignmentsResponse {
    const NAME: &'static str = "ListPartitionReassignmentsResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=0;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        message.throttle_time_ms = reader.i32()?;
        message.error_code = reader.i16()?;
        message.error_message = reader.nullable_string(true)?;
        message.topics = reader.array(true, 3, |reader| OngoingTopicReassignment::decode(reader, version))?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        writer.put_i32(self.throttle_time_ms);
        writer.put_i16(self.error_code);
        wire::put_nullable_string(writer, self.error_message.as_deref(), true)?;
        wire::put_array(writer, &self.topics, true, |writer, it| it.write(writer, version))?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        each(self.error_code);
    }
}

/// A part of [`ListPartitionReassignmentsResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OngoingTopicReassignment {
    /// `string`.
    pub name: String,
    /// `[]OngoingPartitionReassignment`.
    pub partitions: Vec<OngoingPartitionReassignment>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl OngoingTopicReassignment {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.name = reader.string(true)?;
        message.partitions = reader.array(true, 8, |reader| OngoingPartitionReassignment::decode(reader, version))?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        wire::put_string(writer, &self.name, true)?;
        wire::put_array(writer, &self.partitions, true, |writer, it| it.write(writer, version))?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`ListPartitionReassignmentsResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OngoingPartitionReassignment {
    /// `int32`.
    pub partition_index: i32,
    /// `[]int32`.
    pub replicas: Vec<i32>,
    /// `[]int32`.
    pub adding_replicas: Vec<i32>,
    /// `[]int32`.
    pub removing_replicas: Vec<i32>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl OngoingPartitionReassignment {
    fn decode(reader: &mut Reader, _version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.partition_index = reader.i32()?;
        message.replicas = reader.array(true, 4, Reader::i32)?;
        message.adding_replicas = reader.array(true, 4, Reader::i32)?;
        message.removing_replicas = reader.array(true, 4, Reader::i32)?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, _version: i16) -> Result<(), EncodeError> {
        writer.put_i32(self.partition_index);
        wire::put_array(writer, &self.replicas, true, |writer, it| {
            writer.put_i32(*it);
            Ok(())
        })?;
        wire::put_array(writer, &self.adding_replicas, true, |writer, it| {
            writer.put_i32(*it);
            Ok(())
        })?;
        wire::put_array(writer, &self.removing_replicas, true, |writer, it| {
            writer.put_i32(*it);
            Ok(())
        })?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}
