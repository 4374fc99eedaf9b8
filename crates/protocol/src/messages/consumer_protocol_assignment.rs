//! `ConsumerProtocolAssignment`: embedded message, versions 0-3.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::{BufMut, Bytes};

use crate::wire::{self, DecodeError, EncodeError, Message, Reader, Writer};

/// The message: versions 0-3.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerProtocolAssignment {
    /// `[]TopicPartition`.
    pub assigned_partitions: Vec<TopicPartition>,
    /// `bytes`, may be null.
    pub user_data: Option<Bytes>,
}

impl Message for ConsumerProtocolAssignment {
    const NAME: &'static str = "ConsumerProtocolAssignment";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=3;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        message.assigned_partitions = reader.array(false, 6, |reader| TopicPartition::decode(reader, version))?;
        message.user_data = reader.nullable_bytes(false)?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        wire::put_array(writer, &self.assigned_partitions, false, |writer, it| it.write(writer, version))?;
        wire::put_nullable_bytes(writer, self.user_data.as_deref(), false)?;
        Ok(())
    }
}

/// A part of [`ConsumerProtocolAssignment`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicPartition {
    /// `string`.
    pub topic: String,
    /// `[]int32`.
    pub partitions: Vec<i32>,
}

impl TopicPartition {
    fn decode(reader: &mut Reader, _version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.topic = reader.string(false)?;
        message.partitions = reader.array(false, 4, Reader::i32)?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, _version: i16) -> Result<(), EncodeError> {
        wire::put_string(writer, &self.topic, false)?;
        wire::put_array(writer, &self.partitions, false, |writer, it| {
            writer.put_i32(*it);
            Ok(())
        })?;
        Ok(())
    }
}
