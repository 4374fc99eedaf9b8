//! `OffsetCommitValue`: embedded message, versions 0-4, flexible from 4.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use atonce_kernel::Uuid;
use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-4, flexible from 4.
#[derive(Clone, Debug, PartialEq)]
pub struct OffsetCommitValue {
    /// `int64`.
    pub offset: i64,
    /// `int32`, in versions from 3, -1 if not set, dropped in others.
    pub leader_epoch: i32,
    /// `string`.
    pub metadata: String,
    /// `int64`.
    pub commit_timestamp: i64,
    /// `int64`, in version 1, -1 if not set, dropped in others.
    pub expire_timestamp: i64,
    /// `uuid`, tag 0, in version 4, dropped in others.
    pub topic_id: Uuid,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for OffsetCommitValue {
    fn default() -> Self {
        Self {
            offset: 0,
            leader_epoch: -1,
            metadata: String::new(),
            commit_timestamp: 0,
            expire_timestamp: -1,
            topic_id: Uuid::ZERO,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl Message for OffsetCommitValue {
    const NAME: &'static str = "OffsetCommitValue";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=4;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 4;
        let mut message = Self::default();
        message.offset = reader.i64()?;
        if version >= 3 {
            message.leader_epoch = reader.i32()?;
        }
        message.metadata = reader.string(flexible)?;
        message.commit_timestamp = reader.i64()?;
        if version == 1 {
            message.expire_timestamp = reader.i64()?;
        }
        if flexible {
            let mut unknown = Vec::new();
            reader.tagged_fields(&mut unknown, |tag, reader| {
                match tag {
                    0 => message.topic_id = reader.uuid()?,
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
        let flexible = version >= 4;
        writer.put_i64(self.offset);
        if version >= 3 {
            writer.put_i32(self.leader_epoch);
        }
        wire::put_string(writer, &self.metadata, flexible)?;
        writer.put_i64(self.commit_timestamp);
        if version == 1 {
            writer.put_i64(self.expire_timestamp);
        }
        if flexible {
            let mut tagged = TaggedFields::default();
            if !self.topic_id.is_zero() {
                tagged.add(0, |writer| {
                    writer.put_slice(&self.topic_id.0);
                    Ok(())
                })?;
            }
            tagged.write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "OffsetCommitValue",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
