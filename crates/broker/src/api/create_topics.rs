//! CreateTopics (key 19), versions 2 to 7: makes topics, each for itself; one that cannot be made does not hinder the next.
//!
//! One node keeps one copy: a replication factor of -1 or 1, or an assignment that names this node alone.
//!
//! - 4: partitions and replication factor may be -1, for the default. 5: flexible; the answer tells configuration.
//! - 6: none. 7: topic ids.

use std::collections::BTreeMap;

use atonce_protocol::messages::create_topics_request::{CreatableTopic, CreateTopicsRequest};
use atonce_protocol::messages::create_topics_response::{
    CreatableTopicConfigs, CreatableTopicResult, CreateTopicsResponse,
};
use atonce_protocol::{ApiKey, ErrorCode};

use super::describe_configs::topic_entries;
use super::{Api, Call, Reply};
use crate::configuration::Values;
use crate::engine::{Engine, NewTopic, Refusal};

pub(super) const API: Api =
    Api { key: ApiKey::CreateTopics, versions: 2..=7, run: |incoming| incoming.on_engine(handle) };

fn handle(engine: &mut Engine, call: &Call, request: CreateTopicsRequest, reply: Reply<CreateTopicsResponse>) {
    let mut times_named = BTreeMap::new();
    for topic in &request.topics {
        *times_named.entry(topic.name.clone()).or_insert(0) += 1;
    }
    let mut topics = Vec::new();
    for topic in request.topics {
        match times_named.get(&topic.name) {
            Some(1) => topics.push(create(engine, call, topic, request.validate_only)),
            // Named twice: refused once, whatever stands in either.
            Some(_) => {
                times_named.remove(&topic.name);
                topics.push(refuse(topic.name, Refusal::new(ErrorCode::InvalidRequest, "Duplicate topic name.")));
            }
            None => {}
        }
    }
    engine.answer(reply, CreateTopicsResponse { topics, ..Default::default() });
}

fn create(engine: &mut Engine, call: &Call, topic: CreatableTopic, validate_only: bool) -> CreatableTopicResult {
    let new = match engine.check_new_name(&topic.name).and_then(|()| check(call, &topic)) {
        Ok(new) => new,
        Err(refusal) => return refuse(topic.name, refusal),
    };
    let (partitions, configs) = (new.partitions, new.configs.clone());
    let made =
        if validate_only { engine.check_new_topic(&new).map(|()| None) } else { engine.create_topic(new).map(Some) };
    match made {
        Err(refusal) => refuse(topic.name, refusal),
        Ok(id) => CreatableTopicResult {
            name: topic.name,
            error_message: None,
            // Kafka draws one, also if it makes nothing.
            topic_id: id.unwrap_or_else(|| engine.uuid()),
            num_partitions: partitions,
            replication_factor: 1,
            configs: (call.version >= 5).then(|| {
                let dynamic = engine.dynamic();
                topic_entries(Values::new(&engine.settings, &dynamic), &configs)
                    .into_iter()
                    .map(|entry| CreatableTopicConfigs {
                        name: entry.name.to_owned(),
                        value: entry.value,
                        read_only: entry.is_read_only,
                        config_source: entry.source as i8,
                        is_sensitive: false,
                        ..Default::default()
                    })
                    .collect()
            }),
            ..Default::default()
        },
    }
}

fn check(call: &Call, topic: &CreatableTopic) -> Result<NewTopic, Refusal> {
    let settings = &call.shared.settings;
    let partitions = if topic.assignments.is_empty() {
        let defaulted = topic.num_partitions == -1;
        let invalid_factor = |message: String| Err(Refusal::new(ErrorCode::InvalidReplicationFactor, message));
        if topic.num_partitions == 0 || topic.num_partitions < -1 {
            // Said before the replication factor is looked at.
            return Ok(NewTopic {
                name: topic.name.clone(),
                partitions: topic.num_partitions,
                configs: BTreeMap::new(),
            });
        }
        if topic.replication_factor == 0 || topic.replication_factor < -1 {
            return invalid_factor(
                "Replication factor must be larger than 0, or -1 to use the default value.".to_owned(),
            );
        }
        if topic.replication_factor > 1 {
            return invalid_factor(format!(
                "Unable to replicate the partition {} time(s): The target replication factor of {} cannot be reached \
                 because only 1 broker(s) are registered.",
                topic.replication_factor, topic.replication_factor
            ));
        }
        if defaulted { settings.partitions_default } else { topic.num_partitions }
    } else {
        if topic.num_partitions != -1 || topic.replication_factor != -1 {
            return Err(Refusal::new(
                ErrorCode::InvalidRequest,
                "Both numPartitions or replicationFactor and an assignment are given: only one may be.",
            ));
        }
        let mut indexes: Vec<i32> = topic.assignments.iter().map(|assignment| assignment.partition_index).collect();
        indexes.sort_unstable();
        let is_gapless = indexes.iter().enumerate().all(|(place, index)| i32::try_from(place) == Ok(*index));
        let is_here = topic.assignments.iter().all(|assignment| assignment.broker_ids == [settings.node_id]);
        if !(is_gapless && is_here) {
            return Err(Refusal::new(
                ErrorCode::InvalidReplicaAssignment,
                format!("Partitions are to be numbered from 0 and assigned to broker {} alone.", settings.node_id),
            ));
        }
        i32::try_from(indexes.len()).unwrap_or(i32::MAX)
    };
    let mut configs = BTreeMap::new();
    for config in &topic.configs {
        let Some(value) = &config.value else {
            return Err(Refusal::new(
                ErrorCode::InvalidConfig,
                format!("Null value not supported for topic configs: {}", config.name),
            ));
        };
        configs.insert(config.name.clone(), value.clone());
    }
    Ok(NewTopic { name: topic.name.clone(), partitions, configs })
}

fn refuse(name: String, refusal: Refusal) -> CreatableTopicResult {
    CreatableTopicResult {
        name,
        error_code: refusal.code.to_i16(),
        error_message: Some(refusal.message),
        configs: Some(Vec::new()),
        ..Default::default()
    }
}
