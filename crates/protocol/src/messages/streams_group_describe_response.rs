//! `StreamsGroupDescribeResponse`: response, versions 0-1, all flexible.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-1, all flexible.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamsGroupDescribeResponse {
    /// `int32`.
    pub throttle_time_ms: i32,
    /// `[]DescribedGroup`.
    pub groups: Vec<DescribedGroup>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for StreamsGroupDescribeResponse {
    const NAME: &'static str = "StreamsGroupDescribeResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=1;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        message.throttle_time_ms = reader.i32()?;
        message.groups = reader.array(true, 20, |reader| DescribedGroup::decode(reader, version))?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        writer.put_i32(self.throttle_time_ms);
        wire::put_array(writer, &self.groups, true, |writer, it| it.write(writer, version))?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        for it in &self.groups {
            it.error_codes(each);
        }
    }
}

/// A part of [`StreamsGroupDescribeResponse`].
#[derive(Clone, Debug, PartialEq)]
pub struct DescribedGroup {
    /// `int16`.
    pub error_code: i16,
    /// `string`, may be null.
    pub error_message: Option<String>,
    /// `string`.
    pub group_id: String,
    /// `string`.
    pub group_state: String,
    /// `int32`.
    pub group_epoch: i32,
    /// `int32`.
    pub assignment_epoch: i32,
    /// `Topology`, may be null.
    pub topology: Option<Topology>,
    /// `[]Member`.
    pub members: Vec<Member>,
    /// `int32`, -2147483648 if not set.
    pub authorized_operations: i32,
    /// `TopologyDescription`, in version 1, may be null.
    pub topology_description: Option<TopologyDescription>,
    /// `int8`, in version 1.
    pub topology_description_status: i8,
    /// `string`, in version 1, may be null, dropped in others.
    pub assignor_name: Option<String>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for DescribedGroup {
    fn default() -> Self {
        Self {
            error_code: 0,
            error_message: None,
            group_id: String::new(),
            group_state: String::new(),
            group_epoch: 0,
            assignment_epoch: 0,
            topology: None,
            members: Vec::new(),
            authorized_operations: i32::MIN,
            topology_description: None,
            topology_description_status: 0,
            assignor_name: None,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl DescribedGroup {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.error_code = reader.i16()?;
        message.error_message = reader.nullable_string(true)?;
        message.group_id = reader.string(true)?;
        message.group_state = reader.string(true)?;
        message.group_epoch = reader.i32()?;
        message.assignment_epoch = reader.i32()?;
        message.topology = if reader.is_present()? { Some(Topology::decode(reader, version)?) } else { None };
        message.members = reader.array(true, 28, |reader| Member::decode(reader, version))?;
        message.authorized_operations = reader.i32()?;
        if version >= 1 {
            message.topology_description =
                if reader.is_present()? { Some(TopologyDescription::decode(reader, version)?) } else { None };
        }
        if version >= 1 {
            message.topology_description_status = reader.i8()?;
        }
        if version >= 1 {
            message.assignor_name = reader.nullable_string(true)?;
        }
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        writer.put_i16(self.error_code);
        wire::put_nullable_string(writer, self.error_message.as_deref(), true)?;
        wire::put_string(writer, &self.group_id, true)?;
        wire::put_string(writer, &self.group_state, true)?;
        writer.put_i32(self.group_epoch);
        writer.put_i32(self.assignment_epoch);
        match &self.topology {
            Some(value) => {
                writer.put_i8(1);
                value.write(writer, version)?;
            }
            None => writer.put_i8(-1),
        }
        wire::put_array(writer, &self.members, true, |writer, it| it.write(writer, version))?;
        writer.put_i32(self.authorized_operations);
        if version >= 1 {
            match &self.topology_description {
                Some(value) => {
                    writer.put_i8(1);
                    value.write(writer, version)?;
                }
                None => writer.put_i8(-1),
            }
        } else if self.topology_description.is_some() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DescribedGroup",
                field: "topology_description",
                version,
            });
        }
        if version >= 1 {
            writer.put_i8(self.topology_description_status);
        } else if self.topology_description_status != 0 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DescribedGroup",
                field: "topology_description_status",
                version,
            });
        }
        if version >= 1 {
            wire::put_nullable_string(writer, self.assignor_name.as_deref(), true)?;
        }
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        each(self.error_code);
    }
}

/// A part of [`StreamsGroupDescribeResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Topology {
    /// `int32`.
    pub epoch: i32,
    /// `[]Subtopology`, may be null.
    pub subtopologies: Option<Vec<Subtopology>>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Topology {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.epoch = reader.i32()?;
        message.subtopologies = reader.nullable_array(true, 6, |reader| Subtopology::decode(reader, version))?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        writer.put_i32(self.epoch);
        wire::put_nullable_array(writer, self.subtopologies.as_deref(), true, |writer, it| it.write(writer, version))?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`StreamsGroupDescribeResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Subtopology {
    /// `string`.
    pub subtopology_id: String,
    /// `[]string`.
    pub source_topics: Vec<String>,
    /// `[]string`.
    pub repartition_sink_topics: Vec<String>,
    /// `[]TopicInfo`.
    pub state_changelog_topics: Vec<TopicInfo>,
    /// `[]TopicInfo`.
    pub repartition_source_topics: Vec<TopicInfo>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Subtopology {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.subtopology_id = reader.string(true)?;
        message.source_topics = reader.array(true, 1, |reader| reader.string(true))?;
        message.repartition_sink_topics = reader.array(true, 1, |reader| reader.string(true))?;
        message.state_changelog_topics = reader.array(true, 9, |reader| TopicInfo::decode(reader, version))?;
        message.repartition_source_topics = reader.array(true, 9, |reader| TopicInfo::decode(reader, version))?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        wire::put_string(writer, &self.subtopology_id, true)?;
        wire::put_array(writer, &self.source_topics, true, |writer, it| wire::put_string(writer, it, true))?;
        wire::put_array(writer, &self.repartition_sink_topics, true, |writer, it| wire::put_string(writer, it, true))?;
        wire::put_array(writer, &self.state_changelog_topics, true, |writer, it| it.write(writer, version))?;
        wire::put_array(writer, &self.repartition_source_topics, true, |writer, it| it.write(writer, version))?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`StreamsGroupDescribeResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Member {
    /// `string`.
    pub member_id: String,
    /// `int32`.
    pub member_epoch: i32,
    /// `string`, may be null.
    pub instance_id: Option<String>,
    /// `string`, may be null.
    pub rack_id: Option<String>,
    /// `string`.
    pub client_id: String,
    /// `string`.
    pub client_host: String,
    /// `int32`.
    pub topology_epoch: i32,
    /// `string`.
    pub process_id: String,
    /// `Endpoint`, may be null.
    pub user_endpoint: Option<Endpoint>,
    /// `[]KeyValue`.
    pub client_tags: Vec<KeyValue>,
    /// `[]TaskOffset`.
    pub task_offsets: Vec<TaskOffset>,
    /// `[]TaskOffset`.
    pub task_end_offsets: Vec<TaskOffset>,
    /// `Assignment`.
    pub assignment: Assignment,
    /// `Assignment`.
    pub target_assignment: Assignment,
    /// `bool`.
    pub is_classic: bool,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Member {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.member_id = reader.string(true)?;
        message.member_epoch = reader.i32()?;
        message.instance_id = reader.nullable_string(true)?;
        message.rack_id = reader.nullable_string(true)?;
        message.client_id = reader.string(true)?;
        message.client_host = reader.string(true)?;
        message.topology_epoch = reader.i32()?;
        message.process_id = reader.string(true)?;
        message.user_endpoint = if reader.is_present()? { Some(Endpoint::decode(reader, version)?) } else { None };
        message.client_tags = reader.array(true, 3, |reader| KeyValue::decode(reader, version))?;
        message.task_offsets = reader.array(true, 14, |reader| TaskOffset::decode(reader, version))?;
        message.task_end_offsets = reader.array(true, 14, |reader| TaskOffset::decode(reader, version))?;
        message.assignment = Assignment::decode(reader, version)?;
        message.target_assignment = Assignment::decode(reader, version)?;
        message.is_classic = reader.bool()?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        wire::put_string(writer, &self.member_id, true)?;
        writer.put_i32(self.member_epoch);
        wire::put_nullable_string(writer, self.instance_id.as_deref(), true)?;
        wire::put_nullable_string(writer, self.rack_id.as_deref(), true)?;
        wire::put_string(writer, &self.client_id, true)?;
        wire::put_string(writer, &self.client_host, true)?;
        writer.put_i32(self.topology_epoch);
        wire::put_string(writer, &self.process_id, true)?;
        match &self.user_endpoint {
            Some(value) => {
                writer.put_i8(1);
                value.write(writer, version)?;
            }
            None => writer.put_i8(-1),
        }
        wire::put_array(writer, &self.client_tags, true, |writer, it| it.write(writer, version))?;
        wire::put_array(writer, &self.task_offsets, true, |writer, it| it.write(writer, version))?;
        wire::put_array(writer, &self.task_end_offsets, true, |writer, it| it.write(writer, version))?;
        self.assignment.write(writer, version)?;
        self.target_assignment.write(writer, version)?;
        wire::put_bool(writer, self.is_classic);
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`StreamsGroupDescribeResponse`].
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

/// A part of [`StreamsGroupDescribeResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopologyDescription {
    /// `[]TopologyDescriptionSubtopology`, in version 1.
    pub subtopologies: Vec<TopologyDescriptionSubtopology>,
    /// `[]TopologyDescriptionGlobalStore`, in version 1.
    pub global_stores: Vec<TopologyDescriptionGlobalStore>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl TopologyDescription {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        if version >= 1 {
            message.subtopologies =
                reader.array(true, 1, |reader| TopologyDescriptionSubtopology::decode(reader, version))?;
        }
        if version >= 1 {
            message.global_stores =
                reader.array(true, 1, |reader| TopologyDescriptionGlobalStore::decode(reader, version))?;
        }
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if version >= 1 {
            wire::put_array(writer, &self.subtopologies, true, |writer, it| it.write(writer, version))?;
        } else if !self.subtopologies.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "TopologyDescription",
                field: "subtopologies",
                version,
            });
        }
        if version >= 1 {
            wire::put_array(writer, &self.global_stores, true, |writer, it| it.write(writer, version))?;
        } else if !self.global_stores.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "TopologyDescription",
                field: "global_stores",
                version,
            });
        }
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`StreamsGroupDescribeResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopologyDescriptionSubtopology {
    /// `string`, in version 1.
    pub subtopology_id: String,
    /// `[]TopologyDescriptionNode`, in version 1.
    pub nodes: Vec<TopologyDescriptionNode>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl TopologyDescriptionSubtopology {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        if version >= 1 {
            message.subtopology_id = reader.string(true)?;
        }
        if version >= 1 {
            message.nodes = reader.array(true, 1, |reader| TopologyDescriptionNode::decode(reader, version))?;
        }
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if version >= 1 {
            wire::put_string(writer, &self.subtopology_id, true)?;
        } else if !self.subtopology_id.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "TopologyDescriptionSubtopology",
                field: "subtopology_id",
                version,
            });
        }
        if version >= 1 {
            wire::put_array(writer, &self.nodes, true, |writer, it| it.write(writer, version))?;
        } else if !self.nodes.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "TopologyDescriptionSubtopology",
                field: "nodes",
                version,
            });
        }
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`StreamsGroupDescribeResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopologyDescriptionGlobalStore {
    /// `TopologyDescriptionNode`, in version 1.
    pub source: TopologyDescriptionNode,
    /// `TopologyDescriptionNode`, in version 1.
    pub processor: TopologyDescriptionNode,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl TopologyDescriptionGlobalStore {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        if version >= 1 {
            message.source = TopologyDescriptionNode::decode(reader, version)?;
        }
        if version >= 1 {
            message.processor = TopologyDescriptionNode::decode(reader, version)?;
        }
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if version >= 1 {
            self.source.write(writer, version)?;
        } else if self.source != TopologyDescriptionNode::default() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "TopologyDescriptionGlobalStore",
                field: "source",
                version,
            });
        }
        if version >= 1 {
            self.processor.write(writer, version)?;
        } else if self.processor != TopologyDescriptionNode::default() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "TopologyDescriptionGlobalStore",
                field: "processor",
                version,
            });
        }
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`StreamsGroupDescribeResponse`].
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

/// A part of [`StreamsGroupDescribeResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assignment {
    /// `[]TaskIds`.
    pub active_tasks: Vec<TaskIds>,
    /// `[]TaskIds`.
    pub standby_tasks: Vec<TaskIds>,
    /// `[]TaskIds`.
    pub warmup_tasks: Vec<TaskIds>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Assignment {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.active_tasks = reader.array(true, 3, |reader| TaskIds::decode(reader, version))?;
        message.standby_tasks = reader.array(true, 3, |reader| TaskIds::decode(reader, version))?;
        message.warmup_tasks = reader.array(true, 3, |reader| TaskIds::decode(reader, version))?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        wire::put_array(writer, &self.active_tasks, true, |writer, it| it.write(writer, version))?;
        wire::put_array(writer, &self.standby_tasks, true, |writer, it| it.write(writer, version))?;
        wire::put_array(writer, &self.warmup_tasks, true, |writer, it| it.write(writer, version))?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`StreamsGroupDescribeResponse`].
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

/// A part of [`StreamsGroupDescribeResponse`].
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

/// A part of [`StreamsGroupDescribeResponse`].
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

/// A part of [`StreamsGroupDescribeResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopologyDescriptionNode {
    /// `string`, in version 1.
    pub name: String,
    /// `int8`, in version 1.
    pub node_type: i8,
    /// `[]string`, in version 1.
    pub source_topics: Vec<String>,
    /// `string`, in version 1, may be null.
    pub sink_topic: Option<String>,
    /// `[]string`, in version 1.
    pub stores: Vec<String>,
    /// `[]string`, in version 1.
    pub successors: Vec<String>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl TopologyDescriptionNode {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        if version >= 1 {
            message.name = reader.string(true)?;
        }
        if version >= 1 {
            message.node_type = reader.i8()?;
        }
        if version >= 1 {
            message.source_topics = reader.array(true, 1, |reader| reader.string(true))?;
        }
        if version >= 1 {
            message.sink_topic = reader.nullable_string(true)?;
        }
        if version >= 1 {
            message.stores = reader.array(true, 1, |reader| reader.string(true))?;
        }
        if version >= 1 {
            message.successors = reader.array(true, 1, |reader| reader.string(true))?;
        }
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if version >= 1 {
            wire::put_string(writer, &self.name, true)?;
        } else if !self.name.is_empty() {
            return Err(EncodeError::FieldNotInVersion { owner: "TopologyDescriptionNode", field: "name", version });
        }
        if version >= 1 {
            writer.put_i8(self.node_type);
        } else if self.node_type != 0 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "TopologyDescriptionNode",
                field: "node_type",
                version,
            });
        }
        if version >= 1 {
            wire::put_array(writer, &self.source_topics, true, |writer, it| wire::put_string(writer, it, true))?;
        } else if !self.source_topics.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "TopologyDescriptionNode",
                field: "source_topics",
                version,
            });
        }
        if version >= 1 {
            wire::put_nullable_string(writer, self.sink_topic.as_deref(), true)?;
        } else if self.sink_topic.is_some() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "TopologyDescriptionNode",
                field: "sink_topic",
                version,
            });
        }
        if version >= 1 {
            wire::put_array(writer, &self.stores, true, |writer, it| wire::put_string(writer, it, true))?;
        } else if !self.stores.is_empty() {
            return Err(EncodeError::FieldNotInVersion { owner: "TopologyDescriptionNode", field: "stores", version });
        }
        if version >= 1 {
            wire::put_array(writer, &self.successors, true, |writer, it| wire::put_string(writer, it, true))?;
        } else if !self.successors.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "TopologyDescriptionNode",
                field: "successors",
                version,
            });
        }
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}
