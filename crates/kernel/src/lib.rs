//! The words that every crate of atonce shares: ids, epochs, offsets, sequences, time and chance as
//! values, and the [`disk::Disk`] that durable code is written against.
//!
//! **What it does not know**: the protocol's bytes, the runtime, any socket, any file, the clock. Time
//! comes in as a [`Timestamp`] or a [`Monotonic`], chance as a seeded
//! [`Chance`](chance::Chance).
//!
//! Read in this order: [`ids`], [`producer`], [`time`], [`chance`], [`disk`].

#![warn(clippy::unwrap_used, clippy::indexing_slicing, clippy::wildcard_enum_match_arm)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

pub mod ids;
pub mod producer;
pub mod time;
pub mod chance;
pub mod disk;

pub use ids::{GroupId, GroupInstanceId, MemberId, TopicId, TopicName, TopicPartition, TransactionalId, Uuid};
pub use producer::{Outcome, ProducerEpoch, ProducerId, ProducerIdentity, Sequence};
pub use time::{Monotonic, Timestamp};

/// A record's place in a partition. Control records take offsets too.
pub type Offset = i64;

/// An index of a partition in its topic.
pub type PartitionIndex = i32;
