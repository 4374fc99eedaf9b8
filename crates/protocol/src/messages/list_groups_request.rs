//! `ListGroupsRequest`: request, versions 0-5, flexible from 3.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-5, flexible from 3.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListGroupsRequest {
    /// `[]string`, in versions from 4.
    pub states_filter: Vec<String>,
    /// `[]string`, in version 5.
    pub types_filter: Vec<String>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for ListGroupsRequest {
    const NAME: &'static str = "ListGroupsRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=5;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 3;
        let mut message = Self::default();
        if version >= 4 {
            message.states_filter = reader.array(flexible, 1, |reader| reader.string(flexible))?;
        }
        if version >= 5 {
            message.types_filter = reader.array(flexible, 1, |reader| reader.string(flexible))?;
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
        if version >= 4 {
            wire::put_array(writer, &self.states_filter, flexible, |writer, it| {
                wire::put_string(writer, it, flexible)
            })?;
        } else if !self.states_filter.is_empty() {
            return Err(EncodeError::FieldNotInVersion { owner: "ListGroupsRequest", field: "states_filter", version });
        }
        if version >= 5 {
            wire::put_array(writer, &self.types_filter, flexible, |writer, it| wire::put_string(writer, it, flexible))?;
        } else if !self.types_filter.is_empty() {
            return Err(EncodeError::FieldNotInVersion { owner: "ListGroupsRequest", field: "types_filter", version });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "ListGroupsRequest",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
