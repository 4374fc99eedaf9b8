//! The judge: what it puts in, what must come out, what the group and the stores must say then.

pub(crate) mod process;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::time::{Duration, Instant};

use atonce::client::{
    ConsumerEvent, ConsumerRecord, GroupId, Isolation, OffsetSpec, Position, ProducerRecord, TopicPartition,
};
use atonce::{Application, ApplicationBuilder, DiskEngine, TaskId, Topology, TopologyBuilder, WorkerVerdict, store};
use atonce_kernel::chance::Chance;
use atonce_streams_core::store::{Direction, StoreEngine};
use bytes::Bytes;

use crate::cluster::Cluster;
use process::Settings;

pub(crate) const PARTITIONS: i32 = 3;

/// Keys of the input; each is always written to the same partition.
const KEYS: u64 = 20;

/// Keys that the values are counted by.
const LANES: u64 = 15;

type Place = BTreeMap<i32, Vec<ConsumerRecord>>;

pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_secs(60), "waited a minute: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// What a key has seen so far, in order: how much, and a sum that any other order, loss or repetition changes.
fn link(seen: &str, value: &str) -> String {
    let (count, sum) = seen.split_once(':').unwrap_or(("0", ""));
    let count: u64 = count.parse().unwrap();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in sum.bytes().chain(value.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{}:{hash:016x}", count + 1)
}

/// The key that a value is counted by.
fn lane(value: &str) -> String {
    format!("lane-{}", value.parse::<u64>().unwrap() % LANES)
}

fn topology(prefix: &str) -> Topology {
    let builder = TopologyBuilder::new();
    let input = builder.stream::<String, String>(format!("{prefix}.input"));
    input
        .clone()
        .group_by_key()
        .aggregate(String::new, |_, value, seen| link(&seen, &value), store("chains"))
        .to_stream()
        .to(format!("{prefix}.chains"));
    input.group_by(|_, value| lane(value)).count(store("counts")).to_stream().to(format!("{prefix}.counts"));
    builder.build().unwrap()
}

/// The application, as each process runs it.
#[expect(clippy::print_stderr, reason = "the judge keeps it as the process's log")]
pub(crate) fn application(settings: &Settings) -> ApplicationBuilder {
    Application::builder(format!("{}.app", settings.prefix), topology(&settings.prefix))
        .bootstrap_servers(settings.bootstrap_servers.as_str())
        .commit_interval(Duration::from_millis(50))
        .session_timeout(Duration::from_secs(6))
        .call_timeout(Duration::from_secs(5))
        .state_dir(&settings.state_dir)
        .on_worker_error(|error| {
            eprintln!("replaced: {error}");
            WorkerVerdict::Replace
        })
        .workers(2)
}

/// What a group's application has done, by what went in and what came out.
pub(crate) struct Judge {
    pub(crate) cluster: Cluster,
    prefix: String,
    loaded: u64,
}

impl Judge {
    pub(crate) async fn new(cluster: Cluster) -> Self {
        for topic in ["input", "chains", "counts"] {
            cluster.create(topic, PARTITIONS).await;
        }
        let prefix = cluster.name("x").trim_end_matches(".x").to_owned();
        Self { cluster, prefix, loaded: 0 }
    }

    pub(crate) fn settings(&self, servers: &str, state_dir: &Path) -> Settings {
        let (bootstrap_servers, state_dir) = (servers.to_owned(), state_dir.to_owned());
        Settings { bootstrap_servers, prefix: self.prefix.clone(), state_dir }
    }

    pub(crate) fn application(&self, settings: &Settings) -> ApplicationBuilder {
        application(settings)
    }

    /// So many records more.
    pub(crate) async fn load(&mut self, records: u64) {
        let producer = self.cluster.client.producer().start().await.unwrap();
        for number in self.loaded..self.loaded + records {
            let key = number.wrapping_mul(0x9e37_79b9) % KEYS;
            let record = ProducerRecord::to(self.cluster.name("input"))
                .partition(i32::try_from(key).unwrap() % PARTITIONS)
                .key(format!("key-{key}"))
                .value(number.to_string());
            let _delivery = producer.send(record).await.unwrap();
        }
        producer.close().await.unwrap();
        self.loaded += records;
    }

    /// Our own broker, or a node of those that we were lent.
    pub(crate) async fn crash_a_broker(&self, chance: &mut Chance) {
        if let Some(broker) = &self.cluster.broker {
            broker.crash().await.unwrap();
            broker.restart().await.unwrap();
        } else if let Some(data) = kafka_data() {
            let node = 1 + chance.below(3);
            kafka("kill", node, &data).await;
            tokio::time::sleep(Duration::from_millis(chance.below(4000))).await;
            kafka("restart", node, &data).await;
        }
    }

    /// A rolling restart of the nodes that we were lent, under load.
    pub(crate) async fn restart_all_nodes(&mut self) {
        let Some(data) = kafka_data().filter(|_| self.cluster.broker.is_none()) else { return };
        for node in 1..=3 {
            kafka("kill", node, &data).await;
            self.load(100).await;
            kafka("restart", node, &data).await;
            self.load(100).await;
        }
    }

    /// What must come out, for each key in order: by the input as it stands in its topic.
    async fn expected(&self) -> (BTreeMap<String, Vec<String>>, BTreeMap<String, Vec<i64>>) {
        let (mut chains, mut counts) = (BTreeMap::<String, Vec<String>>::new(), BTreeMap::<String, Vec<i64>>::new());
        for record in self.records(&self.cluster.name("input")).await.into_values().flatten() {
            let (key, value) = (text(record.key), text(record.value));
            let chain = chains.entry(key).or_default();
            chain.push(link(chain.last().map_or("", String::as_str), &value));
            let count = counts.entry(lane(&value)).or_default();
            count.push(count.len() as i64 + 1);
        }
        (chains, counts)
    }

    async fn found(&self) -> (BTreeMap<String, Vec<String>>, BTreeMap<String, Vec<i64>>) {
        let (mut chains, mut counts) = (BTreeMap::<String, Vec<String>>::new(), BTreeMap::<String, Vec<i64>>::new());
        for record in self.records(&self.cluster.name("chains")).await.into_values().flatten() {
            chains.entry(text(record.key)).or_default().push(text(record.value));
        }
        for record in self.records(&self.cluster.name("counts")).await.into_values().flatten() {
            let count = i64::from_be_bytes(record.value.unwrap().as_ref().try_into().unwrap());
            counts.entry(text(record.key)).or_default().push(count);
        }
        (chains, counts)
    }

    /// Waits until as much came out as went in.
    pub(crate) async fn wait_for_effects(&self, limit: Duration) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let (chains, counts) = self.found().await;
            let (chains, counts) =
                (chains.values().map(Vec::len).sum::<usize>(), counts.values().map(Vec::len).sum::<usize>());
            if chains as u64 >= self.loaded && counts as u64 >= self.loaded {
                return Ok(());
            }
            if begun.elapsed() > limit {
                let loaded = self.loaded;
                return Err(format!("of {loaded} inputs {chains} effects came directly, {counts} by repartition"));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Each input's effect once, in the order of its key.
    pub(crate) async fn assert_effects(&self) {
        let (expected, found) = (self.expected().await, self.found().await);
        assert_same(&found.0, &expected.0);
        assert_same(&found.1, &expected.1);
    }

    /// The group's positions are behind the last record of each partition that is read, and not beyond its end.
    pub(crate) async fn assert_positions(&self) {
        let group = GroupId::from(format!("{}.app", self.prefix));
        for topic in [self.cluster.name("input"), format!("{group}-counts-repartition")] {
            let partitions: Vec<_> = (0..PARTITIONS).map(|index| TopicPartition::new(topic.as_str(), index)).collect();
            let admin = self.cluster.client.admin();
            let committed = admin.committed_offsets(&group, &partitions, true).await.unwrap();
            let latest: Vec<_> = partitions.iter().map(|partition| (partition.clone(), OffsetSpec::Latest)).collect();
            let ends = admin.list_offsets(&latest, Isolation::ReadUncommitted).await.unwrap();
            let records = self.records(&topic).await;
            for partition in &partitions {
                let last = records.get(&partition.partition).and_then(|records| records.last());
                let Some(last) = last.map(|record| record.offset) else { continue };
                let position = committed[partition].offset;
                let end = ends[partition].offset.unwrap();
                assert!(
                    last < position && position <= end,
                    "{partition}: the last record is {last}, the position {position}, the end {end}"
                );
            }
        }
    }

    /// What each store holds is what its change log comes to, times included.
    pub(crate) async fn assert_stores(&self, state_dir: &Path) {
        let application = format!("{}.app", self.prefix);
        let mut engine = DiskEngine::open(state_dir.join(&application).join("stores")).unwrap();
        for (subtopology, name) in [(0, "chains"), (1, "counts")] {
            let changes = self.records(&format!("{application}-{name}-changelog")).await;
            let mut entries = 0;
            for partition in 0..PARTITIONS {
                let mut comes_to: BTreeMap<Bytes, Bytes> = BTreeMap::new();
                for record in changes.get(&partition).into_iter().flatten() {
                    let key = record.key.clone().unwrap();
                    match &record.value {
                        Some(value) => {
                            let stamped = [&record.timestamp.0.to_be_bytes()[..], value].concat();
                            comes_to.insert(key, stamped.into());
                        }
                        None => drop(comes_to.remove(&key)),
                    }
                }
                let store = engine.open(TaskId { subtopology, partition }, name).unwrap();
                let all = store.scan(Bound::Unbounded, Bound::Unbounded, Direction::Ascending, usize::MAX).unwrap();
                entries += all.len();
                let holds: BTreeMap<Bytes, Bytes> = all.into_iter().collect();
                assert_eq!(holds, comes_to, "store {name}, partition {partition}");
            }
            let expected = if name == "chains" { KEYS } else { LANES };
            assert_eq!(entries as u64, expected, "store {name}");
        }
    }

    /// All committed records of a topic, by partition, up to the end that it has now.
    async fn records(&self, topic: &str) -> Place {
        let partitions: Vec<_> = (0..PARTITIONS).map(|index| TopicPartition::new(topic, index)).collect();
        let latest: Vec<_> = partitions.iter().map(|partition| (partition.clone(), OffsetSpec::Latest)).collect();
        let ends = self.cluster.client.admin().list_offsets(&latest, Isolation::ReadCommitted).await.unwrap();
        let from = partitions.iter().map(|partition| (partition.clone(), Position::Earliest));
        let mut consumer = self.cluster.client.consumer().read_committed().assign(from).await.unwrap();
        let mut found = Place::new();
        let begun = Instant::now();
        let is_at_end = |consumer: &atonce::client::Consumer| {
            partitions.iter().all(|partition| consumer.position(partition) >= ends[partition].offset.or(Some(0)))
        };
        while !is_at_end(&consumer) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{topic} cannot be read to its end");
            let event = consumer.next_event(Duration::from_millis(100)).await.unwrap();
            let Some(ConsumerEvent::Batch(batch)) = event else { continue };
            for record in batch {
                found.entry(record.topic_partition.partition).or_default().push(record);
            }
        }
        found
    }
}

/// Says where the first difference is instead of printing everything.
#[track_caller]
fn assert_same<T: PartialEq + std::fmt::Debug>(found: &BTreeMap<String, Vec<T>>, expected: &BTreeMap<String, Vec<T>>) {
    assert!(found.keys().eq(expected.keys()), "{:?}, and should be {:?}", found.keys(), expected.keys());
    for ((key, found), expected) in found.iter().zip(expected.values()) {
        let equal = found.iter().zip(expected).take_while(|(found, expected)| found == expected).count();
        assert!(
            (found.len(), equal) == (expected.len(), expected.len()),
            "{key}: not each effect once and in order: after {equal} of {} comes {:?}, and should come {:?} ({} in all)",
            expected.len(),
            found.get(equal),
            expected.get(equal),
            found.len()
        );
    }
}

fn kafka_data() -> Option<String> {
    std::env::var("ATONCE_TEST_KAFKA_DATA").ok()
}

async fn kafka(verb: &str, node: u64, data: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dev/interop/kafka");
    let ran = tokio::process::Command::new(script).args([verb, &node.to_string(), "--data", data]).status().await;
    assert!(ran.unwrap().success(), "dev/interop/kafka {verb} {node}");
}

fn text(bytes: Option<Bytes>) -> String {
    String::from_utf8(bytes.unwrap().to_vec()).unwrap()
}
