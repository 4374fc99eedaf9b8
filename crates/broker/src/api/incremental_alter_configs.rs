//! IncrementalAlterConfigs (key 44), versions 0 and 1: sets, deletes, or changes lists of settings of topics, brokers, groups
//! and client metrics; all else stays.
//!
//! - 1: flexible.

use std::collections::BTreeSet;

use atonce_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use atonce_protocol::messages::incremental_alter_configs_response::{
    AlterConfigsResourceResponse, IncrementalAlterConfigsResponse,
};
use atonce_protocol::{ApiKey, ErrorCode};

use super::alter_configs::{duplicate_keys, named_twice, null_values, repeated, unknown_type};
use super::describe_configs::{LOGGER, check_broker};
use super::{Api, Call, Reply};
use crate::dynamic::Configs;
use crate::engine::{ConfigOwner, Engine, Refusal};

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
    let repeated = repeated(request.resources.iter().map(|it| (it.resource_type, it.resource_name.as_str())));
    let mut responses = Vec::new();
    for resource in request.resources {
        let altered = if repeated.contains(&(resource.resource_type, resource.resource_name.clone())) {
            Err(named_twice())
        } else {
            alter(engine, &resource, request.validate_only)
        };
        let (code, message) = match altered {
            Ok(()) => (ErrorCode::None, None),
            // Kafka has no words for an operation that there is not.
            Err(refusal) if refusal.code == ErrorCode::UnknownServerError => (refusal.code, None),
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
    let mut seen = BTreeSet::new();
    if resource.configs.iter().any(|change| !seen.insert(&change.name)) {
        return Err(duplicate_keys());
    }
    let null = |change: &&AlterableConfig| change.config_operation != DELETE && change.value.is_none();
    let nulls: Vec<&str> = resource.configs.iter().filter(null).map(|change| change.name.as_str()).collect();
    if !nulls.is_empty() {
        return Err(null_values(nulls));
    }
    if resource.resource_type == LOGGER {
        return alter_loggers(engine, resource);
    }
    if !matches!(resource.resource_type, 2 | 4 | 16 | 32) {
        return Err(unknown_type(resource.resource_type));
    }
    let owner = ConfigOwner::of(engine, resource.resource_type, &resource.resource_name)?;
    let mut configs = engine.configs(&owner);
    for change in &resource.configs {
        apply(engine, &owner, &mut configs, change)?;
    }
    engine.set_configs(&owner, configs, validate_only)
}

/// There are no loggers by name: what is logged is said at the start.
fn alter_loggers(engine: &Engine, resource: &AlterConfigsResource) -> Result<(), Refusal> {
    check_broker(&engine.settings, &resource.resource_name, "Node", ",")?;
    match resource.configs.first() {
        None => Ok(()),
        Some(change) => Err(Refusal::new(ErrorCode::InvalidConfig, format!("Logger {} does not exist!", change.name))),
    }
}

fn apply(engine: &Engine, owner: &ConfigOwner, configs: &mut Configs, change: &AlterableConfig) -> Result<(), Refusal> {
    let name = &change.name;
    let value = change.value.clone().unwrap_or_default();
    match change.config_operation {
        SET => {
            configs.insert(name.clone(), value);
        }
        DELETE => {
            configs.remove(name);
        }
        operation @ (APPEND | SUBTRACT) => {
            if !owner.key(name).is_some_and(|key| key.kind.is_list()) {
                let what = if operation == APPEND { "APPEND" } else { "SUBTRACT" };
                let message = format!("Can't {what} to key {name} because its type is not LIST.");
                return Err(Refusal::new(ErrorCode::InvalidConfig, message));
            }
            let current = configs.get(name).cloned().unwrap_or_else(|| engine.config_default(owner, name));
            let mut words: Vec<&str> = current.split(',').filter(|word| !word.is_empty()).collect();
            for word in value.split(',').filter(|word| !word.is_empty()) {
                if operation == SUBTRACT {
                    words.retain(|found| *found != word);
                } else if !words.contains(&word) {
                    words.push(word);
                }
            }
            configs.insert(name.clone(), words.join(","));
        }
        _ => return Err(Refusal::of(ErrorCode::UnknownServerError)),
    }
    Ok(())
}
