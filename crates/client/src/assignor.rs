//! Who in a group reads what: the choice a classic group's leader makes.

use std::collections::{BTreeMap, BTreeSet};

use atonce_client_core::sticky::{self, Claim};
use atonce_kernel::{GroupInstanceId, MemberId, TopicName, TopicPartition};
use bytes::{Buf, BufMut, Bytes, BytesMut};

pub use atonce_client_core::membership::{LastAssignment, RebalanceProtocol};

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
    /// The generation that it owned that in; -1 if it does not say.
    pub generation_id: i32,
    /// The rack it runs in, if it says.
    pub rack_id: Option<String>,
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
///
/// ```
/// use atonce_client::{Assignor, ClusterTopics, MemberAssignment, MemberSubscription, RangeAssignor, TopicPartition};
/// use bytes::Bytes;
///
/// /// The first member does all, the others wait.
/// struct OneDoesAll;
///
/// impl Assignor for OneDoesAll {
///     fn name(&self) -> &str {
///         "one-does-all"
///     }
///
///     fn assign(&self, topics: &ClusterTopics, members: &[MemberSubscription]) -> Vec<MemberAssignment> {
///         let Some(first) = members.iter().min_by_key(|member| &member.member_id) else { return Vec::new() };
///         let all = topics.iter().flat_map(|(topic, count)| (0..*count).map(|it| TopicPartition::new(topic.clone(), it)));
///         vec![MemberAssignment { member_id: first.member_id.clone(), partitions: all.collect(), userdata: Bytes::new() }]
///     }
/// }
///
/// let member = |id: &str| MemberSubscription {
///     member_id: id.into(),
///     instance_id: None,
///     topics: vec!["orders".into()],
///     userdata: Bytes::new(),
///     owned: Vec::new(),
///     generation_id: -1,
///     rack_id: None,
/// };
/// let (topics, members) = (ClusterTopics::from([("orders".into(), 4)]), [member("b"), member("a")]);
/// let shares = |assignor: &dyn Assignor| {
///     assignor.assign(&topics, &members).iter().map(|it| it.partitions.len()).collect::<Vec<_>>()
/// };
/// assert_eq!(shares(&OneDoesAll), [4]);
/// assert_eq!(shares(&RangeAssignor), [2, 2]);
/// ```
pub trait Assignor: Send + Sync + 'static {
    /// The protocol's name; all members of a group must share one.
    fn name(&self) -> &str;

    /// How partitions are given away. A member is cooperative only if all of its assignors are.
    fn rebalance_protocol(&self) -> RebalanceProtocol {
        RebalanceProtocol::Eager
    }

    /// What this member tells the leader with each joining.
    fn subscription_userdata(&self) -> Bytes {
        Bytes::new()
    }

    /// As [`subscription_userdata`](Self::subscription_userdata), for assignors that tell what the member had last.
    fn userdata_after(&self, last: &LastAssignment) -> Bytes {
        let _ = last;
        self.subscription_userdata()
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

/// Kafka's `sticky`: as even as can be, and as little as can be moved. Its rebalances are eager; its members tell by
/// their userdata what they had.
///
/// Layout of the userdata: `count i32 | (topic string | count i32 | partition i32 …) … | generation i32`.
#[derive(Clone, Copy, Debug, Default)]
pub struct StickyAssignor;

impl Assignor for StickyAssignor {
    fn name(&self) -> &'static str {
        "sticky"
    }

    fn userdata_after(&self, last: &LastAssignment) -> Bytes {
        let mut topics: BTreeMap<&TopicName, Vec<i32>> = BTreeMap::new();
        for topic_partition in &last.partitions {
            topics.entry(&topic_partition.topic).or_default().push(topic_partition.partition);
        }
        let mut bytes = BytesMut::new();
        bytes.put_i32(length(topics.len()));
        for (topic, partitions) in topics {
            bytes.put_i16(i16::try_from(topic.as_str().len()).unwrap_or(i16::MAX));
            bytes.put_slice(topic.as_str().as_bytes());
            bytes.put_i32(length(partitions.len()));
            partitions.into_iter().for_each(|partition| bytes.put_i32(partition));
        }
        bytes.put_i32(last.generation_id);
        bytes.freeze()
    }

    fn assign(&self, topics: &ClusterTopics, members: &[MemberSubscription]) -> Vec<MemberAssignment> {
        let members = in_order(members);
        // One whose userdata cannot be read had nothing.
        let had = |member: &MemberSubscription| read_sticky(member.userdata.clone()).unwrap_or((Vec::new(), -1));
        together(&members, divide_stickily(topics, &members, had))
    }
}

/// Kafka's `cooperative-sticky` (KIP-429): as [`StickyAssignor`], and members keep reading what they keep. What moves is
/// given to nobody until its owner has given it away; then the group rebalances once more.
///
/// Layout of the userdata: `generation i32`.
#[derive(Clone, Copy, Debug, Default)]
pub struct CooperativeStickyAssignor;

impl Assignor for CooperativeStickyAssignor {
    fn name(&self) -> &'static str {
        "cooperative-sticky"
    }

    fn rebalance_protocol(&self) -> RebalanceProtocol {
        RebalanceProtocol::Cooperative
    }

    fn userdata_after(&self, last: &LastAssignment) -> Bytes {
        Bytes::copy_from_slice(&last.generation_id.to_be_bytes())
    }

    fn assign(&self, topics: &ClusterTopics, members: &[MemberSubscription]) -> Vec<MemberAssignment> {
        let members = in_order(members);
        let had = |member: &MemberSubscription| {
            // Members whose subscription is too old to say the generation say it here.
            let told = member.userdata.clone().try_get_i32().unwrap_or(-1);
            let generation_id = if member.generation_id >= 0 { member.generation_id } else { told };
            (member.owned.clone(), generation_id)
        };
        let mut assigned = divide_stickily(topics, &members, had);
        let owned: Vec<&[TopicPartition]> = members.iter().map(|member| member.owned.as_slice()).collect();
        sticky::hold_back_transfers(&mut assigned, &owned);
        together(&members, assigned)
    }
}

fn divide_stickily(
    topics: &ClusterTopics,
    members: &[&MemberSubscription],
    had: impl Fn(&MemberSubscription) -> (Vec<TopicPartition>, i32),
) -> Vec<Vec<TopicPartition>> {
    let claims: Vec<Claim> = members
        .iter()
        .map(|member| {
            let (owned, generation_id) = had(member);
            Claim { topics: member.topics.iter().cloned().collect(), owned, generation_id }
        })
        .collect();
    sticky::assign(topics, &claims)
}

/// Reads the userdata of [`StickyAssignor`]. Older members leave the generation out.
fn read_sticky(mut bytes: Bytes) -> Option<(Vec<TopicPartition>, i32)> {
    let mut partitions = Vec::new();
    let topics = bytes.try_get_i32().ok()?;
    for _ in 0..topics {
        let length = usize::try_from(bytes.try_get_i16().ok()?).ok()?;
        if bytes.remaining() < length {
            return None;
        }
        let topic = TopicName::from(std::str::from_utf8(&bytes.split_to(length)).ok()?);
        for _ in 0..bytes.try_get_i32().ok()? {
            partitions.push(TopicPartition::new(topic.clone(), bytes.try_get_i32().ok()?));
        }
    }
    Some((partitions, bytes.try_get_i32().unwrap_or(-1)))
}

fn length(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
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
            generation_id: -1,
            rack_id: None,
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
    fn sticky_members_tell_what_they_had_by_their_userdata() {
        let had = LastAssignment {
            partitions: ["t", "u"].iter().map(|topic| TopicPartition::new(*topic, 1)).collect(),
            generation_id: 7,
        };
        let userdata = StickyAssignor.userdata_after(&had);
        assert_eq!(read_sticky(userdata.clone()), Some((had.partitions, 7)));
        let one = MemberSubscription { userdata, ..member("z", &["t", "u"]) };
        let topics = [("t", 2), ("u", 2)];
        check(&StickyAssignor, &topics, &[one, member("a", &["t", "u"])], "a: [t-0, u-0]; z: [t-1, u-1]");
    }

    #[test]
    fn a_sticky_userdata_that_is_cut_short_or_lies_about_its_length_is_nothing() {
        let had = LastAssignment { partitions: vec![TopicPartition::new("t", 1)], generation_id: 7 };
        let userdata = StickyAssignor.userdata_after(&had);
        for end in 0..userdata.len() - 4 {
            assert_eq!(read_sticky(userdata.slice(..end)), None, "{end} bytes");
        }
        assert_eq!(
            read_sticky(Bytes::from_static(&[0x7f, 0xff, 0xff, 0xff, 0, 1, b't', 0x7f, 0xff, 0xff, 0xff])),
            None
        );
    }

    #[test]
    fn cooperative_members_get_what_moves_in_the_next_round() {
        let t =
            |partitions: std::ops::Range<i32>| partitions.map(|it| TopicPartition::new("t", it)).collect::<Vec<_>>();
        let one = MemberSubscription { owned: t(0..4), generation_id: 3, ..member("a", &["t"]) };
        let assignor = CooperativeStickyAssignor;
        check(&assignor, &[("t", 4)], &[one.clone(), member("b", &["t"])], "a: [t-0, t-1]; b: []");
        let one = MemberSubscription { owned: t(0..2), generation_id: 4, ..one };
        check(&assignor, &[("t", 4)], &[one, member("b", &["t"])], "a: [t-0, t-1]; b: [t-2, t-3]");
    }

    #[test]
    fn a_cooperative_members_generation_may_stand_in_its_userdata() {
        let zombie = MemberSubscription {
            owned: vec![TopicPartition::new("t", 0)],
            userdata: CooperativeStickyAssignor
                .userdata_after(&LastAssignment { partitions: vec![], generation_id: 2 }),
            ..member("a", &["t"])
        };
        let owner =
            MemberSubscription { generation_id: 3, ..MemberSubscription { member_id: "b".into(), ..zombie.clone() } };
        // The zombie still says that it has the partition, so nobody else gets it; but it stays where it is.
        check(&CooperativeStickyAssignor, &[("t", 1)], &[zombie, owner], "a: []; b: [t-0]");
    }

    #[test]
    fn round_robin_skips_a_topic_nobody_wants() {
        check(&RoundRobinAssignor, &[("t", 1), ("u", 1)], &[member("a", &["u"])], "a: [u-0]");
    }
}
