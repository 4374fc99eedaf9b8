//! Corners of committed offsets: what stands where there is none, names as long as they may be, many that expire at once, who may fetch.

use std::collections::BTreeSet;

use atonce_coordinator::group::command::{OffsetCommit, OffsetFetch, OffsetToFetch, TxnOffsetCommit};
use atonce_coordinator::group::consumer::command::{ConsumerGroupHeartbeat, GroupSettings};
use atonce_coordinator::group::reply::FetchedOffset;
use atonce_coordinator::group::{Command, GroupConfig, Record, Reply};
use atonce_kernel::{GroupId, MemberId, ProducerIdentity, TopicName, Uuid};
use atonce_protocol::ErrorCode;

mod group_host;
use group_host::{Host, Logged, offset, only, partition, replay};

/// The longest name that the records of groups and members can say.
const NAME_BYTES_MAX: usize = 32_767 - 37;

fn fetch(member: Option<&str>, epoch: i32) -> Command {
    let wanted = OffsetToFetch { topic_partition: partition("x-0"), topic_id: Uuid::ZERO };
    Command::OffsetFetch(OffsetFetch {
        group: GroupId::from("g"),
        partitions: Some(vec![wanted]),
        member: member.map(MemberId::from),
        epoch,
        require_stable: false,
    })
}

fn fetched(host: &mut Host, fetch: &Command) -> Result<FetchedOffset, ErrorCode> {
    match only(&host.ask(fetch)) {
        Reply::OffsetsFetched(answer) => answer.clone().map(|offsets| offsets[0].clone()),
        other => panic!("{other:?}"),
    }
}

fn commit(group: &str) -> Command {
    Command::OffsetCommit(OffsetCommit {
        version: 9,
        group: GroupId::from(group),
        generation: -1,
        member: None,
        instance: None,
        retention_ms: None,
        offsets: vec![offset("x-0", 5)],
    })
}

fn send(group: &str) -> Command {
    Command::TxnOffsetCommit(TxnOffsetCommit {
        version: 3,
        producer: ProducerIdentity::new(1, 0),
        group: GroupId::from(group),
        generation: -1,
        member: None,
        instance: None,
        offsets: vec![offset("x-0", 5)],
    })
}

fn committed(host: &mut Host, commit: &Command) -> ErrorCode {
    match only(&host.ask(commit)) {
        Reply::OffsetsCommitted(answers) => answers[0].1,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_partition_without_an_offset_has_none_of_its_values() {
    let found = fetched(&mut Host::new(GroupConfig::default()), &fetch(None, -1)).expect("it is no error");
    assert_eq!((found.offset, found.leader_epoch, &*found.metadata, found.error), (-1, -1, "", ErrorCode::None));
}

#[test]
fn a_group_s_name_may_be_as_long_as_a_record_can_say_and_no_longer() {
    let mut host = Host::new(GroupConfig::default());
    let (longest, longer) = ("g".repeat(NAME_BYTES_MAX), "g".repeat(NAME_BYTES_MAX + 1));
    for command in [commit, send] {
        assert_eq!(committed(&mut host, &command(&longest)), ErrorCode::None);
        assert_eq!(committed(&mut host, &command(&longer)), ErrorCode::InvalidGroupId);
    }
    // The oldest clients kept offsets of no group.
    assert_eq!(committed(&mut host, &commit("")), ErrorCode::None);
    assert_eq!(committed(&mut host, &send("")), ErrorCode::InvalidGroupId);
}

#[test]
fn many_groups_expire_in_several_ticks_and_none_is_passed_over() {
    const GROUPS: usize = 1_500;
    let config =
        GroupConfig { offsets_retention_ms: 1_000, offsets_retention_check_interval_ms: 600, ..GroupConfig::default() };
    let mut host = Host::new(config);
    for number in 0..GROUPS {
        host.ask(&commit(&format!("g{number}")));
    }
    let mut decisions = host.pass_ms(1_300).into_iter().map(|(_, decision)| decision).collect::<Vec<_>>();
    decisions.retain(|decision| !decision.records.is_empty());
    assert!(decisions.len() > 1, "all in one decision");
    assert!(decisions.iter().all(|decision| decision.records.len() <= 1_001), "too much in one decision");
    let gone = decisions.iter().flat_map(|decision| &decision.records).filter_map(|record| match record {
        Record::Group { group, metadata: None } => Some(group),
        _ => None,
    });
    assert_eq!(gone.collect::<BTreeSet<_>>().len(), GROUPS);
    assert_eq!(host.shard.groups().count(), 0);
}

#[test]
fn in_a_consumer_group_members_fetch_in_their_epoch_and_others_without_one() {
    let mut host = Host::new(GroupConfig::default());
    enter(&mut host);
    let epoch = host.shard.consumer_group(&GroupId::from("g")).expect("it is there").epoch;
    let mut error = |member, epoch| fetched(&mut host, &fetch(member, epoch)).err();
    assert_eq!(error(Some("a"), epoch), None);
    assert_eq!(error(None, -1), None);
    assert_eq!(error(Some("a"), epoch - 1), Some(ErrorCode::StaleMemberEpoch));
    assert_eq!(error(Some("a"), epoch + 1), Some(ErrorCode::StaleMemberEpoch));
    assert_eq!(error(Some("b"), epoch), Some(ErrorCode::UnknownMemberId));
    assert_eq!(error(Some(""), -1), Some(ErrorCode::UnknownMemberId));
    // Kafka's code stumbles over an epoch of no member.
    assert_eq!(error(None, epoch), Some(ErrorCode::UnknownServerError));
    assert_eq!(error(None, 0), Some(ErrorCode::UnknownServerError));
}

#[test]
fn a_log_whose_tombstones_are_compacted_away_is_followed_from_offsets_to_a_consumer_group() {
    let mut host = Host::new(GroupConfig::default());
    host.ask(&commit("g"));
    enter(&mut host);
    let is_kept = |logged: &&Logged| !matches!(logged, Logged::Record { record: Record::Group { .. }, .. });
    let compacted: Vec<Logged> = host.log.iter().filter(is_kept).cloned().collect();
    assert!(compacted.len() < host.log.len(), "the group that only had offsets was ended by a tombstone");
    let shard = replay(&compacted, &GroupConfig::default());
    let group = GroupId::from("g");
    assert_eq!(shard.consumer_group(&group).map(|group| group.members.len()), Some(1));
    assert_eq!(shard.committed(&group, &partition("x-0")).map(|committed| committed.offset), Some(5));
}

/// A member of a consumer group comes.
fn enter(host: &mut Host) {
    host.set_topics(&["x:1"]);
    host.ask(&Command::ConsumerGroupHeartbeat(ConsumerGroupHeartbeat {
        version: 1,
        group: GroupId::from("g"),
        member: Some(MemberId::from("a")),
        epoch: 0,
        instance: None,
        rack: None,
        client_id: "c".into(),
        client_host: "/h".into(),
        rebalance_timeout_ms: Some(60_000),
        topics: Some(BTreeSet::from([TopicName::from("x")])),
        pattern: None,
        assignor: None,
        owned: Some(Default::default()),
        settings: GroupSettings::default(),
    }));
}
