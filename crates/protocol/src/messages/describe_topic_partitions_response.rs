//! `DescribeTopicPartitionsResponse`: response, versions 0, all flexible.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use atonce_kernel::Uuid;
use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0, all flexible.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeTopicPartitionsResponse {
    /// `int32`.
    pub throttle_time_ms: i32,
    /// `[]DescribeTopicPartitionsResponseTopic`.
    pub topics: Vec<DescribeTopicPartitionsResponseTopic>,
    /// `Cursor`, may be null.
    pub next_cursor: Option<Cursor>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for DescribeTopicPartitionsResponse {
    const NAME: &'static str = "DescribeTopicPartitionsResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=0;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        message.throttle_time_ms = reader.i32()?;
        message.topics =
            reader.array(true, 26, |reader| DescribeTopicPartitionsResponseTopic::decode(reader, version))?;
        message.next_cursor = if reader.is_present()? { Some(Cursor::decode(reader, version)?) } else { None };
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        writer.put_i32(self.throttle_time_ms);
        wire::put_array(writer, &self.topics, true, |writer, it| it.write(writer, version))?;
        match &self.next_cursor {
            Some(value) => {
                writer.put_i8(1);
                value.write(writer, version)?;
            }
            None => writer.put_i8(-1),
        }
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        for it in &self.topics {
            it.error_codes(each);
        }
    }
}

/// A part of [`DescribeTopicPartitionsResponse`].
#[derive(Clone, Debug, PartialEq)]
pub struct DescribeTopicPartitionsResponseTopic {
    /// `int16`.
    pub error_code: i16,
    /// `string`, may be null.
    pub name: Option<String>,
    /// `uuid`.
    pub topic_id: Uuid,
    /// `bool`.
    pub is_internal: bool,
    /// `[]DescribeTopicPartitionsResponsePartition`.
    pub partitions: Vec<DescribeTopicPartitionsResponsePartition>,
    /// `int32`, -2147483648 if not set.
    pub topic_authorized_operations: i32,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for DescribeTopicPartitionsResponseTopic {
    fn default() -> Self {
        Self {
            error_code: 0,
            name: Some(String::new()),
            topic_id: Uuid::ZERO,
            is_internal: false,
            partitions: Vec::new(),
            topic_authorized_operations: i32::MIN,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl DescribeTopicPartitionsResponseTopic {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.error_code = reader.i16()?;
        message.name = reader.nullable_string(true)?;
        message.topic_id = reader.uuid()?;
        message.is_internal = reader.bool()?;
        message.partitions =
            reader.array(true, 20, |reader| DescribeTopicPartitionsResponsePartition::decode(reader, version))?;
        message.topic_authorized_operations = reader.i32()?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        writer.put_i16(self.error_code);
        wire::put_nullable_string(writer, self.name.as_deref(), true)?;
        writer.put_slice(&self.topic_id.0);
        wire::put_bool(writer, self.is_internal);
        wire::put_array(writer, &self.partitions, true, |writer, it| it.write(writer, version))?;
        writer.put_i32(self.topic_authorized_operations);
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        each(self.error_code);
        for it in &self.partitions {
            it.error_codes(each);
        }
    }
}

/// A part of [`DescribeTopicPartitionsResponse`].
#[derive(Clone, Debug, PartialEq)]
pub struct DescribeTopicPartitionsResponsePartition {
    /// `int16`.
    pub error_code: i16,
    /// `int32`.
    pub partition_index: i32,
    /// `int32`.
    pub leader_id: i32,
    /// `int32`, -1 if not set.
    pub leader_epoch: i32,
    /// `[]int32`.
    pub replica_nodes: Vec<i32>,
    /// `[]int32`.
    pub isr_nodes: Vec<i32>,
    /// `[]int32`, may be null.
    pub eligible_leader_replicas: Option<Vec<i32>>,
    /// `[]int32`, may be null.
    pub last_known_elr: Option<Vec<i32>>,
    /// `[]int32`.
    pub offline_replicas: Vec<i32>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for DescribeTopicPartitionsResponsePartition {
    fn default() -> Self {
        Self {
            error_code: 0,
            partition_index: 0,
            leader_id: 0,
            leader_epoch: -1,
            replica_nodes: Vec::new(),
            isr_nodes: Vec::new(),
            eligible_leader_replicas: None,
            last_known_elr: None,
            offline_replicas: Vec::new(),
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl DescribeTopicPartitionsResponsePartition {
    fn decode(reader: &mut Reader, _version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.error_code = reader.i16()?;
        message.partition_index = reader.i32()?;
        message.leader_id = reader.i32()?;
        message.leader_epoch = reader.i32()?;
        message.replica_nodes = reader.array(true, 4, Reader::i32)?;
        message.isr_nodes = reader.array(true, 4, Reader::i32)?;
        message.eligible_leader_replicas = reader.nullable_array(true, 4, Reader::i32)?;
        message.last_known_elr = reader.nullable_array(true, 4, Reader::i32)?;
        message.offline_replicas = reader.array(true, 4, Reader::i32)?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, _version: i16) -> Result<(), EncodeError> {
        writer.put_i16(self.error_code);
        writer.put_i32(self.partition_index);
        writer.put_i32(self.leader_id);
        writer.put_i32(self.leader_epoch);
        wire::put_array(writer, &self.replica_nodes, true, |writer, it| {
            writer.put_i32(*it);
            Ok(())
        })?;
        wire::put_array(writer, &self.isr_nodes, true, |writer, it| {
            writer.put_i32(*it);
            Ok(())
        })?;
        wire::put_nullable_array(writer, self.eligible_leader_replicas.as_deref(), true, |writer, it| {
            writer.put_i32(*it);
            Ok(())
        })?;
        wire::put_nullable_array(writer, self.last_known_elr.as_deref(), true, |writer, it| {
            writer.put_i32(*it);
            Ok(())
        })?;
        wire::put_array(writer, &self.offline_replicas, true, |writer, it| {
            writer.put_i32(*it);
            Ok(())
        })?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        each(self.error_code);
    }
}

/// A part of [`DescribeTopicPartitionsResponse`].
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
