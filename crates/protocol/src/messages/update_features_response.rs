//! `UpdateFeaturesResponse`: response, versions 0-2, all flexible.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-2, all flexible.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateFeaturesResponse {
    /// `int32`.
    pub throttle_time_ms: i32,
    /// `int16`.
    pub error_code: i16,
    /// `string`, may be null.
    pub error_message: Option<String>,
    /// `[]UpdatableFeatureResult`, in versions 0 to 1, dropped in others.
    pub results: Vec<UpdatableFeatureResult>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for UpdateFeaturesResponse {
    fn default() -> Self {
        Self {
            throttle_time_ms: 0,
            error_code: 0,
            error_message: Some(String::new()),
            results: Vec::new(),
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl Message for UpdateFeaturesResponse {
    const NAME: &'static str = "UpdateFeaturesResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=2;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        message.throttle_time_ms = reader.i32()?;
        message.error_code = reader.i16()?;
        message.error_message = reader.nullable_string(true)?;
        if version <= 1 {
            message.results = reader.array(true, 5, |reader| UpdatableFeatureResult::decode(reader, version))?;
        }
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
        if version <= 1 {
            wire::put_array(writer, &self.results, true, |writer, it| it.write(writer, version))?;
        }
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        each(self.error_code);
        for it in &self.results {
            it.error_codes(each);
        }
    }
}

/// A part of [`UpdateFeaturesResponse`].
#[derive(Clone, Debug, PartialEq)]
pub struct UpdatableFeatureResult {
    /// `string`.
    pub feature: String,
    /// `int16`.
    pub error_code: i16,
    /// `string`, may be null.
    pub error_message: Option<String>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for UpdatableFeatureResult {
    fn default() -> Self {
        Self {
            feature: String::new(),
            error_code: 0,
            error_message: Some(String::new()),
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl UpdatableFeatureResult {
    fn decode(reader: &mut Reader, _version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.feature = reader.string(true)?;
        message.error_code = reader.i16()?;
        message.error_message = reader.nullable_string(true)?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, _version: i16) -> Result<(), EncodeError> {
        wire::put_string(writer, &self.feature, true)?;
        writer.put_i16(self.error_code);
        wire::put_nullable_string(writer, self.error_message.as_deref(), true)?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        each(self.error_code);
    }
}
