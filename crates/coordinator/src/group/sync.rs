//! SyncGroup: the leader brings what it assigned, and everybody fetches what is theirs.

use std::collections::BTreeMap;

use atonce_kernel::MemberId;
use atonce_protocol::ErrorCode;

use super::classic::{State, Waiting};
use super::command::SyncGroup;
use super::draft::Draft;
use super::reply::{Reply, Synced};
use super::{GroupCoordinator, Kind, consumer};
use crate::shard::{Context, Decision};

/// Ends a rebalance (the leader's), or waits for that, or fetches what was assigned.
///
/// Shape: the leader's: `CompletingRebalance → Stable`, recorded with all members and assignments, and all who wait are
///   answered. A follower's in `CompletingRebalance` waits. In `Stable` each is answered from state.
/// Retry: safe; in `Stable` an assignment that a late leader brings again is not looked at.
/// Refuses, in this order: `InconsistentGroupProtocol` without type or name from version 5 on; `InvalidGroupId` if
///   empty; `UnknownMemberId` or `FencedInstanceId`; `IllegalGeneration`; `InconsistentGroupProtocol` if type or name are not this
///   generation's; `RebalanceInProgress` while members join.
/// Durability: nobody sees an assignment before its record is durable, so a generation has one assignment, crash or not.
/// Source: KIP-62, KIP-345, KIP-559 (protocol type and name).
pub(super) fn decide(shard: &GroupCoordinator, context: &Context, sync: &SyncGroup) -> Decision<GroupCoordinator> {
    let refuse = |error| Decision::reply(context.waiter, Reply::SyncGroup(Err(error)));
    if sync.version >= 5 && (sync.protocol_type.is_none() || sync.protocol.is_none()) {
        return refuse(ErrorCode::InconsistentGroupProtocol);
    }
    if sync.group.as_str().is_empty() {
        return refuse(ErrorCode::InvalidGroupId);
    }
    let group = match shard.groups.get(&sync.group).map(|group| &group.kind) {
        Some(Kind::Classic { classic, .. }) => classic,
        Some(Kind::Consumer(group)) => return consumer::classic_sync(shard, context, sync, group),
        None => return refuse(ErrorCode::UnknownMemberId),
    };
    let id = match group.validate_member(sync.member.as_ref(), sync.instance.as_ref()) {
        Ok(id) => id,
        Err(error) => return refuse(error),
    };
    if sync.generation != group.generation {
        return refuse(ErrorCode::IllegalGeneration);
    }
    if differs(&sync.protocol_type, &group.protocol_type) || differs(&sync.protocol, &group.protocol) {
        return refuse(ErrorCode::InconsistentGroupProtocol);
    }
    let mut draft = Draft::of(shard, context, &sync.group, group);
    match group.state {
        State::Empty => return refuse(ErrorCode::UnknownMemberId),
        State::PreparingRebalance { .. } => return refuse(ErrorCode::RebalanceInProgress),
        State::CompletingRebalance { .. } => draft.sync(sync, id),
        State::Stable { .. } => {
            if let Some(unsynced) = draft.group.unsynced_mut() {
                unsynced.remove(id);
            }
            let synced = draft.synced(id);
            draft.reply(Reply::SyncGroup(Ok(synced)));
        }
    }
    draft.finish()
}

/// Two that are both said, and not the same.
fn differs(asked: &Option<String>, known: &Option<String>) -> bool {
    asked.is_some() && known.is_some() && asked != known
}

impl Draft<'_> {
    fn sync(&mut self, sync: &SyncGroup, id: &MemberId) {
        let waiter = self.waiter;
        self.hold(id, Waiting::Sync { waiter });
        if let Some(unsynced) = self.group.unsynced_mut() {
            unsynced.remove(id);
        }
        if self.group.is_leader(id) {
            self.assign(sync);
        }
    }

    /// What the leader says, holds. Members it forgot get nothing, ids it made up are dropped.
    fn assign(&mut self, sync: &SyncGroup) {
        let assigned: BTreeMap<_, _> = sync.assignments.iter().map(|(id, bytes)| (id, bytes)).collect();
        let ids: Vec<MemberId> = self.group.members.keys().cloned().collect();
        for (id, member) in &mut self.group.members {
            member.assignment = assigned.get(id).map(|bytes| (*bytes).clone()).unwrap_or_default();
        }
        for id in &ids {
            let synced = self.synced(id);
            self.answer_sync(id, Ok(synced));
        }
        self.record();
    }

    fn synced(&self, id: &MemberId) -> Synced {
        Synced {
            protocol_type: self.group.protocol_type.clone(),
            protocol: self.group.protocol.clone(),
            assignment: self.group.members.get(id).map(|member| member.assignment.clone()).unwrap_or_default(),
        }
    }
}
