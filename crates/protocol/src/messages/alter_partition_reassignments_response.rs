//! `AlterPartitionReassignmentsResponse`: response, versions 0-1, all flexible.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-1, all flexible.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterPartitionReassignmentsResponse {
    /// `int32`.
    pub throttle_time_ms: i32,
    /// `bool`, in version 1, true if not set, dropped in others.
    pub allow_replication_factor_change: bool,
    /// `int16`.
    pub error_code: i16,
    /// `string`, may be null.
    pub error_message: Option<String>,
    /// `[]ReassignableTopicResponse`.
    pub responses: Vec<ReassignableTopicResponse>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for AlterPartitionReassignmentsResponse {
    fn default() -> Self {
        Self {
            throttle_time_ms: 0,
            allow_replication_factor_change: true,
            error_code: 0,
            error_message: Some(String::new()),
            responses: Vec::new(),
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl Message for AlterPartitionReassignmentsResponse {
    const NAME: &'static str = "AlterPartitionReassignmentsResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=1;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        message.throttle_time_ms = reader.i32()?;
        if version >= 1 {
            message.allow_replication_factor_change = reader.bool()?;
        }
        message.error_code = reader.i16()?;
        message.error_message = reader.nullable_string(true)?;
        message.responses = reader.array(true, 3, |reader| ReassignableTopicResponse::decode(reader, version))?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        writer.put_i32(self.throttle_time_ms);
        if version >= 1 {
            wire::put_bool(writer, self.allow_replication_factor_change);
        }
        writer.put_i16(self.error_code);
        wire::put_nullable_string(writer, self.error_message.as_deref(), true)?;
        wire::put_array(writer, &self.responses, true, |writer, it| it.write(writer, version))?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        each(self.error_code);
        for it in &self.responses {
            it.error_codes(each);
        }
    }
}

/// A part of [`AlterPartitionReassignmentsResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReassignableTopicResponse {
    /// `string`.
    pub name: String,
    /// `[]ReassignablePartitionResponse`.
    pub partitions: Vec<ReassignablePartitionResponse>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl ReassignableTopicResponse {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.name = reader.string(true)?;
        message.partitions = reader.array(true, 8, |reader| ReassignablePartitionResponse::decode(reader, version))?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        wire::put_string(writer, &self.name, true)?;
        wire::put_array(writer, &self.partitions, true, |writer, it| it.write(writer, version))?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        for it in &self.partitions {
            it.error_codes(each);
        }
    }
}

/// A part of [`AlterPartitionReassignmentsResponse`].
#[derive(Clone, Debug, PartialEq)]
pub struct ReassignablePartitionResponse {
    /// `int32`.
    pub partition_index: i32,
    /// `int16`.
    pub error_code: i16,
    /// `string`, may be null.
    pub error_message: Option<String>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for ReassignablePartitionResponse {
    fn default() -> Self {
        Self {
            partition_index: 0,
            error_code: 0,
            error_message: Some(String::new()),
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl ReassignablePartitionResponse {
    fn decode(reader: &mut Reader, _version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.partition_index = reader.i32()?;
        message.error_code = reader.i16()?;
        message.error_message = reader.nullable_string(true)?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, _version: i16) -> Result<(), EncodeError> {
        writer.put_i32(self.partition_index);
        writer.put_i16(self.error_code);
        wire::put_nullable_string(writer, self.error_message.as_deref(), true)?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        each(self.error_code);
    }
}
