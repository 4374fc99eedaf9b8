//! `OffsetCommitKey`: embedded message, versions 0.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, Reader, Writer};

/// The message: versions 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetCommitKey {
    /// `string`.
    pub group: String,
    /// `string`.
    pub topic: String,
    /// `int32`.
    pub partition: i32,
}

impl Message for OffsetCommitKey {
    const NAME: &'static str = "OffsetCommitKey";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=0;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        message.group = reader.string(false)?;
        message.topic = reader.string(false)?;
        message.partition = reader.i32()?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        wire::put_string(writer, &self.group, false)?;
        wire::put_string(writer, &self.topic, false)?;
        writer.put_i32(self.partition);
        Ok(())
    }
}
