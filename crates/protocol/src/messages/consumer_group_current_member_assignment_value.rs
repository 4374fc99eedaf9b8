//! `ConsumerGroupCurrentMemberAssignmentValue`: embedded message, versions 0, all flexible.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use atonce_kernel::Uuid;
use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0, all flexible.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerGroupCurrentMemberAssignmentValue {
    /// `int32`.
    pub member_epoch: i32,
    /// `int32`.
    pub previous_member_epoch: i32,
    /// `int8`.
    pub state: i8,
    /// `[]TopicPartitions`.
    pub assigned_partitions: Vec<TopicPartitions>,
    /// `[]TopicPartitions`.
    pub partitions_pending_revocation: Vec<TopicPartitions>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for ConsumerGroupCurrentMemberAssignmentValue {
    const NAME: &'static str = "ConsumerGroupCurrentMemberAssignmentValue";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=0;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        message.member_epoch = reader.i32()?;
        message.previous_member_epoch = reader.i32()?;
        message.state = reader.i8()?;
        message.assigned_partitions = reader.array(true, 18, |reader| TopicPartitions::decode(reader, version))?;
        message.partitions_pending_revocation =
            reader.array(true, 18, |reader| TopicPartitions::decode(reader, version))?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        writer.put_i32(self.member_epoch);
        writer.put_i32(self.previous_member_epoch);
        writer.put_i8(self.state);
        wire::put_array(writer, &self.assigned_partitions, true, |writer, it| it.write(writer, version))?;
        wire::put_array(writer, &self.partitions_pending_revocation, true, |writer, it| it.write(writer, version))?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`ConsumerGroupCurrentMemberAssignmentValue`].
#[derive(Clone, Debug, PartialEq)]
pub struct TopicPartitions {
    /// `uuid`.
    pub topic_id: Uuid,
    /// `[]int32`.
    pub partitions: Vec<i32>,
    /// `[]int32`, tag 0, may be null.
    pub assignment_epochs: Option<Vec<i32>>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for TopicPartitions {
    fn default() -> Self {
        Self {
            topic_id: Uuid::ZERO,
            partitions: Vec::new(),
            assignment_epochs: Some(Vec::new()),
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl TopicPartitions {
    fn decode(reader: &mut Reader, _version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.topic_id = reader.uuid()?;
        message.partitions = reader.array(true, 4, Reader::i32)?;
        let mut unknown = Vec::new();
        reader.tagged_fields(&mut unknown, |tag, reader| {
            match tag {
                0 => message.assignment_epochs = reader.nullable_array(true, 4, Reader::i32)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        message.unknown_tagged_fields = unknown;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, _version: i16) -> Result<(), EncodeError> {
        writer.put_slice(&self.topic_id.0);
        wire::put_array(writer, &self.partitions, true, |writer, it| {
            writer.put_i32(*it);
            Ok(())
        })?;
        let mut tagged = TaggedFields::default();
        if self.assignment_epochs.as_ref().is_none_or(|it| !it.is_empty()) {
            tagged.add(0, |writer| {
                wire::put_nullable_array(writer, self.assignment_epochs.as_deref(), true, |writer, it| {
                    writer.put_i32(*it);
                    Ok(())
                })?;
                Ok(())
            })?;
        }
        tagged.write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}
