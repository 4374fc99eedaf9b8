//! `AlterConfigsRequest`: request, versions 0-2, flexible from 2.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-2, flexible from 2.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlterConfigsRequest {
    /// `[]AlterConfigsResource`.
    pub resources: Vec<AlterConfigsResource>,
    /// `bool`.
    pub validate_only: bool,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for AlterConfigsRequest {
    const NAME: &'static str = "AlterConfigsRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=2;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 2;
        let mut message = Self::default();
        message.resources = reader.array(flexible, 4, |reader| AlterConfigsResource::decode(reader, version))?;
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
        wire::put_array(writer, &self.resources, flexible, |writer, it| it.write(writer, version))?;
        wire::put_bool(writer, self.validate_only);
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "AlterConfigsRequest",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`AlterConfigsRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlterConfigsResource {
    /// `int8`.
    pub resource_type: i8,
    /// `string`.
    pub resource_name: String,
    /// `[]AlterableConfig`.
    pub configs: Vec<AlterableConfig>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl AlterConfigsResource {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 2;
        let mut message = Self::default();
        message.resource_type = reader.i8()?;
        message.resource_name = reader.string(flexible)?;
        message.configs = reader.array(flexible, 3, |reader| AlterableConfig::decode(reader, version))?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 2;
        writer.put_i8(self.resource_type);
        wire::put_string(writer, &self.resource_name, flexible)?;
        wire::put_array(writer, &self.configs, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "AlterConfigsResource",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`AlterConfigsRequest`].
#[derive(Clone, Debug, PartialEq)]
pub struct AlterableConfig {
    /// `string`.
    pub name: String,
    /// `string`, may be null.
    pub value: Option<String>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for AlterableConfig {
    fn default() -> Self {
        Self { name: String::new(), value: Some(String::new()), unknown_tagged_fields: Vec::new() }
    }
}

impl AlterableConfig {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 2;
        let mut message = Self::default();
        message.name = reader.string(flexible)?;
        message.value = reader.nullable_string(flexible)?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 2;
        wire::put_string(writer, &self.name, flexible)?;
        wire::put_nullable_string(writer, self.value.as_deref(), flexible)?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "AlterableConfig",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
