//! ConsumerGroupDescribe, and the state in lists.

use std::collections::BTreeMap;

use atonce_kernel::{GroupId, MemberId, TopicId, TopicName};
use atonce_protocol::ErrorCode;

use super::super::reply::{GroupState, Reply};
use super::super::{GroupCoordinator, Kind};
use super::assignor::Assignor;
use super::command::ConsumerGroupDescribe;
use super::topics::TopicsImage;
use super::{Consumer, ConsumerState, Member};
use crate::shard::{Context, Decision};

/// A group, shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedConsumerGroup {
    /// Which.
    pub group: GroupId,
    /// Where it stands.
    pub state: GroupState,
    /// Its epoch.
    pub epoch: i32,
    /// That of the target assignment.
    pub target_epoch: i32,
    /// The assignor that would run now.
    pub assignor: Assignor,
    /// All members.
    pub members: Vec<DescribedConsumer>,
}

/// A member, shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedConsumer {
    /// Its id.
    pub member: MemberId,
    /// All that is known of it.
    pub details: Member,
    /// What it has, or has to give up.
    pub assignment: Vec<DescribedTopic>,
    /// What it shall have.
    pub target: Vec<DescribedTopic>,
}

/// Partitions of a topic that is still there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedTopic {
    /// The topic's id.
    pub id: TopicId,
    /// Its name.
    pub name: TopicName,
    /// The partitions.
    pub partitions: Vec<i32>,
}

/// Where the group stands, as lists say it.
pub(in super::super) fn state_of(group: &Consumer) -> GroupState {
    match group.state() {
        ConsumerState::Empty => GroupState::Empty,
        ConsumerState::Assigning => GroupState::Assigning,
        ConsumerState::Reconciling => GroupState::Reconciling,
        ConsumerState::Stable => GroupState::Stable,
    }
}

/// Shows groups with their members.
///
/// Shape: nothing changes.
/// Refuses one with `GroupIdNotFound` if there is none, or it is a classic one.
pub(in super::super) fn describe(
    shard: &GroupCoordinator,
    context: &Context,
    describe: &ConsumerGroupDescribe,
) -> Decision<GroupCoordinator> {
    let one = |id: &GroupId| match shard.groups.get(id).map(|group| &group.kind) {
        Some(Kind::Consumer(group)) => Ok(described(shard, id, group)),
        Some(Kind::Classic { .. }) => Err((id.clone(), format!("Group {id} is not a consumer group."))),
        None => Err((id.clone(), format!("Group {id} not found."))),
    };
    let groups =
        describe.groups.iter().map(|id| one(id).map_err(|(id, message)| (id, ErrorCode::GroupIdNotFound, message)));
    Decision::reply(context.waiter, Reply::ConsumerGroupsDescribed(groups.collect()))
}

fn described(shard: &GroupCoordinator, id: &GroupId, group: &Consumer) -> DescribedConsumerGroup {
    let member = |(id, member): (&MemberId, &Member)| {
        let current = member.current.assigned.iter().chain(&member.current.revoking);
        let mut has: BTreeMap<TopicId, Vec<i32>> = BTreeMap::new();
        for (topic, partitions) in current {
            has.entry(*topic).or_default().extend(partitions.keys());
        }
        let target = group.targets.get(id).into_iter().flatten();
        DescribedConsumer {
            member: id.clone(),
            details: member.clone(),
            assignment: with_names(has, &shard.topics),
            target: with_names(target.map(|(topic, all)| (*topic, all.iter().copied().collect())), &shard.topics),
        }
    };
    DescribedConsumerGroup {
        group: id.clone(),
        state: state_of(group),
        epoch: group.epoch,
        target_epoch: group.target_epoch,
        assignor: group.preferred_assignor(&shard.config.consumer),
        members: group.members.iter().map(member).collect(),
    }
}

fn with_names(topics: impl IntoIterator<Item = (TopicId, Vec<i32>)>, image: &TopicsImage) -> Vec<DescribedTopic> {
    let topic = |(id, partitions)| Some(DescribedTopic { id, name: image.name_of(id)?.clone(), partitions });
    topics.into_iter().filter_map(topic).collect()
}
