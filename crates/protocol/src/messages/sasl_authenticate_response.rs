//! `SaslAuthenticateResponse`: response, versions 0-2, flexible from 2.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::{BufMut, Bytes};

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-2, flexible from 2.
#[derive(Clone, Debug, PartialEq)]
pub struct SaslAuthenticateResponse {
    /// `int16`.
    pub error_code: i16,
    /// `string`, may be null.
    pub error_message: Option<String>,
    /// `bytes`.
    pub auth_bytes: Bytes,
    /// `int64`, in versions from 1, dropped in others.
    pub session_lifetime_ms: i64,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for SaslAuthenticateResponse {
    fn default() -> Self {
        Self {
            error_code: 0,
            error_message: Some(String::new()),
            auth_bytes: Bytes::new(),
            session_lifetime_ms: 0,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl Message for SaslAuthenticateResponse {
    const NAME: &'static str = "SaslAuthenticateResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=2;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 2;
        let mut message = Self::default();
        message.error_code = reader.i16()?;
        message.error_message = reader.nullable_string(flexible)?;
        message.auth_bytes = reader.bytes(flexible)?;
        if version >= 1 {
            message.session_lifetime_ms = reader.i64()?;
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
        let flexible = version >= 2;
        writer.put_i16(self.error_code);
        wire::put_nullable_string(writer, self.error_message.as_deref(), flexible)?;
        wire::put_bytes(writer, &self.auth_bytes, flexible)?;
        if version >= 1 {
            writer.put_i64(self.session_lifetime_ms);
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "SaslAuthenticateResponse",
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
