//! `MetadataResponse`: response, versions 0-13, flexible from 9.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use atonce_kernel::Uuid;
use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-13, flexible from 9.
#[derive(Clone, Debug, PartialEq)]
pub struct MetadataResponse {
    /// `int32`, in versions from 3, dropped in others.
    pub throttle_time_ms: i32,
    /// `[]MetadataResponseBroker`.
    pub brokers: Vec<MetadataResponseBroker>,
    /// `string`, in versions from 2, may be null, dropped in others.
    pub cluster_id: Option<String>,
    /// `int32`, in versions from 1, -1 if not set, dropped in others.
    pub controller_id: i32,
    /// `[]MetadataResponseTopic`.
    pub topics: Vec<MetadataResponseTopic>,
    /// `int32`, in versions 8 to 10, -2147483648 if not set.
    pub cluster_authorized_operations: i32,
    /// `int16`, in version 13, dropped in others.
    pub error_code: i16,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for MetadataResponse {
    fn default() -> Self {
        Self {
            throttle_time_ms: 0,
            brokers: Vec::new(),
            cluster_id: None,
            controller_id: -1,
            topics: Vec::new(),
            cluster_authorized_operations: i32::MIN,
            error_code: 0,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl Message for MetadataResponse {
    const NAME: &'static str = "MetadataResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=13;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 9;
        let mut message = Self::default();
        if version >= 3 {
            message.throttle_time_ms = reader.i32()?;
        }
        message.brokers = reader.array(flexible, 10, |reader| MetadataResponseBroker::decode(reader, version))?;
        if version >= 2 {
            message.cluster_id = reader.nullable_string(flexible)?;
        }
        if version >= 1 {
            message.controller_id = reader.i32()?;
        }
        message.topics = reader.array(flexible, 8, |reader| MetadataResponseTopic::decode(reader, version))?;
        if (8..=10).contains(&version) {
            message.cluster_authorized_operations = reader.i32()?;
        }
        if version >= 13 {
            message.error_code = reader.i16()?;
        }
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
        if version >= 3 {
            writer.put_i32(self.throttle_time_ms);
        }
        wire::put_array(writer, &self.brokers, flexible, |writer, it| it.write(writer, version))?;
        if version >= 2 {
            wire::put_nullable_string(writer, self.cluster_id.as_deref(), flexible)?;
        }
        if version >= 1 {
            writer.put_i32(self.controller_id);
        }
        wire::put_array(writer, &self.topics, flexible, |writer, it| it.write(writer, version))?;
        if (8..=10).contains(&version) {
            writer.put_i32(self.cluster_authorized_operations);
        } else if self.cluster_authorized_operations != i32::MIN {
            return Err(EncodeError::FieldNotInVersion {
                owner: "MetadataResponse",
                field: "cluster_authorized_operations",
                version,
            });
        }
        if version >= 13 {
            writer.put_i16(self.error_code);
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "MetadataResponse",
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
        each(self.error_code);
    }
}

/// A part of [`MetadataResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetadataResponseBroker {
    /// `int32`.
    pub node_id: i32,
    /// `string`.
    pub host: String,
    /// `int32`.
    pub port: i32,
    /// `string`, in versions from 1, may be null, dropped in others.
    pub rack: Option<String>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl MetadataResponseBroker {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 9;
        let mut message = Self::default();
        message.node_id = reader.i32()?;
        message.host = reader.string(flexible)?;
        message.port = reader.i32()?;
        if version >= 1 {
            message.rack = reader.nullable_string(flexible)?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 9;
        writer.put_i32(self.node_id);
        wire::put_string(writer, &self.host, flexible)?;
        writer.put_i32(self.port);
        if version >= 1 {
            wire::put_nullable_string(writer, self.rack.as_deref(), flexible)?;
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "MetadataResponseBroker",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`MetadataResponse`].
#[derive(Clone, Debug, PartialEq)]
pub struct MetadataResponseTopic {
    /// `int16`.
    pub error_code: i16,
    /// `string`, may be null in versions from 12.
    pub name: Option<String>,
    /// `uuid`, in versions from 10, dropped in others.
    pub topic_id: Uuid,
    /// `bool`, in versions from 1, dropped in others.
    pub is_internal: bool,
    /// `[]MetadataResponsePartition`.
    pub partitions: Vec<MetadataResponsePartition>,
    /// `int32`, in versions from 8, -2147483648 if not set.
    pub topic_authorized_operations: i32,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for MetadataResponseTopic {
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

impl MetadataResponseTopic {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 9;
        let mut message = Self::default();
        message.error_code = reader.i16()?;
        message.name = if version >= 12 { reader.nullable_string(flexible)? } else { Some(reader.string(flexible)?) };
        if version >= 10 {
            message.topic_id = reader.uuid()?;
        }
        if version >= 1 {
            message.is_internal = reader.bool()?;
        }
        message.partitions = reader.array(flexible, 18, |reader| MetadataResponsePartition::decode(reader, version))?;
        if version >= 8 {
            message.topic_authorized_operations = reader.i32()?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 9;
        writer.put_i16(self.error_code);
        if self.name.is_none() && version < 12 {
            return Err(EncodeError::NullNotAllowed { owner: "MetadataResponseTopic", field: "name", version });
        }
        wire::put_nullable_string(writer, self.name.as_deref(), flexible)?;
        if version >= 10 {
            writer.put_slice(&self.topic_id.0);
        }
        if version >= 1 {
            wire::put_bool(writer, self.is_internal);
        }
        wire::put_array(writer, &self.partitions, flexible, |writer, it| it.write(writer, version))?;
        if version >= 8 {
            writer.put_i32(self.topic_authorized_operations);
        } else if self.topic_authorized_operations != i32::MIN {
            return Err(EncodeError::FieldNotInVersion {
                owner: "MetadataResponseTopic",
                field: "topic_authorized_operations",
                version,
            });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "MetadataResponseTopic",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        each(self.error_code);
        for it in &self.partitions {
            it.error_codes(each);
        }
    }
}

/// A part of [`MetadataResponse`].
#[derive(Clone, Debug, PartialEq)]
pub struct MetadataResponsePartition {
    /// `int16`.
    pub error_code: i16,
    /// `int32`.
    pub partition_index: i32,
    /// `int32`.
    pub leader_id: i32,
    /// `int32`, in versions from 7, -1 if not set, dropped in others.
    pub leader_epoch: i32,
    /// `[]int32`.
    pub replica_nodes: Vec<i32>,
    /// `[]int32`.
    pub isr_nodes: Vec<i32>,
    /// `[]int32`, in versions from 5, dropped in others.
    pub offline_replicas: Vec<i32>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for MetadataResponsePartition {
    fn default() -> Self {
        Self {
            error_code: 0,
            partition_index: 0,
            leader_id: 0,
            leader_epoch: -1,
            replica_nodes: Vec::new(),
            isr_nodes: Vec::new(),
            offline_replicas: Vec::new(),
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl MetadataResponsePartition {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 9;
        let mut message = Self::default();
        message.error_code = reader.i16()?;
        message.partition_index = reader.i32()?;
        message.leader_id = reader.i32()?;
        if version >= 7 {
            message.leader_epoch = reader.i32()?;
        }
        message.replica_nodes = reader.array(flexible, 4, Reader::i32)?;
        message.isr_nodes = reader.array(flexible, 4, Reader::i32)?;
        if version >= 5 {
            message.offline_replicas = reader.array(flexible, 4, Reader::i32)?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 9;
        writer.put_i16(self.error_code);
        writer.put_i32(self.partition_index);
        writer.put_i32(self.leader_id);
        if version >= 7 {
            writer.put_i32(self.leader_epoch);
        }
        wire::put_array(writer, &self.replica_nodes, flexible, |writer, it| {
            writer.put_i32(*it);
            Ok(())
        })?;
        wire::put_array(writer, &self.isr_nodes, flexible, |writer, it| {
            writer.put_i32(*it);
            Ok(())
        })?;
        if version >= 5 {
            wire::put_array(writer, &self.offline_replicas, flexible, |writer, it| {
                writer.put_i32(*it);
                Ok(())
            })?;
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "MetadataResponsePartition",
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
