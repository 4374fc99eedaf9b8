//! AlterConfigs (key 33), versions 0 to 2: replaces all that was set for a topic, a broker, a group or client metrics. What is
//! not named goes back to its default.
//!
//! - 1: none. 2: flexible.

use std::collections::BTreeMap;

use atonce_protocol::ApiKey;
use atonce_protocol::ErrorCode;
use atonce_protocol::messages::alter_configs_request::{AlterConfigsRequest, AlterConfigsResource};
use atonce_protocol::messages::alter_configs_response::{AlterConfigsResourceResponse, AlterConfigsResponse};

use super::describe_configs::LOGGER;
use super::{Api, Call, Reply};
use crate::engine::{ConfigOwner, Engine, Refusal};

pub(super) const API: Api =
    Api { key: ApiKey::AlterConfigs, versions: 0..=2, run: |incoming| incoming.on_engine(handle) };

fn handle(engine: &mut Engine, _call: &Call, request: AlterConfigsRequest, reply: Reply<AlterConfigsResponse>) {
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
    engine.answer(reply, AlterConfigsResponse { responses, ..Default::default() });
}

fn alter(engine: &mut Engine, resource: &AlterConfigsResource, validate_only: bool) -> Result<(), Refusal> {
    // Levels of loggers are changed one by one only.
    let owner = if resource.resource_type == LOGGER {
        Err(unknown_type(LOGGER))
    } else {
        ConfigOwner::of(engine, resource.resource_type, &resource.resource_name)
    }?;
    let mut configs = BTreeMap::new();
    for config in &resource.configs {
        let value = config.value.clone().ok_or_else(|| null_values([config.name.as_str()]))?;
        if configs.insert(config.name.clone(), value).is_some() {
            return Err(duplicate_keys());
        }
    }
    engine.set_configs(&owner, configs, validate_only)
}

/// Those that are named more than once.
pub(super) fn repeated<'a>(names: impl Iterator<Item = (i8, &'a str)>) -> std::collections::BTreeSet<(i8, String)> {
    let mut seen = std::collections::BTreeSet::new();
    names.filter(|name| !seen.insert(*name)).map(|(kind, name)| (kind, name.to_owned())).collect()
}

pub(super) fn named_twice() -> Refusal {
    Refusal::new(ErrorCode::InvalidRequest, "Each resource must appear at most once.")
}

pub(super) fn duplicate_keys() -> Refusal {
    Refusal::new(ErrorCode::InvalidRequest, "Error due to duplicate config keys")
}

pub(super) fn null_values<'a>(names: impl IntoIterator<Item = &'a str>) -> Refusal {
    let names: Vec<&str> = names.into_iter().collect();
    Refusal::new(ErrorCode::InvalidRequest, format!("Null value not supported for : {}", names.join(",")))
}

pub(super) fn unknown_type(resource_type: i8) -> Refusal {
    Refusal::new(ErrorCode::InvalidRequest, format!("Unknown resource type {resource_type}"))
}
