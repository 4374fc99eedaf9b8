//! Damaged files: what is served all the same, what a transaction over an offline partition does, and what salvage gives back.

mod raw_client;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use atonce_broker::data_folder::{self, DataFolderError};
use atonce_broker::{Broker, StartError};
use atonce_protocol::ErrorCode;
use atonce_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use atonce_protocol::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use raw_client::{RawClient, broker};

fn segment(folder: &Path, partition: &str) -> PathBuf {
    folder.join(partition).join("00000000000000000000.log")
}

/// Stops the broker cleanly, so that everything stands in segments, and does something to one of them.
async fn harm(broker: &Broker, partition: &str, harm: impl Fn(&Path)) {
    broker.shutdown().await.expect("stopped");
    harm(&segment(broker.data_path(), partition));
}

fn cut(path: &Path) {
    let file = fs::OpenOptions::new().write(true).open(path).expect("a segment");
    file.set_len(20).expect("cut");
}

async fn earliest(client: &mut RawClient, topic: &str, partition: i32) -> ErrorCode {
    let partition = ListOffsetsPartition {
        partition_index: partition,
        timestamp: -2,
        current_leader_epoch: -1,
        ..Default::default()
    };
    let topics = vec![ListOffsetsTopic { name: topic.to_owned(), partitions: vec![partition], ..Default::default() }];
    let response = client.call(7, &ListOffsetsRequest { replica_id: -1, topics, ..Default::default() }).await;
    ErrorCode::from_wire(response.topics[0].partitions[0].error_code)
}

#[tokio::test]
async fn a_damaged_partition_is_offline_as_kafka_tells_it_and_all_else_is_served() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 2).await;
    let producer = client.init(None).await;
    for partition in 0..2 {
        client.append(None, producer, 0, "t", partition, &["v"]).await.expect("appended");
    }
    harm(&broker, "t-0", cut).await;
    broker.restart().await.expect("it starts all the same");
    let mut client = RawClient::of(&broker);
    assert_eq!(client.append(None, producer, 1, "t", 0, &["w"]).await, Err(ErrorCode::KafkaStorageError));
    assert_eq!(client.append(None, producer, 1, "t", 1, &["w"]).await, Ok(1));
    let fetched = client.fetch("t", 0, 0, true).await;
    assert_eq!(ErrorCode::from_wire(fetched.responses[0].partitions[0].error_code), ErrorCode::KafkaStorageError);
    assert_eq!(client.read("t", 1, true).await, ["v", "w"]);
    assert_eq!(earliest(&mut client, "t", 0).await, ErrorCode::KafkaStorageError);
    let topics = vec![MetadataRequestTopic { name: Some("t".to_owned()), ..Default::default() }];
    let metadata = client.call(9, &MetadataRequest { topics: Some(topics), ..Default::default() }).await;
    let told: Vec<(i32, ErrorCode, i32, usize)> = metadata.topics[0]
        .partitions
        .iter()
        .map(|it| (it.partition_index, ErrorCode::from_wire(it.error_code), it.leader_id, it.offline_replicas.len()))
        .collect();
    assert_eq!(told, [(0, ErrorCode::LeaderNotAvailable, -1, 1), (1, ErrorCode::None, 1, 0)]);
}

/// The commit is decided; other partitions have it at once; the offline one is owed its marker until it is back.
#[tokio::test]
async fn a_transaction_over_an_offline_partition_commits_elsewhere_and_there_when_it_is_back() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 2).await;
    let producer = client.init_for(Some("id"), 900_000).await;
    for partition in 0..2 {
        client.append(Some("id"), producer, 0, "t", partition, &["v"]).await.expect("appended");
    }
    let path = segment(broker.data_path(), "t-0");
    broker.shutdown().await.expect("stopped");
    let before = fs::read(&path).expect("a segment");
    cut(&path);
    broker.restart().await.expect("started");
    let mut client = RawClient::of(&broker);
    client.end(5, "id", producer, true).await.expect("a commit is a commit");
    let deadline = Instant::now() + Duration::from_secs(30);
    while client.read("t", 1, true).await != ["v"] {
        assert!(Instant::now() < deadline, "the other partition has its marker");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // It is still owed after another start, and is written once the file is what it was.
    for is_back in [false, true] {
        broker.shutdown().await.expect("stopped");
        if is_back {
            fs::write(&path, &before).expect("restored");
        }
        broker.restart().await.expect("started");
    }
    let mut client = RawClient::of(&broker);
    while client.read("t", 0, true).await != ["v"] {
        assert!(Instant::now() < deadline, "its marker is written");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let producer = client.init(Some("id")).await;
    client.append(Some("id"), producer, 0, "t", 0, &["next"]).await.expect("the id goes on");
    client.end(5, "id", producer, true).await.expect("committed");
    assert_eq!(client.read("t", 0, true).await, ["v", "next"]);
}

/// A part of a coordinator whose log cannot be read is not there; the rest of the broker is.
#[tokio::test]
async fn damage_to_a_coordinators_log_takes_that_part_offline() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let ids: Vec<String> = (0..8).map(|number| format!("id-{number}")).collect();
    for id in &ids {
        client.init(Some(id)).await;
    }
    broker.shutdown().await.expect("stopped");
    let damaged = (0..4).map(|partition| segment(broker.data_path(), &format!("__transaction_state-{partition}")));
    let damaged = damaged.into_iter().find(|path| path.exists()).expect("one has a segment");
    cut(&damaged);
    broker.restart().await.expect("it starts all the same");
    let mut client = RawClient::of(&broker);
    let plain = client.init(None).await;
    client.append(None, plain, 0, "t", 0, &["v"]).await.expect("the rest is served");
    let (mut refused, mut served) = (0, 0);
    for id in &ids {
        let request = atonce_protocol::messages::init_producer_id_request::InitProducerIdRequest {
            transactional_id: Some(id.clone()),
            transaction_timeout_ms: 60_000,
            ..Default::default()
        };
        match ErrorCode::from_wire(client.call(4, &request).await.error_code) {
            ErrorCode::None => served += 1,
            ErrorCode::NotCoordinator => refused += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(refused > 0 && served > 0, "{refused} refused, {served} served");
}

#[tokio::test]
async fn a_folder_is_looked_at_and_salvaged_when_no_broker_uses_it() {
    let broker = broker().await;
    let folder = broker.data_path().to_owned();
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let producer = client.init(None).await;
    for sequence in 0..5 {
        client.append(None, producer, sequence, "t", 0, &[&sequence.to_string()]).await.expect("appended");
    }
    assert!(matches!(data_folder::check(&folder), Err(DataFolderError::InUse(_))));
    assert!(matches!(data_folder::check(Path::new("/nonexistent")), Err(DataFolderError::Nothing(_))));
    broker.shutdown().await.expect("stopped");
    let check = data_folder::check(&folder).expect("looked at");
    assert!(check.is_whole());
    let path = segment(&folder, "t-0");
    let mut bytes = fs::read(&path).expect("a segment");
    let batch_bytes = bytes.len() / 5;
    bytes[2 * batch_bytes + 65] ^= 1;
    fs::write(&path, &bytes).expect("damaged");
    let check = data_folder::check(&folder).expect("looked at");
    let damaged: Vec<_> = check.partitions.iter().filter(|partition| !partition.damages.is_empty()).collect();
    assert_eq!((damaged.len(), damaged[0].records), (1, 4));
    assert_eq!(damaged[0].damages[0].position, 2 * batch_bytes as u64);
    assert_eq!(fs::read(&path).expect("a segment"), bytes, "only looked at");
    let report = data_folder::salvage(&folder).expect("salvaged");
    assert_eq!((report.partitions.len(), report.is_journal_cut), (1, false));
    assert!(data_folder::check(&folder).expect("looked at").is_whole());
    broker.restart().await.expect("started");
    let mut client = RawClient::of(&broker);
    assert_eq!(client.read("t", 0, true).await, ["0", "1", "3", "4"]);
    assert_eq!(client.append(None, producer, 5, "t", 0, &["5"]).await, Ok(5), "sequences go on");
}

#[tokio::test]
async fn a_damaged_journal_refuses_the_start_and_says_where() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let producer = client.init(None).await;
    for sequence in 0..5 {
        client.append(None, producer, sequence, "t", 0, &["v"]).await.expect("appended");
    }
    broker.crash().await.expect("crashed");
    let journal = broker.data_path().join("journal");
    let mut files: Vec<PathBuf> = fs::read_dir(&journal)
        .expect("a journal")
        .map(|entry| entry.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "journal"))
        .collect();
    files.sort();
    let mut bytes = fs::read(&files[0]).expect("a file");
    // Not the last group: that one could be a write that was not finished.
    let groups: Vec<usize> =
        (0..bytes.len()).step_by(4096).filter(|at| bytes[*at..].starts_with(b"atonceJ1")).collect();
    let place = groups[groups.len() - 3];
    bytes[place + 100] ^= 1;
    fs::write(&files[0], &bytes).expect("damaged");
    match broker.restart().await {
        Err(StartError::Recovery { reason, .. }) => {
            assert!(reason.contains(&format!(".journal at {place}")), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    let check = data_folder::check(broker.data_path()).expect("looked at");
    let damage = check.journal.damage.expect("damage");
    assert_eq!((damage.path, damage.position), (files[0].clone(), place as u64));
}
