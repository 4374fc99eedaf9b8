//! `ListTransactionsResponse`: response, versions 0-2, all flexible.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-2, all flexible.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListTransactionsResponse {
    /// `int32`.
    pub throttle_time_ms: i32,
    /// `int16`.
    pub error_code: i16,
    /// `[]string`.
    pub unknown_state_filters: Vec<String>,
    /// `[]TransactionState`.
    pub transaction_states: Vec<TransactionState>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for ListTransactionsResponse {
    const NAME: &'static str = "ListTransactionsResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=2;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        message.throttle_time_ms = reader.i32()?;
        message.error_code = reader.i16()?;
        message.unknown_state_filters = reader.array(true, 1, |reader| reader.string(true))?;
        message.transaction_states = reader.array(true, 11, |reader| TransactionState::decode(reader, version))?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        writer.put_i32(self.throttle_time_ms);
        writer.put_i16(self.error_code);
        wire::put_array(writer, &self.unknown_state_filters, true, |writer, it| wire::put_string(writer, it, true))?;
        wire::put_array(writer, &self.transaction_states, true, |writer, it| it.write(writer, version))?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        each(self.error_code);
    }
}

/// A part of [`ListTransactionsResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TransactionState {
    /// `string`.
    pub transactional_id: String,
    /// `int64`.
    pub producer_id: i64,
    /// `string`.
    pub transaction_state: String,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl TransactionState {
    fn decode(reader: &mut Reader, _version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.transactional_id = reader.string(true)?;
        message.producer_id = reader.i64()?;
        message.transaction_state = reader.string(true)?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, _version: i16) -> Result<(), EncodeError> {
        wire::put_string(writer, &self.transactional_id, true)?;
        writer.put_i64(self.producer_id);
        wire::put_string(writer, &self.transaction_state, true)?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}
