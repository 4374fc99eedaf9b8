//! `DeleteTopicsRequest`: request, versions 1-6, flexible from 4.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use atonce_kernel::Uuid;
use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 1-6, flexible from 4.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteTopicsRequest {
    /// `[]DeleteTopicState`, in version 6.
    pub topics: Vec<DeleteTopicState>,
    /// `[]string`, in versions 1 to 5, dropped in others.
    pub topic_names: Vec<String>,
    /// `int32`.
    pub timeout_ms: i32,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for DeleteTopicsRequest {
    const NAME: &'static str = "DeleteTopicsRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 1..=6;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 4;
        let mut message = Self::default();
        if version >= 6 {
            message.topics = reader.array(flexible, 1, |reader| DeleteTopicState::decode(reader, version))?;
        }
        if version <= 5 {
            message.topic_names = reader.array(flexible, 1, |reader| reader.string(flexible))?;
        }
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
        let flexible = version >= 4;
        if version >= 6 {
            wire::put_array(writer, &self.topics, flexible, |writer, it| it.write(writer, version))?;
        } else if !self.topics.is_empty() {
            return Err(EncodeError::FieldNotInVersion { owner: "DeleteTopicsRequest", field: "topics", version });
        }
        if version <= 5 {
            wire::put_array(writer, &self.topic_names, flexible, |writer, it| wire::put_string(writer, it, flexible))?;
        }
        writer.put_i32(self.timeout_ms);
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DeleteTopicsRequest",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`DeleteTopicsRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteTopicState {
    /// `string`, in version 6, may be null.
    pub name: Option<String>,
    /// `uuid`, in version 6.
    pub topic_id: Uuid,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl DeleteTopicState {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 4;
        let mut message = Self::default();
        if version >= 6 {
            message.name = reader.nullable_string(flexible)?;
        }
        if version >= 6 {
            message.topic_id = reader.uuid()?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 4;
        if version >= 6 {
            wire::put_nullable_string(writer, self.name.as_deref(), flexible)?;
        } else if self.name.is_some() {
            return Err(EncodeError::FieldNotInVersion { owner: "DeleteTopicState", field: "name", version });
        }
        if version >= 6 {
            writer.put_slice(&self.topic_id.0);
        } else if !self.topic_id.is_zero() {
            return Err(EncodeError::FieldNotInVersion { owner: "DeleteTopicState", field: "topic_id", version });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DeleteTopicState",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
