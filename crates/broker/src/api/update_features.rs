//! UpdateFeatures (key 57), versions 0 to 2: changes levels of features, all of them or none. Kept over restarts.
//!
//! Producers see a level when they ask for ApiVersions next, at the latest before their next transaction's end.
//!
//! - 0: `allow_downgrade`. 1: the kind of change; only asking. 2: no results of single features any more.

use atonce_protocol::messages::update_features_request::UpdateFeaturesRequest;
use atonce_protocol::messages::update_features_response::{UpdatableFeatureResult, UpdateFeaturesResponse};
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call, Reply};
use crate::engine::{Engine, Refusal};
use crate::features::{self, UpgradeType};

pub(super) const API: Api =
    Api { key: ApiKey::UpdateFeatures, versions: 0..=2, run: |incoming| incoming.on_engine(handle) };

fn handle(engine: &mut Engine, call: &Call, request: UpdateFeaturesRequest, reply: Reply<UpdateFeaturesResponse>) {
    let features: Vec<String> = request.feature_updates.iter().map(|update| update.feature.clone()).collect();
    let response = match update(engine, call, request) {
        Err(refusal) => UpdateFeaturesResponse {
            error_code: refusal.code.to_i16(),
            error_message: Some(refusal.message),
            ..Default::default()
        },
        Ok(()) => UpdateFeaturesResponse {
            error_message: None,
            results: features
                .into_iter()
                .filter(|_| call.version < 2)
                .map(|feature| UpdatableFeatureResult {
                    feature,
                    error_message: Some("NONE".to_owned()),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        },
    };
    engine.answer(reply, response);
}

fn update(engine: &mut Engine, call: &Call, request: UpdateFeaturesRequest) -> Result<(), Refusal> {
    let dynamic = engine.dynamic();
    let offered = features::offered(&engine.settings, &dynamic);
    let mut changed = (*dynamic).clone();
    for update in &request.feature_updates {
        let upgrade_type = match (call.version, update.allow_downgrade) {
            (0, true) => Some(UpgradeType::Downgrade),
            (0, false) => Some(UpgradeType::Upgrade),
            _ => UpgradeType::from_wire(update.upgrade_type),
        };
        let node_id = engine.settings.node_id;
        let name = features::check(&offered, node_id, &update.feature, update.max_version_level, upgrade_type)
            .map_err(|reason| {
                let message =
                    format!("The update failed for all features since the following feature had an error: {reason}");
                Refusal::new(ErrorCode::InvalidUpdateVersion, message)
            })?;
        changed.features.insert(name.to_owned(), update.max_version_level);
    }
    if request.validate_only || changed == *dynamic {
        return Ok(());
    }
    changed.feature_changes += 1;
    engine.set_dynamic(changed)
}
