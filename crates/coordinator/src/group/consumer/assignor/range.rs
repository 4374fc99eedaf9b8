//! `range`: per topic, the members in order get one range each; the first ones get one partition more where it does not come out even.
//!
//! Static members come first, by their own names, so that a restart moves nothing; then the others by their ids.

use std::collections::BTreeMap;

use atonce_kernel::{MemberId, TopicId};

use super::super::Partitions;
use super::super::topics::TopicsImage;
use super::{Group, Reader};

pub(super) fn assign(group: &Group, topics: &TopicsImage) -> BTreeMap<MemberId, Partitions> {
    let mut assigned: BTreeMap<MemberId, Partitions> =
        group.members.keys().map(|id| (id.clone(), Partitions::new())).collect();
    for topic in group.topics() {
        assign_topic(topic, topics.partitions_of(topic), &readers_in_order(group, topic), &mut assigned);
    }
    assigned
}

fn assign_topic(topic: TopicId, partitions: i32, readers: &[&MemberId], assigned: &mut BTreeMap<MemberId, Partitions>) {
    let count = i32::try_from(readers.len()).unwrap_or(i32::MAX).max(1);
    let (quota, mut with_one_more) = (partitions / count, partitions % count);
    let mut start = 0;
    for id in readers {
        let length = if with_one_more > 0 { quota + 1 } else { quota };
        with_one_more -= 1;
        if length > 0
            && let Some(member) = assigned.get_mut(*id)
        {
            member.insert(topic, (start..start + length).collect());
        }
        start += length;
    }
}

fn readers_in_order(group: &Group, topic: TopicId) -> Vec<&MemberId> {
    let reads = |member: &Reader| member.topics.contains(&topic);
    let mut readers: Vec<_> = group.members.iter().filter(|(_, member)| reads(member)).collect();
    readers.sort_by_key(|(id, member)| (member.instance.is_none(), member.instance.as_ref(), *id));
    readers.into_iter().map(|(id, _)| id).collect()
}
