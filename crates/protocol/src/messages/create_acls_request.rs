//! `CreateAclsRequest`: request, versions 1-3, flexible from 2.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 1-3, flexible from 2.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CreateAclsRequest {
    /// `[]AclCreation`.
    pub creations: Vec<AclCreation>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for CreateAclsRequest {
    const NAME: &'static str = "CreateAclsRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 1..=3;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 2;
        let mut message = Self::default();
        message.creations = reader.array(flexible, 8, |reader| AclCreation::decode(reader, version))?;
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
        wire::put_array(writer, &self.creations, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "CreateAclsRequest",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`CreateAclsRequest`].
#[derive(Clone, Debug, PartialEq)]
pub struct AclCreation {
    /// `int8`.
    pub resource_type: i8,
    /// `string`.
    pub resource_name: String,
    /// `int8`, 3 if not set.
    pub resource_pattern_type: i8,
    /// `string`.
    pub principal: String,
    /// `string`.
    pub host: String,
    /// `int8`.
    pub operation: i8,
    /// `int8`.
    pub permission_type: i8,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for AclCreation {
    fn default() -> Self {
        Self {
            resource_type: 0,
            resource_name: String::new(),
            resource_pattern_type: 3,
            principal: String::new(),
            host: String::new(),
            operation: 0,
            permission_type: 0,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl AclCreation {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 2;
        let mut message = Self::default();
        message.resource_type = reader.i8()?;
        message.resource_name = reader.string(flexible)?;
        message.resource_pattern_type = reader.i8()?;
        message.principal = reader.string(flexible)?;
        message.host = reader.string(flexible)?;
        message.operation = reader.i8()?;
        message.permission_type = reader.i8()?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 2;
        writer.put_i8(self.resource_type);
        wire::put_string(writer, &self.resource_name, flexible)?;
        writer.put_i8(self.resource_pattern_type);
        wire::put_string(writer, &self.principal, flexible)?;
        wire::put_string(writer, &self.host, flexible)?;
        writer.put_i8(self.operation);
        writer.put_i8(self.permission_type);
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "AclCreation",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
