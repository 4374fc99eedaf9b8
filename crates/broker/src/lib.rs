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
//! In a test, or in a program that brings its own:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! use atonce_broker::Broker;
//!
//! // A free port and a folder that goes with it.
//! let broker = Broker::temporary().await?;
//! println!("clients connect to {}", broker.bootstrap_servers());
//!
//! // As SIGKILL would; what was acknowledged is there again.
//! broker.crash().await?;
//! broker.restart().await?;
//! broker.shutdown().await?;
//! # Ok(()) })
//! # }
//! ```
//!
//! One that stays, set up as a file of Kafka's says, with probes:
//!
//! ```no_run
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! use atonce_broker::{Broker, Durability};
//!
//! let broker = Broker::builder()
//!     .configuration("num.partitions=4\nlog.retention.hours=48\n")?
//!     .data_path("/var/lib/atonce")
//!     .listen("127.0.0.1:9092")
//!     .durability(Durability::Sync)
//!     .health("127.0.0.1:8080")
//!     .metrics("127.0.0.1:8080")
//!     .start()
//!     .await?;
//! // Returns only if it has to stop by itself.
//! let reason = broker.failure().await;
//! # Err(reason.into())
//! # }
//! ```
//!
//! Read in this order: `broker`, `connection`, `api` (with one API, say `api/end_txn.rs`), `engine`; then what they use:
//! `configuration`, `dynamic`, `features`, `fetch_sessions`, `operations`, `directory`, `coordinator_batch`, `disk`.

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

use atonce_log::IsolationLevel;
use atonce_protocol::ErrorCode;

/// The epoch of every partition's leader, and of both coordinators: there is one node, and it has always led.
const LEADER_EPOCH: i32 = 0;

/// What a request means by its isolation level. Kafka answers a level that nobody has with the code for what it does not expect.
fn isolation_level(asked: i8) -> Result<IsolationLevel, ErrorCode> {
    match asked {
        0 => Ok(IsolationLevel::ReadUncommitted),
        1 => Ok(IsolationLevel::ReadCommitted),
        _ => Err(ErrorCode::UnknownServerError),
    }
}

/// What a client is told whose idea of the leader's epoch (-1: none) is not ours.
fn leader_epoch_error(known: i32) -> Option<ErrorCode> {
    match known {
        -1 => None,
        known if known < LEADER_EPOCH => Some(ErrorCode::FencedLeaderEpoch),
        known if known > LEADER_EPOCH => Some(ErrorCode::UnknownLeaderEpoch),
        _ => None,
    }
}
