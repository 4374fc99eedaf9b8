//! Whatever is in files, in memory or damaged: readers are told of every aborted transaction that matters to them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use atonce_kernel::chance::Chance;
use atonce_kernel::{ProducerIdentity, Sequence, Timestamp, TopicPartition, Uuid};
use atonce_protocol::records::{BatchBuilder, BatchOptions};
use atonce_testkit::disk::{Crash, FaultyDisk};

use super::*;
use crate::{IsolationLevel, Marker, Origin, Storage, StorageConfig, TransactionVersion, Verification};

const NOW: Timestamp = Timestamp(1_000_000);

fn open(disk: &FaultyDisk) -> Storage<FaultyDisk> {
    let mut config = StorageConfig::new("/data");
    config.journal_file_bytes = 64 << 10;
    config.journal_files_max = 100;
    config.reserve_bytes = 0;
    config.tail_bytes_max = 16 << 10;
    config.segment_write_bytes = 1 << 10;
    Storage::open(disk.clone(), config).unwrap().0
}

fn log() -> TopicPartition {
    TopicPartition::new("t", 0)
}

fn create(storage: &mut Storage<FaultyDisk>) {
    let configs = [("segment.bytes".to_owned(), "3000".to_owned())].into();
    storage.create_topic(&"t".into(), Uuid([1; 16]), 1, configs).unwrap();
}

/// What a log should say: all aborted transactions, in the order of their markers.
#[derive(Default)]
struct Expected {
    open: BTreeMap<i64, i64>,
    aborted: Vec<(i64, i64, i64)>,
    end: i64,
}

impl Expected {
    fn write(&mut self, storage: &mut Storage<FaultyDisk>, id: i64) {
        let producer = ProducerIdentity::new(id, 0);
        let version = TransactionVersion::V2;
        let guard = match storage.start_verification(&log(), producer, Sequence(-1), version, NOW).unwrap() {
            Verification::NotNeeded => None,
            Verification::Needed(guard) => Some(guard),
        };
        let options = BatchOptions { producer, is_transactional: true, ..BatchOptions::default() };
        let mut builder = BatchBuilder::with_capacity(100);
        builder.append(NOW.0, None, Some(b"value"), []).unwrap();
        let batch = builder.finish(&options).unwrap();
        let appended = storage.append(&log(), &batch, Origin::Coordinator { guard }, NOW).unwrap();
        self.open.entry(id).or_insert(appended.base_offset);
        self.end = appended.last_offset + 1;
    }

    fn finish(&mut self, storage: &mut Storage<FaultyDisk>, id: i64, outcome: Outcome) {
        let producer = ProducerIdentity::new(id, 0);
        let marker = Marker { producer, outcome, coordinator_epoch: 0, version: TransactionVersion::V1 };
        let appended = storage.append_marker(&log(), &marker, NOW).unwrap();
        let first = self.open.remove(&id).unwrap();
        if outcome == Outcome::Abort {
            self.aborted.push((id, first, appended.base_offset));
        }
        self.end = appended.base_offset + 1;
    }

    /// Transactions of a few producers, long and short ones, side by side; most are aborted.
    fn drive(&mut self, storage: &mut Storage<FaultyDisk>, chance: &mut Chance, steps: u64) {
        for step in 0..steps {
            let id = i64::try_from(1 + chance.below(6)).unwrap();
            // The last producer's transactions are long.
            let is_ending = self.open.contains_key(&id) && (id < 6 || chance.one_in(1, 20));
            match chance.below(4) {
                0 if is_ending => self.finish(storage, id, Outcome::Commit),
                1 | 2 if is_ending => self.finish(storage, id, Outcome::Abort),
                _ => self.write(storage, id),
            }
            if step % 7 == 0 {
                storage.commit().unwrap();
            }
        }
        storage.commit().unwrap();
    }

    #[track_caller]
    fn check(&self, storage: &Storage<FaultyDisk>, story: &str) {
        let reader = storage.reader(&log()).unwrap();
        for offset in (0..self.end).step_by(7) {
            for length in [1, 5, 60, 1000] {
                let end = (offset + length).min(reader.watermarks().last_stable_offset);
                let wanted = |&&(_, first, last): &&(i64, i64, i64)| last >= offset && first < end;
                let mut expected: Vec<_> = self.aborted.iter().filter(wanted).copied().collect();
                expected.sort_by_key(|(_, first, _)| *first);
                let found = reader.aborted_between(offset, end).unwrap();
                let found: Vec<_> =
                    found.iter().map(|it| (it.producer_id.0, it.first_offset, it.last_offset)).collect();
                assert_eq!(found, expected, "{story}: {offset} to {end} of {}", self.end);
            }
        }
    }
}

fn indexes(disk: &FaultyDisk) -> Vec<(PathBuf, Vec<u8>)> {
    let names = disk.list(Path::new("/data/t-0")).unwrap();
    let names = names.into_iter().filter(|name| name.extension().is_some_and(|extension| extension == "txnindex"));
    names.map(|name| Path::new("/data/t-0").join(name)).map(|path| (path.clone(), disk.bytes(&path).unwrap())).collect()
}

#[test]
fn every_reader_is_told_of_all_that_was_aborted_in_files_and_in_memory() {
    for seed in 0..5 {
        let mut chance = Chance::from_seed(seed);
        let disk = FaultyDisk::new();
        let mut storage = open(&disk);
        create(&mut storage);
        let mut expected = Expected::default();
        expected.drive(&mut storage, &mut chance, 400);
        expected.check(&storage, "while running");
        storage.checkpoint().unwrap();
        expected.drive(&mut storage, &mut chance, 100);
        expected.check(&storage, "after a checkpoint");
        assert!(indexes(&disk).len() > 3 && expected.aborted.len() > 30);
        drop(storage);
        let disk = disk.restart(Crash::Process, &mut chance);
        let mut storage = open(&disk);
        expected.check(&storage, "after a restart");
        expected.drive(&mut storage, &mut chance, 100);
        expected.check(&storage, "and behind it");
    }
}

#[test]
fn memory_holds_what_was_aborted_above_the_segments_and_no_more() {
    let disk = FaultyDisk::new();
    let mut storage = open(&disk);
    create(&mut storage);
    let mut expected = Expected::default();
    let mut most = 0;
    for _ in 0..2000 {
        expected.write(&mut storage, 1);
        expected.finish(&mut storage, 1, Outcome::Abort);
        storage.commit().unwrap();
        most = most.max(storage.reader(&log()).unwrap().view().aborted.len());
    }
    assert!(most > 0 && most < 100, "{most} of 2000");
    drop(storage);
    let disk = disk.restart(Crash::Process, &mut Chance::from_seed(1));
    let mut storage = open(&disk);
    storage.checkpoint().unwrap();
    let known = storage.reader(&log()).unwrap().view().aborted.len();
    assert!(known < 100, "{known} of 2000 after a start");
    expected.check(&storage, "all the same");
}

type Harm = fn(&FaultyDisk, &Path);

const HARMS: [(&str, Harm); 5] = [
    ("missing", |disk, path| disk.remove_file(path).unwrap()),
    ("cut", |disk, path| disk.open(path).unwrap().set_length(40).unwrap()),
    ("empty", |disk, path| disk.open(path).unwrap().set_length(0).unwrap()),
    ("zeros", |disk, path| {
        let length = disk.bytes(path).unwrap().len();
        disk.open(path).unwrap().write_at(&vec![0; length], 0).unwrap();
    }),
    ("in no order", |disk, path| {
        let bytes = disk.bytes(path).unwrap();
        let mut entries: Vec<&[u8]> = bytes.chunks(ABORTED_BYTES).collect();
        entries.reverse();
        disk.open(path).unwrap().write_at(&entries.concat(), 0).unwrap();
    }),
];

/// The markers tell what a lost index said, while the broker runs and when it starts, and the next checkpoint writes it.
#[test]
fn a_damaged_index_is_made_anew_from_the_markers() {
    for (name, harm) in HARMS {
        for is_running in [true, false] {
            // An open file is not missed.
            if is_running && name == "missing" {
                continue;
            }
            let mut chance = Chance::from_seed(7);
            let mut disk = FaultyDisk::new();
            let mut storage = open(&disk);
            create(&mut storage);
            let mut expected = Expected::default();
            expected.drive(&mut storage, &mut chance, 400);
            storage.checkpoint().unwrap();
            while storage.reader(&log()).unwrap().view().tail.len() > 20 {
                expected.drive(&mut storage, &mut chance, 10);
            }
            storage.checkpoint().unwrap();
            let before = indexes(&disk);
            let place = before.len() / 2;
            let mut harmed = vec![place];
            if is_running {
                harm(&disk, &before[place].0);
            } else {
                drop(storage);
                disk = disk.restart(Crash::Process, &mut chance);
                // The last one, which goes on being written, as well.
                harmed.push(before.len() - 1);
                harmed.iter().for_each(|place| harm(&disk, &before[*place].0));
                storage = open(&disk);
            }
            let story = format!("{name}, {}", if is_running { "running" } else { "at the start" });
            expected.check(&storage, &story);
            storage.checkpoint().unwrap();
            assert_eq!(indexes(&disk)[place], before[place], "{story}");
            expected.drive(&mut storage, &mut chance, 100);
            expected.check(&storage, &story);
            drop(storage);
            let disk = disk.restart(Crash::Power, &mut chance);
            expected.check(&open(&disk), &story);
        }
    }
}

#[test]
fn a_log_that_is_damaged_too_names_the_place_and_never_lets_aborted_data_pass() {
    let mut chance = Chance::from_seed(3);
    let disk = FaultyDisk::new();
    let mut storage = open(&disk);
    create(&mut storage);
    let mut expected = Expected::default();
    expected.drive(&mut storage, &mut chance, 400);
    storage.checkpoint().unwrap();
    let index = indexes(&disk)[2].0.clone();
    drop(storage);
    let disk = disk.restart(Crash::Process, &mut chance);
    disk.remove_file(&index).unwrap();
    // The format byte of the log's first batch.
    disk.damage(Path::new("/data/t-0/00000000000000000000.log"), 16, 9).unwrap();
    let storage = open(&disk);
    let first: i64 = index.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    let error = storage.reader(&log()).unwrap().read(first, 100, IsolationLevel::ReadCommitted).unwrap_err();
    assert!(error.to_string().contains("00000000000000000000.log at 0"), "{error}");
    assert!(storage.reader(&log()).unwrap().read(first, 100, IsolationLevel::ReadUncommitted).is_ok());
}
