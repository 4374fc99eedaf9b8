//! `ConsumerGroupHeartbeatResponse`: response, versions 0-1, all flexible.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use atonce_kernel::Uuid;
use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-1, all flexible.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerGroupHeartbeatResponse {
    /// `int32`.
    pub throttle_time_ms: i32,
    /// `int16`.
    pub error_code: i16,
    /// `string`, may be null.
    pub error_message: Option<String>,
    /// `string`, may be null.
    pub member_id: Option<String>,
    /// `int32`.
    pub member_epoch: i32,
    /// `int32`.
    pub heartbeat_interval_ms: i32,
    /// `Assignment`, may be null.
    pub assignment: Option<Assignment>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for ConsumerGroupHeartbeatResponse {
    const NAME: &'static str = "ConsumerGroupHeartbeatResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=1;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        message.throttle_time_ms = reader.i32()?;
        message.error_code = reader.i16()?;
        message.error_message = reader.nullable_string(true)?;
        message.member_id = reader.nullable_string(true)?;
        message.member_epoch = reader.i32()?;
        message.heartbeat_interval_ms = reader.i32()?;
        message.assignment = if reader.is_present()? { Some(Assignment::decode(reader, version)?) } else { None };
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
        wire::put_nullable_string(writer, self.member_id.as_deref(), true)?;
        writer.put_i32(self.member_epoch);
        writer.put_i32(self.heartbeat_interval_ms);
        match &self.assignment {
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
        each(self.error_code);
    }
}

/// A part of [`ConsumerGroupHeartbeatResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assignment {
    /// `[]TopicPartitions`.
    pub topic_partitions: Vec<TopicPartitions>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Assignment {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.topic_partitions = reader.array(true, 18, |reader| TopicPartitions::decode(reader, version))?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        wire::put_array(writer, &self.topic_partitions, true, |writer, it| it.write(writer, version))?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`ConsumerGroupHeartbeatResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicPartitions {
    /// `uuid`.
    pub topic_id: Uuid,
    /// `[]int32`.
    pub partitions: Vec<i32>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl TopicPartitions {
    fn decode(reader: &mut Reader, _version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.topic_id = reader.uuid()?;
        message.partitions = reader.array(true, 4, Reader::i32)?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, _version: i16) -> Result<(), EncodeError> {
        writer.put_slice(&self.topic_id.0);
        wire::put_array(writer, &self.partitions, true, |writer, it| {
            writer.put_i32(*it);
            Ok(())
        })?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}
