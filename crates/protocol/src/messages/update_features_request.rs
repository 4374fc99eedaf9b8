//! `UpdateFeaturesRequest`: request, versions 0-2, all flexible.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-2, all flexible.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateFeaturesRequest {
    /// `int32`, 60000 if not set.
    pub timeout_ms: i32,
    /// `[]FeatureUpdateKey`.
    pub feature_updates: Vec<FeatureUpdateKey>,
    /// `bool`, in versions from 1.
    pub validate_only: bool,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for UpdateFeaturesRequest {
    fn default() -> Self {
        Self { timeout_ms: 60000, feature_updates: Vec::new(), validate_only: false, unknown_tagged_fields: Vec::new() }
    }
}

impl Message for UpdateFeaturesRequest {
    const NAME: &'static str = "UpdateFeaturesRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=2;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        message.timeout_ms = reader.i32()?;
        message.feature_updates = reader.array(true, 5, |reader| FeatureUpdateKey::decode(reader, version))?;
        if version >= 1 {
            message.validate_only = reader.bool()?;
        }
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        writer.put_i32(self.timeout_ms);
        wire::put_array(writer, &self.feature_updates, true, |writer, it| it.write(writer, version))?;
        if version >= 1 {
            wire::put_bool(writer, self.validate_only);
        } else if self.validate_only {
            return Err(EncodeError::FieldNotInVersion {
                owner: "UpdateFeaturesRequest",
                field: "validate_only",
                version,
            });
        }
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`UpdateFeaturesRequest`].
#[derive(Clone, Debug, PartialEq)]
pub struct FeatureUpdateKey {
    /// `string`.
    pub feature: String,
    /// `int16`.
    pub max_version_level: i16,
    /// `bool`, in version 0.
    pub allow_downgrade: bool,
    /// `int8`, in versions from 1, 1 if not set.
    pub upgrade_type: i8,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for FeatureUpdateKey {
    fn default() -> Self {
        Self {
            feature: String::new(),
            max_version_level: 0,
            allow_downgrade: false,
            upgrade_type: 1,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl FeatureUpdateKey {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.feature = reader.string(true)?;
        message.max_version_level = reader.i16()?;
        if version == 0 {
            message.allow_downgrade = reader.bool()?;
        }
        if version >= 1 {
            message.upgrade_type = reader.i8()?;
        }
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        wire::put_string(writer, &self.feature, true)?;
        writer.put_i16(self.max_version_level);
        if version == 0 {
            wire::put_bool(writer, self.allow_downgrade);
        } else if self.allow_downgrade {
            return Err(EncodeError::FieldNotInVersion {
                owner: "FeatureUpdateKey",
                field: "allow_downgrade",
                version,
            });
        }
        if version >= 1 {
            writer.put_i8(self.upgrade_type);
        } else if self.upgrade_type != 1 {
            return Err(EncodeError::FieldNotInVersion { owner: "FeatureUpdateKey", field: "upgrade_type", version });
        }
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}
