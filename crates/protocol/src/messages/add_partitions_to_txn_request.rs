//! `AddPartitionsToTxnRequest`: request, versions 0-5, flexible from 3.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 0-5, flexible from 3.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddPartitionsToTxnRequest {
    /// `[]AddPartitionsToTxnTransaction`, in versions from 4.
    pub transactions: Vec<AddPartitionsToTxnTransaction>,
    /// `string`, in versions 0 to 3.
    pub v3_and_below_transactional_id: String,
    /// `int64`, in versions 0 to 3.
    pub v3_and_below_producer_id: i64,
    /// `int16`, in versions 0 to 3.
    pub v3_and_below_producer_epoch: i16,
    /// `[]AddPartitionsToTxnTopic`, in versions 0 to 3.
    pub v3_and_below_topics: Vec<AddPartitionsToTxnTopic>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for AddPartitionsToTxnRequest {
    const NAME: &'static str = "AddPartitionsToTxnRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=5;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let flexible = version >= 3;
        let mut message = Self::default();
        if version >= 4 {
            message.transactions =
                reader.array(flexible, 1, |reader| AddPartitionsToTxnTransaction::decode(reader, version))?;
        }
        if version <= 3 {
            message.v3_and_below_transactional_id = reader.string(flexible)?;
        }
        if version <= 3 {
            message.v3_and_below_producer_id = reader.i64()?;
        }
        if version <= 3 {
            message.v3_and_below_producer_epoch = reader.i16()?;
        }
        if version <= 3 {
            message.v3_and_below_topics =
                reader.array(flexible, 3, |reader| AddPartitionsToTxnTopic::decode(reader, version))?;
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
        if version >= 4 {
            wire::put_array(writer, &self.transactions, flexible, |writer, it| it.write(writer, version))?;
        } else if !self.transactions.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "AddPartitionsToTxnRequest",
                field: "transactions",
                version,
            });
        }
        if version <= 3 {
            wire::put_string(writer, &self.v3_and_below_transactional_id, flexible)?;
        } else if !self.v3_and_below_transactional_id.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "AddPartitionsToTxnRequest",
                field: "v3_and_below_transactional_id",
                version,
            });
        }
        if version <= 3 {
            writer.put_i64(self.v3_and_below_producer_id);
        } else if self.v3_and_below_producer_id != 0 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "AddPartitionsToTxnRequest",
                field: "v3_and_below_producer_id",
                version,
            });
        }
        if version <= 3 {
            writer.put_i16(self.v3_and_below_producer_epoch);
        } else if self.v3_and_below_producer_epoch != 0 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "AddPartitionsToTxnRequest",
                field: "v3_and_below_producer_epoch",
                version,
            });
        }
        if version <= 3 {
            wire::put_array(writer, &self.v3_and_below_topics, flexible, |writer, it| it.write(writer, version))?;
        } else if !self.v3_and_below_topics.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "AddPartitionsToTxnRequest",
                field: "v3_and_below_topics",
                version,
            });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "AddPartitionsToTxnRequest",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`AddPartitionsToTxnRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddPartitionsToTxnTransaction {
    /// `string`, in versions from 4.
    pub transactional_id: String,
    /// `int64`, in versions from 4.
    pub producer_id: i64,
    /// `int16`, in versions from 4.
    pub producer_epoch: i16,
    /// `bool`, in versions from 4.
    pub verify_only: bool,
    /// `[]AddPartitionsToTxnTopic`, in versions from 4.
    pub topics: Vec<AddPartitionsToTxnTopic>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl AddPartitionsToTxnTransaction {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 3;
        let mut message = Self::default();
        if version >= 4 {
            message.transactional_id = reader.string(flexible)?;
        }
        if version >= 4 {
            message.producer_id = reader.i64()?;
        }
        if version >= 4 {
            message.producer_epoch = reader.i16()?;
        }
        if version >= 4 {
            message.verify_only = reader.bool()?;
        }
        if version >= 4 {
            message.topics = reader.array(flexible, 3, |reader| AddPartitionsToTxnTopic::decode(reader, version))?;
        }
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 3;
        if version >= 4 {
            wire::put_string(writer, &self.transactional_id, flexible)?;
        } else if !self.transactional_id.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "AddPartitionsToTxnTransaction",
                field: "transactional_id",
                version,
            });
        }
        if version >= 4 {
            writer.put_i64(self.producer_id);
        } else if self.producer_id != 0 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "AddPartitionsToTxnTransaction",
                field: "producer_id",
                version,
            });
        }
        if version >= 4 {
            writer.put_i16(self.producer_epoch);
        } else if self.producer_epoch != 0 {
            return Err(EncodeError::FieldNotInVersion {
                owner: "AddPartitionsToTxnTransaction",
                field: "producer_epoch",
                version,
            });
        }
        if version >= 4 {
            wire::put_bool(writer, self.verify_only);
        } else if self.verify_only {
            return Err(EncodeError::FieldNotInVersion {
                owner: "AddPartitionsToTxnTransaction",
                field: "verify_only",
                version,
            });
        }
        if version >= 4 {
            wire::put_array(writer, &self.topics, flexible, |writer, it| it.write(writer, version))?;
        } else if !self.topics.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "AddPartitionsToTxnTransaction",
                field: "topics",
                version,
            });
        }
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "AddPartitionsToTxnTransaction",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}

/// A part of [`AddPartitionsToTxnRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddPartitionsToTxnTopic {
    /// `string`.
    pub name: String,
    /// `[]int32`.
    pub partitions: Vec<i32>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl AddPartitionsToTxnTopic {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 3;
        let mut message = Self::default();
        message.name = reader.string(flexible)?;
        message.partitions = reader.array(flexible, 4, Reader::i32)?;
        if flexible {
            reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        }
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 3;
        wire::put_string(writer, &self.name, flexible)?;
        wire::put_array(writer, &self.partitions, flexible, |writer, it| {
            writer.put_i32(*it);
            Ok(())
        })?;
        if flexible {
            TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        } else if !self.unknown_tagged_fields.is_empty() {
            return Err(EncodeError::FieldNotInVersion {
                owner: "AddPartitionsToTxnTopic",
                field: "unknown_tagged_fields",
                version,
            });
        }
        Ok(())
    }
}
