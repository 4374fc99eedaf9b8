//! The group coordinator: who is in which group, what each member was assigned, and where each group reads on.
//!
//! One [`GroupCoordinator`] serves the groups of one partition of `__consumer_offsets`. There are two kinds. In a *classic* group the members
//! join, one of them, the leader, assigns, and a rebalance stops all: [`classic`] has their states. In a *consumer* group (KIP-848)
//! the coordinator assigns, and members move one by one: [`consumer`]. One becomes the other while its members go on.
//!
//! ```text
//!  JoinGroup SyncGroup Heartbeat LeaveGroup ─► join sync heartbeat leave ─┐        ┌─► Record::Group
//!                                     Tick ─► tick ───────────────────────┼─ draft ┼─► Note
//!                                                     rebalance ──────────┘        └─► Reply, also to those who waited
//!  OffsetCommit TxnOffsetCommit ─► commit ─► Record::Offset ─► offsets: committed, or pending until the marker
//! ```
//!
//! **Hard and soft.** A group is recorded when it is made, when a leader has synced, when a static member was replaced and when
//! the last member is gone; offsets are recorded always. All else is soft: who waits, clocks, a rebalance that is on, the
//! generation that it has begun. After a crash a group is `Empty` or `Stable` again, with the members of the last record and
//! fresh clocks; members that were in the middle of a rebalance hear that their generation is none, and join again. No
//! assignment is lost or doubled by that, since one is handed out only when it is durable.
//!
//! **What the host guarantees.** Records of a [`TxnOffsetCommit`](Command::TxnOffsetCommit) are appended under its producer
//! ([`Command::producer`]), after the transaction was verified; the markers of all transactions that wrote here are applied. Each reply
//! waits until all that is staged so far is durable. So an OffsetFetch may read an offset that is only staged: its
//! answer still leaves after that offset's own acknowledgement could, and nobody ever hears of an offset that a crash takes back.
//!
//! **What it does not know**: of topics, more than the host's last picture of them; classic assignments' meaning; who may do what;
//! connections; share and streams groups, whose records it skips.
//!
//! Invariants: a generation's assignment is recorded once; recorded generations of a group never fall; a request that waits is answered
//! once, by a later decision at the latest when its deadline has passed; an aborted transaction moves no offset; after a
//! transaction's end nothing of it is pending.
//!
//! Read in this order: [`classic`], [`record`], `draft`, `rebalance`, `join`, `sync`, `offsets`, `commit`; then the others, and [`consumer`].

pub mod classic;
pub mod command;
mod commit;
pub mod config;
pub mod consumer;
mod draft;
mod fetch;
mod forget;
mod heartbeat;
mod join;
mod leave;
mod offsets;
mod rebalance;
pub mod record;
pub mod reply;
mod show;
mod subscription;
mod sync;
mod tick;
mod waiter_gone;
pub mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

use atonce_kernel::{GroupId, MemberId, ProducerId, Timestamp, TopicPartition};

use self::classic::{AT_ONCE, Classic, Joiner, State, Waiting};
use self::consumer::record::Fact;
use self::consumer::topics::TopicsImage;
use self::consumer::{Clocks, Consumer, Left};
use self::offsets::{Offsets, Stored};
use self::subscription::Subscribed;
use crate::shard::{Context, Corrupt, Decision, Entry, Shard};

pub use self::command::Command;
pub use self::config::GroupConfig;
pub use self::record::Record;
pub use self::reply::{GroupState, Reply};
pub use self::tick::Search;

/// The groups, and the offsets, of one partition of `__consumer_offsets`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct GroupCoordinator {
    config: GroupConfig,
    groups: BTreeMap<GroupId, Group>,
    offsets: Offsets,
    /// The broker's topics, as the host showed them last.
    topics: Arc<TopicsImage>,
    /// When to look at a group: for each that has a deadline, one entry, which is never too late.
    wakeups: BTreeSet<(Timestamp, GroupId)>,
    search: Search,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Group {
    kind: Kind,
    /// The group's entry among the wake-ups.
    wakeup: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Classic {
        /// The last record's generation; none of a group that only ever had offsets.
        recorded_generation: Option<i32>,
        classic: Classic,
    },
    Consumer(Consumer),
}

impl Group {
    fn classic(&self) -> Option<&Classic> {
        match &self.kind {
            Kind::Classic { classic, .. } => Some(classic),
            Kind::Consumer(_) => None,
        }
    }

    fn consumer(&self) -> Option<&Consumer> {
        match &self.kind {
            Kind::Consumer(consumer) => Some(consumer),
            Kind::Classic { .. } => None,
        }
    }

    fn consumer_mut(&mut self) -> Option<&mut Consumer> {
        match &mut self.kind {
            Kind::Consumer(consumer) => Some(consumer),
            Kind::Classic { .. } => None,
        }
    }

    fn subscribed(&self) -> Subscribed {
        match &self.kind {
            Kind::Classic { classic, .. } => classic.subscribed(),
            Kind::Consumer(group) => Subscribed::To(group.topics().into_iter().cloned().collect()),
        }
    }

    fn is_empty(&self) -> bool {
        match &self.kind {
            Kind::Classic { classic, .. } => classic.state == State::Empty,
            Kind::Consumer(consumer) => consumer.members.is_empty(),
        }
    }
}

/// A change of soft state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Note {
    /// A group stands like this now.
    Stands {
        /// Which group.
        group: GroupId,
        /// How it stands.
        classic: Box<Classic>,
    },
    /// A member gave a sign of life.
    Seen {
        /// Of which group.
        group: GroupId,
        /// Who.
        member: MemberId,
        /// Until when it may be silent now.
        until: Timestamp,
    },
    /// How far the search for expired offsets is.
    Search(Search),
    /// The broker's topics have changed.
    Topics(Arc<TopicsImage>),
    /// A consumer group's member has these deadlines now.
    Clocks {
        /// Of which group.
        group: GroupId,
        /// Who.
        member: MemberId,
        /// Its deadlines.
        clocks: Clocks,
    },
    /// A consumer group has looked at this picture of the topics.
    Checked {
        /// Which group.
        group: GroupId,
        /// The picture's version.
        version: i64,
    },
    /// A consumer group's patterns were held against this picture of the topics.
    PatternsResolved {
        /// Which group.
        group: GroupId,
        /// The picture's version.
        version: i64,
    },
    /// A consumer group was looked at, and is put down for its next deadline.
    Rescheduled {
        /// Which group.
        group: GroupId,
    },
}

impl Note {
    fn seen(context: &Context, group: &GroupId, classic: &Classic, member: &MemberId) -> Option<Self> {
        let until = context.now.plus_ms(i64::from(classic.members.get(member)?.session_timeout_ms));
        Some(Self::Seen { group: group.clone(), member: member.clone(), until })
    }
}

impl GroupCoordinator {
    /// A shard without groups; the log's entries make them.
    #[must_use]
    pub fn new(config: GroupConfig) -> Self {
        Self { config, ..Self::default() }
    }

    /// A classic group as it stands.
    #[must_use]
    pub fn group(&self, group: &GroupId) -> Option<&Classic> {
        self.groups.get(group).and_then(Group::classic)
    }

    /// All classic groups as they stand, sorted.
    pub fn groups(&self) -> impl Iterator<Item = (&GroupId, &Classic)> {
        self.groups.iter().filter_map(|(id, group)| Some((id, group.classic()?)))
    }

    /// A consumer group as it stands.
    #[must_use]
    pub fn consumer_group(&self, group: &GroupId) -> Option<&Consumer> {
        self.groups.get(group).and_then(Group::consumer)
    }

    /// All consumer groups as they stand, sorted.
    pub fn consumer_groups(&self) -> impl Iterator<Item = (&GroupId, &Consumer)> {
        self.groups.iter().filter_map(|(id, group)| Some((id, group.consumer()?)))
    }

    /// The topics, as the shard was shown them last.
    #[must_use]
    pub fn topics(&self) -> &Arc<TopicsImage> {
        &self.topics
    }

    /// What a group has committed for a partition.
    #[must_use]
    pub fn committed(&self, group: &GroupId, partition: &TopicPartition) -> Option<&record::CommittedOffset> {
        self.offsets.get(group, partition).map(|stored| &stored.value)
    }

    /// All that a group has committed, sorted.
    pub fn committed_of(&self, group: &GroupId) -> impl Iterator<Item = (&TopicPartition, &record::CommittedOffset)> {
        self.offsets.of_group(group).map(|(at, stored)| (at, &stored.value))
    }

    /// What a transaction that is still open will commit, sorted.
    pub fn pending_of(
        &self,
        producer: ProducerId,
    ) -> impl Iterator<Item = (&GroupId, &TopicPartition, &record::CommittedOffset)> {
        self.offsets.pending_of(producer).map(|((group, at), stored)| (group, at, &stored.value))
    }

    fn has_offset(&self, group: &GroupId, partition: &TopicPartition) -> bool {
        self.offsets.get(group, partition).is_some() || self.offsets.is_pending(group, partition)
    }

    /// The only place where a group's soft state is written, and its wake-up with it.
    fn set(&mut self, id: &GroupId, recorded_generation: Option<i32>, classic: Classic) {
        let wakeup = classic.next_deadline();
        let group = Group { kind: Kind::Classic { recorded_generation, classic }, wakeup };
        let before = self.groups.insert(id.clone(), group).and_then(|before| before.wakeup);
        self.move_wakeup(id, before, wakeup);
    }

    fn move_wakeup(&mut self, id: &GroupId, before: Option<Timestamp>, after: Option<Timestamp>) {
        if before == after {
            return;
        }
        if let Some(before) = before {
            self.wakeups.remove(&(before, id.clone()));
        }
        if let Some(after) = after {
            self.wakeups.insert((after, id.clone()));
        }
    }

    fn remove(&mut self, id: &GroupId) {
        if let Some(group) = self.groups.remove(id) {
            self.move_wakeup(id, group.wakeup, None);
        }
    }

    /// Has a group looked at then, if that is sooner than it would be. Too soon costs a look, a search for the right time costs more.
    fn wake_by(&mut self, id: &GroupId, at: Timestamp) {
        let Some(known) = self.groups.get_mut(id) else { return };
        let (before, after) = (known.wakeup, known.wakeup.map_or(at, |wakeup| wakeup.min(at)));
        known.wakeup = Some(after);
        self.move_wakeup(id, before, Some(after));
    }

    /// Puts a consumer group down for its next deadline.
    fn reschedule(&mut self, id: &GroupId) {
        let Some(known) = self.groups.get_mut(id) else { return };
        let Kind::Consumer(consumer) = &known.kind else { return };
        let (before, after) = (known.wakeup, consumer.next_deadline(&self.topics));
        known.wakeup = after;
        self.move_wakeup(id, before, after);
    }

    fn apply_record(&mut self, record: &Record, entry: Place) -> Result<(), Corrupt> {
        match record {
            Record::Group { group, metadata: None } => self.remove(group),
            Record::Group { group, metadata: Some(metadata) } => {
                let (recorded, known) = match self.groups.get(group).map(|known| &known.kind) {
                    Some(Kind::Classic { recorded_generation, classic }) => (*recorded_generation, Some(classic)),
                    None => (None, None),
                    Some(Kind::Consumer(_)) => {
                        let reason = format!("group {group}: a generation of what is a consumer group");
                        return Err(Corrupt { offset: entry.offset, reason });
                    }
                };
                metadata.check_after(group, recorded).map_err(|reason| Corrupt { offset: entry.offset, reason })?;
                let classic = Classic::settled(metadata, known);
                self.set(group, Some(metadata.generation), classic);
            }
            Record::Consumer { group, fact } => {
                let reason = |reason| Corrupt { offset: entry.offset, reason: format!("group {group}: {reason}") };
                self.apply_fact(group, fact).map_err(reason)?;
            }
            Record::Offset { group, topic_partition, value: None } => self.offsets.forget(group, topic_partition),
            Record::Offset { group, topic_partition, value: Some(value) } => {
                if !self.groups.contains_key(group) {
                    self.set(group, None, Classic::new(entry.timestamp));
                }
                let stored = Stored { value: value.clone(), record_offset: entry.offset };
                match entry.producer {
                    None => self.offsets.commit(group, topic_partition, stored),
                    Some(producer) => self.offsets.hold(producer, group, topic_partition, stored),
                }
            }
        }
        Ok(())
    }
}

impl GroupCoordinator {
    /// The end of something that is not there ends nothing. What is there begins a group, also in the place of one that only had offsets.
    fn apply_fact(&mut self, id: &GroupId, fact: &Fact) -> Result<(), String> {
        let is_simple = |classic: &Classic| {
            classic.state == State::Empty && classic.protocol_type.is_none() && classic.pending.is_empty()
        };
        match self.groups.get(id).map(|group| &group.kind) {
            Some(Kind::Consumer(_)) => {}
            None | Some(Kind::Classic { .. }) if fact.is_an_end() => return Ok(()),
            Some(Kind::Classic { classic, .. }) if !is_simple(classic) => {
                return Err("a fact about a consumer group, and it is a classic one".to_owned());
            }
            None | Some(Kind::Classic { .. }) => {
                self.remove(id);
                self.groups.insert(id.clone(), Group { kind: Kind::Consumer(Consumer::new()), wakeup: None });
            }
        }
        let Some(consumer) = self.groups.get_mut(id).and_then(Group::consumer_mut) else { return Ok(()) };
        match consumer.apply(fact)? {
            Left::Nothing => self.remove(id),
            // A member's clock is to be started, or a pattern to be resolved.
            Left::Group if fact.wants_a_look() => self.wake_by(id, AT_ONCE),
            Left::Group => {}
        }
        Ok(())
    }
}

/// Where a record stands, and as part of what.
struct Place {
    producer: Option<ProducerId>,
    offset: i64,
    timestamp: Timestamp,
}

impl Shard for GroupCoordinator {
    type Command = Command;
    type Record = Record;
    type Note = Note;
    type Reply = Reply;
    /// Nothing is owed to the world but answers, and those die with their connections.
    type Obligation = Infallible;

    fn decide(&self, context: &Context, command: &Command) -> Decision<Self> {
        match command {
            Command::ConsumerGroupHeartbeat(beat) => consumer::heartbeat(self, context, beat),
            Command::ConsumerGroupDescribe(describe) => consumer::describe(self, context, describe),
            Command::TopicsChanged(topics) => {
                Decision { notes: vec![Note::Topics(Arc::clone(topics))], ..Decision::nothing() }
            }
            Command::JoinGroup(join) => join::decide(self, context, join),
            Command::SyncGroup(sync) => sync::decide(self, context, sync),
            Command::Heartbeat(beat) => heartbeat::decide(self, context, beat),
            Command::LeaveGroup(leave) => leave::decide(self, context, leave),
            Command::OffsetCommit(commit) => commit::decide(self, context, commit),
            Command::TxnOffsetCommit(commit) => commit::decide_in_transaction(self, context, commit),
            Command::OffsetFetch(fetch) => fetch::decide(self, context, fetch),
            Command::OffsetDelete(delete) => forget::offset_delete(self, context, delete),
            Command::DescribeGroups(describe) => show::describe(self, context, describe),
            Command::ListGroups(list) => show::list(self, context, list),
            Command::DeleteGroups(delete) => forget::delete_groups(self, context, delete),
            Command::PartitionsDeleted(partitions) => forget::partitions_deleted(self, partitions),
            Command::WaiterGone(gone) => waiter_gone::decide(self, context, gone),
            Command::Tick => tick::decide(self, context),
        }
    }

    fn apply(&mut self, entry: &Entry<'_, Record>) -> Result<(), Corrupt> {
        match entry {
            Entry::Record { record, producer, offset, timestamp } => {
                let producer = producer.map(|producer| producer.id);
                self.apply_record(record, Place { producer, offset: *offset, timestamp: *timestamp })
            }
            Entry::Marker { producer, outcome, offset: _ } => {
                self.offsets.end(producer.id, *outcome);
                Ok(())
            }
        }
    }

    fn note(&mut self, note: &Note) {
        match note {
            Note::Stands { group, classic } => {
                if let Some(Kind::Classic { recorded_generation, .. }) = self.groups.get(group).map(|known| &known.kind)
                {
                    self.set(group, *recorded_generation, (**classic).clone());
                }
            }
            Note::Seen { group, member, until } => {
                let Some(Kind::Classic { classic, .. }) = self.groups.get_mut(group).map(|known| &mut known.kind)
                else {
                    return;
                };
                let Some(seen) = classic.members.get_mut(member) else { return };
                match seen.waiting {
                    Waiting::No
                    | Waiting::JoinGone
                    | Waiting::Sync { .. }
                    | Waiting::Join { joiner: Joiner::Known, .. } => {
                        seen.session_deadline = Some(*until);
                    }
                    // It has more time than a session.
                    Waiting::Join { joiner: Joiner::Newcomer | Joiner::Unnamed, .. } => {}
                }
                // A later deadline leaves the wake-up where it is.
                self.wake_by(group, *until);
            }
            Note::Search(search) => self.search = search.clone(),
            Note::Topics(topics) => {
                self.topics = Arc::clone(topics);
                let with_patterns = self.groups.iter().filter(|(_, group)| {
                    group.consumer().is_some_and(|consumer| !consumer.patterns_wanted().is_empty())
                });
                for id in with_patterns.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
                    self.reschedule(&id);
                }
            }
            Note::Clocks { group, member, clocks } => {
                let Some(known) = self.groups.get_mut(group) else { return };
                let was_due = known.wakeup == Some(AT_ONCE);
                let Some(consumer) = known.consumer_mut().filter(|it| it.members.contains_key(member)) else { return };
                consumer.soft.clocks.insert(member.clone(), *clocks);
                // Who had no clock is what the group was to be looked at for.
                if was_due { self.reschedule(group) } else { self.wake_by(group, clocks.deadline()) }
            }
            Note::Checked { group, version } => {
                if let Some(consumer) = self.groups.get_mut(group).and_then(Group::consumer_mut) {
                    consumer.soft.checked = Some(*version);
                }
            }
            Note::PatternsResolved { group, version } => {
                if let Some(consumer) = self.groups.get_mut(group).and_then(Group::consumer_mut) {
                    consumer.soft.resolved = Some(*version);
                }
            }
            Note::Rescheduled { group } => self.reschedule(group),
        }
    }

    fn obligations(&self) -> impl Iterator<Item = Infallible> {
        std::iter::empty()
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        let has_nothing = self.groups.is_empty() && self.offsets.is_empty();
        let search = match &self.search {
            Search::Unplanned | Search::After(_) => AT_ONCE,
            Search::At(at) => *at,
        };
        let search = (!has_nothing).then_some(search);
        let wakeup = self.wakeups.first().map(|(at, _)| *at);
        wakeup.into_iter().chain(search).min()
    }
}
