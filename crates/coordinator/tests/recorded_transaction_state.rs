//! Apache Kafka's own `__transaction_state`, as eight client libraries left it: every record is read, written again to
//! the same bytes, followed, and decided once more by our coordinator from the request that must have led to it.

use std::collections::BTreeSet;
use std::path::Path;

use atonce_coordinator::transaction::{
    AddPartitions, Admission, Caller, Command, DecodeRecordError, EndTxn, InitProducerId, Protocol, Record, State,
    Transaction,
};
use atonce_coordinator::{Context, Entry, Shard, Waiter};
use atonce_kernel::{ProducerId, ProducerIdentity, Timestamp, TopicPartition, Uuid};
use atonce_protocol::messages::transaction_log_key::TransactionLogKey;
use atonce_protocol::messages::transaction_log_value::{PartitionsSchema, TransactionLogValue};
use atonce_protocol::records::batches;
use atonce_protocol::{DecodeError, Message};
use bytes::Bytes;

mod transaction_host;
use transaction_host::{Host, written};

/// A segment's name, and the key and value of each of its records.
type Segment = (String, Vec<(Bytes, Option<Bytes>)>);

fn recorded() -> Vec<Segment> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/segments");
    let mut segments = Vec::new();
    for file in std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()) {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        if !name.starts_with("__transaction_state") {
            continue;
        }
        let bytes = std::fs::read(&file).unwrap();
        let mut records = Vec::new();
        for batch in batches(&bytes) {
            let batch = batch.unwrap();
            batch.validate().unwrap();
            for record in batch.records().unwrap() {
                let record = record.unwrap();
                records.push((Bytes::copy_from_slice(record.key.unwrap()), record.value.map(Bytes::copy_from_slice)));
            }
        }
        segments.push((name, records));
    }
    segments.sort();
    assert_eq!(segments.len(), 12);
    assert_eq!(segments.iter().map(|(_, records)| records.len()).sum::<usize>(), 121);
    segments
}

#[test]
fn every_record_of_kafka_is_written_again_to_the_same_bytes() {
    for (key, value) in recorded().into_iter().flat_map(|(_, records)| records) {
        let (version, read) = TransactionLogKey::decode_versioned(key.clone()).unwrap();
        assert_eq!(read.encode_versioned(version).unwrap(), key);
        let value = value.unwrap();
        let (version, read) = TransactionLogValue::decode_versioned(value.clone()).unwrap();
        assert_eq!(read.encode_versioned(version).unwrap(), value);

        // Kafka lists partitions as its hash table has them, we in order; the rest of our own record is Kafka's.
        let record = Record::decode(key.clone(), Some(value.clone())).unwrap();
        let (our_key, our_value) = record.encode().unwrap();
        assert_eq!(our_key, key);
        let (_, ours) = TransactionLogValue::decode_versioned(our_value.unwrap()).unwrap();
        let sorted = TransactionLogValue { transaction_partitions: in_order(&read), ..read };
        assert_eq!(ours, sorted);
        assert_eq!(sorted.encode_versioned(1).unwrap().len(), value.len());
    }
}

fn in_order(value: &TransactionLogValue) -> Option<Vec<PartitionsSchema>> {
    let mut topics = value.transaction_partitions.clone()?;
    topics.iter_mut().for_each(|topic| topic.partition_ids.sort_unstable());
    topics.sort_by(|a, b| a.topic.cmp(&b.topic));
    Some(topics)
}

#[test]
fn every_log_of_kafka_can_be_followed_and_leaves_nothing_owed() {
    for (name, records) in recorded() {
        let mut host = Host::new();
        for (key, value) in records {
            host.append(Record::decode(key, value).unwrap()).unwrap_or_else(|corrupt| panic!("{name}: {corrupt}"));
        }
        assert!(host.obligations().is_empty(), "{name}");
        host.crash();
    }
}

#[test]
fn our_coordinator_decides_every_record_as_kafka_did() {
    for (name, records) in recorded() {
        let mut host = Host::new();
        for (offset, (key, value)) in records.into_iter().enumerate() {
            let record = Record::decode(key, value).unwrap();
            let transaction = record.transaction().unwrap();
            let before = host.shard.transaction(record.transactional_id()).cloned();
            let command = match (&transaction.state, &before) {
                (State::Complete { .. }, _) => written(host.obligations().first().unwrap()),
                (_, before) => request(&record, transaction, before.as_ref()),
            };
            let context = Context {
                now: transaction.last_update,
                waiter: Waiter(1),
                fresh_producer_id: ProducerId(transaction.producer.id.0),
                fresh_uuid: Uuid::ZERO,
            };
            let decision = host.shard.decide(&context, &command);
            assert_eq!(decision.records.first(), Some(&record), "{name}, offset {offset}: {command:?}");
            host.append(record).unwrap();
        }
    }
}

/// The request that must have led to this record.
fn request(record: &Record, transaction: &Transaction, before: Option<&Transaction>) -> Command {
    let transactional_id = record.transactional_id().clone();
    match (&transaction.state, transaction.protocol) {
        (State::Empty, _) => Command::InitProducerId(InitProducerId {
            version: 5,
            transactional_id: Some(transactional_id),
            transaction_timeout_ms: transaction.timeout_ms,
            expected: ProducerIdentity::NONE,
            enable_two_phase_commit: false,
            keep_prepared_transaction: false,
        }),
        (State::Ongoing { partitions, .. }, protocol) => {
            let known = match before.map(|before| &before.state) {
                Some(State::Ongoing { partitions, .. }) => partitions.clone(),
                _ => BTreeSet::new(),
            };
            let added: Vec<&TopicPartition> = partitions.difference(&known).collect();
            let is_offsets = added.iter().any(|partition| partition.topic.as_str() == "__consumer_offsets");
            Command::AddPartitions(AddPartitions {
                caller: match (protocol, is_offsets) {
                    (Protocol::V1, true) => Caller::AddOffsetsToTxn { version: 3 },
                    (Protocol::V1, false) => Caller::AddPartitionsToTxn { version: 3 },
                    (Protocol::V2, true) => Caller::TxnOffsetCommit { version: 5 },
                    (Protocol::V2, false) => Caller::Produce { version: 12 },
                },
                transactional_id,
                producer: transaction.producer,
                partitions: added.into_iter().map(|partition| (partition.clone(), Admission::Exists)).collect(),
            })
        }
        // An end that nobody asked for, by time-out or by another instance, leaves the record that an asked one does.
        (State::Prepared { outcome, .. }, protocol) => Command::EndTxn(EndTxn {
            version: match protocol {
                Protocol::V1 => 4,
                Protocol::V2 => 5,
            },
            transactional_id,
            producer: before.unwrap().producer,
            outcome: *outcome,
        }),
        (State::Complete { .. }, _) => panic!("a completion is not asked for"),
    }
}

fn key(transactional_id: &str) -> Bytes {
    TransactionLogKey { transactional_id: transactional_id.to_owned() }.encode_versioned(0).unwrap()
}

fn decoded(value: &TransactionLogValue) -> Result<Record, DecodeRecordError> {
    Record::decode(key("t"), Some(value.encode_versioned(1).unwrap()))
}

fn ongoing() -> TransactionLogValue {
    TransactionLogValue {
        producer_id: 7,
        producer_epoch: 3,
        transaction_status: 1,
        transaction_partitions: Some(vec![PartitionsSchema {
            topic: "x".to_owned(),
            partition_ids: vec![1, 0],
            ..Default::default()
        }]),
        ..Default::default()
    }
}

#[test]
fn values_of_version_0_are_read() {
    let value = ongoing().encode_versioned(0).unwrap();
    let record = Record::decode(key("t"), Some(value.clone())).unwrap();
    let transaction = record.transaction().unwrap();
    assert_eq!(transaction.protocol, Protocol::V1);
    assert_eq!(transaction.previous_producer_id, ProducerId(7));
    assert_eq!(transaction.state.name().as_str(), "Ongoing");
    let (version, read) = TransactionLogValue::decode_versioned(value.clone()).unwrap();
    assert_eq!(read.encode_versioned(version).unwrap(), value);
}

#[test]
fn a_tombstone_forgets() {
    let record = Record::decode(key("t"), None).unwrap();
    assert_eq!(record.transaction(), None);
    assert_eq!(record.encode().unwrap(), (key("t"), None));
    assert_eq!(record.to_string(), "t: expired");
}

#[test]
fn a_record_of_another_kind_is_told_from_damage() {
    let key = Bytes::from_static(&[0, 9, 1, 2, 3]);
    assert_eq!(Record::decode(key, None), Err(DecodeRecordError::UnknownKey { version: 9 }));
}

#[test]
fn what_no_coordinator_writes_is_refused() {
    let partitions = |status| DecodeRecordError::Partitions { state: status };
    use atonce_coordinator::transaction::StateName::{Empty, Ongoing, PrepareAbort, PrepareCommit};
    let refused = |value: TransactionLogValue| decoded(&value).unwrap_err();
    assert!(decoded(&ongoing()).is_ok());
    for status in [6, 7, 8, -1] {
        assert_eq!(
            refused(TransactionLogValue { transaction_status: status, ..ongoing() }),
            DecodeRecordError::Status { status }
        );
    }
    for (id, epoch) in [(-1, 0), (0, -1), (-1, -1)] {
        let producer = ProducerIdentity::new(id, epoch);
        assert_eq!(
            refused(TransactionLogValue { producer_id: id, producer_epoch: epoch, ..ongoing() }),
            DecodeRecordError::Producer { producer }
        );
    }
    assert!(decoded(&TransactionLogValue { producer_id: 0, producer_epoch: 0, ..ongoing() }).is_ok());
    for version in [3, -1] {
        assert_eq!(
            refused(TransactionLogValue { client_transaction_version: version, ..ongoing() }),
            DecodeRecordError::Protocol { version }
        );
    }
    assert!(decoded(&TransactionLogValue { client_transaction_version: 1, ..ongoing() }).is_ok());
    for (status, name) in [(1, Ongoing), (2, PrepareCommit), (3, PrepareAbort)] {
        let value = TransactionLogValue { transaction_status: status, transaction_partitions: None, ..ongoing() };
        assert_eq!(refused(value), partitions(name));
    }
    assert_eq!(refused(TransactionLogValue { transaction_status: 0, ..ongoing() }), partitions(Empty));
    let nothing = TransactionLogValue { transaction_status: 0, transaction_partitions: Some(Vec::new()), ..ongoing() };
    assert!(decoded(&nothing).is_ok());
}

#[test]
fn bytes_that_are_no_record_are_refused_not_panicked_over() {
    let value = ongoing().encode_versioned(1).unwrap();
    for length in 0..value.len() {
        assert!(matches!(Record::decode(key("t"), Some(value.slice(..length))), Err(DecodeRecordError::Bytes(_))));
    }
    for length in 0..key("t").len() {
        assert!(matches!(Record::decode(key("t").slice(..length), None), Err(DecodeRecordError::Bytes(_))));
    }
    let long = Bytes::from([key("t").as_ref(), b"more"].concat());
    assert!(matches!(Record::decode(long, None), Err(DecodeRecordError::Bytes(_))));
    let newer = Bytes::from_static(&[0, 2, 0]);
    let refused = Record::decode(key("t"), Some(newer));
    assert!(matches!(refused, Err(DecodeRecordError::Bytes(DecodeError::UnsupportedVersion { .. }))));
}

#[test]
fn a_record_in_a_transaction_and_a_marker_are_corruption_here() {
    let mut host = Host::new();
    let record = decoded(&ongoing()).unwrap();
    let producer = ProducerIdentity::new(1, 0);
    let entry = Entry::Record { record: &record, producer: Some(producer), offset: 5, timestamp: Timestamp(0) };
    let corrupt = host.shard.apply(&entry).unwrap_err();
    assert_eq!(corrupt.offset, 5);
    assert_eq!(
        corrupt.to_string(),
        "offset 5: a record inside a transaction, of producer 1/0; the log of this coordinator partition cannot be \
         followed beyond it"
    );
    let marker = Entry::Marker { producer, outcome: atonce_kernel::Outcome::Abort, offset: 6 };
    assert_eq!(host.shard.apply(&marker).unwrap_err().offset, 6);
    assert_eq!(host.shard, Host::new().shard, "refusing changes nothing");
}
