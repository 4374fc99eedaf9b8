//! Settings of a data folder's storage, each with its reason.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use atonce_kernel::{TopicName, TopicPartition, Uuid};

use crate::error::Damage;
use crate::salvage::Salvaged;

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The loss of power: each group is synced before it is acknowledged.
    Sync,
    /// The death of the process; flushing is left to the operating system. After power loss the folder holds a prefix
    /// of what was acknowledged.
    Os,
}

/// Who makes checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checkpointing {
    /// `commit` does, when one is due, and takes the longer for it.
    Inline,
    /// The holder does, with [`Storage::begin_checkpoint`](crate::Storage::begin_checkpoint), and runs the slow part
    /// on another thread.
    ByCaller,
}

/// Settings of a [`Storage`](crate::Storage).
#[derive(Clone, Debug)]
pub struct StorageConfig {
    /// The data folder.
    pub directory: PathBuf,
    /// What an acknowledged write survives.
    pub durability: Durability,
    /// Who makes checkpoints.
    pub checkpointing: Checkpointing,
    /// Size of one journal file, which is also more than the largest group. 16 MiB: a new one is written full of
    /// zeros once, which takes some 15 ms.
    pub journal_file_bytes: u64,
    /// Journal files in use at which a checkpoint is due. Together with the size it bounds what recovery reads: 256
    /// MiB is about a second.
    pub journal_files_max: u32,
    /// Bytes of recent groups kept in memory, so that readers at the end never touch a file.
    pub tail_bytes_max: usize,
    /// Bytes of a partition that wait for one larger write to its segment.
    pub segment_write_bytes: usize,
    /// Bytes of all partitions that wait so, beyond which each commit writes a few partitions' segments: a checkpoint
    /// has less left to do.
    pub write_behind_bytes: usize,
    /// Files with unsynced writes that are held open until the next checkpoint; beyond, a partition's are synced at
    /// once.
    pub unsynced_files_max: usize,
    /// Segment files kept open for readers.
    pub open_files_max: usize,
    /// Free space that only markers, aborts and deletions may use.
    pub reserve_bytes: u64,
    /// Largest segment, unless the topic's `segment.bytes` says otherwise.
    pub segment_bytes: u64,
    /// Topic settings for topics that do not say otherwise, by Kafka's names of them.
    pub topic_defaults: BTreeMap<String, String>,
    /// Memory for the keys of one compaction; what does not fit is left to the next one.
    pub key_map_bytes_max: usize,
    /// Topics that the holder reads whole at each start. If they are compacted, that comes before other topics', and
    /// [`Storage::is_compaction_wanted`](crate::Storage::is_compaction_wanted) says when it should not wait.
    pub replayed_topics: BTreeSet<TopicName>,
    /// Their active segments, which compaction leaves alone, are complete when they are so large. 256 KiB: a hundred
    /// partitions of them, which is what there usually is, are half full in the mean and read in less than 100 ms.
    pub replayed_segment_bytes: u64,
    /// Written to all of them since their compaction was last thought of, at which it should not wait. 8 MiB is some 50 ms of a
    /// start.
    pub replayed_bytes_max: usize,
    /// Bytes that one step of a compaction reads.
    pub compaction_step_bytes: usize,
    /// Open although the journal is damaged, with what stands before the damage: what was acknowledged after it is lost. And
    /// look at every byte of every segment, and bring damaged partitions back with what is whole of them. Only when told by
    /// somebody who has seen the errors, and has a copy of the folder.
    pub salvage: bool,
    /// Raise the leader epoch when power loss has undone what readers may have seen (durability `os`). Only for a holder
    /// whose Metadata and OffsetForLeaderEpoch answer with [`Storage::leader_epoch`](crate::Storage::leader_epoch): a
    /// client that reads a batch of a later epoch than Metadata knows waits for newer Metadata, for ever.
    pub raise_leader_epoch: bool,
    /// The caller knows that the folder was used before: when it is empty now, its files were lost, and it is not opened.
    pub was_used: bool,
    /// Identifies the running kernel, if the caller can tell. Another one than at the last checkpoint means that the
    /// machine went down in between.
    pub boot_id: Option<Uuid>,
}

impl StorageConfig {
    /// The defaults, for the data folder `directory`.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            durability: Durability::Sync,
            checkpointing: Checkpointing::Inline,
            journal_file_bytes: 16 << 20,
            journal_files_max: 16,
            tail_bytes_max: 64 << 20,
            segment_write_bytes: 256 << 10,
            write_behind_bytes: 8 << 20,
            unsynced_files_max: 512,
            open_files_max: 256,
            reserve_bytes: 8 << 20,
            segment_bytes: 1 << 30,
            topic_defaults: BTreeMap::new(),
            key_map_bytes_max: 128 << 20,
            replayed_topics: BTreeSet::new(),
            replayed_segment_bytes: 256 << 10,
            replayed_bytes_max: 8 << 20,
            compaction_step_bytes: 1 << 20,
            salvage: false,
            raise_leader_epoch: false,
            was_used: false,
            boot_id: None,
        }
    }
}

/// What was being written when the last run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// In which journal file.
    pub path: PathBuf,
    /// Where in it, in bytes.
    pub position: u64,
    /// As far as something can be recognized there.
    pub bytes: u64,
}

/// What opening a data folder found and did.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RecoveryReport {
    /// The folder was empty.
    pub created: bool,
    /// The last run ended with [`Storage::close`](crate::Storage::close).
    pub clean: bool,
    /// The machine went down since the last checkpoint, or may have.
    pub after_power_loss: bool,
    /// Journal groups applied again.
    pub groups_replayed: u64,
    /// Entries in them.
    pub entries_replayed: u64,
    /// A torn group was found at the journal's end, and dropped: nobody was told that it was there.
    pub torn_tail: Option<TornTail>,
    /// The journal was damaged, and cut there, as [`StorageConfig::salvage`] said.
    pub salvaged: bool,
    /// Partitions that were brought back with what was whole of them.
    pub salvaged_partitions: Vec<Salvaged>,
    /// Segments cut back to what the checkpoint vouches for.
    pub segments_cut: u64,
    /// Partitions whose files are damaged, and what was found first: they are offline, all else is served.
    pub damaged: Vec<(TopicPartition, Arc<Damage>)>,
    /// Folders that are called like a partition's and are of none that is known here: copies, leftovers, somebody else's.
    /// They were left as they are.
    pub foreign_folders: Vec<PathBuf>,
}
