//! Fetch sessions (KIP-227): each rule by itself, then a reader against brokers that keep, evict and refuse sessions while
//! requests and answers are lost, leaders move and the user pauses: nothing is skipped, and nothing comes twice.

use std::collections::BTreeMap;
use std::time::Duration;

use atonce_client_core::backoff::Backoff;
use atonce_client_core::fetch::{
    EpochEnd, FetchCall, FetchConfig, FetchError, FetchReply, Fetched, Fetcher, Isolation, OffsetReset, Outgoing,
    PartitionReply, Position,
};
use atonce_client_core::fetch_session::Wanted;
use atonce_client_core::metadata::Metadata;
use atonce_kernel::chance::Chance;
use atonce_kernel::{Monotonic, Offset, TopicId, TopicPartition, Uuid};
use atonce_protocol::ErrorCode;
use atonce_protocol::messages::metadata_response::{
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use atonce_protocol::records::{BatchBuilder, BatchOptions, set_base_offset};
use bytes::BytesMut;

const NOW: Monotonic = Monotonic::START;
const WAIT: Duration = Duration::from_millis(10);

fn part(partition: i32) -> TopicPartition {
    TopicPartition::new("t", partition)
}

/// Topic `t` with these leaders and epochs, on three nodes.
fn metadata(topic_id: TopicId, leaders: &[(i32, i32)]) -> Metadata {
    let broker = |node_id| MetadataResponseBroker { node_id, ..MetadataResponseBroker::default() };
    let partitions = (0..).zip(leaders).map(|(partition_index, (leader_id, leader_epoch))| MetadataResponsePartition {
        partition_index,
        leader_id: *leader_id,
        leader_epoch: *leader_epoch,
        ..MetadataResponsePartition::default()
    });
    let topic = MetadataResponseTopic {
        name: Some("t".to_owned()),
        topic_id,
        partitions: partitions.collect(),
        ..MetadataResponseTopic::default()
    };
    let mut metadata = Metadata::default();
    let brokers = vec![broker(1), broker(2), broker(3)];
    metadata.handle_response(&MetadataResponse { brokers, topics: vec![topic], ..Default::default() });
    metadata
}

const TOPIC: TopicId = Uuid([7; 16]);

fn fetched(base: Offset, count: i32, end: Offset) -> Fetched {
    let mut records = BytesMut::new();
    if count > 0 {
        let mut builder = BatchBuilder::default();
        for delta in 0..count {
            builder.append_at(delta, 0, None, Some(b"v"), []).expect("is small");
        }
        records = BytesMut::from(builder.finish(&BatchOptions::default()).expect("finishes"));
        set_base_offset(&mut records, base);
    }
    Fetched { high_watermark: end, last_stable_offset: end, records: records.freeze(), ..Fetched::default() }
}

/// A reader of two partitions on node 1, from offset 0.
struct Reader {
    fetcher: Fetcher,
    metadata: Metadata,
    now: Monotonic,
}

impl Reader {
    fn new() -> Self {
        let mut fetcher = Fetcher::new(FetchConfig {
            isolation: Isolation::ReadCommitted,
            offset_reset: OffsetReset::Earliest,
            prefetch_bytes_max: 1_000_000,
            retry_backoff: Backoff::constant(WAIT),
        });
        fetcher.assign(part(0), Position::Offset(0));
        fetcher.assign(part(1), Position::Offset(0));
        Self { fetcher, metadata: metadata(TOPIC, &[(1, 0), (1, 0)]), now: NOW }
    }

    fn poll(&mut self) -> Option<FetchCall> {
        loop {
            match self.fetcher.poll_request(self.now, &self.metadata)? {
                Outgoing::Fetch(call) => return Some(call),
                Outgoing::RefreshMetadata(_) => self.fetcher.handle_metadata(self.now),
                Outgoing::Validate(call) => panic!("nothing to validate: {call:?}"),
            }
        }
    }

    fn call(&mut self) -> FetchCall {
        self.poll().expect("something is to be fetched")
    }

    fn answer(&mut self, call: &FetchCall, session_id: i32, replies: Vec<(TopicPartition, PartitionReply)>) {
        self.fetcher.handle_reply(self.now, call.id, FetchReply { session_id, result: Ok(replies) });
    }

    fn refuse(&mut self, call: &FetchCall, code: ErrorCode) {
        self.fetcher.handle_reply(self.now, call.id, FetchReply { session_id: 0, result: Err(code) });
    }

    fn taken(&mut self) -> Vec<(i32, Offset)> {
        let taken = self.fetcher.take(1000).unwrap_or_default();
        taken.records.iter().map(|record| (record.partition(), record.offset)).collect()
    }

    /// Has opened session 77, and read one record of partition 0.
    fn in_session() -> Self {
        let mut reader = Self::new();
        let call = reader.call();
        reader.answer(&call, 77, vec![(part(0), Ok(fetched(0, 1, 1))), (part(1), Ok(fetched(0, 0, 0)))]);
        assert_eq!(reader.taken(), [(0, 0)]);
        reader
    }
}

fn session(call: &FetchCall) -> (i32, i32) {
    (call.request.session_id, call.request.session_epoch)
}

#[test]
fn a_session_is_begun_with_everything_and_goes_on_with_what_changed() {
    let mut reader = Reader::new();
    let call = reader.call();
    assert_eq!((session(&call), call.offsets()), ((0, 0), vec![(part(0), 0), (part(1), 0)]));
    reader.answer(&call, 77, vec![(part(0), Ok(fetched(0, 1, 1))), (part(1), Ok(fetched(0, 0, 0)))]);
    let call = reader.call();
    assert_eq!((session(&call), call.offsets()), ((77, 1), vec![(part(0), 1)]));
    assert_eq!(call.request.forgotten, []);
    reader.answer(&call, 77, Vec::new());
    let call = reader.call();
    assert_eq!((session(&call), call.offsets()), ((77, 2), Vec::new()));
}

#[test]
fn a_partition_that_an_answer_leaves_out_is_as_it_was() {
    let mut reader = Reader::in_session();
    let call = reader.call();
    reader.answer(&call, 77, vec![(part(1), Ok(fetched(0, 2, 2)))]);
    assert_eq!(reader.taken(), [(1, 0), (1, 1)]);
    assert_eq!((reader.fetcher.end(&part(0)), reader.fetcher.end(&part(1))), (Some(1), Some(2)));
    assert_eq!(reader.call().offsets(), [(part(1), 2)], "nobody is asked again for it, and nothing waits");
}

#[test]
fn a_partition_that_is_given_away_and_taken_back_knows_its_end_though_the_session_does_not_tell_it_again() {
    let mut reader = Reader::in_session();
    reader.fetcher.assign(part(0), Position::Offset(1));
    assert_eq!(reader.fetcher.end(&part(0)), None);
    let call = reader.call();
    assert_eq!(call.offsets(), [(part(0), 1)]);
    reader.answer(&call, 77, Vec::new());
    assert_eq!(reader.fetcher.end(&part(0)), Some(1));
}

#[test]
fn a_session_that_the_broker_forgot_is_begun_again_at_once_from_the_same_places() {
    let mut reader = Reader::in_session();
    let call = reader.call();
    reader.refuse(&call, ErrorCode::FetchSessionIdNotFound);
    let call = reader.call();
    assert_eq!((session(&call), call.offsets()), ((0, 0), vec![(part(0), 1), (part(1), 0)]));
}

#[test]
fn a_session_that_is_out_of_step_is_ended_and_begun_again_at_once() {
    for code in
        [ErrorCode::InvalidFetchSessionEpoch, ErrorCode::FetchSessionTopicIdError, ErrorCode::InconsistentTopicId]
    {
        let mut reader = Reader::in_session();
        let call = reader.call();
        reader.refuse(&call, code);
        let call = reader.call();
        assert_eq!((session(&call), call.offsets()), ((77, 0), vec![(part(0), 1), (part(1), 0)]), "{code}");
        reader.answer(&call, 78, vec![(part(0), Ok(fetched(1, 1, 2))), (part(1), Ok(fetched(0, 0, 0)))]);
        assert_eq!(session(&reader.call()), (78, 1));
    }
}

#[test]
fn a_broker_that_refuses_to_begin_is_asked_again_after_a_while() {
    let mut reader = Reader::new();
    let call = reader.call();
    reader.refuse(&call, ErrorCode::FetchSessionIdNotFound);
    assert_eq!(reader.poll(), None, "or the two would spin");
    reader.now = reader.now + WAIT;
    assert_eq!(session(&reader.call()), (0, 0));
}

#[test]
fn after_a_lost_answer_everything_is_said_again_and_the_session_is_ended() {
    let mut reader = Reader::in_session();
    let call = reader.call();
    reader.fetcher.handle_lost(reader.now, call.id);
    reader.now = reader.now + WAIT;
    let call = reader.call();
    assert_eq!((session(&call), call.offsets()), ((77, 0), vec![(part(0), 1), (part(1), 0)]));
    // That one is lost too: the broker may have the old one, or another that nobody knows of.
    reader.fetcher.handle_lost(reader.now, call.id);
    reader.now = reader.now + WAIT;
    assert_eq!(session(&reader.call()), (77, 0));
}

#[test]
fn what_is_not_wanted_any_more_is_forgotten_and_said_again_when_it_is() {
    let mut reader = Reader::in_session();
    reader.fetcher.pause(&part(1), true);
    let call = reader.call();
    assert_eq!((call.offsets(), &call.request.forgotten), (vec![(part(0), 1)], &vec![(part(1), TOPIC)]));
    reader.answer(&call, 77, Vec::new());
    reader.fetcher.pause(&part(1), false);
    let call = reader.call();
    assert_eq!((call.offsets(), &call.request.forgotten), (vec![(part(1), 0)], &Vec::new()));
    reader.answer(&call, 77, vec![(part(1), Ok(fetched(0, 1, 1)))]);
    reader.fetcher.unassign(&part(0));
    let call = reader.call();
    assert_eq!((call.offsets(), &call.request.forgotten), (vec![(part(1), 1)], &vec![(part(0), TOPIC)]));
}

#[test]
fn a_partition_that_moves_is_forgotten_here_and_begun_there() {
    let mut reader = Reader::in_session();
    reader.metadata = metadata(TOPIC, &[(1, 0), (2, 1)]);
    let (here, there) = (reader.call(), reader.call());
    assert_eq!((here.node, here.offsets(), &here.request.forgotten), (1, vec![(part(0), 1)], &vec![(part(1), TOPIC)]));
    assert_eq!((there.node, session(&there), there.offsets()), (2, (0, 0), vec![(part(1), 0)]));
}

#[test]
fn a_leader_that_rose_to_another_epoch_is_told_so_within_the_session() {
    let mut reader = Reader::in_session();
    reader.metadata = metadata(TOPIC, &[(1, 0), (1, 5)]);
    let call = reader.call();
    let wanted = Wanted { topic_id: TOPIC, offset: 0, current_leader_epoch: 5 };
    assert!(call.request.partitions.contains(&(part(1), wanted)), "{call:?}");
}

#[test]
fn a_topic_that_was_made_again_is_another_one_in_the_session() {
    let mut reader = Reader::in_session();
    let again = Uuid([8; 16]);
    reader.metadata = metadata(again, &[(1, 0), (1, 0)]);
    let call = reader.call();
    assert_eq!(session(&call), (77, 1));
    assert_eq!(call.request.forgotten, [(part(0), TOPIC), (part(1), TOPIC)]);
    assert!(call.request.partitions.iter().all(|(_, wanted)| wanted.topic_id == again), "{call:?}");
    assert_eq!(call.names, BTreeMap::from([(again, "t".into())]));
}

#[test]
fn a_session_does_not_mix_names_and_ids() {
    let mut reader = Reader::in_session();
    reader.metadata = metadata(Uuid([0; 16]), &[(1, 0), (1, 0)]);
    let call = reader.call();
    assert_eq!((session(&call), call.request.is_by_id, call.offsets().len()), ((77, 0), false, 2));
}

#[test]
fn a_broker_without_room_for_a_session_is_told_everything_each_time() {
    let mut reader = Reader::new();
    for offset in 0..3 {
        let call = reader.call();
        assert_eq!((session(&call), call.offsets()), ((0, 0), vec![(part(0), offset), (part(1), 0)]));
        let next = offset + 1;
        reader.answer(&call, 0, vec![(part(0), Ok(fetched(offset, 1, next))), (part(1), Ok(fetched(0, 0, 0)))]);
        assert_eq!(reader.taken(), [(0, offset)]);
    }
}

#[test]
fn an_answer_without_a_session_is_the_last_one_of_it() {
    let mut reader = Reader::in_session();
    let call = reader.call();
    reader.answer(&call, 0, vec![(part(0), Ok(fetched(1, 1, 2)))]);
    assert_eq!(reader.taken(), [(0, 1)]);
    let call = reader.call();
    assert_eq!((session(&call), call.offsets()), ((0, 0), vec![(part(0), 2), (part(1), 0)]));
}

#[test]
fn an_answer_that_does_not_fit_the_session_counts_for_nothing() {
    let strangers = vec![(part(0), Ok(fetched(1, 1, 2))), (part(5), Ok(fetched(0, 1, 1)))];
    for (session_id, replies) in [(77, strangers), (78, vec![(part(0), Ok(fetched(1, 1, 2)))])] {
        let mut reader = Reader::in_session();
        let call = reader.call();
        reader.answer(&call, session_id, replies);
        assert_eq!(reader.taken(), []);
        assert_eq!(reader.poll(), None, "a broker that answers so is given a moment");
        reader.now = reader.now + WAIT;
        let call = reader.call();
        assert_eq!((session(&call), call.offsets()), ((77, 0), vec![(part(0), 1), (part(1), 0)]));
    }
}

#[test]
fn a_first_answer_that_leaves_a_partition_out_begins_no_session() {
    let mut reader = Reader::new();
    let call = reader.call();
    reader.answer(&call, 77, vec![(part(0), Ok(fetched(0, 1, 1)))]);
    let call = reader.call();
    assert_eq!((session(&call), call.offsets()), ((77, 0), vec![(part(0), 1)]));
}

#[test]
fn what_a_broker_never_told_of_is_asked_for_again_later() {
    let mut reader = Reader::in_session();
    let call = reader.call();
    reader.answer(&call, 77, vec![(part(1), Err(ErrorCode::OffsetNotAvailable))]);
    reader.now = reader.now + WAIT;
    let call = reader.call();
    reader.answer(&call, 77, Vec::new());
    assert_eq!(reader.call().request.forgotten, [(part(1), TOPIC)], "it waits");
    reader.now = reader.now + WAIT;
    assert_eq!(reader.call().offsets(), [(part(1), 0)]);
}

#[test]
fn a_refusal_of_the_whole_fetch_is_one_of_each_partition() {
    let mut reader = Reader::in_session();
    let call = reader.call();
    reader.refuse(&call, ErrorCode::TopicAuthorizationFailed);
    for partition in [part(0), part(1)] {
        match reader.fetcher.poll_error() {
            Some(FetchError::Refused { topic_partition, refusal }) => {
                assert_eq!((topic_partition, refusal.code()), (partition, ErrorCode::TopicAuthorizationFailed));
            }
            other => panic!("a refusal, not {other:?}"),
        }
    }
    assert_eq!(reader.poll(), None);
}

#[test]
fn what_becomes_due_while_a_fetch_is_held_gets_a_session_of_its_own() {
    let mut reader = Reader::in_session();
    let held = reader.call();
    reader.fetcher.seek(&part(1), Position::Offset(9));
    let second = reader.call();
    assert_eq!((second.slot, session(&second), second.offsets()), (1, (0, 0), vec![(part(1), 9)]));
    reader.answer(&held, 77, vec![(part(1), Ok(fetched(0, 1, 20)))]);
    assert_eq!(reader.taken(), [], "asked for before the seek");
    assert_eq!(reader.call().request.forgotten, [(part(1), TOPIC)]);
}

#[test]
fn the_end_names_the_sessions_that_brokers_may_hold() {
    let mut reader = Reader::in_session();
    assert_eq!(reader.fetcher.close_sessions(), [(1, 77)]);
    assert_eq!(reader.fetcher.close_sessions(), []);
    let mut reader = Reader::in_session();
    let call = reader.call();
    reader.fetcher.handle_lost(reader.now, call.id);
    assert_eq!(reader.fetcher.close_sessions(), [(1, 77)], "in doubt");
    assert_eq!(Reader::new().fetcher.close_sessions(), []);
}

// --- a reader against brokers ---

const PARTITIONS: i32 = 5;

#[derive(Default)]
struct BrokerSession {
    epoch: i32,
    /// What is asked, and the end that was told.
    partitions: BTreeMap<TopicPartition, (Wanted, Option<Offset>)>,
}

/// Three nodes with the rules of KIP-227, written down a second time.
#[derive(Default)]
struct Cluster {
    ends: BTreeMap<TopicPartition, Offset>,
    leaders: Vec<(i32, i32)>,
    sessions: BTreeMap<(i32, i32), BrokerSession>,
    last_id: i32,
    said: usize,
    refused: usize,
    incremental: usize,
}

impl Cluster {
    fn handle(&mut self, call: &FetchCall, chance: &mut Chance) -> FetchReply {
        let request = &call.request;
        let (node, id) = (call.node, request.session_id);
        self.said += request.partitions.len();
        let reply = |session_id, result| FetchReply { session_id, result };
        if request.session_epoch == 0 {
            self.sessions.remove(&(node, id));
            let mut session = BrokerSession { epoch: 1, ..BrokerSession::default() };
            session.partitions = request.partitions.iter().map(|(it, wanted)| (it.clone(), (*wanted, None))).collect();
            let replies = self.read(node, &mut session, true, chance);
            if chance.one_in(1, 4) {
                return reply(0, Ok(replies));
            }
            self.last_id += 1;
            self.sessions.insert((node, self.last_id), session);
            return reply(self.last_id, Ok(replies));
        }
        let Some(mut session) = self.sessions.remove(&(node, id)) else {
            self.refused += 1;
            return reply(0, Err(ErrorCode::FetchSessionIdNotFound));
        };
        if session.epoch != request.session_epoch {
            self.refused += 1;
            self.sessions.insert((node, id), session);
            return reply(0, Err(ErrorCode::InvalidFetchSessionEpoch));
        }
        self.incremental += 1;
        session.epoch += 1;
        for (topic_partition, wanted) in &request.partitions {
            session.partitions.entry(topic_partition.clone()).or_insert((*wanted, None)).0 = *wanted;
        }
        for (topic_partition, _) in &request.forgotten {
            assert!(session.partitions.remove(topic_partition).is_some(), "{topic_partition} is not in the session");
        }
        let replies = self.read(node, &mut session, false, chance);
        self.sessions.insert((node, id), session);
        reply(id, Ok(replies))
    }

    fn read(
        &self,
        node: i32,
        session: &mut BrokerSession,
        is_full: bool,
        chance: &mut Chance,
    ) -> Vec<(TopicPartition, PartitionReply)> {
        let mut replies = Vec::new();
        for (topic_partition, (wanted, told)) in &mut session.partitions {
            let place = usize::try_from(topic_partition.partition).expect("is positive");
            let (leader, epoch) = self.leaders[place];
            let refusal = if leader != node {
                Some(ErrorCode::NotLeaderOrFollower)
            } else if wanted.current_leader_epoch < epoch {
                Some(ErrorCode::FencedLeaderEpoch)
            } else {
                None
            };
            if let Some(code) = refusal {
                *told = None;
                replies.push((topic_partition.clone(), Err(code)));
                continue;
            }
            let end = self.ends[topic_partition];
            // A broker stops when the answer is full: who is behind it gets nothing this time.
            let count = if chance.one_in(1, 4) { 0 } else { (end - wanted.offset).clamp(0, 4) };
            if is_full || count > 0 || *told != Some(end) {
                *told = Some(end);
                let count = i32::try_from(count).expect("is small");
                replies.push((topic_partition.clone(), Ok(fetched(wanted.offset, count, end))));
            }
        }
        replies
    }
}

/// A course of events from a seed; returns how much of it was incremental, and refused.
fn run(seed: u64) -> (usize, usize) {
    let mut chance = Chance::from_seed(seed);
    let mut cluster = Cluster { leaders: vec![(1, 0); 5], ..Cluster::default() };
    for partition in 0..PARTITIONS {
        cluster.ends.insert(part(partition), 0);
        cluster.leaders[usize::try_from(partition).expect("fits")].0 = 1 + partition % 3;
    }
    let mut reader = Reader::new();
    reader.fetcher.unassign_all();
    for partition in 0..PARTITIONS {
        reader.fetcher.assign(part(partition), Position::Offset(0));
    }
    reader.metadata = metadata(TOPIC, &cluster.leaders);
    let mut next: BTreeMap<i32, Offset> = (0..PARTITIONS).map(|partition| (partition, 0)).collect();
    let mut held: Vec<(FetchCall, FetchReply)> = Vec::new();
    for step in 0..700 {
        // After a while nothing goes wrong any more, and all must be read.
        let is_bad = step < 500;
        let partition = i32::try_from(chance.below(5)).expect("fits");
        match chance.below(12) {
            0..=3 if is_bad => *cluster.ends.get_mut(&part(partition)).expect("is there") += 1,
            4 if is_bad => {
                let leader = &mut cluster.leaders[usize::try_from(partition).expect("fits")];
                *leader = (1 + leader.0 % 3, leader.1 + 1);
            }
            5 if is_bad => drop(cluster.sessions.pop_first()),
            6 => reader.fetcher.pause(&part(partition), is_bad && chance.one_in(1, 2)),
            7 if is_bad => {
                // Given away and taken back, from where the user is.
                reader.fetcher.assign(part(partition), Position::Offset(next[&partition]));
            }
            8 => reader.metadata = metadata(TOPIC, &cluster.leaders),
            _ => {}
        }
        for _ in 0..2 {
            match reader.fetcher.poll_request(reader.now, &reader.metadata) {
                Some(Outgoing::Fetch(call)) if is_bad && chance.one_in(1, 20) => {
                    reader.fetcher.handle_lost(reader.now, call.id);
                }
                Some(Outgoing::Fetch(call)) => {
                    let reply = cluster.handle(&call, &mut chance);
                    held.push((call, reply));
                }
                Some(Outgoing::RefreshMetadata(_)) => {
                    reader.metadata = metadata(TOPIC, &cluster.leaders);
                    reader.fetcher.handle_metadata(reader.now);
                }
                Some(Outgoing::Validate(call)) => {
                    let end = EpochEnd { leader_epoch: -1, end_offset: -1 };
                    let replies = call.partitions.iter().map(|it| (it.topic_partition.clone(), Ok(end)));
                    reader.fetcher.handle_validated(reader.now, call.id, replies.collect());
                }
                None => {}
            }
        }
        if !held.is_empty() && chance.one_in(2, 3) {
            let which = usize::try_from(chance.below(held.len() as u64)).expect("fits");
            let (call, reply) = held.swap_remove(which);
            if is_bad && chance.one_in(1, 12) {
                reader.fetcher.handle_lost(reader.now, call.id);
            } else {
                reader.fetcher.handle_reply(reader.now, call.id, reply);
            }
        }
        if chance.one_in(1, 3) {
            for (partition, offset) in reader.taken() {
                let expected = next.get_mut(&partition).expect("is read");
                assert_eq!(offset, *expected, "seed {seed}, step {step}: partition {partition}");
                *expected += 1;
            }
        }
        if step == 500 {
            (0..PARTITIONS).for_each(|partition| reader.fetcher.pause(&part(partition), false));
        }
        reader.now = reader.now + Duration::from_millis(5);
    }
    for (partition, offset) in reader.taken() {
        assert_eq!(offset, next[&partition], "seed {seed}: partition {partition}");
        *next.get_mut(&partition).expect("is read") += 1;
    }
    for partition in 0..PARTITIONS {
        let end = cluster.ends[&part(partition)];
        assert_eq!(next[&partition], end, "seed {seed}: partition {partition} is read to its end");
        assert_eq!(reader.fetcher.end(&part(partition)), Some(end), "seed {seed}: partition {partition} knows its end");
    }
    assert_eq!(reader.fetcher.poll_error(), None, "seed {seed}");
    (cluster.incremental, cluster.refused)
}

#[test]
fn whatever_becomes_of_sessions_each_record_comes_once_and_in_order() {
    let (mut incremental, mut refused) = (0, 0);
    for seed in 0..100 {
        let (some, others) = run(seed);
        incremental += some;
        refused += others;
    }
    assert!(incremental > 5_000 && refused > 100, "sessions were used and lost: {incremental}, {refused}");
}
