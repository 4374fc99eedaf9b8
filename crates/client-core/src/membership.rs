//! A member of a classic group: joining, syncing, heartbeats, leaving; static members; eager rebalances.
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
//! Invariants: one request in flight; no JoinGroup between `Revoking` and the user's next call; partitions are owned only
//! in `Stable` and `Revoking`.

use std::collections::BTreeSet;
use std::collections::VecDeque;
use std::time::Duration;

use atonce_kernel::{GroupId, GroupInstanceId, MemberId, Monotonic, TopicName, TopicPartition};
use atonce_protocol::messages::consumer_protocol_assignment::{self, ConsumerProtocolAssignment};
use atonce_protocol::messages::consumer_protocol_subscription::{self, ConsumerProtocolSubscription};
use atonce_protocol::{DecodeError, EncodeError, ErrorCode, Message};
use bytes::Bytes;

use crate::classify::{Operation, Verdict};
use crate::error::Refusal;
use crate::transaction::GroupMetadata;

/// The kind of group that consumers make.
pub const PROTOCOL_TYPE: &str = "consumer";

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
    /// The assignor's name.
    pub protocol_name: String,
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
    },
    /// To get one's assignment; the leader brings everybody's.
    Sync {
        /// The generation that was joined.
        generation_id: i32,
        /// This member.
        member_id: MemberId,
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
    /// These partitions will be given away: commit now.
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
            events: VecDeque::new(),
            heard_at: now,
            next_heartbeat: now,
            user_left_at: Some(now),
            refresh: false,
            reason: "it begins",
            wants_rebalance: false,
            wants_to_leave: false,
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
            State::Unjoined | State::Revoking | State::Leaving | State::Closed | State::Failed(_) => {}
        }
    }

    /// Ends; leaves the group if `leave`, which a static member does not do by itself.
    pub fn close(&mut self, leave: bool) {
        self.owned.clear();
        self.events.clear();
        if self.slot == (Slot::InFlight { asked: Operation::JoinGroup }) {
            self.slot = Slot::Free;
            self.has_abandoned_join = true;
        }
        let is_member = !self.member_id.as_str().is_empty();
        self.wants_to_leave = leave && is_member;
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
        if asked == Operation::LeaveGroup {
            self.handle_left();
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Monotonic) {
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
        slot.into_iter().chain(owner.into_iter().flatten().flatten()).filter(|time| *time > now).min()
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
                Some(GroupRequest::Join { member_id, reason: self.reason.to_owned() })
            }
            State::Joining => Some(GroupRequest::Join { member_id, reason: self.reason.to_owned() }),
            State::Syncing { assignments } => {
                Some(GroupRequest::Sync { generation_id, member_id, assignments: assignments.clone() })
            }
            State::Stable | State::Revoking if now >= self.next_heartbeat => {
                Some(GroupRequest::Heartbeat { generation_id, member_id })
            }
            State::Unjoined
            | State::Assigning { .. }
            | State::Stable
            | State::Revoking
            | State::Leaving
            | State::Closed
            | State::Failed(_) => None,
        }
    }

    // --- what becomes of it ---

    fn owns(&self) -> bool {
        match self.state {
            State::Stable | State::Revoking => true,
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
        self.state = State::Revoking;
        self.events.push_back(Event::Revoking(self.owned.clone()));
    }

    fn rejoin(&mut self, reason: &'static str) {
        self.reason = reason;
        self.owned.clear();
        self.wants_rebalance = false;
        self.state = State::Joining;
    }

    /// The partitions are gone without a chance to commit. `forget`: the group does not know this member any more.
    fn lose(&mut self, forget: bool, reason: &'static str) {
        if self.owns() {
            // What was said before is overtaken.
            self.events.clear();
            self.events.push_back(Event::Lost(std::mem::take(&mut self.owned)));
        }
        self.reason = reason;
        self.generation_id = -1;
        self.is_leader = false;
        if forget {
            self.member_id = MemberId::from("");
        }
        self.state = State::Unjoined;
    }

    fn fail(&mut self, refusal: Refusal) {
        if self.owns() {
            self.events.clear();
            self.events.push_back(Event::Lost(std::mem::take(&mut self.owned)));
        }
        self.generation_id = -1;
        self.state = State::Failed(refusal);
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
        let refusal = Refusal::new(Operation::JoinGroup, code);
        if code == ErrorCode::MemberIdRequired {
            self.member_id = member_id;
            return;
        }
        if matches!(code, ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration) {
            self.member_id = MemberId::from("");
            return self.retry(now, false);
        }
        match refusal.verdict() {
            Verdict::Done | Verdict::Retry => self.retry(now, false),
            Verdict::RefreshThenRetry => self.retry(now, true),
            Verdict::Abort | Verdict::Reinitialize | Verdict::Fatal => self.fail(refusal),
        }
    }

    fn handle_joined(&mut self, now: Monotonic, joined: Joined) {
        self.member_id = joined.member_id;
        self.generation_id = joined.generation_id;
        self.is_leader = joined.leader == self.member_id;
        self.heard_at = now;
        self.state = if self.is_leader && !joined.skip_assignment {
            State::Assigning { members: joined.members, is_asked: false }
        } else {
            State::Syncing { assignments: Vec::new() }
        };
    }

    fn handle_sync_reply(&mut self, now: Monotonic, result: Result<Bytes, ErrorCode>) {
        if !matches!(self.state, State::Syncing { .. }) {
            return;
        }
        let code = match result {
            Ok(assignment) => return self.handle_synced(now, &assignment),
            Err(code) => code,
        };
        let refusal = Refusal::new(Operation::SyncGroup, code);
        match refusal.verdict() {
            Verdict::Done | Verdict::Retry => self.retry(now, false),
            // The generation is over; nothing was owned in it. The user waits, or will come.
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
        self.next_heartbeat = now + self.config.heartbeat_interval;
        self.owned = partitions;
        self.state = State::Stable;
        self.events.push_back(Event::Assigned(self.owned.clone(), userdata));
        if std::mem::take(&mut self.wants_rebalance) {
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

/// What a member wants, as it stands in its JoinGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The topics, sorted.
    pub topics: Vec<TopicName>,
    /// What its assignor has to say.
    pub userdata: Bytes,
    /// What it owns while it joins; nothing in eager rebalances.
    pub owned: Vec<TopicPartition>,
}

/// The version of subscriptions and assignments that we write: the lowest that says what is owned.
const CONSUMER_PROTOCOL_VERSION: i16 = 1;

/// Writes a subscription. Layout: `version i16 | ConsumerProtocolSubscription`.
pub fn encode_subscription(subscription: &Subscription) -> Result<Bytes, EncodeError> {
    let message = ConsumerProtocolSubscription {
        topics: subscription.topics.iter().map(|topic| topic.as_str().to_owned()).collect(),
        user_data: Some(subscription.userdata.clone()),
        owned_partitions: by_topic(&subscription.owned)
            .map(|(topic, partitions)| consumer_protocol_subscription::TopicPartition { topic, partitions })
            .collect(),
        ..Default::default()
    };
    message.encode_versioned(CONSUMER_PROTOCOL_VERSION)
}

/// Reads a subscription, of any version that is known; a newer one as the newest.
pub fn decode_subscription(bytes: &Bytes) -> Result<Subscription, DecodeError> {
    let message: ConsumerProtocolSubscription = decode_tolerantly(bytes)?;
    let topics: BTreeSet<TopicName> = message.topics.into_iter().map(TopicName::from).collect();
    let owned = message.owned_partitions.into_iter().flat_map(|it| {
        let topic = TopicName::from(it.topic);
        it.partitions.into_iter().map(move |partition| TopicPartition::new(topic.clone(), partition))
    });
    Ok(Subscription {
        topics: topics.into_iter().collect(),
        userdata: message.user_data.unwrap_or_default(),
        owned: owned.collect(),
    })
}

/// Writes an assignment. Layout: `version i16 | ConsumerProtocolAssignment`.
pub fn encode_assignment(partitions: &[TopicPartition], userdata: &Bytes) -> Result<Bytes, EncodeError> {
    let message = ConsumerProtocolAssignment {
        assigned_partitions: by_topic(partitions)
            .map(|(topic, partitions)| consumer_protocol_assignment::TopicPartition { topic, partitions })
            .collect(),
        user_data: Some(userdata.clone()),
    };
    message.encode_versioned(CONSUMER_PROTOCOL_VERSION)
}

/// Reads an assignment: partitions, sorted, and userdata. No bytes are no partitions: a member the leader forgot.
pub fn decode_assignment(bytes: &Bytes) -> Result<(Vec<TopicPartition>, Bytes), DecodeError> {
    if bytes.is_empty() {
        return Ok((Vec::new(), Bytes::new()));
    }
    let message: ConsumerProtocolAssignment = decode_tolerantly(bytes)?;
    let partitions: BTreeSet<TopicPartition> = message
        .assigned_partitions
        .into_iter()
        .flat_map(|it| {
            let topic = TopicName::from(it.topic);
            it.partitions.into_iter().map(move |partition| TopicPartition::new(topic.clone(), partition))
        })
        .collect();
    Ok((partitions.into_iter().collect(), message.user_data.unwrap_or_default()))
}

/// Reads what follows its own version; a version from the future as the newest known, whose fields it begins with.
fn decode_tolerantly<M: Message>(bytes: &Bytes) -> Result<M, DecodeError> {
    let mut reader = atonce_protocol::Reader::new(bytes.clone());
    let version = reader.i16()?.min(*M::VERSIONS.end());
    M::decode(&mut reader, version)
}

fn by_topic(partitions: &[TopicPartition]) -> impl Iterator<Item = (String, Vec<i32>)> {
    let mut topics: std::collections::BTreeMap<&TopicName, Vec<i32>> = std::collections::BTreeMap::new();
    for topic_partition in partitions {
        topics.entry(&topic_partition.topic).or_default().push(topic_partition.partition);
    }
    topics.into_iter().map(|(topic, partitions)| (topic.as_str().to_owned(), partitions))
}
