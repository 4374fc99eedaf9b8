//! `FindCoordinatorResponse`: response, versions 0-6, flexible from 3.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-6, flexible from 3.
#[derive(Clone, Debug, PartialEq)]
pub struct FindCoordinatorResponse {
    /// `int32`, in versions from 1, dropped in others.
    pub throttle_time_ms: i32,
    /// `int16`, in versions 0 to 3.
    pub error_code: i16,
    /// `string`, in versions 1 to 3, may be null, dropped in others.
    pub error_message: Option<String>,
    /// `int32`, in versions 0 to 3.
    pub node_id: i32,
    /// `string`, in versions 0 to 3.
    pub host: String,
    /// `int32`, in versions 0 to 3.
    pub port: i32,
    /// `[]Coordinator`, in versions from 4.
    pub coordinators: Vec<Coordinator>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for FindCoordinatorResponse {
    fn default() -> Self {
        Self {
            throttle_time_ms: 0,
            error_code: 0,
            error_message: Some(String::new()),
            node_id: 0,
            host: String::new(),
            port: 0,
            coordinators: Vec::new(),
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl Message for FindCoordinatorResponse {
    const NAME: &'static str = "FindCoordinatorResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=6;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 3;
        let mut message = Self::default();
        if version >= 1 {
            message.throttle_time_ms = reader.i32()?;
        }
        if version <= 3 {
            message.error_code = reader.i16()?;
        }
        if (1..=3).contains(&version) {
            message.error_message = reader.nullable_string(flexible)?;
        }
        if version <= 3 {
            message.node_id = reader.i32()?;
        }
        if version <= 3 {
            message.host = reader.string(flexible)?;
        }
        if version <= 3 {
            message.port = reader.i32()?;
        }
        if version >= 4 {
            message.coordinators = reader.array(flexible, 1, |reader| Coordinator::decode(reader, version))?;
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
        if version >= 1 {
            writer.put_i32(self.throttle_time_ms);
        }
        if version <= 3 {
            writer.put_i16(self.error_code);
        } else if self.error_code != 0 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "FindCoordinatorResponse",
                field: "error_code",
                version,
            });
        }
        if (1..=3).contains(&version) {
            wire::put_nullable_string(writer, self.error_message.as_deref(), flexible)?;
        }
        if version <= 3 {
            writer.put_i32(self.node_id);
        } else if self.node_id != 0 {
            return Err(EncodeError::FieldNotInVersion { owner: "FindCoordinatorResponse", field: "node_id", version });
        }
        if version <= 3 {
            wire::put_string(writer, &self.host, flexible)?;
        } else if !self.host.is_empty() {
            return Err(EncodeError::FieldNotInVersion { owner: "FindCoordinatorResponse", field: "host", version });
        }
        if version <= 3 {
            writer.put_i32(self.port);
        } else if self.port != 0 {
            return Err(EncodeError::FieldNotInVersion { owner: "FindCoordinatorResponse", field: "port", version });
        }
        if version >= 4 {
            wire::put_array(writer, &self.coordinators, flexible, |writer, it| it.write(writer, version))?;
        } else if !self.coordinators.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "FindCoordinatorResponse",
                field: "coordinators",
                version,
            });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "FindCoordinatorResponse",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        each(self.error_code);
        for it in &self.coordinators {
            it.error_codes(each);
        }
    }
}

/// A part of [`FindCoordinatorResponse`].
#[derive(Clone, Debug, PartialEq)]
pub struct Coordinator {
    /// `string`, in versions from 4.
    pub key: String,
    /// `int32`, in versions from 4.
    pub node_id: i32,
    /// `string`, in versions from 4.
    pub host: String,
    /// `int32`, in versions from 4.
    pub port: i32,
    /// `int16`, in versions from 4.
    pub error_code: i16,
    /// `string`, in versions from 4, may be null, dropped in others.
    pub error_message: Option<String>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for Coordinator {
    fn default() -> Self {
        Self {
            key: String::new(),
            node_id: 0,
            host: String::new(),
            port: 0,
            error_code: 0,
            error_message: Some(String::new()),
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl Coordinator {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 3;
        let mut message = Self::default();
        if version >= 4 {
            message.key = reader.string(flexible)?;
        }
        if version >= 4 {
            message.node_id = reader.i32()?;
        }
        if version >= 4 {
            message.host = reader.string(flexible)?;
        }
        if version >= 4 {
            message.port = reader.i32()?;
        }
        if version >= 4 {
            message.error_code = reader.i16()?;
        }
        if version >= 4 {
            message.error_message = reader.nullable_string(flexible)?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 3;
        if version >= 4 {
            wire::put_string(writer, &self.key, flexible)?;
        } else if !self.key.is_empty() {
            return Err(EncodeError::FieldNotInVersion { owner: "Coordinator", field: "key", version });
        }
        if version >= 4 {
            writer.put_i32(self.node_id);
        } else if self.node_id != 0 {
            return Err(EncodeError::FieldNotInVersion { owner: "Coordinator", field: "node_id", version });
        }
        if version >= 4 {
            wire::put_string(writer, &self.host, flexible)?;
        } else if !self.host.is_empty() {
            return Err(EncodeError::FieldNotInVersion { owner: "Coordinator", field: "host", version });
        }
        if version >= 4 {
            writer.put_i32(self.port);
        } else if self.port != 0 {
            return Err(EncodeError::FieldNotInVersion { owner: "Coordinator", field: "port", version });
        }
        if version >= 4 {
            writer.put_i16(self.error_code);
        } else if self.error_code != 0 {
            return Err(EncodeError::FieldNotInVersion { owner: "Coordinator", field: "error_code", version });
        }
        if version >= 4 {
            wire::put_nullable_string(writer, self.error_message.as_deref(), flexible)?;
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "Coordinator",
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
