//! The pure half of atonce's streams: what a topology is, how a task turns records into records, how a commit goes, who gets which
//! task. The `atonce` crate drives it with the client; [`TestDriver`] drives it in one thread, in memory.
//!
//! **What it does not know**: the protocol's bytes, the client, sockets, files, the clock, threads. A record comes in as a
//! [`SourceRecord`], leaves as an [`OutputRecord`] or a [`ChangelogRecord`]; a store's bytes lie behind [`StateStore`].
//!
//! Read in this order: [`wire`] and [`record`] (what flows), [`dsl`] and [`processor`] (what a user writes), [`failure`] (what
//! becomes of records that fail), [`topology`] (the graph, its parts, its description), [`mod@store`] (state, overlaid until the commit is known), [`task`] (one partition's work),
//! [`commit`] (the machine of three guarantees), [`restore`] (which part of a change log to replay), [`assignment`] (tasks to
//! members), [`partitioner`] (murmur2), [`test_driver`].
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::indexing_slicing, clippy::wildcard_enum_match_arm))]

pub mod assignment;
pub mod commit;
pub mod dsl;
pub mod failure;
pub mod partitioner;
pub mod processor;
pub mod record;
pub mod restore;
pub mod store;
pub mod task;
pub mod test_driver;
pub mod topology;
pub mod wire;

pub use commit::{CommitMachine, Guarantee};
pub use dsl::{KGroupedStream, KStream, KTable, Predicate, StoreName, TopologyBuilder, predicate, store};
pub use failure::{Failure, FailureHandler, Stage, Verdict};
pub use processor::{Clock, Forward, Pair, Processor, ProcessorError, Punctuation, Schedule, Stores};
pub use record::{ChangelogRecord, Header, OutputRecord, Record, SourceRecord};
pub use store::{Direction, KeyValueStore, StateStore, StoreHandle, StorePosition};
pub use task::{Task, TaskCounts, TaskError, TaskId};
pub use test_driver::TestDriver;
pub use topology::{Topology, TopologyError};
pub use wire::{Wire, WireError};
