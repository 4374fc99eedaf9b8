//! `ApiVersionsResponse`: response, versions 0-5, flexible from 3.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-5, flexible from 3.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiVersionsResponse {
    /// `int16`.
    pub error_code: i16,
    /// `[]ApiVersion`.
    pub api_keys: Vec<ApiVersion>,
    /// `int32`, in versions from 1, dropped in others.
    pub throttle_time_ms: i32,
    /// `[]SupportedFeatureKey`, tag 0, in versions from 3, dropped in others.
    pub supported_features: Vec<SupportedFeatureKey>,
    /// `int64`, tag 1, in versions from 3, -1 if not set, dropped in others.
    pub finalized_features_epoch: i64,
    /// `[]FinalizedFeatureKey`, tag 2, in versions from 3, dropped in others.
    pub finalized_features: Vec<FinalizedFeatureKey>,
    /// `bool`, tag 3, in versions from 3, dropped in others.
    pub zk_migration_ready: bool,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for ApiVersionsResponse {
    fn default() -> Self {
        Self {
            error_code: 0,
            api_keys: Vec::new(),
            throttle_time_ms: 0,
            supported_features: Vec::new(),
            finalized_features_epoch: -1,
            finalized_features: Vec::new(),
            zk_migration_ready: false,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl Message for ApiVersionsResponse {
    const NAME: &'static str = "ApiVersionsResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=5;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 3;
        let mut message = Self::default();
        message.error_code = reader.i16()?;
        message.api_keys = reader.array(flexible, 6, |reader| ApiVersion::decode(reader, version))?;
        if version >= 1 {
            message.throttle_time_ms = reader.i32()?;
        }
        if flexible {
            let mut unknown = Vec::new();
            reader.tagged_fields(&mut unknown, |tag, reader| {
                match tag {
                    0 => {
                        message.supported_features =
                            reader.array(flexible, 1, |reader| SupportedFeatureKey::decode(reader, version))?
                    }
                    1 => message.finalized_features_epoch = reader.i64()?,
                    2 => {
                        message.finalized_features =
                            reader.array(flexible, 1, |reader| FinalizedFeatureKey::decode(reader, version))?
                    }
                    3 => message.zk_migration_ready = reader.bool()?,
                    _ => return Ok(false),
                }
                Ok(true)
            })?;
            message.unknown_tagged_fields = unknown;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 3;
        writer.put_i16(self.error_code);
        wire::put_array(writer, &self.api_keys, flexible, |writer, it| it.write(writer, version))?;
        if version >= 1 {
            writer.put_i32(self.throttle_time_ms);
        }
        if flexible {
            let mut tagged = TaggedFields::default();
            if !self.supported_features.is_empty() {
                tagged.add(0, |writer| {
                    wire::put_array(writer, &self.supported_features, flexible, |writer, it| {
                        it.write(writer, version)
                    })?;
                    Ok(())
                })?;
            }
            if self.finalized_features_epoch != -1 {
                tagged.add(1, |writer| {
                    writer.put_i64(self.finalized_features_epoch);
                    Ok(())
                })?;
            }
            if !self.finalized_features.is_empty() {
                tagged.add(2, |writer| {
                    wire::put_array(writer, &self.finalized_features, flexible, |writer, it| {
                        it.write(writer, version)
                    })?;
                    Ok(())
                })?;
            }
            if self.zk_migration_ready {
                tagged.add(3, |writer| {
                    wire::put_bool(writer, self.zk_migration_ready);
                    Ok(())
                })?;
            }
            tagged.write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "ApiVersionsResponse",
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

/// A part of [`ApiVersionsResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApiVersion {
    /// `int16`.
    pub api_key: i16,
    /// `int16`.
    pub min_version: i16,
    /// `int16`.
    pub max_version: i16,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl ApiVersion {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 3;
        let mut message = Self::default();
        message.api_key = reader.i16()?;
        message.min_version = reader.i16()?;
        message.max_version = reader.i16()?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 3;
        writer.put_i16(self.api_key);
        writer.put_i16(self.min_version);
        writer.put_i16(self.max_version);
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "ApiVersion",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`ApiVersionsResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SupportedFeatureKey {
    /// `string`, in versions from 3.
    pub name: String,
    /// `int16`, in versions from 3.
    pub min_version: i16,
    /// `int16`, in versions from 3.
    pub max_version: i16,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl SupportedFeatureKey {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 3;
        let mut message = Self::default();
        if version >= 3 {
            message.name = reader.string(flexible)?;
        }
        if version >= 3 {
            message.min_version = reader.i16()?;
        }
        if version >= 3 {
            message.max_version = reader.i16()?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 3;
        if version >= 3 {
            wire::put_string(writer, &self.name, flexible)?;
        } else if !self.name.is_empty() {
            return Err(EncodeError::FieldNotInVersion { owner: "SupportedFeatureKey", field: "name", version });
        }
        if version >= 3 {
            writer.put_i16(self.min_version);
        } else if self.min_version != 0 {
            return Err(EncodeError::FieldNotInVersion { owner: "SupportedFeatureKey", field: "min_version", version });
        }
        if version >= 3 {
            writer.put_i16(self.max_version);
        } else if self.max_version != 0 {
            return Err(EncodeError::FieldNotInVersion { owner: "SupportedFeatureKey", field: "max_version", version });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "SupportedFeatureKey",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`ApiVersionsResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FinalizedFeatureKey {
    /// `string`, in versions from 3.
    pub name: String,
    /// `int16`, in versions from 3.
    pub max_version_level: i16,
    /// `int16`, in versions from 3.
    pub min_version_level: i16,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl FinalizedFeatureKey {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 3;
        let mut message = Self::default();
        if version >= 3 {
            message.name = reader.string(flexible)?;
        }
        if version >= 3 {
            message.max_version_level = reader.i16()?;
        }
        if version >= 3 {
            message.min_version_level = reader.i16()?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 3;
        if version >= 3 {
            wire::put_string(writer, &self.name, flexible)?;
        } else if !self.name.is_empty() {
            return Err(EncodeError::FieldNotInVersion { owner: "FinalizedFeatureKey", field: "name", version });
        }
        if version >= 3 {
            writer.put_i16(self.max_version_level);
        } else if self.max_version_level != 0 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "FinalizedFeatureKey",
                field: "max_version_level",
                version,
            });
        }
        if version >= 3 {
            writer.put_i16(self.min_version_level);
        } else if self.min_version_level != 0 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "FinalizedFeatureKey",
                field: "min_version_level",
                version,
            });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "FinalizedFeatureKey",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
