//! `ConsumerProtocolSubscription`: embedded message, versions 0-3.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::{BufMut, Bytes};

use crate::wire::{self, DecodeError, EncodeError, Message, Reader, Writer};

/// The message: versions 0-3.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerProtocolSubscription {
    /// `[]string`.
    pub topics: Vec<String>,
    /// `bytes`, may be null.
    pub user_data: Option<Bytes>,
    /// `[]TopicPartition`, in versions from 1, dropped in others.
    pub owned_partitions: Vec<TopicPartition>,
    /// `int32`, in versions from 2, -1 if not set, dropped in others.
    pub generation_id: i32,
    /// `string`, in version 3, may be null, dropped in others.
    pub rack_id: Option<String>,
}

impl Default for ConsumerProtocolSubscription {
    fn default() -> Self {
        Self { topics: Vec::new(), user_data: None, owned_partitions: Vec::new(), generation_id: -1, rack_id: None }
    }
}

impl Message for ConsumerProtocolSubscription {
    const NAME: &'static str = "ConsumerProtocolSubscription";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=3;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        message.topics = reader.array(false, 2, |reader| reader.string(false))?;
        message.user_data = reader.nullable_bytes(false)?;
        if version >= 1 {
            message.owned_partitions = reader.array(false, 1, |reader| TopicPartition::decode(reader, version))?;
        }
        if version >= 2 {
            message.generation_id = reader.i32()?;
        }
        if version >= 3 {
            message.rack_id = reader.nullable_string(false)?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        wire::put_array(writer, &self.topics, false, |writer, it| wire::put_string(writer, it, false))?;
        wire::put_nullable_bytes(writer, self.user_data.as_deref(), false)?;
        if version >= 1 {
            wire::put_array(writer, &self.owned_partitions, false, |writer, it| it.write(writer, version))?;
        }
        if version >= 2 {
            writer.put_i32(self.generation_id);
        }
        if version >= 3 {
            wire::put_nullable_string(writer, self.rack_id.as_deref(), false)?;
        }
        Ok(())
    }
}

/// A part of [`ConsumerProtocolSubscription`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicPartition {
    /// `string`, in versions from 1.
    pub topic: String,
    /// `[]int32`, in versions from 1.
    pub partitions: Vec<i32>,
}

impl TopicPartition {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        if version >= 1 {
            message.topic = reader.string(false)?;
        }
        if version >= 1 {
            message.partitions = reader.array(false, 4, Reader::i32)?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if version >= 1 {
            wire::put_string(writer, &self.topic, false)?;
        } else if !self.topic.is_empty() {
            return Err(EncodeError::FieldNotInVersion { owner: "TopicPartition", field: "topic", version });
        }
        if version >= 1 {
            wire::put_array(writer, &self.partitions, false, |writer, it| {
                writer.put_i32(*it);
                Ok(())
            })?;
        } else if !self.partitions.is_empty() {
            return Err(EncodeError::FieldNotInVersion { owner: "TopicPartition", field: "partitions", version });
        }
        Ok(())
    }
}
