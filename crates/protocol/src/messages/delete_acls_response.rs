//! `DeleteAclsResponse`: response, versions 1-3, flexible from 2.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 1-3, flexible from 2.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteAclsResponse {
    /// `int32`.
    pub throttle_time_ms: i32,
    /// `[]DeleteAclsFilterResult`.
    pub filter_results: Vec<DeleteAclsFilterResult>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for DeleteAclsResponse {
    const NAME: &'static str = "DeleteAclsResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 1..=3;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 2;
        let mut message = Self::default();
        message.throttle_time_ms = reader.i32()?;
        message.filter_results = reader.array(flexible, 5, |reader| DeleteAclsFilterResult::decode(reader, version))?;
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
        writer.put_i32(self.throttle_time_ms);
        wire::put_array(writer, &self.filter_results, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DeleteAclsResponse",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        for it in &self.filter_results {
            it.error_codes(each);
        }
    }
}

/// A part of [`DeleteAclsResponse`].
#[derive(Clone, Debug, PartialEq)]
pub struct DeleteAclsFilterResult {
    /// `int16`.
    pub error_code: i16,
    /// `string`, may be null.
    pub error_message: Option<String>,
    /// `[]DeleteAclsMatchingAcl`.
    pub matching_acls: Vec<DeleteAclsMatchingAcl>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for DeleteAclsFilterResult {
    fn default() -> Self {
        Self {
            error_code: 0,
            error_message: Some(String::new()),
            matching_acls: Vec::new(),
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl DeleteAclsFilterResult {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 2;
        let mut message = Self::default();
        message.error_code = reader.i16()?;
        message.error_message = reader.nullable_string(flexible)?;
        message.matching_acls = reader.array(flexible, 11, |reader| DeleteAclsMatchingAcl::decode(reader, version))?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 2;
        writer.put_i16(self.error_code);
        wire::put_nullable_string(writer, self.error_message.as_deref(), flexible)?;
        wire::put_array(writer, &self.matching_acls, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DeleteAclsFilterResult",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        each(self.error_code);
        for it in &self.matching_acls {
            it.error_codes(each);
        }
    }
}

/// A part of [`DeleteAclsResponse`].
#[derive(Clone, Debug, PartialEq)]
pub struct DeleteAclsMatchingAcl {
    /// `int16`.
    pub error_code: i16,
    /// `string`, may be null.
    pub error_message: Option<String>,
    /// `int8`.
    pub resource_type: i8,
    /// `string`.
    pub resource_name: String,
    /// `int8`, 3 if not set.
    pub pattern_type: i8,
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

impl Default for DeleteAclsMatchingAcl {
    fn default() -> Self {
        Self {
            error_code: 0,
            error_message: Some(String::new()),
            resource_type: 0,
            resource_name: String::new(),
            pattern_type: 3,
            principal: String::new(),
            host: String::new(),
            operation: 0,
            permission_type: 0,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl DeleteAclsMatchingAcl {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 2;
        let mut message = Self::default();
        message.error_code = reader.i16()?;
        message.error_message = reader.nullable_string(flexible)?;
        message.resource_type = reader.i8()?;
        message.resource_name = reader.string(flexible)?;
        message.pattern_type = reader.i8()?;
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
        writer.put_i16(self.error_code);
        wire::put_nullable_string(writer, self.error_message.as_deref(), flexible)?;
        writer.put_i8(self.resource_type);
        wire::put_string(writer, &self.resource_name, flexible)?;
        writer.put_i8(self.pattern_type);
        wire::put_string(writer, &self.principal, flexible)?;
        wire::put_string(writer, &self.host, flexible)?;
        writer.put_i8(self.operation);
        writer.put_i8(self.permission_type);
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DeleteAclsMatchingAcl",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        each(self.error_code);
    }
}
