//! A Kafka client in pure Rust: an idempotent and transactional producer, a consumer by assignment and by
//! classic group that reads committed, and an administrator's calls.
//!
//! Everything that decides is a pure machine of `atonce-client-core`; this crate moves the bytes: one driver task
//! per connection, one per producer, one per consumer.
//!
//! **What it does not know**: any broker's code (the protocol is where they meet), streams, stores, the command
//! line. It reads no configuration file and no environment variable.
//!
//! # The loop that reads, processes and writes, exactly once
//!
//! With everything that goes wrong in it handled inside ([`read_process_write`]):
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use atonce_client::{Client, ProducerRecord};
//!
//! let client = Client::builder("localhost:9092").connect().await?;
//! let payments = client.read_process_write("payments").instance("1").from(["orders"]);
//! let payments = payments.run(|batch, output| async move {
//!     for record in batch {
//!         output.send(ProducerRecord::to("receipts").key(record.key()).value(record.value())).await?;
//!     }
//!     Ok(())
//! });
//! payments.await?;
//! # Ok(())
//! # }
//! ```
//!
//! Step by step, for programs that need another order:
//!
//! ```no_run
//! # async fn example() -> Result<(), atonce_client::Error> {
//! use atonce_client::{Client, ProducerRecord};
//!
//! let client = Client::builder("localhost:9092").connect().await?;
//! let mut producer = client.transactional_producer("payments-1").start().await?;
//! let mut consumer = client.consumer().group("payments").read_committed().subscribe(["orders"]).await?;
//!
//! while let Some(batch) = consumer.next_batch().await? {
//!     let transaction = producer.begin().await?;
//!     for record in &batch {
//!         transaction.send(ProducerRecord::to("receipts").key(record.key()).value(record.value())).await?;
//!     }
//!     transaction.send_offsets(batch.positions()).await?;
//!     transaction.commit().await?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Read in this order: [`client`], [`record`], [`producer`], [`transaction`], [`consumer`], [`read_process_write`],
//! [`assignor`], [`admin`], [`error`], [`connector`].

pub mod admin;
pub mod assignor;
pub mod client;
mod cluster;
pub mod connector;
pub mod consumer;
mod consumer_host;
pub mod error;
mod fate;
mod group_calls;
mod link;
mod member;
pub mod metrics;
pub mod producer;
mod producer_host;
pub mod read_process_write;
pub mod record;
pub mod transaction;

pub use admin::{Admin, NewTopic, OffsetSpec};
pub use assignor::{
    Assignor, ClusterTopics, CooperativeStickyAssignor, MemberAssignment, MemberSubscription, RangeAssignor,
    RebalanceProtocol, RoundRobinAssignor, StickyAssignor,
};
pub use client::{Client, ClientBuilder};
pub use connector::{BrokerAddress, Connector, TcpConnector, Transport};
pub use consumer::{
    Batch, BatchStream, Committer, Consumer, ConsumerBuilder, ConsumerEvent, ConsumerStop, GroupMetadata,
    GroupProtocol, Isolation, OffsetReset, Position, Positions,
};
pub use error::{
    AbortError, AdminError, BeginError, CommitError, ConnectError, ConsumerError, Error, ErrorClass, Refusal,
    SendError, SendOffsetsError, StartError, TransactionError,
};
pub use metrics::Metrics;
pub use producer::{Compression, Delivery, Partitioner, Producer, ProducerBuilder};
pub use read_process_write::{Output, ProcessError, ReadProcessWrite, RunError};
pub use record::{ConsumerRecord, Header, Payload, ProducerRecord, RecordMetadata};
pub use transaction::{
    OwnedTransaction, Settled, Statistics, Transaction, TransactionalProducer, TransactionalProducerBuilder,
};

pub use atonce_protocol::ErrorCode;

pub use atonce_kernel::{
    GroupId, GroupInstanceId, MemberId, Offset, Outcome, Timestamp, TopicName, TopicPartition, TransactionalId,
};
