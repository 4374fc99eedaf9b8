//! ConsumerGroupHeartbeat: join, say what changed, give up what must go, hear what is one's own; leave.

use std::borrow::Cow;
use std::sync::Arc;

use atonce_kernel::{GroupInstanceId, MemberId};
use atonce_protocol::ErrorCode;

use super::super::classic::State;
use super::super::record::Record;
use super::super::reply::Reply;
use super::super::{GroupCoordinator, Kind};
use super::assignor::{self, Assignor};
use super::command::ConsumerGroupHeartbeat;
use super::draft::{Draft, Refused};
use super::record::{Fact, Subscription, TargetEpoch};
use super::{Clocks, Consumer, JOIN_EPOCH, LEAVE_EPOCH, LEAVE_FOR_A_WHILE_EPOCH, Member, MemberState, Partitions};
use super::{convert, leave, pattern};
use crate::shard::{Context, Decision};

/// The longest name that a key can say, in bytes.
const NAME_BYTES_MAX: usize = i16::MAX as usize;

/// What a member hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    /// The member's id.
    pub member: MemberId,
    /// Its epoch from now on.
    pub epoch: i32,
    /// How often to come.
    pub interval_ms: i32,
    /// What it may read; `None`: as before.
    pub assignment: Option<Partitions>,
}

/// Takes a heartbeat in.
///
/// Shape: the group's epoch is raised if the member is new, or wants something else; a new target assignment is made for the epoch, but not sooner
///   than `group.consumer.assignment.interval.ms` after the last one; the member is moved on towards it.
/// Retry: safe. A member whose answer was lost repeats itself in its former epoch, as long as it has nothing that it lost since.
/// Refuses, in this order: `InvalidRequest` for what no member says; `UnsupportedAssignor`; `GroupIdNotFound` without a group to be in, or
///   one that cannot convert; `GroupMaxSizeReached`; `UnknownMemberId`; `UnreleasedInstanceId` to a static member whose name is in use;
///   `FencedInstanceId` to one whose name is another's by now; `FencedMemberEpoch` for an epoch that the member is not in;
///   `InvalidRegularExpression`.
/// Durability: the answer leaves when what it says is durable: a partition is never promised to two, crash or not.
/// Source: KIP-848; KIP-1101 (metadata hash), KIP-1251 (assignment epochs), KIP-1263 (assignment interval).
pub(in super::super) fn decide(
    shard: &GroupCoordinator,
    context: &Context,
    beat: &ConsumerGroupHeartbeat,
) -> Decision<GroupCoordinator> {
    let decided = check(shard, beat).and_then(|()| match beat.epoch {
        LEAVE_EPOCH | LEAVE_FOR_A_WHILE_EPOCH => leave::decide(shard, context, beat),
        _ => stay(shard, context, beat),
    });
    decided.unwrap_or_else(|refused| Decision::reply(context.waiter, Reply::ConsumerGroupHeartbeat(Err(refused))))
}

/// What can be said without looking at the group.
fn check(shard: &GroupCoordinator, beat: &ConsumerGroupHeartbeat) -> Result<(), Refused> {
    let invalid = |message: &str| Err(Refused::new(ErrorCode::InvalidRequest, message));
    let is_blank = |text: Option<&str>| text.is_some_and(|text| text.trim().is_empty());
    if (beat.version >= 1 || beat.epoch > 0 || beat.epoch == LEAVE_EPOCH)
        && beat.member.as_ref().is_none_or(|member| member.as_str().trim().is_empty())
    {
        return invalid("MemberId can't be empty.");
    }
    if beat.group.as_str().trim().is_empty() {
        return invalid("GroupId can't be empty.");
    }
    if is_blank(beat.instance.as_ref().map(GroupInstanceId::as_str)) {
        return invalid("InstanceId can't be empty.");
    }
    if is_blank(beat.rack.as_deref()) {
        return invalid("RackId can't be empty.");
    }
    match beat.epoch {
        JOIN_EPOCH if beat.rebalance_timeout_ms.is_none() => {
            return invalid("RebalanceTimeoutMs must be provided in first request.");
        }
        JOIN_EPOCH if beat.owned.as_ref().is_none_or(|owned| !owned.is_empty()) => {
            return invalid("TopicPartitions must be empty when (re-)joining.");
        }
        JOIN_EPOCH if beat.topics.is_none() && beat.pattern.is_none() => {
            return invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.");
        }
        LEAVE_FOR_A_WHILE_EPOCH if beat.instance.is_none() => return invalid("InstanceId can't be null."),
        i32::MIN..LEAVE_FOR_A_WHILE_EPOCH => return invalid("MemberEpoch is invalid."),
        LEAVE_FOR_A_WHILE_EPOCH.. => {}
    }
    let member = beat.member.as_ref().map_or("", MemberId::as_str);
    let names = [beat.group.as_str(), member, beat.pattern.as_deref().unwrap_or_default()];
    if names.iter().any(|name| name.len() > NAME_BYTES_MAX) {
        return invalid("A name is longer than 32767 bytes.");
    }
    let known = &shard.config.consumer.assignors;
    match &beat.assignor {
        Some(name) if !known.iter().any(|assignor| assignor.name() == &**name) => {
            let names: Vec<_> = known.iter().map(|assignor| assignor.name()).collect();
            let names = names.join(", ");
            let message = format!("ServerAssignor {name} is not supported. Supported assignors: {names}.");
            Err(Refused::new(ErrorCode::UnsupportedAssignor, message))
        }
        Some(_) | None => Ok(()),
    }
}

fn stay(
    shard: &GroupCoordinator,
    context: &Context,
    beat: &ConsumerGroupHeartbeat,
) -> Result<Decision<GroupCoordinator>, Refused> {
    let is_joining = beat.epoch == JOIN_EPOCH;
    let mut draft = draft_of_group(shard, context, beat, is_joining)?;
    // Until version 0 the coordinator gave ids out.
    let id = beat.member.clone().unwrap_or_else(|| MemberId::from(context.fresh_uuid.to_string()));
    draft.check_room(&id, beat.instance.as_ref())?;
    let before = match &beat.instance {
        None => draft.dynamic_member(&id, is_joining)?,
        Some(instance) => draft.named_member(&id, instance, is_joining)?,
    };
    check_epoch(&before, beat)?;
    let (wanted_before, mut member) = (before.current.assigned.clone(), before.clone());
    update(&mut member.subscription, beat);
    let changed = draft.subscribe(&id, &before, &member)?;
    draft.look_at_topics(changed.raises_epoch());
    draft.assign_if_due();
    draft.reconcile(&id, changed.is_any(), beat.owned.as_ref());
    let session_timeout_ms = beat.settings.session_timeout_ms.unwrap_or(shard.config.consumer.session_timeout_ms);
    draft.restart_clocks(&id, before.current.state, session_timeout_ms);
    let Some(current) = draft.group.members.get(&id).map(|member| &member.current) else {
        return Err(Refused::new(ErrorCode::UnknownServerError, "The member is not in its group."));
    };
    let is_full = beat.rebalance_timeout_ms.is_some()
        && (beat.topics.is_some() || beat.pattern.is_some())
        && beat.owned.is_some();
    let says_it_again = is_joining || is_full || current.assigned != wanted_before;
    let assigned = || current.assigned.iter().map(|(topic, all)| (*topic, all.keys().copied().collect())).collect();
    let answer = Beat {
        member: id.clone(),
        epoch: current.epoch,
        interval_ms: beat.settings.heartbeat_interval_ms.unwrap_or(shard.config.consumer.heartbeat_interval_ms),
        assignment: says_it_again.then(assigned),
    };
    draft.reply(Reply::ConsumerGroupHeartbeat(Ok(answer)));
    Ok(draft.finish())
}

/// The group that is meant. Who joins makes it, or converts it.
fn draft_of_group<'a>(
    shard: &'a GroupCoordinator,
    context: &'a Context,
    beat: &'a ConsumerGroupHeartbeat,
    is_joining: bool,
) -> Result<Draft<'a>, Refused> {
    let id = &beat.group;
    match shard.groups.get(id).map(|group| &group.kind) {
        Some(Kind::Consumer(group)) => Ok(Draft::of(shard, context, id, Cow::Borrowed(group))),
        None if is_joining => Ok(Draft::of_new(shard, context, id)),
        None => Err(Refused::new(ErrorCode::GroupIdNotFound, format!("Consumer group {id} not found."))),
        Some(Kind::Classic { classic, .. }) if is_joining && classic.state == State::Empty => {
            let mut draft = Draft::of_new(shard, context, id);
            draft.records.push(Record::Group { group: id.clone(), metadata: None });
            Ok(draft)
        }
        Some(Kind::Classic { classic, .. }) if is_joining => convert::upgrade(shard, context, id, classic),
        Some(Kind::Classic { .. }) => {
            Err(Refused::new(ErrorCode::GroupIdNotFound, format!("Group {id} is not a consumer group.")))
        }
    }
}

/// What a member did not say stays as it is.
fn update(subscription: &mut Subscription, beat: &ConsumerGroupHeartbeat) {
    fn set<T: Clone>(value: &mut T, said: Option<&T>) {
        if let Some(said) = said {
            value.clone_from(said);
        }
    }
    if beat.instance.is_some() {
        subscription.instance.clone_from(&beat.instance);
    }
    if beat.rack.is_some() {
        subscription.rack.clone_from(&beat.rack);
    }
    if beat.assignor.is_some() {
        subscription.assignor.clone_from(&beat.assignor);
    }
    set(&mut subscription.rebalance_timeout_ms, beat.rebalance_timeout_ms.as_ref());
    set(&mut subscription.topics, beat.topics.as_ref());
    set(&mut subscription.pattern, beat.pattern.as_ref());
    subscription.client_id = Arc::clone(&beat.client_id);
    subscription.client_host = Arc::clone(&beat.client_host);
    subscription.classic = None;
}

/// A member may be one step behind, if it did not hear our last answer: then it has nothing that it was not given.
fn check_epoch(member: &Member, beat: &ConsumerGroupHeartbeat) -> Result<(), Refused> {
    let known = member.current.epoch;
    let fenced = |how: &str| {
        let message = format!(
            "The consumer group member has a {how} member epoch ({}) than the one known by the group coordinator ({known}). \
             The member must abandon all its partitions and rejoin.",
            beat.epoch
        );
        Err(Refused::new(ErrorCode::FencedMemberEpoch, message))
    };
    if beat.epoch == JOIN_EPOCH || beat.epoch == known {
        return Ok(());
    }
    if beat.epoch > known {
        return fenced("greater");
    }
    let has_no_more = || {
        let owned = beat.owned.as_ref()?;
        let has = |(topic, partitions): (_, &std::collections::BTreeSet<i32>)| {
            member.current.assigned.get(topic).is_some_and(|all| partitions.iter().all(|it| all.contains_key(it)))
        };
        Some(owned.iter().all(has))
    };
    if beat.epoch == member.current.previous_epoch && has_no_more() == Some(true) {
        return Ok(());
    }
    fenced("smaller")
}

/// What of a member's wishes is another than before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Changed {
    pub(super) topics: bool,
    pub(super) pattern: bool,
    /// The topics of the pattern are known already.
    pub(super) pattern_resolved: bool,
    pub(super) assignor: bool,
}

impl Changed {
    /// A new pattern raises the epoch when it has been resolved.
    fn raises_epoch(self) -> bool {
        self.topics || self.pattern_resolved || self.assignor
    }

    pub(super) fn is_any(self) -> bool {
        self.topics || self.pattern
    }
}

impl Draft<'_> {
    pub(super) fn check_room(&self, id: &MemberId, instance: Option<&GroupInstanceId>) -> Result<(), Refused> {
        let most = self.config.consumer.members_max;
        let is_known = self.group.members.contains_key(id)
            || instance.is_some_and(|instance| self.group.instances.contains_key(instance));
        if is_known || self.group.members.len() < most {
            return Ok(());
        }
        let message = format!("The consumer group has reached its maximum capacity of {most} members.");
        Err(Refused::new(ErrorCode::GroupMaxSizeReached, message))
    }

    pub(super) fn dynamic_member(&self, id: &MemberId, is_joining: bool) -> Result<Member, Refused> {
        match self.group.members.get(id) {
            Some(member) => Ok(member.clone()),
            None if is_joining => Ok(Member::default()),
            None => Err(unknown_member(self.id, id)),
        }
    }

    fn named_member(&mut self, id: &MemberId, instance: &GroupInstanceId, is_joining: bool) -> Result<Member, Refused> {
        let found = self.group.static_member(instance).map(|(owner, member)| (owner.clone(), member.clone()));
        match found {
            None if is_joining => self.dynamic_member(id, true),
            None => Err(unknown_instance(instance)),
            Some((owner, member)) if is_joining => {
                // One that speaks the classic protocol does not say when it leaves.
                if member.classic().is_none() && member.current.epoch != LEAVE_FOR_A_WHILE_EPOCH {
                    return Err(Refused::new(
                        ErrorCode::UnreleasedInstanceId,
                        format!(
                            "Static member {id} with instance id {instance} cannot join the group because the instance id is \
                             owned by {owner} member."
                        ),
                    ));
                }
                Ok(self.replace_member(&owner, member, id))
            }
            Some((owner, _)) if owner != *id => Err(fenced_instance(id, instance, &owner)),
            Some((_, member)) => Ok(member),
        }
    }

    /// A static member is back under another id: what it was to have, and has, is the new one's.
    pub(super) fn replace_member(&mut self, owner: &MemberId, mut member: Member, id: &MemberId) -> Member {
        let target = self.group.targets.get(owner).cloned().unwrap_or_default();
        self.remove_member(owner);
        member.current.epoch = JOIN_EPOCH;
        member.current.previous_epoch = JOIN_EPOCH;
        self.push(Fact::Member(id.clone(), Some(member.subscription.clone())));
        self.push(Fact::TargetMember(id.clone(), Some(target)));
        self.push(Fact::Current(id.clone(), Some(member.current.clone())));
        member
    }

    /// Takes down what a member wants now.
    pub(super) fn subscribe(&mut self, id: &MemberId, before: &Member, after: &Member) -> Result<Changed, Refused> {
        let (old, new) = (&before.subscription, &after.subscription);
        let is_known = self.group.members.contains_key(id);
        if is_known && old == new {
            return Ok(Changed::default());
        }
        let was_last = !old.pattern.is_empty() && self.group.subscribers_of(&old.pattern) == 1;
        let is_new = !new.pattern.is_empty() && self.group.subscribers_of(&new.pattern) == 0;
        let pattern = old.pattern != new.pattern;
        if pattern && is_new {
            pattern::check(&new.pattern)?;
        }
        let assignor_before = self.preferred_assignor();
        self.push(Fact::Member(id.clone(), Some(new.clone())));
        if pattern && was_last {
            self.push(Fact::Pattern(Arc::clone(&old.pattern), None));
        }
        let pattern_resolved = pattern
            && if new.pattern.is_empty() {
                !old.pattern.is_empty()
            } else {
                self.group.patterns.contains_key(&new.pattern)
            };
        let assignor = assignor_before != self.preferred_assignor();
        Ok(Changed { topics: old.topics != new.topics, pattern, pattern_resolved, assignor })
    }

    fn preferred_assignor(&self) -> Assignor {
        self.group.preferred_assignor(&self.config.consumer)
    }

    /// Makes a target assignment for the group's epoch, unless there is one, or the last one is too fresh.
    pub(super) fn assign_if_due(&mut self) {
        let (group, interval_ms) = (&self.group, self.config.consumer.assignment_interval_ms);
        let due_at = group.target_timestamp.plus_ms(i64::from(interval_ms));
        let is_due = group.target_timestamp.0 == 0 || interval_ms == 0 || self.now >= due_at;
        if group.target_epoch >= group.epoch || !is_due {
            return;
        }
        let assigned = self.preferred_assignor().assign(&as_assignors_see_it(&self.group, self.topics), self.topics);
        for (id, target) in assigned {
            if self.group.targets.get(&id) != Some(&target) {
                self.push(Fact::TargetMember(id, Some(target)));
            }
        }
        let epoch = self.group.epoch;
        self.push(Fact::Target(Some(TargetEpoch { epoch, timestamp: self.now })));
    }

    /// It lives. If it has to give partitions up, it has its rebalance time-out for that, from when it was told.
    fn restart_clocks(&mut self, id: &MemberId, before: MemberState, session_timeout_ms: i32) {
        let Some(member) = self.group.members.get(id) else { return };
        let known = self.group.soft.clocks.get(id);
        let session = self.now.plus_ms(i64::from(session_timeout_ms));
        let until = self.now.plus_ms(i64::from(member.subscription.rebalance_timeout_ms));
        let rebalance = match (member.current.state, before) {
            (MemberState::UnrevokedPartitions, MemberState::UnrevokedPartitions) => {
                Some(known.and_then(|clocks| clocks.rebalance).unwrap_or(until))
            }
            (MemberState::UnrevokedPartitions, _) => Some(until),
            (MemberState::Stable | MemberState::UnreleasedPartitions | MemberState::Unknown, _) => None,
        };
        self.set_clocks(id, Clocks { rebalance, ..Clocks::session(session) });
    }
}

fn as_assignors_see_it(group: &Consumer, topics: &super::topics::TopicsImage) -> assignor::Group {
    let reader = |(id, member): (&MemberId, &Member)| {
        let reader = assignor::Reader {
            instance: member.subscription.instance.clone(),
            topics: topics.ids_of(group.topics_of(&member.subscription)),
            target: group.targets.get(id).cloned().unwrap_or_default(),
        };
        (id.clone(), reader)
    };
    assignor::Group { members: group.members.iter().map(reader).collect() }
}

pub(super) fn unknown_member(group: &atonce_kernel::GroupId, id: &MemberId) -> Refused {
    Refused::new(ErrorCode::UnknownMemberId, format!("Member {id} is not a member of group {group}."))
}

pub(super) fn unknown_instance(instance: &GroupInstanceId) -> Refused {
    Refused::new(ErrorCode::UnknownMemberId, format!("Instance id {instance} is unknown."))
}

pub(super) fn fenced_instance(id: &MemberId, instance: &GroupInstanceId, owner: &MemberId) -> Refused {
    let message = format!("Static member {id} with instance id {instance} was fenced by member {owner}.");
    Refused::new(ErrorCode::FencedInstanceId, message)
}
