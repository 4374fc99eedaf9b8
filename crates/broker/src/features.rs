//! Features of the cluster, their levels, and how they are changed (KIP-584, KIP-1022).
//!
//! A feature is offered where what it stands for is served: see [`FEATURES`]. Its level is the one set by UpdateFeatures, or
//! the one that the broker was started with.
//!
//! **What it does not know**: the wire, the file that levels are kept in.

use atonce_protocol::ApiKey;

use crate::api;
use crate::configuration::Settings;
use crate::dynamic::Dynamic;

/// A feature: its name, the highest level, and the API without which it is not offered.
struct Feature {
    name: &'static str,
    level_max: i16,
    needs: ApiKey,
}

const GROUP_VERSION: &str = "group.version";
const TRANSACTION_VERSION: &str = "transaction.version";

const FEATURES: &[Feature] = &[
    Feature { name: GROUP_VERSION, level_max: 1, needs: ApiKey::ConsumerGroupHeartbeat },
    Feature { name: "streams.version", level_max: 1, needs: ApiKey::StreamsGroupHeartbeat },
    Feature { name: TRANSACTION_VERSION, level_max: 2, needs: ApiKey::EndTxn },
];

/// A feature that is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offered {
    pub(crate) name: &'static str,
    /// From 0 to this.
    pub(crate) level_max: i16,
    pub(crate) level: i16,
}

/// What is offered, and where it stands.
pub(crate) fn offered(settings: &Settings, dynamic: &Dynamic) -> Vec<Offered> {
    FEATURES
        .iter()
        .filter(|feature| api::SERVED.iter().any(|api| api.key == feature.needs))
        .map(|feature| {
            let at_start =
                if feature.name == TRANSACTION_VERSION { settings.transaction_version } else { feature.level_max };
            let level = dynamic.features.get(feature.name).copied().unwrap_or(at_start);
            Offered { name: feature.name, level_max: feature.level_max, level: level.clamp(0, feature.level_max) }
        })
        .collect()
}

/// Whether consumer groups may be used (KIP-848).
pub(crate) fn has_consumer_groups(dynamic: &Dynamic) -> bool {
    dynamic.features.get(GROUP_VERSION).is_none_or(|level| *level > 0)
}

/// How often levels were changed, from 1 on: clients begin with -1, and some take 0 for "not known".
pub(crate) fn epoch(dynamic: &Dynamic) -> i64 {
    1 + dynamic.feature_changes
}

/// What a change may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpgradeType {
    Upgrade,
    Downgrade,
}

impl UpgradeType {
    /// 1: upgrade; 2 and 3: downgrade, safe and unsafe, which is the same where nothing is lost by it.
    pub(crate) fn from_wire(number: i8) -> Option<Self> {
        match number {
            1 => Some(Self::Upgrade),
            2 | 3 => Some(Self::Downgrade),
            _ => None,
        }
    }
}

/// Whether `name` may go to `level`, in Kafka's words if not.
pub(crate) fn check(
    offered: &[Offered],
    node_id: i32,
    name: &str,
    level: i16,
    upgrade_type: Option<UpgradeType>,
) -> Result<&'static str, String> {
    let invalid = |why: String| Err(format!("Invalid update version {level} for feature {name}. {why}"));
    let Some(upgrade_type) = upgrade_type else {
        return invalid("The controller does not support the given upgrade type.".to_owned());
    };
    if level < 0 {
        return invalid("A feature version cannot be less than 0.".to_owned());
    }
    let Some(feature) = offered.iter().find(|feature| feature.name == name) else {
        return invalid(format!("Local controller {node_id} does not support this feature."));
    };
    if level > feature.level_max {
        return invalid(format!("Local controller {node_id} only supports versions 0-{}", feature.level_max));
    }
    match upgrade_type {
        UpgradeType::Upgrade if level < feature.level => invalid(
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
                .to_owned(),
        ),
        UpgradeType::Downgrade if level > feature.level => {
            invalid("Can't downgrade to a newer version.".to_owned())
        }
        UpgradeType::Upgrade | UpgradeType::Downgrade => Ok(feature.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_go_up_by_themselves_and_down_only_when_that_is_meant() {
        let offered = [Offered { name: TRANSACTION_VERSION, level_max: 2, level: 1 }];
        let ask = |name, level, how| check(&offered, 1, name, level, UpgradeType::from_wire(how)).is_ok();
        for (name, level, how, expected) in [
            (TRANSACTION_VERSION, 2, 1, true),
            (TRANSACTION_VERSION, 1, 1, true),
            (TRANSACTION_VERSION, 0, 1, false),
            (TRANSACTION_VERSION, 0, 2, true),
            (TRANSACTION_VERSION, 0, 3, true),
            (TRANSACTION_VERSION, 1, 2, true),
            (TRANSACTION_VERSION, 2, 2, false),
            (TRANSACTION_VERSION, 2, 0, false),
            (TRANSACTION_VERSION, 2, 4, false),
            (TRANSACTION_VERSION, 3, 1, false),
            (TRANSACTION_VERSION, -1, 2, false),
            ("nix", 1, 1, false),
        ] {
            assert_eq!(ask(name, level, how), expected, "{name} {level} {how}");
        }
    }
}
