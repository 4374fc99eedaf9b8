//! Settings of topics, brokers, groups and client metrics, as the writer changes them.
//!
//! **What it does not know**: the wire's numbers for what is to be done; files.

use super::{Engine, Refusal};
use crate::configuration::{
    BROKER_KEYS, CLIENT_METRICS_KEYS, GROUP_KEYS, Key, MIN_INSYNC_REPLICAS, Values, find, find_topic_key,
};
use crate::dynamic::{Configs, Owner};
use crate::topic_name;
use atonce_protocol::ErrorCode;

/// Whose settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConfigOwner {
    /// Of a topic.
    Topic(String),
    /// Of this broker.
    Broker,
    /// Of all brokers.
    AllBrokers,
    /// Of a group.
    Group(String),
    /// Of a subscription to clients' metrics.
    ClientMetrics(String),
}

impl ConfigOwner {
    /// By the wire's number for the kind, and the name. Refuses: what is not there, or has no such name.
    pub(crate) fn of(engine: &Engine, resource_type: i8, name: &str) -> Result<Self, Refusal> {
        let invalid = |message: String| Err(Refusal::new(ErrorCode::InvalidRequest, message));
        match resource_type {
            2 if name.is_empty() => invalid("Default topic resources are not allowed.".to_owned()),
            2 => {
                topic_name::check(name).map_err(|message| Refusal::new(ErrorCode::InvalidTopicException, message))?;
                if engine.topic_id(name).is_none() {
                    let message = format!("The topic '{name}' does not exist.");
                    return Err(Refusal::new(ErrorCode::UnknownTopicOrPartition, message));
                }
                Ok(Self::Topic(name.to_owned()))
            }
            4 if name.is_empty() => Ok(Self::AllBrokers),
            4 => match name.parse::<i32>() {
                Ok(id) if id == engine.settings.node_id => Ok(Self::Broker),
                Ok(id) => {
                    invalid(format!("Unexpected broker id, expected {}, but received {id}", engine.settings.node_id))
                }
                Err(_) => invalid(format!("Node id must be an integer, but it is: {name}")),
            },
            16 if name.is_empty() => invalid("Subscription name can't be empty".to_owned()),
            16 => Ok(Self::ClientMetrics(name.to_owned())),
            32 if name.is_empty() => invalid("Default group resources are not allowed.".to_owned()),
            32 => Ok(Self::Group(name.to_owned())),
            other => invalid(format!("Unknown resource type {other}")),
        }
    }

    /// The key of that name that such an owner may set.
    pub(crate) fn key(&self, name: &str) -> Option<&'static Key> {
        match self {
            Self::Topic(_) => find_topic_key(name).map(|topic| &topic.key),
            Self::Broker | Self::AllBrokers => find(BROKER_KEYS, name).ok(),
            Self::Group(_) => find(GROUP_KEYS, name).ok(),
            Self::ClientMetrics(_) => find(CLIENT_METRICS_KEYS, name).ok(),
        }
    }
}

impl Engine {
    /// What is set for `owner`.
    pub(crate) fn configs(&self, owner: &ConfigOwner) -> Configs {
        match owner {
            ConfigOwner::Topic(name) => self.topic(name).map(|topic| topic.configs).unwrap_or_default(),
            ConfigOwner::AllBrokers => Values::new(&self.settings, &self.dynamic()).for_all(),
            other @ (ConfigOwner::Broker | ConfigOwner::Group(_) | ConfigOwner::ClientMetrics(_)) => {
                let (kind, name) = self.place(other);
                self.dynamic().configs(kind, &name).clone()
            }
        }
    }

    /// What holds for a key of `owner` that is not set.
    pub(crate) fn config_default(&self, owner: &ConfigOwner, name: &str) -> String {
        let dynamic = self.dynamic();
        let values = Values::new(&self.settings, &dynamic);
        let default = |key: &'static Key| key.default.unwrap_or_default().to_owned();
        match owner {
            ConfigOwner::Topic(_) => {
                find_topic_key(name).map(|topic| values.topic_default(topic).into_owned()).unwrap_or_default()
            }
            other => other.key(name).map(default).unwrap_or_default(),
        }
    }

    /// What a group has set for itself under `key`.
    pub(crate) fn group_config(&self, group: &str, key: &str) -> Option<String> {
        self.dynamic().configs(Owner::Group, group).get(key).cloned()
    }

    /// Sets exactly `configs` for `owner`, and no others.
    pub(crate) fn set_configs(
        &mut self,
        owner: &ConfigOwner,
        configs: Configs,
        validate_only: bool,
    ) -> Result<(), Refusal> {
        match owner {
            ConfigOwner::Topic(name) => return self.set_topic_configs(name, configs, validate_only),
            ConfigOwner::Broker => {
                check_broker_configs(&configs)?;
                let is_set = configs.contains_key(MIN_INSYNC_REPLICAS);
                if is_set && !self.configs(owner).contains_key(MIN_INSYNC_REPLICAS) {
                    let message = format!("{MIN_INSYNC_REPLICAS} is set for all brokers, and not for one.");
                    return Err(Refusal::new(ErrorCode::InvalidConfig, message));
                }
            }
            ConfigOwner::AllBrokers => {
                check_broker_configs(&configs)?;
                if !configs.contains_key(MIN_INSYNC_REPLICAS) {
                    let message = format!("{MIN_INSYNC_REPLICAS} is set for all brokers, and cannot be removed.");
                    return Err(Refusal::new(ErrorCode::InvalidConfig, message));
                }
            }
            ConfigOwner::Group(_) => self.check_group_configs(&configs)?,
            ConfigOwner::ClientMetrics(_) => check_client_metrics_configs(&configs)?,
        }
        let (kind, name) = self.place(owner);
        let before = self.dynamic();
        let mut dynamic = (*before).clone();
        dynamic.set_configs(kind, &name, configs);
        if validate_only || dynamic == *before {
            return Ok(());
        }
        self.set_dynamic(dynamic)
    }

    fn place(&self, owner: &ConfigOwner) -> (Owner, String) {
        match owner {
            ConfigOwner::Topic(name) | ConfigOwner::Group(name) => (Owner::Group, name.clone()),
            ConfigOwner::Broker => (Owner::Broker, self.settings.node_id.to_string()),
            ConfigOwner::AllBrokers => (Owner::Broker, String::new()),
            ConfigOwner::ClientMetrics(name) => (Owner::ClientMetrics, name.clone()),
        }
    }

    fn check_group_configs(&self, configs: &Configs) -> Result<(), Refusal> {
        let invalid = |message: String| Err(Refusal::new(ErrorCode::InvalidConfig, message));
        let values = self.dynamic();
        let values = Values::new(&self.settings, &values);
        for (name, value) in configs {
            let Ok(key) = find(GROUP_KEYS, name) else { return invalid(format!("Unknown group config name: {name}")) };
            if let Err(error) = key.check(value) {
                return invalid(error.to_string());
            }
            // `consumer.session.timeout.ms` lies between `group.consumer.min.session.timeout.ms` and the same with `max`.
            let Some((kind, rest)) = name.split_once('.') else { continue };
            let bound = |which: &str| {
                let key = find(BROKER_KEYS, &format!("group.{kind}.{which}.{rest}")).ok()?;
                values.value(key)?.parse::<i64>().ok()
            };
            if let (Some(least), Some(most), Ok(number)) = (bound("min"), bound("max"), value.trim().parse::<i64>())
                && !(least..=most).contains(&number)
            {
                return invalid(format!("{name} must be in the range {least} to {most} inclusive."));
            }
        }
        Ok(())
    }
}

/// As Kafka, keeps what it does not know: tools set what another broker of theirs would use.
fn check_broker_configs(configs: &Configs) -> Result<(), Refusal> {
    let invalid = |message: String| Err(Refusal::new(ErrorCode::InvalidRequest, message));
    let mut fixed = Vec::new();
    for (name, value) in configs {
        let Ok(key) = find(BROKER_KEYS, name) else {
            tracing::warn!(name, "a setting that is not known here is kept, without effect");
            continue;
        };
        if !key.is_dynamic {
            fixed.push(name.as_str());
        } else if let Err(error) = key.check(value) {
            return invalid(error.to_string());
        }
    }
    if fixed.is_empty() {
        return Ok(());
    }
    invalid(format!("Cannot update these configs dynamically: [{}]", fixed.join(", ")))
}

fn check_client_metrics_configs(configs: &Configs) -> Result<(), Refusal> {
    let invalid = |message: String| Err(Refusal::new(ErrorCode::InvalidRequest, message));
    for (name, value) in configs {
        let Ok(key) = find(CLIENT_METRICS_KEYS, name) else {
            return invalid(format!("Unknown client metrics configuration: {name}"));
        };
        if key.check(value).is_err() {
            return invalid(format!(
                "Invalid value {value} for {name}, interval must be between 100 and 3600000 (1 hour)"
            ));
        }
    }
    Ok(())
}
