//! `DeleteGroupsRequest`: request, versions 0-3, flexible from 2.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-3, flexible from 2.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteGroupsRequest {
    /// `[]string`.
    pub groups_names: Vec<String>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for DeleteGroupsRequest {
    const NAME: &'static str = "DeleteGroupsRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=3;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 2;
        let mut message = Self::default();
        message.groups_names = reader.array(flexible, 1, |reader| reader.string(flexible))?;
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
        wire::put_array(writer, &self.groups_names, flexible, |writer, it| wire::put_string(writer, it, flexible))?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "DeleteGroupsRequest",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
