//! A new leader whose log is not the one that was read (KIP-320): reading goes back to where the logs part, and never on
//! over records that are not there any more.

use std::time::Duration;

use atonce_client_core::backoff::Backoff;
use atonce_client_core::fetch::{
    EpochEnd, FetchCall, FetchConfig, FetchError, FetchReply, Fetched, Fetcher, Isolation, OffsetReset, Outgoing,
    Position, ValidateCall,
};
use atonce_client_core::metadata::Metadata;
use atonce_kernel::{Monotonic, Offset, TopicPartition};
use atonce_protocol::ErrorCode;
use atonce_protocol::messages::metadata_response::{
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use atonce_protocol::records::{BatchBuilder, BatchOptions, set_base_offset};
use bytes::BytesMut;

const NOW: Monotonic = Monotonic::START;

fn partition() -> TopicPartition {
    TopicPartition::new("t", 0)
}

fn metadata(leader_id: i32, leader_epoch: i32) -> Metadata {
    let broker = |node_id| MetadataResponseBroker { node_id, ..MetadataResponseBroker::default() };
    let partition = MetadataResponsePartition { leader_id, leader_epoch, ..MetadataResponsePartition::default() };
    let topic = MetadataResponseTopic { name: Some("t".to_owned()), partitions: vec![partition], ..Default::default() };
    let mut metadata = Metadata::default();
    let brokers = vec![broker(1), broker(2)];
    metadata.handle_response(&MetadataResponse { brokers, topics: vec![topic], ..Default::default() });
    metadata
}

/// A batch of `count` records from `base` on, of a leader's epoch.
fn records(base: Offset, count: i32, epoch: i32) -> Fetched {
    let mut builder = BatchBuilder::default();
    for delta in 0..count {
        builder.append_at(delta, 0, None, Some(b"v"), []).expect("is small");
    }
    let options = BatchOptions { partition_leader_epoch: epoch, ..BatchOptions::default() };
    let mut bytes = BytesMut::from(builder.finish(&options).expect("finishes"));
    set_base_offset(&mut bytes, base);
    Fetched {
        high_watermark: base + i64::from(count),
        last_stable_offset: base + i64::from(count),
        aborted: Vec::new(),
        records: bytes.freeze(),
        preferred_read_replica: None,
    }
}

fn fetcher(offset_reset: OffsetReset) -> Fetcher {
    let mut fetcher = Fetcher::new(FetchConfig {
        isolation: Isolation::ReadCommitted,
        offset_reset,
        prefetch_bytes_max: 1_000_000,
        retry_backoff: Backoff::constant(Duration::from_millis(10)),
    });
    fetcher.assign(partition(), Position::Offset(0));
    fetcher
}

fn fetch(fetcher: &mut Fetcher, metadata: &Metadata) -> FetchCall {
    match fetcher.poll_request(NOW, metadata) {
        Some(Outgoing::Fetch(call)) => call,
        other => panic!("a fetch, not {other:?}"),
    }
}

fn validation(fetcher: &mut Fetcher, metadata: &Metadata) -> ValidateCall {
    match fetcher.poll_request(NOW, metadata) {
        Some(Outgoing::Validate(call)) => call,
        other => panic!("a question, not {other:?}"),
    }
}

/// Has read up to offset 10 in epoch 3, and taken 5 of that.
fn has_read(offset_reset: OffsetReset) -> Fetcher {
    let mut fetcher = fetcher(offset_reset);
    let call = fetch(&mut fetcher, &metadata(1, 3));
    fetcher.handle_reply(NOW, call.id, FetchReply::without_session(vec![(partition(), Ok(records(0, 10, 3)))]));
    assert_eq!(fetcher.take(5).expect("records").records.len(), 5);
    fetcher
}

fn answer(fetcher: &mut Fetcher, call: &ValidateCall, leader_epoch: i32, end_offset: Offset) {
    fetcher.handle_validated(NOW, call.id, vec![(partition(), Ok(EpochEnd { leader_epoch, end_offset }))]);
}

#[test]
fn a_leader_of_the_epoch_that_was_read_is_not_asked() {
    let mut fetcher = has_read(OffsetReset::Earliest);
    assert_eq!(fetch(&mut fetcher, &metadata(1, 3)).offsets(), [(partition(), 10)]);
}

#[test]
fn a_new_leader_that_has_all_is_asked_once_and_read_from() {
    let mut fetcher = has_read(OffsetReset::Earliest);
    let new = metadata(2, 4);
    let call = validation(&mut fetcher, &new);
    let asked = &call.partitions[0];
    assert_eq!((call.node, asked.current_leader_epoch, asked.leader_epoch), (2, 4, 3));
    assert_eq!(fetcher.poll_request(NOW, &new), None, "nothing is read before it has answered");
    answer(&mut fetcher, &call, 3, 12);
    let next = fetch(&mut fetcher, &new);
    assert_eq!((next.node, next.offsets()), (2, vec![(partition(), 10)]));
    assert_eq!(fetcher.take(100).expect("what was read ahead").records.len(), 5);
}

#[test]
fn a_new_leader_that_lost_what_was_read_ahead_is_read_from_where_the_logs_part() {
    let mut fetcher = has_read(OffsetReset::Latest);
    let new = metadata(2, 4);
    let call = validation(&mut fetcher, &new);
    answer(&mut fetcher, &call, 3, 7);
    // The user has taken 0 to 4: 5 and 6 are still the same, 7 to 9 are gone.
    assert_eq!(fetcher.take(100), None, "what was read ahead is dropped");
    let next = fetch(&mut fetcher, &new);
    assert_eq!(next.offsets(), [(partition(), 5)]);
    fetcher.handle_reply(NOW, next.id, FetchReply::without_session(vec![(partition(), Ok(records(5, 4, 4)))]));
    let offsets: Vec<Offset> = fetcher.take(100).expect("records").records.iter().map(|it| it.offset).collect();
    assert_eq!(offsets, [5, 6, 7, 8]);
}

#[test]
fn a_new_leader_that_lost_what_the_user_has_sets_the_position_back() {
    let mut fetcher = has_read(OffsetReset::Earliest);
    let new = metadata(2, 4);
    let call = validation(&mut fetcher, &new);
    answer(&mut fetcher, &call, 2, 3);
    let position = fetcher.position(&partition()).expect("is known");
    assert_eq!((position.offset, position.leader_epoch), (3, 2));
    assert_eq!(fetch(&mut fetcher, &new).offsets(), [(partition(), 3)]);
}

#[test]
fn without_a_reset_policy_lost_records_are_an_error() {
    let mut fetcher = has_read(OffsetReset::Fail);
    let new = metadata(2, 4);
    let call = validation(&mut fetcher, &new);
    answer(&mut fetcher, &call, 3, 7);
    let expected = FetchError::OutOfRange { topic_partition: partition(), offset: 10 };
    assert_eq!(fetcher.poll_error(), Some(expected));
    assert_eq!(fetcher.poll_request(NOW, &new), None);
}

#[test]
fn a_question_that_is_refused_lost_or_not_understood_holds_nothing_up_for_ever() {
    for (reply, expected) in [
        (Some(ErrorCode::FencedLeaderEpoch), "asks again"),
        (Some(ErrorCode::UnknownLeaderEpoch), "asks again"),
        (None, "asks again"),
        (Some(ErrorCode::UnsupportedVersion), "reads"),
    ] {
        let mut fetcher = has_read(OffsetReset::Earliest);
        let new = metadata(2, 4);
        let call = validation(&mut fetcher, &new);
        match reply {
            Some(code) => fetcher.handle_validated(NOW, call.id, vec![(partition(), Err(code))]),
            None => fetcher.handle_validation_lost(NOW, call.id),
        }
        let later = NOW + Duration::from_secs(1);
        let found = loop {
            match fetcher.poll_request(later, &new) {
                Some(Outgoing::Validate(_)) => break "asks again",
                Some(Outgoing::Fetch(_)) => break "reads",
                Some(Outgoing::RefreshMetadata(_)) => fetcher.handle_metadata(later),
                None => break "does nothing",
            }
        };
        assert_eq!(found, expected, "{reply:?}");
    }
}

#[test]
fn a_committed_place_is_held_against_the_leader_too() {
    let mut fetcher = fetcher(OffsetReset::Latest);
    fetcher.seek(&partition(), Position::Committed);
    let lookup = fetcher.poll_lookup(NOW).pop().expect("the committed offset");
    fetcher.handle_lookup(&lookup, Some((20, 3)));
    let new = metadata(2, 4);
    let call = validation(&mut fetcher, &new);
    answer(&mut fetcher, &call, 3, 18);
    assert_eq!(fetch(&mut fetcher, &new).offsets(), [(partition(), 18)]);
}
