//! What a storage does while nothing fails.

mod support;

use atonce_kernel::chance::Chance;
use atonce_kernel::disk::{Disk, DiskFile};
use atonce_kernel::{Outcome, ProducerIdentity, Timestamp};
use atonce_log::{AppendError, IsolationLevel, OpenError, Origin, StageError, Storage};
use atonce_protocol::ErrorCode;
use atonce_protocol::records::{BatchView, TimestampType, marker_batch};
use atonce_testkit::disk::{Crash, FaultyDisk};
use support::*;

#[test]
fn nothing_is_visible_before_the_commit_and_all_of_it_after() {
    let disk = FaultyDisk::new();
    let (mut storage, report) = open(&disk);
    assert!(report.created);
    create_topic(&mut storage, "t", 1, 2);
    append(&mut storage, &tp("t", 0), &plain(&["a", "b"])).unwrap();
    let appended = append(&mut storage, &tp("t", 0), &plain(&["c"])).unwrap();
    assert_eq!((appended.base_offset, appended.last_offset), (2, 2));
    assert!(committed(&storage, &tp("t", 0)).is_empty());
    assert!(storage.durable_position() < appended.position);
    let done = storage.commit().unwrap();
    assert_eq!(done.position, appended.position);
    assert_eq!(done.moved, [tp("t", 0)]);
    assert_eq!(texts(&committed(&storage, &tp("t", 0))), ["a", "b", "c"]);
}

#[test]
fn a_commit_over_many_partitions_is_one_sync() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    create_topic(&mut storage, "t", 1, 200);
    storage.commit().unwrap();
    let (syncs, points) = (disk.syncs(), disk.points());
    storage.begin_unit();
    for partition in 0..200 {
        append(&mut storage, &tp("t", partition), &plain(&["a"])).unwrap();
    }
    storage.end_unit();
    storage.commit().unwrap();
    assert_eq!((disk.syncs() - syncs, disk.points() - points), (1, 2), "one write, one sync");
}

#[test]
fn what_was_committed_is_there_after_a_restart_and_after_a_clean_one() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    create_topic(&mut storage, "t", 1, 1);
    append(&mut storage, &tp("t", 0), &plain(&["a", "b"])).unwrap();
    storage.commit().unwrap();
    let disk = disk.restart(Crash::Power, &mut Chance::from_seed(1));
    let (mut storage, report) = open(&disk);
    assert_eq!((report.created, report.clean, report.groups_replayed), (false, false, 1));
    assert_eq!(texts(&committed(&storage, &tp("t", 0))), ["a", "b"]);
    append(&mut storage, &tp("t", 0), &plain(&["c"])).unwrap();
    storage.close().unwrap();
    let disk = disk.restart(Crash::Power, &mut Chance::from_seed(2));
    let (storage, report) = open(&disk);
    assert_eq!((report.clean, report.groups_replayed, report.segments_cut), (true, 0, 0));
    assert_eq!(texts(&committed(&storage, &tp("t", 0))), ["a", "b", "c"]);
}

#[test]
fn read_committed_stops_at_an_open_transaction_and_skips_an_aborted_one() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    create_topic(&mut storage, "t", 1, 1);
    let t = tp("t", 0);
    let (a, b) = (ProducerIdentity::new(1, 0), ProducerIdentity::new(2, 0));
    append_verified(&mut storage, &t, a, 0, &["a0", "a1"]).unwrap();
    append_verified(&mut storage, &t, b, 0, &["b0"]).unwrap();
    append(&mut storage, &t, &plain(&["plain"])).unwrap();
    storage.append_marker(&t, &marker(ProducerIdentity::new(2, 1), Outcome::Commit), NOW).unwrap();
    storage.commit().unwrap();
    let reader = storage.reader(&t).unwrap();
    assert_eq!(reader.watermarks().last_stable_offset, 0);
    assert!(committed(&storage, &t).is_empty());
    assert_eq!(read_all(&storage, &t, 0, IsolationLevel::ReadUncommitted).len(), 4);
    storage.append_marker(&t, &marker(ProducerIdentity::new(1, 1), Outcome::Abort), NOW).unwrap();
    storage.commit().unwrap();
    assert_eq!(texts(&committed(&storage, &t)), ["b0", "plain"]);
    assert_eq!(reader.watermarks().last_stable_offset, 6);
}

#[test]
fn after_a_failed_sync_the_storage_answers_nothing_more() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    create_topic(&mut storage, "t", 1, 1);
    storage.commit().unwrap();
    disk.fail_sync_at(disk.syncs() + 1);
    append(&mut storage, &tp("t", 0), &plain(&["a"])).unwrap();
    let failed = storage.commit().unwrap_err();
    assert!(failed.to_string().contains("syncing of /data/journal/"), "{failed}");
    assert_eq!(storage.commit().unwrap_err(), failed);
    assert_eq!(storage.checkpoint().unwrap_err(), failed);
    let refused = append(&mut storage, &tp("t", 0), &plain(&["b"])).unwrap_err();
    assert_eq!(refused.error_code(), ErrorCode::KafkaStorageError);
    assert!(committed(&storage, &tp("t", 0)).is_empty(), "what was not durable was never seen");
    assert_eq!(storage.close().unwrap_err(), failed);
}

#[test]
fn a_full_disk_refuses_data_and_still_takes_markers_and_deletions() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    create_topic(&mut storage, "t", 1, 1);
    let t = tp("t", 0);
    append_verified(&mut storage, &t, ProducerIdentity::new(1, 0), 0, &["open"]).unwrap();
    storage.commit().unwrap();
    let used = u64::MAX - disk.available_bytes().unwrap();
    assert_eq!(used, 0, "this disk has no end yet");
    disk.set_capacity_bytes(Some(300 << 10));
    let mut refusals = 0;
    let mut taken = 0;
    for _ in 0..200 {
        match append(&mut storage, &t, &plain(&["0123456789".repeat(100).as_str()])) {
            Ok(_) => taken += 1,
            Err(AppendError::Storage(StageError::DiskFull { .. })) => refusals += 1,
            Err(error) => panic!("{error}"),
        }
        storage.commit().unwrap();
    }
    assert!(refusals > 10 && taken > 10, "{refusals} refusals, {taken} taken");
    assert!(matches!(storage.refusal(), Some(StageError::DiskFull { .. })));
    storage.append_marker(&t, &marker(ProducerIdentity::new(1, 1), Outcome::Commit), NOW).unwrap();
    storage.delete_records(&t, Some(3)).unwrap();
    storage.commit().unwrap();
    assert_eq!(committed(&storage, &t).len(), taken + 1 - 3);
    assert!(storage.refusal().is_some(), "markers say nothing of new data");
    // Nothing of what was taken is lost, with the disk as full as it is.
    let before = committed(&storage, &t);
    drop(storage);
    let disk = disk.restart(Crash::Power, &mut Chance::from_seed(3));
    disk.set_capacity_bytes(None);
    let (mut storage, _) = open(&disk);
    assert_eq!(committed(&storage, &t), before);
    append(&mut storage, &t, &plain(&["there is space again"])).unwrap();
    storage.commit().unwrap();
    // It says so once it is full again, and no longer when there is space again.
    assert_eq!(storage.refusal(), None);
    disk.set_capacity_bytes(Some(1));
    storage.commit().unwrap();
    while append(&mut storage, &t, &plain(&["x".repeat(1000).as_str()])).is_ok() {
        storage.commit().unwrap();
    }
    assert!(storage.refusal().is_some());
    disk.set_capacity_bytes(None);
    append(&mut storage, &t, &plain(&["taken"])).unwrap();
    assert_eq!(storage.refusal(), None);
    storage.commit().unwrap();
}

#[test]
fn a_damaged_group_that_was_synced_is_named_and_nothing_is_changed() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    create_topic(&mut storage, "t", 1, 1);
    storage.commit().unwrap();
    for value in ["a", "b", "c"] {
        append(&mut storage, &tp("t", 0), &plain(&[value])).unwrap();
        storage.commit().unwrap();
    }
    let journal = folder().join("journal").join("00000000000000000001.journal");
    // The groups: topic, a, b, c; each takes a block. Damage "a".
    disk.damage(&journal, 4096 + 100, 0xff).unwrap();
    let disk = disk.restart(Crash::Process, &mut Chance::from_seed(1));
    let error = Storage::open(disk.clone(), config()).err().unwrap();
    let OpenError::Corrupt { path, position, .. } = &error else { panic!("{error}") };
    assert_eq!((path.as_path(), *position), (journal.as_path(), 4096));
    assert!(disk.points() <= 2, "folders were synced, and that is all: {}", disk.points());
    // Told to, it opens with what stands before; "b" and "c" are lost with "a".
    let mut salvage = config();
    salvage.salvage = true;
    let (storage, report) = open_with(&disk, salvage);
    assert!(report.salvaged && report.torn_tail.is_none());
    assert!(committed(&storage, &tp("t", 0)).is_empty());
}

#[test]
fn a_torn_last_group_is_dropped_whole() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    create_topic(&mut storage, "t", 1, 2);
    storage.commit().unwrap();
    append(&mut storage, &tp("t", 0), &plain(&["a"])).unwrap();
    append(&mut storage, &tp("t", 1), &plain(&["a"])).unwrap();
    storage.commit().unwrap();
    let journal = folder().join("journal").join("00000000000000000001.journal");
    disk.damage(&journal, 4096 + 150, 0xff).unwrap();
    let disk = disk.restart(Crash::Process, &mut Chance::from_seed(1));
    let (storage, report) = open(&disk);
    let torn = report.torn_tail.unwrap();
    assert_eq!((torn.path, torn.position, torn.bytes), (journal, 4096, 4096));
    assert!(committed(&storage, &tp("t", 0)).is_empty() && committed(&storage, &tp("t", 1)).is_empty());
}

#[test]
fn a_journal_file_that_was_cut_or_is_gone_is_named_and_nothing_is_changed() {
    let make = || {
        let disk = FaultyDisk::new();
        let (mut storage, _) = open(&disk);
        create_topic(&mut storage, "t", 1, 1);
        for value in ["a", "b", "c"] {
            append(&mut storage, &tp("t", 0), &plain(&[value])).unwrap();
            storage.commit().unwrap();
        }
        drop(storage);
        disk.restart(Crash::Process, &mut Chance::from_seed(1))
    };
    let journal = folder().join("journal/00000000000000000001.journal");
    let refusal = |disk: &FaultyDisk| {
        let error = Storage::open(disk.clone(), config()).err().unwrap();
        let OpenError::Corrupt { path, .. } = &error else { panic!("{error}") };
        assert_eq!(path, &journal, "{error}");
    };
    // At the edge of a group, so that what is left is whole.
    let disk = make();
    disk.open(&journal).unwrap().set_length(2 * 4096).unwrap();
    refusal(&disk);
    let disk = make();
    disk.remove_file(&journal).unwrap();
    refusal(&disk);
    let disk = make();
    disk.remove_directory(&folder().join("journal")).unwrap();
    refusal(&disk);
    // All of it gone, and the caller knows that there was something.
    let disk = FaultyDisk::new();
    let mut used = config();
    used.was_used = true;
    assert!(matches!(Storage::open(disk, used), Err(OpenError::NoCheckpoint { .. })));
}

#[test]
fn a_damaged_or_missing_checkpoint_is_named() {
    let make = || {
        let disk = FaultyDisk::new();
        let (mut storage, _) = open(&disk);
        create_topic(&mut storage, "t", 1, 1);
        append(&mut storage, &tp("t", 0), &plain(&["a"])).unwrap();
        storage.checkpoint().unwrap();
        drop(storage);
        disk.restart(Crash::Process, &mut Chance::from_seed(1))
    };
    let refusal = |disk: &FaultyDisk| Storage::open(disk.clone(), config()).err().unwrap().to_string();
    let disk = make();
    disk.damage(&folder().join("checkpoint"), 40, 0xff).unwrap();
    assert!(refusal(&disk).contains("/data/checkpoint"));

    let disk = make();
    disk.remove_file(&folder().join("checkpoint")).unwrap();
    assert!(refusal(&disk).contains("no checkpoint"));
}

#[test]
fn a_folder_of_somebody_else_stays_as_it_is() {
    let disk = FaultyDisk::new();
    let (storage, _) = open(&disk);
    drop(storage);
    let disk = disk.restart(Crash::Process, &mut Chance::from_seed(1));
    disk.create_directories(&folder().join("my-project-1")).unwrap();
    disk.open_or_create(&folder().join("my-project-1/thesis.tex")).unwrap();
    disk.open_or_create(&folder().join("notes-2")).unwrap();
    open(&disk);
    assert!(disk.open(&folder().join("my-project-1/thesis.tex")).is_ok());
    assert!(disk.open(&folder().join("notes-2")).is_ok());
}

/// A file's copy beside it.
fn copy(disk: &FaultyDisk, from: &str, to: &str) {
    let bytes = disk.bytes(&folder().join(from)).unwrap();
    disk.open_or_create(&folder().join(to)).unwrap().write_at(&bytes, 0).unwrap();
}

#[test]
fn a_copy_of_a_partitions_folder_and_an_empty_one_are_left_and_reported() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    create_topic(&mut storage, "t", 1, 1);
    append(&mut storage, &tp("t", 0), &plain(&["a"])).unwrap();
    storage.close().unwrap();
    let disk = disk.restart(Crash::Process, &mut Chance::from_seed(1));
    // One comes before the partition's own folder by name, one after it.
    for name in ["a-0", "t-backup-0"] {
        disk.create_directories(&folder().join(name)).unwrap();
        for file in ["partition.metadata", "00000000000000000000.log"] {
            copy(&disk, &format!("t-0/{file}"), &format!("{name}/{file}"));
        }
    }
    disk.create_directories(&folder().join("pics-2024")).unwrap();
    let foreign = ["a-0", "pics-2024", "t-backup-0"].map(|name| folder().join(name));
    for _ in 0..2 {
        let (mut storage, report) = open(&disk);
        let mut reported = report.foreign_folders;
        reported.sort();
        assert_eq!(reported, foreign);
        assert_eq!(texts(&committed(&storage, &tp("t", 0))), ["a"]);
        storage.checkpoint().unwrap();
    }
    assert!(disk.open(&folder().join("a-0/00000000000000000000.log")).is_ok());
    assert!(disk.open(&folder().join("t-backup-0/00000000000000000000.log")).is_ok());
    assert!(disk.list(&folder().join("pics-2024")).is_ok());
}

#[test]
fn a_stray_file_in_a_partitions_folder_harms_nothing_and_is_left() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    create_topic(&mut storage, "t", 1, 1);
    append(&mut storage, &tp("t", 0), &plain(&["a"])).unwrap();
    storage.close().unwrap();
    let disk = disk.restart(Crash::Process, &mut Chance::from_seed(1));
    disk.open_or_create(&folder().join("t-0/notes.txt")).unwrap();
    let (storage, report) = open(&disk);
    assert_eq!(texts(&committed(&storage, &tp("t", 0))), ["a"]);
    assert!(report.foreign_folders.is_empty());
    assert!(disk.open(&folder().join("t-0/notes.txt")).is_ok());
}

#[test]
fn what_stands_where_a_new_topics_folder_belongs_is_set_aside() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    disk.create_directories(&folder().join("t-0")).unwrap();
    disk.open_or_create(&folder().join("t-0/thesis.tex")).unwrap();
    disk.open_or_create(&folder().join("t-1")).unwrap();
    create_topic(&mut storage, "t", 1, 2);
    for partition in 0..2 {
        append(&mut storage, &tp("t", partition), &plain(&["a"])).unwrap();
    }
    storage.close().unwrap();
    let disk = disk.restart(Crash::Power, &mut Chance::from_seed(1));
    let (storage, _) = open(&disk);
    for partition in 0..2 {
        assert_eq!(texts(&committed(&storage, &tp("t", partition))), ["a"]);
    }
    assert!(disk.open(&folder().join("t-0.1-stray/thesis.tex")).is_ok());
    assert!(disk.open(&folder().join("t-1.1-stray")).is_ok());
}

#[test]
fn old_data_is_read_from_segments_and_the_end_from_memory() {
    // Written early, and only when memory is full.
    for segment_write_bytes in [1000, 1 << 20] {
        read_old_and_new(segment_write_bytes);
    }
}

fn read_old_and_new(segment_write_bytes: usize) {
    let disk = FaultyDisk::new();
    let mut config = config();
    config.tail_bytes_max = 20 << 10;
    config.segment_bytes = 5000;
    config.segment_write_bytes = segment_write_bytes;
    let (mut storage, _) = open_with(&disk, config);
    create_topic(&mut storage, "t", 1, 1);
    let t = tp("t", 0);
    for number in 0..300 {
        append(&mut storage, &t, &plain(&[format!("{number:0>100}").as_str()])).unwrap();
        storage.commit().unwrap();
    }
    let values = committed(&storage, &t);
    assert_eq!(values.len(), 300);
    assert!(
        values
            .iter()
            .enumerate()
            .all(|(place, (offset, value))| { place as i64 == *offset && value.parse::<usize>().unwrap() == place })
    );
    let segments = disk.list(&folder().join("t-0")).unwrap();
    assert!(segments.len() > 5, "{segments:?}");
    // From every offset, so also from the middle of a segment and over the edge to memory.
    let reader = storage.reader(&t).unwrap();
    for offset in 0..300 {
        let read = reader.read(offset, 1000, IsolationLevel::ReadUncommitted).unwrap();
        let first = BatchView::new(&read.batches[0]).unwrap();
        assert_eq!(first.base_offset(), offset);
    }
    let read = reader.read(300, 1000, IsolationLevel::ReadUncommitted).unwrap();
    assert!(read.batches.is_empty() && read.aborted.is_none());
    let out_of_range = reader.read(301, 1000, IsolationLevel::ReadUncommitted).unwrap_err();
    assert_eq!(out_of_range.error_code(), ErrorCode::OffsetOutOfRange);
}

#[test]
fn reading_at_the_end_touches_no_file() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    create_topic(&mut storage, "t", 1, 1);
    append(&mut storage, &tp("t", 0), &plain(&["a"])).unwrap();
    storage.commit().unwrap();
    let reader = storage.reader(&tp("t", 0)).unwrap();
    disk.stop_at(disk.points() + 1);
    storage.checkpoint().unwrap();
    assert!(disk.is_stopped());
    assert_eq!(reader.read(0, 100, IsolationLevel::ReadCommitted).unwrap().batches.len(), 1);
}

#[test]
fn deleted_records_are_out_of_range_and_their_segments_go_with_the_next_checkpoint() {
    let disk = FaultyDisk::new();
    let mut config = config();
    config.segment_bytes = 500;
    let (mut storage, _) = open_with(&disk, config.clone());
    create_topic(&mut storage, "t", 1, 1);
    let t = tp("t", 0);
    for _ in 0..50 {
        append(&mut storage, &t, &plain(&["0123456789"])).unwrap();
    }
    storage.checkpoint().unwrap();
    let before = disk.list(&folder().join("t-0")).unwrap().len();
    let (start, _) = storage.delete_records(&t, Some(33)).unwrap();
    assert_eq!(start, 33);
    let reader = storage.reader(&t).unwrap();
    assert_eq!(reader.watermarks().log_start_offset, 0, "not before the commit");
    storage.commit().unwrap();
    assert_eq!(reader.watermarks().log_start_offset, 33);
    let error = reader.read(32, 100, IsolationLevel::ReadUncommitted).unwrap_err();
    assert_eq!(error.error_code(), ErrorCode::OffsetOutOfRange);
    storage.checkpoint().unwrap();
    let after = disk.list(&folder().join("t-0")).unwrap().len();
    assert!(after < before, "{before} files, then {after}");
    assert_eq!(committed(&storage, &t).len(), 17);
    assert!(storage.delete_records(&t, Some(51)).is_err());
    assert_eq!(storage.delete_records(&t, Some(3)).unwrap().0, 33, "the log start does not go back");
    assert_eq!(storage.delete_records(&t, None).unwrap().0, 50);
    drop(storage);
    let disk = disk.restart(Crash::Power, &mut Chance::from_seed(1));
    let (storage, _) = open_with(&disk, config);
    assert_eq!(committed(&storage, &t).len(), 17, "what was not committed did not happen");
}

#[test]
fn a_deleted_topics_name_is_free_and_its_successor_inherits_nothing() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    create_topic(&mut storage, "t", 1, 1);
    let t = tp("t", 0);
    append(&mut storage, &t, &batch(ProducerIdentity::new(7, 0), 0, false, &["old"])).unwrap();
    storage.checkpoint().unwrap();
    let reader = storage.reader(&t).unwrap();
    storage.delete_topic(topic_id(1)).unwrap();
    assert!(!reader.is_deleted(), "not before the commit");
    let refused = append(&mut storage, &t, &plain(&["x"])).unwrap_err();
    assert_eq!(refused.error_code(), ErrorCode::UnknownTopicOrPartition);
    create_topic(&mut storage, "t", 2, 1);
    append(&mut storage, &t, &plain(&["new"])).unwrap();
    assert!(storage.commit().unwrap().moved.contains(&t));
    assert!(reader.is_deleted() && reader.read(0, 100, IsolationLevel::ReadCommitted).is_err());
    assert_eq!(texts(&committed(&storage, &t)), ["new"]);
    assert!(storage.producers(&t).is_empty());
    storage.checkpoint().unwrap();
    let names = disk.list(folder()).unwrap();
    assert!(!names.iter().any(|name| name.to_str().unwrap().contains("delete")), "{names:?}");
    drop(storage);
    let disk = disk.restart(Crash::Power, &mut Chance::from_seed(1));
    let (mut storage, _) = open(&disk);
    assert_eq!(texts(&committed(&storage, &t)), ["new"]);
    storage.delete_topic(topic_id(2)).unwrap();
    storage.checkpoint().unwrap();
    assert!(disk.list(&folder().join("t-0")).is_err(), "its folder is gone");
}

#[test]
fn duplicates_are_known_after_a_restart_all_five() {
    for crash in [Crash::Process, Crash::Power] {
        let disk = FaultyDisk::new();
        let (mut storage, _) = open(&disk);
        create_topic(&mut storage, "t", 1, 1);
        let producer = ProducerIdentity::new(7, 0);
        for sequence in 0..4 {
            append(&mut storage, &tp("t", 0), &batch(producer, sequence, false, &["x"])).unwrap();
        }
        storage.checkpoint().unwrap();
        for sequence in 4..6 {
            append(&mut storage, &tp("t", 0), &batch(producer, sequence, false, &["x"])).unwrap();
        }
        storage.commit().unwrap();
        drop(storage);
        let (mut storage, _) = open(&disk.restart(crash, &mut Chance::from_seed(9)));
        for sequence in 1..6 {
            let again = append(&mut storage, &tp("t", 0), &batch(producer, sequence, false, &["x"])).unwrap();
            assert_eq!((again.duplicate, again.base_offset), (true, i64::from(sequence)));
        }
        let old = append(&mut storage, &tp("t", 0), &batch(producer, 0, false, &["x"])).unwrap_err();
        assert_eq!(old.error_code(), ErrorCode::OutOfOrderSequenceNumber);
        assert!(!append(&mut storage, &tp("t", 0), &batch(producer, 6, false, &["x"])).unwrap().duplicate);
    }
}

#[test]
fn a_duplicate_waits_for_what_it_repeats() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    create_topic(&mut storage, "t", 1, 1);
    storage.commit().unwrap();
    let bytes = batch(ProducerIdentity::new(7, 0), 0, false, &["x"]);
    append(&mut storage, &tp("t", 0), &bytes).unwrap();
    let again = append(&mut storage, &tp("t", 0), &bytes).unwrap();
    assert!(again.duplicate && again.position > storage.durable_position());
}

#[test]
fn the_time_of_append_is_put_into_the_batch_where_the_topic_says_so() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    let configs = [("message.timestamp.type".to_owned(), "LogAppendTime".to_owned())].into();
    storage.create_topic(&"t".into(), topic_id(1), 1, configs).unwrap();
    let bytes = batch(ProducerIdentity::new(7, 0), 0, false, &["x"]);
    let later = Timestamp(NOW.0 + 500);
    let appended = storage.append(&tp("t", 0), &bytes, Origin::CLIENT, later).unwrap();
    assert_eq!(appended.log_append_time, later);
    let again = storage.append(&tp("t", 0), &bytes, Origin::CLIENT, Timestamp(NOW.0 + 900)).unwrap();
    assert_eq!((again.duplicate, again.log_append_time), (true, later));
    storage.commit().unwrap();
    let reader = storage.reader(&tp("t", 0)).unwrap();
    let read = reader.read(0, 100, IsolationLevel::ReadCommitted).unwrap();
    let view = BatchView::new(&read.batches[0]).unwrap();
    view.validate().unwrap();
    assert_eq!((view.timestamp_type(), view.max_timestamp()), (TimestampType::LogAppendTime, later.0));
}

#[test]
fn what_must_not_be_divided_and_does_not_fit_is_refused() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    create_topic(&mut storage, "t", 1, 1);
    storage.commit().unwrap();
    let large = plain(&["x".repeat(29 << 10).as_str()]);
    storage.begin_unit();
    append(&mut storage, &tp("t", 0), &large).unwrap();
    append(&mut storage, &tp("t", 0), &large).unwrap();
    let refused = append(&mut storage, &tp("t", 0), &large).unwrap_err();
    assert!(matches!(refused, AppendError::Storage(StageError::GroupFull { .. })), "{refused}");
    storage.end_unit();
    // Outside of a unit the next group takes it.
    append(&mut storage, &tp("t", 0), &large).unwrap();
    storage.commit().unwrap();
    assert_eq!(committed(&storage, &tp("t", 0)).len(), 3);
}

#[test]
fn without_syncs_power_loss_raises_the_leader_epoch() {
    let disk = FaultyDisk::new();
    let mut first = os(config());
    first.boot_id = Some(topic_id(1));
    first.raise_leader_epoch = true;
    let (mut storage, _) = open_with(&disk, first.clone());
    create_topic(&mut storage, "t", 1, 1);
    append(&mut storage, &tp("t", 0), &plain(&["a"])).unwrap();
    storage.checkpoint().unwrap();
    drop(storage);
    let epoch = |storage: &mut Storage<FaultyDisk>| {
        let appended = append(storage, &tp("t", 0), &plain(&["b"])).unwrap();
        storage.checkpoint().unwrap();
        let reader = storage.reader(&tp("t", 0)).unwrap();
        let read = reader.read(appended.base_offset, 100, IsolationLevel::ReadUncommitted).unwrap();
        BatchView::new(&read.batches[0]).unwrap().partition_leader_epoch()
    };
    // The process died, and the kernel is the same.
    let disk = disk.restart(Crash::Process, &mut Chance::from_seed(1));
    let (mut storage, report) = open_with(&disk, first.clone());
    assert_eq!((report.after_power_loss, epoch(&mut storage)), (false, 0));
    drop(storage);
    let disk = disk.restart(Crash::Power, &mut Chance::from_seed(1));
    let mut second = first;
    second.boot_id = Some(topic_id(2));
    let (mut storage, report) = open_with(&disk, second.clone());
    assert_eq!((report.after_power_loss, epoch(&mut storage)), (true, 1));
    assert_eq!(storage.leader_epoch(), 1);
    storage.close().unwrap();
    let disk = disk.restart(Crash::Power, &mut Chance::from_seed(1));
    second.boot_id = Some(topic_id(3));
    let (mut storage, report) = open_with(&disk, second);
    assert_eq!((report.after_power_loss, epoch(&mut storage)), (false, 1), "a clean end loses nothing");
}

#[test]
fn journal_files_are_reused_and_their_number_is_bounded() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    create_topic(&mut storage, "t", 1, 1);
    let value = "x".repeat(1000);
    for _ in 0..400 {
        append(&mut storage, &tp("t", 0), &plain(&[value.as_str()])).unwrap();
        storage.commit().unwrap();
    }
    let files = disk.list(&folder().join("journal")).unwrap();
    assert!(files.len() <= 5, "{files:?}");
    let last = files.iter().filter_map(|name| name.to_str()?.strip_suffix(".journal")?.parse::<u64>().ok()).max();
    assert!(last.unwrap() > 20, "{files:?}");
}

/// Each file announces the next one, so that the journal does not seem to end where a file is gone: not even the last.
#[test]
fn any_journal_file_that_is_gone_is_named_and_refuses_the_start() {
    let mut many = config();
    many.journal_files_max = 100;
    let make = || {
        let disk = FaultyDisk::new();
        let (mut storage, _) = open_with(&disk, many.clone());
        create_topic(&mut storage, "t", 1, 1);
        let value = "x".repeat(1000);
        for _ in 0..50 {
            append(&mut storage, &tp("t", 0), &plain(&[value.as_str()])).unwrap();
            storage.commit().unwrap();
        }
        drop(storage);
        disk.restart(Crash::Power, &mut Chance::from_seed(1))
    };
    let path = |number: u64| folder().join(format!("journal/{number:020}.journal"));
    let written = make();
    let count = (1..).take_while(|number| written.bytes(&path(*number)).is_ok()).count() as u64;
    assert!(count >= 4, "{count} files");
    for missing in 1..=count {
        let disk = make();
        disk.remove_file(&path(missing)).unwrap();
        let points = disk.points();
        let error = Storage::open(disk.clone(), many.clone())
            .err()
            .unwrap_or_else(|| panic!("file {missing} of {count} is not missed"));
        let OpenError::Corrupt { path: named, .. } = &error else { panic!("{error}") };
        assert_eq!(*named, path(missing), "{error}");
        assert!(disk.points() - points <= 2, "nothing was changed");
        let check = atonce_log::check::check(&disk, folder(), many.journal_file_bytes).unwrap();
        assert_eq!(check.journal.damage.unwrap().path, path(missing));
        // Told to, it opens with what stands before.
        let salvage = atonce_log::StorageConfig { salvage: true, ..many.clone() };
        let (storage, report) = open_with(&disk, salvage);
        // The topic itself stands in the first file.
        let kept = storage.reader(&tp("t", 0)).map_or(0, |_| committed(&storage, &tp("t", 0)).len());
        assert!(report.salvaged && kept < 50 && (missing == 1) == (kept == 0), "{missing}: {kept} of 50 are left");
    }
}

#[test]
fn control_batches_and_batches_in_pairs_are_refused() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    create_topic(&mut storage, "t", 1, 1);
    let marker = marker_batch(ProducerIdentity::new(1, 0), Outcome::Commit, 0, NOW.0);
    let refused = append(&mut storage, &tp("t", 0), &marker).unwrap_err();
    assert_eq!(refused.error_code(), ErrorCode::InvalidRecord);
    let pair = [plain(&["a"]), plain(&["b"])].concat();
    assert_eq!(append(&mut storage, &tp("t", 0), &pair).unwrap_err().error_code(), ErrorCode::InvalidRecord);
    let cut = plain(&["a"]);
    let refused = append(&mut storage, &tp("t", 0), &cut[..cut.len() - 1]).unwrap_err();
    assert_eq!(refused.error_code(), ErrorCode::InvalidRecord);
}

#[test]
fn the_longest_topic_name_can_be_deleted() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    let name = "x".repeat(249);
    create_topic(&mut storage, &name, 1, 1);
    append(&mut storage, &tp(&name, 0), &plain(&["a"])).unwrap();
    storage.checkpoint().unwrap();
    storage.delete_topic(topic_id(1)).unwrap();
    storage.commit().unwrap();
    let names = disk.list(folder()).unwrap();
    let aside: Vec<_> = names.iter().filter(|name| name.to_str().unwrap().ends_with("-delete")).collect();
    assert!(aside.len() == 1 && aside[0].as_os_str().len() <= 255, "{names:?}");
    drop(storage);
    let disk = disk.restart(Crash::Power, &mut Chance::from_seed(1));
    let (storage, _) = open(&disk);
    assert_eq!(storage.catalog().topics().count(), 0);
    assert!(!disk.list(folder()).unwrap().iter().any(|name| name.to_str().unwrap().contains("xxx")));
}

/// Segments that a checkpoint is about to remove, and a new topic with files of the same name before it has.
#[test]
fn a_running_checkpoint_does_not_remove_the_files_of_a_new_topic() {
    let disk = FaultyDisk::new();
    let mut config = config();
    config.segment_bytes = 200;
    config.segment_write_bytes = 1;
    let (mut storage, _) = open_with(&disk, config.clone());
    let t = tp("t", 0);
    create_topic(&mut storage, "t", 1, 1);
    for _ in 0..5 {
        append(&mut storage, &t, &plain(&["0123456789".repeat(10).as_str()])).unwrap();
    }
    storage.checkpoint().unwrap();
    storage.delete_records(&t, None).unwrap();
    let work = storage.begin_checkpoint().unwrap().unwrap();
    storage.delete_topic(topic_id(1)).unwrap();
    create_topic(&mut storage, "t", 2, 1);
    append(&mut storage, &t, &plain(&["new"])).unwrap();
    storage.commit().unwrap();
    storage.finish_checkpoint(work.run()).unwrap();
    storage.checkpoint().unwrap();
    drop(storage);
    let disk = disk.restart(Crash::Power, &mut Chance::from_seed(1));
    assert_eq!(texts(&committed(&open_with(&disk, config).0, &t)), ["new"]);
}

/// Readers start over again and again while the writer appends, rolls segments, drops memory and makes checkpoints.
#[test]
#[expect(clippy::disallowed_methods, reason = "this is about threads")]
fn readers_on_other_threads_see_a_prefix_that_only_grows() {
    const BATCHES: i64 = 1500;
    let disk = FaultyDisk::new();
    let mut config = config();
    config.tail_bytes_max = 30 << 10;
    config.segment_bytes = 3000;
    config.segment_write_bytes = 700;
    config.open_files_max = 3;
    let (mut storage, _) = open_with(&disk, config);
    create_topic(&mut storage, "t", 1, 1);
    storage.commit().unwrap();
    let t = tp("t", 0);
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let reader = storage.reader(&t).unwrap();
            std::thread::spawn(move || {
                let (mut passes, mut last_end) = (0, 0);
                while last_end < BATCHES {
                    let mut next = 0;
                    loop {
                        let read = reader.read(next, 5000, IsolationLevel::ReadCommitted).unwrap();
                        assert!(read.watermarks.high_watermark >= last_end, "the high watermark went back");
                        last_end = read.watermarks.high_watermark;
                        if read.batches.is_empty() {
                            break;
                        }
                        for bytes in &read.batches {
                            let view = BatchView::new(bytes).unwrap();
                            view.validate().unwrap();
                            assert_eq!(view.base_offset(), next);
                            let record = view.records().unwrap().next().unwrap().unwrap();
                            assert_eq!(record.value.unwrap(), format!("{next:0>90}").as_bytes());
                            next = view.next_offset();
                        }
                    }
                    passes += 1;
                }
                passes
            })
        })
        .collect();
    for number in 0..BATCHES {
        append(&mut storage, &t, &plain(&[format!("{number:0>90}").as_str()])).unwrap();
        storage.commit().unwrap();
    }
    for reader in readers {
        assert!(reader.join().unwrap() >= 1);
    }
}

#[test]
fn the_segment_that_holds_the_log_start_stays() {
    let disk = FaultyDisk::new();
    let mut config = config();
    config.segment_bytes = 300;
    config.tail_bytes_max = 1;
    let (mut storage, _) = open_with(&disk, config);
    create_topic(&mut storage, "t", 1, 1);
    let t = tp("t", 0);
    for _ in 0..20 {
        append(&mut storage, &t, &plain(&["0123456789"])).unwrap();
    }
    storage.checkpoint().unwrap();
    for start in 1..20 {
        storage.delete_records(&t, Some(start)).unwrap();
        storage.checkpoint().unwrap();
        let read = storage.reader(&t).unwrap().read(start, 1, IsolationLevel::ReadUncommitted).unwrap();
        assert_eq!(BatchView::new(&read.batches[0]).unwrap().base_offset(), start);
    }
}
