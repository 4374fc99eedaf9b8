//! What becomes of a record that cannot be read, processed or written: the user says, record by record.
//!
//! A record is atomic here. When it is skipped or put into a dead-letter topic, whatever it had already written, to topics or to stores, is
//! undone first; the dead letter then belongs to the same interval as the position that moves past the record. (Fields of a processor are the
//! user's: a processor that fails should fail before it changes them.)
//!
//! **What it does not know**: whether the dead-letter topic is there.

use std::fmt;
use std::sync::Arc;

use atonce_kernel::{Offset, Timestamp, TopicName, TopicPartition};
use bytes::Bytes;

use crate::record::{Header, OutputRecord};
use crate::task::TaskId;

/// What a record was when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Its bytes are not what the source's types say.
    Reading,
    /// A node refused it.
    Processing,
    /// It came out of a sink, and cannot be written: too large for its topic, or to a topic that cannot exist.
    Writing,
}

/// A record that failed, and why.
#[derive(Debug)]
pub struct Failure<'a> {
    /// What was being done.
    pub stage: Stage,
    /// The task.
    pub task: TaskId,
    /// The node.
    pub node: &'a str,
    /// Where the input record stands, from which all this came. `None` for what a punctuation wrote.
    pub origin: Option<(&'a TopicPartition, Offset)>,
    /// The time of the record below.
    pub timestamp: Timestamp,
    /// The input record's key; of a record that cannot be written, that one's.
    pub key: Option<&'a Bytes>,
    /// The input record's value; of a record that cannot be written, that one's.
    pub value: Option<&'a Bytes>,
    /// The headers.
    pub headers: &'a [Header],
    /// Why.
    pub cause: &'a (dyn std::error::Error + Send + Sync + 'static),
}

/// What is to become of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The interval is undone, and the worker ends with the error.
    Fail,
    /// It is left out, counted, and logged.
    Skip,
    /// It is left out, and its bytes go to this topic, in the same transaction. The topic must exist.
    DeadLetter(TopicName),
}

/// Says what becomes of records that fail. Without one every failure ends the worker.
#[derive(Clone, Default)]
pub struct FailureHandler(Option<Arc<Judge>>);

type Judge = dyn Fn(&Failure<'_>) -> Verdict + Send + Sync;

impl FailureHandler {
    /// Asks `judge`. What it says should depend on the record alone: after an abort the record comes again.
    pub fn new(judge: impl Fn(&Failure<'_>) -> Verdict + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(judge)))
    }

    /// The same for every failure.
    #[must_use]
    pub fn always(verdict: Verdict) -> Self {
        Self::new(move |_| verdict.clone())
    }

    /// Whether a record that fails may be left out: only then must it be possible to undo one record.
    pub(crate) fn may_go_on(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn judge(&self, failure: &Failure<'_>) -> Verdict {
        self.0.as_ref().map_or(Verdict::Fail, |judge| judge(failure))
    }
}

impl fmt::Debug for FailureHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "FailureHandler(asks)" } else { "FailureHandler(fails)" })
    }
}

impl Failure<'_> {
    /// The record as it goes to a dead-letter topic: its bytes and headers, and in further headers, named as Kafka Streams names them
    /// (KIP-1034), why and whence. Headers that an earlier failure left under these names are replaced.
    pub(crate) fn dead_letter(&self, topic: TopicName) -> OutputRecord {
        let mut reasons = vec![self.cause.to_string()];
        let mut cause = self.cause.source();
        while let Some(deeper) = cause {
            reasons.push(deeper.to_string());
            cause = deeper.source();
        }
        let mut headers: Vec<Header> =
            self.headers.iter().filter(|header| !header.key.starts_with("__streams.errors.")).cloned().collect();
        let mut add = |key: &str, value: String| {
            headers.push(Header { key: format!("__streams.errors.{key}"), value: Some(Bytes::from(value)) });
        };
        add("exception", format!("{:?} at {}", self.stage, self.node));
        add("message", reasons.first().cloned().unwrap_or_default());
        add("stacktrace", reasons.join("\ncaused by: "));
        if let Some((topic_partition, offset)) = self.origin {
            add("topic", topic_partition.topic.to_string());
            add("partition", topic_partition.partition.to_string());
            add("offset", offset.to_string());
        }
        OutputRecord {
            topic,
            partition: None,
            timestamp: self.timestamp,
            key: self.key.cloned(),
            value: self.value.cloned(),
            headers,
        }
    }
}

/// Bytes of a batch that holds this record alone, uncompressed, as it travels and as a topic's `max.message.bytes` counts.
#[must_use]
pub fn bytes_alone_in_a_batch(record: &OutputRecord) -> usize {
    batch_bytes(record.key.as_ref().map(Bytes::len), record.value.as_ref().map(Bytes::len), &record.headers)
}

/// The same, of a record whose key and value have these lengths.
pub(crate) fn batch_bytes(key: Option<usize>, value: Option<usize>, headers: &[Header]) -> usize {
    const BATCH_HEADER_BYTES: usize = 61;
    let field = |bytes: Option<usize>| varint_bytes(bytes.map_or(-1, as_i64)) + bytes.unwrap_or(0);
    let header_bytes: usize =
        headers.iter().map(|header| field(Some(header.key.len())) + field(header.value.as_ref().map(Bytes::len))).sum();
    // Attributes, and the deltas of time and offset, which are 0 in a batch of one.
    let body = 3 + field(key) + field(value) + varint_bytes(as_i64(headers.len())) + header_bytes;
    BATCH_HEADER_BYTES + varint_bytes(as_i64(body)) + body
}

fn as_i64(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// Of a zigzag varint.
fn varint_bytes(value: i64) -> usize {
    let zigzag = ((value << 1) ^ (value >> 63)).cast_unsigned();
    let bits = (u64::BITS - (zigzag | 1).leading_zeros()) as usize;
    bits.div_ceil(7)
}

/// A record that no topic can take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnwritableError {
    /// The cluster would refuse it, again and again, and the transaction with it.
    #[error("a record of {bytes} bytes is too large for topic {topic}, which takes {max} (max.message.bytes)")]
    TooLarge {
        /// The topic.
        topic: TopicName,
        /// The record's batch.
        bytes: usize,
        /// What the topic takes.
        max: usize,
    },
    /// A sink that chooses its topic by the record has made this up.
    #[error("\"{name}\" cannot be a topic's name: 1 to 249 of the characters a-z A-Z 0-9 . _ - can")]
    IllegalTopic {
        /// The name.
        name: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: Option<usize>, value: Option<usize>, headers: Vec<Header>) -> OutputRecord {
        let bytes = |length: usize| Bytes::from(vec![b'x'; length]);
        OutputRecord {
            topic: TopicName::from("t"),
            partition: None,
            timestamp: Timestamp(5),
            key: key.map(bytes),
            value: value.map(bytes),
            headers,
        }
    }

    /// Worked out by hand: 61 + length + (attributes, two deltas, key length and key, value length and value, headers).
    #[test]
    fn a_records_size_is_counted_as_kafka_counts_it() {
        assert_eq!(bytes_alone_in_a_batch(&record(None, None, Vec::new())), 61 + 1 + 6);
        assert_eq!(bytes_alone_in_a_batch(&record(Some(1), Some(10), Vec::new())), 61 + 1 + 17);
        // Lengths from 64 on take two bytes.
        assert_eq!(bytes_alone_in_a_batch(&record(None, Some(64), Vec::new())), 61 + 2 + 3 + 1 + 2 + 64 + 1);
        let header = Header { key: "h".to_owned(), value: None };
        assert_eq!(bytes_alone_in_a_batch(&record(None, None, vec![header])), 61 + 1 + 6 + 3);
    }
}
