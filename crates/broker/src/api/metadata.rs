//! Metadata (key 3), versions 0 to 13: the node, and topics with their partitions.
//!
//! A topic that is not there is made, when the client lets us and `auto.create.topics.enable` does too. The answer is
//! UNKNOWN_TOPIC_OR_PARTITION all the same, as Kafka's, which makes it afterwards; here the next question finds it.
//!
//! - 0: an empty list means all topics. 1: null does, an empty list means none; controller. 2: cluster id.
//! - 4: the client may forbid that topics are made. 5: offline replicas. 7: leader epochs. 8: authorised operations.
//! - 9: flexible. 10: topic ids, in answers. 12: topic ids, in questions, where a name beside one does not count: Java's clients send an
//!   empty one along. 13: an error for the whole.

use atonce_kernel::Uuid;
use atonce_protocol::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use atonce_protocol::messages::metadata_response::{
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call};
use crate::directory::Topic;
use crate::{LEADER_EPOCH, topic_name};

pub(super) const API: Api = Api { key: ApiKey::Metadata, versions: 0..=13, run: |incoming| incoming.in_place(handle) };

/// What one may do to a topic, where nobody is denied anything: a bit for each of read, write, create, delete, alter,
/// describe, describe configs and alter configs.
pub(super) const ALL_TOPIC_OPERATIONS: i32 = 0b1101_1111_1000;
/// The same for the cluster.
pub(super) const ALL_CLUSTER_OPERATIONS: i32 = 0b1_1111_1010_0000;
/// Nobody asked.
pub(super) const OPERATIONS_NOT_ASKED: i32 = i32::MIN;

async fn handle(call: Call, request: MetadataRequest) -> MetadataResponse {
    let may_create = call.shared.settings.auto_create_topics && (call.version < 4 || request.allow_auto_topic_creation);
    let operations =
        if request.include_topic_authorized_operations { ALL_TOPIC_OPERATIONS } else { OPERATIONS_NOT_ASKED };
    let asked = request.topics.filter(|topics| call.version > 0 || !topics.is_empty());
    let topics = match asked {
        None => call.shared.directory.topics().iter().map(|topic| describe(&call, topic, operations)).collect(),
        Some(asked) if (10..12).contains(&call.version) && asked.iter().any(is_by_id) => return refuse(asked),
        Some(asked) if asked.iter().any(is_nothing) => return refuse_nothing(),
        Some(mut asked) => {
            super::without_repetition(&mut asked, |topic| (topic.name.clone(), topic.topic_id));
            let mut found = Vec::new();
            for topic in asked {
                found.push(match topic.name {
                    // Where both are given, the id is meant.
                    Some(name) if topic.topic_id == Uuid::ZERO => by_name(&call, name, may_create, operations).await,
                    Some(_) | None => by_id(&call, topic.topic_id, operations),
                });
            }
            found
        }
    };
    let (host, port) = call.peer.advertised.clone();
    let node_id = call.shared.settings.node_id;
    MetadataResponse {
        brokers: vec![MetadataResponseBroker { node_id, host, port: i32::from(port), ..Default::default() }],
        cluster_id: Some(call.shared.cluster_id.clone()),
        controller_id: node_id,
        topics,
        cluster_authorized_operations: if request.include_cluster_authorized_operations {
            ALL_CLUSTER_OPERATIONS
        } else {
            OPERATIONS_NOT_ASKED
        },
        ..Default::default()
    }
}

fn is_by_id(topic: &MetadataRequestTopic) -> bool {
    topic.name.is_none() || topic.topic_id != Uuid::ZERO
}

/// Versions 10 and 11 have ids, and no answer to who asks by them.
fn refuse(asked: Vec<MetadataRequestTopic>) -> MetadataResponse {
    let topics = asked.into_iter().map(|topic| MetadataResponseTopic {
        error_code: ErrorCode::InvalidRequest.to_i16(),
        name: Some(topic.name.unwrap_or_default()),
        topic_id: topic.topic_id,
        ..Default::default()
    });
    MetadataResponse { topics: topics.collect(), ..Default::default() }
}

fn is_nothing(topic: &MetadataRequestTopic) -> bool {
    topic.name.is_none() && topic.topic_id == Uuid::ZERO
}

/// A topic without name and id: Kafka's code fails inside, which only version 13 has a place for.
fn refuse_nothing() -> MetadataResponse {
    MetadataResponse { error_code: ErrorCode::UnknownServerError.to_i16(), ..Default::default() }
}

async fn by_name(call: &Call, name: String, may_create: bool, operations: i32) -> MetadataResponseTopic {
    if let Some(topic) = call.shared.directory.topics().by_name(&name) {
        return describe(call, topic, operations);
    }
    let missing = |code: ErrorCode| MetadataResponseTopic {
        error_code: code.to_i16(),
        name: Some(name.clone()),
        is_internal: topic_name::is_internal(&name),
        topic_authorized_operations: operations,
        ..Default::default()
    };
    if topic_name::check(&name).is_err() {
        return missing(ErrorCode::InvalidTopicException);
    }
    if !may_create {
        return missing(ErrorCode::UnknownTopicOrPartition);
    }
    let made = call.on_engine({
        let name = name.clone();
        move |engine| engine.create_topic_by_itself(&name)
    });
    match made.await {
        Some(Err(code)) => missing(code),
        Some(Ok(())) | None => missing(ErrorCode::UnknownTopicOrPartition),
    }
}

fn by_id(call: &Call, id: Uuid, operations: i32) -> MetadataResponseTopic {
    match call.shared.directory.topics().by_id(id) {
        Some(topic) => describe(call, topic, operations),
        None => MetadataResponseTopic {
            error_code: ErrorCode::UnknownTopicId.to_i16(),
            topic_id: id,
            // A null name is for versions that have it.
            name: if call.version >= 12 { None } else { Some(String::new()) },
            topic_authorized_operations: operations,
            ..Default::default()
        },
    }
}

fn describe(call: &Call, topic: &Topic, operations: i32) -> MetadataResponseTopic {
    let node_id = call.shared.settings.node_id;
    let partitions = topic
        .partitions
        .iter()
        .map(|partition| {
            // A partition that is offline has no leader, as after the failure of a log folder at Kafka's.
            let is_offline = partition.reader.damage().is_some();
            let code = if is_offline { ErrorCode::LeaderNotAvailable } else { ErrorCode::None };
            MetadataResponsePartition {
                error_code: code.to_i16(),
                partition_index: partition.topic_partition.partition,
                leader_id: if is_offline { -1 } else { node_id },
                leader_epoch: LEADER_EPOCH,
                replica_nodes: vec![node_id],
                isr_nodes: vec![node_id],
                offline_replicas: if is_offline { vec![node_id] } else { Vec::new() },
                ..Default::default()
            }
        })
        .collect();
    MetadataResponseTopic {
        name: Some(topic.name.as_str().to_owned()),
        topic_id: topic.id,
        is_internal: topic.is_internal,
        partitions,
        topic_authorized_operations: operations,
        ..Default::default()
    }
}
