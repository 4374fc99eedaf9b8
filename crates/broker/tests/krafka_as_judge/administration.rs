//! krafka's administrator: what it makes, changes and is told.

use std::collections::BTreeMap;

use krafka::admin::{
    AbortTransactionOptions, AdminClient, AlterConsumerGroupOffsetsOptions, ConfigOp, ConfigResource,
    ConsumerGroupLagOptions, ListConsumerGroupOffsetsOptions, ListOffsetsOptions, OffsetSpec, TopicPartition,
    TopicPartitionReplica,
};
use krafka::consumer::{GroupProtocol, IsolationLevel};
use krafka::{KrafkaError, Record};

use crate::{broker, connect, create, groups, reader, transactional, values_until_end, write_end};

/// The name of the error code that was answered.
fn code<T: std::fmt::Debug>(result: &Result<T, KrafkaError>) -> String {
    match result {
        Err(KrafkaError::Broker { code, .. }) => format!("{code:?}"),
        other => format!("{other:?}"),
    }
}

fn at(partition: i32) -> TopicPartition {
    TopicPartition::new("t", partition)
}

async fn offset(admin: &AdminClient, partition: i32, spec: OffsetSpec, read_committed: bool) -> i64 {
    let options = ListOffsetsOptions::default().read_committed(read_committed);
    let found = admin.list_offsets([(at(partition), spec)], options).await.expect("asked");
    found[&at(partition)].as_ref().expect("found").offset
}

#[tokio::test]
async fn topics_are_made_described_grown_and_deleted() {
    let broker = broker("2").await;
    let kafka = connect(&broker).await;
    let admin = kafka.admin();
    create(&kafka, "t", 2).await;
    let again = krafka::admin::NewTopic::new("t", 2, 1).expect("a topic");
    let again = admin.create_topics([again], Default::default()).await.expect("asked");
    assert_eq!(code(&again["t"]), "TopicAlreadyExists");
    let grown = admin.create_partitions([("t", 4), ("none", 4)], Default::default()).await.expect("asked");
    assert!(grown["t"].is_ok(), "{grown:?}");
    assert_eq!(code(&grown["none"]), "UnknownTopicOrPartition");
    let fewer = admin.create_partitions([("t", 1)], Default::default()).await.expect("asked");
    assert_eq!(code(&fewer["t"]), "InvalidPartitions");
    let described = admin.describe_topics(["t", "none"], Default::default()).await.expect("asked");
    let found = described["t"].as_ref().expect("described");
    let partitions: Vec<(i32, Option<i32>)> = found.partitions.iter().map(|it| (it.partition, it.leader)).collect();
    assert_eq!(partitions, [(0, Some(1)), (1, Some(1)), (2, Some(1)), (3, Some(1))]);
    assert_eq!(code(&described["none"]), "UnknownTopicOrPartition");
    let deleted = admin.delete_topics(["t", "none"], Default::default()).await.expect("asked");
    assert!(deleted["t"].is_ok(), "{deleted:?}");
    assert_eq!(code(&deleted["none"]), "UnknownTopicOrPartition");
    assert_eq!(admin.list_topics(Default::default()).await.expect("listed"), Vec::<String>::new());
}

#[tokio::test]
async fn settings_are_altered_and_told() {
    let broker = broker("2").await;
    let kafka = connect(&broker).await;
    let admin = kafka.admin();
    create(&kafka, "t", 1).await;
    let topic = ConfigResource::topic("t");
    let value = async || {
        let described = admin.describe_configs([topic.clone()], Default::default()).await.expect("asked");
        let entries = described[&topic].as_ref().expect("described");
        entries.iter().find(|entry| entry.name == "retention.ms").and_then(|entry| entry.value.clone())
    };
    assert_eq!(value().await.as_deref(), Some("604800000"));
    let alter = async |operation| {
        let altered = admin.incremental_alter_configs([(topic.clone(), vec![operation])], Default::default()).await;
        altered.expect("asked").remove(&topic).expect("answered")
    };
    alter(ConfigOp::set("retention.ms", "86400000")).await.expect("altered");
    assert_eq!(value().await.as_deref(), Some("86400000"));
    assert_eq!(code(&alter(ConfigOp::set("retention.ms", "long")).await), "InvalidConfig");
    assert_eq!(code(&alter(ConfigOp::set("no.such.key", "1")).await), "InvalidConfig");
    alter(ConfigOp::delete("retention.ms")).await.expect("altered");
    assert_eq!(value().await.as_deref(), Some("604800000"));
}

#[tokio::test]
async fn offsets_are_found_and_records_deleted() {
    let broker = broker("2").await;
    let kafka = connect(&broker).await;
    let admin = kafka.admin();
    create(&kafka, "t", 1).await;
    let plain = kafka.producer().build().await.expect("a producer");
    for i in 0..5_i64 {
        let _ = plain.send(Record::new("t", format!("{i}")).timestamp(1_000 + 10 * i)).await.expect("written");
    }
    assert_eq!(offset(&admin, 0, OffsetSpec::Earliest, false).await, 0);
    assert_eq!(offset(&admin, 0, OffsetSpec::Latest, false).await, 5);
    assert_eq!(offset(&admin, 0, OffsetSpec::Timestamp(1_015), false).await, 2);
    assert_eq!(offset(&admin, 0, OffsetSpec::MaxTimestamp, false).await, 4);
    let deleted = admin.delete_records([(at(0), 3)], Default::default()).await.expect("asked");
    assert_eq!(deleted[&at(0)].as_ref().expect("deleted"), &3);
    assert_eq!(offset(&admin, 0, OffsetSpec::Earliest, false).await, 3);
    let beyond = admin.delete_records([(at(0), 9)], Default::default()).await.expect("asked");
    assert_eq!(code(&beyond[&at(0)]), "OffsetOutOfRange");
    write_end(&kafka, "t").await;
    let left = reader(&kafka, "t", 1, IsolationLevel::ReadCommitted).await;
    assert_eq!(values_until_end(&left).await, ["3", "4"]);
}

#[tokio::test]
async fn groups_are_described_their_offsets_moved_and_they_are_deleted() {
    let broker = broker("2").await;
    let kafka = connect(&broker).await;
    let admin = kafka.admin();
    create(&kafka, "t", 4).await;
    let plain = kafka.producer().build().await.expect("a producer");
    for _ in 0..5 {
        let _ = plain.send(Record::new("t", "v").partition(0)).await.expect("written");
    }
    let consumer =
        groups::join(&connect(&broker).await, GroupProtocol::Classic, None, std::time::Duration::from_secs(30)).await;
    groups::share(&[&consumer], &[4]).await;
    let described = admin.describe_consumer_groups(["group"], Default::default()).await.expect("asked");
    let group = described["group"].as_ref().expect("described");
    assert_eq!((group.state.as_str(), group.members.len()), ("Stable", 1));
    let assigned = group.members[0].assignment.as_ref().expect("the client's own bytes");
    assert_eq!((assigned[0].topic_name.as_str(), assigned[0].partitions.len()), ("t", 4));
    let refused = admin.delete_consumer_groups(["group"], Default::default()).await.expect("asked");
    assert_eq!(code(&refused["group"]), "NonEmptyGroup");
    consumer.close().await.expect("closed");

    let set = admin.alter_consumer_group_offsets(
        "group",
        [(at(0), 2), (at(1), 0)],
        AlterConsumerGroupOffsetsOptions::default(),
    );
    assert!(set.await.expect("asked").values().all(Result::is_ok));
    let offsets = async || -> BTreeMap<i32, Option<i64>> {
        let found = admin.list_consumer_group_offsets("group", ListConsumerGroupOffsetsOptions::default()).await;
        let found = found.expect("asked").into_iter().map(|(at, found)| (at.partition, found.expect("found").offset));
        found.filter(|(_, offset)| offset.is_some()).collect()
    };
    assert_eq!(offsets().await, BTreeMap::from([(0, Some(2)), (1, Some(0))]));
    let lag = admin.consumer_group_lag("group", ConsumerGroupLagOptions::default()).await.expect("asked");
    assert_eq!(lag[&at(0)].as_ref().expect("known").lag, Some(3));
    let deleted = admin.delete_consumer_group_offsets("group", [at(1)], Default::default()).await.expect("asked");
    assert!(deleted[&at(1)].is_ok(), "{deleted:?}");
    assert_eq!(offsets().await, BTreeMap::from([(0, Some(2))]));
    let listed = admin.list_consumer_groups(Default::default()).await.expect("asked");
    let listed = listed[&1].as_ref().expect("listed");
    assert_eq!(
        listed.iter().map(|it| (it.group_id.as_str(), it.state.as_deref())).collect::<Vec<_>>(),
        [("group", Some("Empty"))]
    );
    let deleted = admin.delete_consumer_groups(["group", "none"], Default::default()).await.expect("asked");
    assert!(deleted["group"].is_ok(), "{deleted:?}");
    assert_eq!(code(&deleted["none"]), "GroupIdNotFound");
}

#[tokio::test]
async fn a_transaction_is_seen_and_aborted_from_outside() {
    let broker = broker("2").await;
    let kafka = connect(&broker).await;
    let admin = kafka.admin();
    create(&kafka, "t", 1).await;
    let producer = transactional(&kafka, "id").await;
    producer.begin().expect("begun");
    let _ = producer.send(Record::new("t", "never seen")).await.expect("sent");
    let described = admin.describe_transactions(["id", "none"], Default::default()).await.expect("asked");
    let transaction = described["id"].as_ref().expect("described");
    assert_eq!((transaction.state.as_str(), transaction.partitions.as_slice()), ("Ongoing", &[at(0)][..]));
    assert_eq!(transaction.producer_id, producer.producer_id());
    assert_eq!(code(&described["none"]), "TransactionalIdNotFound");
    let listed = admin.list_transactions(Default::default()).await.expect("asked");
    let listed = listed[&1].as_ref().expect("listed");
    assert_eq!(
        listed.iter().map(|it| (it.transactional_id.as_str(), it.state.as_str())).collect::<Vec<_>>(),
        [("id", "Ongoing")]
    );
    let producers = admin.describe_producers([at(0)], Default::default()).await.expect("asked");
    let producers = producers[&at(0)].as_ref().expect("described");
    assert_eq!(
        (producers[0].producer_id, producers[0].current_transaction_start_offset),
        (producer.producer_id(), Some(0))
    );
    assert_eq!(offset(&admin, 0, OffsetSpec::Latest, true).await, 0, "the last stable offset");
    assert_eq!(offset(&admin, 0, OffsetSpec::Latest, false).await, 1);
    // Its coordinator has the partition, whose log has no epoch of a coordinator's yet.
    let options = AbortTransactionOptions::default().coordinator_epoch(0);
    let aborted = admin.abort_transaction("id", options).await.expect("asked");
    assert!(aborted[&at(0)].is_ok(), "{aborted:?}");
    assert_eq!(offset(&admin, 0, OffsetSpec::Latest, true).await, 2, "the record and the marker");
    write_end(&kafka, "t").await;
    let committed = reader(&kafka, "t", 1, IsolationLevel::ReadCommitted).await;
    assert_eq!(values_until_end(&committed).await, Vec::<String>::new());
}

#[tokio::test]
async fn the_cluster_its_features_and_its_folder_are_told() {
    let broker = broker("2").await;
    let kafka = connect(&broker).await;
    let admin = kafka.admin();
    create(&kafka, "t", 1).await;
    let plain = kafka.producer().build().await.expect("a producer");
    let _ = plain.send(Record::new("t", "v")).await.expect("written");
    let cluster = admin.describe_cluster(Default::default()).await.expect("described");
    let nodes: Vec<(i32, String)> =
        cluster.brokers.iter().map(|it| (it.id, format!("{}:{}", it.host, it.port))).collect();
    assert_eq!((cluster.controller_id, nodes), (1, vec![(1, broker.bootstrap_servers())]));
    let features = admin.describe_features(Default::default()).await.expect("described");
    let level = |name: &str| features.finalized.iter().find(|it| it.name == name).map(|it| it.max_version_level);
    assert_eq!((level("transaction.version"), level("group.version")), (Some(2), Some(1)));
    let quorum = admin.describe_metadata_quorum(Default::default()).await.expect("described");
    assert_eq!((quorum.leader_id, quorum.voters.len()), (1, 1));
    let folders = admin.describe_log_dirs([1], Default::default()).await.expect("asked");
    let folders = folders[&1].as_ref().expect("described");
    let (path, folder) = folders.iter().next().expect("one folder");
    assert_eq!(path, &broker.data_path().display().to_string());
    assert!(folder.as_ref().expect("described").replicas[&at(0)].size > 0);
    let replica = TopicPartitionReplica::new("t", 0, 1);
    let moved =
        admin.alter_replica_log_dirs([(replica.clone(), path.clone())], Default::default()).await.expect("asked");
    assert!(moved[&replica].is_ok(), "it is there already: {moved:?}");
    let moved = admin.alter_replica_log_dirs([(replica.clone(), "/nowhere".to_owned())], Default::default()).await;
    assert_eq!(code(&moved.expect("asked")[&replica]), "LogDirNotFound");
    let elected =
        admin.elect_leaders(krafka::admin::ElectionType::Preferred, Some(vec![at(0)]), Default::default()).await;
    // "Not needed", which krafka takes for well.
    assert!(elected.expect("asked")[&at(0)].is_ok());
}
