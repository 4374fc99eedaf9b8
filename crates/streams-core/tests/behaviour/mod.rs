//! What every store engine must do, as one list of stories: run here over the engine in memory, and by the `atonce` crate over the
//! one on disk.

use std::collections::BTreeMap;
use std::ops::Bound;

use atonce_kernel::{Timestamp, Uuid};
use atonce_streams_core::store::{Direction, StateStore, StoreBatch, StoreEngine, StorePosition};
use atonce_streams_core::{Guarantee, TaskId, TestDriver, Topology, TopologyBuilder, store};
use bytes::Bytes;

/// Runs them all; `engine` makes an empty engine.
pub(crate) fn run<E: StoreEngine + 'static>(engine: impl Fn() -> E) {
    changes_and_position_come_back_together(engine());
    stores_of_two_tasks_are_two(engine());
    a_reset_store_is_empty_and_usable(engine());
    scans_are_bounded_ordered_and_limited(engine());
    empty_keys_and_values_are_kept(engine());
    keys_of_any_length_are_kept_in_order(engine());
    counting_survives_crashes(&engine);
    a_crash_replays_only_the_tail(&engine);
    a_lost_disk_is_rebuilt_from_the_change_log(&engine);
    a_store_of_another_guarantee_is_rebuilt(&engine);
}

const TASK: TaskId = TaskId { subtopology: 1, partition: 2 };

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn position(offset: i64) -> StorePosition {
    StorePosition {
        topic_id: Uuid([3; 16]),
        offset,
        leader_epoch: Some(1),
        written_at: Timestamp(5),
        guarantee: Guarantee::ExactlyOnce,
    }
}

fn put(store: &mut dyn StateStore, entries: &[(&str, Option<&str>)], offset: i64) {
    let changes = entries.iter().map(|(key, value)| (bytes(key), value.map(bytes))).collect();
    store.apply(StoreBatch { changes, position: Some(position(offset)) }).unwrap();
}

fn changes_and_position_come_back_together(mut engine: impl StoreEngine) {
    let mut store = engine.open(TASK, "s").unwrap();
    assert_eq!((store.position(), store.get(b"a").unwrap()), (None, None));
    put(&mut *store, &[("a", Some("1")), ("b", Some("2"))], 10);
    put(&mut *store, &[("a", None), ("c", Some("3"))], 20);
    // A batch without a position leaves it: it is a lower bound.
    store.apply(StoreBatch { changes: vec![(bytes("d"), Some(bytes("4")))], position: None }).unwrap();
    engine.keep(TASK, "s", store);
    let store = engine.open(TASK, "s").unwrap();
    assert_eq!(store.position(), Some(position(20)));
    let found: Vec<Option<Bytes>> = ["a", "b", "c", "d"].iter().map(|key| store.get(key.as_bytes()).unwrap()).collect();
    assert_eq!(found, [None, Some(bytes("2")), Some(bytes("3")), Some(bytes("4"))]);
}

fn stores_of_two_tasks_are_two(mut engine: impl StoreEngine) {
    let other = TaskId { partition: 3, ..TASK };
    let mut store = engine.open(TASK, "s").unwrap();
    put(&mut *store, &[("a", Some("1"))], 1);
    let second = engine.open(other, "s").unwrap();
    let third = engine.open(TASK, "t").unwrap();
    assert_eq!((second.get(b"a").unwrap(), third.get(b"a").unwrap(), third.position()), (None, None, None));
}

fn a_reset_store_is_empty_and_usable(mut engine: impl StoreEngine) {
    let mut store = engine.open(TASK, "s").unwrap();
    put(&mut *store, &[("a", Some("1"))], 1);
    engine.keep(TASK, "s", store);
    let mut store = engine.reset(TASK, "s").unwrap();
    assert_eq!((store.get(b"a").unwrap(), store.position()), (None, None));
    put(&mut *store, &[("b", Some("2"))], 7);
    engine.keep(TASK, "s", store);
    let store = engine.open(TASK, "s").unwrap();
    assert_eq!((store.get(b"a").unwrap(), store.get(b"b").unwrap()), (None, Some(bytes("2"))));
    assert_eq!(store.position(), Some(position(7)));
}

fn scans_are_bounded_ordered_and_limited(mut engine: impl StoreEngine) {
    let mut store = engine.open(TASK, "s").unwrap();
    put(&mut *store, &[("a", Some("1")), ("b", Some("2")), ("c", Some("3")), ("d", Some("4"))], 1);
    let scan = |from, to, direction, limit| -> String {
        let found = store.scan(from, to, direction, limit).unwrap();
        found.iter().map(|(key, _)| std::str::from_utf8(key).unwrap()).collect()
    };
    let (up, down) = (Direction::Ascending, Direction::Descending);
    assert_eq!(scan(Bound::Unbounded, Bound::Unbounded, up, 10), "abcd");
    assert_eq!(scan(Bound::Unbounded, Bound::Unbounded, down, 3), "dcb");
    assert_eq!(scan(Bound::Excluded(b"a"), Bound::Included(b"c"), up, 10), "bc");
    assert_eq!(scan(Bound::Included(b"a"), Bound::Excluded(b"c"), down, 10), "ba");
    assert_eq!(scan(Bound::Included(b"c"), Bound::Excluded(b"b"), up, 10), "");
    assert_eq!(scan(Bound::Excluded(b"b"), Bound::Excluded(b"b"), up, 10), "");
    assert_eq!(scan(Bound::Included(b"x"), Bound::Unbounded, up, 10), "");
}

fn empty_keys_and_values_are_kept(mut engine: impl StoreEngine) {
    let mut store = engine.open(TASK, "s").unwrap();
    put(&mut *store, &[("", Some("")), ("\0", Some("x"))], 1);
    assert_eq!(store.get(b"").unwrap(), Some(Bytes::new()));
    assert_eq!(store.scan(Bound::Unbounded, Bound::Unbounded, Direction::Ascending, 9).unwrap().len(), 2);
    put(&mut *store, &[("", None)], 2);
    assert_eq!(store.get(b"").unwrap(), None);
}

/// Kafka's records have keys up to their own size limit; engines may have another.
fn keys_of_any_length_are_kept_in_order(mut engine: impl StoreEngine) {
    let mut store = engine.open(TASK, "s").unwrap();
    let long = |length: usize, end: &str| Bytes::from("x".repeat(length) + end);
    // In order: some short, some that differ only far behind, one between them.
    let keys = [
        bytes("a"),
        long(64_999, ""),
        long(65_000, ""),
        long(65_000, "a"),
        long(65_000, "b"),
        long(70_000, ""),
        long(70_000, "a"),
        long(1_000_000, ""),
        bytes("y"),
    ];
    for keys in [&keys[5..], &keys[..5]] {
        let changes = keys.iter().map(|key| (key.clone(), Some(Bytes::from(key.len().to_string()))));
        store.apply(StoreBatch { changes: changes.collect(), position: None }).unwrap();
    }
    store
        .apply(StoreBatch { changes: vec![(keys[4].clone(), None), (long(65_000, "zz"), None)], position: None })
        .unwrap();
    engine.keep(TASK, "s", store);
    let store = engine.open(TASK, "s").unwrap();
    let mut left: Vec<Bytes> = keys.to_vec();
    let gone = left.remove(4);
    assert_eq!(store.get(&gone).unwrap(), None);
    for key in &left {
        assert_eq!(store.get(key).unwrap(), Some(Bytes::from(key.len().to_string())));
    }
    left.sort();
    let scan = |from: Bound<&[u8]>, to: Bound<&[u8]>, direction, limit| -> Vec<Bytes> {
        store.scan(from, to, direction, limit).unwrap().into_iter().map(|(key, _)| key).collect()
    };
    let all = (Bound::Unbounded, Bound::Unbounded);
    assert!(scan(all.0, all.1, Direction::Ascending, 100) == left);
    assert!(scan(all.0, all.1, Direction::Descending, 100).iter().rev().eq(&left));
    assert!(scan(all.0, all.1, Direction::Ascending, 5) == left[..5]);
    for (from, to) in [(0, 7), (2, 5), (3, 4), (4, 4), (1, 6)] {
        let (low, high) = (&left[from], &left[to]);
        assert!(scan(Bound::Included(low), Bound::Included(high), Direction::Ascending, 100) == left[from..=to]);
        assert!(scan(Bound::Excluded(low), Bound::Included(high), Direction::Ascending, 100) == left[from + 1..=to]);
        if from < to {
            assert!(scan(Bound::Included(low), Bound::Excluded(high), Direction::Ascending, 100) == left[from..to]);
        }
    }
}

pub(crate) fn word_count() -> Topology {
    let builder = TopologyBuilder::new();
    builder
        .stream::<Option<String>, String>("lines")
        .flat_map_values(|line| line.split_whitespace().map(String::from).collect::<Vec<_>>())
        .group_by(|_, word| word.clone())
        .count(store("counts"))
        .to_stream()
        .to("word-counts");
    builder.build().unwrap()
}

/// For each word, the counts in the order in which they were committed.
pub(crate) fn counts(driver: &TestDriver) -> BTreeMap<String, Vec<i64>> {
    let mut counts: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for (word, count) in driver.output::<String, i64>("word-counts").committed() {
        counts.entry(word).or_default().push(count);
    }
    counts
}

fn counting_survives_crashes<E: StoreEngine + 'static>(engine: &impl Fn() -> E) {
    let mut driver = TestDriver::builder(&word_count()).partitions(3).engine(engine()).start();
    for round in 0..10 {
        driver.input("lines").send(None::<String>, "a b a c").send("k", "b c d").send("l", "d a");
        match round % 3 {
            0 => driver.commit(),
            1 => driver.crash(),
            _ => driver.abort(),
        }
    }
    driver.commit();
    let expected: BTreeMap<String, Vec<i64>> =
        [("a", 30), ("b", 20), ("c", 20), ("d", 20)].map(|(word, n)| (word.to_owned(), (1..=n).collect())).into();
    assert_eq!(counts(&driver), expected);
}

fn a_crash_replays_only_the_tail<E: StoreEngine + 'static>(engine: &impl Fn() -> E) {
    let mut driver = TestDriver::builder(&word_count()).engine(engine()).start();
    for word in 0..200 {
        driver.input("lines").send(None::<String>, format!("word{word}"));
    }
    driver.commit();
    driver.crash();
    assert_eq!(driver.restored_records(), 0, "the store has everything");
    driver.input("lines").send(None::<String>, "x y z");
    // The first commit moves the words to the repartition topic; the second one ends before the store has followed.
    driver.crash_after(12);
    driver.commit();
    assert!(!driver.is_crash_pending());
    assert!(driver.restored_records() <= 3, "{} records were replayed", driver.restored_records());
    assert_eq!(counts(&driver).len(), 203);
}

fn a_lost_disk_is_rebuilt_from_the_change_log<E: StoreEngine + 'static>(engine: &impl Fn() -> E) {
    let mut driver = TestDriver::builder(&word_count()).engine(engine()).start();
    driver.input("lines").send(None::<String>, "a b a");
    driver.commit();
    driver.crash_and_lose_the_disk(engine());
    assert_eq!(driver.restored_records(), 2);
    driver.input("lines").send(None::<String>, "a b");
    driver.commit();
    assert_eq!(counts(&driver), BTreeMap::from([("a".to_owned(), vec![1, 2, 3]), ("b".to_owned(), vec![1, 2])]));
}

fn a_store_of_another_guarantee_is_rebuilt<E: StoreEngine + 'static>(engine: &impl Fn() -> E) {
    let mut made = engine();
    let mut store = made.open(TaskId { subtopology: 1, partition: 0 }, "counts").unwrap();
    let other = StorePosition { guarantee: Guarantee::AtLeastOnce, ..position(0) };
    let lie = (bytes("a"), Some(bytes("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x09")));
    store.apply(StoreBatch { changes: vec![lie], position: Some(other) }).unwrap();
    made.keep(TaskId { subtopology: 1, partition: 0 }, "counts", store);
    let mut driver = TestDriver::builder(&word_count()).engine(made).start();
    driver.input("lines").send(None::<String>, "a");
    driver.commit();
    assert_eq!(counts(&driver), BTreeMap::from([("a".to_owned(), vec![1])]));
}
