//! The half of `uniform` for members that do not read the same topics.
//!
//! Topics with many partitions for each reader come first: they leave least choice. A partition without an owner goes to the reader
//! with the fewest partitions of all topics. Then, topic by topic, partitions go from the reader with the most to the one with the
//! fewest while they differ by more than one, round after round, until a round moves nothing.

use std::collections::BTreeMap;

use atonce_kernel::{MemberId, TopicId};

use super::super::Partitions;
use super::super::topics::TopicsImage;
use super::Group;
use super::uniform::{collect, partitions_of};

/// Rounds over all topics at most (Kafka's number): a group that changes again will be balanced again.
const ROUNDS_MAX: usize = 16;

pub(super) struct Balance<'a> {
    group: &'a Group,
    /// Topics with their partitions and readers, in the order in which they are balanced.
    topics: Vec<Topic>,
    /// How many partitions a member has, by its place in the group.
    loads: Vec<usize>,
}

struct Topic {
    id: TopicId,
    /// Members that read it.
    readers: Vec<usize>,
    /// Each partition's owner.
    owners: Vec<Option<usize>>,
}

impl<'a> Balance<'a> {
    /// Everybody keeps what it has and still reads.
    pub(super) fn of(group: &'a Group, image: &TopicsImage) -> Self {
        let mut topics: Vec<Topic> = group
            .topics()
            .into_iter()
            .map(|id| Topic {
                id,
                readers: (0..)
                    .zip(group.members.values())
                    .filter(|(_, it)| it.topics.contains(&id))
                    .map(|(at, _)| at)
                    .collect(),
                owners: vec![None; usize::try_from(image.partitions_of(id)).unwrap_or(0)],
            })
            .collect();
        // a/b > c/d, without fractions: those with more partitions for each reader first, then those with fewer readers.
        topics.sort_by(|one, other| {
            let (left, right) = (one.owners.len() * other.readers.len(), other.owners.len() * one.readers.len());
            right.cmp(&left).then(one.readers.len().cmp(&other.readers.len())).then(one.id.cmp(&other.id))
        });
        let mut balance = Self { group, topics, loads: vec![0; group.members.len()] };
        balance.keep();
        balance
    }

    fn keep(&mut self) {
        let places: BTreeMap<TopicId, usize> = self.topics.iter().map(|topic| topic.id).zip(0..).collect();
        for (member, (_, reader)) in self.group.members.iter().enumerate() {
            for (topic, partition) in partitions_of(&reader.target).filter(|(topic, _)| reader.topics.contains(topic)) {
                let owners = places.get(&topic).and_then(|place| self.topics.get_mut(*place)).map(|it| &mut it.owners);
                let owner = owners.zip(usize::try_from(partition).ok()).and_then(|(owners, at)| owners.get_mut(at));
                if let (Some(owner @ None), Some(load)) = (owner, self.loads.get_mut(member)) {
                    *owner = Some(member);
                    *load += 1;
                }
            }
        }
    }

    pub(super) fn assign(mut self) -> BTreeMap<MemberId, Partitions> {
        for topic in &mut self.topics {
            give_out(topic, &mut self.loads);
        }
        for _ in 0..ROUNDS_MAX {
            let moved: usize = self.topics.iter_mut().map(|topic| level(topic, &mut self.loads)).sum();
            if moved == 0 {
                break;
            }
        }
        let mut owned: Vec<Vec<(TopicId, i32)>> = vec![Vec::new(); self.loads.len()];
        for topic in &self.topics {
            for (partition, owner) in (0..).zip(&topic.owners) {
                if let Some(owned) = owner.and_then(|owner| owned.get_mut(owner)) {
                    owned.push((topic.id, partition));
                }
            }
        }
        self.group.members.keys().cloned().zip(owned.into_iter().map(collect)).collect()
    }
}

fn load(loads: &[usize], member: usize) -> usize {
    loads.get(member).copied().unwrap_or(0)
}

/// Partitions without an owner go to the reader with the fewest.
fn give_out(topic: &mut Topic, loads: &mut [usize]) {
    let mut by_load: std::collections::BTreeSet<(usize, usize)> =
        topic.readers.iter().map(|member| (load(loads, *member), *member)).collect();
    for owner in topic.owners.iter_mut().filter(|owner| owner.is_none()) {
        let Some((fewest, member)) = by_load.pop_first() else { return };
        *owner = Some(member);
        by_load.insert((fewest + 1, member));
        if let Some(load) = loads.get_mut(member) {
            *load = fewest + 1;
        }
    }
}

/// Moves partitions of this topic from readers with many to readers with few. How many it moved.
fn level(topic: &mut Topic, loads: &mut [usize]) -> usize {
    let mut by_load: std::collections::BTreeSet<(usize, usize)> =
        topic.readers.iter().map(|member| (load(loads, *member), *member)).collect();
    let mut owned: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (partition, owner) in topic.owners.iter().enumerate() {
        if let Some(owner) = owner {
            owned.entry(*owner).or_default().push(partition);
        }
    }
    let mut moved = 0;
    // The one with the most may have none of this topic: it is out of the question then, and the next one is asked.
    let mut candidates = by_load.clone();
    while let (Some((most, from)), Some((fewest, to))) = (candidates.last().copied(), by_load.first().copied()) {
        if most <= fewest + 1 {
            break;
        }
        let Some(partition) = owned.get_mut(&from).and_then(Vec::pop) else {
            candidates.remove(&(most, from));
            continue;
        };
        if let Some(owner) = topic.owners.get_mut(partition) {
            *owner = Some(to);
        }
        for (member, before, after) in [(from, most, most - 1), (to, fewest, fewest + 1)] {
            by_load.remove(&(before, member));
            by_load.insert((after, member));
            if candidates.remove(&(before, member)) {
                candidates.insert((after, member));
            }
            if let Some(load) = loads.get_mut(member) {
                *load = after;
            }
        }
        moved += 1;
    }
    moved
}
