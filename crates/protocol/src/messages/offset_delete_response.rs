//! `OffsetDeleteResponse`: response, versions 0.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, Reader, Writer};

/// The message: versions 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetDeleteResponse {
    /// `int16`.
    pub error_code: i16,
    /// `int32`.
    pub throttle_time_ms: i32,
    /// `[]OffsetDeleteResponseTopic`.
    pub topics: Vec<OffsetDeleteResponseTopic>,
}

impl Message for OffsetDeleteResponse {
    const NAME: &'static str = "OffsetDeleteResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=0;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        message.error_code = reader.i16()?;
        message.throttle_time_ms = reader.i32()?;
        message.topics = reader.array(false, 6, |reader| OffsetDeleteResponseTopic::decode(reader, version))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        writer.put_i16(self.error_code);
        writer.put_i32(self.throttle_time_ms);
        wire::put_array(writer, &self.topics, false, |writer, it| it.write(writer, version))?;
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        each(self.error_code);
        for it in &self.topics {
            it.error_codes(each);
        }
    }
}

/// A part of [`OffsetDeleteResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetDeleteResponseTopic {
    /// `string`.
    pub name: String,
    /// `[]OffsetDeleteResponsePartition`.
    pub partitions: Vec<OffsetDeleteResponsePartition>,
}

impl OffsetDeleteResponseTopic {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.name = reader.string(false)?;
        message.partitions = reader.array(false, 6, |reader| OffsetDeleteResponsePartition::decode(reader, version))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        wire::put_string(writer, &self.name, false)?;
        wire::put_array(writer, &self.partitions, false, |writer, it| it.write(writer, version))?;
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        for it in &self.partitions {
            it.error_codes(each);
        }
    }
}

/// A part of [`OffsetDeleteResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetDeleteResponsePartition {
    /// `int32`.
    pub partition_index: i32,
    /// `int16`.
    pub error_code: i16,
}

impl OffsetDeleteResponsePartition {
    fn decode(reader: &mut Reader, _version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.partition_index = reader.i32()?;
        message.error_code = reader.i16()?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, _version: i16) -> Result<(), EncodeError> {
        writer.put_i32(self.partition_index);
        writer.put_i16(self.error_code);
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        each(self.error_code);
    }
}
