//! The ways out of a consumer group: leaving for good, leaving for a while, being put out.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use atonce_kernel::{GroupId, MemberId};
use atonce_protocol::ErrorCode;

use super::super::reply::Reply;
use super::super::{GroupCoordinator, Kind};
use super::command::ConsumerGroupHeartbeat;
use super::convert;
use super::draft::{Draft, Refused};
use super::heartbeat::{Beat, fenced_instance, unknown_instance, unknown_member};
use super::record::Fact;
use super::{Clocks, Consumer, LEAVE_FOR_A_WHILE_EPOCH, Member};
use crate::shard::{Context, Decision};

/// A member leaves.
///
/// Shape: its records end and the group's epoch is raised; for a while: its partitions stay its own until the session ends. If only members
///   of the classic protocol are left, the group converts.
/// Refuses, in this order: `GroupIdNotFound`; `UnknownMemberId`; `FencedInstanceId`.
pub(super) fn decide(
    shard: &GroupCoordinator,
    context: &Context,
    beat: &ConsumerGroupHeartbeat,
) -> Result<Decision<GroupCoordinator>, Refused> {
    let id = beat.member.clone().unwrap_or_else(|| MemberId::from(""));
    let group = match shard.groups.get(&beat.group).map(|group| &group.kind) {
        Some(Kind::Consumer(group)) => group,
        Some(Kind::Classic { .. }) => {
            let message = format!("Group {} is not a consumer group.", beat.group);
            return Err(Refused::new(ErrorCode::GroupIdNotFound, message));
        }
        None => return Err(Refused::new(ErrorCode::GroupIdNotFound, format!("Group {} not found.", beat.group))),
    };
    let member = match &beat.instance {
        None => group.members.get(&id).ok_or_else(|| unknown_member(&beat.group, &id))?,
        Some(instance) => {
            let (owner, member) = group.static_member(instance).ok_or_else(|| unknown_instance(instance))?;
            if *owner != id {
                return Err(fenced_instance(&id, instance, owner));
            }
            member
        }
    };
    let answer = Reply::ConsumerGroupHeartbeat(Ok(Beat {
        member: id.clone(),
        epoch: beat.epoch,
        interval_ms: 0,
        assignment: None,
    }));
    if beat.epoch == LEAVE_FOR_A_WHILE_EPOCH {
        return Ok(leave_for_a_while(shard, context, &beat.group, group, (&id, member), answer));
    }
    let mut decision = put_out(shard, context, &beat.group, group, &BTreeSet::from([id]));
    decision.replies.push((context.waiter, answer));
    Ok(decision)
}

fn leave_for_a_while(
    shard: &GroupCoordinator,
    context: &Context,
    group_id: &GroupId,
    group: &Consumer,
    (id, member): (&MemberId, &Member),
    answer: Reply,
) -> Decision<GroupCoordinator> {
    let mut draft = Draft::of(shard, context, group_id, Cow::Borrowed(group));
    let mut current = member.current.clone();
    current.epoch = LEAVE_FOR_A_WHILE_EPOCH;
    current.revoking.clear();
    // Whoever comes back may commit for them in whatever epoch it gets.
    current.assigned.values_mut().flat_map(|partitions| partitions.values_mut()).for_each(|epoch| *epoch = 0);
    if let Some(clocks) = group.soft.clocks.get(id) {
        draft.set_clocks(id, Clocks { rebalance: None, ..*clocks });
    }
    draft.push(Fact::Current(id.clone(), Some(current)));
    draft.reply(answer);
    draft.finish()
}

/// Puts members out of the group, for whatever reason.
pub(super) fn put_out(
    shard: &GroupCoordinator,
    context: &Context,
    group_id: &GroupId,
    group: &Consumer,
    members: &BTreeSet<MemberId>,
) -> Decision<GroupCoordinator> {
    if members.is_empty() {
        return Decision::nothing();
    }
    let mut draft = Draft::of(shard, context, group_id, Cow::Borrowed(group));
    draft.remove_members(members);
    if convert::can_downgrade(&draft) {
        return convert::downgrade_without(shard, context, group_id, group, members);
    }
    draft.finish()
}

impl Draft<'_> {
    pub(super) fn remove_members(&mut self, members: &BTreeSet<MemberId>) {
        let patterns: BTreeSet<Arc<str>> = members
            .iter()
            .filter_map(|id| self.group.members.get(id))
            .map(|member| Arc::clone(&member.subscription.pattern))
            .filter(|pattern| !pattern.is_empty())
            .collect();
        for id in members {
            self.remove_member(id);
        }
        for pattern in
            patterns.into_iter().filter(|pattern| self.group.subscribers_of(pattern) == 0).collect::<Vec<_>>()
        {
            self.push(Fact::Pattern(pattern, None));
        }
        self.raise_epoch();
        if self.group.members.is_empty() {
            self.end_target();
        }
    }
}
