//! The group coordinator: who is in which group, what each member was assigned, and where each group reads on.
//!
//! One [`GroupCoordinator`] serves the groups of one partition of `__consumer_offsets`. Groups are *classic* ones: the members
//! join, one of them, the leader, assigns, and a rebalance stops all. [`classic`] has their states.
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
//! **What it does not know**: topics and their ids, assignments' meaning, who may do what, connections, KIP-848, share and
//! streams groups, whose records it skips.
//!
//! Invariants: a generation's assignment is recorded once; recorded generations of a group never fall; a request that waits is answered
//! once, by a later decision at the latest when its deadline has passed; an aborted transaction moves no offset; after a
//! transaction's end nothing of it is pending.
//!
//! Read in this order: [`classic`], [`record`], `draft`, `rebalance`, `join`, `sync`, `offsets`, `commit`; then the others.

pub mod classic;
pub mod command;
mod commit;
pub mod config;
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
pub mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use atonce_kernel::{GroupId, MemberId, ProducerId, Timestamp, TopicPartition};

use self::classic::{AT_ONCE, Classic, Waiting};
use self::offsets::{Offsets, Stored};
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
    /// When to look at a group: for each that has a deadline, one entry, which is never too late.
    wakeups: BTreeSet<(Timestamp, GroupId)>,
    search: Search,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Group {
    /// The last record's generation; none of a group that only ever had offsets.
    recorded_generation: Option<i32>,
    classic: Classic,
    /// The group's entry among the wake-ups.
    wakeup: Option<Timestamp>,
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

    /// A group as it stands.
    #[must_use]
    pub fn group(&self, group: &GroupId) -> Option<&Classic> {
        self.groups.get(group).map(|group| &group.classic)
    }

    /// All groups as they stand, sorted.
    pub fn groups(&self) -> impl Iterator<Item = (&GroupId, &Classic)> {
        self.groups.iter().map(|(id, group)| (id, &group.classic))
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
        let group = Group { recorded_generation, classic, wakeup };
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

    fn apply_record(&mut self, record: &Record, entry: Place) -> Result<(), Corrupt> {
        match record {
            Record::Group { group, metadata: None } => self.remove(group),
            Record::Group { group, metadata: Some(metadata) } => {
                let known = self.groups.get(group);
                let recorded = known.and_then(|known| known.recorded_generation);
                metadata.check_after(group, recorded).map_err(|reason| Corrupt { offset: entry.offset, reason })?;
                let classic = Classic::settled(metadata, known.map(|known| &known.classic));
                self.set(group, Some(metadata.generation), classic);
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
                if let Some(known) = self.groups.get(group) {
                    self.set(group, known.recorded_generation, (**classic).clone());
                }
            }
            Note::Seen { group, member, until } => {
                let Some(known) = self.groups.get_mut(group) else { return };
                let Some(seen) = known.classic.members.get_mut(member) else { return };
                match seen.waiting {
                    Waiting::No | Waiting::Sync { .. } | Waiting::Join { newcomer: false, .. } => {
                        seen.session_deadline = Some(*until);
                    }
                    // It has more time than a session.
                    Waiting::Join { newcomer: true, .. } => {}
                }
                // A later deadline leaves the wake-up where it is: too early costs a look, moving it each time costs more.
                let (before, after) = (known.wakeup, known.wakeup.map_or(*until, |wakeup| wakeup.min(*until)));
                known.wakeup = Some(after);
                self.move_wakeup(group, before, Some(after));
            }
            Note::Search(search) => self.search = search.clone(),
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
