//! Who in a group reads what: the choice a classic group's leader makes.

use std::collections::{BTreeMap, BTreeSet};

use atonce_kernel::{GroupInstanceId, MemberId, TopicName, TopicPartition};
use bytes::Bytes;

/// Topics and how many partitions each has, as the leader's metadata knows them. A topic that does not exist is absent.
pub type ClusterTopics = BTreeMap<TopicName, i32>;

/// What a member said when it joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberSubscription {
    /// Its id.
    pub member_id: MemberId,
    /// Its own name, if it is a static member.
    pub instance_id: Option<GroupInstanceId>,
    /// The topics it wants, sorted.
    pub topics: Vec<TopicName>,
    /// What its assignor had to say.
    pub userdata: Bytes,
    /// What it owned when it joined, as far as it says.
    pub owned: Vec<TopicPartition>,
}

/// What a member gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberAssignment {
    /// The member.
    pub member_id: MemberId,
    /// Its partitions.
    pub partitions: Vec<TopicPartition>,
    /// What the leader's assignor has to say to the member's.
    pub userdata: Bytes,
}

/// Divides partitions among members. Called on the leader only, with every member's subscription.
pub trait Assignor: Send + Sync + 'static {
    /// The protocol's name; all members of a group must share one.
    fn name(&self) -> &str;

    /// What this member tells the leader with each joining.
    fn subscription_userdata(&self) -> Bytes {
        Bytes::new()
    }

    /// Divides. Members that are left out get nothing.
    fn assign(&self, topics: &ClusterTopics, members: &[MemberSubscription]) -> Vec<MemberAssignment>;
}

/// Kafka's `range`: of each topic, a run of partitions to each member, sorted by instance id, then member id.
#[derive(Clone, Copy, Debug, Default)]
pub struct RangeAssignor;

impl Assignor for RangeAssignor {
    fn name(&self) -> &'static str {
        "range"
    }

    fn assign(&self, topics: &ClusterTopics, members: &[MemberSubscription]) -> Vec<MemberAssignment> {
        let members = in_order(members);
        let mut assigned: Vec<Vec<TopicPartition>> = members.iter().map(|_| Vec::new()).collect();
        for (topic, count) in topics {
            let takers: Vec<usize> = takers(&members, topic);
            let Some(share) = usize::try_from(*count).unwrap_or(0).checked_div(takers.len()) else { continue };
            let extra = usize::try_from(*count).unwrap_or(0) % takers.len();
            let mut next = 0;
            for (place, taker) in takers.into_iter().enumerate() {
                for _ in 0..share + usize::from(place < extra) {
                    assigned[taker].push(TopicPartition::new(topic.clone(), next));
                    next += 1;
                }
            }
        }
        together(&members, assigned)
    }
}

/// Kafka's `roundrobin`: all partitions in order, one to each member in turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundRobinAssignor;

impl Assignor for RoundRobinAssignor {
    fn name(&self) -> &'static str {
        "roundrobin"
    }

    fn assign(&self, topics: &ClusterTopics, members: &[MemberSubscription]) -> Vec<MemberAssignment> {
        let members = in_order(members);
        let mut assigned: Vec<Vec<TopicPartition>> = members.iter().map(|_| Vec::new()).collect();
        let mut turn = 0;
        for (topic, count) in topics {
            let takers: BTreeSet<usize> = takers(&members, topic).into_iter().collect();
            if takers.is_empty() {
                continue;
            }
            for partition in 0..*count {
                while !takers.contains(&(turn % members.len())) {
                    turn += 1;
                }
                assigned[turn % members.len()].push(TopicPartition::new(topic.clone(), partition));
                turn += 1;
            }
        }
        together(&members, assigned)
    }
}

/// Static members by their instance id, before the others by member id: a restart then moves nothing.
fn in_order(members: &[MemberSubscription]) -> Vec<&MemberSubscription> {
    let mut members: Vec<&MemberSubscription> = members.iter().collect();
    members.sort_by(|a, b| match (&a.instance_id, &b.instance_id) {
        (Some(a), Some(b)) => a.cmp(b),
        (Some(_), None) => std::cmp::Ordering::Less,
        (None, Some(_)) => std::cmp::Ordering::Greater,
        (None, None) => a.member_id.cmp(&b.member_id),
    });
    members
}

fn takers(members: &[&MemberSubscription], topic: &TopicName) -> Vec<usize> {
    members.iter().enumerate().filter(|(_, member)| member.topics.contains(topic)).map(|(place, _)| place).collect()
}

fn together(members: &[&MemberSubscription], assigned: Vec<Vec<TopicPartition>>) -> Vec<MemberAssignment> {
    members
        .iter()
        .zip(assigned)
        .map(|(member, partitions)| MemberAssignment {
            member_id: member.member_id.clone(),
            partitions,
            userdata: Bytes::new(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: &str, topics: &[&str]) -> MemberSubscription {
        MemberSubscription {
            member_id: id.into(),
            instance_id: None,
            topics: topics.iter().map(|topic| TopicName::from(*topic)).collect(),
            userdata: Bytes::new(),
            owned: Vec::new(),
        }
    }

    fn check(assignor: &dyn Assignor, topics: &[(&str, i32)], members: &[MemberSubscription], expected: &str) {
        let topics = topics.iter().map(|(name, count)| (TopicName::from(*name), *count)).collect();
        let text: Vec<String> = assignor
            .assign(&topics, members)
            .iter()
            .map(|member| format!("{}: {:?}", member.member_id, member.partitions))
            .collect();
        assert_eq!(text.join("; "), expected);
    }

    #[test]
    fn range_gives_the_first_members_the_remainder_of_each_topic() {
        let members = [member("b", &["t", "u"]), member("a", &["t", "u"])];
        check(&RangeAssignor, &[("t", 3), ("u", 3)], &members, "a: [t-0, t-1, u-0, u-1]; b: [t-2, u-2]");
    }

    #[test]
    fn range_passes_over_those_who_do_not_want_a_topic() {
        let members = [member("a", &["t"]), member("b", &["u"])];
        check(&RangeAssignor, &[("t", 2), ("u", 1)], &members, "a: [t-0, t-1]; b: [u-0]");
    }

    #[test]
    fn round_robin_goes_on_from_topic_to_topic() {
        let members = [member("a", &["t", "u"]), member("b", &["t", "u"])];
        check(&RoundRobinAssignor, &[("t", 3), ("u", 3)], &members, "a: [t-0, t-2, u-1]; b: [t-1, u-0, u-2]");
    }

    #[test]
    fn round_robin_skips_a_topic_nobody_wants() {
        check(&RoundRobinAssignor, &[("t", 1), ("u", 1)], &[member("a", &["u"])], "a: [u-0]");
    }
}
