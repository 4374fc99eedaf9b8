//! Beside Kafka Streams of the JVM: the same topologies over the same input, on the same cluster, must write the same records; and each of
//! the two must be able to go on where the other stopped.
//!
//! It needs `java`, and Kafka's jars in `ATONCE_TEST_KAFKA_CLASSPATH`; so it runs only when asked for (`-- --ignored`).

#[allow(dead_code, reason = "the word counts need more of it")]
mod cluster;

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::{Duration, Instant};

use atonce::client::{
    ConsumerEvent, ConsumerRecord, Isolation, OffsetSpec, Position, ProducerRecord, TopicName, TopicPartition,
};
use atonce::prelude::*;
use cluster::Cluster;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};

const PARTITIONS: i32 = 2;

/// How long the two may take to write what they should.
const PATIENCE: Duration = Duration::from_secs(90);

fn topology(kind: &str, input: &str, output: &str) -> Topology {
    let builder = TopologyBuilder::new();
    match kind {
        "count" => builder
            .stream::<String, String>(input)
            .filter(|_, line| !line.starts_with('#'))
            .flat_map_values(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>())
            .group_by(|_, word| word.clone())
            .count(store("counts"))
            .filter(|_, count| count % 3 != 1)
            .to(output),
        "table" => builder
            .table::<String, String>(input, store("lines"))
            .filter(|_, line| line.len() > 12)
            .map_values(|line| line.to_uppercase())
            .to(output),
        "reduce" => builder
            .stream::<String, String>(input)
            .repartition("again")
            .group_by_key()
            .reduce(
                |before, line| {
                    let both = format!("{before}/{line}");
                    both[both.len().saturating_sub(40)..].to_owned()
                },
                store("reduced"),
            )
            .to(output),
        other => panic!("no topology is called {other}"),
    }
    builder.build().unwrap()
}

/// An application of either runtime.
enum Running {
    Ours(Box<Application>),
    Jvm(Child),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Runtime {
    Ours,
    Jvm,
}

struct Scene<'a> {
    cluster: &'a Cluster,
    kind: &'a str,
    state: tempfile::TempDir,
}

impl Scene<'_> {
    async fn start(&self, runtime: Runtime, application: &str) -> Running {
        let (input, output) = (self.cluster.name("input"), self.cluster.name(&format!("{application}-output")));
        let application_id = self.cluster.name(application);
        let state = self.state.path().join(format!("{application}-{runtime:?}"));
        match runtime {
            Runtime::Ours => {
                let application = Application::builder(application_id, topology(self.kind, &input, &output))
                    .bootstrap_servers(self.cluster.bootstrap_servers.as_str())
                    .commit_interval(Duration::from_millis(50))
                    .session_timeout(Duration::from_secs(6))
                    .repartition_purge_interval(Duration::from_secs(3600))
                    .state_dir(state)
                    .start()
                    .await
                    .unwrap();
                Running::Ours(Box::new(application))
            }
            Runtime::Jvm => {
                let classpath = std::env::var("ATONCE_TEST_KAFKA_CLASSPATH").expect("Kafka's jars are named");
                let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/beside_the_jvm/Topologies.java");
                let java = Command::new("java")
                    .args(["-Xmx256m", "-cp", &classpath, source])
                    .args([&self.cluster.bootstrap_servers, &application_id, self.kind, &input, &output])
                    .arg(state)
                    .stdin(Stdio::piped())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .kill_on_drop(true)
                    .spawn()
                    .unwrap();
                Running::Jvm(java)
            }
        }
    }

    /// Waits until the group has committed all input and all of its repartition topic.
    async fn wait_until_done(&self, application: &str) {
        let mut topics = vec![self.cluster.name("input")];
        let again = format!("{}-{}-repartition", self.cluster.name(application), repartition(self.kind).unwrap_or(""));
        if repartition(self.kind).is_some() {
            topics.push(again);
        }
        let group = atonce::client::GroupId::from(self.cluster.name(application));
        let admin = self.cluster.client.admin();
        let started = Instant::now();
        loop {
            let mut left = Vec::new();
            for topic in &topics {
                let last = last_records(self.cluster, topic).await;
                let partitions: Vec<TopicPartition> = last.keys().cloned().collect();
                let committed = admin.committed_offsets(&group, &partitions, true).await.unwrap();
                left.extend(last.into_iter().filter(|(partition, last)| {
                    committed.get(partition).is_none_or(|committed| committed.offset <= *last)
                }));
                if partitions.is_empty() {
                    left.push((TopicPartition::new(topic.as_str(), -1), 0));
                }
            }
            if left.is_empty() {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "{application} has not processed {left:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// What the application has written: its output, its repartition topic, and what its change log comes to.
    async fn written(&self, application: &str) -> Written {
        let id = self.cluster.name(application);
        let output = read(self.cluster, &self.cluster.name(&format!("{application}-output"))).await;
        let repartitioned = match repartition(self.kind) {
            Some(name) => read(self.cluster, &format!("{id}-{name}-repartition")).await,
            None => BTreeMap::new(),
        };
        let changelog = read(self.cluster, &format!("{id}-{}-changelog", store_of(self.kind))).await;
        // Ours has one record a commit for each key, the JVM's one for each update: what counts is the last.
        let state = changelog.into_iter().map(|(key, records)| (key, records.last().unwrap().clone())).collect();
        Written { output, repartitioned, state }
    }
}

fn repartition(kind: &str) -> Option<&'static str> {
    match kind {
        "count" => Some("counts"),
        "reduce" => Some("again"),
        _ => None,
    }
}

fn store_of(kind: &str) -> &'static str {
    match kind {
        "count" => "counts",
        "table" => "lines",
        _ => "reduced",
    }
}

impl Running {
    async fn close(self) {
        match self {
            Self::Ours(application) => application.close().await.unwrap(),
            Self::Jvm(mut java) => {
                java.stdin.take().unwrap().shutdown().await.unwrap();
                assert!(java.wait().await.unwrap().success());
            }
        }
    }
}

/// Value, time and headers of a record, in a form that prints.
type Seen = (Option<String>, i64, Vec<(String, String)>);

/// Of each partition and key, its records in order: between keys of two input partitions there is no order.
type Sequences = BTreeMap<(i32, String), Vec<Seen>>;

#[derive(Debug, PartialEq)]
struct Written {
    output: Sequences,
    repartitioned: Sequences,
    state: BTreeMap<(i32, String), Seen>,
}

async fn consume(cluster: &Cluster, topic: &str) -> Vec<ConsumerRecord> {
    let topic = TopicName::from(topic);
    let described = cluster.client.admin().describe_topics(std::slice::from_ref(&topic)).await.unwrap();
    let Ok(found) = described[&topic].as_ref() else { return Vec::new() };
    let count = i32::try_from(found.partitions.len()).unwrap();
    let partitions: Vec<TopicPartition> = (0..count).map(|index| TopicPartition::new(topic.clone(), index)).collect();
    let at: Vec<_> = partitions.iter().map(|partition| (partition.clone(), OffsetSpec::Latest)).collect();
    let ends = cluster.client.admin().list_offsets(&at, Isolation::ReadCommitted).await.unwrap();
    let from = partitions.iter().map(|partition| (partition.clone(), Position::Earliest));
    let mut consumer = cluster.client.consumer().read_committed().assign(from).await.unwrap();
    let mut records = Vec::new();
    // Positions step over control records, so they reach the ends.
    while partitions.iter().any(|it| consumer.position(it).unwrap_or(0) < ends[it].offset.unwrap()) {
        if let Some(ConsumerEvent::Batch(batch)) = consumer.next_event(Duration::from_millis(100)).await.unwrap() {
            records.extend(batch);
        }
    }
    records
}

async fn last_records(cluster: &Cluster, topic: &str) -> BTreeMap<TopicPartition, i64> {
    let records = consume(cluster, topic).await;
    records.into_iter().map(|record| (record.topic_partition, record.offset)).collect()
}

async fn read(cluster: &Cluster, topic: &str) -> Sequences {
    let text = |bytes: &Bytes| match std::str::from_utf8(bytes) {
        Ok(text) if text.chars().all(|c| !c.is_control()) => text.to_owned(),
        _ => format!("{bytes:?}"),
    };
    let mut sequences = Sequences::new();
    for record in consume(cluster, topic).await {
        let key = (record.topic_partition.partition, record.key.as_ref().map(text).unwrap_or_default());
        let headers = record
            .headers
            .iter()
            .map(|header| (header.key.clone(), header.value.as_ref().map(text).unwrap_or_default()));
        let seen = (record.value.as_ref().map(text), record.timestamp.0, headers.collect());
        sequences.entry(key).or_default().push(seen);
    }
    sequences
}

/// Lines with words of their partition's own, times that jump back now and then, headers, and tombstones where the input is a table.
async fn load(cluster: &Cluster, kind: &str, round: i64) {
    let producer = cluster.client.producer().start().await.unwrap();
    let mut seed = 11 + round.cast_unsigned();
    let mut next = |bound: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % bound
    };
    for index in 0..400_i64 {
        let partition = i32::try_from(next(2)).unwrap();
        let mut line: Vec<String> = (0..1 + next(4)).map(|_| format!("p{partition}w{}", next(12))).collect();
        if next(20) == 0 {
            line.insert(0, "#".to_owned());
        }
        let timestamp = 1_700_000_000_000 + round * 400_000 + index * 1000 - i64::try_from(next(5)).unwrap() * 3000;
        let mut record = ProducerRecord::to(cluster.name("input"))
            .partition(partition)
            .key(format!("p{partition}k{}", next(9)))
            .timestamp(timestamp)
            .header("index", index.to_string());
        if kind != "table" || next(6) != 0 {
            record = record.value(line.join(" "));
        }
        let _delivery = producer.send(record).await.unwrap();
    }
    producer.close().await.unwrap();
}

#[track_caller]
fn assert_same(ours: &Written, jvm: &Written) {
    let compare = |what: &str, ours: &Sequences, jvm: &Sequences| {
        let keys: std::collections::BTreeSet<_> = ours.keys().chain(jvm.keys()).collect();
        for key in keys {
            assert_eq!(ours.get(key), jvm.get(key), "{what} of {key:?}: left ours, right the JVM's");
        }
    };
    compare("output", &ours.output, &jvm.output);
    compare("repartition topic", &ours.repartitioned, &jvm.repartitioned);
    assert_eq!(ours.state.keys().collect::<Vec<_>>(), jvm.state.keys().collect::<Vec<_>>(), "keys of the change log");
    for (key, seen) in &ours.state {
        let (value, timestamp, _) = seen;
        let (jvm_value, jvm_timestamp, _) = &jvm.state[key];
        assert_eq!((value, timestamp), (jvm_value, jvm_timestamp), "change log of {key:?}: left ours, right the JVM's");
    }
    assert!(!ours.output.is_empty());
}

/// First each runtime with an application of its own, then each with the other's.
async fn the_same_records_come_out(kind: &str) {
    let cluster = Cluster::start(kind).await;
    for topic in ["input", "a-output", "b-output"] {
        cluster.create(topic, PARTITIONS).await;
    }
    let scene = Scene { cluster: &cluster, kind, state: tempfile::tempdir().unwrap() };
    let halves = [(Runtime::Ours, Runtime::Jvm), (Runtime::Jvm, Runtime::Ours)];
    for (round, (of_a, of_b)) in (0_i64..).zip(halves) {
        load(&cluster, kind, round).await;
        for (application, runtime) in [("a", of_a), ("b", of_b)] {
            let running = scene.start(runtime, application).await;
            scene.wait_until_done(application).await;
            running.close().await;
        }
        assert_same(&scene.written("a").await, &scene.written("b").await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs java, and Kafka's jars in ATONCE_TEST_KAFKA_CLASSPATH"]
async fn a_count_over_a_repartition_topic() {
    the_same_records_come_out("count").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs java, and Kafka's jars in ATONCE_TEST_KAFKA_CLASSPATH"]
async fn a_table_filtered_and_mapped() {
    the_same_records_come_out("table").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs java, and Kafka's jars in ATONCE_TEST_KAFKA_CLASSPATH"]
async fn a_reduction_after_a_repartition_that_was_asked_for() {
    the_same_records_come_out("reduce").await;
}
