//! `FindCoordinatorRequest`: request, versions 0-6, flexible from 3.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-6, flexible from 3.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FindCoordinatorRequest {
    /// `string`, in versions 0 to 3.
    pub key: String,
    /// `int8`, in versions from 1.
    pub key_type: i8,
    /// `[]string`, in versions from 4.
    pub coordinator_keys: Vec<String>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for FindCoordinatorRequest {
    const NAME: &'static str = "FindCoordinatorRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=6;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 3;
        let mut message = Self::default();
        if version <= 3 {
            message.key = reader.string(flexible)?;
        }
        if version >= 1 {
            message.key_type = reader.i8()?;
        }
        if version >= 4 {
            message.coordinator_keys = reader.array(flexible, 1, |reader| reader.string(flexible))?;
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
        if version <= 3 {
            wire::put_string(writer, &self.key, flexible)?;
        } else if !self.key.is_empty() {
            return Err(EncodeError::FieldNotInVersion { owner: "FindCoordinatorRequest", field: "key", version });
        }
        if version >= 1 {
            writer.put_i8(self.key_type);
        } else if self.key_type != 0 {
            return Err(EncodeError::FieldNotInVersion { owner: "FindCoordinatorRequest", field: "key_type", version });
        }
        if version >= 4 {
            wire::put_array(writer, &self.coordinator_keys, flexible, |writer, it| {
                wire::put_string(writer, it, flexible)
            })?;
        } else if !self.coordinator_keys.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "FindCoordinatorRequest",
                field: "coordinator_keys",
                version,
            });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "FindCoordinatorRequest",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
