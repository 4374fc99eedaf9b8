//! Requests of all versions become commands, and replies responses, in the shape of their version; what the broker does not have is
//! refused in its place. (Whole conversations of real clients are in `recorded_group_conversations`.)

use std::sync::Arc;

use atonce_coordinator::group::reply::{
    DescribedGroup, DescribedMember, FetchedOffset, GroupState, GroupType, JoinRefused, Joined, ListedGroup, MemberLeft,
};
use atonce_coordinator::group::wire::{self, Caller, Topics};
use atonce_kernel::{TopicId, TopicName, TopicPartition, Uuid};
use atonce_protocol::messages::join_group_request::JoinGroupRequest;
use atonce_protocol::messages::leave_group_request::{LeaveGroupRequest, MemberIdentity};
use atonce_protocol::messages::offset_commit_request::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use atonce_protocol::messages::offset_delete_request::{
    OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use atonce_protocol::messages::offset_fetch_request::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use atonce_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use atonce_protocol::{ErrorCode, Message};
use bytes::{Bytes, BytesMut};

/// Topic `x` with id 1 and partitions 0 and 1.
struct OneTopic;

const X: TopicId = Uuid([1; 16]);
const OTHER: TopicId = Uuid([2; 16]);

impl Topics for OneTopic {
    fn name_of(&self, id: TopicId) -> Option<TopicName> {
        (id == X).then(|| TopicName::from("x"))
    }

    fn id_of(&self, name: &str) -> Option<TopicId> {
        (name == "x").then_some(X)
    }

    fn has_partition(&self, name: &str, partition: i32) -> bool {
        name == "x" && (0..2).contains(&partition)
    }
}

fn commit_topic(name: &str, topic_id: TopicId, partitions: &[i32]) -> OffsetCommitRequestTopic {
    let partition = |index: &i32| OffsetCommitRequestPartition {
        partition_index: *index,
        committed_offset: 10 + i64::from(*index),
        committed_leader_epoch: 3,
        committed_metadata: Some("m".to_owned()),
        ..Default::default()
    };
    let partitions = partitions.iter().map(partition).collect();
    OffsetCommitRequestTopic { name: name.to_owned(), topic_id, partitions, ..Default::default() }
}

fn at(partition: i32) -> TopicPartition {
    TopicPartition::new("x", partition)
}

#[test]
fn partitions_that_are_not_there_are_refused_in_their_places() {
    let topics = vec![commit_topic("y", Uuid::ZERO, &[0]), commit_topic("x", Uuid::ZERO, &[1, 7, 0])];
    let request = OffsetCommitRequest { group_id: "g".to_owned(), topics, ..Default::default() };
    let (commit, asked) = wire::offset_commit(&request, 9, &OneTopic);
    let wanted: Vec<_> = commit.offsets.iter().map(|it| (it.topic_partition.clone(), it.offset, it.topic_id)).collect();
    assert_eq!(wanted, [(at(1), 11, X), (at(0), 10, X)]);
    assert_eq!((commit.offsets[0].leader_epoch, commit.offsets[0].metadata.as_deref()), (3, Some("m")));
    assert!(!asked.is_all_refused());

    let answers = [(at(1), ErrorCode::None), (at(0), ErrorCode::OffsetMetadataTooLarge)];
    let response = asked.offset_commit_response(Ok(&answers));
    let shown = |response: &atonce_protocol::messages::offset_commit_response::OffsetCommitResponse| {
        let topics = response.topics.iter().flat_map(|topic| {
            topic
                .partitions
                .iter()
                .map(|it| (topic.name.clone(), it.partition_index, ErrorCode::from_wire(it.error_code)))
        });
        topics.collect::<Vec<_>>()
    };
    let missing = ErrorCode::UnknownTopicOrPartition;
    let line = |topic: &str, partition, error| (topic.to_owned(), partition, error);
    assert_eq!(
        shown(&response),
        [
            line("y", 0, missing),
            line("x", 1, ErrorCode::None),
            line("x", 7, missing),
            line("x", 0, ErrorCode::OffsetMetadataTooLarge),
        ]
    );
    let response = asked.offset_commit_response(Err(ErrorCode::NotCoordinator));
    assert_eq!(
        shown(&response),
        [
            line("y", 0, missing),
            line("x", 1, ErrorCode::NotCoordinator),
            line("x", 7, missing),
            line("x", 0, ErrorCode::NotCoordinator),
        ]
    );
}

#[test]
fn from_version_10_on_topics_are_known_by_id() {
    let topics = vec![commit_topic("", OTHER, &[0]), commit_topic("", X, &[0])];
    let request = OffsetCommitRequest { topics, ..Default::default() };
    let (commit, asked) = wire::offset_commit(&request, 10, &OneTopic);
    assert_eq!(commit.offsets.len(), 1);
    assert_eq!(commit.offsets[0].topic_partition, at(0));
    let response = asked.offset_commit_response(Ok(&[(at(0), ErrorCode::None)]));
    let shown: Vec<_> = response.topics.iter().map(|it| (it.topic_id, it.partitions[0].error_code)).collect();
    assert_eq!(shown, [(OTHER, ErrorCode::UnknownTopicId.to_i16()), (X, 0)]);
    let mut bytes = BytesMut::new();
    response.encode(&mut bytes, 10).expect("version 10 can say it");
}

#[test]
fn what_is_refused_altogether_need_not_be_asked() {
    let request = OffsetCommitRequest { topics: vec![commit_topic("y", Uuid::ZERO, &[0, 1])], ..Default::default() };
    assert!(wire::offset_commit(&request, 9, &OneTopic).1.is_all_refused());
    let (_, asked) = wire::offset_commit(&OffsetCommitRequest::default(), 9, &OneTopic);
    assert!(asked.is_all_refused(), "nothing was asked");
}

#[test]
fn members_generations_and_retention_come_over() {
    let request = OffsetCommitRequest {
        group_id: "g".to_owned(),
        generation_id_or_member_epoch: 4,
        member_id: "m".to_owned(),
        group_instance_id: Some("i".to_owned()),
        retention_time_ms: 99,
        ..Default::default()
    };
    let (commit, _) = wire::offset_commit(&request, 2, &OneTopic);
    assert_eq!((commit.version, commit.group.as_str(), commit.generation), (2, "g", 4));
    assert_eq!(commit.member.as_ref().map(|it| it.as_str()), Some("m"));
    assert_eq!(commit.instance.as_ref().map(|it| it.as_str()), Some("i"));
    assert_eq!(commit.retention_ms, Some(99));
    let (commit, _) = wire::offset_commit(&OffsetCommitRequest::default(), 9, &OneTopic);
    assert_eq!((commit.member, commit.instance, commit.retention_ms), (None, None, None));
}

#[test]
fn offsets_of_transactions_go_the_same_way() {
    let partition = |partition_index| TxnOffsetCommitRequestPartition { partition_index, ..Default::default() };
    let topic = |name: &str, topic_id| TxnOffsetCommitRequestTopic {
        name: name.to_owned(),
        topic_id,
        partitions: vec![partition(0), partition(9)],
        ..Default::default()
    };
    let request = TxnOffsetCommitRequest {
        producer_id: 5,
        producer_epoch: 6,
        topics: vec![topic("x", Uuid::ZERO), topic("y", Uuid::ZERO)],
        ..Default::default()
    };
    let (commit, asked) = wire::txn_offset_commit(&request, 5, &OneTopic);
    assert_eq!((commit.producer.id.0, commit.producer.epoch.0, commit.offsets.len()), (5, 6, 1));
    let response = asked.txn_offset_commit_response(Err(ErrorCode::InvalidTxnState));
    let missing = ErrorCode::UnknownTopicOrPartition.to_i16();
    let errors: Vec<_> = response.topics.iter().flat_map(|it| &it.partitions).map(|it| it.error_code).collect();
    assert_eq!(errors, [ErrorCode::InvalidTxnState.to_i16(), missing, missing, missing]);

    let by_id = TxnOffsetCommitRequest { topics: vec![topic("", X), topic("", OTHER)], ..Default::default() };
    let (commit, asked) = wire::txn_offset_commit(&by_id, 6, &OneTopic);
    assert_eq!(commit.offsets.len(), 1);
    let response = asked.txn_offset_commit_response(Ok(&[(at(0), ErrorCode::None)]));
    let errors: Vec<_> = response.topics.iter().flat_map(|it| &it.partitions).map(|it| it.error_code).collect();
    let unknown = ErrorCode::UnknownTopicId.to_i16();
    assert_eq!(errors, [0, missing, unknown, unknown]);
    let (commit, _) = wire::txn_offset_commit(&by_id, 5, &OneTopic);
    assert!(commit.offsets.is_empty(), "version 5 has names");
}

fn fetched(partition: i32, offset: i64) -> FetchedOffset {
    FetchedOffset {
        topic_partition: at(partition),
        topic_id: Uuid::ZERO,
        offset,
        leader_epoch: 2,
        metadata: Arc::from("m"),
        error: ErrorCode::None,
    }
}

#[test]
fn until_version_7_one_group_is_fetched_and_its_error_stands_at_the_top() {
    let topic = OffsetFetchRequestTopic { name: "x".to_owned(), partition_indexes: vec![1, 0], ..Default::default() };
    let request = OffsetFetchRequest {
        group_id: "g".to_owned(),
        topics: Some(vec![topic]),
        require_stable: true,
        ..Default::default()
    };
    let mut groups = wire::offset_fetch(&request, 7, &OneTopic);
    assert_eq!(groups.len(), 1);
    let (fetch, asked) = groups.remove(0);
    let wanted = fetch.partitions.as_ref().map(|it| it.iter().map(|it| it.topic_partition.clone()).collect::<Vec<_>>());
    assert_eq!((fetch.group.as_str(), fetch.require_stable, wanted), ("g", true, Some(vec![at(1), at(0)])));

    let answered = [(asked.clone(), Ok(vec![fetched(1, 11), fetched(0, 10)]))];
    let response = wire::offset_fetch_response(&answered, 7, &OneTopic);
    let partitions = &response.topics[0].partitions;
    let shown: Vec<_> =
        partitions.iter().map(|it| (it.partition_index, it.committed_offset, it.committed_leader_epoch)).collect();
    assert_eq!((shown, response.error_code), (vec![(1, 11, 2), (0, 10, 2)], 0));
    assert!(response.groups.is_empty());

    let refused = [(asked, Err(ErrorCode::NotCoordinator))];
    let response = wire::offset_fetch_response(&refused, 7, &OneTopic);
    assert_eq!(response.error_code, ErrorCode::NotCoordinator.to_i16());
    let error = response.topics[0].partitions[0].error_code;
    assert_eq!(error, ErrorCode::NotCoordinator.to_i16(), "version 1 has no other place for it");
}

#[test]
fn from_version_8_on_many_groups_are_fetched_each_with_its_own_answer() {
    let group = |group_id: &str, topics| OffsetFetchRequestGroup {
        group_id: group_id.to_owned(),
        topics,
        ..Default::default()
    };
    let topic = OffsetFetchRequestTopics { name: "y".to_owned(), partition_indexes: vec![4], ..Default::default() };
    let request =
        OffsetFetchRequest { groups: vec![group("g", Some(vec![topic])), group("h", None)], ..Default::default() };
    let groups = wire::offset_fetch(&request, 9, &OneTopic);
    assert_eq!(groups.iter().map(|(fetch, _)| fetch.group.as_str()).collect::<Vec<_>>(), ["g", "h"]);
    assert_eq!(groups[0].0.partitions.as_ref().map(Vec::len), Some(1), "a name may be any");
    assert_eq!(groups[1].0.partitions, None, "all topics");
    let answers = [Err(ErrorCode::CoordinatorLoadInProgress), Ok(vec![fetched(0, 10), fetched(1, 11)])];
    let answered: Vec<_> = groups.into_iter().map(|(_, asked)| asked).zip(answers).collect();
    let response = wire::offset_fetch_response(&answered, 9, &OneTopic);
    assert_eq!(response.groups[0].error_code, ErrorCode::CoordinatorLoadInProgress.to_i16());
    assert!(response.groups[0].topics.is_empty());
    assert_eq!(response.groups[1].topics.len(), 1, "one topic with two partitions");
    assert_eq!((response.groups[1].topics[0].name.as_str(), response.groups[1].topics[0].partitions.len()), ("x", 2));
}

#[test]
fn from_version_10_on_topics_are_fetched_by_id_and_those_that_are_gone_are_left_out() {
    let topic = |topic_id| OffsetFetchRequestTopics { topic_id, partition_indexes: vec![0], ..Default::default() };
    let group = |topics| OffsetFetchRequestGroup { group_id: "g".to_owned(), topics, ..Default::default() };
    let request = OffsetFetchRequest {
        groups: vec![group(Some(vec![topic(OTHER), topic(X)])), group(None)],
        ..Default::default()
    };
    let groups = wire::offset_fetch(&request, 10, &OneTopic);
    let wanted = groups[0].0.partitions.clone().unwrap();
    assert_eq!((wanted.len(), &wanted[0].topic_partition, wanted[0].topic_id), (1, &at(0), X));
    let elsewhere = FetchedOffset { topic_partition: TopicPartition::new("gone", 0), ..fetched(0, 1) };
    let older = FetchedOffset { topic_id: OTHER, ..fetched(0, 2) };
    let known = FetchedOffset { topic_id: X, ..fetched(1, 3) };
    let answers = [Ok(vec![fetched(0, 10)]), Ok(vec![elsewhere, older, known])];
    let answered: Vec<_> = groups.into_iter().map(|(_, asked)| asked).zip(answers).collect();
    let response = wire::offset_fetch_response(&answered, 10, &OneTopic);
    let shown = |index: usize| {
        let topics = &response.groups[index].topics;
        topics
            .iter()
            .map(|it| (it.topic_id, it.partitions[0].committed_offset, it.partitions[0].error_code))
            .collect::<Vec<_>>()
    };
    assert_eq!(shown(0), [(OTHER, -1, ErrorCode::UnknownTopicId.to_i16()), (X, 10, 0)]);
    assert_eq!(shown(1), [(X, 3, 0)]);
}

#[test]
fn offsets_are_deleted_where_there_is_a_partition() {
    let topic = |name: &str| OffsetDeleteRequestTopic {
        name: name.to_owned(),
        partitions: vec![
            OffsetDeleteRequestPartition { partition_index: 1 },
            OffsetDeleteRequestPartition { partition_index: 2 },
        ],
    };
    let request = OffsetDeleteRequest { group_id: "g".to_owned(), topics: vec![topic("x"), topic("y")] };
    let (delete, asked) = wire::offset_delete(&request, &OneTopic);
    assert_eq!((delete.group.as_str(), delete.partitions), ("g", vec![at(1)]));
    let response = asked.offset_delete_response(&Ok(vec![(at(1), ErrorCode::GroupSubscribedToTopic)]));
    let errors: Vec<_> = response.topics.iter().flat_map(|it| &it.partitions).map(|it| it.error_code).collect();
    let missing = ErrorCode::UnknownTopicOrPartition.to_i16();
    assert_eq!(errors, [ErrorCode::GroupSubscribedToTopic.to_i16(), missing, missing, missing]);
    let refused = asked.offset_delete_response(&Err(ErrorCode::NonEmptyGroup));
    assert_eq!((refused.error_code, refused.topics.len()), (ErrorCode::NonEmptyGroup.to_i16(), 0));
}

#[test]
fn a_join_of_version_0_has_one_time_out_for_both() {
    let request = JoinGroupRequest { session_timeout_ms: 10, rebalance_timeout_ms: 20, ..Default::default() };
    let caller = Caller { client_id: "c", host: "/h" };
    assert_eq!(wire::join_group(&request, 0, &caller).rebalance_timeout_ms, 10);
    let join = wire::join_group(&request, 1, &caller);
    assert_eq!((join.rebalance_timeout_ms, &*join.client_id, &*join.client_host), (20, "c", "/h"));
}

#[test]
fn every_version_of_join_can_say_every_answer() {
    let joined = Joined {
        generation: 1,
        protocol_type: Some("consumer".to_owned()),
        protocol: Some("range".to_owned()),
        leader: Some("m".into()),
        skip_assignment: false,
        member: "m".into(),
        members: Vec::new(),
    };
    let refused = JoinRefused { error: ErrorCode::UnknownMemberId, member: None };
    for version in 0..=9 {
        for reply in [Ok(joined.clone()), Err(refused.clone())] {
            let response = wire::join_group_response(&reply, version);
            let mut bytes = BytesMut::new();
            response.encode(&mut bytes, version).unwrap_or_else(|error| panic!("{version}: {error}"));
        }
    }
    let said = wire::join_group_response(&Ok(joined), 9);
    assert_eq!((said.member_id.as_str(), said.leader.as_str(), said.generation_id), ("m", "m", 1));
    let said = wire::join_group_response(&Err(refused.clone()), 6);
    assert_eq!((said.protocol_name.as_deref(), said.generation_id, said.member_id.as_str()), (Some(""), -1, ""));
    let told = JoinRefused { error: ErrorCode::MemberIdRequired, member: Some("m".into()) };
    assert_eq!(wire::join_group_response(&Err(told), 9).member_id, "m");
    assert_eq!(wire::join_group_response(&Err(refused), 7).protocol_name, None);
}

#[test]
fn until_version_2_one_member_leaves_and_its_error_is_the_requests() {
    let request = LeaveGroupRequest {
        group_id: "g".to_owned(),
        member_id: "m".to_owned(),
        members: vec![MemberIdentity { group_instance_id: Some("i".to_owned()), ..Default::default() }],
        ..Default::default()
    };
    let one = wire::leave_group(&request, 2);
    assert_eq!(one.members.iter().map(|it| it.member.as_ref().map(|it| it.as_str())).collect::<Vec<_>>(), [Some("m")]);
    let many = wire::leave_group(&request, 3);
    assert_eq!(
        (many.members[0].member.as_ref(), many.members[0].instance.as_ref().map(|it| it.as_str())),
        (None, Some("i"))
    );
    let left = MemberLeft { member: Some("m".into()), instance: None, error: ErrorCode::UnknownMemberId };
    let old = wire::leave_group_response(&Ok(vec![left.clone()]), 2);
    assert_eq!((old.error_code, old.members.len()), (ErrorCode::UnknownMemberId.to_i16(), 0));
    let new = wire::leave_group_response(&Ok(vec![left]), 3);
    assert_eq!((new.error_code, new.members[0].error_code), (0, ErrorCode::UnknownMemberId.to_i16()));
    let refused = wire::leave_group_response(&Err(ErrorCode::InvalidGroupId), 3);
    assert_eq!(refused.error_code, ErrorCode::InvalidGroupId.to_i16());
}

#[test]
fn what_is_shown_of_groups_can_be_said_in_every_version() {
    let group = |error: ErrorCode| DescribedGroup {
        group: "g".into(),
        error,
        message: error.is_error().then(|| "Group g not found.".to_owned()),
        state: GroupState::Dead,
        protocol_type: "consumer".to_owned(),
        protocol: "range".to_owned(),
        members: vec![DescribedMember {
            member: "m".into(),
            instance: Some("i".into()),
            client_id: Arc::from("c"),
            client_host: Arc::from("/h"),
            metadata: Bytes::from_static(b"said"),
            assignment: Bytes::from_static(b"given"),
        }],
    };
    let described = wire::describe_groups_response(&[group(ErrorCode::None), group(ErrorCode::GroupIdNotFound)]);
    let (fine, missing) = (&described.groups[0], &described.groups[1]);
    assert_eq!(
        (fine.group_state.as_str(), fine.protocol_data.as_str(), fine.error_message.as_ref()),
        ("Dead", "range", None)
    );
    let member = &fine.members[0];
    assert_eq!((member.member_id.as_str(), member.group_instance_id.as_deref()), ("m", Some("i")));
    assert_eq!((&member.member_metadata[..], &member.member_assignment[..]), (&b"said"[..], &b"given"[..]));
    assert_eq!(missing.error_message.as_deref(), Some("Group g not found."), "an error says which group");
    for version in 0..6 {
        let fine = wire::describe_groups_response(&[group(ErrorCode::None)]);
        fine.encode(&mut BytesMut::new(), version).unwrap_or_else(|error| panic!("{version}: {error}"));
    }
    let listed = ListedGroup {
        group: "g".into(),
        protocol_type: "consumer".to_owned(),
        state: GroupState::Stable,
        group_type: GroupType::Classic,
    };
    let listed = wire::list_groups_response(&[listed]);
    let listed = &listed.groups[0];
    assert_eq!((listed.group_state.as_str(), listed.group_type.as_str()), ("Stable", "classic"));
    assert_eq!((listed.group_id.as_str(), listed.protocol_type.as_str()), ("g", "consumer"));
    let deleted = wire::delete_groups_response(&[("g".into(), ErrorCode::NonEmptyGroup)]);
    assert_eq!(
        (deleted.results[0].group_id.as_str(), deleted.results[0].error_code),
        ("g", ErrorCode::NonEmptyGroup.to_i16())
    );
}
