//! `ConsumerGroupHeartbeatRequest`: request, versions 0-1, all flexible.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use atonce_kernel::Uuid;
use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-1, all flexible.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerGroupHeartbeatRequest {
    /// `string`.
    pub group_id: String,
    /// `string`.
    pub member_id: String,
    /// `int32`.
    pub member_epoch: i32,
    /// `string`, may be null.
    pub instance_id: Option<String>,
    /// `string`, may be null.
    pub rack_id: Option<String>,
    /// `int32`, -1 if not set.
    pub rebalance_timeout_ms: i32,
    /// `[]string`, may be null.
    pub subscribed_topic_names: Option<Vec<String>>,
    /// `string`, in version 1, may be null.
    pub subscribed_topic_regex: Option<String>,
    /// `string`, may be null.
    pub server_assignor: Option<String>,
    /// `[]TopicPartitions`, may be null.
    pub topic_partitions: Option<Vec<TopicPartitions>>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for ConsumerGroupHeartbeatRequest {
    fn default() -> Self {
        Self {
            group_id: String::new(),
            member_id: String::new(),
            member_epoch: 0,
            instance_id: None,
            rack_id: None,
            rebalance_timeout_ms: -1,
            subscribed_topic_names: None,
            subscribed_topic_regex: None,
            server_assignor: None,
            topic_partitions: None,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl Message for ConsumerGroupHeartbeatRequest {
    const NAME: &'static str = "ConsumerGroupHeartbeatRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=1;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        message.group_id = reader.string(true)?;
        message.member_id = reader.string(true)?;
        message.member_epoch = reader.i32()?;
        message.instance_id = reader.nullable_string(true)?;
        message.rack_id = reader.nullable_string(true)?;
        message.rebalance_timeout_ms = reader.i32()?;
        message.subscribed_topic_names = reader.nullable_array(true, 1, |reader| reader.string(true))?;
        if version >= 1 {
            message.subscribed_topic_regex = reader.nullable_string(true)?;
        }
        message.server_assignor = reader.nullable_string(true)?;
        message.topic_partitions =
            reader.nullable_array(true, 18, |reader| TopicPartitions::decode(reader, version))?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        wire::put_string(writer, &self.group_id, true)?;
        wire::put_string(writer, &self.member_id, true)?;
        writer.put_i32(self.member_epoch);
        wire::put_nullable_string(writer, self.instance_id.as_deref(), true)?;
        wire::put_nullable_string(writer, self.rack_id.as_deref(), true)?;
        writer.put_i32(self.rebalance_timeout_ms);
        wire::put_nullable_array(writer, self.subscribed_topic_names.as_deref(), true, |writer, it| {
            wire::put_string(writer, it, true)
        })?;
        if version >= 1 {
            wire::put_nullable_string(writer, self.subscribed_topic_regex.as_deref(), true)?;
        } else if self.subscribed_topic_regex.is_some() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "ConsumerGroupHeartbeatRequest",
                field: "subscribed_topic_regex",
                version,
            });
        }
        wire::put_nullable_string(writer, self.server_assignor.as_deref(), true)?;
        wire::put_nullable_array(writer, self.topic_partitions.as_deref(), true, |writer, it| {
            it.write(writer, version)
        })?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`ConsumerGroupHeartbeatRequest`].
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
