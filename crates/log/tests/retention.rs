//! Retention: what is too old or too much goes, and nothing that somebody may still need.

mod support;

use std::collections::BTreeMap;

use atonce_kernel::disk::Disk;
use atonce_kernel::{Outcome, ProducerIdentity, Timestamp};
use atonce_log::{AppendError, IsolationLevel, Origin, StageError, Storage};
use atonce_protocol::records::{BatchBuilder, BatchOptions};
use atonce_testkit::disk::FaultyDisk;
use support::*;

fn topic(storage: &mut Storage<FaultyDisk>, given: &[(&str, &str)]) {
    let configs: BTreeMap<String, String> =
        given.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    storage.create_topic(&"t".into(), topic_id(1), 1, configs).unwrap();
    storage.commit().unwrap();
}

/// A record of that time, in a batch of about 160 bytes.
fn put_at(storage: &mut Storage<FaultyDisk>, time: i64, value: &str) {
    let mut builder = BatchBuilder::with_capacity(256);
    builder.append(time, None, Some(format!("{value:_<90}").as_bytes()), []).unwrap();
    let batch = builder.finish(&BatchOptions::default()).unwrap();
    storage.append(&tp("t", 0), &batch, Origin::CLIENT, NOW).unwrap();
    storage.commit().unwrap();
}

fn clean(storage: &mut Storage<FaultyDisk>, now: i64) {
    storage.write_what_may_be_cleaned(Timestamp(now)).unwrap();
    storage.enforce_retention(Timestamp(now)).unwrap();
    storage.commit().unwrap();
    if storage.is_checkpoint_due() {
        storage.checkpoint().unwrap();
    }
}

fn start(storage: &Storage<FaultyDisk>) -> i64 {
    storage.reader(&tp("t", 0)).unwrap().watermarks().log_start_offset
}

fn log_files(disk: &FaultyDisk) -> Vec<String> {
    let names = disk.list(&folder().join("t-0")).unwrap_or_default();
    names.into_iter().map(|name| name.to_str().unwrap().to_owned()).filter(|name| name.ends_with(".log")).collect()
}

#[test]
fn whole_segments_go_once_their_last_record_is_too_old() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    topic(&mut storage, &[("retention.ms", "1000"), ("segment.bytes", "330")]);
    for time in 0..10 {
        put_at(&mut storage, 1000 + time * 100, "x");
    }
    storage.checkpoint().unwrap();
    assert_eq!(log_files(&disk).len(), 5, "two batches in each");
    // Segment 0 holds 1000 and 1100.
    clean(&mut storage, 2100);
    assert_eq!(start(&storage), 0, "a second is not more than a second");
    clean(&mut storage, 2101);
    assert_eq!((start(&storage), log_files(&disk).len()), (2, 4));
    clean(&mut storage, 2501);
    assert_eq!((start(&storage), log_files(&disk).len()), (6, 2));
    drop(storage);
    let (mut storage, _) = open(&disk);
    assert_eq!(start(&storage), 6, "it stays so");
    clean(&mut storage, 2701);
    assert_eq!(start(&storage), 8, "times of segments are known after a restart");
}

#[test]
fn a_log_that_is_too_old_as_a_whole_becomes_empty_and_goes_on_at_its_offset() {
    for restarts in [false, true] {
        let disk = FaultyDisk::new();
        let (mut storage, _) = open(&disk);
        topic(&mut storage, &[("retention.ms", "1000")]);
        for time in 0..3 {
            put_at(&mut storage, 1000 + time, "old");
        }
        // Nothing was written to a segment before: it would never get old there.
        clean(&mut storage, 10_000);
        assert_eq!(start(&storage), 3);
        assert_eq!(log_files(&disk), Vec::<String>::new());
        if restarts {
            drop(storage);
            (storage, _) = open(&disk);
            assert_eq!(start(&storage), 3);
        }
        put_at(&mut storage, 10_000, "new");
        storage.checkpoint().unwrap();
        assert_eq!(log_files(&disk), ["00000000000000000003.log"]);
        let found = committed(&storage, &tp("t", 0));
        assert_eq!((found.len(), found[0].0), (1, 3));
        let (storage, _) = open(&disk);
        assert_eq!(committed(&storage, &tp("t", 0)), found);
    }
}

#[test]
fn the_oldest_go_as_long_as_the_rest_is_not_below_the_size() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    topic(&mut storage, &[("retention.ms", "-1"), ("retention.bytes", "700"), ("segment.bytes", "330")]);
    for _ in 0..10 {
        put_at(&mut storage, 1000, "x");
    }
    storage.checkpoint().unwrap();
    let size = |name: &String| disk.bytes(&folder().join("t-0").join(name)).unwrap().len();
    clean(&mut storage, i64::MAX / 2);
    let left: usize = log_files(&disk).iter().map(size).sum();
    let segment = size(&log_files(&disk)[0]);
    assert!((700..700 + segment).contains(&left), "{left} bytes in segments of {segment}");
    assert!(start(&storage) > 0);
}

#[test]
fn neither_time_nor_size_takes_what_does_not_say_delete() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    let given =
        [("cleanup.policy", "compact"), ("retention.ms", "1"), ("retention.bytes", "1"), ("segment.bytes", "330")];
    topic(&mut storage, &given);
    for _ in 0..10 {
        put_at(&mut storage, 1000, "x");
    }
    storage.checkpoint().unwrap();
    clean(&mut storage, 1_000_000);
    assert_eq!(start(&storage), 0);
    storage.alter_config(topic_id(1), "cleanup.policy", Some("compact,delete")).unwrap();
    storage.commit().unwrap();
    clean(&mut storage, 1_000_000);
    assert_eq!(start(&storage), 10);
}

#[test]
fn an_open_transaction_keeps_itself_and_all_behind_it() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    topic(&mut storage, &[("retention.ms", "1000"), ("segment.bytes", "330")]);
    for _ in 0..4 {
        put_at(&mut storage, 1000, "before");
    }
    let producer = ProducerIdentity::new(100, 0);
    append_verified(&mut storage, &tp("t", 0), producer, 0, &["open"]).unwrap();
    storage.commit().unwrap();
    for _ in 0..4 {
        put_at(&mut storage, 1000, "behind");
    }
    storage.checkpoint().unwrap();
    clean(&mut storage, 9_000_000);
    assert_eq!(start(&storage), 4);
    let marker = marker(ProducerIdentity::new(100, 1), Outcome::Commit);
    storage.append_marker(&tp("t", 0), &marker, Timestamp(1000)).unwrap();
    storage.commit().unwrap();
    clean(&mut storage, 9_000_000);
    assert_eq!(start(&storage), 10);
    // What is known of producers outlives their data.
    assert!(storage.producer_state(&tp("t", 0), producer.id).is_some());
}

#[test]
fn a_segment_ends_when_it_is_too_old_for_what_comes() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    topic(&mut storage, &[("segment.ms", "1000")]);
    for time in [5000, 5500, 6000, 6001, 7000] {
        put_at(&mut storage, time, "x");
    }
    storage.checkpoint().unwrap();
    assert_eq!(log_files(&disk), ["00000000000000000000.log", "00000000000000000003.log"]);
    drop(storage);
    let (mut storage, _) = open(&disk);
    put_at(&mut storage, 7002, "its age is known after a restart");
    storage.checkpoint().unwrap();
    assert_eq!(log_files(&disk).last().unwrap(), "00000000000000000005.log");
}

#[test]
fn broker_wide_settings_hold_where_the_topic_says_nothing() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    topic(&mut storage, &[]);
    put_at(&mut storage, 1000, "old");
    storage.set_topic_defaults([("retention.ms".to_owned(), "5000".to_owned())].into());
    clean(&mut storage, 6000);
    assert_eq!(start(&storage), 0);
    clean(&mut storage, 6001);
    assert_eq!(start(&storage), 1);
    let reader = storage.reader(&tp("t", 0)).unwrap();
    assert!(reader.read(0, 100, IsolationLevel::ReadUncommitted).is_err(), "out of range");
}

/// Ten records in five segments, of which the first two are too old, and their files wait for a minute.
fn with_old_files() -> (FaultyDisk, Storage<FaultyDisk>) {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    let delay = ("file.delete.delay.ms", "60000");
    topic(&mut storage, &[("retention.ms", "1000"), ("segment.bytes", "330"), delay]);
    for time in 0..10 {
        put_at(&mut storage, 1000 + time * 100, "x");
    }
    clean(&mut storage, 2301);
    assert_eq!(start(&storage), 4);
    (disk, storage)
}

/// Who has begun to read there can go on.
#[test]
fn a_file_that_is_not_needed_any_more_stays_for_its_time() {
    let (disk, mut storage) = with_old_files();
    assert_eq!(log_files(&disk).len(), 5, "two of them wait");
    let begun = Timestamp(10_000);
    assert_eq!(storage.remove_old_files(begun), Some(begun.plus_ms(60_000)));
    storage.remove_old_files(begun.plus_ms(59_999));
    assert_eq!(log_files(&disk).len(), 5);
    // Those that come later have their own time.
    clean(&mut storage, 2501);
    assert_eq!(storage.remove_old_files(begun.plus_ms(60_000)), Some(begun.plus_ms(120_000)));
    assert_eq!(log_files(&disk).len(), 3);
    assert_eq!(storage.remove_old_files(begun.plus_ms(120_000)), None);
    assert_eq!(log_files(&disk).len(), 2);
    assert_eq!(committed(&storage, &tp("t", 0)).len(), 4);
}

#[test]
fn files_that_wait_to_be_removed_do_not_outlive_the_run() {
    let (disk, storage) = with_old_files();
    storage.close().unwrap();
    assert_eq!(log_files(&disk).len(), 3, "a clean end");
    let (disk, storage) = with_old_files();
    drop(storage);
    let disk = disk.restart(atonce_testkit::disk::Crash::Power, &mut atonce_kernel::chance::Chance::from_seed(1));
    let (storage, _) = open(&disk);
    assert_eq!((start(&storage), log_files(&disk).len()), (4, 3), "a crash");
}

#[test]
fn a_deleted_topics_files_that_wait_take_nothing_from_a_new_one_of_its_name() {
    let (disk, mut storage) = with_old_files();
    storage.delete_topic(topic_id(1)).unwrap();
    create_topic(&mut storage, "t", 2, 1);
    put_at(&mut storage, 3000, "new");
    storage.checkpoint().unwrap();
    assert_eq!(log_files(&disk), ["00000000000000000000.log"]);
    storage.remove_old_files(Timestamp(0));
    storage.remove_old_files(Timestamp(100_000));
    assert_eq!(log_files(&disk), ["00000000000000000000.log"]);
    assert_eq!(committed(&storage, &tp("t", 0)).len(), 1);
}

#[test]
fn a_disk_without_room_does_not_wait() {
    let (disk, mut storage) = with_old_files();
    disk.set_capacity_bytes(Some(1));
    storage.keep_free(0);
    let refused = append(&mut storage, &tp("t", 0), &plain(&["x"])).unwrap_err();
    assert!(matches!(refused, AppendError::Storage(StageError::DiskFull { .. })), "{refused}");
    assert_eq!(log_files(&disk).len(), 3, "they went before anybody was refused");
}
