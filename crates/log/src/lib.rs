//! The storage of an atonce broker: one journal for everything, and Kafka's segment files, over a
//! [`Disk`](atonce_kernel::disk::Disk) that is an argument.
//!
//! A commit over any number of partitions is one group in one journal: one write, one sync. Segments follow by plain
//! writes, and a checkpoint vouches for them from time to time. `docs/design/storage.md` has the reasons and
//! `docs/format/journal.md` the bytes.
//!
//! **What it does not know**: requests and their versions, coordinators, records inside a batch, real files, the
//! clock, threads.
//!
//! Invariants: nothing is visible before it is durable; a group is there whole or not at all; a segment is written
//! only after its group is durable; offsets never go back.
//!
//! Read in this order: [`batch`], [`producer`], [`catalog`], [`config`], [`storage`], [`reader`],
//! [`compaction`], [`error`].

#![warn(clippy::unwrap_used, clippy::indexing_slicing, clippy::wildcard_enum_match_arm)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod aborted;
pub mod batch;
pub mod catalog;
pub mod check;
mod checkpoint;
pub mod cleanup;
pub mod compaction;
pub mod config;
pub mod dump;
mod entry;
pub mod error;
mod fields;
mod files;
mod folders;
mod handles;
mod index;
mod journal;
mod partition;
pub mod producer;
pub mod reader;
mod recovery;
pub mod salvage;
mod segment;
mod settings;
mod spare;
pub mod storage;
mod survey;

pub use catalog::{Catalog, CatalogError, ProducerIdBlock, Topic};
pub use check::{FolderCheck, JournalCheck, PartitionCheck};
pub use checkpoint::{CheckpointDone, CheckpointWork};
pub use cleanup::RetentionChoice;
pub use compaction::{CompactionChoice, CompactionDone, CompactionError, CompactionProgress, CompactionWork};
pub use config::{Checkpointing, Durability, RecoveryReport, StorageConfig, TornTail};
pub use error::{AppendError, Damage, DeleteRecordsError, JournalFailed, OpenError, ReadError, StageError};
pub use producer::{
    Marker, Origin, ProducerRefusal, ProducerState, TransactionVersion, Verification, VerificationGuard,
};
pub use reader::{
    AbortedTransaction, Batches, FileBatches, Found, IsolationLevel, PartitionReader, Read, TimestampedOffset,
    Watermarks,
};
pub use salvage::Salvaged;
pub use spare::{SpareDone, SpareWork};
pub use storage::{Appended, Committed, JournalPosition, Storage};
