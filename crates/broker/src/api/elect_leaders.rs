//! ElectLeaders (key 43), versions 0 to 2: has partitions led by their preferred replica. The only replica leads already.
//!
//! - 1: the kind of election. 2: flexible. Asked for all partitions, it names every topic, and none of its partitions.

use atonce_protocol::messages::elect_leaders_request::ElectLeadersRequest;
use atonce_protocol::messages::elect_leaders_response::{ElectLeadersResponse, PartitionResult, ReplicaElectionResult};
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call};
use crate::engine::Refusal;

pub(super) const API: Api =
    Api { key: ApiKey::ElectLeaders, versions: 0..=2, run: |incoming| incoming.in_place(handle) };

/// The replica that should lead does; and: any replica does.
const ELECTION_TYPES: [i8; 2] = [0, 1];

async fn handle(call: Call, request: ElectLeadersRequest) -> ElectLeadersResponse {
    let topics = call.shared.directory.topics();
    let is_known_type = ELECTION_TYPES.contains(&request.election_type);
    let verdict = |topic: &str, partition: i32| {
        if !is_known_type {
            let message = format!("Unknown election type {}", request.election_type);
            return Refusal::new(ErrorCode::InvalidRequest, message);
        }
        match topics.by_name(topic) {
            None => Refusal::new(ErrorCode::UnknownTopicOrPartition, format!("No such topic as {topic}")),
            Some(found) if found.partition(partition).is_none() => {
                Refusal::new(ErrorCode::UnknownTopicOrPartition, format!("No such partition as {topic}-{partition}"))
            }
            Some(_) => Refusal::of(ErrorCode::ElectionNotNeeded),
        }
    };
    let asks_for_all = request.topic_partitions.is_none() && is_known_type;
    let is_empty = request.topic_partitions.as_ref().is_some_and(Vec::is_empty);
    // Asked for all, Kafka names every topic, and in it the partitions whose leader changed: none.
    let all = topics
        .iter()
        .filter(|_| asks_for_all)
        .map(|topic| ReplicaElectionResult { topic: topic.name.as_str().to_owned(), ..Default::default() });
    let named = request.topic_partitions.unwrap_or_default().into_iter().map(|asked| ReplicaElectionResult {
        partition_result: asked
            .partitions
            .iter()
            .map(|partition| {
                let verdict = verdict(&asked.topic, *partition);
                PartitionResult {
                    partition_id: *partition,
                    error_code: verdict.code.to_i16(),
                    error_message: Some(verdict.message),
                    ..Default::default()
                }
            })
            .collect(),
        topic: asked.topic,
        ..Default::default()
    });
    let replica_election_results = all.chain(named).collect();
    let error_code =
        if is_known_type || is_empty || call.version < 1 { ErrorCode::None } else { ErrorCode::InvalidRequest };
    ElectLeadersResponse { error_code: error_code.to_i16(), replica_election_results, ..Default::default() }
}
