//! One partition's work: queues of records, the processors of a subtopology, its stores; records in, records out.
//!
//! The record with the smallest timestamp among the queues' heads goes first. A task never commits on its own: it says which
//! positions and change-log records belong to what it has processed, and is told later that this stands, or is undone.
//!
//! **What it does not know**: the consumer, the producer, other tasks, when to commit.
//!
//! Life: `Created` → `Restoring` (its stores replay the tails of their change logs) → `Running` → `Closed`.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use atonce_kernel::{Offset, Timestamp, TopicId, TopicPartition};

use crate::commit::Guarantee;
use crate::failure::{Failure, Stage, UnwritableError, Verdict};
use crate::processor::{Clock, Context, NodeFailure, NodeSlot, Punctuation, Schedule};
use crate::record::{ChangelogRecord, OutputRecord, SourceRecord};
use crate::store::{StateStore, StoreCounts, StoreError, StorePosition, TaskStore};
use crate::topology::{NodeKind, Surroundings, Topology};

/// A task's name: `<subtopology>_<partition>`, as Kafka Streams writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    /// The subtopology's number.
    pub subtopology: i32,
    /// The partition.
    pub partition: i32,
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.subtopology, self.partition)
    }
}

impl FromStr for TaskId {
    type Err = NotATaskId;

    fn from_str(text: &str) -> Result<Self, NotATaskId> {
        let parts = text.split_once('_').ok_or_else(|| NotATaskId(text.to_owned()))?;
        match (parts.0.parse(), parts.1.parse()) {
            (Ok(subtopology), Ok(partition)) if subtopology >= 0 && partition >= 0 => {
                Ok(Self { subtopology, partition })
            }
            (Ok(_) | Err(_), Ok(_) | Err(_)) => Err(NotATaskId(text.to_owned())),
        }
    }
}

/// Text that names no task.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no task: 0_1 would be partition 1 of subtopology 0")]
pub struct NotATaskId(String);

/// A record, a punctuation or the end of an interval that could not be processed.
#[derive(Debug, thiserror::Error)]
#[error("task {task}, {doing}, at {node}: {cause}")]
pub struct TaskError {
    /// The task.
    pub task: TaskId,
    /// What it was doing.
    pub doing: Doing,
    /// The node that failed.
    pub node: String,
    /// Why.
    #[source]
    pub cause: Box<dyn std::error::Error + Send + Sync>,
}

impl TaskError {
    /// The store that was found damaged, if that is what this is about.
    #[must_use]
    pub fn damaged_store(&self) -> Option<&str> {
        match StoreError::of_engine(self.cause.as_ref()) {
            Some(StoreError::Damaged { store, .. }) => Some(store),
            Some(_) | None => None,
        }
    }
}

/// What a task was doing when it failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Processing a record.
    Record {
        /// Where it came from.
        topic_partition: TopicPartition,
        /// Its offset.
        offset: Offset,
    },
    /// Calling a processor whose time had come.
    Punctuation,
    /// Handing on what cached stores had kept back.
    Flush,
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record { topic_partition, offset } => write!(f, "{topic_partition} offset {offset}"),
            Self::Punctuation => f.write_str("in a punctuation"),
            Self::Flush => f.write_str("handing on the changes of an interval"),
        }
    }
}

/// Counts since a task was made, of what was undone later too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskCounts {
    /// Records processed.
    pub processed: u64,
    /// Records that could not go on because they had no key, or no value where one is needed.
    pub dropped: u64,
    /// Records that failed and were left out, as the failure handler said.
    pub skipped: u64,
    /// Records that failed and went to a dead-letter topic.
    pub dead_letters: u64,
    /// Punctuations.
    pub punctuations: u64,
}

/// The times of the records that a task has processed between two looks, whatever became of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordTimes {
    /// How many there were, those without a time left out.
    pub records: u64,
    /// The earliest.
    pub earliest: Timestamp,
    /// The latest.
    pub latest: Timestamp,
    /// All of them together, in milliseconds: divided by their number, the average.
    pub sum_ms: i64,
    /// How far behind stream time they were together, in milliseconds.
    pub lateness_sum_ms: i64,
    /// How far behind it the latest-comer was.
    pub lateness_max_ms: i64,
}

impl Default for RecordTimes {
    fn default() -> Self {
        let (earliest, latest) = (Timestamp(i64::MAX), Timestamp::NONE);
        Self { records: 0, earliest, latest, sum_ms: 0, lateness_sum_ms: 0, lateness_max_ms: 0 }
    }
}

impl RecordTimes {
    fn take_in(&mut self, time: Timestamp, stream_time: Timestamp) {
        if time.0 < 0 {
            return;
        }
        self.records += 1;
        self.earliest = self.earliest.min(time);
        self.latest = self.latest.max(time);
        self.sum_ms = self.sum_ms.saturating_add(time.0);
        let lateness_ms = stream_time.0.saturating_sub(time.0).max(0);
        self.lateness_sum_ms = self.lateness_sum_ms.saturating_add(lateness_ms);
        self.lateness_max_ms = self.lateness_max_ms.max(lateness_ms);
    }
}

/// The end of a change log's partition as a commit left it: what a store's position becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangelogEnd {
    /// The topic's id.
    pub topic_id: TopicId,
    /// The offset after the last record of the commit.
    pub offset: Offset,
    /// The leader's epoch, if known.
    pub leader_epoch: Option<i32>,
}

/// A running piece of a topology. See the module.
pub struct Task {
    id: TaskId,
    topology: Topology,
    surroundings: Surroundings,
    /// By place in the graph; only this subtopology's are filled.
    nodes: Vec<NodeSlot>,
    stores: Vec<Option<RefCell<TaskStore>>>,
    queues: Vec<Queue>,
    outputs: Vec<OutputRecord>,
    schedules: Vec<Scheduled>,
    /// The earliest of the schedules by stream time.
    next_by_stream_time: Option<Timestamp>,
    /// A punctuation has done something that no position tells of.
    is_touched: bool,
    stream_time: Timestamp,
    committed_stream_time: Timestamp,
    counts: TaskCounts,
    times: RecordTimes,
}

/// A processor's schedule, and when it is next due.
struct Scheduled {
    node: usize,
    /// Its place among the processor's.
    place: usize,
    schedule: Schedule,
    /// `None`: an interval from the first look at the clock on.
    next: Option<Timestamp>,
    committed_next: Option<Timestamp>,
}

impl Scheduled {
    /// As Kafka Streams: by stream time the first is due with the first record.
    fn new(node: usize, place: usize, schedule: Schedule) -> Self {
        let next = match schedule.clock {
            Clock::StreamTime => Some(Timestamp(0)),
            Clock::WallClock => None,
        };
        Self { node, place, schedule, next, committed_next: next }
    }

    /// Whether it is due at `now`, and if so, moves on; what was missed is not made up for one by one.
    fn is_due(&mut self, now: Timestamp) -> bool {
        let interval_ms = self.schedule.interval_ms();
        let Some(next) = self.next else {
            self.next = Some(Timestamp(now.0.saturating_add(interval_ms)));
            return false;
        };
        if now < next {
            return false;
        }
        let missed = (now.0 - next.0) / interval_ms;
        self.next = Some(Timestamp(next.0.saturating_add((missed + 1).saturating_mul(interval_ms))));
        true
    }
}

struct Queue {
    topic_partition: TopicPartition,
    source: usize,
    records: VecDeque<SourceRecord>,
    /// After the last record handed in, and the control records behind it.
    fetched_to: Option<Offset>,
    /// What the group has, as far as this task knows.
    committed: Option<Offset>,
    /// The largest time of a record processed, and what of it is committed.
    time: Timestamp,
    committed_time: Timestamp,
}

impl Queue {
    /// The next offset to process: what a commit now would say. Never last record + 1: a control record may stand there.
    fn position(&self) -> Option<Offset> {
        self.records.front().map(|record| record.offset).or(self.fetched_to)
    }
}

impl Task {
    /// A task with its stores, which must have followed their change logs already (see [`Task::restore`]).
    ///
    /// `engines` are the stores' engines by name; a store that is not among them is an error of the caller.
    ///
    /// Panics: if an engine is missing.
    #[must_use]
    pub fn new(
        topology: &Topology,
        id: TaskId,
        surroundings: Surroundings,
        mut engines: BTreeMap<String, Box<dyn StateStore>>,
    ) -> Self {
        let graph = &topology.graph;
        let subtopology = usize::try_from(id.subtopology).ok().and_then(|index| graph.subtopologies.get(index));
        let subtopology = subtopology.expect("a task belongs to a subtopology").clone();
        let mut stores: Vec<Option<RefCell<TaskStore>>> = graph.stores.iter().map(|_| None).collect();
        for index in &subtopology.stores {
            let (Some(specification), Some(place)) = (graph.stores.get(*index), stores.get_mut(*index)) else {
                continue;
            };
            let engine = engines.remove(&specification.name).expect("each store of the task has its engine");
            let changelog = specification
                .has_changelog
                .then(|| changelog_partition(&surroundings, specification.name.as_str(), id));
            let bytes_max =
                changelog.as_ref().and_then(|changelog| surroundings.max_message_bytes.get(&changelog.topic)).copied();
            let store = TaskStore::new(&specification.name, changelog, engine).changelog_bytes_max(bytes_max);
            *place = Some(RefCell::new(store));
        }
        let mut queues = Vec::new();
        for index in &subtopology.nodes {
            let Some(NodeKind::Source { topics }) = graph.nodes.get(*index).map(|node| &node.kind) else { continue };
            for topic in topics.names() {
                let topic = if graph.repartition_topics.contains_key(topic) {
                    surroundings.internal_topic(topic.as_str())
                } else {
                    topic.clone()
                };
                queues.push(Queue {
                    topic_partition: TopicPartition::new(topic, id.partition),
                    source: *index,
                    records: VecDeque::new(),
                    fetched_to: None,
                    committed: None,
                    time: Timestamp::NONE,
                    committed_time: Timestamp::NONE,
                });
            }
        }
        queues.sort_by(|a, b| a.topic_partition.cmp(&b.topic_partition));
        let mut task = Self {
            id,
            topology: topology.clone(),
            surroundings,
            nodes: Vec::new(),
            stores,
            queues,
            outputs: Vec::new(),
            schedules: Vec::new(),
            next_by_stream_time: None,
            is_touched: false,
            stream_time: Timestamp::NONE,
            committed_stream_time: Timestamp::NONE,
            counts: TaskCounts::default(),
            times: RecordTimes::default(),
        };
        task.build_processors();
        for (node, slot) in task.nodes.iter().enumerate() {
            let schedules = slot.schedules().into_iter().enumerate();
            task.schedules.extend(schedules.map(|(place, schedule)| Scheduled::new(node, place, schedule)));
        }
        task.find_next_by_stream_time();
        task
    }

    /// The stores that a task of this subtopology needs, with the partition of each one's change log.
    #[must_use]
    pub fn stores_of(topology: &Topology, id: TaskId, surroundings: &Surroundings) -> Vec<NeededStore> {
        let graph = &topology.graph;
        let subtopology = usize::try_from(id.subtopology).ok().and_then(|index| graph.subtopologies.get(index));
        let indexes = subtopology.map(|subtopology| subtopology.stores.as_slice()).unwrap_or_default();
        let specifications = indexes.iter().filter_map(|index| graph.stores.get(*index));
        specifications
            .map(|specification| NeededStore {
                name: specification.name.clone(),
                is_persistent: specification.is_persistent,
                changelog: specification
                    .has_changelog
                    .then(|| changelog_partition(surroundings, &specification.name, id)),
            })
            .collect()
    }

    /// The task's name.
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.id
    }

    /// The partitions it reads.
    pub fn partitions(&self) -> impl Iterator<Item = &TopicPartition> {
        self.queues.iter().map(|queue| &queue.topic_partition)
    }

    /// Takes in what was read of one partition: records in order, and the position after them, which also steps over control
    /// records and records of aborted transactions.
    ///
    /// A partition that is not this task's is ignored: it was revoked while its records were on their way.
    pub fn add(
        &mut self,
        topic_partition: &TopicPartition,
        records: impl IntoIterator<Item = SourceRecord>,
        fetched_to: Offset,
    ) {
        if let Some(queue) = self.queues.iter_mut().find(|queue| queue.topic_partition == *topic_partition) {
            queue.records.extend(records);
            queue.fetched_to = Some(fetched_to.max(queue.fetched_to.unwrap_or(fetched_to)));
        }
    }

    /// Records that wait.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.queues.iter().map(|queue| queue.records.len()).sum()
    }

    /// Processes up to `limit` records, fewer once they have had as many outputs; says how many. One record may have any number of outputs, so a
    /// limit on records alone would not bound the time.
    ///
    /// Errors: a record that cannot be processed. The task must be rolled back then: part of that record's effect may stand.
    pub fn process(&mut self, limit: usize) -> Result<usize, TaskError> {
        let outputs_before = self.outputs.len();
        let mut processed = 0;
        while processed < limit && self.outputs.len() - outputs_before < limit {
            let Some(queue) = self.next_queue() else { break };
            self.process_head(queue)?;
            processed += 1;
        }
        Ok(processed)
    }

    /// The queue whose head is the earliest; of several, the first by topic and partition.
    fn next_queue(&self) -> Option<usize> {
        let heads = self.queues.iter().enumerate();
        heads.filter_map(|(index, queue)| Some((queue.records.front()?.timestamp, index))).min().map(|(_, index)| index)
    }

    fn process_head(&mut self, queue: usize) -> Result<(), TaskError> {
        let queue = self.queues.get_mut(queue).expect("chosen among them");
        let record = queue.records.pop_front().expect("chosen because it has a head");
        let (source, topic_partition) = (queue.source, queue.topic_partition.clone());
        let offset = record.offset;
        queue.time = queue.time.max(record.timestamp);
        self.stream_time = self.stream_time.max(record.timestamp);
        self.counts.processed += 1;
        self.times.take_in(record.timestamp, self.stream_time);
        // Without a handler a failure undoes the whole interval, and there is nothing to remember.
        let kept = self.surroundings.on_failure.may_go_on().then(|| record.clone());
        let outputs_before = self.outputs.len();
        if kept.is_some() {
            for store in self.stores.iter().flatten() {
                store.borrow_mut().begin_record();
            }
        }
        let failed = self.with_context(source, Some((&topic_partition, offset)), |context| {
            context.deliver_to_source(source, record);
        });
        if let Some(failure) = failed {
            let doing = Doing::Record { topic_partition: topic_partition.clone(), offset };
            match kept {
                None => return Err(self.error(doing, failure)),
                Some(record) => self.judge(&record, &topic_partition, source, outputs_before, failure)?,
            }
        }
        if self.next_by_stream_time.is_some_and(|next| next <= self.stream_time) {
            self.punctuate(Clock::StreamTime, self.stream_time)?;
        }
        Ok(())
    }

    /// The handler says what becomes of a record that failed. It is undone first, so that it has either had its whole effect or none.
    fn judge(
        &mut self,
        record: &SourceRecord,
        topic_partition: &TopicPartition,
        source: usize,
        outputs_before: usize,
        failed: NodeFailure,
    ) -> Result<(), TaskError> {
        let graph = Arc::clone(&self.topology.graph);
        let node = graph.nodes.get(failed.node).map(|node| node.name.as_str()).unwrap_or_default();
        let is_source = failed.node == source;
        let cause = failed.cause.into_inner();
        let failure = Failure {
            stage: if is_source { Stage::Reading } else { Stage::Processing },
            task: self.id,
            node,
            origin: Some((topic_partition, record.offset)),
            timestamp: record.timestamp,
            key: record.key.as_ref(),
            value: record.value.as_ref(),
            headers: &record.headers,
            cause: cause.as_ref(),
        };
        // What a sink could not write was judged there, with the record that it was about: a failure of that is final.
        // And a store that fails is no fault of the record's: left out, it would be lost.
        let is_final = failure.cause.is::<UnwritableError>() || StoreError::of_engine(failure.cause).is_some();
        let verdict = if is_final { Verdict::Fail } else { self.surroundings.on_failure.judge(&failure) };
        let letter = match verdict {
            Verdict::Fail => {
                let doing = Doing::Record { topic_partition: topic_partition.clone(), offset: record.offset };
                return Err(TaskError { task: self.id, doing, node: node.to_owned(), cause });
            }
            Verdict::Skip => None,
            Verdict::DeadLetter(topic) => Some(failure.dead_letter(topic)),
        };
        self.outputs.truncate(outputs_before);
        for store in self.stores.iter().flatten() {
            store.borrow_mut().undo_record();
        }
        match letter {
            None => self.counts.skipped += 1,
            Some(letter) => {
                self.outputs.push(letter);
                self.counts.dead_letters += 1;
            }
        }
        Ok(())
    }

    /// Calls the processors whose schedules by the wall clock are due; says whether there were any.
    ///
    /// Errors: a processor failed. The task must be rolled back then.
    pub fn punctuate_by_wall_clock(&mut self, now: Timestamp) -> Result<bool, TaskError> {
        self.punctuate(Clock::WallClock, now)
    }

    /// Whether any processor has a schedule by the wall clock.
    #[must_use]
    pub fn has_wall_clock(&self) -> bool {
        self.schedules.iter().any(|scheduled| scheduled.schedule.clock == Clock::WallClock)
    }

    /// Whether a punctuation has done something since the last commit.
    #[must_use]
    pub fn is_touched(&self) -> bool {
        self.is_touched
    }

    /// When the next schedule by the wall clock is due; `None` if there is none, or none has been looked at yet.
    #[must_use]
    pub fn next_wall_clock_punctuation(&self) -> Option<Timestamp> {
        let by_clock = self.schedules.iter().filter(|scheduled| scheduled.schedule.clock == Clock::WallClock);
        by_clock.filter_map(|scheduled| scheduled.next).min()
    }

    fn punctuate(&mut self, clock: Clock, time: Timestamp) -> Result<bool, TaskError> {
        let due: Vec<(usize, usize)> = self
            .schedules
            .iter_mut()
            .filter(|scheduled| scheduled.schedule.clock == clock)
            .filter_map(|scheduled| scheduled.is_due(time).then_some((scheduled.node, scheduled.place)))
            .collect();
        self.find_next_by_stream_time();
        for (node, schedule) in &due {
            self.counts.punctuations += 1;
            self.is_touched = true;
            let punctuation = Punctuation { schedule: *schedule, clock, time };
            let failed = self.with_context(*node, None, |context| context.punctuate(*node, punctuation));
            if let Some(failure) = failed {
                return Err(self.error(Doing::Punctuation, failure));
            }
        }
        Ok(!due.is_empty())
    }

    fn find_next_by_stream_time(&mut self) {
        let by_stream = self.schedules.iter().filter(|scheduled| scheduled.schedule.clock == Clock::StreamTime);
        self.next_by_stream_time = by_stream.filter_map(|scheduled| scheduled.next).min();
    }

    /// Hands on what cached stores have kept back: before a commit, whose outputs then include it.
    ///
    /// Errors: a processor failed. The task must be rolled back then.
    pub fn flush_caches(&mut self) -> Result<(), TaskError> {
        // Parents come before their children, so one round is enough.
        for node in 0..self.nodes.len() {
            let is_ours = self.topology.graph.nodes.get(node).is_some_and(|node| match &node.kind {
                NodeKind::Processor { stores } => {
                    stores.iter().any(|store| matches!(self.stores.get(*store), Some(Some(_))))
                }
                NodeKind::Source { .. } | NodeKind::Sink { .. } => false,
            });
            if !is_ours {
                continue;
            }
            if let Some(failure) = self.with_context(node, None, |context| context.flush(node)) {
                return Err(self.error(Doing::Flush, failure));
            }
        }
        Ok(())
    }

    fn with_context(
        &mut self,
        current: usize,
        origin: Option<(&TopicPartition, Offset)>,
        work: impl FnOnce(&mut Context<'_>),
    ) -> Option<NodeFailure> {
        let mut context = Context {
            task: self.id,
            graph: &self.topology.graph,
            nodes: &mut self.nodes,
            stores: &self.stores,
            on_failure: &self.surroundings.on_failure,
            outputs: &mut self.outputs,
            counts: &mut self.counts,
            origin,
            stream_time: self.stream_time,
            current,
            failure: None,
        };
        work(&mut context);
        context.failure
    }

    fn error(&self, doing: Doing, failure: NodeFailure) -> TaskError {
        let node = self.topology.graph.nodes.get(failure.node).map(|node| node.name.clone()).unwrap_or_default();
        TaskError { task: self.id, doing, node, cause: failure.cause.into_inner() }
    }

    /// What the sinks have written since the last call, in order.
    pub fn take_outputs(&mut self) -> Vec<OutputRecord> {
        std::mem::take(&mut self.outputs)
    }

    /// Puts outputs aside: under at most once they wait for the offsets.
    #[must_use]
    pub fn has_outputs(&self) -> bool {
        !self.outputs.is_empty()
    }

    /// The positions that a commit now would have to say: those that moved since the last one.
    pub fn positions(&self) -> impl Iterator<Item = (&TopicPartition, Offset)> {
        self.queues.iter().filter_map(|queue| {
            let position = queue.position()?;
            (queue.committed != Some(position)).then_some((&queue.topic_partition, position))
        })
    }

    /// The next offset of `topic_partition` to process; `None` if nothing has come of it.
    #[must_use]
    pub fn position(&self, topic_partition: &TopicPartition) -> Option<Offset> {
        self.queues.iter().find(|queue| queue.topic_partition == *topic_partition)?.position()
    }

    /// The positions behind all that waits: what is committed before it is processed where nothing may be done twice.
    pub fn positions_behind_all(&self) -> impl Iterator<Item = (&TopicPartition, Offset)> {
        self.queues.iter().filter_map(|queue| Some((&queue.topic_partition, queue.fetched_to?)))
    }

    /// The positions that the last commit said, or an earlier one.
    pub fn committed_positions(&self) -> impl Iterator<Item = (&TopicPartition, Offset)> {
        self.queues.iter().filter_map(|queue| Some((&queue.topic_partition, queue.committed?)))
    }

    /// The largest time of a record of `topic_partition` that was processed. It is committed beside the position, so that stream time goes on
    /// where it was after a restart.
    #[must_use]
    pub fn partition_time(&self, topic_partition: &TopicPartition) -> Timestamp {
        let queue = self.queues.iter().find(|queue| queue.topic_partition == *topic_partition);
        queue.map_or(Timestamp::NONE, |queue| queue.time)
    }

    /// Takes in the time that was committed beside a position.
    pub fn set_partition_time(&mut self, topic_partition: &TopicPartition, time: Timestamp) {
        if let Some(queue) = self.queues.iter_mut().find(|queue| queue.topic_partition == *topic_partition) {
            (queue.time, queue.committed_time) = (time, time);
            self.stream_time = self.stream_time.max(time);
            self.committed_stream_time = self.stream_time;
        }
    }

    /// Whether a commit would have anything to say.
    #[must_use]
    pub fn has_uncommitted(&self) -> bool {
        self.is_touched || self.positions().next().is_some()
    }

    /// The changes of the stores since the last commit, as their change logs take them.
    #[must_use]
    pub fn changelog_records(&self) -> Vec<ChangelogRecord> {
        let mut records = Vec::new();
        for store in self.stores.iter().flatten() {
            records.extend(store.borrow().changelog_records());
        }
        records
    }

    /// Bytes of store changes that wait for a commit.
    #[must_use]
    pub fn uncommitted_bytes(&self) -> usize {
        self.stores.iter().flatten().map(|store| store.borrow().uncommitted_bytes()).sum()
    }

    /// The commit stands: the stores follow, each in one batch with its change log's end.
    ///
    /// `end_of` gives the end for each change log that was written to in this commit; without it the position stays as it was.
    ///
    /// Errors: a store failed. The commit stands all the same; this task must be closed, and its store replays the tail later.
    pub fn committed(
        &mut self,
        now: Timestamp,
        guarantee: Guarantee,
        end_of: impl Fn(&TopicPartition) -> Option<ChangelogEnd>,
    ) -> Result<(), StoreError> {
        for queue in &mut self.queues {
            queue.committed = queue.position();
            queue.committed_time = queue.time;
        }
        self.committed_stream_time = self.stream_time;
        self.is_touched = false;
        for scheduled in &mut self.schedules {
            scheduled.committed_next = scheduled.next;
        }
        for store in self.stores.iter().flatten() {
            let mut store = store.borrow_mut();
            let end = store.changelog().and_then(&end_of);
            let position = end.map(|end| StorePosition {
                topic_id: end.topic_id,
                offset: end.offset,
                leader_epoch: end.leader_epoch,
                written_at: now,
                guarantee,
            });
            store.commit(position)?;
        }
        Ok(())
    }

    /// Everything since the last commit is undone: overlays, queues, outputs, stream time, and the processors' own fields, which are
    /// built anew. Records must come again from the committed offsets.
    pub fn roll_back(&mut self) {
        for queue in &mut self.queues {
            queue.records.clear();
            queue.fetched_to = None;
            queue.committed = None;
            queue.time = queue.committed_time;
        }
        for store in self.stores.iter().flatten() {
            store.borrow_mut().roll_back();
        }
        self.outputs.clear();
        self.stream_time = self.committed_stream_time;
        self.is_touched = false;
        for scheduled in &mut self.schedules {
            // The wall clock goes on whatever is undone; stream time is set back.
            if scheduled.schedule.clock == Clock::StreamTime {
                scheduled.next = scheduled.committed_next;
            }
        }
        self.find_next_by_stream_time();
        self.build_processors();
    }

    /// How far each store with a change log has followed it.
    #[must_use]
    pub fn store_positions(&self) -> Vec<(String, TopicPartition, Option<StorePosition>)> {
        let stores = self.stores.iter().flatten().map(RefCell::borrow);
        stores
            .filter_map(|store| Some((store.name().to_owned(), store.changelog()?.clone(), store.position())))
            .collect()
    }

    /// Whether the engine of a store holds anything; for a store without a position, which must be new then.
    pub fn has_stored_data(&self, store: &str) -> Result<bool, StoreError> {
        match self.stores.iter().flatten().find(|cell| cell.borrow().name() == store) {
            Some(cell) => cell.borrow().has_stored_data(),
            None => Err(StoreError::NotConnected { store: store.to_owned() }),
        }
    }

    /// Follows a change log: `records` in order, and the position after them.
    pub fn restore(
        &mut self,
        store: &str,
        records: &[ChangelogRecord],
        position: StorePosition,
    ) -> Result<(), StoreError> {
        match self.stores.iter().flatten().find(|cell| cell.borrow().name() == store) {
            Some(cell) => cell.borrow_mut().restore(records, position),
            None => Err(StoreError::NotConnected { store: store.to_owned() }),
        }
    }

    /// Puts an empty engine in place of one that cannot be trusted.
    pub fn replace_engine(&mut self, store: &str, engine: Box<dyn StateStore>) {
        if let Some(cell) = self.stores.iter().flatten().find(|cell| cell.borrow().name() == store) {
            drop(cell.borrow_mut().replace_engine(engine));
        }
    }

    /// The stores' engines, by name, for whoever has the task next. What was not committed is dropped with the task.
    #[must_use]
    pub fn into_engines(self) -> Vec<(String, Box<dyn StateStore>)> {
        let stores = self.stores.into_iter().flatten().map(RefCell::into_inner);
        stores.map(|store| (store.name().to_owned(), store.into_engine())).collect()
    }

    /// Makes what was committed durable in every store.
    pub fn sync_stores(&mut self) -> Result<(), StoreError> {
        self.stores.iter().flatten().try_for_each(|store| store.borrow_mut().sync())
    }

    /// Counts since the task was made, of what was undone later too.
    #[must_use]
    pub fn counts(&self) -> TaskCounts {
        self.counts
    }

    /// The times of the records processed since the last call.
    pub fn take_times(&mut self) -> RecordTimes {
        std::mem::take(&mut self.times)
    }

    /// What was asked of each store, and how many bytes of it wait for a commit.
    pub fn for_each_store(&self, mut look: impl FnMut(&str, StoreCounts, usize)) {
        for store in self.stores.iter().flatten() {
            let store = store.borrow();
            look(store.name(), store.counts(), store.uncommitted_bytes());
        }
    }

    /// The largest timestamp seen.
    #[must_use]
    pub fn stream_time(&self) -> Timestamp {
        self.stream_time
    }

    fn build_processors(&mut self) {
        let graph = &self.topology.graph;
        self.nodes = graph.nodes.iter().map(|_| NodeSlot::default()).collect();
        let subtopology = usize::try_from(self.id.subtopology).ok().and_then(|index| graph.subtopologies.get(index));
        for index in subtopology.into_iter().flat_map(|subtopology| &subtopology.nodes) {
            if let (Some(node), Some(slot)) = (graph.nodes.get(*index), self.nodes.get_mut(*index)) {
                *slot = NodeSlot::new((node.supplier)(&self.surroundings));
            }
        }
    }
}

/// A store that a task needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeededStore {
    /// Its name.
    pub name: String,
    /// Whether it lies on disk.
    pub is_persistent: bool,
    /// The partition of its change log; `None` for a store without.
    pub changelog: Option<TopicPartition>,
}

fn changelog_partition(surroundings: &Surroundings, store: &str, id: TaskId) -> TopicPartition {
    TopicPartition::new(surroundings.internal_topic(&format!("{store}-changelog")), id.partition)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Forward, KeyValueStore, Processor, ProcessorError, Record, StoreHandle, Stores, TopologyBuilder, store,
    };
    use bytes::Bytes;

    fn record(offset: Offset, timestamp: i64, value: &str) -> SourceRecord {
        SourceRecord {
            offset,
            timestamp: Timestamp(timestamp),
            key: Some(Bytes::from_static(b"k")),
            value: Some(Bytes::copy_from_slice(value.as_bytes())),
            headers: Vec::new(),
        }
    }

    fn values(task: &mut Task) -> Vec<String> {
        let outputs = task.take_outputs().into_iter();
        outputs.map(|output| String::from_utf8(output.value.unwrap().to_vec()).unwrap()).collect()
    }

    fn task(topology: &Topology) -> Task {
        let id = TaskId { subtopology: 0, partition: 0 };
        let surroundings = Surroundings::default();
        let engines = Task::stores_of(topology, id, &surroundings)
            .into_iter()
            .map(|store| (store.name, Box::new(crate::store::MemoryStore::default()) as Box<dyn StateStore>));
        Task::new(topology, id, surroundings, engines.collect())
    }

    #[test]
    fn task_ids_are_written_and_read_as_kafka_streams_does() {
        let id = TaskId { subtopology: 3, partition: 17 };
        assert_eq!(id.to_string(), "3_17");
        assert_eq!("3_17".parse(), Ok(id));
        assert!(
            "3-17".parse::<TaskId>().is_err() && "-1_2".parse::<TaskId>().is_err() && "1_".parse::<TaskId>().is_err()
        );
    }

    #[test]
    fn the_earliest_head_of_all_queues_goes_first() {
        let builder = TopologyBuilder::new();
        let (a, b) = (builder.stream::<String, String>("a"), builder.stream::<String, String>("b"));
        a.merge(b).to("out");
        let mut task = task(&builder.build().unwrap());
        task.add(&TopicPartition::new("a", 0), [record(0, 10, "a10"), record(1, 40, "a40"), record(2, 20, "a20")], 3);
        task.add(&TopicPartition::new("b", 0), [record(0, 10, "b10"), record(1, 30, "b30")], 2);
        task.add(&TopicPartition::new("other", 0), [record(0, 0, "not ours")], 1);
        assert_eq!(task.process(100).unwrap(), 5);
        // Within a partition the order of offsets stays, whatever the times.
        assert_eq!(values(&mut task), ["a10", "b10", "b30", "a40", "a20"]);
        assert_eq!(task.stream_time(), Timestamp(40));
    }

    #[test]
    fn the_times_of_records_are_told_once() {
        let builder = TopologyBuilder::new();
        builder.stream::<String, String>("a").to("out");
        let mut task = task(&builder.build().unwrap());
        let times = [record(0, 10, "x"), record(1, 40, "x"), record(2, 25, "x"), record(3, -1, "x")];
        task.add(&TopicPartition::new("a", 0), times, 4);
        task.process(100).unwrap();
        let (earliest, latest) = (Timestamp(10), Timestamp(40));
        let expected =
            RecordTimes { records: 3, earliest, latest, sum_ms: 75, lateness_sum_ms: 15, lateness_max_ms: 15 };
        assert_eq!(task.take_times(), expected);
        assert_eq!(task.take_times(), RecordTimes::default());
    }

    #[test]
    fn a_position_is_the_waiting_record_or_what_was_read_past_it() {
        let builder = TopologyBuilder::new();
        builder.stream::<String, String>("a").to("out");
        let mut task = task(&builder.build().unwrap());
        let a = TopicPartition::new("a", 0);
        // Offset 1 is missing (compacted or aborted), 3 is a marker.
        task.add(&a, [record(0, 0, "x"), record(2, 0, "y")], 4);
        task.process(1).unwrap();
        assert_eq!(task.positions().collect::<Vec<_>>(), [(&a, 2)]);
        task.process(1).unwrap();
        assert_eq!(task.positions().collect::<Vec<_>>(), [(&a, 4)]);
        task.committed(Timestamp(0), Guarantee::ExactlyOnce, |_| None).unwrap();
        assert!(!task.has_uncommitted());
        // Only markers came: the position moves without a record.
        task.add(&a, [], 6);
        assert_eq!(task.positions().collect::<Vec<_>>(), [(&a, 6)]);
    }

    #[test]
    fn a_commit_without_moved_positions_still_stands_before_the_waiting_record() {
        let builder = TopologyBuilder::new();
        builder.stream::<String, String>("a").to("out");
        let mut task = task(&builder.build().unwrap());
        let a = TopicPartition::new("a", 0);
        assert_eq!(task.position(&a), None);
        task.add(&a, [record(0, 0, "x"), record(1, 0, "y")], 2);
        task.process(1).unwrap();
        task.committed(Timestamp(0), Guarantee::ExactlyOnce, |_| None).unwrap();
        // Nothing has moved since, and what waits is not passed over.
        assert_eq!(task.positions().count(), 0);
        assert_eq!(task.position(&a), Some(1));
        assert_eq!(task.positions_behind_all().collect::<Vec<_>>(), [(&a, 2)], "but where that is asked for");
    }

    struct Remembers {
        field: u32,
        kept: StoreHandle<KeyValueStore<String, u32>>,
    }

    impl Processor for Remembers {
        type Input = (String, String);
        type Output = (String, u32);

        fn process(
            &mut self,
            record: Record<String, String>,
            stores: &mut Stores<'_>,
            output: &mut Forward<'_, (String, u32)>,
        ) -> Result<(), ProcessorError> {
            if record.value == "fail" {
                return Err(ProcessorError::new("told to"));
            }
            self.field += 1;
            let mut kept = stores.get(&self.kept);
            let count = kept.get(&record.key)?.unwrap_or(0) + 1;
            kept.put(&record.key, &count)?;
            output.forward(record.with_value(self.field * 100 + count));
            Ok(())
        }
    }

    fn remembering() -> Topology {
        let builder = TopologyBuilder::new();
        let kept = builder.add_store::<String, u32>(store("kept"));
        let handle = kept.clone();
        builder
            .stream::<String, String>("a")
            .process(move || Remembers { field: 0, kept: handle.clone() }, [kept])
            .map_values(|value| value.to_string())
            .to("out");
        builder.build().unwrap()
    }

    #[test]
    fn what_did_not_commit_is_gone_from_stores_and_from_fields() {
        let mut task = task(&remembering());
        let a = TopicPartition::new("a", 0);
        task.add(&a, [record(0, 0, "x"), record(1, 0, "y")], 2);
        task.process(1).unwrap();
        assert_eq!(values(&mut task), ["101"]);
        task.committed(Timestamp(0), Guarantee::ExactlyOnce, |_| None).unwrap();
        task.process(1).unwrap();
        assert_eq!(values(&mut task), ["202"]);
        task.roll_back();
        assert_eq!((task.buffered(), task.has_uncommitted()), (0, false));
        task.add(&a, [record(1, 0, "y")], 2);
        task.process(1).unwrap();
        assert_eq!(values(&mut task), ["102"], "the field begins anew, the store as committed");
    }

    #[test]
    fn a_failing_processor_is_named_with_its_record() {
        let mut task = task(&remembering());
        task.add(&TopicPartition::new("a", 0), [record(7, 0, "fail")], 8);
        let error = task.process(1).unwrap_err();
        assert_eq!(error.to_string(), "task 0_0, a-0 offset 7, at KSTREAM-PROCESSOR-0000000001: told to");
    }

    #[test]
    fn a_key_changed_often_is_logged_once_with_its_last_value() {
        let builder = TopologyBuilder::new();
        builder.stream::<String, String>("a").group_by_key().count(store("counts")).to_stream().to("out");
        let mut task = task(&builder.build().unwrap());
        task.add(&TopicPartition::new("a", 0), (0..1000).map(|offset| record(offset, offset, "x")), 1000);
        task.process(1000).unwrap();
        assert_eq!(task.take_outputs().len(), 1000);
        let logged = task.changelog_records();
        assert_eq!(logged.len(), 1);
        assert_eq!(logged[0].topic_partition, TopicPartition::new("counts-changelog", 0));
        assert_eq!(logged[0].value.as_deref(), Some(&1000_i64.to_be_bytes()[..]));
        assert_eq!(
            logged[0].timestamp,
            Timestamp(999),
            "the change log keeps the plain value, and its time as the record's"
        );
    }
}
