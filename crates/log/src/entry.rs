//! What a journal group holds: the durable changes, one entry each.
//!
//! Layout: `kind u8 | length u32 (of the body) | body`, big-endian. Bodies are at the variants of [`Entry`]; text is
//! `length u32 | bytes`.

use std::collections::BTreeMap;
use std::ops::Range;

use atonce_kernel::{Offset, PartitionIndex, TopicId, TopicName, Uuid};
use bytes::{BufMut, BytesMut};

use crate::catalog::Topic;
use crate::fields::{Fields, put_counted};

/// Bytes of an entry before its body.
pub(crate) const ENTRY_OVERHEAD_BYTES: usize = 5;
/// Bytes of a batch entry before the batch itself.
pub(crate) const BATCH_OVERHEAD_BYTES: usize = ENTRY_OVERHEAD_BYTES + 20;

const BATCH: u8 = 1;
const TOPIC_CREATED: u8 = 2;
const TOPIC_DELETED: u8 = 3;
const PARTITIONS_ADDED: u8 = 4;
const CONFIG_ALTERED: u8 = 5;
const PRODUCER_IDS_RESERVED: u8 = 6;
const LOG_START_MOVED: u8 = 7;

/// A durable change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry<'a> {
    /// Kind 1: `topic_id 16 | partition i32 | the batch`, with the log's offset and leader epoch in it.
    Batch { topic_id: TopicId, partition: PartitionIndex, batch: &'a [u8] },
    /// Kind 2: `topic_id 16 | name text | partitions i32 | configs u32 | (key text | value text)…`.
    TopicCreated(Topic),
    /// Kind 3: `topic_id 16`.
    TopicDeleted { topic_id: TopicId },
    /// Kind 4: `topic_id 16 | partitions i32` (how many there are now).
    PartitionsAdded { topic_id: TopicId, partitions: PartitionIndex },
    /// Kind 5: `topic_id 16 | key text | present u8 | value text`.
    ConfigAltered { topic_id: TopicId, key: &'a str, value: Option<&'a str> },
    /// Kind 6: `next i64`: all ids below it are taken.
    ProducerIdsReserved { next: i64 },
    /// Kind 7: `topic_id 16 | partition i32 | offset i64`.
    LogStartMoved { topic_id: TopicId, partition: PartitionIndex, offset: Offset },
}

impl<'a> Entry<'a> {
    /// Appends the entry. For a batch, returns where in `buffer` its bytes stand.
    pub(crate) fn encode(&self, buffer: &mut BytesMut) -> Option<Range<usize>> {
        let start = buffer.len();
        buffer.put_u8(self.kind());
        buffer.put_u32(0);
        let body = buffer.len();
        let mut batch_range = None;
        match self {
            Self::Batch { topic_id, partition, batch } => {
                buffer.put_slice(&topic_id.0);
                buffer.put_i32(*partition);
                let batch_start = buffer.len();
                buffer.put_slice(batch);
                batch_range = Some(batch_start..buffer.len());
            }
            Self::TopicCreated(topic) => encode_topic(topic, buffer),
            Self::TopicDeleted { topic_id } => buffer.put_slice(&topic_id.0),
            Self::PartitionsAdded { topic_id, partitions } => {
                buffer.put_slice(&topic_id.0);
                buffer.put_i32(*partitions);
            }
            Self::ConfigAltered { topic_id, key, value } => {
                buffer.put_slice(&topic_id.0);
                put_counted(buffer, key.as_bytes());
                buffer.put_u8(u8::from(value.is_some()));
                put_counted(buffer, value.unwrap_or_default().as_bytes());
            }
            Self::ProducerIdsReserved { next } => buffer.put_i64(*next),
            Self::LogStartMoved { topic_id, partition, offset } => {
                buffer.put_slice(&topic_id.0);
                buffer.put_i32(*partition);
                buffer.put_i64(*offset);
            }
        }
        let length = u32::try_from(buffer.len() - body).expect("an entry fits into a group, which is below 4 GiB");
        if let Some(place) = buffer.get_mut(start + 1..body) {
            place.copy_from_slice(&length.to_be_bytes());
        }
        batch_range
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Batch { .. } => BATCH,
            Self::TopicCreated(_) => TOPIC_CREATED,
            Self::TopicDeleted { .. } => TOPIC_DELETED,
            Self::PartitionsAdded { .. } => PARTITIONS_ADDED,
            Self::ConfigAltered { .. } => CONFIG_ALTERED,
            Self::ProducerIdsReserved { .. } => PRODUCER_IDS_RESERVED,
            Self::LogStartMoved { .. } => LOG_START_MOVED,
        }
    }

    /// Reads the next entry; `None` if the bytes are none.
    pub(crate) fn decode(fields: &mut Fields<'a>) -> Option<Self> {
        let kind = fields.u8()?;
        let mut body = Fields::of(fields.counted()?);
        let entry = match kind {
            BATCH => Self::Batch { topic_id: Uuid(body.array()?), partition: body.i32()?, batch: body.rest() },
            TOPIC_CREATED => Self::TopicCreated(decode_topic(&mut body)?),
            TOPIC_DELETED => Self::TopicDeleted { topic_id: Uuid(body.array()?) },
            PARTITIONS_ADDED => Self::PartitionsAdded { topic_id: Uuid(body.array()?), partitions: body.i32()? },
            CONFIG_ALTERED => {
                let (topic_id, key) = (Uuid(body.array()?), body.text()?);
                let is_present = body.u8()? != 0;
                let value = body.text()?;
                Self::ConfigAltered { topic_id, key, value: is_present.then_some(value) }
            }
            PRODUCER_IDS_RESERVED => Self::ProducerIdsReserved { next: body.i64()? },
            LOG_START_MOVED => {
                Self::LogStartMoved { topic_id: Uuid(body.array()?), partition: body.i32()?, offset: body.i64()? }
            }
            _ => return None,
        };
        Some(entry)
    }
}

pub(crate) fn encode_topic(topic: &Topic, buffer: &mut BytesMut) {
    buffer.put_slice(&topic.id.0);
    put_counted(buffer, topic.name.as_str().as_bytes());
    buffer.put_i32(topic.partitions);
    buffer.put_u32(u32::try_from(topic.configs.len()).expect("settings are few"));
    for (key, value) in &topic.configs {
        put_counted(buffer, key.as_bytes());
        put_counted(buffer, value.as_bytes());
    }
}

pub(crate) fn decode_topic(fields: &mut Fields<'_>) -> Option<Topic> {
    let id = Uuid(fields.array()?);
    let name = TopicName::from(fields.text()?);
    let partitions = fields.i32()?;
    let mut configs = BTreeMap::new();
    for _ in 0..fields.u32()? {
        let key = fields.text()?.to_owned();
        configs.insert(key, fields.text()?.to_owned());
    }
    Some(Topic { id, name, partitions, configs })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_reads_back_and_no_truncation_does() {
        let id = Uuid([7; 16]);
        let topic = Topic {
            id,
            name: TopicName::from("orders"),
            partitions: 3,
            configs: BTreeMap::from([("cleanup.policy".to_owned(), "compact".to_owned())]),
        };
        let entries = [
            Entry::Batch { topic_id: id, partition: 2, batch: b"not looked at here" },
            Entry::TopicCreated(topic),
            Entry::TopicDeleted { topic_id: id },
            Entry::PartitionsAdded { topic_id: id, partitions: 9 },
            Entry::ConfigAltered { topic_id: id, key: "a", value: None },
            Entry::ConfigAltered { topic_id: id, key: "a", value: Some("b") },
            Entry::ProducerIdsReserved { next: 2000 },
            Entry::LogStartMoved { topic_id: id, partition: 0, offset: 77 },
        ];
        for entry in &entries {
            let mut buffer = BytesMut::new();
            entry.encode(&mut buffer);
            assert_eq!(Entry::decode(&mut Fields::of(&buffer)).as_ref(), Some(entry));
            for length in 0..buffer.len() {
                assert_eq!(Entry::decode(&mut Fields::of(&buffer[..length])), None);
            }
        }
    }
}
