//! ApiVersions (key 18), versions 0 to 5: what is served, and which features are finalised.
//!
//! The one API that answers a version it does not know: in a body of version 0, error UNSUPPORTED_VERSION, with what is
//! served; the client then asks again in a version that both know. The header of its answer is always version 0.
//!
//! - 1: throttle time. 2: none. 3: the client's software name and version (checked); features; flexible.
//! - 4: features whose least version is 0 are listed (KAFKA-17492: older clients throw on them, so they are left out below).
//! - 5: the cluster and node that the client believes to talk to (KIP-1242).

use atonce_protocol::messages::api_versions_request::ApiVersionsRequest;
use atonce_protocol::messages::api_versions_response::{
    ApiVersion, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call, SERVED};
use crate::connection::PendingAnswer;
use crate::features::{self, Offered};

pub(super) const API: Api =
    Api { key: ApiKey::ApiVersions, versions: 0..=5, run: |incoming| incoming.in_place(handle) };

/// The correlation id of a frame that asks for API versions in a version that is not known here.
///
/// Layout: `api_key i16 | api_version i16 | correlation_id i32`, the same in all versions.
pub(super) fn asks_in_a_version_to_come(frame: &[u8]) -> Option<i32> {
    let [key_high, key_low, version_high, version_low, correlation_id @ ..] = *frame.first_chunk::<8>()?;
    let is_meant = i16::from_be_bytes([key_high, key_low]) == ApiKey::ApiVersions.to_i16();
    let version = i16::from_be_bytes([version_high, version_low]);
    (is_meant && !API.versions.contains(&version)).then(|| i32::from_be_bytes(correlation_id))
}

/// The answer to it.
pub(super) fn of_a_version_to_come(correlation_id: i32) -> PendingAnswer {
    let response = ApiVersionsResponse {
        error_code: ErrorCode::UnsupportedVersion.to_i16(),
        api_keys: served(),
        ..Default::default()
    };
    Box::pin(async move { super::encode(ApiKey::ApiVersions, 0, correlation_id, &response) })
}

async fn handle(call: Call, request: ApiVersionsRequest) -> ApiVersionsResponse {
    let refuse = |code: ErrorCode| ApiVersionsResponse { error_code: code.to_i16(), ..Default::default() };
    if call.version >= 3
        && !(is_software_word(&request.client_software_name) && is_software_word(&request.client_software_version))
    {
        return refuse(ErrorCode::InvalidRequest);
    }
    match (&request.cluster_id, request.node_id) {
        (None, -1) => {}
        (Some(_), -1) | (None, _) => return refuse(ErrorCode::InvalidRequest),
        (Some(cluster_id), node_id) => {
            if *cluster_id != call.shared.cluster_id || node_id != call.shared.settings.node_id {
                return refuse(ErrorCode::RebootstrapRequired);
            }
        }
    }
    let dynamic = call.shared.dynamic.get();
    let offered = features::offered(&call.shared.settings, &dynamic);
    ApiVersionsResponse {
        api_keys: served(),
        supported_features: supported_features(call.version, &offered),
        finalized_features_epoch: features::epoch(&dynamic),
        finalized_features: finalized_features(&offered),
        ..Default::default()
    }
}

fn served() -> Vec<ApiVersion> {
    SERVED
        .iter()
        .map(|api| ApiVersion {
            api_key: api.key as i16,
            // Produce 0 to 2 are refused, yet listed: librdkafka derives compression and message format from the least
            // version, and without them would fall back to what no broker speaks any more (KAFKA-18659).
            min_version: if api.key == ApiKey::Produce { 0 } else { *api.versions.start() },
            max_version: *api.versions.end(),
            ..Default::default()
        })
        .collect()
}

/// All of ours begin at level 0, which older versions cannot say.
fn supported_features(version: i16, offered: &[Offered]) -> Vec<SupportedFeatureKey> {
    offered
        .iter()
        .filter(|_| version >= 4)
        .map(|feature| SupportedFeatureKey {
            name: feature.name.to_owned(),
            min_version: 0,
            max_version: feature.level_max,
            ..Default::default()
        })
        .collect()
}

/// A feature at level 0 is one that is not finalised, so it is left out.
fn finalized_features(offered: &[Offered]) -> Vec<FinalizedFeatureKey> {
    offered
        .iter()
        .filter(|feature| feature.level > 0)
        .map(|feature| FinalizedFeatureKey {
            name: feature.name.to_owned(),
            max_version_level: feature.level,
            min_version_level: feature.level,
            ..Default::default()
        })
        .collect()
}

/// Letters and digits, with dots and hyphens between them.
fn is_software_word(text: &str) -> bool {
    let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    is_end(text.chars().next())
        && is_end(text.chars().next_back())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn software_words_begin_and_end_with_a_letter_or_digit() {
        for good in ["a", "apache-kafka-java", "4.4.0", "a-.b"] {
            assert!(is_software_word(good), "{good}");
        }
        for bad in ["", "-", "a-", ".a", "a b", "ä", "a/b"] {
            assert!(!is_software_word(bad), "{bad}");
        }
    }
}
