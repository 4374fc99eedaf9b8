//! `ElectLeadersResponse`: response, versions 0-2, flexible from 2.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-2, flexible from 2.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ElectLeadersResponse {
    /// `int32`.
    pub throttle_time_ms: i32,
    /// `int16`, in versions from 1.
    pub error_code: i16,
    /// `[]ReplicaElectionResult`.
    pub replica_election_results: Vec<ReplicaElectionResult>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for ElectLeadersResponse {
    const NAME: &'static str = "ElectLeadersResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=2;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 2;
        let mut message = Self::default();
        message.throttle_time_ms = reader.i32()?;
        if version >= 1 {
            message.error_code = reader.i16()?;
        }
        message.replica_election_results =
            reader.array(flexible, 3, |reader| ReplicaElectionResult::decode(reader, version))?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 2;
        writer.put_i32(self.throttle_time_ms);
        if version >= 1 {
            writer.put_i16(self.error_code);
        } else if self.error_code != 0 {
            return Err(EncodeError::FieldNotInVersion { owner: "ElectLeadersResponse", field: "error_code", version });
        }
        wire::put_array(writer, &self.replica_election_results, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "ElectLeadersResponse",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        each(self.error_code);
        for it in &self.replica_election_results {
            it.error_codes(each);
        }
    }
}

/// A part of [`ElectLeadersResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplicaElectionResult {
    /// `string`.
    pub topic: String,
    /// `[]PartitionResult`.
    pub partition_result: Vec<PartitionResult>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl ReplicaElectionResult {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 2;
        let mut message = Self::default();
        message.topic = reader.string(flexible)?;
        message.partition_result = reader.array(flexible, 8, |reader| PartitionResult::decode(reader, version))?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 2;
        wire::put_string(writer, &self.topic, flexible)?;
        wire::put_array(writer, &self.partition_result, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "ReplicaElectionResult",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        for it in &self.partition_result {
            it.error_codes(each);
        }
    }
}

/// A part of [`ElectLeadersResponse`].
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionResult {
    /// `int32`.
    pub partition_id: i32,
    /// `int16`.
    pub error_code: i16,
    /// `string`, may be null.
    pub error_message: Option<String>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for PartitionResult {
    fn default() -> Self {
        Self { partition_id: 0, error_code: 0, error_message: Some(String::new()), unknown_tagged_fields: Vec::new() }
    }
}

impl PartitionResult {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 2;
        let mut message = Self::default();
        message.partition_id = reader.i32()?;
        message.error_code = reader.i16()?;
        message.error_message = reader.nullable_string(flexible)?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 2;
        writer.put_i32(self.partition_id);
        writer.put_i16(self.error_code);
        wire::put_nullable_string(writer, self.error_message.as_deref(), flexible)?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "PartitionResult",
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
