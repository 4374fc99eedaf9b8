//! Features: what the brokers can do, and at which level the cluster does it.

use std::collections::BTreeMap;

use atonce_protocol::messages::api_versions_request::ApiVersionsRequest;
use atonce_protocol::messages::update_features_request::{FeatureUpdateKey, UpdateFeaturesRequest};
use atonce_protocol::messages::update_features_response::UpdateFeaturesResponse;

use super::Admin;
use super::call::{Answer, Route, Whole, answer};
use crate::error::AdminError;

/// What the brokers can do, and at which level the cluster does it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeaturesDescription {
    /// What the broker that was asked can do.
    pub supported: BTreeMap<String, SupportedVersions>,
    /// The levels that the cluster has settled on; a feature that is off is absent.
    pub finalized: BTreeMap<String, i16>,
    /// How new the levels are; `None` if the broker does not say.
    pub epoch: Option<i64>,
}

/// The levels of a feature that a broker knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SupportedVersions {
    /// The least.
    pub min: i16,
    /// The highest.
    pub max: i16,
}

/// A feature's level to be.
///
/// ```
/// use atonce_client::admin::{FeatureUpdate, FeatureUpdateKind};
///
/// let update = FeatureUpdate::upgrade("transaction.version", 2);
/// assert_eq!(update.kind, FeatureUpdateKind::Upgrade);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureUpdate {
    /// Which.
    pub feature: String,
    /// The level; 0 switches it off.
    pub level: i16,
    /// Which way it may go.
    pub kind: FeatureUpdateKind,
}

/// Which way a level may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureUpdateKind {
    /// Up.
    Upgrade,
    /// Down, where nothing that is stored gets lost.
    SafeDowngrade,
    /// Down, whatever gets lost.
    UnsafeDowngrade,
}

impl FeatureUpdate {
    /// Raises a level.
    pub fn upgrade(feature: impl Into<String>, level: i16) -> Self {
        Self { feature: feature.into(), level, kind: FeatureUpdateKind::Upgrade }
    }

    /// Lowers a level, where nothing that is stored gets lost.
    pub fn downgrade(feature: impl Into<String>, level: i16) -> Self {
        Self { feature: feature.into(), level, kind: FeatureUpdateKind::SafeDowngrade }
    }

    fn to_wire(&self, version: i16) -> FeatureUpdateKey {
        let (is_down, upgrade_type) = match self.kind {
            FeatureUpdateKind::Upgrade => (false, 1),
            FeatureUpdateKind::SafeDowngrade => (true, 2),
            FeatureUpdateKind::UnsafeDowngrade => (true, 3),
        };
        FeatureUpdateKey {
            feature: self.feature.clone(),
            max_version_level: self.level,
            allow_downgrade: version == 0 && is_down,
            upgrade_type: if version == 0 { 1 } else { upgrade_type },
            ..Default::default()
        }
    }
}

impl Admin {
    /// Which features there are.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// let features = admin.describe_features().await?;
    /// assert_eq!(features.finalized["transaction.version"], 2);
    /// assert_eq!(features.supported["transaction.version"].max, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn describe_features(&self) -> Result<FeaturesDescription, AdminError> {
        let cluster = self.client.cluster();
        self.call(&cluster, "ApiVersions")
            .one(
                Whole("the cluster"),
                Route::Any,
                0..=4,
                |_| ApiVersionsRequest {
                    client_software_name: "atonce".to_owned(),
                    client_software_version: env!("CARGO_PKG_VERSION").to_owned(),
                    ..Default::default()
                },
                |response, _| {
                    let levels = response.supported_features.into_iter();
                    let supported = levels
                        .map(|it| (it.name, SupportedVersions { min: it.min_version, max: it.max_version }))
                        .collect();
                    let levels = response.finalized_features.into_iter();
                    let finalized = levels.map(|it| (it.name, it.max_version_level)).collect();
                    let epoch = Some(response.finalized_features_epoch).filter(|epoch| *epoch >= 0);
                    answer(response.error_code, None, FeaturesDescription { supported, finalized, epoch })
                },
            )
            .await
    }

    /// Changes features' levels: all of them, or none.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::admin::FeatureUpdate;
    ///
    /// let error = admin.update_features(&[FeatureUpdate::upgrade("no.such.feature", 1)]).await.expect_err("is refused");
    /// println!("{error}");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn update_features(&self, updates: &[FeatureUpdate]) -> Result<(), AdminError> {
        self.ask_for_features(updates, false).await
    }

    /// Says whether features' levels could be changed so, and changes nothing.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::admin::FeatureUpdate;
    ///
    /// let update = FeatureUpdate::upgrade("no.such.feature", 1);
    /// assert!(admin.validate_features(&[update]).await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn validate_features(&self, updates: &[FeatureUpdate]) -> Result<(), AdminError> {
        self.ask_for_features(updates, true).await
    }

    async fn ask_for_features(&self, updates: &[FeatureUpdate], validate_only: bool) -> Result<(), AdminError> {
        let cluster = self.client.cluster();
        let names: Vec<String> = updates.iter().map(|it| it.feature.clone()).collect();
        self.call(&cluster, "UpdateFeatures")
            .one(
                names.join(", "),
                Route::Controller,
                // Version 0 cannot only look.
                if validate_only { 1..=2 } else { 0..=2 },
                |version| UpdateFeaturesRequest {
                    timeout_ms: self.timeout_ms(),
                    feature_updates: updates.iter().map(|it| it.to_wire(version)).collect(),
                    validate_only,
                    ..Default::default()
                },
                |response, _| updated(response),
            )
            .await
    }
}

/// Before version 2 each feature had an answer of its own.
fn updated(response: UpdateFeaturesResponse) -> Answer<()> {
    answer(response.error_code, response.error_message, ())?;
    response.results.into_iter().try_for_each(|it| answer(it.error_code, it.error_message, ()))
}
