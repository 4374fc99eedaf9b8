//! Damaged segments: their partition is offline, or ends where the damage begins for who reads there; all else goes on. And
//! what a look at the folder says of it, and salvage keeps.

mod support;

use std::collections::BTreeMap;
use std::path::PathBuf;

use atonce_kernel::chance::Chance;
use atonce_kernel::disk::{Disk, DiskFile};
use atonce_kernel::{Outcome, ProducerIdentity};
use atonce_log::{
    AppendError, DeleteRecordsError, IsolationLevel, OpenError, ReadError, RecoveryReport, Storage, StorageConfig,
};
use atonce_protocol::ErrorCode;
use atonce_testkit::disk::{Crash, FaultyDisk};
use support::*;

const UNCOMMITTED: IsolationLevel = IsolationLevel::ReadUncommitted;

fn reopen(disk: &FaultyDisk) -> (Storage<FaultyDisk>, RecoveryReport, FaultyDisk) {
    let disk = disk.restart(Crash::Process, &mut Chance::from_seed(1));
    let (storage, report) = open(&disk);
    (storage, report, disk)
}

fn salvage(disk: &FaultyDisk) -> (Storage<FaultyDisk>, RecoveryReport) {
    Storage::open(disk.clone(), StorageConfig { salvage: true, ..config() }).unwrap()
}

fn segment(partition: i32, base_offset: i64) -> PathBuf {
    folder().join(format!("t-{partition}/{base_offset:020}.log"))
}

/// Two partitions; in the first, segments of two batches at offsets 0 to 7, all below the checkpoint, then 8 in the journal.
fn world() -> FaultyDisk {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    let configs: BTreeMap<String, String> = [("segment.bytes".to_owned(), "330".to_owned())].into();
    storage.create_topic(&"t".into(), topic_id(1), 2, configs).unwrap();
    for value in 0..8 {
        append(&mut storage, &tp("t", 0), &plain(&[&format!("{value:_<90}")])).unwrap();
    }
    append(&mut storage, &tp("t", 1), &plain(&["other"])).unwrap();
    storage.checkpoint().unwrap();
    append(&mut storage, &tp("t", 0), &plain(&["in the journal"])).unwrap();
    storage.commit().unwrap();
    disk
}

fn first_letters(found: &[(i64, String)]) -> String {
    found.iter().map(|(_, text)| text.chars().next().unwrap()).collect()
}

type Harm = fn(&FaultyDisk);

/// What a start finds without reading segments.
const HARMS: [(&str, Harm, &str); 4] = [
    ("cut", |disk| disk.open(&segment(0, 2)).unwrap().set_length(100).unwrap(), "00000000000000000002.log at 100"),
    ("missing", |disk| disk.remove_file(&segment(0, 0)).unwrap(), "00000000000000000000.log at 0"),
    ("without its folder", |disk| disk.remove_directory(&folder().join("t-0")).unwrap(), "/data/t-0 at 0"),
    ("without a name", |disk| disk.remove_file(&folder().join("t-0/partition.metadata")).unwrap(), "/data/t-0 at 0"),
];

#[test]
fn damage_found_at_the_start_takes_its_partition_offline_and_nothing_else() {
    for (name, harm, place) in HARMS {
        let disk = world();
        harm(&disk);
        let (mut storage, report, _) = reopen(&disk);
        assert_eq!(report.damaged.len(), 1, "{name}");
        let (partition, damage) = &report.damaged[0];
        assert_eq!(*partition, tp("t", 0));
        assert!(damage.to_string().contains(place), "{name}: {damage}");
        let reader = storage.reader(&tp("t", 0)).unwrap();
        assert_eq!(reader.damage().as_ref(), Some(damage));
        let error = reader.read(0, 100, UNCOMMITTED).unwrap_err();
        assert!(matches!(error, ReadError::Offline { .. }), "{name}: {error}");
        assert_eq!(error.error_code(), ErrorCode::KafkaStorageError);
        let error = append(&mut storage, &tp("t", 0), &plain(&["x"])).unwrap_err();
        assert!(matches!(error, AppendError::Offline { .. }), "{name}: {error}");
        let marker = marker(ProducerIdentity::new(1, 1), Outcome::Commit);
        let error = storage.append_marker(&tp("t", 0), &marker, NOW).unwrap_err();
        assert_eq!(error.error_code(), ErrorCode::KafkaStorageError, "{name}: a marker stays owed");
        let error = storage.delete_records(&tp("t", 0), None).unwrap_err();
        assert!(matches!(error, DeleteRecordsError::Offline { .. }), "{name}: {error}");
        append(&mut storage, &tp("t", 1), &plain(&["more"])).unwrap();
        storage.commit().unwrap();
        assert_eq!(texts(&committed(&storage, &tp("t", 1))), ["other", "more"], "{name}");
        storage.checkpoint().unwrap();
    }
}

#[test]
fn what_the_journal_had_of_an_offline_partition_is_there_when_its_files_are() {
    let disk = world();
    let path = segment(0, 2);
    let before = disk.bytes(&path).unwrap();
    disk.open(&path).unwrap().set_length(100).unwrap();
    let mut disk = disk;
    for _ in 0..2 {
        let (storage, report, next) = reopen(&disk);
        assert_eq!(report.damaged.len(), 1, "it stays offline");
        drop(storage);
        disk = next;
    }
    let file = disk.open(&path).unwrap();
    file.write_at(&before, 0).unwrap();
    let (mut storage, report, _) = reopen(&disk);
    assert_eq!(report.damaged, []);
    let found = committed(&storage, &tp("t", 0));
    assert_eq!(first_letters(&found), "01234567i");
    assert_eq!(append(&mut storage, &tp("t", 0), &plain(&["x"])).unwrap().base_offset, 9);
}

#[test]
fn an_offline_partition_whose_folder_is_gone_can_be_deleted() {
    let disk = world();
    disk.remove_directory(&folder().join("t-0")).unwrap();
    let (mut storage, _, _) = reopen(&disk);
    storage.delete_topic(topic_id(1)).unwrap();
    storage.commit().unwrap();
    storage.checkpoint().unwrap();
    let (storage, report, _) = reopen(&disk);
    assert_eq!((storage.catalog().topics().count(), report.damaged.len()), (0, 0));
}

/// A flipped byte is found when somebody reads it: who reads before it, or in other segments, is not concerned.
#[test]
fn a_damaged_header_stops_those_who_read_there_and_nobody_else() {
    let disk = world();
    let second_batch = disk.bytes(&segment(0, 2)).unwrap().len() / 2;
    // The format byte of the batch at offset 3.
    disk.damage(&segment(0, 2), second_batch + 16, 9).unwrap();
    let (storage, report, _) = reopen(&disk);
    assert_eq!(report.damaged, [], "a start does not read segments");
    let reader = storage.reader(&tp("t", 0)).unwrap();
    for offset in [0, 1, 2, 4, 5, 6, 7, 8] {
        let read = reader.read(offset, 1 << 20, UNCOMMITTED).unwrap();
        let first = atonce_protocol::records::BatchView::new(&read.batches[0]).unwrap();
        assert_eq!(first.base_offset(), offset);
    }
    let error = reader.read(3, 1 << 20, UNCOMMITTED).unwrap_err();
    assert_eq!(error.error_code(), ErrorCode::KafkaStorageError);
    assert!(error.to_string().contains(&format!("00000000000000000002.log at {second_batch}")), "{error}");
}

#[test]
fn a_look_at_the_folder_names_all_damage_and_changes_nothing() {
    let disk = world();
    let whole = atonce_log::check::check(&disk, folder(), config().journal_file_bytes).unwrap();
    assert!(whole.is_whole(), "{whole:?}");
    assert_eq!((whole.format_version, whole.topics, whole.partitions.len()), (3, 1, 2));
    assert_eq!((whole.partitions[0].records, whole.partitions[0].end_offset, whole.journal.groups), (8, 8, 1));
    // A record's byte, a header's, and a file that is gone.
    let length = disk.bytes(&segment(0, 0)).unwrap().len();
    disk.damage(&segment(0, 0), length - 5, b'#').unwrap();
    disk.damage(&segment(0, 2), 16, 9).unwrap();
    disk.remove_file(&segment(0, 6)).unwrap();
    let points = disk.points();
    let check = atonce_log::check::check(&disk, folder(), config().journal_file_bytes).unwrap();
    assert_eq!(disk.points(), points, "nothing was written");
    assert!(!check.is_whole());
    let places: Vec<(PathBuf, u64)> =
        check.partitions[0].damages.iter().map(|damage| (damage.path.clone(), damage.position)).collect();
    let half = length as u64 / 2;
    assert_eq!(places, [(segment(0, 0), half), (segment(0, 2), 0), (segment(0, 6), 0)]);
    assert_eq!(check.partitions[0].records, 4);
    assert_eq!(check.partitions[1].damages, []);
}

#[test]
fn salvage_keeps_every_whole_batch_at_its_offset_and_what_the_journal_has() {
    let disk = world();
    let length = disk.bytes(&segment(0, 0)).unwrap().len();
    disk.damage(&segment(0, 0), length - 5, b'#').unwrap();
    disk.damage(&segment(0, 2), 16, 9).unwrap();
    disk.remove_file(&segment(0, 6)).unwrap();
    let disk = disk.restart(Crash::Process, &mut Chance::from_seed(1));
    let (mut storage, report) = salvage(&disk);
    assert_eq!(report.salvaged_partitions.len(), 1);
    let salvaged = &report.salvaged_partitions[0];
    assert_eq!((salvaged.damages.len(), salvaged.offsets_kept, salvaged.offsets_expected), (3, 4, 8));
    let expected = "0345i";
    assert_eq!(first_letters(&read_all(&storage, &tp("t", 0), 0, UNCOMMITTED)), expected);
    assert_eq!(append(&mut storage, &tp("t", 0), &plain(&["x"])).unwrap().base_offset, 9);
    storage.commit().unwrap();
    drop(storage);
    let (storage, report, _) = reopen(&disk);
    assert_eq!(report.damaged, [], "it is well again");
    let found = read_all(&storage, &tp("t", 0), 0, UNCOMMITTED);
    assert_eq!(first_letters(&found), "0345ix");
    assert_eq!(found.iter().map(|(offset, _)| *offset).collect::<Vec<_>>(), [0, 3, 4, 5, 8, 9]);
    assert_eq!(texts(&committed(&storage, &tp("t", 1))), ["other"]);
}

#[test]
fn salvage_brings_every_kind_of_damaged_partition_back() {
    for (name, harm, _) in HARMS {
        let disk = world();
        harm(&disk);
        let disk = disk.restart(Crash::Process, &mut Chance::from_seed(1));
        drop(salvage(&disk));
        let (mut storage, report, _) = reopen(&disk);
        assert_eq!(report.damaged, [], "{name}");
        let found = read_all(&storage, &tp("t", 0), 0, UNCOMMITTED);
        let expected = match name {
            "cut" => "014567i",
            "missing" => "234567i",
            "without its folder" => "i",
            _ => "01234567i",
        };
        assert_eq!(first_letters(&found), expected, "{name}");
        assert_eq!(append(&mut storage, &tp("t", 0), &plain(&["x"])).unwrap().base_offset, 9, "{name}");
    }
}

/// Interrupted anywhere, salvage has happened or not, and can be tried again.
#[test]
fn salvage_that_is_interrupted_can_be_repeated() {
    let harmed = || {
        let disk = world();
        disk.damage(&segment(0, 2), 16, 9).unwrap();
        disk.restart(Crash::Process, &mut Chance::from_seed(1))
    };
    let whole = harmed();
    drop(salvage(&whole));
    let points = whole.points();
    for point in 1..=points {
        let disk = harmed();
        disk.stop_at(point);
        let _ = Storage::open(disk.clone(), StorageConfig { salvage: true, ..config() });
        let disk = disk.restart(Crash::Power, &mut Chance::from_seed(point));
        drop(salvage(&disk));
        let disk = disk.restart(Crash::Power, &mut Chance::from_seed(point));
        let (storage, report) = open(&disk);
        assert_eq!(report.damaged, [], "point {point}");
        assert_eq!(first_letters(&read_all(&storage, &tp("t", 0), 0, UNCOMMITTED)), "0134567i", "point {point}");
    }
}

#[test]
fn a_lost_index_of_aborted_transactions_is_made_anew_from_the_markers() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    create_topic(&mut storage, "t", 1, 1);
    for (id, outcome) in [(1, Outcome::Abort), (2, Outcome::Commit), (3, Outcome::Abort)] {
        append_verified(&mut storage, &tp("t", 0), ProducerIdentity::new(id, 0), 0, &[&id.to_string()]).unwrap();
        let marker = marker(ProducerIdentity::new(id, 1), outcome);
        storage.append_marker(&tp("t", 0), &marker, NOW).unwrap();
        storage.commit().unwrap();
    }
    storage.checkpoint().unwrap();
    let read = storage.reader(&tp("t", 0)).unwrap().read(0, 1 << 20, IsolationLevel::ReadCommitted).unwrap();
    let before = read.aborted.unwrap();
    assert_eq!(before.len(), 2);
    drop(storage);
    let index = folder().join("t-0/00000000000000000000.txnindex");
    let written = disk.bytes(&index).unwrap();
    disk.open(&index).unwrap().set_length(34).unwrap();
    let (storage, report, _) = reopen(&disk);
    assert_eq!(report.damaged, []);
    assert_eq!(texts(&committed(&storage, &tp("t", 0))), ["2"]);
    let read = storage.reader(&tp("t", 0)).unwrap().read(0, 1 << 20, IsolationLevel::ReadCommitted).unwrap();
    assert_eq!(read.aborted.unwrap(), before);
    assert_eq!(disk.bytes(&index).unwrap(), written);
}

#[test]
fn a_folder_of_a_later_format_is_refused_by_name() {
    let disk = world();
    disk.damage(&folder().join("checkpoint"), 7, b'9').unwrap();
    let disk = disk.restart(Crash::Process, &mut Chance::from_seed(1));
    let error = Storage::open(disk, config()).err().unwrap();
    assert!(matches!(error, OpenError::NewerFormat { found: 9, known: 3, .. }), "{error}");
    assert!(error.to_string().contains("/data/checkpoint has format version 9"), "{error}");
}
