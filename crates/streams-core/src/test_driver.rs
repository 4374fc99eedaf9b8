//! A topology in one thread, in memory, with transactions, markers, commits that fail, and crashes between any two steps.
//!
//! The driver is a small cluster and one worker: topics with partitions, read committed up to the last stable offset; offsets;
//! transactions whose markers take offsets too. It runs the same [`Task`], [`CommitMachine`] and [`restore`](crate::restore) as an
//! application does, and only what does I/O there is replaced.
//!
//! ```
//! use atonce_streams_core::*;
//!
//! let builder = TopologyBuilder::new();
//! builder
//!     .stream::<(), String>("lines")
//!     .flat_map_values(|line| line.split_whitespace().map(String::from).collect::<Vec<_>>())
//!     .group_by(|_, word| word.clone())
//!     .count(store("counts"))
//!     .to_stream()
//!     .to("word-counts");
//!
//! let mut driver = TestDriver::new(&builder.build()?);
//! driver.input("lines").send((), "a b a");
//! let counts = driver.output::<String, i64>("word-counts");
//! counts.assert_committed::<&str>([]);
//! driver.commit();
//! counts.assert_committed([("a", 1), ("b", 1), ("a", 2)]);
//! driver.input("lines").send((), "b");
//! driver.crash();                                   // what was not committed is gone; the input comes again
//! driver.commit();
//! counts.assert_committed([("a", 1), ("b", 1), ("a", 2), ("b", 2)]);
//! # Ok::<(), TopologyError>(())
//! ```

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::marker::PhantomData;
use std::rc::Rc;

use atonce_kernel::{Offset, Outcome, Timestamp, TopicName, TopicPartition, Uuid};
use bytes::Bytes;

use crate::commit::{CommitMachine, Event, Guarantee, Settlement, Step};
use crate::failure::FailureHandler;
use crate::partitioner::partition_for_key;
use crate::record::{ChangelogRecord, Header, OutputRecord, Record, SourceRecord};
use crate::restore::{ChangelogFacts, RestoreChoice, choose};
use crate::store::{MemoryEngine, StoreEngine, StorePosition};
use crate::task::{ChangelogEnd, Task, TaskCounts, TaskError, TaskId};
use crate::topology::{Layout, Surroundings, Topology};
use crate::wire::Wire;

/// Records that a task processes before it looks whether anything else is to do.
const SLICE: usize = 1000;

/// Kafka's default for how long tombstones are kept.
const DELETE_RETENTION_MS: i64 = 24 * 60 * 60 * 1000;

/// Runs a topology; see the module.
pub struct TestDriver {
    topology: Topology,
    /// What patterns may match.
    topics: BTreeSet<TopicName>,
    partitions: i32,
    layout: Layout,
    surroundings: Surroundings,
    world: Rc<RefCell<World>>,
    engine: Box<dyn StoreEngine>,
    commit: CommitMachine,
    tasks: BTreeMap<TaskId, Task>,
    /// The consumer's position in each partition.
    fetched: BTreeMap<TopicPartition, Offset>,
    transaction: Option<usize>,
    /// Output that waits for its offsets, under at most once.
    held: Vec<OutputRecord>,
    lost_answer: Option<LostAnswer>,
    restored: u64,
}

/// Options of a [`TestDriver`].
pub struct TestDriverBuilder {
    topology: Topology,
    partitions: i32,
    guarantee: Guarantee,
    engine: Box<dyn StoreEngine>,
    on_failure: FailureHandler,
    max_message_bytes: BTreeMap<TopicName, usize>,
    topics: BTreeSet<TopicName>,
}

/// What happened to a commit whose answer is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LostAnswer {
    /// The request was served.
    Served,
    /// The request itself was lost.
    NotServed,
}

/// A crash that was asked for: the driver's own signal, which unwinds to [`TestDriver::crash`].
struct Crashed;

#[derive(Default)]
struct World {
    /// The clock, which begins at 0.
    now_ms: i64,
    topics: BTreeMap<TopicName, Vec<Partition>>,
    committed: BTreeMap<TopicPartition, Committed>,
    transactions: Vec<Transaction>,
    /// Things that changed the world so far, and at which of them to crash.
    steps: u64,
    crash_at: Option<u64>,
}

/// A position, and the time that is kept beside it.
#[derive(Clone, Copy)]
struct Committed {
    offset: Offset,
    time: Timestamp,
}

#[derive(Default)]
struct Partition {
    entries: Vec<Entry>,
}

enum Entry {
    Record { record: SourceRecord, transaction: Option<usize> },
    Marker,
}

#[derive(Default)]
struct Transaction {
    outcome: Option<Outcome>,
    partitions: BTreeSet<TopicPartition>,
    offsets: BTreeMap<TopicPartition, Committed>,
}

impl World {
    /// Counts a step; `Err` where a crash was asked for, before the step is done.
    fn step(&mut self) -> Result<(), Crashed> {
        if self.crash_at == Some(self.steps) {
            self.crash_at = None;
            return Err(Crashed);
        }
        self.steps += 1;
        Ok(())
    }

    fn partition(&mut self, topic_partition: &TopicPartition) -> &mut Partition {
        let partitions = self.topics.entry(topic_partition.topic.clone()).or_default();
        let index = usize::try_from(topic_partition.partition).expect("partitions count from 0");
        while partitions.len() <= index {
            partitions.push(Partition::default());
        }
        partitions.get_mut(index).expect("made above")
    }

    fn append(
        &mut self,
        topic_partition: &TopicPartition,
        mut record: SourceRecord,
        transaction: Option<usize>,
    ) -> Offset {
        if let Some(open) = transaction.and_then(|index| self.transactions.get_mut(index)) {
            assert!(open.outcome.is_none(), "a producer wrote to a transaction that has ended");
            open.partitions.insert(topic_partition.clone());
        }
        let partition = self.partition(topic_partition);
        let offset = offset(partition.entries.len());
        record.offset = offset;
        partition.entries.push(Entry::Record { record, transaction });
        offset
    }

    fn end(&mut self, transaction: usize, outcome: Outcome) {
        let Some(open) = self.transactions.get_mut(transaction) else { return };
        if open.outcome.is_some() {
            return;
        }
        open.outcome = Some(outcome);
        let (partitions, offsets) = (open.partitions.clone(), std::mem::take(&mut open.offsets));
        for topic_partition in &partitions {
            self.partition(topic_partition).entries.push(Entry::Marker);
        }
        if outcome == Outcome::Commit {
            self.committed.extend(offsets);
        }
    }

    /// Committed records from `from` to the last stable offset, and the position after them.
    fn read_committed(&self, topic_partition: &TopicPartition, from: Offset) -> (Vec<SourceRecord>, Offset) {
        let mut records = Vec::new();
        let mut position = from;
        for entry in self.entries(topic_partition).iter().skip(usize::try_from(from).unwrap_or(0)) {
            match entry {
                Entry::Marker | Entry::Record { transaction: None, .. } => {}
                Entry::Record { transaction: Some(index), .. } => {
                    match self.transactions.get(*index).and_then(|transaction| transaction.outcome) {
                        None => break,
                        Some(Outcome::Abort) => {
                            position += 1;
                            continue;
                        }
                        Some(Outcome::Commit) => {}
                    }
                }
            }
            if let Entry::Record { record, .. } = entry {
                records.push(record.clone());
            }
            position += 1;
        }
        (records, position)
    }

    fn entries(&self, topic_partition: &TopicPartition) -> &[Entry] {
        let partitions = self.topics.get(&topic_partition.topic);
        let index = usize::try_from(topic_partition.partition).unwrap_or(usize::MAX);
        partitions
            .and_then(|partitions| partitions.get(index))
            .map(|partition| partition.entries.as_slice())
            .unwrap_or_default()
    }

    fn partitions(&self, topic: &TopicName) -> usize {
        self.topics.get(topic).map_or(0, Vec::len)
    }
}

fn offset(length: usize) -> Offset {
    Offset::try_from(length).expect("a test's log is short")
}

/// A topic's id in this world: made of its name.
fn topic_id(topic: &TopicName) -> Uuid {
    let mut id = [1; 16];
    for (place, byte) in id.iter_mut().zip(topic.as_str().bytes().rev()) {
        *place = byte;
    }
    Uuid(id)
}

impl TestDriverBuilder {
    /// How many partitions each topic has.
    #[must_use]
    pub fn partitions(self, partitions: i32) -> Self {
        Self { partitions, ..self }
    }

    /// Under which guarantee to run.
    #[must_use]
    pub fn guarantee(self, guarantee: Guarantee) -> Self {
        Self { guarantee, ..self }
    }

    /// Where stores are kept.
    #[must_use]
    pub fn engine(self, engine: impl StoreEngine + 'static) -> Self {
        Self { engine: Box::new(engine), ..self }
    }

    /// What becomes of records that fail.
    #[must_use]
    pub fn on_failure(self, on_failure: FailureHandler) -> Self {
        Self { on_failure, ..self }
    }

    /// The largest batch that a topic takes.
    #[must_use]
    pub fn max_message_bytes(mut self, topic: &str, bytes: usize) -> Self {
        self.max_message_bytes.insert(TopicName::from(topic), bytes);
        self
    }

    /// Topics that are there from the start, besides those that the topology names: for sources that read by a pattern.
    #[must_use]
    pub fn topics(self, topics: impl IntoIterator<Item = impl Into<TopicName>>) -> Self {
        Self { topics: topics.into_iter().map(Into::into).collect(), ..self }
    }

    /// Starts it.
    ///
    /// Panics: if two sources match one of the topics.
    #[must_use]
    pub fn start(self) -> TestDriver {
        let surroundings = Surroundings {
            application_id: Some("test".to_owned()),
            on_failure: self.on_failure,
            max_message_bytes: self.max_message_bytes,
            ..Surroundings::default()
        };
        let mut driver = TestDriver {
            topology: self.topology,
            topics: self.topics,
            partitions: self.partitions,
            layout: Layout { internal_topics: Vec::new(), sources: Vec::new(), tasks: Vec::new() },
            surroundings,
            world: Rc::default(),
            engine: self.engine,
            commit: CommitMachine::new(self.guarantee),
            tasks: BTreeMap::new(),
            fetched: BTreeMap::new(),
            transaction: None,
            held: Vec::new(),
            lost_answer: None,
            restored: 0,
        };
        driver.lay_out();
        driver.start_tasks();
        driver
    }
}

impl TestDriver {
    /// Runs `topology` exactly once, with one partition for each topic.
    #[must_use]
    pub fn new(topology: &Topology) -> Self {
        Self::builder(topology).start()
    }

    /// Runs `topology` otherwise.
    #[must_use]
    pub fn builder(topology: &Topology) -> TestDriverBuilder {
        TestDriverBuilder {
            topology: topology.clone(),
            partitions: 1,
            guarantee: Guarantee::ExactlyOnce,
            engine: Box::new(MemoryEngine::default()),
            on_failure: FailureHandler::default(),
            max_message_bytes: BTreeMap::new(),
            topics: BTreeSet::new(),
        }
    }

    /// Makes a topic that a source reads by its pattern, as an application finds it while it runs: what is open is committed, and the tasks
    /// are taken over anew.
    ///
    /// Panics: if a processor fails, or two sources match the topic.
    pub fn create_topic(&mut self, topic: impl Into<TopicName>) {
        self.commit();
        self.topics.insert(topic.into());
        self.lay_out();
        // Nothing is open, so this is no more than giving the tasks up and taking them again.
        self.crash_now();
        self.run_or_panic();
    }

    /// Finds what the sources read, and makes the topics that are not there.
    fn lay_out(&mut self) {
        let found = self.topology.with_topics(Some("test"), &self.topics);
        self.topology = found.unwrap_or_else(|error| panic!("{error}"));
        let layout = self.topology.layout(Some("test"), |_| Some(self.partitions));
        self.layout = layout.expect("every topic has partitions here");
        let (sources, sinks) = (self.topology.source_topics(), self.topology.sink_topics());
        let internal = self.layout.internal_topics.iter().map(|topic| (&topic.name, topic.partitions));
        let mut world = self.world.borrow_mut();
        for (topic, partitions) in sources.iter().chain(&sinks).map(|topic| (topic, self.partitions)).chain(internal) {
            self.surroundings.partitions.insert(topic.clone(), partitions);
            world.partition(&TopicPartition::new(topic.clone(), partitions - 1));
        }
    }

    /// A topic to send to. What is sent is committed at once, as by a producer of its own, and processed at once.
    pub fn input(&mut self, topic: &str) -> Input<'_> {
        Input { driver: self, topic: TopicName::from(topic) }
    }

    /// A topic to read from. It can be held while the driver runs on.
    #[must_use]
    pub fn output<K: Wire, V: Wire>(&self, topic: &str) -> Output<K, V> {
        Output { world: Rc::clone(&self.world), topic: TopicName::from(topic), types: PhantomData }
    }

    /// Commits until nothing is left to commit: what goes through a repartition topic is read there only once it is committed.
    ///
    /// Panics: if a processor fails; [`TestDriver::try_commit`] returns the error.
    pub fn commit(&mut self) {
        if let Err(error) = self.try_commit() {
            panic!("{error}");
        }
    }

    /// As [`TestDriver::commit`].
    ///
    /// Errors: a processor failed; everything since the last commit is undone.
    pub fn try_commit(&mut self) -> Result<(), TaskError> {
        loop {
            self.run()?;
            if !self.tasks.values().any(Task::has_uncommitted) {
                return Ok(());
            }
            if self.flush_caches()?.is_err() || self.drive(Event::CommitWanted).is_err() {
                self.crash_now();
            }
        }
    }

    /// What cached stores have kept back goes on, as part of the interval.
    fn flush_caches(&mut self) -> Result<Result<(), Crashed>, TaskError> {
        let ids: Vec<TaskId> = self.tasks.keys().copied().collect();
        for id in ids {
            let Some(task) = self.tasks.get_mut(&id) else { continue };
            let flushed = task.flush_caches();
            let outputs = task.take_outputs();
            self.undone_if_failed(flushed)?;
            if let Err(crashed) = self.hand_out(outputs) {
                return Ok(Err(crashed));
            }
        }
        Ok(Ok(()))
    }

    /// A processor's failure undoes the interval.
    fn undone_if_failed<T>(&mut self, result: Result<T, TaskError>) -> Result<T, TaskError> {
        if result.is_err() && self.drive(Event::AbortWanted).is_err() {
            self.crash_now();
        }
        result
    }

    /// Gives up what was not committed, and goes on: the input comes again.
    pub fn abort(&mut self) {
        if self.drive(Event::AbortWanted).is_err() {
            self.crash_now();
        }
        self.run_or_panic();
    }

    /// Dies on the spot and starts anew, with what the disk and the cluster have.
    pub fn crash(&mut self) {
        self.crash_now();
        self.run_or_panic();
    }

    /// Crashes, and the disk is lost too: every store comes back from its change log alone.
    pub fn crash_and_lose_the_disk(&mut self, empty: impl StoreEngine + 'static) {
        self.engine = Box::new(empty);
        self.tasks.clear();
        self.crash();
    }

    /// The next commit is done, but its answer never comes.
    pub fn lose_the_answer_of_commit(&mut self) {
        self.lost_answer = Some(LostAnswer::Served);
    }

    /// The next commit's request never arrives.
    pub fn lose_the_request_of_commit(&mut self) {
        self.lost_answer = Some(LostAnswer::NotServed);
    }

    /// Crashes once, `steps` steps from now: a step is a write to the cluster or to a store.
    pub fn crash_after(&mut self, steps: u64) {
        let mut world = self.world.borrow_mut();
        world.crash_at = Some(world.steps + steps);
    }

    /// Whether a crash that was asked for is still to come.
    #[must_use]
    pub fn is_crash_pending(&self) -> bool {
        self.world.borrow().crash_at.is_some()
    }

    /// Moves the clock, and calls the processors whose schedules by the wall clock are due then.
    ///
    /// Panics: if a processor fails.
    pub fn advance_ms(&mut self, ms: i64) {
        self.world.borrow_mut().now_ms += ms;
        if let Err(error) = self.punctuate() {
            panic!("{error}");
        }
    }

    fn punctuate(&mut self) -> Result<(), TaskError> {
        let now = Timestamp(self.world.borrow().now_ms);
        let ids: Vec<TaskId> = self.tasks.keys().copied().collect();
        for id in ids {
            let Some(task) = self.tasks.get_mut(&id) else { continue };
            let punctuated = task.punctuate_by_wall_clock(now);
            let outputs = task.take_outputs();
            self.undone_if_failed(punctuated)?;
            if self.hand_out(outputs).is_err() {
                self.crash_now();
            }
        }
        self.run()
    }

    /// Counts over all tasks, since they were started.
    #[must_use]
    pub fn counts(&self) -> TaskCounts {
        self.tasks.values().map(Task::counts).fold(TaskCounts::default(), |sum, counts| TaskCounts {
            processed: sum.processed + counts.processed,
            dropped: sum.dropped + counts.dropped,
            skipped: sum.skipped + counts.skipped,
            dead_letters: sum.dead_letters + counts.dead_letters,
            punctuations: sum.punctuations + counts.punctuations,
        })
    }

    /// Change-log records replayed into stores so far.
    #[must_use]
    pub fn restored_records(&self) -> u64 {
        self.restored
    }

    fn run_or_panic(&mut self) {
        if let Err(error) = self.run() {
            panic!("{error}");
        }
    }

    /// Reads and processes until there is nothing to read.
    fn run(&mut self) -> Result<(), TaskError> {
        loop {
            let mut is_idle = true;
            for task in self.tasks.values_mut() {
                let partitions: Vec<TopicPartition> = task.partitions().cloned().collect();
                for topic_partition in partitions {
                    let from = *self.fetched.entry(topic_partition.clone()).or_insert(0);
                    let (records, position) = self.world.borrow().read_committed(&topic_partition, from);
                    if position > from {
                        is_idle = false;
                        task.add(&topic_partition, records, position);
                        self.fetched.insert(topic_partition, position);
                    }
                }
            }
            let ids: Vec<TaskId> = self.tasks.keys().copied().collect();
            for id in ids {
                while let Some(task) = self.tasks.get_mut(&id)
                    && task.buffered() > 0
                {
                    is_idle = false;
                    let processed = task.process(SLICE);
                    let outputs = task.take_outputs();
                    self.undone_if_failed(processed)?;
                    if self.hand_out(outputs).is_err() {
                        self.crash_now();
                        is_idle = false;
                        break;
                    }
                }
            }
            if is_idle {
                return Ok(());
            }
        }
    }

    /// Output goes to the cluster as it comes, except where it has to wait for the offsets.
    fn hand_out(&mut self, outputs: Vec<OutputRecord>) -> Result<(), Crashed> {
        match self.commit.guarantee() {
            Guarantee::AtMostOnce => self.held.extend(outputs),
            Guarantee::AtLeastOnce | Guarantee::ExactlyOnce => {
                for output in outputs {
                    self.write(output)?;
                }
            }
        }
        Ok(())
    }

    fn write(&mut self, output: OutputRecord) -> Result<Offset, Crashed> {
        let transaction = self.transaction();
        let mut world = self.world.borrow_mut();
        world.step()?;
        let partitions = i32::try_from(world.partitions(&output.topic)).expect("a few").max(1);
        let by_key = || output.key.as_ref().map_or(0, |key| partition_for_key(key, partitions));
        let topic_partition = TopicPartition::new(output.topic.clone(), output.partition.unwrap_or_else(by_key));
        let record = SourceRecord {
            offset: 0,
            timestamp: output.timestamp,
            key: output.key,
            value: output.value,
            headers: output.headers,
        };
        Ok(world.append(&topic_partition, record, transaction))
    }

    /// The open transaction, begun by the first write; none without exactly once.
    fn transaction(&mut self) -> Option<usize> {
        if self.commit.guarantee() != Guarantee::ExactlyOnce {
            return None;
        }
        let mut world = self.world.borrow_mut();
        Some(*self.transaction.get_or_insert_with(|| {
            world.transactions.push(Transaction::default());
            world.transactions.len() - 1
        }))
    }

    /// Runs the commit machine until it rests.
    fn drive(&mut self, event: Event) -> Result<(), Crashed> {
        let mut ends: BTreeMap<TopicPartition, ChangelogEnd> = BTreeMap::new();
        self.handle(event);
        while let Some(step) = self.commit.poll_step() {
            let event = match step {
                Step::Flush => {
                    self.flush(&mut ends)?;
                    Event::Done
                }
                Step::SendOffsets => {
                    self.send_offsets()?;
                    Event::Done
                }
                Step::End(outcome) => self.end(outcome)?,
                Step::AskOutcome => Event::Learned(self.ask_outcome()),
                Step::ApplyStores => {
                    self.apply_stores(&ends)?;
                    Event::Done
                }
                Step::RollBack { replay_changelogs } => {
                    self.roll_back(replay_changelogs);
                    Event::Done
                }
            };
            self.handle(event);
        }
        Ok(())
    }

    fn handle(&mut self, event: Event) {
        self.commit.handle(event).expect("the driver tells only what happened");
    }

    /// The change logs first, then the output that was held (under at most once): a crash between the two then loses output. The
    /// other way round it would lose the change, and the next record would repeat what is out already.
    fn flush(&mut self, ends: &mut BTreeMap<TopicPartition, ChangelogEnd>) -> Result<(), Crashed> {
        let changes: Vec<ChangelogRecord> = self.tasks.values().flat_map(Task::changelog_records).collect();
        for change in changes {
            let offset = self.write(OutputRecord {
                topic: change.topic_partition.topic.clone(),
                partition: Some(change.topic_partition.partition),
                timestamp: change.timestamp,
                key: Some(change.key),
                value: change.value,
                headers: Vec::new(),
            })?;
            let topic_id = topic_id(&change.topic_partition.topic);
            ends.insert(change.topic_partition, ChangelogEnd { topic_id, offset: offset + 1, leader_epoch: None });
        }
        for output in std::mem::take(&mut self.held) {
            self.write(output)?;
        }
        Ok(())
    }

    fn send_offsets(&mut self) -> Result<(), Crashed> {
        let transaction = self.transaction();
        let mut world = self.world.borrow_mut();
        world.step()?;
        let mut positions: Vec<(TopicPartition, Committed)> = Vec::new();
        for task in self.tasks.values() {
            positions.extend(task.positions().map(|(partition, offset)| {
                (partition.clone(), Committed { offset, time: task.partition_time(partition) })
            }));
        }
        match transaction.and_then(|index| world.transactions.get_mut(index)) {
            Some(open) => open.offsets.extend(positions),
            None => world.committed.extend(positions),
        }
        Ok(())
    }

    fn end(&mut self, outcome: Outcome) -> Result<Event, Crashed> {
        let Some(transaction) = self.transaction else { return Ok(Event::Done) };
        let lost = if outcome == Outcome::Commit { self.lost_answer.take() } else { None };
        let mut world = self.world.borrow_mut();
        if lost != Some(LostAnswer::NotServed) {
            world.step()?;
            world.end(transaction, outcome);
        }
        drop(world);
        if lost.is_some() {
            return Ok(Event::Unanswered);
        }
        self.transaction = None;
        Ok(Event::Done)
    }

    /// The same request again is answered from state: what was served stands, what was lost is done now.
    fn ask_outcome(&mut self) -> Settlement {
        let transaction = self.transaction.take().expect("in doubt about a transaction");
        self.world.borrow_mut().end(transaction, Outcome::Commit);
        Settlement::Committed
    }

    fn apply_stores(&mut self, ends: &BTreeMap<TopicPartition, ChangelogEnd>) -> Result<(), Crashed> {
        let guarantee = self.commit.guarantee();
        for task in self.tasks.values_mut() {
            let now = {
                let mut world = self.world.borrow_mut();
                world.step()?;
                Timestamp(world.now_ms)
            };
            if let Err(error) = task.committed(now, guarantee, |partition| ends.get(partition).copied()) {
                panic!("a store failed: {error}");
            }
        }
        Ok(())
    }

    fn roll_back(&mut self, replay_changelogs: bool) {
        self.held.clear();
        let ids: Vec<TaskId> = self.tasks.keys().copied().collect();
        for id in ids {
            if let Some(mut task) = self.tasks.remove(&id) {
                task.roll_back();
                if replay_changelogs {
                    self.restore(&mut task);
                }
                self.rewind(&task);
                self.tasks.insert(id, task);
            }
        }
    }

    fn rewind(&mut self, task: &Task) {
        let world = self.world.borrow();
        for partition in task.partitions() {
            let committed = world.committed.get(partition).map_or(0, |committed| committed.offset);
            self.fetched.insert(partition.clone(), committed);
        }
    }

    /// The process is gone: what it held in memory too. Its producer's transaction is aborted by the next one's initialisation.
    fn crash_now(&mut self) {
        self.commit = CommitMachine::new(self.commit.guarantee());
        self.held.clear();
        self.lost_answer = None;
        if let Some(transaction) = self.transaction.take() {
            self.world.borrow_mut().end(transaction, Outcome::Abort);
        }
        for (id, task) in std::mem::take(&mut self.tasks) {
            for (store, engine) in task.into_engines() {
                self.engine.keep(id, &store, engine);
            }
        }
        self.start_tasks();
    }

    fn start_tasks(&mut self) {
        for id in self.layout.task_ids() {
            let mut engines = BTreeMap::new();
            for needed in Task::stores_of(&self.topology, id, &self.surroundings) {
                match self.engine.open(id, &needed.name) {
                    Ok(engine) => engines.insert(needed.name, engine),
                    Err(error) => panic!("a store cannot be opened: {error}"),
                };
            }
            let mut task = Task::new(&self.topology, id, self.surroundings.clone(), engines);
            self.restore(&mut task);
            self.rewind(&task);
            let partitions: Vec<TopicPartition> = task.partitions().cloned().collect();
            for partition in partitions {
                if let Some(committed) = self.world.borrow().committed.get(&partition) {
                    task.set_partition_time(&partition, committed.time);
                }
            }
            self.tasks.insert(id, task);
        }
    }

    fn restore(&mut self, task: &mut Task) {
        for (store, changelog, position) in task.store_positions() {
            let world = self.world.borrow();
            let facts = ChangelogFacts {
                topic_id: topic_id(&changelog.topic),
                log_start_offset: 0,
                high_watermark: offset(world.entries(&changelog).len()),
                delete_retention_ms: DELETE_RETENTION_MS,
                now: Timestamp(world.now_ms),
                guarantee: self.commit.guarantee(),
            };
            let from = match choose(position, &facts) {
                RestoreChoice::UpToDate => continue,
                RestoreChoice::Replay { from, .. } => from,
                RestoreChoice::Rebuild { from, .. } => {
                    match self.engine.reset(task.id(), &store) {
                        Ok(engine) => task.replace_engine(&store, engine),
                        Err(error) => panic!("a store cannot be set aside: {error}"),
                    }
                    from
                }
            };
            let (records, end) = world.read_committed(&changelog, from);
            assert!(end >= facts.high_watermark, "a crash settles its own transaction before it restores");
            self.restored += records.len() as u64;
            let records: Vec<ChangelogRecord> = records
                .into_iter()
                .map(|record| ChangelogRecord {
                    topic_partition: changelog.clone(),
                    key: record.key.unwrap_or_default(),
                    value: record.value,
                    timestamp: record.timestamp,
                })
                .collect();
            let position = StorePosition {
                topic_id: facts.topic_id,
                offset: end,
                leader_epoch: None,
                written_at: facts.now,
                guarantee: facts.guarantee,
            };
            if let Err(error) = task.restore(&store, &records, position) {
                panic!("a store failed: {error}");
            }
        }
    }
}

/// A topic to send to; see [`TestDriver::input`].
pub struct Input<'a> {
    driver: &'a mut TestDriver,
    topic: TopicName,
}

/// What a test may write where a key or value of a [`Wire`] type is wanted.
pub trait IntoWire {
    /// The bytes, or null.
    fn into_bytes(self) -> Option<Bytes>;
}

impl<T: Wire> IntoWire for T {
    fn into_bytes(self) -> Option<Bytes> {
        self.encode()
    }
}

impl IntoWire for &str {
    fn into_bytes(self) -> Option<Bytes> {
        Some(Bytes::copy_from_slice(self.as_bytes()))
    }
}

impl Input<'_> {
    /// Sends a record with the clock's time, to the partition that its key says (without a key, the first).
    ///
    /// Panics: if a processor fails; see [`Input::try_send`].
    pub fn send(&mut self, key: impl IntoWire, value: impl IntoWire) -> &mut Self {
        if let Err(error) = self.try_send(key, value) {
            panic!("{error}");
        }
        self
    }

    /// As [`Input::send`].
    ///
    /// Errors: a processor failed on this or another record; everything since the last commit is undone.
    pub fn try_send(&mut self, key: impl IntoWire, value: impl IntoWire) -> Result<(), TaskError> {
        let key = key.into_bytes();
        let world = self.driver.world.borrow();
        let partitions = i32::try_from(world.partitions(&self.topic)).expect("a few").max(1);
        drop(world);
        let partition = key.as_ref().map_or(0, |key| partition_for_key(key, partitions));
        self.append(partition, key, value.into_bytes(), None, Vec::new());
        self.driver.run()
    }

    /// Sends a record with a time and headers of its own to a partition.
    ///
    /// Panics: if a processor fails.
    pub fn send_to(
        &mut self,
        partition: i32,
        key: impl IntoWire,
        value: impl IntoWire,
        timestamp: Timestamp,
        headers: Vec<Header>,
    ) -> &mut Self {
        self.append(partition, key.into_bytes(), value.into_bytes(), Some(timestamp), headers);
        self.driver.run_or_panic();
        self
    }

    fn append(
        &mut self,
        partition: i32,
        key: Option<Bytes>,
        value: Option<Bytes>,
        timestamp: Option<Timestamp>,
        headers: Vec<Header>,
    ) {
        let mut world = self.driver.world.borrow_mut();
        let timestamp = timestamp.unwrap_or(Timestamp(world.now_ms));
        let record = SourceRecord { offset: 0, timestamp, key, value, headers };
        world.append(&TopicPartition::new(self.topic.clone(), partition), record, None);
    }
}

/// A topic to read from; see [`TestDriver::output`].
pub struct Output<K, V> {
    world: Rc<RefCell<World>>,
    topic: TopicName,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: Wire, V: Wire> Output<K, V> {
    /// Everything that a reader of committed records sees, partition by partition.
    ///
    /// Panics: if bytes are not of the output's types.
    #[must_use]
    pub fn committed(&self) -> Vec<(K, V)> {
        self.committed_records().into_iter().map(|record| (record.key, record.value)).collect()
    }

    /// As [`committed`](Self::committed), with times and headers.
    #[must_use]
    pub fn committed_records(&self) -> Vec<Record<K, V>> {
        let world = self.world.borrow();
        let partitions = 0..i32::try_from(world.partitions(&self.topic)).expect("a few");
        let records = partitions
            .flat_map(|partition| world.read_committed(&TopicPartition::new(self.topic.clone(), partition), 0).0);
        records.map(|record| self.decode(record)).collect()
    }

    /// Everything that was written, whatever became of it, partition by partition.
    ///
    /// Panics: if bytes are not of the output's types.
    #[must_use]
    pub fn uncommitted(&self) -> Vec<(K, V)> {
        let world = self.world.borrow();
        let entries = world.topics.get(&self.topic).into_iter().flatten().flat_map(|partition| &partition.entries);
        let records = entries.filter_map(|entry| match entry {
            Entry::Record { record, .. } => Some(record.clone()),
            Entry::Marker => None,
        });
        records.map(|record| self.decode(record)).map(|record| (record.key, record.value)).collect()
    }

    /// Compares what a reader of committed records sees with what should be there.
    ///
    /// Panics: if it is something else.
    #[track_caller]
    pub fn assert_committed<K2>(&self, expected: impl IntoIterator<Item = (K2, V)>)
    where
        K: PartialEq<K2> + Debug,
        V: PartialEq + Debug,
        K2: Debug,
    {
        let found = self.committed();
        let expected: Vec<(K2, V)> = expected.into_iter().collect();
        let is_equal = found.len() == expected.len()
            && found.iter().zip(&expected).all(|(found, expected)| found.0 == expected.0 && found.1 == expected.1);
        assert!(is_equal, "committed in {}:\n  {found:?}\nshould be:\n  {expected:?}", self.topic);
    }

    fn decode(&self, record: SourceRecord) -> Record<K, V> {
        let SourceRecord { offset, key, value, timestamp, headers } = record;
        match (K::decode_shared(key), V::decode_shared(value)) {
            (Ok(key), Ok(value)) => Record { key, value, timestamp, headers },
            (Err(error), _) | (_, Err(error)) => panic!("{} offset {offset}: {error}", self.topic),
        }
    }
}
