//! LeaveGroup: members go, or are sent.

use atonce_protocol::ErrorCode;

use super::classic::State;
use super::command::{LeaveGroup, MemberIdentity};
use super::draft::Draft;
use super::reply::{MemberLeft, Reply};
use super::{GroupCoordinator, Kind, consumer};
use crate::shard::{Context, Decision};

/// Lets members go, each judged alone, and then begins one rebalance for all of them.
///
/// Shape: `CompletingRebalance`, `Stable` → `PreparingRebalance`, and on to `Empty` (recorded) if nobody is left.
/// Retry: safe; who has left already is `UnknownMemberId`.
/// Refuses: all with `InvalidGroupId` if the group's name is empty; one with `UnknownMemberId`, or with
///   `FencedInstanceId` if its own name is another id's now.
/// Source: KIP-345 (batches, and removal by a static member's own name), KIP-394 (ids that were given out).
pub(super) fn decide(shard: &GroupCoordinator, context: &Context, leave: &LeaveGroup) -> Decision<GroupCoordinator> {
    let answer = |members| Decision::reply(context.waiter, Reply::LeaveGroup(members));
    if leave.group.as_str().is_empty() {
        return answer(Err(ErrorCode::InvalidGroupId));
    }
    let group = match shard.groups.get(&leave.group).map(|group| &group.kind) {
        Some(Kind::Classic { classic, .. }) => classic,
        Some(Kind::Consumer(group)) => return consumer::classic_leave(shard, context, leave, group),
        None => return answer(Ok(leave.members.iter().map(|who| left(who, ErrorCode::UnknownMemberId)).collect())),
    };
    let mut draft = Draft::of(shard, context, &leave.group, group);
    let members: Vec<MemberLeft> =
        leave.members.iter().map(|who| left(who, draft.leave(who).err().unwrap_or(ErrorCode::None))).collect();
    if members.iter().any(|member| member.error == ErrorCode::None) {
        draft.rebalance_without_those_who_left();
    }
    draft.reply(Reply::LeaveGroup(Ok(members)));
    draft.finish()
}

fn left(who: &MemberIdentity, error: ErrorCode) -> MemberLeft {
    MemberLeft { member: who.member.clone(), instance: who.instance.clone(), error }
}

impl Draft<'_> {
    fn leave(&mut self, who: &MemberIdentity) -> Result<(), ErrorCode> {
        let id = match &who.member {
            // An administrator knows a static member by its own name only.
            None => {
                let owner = who.instance.as_ref().and_then(|instance| self.group.instances.get(instance));
                owner.cloned().ok_or(ErrorCode::UnknownMemberId)?
            }
            Some(id) if self.group.pending.contains_key(id) => id.clone(),
            Some(id) => self.group.validate_member(Some(id), who.instance.as_ref())?.clone(),
        };
        self.refuse_waiting(&id, ErrorCode::UnknownMemberId, None);
        self.group.remove(&id);
        Ok(())
    }

    fn rebalance_without_those_who_left(&mut self) {
        match self.group.state {
            State::Empty => {}
            State::PreparingRebalance { .. } | State::CompletingRebalance { .. } | State::Stable { .. } => {
                self.rebalance()
            }
        }
    }
}
