//! The pure machines of the client: what to send next, and what an answer means.
//!
//! **What it does not know**: sockets, the runtime, the clock, entropy. Time comes in with each call, answers come in as
//! values, and requests go out as values for `atonce-client` to send.
//!
//! Read in this order: [`classify`] (the one table of error classes), [`error`], [`connection`], [`metadata`],
//! [`partitioner`], [`transaction`], [`producer`], [`fetch_session`], [`fetch`], [`membership`], [`consumer_group`], [`subscription`], [`sticky`].

#![warn(clippy::unwrap_used, clippy::indexing_slicing, clippy::wildcard_enum_match_arm)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

pub mod backoff;
pub mod classify;
pub mod connection;
pub mod consumer_group;
pub mod error;
pub mod fetch;
pub mod fetch_session;
pub mod membership;
pub mod metadata;
pub mod partitioner;
pub mod producer;
pub mod sticky;
pub mod subscription;
pub mod transaction;
