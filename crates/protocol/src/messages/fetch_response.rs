//! `FetchResponse`: response, versions 4-18, flexible from 12.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use atonce_kernel::Uuid;
use bytes::{BufMut, Bytes};

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 4-18, flexible from 12.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FetchResponse {
    /// `int32`.
    pub throttle_time_ms: i32,
    /// `int16`, in versions from 7, dropped in others.
    pub error_code: i16,
    /// `int32`, in versions from 7.
    pub session_id: i32,
    /// `[]FetchableTopicResponse`.
    pub responses: Vec<FetchableTopicResponse>,
    /// `[]NodeEndpoint`, tag 0, in versions from 16.
    pub node_endpoints: Vec<NodeEndpoint>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for FetchResponse {
    const NAME: &'static str = "FetchResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 4..=18;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 12;
        let mut message = Self::default();
        message.throttle_time_ms = reader.i32()?;
        if version >= 7 {
            message.error_code = reader.i16()?;
        }
        if version >= 7 {
            message.session_id = reader.i32()?;
        }
        message.responses = reader.array(flexible, 3, |reader| FetchableTopicResponse::decode(reader, version))?;
        if flexible {
            let mut unknown = Vec::new();
            reader.tagged_fields(&mut unknown, |tag, reader| {
                match tag {
                    0 if version >= 16 => {
                        message.node_endpoints =
                            reader.array(flexible, 1, |reader| NodeEndpoint::decode(reader, version))?
                    }
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
        writer.put_i32(self.throttle_time_ms);
        if version >= 7 {
            writer.put_i16(self.error_code);
        }
        if version >= 7 {
            writer.put_i32(self.session_id);
        } else if self.session_id != 0 {
            return Err(EncodeError::FieldNotInVersion { owner: "FetchResponse", field: "session_id", version });
        }
        wire::put_array(writer, &self.responses, flexible, |writer, it| it.write(writer, version))?;
        if version < 16 && !self.node_endpoints.is_empty() {
            return Err(EncodeError::FieldNotInVersion { owner: "FetchResponse", field: "node_endpoints", version });
        }
        if flexible {
            let mut tagged = TaggedFields::default();
            if version >= 16 && !self.node_endpoints.is_empty() {
                tagged.add(0, |writer| {
                    wire::put_array(writer, &self.node_endpoints, flexible, |writer, it| it.write(writer, version))?;
                    Ok(())
                })?;
            }
            tagged.write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "FetchResponse",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        each(self.error_code);
        for it in &self.responses {
            it.error_codes(each);
        }
    }
}

/// A part of [`FetchResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FetchableTopicResponse {
    /// `string`, in versions 4 to 12, dropped in others.
    pub topic: String,
    /// `uuid`, in versions from 13, dropped in others.
    pub topic_id: Uuid,
    /// `[]PartitionData`.
    pub partitions: Vec<PartitionData>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl FetchableTopicResponse {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 12;
        let mut message = Self::default();
        if version <= 12 {
            message.topic = reader.string(flexible)?;
        }
        if version >= 13 {
            message.topic_id = reader.uuid()?;
        }
        message.partitions = reader.array(flexible, 30, |reader| PartitionData::decode(reader, version))?;
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
                owner: "FetchableTopicResponse",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        for it in &self.partitions {
            it.error_codes(each);
        }
    }
}

/// A part of [`FetchResponse`].
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionData {
    /// `int32`.
    pub partition_index: i32,
    /// `int16`.
    pub error_code: i16,
    /// `int64`.
    pub high_watermark: i64,
    /// `int64`, -1 if not set.
    pub last_stable_offset: i64,
    /// `int64`, in versions from 5, -1 if not set, dropped in others.
    pub log_start_offset: i64,
    /// `EpochEndOffset`, tag 0, in versions from 12.
    pub diverging_epoch: EpochEndOffset,
    /// `LeaderIdAndEpoch`, tag 1, in versions from 12.
    pub current_leader: LeaderIdAndEpoch,
    /// `SnapshotId`, tag 2, in versions from 12.
    pub snapshot_id: SnapshotId,
    /// `[]AbortedTransaction`, may be null.
    pub aborted_transactions: Option<Vec<AbortedTransaction>>,
    /// `int32`, in versions from 11, -1 if not set.
    pub preferred_read_replica: i32,
    /// `records`, may be null.
    pub records: Option<Bytes>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for PartitionData {
    fn default() -> Self {
        Self {
            partition_index: 0,
            error_code: 0,
            high_watermark: 0,
            last_stable_offset: -1,
            log_start_offset: -1,
            diverging_epoch: EpochEndOffset::default(),
            current_leader: LeaderIdAndEpoch::default(),
            snapshot_id: SnapshotId::default(),
            aborted_transactions: Some(Vec::new()),
            preferred_read_replica: -1,
            records: None,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl PartitionData {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 12;
        let mut message = Self::default();
        message.partition_index = reader.i32()?;
        message.error_code = reader.i16()?;
        message.high_watermark = reader.i64()?;
        message.last_stable_offset = reader.i64()?;
        if version >= 5 {
            message.log_start_offset = reader.i64()?;
        }
        message.aborted_transactions =
            reader.nullable_array(flexible, 16, |reader| AbortedTransaction::decode(reader, version))?;
        if version >= 11 {
            message.preferred_read_replica = reader.i32()?;
        }
        message.records = reader.nullable_bytes(flexible)?;
        if flexible {
            let mut unknown = Vec::new();
            reader.tagged_fields(&mut unknown, |tag, reader| {
                match tag {
                    0 => message.diverging_epoch = EpochEndOffset::decode(reader, version)?,
                    1 => message.current_leader = LeaderIdAndEpoch::decode(reader, version)?,
                    2 => message.snapshot_id = SnapshotId::decode(reader, version)?,
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
        writer.put_i32(self.partition_index);
        writer.put_i16(self.error_code);
        writer.put_i64(self.high_watermark);
        writer.put_i64(self.last_stable_offset);
        if version >= 5 {
            writer.put_i64(self.log_start_offset);
        }
        if version < 12 && self.diverging_epoch != EpochEndOffset::default() {
            return Err(EncodeError::FieldNotInVersion { owner: "PartitionData", field: "diverging_epoch", version });
        }
        if version < 12 && self.current_leader != LeaderIdAndEpoch::default() {
            return Err(EncodeError::FieldNotInVersion { owner: "PartitionData", field: "current_leader", version });
        }
        if version < 12 && self.snapshot_id != SnapshotId::default() {
            return Err(EncodeError::FieldNotInVersion { owner: "PartitionData", field: "snapshot_id", version });
        }
        wire::put_nullable_array(writer, self.aborted_transactions.as_deref(), flexible, |writer, it| {
            it.write(writer, version)
        })?;
        if version >= 11 {
            writer.put_i32(self.preferred_read_replica);
        } else if self.preferred_read_replica != -1 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "PartitionData",
                field: "preferred_read_replica",
                version,
            });
        }
        wire::put_records(writer, self.records.as_deref(), flexible)?;
        if flexible {
            let mut tagged = TaggedFields::default();
            if self.diverging_epoch != EpochEndOffset::default() {
                tagged.add(0, |writer| {
                    self.diverging_epoch.write(writer, version)?;
                    Ok(())
                })?;
            }
            if self.current_leader != LeaderIdAndEpoch::default() {
                tagged.add(1, |writer| {
                    self.current_leader.write(writer, version)?;
                    Ok(())
                })?;
            }
            if self.snapshot_id != SnapshotId::default() {
                tagged.add(2, |writer| {
                    self.snapshot_id.write(writer, version)?;
                    Ok(())
                })?;
            }
            tagged.write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "PartitionData",
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

/// A part of [`FetchResponse`].
#[derive(Clone, Debug, PartialEq)]
pub struct EpochEndOffset {
    /// `int32`, in versions from 12, -1 if not set.
    pub epoch: i32,
    /// `int64`, in versions from 12, -1 if not set.
    pub end_offset: i64,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for EpochEndOffset {
    fn default() -> Self {
        Self { epoch: -1, end_offset: -1, unknown_tagged_fields: Vec::new() }
    }
}

impl EpochEndOffset {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 12;
        let mut message = Self::default();
        if version >= 12 {
            message.epoch = reader.i32()?;
        }
        if version >= 12 {
            message.end_offset = reader.i64()?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 12;
        if version >= 12 {
            writer.put_i32(self.epoch);
        } else if self.epoch != -1 {
            return Err(EncodeError::FieldNotInVersion { owner: "EpochEndOffset", field: "epoch", version });
        }
        if version >= 12 {
            writer.put_i64(self.end_offset);
        } else if self.end_offset != -1 {
            return Err(EncodeError::FieldNotInVersion { owner: "EpochEndOffset", field: "end_offset", version });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "EpochEndOffset",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`FetchResponse`].
#[derive(Clone, Debug, PartialEq)]
pub struct LeaderIdAndEpoch {
    /// `int32`, in versions from 12, -1 if not set.
    pub leader_id: i32,
    /// `int32`, in versions from 12, -1 if not set.
    pub leader_epoch: i32,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for LeaderIdAndEpoch {
    fn default() -> Self {
        Self { leader_id: -1, leader_epoch: -1, unknown_tagged_fields: Vec::new() }
    }
}

impl LeaderIdAndEpoch {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 12;
        let mut message = Self::default();
        if version >= 12 {
            message.leader_id = reader.i32()?;
        }
        if version >= 12 {
            message.leader_epoch = reader.i32()?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 12;
        if version >= 12 {
            writer.put_i32(self.leader_id);
        } else if self.leader_id != -1 {
            return Err(EncodeError::FieldNotInVersion { owner: "LeaderIdAndEpoch", field: "leader_id", version });
        }
        if version >= 12 {
            writer.put_i32(self.leader_epoch);
        } else if self.leader_epoch != -1 {
            return Err(EncodeError::FieldNotInVersion { owner: "LeaderIdAndEpoch", field: "leader_epoch", version });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "LeaderIdAndEpoch",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`FetchResponse`].
#[derive(Clone, Debug, PartialEq)]
pub struct SnapshotId {
    /// `int64`, -1 if not set.
    pub end_offset: i64,
    /// `int32`, -1 if not set.
    pub epoch: i32,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for SnapshotId {
    fn default() -> Self {
        Self { end_offset: -1, epoch: -1, unknown_tagged_fields: Vec::new() }
    }
}

impl SnapshotId {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 12;
        let mut message = Self::default();
        message.end_offset = reader.i64()?;
        message.epoch = reader.i32()?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 12;
        writer.put_i64(self.end_offset);
        writer.put_i32(self.epoch);
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "SnapshotId",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`FetchResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AbortedTransaction {
    /// `int64`.
    pub producer_id: i64,
    /// `int64`.
    pub first_offset: i64,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl AbortedTransaction {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 12;
        let mut message = Self::default();
        message.producer_id = reader.i64()?;
        message.first_offset = reader.i64()?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 12;
        writer.put_i64(self.producer_id);
        writer.put_i64(self.first_offset);
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "AbortedTransaction",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`FetchResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeEndpoint {
    /// `int32`, in versions from 16.
    pub node_id: i32,
    /// `string`, in versions from 16.
    pub host: String,
    /// `int32`, in versions from 16.
    pub port: i32,
    /// `string`, in versions from 16, may be null.
    pub rack: Option<String>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl NodeEndpoint {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 12;
        let mut message = Self::default();
        if version >= 16 {
            message.node_id = reader.i32()?;
        }
        if version >= 16 {
            message.host = reader.string(flexible)?;
        }
        if version >= 16 {
            message.port = reader.i32()?;
        }
        if version >= 16 {
            message.rack = reader.nullable_string(flexible)?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 12;
        if version >= 16 {
            writer.put_i32(self.node_id);
        } else if self.node_id != 0 {
            return Err(EncodeError::FieldNotInVersion { owner: "NodeEndpoint", field: "node_id", version });
        }
        if version >= 16 {
            wire::put_string(writer, &self.host, flexible)?;
        } else if !self.host.is_empty() {
            return Err(EncodeError::FieldNotInVersion { owner: "NodeEndpoint", field: "host", version });
        }
        if version >= 16 {
            writer.put_i32(self.port);
        } else if self.port != 0 {
            return Err(EncodeError::FieldNotInVersion { owner: "NodeEndpoint", field: "port", version });
        }
        if version >= 16 {
            wire::put_nullable_string(writer, self.rack.as_deref(), flexible)?;
        } else if self.rack.is_some() {
            return Err(EncodeError::FieldNotInVersion { owner: "NodeEndpoint", field: "rack", version });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "NodeEndpoint",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
