//! `ListTransactionsRequest`: request, versions 0-2, all flexible.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-2, all flexible.
#[derive(Clone, Debug, PartialEq)]
pub struct ListTransactionsRequest {
    /// `[]string`.
    pub state_filters: Vec<String>,
    /// `[]int64`.
    pub producer_id_filters: Vec<i64>,
    /// `int64`, in versions from 1, -1 if not set.
    pub duration_filter: i64,
    /// `string`, in version 2, may be null.
    pub transactional_id_pattern: Option<String>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for ListTransactionsRequest {
    fn default() -> Self {
        Self {
            state_filters: Vec::new(),
            producer_id_filters: Vec::new(),
            duration_filter: -1,
            transactional_id_pattern: None,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl Message for ListTransactionsRequest {
    const NAME: &'static str = "ListTransactionsRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=2;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        message.state_filters = reader.array(true, 1, |reader| reader.string(true))?;
        message.producer_id_filters = reader.array(true, 8, Reader::i64)?;
        if version >= 1 {
            message.duration_filter = reader.i64()?;
        }
        if version >= 2 {
            message.transactional_id_pattern = reader.nullable_string(true)?;
        }
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        wire::put_array(writer, &self.state_filters, true, |writer, it| wire::put_string(writer, it, true))?;
        wire::put_array(writer, &self.producer_id_filters, true, |writer, it| {
            writer.put_i64(*it);
            Ok(())
        })?;
        if version >= 1 {
            writer.put_i64(self.duration_filter);
        } else if self.duration_filter != -1 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "ListTransactionsRequest",
                field: "duration_filter",
                version,
            });
        }
        if version >= 2 {
            wire::put_nullable_string(writer, self.transactional_id_pattern.as_deref(), true)?;
        } else if self.transactional_id_pattern.is_some() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "ListTransactionsRequest",
                field: "transactional_id_pattern",
                version,
            });
        }
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}
