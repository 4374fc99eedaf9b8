//! `DescribeLogDirsRequest`: request, versions 1-5, flexible from 2.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 1-5, flexible from 2.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribeLogDirsRequest {
    /// `[]DescribableLogDirTopic`, may be null.
    pub topics: Option<Vec<DescribableLogDirTopic>>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for DescribeLogDirsRequest {
    fn default() -> Self {
        Self { topics: Some(Vec::new()), unknown_tagged_fields: Vec::new() }
    }
}

impl Message for DescribeLogDirsRequest {
    const NAME: &'static str = "DescribeLogDirsRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 1..=5;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 2;
        let mut message = Self::default();
        message.topics =
            reader.nullable_array(flexible, 3, |reader| DescribableLogDirTopic::decode(reader, version))?;
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
        wire::put_nullable_array(writer, self.topics.as_deref(), flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DescribeLogDirsRequest",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`DescribeLogDirsRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribableLogDirTopic {
    /// `string`.
    pub topic: String,
    /// `[]int32`.
    pub partitions: Vec<i32>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl DescribableLogDirTopic {
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
                owner: "DescribableLogDirTopic",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
