//! `DescribeClusterResponse`: response, versions 0-2, all flexible.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-2, all flexible.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribeClusterResponse {
    /// `int32`.
    pub throttle_time_ms: i32,
    /// `int16`.
    pub error_code: i16,
    /// `string`, may be null.
    pub error_message: Option<String>,
    /// `int8`, in versions from 1, 1 if not set.
    pub endpoint_type: i8,
    /// `string`.
    pub cluster_id: String,
    /// `int32`, -1 if not set.
    pub controller_id: i32,
    /// `[]DescribeClusterBroker`.
    pub brokers: Vec<DescribeClusterBroker>,
    /// `int32`, -2147483648 if not set.
    pub cluster_authorized_operations: i32,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for DescribeClusterResponse {
    fn default() -> Self {
        Self {
            throttle_time_ms: 0,
            error_code: 0,
            error_message: None,
            endpoint_type: 1,
            cluster_id: String::new(),
            controller_id: -1,
            brokers: Vec::new(),
            cluster_authorized_operations: i32::MIN,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl Message for DescribeClusterResponse {
    const NAME: &'static str = "DescribeClusterResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=2;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        message.throttle_time_ms = reader.i32()?;
        message.error_code = reader.i16()?;
        message.error_message = reader.nullable_string(true)?;
        if version >= 1 {
            message.endpoint_type = reader.i8()?;
        }
        message.cluster_id = reader.string(true)?;
        message.controller_id = reader.i32()?;
        message.brokers = reader.array(true, 11, |reader| DescribeClusterBroker::decode(reader, version))?;
        message.cluster_authorized_operations = reader.i32()?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        writer.put_i32(self.throttle_time_ms);
        writer.put_i16(self.error_code);
        wire::put_nullable_string(writer, self.error_message.as_deref(), true)?;
        if version >= 1 {
            writer.put_i8(self.endpoint_type);
        } else if self.endpoint_type != 1 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DescribeClusterResponse",
                field: "endpoint_type",
                version,
            });
        }
        wire::put_string(writer, &self.cluster_id, true)?;
        writer.put_i32(self.controller_id);
        wire::put_array(writer, &self.brokers, true, |writer, it| it.write(writer, version))?;
        writer.put_i32(self.cluster_authorized_operations);
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        each(self.error_code);
    }
}

/// A part of [`DescribeClusterResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeClusterBroker {
    /// `int32`.
    pub broker_id: i32,
    /// `string`.
    pub host: String,
    /// `int32`.
    pub port: i32,
    /// `string`, may be null.
    pub rack: Option<String>,
    /// `bool`, in version 2.
    pub is_fenced: bool,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl DescribeClusterBroker {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.broker_id = reader.i32()?;
        message.host = reader.string(true)?;
        message.port = reader.i32()?;
        message.rack = reader.nullable_string(true)?;
        if version >= 2 {
            message.is_fenced = reader.bool()?;
        }
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        writer.put_i32(self.broker_id);
        wire::put_string(writer, &self.host, true)?;
        writer.put_i32(self.port);
        wire::put_nullable_string(writer, self.rack.as_deref(), true)?;
        if version >= 2 {
            wire::put_bool(writer, self.is_fenced);
        } else if self.is_fenced {
            return Err(EncodeError::FieldNotInVersion { owner: "DescribeClusterBroker", field: "is_fenced", version });
        }
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}
