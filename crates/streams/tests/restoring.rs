//! Tasks whose stores need nothing run while others restore.

#[allow(dead_code, reason = "the word counts need more of it")]
mod cluster;

use std::time::{Duration, Instant};

use atonce::client::{ConsumerEvent, Position, ProducerRecord, TopicName, TopicPartition};
use atonce::prelude::*;
use atonce::{ApplicationState, Error};
use cluster::Cluster;

/// One part counts into a store, the other only copies.
fn two_parts(cluster: &Cluster) -> Topology {
    let builder = TopologyBuilder::new();
    builder
        .stream::<String, String>(cluster.name("counted"))
        .group_by_key()
        .count(store("counts"))
        .to(cluster.name("counts"));
    builder.stream::<String, String>(cluster.name("copied")).to(cluster.name("copies"));
    builder.build().unwrap()
}

async fn start(cluster: &Cluster, state: &tempfile::TempDir) -> Result<Application, Error> {
    Application::builder(cluster.name("app"), two_parts(cluster))
        .bootstrap_servers(cluster.bootstrap_servers.as_str())
        .commit_interval(Duration::from_millis(20))
        .session_timeout(Duration::from_secs(6))
        .state_dir(state.path())
        .start()
        .await
}

async fn send(cluster: &Cluster, topic: &str, count: usize) {
    let producer = cluster.client.producer().start().await.unwrap();
    for _ in 0..count {
        let _delivery = producer.send(ProducerRecord::to(cluster.name(topic)).key("k").value("v")).await.unwrap();
    }
    producer.close().await.unwrap();
}

/// How many committed records a topic has, once there are `count`.
async fn committed(cluster: &Cluster, topic: &str, count: usize) -> usize {
    let partition = TopicPartition::new(TopicName::from(cluster.name(topic)), 0);
    let mut consumer =
        cluster.client.consumer().read_committed().assign([(partition, Position::Earliest)]).await.unwrap();
    let mut found = 0;
    let started = Instant::now();
    while found < count {
        assert!(started.elapsed() < Duration::from_secs(40), "{found} of {count} records in {topic}");
        if let Some(ConsumerEvent::Batch(batch)) = consumer.next_event(Duration::from_millis(100)).await.unwrap() {
            found += batch.len();
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_needs_nothing_runs_while_another_of_its_worker_restores() {
    let cluster = Cluster::start("restoring").await;
    for topic in ["counted", "counts", "copied", "copies"] {
        cluster.create(topic, 1).await;
    }
    let state = tempfile::tempdir().unwrap();
    send(&cluster, "counted", 3).await;
    let running = start(&cluster, &state).await.unwrap();
    assert_eq!(committed(&cluster, "counts", 3).await, 3);
    running.close().await.unwrap();

    // An open transaction in the change log: what it will come to must be known before the store is whole.
    let changelog = format!("{}-counts-changelog", cluster.name("app"));
    let stranger = cluster.client.transactional_producer(cluster.name("stranger"));
    let mut stranger = stranger.transaction_timeout(Duration::from_secs(60)).start().await.unwrap();
    let transaction = stranger.begin().await.unwrap();
    let record = ProducerRecord::to(changelog).partition(0).key("k").value(100_i64.to_be_bytes().to_vec());
    let delivery = transaction.send(record).await.unwrap();
    transaction.flush().await.unwrap();
    delivery.await.unwrap();

    let elsewhere = tempfile::tempdir().unwrap();
    send(&cluster, "counted", 1).await;
    send(&cluster, "copied", 5).await;
    let mut running = start(&cluster, &elsewhere).await.unwrap();
    assert_eq!(committed(&cluster, "copies", 5).await, 5);
    assert_eq!(running.state(), ApplicationState::Rebalancing);

    transaction.abort().await.unwrap();
    running.wait_until_running().await;
    assert_eq!(committed(&cluster, "counts", 4).await, 4);
    let partition = TopicPartition::new(TopicName::from(cluster.name("counts")), 0);
    let mut consumer =
        cluster.client.consumer().read_committed().assign([(partition, Position::Earliest)]).await.unwrap();
    let mut last = None;
    let mut found = 0;
    while found < 4 {
        if let Some(ConsumerEvent::Batch(batch)) = consumer.next_event(Duration::from_millis(100)).await.unwrap() {
            found += batch.len();
            last = batch.into_iter().last().or(last);
        }
    }
    assert_eq!(last.unwrap().value.as_deref(), Some(&4_i64.to_be_bytes()[..]), "what was aborted was not counted on");
    running.close().await.unwrap();
}
