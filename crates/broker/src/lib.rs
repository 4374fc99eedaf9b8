//! The broker: a durable, embeddable, single node that speaks Kafka's protocol.
//!
//! ```text
//!  socket ─┐                       ┌─ in place: metadata, fetch, list offsets … ◄── directory (what is durable)
//!          ├─ connection ─► api ───┤                                                     ▲ after each commit
//!  duplex ─┘  (frames)   (one file └─ engine: one thread, ─► log (journal, partitions) ──┘
//!                         per key)    owns all that changes ─► coordinator shards
//! ```
//!
//! Everything that changes runs on one thread, the writer, one piece of work after the other; what waits while it syncs makes
//! up the next group, so many producers share a sync. A whole commit of a transaction, over any number of partitions, is one
//! group and one sync. Reads run on the connections' own tasks and see what is durable.
//!
//! **What it does not know**: clients, streams, command lines; more than one node; how the log stores or the coordinators decide.
//!
//! Invariants: an answer leaves when all that it depends on is durable; bytes from outside get an answer or a closed
//! connection, and never stop another one; what is advertised is what is served.
//!
//! Read in this order: `broker`, `connection`, `api` (with one API, say `api/end_txn.rs`), `engine`; then what they use:
//! `configuration`, `directory`, `coordinator_batch`, `disk`.

mod api;
mod broker;
mod configuration;
mod connection;
mod coordinator_batch;
pub mod data_folder;
mod directory;
mod disk;
mod dynamic;
mod engine;
mod features;
mod fetch_sessions;
mod folder_lock;
mod operations;
mod shared;
mod topic_name;

pub use atonce_log::Durability;
pub use broker::{Broker, BrokerBuilder, NotRunning, StartError, StopError};
pub use configuration::ConfigurationError;
pub use disk::{StdDisk, StdFile};

use atonce_protocol::ErrorCode;

/// The epoch of every partition's leader, and of both coordinators: there is one node, and it has always led.
const LEADER_EPOCH: i32 = 0;

/// What a client is told whose idea of the leader's epoch (-1: none) is not ours.
fn leader_epoch_error(known: i32) -> Option<ErrorCode> {
    match known {
        -1 => None,
        known if known < LEADER_EPOCH => Some(ErrorCode::FencedLeaderEpoch),
        known if known > LEADER_EPOCH => Some(ErrorCode::UnknownLeaderEpoch),
        _ => None,
    }
}
