//! Configs of topics, brokers and groups.

use std::collections::BTreeMap;
use std::fmt;

use atonce_kernel::{GroupId, TopicName};
use atonce_protocol::messages::describe_configs_request::{DescribeConfigsRequest, DescribeConfigsResource};
use atonce_protocol::messages::describe_configs_response::DescribeConfigsResourceResult;
use atonce_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use atonce_protocol::messages::list_config_resources_request::ListConfigResourcesRequest;

use super::call::{Route, Whole, answer};
use super::{Admin, PerItem};
use crate::error::AdminError;

/// What has configs.
///
/// ```
/// use atonce_client::admin::ConfigResource;
///
/// assert_eq!(ConfigResource::Topic("orders".into()).to_string(), "topic orders");
/// assert_eq!(ConfigResource::Broker(1).to_string(), "broker 1");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ConfigResource {
    /// A topic.
    Topic(TopicName),
    /// One broker, by its node id.
    Broker(i32),
    /// What all brokers take unless they have a value of their own.
    AllBrokers,
    /// A broker's log levels.
    BrokerLogger(i32),
    /// What clients are asked to measure.
    ClientMetrics(String),
    /// A group.
    Group(GroupId),
}

impl fmt::Display for ConfigResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topic(name) => write!(f, "topic {name}"),
            Self::Broker(node) => write!(f, "broker {node}"),
            Self::AllBrokers => f.write_str("all brokers"),
            Self::BrokerLogger(node) => write!(f, "log levels of broker {node}"),
            Self::ClientMetrics(name) => write!(f, "client metrics {name}"),
            Self::Group(group) => write!(f, "group {group}"),
        }
    }
}

impl ConfigResource {
    fn to_wire(&self) -> (i8, String) {
        match self {
            Self::Topic(name) => (2, name.as_str().to_owned()),
            Self::Broker(node) => (4, node.to_string()),
            Self::AllBrokers => (4, String::new()),
            Self::BrokerLogger(node) => (8, node.to_string()),
            Self::ClientMetrics(name) => (16, name.clone()),
            Self::Group(group) => (32, group.as_str().to_owned()),
        }
    }

    /// `None` for a kind that this client does not know.
    fn from_wire(kind: i8, name: String) -> Option<Self> {
        match kind {
            2 => Some(Self::Topic(TopicName::from(name))),
            4 if name.is_empty() => Some(Self::AllBrokers),
            4 => name.parse().ok().map(Self::Broker),
            8 => name.parse().ok().map(Self::BrokerLogger),
            16 => Some(Self::ClientMetrics(name)),
            32 => Some(Self::Group(GroupId::from(name))),
            _ => None,
        }
    }

    /// A broker tells and changes its own configs; those of everything else are the cluster's.
    fn route(&self, others: Route) -> Route {
        match self {
            Self::Broker(node) | Self::BrokerLogger(node) => Route::Node(*node),
            Self::Topic(_) | Self::AllBrokers | Self::ClientMetrics(_) | Self::Group(_) => others,
        }
    }
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ConfigSource {
    /// Set for this topic.
    DynamicTopic,
    /// Set for this broker while it ran.
    DynamicBroker,
    /// Set for all brokers while they ran.
    DynamicDefaultBroker,
    /// From the broker's properties as it started.
    StaticBroker,
    /// Nobody has set it.
    Default,
    /// A log level, set for this broker.
    DynamicBrokerLogger,
    /// Set for this subscription to clients' metrics.
    ClientMetrics,
    /// Set for this group.
    Group,
    /// A source that this client does not know.
    Unknown,
}

impl ConfigSource {
    fn from_wire(code: i8) -> Self {
        match code {
            1 => Self::DynamicTopic,
            2 => Self::DynamicBroker,
            3 => Self::DynamicDefaultBroker,
            4 => Self::StaticBroker,
            5 => Self::Default,
            6 => Self::DynamicBrokerLogger,
            7 => Self::ClientMetrics,
            8 => Self::Group,
            _ => Self::Unknown,
        }
    }

    /// Kafka's word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::DynamicTopic => "DYNAMIC_TOPIC_CONFIG",
            Self::DynamicBroker => "DYNAMIC_BROKER_CONFIG",
            Self::DynamicDefaultBroker => "DYNAMIC_DEFAULT_BROKER_CONFIG",
            Self::StaticBroker => "STATIC_BROKER_CONFIG",
            Self::Default => "DEFAULT_CONFIG",
            Self::DynamicBrokerLogger => "DYNAMIC_BROKER_LOGGER_CONFIG",
            Self::ClientMetrics => "CLIENT_METRICS_CONFIG",
            Self::Group => "GROUP_CONFIG",
            Self::Unknown => "UNKNOWN",
        }
    }
}

impl fmt::Display for ConfigSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ConfigType {
    /// `true` or `false`.
    Boolean,
    /// Text.
    String,
    /// 32 bits.
    Int,
    /// 16 bits.
    Short,
    /// 64 bits.
    Long,
    /// A number with a point.
    Double,
    /// Several with commas between.
    List,
    /// The name of a Java class.
    Class,
    /// A secret.
    Password,
    /// A type that this client does not know, or that the broker is too old to tell.
    Unknown,
}

impl ConfigType {
    fn from_wire(code: i8) -> Self {
        match code {
            1 => Self::Boolean,
            2 => Self::String,
            3 => Self::Int,
            4 => Self::Short,
            5 => Self::Long,
            6 => Self::Double,
            7 => Self::List,
            8 => Self::Class,
            9 => Self::Password,
            _ => Self::Unknown,
        }
    }
}

/// A config, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    /// Its value; `None` if it is secret, or has none.
    pub value: Option<String>,
    /// Where that comes from.
    pub source: ConfigSource,
    /// Whether it is a secret.
    pub is_sensitive: bool,
    /// Whether only a restart with another property changes it.
    pub is_read_only: bool,
    /// What it is.
    pub config_type: ConfigType,
    /// What there would be instead, the nearest first: the first one is what counts.
    pub synonyms: Vec<ConfigSynonym>,
    /// What it does; `None` unless asked for.
    pub documentation: Option<String>,
}

/// A value that counts where no nearer one is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigSynonym {
    /// Its name there, which may be another one: `log.cleanup.policy` for `cleanup.policy`.
    pub name: String,
    /// Its value; `None` if it is secret, or has none.
    pub value: Option<String>,
    /// Where that comes from.
    pub source: ConfigSource,
}

/// A change of a config.
///
/// ```
/// use atonce_client::admin::AlterConfig;
///
/// let changes = [AlterConfig::set("retention.ms", "60000"), AlterConfig::delete("cleanup.policy")];
/// assert_eq!(changes[1].name(), "cleanup.policy");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AlterConfig {
    /// Sets a value.
    Set {
        /// The config.
        name: String,
        /// Its value to be.
        value: String,
    },
    /// Back to what counts where nothing is set.
    Delete {
        /// The config.
        name: String,
    },
    /// Adds to a list.
    Append {
        /// The config.
        name: String,
        /// What to add, several with commas between.
        value: String,
    },
    /// Takes from a list.
    Subtract {
        /// The config.
        name: String,
        /// What to take away, several with commas between.
        value: String,
    },
}

impl AlterConfig {
    /// Sets a value.
    pub fn set(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self::Set { name: name.into(), value: value.into() }
    }

    /// Back to what counts where nothing is set.
    pub fn delete(name: impl Into<String>) -> Self {
        Self::Delete { name: name.into() }
    }

    /// Adds to a list.
    pub fn append(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self::Append { name: name.into(), value: value.into() }
    }

    /// Takes from a list.
    pub fn subtract(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self::Subtract { name: name.into(), value: value.into() }
    }

    /// Which config it changes.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Set { name, .. }
            | Self::Delete { name }
            | Self::Append { name, .. }
            | Self::Subtract { name, .. } => name,
        }
    }

    fn to_wire(&self) -> AlterableConfig {
        let (config_operation, value) = match self {
            Self::Set { value, .. } => (0, Some(value.clone())),
            Self::Delete { .. } => (1, None),
            Self::Append { value, .. } => (2, Some(value.clone())),
            Self::Subtract { value, .. } => (3, Some(value.clone())),
        };
        AlterableConfig { name: self.name().to_owned(), config_operation, value, ..Default::default() }
    }
}

impl Admin {
    /// Configs by name, those that nobody has set too, with where they come from.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::NewTopic;
    /// use atonce_client::admin::{ConfigResource, ConfigSource};
    ///
    /// admin.create_topics(&[NewTopic::new("orders", 1).config("cleanup.policy", "compact")]).await?;
    /// let orders = ConfigResource::Topic("orders".into());
    /// let configs = admin.describe_configs(std::slice::from_ref(&orders)).await?.remove(&orders).expect("an answer")?;
    /// assert_eq!(configs["cleanup.policy"].value.as_deref(), Some("compact"));
    /// assert_eq!(configs["cleanup.policy"].source, ConfigSource::DynamicTopic);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn describe_configs(
        &self,
        resources: &[ConfigResource],
    ) -> Result<PerItem<ConfigResource, BTreeMap<String, ConfigEntry>>, AdminError> {
        self.ask_for_configs(resources, false).await
    }

    /// As [`describe_configs`](Self::describe_configs), with what each config does, in the broker's words.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::admin::ConfigResource;
    ///
    /// let node = admin.describe_cluster().await?.brokers[0].id;
    /// let broker = ConfigResource::Broker(node);
    /// let configs = admin.document_configs(std::slice::from_ref(&broker)).await?.remove(&broker).expect("an answer")?;
    /// assert!(configs["num.partitions"].value.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn document_configs(
        &self,
        resources: &[ConfigResource],
    ) -> Result<PerItem<ConfigResource, BTreeMap<String, ConfigEntry>>, AdminError> {
        self.ask_for_configs(resources, true).await
    }

    async fn ask_for_configs(
        &self,
        resources: &[ConfigResource],
        include_documentation: bool,
    ) -> Result<PerItem<ConfigResource, BTreeMap<String, ConfigEntry>>, AdminError> {
        let cluster = self.client.cluster();
        let wanted = |resource: &ConfigResource| {
            let (resource_type, resource_name) = resource.to_wire();
            let configuration_keys = None;
            DescribeConfigsResource { resource_type, resource_name, configuration_keys, ..Default::default() }
        };
        self.call(&cluster, "DescribeConfigs")
            .per_item(
                resources.iter().cloned(),
                |resource| resource.route(Route::Any),
                1..=4,
                |_, resources| DescribeConfigsRequest {
                    resources: resources.iter().map(wanted).collect(),
                    include_synonyms: true,
                    include_documentation,
                    ..Default::default()
                },
                |response, _, _| {
                    let answers = response.results.into_iter().filter_map(|it| {
                        let resource = ConfigResource::from_wire(it.resource_type, it.resource_name)?;
                        let entries = it.configs.into_iter().map(entry).collect();
                        Some((resource, answer(it.error_code, it.error_message, entries)))
                    });
                    answers.collect()
                },
            )
            .await
    }

    /// Changes configs, each by itself: those that are not named stay. All changes of one resource are made, or none.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::admin::{AlterConfig, ConfigResource};
    /// use atonce_client::{NewTopic, TopicName};
    ///
    /// admin.create_topics(&[NewTopic::new("orders", 1)]).await?;
    /// let orders = ConfigResource::Topic("orders".into());
    /// admin
    ///     .alter_configs(&[(orders.clone(), vec![AlterConfig::set("retention.ms", "60000")])])
    ///     .await?
    ///     .remove(&orders)
    ///     .expect("an answer")?;
    /// assert_eq!(admin.topic_configs(&TopicName::from("orders")).await?["retention.ms"], "60000");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn alter_configs(
        &self,
        changes: &[(ConfigResource, Vec<AlterConfig>)],
    ) -> Result<PerItem<ConfigResource, ()>, AdminError> {
        self.ask_to_alter(changes, false).await
    }

    /// Says whether configs could be changed so, and changes nothing.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::NewTopic;
    /// use atonce_client::admin::{AlterConfig, ConfigResource};
    ///
    /// admin.create_topics(&[NewTopic::new("orders", 1)]).await?;
    /// let orders = ConfigResource::Topic("orders".into());
    /// let changes = vec![AlterConfig::set("retention.ms", "a while")];
    /// let could = admin.validate_configs(&[(orders.clone(), changes)]).await?;
    /// assert!(could[&orders].is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn validate_configs(
        &self,
        changes: &[(ConfigResource, Vec<AlterConfig>)],
    ) -> Result<PerItem<ConfigResource, ()>, AdminError> {
        self.ask_to_alter(changes, true).await
    }

    async fn ask_to_alter(
        &self,
        changes: &[(ConfigResource, Vec<AlterConfig>)],
        validate_only: bool,
    ) -> Result<PerItem<ConfigResource, ()>, AdminError> {
        let cluster = self.client.cluster();
        let wanted = |(resource, changes): &(ConfigResource, Vec<AlterConfig>)| {
            let (resource_type, resource_name) = resource.to_wire();
            let configs = changes.iter().map(AlterConfig::to_wire).collect();
            AlterConfigsResource { resource_type, resource_name, configs, ..Default::default() }
        };
        self.call(&cluster, "IncrementalAlterConfigs")
            .per_item(
                changes.iter().map(|(resource, _)| resource.clone()),
                |resource| resource.route(Route::Controller),
                0..=1,
                |_, resources| IncrementalAlterConfigsRequest {
                    resources: changes.iter().filter(|(it, _)| resources.contains(it)).map(wanted).collect(),
                    validate_only,
                    ..Default::default()
                },
                |response, _, _| {
                    let answers = response.responses.into_iter().filter_map(|it| {
                        let resource = ConfigResource::from_wire(it.resource_type, it.resource_name)?;
                        Some((resource, answer(it.error_code, it.error_message, ())))
                    });
                    answers.collect()
                },
            )
            .await
    }

    /// A topic's settings, those that are the broker's too; secret ones are absent.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::{NewTopic, TopicName};
    ///
    /// admin.create_topics(&[NewTopic::new("orders", 1)]).await?;
    /// assert_eq!(admin.topic_configs(&TopicName::from("orders")).await?["cleanup.policy"], "delete");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn topic_configs(&self, topic: &TopicName) -> Result<BTreeMap<String, String>, AdminError> {
        let resource = ConfigResource::Topic(topic.clone());
        let mut described = self.describe_configs(std::slice::from_ref(&resource)).await?;
        let entries = described.remove(&resource).transpose()?.unwrap_or_default();
        Ok(entries.into_iter().filter_map(|(name, entry)| Some((name, entry.value?))).collect())
    }

    /// What has configs of its own that are not the default's: groups and subscriptions to metrics, beside topics and brokers.
    ///
    /// Source: KIP-1142. The broker's version 0 knows subscriptions to metrics only.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::admin::{AlterConfig, ConfigResource};
    ///
    /// let payments = ConfigResource::Group("payments".into());
    /// let change = AlterConfig::set("consumer.session.timeout.ms", "50000");
    /// admin.alter_configs(&[(payments.clone(), vec![change])]).await?.remove(&payments).expect("an answer")?;
    /// assert!(admin.list_config_resources().await?.contains(&payments));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn list_config_resources(&self) -> Result<Vec<ConfigResource>, AdminError> {
        let cluster = self.client.cluster();
        let listed = self.call(&cluster, "ListConfigResources").one(
            Whole("the cluster"),
            Route::Any,
            0..=1,
            |_| ListConfigResourcesRequest::default(),
            |response, _| answer(response.error_code, None, response.config_resources),
        );
        let named =
            listed.await?.into_iter().filter_map(|it| ConfigResource::from_wire(it.resource_type, it.resource_name));
        let mut resources: Vec<ConfigResource> = named.collect();
        resources.sort();
        Ok(resources)
    }
}

fn entry(config: DescribeConfigsResourceResult) -> (String, ConfigEntry) {
    let synonyms = config.synonyms.into_iter().map(|it| ConfigSynonym {
        name: it.name,
        value: it.value,
        source: ConfigSource::from_wire(it.source),
    });
    let entry = ConfigEntry {
        value: config.value,
        source: ConfigSource::from_wire(config.config_source),
        is_sensitive: config.is_sensitive,
        is_read_only: config.read_only,
        config_type: ConfigType::from_wire(config.config_type),
        synonyms: synonyms.collect(),
        documentation: config.documentation,
    };
    (config.name, entry)
}
