//! What a version cannot say is refused by name, unless Kafka's schema lets it drop.

use atonce_protocol::messages::consumer_protocol_subscription::ConsumerProtocolSubscription;
use atonce_protocol::messages::fetch_request::FetchRequest;
use atonce_protocol::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use atonce_protocol::messages::txn_offset_commit_request::TxnOffsetCommitRequest;
use atonce_protocol::{DecodeError, EncodeError, Message, RawTaggedField};
use bytes::{Bytes, BytesMut};

fn encode(message: &impl Message, version: i16) -> Result<BytesMut, EncodeError> {
    let mut writer = BytesMut::new();
    message.encode(&mut writer, version).map(|()| writer)
}

#[test]
fn a_field_that_the_version_lacks_is_refused_by_name() {
    let request = TxnOffsetCommitRequest { member_id: "m".to_owned(), ..TxnOffsetCommitRequest::default() };
    assert!(encode(&request, 3).is_ok());
    let refused = encode(&request, 2).expect_err("no member before version 3");
    assert_eq!(refused.to_string(), "TxnOffsetCommitRequest.member_id is set, and version 2 cannot carry it");
}

#[test]
fn an_ignorable_field_is_dropped() {
    let request = FetchRequest { rack_id: "r".to_owned(), ..FetchRequest::default() };
    let back = FetchRequest::decode_all(encode(&request, 10).expect("encodes").freeze(), 10).expect("decodes");
    assert_eq!(back, FetchRequest::default());
}

#[test]
fn null_is_refused_where_the_version_needs_a_value() {
    let all_topics = MetadataRequest { topics: None, ..MetadataRequest::default() };
    assert!(encode(&all_topics, 1).is_ok());
    assert!(matches!(encode(&all_topics, 0), Err(EncodeError::NullNotAllowed { field: "topics", .. })));
    // A topic by id, in a version that has names only.
    let by_id = MetadataRequest {
        topics: Some(vec![MetadataRequestTopic { name: None, ..MetadataRequestTopic::default() }]),
        ..MetadataRequest::default()
    };
    assert!(encode(&by_id, 10).is_ok());
    assert!(matches!(encode(&by_id, 9), Err(EncodeError::NullNotAllowed { field: "name", .. })));
}

#[test]
fn unknown_tagged_fields_are_kept_in_order_and_refused_where_there_are_no_tags() {
    let unknown = |tag| RawTaggedField { tag, data: Bytes::from_static(b"later") };
    let request = FetchRequest {
        // Known fields have tags 0 and 1; an unknown one may stand behind them.
        cluster_id: Some("c".to_owned()),
        unknown_tagged_fields: vec![unknown(2), unknown(300)],
        ..FetchRequest::default()
    };
    let bytes = encode(&request, 18).expect("encodes").freeze();
    let back = FetchRequest::decode_all(bytes, 18).expect("decodes");
    assert_eq!(back, request);
    let none = encode(&FetchRequest { unknown_tagged_fields: vec![unknown(2)], ..FetchRequest::default() }, 11);
    assert!(matches!(none, Err(EncodeError::FieldNotInVersion { field: "unknown_tagged_fields", .. })));
    let twice = FetchRequest { unknown_tagged_fields: vec![unknown(0)], ..request };
    assert_eq!(encode(&twice, 18), Err(EncodeError::TagOutOfOrder { tag: 0 }));
}

#[test]
fn a_subscription_from_the_future_is_read_as_far_as_we_know_it() {
    let subscription = ConsumerProtocolSubscription {
        topics: vec!["in".to_owned()],
        generation_id: 7,
        rack_id: Some("r".to_owned()),
        ..ConsumerProtocolSubscription::default()
    };
    let mut bytes = subscription.encode_versioned(3).expect("encodes").to_vec();
    bytes[1] = 9;
    bytes.extend(b"what version 9 adds");
    let bytes = Bytes::from(bytes);
    let read = ConsumerProtocolSubscription::decode_versioned_or_later(bytes.clone());
    assert_eq!(read, Ok((9, subscription)));
    let strict = ConsumerProtocolSubscription::decode_versioned(bytes);
    assert!(matches!(strict, Err(DecodeError::UnsupportedVersion { version: 9, .. })));
    let negative = ConsumerProtocolSubscription::decode_versioned_or_later(Bytes::from_static(&[0xff, 0xff, 0, 0]));
    assert!(matches!(negative, Err(DecodeError::UnsupportedVersion { version: -1, .. })));
}

#[test]
fn texts_and_versions_beyond_the_protocol_are_refused() {
    let long = MetadataRequestTopic { name: Some("x".repeat(40_000)), ..MetadataRequestTopic::default() };
    let request = MetadataRequest { topics: Some(vec![long]), ..MetadataRequest::default() };
    assert_eq!(encode(&request, 9), Err(EncodeError::TooLong { length: 40_000 }));
    assert_eq!(
        encode(&MetadataRequest::default(), 14),
        Err(EncodeError::UnsupportedVersion { message: "MetadataRequest", version: 14 })
    );
}
