//! What is a group and what is none.

use atonce_kernel::chance::Chance;
use atonce_testkit::disk::{Crash, FaultyDisk};

use super::*;

const FILE_BYTES: u64 = 32 << 10;

fn folder() -> PathBuf {
    PathBuf::from("/journal")
}

fn journal(disk: &FaultyDisk) -> Journal<FaultyDisk> {
    disk.create_directories(&folder()).unwrap();
    disk.sync_directory(Path::new("/")).unwrap();
    Journal::new(Arc::new(disk.clone()), folder(), FILE_BYTES, Place::FIRST, 0)
}

fn write(journal: &mut Journal<FaultyDisk>, payload: &[u8]) {
    let mut buffer = new_group(payload.len());
    buffer.put_slice(payload);
    journal.write(buffer).unwrap();
}

fn read(disk: &FaultyDisk) -> Result<(Vec<Bytes>, End), OpenError> {
    let mut payloads = Vec::new();
    let end = scan(disk, &files(disk, &folder()).unwrap(), Place::FIRST, |_, _, payload| {
        payloads.push(payload);
        Ok(())
    })?;
    Ok((payloads, end))
}

#[test]
fn groups_read_back_in_order_over_several_files() {
    let disk = FaultyDisk::new();
    let mut journal = journal(&disk);
    let payloads: Vec<Vec<u8>> = (1..40_u8).map(|number| vec![number; usize::from(number) * 200]).collect();
    for payload in &payloads {
        write(&mut journal, payload);
        journal.sync().unwrap();
    }
    assert!(journal.files_in_use() > 3);
    let (found, end) = read(&disk).unwrap();
    assert_eq!(found, payloads);
    assert_eq!((end.place, end.tail), (journal.place(), Tail::Clean));
}

/// Three groups, all synced, and then bytes of the second are changed: its header, its place in the chain, its payload.
#[test]
fn every_damaged_byte_of_a_synced_group_is_noticed() {
    for position in (0..60).chain([4096 - 1]) {
        let disk = FaultyDisk::new();
        let mut journal = journal(&disk);
        for payload in [&[1_u8; 10][..], &[2; 4096 - GROUP_HEADER_BYTES], &[3; 10]] {
            write(&mut journal, payload);
            journal.sync().unwrap();
        }
        let path = file_path(&folder(), 1);
        let place = 4096 + position;
        let byte = disk.bytes(&path).unwrap()[place];
        disk.damage(&path, place, byte ^ 0x40).unwrap();
        let (payloads, end) = read(&disk).unwrap();
        assert_eq!(payloads.len(), 1);
        assert!(matches!(end.tail, Tail::Damaged { position: 4096, .. }), "byte {position}: {:?}", end.tail);
    }
}

/// A group that is whole in itself, and continues something else: each field that binds it to its place is looked at.
#[test]
fn a_whole_group_from_another_place_is_not_taken() {
    let found_after = |change: &dyn Fn(&mut Place)| {
        let disk = FaultyDisk::new();
        let mut journal = journal(&disk);
        write(&mut journal, b"first");
        change(&mut journal.place);
        write(&mut journal, b"second");
        read(&disk).unwrap().0.len()
    };
    assert_eq!(found_after(&|_| {}), 2);
    assert_eq!(found_after(&|place| place.file_number += 1), 1);
    assert_eq!(found_after(&|place| place.group_number += 1), 1);
    assert_eq!(found_after(&|place| place.previous_checksum ^= 1), 1);
}

#[test]
fn a_reused_file_does_not_bring_its_old_groups_back() {
    let disk = FaultyDisk::new();
    let mut journal = journal(&disk);
    // Files 1 to 3, full of groups of one block, with room for an announcement; then 1 is free and becomes 4.
    for number in 0..7 * 3 {
        write(&mut journal, &[number; 10]);
    }
    let place = journal.place();
    journal.free_before(3);
    write(&mut journal, b"new");
    assert_eq!(journal.place().file_number, 4);
    let mut payloads = Vec::new();
    let end = scan(&disk, &files(&disk, &folder()).unwrap(), place, |_, _, payload| {
        payloads.push(payload);
        Ok(())
    });
    assert_eq!(payloads, [&b"new"[..]]);
    assert_eq!(end.unwrap().tail, Tail::Clean);
}

#[test]
fn a_file_that_was_announced_and_is_gone_is_damage() {
    let disk = FaultyDisk::new();
    let mut journal = journal(&disk);
    for number in 0..8 {
        write(&mut journal, &[number; 10]);
        journal.sync().unwrap();
    }
    assert_eq!(journal.place().file_number, 2);
    disk.remove_file(&file_path(&folder(), 2)).unwrap();
    let (payloads, end) = read(&disk).unwrap();
    assert_eq!(payloads.len(), 7, "the announcement is no group of anybody's");
    let Tail::Damaged { path, position: 0, what } = end.tail else { panic!("{:?}", end.tail) };
    assert_eq!(path, file_path(&folder(), 2));
    assert!(what.contains("file 1 says that it comes next"), "{what}");
}

#[test]
fn unsynced_groups_are_kept_as_a_prefix_and_nothing_is_called_damage() {
    let mut lengths = std::collections::BTreeSet::new();
    for seed in 0..300 {
        let disk = FaultyDisk::new();
        let mut journal = journal(&disk);
        let payloads: Vec<Vec<u8>> = (1..6_u8).map(|number| vec![number; 3000]).collect();
        for payload in &payloads {
            write(&mut journal, payload);
        }
        let disk = disk.restart(Crash::Power, &mut Chance::from_seed(seed));
        let (found, end) = read(&disk).unwrap();
        assert_eq!(found, payloads[..found.len()]);
        assert!(!matches!(end.tail, Tail::Damaged { .. }));
        lengths.insert(found.len());
    }
    assert!(lengths.len() > 3, "{lengths:?}");
}

/// A journal whose first file is an eighth full.
fn begun(disk: &FaultyDisk) -> Journal<FaultyDisk> {
    let mut journal = journal(disk);
    write(&mut journal, &[1; 10]);
    assert_eq!(journal.place().offset, BLOCK_BYTES);
    journal
}

#[test]
fn a_file_made_elsewhere_is_the_next_one() {
    let disk = FaultyDisk::new();
    let mut journal = begun(&disk);
    let work = journal.begin_spare().expect("it is time");
    assert!(journal.begin_spare().is_none(), "one is being made");
    journal.finish_spare(work.run());
    assert!(journal.begin_spare().is_none(), "one is there");
    let made = journal.last_spare;
    while journal.place().file_number == 1 {
        write(&mut journal, &[2; 5000]);
    }
    assert_eq!(journal.last_spare, made, "no other was made");
    journal.sync().unwrap();
    let (payloads, end) = read(&disk).unwrap();
    assert_eq!((payloads.len(), end.tail), (5, Tail::Clean));
}

#[test]
fn no_file_is_made_ahead_while_the_active_one_is_nearly_empty() {
    let disk = FaultyDisk::new();
    let mut journal = journal(&disk);
    journal.begin().unwrap();
    assert!(journal.begin_spare().is_none());
}

/// The journal needs the file before whoever makes it is done.
#[test]
fn a_commit_does_not_wait_for_a_file_that_is_being_made() {
    let disk = FaultyDisk::new();
    let mut journal = begun(&disk);
    let late = journal.begin_spare().expect("it is time");
    while journal.place().file_number == 1 {
        write(&mut journal, &[2; 5000]);
    }
    assert!(journal.begin_spare().is_none(), "the late one still counts");
    journal.finish_spare(late.run());
    assert!(journal.has_spare());
    let made = journal.last_spare;
    while journal.place().file_number == 2 {
        write(&mut journal, &[3; 5000]);
    }
    assert_eq!(journal.last_spare, made, "the late one was taken");
    journal.sync().unwrap();
    assert_eq!(read(&disk).unwrap().1.tail, Tail::Clean);
}

#[test]
fn a_file_that_the_disk_has_no_room_for_leaves_nothing_behind_and_is_tried_again() {
    let disk = FaultyDisk::new();
    let mut journal = begun(&disk);
    disk.set_capacity_bytes(Some(FILE_BYTES + FILE_BYTES / 2));
    let done = journal.begin_spare().expect("it is time").run();
    assert_eq!(done.error().map(io::Error::kind), Some(io::ErrorKind::StorageFull));
    journal.finish_spare(done);
    assert!(!journal.has_spare());
    assert_eq!(disk.list(&folder()).unwrap().len(), 1);
    disk.set_capacity_bytes(None);
    let work = journal.begin_spare().expect("tried again");
    journal.finish_spare(work.run());
    assert!(journal.has_spare());
}
