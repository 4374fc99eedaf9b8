//! Corners of the change between the two kinds of group, and of who speaks the classic protocol in a consumer group.

use std::collections::BTreeSet;
use std::sync::Arc;

use atonce_coordinator::group::classic::JoinProtocol;
use atonce_coordinator::group::command::{JoinGroup, OffsetCommit};
use atonce_coordinator::group::config::ConsumerConfig;
use atonce_coordinator::group::consumer::command::{ConsumerGroupHeartbeat, GroupSettings};
use atonce_coordinator::group::{Command, GroupConfig, Reply};
use atonce_kernel::{GroupId, MemberId, TopicName};
use atonce_protocol::messages::consumer_protocol_subscription::ConsumerProtocolSubscription;
use atonce_protocol::{ErrorCode, Message};

mod group_host;
use group_host::{Host, join, offset, only, sync, topic_id};

fn host(members_max: usize) -> Host {
    let consumer = ConsumerConfig { members_max, ..ConsumerConfig::default() };
    let mut host = Host::new(GroupConfig { initial_rebalance_delay_ms: 0, consumer, ..GroupConfig::default() });
    host.set_topics(&["x:1"]);
    host
}

/// A heartbeat of a member of the consumer protocol, and what it is told.
fn beat(host: &mut Host, member: &str, epoch: i32) -> ErrorCode {
    let is_new = epoch == 0;
    let beat = Command::ConsumerGroupHeartbeat(ConsumerGroupHeartbeat {
        version: 1,
        group: GroupId::from("g"),
        member: Some(MemberId::from(member)),
        epoch,
        instance: None,
        rack: None,
        client_id: "c".into(),
        client_host: "/h".into(),
        rebalance_timeout_ms: is_new.then_some(60_000),
        topics: is_new.then(|| BTreeSet::from([TopicName::from("x")])),
        pattern: None,
        assignor: None,
        owned: is_new.then(Default::default),
        settings: GroupSettings::default(),
    });
    match only(&host.ask(&beat)) {
        Reply::ConsumerGroupHeartbeat(Ok(_)) => ErrorCode::None,
        Reply::ConsumerGroupHeartbeat(Err(refused)) => refused.error,
        other => panic!("{other:?}"),
    }
}

/// A classic group of so many members, all of which have their assignment.
fn classic_group(host: &mut Host, members: usize) -> Vec<MemberId> {
    for number in 0..members {
        host.ask(&Command::JoinGroup(JoinGroup { version: 3, ..join(&format!("c{number}"), None) }));
    }
    host.tick();
    let (generation, ids) = (host.group().generation, host.group().members.keys().cloned().collect::<Vec<_>>());
    let leader = host.group().leader.clone().expect("a generation has a leader");
    for id in ids.iter().filter(|id| **id != leader).chain([&leader]) {
        host.ask(&Command::SyncGroup(sync(generation, id, &[])));
    }
    ids
}

#[test]
fn a_classic_group_becomes_a_consumer_group_if_no_more_than_fit_are_in_it() {
    for (members, expected) in [(1, ErrorCode::None), (2, ErrorCode::None), (3, ErrorCode::GroupIdNotFound)] {
        let mut host = host(2);
        classic_group(&mut host, members);
        let told = beat(&mut host, "a", 0);
        // Two are as many as fit: the group changes, and is full.
        let expected = if members == 2 { ErrorCode::GroupMaxSizeReached } else { expected };
        assert_eq!(told, expected, "{members} members");
    }
}

#[test]
fn nobody_s_offsets_are_taken_by_a_consumer_group_without_members_and_no_one_else_s() {
    let mut host = host(10);
    assert_eq!(beat(&mut host, "a", 0), ErrorCode::None);
    assert_eq!(beat(&mut host, "a", -1), ErrorCode::None);
    let mut committed = |generation| {
        let commit = Command::OffsetCommit(OffsetCommit {
            version: 9,
            group: GroupId::from("g"),
            generation,
            member: None,
            instance: None,
            retention_ms: None,
            offsets: vec![offset("x-0", 5)],
        });
        match only(&host.ask(&commit)) {
            Reply::OffsetsCommitted(answers) => answers[0].1,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(committed(-1), ErrorCode::None);
    assert_eq!(committed(0), ErrorCode::UnknownMemberId);
    assert_eq!(committed(1), ErrorCode::UnknownMemberId);
}

#[test]
fn the_rack_of_a_classic_member_is_what_it_says_and_stays_when_it_says_nothing() {
    let mut host = host(10);
    let id = classic_group(&mut host, 1).remove(0);
    assert_eq!(beat(&mut host, "a", 0), ErrorCode::None);
    for (says, known) in [(None, None), (Some("r1"), Some("r1")), (Some(""), Some("r1")), (Some("r2"), Some("r2"))] {
        let said = ConsumerProtocolSubscription {
            topics: vec!["x".to_owned()],
            rack_id: says.map(str::to_owned),
            ..Default::default()
        };
        let metadata = said.encode_versioned(3).expect("version 3 can say it");
        let protocols = Arc::from([JoinProtocol { name: "range".to_owned(), metadata }]);
        host.ask(&Command::JoinGroup(JoinGroup { protocols, ..join("c0", Some(&id)) }));
        let group = host.shard.consumer_group(&GroupId::from("g")).expect("it is there");
        assert_eq!(group.members[&id].subscription.rack.as_deref(), known, "it says {says:?}");
    }
}

#[test]
fn what_a_consumer_group_answers_is_said_whole() {
    use atonce_coordinator::group::consumer::command::ConsumerGroupDescribe;
    use atonce_coordinator::group::consumer::wire as consumer_wire;
    use atonce_coordinator::group::wire::Caller;
    use atonce_protocol::messages::consumer_group_heartbeat_request::{ConsumerGroupHeartbeatRequest, TopicPartitions};

    let mut host = host(10);
    let caller = Caller { client_id: "me", host: "/h" };
    let mut request = ConsumerGroupHeartbeatRequest {
        group_id: "g".to_owned(),
        member_id: "a".to_owned(),
        instance_id: Some("i".to_owned()),
        rack_id: Some("r".to_owned()),
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: Some(vec!["x".to_owned()]),
        server_assignor: Some("range".to_owned()),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    };
    let mut answer = |request: &ConsumerGroupHeartbeatRequest| {
        let beat = consumer_wire::heartbeat(request, 1, &caller, GroupSettings::default());
        match only(&host.ask(&Command::ConsumerGroupHeartbeat(beat))) {
            Reply::ConsumerGroupHeartbeat(reply) => consumer_wire::heartbeat_response(reply),
            other => panic!("{other:?}"),
        }
    };
    let told = answer(&request);
    let given = told.assignment.expect("it is the only member");
    let partitions: Vec<_> = given.topic_partitions.iter().map(|it| (it.topic_id, it.partitions.clone())).collect();
    assert_eq!(partitions, [(topic_id("x"), vec![0])]);
    assert_eq!((told.error_code, told.member_id.as_deref(), told.member_epoch), (0, Some("a"), 2));
    assert_eq!(told.heartbeat_interval_ms, ConsumerConfig::default().heartbeat_interval_ms);

    // The next one says what it has; a topic without partitions is nothing.
    request.member_epoch = told.member_epoch;
    let has = |topic, partitions| TopicPartitions { topic_id: topic, partitions, ..Default::default() };
    request.topic_partitions = Some(vec![has(topic_id("x"), vec![0]), has(topic_id("y"), Vec::new())]);
    let beat = consumer_wire::heartbeat(&request, 1, &caller, GroupSettings::default());
    assert_eq!(beat.owned, Some([(topic_id("x"), BTreeSet::from([0]))].into()));
    assert_eq!((beat.version, beat.epoch, beat.rebalance_timeout_ms), (1, 2, Some(60_000)));
    request.rebalance_timeout_ms = -1;
    assert_eq!(consumer_wire::heartbeat(&request, 1, &caller, GroupSettings::default()).rebalance_timeout_ms, None);
    request.member_epoch = 9;
    let refused = answer(&request);
    assert_eq!(ErrorCode::from_wire(refused.error_code), ErrorCode::FencedMemberEpoch);
    assert!(refused.error_message.is_some_and(|message| !message.is_empty()));

    let describe = ConsumerGroupDescribe { groups: vec![GroupId::from("g"), GroupId::from("none")] };
    let described = match only(&host.ask(&Command::ConsumerGroupDescribe(describe))) {
        Reply::ConsumerGroupsDescribed(groups) => consumer_wire::describe_response(groups),
        other => panic!("{other:?}"),
    };
    let (group, missing) = (&described.groups[0], &described.groups[1]);
    let (id, state, assignor) = (group.group_id.as_str(), group.group_state.as_str(), group.assignor_name.as_str());
    assert_eq!((id, state, group.group_epoch, group.assignment_epoch, assignor), ("g", "Stable", 2, 2, "range"));
    let member = &group.members[0];
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    assert_eq!(
        (member.member_id.as_str(), text(&member.instance_id), text(&member.rack_id)),
        ("a", "i".into(), "r".into())
    );
    assert_eq!((member.member_epoch, member.client_id.as_str(), member.client_host.as_str()), (2, "me", "/h"));
    assert_eq!(
        (&member.subscribed_topic_names[..], text(&member.subscribed_topic_regex)),
        (&["x".to_owned()][..], String::new())
    );
    assert_eq!(member.member_type, 1);
    for assignment in [&member.assignment, &member.target_assignment] {
        let topics: Vec<_> =
            assignment.topic_partitions.iter().map(|it| (it.topic_id, it.topic_name.as_str())).collect();
        assert_eq!((topics, &assignment.topic_partitions[0].partitions[..]), (vec![(topic_id("x"), "x")], &[0][..]));
    }
    assert_eq!(
        (missing.group_id.as_str(), ErrorCode::from_wire(missing.error_code)),
        ("none", ErrorCode::GroupIdNotFound)
    );
    assert!(missing.error_message.as_deref().is_some_and(|message| message.contains("none")));
}
