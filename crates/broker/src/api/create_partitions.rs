//! CreatePartitions (key 37), versions 0 to 3: gives topics more partitions, each for itself.
//!
//! - 1: none. 2: flexible. 3: none. An assignment must name this node alone.

use atonce_protocol::messages::create_partitions_request::{CreatePartitionsRequest, CreatePartitionsTopic};
use atonce_protocol::messages::create_partitions_response::{CreatePartitionsResponse, CreatePartitionsTopicResult};
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call, Reply};
use crate::engine::{Engine, Refusal};
use crate::topic_name;

pub(super) const API: Api =
    Api { key: ApiKey::CreatePartitions, versions: 0..=3, run: |incoming| incoming.on_engine(handle) };

fn handle(engine: &mut Engine, call: &Call, request: CreatePartitionsRequest, reply: Reply<CreatePartitionsResponse>) {
    let node_id = call.shared.settings.node_id;
    let results = request
        .topics
        .into_iter()
        .map(|topic| {
            let (code, message) = match add(engine, node_id, &topic, request.validate_only) {
                Ok(()) => (ErrorCode::None, None),
                Err(refusal) => (refusal.code, Some(refusal.message)),
            };
            CreatePartitionsTopicResult {
                name: topic.name,
                error_code: code.to_i16(),
                error_message: message,
                ..Default::default()
            }
        })
        .collect();
    engine.answer(reply, CreatePartitionsResponse { results, ..Default::default() });
}

fn add(engine: &mut Engine, node_id: i32, topic: &CreatePartitionsTopic, validate_only: bool) -> Result<(), Refusal> {
    let found = engine.topic(&topic.name).ok_or_else(|| Refusal::of(ErrorCode::UnknownTopicOrPartition))?;
    if topic_name::is_internal(&topic.name) {
        let message = format!("{} belongs to the broker.", topic.name);
        return Err(Refusal::new(ErrorCode::TopicAuthorizationFailed, message));
    }
    if topic.count <= found.partitions {
        return Err(Refusal::new(
            ErrorCode::InvalidPartitions,
            format!(
                "The topic {} currently has {} partition(s); {} would not be an increase.",
                topic.name, found.partitions, topic.count
            ),
        ));
    }
    if let Some(assignments) = &topic.assignments {
        let is_whole = i32::try_from(assignments.len()) == Ok(topic.count - found.partitions);
        if !is_whole || assignments.iter().any(|assignment| assignment.broker_ids != [node_id]) {
            return Err(Refusal::new(
                ErrorCode::InvalidReplicaAssignment,
                format!("Each new partition is to be assigned to broker {node_id} alone."),
            ));
        }
    }
    engine.add_partitions(&topic.name, topic.count, validate_only)
}
