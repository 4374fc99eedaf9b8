//! `DescribeTransactionsResponse`: response, versions 0, all flexible.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0, all flexible.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeTransactionsResponse {
    /// `int32`.
    pub throttle_time_ms: i32,
    /// `[]TransactionState`.
    pub transaction_states: Vec<TransactionState>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for DescribeTransactionsResponse {
    const NAME: &'static str = "DescribeTransactionsResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=0;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        message.throttle_time_ms = reader.i32()?;
        message.transaction_states = reader.array(true, 28, |reader| TransactionState::decode(reader, version))?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        writer.put_i32(self.throttle_time_ms);
        wire::put_array(writer, &self.transaction_states, true, |writer, it| it.write(writer, version))?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        for it in &self.transaction_states {
            it.error_codes(each);
        }
    }
}

/// A part of [`DescribeTransactionsResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TransactionState {
    /// `int16`.
    pub error_code: i16,
    /// `string`.
    pub transactional_id: String,
    /// `string`.
    pub transaction_state: String,
    /// `int32`.
    pub transaction_timeout_ms: i32,
    /// `int64`.
    pub transaction_start_time_ms: i64,
    /// `int64`.
    pub producer_id: i64,
    /// `int16`.
    pub producer_epoch: i16,
    /// `[]TopicData`.
    pub topics: Vec<TopicData>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl TransactionState {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.error_code = reader.i16()?;
        message.transactional_id = reader.string(true)?;
        message.transaction_state = reader.string(true)?;
        message.transaction_timeout_ms = reader.i32()?;
        message.transaction_start_time_ms = reader.i64()?;
        message.producer_id = reader.i64()?;
        message.producer_epoch = reader.i16()?;
        message.topics = reader.array(true, 3, |reader| TopicData::decode(reader, version))?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        writer.put_i16(self.error_code);
        wire::put_string(writer, &self.transactional_id, true)?;
        wire::put_string(writer, &self.transaction_state, true)?;
        writer.put_i32(self.transaction_timeout_ms);
        writer.put_i64(self.transaction_start_time_ms);
        writer.put_i64(self.producer_id);
        writer.put_i16(self.producer_epoch);
        wire::put_array(writer, &self.topics, true, |writer, it| it.write(writer, version))?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        each(self.error_code);
    }
}

/// A part of [`DescribeTransactionsResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicData {
    /// `string`.
    pub topic: String,
    /// `[]int32`.
    pub partitions: Vec<i32>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl TopicData {
    fn decode(reader: &mut Reader, _version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.topic = reader.string(true)?;
        message.partitions = reader.array(true, 4, Reader::i32)?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, _version: i16) -> Result<(), EncodeError> {
        wire::put_string(writer, &self.topic, true)?;
        wire::put_array(writer, &self.partitions, true, |writer, it| {
            writer.put_i32(*it);
            Ok(())
        })?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}
