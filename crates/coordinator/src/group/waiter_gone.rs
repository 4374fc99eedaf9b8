//! A caller that is held hung up.

use atonce_kernel::MemberId;

use super::GroupCoordinator;
use super::classic::{Joiner, Waiting};
use super::command::WaiterGone;
use super::draft::Draft;
use crate::shard::{Context, Decision};

/// Forgets the request that is held for the caller. Held, it was the member's sign of life; from now on its session goes on, so that a
/// rebalance that lasts for minutes does not keep one who is dead. A member that nobody can ever know of, since its id was to be told
/// in the answer, is out at once. (Kafka gives either one partitions in the next generation, and waits a session for it then.)
///
/// Shape: one who joins counts as back, as before; `PreparingRebalance` goes on if all others are, without one who is out.
/// Retry: harmless.
/// Source: KIP-394, "the zombie members".
pub(super) fn decide(shard: &GroupCoordinator, context: &Context, gone: &WaiterGone) -> Decision<GroupCoordinator> {
    let waits = |waiting: Waiting| match waiting {
        Waiting::Join { waiter, .. } | Waiting::Sync { waiter } => waiter == gone.waiter,
        Waiting::No | Waiting::JoinGone => false,
    };
    let Some(group) = shard.group(&gone.group) else { return Decision::nothing() };
    let Some((id, _)) = group.members.iter().find(|(_, member)| waits(member.waiting)) else {
        return Decision::nothing();
    };
    let mut draft = Draft::of(shard, context, &gone.group, group);
    draft.hang_up(id);
    draft.finish()
}

impl Draft<'_> {
    fn hang_up(&mut self, id: &MemberId) {
        let Some(member) = self.group.members.get_mut(id) else { return };
        match member.waiting {
            Waiting::Join { joiner: Joiner::Known | Joiner::Newcomer, .. } => {
                member.waiting = Waiting::JoinGone;
                self.restart_clock(id);
            }
            Waiting::Join { joiner: Joiner::Unnamed, .. } => {
                self.group.remove(id);
                self.rebalance();
            }
            Waiting::Sync { .. } => self.stop_waiting(id),
            Waiting::No | Waiting::JoinGone => {}
        }
    }
}
