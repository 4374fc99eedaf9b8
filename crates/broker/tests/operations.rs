//! For those who run a broker: probes, numbers, configuration files, a folder that is gone.

mod raw_client;

use std::net::SocketAddr;
use std::time::Duration;

use atonce_broker::{Broker, StartError};
use atonce_protocol::messages::consumer_group_heartbeat_request::ConsumerGroupHeartbeatRequest;
use atonce_protocol::messages::describe_configs_request::{DescribeConfigsRequest, DescribeConfigsResource};
use atonce_protocol::messages::describe_groups_request::DescribeGroupsRequest;
use atonce_protocol::messages::end_txn_request::EndTxnRequest;
use atonce_protocol::messages::heartbeat_request::HeartbeatRequest;
use atonce_protocol::messages::join_group_request::{JoinGroupRequest, JoinGroupRequestProtocol};
use atonce_protocol::messages::metadata_request::MetadataRequest;
use atonce_protocol::messages::produce_request::PartitionProduceData;
use raw_client::{RawClient, batch, plain_batch, produce_request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The status line, and the body.
async fn get(address: SocketAddr, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("answered");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head.lines().next().unwrap_or_default().to_owned(), body.to_owned())
}

#[tokio::test]
async fn probes_tell_starting_from_serving_from_stopped() {
    let broker = Broker::builder().temporary().health("127.0.0.1:0").start().await.expect("started");
    let address = broker.health_address().expect("asked for");
    assert_eq!(broker.metrics_address(), None);
    assert_eq!(get(address, "/live").await, ("HTTP/1.1 200 OK".to_owned(), "live\n".to_owned()));
    assert_eq!(get(address, "/ready").await, ("HTTP/1.1 200 OK".to_owned(), "ready\n".to_owned()));
    assert_eq!(get(address, "/metrics").await.0, "HTTP/1.1 404 Not Found");
    broker.shutdown().await.expect("ended");
    let (status, body) = get(address, "/ready").await;
    assert_eq!((status.as_str(), body.as_str()), ("HTTP/1.1 503 Service Unavailable", "stopping\n"));
    broker.restart().await.expect("restarted");
    assert_eq!(get(address, "/ready").await.0, "HTTP/1.1 200 OK");
}

#[tokio::test]
async fn numbers_count_what_was_asked_refused_and_written() {
    let builder = Broker::builder().temporary().health("127.0.0.1:0").metrics("127.0.0.1:0");
    let builder = builder.property("group.initial.rebalance.delay.ms", "300000");
    let broker = builder.start().await.expect("started");
    let address = broker.metrics_address().expect("asked for");
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 2).await;
    for _ in 0..3 {
        assert_eq!(client.produce(9, None, "t", 0, plain_batch(&["v"])).await.error_code, 0);
    }
    assert_ne!(client.produce(9, None, "none", 0, plain_batch(&["v"])).await.error_code, 0);
    let producer = client.init(Some("id")).await;
    client.append(Some("id"), producer, 0, "t", 1, &["a", "b"]).await.expect("appended");
    // Alone in its group, it waits until the window of the first generation closes.
    let mut member = RawClient::of(&broker);
    let join = JoinGroupRequest {
        group_id: "g".to_owned(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 300_000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![JoinGroupRequestProtocol { name: "range".to_owned(), ..Default::default() }],
        ..Default::default()
    };
    member.send(3, &join).await;
    let describe = DescribeGroupsRequest { groups: vec!["g".to_owned()], ..Default::default() };
    while client.call(5, &describe).await.groups[0].members.is_empty() {}
    let nobody = EndTxnRequest { transactional_id: "nobody".to_owned(), ..Default::default() };
    assert_ne!(client.call(4, &nobody).await.error_code, 0);
    let nobody = HeartbeatRequest { group_id: "none".to_owned(), member_id: "m".to_owned(), ..Default::default() };
    assert_ne!(client.call(4, &nobody).await.error_code, 0);
    let unknown = DescribeConfigsResource { resource_type: 77, ..Default::default() };
    client.call(4, &DescribeConfigsRequest { resources: vec![unknown], ..Default::default() }).await;
    let heartbeat = ConsumerGroupHeartbeatRequest {
        group_id: "group".to_owned(),
        member_id: "member".to_owned(),
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: Some(vec!["t".to_owned()]),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    };
    assert_eq!(client.call(1, &heartbeat).await.error_code, 0);
    let (status, text) = get(address, "/metrics").await;
    assert_eq!(status, "HTTP/1.1 200 OK");
    let value = |name: &str| -> f64 {
        let line = text.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
        let line = line.unwrap_or_else(|| panic!("{name} is not in\n{text}"));
        line.rsplit(' ').next().and_then(|number| number.parse().ok()).expect("a number")
    };
    assert_eq!(value(r#"atonce_requests_total{api="Produce"}"#), 5.0);
    assert_eq!(value(r#"atonce_errors_total{api="Produce",code="UNKNOWN_TOPIC_OR_PARTITION"}"#), 1.0);
    assert_eq!(value("atonce_connections"), 2.0);
    assert_eq!(value("atonce_open_transactions"), 1.0);
    assert_eq!(value("atonce_group_requests_held"), 1.0);
    assert_eq!(value("atonce_last_stable_offset_lag"), 2.0);
    assert_eq!(value("atonce_disk_full"), 0.0);
    assert_eq!(value("atonce_answer_memory_bytes"), 0.0);
    assert!(value("atonce_answer_memory_limit_bytes") > 0.0);
    assert!(value("atonce_commits_total") >= 5.0);
    assert!(value("atonce_commit_duration_seconds_count") >= 5.0);
    assert!(value("atonce_received_bytes_total") > 0.0 && value("atonce_sent_bytes_total") > 0.0);
    // Every API counts what it refuses, and everything that has states has a line for each.
    assert_eq!(value(r#"atonce_errors_total{api="EndTxn",code="INVALID_PRODUCER_ID_MAPPING"}"#), 1.0);
    assert_eq!(value(r#"atonce_errors_total{api="Heartbeat",code="UNKNOWN_MEMBER_ID"}"#), 1.0);
    assert_eq!(value(r#"atonce_errors_total{api="DescribeConfigs",code="INVALID_REQUEST"}"#), 1.0);
    assert_eq!(value("atonce_offline_partitions"), 0.0);
    assert_eq!(value(r#"atonce_transactions{state="Ongoing"}"#), 1.0);
    assert_eq!(value(r#"atonce_transactions{state="PrepareCommit"}"#), 0.0);
    assert_eq!(value(r#"atonce_groups{type="classic",state="PreparingRebalance"}"#), 1.0);
    assert_eq!(value(r#"atonce_groups{type="classic",state="Stable"}"#), 0.0);
    assert_eq!(value(r#"atonce_groups{type="consumer",state="Stable"}"#), 1.0);
    assert_eq!(value(r#"atonce_group_members{type="consumer",state="Stable"}"#), 1.0);
    assert_eq!(value("atonce_group_members_max"), 1.0);
    check_open_metrics(&text);
}

/// Reads the text as a scraper does: families with their type before their samples, each once; names, labels and numbers well formed; names
/// that end as their type wants.
fn check_open_metrics(text: &str) {
    let body = text.strip_suffix("# EOF\n").expect("it says that it is whole");
    let is_name = |name: &str| {
        !name.is_empty()
            && !name.starts_with(|first: char| first.is_ascii_digit())
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    let (mut families, mut samples) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
    let (mut family, mut kind) = (String::new(), String::new());
    for line in body.lines() {
        if let Some(described) = line.strip_prefix("# ") {
            let mut words = described.splitn(3, ' ');
            let (what, name, rest) = (words.next(), words.next().unwrap_or_default(), words.next().unwrap_or_default());
            assert!(is_name(name) && !rest.is_empty(), "{line}");
            match what {
                Some("HELP") => assert!(families.insert(name.to_owned()), "{name} comes twice"),
                Some("TYPE") => (family, kind) = (name.to_owned(), rest.to_owned()),
                Some("UNIT") => assert!(name.ends_with(&format!("_{rest}")), "{line}"),
                _ => panic!("what is {line}"),
            }
            continue;
        }
        let (sample, number) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no number: {line}"));
        assert!(number.parse::<f64>().is_ok(), "{line}");
        assert!(samples.insert(sample.to_owned()), "{sample} comes twice");
        let (name, labels) = match sample.split_once('{') {
            Some((name, labels)) => (name, labels.strip_suffix('}').unwrap_or_else(|| panic!("{line}"))),
            None => (sample, ""),
        };
        for label in labels.split(',').filter(|label| !label.is_empty()) {
            let (label, value) = label.split_once('=').unwrap_or_else(|| panic!("{line}"));
            let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
            assert!(
                is_name(label) && value.is_some_and(|value| !value.is_empty() && !value.contains(['"', '\\'])),
                "{line}"
            );
        }
        let ending = name.strip_prefix(family.as_str()).unwrap_or_else(|| panic!("{line} stands under {family}"));
        let endings: &[&str] = match kind.as_str() {
            "counter" => &["_total"],
            "gauge" => &[""],
            "histogram" => &["_bucket", "_sum", "_count"],
            other => panic!("{family} is of type {other}"),
        };
        assert!(endings.contains(&ending), "{line} is no sample of the {kind} {family}");
    }
    assert!(samples.len() > 100, "{} samples", samples.len());
}

/// The number of a name without labels.
async fn number(address: SocketAddr, name: &str) -> f64 {
    let (_, text) = get(address, "/metrics").await;
    let line = text.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_else(|| panic!("{name} is not in\n{text}"))
}

#[tokio::test]
async fn a_transaction_over_many_partitions_is_written_and_committed_with_one_sync_each_and_one_marker_in_each() {
    const PARTITIONS: i32 = 50;
    let broker = Broker::builder().temporary().metrics("127.0.0.1:0").start().await.expect("started");
    let address = broker.metrics_address().expect("asked for");
    let mut client = RawClient::of(&broker);
    client.create_topic("t", PARTITIONS).await;
    let producer = client.init(Some("id")).await;
    let before = number(address, "atonce_commits_total").await;
    let mut request = produce_request(Some("id"), "t", 0, batch(producer, 0, true, &["v"]));
    for index in 1..PARTITIONS {
        let records = Some(batch(producer, 0, true, &["v"]));
        request.topic_data[0].partition_data.push(PartitionProduceData { index, records, ..Default::default() });
    }
    let response = client.call(12, &request).await;
    assert!(response.responses[0].partition_responses.iter().all(|partition| partition.error_code == 0));
    let written = number(address, "atonce_commits_total").await;
    client.end(5, "id", producer, true).await.expect("committed");
    let committed = number(address, "atonce_commits_total").await;
    assert_eq!((written - before, committed - written), (1.0, 1.0));
    for partition in 0..PARTITIONS {
        assert_eq!(client.end_offset("t", partition, true).await, 2, "partition {partition}");
    }
}

#[tokio::test]
async fn a_file_of_kafkas_is_read_and_what_is_set_later_holds() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = format!(
        "# as Kafka's own\nprocess.roles=broker,controller\nnode.id=7\nlisteners=PLAINTEXT://127.0.0.1:0,CONTROLLER://:9093\n\
         advertised.listeners=PLAINTEXT://broker.example:1234\ncontroller.listener.names=CONTROLLER\n\
         num.network.threads=3\nlog.dirs={}\nnum.partitions=4\nnum.partitions=5\n",
        folder.path().display()
    );
    let builder = Broker::builder().configuration(&text).expect("all lines make sense");
    let broker = builder.property("num.partitions", "6").start().await.expect("started");
    assert_eq!(broker.data_path(), folder.path());
    assert_eq!(broker.bootstrap_servers(), "broker.example:1234");
    let mut client = RawClient::of(&broker);
    let metadata = client.call(12, &MetadataRequest { topics: Some(Vec::new()), ..Default::default() }).await;
    let node = &metadata.brokers[0];
    assert_eq!((node.node_id, node.host.as_str(), node.port), (7, "broker.example", 1234));
    let keys = ["num.partitions", "advertised.listeners", "listeners", "node.id"];
    let resource = DescribeConfigsResource {
        resource_type: 4,
        resource_name: "7".to_owned(),
        configuration_keys: Some(keys.map(str::to_owned).to_vec()),
        ..Default::default()
    };
    let described = client.call(4, &DescribeConfigsRequest { resources: vec![resource], ..Default::default() }).await;
    let found: Vec<(String, Option<String>)> =
        described.results[0].configs.iter().map(|it| (it.name.clone(), it.value.clone())).collect();
    let expected = [
        ("advertised.listeners", "PLAINTEXT://broker.example:1234".to_owned()),
        ("listeners", format!("PLAINTEXT://{}", broker.address())),
        ("node.id", "7".to_owned()),
        ("num.partitions", "6".to_owned()),
    ];
    assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), Some(value))));
}

#[tokio::test]
async fn what_cannot_be_listened_on_is_refused_before_anything_is_touched() {
    let start = async |listeners: &str| {
        let builder = Broker::builder().temporary().property("listeners", listeners);
        builder.start().await.expect_err("refused").to_string()
    };
    assert!(start("SSL://127.0.0.1:0").await.contains("only PLAINTEXT is served"));
    assert!(start("PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0").await.contains("one listener for clients"));
    assert!(start("127.0.0.1:0").await.contains("expected NAME://HOST:PORT"));
    let open = Broker::builder().temporary().property("listeners", "PLAINTEXT://:0").start().await;
    assert!(matches!(open, Err(StartError::Unauthenticated(_))), "{open:?}");
    let builder = Broker::builder().temporary().property("listeners", "PLAINTEXT://:0").allow_unauthenticated();
    assert!(builder.start().await.is_ok());
}

#[tokio::test]
async fn a_folder_that_is_taken_away_under_a_live_broker_is_noticed_and_said() {
    for replaced in [false, true] {
        let place = tempfile::tempdir().expect("a folder");
        let folder = place.path().join("data");
        let broker = Broker::builder().data_path(&folder).health("127.0.0.1:0").start().await.expect("started");
        let mut client = RawClient::of(&broker);
        client.create_topic("t", 1).await;
        std::fs::rename(&folder, place.path().join("moved")).expect("moved away");
        if replaced {
            std::fs::create_dir(&folder).expect("made");
        }
        let failure =
            tokio::time::timeout(Duration::from_secs(60), broker.failure()).await.expect("noticed").to_string();
        let words =
            if replaced { "another folder is in the place of the data folder" } else { "the data folder is gone" };
        assert!(failure.contains(words) && failure.contains(&folder.display().to_string()), "{failure}");
        // Nothing is acknowledged any more, and probes know.
        let address = broker.health_address().expect("asked for");
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        while get(address, "/live").await.0 != "HTTP/1.1 503 Service Unavailable" {
            assert!(tokio::time::Instant::now() < deadline, "probes say that it is live");
        }
    }
}
