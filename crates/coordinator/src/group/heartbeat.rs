//! Heartbeat: a member lives, and hears whether to join again.

use atonce_protocol::ErrorCode;

use super::classic::State;
use super::command::Heartbeat;
use super::reply::Reply;
use super::{GroupCoordinator, Kind, Note, consumer};
use crate::shard::{Context, Decision};

/// Gives the member its whole session again.
///
/// Shape: no state changes; a note of the clock.
/// Retry: safe.
/// Refuses, in this order: `InvalidGroupId` if empty; `UnknownMemberId` or `FencedInstanceId`; `IllegalGeneration`;
///   `RebalanceInProgress` while members join, and that counts as a sign of life too.
/// Source: KIP-62, KIP-345.
pub(super) fn decide(shard: &GroupCoordinator, context: &Context, beat: &Heartbeat) -> Decision<GroupCoordinator> {
    let refuse = |error| Decision::reply(context.waiter, Reply::Heartbeat(error));
    if beat.group.as_str().is_empty() {
        return refuse(ErrorCode::InvalidGroupId);
    }
    let group = match shard.groups.get(&beat.group).map(|group| &group.kind) {
        Some(Kind::Classic { classic, .. }) => classic,
        Some(Kind::Consumer(group)) => return consumer::classic_heartbeat(context, beat, group),
        None => return refuse(ErrorCode::UnknownMemberId),
    };
    let id = match group.validate_member(beat.member.as_ref(), beat.instance.as_ref()) {
        Ok(id) => id,
        Err(error) => return refuse(error),
    };
    if beat.generation != group.generation {
        return refuse(ErrorCode::IllegalGeneration);
    }
    let answer = match group.state {
        State::Empty => return refuse(ErrorCode::UnknownMemberId),
        State::PreparingRebalance { .. } => ErrorCode::RebalanceInProgress,
        State::CompletingRebalance { .. } | State::Stable { .. } => ErrorCode::None,
    };
    Decision {
        notes: Note::seen(context, &beat.group, group, id).into_iter().collect(),
        ..Decision::reply(context.waiter, Reply::Heartbeat(answer))
    }
}
