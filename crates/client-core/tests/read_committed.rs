//! The filter of read-committed, and the positions it leaves, against a plain second reading of the log.

use std::collections::BTreeMap;
use std::time::Duration;

use atonce_client_core::fetch::{
    FetchConfig, FetchReply, Fetched, Fetcher, Isolation, OffsetReset, Outgoing, Position,
};
use atonce_client_core::metadata::{Broker, Metadata};
use atonce_kernel::chance::Chance;
use atonce_kernel::{Monotonic, Offset, Outcome, ProducerId, ProducerIdentity, Sequence, TopicPartition};
use atonce_protocol::ErrorCode;
use atonce_protocol::messages::metadata_response::{
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use atonce_protocol::records::{BatchBuilder, BatchOptions, BatchView, Compression, marker_batch, set_base_offset};
use bytes::{Bytes, BytesMut};

/// A log with its transactions, as the log itself knows them.
#[derive(Default)]
struct Log {
    /// Batches with their base offsets.
    batches: Vec<(Offset, Bytes)>,
    end: Offset,
    /// Producer and first offset of open transactions.
    open: BTreeMap<i64, Offset>,
    /// Producer, first offset, and offset of the marker.
    aborted: Vec<(i64, Offset, Offset)>,
    /// What a reader must see, at both isolations: offset, and the transaction it belongs to.
    records: Vec<(Offset, Option<(i64, Offset)>)>,
}

impl Log {
    fn push(&mut self, bytes: Bytes, offsets: i64) {
        let mut bytes = BytesMut::from(bytes);
        set_base_offset(&mut bytes, self.end);
        self.batches.push((self.end, bytes.freeze()));
        self.end += offsets;
    }

    fn write(&mut self, chance: &mut Chance, producer: Option<i64>) {
        let count = 1 + i64::try_from(chance.below(4)).expect("fits");
        let mut builder = BatchBuilder::default();
        let mut offsets = 0;
        let transaction = producer.map(|id| (id, *self.open.entry(id).or_insert(self.end)));
        for _ in 0..count {
            // Compaction leaves gaps.
            offsets += i64::from(chance.one_in(1, 4));
            let delta = i32::try_from(offsets).expect("fits");
            builder.append_at(delta, 0, None, Some(b"v"), []).expect("is small");
            self.records.push((self.end + offsets, transaction));
            offsets += 1;
        }
        let codecs = [Compression::None, Compression::Lz4, Compression::Snappy];
        let options = BatchOptions {
            producer: producer.map_or(ProducerIdentity::NONE, |id| ProducerIdentity::new(id, 0)),
            base_sequence: if producer.is_some() { Sequence(0) } else { Sequence::NONE },
            is_transactional: producer.is_some(),
            compression: codecs[usize::try_from(chance.below(3)).expect("fits")],
            ..BatchOptions::default()
        };
        self.push(builder.finish(&options).expect("finishes"), offsets);
    }

    fn end_transaction(&mut self, producer: i64, outcome: Outcome) {
        if let Some(first) = self.open.remove(&producer)
            && outcome == Outcome::Abort
        {
            self.aborted.push((producer, first, self.end));
        }
        self.push(marker_batch(ProducerIdentity::new(producer, 0), outcome, 0, 0), 1);
    }

    fn last_stable_offset(&self) -> Offset {
        self.open.values().copied().min().unwrap_or(self.end)
    }

    fn expected(&self, isolation: Isolation, from: Offset) -> Vec<Offset> {
        let is_seen = |(offset, transaction): &(Offset, Option<(i64, Offset)>)| {
            let is_aborted =
                transaction.is_some_and(|(id, first)| self.aborted.iter().any(|it| (it.0, it.1) == (id, first)));
            *offset >= from
                && match isolation {
                    Isolation::ReadUncommitted => true,
                    Isolation::ReadCommitted => !is_aborted && *offset < self.last_stable_offset(),
                }
        };
        self.records.iter().filter(|record| is_seen(record)).map(|(offset, _)| *offset).collect()
    }

    /// What a broker answers to a fetch: whole batches from the one that holds the offset, up to a size.
    fn fetch(&self, chance: &mut Chance, isolation: Isolation, offset: Offset) -> Result<Fetched, ErrorCode> {
        let bound = if isolation == Isolation::ReadCommitted { self.last_stable_offset() } else { self.end };
        let mut records = BytesMut::new();
        let mut upper = offset;
        for (base, bytes) in &self.batches {
            let next = BatchView::new(bytes).expect("is whole").next_offset();
            let is_full = !records.is_empty() && chance.one_in(1, 4);
            if next <= offset || *base >= bound || is_full {
                if is_full {
                    // Sometimes cut in the middle of the next batch.
                    let cut = usize::try_from(chance.below(bytes.len() as u64)).expect("fits");
                    records.extend_from_slice(&bytes[..cut]);
                    break;
                }
                continue;
            }
            records.extend_from_slice(bytes);
            upper = next;
        }
        let is_of_interest = |(_, first, last): &&(i64, Offset, Offset)| *last >= offset && *first < upper;
        let mut aborted: Vec<(ProducerId, Offset)> =
            self.aborted.iter().filter(is_of_interest).map(|(id, first, _)| (ProducerId(*id), *first)).collect();
        if chance.one_in(1, 3) {
            // Some brokers do not sort them.
            aborted.reverse();
        }
        Ok(Fetched {
            high_watermark: self.end,
            last_stable_offset: self.last_stable_offset(),
            aborted: if isolation == Isolation::ReadCommitted { aborted } else { Vec::new() },
            records: records.freeze(),
            preferred_read_replica: None,
        })
    }
}

fn metadata() -> Metadata {
    let mut metadata = Metadata::default();
    metadata.handle_response(&MetadataResponse {
        brokers: vec![MetadataResponseBroker { node_id: 1, ..MetadataResponseBroker::default() }],
        topics: vec![MetadataResponseTopic {
            name: Some("t".to_owned()),
            partitions: vec![MetadataResponsePartition { leader_id: 1, ..MetadataResponsePartition::default() }],
            ..MetadataResponseTopic::default()
        }],
        ..MetadataResponse::default()
    });
    metadata
}

fn run(seed: u64, isolation: Isolation) {
    let mut chance = Chance::from_seed(seed);
    let mut log = Log::default();
    for _ in 0..chance.below(60) {
        let producer = i64::try_from(chance.below(3)).expect("fits");
        match chance.below(6) {
            0 => log.write(&mut chance, None),
            1..=3 => log.write(&mut chance, Some(producer)),
            4 => log.end_transaction(producer, Outcome::Commit),
            _ => log.end_transaction(producer, Outcome::Abort),
        }
    }
    let partition = TopicPartition::new("t", 0);
    let bound = if isolation == Isolation::ReadCommitted { log.last_stable_offset() } else { log.end };
    let from = i64::try_from(chance.below(u64::try_from(bound).expect("fits") + 1)).expect("fits");
    let metadata = metadata();
    let mut fetcher = Fetcher::new(FetchConfig {
        isolation,
        offset_reset: OffsetReset::Fail,
        prefetch_bytes_max: 300,
        retry_backoff: atonce_client_core::backoff::Backoff::constant(Duration::from_millis(10)),
    });
    fetcher.assign(partition.clone(), Position::Offset(from));
    let mut seen = Vec::new();
    let mut now = Monotonic::START;
    for _ in 0..10_000 {
        now = now + Duration::from_millis(20);
        if fetcher.position(&partition).expect("is known").offset == bound {
            break;
        }
        if let Some(Outgoing::Fetch(call)) = fetcher.poll_request(now, &metadata) {
            let (asked, offset) = call.offsets()[0].clone();
            if chance.one_in(1, 5) {
                fetcher.handle_lost(now, call.id);
            } else {
                let reply = log.fetch(&mut chance, isolation, offset);
                fetcher.handle_reply(now, call.id, FetchReply::without_session(vec![(asked, reply)]));
            }
        }
        let records_max = usize::try_from(1 + chance.below(5)).expect("fits");
        if chance.one_in(2, 3)
            && let Some(taken) = fetcher.take(records_max)
        {
            assert!(taken.records.len() <= records_max, "seed {seed}");
            let position = taken.positions[&partition].offset;
            assert!(taken.records.iter().all(|record| record.offset < position), "seed {seed}");
            seen.extend(taken.records.iter().map(|record| record.offset));
            let behind = log.expected(isolation, position).into_iter().next();
            assert_eq!(behind, log.expected(isolation, from).get(seen.len()).copied(), "seed {seed}: skipped some");
        }
        assert_eq!(fetcher.poll_error(), None, "seed {seed}");
    }
    assert_eq!(seen, log.expected(isolation, from), "seed {seed}, {isolation:?}, from {from}");
    let position = fetcher.position(&partition).expect("is known").offset;
    assert_eq!(position, bound, "seed {seed}: it steps over all that nobody sees");
}

#[test]
fn exactly_what_is_committed_is_seen_once_and_in_order() {
    for seed in 0..1000 {
        run(seed, Isolation::ReadCommitted);
    }
}

#[test]
fn all_but_control_records_are_seen_by_those_who_read_uncommitted() {
    for seed in 0..1000 {
        run(seed, Isolation::ReadUncommitted);
    }
}

fn fetcher(reset: OffsetReset) -> Fetcher {
    Fetcher::new(FetchConfig {
        isolation: Isolation::ReadCommitted,
        offset_reset: reset,
        prefetch_bytes_max: 1000,
        retry_backoff: atonce_client_core::backoff::Backoff::constant(Duration::from_millis(10)),
    })
}

#[test]
fn a_rewind_without_a_committed_offset_goes_back_to_where_reading_began() {
    let partition = TopicPartition::new("t", 0);
    let mut fetcher = fetcher(OffsetReset::Latest);
    fetcher.assign(partition.clone(), Position::Committed);
    let lookup = fetcher.poll_lookup(Monotonic::START).pop().expect("the committed offset is asked for");
    fetcher.handle_lookup(&lookup, None);
    let lookup = fetcher.poll_lookup(Monotonic::START).pop().expect("then the end");
    assert_eq!(lookup.position, Position::Latest);
    fetcher.handle_lookup(&lookup, Some((10, -1)));
    fetcher.seek(&partition, Position::Committed);
    let lookup = fetcher.poll_lookup(Monotonic::START).pop().expect("again");
    fetcher.handle_lookup(&lookup, None);
    assert_eq!(fetcher.position(&partition).map(|position| position.offset), Some(10), "and not the end of today");
}

#[test]
fn an_answer_from_before_a_seek_is_dropped() {
    let partition = TopicPartition::new("t", 0);
    let mut chance = Chance::from_seed(1);
    let mut log = Log::default();
    for _ in 0..5 {
        log.write(&mut chance, None);
    }
    let metadata = metadata();
    let mut fetcher = fetcher(OffsetReset::Fail);
    fetcher.assign(partition.clone(), Position::Offset(0));
    let Some(Outgoing::Fetch(call)) = fetcher.poll_request(Monotonic::START, &metadata) else { panic!("it fetches") };
    fetcher.seek(&partition, Position::Offset(log.end));
    let reply = log.fetch(&mut chance, Isolation::ReadCommitted, 0);
    fetcher.handle_reply(Monotonic::START, call.id, FetchReply::without_session(vec![(partition.clone(), reply)]));
    assert_eq!(fetcher.take(10), None);
    let Some(Outgoing::Fetch(call)) = fetcher.poll_request(Monotonic::START, &metadata) else { panic!("it fetches") };
    assert_eq!(call.offsets(), [(partition, log.end)]);
}

#[test]
fn a_position_out_of_range_follows_the_policy_or_is_an_error() {
    let partition = TopicPartition::new("t", 0);
    let metadata = metadata();
    for (reset, expected) in [
        (OffsetReset::Earliest, Some(Position::Earliest)),
        (OffsetReset::Latest, Some(Position::Latest)),
        (OffsetReset::Fail, None),
    ] {
        let mut fetcher = fetcher(reset);
        fetcher.assign(partition.clone(), Position::Offset(99));
        let Some(Outgoing::Fetch(call)) = fetcher.poll_request(Monotonic::START, &metadata) else { panic!("fetches") };
        let reply = vec![(partition.clone(), Err(ErrorCode::OffsetOutOfRange))];
        fetcher.handle_reply(Monotonic::START, call.id, FetchReply::without_session(reply));
        let asked = fetcher.poll_lookup(Monotonic::START).pop().map(|lookup| lookup.position);
        assert_eq!(asked, expected);
        assert_eq!(fetcher.poll_error().is_some(), expected.is_none());
    }
}

#[test]
fn what_is_read_ahead_is_bounded() {
    let mut chance = Chance::from_seed(1);
    let mut log = Log::default();
    for _ in 0..200 {
        log.write(&mut chance, None);
    }
    let metadata = metadata();
    let mut fetcher = fetcher(OffsetReset::Fail);
    let partition = TopicPartition::new("t", 0);
    fetcher.assign(partition.clone(), Position::Offset(0));
    let mut fetches = 0;
    while let Some(Outgoing::Fetch(call)) = fetcher.poll_request(Monotonic::START, &metadata) {
        let reply = log.fetch(&mut chance, Isolation::ReadCommitted, call.offsets()[0].1);
        fetcher.handle_reply(Monotonic::START, call.id, FetchReply::without_session(vec![(partition.clone(), reply)]));
        fetches += 1;
    }
    assert!((1..=2).contains(&fetches), "{fetches}");
}

#[test]
fn a_replica_that_the_leader_recommends_is_read_from_until_it_fails_or_the_time_is_up() {
    let partition = TopicPartition::new("t", 0);
    let mut metadata = metadata();
    let broker = Broker { host: "near".to_owned(), port: 1, rack: None };
    metadata.handle_broker(2, broker);
    let nothing = |node: Option<i32>| {
        Ok(Fetched {
            high_watermark: 0,
            last_stable_offset: 0,
            aborted: Vec::new(),
            records: Bytes::new(),
            preferred_read_replica: node,
        })
    };
    let later = Monotonic::START + Duration::from_secs(301);
    // What the replica answers, when the next fetch is made, and whom it goes to.
    for (answer, at, expected) in [
        (nothing(None), Monotonic::START, 2),
        (nothing(None), later, 1),
        (Err(ErrorCode::OffsetOutOfRange), Monotonic::START, 1),
        (Err(ErrorCode::NotLeaderOrFollower), Monotonic::START + Duration::from_secs(1), 1),
    ] {
        let mut fetcher = fetcher(OffsetReset::Fail);
        fetcher.assign(partition.clone(), Position::Offset(0));
        let mut fetch = |now, reply| {
            let Some(Outgoing::Fetch(call)) = fetcher.poll_request(now, &metadata) else { panic!("it fetches") };
            if let Some(reply) = reply {
                fetcher.handle_reply(now, call.id, FetchReply::without_session(vec![(partition.clone(), reply)]));
            }
            call.node
        };
        assert_eq!(fetch(Monotonic::START, Some(nothing(Some(2)))), 1);
        assert_eq!(fetch(Monotonic::START, Some(answer)), 2);
        assert_eq!(fetch(at, None), expected);
        assert_eq!(fetcher.poll_error(), None, "a replica that lags is no reason to lose one's place");
    }
}
