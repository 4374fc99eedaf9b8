//! Exactly-once stream processing for Kafka, in pure Rust.
//!
//! A program describes what becomes of records ([`TopologyBuilder`]), and an [`Application`] runs that: in several workers, in
//! several processes, with state that survives them. Under [`Guarantee::ExactlyOnce`], the default, each input's effect stands once
//! in what a reader of committed records sees, whatever crashes meanwhile.
//!
//! ```no_run
//! use atonce::prelude::*;
//!
//! fn word_count() -> Result<Topology, TopologyError> {
//!     let builder = TopologyBuilder::new();
//!     builder
//!         .stream::<Option<Bytes>, String>("lines")
//!         .flat_map_values(|line| line.split_whitespace().map(String::from).collect::<Vec<_>>())
//!         .group_by(|_, word| word.clone())
//!         .count(store("counts"))
//!         .to_stream()
//!         .to("word-counts");
//!     builder.build()
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), atonce::Error> {
//!     Application::builder("word-count", word_count()?)
//!         .bootstrap_servers("localhost:9092")
//!         .workers(4)
//!         .state_dir("./state")
//!         .start().await?
//!         .run_until(shutdown_signal()).await           // finishes the transaction, leaves the group, closes the stores
//! }
//! ```
//!
//! With the feature `embedded`, `.embedded("./data")` instead of `.bootstrap_servers(…)` brings a durable broker along, inside this process;
//! `atonce::broker` is the same to be set up by hand. With the features `json` and `postcard`, `Json<T>` and `Postcard<T>` carry types of serde's.
//!
//! The whole loop without a topology is in [`client`]; a topology in a test, without a cluster, in [`test_driver`].
//!
//! **What it does not know**: a broker's code. (It decides little itself: what can be decided without a socket is decided in
//! `atonce-streams-core`.)
//!
//! Read in this order: [`application`] (what a user calls), `supervisor` (who owns the workers), `worker` (the loop: poll, process, commit),
//! `writer` (the producer in each guarantee), `restore` (stores follow their change logs), `tasks_assignor` (the group's assignor),
//! `state_folder` (what a process keeps on disk), `local_state` (how that is thrown away) and `disk_store` (one store of it),
//! `internal_topics`; and what is seen from outside: `state`, `listeners`, [`statistics`], [`metrics`], [`error`].

pub mod application;
mod disk_store;
pub mod error;
mod internal_topics;
mod local_state;
mod listeners;
pub mod metrics;
mod partition_time;
mod restore;
mod state;
mod state_folder;
pub mod statistics;
mod supervisor;
mod taking_over;
mod tasks_assignor;
mod worker;
mod writer;

pub use application::{Application, ApplicationBuilder, ApplicationControl, WorkerVerdict, shutdown_signal};
#[cfg(feature = "embedded")]
pub use atonce_broker as broker;
pub use atonce_client as client;
#[cfg(feature = "json")]
pub use atonce_streams_core::wire::Json;
#[cfg(feature = "postcard")]
pub use atonce_streams_core::wire::Postcard;
pub use atonce_streams_core::{
    Clock, Direction, Failure, FailureHandler, Forward, Guarantee, Header, KGroupedStream, KStream, KTable,
    KeyValueStore, Pair, Predicate, Processor, ProcessorError, Punctuation, Record, Schedule, Stage, StoreHandle,
    StoreName, Stores, TaskId, Topology, TopologyBuilder, TopologyError, Verdict, Wire, WireError, predicate, store,
    test_driver, topology, wire,
};
pub use disk_store::DiskEngine;
pub use error::Error;
pub use listeners::{RestoreListener, RestoringStore};
pub use local_state::LocalState;
pub use state::ApplicationState;
pub use statistics::Statistics;
pub use worker::GroupMembership;

/// What most programs name: `use atonce::prelude::*`.
pub mod prelude {
    pub use std::time::Duration;

    pub use atonce_client::{Client, ProducerRecord};
    pub use atonce_streams_core::{
        Direction, FailureHandler, Forward, Guarantee, KGroupedStream, KStream, KTable, KeyValueStore, Processor,
        ProcessorError, Punctuation, Record, Schedule, StoreHandle, StoreName, Stores, TestDriver, Topology,
        TopologyBuilder, TopologyError, Verdict, Wire, WireError, predicate, store,
    };
    pub use bytes::Bytes;

    pub use crate::application::{Application, shutdown_signal};
}
