//! Walks every order of a few commits, plain and in two transactions, their ends, deletions and crashes, with and without a
//! compacted log; then long random walks. A rule of one sentence is held against the machine after each step:
//!
//! *Committed is what the last record says, of those that were written plainly or whose transaction has committed, if no tombstone
//! came after it; and pending is a partition while a later record's transaction is open.*

use std::collections::BTreeSet;

use atonce_coordinator::group::command::{
    OffsetCommit, OffsetDelete, OffsetFetch, OffsetToCommit, OffsetToFetch, TxnOffsetCommit,
};
use atonce_coordinator::group::{Command, GroupConfig, GroupCoordinator, Record, Reply};
use atonce_coordinator::{Context, Entry, Shard, Waiter};
use atonce_kernel::chance::Chance;
use atonce_kernel::{GroupId, Outcome, ProducerId, ProducerIdentity, Timestamp, TopicId, TopicPartition, Uuid};
use atonce_protocol::ErrorCode;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Commit { partition: i32 },
    Send { producer: i64, partition: i32 },
    End { producer: i64, outcome: Outcome },
    Delete { partition: i32 },
    Crash { compacted: bool },
}

const PRODUCERS: [i64; 2] = [1, 2];
const PARTITIONS: [i32; 2] = [0, 1];

fn actions() -> Vec<Action> {
    let mut actions = vec![Action::Crash { compacted: false }, Action::Crash { compacted: true }];
    for partition in PARTITIONS {
        actions.extend([Action::Commit { partition }, Action::Delete { partition }]);
        actions.extend(PRODUCERS.map(|producer| Action::Send { producer, partition }));
    }
    for producer in PRODUCERS {
        actions.extend([Outcome::Commit, Outcome::Abort].map(|outcome| Action::End { producer, outcome }));
    }
    actions
}

#[derive(Clone, Debug)]
enum Logged {
    Record { record: Record, producer: Option<i64> },
    Marker { producer: i64, outcome: Outcome },
}

/// What the rule looks at: a record, and what became of its transaction.
#[derive(Clone, Debug)]
struct Written {
    at: i64,
    partition: i32,
    /// `None`: a tombstone.
    value: Option<i64>,
    producer: Option<i64>,
    /// `None`: its transaction is open.
    outcome: Option<Outcome>,
}

#[derive(Clone)]
struct World {
    shard: GroupCoordinator,
    log: Vec<(i64, Logged)>,
    end: i64,
    written: Vec<Written>,
}

impl World {
    fn new() -> Self {
        Self { shard: GroupCoordinator::new(GroupConfig::default()), log: Vec::new(), end: 0, written: Vec::new() }
    }

    fn ask(&mut self, command: &Command) -> Reply {
        let decision = self.shard.decide(&context(), command);
        for record in decision.records {
            let producer = command.producer().map(|producer| producer.id.0);
            let Record::Offset { topic_partition, value, .. } = &record else { panic!("{record:?}") };
            self.written.push(Written {
                at: self.end,
                partition: topic_partition.partition,
                value: value.as_ref().map(|value| value.offset),
                producer,
                outcome: producer.is_none().then_some(Outcome::Commit),
            });
            self.append(Logged::Record { record, producer });
        }
        decision.replies.into_iter().next().expect("an answer at once").1
    }

    fn append(&mut self, logged: Logged) {
        apply(&mut self.shard, self.end, &logged);
        self.log.push((self.end, logged));
        self.end += 1;
    }

    fn act(&mut self, action: Action) {
        // Values rise with the log, so that each says which record it is from.
        let offset = |partition| {
            vec![OffsetToCommit {
                topic_partition: TopicPartition::new("x", partition),
                topic_id: TopicId::ZERO,
                offset: 100 + self.end,
                leader_epoch: -1,
                metadata: None,
            }]
        };
        match action {
            Action::Commit { partition } => {
                let commit = OffsetCommit {
                    version: 9,
                    group: group(),
                    generation: -1,
                    member: None,
                    instance: None,
                    retention_ms: None,
                    offsets: offset(partition),
                };
                self.ask(&Command::OffsetCommit(commit));
            }
            Action::Send { producer, partition } => {
                let commit = TxnOffsetCommit {
                    version: 3,
                    producer: ProducerIdentity::new(producer, 0),
                    group: group(),
                    generation: -1,
                    member: None,
                    instance: None,
                    offsets: offset(partition),
                };
                self.ask(&Command::TxnOffsetCommit(commit));
            }
            Action::End { producer, outcome } => {
                for written in self.written.iter_mut().filter(|it| it.producer == Some(producer)) {
                    written.outcome.get_or_insert(outcome);
                }
                self.append(Logged::Marker { producer, outcome });
            }
            Action::Delete { partition } => {
                let partitions = vec![TopicPartition::new("x", partition)];
                self.ask(&Command::OffsetDelete(OffsetDelete { group: group(), partitions }));
            }
            Action::Crash { compacted } => {
                if compacted {
                    self.compact();
                }
                self.shard = GroupCoordinator::new(GroupConfig::default());
                for (offset, logged) in &self.log {
                    apply(&mut self.shard, *offset, logged);
                }
            }
        }
    }

    /// What compaction may leave below the last stable offset, where no transaction is open: no aborted records, and the last
    /// one of each partition.
    fn compact(&mut self) {
        let last_stable_offset = self.written.iter().filter(|it| it.outcome.is_none()).map(|it| it.at).min();
        let last_stable_offset = last_stable_offset.unwrap_or(self.end);
        let last = |partition| {
            let decided = self.written.iter().filter(|it| it.outcome == Some(Outcome::Commit));
            decided.filter(|it| it.partition == partition && it.at < last_stable_offset).map(|it| it.at).max()
        };
        let kept: BTreeSet<i64> = PARTITIONS.iter().filter_map(|partition| last(*partition)).collect();
        self.log.retain(|(offset, logged)| match logged {
            Logged::Record { .. } => *offset >= last_stable_offset || kept.contains(offset),
            Logged::Marker { .. } => true,
        });
    }

    fn check(&mut self) {
        for partition in PARTITIONS {
            let of_partition = || self.written.iter().filter(|it| it.partition == partition);
            let buried = of_partition().filter(|it| it.value.is_none()).map(|it| it.at).max().unwrap_or(-1);
            let after = || of_partition().filter(|it| it.at > buried);
            let committed = after().filter(|it| it.outcome == Some(Outcome::Commit)).max_by_key(|it| it.at);
            let expected = committed.and_then(|it| it.value).unwrap_or(-1);
            let is_pending = after().any(|it| it.outcome.is_none());
            let found = self.fetch(partition, false);
            assert_eq!(found, (expected, ErrorCode::None), "x-{partition}");
            let stable = if is_pending { (-1, ErrorCode::UnstableOffsetCommit) } else { (expected, ErrorCode::None) };
            assert_eq!(self.fetch(partition, true), stable, "x-{partition} stable");
        }
        for producer in PRODUCERS {
            let is_open = self.written.iter().any(|it| it.producer == Some(producer) && it.outcome.is_none());
            let held = self.shard.pending_of(ProducerId(producer)).count();
            assert!(is_open || held == 0, "an ended transaction holds nothing");
        }
    }

    fn fetch(&mut self, partition: i32, require_stable: bool) -> (i64, ErrorCode) {
        let wanted = OffsetToFetch { topic_partition: TopicPartition::new("x", partition), topic_id: TopicId::ZERO };
        let fetch =
            OffsetFetch { group: group(), partitions: Some(vec![wanted]), member: None, epoch: -1, require_stable };
        match self.ask(&Command::OffsetFetch(fetch)) {
            Reply::OffsetsFetched(Ok(offsets)) => (offsets[0].offset, offsets[0].error),
            other => panic!("{other:?}"),
        }
    }
}

fn apply(shard: &mut GroupCoordinator, offset: i64, logged: &Logged) {
    let entry = match logged {
        Logged::Record { record, producer } => Entry::Record {
            record,
            producer: producer.map(|producer| ProducerIdentity::new(producer, 0)),
            offset,
            timestamp: Timestamp(0),
        },
        Logged::Marker { producer, outcome } => {
            Entry::Marker { producer: ProducerIdentity::new(*producer, 0), outcome: *outcome, offset }
        }
    };
    shard.apply(&entry).expect("it follows");
}

fn group() -> GroupId {
    GroupId::from("g")
}

fn context() -> Context {
    Context { now: Timestamp(1_000), waiter: Waiter(1), fresh_producer_id: ProducerId(9), fresh_uuid: Uuid::ZERO }
}

#[expect(clippy::print_stderr, reason = "a failure says how it came about")]
fn walk(world: &World, depth: usize, path: &mut Vec<Action>, steps: &mut usize) {
    for action in actions() {
        path.push(action);
        let mut after = world.clone();
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            after.act(action);
            after.check();
        }));
        if let Err(panic) = checked {
            eprintln!("after {path:?}");
            std::panic::resume_unwind(panic);
        }
        *steps += 1;
        if depth > 1 {
            walk(&after, depth - 1, path, steps);
        }
        path.pop();
    }
}

#[test]
fn every_order_of_four_steps_follows_the_rule() {
    let mut steps = 0;
    walk(&World::new(), 4, &mut Vec::new(), &mut steps);
    assert_eq!(steps, 14 + 14_usize.pow(2) + 14_usize.pow(3) + 14_usize.pow(4));
}

#[test]
#[expect(clippy::print_stderr, reason = "a failure says how it came about")]
fn long_random_walks_follow_the_rule() {
    for seed in 0..200 {
        let mut chance = Chance::from_seed(seed);
        let actions = actions();
        let (mut world, mut path) = (World::new(), Vec::new());
        for _ in 0..60 {
            let action = actions[usize::try_from(chance.below(actions.len() as u64)).unwrap()];
            path.push(action);
            let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                world.act(action);
                world.check();
            }));
            if let Err(panic) = checked {
                eprintln!("seed {seed}: after {path:?}");
                std::panic::resume_unwind(panic);
            }
        }
    }
}
