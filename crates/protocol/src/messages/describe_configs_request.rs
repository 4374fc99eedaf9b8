//! `DescribeConfigsRequest`: request, versions 1-4, flexible from 4.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 1-4, flexible from 4.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeConfigsRequest {
    /// `[]DescribeConfigsResource`.
    pub resources: Vec<DescribeConfigsResource>,
    /// `bool`.
    pub include_synonyms: bool,
    /// `bool`, in versions from 3.
    pub include_documentation: bool,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for DescribeConfigsRequest {
    const NAME: &'static str = "DescribeConfigsRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 1..=4;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 4;
        let mut message = Self::default();
        message.resources = reader.array(flexible, 4, |reader| DescribeConfigsResource::decode(reader, version))?;
        message.include_synonyms = reader.bool()?;
        if version >= 3 {
            message.include_documentation = reader.bool()?;
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
        let flexible = version >= 4;
        wire::put_array(writer, &self.resources, flexible, |writer, it| it.write(writer, version))?;
        wire::put_bool(writer, self.include_synonyms);
        if version >= 3 {
            wire::put_bool(writer, self.include_documentation);
        } else if self.include_documentation {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DescribeConfigsRequest",
                field: "include_documentation",
                version,
            });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DescribeConfigsRequest",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`DescribeConfigsRequest`].
#[derive(Clone, Debug, PartialEq)]
pub struct DescribeConfigsResource {
    /// `int8`.
    pub resource_type: i8,
    /// `string`.
    pub resource_name: String,
    /// `[]string`, may be null.
    pub configuration_keys: Option<Vec<String>>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for DescribeConfigsResource {
    fn default() -> Self {
        Self {
            resource_type: 0,
            resource_name: String::new(),
            configuration_keys: Some(Vec::new()),
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl DescribeConfigsResource {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 4;
        let mut message = Self::default();
        message.resource_type = reader.i8()?;
        message.resource_name = reader.string(flexible)?;
        message.configuration_keys = reader.nullable_array(flexible, 1, |reader| reader.string(flexible))?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 4;
        writer.put_i8(self.resource_type);
        wire::put_string(writer, &self.resource_name, flexible)?;
        wire::put_nullable_array(writer, self.configuration_keys.as_deref(), flexible, |writer, it| {
            wire::put_string(writer, it, flexible)
        })?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DescribeConfigsResource",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
