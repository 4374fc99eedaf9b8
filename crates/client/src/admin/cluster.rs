//! The cluster: its brokers, their folders, its quorum.

use std::collections::BTreeMap;

use atonce_client_core::error::Refusal;
use atonce_kernel::{Offset, Timestamp, TopicName, TopicPartition, Uuid};
use atonce_protocol::ErrorCode;
use atonce_protocol::messages::describe_cluster_request::DescribeClusterRequest;
use atonce_protocol::messages::describe_cluster_response::DescribeClusterResponse;
use atonce_protocol::messages::describe_log_dirs_request::{DescribableLogDirTopic, DescribeLogDirsRequest};
use atonce_protocol::messages::describe_log_dirs_response::DescribeLogDirsResult;
use atonce_protocol::messages::describe_quorum_request::{self, DescribeQuorumRequest};
use atonce_protocol::messages::describe_quorum_response::{DescribeQuorumResponse, ReplicaState};
use atonce_protocol::messages::metadata_request::MetadataRequest;
use atonce_protocol::messages::metadata_response::MetadataResponse;

use super::call::{Answer, Route, Whole, answer, of_node};
use super::{Admin, PerItem, indexes};
use crate::error::{AdminError, Operation};

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

/// A folder in which a broker keeps logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogDirDescription {
    /// Where it is.
    pub path: String,
    /// Why it cannot be used, if so.
    pub refusal: Option<Refusal>,
    /// What is in it.
    pub replicas: BTreeMap<TopicPartition, ReplicaInLogDir>,
    /// How large its file system is, in bytes; `None` if the broker does not say.
    pub bytes: Option<u64>,
    /// How much of that is free, in bytes; `None` if the broker does not say.
    pub usable_bytes: Option<u64>,
}

/// A partition's log in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaInLogDir {
    /// How large it is, in bytes.
    pub bytes: i64,
    /// How far it is behind the high watermark, or, of a copy on its way, behind the one that it will replace.
    pub offset_lag: i64,
    /// Whether it is a copy on its way from another folder.
    pub is_future: bool,
}

/// The controllers' quorum, as of its leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumDescription {
    /// The leader's node.
    pub leader: i32,
    /// Its epoch.
    pub leader_epoch: i32,
    /// Up to where the cluster's metadata is agreed on.
    pub high_watermark: Offset,
    /// Those who have a vote.
    pub voters: Vec<QuorumReplica>,
    /// Those who only follow.
    pub observers: Vec<QuorumReplica>,
}

/// A node that follows the cluster's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuorumReplica {
    /// Its node.
    pub node: i32,
    /// The id of its folder; zero if the broker is too old to say.
    pub directory: Uuid,
    /// The end of its log.
    pub log_end_offset: Offset,
    /// When it fetched last; `None` if that is not known.
    pub last_fetch: Option<Timestamp>,
    /// When it had all there was; `None` if that is not known.
    pub last_caught_up: Option<Timestamp>,
}

impl Admin {
    /// The cluster, with its brokers.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// let cluster = admin.describe_cluster().await?;
    /// assert_eq!(format!("{}:{}", cluster.brokers[0].host, cluster.brokers[0].port), broker.bootstrap_servers());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn describe_cluster(&self) -> Result<ClusterDescription, AdminError> {
        let features = self.describe_features().await?.finalized;
        let cluster = self.client.cluster();
        let described = self.call(&cluster, "DescribeCluster").one(
            Whole("the cluster"),
            Route::Any,
            0..=2,
            |_| DescribeClusterRequest::default(),
            |response, _| answer(response.error_code, response.error_message.clone(), response),
        );
        match described.await {
            Ok(response) => Ok(of_cluster(response, features)),
            // Before Kafka 2.8.
            Err(AdminError::Unsupported { .. }) => Ok(of_metadata(self.ask_for_brokers().await?, features)),
            Err(error) => Err(error),
        }
    }

    /// The folders in which brokers keep logs, and how large these are; of all brokers, if none is named.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// let nodes: Vec<i32> = admin.describe_cluster().await?.brokers.iter().map(|it| it.id).collect();
    /// for (node, folders) in admin.describe_log_dirs(&nodes).await? {
    ///     for folder in folders? {
    ///         println!("{node}: {} holds {} logs", folder.path, folder.replicas.len());
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn describe_log_dirs(&self, nodes: &[i32]) -> Result<PerItem<i32, Vec<LogDirDescription>>, AdminError> {
        self.log_dirs(nodes, None).await
    }

    /// As [`describe_log_dirs`](Self::describe_log_dirs), of these partitions only.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::{NewTopic, TopicPartition};
    ///
    /// admin.create_topics(&[NewTopic::new("orders", 2)]).await?;
    /// let orders = TopicPartition::new("orders", 1);
    /// let folders = admin.describe_log_dirs_of(std::slice::from_ref(&orders)).await?.into_values().next().expect("a broker")?;
    /// assert_eq!(folders[0].replicas.keys().collect::<Vec<_>>(), [&orders]);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn describe_log_dirs_of(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<PerItem<i32, Vec<LogDirDescription>>, AdminError> {
        self.log_dirs(&[], Some(partitions)).await
    }

    async fn log_dirs(
        &self,
        nodes: &[i32],
        partitions: Option<&[TopicPartition]>,
    ) -> Result<PerItem<i32, Vec<LogDirDescription>>, AdminError> {
        let cluster = self.client.cluster();
        let nodes = if nodes.is_empty() { self.nodes().await? } else { nodes.to_vec() };
        let topic = |(topic, partitions): (String, Vec<i32>)| DescribableLogDirTopic {
            topic,
            partitions,
            ..Default::default()
        };
        self.call(&cluster, "DescribeLogDirs")
            .per_item(
                nodes,
                |node| Route::Node(*node),
                1..=5,
                |_, _| DescribeLogDirsRequest {
                    topics: partitions.map(|it| indexes(it).map(topic).collect()),
                    ..Default::default()
                },
                |response, _, nodes| {
                    let folders = response.results.into_iter().map(log_dir).collect();
                    of_node(nodes, answer(response.error_code, None, folders))
                },
            )
            .await
    }

    /// The controllers' quorum.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// let quorum = admin.describe_quorum().await?;
    /// assert!(quorum.voters.iter().any(|voter| voter.node == quorum.leader));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn describe_quorum(&self) -> Result<QuorumDescription, AdminError> {
        const CLUSTER_METADATA: &str = "__cluster_metadata";
        let cluster = self.client.cluster();
        let topic = || describe_quorum_request::TopicData {
            topic_name: CLUSTER_METADATA.to_owned(),
            partitions: vec![describe_quorum_request::PartitionData { partition_index: 0, ..Default::default() }],
            ..Default::default()
        };
        self.call(&cluster, "DescribeQuorum")
            .one(
                Whole("the controllers' quorum"),
                Route::Any,
                0..=2,
                |_| DescribeQuorumRequest { topics: vec![topic()], ..Default::default() },
                |response, _| quorum(response),
            )
            .await
    }

    /// The brokers' nodes, as of now.
    pub(super) async fn nodes(&self) -> Result<Vec<i32>, AdminError> {
        Ok(self.ask_for_brokers().await?.brokers.into_iter().map(|it| it.node_id).collect())
    }

    async fn ask_for_brokers(&self) -> Result<MetadataResponse, AdminError> {
        let cluster = self.client.cluster();
        let asked = self.call(&cluster, "Metadata").one(
            Whole("the cluster"),
            Route::Any,
            4..=13,
            |_| MetadataRequest { topics: Some(Vec::new()), allow_auto_topic_creation: false, ..Default::default() },
            |response, _| Ok(response),
        );
        let response = asked.await?;
        cluster.change_metadata(|metadata| metadata.handle_response(&response));
        Ok(response)
    }
}

fn of_cluster(response: DescribeClusterResponse, features: BTreeMap<String, i16>) -> ClusterDescription {
    let brokers = response.brokers.into_iter().map(|it| BrokerDescription {
        id: it.broker_id,
        host: it.host,
        port: it.port,
        rack: it.rack,
    });
    let (cluster_id, controller) = (response.cluster_id, response.controller_id);
    ClusterDescription { cluster_id, controller, brokers: sorted(brokers.collect()), features }
}

fn of_metadata(response: MetadataResponse, features: BTreeMap<String, i16>) -> ClusterDescription {
    let brokers = response.brokers.into_iter().map(|it| BrokerDescription {
        id: it.node_id,
        host: it.host,
        port: it.port,
        rack: it.rack,
    });
    let (cluster_id, controller) = (response.cluster_id.unwrap_or_default(), response.controller_id);
    ClusterDescription { cluster_id, controller, brokers: sorted(brokers.collect()), features }
}

fn sorted(mut brokers: Vec<BrokerDescription>) -> Vec<BrokerDescription> {
    brokers.sort_by_key(|it| it.id);
    brokers
}

fn log_dir(it: DescribeLogDirsResult) -> LogDirDescription {
    let code = ErrorCode::from_wire(it.error_code);
    let mut replicas = BTreeMap::new();
    for topic in it.topics {
        let name = TopicName::from(topic.name);
        for it in topic.partitions {
            let replica =
                ReplicaInLogDir { bytes: it.partition_size, offset_lag: it.offset_lag, is_future: it.is_future_key };
            replicas.insert(TopicPartition::new(name.clone(), it.partition_index), replica);
        }
    }
    LogDirDescription {
        path: it.log_dir,
        refusal: (code != ErrorCode::None).then(|| Refusal::new(Operation::Admin, code)),
        replicas,
        bytes: u64::try_from(it.total_bytes).ok(),
        usable_bytes: u64::try_from(it.usable_bytes).ok(),
    }
}

fn quorum(response: DescribeQuorumResponse) -> Answer<QuorumDescription> {
    answer(response.error_code, response.error_message, ())?;
    let Some(it) = response.topics.into_iter().flat_map(|topic| topic.partitions).next() else {
        return Err((ErrorCode::UnknownServerError, Some("the answer has no quorum".to_owned())));
    };
    let replica = |it: ReplicaState| QuorumReplica {
        node: it.replica_id,
        directory: it.replica_directory_id,
        log_end_offset: it.log_end_offset,
        last_fetch: (it.last_fetch_timestamp >= 0).then_some(Timestamp(it.last_fetch_timestamp)),
        last_caught_up: (it.last_caught_up_timestamp >= 0).then_some(Timestamp(it.last_caught_up_timestamp)),
    };
    let description = QuorumDescription {
        leader: it.leader_id,
        leader_epoch: it.leader_epoch,
        high_watermark: it.high_watermark,
        voters: it.current_voters.into_iter().map(replica).collect(),
        observers: it.observers.into_iter().map(replica).collect(),
    };
    answer(it.error_code, it.error_message, description)
}
