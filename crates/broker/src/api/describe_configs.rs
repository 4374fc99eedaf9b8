//! DescribeConfigs (key 32), versions 1 to 4: the settings of topics and of the broker, each with where it comes from.
//!
//! - 1: source and synonyms. 2: none. 3: type and documentation. 4: flexible.

use std::collections::BTreeMap;

use atonce_protocol::messages::describe_configs_request::{DescribeConfigsRequest, DescribeConfigsResource};
use atonce_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResponse, DescribeConfigsResult, DescribeConfigsSynonym,
};
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call};
use crate::configuration::{BROKER_KEYS, Key, Settings, TOPIC_KEYS};
use crate::engine::Refusal;
use crate::topic_name;

pub(super) const API: Api =
    Api { key: ApiKey::DescribeConfigs, versions: 1..=4, run: |incoming| incoming.in_place(handle) };

pub(super) const TOPIC: i8 = 2;
pub(super) const BROKER: i8 = 4;

/// Set for this topic.
const SOURCE_TOPIC: i8 = 1;
/// Set when the broker was started.
const SOURCE_BROKER: i8 = 4;
/// Set by nobody.
const SOURCE_DEFAULT: i8 = 5;

/// A setting, and where it comes from.
pub(super) struct Entry {
    pub(super) key: &'static Key,
    pub(super) value: String,
    pub(super) source: i8,
}

/// All settings of a topic for which `given` was set.
pub(super) fn topic_entries(given: &BTreeMap<String, String>) -> impl Iterator<Item = Entry> {
    TOPIC_KEYS.iter().map(|key| match given.get(key.name) {
        Some(value) => Entry { key, value: value.clone(), source: SOURCE_TOPIC },
        None => Entry { key, value: key.default.to_owned(), source: SOURCE_DEFAULT },
    })
}

fn broker_entries(settings: &Settings) -> impl Iterator<Item = Entry> {
    BROKER_KEYS.iter().map(|key| match settings.properties.given(key.name) {
        Some(value) => Entry { key, value: value.to_owned(), source: SOURCE_BROKER },
        None => Entry { key, value: key.default.to_owned(), source: SOURCE_DEFAULT },
    })
}

async fn handle(call: Call, request: DescribeConfigsRequest) -> DescribeConfigsResponse {
    let DescribeConfigsRequest { mut resources, include_synonyms, include_documentation, .. } = request;
    super::without_repetition(&mut resources, |resource| (resource.resource_type, resource.resource_name.clone()));
    let results = resources
        .into_iter()
        .map(|resource| {
            let (code, message, entries) = match entries(&call, &resource) {
                Ok(entries) => (ErrorCode::None, None, entries),
                Err(refusal) => (refusal.code, Some(refusal.message), Vec::new()),
            };
            let configs = entries
                .into_iter()
                .filter(|entry| match &resource.configuration_keys {
                    Some(keys) if !keys.is_empty() => keys.iter().any(|key| key == entry.key.name),
                    Some(_) | None => true,
                })
                .map(|entry| describe(entry, resource.resource_type, include_synonyms, include_documentation))
                .collect();
            DescribeConfigsResult {
                error_code: code.to_i16(),
                error_message: message,
                resource_type: resource.resource_type,
                resource_name: resource.resource_name,
                configs,
                ..Default::default()
            }
        })
        .collect();
    DescribeConfigsResponse { results, ..Default::default() }
}

fn entries(call: &Call, resource: &DescribeConfigsResource) -> Result<Vec<Entry>, Refusal> {
    match resource.resource_type {
        TOPIC => {
            let invalid = |message| Refusal::new(ErrorCode::InvalidTopicException, message);
            topic_name::check(&resource.resource_name).map_err(invalid)?;
            let topics = call.shared.directory.topics();
            let unknown = || Refusal::of(ErrorCode::UnknownTopicOrPartition);
            let topic = topics.by_name(&resource.resource_name).ok_or_else(unknown)?;
            Ok(topic_entries(&topic.configs).collect())
        }
        BROKER if resource.resource_name.is_empty() => Ok(Vec::new()),
        BROKER => {
            check_broker(&call.shared.settings, &resource.resource_name)?;
            Ok(broker_entries(&call.shared.settings).collect())
        }
        other => Err(Refusal::new(ErrorCode::InvalidRequest, format!("Unsupported resource type: {other}"))),
    }
}

/// Whether `name` is this broker's.
pub(super) fn check_broker(settings: &Settings, name: &str) -> Result<(), Refusal> {
    if name.parse() == Ok(settings.node_id) {
        return Ok(());
    }
    let message = format!("Unexpected broker id, expected {} or empty string, but received {name}", settings.node_id);
    Err(Refusal::new(ErrorCode::InvalidRequest, message))
}

fn describe(
    entry: Entry,
    resource_type: i8,
    include_synonyms: bool,
    include_documentation: bool,
) -> DescribeConfigsResourceResult {
    let synonyms = if include_synonyms {
        vec![DescribeConfigsSynonym {
            name: entry.key.name.to_owned(),
            value: Some(entry.value.clone()),
            source: entry.source,
            ..Default::default()
        }]
    } else {
        Vec::new()
    };
    DescribeConfigsResourceResult {
        name: entry.key.name.to_owned(),
        value: Some(entry.value),
        read_only: resource_type == BROKER,
        config_source: entry.source,
        is_sensitive: false,
        synonyms,
        config_type: entry.key.wire_type(),
        documentation: include_documentation.then(|| entry.key.documentation.to_owned()),
        ..Default::default()
    }
}
