//! The offsets of all groups of a shard: committed ones, and those that open transactions hold.
//!
//! **What it does not know**: groups' members, who may commit. Offsets outlive their group's record: a group that changes to another
//! kind is removed and made again, its offsets stay.
//!
//! Invariant: `open` lists exactly what `pending` has, the other way round.

use std::collections::{BTreeMap, BTreeSet};

use atonce_kernel::{GroupId, Offset, Outcome, ProducerId, TopicPartition};

use super::record::CommittedOffset;

/// An offset, with the place of its record: of two commits the later record wins, whenever its transaction ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Stored {
    pub(super) value: CommittedOffset,
    pub(super) record_offset: Offset,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Offsets {
    committed: BTreeMap<GroupId, BTreeMap<TopicPartition, Stored>>,
    pending: BTreeMap<ProducerId, BTreeMap<(GroupId, TopicPartition), Stored>>,
    open: BTreeMap<GroupId, BTreeMap<TopicPartition, BTreeSet<ProducerId>>>,
}

impl Offsets {
    /// What is committed.
    pub(super) fn get(&self, group: &GroupId, partition: &TopicPartition) -> Option<&Stored> {
        self.committed.get(group)?.get(partition)
    }

    /// All that a group has committed.
    pub(super) fn of_group(&self, group: &GroupId) -> impl Iterator<Item = (&TopicPartition, &Stored)> {
        self.committed.get(group).into_iter().flatten()
    }

    /// Partitions for which some open transaction holds an offset of this group.
    pub(super) fn pending_of_group(&self, group: &GroupId) -> impl Iterator<Item = &TopicPartition> {
        self.open.get(group).into_iter().flat_map(BTreeMap::keys)
    }

    /// Whether a transaction is open that would move this offset.
    pub(super) fn is_pending(&self, group: &GroupId, partition: &TopicPartition) -> bool {
        self.open.get(group).is_some_and(|partitions| partitions.contains_key(partition))
    }

    /// Whether a transaction is open that holds offsets of this group.
    pub(super) fn has_open_transaction(&self, group: &GroupId) -> bool {
        self.open.contains_key(group)
    }

    /// Whether there is anything.
    pub(super) fn is_empty(&self) -> bool {
        self.committed.is_empty() && self.pending.is_empty()
    }

    /// What an open transaction holds.
    pub(super) fn pending_of(
        &self,
        producer: ProducerId,
    ) -> impl Iterator<Item = (&(GroupId, TopicPartition), &Stored)> {
        self.pending.get(&producer).into_iter().flatten()
    }

    /// Groups and partitions with an offset, committed or pending, in one of `partitions`. Sorted, each once.
    pub(super) fn within(&self, partitions: &BTreeSet<&TopicPartition>) -> BTreeSet<(GroupId, TopicPartition)> {
        let committed = self.committed.iter().flat_map(|(group, offsets)| offsets.keys().map(move |at| (group, at)));
        let open = self.open.iter().flat_map(|(group, offsets)| offsets.keys().map(move |at| (group, at)));
        committed
            .chain(open)
            .filter(|(_, at)| partitions.contains(at))
            .map(|(group, at)| (group.clone(), at.clone()))
            .collect()
    }

    /// An offset is committed.
    pub(super) fn commit(&mut self, group: &GroupId, partition: &TopicPartition, stored: Stored) {
        self.committed.entry(group.clone()).or_default().insert(partition.clone(), stored);
    }

    /// An offset is part of a transaction; the last one that it names for a partition counts.
    pub(super) fn hold(&mut self, producer: ProducerId, group: &GroupId, partition: &TopicPartition, stored: Stored) {
        self.pending.entry(producer).or_default().insert((group.clone(), partition.clone()), stored);
        self.open.entry(group.clone()).or_default().entry(partition.clone()).or_default().insert(producer);
    }

    /// An offset is forgotten, and so is what open transactions hold for the partition: their commit must not bring it back.
    pub(super) fn forget(&mut self, group: &GroupId, partition: &TopicPartition) {
        if let Some(offsets) = self.committed.get_mut(group) {
            offsets.remove(partition);
            if offsets.is_empty() {
                self.committed.remove(group);
            }
        }
        let producers = self.open.get(group).and_then(|partitions| partitions.get(partition)).cloned();
        for producer in producers.into_iter().flatten() {
            let key = (group.clone(), partition.clone());
            if let Some(held) = self.pending.get_mut(&producer) {
                held.remove(&key);
                if held.is_empty() {
                    self.pending.remove(&producer);
                }
            }
            self.close(producer, &key);
        }
    }

    /// A transaction has ended. Committed, its offsets count, but for those that a later record has overtaken: it
    /// was written knowing more, and after compaction it may be all that a reader of the log sees.
    pub(super) fn end(&mut self, producer: ProducerId, outcome: Outcome) {
        for (key, stored) in self.pending.remove(&producer).unwrap_or_default() {
            self.close(producer, &key);
            let (group, partition) = &key;
            match outcome {
                Outcome::Abort => {}
                Outcome::Commit => {
                    let overtaken =
                        self.get(group, partition).is_some_and(|known| known.record_offset > stored.record_offset);
                    if !overtaken {
                        self.commit(group, partition, stored);
                    }
                }
            }
        }
    }

    fn close(&mut self, producer: ProducerId, (group, partition): &(GroupId, TopicPartition)) {
        let Some(partitions) = self.open.get_mut(group) else { return };
        if let Some(producers) = partitions.get_mut(partition) {
            producers.remove(&producer);
            if producers.is_empty() {
                partitions.remove(partition);
            }
        }
        if partitions.is_empty() {
            self.open.remove(group);
        }
    }
}
