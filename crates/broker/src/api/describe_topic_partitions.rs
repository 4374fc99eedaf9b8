//! DescribeTopicPartitions (key 75), version 0: partitions of topics, a page at a time.
//!
//! Topics come sorted by name; a cursor names the partition that the next page begins with.

use atonce_protocol::messages::describe_topic_partitions_request::DescribeTopicPartitionsRequest;
use atonce_protocol::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponse, DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
};
use atonce_protocol::{ApiKey, ErrorCode};

use super::metadata::ALL_TOPIC_OPERATIONS;
use super::{Api, Call};
use crate::{LEADER_EPOCH, topic_name};

pub(super) const API: Api =
    Api { key: ApiKey::DescribeTopicPartitions, versions: 0..=0, run: |incoming| incoming.in_place(handle) };

/// Partitions in one answer, whatever was asked for (Kafka: `max.request.partition.size.limit`).
const PARTITIONS_MAX: usize = 2000;

async fn handle(call: Call, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse {
    let directory = call.shared.directory.topics();
    let asks_for_all = request.topics.is_empty();
    let mut names: Vec<String> = if asks_for_all {
        directory.iter().map(|topic| topic.name.as_str().to_owned()).collect()
    } else {
        request.topics.into_iter().map(|topic| topic.name).collect()
    };
    names.sort();
    names.dedup();
    if let Some(cursor) = &request.cursor
        && (cursor.partition_index < 0 || (!asks_for_all && !names.contains(&cursor.topic_name)))
    {
        return refuse(names);
    }
    let (first_topic, first_partition) =
        request.cursor.map_or((String::new(), 0), |cursor| (cursor.topic_name, cursor.partition_index.max(0)));
    let mut room = usize::try_from(request.response_partition_limit).unwrap_or(0).clamp(1, PARTITIONS_MAX);
    let mut response = DescribeTopicPartitionsResponse::default();
    let node_id = call.shared.settings.node_id;
    let mut names = names.into_iter().filter(|name| *name >= first_topic);
    while let Some(name) = names.next() {
        let Some(topic) = directory.by_name(&name) else {
            let code = match topic_name::check(&name) {
                Ok(()) => ErrorCode::UnknownTopicOrPartition,
                Err(_) => ErrorCode::InvalidTopicException,
            };
            response.topics.push(DescribeTopicPartitionsResponseTopic {
                error_code: code.to_i16(),
                name: Some(name),
                topic_authorized_operations: ALL_TOPIC_OPERATIONS,
                ..Default::default()
            });
            continue;
        };
        let begin = if name == first_topic { usize::try_from(first_partition).unwrap_or(0) } else { 0 };
        // Behind the greatest number Kafka's arithmetic begins anew, and its cursor leads nowhere. Nobody has such partitions.
        let begin_and_room = i32::try_from(begin).ok().zip(i32::try_from(room).ok());
        let wrapped = begin_and_room.map(|(begin, room)| begin.wrapping_add(room)).filter(|end| *end < 0);
        let page: Vec<_> = topic.partitions.iter().skip(begin).take(room).collect();
        let next = begin + page.len();
        room -= page.len();
        response.topics.push(DescribeTopicPartitionsResponseTopic {
            name: Some(name.clone()),
            topic_id: topic.id,
            is_internal: topic.is_internal,
            partitions: page
                .into_iter()
                .map(|partition| {
                    let is_offline = partition.reader.damage().is_some();
                    let code = if is_offline { ErrorCode::LeaderNotAvailable } else { ErrorCode::None };
                    DescribeTopicPartitionsResponsePartition {
                        error_code: code.to_i16(),
                        partition_index: partition.topic_partition.partition,
                        leader_id: if is_offline { -1 } else { node_id },
                        leader_epoch: LEADER_EPOCH,
                        replica_nodes: vec![node_id],
                        isr_nodes: vec![node_id],
                        offline_replicas: if is_offline { vec![node_id] } else { Vec::new() },
                        eligible_leader_replicas: Some(Vec::new()),
                        last_known_elr: Some(Vec::new()),
                        ..Default::default()
                    }
                })
                .collect(),
            topic_authorized_operations: ALL_TOPIC_OPERATIONS,
            ..Default::default()
        });
        let next_partition = if next < topic.partitions.len() { i32::try_from(next).ok() } else { wrapped };
        if let Some(partition_index) = next_partition {
            response.next_cursor = Some(Cursor { topic_name: name, partition_index, ..Default::default() });
            break;
        }
        if room == 0 {
            // Full exactly at a topic's end: the next page begins at the next one, if there is one.
            let next_topic = names.next();
            response.next_cursor = next_topic.map(|topic_name| Cursor { topic_name, ..Default::default() });
            break;
        }
    }
    response
}

/// A cursor that leads nowhere.
fn refuse(names: Vec<String>) -> DescribeTopicPartitionsResponse {
    let topics = names.into_iter().map(|name| DescribeTopicPartitionsResponseTopic {
        error_code: ErrorCode::InvalidRequest.to_i16(),
        name: Some(name),
        ..Default::default()
    });
    DescribeTopicPartitionsResponse { topics: topics.collect(), ..Default::default() }
}
