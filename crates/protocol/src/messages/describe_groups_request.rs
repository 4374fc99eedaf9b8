//! `DescribeGroupsRequest`: request, versions 0-6, flexible from 5.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-6, flexible from 5.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeGroupsRequest {
    /// `[]string`.
    pub groups: Vec<String>,
    /// `bool`, in versions from 3.
    pub include_authorized_operations: bool,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for DescribeGroupsRequest {
    const NAME: &'static str = "DescribeGroupsRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=6;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 5;
        let mut message = Self::default();
        message.groups = reader.array(flexible, 1, |reader| reader.string(flexible))?;
        if version >= 3 {
            message.include_authorized_operations = reader.bool()?;
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
        let flexible = version >= 5;
        wire::put_array(writer, &self.groups, flexible, |writer, it| wire::put_string(writer, it, flexible))?;
        if version >= 3 {
            wire::put_bool(writer, self.include_authorized_operations);
        } else if self.include_authorized_operations {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DescribeGroupsRequest",
                field: "include_authorized_operations",
                version,
            });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DescribeGroupsRequest",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
