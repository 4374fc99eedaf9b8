//! `uniform`: every member the same number of partitions, one more or less, and nothing moves that need not.
//!
//! Where all read the same, a quota says who must give up what. Where they do not, partitions without an owner go to the member
//! with the fewest, topic by topic, and then each topic is balanced between its readers until nothing moves any more.

use std::collections::{BTreeMap, BTreeSet};

use atonce_kernel::{MemberId, TopicId};

use super::super::Partitions;
use super::super::topics::TopicsImage;
use super::Group;
use super::balancer::Balance;

pub(super) fn assign(group: &Group, topics: &TopicsImage) -> BTreeMap<MemberId, Partitions> {
    if group.is_homogeneous() { assign_equally(group, topics) } else { Balance::of(group, topics).assign() }
}

fn assign_equally(group: &Group, topics: &TopicsImage) -> BTreeMap<MemberId, Partitions> {
    let read = group.topics();
    let all: Vec<(TopicId, i32)> =
        read.iter().flat_map(|topic| (0..topics.partitions_of(*topic)).map(|partition| (*topic, partition))).collect();
    let members = group.members.len().max(1);
    let (quota, mut with_one_more) = (all.len() / members, all.len() % members);
    let mut assigned: BTreeMap<MemberId, Partitions> = BTreeMap::new();
    let mut owned: BTreeSet<(TopicId, i32)> = BTreeSet::new();
    let mut wanting: Vec<(MemberId, usize)> = Vec::new();
    for (index, (id, member)) in group.members.iter().enumerate() {
        // One who has more than the quota may keep one more, as long as some are left to be had.
        let most = quota + usize::from(with_one_more > 0);
        let kept: Vec<(TopicId, i32)> = partitions_of(&member.target)
            .filter(|(topic, partition)| read.contains(topic) && (0..topics.partitions_of(*topic)).contains(partition))
            .filter(|partition| !owned.contains(partition))
            .take(most)
            .collect();
        // The last ones must take what is over; those before them only if they have it already.
        let must = group.members.len() - index <= with_one_more;
        let share = if kept.len() > quota || (with_one_more > 0 && must) { quota + 1 } else { quota };
        with_one_more -= share - quota;
        if share > kept.len() {
            wanting.push((id.clone(), share - kept.len()));
        }
        owned.extend(kept.iter().copied());
        assigned.insert(id.clone(), collect(kept));
    }
    let mut free = all.into_iter().filter(|partition| !owned.contains(partition));
    for (id, count) in wanting {
        let taken = free.by_ref().take(count);
        if let Some(member) = assigned.get_mut(&id) {
            for (topic, partition) in taken {
                member.entry(topic).or_default().insert(partition);
            }
        }
    }
    assigned
}

pub(super) fn partitions_of(partitions: &Partitions) -> impl Iterator<Item = (TopicId, i32)> {
    partitions.iter().flat_map(|(topic, partitions)| partitions.iter().map(|partition| (*topic, *partition)))
}

pub(super) fn collect(partitions: impl IntoIterator<Item = (TopicId, i32)>) -> Partitions {
    let mut collected = Partitions::new();
    for (topic, partition) in partitions {
        collected.entry(topic).or_default().insert(partition);
    }
    collected
}
