//! Tasks whose stores need nothing run while others restore.

#[allow(dead_code, reason = "the word counts need more of it")]
mod cluster;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use atonce::client::admin::{AlterConfig, ConfigResource};
use atonce::client::{ConsumerEvent, Position, ProducerRecord, TopicName, TopicPartition};
use atonce::prelude::*;
use atonce::{ApplicationState, Error};
use atonce_protocol::{AnyResponse, ApiKey};
use atonce_testkit::proxy::Proxy;
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
    let changelog = changelog(&cluster);
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

/// A change log with three records, and behind them an open transaction of somebody else.
async fn held_up(cluster: &Cluster) -> atonce::client::OwnedTransaction {
    for topic in ["counted", "counts", "copied", "copies"] {
        cluster.create(topic, 1).await;
    }
    let state = tempfile::tempdir().unwrap();
    send(cluster, "counted", 3).await;
    let running = start(cluster, &state).await.unwrap();
    assert_eq!(committed(cluster, "counts", 3).await, 3);
    running.close().await.unwrap();
    let stranger = cluster.client.transactional_producer(cluster.name("stranger"));
    let stranger = stranger.transaction_timeout(Duration::from_secs(60)).start().await.unwrap();
    let Ok(transaction) = stranger.begin_owned().await else { panic!("nobody else has the id") };
    let record = ProducerRecord::to(changelog(cluster)).partition(0).key("k").value(100_i64.to_be_bytes().to_vec());
    let delivery = transaction.send(record).await.unwrap();
    transaction.flush().await.unwrap();
    delivery.await.unwrap();
    transaction
}

fn changelog(cluster: &Cluster) -> String {
    format!("{}-counts-changelog", cluster.name("app"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_log_that_is_cut_under_a_store_that_follows_it_is_followed_from_its_new_beginning() {
    let cluster = Cluster::start("cut").await;
    let transaction = held_up(&cluster).await;
    let state = tempfile::tempdir().unwrap();
    let mut running = start(&cluster, &state).await.unwrap();
    let reader = running.metrics_reader();
    let waits = || {
        let tasks = reader.read().tasks;
        tasks.values().any(|task| task.restore_total > 0 && task.restore_remaining_records_total > 0)
    };
    let started = Instant::now();
    while !waits() {
        assert!(started.elapsed() < Duration::from_secs(60), "it should wait for the transaction");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let partition = TopicPartition::new(changelog(&cluster).as_str(), 0);
    // From a topic that is only compacted nobody may delete.
    let topic = ConfigResource::Topic(partition.topic.clone());
    let both = vec![AlterConfig::set("cleanup.policy", "compact,delete")];
    let altered = cluster.client.admin().alter_configs(&[(topic.clone(), both)]).await.unwrap();
    assert!(altered[&topic].is_ok(), "{altered:?}");
    // A cluster hears of the setting a moment after it has acknowledged it.
    let started = Instant::now();
    loop {
        let deleted = cluster.client.admin().delete_records(&[(partition.clone(), -1)]).await.unwrap();
        if deleted[&partition].is_ok() {
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{deleted:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // What it waited for is gone; it need not wait for the transaction's end.
    running.wait_until_running().await;
    assert_eq!(running.statistics().rebuilt_stores, 1);
    let (_, aborted) = transaction.abort().await;
    aborted.unwrap();
    running.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_does_not_wait_for_an_end_that_its_change_log_has_no_more() {
    let cluster = Cluster::start("stalled").await;
    for topic in ["counted", "counts", "copied", "copies"] {
        cluster.create(topic, 1).await;
    }
    let state = tempfile::tempdir().unwrap();
    send(&cluster, "counted", 3).await;
    let running = start(&cluster, &state).await.unwrap();
    assert_eq!(committed(&cluster, "counts", 3).await, 3);
    running.close().await.unwrap();

    // A leader that later loses records which nobody had yet: the first answer says that there are more than there are.
    let proxy = Proxy::start(&cluster.bootstrap_servers, 1).await.unwrap();
    let (lies, name) = (Arc::new(AtomicI64::new(5)), changelog(&cluster));
    let lie = Arc::clone(&lies);
    proxy.change_answers(ApiKey::ListOffsets, move |answer, _| {
        let AnyResponse::ListOffsets(answer) = answer else { return };
        for topic in answer.topics.iter_mut().filter(|topic| topic.name == name) {
            for partition in topic.partitions.iter_mut().filter(|partition| partition.offset > 0) {
                partition.offset += lie.load(Ordering::SeqCst);
            }
        }
    });
    let elsewhere = tempfile::tempdir().unwrap();
    let mut running = Application::builder(cluster.name("app"), two_parts(&cluster))
        .bootstrap_servers(proxy.bootstrap_servers())
        .commit_interval(Duration::from_millis(20))
        .session_timeout(Duration::from_secs(6))
        .state_dir(elsewhere.path())
        .start()
        .await
        .unwrap();
    let reader = running.metrics_reader();
    let started = Instant::now();
    while !reader.read().tasks.values().any(|task| task.restore_total > 0) {
        assert!(started.elapsed() < Duration::from_secs(60), "it should restore");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    lies.store(0, Ordering::SeqCst);
    running.wait_until_running().await;
    send(&cluster, "counted", 1).await;
    assert_eq!(committed(&cluster, "counts", 4).await, 4);
    running.close().await.unwrap();
}
