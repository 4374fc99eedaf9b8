//! The data folder as one value: a journal, all partition logs, the catalog, the checkpoint.
//!
//! **What it does not know**: coordinators, requests, the clock, threads. One writer holds it; readers on other
//! threads hold [`PartitionReader`]s.
//!
//! Life of an entry: *staged* (checked, applied to the writer's view, copied into the journal group's buffer: it
//! counts for everything that is staged later, and nobody sees it) → *durable* ([`Storage::commit`] has written and
//! synced its group: watermarks move, readers see it, replies may leave) → *written* to its segment → *vouched for*
//! by a checkpoint, after which the journal may forget it.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use atonce_kernel::disk::{Disk, DiskFile};
use atonce_kernel::{
    Offset, PartitionIndex, ProducerId, ProducerIdentity, Sequence, Timestamp, TopicId, TopicName, TopicPartition,
};
use atonce_protocol::records::{set_base_offset, set_log_append_time, set_partition_leader_epoch};
use bytes::{Bytes, BytesMut};

use crate::batch::{BatchError, BatchHeader, EndTransactionMarker};
use crate::catalog::{Catalog, CatalogError, ProducerIdBlock, Topic};
use crate::checkpoint::{
    CheckpointDone, CheckpointOutcome, CheckpointWork, Head, Leftovers, SegmentCheckpoint, UnsyncedFolder, encode_head,
    encode_partition, seal,
};
use crate::config::{Checkpointing, Durability, RecoveryReport, StorageConfig};
use crate::entry::{BATCH_OVERHEAD_BYTES, Entry};
use crate::error::{AppendError, DeleteRecordsError, JournalFailed, OpenError, StageError};
use crate::folders::deleted_folder;
use crate::journal::{GROUP_HEADER_BYTES, Journal, new_group, padded_bytes};
use crate::partition::{GroupRange, Partition, Shared};
use crate::producer::{Marker, Origin, ProducerState, TransactionVersion, Verdict, Verification};
use crate::reader::PartitionReader;
use crate::recovery;
use crate::settings::Settings;
use crate::spare::{SpareDone, SpareWork};

/// Left in the folder by [`Storage::close`], and removed before anything is written.
pub(crate) const CLEAN_FILE: &str = "clean-shutdown";
/// The folder of the journal's files.
pub(crate) const JOURNAL_FOLDER: &str = "journal";
/// An entry other than a batch is taken to be at most this large, for the question whether it fits.
const SMALL_ENTRY_BYTES: usize = 128;

/// How much has been staged, or is durable, since the folder was opened. A reply that depends on what was staged may
/// leave when [`Storage::durable_position`] has reached what [`Storage::staged_position`] was.
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
    /// The time of append if the topic uses it (`message.timestamp.type=LogAppendTime`), else `NONE`. Of a duplicate, the time of
    /// the batch that it repeats.
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
    /// Partitions whose watermarks moved since the last commit's answer, and those deleted. A few may be named twice.
    pub moved: Vec<TopicPartition>,
}

/// Of the partitions that a commit touches, one in so many is written to its segment after the commit.
const WRITE_BEHIND_SHARE: usize = 16;

/// A place in [`Storage::slots`]. Never used twice.
pub(crate) type Slot = usize;

/// Who may use the space that is kept back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Space {
    /// New data: not the reserve.
    Ordinary,
    /// Ends of transactions, deletions: what frees space or lets others go on.
    Reserve,
}

/// A commit's batches, as long as they are in memory.
struct RecentCommit {
    bytes: usize,
    /// How many of each partition, which stand in this order in its tail.
    batches: Vec<(Slot, usize)>,
}

/// A file that no checkpoint names any more. Readers that have begun may still be about to open it.
struct OldFile {
    slot: Slot,
    path: PathBuf,
    delay_ms: i64,
    /// `None` until somebody says what time it is.
    due: Option<Timestamp>,
}

/// A data folder. See the module's comment.
pub struct Storage<D: Disk> {
    pub(crate) config: StorageConfig,
    pub(crate) shared: Shared<D>,
    pub(crate) journal: Journal<D>,
    pub(crate) catalog: Catalog,
    pub(crate) slots: Vec<Option<Partition<D>>>,
    by_name: BTreeMap<TopicPartition, Slot>,
    by_id: BTreeMap<(TopicId, PartitionIndex), Slot>,
    /// Groups of this commit that are full, then the one that is being filled.
    sealed: Vec<BytesMut>,
    group: BytesMut,
    is_in_unit: bool,
    /// Partitions with something staged, each once.
    touched: Vec<Slot>,
    /// Partitions whose deletion is staged.
    deleted: Vec<Slot>,
    staged: JournalPosition,
    durable: JournalPosition,
    /// Partitions whose watermarks moved, for the next commit to report.
    moved: Vec<TopicPartition>,
    recent: VecDeque<RecentCommit>,
    recent_bytes: usize,
    /// Of these, what is in no segment yet.
    unwritten_bytes: usize,
    /// Partitions with something that is in no segment yet, each once, in the order in which that began.
    unwritten: VecDeque<Slot>,
    unsynced_files: usize,
    pub(crate) leftovers: Leftovers,
    old_files: Vec<OldFile>,
    pub(crate) leader_epoch: i32,
    is_space_low: bool,
    /// Besides the reserve.
    keep_free_bytes: u64,
    /// Why the last entry of new data was not taken, if it was not.
    refusal: Option<StageError>,
    is_checkpoint_running: bool,
    /// A checkpoint would let files go.
    pub(crate) wants_checkpoint: bool,
    pub(crate) is_compaction_running: bool,
    /// Staged to topics that are replayed, since their compaction was last thought of.
    pub(crate) replayed_bytes: usize,
    /// Not while opening: it would take as long as there is data without.
    pub(crate) makes_index_files: bool,
    failed: Option<JournalFailed>,
}

impl<D: Disk> Storage<D> {
    /// Opens a data folder, creating it if there is none, and brings it to what was durable.
    ///
    /// Durability: what recovery applied again, and every cut, is synced before this returns.
    /// Errors: `Corrupt` if a byte that was durable is damaged; then nothing was changed.
    pub fn open(disk: D, config: StorageConfig) -> Result<(Self, RecoveryReport), OpenError> {
        recovery::open(Arc::new(disk), config)
    }

    /// A storage without partitions, whose journal is not started.
    pub(crate) fn new(config: StorageConfig, shared: Shared<D>, journal: Journal<D>, leader_epoch: i32) -> Self {
        Self {
            config,
            shared,
            journal,
            catalog: Catalog::default(),
            slots: Vec::new(),
            by_name: BTreeMap::new(),
            by_id: BTreeMap::new(),
            sealed: Vec::new(),
            group: new_group(0),
            is_in_unit: false,
            touched: Vec::new(),
            deleted: Vec::new(),
            staged: JournalPosition(0),
            durable: JournalPosition(0),
            moved: Vec::new(),
            recent: VecDeque::new(),
            recent_bytes: 0,
            unwritten_bytes: 0,
            unwritten: VecDeque::new(),
            unsynced_files: 0,
            leftovers: Leftovers::default(),
            old_files: Vec::new(),
            leader_epoch,
            is_space_low: false,
            keep_free_bytes: 0,
            refusal: None,
            is_checkpoint_running: false,
            wants_checkpoint: false,
            is_compaction_running: false,
            replayed_bytes: 0,
            makes_index_files: false,
            failed: None,
        }
    }

    /// The epoch that every batch gets which is appended now; one for all partitions.
    pub fn leader_epoch(&self) -> i32 {
        self.leader_epoch
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
        self.catalog.check_create(name, id, partitions)?;
        let config_bytes: usize = configs.iter().map(|(key, value)| key.len() + value.len() + 8).sum();
        self.make_room(SMALL_ENTRY_BYTES + name.as_str().len() + config_bytes, Space::Ordinary)?;
        let topic = Topic { id, name: name.clone(), partitions, configs };
        Ok(self.stage_entry(Entry::TopicCreated(topic)))
    }

    /// Deletes a topic with all it holds. Its readers say so from the next commit on.
    pub fn delete_topic(&mut self, id: TopicId) -> Result<JournalPosition, CatalogError> {
        self.catalog.topic_by_id(id).ok_or(CatalogError::UnknownTopic(id))?;
        self.make_room(SMALL_ENTRY_BYTES, Space::Reserve)?;
        Ok(self.stage_entry(Entry::TopicDeleted { topic_id: id }))
    }

    /// Raises the number of partitions to `partitions`.
    pub fn add_partitions(&mut self, id: TopicId, partitions: PartitionIndex) -> Result<JournalPosition, CatalogError> {
        self.catalog.check_partitions(id, partitions)?;
        self.make_room(SMALL_ENTRY_BYTES, Space::Ordinary)?;
        Ok(self.stage_entry(Entry::PartitionsAdded { topic_id: id, partitions }))
    }

    /// Sets, or with `None` removes, a topic's setting.
    pub fn alter_config(
        &mut self,
        id: TopicId,
        key: &str,
        value: Option<&str>,
    ) -> Result<JournalPosition, CatalogError> {
        self.catalog.topic_by_id(id).ok_or(CatalogError::UnknownTopic(id))?;
        self.make_room(SMALL_ENTRY_BYTES + key.len() + value.unwrap_or_default().len(), Space::Reserve)?;
        Ok(self.stage_entry(Entry::ConfigAltered { topic_id: id, key, value }))
    }

    /// Takes `count` producer ids that nobody had. They may be handed out once the staged position is durable.
    pub fn reserve_producer_ids(&mut self, count: u32) -> Result<ProducerIdBlock, StageError> {
        self.make_room(SMALL_ENTRY_BYTES, Space::Reserve)?;
        let first = self.catalog.next_producer_id();
        self.stage_entry(Entry::ProducerIdsReserved { next: first.0.saturating_add(i64::from(count)) });
        Ok(ProducerIdBlock { first, count })
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
        let slot = self.slot(partition)?;
        self.check_online(slot)?;
        let invalid = |error| AppendError::Batch { partition: partition.clone(), error };
        let mut header = BatchHeader::parse_whole(batch).map_err(invalid)?;
        if header.is_control() {
            return Err(invalid(BatchError::ControlBatch));
        }
        let verdict = self
            .partition(slot)
            .ok_or_else(|| AppendError::UnknownPartition(partition.clone()))?
            .producers
            .check_batch(&header, origin)
            .map_err(|refusal| AppendError::Producer { partition: partition.clone(), refusal })?;
        match verdict {
            Verdict::Duplicate(original) => {
                Ok(self.appended(slot, original.base_offset(), original.last_offset, true, original.timestamp))
            }
            Verdict::Append => {
                let space = match origin {
                    Origin::Client { .. } | Origin::Coordinator { .. } => Space::Ordinary,
                    Origin::Ending => Space::Reserve,
                };
                self.make_room(BATCH_OVERHEAD_BYTES + batch.len(), space)?;
                let log_append_time = if self.is_log_append_time(slot) { now } else { Timestamp::NONE };
                if log_append_time != Timestamp::NONE {
                    header.max_timestamp = now;
                }
                let (base_offset, range) = self.stage_bytes(slot, batch, log_append_time);
                if let Some(partition) = self.partition_mut(slot) {
                    partition.stage_batch(&header, range);
                }
                let last_offset = base_offset + i64::from(header.last_offset_delta);
                Ok(self.appended(slot, base_offset, last_offset, false, log_append_time))
            }
        }
    }

    /// Stages the control batch that ends a producer's transaction in one partition.
    pub fn append_marker(
        &mut self,
        partition: &TopicPartition,
        marker: &Marker,
        now: Timestamp,
    ) -> Result<Appended, AppendError> {
        let slot = self.slot(partition)?;
        self.check_online(slot)?;
        self.partition(slot)
            .ok_or_else(|| AppendError::UnknownPartition(partition.clone()))?
            .producers
            .check_marker(marker)
            .map_err(|refusal| AppendError::Producer { partition: partition.clone(), refusal })?;
        let end = EndTransactionMarker { outcome: marker.outcome, coordinator_epoch: marker.coordinator_epoch };
        let batch = end.encode(marker.producer, now);
        let header = BatchHeader::parse_whole(&batch)
            .map_err(|error| AppendError::Batch { partition: partition.clone(), error })?;
        self.make_room(BATCH_OVERHEAD_BYTES + batch.len(), Space::Reserve)?;
        let (offset, range) = self.stage_bytes(slot, &batch, Timestamp::NONE);
        if let Some(partition) = self.partition_mut(slot) {
            partition.stage_marker(&header, end, range);
        }
        Ok(self.appended(slot, offset, offset, false, Timestamp::NONE))
    }

    /// Moves the log start to `offset`, or to the high watermark for `None`. Returns the log start offset.
    pub fn delete_records(
        &mut self,
        partition: &TopicPartition,
        offset: Option<Offset>,
    ) -> Result<(Offset, JournalPosition), DeleteRecordsError> {
        let unknown = || DeleteRecordsError::UnknownPartition(partition.clone());
        let slot = *self.by_name.get(partition).ok_or_else(unknown)?;
        let log = self.partition(slot).ok_or_else(unknown)?;
        if let Some(damage) = &log.damage {
            return Err(DeleteRecordsError::Offline { partition: partition.clone(), damage: Arc::clone(damage) });
        }
        let (topic_id, log_start_offset) = (log.topic_id, log.log_start_offset);
        let high_watermark = log.reader.watermarks().high_watermark;
        let requested = offset.unwrap_or(high_watermark);
        if requested > high_watermark || requested < 0 {
            return Err(DeleteRecordsError::OutOfRange { partition: partition.clone(), requested, high_watermark });
        }
        if requested <= log_start_offset {
            return Ok((log_start_offset, self.staged));
        }
        self.make_room(SMALL_ENTRY_BYTES, Space::Reserve)?;
        let position =
            self.stage_entry(Entry::LogStartMoved { topic_id, partition: partition.partition, offset: requested });
        Ok((requested, position))
    }

    /// Begins, or joins, the verification of a producer's transaction in one partition: whether its coordinator must
    /// be asked before `append`, and the guard to append with. `None` if there is no such partition.
    pub fn start_verification(
        &mut self,
        partition: &TopicPartition,
        producer: ProducerIdentity,
        base_sequence: Sequence,
        version: TransactionVersion,
        now: Timestamp,
    ) -> Option<Verification> {
        let slot = *self.by_name.get(partition)?;
        Some(self.partition_mut(slot)?.producers.start_verification(producer, base_sequence, version, now))
    }

    /// What a partition knows of a producer, as of everything staged.
    pub fn producer_state(&self, partition: &TopicPartition, id: ProducerId) -> Option<&ProducerState> {
        self.partition(*self.by_name.get(partition)?)?.producers.get(id)
    }

    /// All producers that a partition knows, as of everything staged.
    pub fn producers(&self, partition: &TopicPartition) -> Vec<(ProducerId, &ProducerState)> {
        let slot = self.by_name.get(partition).copied();
        slot.and_then(|slot| self.partition(slot)).map(|log| log.producers.iter().collect()).unwrap_or_default()
    }

    /// Bytes of a partition that are durable in the journal and not in its segments yet.
    pub fn unwritten_bytes(&self, partition: &TopicPartition) -> usize {
        let slot = self.by_name.get(partition).copied();
        slot.and_then(|slot| self.partition(slot)).map_or(0, Partition::unwritten_bytes)
    }

    /// Forgets producers that have not written for `expiration_ms` and have no transaction open.
    pub fn expire_producers(&mut self, expiration_ms: i64, now: Timestamp) {
        let before = now.plus_ms(expiration_ms.saturating_neg());
        self.slots.iter_mut().flatten().for_each(|partition| partition.producers.expire(before));
    }

    /// The partition, for reading; other threads may hold it.
    pub fn reader(&self, partition: &TopicPartition) -> Option<Arc<PartitionReader<D>>> {
        let slot = *self.by_name.get(partition)?;
        self.partition(slot).map(|partition| Arc::clone(&partition.reader))
    }

    /// Until [`end_unit`](Self::end_unit), what is staged is one decision: it goes into one journal group, and after
    /// a crash is there whole or not at all. Outside of a unit each entry is one by itself. Units do not nest.
    pub fn begin_unit(&mut self) {
        debug_assert!(!self.is_in_unit, "units do not nest");
        // A unit begins with most of a group before it.
        if self.group.len() as u64 > self.journal.group_bytes_max() / 4 {
            self.seal_group();
        }
        self.is_in_unit = true;
    }

    /// Ends what [`begin_unit`](Self::begin_unit) began.
    pub fn end_unit(&mut self) {
        self.is_in_unit = false;
    }

    /// Everything staged so far.
    pub fn staged_position(&self) -> JournalPosition {
        self.staged
    }

    /// Everything that is durable.
    pub fn durable_position(&self) -> JournalPosition {
        self.durable
    }

    /// Makes everything staged durable, then visible. With nothing staged it does nothing.
    ///
    /// Durability: `Sync`: synced when it returns; `Os`: handed to the operating system.
    /// Retry: never. After an error the storage answers nothing more.
    pub fn commit(&mut self) -> Result<Committed, JournalFailed> {
        self.check_failed()?;
        let result = self.try_commit();
        self.remember_failure(result)?;
        Ok(Committed { position: self.durable, moved: std::mem::take(&mut self.moved) })
    }

    fn try_commit(&mut self) -> Result<(), JournalFailed> {
        if self.staged == self.durable {
            return Ok(());
        }
        self.make_durable()?;
        if self.config.checkpointing == Checkpointing::Inline && self.is_checkpoint_due() {
            self.try_checkpoint()?;
        }
        Ok(())
    }

    fn make_durable(&mut self) -> Result<(), JournalFailed> {
        debug_assert!(!self.is_in_unit, "a commit does not come between the entries of a unit");
        self.seal_group();
        let mut groups = Vec::with_capacity(self.sealed.len());
        for group in std::mem::take(&mut self.sealed) {
            groups.push(self.journal.write(group)?);
        }
        match self.config.durability {
            Durability::Sync => self.journal.sync()?,
            Durability::Os => {}
        }
        self.durable = self.staged;
        self.publish(&groups)?;
        self.after_publish()?;
        match self.config.checkpointing {
            Checkpointing::Inline => {
                if self.journal.wants_spare() && !self.journal.has_spare() {
                    // If the disk is full, `make_room` will say so.
                    let _ = self.journal.add_spare();
                }
            }
            Checkpointing::ByCaller => {}
        }
        Ok(())
    }

    /// A journal file to be made ahead, if it is time: [`SpareWork::run`] may be called elsewhere while the storage is used. Whoever
    /// does not ask for it, or is late, has the commits make them.
    pub fn begin_spare(&mut self) -> Option<SpareWork<D>> {
        if self.failed.is_some() { None } else { self.journal.begin_spare() }
    }

    /// Takes note of what became of a journal file that was made ahead.
    pub fn finish_spare(&mut self, done: SpareDone) {
        self.journal.finish_spare(done);
    }

    /// Whether the journal has grown so far that a checkpoint should be made, or files wait to be removed.
    pub fn is_checkpoint_due(&self) -> bool {
        let files_max = usize::try_from(self.config.journal_files_max).unwrap_or(usize::MAX);
        !self.is_checkpoint_running && (self.wants_checkpoint || self.journal.files_in_use() >= files_max)
    }

    /// Commits, and prepares a checkpoint: the quick part, after which the storage may be used while
    /// [`CheckpointWork::run`] goes on elsewhere. `None` while another one runs, or if segments cannot be written now.
    pub fn begin_checkpoint(&mut self) -> Result<Option<CheckpointWork<D>>, JournalFailed> {
        self.check_failed()?;
        let work = self.prepare_checkpoint();
        self.remember_failure(work)
    }

    /// Takes note of what became of a checkpoint, and frees journal files.
    pub fn finish_checkpoint(&mut self, done: CheckpointDone) -> Result<(), JournalFailed> {
        self.check_failed()?;
        let result = self.conclude_checkpoint(done);
        self.remember_failure(result)
    }

    /// Writes a checkpoint, so that recovery begins here, unless one is running elsewhere or segments cannot be
    /// written now. What is staged is committed first.
    pub fn checkpoint(&mut self) -> Result<(), JournalFailed> {
        self.check_failed()?;
        let result = self.try_checkpoint();
        self.remember_failure(result)
    }

    /// Commits, writes a checkpoint, and leaves the mark of a clean end.
    pub fn close(mut self) -> Result<(), JournalFailed> {
        self.commit()?;
        self.checkpoint()?;
        if self.is_checkpoint_running {
            // The one that runs is older than the end; the journal has the rest.
            return Ok(());
        }
        self.remove_files(|_| true);
        let path = self.config.directory.join(CLEAN_FILE);
        let mark = || {
            let file = self.shared.disk.open_or_create(&path)?;
            file.sync()?;
            self.shared.disk.sync_directory(&self.config.directory)
        };
        mark().map_err(|error| JournalFailed::new("making", &path, &error))
    }

    pub(crate) fn check_failed(&self) -> Result<(), JournalFailed> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    pub(crate) fn remember_failure<T>(&mut self, result: Result<T, JournalFailed>) -> Result<T, JournalFailed> {
        if let Err(failed) = &result {
            self.failed = Some(failed.clone());
        }
        result
    }

    fn slot(&self, partition: &TopicPartition) -> Result<Slot, AppendError> {
        self.by_name.get(partition).copied().ok_or_else(|| AppendError::UnknownPartition(partition.clone()))
    }

    fn check_online(&self, slot: Slot) -> Result<(), AppendError> {
        match self.partition(slot).and_then(|log| Some((log, log.damage.as_ref()?))) {
            Some((log, damage)) => {
                Err(AppendError::Offline { partition: log.name.clone(), damage: Arc::clone(damage) })
            }
            None => Ok(()),
        }
    }

    pub(crate) fn partition(&self, slot: Slot) -> Option<&Partition<D>> {
        self.slots.get(slot)?.as_ref()
    }

    pub(crate) fn partition_mut(&mut self, slot: Slot) -> Option<&mut Partition<D>> {
        self.slots.get_mut(slot)?.as_mut()
    }

    pub(crate) fn slot_by_id(&self, topic_id: TopicId, partition: PartitionIndex) -> Option<Slot> {
        self.by_id.get(&(topic_id, partition)).copied()
    }

    fn is_log_append_time(&self, slot: Slot) -> bool {
        self.partition(slot).is_some_and(|partition| partition.settings.is_log_append_time)
    }

    fn appended(
        &self,
        slot: Slot,
        base_offset: Offset,
        last_offset: Offset,
        duplicate: bool,
        log_append_time: Timestamp,
    ) -> Appended {
        let log_start_offset = self.partition(slot).map_or(0, |partition| partition.log_start_offset);
        Appended { base_offset, last_offset, duplicate, log_append_time, log_start_offset, position: self.staged }
    }

    /// Whether an entry of `bytes` can be staged: it must fit into a group, the group into the journal, and its
    /// batches on the disk.
    fn make_room(&mut self, bytes: usize, space: Space) -> Result<(), StageError> {
        let result = self.find_room(bytes, space);
        if space == Space::Ordinary {
            match &result {
                Ok(()) => self.refusal = None,
                Err(full @ StageError::DiskFull { .. }) => self.refusal = Some(full.clone()),
                Err(StageError::GroupFull { .. } | StageError::Failed(_)) => {}
            }
        }
        result
    }

    /// Refuses new data when it would leave less than so many bytes of the disk free.
    pub fn keep_free(&mut self, bytes: u64) {
        self.keep_free_bytes = bytes;
        self.check_space();
    }

    /// Why new data is refused: the disk was full when it last came. `None` once some was taken again.
    pub fn refusal(&self) -> Option<&StageError> {
        self.refusal.as_ref()
    }

    fn find_room(&mut self, bytes: usize, space: Space) -> Result<(), StageError> {
        self.check_failed()?;
        let max = self.journal.group_bytes_max();
        let is_group_empty = self.group.len() <= GROUP_HEADER_BYTES;
        if !self.is_in_unit && !is_group_empty && padded_bytes(self.group.len() + bytes) > max / 2 {
            self.seal_group();
        }
        if padded_bytes(self.group.len() + bytes) > max {
            let left = max.saturating_sub(self.group.len() as u64);
            return Err(StageError::GroupFull { needed: bytes as u64, left });
        }
        let reserve = match space {
            Space::Ordinary => self.config.reserve_bytes,
            Space::Reserve => 0,
        };
        if space == Space::Ordinary && (self.is_space_low || self.is_tail_stuck()) {
            // There is no time to wait for readers that may have begun.
            self.remove_files(|_| true);
            self.check_space();
            if self.is_space_low || self.is_tail_stuck() {
                return Err(self.disk_full());
            }
        }
        while !self.has_journal_room(bytes, reserve) {
            if self.journal.add_spare().is_err() {
                return Err(self.disk_full());
            }
        }
        Ok(())
    }

    fn has_journal_room(&self, bytes: usize, reserve: u64) -> bool {
        let sealed = self.sealed.iter().map(|group| padded_bytes(group.len()));
        let current = std::iter::once(padded_bytes(self.group.len() + bytes));
        self.journal.has_room(sealed.chain(current), reserve)
    }

    /// Segments could not be written for so long that memory is full of what they lack.
    fn is_tail_stuck(&self) -> bool {
        self.recent_bytes > self.config.tail_bytes_max.saturating_mul(2)
    }

    fn check_space(&mut self) {
        let reserve = self.config.reserve_bytes.saturating_add(self.keep_free_bytes);
        let needed = reserve.saturating_add(self.unwritten_bytes as u64);
        self.is_space_low = self.shared.disk.available_bytes().is_ok_and(|available| available < needed);
    }

    fn disk_full(&self) -> StageError {
        StageError::DiskFull {
            available_bytes: self.shared.disk.available_bytes().unwrap_or_default(),
            reserve_bytes: self.config.reserve_bytes.saturating_add(self.keep_free_bytes),
        }
    }

    fn seal_group(&mut self) {
        if self.group.len() > GROUP_HEADER_BYTES {
            let next = new_group(self.group.len().min(1 << 20));
            self.sealed.push(std::mem::replace(&mut self.group, next));
        }
    }

    /// Copies a batch into the group, with its place in the log. Room was made.
    fn stage_bytes(&mut self, slot: Slot, batch: &[u8], log_append_time: Timestamp) -> (Offset, GroupRange) {
        let Some(partition) = self.slots.get_mut(slot).and_then(Option::as_mut) else {
            return (0, GroupRange { group: 0, start: 0, end: 0 });
        };
        let base_offset = partition.next_offset;
        if partition.settings.is_replayed {
            self.replayed_bytes += batch.len();
        }
        let entry = Entry::Batch { topic_id: partition.topic_id, partition: partition.name.partition, batch };
        if !partition.is_touched {
            partition.is_touched = true;
            self.touched.push(slot);
        }
        let range = entry.encode(&mut self.group).unwrap_or_default();
        if let Some(bytes) = self.group.get_mut(range.clone()) {
            set_base_offset(bytes, base_offset);
            set_partition_leader_epoch(bytes, self.leader_epoch);
            if log_append_time != Timestamp::NONE {
                set_log_append_time(bytes, log_append_time.0);
            }
        }
        self.staged.0 += 1;
        (base_offset, GroupRange { group: self.sealed.len(), start: range.start, end: range.end })
    }

    fn stage_entry(&mut self, entry: Entry<'_>) -> JournalPosition {
        entry.encode(&mut self.group);
        self.staged.0 += 1;
        self.apply(entry);
        self.staged
    }

    /// Follows an entry other than a batch; staging and recovery both come here.
    pub(crate) fn apply(&mut self, entry: Entry<'_>) {
        match entry {
            Entry::Batch { .. } => debug_assert!(false, "batches are staged with their place"),
            Entry::TopicCreated(topic) => {
                let id = topic.id;
                let partitions = topic.partitions;
                self.catalog.insert(topic);
                self.add_logs(id, 0..partitions);
            }
            Entry::TopicDeleted { topic_id } => self.apply_deletion(topic_id),
            Entry::PartitionsAdded { topic_id, partitions } => {
                let current = self.catalog.topic_by_id(topic_id).map_or(partitions, |topic| topic.partitions);
                self.catalog.set_partitions(topic_id, partitions);
                self.add_logs(topic_id, current..partitions);
            }
            Entry::ConfigAltered { topic_id, key, value } => {
                self.catalog.set_config(topic_id, key, value);
                self.refresh_settings(topic_id);
            }
            Entry::ProducerIdsReserved { next } => self.catalog.set_next_producer_id(next),
            Entry::LogStartMoved { topic_id, partition, offset } => {
                if let Some(slot) = self.slot_by_id(topic_id, partition) {
                    self.touch(slot);
                    if let Some(log) = self.partition_mut(slot) {
                        log.log_start_offset = offset;
                    }
                }
            }
        }
    }

    /// Recovery's: nobody waits for what it moved.
    pub(crate) fn forget_moved(&mut self) {
        self.moved.clear();
    }

    pub(crate) fn touch(&mut self, slot: Slot) {
        if let Some(partition) = self.slots.get_mut(slot).and_then(Option::as_mut)
            && !partition.is_touched
        {
            partition.is_touched = true;
            self.touched.push(slot);
        }
    }

    fn add_logs(&mut self, topic_id: TopicId, indexes: std::ops::Range<PartitionIndex>) {
        let Some(topic) = self.catalog.topic_by_id(topic_id) else { return };
        let settings = Settings::in_storage(topic, &self.config);
        let name = topic.name.clone();
        for index in indexes {
            let name = TopicPartition::new(name.clone(), index);
            let partition = Partition::new(name, topic_id, &self.config.directory, settings, &self.shared);
            self.add_log(partition);
        }
    }

    pub(crate) fn add_log(&mut self, partition: Partition<D>) {
        let slot = self.slots.len();
        self.by_name.insert(partition.name.clone(), slot);
        self.by_id.insert((partition.topic_id, partition.name.partition), slot);
        self.slots.push(Some(partition));
    }

    fn apply_deletion(&mut self, topic_id: TopicId) {
        let Some(topic) = self.catalog.remove(topic_id) else { return };
        for index in 0..topic.partitions {
            if let Some(slot) = self.by_id.remove(&(topic_id, index)) {
                self.by_name.remove(&TopicPartition::new(topic.name.clone(), index));
                self.deleted.push(slot);
            }
        }
    }

    /// Sets what holds for topics that do not say otherwise, by Kafka's names; for those that are there as well.
    pub fn set_topic_defaults(&mut self, defaults: BTreeMap<String, String>) {
        self.config.topic_defaults = defaults;
        let ids: Vec<TopicId> = self.catalog.topics().map(|topic| topic.id).collect();
        ids.into_iter().for_each(|id| self.refresh_settings(id));
    }

    fn refresh_settings(&mut self, topic_id: TopicId) {
        let Some(topic) = self.catalog.topic_by_id(topic_id) else { return };
        let settings = Settings::in_storage(topic, &self.config);
        let slots: Vec<Slot> = (0..topic.partitions).filter_map(|index| self.slot_by_id(topic_id, index)).collect();
        for slot in slots {
            if let Some(partition) = self.partition_mut(slot) {
                partition.settings = settings;
            }
        }
    }

    /// Makes what the groups hold visible, and lets deletions take effect.
    pub(crate) fn publish(&mut self, groups: &[Bytes]) -> Result<(), JournalFailed> {
        let mut batches = Vec::with_capacity(self.touched.len());
        for slot in std::mem::take(&mut self.touched) {
            if let Some(partition) = self.slots.get_mut(slot).and_then(Option::as_mut) {
                let before = partition.unwritten_bytes();
                batches.push((slot, partition.publish(groups)));
                self.unwritten_bytes += partition.unwritten_bytes() - before;
                if !partition.is_queued && partition.unwritten_bytes() > 0 {
                    partition.is_queued = true;
                    self.unwritten.push_back(slot);
                }
                self.moved.push(partition.name.clone());
            }
        }
        let bytes = groups.iter().map(Bytes::len).sum();
        self.recent_bytes += bytes;
        self.recent.push_back(RecentCommit { bytes, batches });
        for slot in std::mem::take(&mut self.deleted) {
            if let Some(partition) = self.slots.get_mut(slot).and_then(Option::take) {
                self.moved.push(partition.name.clone());
                self.set_aside(partition)?;
            }
        }
        Ok(())
    }

    /// Renames a deleted partition's folder, so that its name is free. The next checkpoint removes it.
    fn set_aside(&mut self, mut partition: Partition<D>) -> Result<(), JournalFailed> {
        partition.mark_deleted();
        self.unwritten_bytes -= partition.unwritten_bytes();
        self.unsynced_files = self.unsynced_files.saturating_sub(partition.files.unsynced_count());
        for files in partition.files.segments() {
            self.shared.handles.forget(files.segment.number);
        }
        if partition.files.has_folder() {
            let folder = &partition.files.folder;
            let aside = deleted_folder(folder, partition.topic_id);
            match self.shared.disk.rename(folder, &aside) {
                Ok(()) => self.leftovers.folders.push(aside),
                // The damage that took it offline.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound && partition.damage.is_some() => {}
                Err(error) => return Err(JournalFailed::new("renaming", folder, &error)),
            }
        }
        Ok(())
    }

    /// Moves what is durable from memory towards the segments.
    pub(crate) fn after_publish(&mut self) -> Result<(), JournalFailed> {
        let mut large = Vec::new();
        if let Some(newest) = self.recent.back() {
            for (slot, _) in &newest.batches {
                if self
                    .partition(*slot)
                    .is_some_and(|partition| partition.unwritten_bytes() >= self.config.segment_write_bytes)
                {
                    large.push(*slot);
                }
            }
        }
        for slot in large {
            // If it cannot be written now, the bytes stay in memory and in the journal.
            self.write_segments(slot)?;
        }
        self.write_behind()?;
        while self.recent_bytes > self.config.tail_bytes_max && self.drop_oldest()? {}
        self.check_space();
        Ok(())
    }

    /// Writes some partitions' segments, so that not all of them wait for the same checkpoint: a share of as many as
    /// the last commit touched, which each time finds more to write at once.
    fn write_behind(&mut self) -> Result<(), JournalFailed> {
        let touched = self.recent.back().map_or(0, |newest| newest.batches.len());
        let mut budget = touched / WRITE_BEHIND_SHARE + 1;
        while self.unwritten_bytes > self.config.write_behind_bytes
            && budget > 0
            && let Some(slot) = self.unwritten.pop_front()
        {
            let Some(partition) = self.partition_mut(slot) else { continue };
            partition.is_queued = false;
            // Written meanwhile, for another reason.
            if partition.unwritten_bytes() == 0 {
                continue;
            }
            if !self.write_segments(slot)? {
                break;
            }
            budget -= 1;
        }
        Ok(())
    }

    /// Drops the oldest commit's batches from memory, when they are in their segments. `false`: they cannot be
    /// written now, or there is none.
    fn drop_oldest(&mut self) -> Result<bool, JournalFailed> {
        let Some(oldest) = self.recent.pop_front() else { return Ok(false) };
        for (slot, _) in &oldest.batches {
            if !self.write_segments(*slot)? {
                self.recent.push_front(oldest);
                return Ok(false);
            }
        }
        for (slot, count) in oldest.batches {
            if let Some(partition) = self.partition_mut(slot) {
                partition.drop_from_tail(count);
            }
        }
        self.recent_bytes -= oldest.bytes;
        Ok(true)
    }

    /// Writes a partition's durable batches to its segment. `Ok(false)`: the disk did not take them.
    pub(crate) fn write_segments(&mut self, slot: Slot) -> Result<bool, JournalFailed> {
        let Some(partition) = self.slots.get_mut(slot).and_then(Option::as_mut) else { return Ok(true) };
        let (unwritten, unsynced) = (partition.unwritten_bytes(), partition.files.unsynced_count());
        let result = partition.write_segments(&mut self.shared);
        self.unwritten_bytes -= unwritten - partition.unwritten_bytes();
        self.unsynced_files += partition.files.unsynced_count() - unsynced;
        if result.is_err() {
            if !partition.is_queued {
                partition.is_queued = true;
                self.unwritten.push_back(slot);
            }
            return Ok(false);
        }
        // A file with unsynced writes is not closed. When there are too many, these are synced, and then closed.
        if self.unsynced_files > self.config.unsynced_files_max {
            self.unsynced_files = self.unsynced_files.saturating_sub(partition.files.unsynced_count());
            partition.files.sync(&self.shared.disk)?;
        }
        Ok(true)
    }

    fn try_checkpoint(&mut self) -> Result<(), JournalFailed> {
        match self.prepare_checkpoint()? {
            Some(work) => self.conclude_checkpoint(work.run()),
            None => Ok(()),
        }
    }

    pub(crate) fn prepare_checkpoint(&mut self) -> Result<Option<CheckpointWork<D>>, JournalFailed> {
        if self.staged != self.durable {
            self.make_durable()?;
        }
        if self.is_checkpoint_running {
            return Ok(None);
        }
        for slot in 0..self.slots.len() {
            if !self.write_segments(slot)? {
                return Ok(None);
            }
        }
        Ok(Some(self.gather_checkpoint()))
    }

    fn gather_checkpoint(&mut self) -> CheckpointWork<D> {
        let mut files = Vec::new();
        let mut folders = Vec::new();
        let mut leftovers = std::mem::take(&mut self.leftovers);
        let mut indexes = Vec::new();
        for (slot, partition) in self.slots.iter_mut().enumerate() {
            let Some(partition) = partition else { continue };
            partition.files.repair_aborted(false, &self.shared);
            leftovers.files.extend(partition.drop_old_segments(&self.shared).into_iter().map(|path| (slot, path)));
            if self.makes_index_files {
                indexes.extend(partition.index_jobs(slot));
            }
            let swaps = partition.files.segments().filter(|files| files.swap.is_some());
            leftovers.swaps.extend(swaps.map(|files| (slot, files.segment.base_offset)));
            if partition.files.is_unsynced() {
                let (unsynced, is_folder_unsynced) = partition.files.take_unsynced();
                files.extend(unsynced);
                if is_folder_unsynced {
                    let path = partition.files.folder.clone();
                    let aside = deleted_folder(&path, partition.topic_id);
                    folders.push(UnsyncedFolder { path, aside });
                }
            }
        }
        self.unsynced_files = 0;
        self.is_checkpoint_running = true;
        self.wants_checkpoint = false;
        CheckpointWork {
            disk: Arc::clone(&self.shared.disk),
            directory: self.config.directory.clone(),
            files,
            folders,
            bytes: self.encode_checkpoint(),
            leftovers,
            indexes,
            first_file_number: self.journal.place().file_number,
        }
    }

    /// Removes the files that are not the logs' any more and have waited for `file.delete.delay.ms`, from the call on that came
    /// first. Returns when there are more.
    pub fn remove_old_files(&mut self, now: Timestamp) -> Option<Timestamp> {
        for old in &mut self.old_files {
            old.due.get_or_insert(now.plus_ms(old.delay_ms));
        }
        self.remove_files(|old| old.due.is_some_and(|due| due <= now));
        self.old_files.iter().filter_map(|old| old.due).min()
    }

    /// What cannot be removed is found by the next start.
    fn remove_files(&mut self, is_due: impl Fn(&OldFile) -> bool) {
        for old in self.old_files.extract_if(.., |old| is_due(old)) {
            if self.slots.get(old.slot).is_some_and(Option::is_some) {
                let _ = self.shared.disk.remove_file(&old.path);
            }
        }
    }

    fn encode_checkpoint(&self) -> BytesMut {
        let head = Head {
            durability: self.config.durability,
            boot_id: self.config.boot_id,
            leader_epoch: self.leader_epoch,
            place: self.journal.place(),
            journal_files: self.journal.files_to_expect(),
            catalog: &self.catalog,
        };
        let mut bytes = encode_head(&head, self.slots.iter().flatten().count());
        for partition in self.slots.iter().flatten() {
            debug_assert_eq!(partition.written_end(), partition.next_offset, "{}: not all is written", partition.name);
            let segments = partition.files.segments().map(|files| SegmentCheckpoint {
                base_offset: files.segment.base_offset,
                log_bytes: files.segment.written_bytes(),
                aborted_bytes: files.segment.aborted_bytes(),
                stamps: files.stamps,
                swap: files.swap,
            });
            encode_partition(
                &mut bytes,
                (partition.topic_id, partition.name.partition),
                (partition.log_start_offset, partition.next_offset, partition.cleaned_end),
                partition.files.last_swap,
                segments,
                &partition.producers,
            );
        }
        seal(&mut bytes);
        bytes
    }

    pub(crate) fn conclude_checkpoint(&mut self, done: CheckpointDone) -> Result<(), JournalFailed> {
        self.is_checkpoint_running = false;
        self.leftovers.folders.extend(done.left.folders);
        match done.result? {
            CheckpointOutcome::Written => {
                self.journal.free_before(done.first_file_number);
                for (slot, number) in done.indexed {
                    if let Some(partition) = self.partition(slot) {
                        partition.files.note_indexed(number);
                    }
                }
                for (slot, base_offset) in done.left.swaps {
                    if let Some(partition) = self.slots.get_mut(slot).and_then(Option::as_mut)
                        && partition.finish_swap(base_offset, &mut self.shared).is_err()
                    {
                        // It keeps the name that this checkpoint knows; the next one tries again.
                        self.wants_checkpoint = true;
                    }
                }
                for (slot, path) in done.left.files {
                    // The folder of a partition that is gone was set aside with all its files.
                    let Some(partition) = self.partition(slot) else { continue };
                    // What is called like a segment that is there would be taken for its own.
                    let delay_ms =
                        if partition.files.is_named(&path) { 0 } else { partition.settings.file_delete_delay_ms };
                    self.old_files.push(OldFile { slot, path, delay_ms, due: None });
                }
                self.remove_files(|old| old.delay_ms <= 0);
            }
            CheckpointOutcome::NoSpace => {
                self.leftovers.files.extend(done.left.files);
                self.wants_checkpoint = true;
                self.is_space_low = true;
            }
        }
        Ok(())
    }
}
