//! What real clients asked of Apache Kafka 4.4 about groups and offsets is asked of our coordinator, and answered alike: not the
//! error codes only, but every field.

use std::collections::BTreeMap;
use std::sync::Arc;

use atonce_coordinator::group::consumer::command::GroupSettings;
use atonce_coordinator::group::consumer::topics::{TopicShape, TopicsImage};
use atonce_coordinator::group::wire::{self, Asked, Caller, FetchAsked, Topics};
use atonce_coordinator::group::{Command, GroupConfig, GroupCoordinator, Note, Reply, consumer};
use atonce_coordinator::{Context, Decision, Entry, Shard, Waiter};
use atonce_kernel::{Outcome, ProducerId, ProducerIdentity, Timestamp, TopicId, TopicName, Uuid};
use atonce_protocol::messages::consumer_group_heartbeat_request::ConsumerGroupHeartbeatRequest;
use atonce_protocol::messages::heartbeat_request::HeartbeatRequest;
use atonce_protocol::messages::join_group_request::JoinGroupRequest;
use atonce_protocol::messages::join_group_response::JoinGroupResponse;
use atonce_protocol::messages::leave_group_request::LeaveGroupRequest;
use atonce_protocol::messages::offset_commit_request::OffsetCommitRequest;
use atonce_protocol::messages::offset_fetch_request::OffsetFetchRequest;
use atonce_protocol::messages::sync_group_request::SyncGroupRequest;
use atonce_protocol::messages::txn_offset_commit_request::TxnOffsetCommitRequest;
use atonce_protocol::messages::txn_offset_commit_response::TxnOffsetCommitResponse;
use atonce_protocol::messages::write_txn_markers_request::WriteTxnMarkersRequest;
use atonce_protocol::{AnyResponse, ApiKey, ErrorCode, Message};
use bytes::BytesMut;

mod recorded_data;
use recorded_data::{Exchange, conversation};

/// A broker that has every topic: by id it is called by its id.
struct AllTopics;

impl Topics for AllTopics {
    fn name_of(&self, id: TopicId) -> Option<TopicName> {
        Some(TopicName::from(id.to_string()))
    }

    fn id_of(&self, _: &str) -> Option<TopicId> {
        Some(TopicId::ZERO)
    }

    fn has_partition(&self, _: &str, _: i32) -> bool {
        true
    }
}

/// The topics that the recorded consumer group reads: `lPzwcd9ARm2bNKm8cPVDwA` and `rJuXOfT5Q4qUGjDH9UxqJA`.
fn recorded_topics() -> TopicsImage {
    let shape = |id: u128, partitions| TopicShape { id: Uuid(id.to_be_bytes()), partitions };
    TopicsImage::new(
        1,
        [
            (TopicName::from("in"), shape(0x94fc_f071_df40_466d_9b34_a9bc_70f5_43c0, 2)),
            (TopicName::from("out"), shape(0xac9b_9739_f4f9_438a_941a_30c7_f54c_6a24, 3)),
        ],
    )
}

impl Exchange {
    fn is_refused_by_the_node(&self) -> bool {
        let answer = JoinGroupResponse::decode(&mut self.response.clone(), self.version).unwrap();
        [ErrorCode::NotCoordinator, ErrorCode::CoordinatorLoadInProgress]
            .map(ErrorCode::to_i16)
            .contains(&answer.error_code)
    }

    fn is_concurrent_transaction(&self) -> bool {
        let answer = TxnOffsetCommitResponse::decode(&mut self.response.clone(), self.version).unwrap();
        let mut partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
        partitions.any(|partition| partition.error_code == ErrorCode::ConcurrentTransactions.to_i16())
    }
}

/// What makes a response of a reply.
enum Shape {
    Join,
    Sync,
    Heartbeat,
    Leave,
    Commit(Asked),
    TxnCommit(Asked),
    Fetch(FetchAsked),
    ConsumerHeartbeat,
}

struct Replayed {
    shard: GroupCoordinator,
    log_end: i64,
    now: Timestamp,
    /// Requests that wait, by their place in the conversation.
    asked: BTreeMap<Waiter, (usize, Shape)>,
    answers: BTreeMap<usize, AnyResponse>,
    exchanges: Vec<Exchange>,
}

impl Replayed {
    fn run(name: &str) -> Self {
        let config = GroupConfig { initial_rebalance_delay_ms: 0, ..GroupConfig::default() };
        let mut shard = GroupCoordinator::new(config);
        shard.note(&Note::Topics(Arc::new(recorded_topics())));
        let mut replayed = Self {
            shard,
            log_end: 0,
            now: Timestamp(1_000_000),
            asked: BTreeMap::new(),
            answers: BTreeMap::new(),
            exchanges: conversation(name),
        };
        for place in 0..replayed.exchanges.len() {
            replayed.wait_until(Timestamp(1_000_000 + replayed.exchanges[place].asked_ms));
            replayed.exchange(place);
            replayed.tick();
        }
        replayed
    }

    fn exchange(&mut self, place: usize) {
        let exchange = &self.exchanges[place];
        let (version, mut request) = (exchange.version, exchange.request.clone());
        let caller = Caller { client_id: &exchange.client_id, host: "/127.0.0.1" };
        let (command, shape) = match exchange.key {
            // The node had just been started, and was loading its coordinator: ours would not have been asked.
            ApiKey::JoinGroup if exchange.is_refused_by_the_node() => return,
            // The transaction coordinator was still ending the last transaction: again, ours would not have been asked.
            ApiKey::TxnOffsetCommit if exchange.is_concurrent_transaction() => return,
            ApiKey::JoinGroup => {
                let join = JoinGroupRequest::decode(&mut request, version).unwrap();
                (Command::JoinGroup(wire::join_group(&join, version, &caller)), Shape::Join)
            }
            ApiKey::SyncGroup => {
                let sync = SyncGroupRequest::decode(&mut request, version).unwrap();
                (Command::SyncGroup(wire::sync_group(&sync, version)), Shape::Sync)
            }
            ApiKey::Heartbeat => {
                let beat = HeartbeatRequest::decode(&mut request, version).unwrap();
                (Command::Heartbeat(wire::heartbeat(&beat)), Shape::Heartbeat)
            }
            ApiKey::LeaveGroup => {
                let leave = LeaveGroupRequest::decode(&mut request, version).unwrap();
                (Command::LeaveGroup(wire::leave_group(&leave, version)), Shape::Leave)
            }
            ApiKey::OffsetCommit => {
                let commit = OffsetCommitRequest::decode(&mut request, version).unwrap();
                let (commit, asked) = wire::offset_commit(&commit, version, &AllTopics);
                (Command::OffsetCommit(commit), Shape::Commit(asked))
            }
            ApiKey::TxnOffsetCommit => {
                let commit = TxnOffsetCommitRequest::decode(&mut request, version).unwrap();
                let (commit, asked) = wire::txn_offset_commit(&commit, version, &AllTopics);
                (Command::TxnOffsetCommit(commit), Shape::TxnCommit(asked))
            }
            ApiKey::OffsetFetch => {
                let fetch = OffsetFetchRequest::decode(&mut request, version).unwrap();
                let mut groups = wire::offset_fetch(&fetch, version, &AllTopics);
                assert_eq!(groups.len(), 1, "the recorded clients ask for one group at a time");
                let (fetch, asked) = groups.remove(0);
                (Command::OffsetFetch(fetch), Shape::Fetch(asked))
            }
            ApiKey::ConsumerGroupHeartbeat => {
                let beat = ConsumerGroupHeartbeatRequest::decode(&mut request, version).unwrap();
                let beat = consumer::wire::heartbeat(&beat, version, &caller, GroupSettings::default());
                (Command::ConsumerGroupHeartbeat(beat), Shape::ConsumerHeartbeat)
            }
            // What the node tells itself: how transactions end.
            ApiKey::WriteTxnMarkers => {
                let markers = WriteTxnMarkersRequest::decode(&mut request, version).unwrap();
                for marker in
                    markers.markers.iter().filter(|it| it.topics.iter().any(|it| it.name == "__consumer_offsets"))
                {
                    let outcome = if marker.transaction_result { Outcome::Commit } else { Outcome::Abort };
                    let producer = ProducerIdentity::new(marker.producer_id, marker.producer_epoch);
                    self.shard.apply(&Entry::Marker { producer, outcome, offset: self.log_end }).unwrap();
                    self.log_end += 1;
                }
                return;
            }
            _ => return,
        };
        let waiter = Waiter(place as u64 + 1);
        let fresh_uuid = self.uuid_that_kafka_drew(place);
        let decision = self.decide(&command, waiter, fresh_uuid);
        self.asked.insert(waiter, (place, shape));
        self.take(decision);
    }

    /// The random part of the member id that was given out, so that ours is the same.
    fn uuid_that_kafka_drew(&self, place: usize) -> Uuid {
        let exchange = &self.exchanges[place];
        if exchange.key != ApiKey::JoinGroup {
            return Uuid::ZERO;
        }
        let answer = JoinGroupResponse::decode(&mut exchange.response.clone(), exchange.version).unwrap();
        let digits = answer.member_id.len().checked_sub(36).and_then(|start| answer.member_id.get(start..));
        let digits = digits.unwrap_or_default().replace('-', "");
        Uuid(u128::from_str_radix(&digits, 16).unwrap_or(0).to_be_bytes())
    }

    fn decide(&mut self, command: &Command, waiter: Waiter, fresh_uuid: Uuid) -> Decision<GroupCoordinator> {
        let context = Context { now: self.now, waiter, fresh_producer_id: ProducerId(0), fresh_uuid };
        let decision = self.shard.decide(&context, command);
        for record in &decision.records {
            let (producer, offset, timestamp) = (command.producer(), self.log_end, self.now);
            self.shard.apply(&Entry::Record { record, producer, offset, timestamp }).unwrap();
            self.log_end += 1;
        }
        for note in &decision.notes {
            self.shard.note(note);
        }
        decision
    }

    fn take(&mut self, decision: Decision<GroupCoordinator>) {
        for (waiter, reply) in decision.replies {
            let (place, shape) = self.asked.remove(&waiter).expect("each is answered once");
            let version = self.exchanges[place].version;
            self.answers.insert(place, respond(&reply, shape, version));
        }
    }

    fn tick(&mut self) {
        while self.shard.next_deadline().is_some_and(|deadline| deadline <= self.now) {
            let decision = self.decide(&Command::Tick, Waiter(0), Uuid::ZERO);
            self.take(decision);
        }
    }

    fn wait_until(&mut self, end: Timestamp) {
        while let Some(deadline) = self.shard.next_deadline().filter(|deadline| *deadline <= end) {
            self.now = deadline.max(self.now);
            self.tick();
        }
        self.now = end;
    }

    /// Holds our answers against Kafka's; how many there were of each kind.
    fn compare(self) -> BTreeMap<(ApiKey, i16), usize> {
        let mut compared = BTreeMap::new();
        for (place, ours) in &self.answers {
            let exchange = &self.exchanges[*place];
            let Exchange { place, key, version, response, .. } = exchange;
            let mut bytes = BytesMut::new();
            ours.encode(&mut bytes, *version).unwrap();
            if bytes != response.rest() {
                // As values it is easier to see where they differ.
                assert_eq!(
                    ours,
                    &AnyResponse::decode(*key, &mut response.clone(), *version).unwrap(),
                    "{place}: {key} v{version}"
                );
                panic!("{place}: {key} v{version}: the bytes differ");
            }
            *compared.entry((exchange.key, exchange.version)).or_default() += 1;
        }
        let waits: Vec<_> = self.asked.values().map(|(place, _)| &self.exchanges[*place].place).collect();
        assert!(waits.is_empty(), "Kafka answered, and we did not: {waits:?}");
        compared
    }
}

fn respond(reply: &Reply, shape: Shape, version: i16) -> AnyResponse {
    match (reply, shape) {
        (Reply::JoinGroup(reply), Shape::Join) => AnyResponse::JoinGroup(wire::join_group_response(reply, version)),
        (Reply::SyncGroup(reply), Shape::Sync) => AnyResponse::SyncGroup(wire::sync_group_response(reply)),
        (Reply::Heartbeat(error), Shape::Heartbeat) => AnyResponse::Heartbeat(wire::heartbeat_response(*error)),
        (Reply::LeaveGroup(reply), Shape::Leave) => AnyResponse::LeaveGroup(wire::leave_group_response(reply, version)),
        (Reply::OffsetsCommitted(answers), Shape::Commit(asked)) => {
            AnyResponse::OffsetCommit(asked.offset_commit_response(Ok(answers)))
        }
        (Reply::OffsetsCommitted(answers), Shape::TxnCommit(asked)) => {
            AnyResponse::TxnOffsetCommit(asked.txn_offset_commit_response(Ok(answers)))
        }
        (Reply::OffsetsFetched(offsets), Shape::Fetch(asked)) => {
            let groups: [(FetchAsked, Result<_, ErrorCode>); 1] = [(asked, offsets.clone())];
            AnyResponse::OffsetFetch(wire::offset_fetch_response(&groups, version, &AllTopics))
        }
        (Reply::ConsumerGroupHeartbeat(reply), Shape::ConsumerHeartbeat) => {
            AnyResponse::ConsumerGroupHeartbeat(consumer::wire::heartbeat_response(reply))
        }
        (reply, _) => panic!("another kind of answer: {reply:?}"),
    }
}

fn check(name: &str, expected: &[(ApiKey, i16, usize)]) {
    let compared = Replayed::run(name).compare();
    let expected: BTreeMap<_, _> = expected.iter().map(|(key, version, count)| ((*key, *version), *count)).collect();
    assert_eq!(compared, expected, "{name}: what was compared");
}

#[test]
fn java_in_transactions() {
    check(
        "java-txn",
        &[
            (ApiKey::JoinGroup, 9, 2),
            (ApiKey::SyncGroup, 5, 1),
            (ApiKey::LeaveGroup, 5, 1),
            (ApiKey::OffsetFetch, 9, 1),
            (ApiKey::TxnOffsetCommit, 6, 3),
        ],
    );
}

#[test]
fn java_in_a_consumer_group() {
    check(
        "java-group848",
        &[(ApiKey::ConsumerGroupHeartbeat, 1, 10), (ApiKey::OffsetFetch, 10, 2), (ApiKey::OffsetCommit, 10, 2)],
    );
}

#[test]
fn librdkafka_in_transactions() {
    check(
        "librdkafka-txn",
        &[
            (ApiKey::JoinGroup, 5, 2),
            (ApiKey::SyncGroup, 3, 1),
            (ApiKey::Heartbeat, 3, 1),
            (ApiKey::LeaveGroup, 1, 1),
            (ApiKey::OffsetFetch, 9, 1),
            (ApiKey::TxnOffsetCommit, 3, 3),
        ],
    );
}

#[test]
fn kafka_python_in_transactions() {
    check(
        "kafka-python-txn",
        &[
            (ApiKey::JoinGroup, 7, 3),
            (ApiKey::SyncGroup, 5, 2),
            (ApiKey::LeaveGroup, 5, 1),
            (ApiKey::OffsetFetch, 8, 1),
            (ApiKey::TxnOffsetCommit, 3, 3),
        ],
    );
}

#[test]
fn kafkajs_in_transactions() {
    check(
        "kafkajs-txn",
        &[
            (ApiKey::JoinGroup, 5, 2),
            (ApiKey::SyncGroup, 3, 1),
            (ApiKey::LeaveGroup, 3, 1),
            (ApiKey::OffsetFetch, 4, 1),
            (ApiKey::TxnOffsetCommit, 1, 3),
        ],
    );
}

#[test]
fn kafka_streams() {
    check(
        "streams-classic",
        &[
            (ApiKey::JoinGroup, 9, 2),
            (ApiKey::SyncGroup, 5, 1),
            (ApiKey::Heartbeat, 4, 2),
            (ApiKey::OffsetFetch, 9, 3),
            (ApiKey::TxnOffsetCommit, 6, 2),
        ],
    );
}
