//! DescribeProducers (key 61), version 0: what partitions know of their producers, for those who look for hanging transactions.

use atonce_kernel::TopicPartition;
use atonce_protocol::messages::describe_producers_request::DescribeProducersRequest;
use atonce_protocol::messages::describe_producers_response::{
    DescribeProducersResponse, PartitionResponse, ProducerState, TopicResponse,
};
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call, Reply};
use crate::engine::Engine;
use crate::topic_name;

pub(super) const API: Api =
    Api { key: ApiKey::DescribeProducers, versions: 0..=0, run: |incoming| incoming.on_engine_in_turn(handle) };

fn handle(
    engine: &mut Engine,
    _call: &Call,
    request: DescribeProducersRequest,
    reply: Reply<DescribeProducersResponse>,
) {
    let mut topics = request.topics;
    let mut asked = super::FewRepetitions::default();
    for topic in &mut topics {
        topic.partition_indexes.retain(|index| asked.lets_in((topic.name.clone(), *index)));
    }
    let topics = topics
        .into_iter()
        .map(|topic| TopicResponse {
            partitions: topic.partition_indexes.iter().map(|index| describe(engine, &topic.name, *index)).collect(),
            name: topic.name,
            ..Default::default()
        })
        .collect();
    engine.answer(reply, DescribeProducersResponse { topics, ..Default::default() });
}

fn describe(engine: &mut Engine, topic: &str, index: i32) -> PartitionResponse {
    if !engine.has_partition(topic, index) {
        let is_a_name = topic_name::check(topic).is_ok();
        let code = if is_a_name { ErrorCode::UnknownTopicOrPartition } else { ErrorCode::InvalidTopicException };
        return PartitionResponse {
            partition_index: index,
            error_code: code.to_i16(),
            error_message: Some(format!("{}.", code.message())),
            ..Default::default()
        };
    }
    let active_producers = engine
        .storage()
        .producers(&TopicPartition::new(topic, index))
        .into_iter()
        .map(|(id, state)| ProducerState {
            producer_id: id.0,
            producer_epoch: i32::from(state.epoch().0),
            last_sequence: state.last_sequence().0,
            last_timestamp: state.last_timestamp().0,
            coordinator_epoch: state.coordinator_epoch(),
            current_txn_start_offset: state.transaction_first_offset().unwrap_or(-1),
            ..Default::default()
        })
        .collect();
    PartitionResponse { partition_index: index, active_producers, ..Default::default() }
}
