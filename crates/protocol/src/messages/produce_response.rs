//! `ProduceResponse`: response, versions 3-13, flexible from 9.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use atonce_kernel::Uuid;
use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 3-13, flexible from 9.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProduceResponse {
    /// `[]TopicProduceResponse`.
    pub responses: Vec<TopicProduceResponse>,
    /// `int32`.
    pub throttle_time_ms: i32,
    /// `[]NodeEndpoint`, tag 0, in versions from 10.
    pub node_endpoints: Vec<NodeEndpoint>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for ProduceResponse {
    const NAME: &'static str = "ProduceResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 3..=13;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 9;
        let mut message = Self::default();
        message.responses = reader.array(flexible, 3, |reader| TopicProduceResponse::decode(reader, version))?;
        message.throttle_time_ms = reader.i32()?;
        if flexible {
            let mut unknown = Vec::new();
            reader.tagged_fields(&mut unknown, |tag, reader| {
                match tag {
                    0 if version >= 10 => {
                        message.node_endpoints =
                            reader.array(flexible, 1, |reader| NodeEndpoint::decode(reader, version))?
                    }
                    _ => return Ok(false),
                }
                Ok(true)
            })?;
            message.unknown_tagged_fields = unknown;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 9;
        wire::put_array(writer, &self.responses, flexible, |writer, it| it.write(writer, version))?;
        writer.put_i32(self.throttle_time_ms);
        if version < 10 && !self.node_endpoints.is_empty() {
            return Err(EncodeError::FieldNotInVersion { owner: "ProduceResponse", field: "node_endpoints", version });
        }
        if flexible {
            let mut tagged = TaggedFields::default();
            if version >= 10 && !self.node_endpoints.is_empty() {
                tagged.add(0, |writer| {
                    wire::put_array(writer, &self.node_endpoints, flexible, |writer, it| it.write(writer, version))?;
                    Ok(())
                })?;
            }
            tagged.write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "ProduceResponse",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        for it in &self.responses {
            it.error_codes(each);
        }
    }
}

/// A part of [`ProduceResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicProduceResponse {
    /// `string`, in versions 3 to 12, dropped in others.
    pub name: String,
    /// `uuid`, in version 13, dropped in others.
    pub topic_id: Uuid,
    /// `[]PartitionProduceResponse`.
    pub partition_responses: Vec<PartitionProduceResponse>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl TopicProduceResponse {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 9;
        let mut message = Self::default();
        if version <= 12 {
            message.name = reader.string(flexible)?;
        }
        if version >= 13 {
            message.topic_id = reader.uuid()?;
        }
        message.partition_responses =
            reader.array(flexible, 22, |reader| PartitionProduceResponse::decode(reader, version))?;
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
        wire::put_array(writer, &self.partition_responses, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "TopicProduceResponse",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        for it in &self.partition_responses {
            it.error_codes(each);
        }
    }
}

/// A part of [`ProduceResponse`].
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionProduceResponse {
    /// `int32`.
    pub index: i32,
    /// `int16`.
    pub error_code: i16,
    /// `int64`.
    pub base_offset: i64,
    /// `int64`, -1 if not set.
    pub log_append_time_ms: i64,
    /// `int64`, in versions from 5, -1 if not set, dropped in others.
    pub log_start_offset: i64,
    /// `[]BatchIndexAndErrorMessage`, in versions from 8, dropped in others.
    pub record_errors: Vec<BatchIndexAndErrorMessage>,
    /// `string`, in versions from 8, may be null, dropped in others.
    pub error_message: Option<String>,
    /// `LeaderIdAndEpoch`, tag 0, in versions from 10.
    pub current_leader: LeaderIdAndEpoch,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for PartitionProduceResponse {
    fn default() -> Self {
        Self {
            index: 0,
            error_code: 0,
            base_offset: 0,
            log_append_time_ms: -1,
            log_start_offset: -1,
            record_errors: Vec::new(),
            error_message: None,
            current_leader: LeaderIdAndEpoch::default(),
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl PartitionProduceResponse {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 9;
        let mut message = Self::default();
        message.index = reader.i32()?;
        message.error_code = reader.i16()?;
        message.base_offset = reader.i64()?;
        message.log_append_time_ms = reader.i64()?;
        if version >= 5 {
            message.log_start_offset = reader.i64()?;
        }
        if version >= 8 {
            message.record_errors =
                reader.array(flexible, 1, |reader| BatchIndexAndErrorMessage::decode(reader, version))?;
        }
        if version >= 8 {
            message.error_message = reader.nullable_string(flexible)?;
        }
        if flexible {
            let mut unknown = Vec::new();
            reader.tagged_fields(&mut unknown, |tag, reader| {
                match tag {
                    0 if version >= 10 => message.current_leader = LeaderIdAndEpoch::decode(reader, version)?,
                    _ => return Ok(false),
                }
                Ok(true)
            })?;
            message.unknown_tagged_fields = unknown;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 9;
        writer.put_i32(self.index);
        writer.put_i16(self.error_code);
        writer.put_i64(self.base_offset);
        writer.put_i64(self.log_append_time_ms);
        if version >= 5 {
            writer.put_i64(self.log_start_offset);
        }
        if version >= 8 {
            wire::put_array(writer, &self.record_errors, flexible, |writer, it| it.write(writer, version))?;
        }
        if version >= 8 {
            wire::put_nullable_string(writer, self.error_message.as_deref(), flexible)?;
        }
        if version < 10 && self.current_leader != LeaderIdAndEpoch::default() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "PartitionProduceResponse",
                field: "current_leader",
                version,
            });
        }
        if flexible {
            let mut tagged = TaggedFields::default();
            if version >= 10 && self.current_leader != LeaderIdAndEpoch::default() {
                tagged.add(0, |writer| {
                    self.current_leader.write(writer, version)?;
                    Ok(())
                })?;
            }
            tagged.write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "PartitionProduceResponse",
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

/// A part of [`ProduceResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BatchIndexAndErrorMessage {
    /// `int32`, in versions from 8.
    pub batch_index: i32,
    /// `string`, in versions from 8, may be null.
    pub batch_index_error_message: Option<String>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl BatchIndexAndErrorMessage {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 9;
        let mut message = Self::default();
        if version >= 8 {
            message.batch_index = reader.i32()?;
        }
        if version >= 8 {
            message.batch_index_error_message = reader.nullable_string(flexible)?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 9;
        if version >= 8 {
            writer.put_i32(self.batch_index);
        } else if self.batch_index != 0 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "BatchIndexAndErrorMessage",
                field: "batch_index",
                version,
            });
        }
        if version >= 8 {
            wire::put_nullable_string(writer, self.batch_index_error_message.as_deref(), flexible)?;
        } else if self.batch_index_error_message.is_some() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "BatchIndexAndErrorMessage",
                field: "batch_index_error_message",
                version,
            });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "BatchIndexAndErrorMessage",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`ProduceResponse`].
#[derive(Clone, Debug, PartialEq)]
pub struct LeaderIdAndEpoch {
    /// `int32`, in versions from 10, -1 if not set.
    pub leader_id: i32,
    /// `int32`, in versions from 10, -1 if not set.
    pub leader_epoch: i32,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for LeaderIdAndEpoch {
    fn default() -> Self {
        Self { leader_id: -1, leader_epoch: -1, unknown_tagged_fields: Vec::new() }
    }
}

impl LeaderIdAndEpoch {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 9;
        let mut message = Self::default();
        if version >= 10 {
            message.leader_id = reader.i32()?;
        }
        if version >= 10 {
            message.leader_epoch = reader.i32()?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 9;
        if version >= 10 {
            writer.put_i32(self.leader_id);
        } else if self.leader_id != -1 {
            return Err(EncodeError::FieldNotInVersion { owner: "LeaderIdAndEpoch", field: "leader_id", version });
        }
        if version >= 10 {
            writer.put_i32(self.leader_epoch);
        } else if self.leader_epoch != -1 {
            return Err(EncodeError::FieldNotInVersion { owner: "LeaderIdAndEpoch", field: "leader_epoch", version });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "LeaderIdAndEpoch",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`ProduceResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeEndpoint {
    /// `int32`, in versions from 10.
    pub node_id: i32,
    /// `string`, in versions from 10.
    pub host: String,
    /// `int32`, in versions from 10.
    pub port: i32,
    /// `string`, in versions from 10, may be null.
    pub rack: Option<String>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl NodeEndpoint {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 9;
        let mut message = Self::default();
        if version >= 10 {
            message.node_id = reader.i32()?;
        }
        if version >= 10 {
            message.host = reader.string(flexible)?;
        }
        if version >= 10 {
            message.port = reader.i32()?;
        }
        if version >= 10 {
            message.rack = reader.nullable_string(flexible)?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 9;
        if version >= 10 {
            writer.put_i32(self.node_id);
        } else if self.node_id != 0 {
            return Err(EncodeError::FieldNotInVersion { owner: "NodeEndpoint", field: "node_id", version });
        }
        if version >= 10 {
            wire::put_string(writer, &self.host, flexible)?;
        } else if !self.host.is_empty() {
            return Err(EncodeError::FieldNotInVersion { owner: "NodeEndpoint", field: "host", version });
        }
        if version >= 10 {
            writer.put_i32(self.port);
        } else if self.port != 0 {
            return Err(EncodeError::FieldNotInVersion { owner: "NodeEndpoint", field: "port", version });
        }
        if version >= 10 {
            wire::put_nullable_string(writer, self.rack.as_deref(), flexible)?;
        } else if self.rack.is_some() {
            return Err(EncodeError::FieldNotInVersion { owner: "NodeEndpoint", field: "rack", version });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "NodeEndpoint",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
