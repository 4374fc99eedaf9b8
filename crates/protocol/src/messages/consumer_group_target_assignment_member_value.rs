//! `ConsumerGroupTargetAssignmentMemberValue`: embedded message, versions 0, all flexible.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use atonce_kernel::Uuid;
use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0, all flexible.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerGroupTargetAssignmentMemberValue {
    /// `[]TopicPartition`.
    pub topic_partitions: Vec<TopicPartition>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for ConsumerGroupTargetAssignmentMemberValue {
    const NAME: &'static str = "ConsumerGroupTargetAssignmentMemberValue";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=0;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        message.topic_partitions = reader.array(true, 18, |reader| TopicPartition::decode(reader, version))?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        wire::put_array(writer, &self.topic_partitions, true, |writer, it| it.write(writer, version))?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`ConsumerGroupTargetAssignmentMemberValue`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicPartition {
    /// `uuid`.
    pub topic_id: Uuid,
    /// `[]int32`.
    pub partitions: Vec<i32>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl TopicPartition {
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
