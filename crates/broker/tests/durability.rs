//! What a broker gives back after a crash or a clean stop: what was acknowledged, once and in order, and transactions whole.

mod raw_client;

use std::time::{Duration, Instant};

use atonce_broker::{Broker, StartError};
use atonce_protocol::ErrorCode;
use atonce_protocol::messages::produce_request::PartitionProduceData;
use raw_client::{RawClient, batch, broker, fetch_request, produce_request};

#[tokio::test]
async fn what_was_acknowledged_is_there_after_a_crash_once_and_in_order() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 2).await;
    let producer = client.init(None).await;
    for i in 0..10 {
        let value = i.to_string();
        assert_eq!(client.append(None, producer, i, "t", 0, &[&value]).await, Ok(i64::from(i)));
    }
    broker.crash().await.expect("crashed");
    broker.restart().await.expect("restarted");
    let mut client = RawClient::of(&broker);
    let expected: Vec<String> = (0..10).map(|i| i.to_string()).collect();
    assert_eq!(client.read("t", 0, true).await, expected);
    assert_eq!(client.read("t", 1, true).await, Vec::<String>::new());
    // All five batches that may have been in flight are recognised, and the next one continues.
    for i in 5..10 {
        assert_eq!(client.append(None, producer, i, "t", 0, &[&i.to_string()]).await, Ok(i64::from(i)), "batch {i}");
    }
    assert_eq!(client.append(None, producer, 10, "t", 0, &["10"]).await, Ok(10));
    assert_eq!(client.append(None, producer, 12, "t", 0, &["12"]).await, Err(ErrorCode::OutOfOrderSequenceNumber));
    broker.shutdown().await.expect("stopped");
    broker.restart().await.expect("restarted");
    let mut client = RawClient::of(&broker);
    assert_eq!(client.end_offset("t", 0, true).await, 11);
    assert_eq!(client.append(None, producer, 10, "t", 0, &["10"]).await, Ok(10), "recognised after a clean stop");
}

#[tokio::test]
async fn a_committed_transaction_is_whole_after_a_crash_and_an_open_one_goes_on_or_times_out() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 3).await;
    let producer = client.init(Some("committed")).await;
    for partition in 0..3 {
        client.append(Some("committed"), producer, 0, "t", partition, &["c"]).await.expect("appended");
    }
    client.end(5, "committed", producer, true).await.expect("committed");
    let open = client.init(Some("open")).await;
    client.append(Some("open"), open, 0, "t", 0, &["o1"]).await.expect("appended");
    let dying = client.init_for(Some("dying"), 500).await;
    client.append(Some("dying"), dying, 0, "t", 1, &["d"]).await.expect("appended");

    broker.crash().await.expect("crashed");
    broker.restart().await.expect("restarted");
    let mut client = RawClient::of(&broker);
    for partition in 0..3 {
        assert_eq!(client.read("t", partition, true).await, ["c"], "partition {partition}");
    }
    // The transaction that was open goes on where it was.
    client.append(Some("open"), open, 1, "t", 0, &["o2"]).await.expect("appended");
    client.end(5, "open", open, true).await.expect("committed");
    assert_eq!(client.read("t", 0, true).await, ["c", "o1", "o2"]);
    // The one whose time was up is aborted, though nobody asks: what stands behind it becomes readable.
    let plain = client.init(None).await;
    client.append(None, plain, 0, "t", 1, &["behind"]).await.expect("appended");
    let end = client.end_offset("t", 1, false).await;
    let mut request = fetch_request("t", 1, end - 1, true, 10_000);
    request.min_bytes = 1;
    let response = client.call(12, &request).await;
    assert!(!response.responses[0].partitions[0].records.clone().unwrap_or_default().is_empty());
    assert_eq!(client.read("t", 1, true).await, ["c", "behind"]);
    assert_eq!(client.append(Some("dying"), dying, 1, "t", 1, &["late"]).await, Err(ErrorCode::InvalidProducerEpoch));
}

/// Nobody writes, and yet the file comes: it is no commit that makes it.
#[tokio::test]
async fn the_next_file_of_the_journal_is_made_before_it_is_needed() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let producer = client.init(None).await;
    let value = "x".repeat(900_000);
    for i in 0..4 {
        assert_eq!(client.append(None, producer, i, "t", 0, &[&value]).await, Ok(i64::from(i)));
    }
    let journal = broker.data_path().join("journal");
    let files = || std::fs::read_dir(&journal).expect("listed").count();
    let deadline = Instant::now() + Duration::from_secs(60);
    while files() < 2 {
        assert!(Instant::now() < deadline, "no file was made ahead");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Into that file, and over a crash.
    for i in 4..22 {
        assert_eq!(client.append(None, producer, i, "t", 0, &[&value]).await, Ok(i64::from(i)));
    }
    broker.crash().await.expect("crashed");
    broker.restart().await.expect("restarted");
    let mut client = RawClient::of(&broker);
    assert_eq!(client.end_offset("t", 0, true).await, 22);
}

#[tokio::test]
async fn topics_their_settings_and_the_ids_handed_out_survive() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("kept", 2).await;
    let before = client.init(None).await;
    broker.crash().await.expect("crashed");
    assert!(broker.connect_in_process().is_err(), "a crashed broker takes no connections");
    broker.restart().await.expect("restarted");
    let mut client = RawClient::of(&broker);
    assert_eq!(client.read("kept", 1, false).await, Vec::<String>::new());
    let after = client.init(None).await;
    assert_ne!(before.id, after.id, "a producer id is never handed out twice");
}

#[tokio::test]
async fn a_folder_in_use_is_refused_by_name_and_free_after_shutdown_and_crash() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = Broker::builder().data_path(folder.path()).start().await.expect("started");
    let refused = Broker::builder().data_path(folder.path()).start().await.expect_err("in use");
    assert!(matches!(&refused, StartError::FolderInUse(path) if path == folder.path()), "{refused}");
    first.shutdown().await.expect("stopped");
    let second = Broker::builder().data_path(folder.path()).start().await.expect("free after shutdown");
    second.crash().await.expect("crashed");
    let third = Broker::builder().data_path(folder.path()).start().await.expect("free after a crash");
    drop(third);
    Broker::builder().data_path(folder.path()).start().await.expect("free after a drop");
}

#[tokio::test]
async fn an_address_that_others_can_reach_is_refused_unless_allowed() {
    let refused = Broker::builder().listen("0.0.0.0:0").start().await.expect_err("refused");
    assert!(matches!(refused, StartError::Unauthenticated(_)), "{refused}");
    let broker = Broker::builder().listen("0.0.0.0:0").allow_unauthenticated().start().await.expect("allowed");
    assert!(broker.bootstrap_servers().starts_with("127.0.0.1:"));
    let stream = tokio::net::TcpStream::connect(broker.bootstrap_servers()).await.expect("reachable");
    RawClient::over(stream).create_topic("t", 1).await;
}

#[tokio::test]
async fn an_unknown_setting_is_refused_by_name() {
    let refused = Broker::builder().property("num.partition", "3").start().await.expect_err("refused");
    assert_eq!(refused.to_string(), "Unknown configuration num.partition. Did you mean num.partitions?");
}

#[tokio::test]
async fn a_broker_that_is_dropped_removes_its_temporary_folder() {
    let broker = broker().await;
    let folder = broker.data_path().to_owned();
    assert!(folder.is_dir());
    drop(broker);
    assert!(!folder.exists());
}

#[tokio::test]
async fn a_waiting_fetch_is_woken_by_the_commit_and_not_by_the_data() {
    let broker = broker().await;
    let mut writer = RawClient::of(&broker);
    writer.create_topic("t", 1).await;
    let producer = writer.init(Some("id")).await;
    let mut reader = RawClient::of(&broker);
    reader.send(12, &fetch_request("t", 0, 0, true, 30_000)).await;
    let mut waiting =
        tokio::spawn(
            async move { reader.receive::<atonce_protocol::messages::fetch_request::FetchRequest>(12).await.1 },
        );
    writer.append(Some("id"), producer, 0, "t", 0, &["v"]).await.expect("appended");
    assert!(tokio::time::timeout(Duration::from_millis(100), &mut waiting).await.is_err(), "nothing is committed yet");
    writer.end(5, "id", producer, true).await.expect("committed");
    let response = tokio::time::timeout(Duration::from_secs(10), waiting).await.expect("woken").expect("answered");
    let data = &response.responses[0].partitions[0];
    assert_eq!((data.high_watermark, data.last_stable_offset), (2, 2));
    assert!(!data.records.clone().unwrap_or_default().is_empty());
}

#[tokio::test]
async fn a_request_and_a_transaction_larger_than_a_journal_group_are_taken_and_survive() {
    const BATCHES: i32 = 40;
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", BATCHES).await;
    let producer = client.init(Some("large")).await;
    let value = "x".repeat(1_000_000);
    let mut request = produce_request(Some("large"), "t", 0, batch(producer, 0, true, &[&value]));
    for index in 1..BATCHES {
        let records = Some(batch(producer, 0, true, &[&value]));
        request.topic_data[0].partition_data.push(PartitionProduceData { index, records, ..Default::default() });
    }
    let response = client.call(12, &request).await;
    for partition in &response.responses[0].partition_responses {
        assert_eq!(ErrorCode::from_wire(partition.error_code), ErrorCode::None, "{:?}", partition.error_message);
    }
    client.end(5, "large", producer, true).await.expect("committed");
    broker.crash().await.expect("crashed");
    broker.restart().await.expect("restarted");
    let mut client = RawClient::of(&broker);
    for index in 0..BATCHES {
        assert_eq!(client.end_offset("t", index, true).await, 2, "partition {index}");
    }
}
