//! Where a classic group stands: the soft half, made anew from the last [`GroupMetadata`] after a crash.
//!
//! ```text
//!               join, empty group              all joined, or time is up
//!   Empty ───────────────────────► Preparing ───────────────────────────► Completing
//!     ▲                            Rebalance ◄───────────────────────────  Rebalance
//!     │  [record: no members]       │   ▲      join, leave, time-out          │
//!     └─────────────────────────────┘   │                                     │ leader syncs
//!                                       │   join, leave, time-out             ▼ [record: members, assignments]
//!                                       └────────────────────────────────── Stable
//! ```
//!
//! **What it does not know**: records' bytes, offsets, who decides what. Only questions and the smallest moves are here;
//! the rules are in the file of each command and in [`rebalance`](super::rebalance).
//!
//! Invariants: a member waits for one answer at most; nobody waits in `Empty` or `Stable`, for a join only in
//! `PreparingRebalance`, for a sync only in `CompletingRebalance`; all members share a protocol; `instances` names
//! exactly the static members.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use atonce_kernel::{GroupInstanceId, MemberId, Timestamp, TopicName};
use atonce_protocol::ErrorCode;
use bytes::Bytes;

use super::record::{GroupMetadata, MemberMetadata};
use super::reply::{GroupState, JoinedMember};
use super::subscription::{self, Subscribed};
use crate::shard::Waiter;

/// A deadline that has always passed: the shard wants its tick now.
pub(super) const AT_ONCE: Timestamp = Timestamp(0);

/// A classic group with its members.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Classic {
    /// Where it stands.
    pub state: State,
    /// Since when.
    pub since: Timestamp,
    /// The last generation that was begun. It is recorded only when its leader has synced, so after a crash it may begin
    /// again; nobody had an assignment of it then.
    pub generation: i32,
    /// The kind of group; kept when the last member leaves, free again for the next one who comes.
    pub protocol_type: Option<String>,
    /// What the members of this generation agreed on.
    pub protocol: Option<String>,
    /// Who assigns.
    pub leader: Option<MemberId>,
    /// Members, whether back in the rebalance or not.
    pub members: BTreeMap<MemberId, Member>,
    /// The static members' ids, by their own names.
    pub instances: BTreeMap<GroupInstanceId, MemberId>,
    /// Ids given out with `MEMBER_ID_REQUIRED`, and until when we expect them to be used.
    pub pending: BTreeMap<MemberId, Timestamp>,
    /// What consumers read, as they said when this generation began; what they say later counts from the next one on. None before the
    /// first, of others than consumers, and where a subscription cannot be read.
    pub reads: Option<Arc<BTreeSet<TopicName>>>,
}

/// The states, with what only they have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// No members.
    Empty,
    /// Members are (re)joining.
    PreparingRebalance {
        /// Until when we wait for them.
        window: Window,
    },
    /// The generation has begun; its assignment is awaited.
    CompletingRebalance {
        /// Members that have not sent their SyncGroup yet.
        unsynced: BTreeSet<MemberId>,
        /// When those are put out.
        deadline: Timestamp,
    },
    /// All know what is theirs, or can ask.
    Stable {
        /// Members that have not sent their SyncGroup yet.
        unsynced: BTreeSet<MemberId>,
        /// When those are put out, if there are any.
        deadline: Timestamp,
    },
}

/// How long we wait for members to join.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Window {
    /// The group was empty: more members may be on their way, so that all having joined is no reason to go on. Every newcomer
    /// opens the window for another delay, until the rebalance time-out is used up.
    Initial {
        /// When the window closes.
        deadline: Timestamp,
        /// How long it has been open for, this time.
        delay_ms: i32,
        /// What is left of the rebalance time-out, after this delay.
        remaining_ms: i32,
        /// Whether somebody came in since it was opened.
        newcomer: bool,
    },
    /// Until all members are back; at the deadline without those who are not.
    UntilAllJoined {
        /// The deadline.
        deadline: Timestamp,
    },
}

/// A member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// A static member's own name.
    pub instance: Option<GroupInstanceId>,
    /// What the client calls itself.
    pub client_id: Arc<str>,
    /// Where it calls from.
    pub client_host: Arc<str>,
    /// How long it may take to come back in a rebalance.
    pub rebalance_timeout_ms: i32,
    /// How long it may be silent.
    pub session_timeout_ms: i32,
    /// What it can do, the one it likes best first. After a crash only the one chosen is known.
    pub protocols: Arc<[JoinProtocol]>,
    /// What the leader gave it last.
    pub assignment: Bytes,
    /// What it waits for.
    pub waiting: Waiting,
    /// When its session ends; none after a crash, until the first tick starts the clock.
    pub session_deadline: Option<Timestamp>,
}

/// A protocol that a member can do, with its word on it (for consumers: the subscription).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JoinProtocol {
    /// The protocol's name.
    pub name: String,
    /// Bytes for the leader.
    pub metadata: Bytes,
}

/// What a member waits for. While it waits, it need not send heartbeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Waiting {
    /// Nothing.
    No,
    /// The next generation.
    Join {
        /// Whom to tell.
        waiter: Waiter,
        /// Who waits.
        joiner: Joiner,
    },
    /// The next generation, but it has hung up. It counts as back, and its session goes on: it may come again.
    JoinGone,
    /// Its assignment.
    Sync {
        /// Whom to tell.
        waiter: Waiter,
    },
}

/// Who waits for the next generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Joiner {
    /// A member that was in a generation: alive, as long as we hold its request.
    Known,
    /// It has never been in a generation, and may not wait for ever.
    Newcomer,
    /// The same, and nothing but the answer to this request can tell it its id (JoinGroup before version 4).
    Unnamed,
}

impl Member {
    /// What it said for `protocol`.
    pub(super) fn metadata(&self, protocol: &str) -> Option<&Bytes> {
        self.protocols.iter().find(|offered| offered.name == protocol).map(|offered| &offered.metadata)
    }

    pub(super) fn is_joining(&self) -> bool {
        match self.waiting {
            Waiting::Join { .. } | Waiting::JoinGone => true,
            Waiting::No | Waiting::Sync { .. } => false,
        }
    }

    /// When silence puts it out, if it can: a member whose request we hold is alive as far as we know.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        match self.waiting {
            Waiting::No | Waiting::JoinGone | Waiting::Join { joiner: Joiner::Newcomer | Joiner::Unnamed, .. } => {
                Some(self.session_deadline.unwrap_or(AT_ONCE))
            }
            Waiting::Join { joiner: Joiner::Known, .. } | Waiting::Sync { .. } => None,
        }
    }
}

impl Window {
    pub(super) fn deadline(&self) -> Timestamp {
        match self {
            Self::Initial { deadline, .. } | Self::UntilAllJoined { deadline } => *deadline,
        }
    }
}

impl Classic {
    /// A group that nobody ever joined.
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            state: State::Empty,
            since: now,
            generation: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            members: BTreeMap::new(),
            instances: BTreeMap::new(),
            pending: BTreeMap::new(),
            reads: None,
        }
    }

    /// The group as `recorded` says, `Empty` or `Stable`. What only `before` knows of members who are in both is kept:
    /// their other protocols, their clocks; ids given out too.
    pub(super) fn settled(recorded: &GroupMetadata, before: Option<&Self>) -> Self {
        let mut group = Self {
            state: State::Empty,
            since: recorded.since,
            generation: recorded.generation,
            protocol_type: recorded.protocol_type.clone(),
            protocol: recorded.protocol.clone(),
            leader: recorded.leader.clone(),
            members: BTreeMap::new(),
            instances: BTreeMap::new(),
            pending: before.map(|before| before.pending.clone()).unwrap_or_default(),
            reads: None,
        };
        for member in &recorded.members {
            let known = before.and_then(|before| before.members.get(&member.member));
            group.pending.remove(&member.member);
            group.insert(member.member.clone(), settled_member(member, recorded.protocol.as_deref(), known));
        }
        if !group.members.is_empty() {
            let (unsynced, deadline) = match before.map(|before| &before.state) {
                Some(State::CompletingRebalance { unsynced, deadline } | State::Stable { unsynced, deadline }) => {
                    (unsynced.iter().filter(|id| group.members.contains_key(*id)).cloned().collect(), *deadline)
                }
                Some(State::Empty | State::PreparingRebalance { .. }) | None => (BTreeSet::new(), recorded.since),
            };
            group.state = State::Stable { unsynced, deadline };
        }
        group.reads = group.topics_now();
        group
    }

    /// What a record of this moment says.
    pub(super) fn metadata(&self, assignment: impl Fn(&MemberId, &Member) -> Bytes) -> GroupMetadata {
        GroupMetadata {
            protocol_type: self.protocol_type.clone(),
            generation: self.generation,
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            since: self.since,
            members: self
                .members
                .iter()
                .map(|(id, member)| MemberMetadata {
                    member: id.clone(),
                    instance: member.instance.clone(),
                    client_id: Arc::clone(&member.client_id),
                    client_host: Arc::clone(&member.client_host),
                    rebalance_timeout_ms: member.rebalance_timeout_ms,
                    session_timeout_ms: member.session_timeout_ms,
                    subscription: self.metadata_of(member),
                    assignment: assignment(id, member),
                })
                .collect(),
        }
    }

    /// What a member said for the protocol of this generation.
    pub(super) fn metadata_of(&self, member: &Member) -> Bytes {
        self.protocol.as_deref().and_then(|protocol| member.metadata(protocol)).cloned().unwrap_or_default()
    }

    /// All members as the leader sees them.
    pub(super) fn joined_members(&self) -> Vec<JoinedMember> {
        self.members
            .iter()
            .map(|(id, member)| JoinedMember {
                member: id.clone(),
                instance: member.instance.clone(),
                metadata: self.metadata_of(member),
            })
            .collect()
    }

    pub(super) fn name_of_state(&self) -> GroupState {
        match self.state {
            State::Empty => GroupState::Empty,
            State::PreparingRebalance { .. } => GroupState::PreparingRebalance,
            State::CompletingRebalance { .. } => GroupState::CompletingRebalance,
            State::Stable { .. } => GroupState::Stable,
        }
    }

    pub(super) fn is_leader(&self, member: &MemberId) -> bool {
        self.leader.as_ref() == Some(member)
    }

    /// Consumers: their subscriptions can be read.
    pub(super) fn has_consumers(&self) -> bool {
        self.protocol_type.as_deref() == Some("consumer")
    }

    /// What the subscriptions say now, of members who have agreed on a protocol. Without members it is nothing.
    pub(super) fn topics_now(&self) -> Option<Arc<BTreeSet<TopicName>>> {
        if !self.has_consumers() {
            return None;
        }
        let subscriptions = self.members.values().map(|member| self.metadata_of(member));
        subscription::topics_of(subscriptions).map(Arc::new)
    }

    /// What this generation reads.
    pub(super) fn subscribed(&self) -> Subscribed {
        match &self.reads {
            Some(topics) => Subscribed::To((**topics).clone()),
            None if self.has_consumers() => Subscribed::Unknown,
            None => Subscribed::Nothing,
        }
    }

    /// The member meant by id and own name.
    ///
    /// Refuses: `UnknownMemberId` if there is none such; `FencedInstanceId` if the name now belongs to another id.
    /// Source: KIP-345.
    pub(super) fn validate_member<'a>(
        &self,
        member: Option<&'a MemberId>,
        instance: Option<&GroupInstanceId>,
    ) -> Result<&'a MemberId, ErrorCode> {
        if let Some(instance) = instance {
            match self.instances.get(instance) {
                None => return Err(ErrorCode::UnknownMemberId),
                Some(owner) if Some(owner) != member => return Err(ErrorCode::FencedInstanceId),
                Some(_) => {}
            }
        }
        member.filter(|id| self.members.contains_key(*id)).ok_or(ErrorCode::UnknownMemberId)
    }

    /// Whether a member that can do `protocols` fits in: with those who are there, one protocol in common.
    pub(super) fn supports(&self, protocol_type: &str, protocols: &[JoinProtocol]) -> bool {
        match self.state {
            State::Empty => !protocol_type.is_empty() && !protocols.is_empty(),
            State::PreparingRebalance { .. } | State::CompletingRebalance { .. } | State::Stable { .. } => {
                self.protocol_type.as_deref() == Some(protocol_type)
                    && protocols.iter().any(|offered| self.is_common(&offered.name))
            }
        }
    }

    fn is_common(&self, protocol: &str) -> bool {
        self.members.values().all(|member| member.metadata(protocol).is_some())
    }

    /// Each member votes for what it likes best of what all can do; most votes win, then the smaller name.
    pub(super) fn select_protocol(&self) -> Option<String> {
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for member in self.members.values() {
            if let Some(choice) = member.protocols.iter().find(|offered| self.is_common(&offered.name)) {
                *votes.entry(choice.name.as_str()).or_default() += 1;
            }
        }
        let most = votes.values().copied().max()?;
        votes.into_iter().find(|(_, count)| *count == most).map(|(name, _)| name.to_owned())
    }

    /// The longest that any member may take to come back.
    pub(super) fn rebalance_timeout_ms(&self) -> i32 {
        self.members.values().map(|member| member.rebalance_timeout_ms).max().unwrap_or(0).max(0)
    }

    pub(super) fn joining(&self) -> usize {
        self.members.values().filter(|member| member.is_joining()).count()
    }

    /// Everybody is back, and nobody has an id that it has not come with yet.
    pub(super) fn has_all_joined(&self) -> bool {
        self.pending.is_empty() && self.members.values().all(Member::is_joining)
    }

    /// Members that have not sent their SyncGroup in this generation.
    pub(super) fn unsynced_mut(&mut self) -> Option<&mut BTreeSet<MemberId>> {
        match &mut self.state {
            State::CompletingRebalance { unsynced, .. } | State::Stable { unsynced, .. } => Some(unsynced),
            State::Empty | State::PreparingRebalance { .. } => None,
        }
    }

    /// Takes a member in. The first one chooses the kind of group, and leads.
    pub(super) fn insert(&mut self, id: MemberId, member: Member) {
        self.pending.remove(&id);
        if let Some(instance) = &member.instance {
            self.instances.insert(instance.clone(), id.clone());
        }
        self.leader.get_or_insert_with(|| id.clone());
        self.members.insert(id, member);
    }

    /// Lets a member, or an id given out, go. Whom it leaves waiting is the caller's to tell.
    pub(super) fn remove(&mut self, id: &MemberId) -> Option<Member> {
        let removed = self.members.remove(id);
        if let Some(instance) = removed.as_ref().and_then(|member| member.instance.as_ref())
            && self.instances.get(instance) == Some(id)
        {
            self.instances.remove(instance);
        }
        if self.is_leader(id) {
            self.leader = self.members.keys().next().cloned();
        }
        self.pending.remove(id);
        if let Some(unsynced) = self.unsynced_mut() {
            unsynced.remove(id);
        }
        removed
    }

    /// When something happens to this group if nobody calls.
    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        let state = match &self.state {
            State::Empty => None,
            State::PreparingRebalance { window } => Some(window.deadline()),
            State::CompletingRebalance { unsynced, deadline } | State::Stable { unsynced, deadline } => {
                (!unsynced.is_empty()).then_some(*deadline)
            }
        };
        let members = self.members.values().filter_map(Member::deadline);
        members.chain(self.pending.values().copied()).chain(state).min()
    }
}

fn settled_member(recorded: &MemberMetadata, protocol: Option<&str>, known: Option<&Member>) -> Member {
    let said = || -> Arc<[JoinProtocol]> {
        let name = protocol.unwrap_or_default().to_owned();
        Arc::from([JoinProtocol { name, metadata: recorded.subscription.clone() }])
    };
    Member {
        instance: recorded.instance.clone(),
        client_id: Arc::clone(&recorded.client_id),
        client_host: Arc::clone(&recorded.client_host),
        rebalance_timeout_ms: recorded.rebalance_timeout_ms,
        session_timeout_ms: recorded.session_timeout_ms,
        protocols: known.map_or_else(said, |known| Arc::clone(&known.protocols)),
        assignment: recorded.assignment.clone(),
        waiting: Waiting::No,
        session_deadline: known.and_then(|known| known.session_deadline),
    }
}
