//! Kafka's two coordinators as pure state machines: [`transaction`] and [`group`].
//!
//! Both are a [`Shard`]: one instance serves one partition of its internal topic (`__transaction_state`,
//! `__consumer_offsets`). A host feeds it commands, appends and applies the records it decides upon, and does in
//! the world what it owes.
//!
//! **What it does not know**: clocks, entropy, sockets, files, threads, the log that its records go to, who else
//! runs in the broker. Time, waiters and fresh ids come in with each command ([`Context`]).
//!
//! Read in this order: [`shard`], the shape; [`transaction`], the shape worked to the last comma; [`group`].

#![warn(clippy::unwrap_used, clippy::indexing_slicing, clippy::wildcard_enum_match_arm)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

pub mod group;
pub mod shard;
pub mod transaction;

pub use shard::{Context, Corrupt, Decision, Entry, Shard, Waiter};
