//! A worker: one consumer (a static member of the group), one producer, the tasks the group gave it, in one loop.
//!
//! ```text
//! poll ── records → tasks → output, sent as it comes ──┐
//!   │        (at most once: held until the offsets are in)
//!   │                                                  │ commit interval over, or tasks are to be given up
//!   ├── revoking → commit everything, give up what goes │
//!   ├── assigned → take over what is new, beside what   ▼
//!   │     stays and goes on (`taking_over`)       commit machine: flush · send offsets · end · apply stores
//!   └── lost → undo, give all tasks up                  └ failed → roll back: overlays dropped, processors anew, rewind
//! ```
//!
//! Invariants: nothing is processed while the commit machine is not at rest. Positions are sent in the name of the member that has held their
//! partitions all the while since it was given them: the group may count on meanwhile, and a zombie's are refused. So a task ends with the event
//! that says that its partitions go, or are lost, and is made anew when they come back.
//!
//! **What it does not know**: which step follows which in a commit (the machine does), how a task processes, what is in a store.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use atonce_client::{
    Batch, Client, Consumer, ConsumerError, ConsumerEvent, ConsumerRecord, Delivery, ErrorClass, ErrorCode,
    OffsetReset, Positions, ProducerRecord, Settled,
};
use atonce_kernel::{GroupInstanceId, Offset, Outcome, Timestamp, TopicName, TopicPartition, TransactionalId};
use atonce_streams_core::assignment::Instruction;
use atonce_streams_core::commit::{CommitMachine, Event, Settlement, Step};
use atonce_streams_core::store::StoreError;
use atonce_streams_core::task::{ChangelogEnd, NeededStore};
use atonce_streams_core::topology::InternalTopicKind;
use atonce_streams_core::{Guarantee, OutputRecord, SourceRecord, StateStore, Task, TaskError, TaskId};
use tokio::sync::{Notify, watch};

use crate::error::WorkerError;
use crate::internal_topics::Topics;
use crate::listeners::RestoreListener;
use crate::metrics::{self, MeasuredStore, TaskNumbers, TaskSeen, WorkerNumbers, lock};
use crate::partition_time;
use crate::restore::Restoration;
use crate::state::StateSender;
use crate::state_folder::StateFolder;
use crate::statistics::{Counters, add};
use crate::taking_over::{Given, Taking};
use crate::tasks_assignor::TasksAssignor;
use crate::writer::{Ended, Failure, Writer};

/// Records a task processes before its output is handed to the producer.
const SLICE: usize = 1000;

/// Records of one poll. More would only wait in queues; fewer would poll too often.
const BATCH_RECORDS_MAX: usize = 2000;

/// How long a poll waits when there is nothing to commit: also how soon a wish to stop is heard.
const IDLE_WAIT: Duration = Duration::from_millis(100);

/// How long the loop waits for change logs when there is nothing else to do.
const RESTORE_WAIT: Duration = Duration::from_millis(10);

/// How long a poll waits while tasks are on their way.
const TAKE_WAIT: Duration = Duration::from_millis(10);

/// How often a commit may be that holds nothing but positions moved over control records.
const CONTROL_RECORDS_INTERVAL: Duration = Duration::from_secs(1);

/// How often a worker says that all of the application is to stop, until it is heard.
const SHUTDOWN_ASKED_EVERY: Duration = Duration::from_secs(1);

/// How long a worker that was told to stop with the application stays in the group, so that others hear of it: an answer to them may be
/// on its way, and who leaves begins a new division.
const SHUTDOWN_LINGER: Duration = Duration::from_secs(1);

/// How often lags and the like are looked up.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Waiting after the n-th failure in a row, doubled each time up to the maximum.
const BACK_OFF: Duration = Duration::from_millis(50);
const BACK_OFF_MAX: Duration = Duration::from_secs(5);

/// What all workers of a process share.
pub(crate) struct Shared {
    pub(crate) application_id: String,
    pub(crate) client: Client,
    /// What is read and written, as it was last seen; see [`crate::internal_topics::follow`].
    pub(crate) topics: watch::Sender<Arc<Topics>>,
    pub(crate) topics_refresh_interval: Duration,
    /// Told when somebody has seen a topic that this process has not.
    pub(crate) look_again: Arc<Notify>,
    pub(crate) is_paused: AtomicBool,
    /// A worker's user wants all of the application to stop: those that live say so to the group.
    pub(crate) is_shutdown_asked: AtomicBool,
    pub(crate) folder: StateFolder,
    pub(crate) counters: Arc<Counters>,
    pub(crate) metrics: Arc<metrics::Registry>,
    pub(crate) restore_listener: Option<Arc<dyn RestoreListener>>,
    pub(crate) guarantee: Guarantee,
    pub(crate) commit_interval: Duration,
    pub(crate) commit_after: CommitAfter,
    pub(crate) repartition_purge_interval: Duration,
    pub(crate) state_cleanup_delay: Duration,
    pub(crate) transaction_timeout: Duration,
    pub(crate) session_timeout: Duration,
    pub(crate) heartbeat_interval: Duration,
    pub(crate) call_timeout: Duration,
}

/// What ends an interval before its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommitAfter {
    pub(crate) records: u64,
    /// Of store changes, and of output that is held.
    pub(crate) bytes: usize,
}

impl Shared {
    pub(crate) fn transactional_id(&self, worker: usize) -> TransactionalId {
        TransactionalId::from(format!("{}-{}-{worker}", self.application_id, self.folder.process_id()))
    }

    pub(crate) fn instance_id(&self, worker: usize) -> GroupInstanceId {
        GroupInstanceId::from(format!("{}-{worker}", self.folder.process_id()))
    }
}

/// Whether a worker is to stop, and what becomes of its place in the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    No,
    Yes(GroupMembership),
}

/// What becomes of a worker's place in the group when it closes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupMembership {
    /// It is given up, and others get its tasks at once.
    #[default]
    Leave,
    /// It is kept until the session ends: a process that comes back sooner has its tasks again, and nobody's moved meanwhile.
    Remain,
}

pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    /// What is read and written, as this worker has told the group.
    pub(crate) topics: Arc<Topics>,
    newer_topics: watch::Receiver<Arc<Topics>>,
    pub(crate) index: usize,
    pub(crate) consumer: Consumer,
    pub(crate) assignor: Arc<TasksAssignor>,
    pub(crate) writer: Writer,
    pub(crate) commit: CommitMachine,
    pub(crate) tasks: BTreeMap<TaskId, Task>,
    numbers: Arc<Mutex<WorkerNumbers>>,
    pub(crate) task_numbers: BTreeMap<TaskId, Arc<Mutex<TaskNumbers>>>,
    /// When what is looked up now and then was last looked up.
    looked_at: Instant,
    pub(crate) owner_of: HashMap<TopicPartition, TaskId>,
    /// What each task was made of.
    pub(crate) made_of: BTreeMap<TaskId, Given>,
    /// Tasks that are this worker's, and not made yet.
    pub(crate) taking: Option<Taking>,
    /// More tasks come once their owners have given them up: since when, or since it last asked for them.
    pub(crate) awaits_since: Option<Instant>,
    /// Output that waits for its offsets, under at most once.
    held: Vec<OutputRecord>,
    held_bytes: usize,
    /// Under at most once: what waits is committed already.
    is_ahead: bool,
    /// Of each change log, the last record of this commit.
    pub(crate) last_changes: BTreeMap<TopicPartition, Delivery>,
    pub(crate) uncommitted_since: Option<Instant>,
    pub(crate) uncommitted_records: u64,
    /// The tasks are another's, or soon will be: they are given up when the interval is undone.
    is_out: bool,
    failures_in_a_row: u32,
    /// When repartition topics were last purged.
    purged_at: Instant,
    /// When stores of former tasks were last looked for.
    cleaned_at: Instant,
    /// Stores that follow their change logs; their tasks wait.
    pub(crate) restoration: Option<Restoration>,
    pub(crate) state: StateSender,
    pub(crate) is_paused: bool,
    /// When it last asked the group that all of the application stop.
    asked_for_shutdown_at: Option<Instant>,
    stop: watch::Receiver<Stop>,
}

impl Worker {
    /// Joins the group.
    pub(crate) async fn start(
        shared: Arc<Shared>,
        index: usize,
        state: StateSender,
        stop: watch::Receiver<Stop>,
    ) -> Result<Self, WorkerError> {
        let process_id = shared.folder.process_id();
        let stored = shared.folder.stored_tasks();
        let mut newer_topics = shared.topics.subscribe();
        let topics = Arc::clone(&newer_topics.borrow_and_update());
        let look_again = Arc::clone(&shared.look_again);
        let assignor = Arc::new(TasksAssignor::new(Arc::clone(&topics), process_id, stored, look_again));
        let consumer = shared
            .client
            .consumer()
            .group(shared.application_id.as_str())
            .instance_id(shared.instance_id(index))
            .read_committed()
            .assignor(Arc::clone(&assignor) as Arc<dyn atonce_client::Assignor>)
            .session_timeout(shared.session_timeout)
            .heartbeat_interval(shared.heartbeat_interval)
            .auto_offset_reset(OffsetReset::Earliest)
            .batch_records_max(BATCH_RECORDS_MAX)
            .call_timeout(shared.call_timeout)
            .subscribe(topics.layout.subscription())
            .await?;
        let commit = CommitMachine::new(shared.guarantee);
        let numbers = shared.metrics.worker(index);
        Ok(Self {
            shared,
            topics,
            newer_topics,
            index,
            consumer,
            assignor,
            writer: Writer::Absent,
            commit,
            tasks: BTreeMap::new(),
            numbers,
            task_numbers: BTreeMap::new(),
            looked_at: Instant::now(),
            owner_of: HashMap::new(),
            made_of: BTreeMap::new(),
            taking: None,
            awaits_since: None,
            held: Vec::new(),
            held_bytes: 0,
            is_ahead: false,
            last_changes: BTreeMap::new(),
            uncommitted_since: None,
            uncommitted_records: 0,
            is_out: false,
            failures_in_a_row: 0,
            purged_at: Instant::now(),
            cleaned_at: Instant::now(),
            restoration: None,
            state,
            is_paused: false,
            asked_for_shutdown_at: None,
            stop,
        })
    }

    /// Works until it is told to stop, or cannot go on.
    pub(crate) async fn run(mut self) -> Result<(), WorkerError> {
        let ended = loop {
            match self.work().await {
                Err(error) => match self.mend(&error).await {
                    Ok(true) => {}
                    Ok(false) => break Err(error),
                    Err(error) => break Err(error),
                },
                Ok(()) => break Ok(()),
            }
        };
        match ended {
            Ok(()) => self.close().await,
            Err(error) => {
                // What did not commit is undone by not committing it; the broker is told, so that no one waits for a time-out.
                let _ = self.writer.abort().await;
                self.give_up_tasks();
                if !matches!(error, WorkerError::Fenced { .. }) {
                    // Others can take the tasks at once. (Fenced, it would take its successor out of the group.)
                    let _ = self.consumer.close_and_leave().await;
                }
                Err(error)
            }
        }
    }

    async fn work(&mut self) -> Result<(), WorkerError> {
        while !self.is_stopping() {
            self.follow_topics()?;
            self.ask_for_shutdown();
            self.ask_for_awaited();
            self.follow_pause().await?;
            if self.is_commit_due() {
                self.commit().await?;
                continue;
            }
            self.clean();
            self.look()?;
            self.take_some().await?;
            if !self.is_paused {
                if self.punctuate().await? {
                    continue;
                }
                // A batch may be the work of many intervals: none is taken while one is being worked off.
                if self.work_off_buffered().await? {
                    self.restore(Duration::ZERO).await?;
                    continue;
                }
            }
            let wait = match (&self.restoration, &self.taking) {
                (Some(_), _) => Duration::ZERO,
                (None, Some(_)) => self.wait().min(TAKE_WAIT),
                (None, None) => self.wait(),
            };
            let polling = Instant::now();
            let event = self.consumer.next_event(wait).await;
            lock(&self.numbers).poll.record_one(Instant::now(), polling.elapsed());
            match event {
                Ok(None) => self.restore(RESTORE_WAIT).await?,
                Ok(Some(ConsumerEvent::Batch(batch))) => self.buffer(batch),
                Ok(Some(ConsumerEvent::Revoking(partitions))) => self.revoke(&partitions).await?,
                Ok(Some(ConsumerEvent::Assigned(partitions, words))) => self.assigned(&partitions, &words).await?,
                Ok(Some(ConsumerEvent::Lost(_))) => self.lose().await?,
                Err(error) => self.consumer_failed(error).await?,
            }
        }
        Ok(())
    }

    /// Ends cleanly: commits, makes the stores durable, leaves the group.
    async fn close(mut self) -> Result<(), WorkerError> {
        if self.has_uncommitted() {
            self.commit().await?;
        }
        for task in self.tasks.values_mut() {
            blocking(|| task.sync_stores())?;
        }
        self.give_up_tasks();
        let stop = *self.stop.borrow();
        let closed = match stop {
            Stop::Yes(GroupMembership::Remain) => self.consumer.close().await,
            Stop::Yes(GroupMembership::Leave) | Stop::No => self.consumer.close_and_leave().await,
        };
        if let Err(error) = closed {
            tracing::warn!("worker {}: leaving the group failed ({error}); its session will end by itself", self.index);
        }
        Ok(())
    }

    /// Takes in that other topics are read now: the group is told, and divides anew.
    fn follow_topics(&mut self) -> Result<(), WorkerError> {
        if !self.newer_topics.has_changed().unwrap_or(false) {
            return Ok(());
        }
        self.topics = Arc::clone(&self.newer_topics.borrow_and_update());
        self.assignor.set_topics(Arc::clone(&self.topics));
        // The tasks go on as they are until they are given back.
        self.consumer.resubscribe(self.topics.layout.subscription())?;
        Ok(())
    }

    /// Takes in that the application is paused, or goes on. What has been processed is committed first; the place in the group is kept, and
    /// so is what waits.
    async fn follow_pause(&mut self) -> Result<(), WorkerError> {
        let is_paused = self.shared.is_paused.load(Ordering::Relaxed);
        if is_paused == self.is_paused {
            return Ok(());
        }
        if is_paused && self.has_uncommitted() {
            self.commit().await?;
        }
        self.is_paused = is_paused;
        let restoring = self.restoring_tasks();
        let running = self.tasks.keys().filter(|id| !restoring.contains(id)).copied().collect();
        let partitions = self.partitions_of(&running);
        if is_paused {
            self.consumer.pause(&partitions);
        } else {
            self.consumer.resume(&partitions);
        }
        Ok(())
    }

    /// Says to the group, now and then until it is heard, that all of the application is to stop.
    fn ask_for_shutdown(&mut self) {
        let is_due = self.asked_for_shutdown_at.is_none_or(|asked_at| asked_at.elapsed() >= SHUTDOWN_ASKED_EVERY);
        if is_due && self.shared.is_shutdown_asked.load(Ordering::Relaxed) {
            self.asked_for_shutdown_at = Some(Instant::now());
            self.assignor.ask_for_shutdown();
            self.consumer.enforce_rebalance();
        }
    }

    /// The leader has spoken.
    async fn assigned(&mut self, partitions: &[TopicPartition], words: &[u8]) -> Result<(), WorkerError> {
        let is_more_to_come = match Instruction::decode(words) {
            Ok(Instruction::ShutDown) => return Err(self.shut_down().await),
            Ok(Instruction::Run { awaited, .. }) => !awaited.is_empty(),
            Err(_) => false,
        };
        if self.shared.is_shutdown_asked.load(Ordering::Relaxed) {
            // An old division: what this worker asks for comes with the next.
            return Ok(());
        }
        self.take_over(partitions, is_more_to_come).await
    }

    /// All of the application stops. A member that has not heard of it yet hears it from those who are still there.
    async fn shut_down(&mut self) -> WorkerError {
        self.give_up_tasks();
        self.assignor.ask_for_shutdown();
        let until = Instant::now() + SHUTDOWN_LINGER;
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            if self.is_stopping() || self.consumer.next_event(left).await.is_err() {
                break;
            }
        }
        WorkerError::ShutdownRequested
    }

    /// Gives each task its records.
    fn buffer(&mut self, batch: Batch) {
        let positions = batch.positions();
        self.is_ahead &= batch.is_empty();
        // Records come partition by partition, so each stretch is looked up once.
        let mut stretches: HashMap<TopicPartition, Vec<SourceRecord>> = HashMap::new();
        let mut records = batch.records.into_iter().map(source_record).peekable();
        while let Some((topic_partition, first)) = records.next() {
            let stretch = stretches.entry(topic_partition.clone()).or_default();
            stretch.push(first);
            while let Some((_, record)) = records.next_if(|(other, _)| *other == topic_partition) {
                stretch.push(record);
            }
        }
        for (topic_partition, position) in positions.iter() {
            let records = stretches.remove(topic_partition).unwrap_or_default();
            let task = self.owner_of.get(topic_partition).and_then(|id| self.tasks.get_mut(id));
            // A partition without a task was given up while its records were on their way.
            if let Some(task) = task {
                task.add(topic_partition, records, position.offset);
            }
        }
        // Positions that have only moved over control records start the clock too.
        if self.has_uncommitted() {
            self.uncommitted_since.get_or_insert_with(Instant::now);
        }
    }

    /// Processes what the tasks have waiting, until a commit is due; false if nothing waits.
    async fn work_off_buffered(&mut self) -> Result<bool, WorkerError> {
        let waiting: Vec<TaskId> =
            self.tasks.iter().filter(|(_, task)| task.buffered() > 0).map(|(id, _)| *id).collect();
        if waiting.is_empty() {
            return Ok(false);
        }
        if self.commit.guarantee() == Guarantee::AtMostOnce && !self.is_ahead {
            self.commit_ahead().await?;
            // If it failed nothing waits any more.
            return Ok(true);
        }
        // The clock of an interval starts with its first record: the transaction begins with what that one writes.
        if self.uncommitted_records == 0 {
            self.uncommitted_since = Some(Instant::now());
        }
        for id in waiting {
            self.process_task(id).await?;
            if self.is_commit_due() {
                break;
            }
        }
        Ok(true)
    }

    /// At most once: the positions behind all that waits are committed before any of it is processed, so that a crash repeats nothing, not even
    /// what processors do outside. The commit that ends an interval takes back what has not been processed by then, for who comes next.
    async fn commit_ahead(&mut self) -> Result<(), WorkerError> {
        let Some(mut positions) = self.no_positions() else {
            // Not a member any more: its records are another's.
            return self.drive(Event::AbortWanted).await;
        };
        for task in self.tasks.values() {
            for (topic_partition, offset) in task.positions_behind_all() {
                let time = partition_time::encode(task.partition_time(topic_partition));
                positions.insert_with_metadata(topic_partition.clone(), offset, time);
            }
        }
        match self.consumer.commit(positions).await {
            Ok(()) => {
                self.is_ahead = true;
                Ok(())
            }
            Err(error) => {
                self.positions_refused(error)?;
                // Committed or not, it is not processed.
                self.drive(Event::AbortWanted).await
            }
        }
    }

    /// Positions that were sent outside of a transaction were not taken, as far as is known.
    fn positions_refused(&mut self, error: ConsumerError) -> Result<(), WorkerError> {
        if let source @ ConsumerError::Fenced(_) = error {
            return Err(self.fenced(source));
        }
        tracing::warn!("worker {}: {error}", self.index);
        if matches!(error, ConsumerError::CommitFailed(_)) {
            self.put_out();
            self.consumer.enforce_rebalance();
        }
        Ok(())
    }

    /// The group has given this worker up, or has gone on without it: its tasks go when the interval is undone.
    fn put_out(&mut self) {
        add(&self.shared.counters.fenced, 1);
        self.is_out = true;
    }

    /// Positions to be filled in, in the name of the member that this worker is by now; `None` if it is none. The group may have counted on since the
    /// records were read: what is in hand has been this member's all the while, or the event that says otherwise has not been taken in yet, and the
    /// consumer, which has it, lets them be refused.
    fn no_positions(&mut self) -> Option<Positions> {
        let mut positions = self.consumer.positions();
        // Without a generation they would be taken from anybody.
        if positions.group().is_none_or(|group| group.generation_id < 0) {
            self.put_out();
            return None;
        }
        positions.retain(|_| false);
        Some(positions)
    }

    async fn process_task(&mut self, id: TaskId) -> Result<(), WorkerError> {
        while let Some(task) = self.tasks.get_mut(&id)
            && task.buffered() > 0
        {
            let (before, begun) = (task.counts(), Instant::now());
            let processed = task.process(SLICE);
            self.shared.counters.count_left_out(before, task.counts());
            let outputs = task.take_outputs();
            self.count_slice(id, begun, before.processed);
            self.uncommitted_records += self.undone_if_failed(processed).await? as u64;
            if let Err(failure) = self.hand_out(outputs).await {
                return self.give_interval_up(failure).await;
            }
            // Other workers may share this thread.
            tokio::task::yield_now().await;
            if self.is_commit_due() {
                break;
            }
        }
        Ok(())
    }

    /// Output goes to the cluster as it comes, but where it has to wait for the offsets.
    async fn hand_out(&mut self, outputs: Vec<OutputRecord>) -> Result<(), Failure> {
        match self.commit.guarantee() {
            Guarantee::AtMostOnce => {
                self.held_bytes += outputs.iter().map(bytes_of).sum::<usize>();
                self.held.extend(outputs);
                Ok(())
            }
            Guarantee::AtLeastOnce | Guarantee::ExactlyOnce => self.send_all(outputs).await,
        }
    }

    async fn send_all(&mut self, outputs: Vec<OutputRecord>) -> Result<(), Failure> {
        add(&self.shared.counters.output_records, outputs.len() as u64);
        for output in outputs {
            // Heard of in `flush`, before anything is committed.
            let _delivery = self.writer.send(producer_record(output)).await?;
        }
        Ok(())
    }

    /// Commits the interval, with what cached stores have kept back.
    pub(crate) async fn commit(&mut self) -> Result<(), WorkerError> {
        let ids: Vec<TaskId> = self.tasks.keys().copied().collect();
        for id in ids {
            let Some(task) = self.tasks.get_mut(&id) else { continue };
            let flushed = task.flush_caches();
            let outputs = task.take_outputs();
            self.undone_if_failed(flushed).await?;
            if let Err(failure) = self.hand_out(outputs).await {
                return self.give_interval_up(failure).await;
            }
        }
        self.drive(Event::CommitWanted).await
    }

    /// Calls the processors whose time by the wall clock has come; says whether there were any.
    async fn punctuate(&mut self) -> Result<bool, WorkerError> {
        let now = now();
        let mut is_any = false;
        let has_clock = self.tasks.iter().filter(|(_, task)| task.has_wall_clock());
        let mut ids: Vec<TaskId> = has_clock.map(|(id, _)| *id).collect();
        if !ids.is_empty() {
            let restoring = self.restoring_tasks();
            ids.retain(|id| !restoring.contains(id));
        }
        for id in ids {
            let Some(task) = self.tasks.get_mut(&id) else { continue };
            let begun = Instant::now();
            let punctuated = task.punctuate_by_wall_clock(now);
            let outputs = task.take_outputs();
            if matches!(punctuated, Ok(true)) {
                lock(&self.numbers).punctuate.record_one(Instant::now(), begun.elapsed());
            }
            is_any |= self.undone_if_failed(punctuated).await?;
            if let Err(failure) = self.hand_out(outputs).await {
                self.give_interval_up(failure).await?;
                return Ok(true);
            }
        }
        if is_any {
            self.uncommitted_since.get_or_insert_with(Instant::now);
        }
        Ok(is_any)
    }

    /// A processor's failure undoes the interval.
    async fn undone_if_failed<T>(&mut self, result: Result<T, TaskError>) -> Result<T, WorkerError> {
        match result {
            Ok(value) => Ok(value),
            Err(error) => {
                tracing::error!("worker {}: {error}", self.index);
                self.drive(Event::AbortWanted).await?;
                Err(error.into())
            }
        }
    }

    /// The group has given this worker up, and the partitions away perhaps: nothing of the interval may be committed.
    async fn lose(&mut self) -> Result<(), WorkerError> {
        if !self.tasks.is_empty() {
            tracing::warn!("worker {}: the group has gone on without it; it joins again", self.index);
            add(&self.shared.counters.fenced, 1);
        }
        self.is_out = true;
        self.drive(Event::AbortWanted).await
    }

    async fn consumer_failed(&mut self, error: ConsumerError) -> Result<(), WorkerError> {
        match error {
            source @ ConsumerError::Fenced(_) => Err(self.fenced(source)),
            ConsumerError::CommitFailed(_) => self.lose().await,
            ConsumerError::Refused(refusal) if refusal.code() == ErrorCode::InconsistentGroupProtocol => {
                let group = self.shared.application_id.clone();
                Err(WorkerError::OtherMembers { group, source: ConsumerError::Refused(refusal) })
            }
            error if error.class() == ErrorClass::InvalidConfiguration => Err(error.into()),
            error => {
                tracing::warn!("worker {}: {error}; trying again", self.index);
                self.back_off().await;
                Ok(())
            }
        }
    }

    /// Another member has this one's name: the end.
    fn fenced(&self, source: ConsumerError) -> WorkerError {
        add(&self.shared.counters.fenced, 1);
        WorkerError::Fenced { instance_id: self.shared.instance_id(self.index), source }
    }

    /// A step outside a commit has failed: the interval is undone.
    async fn give_interval_up(&mut self, failure: Failure) -> Result<(), WorkerError> {
        self.take_in(&failure);
        self.drive(Event::AbortWanted).await?;
        if failure.is_fatal {
            return Err(WorkerError::Output(failure.message));
        }
        self.back_off().await;
        Ok(())
    }

    fn take_in(&mut self, failure: &Failure) {
        tracing::warn!("worker {}: {}", self.index, failure.message);
        if failure.is_fenced {
            add(&self.shared.counters.fenced, 1);
        }
        if failure.must_rejoin {
            self.is_out = true;
            self.consumer.enforce_rebalance();
        }
        if failure.is_producer_lost {
            self.writer = Writer::Absent;
        }
    }

    /// Runs the commit machine until it rests.
    async fn drive(&mut self, event: Event) -> Result<(), WorkerError> {
        let mut fatal = None;
        let begun = Instant::now();
        self.handle(event);
        while let Some(step) = self.commit.poll_step() {
            let event = match step {
                Step::Flush => {
                    let flushed = self.flush().await;
                    self.answer(flushed, &mut fatal)
                }
                Step::SendOffsets => self.send_offsets(&mut fatal).await?,
                Step::End(Outcome::Commit) => self.end_by_commit(&mut fatal).await,
                Step::End(Outcome::Abort) => self.end_by_abort().await,
                Step::AskOutcome => self.ask_outcome().await?,
                Step::ApplyStores => {
                    self.apply_stores().await?;
                    lock(&self.numbers).commit.record_one(Instant::now(), begun.elapsed());
                    Event::Done
                }
                Step::RollBack { replay_changelogs } => {
                    self.roll_back(replay_changelogs).await?;
                    Event::Done
                }
            };
            self.handle(event);
        }
        match fatal {
            Some(message) => Err(WorkerError::Output(message)),
            None => Ok(()),
        }
    }

    fn handle(&mut self, event: Event) {
        self.commit.handle(event).expect("the worker tells only what happened");
    }

    fn answer(&mut self, result: Result<(), Failure>, fatal: &mut Option<String>) -> Event {
        match result {
            Ok(()) => Event::Done,
            Err(failure) => {
                self.take_in(&failure);
                if failure.is_fatal {
                    *fatal = Some(failure.message);
                }
                Event::Failed
            }
        }
    }

    /// The change logs, then (under at most once) the output that was held: a crash between the two then loses output. The other way
    /// round it would lose the change, and the next record would repeat what is out already.
    async fn flush(&mut self) -> Result<(), Failure> {
        let mut changes = Vec::new();
        for task in self.tasks.values() {
            changes.extend(task.changelog_records());
        }
        self.last_changes.clear();
        for change in changes {
            let record = ProducerRecord {
                topic: change.topic_partition.topic.clone(),
                partition: Some(change.topic_partition.partition),
                key: Some(change.key),
                value: change.value,
                headers: Vec::new(),
                timestamp: Some(change.timestamp),
            };
            let delivery = self.writer.send(record).await?;
            self.last_changes.insert(change.topic_partition, delivery);
        }
        if !self.held.is_empty() {
            self.writer.flush().await?;
            let held = std::mem::take(&mut self.held);
            self.held_bytes = 0;
            self.send_all(held).await?;
        }
        self.writer.flush().await
    }

    async fn send_offsets(&mut self, fatal: &mut Option<String>) -> Result<Event, WorkerError> {
        let Some(mut positions) = self.no_positions() else { return Ok(Event::Failed) };
        for task in self.tasks.values() {
            for (topic_partition, offset) in task.positions() {
                let time = partition_time::encode(task.partition_time(topic_partition));
                positions.insert_with_metadata(topic_partition.clone(), offset, time);
            }
        }
        // What was committed ahead of the work is taken back where the work has not come so far.
        if positions.is_empty() || self.is_ahead {
            // Or only punctuations. Positions that have not moved are sent all the same: it is they that are refused to a zombie.
            for (topic_partition, id) in &self.owner_of {
                let Some(task) = self.tasks.get(id) else { continue };
                // The task's, which stands before what it has not processed yet; the consumer's only where nothing has come.
                let position = task.position(topic_partition).or_else(|| self.consumer.position(topic_partition));
                if let Some(offset) = position {
                    let time = partition_time::encode(task.partition_time(topic_partition));
                    positions.insert_with_metadata(topic_partition.clone(), offset, time);
                }
            }
        }
        if self.commit.guarantee() == Guarantee::ExactlyOnce {
            let sent = self.writer.send_offsets(positions).await;
            return Ok(self.answer(sent, fatal));
        }
        match self.consumer.commit(positions).await {
            Ok(()) => Ok(Event::Done),
            Err(error) => {
                self.positions_refused(error)?;
                Ok(Event::Unanswered)
            }
        }
    }

    async fn end_by_commit(&mut self, fatal: &mut Option<String>) -> Event {
        match self.writer.commit().await {
            Ended::Done => Event::Done,
            Ended::Refused(failure) => self.answer(Err(failure), fatal),
            Ended::Unanswered => {
                add(&self.shared.counters.in_doubt, 1);
                tracing::warn!("worker {}: no answer to a commit; finding out what became of it", self.index);
                Event::Unanswered
            }
            Ended::Unknown(failure) => {
                add(&self.shared.counters.in_doubt, 1);
                self.take_in(&failure);
                Event::Unanswered
            }
        }
    }

    async fn end_by_abort(&mut self) -> Event {
        match self.writer.abort().await {
            Ok(_) => Event::Done,
            Err(failure) => {
                self.take_in(&failure);
                Event::Failed
            }
        }
    }

    /// In doubt: asks until there is an answer. Nothing else is done meanwhile.
    async fn ask_outcome(&mut self) -> Result<Event, WorkerError> {
        match self.writer.settle().await {
            Ok(Some(Settled::Committed)) => Ok(Event::Learned(Settlement::Committed)),
            Ok(Some(Settled::Aborted)) => Ok(Event::Learned(Settlement::Aborted)),
            Ok(Some(Settled::Unknown) | None) => Ok(Event::Learned(Settlement::Unknown)),
            Err((error, _)) if error.may_have_taken_effect() => {
                tracing::warn!("worker {}: still in doubt: {error}", self.index);
                if self.is_stopping() {
                    return Err(WorkerError::InDoubt(error));
                }
                self.back_off().await;
                Ok(Event::Unanswered)
            }
            Err((_, failure)) => {
                self.take_in(&failure);
                Ok(Event::Learned(Settlement::Unknown))
            }
        }
    }

    /// The commit stands: the stores follow. One that fails is closed; the commit stands all the same.
    async fn apply_stores(&mut self) -> Result<(), WorkerError> {
        let mut ends: BTreeMap<TopicPartition, ChangelogEnd> = BTreeMap::new();
        for (topic_partition, delivery) in std::mem::take(&mut self.last_changes) {
            // Flushed, so this waits for nothing. Without an offset the position stays: it is a lower bound.
            let offset = delivery.await.ok().and_then(|metadata| metadata.offset);
            let changelog = self.topics.changelogs.get(&topic_partition.topic);
            if let (Some(offset), Some(changelog)) = (offset, changelog) {
                let end = ChangelogEnd { topic_id: changelog.topic_id, offset: offset + 1, leader_epoch: None };
                ends.insert(topic_partition, end);
            }
        }
        let is_touched = self.is_touched();
        let (now, guarantee) = (now(), self.commit.guarantee());
        let tasks = &mut self.tasks;
        blocking(|| {
            tasks
                .values_mut()
                .try_for_each(|task| task.committed(now, guarantee, |partition| ends.get(partition).copied()))
        })?;
        if self.uncommitted_records > 0 || is_touched {
            self.shared.counters.count_commit();
        }
        add(&self.shared.counters.records, self.uncommitted_records);
        self.uncommitted_records = 0;
        self.uncommitted_since = None;
        self.failures_in_a_row = 0;
        // What still waits was taken back by this commit.
        self.is_ahead = false;
        self.purge();
        Ok(())
    }

    /// Now and then, throws away the stores of tasks that are others' by now. One worker of a process looks.
    fn clean(&mut self) {
        let delay = self.shared.state_cleanup_delay;
        if self.index > 0 || self.cleaned_at.elapsed() < (delay / 10).max(Duration::from_millis(10)) {
            return;
        }
        self.cleaned_at = Instant::now();
        match blocking(|| self.shared.folder.clean(delay)) {
            Ok(0) => {}
            Ok(deleted) => {
                tracing::info!("threw away {deleted} stores of tasks that this process has no more");
                add(&self.shared.counters.cleaned_stores, deleted);
            }
            // It is room on a disk and nothing else; the next look tries again.
            Err(error) => tracing::warn!("stores of former tasks could not be thrown away: {error}"),
        }
    }

    /// A slice of records has been processed, whatever came of it.
    fn count_slice(&mut self, id: TaskId, begun: Instant, processed_before: u64) {
        let (Some(task), Some(numbers)) = (self.tasks.get_mut(&id), self.task_numbers.get(&id)) else { return };
        let ended = Instant::now();
        let (processed, took) = (task.counts().processed - processed_before, ended - begun);
        lock(&self.numbers).process.record_together(ended, processed, took);
        let mut numbers = lock(numbers);
        numbers.processed(ended, processed, took);
        numbers.passed(ended, now().0, &task.take_times());
    }

    /// Now and then, looks up what is not counted as it happens: lags, what waits, what was asked of stores.
    fn look(&mut self) -> Result<(), WorkerError> {
        if self.looked_at.elapsed() < LOOK_INTERVAL {
            return Ok(());
        }
        self.looked_at = Instant::now();
        self.give_failed_stores_back()?;
        for (id, task) in &self.tasks {
            let Some(numbers) = self.task_numbers.get(id) else { continue };
            let counts = task.counts();
            let lag = task.partitions().map(|partition| {
                let position = task.position(partition).or_else(|| self.consumer.position(partition));
                let end = self.consumer.last_seen_end(partition);
                (partition.clone(), end.zip(position).map(|(end, position)| (end - position).max(0)))
            });
            let seen = TaskSeen {
                punctuations: counts.punctuations,
                dropped: counts.dropped,
                skipped: counts.skipped,
                dead_letters: counts.dead_letters,
                buffered: task.buffered(),
                lag: lag.collect(),
                restore_remaining: self.restoration.as_ref().map_or(0, |restoration| restoration.remaining(*id)),
            };
            let mut numbers = lock(numbers);
            numbers.seen = seen;
            task.for_each_store(|store, counts, uncommitted_bytes| {
                numbers.store_seen(store, counts, uncommitted_bytes)
            });
        }
        Ok(())
    }

    /// The engine of all stores has given up, as another worker may have met before this one has written anything: it ends as that one does, and whoever
    /// comes next opens them anew.
    fn give_failed_stores_back(&self) -> Result<(), WorkerError> {
        if !self.shared.folder.has_failed() {
            return Ok(());
        }
        let (topology, surroundings) = (&self.topics.topology, &self.topics.surroundings);
        let mut stores = self.tasks.keys().flat_map(|id| Task::stores_of(topology, *id, surroundings));
        match stores.find(|needed| needed.is_persistent) {
            None => Ok(()),
            Some(needed) => {
                let source = Box::from("the engine of this process's stores has given up, and is opened anew");
                Err(StoreError::Engine { store: needed.name, source }.into())
            }
        }
    }

    /// Now and then, deletes from repartition topics what was read and is committed: they keep everything else for ever.
    fn purge(&mut self) {
        if self.purged_at.elapsed() < self.shared.repartition_purge_interval {
            return;
        }
        self.purged_at = Instant::now();
        let topics = &self.topics.layout.internal_topics;
        let repartition: BTreeSet<&TopicName> = topics
            .iter()
            .filter(|topic| topic.kind == InternalTopicKind::Repartition)
            .map(|topic| &topic.name)
            .collect();
        let before: Vec<(TopicPartition, Offset)> = self
            .tasks
            .values()
            .flat_map(Task::committed_positions)
            .filter(|(partition, _)| repartition.contains(&partition.topic))
            .map(|(partition, offset)| (partition.clone(), offset))
            .collect();
        if before.is_empty() {
            return;
        }
        let (admin, index) = (self.shared.client.admin(), self.index);
        // Nothing waits for it; what fails is tried again with the next.
        tokio::spawn(async move {
            match admin.delete_records(&before).await {
                Ok(outcomes) => {
                    for (partition, error) in
                        outcomes.into_iter().filter_map(|(it, outcome)| Some((it, outcome.err()?)))
                    {
                        tracing::warn!("worker {index}: {partition} could not be purged: {error}");
                    }
                }
                Err(error) => tracing::warn!("worker {index}: repartition topics could not be purged: {error}"),
            }
        });
    }

    /// Everything since the last commit is undone, and comes again.
    async fn roll_back(&mut self, replay_changelogs: bool) -> Result<(), WorkerError> {
        if self.has_uncommitted() {
            add(&self.shared.counters.aborted, 1);
        }
        self.drop_held();
        self.last_changes.clear();
        self.uncommitted_since = None;
        self.uncommitted_records = 0;
        if std::mem::take(&mut self.is_out) {
            self.give_up_tasks();
            return Ok(());
        }
        for task in self.tasks.values_mut() {
            task.roll_back();
        }
        if let Err(error) = self.consumer.rewind().await {
            tracing::warn!("worker {}: {error}; it joins again", self.index);
            self.consumer.enforce_rebalance();
            self.give_up_tasks();
            return Ok(());
        }
        if replay_changelogs {
            let all = self.tasks.keys().copied().collect();
            self.restore_and_run(&all).await?;
        }
        Ok(())
    }

    pub(crate) fn drop_held(&mut self) {
        self.is_ahead = false;
        self.held.clear();
        self.held_bytes = 0;
    }

    fn is_commit_due(&self) -> bool {
        let Some(since) = self.uncommitted_since else { return false };
        let limit = &self.shared.commit_after;
        let bytes = || self.held_bytes + self.tasks.values().map(Task::uncommitted_bytes).sum::<usize>();
        since.elapsed() >= self.commit_interval() || self.uncommitted_records >= limit.records || bytes() > limit.bytes
    }

    /// Positions that have only moved over control records can wait: they are of use to nobody but who measures lag.
    fn commit_interval(&self) -> Duration {
        let interval = self.shared.commit_interval;
        let has_effects = self.uncommitted_records > 0 || self.is_touched();
        if has_effects { interval } else { interval.max(CONTROL_RECORDS_INTERVAL) }
    }

    fn is_touched(&self) -> bool {
        self.tasks.values().any(Task::is_touched)
    }

    pub(crate) fn has_uncommitted(&self) -> bool {
        self.is_ahead || self.tasks.values().any(Task::has_uncommitted)
    }

    fn wait(&self) -> Duration {
        let until_commit = match self.uncommitted_since {
            Some(since) => self.commit_interval().saturating_sub(since.elapsed()),
            None => IDLE_WAIT,
        };
        let punctuations = self.tasks.values().filter_map(Task::next_wall_clock_punctuation);
        let until_punctuation = match punctuations.min().filter(|_| !self.is_paused) {
            Some(next) => Duration::from_millis(u64::try_from(next.0.saturating_sub(now().0)).unwrap_or(0)),
            None => IDLE_WAIT,
        };
        until_commit.min(until_punctuation).min(IDLE_WAIT)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stop.borrow() != Stop::No
    }

    /// Waits longer after each failure in a row; not at all once told to stop.
    pub(crate) async fn back_off(&mut self) {
        let wait = BACK_OFF.saturating_mul(1 << self.failures_in_a_row.min(10)).min(BACK_OFF_MAX);
        self.failures_in_a_row += 1;
        let mut stop = self.stop.clone();
        let _ = tokio::time::timeout(wait, stop.wait_for(|stop| *stop != Stop::No)).await;
    }
}

/// The wall clock's time.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Runs work that may block on the disk, without holding up other tasks of this thread where the runtime allows it.
pub(crate) fn blocking<T>(work: impl FnOnce() -> T) -> T {
    match tokio::runtime::Handle::current().runtime_flavor() {
        tokio::runtime::RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// The engine of a store on disk, timed. (One in memory moves from owner to owner, and takes no time.)
pub(crate) fn measured(
    numbers: &Mutex<TaskNumbers>,
    needed: &NeededStore,
    engine: Box<dyn StateStore>,
) -> Box<dyn StateStore> {
    match lock(numbers).store(&needed.name) {
        Some(numbers) if needed.is_persistent => Box::new(MeasuredStore::new(engine, Arc::clone(numbers))),
        Some(_) | None => engine,
    }
}

fn source_record(record: ConsumerRecord) -> (TopicPartition, SourceRecord) {
    let ConsumerRecord { topic_partition, offset, timestamp, key, value, headers } = record;
    let headers =
        headers.into_iter().map(|header| atonce_streams_core::Header { key: header.key, value: header.value });
    (topic_partition, SourceRecord { offset, timestamp, key, value, headers: headers.collect() })
}

fn bytes_of(output: &OutputRecord) -> usize {
    let length = |bytes: &Option<bytes::Bytes>| bytes.as_ref().map_or(0, bytes::Bytes::len);
    size_of::<OutputRecord>() + length(&output.key) + length(&output.value)
}

fn producer_record(output: OutputRecord) -> ProducerRecord {
    let OutputRecord { topic, partition, timestamp, key, value, headers } = output;
    let headers = headers.into_iter().map(|header| atonce_client::Header { key: header.key, value: header.value });
    ProducerRecord { topic, partition, key, value, headers: headers.collect(), timestamp: Some(timestamp) }
}
