//! DescribeConfigs (key 32), versions 1 to 4: the settings of topics, brokers, groups and client metrics, each with where it
//! comes from and what would hold without it.
//!
//! - 1: source and synonyms. 2: none. 3: type and documentation. 4: flexible.

use atonce_protocol::messages::describe_configs_request::{DescribeConfigsRequest, DescribeConfigsResource};
use atonce_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResponse, DescribeConfigsResult, DescribeConfigsSynonym,
};
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call};
use crate::configuration::{
    BROKER_KEYS, CLIENT_METRICS_KEYS, GROUP_KEYS, Key, Settings, Source, Standing, TOPIC_KEYS, Values, find,
};
use crate::dynamic::{Configs, Dynamic, Owner};
use crate::engine::Refusal;
use crate::topic_name;

pub(super) const API: Api =
    Api { key: ApiKey::DescribeConfigs, versions: 1..=4, run: |incoming| incoming.in_place(handle) };

pub(super) const TOPIC: i8 = 2;
pub(super) const BROKER: i8 = 4;
pub(super) const LOGGER: i8 = 8;
pub(super) const CLIENT_METRICS: i8 = 16;
pub(super) const GROUP: i8 = 32;

/// A setting, where it comes from, and what else was said.
pub(super) struct Entry {
    pub(super) name: &'static str,
    pub(super) value: Option<String>,
    pub(super) source: Source,
    pub(super) is_read_only: bool,
    synonyms: Vec<Standing>,
    wire_type: i8,
    documentation: &'static str,
}

impl Entry {
    fn new(key: &Key, value: Option<String>, synonyms: Vec<Standing>, is_read_only: bool) -> Self {
        Self {
            name: key.name,
            value,
            source: synonyms.first().map_or(Source::Default, |strongest| strongest.source),
            is_read_only,
            synonyms,
            wire_type: key.wire_type(),
            documentation: key.documentation,
        }
    }
}

/// All settings of a topic for which `given` was set.
pub(super) fn topic_entries(values: Values<'_>, given: &Configs) -> Vec<Entry> {
    let entry = |topic: &'static crate::configuration::TopicKey| {
        let value = values.topic_value(given, topic).into_owned();
        Entry::new(&topic.key, Some(value), values.topic_synonyms(given, topic), false)
    };
    TOPIC_KEYS.iter().map(entry).collect()
}

fn broker_entries(values: Values<'_>) -> Vec<Entry> {
    let entry = |key: &'static Key| {
        Entry::new(key, values.value(key).map(str::to_owned), values.synonyms(key.name), !key.is_dynamic)
    };
    BROKER_KEYS.iter().map(entry).collect()
}

/// What was set for all brokers while they ran, and nothing else.
fn default_broker_entries(values: Values<'_>) -> Vec<Entry> {
    let given = values.for_all();
    let entry = |(name, value): (&String, &String)| {
        let key = find(BROKER_KEYS, name).ok()?;
        let standing = Standing { name: key.name, value: value.clone(), source: Source::DynamicDefaultBroker };
        Some(Entry::new(key, Some(value.clone()), vec![standing], !key.is_dynamic))
    };
    given.iter().filter_map(entry).collect()
}

/// Settings of what has no synonyms of its own: each is set here, or has the broker's value, or its default.
fn owned_entries(keys: &'static [Key], given: &Configs, source: Source, values: Option<Values<'_>>) -> Vec<Entry> {
    let entry = |key: &'static Key| {
        let mut synonyms = Vec::new();
        if let Some(value) = given.get(key.name) {
            synonyms.push(Standing { name: key.name, value: value.clone(), source });
        }
        // The broker's word for a group's `consumer.session.timeout.ms` is `group.consumer.session.timeout.ms`.
        let for_all = values.and_then(|values| {
            let key = find(BROKER_KEYS, &format!("group.{}", key.name)).ok()?;
            Some((values.value(key)?.to_owned(), values.synonyms(key.name)))
        });
        let (default, others) = match for_all {
            Some((value, synonyms)) => (Some(value), synonyms),
            None => (key.default.map(str::to_owned), Vec::new()),
        };
        synonyms.extend(others);
        Entry::new(key, given.get(key.name).cloned().or(default), synonyms, false)
    };
    keys.iter().map(entry).collect()
}

async fn handle(call: Call, request: DescribeConfigsRequest) -> DescribeConfigsResponse {
    let DescribeConfigsRequest { mut resources, include_synonyms, include_documentation, .. } = request;
    super::with_few_repetitions(&mut resources, |resource| (resource.resource_type, resource.resource_name.clone()));
    let dynamic = call.shared.dynamic.get();
    let results = resources
        .into_iter()
        .map(|resource| {
            let (code, message, entries) = match entries(&call, &dynamic, &resource) {
                Ok(entries) => (ErrorCode::None, String::new(), entries),
                Err(refusal) => (refusal.code, refusal.message, Vec::new()),
            };
            let configs = entries
                .into_iter()
                .filter(|entry| match &resource.configuration_keys {
                    Some(keys) if !keys.is_empty() => keys.iter().any(|key| key == entry.name),
                    Some(_) | None => true,
                })
                .map(|entry| describe(entry, include_synonyms, include_documentation))
                .collect();
            DescribeConfigsResult {
                error_code: code.to_i16(),
                error_message: Some(message),
                resource_type: resource.resource_type,
                resource_name: resource.resource_name,
                configs,
                ..Default::default()
            }
        })
        .collect();
    DescribeConfigsResponse { results, ..Default::default() }
}

fn entries(call: &Call, dynamic: &Dynamic, resource: &DescribeConfigsResource) -> Result<Vec<Entry>, Refusal> {
    let settings = &call.shared.settings;
    let values = Values::new(settings, dynamic);
    let name = resource.resource_name.as_str();
    let invalid = |message: &str| Err(Refusal::new(ErrorCode::InvalidRequest, message));
    match resource.resource_type {
        TOPIC => {
            topic_name::check(name).map_err(|message| Refusal::new(ErrorCode::InvalidTopicException, message))?;
            let topics = call.shared.directory.topics();
            let topic = topics.by_name(name).ok_or_else(|| Refusal::new(ErrorCode::UnknownTopicOrPartition, ""))?;
            Ok(topic_entries(values, &topic.configs))
        }
        BROKER if name.is_empty() => Ok(default_broker_entries(values)),
        BROKER => {
            check_broker(settings, name, "Broker", " or empty string,")?;
            Ok(broker_entries(values))
        }
        LOGGER => {
            check_broker(settings, name, "Broker", "")?;
            Ok(Vec::new())
        }
        CLIENT_METRICS if name.is_empty() => invalid("Client metrics subscription name must not be empty"),
        CLIENT_METRICS => {
            let given = dynamic.configs(Owner::ClientMetrics, name);
            Ok(owned_entries(CLIENT_METRICS_KEYS, given, Source::ClientMetrics, None))
        }
        GROUP if name.is_empty() => invalid("Group name must not be empty"),
        GROUP => {
            let given = dynamic.configs(Owner::Group, name);
            Ok(owned_entries(GROUP_KEYS, given, Source::Group, Some(values)))
        }
        other => invalid(&format!("Unsupported resource type: {other}")),
    }
}

/// Whether `name` is this broker's.
pub(super) fn check_broker(settings: &Settings, name: &str, what: &str, or: &str) -> Result<(), Refusal> {
    let invalid = |message| Err(Refusal::new(ErrorCode::InvalidRequest, message));
    match name.parse::<i32>() {
        Ok(id) if id == settings.node_id => Ok(()),
        Ok(id) => invalid(format!("Unexpected broker id, expected {}{or} but received {id}", settings.node_id)),
        Err(_) => invalid(format!("{what} id must be an integer, but it is: {name}")),
    }
}

fn describe(entry: Entry, include_synonyms: bool, include_documentation: bool) -> DescribeConfigsResourceResult {
    let synonyms = entry.synonyms.into_iter().filter(|_| include_synonyms).map(|synonym| DescribeConfigsSynonym {
        name: synonym.name.to_owned(),
        value: Some(synonym.value),
        source: synonym.source as i8,
        ..Default::default()
    });
    DescribeConfigsResourceResult {
        name: entry.name.to_owned(),
        value: entry.value,
        read_only: entry.is_read_only,
        config_source: entry.source as i8,
        is_sensitive: false,
        synonyms: synonyms.collect(),
        config_type: entry.wire_type,
        documentation: include_documentation.then(|| entry.documentation.to_owned()),
        ..Default::default()
    }
}
