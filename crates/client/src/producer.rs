//! The idempotent producer: records in, batches out, each in the log once and in order.

use std::sync::Arc;
use std::time::Duration;

use atonce_kernel::TopicName;

use crate::client::Client;
use crate::error::{SendError, StartError};
use crate::producer_host::ProducerHost;
use crate::record::ProducerRecord;

pub use crate::fate::Delivery;
pub use atonce_protocol::records::Compression;

/// Chooses partitions instead of Kafka's default, which is murmur2 of the key, and stickily without one.
///
/// ```
/// use atonce_client::{Partitioner, TopicName};
///
/// /// Customers by their first letter.
/// struct ByLetter;
///
/// impl Partitioner for ByLetter {
///     fn partition(&self, _: &TopicName, key: Option<&[u8]>, _: Option<&[u8]>, partitions: i32) -> Option<i32> {
///         key.and_then(<[u8]>::first).map(|letter| i32::from(*letter) % partitions)
///     }
/// }
/// ```
pub trait Partitioner: Send + Sync + 'static {
    /// The partition of a record of `topic`, from 0 up to and without `partitions`; `None` to stay with one partition until
    /// its batch is full, then go to another.
    fn partition(&self, topic: &TopicName, key: Option<&[u8]>, value: Option<&[u8]>, partitions: i32) -> Option<i32>;
}

#[derive(Clone)]
pub(crate) struct OwnPartitioner(pub(crate) Arc<dyn Partitioner>);

impl std::fmt::Debug for OwnPartitioner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OwnPartitioner")
    }
}

/// What both kinds of producer are told about batches and time.
#[derive(Clone, Debug)]
pub(crate) struct ProducerSettings {
    pub(crate) linger: Duration,
    pub(crate) compression: Compression,
    pub(crate) batch_bytes_max: usize,
    pub(crate) request_bytes_max: usize,
    pub(crate) buffer_bytes_max: usize,
    pub(crate) delivery_timeout: Duration,
    pub(crate) max_block: Duration,
    pub(crate) partitioner: Option<OwnPartitioner>,
}

impl Default for ProducerSettings {
    fn default() -> Self {
        Self {
            linger: Duration::from_millis(5),
            compression: Compression::None,
            batch_bytes_max: 16 * 1024,
            request_bytes_max: 1024 * 1024,
            buffer_bytes_max: 32 * 1024 * 1024,
            delivery_timeout: Duration::from_secs(120),
            max_block: Duration::from_secs(60),
            partitioner: None,
        }
    }
}

/// Writes the setters that both builders of producers share.
macro_rules! producer_settings {
    () => {
        /// How long a batch waits for more records before it is sent; 5 ms unless set. A full batch never waits.
        #[must_use]
        pub fn linger(mut self, linger: std::time::Duration) -> Self {
            self.settings.linger = linger;
            self
        }

        /// How batches are compressed; not at all unless set.
        #[must_use]
        pub fn compression(mut self, compression: $crate::producer::Compression) -> Self {
            self.settings.compression = compression;
            self
        }

        /// The size a batch is closed at, in bytes before compression; 16 KiB unless set. A larger record gets a batch of its own.
        #[must_use]
        pub fn batch_bytes_max(mut self, bytes: usize) -> Self {
            self.settings.batch_bytes_max = bytes;
            self
        }

        /// The size of a request, and so of the largest record; 1 MiB unless set, as much as brokers take unless told
        /// otherwise (`max.message.bytes`).
        #[must_use]
        pub fn request_bytes_max(mut self, bytes: usize) -> Self {
            self.settings.request_bytes_max = bytes;
            self
        }

        /// How many bytes may wait to be acknowledged before `send` waits; 32 MiB unless set.
        #[must_use]
        pub fn buffer_bytes_max(mut self, bytes: usize) -> Self {
            self.settings.buffer_bytes_max = bytes;
            self
        }

        /// After how long a record that was not acknowledged is given up; 2 minutes unless set.
        #[must_use]
        pub fn delivery_timeout(mut self, timeout: std::time::Duration) -> Self {
            self.settings.delivery_timeout = timeout;
            self
        }

        /// Who chooses the partitions of records that name none; Kafka's default way unless set.
        #[must_use]
        pub fn partitioner(mut self, partitioner: std::sync::Arc<dyn $crate::producer::Partitioner>) -> Self {
            self.settings.partitioner = Some($crate::producer::OwnPartitioner(partitioner));
            self
        }

        /// How long calls wait for the cluster (metadata, room in the buffer, the coordinator); 1 minute unless set.
        #[must_use]
        pub fn max_block(mut self, timeout: std::time::Duration) -> Self {
            self.settings.max_block = timeout;
            self
        }
    };
}
pub(crate) use producer_settings;

/// Settings of a [`Producer`] to be.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let broker = atonce_broker::Broker::temporary().await?;
/// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
/// # client.admin().create_topics(&[atonce_client::NewTopic::new("orders", 1)]).await?;
/// use std::time::Duration;
///
/// use atonce_client::{Compression, ProducerRecord};
///
/// let producer = client.producer().compression(Compression::Lz4).linger(Duration::from_millis(1)).start().await?;
/// let delivery = producer.send(ProducerRecord::to("orders").key("customer-7").value("two lamps")).await?;
/// assert_eq!(delivery.await?.offset, Some(0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ProducerBuilder {
    client: Client,
    settings: ProducerSettings,
}

impl ProducerBuilder {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, settings: ProducerSettings::default() }
    }

    producer_settings!();

    /// Gets a producer id from the cluster, and starts.
    pub async fn start(self) -> Result<Producer, StartError> {
        let host = ProducerHost::start(self.client.cluster(), self.settings, None).await?;
        Ok(Producer { host })
    }
}

/// Writes records, each once and in order per partition, over reconnects and lost answers.
///
/// What was not acknowledged when it is dropped is lost: [`close`](Self::close) or [`flush`](Self::flush) first.
///
/// ```no_run
/// # async fn example() -> Result<(), atonce_client::Error> {
/// use atonce_client::{Client, ProducerRecord};
///
/// let client = Client::builder("localhost:9092").connect().await?;
/// let producer = client.producer().start().await?;
/// let delivery = producer.send(ProducerRecord::to("orders").key("customer-7").value("two lamps")).await?;
/// producer.flush().await?;
/// println!("written at {:?}", delivery.await?.offset);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Producer {
    host: Arc<ProducerHost>,
}

impl Producer {
    /// Takes a record; waits for room in the buffer and for metadata, not for the broker. The [`Delivery`] tells
    /// when the record is in the log; it may be dropped.
    pub async fn send(&self, record: ProducerRecord) -> Result<Delivery, SendError> {
        self.host.send(record).await
    }

    /// Sends what waits, without linger, and waits until all of it is acknowledged or has failed.
    ///
    /// Errors: the first failure of a record since the last flush.
    pub async fn flush(&self) -> Result<(), SendError> {
        self.host.flush().await
    }

    /// Flushes, and ends.
    pub async fn close(self) -> Result<(), SendError> {
        self.flush().await
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.host.close();
    }
}
