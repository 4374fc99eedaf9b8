//! KIP-848: the coordinator assigns, and moves each member by itself. One test per clause; the scenarios `group/consumer_*` have the
//! conversations, `explore_consumer_group` the interleavings.

use std::collections::BTreeSet;
use std::sync::Arc;

use atonce_coordinator::group::command::{DeleteGroups, ListGroups, OffsetCommit, OffsetToCommit};
use atonce_coordinator::group::config::ConsumerConfig;
use atonce_coordinator::group::consumer::command::{ConsumerGroupHeartbeat, GroupSettings};
use atonce_coordinator::group::consumer::record::Fact;
use atonce_coordinator::group::consumer::{ConsumerState, MemberState, Partitions};
use atonce_coordinator::group::reply::{Beat, Refused};
use atonce_coordinator::group::{Command, GroupConfig, Record, Reply};
use atonce_kernel::{GroupId, GroupInstanceId, MemberId, TopicName};
use atonce_protocol::messages::consumer_group_current_member_assignment_value::{
    ConsumerGroupCurrentMemberAssignmentValue, TopicPartitions,
};
use atonce_protocol::{ErrorCode, Message};
use bytes::Bytes;

mod group_host;
use group_host::{Host, offset, only, partition, topic_id};

fn host(topics: &[&str]) -> Host {
    let consumer = ConsumerConfig { assignment_interval_ms: 0, ..ConsumerConfig::default() };
    let mut host = Host::new(GroupConfig { consumer, ..GroupConfig::default() });
    host.set_topics(topics);
    host
}

/// A heartbeat that says nothing new.
fn stay(member: &str, epoch: i32) -> ConsumerGroupHeartbeat {
    ConsumerGroupHeartbeat {
        version: 1,
        group: GroupId::from("g"),
        member: Some(MemberId::from(member)),
        epoch,
        instance: None,
        rack: None,
        client_id: Arc::from("client"),
        client_host: Arc::from("/127.0.0.1"),
        rebalance_timeout_ms: None,
        topics: None,
        pattern: None,
        assignor: None,
        owned: None,
        settings: GroupSettings::default(),
    }
}

fn topics(names: &[&str]) -> BTreeSet<TopicName> {
    names.iter().map(|name| TopicName::from(*name)).collect()
}

/// A member that reads topic x joins.
fn enter(member: &str) -> ConsumerGroupHeartbeat {
    ConsumerGroupHeartbeat {
        rebalance_timeout_ms: Some(30_000),
        topics: Some(topics(&["x"])),
        owned: Some(Partitions::new()),
        ..stay(member, 0)
    }
}

/// The same of a static member that is called as its client.
fn enter_as(member: &str, instance: &str) -> ConsumerGroupHeartbeat {
    ConsumerGroupHeartbeat { instance: Some(GroupInstanceId::from(instance)), ..enter(member) }
}

fn with(partitions: &[&str]) -> Option<Partitions> {
    let mut owned = Partitions::new();
    for at in partitions.iter().map(|name| partition(name)) {
        owned.entry(topic_id(at.topic.as_str())).or_default().insert(at.partition);
    }
    Some(owned)
}

fn ask(host: &mut Host, beat: ConsumerGroupHeartbeat) -> Result<Beat, Refused> {
    match only(&host.ask(&Command::ConsumerGroupHeartbeat(beat))) {
        Reply::ConsumerGroupHeartbeat(reply) => reply.clone(),
        other => panic!("{other:?}"),
    }
}

fn beat(host: &mut Host, beat: ConsumerGroupHeartbeat) -> Beat {
    ask(host, beat).expect("it is let in")
}

fn refused(host: &mut Host, beat: ConsumerGroupHeartbeat) -> ErrorCode {
    ask(host, beat).expect_err("it is refused").error
}

fn commit(host: &mut Host, member: &str, epoch: i32, at: &str) -> ErrorCode {
    let mut one = offset(at, 5);
    one.topic_id = topic_id("x");
    let commit = OffsetCommit {
        version: 9,
        group: GroupId::from("g"),
        generation: epoch,
        member: Some(MemberId::from(member)).filter(|id| !id.as_str().is_empty()),
        instance: None,
        retention_ms: None,
        offsets: vec![one],
    };
    match only(&host.ask(&Command::OffsetCommit(commit))) {
        Reply::OffsetsCommitted(answers) => answers[0].1,
        other => panic!("{other:?}"),
    }
}

/// Two members that have come to rest, with half of four partitions each; both in epoch 3.
fn two_at_rest() -> Host {
    let mut host = host(&["x:4"]);
    beat(&mut host, enter("a"));
    beat(&mut host, enter("b"));
    beat(&mut host, stay("a", 2));
    beat(&mut host, ConsumerGroupHeartbeat { owned: with(&["x-0", "x-1"]), ..stay("a", 2) });
    beat(&mut host, stay("b", 3));
    let group = host.shard.consumer_group(&GroupId::from("g")).unwrap();
    assert_eq!((group.state(), group.epoch), (ConsumerState::Stable, 3));
    host
}

#[test]
fn joining_is_one_heartbeat_and_its_answer_has_the_assignment() {
    let mut host = host(&["x:2"]);
    let answer = beat(&mut host, enter("a"));
    assert_eq!(answer.assignment, with(&["x-0", "x-1"]));
    assert_eq!((answer.member.as_str(), answer.epoch, answer.interval_ms), ("a", 2, 5_000));
}

#[test]
fn an_assignment_is_said_when_it_changes_or_when_all_is_said_anew() {
    let mut host = host(&["x:1"]);
    beat(&mut host, enter("a"));
    assert_eq!(beat(&mut host, stay("a", 2)).assignment, None);
    assert_eq!(beat(&mut host, ConsumerGroupHeartbeat { owned: with(&["x-0"]), ..stay("a", 2) }).assignment, None);
    let full = ConsumerGroupHeartbeat { epoch: 2, owned: with(&["x-0"]), ..enter("a") };
    assert_eq!(beat(&mut host, full).assignment, with(&["x-0"]));
    host.set_topics(&["x:2"]);
    assert_eq!(beat(&mut host, stay("a", 2)).assignment, with(&["x-0", "x-1"]));
}

#[test]
fn nobody_stops_but_for_the_partitions_that_move() {
    let mut host = host(&["x:4"]);
    beat(&mut host, enter("a"));
    assert_eq!(beat(&mut host, enter("b")).assignment, with(&[]));
    assert_eq!(beat(&mut host, stay("a", 2)).assignment, with(&["x-0", "x-1"]), "it goes on with these");
}

#[test]
fn a_partition_is_given_on_only_when_its_owner_has_said_that_it_has_it_no_more() {
    let mut host = host(&["x:2"]);
    beat(&mut host, enter("a"));
    beat(&mut host, enter("b"));
    assert_eq!(beat(&mut host, stay("b", 3)).assignment, None, "a has not been told yet");
    beat(&mut host, stay("a", 2));
    assert_eq!(beat(&mut host, stay("b", 3)).assignment, None, "a has been told");
    let still = ConsumerGroupHeartbeat { owned: with(&["x-0", "x-1"]), ..stay("a", 2) };
    assert_eq!(beat(&mut host, still).epoch, 2, "it has not given it up");
    assert_eq!(beat(&mut host, stay("a", 2)).epoch, 2, "nor does it say so by saying nothing");
    assert_eq!(beat(&mut host, stay("b", 3)).assignment, None);
    assert_eq!(beat(&mut host, ConsumerGroupHeartbeat { owned: with(&["x-0"]), ..stay("a", 2) }).epoch, 3);
    assert_eq!(beat(&mut host, stay("b", 3)).assignment, with(&["x-1"]));
}

#[test]
fn who_does_not_give_up_within_its_rebalance_timeout_is_put_out() {
    let mut host = host(&["x:2"]);
    beat(&mut host, ConsumerGroupHeartbeat { rebalance_timeout_ms: Some(10_000), ..enter("a") });
    beat(&mut host, enter("b"));
    beat(&mut host, stay("a", 2));
    host.pass_ms(6_000);
    beat(&mut host, stay("a", 2));
    host.pass_ms(3_999);
    assert_eq!(beat(&mut host, stay("a", 2)).epoch, 2, "it has until then, however often it comes");
    host.pass_ms(1);
    assert_eq!(refused(&mut host, stay("a", 2)), ErrorCode::UnknownMemberId);
    assert_eq!(beat(&mut host, stay("b", 3)).assignment, with(&["x-0", "x-1"]));
}

#[test]
fn who_is_silent_for_a_session_is_put_out() {
    let mut host = two_at_rest();
    host.pass_ms(30_000);
    beat(&mut host, stay("b", 3));
    host.pass_ms(14_999);
    assert_eq!(beat(&mut host, stay("b", 3)).assignment, None);
    host.pass_ms(1);
    assert_eq!(beat(&mut host, stay("b", 3)).assignment, with(&["x-0", "x-1", "x-2", "x-3"]));
    assert_eq!(refused(&mut host, stay("a", 3)), ErrorCode::UnknownMemberId);
}

#[test]
fn a_group_may_have_times_of_its_own() {
    let mut host = host(&["x:1"]);
    let settings = GroupSettings { heartbeat_interval_ms: Some(7_000), session_timeout_ms: Some(50_000) };
    assert_eq!(beat(&mut host, ConsumerGroupHeartbeat { settings, ..enter("a") }).interval_ms, 7_000);
    host.pass_ms(49_999);
    assert_eq!(host.shard.consumer_group(&GroupId::from("g")).unwrap().members.len(), 1);
    host.pass_ms(1);
    assert_eq!(host.shard.consumer_group(&GroupId::from("g")).unwrap().members.len(), 0);
}

#[test]
fn leaving_hands_over_at_once() {
    let mut host = two_at_rest();
    assert_eq!(beat(&mut host, stay("a", -1)).epoch, -1);
    assert_eq!(beat(&mut host, stay("b", 3)).assignment, with(&["x-0", "x-1", "x-2", "x-3"]));
    assert_eq!(refused(&mut host, stay("a", -1)), ErrorCode::UnknownMemberId);
}

#[test]
fn a_member_whose_answer_was_lost_repeats_itself() {
    let mut host = host(&["x:2"]);
    beat(&mut host, enter("a"));
    assert_eq!(beat(&mut host, enter("a")).assignment, with(&["x-0", "x-1"]), "its join");
    beat(&mut host, enter("b"));
    beat(&mut host, stay("a", 2));
    beat(&mut host, ConsumerGroupHeartbeat { owned: with(&["x-0"]), ..stay("a", 2) });
    let again = ConsumerGroupHeartbeat { owned: with(&["x-0"]), ..stay("a", 2) };
    assert_eq!(beat(&mut host, again).epoch, 3, "its step");
}

#[test]
fn a_member_in_another_epoch_is_fenced() {
    let mut host = two_at_rest();
    assert_eq!(refused(&mut host, stay("a", 4)), ErrorCode::FencedMemberEpoch, "ahead");
    assert_eq!(refused(&mut host, stay("a", 1)), ErrorCode::FencedMemberEpoch, "two behind");
    assert_eq!(refused(&mut host, stay("a", 2)), ErrorCode::FencedMemberEpoch, "one behind, and it may have anything");
    let has_more = ConsumerGroupHeartbeat { owned: with(&["x-0", "x-3"]), ..stay("a", 2) };
    assert_eq!(refused(&mut host, has_more), ErrorCode::FencedMemberEpoch, "one behind, and it has what it lost");
    let has_less = ConsumerGroupHeartbeat { owned: with(&["x-0"]), ..stay("a", 2) };
    assert_eq!(beat(&mut host, has_less).epoch, 3);
}

#[test]
fn until_version_0_the_coordinator_gives_out_ids() {
    let mut host = host(&["x:1"]);
    let id = beat(&mut host, ConsumerGroupHeartbeat { version: 0, member: None, ..enter("") }).member;
    assert_eq!(id.as_str().len(), 22, "{id}");
    assert_eq!(refused(&mut host, ConsumerGroupHeartbeat { member: None, ..enter("") }), ErrorCode::InvalidRequest);
}

#[test]
fn what_no_member_says_is_refused() {
    let mut host = host(&["x:1"]);
    let valid = || enter("a");
    for (why, request) in [
        ("no group", ConsumerGroupHeartbeat { group: GroupId::from(" "), ..valid() }),
        ("an empty own name", enter_as("a", " ")),
        ("an empty rack", ConsumerGroupHeartbeat { rack: Some(Arc::from("")), ..valid() }),
        ("no rebalance time-out", ConsumerGroupHeartbeat { rebalance_timeout_ms: None, ..valid() }),
        ("partitions of a newcomer", ConsumerGroupHeartbeat { owned: with(&["x-0"]), ..valid() }),
        ("nothing said of partitions", ConsumerGroupHeartbeat { owned: None, ..valid() }),
        ("no topics", ConsumerGroupHeartbeat { topics: None, ..valid() }),
        ("away without an own name", stay("a", -2)),
        ("an epoch below", stay("a", -3)),
        ("a name too long", ConsumerGroupHeartbeat { member: Some(MemberId::from("a".repeat(32_768))), ..valid() }),
        ("a group too long", ConsumerGroupHeartbeat { group: GroupId::from("a".repeat(32_768)), ..valid() }),
        ("a pattern too long", ConsumerGroupHeartbeat { pattern: Some(Arc::from("a".repeat(32_768))), ..valid() }),
    ] {
        assert_eq!(refused(&mut host, request), ErrorCode::InvalidRequest, "{why}");
    }
    assert!(host.log.is_empty());
    let longest = ConsumerGroupHeartbeat { member: Some(MemberId::from("a".repeat(32_767))), ..valid() };
    assert_eq!(beat(&mut host, longest).epoch, 2);
}

#[test]
fn a_group_that_is_not_there_is_made_by_who_joins_only() {
    let mut host = host(&["x:1"]);
    assert_eq!(refused(&mut host, stay("a", 1)), ErrorCode::GroupIdNotFound);
    assert_eq!(refused(&mut host, stay("a", -1)), ErrorCode::GroupIdNotFound);
    beat(&mut host, enter("a"));
    assert_eq!(refused(&mut host, stay("b", 1)), ErrorCode::UnknownMemberId);
}

#[test]
fn a_group_has_no_more_members_than_it_may() {
    let consumer = ConsumerConfig { members_max: 1, assignment_interval_ms: 0, ..ConsumerConfig::default() };
    let mut host = Host::new(GroupConfig { consumer, ..GroupConfig::default() });
    host.set_topics(&["x:1"]);
    beat(&mut host, enter_as("a", "i"));
    assert_eq!(refused(&mut host, enter("b")), ErrorCode::GroupMaxSizeReached);
    beat(&mut host, ConsumerGroupHeartbeat { instance: Some(GroupInstanceId::from("i")), ..stay("a", -2) });
    assert_eq!(beat(&mut host, enter_as("c", "i")).member.as_str(), "c", "who takes a place over needs no other");
}

#[test]
fn the_assignor_that_most_members_vote_for_runs() {
    let mut host = host(&["x:2", "y:2"]);
    let both = |member, assignor: &str| ConsumerGroupHeartbeat {
        topics: Some(topics(&["x", "y"])),
        assignor: Some(Arc::from(assignor)),
        ..enter(member)
    };
    assert_eq!(refused(&mut host, both("a", "mine")), ErrorCode::UnsupportedAssignor);
    beat(&mut host, both("a", "range"));
    beat(&mut host, both("b", "range"));
    let group = host.shard.consumer_group(&GroupId::from("g")).unwrap();
    assert_eq!(group.targets["a"], with(&["x-0", "y-0"]).unwrap(), "range");
    let before = group.epoch;
    beat(&mut host, both("c", "uniform"));
    beat(&mut host, both("d", "uniform"));
    beat(&mut host, ConsumerGroupHeartbeat { assignor: Some(Arc::from("uniform")), ..stay("d", 5) });
    assert_eq!(host.shard.consumer_group(&GroupId::from("g")).unwrap().epoch, before + 2, "a draw changes nothing");
    beat(&mut host, both("e", "uniform"));
    assert_eq!(host.shard.consumer_group(&GroupId::from("g")).unwrap().epoch, before + 3);
}

#[test]
fn a_pattern_is_resolved_by_the_coordinator_and_again_when_topics_come() {
    let mut host = host(&["x:1", "y:1"]);
    let by_pattern = |member, pattern: &str| ConsumerGroupHeartbeat {
        topics: None,
        pattern: Some(Arc::from(pattern)),
        ..enter(member)
    };
    assert_eq!(refused(&mut host, by_pattern("a", "(")), ErrorCode::InvalidRegularExpression);
    assert_eq!(beat(&mut host, by_pattern("a", "[xz]")).epoch, 1, "it is in, and nothing has been resolved");
    host.tick();
    assert_eq!(beat(&mut host, stay("a", 1)).assignment, with(&["x-0"]));
    host.set_topics(&["x:1", "y:1", "z:1"]);
    host.pass_ms(9_999);
    assert_eq!(beat(&mut host, stay("a", 2)).assignment, None, "not with each new topic");
    host.pass_ms(1);
    assert_eq!(beat(&mut host, stay("a", 2)).assignment, with(&["x-0", "z-0"]));
}

#[test]
fn a_pattern_is_forgotten_with_its_last_member() {
    let mut host = host(&["x:1"]);
    let by_pattern = |member| ConsumerGroupHeartbeat { topics: None, pattern: Some(Arc::from("x")), ..enter(member) };
    beat(&mut host, by_pattern("a"));
    host.tick();
    beat(&mut host, by_pattern("b"));
    beat(&mut host, stay("a", -1));
    assert_eq!(host.shard.consumer_group(&GroupId::from("g")).unwrap().patterns.len(), 1);
    beat(&mut host, stay("b", -1));
    assert_eq!(host.shard.consumer_group(&GroupId::from("g")).unwrap().patterns.len(), 0);
}

#[test]
fn what_becomes_of_topics_becomes_of_assignments() {
    let mut host = host(&[]);
    assert_eq!(beat(&mut host, enter("a")).assignment, with(&[]), "a topic may come later");
    host.set_topics(&["x:1"]);
    assert_eq!(beat(&mut host, stay("a", 2)).assignment, with(&["x-0"]), "it comes");
    host.set_topics(&["x:2"]);
    assert_eq!(beat(&mut host, stay("a", 3)).assignment, with(&["x-0", "x-1"]), "it grows");
    host.set_topics(&["x:2", "y:9"]);
    assert_eq!(beat(&mut host, stay("a", 4)).epoch, 4, "others are none of its business");
    host.set_topics(&[]);
    assert_eq!(beat(&mut host, stay("a", 4)).assignment, with(&[]), "it goes");
}

#[test]
fn a_static_member_that_is_away_keeps_its_partitions_for_a_session() {
    let mut host = host(&["x:2"]);
    beat(&mut host, enter_as("a", "i"));
    beat(&mut host, ConsumerGroupHeartbeat { instance: Some(GroupInstanceId::from("i")), ..stay("a", -2) });
    assert_eq!(beat(&mut host, enter("b")).assignment, with(&[]));
    let back = beat(&mut host, enter_as("a2", "i"));
    assert_eq!((back.member.as_str(), back.assignment), ("a2", with(&["x-0"])), "it takes its place over");
    let old = ConsumerGroupHeartbeat { instance: Some(GroupInstanceId::from("i")), ..stay("a", 3) };
    assert_eq!(refused(&mut host, old.clone()), ErrorCode::FencedInstanceId);
    assert_eq!(refused(&mut host, ConsumerGroupHeartbeat { epoch: -1, ..old }), ErrorCode::FencedInstanceId);
    let back = ConsumerGroupHeartbeat { instance: Some(GroupInstanceId::from("i")), ..stay("a2", -2) };
    beat(&mut host, back);
    host.pass_ms(44_000);
    beat(&mut host, stay("b", 3));
    host.pass_ms(1_000);
    assert_eq!(host.shard.consumer_group(&GroupId::from("g")).unwrap().members.len(), 1, "it stayed away too long");
}

#[test]
fn a_static_member_s_name_is_another_s_only_when_it_has_left() {
    let mut host = host(&["x:1"]);
    beat(&mut host, enter_as("a", "i"));
    assert_eq!(refused(&mut host, enter_as("b", "i")), ErrorCode::UnreleasedInstanceId);
    assert_eq!(refused(&mut host, enter_as("a", "i")), ErrorCode::UnreleasedInstanceId, "its own, too");
    let unknown = ConsumerGroupHeartbeat { instance: Some(GroupInstanceId::from("j")), ..stay("a", 2) };
    assert_eq!(refused(&mut host, unknown), ErrorCode::UnknownMemberId);
}

#[test]
fn offsets_are_committed_in_the_epoch_in_which_the_partition_was_had() {
    let mut host = two_at_rest();
    assert_eq!(commit(&mut host, "a", 3, "x-0"), ErrorCode::None);
    assert_eq!(commit(&mut host, "a", 2, "x-0"), ErrorCode::None, "it has had it since then (KIP-1251)");
    assert_eq!(commit(&mut host, "a", 2, "x-3"), ErrorCode::StaleMemberEpoch, "that is b's now");
    assert_eq!(commit(&mut host, "b", 2, "x-3"), ErrorCode::StaleMemberEpoch, "it got it later");
    assert_eq!(commit(&mut host, "a", 4, "x-0"), ErrorCode::StaleMemberEpoch, "an epoch to come");
    assert_eq!(commit(&mut host, "c", 3, "x-0"), ErrorCode::UnknownMemberId);
    assert_eq!(commit(&mut host, "", -1, "x-0"), ErrorCode::UnknownMemberId, "nobody, while there are members");
}

#[test]
fn one_partition_that_may_not_be_committed_for_refuses_all() {
    let mut host = two_at_rest();
    let offsets = ["x-0", "x-3"].map(|at| OffsetToCommit { topic_id: topic_id("x"), ..offset(at, 5) });
    let commit = OffsetCommit {
        version: 9,
        group: GroupId::from("g"),
        generation: 2,
        member: Some(MemberId::from("a")),
        instance: None,
        retention_ms: None,
        offsets: offsets.into(),
    };
    let Reply::OffsetsCommitted(answers) = only(&host.ask(&Command::OffsetCommit(commit))).clone() else { panic!() };
    assert!(answers.iter().all(|(_, error)| *error == ErrorCode::StaleMemberEpoch), "{answers:?}");
}

#[test]
fn what_an_older_coordinator_recorded_counts_from_the_member_s_epoch() {
    let topic = TopicPartitions { partitions: vec![0], assignment_epochs: Some(Vec::new()), ..Default::default() };
    let value = ConsumerGroupCurrentMemberAssignmentValue {
        member_epoch: 5,
        assigned_partitions: vec![topic],
        ..Default::default()
    };
    let key = Bytes::from_static(b"\0\x08\0\x01g\0\x01a");
    let record = Record::decode(key, Some(value.encode_versioned(0).unwrap())).unwrap().unwrap();
    let Record::Consumer { fact: Fact::Current(_, Some(current)), .. } = record else { panic!("{record:?}") };
    assert_eq!(current.assigned.values().next().unwrap().values().collect::<Vec<_>>(), [&5]);
}

#[test]
fn a_partition_that_is_being_given_up_can_be_committed_for() {
    let mut host = host(&["x:2"]);
    beat(&mut host, enter("a"));
    beat(&mut host, enter("b"));
    beat(&mut host, stay("a", 2));
    let group = host.shard.consumer_group(&GroupId::from("g")).unwrap();
    assert_eq!(group.members["a"].current.state, MemberState::UnrevokedPartitions);
    assert_eq!(commit(&mut host, "a", 2, "x-1"), ErrorCode::None, "it has until it says that it has it no more");
    beat(&mut host, ConsumerGroupHeartbeat { owned: with(&["x-0"]), ..stay("a", 2) });
    assert_eq!(commit(&mut host, "a", 2, "x-1"), ErrorCode::StaleMemberEpoch);
}

#[test]
fn a_crash_in_the_middle_changes_nothing_but_clocks() {
    let mut host = host(&["x:2"]);
    beat(&mut host, enter("a"));
    beat(&mut host, enter("b"));
    beat(&mut host, stay("a", 2));
    let before = host.shard.consumer_group(&GroupId::from("g")).unwrap().clone();
    host.pass_ms(20_000);
    host.crash();
    let mut after = host.shard.consumer_group(&GroupId::from("g")).unwrap().clone();
    after.soft = before.soft.clone();
    assert_eq!(after, before);
    host.pass_ms(29_999);
    assert_eq!(beat(&mut host, stay("b", 3)).assignment, None, "a has its whole time again");
    beat(&mut host, ConsumerGroupHeartbeat { owned: with(&["x-0"]), ..stay("a", 2) });
    assert_eq!(beat(&mut host, stay("b", 3)).assignment, with(&["x-1"]));
}

#[test]
fn a_group_is_listed_with_its_type_and_deleted_when_it_is_empty() {
    let mut host = two_at_rest();
    let list = |host: &mut Host, types: &[&str]| {
        let types = types.iter().map(|it| (*it).to_owned()).collect();
        match only(&host.ask(&Command::ListGroups(ListGroups { states: Vec::new(), types }))) {
            Reply::GroupsListed(groups) => groups.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(list(&mut host, &["Consumer"])[0].group_type.to_string(), "consumer");
    assert!(list(&mut host, &["classic"]).is_empty());
    let delete = |host: &mut Host| {
        let command = Command::DeleteGroups(DeleteGroups { groups: vec![GroupId::from("g")] });
        match only(&host.ask(&command)) {
            Reply::GroupsDeleted(groups) => groups[0].1,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(delete(&mut host), ErrorCode::NonEmptyGroup);
    commit(&mut host, "a", 3, "x-0");
    beat(&mut host, stay("a", -1));
    beat(&mut host, stay("b", -1));
    assert_eq!(delete(&mut host), ErrorCode::None);
    assert!(list(&mut host, &[]).is_empty());
    // All that was recorded of it has its tombstone: after compaction nothing is left.
    let mut left = std::collections::BTreeMap::new();
    for logged in &host.log {
        let group_host::Logged::Record { record, .. } = logged else { continue };
        let (key, value) = Record::encode(record).unwrap();
        left.insert(key, value);
    }
    assert!(left.values().all(Option::is_none), "{left:?}");
}
