//! Moves one member towards the target: first it gives up what it shall not have, then it gets what nobody else has any more.
//!
//! ```text
//!                    has to give up            it said that it has nothing of it
//!   Stable ───────────────────────► UnrevokedPartitions ───────────────────────┐
//!     ▲  ▲                                                                     ▼
//!     │  └──────────────────────── nothing is missing ◄───────────────── compute next
//!     │                                                                        │ others have some of it
//!     └──────────────── all is free, and its ◄──────── UnreleasedPartitions ◄──┘
//! ```
//!
//! Source: KIP-848, "Reconciliation".

use std::collections::{BTreeMap, BTreeSet};

use atonce_kernel::{MemberId, TopicId};

use super::draft::Draft;
use super::record::{Current, Fact};
use super::{AssignedPartitions, Consumer, Member, MemberState, Partitions};

impl Draft<'_> {
    /// Moves the member on, as far as it can go, and records where it is.
    pub(super) fn reconcile(&mut self, id: &MemberId, has_changed: bool, owned: Option<&Partitions>) {
        let Some(member) = self.group.members.get(id) else { return };
        if !has_changed && member.is_reconciled_to(self.group.target_epoch) {
            return;
        }
        let empty = Partitions::new();
        let step = Step {
            group: &self.group,
            id,
            member,
            target: self.group.targets.get(id).unwrap_or(&empty),
            subscribed: self.topics.ids_of(self.group.topics_of(&member.subscription)),
            owned,
        };
        let next = step.next(has_changed);
        if next != member.current {
            self.push(Fact::Current(id.clone(), Some(next)));
        }
    }
}

struct Step<'a> {
    group: &'a Consumer,
    id: &'a MemberId,
    member: &'a Member,
    target: &'a Partitions,
    /// Topics that it reads now. What it reads no longer it must give up, whatever the target says, which may be older.
    subscribed: BTreeSet<TopicId>,
    /// What it says it has.
    owned: Option<&'a Partitions>,
}

impl Step<'_> {
    fn next(&self, has_changed: bool) -> Current {
        let current = &self.member.current;
        match current.state {
            MemberState::Stable if current.epoch != self.group.target_epoch => self.compute(),
            MemberState::UnrevokedPartitions if !self.owns_some_of(&current.revoking) => self.compute(),
            MemberState::UnreleasedPartitions | MemberState::Unknown => self.compute(),
            MemberState::Stable | MemberState::UnrevokedPartitions if has_changed => {
                self.give_up_what_it_reads_no_longer()
            }
            MemberState::Stable | MemberState::UnrevokedPartitions => current.clone(),
        }
    }

    /// One who does not say what it has is taken to have it all still.
    fn owns_some_of(&self, partitions: &AssignedPartitions) -> bool {
        let Some(owned) = self.owned else { return true };
        let owns = |(topic, given): (&TopicId, &BTreeMap<i32, i32>)| {
            owned.get(topic).is_some_and(|owned| owned.iter().any(|partition| given.contains_key(partition)))
        };
        partitions.iter().any(owns)
    }

    fn at(
        &self,
        epoch: i32,
        state: MemberState,
        assigned: AssignedPartitions,
        revoking: AssignedPartitions,
    ) -> Current {
        Current { epoch, previous_epoch: self.member.current.epoch, state, assigned, revoking }
    }

    /// Its wishes changed before the target did: it keeps its epoch.
    fn give_up_what_it_reads_no_longer(&self) -> Current {
        let current = &self.member.current;
        let is_read = |topic: &TopicId| self.subscribed.contains(topic);
        if current.assigned.keys().all(is_read) {
            return current.clone();
        }
        let (assigned, gone): (AssignedPartitions, AssignedPartitions) =
            current.assigned.iter().map(|(topic, all)| (*topic, all.clone())).partition(|(topic, _)| is_read(topic));
        let mut revoking = current.revoking.clone();
        for (topic, partitions) in gone {
            revoking.entry(topic).or_default().extend(partitions);
        }
        if self.owns_some_of(&revoking) {
            return self.at(current.epoch, MemberState::UnrevokedPartitions, assigned, revoking);
        }
        self.at(current.epoch, current.state, assigned, current.revoking.clone())
    }

    fn compute(&self) -> Current {
        let current = &self.member.current;
        let epoch = self.group.target_epoch;
        let is_wanted = |topic: &TopicId, partition: &i32| {
            self.subscribed.contains(topic) && self.target.get(topic).is_some_and(|target| target.contains(partition))
        };
        let (mut assigned, mut revoking) = (AssignedPartitions::new(), AssignedPartitions::new());
        for (topic, partitions) in &current.assigned {
            for (partition, since) in partitions {
                let side = if is_wanted(topic, partition) { &mut assigned } else { &mut revoking };
                side.entry(*topic).or_default().insert(*partition, *since);
            }
        }
        if !revoking.is_empty() && self.owns_some_of(&revoking) {
            return self.at(current.epoch, MemberState::UnrevokedPartitions, assigned, revoking);
        }
        let in_use = self.group.partitions_in_use(self.id);
        let mut state = MemberState::Stable;
        for (topic, partitions) in self.target.iter().filter(|(topic, _)| self.subscribed.contains(topic)) {
            for partition in partitions {
                let has_it = assigned.get(topic).is_some_and(|all| all.contains_key(partition));
                if has_it {
                    continue;
                }
                if in_use.contains(&(*topic, *partition)) {
                    state = MemberState::UnreleasedPartitions;
                } else {
                    assigned.entry(*topic).or_default().insert(*partition, epoch);
                }
            }
        }
        self.at(epoch, state, assigned, AssignedPartitions::new())
    }
}
