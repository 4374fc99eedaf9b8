//! IncrementalAlterConfigs (key 44), versions 0 and 1: sets, deletes, or changes lists of a topic's settings; all else stays.
//!
//! The broker's own settings are fixed when it starts. - 1: flexible.

use std::collections::{BTreeMap, BTreeSet};

use atonce_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use atonce_protocol::messages::incremental_alter_configs_response::{
    AlterConfigsResourceResponse, IncrementalAlterConfigsResponse,
};
use atonce_protocol::{ApiKey, ErrorCode};

use super::alter_configs::{check_type, null_value};
use super::{Api, Call, Reply};
use crate::configuration::{self, TOPIC_KEYS, ValueKind};
use crate::engine::{Engine, Refusal};

pub(super) const API: Api =
    Api { key: ApiKey::IncrementalAlterConfigs, versions: 0..=1, run: |incoming| incoming.on_engine(handle) };

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

fn handle(
    engine: &mut Engine,
    _call: &Call,
    request: IncrementalAlterConfigsRequest,
    reply: Reply<IncrementalAlterConfigsResponse>,
) {
    let mut responses = Vec::new();
    for resource in request.resources {
        let (code, message) = match alter(engine, &resource, request.validate_only) {
            Ok(()) => (ErrorCode::None, None),
            Err(refusal) => (refusal.code, Some(refusal.message)),
        };
        responses.push(AlterConfigsResourceResponse {
            error_code: code.to_i16(),
            error_message: message,
            resource_type: resource.resource_type,
            resource_name: resource.resource_name,
            ..Default::default()
        });
    }
    engine.answer(reply, IncrementalAlterConfigsResponse { responses, ..Default::default() });
}

fn alter(engine: &mut Engine, resource: &AlterConfigsResource, validate_only: bool) -> Result<(), Refusal> {
    check_type(resource.resource_type)?;
    let topic = engine.topic(&resource.resource_name).ok_or_else(|| Refusal::of(ErrorCode::UnknownTopicOrPartition))?;
    let mut configs = topic.configs;
    let mut seen = BTreeSet::new();
    for change in &resource.configs {
        if !seen.insert(&change.name) {
            let message = format!("Error due to duplicate config keys: {}", change.name);
            return Err(Refusal::new(ErrorCode::InvalidRequest, message));
        }
        apply(&mut configs, change)?;
    }
    engine.set_topic_configs(&resource.resource_name, configs, validate_only)
}

fn apply(configs: &mut BTreeMap<String, String>, change: &AlterableConfig) -> Result<(), Refusal> {
    let invalid = |message: String| Refusal::new(ErrorCode::InvalidConfig, message);
    let key = configuration::find(TOPIC_KEYS, &change.name).map_err(|error| invalid(error.to_string()))?;
    if change.config_operation == DELETE {
        configs.remove(key.name);
        return Ok(());
    }
    let value = change.value.clone().ok_or_else(|| null_value(key.name))?;
    let value = match change.config_operation {
        SET => value,
        APPEND | SUBTRACT => {
            if !matches!(key.kind, ValueKind::SomeOf(_)) {
                return Err(invalid(format!("Can't append to or subtract from {}: it is no list.", key.name)));
            }
            let current = configs.get(key.name).map_or(key.default, String::as_str);
            let mut words: Vec<&str> = current.split(',').filter(|word| !word.is_empty()).collect();
            for word in value.split(',').filter(|word| !word.is_empty()) {
                words.retain(|found| *found != word);
                if change.config_operation == APPEND {
                    words.push(word);
                }
            }
            words.join(",")
        }
        other => return Err(Refusal::new(ErrorCode::InvalidRequest, format!("Unknown operation type {other}"))),
    };
    configs.insert(key.name.to_owned(), value);
    Ok(())
}
