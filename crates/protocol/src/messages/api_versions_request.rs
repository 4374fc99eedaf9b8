//! `ApiVersionsRequest`: request, versions 0-5, flexible from 3.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-5, flexible from 3.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiVersionsRequest {
    /// `string`, in versions from 3, dropped in others.
    pub client_software_name: String,
    /// `string`, in versions from 3, dropped in others.
    pub client_software_version: String,
    /// `string`, in version 5, may be null, dropped in others.
    pub cluster_id: Option<String>,
    /// `int32`, in version 5, -1 if not set, dropped in others.
    pub node_id: i32,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for ApiVersionsRequest {
    fn default() -> Self {
        Self {
            client_software_name: String::new(),
            client_software_version: String::new(),
            cluster_id: None,
            node_id: -1,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl Message for ApiVersionsRequest {
    const NAME: &'static str = "ApiVersionsRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=5;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 3;
        let mut message = Self::default();
        if version >= 3 {
            message.client_software_name = reader.string(flexible)?;
        }
        if version >= 3 {
            message.client_software_version = reader.string(flexible)?;
        }
        if version >= 5 {
            message.cluster_id = reader.nullable_string(flexible)?;
        }
        if version >= 5 {
            message.node_id = reader.i32()?;
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
        if version >= 3 {
            wire::put_string(writer, &self.client_software_name, flexible)?;
        }
        if version >= 3 {
            wire::put_string(writer, &self.client_software_version, flexible)?;
        }
        if version >= 5 {
            wire::put_nullable_string(writer, self.cluster_id.as_deref(), flexible)?;
        }
        if version >= 5 {
            writer.put_i32(self.node_id);
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "ApiVersionsRequest",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
