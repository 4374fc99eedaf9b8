//! An end of a transaction is one decision, a marker for each partition, and a completion. Any of them may be refused by the
//! storage, and the broker may go down with exactly that on disk. Whatever happens, what was decided is done, and done once.

use atonce_coordinator::Shard as _;
use atonce_coordinator::group::command::{OffsetFetch, OffsetToCommit, OffsetToFetch, TxnOffsetCommit};
use atonce_coordinator::group::{Command as GroupCommand, Reply as GroupReply};
use atonce_coordinator::transaction::{ListFilter, Record};
use atonce_kernel::{GroupId, ProducerEpoch, Sequence, Uuid};
use atonce_log::{IsolationLevel, Origin, TransactionVersion, Verification};
use atonce_protocol::records::{BatchBuilder, BatchOptions, batches, read_marker};

use super::super::recovery::for_each_entry;
use super::*;
use crate::coordinator_batch::Logged;
use crate::topic_name::{CONSUMER_OFFSETS, TRANSACTION_STATE};

const ID: &str = "id";
const GROUP: &str = "g";

/// Which end, and which step of it is refused: the decision (0), the markers of two partitions and of the group's (1 to 3),
/// the completion (4), none (5).
#[derive(Clone, Copy, Debug)]
struct Story {
    version: i16,
    outcome: Outcome,
    refused_from: u32,
}

const STEPS: u32 = 5;

fn every_story() -> impl Iterator<Item = Story> {
    [3, 5].into_iter().flat_map(|version| {
        [Outcome::Commit, Outcome::Abort]
            .into_iter()
            .flat_map(move |outcome| (0..=STEPS).map(move |refused_from| Story { version, outcome, refused_from }))
    })
}

/// A broker with an open transaction: a record in each of two partitions, and a position of a group.
struct World {
    folder: tempfile::TempDir,
    engine: Engine,
    producer: ProducerIdentity,
}

fn open_world() -> World {
    let folder = tempfile::tempdir().expect("a folder");
    let mut engine = engine(folder.path(), Durability::Os, 1);
    engine.create_topic(NewTopic { name: "t".to_owned(), partitions: 2, configs: Default::default() }).expect("made");
    engine.make_offsets_topic().expect("made");
    let producer = init(&mut engine, &ID.into());
    let mut world = World { folder, engine, producer };
    for partition in 0..2 {
        world.write(TopicPartition::new("t", partition)).expect("written");
    }
    world.send_position(5);
    world
}

impl World {
    fn group_partition(&self) -> TopicPartition {
        TopicPartition::new(CONSUMER_OFFSETS, self.engine.group_partition(&GroupId::from(GROUP)))
    }

    fn partitions(&self) -> [TopicPartition; 3] {
        [TopicPartition::new("t", 0), TopicPartition::new("t", 1), self.group_partition()]
    }

    /// Adds a partition to the transaction, as a write of protocol 2 does.
    fn join(&mut self, partition: &TopicPartition) -> Result<(), ErrorCode> {
        let command = Command::AddPartitions(AddPartitions {
            caller: Caller::Produce { version: 12 },
            transactional_id: ID.into(),
            producer: self.producer,
            partitions: vec![(partition.clone(), Admission::Exists)],
        });
        match self.engine.transactions_now(&ID.into(), &command)? {
            Reply::Partitions(verdicts) => verdicts[0].1.into_result(),
            other => panic!("{other:?}"),
        }
    }

    fn guard(&mut self, partition: &TopicPartition) -> Option<atonce_log::VerificationGuard> {
        let (producer, now) = (self.producer, self.engine.now);
        let version = TransactionVersion::V2;
        match self.engine.storage().start_verification(partition, producer, Sequence::FIRST, version, now) {
            Some(Verification::Needed(guard)) => Some(guard),
            Some(Verification::NotNeeded) => None,
            None => panic!("{partition} is not there"),
        }
    }

    fn write(&mut self, partition: TopicPartition) -> Result<(), ErrorCode> {
        let guard = self.guard(&partition);
        self.join(&partition)?;
        let mut builder = BatchBuilder::default();
        builder.append(1_700_000_000_000, None, Some(b"v"), []).expect("it fits");
        let options = BatchOptions {
            producer: self.producer,
            base_sequence: Sequence::FIRST,
            is_transactional: true,
            ..BatchOptions::default()
        };
        let batch = builder.finish(&options).expect("a batch");
        self.engine.append(&partition, &batch, Origin::Client { guard }).expect("appended");
        Ok(())
    }

    fn send_position(&mut self, offset: i64) {
        let partition = self.group_partition();
        let guard = self.guard(&partition);
        self.join(&partition).expect("joins");
        let offset = OffsetToCommit {
            topic_partition: TopicPartition::new("t", 0),
            topic_id: Uuid([0; 16]),
            offset,
            leader_epoch: -1,
            metadata: None,
        };
        let command = GroupCommand::TxnOffsetCommit(TxnOffsetCommit {
            version: 5,
            producer: self.producer,
            group: GROUP.into(),
            generation: -1,
            member: None,
            instance: None,
            offsets: vec![offset],
        });
        match self.engine.groups_now(partition.partition, &command, guard) {
            Ok(GroupReply::OffsetsCommitted(answers)) => assert_eq!(answers[0].1, ErrorCode::None),
            other => panic!("{other:?}"),
        }
    }

    fn position(&mut self) -> Result<i64, ErrorCode> {
        let partition = self.group_partition().partition;
        let command = GroupCommand::OffsetFetch(OffsetFetch {
            group: GROUP.into(),
            partitions: Some(vec![OffsetToFetch {
                topic_partition: TopicPartition::new("t", 0),
                topic_id: Uuid([0; 16]),
            }]),
            member: None,
            epoch: -1,
            require_stable: true,
        });
        match self.engine.groups_now(partition, &command, None) {
            Ok(GroupReply::OffsetsFetched(Ok(offsets))) => offsets[0].error.into_result().map(|()| offsets[0].offset),
            other => panic!("{other:?}"),
        }
    }

    fn end(&mut self, story: Story) -> Result<ProducerIdentity, ErrorCode> {
        let command = Command::EndTxn(EndTxn {
            version: story.version,
            transactional_id: ID.into(),
            producer: self.producer,
            outcome: story.outcome,
        });
        match self.engine.transactions_now(&ID.into(), &command)? {
            Reply::EndTxn(ended) => ended,
            other => panic!("{other:?}"),
        }
    }

    /// Time passes, and what is due is done.
    fn wait(&mut self) {
        self.engine.now = self.engine.now.plus_ms(5_000);
        self.engine.do_what_is_due();
        self.engine.commit();
    }

    /// The broker goes down with what it has written, and comes back.
    fn restart(mut self) -> Self {
        self.engine.commit();
        drop(self.engine);
        self.engine = engine(self.folder.path(), Durability::Os, 1);
        self
    }

    /// The states of the id, in the order of the log.
    fn logged_states(&self) -> Vec<String> {
        let mut states = Vec::new();
        for partition in 0..self.engine.transactions.partitions() {
            let from = TopicPartition::new(TRANSACTION_STATE, partition);
            for_each_entry(&self.engine.storage, &from, |logged| {
                let Logged::Record { key, value, .. } = logged else { panic!("a marker among states") };
                let record = Record::decode(key, value).expect("a record");
                states.extend(record.transaction().map(|transaction| transaction.state.name().to_string()));
                Ok(())
            })
            .expect("read");
        }
        states
    }

    /// The ends that stand in a partition.
    fn markers(&self, partition: &TopicPartition) -> Vec<Outcome> {
        let reader = self.engine.storage.reader(partition).expect("there");
        let read = reader.read(0, 1 << 20, IsolationLevel::ReadUncommitted).expect("read");
        let mut markers = Vec::new();
        for bytes in &read.batches {
            for batch in batches(bytes).map(|batch| batch.expect("a batch")).filter(|batch| batch.is_control()) {
                let record = batch.records().expect("not compressed").next().expect("one").expect("a record");
                markers.push(read_marker(&record).expect("an end").outcome);
            }
        }
        markers
    }

    /// All of it is over: each partition has its end, readers and groups see what was decided, and the id can be used.
    fn assert_ended(&mut self, story: Story, next: ProducerIdentity) {
        let outcome = story.outcome;
        let (prepared, complete) = match outcome {
            Outcome::Commit => ("PrepareCommit", "CompleteCommit"),
            Outcome::Abort => ("PrepareAbort", "CompleteAbort"),
        };
        let states = self.logged_states();
        let count = |name: &str| states.iter().filter(|state| *state == name).count();
        assert_eq!((count(prepared), count(complete)), (1, 1), "{story:?}: {states:?}");
        assert_eq!(states.last().map(String::as_str), Some(complete), "{story:?}");
        for partition in self.partitions() {
            let watermarks = self.engine.storage.reader(&partition).expect("there").watermarks();
            assert_eq!(watermarks.last_stable_offset, watermarks.high_watermark, "{story:?}: {partition}");
            assert_eq!(self.markers(&partition), [outcome], "{story:?}: {partition} has its end once");
        }
        let position = match outcome {
            Outcome::Commit => 5,
            Outcome::Abort => -1,
        };
        assert_eq!(self.position(), Ok(position), "{story:?}");
        // The same end again, as after a lost answer; then the next transaction.
        assert_eq!(self.end(story), Ok(next), "{story:?}");
        self.producer = next;
        if story.version == 5 {
            assert_eq!(self.write(TopicPartition::new("t", 0)), Ok(()), "{story:?}");
        }
    }
}

/// Who the producer is after an end.
fn next(story: Story, producer: ProducerIdentity) -> ProducerIdentity {
    let raised = i16::from(story.version == 5);
    ProducerIdentity { epoch: ProducerEpoch(producer.epoch.0 + raised), ..producer }
}

#[test]
fn an_end_that_was_decided_goes_on_when_it_can_be_written_and_until_then_the_next_one_waits() {
    for story in every_story() {
        let mut world = open_world();
        world.engine.refusals.after = Some(story.refused_from);
        let next = next(story, world.producer);
        let ended = world.end(story);
        if story.refused_from == 0 {
            assert_eq!(ended, Err(ErrorCode::CoordinatorNotAvailable), "{story:?}: it may be tried again");
            world.engine.commit();
            assert_eq!(world.logged_states().last().map(String::as_str), Some("Ongoing"));
            world.engine.refusals.after = None;
            assert_eq!(world.end(story), Ok(next), "{story:?}");
        } else if story.refused_from < STEPS {
            assert_eq!(ended, Ok(next), "{story:?}: it is decided");
            world.engine.commit();
            // Several times in vain, and nobody comes in between.
            for _ in 0..3 {
                world.wait();
                assert_eq!(world.end(story), Err(ErrorCode::ConcurrentTransactions), "{story:?}");
                let old = std::mem::replace(&mut world.producer, next);
                assert_eq!(
                    world.write(TopicPartition::new("t", 0)),
                    Err(ErrorCode::ConcurrentTransactions),
                    "{story:?}"
                );
                world.producer = old;
            }
            world.engine.refusals.after = None;
            world.wait();
        } else {
            assert_eq!(ended, Ok(next), "{story:?}");
            world.engine.refusals.after = None;
        }
        world.engine.commit();
        world.assert_ended(story, next);
    }
}

#[test]
fn an_end_that_a_crash_cut_off_anywhere_is_completed_by_the_start() {
    for story in every_story() {
        let mut world = open_world();
        world.engine.refusals.after = Some(story.refused_from);
        let next = next(story, world.producer);
        let ended = world.end(story);
        let mut world = world.restart();
        if story.refused_from == 0 {
            assert_eq!(ended, Err(ErrorCode::CoordinatorNotAvailable), "{story:?}");
            assert_eq!(world.position(), Err(ErrorCode::UnstableOffsetCommit), "{story:?}: it is open as before");
            assert_eq!(world.end(story), Ok(next), "{story:?}");
            world.engine.commit();
        }
        world.assert_ended(story, next);
        // Once more: nothing is left to be done.
        world.engine.commit();
        let before = world.logged_states();
        let world = world.restart();
        assert_eq!(world.logged_states(), before, "{story:?}");
    }
}

#[test]
fn an_initialisation_that_could_not_be_logged_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut engine = engine(folder.path(), Durability::Os, 1);
    let id = TransactionalId::from(ID);
    let command = Command::InitProducerId(InitProducerId {
        version: 5,
        transactional_id: Some(id.clone()),
        transaction_timeout_ms: 60_000,
        expected: ProducerIdentity::NONE,
        enable_two_phase_commit: false,
        keep_prepared_transaction: false,
    });
    engine.refusals.after = Some(0);
    for _ in 0..3 {
        assert_eq!(engine.transactions_now(&id, &command), Err(ErrorCode::CoordinatorNotAvailable));
    }
    // No id without an epoch, which nothing would ever take out again.
    assert_eq!(engine.list_transactions(&ListFilter::default()), []);
    assert!(engine.transactions.shards.iter().all(|shard| shard.next_deadline().is_none()));
    engine.refusals.after = None;
    let producer = init(&mut engine, &id);
    assert_eq!(producer.epoch, ProducerEpoch::FIRST);
    // It goes as all do.
    engine.now = engine.now.plus_ms(8 * 24 * 60 * 60 * 1000);
    engine.do_what_is_due();
    assert_eq!(engine.list_transactions(&ListFilter::default()), []);
}

#[test]
fn a_take_over_waits_for_the_end_that_is_in_its_way_and_is_answered_then() {
    for story in every_story().filter(|story| (1..STEPS).contains(&story.refused_from)) {
        let mut world = open_world();
        world.engine.refusals.after = Some(story.refused_from);
        let next = next(story, world.producer);
        assert_eq!(world.end(story), Ok(next), "{story:?}");
        let (answered, answer) = mpsc::channel();
        let command = Command::InitProducerId(InitProducerId {
            version: 5,
            transactional_id: Some(ID.into()),
            transaction_timeout_ms: 60_000,
            expected: ProducerIdentity::NONE,
            enable_two_phase_commit: false,
            keep_prepared_transaction: false,
        });
        world.engine.ask_transactions(Some(&ID.into()), &command, move |_, reply| {
            answered.send(reply).expect("the test waits");
        });
        world.wait();
        assert!(answer.try_recv().is_err(), "{story:?}: it is held");
        world.engine.refusals.after = None;
        world.wait();
        let heir = match answer.try_recv() {
            Ok(Ok(Reply::InitProducerId(Ok(heir)))) => heir,
            other => panic!("{story:?}: {other:?}"),
        };
        assert_eq!(heir, ProducerIdentity { epoch: ProducerEpoch(next.epoch.0 + 1), ..next }, "{story:?}");
        for partition in world.partitions() {
            assert_eq!(world.markers(&partition), [story.outcome], "{story:?}: {partition}");
        }
    }
}
