//! Apache Kafka's own partition folders, and what its DumpLogSegments said of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use atonce_kernel::TopicPartition;
use atonce_kernel::disk::{Disk, DiskFile};
use atonce_protocol::records::{set_base_offset, set_partition_leader_epoch};
use atonce_testkit::disk::FaultyDisk;

use super::*;
use crate::batch::{BatchHeader, EndTransactionMarker, verify_checksum};
use crate::catalog::Topic;
use crate::files::{SegmentFiles, Stamps};
use crate::partition::{FoundFiles, Partition, Shared};
use crate::producer::Producers;
use crate::reader::IsolationLevel;
use crate::segment::Segment;

fn folders() -> Vec<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/segments");
    let mut folders: Vec<PathBuf> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    assert_eq!(folders.len(), 23);
    folders
}

/// What Kafka said, by file name.
fn said(folder: &Path) -> BTreeMap<String, Vec<String>> {
    let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut file = String::new();
    for line in fs::read_to_string(folder.join("dump.txt")).unwrap().lines() {
        if let Some(path) = line.strip_prefix("Dumping ") {
            file = path.rsplit_once('/').unwrap().1.to_owned();
            files.insert(file.clone(), Vec::new());
        } else if !line.starts_with("Log starting offset") {
            files.get_mut(&file).unwrap().push(line.to_owned());
        }
    }
    files
}

fn is_coordinators(folder: &Path) -> bool {
    folder.file_name().unwrap().to_str().unwrap().starts_with("__")
}

#[test]
fn a_log_reads_as_kafka_said() {
    let mut compared = 0;
    for folder in folders() {
        for (file, said) in said(&folder).into_iter().filter(|(file, _)| file.ends_with(".log")) {
            let bytes = fs::read(folder.join(&file)).unwrap();
            let lines = log_lines(&bytes, Detail::Records).unwrap();
            assert_eq!(lines.len(), said.len(), "{}", folder.display());
            for (line, said) in lines.iter().zip(&said) {
                // Coordinators' records are decoded there; their bytes are another crate's.
                let cut = |line: &str| match line.find(" key: ") {
                    Some(at) if is_coordinators(&folder) => line[..at].to_owned(),
                    Some(_) | None => line.to_owned(),
                };
                assert_eq!(cut(line), cut(said), "{}", folder.display());
                compared += 1;
            }
        }
    }
    assert!(compared > 500, "{compared} lines");
}

#[test]
fn an_index_of_aborted_transactions_reads_as_kafka_said() {
    for folder in folders() {
        for (file, said) in said(&folder).into_iter().filter(|(file, _)| file.ends_with(".txnindex")) {
            let bytes = fs::read(folder.join(&file)).unwrap();
            let lines: Vec<String> = transaction_index(&bytes).unwrap().iter().map(aborted_line).collect();
            assert_eq!(lines, said, "{}", folder.display());
            assert_eq!(transaction_index(&bytes[1..]), None);
        }
    }
}

#[test]
fn a_producer_snapshot_reads_as_kafka_said() {
    for folder in folders() {
        for (file, said) in said(&folder).into_iter().filter(|(file, _)| file.ends_with(".snapshot")) {
            let mut bytes = fs::read(folder.join(&file)).unwrap();
            let lines: Vec<String> = producer_snapshot(&bytes).unwrap().iter().map(producer_line).collect();
            assert_eq!(lines, said, "{}", folder.display());
            *bytes.last_mut().unwrap() ^= 1;
            assert_eq!(producer_snapshot(&bytes), None, "a wrong checksum");
        }
    }
}

/// Follows Kafka's log with our rules: the producers and the aborted transactions that come out are those that Kafka
/// wrote down.
#[test]
fn following_kafkas_log_gives_kafkas_producers_and_aborted_transactions() {
    for folder in folders() {
        let bytes = fs::read(folder.join("00000000000000000000.log")).unwrap();
        let mut producers = Producers::default();
        let mut aborted = Vec::new();
        for batch in batches(&bytes) {
            let batch = batch.unwrap();
            let header = BatchHeader::parse_whole(batch.bytes()).unwrap();
            verify_checksum(&header, batch.bytes()).unwrap();
            if !header.is_control() {
                producers.apply_batch(&header, header.base_offset);
                continue;
            }
            let marker = EndTransactionMarker::parse(batch.bytes()).unwrap();
            let completed = producers.apply_marker(&header, marker, header.base_offset);
            // Our own marker of the same content has the same bytes, but for the place and epoch in the log.
            let mut ours = marker.encode(header.producer, header.max_timestamp).to_vec();
            set_base_offset(&mut ours, header.base_offset);
            set_partition_leader_epoch(&mut ours, header.leader_epoch);
            assert_eq!(ours, batch.bytes());
            if let (Outcome::Abort, Some(completed)) = (marker.outcome, completed) {
                aborted.push(AbortedTransaction {
                    producer_id: header.producer.id,
                    first_offset: completed.first_offset,
                    last_offset: header.base_offset,
                    last_stable_offset: completed.last_stable_offset,
                });
            }
        }
        let found: Vec<SnapshotProducer> = producers
            .iter()
            .map(|(id, state)| {
                let last = state.recent_batches().last();
                SnapshotProducer {
                    id,
                    epoch: state.epoch(),
                    last_sequence: state.last_sequence(),
                    last_offset: last.map_or(-1, |batch| batch.last_offset),
                    offset_delta: last.map_or(0, |batch| batch.offset_delta),
                    timestamp: state.last_timestamp(),
                    coordinator_epoch: state.coordinator_epoch(),
                    transaction_first_offset: state.transaction_first_offset().unwrap_or(-1),
                }
            })
            .collect();
        let snapshot = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|path| path.extension().is_some_and(|extension| extension == "snapshot"))
            .unwrap();
        let mut written = producer_snapshot(&fs::read(snapshot).unwrap()).unwrap();
        written.sort_by_key(|producer| producer.id);
        assert_eq!(found, written, "{}", folder.display());
        let index = fs::read(folder.join("00000000000000000000.txnindex")).unwrap_or_default();
        assert_eq!(aborted, transaction_index(&index).unwrap(), "{}", folder.display());
    }
}

/// Kafka's folder as a partition of ours: read from every offset, in pieces of every size, by both isolations.
#[test]
fn a_reader_serves_kafkas_segments() {
    for folder in folders() {
        let bytes = fs::read(folder.join("00000000000000000000.log")).unwrap();
        let index = fs::read(folder.join("00000000000000000000.txnindex")).unwrap_or_default();
        let disk = FaultyDisk::new();
        let path = Path::new("/p-0/00000000000000000000.log");
        disk.create_directories(Path::new("/p-0")).unwrap();
        disk.open_or_create(path).unwrap().write_at(&bytes, 0).unwrap();
        let all: Vec<BatchView<'_>> = batches(&bytes).map(Result::unwrap).collect();
        let end = all.last().unwrap().next_offset();
        let beside = Path::new("/p-0/00000000000000000000.txnindex");
        disk.open_or_create(beside).unwrap().write_at(&index, 0).unwrap();
        let partition = partition(disk, path, bytes.len() as u64, end, index.len() as u64);
        for offset in 0..end {
            for bytes_max in [0, 100, 500, 1 << 20] {
                let read = partition.reader.read(offset, bytes_max, IsolationLevel::ReadCommitted).unwrap();
                let first = all.iter().position(|batch| batch.last_offset() >= offset).unwrap();
                let wanted: Vec<&[u8]> = all[first..].iter().map(BatchView::bytes).collect();
                assert!(!read.batches.is_empty() && read.batches.len() <= wanted.len());
                assert!(read.batches.iter().zip(&wanted).all(|(batch, wanted)| batch == wanted));
                assert!(read.bytes() <= bytes_max || read.batches.len() == 1);
                let last = all[first + read.batches.len() - 1].next_offset();
                let overlap: Vec<AbortedTransaction> = transaction_index(&index)
                    .unwrap()
                    .into_iter()
                    .filter(|aborted| aborted.last_offset >= offset && aborted.first_offset < last)
                    .collect();
                assert_eq!(read.aborted.unwrap(), overlap);
            }
        }
        for batch in &all {
            let payload = batch.decompress(1 << 20).unwrap();
            for record in batch.records_in(&payload) {
                let record = record.unwrap();
                let found = partition
                    .reader
                    .offset_for_timestamp(Timestamp(record.timestamp), IsolationLevel::ReadUncommitted)
                    .unwrap()
                    .unwrap();
                assert!(found.offset <= record.offset && found.timestamp.0 >= record.timestamp);
            }
        }
        let after = all.iter().map(BatchView::max_timestamp).max().unwrap() + 1;
        let isolation = IsolationLevel::ReadUncommitted;
        assert_eq!(partition.reader.offset_for_timestamp(Timestamp(after), isolation).unwrap(), None);
        let latest = partition.reader.offset_of_max_timestamp(isolation).unwrap().unwrap();
        assert_eq!(latest.timestamp.0, after - 1);
    }
}

fn partition(disk: FaultyDisk, path: &Path, bytes: u64, end: i64, aborted_bytes: u64) -> Partition<FaultyDisk> {
    let mut shared = Shared::new(Arc::new(disk), 4);
    let segment = Arc::new(Segment::new(shared.next_segment(), 0, path.to_owned(), bytes));
    segment.set_aborted_bytes(aborted_bytes);
    let files = SegmentFiles { segment, stamps: Stamps::NONE, swap: None };
    let found = FoundFiles { written_end: end, segments: vec![files], has_folder: true, ..FoundFiles::none() };
    let topic = Topic { id: atonce_kernel::Uuid([1; 16]), name: "p".into(), partitions: 1, configs: BTreeMap::new() };
    let settings = crate::settings::Settings::of(&topic, &BTreeMap::new(), 1 << 30);
    let name = TopicPartition::new("p", 0);
    Partition::with_files(name, topic.id, PathBuf::from("/p-0"), settings, &shared, found, Producers::default(), 0)
}
