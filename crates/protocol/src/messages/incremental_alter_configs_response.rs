//! `IncrementalAlterConfigsResponse`: response, versions 0-1, flexible from 1.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-1, flexible from 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IncrementalAlterConfigsResponse {
    /// `int32`.
    pub throttle_time_ms: i32,
    /// `[]AlterConfigsResourceResponse`.
    pub responses: Vec<AlterConfigsResourceResponse>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for IncrementalAlterConfigsResponse {
    const NAME: &'static str = "IncrementalAlterConfigsResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=1;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 1;
        let mut message = Self::default();
        message.throttle_time_ms = reader.i32()?;
        message.responses =
            reader.array(flexible, 6, |reader| AlterConfigsResourceResponse::decode(reader, version))?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 1;
        writer.put_i32(self.throttle_time_ms);
        wire::put_array(writer, &self.responses, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "IncrementalAlterConfigsResponse",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        for it in &self.responses {
            it.error_codes(each);
        }
    }
}

/// A part of [`IncrementalAlterConfigsResponse`].
#[derive(Clone, Debug, PartialEq)]
pub struct AlterConfigsResourceResponse {
    /// `int16`.
    pub error_code: i16,
    /// `string`, may be null.
    pub error_message: Option<String>,
    /// `int8`.
    pub resource_type: i8,
    /// `string`.
    pub resource_name: String,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for AlterConfigsResourceResponse {
    fn default() -> Self {
        Self {
            error_code: 0,
            error_message: Some(String::new()),
            resource_type: 0,
            resource_name: String::new(),
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl AlterConfigsResourceResponse {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 1;
        let mut message = Self::default();
        message.error_code = reader.i16()?;
        message.error_message = reader.nullable_string(flexible)?;
        message.resource_type = reader.i8()?;
        message.resource_name = reader.string(flexible)?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 1;
        writer.put_i16(self.error_code);
        wire::put_nullable_string(writer, self.error_message.as_deref(), flexible)?;
        writer.put_i8(self.resource_type);
        wire::put_string(writer, &self.resource_name, flexible)?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "AlterConfigsResourceResponse",
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
