//! What Apache Kafka 4.4 wrote to `__consumer_offsets` is read, means what Kafka's own dump tool says, and is written again to
//! the same bytes.

use std::collections::BTreeMap;

use atonce_coordinator::group::classic::State;
use atonce_coordinator::group::consumer::{ConsumerState, MemberState};
use atonce_coordinator::group::{GroupConfig, GroupCoordinator, Record};
use atonce_coordinator::{Entry, Shard};
use atonce_kernel::{GroupId, Timestamp, TopicPartition};
use atonce_protocol::records::{batches, read_marker};
use bytes::Bytes;
use serde_json::Value;

mod recorded_data;
use recorded_data::{OFFSETS_PARTITIONS, unpacked};

/// A partition, read by us. Records of other kinds of groups, by key type.
fn read(partition: i32) -> (GroupCoordinator, BTreeMap<i16, usize>) {
    let log = unpacked(&format!("segments/__consumer_offsets-{partition}.log.gz"));
    let mut shard = GroupCoordinator::new(GroupConfig::default());
    let mut skipped = BTreeMap::new();
    for batch in batches(&log) {
        let batch = batch.expect("a whole batch");
        batch.validate().expect("a good batch");
        for record in batch.records().expect("not compressed") {
            let record = record.expect("a record");
            if batch.is_control() {
                let marker = read_marker(&record).expect("a marker");
                let producer = batch.producer();
                let entry = Entry::Marker { producer, outcome: marker.outcome, offset: record.offset };
                shard.apply(&entry).expect("a marker follows anything");
                continue;
            }
            let key = Bytes::copy_from_slice(record.key.expect("a key"));
            let value = record.value.map(Bytes::copy_from_slice);
            let Some(decoded) = Record::decode(key.clone(), value.clone()).expect("ours can be read") else {
                *skipped.entry(i16::from_be_bytes([key[0], key[1]])).or_default() += 1;
                continue;
            };
            assert_eq!(decoded.encode(), Ok((key, value)), "offset {} of {partition}", record.offset);
            let producer = batch.is_transactional().then(|| batch.producer());
            let timestamp = Timestamp(record.timestamp);
            let entry = Entry::Record { record: &decoded, producer, offset: record.offset, timestamp };
            shard.apply(&entry).expect("Kafka's log can be followed");
        }
    }
    (shard, skipped)
}

/// A group, and where it reads.
type At = (String, TopicPartition);
/// A record's offset and what it says.
type Stands = (i64, Value);

/// The same, as the dump tells it: groups' last payloads, committed offsets, how many records there are of each key type.
#[derive(Default)]
struct Told {
    groups: BTreeMap<String, Value>,
    committed: BTreeMap<At, Stands>,
    /// By producer, in the order of the records.
    pending: BTreeMap<String, Vec<(At, Stands)>>,
    types: BTreeMap<i16, usize>,
}

fn tell(partition: i32) -> Told {
    let dump =
        String::from_utf8(unpacked(&format!("segments/__consumer_offsets-{partition}.dump.txt.gz"))).expect("text");
    let mut told = Told::default();
    let mut producer = String::new();
    for line in dump.lines() {
        if line.starts_with("baseOffset: ") {
            producer =
                if line.contains("isTransactional: true") { word_after(line, "producerId: ") } else { String::new() };
        } else if line.starts_with("| ") && line.contains("endTxnMarker: ") {
            let held = told.pending.remove(&producer).unwrap_or_default();
            if word_after(line, "endTxnMarker: ") == "COMMIT" {
                for (key, (offset, value)) in held {
                    if told.committed.get(&key).is_none_or(|(known, _)| *known < offset) {
                        told.committed.insert(key, (offset, value));
                    }
                }
            }
        } else if line.starts_with("| ") {
            told.record(line, &producer);
        }
    }
    told
}

impl Told {
    fn record(&mut self, line: &str, producer: &str) {
        let (key, payload) = line.split_once(" payload: ").expect("a payload");
        let key: Value = serde_json::from_str(key.split_once(" key: ").expect("a key").1).expect("JSON");
        let payload: Value =
            if payload == "<DELETE>" { Value::Null } else { serde_json::from_str(payload).expect("JSON") };
        let key_type: i16 = key["type"].as_str().expect("a type").parse().expect("a number");
        *self.types.entry(key_type).or_default() += 1;
        let text = |name: &str| key["data"][name].as_str().expect("text").to_owned();
        match key_type {
            1 => {
                let partition = key["data"]["partition"].as_i64().expect("a number");
                let at = (text("group"), TopicPartition::new(text("topic"), i32::try_from(partition).unwrap()));
                let offset: i64 = word_after(line, "offset: ").parse().expect("a number");
                if producer.is_empty() {
                    self.committed.insert(at, (offset, payload["data"].clone()));
                } else {
                    self.pending.entry(producer.to_owned()).or_default().push((at, (offset, payload["data"].clone())));
                }
            }
            2 if payload.is_null() => assert!(self.groups.remove(&text("group")).is_some()),
            2 => assert!(!self.groups.insert(text("group"), payload["data"].clone()).is_some_and(|it| it.is_null())),
            _ => {}
        }
    }
}

fn word_after(line: &str, name: &str) -> String {
    let (_, rest) = line.split_once(name).expect(name);
    rest.split_whitespace().next().expect("a word").to_owned()
}

#[test]
fn groups_come_out_as_the_dump_says() {
    let mut seen = 0;
    for partition in OFFSETS_PARTITIONS {
        let (shard, _) = read(partition);
        let told = tell(partition);
        for (id, told) in &told.groups {
            let group = shard.group(&GroupId::from(id)).unwrap_or_else(|| panic!("{partition}: no group {id}"));
            assert_eq!(Value::from(group.generation), told["generation"], "{id}");
            assert_eq!(group.protocol_type.clone().unwrap_or_default(), told["protocolType"].as_str().unwrap(), "{id}");
            assert_eq!(group.protocol.as_deref(), told["protocol"].as_str(), "{id}");
            assert_eq!(group.leader.as_ref().map(|it| it.as_str()), told["leader"].as_str(), "{id}");
            assert_eq!(Value::from(group.since.0), told["currentStateTimestamp"], "{id}");
            let members = told["members"].as_array().unwrap();
            assert_eq!(group.members.len(), members.len(), "{id}");
            assert_eq!(group.state == State::Empty, members.is_empty(), "{id}");
            for told in members {
                let member = &group.members[told["memberId"].as_str().unwrap()];
                assert_eq!(member.instance.as_ref().map(|it| it.as_str()), told["groupInstanceId"].as_str());
                assert_eq!(Value::from(member.session_timeout_ms), told["sessionTimeout"]);
                assert_eq!(Value::from(member.rebalance_timeout_ms), told["rebalanceTimeout"]);
            }
            seen += 1;
        }
    }
    assert_eq!(seen, 7, "the recording has shrunk");
}

#[test]
fn consumer_groups_come_out_as_the_dump_says() {
    // Partition 42: a group of two that both have left, one of them static and by pattern.
    let (shard, _) = read(42);
    let group = shard.consumer_group(&GroupId::from("g-848")).expect("the group is there");
    assert_eq!((group.epoch, group.target_epoch, group.metadata_hash), (5, 5, 0));
    assert_eq!((group.state(), group.members.len()), (ConsumerState::Empty, 0));
    assert!(group.targets.is_empty() && group.patterns.is_empty() && group.instances.is_empty());
    // And one of librdkafka's that it left in the same way.
    let (shard, _) = read(11);
    let group = shard.consumer_groups().next().expect("a consumer group");
    assert_eq!((group.1.state(), group.1.target_epoch), (ConsumerState::Empty, group.1.epoch));
}

#[test]
fn a_consumer_group_in_the_middle_of_its_life_is_read() {
    // Partition 42 up to the moment when the static member has left for a while.
    let log = unpacked("segments/__consumer_offsets-42.log.gz");
    let mut shard = GroupCoordinator::new(GroupConfig::default());
    for record in
        batches(&log).flat_map(|batch| batch.unwrap().records().unwrap().map(Result::unwrap).collect::<Vec<_>>())
    {
        if record.offset > 18 {
            break;
        }
        let (key, value) = (record.key.unwrap(), record.value.map(Bytes::copy_from_slice));
        let decoded = Record::decode(Bytes::copy_from_slice(key), value).unwrap().unwrap();
        let timestamp = Timestamp(record.timestamp);
        shard.apply(&Entry::Record { record: &decoded, producer: None, offset: record.offset, timestamp }).unwrap();
    }
    let group = shard.consumer_group(&GroupId::from("g-848")).unwrap();
    assert_eq!((group.epoch, group.target_epoch, group.target_timestamp.0), (3, 3, 1_795_972_965_107));
    let member = &group.members["HYsA_BaISn22zTKcvbqoLQ"];
    assert_eq!(
        (member.current.epoch, member.current.previous_epoch, member.current.state),
        (3, 2, MemberState::Stable)
    );
    assert_eq!(member.current.assigned.values().next().unwrap(), &BTreeMap::from([(0, 2), (1, 2)]));
    assert_eq!(member.subscription.topics.iter().map(ToString::to_string).collect::<Vec<_>>(), ["in"]);
    let away = &group.members["wj_XqwBDRsyBb4UabhTCRQ"];
    assert_eq!((away.current.epoch, &*away.subscription.pattern), (-2, "in|out"));
    assert_eq!(away.current.assigned.values().next().unwrap(), &BTreeMap::from([(0, 0), (1, 0), (2, 0)]));
    assert_eq!(group.patterns["in|out"].topics.len(), 2);
    assert_eq!(group.instances.len(), 1);
}

#[test]
fn members_and_assignments_of_a_rebalance_are_read() {
    // Partition 15, record 3: generation 3 of a cooperative group of two, one of them static.
    let log = unpacked("segments/__consumer_offsets-15.log.gz");
    let record = batches(&log).nth(3).unwrap().unwrap();
    let record = record.records().unwrap().next().unwrap().unwrap();
    let (key, value) = (record.key.unwrap(), record.value.unwrap());
    let decoded = Record::decode(Bytes::copy_from_slice(key), Some(Bytes::copy_from_slice(value))).unwrap().unwrap();
    let mut shard = GroupCoordinator::new(GroupConfig::default());
    shard.apply(&Entry::Record { record: &decoded, producer: None, offset: 3, timestamp: Timestamp(0) }).unwrap();
    let group = shard.group(&GroupId::from("g-coop")).unwrap();
    assert!(matches!(group.state, State::Stable { .. }));
    assert_eq!((group.generation, group.protocol.as_deref()), (3, Some("cooperative-sticky")));
    assert_eq!(group.instances.keys().map(|it| it.as_str()).collect::<Vec<_>>(), ["static-1"]);
    assert_eq!(group.members.len(), 2);
    assert!(group.members.values().all(|member| !member.assignment.is_empty()));
    assert!(group.members.values().all(|member| member.protocols[0].name == "cooperative-sticky"));
}

#[test]
fn offsets_come_out_as_the_dump_says() {
    let mut seen = 0;
    for partition in OFFSETS_PARTITIONS {
        let (shard, _) = read(partition);
        let told = tell(partition);
        assert!(told.pending.is_empty());
        for ((id, at), (_, told)) in &told.committed {
            let offset = shard.committed(&GroupId::from(id), at).unwrap_or_else(|| panic!("{id} {at}"));
            assert_eq!(Value::from(offset.offset), told["offset"], "{id} {at}");
            assert_eq!(Value::from(offset.leader_epoch), told["leaderEpoch"], "{id} {at}");
            assert_eq!(Value::from(&*offset.metadata), told["metadata"], "{id} {at}");
            assert_eq!(Value::from(offset.commit_timestamp.0), told["commitTimestamp"], "{id} {at}");
            assert_eq!(Value::from(offset.topic_id.to_string()), told["topicId"], "{id} {at}");
            seen += 1;
        }
        let groups = shard.groups().map(|(id, _)| id).chain(shard.consumer_groups().map(|(id, _)| id));
        let all: usize = groups.map(|id| shard.committed_of(id).count()).sum();
        assert_eq!(all, told.committed.len(), "partition {partition}: nothing else is committed");
    }
    assert_eq!(seen, 24, "the recording has shrunk");
}

#[test]
fn records_of_other_groups_are_skipped_and_counted() {
    let mut all = BTreeMap::new();
    for partition in OFFSETS_PARTITIONS {
        let (_, skipped) = read(partition);
        let told = tell(partition).types.into_iter().filter(|(key_type, _)| *key_type > 16).collect();
        assert_eq!(skipped, told, "partition {partition}");
        for (key_type, count) in skipped {
            *all.entry(key_type).or_insert(0) += count;
        }
    }
    assert!(all.keys().any(|it| *it >= 17), "streams: {all:?}");
}
