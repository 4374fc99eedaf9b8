//! A cluster to test against: our own broker in this process, or whatever `ATONCE_TEST_BOOTSTRAP_SERVERS` names (Apache Kafka, say);
//! and what every test does with one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use atonce::client::{
    Client, ConsumerEvent, Isolation, NewTopic, OffsetSpec, Position, ProducerRecord, TopicName, TopicPartition,
};
use atonce::{Topology, TopologyBuilder, store};
use atonce_broker::Broker;
use bytes::Bytes;

pub(crate) struct Cluster {
    pub(crate) broker: Option<Broker>,
    pub(crate) bootstrap_servers: String,
    pub(crate) client: Client,
    /// In every name, so that tests do not meet on a cluster they share.
    prefix: String,
}

impl Cluster {
    /// Starts our own broker, or reaches the one that the environment names.
    pub(crate) async fn start(test: &str) -> Self {
        let _ = tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
            .with_test_writer()
            .try_init();
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (broker, bootstrap_servers) = match std::env::var("ATONCE_TEST_BOOTSTRAP_SERVERS") {
            Ok(servers) => (None, servers),
            Err(_) => {
                let broker = Broker::builder()
                    .temporary()
                    .property("group.initial.rebalance.delay.ms", "0")
                    .property("group.min.session.timeout.ms", "500")
                    .start()
                    .await
                    .unwrap();
                let servers = broker.bootstrap_servers();
                (Some(broker), servers)
            }
        };
        let client = Client::builder(bootstrap_servers.as_str()).connect().await.unwrap();
        let unique = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
        let prefix = format!("{test}-{}-{}-{since}", unique.0, unique.1);
        Self { broker, bootstrap_servers, client, prefix }
    }

    pub(crate) fn name(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }

    pub(crate) async fn create(&self, name: &str, partitions: i32) {
        let topic = NewTopic::new(self.name(name), partitions);
        for (_, outcome) in self.client.admin().create_topics(&[topic]).await.unwrap() {
            outcome.unwrap();
        }
    }

    /// Lines to words to counts, as the demo does it.
    pub(crate) fn word_count(&self) -> Topology {
        let builder = TopologyBuilder::new();
        builder
            .stream::<Option<Bytes>, String>(self.name("lines"))
            .flat_map_values(|line| line.split_whitespace().map(String::from).collect::<Vec<_>>())
            .group_by(|_, word| word.clone())
            .count(store("counts"))
            .to_stream()
            .to(self.name("word-counts"));
        builder.build().unwrap()
    }

    /// Writes lines to the partitions in turn.
    pub(crate) async fn load(&self, lines: &[String], partitions: i32) {
        let producer = self.client.producer().start().await.unwrap();
        for (line, partition) in lines.iter().zip((0..partitions).cycle()) {
            let record = ProducerRecord::to(self.name("lines")).partition(partition).value(line.as_str());
            let _delivery = producer.send(record).await.unwrap();
        }
        producer.close().await.unwrap();
    }

    /// For each word the counts that a reader of committed records sees, in order, once there are `total` of them in all, or when no
    /// more come for long.
    pub(crate) async fn counts(&self, total: usize) -> BTreeMap<String, Vec<i64>> {
        let topic = TopicName::from(self.name("word-counts"));
        let described = self.client.admin().describe_topics(std::slice::from_ref(&topic)).await.unwrap();
        let partitions = described[&topic].as_ref().unwrap().partitions.len() as i32;
        let all = (0..partitions).map(|index| (TopicPartition::new(topic.clone(), index), Position::Earliest));
        let mut consumer = self.client.consumer().read_committed().assign(all).await.unwrap();
        let mut counts: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        let mut found = 0;
        let mut last = std::time::Instant::now();
        while last.elapsed() < Duration::from_secs(40) {
            let Some(ConsumerEvent::Batch(batch)) = consumer.next_event(Duration::from_millis(200)).await.unwrap()
            else {
                // Everything that should be there is; what should not be there has had its chance to come.
                if found >= total && last.elapsed() > Duration::from_millis(500) {
                    break;
                }
                continue;
            };
            if !batch.is_empty() {
                last = std::time::Instant::now();
            }
            for record in batch {
                let word = String::from_utf8(record.key.unwrap().to_vec()).unwrap();
                let count = i64::from_be_bytes(record.value.unwrap().as_ref().try_into().unwrap());
                counts.entry(word).or_default().push(count);
                found += 1;
            }
        }
        counts
    }

    /// The end of a topic for a reader of committed records, control records included.
    pub(crate) async fn end_of(&self, name: &str) -> i64 {
        let topic = TopicName::from(name);
        let described = self.client.admin().describe_topics(std::slice::from_ref(&topic)).await.unwrap();
        let partitions = described[&topic].as_ref().unwrap().partitions.len() as i32;
        let all: Vec<_> =
            (0..partitions).map(|index| (TopicPartition::new(topic.clone(), index), OffsetSpec::Latest)).collect();
        let ends = self.client.admin().list_offsets(&all, Isolation::ReadCommitted).await.unwrap();
        ends.values().map(|end| end.offset.unwrap()).sum()
    }
}

/// Lines of words, some of which come often: the same for the same seed.
pub(crate) fn lines(seed: u64, count: usize) -> Vec<String> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let mut word = || {
        let (a, b) = (next() % 60, next() % 60);
        format!("w{}", a * b / 40)
    };
    (0..count).map(|_| (0..5).map(|_| word()).collect::<Vec<_>>().join(" ")).collect()
}

/// What must come out for these lines: every count of every word, once and in order.
pub(crate) fn expected(lines: &[String]) -> BTreeMap<String, Vec<i64>> {
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    for word in lines.iter().flat_map(|line| line.split_whitespace()) {
        *counts.entry(word.to_owned()).or_default() += 1;
    }
    counts.into_iter().map(|(word, count)| (word, (1..=count).collect())).collect()
}

pub(crate) fn total(lines: &[String]) -> usize {
    lines.iter().map(|line| line.split_whitespace().count()).sum()
}

/// Says which words are wrong, and how, instead of printing everything.
#[track_caller]
pub(crate) fn assert_exact(found: &BTreeMap<String, Vec<i64>>, lines: &[String]) {
    let expected = expected(lines);
    let mut wrong = Vec::new();
    for (word, counts) in &expected {
        let found = found.get(word).cloned().unwrap_or_default();
        if found != *counts {
            let missing = counts.iter().filter(|count| !found.contains(count)).count();
            let repeated = found.windows(2).filter(|pair| pair[1] <= pair[0]).count();
            wrong.push(format!(
                "{word}: {} counts, should be {}; {missing} missing, {repeated} out of order",
                found.len(),
                counts.len()
            ));
        }
    }
    let strangers = found.keys().filter(|word| !expected.contains_key(*word)).count();
    assert!(
        wrong.is_empty() && strangers == 0,
        "{} words wrong, {strangers} unknown:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
