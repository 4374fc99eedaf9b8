//! The writer: one thread that owns the storage and all coordinator shards, and runs everything that changes them.
//!
//! ```text
//!  wake-up ──► take what waits ──► each: decide, stage, apply ──► one commit ──► watermarks move ──► answers leave
//!  (work, a deadline, stop)             (answers are kept)        (one sync)      (bells ring)
//! ```
//!
//! What arrives while a commit syncs makes up the next group: group commit without a timer. Every answer waits for the commit
//! of the group that it was made in, refusals and reads too, since they depend on what was staged.
//!
//! **What it does not know**: sockets, frames, versions of requests (its callers in [`crate::api`] do).
//!
//! Invariants: nothing leaves this thread that is not durable; after a failed commit nothing leaves it at all.
//!
//! Read in this order: this file, [`topics`], [`transactions`], [`groups`], [`recovery`], [`cleaning`].

mod configs;
mod cleaning;
mod groups;
mod hashing;
mod held;
mod recovery;
mod topics;
mod transactions;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use atonce_coordinator::Waiter;
use atonce_coordinator::group::reply::GroupType;
use atonce_coordinator::group::{GroupCoordinator, GroupState};
use atonce_coordinator::transaction::StateName;
use atonce_kernel::chance::Chance;
use atonce_kernel::{ProducerId, Timestamp, TopicName, TopicPartition, Uuid};
use atonce_log::{
    AppendError, Appended, CheckpointDone, Checkpointing, CompactionDone, Durability, Marker, Origin, PartitionReader,
    ProducerRefusal, SpareDone, StageError, Storage, StorageConfig,
};
use atonce_protocol::ErrorCode;
use tokio::sync::{oneshot, watch};

use crate::api::Reply;
use crate::broker::{StartError, StopError};
use crate::configuration::{BROKER_KEYS, Settings, Values, find};
use crate::directory::{Directory, Topics};
use crate::disk::StdDisk;
use crate::dynamic::{self, Current, Dynamic};
use crate::operations::WriterMetrics;
use crate::shared::Shared;
use crate::topic_name::{CONSUMER_OFFSETS, TRANSACTION_STATE};

use cleaning::Cleaning;
use groups::GroupHost;
use transactions::TransactionHost;

pub(crate) use configs::ConfigOwner;
pub(crate) use held::{Held, Listening};
pub(crate) use recovery::durability_before;
pub(crate) use topics::{NewTopic, Refusal};

/// A partition, for reading.
pub(crate) type Reader = Arc<PartitionReader<StdDisk>>;

/// Work for the writer.
pub(crate) type Work = Box<dyn FnOnce(&mut Engine) + Send>;

/// Pieces of work taken into one group at most. The first answer waits for the last of them, so a flood must not hold it back.
const WORK_PER_GROUP: usize = 1024;

/// Bytes staged at which a group is committed, whatever waits: well below a journal file, and long enough that the sync is a
/// small part of it.
const GROUP_BYTES: usize = 8 << 20;

/// Files held open at most, however many the system would allow.
const OPEN_FILES_MAX: usize = 65_536;

/// Producer ids are taken from the log in blocks of so many, so that few of them cost an entry (Kafka takes 1,000).
const PRODUCER_IDS_PER_BLOCK: u32 = 1000;

/// How long to wait before a checkpoint that could not be written is tried again.
const CHECKPOINT_RETRY_MS: i64 = 1000;

/// How long to wait before a journal file that could not be made ahead is tried again.
const SPARE_RETRY_MS: i64 = 1000;

/// How often silent producers are looked for (Kafka: `producer.id.expiration.check.interval.ms`).
const PRODUCER_EXPIRY_INTERVAL_MS: i64 = 600_000;

/// The way to the writer.
#[derive(Clone, Debug)]
pub(crate) struct EngineHandle(mpsc::Sender<WakeUp>);

impl EngineHandle {
    /// Sends work. If the writer has stopped the work is dropped, and with it whatever its answer would have gone through.
    pub(crate) fn submit(&self, work: Work) {
        let _ = self.0.send(WakeUp::Work(work));
    }
}

/// What wakes the writer, besides its own deadlines.
enum WakeUp {
    Work(Work),
    /// A checkpoint is written, or was tried.
    Checkpointed(CheckpointDone),
    /// A journal file is made ahead, or was tried.
    SpareMade(SpareDone),
    /// A compaction is done, or has come to nothing.
    Compacted(CompactionDone),
    Stop(Stop),
}

/// How to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Finish what waits, write a checkpoint.
    Clean,
    /// Do nothing more.
    Crash,
}

/// The running thread.
#[derive(Debug)]
pub(crate) struct EngineThread {
    thread: std::thread::JoinHandle<Result<(), StopError>>,
    wake_ups: mpsc::Sender<WakeUp>,
    /// Overtakes all work that waits.
    crash: Arc<AtomicBool>,
    /// Says why the thread has ended by itself, if it has.
    failure: watch::Receiver<Option<StopError>>,
}

impl EngineThread {
    /// Says why the thread has ended by itself, if it has.
    pub(crate) fn failure(&self) -> watch::Receiver<Option<StopError>> {
        self.failure.clone()
    }

    /// Stops the thread, and waits until it has.
    pub(crate) fn stop(self, how: Stop) -> Result<(), StopError> {
        if how == Stop::Crash {
            self.crash.store(true, Ordering::SeqCst);
        }
        let _ = self.wake_ups.send(WakeUp::Stop(how));
        self.thread.join().unwrap_or_else(|_| Err(StopError("the writer thread panicked".to_owned())))
    }
}

/// Tells those who watch that the thread has failed, also when that is by a panic.
struct Failing(watch::Sender<Option<StopError>>);

impl Drop for Failing {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.send_replace(Some(StopError("the writer thread panicked".to_owned())));
        }
    }
}

/// Opens the data folder, recovers, and starts the writer.
pub(crate) async fn start(
    folder: PathBuf,
    durability: Durability,
    settings: Arc<Settings>,
) -> Result<(EngineThread, Arc<Shared>), StartError> {
    let (wake_ups, receiver) = mpsc::channel();
    let (opened, recovered) = oneshot::channel();
    let crash = Arc::new(AtomicBool::new(false));
    let (failing, failure) = watch::channel(None);
    let handle = EngineHandle(wake_ups.clone());
    let thread = std::thread::Builder::new()
        .name("atonce-writer".to_owned())
        .spawn({
            let crash = Arc::clone(&crash);
            let folder = folder.clone();
            move || {
                let failing = Failing(failing);
                let mut engine = match Engine::open(&folder, durability, settings, boot_id(), handle.0.clone()) {
                    Ok(engine) => engine,
                    Err(reason) => {
                        let _ = opened.send(Err(reason));
                        return Ok(());
                    }
                };
                let shared = Arc::new(Shared::new(
                    Arc::clone(&engine.settings),
                    engine.cluster_id.clone(),
                    folder.clone(),
                    Arc::clone(&engine.dynamic),
                    handle,
                    Arc::clone(&engine.directory),
                    Arc::clone(&engine.metrics),
                ));
                if opened.send(Ok(shared)).is_err() {
                    return Ok(());
                }
                let ended = engine.run(&receiver, &crash);
                // Nobody else may have the folder while a checkpoint is still being written into it.
                engine.join_checkpoint();
                engine.join_spare();
                engine.stop_compaction();
                if let Err(error) = &ended {
                    failing.0.send_replace(Some(error.clone()));
                }
                match ended? {
                    Stop::Clean => engine.storage.close().map_err(|error| StopError(error.to_string())),
                    Stop::Crash => Ok(()),
                }
            }
        })
        .map_err(StartError::Thread)?;
    match recovered.await {
        Ok(Ok(shared)) => Ok((EngineThread { thread, wake_ups, crash, failure }, shared)),
        Ok(Err(reason)) => Err(StartError::Recovery { path: folder, reason }),
        Err(_) => {
            Err(StartError::Recovery { path: folder, reason: "the writer thread panicked during recovery".to_owned() })
        }
    }
}

/// What the writer says of itself to those who watch.
#[derive(Clone, Debug)]
pub(crate) struct EngineNumbers {
    /// Transactional ids by where their transactions stand.
    pub(crate) transactions: BTreeMap<StateName, usize>,
    /// Groups, and their members, by type and state.
    pub(crate) groups: BTreeMap<(GroupType, GroupState), (usize, usize)>,
    /// Members of the largest group.
    pub(crate) group_members_max: usize,
    /// JoinGroups and SyncGroups that wait for others.
    pub(crate) group_requests_held: usize,
    pub(crate) journal_bytes: usize,
    pub(crate) is_disk_full: bool,
}

/// All that is durable, and what coordinates it. Handlers of requests run on it, one after the other.
pub(crate) struct Engine {
    pub(crate) settings: Arc<Settings>,
    /// One time for all that is decided in one turn.
    pub(crate) now: Timestamp,
    storage: Storage<StdDisk>,
    directory: Arc<Directory>,
    folder: PathBuf,
    dynamic: Arc<Current>,
    cluster_id: String,
    transactions: TransactionHost,
    groups: GroupHost,
    chance: Chance,
    last_waiter: u64,
    producer_ids: std::ops::Range<i64>,
    /// Answers that leave once what is staged is durable.
    releases: Vec<Box<dyn FnOnce() + Send>>,
    /// Topics to be shown anew once what is staged is durable.
    changed_topics: BTreeSet<TopicName>,
    staged_bytes: usize,
    is_in_unit: bool,
    /// Records of the coordinators that the start has read.
    replayed_entries: u64,
    next_producer_expiry: Timestamp,
    cleaning: Cleaning,
    /// The checkpoint that is being written.
    checkpoint: Option<std::thread::JoinHandle<()>>,
    next_checkpoint: Timestamp,
    /// The journal file that is being made ahead.
    spare: Option<std::thread::JoinHandle<()>>,
    next_spare: Timestamp,
    /// New data is refused, and that was said.
    is_refusing: bool,
    metrics: Arc<WriterMetrics>,
    wake_ups: mpsc::Sender<WakeUp>,
    /// Set by a failure of the journal: nothing more is answered.
    failed: Option<String>,
    #[cfg(test)]
    refusals: tests::Refusals,
}

impl Engine {
    fn open(
        folder: &Path,
        durability: Durability,
        settings: Arc<Settings>,
        boot_id: Option<Uuid>,
        wake_ups: mpsc::Sender<WakeUp>,
    ) -> Result<Self, String> {
        let now = wall_clock();
        let mut config = StorageConfig::new(folder);
        config.durability = durability;
        config.boot_id = boot_id;
        config.unsynced_files_max = open_files_max() / 2;
        config.checkpointing = Checkpointing::ByCaller;
        config.key_map_bytes_max = settings.cleaner_key_bytes_max;
        config.replayed_topics = [CONSUMER_OFFSETS, TRANSACTION_STATE].map(TopicName::from).into();
        config.was_used = recovery::has_cluster_id(folder);
        let before = recovery::durability_before(folder);
        let (storage, report) = Storage::open(StdDisk::new(folder), config).map_err(|error| error.to_string())?;
        tracing::debug!(folder = %folder.display(), ?report, "opened");
        if let Some(torn) = &report.torn_tail {
            let (file, offset, bytes) = (torn.path.display(), torn.position, torn.bytes);
            tracing::warn!(%file, offset, bytes, "the journal ended in a write that was not finished; it was dropped");
        }
        for (partition, damage) in &report.damaged {
            tracing::error!(
                %partition, file = %damage.path.display(), offset = damage.position, damage = damage.what,
                "this partition is offline, all others are served: put its file back, or see `atonce broker salvage`"
            );
        }
        for foreign in &report.foreign_folders {
            tracing::warn!(
                folder = %foreign.display(),
                "called like a partition's folder, and of no topic here (a copy?): left as it is; move it elsewhere"
            );
        }
        let mut chance = Chance::from_seed(entropy());
        let cluster_id = recovery::cluster_id(folder, &mut chance)?;
        let cleaning = Cleaning::new(&settings, now);
        let mut engine = Self {
            transactions: TransactionHost::new(&settings),
            groups: GroupHost::new(&settings),
            settings,
            now,
            storage,
            directory: Arc::default(),
            folder: folder.to_owned(),
            dynamic: Arc::new(Current::new(Dynamic::read(folder)?)),
            cluster_id,
            chance,
            last_waiter: 0,
            producer_ids: 0..0,
            releases: Vec::new(),
            changed_topics: BTreeSet::new(),
            staged_bytes: 0,
            is_in_unit: false,
            replayed_entries: 0,
            next_producer_expiry: now.plus_ms(PRODUCER_EXPIRY_INTERVAL_MS),
            cleaning,
            checkpoint: None,
            next_checkpoint: now,
            spare: None,
            next_spare: now,
            is_refusing: false,
            metrics: Arc::default(),
            wake_ups,
            failed: None,
            #[cfg(test)]
            refusals: tests::Refusals::default(),
        };
        engine.storage.set_topic_defaults(engine.topic_defaults());
        engine.keep_disk_free();
        engine.hold_compaction_back();
        // Said before the first write that is not synced, and taken back only when all that was not is.
        if durability == Durability::Os && before != Some(durability) {
            recovery::remember_durability(folder, durability)?;
        }
        engine.recover(report.after_power_loss && before != Some(Durability::Sync))?;
        if durability == Durability::Sync && before != Some(durability) {
            engine.storage.checkpoint().map_err(|error| error.to_string())?;
            recovery::remember_durability(folder, durability)?;
        }
        Ok(engine)
    }

    fn run(&mut self, wake_ups: &mpsc::Receiver<WakeUp>, crash: &AtomicBool) -> Result<Stop, StopError> {
        loop {
            let first = match self.wait(wake_ups) {
                Ok(wake_up) => Some(wake_up),
                Err(mpsc::RecvTimeoutError::Timeout) => None,
                // Nobody is left who could stop us in words.
                Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(Stop::Crash),
            };
            self.now = wall_clock();
            let mut stop = None;
            let mut next = first;
            let mut taken = 0;
            while let Some(wake_up) = next {
                if crash.load(Ordering::SeqCst) {
                    return Ok(Stop::Crash);
                }
                match wake_up {
                    WakeUp::Work(work) => work(self),
                    WakeUp::Checkpointed(done) => self.finish_checkpoint(done),
                    WakeUp::SpareMade(done) => self.finish_spare(done),
                    WakeUp::Compacted(done) => self.finish_compaction(done),
                    WakeUp::Stop(how) => stop = Some(how),
                }
                taken += 1;
                let is_full = taken >= WORK_PER_GROUP || self.staged_bytes >= GROUP_BYTES;
                next = if is_full || stop.is_some() || self.failed.is_some() { None } else { wake_ups.try_recv().ok() };
            }
            self.do_what_is_due();
            if crash.load(Ordering::SeqCst) {
                return Ok(Stop::Crash);
            }
            self.commit();
            self.tell_of_a_full_disk();
            self.begin_checkpoint_if_due();
            self.begin_spare_if_due();
            if let Some(reason) = self.failed.take() {
                tracing::error!(reason, "the writer stops: nothing more is acknowledged");
                return Err(StopError(reason));
            }
            match stop {
                Some(Stop::Clean) => {
                    self.await_checkpoint(wake_ups);
                    return Ok(Stop::Clean);
                }
                Some(Stop::Crash) => return Ok(Stop::Crash),
                None => {}
            }
        }
    }

    /// Says it once when new data begins to be refused, and once when some is taken again: clients see only errors that
    /// may be tried again.
    fn tell_of_a_full_disk(&mut self) {
        match self.storage.refusal() {
            Some(refusal) if !self.is_refusing => {
                self.is_refusing = true;
                tracing::warn!(%refusal, "the disk is full: writes are refused until there is space");
            }
            None if self.is_refusing => {
                self.is_refusing = false;
                tracing::warn!("there is space on the disk again: writes are taken");
            }
            Some(_) | None => {}
        }
    }

    /// Begins a checkpoint when the journal has grown so far. The slow part runs beside us, on a thread of its own.
    fn begin_checkpoint_if_due(&mut self) {
        if self.failed.is_some() || self.next_checkpoint > self.now || !self.storage.is_checkpoint_due() {
            return;
        }
        self.next_checkpoint = self.now.plus_ms(CHECKPOINT_RETRY_MS);
        let work = match self.storage.begin_checkpoint() {
            Ok(Some(work)) => work,
            Ok(None) => return,
            Err(error) => {
                self.failed = Some(error.to_string());
                return;
            }
        };
        let wake_ups = self.wake_ups.clone();
        let thread = std::thread::Builder::new().name("atonce-checkpoint".to_owned()).spawn(move || {
            let _ = wake_ups.send(WakeUp::Checkpointed(work.run()));
        });
        match thread {
            Ok(thread) => self.checkpoint = Some(thread),
            Err(error) => self.failed = Some(format!("the checkpoint's thread could not be started: {error}")),
        }
    }

    fn finish_checkpoint(&mut self, done: CheckpointDone) {
        self.join_checkpoint();
        if let Err(error) = self.storage.finish_checkpoint(done) {
            self.failed = Some(error.to_string());
        }
        self.look_for_old_files();
    }

    /// Lets a journal file be made ahead, on a thread of its own: it takes far longer than a commit.
    fn begin_spare_if_due(&mut self) {
        if self.next_spare > self.now {
            return;
        }
        let Some(work) = self.storage.begin_spare() else { return };
        let wake_ups = self.wake_ups.clone();
        let thread = std::thread::Builder::new().name("atonce-journal".to_owned()).spawn(move || {
            let _ = wake_ups.send(WakeUp::SpareMade(work.run()));
        });
        match thread {
            Ok(thread) => self.spare = Some(thread),
            Err(error) => self.finish_spare(SpareDone::not_begun(error)),
        }
    }

    /// One that could not be made is made by the commit that needs it, which says what is wrong.
    fn finish_spare(&mut self, done: SpareDone) {
        self.join_spare();
        if let Some(error) = done.error() {
            tracing::debug!(%error, "a journal file could not be made ahead");
            self.next_spare = self.now.plus_ms(SPARE_RETRY_MS);
        }
        self.storage.finish_spare(done);
    }

    fn join_spare(&mut self) {
        if let Some(thread) = self.spare.take() {
            let _ = thread.join();
        }
    }

    /// Waits until the checkpoint that runs, if one does, is written; all else that is asked for by then is dropped.
    fn await_checkpoint(&mut self, wake_ups: &mpsc::Receiver<WakeUp>) {
        while self.checkpoint.is_some() {
            match wake_ups.recv() {
                Ok(WakeUp::Checkpointed(done)) => self.finish_checkpoint(done),
                Ok(WakeUp::SpareMade(done)) => self.finish_spare(done),
                Ok(WakeUp::Work(_) | WakeUp::Compacted(_) | WakeUp::Stop(_)) => {}
                Err(mpsc::RecvError) => self.join_checkpoint(),
            }
        }
    }

    fn join_checkpoint(&mut self) {
        if let Some(thread) = self.checkpoint.take() {
            let _ = thread.join();
        }
    }

    fn wait(&self, wake_ups: &mpsc::Receiver<WakeUp>) -> Result<WakeUp, mpsc::RecvTimeoutError> {
        let ms = self.next_deadline().ms_since(wall_clock()).clamp(0, 3_600_000);
        wake_ups.recv_timeout(Duration::from_millis(u64::try_from(ms).unwrap_or(0)))
    }

    fn next_deadline(&self) -> Timestamp {
        let shards = self.transactions.next_deadline().into_iter().chain(self.groups.next_deadline());
        shards.fold(self.next_producer_expiry.min(self.cleaning.next_deadline()), Ord::min)
    }

    fn do_what_is_due(&mut self) {
        self.tick_transactions();
        self.tick_groups();
        if self.next_producer_expiry <= self.now {
            self.storage.expire_producers(self.settings.producer_id_expiration_ms, self.now);
            self.next_producer_expiry = self.now.plus_ms(PRODUCER_EXPIRY_INTERVAL_MS);
        }
        self.clean_if_due();
    }

    /// Makes durable what was staged, shows it, and lets the answers go.
    fn commit(&mut self) {
        if self.failed.is_some() {
            return;
        }
        if self.storage.staged_position() == self.storage.durable_position() {
            // Nothing is to be made durable, but a broker's setting may have changed what topics show.
            self.show_changed_topics();
        } else {
            let began = Instant::now();
            match self.storage.commit() {
                Ok(committed) => {
                    self.metrics.committed(began.elapsed(), self.releases.len(), self.staged_bytes);
                    self.show_changed_topics();
                    let topics = self.directory.topics();
                    for moved in &committed.moved {
                        if let Some(partition) = topics.partition(moved.topic.as_str(), moved.partition) {
                            partition.ring();
                        }
                    }
                }
                Err(error) => {
                    self.releases.clear();
                    self.failed = Some(error.to_string());
                    return;
                }
            }
        }
        self.staged_bytes = 0;
        for release in self.releases.drain(..) {
            release();
        }
    }

    /// Answers, once all that was staged so far is durable.
    pub(crate) fn answer<R: Send + 'static>(&mut self, reply: Reply<R>, response: R) {
        self.release(move || reply.send(Some(response)));
    }

    /// Runs `release`, once all that was staged so far is durable. Dropped if that never happens.
    pub(crate) fn release(&mut self, release: impl FnOnce() + Send + 'static) {
        self.releases.push(Box::new(release));
    }

    /// Stages a batch. A group that is full is committed first.
    pub(crate) fn append(
        &mut self,
        partition: &TopicPartition,
        batch: &[u8],
        origin: Origin,
    ) -> Result<Appended, AppendError> {
        #[cfg(test)]
        self.refusals.refuse()?;
        self.staged_bytes += batch.len();
        match self.storage.append(partition, batch, origin, self.now) {
            Err(AppendError::Storage(StageError::GroupFull { .. })) => {
                self.commit_between();
                self.storage.append(partition, batch, origin, self.now)
            }
            result => self.watch(result),
        }
    }

    /// Stages a marker. A group that is full is committed first: the prepared state in it then stands on disk for a while.
    fn append_marker(&mut self, partition: &TopicPartition, marker: &Marker) -> Result<Appended, AppendError> {
        const ABOUT_A_MARKER: usize = 128;
        #[cfg(test)]
        self.refusals.refuse()?;
        self.staged_bytes += ABOUT_A_MARKER;
        match self.storage.append_marker(partition, marker, self.now) {
            Err(AppendError::Storage(StageError::GroupFull { .. })) => {
                self.commit_between();
                self.storage.append_marker(partition, marker, self.now)
            }
            result => self.watch(result),
        }
    }

    /// Commits a group that is full. A decision that is being staged goes on in the next one.
    fn commit_between(&mut self) {
        let is_in_unit = std::mem::take(&mut self.is_in_unit);
        if is_in_unit {
            self.storage.end_unit();
        }
        self.commit();
        if is_in_unit {
            self.begin_unit();
        }
    }

    /// Until [`end_unit`](Self::end_unit), what is staged is one decision.
    fn begin_unit(&mut self) {
        self.is_in_unit = true;
        self.storage.begin_unit();
    }

    fn end_unit(&mut self) {
        self.is_in_unit = false;
        self.storage.end_unit();
    }

    fn watch(&mut self, result: Result<Appended, AppendError>) -> Result<Appended, AppendError> {
        if let Err(AppendError::Storage(StageError::Failed(failed))) = &result {
            self.failed = Some(failed.to_string());
        }
        result
    }

    /// What may be done with the storage in the words of the log.
    pub(crate) fn storage(&mut self) -> &mut Storage<StdDisk> {
        &mut self.storage
    }

    /// What was set while the broker ran.
    pub(crate) fn dynamic(&self) -> Arc<Dynamic> {
        self.dynamic.get()
    }

    /// Puts another picture in its place, on disk before anybody sees it. Topics are shown anew: what they do not say for
    /// themselves may have changed.
    pub(crate) fn set_dynamic(&mut self, dynamic: Dynamic) -> Result<(), Refusal> {
        recovery::write_durably(&self.folder, dynamic::FILE, &dynamic.to_text()).map_err(|error| {
            tracing::error!(error, "settings cannot be written");
            Refusal::new(ErrorCode::KafkaStorageError, error)
        })?;
        self.dynamic.replace(dynamic);
        self.storage.set_topic_defaults(self.topic_defaults());
        self.keep_disk_free();
        self.hold_compaction_back();
        self.change_all_topics();
        Ok(())
    }

    fn keep_disk_free(&mut self) {
        let dynamic = self.dynamic();
        let key = find(BROKER_KEYS, "disk.keep.free.bytes").ok();
        let value = key.and_then(|key| Values::new(&self.settings, &dynamic).value(key));
        self.storage.keep_free(value.and_then(|text| text.trim().parse().ok()).unwrap_or(0));
    }

    /// Whether a write of the older protocol needs its coordinator's word that the partition is in the transaction.
    pub(crate) fn verifies_transactions(&self) -> bool {
        let dynamic = self.dynamic();
        let key = find(BROKER_KEYS, "transaction.partition.verification.enable").ok();
        let value = key.and_then(|key| Values::new(&self.settings, &dynamic).value(key));
        !value.is_some_and(|text| text.trim().eq_ignore_ascii_case("false"))
    }

    /// What it says of itself.
    pub(crate) fn numbers(&self) -> EngineNumbers {
        let (mut groups, mut group_members_max) = (BTreeMap::<_, (usize, usize)>::new(), 0);
        for (group_type, state, members) in self.groups.shards.iter().flat_map(GroupCoordinator::census) {
            let counted = groups.entry((group_type, state)).or_default();
            *counted = (counted.0 + 1, counted.1 + members);
            group_members_max = group_members_max.max(members);
        }
        EngineNumbers {
            transactions: self.count_transactions(),
            groups,
            group_members_max,
            group_requests_held: self.groups.held(),
            journal_bytes: usize::try_from(self.journal_end()).unwrap_or(0),
            is_disk_full: self.storage.refusal().is_some(),
        }
    }

    /// Nothing more is acknowledged, for this reason.
    pub(crate) fn fail(&mut self, reason: String) {
        self.failed.get_or_insert(reason);
    }

    /// How far the journal is durable, in bytes since its beginning.
    pub(crate) fn journal_end(&self) -> i64 {
        i64::try_from(self.storage.durable_position().0).unwrap_or(i64::MAX)
    }

    fn new_waiter(&mut self) -> Waiter {
        self.last_waiter += 1;
        Waiter(self.last_waiter)
    }

    pub(crate) fn uuid(&mut self) -> Uuid {
        self.chance.uuid()
    }

    /// A producer id that nobody has. It stays the same one until it is [taken](Self::take_producer_id).
    fn fresh_producer_id(&mut self) -> Result<ProducerId, ErrorCode> {
        if self.producer_ids.is_empty() {
            let block = self.storage.reserve_producer_ids(PRODUCER_IDS_PER_BLOCK).map_err(|error| {
                tracing::error!(%error, "no producer ids can be reserved");
                ErrorCode::CoordinatorNotAvailable
            })?;
            self.producer_ids = block.first.0..block.first.0 + i64::from(block.count);
        }
        Ok(ProducerId(self.producer_ids.start))
    }

    fn take_producer_id(&mut self) {
        self.producer_ids.start += 1;
    }

    fn show_changed_topics(&mut self) {
        if self.changed_topics.is_empty() {
            return;
        }
        let mut topics = Topics::clone(&self.directory.topics());
        for name in std::mem::take(&mut self.changed_topics) {
            self.show_topic(&mut topics, &name);
        }
        self.directory.replace(topics);
    }
}

/// The error code for a batch or marker that is not appended.
pub(crate) fn append_error_code(error: &AppendError) -> ErrorCode {
    match error {
        AppendError::UnknownPartition(_) => ErrorCode::UnknownTopicOrPartition,
        AppendError::Batch { .. } => ErrorCode::CorruptMessage,
        AppendError::Offline { .. } => ErrorCode::KafkaStorageError,
        AppendError::Producer { refusal, .. } => match refusal {
            ProducerRefusal::StaleEpoch { .. } => ErrorCode::InvalidProducerEpoch,
            ProducerRefusal::OutOfOrder { .. } => ErrorCode::OutOfOrderSequenceNumber,
            ProducerRefusal::NotVerified { .. } | ProducerRefusal::InsideTransaction { .. } => {
                ErrorCode::InvalidTxnState
            }
            ProducerRefusal::CoordinatorFenced { .. } => ErrorCode::TransactionCoordinatorFenced,
        },
        AppendError::Storage(_) => ErrorCode::KafkaStorageError,
    }
}

/// Files that this process may hold open, once it has asked for all that it may have. A commit over a thousand partitions
/// writes to a thousand segments, and each stays open until a checkpoint has synced it; the limit that a shell gives is often
/// 1,024, and is there to be raised.
fn open_files_max() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let limit = if raised.is_ok() { maximum } else { current };
    // None: no limit.
    limit.map_or(OPEN_FILES_MAX, |limit| usize::try_from(limit).unwrap_or(OPEN_FILES_MAX).min(OPEN_FILES_MAX))
}

pub(crate) fn wall_clock() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// A seed that nobody can guess, as far as the operating system can give one.
pub(crate) fn entropy() -> u64 {
    let mut bytes = [0; 8];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    match read {
        Ok(()) => u64::from_ne_bytes(bytes),
        // Ids only have to be unlike each other: the time will do.
        Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64,
    }
}

/// Identifies the running kernel, where there is such a thing.
fn boot_id() -> Option<Uuid> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).ok().map(|number| Uuid(number.to_be_bytes()))
}

#[cfg(test)]
mod tests;
