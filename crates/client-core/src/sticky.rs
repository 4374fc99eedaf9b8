//! Dividing partitions so that as few as possible move: the choice behind `sticky` and `cooperative-sticky`.
//!
//! **What it does not know**: groups, generations beyond comparing them, how an assignment is written.
//!
//! Three steps, each a function: whose claims hold ([`Division::from_claims`]), who gets what nobody holds
//! ([`Division::hand_out`]), and what must move all the same so that the division is even ([`Division::balance`]).
//!
//! Invariants: each partition that somebody wants has one owner who wants its topic; no chain of moves would make the
//! loads more even; the same input gives the same division, on whichever member it is computed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use atonce_kernel::{TopicName, TopicPartition};

/// What a member wants, and what it says that it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The topics it wants.
    pub topics: BTreeSet<TopicName>,
    /// What it had.
    pub owned: Vec<TopicPartition>,
    /// The generation it had it in: of two who claim a partition, the later one is right.
    pub generation_id: i32,
}

/// Divides all partitions of `topics` among members, in the order of `claims`.
///
/// ```
/// use std::collections::{BTreeMap, BTreeSet};
/// use atonce_client_core::sticky::{Claim, assign};
/// use atonce_kernel::TopicPartition;
///
/// let topics = BTreeMap::from([("t".into(), 3)]);
/// let had = |owned: &[i32]| Claim {
///     topics: BTreeSet::from(["t".into()]),
///     owned: owned.iter().map(|partition| TopicPartition::new("t", *partition)).collect(),
///     generation_id: 1,
/// };
/// let assigned = assign(&topics, &[had(&[0, 1, 2]), had(&[])]);
/// assert_eq!(format!("{assigned:?}"), "[[t-0, t-1], [t-2]]");
/// ```
#[must_use]
pub fn assign(topics: &BTreeMap<TopicName, i32>, claims: &[Claim]) -> Vec<Vec<TopicPartition>> {
    let mut division = Division::from_claims(topics, claims);
    division.hand_out();
    division.balance();
    division.owned.into_iter().map(|owned| owned.into_iter().collect()).collect()
}

/// Takes out of a division what has an owner now who is not the one that shall get it: he must give it away first, and
/// the group divides once more when he has. `owned` is what each member says that it holds.
pub fn hold_back_transfers(assigned: &mut [Vec<TopicPartition>], owned: &[&[TopicPartition]]) {
    let mut holders: BTreeMap<&TopicPartition, usize> = BTreeMap::new();
    for (place, partitions) in owned.iter().enumerate() {
        for topic_partition in *partitions {
            // He loses it in this division; who keeps it is no hindrance to himself.
            if assigned.get(place).is_some_and(|assigned| !assigned.contains(topic_partition)) {
                holders.insert(topic_partition, place);
            }
        }
    }
    for (place, partitions) in assigned.iter_mut().enumerate() {
        let had = owned.get(place).copied().unwrap_or_default();
        partitions.retain(|it| had.contains(it) || !holders.contains_key(it));
    }
}

struct Division<'a> {
    topics: &'a BTreeMap<TopicName, i32>,
    claims: &'a [Claim],
    owned: Vec<BTreeSet<TopicPartition>>,
    /// What each member had and kept so far: it moves last.
    kept: Vec<BTreeSet<TopicPartition>>,
}

impl<'a> Division<'a> {
    /// Each partition stays with whoever claims it from the latest generation, if he still wants it and is alone with that.
    fn from_claims(topics: &'a BTreeMap<TopicName, i32>, claims: &'a [Claim]) -> Self {
        let mut holders: BTreeMap<&TopicPartition, (i32, Option<usize>)> = BTreeMap::new();
        for (place, claim) in claims.iter().enumerate() {
            for topic_partition in &claim.owned {
                let count = topics.get(&topic_partition.topic).copied().unwrap_or(0);
                if !(0..count).contains(&topic_partition.partition) || !claim.topics.contains(&topic_partition.topic) {
                    continue;
                }
                let entry = holders.entry(topic_partition).or_insert((claim.generation_id, Some(place)));
                if entry.0 < claim.generation_id {
                    *entry = (claim.generation_id, Some(place));
                } else if entry.0 == claim.generation_id && entry.1 != Some(place) {
                    // Two of one generation: both are wrong, or one lies. Nobody keeps it.
                    entry.1 = None;
                }
            }
        }
        let mut owned = vec![BTreeSet::new(); claims.len()];
        for (topic_partition, (_, place)) in holders {
            if let Some(owned) = place.and_then(|place| owned.get_mut(place)) {
                owned.insert(topic_partition.clone());
            }
        }
        Self { topics, claims, kept: owned.clone(), owned }
    }

    fn load(&self, place: usize) -> usize {
        self.owned.get(place).map_or(0, BTreeSet::len)
    }

    fn wants(&self, place: usize, topic: &TopicName) -> bool {
        self.claims.get(place).is_some_and(|claim| claim.topics.contains(topic))
    }

    /// What nobody holds goes to the least loaded who wants it; what few want goes first.
    fn hand_out(&mut self) {
        let held: BTreeSet<TopicPartition> = self.owned.iter().flatten().cloned().collect();
        let mut by_takers: BTreeMap<usize, Vec<&TopicName>> = BTreeMap::new();
        for topic in self.topics.keys() {
            let takers = (0..self.claims.len()).filter(|place| self.wants(*place, topic)).count();
            by_takers.entry(takers).or_default().push(topic);
        }
        for topic in by_takers.into_values().flatten() {
            for partition in 0..self.topics.get(topic).copied().unwrap_or(0) {
                let topic_partition = TopicPartition::new(topic.clone(), partition);
                if held.contains(&topic_partition) {
                    continue;
                }
                let takers = (0..self.claims.len()).filter(|place| self.wants(*place, topic));
                let Some(taker) = takers.min_by_key(|place| (self.load(*place), *place)) else { break };
                if let Some(owned) = self.owned.get_mut(taker) {
                    owned.insert(topic_partition);
                }
            }
        }
    }

    /// Moves partitions, along chains if need be, until nobody could be relieved by two or more.
    fn balance(&mut self) {
        loop {
            let mut places: Vec<usize> = (0..self.claims.len()).collect();
            places.sort_by_key(|place| (std::cmp::Reverse(self.load(*place)), *place));
            let Some(chain) = places.into_iter().find_map(|place| self.chain_from(place)) else { return };
            for step in chain.windows(2) {
                if let [from, to] = *step {
                    self.shift(from, to);
                }
            }
        }
    }

    /// The shortest chain of members from `start` to one who has two or more less, each of whom can take something from
    /// the one before.
    fn chain_from(&self, start: usize) -> Option<Vec<usize>> {
        if (0..self.claims.len()).all(|place| self.load(place) + 2 > self.load(start)) {
            return None;
        }
        let mut before: BTreeMap<usize, usize> = BTreeMap::new();
        let mut next = VecDeque::from([start]);
        let mut by_load: Vec<usize> = (0..self.claims.len()).collect();
        by_load.sort_by_key(|place| (self.load(*place), *place));
        while let Some(from) = next.pop_front() {
            for to in &by_load {
                if *to == start || before.contains_key(to) || self.movable(from, *to).is_none() {
                    continue;
                }
                before.insert(*to, from);
                if self.load(*to) + 2 <= self.load(start) {
                    let mut chain = vec![*to];
                    while let Some(place) = chain.last().and_then(|place| before.get(place)) {
                        chain.push(*place);
                    }
                    chain.reverse();
                    return Some(chain);
                }
                next.push_back(*to);
            }
        }
        None
    }

    /// What could move from one to the other: rather what was not kept, and the last of it.
    fn movable(&self, from: usize, to: usize) -> Option<TopicPartition> {
        let (owned, kept) = (self.owned.get(from)?, self.kept.get(from)?);
        let can_move = |it: &&TopicPartition| self.wants(to, &it.topic);
        // What the other had comes home.
        let home = self.kept.get(to).and_then(|home| owned.iter().rev().find(|it| home.contains(*it)));
        home.or_else(|| owned.difference(kept).filter(can_move).last())
            .or_else(|| owned.iter().rev().find(can_move))
            .cloned()
    }

    fn shift(&mut self, from: usize, to: usize) {
        let Some(topic_partition) = self.movable(from, to) else { return };
        if let Some(owned) = self.owned.get_mut(from) {
            owned.remove(&topic_partition);
        }
        if let Some(owned) = self.owned.get_mut(to) {
            owned.insert(topic_partition);
        }
    }
}

#[cfg(test)]
mod tests {
    use atonce_kernel::chance::Chance;

    use super::*;

    fn claim(topics: &[&str], owned: &[(&str, i32)], generation_id: i32) -> Claim {
        Claim {
            topics: topics.iter().map(|topic| TopicName::from(*topic)).collect(),
            owned: owned.iter().map(|(topic, partition)| TopicPartition::new(*topic, *partition)).collect(),
            generation_id,
        }
    }

    fn check(topics: &[(&str, i32)], claims: &[Claim], expected: &str) {
        let topics = topics.iter().map(|(name, count)| (TopicName::from(*name), *count)).collect();
        assert_eq!(format!("{:?}", assign(&topics, claims)), expected);
    }

    #[test]
    fn a_new_member_gets_no_more_than_its_share_and_nothing_else_moves() {
        let had = claim(&["t"], &[("t", 0), ("t", 1), ("t", 2), ("t", 3)], 4);
        check(&[("t", 4)], &[had, claim(&["t"], &[], -1)], "[[t-0, t-1], [t-2, t-3]]");
    }

    #[test]
    fn what_a_member_leaves_behind_is_shared_and_the_rest_stays() {
        let one = claim(&["t"], &[("t", 1)], 3);
        let two = claim(&["t"], &[("t", 3)], 3);
        check(&[("t", 6)], &[one, two], "[[t-0, t-1, t-4], [t-2, t-3, t-5]]");
    }

    #[test]
    fn the_later_generations_claim_holds() {
        let zombie = claim(&["t"], &[("t", 0), ("t", 1)], 3);
        let owner = claim(&["t"], &[("t", 0)], 5);
        check(&[("t", 2)], &[zombie, owner], "[[t-1], [t-0]]");
    }

    #[test]
    fn two_claims_of_one_generation_are_none() {
        let claims = [claim(&["t"], &[("t", 0)], 3), claim(&["t"], &[("t", 0)], 3)];
        check(&[("t", 1)], &claims, "[[t-0], []]");
    }

    #[test]
    fn a_claim_to_what_is_gone_or_not_wanted_any_more_is_dropped() {
        let claims = [claim(&["t"], &[("t", 7), ("u", 0)], 3)];
        check(&[("t", 1), ("u", 1)], &claims, "[[t-0]]");
    }

    #[test]
    fn a_chain_of_moves_relieves_who_cannot_be_relieved_directly() {
        // The first can give only to the second, the second only to the third.
        let first = claim(&["a"], &[("a", 0), ("a", 1), ("a", 2)], 1);
        let second = claim(&["a", "b"], &[("b", 0), ("b", 1)], 1);
        let third = claim(&["b"], &[("b", 2)], 1);
        check(&[("a", 3), ("b", 3)], &[first, second, third], "[[a-0, a-1], [a-2, b-0], [b-1, b-2]]");
    }

    #[test]
    fn what_moves_is_held_back_until_its_owner_has_given_it_away() {
        let t = |partition| TopicPartition::new("t", partition);
        let mut assigned = vec![vec![t(0), t(1)], vec![t(2), t(3)]];
        let owned: [&[TopicPartition]; 2] = [&[t(0), t(1), t(2)], &[]];
        hold_back_transfers(&mut assigned, &owned);
        assert_eq!(format!("{assigned:?}"), "[[t-0, t-1], [t-3]]");
        // Then nobody holds it, and it goes out.
        let mut assigned = vec![vec![t(0), t(1)], vec![t(2), t(3)]];
        let owned: [&[TopicPartition]; 2] = [&[t(0), t(1)], &[t(3)]];
        hold_back_transfers(&mut assigned, &owned);
        assert_eq!(format!("{assigned:?}"), "[[t-0, t-1], [t-2, t-3]]");
    }

    /// Random groups that change: complete, even where all want the same, and nothing moves that need not.
    #[test]
    fn any_group_is_divided_completely_evenly_and_with_few_moves() {
        for seed in 0..300 {
            let mut chance = Chance::from_seed(seed);
            let topics: BTreeMap<TopicName, i32> = (0..1 + chance.below(3))
                .map(|it| (TopicName::from(format!("t{it}")), 1 + chance.below(6) as i32))
                .collect();
            let wanted: BTreeSet<TopicName> = topics.keys().cloned().collect();
            let members = 1 + chance.below(5) as usize;
            let fresh = Claim { topics: wanted, owned: Vec::new(), generation_id: -1 };
            let mut claims = vec![fresh.clone(); members];
            for generation_id in 0..6 {
                let assigned = assign(&topics, &claims);
                let total: usize = assigned.iter().map(Vec::len).sum();
                let distinct: BTreeSet<&TopicPartition> = assigned.iter().flatten().collect();
                let expected: i32 = topics.values().sum();
                assert_eq!((total, distinct.len()), (expected as usize, expected as usize), "seed {seed}");
                let (least, most) = (assigned.iter().map(Vec::len).min(), assigned.iter().map(Vec::len).max());
                assert!(most.unwrap() - least.unwrap() <= 1, "seed {seed}: {assigned:?}");
                // Whoever is at or below the lower share keeps all that he had.
                let share = total / claims.len();
                for (claim, assigned) in claims.iter().zip(&assigned) {
                    if claim.owned.len() <= share {
                        assert!(
                            claim.owned.iter().all(|it| assigned.contains(it)),
                            "seed {seed}: {claim:?} {assigned:?}"
                        );
                    }
                }
                claims = assigned.into_iter().map(|owned| Claim { owned, generation_id, ..fresh.clone() }).collect();
                if chance.one_in(1, 2) || claims.len() == 1 {
                    claims.push(fresh.clone());
                } else {
                    let gone = chance.below(claims.len() as u64) as usize;
                    claims.remove(gone);
                }
            }
        }
    }
}
