//! A member of a classic group: joining, syncing, heartbeats, leaving; static members; eager and cooperative rebalances.
//!
//! **What it does not know**: sockets, how partitions are divided (its host asks the assignor), offsets. Its host sends
//! what [`Membership::poll_request`] says, hands every answer back, and tells when the user calls.
//!
//! The user is part of the protocol: when the group rebalances, he is told that his partitions will be given away
//! ([`Event::Revoking`]) and may commit; the member joins again only at his *next* call. Heartbeats go on while he works,
//! until he has been away for longer than `max_poll_interval`.
//!
//! ```text
//!              user calls            joined              synced
//!   Unjoined ─────────────> Joining ────────> Syncing ──────────> Stable
//!      ^  ^                    ^   leader: Assigning first           │ group rebalances
//!      │  └─ refused ──────────┼──────────────────────────────┐      v
//!      │                       └───── user calls again ──── Revoking (heartbeats go on)
//!      └──── session lost, generation refused, user away: Lost
//! ```
//!
//! In a cooperative rebalance (KIP-429) the member keeps what it has: from `Stable` it is *summoned*, joins at the user's
//! next call, and says what it owns. Only what the new generation gives to others is revoked, and then it joins once more,
//! so that they get it. What it keeps is read all the while.
//!
//! Invariants: one request in flight; no JoinGroup between `Revoking` and the user's next call; in eager rebalances
//! nothing is held while joining; what is given away is held by nobody else before this member has joined without it.

use std::collections::VecDeque;
use std::time::Duration;

use atonce_kernel::{GroupId, GroupInstanceId, MemberId, Monotonic, TopicPartition};
use atonce_protocol::ErrorCode;
use bytes::Bytes;

use crate::classify::{Operation, Verdict};
use crate::error::Refusal;
use crate::transaction::GroupMetadata;

pub use crate::subscription::{
    Subscription, decode_assignment, decode_subscription, encode_assignment, encode_subscription,
};

/// The kind of group that consumers make.
pub const PROTOCOL_TYPE: &str = "consumer";

/// How the members of a group give partitions away when it rebalances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RebalanceProtocol {
    /// All of them, before the group divides anew.
    #[default]
    Eager,
    /// Only those that others get, after the group has divided anew (KIP-429).
    Cooperative,
}

/// What a member is told once.
#[derive(Clone, Debug)]
pub struct MembershipConfig {
    /// The group.
    pub group_id: GroupId,
    /// This member's own name, if it is static.
    pub instance_id: Option<GroupInstanceId>,
    /// After how long without a heartbeat the group gives this member up.
    pub session_timeout: Duration,
    /// How often a heartbeat is sent.
    pub heartbeat_interval: Duration,
    /// How long the user may be away.
    pub max_poll_interval: Duration,
    /// How long to wait after a refusal.
    pub retry_backoff: Duration,
    /// What all of the member's assignors can do.
    pub rebalance_protocol: RebalanceProtocol,
}

/// What to ask the group's coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupRequest {
    /// To join. The host adds the subscription, with what the assignor says at this moment.
    Join {
        /// Empty at first.
        member_id: MemberId,
        /// Why, for the broker's log.
        reason: String,
        /// What this member had last, and did not lose; in cooperative rebalances it still holds it.
        last: LastAssignment,
    },
    /// To get one's assignment; the leader brings everybody's.
    Sync {
        /// The generation that was joined.
        generation_id: i32,
        /// This member.
        member_id: MemberId,
        /// The protocol that the group chose, if its coordinator says.
        protocol_name: Option<String>,
        /// Everybody's assignment, from the leader; of others empty.
        assignments: Vec<(MemberId, Bytes)>,
    },
    /// To stay.
    Heartbeat {
        /// The generation.
        generation_id: i32,
        /// This member.
        member_id: MemberId,
    },
    /// To leave.
    Leave {
        /// This member.
        member_id: MemberId,
        /// Why, for the broker's log.
        reason: String,
    },
}

/// What a member was given, and in which generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastAssignment {
    /// The partitions, sorted.
    pub partitions: Vec<TopicPartition>,
    /// The generation; -1 if there was none.
    pub generation_id: i32,
}

impl LastAssignment {
    /// Nothing, of no generation.
    #[must_use]
    pub fn none() -> Self {
        Self { partitions: Vec::new(), generation_id: -1 }
    }
}

/// A request, and whether the coordinator must be looked up again before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupCall {
    /// What to ask.
    pub request: GroupRequest,
    /// The last answer said, or suggested, that another broker coordinates.
    pub refresh: bool,
}

/// Another member, as the leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedMember {
    /// Its id.
    pub member_id: MemberId,
    /// Its own name, if it is static.
    pub instance_id: Option<GroupInstanceId>,
    /// Its subscription, not read yet.
    pub metadata: Bytes,
}

/// A member that has joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The new generation.
    pub generation_id: i32,
    /// This member's id.
    pub member_id: MemberId,
    /// The leader's id.
    pub leader: MemberId,
    /// All members, if this one leads.
    pub members: Vec<JoinedMember>,
    /// The leader need not assign (KIP-814): a static member came back to a group that did not change.
    pub skip_assignment: bool,
    /// The protocol that the group chose, if its coordinator says.
    pub protocol_name: Option<String>,
}

/// The coordinator's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupReply {
    /// To [`GroupRequest::Join`]; a refusal may bring the member id to join with.
    Join(Result<Joined, (ErrorCode, MemberId)>),
    /// To [`GroupRequest::Sync`]: this member's assignment, not read yet.
    Sync(Result<Bytes, ErrorCode>),
    /// To [`GroupRequest::Heartbeat`].
    Heartbeat(ErrorCode),
    /// To [`GroupRequest::Leave`].
    Leave(ErrorCode),
}

/// What the user is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// These partitions will be given away: commit now. All of them in eager rebalances, those that others get in
    /// cooperative ones.
    Revoking(Vec<TopicPartition>),
    /// All partitions of this member, sorted, with what the leader's assignor has to say.
    Assigned(Vec<TopicPartition>, Bytes),
    /// These partitions may be others' already: do not commit.
    Lost(Vec<TopicPartition>),
}

/// Where the member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Not in the group; joins when the user calls.
    Unjoined,
    /// Joins, or is about to.
    Joining,
    /// Leads a new generation; the host divides the partitions.
    Assigning {
        /// All members.
        members: Vec<JoinedMember>,
        /// The host has them.
        is_asked: bool,
    },
    /// Asks for its assignment, or is about to.
    Syncing {
        /// Everybody's, if it leads.
        assignments: Vec<(MemberId, Bytes)>,
    },
    /// Owns partitions.
    Stable,
    /// Owns partitions, and keeps them: the group rebalances cooperatively, and the member joins at the user's next call.
    Summoned,
    /// Owns partitions still, and the user has been told to commit.
    Revoking,
    /// Leaves, or is about to.
    Leaving,
    /// Has left, or the user has closed it.
    Closed,
    /// Cannot be a member.
    Failed(Refusal),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Free,
    Waiting { until: Monotonic },
    InFlight { asked: Operation },
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Membership {
    config: MembershipConfig,
    state: State,
    slot: Slot,
    member_id: MemberId,
    generation_id: i32,
    is_leader: bool,
    owned: Vec<TopicPartition>,
    /// What others get, and the user has not given back yet. Only in cooperative rebalances.
    giving: Vec<TopicPartition>,
    last: LastAssignment,
    protocol_name: Option<String>,
    events: VecDeque<Event>,
    /// When the coordinator last heard of us, as far as we know.
    heard_at: Monotonic,
    next_heartbeat: Monotonic,
    /// When the user last called; `None` while he waits inside a call.
    user_left_at: Option<Monotonic>,
    refresh: bool,
    reason: &'static str,
    wants_rebalance: bool,
    wants_to_leave: bool,
    /// What it asked on its way in was not answered, so it may be itself who has its name: see [`Membership::doubts_fencing`].
    may_be_itself: bool,
    /// A JoinGroup is out that nobody waits for: the member was closed, and a group may hold the answer for minutes.
    has_abandoned_join: bool,
}

impl Membership {
    /// Not yet a member.
    #[must_use]
    pub fn new(config: MembershipConfig, now: Monotonic) -> Self {
        Self {
            config,
            state: State::Unjoined,
            slot: Slot::Free,
            member_id: MemberId::from(""),
            generation_id: -1,
            is_leader: false,
            owned: Vec::new(),
            giving: Vec::new(),
            last: LastAssignment::none(),
            protocol_name: None,
            events: VecDeque::new(),
            heard_at: now,
            next_heartbeat: now,
            user_left_at: Some(now),
            refresh: false,
            reason: "it begins",
            wants_rebalance: false,
            wants_to_leave: false,
            may_be_itself: false,
            has_abandoned_join: false,
        }
    }

    // --- ask ---

    /// Where the member is.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// What it was told.
    #[must_use]
    pub fn config(&self) -> &MembershipConfig {
        &self.config
    }

    /// Whether it leads its generation, and so must watch the topics' partitions.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.is_leader
    }

    /// Whether the user has been told everything.
    #[must_use]
    pub fn has_no_event(&self) -> bool {
        self.events.is_empty()
    }

    /// The protocol that the group chose last, if its coordinator said.
    #[must_use]
    pub fn protocol_name(&self) -> Option<&str> {
        self.protocol_name.as_deref()
    }

    /// Whether a partition is this member's to read and to commit.
    #[must_use]
    pub fn holds(&self, topic_partition: &TopicPartition) -> bool {
        self.owned.contains(topic_partition) || self.giving.contains(topic_partition)
    }

    /// Whether the member is on its way into a new generation without having given everything away: commits that are
    /// refused meanwhile are worth repeating.
    #[must_use]
    pub fn is_joining_with_partitions(&self) -> bool {
        match self.state {
            State::Joining | State::Assigning { .. } | State::Syncing { .. } => !self.owned.is_empty(),
            State::Unjoined
            | State::Stable
            | State::Summoned
            | State::Revoking
            | State::Leaving
            | State::Closed
            | State::Failed(_) => false,
        }
    }

    /// Who this is in the group.
    #[must_use]
    pub fn group_metadata(&self) -> GroupMetadata {
        GroupMetadata {
            group_id: self.config.group_id.clone(),
            generation_id: self.generation_id,
            member_id: self.member_id.clone(),
            instance_id: self.config.instance_id.clone(),
        }
    }

    // --- command ---

    /// The user calls, and waits: a sign of life, and leave to go on after what he was told.
    pub fn handle_user_called(&mut self) {
        self.user_left_at = None;
        if !self.events.iter().any(|event| matches!(event, Event::Revoking(_))) {
            // He knows, and has had his time: what others get is not read any more.
            self.giving.clear();
        }
        if self.state == State::Revoking && self.events.is_empty() {
            self.rejoin(self.reason);
        }
    }

    /// The user goes away to work.
    pub fn handle_user_left(&mut self, now: Monotonic) {
        self.user_left_at = Some(now);
    }

    /// Joins again at the next call, as if the group rebalanced: what this member would say, or see as a leader, has changed.
    pub fn enforce_rebalance(&mut self) {
        match self.state {
            State::Stable => self.revoke("its own wish"),
            // The generation that is being made may not have seen the change.
            State::Joining | State::Assigning { .. } | State::Syncing { .. } => self.wants_rebalance = true,
            State::Unjoined | State::Summoned | State::Revoking | State::Leaving | State::Closed | State::Failed(_) => {
            }
        }
    }

    /// Ends; leaves the group if `leave`, which a static member does not do by itself.
    pub fn close(&mut self, leave: bool) {
        self.owned.clear();
        self.giving.clear();
        self.events.clear();
        if self.slot == (Slot::InFlight { asked: Operation::JoinGroup }) {
            self.slot = Slot::Free;
            self.has_abandoned_join = true;
        }
        // A static member whose first JoinGroup is out may be a member already, under an id that it has not heard of: it leaves by its name.
        let may_be_member = self.has_abandoned_join && self.config.instance_id.is_some();
        let is_member = !self.member_id.as_str().is_empty();
        self.wants_to_leave = leave && (is_member || may_be_member);
        self.state = if self.wants_to_leave { State::Leaving } else { State::Closed };
    }

    /// The host has divided the partitions.
    pub fn handle_assignments(&mut self, assignments: Vec<(MemberId, Bytes)>) {
        if matches!(self.state, State::Assigning { .. }) {
            self.state = State::Syncing { assignments };
        }
    }

    /// The host could not divide the partitions: the topics could not be looked up. It will be asked again.
    pub fn handle_assigning_failed(&mut self, now: Monotonic) {
        if let State::Assigning { is_asked, .. } = &mut self.state {
            *is_asked = false;
            self.slot = Slot::Waiting { until: now + self.config.retry_backoff };
        }
    }

    // --- it happened ---

    /// Offsets that this member committed by itself were refused.
    pub fn handle_commit_refused(&mut self, code: ErrorCode) {
        let is_over = matches!(code, ErrorCode::IllegalGeneration | ErrorCode::UnknownMemberId);
        if code == ErrorCode::RebalanceInProgress && self.state == State::Stable {
            self.revoke("the group rebalances");
        } else if is_over && self.owns() {
            self.lose(code == ErrorCode::UnknownMemberId, "its commit was refused");
        } else if code == ErrorCode::FencedInstanceId {
            self.fail(Refusal::new(Operation::OffsetCommit, code));
        }
    }

    /// The coordinator answered.
    ///
    /// Panics: if nothing was asked, or something else.
    pub fn handle_reply(&mut self, now: Monotonic, reply: GroupReply) {
        if self.has_abandoned_join && reply.operation() == Operation::JoinGroup {
            self.has_abandoned_join = false;
            return;
        }
        assert_eq!(self.slot, Slot::InFlight { asked: reply.operation() }, "an answer follows its request");
        self.slot = Slot::Free;
        match reply {
            GroupReply::Join(result) => self.handle_join_reply(now, result),
            GroupReply::Sync(result) => self.handle_sync_reply(now, result),
            GroupReply::Heartbeat(code) => self.handle_heartbeat_reply(now, code),
            // Whatever it says, this member is gone, or will be when its session ends.
            GroupReply::Leave(_) => self.handle_left(),
        }
    }

    /// The coordinator did not answer what was asked.
    ///
    /// Panics: if that was not asked.
    pub fn handle_lost(&mut self, now: Monotonic, asked: Operation) {
        if self.has_abandoned_join && asked == Operation::JoinGroup {
            self.has_abandoned_join = false;
            return;
        }
        assert_eq!(self.slot, Slot::InFlight { asked }, "what is lost was asked");
        self.refresh = true;
        self.slot = Slot::Waiting { until: now + self.config.retry_backoff };
        self.may_be_itself |= matches!(asked, Operation::JoinGroup | Operation::SyncGroup);
        if asked == Operation::LeaveGroup {
            self.handle_left();
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Monotonic) {
        if self.is_joining_with_partitions() {
            // The coordinator holds a JoinGroup for as long as users may be away; longer, and it does not know us any more.
            let patience = self.config.max_poll_interval + self.config.session_timeout;
            if now.since(self.heard_at) >= patience {
                self.lose(false, "its coordinator did not answer while it joined");
            }
            return;
        }
        if !self.owns() {
            return;
        }
        if now.since(self.heard_at) >= self.config.session_timeout {
            return self.lose(false, "its session ended without an answer");
        }
        let is_away = self.user_left_at.is_some_and(|left| now.since(left) >= self.config.max_poll_interval);
        if is_away {
            self.lose(false, "its user was away for longer than max_poll_interval");
            // A static member keeps its place until its session ends; a dynamic one makes room.
            self.wants_to_leave = self.config.instance_id.is_none();
        }
    }

    // --- do this ---

    /// What to ask now.
    pub fn poll_request(&mut self, now: Monotonic) -> Option<GroupCall> {
        self.handle_timeout(now);
        match self.slot {
            Slot::InFlight { .. } => return None,
            Slot::Waiting { until } if now < until => return None,
            Slot::Waiting { .. } | Slot::Free => self.slot = Slot::Free,
        }
        let request = self.next_request(now)?;
        self.slot = Slot::InFlight { asked: request.operation() };
        Some(GroupCall { request, refresh: std::mem::take(&mut self.refresh) })
    }

    /// The members to divide the partitions among, if this one leads a new generation and was not asked yet.
    pub fn poll_assigning(&mut self, now: Monotonic) -> Option<Vec<JoinedMember>> {
        if let Slot::Waiting { until } = self.slot
            && now < until
        {
            return None;
        }
        match &mut self.state {
            State::Assigning { members, is_asked } if !*is_asked => {
                *is_asked = true;
                Some(members.clone())
            }
            State::Assigning { .. }
            | State::Unjoined
            | State::Joining
            | State::Syncing { .. }
            | State::Stable
            | State::Summoned
            | State::Revoking
            | State::Leaving
            | State::Closed
            | State::Failed(_) => None,
        }
    }

    /// What the user is told next.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When to poll again, if nothing happens before.
    #[must_use]
    pub fn poll_timeout(&self, now: Monotonic) -> Option<Monotonic> {
        let slot = match self.slot {
            Slot::Waiting { until } => Some(until),
            Slot::Free | Slot::InFlight { .. } => None,
        };
        let owner = self.owns().then(|| {
            let session = self.heard_at + self.config.session_timeout;
            let away = self.user_left_at.map(|left| left + self.config.max_poll_interval);
            let heartbeat = (self.slot == Slot::Free).then_some(self.next_heartbeat);
            [Some(session), away, heartbeat]
        });
        let joining = self
            .is_joining_with_partitions()
            .then(|| self.heard_at + self.config.max_poll_interval + self.config.session_timeout);
        slot.into_iter().chain(joining).chain(owner.into_iter().flatten().flatten()).filter(|time| *time > now).min()
    }

    fn next_request(&mut self, now: Monotonic) -> Option<GroupRequest> {
        if self.wants_to_leave {
            let reason = self.reason.to_owned();
            return Some(GroupRequest::Leave { member_id: self.member_id.clone(), reason });
        }
        let (generation_id, member_id) = (self.generation_id, self.member_id.clone());
        match &self.state {
            State::Unjoined if self.user_left_at.is_none() && self.events.is_empty() => {
                self.state = State::Joining;
                Some(self.join(member_id))
            }
            State::Summoned if self.user_left_at.is_none() && self.events.is_empty() => {
                self.rejoin(self.reason);
                Some(self.join(member_id))
            }
            State::Joining => Some(self.join(member_id)),
            State::Syncing { assignments } => {
                let (protocol_name, assignments) = (self.protocol_name.clone(), assignments.clone());
                Some(GroupRequest::Sync { generation_id, member_id, protocol_name, assignments })
            }
            State::Stable | State::Summoned | State::Revoking if now >= self.next_heartbeat => {
                Some(GroupRequest::Heartbeat { generation_id, member_id })
            }
            State::Unjoined
            | State::Assigning { .. }
            | State::Stable
            | State::Summoned
            | State::Revoking
            | State::Leaving
            | State::Closed
            | State::Failed(_) => None,
        }
    }

    fn join(&self, member_id: MemberId) -> GroupRequest {
        GroupRequest::Join { member_id, reason: self.reason.to_owned(), last: self.last.clone() }
    }

    // --- what becomes of it ---

    fn owns(&self) -> bool {
        match self.state {
            State::Stable | State::Summoned | State::Revoking => true,
            State::Unjoined
            | State::Joining
            | State::Assigning { .. }
            | State::Syncing { .. }
            | State::Leaving
            | State::Closed
            | State::Failed(_) => false,
        }
    }

    /// The group rebalances: the user may commit first.
    fn revoke(&mut self, reason: &'static str) {
        self.reason = reason;
        match self.config.rebalance_protocol {
            RebalanceProtocol::Eager => {
                self.state = State::Revoking;
                self.events.push_back(Event::Revoking(self.owned.clone()));
            }
            RebalanceProtocol::Cooperative => self.state = State::Summoned,
        }
    }

    fn rejoin(&mut self, reason: &'static str) {
        self.reason = reason;
        match self.config.rebalance_protocol {
            RebalanceProtocol::Eager => self.owned.clear(),
            RebalanceProtocol::Cooperative => {}
        }
        self.wants_rebalance = false;
        self.state = State::Joining;
    }

    /// The partitions are gone without a chance to commit. `forget`: the group does not know this member any more.
    fn lose(&mut self, forget: bool, reason: &'static str) {
        self.lose_partitions();
        self.reason = reason;
        self.generation_id = -1;
        self.is_leader = false;
        if forget {
            self.member_id = MemberId::from("");
        }
        self.state = State::Unjoined;
    }

    fn fail(&mut self, refusal: Refusal) {
        self.lose_partitions();
        self.generation_id = -1;
        self.state = State::Failed(refusal);
    }

    fn lose_partitions(&mut self) {
        let mut lost = std::mem::take(&mut self.owned);
        lost.append(&mut self.giving);
        lost.sort();
        self.last = LastAssignment::none();
        if self.owns() || !lost.is_empty() {
            // What was said before is overtaken.
            self.events.clear();
            self.events.push_back(Event::Lost(lost));
        }
    }

    fn handle_left(&mut self) {
        self.wants_to_leave = false;
        self.member_id = MemberId::from("");
        self.generation_id = -1;
        if self.state == State::Leaving {
            self.state = State::Closed;
        }
    }

    fn retry(&mut self, now: Monotonic, refresh: bool) {
        self.refresh |= refresh;
        self.slot = Slot::Waiting { until: now + self.config.retry_backoff };
    }

    fn handle_join_reply(&mut self, now: Monotonic, result: Result<Joined, (ErrorCode, MemberId)>) {
        if self.state != State::Joining {
            return;
        }
        let (code, member_id) = match result {
            Ok(joined) => return self.handle_joined(now, joined),
            Err(refusal) => refusal,
        };
        if self.doubts_fencing(now, code) {
            return;
        }
        let refusal = Refusal::new(Operation::JoinGroup, code);
        if code == ErrorCode::MemberIdRequired {
            self.member_id = member_id;
            return;
        }
        if matches!(code, ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration) {
            if self.is_joining_with_partitions() {
                return self.lose(true, "the group had gone on without it");
            }
            self.last = LastAssignment::none();
            self.member_id = MemberId::from("");
            return self.retry(now, false);
        }
        match refusal.verdict() {
            Verdict::Done | Verdict::Retry => self.retry(now, false),
            Verdict::RefreshThenRetry => self.retry(now, true),
            Verdict::Abort | Verdict::Reinitialize | Verdict::Fatal => self.fail(refusal),
        }
    }

    /// A static member that is told on its way in that another has its name, after something that it asked was not answered: that may be itself. Its
    /// own JoinGroup was worked off after the next one, or a coordinator that crashed remembers the member id of before. It takes the name once more
    /// for each time it was left without an answer; told so again, it believes it.
    fn doubts_fencing(&mut self, now: Monotonic, code: ErrorCode) -> bool {
        if code != ErrorCode::FencedInstanceId || !std::mem::take(&mut self.may_be_itself) {
            return false;
        }
        let reason = "another member id had its name";
        if self.is_joining_with_partitions() {
            self.lose(true, reason);
        } else {
            self.last = LastAssignment::none();
            self.member_id = MemberId::from("");
            self.rejoin(reason);
        }
        self.retry(now, false);
        true
    }

    fn handle_joined(&mut self, now: Monotonic, joined: Joined) {
        self.lose_what_was_passed_over(&joined);
        self.member_id = joined.member_id;
        self.generation_id = joined.generation_id;
        self.is_leader = joined.leader == self.member_id;
        self.protocol_name = joined.protocol_name;
        self.heard_at = now;
        self.state = if self.is_leader && !joined.skip_assignment {
            State::Assigning { members: joined.members, is_asked: false }
        } else {
            State::Syncing { assignments: Vec::new() }
        };
    }

    /// A group counts each division. If it is further than one, it has divided without this member, whom it kept all the same: a static member
    /// that is late stays in its group, with the words of its last JoinGroup, from before it was given what it holds now. The leader knew nothing
    /// of that, and another may have had it in between. (After an answer that was lost it may have been asked all the same: then it loses
    /// what it need not have lost.)
    fn lose_what_was_passed_over(&mut self, joined: &Joined) {
        let was_asked = (self.generation_id..=self.generation_id.saturating_add(1)).contains(&joined.generation_id);
        if !was_asked && !self.owned.is_empty() {
            self.lose_partitions();
        }
    }

    fn handle_sync_reply(&mut self, now: Monotonic, result: Result<Bytes, ErrorCode>) {
        if !matches!(self.state, State::Syncing { .. }) {
            return;
        }
        let code = match result {
            Ok(assignment) => return self.handle_synced(now, &assignment),
            Err(code) => code,
        };
        if self.doubts_fencing(now, code) {
            return;
        }
        let refusal = Refusal::new(Operation::SyncGroup, code);
        match refusal.verdict() {
            Verdict::Done | Verdict::Retry => self.retry(now, false),
            // The generation is over; nothing was owned in it. The user waits, or will come.
            Verdict::Reinitialize if code != ErrorCode::RebalanceInProgress && self.is_joining_with_partitions() => {
                self.lose(code == ErrorCode::UnknownMemberId, "the group had gone on without it");
            }
            Verdict::RefreshThenRetry | Verdict::Reinitialize => {
                if matches!(code, ErrorCode::UnknownMemberId) {
                    self.member_id = MemberId::from("");
                }
                self.rejoin("its generation was over before it was complete");
                self.retry(now, refusal.verdict() == Verdict::RefreshThenRetry);
            }
            Verdict::Abort | Verdict::Fatal => self.fail(refusal),
        }
    }

    fn handle_synced(&mut self, now: Monotonic, assignment: &Bytes) {
        let Ok((partitions, userdata)) = decode_assignment(assignment) else {
            // An assignment that cannot be read owns nothing; the leader must make another.
            self.rejoin("its assignment could not be read");
            return self.retry(now, false);
        };
        self.heard_at = now;
        self.may_be_itself = false;
        self.next_heartbeat = now + self.config.heartbeat_interval;
        let before = std::mem::replace(&mut self.owned, partitions);
        self.last = LastAssignment { partitions: self.owned.clone(), generation_id: self.generation_id };
        self.state = State::Stable;
        // Nothing was held if the rebalance was an eager one.
        self.giving = before.into_iter().filter(|it| !self.owned.contains(it)).collect();
        if !self.giving.is_empty() {
            self.state = State::Revoking;
            self.reason = "it gave partitions to others";
            self.events.push_back(Event::Revoking(self.giving.clone()));
        }
        self.events.push_back(Event::Assigned(self.owned.clone(), userdata));
        if std::mem::take(&mut self.wants_rebalance) && self.state == State::Stable {
            self.revoke("its own wish");
        }
    }

    fn handle_heartbeat_reply(&mut self, now: Monotonic, code: ErrorCode) {
        if !self.owns() {
            return;
        }
        self.next_heartbeat = now + self.config.heartbeat_interval;
        let refusal = Refusal::new(Operation::Heartbeat, code);
        if matches!(code, ErrorCode::None | ErrorCode::RebalanceInProgress) {
            self.heard_at = now;
            if code == ErrorCode::RebalanceInProgress && self.state == State::Stable {
                self.revoke("the group rebalances");
            }
            return;
        }
        match refusal.verdict() {
            Verdict::Done | Verdict::Retry => self.retry(now, false),
            Verdict::RefreshThenRetry => self.retry(now, true),
            Verdict::Reinitialize => self.lose(code == ErrorCode::UnknownMemberId, "the group had gone on without it"),
            Verdict::Abort | Verdict::Fatal => self.fail(refusal),
        }
    }
}

impl GroupRequest {
    /// What is asked, for [`Membership::handle_lost`].
    #[must_use]
    pub fn operation(&self) -> Operation {
        match self {
            Self::Join { .. } => Operation::JoinGroup,
            Self::Sync { .. } => Operation::SyncGroup,
            Self::Heartbeat { .. } => Operation::Heartbeat,
            Self::Leave { .. } => Operation::LeaveGroup,
        }
    }
}

impl GroupReply {
    fn operation(&self) -> Operation {
        match self {
            Self::Join(_) => Operation::JoinGroup,
            Self::Sync(_) => Operation::SyncGroup,
            Self::Heartbeat(_) => Operation::Heartbeat,
            Self::Leave(_) => Operation::LeaveGroup,
        }
    }
}
