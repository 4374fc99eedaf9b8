//! The data folder as one value: a journal, all partition logs, the catalog, the checkpoint.
//!
//! **What it does not know**: coordinators, requests, the clock, threads. One writer holds it; readers on other threads hold
//! [`PartitionReader`]s.
//!
//! Life of an entry: *staged* (checked, applied to the writer's view, copied into the journal group's buffer: it counts for
//! everything that is staged later, and nobody sees it) → *durable* ([`Storage::commit`] has written and synced its group: watermarks move, readers
//! see it, replies may leave) → *written* to its segment → *vouched for* by a checkpoint, after which the journal may forget it.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use atonce_kernel::disk::Disk;
use atonce_kernel::{
    Offset, PartitionIndex, ProducerId, ProducerIdentity, Sequence, Timestamp, TopicId, TopicName, TopicPartition,
};

use crate::catalog::{Catalog, CatalogError, ProducerIdBlock};
use crate::config::{RecoveryReport, StorageConfig};
use crate::error::{AppendError, DeleteRecordsError, JournalFailed, OpenError, StageError};
use crate::producer::{Marker, Origin, ProducerState, TransactionVersion, Verification};
use crate::reader::PartitionReader;

/// How much has been staged, or is durable, since the folder was opened. A reply that depends on what was staged may leave when
/// [`Storage::durable_position`] has reached what [`Storage::staged_position`] was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct JournalPosition(pub u64);

/// Where a batch or marker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Offset of the first record.
    pub base_offset: Offset,
    /// Offset of the last record.
    pub last_offset: Offset,
    /// It had been appended before; the offsets are those it has.
    pub duplicate: bool,
    /// The time of append if the topic uses it (`message.timestamp.type=LogAppendTime`), else `NONE`.
    pub log_append_time: Timestamp,
    /// The partition's log start offset.
    pub log_start_offset: Offset,
    /// What must be durable before this may be acknowledged; for duplicates too.
    pub position: JournalPosition,
}

/// What a commit made durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Everything staged so far.
    pub position: JournalPosition,
    /// Partitions whose watermarks moved, each once.
    pub moved: Vec<TopicPartition>,
}

/// A data folder. See the module's comment.
pub struct Storage<D: Disk> {
    _disk: PhantomData<D>,
    catalog: Catalog,
}

fn not_built() -> JournalFailed {
    JournalFailed {
        operation: "opening",
        path: std::path::PathBuf::new(),
        cause: "storage is under construction".to_owned(),
    }
}

impl<D: Disk> Storage<D> {
    /// Opens a data folder, creating it if there is none, and brings it to what was durable.
    ///
    /// Durability: what recovery applied again, and every cut, is synced before this returns.
    /// Errors: `Corrupt` if a byte that was durable is damaged; then nothing was changed.
    pub fn open(disk: D, config: StorageConfig, now: Timestamp) -> Result<(Self, RecoveryReport), OpenError> {
        let _ = (disk, config, now);
        Err(OpenError::Failed(not_built()))
    }

    /// Topics and settings, as of everything staged.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Makes a topic with `partitions` partitions.
    pub fn create_topic(
        &mut self,
        name: &TopicName,
        id: TopicId,
        partitions: PartitionIndex,
        configs: BTreeMap<String, String>,
    ) -> Result<JournalPosition, CatalogError> {
        let _ = (name, id, partitions, configs);
        Err(StageError::from(not_built()).into())
    }

    /// Deletes a topic with all it holds. Its readers say so from the next commit on.
    pub fn delete_topic(&mut self, id: TopicId) -> Result<JournalPosition, CatalogError> {
        let _ = id;
        Err(StageError::from(not_built()).into())
    }

    /// Raises the number of partitions.
    pub fn add_partitions(&mut self, id: TopicId, partitions: PartitionIndex) -> Result<JournalPosition, CatalogError> {
        let _ = (id, partitions);
        Err(StageError::from(not_built()).into())
    }

    /// Sets, or with `None` removes, a topic's setting.
    pub fn alter_config(
        &mut self,
        id: TopicId,
        key: &str,
        value: Option<&str>,
    ) -> Result<JournalPosition, CatalogError> {
        let _ = (id, key, value);
        Err(StageError::from(not_built()).into())
    }

    /// Takes `count` producer ids that nobody had. They may be handed out once the staged position is durable.
    pub fn reserve_producer_ids(&mut self, count: u32) -> Result<ProducerIdBlock, StageError> {
        let _ = count;
        Err(not_built().into())
    }

    /// Stages the one batch that `batch` is, whose checksum and content the caller has checked.
    ///
    /// The bytes are copied once, into the journal's buffer, and the log's offset and leader epoch are put in there.
    /// A duplicate is not an error: it answers with the first append's offsets.
    pub fn append(
        &mut self,
        partition: &TopicPartition,
        batch: &[u8],
        origin: Origin,
        now: Timestamp,
    ) -> Result<Appended, AppendError> {
        let _ = (partition, batch, origin, now);
        Err(StageError::from(not_built()).into())
    }

    /// Stages the control batch that ends a producer's transaction in one partition.
    pub fn append_marker(
        &mut self,
        partition: &TopicPartition,
        marker: &Marker,
        now: Timestamp,
    ) -> Result<Appended, AppendError> {
        let _ = (partition, marker, now);
        Err(StageError::from(not_built()).into())
    }

    /// Moves the log start to `offset`, or to the high watermark for `None`. Returns the log start offset.
    pub fn delete_records(
        &mut self,
        partition: &TopicPartition,
        offset: Option<Offset>,
    ) -> Result<(Offset, JournalPosition), DeleteRecordsError> {
        let _ = (partition, offset);
        Err(StageError::from(not_built()).into())
    }

    /// Begins, or joins, the verification of a producer's transaction in one partition: whether its coordinator must be asked
    /// before `append`, and the guard to append with. `None` if there is no such partition.
    pub fn start_verification(
        &mut self,
        partition: &TopicPartition,
        producer: ProducerIdentity,
        base_sequence: Sequence,
        version: TransactionVersion,
        now: Timestamp,
    ) -> Option<Verification> {
        let _ = (partition, producer, base_sequence, version, now);
        None
    }

    /// What a partition knows of a producer, as of everything staged.
    pub fn producer_state(&self, partition: &TopicPartition, id: ProducerId) -> Option<&ProducerState> {
        let _ = (partition, id);
        None
    }

    /// All producers that a partition knows, as of everything staged.
    pub fn producers(&self, partition: &TopicPartition) -> Vec<(ProducerId, &ProducerState)> {
        let _ = partition;
        Vec::new()
    }

    /// Forgets producers that have not written for `expiration_ms` and have no transaction open.
    pub fn expire_producers(&mut self, expiration_ms: i64, now: Timestamp) {
        let _ = (expiration_ms, now);
    }

    /// The partition, for reading; other threads may hold it.
    pub fn reader(&self, partition: &TopicPartition) -> Option<Arc<PartitionReader<D>>> {
        let _ = partition;
        None
    }

    /// Until [`end_unit`](Self::end_unit), what is staged is one decision: it goes into one journal group, and after a crash is there
    /// whole or not at all. Outside of a unit each entry is one by itself. Units do not nest.
    pub fn begin_unit(&mut self) {}

    /// Ends what [`begin_unit`](Self::begin_unit) began.
    pub fn end_unit(&mut self) {}

    /// Makes everything staged durable, then visible. With nothing staged it does nothing.
    ///
    /// Durability: `Sync`: synced when it returns; `Os`: handed to the operating system.
    /// Retry: never. After an error the storage answers nothing more.
    pub fn commit(&mut self) -> Result<Committed, JournalFailed> {
        Err(not_built())
    }

    /// Everything staged so far.
    pub fn staged_position(&self) -> JournalPosition {
        JournalPosition::default()
    }

    /// Everything that is durable.
    pub fn durable_position(&self) -> JournalPosition {
        JournalPosition::default()
    }

    /// Writes a checkpoint, so that recovery begins here. What is staged is committed first.
    pub fn checkpoint(&mut self) -> Result<(), JournalFailed> {
        Err(not_built())
    }

    /// Commits, writes a checkpoint, and leaves the mark of a clean end.
    pub fn close(self) -> Result<(), JournalFailed> {
        Err(not_built())
    }
}
