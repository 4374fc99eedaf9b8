//! A member of a group of the consumer protocol (KIP-848): the coordinator divides, and tells each member by its
//! heartbeats what to give away and what to take.
//!
//! **What it does not know**: sockets, topics' names (its host resolves ids), offsets. Its host sends what
//! [`ConsumerMembership::poll_request`] says, hands every answer back, and tells when the user calls.
//!
//! As in classic groups the user is part of it: what is to be given away is told him ([`Event::Revoking`]), and counts
//! as given away from his *next* call on. The rest he reads on all the while.
//!
//! ```text
//!             user calls          epoch > 0           something is not the member's any more
//!   Unjoined ────────────> Joining ────────> Stable ─────────────────────────> Revoking
//!      ^                                       ^ takes what is added               │
//!      │                                       └────────── user calls again ───────┘
//!      └──── fenced, unknown, user away: Lost
//! ```
//!
//! Invariants: one request in flight; after a request that was lost the next one says everything; what is given away is
//! reported only after the user's next call; nothing is taken before what had to be given away is gone.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use atonce_kernel::{GroupId, GroupInstanceId, MemberId, Monotonic, TopicId, TopicName, TopicPartition};
use atonce_protocol::ErrorCode;
use bytes::Bytes;

use crate::classify::{Operation, Verdict};
use crate::error::Refusal;
use crate::membership::Event;
use crate::transaction::GroupMetadata;

/// What a member reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interest {
    /// These topics.
    Topics(Vec<TopicName>),
    /// All topics whose names match, as the coordinator sees it (RE2).
    Pattern(String),
}

/// What a member is told once.
#[derive(Clone, Debug)]
pub struct ConsumerMembershipConfig {
    /// The group.
    pub group_id: GroupId,
    /// This member's id, which it makes itself.
    pub member_id: MemberId,
    /// This member's own name, if it is static.
    pub instance_id: Option<GroupInstanceId>,
    /// How long the user may be away.
    pub max_poll_interval: Duration,
    /// How long to wait after a refusal.
    pub retry_backoff: Duration,
}

/// A partition by its topic's id.
pub type IdPartition = (TopicId, i32);

/// What the coordinator is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Beat {
    /// I live.
    Alive {
        /// 0 to join.
        member_epoch: i32,
        /// Whether to say all that the coordinator should know, and not only what has changed.
        is_full: bool,
        /// What is owned, if it has changed or `is_full`.
        owned: Option<BTreeSet<IdPartition>>,
    },
    /// I leave: for good, or, being static, for a while.
    Leave {
        /// Whether the member's place is to be kept.
        is_temporary: bool,
    },
}

/// A request, and whether the coordinator must be looked up again before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeatCall {
    /// What to say.
    pub beat: Beat,
    /// The last answer said, or suggested, that another broker coordinates.
    pub refresh: bool,
}

/// The coordinator's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeatReply {
    /// The member's epoch from now on.
    pub member_epoch: i32,
    /// How soon the next one is due.
    pub heartbeat_interval: Duration,
    /// All that the member shall have; `None` if nothing has changed.
    pub assignment: Option<BTreeSet<IdPartition>>,
}

/// Where the member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Not in the group; joins when the user calls.
    Unjoined,
    /// Joins, or is about to.
    Joining,
    /// A member.
    Stable,
    /// A member; the user has been told what goes, and has not called since.
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
    InFlight { is_leave: bool },
}

/// See the module.
#[derive(Clone, Debug)]
pub struct ConsumerMembership {
    config: ConsumerMembershipConfig,
    state: State,
    slot: Slot,
    member_epoch: i32,
    owned: BTreeMap<IdPartition, TopicPartition>,
    /// What must go, and the user has not given back yet.
    giving: BTreeMap<IdPartition, TopicPartition>,
    /// What the coordinator said last that this member shall have.
    target: Option<BTreeSet<IdPartition>>,
    names: BTreeMap<TopicId, TopicName>,
    has_assigned: bool,
    owned_has_changed: bool,
    must_be_full: bool,
    events: VecDeque<Event>,
    next_heartbeat: Monotonic,
    /// When the user last called; `None` while he waits inside a call.
    user_left_at: Option<Monotonic>,
    /// Since when another process is said to hold the instance id.
    unreleased_since: Option<Monotonic>,
    refresh: bool,
    leaves: Option<Leaving>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Leaving {
    is_temporary: bool,
    and_closes: bool,
}

impl ConsumerMembership {
    /// Not yet a member.
    #[must_use]
    pub fn new(config: ConsumerMembershipConfig, now: Monotonic) -> Self {
        Self {
            config,
            state: State::Unjoined,
            slot: Slot::Free,
            member_epoch: 0,
            owned: BTreeMap::new(),
            giving: BTreeMap::new(),
            target: None,
            names: BTreeMap::new(),
            has_assigned: false,
            owned_has_changed: false,
            must_be_full: true,
            events: VecDeque::new(),
            next_heartbeat: now,
            user_left_at: Some(now),
            unreleased_since: None,
            refresh: false,
            leaves: None,
        }
    }

    // --- ask ---

    /// Where the member is.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Who this is in the group: its epoch stands where classic members have their generation.
    #[must_use]
    pub fn group_metadata(&self) -> GroupMetadata {
        GroupMetadata {
            group_id: self.config.group_id.clone(),
            generation_id: if self.is_member() { self.member_epoch } else { -1 },
            member_id: self.config.member_id.clone(),
            instance_id: self.config.instance_id.clone(),
        }
    }

    /// Whether a partition is this member's to read and to commit.
    #[must_use]
    pub fn holds(&self, topic_partition: &TopicPartition) -> bool {
        self.owned.values().chain(self.giving.values()).any(|it| it == topic_partition)
    }

    /// Topics of the assignment whose names are not known.
    #[must_use]
    pub fn unnamed_topics(&self) -> BTreeSet<TopicId> {
        let target = self.target.iter().flatten();
        target.map(|(topic, _)| *topic).filter(|topic| !self.names.contains_key(topic)).collect()
    }

    fn is_member(&self) -> bool {
        match self.state {
            State::Stable | State::Revoking => true,
            State::Unjoined | State::Joining | State::Leaving | State::Closed | State::Failed(_) => false,
        }
    }

    // --- command ---

    /// The user calls, and waits: a sign of life, and leave to go on after what he was told.
    pub fn handle_user_called(&mut self) {
        self.user_left_at = None;
        if self.state == State::Revoking && self.events.is_empty() {
            self.giving.clear();
            self.owned_has_changed = true;
            self.state = State::Stable;
            self.reconcile(true);
        }
    }

    /// The user goes away to work.
    pub fn handle_user_left(&mut self, now: Monotonic) {
        self.user_left_at = Some(now);
    }

    /// Ends. `for_good` gives a static member's place up too; else it is kept for a while.
    pub fn close(&mut self, for_good: bool) {
        self.events.clear();
        self.owned.clear();
        self.giving.clear();
        let was_heard_of = self.is_member() || self.state == State::Joining;
        if was_heard_of || self.leaves.is_some() {
            let is_temporary = self.config.instance_id.is_some() && !for_good;
            self.leaves = Some(Leaving { is_temporary, and_closes: true });
            self.state = State::Leaving;
        } else {
            self.state = State::Closed;
        }
    }

    // --- it happened ---

    /// Names of topics were looked up.
    pub fn handle_names(&mut self, name_of: impl Fn(TopicId) -> Option<TopicName>) {
        let unnamed = self.unnamed_topics();
        if unnamed.is_empty() {
            return;
        }
        self.names.extend(unnamed.into_iter().filter_map(|topic| Some((topic, name_of(topic)?))));
        self.reconcile(false);
    }

    /// Offsets that this member committed as what it is now were refused.
    pub fn handle_commit_refused(&mut self, code: ErrorCode) {
        let is_over = matches!(code, ErrorCode::UnknownMemberId | ErrorCode::FencedMemberEpoch);
        if is_over && self.is_member() {
            self.lose();
        } else if code == ErrorCode::FencedInstanceId {
            self.fail(Refusal::new(Operation::OffsetCommit, code));
        }
        // After a stale epoch the next heartbeat brings the new one.
    }

    /// The coordinator answered.
    ///
    /// Panics: if nothing was asked.
    pub fn handle_reply(&mut self, now: Monotonic, result: Result<BeatReply, Refusal>) {
        let Slot::InFlight { is_leave } = self.slot else { panic!("an answer follows its request") };
        self.slot = Slot::Free;
        if is_leave {
            // Whatever it says, this member is gone, or will be when its session ends.
            return self.handle_left();
        }
        match result {
            Ok(reply) => self.handle_beaten(now, reply),
            Err(refusal) => self.handle_refused(now, refusal),
        }
    }

    /// The coordinator did not answer.
    ///
    /// Panics: if nothing was asked.
    pub fn handle_lost(&mut self, now: Monotonic) {
        let Slot::InFlight { is_leave } = self.slot else { panic!("what is lost was asked") };
        self.slot = Slot::Waiting { until: now + self.config.retry_backoff };
        self.refresh = true;
        self.must_be_full = true;
        if is_leave {
            self.handle_left();
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Monotonic) {
        let is_away = self.user_left_at.is_some_and(|left| now.since(left) >= self.config.max_poll_interval);
        if is_away && self.is_member() {
            self.lose();
            let is_temporary = self.config.instance_id.is_some();
            self.leaves = Some(Leaving { is_temporary, and_closes: false });
        }
    }

    // --- do this ---

    /// What to say now.
    pub fn poll_request(&mut self, now: Monotonic) -> Option<BeatCall> {
        self.handle_timeout(now);
        match self.slot {
            Slot::InFlight { .. } => return None,
            Slot::Waiting { until } if now < until => return None,
            Slot::Waiting { .. } | Slot::Free => self.slot = Slot::Free,
        }
        let beat = self.next_beat(now)?;
        self.slot = Slot::InFlight { is_leave: matches!(beat, Beat::Leave { .. }) };
        Some(BeatCall { beat, refresh: std::mem::take(&mut self.refresh) })
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
        let heartbeat = (self.is_member() && self.slot == Slot::Free).then_some(self.next_heartbeat);
        let away = self.user_left_at.filter(|_| self.is_member()).map(|left| left + self.config.max_poll_interval);
        [slot, heartbeat, away].into_iter().flatten().filter(|time| *time > now).min()
    }

    fn next_beat(&mut self, now: Monotonic) -> Option<Beat> {
        if let Some(leaving) = self.leaves {
            return Some(Beat::Leave { is_temporary: leaving.is_temporary });
        }
        match self.state {
            State::Unjoined if self.user_left_at.is_none() && self.events.is_empty() => {
                self.state = State::Joining;
                Some(self.joining())
            }
            State::Joining => Some(self.joining()),
            State::Stable | State::Revoking if self.owned_has_changed || now >= self.next_heartbeat => {
                let is_full = std::mem::take(&mut self.must_be_full);
                let has_changed = std::mem::take(&mut self.owned_has_changed);
                // What is being given away is owned until the user has come back.
                let owned = self.owned.keys().chain(self.giving.keys()).copied();
                let owned = (is_full || has_changed).then(|| owned.collect());
                Some(Beat::Alive { member_epoch: self.member_epoch, is_full, owned })
            }
            State::Unjoined | State::Stable | State::Revoking | State::Leaving | State::Closed | State::Failed(_) => {
                None
            }
        }
    }

    fn joining(&mut self) -> Beat {
        self.must_be_full = false;
        Beat::Alive { member_epoch: 0, is_full: true, owned: Some(BTreeSet::new()) }
    }

    // --- what becomes of it ---

    fn handle_beaten(&mut self, now: Monotonic, reply: BeatReply) {
        match self.state {
            State::Joining => self.state = State::Stable,
            State::Stable | State::Revoking => {}
            // What was answered is overtaken.
            State::Unjoined | State::Leaving | State::Closed | State::Failed(_) => return,
        }
        self.unreleased_since = None;
        self.member_epoch = reply.member_epoch;
        self.next_heartbeat = now + reply.heartbeat_interval;
        if let Some(assignment) = reply.assignment {
            self.target = Some(assignment);
        }
        self.reconcile(false);
    }

    /// Goes a step from what is owned to what shall be. `is_due`: the user is owed an assignment whatever comes.
    fn reconcile(&mut self, is_due: bool) {
        if self.state != State::Stable {
            return;
        }
        let Some(target) = &self.target else { return };
        let (kept, gone): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.owned).into_iter().partition(|(it, _)| target.contains(it));
        self.owned = kept;
        if !gone.is_empty() {
            self.state = State::Revoking;
            self.events.push_back(Event::Revoking(sorted(&gone)));
            self.giving = gone;
            return;
        }
        let mut has_added = false;
        for (topic, partition) in target {
            let Some(name) = self.names.get(topic) else { continue };
            has_added |= !self.owned.contains_key(&(*topic, *partition));
            self.owned.insert((*topic, *partition), TopicPartition::new(name.clone(), *partition));
        }
        self.owned_has_changed |= has_added;
        let is_complete = target.len() == self.owned.len();
        if has_added || is_due || (is_complete && !self.has_assigned) {
            self.has_assigned = true;
            self.events.push_back(Event::Assigned(sorted(&self.owned), Bytes::new()));
        }
    }

    fn handle_refused(&mut self, now: Monotonic, refusal: Refusal) {
        self.must_be_full = true;
        let code = refusal.code();
        if matches!(code, ErrorCode::UnknownMemberId | ErrorCode::FencedMemberEpoch) {
            return self.lose_or_retry(now);
        }
        // Another process has the name still: perhaps this one's former life, whose session ends by itself.
        if code == ErrorCode::UnreleasedInstanceId {
            let since = *self.unreleased_since.get_or_insert(now);
            if now.since(since) >= self.config.max_poll_interval {
                return self.fail(refusal);
            }
        }
        match refusal.verdict() {
            Verdict::Done | Verdict::Retry => self.retry(now, false),
            Verdict::RefreshThenRetry => self.retry(now, true),
            Verdict::Abort | Verdict::Reinitialize => self.lose_or_retry(now),
            Verdict::Fatal => self.fail(refusal),
        }
    }

    fn lose_or_retry(&mut self, now: Monotonic) {
        if self.is_member() {
            self.lose();
        } else {
            self.retry(now, false);
        }
    }

    fn retry(&mut self, now: Monotonic, refresh: bool) {
        self.refresh |= refresh;
        self.slot = Slot::Waiting { until: now + self.config.retry_backoff };
    }

    /// The partitions are gone without a chance to commit; the member joins again at the user's next call.
    fn lose(&mut self) {
        self.lose_partitions();
        self.member_epoch = 0;
        self.state = State::Unjoined;
    }

    fn fail(&mut self, refusal: Refusal) {
        self.lose_partitions();
        self.state = State::Failed(refusal);
    }

    fn lose_partitions(&mut self) {
        let mut lost = std::mem::take(&mut self.owned);
        lost.append(&mut self.giving);
        self.target = None;
        self.owned_has_changed = false;
        self.must_be_full = true;
        if std::mem::take(&mut self.has_assigned) || !lost.is_empty() {
            // What was said before is overtaken.
            self.events.clear();
            self.events.push_back(Event::Lost(sorted(&lost)));
        }
    }

    fn handle_left(&mut self) {
        let leaving = self.leaves.take();
        self.member_epoch = 0;
        if leaving.is_some_and(|leaving| leaving.and_closes) || self.state == State::Leaving {
            self.state = State::Closed;
        }
    }
}

fn sorted(partitions: &BTreeMap<IdPartition, TopicPartition>) -> Vec<TopicPartition> {
    let mut partitions: Vec<TopicPartition> = partitions.values().cloned().collect();
    partitions.sort();
    partitions
}
