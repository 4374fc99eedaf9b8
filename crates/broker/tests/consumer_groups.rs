//! Groups of the consumer protocol (KIP-848) over the wire: what the coordinator crate decides reaches the log, survives a crash, and hears
//! of topics. What is decided is tested there.

use atonce_protocol::ErrorCode;
use atonce_protocol::messages::api_versions_request::ApiVersionsRequest;
use atonce_protocol::messages::consumer_group_describe_request::ConsumerGroupDescribeRequest;
use atonce_protocol::messages::consumer_group_heartbeat_request::ConsumerGroupHeartbeatRequest;
use atonce_protocol::messages::consumer_group_heartbeat_response::ConsumerGroupHeartbeatResponse;
use atonce_protocol::messages::create_partitions_request::{CreatePartitionsRequest, CreatePartitionsTopic};
use atonce_protocol::messages::delete_groups_request::DeleteGroupsRequest;
use atonce_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use atonce_protocol::messages::offset_commit_request::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use atonce_protocol::messages::update_features_request::{FeatureUpdateKey, UpdateFeaturesRequest};

mod raw_client;
use raw_client::{RawClient, broker};

fn enter(member: &str, topics: &[&str]) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest {
        group_id: "g".to_owned(),
        member_id: member.to_owned(),
        rebalance_timeout_ms: 30_000,
        subscribed_topic_names: Some(topics.iter().map(|name| (*name).to_owned()).collect()),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    }
}

fn stay(member: &str, member_epoch: i32) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest {
        group_id: "g".to_owned(),
        member_id: member.to_owned(),
        member_epoch,
        ..Default::default()
    }
}

/// Partitions given, or nothing if the answer does not say.
fn given(answer: &ConsumerGroupHeartbeatResponse) -> Option<Vec<i32>> {
    let topics = &answer.assignment.as_ref()?.topic_partitions;
    Some(topics.iter().flat_map(|topic| topic.partitions.iter().copied()).collect())
}

async fn beat(client: &mut RawClient, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse {
    let answer = client.call(1, &request).await;
    assert_eq!(ErrorCode::from_wire(answer.error_code), ErrorCode::None, "{:?}", answer.error_message);
    answer
}

async fn commit(client: &mut RawClient, member: &str, epoch: i32, partition: i32) -> ErrorCode {
    let request = OffsetCommitRequest {
        group_id: "g".to_owned(),
        generation_id_or_member_epoch: epoch,
        member_id: member.to_owned(),
        topics: vec![OffsetCommitRequestTopic {
            name: "x".to_owned(),
            partitions: vec![OffsetCommitRequestPartition {
                partition_index: partition,
                committed_offset: 7,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let answer = client.call(9, &request).await;
    ErrorCode::from_wire(answer.topics[0].partitions[0].error_code)
}

#[tokio::test]
async fn a_member_joins_reads_on_and_leaves_and_a_crash_changes_nothing() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("x", 2).await;
    let joined = beat(&mut client, enter("a", &["x"])).await;
    assert_eq!((joined.member_epoch, joined.heartbeat_interval_ms, given(&joined)), (2, 5_000, Some(vec![0, 1])));
    assert_eq!(commit(&mut client, "a", 2, 0).await, ErrorCode::None);
    broker.crash().await.expect("crashed");
    broker.restart().await.expect("restarted");
    let mut client = RawClient::of(&broker);
    let again = beat(&mut client, stay("a", 2)).await;
    assert_eq!((again.member_epoch, given(&again)), (2, None), "it did not notice");
    assert_eq!(commit(&mut client, "a", 1, 0).await, ErrorCode::StaleMemberEpoch);
    assert_eq!(client.committed("g", "x", true).await, Ok(7));
    let described = client.call(1, &describe()).await;
    let group = &described.groups[0];
    assert_eq!((group.group_state.as_str(), group.group_epoch, group.members.len()), ("Stable", 2, 1));
    assert_eq!(group.members[0].assignment.topic_partitions[0].topic_name, "x");
    assert_eq!(group.members[0].client_id, "raw");
    assert_eq!(beat(&mut client, stay("a", -1)).await.member_epoch, -1);
    let named_twice = DeleteGroupsRequest { groups_names: vec!["g".to_owned(), "g".to_owned()], ..Default::default() };
    let deleted = client.call(2, &named_twice).await;
    assert_eq!(deleted.results.iter().map(|it| it.error_code).collect::<Vec<_>>(), [0], "it is answered once");
}

fn describe() -> ConsumerGroupDescribeRequest {
    ConsumerGroupDescribeRequest { group_ids: vec!["g".to_owned()], ..Default::default() }
}

#[tokio::test]
async fn groups_hear_of_topics_that_come_grow_and_go() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    assert_eq!(given(&beat(&mut client, enter("a", &["x"])).await), Some(vec![]), "there is no such topic yet");
    client.create_topic("x", 1).await;
    // An assignment follows another after a second at the earliest.
    assert_eq!(until_given(&mut client, 2).await, [0]);
    let more = CreatePartitionsRequest {
        topics: vec![CreatePartitionsTopic { name: "x".to_owned(), count: 3, assignments: None, ..Default::default() }],
        timeout_ms: 10_000,
        ..Default::default()
    };
    assert_eq!(client.call(3, &more).await.results[0].error_code, 0);
    assert_eq!(until_given(&mut client, 3).await, [0, 1, 2]);
    assert_eq!(commit(&mut client, "a", 4, 0).await, ErrorCode::None);
    client.delete_topic("x").await;
    assert_eq!(until_given(&mut client, 4).await, [0_i32; 0]);
    client.create_topic("x", 1).await;
    assert_eq!(client.committed("g", "x", false).await, Ok(-1), "offsets went with their topic");
}

/// Sends heartbeats in the epoch until one is answered with an assignment.
async fn until_given(client: &mut RawClient, mut epoch: i32) -> Vec<i32> {
    for _ in 0..1_000 {
        let answer = beat(client, stay("a", epoch)).await;
        epoch = answer.member_epoch;
        if let Some(partitions) = given(&answer) {
            return partitions;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("no assignment for epoch {epoch}");
}

#[tokio::test]
async fn a_group_s_own_settings_hold_for_its_members() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    let set = IncrementalAlterConfigsRequest {
        resources: vec![AlterConfigsResource {
            resource_type: 32,
            resource_name: "g".to_owned(),
            configs: vec![AlterableConfig {
                name: "consumer.heartbeat.interval.ms".to_owned(),
                config_operation: 0,
                value: Some("7000".to_owned()),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let answer = client.call(1, &set).await;
    assert_eq!(answer.responses[0].error_code, 0, "{:?}", answer.responses[0].error_message);
    assert_eq!(beat(&mut client, enter("a", &["x"])).await.heartbeat_interval_ms, 7_000);
}

#[tokio::test]
async fn the_protocol_is_offered_as_a_feature_and_refused_without_it() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    let asked = ApiVersionsRequest {
        client_software_name: "test".to_owned(),
        client_software_version: "1".to_owned(),
        ..Default::default()
    };
    let answer = client.call(4, &asked).await;
    let feature = answer.finalized_features.iter().find(|feature| feature.name == "group.version");
    assert_eq!(feature.map(|feature| feature.max_version_level), Some(1));
    let lower = FeatureUpdateKey {
        feature: "group.version".to_owned(),
        max_version_level: 0,
        upgrade_type: 2,
        ..Default::default()
    };
    let lower = UpdateFeaturesRequest { feature_updates: vec![lower], ..Default::default() };
    assert_eq!(client.call(2, &lower).await.error_code, 0);
    let refused = client.call(1, &enter("a", &["x"])).await;
    assert_eq!(ErrorCode::from_wire(refused.error_code), ErrorCode::UnsupportedVersion);
    let refused = client.call(1, &describe()).await;
    assert_eq!(ErrorCode::from_wire(refused.groups[0].error_code), ErrorCode::UnsupportedVersion);
}

#[tokio::test]
async fn a_pattern_finds_topics_by_itself() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("x", 1).await;
    let by_pattern = ConsumerGroupHeartbeatRequest {
        subscribed_topic_names: None,
        subscribed_topic_regex: Some("[xy]".to_owned()),
        ..enter("a", &[])
    };
    let joined = beat(&mut client, by_pattern).await;
    let first = given(&joined).filter(|partitions| !partitions.is_empty());
    let first = match first {
        Some(partitions) => partitions,
        None => until_given(&mut client, joined.member_epoch).await,
    };
    assert_eq!(first, [0]);
    let bad = ConsumerGroupHeartbeatRequest { subscribed_topic_regex: Some("(".to_owned()), ..enter("b", &[]) };
    let refused = client.call(1, &bad).await;
    assert_eq!(ErrorCode::from_wire(refused.error_code), ErrorCode::InvalidRegularExpression);
}
