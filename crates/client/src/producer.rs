//! The idempotent producer: records in, batches out, each in the log once and in order.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::client::Client;
use crate::error::{SendError, StartError};
use crate::record::{ProducerRecord, RecordMetadata};

/// How batches are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// As they are.
    #[default]
    None,
    /// gzip.
    Gzip,
    /// Snappy.
    Snappy,
    /// LZ4.
    Lz4,
    /// Zstandard.
    Zstd,
}

/// What both kinds of producer are told about batches and time.
#[derive(Clone, Debug)]
pub(crate) struct ProducerSettings {
    pub(crate) linger: Duration,
    pub(crate) compression: Compression,
    pub(crate) batch_bytes_max: usize,
    pub(crate) buffer_bytes_max: usize,
    pub(crate) delivery_timeout: Duration,
    pub(crate) max_block: Duration,
}

impl Default for ProducerSettings {
    fn default() -> Self {
        Self {
            linger: Duration::from_millis(5),
            compression: Compression::None,
            batch_bytes_max: 16 * 1024,
            buffer_bytes_max: 32 * 1024 * 1024,
            delivery_timeout: Duration::from_secs(120),
            max_block: Duration::from_secs(60),
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
        let _ = (self.client, self.settings);
        Err(StartError::Closed)
    }
}

/// Writes records, each once and in order per partition, over reconnects and lost answers.
#[derive(Debug)]
pub struct Producer {
    _private: (),
}

impl Producer {
    /// Takes a record; waits for room in the buffer and for metadata, not for the broker. The [`Delivery`] tells
    /// when the record is in the log; it may be dropped.
    pub async fn send(&self, record: ProducerRecord) -> Result<Delivery, SendError> {
        let _ = record;
        Err(SendError::Closed)
    }

    /// Sends what waits, without linger, and waits until all of it is acknowledged or has failed.
    ///
    /// Errors: the first failure of a record since the last flush.
    pub async fn flush(&self) -> Result<(), SendError> {
        Err(SendError::Closed)
    }

    /// Flushes, and ends.
    pub async fn close(self) -> Result<(), SendError> {
        self.flush().await
    }
}

/// What becomes of a record: a future that ends when it is in the log, or has failed.
#[derive(Debug)]
#[must_use = "a failed record is only heard of here and in `flush`"]
pub struct Delivery {
    _private: (),
}

impl Future for Delivery {
    type Output = Result<RecordMetadata, SendError>;

    fn poll(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(Err(SendError::Closed))
    }
}
