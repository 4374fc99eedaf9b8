//! JoinGroup: become a member, or go on being one.

use std::sync::Arc;

use atonce_kernel::MemberId;
use atonce_protocol::ErrorCode;
use bytes::Bytes;

use super::classic::{Joiner, Member, State, Waiting, Window};
use super::command::JoinGroup;
use super::draft::Draft;
use super::record::NAME_BYTES_MAX;
use super::reply::{JoinRefused, Reply};
use super::{GroupCoordinator, Kind, consumer};
use crate::shard::{Context, Decision};

/// Ids given out and not used yet, in one group. A client that asks and never comes could have any number of them; the one
/// whose time is up first is then forgotten, and whoever comes with it gets another. More than any group has newcomers at once.
const PENDING_MAX: usize = 1_000;

/// Takes a member in, or back.
///
/// Shape: `Empty`, `CompletingRebalance`, `Stable` → `PreparingRebalance`, and on if all have joined. A static member that
///   comes back without its id takes over its place; in `Stable`, if the protocol stays the same, without a rebalance (one
///   record, same generation). A follower that repeats itself in `Stable`, and anybody in `CompletingRebalance`,
///   hears of the generation as it is.
/// Retry: safe with an id; the older request is sent away. Without one (before version 4) each retry is a new
///   member, which its time-out removes.
/// In a consumer group with members, as [`consumer`](super::consumer) says; one without members becomes a classic group again.
///
/// Refuses, in this order: `InvalidGroupId` if empty or longer than a record can say, `InvalidRequest` if another
///   name is; `InvalidSessionTimeout` outside the limits; `UnknownMemberId` if an
///   id is given and there is no group; `GroupMaxSizeReached`; `InconsistentGroupProtocol` without a protocol in common;
///   `MemberIdRequired` to dynamic newcomers from version 4 on; `UnknownMemberId` or `FencedInstanceId` for ids that
///   are not, or no longer, the member's.
/// Source: KIP-62, KIP-134, KIP-345, KIP-394, KIP-814.
pub(super) fn decide(shard: &GroupCoordinator, context: &Context, join: &JoinGroup) -> Decision<GroupCoordinator> {
    let refuse = |error| {
        let refused = JoinRefused { error, member: join.member.clone() };
        Decision::reply(context.waiter, Reply::JoinGroup(Err(refused)))
    };
    let (least, most) = (shard.config.session_timeout_ms_min, shard.config.session_timeout_ms_max);
    if join.group.as_str().is_empty() || join.group.as_str().len() > NAME_BYTES_MAX {
        return refuse(ErrorCode::InvalidGroupId);
    }
    if !join.can_be_recorded() {
        return refuse(ErrorCode::InvalidRequest);
    }
    if !(least..=most).contains(&join.session_timeout_ms) {
        return refuse(ErrorCode::InvalidSessionTimeout);
    }
    let mut draft = match (shard.groups.get(&join.group).map(|group| &group.kind), &join.member) {
        (Some(Kind::Classic { classic, .. }), _) => Draft::of(shard, context, &join.group, classic),
        (Some(Kind::Consumer(group)), _) if !group.members.is_empty() => {
            return consumer::classic_join(shard, context, join, group);
        }
        (Some(Kind::Consumer(group)), None) => {
            let ended = consumer::tombstones(shard, context, &join.group, group);
            Draft::in_the_place_of(shard, context, &join.group, ended)
        }
        (None, None) => Draft::of_new(shard, context, &join.group),
        (Some(Kind::Consumer(_)) | None, Some(_)) => return refuse(ErrorCode::UnknownMemberId),
    };
    let fresh_id = || fresh_member_id(context, join);
    match &join.member {
        _ if !draft.has_room_for(join.member.as_ref()) => draft.turn_away(join),
        None if !draft.group.supports(&join.protocol_type, &join.protocols) => {
            draft.refuse_join(ErrorCode::InconsistentGroupProtocol, None);
        }
        None => draft.join_without_id(join, fresh_id()),
        Some(id) => draft.join_with_id(join, id),
    }
    draft.finish()
}

impl JoinGroup {
    fn can_be_recorded(&self) -> bool {
        let instance = self.instance.as_ref().map_or("", |instance| instance.as_str());
        let names = [instance, &*self.client_id, &*self.client_host, self.protocol_type.as_str()];
        let protocols = self.protocols.iter().map(|protocol| protocol.name.as_str());
        names.into_iter().chain(protocols).all(|name| name.len() <= NAME_BYTES_MAX)
    }
}

/// The static member's own name, or the client's, and something random: an id that nobody else has or guesses.
fn fresh_member_id(context: &Context, join: &JoinGroup) -> MemberId {
    let name = join.instance.as_ref().map_or(&*join.client_id, |instance| instance.as_str());
    let random = u128::from_be_bytes(context.fresh_uuid.0);
    let part = |shift: u32, digits: u32| (random >> shift) & ((1_u128 << (4 * digits)) - 1);
    // As java.util.UUID prints it, which is what other coordinators give out.
    let (a, b, c, d, e) = (part(96, 8), part(80, 4), part(64, 4), part(48, 4), part(0, 12));
    MemberId::from(format!("{name}-{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}"))
}

impl Draft<'_> {
    /// Whether the group may have this one, too. In a rebalance those who are back count, so that the last ones
    /// lose their place if the limit was lowered.
    fn has_room_for(&self, member: Option<&MemberId>) -> bool {
        let known = member.and_then(|id| self.group.members.get(id));
        match self.group.state {
            State::Empty => true,
            State::PreparingRebalance { .. } => {
                known.is_some_and(Member::is_joining) || self.group.joining() < self.config.members_max
            }
            State::CompletingRebalance { .. } | State::Stable { .. } => {
                known.is_some() || self.group.members.len() < self.config.members_max
            }
        }
    }

    fn turn_away(&mut self, join: &JoinGroup) {
        if let Some(id) = &join.member {
            self.refuse_waiting(id, ErrorCode::UnknownMemberId, None);
            self.group.remove(id);
            // The others need not wait for it any longer. (Kafka lets them, until the time-out.)
            self.complete_join_if_due();
        }
        self.refuse_join(ErrorCode::GroupMaxSizeReached, None);
    }

    fn join_without_id(&mut self, join: &JoinGroup, fresh: MemberId) {
        let owner = join.instance.as_ref().map(|instance| self.group.instances.get(instance).cloned());
        match owner {
            Some(Some(owner)) => self.replace_static(join, &owner, fresh),
            Some(None) => self.add(join, fresh, Joiner::Newcomer),
            None if join.version >= 4 => {
                // A client that never hears this answer comes again without an id, and costs an entry until its session
                // would have ended, not a member that a rebalance waits for.
                let deadline = self.now.plus_ms(i64::from(join.session_timeout_ms));
                self.forget_a_pending_id_if_too_many();
                self.group.pending.insert(fresh.clone(), deadline);
                self.refuse_join(ErrorCode::MemberIdRequired, Some(&fresh));
            }
            None => self.add(join, fresh, Joiner::Unnamed),
        }
    }

    fn forget_a_pending_id_if_too_many(&mut self) {
        if self.group.pending.len() < PENDING_MAX {
            return;
        }
        let first = self.group.pending.iter().min_by_key(|(_, deadline)| **deadline).map(|(id, _)| id.clone());
        if let Some(id) = first {
            self.group.remove(&id);
        }
    }

    fn join_with_id(&mut self, join: &JoinGroup, id: &MemberId) {
        if !self.group.supports(&join.protocol_type, &join.protocols) {
            return self.refuse_join(ErrorCode::InconsistentGroupProtocol, Some(id));
        }
        if self.group.pending.contains_key(id) {
            return match join.instance {
                None => self.add(join, id.clone(), Joiner::Newcomer),
                // Ids are given out to dynamic members only. Kafka stumbles here, and says so.
                Some(_) => self.refuse_join(ErrorCode::UnknownServerError, None),
            };
        }
        if let Err(error) = self.group.validate_member(Some(id), join.instance.as_ref()) {
            return self.refuse_join(error, Some(id));
        }
        let says_the_same = self.group.members.get(id).is_some_and(|member| member.protocols == join.protocols);
        match self.group.state {
            State::PreparingRebalance { .. } => self.rejoin(join, id),
            State::CompletingRebalance { .. } if says_the_same => self.tell_generation(id),
            State::CompletingRebalance { .. } => self.rejoin(join, id),
            // A leader that joins again wants a rebalance: it may know of changes that no subscription shows.
            State::Stable { .. } if says_the_same && !self.group.is_leader(id) => self.tell_generation(id),
            State::Stable { .. } => self.rejoin(join, id),
            State::Empty => self.refuse_join(ErrorCode::UnknownMemberId, Some(id)),
        }
    }

    fn tell_generation(&mut self, id: &MemberId) {
        let joined = self.group.joined(id);
        self.reply(Reply::JoinGroup(Ok(joined)));
    }

    /// A new member.
    fn add(&mut self, join: &JoinGroup, id: MemberId, joiner: Joiner) {
        if let State::PreparingRebalance { window: Window::Initial { newcomer, .. } } = &mut self.group.state {
            *newcomer = true;
        }
        if self.group.members.is_empty() {
            self.group.protocol_type = Some(join.protocol_type.clone());
        }
        let timeout_ms = i64::from(self.config.new_member_join_timeout_ms);
        let member = Member {
            instance: join.instance.clone(),
            client_id: Arc::clone(&join.client_id),
            client_host: Arc::clone(&join.client_host),
            rebalance_timeout_ms: join.rebalance_timeout_ms,
            session_timeout_ms: join.session_timeout_ms,
            protocols: Arc::clone(&join.protocols),
            assignment: Bytes::new(),
            waiting: Waiting::Join { waiter: self.waiter, joiner },
            session_deadline: Some(self.now.plus_ms(timeout_ms)),
        };
        self.group.insert(id, member);
        self.rebalance();
    }

    /// A member that is known comes (back) into a rebalance.
    fn rejoin(&mut self, join: &JoinGroup, id: &MemberId) {
        self.update(join, id);
        self.hold_join(id);
        self.rebalance();
    }

    fn update(&mut self, join: &JoinGroup, id: &MemberId) {
        if let Some(member) = self.group.members.get_mut(id) {
            member.protocols = Arc::clone(&join.protocols);
            member.rebalance_timeout_ms = join.rebalance_timeout_ms;
            member.session_timeout_ms = join.session_timeout_ms;
        }
    }

    fn hold_join(&mut self, id: &MemberId) {
        let joiner = match self.group.members.get(id).map(|member| member.waiting) {
            Some(Waiting::Join { joiner, .. }) => joiner,
            Some(Waiting::No | Waiting::JoinGone | Waiting::Sync { .. }) | None => Joiner::Known,
        };
        let waiter = self.waiter;
        self.hold(id, Waiting::Join { waiter, joiner });
    }

    /// A static member is back without its id: its place, its assignment and its lead are `fresh`'s from now on, and
    /// whoever uses the old id is fenced.
    fn replace_static(&mut self, join: &JoinGroup, old: &MemberId, fresh: MemberId) {
        let old_leader = self.group.leader.clone();
        self.refuse_waiting(old, ErrorCode::FencedInstanceId, Some(old.clone()));
        let was_unsynced = self.group.unsynced_mut().is_some_and(|unsynced| unsynced.contains(old));
        let was_leader = self.group.is_leader(old);
        let Some(member) = self.group.remove(old) else { return };
        self.group.insert(fresh.clone(), member);
        if was_leader {
            self.group.leader = Some(fresh.clone());
        }
        if was_unsynced && let Some(unsynced) = self.group.unsynced_mut() {
            unsynced.insert(fresh.clone());
        }
        self.update(join, &fresh);
        self.restart_clock(&fresh);
        match self.group.state {
            State::Stable { .. } if self.group.protocol == self.group.select_protocol() => {
                self.record();
                let mut joined = self.group.joined(&fresh);
                if join.version >= 9 {
                    joined.skip_assignment = was_leader;
                } else {
                    // It must not take itself for the leader: it would assign what stands already. So the old id is named.
                    joined.leader = old_leader;
                    joined.members.clear();
                }
                self.reply(Reply::JoinGroup(Ok(joined)));
            }
            // In CompletingRebalance, too: the leader may be assigning to the old id this moment, and the new one would
            // get nothing.
            State::CompletingRebalance { .. } | State::Stable { .. } | State::PreparingRebalance { .. } => {
                self.hold_join(&fresh);
                self.rebalance();
            }
            State::Empty => self.refuse_join(ErrorCode::UnknownMemberId, None),
        }
    }
}
