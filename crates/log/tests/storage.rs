//! What a storage does while nothing fails.

mod support;

use atonce_kernel::chance::Chance;
use atonce_kernel::{Outcome, ProducerIdentity};
use atonce_log::IsolationLevel;
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
