//! The stub for those who read: every group has one member, which gets what it asked for, and every partition has records without an end.

use std::sync::LazyLock;

use atonce_protocol::messages::fetch_request::FetchRequest;
use atonce_protocol::messages::fetch_response::{FetchResponse, FetchableTopicResponse, PartitionData};
use atonce_protocol::messages::join_group_request::JoinGroupRequest;
use atonce_protocol::messages::join_group_response::{JoinGroupResponse, JoinGroupResponseMember};
use atonce_protocol::messages::list_offsets_request::ListOffsetsRequest;
use atonce_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse,
};
use atonce_protocol::messages::offset_fetch_request::OffsetFetchRequest;
use atonce_protocol::messages::offset_fetch_response::{
    OffsetFetchResponse, OffsetFetchResponsePartition, OffsetFetchResponseTopic,
};
use atonce_protocol::messages::sync_group_request::SyncGroupRequest;
use atonce_protocol::messages::sync_group_response::SyncGroupResponse;
use atonce_protocol::records::{BatchBuilder, BatchOptions, set_base_offset};
use bytes::{Bytes, BytesMut};

const MEMBER: &str = "the-only-one";
const RECORDS: i64 = 1_000;
const VALUE_BYTES: usize = 100;

/// A batch as it stands at offset 0: only the offset is another elsewhere, and no checksum has that.
static BATCH: LazyLock<Bytes> = LazyLock::new(|| {
    let mut batch = BatchBuilder::with_capacity(128 << 10);
    for number in 0..RECORDS {
        let key = format!("{number:08}");
        let appended = batch.append(0, Some(key.as_bytes()), Some(&[b'x'; VALUE_BYTES]), []);
        appended.expect("a thousand small records have room in a batch");
    }
    batch.finish(&BatchOptions::default()).expect("a batch of a thousand small records")
});

pub(super) fn join(request: JoinGroupRequest) -> JoinGroupResponse {
    let protocol = request.protocols.into_iter().next().unwrap_or_default();
    JoinGroupResponse {
        generation_id: 1,
        // What kind of group it is only clients newer than librdkafka want to hear, and they can do without.
        protocol_name: Some(protocol.name),
        leader: MEMBER.to_owned(),
        member_id: MEMBER.to_owned(),
        members: vec![JoinGroupResponseMember {
            member_id: MEMBER.to_owned(),
            metadata: protocol.metadata,
            ..Default::default()
        }],
        ..Default::default()
    }
}

pub(super) fn sync(request: SyncGroupRequest) -> SyncGroupResponse {
    SyncGroupResponse {
        assignment: request.assignments.into_iter().next().unwrap_or_default().assignment,
        ..Default::default()
    }
}

/// Nobody has committed anything.
pub(super) fn committed(request: OffsetFetchRequest) -> OffsetFetchResponse {
    let none = |partition_index| OffsetFetchResponsePartition {
        partition_index,
        committed_offset: -1,
        metadata: Some(String::new()),
        ..Default::default()
    };
    let topics = request.topics.unwrap_or_default().into_iter().map(|topic| OffsetFetchResponseTopic {
        name: topic.name,
        partitions: topic.partition_indexes.into_iter().map(none).collect(),
        ..Default::default()
    });
    OffsetFetchResponse { topics: topics.collect(), ..Default::default() }
}

pub(super) fn offsets(request: ListOffsetsRequest) -> ListOffsetsResponse {
    const EARLIEST: i64 = -2;
    let topics = request.topics.into_iter().map(|topic| ListOffsetsTopicResponse {
        name: topic.name,
        partitions: topic
            .partitions
            .into_iter()
            .map(|partition| ListOffsetsPartitionResponse {
                partition_index: partition.partition_index,
                timestamp: -1,
                offset: if partition.timestamp == EARLIEST { 0 } else { i64::MAX / 2 },
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    });
    ListOffsetsResponse { topics: topics.collect(), ..Default::default() }
}

/// The batch that has the offset, whatever that is.
pub(super) fn fetch(request: FetchRequest) -> FetchResponse {
    let data = |partition: i32, offset: i64| {
        let mut records = BytesMut::from(BATCH.as_ref());
        set_base_offset(&mut records, offset / RECORDS * RECORDS);
        PartitionData {
            partition_index: partition,
            high_watermark: i64::MAX / 2,
            last_stable_offset: i64::MAX / 2,
            aborted_transactions: Some(Vec::new()),
            preferred_read_replica: -1,
            records: Some(records.freeze()),
            ..Default::default()
        }
    };
    let responses = request.topics.into_iter().map(|topic| FetchableTopicResponse {
        topic: topic.topic,
        partitions: topic.partitions.into_iter().map(|it| data(it.partition, it.fetch_offset)).collect(),
        ..Default::default()
    });
    FetchResponse { responses: responses.collect(), ..Default::default() }
}

#[cfg(test)]
mod tests {
    use atonce_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
    use atonce_protocol::records::BatchView;

    use super::*;

    #[test]
    fn there_are_records_at_every_offset() {
        for (offset, base) in [(0, 0), (1, 0), (1_000, 1_000), (7_999_999, 7_999_000)] {
            let partitions = vec![FetchPartition { fetch_offset: offset, ..Default::default() }];
            let topics = vec![FetchTopic { partitions, ..Default::default() }];
            let answer = fetch(FetchRequest { topics, ..Default::default() });
            let records = answer.responses[0].partitions[0].records.clone().unwrap();
            let batch = BatchView::new(&records).unwrap();
            assert_eq!((batch.base_offset(), batch.next_offset()), (base, base + RECORDS));
            assert_eq!(batch.records().unwrap().filter_map(Result::ok).count(), 1_000);
        }
    }

    #[test]
    fn the_only_member_gets_what_it_has_asked_for() {
        let joined = join(JoinGroupRequest { protocols: vec![Default::default()], ..Default::default() });
        assert_eq!((joined.leader.as_str(), joined.members.len()), (joined.member_id.as_str(), 1));
        let mut request = SyncGroupRequest { assignments: vec![Default::default()], ..Default::default() };
        request.assignments[0].assignment = Bytes::from_static(b"all");
        assert_eq!(sync(request).assignment, "all");
    }
}
