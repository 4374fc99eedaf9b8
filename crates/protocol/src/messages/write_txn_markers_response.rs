//! `WriteTxnMarkersResponse`: response, versions 1-2, all flexible.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use bytes::BufMut;

use crate::wire::{self, DecodeError, EncodeError, Message, RawTaggedField, Reader, TaggedFields, Writer};

/// The message: versions 1-2, all flexible.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WriteTxnMarkersResponse {
    /// `[]WritableTxnMarkerResult`.
    pub markers: Vec<WritableTxnMarkerResult>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl Message for WriteTxnMarkersResponse {
    const NAME: &'static str = "WriteTxnMarkersResponse";
    const VERSIONS: std::ops::RangeInclusive<i16> = 1..=2;

    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        let mut message = Self::default();
        message.markers = reader.array(true, 10, |reader| WritableTxnMarkerResult::decode(reader, version))?;
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

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        for it in &self.markers {
            it.error_codes(each);
        }
    }
}

/// A part of [`WriteTxnMarkersResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WritableTxnMarkerResult {
    /// `int64`.
    pub producer_id: i64,
    /// `[]WritableTxnMarkerTopicResult`.
    pub topics: Vec<WritableTxnMarkerTopicResult>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl WritableTxnMarkerResult {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.producer_id = reader.i64()?;
        message.topics = reader.array(true, 3, |reader| WritableTxnMarkerTopicResult::decode(reader, version))?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        writer.put_i64(self.producer_id);
        wire::put_array(writer, &self.topics, true, |writer, it| it.write(writer, version))?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        for it in &self.topics {
            it.error_codes(each);
        }
    }
}

/// A part of [`WriteTxnMarkersResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WritableTxnMarkerTopicResult {
    /// `string`.
    pub name: String,
    /// `[]WritableTxnMarkerPartitionResult`.
    pub partitions: Vec<WritableTxnMarkerPartitionResult>,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl WritableTxnMarkerTopicResult {
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.name = reader.string(true)?;
        message.partitions =
            reader.array(true, 7, |reader| WritableTxnMarkerPartitionResult::decode(reader, version))?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        wire::put_string(writer, &self.name, true)?;
        wire::put_array(writer, &self.partitions, true, |writer, it| it.write(writer, version))?;
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        for it in &self.partitions {
            it.error_codes(each);
        }
    }
}

/// A part of [`WriteTxnMarkersResponse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WritableTxnMarkerPartitionResult {
    /// `int32`.
    pub partition_index: i32,
    /// `int16`.
    pub error_code: i16,
    /// Tagged fields that this code does not know, by rising tag.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl WritableTxnMarkerPartitionResult {
    fn decode(reader: &mut Reader, _version: i16) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.partition_index = reader.i32()?;
        message.error_code = reader.i16()?;
        reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;
        Ok(message)
    }

    fn write(&self, writer: &mut Writer, _version: i16) -> Result<(), EncodeError> {
        writer.put_i32(self.partition_index);
        writer.put_i16(self.error_code);
        TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;
        Ok(())
    }

    fn error_codes(&self, each: &mut dyn FnMut(i16)) {
        each(self.error_code);
    }
}
