//! `DescribeConfigsResponse`: response, versions 1-4, flexible from 4.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 1-4, flexible from 4.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeConfigsResponse {
    /// `int32`.
    pub throttle_time_ms: i32,
    /// `[]DescribeConfigsResult`.
    pub results: Vec<DescribeConfigsResult>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for DescribeConfigsResponse {
    const NAME: &'static str = "DescribeConfigsResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 1..=4;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 4;
        let mut message = Self::default();
        message.throttle_time_ms = reader.i32()?;
        message.results = reader.array(flexible, 7, |reader| DescribeConfigsResult::decode(reader, version))?;
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
        writer.put_i32(self.throttle_time_ms);
        wire::put_array(writer, &self.results, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DescribeConfigsResponse",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        for it in &self.results {
            it.error_codes(each);
        }
    }
}

/// A part of [`DescribeConfigsResponse`].
#[derive(Clone, Debug, PartialEq)]
pub struct DescribeConfigsResult {
    /// `int16`.
    pub error_code: i16,
    /// `string`, may be null.
    pub error_message: Option<String>,
    /// `int8`.
    pub resource_type: i8,
    /// `string`.
    pub resource_name: String,
    /// `[]DescribeConfigsResourceResult`.
    pub configs: Vec<DescribeConfigsResourceResult>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for DescribeConfigsResult {
    fn default() -> Self {
        Self {
            error_code: 0,
            error_message: Some(String::new()),
            resource_type: 0,
            resource_name: String::new(),
            configs: Vec::new(),
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl DescribeConfigsResult {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 4;
        let mut message = Self::default();
        message.error_code = reader.i16()?;
        message.error_message = reader.nullable_string(flexible)?;
        message.resource_type = reader.i8()?;
        message.resource_name = reader.string(flexible)?;
        message.configs = reader.array(flexible, 9, |reader| DescribeConfigsResourceResult::decode(reader, version))?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 4;
        writer.put_i16(self.error_code);
        wire::put_nullable_string(writer, self.error_message.as_deref(), flexible)?;
        writer.put_i8(self.resource_type);
        wire::put_string(writer, &self.resource_name, flexible)?;
        wire::put_array(writer, &self.configs, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DescribeConfigsResult",
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

/// A part of [`DescribeConfigsResponse`].
#[derive(Clone, Debug, PartialEq)]
pub struct DescribeConfigsResourceResult {
    /// `string`.
    pub name: String,
    /// `string`, may be null.
    pub value: Option<String>,
    /// `bool`.
    pub read_only: bool,
    /// `int8`, -1 if not set.
    pub config_source: i8,
    /// `bool`.
    pub is_sensitive: bool,
    /// `[]DescribeConfigsSynonym`.
    pub synonyms: Vec<DescribeConfigsSynonym>,
    /// `int8`, in versions from 3, dropped in others.
    pub config_type: i8,
    /// `string`, in versions from 3, may be null, dropped in others.
    pub documentation: Option<String>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for DescribeConfigsResourceResult {
    fn default() -> Self {
        Self {
            name: String::new(),
            value: Some(String::new()),
            read_only: false,
            config_source: -1,
            is_sensitive: false,
            synonyms: Vec::new(),
            config_type: 0,
            documentation: Some(String::new()),
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl DescribeConfigsResourceResult {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 4;
        let mut message = Self::default();
        message.name = reader.string(flexible)?;
        message.value = reader.nullable_string(flexible)?;
        message.read_only = reader.bool()?;
        message.config_source = reader.i8()?;
        message.is_sensitive = reader.bool()?;
        message.synonyms = reader.array(flexible, 4, |reader| DescribeConfigsSynonym::decode(reader, version))?;
        if version >= 3 {
            message.config_type = reader.i8()?;
        }
        if version >= 3 {
            message.documentation = reader.nullable_string(flexible)?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 4;
        wire::put_string(writer, &self.name, flexible)?;
        wire::put_nullable_string(writer, self.value.as_deref(), flexible)?;
        wire::put_bool(writer, self.read_only);
        writer.put_i8(self.config_source);
        wire::put_bool(writer, self.is_sensitive);
        wire::put_array(writer, &self.synonyms, flexible, |writer, it| it.write(writer, version))?;
        if version >= 3 {
            writer.put_i8(self.config_type);
        }
        if version >= 3 {
            wire::put_nullable_string(writer, self.documentation.as_deref(), flexible)?;
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DescribeConfigsResourceResult",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`DescribeConfigsResponse`].
#[derive(Clone, Debug, PartialEq)]
pub struct DescribeConfigsSynonym {
    /// `string`.
    pub name: String,
    /// `string`, may be null.
    pub value: Option<String>,
    /// `int8`.
    pub source: i8,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for DescribeConfigsSynonym {
    fn default() -> Self {
        Self { name: String::new(), value: Some(String::new()), source: 0, unknown_tagged_fields: Vec::new() }
    }
}

impl DescribeConfigsSynonym {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 4;
        let mut message = Self::default();
        message.name = reader.string(flexible)?;
        message.value = reader.nullable_string(flexible)?;
        message.source = reader.i8()?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 4;
        wire::put_string(writer, &self.name, flexible)?;
        wire::put_nullable_string(writer, self.value.as_deref(), flexible)?;
        writer.put_i8(self.source);
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DescribeConfigsSynonym",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
