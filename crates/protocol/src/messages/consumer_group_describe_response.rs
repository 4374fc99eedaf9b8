//! `ConsumerGroupDescribeResponse`: response, versions 0-1, all flexible.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use atonce_kernel::Uuid;
use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-1, all flexible.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerGroupDescribeResponse {
    /// `int32`.
    pub throttle_time_ms: i32,
    /// `[]DescribedGroup`.
    pub groups: Vec<DescribedGroup>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for ConsumerGroupDescribeResponse {
    const NAME: &'static str = "ConsumerGroupDescribeResponse";
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

/// A part of [`ConsumerGroupDescribeResponse`].
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
    /// `string`.
    pub assignor_name: String,
    /// `[]Member`.
    pub members: Vec<Member>,
    /// `int32`, -2147483648 if not set.
    pub authorized_operations: i32,
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
            assignor_name: String::new(),
            members: Vec::new(),
            authorized_operations: i32::MIN,
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
        message.assignor_name = reader.string(true)?;
        message.members = reader.array(true, 16, |reader| Member::decode(reader, version))?;
        message.authorized_operations = reader.i32()?;
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
        wire::put_string(writer, &self.assignor_name, true)?;
        wire::put_array(writer, &self.members, true, |writer, it| it.write(writer, version))?;
        writer.put_i32(self.authorized_operations);
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        each(self.error_code);
    }
}

/// A part of [`ConsumerGroupDescribeResponse`].
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// `string`.
    pub member_id: String,
    /// `string`, may be null.
    pub instance_id: Option<String>,
    /// `string`, may be null.
    pub rack_id: Option<String>,
    /// `int32`.
    pub member_epoch: i32,
    /// `string`.
    pub client_id: String,
    /// `string`.
    pub client_host: String,
    /// `[]string`.
    pub subscribed_topic_names: Vec<String>,
    /// `string`, may be null.
    pub subscribed_topic_regex: Option<String>,
    /// `Assignment`.
    pub assignment: Assignment,
    /// `Assignment`.
    pub target_assignment: Assignment,
    /// `int8`, in version 1, -1 if not set, dropped in others.
    pub member_type: i8,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for Member {
    fn default() -> Self {
        Self {
            member_id: String::new(),
            instance_id: None,
            rack_id: None,
            member_epoch: 0,
            client_id: String::new(),
            client_host: String::new(),
            subscribed_topic_names: Vec::new(),
            subscribed_topic_regex: None,
            assignment: Assignment::default(),
            target_assignment: Assignment::default(),
            member_type: -1,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl Member {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.member_id = reader.string(true)?;
        message.instance_id = reader.nullable_string(true)?;
        message.rack_id = reader.nullable_string(true)?;
        message.member_epoch = reader.i32()?;
        message.client_id = reader.string(true)?;
        message.client_host = reader.string(true)?;
        message.subscribed_topic_names = reader.array(true, 1, |reader| reader.string(true))?;
        message.subscribed_topic_regex = reader.nullable_string(true)?;
        message.assignment = Assignment::decode(reader, version)?;
        message.target_assignment = Assignment::decode(reader, version)?;
        if version >= 1 {
            message.member_type = reader.i8()?;
        }
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        wire::put_string(writer, &self.member_id, true)?;
        wire::put_nullable_string(writer, self.instance_id.as_deref(), true)?;
        wire::put_nullable_string(writer, self.rack_id.as_deref(), true)?;
        writer.put_i32(self.member_epoch);
        wire::put_string(writer, &self.client_id, true)?;
        wire::put_string(writer, &self.client_host, true)?;
        wire::put_array(writer, &self.subscribed_topic_names, true, |writer, it| wire::put_string(writer, it, true))?;
        wire::put_nullable_string(writer, self.subscribed_topic_regex.as_deref(), true)?;
        self.assignment.write(writer, version)?;
        self.target_assignment.write(writer, version)?;
        if version >= 1 {
            writer.put_i8(self.member_type);
        }
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`ConsumerGroupDescribeResponse`].
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
        message.topic_partitions = reader.array(true, 19, |reader| TopicPartitions::decode(reader, version))?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        wire::put_array(writer, &self.topic_partitions, true, |writer, it| it.write(writer, version))?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`ConsumerGroupDescribeResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicPartitions {
    /// `uuid`.
    pub topic_id: Uuid,
    /// `string`.
    pub topic_name: String,
    /// `[]int32`.
    pub partitions: Vec<i32>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl TopicPartitions {
    fn decode(reader: &mut Reader, _version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.topic_id = reader.uuid()?;
        message.topic_name = reader.string(true)?;
        message.partitions = reader.array(true, 4, Reader::i32)?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, _version: i16) -> Result<(), EncodeError> {
        writer.put_slice(&self.topic_id.0);
        wire::put_string(writer, &self.topic_name, true)?;
        wire::put_array(writer, &self.partitions, true, |writer, it| {
            writer.put_i32(*it);
            Ok(())
        })?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}
