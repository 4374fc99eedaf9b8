//! Index files: look-ups answer the same with them, without them, and with rubbish in their place.

mod support;

use std::collections::BTreeMap;
use std::path::PathBuf;

use atonce_kernel::Timestamp;
use atonce_kernel::chance::Chance;
use atonce_kernel::disk::{Disk, DiskFile};
use atonce_log::{IsolationLevel, Origin, Storage};
use atonce_protocol::records::{BatchBuilder, BatchOptions, BatchView};
use atonce_testkit::disk::{Crash, FaultyDisk};
use support::*;

const UNCOMMITTED: IsolationLevel = IsolationLevel::ReadUncommitted;

/// Batches of all sizes, times that mostly rise, in segments of 40 KB. Offset and time of each record.
fn world(disk: &FaultyDisk) -> (Storage<FaultyDisk>, Vec<(i64, i64)>) {
    let mut chance = Chance::from_seed(3);
    let mut config = config();
    config.tail_bytes_max = 0;
    config.reserve_bytes = 0;
    let (mut storage, _) = open_with(disk, config);
    let configs: BTreeMap<String, String> = [("segment.bytes", "40000"), ("index.interval.bytes", "1000")]
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .into();
    storage.create_topic(&"t".into(), topic_id(1), 1, configs).unwrap();
    let (mut records, mut time) = (Vec::new(), 10_000_i64);
    for _ in 0..150 {
        let mut builder = BatchBuilder::with_capacity(256);
        let length = if chance.one_in(1, 10) { 9000 } else { 100 + chance.below(400) as usize };
        for _ in 0..=chance.below(3) {
            time += chance.below(100) as i64;
            let time = if chance.one_in(1, 7) { time - 150 } else { time };
            builder.append(time, None, Some("v".repeat(length).as_bytes()), []).unwrap();
            records.push((records.len() as i64, time));
        }
        let batch = builder.finish(&BatchOptions::default()).unwrap();
        storage.append(&tp("t", 0), &batch, Origin::CLIENT, NOW).unwrap();
        storage.commit().unwrap();
    }
    storage.checkpoint().unwrap();
    (storage, records)
}

fn names(disk: &FaultyDisk, ending: &str) -> Vec<PathBuf> {
    let names = disk.list(&folder().join("t-0")).unwrap();
    names.into_iter().filter(|name| name.to_str().unwrap().ends_with(ending)).collect()
}

fn check(storage: &Storage<FaultyDisk>, records: &[(i64, i64)], story: &str) {
    let reader = storage.reader(&tp("t", 0)).unwrap();
    // Not in order, so that no read goes on where the last one ended.
    for step in 0..records.len() as i64 {
        let offset = step * 7919 % records.len() as i64;
        let read = reader.read(offset, 10, UNCOMMITTED).unwrap();
        let view = BatchView::new(&read.batches[0]).unwrap();
        assert!((view.base_offset()..view.next_offset()).contains(&offset), "{story}: offset {offset}");
    }
    let last = records.iter().map(|(_, time)| *time).max().unwrap();
    for time in (9_900..last + 100).step_by(37) {
        let expected = records.iter().find(|(_, of)| *of >= time).map(|(offset, _)| *offset);
        let found = reader.offset_for_timestamp(Timestamp(time), UNCOMMITTED).unwrap().map(|found| found.offset);
        assert_eq!(found, expected, "{story}: time {time}");
    }
    let latest = reader.offset_of_max_timestamp(UNCOMMITTED).unwrap().unwrap();
    assert_eq!(latest.timestamp, Timestamp(last), "{story}");
    assert_eq!(read_all(storage, &tp("t", 0), 0, UNCOMMITTED).len(), records.len(), "{story}");
}

#[test]
fn look_ups_answer_the_same_with_index_files_without_and_with_rubbish() {
    let disk = FaultyDisk::new();
    let (storage, records) = world(&disk);
    let logs = names(&disk, ".log").len();
    assert!(logs > 3);
    assert_eq!((names(&disk, ".index").len(), names(&disk, ".timeindex").len()), (logs - 1, logs - 1));
    check(&storage, &records, "made beside a checkpoint");
    drop(storage);
    let mut disk = disk.restart(Crash::Process, &mut Chance::from_seed(1));
    let mut config = config();
    config.tail_bytes_max = 0;
    let (storage, _) = open_with(&disk, config.clone());
    check(&storage, &records, "after a restart");
    drop(storage);
    let mut chance = Chance::from_seed(9);
    for round in 0..8 {
        for name in names(&disk, "index") {
            let path = folder().join("t-0").join(&name);
            let length = disk.open(&path).unwrap().length().unwrap();
            for _ in 0..=length / 20 {
                let place = usize::try_from(chance.below(length + 1)).unwrap();
                disk.damage(&path, place, chance.next_u64() as u8).unwrap();
            }
        }
        disk = disk.restart(Crash::Process, &mut Chance::from_seed(round));
        let (storage, _) = open_with(&disk, config.clone());
        check(&storage, &records, &format!("rubbish {round}"));
    }
    for name in names(&disk, "index") {
        disk.remove_file(&folder().join("t-0").join(name)).unwrap();
    }
    disk = disk.restart(Crash::Process, &mut Chance::from_seed(1));
    let (mut storage, _) = open_with(&disk, config);
    check(&storage, &records, "without");
    storage.checkpoint().unwrap();
    assert_eq!(names(&disk, ".timeindex").len(), logs - 1, "made again");
    check(&storage, &records, "made again");
}
