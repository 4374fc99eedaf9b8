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

use atonce_kernel::{Offset, Timestamp, TopicId, TopicPartition};

use crate::commit::Guarantee;
use crate::processor::{Context, NodeSlot, ProcessorError};
use crate::record::{ChangelogRecord, OutputRecord, SourceRecord};
use crate::store::{StateStore, StoreError, StorePosition, TaskStore};
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

/// A record that could not be processed.
#[derive(Debug, thiserror::Error)]
#[error("task {task}, {topic_partition} offset {offset}, at {node}: {cause}")]
pub struct TaskError {
    /// The task.
    pub task: TaskId,
    /// Where the record came from.
    pub topic_partition: TopicPartition,
    /// Its offset.
    pub offset: Offset,
    /// The node that failed.
    pub node: String,
    /// Why.
    #[source]
    pub cause: Box<dyn std::error::Error + Send + Sync>,
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
    stream_time: Timestamp,
    committed_stream_time: Timestamp,
    dropped: u64,
    processed: u64,
}

struct Queue {
    topic_partition: TopicPartition,
    source: usize,
    records: VecDeque<SourceRecord>,
    /// After the last record handed in, and the control records behind it.
    fetched_to: Option<Offset>,
    /// What the group has, as far as this task knows.
    committed: Option<Offset>,
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
            *place = Some(RefCell::new(TaskStore::new(&specification.name, changelog, engine)));
        }
        let mut queues = Vec::new();
        for index in &subtopology.nodes {
            let Some(NodeKind::Source { topic }) = graph.nodes.get(*index).map(|node| &node.kind) else { continue };
            let topic = if graph.repartition_topics.contains(topic) {
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
            });
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
            stream_time: Timestamp::NONE,
            committed_stream_time: Timestamp::NONE,
            dropped: 0,
            processed: 0,
        };
        task.build_processors();
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
        self.processed += processed as u64;
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
        let offset = record.offset;
        self.stream_time = self.stream_time.max(record.timestamp);
        let graph = &self.topology.graph;
        let mut context = Context {
            nodes: &mut self.nodes,
            children: &graph.children,
            stores: &self.stores,
            outputs: &mut self.outputs,
            dropped: &mut self.dropped,
            stream_time: self.stream_time,
            current: queue.source,
            failure: None,
        };
        context.deliver_to_source(queue.source, record);
        let Some(failure) = context.failure else { return Ok(()) };
        Err(TaskError {
            task: self.id,
            topic_partition: queue.topic_partition.clone(),
            offset,
            node: graph.nodes.get(failure.node).map(|node| node.name.clone()).unwrap_or_default(),
            cause: ProcessorError::into_inner(failure.cause),
        })
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

    /// Whether a commit would have anything to say.
    #[must_use]
    pub fn has_uncommitted(&self) -> bool {
        self.positions().next().is_some()
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
        }
        self.committed_stream_time = self.stream_time;
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
        }
        for store in self.stores.iter().flatten() {
            store.borrow_mut().roll_back();
        }
        self.outputs.clear();
        self.stream_time = self.committed_stream_time;
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

    /// Records processed since the task was made, those undone later included.
    #[must_use]
    pub fn processed(&self) -> u64 {
        self.processed
    }

    /// Records that could not go on because they had no key, or no value where one is needed.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
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
    use crate::{Forward, KeyValueStore, Processor, Record, StoreHandle, Stores, TopologyBuilder, store};
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
