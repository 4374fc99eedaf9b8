//! What a shard makes of its log: fresh clocks, refusals of what cannot follow, limits that were lowered; and what it never
//! writes.

use std::sync::Arc;

use atonce_coordinator::group::classic::State;
use atonce_coordinator::group::command::{JoinGroup, OffsetCommit};
use atonce_coordinator::group::record::{CommittedOffset, GroupMetadata, MemberMetadata};
use atonce_coordinator::group::{Command, GroupConfig, GroupCoordinator, Record, Reply};
use atonce_coordinator::{Entry, Shard};
use atonce_kernel::{GroupId, GroupInstanceId, MemberId, Timestamp, TopicPartition, Uuid};
use atonce_protocol::ErrorCode;
use bytes::Bytes;

mod group_host;
use group_host::{Group, Host, join, offset, only, replay};

fn member(id: &str) -> MemberMetadata {
    MemberMetadata {
        member: MemberId::from(id),
        instance: None,
        client_id: Arc::from("c"),
        client_host: Arc::from("/h"),
        rebalance_timeout_ms: 30_000,
        session_timeout_ms: 10_000,
        subscription: Bytes::new(),
        assignment: Bytes::from_static(b"its own"),
    }
}

fn metadata(generation: i32, members: Vec<MemberMetadata>) -> GroupMetadata {
    GroupMetadata {
        protocol_type: Some("consumer".to_owned()),
        generation,
        protocol: Some("range".to_owned()),
        leader: members.first().map(|it| it.member.clone()),
        since: Timestamp(7),
        members,
    }
}

fn apply(shard: &mut GroupCoordinator, metadata: GroupMetadata) -> Result<(), String> {
    let record = Record::Group { group: GroupId::from("g"), metadata: Some(metadata) };
    let entry = Entry::Record { record: &record, producer: None, offset: 3, timestamp: Timestamp(9) };
    shard.apply(&entry).map_err(|corrupt| corrupt.to_string())
}

#[test]
fn a_shard_without_anything_needs_no_tick() {
    let mut host = Host::new(GroupConfig::default());
    assert_eq!(host.shard.next_deadline(), None);
    assert!(host.ask(&Command::Tick).records.is_empty());
    assert_eq!(host.shard.next_deadline(), None);
}

#[test]
fn a_group_alone_and_offsets_alone_are_looked_after() {
    let mut host = Host::new(GroupConfig::default());
    host.append(Record::Group { group: GroupId::from("g"), metadata: Some(metadata(1, vec![])) }, None);
    host.tick();
    assert_eq!(host.shard.next_deadline(), Some(host.now.plus_ms(600_000)));

    let mut host = Host::new(GroupConfig::default());
    host.commit(-1, None, None);
    host.append(Record::Group { group: GroupId::from("g"), metadata: None }, None);
    host.tick();
    assert_eq!(host.shard.next_deadline(), Some(host.now.plus_ms(600_000)), "offsets outlive their group's record");
}

#[test]
fn after_a_restart_each_member_has_a_whole_session() {
    let mut group = Group::of(&["a", "b"]);
    group.host.pass_ms(9_000);
    group.host.crash();
    assert!(
        group.host.shard.next_deadline().is_some_and(|deadline| deadline <= group.host.now),
        "it wants a tick at once"
    );
    group.host.pass_ms(9_999);
    assert_eq!((group.beat(0), group.beat(1)), (ErrorCode::None, ErrorCode::None));
}

#[test]
fn after_a_restart_the_protocol_that_was_chosen_is_the_only_one_known() {
    let mut group = Group::of(&["a"]);
    group.host.crash();
    let member = &group.host.group().members[&group.members[0]];
    assert_eq!(member.protocols.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["range"]);
    assert_eq!(&member.assignment[..], b"p0");
}

#[test]
fn a_group_larger_than_a_limit_that_was_lowered_is_rebalanced() {
    let group = Group::of(&["a", "b", "c"]);
    let config = GroupConfig { members_max: 2, initial_rebalance_delay_ms: 0, ..GroupConfig::default() };
    let mut host = Host::new(config.clone());
    host.shard = replay(&group.host.log, &config);
    host.log = group.host.log;
    host.tick();
    assert!(matches!(host.group().state, State::PreparingRebalance { .. }));
    let ids: Vec<_> = host.group().members.keys().cloned().collect();
    host.ask(&Command::JoinGroup(join("a", Some(&ids[0]))));
    host.ask(&Command::JoinGroup(join("b", Some(&ids[1]))));
    let decision = host.ask(&Command::JoinGroup(join("c", Some(&ids[2]))));
    assert_eq!(decision.replies.len(), 3, "the last one is out, and the others need not wait for it: {decision:?}");
    assert_eq!(host.group().members.len(), 2);
}

#[test]
fn a_group_as_large_as_the_limit_is_left_alone() {
    let group = Group::of(&["a", "b"]);
    let config = GroupConfig { members_max: 2, ..GroupConfig::default() };
    let mut host = Host::new(config.clone());
    host.shard = replay(&group.host.log, &config);
    host.log = group.host.log;
    host.tick();
    assert!(matches!(host.group().state, State::Stable { .. }));
}

#[test]
fn records_that_cannot_follow_are_refused_and_change_nothing() {
    let mut shard = GroupCoordinator::new(GroupConfig::default());
    apply(&mut shard, metadata(5, vec![member("a")])).expect("anything may come first");
    let before = shard.clone();
    let no_protocol = GroupMetadata { protocol: None, ..metadata(6, vec![member("a")]) };
    let named = |id: &str| MemberMetadata { instance: Some(GroupInstanceId::from("i")), ..member(id) };
    for (wrong, says) in [
        (metadata(4, vec![member("a")]), "generation 4 after generation 5"),
        (no_protocol, "1 members without a protocol"),
        (metadata(6, vec![member("a"), member("a")]), "twice"),
        (metadata(6, vec![named("a"), named("b")]), "twice"),
    ] {
        let error = apply(&mut shard, wrong).expect_err(says);
        assert!(error.contains(says) && error.contains("offset 3") && error.contains("group g"), "{error}");
        assert_eq!(shard, before);
    }
    apply(&mut shard, metadata(5, vec![member("b")])).expect("a static member may have been replaced");
    apply(&mut shard, GroupMetadata { protocol: None, ..metadata(6, vec![]) }).expect("all may have left");
}

#[test]
fn an_old_record_has_one_time_out_for_both_and_no_time() {
    // Version 0: `version | type | generation | protocol | leader | members: id, client, host, session, subscription, assignment`.
    let mut value = vec![0, 0];
    let text = |text: &str| [&u16::try_from(text.len()).unwrap().to_be_bytes()[..], text.as_bytes()].concat();
    value.extend([text("consumer"), 3_i32.to_be_bytes().to_vec(), text("range"), text("m")].concat());
    value.extend(1_i32.to_be_bytes());
    value.extend([text("m"), text("c"), text("/h"), 10_000_i32.to_be_bytes().to_vec()].concat());
    value.extend([0, 0, 0, 1, b's', 0, 0, 0, 1, b'a']);
    let key = [&[0, 2][..], &text("g")].concat();
    let record = Record::decode(Bytes::from(key), Some(Bytes::from(value))).expect("it can be read");
    let Some(Record::Group { metadata: Some(metadata), .. }) = record else { panic!("{record:?}") };
    assert_eq!((metadata.generation, metadata.since), (3, Timestamp::NONE));
    let member = &metadata.members[0];
    assert_eq!((member.session_timeout_ms, member.rebalance_timeout_ms), (10_000, 10_000));
    assert_eq!((&member.subscription[..], &member.assignment[..]), (&b"s"[..], &b"a"[..]));
}

#[test]
fn both_types_of_an_offsets_key_mean_the_same_and_others_are_not_ours() {
    let value = CommittedOffset {
        offset: 5,
        leader_epoch: -1,
        metadata: Arc::from(""),
        commit_timestamp: Timestamp(1),
        expire_timestamp: Some(Timestamp(2)),
        topic_id: Uuid::ZERO,
    };
    let record =
        Record::Offset { group: GroupId::from("g"), topic_partition: TopicPartition::new("x", 1), value: Some(value) };
    let (key, value) = record.encode().expect("it has an encoding");
    assert_eq!(value.as_ref().unwrap()[..2], [0, 1], "the version that has an end");
    let mut old = key.to_vec();
    old[1] = 0;
    assert_eq!(Record::decode(Bytes::from(old), value.clone()), Ok(Some(record)));
    // Of partitions (no longer written), share groups, streams groups; and what nobody has.
    for other in [4_i16, 10, 17, 99, -1] {
        let mut key = key.to_vec();
        key[..2].copy_from_slice(&other.to_be_bytes());
        assert_eq!(Record::decode(Bytes::from(key), value.clone()), Ok(None), "{other}");
    }
}

#[test]
fn damaged_records_are_errors_not_panics() {
    let (key, value) = Record::Group { group: GroupId::from("g"), metadata: Some(metadata(1, vec![member("a")])) }
        .encode()
        .expect("it has an encoding");
    let value = value.expect("no tombstone");
    for length in 0..key.len() {
        assert!(Record::decode(key.slice(..length), Some(value.clone())).is_err(), "key cut at {length}");
    }
    for length in 0..value.len() {
        assert!(Record::decode(key.clone(), Some(value.slice(..length))).is_err(), "value cut at {length}");
    }
    let longer = [&key[..], b"more"].concat();
    assert!(Record::decode(Bytes::from(longer), Some(value)).is_err());
}

#[test]
fn names_that_no_record_can_say_are_refused_before_anything_happens() {
    let long = "n".repeat(40_000);
    let mut host = Host::new(GroupConfig::default());
    let group = GroupId::from(&long);
    assert_eq!(host.refused_join(JoinGroup { group: group.clone(), ..join("a", None) }), ErrorCode::InvalidGroupId);
    let instance = Some(GroupInstanceId::from(&long));
    assert_eq!(host.refused_join(JoinGroup { instance, ..join("a", None) }), ErrorCode::InvalidRequest);
    let client_id = Arc::from(long.as_str());
    assert_eq!(host.refused_join(JoinGroup { client_id, ..join("a", None) }), ErrorCode::InvalidRequest);
    let protocol_type = long.clone();
    assert_eq!(host.refused_join(JoinGroup { protocol_type, ..join("a", None) }), ErrorCode::InvalidRequest);
    let protocol = atonce_coordinator::group::classic::JoinProtocol { name: long, metadata: Bytes::new() };
    let protocols = [protocol].into();
    assert_eq!(host.refused_join(JoinGroup { protocols, ..join("a", None) }), ErrorCode::InvalidRequest);
    let commit = OffsetCommit {
        version: 9,
        group,
        generation: -1,
        member: None,
        instance: None,
        retention_ms: None,
        offsets: vec![offset("x-0", 1)],
    };
    let Reply::OffsetsCommitted(answers) = only(&host.ask(&Command::OffsetCommit(commit))).clone() else { panic!() };
    assert_eq!(answers[0].1, ErrorCode::InvalidGroupId);
    assert!(host.log.is_empty());

    let at_the_limit = |length: usize| OffsetCommit {
        version: 9,
        group: GroupId::from("n".repeat(length)),
        generation: -1,
        member: None,
        instance: None,
        retention_ms: None,
        offsets: vec![offset("x-0", 1)],
    };
    for (length, error) in [(32_730, ErrorCode::None), (32_731, ErrorCode::InvalidGroupId)] {
        let decision = host.ask(&Command::OffsetCommit(at_the_limit(length)));
        let Reply::OffsetsCommitted(answers) = only(&decision) else { panic!("{decision:?}") };
        assert_eq!(answers[0].1, error, "{length}");
    }

    // The longest that is let in can be recorded, whatever id comes of it: the host checks that.
    let longest = "n".repeat(32_730);
    let client_id = Arc::from(longest.as_str());
    host.ask(&Command::JoinGroup(JoinGroup { version: 3, client_id, ..join("a", None) }));
    host.pass_ms(3_000);
    let id = host.group().members.keys().next().cloned().unwrap();
    let decision = host.ask(&Command::SyncGroup(group_host::sync(1, &id, &[(&id, "all")])));
    assert_eq!(decision.records.len(), 1);
}

#[test]
fn many_offsets_that_expire_together_take_several_ticks() {
    let config = GroupConfig {
        offsets_retention_ms: 1_000,
        offsets_retention_check_interval_ms: 5_000,
        ..GroupConfig::default()
    };
    let mut host = Host::new(config);
    for number in 0..1_500 {
        let commit = OffsetCommit {
            version: 9,
            group: GroupId::from(format!("g{number:04}")),
            generation: -1,
            member: None,
            instance: None,
            retention_ms: None,
            offsets: vec![offset("x-0", 1)],
        };
        host.ask(&Command::OffsetCommit(commit));
    }
    let decisions = host.pass_ms(5_000);
    let sizes: Vec<_> = decisions.iter().map(|(_, decision)| decision.records.len()).filter(|size| *size > 0).collect();
    assert_eq!(sizes, [1_000, 1_000, 1_000], "an offset and a group each");
    assert_eq!(host.shard.groups().count(), 0);
    assert_eq!(host.shard.next_deadline(), None);
}

#[test]
fn time_outs_of_nothing_do_not_make_ticks_without_end() {
    // Only static members, none of them back: the join phase can neither end nor be waited for.
    let mut group = Group::of_static(&["a", "b"]);
    for name in ["a", "b"] {
        let instance = Some(GroupInstanceId::from(name));
        let request = JoinGroup { instance, rebalance_timeout_ms: 0, ..join(name, None) };
        group.host.ask_join(request).expect("it takes its place again");
    }
    let left = atonce_coordinator::group::command::MemberIdentity { member: None, instance: Some("a".into()) };
    let leave = atonce_coordinator::group::command::LeaveGroup { group: GroupId::from("g"), members: vec![left] };
    group.host.ask(&Command::LeaveGroup(leave));
    assert!(matches!(group.host.group().state, State::PreparingRebalance { .. }));
    assert!(group.host.pass_ms(100).len() <= 101, "a tick a millisecond at most");
    assert!(matches!(group.host.group().state, State::PreparingRebalance { .. }), "b's session still runs");
}
