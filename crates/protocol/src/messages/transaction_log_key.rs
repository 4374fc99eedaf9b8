//! `TransactionLogKey`: embedded message, versions 0.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use crate::wire::{self, DecodeError, EncodeError, Message, Reader, Writer};

/// The message: versions 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TransactionLogKey {
    /// `string`.
    pub transactional_id: String,
}

impl Message for TransactionLogKey {
    const NAME: &'static str = "TransactionLogKey";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=0;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        message.transactional_id = reader.string(false)?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        wire::put_string(writer, &self.transactional_id, false)?;
        Ok(())
    }
}
