//! Topics: made, altered, deleted, and what that does to those who use them.

mod raw_client;

use atonce_broker::Broker;
use atonce_kernel::Uuid;
use atonce_protocol::ErrorCode;
use atonce_protocol::messages::create_partitions_request::{CreatePartitionsRequest, CreatePartitionsTopic};
use atonce_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
};
use atonce_protocol::messages::delete_topics_request::{DeleteTopicState, DeleteTopicsRequest};
use atonce_protocol::messages::describe_configs_request::{DescribeConfigsRequest, DescribeConfigsResource};
use atonce_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use atonce_protocol::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use atonce_protocol::records::{BatchBuilder, BatchOptions};
use raw_client::{RawClient, broker, plain_batch};

fn topic(name: &str) -> CreatableTopic {
    CreatableTopic { name: name.to_owned(), num_partitions: 1, replication_factor: 1, ..Default::default() }
}

async fn delete(client: &mut RawClient, name: &str) -> ErrorCode {
    let topics = vec![DeleteTopicState { name: Some(name.to_owned()), ..Default::default() }];
    let response = client.call(6, &DeleteTopicsRequest { topics, ..Default::default() }).await;
    ErrorCode::from_wire(response.responses[0].error_code)
}

#[tokio::test]
async fn what_cannot_be_made_is_refused_for_the_first_reason_that_kafka_would_give() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("there", 1).await;
    client.create_topic("a.b", 1).await;
    let config = |name: &str, value: Option<&str>| CreatableTopicConfig {
        name: name.to_owned(),
        value: value.map(str::to_owned),
        ..Default::default()
    };
    let assignment = |partition_index, broker_ids: &[i32]| CreatableReplicaAssignment {
        partition_index,
        broker_ids: broker_ids.to_vec(),
        ..Default::default()
    };
    let assigned = CreatableTopic { num_partitions: -1, replication_factor: -1, ..topic("assigned") };
    let rows: Vec<(CreatableTopic, ErrorCode)> = vec![
        (topic(""), ErrorCode::InvalidTopicException),
        (topic(".."), ErrorCode::InvalidTopicException),
        (topic("a/b"), ErrorCode::InvalidTopicException),
        (topic("a_b"), ErrorCode::InvalidTopicException),
        (topic("there"), ErrorCode::TopicAlreadyExists),
        (CreatableTopic { num_partitions: 0, ..topic("n") }, ErrorCode::InvalidPartitions),
        (CreatableTopic { num_partitions: -2, ..topic("n") }, ErrorCode::InvalidPartitions),
        (CreatableTopic { num_partitions: i32::MAX, ..topic("n") }, ErrorCode::PolicyViolation),
        (CreatableTopic { replication_factor: 3, ..topic("n") }, ErrorCode::InvalidReplicationFactor),
        (CreatableTopic { configs: vec![config("no.such", Some("1"))], ..topic("n") }, ErrorCode::InvalidConfig),
        (CreatableTopic { configs: vec![config("retention.ms", Some("x"))], ..topic("n") }, ErrorCode::InvalidConfig),
        (CreatableTopic { configs: vec![config("retention.ms", None)], ..topic("n") }, ErrorCode::InvalidConfig),
        (CreatableTopic { assignments: vec![assignment(0, &[1])], ..topic("n") }, ErrorCode::InvalidRequest),
        (
            CreatableTopic { assignments: vec![assignment(1, &[1])], ..assigned.clone() },
            ErrorCode::InvalidReplicaAssignment,
        ),
        (
            CreatableTopic { assignments: vec![assignment(0, &[1, 2])], ..assigned.clone() },
            ErrorCode::InvalidReplicaAssignment,
        ),
        (CreatableTopic { assignments: vec![assignment(0, &[1]), assignment(1, &[1])], ..assigned }, ErrorCode::None),
        (CreatableTopic { num_partitions: -1, replication_factor: -1, ..topic("defaulted") }, ErrorCode::None),
    ];
    for (topic, expected) in rows {
        let what = format!("{topic:?}");
        let response = client.call(7, &CreateTopicsRequest { topics: vec![topic], ..Default::default() }).await;
        assert_eq!(ErrorCode::from_wire(response.topics[0].error_code), expected, "{what}");
    }
    // One that is named twice is not made, and does not hinder another.
    let topics = vec![topic("twice"), topic("good"), topic("twice")];
    let response = client.call(7, &CreateTopicsRequest { topics, ..Default::default() }).await;
    let mut found: Vec<_> = response.topics.iter().map(|it| (it.name.as_str(), it.error_code)).collect();
    found.sort_unstable();
    assert_eq!(found, [("good", 0), ("twice", ErrorCode::InvalidRequest.to_i16())]);
    let request = CreateTopicsRequest { topics: vec![topic("only-asked")], validate_only: true, ..Default::default() };
    assert_eq!(client.call(7, &request).await.topics[0].error_code, 0);
    assert_eq!(delete(&mut client, "only-asked").await, ErrorCode::UnknownTopicOrPartition);
}

#[tokio::test]
async fn a_topic_deleted_and_made_again_inherits_nothing() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    client.create_topic("other", 1).await;
    client.produce(9, None, "t", 0, plain_batch(&["old"])).await;
    let producer = client.init(Some("id")).await;
    client.append(Some("id"), producer, 0, "t", 0, &["open"]).await.expect("appended");
    client.append(Some("id"), producer, 0, "other", 0, &["kept"]).await.expect("appended");
    assert_eq!(delete(&mut client, "t").await, ErrorCode::None);
    assert_eq!(delete(&mut client, "t").await, ErrorCode::UnknownTopicOrPartition);
    client.create_topic("t", 1).await;
    // The transaction ends without the topic that is gone, and leaves no marker in the new one.
    client.end(5, "id", producer, true).await.expect("committed");
    assert_eq!(client.read("other", 0, true).await, ["kept"]);
    assert_eq!(client.end_offset("t", 0, false).await, 0);
    broker.crash().await.expect("crashed");
    broker.restart().await.expect("restarted");
    let mut client = RawClient::of(&broker);
    assert_eq!(client.end_offset("t", 0, false).await, 0);
    assert_eq!(client.read("other", 0, true).await, ["kept"]);
    assert_eq!(delete(&mut client, "__transaction_state").await, ErrorCode::TopicAuthorizationFailed);
}

#[tokio::test]
async fn partitions_are_added_and_written_to_and_never_taken_away() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 2).await;
    let mut raise = async |count| {
        let topics =
            vec![CreatePartitionsTopic { name: "t".to_owned(), count, assignments: None, ..Default::default() }];
        let request = CreatePartitionsRequest { topics, ..Default::default() };
        ErrorCode::from_wire(client.call(3, &request).await.results[0].error_code)
    };
    assert_eq!(raise(2).await, ErrorCode::InvalidPartitions);
    assert_eq!(raise(1).await, ErrorCode::InvalidPartitions);
    assert_eq!(raise(4).await, ErrorCode::None);
    let mut client = RawClient::of(&broker);
    assert_eq!(client.produce(9, None, "t", 3, plain_batch(&["v"])).await.error_code, 0);
    assert_eq!(client.read("t", 3, true).await, ["v"]);
}

#[tokio::test]
async fn a_topic_that_somebody_asks_for_is_made_if_both_sides_want_it() {
    let ask = async |broker: &Broker, allow_auto_topic_creation| {
        let topics = Some(vec![MetadataRequestTopic { name: Some("asked".to_owned()), ..Default::default() }]);
        let request = MetadataRequest { topics, allow_auto_topic_creation, ..Default::default() };
        let response = RawClient::of(broker).call(12, &request).await;
        let topic = &response.topics[0];
        (ErrorCode::from_wire(topic.error_code), topic.partitions.len())
    };
    let first = Broker::builder().temporary().property("num.partitions", "3").start().await.expect("started");
    assert_eq!(ask(&first, false).await, (ErrorCode::UnknownTopicOrPartition, 0));
    // As Kafka says, which only then makes it. Whoever asks again finds it.
    assert_eq!(ask(&first, true).await, (ErrorCode::UnknownTopicOrPartition, 0));
    assert_eq!(ask(&first, false).await, (ErrorCode::None, 3));
    let second =
        Broker::builder().temporary().property("auto.create.topics.enable", "false").start().await.expect("started");
    assert_eq!(ask(&second, true).await, (ErrorCode::UnknownTopicOrPartition, 0));
}

#[tokio::test]
async fn topics_asked_for_by_id_are_found_by_it_whatever_names_stand_there() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 2).await;
    let ask = |name: Option<&str>, topic_id| MetadataRequest {
        topics: Some(vec![MetadataRequestTopic { name: name.map(str::to_owned), topic_id, ..Default::default() }]),
        ..Default::default()
    };
    let id = client.call(12, &ask(Some("t"), Uuid::ZERO)).await.topics[0].topic_id;
    // Java's clients send an empty name along, Kafka's broker does not look at it.
    for name in [None, Some(""), Some("another")] {
        let topic = client.call(12, &ask(name, id)).await.topics.remove(0);
        assert_eq!(
            (ErrorCode::from_wire(topic.error_code), topic.name.as_deref(), topic.topic_id, topic.partitions.len()),
            (ErrorCode::None, Some("t"), id, 2),
        );
        let unknown = Uuid([7; 16]);
        let topic = client.call(12, &ask(name, unknown)).await.topics.remove(0);
        assert_eq!(
            (ErrorCode::from_wire(topic.error_code), topic.name, topic.topic_id),
            (ErrorCode::UnknownTopicId, None, unknown),
        );
    }
}

#[tokio::test]
async fn settings_are_set_deleted_and_described_with_their_source() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let alter = |name: &str, config_operation, value: Option<&str>| IncrementalAlterConfigsRequest {
        resources: vec![AlterConfigsResource {
            resource_type: 2,
            resource_name: "t".to_owned(),
            configs: vec![AlterableConfig {
                name: name.to_owned(),
                config_operation,
                value: value.map(str::to_owned),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let steps = [
        ("retention.ms", 0, Some("1000"), ErrorCode::None, ("1000", 1)),
        ("retention.ms", 0, Some("many"), ErrorCode::InvalidConfig, ("1000", 1)),
        ("retention.ms", 2, Some("1"), ErrorCode::InvalidConfig, ("1000", 1)),
        ("retention.ms", 1, None, ErrorCode::None, ("604800000", 5)),
        ("cleanup.policy", 2, Some("compact"), ErrorCode::None, ("delete,compact", 1)),
        ("cleanup.policy", 3, Some("delete"), ErrorCode::None, ("compact", 1)),
    ];
    for (name, operation, value, expected, described) in steps {
        let response = client.call(1, &alter(name, operation, value)).await;
        assert_eq!(ErrorCode::from_wire(response.responses[0].error_code), expected, "{name} {operation} {value:?}");
        let request = DescribeConfigsRequest {
            resources: vec![DescribeConfigsResource {
                resource_type: 2,
                resource_name: "t".to_owned(),
                configuration_keys: Some(vec![name.to_owned()]),
                ..Default::default()
            }],
            ..Default::default()
        };
        let response = client.call(4, &request).await;
        let found = &response.results[0].configs[0];
        assert_eq!((found.value.as_deref().unwrap_or_default(), found.config_source), described, "{name}");
    }
    // A compacted topic takes no record without a key, and says which ones it means.
    let response = client.produce(9, None, "t", 0, plain_batch(&["v", "w"])).await;
    assert_eq!(ErrorCode::from_wire(response.error_code), ErrorCode::InvalidRecord);
    assert_eq!(response.record_errors.iter().map(|error| error.batch_index).collect::<Vec<_>>(), [0, 1]);
}

#[tokio::test]
async fn records_from_too_far_a_time_are_refused() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    let config = |name: &str, value: &str| CreatableTopicConfig {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        ..Default::default()
    };
    let topics = vec![
        topic("plain"),
        CreatableTopic { configs: vec![config("message.timestamp.before.max.ms", "1000")], ..topic("recent") },
        CreatableTopic { configs: vec![config("message.timestamp.type", "LogAppendTime")], ..topic("stamped") },
    ];
    let request = CreateTopicsRequest { topics, ..Default::default() };
    assert!(client.call(7, &request).await.topics.iter().all(|topic| topic.error_code == 0));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let now = i64::try_from(now.as_millis()).expect("before the end of time");
    let hour = 3_600_000;
    let rows = [
        ("plain", now, ErrorCode::None),
        ("plain", now + hour / 2, ErrorCode::None),
        ("plain", now + 2 * hour, ErrorCode::InvalidTimestamp),
        ("plain", 0, ErrorCode::None),
        ("plain", -1, ErrorCode::None),
        ("recent", now - hour, ErrorCode::InvalidTimestamp),
        ("recent", now, ErrorCode::None),
        ("stamped", now + 2 * hour, ErrorCode::None),
    ];
    for (topic, timestamp, expected) in rows {
        let mut builder = BatchBuilder::default();
        builder.append(timestamp, None, Some(b"v"), []).expect("it fits");
        let batch = builder.finish(&BatchOptions::default()).expect("a batch");
        let response = client.produce(9, None, topic, 0, batch).await;
        assert_eq!(ErrorCode::from_wire(response.error_code), expected, "{topic} at {timestamp}");
        let is_stamped = topic == "stamped" && expected == ErrorCode::None;
        assert_eq!(response.log_append_time_ms >= now, is_stamped, "{topic}");
    }
}
