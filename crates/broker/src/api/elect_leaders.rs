//! ElectLeaders (key 43), versions 0 to 2: has partitions led by their preferred replica. The only replica leads already.
//!
//! - 1: the kind of election. 2: flexible. Asked for all partitions, it answers with those whose leader changed: none.

use atonce_protocol::messages::elect_leaders_request::ElectLeadersRequest;
use atonce_protocol::messages::elect_leaders_response::{ElectLeadersResponse, PartitionResult, ReplicaElectionResult};
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call};

pub(super) const API: Api =
    Api { key: ApiKey::ElectLeaders, versions: 0..=2, run: |incoming| incoming.in_place(handle) };

async fn handle(call: Call, request: ElectLeadersRequest) -> ElectLeadersResponse {
    let topics = call.shared.directory.topics();
    let replica_election_results = request
        .topic_partitions
        .unwrap_or_default()
        .into_iter()
        .map(|asked| ReplicaElectionResult {
            partition_result: asked
                .partitions
                .iter()
                .map(|partition| {
                    let code = match topics.partition(&asked.topic, *partition) {
                        Some(_) => ErrorCode::ElectionNotNeeded,
                        None => ErrorCode::UnknownTopicOrPartition,
                    };
                    PartitionResult {
                        partition_id: *partition,
                        error_code: code.to_i16(),
                        error_message: Some(format!("{}.", code.message())),
                        ..Default::default()
                    }
                })
                .collect(),
            topic: asked.topic,
            ..Default::default()
        })
        .collect();
    ElectLeadersResponse { replica_election_results, ..Default::default() }
}
