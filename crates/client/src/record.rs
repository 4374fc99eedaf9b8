//! Records as users write and read them.

use atonce_kernel::{Offset, Timestamp, TopicName, TopicPartition};
use bytes::Bytes;

pub use atonce_client_core::fetch::ConsumerRecord;
pub use atonce_client_core::producer::Header;

/// Bytes, or their absence, from whatever holds them. `None` as a value is a tombstone.
///
/// `Bytes`, `Vec<u8>` and `String` are taken over without a copy; `&str`, `&[u8]` and arrays are copied.
pub trait Payload {
    /// The bytes.
    fn into_payload(self) -> Option<Bytes>;
}

impl Payload for Bytes {
    fn into_payload(self) -> Option<Bytes> {
        Some(self)
    }
}

impl Payload for &Bytes {
    fn into_payload(self) -> Option<Bytes> {
        Some(self.clone())
    }
}

impl Payload for Vec<u8> {
    fn into_payload(self) -> Option<Bytes> {
        Some(Bytes::from(self))
    }
}

impl Payload for String {
    fn into_payload(self) -> Option<Bytes> {
        Some(Bytes::from(self))
    }
}

impl Payload for &str {
    fn into_payload(self) -> Option<Bytes> {
        Some(Bytes::copy_from_slice(self.as_bytes()))
    }
}

impl Payload for &String {
    fn into_payload(self) -> Option<Bytes> {
        Some(Bytes::copy_from_slice(self.as_bytes()))
    }
}

impl Payload for &[u8] {
    fn into_payload(self) -> Option<Bytes> {
        Some(Bytes::copy_from_slice(self))
    }
}

impl<const LENGTH: usize> Payload for &[u8; LENGTH] {
    fn into_payload(self) -> Option<Bytes> {
        Some(Bytes::copy_from_slice(self))
    }
}

impl<const LENGTH: usize> Payload for [u8; LENGTH] {
    fn into_payload(self) -> Option<Bytes> {
        Some(Bytes::copy_from_slice(&self))
    }
}

impl<P: Payload> Payload for Option<P> {
    fn into_payload(self) -> Option<Bytes> {
        self.and_then(Payload::into_payload)
    }
}

/// A record to be written.
///
/// ```
/// use atonce_client::ProducerRecord;
///
/// let record = ProducerRecord::to("orders").key("customer-7").value("two lamps").header("source", "shop");
/// assert_eq!(record.topic.as_str(), "orders");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerRecord {
    /// The topic.
    pub topic: TopicName,
    /// The partition; chosen by the key (murmur2, as Kafka's own clients do), or stickily without a key, if absent.
    pub partition: Option<i32>,
    /// The key.
    pub key: Option<Bytes>,
    /// The value; `None` is a tombstone.
    pub value: Option<Bytes>,
    /// The headers, in order.
    pub headers: Vec<Header>,
    /// When it happened; now, if absent.
    pub timestamp: Option<Timestamp>,
}

impl ProducerRecord {
    /// A record for `topic`, as yet without key and value. A kept [`TopicName`] costs no allocation.
    pub fn to(topic: impl Into<TopicName>) -> Self {
        Self { topic: topic.into(), partition: None, key: None, value: None, headers: Vec::new(), timestamp: None }
    }

    /// Sets the partition.
    #[must_use]
    pub fn partition(mut self, partition: i32) -> Self {
        self.partition = Some(partition);
        self
    }

    /// Sets the key.
    #[must_use]
    pub fn key(mut self, key: impl Payload) -> Self {
        self.key = key.into_payload();
        self
    }

    /// Sets the value.
    #[must_use]
    pub fn value(mut self, value: impl Payload) -> Self {
        self.value = value.into_payload();
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, key: impl Into<String>, value: impl Payload) -> Self {
        self.headers.push(Header { key: key.into(), value: value.into_payload() });
        self
    }

    /// Sets the timestamp, in milliseconds since 1970.
    #[must_use]
    pub fn timestamp(mut self, timestamp_ms: i64) -> Self {
        self.timestamp = Some(Timestamp(timestamp_ms));
        self
    }
}

/// Where a record was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordMetadata {
    /// The partition.
    pub topic_partition: TopicPartition,
    /// The offset; `None` if the broker had the record already and did not say where.
    pub offset: Option<Offset>,
    /// The record's timestamp, as the log has it: the broker's if the topic says so.
    pub timestamp: Timestamp,
}
