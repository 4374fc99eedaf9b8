//! `DescribeQuorumResponse`: response, versions 0-2, all flexible.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use atonce_kernel::Uuid;
use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-2, all flexible.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribeQuorumResponse {
    /// `int16`.
    pub error_code: i16,
    /// `string`, in version 2, may be null, dropped in others.
    pub error_message: Option<String>,
    /// `[]TopicData`.
    pub topics: Vec<TopicData>,
    /// `[]Node`, in version 2.
    pub nodes: Vec<Node>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for DescribeQuorumResponse {
    fn default() -> Self {
        Self {
            error_code: 0,
            error_message: Some(String::new()),
            topics: Vec::new(),
            nodes: Vec::new(),
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl Message for DescribeQuorumResponse {
    const NAME: &'static str = "DescribeQuorumResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=2;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        message.error_code = reader.i16()?;
        if version >= 2 {
            message.error_message = reader.nullable_string(true)?;
        }
        message.topics = reader.array(true, 3, |reader| TopicData::decode(reader, version))?;
        if version >= 2 {
            message.nodes = reader.array(true, 1, |reader| Node::decode(reader, version))?;
        }
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        writer.put_i16(self.error_code);
        if version >= 2 {
            wire::put_nullable_string(writer, self.error_message.as_deref(), true)?;
        }
        wire::put_array(writer, &self.topics, true, |writer, it| it.write(writer, version))?;
        if version >= 2 {
            wire::put_array(writer, &self.nodes, true, |writer, it| it.write(writer, version))?;
        } else if !self.nodes.is_empty() {
            return Err(EncodeError::FieldNotInVersion { owner: "DescribeQuorumResponse", field: "nodes", version });
        }
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        each(self.error_code);
        for it in &self.topics {
            it.error_codes(each);
        }
    }
}

/// A part of [`DescribeQuorumResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicData {
    /// `string`.
    pub topic_name: String,
    /// `[]PartitionData`.
    pub partitions: Vec<PartitionData>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl TopicData {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.topic_name = reader.string(true)?;
        message.partitions = reader.array(true, 25, |reader| PartitionData::decode(reader, version))?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        wire::put_string(writer, &self.topic_name, true)?;
        wire::put_array(writer, &self.partitions, true, |writer, it| it.write(writer, version))?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        for it in &self.partitions {
            it.error_codes(each);
        }
    }
}

/// A part of [`DescribeQuorumResponse`].
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionData {
    /// `int32`.
    pub partition_index: i32,
    /// `int16`.
    pub error_code: i16,
    /// `string`, in version 2, may be null, dropped in others.
    pub error_message: Option<String>,
    /// `int32`.
    pub leader_id: i32,
    /// `int32`.
    pub leader_epoch: i32,
    /// `int64`.
    pub high_watermark: i64,
    /// `[]ReplicaState`.
    pub current_voters: Vec<ReplicaState>,
    /// `[]ReplicaState`.
    pub observers: Vec<ReplicaState>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for PartitionData {
    fn default() -> Self {
        Self {
            partition_index: 0,
            error_code: 0,
            error_message: Some(String::new()),
            leader_id: 0,
            leader_epoch: 0,
            high_watermark: 0,
            current_voters: Vec::new(),
            observers: Vec::new(),
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl PartitionData {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.partition_index = reader.i32()?;
        message.error_code = reader.i16()?;
        if version >= 2 {
            message.error_message = reader.nullable_string(true)?;
        }
        message.leader_id = reader.i32()?;
        message.leader_epoch = reader.i32()?;
        message.high_watermark = reader.i64()?;
        message.current_voters = reader.array(true, 13, |reader| ReplicaState::decode(reader, version))?;
        message.observers = reader.array(true, 13, |reader| ReplicaState::decode(reader, version))?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        writer.put_i32(self.partition_index);
        writer.put_i16(self.error_code);
        if version >= 2 {
            wire::put_nullable_string(writer, self.error_message.as_deref(), true)?;
        }
        writer.put_i32(self.leader_id);
        writer.put_i32(self.leader_epoch);
        writer.put_i64(self.high_watermark);
        wire::put_array(writer, &self.current_voters, true, |writer, it| it.write(writer, version))?;
        wire::put_array(writer, &self.observers, true, |writer, it| it.write(writer, version))?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        each(self.error_code);
    }
}

/// A part of [`DescribeQuorumResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// `int32`, in version 2.
    pub node_id: i32,
    /// `[]Listener`, in version 2.
    pub listeners: Vec<Listener>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Node {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        if version >= 2 {
            message.node_id = reader.i32()?;
        }
        if version >= 2 {
            message.listeners = reader.array(true, 1, |reader| Listener::decode(reader, version))?;
        }
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if version >= 2 {
            writer.put_i32(self.node_id);
        } else if self.node_id != 0 {
            return Err(EncodeError::FieldNotInVersion { owner: "Node", field: "node_id", version });
        }
        if version >= 2 {
            wire::put_array(writer, &self.listeners, true, |writer, it| it.write(writer, version))?;
        } else if !self.listeners.is_empty() {
            return Err(EncodeError::FieldNotInVersion { owner: "Node", field: "listeners", version });
        }
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`DescribeQuorumResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listener {
    /// `string`, in version 2.
    pub name: String,
    /// `string`, in version 2.
    pub host: String,
    /// `uint16`, in version 2.
    pub port: u16,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Listener {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        if version >= 2 {
            message.name = reader.string(true)?;
        }
        if version >= 2 {
            message.host = reader.string(true)?;
        }
        if version >= 2 {
            message.port = reader.u16()?;
        }
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if version >= 2 {
            wire::put_string(writer, &self.name, true)?;
        } else if !self.name.is_empty() {
            return Err(EncodeError::FieldNotInVersion { owner: "Listener", field: "name", version });
        }
        if version >= 2 {
            wire::put_string(writer, &self.host, true)?;
        } else if !self.host.is_empty() {
            return Err(EncodeError::FieldNotInVersion { owner: "Listener", field: "host", version });
        }
        if version >= 2 {
            writer.put_u16(self.port);
        } else if self.port != 0 {
            return Err(EncodeError::FieldNotInVersion { owner: "Listener", field: "port", version });
        }
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`DescribeQuorumResponse`].
#[derive(Clone, Debug, PartialEq)]
pub struct ReplicaState {
    /// `int32`.
    pub replica_id: i32,
    /// `uuid`, in version 2.
    pub replica_directory_id: Uuid,
    /// `int64`.
    pub log_end_offset: i64,
    /// `int64`, in versions from 1, -1 if not set, dropped in others.
    pub last_fetch_timestamp: i64,
    /// `int64`, in versions from 1, -1 if not set, dropped in others.
    pub last_caught_up_timestamp: i64,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for ReplicaState {
    fn default() -> Self {
        Self {
            replica_id: 0,
            replica_directory_id: Uuid::ZERO,
            log_end_offset: 0,
            last_fetch_timestamp: -1,
            last_caught_up_timestamp: -1,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl ReplicaState {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.replica_id = reader.i32()?;
        if version >= 2 {
            message.replica_directory_id = reader.uuid()?;
        }
        message.log_end_offset = reader.i64()?;
        if version >= 1 {
            message.last_fetch_timestamp = reader.i64()?;
        }
        if version >= 1 {
            message.last_caught_up_timestamp = reader.i64()?;
        }
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        writer.put_i32(self.replica_id);
        if version >= 2 {
            writer.put_slice(&self.replica_directory_id.0);
        } else if !self.replica_directory_id.is_zero() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "ReplicaState",
                field: "replica_directory_id",
                version,
            });
        }
        writer.put_i64(self.log_end_offset);
        if version >= 1 {
            writer.put_i64(self.last_fetch_timestamp);
        }
        if version >= 1 {
            writer.put_i64(self.last_caught_up_timestamp);
        }
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}
