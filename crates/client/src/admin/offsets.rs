//! Offsets: those of a log, looked up, and those that groups have committed.

use std::collections::BTreeMap;
use std::time::Duration;

use atonce_client_core::classify::Operation;
use atonce_kernel::{GroupId, Offset, Timestamp, TopicName, TopicPartition};
use atonce_protocol::ErrorCode;
use atonce_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use atonce_protocol::messages::offset_commit_request::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use atonce_protocol::messages::offset_delete_request::{
    OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use atonce_protocol::messages::offset_fetch_request::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use atonce_protocol::messages::offset_fetch_response::OffsetFetchResponse;

use super::call::{Answer, Call, Route, answer};
use super::{Admin, PerItem, grouped, indexes, milliseconds};
use crate::cluster::{Cluster, CoordinatorOf, Lane};
use crate::consumer::{GroupMetadata, Isolation};
use crate::error::AdminError;

/// Which offset to look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetSpec {
    /// The first record there is.
    Earliest,
    /// The end: the last stable offset if committed records are asked for, else the high watermark.
    Latest,
    /// The first record at or after a time, in milliseconds since 1970.
    Timestamp(i64),
    /// The record with the latest timestamp.
    MaxTimestamp,
}

impl OffsetSpec {
    /// The number by which the protocol asks for it.
    fn to_wire(self) -> i64 {
        match self {
            Self::Latest => -1,
            Self::Earliest => -2,
            Self::MaxTimestamp => -3,
            Self::Timestamp(timestamp_ms) => timestamp_ms,
        }
    }
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

/// An offset that a group is to have.
///
/// ```
/// use atonce_client::admin::NewOffset;
///
/// assert_eq!(NewOffset::at(42), NewOffset { offset: 42, leader_epoch: -1, metadata: String::new() });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOffset {
    /// The next offset to read.
    pub offset: Offset,
    /// The leader's epoch; -1 if not known.
    pub leader_epoch: i32,
    /// A text that is kept beside it.
    pub metadata: String,
}

impl NewOffset {
    /// An offset, and nothing beside it.
    #[must_use]
    pub fn at(offset: Offset) -> Self {
        Self { offset, leader_epoch: -1, metadata: String::new() }
    }
}

impl Admin {
    /// Looks offsets up, at the partitions' leaders. One that cannot be looked up fails the call.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::{Isolation, NewTopic, OffsetSpec, TopicPartition};
    ///
    /// admin.create_topics(&[NewTopic::new("orders", 1)]).await?;
    /// let orders = TopicPartition::new("orders", 0);
    /// let ends = admin.list_offsets(&[(orders.clone(), OffsetSpec::Latest)], Isolation::ReadCommitted).await?;
    /// assert_eq!(ends[&orders].offset, Some(0));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn list_offsets(
        &self,
        partitions: &[(TopicPartition, OffsetSpec)],
        isolation: Isolation,
    ) -> Result<BTreeMap<TopicPartition, ListedOffset>, AdminError> {
        list_offsets(self.client.cluster().as_ref(), partitions, isolation, self.timeout).await
    }

    /// Looks offsets up, at the partitions' leaders, each by itself: one of a topic that does not exist is refused
    /// ([`AdminError::is_not_there`]), and the others are answered.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::{Isolation, NewTopic, OffsetSpec, TopicPartition};
    ///
    /// admin.create_topics(&[NewTopic::new("orders", 1)]).await?;
    /// let [orders, nothing] = [TopicPartition::new("orders", 0), TopicPartition::new("nothing", 0)];
    /// let asked = [(orders.clone(), OffsetSpec::Earliest), (nothing.clone(), OffsetSpec::Earliest)];
    /// let listed = admin.list_offsets_each(&asked, Isolation::ReadUncommitted).await?;
    /// assert_eq!(listed[&orders].as_ref().map(|it| it.offset), Ok(Some(0)));
    /// assert!(listed[&nothing].as_ref().is_err_and(|error| error.is_not_there()));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn list_offsets_each(
        &self,
        partitions: &[(TopicPartition, OffsetSpec)],
        isolation: Isolation,
    ) -> Result<PerItem<TopicPartition, ListedOffset>, AdminError> {
        look_up(self.call(self.client.cluster().as_ref(), "ListOffsets"), partitions, isolation).await
    }

    /// What a group has committed. Partitions without a committed offset are absent. With `require_stable` it waits for
    /// transactions that are about to change the answer.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::admin::NewOffset;
    /// use atonce_client::{GroupId, NewTopic, TopicPartition};
    ///
    /// admin.create_topics(&[NewTopic::new("orders", 2)]).await?;
    /// let [first, second] = [0, 1].map(|partition| TopicPartition::new("orders", partition));
    /// let payments = GroupId::from("payments");
    /// admin.alter_committed_offsets(&payments, &[(first.clone(), NewOffset::at(42))]).await?;
    /// let committed = admin.committed_offsets(&payments, &[first.clone(), second], true).await?;
    /// assert_eq!(committed.into_iter().map(|(partition, it)| (partition, it.offset)).collect::<Vec<_>>(), [(first, 42)]);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn committed_offsets(
        &self,
        group: &GroupId,
        partitions: &[TopicPartition],
        require_stable: bool,
    ) -> Result<BTreeMap<TopicPartition, CommittedOffset>, AdminError> {
        committed_offsets(
            self.client.cluster().as_ref(),
            Lane::SHARED,
            group,
            || None,
            partitions,
            require_stable,
            self.timeout,
        )
        .await
    }

    /// All that groups have committed. A group that does not exist has committed nothing.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::GroupId;
    ///
    /// let payments = GroupId::from("payments");
    /// let committed = admin.committed_offsets_of_groups(std::slice::from_ref(&payments), true).await?;
    /// assert_eq!(committed[&payments], Ok([].into()));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn committed_offsets_of_groups(
        &self,
        groups: &[GroupId],
        require_stable: bool,
    ) -> Result<PerItem<GroupId, BTreeMap<TopicPartition, CommittedOffset>>, AdminError> {
        let cluster = self.client.cluster();
        let all = |group: &GroupId| OffsetFetchRequestGroup {
            group_id: group.as_str().to_owned(),
            topics: None,
            ..Default::default()
        };
        let call = Call { operation: Operation::OffsetFetch, ..self.call(&cluster, "OffsetFetch") };
        call.per_item(
            groups.iter().cloned(),
            coordinator,
            // Version 8 can ask for several groups; 10 names topics by id.
            8..=9,
            |_, groups| OffsetFetchRequest {
                groups: groups.iter().map(all).collect(),
                require_stable,
                ..Default::default()
            },
            |response, version, _| fetched(response, version),
        )
        .await
    }

    /// Sets what a group has committed, as [`committed_offsets`](Self::committed_offsets) tells it. Refused while the group has members:
    /// they would go on from where they are, and commit over it.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::admin::NewOffset;
    /// use atonce_client::{GroupId, NewTopic, TopicPartition};
    ///
    /// admin.create_topics(&[NewTopic::new("orders", 1)]).await?;
    /// let orders = TopicPartition::new("orders", 0);
    /// let altered = admin.alter_committed_offsets(&GroupId::from("payments"), &[(orders.clone(), NewOffset::at(42))]).await?;
    /// assert_eq!(altered[&orders], Ok(()));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn alter_committed_offsets(
        &self,
        group: &GroupId,
        offsets: &[(TopicPartition, NewOffset)],
    ) -> Result<PerItem<TopicPartition, ()>, AdminError> {
        let cluster = self.client.cluster();
        let partition = |(partition_index, new): (i32, NewOffset)| OffsetCommitRequestPartition {
            partition_index,
            committed_offset: new.offset,
            committed_leader_epoch: new.leader_epoch,
            committed_metadata: Some(new.metadata),
            ..Default::default()
        };
        let topic = |(name, partitions): (TopicName, Vec<(i32, NewOffset)>)| OffsetCommitRequestTopic {
            name: name.into(),
            partitions: partitions.into_iter().map(partition).collect(),
            ..Default::default()
        };
        self.call(&cluster, "OffsetCommit")
            .per_item(
                offsets.iter().map(|(it, _)| it.clone()),
                |_| coordinator(group),
                2..=9,
                |_, keys| OffsetCommitRequest {
                    group_id: group.as_str().to_owned(),
                    generation_id_or_member_epoch: -1,
                    topics: grouped(offsets.iter().filter(|(it, _)| keys.contains(it)).cloned())
                        .into_iter()
                        .map(topic)
                        .collect(),
                    ..Default::default()
                },
                |response, _, _| {
                    let mut answers = Vec::new();
                    for topic in response.topics {
                        let name = TopicName::from(topic.name);
                        for it in topic.partitions {
                            let topic_partition = TopicPartition::new(name.clone(), it.partition_index);
                            answers.push((topic_partition, answer(it.error_code, None, ())));
                        }
                    }
                    answers
                },
            )
            .await
    }

    /// Forgets what a group has committed for partitions. Refused for topics that a member of the group is subscribed to.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::{GroupId, TopicPartition};
    ///
    /// let orders = TopicPartition::new("orders", 0);
    /// let deleted = admin.delete_committed_offsets(&GroupId::from("nobody"), std::slice::from_ref(&orders)).await?;
    /// assert!(deleted[&orders].as_ref().is_err_and(|error| error.is_not_there()));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete_committed_offsets(
        &self,
        group: &GroupId,
        partitions: &[TopicPartition],
    ) -> Result<PerItem<TopicPartition, ()>, AdminError> {
        let cluster = self.client.cluster();
        let partition = |partition_index: i32| OffsetDeleteRequestPartition { partition_index };
        let topic = |(name, indexes): (String, Vec<i32>)| OffsetDeleteRequestTopic {
            name,
            partitions: indexes.into_iter().map(partition).collect(),
        };
        self.call(&cluster, "OffsetDelete")
            .per_item(
                partitions.iter().cloned(),
                |_| coordinator(group),
                0..=0,
                |_, keys| OffsetDeleteRequest {
                    group_id: group.as_str().to_owned(),
                    topics: indexes(keys).map(topic).collect(),
                },
                |response, _, _| {
                    let code = ErrorCode::from_wire(response.error_code);
                    if code != ErrorCode::None {
                        return partitions.iter().map(|it| (it.clone(), Err((code, None)))).collect();
                    }
                    let mut answers = Vec::new();
                    for topic in response.topics {
                        let name = TopicName::from(topic.name);
                        for it in topic.partitions {
                            let topic_partition = TopicPartition::new(name.clone(), it.partition_index);
                            answers.push((topic_partition, answer(it.error_code, None, ())));
                        }
                    }
                    answers
                },
            )
            .await
    }
}

fn coordinator(group: &GroupId) -> Route {
    Route::Coordinator(CoordinatorOf::Group(group.as_str().to_owned()))
}

/// As [`Admin::list_offsets`], for the consumer too: a topic that is not there may be about to be made.
pub(crate) async fn list_offsets(
    cluster: &Cluster,
    partitions: &[(TopicPartition, OffsetSpec)],
    isolation: Isolation,
    timeout: Duration,
) -> Result<BTreeMap<TopicPartition, ListedOffset>, AdminError> {
    let call = Call { cluster, lane: Lane::SHARED, name: "ListOffsets", operation: Operation::ListOffsets, timeout };
    look_up(call, partitions, isolation).await?.into_iter().map(|(key, result)| result.map(|it| (key, it))).collect()
}

async fn look_up(
    call: Call<'_>,
    partitions: &[(TopicPartition, OffsetSpec)],
    isolation: Isolation,
) -> Result<PerItem<TopicPartition, ListedOffset>, AdminError> {
    let partition = |(partition_index, spec): (i32, OffsetSpec)| ListOffsetsPartition {
        partition_index,
        timestamp: spec.to_wire(),
        ..Default::default()
    };
    let topic = |(name, partitions): (TopicName, Vec<(i32, OffsetSpec)>)| ListOffsetsTopic {
        name: name.into(),
        partitions: partitions.into_iter().map(partition).collect(),
        ..Default::default()
    };
    let needs_v7 = partitions.iter().any(|(_, spec)| *spec == OffsetSpec::MaxTimestamp);
    call.per_item(
        partitions.iter().map(|(it, _)| it.clone()),
        |it| Route::Leader(it.clone()),
        if needs_v7 { 7..=10 } else { 2..=10 },
        |_, keys| ListOffsetsRequest {
            replica_id: -1,
            isolation_level: isolation.level(),
            topics: grouped(partitions.iter().filter(|(it, _)| keys.contains(it)).cloned())
                .into_iter()
                .map(topic)
                .collect(),
            timeout_ms: milliseconds(call.timeout),
            ..Default::default()
        },
        |response, _, _| {
            let mut answers = Vec::new();
            for topic in response.topics {
                let name = TopicName::from(topic.name);
                for it in topic.partitions {
                    let listed = ListedOffset {
                        offset: (it.offset >= 0).then_some(it.offset),
                        timestamp: (it.timestamp >= 0).then_some(Timestamp(it.timestamp)),
                        leader_epoch: it.leader_epoch,
                    };
                    let topic_partition = TopicPartition::new(name.clone(), it.partition_index);
                    answers.push((topic_partition, answer(it.error_code, None, listed)));
                }
            }
            answers
        },
    )
    .await
}

/// As [`Admin::committed_offsets`], for the consumer too: a member of a group of the consumer protocol says who it is by now,
/// each time that it asks, and is refused if it no longer is (KIP-848).
pub(crate) async fn committed_offsets(
    cluster: &Cluster,
    lane: Lane,
    group: &GroupId,
    member: impl Fn() -> Option<GroupMetadata> + Send + Sync,
    partitions: &[TopicPartition],
    require_stable: bool,
    timeout: Duration,
) -> Result<BTreeMap<TopicPartition, CommittedOffset>, AdminError> {
    let topics: Vec<(String, Vec<i32>)> = indexes(partitions).collect();
    let new = |(name, partition_indexes): (String, Vec<i32>)| OffsetFetchRequestTopics {
        name,
        partition_indexes,
        ..Default::default()
    };
    let old = |(name, partition_indexes): (String, Vec<i32>)| OffsetFetchRequestTopic {
        name,
        partition_indexes,
        ..Default::default()
    };
    let call = Call { cluster, lane, name: "OffsetFetch", operation: Operation::OffsetFetch, timeout };
    call.one(
        group.clone(),
        coordinator(group),
        // Version 7 can wait for what is pending; 8 has groups, 9 members; 10 names topics by id.
        7..=9,
        |version| {
            let group_id = group.as_str().to_owned();
            if version < 8 {
                let topics = Some(topics.iter().cloned().map(old).collect());
                return OffsetFetchRequest { group_id, topics, require_stable, ..Default::default() };
            }
            let topics = Some(topics.iter().cloned().map(new).collect());
            let (member_id, member_epoch) = match member() {
                Some(member) => (Some(member.member_id.as_str().to_owned()), member.generation_id),
                None => (None, -1),
            };
            let groups =
                vec![OffsetFetchRequestGroup { group_id, member_id, member_epoch, topics, ..Default::default() }];
            OffsetFetchRequest { groups, require_stable, ..Default::default() }
        },
        |response, version| {
            let of_group = fetched(response, version).into_iter().next();
            of_group.map_or(Err((ErrorCode::UnknownServerError, None)), |(_, answer)| answer)
        },
    )
    .await
}

/// Reads an answer in any version; the group of an old one, which it does not name, has no name.
fn fetched(
    response: OffsetFetchResponse,
    version: i16,
) -> Vec<(GroupId, Answer<BTreeMap<TopicPartition, CommittedOffset>>)> {
    type Told = (TopicPartition, i16, CommittedOffset);
    fn told(name: &TopicName, index: i32, code: i16, committed: (Offset, i32, Option<String>)) -> Told {
        let (offset, leader_epoch, metadata) = committed;
        let metadata = metadata.unwrap_or_default();
        (TopicPartition::new(name.clone(), index), code, CommittedOffset { offset, leader_epoch, metadata })
    }
    let mut groups: Vec<(GroupId, i16, Vec<Told>)> = Vec::new();
    if version < 8 {
        let mut all = Vec::new();
        for topic in response.topics {
            let name = TopicName::from(topic.name);
            for it in topic.partitions {
                let committed = (it.committed_offset, it.committed_leader_epoch, it.metadata);
                all.push(told(&name, it.partition_index, it.error_code, committed));
            }
        }
        groups.push((GroupId::from(""), response.error_code, all));
    }
    for group in response.groups {
        let mut all = Vec::new();
        for topic in group.topics {
            let name = TopicName::from(topic.name);
            for it in topic.partitions {
                let committed = (it.committed_offset, it.committed_leader_epoch, it.metadata);
                all.push(told(&name, it.partition_index, it.error_code, committed));
            }
        }
        groups.push((GroupId::from(group.group_id), group.error_code, all));
    }
    let of_group = |(group, code, all): (GroupId, i16, Vec<Told>)| {
        let read = answer(code, None, ()).and_then(|()| {
            let mut offsets = BTreeMap::new();
            for (topic_partition, code, committed) in all {
                answer(code, None, ())?;
                if committed.offset >= 0 {
                    offsets.insert(topic_partition, committed);
                }
            }
            Ok(offsets)
        });
        (group, read)
    };
    groups.into_iter().map(of_group).collect()
}
