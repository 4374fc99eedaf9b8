//! `ListConfigResourcesRequest`: request, versions 0-1, all flexible.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-1, all flexible.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListConfigResourcesRequest {
    /// `[]int8`, in version 1.
    pub resource_types: Vec<i8>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for ListConfigResourcesRequest {
    const NAME: &'static str = "ListConfigResourcesRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=1;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        if version >= 1 {
            message.resource_types = reader.array(true, 1, Reader::i8)?;
        }
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        if version >= 1 {
            wire::put_array(writer, &self.resource_types, true, |writer, it| {
                writer.put_i8(*it);
                Ok(())
            })?;
        } else if !self.resource_types.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "ListConfigResourcesRequest",
                field: "resource_types",
                version,
            });
        }
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}
