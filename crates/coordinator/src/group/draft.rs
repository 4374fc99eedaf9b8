//! A decision about one group while it is being made: a copy of the group is moved on, and what it takes is written down.
//!
//! A classic group's rules chain (the last member leaves, so the join phase ends, so the group is empty, so a record is
//! due), and each link looks at the state that the last one left. The copy lets them; the decision then says once how
//! the group stands. The host comes to the same state by another way, records first, then the note; the
//! exhaustive test compares the two.

use atonce_kernel::{GroupId, MemberId, Timestamp};
use atonce_protocol::ErrorCode;

use super::classic::{Classic, State, Waiting};
use super::config::GroupConfig;
use super::record::{GroupMetadata, Record};
use super::reply::{JoinRefused, Joined, Reply, Synced};
use super::{GroupCoordinator, Note};
use crate::shard::{Context, Decision, Waiter};

pub(super) struct Draft<'a> {
    pub(super) config: &'a GroupConfig,
    pub(super) now: Timestamp,
    /// Who asks.
    pub(super) waiter: Waiter,
    pub(super) id: &'a GroupId,
    pub(super) group: Classic,
    before: Option<&'a Classic>,
    records: Vec<Record>,
    replies: Vec<(Waiter, Reply)>,
}

impl<'a> Draft<'a> {
    /// Begins with a group as it stands.
    pub(super) fn of(shard: &'a GroupCoordinator, context: &Context, id: &'a GroupId, group: &'a Classic) -> Self {
        Self {
            config: &shard.config,
            now: context.now,
            waiter: context.waiter,
            id,
            group: group.clone(),
            before: Some(group),
            records: Vec::new(),
            replies: Vec::new(),
        }
    }

    /// Begins with a group that was of another kind until now.
    pub(super) fn beginning_with(
        shard: &'a GroupCoordinator,
        context: &Context,
        id: &'a GroupId,
        group: Classic,
    ) -> Self {
        Self {
            config: &shard.config,
            now: context.now,
            waiter: context.waiter,
            id,
            group,
            before: None,
            records: Vec::new(),
            replies: Vec::new(),
        }
    }

    /// Begins with a group that is made here, in the place of what `records` remove.
    pub(super) fn in_the_place_of(
        shard: &'a GroupCoordinator,
        context: &Context,
        id: &'a GroupId,
        records: Vec<Record>,
    ) -> Self {
        let mut draft = Self { records, ..Self::beginning_with(shard, context, id, Classic::new(context.now)) };
        draft.record();
        draft
    }

    /// Begins with a group that is made here.
    pub(super) fn of_new(shard: &'a GroupCoordinator, context: &Context, id: &'a GroupId) -> Self {
        Self::in_the_place_of(shard, context, id, Vec::new())
    }

    /// The decision.
    pub(super) fn finish(self) -> Decision<GroupCoordinator> {
        let changed = !self.records.is_empty() || self.before != Some(&self.group);
        let note = changed.then(|| Note::Stands { group: self.id.clone(), classic: Box::new(self.group) });
        Decision {
            records: self.records,
            notes: note.into_iter().collect(),
            replies: self.replies,
            ..Decision::nothing()
        }
    }

    /// Answers the caller.
    pub(super) fn reply(&mut self, reply: Reply) {
        self.replies.push((self.waiter, reply));
    }

    /// Answers the caller: not in.
    pub(super) fn refuse_join(&mut self, error: ErrorCode, member: Option<&MemberId>) {
        self.reply(Reply::JoinGroup(Err(JoinRefused { error, member: member.cloned() })));
    }

    /// Logs the group as it stands, with the assignments that its members have.
    pub(super) fn record(&mut self) {
        let metadata = self.group.metadata(|_, member| member.assignment.clone());
        self.record_as(metadata);
    }

    /// Logs the group as `metadata` says, which is how it stands from now on.
    pub(super) fn record_as(&mut self, metadata: GroupMetadata) {
        debug_assert!(
            self.group.members.values().all(|member| member.waiting == Waiting::No),
            "{}: a record would make us forget who waits",
            self.id
        );
        let settled = Classic::settled(&metadata, Some(&self.group));
        // A static member that took its place again may have said something else; the generation is the same.
        self.group = Classic { reads: self.group.reads.take(), ..settled };
        self.records.push(Record::Group { group: self.id.clone(), metadata: Some(metadata) });
    }

    /// Moves to another state.
    pub(super) fn turn(&mut self, state: State) {
        self.group.state = state;
        self.group.since = self.now;
    }

    /// Gives a member its whole session again.
    pub(super) fn restart_clock(&mut self, id: &MemberId) {
        let now = self.now;
        if let Some(member) = self.group.members.get_mut(id) {
            member.session_deadline = Some(now.plus_ms(i64::from(member.session_timeout_ms)));
        }
    }

    /// Answers a member's JoinGroup, if we hold one; a clock that stood still goes on.
    pub(super) fn answer_join(&mut self, id: &MemberId, answer: impl FnOnce(&Classic) -> Result<Joined, JoinRefused>) {
        let waiter = match self.group.members.get(id).map(|member| member.waiting) {
            Some(Waiting::Join { waiter, .. }) => Some(waiter),
            Some(Waiting::JoinGone) => None,
            Some(Waiting::No | Waiting::Sync { .. }) | None => return,
        };
        self.stop_waiting(id);
        if let Some(waiter) = waiter {
            let answer = answer(&self.group);
            self.replies.push((waiter, Reply::JoinGroup(answer)));
        }
    }

    /// Answers a member's SyncGroup, if we hold one; a clock that stood still goes on.
    pub(super) fn answer_sync(&mut self, id: &MemberId, answer: Result<Synced, ErrorCode>) {
        let Some(Waiting::Sync { waiter }) = self.group.members.get(id).map(|member| member.waiting) else { return };
        self.stop_waiting(id);
        self.replies.push((waiter, Reply::SyncGroup(answer)));
    }

    /// Tells a member that it is out, whatever it waits for. It will join again if it lives.
    pub(super) fn refuse_waiting(&mut self, id: &MemberId, error: ErrorCode, member: Option<MemberId>) {
        self.answer_sync(id, Err(error));
        self.answer_join(id, |_| Err(JoinRefused { error, member }));
    }

    /// Holds the caller until `waiting` is over. A request of the same member that was held before is from a
    /// connection it has given up, or an impatient client: it is told to try again. The clock is left alone: a newcomer's
    /// runs on.
    pub(super) fn hold(&mut self, id: &MemberId, waiting: Waiting) {
        let Some(member) = self.group.members.get_mut(id) else { return };
        let error = ErrorCode::RebalanceInProgress;
        match std::mem::replace(&mut member.waiting, waiting) {
            Waiting::No | Waiting::JoinGone => {}
            Waiting::Join { waiter, .. } => {
                let refused = JoinRefused { error, member: Some(id.clone()) };
                self.replies.push((waiter, Reply::JoinGroup(Err(refused))));
            }
            Waiting::Sync { waiter } => self.replies.push((waiter, Reply::SyncGroup(Err(error)))),
        }
    }

    pub(super) fn stop_waiting(&mut self, id: &MemberId) {
        if let Some(member) = self.group.members.get_mut(id) {
            member.waiting = Waiting::No;
        }
        self.restart_clock(id);
    }
}
