//! Batches: what is built is read back, what a producer may not send is refused with Kafka's code, and a torn
//! tail ends the reading without an error.

use atonce_kernel::{Outcome, ProducerIdentity, Sequence};
use atonce_protocol::ErrorCode;
use atonce_protocol::records::{
    BATCH_HEADER_BYTES, BatchBuilder, BatchOptions, BatchView, Compression, ProducedRules, RecordError, TimestampType,
    batches, marker_batch, read_marker, record_bytes_max, renumber, set_base_offset, set_log_append_time,
    set_partition_leader_epoch, validate_produced,
};
use bytes::Bytes;
use proptest::prelude::*;

const RULES: ProducedRules = ProducedRules { requires_keys: false, decompressed_bytes_max: 1 << 20 };

fn codecs() -> impl Iterator<Item = Compression> {
    let all = [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
    all.into_iter().filter(|it| it.is_built())
}

fn batch_of(values: &[&str], options: &BatchOptions) -> Vec<u8> {
    let mut builder = BatchBuilder::default();
    for (value, at) in values.iter().zip(0..) {
        builder.append(1000 + at, Some(b"k"), Some(value.as_bytes()), []).expect("small");
    }
    builder.finish(options).expect("finishes").to_vec()
}

/// Renews the checksum, so that a test reaches what stands behind it.
fn with_crc(mut batch: Vec<u8>) -> Vec<u8> {
    let crc = crc32c::crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
    batch
}

#[test]
fn what_is_built_is_read_back_in_every_codec() {
    for compression in codecs() {
        let options = BatchOptions {
            producer: ProducerIdentity::new(7, 3),
            base_sequence: Sequence(i32::MAX - 1),
            is_transactional: true,
            compression,
            base_offset: 100,
            partition_leader_epoch: 5,
            ..BatchOptions::default()
        };
        let bytes = Bytes::from(batch_of(&["a", "b", "c"], &options));
        let batch = BatchView::new(&bytes).expect("a batch");
        batch.validate().expect("valid");
        assert_eq!((batch.base_offset(), batch.last_offset(), batch.next_offset()), (100, 102, 103));
        assert_eq!((batch.producer(), batch.partition_leader_epoch()), (ProducerIdentity::new(7, 3), 5));
        // Sequences wrap inside a batch.
        assert_eq!((batch.base_sequence(), batch.last_sequence()), (Sequence(i32::MAX - 1), Sequence(0)));
        assert_eq!((batch.base_timestamp(), batch.max_timestamp()), (1000, 1002));
        assert_eq!(batch.timestamp_type(), TimestampType::CreateTime);
        assert!(batch.is_transactional() && !batch.is_control() && batch.delete_horizon_ms().is_none());
        assert_eq!(batch.compression(), Ok(compression));

        let payload = batch.decompress_shared(&bytes, 1 << 20).expect("decompresses");
        let records: Vec<_> = batch.records_in(&payload).collect::<Result<_, _>>().expect("records");
        let shown: Vec<_> = records.iter().map(|it| (it.offset, it.timestamp, it.value.expect("a value"))).collect();
        assert_eq!(shown, [(100, 1000, &b"a"[..]), (101, 1001, b"b"), (102, 1002, b"c")]);
        // A shared slice of the payload is made without copying.
        assert_eq!(payload.slice_ref(records[2].value.expect("a value")), "c");
    }
}

#[test]
fn a_compressed_batch_is_not_read_as_a_plain_one() {
    let bytes = batch_of(&["a"], &BatchOptions { compression: Compression::Gzip, ..BatchOptions::default() });
    let batch = BatchView::new(&bytes).expect("a batch");
    assert!(matches!(batch.records().map(|_| ()), Err(RecordError::NotAllowed { .. })));
}

#[test]
fn a_torn_tail_ends_the_reading_at_every_cut() {
    let one = batch_of(&["first"], &BatchOptions::default());
    let two = batch_of(&["second", "third"], &BatchOptions { base_offset: 1, ..BatchOptions::default() });
    let both = [&one[..], &two[..]].concat();
    for cut in 0..=both.len() {
        let mut all = batches(&both[..cut]);
        let whole: Vec<_> = all.by_ref().collect::<Result<_, _>>().expect("no error at a cut");
        let expected = if cut == both.len() { 2 } else { usize::from(cut >= one.len()) };
        assert_eq!(whole.len(), expected, "cut at {cut}");
        let taken: usize = whole.iter().map(BatchView::size_bytes).sum();
        assert_eq!(all.torn_bytes(), cut - taken);
    }
}

#[test]
fn bytes_that_begin_no_batch_are_the_last_item() {
    let good = batch_of(&["x"], &BatchOptions::default());
    let mut bad = good.clone();
    bad[16] = 9;
    let mut all = batches(&bad);
    assert!(matches!(all.next(), Some(Err(RecordError::UnknownMagic { magic: 9 }))));
    assert!(all.next().is_none());
}

#[test]
fn offset_and_epoch_are_set_without_touching_the_checksum_and_append_time_with_it() {
    let mut bytes = batch_of(&["x", "y"], &BatchOptions::default());
    set_base_offset(&mut bytes, 1_000_000);
    set_partition_leader_epoch(&mut bytes, 4);
    let batch = BatchView::new(&bytes).expect("a batch");
    batch.validate().expect("still valid");
    assert_eq!((batch.base_offset(), batch.partition_leader_epoch()), (1_000_000, 4));
    set_log_append_time(&mut bytes, 77);
    let batch = BatchView::new(&bytes).expect("a batch");
    batch.validate().expect("still valid");
    assert_eq!((batch.timestamp_type(), batch.max_timestamp()), (TimestampType::LogAppendTime, 77));
    let times: Vec<_> = batch.records().expect("plain").map(|it| it.expect("a record").timestamp).collect();
    assert_eq!(times, [77, 77]);
}

/// A row for each thing a producer may not send, in the order of the checks: the first that fails is answered.
#[test]
fn what_a_producer_may_not_send_is_refused_with_kafkas_code() {
    let plain = || batch_of(&["x", "y"], &BatchOptions::default());
    let edited = |at: usize, bytes: &[u8]| {
        let mut batch = plain();
        batch[at..at + bytes.len()].copy_from_slice(bytes);
        with_crc(batch)
    };
    let rows: Vec<(&str, Vec<u8>, ErrorCode)> = vec![
        ("nothing", Vec::new(), ErrorCode::InvalidRecord),
        ("half a batch", plain()[..70].to_vec(), ErrorCode::InvalidRecord),
        ("a negative length", edited(8, &(-1_i32).to_be_bytes()), ErrorCode::CorruptMessage),
        ("a length below the head", edited(8, &48_i32.to_be_bytes()), ErrorCode::CorruptMessage),
        ("the format of 2014", edited(16, &[0]), ErrorCode::InvalidRecord),
        ("the format of 2016", edited(16, &[1]), ErrorCode::InvalidRecord),
        ("a format of the future", edited(16, &[3]), ErrorCode::CorruptMessage),
        ("two batches", [plain(), plain()].concat(), ErrorCode::InvalidRecord),
        (
            "a wrong checksum",
            {
                let mut it = plain();
                it[70] ^= 1;
                it
            },
            ErrorCode::CorruptMessage,
        ),
        ("an unknown codec", edited(21, &[0, 7]), ErrorCode::InvalidRecord),
        ("a last offset before the first", edited(23, &(-1_i32).to_be_bytes()), ErrorCode::InvalidRecord),
        ("a control batch", edited(21, &[0, 0x20]), ErrorCode::InvalidRecord),
        ("no records", edited(57, &0_i32.to_be_bytes()), ErrorCode::InvalidRecord),
        ("more records than offsets", edited(57, &3_i32.to_be_bytes()), ErrorCode::InvalidRecord),
        ("a producer without a sequence", edited(43, &7_i64.to_be_bytes()), ErrorCode::InvalidRecord),
        ("a transaction without a producer", edited(21, &[0, 0x10]), ErrorCode::InvalidRecord),
        ("plain records said to be gzip", edited(21, &[0, 1]), ErrorCode::InvalidRecord),
        ("an offset of its own", edited(0, &100_i64.to_be_bytes()), ErrorCode::InvalidRecord),
        ("a record longer than the batch", edited(BATCH_HEADER_BYTES, &[0x7e]), ErrorCode::InvalidRecord),
        ("a second batch cut off in its records", [plain(), plain()[..70].to_vec()].concat(), ErrorCode::InvalidRecord),
        ("a second batch cut off in its head", [plain(), plain()[..17].to_vec()].concat(), ErrorCode::InvalidRecord),
        ("a message set of 2014 behind it", [plain(), edited(16, &[0])].concat(), ErrorCode::InvalidRecord),
        ("seventeen bytes of nothing behind it", [plain(), vec![0; 17]].concat(), ErrorCode::CorruptMessage),
    ];
    for (what, bytes, code) in rows {
        let refused = validate_produced(&bytes, RULES).map(|_| ()).expect_err(what);
        assert_eq!(refused.error_code(), code, "{what}: {refused}");
    }
}

#[test]
fn a_few_bytes_behind_the_batch_hold_no_record_and_are_left_out() {
    let plain = batch_of(&["x", "y"], &BatchOptions::default());
    for tail in 1..17 {
        let bytes = [&plain[..], &plain[..tail]].concat();
        let produced = validate_produced(&bytes, RULES).expect("taken");
        assert_eq!((produced.batch.bytes(), produced.is_numbered), (&plain[..], true), "{tail} bytes");
    }
}

/// Kafka numbers anew what is compressed, and takes the rest as it comes. A log in which two records have one offset is none.
#[test]
fn records_that_are_not_numbered_from_0_on_can_be_numbered_anew() {
    for compression in codecs() {
        let options = BatchOptions {
            producer: ProducerIdentity::new(7, 3),
            base_sequence: Sequence(40),
            compression,
            ..BatchOptions::default()
        };
        for numbers in [[3, 4], [0, 2], [5, 9]] {
            let mut builder = BatchBuilder::default();
            for (number, value) in numbers.into_iter().zip(["x", "y"]) {
                builder
                    .append_at(number, 1000 + i64::from(number), Some(b"k"), Some(value.as_bytes()), [])
                    .expect("small");
            }
            let mut bytes = builder.finish(&options).expect("finishes").to_vec();
            bytes[23..27].copy_from_slice(&1_i32.to_be_bytes());
            let bytes = with_crc(bytes);
            let produced = validate_produced(&bytes, RULES).expect("may be written");
            assert!(!produced.is_numbered, "{numbers:?}");
            let bytes = renumber(&produced.batch, 1 << 20).expect("numbered");
            let again = validate_produced(&bytes, RULES).expect("may be written");
            assert!(again.is_numbered, "{numbers:?}");
            let (before, after) = (produced.batch.header(), again.batch.header());
            assert_eq!(
                (after.producer, after.base_sequence, after.records_count),
                (before.producer, before.base_sequence, 2)
            );
            assert_eq!((again.batch.last_offset_delta(), after.attributes), (1, before.attributes));
            let payload = again.batch.decompress(1 << 20).expect("unpacks");
            let records: Vec<_> = again.batch.records_in(&payload).map(|it| it.expect("a record")).collect();
            assert_eq!(records.iter().map(|it| it.value).collect::<Vec<_>>(), [Some(&b"x"[..]), Some(&b"y"[..])]);
            assert_eq!(
                records.iter().map(|it| it.timestamp).collect::<Vec<_>>(),
                numbers.map(|it| 1000 + i64::from(it))
            );
        }
    }
    let mut bytes = batch_of(&["x", "y"], &BatchOptions::default());
    bytes[BATCH_HEADER_BYTES + 12] = 0;
    let bytes = with_crc(bytes);
    let produced = validate_produced(&bytes, RULES).expect("two records of one offset");
    assert!(!produced.is_numbered);
}

#[test]
fn more_than_the_limit_is_too_large_and_a_compacted_topic_wants_keys() {
    let long = "x".repeat(1000);
    for compression in codecs() {
        let bytes = batch_of(&[&long], &BatchOptions { compression, ..BatchOptions::default() });
        let rules = ProducedRules { decompressed_bytes_max: 500, ..RULES };
        let refused = validate_produced(&bytes, rules).map(|_| ()).expect_err("too large");
        assert_eq!(refused.error_code(), ErrorCode::MessageTooLarge, "{compression}");
    }
    let mut builder = BatchBuilder::default();
    builder.append(0, None, Some(b"value"), []).expect("small");
    let bytes = builder.finish(&BatchOptions::default()).expect("finishes");
    assert!(validate_produced(&bytes, RULES).is_ok());
    let refused = validate_produced(&bytes, ProducedRules { requires_keys: true, ..RULES }).map(|_| ());
    assert_eq!(refused.expect_err("no key").error_code(), ErrorCode::InvalidRecord);
}

#[test]
fn a_marker_says_how_the_transaction_ended() {
    for outcome in [Outcome::Commit, Outcome::Abort] {
        let bytes = marker_batch(ProducerIdentity::new(9, 2), outcome, 12, 345);
        let batch = BatchView::new(&bytes).expect("a batch");
        batch.validate().expect("valid");
        assert!(batch.is_control() && batch.is_transactional());
        assert_eq!((batch.producer(), batch.base_sequence()), (ProducerIdentity::new(9, 2), Sequence::NONE));
        let record = batch.records().expect("plain").next().expect("one").expect("a record");
        let marker = read_marker(&record).expect("a marker");
        assert_eq!((marker.outcome, marker.coordinator_epoch, record.timestamp), (outcome, 12, 345));
    }
}

#[test]
fn offsets_that_do_not_rise_are_refused_by_the_builder() {
    let mut builder = BatchBuilder::default();
    builder.append_at(5, 0, None, None, []).expect("a gap is fine");
    assert!(builder.append_at(5, 0, None, None, []).is_err());
    builder.append(0, None, None, []).expect("the next one");
    let bytes = builder.finish(&BatchOptions::default()).expect("finishes");
    let batch = BatchView::new(&bytes).expect("a batch");
    let offsets: Vec<_> = batch.records().expect("plain").map(|it| it.expect("a record").offset).collect();
    assert_eq!((offsets, batch.last_offset(), batch.records_count()), (vec![5, 6], 6, 2));
}

type Given = (i64, Option<Vec<u8>>, Option<Vec<u8>>, Vec<(Vec<u8>, Option<Vec<u8>>)>);

fn any_record() -> impl Strategy<Value = Given> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..80);
    let headers = prop::collection::vec((bytes(), prop::option::of(bytes())), 0..4);
    (-1_i64..1 << 50, prop::option::of(bytes()), prop::option::of(bytes()), headers)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_records_come_back(given in prop::collection::vec(any_record(), 1..20)) {
        let mut builder = BatchBuilder::default();
        for (timestamp, key, value, headers) in &given {
            let headers: Vec<_> = headers.iter().map(|(key, value)| (key.as_slice(), value.as_deref())).collect();
            let before = builder.size_bytes();
            let most = record_bytes_max(key.as_deref(), value.as_deref(), headers.iter().copied());
            builder.append(*timestamp, key.as_deref(), value.as_deref(), headers).expect("small");
            prop_assert!(builder.size_bytes() - before <= most);
        }
        let size = builder.size_bytes();
        let bytes = builder.finish(&BatchOptions::default()).expect("finishes");
        prop_assert_eq!(bytes.len(), size);
        let batch = validate_produced(&bytes, RULES).expect("valid");
        let read: Vec<Given> = batch.batch.records().expect("plain").map(|record| {
            let record = record.expect("a record");
            let headers = record.headers().map(|it| (it.key.to_vec(), it.value.map(<[u8]>::to_vec))).collect();
            (record.timestamp, record.key.map(<[u8]>::to_vec), record.value.map(<[u8]>::to_vec), headers)
        }).collect();
        prop_assert_eq!(read, given);
    }
}
