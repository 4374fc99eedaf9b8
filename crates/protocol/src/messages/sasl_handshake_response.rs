//! `SaslHandshakeResponse`: response, versions 0-1.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, Reader, Writer};

/// The message: versions 0-1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SaslHandshakeResponse {
    /// `int16`.
    pub error_code: i16,
    /// `[]string`.
    pub mechanisms: Vec<String>,
}

impl Message for SaslHandshakeResponse {
    const NAME: &'static str = "SaslHandshakeResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=1;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        message.error_code = reader.i16()?;
        message.mechanisms = reader.array(false, 2, |reader| reader.string(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        writer.put_i16(self.error_code);
        wire::put_array(writer, &self.mechanisms, false, |writer, it| wire::put_string(writer, it, false))?;
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        each(self.error_code);
    }
}
