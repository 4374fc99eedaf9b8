//! The producer against a model of partition logs, over a network that loses requests and answers, and brokers that
//! refuse: every record at most once, in order, and acknowledged only if it is there.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use atonce_client_core::metadata::Metadata;
use atonce_client_core::producer::{
    Ack, BatchId, BatchReply, IdentityRequest, Outgoing, ProduceCall, Producer, ProducerConfig, Role,
};
use atonce_client_core::transaction::{CoordinatorReply, Protocol, TransactionManager};
use atonce_kernel::chance::Chance;
use atonce_kernel::{Monotonic, ProducerIdentity, Sequence, Timestamp, TopicPartition};
use atonce_protocol::ErrorCode;
use atonce_protocol::messages::metadata_response::{
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use atonce_protocol::records::{BatchView, Compression};

const PARTITIONS: i32 = 2;

/// A partition's log, and what a broker keeps of producers: the last five batches of each.
#[derive(Default)]
struct Log {
    records: Vec<Vec<u8>>,
    producers: BTreeMap<ProducerIdentity, VecDeque<(Sequence, Sequence, i64)>>,
}

impl Log {
    fn append(&mut self, bytes: &[u8]) -> Result<i64, ErrorCode> {
        let batch = BatchView::new(bytes).expect("a whole batch");
        batch.validate().expect("a sound batch");
        let (first, last) = (batch.base_sequence(), batch.last_sequence());
        let known = self.producers.entry(batch.producer()).or_default();
        if let Some((.., offset)) = known.iter().find(|(a, b, _)| (*a, *b) == (first, last)) {
            return Ok(*offset);
        }
        if known.back().is_some_and(|(_, before, _)| before.next() != first) {
            return Err(ErrorCode::OutOfOrderSequenceNumber);
        }
        let offset = i64::try_from(self.records.len()).expect("fits");
        known.push_back((first, last, offset));
        if known.len() > 5 {
            known.pop_front();
        }
        for record in batch.records().expect("is not compressed") {
            self.records.push(record.expect("is sound").value.expect("has a value").to_vec());
        }
        Ok(offset)
    }
}

struct World {
    chance: Chance,
    now: Monotonic,
    producer: Producer,
    metadata: Metadata,
    logs: BTreeMap<TopicPartition, Log>,
    /// Content by identity, partition and sequence: to see that none is used twice.
    sequences: BTreeMap<(ProducerIdentity, TopicPartition, i32), Vec<u8>>,
    /// Requests on their way, in order.
    network: VecDeque<ProduceCall>,
    next_id: i64,
    sent: BTreeMap<(BatchId, u32), (TopicPartition, Vec<u8>)>,
    is_calm: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let config = ProducerConfig {
            linger: Duration::from_millis(2),
            compression: Compression::None,
            batch_bytes_max: 200,
            request_bytes_max: 10_000,
            delivery_timeout: Duration::from_secs(20),
            retry_backoff: atonce_client_core::backoff::Backoff::constant(Duration::from_millis(10)),
        };
        let mut metadata = Metadata::default();
        let partitions = (0..PARTITIONS).map(|partition_index| MetadataResponsePartition {
            partition_index,
            leader_id: 1,
            ..MetadataResponsePartition::default()
        });
        metadata.handle_response(&MetadataResponse {
            brokers: vec![MetadataResponseBroker { node_id: 1, ..MetadataResponseBroker::default() }],
            topics: vec![MetadataResponseTopic {
                name: Some("t".to_owned()),
                partitions: partitions.collect(),
                ..MetadataResponseTopic::default()
            }],
            ..MetadataResponse::default()
        });
        Self {
            chance: Chance::from_seed(seed),
            now: Monotonic::START,
            producer: Producer::new(config, Role::Idempotent(IdentityRequest::Wanted { not_before: Monotonic::START })),
            metadata,
            logs: BTreeMap::new(),
            sequences: BTreeMap::new(),
            network: VecDeque::new(),
            next_id: 0,
            sent: BTreeMap::new(),
            is_calm: false,
        }
    }

    fn pass(&mut self, ms: u64) {
        self.now = self.now + Duration::from_millis(ms);
    }

    fn send(&mut self, number: u32) {
        let partition = i32::try_from(self.chance.below(u64::try_from(PARTITIONS).expect("fits"))).expect("fits");
        let topic_partition = TopicPartition::new("t", partition);
        let value = format!("{number:06}").into_bytes();
        let appended =
            self.producer.append(self.now, &topic_partition, Timestamp(0), None, Some(&value), &[]).expect("is small");
        self.sent.insert((appended.batch, appended.index), (topic_partition, value));
    }

    fn pump(&mut self) {
        while let Some(outgoing) = self.producer.poll_request(self.now, &self.metadata) {
            match outgoing {
                Outgoing::Coordinator(_) => {
                    if !self.is_calm && self.chance.one_in(1, 3) {
                        self.producer.handle_coordinator_lost(self.now, true);
                    } else {
                        self.next_id += 1;
                        let identity = ProducerIdentity::new(self.next_id, 0);
                        let reply = CoordinatorReply::InitProducerId(Ok(identity));
                        self.producer.handle_coordinator_reply(self.now, reply);
                    }
                }
                Outgoing::RefreshMetadata(_) => self.producer.handle_metadata(self.now),
                Outgoing::Produce(call) => {
                    self.check_sequences(&call);
                    self.network.push_back(call);
                    assert!(self.network.len() <= 5, "at most five are in flight");
                }
            }
        }
    }

    fn check_sequences(&mut self, call: &ProduceCall) {
        for (topic_partition, bytes) in &call.batches {
            let batch = BatchView::new(bytes).expect("a whole batch");
            for (place, record) in (0..).zip(batch.records().expect("is not compressed")) {
                let value = record.expect("is sound").value.expect("has a value").to_vec();
                let key = (batch.producer(), topic_partition.clone(), batch.base_sequence().plus(place).0);
                let before = self.sequences.insert(key.clone(), value.clone());
                assert!(before.is_none_or(|before| before == value), "{key:?} is used again with other content");
            }
        }
    }

    /// The oldest request on its way meets its fate.
    fn deliver(&mut self) {
        let Some(call) = self.network.pop_front() else { return };
        let fate = if self.is_calm { 9 } else { self.chance.below(10) };
        match fate {
            // Lost with its connection, and all behind it with it; some arrived first.
            0 => {
                let arrives = self.chance.one_in(1, 2);
                if arrives {
                    self.append_all(&call);
                }
                self.producer.handle_produce_lost(self.now, call.id, true);
                for behind in std::mem::take(&mut self.network) {
                    if arrives && self.chance.one_in(1, 2) {
                        self.append_all(&behind);
                    }
                    self.producer.handle_produce_lost(self.now, behind.id, true);
                }
            }
            1 => self.refuse(&call, ErrorCode::NotLeaderOrFollower),
            2 => self.refuse(&call, ErrorCode::NotEnoughReplicas),
            3 => self.refuse(&call, ErrorCode::MessageTooLarge),
            4 => {
                // Written, and the answer is an error that may be said after the append too.
                self.append_all(&call);
                self.refuse(&call, ErrorCode::RequestTimedOut);
            }
            _ => {
                let replies = self.append_all(&call);
                self.producer.handle_produce_reply(self.now, call.id, replies);
            }
        }
    }

    fn append_all(&mut self, call: &ProduceCall) -> Vec<(TopicPartition, BatchReply)> {
        let append = |(topic_partition, bytes): &(TopicPartition, bytes::Bytes)| {
            let log = self.logs.entry(topic_partition.clone()).or_default();
            let reply = log.append(bytes);
            let reply = reply.map(|offset| Ack { base_offset: Some(offset), log_append_time: None });
            (topic_partition.clone(), reply.map_err(|code| (code, None)))
        };
        call.batches.iter().map(append).collect()
    }

    fn refuse(&mut self, call: &ProduceCall, code: ErrorCode) {
        let replies = call.batches.iter().map(|(it, _)| (it.clone(), Err((code, None)))).collect();
        self.producer.handle_produce_reply(self.now, call.id, replies);
    }

    fn settle(&mut self, acknowledged: &mut BTreeMap<TopicPartition, Vec<(i64, Vec<u8>)>>, lost: &mut Vec<Vec<u8>>) {
        while let Some(done) = self.producer.poll_done() {
            for place in 0..done.count {
                let index = done.first_index + place;
                let (topic_partition, value) =
                    self.sent.remove(&(done.batch, index)).expect("each record meets one fate, once");
                assert_eq!(topic_partition, done.topic_partition);
                match &done.result {
                    Ok(ack) => {
                        let offset = ack.base_offset.expect("the log says where") + i64::from(place);
                        acknowledged.entry(topic_partition).or_default().push((offset, value));
                    }
                    Err(error) if error.may_have_taken_effect() => {}
                    Err(_) => lost.push(value),
                }
            }
        }
    }
}

fn run(seed: u64) {
    let mut world = World::new(seed);
    let mut acknowledged = BTreeMap::new();
    let mut lost = Vec::new();
    let mut number = 0;
    for _ in 0..400 {
        match world.chance.below(4) {
            0 => {
                for _ in 0..world.chance.below(20) {
                    world.send(number);
                    number += 1;
                }
            }
            1 => world.deliver(),
            2 => {
                let ms = world.chance.below(30);
                world.pass(ms);
            }
            _ => world.pump(),
        }
        world.settle(&mut acknowledged, &mut lost);
    }
    world.is_calm = true;
    world.producer.flush();
    while !world.sent.is_empty() {
        world.pass(5);
        world.pump();
        world.deliver();
        world.settle(&mut acknowledged, &mut lost);
        assert!(world.now.since_start() < Duration::from_secs(60), "seed {seed}: {} left", world.sent.len());
    }
    assert_eq!(world.producer.buffered_bytes(), 0, "seed {seed}");
    for (topic_partition, log) in &world.logs {
        for pair in log.records.windows(2) {
            let [before, after] = pair else { unreachable!("windows of two") };
            let texts = (String::from_utf8_lossy(before), String::from_utf8_lossy(after));
            assert!(before < after, "seed {seed}: {topic_partition} has each record once, in order, not {texts:?}");
        }
        for (offset, value) in acknowledged.get(topic_partition).into_iter().flatten() {
            let found = usize::try_from(*offset).ok().and_then(|offset| log.records.get(offset));
            assert_eq!(found, Some(value), "seed {seed}: acknowledged at {offset}");
        }
        for value in &lost {
            assert!(!log.records.contains(value), "seed {seed}: {value:?} was said not to be written");
        }
    }
    let count: usize = acknowledged.values().map(Vec::len).sum();
    assert!(count > 0, "seed {seed}: nothing was acknowledged");
}

#[test]
fn records_are_written_at_most_once_and_in_order_over_a_bad_network() {
    for seed in 0..200 {
        run(seed);
    }
}

fn transactional() -> (Producer, Metadata) {
    let mut world = World::new(0);
    let mut manager = TransactionManager::new();
    manager.initialize();
    world.producer = Producer::new(
        ProducerConfig {
            linger: Duration::from_millis(2),
            compression: Compression::None,
            batch_bytes_max: 200,
            request_bytes_max: 10_000,
            delivery_timeout: Duration::from_secs(20),
            retry_backoff: atonce_client_core::backoff::Backoff::constant(Duration::from_millis(10)),
        },
        Role::Transactional(manager),
    );
    let init = world.producer.poll_request(Monotonic::START, &world.metadata);
    assert!(matches!(init, Some(Outgoing::Coordinator(_))));
    let identity = ProducerIdentity::new(1, 0);
    world.producer.handle_coordinator_reply(Monotonic::START, CoordinatorReply::InitProducerId(Ok(identity)));
    (world.producer, world.metadata)
}

fn append(producer: &mut Producer, now: Monotonic) {
    producer.append(now, &TopicPartition::new("t", 0), Timestamp(0), None, Some(b"v"), &[]).expect("is small");
}

#[test]
fn in_the_old_protocol_no_batch_leaves_before_its_partition_is_in_the_transaction() {
    let (mut producer, metadata) = transactional();
    assert!(producer.transaction().expect("is transactional").begin(Protocol::V1));
    append(&mut producer, Monotonic::START);
    let later = Monotonic::at(Duration::from_millis(10));
    let asked = producer.poll_request(later, &metadata);
    assert!(matches!(asked, Some(Outgoing::Coordinator(_))), "{asked:?}");
    assert_eq!(producer.poll_request(later, &metadata), None);
    let added = vec![(TopicPartition::new("t", 0), ErrorCode::None)];
    producer.handle_coordinator_reply(later, CoordinatorReply::AddPartitions(added));
    let written = producer.poll_request(later, &metadata);
    assert!(matches!(written, Some(Outgoing::Produce(call)) if call.protocol == Some(Protocol::V1)));
}

#[test]
fn an_abort_drops_what_was_not_sent_and_waits_for_what_was() {
    let (mut producer, metadata) = transactional();
    assert!(producer.transaction().expect("is transactional").begin(Protocol::V2));
    append(&mut producer, Monotonic::START);
    let later = Monotonic::at(Duration::from_millis(10));
    let Some(Outgoing::Produce(call)) = producer.poll_request(later, &metadata) else { panic!("a batch is due") };
    append(&mut producer, later);
    producer.transaction().expect("is transactional").end(atonce_kernel::Outcome::Abort).expect("may end");
    assert_eq!(producer.poll_request(later, &metadata), None, "the end waits for the batch in flight");
    let dropped = producer.poll_done().expect("the other is dropped");
    assert!(dropped.result.is_err());
    let ack = Ack { base_offset: Some(0), log_append_time: None };
    producer.handle_produce_reply(later, call.id, vec![(TopicPartition::new("t", 0), Ok(ack))]);
    assert!(
        matches!(producer.poll_request(later, &metadata), Some(Outgoing::Coordinator(_))),
        "and then it is asked for"
    );
}

#[test]
fn nothing_new_leaves_while_a_batch_is_sent_again() {
    let mut world = World::new(0);
    world.is_calm = true;
    world.pump();
    append(&mut world.producer, world.now);
    world.producer.flush();
    world.pump();
    world.deliver();
    append(&mut world.producer, world.now);
    world.producer.flush();
    world.pump();
    let lost = world.network.pop_front().expect("is in flight");
    world.producer.handle_produce_lost(world.now, lost.id, true);
    append(&mut world.producer, world.now);
    world.producer.flush();
    world.pass(10);
    world.pump();
    assert_eq!(world.network.len(), 1, "the same again");
    assert_eq!(world.network[0].batches, lost.batches);
    world.deliver();
    world.pump();
    assert_eq!(world.network.len(), 1, "and then the next");
}

#[test]
fn linger_and_size_decide_when_a_batch_leaves() {
    let mut world = World::new(0);
    world.is_calm = true;
    world.pump();
    append(&mut world.producer, Monotonic::START);
    assert_eq!(world.producer.poll_request(Monotonic::START, &world.metadata), None);
    let due = world.producer.poll_timeout(Monotonic::START).expect("it lingers");
    assert_eq!(due, Monotonic::at(Duration::from_millis(2)));
    assert!(matches!(world.producer.poll_request(due, &world.metadata), Some(Outgoing::Produce(_))));
    assert_eq!(world.producer.poll_timeout(due), None, "what is in flight waits for its answer, not for time");

    let mut world = World::new(0);
    world.is_calm = true;
    world.pump();
    for _ in 0..40 {
        append(&mut world.producer, Monotonic::START);
    }
    let full = world.producer.poll_request(Monotonic::START, &world.metadata);
    assert!(matches!(full, Some(Outgoing::Produce(_))), "a full batch does not linger");
}
