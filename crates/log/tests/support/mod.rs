//! A storage on the faulty disk, and short words for what tests do to it.

#![allow(dead_code, reason = "each test file uses its own part")]

pub(crate) mod model;

use std::collections::BTreeMap;
use std::path::Path;

use atonce_kernel::{Outcome, ProducerIdentity, Sequence, Timestamp, TopicName, TopicPartition, Uuid};
use atonce_log::{
    AppendError, Appended, Durability, IsolationLevel, Marker, Origin, RecoveryReport, Storage, StorageConfig,
    TransactionVersion, Verification,
};
use atonce_protocol::records::{BatchBuilder, BatchOptions, BatchView};
use atonce_testkit::disk::FaultyDisk;
use bytes::Bytes;

pub(crate) const FOLDER: &str = "/data";
pub(crate) const NOW: Timestamp = Timestamp(1_000_000);

pub(crate) fn config() -> StorageConfig {
    let mut config = StorageConfig::new(FOLDER);
    config.journal_file_bytes = 64 << 10;
    config.journal_files_max = 3;
    config.reserve_bytes = 8 << 10;
    config.topic_defaults = [("file.delete.delay.ms".to_owned(), "0".to_owned())].into();
    config
}

pub(crate) fn open(disk: &FaultyDisk) -> (Storage<FaultyDisk>, RecoveryReport) {
    open_with(disk, config())
}

pub(crate) fn open_with(disk: &FaultyDisk, config: StorageConfig) -> (Storage<FaultyDisk>, RecoveryReport) {
    Storage::open(disk.clone(), config).unwrap()
}

pub(crate) fn os(mut config: StorageConfig) -> StorageConfig {
    config.durability = Durability::Os;
    config
}

pub(crate) fn tp(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition::new(topic, partition)
}

pub(crate) fn topic_id(number: u8) -> Uuid {
    Uuid([number; 16])
}

pub(crate) fn create_topic(storage: &mut Storage<FaultyDisk>, name: &str, number: u8, partitions: i32) {
    storage.create_topic(&TopicName::from(name), topic_id(number), partitions, BTreeMap::new()).unwrap();
}

/// A batch with these values, from this producer, beginning at this sequence. `k=v` has the key `k`, and `k=` is its tombstone.
pub(crate) fn batch(producer: ProducerIdentity, sequence: i32, is_transactional: bool, values: &[&str]) -> Bytes {
    let mut builder = BatchBuilder::with_capacity(256);
    for value in values {
        let (key, value) = match value.split_once('=') {
            Some((key, "")) => (Some(key.as_bytes()), None),
            Some((key, _)) => (Some(key.as_bytes()), Some(value.as_bytes())),
            None => (None, Some(value.as_bytes())),
        };
        builder.append(NOW.0, key, value, []).unwrap();
    }
    let options =
        BatchOptions { producer, base_sequence: Sequence(sequence), is_transactional, ..BatchOptions::default() };
    builder.finish(&options).unwrap()
}

pub(crate) fn plain(values: &[&str]) -> Bytes {
    batch(ProducerIdentity::NONE, -1, false, values)
}

pub(crate) fn append(
    storage: &mut Storage<FaultyDisk>,
    to: &TopicPartition,
    bytes: &[u8],
) -> Result<Appended, AppendError> {
    storage.append(to, bytes, Origin::CLIENT, NOW)
}

/// Appends as a broker does whose coordinator always agrees.
pub(crate) fn append_verified(
    storage: &mut Storage<FaultyDisk>,
    to: &TopicPartition,
    producer: ProducerIdentity,
    sequence: i32,
    values: &[&str],
) -> Result<Appended, AppendError> {
    let version = TransactionVersion::V2;
    let guard = match storage.start_verification(to, producer, Sequence(sequence), version, NOW).unwrap() {
        Verification::NotNeeded => None,
        Verification::Needed(guard) => Some(guard),
    };
    storage.append(to, &batch(producer, sequence, true, values), Origin::Client { guard }, NOW)
}

pub(crate) fn marker(producer: ProducerIdentity, outcome: Outcome) -> Marker {
    Marker { producer, outcome, coordinator_epoch: 0, version: TransactionVersion::V2 }
}

/// All data values that a reader of this isolation gets from `offset` on, with their offsets. Asserts that offsets
/// only rise.
pub(crate) fn read_all(
    storage: &Storage<FaultyDisk>,
    from: &TopicPartition,
    offset: i64,
    isolation: IsolationLevel,
) -> Vec<(i64, String)> {
    let reader = storage.reader(from).unwrap();
    let mut values = Vec::new();
    let mut next = offset;
    loop {
        let read = reader.read(next, 2000, isolation).unwrap();
        let Some(last) = read.batches.last() else { return values };
        let end = BatchView::new(last).unwrap().next_offset();
        assert!(end > next, "{from}: a read makes no progress at {next}");
        let aborted = read.aborted.clone().unwrap_or_default();
        for bytes in &read.batches {
            let view = BatchView::new(bytes).unwrap();
            view.validate().unwrap();
            let is_aborted = aborted.iter().any(|aborted| {
                aborted.producer_id == view.producer().id
                    && (aborted.first_offset..=aborted.last_offset).contains(&view.base_offset())
            });
            if view.is_control() || (isolation == IsolationLevel::ReadCommitted && is_aborted) {
                continue;
            }
            let payload = view.decompress(1 << 20).unwrap();
            for record in view.records_in(&payload) {
                let record = record.unwrap();
                if record.offset >= next {
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                    let tombstone = || format!("{}=", text(record.key.unwrap()));
                    values.push((record.offset, record.value.map_or_else(tombstone, text)));
                }
            }
        }
        next = end;
    }
}

pub(crate) fn committed(storage: &Storage<FaultyDisk>, from: &TopicPartition) -> Vec<(i64, String)> {
    let start = storage.reader(from).unwrap().watermarks().log_start_offset;
    read_all(storage, from, start, IsolationLevel::ReadCommitted)
}

pub(crate) fn texts(values: &[(i64, String)]) -> Vec<&str> {
    values.iter().map(|(_, text)| text.as_str()).collect()
}

pub(crate) fn folder() -> &'static Path {
    Path::new(FOLDER)
}
