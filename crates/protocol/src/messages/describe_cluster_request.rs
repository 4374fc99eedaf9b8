//! `DescribeClusterRequest`: request, versions 0-2, all flexible.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-2, all flexible.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribeClusterRequest {
    /// `bool`.
    pub include_cluster_authorized_operations: bool,
    /// `int8`, in versions from 1, 1 if not set.
    pub endpoint_type: i8,
    /// `bool`, in version 2.
    pub include_fenced_brokers: bool,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for DescribeClusterRequest {
    fn default() -> Self {
        Self {
            include_cluster_authorized_operations: false,
            endpoint_type: 1,
            include_fenced_brokers: false,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl Message for DescribeClusterRequest {
    const NAME: &'static str = "DescribeClusterRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=2;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        message.include_cluster_authorized_operations = reader.bool()?;
        if version >= 1 {
            message.endpoint_type = reader.i8()?;
        }
        if version >= 2 {
            message.include_fenced_brokers = reader.bool()?;
        }
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        wire::put_bool(writer, self.include_cluster_authorized_operations);
        if version >= 1 {
            writer.put_i8(self.endpoint_type);
        } else if self.endpoint_type != 1 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DescribeClusterRequest",
                field: "endpoint_type",
                version,
            });
        }
        if version >= 2 {
            wire::put_bool(writer, self.include_fenced_brokers);
        } else if self.include_fenced_brokers {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DescribeClusterRequest",
                field: "include_fenced_brokers",
                version,
            });
        }
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}
