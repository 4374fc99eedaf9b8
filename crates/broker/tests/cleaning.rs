//! Old records go while the broker runs: by age, by compaction, and in the coordinators' own topics.

mod raw_client;

use std::time::{Duration, Instant};

use atonce_broker::{Broker, BrokerBuilder};
use atonce_kernel::ProducerIdentity;
use atonce_protocol::ErrorCode;
use atonce_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig, CreateTopicsRequest};
use atonce_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic,
};
use atonce_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use atonce_protocol::messages::offset_commit_request::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use atonce_protocol::messages::offset_fetch_request::{OffsetFetchRequest, OffsetFetchRequestTopic};
use atonce_protocol::records::{BatchBuilder, BatchOptions, batches};
use raw_client::RawClient;

fn cleaning() -> BrokerBuilder {
    Broker::builder()
        .temporary()
        .property("group.initial.rebalance.delay.ms", "0")
        .property("offsets.topic.num.partitions", "1")
        .property("transaction.state.log.num.partitions", "1")
        .property("offsets.topic.segment.bytes", "4000")
        .property("transaction.state.log.segment.bytes", "4000")
        .property("log.cleaner.backoff.ms", "20")
        .property("log.retention.check.interval.ms", "20")
}

async fn create(client: &mut RawClient, name: &str, configs: &[(&str, &str)]) {
    let configs = configs.iter().map(|(key, value)| CreatableTopicConfig {
        name: (*key).to_owned(),
        value: Some((*value).to_owned()),
        ..Default::default()
    });
    let topic = CreatableTopic {
        name: name.to_owned(),
        num_partitions: 1,
        replication_factor: 1,
        configs: configs.collect(),
        ..Default::default()
    };
    let response = client.call(7, &CreateTopicsRequest { topics: vec![topic], ..Default::default() }).await;
    assert_eq!(response.topics[0].error_code, 0, "{:?}", response.topics[0].error_message);
}

async fn earliest(client: &mut RawClient, topic: &str) -> i64 {
    let partitions = vec![ListOffsetsPartition { timestamp: -2, current_leader_epoch: -1, ..Default::default() }];
    let topics = vec![ListOffsetsTopic { name: topic.to_owned(), partitions, ..Default::default() }];
    let request = ListOffsetsRequest { replica_id: -1, topics, ..Default::default() };
    client.call(7, &request).await.topics[0].partitions[0].offset
}

/// Data records and their offsets, however far apart.
async fn records(client: &mut RawClient, topic: &str) -> Vec<(i64, Vec<u8>, Option<Vec<u8>>)> {
    let (mut found, mut offset) = (Vec::new(), earliest(client, topic).await);
    loop {
        let response = client.fetch(topic, 0, offset, true).await;
        let data = &response.responses[0].partitions[0];
        assert_eq!(ErrorCode::from_wire(data.error_code), ErrorCode::None);
        let before = offset;
        for view in batches(&data.records.clone().unwrap_or_default()) {
            let view = view.expect("a whole batch");
            view.validate().expect("a good batch");
            offset = view.next_offset();
            for record in view.records().expect("not compressed").filter(|_| !view.is_control()) {
                let record = record.expect("a record");
                found.push((record.offset, record.key.unwrap_or_default().to_vec(), record.value.map(<[u8]>::to_vec)));
            }
        }
        if offset == before {
            return found;
        }
    }
}

async fn put(client: &mut RawClient, topic: &str, time: i64, key: &str, value: &str) {
    let mut builder = BatchBuilder::default();
    builder.append(time, Some(key.as_bytes()), Some(value.as_bytes()), []).expect("small");
    let batch = builder.finish(&BatchOptions::default()).expect("finished");
    let response = client.produce(9, None, topic, 0, batch).await;
    assert_eq!(ErrorCode::from_wire(response.error_code), ErrorCode::None);
}

/// Waits for what the broker does by itself.
macro_rules! wait_until {
    ($what:expr, $condition:expr) => {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !$condition {
            assert!(Instant::now() < deadline, "{} does not happen", $what);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
}

#[tokio::test]
async fn records_that_are_too_old_go_and_new_ones_stay() {
    let broker = cleaning().start().await.expect("started");
    let mut client = RawClient::of(&broker);
    create(&mut client, "t", &[("retention.ms", "3600000")]).await;
    for _ in 0..3 {
        put(&mut client, "t", 1000, "k", "from 1970").await;
    }
    wait_until!("retention", earliest(&mut client, "t").await == 3);
    let response = client.fetch("t", 0, 0, false).await;
    assert_eq!(ErrorCode::from_wire(response.responses[0].partitions[0].error_code), ErrorCode::OffsetOutOfRange);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis();
    put(&mut client, "t", i64::try_from(now).expect("fits"), "k", "new").await;
    let found = records(&mut client, "t").await;
    assert_eq!(found, [(3, b"k".to_vec(), Some(b"new".to_vec()))]);
    broker.crash().await.expect("crashed");
    broker.restart().await.expect("restarted");
    assert_eq!(records(&mut RawClient::of(&broker), "t").await, found);
}

#[tokio::test]
async fn records_of_a_compacted_topic_are_not_deleted_by_request() {
    let broker = cleaning().start().await.expect("started");
    let mut client = RawClient::of(&broker);
    for (name, policy, code) in [
        ("compacted", "compact", ErrorCode::PolicyViolation),
        ("both", "compact,delete", ErrorCode::None),
        ("deleted", "delete", ErrorCode::None),
    ] {
        create(&mut client, name, &[("cleanup.policy", policy)]).await;
        let partition = DeleteRecordsPartition { partition_index: 0, offset: 0, ..Default::default() };
        let topic = DeleteRecordsTopic { name: name.to_owned(), partitions: vec![partition], ..Default::default() };
        let response = client.call(2, &DeleteRecordsRequest { topics: vec![topic], ..Default::default() }).await;
        assert_eq!(ErrorCode::from_wire(response.topics[0].partitions[0].error_code), code, "{policy}");
    }
}

/// At once, or when their topic says so: whoever has begun to read there can go on.
#[tokio::test]
async fn deleted_records_free_their_files_after_the_topics_delay() {
    let broker = cleaning().start().await.expect("started");
    let mut client = RawClient::of(&broker);
    let path = |topic: &str, offset: i64| broker.data_path().join(format!("{topic}-0/{offset:020}.log"));
    // The patient one first: its files are the next checkpoint's too.
    for (name, delay_ms) in [("patient", "3600000"), ("t", "0")] {
        let configs = [("segment.bytes", "1048576"), ("retention.ms", "-1"), ("file.delete.delay.ms", delay_ms)];
        create(&mut client, name, &configs).await;
        for _ in 0..5 {
            put(&mut client, name, 0, "k", &"x".repeat(400_000)).await;
        }
        let partition = DeleteRecordsPartition { partition_index: 0, offset: 4, ..Default::default() };
        let topic = DeleteRecordsTopic { name: name.to_owned(), partitions: vec![partition], ..Default::default() };
        let response = client.call(2, &DeleteRecordsRequest { topics: vec![topic], ..Default::default() }).await;
        assert_eq!(response.topics[0].partitions[0].low_watermark, 4);
    }
    wait_until!("the removal of a file", path("t", 4).exists() && !path("t", 0).exists());
    assert!(path("patient", 0).exists());
    for name in ["patient", "t"] {
        assert_eq!(records(&mut client, name).await.len(), 1, "{name}");
    }
    broker.shutdown().await.expect("stopped");
    assert!(!path("patient", 0).exists(), "nobody reads any more");
}

#[tokio::test]
async fn a_compacted_topic_keeps_the_last_record_of_each_key() {
    let broker = cleaning().start().await.expect("started");
    let mut client = RawClient::of(&broker);
    let configs = [("cleanup.policy", "compact"), ("segment.bytes", "1048576"), ("min.cleanable.dirty.ratio", "0.01")];
    create(&mut client, "t", &configs).await;
    for round in 0..90 {
        put(&mut client, "t", 1000, &format!("k{}", round % 3), &format!("{round:_<60000}")).await;
    }
    wait_until!("compaction", records(&mut client, "t").await.len() < 40);
    for is_restarted in [false, true] {
        if is_restarted {
            broker.crash().await.expect("crashed");
            broker.restart().await.expect("restarted");
            client = RawClient::of(&broker);
        }
        let found = records(&mut client, "t").await;
        for key in 0..3 {
            let last = found.iter().rfind(|(_, found, _)| *found == format!("k{key}").into_bytes()).expect("there");
            assert_eq!(last.0, 87 + key, "its last record, at its offset");
        }
    }
}

async fn commit_offset(client: &mut RawClient, offset: i64) {
    let partitions = vec![OffsetCommitRequestPartition { committed_offset: offset, ..Default::default() }];
    let topics = vec![OffsetCommitRequestTopic { name: "t".to_owned(), partitions, ..Default::default() }];
    let request = OffsetCommitRequest {
        group_id: "g".to_owned(),
        generation_id_or_member_epoch: -1,
        topics,
        ..Default::default()
    };
    let response = client.call(8, &request).await;
    assert_eq!(ErrorCode::from_wire(response.topics[0].partitions[0].error_code), ErrorCode::None);
}

async fn committed_offset(client: &mut RawClient) -> i64 {
    let topics =
        vec![OffsetFetchRequestTopic { name: "t".to_owned(), partition_indexes: vec![0], ..Default::default() }];
    let request = OffsetFetchRequest { group_id: "g".to_owned(), topics: Some(topics), ..Default::default() };
    client.call(7, &request).await.topics[0].partitions[0].committed_offset
}

/// What a start replays is what these topics hold: it must not grow with all that ever happened.
#[tokio::test]
async fn what_a_start_replays_does_not_grow_with_history() {
    let broker = cleaning().start().await.expect("started");
    let mut client = RawClient::of(&broker);
    // Its records are of 2023.
    create(&mut client, "t", &[("retention.ms", "-1")]).await;
    for offset in 0..1000 {
        commit_offset(&mut client, offset).await;
    }
    let mut producer = ProducerIdentity::NONE;
    for round in 0..300 {
        if round == 0 {
            producer = client.init(Some("id")).await;
        }
        client.append(Some("id"), producer, 0, "t", 0, &["v"]).await.expect("appended");
        // Of such a batch compaction leaves a producer's last one, empty, and markers.
        client.send_offset("id", producer, "in-transactions", "t", round).await.expect("sent");
        producer = client.end(5, "id", producer, round % 2 == 0).await.expect("ended");
    }
    for topic in ["__consumer_offsets", "__transaction_state"] {
        let all = client.end_offset(topic, 0, false).await;
        assert!(all >= 600, "{topic}: {all}");
        // The segment that is written to stays as it is, and holds some fifty records.
        wait_until!(format!("compaction of {topic}"), records(&mut client, topic).await.len() < 150);
    }
    // A crash may undo the last compaction, until a checkpoint names what it has made.
    broker.shutdown().await.expect("stopped");
    broker.restart().await.expect("restarted");
    let mut client = RawClient::of(&broker);
    for topic in ["__consumer_offsets", "__transaction_state"] {
        assert!(records(&mut client, topic).await.len() < 150, "{topic}");
    }
    assert_eq!(committed_offset(&mut client).await, 999);
    assert_eq!(client.committed("in-transactions", "t", true).await, Ok(298));
    client.append(Some("id"), producer, 0, "t", 0, &["last"]).await.expect("the transactional id goes on");
    client.end(5, "id", producer, true).await.expect("committed");
    let values = client.read("t", 0, true).await;
    assert_eq!((values.len(), values.last().map(String::as_str)), (151, Some("last")));
}
