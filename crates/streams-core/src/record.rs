//! What flows: records with types inside a topology, with bytes at its edges.

use atonce_kernel::{Offset, Timestamp, TopicName, TopicPartition};
use bytes::Bytes;

/// A header. One key may stand several times, and the order is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The name.
    pub key: String,
    /// The value, or null.
    pub value: Option<Bytes>,
}

/// A record between two nodes of a topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<K, V> {
    /// The key.
    pub key: K,
    /// The value.
    pub value: V,
    /// The time of the record, which is event time: not when it is processed.
    pub timestamp: Timestamp,
    /// The headers; they travel with the record.
    pub headers: Vec<Header>,
}

impl<K, V> Record<K, V> {
    /// A record without headers.
    pub fn new(key: K, value: V, timestamp: Timestamp) -> Self {
        Self { key, value, timestamp, headers: Vec::new() }
    }

    /// The same record with another key.
    pub fn with_key<K2>(self, key: K2) -> Record<K2, V> {
        Record { key, value: self.value, timestamp: self.timestamp, headers: self.headers }
    }

    /// The same record with another value.
    pub fn with_value<V2>(self, value: V2) -> Record<K, V2> {
        Record { key: self.key, value, timestamp: self.timestamp, headers: self.headers }
    }
}

/// A record as it was read from a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRecord {
    /// Its place.
    pub offset: Offset,
    /// Its time.
    pub timestamp: Timestamp,
    /// The key's bytes, or null.
    pub key: Option<Bytes>,
    /// The value's bytes, or null.
    pub value: Option<Bytes>,
    /// The headers.
    pub headers: Vec<Header>,
}

/// A record that a sink wants written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputRecord {
    /// The topic, with the application's prefix if it is an internal one.
    pub topic: TopicName,
    /// The partition, where the key says it; without a key the producer chooses.
    pub partition: Option<i32>,
    /// The time of the record.
    pub timestamp: Timestamp,
    /// The key's bytes, or null.
    pub key: Option<Bytes>,
    /// The value's bytes, or null.
    pub value: Option<Bytes>,
    /// The headers.
    pub headers: Vec<Header>,
}

/// A change of a store, as its change log keeps it: in Kafka Streams' form, the value's time is the record's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangelogRecord {
    /// Where it goes.
    pub topic_partition: TopicPartition,
    /// The store's key.
    pub key: Bytes,
    /// The new value, or null: the key is deleted.
    pub value: Option<Bytes>,
    /// The value's time.
    pub timestamp: Timestamp,
}
