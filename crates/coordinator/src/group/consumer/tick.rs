//! What time does to a consumer group: silent members are put out, patterns are held against the topics.

use std::borrow::Cow;
use std::collections::BTreeSet;

use atonce_kernel::{GroupId, MemberId};

use super::super::{GroupCoordinator, Note};
use super::draft::Draft;
use super::{Clocks, Consumer, Member, MemberState, leave};
use crate::shard::{Context, Decision};

/// Does what is due in one group.
pub(in super::super) fn wake(
    shard: &GroupCoordinator,
    context: &Context,
    id: &GroupId,
    group: &Consumer,
) -> Decision<GroupCoordinator> {
    let is_due =
        |member: &MemberId| group.soft.clocks.get(member).is_some_and(|clocks| clocks.deadline() <= context.now);
    let late: BTreeSet<MemberId> = group.members.keys().filter(|member| is_due(member)).cloned().collect();
    if !late.is_empty() {
        return leave::put_out(shard, context, id, group, &late);
    }
    let mut draft = Draft::of(shard, context, id, Cow::Borrowed(group));
    draft.start_clocks();
    draft.resolve_patterns_if_due();
    // Signs of life may have moved the deadline that we woke up for.
    draft.notes.push(Note::Rescheduled { group: id.clone() });
    draft.finish()
}

impl Draft<'_> {
    /// After a crash nobody knows when members were last seen: each gets its whole time again.
    fn start_clocks(&mut self) {
        let stopped: Vec<(MemberId, Clocks)> = self
            .group
            .members
            .iter()
            .filter(|(id, _)| !self.group.soft.clocks.contains_key(*id))
            .map(|(id, member)| (id.clone(), self.whole_time_of(member)))
            .collect();
        for (id, clocks) in stopped {
            self.set_clocks(&id, clocks);
        }
    }

    pub(super) fn whole_time_of(&self, member: &Member) -> Clocks {
        let session_timeout_ms = self.config.consumer.session_timeout_ms;
        let session_timeout_ms = member.classic().map_or(session_timeout_ms, |classic| classic.session_timeout_ms);
        let rebalance_ms = i64::from(member.subscription.rebalance_timeout_ms);
        let is_revoking = member.current.state == MemberState::UnrevokedPartitions && member.classic().is_none();
        Clocks {
            rebalance: is_revoking.then(|| self.now.plus_ms(rebalance_ms)),
            ..Clocks::session(self.now.plus_ms(i64::from(session_timeout_ms)))
        }
    }
}
