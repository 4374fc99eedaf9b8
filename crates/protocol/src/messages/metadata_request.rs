//! `MetadataRequest`: request, versions 0-13, flexible from 9.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use atonce_kernel::Uuid;
use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-13, flexible from 9.
#[derive(Clone, Debug, PartialEq)]
pub struct MetadataRequest {
    /// `[]MetadataRequestTopic`, may be null in versions from 1.
    pub topics: Option<Vec<MetadataRequestTopic>>,
    /// `bool`, in versions from 4, true if not set.
    pub allow_auto_topic_creation: bool,
    /// `bool`, in versions 8 to 10.
    pub include_cluster_authorized_operations: bool,
    /// `bool`, in versions from 8.
    pub include_topic_authorized_operations: bool,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for MetadataRequest {
    fn default() -> Self {
        Self {
            topics: Some(Vec::new()),
            allow_auto_topic_creation: true,
            include_cluster_authorized_operations: false,
            include_topic_authorized_operations: false,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl Message for MetadataRequest {
    const NAME: &'static str = "MetadataRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=13;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 9;
        let mut message = Self::default();
        message.topics = if version >= 1 {
            reader.nullable_array(flexible, 2, |reader| MetadataRequestTopic::decode(reader, version))?
        } else {
            Some(reader.array(flexible, 2, |reader| MetadataRequestTopic::decode(reader, version))?)
        };
        if version >= 4 {
            message.allow_auto_topic_creation = reader.bool()?;
        }
        if (8..=10).contains(&version) {
            message.include_cluster_authorized_operations = reader.bool()?;
        }
        if version >= 8 {
            message.include_topic_authorized_operations = reader.bool()?;
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
        let flexible = version >= 9;
        if self.topics.is_none() && version < 1 {
            return Err(EncodeError::NullNotAllowed { owner: "MetadataRequest", field: "topics", version });
        }
        wire::put_nullable_array(writer, self.topics.as_deref(), flexible, |writer, it| it.write(writer, version))?;
        if version >= 4 {
            wire::put_bool(writer, self.allow_auto_topic_creation);
        } else if !self.allow_auto_topic_creation {
            return Err(EncodeError::FieldNotInVersion {
                owner: "MetadataRequest",
                field: "allow_auto_topic_creation",
                version,
            });
        }
        if (8..=10).contains(&version) {
            wire::put_bool(writer, self.include_cluster_authorized_operations);
        } else if self.include_cluster_authorized_operations {
            return Err(EncodeError::FieldNotInVersion {
                owner: "MetadataRequest",
                field: "include_cluster_authorized_operations",
                version,
            });
        }
        if version >= 8 {
            wire::put_bool(writer, self.include_topic_authorized_operations);
        } else if self.include_topic_authorized_operations {
            return Err(EncodeError::FieldNotInVersion {
                owner: "MetadataRequest",
                field: "include_topic_authorized_operations",
                version,
            });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "MetadataRequest",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`MetadataRequest`].
#[derive(Clone, Debug, PartialEq)]
pub struct MetadataRequestTopic {
    /// `uuid`, in versions from 10, dropped in others.
    pub topic_id: Uuid,
    /// `string`, may be null in versions from 10.
    pub name: Option<String>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for MetadataRequestTopic {
    fn default() -> Self {
        Self { topic_id: Uuid::ZERO, name: Some(String::new()), unknown_tagged_fields: Vec::new() }
    }
}

impl MetadataRequestTopic {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 9;
        let mut message = Self::default();
        if version >= 10 {
            message.topic_id = reader.uuid()?;
        }
        message.name = if version >= 10 { reader.nullable_string(flexible)? } else { Some(reader.string(flexible)?) };
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 9;
        if version >= 10 {
            writer.put_slice(&self.topic_id.0);
        }
        if self.name.is_none() && version < 10 {
            return Err(EncodeError::NullNotAllowed { owner: "MetadataRequestTopic", field: "name", version });
        }
        wire::put_nullable_string(writer, self.name.as_deref(), flexible)?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "MetadataRequestTopic",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
