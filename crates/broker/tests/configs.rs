//! Settings: what may be set for whom, who is told what, and what holds. Codes and words as Apache Kafka 4.4 answered them.

mod raw_client;

use atonce_broker::Broker;
use atonce_kernel::Sequence;
use atonce_protocol::ErrorCode;
use atonce_protocol::messages::alter_configs_request::{
    AlterConfigsRequest, AlterConfigsResource as Replaced, AlterableConfig as Replacement,
};
use atonce_protocol::messages::describe_configs_request::{DescribeConfigsRequest, DescribeConfigsResource};
use atonce_protocol::messages::describe_configs_response::{DescribeConfigsResourceResult, DescribeConfigsResult};
use atonce_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use atonce_protocol::records::{BatchBuilder, BatchOptions, BatchView, Compression};
use raw_client::{RawClient, broker, plain_batch};

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const LOGGER: i8 = 8;
const CLIENT_METRICS: i8 = 16;
const GROUP: i8 = 32;

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

type Change<'a> = (&'a str, i8, Option<&'a str>);

fn resource(resource_type: i8, name: &str, changes: &[Change<'_>]) -> AlterConfigsResource {
    AlterConfigsResource {
        resource_type,
        resource_name: name.to_owned(),
        configs: changes
            .iter()
            .map(|(name, config_operation, value)| AlterableConfig {
                name: (*name).to_owned(),
                config_operation: *config_operation,
                value: value.map(str::to_owned),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    }
}

async fn alter(
    client: &mut RawClient,
    resource_type: i8,
    name: &str,
    changes: &[Change<'_>],
) -> (ErrorCode, Option<String>) {
    let resources = vec![resource(resource_type, name, changes)];
    let mut response = client.call(1, &IncrementalAlterConfigsRequest { resources, ..Default::default() }).await;
    let altered = response.responses.remove(0);
    (ErrorCode::from_wire(altered.error_code), altered.error_message)
}

async fn describe(client: &mut RawClient, resource_type: i8, name: &str) -> DescribeConfigsResult {
    let resource = DescribeConfigsResource {
        resource_type,
        resource_name: name.to_owned(),
        configuration_keys: None,
        ..Default::default()
    };
    let request = DescribeConfigsRequest { resources: vec![resource], include_synonyms: true, ..Default::default() };
    client.call(4, &request).await.results.remove(0)
}

/// Value, source, and synonyms with their sources.
type Described = (Option<String>, i8, Vec<(String, String, i8)>);

async fn key(client: &mut RawClient, resource_type: i8, name: &str, key: &str) -> Option<Described> {
    let described = describe(client, resource_type, name).await;
    let found: DescribeConfigsResourceResult = described.configs.into_iter().find(|it| it.name == key)?;
    let synonyms = found.synonyms.into_iter().map(|it| (it.name, it.value.unwrap_or_default(), it.source)).collect();
    Some((found.value, found.config_source, synonyms))
}

fn standing(name: &str, value: &str, source: i8) -> (String, String, i8) {
    (name.to_owned(), value.to_owned(), source)
}

#[tokio::test]
async fn what_cannot_be_set_is_refused_with_kafkas_code_and_words() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let rows: &[(i8, &str, &[Change<'_>], ErrorCode, &str)] = &[
        (
            TOPIC,
            "none",
            &[("retention.ms", SET, Some("1"))],
            ErrorCode::UnknownTopicOrPartition,
            "The topic 'none' does not exist.",
        ),
        (
            TOPIC,
            "",
            &[("retention.ms", SET, Some("1"))],
            ErrorCode::InvalidRequest,
            "Default topic resources are not allowed.",
        ),
        (TOPIC, "t", &[("nix", SET, Some("1"))], ErrorCode::InvalidConfig, "Unknown topic config name: nix"),
        (
            TOPIC,
            "t",
            &[("nix", APPEND, Some("1"))],
            ErrorCode::InvalidConfig,
            "Can't APPEND to key nix because its type is not LIST.",
        ),
        (
            TOPIC,
            "t",
            &[("retention.ms", SET, None)],
            ErrorCode::InvalidRequest,
            "Null value not supported for : retention.ms",
        ),
        (
            TOPIC,
            "t",
            &[("retention.ms", SET, Some("x"))],
            ErrorCode::InvalidConfig,
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        (
            TOPIC,
            "t",
            &[("retention.ms", SET, Some("-5"))],
            ErrorCode::InvalidConfig,
            "Invalid value -5 for configuration retention.ms: Value must be at least -1",
        ),
        (
            TOPIC,
            "t",
            &[("retention.ms", SUBTRACT, Some("5"))],
            ErrorCode::InvalidConfig,
            "Can't SUBTRACT to key retention.ms because its type is not LIST.",
        ),
        (
            TOPIC,
            "t",
            &[("retention.ms", SET, Some("5")), ("retention.ms", DELETE, None)],
            ErrorCode::InvalidRequest,
            "Error due to duplicate config keys",
        ),
        (
            TOPIC,
            "t",
            &[("cleanup.policy", SET, Some("nix"))],
            ErrorCode::InvalidConfig,
            "Invalid value nix for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        (
            TOPIC,
            "t",
            &[("compression.type", SET, Some("none"))],
            ErrorCode::InvalidConfig,
            "Invalid value none for configuration compression.type: String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
        ),
        (
            TOPIC,
            "t",
            &[("compression.zstd.level", SET, Some("99"))],
            ErrorCode::InvalidConfig,
            "Invalid value 99 for configuration compression.zstd.level: Value must be no more than 22",
        ),
        (
            TOPIC,
            "t",
            &[("segment.bytes", SET, Some("14"))],
            ErrorCode::InvalidConfig,
            "Invalid value 14 for configuration segment.bytes: Value must be at least 1048576",
        ),
        (
            TOPIC,
            "t",
            &[("min.cleanable.dirty.ratio", SET, Some("2.0"))],
            ErrorCode::InvalidConfig,
            "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
        (
            TOPIC,
            "t",
            &[("unclean.leader.election.enable", SET, Some("maybe"))],
            ErrorCode::InvalidConfig,
            "Invalid value maybe for configuration unclean.leader.election.enable: Expected value to be either true or false",
        ),
        (
            TOPIC,
            "t",
            &[("remote.storage.enable", SET, Some("true"))],
            ErrorCode::InvalidConfig,
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.",
        ),
        (
            TOPIC,
            "t",
            &[("min.compaction.lag.ms", SET, Some("10")), ("max.compaction.lag.ms", SET, Some("5"))],
            ErrorCode::InvalidConfig,
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
        ),
        (
            BROKER,
            "1",
            &[("num.partitions", SET, Some("3"))],
            ErrorCode::InvalidRequest,
            "Cannot update these configs dynamically: [num.partitions]",
        ),
        (
            BROKER,
            "",
            &[("log.retention.ms", SET, Some("x"))],
            ErrorCode::InvalidRequest,
            "Invalid value x for configuration log.retention.ms: Not a number of type LONG",
        ),
        (
            BROKER,
            "7",
            &[("message.max.bytes", SET, Some("3"))],
            ErrorCode::InvalidRequest,
            "Unexpected broker id, expected 1, but received 7",
        ),
        (
            BROKER,
            "x",
            &[("message.max.bytes", SET, Some("3"))],
            ErrorCode::InvalidRequest,
            "Node id must be an integer, but it is: x",
        ),
        (
            LOGGER,
            "1",
            &[("kafka.nix", SET, Some("DEBUG"))],
            ErrorCode::InvalidConfig,
            "Logger kafka.nix does not exist!",
        ),
        (
            CLIENT_METRICS,
            "s",
            &[("interval.ms", SET, Some("1"))],
            ErrorCode::InvalidRequest,
            "Invalid value 1 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        ),
        (
            CLIENT_METRICS,
            "s",
            &[("nix", SET, Some("1"))],
            ErrorCode::InvalidRequest,
            "Unknown client metrics configuration: nix",
        ),
        (
            CLIENT_METRICS,
            "",
            &[("interval.ms", SET, Some("1000"))],
            ErrorCode::InvalidRequest,
            "Subscription name can't be empty",
        ),
        (GROUP, "g", &[("nix", SET, Some("1"))], ErrorCode::InvalidConfig, "Unknown group config name: nix"),
        (
            GROUP,
            "",
            &[("consumer.session.timeout.ms", SET, Some("50000"))],
            ErrorCode::InvalidRequest,
            "Default group resources are not allowed.",
        ),
        (0, "x", &[("a", SET, Some("1"))], ErrorCode::InvalidRequest, "Unknown resource type 0"),
        (99, "x", &[("a", SET, Some("1"))], ErrorCode::InvalidRequest, "Unknown resource type 99"),
    ];
    for (resource_type, name, changes, code, message) in rows {
        let found = alter(&mut client, *resource_type, name, changes).await;
        assert_eq!(found, (*code, Some((*message).to_owned())), "{resource_type} {name:?} {changes:?}");
    }
    assert_eq!(
        alter(&mut client, TOPIC, "t", &[("retention.ms", 9, Some("5"))]).await.0,
        ErrorCode::UnknownServerError
    );
    assert_eq!(alter(&mut client, TOPIC, "a/b", &[]).await.0, ErrorCode::InvalidTopicException);
    // Nothing of all that has stuck.
    let described = describe(&mut client, TOPIC, "t").await;
    let set: Vec<(&str, i8)> = (described.configs.iter().filter(|it| it.config_source != 5))
        .map(|it| (it.name.as_str(), it.config_source))
        .collect();
    assert_eq!(set, [("min.insync.replicas", 3)], "what every cluster sets");
}

#[tokio::test]
async fn one_that_is_named_twice_is_refused_each_time_and_the_next_one_is_altered() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    client.create_topic("u", 1).await;
    let change: &[Change<'_>] = &[("retention.ms", SET, Some("7"))];
    let resources = vec![resource(TOPIC, "t", change), resource(TOPIC, "u", change), resource(TOPIC, "t", change)];
    let response = client.call(1, &IncrementalAlterConfigsRequest { resources, ..Default::default() }).await;
    let codes: Vec<i16> = response.responses.iter().map(|it| it.error_code).collect();
    let refused = ErrorCode::InvalidRequest.to_i16();
    assert_eq!(codes, [refused, 0, refused]);
    assert_eq!(key(&mut client, TOPIC, "t", "retention.ms").await.expect("there").1, 5);
    assert_eq!(key(&mut client, TOPIC, "u", "retention.ms").await.expect("there").1, 1);
}

#[tokio::test]
async fn lists_grow_and_shrink_by_words() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    for (operation, value, expected) in [
        (APPEND, "compact", "delete,compact"),
        (APPEND, "compact,delete", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SET, "", ""),
    ] {
        let altered = alter(&mut client, TOPIC, "t", &[("cleanup.policy", operation, Some(value))]).await;
        assert_eq!(altered, (ErrorCode::None, None));
        let found = key(&mut client, TOPIC, "t", "cleanup.policy").await.expect("there");
        assert_eq!(found.0.as_deref(), Some(expected));
    }
}

#[tokio::test]
async fn what_a_broker_is_told_while_it_runs_holds_for_topics_that_say_nothing_and_over_a_crash() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    client.create_topic("own", 1).await;
    alter(&mut client, TOPIC, "own", &[("max.message.bytes", SET, Some("2000000"))]).await;
    let big = plain_batch(&[&"x".repeat(2000)]);
    assert_eq!(client.produce(9, None, "t", 0, big.clone()).await.error_code, 0);
    let set = alter(
        &mut client,
        BROKER,
        "",
        &[("message.max.bytes", SET, Some("1000")), ("log.retention.ms", SET, Some("5"))],
    );
    assert_eq!(set.await, (ErrorCode::None, None));
    for _ in 0..2 {
        let refused = client.produce(9, None, "t", 0, big.clone()).await.error_code;
        assert_eq!(ErrorCode::from_wire(refused), ErrorCode::MessageTooLarge);
        assert_eq!(client.produce(9, None, "own", 0, big.clone()).await.error_code, 0);
        assert_eq!(
            key(&mut client, TOPIC, "t", "retention.ms").await,
            Some((
                Some("5".to_owned()),
                3,
                vec![standing("log.retention.ms", "5", 3), standing("log.retention.hours", "168", 5)]
            ))
        );
        assert_eq!(
            key(&mut client, TOPIC, "own", "max.message.bytes").await,
            Some((
                Some("2000000".to_owned()),
                1,
                vec![
                    standing("max.message.bytes", "2000000", 1),
                    standing("message.max.bytes", "1000", 3),
                    standing("message.max.bytes", "1048588", 5)
                ]
            ))
        );
        let all = describe(&mut client, BROKER, "").await;
        let names: Vec<&str> = all.configs.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["log.retention.ms", "message.max.bytes", "min.insync.replicas"]);
        broker.crash().await.expect("crashed");
        broker.restart().await.expect("restarted");
        client = RawClient::of(&broker);
    }
    // This node's own word is stronger than that for all.
    alter(&mut client, BROKER, "1", &[("message.max.bytes", SET, Some("3000"))]).await;
    assert_eq!(client.produce(9, None, "t", 0, big.clone()).await.error_code, 0);
    alter(&mut client, BROKER, "1", &[("message.max.bytes", DELETE, None)]).await;
    alter(&mut client, BROKER, "", &[("message.max.bytes", DELETE, None)]).await;
    assert_eq!(client.produce(9, None, "t", 0, big).await.error_code, 0);
    assert_eq!(
        key(&mut client, BROKER, "1", "message.max.bytes").await,
        Some((Some("1048588".to_owned()), 5, vec![standing("message.max.bytes", "1048588", 5)]))
    );
}

#[tokio::test]
async fn a_brokers_setting_that_is_not_known_here_is_taken_as_kafka_takes_it_and_shown_to_nobody() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    let change: &[Change<'_>] = &[("sasl.kerberos.min.time.before.relogin", SET, Some("58000"))];
    assert_eq!(alter(&mut client, BROKER, "1", change).await, (ErrorCode::None, None));
    assert_eq!(key(&mut client, BROKER, "1", "sasl.kerberos.min.time.before.relogin").await, None);
}

#[tokio::test]
async fn replacing_sets_back_what_is_not_named() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    alter(&mut client, TOPIC, "t", &[("retention.ms", SET, Some("7")), ("segment.ms", SET, Some("8"))]).await;
    let mut replace = async |resource_type, name: &str, configs: &[(&str, Option<&str>)], validate_only| {
        let configs = configs.iter().map(|(name, value)| Replacement {
            name: (*name).to_owned(),
            value: value.map(str::to_owned),
            ..Default::default()
        });
        let resource = Replaced {
            resource_type,
            resource_name: name.to_owned(),
            configs: configs.collect(),
            ..Default::default()
        };
        let request = AlterConfigsRequest { resources: vec![resource], validate_only, ..Default::default() };
        ErrorCode::from_wire(client.call(2, &request).await.responses[0].error_code)
    };
    assert_eq!(replace(TOPIC, "t", &[("retention.ms", Some("9"))], true).await, ErrorCode::None);
    assert_eq!(replace(TOPIC, "t", &[("retention.ms", None)], false).await, ErrorCode::InvalidRequest);
    assert_eq!(replace(LOGGER, "1", &[("root", Some("INFO"))], false).await, ErrorCode::InvalidRequest);
    assert_eq!(replace(BROKER, "1", &[], false).await, ErrorCode::None);
    assert_eq!(replace(TOPIC, "t", &[("retention.ms", Some("10"))], false).await, ErrorCode::None);
    let mut client = RawClient::of(&broker);
    assert_eq!(key(&mut client, TOPIC, "t", "retention.ms").await.expect("there").0.as_deref(), Some("10"));
    assert_eq!(key(&mut client, TOPIC, "t", "segment.ms").await.expect("there").1, 5);
}

#[tokio::test]
async fn groups_and_client_metrics_keep_what_is_set_for_them() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    let set = alter(&mut client, GROUP, "g/1", &[("consumer.session.timeout.ms", SET, Some("50000"))]).await;
    assert_eq!(set, (ErrorCode::None, None));
    let set = alter(&mut client, CLIENT_METRICS, "s", &[("metrics", SET, Some("a,b"))]).await;
    assert_eq!(set, (ErrorCode::None, None));
    broker.crash().await.expect("crashed");
    broker.restart().await.expect("restarted");
    let mut client = RawClient::of(&broker);
    let (value, source, synonyms) = key(&mut client, GROUP, "g/1", "consumer.session.timeout.ms").await.expect("there");
    assert_eq!((value.as_deref(), source), (Some("50000"), 8));
    assert_eq!(synonyms[0], standing("consumer.session.timeout.ms", "50000", 8));
    assert_eq!(key(&mut client, GROUP, "other", "consumer.session.timeout.ms").await.expect("there").1, 5);
    assert_eq!(key(&mut client, CLIENT_METRICS, "s", "metrics").await.expect("there").0.as_deref(), Some("a,b"));
}

#[tokio::test]
async fn a_key_that_does_not_exist_stops_the_start_and_names_the_nearest() {
    let refused = Broker::builder().temporary().property("num.partition", "4").start().await.expect_err("unknown");
    assert_eq!(refused.to_string(), "Unknown configuration num.partition. Did you mean num.partitions?");
}

#[tokio::test]
async fn a_topic_stores_batches_compressed_as_it_asks_whatever_they_come_as() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let all = [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
    let asked = [("uncompressed", all[0]), ("gzip", all[1]), ("snappy", all[2]), ("lz4", all[3]), ("zstd", all[4])];
    let value = "a value that compresses ".repeat(20);
    let producer = client.init(None).await;
    let mut sequence = 0;
    for (name, stored) in asked {
        assert_eq!(alter(&mut client, TOPIC, "t", &[("compression.type", SET, Some(name))]).await.0, ErrorCode::None);
        for compression in all {
            let mut builder = BatchBuilder::default();
            builder.append(1_700_000_000_000, Some(b"k"), Some(value.as_bytes()), []).expect("it fits");
            let options =
                BatchOptions { producer, base_sequence: Sequence(sequence), compression, ..BatchOptions::default() };
            sequence += 1;
            let batch = builder.finish(&options).expect("a batch");
            let produced = client.produce(9, None, "t", 0, batch.clone()).await;
            assert_eq!(produced.error_code, 0, "{:?}", produced.error_message);
            // Sent again it is the same one, compressed anew or not.
            let again = client.produce(9, None, "t", 0, batch).await;
            assert_eq!((again.error_code, again.base_offset), (0, produced.base_offset));
            let fetched = client.fetch("t", 0, produced.base_offset, true).await;
            let records = fetched.responses[0].partitions[0].records.clone().expect("records");
            let view = BatchView::new(&records).expect("a batch");
            view.validate().expect("its checksum fits");
            assert_eq!(view.compression(), Ok(stored), "{compression} to {name}");
            let payload = view.decompress(1 << 20).expect("unpacks");
            let found: Vec<Vec<u8>> =
                view.records_in(&payload).map(|it| it.expect("a record").value.expect("a value").to_vec()).collect();
            assert_eq!(found, [value.as_bytes()]);
            assert_eq!((view.producer(), view.base_sequence()), (producer, options.base_sequence));
        }
    }
}

#[tokio::test]
async fn a_batch_that_unpacks_to_more_than_the_topic_allows_is_refused() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    alter(&mut client, TOPIC, "t", &[("max.decompressed.message.bytes", SET, Some("100000"))]).await;
    let compressed = |bytes: usize| {
        let mut builder = BatchBuilder::default();
        builder.append(1_700_000_000_000, None, Some(&vec![0; bytes]), []).expect("it fits");
        let options = BatchOptions { compression: Compression::Zstd, ..BatchOptions::default() };
        builder.finish(&options).expect("a batch")
    };
    assert_eq!(client.produce(9, None, "t", 0, compressed(90_000)).await.error_code, 0);
    let refused = client.produce(9, None, "t", 0, compressed(110_000)).await;
    assert_ne!(refused.error_code, 0);
    assert_eq!(client.end_offset("t", 0, false).await, 1);
}
