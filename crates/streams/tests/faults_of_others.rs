//! Faults that other libraries had, each as the right behaviour; the ledger is `docs/faults.md`.

#[allow(dead_code, reason = "the word counts need more of it")]
mod cluster;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use atonce::client::admin::{TransactionFilter, TransactionState};
use atonce::client::{Client, GroupId, NewTopic, Position, ProducerRecord, TopicName, TopicPartition};
use atonce::error::WorkerError;
use atonce::{Application, ApplicationBuilder, Error, Guarantee, Topology, TopologyBuilder};
use atonce_broker::Broker;
use atonce_protocol::{AnyResponse, ApiKey};
use atonce_testkit::proxy::Proxy;
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

async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !condition().await {
        assert!(started.elapsed() < Duration::from_secs(60), "waited a minute: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn application(cluster: &Cluster, topology: Topology, state: &tempfile::TempDir) -> ApplicationBuilder {
    let application = Application::builder(cluster.name("app"), topology);
    application.bootstrap_servers(cluster.bootstrap_servers.as_str()).state_dir(state.path())
}

/// KAFKA-19479: what had to be cut in two was not waited for, and its positions were committed without it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_too_large_for_its_topic_is_cut_up_and_all_of_it_is_there_before_its_positions_are() {
    let expected: Vec<String> = (0..300).map(|number| format!("{number:0>300}")).collect();
    for guarantee in Guarantee::ALL {
        let cluster = Cluster::start("cut").await;
        cluster.create("in", 1).await;
        let out = NewTopic::new(cluster.name("out"), 1).config("max.message.bytes", "1500");
        for (_, created) in cluster.client.admin().create_topics(&[out]).await.unwrap() {
            created.unwrap();
        }
        let producer = cluster.client.producer().start().await.unwrap();
        for value in &expected {
            let _delivery = producer.send(ProducerRecord::to(cluster.name("in")).value(value.clone())).await.unwrap();
        }
        producer.close().await.unwrap();
        let state = tempfile::tempdir().unwrap();
        let topology = passing(&cluster.name("in"), &cluster.name("out"));
        let running = application(&cluster, topology, &state).guarantee(guarantee).start().await.unwrap();
        let reader = running.statistics_reader();
        // All is committed at once, and by then all is there.
        until("its positions are committed", async || reader.read().records == 300).await;
        assert_eq!(values(&cluster.client, &cluster.name("out"), 300).await, expected, "{guarantee}");
        assert_eq!(running.statistics().aborted, 0);
        running.close().await.unwrap();
    }
}

/// Each repartition topic is read once it is committed, so each added a commit interval to what a record takes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_passes_several_repartition_topics_without_waiting_for_intervals_if_commits_come_by_records() {
    let cluster = Cluster::start("hops").await;
    cluster.create("in", 1).await;
    cluster.create("out", 1).await;
    let builder = TopologyBuilder::new();
    let stream = builder.stream::<Option<String>, String>(cluster.name("in")).select_key(|_, value| value.clone());
    stream.repartition("one").repartition("two").repartition("three").to(cluster.name("out"));
    let state = tempfile::tempdir().unwrap();
    let running = application(&cluster, builder.build().unwrap(), &state)
        // Nobody waits for as long as this.
        .commit_interval(Duration::from_secs(600))
        .transaction_timeout(Duration::from_secs(700))
        .commit_after_records(1)
        .start()
        .await
        .unwrap();
    for round in 1..=3 {
        send(&cluster.client, &cluster.name("in"), "x").await;
        assert_eq!(values(&cluster.client, &cluster.name("out"), round).await, vec!["x"; round]);
    }
    running.close().await.unwrap();
}

/// KAFKA-18476: what followed from an error that had been dealt with already ended the thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_that_are_refused_cost_their_interval_and_nothing_else() {
    let cluster = Cluster::start("refused").await;
    cluster.create("in", 1).await;
    cluster.create("out", 1).await;
    let proxy = Proxy::start(&cluster.bootstrap_servers, 1).await.unwrap();
    let left = Arc::new(AtomicU64::new(0));
    let to_refuse = Arc::clone(&left);
    proxy.change_answers(ApiKey::Produce, move |answer, _| {
        const TRANSACTION_ABORTABLE: i16 = 120;
        let AnyResponse::Produce(answer) = answer else { return };
        if to_refuse.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            let partitions = answer.responses.iter_mut().flat_map(|topic| &mut topic.partition_responses);
            partitions.for_each(|partition| partition.error_code = TRANSACTION_ABORTABLE);
        }
    });
    let state = tempfile::tempdir().unwrap();
    let topology = passing(&cluster.name("in"), &cluster.name("out"));
    let running = Application::builder(cluster.name("app"), topology)
        .bootstrap_servers(proxy.bootstrap_servers())
        .state_dir(state.path())
        .start()
        .await
        .unwrap();
    let mut expected = Vec::new();
    for round in 1..=3_u64 {
        left.store(round, Ordering::SeqCst);
        expected.push(format!("{round}"));
        send(&cluster.client, &cluster.name("in"), expected.last().unwrap()).await;
        assert_eq!(values(&cluster.client, &cluster.name("out"), expected.len()).await, expected);
        assert_eq!(left.load(Ordering::SeqCst), 0, "each was refused");
    }
    assert_eq!(running.statistics().aborted, 1 + 2 + 3);
    running.close().await.unwrap();
}

/// corda 6303: a transaction that took too long was taken for one of a producer that another has replaced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_took_too_long_is_begun_again_by_the_same_worker() {
    let cluster = Cluster::start("slow").await;
    cluster.create("in", 1).await;
    cluster.create("out", 1).await;
    let (is_held, is_released) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (held, released) = (Arc::clone(&is_held), Arc::clone(&is_released));
    let builder = TopologyBuilder::new();
    builder
        .stream::<Option<String>, String>(cluster.name("in"))
        .peek(move |_, value| {
            if value == "slow" {
                held.store(true, Ordering::SeqCst);
                tokio::task::block_in_place(|| {
                    while !released.load(Ordering::SeqCst) {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                });
            }
        })
        // So much that it is sent, and the transaction begun, before the next record is looked at.
        .flat_map_values(|value| vec![value; 1000])
        .to(cluster.name("out"));
    let producer = cluster.client.producer().start().await.unwrap();
    for value in ["quick", "slow"] {
        let _delivery = producer.send(ProducerRecord::to(cluster.name("in")).value(value)).await.unwrap();
    }
    producer.close().await.unwrap();
    let state = tempfile::tempdir().unwrap();
    let running = application(&cluster, builder.build().unwrap(), &state)
        .commit_interval(Duration::from_millis(900))
        .transaction_timeout(Duration::from_secs(1))
        .start()
        .await
        .unwrap();
    until("it is held up", async || is_held.load(Ordering::SeqCst)).await;
    let admin = cluster.client.admin();
    let name = cluster.name("app");
    until("its transaction is aborted over its head", async || {
        let listed = admin.list_transactions(&TransactionFilter::all()).await.unwrap();
        listed
            .iter()
            .any(|it| it.transactional_id.as_str().starts_with(&name) && it.state == TransactionState::CompleteAbort)
    })
    .await;
    is_released.store(true, Ordering::SeqCst);
    let expected: Vec<&str> = [["quick"; 1000], ["slow"; 1000]].concat();
    assert_eq!(values(&cluster.client, &cluster.name("out"), 2000).await, expected);
    assert!(running.statistics().aborted >= 1);
    running.close().await.unwrap();
}

/// KAFKA-17057: a record for a topic that is not there was tried for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_for_a_topic_that_is_not_there_ends_its_worker_and_the_topic_is_named() {
    let cluster = Cluster::start("absent").await;
    cluster.create("in", 1).await;
    let builder = TopologyBuilder::new();
    let stream = builder.stream::<Option<String>, String>(cluster.name("in"));
    let absent = TopicName::from(cluster.name("absent"));
    let to = absent.clone();
    stream.to_chosen(move |_, _| to.clone());
    let state = tempfile::tempdir().unwrap();
    let running = application(&cluster, builder.build().unwrap(), &state)
        .call_timeout(Duration::from_secs(3))
        .start()
        .await
        .unwrap();
    send(&cluster.client, &cluster.name("in"), "x").await;
    let ended = tokio::time::timeout(Duration::from_secs(60), running.run_until(std::future::pending())).await;
    let ended = ended.expect("it does not go on for ever").unwrap_err();
    assert!(matches!(ended, Error::Worker { source: WorkerError::Output(_), .. }), "{ended}");
    assert!(ended.to_string().contains(absent.as_str()), "{ended}");
}
