//! Faults that other libraries had, each as the right behaviour; the ledger is `docs/faults.md`.

#[allow(dead_code, reason = "the word counts need more of it")]
mod cluster;

use std::time::Duration;

use atonce::client::admin::TransactionFilter;
use atonce::client::{Client, GroupId, NewTopic, Position, ProducerRecord, TopicName, TopicPartition};
use atonce::{Application, Error, Guarantee, Topology, TopologyBuilder};
use atonce_broker::Broker;
use cluster::Cluster;

fn passing(from: &str, to: &str) -> Topology {
    let builder = TopologyBuilder::new();
    builder.stream::<Option<String>, String>(from).to(to);
    builder.build().unwrap()
}

async fn send(client: &Client, topic: &str, value: &str) {
    let producer = client.producer().start().await.unwrap();
    let _delivery = producer.send(ProducerRecord::to(topic).value(value)).await.unwrap();
    producer.close().await.unwrap();
}

/// The values that a reader of committed records sees, once `count` are there, and a moment later.
async fn values(client: &Client, topic: &str, count: usize) -> Vec<String> {
    let at = [(TopicPartition::new(TopicName::from(topic), 0), Position::Earliest)];
    let mut consumer = client.consumer().read_committed().assign(at).await.unwrap();
    let mut values = Vec::new();
    let all = async {
        while values.len() < count {
            for record in consumer.next_batch().await.unwrap().unwrap() {
                values.push(String::from_utf8(record.value.unwrap().to_vec()).unwrap());
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), all).await.expect("the records come");
    values
}

/// KAFKA-16699: an application that had nothing to do for as long as its transactional id is remembered died of the first record after that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_whose_transactional_id_was_forgotten_goes_on_with_a_new_producer() {
    let broker = Broker::builder()
        .temporary()
        .property("group.initial.rebalance.delay.ms", "0")
        .property("transactional.id.expiration.ms", "300")
        .start()
        .await
        .unwrap();
    let client = Client::builder(broker.bootstrap_servers()).connect().await.unwrap();
    let admin = client.admin();
    for (_, created) in admin.create_topics(&["in", "out"].map(|topic| NewTopic::new(topic, 1))).await.unwrap() {
        created.unwrap();
    }
    let state = tempfile::tempdir().unwrap();
    let running = Application::builder("idle", passing("in", "out"))
        .bootstrap_servers(broker.bootstrap_servers())
        .state_dir(state.path())
        .start()
        .await
        .unwrap();
    for (round, value) in ["one", "two", "three"].into_iter().enumerate() {
        send(&client, "in", value).await;
        assert_eq!(values(&client, "out", round + 1).await, ["one", "two", "three"][..=round]);
        let started = std::time::Instant::now();
        while !admin.list_transactions(&TransactionFilter::all()).await.unwrap().is_empty() {
            assert!(started.elapsed() < Duration::from_secs(60), "the id is not forgotten");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    running.close().await.unwrap();
}

/// faust 367: two applications on one cluster had the same transactional ids, and fenced each other for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_applications_of_one_topology_and_one_process_id_do_not_fence_each_other() {
    let cluster = Cluster::start("two-apps").await;
    for topic in ["in", "out-a", "out-b"] {
        cluster.create(topic, 1).await;
    }
    let states = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut running = Vec::new();
    for (name, state) in ["a", "b"].into_iter().zip(&states) {
        let topology = passing(&cluster.name("in"), &cluster.name(&format!("out-{name}")));
        let application = Application::builder(cluster.name(name), topology)
            .bootstrap_servers(cluster.bootstrap_servers.as_str())
            .process_id("one-for-both")
            .state_dir(state.path());
        running.push(application.start().await.unwrap());
    }
    for round in 1..=3 {
        send(&cluster.client, &cluster.name("in"), "x").await;
        for name in ["out-a", "out-b"] {
            assert_eq!(values(&cluster.client, &cluster.name(name), round).await, vec!["x"; round]);
        }
    }
    for running in running {
        let statistics = running.statistics();
        assert_eq!((statistics.fenced, statistics.aborted), (0, 0));
        running.close().await.unwrap();
    }
}

/// apache_flink-kickstarter 787: a time-out above the broker's maximum ended in a fault of the clean-up that said nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_time_out_above_the_brokers_maximum_is_told_before_any_worker_runs() {
    let cluster = Cluster::start("long").await;
    cluster.create("in", 1).await;
    cluster.create("out", 1).await;
    let state = tempfile::tempdir().unwrap();
    let application = |timeout| {
        Application::builder(cluster.name("app"), passing(&cluster.name("in"), &cluster.name("out")))
            .bootstrap_servers(cluster.bootstrap_servers.as_str())
            .transaction_timeout(timeout)
            .state_dir(state.path())
    };
    let Err(refused) = application(Duration::from_secs(24 * 3600)).start().await else { panic!("it runs") };
    assert!(matches!(refused, Error::Setting { setting: "transaction time-out", .. }), "{refused}");
    // Both values, and what to change.
    for part in ["86400s", "900s", "transaction.max.timeout.ms"] {
        assert!(refused.to_string().contains(part), "{refused}");
    }
    let group = GroupId::from(cluster.name("app"));
    let described = cluster.client.admin().describe_groups(std::slice::from_ref(&group)).await.unwrap();
    assert!(!described[&group].as_ref().is_ok_and(|it| !it.members.is_empty()), "no worker has joined");
    // The longest that is allowed; and without transactions it is of no concern.
    application(Duration::from_secs(900)).start().await.unwrap().close().await.unwrap();
    let without = application(Duration::from_secs(24 * 3600)).guarantee(Guarantee::AtLeastOnce);
    without.start().await.unwrap().close().await.unwrap();
}
