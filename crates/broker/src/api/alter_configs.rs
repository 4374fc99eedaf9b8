//! AlterConfigs (key 33), versions 0 to 2: replaces all that was set for a topic. What is not named goes back to its default.
//!
//! The broker's own settings are fixed when it starts. - 1: none. 2: flexible.

use std::collections::BTreeMap;

use atonce_protocol::messages::alter_configs_request::AlterConfigsRequest;
use atonce_protocol::messages::alter_configs_response::{AlterConfigsResourceResponse, AlterConfigsResponse};
use atonce_protocol::{ApiKey, ErrorCode};

use super::describe_configs::{BROKER, TOPIC};
use super::{Api, Call, Reply};
use crate::engine::{Engine, Refusal};

pub(super) const API: Api =
    Api { key: ApiKey::AlterConfigs, versions: 0..=2, run: |incoming| incoming.on_engine(handle) };

fn handle(engine: &mut Engine, _call: &Call, request: AlterConfigsRequest, reply: Reply<AlterConfigsResponse>) {
    let mut responses = Vec::new();
    for resource in request.resources {
        let mut configs = BTreeMap::new();
        let mut altered = Ok(());
        for config in resource.configs {
            match config.value {
                Some(value) => {
                    configs.insert(config.name, value);
                }
                None => altered = Err(null_value(&config.name)),
            }
        }
        let altered = altered
            .and_then(|()| check_type(resource.resource_type))
            .and_then(|()| engine.set_topic_configs(&resource.resource_name, configs, request.validate_only));
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

pub(super) fn null_value(name: &str) -> Refusal {
    Refusal::new(ErrorCode::InvalidRequest, format!("Null value not supported for {name}"))
}

/// Whether such a resource can be altered.
pub(super) fn check_type(resource_type: i8) -> Result<(), Refusal> {
    match resource_type {
        TOPIC => Ok(()),
        BROKER => Err(Refusal::new(
            ErrorCode::InvalidRequest,
            "The broker's settings are fixed when it starts; set them there.",
        )),
        other => Err(Refusal::new(ErrorCode::InvalidRequest, format!("Unsupported resource type: {other}"))),
    }
}
