//! `TransactionLogValue`: embedded message, versions 0-1, flexible from 1.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-1, flexible from 1.
#[derive(Clone, Debug, PartialEq)]
pub struct TransactionLogValue {
    /// `int64`.
    pub producer_id: i64,
    /// `int64`, tag 0, in version 1, -1 if not set.
    pub previous_producer_id: i64,
    /// `int64`, tag 1, in version 1, -1 if not set.
    pub next_producer_id: i64,
    /// `int16`.
    pub producer_epoch: i16,
    /// `int16`, tag 3, in version 1, -1 if not set.
    pub next_producer_epoch: i16,
    /// `int32`.
    pub transaction_timeout_ms: i32,
    /// `int8`.
    pub transaction_status: i8,
    /// `[]PartitionsSchema`, may be null.
    pub transaction_partitions: Option<Vec<PartitionsSchema>>,
    /// `int64`.
    pub transaction_last_update_timestamp_ms: i64,
    /// `int64`.
    pub transaction_start_timestamp_ms: i64,
    /// `int16`, tag 2, in version 1.
    pub client_transaction_version: i16,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Default for TransactionLogValue {
    fn default() -> Self {
        Self {
            producer_id: 0,
            previous_producer_id: -1,
            next_producer_id: -1,
            producer_epoch: 0,
            next_producer_epoch: -1,
            transaction_timeout_ms: 0,
            transaction_status: 0,
            transaction_partitions: Some(Vec::new()),
            transaction_last_update_timestamp_ms: 0,
            transaction_start_timestamp_ms: 0,
            client_transaction_version: 0,
            unknown_tagged_fields: Vec::new(),
        }
    }
}

impl Message for TransactionLogValue {
    const NAME: &'static str = "TransactionLogValue";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=1;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 1;
        let mut message = Self::default();
        message.producer_id = reader.i64()?;
        message.producer_epoch = reader.i16()?;
        message.transaction_timeout_ms = reader.i32()?;
        message.transaction_status = reader.i8()?;
        message.transaction_partitions =
            reader.nullable_array(flexible, 3, |reader| PartitionsSchema::decode(reader, version))?;
        message.transaction_last_update_timestamp_ms = reader.i64()?;
        message.transaction_start_timestamp_ms = reader.i64()?;
        if flexible {
            let mut unknown = Vec::new();
            reader.tagged_fields(&mut unknown, |tag, reader| {
                match tag {
                    0 => message.previous_producer_id = reader.i64()?,
                    1 => message.next_producer_id = reader.i64()?,
                    3 => message.next_producer_epoch = reader.i16()?,
                    2 => message.client_transaction_version = reader.i16()?,
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
        let flexible = version >= 1;
        writer.put_i64(self.producer_id);
        if version < 1 && self.previous_producer_id != -1 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "TransactionLogValue",
                field: "previous_producer_id",
                version,
            });
        }
        if version < 1 && self.next_producer_id != -1 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "TransactionLogValue",
                field: "next_producer_id",
                version,
            });
        }
        writer.put_i16(self.producer_epoch);
        if version < 1 && self.next_producer_epoch != -1 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "TransactionLogValue",
                field: "next_producer_epoch",
                version,
            });
        }
        writer.put_i32(self.transaction_timeout_ms);
        writer.put_i8(self.transaction_status);
        wire::put_nullable_array(writer, self.transaction_partitions.as_deref(), flexible, |writer, it| {
            it.write(writer, version)
        })?;
        writer.put_i64(self.transaction_last_update_timestamp_ms);
        writer.put_i64(self.transaction_start_timestamp_ms);
        if version < 1 && self.client_transaction_version != 0 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "TransactionLogValue",
                field: "client_transaction_version",
                version,
            });
        }
        if flexible {
            let mut tagged = TaggedFields::default();
            if self.previous_producer_id != -1 {
                tagged.add(0, |writer| {
                    writer.put_i64(self.previous_producer_id);
                    Ok(())
                })?;
            }
            if self.next_producer_id != -1 {
                tagged.add(1, |writer| {
                    writer.put_i64(self.next_producer_id);
                    Ok(())
                })?;
            }
            if self.next_producer_epoch != -1 {
                tagged.add(3, |writer| {
                    writer.put_i16(self.next_producer_epoch);
                    Ok(())
                })?;
            }
            if self.client_transaction_version != 0 {
                tagged.add(2, |writer| {
                    writer.put_i16(self.client_transaction_version);
                    Ok(())
                })?;
            }
            tagged.write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "TransactionLogValue",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`TransactionLogValue`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartitionsSchema {
    /// `string`.
    pub topic: String,
    /// `[]int32`.
    pub partition_ids: Vec<i32>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl PartitionsSchema {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 1;
        let mut message = Self::default();
        message.topic = reader.string(flexible)?;
        message.partition_ids = reader.array(flexible, 4, Reader::i32)?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 1;
        wire::put_string(writer, &self.topic, flexible)?;
        wire::put_array(writer, &self.partition_ids, flexible, |writer, it| {
            writer.put_i32(*it);
            Ok(())
        })?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "PartitionsSchema",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
