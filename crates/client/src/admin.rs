//! The administrator's calls: topics, offsets, groups, the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use atonce_client_core::classify::{Operation, Verdict};
use atonce_client_core::error::Refusal;
use atonce_kernel::{GroupId, GroupInstanceId, Offset, Timestamp, TopicId, TopicName, TopicPartition};
use atonce_protocol::messages::create_partitions_request::{CreatePartitionsRequest, CreatePartitionsTopic};
use atonce_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig, CreateTopicsRequest};
use atonce_protocol::messages::delete_groups_request::DeleteGroupsRequest;
use atonce_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic,
};
use atonce_protocol::messages::delete_topics_request::{DeleteTopicState, DeleteTopicsRequest};
use atonce_protocol::messages::describe_configs_request::{DescribeConfigsRequest, DescribeConfigsResource};
use atonce_protocol::messages::leave_group_request::{LeaveGroupRequest, MemberIdentity};
use atonce_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use atonce_protocol::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use atonce_protocol::messages::metadata_response::MetadataResponsePartition;
use atonce_protocol::messages::offset_fetch_request::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use atonce_protocol::{ErrorCode, Request};
use tokio::time::Instant;

use crate::client::Client;
use crate::cluster::{Cluster, CoordinatorOf, FindError, Lane};
use crate::consumer::Isolation;
use crate::error::AdminError;
use crate::link::Lost;

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

/// The administrator's calls. Each asks the node that can answer, and asks again what may be asked again, for at most the
/// [`call_timeout`](Self::call_timeout).
///
/// ```no_run
/// # async fn example() -> Result<(), atonce_client::Error> {
/// use atonce_client::{Client, NewTopic};
///
/// let client = Client::builder("localhost:9092").connect().await?;
/// for (topic, created) in client.admin().create_topics(&[NewTopic::new("orders", 8)]).await? {
///     match created {
///         Ok(id) => println!("{topic} has the id {id}"),
///         Err(error) if error.is_already_there() => println!("{topic} was there"),
///         Err(error) => return Err(error.into()),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Admin {
    client: Client,
    timeout: Duration,
}

/// How long a call waits for the cluster unless told otherwise.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// How long to wait before a call is repeated.
const RETRY_BACKOFF: Duration = Duration::from_millis(100);

/// A topic, as a resource that has configs.
const RESOURCE_TOPIC: i8 = 2;

/// What one attempt of a call came to.
enum Attempt<T> {
    Done(T),
    /// Ask again; after `refresh`, of whoever answers for it then.
    Again {
        refresh: bool,
        cause: AdminError,
    },
    Failed(AdminError),
}

impl<T> Attempt<T> {
    /// What to do about a refusal of one item.
    fn of_refusal(subject: impl fmt::Display, operation: Operation, code: ErrorCode, message: Option<String>) -> Self {
        let refusal = Refusal::with_message(operation, code, message);
        let verdict = refusal.verdict();
        let cause = AdminError::Refused { subject: subject.to_string(), refusal };
        match verdict {
            Verdict::Retry => Self::Again { refresh: false, cause },
            Verdict::RefreshThenRetry => Self::Again { refresh: true, cause },
            Verdict::Done | Verdict::Abort | Verdict::Reinitialize | Verdict::Fatal => Self::Failed(cause),
        }
    }
}

/// A call that is repeated until it is done, fails, or has taken too long.
struct Attempts {
    operation: &'static str,
    timeout: Duration,
    deadline: Instant,
    was_sent: bool,
}

impl Attempts {
    fn new(operation: &'static str, timeout: Duration) -> Self {
        Self { operation, timeout, deadline: Instant::now() + timeout, was_sent: false }
    }

    /// What to do after one attempt: `Some` is the call's result; `None` says once more, and has waited.
    async fn next<T>(
        &mut self,
        cluster: &Cluster,
        once: Result<Result<Attempt<T>, Lost>, tokio::time::error::Elapsed>,
    ) -> Option<Result<T, AdminError>> {
        let error = match once {
            Ok(Ok(Attempt::Done(value))) => return Some(Ok(value)),
            Ok(Ok(Attempt::Failed(error))) => return Some(Err(error)),
            Ok(Ok(Attempt::Again { refresh, cause })) => {
                if refresh {
                    let _ = tokio::time::timeout_at(self.deadline, cluster.refresh(Some(&[]))).await;
                }
                cause
            }
            Ok(Err(lost)) => {
                self.was_sent |= lost.was_sent;
                timed_out(self.operation, self.timeout, lost.cause, self.was_sent)
            }
            Err(_) => return Some(Err(timed_out(self.operation, self.timeout, "no answer".to_owned(), true))),
        };
        if Instant::now() + RETRY_BACKOFF >= self.deadline {
            return Some(Err(error));
        }
        tokio::time::sleep(RETRY_BACKOFF).await;
        None
    }
}

/// Repeats a body until it is done, fails, or has taken too long: `attempt!(cluster, "Operation", timeout, |cluster| { … })`.
///
/// A macro, for a function that takes an async closure gives a future that cannot be spawned: the compiler finds that it is
/// `Send` for some lifetime, and asks for all.
macro_rules! attempt {
    ($of:expr, $operation:expr, $timeout:expr, |$cluster:ident| $body:block) => {{
        // Bound by reference to a name of its own, so that a shared handle lives as long as the call.
        let held = $of;
        let $cluster: &Cluster = &held;
        let mut attempts = Attempts::new($operation, $timeout);
        loop {
            let once = tokio::time::timeout_at(attempts.deadline, async { $body }).await;
            if let Some(result) = attempts.next($cluster, once).await {
                break result;
            }
        }
    }};
}

/// As [`attempt!`], of a group's coordinator.
macro_rules! attempt_at_group {
    ($of:expr, $operation:expr, $group:expr, $timeout:expr, |$cluster:ident, $node:ident| $body:block) => {{
        let coordinator_of = CoordinatorOf::Group($group.as_str().to_owned());
        attempt!($of, $operation, $timeout, |$cluster| {
            match $cluster.coordinator(&coordinator_of, false).await {
                Ok($node) => {
                    let attempt: Result<Attempt<_>, Lost> = async { $body }.await;
                    if matches!(attempt, Err(_) | Ok(Attempt::Again { refresh: true, .. })) {
                        $cluster.forget_coordinator(&coordinator_of);
                    }
                    attempt
                }
                Err(FindError::Lost(lost)) => Err(lost),
                Err(FindError::Refused { code, message }) => {
                    Ok(Attempt::of_refusal($group, Operation::FindCoordinator, code, message))
                }
            }
        })
    }};
}

impl Admin {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, timeout: CALL_TIMEOUT }
    }

    /// How long each call may take; 1 minute unless set.
    #[must_use]
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Creates topics. A topic that exists is refused by itself ([`AdminError::is_already_there`]), the others are created.
    ///
    /// Retry: a topic that was created by an attempt whose answer was lost is refused as one that exists.
    pub async fn create_topics(&self, topics: &[NewTopic]) -> Result<PerItem<TopicName, TopicId>, AdminError> {
        let request = CreateTopicsRequest {
            topics: topics
                .iter()
                .map(|topic| CreatableTopic {
                    name: topic.name.as_str().to_owned(),
                    num_partitions: topic.partitions,
                    replication_factor: topic.replication_factor,
                    configs: topic
                        .configs
                        .iter()
                        .map(|(name, value)| CreatableTopicConfig {
                            name: name.clone(),
                            value: Some(value.clone()),
                            ..Default::default()
                        })
                        .collect(),
                    ..Default::default()
                })
                .collect(),
            timeout_ms: self.timeout_ms(),
            ..Default::default()
        };
        let mut results = PerItem::new();
        attempt!(self.client.cluster(), "CreateTopics", self.timeout, |cluster| {
            // What was done by an earlier attempt is not asked for again.
            let mut request = request.clone();
            request.topics.retain(|topic| !results.contains_key(topic.name.as_str()));
            let node = controller(cluster);
            let (response, _) = ask(cluster, node, 2..=7, request).await?;
            let mut again = None;
            for topic in response.topics {
                let name = TopicName::from(topic.name);
                let code = ErrorCode::from_wire(topic.error_code);
                if code == ErrorCode::None {
                    results.insert(name, Ok(topic.topic_id));
                    continue;
                }
                match Attempt::<()>::of_refusal(&name, Operation::Admin, code, topic.error_message) {
                    Attempt::Again { refresh, cause } => again = Some(Attempt::Again { refresh, cause }),
                    Attempt::Failed(error) => drop(results.insert(name, Err(error))),
                    Attempt::Done(()) => {}
                }
            }
            Ok(again.unwrap_or(Attempt::Done(())))
        })?;
        let names: Vec<TopicName> = results.iter().filter(|(_, it)| it.is_ok()).map(|(name, _)| name.clone()).collect();
        self.wait_for_topics(&names).await?;
        Ok(results)
    }

    /// Waits until the brokers' metadata shows topics that were created, so that what comes next finds them.
    async fn wait_for_topics(&self, names: &[TopicName]) -> Result<(), AdminError> {
        if names.is_empty() {
            return Ok(());
        }
        attempt!(self.client.cluster(), "Metadata", self.timeout, |cluster| {
            cluster.refresh(Some(names)).await?;
            let missing = cluster.with_metadata(|metadata| {
                let has_leaders = |name: &&TopicName| {
                    metadata.topic(name).is_some_and(|topic| topic.leaders.iter().all(|leader| leader.node >= 0))
                };
                names.iter().find(|name| !has_leaders(name)).cloned()
            });
            Ok(match missing {
                None => Attempt::Done(()),
                Some(name) => Attempt::of_refusal(name, Operation::Metadata, ErrorCode::LeaderNotAvailable, None),
            })
        })
    }

    /// Deletes topics with all their records. A topic that does not exist is refused by itself ([`AdminError::is_not_there`]).
    pub async fn delete_topics(&self, topics: &[TopicName]) -> Result<PerItem<TopicName, ()>, AdminError> {
        let mut results = PerItem::new();
        attempt!(self.client.cluster(), "DeleteTopics", self.timeout, |cluster| {
            let left: Vec<&TopicName> = topics.iter().filter(|name| !results.contains_key(name.as_str())).collect();
            let make = |version| DeleteTopicsRequest {
                topics: if version >= 6 {
                    let named = |name: &&TopicName| DeleteTopicState {
                        name: Some(name.as_str().to_owned()),
                        ..Default::default()
                    };
                    left.iter().map(named).collect()
                } else {
                    Vec::new()
                },
                topic_names: if version < 6 {
                    left.iter().map(|name| name.as_str().to_owned()).collect()
                } else {
                    Vec::new()
                },
                timeout_ms: self.timeout_ms(),
                ..Default::default()
            };
            let node = controller(cluster);
            let (response, _) = match node {
                Some(node) => cluster.ask(node, Lane::SHARED, 1..=6, make).await?,
                None => cluster.ask_any(1..=6, make).await?,
            };
            let mut again = None;
            for topic in response.responses {
                let Some(name) = topic.name.map(TopicName::from) else { continue };
                let code = ErrorCode::from_wire(topic.error_code);
                if code == ErrorCode::None {
                    results.insert(name, Ok(()));
                    continue;
                }
                match Attempt::<()>::of_refusal(&name, Operation::Admin, code, topic.error_message) {
                    Attempt::Again { refresh, cause } => again = Some(Attempt::Again { refresh, cause }),
                    Attempt::Failed(error) => drop(results.insert(name, Err(error))),
                    Attempt::Done(()) => {}
                }
            }
            Ok(again.unwrap_or(Attempt::Done(())))
        })?;
        Ok(results)
    }

    /// All topics, by name.
    pub async fn list_topics(&self) -> Result<Vec<TopicListing>, AdminError> {
        attempt!(self.client.cluster(), "Metadata", self.timeout, |cluster| {
            let request = MetadataRequest { topics: None, allow_auto_topic_creation: false, ..Default::default() };
            let (response, _) = cluster.ask_any(4..=i16::MAX, |_| request).await?;
            let mut topics: Vec<TopicListing> = response
                .topics
                .into_iter()
                .filter_map(|topic| {
                    Some(TopicListing {
                        name: TopicName::from(topic.name?),
                        id: topic.topic_id,
                        partitions: i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX),
                        is_internal: topic.is_internal,
                    })
                })
                .collect();
            topics.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(Attempt::Done(topics))
        })
    }

    /// Topics with their partitions. A topic that does not exist is refused by itself ([`AdminError::is_not_there`]).
    pub async fn describe_topics(
        &self,
        topics: &[TopicName],
    ) -> Result<PerItem<TopicName, TopicDescription>, AdminError> {
        attempt!(self.client.cluster(), "Metadata", self.timeout, |cluster| {
            let named =
                |name: &TopicName| MetadataRequestTopic { name: Some(name.as_str().to_owned()), ..Default::default() };
            let request = MetadataRequest {
                topics: Some(topics.iter().map(named).collect()),
                allow_auto_topic_creation: false,
                ..Default::default()
            };
            let (response, _) = cluster.ask_any(4..=i16::MAX, |_| request).await?;
            let mut results = PerItem::new();
            for topic in response.topics {
                let Some(name) = topic.name.map(TopicName::from) else { continue };
                let code = ErrorCode::from_wire(topic.error_code);
                let result = match Attempt::<()>::of_refusal(&name, Operation::Admin, code, None) {
                    _ if code == ErrorCode::None => Ok(TopicDescription {
                        name: name.clone(),
                        id: topic.topic_id,
                        partitions: described(topic.partitions),
                        is_internal: topic.is_internal,
                    }),
                    Attempt::Again { refresh, cause } => return Ok(Attempt::Again { refresh, cause }),
                    Attempt::Failed(error) => Err(error),
                    Attempt::Done(()) => continue,
                };
                results.insert(name, result);
            }
            Ok(Attempt::Done(results))
        })
    }

    /// Raises the number of partitions of a topic.
    pub async fn create_partitions(&self, topic: &TopicName, partitions: i32) -> Result<(), AdminError> {
        attempt!(self.client.cluster(), "CreatePartitions", self.timeout, |cluster| {
            let request = CreatePartitionsRequest {
                topics: vec![CreatePartitionsTopic {
                    name: topic.as_str().to_owned(),
                    count: partitions,
                    assignments: None,
                    ..Default::default()
                }],
                timeout_ms: self.timeout_ms(),
                ..Default::default()
            };
            let (response, _) = ask(cluster, controller(cluster), 0..=3, request).await?;
            for result in response.results {
                let code = ErrorCode::from_wire(result.error_code);
                if code != ErrorCode::None {
                    return Ok(Attempt::of_refusal(topic, Operation::Admin, code, result.error_message));
                }
            }
            Ok(Attempt::Done(()))
        })
    }

    /// A topic's settings, those that are the broker's too; secret ones are absent.
    pub async fn topic_configs(&self, topic: &TopicName) -> Result<BTreeMap<String, String>, AdminError> {
        attempt!(self.client.cluster(), "DescribeConfigs", self.timeout, |cluster| {
            let request = DescribeConfigsRequest {
                resources: vec![DescribeConfigsResource {
                    resource_type: RESOURCE_TOPIC,
                    resource_name: topic.as_str().to_owned(),
                    configuration_keys: None,
                    ..Default::default()
                }],
                ..Default::default()
            };
            let (response, _) = cluster.ask_any(1..=4, |_| request).await?;
            let Some(result) = response.results.into_iter().next() else {
                return Ok(Attempt::of_refusal(topic, Operation::Admin, ErrorCode::UnknownServerError, None));
            };
            match ErrorCode::from_wire(result.error_code) {
                ErrorCode::None => {}
                code => return Ok(Attempt::of_refusal(topic, Operation::Admin, code, result.error_message)),
            }
            let pairs = result.configs.into_iter().filter_map(|config| Some((config.name, config.value?)));
            Ok(Attempt::Done(pairs.collect()))
        })
    }

    /// Looks offsets up, at the partitions' leaders.
    pub async fn list_offsets(
        &self,
        partitions: &[(TopicPartition, OffsetSpec)],
        isolation: Isolation,
    ) -> Result<BTreeMap<TopicPartition, ListedOffset>, AdminError> {
        list_offsets(self.client.cluster().as_ref(), partitions, isolation, self.timeout).await
    }

    /// What a group has committed. Partitions without a committed offset are absent. With `require_stable` it waits for
    /// transactions that are about to change the answer.
    pub async fn committed_offsets(
        &self,
        group: &GroupId,
        partitions: &[TopicPartition],
        require_stable: bool,
    ) -> Result<BTreeMap<TopicPartition, CommittedOffset>, AdminError> {
        committed_offsets(self.client.cluster().as_ref(), Lane::SHARED, group, partitions, require_stable, self.timeout)
            .await
    }

    /// Makes records below these offsets unreadable. Answers the first offset that remains.
    pub async fn delete_records(
        &self,
        before: &[(TopicPartition, Offset)],
    ) -> Result<PerItem<TopicPartition, Offset>, AdminError> {
        let topics = topics_of(before.iter().map(|(it, _)| it));
        let mut results = PerItem::new();
        attempt!(self.client.cluster(), "DeleteRecords", self.timeout, |cluster| {
            cluster.ensure_topics(&topics).await?;
            let left: Vec<_> = before.iter().filter(|(it, _)| !results.contains_key(it)).cloned().collect();
            let (by_node, mut again) = by_leader(cluster, left);
            for (node, offsets) in by_node {
                let request = DeleteRecordsRequest {
                    topics: grouped(offsets)
                        .into_iter()
                        .map(|(name, partitions)| DeleteRecordsTopic {
                            name: name.into(),
                            partitions: partitions
                                .into_iter()
                                .map(|(partition_index, offset)| DeleteRecordsPartition {
                                    partition_index,
                                    offset,
                                    ..Default::default()
                                })
                                .collect(),
                            ..Default::default()
                        })
                        .collect(),
                    timeout_ms: self.timeout_ms(),
                    ..Default::default()
                };
                let (response, _) = ask(cluster, Some(node), 0..=2, request).await?;
                for topic in response.topics {
                    let name = TopicName::from(topic.name);
                    for partition in topic.partitions {
                        let topic_partition = TopicPartition::new(name.clone(), partition.partition_index);
                        let code = ErrorCode::from_wire(partition.error_code);
                        if code == ErrorCode::None {
                            results.insert(topic_partition, Ok(partition.low_watermark));
                            continue;
                        }
                        match Attempt::<()>::of_refusal(&topic_partition, Operation::Admin, code, None) {
                            Attempt::Again { refresh, cause } => again = Some(Attempt::Again { refresh, cause }),
                            Attempt::Failed(error) => drop(results.insert(topic_partition, Err(error))),
                            Attempt::Done(()) => {}
                        }
                    }
                }
            }
            if again.is_some() {
                cluster.refresh(Some(&topics)).await?;
            }
            Ok(again.unwrap_or(Attempt::Done(())))
        })?;
        Ok(results)
    }

    /// The cluster.
    pub async fn describe_cluster(&self) -> Result<ClusterDescription, AdminError> {
        attempt!(self.client.cluster(), "Metadata", self.timeout, |cluster| {
            cluster.refresh(Some(&[])).await?;
            let features = cluster.features();
            Ok(Attempt::Done(cluster.with_metadata(|metadata| {
                ClusterDescription {
                    cluster_id: metadata.cluster_id().unwrap_or_default().to_owned(),
                    controller: metadata.controller().unwrap_or(-1),
                    brokers: metadata
                        .brokers()
                        .iter()
                        .map(|(id, broker)| BrokerDescription {
                            id: *id,
                            host: broker.host.clone(),
                            port: broker.port,
                            rack: broker.rack.clone(),
                        })
                        .collect(),
                    features,
                }
            })))
        })
    }

    /// Takes static members out of a group, as if their sessions had ended. One that is not in it is refused by itself
    /// ([`AdminError::is_not_there`]).
    pub async fn remove_group_members(
        &self,
        group: &GroupId,
        instance_ids: &[GroupInstanceId],
    ) -> Result<PerItem<GroupInstanceId, ()>, AdminError> {
        attempt_at_group!(self.client.cluster(), "LeaveGroup", group, self.timeout, |cluster, node| {
            let request = LeaveGroupRequest {
                group_id: group.as_str().to_owned(),
                members: instance_ids
                    .iter()
                    .map(|instance_id| MemberIdentity {
                        group_instance_id: Some(instance_id.as_str().to_owned()),
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            };
            let (response, _) = ask(cluster, Some(node), 3..=5, request).await?;
            let code = ErrorCode::from_wire(response.error_code);
            if code != ErrorCode::None {
                return Ok(Attempt::of_refusal(group, Operation::Admin, code, None));
            }
            let results = response.members.into_iter().map(|member| {
                let instance_id = GroupInstanceId::from(member.group_instance_id.unwrap_or_default());
                let result =
                    ErrorCode::from_wire(member.error_code).into_result().map_err(|code| AdminError::Refused {
                        subject: instance_id.to_string(),
                        refusal: Refusal::new(Operation::Admin, code),
                    });
                (instance_id, result)
            });
            Ok(Attempt::Done(results.collect()))
        })
    }

    /// Deletes groups that have no members, with their offsets.
    pub async fn delete_groups(&self, groups: &[GroupId]) -> Result<PerItem<GroupId, ()>, AdminError> {
        let mut results = PerItem::new();
        for group in groups {
            let deleted =
                attempt_at_group!(self.client.cluster(), "DeleteGroups", group, self.timeout, |cluster, node| {
                    let request =
                        DeleteGroupsRequest { groups_names: vec![group.as_str().to_owned()], ..Default::default() };
                    let (response, _) = ask(cluster, Some(node), 0..=3, request).await?;
                    for result in response.results {
                        let code = ErrorCode::from_wire(result.error_code);
                        if code != ErrorCode::None {
                            return Ok(Attempt::of_refusal(group, Operation::Admin, code, result.error_message));
                        }
                    }
                    Ok(Attempt::Done(()))
                });
            results.insert(group.clone(), deleted);
        }
        Ok(results)
    }

    fn timeout_ms(&self) -> i32 {
        i32::try_from(self.timeout.as_millis()).unwrap_or(i32::MAX)
    }
}

fn timed_out(operation: &'static str, waited: Duration, cause: String, may_have_taken_effect: bool) -> AdminError {
    AdminError::TimedOut { operation, waited, cause, may_have_taken_effect }
}

/// Asks a node, or any if there is none to ask.
async fn ask<R: Request>(
    cluster: &Cluster,
    node: Option<i32>,
    versions: RangeInclusive<i16>,
    request: R,
) -> Result<(R::Response, i16), Lost> {
    match node {
        Some(node) => cluster.ask(node, Lane::SHARED, versions, |_| request).await,
        None => cluster.ask_any(versions, |_| request).await,
    }
}

fn controller(cluster: &Cluster) -> Option<i32> {
    cluster.with_metadata(|metadata| metadata.controller().filter(|node| metadata.brokers().contains_key(node)))
}

fn described(mut partitions: Vec<MetadataResponsePartition>) -> Vec<PartitionDescription> {
    partitions.sort_by_key(|partition| partition.partition_index);
    partitions
        .into_iter()
        .map(|partition| PartitionDescription {
            partition: partition.partition_index,
            leader: partition.leader_id,
            leader_epoch: partition.leader_epoch,
            replicas: partition.replica_nodes,
            in_sync_replicas: partition.isr_nodes,
        })
        .collect()
}

fn topics_of<'a>(partitions: impl Iterator<Item = &'a TopicPartition>) -> Vec<TopicName> {
    let names: BTreeSet<TopicName> = partitions.map(|it| it.topic.clone()).collect();
    names.into_iter().collect()
}

/// Items by the node that leads their partitions.
type ByNode<T> = BTreeMap<i32, Vec<(TopicPartition, T)>>;

/// Items by their partitions' leaders; and what to do about those whose leader is not known.
fn by_leader<T, U>(cluster: &Cluster, items: Vec<(TopicPartition, T)>) -> (ByNode<T>, Option<Attempt<U>>) {
    let mut by_node = ByNode::new();
    let mut again = None;
    for (topic_partition, item) in items {
        match cluster.with_metadata(|metadata| metadata.leader(&topic_partition)) {
            Some(leader) => by_node.entry(leader.node).or_default().push((topic_partition, item)),
            None => {
                let code = cluster.with_metadata(|metadata| metadata.refusal(&topic_partition.topic));
                let code = code.unwrap_or(ErrorCode::LeaderNotAvailable);
                let cause = AdminError::Refused {
                    subject: topic_partition.to_string(),
                    refusal: Refusal::new(Operation::Metadata, code),
                };
                again = Some(Attempt::Again { refresh: false, cause });
            }
        }
    }
    (by_node, again)
}

/// Items by topic; they come sorted by partition or not at all in order.
fn grouped<T>(items: Vec<(TopicPartition, T)>) -> BTreeMap<TopicName, Vec<(i32, T)>> {
    let mut topics: BTreeMap<TopicName, Vec<(i32, T)>> = BTreeMap::new();
    for (topic_partition, item) in items {
        topics.entry(topic_partition.topic).or_default().push((topic_partition.partition, item));
    }
    topics
}

/// The number by which the protocol asks for an offset.
fn timestamp_of(spec: OffsetSpec) -> i64 {
    match spec {
        OffsetSpec::Latest => -1,
        OffsetSpec::Earliest => -2,
        OffsetSpec::Timestamp(timestamp_ms) => timestamp_ms,
    }
}

/// As [`Admin::list_offsets`], for the consumer too.
pub(crate) async fn list_offsets(
    cluster: &Cluster,
    partitions: &[(TopicPartition, OffsetSpec)],
    isolation: Isolation,
    timeout: Duration,
) -> Result<BTreeMap<TopicPartition, ListedOffset>, AdminError> {
    let topics = topics_of(partitions.iter().map(|(it, _)| it));
    let mut results: BTreeMap<TopicPartition, ListedOffset> = BTreeMap::new();
    attempt!(cluster, "ListOffsets", timeout, |cluster| {
        cluster.ensure_topics(&topics).await?;
        let left: Vec<_> = partitions.iter().filter(|(it, _)| !results.contains_key(it)).cloned().collect();
        let (by_node, mut again) = by_leader(cluster, left);
        for (node, specs) in by_node {
            let request = ListOffsetsRequest {
                replica_id: -1,
                isolation_level: isolation.level(),
                topics: grouped(specs)
                    .into_iter()
                    .map(|(name, partitions)| ListOffsetsTopic {
                        name: name.into(),
                        partitions: partitions
                            .into_iter()
                            .map(|(partition_index, spec)| ListOffsetsPartition {
                                partition_index,
                                timestamp: timestamp_of(spec),
                                ..Default::default()
                            })
                            .collect(),
                        ..Default::default()
                    })
                    .collect(),
                timeout_ms: i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX),
                ..Default::default()
            };
            let (response, _) = ask(cluster, Some(node), 2..=10, request).await?;
            for topic in response.topics {
                let name = TopicName::from(topic.name);
                for partition in topic.partitions {
                    let topic_partition = TopicPartition::new(name.clone(), partition.partition_index);
                    let code = ErrorCode::from_wire(partition.error_code);
                    if code == ErrorCode::None {
                        let listed = ListedOffset {
                            offset: (partition.offset >= 0).then_some(partition.offset),
                            timestamp: (partition.timestamp >= 0).then_some(Timestamp(partition.timestamp)),
                            leader_epoch: partition.leader_epoch,
                        };
                        results.insert(topic_partition, listed);
                        continue;
                    }
                    match Attempt::of_refusal(&topic_partition, Operation::ListOffsets, code, None) {
                        failed @ Attempt::Failed(_) => return Ok(failed),
                        other @ (Attempt::Again { .. } | Attempt::Done(())) => again = Some(other),
                    }
                }
            }
        }
        if again.is_some() {
            cluster.refresh(Some(&topics)).await?;
        }
        Ok(again.unwrap_or(Attempt::Done(())))
    })?;
    Ok(results)
}

/// As [`Admin::committed_offsets`], for the consumer too.
pub(crate) async fn committed_offsets(
    cluster: &Cluster,
    lane: Lane,
    group: &GroupId,
    partitions: &[TopicPartition],
    require_stable: bool,
    timeout: Duration,
) -> Result<BTreeMap<TopicPartition, CommittedOffset>, AdminError> {
    let items = partitions.iter().map(|it| (it.clone(), ())).collect();
    let topics: Vec<(TopicName, Vec<i32>)> = grouped(items)
        .into_iter()
        .map(|(name, partitions)| (name, partitions.into_iter().map(|(partition, ())| partition).collect()))
        .collect();
    attempt_at_group!(cluster, "OffsetFetch", group, timeout, |cluster, node| {
        let make = |version| {
            if version >= 8 {
                OffsetFetchRequest {
                    groups: vec![OffsetFetchRequestGroup {
                        group_id: group.as_str().to_owned(),
                        topics: Some(
                            topics
                                .iter()
                                .map(|(name, partitions)| OffsetFetchRequestTopics {
                                    name: name.as_str().to_owned(),
                                    partition_indexes: partitions.clone(),
                                    ..Default::default()
                                })
                                .collect(),
                        ),
                        ..Default::default()
                    }],
                    require_stable,
                    ..Default::default()
                }
            } else {
                OffsetFetchRequest {
                    group_id: group.as_str().to_owned(),
                    topics: Some(
                        topics
                            .iter()
                            .map(|(name, partitions)| OffsetFetchRequestTopic {
                                name: name.as_str().to_owned(),
                                partition_indexes: partitions.clone(),
                                ..Default::default()
                            })
                            .collect(),
                    ),
                    require_stable,
                    ..Default::default()
                }
            }
        };
        // Version 7 can wait for what is pending; 10 names topics by id.
        let (response, version) = cluster.ask(node, lane, 7..=9, make).await?;
        let mut results = BTreeMap::new();
        let (code, answers): (i16, Vec<Answer>) = if version >= 8 {
            let Some(found) = response.groups.into_iter().next() else {
                return Ok(Attempt::of_refusal(group, Operation::OffsetFetch, ErrorCode::UnknownServerError, None));
            };
            let answers = found.topics.into_iter().flat_map(|topic| {
                let name = TopicName::from(topic.name);
                topic.partitions.into_iter().map(move |it| {
                    let topic_partition = TopicPartition::new(name.clone(), it.partition_index);
                    let committed = (it.committed_offset, it.committed_leader_epoch, it.metadata);
                    (topic_partition, it.error_code, committed)
                })
            });
            (found.error_code, answers.collect())
        } else {
            let answers = response.topics.into_iter().flat_map(|topic| {
                let name = TopicName::from(topic.name);
                topic.partitions.into_iter().map(move |it| {
                    let topic_partition = TopicPartition::new(name.clone(), it.partition_index);
                    let committed = (it.committed_offset, it.committed_leader_epoch, it.metadata);
                    (topic_partition, it.error_code, committed)
                })
            });
            (response.error_code, answers.collect())
        };
        let code = ErrorCode::from_wire(code);
        if code != ErrorCode::None {
            return Ok(Attempt::of_refusal(group, Operation::OffsetFetch, code, None));
        }
        for (topic_partition, code, (offset, leader_epoch, metadata)) in answers {
            let code = ErrorCode::from_wire(code);
            if code != ErrorCode::None {
                return Ok(Attempt::of_refusal(topic_partition, Operation::OffsetFetch, code, None));
            }
            if offset >= 0 {
                let metadata = metadata.unwrap_or_default();
                results.insert(topic_partition, CommittedOffset { offset, leader_epoch, metadata });
            }
        }
        Ok(Attempt::Done(results))
    })
}

/// Partition, error code, and offset with leader epoch and metadata.
type Answer = (TopicPartition, i16, (Offset, i32, Option<String>));
