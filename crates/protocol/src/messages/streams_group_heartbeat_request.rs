//! `StreamsGroupHeartbeatRequest`: request, versions 0-1, all flexible.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-1, all flexible.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamsGroupHeartbeatRequest {
    /// `string`.
    pub group_id: String,
    /// `string`.
    pub member_id: String,
    /// `int32`.
    pub member_epoch: i32,
    /// `int32`.
    pub endpoint_information_epoch: i32,
    /// `string`, may be null.
    pub instance_id: Option<String>,
    /// `string`, may be null.
    pub rack_id: Option<String>,
    /// `int32`, -1 if not set.
    pub rebalance_timeout_ms: i32,
    /// `Topology`, may be null.
    pub topology: Option<Topology>,
    /// `[]TaskIds`, may be null.
    pub active_tasks: Option<Vec<TaskIds>>,
    /// `[]TaskIds`, may be null.
    pub standby_tasks: Option<Vec<TaskIds>>,
    /// `[]TaskIds`, may be null.
    pub warmup_tasks: Option<Vec<TaskIds>>,
    /// `string`, may be null.
    pub process_id: Option<String>,
    /// `Endpoint`, may be null.
    pub user_endpoint: Option<Endpoint>,
    /// `[]KeyValue`, may be null.
    pub client_tags: Option<Vec<KeyValue>>,
    /// `[]TaskOffset`, may be null.
    pub task_offsets: Option<Vec<TaskOffset>>,
    /// `[]TaskOffset`, may be null.
    pub task_end_offsets: Option<Vec<TaskOffset>>,
    /// `bool`.
    pub shutdown_application: bool,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for StreamsGroupHeartbeatRequest {
    fn default() -> Self {
        Self {
            group_id: String::new(),
            member_id: String::new(),
            member_epoch: 0,
            endpoint_information_epoch: 0,
            instance_id: None,
            rack_id: None,
            rebalance_timeout_ms: -1,
            topology: None,
            active_tasks: None,
            standby_tasks: None,
            warmup_tasks: None,
            process_id: None,
            user_endpoint: None,
            client_tags: None,
            task_offsets: None,
            task_end_offsets: None,
            shutdown_application: false,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl Message for StreamsGroupHeartbeatRequest {
    const NAME: &'static str = "StreamsGroupHeartbeatRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=1;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        message.group_id = reader.string(true)?;
        message.member_id = reader.string(true)?;
        message.member_epoch = reader.i32()?;
        message.endpoint_information_epoch = reader.i32()?;
        message.instance_id = reader.nullable_string(true)?;
        message.rack_id = reader.nullable_string(true)?;
        message.rebalance_timeout_ms = reader.i32()?;
        message.topology = if reader.is_present()? { Some(Topology::decode(reader, version)?) } else { None };
        message.active_tasks = reader.nullable_array(true, 3, |reader| TaskIds::decode(reader, version))?;
        message.standby_tasks = reader.nullable_array(true, 3, |reader| TaskIds::decode(reader, version))?;
        message.warmup_tasks = reader.nullable_array(true, 3, |reader| TaskIds::decode(reader, version))?;
        message.process_id = reader.nullable_string(true)?;
        message.user_endpoint = if reader.is_present()? { Some(Endpoint::decode(reader, version)?) } else { None };
        message.client_tags = reader.nullable_array(true, 3, |reader| KeyValue::decode(reader, version))?;
        message.task_offsets = reader.nullable_array(true, 14, |reader| TaskOffset::decode(reader, version))?;
        message.task_end_offsets = reader.nullable_array(true, 14, |reader| TaskOffset::decode(reader, version))?;
        message.shutdown_application = reader.bool()?;
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
        writer.put_i32(self.endpoint_information_epoch);
        wire::put_nullable_string(writer, self.instance_id.as_deref(), true)?;
        wire::put_nullable_string(writer, self.rack_id.as_deref(), true)?;
        writer.put_i32(self.rebalance_timeout_ms);
        match &self.topology {
            Some(value) => {
                writer.put_i8(1);
                value.write(writer, version)?;
            }
            None => writer.put_i8(-1),
        }
        wire::put_nullable_array(writer, self.active_tasks.as_deref(), true, |writer, it| it.write(writer, version))?;
        wire::put_nullable_array(writer, self.standby_tasks.as_deref(), true, |writer, it| it.write(writer, version))?;
        wire::put_nullable_array(writer, self.warmup_tasks.as_deref(), true, |writer, it| it.write(writer, version))?;
        wire::put_nullable_string(writer, self.process_id.as_deref(), true)?;
        match &self.user_endpoint {
            Some(value) => {
                writer.put_i8(1);
                value.write(writer, version)?;
            }
            None => writer.put_i8(-1),
        }
        wire::put_nullable_array(writer, self.client_tags.as_deref(), true, |writer, it| it.write(writer, version))?;
        wire::put_nullable_array(writer, self.task_offsets.as_deref(), true, |writer, it| it.write(writer, version))?;
        wire::put_nullable_array(writer, self.task_end_offsets.as_deref(), true, |writer, it| {
            it.write(writer, version)
        })?;
        wire::put_bool(writer, self.shutdown_application);
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`StreamsGroupHeartbeatRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Topology {
    /// `int32`.
    pub epoch: i32,
    /// `[]Subtopology`.
    pub subtopologies: Vec<Subtopology>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Topology {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.epoch = reader.i32()?;
        message.subtopologies = reader.array(true, 8, |reader| Subtopology::decode(reader, version))?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        writer.put_i32(self.epoch);
        wire::put_array(writer, &self.subtopologies, true, |writer, it| it.write(writer, version))?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`StreamsGroupHeartbeatRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Subtopology {
    /// `string`.
    pub subtopology_id: String,
    /// `[]string`.
    pub source_topics: Vec<String>,
    /// `[]string`.
    pub source_topic_regex: Vec<String>,
    /// `[]TopicInfo`.
    pub state_changelog_topics: Vec<TopicInfo>,
    /// `[]string`.
    pub repartition_sink_topics: Vec<String>,
    /// `[]TopicInfo`.
    pub repartition_source_topics: Vec<TopicInfo>,
    /// `[]CopartitionGroup`.
    pub copartition_groups: Vec<CopartitionGroup>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Subtopology {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.subtopology_id = reader.string(true)?;
        message.source_topics = reader.array(true, 1, |reader| reader.string(true))?;
        message.source_topic_regex = reader.array(true, 1, |reader| reader.string(true))?;
        message.state_changelog_topics = reader.array(true, 9, |reader| TopicInfo::decode(reader, version))?;
        message.repartition_sink_topics = reader.array(true, 1, |reader| reader.string(true))?;
        message.repartition_source_topics = reader.array(true, 9, |reader| TopicInfo::decode(reader, version))?;
        message.copartition_groups = reader.array(true, 4, |reader| CopartitionGroup::decode(reader, version))?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        wire::put_string(writer, &self.subtopology_id, true)?;
        wire::put_array(writer, &self.source_topics, true, |writer, it| wire::put_string(writer, it, true))?;
        wire::put_array(writer, &self.source_topic_regex, true, |writer, it| wire::put_string(writer, it, true))?;
        wire::put_array(writer, &self.state_changelog_topics, true, |writer, it| it.write(writer, version))?;
        wire::put_array(writer, &self.repartition_sink_topics, true, |writer, it| wire::put_string(writer, it, true))?;
        wire::put_array(writer, &self.repartition_source_topics, true, |writer, it| it.write(writer, version))?;
        wire::put_array(writer, &self.copartition_groups, true, |writer, it| it.write(writer, version))?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`StreamsGroupHeartbeatRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CopartitionGroup {
    /// `[]int16`.
    pub source_topics: Vec<i16>,
    /// `[]int16`.
    pub source_topic_regex: Vec<i16>,
    /// `[]int16`.
    pub repartition_source_topics: Vec<i16>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl CopartitionGroup {
    fn decode(reader: &mut Reader, _version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.source_topics = reader.array(true, 2, Reader::i16)?;
        message.source_topic_regex = reader.array(true, 2, Reader::i16)?;
        message.repartition_source_topics = reader.array(true, 2, Reader::i16)?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, _version: i16) -> Result<(), EncodeError> {
        wire::put_array(writer, &self.source_topics, true, |writer, it| {
            writer.put_i16(*it);
            Ok(())
        })?;
        wire::put_array(writer, &self.source_topic_regex, true, |writer, it| {
            writer.put_i16(*it);
            Ok(())
        })?;
        wire::put_array(writer, &self.repartition_source_topics, true, |writer, it| {
            writer.put_i16(*it);
            Ok(())
        })?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`StreamsGroupHeartbeatRequest`].
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

/// A part of [`StreamsGroupHeartbeatRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeyValue {
    /// `string`.
    pub key: String,
    /// `string`.
    pub value: String,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl KeyValue {
    fn decode(reader: &mut Reader, _version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.key = reader.string(true)?;
        message.value = reader.string(true)?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, _version: i16) -> Result<(), EncodeError> {
        wire::put_string(writer, &self.key, true)?;
        wire::put_string(writer, &self.value, true)?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`StreamsGroupHeartbeatRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicInfo {
    /// `string`.
    pub name: String,
    /// `int32`.
    pub partitions: i32,
    /// `int16`.
    pub replication_factor: i16,
    /// `[]KeyValue`.
    pub topic_configs: Vec<KeyValue>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl TopicInfo {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.name = reader.string(true)?;
        message.partitions = reader.i32()?;
        message.replication_factor = reader.i16()?;
        message.topic_configs = reader.array(true, 3, |reader| KeyValue::decode(reader, version))?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        wire::put_string(writer, &self.name, true)?;
        writer.put_i32(self.partitions);
        writer.put_i16(self.replication_factor);
        wire::put_array(writer, &self.topic_configs, true, |writer, it| it.write(writer, version))?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`StreamsGroupHeartbeatRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskOffset {
    /// `string`.
    pub subtopology_id: String,
    /// `int32`.
    pub partition: i32,
    /// `int64`.
    pub offset: i64,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl TaskOffset {
    fn decode(reader: &mut Reader, _version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.subtopology_id = reader.string(true)?;
        message.partition = reader.i32()?;
        message.offset = reader.i64()?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, _version: i16) -> Result<(), EncodeError> {
        wire::put_string(writer, &self.subtopology_id, true)?;
        writer.put_i32(self.partition);
        writer.put_i64(self.offset);
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`StreamsGroupHeartbeatRequest`].
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
