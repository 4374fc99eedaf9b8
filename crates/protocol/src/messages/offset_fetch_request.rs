//! `OffsetFetchRequest`: request, versions 1-10, flexible from 6.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use atonce_kernel::Uuid;
use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 1-10, flexible from 6.
#[derive(Clone, Debug, PartialEq)]
pub struct OffsetFetchRequest {
    /// `string`, in versions 1 to 7.
    pub group_id: String,
    /// `[]OffsetFetchRequestTopic`, in versions 1 to 7, may be null in versions 2 to 7.
    pub topics: Option<Vec<OffsetFetchRequestTopic>>,
    /// `[]OffsetFetchRequestGroup`, in versions from 8.
    pub groups: Vec<OffsetFetchRequestGroup>,
    /// `bool`, in versions from 7.
    pub require_stable: bool,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for OffsetFetchRequest {
    fn default() -> Self {
        Self {
            group_id: String::new(),
            topics: Some(Vec::new()),
            groups: Vec::new(),
            require_stable: false,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl Message for OffsetFetchRequest {
    const NAME: &'static str = "OffsetFetchRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 1..=10;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 6;
        let mut message = Self::default();
        if version <= 7 {
            message.group_id = reader.string(flexible)?;
        }
        if version <= 7 {
            message.topics = if (2..=7).contains(&version) {
                reader.nullable_array(flexible, 1, |reader| OffsetFetchRequestTopic::decode(reader, version))?
            } else {
                Some(reader.array(flexible, 1, |reader| OffsetFetchRequestTopic::decode(reader, version))?)
            };
        }
        if version >= 8 {
            message.groups = reader.array(flexible, 1, |reader| OffsetFetchRequestGroup::decode(reader, version))?;
        }
        if version >= 7 {
            message.require_stable = reader.bool()?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 6;
        if version <= 7 {
            wire::put_string(writer, &self.group_id, flexible)?;
        } else if !self.group_id.is_empty() {
            return Err(EncodeError::FieldNotInVersion { owner: "OffsetFetchRequest", field: "group_id", version });
        }
        if version <= 7 {
            if self.topics.is_none() && !(2..=7).contains(&version) {
                return Err(EncodeError::NullNotAllowed { owner: "OffsetFetchRequest", field: "topics", version });
            }
            wire::put_nullable_array(writer, self.topics.as_deref(), flexible, |writer, it| it.write(writer, version))?;
        } else if self.topics.as_ref().is_none_or(|it| !it.is_empty()) {
            return Err(EncodeError::FieldNotInVersion { owner: "OffsetFetchRequest", field: "topics", version });
        }
        if version >= 8 {
            wire::put_array(writer, &self.groups, flexible, |writer, it| it.write(writer, version))?;
        } else if !self.groups.is_empty() {
            return Err(EncodeError::FieldNotInVersion { owner: "OffsetFetchRequest", field: "groups", version });
        }
        if version >= 7 {
            wire::put_bool(writer, self.require_stable);
        } else if self.require_stable {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetFetchRequest",
                field: "require_stable",
                version,
            });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetFetchRequest",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`OffsetFetchRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetFetchRequestTopic {
    /// `string`, in versions 1 to 7.
    pub name: String,
    /// `[]int32`, in versions 1 to 7.
    pub partition_indexes: Vec<i32>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl OffsetFetchRequestTopic {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 6;
        let mut message = Self::default();
        if version <= 7 {
            message.name = reader.string(flexible)?;
        }
        if version <= 7 {
            message.partition_indexes = reader.array(flexible, 4, Reader::i32)?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 6;
        if version <= 7 {
            wire::put_string(writer, &self.name, flexible)?;
        } else if !self.name.is_empty() {
            return Err(EncodeError::FieldNotInVersion { owner: "OffsetFetchRequestTopic", field: "name", version });
        }
        if version <= 7 {
            wire::put_array(writer, &self.partition_indexes, flexible, |writer, it| {
                writer.put_i32(*it);
                Ok(())
            })?;
        } else if !self.partition_indexes.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetFetchRequestTopic",
                field: "partition_indexes",
                version,
            });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetFetchRequestTopic",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`OffsetFetchRequest`].
#[derive(Clone, Debug, PartialEq)]
pub struct OffsetFetchRequestGroup {
    /// `string`, in versions from 8.
    pub group_id: String,
    /// `string`, in versions from 9, may be null, dropped in others.
    pub member_id: Option<String>,
    /// `int32`, in versions from 9, -1 if not set, dropped in others.
    pub member_epoch: i32,
    /// `[]OffsetFetchRequestTopics`, in versions from 8, may be null.
    pub topics: Option<Vec<OffsetFetchRequestTopics>>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for OffsetFetchRequestGroup {
    fn default() -> Self {
        Self {
            group_id: String::new(),
            member_id: None,
            member_epoch: -1,
            topics: Some(Vec::new()),
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl OffsetFetchRequestGroup {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 6;
        let mut message = Self::default();
        if version >= 8 {
            message.group_id = reader.string(flexible)?;
        }
        if version >= 9 {
            message.member_id = reader.nullable_string(flexible)?;
        }
        if version >= 9 {
            message.member_epoch = reader.i32()?;
        }
        if version >= 8 {
            message.topics =
                reader.nullable_array(flexible, 1, |reader| OffsetFetchRequestTopics::decode(reader, version))?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 6;
        if version >= 8 {
            wire::put_string(writer, &self.group_id, flexible)?;
        } else if !self.group_id.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetFetchRequestGroup",
                field: "group_id",
                version,
            });
        }
        if version >= 9 {
            wire::put_nullable_string(writer, self.member_id.as_deref(), flexible)?;
        }
        if version >= 9 {
            writer.put_i32(self.member_epoch);
        }
        if version >= 8 {
            wire::put_nullable_array(writer, self.topics.as_deref(), flexible, |writer, it| it.write(writer, version))?;
        } else if self.topics.as_ref().is_none_or(|it| !it.is_empty()) {
            return Err(EncodeError::FieldNotInVersion { owner: "OffsetFetchRequestGroup", field: "topics", version });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetFetchRequestGroup",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`OffsetFetchRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetFetchRequestTopics {
    /// `string`, in versions 8 to 9, dropped in others.
    pub name: String,
    /// `uuid`, in version 10, dropped in others.
    pub topic_id: Uuid,
    /// `[]int32`, in versions from 8.
    pub partition_indexes: Vec<i32>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl OffsetFetchRequestTopics {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 6;
        let mut message = Self::default();
        if (8..=9).contains(&version) {
            message.name = reader.string(flexible)?;
        }
        if version >= 10 {
            message.topic_id = reader.uuid()?;
        }
        if version >= 8 {
            message.partition_indexes = reader.array(flexible, 4, Reader::i32)?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 6;
        if (8..=9).contains(&version) {
            wire::put_string(writer, &self.name, flexible)?;
        }
        if version >= 10 {
            writer.put_slice(&self.topic_id.0);
        }
        if version >= 8 {
            wire::put_array(writer, &self.partition_indexes, flexible, |writer, it| {
                writer.put_i32(*it);
                Ok(())
            })?;
        } else if !self.partition_indexes.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetFetchRequestTopics",
                field: "partition_indexes",
                version,
            });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetFetchRequestTopics",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
