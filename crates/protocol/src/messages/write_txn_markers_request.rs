//! `WriteTxnMarkersRequest`: request, versions 1-2, all flexible.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 1-2, all flexible.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WriteTxnMarkersRequest {
    /// `[]WritableTxnMarker`.
    pub markers: Vec<WritableTxnMarker>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for WriteTxnMarkersRequest {
    const NAME: &'static str = "WriteTxnMarkersRequest";
    const VERSIONS: std::ops::RangeInclusive<i16> = 1..=2;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        message.markers = reader.array(true, 17, |reader| WritableTxnMarker::decode(reader, version))?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        wire::put_array(writer, &self.markers, true, |writer, it| it.write(writer, version))?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`WriteTxnMarkersRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WritableTxnMarker {
    /// `int64`.
    pub producer_id: i64,
    /// `int16`.
    pub producer_epoch: i16,
    /// `bool`.
    pub transaction_result: bool,
    /// `[]WritableTxnMarkerTopic`.
    pub topics: Vec<WritableTxnMarkerTopic>,
    /// `int32`.
    pub coordinator_epoch: i32,
    /// `int8`, in version 2, dropped in others.
    pub transaction_version: i8,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl WritableTxnMarker {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.producer_id = reader.i64()?;
        message.producer_epoch = reader.i16()?;
        message.transaction_result = reader.bool()?;
        message.topics = reader.array(true, 3, |reader| WritableTxnMarkerTopic::decode(reader, version))?;
        message.coordinator_epoch = reader.i32()?;
        if version >= 2 {
            message.transaction_version = reader.i8()?;
        }
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        writer.put_i64(self.producer_id);
        writer.put_i16(self.producer_epoch);
        wire::put_bool(writer, self.transaction_result);
        wire::put_array(writer, &self.topics, true, |writer, it| it.write(writer, version))?;
        writer.put_i32(self.coordinator_epoch);
        if version >= 2 {
            writer.put_i8(self.transaction_version);
        }
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}

/// A part of [`WriteTxnMarkersRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WritableTxnMarkerTopic {
    /// `string`.
    pub name: String,
    /// `[]int32`.
    pub partition_indexes: Vec<i32>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl WritableTxnMarkerTopic {
    fn decode(reader: &mut Reader, _version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.name = reader.string(true)?;
        message.partition_indexes = reader.array(true, 4, Reader::i32)?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, _version: i16) -> Result<(), EncodeError> {
        wire::put_string(writer, &self.name, true)?;
        wire::put_array(writer, &self.partition_indexes, true, |writer, it| {
            writer.put_i32(*it);
            Ok(())
        })?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }
}
