//! `ElectLeadersRequest`: request, versions 0-2, flexible from 2.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-2, flexible from 2.
#[derive(Clone, Debug, PartialEq)]
pub struct ElectLeadersRequest {
    /// `int8`, in versions from 1.
    pub election_type: i8,
    /// `[]TopicPartitions`, may be null.
    pub topic_partitions: Option<Vec<TopicPartitions>>,
    /// `int32`, 60000 if not set.
    pub timeout_ms: i32,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for ElectLeadersRequest {
    fn default() -> Self {
        Self {
            election_type: 0,
            topic_partitions: Some(Vec::new()),
            timeout_ms: 60000,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl Message for ElectLeadersRequest {
    const NAME: &'static str = "ElectLeadersRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=2;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 2;
        let mut message = Self::default();
        if version >= 1 {
            message.election_type = reader.i8()?;
        }
        message.topic_partitions =
            reader.nullable_array(flexible, 3, |reader| TopicPartitions::decode(reader, version))?;
        message.timeout_ms = reader.i32()?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 2;
        if version >= 1 {
            writer.put_i8(self.election_type);
        } else if self.election_type != 0 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "ElectLeadersRequest",
                field: "election_type",
                version,
            });
        }
        wire::put_nullable_array(writer, self.topic_partitions.as_deref(), flexible, |writer, it| {
            it.write(writer, version)
        })?;
        writer.put_i32(self.timeout_ms);
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "ElectLeadersRequest",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`ElectLeadersRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicPartitions {
    /// `string`.
    pub topic: String,
    /// `[]int32`.
    pub partitions: Vec<i32>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl TopicPartitions {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 2;
        let mut message = Self::default();
        message.topic = reader.string(flexible)?;
        message.partitions = reader.array(flexible, 4, Reader::i32)?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 2;
        wire::put_string(writer, &self.topic, flexible)?;
        wire::put_array(writer, &self.partitions, flexible, |writer, it| {
            writer.put_i32(*it);
            Ok(())
        })?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "TopicPartitions",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
