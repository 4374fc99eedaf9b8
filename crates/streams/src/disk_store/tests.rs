use atonce_kernel::{Timestamp, Uuid};
use atonce_streams_core::Guarantee;

use super::*;

const TASK: TaskId = TaskId { subtopology: 0, partition: 0 };

fn position(offset: i64) -> StorePosition {
    StorePosition {
        topic_id: Uuid([1; 16]),
        offset,
        leader_epoch: None,
        written_at: Timestamp(1),
        guarantee: Guarantee::ExactlyOnce,
    }
}

/// Without the gate this fails within seconds: a flush in the background makes half a batch visible.
#[test]
fn a_scan_beside_a_writer_never_sees_half_a_batch() {
    const KEYS: u32 = 200;
    let folder = tempfile::tempdir().unwrap();
    let engine = DiskEngine::open(folder.path().join("stores")).unwrap();
    // Small memtables make flushes frequent: the keyspace keeps the options it was made with.
    let options = || KeyspaceCreateOptions::default().max_memtable_size(64 << 10);
    engine.database.keyspace(&keyspace_name(TASK, "s"), options).unwrap();
    let mut writer = engine.open_store(TASK, "s").unwrap();
    let reader = engine.open_store(TASK, "s").unwrap();
    let write = |store: &mut DiskStore, version: u64| {
        let value = Bytes::from(version.to_be_bytes().repeat(8));
        let changes = (0..KEYS).map(|key| (Bytes::copy_from_slice(&key.to_be_bytes()), Some(value.clone())));
        store.apply(StoreBatch { changes: changes.collect(), position: Some(position(version as i64)) }).unwrap();
    };
    write(&mut writer, 0);
    let is_done = AtomicBool::new(false);
    let scans = std::thread::scope(|scope| {
        scope.spawn(|| {
            for version in 1..800 {
                write(&mut writer, version);
            }
            is_done.store(true, Ordering::Release);
        });
        let mut scans = 0;
        while !is_done.load(Ordering::Acquire) {
            let entries = reader.scan(Bound::Unbounded, Bound::Unbounded, Direction::Ascending, usize::MAX).unwrap();
            assert_eq!(entries.len(), KEYS as usize);
            assert!(entries.iter().all(|(_, value)| value == &entries[0].1), "a scan saw two versions");
            scans += 1;
        }
        scans
    });
    assert!(scans > 10, "only {scans} scans ran beside the writer");
}

#[test]
fn what_was_applied_survives_a_process_that_never_closes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stores");
    let engine = DiskEngine::open(&path).unwrap();
    let mut store = engine.open_store(TASK, "s").unwrap();
    let change = (Bytes::from_static(b"k"), Some(Bytes::from_static(b"v")));
    store.apply(StoreBatch { changes: vec![change], position: Some(position(5)) }).unwrap();
    // As the kernel leaves the files after SIGKILL: copied while the engine is open, nothing closed.
    let copy = folder.path().join("copy");
    copy_folder(&path, &copy);
    let store = DiskEngine::open(&copy).unwrap().open_store(TASK, "s").unwrap();
    assert_eq!((store.get(b"k").unwrap(), store.position()), (Some(Bytes::from_static(b"v")), Some(position(5))));
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &to.join(entry.file_name()));
        } else {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

#[test]
fn a_folder_that_cannot_be_read_is_set_aside_and_begun_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stores");
    let mut store = DiskEngine::open(&path).unwrap().open_store(TASK, "s").unwrap();
    store.apply(StoreBatch { changes: Vec::new(), position: Some(position(5)) }).unwrap();
    drop(store);
    std::fs::write(path.join("version"), b"no version").unwrap();
    let engine = DiskEngine::open(&path).unwrap();
    assert_eq!(engine.open_store(TASK, "s").unwrap().position(), None);
    assert!(folder.path().join("stores.untrusted-1").exists());
}

#[test]
fn the_tasks_whose_stores_lie_here_are_known_from_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let engine = DiskEngine::open(folder.path().join("stores")).unwrap();
    engine.open_store(TaskId { subtopology: 1, partition: 7 }, "a.b").unwrap();
    engine.open_store(TaskId { subtopology: 0, partition: 2 }, "c").unwrap();
    let tasks: Vec<String> = engine.stored_tasks().iter().map(ToString::to_string).collect();
    assert_eq!(tasks, ["0_2", "1_7"]);
}

/// What was set aside is closed when its last handle goes, and then its own folder goes: a handle that was kept somewhere would keep it.
#[test]
fn stores_that_are_opened_and_set_aside_again_and_again_leave_nothing_open() {
    let folder = tempfile::tempdir().unwrap();
    let engine = DiskEngine::open(folder.path().join("stores")).unwrap();
    let mut last = None;
    for round in 0..20 {
        let mut store = engine.open_store(TASK, "s").unwrap();
        let changes = (0..10_u8).map(|key| (Bytes::copy_from_slice(&[key]), Some(Bytes::from_static(b"v"))));
        store.apply(StoreBatch { changes: changes.collect(), position: Some(position(round)) }).unwrap();
        // A scan that is not read to its end.
        assert_eq!(store.scan(Bound::Unbounded, Bound::Unbounded, Direction::Ascending, 1).unwrap().len(), 1);
        let path = store.keyspace.path().to_owned();
        let kept = engine.set_aside_store(TASK, "s", "a test").unwrap().unwrap();
        assert_eq!(kept, folder.path().join("stores.untrusted").join("0_0.s"), "the last one only");
        drop(store);
        assert_ne!(last.replace(path), Some(kept));
    }
    assert_eq!(engine.open_store(TASK, "s").unwrap().position(), None);
    // The engine's own thread may hold the last one for a moment yet.
    let begun = Instant::now();
    let is_gone = || !last.as_ref().is_some_and(|path| path.join("current").exists());
    while !is_gone() {
        assert!(begun.elapsed() < Duration::from_secs(30), "a handle is still open");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Killed in the middle of making it: the engine would refuse it in every life to come.
#[test]
fn a_folder_that_was_never_finished_is_set_aside_and_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stores");
    drop(DiskEngine::open(&path).unwrap());
    let whole: Vec<PathBuf> = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect();
    // What it makes last is what says that it is whole.
    std::fs::remove_file(path.join("version")).unwrap();
    assert!(whole.len() > 1 && open_database(&path).is_err(), "{whole:?}");
    let engine = DiskEngine::open(&path).unwrap();
    assert_eq!(engine.open_store(TASK, "s").unwrap().position(), None);
    assert!(folder.path().join("stores.untrusted-1").is_dir());
}

#[test]
fn a_store_that_is_opened_and_closed_again_and_again_is_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stores");
    let key = Bytes::from_static(b"k");
    for round in 0..4_i64 {
        let engine = DiskEngine::open(&path).unwrap();
        let mut store = engine.open_store(TASK, "s").unwrap();
        let before = round.checked_sub(1).filter(|before| *before >= 0);
        assert_eq!(store.position(), before.map(position));
        assert_eq!(store.get(&key).unwrap(), before.map(|before| Bytes::from(before.to_be_bytes().to_vec())));
        let value = Bytes::from(round.to_be_bytes().to_vec());
        let changes = vec![(key.clone(), Some(value))];
        store.apply(StoreBatch { changes, position: Some(position(round)) }).unwrap();
        store.sync().unwrap();
        assert_eq!(engine.take_set_aside(TASK, "s"), None);
    }
}

/// Makes the engine fail at its work in the background, as a disk would: what it is to write into is not there.
pub(crate) fn let_it_fail(engine: &DiskEngine, store: &DiskStore) {
    let (tables, elsewhere) = (store.keyspace.path().join("tables"), store.keyspace.path().join("elsewhere"));
    std::fs::rename(&tables, &elsewhere).unwrap();
    let changes = |key: u32| BTreeMap::from([(Bytes::copy_from_slice(&key.to_be_bytes()), Some(Bytes::from("v")))]);
    let mut store = engine.open_store(TASK, &store.name).unwrap();
    let begun = Instant::now();
    for key in 0.. {
        let applied = store.apply(StoreBatch { changes: changes(key).into_iter().collect(), position: None });
        if applied.is_err() && engine.has_failed() {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not fail");
        let _ = store.keyspace.rotate_memtable();
        std::thread::sleep(Duration::from_millis(5));
    }
    std::fs::rename(&elsewhere, &tables).unwrap();
}

#[test]
fn an_engine_that_has_given_up_writes_nothing_and_is_opened_anew_with_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stores");
    let engine = DiskEngine::open(&path).unwrap();
    let mut store = engine.open_store(TASK, "s").unwrap();
    let batch = |offset| {
        let changes = [(Bytes::from("key"), Some(Bytes::from(format!("{offset}"))))];
        StoreBatch { changes: changes.into_iter().collect(), position: Some(position(offset)) }
    };
    store.apply(batch(1)).unwrap();
    assert!(!engine.has_failed());
    let_it_fail(&engine, &store);
    assert!(matches!(store.apply(batch(2)), Err(StoreError::Engine { .. })));
    assert!(engine.suspect_marker().exists());
    drop((store, engine));
    let engine = DiskEngine::open(&path).unwrap();
    assert!(!engine.has_failed() && !engine.suspect_marker().exists(), "all was read");
    let mut store = engine.open_store(TASK, "s").unwrap();
    assert_eq!((store.position(), store.get(b"key").unwrap()), (Some(position(1)), Some(Bytes::from("1"))));
    store.apply(batch(2)).unwrap();
}
