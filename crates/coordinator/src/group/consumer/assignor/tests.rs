use std::collections::{BTreeMap, BTreeSet};

use atonce_kernel::{GroupInstanceId, MemberId, TopicName, Uuid};

use super::super::topics::{TopicShape, TopicsImage};
use super::*;

fn topic(number: u8) -> TopicId {
    Uuid([number; 16])
}

/// Topics 1, 2, … with so many partitions.
fn image(partitions: &[i32]) -> TopicsImage {
    let topics = (1..).zip(partitions).map(|(number, partitions)| {
        (TopicName::from(format!("t{number}")), TopicShape { id: topic(number), partitions: *partitions })
    });
    TopicsImage::new(1, topics)
}

fn group(members: &[(&str, &[u8])]) -> Group {
    let reader = |topics: &[u8]| Reader { topics: topics.iter().map(|it| topic(*it)).collect(), ..Reader::default() };
    Group { members: members.iter().map(|(id, topics)| (MemberId::from(*id), reader(topics))).collect() }
}

/// `a: 1.0 1.1; b: 1.2`
fn shown(assigned: &BTreeMap<MemberId, Partitions>) -> String {
    let partitions = |partitions: &Partitions| {
        let all = partitions.iter().flat_map(|(topic, all)| all.iter().map(move |it| format!("{}.{it}", topic.0[0])));
        all.collect::<Vec<_>>().join(" ")
    };
    assigned.iter().map(|(id, all)| format!("{id}: {}", partitions(all))).collect::<Vec<_>>().join("; ")
}

/// Assigns, checks what always holds, and makes the result the members' target.
fn assign(assignor: Assignor, group: &mut Group, topics: &TopicsImage) -> String {
    let assigned = assignor.assign(group, topics);
    let mut owners = BTreeSet::new();
    for (id, partitions) in &assigned {
        for (topic, partitions) in partitions {
            assert!(group.members[id].topics.contains(topic), "{id} does not read {topic}");
            assert!(!partitions.is_empty());
            assert!(partitions.iter().all(|partition| owners.insert((*topic, *partition))), "two owners");
        }
    }
    let all: usize = group.topics().iter().map(|topic| topics.partitions_of(*topic) as usize).sum();
    assert_eq!(owners.len(), all, "all partitions that are read have an owner");
    for (id, member) in &mut group.members {
        member.target.clone_from(&assigned[id]);
    }
    shown(&assigned)
}

#[test]
fn range_gives_the_same_ranges_of_all_topics_to_the_same_member() {
    let mut all = group(&[("a", &[1, 2]), ("b", &[1, 2]), ("c", &[1, 2])]);
    assert_eq!(
        assign(Assignor::Range, &mut all, &image(&[4, 3])),
        "a: 1.0 1.1 2.0; b: 1.2 2.1; c: 1.3 2.2",
        "the first ones get what does not come out even"
    );
    let mut few = group(&[("a", &[1]), ("b", &[1]), ("c", &[1])]);
    assert_eq!(assign(Assignor::Range, &mut few, &image(&[2])), "a: 1.0; b: 1.1; c: ");
}

#[test]
fn range_counts_a_topic_s_readers_and_puts_static_members_first() {
    let mut some = group(&[("a", &[1]), ("b", &[1, 2]), ("c", &[2])]);
    assert_eq!(assign(Assignor::Range, &mut some, &image(&[3, 4])), "a: 1.0 1.1; b: 1.2 2.0 2.1; c: 2.2 2.3");
    let mut named = group(&[("a", &[1]), ("b", &[1]), ("c", &[1])]);
    named.members.get_mut(&MemberId::from("c")).unwrap().instance = Some(GroupInstanceId::from("i1"));
    named.members.get_mut(&MemberId::from("b")).unwrap().instance = Some(GroupInstanceId::from("i2"));
    assert_eq!(assign(Assignor::Range, &mut named, &image(&[3])), "a: 1.2; b: 1.1; c: 1.0");
}

#[test]
fn uniform_divides_equally_and_moves_no_more_than_it_must() {
    let topics = image(&[5]);
    let mut all = group(&[("a", &[1])]);
    assert_eq!(assign(Assignor::Uniform, &mut all, &topics), "a: 1.0 1.1 1.2 1.3 1.4");
    all.members.insert(MemberId::from("b"), all.members[&MemberId::from("a")].clone());
    all.members.get_mut(&MemberId::from("b")).unwrap().target.clear();
    assert_eq!(assign(Assignor::Uniform, &mut all, &topics), "a: 1.0 1.1 1.2; b: 1.3 1.4");
    assert_eq!(assign(Assignor::Uniform, &mut all, &topics), "a: 1.0 1.1 1.2; b: 1.3 1.4", "nothing moves");
    // One goes: the other keeps what it has, and gets the rest.
    all.members.remove(&MemberId::from("a"));
    assert_eq!(assign(Assignor::Uniform, &mut all, &topics), "b: 1.0 1.1 1.2 1.3 1.4");
}

#[test]
fn uniform_lets_the_one_keep_more_who_has_more() {
    let topics = image(&[3]);
    let mut all = group(&[("a", &[1]), ("b", &[1])]);
    all.members.get_mut(&MemberId::from("b")).unwrap().target = Partitions::from([(topic(1), BTreeSet::from([0, 1]))]);
    assert_eq!(assign(Assignor::Uniform, &mut all, &topics), "a: 1.2; b: 1.0 1.1");
}

#[test]
fn uniform_takes_back_what_is_read_no_longer_or_is_no_more() {
    let mut all = group(&[("a", &[1, 2])]);
    assert_eq!(assign(Assignor::Uniform, &mut all, &image(&[2, 2])), "a: 1.0 1.1 2.0 2.1");
    all.members.get_mut(&MemberId::from("a")).unwrap().topics.remove(&topic(2));
    assert_eq!(assign(Assignor::Uniform, &mut all, &image(&[1, 2])), "a: 1.0");
    assert_eq!(assign(Assignor::Uniform, &mut group(&[]), &image(&[1])), "");
    assert_eq!(assign(Assignor::Uniform, &mut group(&[("a", &[])]), &image(&[1])), "a: ");
}

#[test]
fn uniform_balances_members_that_read_different_topics() {
    let mut some = group(&[("a", &[1, 2]), ("b", &[2]), ("c", &[2])]);
    assert_eq!(assign(Assignor::Uniform, &mut some, &image(&[3, 6])), "a: 1.0 1.1 1.2; b: 2.0 2.2 2.4; c: 2.1 2.3 2.5");
    // b reads the first topic, too, but nothing need move.
    some.members.get_mut(&MemberId::from("b")).unwrap().topics.insert(topic(1));
    assert_eq!(assign(Assignor::Uniform, &mut some, &image(&[3, 6])), "a: 1.0 1.1 1.2; b: 2.0 2.2 2.4; c: 2.1 2.3 2.5");
    // c goes, and what it had is divided. All read the same now: the last one gets what does not come out even.
    some.members.remove(&MemberId::from("c"));
    assert_eq!(assign(Assignor::Uniform, &mut some, &image(&[3, 6])), "a: 1.0 1.1 1.2 2.1; b: 2.0 2.2 2.3 2.4 2.5");
}

#[test]
fn uniform_levels_what_is_uneven_though_all_have_owners() {
    let mut some = group(&[("a", &[1]), ("b", &[1, 2])]);
    some.members.get_mut(&MemberId::from("a")).unwrap().target =
        Partitions::from([(topic(1), BTreeSet::from([0, 1, 2, 3]))]);
    assert_eq!(assign(Assignor::Uniform, &mut some, &image(&[4, 1])), "a: 1.0 1.1 1.2; b: 1.3 2.0");
}

#[test]
fn any_group_is_balanced_as_far_as_its_subscriptions_let_it() {
    // Every group of three members that read any of three topics, one after the other joining the group as it is.
    let topics = image(&[4, 1, 3]);
    let some: [&[u8]; 7] = [&[1], &[2], &[3], &[1, 2], &[1, 3], &[2, 3], &[1, 2, 3]];
    for first in some {
        for second in some {
            for third in some {
                for assignor in [Assignor::Uniform, Assignor::Range] {
                    let mut all = group(&[("a", first)]);
                    assign(assignor, &mut all, &topics);
                    for (id, reads) in [("b", second), ("c", third)] {
                        all.members.extend(group(&[(id, reads)]).members);
                        assign(assignor, &mut all, &topics);
                    }
                    if assignor == Assignor::Range {
                        continue;
                    }
                    let again = all.clone();
                    assign(assignor, &mut all, &topics);
                    assert_eq!(all, again, "what is balanced stays as it is");
                    for one in all.members.values() {
                        for other in all.members.values() {
                            let count = |member: &Reader| member.target.values().map(BTreeSet::len).sum::<usize>();
                            let could_move = one.target.keys().any(|topic| other.topics.contains(topic));
                            assert!(
                                !could_move || count(one) <= count(other) + 1,
                                "{first:?} {second:?} {third:?}: {all:?}"
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn assignors_are_known_by_their_names() {
    for assignor in [Assignor::Uniform, Assignor::Range] {
        assert_eq!(Assignor::named(assignor.name()), Some(assignor));
    }
    assert_eq!([Assignor::Uniform, Assignor::Range].map(Assignor::name), ["uniform", "range"]);
    assert_eq!(Assignor::named("sticky"), None);
}
