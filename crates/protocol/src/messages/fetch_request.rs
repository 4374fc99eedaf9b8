//! `FetchRequest`: request, versions 4-18, flexible from 12.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use atonce_kernel::Uuid;
use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 4-18, flexible from 12.
#[derive(Clone, Debug, PartialEq)]
pub struct FetchRequest {
    /// `string`, tag 0, in versions from 12, may be null, dropped in others.
    pub cluster_id: Option<String>,
    /// `int32`, in versions 4 to 14, -1 if not set.
    pub replica_id: i32,
    /// `ReplicaState`, tag 1, in versions from 15.
    pub replica_state: ReplicaState,
    /// `int32`.
    pub max_wait_ms: i32,
    /// `int32`.
    pub min_bytes: i32,
    /// `int32`, 0x7fffffff if not set.
    pub max_bytes: i32,
    /// `int8`.
    pub isolation_level: i8,
    /// `int32`, in versions from 7, dropped in others.
    pub session_id: i32,
    /// `int32`, in versions from 7, -1 if not set, dropped in others.
    pub session_epoch: i32,
    /// `[]FetchTopic`.
    pub topics: Vec<FetchTopic>,
    /// `[]ForgottenTopic`, in versions from 7.
    pub forgotten_topics_data: Vec<ForgottenTopic>,
    /// `string`, in versions from 11, dropped in others.
    pub rack_id: String,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for FetchRequest {
    fn default() -> Self {
        Self {
            cluster_id: None,
            replica_id: -1,
            replica_state: ReplicaState::default(),
            max_wait_ms: 0,
            min_bytes: 0,
            max_bytes: i32::MAX,
            isolation_level: 0,
            session_id: 0,
            session_epoch: -1,
            topics: Vec::new(),
            forgotten_topics_data: Vec::new(),
            rack_id: String::new(),
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl Message for FetchRequest {
    const NAME: &'static str = "FetchRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 4..=18;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 12;
        let mut message = Self::default();
        if version <= 14 {
            message.replica_id = reader.i32()?;
        }
        message.max_wait_ms = reader.i32()?;
        message.min_bytes = reader.i32()?;
        message.max_bytes = reader.i32()?;
        message.isolation_level = reader.i8()?;
        if version >= 7 {
            message.session_id = reader.i32()?;
        }
        if version >= 7 {
            message.session_epoch = reader.i32()?;
        }
        message.topics = reader.array(flexible, 3, |reader| FetchTopic::decode(reader, version))?;
        if version >= 7 {
            message.forgotten_topics_data =
                reader.array(flexible, 1, |reader| ForgottenTopic::decode(reader, version))?;
        }
        if version >= 11 {
            message.rack_id = reader.string(flexible)?;
        }
        if flexible {
            let mut unknown = Vec::new();
            reader.tagged_fields(&mut unknown, |tag, reader| {
                match tag {
                    0 => message.cluster_id = reader.nullable_string(flexible)?,
                    1 if version >= 15 => message.replica_state = ReplicaState::decode(reader, version)?,
                    _ => return Ok(false),
                }
                Ok(true)
            })?;
            message.unknown_tagged_fields = unknown;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 12;
        if version <= 14 {
            writer.put_i32(self.replica_id);
        } else if self.replica_id != -1 {
            return Err(EncodeError::FieldNotInVersion { owner: "FetchRequest", field: "replica_id", version });
        }
        if version < 15 && self.replica_state != ReplicaState::default() {
            return Err(EncodeError::FieldNotInVersion { owner: "FetchRequest", field: "replica_state", version });
        }
        writer.put_i32(self.max_wait_ms);
        writer.put_i32(self.min_bytes);
        writer.put_i32(self.max_bytes);
        writer.put_i8(self.isolation_level);
        if version >= 7 {
            writer.put_i32(self.session_id);
        }
        if version >= 7 {
            writer.put_i32(self.session_epoch);
        }
        wire::put_array(writer, &self.topics, flexible, |writer, it| it.write(writer, version))?;
        if version >= 7 {
            wire::put_array(writer, &self.forgotten_topics_data, flexible, |writer, it| it.write(writer, version))?;
        } else if !self.forgotten_topics_data.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "FetchRequest",
                field: "forgotten_topics_data",
                version,
            });
        }
        if version >= 11 {
            wire::put_string(writer, &self.rack_id, flexible)?;
        }
        if flexible {
            let mut tagged = TaggedFields::default();
            if self.cluster_id.is_some() {
                tagged.add(0, |writer| {
                    wire::put_nullable_string(writer, self.cluster_id.as_deref(), flexible)?;
                    Ok(())
                })?;
            }
            if version >= 15 && self.replica_state != ReplicaState::default() {
                tagged.add(1, |writer| {
                    self.replica_state.write(writer, version)?;
                    Ok(())
                })?;
            }
            tagged.write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "FetchRequest",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`FetchRequest`].
#[derive(Clone, Debug, PartialEq)]
pub struct ReplicaState {
    /// `int32`, in versions from 15, -1 if not set.
    pub replica_id: i32,
    /// `int64`, in versions from 15, -1 if not set.
    pub replica_epoch: i64,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for ReplicaState {
    fn default() -> Self {
        Self { replica_id: -1, replica_epoch: -1, unknown_tagged_fields: Vec::new() }
    }
}

impl ReplicaState {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 12;
        let mut message = Self::default();
        if version >= 15 {
            message.replica_id = reader.i32()?;
        }
        if version >= 15 {
            message.replica_epoch = reader.i64()?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 12;
        if version >= 15 {
            writer.put_i32(self.replica_id);
        } else if self.replica_id != -1 {
            return Err(EncodeError::FieldNotInVersion { owner: "ReplicaState", field: "replica_id", version });
        }
        if version >= 15 {
            writer.put_i64(self.replica_epoch);
        } else if self.replica_epoch != -1 {
            return Err(EncodeError::FieldNotInVersion { owner: "ReplicaState", field: "replica_epoch", version });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "ReplicaState",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`FetchRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FetchTopic {
    /// `string`, in versions 4 to 12, dropped in others.
    pub topic: String,
    /// `uuid`, in versions from 13, dropped in others.
    pub topic_id: Uuid,
    /// `[]FetchPartition`.
    pub partitions: Vec<FetchPartition>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl FetchTopic {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 12;
        let mut message = Self::default();
        if version <= 12 {
            message.topic = reader.string(flexible)?;
        }
        if version >= 13 {
            message.topic_id = reader.uuid()?;
        }
        message.partitions = reader.array(flexible, 16, |reader| FetchPartition::decode(reader, version))?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 12;
        if version <= 12 {
            wire::put_string(writer, &self.topic, flexible)?;
        }
        if version >= 13 {
            writer.put_slice(&self.topic_id.0);
        }
        wire::put_array(writer, &self.partitions, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "FetchTopic",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`FetchRequest`].
#[derive(Clone, Debug, PartialEq)]
pub struct FetchPartition {
    /// `int32`.
    pub partition: i32,
    /// `int32`, in versions from 9, -1 if not set, dropped in others.
    pub current_leader_epoch: i32,
    /// `int64`.
    pub fetch_offset: i64,
    /// `int32`, in versions from 12, -1 if not set.
    pub last_fetched_epoch: i32,
    /// `int64`, in versions from 5, -1 if not set, dropped in others.
    pub log_start_offset: i64,
    /// `int32`.
    pub partition_max_bytes: i32,
    /// `uuid`, tag 0, in versions from 17, dropped in others.
    pub replica_directory_id: Uuid,
    /// `int64`, tag 1, in version 18, 9223372036854775807 if not set, dropped in others.
    pub high_watermark: i64,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for FetchPartition {
    fn default() -> Self {
        Self {
            partition: 0,
            current_leader_epoch: -1,
            fetch_offset: 0,
            last_fetched_epoch: -1,
            log_start_offset: -1,
            partition_max_bytes: 0,
            replica_directory_id: Uuid::ZERO,
            high_watermark: i64::MAX,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl FetchPartition {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 12;
        let mut message = Self::default();
        message.partition = reader.i32()?;
        if version >= 9 {
            message.current_leader_epoch = reader.i32()?;
        }
        message.fetch_offset = reader.i64()?;
        if version >= 12 {
            message.last_fetched_epoch = reader.i32()?;
        }
        if version >= 5 {
            message.log_start_offset = reader.i64()?;
        }
        message.partition_max_bytes = reader.i32()?;
        if flexible {
            let mut unknown = Vec::new();
            reader.tagged_fields(&mut unknown, |tag, reader| {
                match tag {
                    0 if version >= 17 => message.replica_directory_id = reader.uuid()?,
                    1 if version >= 18 => message.high_watermark = reader.i64()?,
                    _ => return Ok(false),
                }
                Ok(true)
            })?;
            message.unknown_tagged_fields = unknown;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 12;
        writer.put_i32(self.partition);
        if version >= 9 {
            writer.put_i32(self.current_leader_epoch);
        }
        writer.put_i64(self.fetch_offset);
        if version >= 12 {
            writer.put_i32(self.last_fetched_epoch);
        } else if self.last_fetched_epoch != -1 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "FetchPartition",
                field: "last_fetched_epoch",
                version,
            });
        }
        if version >= 5 {
            writer.put_i64(self.log_start_offset);
        }
        writer.put_i32(self.partition_max_bytes);
        if flexible {
            let mut tagged = TaggedFields::default();
            if version >= 17 && !self.replica_directory_id.is_zero() {
                tagged.add(0, |writer| {
                    writer.put_slice(&self.replica_directory_id.0);
                    Ok(())
                })?;
            }
            if version >= 18 && self.high_watermark != i64::MAX {
                tagged.add(1, |writer| {
                    writer.put_i64(self.high_watermark);
                    Ok(())
                })?;
            }
            tagged.write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "FetchPartition",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`FetchRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ForgottenTopic {
    /// `string`, in versions 7 to 12, dropped in others.
    pub topic: String,
    /// `uuid`, in versions from 13, dropped in others.
    pub topic_id: Uuid,
    /// `[]int32`, in versions from 7.
    pub partitions: Vec<i32>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl ForgottenTopic {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 12;
        let mut message = Self::default();
        if (7..=12).contains(&version) {
            message.topic = reader.string(flexible)?;
        }
        if version >= 13 {
            message.topic_id = reader.uuid()?;
        }
        if version >= 7 {
            message.partitions = reader.array(flexible, 4, Reader::i32)?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 12;
        if (7..=12).contains(&version) {
            wire::put_string(writer, &self.topic, flexible)?;
        }
        if version >= 13 {
            writer.put_slice(&self.topic_id.0);
        }
        if version >= 7 {
            wire::put_array(writer, &self.partitions, flexible, |writer, it| {
                writer.put_i32(*it);
                Ok(())
            })?;
        } else if !self.partitions.is_empty() {
            return Err(EncodeError::FieldNotInVersion { owner: "ForgottenTopic", field: "partitions", version });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "ForgottenTopic",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
