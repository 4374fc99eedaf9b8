//! `DescribeAclsRequest`: request, versions 1-3, flexible from 2.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 1-3, flexible from 2.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribeAclsRequest {
    /// `int8`.
    pub resource_type_filter: i8,
    /// `string`, may be null.
    pub resource_name_filter: Option<String>,
    /// `int8`, 3 if not set.
    pub pattern_type_filter: i8,
    /// `string`, may be null.
    pub principal_filter: Option<String>,
    /// `string`, may be null.
    pub host_filter: Option<String>,
    /// `int8`.
    pub operation: i8,
    /// `int8`.
    pub permission_type: i8,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for DescribeAclsRequest {
    fn default() -> Self {
        Self {
            resource_type_filter: 0,
            resource_name_filter: Some(String::new()),
            pattern_type_filter: 3,
            principal_filter: Some(String::new()),
            host_filter: Some(String::new()),
            operation: 0,
            permission_type: 0,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl Message for DescribeAclsRequest {
    const NAME: &'static str = "DescribeAclsRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 1..=3;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 2;
        let mut message = Self::default();
        message.resource_type_filter = reader.i8()?;
        message.resource_name_filter = reader.nullable_string(flexible)?;
        message.pattern_type_filter = reader.i8()?;
        message.principal_filter = reader.nullable_string(flexible)?;
        message.host_filter = reader.nullable_string(flexible)?;
        message.operation = reader.i8()?;
        message.permission_type = reader.i8()?;
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
        writer.put_i8(self.resource_type_filter);
        wire::put_nullable_string(writer, self.resource_name_filter.as_deref(), flexible)?;
        writer.put_i8(self.pattern_type_filter);
        wire::put_nullable_string(writer, self.principal_filter.as_deref(), flexible)?;
        wire::put_nullable_string(writer, self.host_filter.as_deref(), flexible)?;
        writer.put_i8(self.operation);
        writer.put_i8(self.permission_type);
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DescribeAclsRequest",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
