//! `DescribeLogDirsResponse`: response, versions 1-5, flexible from 2.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 1-5, flexible from 2.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeLogDirsResponse {
    /// `int32`.
    pub throttle_time_ms: i32,
    /// `int16`, in versions from 3, dropped in others.
    pub error_code: i16,
    /// `[]DescribeLogDirsResult`.
    pub results: Vec<DescribeLogDirsResult>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for DescribeLogDirsResponse {
    const NAME: &'static str = "DescribeLogDirsResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 1..=5;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 2;
        let mut message = Self::default();
        message.throttle_time_ms = reader.i32()?;
        if version >= 3 {
            message.error_code = reader.i16()?;
        }
        message.results = reader.array(flexible, 5, |reader| DescribeLogDirsResult::decode(reader, version))?;
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
        if version >= 3 {
            writer.put_i16(self.error_code);
        }
        wire::put_array(writer, &self.results, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DescribeLogDirsResponse",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        each(self.error_code);
        for it in &self.results {
            it.error_codes(each);
        }
    }
}

/// A part of [`DescribeLogDirsResponse`].
#[derive(Clone, Debug, PartialEq)]
pub struct DescribeLogDirsResult {
    /// `int16`.
    pub error_code: i16,
    /// `string`.
    pub log_dir: String,
    /// `[]DescribeLogDirsTopic`.
    pub topics: Vec<DescribeLogDirsTopic>,
    /// `int64`, in versions from 4, -1 if not set, dropped in others.
    pub total_bytes: i64,
    /// `int64`, in versions from 4, -1 if not set, dropped in others.
    pub usable_bytes: i64,
    /// `bool`, in version 5, dropped in others.
    pub is_cordoned: bool,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for DescribeLogDirsResult {
    fn default() -> Self {
        Self {
            error_code: 0,
            log_dir: String::new(),
            topics: Vec::new(),
            total_bytes: -1,
            usable_bytes: -1,
            is_cordoned: false,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl DescribeLogDirsResult {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 2;
        let mut message = Self::default();
        message.error_code = reader.i16()?;
        message.log_dir = reader.string(flexible)?;
        message.topics = reader.array(flexible, 3, |reader| DescribeLogDirsTopic::decode(reader, version))?;
        if version >= 4 {
            message.total_bytes = reader.i64()?;
        }
        if version >= 4 {
            message.usable_bytes = reader.i64()?;
        }
        if version >= 5 {
            message.is_cordoned = reader.bool()?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 2;
        writer.put_i16(self.error_code);
        wire::put_string(writer, &self.log_dir, flexible)?;
        wire::put_array(writer, &self.topics, flexible, |writer, it| it.write(writer, version))?;
        if version >= 4 {
            writer.put_i64(self.total_bytes);
        }
        if version >= 4 {
            writer.put_i64(self.usable_bytes);
        }
        if version >= 5 {
            wire::put_bool(writer, self.is_cordoned);
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DescribeLogDirsResult",
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

/// A part of [`DescribeLogDirsResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeLogDirsTopic {
    /// `string`.
    pub name: String,
    /// `[]DescribeLogDirsPartition`.
    pub partitions: Vec<DescribeLogDirsPartition>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl DescribeLogDirsTopic {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 2;
        let mut message = Self::default();
        message.name = reader.string(flexible)?;
        message.partitions = reader.array(flexible, 21, |reader| DescribeLogDirsPartition::decode(reader, version))?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 2;
        wire::put_string(writer, &self.name, flexible)?;
        wire::put_array(writer, &self.partitions, flexible, |writer, it| it.write(writer, version))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DescribeLogDirsTopic",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`DescribeLogDirsResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeLogDirsPartition {
    /// `int32`.
    pub partition_index: i32,
    /// `int64`.
    pub partition_size: i64,
    /// `int64`.
    pub offset_lag: i64,
    /// `bool`.
    pub is_future_key: bool,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl DescribeLogDirsPartition {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 2;
        let mut message = Self::default();
        message.partition_index = reader.i32()?;
        message.partition_size = reader.i64()?;
        message.offset_lag = reader.i64()?;
        message.is_future_key = reader.bool()?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 2;
        writer.put_i32(self.partition_index);
        writer.put_i64(self.partition_size);
        writer.put_i64(self.offset_lag);
        wire::put_bool(writer, self.is_future_key);
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DescribeLogDirsPartition",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
