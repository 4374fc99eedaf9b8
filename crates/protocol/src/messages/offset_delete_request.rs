//! `OffsetDeleteRequest`: request, versions 0.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, Reader, Writer};

/// The message: versions 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetDeleteRequest {
    /// `string`.
    pub group_id: String,
    /// `[]OffsetDeleteRequestTopic`.
    pub topics: Vec<OffsetDeleteRequestTopic>,
}

impl Message for OffsetDeleteRequest {
    const NAME: &'static str = "OffsetDeleteRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=0;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        message.group_id = reader.string(false)?;
        message.topics = reader.array(false, 6, |reader| OffsetDeleteRequestTopic::decode(reader, version))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        wire::put_string(writer, &self.group_id, false)?;
        wire::put_array(writer, &self.topics, false, |writer, it| it.write(writer, version))?;
        Ok(())
    }
}

/// A part of [`OffsetDeleteRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetDeleteRequestTopic {
    /// `string`.
    pub name: String,
    /// `[]OffsetDeleteRequestPartition`.
    pub partitions: Vec<OffsetDeleteRequestPartition>,
}

impl OffsetDeleteRequestTopic {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.name = reader.string(false)?;
        message.partitions = reader.array(false, 4, |reader| OffsetDeleteRequestPartition::decode(reader, version))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        wire::put_string(writer, &self.name, false)?;
        wire::put_array(writer, &self.partitions, false, |writer, it| it.write(writer, version))?;
        Ok(())
    }
}

/// A part of [`OffsetDeleteRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetDeleteRequestPartition {
    /// `int32`.
    pub partition_index: i32,
}

impl OffsetDeleteRequestPartition {
    fn decode(reader: &mut Reader, _version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.partition_index = reader.i32()?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, _version: i16) -> Result<(), EncodeError> {
        writer.put_i32(self.partition_index);
        Ok(())
    }
}
