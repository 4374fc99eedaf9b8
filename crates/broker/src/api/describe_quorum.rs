//! DescribeQuorum (key 55), versions 0 to 2: who keeps the cluster's metadata. This node does, alone.
//!
//! Kafka's metadata is a partition, `__cluster_metadata-0`; ours is the journal, whose length stands for its end.
//!
//! - 1: when each voter was heard of last. 2: directories of voters, messages, and where the nodes listen.

use atonce_protocol::messages::describe_quorum_request::DescribeQuorumRequest;
use atonce_protocol::messages::describe_quorum_response::{
    DescribeQuorumResponse, Listener, Node, PartitionData, ReplicaState, TopicData,
};
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call};
use crate::LEADER_EPOCH;
use crate::engine::wall_clock;
use crate::topic_name::CLUSTER_METADATA;

pub(super) const API: Api =
    Api { key: ApiKey::DescribeQuorum, versions: 0..=2, run: |incoming| incoming.in_place(handle) };

async fn handle(call: Call, request: DescribeQuorumRequest) -> DescribeQuorumResponse {
    if request.topics.is_empty() {
        return DescribeQuorumResponse::default();
    }
    // Asked for anything besides the one partition there is, Kafka knows none of them.
    let is_known = match request.topics.as_slice() {
        [topic] => match topic.partitions.as_slice() {
            [partition] => topic.topic_name == CLUSTER_METADATA && partition.partition_index == 0,
            _ => false,
        },
        _ => false,
    };
    let end = call.on_engine(|engine| engine.journal_end()).await.unwrap_or(0);
    let topics = request
        .topics
        .into_iter()
        .map(|topic| TopicData {
            partitions: topic
                .partitions
                .iter()
                .map(|asked| match is_known {
                    true => describe(&call, end),
                    false => unknown(asked.partition_index),
                })
                .collect(),
            topic_name: topic.topic_name,
            ..Default::default()
        })
        .collect();
    let (host, port) = call.peer.advertised.clone();
    let listener = Listener { name: "PLAINTEXT".to_owned(), host, port, ..Default::default() };
    let node = Node { node_id: call.shared.settings.node_id, listeners: vec![listener], ..Default::default() };
    let nodes = if call.version >= 2 && is_known { vec![node] } else { Vec::new() };
    DescribeQuorumResponse { topics, nodes, ..Default::default() }
}

fn unknown(partition_index: i32) -> PartitionData {
    let code = ErrorCode::UnknownTopicOrPartition;
    PartitionData {
        partition_index,
        error_code: code.to_i16(),
        error_message: Some(format!("{}.", code.message())),
        ..Default::default()
    }
}

fn describe(call: &Call, end: i64) -> PartitionData {
    let now = if call.version >= 1 { wall_clock().0 } else { -1 };
    PartitionData {
        leader_id: call.shared.settings.node_id,
        leader_epoch: LEADER_EPOCH,
        high_watermark: end,
        current_voters: vec![ReplicaState {
            replica_id: call.shared.settings.node_id,
            log_end_offset: end,
            last_fetch_timestamp: now,
            last_caught_up_timestamp: now,
            ..Default::default()
        }],
        ..Default::default()
    }
}
