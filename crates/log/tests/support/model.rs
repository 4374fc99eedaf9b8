//! What a storage must hold, told without one: a few vectors, and a workload that drives both.

use std::collections::{BTreeMap, VecDeque};

use atonce_kernel::chance::Chance;
use atonce_kernel::{Outcome, ProducerIdentity, TopicName, TopicPartition, Uuid};
use atonce_log::{CheckpointWork, CompactionProgress, CompactionWork, IsolationLevel, Origin, SpareWork, Storage};
use atonce_testkit::disk::FaultyDisk;

use super::{NOW, append_verified, batch, marker, plain, read_all, topic_id};

/// Everything that can be seen of a storage, or should be.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Snapshot {
    pub(crate) topics: Vec<(String, Uuid, i32, BTreeMap<String, String>)>,
    pub(crate) logs: BTreeMap<String, LogSnapshot>,
    pub(crate) next_producer_id: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct LogSnapshot {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) last_stable: i64,
    pub(crate) committed: Vec<(i64, String)>,
    pub(crate) uncommitted: Vec<(i64, String)>,
    pub(crate) producers: Vec<ProducerSnapshot>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProducerSnapshot {
    pub(crate) id: i64,
    pub(crate) epoch: i16,
    pub(crate) open_since: Option<i64>,
    /// Base sequence, last sequence, base offset of each batch of the window.
    pub(crate) window: Vec<(i32, i32, i64)>,
}

/// Looks at everything.
pub(crate) fn look(storage: &Storage<FaultyDisk>) -> Snapshot {
    let catalog = storage.catalog();
    let mut snapshot = Snapshot { next_producer_id: catalog.next_producer_id().0, ..Snapshot::default() };
    for topic in catalog.topics() {
        snapshot.topics.push((topic.name.to_string(), topic.id, topic.partitions, topic.configs.clone()));
        for index in 0..topic.partitions {
            let partition = TopicPartition::new(topic.name.clone(), index);
            let ends = storage.reader(&partition).unwrap().watermarks();
            let is_compacted = topic.configs.contains_key("cleanup.policy");
            let read = |isolation| {
                let found = read_all(storage, &partition, ends.log_start_offset, isolation);
                if is_compacted { last_of_each_key(found, isolation) } else { found }
            };
            let producers = storage.producers(&partition).into_iter().map(|(id, state)| ProducerSnapshot {
                id: id.0,
                epoch: state.epoch().0,
                open_since: state.transaction_first_offset(),
                window: state
                    .recent_batches()
                    .map(|batch| (batch.base_sequence().0, batch.last_sequence.0, batch.base_offset()))
                    .collect(),
            });
            let log = LogSnapshot {
                start: ends.log_start_offset,
                end: ends.high_watermark,
                last_stable: ends.last_stable_offset,
                committed: read(IsolationLevel::ReadCommitted),
                uncommitted: read(IsolationLevel::ReadUncommitted),
                producers: producers.collect(),
            };
            snapshot.logs.insert(partition.to_string(), log);
        }
    }
    snapshot
}

/// All that is promised of a compacted log. What is not committed may be there or not.
fn last_of_each_key(found: Vec<(i64, String)>, isolation: IsolationLevel) -> Vec<(i64, String)> {
    if isolation == IsolationLevel::ReadUncommitted {
        return Vec::new();
    }
    let mut last = BTreeMap::new();
    for (offset, text) in found {
        last.insert(text.split_once('=').unwrap().0.to_owned(), (offset, text));
    }
    let mut last: Vec<_> = last.into_values().filter(|(_, text)| !text.ends_with('=')).collect();
    last.sort();
    last
}

/// The same, as plain vectors.
#[derive(Clone, Default)]
pub(crate) struct Model {
    topics: BTreeMap<String, (Uuid, i32, BTreeMap<String, String>)>,
    logs: BTreeMap<(String, i32), ModelLog>,
    next_producer_id: i64,
    /// Partitions of each producer's open transaction.
    open: BTreeMap<i64, Vec<(String, i32)>>,
    /// Epoch of each transactional producer.
    epochs: BTreeMap<i64, i16>,
    values: u64,
}

#[derive(Clone, Default)]
struct ModelLog {
    is_compacted: bool,
    start: i64,
    end: i64,
    records: Vec<(i64, String, Fate)>,
    producers: BTreeMap<i64, ModelProducer>,
}

/// Epoch, first offset of the open transaction, window.
type ModelProducer = (i16, Option<i64>, VecDeque<(i32, i32, i64)>);

#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Committed,
    Aborted,
    Open(i64),
}

impl ModelLog {
    fn append(&mut self, producer: Option<(ProducerIdentity, i32)>, is_transactional: bool, values: &[String]) {
        let base = self.end;
        let fate = match producer {
            Some((identity, _)) if is_transactional => Fate::Open(identity.id.0),
            Some(_) | None => Fate::Committed,
        };
        for value in values {
            self.records.push((self.end, value.clone(), fate));
            self.end += 1;
        }
        if let Some((identity, sequence)) = producer {
            let (epoch, open, window) = self.producers.entry(identity.id.0).or_insert((-1, None, VecDeque::new()));
            if *epoch != identity.epoch.0 {
                *epoch = identity.epoch.0;
                window.clear();
            }
            window.push_back((sequence, sequence + values.len() as i32 - 1, base));
            if window.len() > 5 {
                window.pop_front();
            }
            if is_transactional && open.is_none() {
                *open = Some(base);
            }
        }
    }

    fn end_transaction(&mut self, identity: ProducerIdentity, outcome: Outcome) {
        let (epoch, open, window) = self.producers.entry(identity.id.0).or_insert((-1, None, VecDeque::new()));
        if *epoch != identity.epoch.0 {
            *epoch = identity.epoch.0;
            window.clear();
        }
        *open = None;
        for (_, _, fate) in &mut self.records {
            if *fate == Fate::Open(identity.id.0) {
                *fate = match outcome {
                    Outcome::Commit => Fate::Committed,
                    Outcome::Abort => Fate::Aborted,
                };
            }
        }
        self.end += 1;
    }

    fn next_sequence(&self, identity: ProducerIdentity) -> i32 {
        self.producers
            .get(&identity.id.0)
            .filter(|(epoch, _, _)| *epoch == identity.epoch.0)
            .and_then(|(_, _, window)| window.back())
            .map_or(0, |(_, last, _)| last + 1)
    }

    fn snapshot(&self) -> LogSnapshot {
        let first_open = self.producers.values().filter_map(|(_, open, _)| *open).min();
        let last_stable = first_open.map_or(self.end, |first| first.max(self.start));
        let visible = |isolation, wanted: &dyn Fn(i64, Fate) -> bool| {
            let found = self
                .records
                .iter()
                .filter(|(offset, _, fate)| *offset >= self.start && wanted(*offset, *fate))
                .map(|(offset, value, _)| (*offset, value.clone()))
                .collect();
            if self.is_compacted { last_of_each_key(found, isolation) } else { found }
        };
        LogSnapshot {
            start: self.start,
            end: self.end,
            last_stable,
            committed: visible(IsolationLevel::ReadCommitted, &|offset, fate| {
                offset < last_stable && fate == Fate::Committed
            }),
            uncommitted: visible(IsolationLevel::ReadUncommitted, &|_, _| true),
            producers: self
                .producers
                .iter()
                .map(|(id, (epoch, open, window))| ProducerSnapshot {
                    id: *id,
                    epoch: *epoch,
                    open_since: *open,
                    window: window.iter().copied().collect(),
                })
                .collect(),
        }
    }
}

impl Model {
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            topics: self
                .topics
                .iter()
                .map(|(name, (id, partitions, configs))| (name.clone(), *id, *partitions, configs.clone()))
                .collect(),
            logs: self.logs.iter().map(|((topic, index), log)| (format!("{topic}-{index}"), log.snapshot())).collect(),
            next_producer_id: self.next_producer_id,
        }
    }

    /// Values that nobody had; in the compacted topic with one of a few keys, and some tombstones.
    fn values(&mut self, topic: &str, count: u64, length: usize) -> Vec<String> {
        (0..count)
            .map(|_| {
                self.values += 1;
                match topic {
                    "k" if self.values.is_multiple_of(7) => format!("k{}=", self.values % 5),
                    "k" => format!("k{}={:0>length$}", self.values % 5, self.values),
                    _ => format!("{:0>length$}", self.values),
                }
            })
            .collect()
    }
}

/// One thing that is done to a storage.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    CreateTopic { name: &'static str, number: u8, partitions: i32, segment_bytes: Option<u64> },
    DeleteTopic { name: &'static str },
    AddPartitions { name: &'static str, partitions: i32 },
    AlterConfig { name: &'static str, value: Option<String> },
    ReserveIds(u32),
    Plain { to: (&'static str, i32), count: u64, length: usize },
    Idempotent { to: (&'static str, i32), id: i64, count: u64 },
    Transactional { to: Vec<(&'static str, i32)>, id: i64, count: u64 },
    End { id: i64, outcome: Outcome },
    DeleteRecords { from: (&'static str, i32), back: i64 },
    Commit,
    Checkpoint,
    BeginCheckpoint,
    RunCheckpoint,
    BeginCompaction,
    CompactSome,
    FinishCompaction,
}

/// Why a run ended early: the storage said so.
pub(crate) struct Stopped;

/// A storage and its model, driven together.
pub(crate) struct Run {
    pub(crate) storage: Storage<FaultyDisk>,
    pub(crate) model: Model,
    /// What must be there after so many units; the first is before all of them.
    pub(crate) history: Vec<Snapshot>,
    /// Units that were acknowledged.
    pub(crate) acknowledged: usize,
    checkpoint: Option<CheckpointWork<FaultyDisk>>,
    spare: Option<SpareWork<FaultyDisk>>,
    compaction: Option<CompactionWork<FaultyDisk>>,
    /// Compactions that took effect.
    pub(crate) compactions: usize,
    /// A clock.
    commits: i64,
}

impl Run {
    pub(crate) fn new(storage: Storage<FaultyDisk>, model: Model) -> Self {
        let history = vec![model.snapshot()];
        Self {
            storage,
            model,
            history,
            acknowledged: 0,
            checkpoint: None,
            spare: None,
            compaction: None,
            compactions: 0,
            commits: 0,
        }
    }

    pub(crate) fn all(&mut self, steps: &[Step]) -> Result<(), Stopped> {
        steps.iter().try_for_each(|step| self.step(step))
    }

    fn step(&mut self, step: &Step) -> Result<(), Stopped> {
        match step {
            Step::Commit => {
                self.storage.commit().map_err(|_| Stopped)?;
                self.acknowledged = self.history.len() - 1;
                self.commits += 1;
                self.storage.remove_old_files(NOW.plus_ms(self.commits));
                return Ok(());
            }
            Step::Checkpoint => {
                // It commits as well, but only its success says so.
                self.storage.checkpoint().map_err(|_| Stopped)?;
                self.acknowledged = self.history.len() - 1;
                return Ok(());
            }
            Step::BeginCheckpoint => {
                if self.spare.is_none() {
                    self.spare = self.storage.begin_spare();
                }
                if self.checkpoint.is_none() {
                    self.checkpoint = self.storage.begin_checkpoint().map_err(|_| Stopped)?;
                    self.acknowledged = self.history.len() - 1;
                }
                return Ok(());
            }
            Step::RunCheckpoint => {
                if let Some(work) = self.spare.take() {
                    self.storage.finish_spare(work.run());
                }
                if let Some(work) = self.checkpoint.take() {
                    self.storage.finish_checkpoint(work.run()).map_err(|_| Stopped)?;
                }
                return Ok(());
            }
            Step::BeginCompaction => {
                if let Some(choice) = self.storage.choose_compaction(NOW)
                    && self.compaction.is_none()
                {
                    self.compaction = self.storage.begin_compaction(&choice, NOW);
                }
                return Ok(());
            }
            Step::CompactSome => {
                if let Some(work) = &mut self.compaction {
                    let _ = work.step();
                }
                return Ok(());
            }
            Step::FinishCompaction => {
                if let Some(mut work) = self.compaction.take() {
                    while work.step() == CompactionProgress::More {}
                    self.compactions += usize::from(self.storage.finish_compaction(work.finish()).is_ok());
                }
                return Ok(());
            }
            Step::CreateTopic { name, number, partitions, segment_bytes } => {
                let mut configs: BTreeMap<String, String> =
                    segment_bytes.iter().map(|bytes| ("segment.bytes".to_owned(), bytes.to_string())).collect();
                let is_compacted = *name == "k";
                if is_compacted {
                    let compact = [
                        ("cleanup.policy", "compact"),
                        ("min.cleanable.dirty.ratio", "0"),
                        ("delete.retention.ms", "0"),
                    ];
                    configs.extend(compact.map(|(key, value)| (key.to_owned(), value.to_owned())));
                }
                let id = topic_id(*number);
                self.storage
                    .create_topic(&TopicName::from(*name), id, *partitions, configs.clone())
                    .map_err(|_| Stopped)?;
                self.model.topics.insert((*name).to_owned(), (id, *partitions, configs));
                for index in 0..*partitions {
                    let log = ModelLog { is_compacted, ..ModelLog::default() };
                    self.model.logs.insert(((*name).to_owned(), index), log);
                }
            }
            Step::DeleteTopic { name } => {
                let (id, ..) = self.model.topics.remove(*name).unwrap();
                self.storage.delete_topic(id).map_err(|_| Stopped)?;
                self.model.logs.retain(|(topic, _), _| topic != name);
                for partitions in self.model.open.values_mut() {
                    partitions.retain(|(topic, _)| topic != name);
                }
            }
            Step::AddPartitions { name, partitions } => {
                let (id, current, _) = self.model.topics.get_mut(*name).unwrap();
                self.storage.add_partitions(*id, *partitions).map_err(|_| Stopped)?;
                for index in *current..*partitions {
                    self.model.logs.insert(((*name).to_owned(), index), ModelLog::default());
                }
                *current = *partitions;
            }
            Step::AlterConfig { name, value } => {
                let (id, _, configs) = self.model.topics.get_mut(*name).unwrap();
                self.storage.alter_config(*id, "retention.ms", value.as_deref()).map_err(|_| Stopped)?;
                match value {
                    Some(value) => configs.insert("retention.ms".to_owned(), value.clone()),
                    None => configs.remove("retention.ms"),
                };
            }
            Step::ReserveIds(count) => {
                let block = self.storage.reserve_producer_ids(*count).map_err(|_| Stopped)?;
                assert_eq!(block.first.0, self.model.next_producer_id, "a producer id is handed out twice");
                self.model.next_producer_id += i64::from(*count);
            }
            Step::Plain { to, count, length } => {
                let values = self.model.values(to.0, *count, *length);
                let texts: Vec<&str> = values.iter().map(String::as_str).collect();
                let to = (to.0.to_owned(), to.1);
                let partition = TopicPartition::new(to.0.as_str(), to.1);
                let appended =
                    self.storage.append(&partition, &plain(&texts), Origin::CLIENT, NOW).map_err(|_| Stopped)?;
                let log = self.model.logs.get_mut(&to).unwrap();
                assert_eq!(appended.base_offset, log.end);
                log.append(None, false, &values);
            }
            Step::Idempotent { to, id, count } => {
                let values = self.model.values(to.0, *count, 10);
                let texts: Vec<&str> = values.iter().map(String::as_str).collect();
                let identity = ProducerIdentity::new(*id, 0);
                let partition = TopicPartition::new(to.0, to.1);
                let log = self.model.logs.get_mut(&(to.0.to_owned(), to.1)).unwrap();
                let sequence = log.next_sequence(identity);
                let bytes = batch(identity, sequence, false, &texts);
                let appended = self.storage.append(&partition, &bytes, Origin::CLIENT, NOW).map_err(|_| Stopped)?;
                assert!(!appended.duplicate);
                let log = self.model.logs.get_mut(&(to.0.to_owned(), to.1)).unwrap();
                log.append(Some((identity, sequence)), false, &values);
            }
            Step::Transactional { to, id, count } => {
                let epoch = *self.model.epochs.entry(*id).or_insert(0);
                let identity = ProducerIdentity::new(*id, epoch);
                self.storage.begin_unit();
                for (topic, index) in to {
                    let values = self.model.values(topic, *count, 10);
                    let texts: Vec<&str> = values.iter().map(String::as_str).collect();
                    let key = ((*topic).to_owned(), *index);
                    let log = self.model.logs.get_mut(&key).unwrap();
                    let sequence = log.next_sequence(identity);
                    let partition = TopicPartition::new(*topic, *index);
                    append_verified(&mut self.storage, &partition, identity, sequence, &texts).map_err(|_| Stopped)?;
                    log.append(Some((identity, sequence)), true, &values);
                    let open = self.model.open.entry(*id).or_default();
                    if !open.contains(&key) {
                        open.push(key);
                    }
                }
                self.storage.end_unit();
            }
            Step::End { id, outcome } => {
                let epoch = self.model.epochs.entry(*id).or_insert(0);
                *epoch += 1;
                let identity = ProducerIdentity::new(*id, *epoch);
                self.storage.begin_unit();
                for (topic, index) in self.model.open.remove(id).unwrap_or_default() {
                    let partition = TopicPartition::new(topic.as_str(), index);
                    let marker = marker(identity, *outcome);
                    self.storage.append_marker(&partition, &marker, NOW).map_err(|_| Stopped)?;
                    self.model.logs.get_mut(&(topic, index)).unwrap().end_transaction(identity, *outcome);
                }
                self.storage.end_unit();
            }
            Step::DeleteRecords { from, back } => {
                let partition = TopicPartition::new(from.0, from.1);
                let end = self.storage.reader(&partition).unwrap().watermarks().high_watermark;
                let offset = (end - back).max(0);
                self.storage.delete_records(&partition, Some(offset)).map_err(|_| Stopped)?;
                let log = self.model.logs.get_mut(&(from.0.to_owned(), from.1)).unwrap();
                log.start = log.start.max(offset);
            }
        }
        self.history.push(self.model.snapshot());
        Ok(())
    }
}

/// A workload from a seed: some of everything, commits and checkpoints in between.
pub(crate) fn workload(seed: u64, units: u64) -> Vec<Step> {
    let mut chance = Chance::from_seed(seed);
    let mut steps = vec![
        Step::CreateTopic { name: "a", number: 1, partitions: 2, segment_bytes: None },
        Step::CreateTopic { name: "b", number: 2, partitions: 2, segment_bytes: Some(2500) },
        Step::ReserveIds(1000),
        Step::Commit,
        Step::CreateTopic { name: "c", number: 3, partitions: 1, segment_bytes: Some(300) },
        Step::CreateTopic { name: "k", number: 4, partitions: 1, segment_bytes: Some(400) },
        Step::Commit,
    ];
    let (mut number, mut partitions) = (4, 2);
    for unit in 0..units {
        let a = ("a", chance.below(2) as i32);
        let b = ("b", chance.below(2) as i32);
        let c = ("c", 0);
        let k = ("k", 0);
        let id = 100 + chance.below(2) as i64;
        let step = match chance.below(44) {
            0..4 => Step::Plain { to: b, count: 1 + chance.below(3), length: 200 },
            4..6 => Step::Plain { to: a, count: 2, length: 1500 },
            6 => Step::Plain { to: c, count: 1, length: 200 },
            7..11 => {
                Step::Idempotent { to: if chance.one_in(1, 2) { a } else { b }, id: 7, count: 1 + chance.below(2) }
            }
            11..14 => Step::Transactional { to: vec![("a", 0), ("a", 1), b], id, count: 1 },
            14 => Step::Transactional { to: vec![b, c], id, count: 2 },
            15..17 => Step::End { id, outcome: Outcome::Commit },
            17..19 => Step::End { id, outcome: Outcome::Abort },
            19 => {
                let from = if chance.one_in(1, 2) { c } else { b };
                if from == c {
                    let data = (0..3).map(|_| Step::Plain { to: c, count: 1, length: 200 });
                    steps.extend(data.chain([Step::Checkpoint]));
                }
                Step::DeleteRecords { from, back: chance.below(4) as i64 }
            }
            20 => Step::ReserveIds(10),
            21 => Step::AlterConfig { name: "a", value: chance.one_in(1, 2).then(|| unit.to_string()) },
            24..33 => Step::Plain { to: k, count: 1 + chance.below(3), length: 20 },
            33..37 => Step::Idempotent { to: k, id: 7, count: 1 + chance.below(2) },
            37..42 => Step::Transactional { to: vec![k, b], id, count: 2 },
            42 if chance.one_in(1, 3) => {
                number += 1;
                steps.push(Step::DeleteTopic { name: "k" });
                Step::CreateTopic { name: "k", number, partitions: 1, segment_bytes: Some(400) }
            }
            42 | 43 => Step::End { id, outcome: Outcome::Commit },
            22 => {
                partitions += 1;
                Step::AddPartitions { name: "b", partitions }
            }
            _ => {
                number += 1;
                steps.push(Step::DeleteTopic { name: "c" });
                if chance.one_in(1, 2) {
                    steps.push(Step::Commit);
                }
                Step::CreateTopic { name: "c", number, partitions: 1, segment_bytes: Some(300) }
            }
        };
        steps.push(step);
        match chance.below(6) {
            0..2 => steps.push(Step::BeginCompaction),
            2 => steps.push(Step::CompactSome),
            3..5 => steps.push(Step::FinishCompaction),
            _ => {}
        }
        match chance.below(12) {
            0..8 => steps.push(Step::Commit),
            8 => steps.push(Step::Checkpoint),
            9 => steps.push(Step::BeginCheckpoint),
            10 => steps.push(Step::RunCheckpoint),
            _ => {}
        }
    }
    steps.push(Step::Commit);
    steps
}
