//! CreatePartitions (key 37), versions 0 to 3: gives topics more partitions, each for itself.
//!
//! - 1: none. 2: flexible. 3: none. An assignment must name this node alone.

use atonce_protocol::messages::create_partitions_request::{CreatePartitionsRequest, CreatePartitionsTopic};
use atonce_protocol::messages::create_partitions_response::{CreatePartitionsResponse, CreatePartitionsTopicResult};
use atonce_protocol::{ApiKey, ErrorCode};

use super::alter_partition_reassignments::check_replicas;
use super::{Api, Call, Reply};
use crate::engine::{Engine, Refusal};
use crate::topic_name;

pub(super) const API: Api =
    Api { key: ApiKey::CreatePartitions, versions: 0..=3, run: |incoming| incoming.on_engine(handle) };

fn handle(engine: &mut Engine, call: &Call, request: CreatePartitionsRequest, reply: Reply<CreatePartitionsResponse>) {
    let node_id = call.shared.settings.node_id;
    let named_twice = super::named_twice(request.topics.iter().map(|topic| topic.name.clone()));
    let mut topics = request.topics;
    super::without_repetition(&mut topics, |topic| topic.name.clone());
    let results = topics
        .into_iter()
        .map(|topic| {
            let added = if named_twice.contains(&topic.name) {
                Err(Refusal::new(ErrorCode::InvalidRequest, "Duplicate topic name."))
            } else {
                add(engine, node_id, &topic, request.validate_only)
            };
            let (code, message) = match added {
                Ok(()) => (ErrorCode::None, None),
                Err(refusal) => (refusal.code, Some(refusal.message)),
            };
            CreatePartitionsTopicResult {
                name: topic.name,
                error_code: code.to_i16(),
                // As Kafka, which has no words for that one.
                error_message: message.filter(|_| code != ErrorCode::UnknownTopicOrPartition),
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
    let invalid = |message| Err(Refusal::new(ErrorCode::InvalidPartitions, message));
    if topic.count == found.partitions {
        return invalid(format!("Topic already has {} partition(s).", found.partitions));
    }
    if topic.count < found.partitions {
        return invalid(format!(
            "The topic {} currently has {} partition(s); {} would not be an increase.",
            topic.name, found.partitions, topic.count
        ));
    }
    if let Some(assignments) = &topic.assignments {
        let additional = topic.count - found.partitions;
        if i32::try_from(assignments.len()) != Ok(additional) {
            let message = format!(
                "Attempted to add {additional} additional partition(s), but only {} assignment(s) were specified.",
                assignments.len()
            );
            return Err(Refusal::new(ErrorCode::InvalidReplicaAssignment, message));
        }
        for assignment in assignments {
            check_replicas(node_id, &assignment.broker_ids)?;
        }
    }
    engine.add_partitions(&topic.name, topic.count, validate_only)
}
