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
//! Read in this order: [`client`], [`record`], [`producer`], [`transaction`], [`consumer`], [`assignor`], [`admin`],
//! [`error`], [`connector`].

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
pub mod producer;
mod producer_host;
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
    Batch, Consumer, ConsumerBuilder, ConsumerEvent, ConsumerStop, GroupMetadata, GroupProtocol, Isolation,
    OffsetReset, Position, Positions,
};
pub use error::{
    AbortError, AdminError, BeginError, CommitError, ConnectError, ConsumerError, Error, ErrorClass, Refusal,
    SendError, SendOffsetsError, StartError, TransactionError,
};
pub use producer::{Compression, Delivery, Producer, ProducerBuilder};
pub use record::{ConsumerRecord, Header, Payload, ProducerRecord, RecordMetadata};
pub use transaction::{
    OwnedTransaction, Settled, Statistics, Transaction, TransactionalProducer, TransactionalProducerBuilder,
};

pub use atonce_protocol::ErrorCode;

pub use atonce_kernel::{
    GroupId, GroupInstanceId, MemberId, Offset, Outcome, Timestamp, TopicName, TopicPartition, TransactionalId,
};
