//! Nanoseconds per record, in batches of 1000 with keys of 10 bytes and values of 100; and per frame.
//!
//! `cargo bench -p atonce-protocol`. The best of several rounds: what the code costs, not what the machine was doing.

#![allow(clippy::print_stdout, missing_docs, reason = "a bench talks to its user")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a bench needs a clock")]

use std::hint::black_box;
use std::time::Instant;

use atonce_protocol::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use atonce_protocol::records::{BatchBuilder, BatchOptions, BatchView, Compression, ProducedRules, validate_produced};
use atonce_protocol::{ApiKey, Message, Reader, frame};
use bytes::Bytes;

const RECORDS: usize = 1000;

fn main() {
    let key = [7_u8; 10];
    let values: Vec<Vec<u8>> = (0..RECORDS).map(|at| format!("{at:0>9} ").repeat(10).into_bytes()).collect();
    let build = |compression| {
        let mut builder = BatchBuilder::with_capacity(RECORDS * 128);
        for (value, at) in values.iter().zip(0..) {
            builder.append(1_700_000_000_000 + at, Some(&key), Some(value), []).expect("small");
        }
        builder.finish(&BatchOptions { compression, ..BatchOptions::default() }).expect("finishes")
    };
    for compression in [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd]
    {
        let bytes = build(compression);
        println!("{compression}: {} bytes", bytes.len());
        per_record("  build", || build(compression).len());
        per_record("  validate as a broker", || {
            let rules = ProducedRules { requires_keys: false, decompressed_bytes_max: 1 << 24 };
            validate_produced(&bytes, rules).expect("valid").batch.size_bytes()
        });
        per_record("  read", || {
            let batch = BatchView::new(&bytes).expect("a batch");
            let payload = batch.decompress(1 << 24).expect("decompresses");
            batch.records_in(&payload).map(|it| it.expect("a record").value.map_or(0, <[u8]>::len)).sum()
        });
    }
    let bytes = build(Compression::None);
    per_record("checksum", || BatchView::new(&bytes).expect("a batch").computed_crc() as usize);

    let request = produce_request(&bytes.slice(..200));
    let header = frame::RequestHeader::new(ApiKey::Produce, 12, 7, Some("bench"));
    let encoded = frame::encode_request(&header, &request).expect("encodes").freeze();
    per_frame("produce request of 10 partitions: write", || {
        frame::encode_request(&header, &request).expect("encodes").len()
    });
    per_frame("produce request of 10 partitions: read", || {
        let mut reader = Reader::new(encoded.slice(4..));
        frame::decode_request_header(&mut reader).expect("a header");
        ProduceRequest::decode(&mut reader, 12).expect("decodes").topic_data.len()
    });
}

fn produce_request(records: &Bytes) -> ProduceRequest {
    let partition_data = (0..10)
        .map(|index| PartitionProduceData { index, records: Some(records.clone()), ..PartitionProduceData::default() })
        .collect();
    let topic = TopicProduceData { name: "a-topic".to_owned(), partition_data, ..TopicProduceData::default() };
    ProduceRequest { acks: -1, topic_data: vec![topic], ..ProduceRequest::default() }
}

fn per_record(what: &str, work: impl FnMut() -> usize) {
    println!("{what:<24} {:7.1} ns a record", best(work) / RECORDS as f64);
}

fn per_frame(what: &str, work: impl FnMut() -> usize) {
    println!("{what:<42} {:7.1} ns", best(work));
}

/// Nanoseconds of one call, in the best of the rounds.
fn best(mut work: impl FnMut() -> usize) -> f64 {
    const ROUNDS: usize = 30;
    const CALLS: u32 = 20;
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..CALLS {
            black_box(work());
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(CALLS));
    }
    best
}
