//! `CreatePartitionsRequest`: request, versions 0-3, flexible from 2.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-3, flexible from 2.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CreatePartitionsRequest {
    /// `[]CreatePartitionsTopic`.
    pub topics: Vec<CreatePartitionsTopic>,
    /// `int32`.
    pub timeout_ms: i32,
    /// `bool`.
    pub validate_only: bool,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for CreatePartitionsRequest {
    const NAME: &'static str = "CreatePartitionsRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=3;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 2;
        let mut message = Self::default();
        message.topics = reader.array(flexible, 7, |reader| CreatePartitionsTopic::decode(reader, version))?;
        message.timeout_ms = reader.i32()?;
        message.validate_only = reader.bool()?;
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
        wire::put_array(writer, &self.topics, flexible, |writer, it| it.write(writer, version))?;
        writer.put_i32(self.timeout_ms);
        wire::put_bool(writer, self.validate_only);
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "CreatePartitionsRequest",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`CreatePartitionsRequest`].
#[derive(Clone, Debug, PartialEq)]
pub struct CreatePartitionsTopic {
    /// `string`.
    pub name: String,
    /// `int32`.
    pub count: i32,
    /// `[]CreatePartitionsAssignment`, may be null.
    pub assignments: Option<Vec<CreatePartitionsAssignment>>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for CreatePartitionsTopic {
    fn default() -> Self {
        Self { name: String::new(), count: 0, assignments: Some(Vec::new()), unknown_tagged_fields: Vec::new() }
    }
}

impl CreatePartitionsTopic {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 2;
        let mut message = Self::default();
        message.name = reader.string(flexible)?;
        message.count = reader.i32()?;
        message.assignments =
            reader.nullable_array(flexible, 2, |reader| CreatePartitionsAssignment::decode(reader, version))?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 2;
        wire::put_string(writer, &self.name, flexible)?;
        writer.put_i32(self.count);
        wire::put_nullable_array(writer, self.assignments.as_deref(), flexible, |writer, it| {
            it.write(writer, version)
        })?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "CreatePartitionsTopic",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`CreatePartitionsRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CreatePartitionsAssignment {
    /// `[]int32`.
    pub broker_ids: Vec<i32>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl CreatePartitionsAssignment {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 2;
        let mut message = Self::default();
        message.broker_ids = reader.array(flexible, 4, Reader::i32)?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 2;
        wire::put_array(writer, &self.broker_ids, flexible, |writer, it| {
            writer.put_i32(*it);
            Ok(())
        })?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "CreatePartitionsAssignment",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
