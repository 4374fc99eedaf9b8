//! `DeleteTopicsResponse`: response, versions 1-6, flexible from 4.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use atonce_kernel::Uuid;
use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 1-6, flexible from 4.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteTopicsResponse {
    /// `int32`.
    pub throttle_time_ms: i32,
    /// `[]DeletableTopicResult`.
    pub responses: Vec<DeletableTopicResult>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for DeleteTopicsResponse {
    const NAME: &'static str = "DeleteTopicsResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 1..=6;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 4;
        let mut message = Self::default();
        message.throttle_time_ms = reader.i32()?;
        message.responses = reader.array(flexible, 4, |reader| DeletableTopicResult::decode(reader, version))?;
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
        wire::put_array(writer, &self.responses, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DeleteTopicsResponse",
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

/// A part of [`DeleteTopicsResponse`].
#[derive(Clone, Debug, PartialEq)]
pub struct DeletableTopicResult {
    /// `string`, may be null in version 6.
    pub name: Option<String>,
    /// `uuid`, in version 6, dropped in others.
    pub topic_id: Uuid,
    /// `int16`.
    pub error_code: i16,
    /// `string`, in versions from 5, may be null, dropped in others.
    pub error_message: Option<String>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for DeletableTopicResult {
    fn default() -> Self {
        Self {
            name: Some(String::new()),
            topic_id: Uuid::ZERO,
            error_code: 0,
            error_message: None,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl DeletableTopicResult {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 4;
        let mut message = Self::default();
        message.name = if version >= 6 { reader.nullable_string(flexible)? } else { Some(reader.string(flexible)?) };
        if version >= 6 {
            message.topic_id = reader.uuid()?;
        }
        message.error_code = reader.i16()?;
        if version >= 5 {
            message.error_message = reader.nullable_string(flexible)?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 4;
        if self.name.is_none() && version < 6 {
            return Err(EncodeError::NullNotAllowed { owner: "DeletableTopicResult", field: "name", version });
        }
        wire::put_nullable_string(writer, self.name.as_deref(), flexible)?;
        if version >= 6 {
            writer.put_slice(&self.topic_id.0);
        }
        writer.put_i16(self.error_code);
        if version >= 5 {
            wire::put_nullable_string(writer, self.error_message.as_deref(), flexible)?;
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DeletableTopicResult",
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
