//! Topics and their partitions.

use std::collections::BTreeMap;

use atonce_client_core::classify::Operation;
use atonce_kernel::{TopicId, TopicName};
use atonce_protocol::ErrorCode;
use atonce_protocol::messages::create_partitions_request::{CreatePartitionsRequest, CreatePartitionsTopic};
use atonce_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
};
use atonce_protocol::messages::delete_topics_request::{DeleteTopicState, DeleteTopicsRequest};
use atonce_protocol::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use atonce_protocol::messages::metadata_response::{MetadataResponsePartition, MetadataResponseTopic};

use super::call::{Call, Route, Whole, answer};
use super::{Admin, PerItem};
use crate::error::AdminError;

/// A topic to be created.
///
/// ```
/// use atonce_client::NewTopic;
///
/// let topic = NewTopic::new("orders", 8).config("cleanup.policy", "compact");
/// assert_eq!(topic.configs["cleanup.policy"], "compact");
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
    /// Which brokers get a replica, by partition, the first one preferred as the leader; the cluster chooses where it is empty.
    pub assignments: BTreeMap<i32, Vec<i32>>,
}

impl NewTopic {
    /// A topic of so many partitions.
    pub fn new(name: impl Into<TopicName>, partitions: i32) -> Self {
        Self {
            name: name.into(),
            partitions,
            replication_factor: -1,
            configs: BTreeMap::new(),
            assignments: BTreeMap::new(),
        }
    }

    /// A topic whose replicas are where one says: brokers by partition.
    ///
    /// ```
    /// use atonce_client::NewTopic;
    ///
    /// let topic = NewTopic::assigned("orders", [(0, vec![1, 2]), (1, vec![2, 3])]);
    /// assert_eq!(topic.assignments[&1], [2, 3]);
    /// ```
    pub fn assigned(name: impl Into<TopicName>, assignments: impl IntoIterator<Item = (i32, Vec<i32>)>) -> Self {
        Self { assignments: assignments.into_iter().collect(), ..Self::new(name, -1) }
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

    fn to_wire(&self) -> CreatableTopic {
        let config = |(name, value): (&String, &String)| CreatableTopicConfig {
            name: name.clone(),
            value: Some(value.clone()),
            ..Default::default()
        };
        let assignment = |(partition_index, broker_ids): (&i32, &Vec<i32>)| CreatableReplicaAssignment {
            partition_index: *partition_index,
            broker_ids: broker_ids.clone(),
            ..Default::default()
        };
        CreatableTopic {
            name: self.name.as_str().to_owned(),
            num_partitions: self.partitions,
            replication_factor: self.replication_factor,
            configs: self.configs.iter().map(config).collect(),
            assignments: self.assignments.iter().map(assignment).collect(),
            ..Default::default()
        }
    }
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

impl Admin {
    /// Creates topics. A topic that exists is refused by itself ([`AdminError::is_already_there`]), the others are created.
    ///
    /// Retry: a topic that was created by an attempt whose answer was lost is refused as one that exists.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::{NewTopic, TopicName};
    ///
    /// let created = admin.create_topics(&[NewTopic::new("orders", 8), NewTopic::new("no good", 1)]).await?;
    /// assert!(created[&TopicName::from("orders")].is_ok());
    /// assert!(created[&TopicName::from("no good")].is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn create_topics(&self, topics: &[NewTopic]) -> Result<PerItem<TopicName, TopicId>, AdminError> {
        let results = self.ask_to_create(topics, false).await?;
        let names: Vec<TopicName> = results.iter().filter(|(_, it)| it.is_ok()).map(|(name, _)| name.clone()).collect();
        self.wait_for_topics(names, 0).await?;
        Ok(results)
    }

    /// Says whether topics could be created, and creates none.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::{NewTopic, TopicName};
    ///
    /// let topic = NewTopic::new("orders", 8).config("cleanup.policy", "shred");
    /// let error = admin.validate_topics(&[topic]).await?.remove("orders").expect("an answer").expect_err("is refused");
    /// assert!(error.to_string().contains("INVALID_CONFIG"), "{error}");
    /// assert!(admin.list_topics().await?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn validate_topics(&self, topics: &[NewTopic]) -> Result<PerItem<TopicName, ()>, AdminError> {
        let results = self.ask_to_create(topics, true).await?;
        Ok(results.into_iter().map(|(name, result)| (name, result.map(|_| ()))).collect())
    }

    async fn ask_to_create(
        &self,
        topics: &[NewTopic],
        validate_only: bool,
    ) -> Result<PerItem<TopicName, TopicId>, AdminError> {
        let cluster = self.client.cluster();
        self.call(&cluster, "CreateTopics")
            .per_item(
                topics.iter().map(|topic| topic.name.clone()),
                |_| Route::Controller,
                2..=7,
                |_, names| CreateTopicsRequest {
                    topics: topics.iter().filter(|it| names.contains(&it.name)).map(NewTopic::to_wire).collect(),
                    timeout_ms: self.timeout_ms(),
                    validate_only,
                    ..Default::default()
                },
                |response, _, _| {
                    let read = |it: atonce_protocol::messages::create_topics_response::CreatableTopicResult| {
                        (TopicName::from(it.name), answer(it.error_code, it.error_message, it.topic_id))
                    };
                    response.topics.into_iter().map(read).collect()
                },
            )
            .await
    }

    /// Waits until a broker's metadata shows topics with so many partitions and their leaders, so that what comes next finds them.
    async fn wait_for_topics(&self, names: Vec<TopicName>, partitions: usize) -> Result<(), AdminError> {
        let cluster = self.client.cluster();
        let call = Call { operation: Operation::Metadata, ..self.call(&cluster, "Metadata") };
        let topics = metadata(call, names, |topic| {
            let has_leaders = topic.partitions.iter().all(|partition| partition.leader_id >= 0);
            if has_leaders && topic.partitions.len() >= partitions {
                Ok(())
            } else {
                Err((ErrorCode::LeaderNotAvailable, None))
            }
        });
        topics.await?.into_values().collect()
    }

    /// Deletes topics with all their records. A topic that does not exist is refused by itself ([`AdminError::is_not_there`]).
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::TopicName;
    ///
    /// let nothing = TopicName::from("nothing");
    /// let deleted = admin.delete_topics(std::slice::from_ref(&nothing)).await?;
    /// assert!(deleted[&nothing].as_ref().is_err_and(|error| error.is_not_there()));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete_topics(&self, topics: &[TopicName]) -> Result<PerItem<TopicName, ()>, AdminError> {
        let cluster = self.client.cluster();
        let named = |name: &TopicName| DeleteTopicState { name: Some(name.as_str().to_owned()), ..Default::default() };
        self.call(&cluster, "DeleteTopics")
            .per_item(
                topics.iter().cloned(),
                |_| Route::Controller,
                1..=6,
                |version, names| {
                    let old = names.iter().map(|name| name.as_str().to_owned());
                    DeleteTopicsRequest {
                        topics: if version >= 6 { names.iter().map(named).collect() } else { Vec::new() },
                        topic_names: if version < 6 { old.collect() } else { Vec::new() },
                        timeout_ms: self.timeout_ms(),
                        ..Default::default()
                    }
                },
                |response, _, _| {
                    let answers = response.responses.into_iter().filter_map(|it| {
                        Some((TopicName::from(it.name?), answer(it.error_code, it.error_message, ())))
                    });
                    answers.collect()
                },
            )
            .await
    }

    /// Deletes topics by their ids: a topic that was deleted and made again under the same name is another one, and stays.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::{NewTopic, TopicName};
    ///
    /// let created = admin.create_topics(&[NewTopic::new("orders", 1)]).await?;
    /// let id = created[&TopicName::from("orders")].clone()?;
    /// admin.delete_topics_by_id(&[id]).await?.remove(&id).expect("an answer")?;
    /// assert!(admin.list_topics().await?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete_topics_by_id(&self, ids: &[TopicId]) -> Result<PerItem<TopicId, ()>, AdminError> {
        let cluster = self.client.cluster();
        let named = |id: &TopicId| DeleteTopicState { name: None, topic_id: *id, ..Default::default() };
        self.call(&cluster, "DeleteTopics")
            .per_item(
                ids.iter().copied(),
                |_| Route::Controller,
                6..=6,
                |_, ids| DeleteTopicsRequest {
                    topics: ids.iter().map(named).collect(),
                    timeout_ms: self.timeout_ms(),
                    ..Default::default()
                },
                |response, _, _| {
                    let answers = response.responses.into_iter();
                    answers.map(|it| (it.topic_id, answer(it.error_code, it.error_message, ()))).collect()
                },
            )
            .await
    }

    /// All topics, by name.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::NewTopic;
    ///
    /// admin.create_topics(&[NewTopic::new("orders", 8)]).await?;
    /// let topics = admin.list_topics().await?;
    /// assert_eq!((topics[0].name.as_str(), topics[0].partitions), ("orders", 8));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn list_topics(&self) -> Result<Vec<TopicListing>, AdminError> {
        let cluster = self.client.cluster();
        let topics = self.call(&cluster, "Metadata").one(
            Whole("the cluster"),
            Route::Any,
            4..=13,
            |_| MetadataRequest { topics: None, allow_auto_topic_creation: false, ..Default::default() },
            |response, _| Ok(response.topics),
        );
        let listing = |topic: MetadataResponseTopic| {
            Some(TopicListing {
                name: TopicName::from(topic.name?),
                id: topic.topic_id,
                partitions: i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX),
                is_internal: topic.is_internal,
            })
        };
        let mut topics: Vec<TopicListing> = topics.await?.into_iter().filter_map(listing).collect();
        topics.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(topics)
    }

    /// Topics with their partitions. A topic that does not exist is refused by itself ([`AdminError::is_not_there`]).
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::{NewTopic, TopicName};
    ///
    /// admin.create_topics(&[NewTopic::new("orders", 2)]).await?;
    /// let orders = TopicName::from("orders");
    /// let description = admin.describe_topics(std::slice::from_ref(&orders)).await?.remove(&orders).expect("an answer")?;
    /// assert_eq!(description.partitions[1].leader, description.partitions[1].replicas[0]);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn describe_topics(
        &self,
        topics: &[TopicName],
    ) -> Result<PerItem<TopicName, TopicDescription>, AdminError> {
        let cluster = self.client.cluster();
        let described = |topic: MetadataResponseTopic| {
            Ok(TopicDescription {
                name: TopicName::from(topic.name.unwrap_or_default()),
                id: topic.topic_id,
                partitions: described(topic.partitions),
                is_internal: topic.is_internal,
            })
        };
        metadata(self.call(&cluster, "Metadata"), topics.to_vec(), described).await
    }

    /// Raises the number of partitions of a topic.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::{NewTopic, TopicName};
    ///
    /// admin.create_topics(&[NewTopic::new("orders", 2)]).await?;
    /// admin.create_partitions(&TopicName::from("orders"), 4).await?;
    /// assert_eq!(admin.list_topics().await?[0].partitions, 4);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn create_partitions(&self, topic: &TopicName, partitions: i32) -> Result<(), AdminError> {
        self.ask_for_partitions(topic, partitions, false).await?;
        let count = usize::try_from(partitions).unwrap_or(0);
        self.wait_for_topics(vec![topic.clone()], count).await
    }

    /// Says whether a topic could have so many partitions, and changes nothing.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::{NewTopic, TopicName};
    ///
    /// admin.create_topics(&[NewTopic::new("orders", 2)]).await?;
    /// let error = admin.validate_partitions(&TopicName::from("orders"), 1).await.expect_err("they only get more");
    /// assert!(error.to_string().contains("INVALID_PARTITIONS"), "{error}");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn validate_partitions(&self, topic: &TopicName, partitions: i32) -> Result<(), AdminError> {
        self.ask_for_partitions(topic, partitions, true).await
    }

    async fn ask_for_partitions(&self, topic: &TopicName, count: i32, validate_only: bool) -> Result<(), AdminError> {
        let cluster = self.client.cluster();
        let wanted = || CreatePartitionsTopic {
            name: topic.as_str().to_owned(),
            count,
            assignments: None,
            ..Default::default()
        };
        self.call(&cluster, "CreatePartitions")
            .one(
                topic.clone(),
                Route::Controller,
                0..=3,
                |_| CreatePartitionsRequest {
                    topics: vec![wanted()],
                    timeout_ms: self.timeout_ms(),
                    validate_only,
                    ..Default::default()
                },
                |response, _| {
                    let result = response.results.into_iter().next();
                    result.map_or(Ok(()), |it| answer(it.error_code, it.error_message, ()))
                },
            )
            .await
    }
}

/// Asks any broker for topics, learns what it says, and looks at each topic that is there.
async fn metadata<V: Send>(
    call: Call<'_>,
    names: Vec<TopicName>,
    look: impl Fn(MetadataResponseTopic) -> super::call::Answer<V> + Send + Sync,
) -> Result<PerItem<TopicName, V>, AdminError> {
    let named = |name: &TopicName| MetadataRequestTopic { name: Some(name.as_str().to_owned()), ..Default::default() };
    call.per_item(
        names,
        |_| Route::Any,
        4..=13,
        |_, names| MetadataRequest {
            topics: Some(names.iter().map(named).collect()),
            allow_auto_topic_creation: false,
            ..Default::default()
        },
        |response, _, _| {
            call.cluster.change_metadata(|metadata| metadata.handle_response(&response));
            let answers = response.topics.into_iter().filter_map(|topic| {
                let name = TopicName::from(topic.name.clone()?);
                let code = topic.error_code;
                Some((name, answer(code, None, topic).and_then(&look)))
            });
            answers.collect()
        },
    )
    .await
}

fn described(mut partitions: Vec<MetadataResponsePartition>) -> Vec<PartitionDescription> {
    partitions.sort_by_key(|partition| partition.partition_index);
    let described = |it: MetadataResponsePartition| PartitionDescription {
        partition: it.partition_index,
        leader: it.leader_id,
        leader_epoch: it.leader_epoch,
        replicas: it.replica_nodes,
        in_sync_replicas: it.isr_nodes,
    };
    partitions.into_iter().map(described).collect()
}
