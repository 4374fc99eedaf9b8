//! `AddPartitionsToTxnResponse`: response, versions 0-5, flexible from 3.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-5, flexible from 3.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddPartitionsToTxnResponse {
    /// `int32`.
    pub throttle_time_ms: i32,
    /// `int16`, in versions from 4, dropped in others.
    pub error_code: i16,
    /// `[]AddPartitionsToTxnResult`, in versions from 4.
    pub results_by_transaction: Vec<AddPartitionsToTxnResult>,
    /// `[]AddPartitionsToTxnTopicResult`, in versions 0 to 3.
    pub results_by_topic_v3_and_below: Vec<AddPartitionsToTxnTopicResult>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for AddPartitionsToTxnResponse {
    const NAME: &'static str = "AddPartitionsToTxnResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=5;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 3;
        let mut message = Self::default();
        message.throttle_time_ms = reader.i32()?;
        if version >= 4 {
            message.error_code = reader.i16()?;
        }
        if version >= 4 {
            message.results_by_transaction =
                reader.array(flexible, 1, |reader| AddPartitionsToTxnResult::decode(reader, version))?;
        }
        if version <= 3 {
            message.results_by_topic_v3_and_below =
                reader.array(flexible, 3, |reader| AddPartitionsToTxnTopicResult::decode(reader, version))?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 3;
        writer.put_i32(self.throttle_time_ms);
        if version >= 4 {
            writer.put_i16(self.error_code);
        }
        if version >= 4 {
            wire::put_array(writer, &self.results_by_transaction, flexible, |writer, it| it.write(writer, version))?;
        } else if !self.results_by_transaction.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "AddPartitionsToTxnResponse",
                field: "results_by_transaction",
                version,
            });
        }
        if version <= 3 {
            wire::put_array(writer, &self.results_by_topic_v3_and_below, flexible, |writer, it| {
                it.write(writer, version)
            })?;
        } else if !self.results_by_topic_v3_and_below.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "AddPartitionsToTxnResponse",
                field: "results_by_topic_v3_and_below",
                version,
            });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "AddPartitionsToTxnResponse",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        each(self.error_code);
        for it in &self.results_by_transaction {
            it.error_codes(each);
        }
        for it in &self.results_by_topic_v3_and_below {
            it.error_codes(each);
        }
    }
}

/// A part of [`AddPartitionsToTxnResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddPartitionsToTxnResult {
    /// `string`, in versions from 4.
    pub transactional_id: String,
    /// `[]AddPartitionsToTxnTopicResult`, in versions from 4.
    pub topic_results: Vec<AddPartitionsToTxnTopicResult>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl AddPartitionsToTxnResult {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 3;
        let mut message = Self::default();
        if version >= 4 {
            message.transactional_id = reader.string(flexible)?;
        }
        if version >= 4 {
            message.topic_results =
                reader.array(flexible, 3, |reader| AddPartitionsToTxnTopicResult::decode(reader, version))?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 3;
        if version >= 4 {
            wire::put_string(writer, &self.transactional_id, flexible)?;
        } else if !self.transactional_id.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "AddPartitionsToTxnResult",
                field: "transactional_id",
                version,
            });
        }
        if version >= 4 {
            wire::put_array(writer, &self.topic_results, flexible, |writer, it| it.write(writer, version))?;
        } else if !self.topic_results.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "AddPartitionsToTxnResult",
                field: "topic_results",
                version,
            });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "AddPartitionsToTxnResult",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        for it in &self.topic_results {
            it.error_codes(each);
        }
    }
}

/// A part of [`AddPartitionsToTxnResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddPartitionsToTxnTopicResult {
    /// `string`.
    pub name: String,
    /// `[]AddPartitionsToTxnPartitionResult`.
    pub results_by_partition: Vec<AddPartitionsToTxnPartitionResult>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl AddPartitionsToTxnTopicResult {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 3;
        let mut message = Self::default();
        message.name = reader.string(flexible)?;
        message.results_by_partition =
            reader.array(flexible, 6, |reader| AddPartitionsToTxnPartitionResult::decode(reader, version))?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 3;
        wire::put_string(writer, &self.name, flexible)?;
        wire::put_array(writer, &self.results_by_partition, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "AddPartitionsToTxnTopicResult",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        for it in &self.results_by_partition {
            it.error_codes(each);
        }
    }
}

/// A part of [`AddPartitionsToTxnResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddPartitionsToTxnPartitionResult {
    /// `int32`.
    pub partition_index: i32,
    /// `int16`.
    pub partition_error_code: i16,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl AddPartitionsToTxnPartitionResult {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 3;
        let mut message = Self::default();
        message.partition_index = reader.i32()?;
        message.partition_error_code = reader.i16()?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 3;
        writer.put_i32(self.partition_index);
        writer.put_i16(self.partition_error_code);
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "AddPartitionsToTxnPartitionResult",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        each(self.partition_error_code);
    }
}
