//! AlterPartitionReassignments (key 45), versions 0 and 1: moves partitions to other brokers. There is one, where all are.
//!
//! Asked to move a partition to where it is, all is done; to cancel, there is nothing to cancel; to any other broker, there is
//! no such broker. - 1: whether the replication factor may change; it cannot.

use std::collections::BTreeSet;

use atonce_protocol::messages::alter_partition_reassignments_request::{
    AlterPartitionReassignmentsRequest, ReassignablePartition,
};
use atonce_protocol::messages::alter_partition_reassignments_response::{
    AlterPartitionReassignmentsResponse, ReassignablePartitionResponse, ReassignableTopicResponse,
};
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call};
use crate::engine::Refusal;

pub(super) const API: Api =
    Api { key: ApiKey::AlterPartitionReassignments, versions: 0..=1, run: |incoming| incoming.in_place(handle) };

async fn handle(call: Call, request: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse {
    let responses = request
        .topics
        .into_iter()
        .map(|topic| ReassignableTopicResponse {
            partitions: topic
                .partitions
                .iter()
                .map(|partition| match check(&call, &topic.name, partition) {
                    Ok(()) => ReassignablePartitionResponse {
                        partition_index: partition.partition_index,
                        error_message: None,
                        ..Default::default()
                    },
                    Err(refusal) => ReassignablePartitionResponse {
                        partition_index: partition.partition_index,
                        error_code: refusal.code.to_i16(),
                        error_message: Some(refusal.message).filter(|message| !message.is_empty()),
                        ..Default::default()
                    },
                })
                .collect(),
            name: topic.name,
            ..Default::default()
        })
        .collect();
    AlterPartitionReassignmentsResponse {
        allow_replication_factor_change: request.allow_replication_factor_change,
        error_message: None,
        responses,
        ..Default::default()
    }
}

fn check(call: &Call, topic: &str, asked: &ReassignablePartition) -> Result<(), Refusal> {
    let unknown = |message| Refusal::new(ErrorCode::UnknownTopicOrPartition, message);
    let topics = call.shared.directory.topics();
    let found = topics.by_name(topic).ok_or_else(|| unknown(format!("Unable to find a topic named {topic}.")))?;
    let index = asked.partition_index;
    found.partition(index).ok_or_else(|| unknown(format!("Unable to find partition {topic}:{index}.")))?;
    let Some(replicas) = &asked.replicas else {
        return Err(Refusal::new(ErrorCode::NoReassignmentInProgress, ""));
    };
    check_replicas(call.shared.settings.node_id, replicas)
}

/// Whether replicas may be on these brokers, in Kafka's words if not.
pub(super) fn check_replicas(node_id: i32, replicas: &[i32]) -> Result<(), Refusal> {
    let what = "The manual partition assignment includes";
    let invalid = |message: String| Err(Refusal::new(ErrorCode::InvalidReplicaAssignment, message));
    if replicas.is_empty() {
        return invalid(format!("{what} an empty replica list."));
    }
    let mut sorted = replicas.to_vec();
    sorted.sort_unstable();
    let mut seen = BTreeSet::new();
    for broker in sorted {
        if broker != node_id {
            return invalid(format!("{what} broker {broker}, but no such broker is registered."));
        }
        if !seen.insert(broker) {
            return invalid(format!("{what} the broker {broker} more than once."));
        }
    }
    Ok(())
}
