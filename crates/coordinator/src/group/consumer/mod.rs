//! Groups of the consumer protocol (KIP-848): the coordinator assigns, each member is moved to its part of the assignment by itself.
//!
//! ```text
//!  heartbeat: what I want, what I have ──► group epoch ──► target assignment ──► reconcile: give up, then take ──► heartbeat's answer
//!                                            (raised by any change)    (assignor)        (epoch of the member)
//! ```
//!
//! Three epochs follow each other: the *group's* is raised when members, their wishes or topics change; the *target's* when an
//! assignment was made for that; a *member's* when it has reached the target, as far as others let it. A partition that a member still has is
//! not given to the next one: it waits in `UnreleasedPartitions` until the first one has said that it gave it up, or is out.
//!
//! **Hard and soft.** All of the above is recorded, in the records of [`record`]. Soft are only the clocks of the members, and which
//! picture of the topics was looked at last. So a crash in the middle of a rebalance goes on in the middle of it.
//!
//! **What it does not know**: classic groups' states (a group converts to and from them in [`convert`](self)), connections, racks.
//!
//! Invariants: no partition is assigned to, or being given up by, two members; epochs never fall; a member has a target before it has a
//! partition.
//!
//! Read in this order: this file, [`record`], [`topics`], [`assignor`], `draft`, `heartbeat`, `reconcile`, `leave`, `pattern`; then
//! `classic_member` and `convert`.

pub mod assignor;
mod classic_member;
pub mod command;
mod commit;
mod convert;
mod draft;
mod heartbeat;
mod leave;
mod pattern;
mod reconcile;
pub mod record;
mod show;
mod tick;
pub mod topics;
pub mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use atonce_kernel::{GroupInstanceId, MemberId, Timestamp, TopicId, TopicName};

use self::assignor::Assignor;
use self::record::{ClassicMember, Current, Fact, GroupEpoch, Resolved, Subscription, TargetEpoch};
use self::topics::TopicsImage;
use super::classic::AT_ONCE;
use super::config::ConsumerConfig;

pub(super) use self::classic_member::{
    heartbeat as classic_heartbeat, join as classic_join, leave as classic_leave, sync as classic_sync,
};
pub(super) use self::commit::{Committer, validate as validate_commit, validate_fetch};
pub use self::draft::Refused;
pub(super) use self::draft::tombstones;
pub use self::heartbeat::Beat;
pub(super) use self::heartbeat::decide as heartbeat;
pub use self::show::{DescribedConsumer, DescribedConsumerGroup, DescribedTopic};
pub(super) use self::show::{describe, state_of};
pub(super) use self::tick::wake;

/// A member that joins has this epoch.
pub const JOIN_EPOCH: i32 = 0;
/// A member that leaves for good says so with this epoch.
pub const LEAVE_EPOCH: i32 = -1;
/// A static member that leaves and means to come back.
pub const LEAVE_FOR_A_WHILE_EPOCH: i32 = -2;

/// Partitions, by topic. No topic without partitions.
pub type Partitions = BTreeMap<TopicId, BTreeSet<i32>>;
/// Partitions, by topic, each with the epoch in which the member got it.
pub type AssignedPartitions = BTreeMap<TopicId, BTreeMap<i32, i32>>;

/// How far a member is on its way to the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemberState {
    /// It has what the target gives it.
    Stable,
    /// It must give partitions up before it goes on.
    UnrevokedPartitions,
    /// Others have not given up yet what it shall get.
    UnreleasedPartitions,
    /// What a broker of the future wrote; the member has to join again.
    Unknown,
}

impl MemberState {
    /// The number in records.
    #[must_use]
    pub fn to_i8(self) -> i8 {
        match self {
            Self::Stable => 0,
            Self::UnrevokedPartitions => 1,
            Self::UnreleasedPartitions => 2,
            Self::Unknown => 127,
        }
    }

    /// What the number means.
    #[must_use]
    pub fn from_i8(number: i8) -> Self {
        match number {
            0 => Self::Stable,
            1 => Self::UnrevokedPartitions,
            2 => Self::UnreleasedPartitions,
            _ => Self::Unknown,
        }
    }
}

/// A group of the consumer protocol with its members.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Consumer {
    /// The group's epoch.
    pub epoch: i32,
    /// The topics that the epoch stands for, hashed.
    pub metadata_hash: i64,
    /// The epoch of the target assignment; −1 after its end was recorded.
    pub target_epoch: i32,
    /// When the target assignment was made; 0 if never.
    pub target_timestamp: Timestamp,
    /// The target assignment.
    pub targets: BTreeMap<MemberId, Partitions>,
    /// The members.
    pub members: BTreeMap<MemberId, Member>,
    /// The static members' ids, by their own names.
    pub instances: BTreeMap<GroupInstanceId, MemberId>,
    /// What patterns matched.
    pub patterns: BTreeMap<Arc<str>, Resolved>,
    /// What a crash may lose.
    pub soft: Soft,
}

/// What is known of a group until the next crash.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Soft {
    /// The members' deadlines.
    pub clocks: BTreeMap<MemberId, Clocks>,
    /// The picture of the topics that the metadata hash was last compared with.
    pub checked: Option<i64>,
    /// The picture of the topics that the patterns were last held against.
    pub resolved: Option<i64>,
}

/// When a member is put out, unless it does what is expected of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Clocks {
    /// It is silent.
    pub session: Timestamp,
    /// It does not give up what it must.
    pub rebalance: Option<Timestamp>,
    /// Of the classic protocol: it was told to join again, and does not.
    pub join: Option<Timestamp>,
    /// Of the classic protocol: it joined, and does not fetch its assignment.
    pub sync: Option<Timestamp>,
}

impl Clocks {
    pub(super) fn session(until: Timestamp) -> Self {
        Self { session: until, rebalance: None, join: None, sync: None }
    }

    pub(super) fn deadline(&self) -> Timestamp {
        [self.rebalance, self.join, self.sync].into_iter().flatten().fold(self.session, Timestamp::min)
    }
}

/// A member: what it wants, and what it has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// What it said.
    pub subscription: Subscription,
    /// What it has.
    pub current: Current,
}

impl Default for Member {
    fn default() -> Self {
        Self {
            subscription: Subscription {
                instance: None,
                rack: None,
                client_id: Arc::from(""),
                client_host: Arc::from(""),
                topics: BTreeSet::new(),
                pattern: Arc::from(""),
                rebalance_timeout_ms: -1,
                assignor: None,
                classic: None,
            },
            current: Current {
                epoch: JOIN_EPOCH,
                previous_epoch: -1,
                state: MemberState::Stable,
                assigned: AssignedPartitions::new(),
                revoking: AssignedPartitions::new(),
            },
        }
    }
}

impl Member {
    pub(super) fn classic(&self) -> Option<&ClassicMember> {
        self.subscription.classic.as_ref()
    }

    pub(super) fn is_reconciled_to(&self, target_epoch: i32) -> bool {
        self.current.state == MemberState::Stable && self.current.epoch == target_epoch
    }

    /// In which epoch it got the partition, if it has it, or has to give it up.
    pub(super) fn assignment_epoch(&self, topic: TopicId, partition: i32) -> Option<i32> {
        let of = |partitions: &AssignedPartitions| partitions.get(&topic)?.get(&partition).copied();
        of(&self.current.assigned).or_else(|| of(&self.current.revoking))
    }
}

/// Where a group stands. It follows from all else, and is recorded nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConsumerState {
    /// No members.
    Empty,
    /// The target assignment is older than the group's epoch.
    Assigning,
    /// Members are on their way.
    Reconciling,
    /// All have what they shall have.
    Stable,
}

/// What an entry has left of its group.
pub(super) enum Left {
    Group,
    Nothing,
}

impl Consumer {
    /// A group without members. Kafka counts from 1.
    #[must_use]
    pub fn new() -> Self {
        Self {
            epoch: 1,
            metadata_hash: 0,
            target_epoch: 1,
            target_timestamp: Timestamp(0),
            targets: BTreeMap::new(),
            members: BTreeMap::new(),
            instances: BTreeMap::new(),
            patterns: BTreeMap::new(),
            soft: Soft::default(),
        }
    }

    /// Where it stands.
    #[must_use]
    pub fn state(&self) -> ConsumerState {
        if self.members.is_empty() {
            ConsumerState::Empty
        } else if self.epoch > self.target_epoch {
            ConsumerState::Assigning
        } else if self.members.values().all(|member| member.is_reconciled_to(self.target_epoch)) {
            ConsumerState::Stable
        } else {
            ConsumerState::Reconciling
        }
    }

    /// The static member of that name.
    pub(super) fn static_member(&self, instance: &GroupInstanceId) -> Option<(&MemberId, &Member)> {
        self.instances.get(instance).and_then(|id| self.members.get_key_value(id))
    }

    /// Members that speak the classic protocol.
    pub(super) fn classic_members(&self) -> usize {
        self.members.values().filter(|member| member.classic().is_some()).count()
    }

    /// Members that subscribe to the pattern.
    pub(super) fn subscribers_of(&self, pattern: &str) -> usize {
        self.members.values().filter(|member| &*member.subscription.pattern == pattern).count()
    }

    /// All patterns that members subscribe to.
    pub(super) fn patterns_wanted(&self) -> BTreeSet<&Arc<str>> {
        let patterns = self.members.values().map(|member| &member.subscription.pattern);
        patterns.filter(|pattern| !pattern.is_empty()).collect()
    }

    /// The topics that a member reads, by name or by pattern.
    pub(super) fn topics_of<'a>(&'a self, subscription: &'a Subscription) -> impl Iterator<Item = &'a TopicName> {
        let by_pattern = self.patterns.get(&subscription.pattern).into_iter().flat_map(|resolved| &resolved.topics);
        subscription.topics.iter().chain(by_pattern)
    }

    /// The topics that some member reads.
    pub(super) fn topics(&self) -> BTreeSet<&TopicName> {
        let by_name = self.members.values().flat_map(|member| &member.subscription.topics);
        by_name.chain(self.patterns.values().flat_map(|resolved| &resolved.topics)).collect()
    }

    pub(super) fn metadata_hash_now(&self, topics: &TopicsImage) -> i64 {
        topics.metadata_hash(self.topics())
    }

    /// The assignor with most votes; of two, the one that is offered first, which runs where nobody votes, too.
    pub(super) fn preferred_assignor(&self, config: &ConsumerConfig) -> Assignor {
        let votes = |assignor: &Assignor| {
            let votes = self.members.values().filter_map(|member| member.subscription.assignor.as_deref());
            votes.filter(|vote| *vote == assignor.name()).count()
        };
        // Of equal ones `max_by_key` takes the last.
        config.assignors.iter().rev().copied().max_by_key(votes).unwrap_or(Assignor::Uniform)
    }

    /// Whether members other than `except` have the partition, or have not given it up yet.
    pub(super) fn partitions_in_use(&self, except: &MemberId) -> BTreeSet<(TopicId, i32)> {
        let others = self.members.iter().filter(|(id, _)| *id != except).map(|(_, member)| &member.current);
        let partitions = others.flat_map(|current| current.assigned.iter().chain(&current.revoking));
        partitions.flat_map(|(topic, partitions)| partitions.keys().map(|partition| (*topic, *partition))).collect()
    }

    /// When something happens to this group if nobody calls.
    pub(super) fn next_deadline(&self, topics: &TopicsImage) -> Option<Timestamp> {
        let clock = |id| self.soft.clocks.get(id).map_or(AT_ONCE, Clocks::deadline);
        self.members.keys().map(clock).chain(self.pattern_deadline(topics)).min()
    }

    /// Takes a fact in.
    ///
    /// Refuses: one that could not follow. Nothing is changed then.
    pub(super) fn apply(&mut self, fact: &Fact) -> Result<Left, String> {
        match fact {
            Fact::Epoch(Some(GroupEpoch { epoch, metadata_hash })) => {
                self.epoch = *epoch;
                self.metadata_hash = *metadata_hash;
            }
            Fact::Epoch(None) => {
                if !self.members.is_empty() || !self.targets.is_empty() {
                    return Err(format!("the group ends with {} members", self.members.len().max(self.targets.len())));
                }
                return Ok(Left::Nothing);
            }
            Fact::Member(id, Some(subscription)) => self.subscribe(id, subscription)?,
            Fact::Member(id, None) => self.remove(id)?,
            Fact::Target(Some(TargetEpoch { epoch, timestamp })) => {
                self.target_epoch = *epoch;
                self.target_timestamp = *timestamp;
            }
            Fact::Target(None) => {
                if !self.targets.is_empty() {
                    return Err(format!("the target assignment ends with {} members in it", self.targets.len()));
                }
                self.target_epoch = -1;
                self.target_timestamp = Timestamp(0);
            }
            Fact::TargetMember(id, Some(target)) => {
                self.targets.insert(id.clone(), target.clone());
            }
            Fact::TargetMember(id, None) => {
                self.targets.remove(id);
            }
            Fact::Current(id, Some(current)) => {
                self.members.entry(id.clone()).or_default().current = current.clone();
            }
            Fact::Current(id, None) => {
                if let Some(member) = self.members.get_mut(id) {
                    member.current = Current { epoch: LEAVE_EPOCH, ..Member::default().current };
                }
            }
            Fact::Pattern(pattern, Some(resolved)) => {
                self.patterns.insert(Arc::clone(pattern), resolved.clone());
            }
            Fact::Pattern(pattern, None) => {
                self.patterns.remove(pattern);
            }
        }
        Ok(Left::Group)
    }

    fn subscribe(&mut self, id: &MemberId, subscription: &Subscription) -> Result<(), String> {
        if let Some(instance) = &subscription.instance
            && let Some(owner) = self.instances.get(instance).filter(|owner| *owner != id)
        {
            return Err(format!("member {id} has the name {instance}, which is {owner}'s"));
        }
        let member = self.members.entry(id.clone()).or_default();
        if let Some(before) = member.subscription.instance.take() {
            self.instances.remove(&before);
        }
        if let Some(instance) = &subscription.instance {
            self.instances.insert(instance.clone(), id.clone());
        }
        member.subscription = subscription.clone();
        Ok(())
    }

    fn remove(&mut self, id: &MemberId) -> Result<(), String> {
        let Some(member) = self.members.get(id) else { return Ok(()) };
        if member.current.epoch != LEAVE_EPOCH {
            return Err(format!("member {id} ends while it has epoch {}", member.current.epoch));
        }
        if self.targets.contains_key(id) {
            return Err(format!("member {id} ends while it has a part in the target assignment"));
        }
        if let Some(instance) = &member.subscription.instance {
            self.instances.remove(instance);
        }
        self.members.remove(id);
        self.soft.clocks.remove(id);
        Ok(())
    }
}

impl Default for Consumer {
    fn default() -> Self {
        Self::new()
    }
}
