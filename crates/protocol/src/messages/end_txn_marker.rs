//! `EndTxnMarker`: embedded message, versions 0.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{DecodeError, EncodeError, Message, Reader, Writer};

/// The message: versions 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndTxnMarker {
    /// `int32`.
    pub coordinator_epoch: i32,
}

impl Message for EndTxnMarker {
    const NAME: &'static str = "EndTxnMarker";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=0;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        message.coordinator_epoch = reader.i32()?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        writer.put_i32(self.coordinator_epoch);
        Ok(())
    }
}
