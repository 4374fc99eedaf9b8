//! Each example, run as its head says, and what it leaves behind.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use atonce_broker::{Broker, Durability};
use atonce_client::{Client, NewTopic, OffsetReset, Position, ProducerRecord, TopicPartition};

/// The program of an example. `cargo test` has built it, unless it was told to run this file only.
fn program(name: &str) -> Command {
    // This test is in target/PROFILE/deps.
    let mut path: PathBuf = std::env::current_exe().expect("it has a path");
    path.pop();
    path.pop();
    path.extend(["examples", name]);
    let changed = |path: &Path| path.metadata().and_then(|it| it.modified()).ok();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name).with_extension("rs");
    if changed(&path) < changed(&source) {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--package", env!("CARGO_PKG_NAME"), "--example", name]);
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        assert!(build.status().expect("cargo runs").success(), "{name} can be built");
    }
    Command::new(path)
}

async fn run(mut command: Command) -> String {
    let finished = tokio::task::spawn_blocking(move || command.output().expect("it starts"));
    let Output { status, stdout, stderr } = finished.await.expect("it was waited for");
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{status}: {stderr}");
    String::from_utf8(stdout).expect("is text")
}

async fn broker() -> (Broker, Client) {
    let broker = Broker::builder().temporary().durability(Durability::Os);
    let broker = broker.property("group.initial.rebalance.delay.ms", "0").start().await.expect("starts");
    let client = Client::builder(broker.bootstrap_servers()).connect().await.expect("is there");
    (broker, client)
}

/// So many committed records of a topic's partitions, sorted, as `key=value`.
async fn committed(client: &Client, topic: &str, partitions: i32, count: usize) -> Vec<String> {
    let places = (0..partitions).map(|partition| (TopicPartition::new(topic, partition), Position::Earliest));
    let mut consumer = client.consumer().read_committed().assign(places).await.expect("reads");
    let mut found = Vec::new();
    while found.len() < count {
        for record in &consumer.next_batch().await.expect("reads").expect("is not stopped") {
            let [key, value] = [record.key.clone(), record.value.clone()].map(Option::unwrap_or_default);
            found.push(format!("{}={}", String::from_utf8_lossy(&key), String::from_utf8_lossy(&value)));
        }
    }
    found.sort();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn produce_transactionally_writes_two_transfers_and_takes_one_back() {
    let (broker, client) = broker().await;
    let mut example = program("produce_transactionally");
    example.arg(broker.bootstrap_servers());
    run(example).await;
    let found = committed(&client, "accounts", 2, 4).await;
    assert_eq!(found, ["alice=-30", "bob=-10", "bob=30", "carol=10"]);
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn consume_process_produce_writes_a_receipt_for_each_order_though_it_is_killed() {
    let (broker, client) = broker().await;
    let created = client.admin().create_topics(&[NewTopic::new("orders", 1), NewTopic::new("receipts", 1)]).await;
    assert!(created.expect("is answered").values().all(Result::is_ok));
    let producer = client.producer().start().await.expect("starts");
    let write = async |orders: std::ops::Range<i32>| {
        for order in orders {
            let record = ProducerRecord::to("orders").key(format!("{order:03}")).value("x");
            drop(producer.send(record).await.expect("is taken"));
        }
        producer.flush().await.expect("is written");
    };
    let mut example = program("consume_process_produce");
    example.arg(broker.bootstrap_servers()).stderr(Stdio::null());
    let first = Killed(example.spawn().expect("it starts"));
    write(0..50).await;
    committed(&client, "receipts", 1, 10).await;
    drop(first);
    // Its former life's session would have to end first.
    let group = "payments".into();
    client.admin().remove_all_group_members(&group).await.expect("is answered");
    let _second = Killed(example.spawn().expect("it starts"));
    write(50..100).await;
    let expected: Vec<String> = (0..100).map(|order| format!("{order:03}=paid: x")).collect();
    assert_eq!(committed(&client, "receipts", 1, 100).await, expected);
    let consumer = client.consumer().read_committed().auto_offset_reset(OffsetReset::Fail);
    let places = [(TopicPartition::new("receipts", 0), Position::Earliest)];
    let mut consumer = consumer.assign(places).await.expect("reads");
    let mut count = 0;
    while let Some(event) = consumer.next_event(Duration::from_millis(500)).await.expect("reads") {
        if let atonce_client::ConsumerEvent::Batch(batch) = event {
            count += batch.len();
        }
    }
    assert_eq!(count, 100, "and no more");
}

#[tokio::test(flavor = "multi_thread")]
async fn embed_a_broker_finds_what_it_wrote_before() {
    let folder = std::env::temp_dir().join(format!("atonce-embed-a-broker-{}", std::process::id()));
    for time in 1..=2 {
        let mut example = program("embed_a_broker");
        example.arg(&folder);
        let told = run(example).await;
        assert!(told.contains(&format!("wrote at starts-0: Some({})", time - 1)), "{told}");
        assert!(told.ends_with(&format!("started {time} times\n")), "{told}");
    }
    std::fs::remove_dir_all(&folder).expect("it is there");
}
