//! The administrator's calls: topics, configs, groups, offsets, records, transactions, the cluster and its features.
//!
//! A file per noun; [`call`] is the loop that all of them go through.

mod call;
mod cluster;
mod configs;
mod features;
mod groups;
mod names;
mod offsets;
mod records;
mod topics;
mod transactions;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use atonce_client_core::classify::Operation;
use atonce_kernel::{TopicName, TopicPartition};

use self::call::Call;
use crate::client::Client;
use crate::cluster::{Cluster, Lane};
use crate::error::AdminError;

pub use self::cluster::{
    BrokerDescription, ClusterDescription, LogDirDescription, QuorumDescription, QuorumReplica, ReplicaInLogDir,
};
pub use self::configs::{AlterConfig, ConfigEntry, ConfigResource, ConfigSource, ConfigSynonym, ConfigType};
pub use self::features::{FeatureUpdate, FeatureUpdateKind, FeaturesDescription, SupportedVersions};
pub use self::groups::{GroupDescription, GroupFilter, GroupListing, GroupState, GroupType, MemberDescription};
pub use self::names::UnknownName;
pub use self::offsets::{CommittedOffset, ListedOffset, NewOffset, OffsetSpec};
pub(crate) use self::offsets::{committed_offsets, list_offsets};
pub use self::topics::{NewTopic, PartitionDescription, TopicDescription, TopicListing};
pub use self::transactions::{
    AbortTransaction, HangingTransaction, ProducerState, TransactionDescription, TransactionFilter, TransactionListing,
    TransactionState,
};

/// What became of each item of a call.
pub type PerItem<K, V> = BTreeMap<K, Result<V, AdminError>>;

/// The administrator's calls. Each asks the broker that can answer (a leader, a coordinator, the controller, or all of them), and
/// asks again what may be asked again, for at most the [`call_timeout`](Self::call_timeout).
///
/// Calls about several things answer for each of them ([`PerItem`]); such a call fails as a whole only where no broker said anything of
/// any of them.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let broker = atonce_broker::Broker::temporary().await?;
/// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
/// # let admin = client.admin();
/// use atonce_client::NewTopic;
///
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

impl Admin {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, timeout: CALL_TIMEOUT }
    }

    /// How long each call may take; 1 minute unless set.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// let admin = admin.call_timeout(std::time::Duration::from_secs(5));
    /// assert!(admin.list_topics().await?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    fn call<'call>(&self, cluster: &'call Cluster, name: &'static str) -> Call<'call> {
        Call { cluster, lane: Lane::SHARED, name, operation: Operation::Admin, timeout: self.timeout }
    }

    fn timeout_ms(&self) -> i32 {
        milliseconds(self.timeout)
    }
}

fn milliseconds(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
}

/// Items by topic, as most requests want them.
fn grouped<T>(items: impl IntoIterator<Item = (TopicPartition, T)>) -> BTreeMap<TopicName, Vec<(i32, T)>> {
    let mut topics: BTreeMap<TopicName, Vec<(i32, T)>> = BTreeMap::new();
    for (topic_partition, item) in items {
        topics.entry(topic_partition.topic).or_default().push((topic_partition.partition, item));
    }
    topics
}

/// Partition indexes by topic.
fn indexes<'a>(partitions: impl IntoIterator<Item = &'a TopicPartition>) -> impl Iterator<Item = (String, Vec<i32>)> {
    let unique: BTreeSet<&TopicPartition> = partitions.into_iter().collect();
    grouped(unique.into_iter().map(|it| (it.clone(), ())))
        .into_iter()
        .map(|(topic, indexes)| (topic.into(), indexes.into_iter().map(|(index, ())| index).collect()))
}
