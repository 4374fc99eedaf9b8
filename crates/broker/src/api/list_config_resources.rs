//! ListConfigResources (key 74), versions 0 and 1: what has settings. Version 0 knows client metrics only, and was called
//! ListClientMetricsResources.
//!
//! - 1: kinds of resources; none named means all.

use std::collections::BTreeSet;

use atonce_protocol::messages::list_config_resources_request::ListConfigResourcesRequest;
use atonce_protocol::messages::list_config_resources_response::{ConfigResource, ListConfigResourcesResponse};
use atonce_protocol::{ApiKey, ErrorCode};

use super::describe_configs::{BROKER, CLIENT_METRICS, GROUP, LOGGER, TOPIC};
use super::{Api, Call};
use crate::dynamic::Owner;

pub(super) const API: Api =
    Api { key: ApiKey::ListConfigResources, versions: 0..=1, run: |incoming| incoming.in_place(handle) };

async fn handle(call: Call, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse {
    let known = BTreeSet::from([TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP]);
    let asked: BTreeSet<i8> = match call.version {
        0 => BTreeSet::from([CLIENT_METRICS]),
        _ if request.resource_types.is_empty() => known.clone(),
        _ => request.resource_types.into_iter().collect(),
    };
    if !asked.is_subset(&known) {
        return ListConfigResourcesResponse {
            error_code: ErrorCode::UnsupportedVersion.to_i16(),
            ..Default::default()
        };
    }
    let dynamic = call.shared.dynamic.get();
    let mut config_resources = Vec::new();
    let mut list = |resource_type: i8, names: Vec<String>| {
        if asked.contains(&resource_type) {
            config_resources.extend(names.into_iter().map(|resource_name| ConfigResource {
                resource_name,
                resource_type,
                ..Default::default()
            }));
        }
    };
    let set = |owner| dynamic.names(owner).map(str::to_owned).collect();
    list(GROUP, set(Owner::Group));
    list(CLIENT_METRICS, set(Owner::ClientMetrics));
    list(LOGGER, vec![call.shared.settings.node_id.to_string()]);
    list(BROKER, vec![call.shared.settings.node_id.to_string()]);
    list(TOPIC, call.shared.directory.topics().iter().map(|topic| topic.name.as_str().to_owned()).collect());
    ListConfigResourcesResponse { config_resources, ..Default::default() }
}
