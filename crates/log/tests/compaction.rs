//! What compaction keeps of a log and what it does not, transactions among it; and that it keeps that over crashes is in
//! `crash.rs`.

mod support;

use std::collections::BTreeMap;

use atonce_kernel::disk::Disk;
use atonce_kernel::{Outcome, ProducerIdentity, Sequence, Timestamp};
use atonce_log::{
    CompactionError, CompactionProgress, IsolationLevel, Origin, Storage, TransactionVersion, Verification,
};
use atonce_protocol::records::{BatchBuilder, BatchOptions, BatchView, Compression};
use atonce_testkit::disk::FaultyDisk;
use bytes::Bytes;
use support::*;

const HOUR_MS: i64 = 3_600_000;

/// A topic of one partition whose segments hold about four small batches.
fn compacted(storage: &mut Storage<FaultyDisk>, more: &[(&str, &str)]) {
    let given = [("cleanup.policy", "compact"), ("segment.bytes", "300"), ("min.cleanable.dirty.ratio", "0")];
    let configs = given.iter().chain(more).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    storage.create_topic(&"t".into(), topic_id(1), 1, configs).unwrap();
    storage.commit().unwrap();
}

fn records(pairs: &[(&str, Option<&str>)], options: &BatchOptions, time: Timestamp) -> Bytes {
    let mut builder = BatchBuilder::with_capacity(256);
    for (key, value) in pairs {
        let headers = [(&b"of"[..], Some(key.as_bytes()))];
        builder.append(time.0, Some(key.as_bytes()), value.map(str::as_bytes), headers).unwrap();
    }
    builder.finish(options).unwrap()
}

fn put(storage: &mut Storage<FaultyDisk>, pairs: &[(&str, Option<&str>)]) {
    let batch = records(pairs, &BatchOptions::default(), NOW);
    storage.append(&tp("t", 0), &batch, Origin::CLIENT, NOW).unwrap();
    storage.commit().unwrap();
}

/// A batch inside a transaction, or of an idempotent producer.
fn put_as(storage: &mut Storage<FaultyDisk>, id: i64, epoch: i16, sequence: i32, pairs: &[(&str, Option<&str>)]) {
    let producer = ProducerIdentity::new(id, epoch);
    let version = TransactionVersion::V2;
    let verification = storage.start_verification(&tp("t", 0), producer, Sequence(sequence), version, NOW).unwrap();
    let guard = match verification {
        Verification::NotNeeded => None,
        Verification::Needed(guard) => Some(guard),
    };
    let options =
        BatchOptions { producer, base_sequence: Sequence(sequence), is_transactional: true, ..BatchOptions::default() };
    let batch = records(pairs, &options, NOW);
    storage.append(&tp("t", 0), &batch, Origin::Client { guard }, NOW).unwrap();
    storage.commit().unwrap();
}

fn end(storage: &mut Storage<FaultyDisk>, id: i64, epoch: i16, outcome: Outcome) {
    storage.append_marker(&tp("t", 0), &marker(ProducerIdentity::new(id, epoch), outcome), NOW).unwrap();
    storage.commit().unwrap();
}

/// So much of other keys that what was before is in no active segment any more. Each batch fills most of a segment.
fn fill(storage: &mut Storage<FaultyDisk>, keys: &[&str]) {
    for key in keys {
        put(storage, &[(key, Some(&"f".repeat(250)))]);
    }
    storage.checkpoint().unwrap();
}

/// Compacts once; `false` if there was nothing to do.
fn compact_at(storage: &mut Storage<FaultyDisk>, now: Timestamp) -> bool {
    storage.checkpoint().unwrap();
    let Some(choice) = storage.choose_compaction(now) else { return false };
    let mut work = storage.begin_compaction(&choice, now).unwrap();
    while work.step() == CompactionProgress::More {}
    storage.finish_compaction(work.finish()).unwrap();
    assert!(storage.is_checkpoint_due(), "its old files wait to be removed");
    storage.checkpoint().unwrap();
    true
}

fn compact(storage: &mut Storage<FaultyDisk>) -> bool {
    compact_at(storage, NOW)
}

/// Offset, key and value of all data records.
fn keyed(storage: &Storage<FaultyDisk>) -> Vec<(i64, String, Option<String>)> {
    let mut found = Vec::new();
    for bytes in batches(storage) {
        let view = BatchView::new(&bytes).unwrap();
        let payload = view.decompress(1 << 20).unwrap();
        for record in view.records_in(&payload).filter(|_| !view.is_control()) {
            let record = record.unwrap();
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            assert_eq!(record.headers().next().unwrap().value, record.key, "its header is still its own");
            let value = record.value.map(text).map(|value| if value.len() > 100 { "…".to_owned() } else { value });
            found.push((record.offset, text(record.key.unwrap()), value));
        }
    }
    found
}

fn batches(storage: &Storage<FaultyDisk>) -> Vec<Bytes> {
    let reader = storage.reader(&tp("t", 0)).unwrap();
    let (mut next, mut all) = (reader.watermarks().log_start_offset, Vec::new());
    loop {
        let read = reader.read(next, 2000, IsolationLevel::ReadUncommitted).unwrap();
        let Some(last) = read.batches.last() else { return all };
        next = BatchView::new(last).unwrap().next_offset();
        for batch in &read.batches {
            BatchView::new(batch).unwrap().validate().unwrap();
        }
        all.extend(read.batches);
    }
}

fn values<'a>(found: &'a [(i64, String, Option<String>)], key: &str) -> Vec<(i64, Option<&'a str>)> {
    found.iter().filter(|(_, it, _)| it == key).map(|(offset, _, value)| (*offset, value.as_deref())).collect()
}

fn control_offsets(storage: &Storage<FaultyDisk>) -> Vec<i64> {
    let all = batches(storage);
    let views = all.iter().map(|bytes| BatchView::new(bytes).unwrap());
    views.filter(|view| view.is_control() && view.records_count() > 0).map(|view| view.base_offset()).collect()
}

fn log_files(disk: &FaultyDisk) -> Vec<String> {
    let names = disk.list(&folder().join("t-0")).unwrap();
    names.into_iter().map(|name| name.to_str().unwrap().to_owned()).filter(|name| name.contains(".log")).collect()
}

#[test]
fn of_each_key_the_last_record_stays_at_its_offset() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    compacted(&mut storage, &[]);
    put(&mut storage, &[("a", Some("1")), ("b", Some("1")), ("a", Some("2"))]);
    put(&mut storage, &[("b", Some("2")), ("c", Some("1"))]);
    put(&mut storage, &[("a", Some("3"))]);
    fill(&mut storage, &["x", "x"]);
    let ends = storage.reader(&tp("t", 0)).unwrap().watermarks();
    assert!(compact(&mut storage));
    let expected: Vec<(i64, String, Option<String>)> =
        [(3, "b", "2"), (4, "c", "1"), (5, "a", "3"), (6, "x", "…"), (7, "x", "…")]
            .into_iter()
            .map(|(offset, key, value)| (offset, key.to_owned(), Some(value.to_owned())))
            .collect();
    // The second x is in the active segment.
    assert_eq!(keyed(&storage), expected);
    let after = storage.reader(&tp("t", 0)).unwrap().watermarks();
    assert_eq!((after.high_watermark, after.log_start_offset), (ends.high_watermark, ends.log_start_offset));
    assert!(!compact(&mut storage), "nothing is dirty any more");
    drop(storage);
    let (storage, _) = open(&disk);
    assert_eq!(keyed(&storage), expected);
}

#[test]
fn small_segments_become_one_and_their_files_go() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    compacted(&mut storage, &[]);
    for round in 0..20 {
        put(&mut storage, &[("a", Some(&round.to_string())), ("b", Some("1"))]);
    }
    fill(&mut storage, &["x", "y"]);
    let before = log_files(&disk).len();
    assert!(compact(&mut storage));
    // Segments are put together by the sizes they have before, so it takes a second time.
    fill(&mut storage, &["x", "y"]);
    assert!(compact(&mut storage));
    let after = log_files(&disk);
    assert!(after.len() < before / 2 + 2, "{before} files, then {after:?}");
    assert!(after.iter().all(|name| name.ends_with(".log")), "{after:?}");
    assert_eq!(after[0], "00000000000000000000.log");
    assert_eq!(values(&keyed(&storage), "a"), [(38, Some("19"))]);
}

#[test]
fn compressed_batches_are_compacted_and_stay_compressed() {
    for compression in [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
        let disk = FaultyDisk::new();
        let (mut storage, _) = open(&disk);
        compacted(&mut storage, &[]);
        let options = BatchOptions { compression, ..BatchOptions::default() };
        for pairs in [[("a", Some("1")), ("b", Some("1"))], [("a", Some("2")), ("c", Some("1"))]] {
            storage.append(&tp("t", 0), &records(&pairs, &options, NOW), Origin::CLIENT, NOW).unwrap();
        }
        // Interleaved with an aborted transaction that is compressed as well.
        let producer = ProducerIdentity::new(100, 0);
        let version = TransactionVersion::V2;
        let guard = match storage.start_verification(&tp("t", 0), producer, Sequence(0), version, NOW).unwrap() {
            Verification::NotNeeded => None,
            Verification::Needed(guard) => Some(guard),
        };
        let aborted = BatchOptions { producer, base_sequence: Sequence(0), is_transactional: true, ..options };
        let aborted = records(&[("a", Some("aborted")), ("d", Some("aborted"))], &aborted, NOW);
        storage.append(&tp("t", 0), &aborted, Origin::Client { guard }, NOW).unwrap();
        storage.append(&tp("t", 0), &records(&[("e", Some("1"))], &options, NOW), Origin::CLIENT, NOW).unwrap();
        end(&mut storage, 100, 1, Outcome::Abort);
        fill(&mut storage, &["x", "y"]);
        assert!(compact(&mut storage));
        assert_eq!(values(&keyed(&storage), "d"), [], "{compression}");
        assert_eq!(values(&keyed(&storage), "e"), [(6, Some("1"))], "{compression}");
        assert_eq!(values(&keyed(&storage), "a"), [(2, Some("2"))], "{compression}");
        assert_eq!(values(&keyed(&storage), "b"), [(1, Some("1"))], "{compression}");
        let first = &batches(&storage)[0];
        assert_eq!(BatchView::new(first).unwrap().compression().unwrap(), compression);
    }
}

#[test]
fn a_tombstone_stays_for_its_time_and_then_goes() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    compacted(&mut storage, &[("delete.retention.ms", "3600000")]);
    put(&mut storage, &[("a", Some("1"))]);
    put(&mut storage, &[("a", None), ("b", Some("1"))]);
    fill(&mut storage, &["x", "y"]);
    assert!(compact(&mut storage));
    assert_eq!(values(&keyed(&storage), "a"), [(1, None)]);
    let horizons: Vec<i64> =
        batches(&storage).iter().filter_map(|bytes| BatchView::new(bytes).unwrap().delete_horizon_ms()).collect();
    assert_eq!(horizons, [NOW.0 + HOUR_MS], "it counts from the first compaction that met it");
    fill(&mut storage, &["y", "z"]);
    assert!(compact_at(&mut storage, Timestamp(NOW.0 + HOUR_MS - 1)));
    assert_eq!(values(&keyed(&storage), "a"), [(1, None)], "its time is not over");
    fill(&mut storage, &["z", "x"]);
    assert!(compact_at(&mut storage, Timestamp(NOW.0 + HOUR_MS)));
    assert_eq!(values(&keyed(&storage), "a"), []);
    assert_eq!(values(&keyed(&storage), "b"), [(2, Some("1"))], "its neighbour in the batch stays");
}

#[test]
fn aborted_records_go_and_never_replace_others() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    compacted(&mut storage, &[]);
    put(&mut storage, &[("a", Some("committed")), ("b", Some("1"))]);
    put_as(&mut storage, 100, 0, 0, &[("a", Some("aborted")), ("c", Some("aborted"))]);
    end(&mut storage, 100, 1, Outcome::Abort);
    put_as(&mut storage, 100, 1, 0, &[("b", Some("2"))]);
    end(&mut storage, 100, 2, Outcome::Commit);
    fill(&mut storage, &["x", "y"]);
    assert!(compact(&mut storage));
    let found = keyed(&storage);
    assert_eq!(values(&found, "a"), [(0, Some("committed"))]);
    assert_eq!(values(&found, "b"), [(5, Some("2"))]);
    assert_eq!(values(&found, "c"), []);
}

/// A marker outlives the data by one compaction, and then for its time.
#[test]
fn markers_stay_as_long_as_a_reader_may_need_them() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    compacted(&mut storage, &[("delete.retention.ms", "3600000")]);
    put_as(&mut storage, 100, 0, 0, &[("a", Some("aborted"))]);
    end(&mut storage, 100, 1, Outcome::Abort);
    put_as(&mut storage, 101, 0, 0, &[("b", Some("1"))]);
    end(&mut storage, 101, 1, Outcome::Commit);
    // Neither marker is the last that is known of its producer.
    put_as(&mut storage, 100, 1, 0, &[("b", Some("2"))]);
    put_as(&mut storage, 101, 1, 0, &[("b", Some("3"))]);
    end(&mut storage, 100, 2, Outcome::Commit);
    end(&mut storage, 101, 2, Outcome::Commit);
    fill(&mut storage, &["x", "y"]);
    assert!(compact(&mut storage));
    assert_eq!(control_offsets(&storage), [1, 3, 6, 7], "their data was met in this pass");
    fill(&mut storage, &["y", "z"]);
    assert!(compact(&mut storage));
    assert_eq!(control_offsets(&storage), [1, 3, 6, 7], "their horizon is set now");
    fill(&mut storage, &["z", "x"]);
    assert!(compact_at(&mut storage, Timestamp(NOW.0 + HOUR_MS - 1)));
    assert_eq!(control_offsets(&storage), [1, 3, 6, 7]);
    fill(&mut storage, &["x", "y"]);
    assert!(compact_at(&mut storage, Timestamp(NOW.0 + HOUR_MS)));
    assert_eq!(control_offsets(&storage), [7], "only this one still has data");
    let empty: Vec<(i64, i16)> = batches(&storage)
        .iter()
        .map(|bytes| BatchView::new(bytes).unwrap())
        .filter(|view| view.records_count() == 0)
        .map(|view| (view.base_offset(), view.producer().epoch.0))
        .collect();
    assert_eq!(empty, [(6, 2)], "all that is known of this producer, whose epoch must stay");
    assert_eq!(values(&keyed(&storage), "b"), [(5, Some("3"))]);
}

#[test]
fn an_aborted_transaction_whose_data_stays_is_still_named_to_readers() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    compacted(&mut storage, &[]);
    put_as(&mut storage, 100, 0, 0, &[("a", Some("aborted early"))]);
    fill(&mut storage, &["x", "y"]);
    let before = storage.choose_compaction(NOW);
    assert_eq!(before, None, "nothing is chosen behind the beginning of an open transaction");
    put_as(&mut storage, 100, 0, 1, &[("b", Some("aborted late"))]);
    fill(&mut storage, &["x", "y"]);
    end(&mut storage, 100, 1, Outcome::Abort);
    assert!(compact(&mut storage));
    for restarted in [false, true] {
        if restarted {
            drop(storage);
            (storage, _) = open(&disk);
        }
        let reader = storage.reader(&tp("t", 0)).unwrap();
        let read = reader.read(0, 1 << 20, IsolationLevel::ReadCommitted).unwrap();
        let last = BatchView::new(read.batches.last().unwrap()).unwrap().next_offset();
        let reads: Vec<_> = (0..reader.watermarks().high_watermark)
            .filter_map(|offset| reader.read(offset, 1 << 20, IsolationLevel::ReadCommitted).unwrap().aborted)
            .flatten()
            .collect();
        assert!(last > 0 && reads.iter().all(|aborted| aborted.first_offset == 0), "{reads:?}");
        let found = committed(&storage, &tp("t", 0));
        assert!(found.iter().all(|(_, value)| !value.starts_with("aborted")), "{found:?}");
    }
}

/// The index is written anew with the segment: what names nothing any more goes from it.
#[test]
fn an_aborted_transaction_of_which_nothing_is_left_goes_from_the_index() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    compacted(&mut storage, &[]);
    let indexed = |disk: &FaultyDisk| {
        let names = disk.list(&folder().join("t-0")).unwrap();
        let indexes =
            names.into_iter().filter(|name| name.extension().is_some_and(|extension| extension == "txnindex"));
        let entries = indexes.map(|name| disk.bytes(&folder().join("t-0").join(name)).unwrap());
        entries
            .flat_map(|bytes| atonce_log::dump::transaction_index(&bytes).unwrap())
            .map(|it| it.producer_id.0)
            .collect()
    };
    for id in [100, 101, 102] {
        put_as(&mut storage, id, 0, 0, &[("a", Some("aborted"))]);
        end(&mut storage, id, 1, Outcome::Abort);
    }
    put(&mut storage, &[("a", Some("1"))]);
    fill(&mut storage, &["x", "y"]);
    let before: Vec<i64> = indexed(&disk);
    assert_eq!(before, [100, 101, 102]);
    assert!(compact(&mut storage));
    let met: Vec<i64> = indexed(&disk);
    assert_eq!(met, [100, 101, 102], "a reader may have their data still");
    fill(&mut storage, &["z", "x"]);
    assert!(compact(&mut storage));
    let after: Vec<i64> = indexed(&disk);
    assert_eq!(after, [0_i64; 0]);
    assert_eq!(values(&keyed(&storage), "a"), [(6, Some("1"))]);
}

#[test]
fn a_key_that_an_open_transaction_writes_keeps_its_committed_value() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    compacted(&mut storage, &[]);
    put(&mut storage, &[("a", Some("1"))]);
    fill(&mut storage, &["x", "y"]);
    put_as(&mut storage, 100, 0, 0, &[("a", Some("open"))]);
    fill(&mut storage, &["x", "y", "x", "y"]);
    assert!(compact(&mut storage));
    assert_eq!(values(&keyed(&storage), "a"), [(0, Some("1")), (3, Some("open"))]);
    end(&mut storage, 100, 1, Outcome::Abort);
    fill(&mut storage, &["x", "y"]);
    assert!(compact(&mut storage));
    assert_eq!(values(&keyed(&storage), "a"), [(0, Some("1"))]);
}

#[test]
fn the_last_batch_of_each_producer_stays_though_empty_and_sequences_go_on() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    compacted(&mut storage, &[]);
    let producer = ProducerIdentity::new(7, 0);
    for sequence in 0..3 {
        let options = BatchOptions { producer, base_sequence: Sequence(sequence), ..BatchOptions::default() };
        let batch = records(&[("a", Some("mine"))], &options, NOW);
        storage.append(&tp("t", 0), &batch, Origin::CLIENT, NOW).unwrap();
    }
    put(&mut storage, &[("a", Some("another's"))]);
    fill(&mut storage, &["x", "y"]);
    assert!(compact(&mut storage));
    assert_eq!(values(&keyed(&storage), "a"), [(3, Some("another's"))]);
    let of_producer: Vec<(i64, i32, i32)> = batches(&storage)
        .iter()
        .map(|bytes| BatchView::new(bytes).unwrap())
        .filter(|view| view.producer() == producer)
        .map(|view| (view.base_offset(), view.records_count(), view.last_sequence().0))
        .collect();
    assert_eq!(of_producer, [(2, 0, 2)], "the last one alone, empty");
    drop(storage);
    let (mut storage, _) = open(&disk);
    let options = BatchOptions { producer, base_sequence: Sequence(2), ..BatchOptions::default() };
    let again = storage.append(&tp("t", 0), &records(&[("a", None)], &options, NOW), Origin::CLIENT, NOW).unwrap();
    assert!(again.duplicate && again.base_offset == 2);
    let options = BatchOptions { producer, base_sequence: Sequence(3), ..BatchOptions::default() };
    let next = storage.append(&tp("t", 0), &records(&[("a", None)], &options, NOW), Origin::CLIENT, NOW).unwrap();
    assert!(!next.duplicate);
}

/// A map that holds some keys only: each compaction goes on where the last one stopped.
#[test]
fn little_memory_takes_several_compactions_and_keeps_the_same() {
    let disk = FaultyDisk::new();
    let mut config = config();
    config.key_map_bytes_max = 400;
    config.compaction_step_bytes = 100;
    let (mut storage, _) = open_with(&disk, config);
    compacted(&mut storage, &[]);
    let mut last = BTreeMap::new();
    for round in 0..60_i64 {
        let (key, value) = (format!("key {}", round * 7 % 20), round.to_string());
        put(&mut storage, &[(&key, Some(&value))]);
        last.insert(key, (round, value));
    }
    fill(&mut storage, &["x", "x"]);
    let mut times = 0;
    while compact(&mut storage) {
        times += 1;
        assert!(times < 100);
    }
    assert!(times > 3, "{times} compactions");
    let found = keyed(&storage);
    for (key, (offset, value)) in last {
        assert_eq!(values(&found, &key), [(offset, Some(value.as_str()))], "{key}");
    }
}

#[test]
fn readers_go_on_over_gaps_and_over_segments_that_were_emptied() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    compacted(&mut storage, &[]);
    for round in 0..30 {
        put(&mut storage, &[("a", Some(&format!("{round:0>100}")))]);
    }
    fill(&mut storage, &["x", "x"]);
    let reader = storage.reader(&tp("t", 0)).unwrap();
    assert!(compact(&mut storage));
    for offset in 0..reader.watermarks().high_watermark {
        let read = reader.read(offset, 100, IsolationLevel::ReadCommitted).unwrap();
        let first = BatchView::new(&read.batches[0]).unwrap();
        let expected = if offset <= 29 { 29 } else { offset };
        assert_eq!(first.base_offset(), expected, "from offset {offset}");
    }
}

#[test]
fn a_reader_that_began_before_finds_what_took_the_segments_places() {
    let disk = FaultyDisk::new();
    let mut config = config();
    config.open_files_max = 1;
    let (mut storage, _) = open_with(&disk, config);
    compacted(&mut storage, &[]);
    for round in 0..30 {
        put(&mut storage, &[("a", Some(&format!("{round:0>100}")))]);
    }
    fill(&mut storage, &["x", "x"]);
    let reader = storage.reader(&tp("t", 0)).unwrap();
    let choice = storage.choose_compaction(NOW).unwrap();
    let mut work = storage.begin_compaction(&choice, NOW).unwrap();
    assert_eq!(storage.choose_compaction(NOW), None, "one at a time");
    assert!(storage.begin_compaction(&choice, NOW).is_none());
    while work.step() == CompactionProgress::More {
        assert_eq!(reader.read(3, 10, IsolationLevel::ReadCommitted).unwrap().batches.len(), 1);
    }
    storage.finish_compaction(work.finish()).unwrap();
    // Beside the old files, then in their place.
    for _ in 0..2 {
        let read = reader.read(3, 10, IsolationLevel::ReadCommitted).unwrap();
        assert_eq!(BatchView::new(&read.batches[0]).unwrap().base_offset(), 29);
        storage.checkpoint().unwrap();
    }
}

#[test]
fn what_is_written_and_deleted_meanwhile_stays_written_and_deleted() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    compacted(&mut storage, &[("cleanup.policy", "compact,delete")]);
    for round in 0..10 {
        put(&mut storage, &[("a", Some(&round.to_string())), (&format!("k{round}"), Some("1"))]);
    }
    fill(&mut storage, &["x", "x"]);
    let choice = storage.choose_compaction(NOW).unwrap();
    let mut work = storage.begin_compaction(&choice, NOW).unwrap();
    work.step();
    put(&mut storage, &[("a", Some("written meanwhile"))]);
    storage.delete_records(&tp("t", 0), Some(9)).unwrap();
    storage.commit().unwrap();
    storage.checkpoint().unwrap();
    while work.step() == CompactionProgress::More {}
    storage.finish_compaction(work.finish()).unwrap();
    storage.checkpoint().unwrap();
    assert!(log_files(&disk).iter().all(|name| name.ends_with(".log")), "{:?}", log_files(&disk));
    let found = keyed(&storage);
    assert_eq!(values(&found, "a").last(), Some(&(22, Some("written meanwhile"))));
    assert_eq!(values(&found, "k9"), [(19, Some("1"))]);
    // The next one looks at what is left.
    assert!(compact(&mut storage));
    assert_eq!(storage.reader(&tp("t", 0)).unwrap().watermarks().log_start_offset, 9);
}

#[test]
fn a_topic_deleted_meanwhile_leaves_nothing_and_its_successor_is_not_touched() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    compacted(&mut storage, &[]);
    put(&mut storage, &[("a", Some("1"))]);
    fill(&mut storage, &["x", "x"]);
    let choice = storage.choose_compaction(NOW).unwrap();
    let mut work = storage.begin_compaction(&choice, NOW).unwrap();
    work.step();
    storage.delete_topic(topic_id(1)).unwrap();
    storage.create_topic(&"t".into(), topic_id(2), 1, BTreeMap::new()).unwrap();
    storage.commit().unwrap();
    put(&mut storage, &[("a", Some("the successor's"))]);
    storage.checkpoint().unwrap();
    while work.step() == CompactionProgress::More {}
    let _ = storage.finish_compaction(work.finish());
    storage.checkpoint().unwrap();
    assert_eq!(values(&keyed(&storage), "a"), [(0, Some("the successor's"))]);
    assert_eq!(log_files(&disk), ["00000000000000000000.log"]);
}

#[test]
fn damage_is_not_copied_and_its_log_is_left_alone() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    compacted(&mut storage, &[]);
    put(&mut storage, &[("a", Some("1")), ("b", Some("1"))]);
    fill(&mut storage, &["x", "x"]);
    let path = folder().join("t-0").join("00000000000000000000.log");
    let before = disk.bytes(&path).unwrap();
    disk.damage(&path, 70, before[70] ^ 1).unwrap();
    let choice = storage.choose_compaction(NOW).unwrap();
    let mut work = storage.begin_compaction(&choice, NOW).unwrap();
    while work.step() == CompactionProgress::More {}
    let error = storage.finish_compaction(work.finish()).unwrap_err();
    assert!(matches!(&error, CompactionError::Read(_)), "{error}");
    assert!(error.to_string().contains("00000000000000000000.log at 0"), "{error}");
    assert_eq!(storage.choose_compaction(NOW), None);
    assert!(log_files(&disk).iter().all(|name| name.ends_with(".log")));
    put(&mut storage, &[("c", Some("it goes on"))]);
}

#[test]
fn a_full_disk_costs_the_compaction_and_nothing_else() {
    let disk = FaultyDisk::new();
    let (mut storage, _) = open(&disk);
    compacted(&mut storage, &[]);
    put(&mut storage, &[("a", Some("1")), ("b", Some("1"))]);
    fill(&mut storage, &["x", "x"]);
    let choice = storage.choose_compaction(NOW).unwrap();
    let mut work = storage.begin_compaction(&choice, NOW).unwrap();
    disk.set_capacity_bytes(Some(0));
    while work.step() == CompactionProgress::More {}
    let error = storage.finish_compaction(work.finish()).unwrap_err();
    assert!(matches!(&error, CompactionError::Write { .. }), "{error}");
    disk.set_capacity_bytes(None);
    assert!(log_files(&disk).iter().all(|name| name.ends_with(".log")), "{:?}", log_files(&disk));
    assert!(compact(&mut storage), "it is tried again");
}

/// A holder that reads a log whole at each start wants it short, however much was written: what is written to is complete early,
/// and the storage says when compaction should not wait.
#[test]
fn a_log_that_is_replayed_at_each_start_stays_short() {
    let held = |is_replayed: bool| {
        let disk = FaultyDisk::new();
        let mut config = config();
        config.replayed_segment_bytes = 4 << 10;
        config.replayed_bytes_max = 16 << 10;
        if is_replayed {
            config.replayed_topics.insert("t".into());
        }
        let (mut storage, _) = open_with(&disk, config.clone());
        let configs = [("cleanup.policy".to_owned(), "compact".to_owned())].into();
        storage.create_topic(&"t".into(), topic_id(1), 1, configs).unwrap();
        let mut longest = 0;
        for round in 0..2000 {
            put(&mut storage, &[(&format!("key {}", round % 20), Some(&round.to_string()))]);
            if storage.is_compaction_wanted() {
                storage.write_what_may_be_cleaned(NOW).unwrap();
                compact(&mut storage);
            }
            if storage.is_checkpoint_due() {
                storage.checkpoint().unwrap();
            }
            if round % 100 == 0 {
                longest = longest.max(batches(&storage).iter().map(Bytes::len).sum());
            }
        }
        let found = keyed(&storage);
        for key in 0..20 {
            assert_eq!(
                values(&found, &format!("key {key}")).last().unwrap().1,
                Some((1980 + key).to_string().as_str())
            );
        }
        drop(storage);
        let (storage, _) = open_with(&disk, config);
        assert_eq!(keyed(&storage), found);
        longest
    };
    let (short, long) = (held(true), held(false));
    assert!(short < 32 << 10, "{short} bytes");
    assert!(long > 4 * short, "{long} bytes");
}
