//! Every frame that was recorded between real clients and Apache Kafka 4.4 decodes, and encodes again to
//! the same bytes; so do the batches and the messages inside.

mod support;

use std::collections::BTreeSet;

use atonce_protocol::messages::consumer_protocol_assignment::ConsumerProtocolAssignment;
use atonce_protocol::messages::consumer_protocol_subscription::ConsumerProtocolSubscription;
use atonce_protocol::records::{
    BatchBuilder, BatchOptions, BatchView, Compression, ProducedRules, batches, validate_produced,
};
use atonce_protocol::{AnyRequest, AnyResponse, Message, Reader, frame};
use bytes::Bytes;
use support::{Frame, recorded_frames};

/// Reads a frame, writes it, and gives the message to `look`.
fn check(recorded: &Frame, look: &mut impl FnMut(&Frame, Seen<'_>)) {
    let Frame { place, key, version, bytes, .. } = recorded;
    let mut reader = Reader::new(bytes.clone());
    let again = if recorded.is_request {
        let header = frame::decode_request_header(&mut reader).unwrap_or_else(|error| panic!("{place}: {error}"));
        let request = AnyRequest::decode(*key, &mut reader, *version)
            .unwrap_or_else(|error| panic!("{place}: {key} v{version}: {error}"));
        look(recorded, Seen::Request(&request));
        frame::encode_any_request(&header, &request)
    } else {
        let header = frame::decode_response_header(&mut reader, *key, *version).expect("a header");
        assert!(header.unknown_tagged_fields.is_empty());
        let response = AnyResponse::decode(*key, &mut reader, *version)
            .unwrap_or_else(|error| panic!("{place}: answer to {key} v{version}: {error}"));
        look(recorded, Seen::Response(&response));
        frame::encode_any_response(*version, header.correlation_id, &response)
    };
    reader.finish().unwrap_or_else(|error| panic!("{place}: {key} v{version}: {error}"));
    let again = again.unwrap_or_else(|error| panic!("{place}: {key} v{version}: {error}"));
    assert_eq!(again[4..], bytes[..], "{place}: {key} v{version}");
    assert_eq!(again[..4], (bytes.len() as u32).to_be_bytes(), "{place}: length");
}

enum Seen<'a> {
    Request(&'a AnyRequest),
    Response(&'a AnyResponse),
}

#[test]
fn every_recorded_frame_decodes_and_encodes_to_the_same_bytes() {
    let mut seen = BTreeSet::new();
    for recorded in recorded_frames() {
        check(&recorded, &mut |_, _| {});
        seen.insert((recorded.key.to_i16(), recorded.version));
    }
    // The recordings lose their worth if they shrink unnoticed.
    assert_eq!(seen.len(), 70, "{seen:?}");
}

#[test]
fn every_recorded_batch_can_be_built_again_from_its_records() {
    let (mut plain, mut compressed) = (0, BTreeSet::new());
    for recorded in recorded_frames() {
        check(&recorded, &mut |recorded, message| {
            for (records, produced) in batches_of(&message) {
                let mut all = batches(&records);
                for batch in &mut all {
                    let batch = batch.unwrap_or_else(|error| panic!("{}: {error}", recorded.place));
                    check_batch(&recorded.place, &batch);
                    match batch.compression().expect("known") {
                        Compression::None => plain += 1,
                        other => {
                            compressed.insert(other);
                        }
                    }
                }
                assert_eq!(all.torn_bytes(), 0, "{}", recorded.place);
                if produced {
                    let rules = ProducedRules { requires_keys: false, decompressed_bytes_max: 1 << 20 };
                    validate_produced(&records, rules).unwrap_or_else(|error| panic!("{}: {error}", recorded.place));
                }
            }
        });
    }
    assert!(plain > 50, "only {plain} plain batches");
    assert_eq!(compressed.len(), 4, "all codecs: {compressed:?}");
}

/// Records in the message, and whether a client produced them.
fn batches_of(message: &Seen<'_>) -> Vec<(Bytes, bool)> {
    let mut all = Vec::new();
    if let Seen::Request(AnyRequest::Produce(request)) = message {
        let partitions = request.topic_data.iter().flat_map(|it| &it.partition_data);
        all.extend(partitions.filter_map(|it| it.records.clone()).map(|it| (it, true)));
    }
    if let Seen::Response(AnyResponse::Fetch(response)) = message {
        let partitions = response.responses.iter().flat_map(|it| &it.partitions);
        all.extend(partitions.filter_map(|it| it.records.clone()).map(|it| (it, false)));
    }
    all
}

fn check_batch(place: &str, batch: &BatchView<'_>) {
    batch.validate().unwrap_or_else(|error| panic!("{place}: {error}"));
    let payload = batch.decompress(1 << 20).unwrap_or_else(|error| panic!("{place}: {error}"));
    let mut builder = BatchBuilder::default();
    for record in batch.records_in(&payload) {
        let record = record.unwrap_or_else(|error| panic!("{place}: {error}"));
        let headers: Vec<_> = record.headers().map(|it| (it.key, it.value)).collect();
        builder
            .append_at(record.offset_delta, record.timestamp, record.key, record.value, headers)
            .expect("what was read can be written");
    }
    let compression = batch.compression().expect("known");
    let options = BatchOptions {
        producer: batch.producer(),
        base_sequence: batch.base_sequence(),
        is_transactional: batch.is_transactional(),
        is_control: batch.is_control(),
        compression,
        base_offset: batch.base_offset(),
        partition_leader_epoch: batch.partition_leader_epoch(),
    };
    let again = builder.finish(&options).expect("finishes");
    if compression == Compression::None {
        assert_eq!(again, batch.bytes(), "{place}");
    } else {
        let again = BatchView::new(&again).expect("a batch");
        assert_eq!(again.decompress(1 << 20).expect("decompresses"), payload, "{place}");
        assert_eq!(again.attributes_and_ends(), batch.attributes_and_ends(), "{place}");
    }
}

trait Ends {
    fn attributes_and_ends(&self) -> (i16, i64, i64, i32);
}

impl Ends for BatchView<'_> {
    fn attributes_and_ends(&self) -> (i16, i64, i64, i32) {
        let header = self.header();
        (header.attributes, self.last_offset(), self.max_timestamp(), self.records_count())
    }
}

#[test]
fn two_headers_of_one_key_and_null_values_are_kept() {
    let mut found = false;
    for recorded in recorded_frames() {
        check(&recorded, &mut |_, message| {
            for (records, _) in batches_of(&message) {
                for batch in batches(&records) {
                    let batch = batch.expect("a batch");
                    let payload = batch.decompress(1 << 20).expect("decompresses");
                    for record in batch.records_in(&payload) {
                        let headers: Vec<_> = record.expect("a record").headers().collect();
                        found |= headers.windows(2).any(|it| it[0].key == it[1].key)
                            && headers.iter().any(|it| it.value.is_none());
                    }
                }
            }
        });
    }
    assert!(found, "java-plain has such a record");
}

#[test]
fn subscriptions_and_assignments_inside_decode_and_encode_to_the_same_bytes() {
    let (mut subscriptions, mut assignments) = (0, 0);
    for recorded in recorded_frames() {
        check(&recorded, &mut |recorded, message| match message {
            Seen::Request(AnyRequest::JoinGroup(request)) => {
                for protocol in &request.protocols {
                    check_versioned::<ConsumerProtocolSubscription>(&recorded.place, &protocol.metadata);
                    subscriptions += 1;
                }
            }
            Seen::Response(AnyResponse::SyncGroup(response)) if !response.assignment.is_empty() => {
                check_versioned::<ConsumerProtocolAssignment>(&recorded.place, &response.assignment);
                assignments += 1;
            }
            Seen::Request(_) | Seen::Response(_) => {}
        });
    }
    assert!(subscriptions > 5 && assignments > 5, "{subscriptions} subscriptions, {assignments} assignments");
}

fn check_versioned<M: Message>(place: &str, bytes: &Bytes) {
    let (version, message) = M::decode_versioned(bytes.clone()).unwrap_or_else(|error| panic!("{place}: {error}"));
    assert_eq!(message.encode_versioned(version).expect("encodes"), bytes, "{place}");
}
