//! Groups: listing, describing, deleting them, and taking members out.

use atonce_client_core::membership::decode_assignment;
use atonce_kernel::{GroupId, GroupInstanceId, MemberId, TopicName, TopicPartition};
use atonce_protocol::ErrorCode;
use atonce_protocol::messages::consumer_group_describe_request::ConsumerGroupDescribeRequest;
use atonce_protocol::messages::consumer_group_describe_response as consumer;
use atonce_protocol::messages::delete_groups_request::DeleteGroupsRequest;
use atonce_protocol::messages::describe_groups_request::DescribeGroupsRequest;
use atonce_protocol::messages::describe_groups_response as classic;
use atonce_protocol::messages::leave_group_request::{LeaveGroupRequest, MemberIdentity};
use atonce_protocol::messages::leave_group_response::LeaveGroupResponse;
use atonce_protocol::messages::list_groups_request::ListGroupsRequest;

use super::call::{Answer, Route, answer, of_node};
use super::names::names;
use super::{Admin, PerItem};
use crate::cluster::{Cluster, CoordinatorOf};
use crate::error::{AdminError, Operation, Refusal};

names! {
    /// Where a group stands.
    GroupState {
        /// Members join: the group waits for all of them.
        PreparingRebalance = "PreparingRebalance",
        /// Members have joined and wait for their assignment.
        CompletingRebalance = "CompletingRebalance",
        /// Each member has its assignment.
        Stable = "Stable",
        /// It has no members; it may have offsets.
        Empty = "Empty",
        /// It is about to be forgotten.
        Dead = "Dead",
        /// The coordinator computes an assignment (KIP-848).
        Assigning = "Assigning",
        /// Members move towards their assignment (KIP-848).
        Reconciling = "Reconciling",
        /// It cannot work yet, for a topic is missing (KIP-1071).
        NotReady = "NotReady",
    }
}

names! {
    /// Of which kind a group is.
    GroupType {
        /// One member assigns for all: JoinGroup and SyncGroup.
        Classic = "Classic",
        /// The coordinator assigns (KIP-848).
        Consumer = "Consumer",
        /// Members share partitions (KIP-932).
        Share = "Share",
        /// The coordinator assigns tasks (KIP-1071).
        Streams = "Streams",
    }
}

/// Which groups to list.
///
/// ```
/// use atonce_client::admin::{GroupFilter, GroupState, GroupType};
///
/// let filter = GroupFilter::all().state(GroupState::Empty).group_type(GroupType::Classic);
/// assert_eq!(filter.states, [GroupState::Empty]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupFilter {
    /// Only those in one of these states; any if empty.
    pub states: Vec<GroupState>,
    /// Only those of one of these kinds; any if empty.
    pub types: Vec<GroupType>,
}

impl GroupFilter {
    /// All groups.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Those in this state; given again, those in one of them.
    #[must_use]
    pub fn state(mut self, state: GroupState) -> Self {
        self.states.push(state);
        self
    }

    /// Those of this kind; given again, those of one of them.
    #[must_use]
    pub fn group_type(mut self, group_type: GroupType) -> Self {
        self.types.push(group_type);
        self
    }
}

/// A group, in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupListing {
    /// Its id.
    pub group: GroupId,
    /// Its kind; `Unknown` if the broker is too old to say.
    pub group_type: GroupType,
    /// Its state; `Unknown` if the broker is too old to say.
    pub state: GroupState,
    /// What its members do: `consumer`, or what a program of its own says; empty for one that has only offsets.
    pub protocol_type: String,
}

/// A group, with its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDescription {
    /// Its id.
    pub group: GroupId,
    /// Its kind.
    pub group_type: GroupType,
    /// Its state.
    pub state: GroupState,
    /// What its members do.
    pub protocol_type: String,
    /// By what partitions are divided; empty if nobody has chosen.
    pub assignor: String,
    /// The broker that coordinates it; -1 if that has been lost sight of.
    pub coordinator: i32,
    /// The epochs of the group and of its assignment (KIP-848); `None` for a classic one.
    pub epochs: Option<(i32, i32)>,
    /// Its members, by member id.
    pub members: Vec<MemberDescription>,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberDescription {
    /// Its id, which the coordinator has given it, or itself.
    pub member_id: MemberId,
    /// Its own name, if it is a static member.
    pub instance_id: Option<GroupInstanceId>,
    /// How its client calls itself.
    pub client_id: String,
    /// From where it is connected.
    pub host: String,
    /// What it has; empty while the group rebalances, and for members whose assignment only they can read.
    pub assignment: Vec<TopicPartition>,
    /// What it shall have (KIP-848); `None` for a classic group's.
    pub target: Option<Vec<TopicPartition>>,
    /// Its epoch (KIP-848); `None` for a classic group's.
    pub epoch: Option<i32>,
}

impl Admin {
    /// The groups of all brokers, by id. It fails if one broker does not answer: the list would lack its groups and not show it.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::admin::{GroupFilter, GroupState, NewOffset};
    /// use atonce_client::{GroupId, NewTopic, TopicPartition};
    ///
    /// admin.create_topics(&[NewTopic::new("orders", 1)]).await?;
    /// let offsets = [(TopicPartition::new("orders", 0), NewOffset::at(0))];
    /// admin.alter_committed_offsets(&GroupId::from("payments"), &offsets).await?;
    /// let groups = admin.list_groups(&GroupFilter::all().state(GroupState::Empty)).await?;
    /// assert_eq!(groups[0].group.as_str(), "payments");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn list_groups(&self, filter: &GroupFilter) -> Result<Vec<GroupListing>, AdminError> {
        let cluster = self.client.cluster();
        let nodes = self.nodes().await?;
        // An older broker cannot filter, and would answer with what was not asked for.
        let versions = match (filter.states.is_empty(), filter.types.is_empty()) {
            (_, false) => 5..=5,
            (false, true) => 4..=5,
            (true, true) => 0..=5,
        };
        let listed = self.call(&cluster, "ListGroups").per_item(
            nodes,
            |node| Route::Node(*node),
            versions,
            |_, _| ListGroupsRequest {
                states_filter: filter.states.iter().map(|it| it.name().to_owned()).collect(),
                types_filter: filter.types.iter().map(|it| it.name().to_owned()).collect(),
                ..Default::default()
            },
            |response, _, nodes| of_node(nodes, answer(response.error_code, None, response.groups)),
        );
        let mut groups = Vec::new();
        for of_broker in listed.await?.into_values() {
            groups.extend(of_broker?.into_iter().map(|it| GroupListing {
                group: GroupId::from(it.group_id),
                group_type: GroupType::from_broker(&it.group_type),
                state: GroupState::from_broker(&it.group_state),
                protocol_type: it.protocol_type,
            }));
        }
        groups.sort_by(|a, b| a.group.cmp(&b.group));
        // One that moves from a coordinator to another may be listed by both.
        groups.dedup_by(|a, b| a.group == b.group);
        Ok(groups)
    }

    /// Groups with their members, classic ones and those whose coordinator assigns (KIP-848). A group that does not exist is refused by
    /// itself ([`AdminError::is_not_there`]).
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::{GroupId, NewTopic};
    ///
    /// admin.create_topics(&[NewTopic::new("orders", 1)]).await?;
    /// let payments = GroupId::from("payments");
    /// let consumer = client.consumer().group("payments").subscribe(["orders"]);
    /// let mut consumer = consumer.await?;
    /// consumer.next_event(std::time::Duration::from_secs(60)).await?;
    /// let group = admin.describe_groups(std::slice::from_ref(&payments)).await?.remove(&payments).expect("an answer")?;
    /// assert_eq!(group.members[0].client_id, "atonce");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn describe_groups(&self, groups: &[GroupId]) -> Result<PerItem<GroupId, GroupDescription>, AdminError> {
        let cluster = self.client.cluster();
        let new = self.call(&cluster, "ConsumerGroupDescribe").per_item(
            groups.iter().cloned(),
            coordinator,
            0..=1,
            |_, groups| ConsumerGroupDescribeRequest {
                group_ids: groups.iter().map(|it| it.as_str().to_owned()).collect(),
                ..Default::default()
            },
            |response, _, _| response.groups.into_iter().map(|it| of_consumer_group(&cluster, it)).collect(),
        );
        // A broker without KIP-848 does not have the call, one with it does not find a classic group by it.
        let mut results = match new.await {
            Ok(results) => results,
            Err(AdminError::Unsupported { .. }) => PerItem::new(),
            Err(error) => return Err(error),
        };
        let is_of_another_kind = |error: &AdminError| match error {
            AdminError::Unsupported { .. } => true,
            AdminError::Refused { refusal, .. } => refusal.code() == ErrorCode::GroupIdNotFound,
            AdminError::TimedOut { .. } | AdminError::Closed => false,
        };
        results.retain(|_, result| !matches!(result, Err(error) if is_of_another_kind(error)));
        let left: Vec<GroupId> = groups.iter().filter(|it| !results.contains_key(it.as_str())).cloned().collect();
        let old = self.call(&cluster, "DescribeGroups").per_item(
            left,
            coordinator,
            0..=6,
            |_, groups| DescribeGroupsRequest {
                groups: groups.iter().map(|it| it.as_str().to_owned()).collect(),
                ..Default::default()
            },
            |response, version, _| response.groups.into_iter().map(|it| of_group(&cluster, version, it)).collect(),
        );
        results.append(&mut old.await?);
        Ok(results)
    }

    /// Deletes groups that have no members, with their offsets.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::GroupId;
    ///
    /// let nobody = GroupId::from("nobody");
    /// let deleted = admin.delete_groups(std::slice::from_ref(&nobody)).await?;
    /// assert!(deleted[&nobody].as_ref().is_err_and(|error| error.is_not_there()));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete_groups(&self, groups: &[GroupId]) -> Result<PerItem<GroupId, ()>, AdminError> {
        let cluster = self.client.cluster();
        self.call(&cluster, "DeleteGroups")
            .per_item(
                groups.iter().cloned(),
                coordinator,
                0..=3,
                |_, groups| DeleteGroupsRequest {
                    groups_names: groups.iter().map(|it| it.as_str().to_owned()).collect(),
                    ..Default::default()
                },
                |response, _, _| {
                    let results = response.results.into_iter();
                    results
                        .map(|it| (GroupId::from(it.group_id), answer(it.error_code, it.error_message, ())))
                        .collect()
                },
            )
            .await
    }

    /// Takes static members out of a group, as if their sessions had ended. One that is not in it is refused by itself
    /// ([`AdminError::is_not_there`]).
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::{GroupId, GroupInstanceId, NewTopic};
    ///
    /// admin.create_topics(&[NewTopic::new("orders", 1)]).await?;
    /// let consumer = client.consumer().group("payments").instance_id("till-1").subscribe(["orders"]);
    /// let mut consumer = consumer.await?;
    /// consumer.next_event(std::time::Duration::from_secs(60)).await?;
    /// let [there, nobody] = ["till-1", "till-2"].map(GroupInstanceId::from);
    /// let members = [there.clone(), nobody.clone()];
    /// let removed = admin.remove_group_members(&GroupId::from("payments"), &members).await?;
    /// assert!(removed[&there].is_ok() && removed[&nobody].is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn remove_group_members(
        &self,
        group: &GroupId,
        instance_ids: &[GroupInstanceId],
    ) -> Result<PerItem<GroupInstanceId, ()>, AdminError> {
        let members = instance_ids.iter().map(|it| (String::new(), Some(it.as_str().to_owned())));
        let left = self.ask_to_leave(group, members.collect()).await?;
        let result = left.into_iter().map(|(_, instance_id, code)| {
            let instance_id = GroupInstanceId::from(instance_id.unwrap_or_default());
            let result = removed(&instance_id, code);
            (instance_id, result)
        });
        Ok(result.collect())
    }

    /// Takes all members out of a group; says of each what became of it. Those that still run join again.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let broker = atonce_broker::Broker::temporary().await?;
    /// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
    /// # let admin = client.admin();
    /// use atonce_client::{GroupId, NewTopic};
    ///
    /// admin.create_topics(&[NewTopic::new("orders", 1)]).await?;
    /// let mut consumer = client.consumer().group("payments").subscribe(["orders"]).await?;
    /// consumer.next_event(std::time::Duration::from_secs(60)).await?;
    /// let removed = admin.remove_all_group_members(&GroupId::from("payments")).await?;
    /// assert!(removed.len() == 1 && removed.values().all(Result::is_ok));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn remove_all_group_members(&self, group: &GroupId) -> Result<PerItem<MemberId, ()>, AdminError> {
        let described = self.describe_groups(std::slice::from_ref(group)).await?.remove(group).transpose()?;
        let members = described.map(|it| it.members).unwrap_or_default();
        if members.is_empty() {
            return Ok(PerItem::new());
        }
        let named = |it: &MemberDescription| {
            let instance_id = it.instance_id.as_ref().map(|id| id.as_str().to_owned());
            (it.member_id.as_str().to_owned(), instance_id)
        };
        let left = self.ask_to_leave(group, members.iter().map(named).collect()).await?;
        let result = left.into_iter().map(|(member_id, _, code)| {
            let member_id = MemberId::from(member_id);
            let result = removed(&member_id, code);
            (member_id, result)
        });
        Ok(result.collect())
    }

    /// Member id, instance id, and what the coordinator said of it.
    async fn ask_to_leave(
        &self,
        group: &GroupId,
        members: Vec<(String, Option<String>)>,
    ) -> Result<Vec<(String, Option<String>, ErrorCode)>, AdminError> {
        let cluster = self.client.cluster();
        let member = |(member_id, group_instance_id): &(String, Option<String>)| MemberIdentity {
            member_id: member_id.clone(),
            group_instance_id: group_instance_id.clone(),
            reason: Some("an administrator has removed it".to_owned()),
            ..Default::default()
        };
        let left = |response: LeaveGroupResponse| {
            let members = response.members.into_iter();
            members.map(|it| (it.member_id, it.group_instance_id, ErrorCode::from_wire(it.error_code))).collect()
        };
        self.call(&cluster, "LeaveGroup")
            .one(
                group.clone(),
                coordinator(group),
                3..=5,
                |version| {
                    let mut members: Vec<MemberIdentity> = members.iter().map(member).collect();
                    if version < 5 {
                        members.iter_mut().for_each(|it| it.reason = None);
                    }
                    LeaveGroupRequest { group_id: group.as_str().to_owned(), members, ..Default::default() }
                },
                |response, _| answer(response.error_code, None, ()).map(|()| left(response)),
            )
            .await
    }
}

fn coordinator(group: &GroupId) -> Route {
    Route::Coordinator(CoordinatorOf::Group(group.as_str().to_owned()))
}

fn removed(subject: &impl std::fmt::Display, code: ErrorCode) -> Result<(), AdminError> {
    match code {
        ErrorCode::None => Ok(()),
        code => {
            Err(AdminError::Refused { subject: subject.to_string(), refusal: Refusal::new(Operation::Admin, code) })
        }
    }
}

fn coordinator_of(cluster: &Cluster, group: &GroupId) -> i32 {
    cluster.known_coordinator(&CoordinatorOf::Group(group.as_str().to_owned())).unwrap_or(-1)
}

fn of_consumer_group(cluster: &Cluster, it: consumer::DescribedGroup) -> (GroupId, Answer<GroupDescription>) {
    let group = GroupId::from(it.group_id);
    let partitions = |assignment: consumer::Assignment| {
        let mut partitions = Vec::new();
        for topic in assignment.topic_partitions {
            let name = TopicName::from(topic.topic_name);
            partitions.extend(topic.partitions.into_iter().map(|index| TopicPartition::new(name.clone(), index)));
        }
        partitions.sort();
        partitions
    };
    let member = |it: consumer::Member| MemberDescription {
        member_id: MemberId::from(it.member_id),
        instance_id: it.instance_id.map(GroupInstanceId::from),
        client_id: it.client_id,
        host: it.client_host,
        assignment: partitions(it.assignment),
        target: Some(partitions(it.target_assignment)),
        epoch: Some(it.member_epoch),
    };
    let description = GroupDescription {
        coordinator: coordinator_of(cluster, &group),
        group: group.clone(),
        group_type: GroupType::Consumer,
        state: GroupState::from_broker(&it.group_state),
        protocol_type: "consumer".to_owned(),
        assignor: it.assignor_name,
        epochs: Some((it.group_epoch, it.assignment_epoch)),
        members: sorted(it.members.into_iter().map(member).collect()),
    };
    (group, answer(it.error_code, it.error_message, description))
}

fn of_group(cluster: &Cluster, version: i16, it: classic::DescribedGroup) -> (GroupId, Answer<GroupDescription>) {
    let group = GroupId::from(it.group_id);
    let state = GroupState::from_broker(&it.group_state);
    // Before version 6 a group that nobody knows is told to be dead.
    if version < 6 && state == GroupState::Dead && it.error_code == 0 {
        return (group, Err((ErrorCode::GroupIdNotFound, None)));
    }
    let is_of_consumers = it.protocol_type == "consumer" || it.protocol_type.is_empty();
    let member = |member: classic::DescribedGroupMember| {
        // Those of another protocol mean by these bytes what they like.
        let read = if is_of_consumers { decode_assignment(&member.member_assignment).ok() } else { None };
        MemberDescription {
            member_id: MemberId::from(member.member_id),
            instance_id: member.group_instance_id.map(GroupInstanceId::from),
            client_id: member.client_id,
            host: member.client_host,
            assignment: read.map(|(partitions, _)| partitions).unwrap_or_default(),
            target: None,
            epoch: None,
        }
    };
    let description = GroupDescription {
        coordinator: coordinator_of(cluster, &group),
        group: group.clone(),
        group_type: GroupType::Classic,
        state,
        members: sorted(it.members.into_iter().map(member).collect()),
        protocol_type: it.protocol_type,
        assignor: it.protocol_data,
        epochs: None,
    };
    (group, answer(it.error_code, it.error_message, description))
}

fn sorted(mut members: Vec<MemberDescription>) -> Vec<MemberDescription> {
    members.sort_by(|a, b| a.member_id.cmp(&b.member_id));
    members
}
