//! Every message in every version: random bytes written from the declarations alone decode, and encode again to
//! the same bytes, with our code and with `kafka-protocol`'s; and the committed code is what the declarations give.

mod support;

use atonce_kernel::chance::Chance;
use atonce_protocol::messages::consumer_protocol_assignment::ConsumerProtocolAssignment;
use atonce_protocol::messages::consumer_protocol_subscription::ConsumerProtocolSubscription;
use atonce_protocol::messages::{
    consumer_group_current_member_assignment_key, consumer_group_current_member_assignment_value,
    consumer_group_member_metadata_key, consumer_group_member_metadata_value, consumer_group_metadata_key,
    consumer_group_metadata_value, consumer_group_regular_expression_key, consumer_group_regular_expression_value,
    consumer_group_target_assignment_member_key, consumer_group_target_assignment_member_value,
    consumer_group_target_assignment_metadata_key, consumer_group_target_assignment_metadata_value,
    control_record_type_schema, end_txn_marker, group_metadata_key, group_metadata_value, offset_commit_key,
    offset_commit_value, transaction_log_key, transaction_log_value,
};
use atonce_protocol::{AnyRequest, AnyResponse, ApiKey, DecodeError, EncodeError, Message, Reader};
use bytes::{Bytes, BytesMut};
use kafka_protocol::messages as theirs;
use kafka_protocol::protocol::{Decodable, Encodable};
use support::sample::sample;
use xtask::schema::{Declaration, Kind};

/// Enough that each nullable field is null and not, each array empty and not.
const SAMPLES: u64 = 20;

#[test]
fn committed_code_is_what_the_declarations_give() {
    xtask::generate::check().expect("fresh");
}

/// A message of either kind, so that one test serves both.
#[derive(Debug, PartialEq)]
enum Any {
    Request(AnyRequest),
    Response(AnyResponse),
}

impl Any {
    fn decode(kind: Kind, key: ApiKey, reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        match kind {
            Kind::Request => AnyRequest::decode(key, reader, version).map(Self::Request),
            Kind::Response | Kind::Data => AnyResponse::decode(key, reader, version).map(Self::Response),
        }
    }

    fn encode(&self, writer: &mut BytesMut, version: i16) -> Result<(), EncodeError> {
        match self {
            Self::Request(request) => request.encode(writer, version),
            Self::Response(response) => response.encode(writer, version),
        }
    }
}

/// Gives every declared API message in every version, with random bytes of it, to `check`.
fn for_each_sample(seed: u64, mut check: impl FnMut(&str, Kind, ApiKey, i16, Bytes)) {
    for declaration in xtask::generate::declarations().expect("declarations") {
        let Declaration::Api { key, request, response, .. } = &declaration else { continue };
        let key = ApiKey::from_i16(*key).expect("generated");
        for message in [request, response] {
            for version in message.versions.from..=message.versions.to {
                for turn in 0..SAMPLES {
                    let mut chance = Chance::from_seed(seed).derive(turn);
                    let bytes = Bytes::from(sample(message, version, &mut chance));
                    check(&format!("{} v{version}, sample {turn}", message.name), message.kind, key, version, bytes);
                }
            }
        }
    }
}

#[test]
fn samples_of_every_version_decode_and_encode_to_the_same_bytes() {
    let mut count = 0;
    for_each_sample(1, |place, kind, key, version, bytes| {
        let mut reader = Reader::new(bytes.clone());
        let message = Any::decode(kind, key, &mut reader, version).unwrap_or_else(|error| panic!("{place}: {error}"));
        reader.finish().unwrap_or_else(|error| panic!("{place}: {error}"));
        let mut again = BytesMut::new();
        message.encode(&mut again, version).unwrap_or_else(|error| panic!("{place}: {error}"));
        assert_eq!(again, bytes, "{place}");
        count += 1;
    });
    assert!(count > 5000, "only {count} samples");
}

#[test]
fn every_version_that_kafka_protocol_knows_has_the_same_bytes_there() {
    let mut known = std::collections::BTreeSet::new();
    for_each_sample(2, |place, kind, key, version, bytes| {
        let Ok(their_key) = theirs::ApiKey::try_from(key.to_i16()) else { return };
        let their_versions = their_key.valid_versions();
        if version < their_versions.min || version > their_versions.max {
            return;
        }
        let ours = Any::decode(kind, key, &mut Reader::new(bytes.clone()), version).expect("ours reads it");
        let mut our_bytes = BytesMut::new();
        ours.encode(&mut our_bytes, version).expect("ours writes it");
        let mut unread = our_bytes.clone().freeze();
        let mut their_bytes = BytesMut::new();
        let done = match kind {
            Kind::Request => theirs::RequestKind::decode(their_key, &mut unread, version)
                .and_then(|it| it.encode(&mut their_bytes, version)),
            Kind::Response | Kind::Data => theirs::ResponseKind::decode(their_key, &mut unread, version)
                .and_then(|it| it.encode(&mut their_bytes, version)),
        };
        match done {
            // Its table of keys knows some versions that its messages do not.
            Err(error) if format!("{error:#}").contains("version not supported") => return,
            done => done.unwrap_or_else(|error| panic!("{place}: theirs: {error:#}")),
        }
        assert!(unread.is_empty(), "{place}: theirs leaves {} bytes", unread.len());
        assert_eq!(our_bytes, their_bytes, "{place}");
        let back = Any::decode(kind, key, &mut Reader::new(their_bytes.freeze()), version).expect("ours reads theirs");
        assert_eq!(back, ours, "{place}");
        known.insert((key, version));
    });
    assert!(known.len() >= 230, "only {} versions of APIs in common", known.len());
}

#[test]
fn headers_are_of_the_versions_that_kafka_protocol_has() {
    for &key in ApiKey::ALL {
        let Ok(their_key) = theirs::ApiKey::try_from(key.to_i16()) else { continue };
        let their_versions = their_key.valid_versions();
        for version in key.versions().filter(|it| *it >= their_versions.min && *it <= their_versions.max) {
            assert_eq!(
                key.request_header_version(version),
                their_key.request_header_version(version),
                "{key} {version}"
            );
            assert_eq!(
                key.response_header_version(version),
                their_key.response_header_version(version),
                "{key} {version}"
            );
        }
    }
}

#[test]
fn messages_without_a_key_decode_and_encode_to_the_same_bytes() {
    for declaration in xtask::generate::declarations().expect("declarations") {
        let Declaration::Message(message) = &declaration else { continue };
        for version in message.versions.from..=message.versions.to {
            for turn in 0..SAMPLES {
                let bytes = Bytes::from(sample(message, version, &mut Chance::from_seed(3).derive(turn)));
                match message.name.as_str() {
                    "ConsumerProtocolSubscription" => {
                        both_ways::<ConsumerProtocolSubscription>(&bytes, version);
                        theirs_both_ways::<theirs::ConsumerProtocolSubscription>(&bytes, version);
                    }
                    "ConsumerProtocolAssignment" => {
                        both_ways::<ConsumerProtocolAssignment>(&bytes, version);
                        theirs_both_ways::<theirs::ConsumerProtocolAssignment>(&bytes, version);
                    }
                    "ControlRecordTypeSchema" => {
                        both_ways::<control_record_type_schema::ControlRecordTypeSchema>(&bytes, version);
                    }
                    "ConsumerGroupCurrentMemberAssignmentKey" => both_ways::<
                        consumer_group_current_member_assignment_key::ConsumerGroupCurrentMemberAssignmentKey,
                    >(&bytes, version),
                    "ConsumerGroupCurrentMemberAssignmentValue" => both_ways::<
                        consumer_group_current_member_assignment_value::ConsumerGroupCurrentMemberAssignmentValue,
                    >(&bytes, version),
                    "ConsumerGroupMemberMetadataKey" => {
                        both_ways::<consumer_group_member_metadata_key::ConsumerGroupMemberMetadataKey>(&bytes, version)
                    }
                    "ConsumerGroupMemberMetadataValue" => both_ways::<
                        consumer_group_member_metadata_value::ConsumerGroupMemberMetadataValue,
                    >(&bytes, version),
                    "ConsumerGroupMetadataKey" => {
                        both_ways::<consumer_group_metadata_key::ConsumerGroupMetadataKey>(&bytes, version)
                    }
                    "ConsumerGroupMetadataValue" => {
                        both_ways::<consumer_group_metadata_value::ConsumerGroupMetadataValue>(&bytes, version)
                    }
                    "ConsumerGroupRegularExpressionKey" => both_ways::<
                        consumer_group_regular_expression_key::ConsumerGroupRegularExpressionKey,
                    >(&bytes, version),
                    "ConsumerGroupRegularExpressionValue" => both_ways::<
                        consumer_group_regular_expression_value::ConsumerGroupRegularExpressionValue,
                    >(&bytes, version),
                    "ConsumerGroupTargetAssignmentMemberKey" => both_ways::<
                        consumer_group_target_assignment_member_key::ConsumerGroupTargetAssignmentMemberKey,
                    >(&bytes, version),
                    "ConsumerGroupTargetAssignmentMemberValue" => both_ways::<
                        consumer_group_target_assignment_member_value::ConsumerGroupTargetAssignmentMemberValue,
                    >(&bytes, version),
                    "ConsumerGroupTargetAssignmentMetadataKey" => both_ways::<
                        consumer_group_target_assignment_metadata_key::ConsumerGroupTargetAssignmentMetadataKey,
                    >(&bytes, version),
                    "ConsumerGroupTargetAssignmentMetadataValue" => both_ways::<
                        consumer_group_target_assignment_metadata_value::ConsumerGroupTargetAssignmentMetadataValue,
                    >(&bytes, version),
                    "EndTxnMarker" => both_ways::<end_txn_marker::EndTxnMarker>(&bytes, version),
                    "GroupMetadataKey" => both_ways::<group_metadata_key::GroupMetadataKey>(&bytes, version),
                    "GroupMetadataValue" => both_ways::<group_metadata_value::GroupMetadataValue>(&bytes, version),
                    "OffsetCommitKey" => both_ways::<offset_commit_key::OffsetCommitKey>(&bytes, version),
                    "OffsetCommitValue" => both_ways::<offset_commit_value::OffsetCommitValue>(&bytes, version),
                    "TransactionLogKey" => both_ways::<transaction_log_key::TransactionLogKey>(&bytes, version),
                    "TransactionLogValue" => both_ways::<transaction_log_value::TransactionLogValue>(&bytes, version),
                    name => panic!("{name} has no test"),
                }
            }
        }
    }
}

fn both_ways<M: Message>(bytes: &Bytes, version: i16) {
    let message = M::decode_all(bytes.clone(), version).unwrap_or_else(|error| panic!("{}: {error}", M::NAME));
    let mut again = BytesMut::new();
    message.encode(&mut again, version).unwrap_or_else(|error| panic!("{}: {error}", M::NAME));
    assert_eq!(again, bytes, "{} v{version}", M::NAME);
}

fn theirs_both_ways<M: Decodable + Encodable>(bytes: &Bytes, version: i16) {
    let mut again = BytesMut::new();
    let message = M::decode(&mut bytes.clone(), version).expect("theirs reads it");
    message.encode(&mut again, version).expect("theirs writes it");
    assert_eq!(again, bytes);
}
