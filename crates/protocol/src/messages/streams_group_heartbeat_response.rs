//! `StreamsGroupHeartbeatResponse`: response, versions 0-1, all flexible.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-1, all flexible.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamsGroupHeartbeatResponse {
    /// `int32`.
    pub throttle_time_ms: i32,
    /// `int16`.
    pub error_code: i16,
    /// `string`, may be null.
    pub error_message: Option<String>,
    /// `string`.
    pub member_id: String,
    /// `int32`.
    pub member_epoch: i32,
    /// `int32`.
    pub heartbeat_interval_ms: i32,
    /// `int32`, in version 0.
    pub acceptable_recovery_lag_legacy: i32,
    /// `int32`.
    pub task_offset_interval_ms: i32,
    /// `int64`, in version 1, -1 if not set, dropped in others.
    pub acceptable_recovery_lag: i64,
    /// `[]Status`, may be null.
    pub status: Option<Vec<Status>>,
    /// `[]TaskIds`, may be null.
    pub active_tasks: Option<Vec<TaskIds>>,
    /// `[]TaskIds`, may be null.
    pub standby_tasks: Option<Vec<TaskIds>>,
    /// `[]TaskIds`, may be null.
    pub warmup_tasks: Option<Vec<TaskIds>>,
    /// `bool`, in version 1.
    pub topology_description_required: bool,
    /// `int32`.
    pub endpoint_information_epoch: i32,
    /// `[]EndpointToPartitions`, may be null.
    pub partitions_by_user_endpoint: Option<Vec<EndpointToPartitions>>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for StreamsGroupHeartbeatResponse {
    fn default() -> Self {
        Self {
            throttle_time_ms: 0,
            error_code: 0,
            error_message: None,
            member_id: String::new(),
            member_epoch: 0,
            heartbeat_interval_ms: 0,
            acceptable_recovery_lag_legacy: 0,
            task_offset_interval_ms: 0,
            acceptable_recovery_lag: -1,
            status: Some(Vec::new()),
            active_tasks: None,
            standby_tasks: None,
            warmup_tasks: None,
            topology_description_required: false,
            endpoint_information_epoch: 0,
            partitions_by_user_endpoint: None,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl Message for StreamsGroupHeartbeatResponse {
    const NAME: &'static str = "StreamsGroupHeartbeatResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=1;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        message.throttle_time_ms = reader.i32()?;
        message.error_code = reader.i16()?;
        message.error_message = reader.nullable_string(true)?;
        message.member_id = reader.string(true)?;
        message.member_epoch = reader.i32()?;
        message.heartbeat_interval_ms = reader.i32()?;
        if version == 0 {
            message.acceptable_recovery_lag_legacy = reader.i32()?;
        }
        message.task_offset_interval_ms = reader.i32()?;
        if version >= 1 {
            message.acceptable_recovery_lag = reader.i64()?;
        }
        message.status = reader.nullable_array(true, 3, |reader| Status::decode(reader, version))?;
        message.active_tasks = reader.nullable_array(true, 3, |reader| TaskIds::decode(reader, version))?;
        message.standby_tasks = reader.nullable_array(true, 3, |reader| TaskIds::decode(reader, version))?;
        message.warmup_tasks = reader.nullable_array(true, 3, |reader| TaskIds::decode(reader, version))?;
        if version >= 1 {
            message.topology_description_required = reader.bool()?;
        }
        message.endpoint_information_epoch = reader.i32()?;
        message.partitions_by_user_endpoint =
            reader.nullable_array(true, 7, |reader| EndpointToPartitions::decode(reader, version))?;
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
        wire::put_string(writer, &self.member_id, true)?;
        writer.put_i32(self.member_epoch);
        writer.put_i32(self.heartbeat_interval_ms);
        if version == 0 {
            writer.put_i32(self.acceptable_recovery_lag_legacy);
        } else if self.acceptable_recovery_lag_legacy != 0 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "StreamsGroupHeartbeatResponse",
                field: "acceptable_recovery_lag_legacy",
                version,
            });
        }
        writer.put_i32(self.task_offset_interval_ms);
        if version >= 1 {
            writer.put_i64(self.acceptable_recovery_lag);
        }
        wire::put_nullable_array(writer, self.status.as_deref(), true, |writer, it| it.write(writer, version))?;
        wire::put_nullable_array(writer, self.active_tasks.as_deref(), true, |writer, it| it.write(writer, version))?;
        wire::put_nullable_array(writer, self.standby_tasks.as_deref(), true, |writer, it| it.write(writer, version))?;
        wire::put_nullable_array(writer, self.warmup_tasks.as_deref(), true, |writer, it| it.write(writer, version))?;
        if version >= 1 {
            wire::put_bool(writer, self.topology_description_required);
        } else if self.topology_description_required {
            return Err(EncodeError::FieldNotInVersion {
                owner: "StreamsGroupHeartbeatResponse",
                field: "topology_description_required",
                version,
            });
        }
        writer.put_i32(self.endpoint_information_epoch);
        wire::put_nullable_array(writer, self.partitions_by_user_endpoint.as_deref(), true, |writer, it| {
            it.write(writer, version)
        })?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        each(self.error_code);
    }
}

/// A part of [`StreamsGroupHeartbeatResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// `int8`.
    pub status_code: i8,
    /// `string`.
    pub status_detail: String,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Status {
    fn decode(reader: &mut Reader, _version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.status_code = reader.i8()?;
        message.status_detail = reader.string(true)?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, _version: i16) -> Result<(), EncodeError> {
        writer.put_i8(self.status_code);
        wire::put_string(writer, &self.status_detail, true)?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`StreamsGroupHeartbeatResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndpointToPartitions {
    /// `Endpoint`.
    pub user_endpoint: Endpoint,
    /// `[]TopicPartition`.
    pub active_partitions: Vec<TopicPartition>,
    /// `[]TopicPartition`.
    pub standby_partitions: Vec<TopicPartition>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl EndpointToPartitions {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.user_endpoint = Endpoint::decode(reader, version)?;
        message.active_partitions = reader.array(true, 3, |reader| TopicPartition::decode(reader, version))?;
        message.standby_partitions = reader.array(true, 3, |reader| TopicPartition::decode(reader, version))?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        self.user_endpoint.write(writer, version)?;
        wire::put_array(writer, &self.active_partitions, true, |writer, it| it.write(writer, version))?;
        wire::put_array(writer, &self.standby_partitions, true, |writer, it| it.write(writer, version))?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`StreamsGroupHeartbeatResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Endpoint {
    /// `string`.
    pub host: String,
    /// `uint16`.
    pub port: u16,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Endpoint {
    fn decode(reader: &mut Reader, _version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.host = reader.string(true)?;
        message.port = reader.u16()?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, _version: i16) -> Result<(), EncodeError> {
        wire::put_string(writer, &self.host, true)?;
        writer.put_u16(self.port);
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`StreamsGroupHeartbeatResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicPartition {
    /// `string`.
    pub topic: String,
    /// `[]int32`.
    pub partitions: Vec<i32>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl TopicPartition {
    fn decode(reader: &mut Reader, _version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.topic = reader.string(true)?;
        message.partitions = reader.array(true, 4, Reader::i32)?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, _version: i16) -> Result<(), EncodeError> {
        wire::put_string(writer, &self.topic, true)?;
        wire::put_array(writer, &self.partitions, true, |writer, it| {
            writer.put_i32(*it);
            Ok(())
        })?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`StreamsGroupHeartbeatResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskIds {
    /// `string`.
    pub subtopology_id: String,
    /// `[]int32`.
    pub partitions: Vec<i32>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl TaskIds {
    fn decode(reader: &mut Reader, _version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.subtopology_id = reader.string(true)?;
        message.partitions = reader.array(true, 4, Reader::i32)?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, _version: i16) -> Result<(), EncodeError> {
        wire::put_string(writer, &self.subtopology_id, true)?;
        wire::put_array(writer, &self.partitions, true, |writer, it| {
            writer.put_i32(*it);
            Ok(())
        })?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}
