//! Members of a consumer group that speak the classic protocol: what they ask is answered in their own terms, and means the same.
//!
//! A generation is the member's epoch. Nobody waits: JoinGroup moves the member on and answers at once, SyncGroup fetches what is its own, and a
//! heartbeat says REBALANCE_IN_PROGRESS when there is more to give up or to get. No member is the leader, since the coordinator assigns.
//!
//! Source: KIP-848, "Supporting Online Consumer Group Upgrade".

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use atonce_kernel::{GroupId, GroupInstanceId, MemberId, TopicName};
use atonce_protocol::ErrorCode;
use atonce_protocol::messages::consumer_protocol_subscription::ConsumerProtocolSubscription;

use super::super::command::{Heartbeat, JoinGroup, LeaveGroup, MemberIdentity, SyncGroup};
use super::super::reply::{JoinRefused, Joined, MemberLeft, Reply, Synced};
use super::super::{GroupCoordinator, Note};
use super::draft::{Draft, Refused};
use super::heartbeat::{fenced_instance, unknown_instance, unknown_member};
use super::record::ClassicMember;
use super::{Clocks, Consumer, Member, MemberState, convert, leave};
use crate::shard::{Context, Decision};

const CONSUMER: &str = "consumer";

/// Joins, or goes on, and is moved towards the target.
///
/// Shape: as a heartbeat of the consumer protocol. A static member that takes its place back in the classic protocol as the last one of
///   the group makes it a classic group again.
/// Refuses, in this order: `InconsistentGroupProtocol` if groups may not migrate; `GroupMaxSizeReached`; `InconsistentGroupProtocol` for what are
///   no consumers, or without a protocol in common; `MemberIdRequired` to dynamic newcomers from version 4 on; `UnknownMemberId` or
///   `FencedInstanceId` to static ones; `InconsistentGroupProtocol` if the subscription cannot be read.
pub(in super::super) fn join(
    shard: &GroupCoordinator,
    context: &Context,
    join: &JoinGroup,
    group: &Consumer,
) -> Decision<GroupCoordinator> {
    let id = join.member.clone().unwrap_or_else(|| MemberId::from(context.fresh_uuid.to_string()));
    decide_join(shard, context, join, group, &id).unwrap_or_else(|refused| {
        let member = (refused.error == ErrorCode::MemberIdRequired).then_some(id);
        Decision::reply(context.waiter, Reply::JoinGroup(Err(JoinRefused { error: refused.error, member })))
    })
}

fn decide_join(
    shard: &GroupCoordinator,
    context: &Context,
    join: &JoinGroup,
    group: &Consumer,
    id: &MemberId,
) -> Result<Decision<GroupCoordinator>, Refused> {
    let inconsistent = |why: &str| Refused::new(ErrorCode::InconsistentGroupProtocol, why);
    if shard.config.consumer.migration.is_disabled() {
        return Err(inconsistent("group migration is disabled"));
    }
    let mut draft = Draft::of(shard, context, &join.group, Cow::Borrowed(group));
    draft.check_room(id, join.instance.as_ref())?;
    if !supports(group, join) {
        return Err(inconsistent("no protocol in common"));
    }
    if join.version >= 4 && join.member.is_none() && join.instance.is_none() {
        return Err(Refused::new(ErrorCode::MemberIdRequired, "come again with this id"));
    }
    let replaced = join.instance.as_ref().and_then(|instance| group.static_member(instance));
    let takes_the_last_place = replaced.is_some_and(|(_, member)| member.classic().is_none());
    let before = draft.classic_member(join, id)?;
    let said = join.protocols.first().and_then(|protocol| convert::read_subscription(&protocol.metadata));
    let said = said.ok_or_else(|| inconsistent("the subscription cannot be read"))?;
    let mut member = before.clone();
    update(&mut member, join, &said);
    let changed = draft.subscribe(id, &before, &member)?;
    draft.look_at_topics(changed.is_any());
    let owned =
        convert::by_id(said.owned_partitions.iter().map(|it| (it.topic.clone(), it.partitions.clone())), draft.topics);
    let downgrades = takes_the_last_place && convert::can_downgrade(&draft);
    let has_to_rebalance = draft.group.target_epoch < draft.group.epoch;
    if !downgrades {
        draft.assign_if_due();
    }
    if !(downgrades && has_to_rebalance) {
        draft.reconcile(id, changed.is_any(), Some(&owned));
    }
    let generation = draft.group.members.get(id).map_or(-1, |member| member.current.epoch);
    draft.reply(Reply::JoinGroup(Ok(Joined {
        generation,
        protocol_type: Some(CONSUMER.to_owned()),
        protocol: join.protocols.first().map(|protocol| protocol.name.clone()),
        leader: None,
        skip_assignment: false,
        member: id.clone(),
        members: Vec::new(),
    })));
    if downgrades {
        let rest = draft.group.clone().into_owned();
        draft.remove_all();
        return Ok(convert::downgrade(draft, &rest, has_to_rebalance));
    }
    let until = |ms: i32| context.now.plus_ms(i64::from(ms));
    let clocks =
        Clocks { sync: Some(until(join.rebalance_timeout_ms)), ..Clocks::session(until(join.session_timeout_ms)) };
    draft.set_clocks(id, clocks);
    Ok(draft.finish())
}

/// Consumers, with a protocol that all others of the classic protocol have, too.
fn supports(group: &Consumer, join: &JoinGroup) -> bool {
    let all_have = |name: &str| {
        let mut classic = group.members.values().filter_map(Member::classic);
        classic.all(|member| member.protocols.iter().any(|protocol| protocol.name == name))
    };
    join.protocol_type == CONSUMER && join.protocols.iter().any(|protocol| all_have(&protocol.name))
}

fn update(member: &mut Member, join: &JoinGroup, said: &ConsumerProtocolSubscription) {
    let subscription = &mut member.subscription;
    if join.instance.is_some() {
        subscription.instance.clone_from(&join.instance);
    }
    if let Some(rack) = said.rack_id.as_deref().filter(|rack| !rack.is_empty()) {
        subscription.rack = Some(Arc::from(rack));
    }
    if join.rebalance_timeout_ms != -1 {
        subscription.rebalance_timeout_ms = join.rebalance_timeout_ms;
    }
    subscription.topics = said.topics.iter().map(TopicName::from).collect();
    subscription.pattern = Arc::from("");
    subscription.client_id = Arc::clone(&join.client_id);
    subscription.client_host = Arc::clone(&join.client_host);
    subscription.classic =
        Some(ClassicMember { session_timeout_ms: join.session_timeout_ms, protocols: Arc::clone(&join.protocols) });
}

impl Draft<'_> {
    fn classic_member(&mut self, join: &JoinGroup, id: &MemberId) -> Result<Member, Refused> {
        let Some(instance) = &join.instance else { return self.dynamic_member(id, true) };
        let found = self.group.static_member(instance).map(|(owner, member)| (owner.clone(), member.clone()));
        match found {
            None if join.member.is_none() => self.dynamic_member(id, true),
            None => Err(unknown_instance(instance)),
            Some((owner, member)) if join.member.is_none() => Ok(self.replace_member(&owner, member, id)),
            Some((owner, _)) if owner != *id => Err(fenced_instance(id, instance, &owner)),
            Some((_, member)) => Ok(member),
        }
    }
}

/// The member that is meant, if it speaks the classic protocol.
fn member<'a>(
    group: &'a Consumer,
    group_id: &GroupId,
    id: Option<&MemberId>,
    instance: Option<&GroupInstanceId>,
) -> Result<(&'a MemberId, &'a Member, &'a ClassicMember), Refused> {
    let unnamed = MemberId::from("");
    let id = id.unwrap_or(&unnamed);
    let (found_id, member) = match instance {
        None => group.members.get_key_value(id).ok_or_else(|| unknown_member(group_id, id))?,
        Some(instance) => {
            let (owner, member) = group.static_member(instance).ok_or_else(|| unknown_instance(instance))?;
            if owner != id {
                return Err(fenced_instance(id, instance, owner));
            }
            (owner, member)
        }
    };
    let classic = member.classic().ok_or_else(|| unknown_member(group_id, id))?;
    Ok((found_id, member, classic))
}

/// Fetches what the member has.
///
/// Shape: a note of the clocks.
/// Refuses, in this order: `UnknownMemberId` or `FencedInstanceId`; `IllegalGeneration`; `InconsistentGroupProtocol`;
///   `RebalanceInProgress` if the target is further on already.
pub(in super::super) fn sync(
    shard: &GroupCoordinator,
    context: &Context,
    sync: &SyncGroup,
    group: &Consumer,
) -> Decision<GroupCoordinator> {
    let refuse = |error| Decision::reply(context.waiter, Reply::SyncGroup(Err(error)));
    let (id, member, classic) = match member(group, &sync.group, sync.member.as_ref(), sync.instance.as_ref()) {
        Ok(found) => found,
        Err(refused) => return refuse(refused.error),
    };
    if member.current.epoch != sync.generation {
        return refuse(ErrorCode::IllegalGeneration);
    }
    let protocol = classic.protocols.first().map(|protocol| &protocol.name);
    if sync.protocol_type.as_deref().is_some_and(|it| it != CONSUMER)
        || sync.protocol.as_ref().is_some_and(|it| Some(it) != protocol)
    {
        return refuse(ErrorCode::InconsistentGroupProtocol);
    }
    if group.target_epoch > member.current.epoch && member.current.state != MemberState::UnrevokedPartitions {
        let notes = vec![must_join(context, &sync.group, group, id, member)];
        return Decision { notes, ..refuse(ErrorCode::RebalanceInProgress) };
    }
    let assigned = member.current.assigned.iter().map(|(topic, all)| (topic, all.keys().copied().collect()));
    let synced = Synced {
        protocol_type: sync.protocol_type.clone(),
        protocol: sync.protocol.clone(),
        assignment: convert::write_assignment(assigned, &classic.protocols, None, &shard.topics),
    };
    let session = context.now.plus_ms(i64::from(classic.session_timeout_ms));
    let known = group.soft.clocks.get(id).copied();
    let clocks = Clocks { session, sync: None, ..known.unwrap_or_else(|| Clocks::session(session)) };
    Decision {
        notes: vec![Note::Clocks { group: sync.group.clone(), member: id.clone(), clocks }],
        ..Decision::reply(context.waiter, Reply::SyncGroup(Ok(synced)))
    }
}

/// A member lives, and hears whether to join again.
///
/// Shape: a note of the clocks.
/// Refuses, in this order: `UnknownMemberId` or `FencedInstanceId`; `IllegalGeneration`; `RebalanceInProgress` if there is something to give
///   up, or to get that is free by now. That counts as a sign of life, too.
pub(in super::super) fn heartbeat(context: &Context, beat: &Heartbeat, group: &Consumer) -> Decision<GroupCoordinator> {
    let refuse = |error| Decision::reply(context.waiter, Reply::Heartbeat(error));
    let (id, member, classic) = match member(group, &beat.group, beat.member.as_ref(), beat.instance.as_ref()) {
        Ok(found) => found,
        Err(refused) => return refuse(refused.error),
    };
    if member.current.epoch != beat.generation {
        return refuse(ErrorCode::IllegalGeneration);
    }
    let session = context.now.plus_ms(i64::from(classic.session_timeout_ms));
    let has_to_join = member.current.epoch < group.target_epoch
        || match member.current.state {
            MemberState::UnrevokedPartitions => true,
            MemberState::UnreleasedPartitions => !group.waits_for_others(id, member),
            MemberState::Stable | MemberState::Unknown => false,
        };
    let note = if has_to_join {
        must_join(context, &beat.group, group, id, member)
    } else {
        let known = group.soft.clocks.get(id).copied().unwrap_or_else(|| Clocks::session(session));
        Note::Clocks { group: beat.group.clone(), member: id.clone(), clocks: Clocks { session, ..known } }
    };
    let error = if has_to_join { ErrorCode::RebalanceInProgress } else { ErrorCode::None };
    Decision { notes: vec![note], ..Decision::reply(context.waiter, Reply::Heartbeat(error)) }
}

/// It was told to join again, and has its rebalance time-out for that, from when it was told first.
fn must_join(context: &Context, group_id: &GroupId, group: &Consumer, id: &MemberId, member: &Member) -> Note {
    let until = |ms: i32| context.now.plus_ms(i64::from(ms));
    let session_timeout_ms = member.classic().map_or(0, |classic| classic.session_timeout_ms);
    let known = group.soft.clocks.get(id).copied().unwrap_or_else(|| Clocks::session(until(session_timeout_ms)));
    let join = known.join.unwrap_or_else(|| until(member.subscription.rebalance_timeout_ms));
    let clocks = Clocks { session: until(session_timeout_ms), join: Some(join), ..known };
    Note::Clocks { group: group_id.clone(), member: id.clone(), clocks }
}

impl Consumer {
    /// Whether something that the member shall have is still another's.
    fn waits_for_others(&self, id: &MemberId, member: &Member) -> bool {
        let in_use = self.partitions_in_use(id);
        let target = self.targets.get(id).into_iter().flatten();
        let mut partitions = target.flat_map(|(topic, all)| all.iter().map(|partition| (*topic, *partition)));
        partitions.any(|(topic, partition)| {
            let has_it = member.current.assigned.get(&topic).is_some_and(|all| all.contains_key(&partition));
            !has_it && in_use.contains(&(topic, partition))
        })
    }
}

/// Members leave, of whichever protocol: an administrator names static ones only.
pub(in super::super) fn leave(
    shard: &GroupCoordinator,
    context: &Context,
    request: &LeaveGroup,
    group: &Consumer,
) -> Decision<GroupCoordinator> {
    let mut gone = BTreeSet::new();
    let mut answers = Vec::with_capacity(request.members.len());
    for who in &request.members {
        let error = match leaving(group, &request.group, who) {
            Ok(id) => {
                gone.insert(id.clone());
                ErrorCode::None
            }
            Err(refused) => refused.error,
        };
        answers.push(MemberLeft { member: who.member.clone(), instance: who.instance.clone(), error });
    }
    let mut decision = leave::put_out(shard, context, &request.group, group, &gone);
    decision.replies.push((context.waiter, Reply::LeaveGroup(Ok(answers))));
    decision
}

fn leaving<'a>(group: &'a Consumer, group_id: &GroupId, who: &MemberIdentity) -> Result<&'a MemberId, Refused> {
    let unnamed = MemberId::from("");
    let id = who.member.as_ref().unwrap_or(&unnamed);
    match &who.instance {
        None => group.members.get_key_value(id).map(|(id, _)| id).ok_or_else(|| unknown_member(group_id, id)),
        Some(instance) => {
            let (owner, _) = group.static_member(instance).ok_or_else(|| unknown_instance(instance))?;
            if who.member.is_some() && owner != id {
                return Err(fenced_instance(id, instance, owner));
            }
            Ok(owner)
        }
    }
}
