//! Commits at moments of their own, on a cluster: what is committed when a worker dies just there, and what comes of it.

#[allow(dead_code, reason = "the word counts need more of it")]
mod cluster;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use atonce::client::{GroupId, Position, ProducerRecord, TopicName, TopicPartition};
use atonce::error::WorkerError;
use atonce::{
    Application, ApplicationBuilder, Error, Forward, Guarantee, Processor, ProcessorError, Punctuation, Record,
    Schedule, Stores, Topology, TopologyBuilder,
};
use cluster::Cluster;

/// More than a task processes in one go (1000), and less than come in one batch (2000).
const RECORDS: u64 = 1500;
const SLICE: u64 = 1000;

fn application(cluster: &Cluster, topology: Topology, state: &tempfile::TempDir) -> ApplicationBuilder {
    Application::builder(cluster.name("app"), topology)
        .bootstrap_servers(cluster.bootstrap_servers.as_str())
        .session_timeout(Duration::from_secs(6))
        .state_dir(state.path())
}

async fn load(cluster: &Cluster) {
    cluster.create("in", 1).await;
    cluster.create("out", 1).await;
    let producer = cluster.client.producer().start().await.unwrap();
    for number in 0..RECORDS {
        let record = ProducerRecord::to(cluster.name("in")).key(number.to_string()).value("");
        let _delivery = producer.send(record).await.unwrap();
    }
    producer.close().await.unwrap();
}

async fn committed(cluster: &Cluster) -> i64 {
    let (group, input) = (GroupId::from(cluster.name("app")), TopicPartition::new(cluster.name("in"), 0));
    let committed = cluster.client.admin().committed_offsets(&group, std::slice::from_ref(&input), true).await.unwrap();
    committed[&input].offset
}

/// The keys that a reader of committed records sees, in order, once `count` are there.
async fn output(cluster: &Cluster, count: usize) -> Vec<String> {
    let at = [(TopicPartition::new(TopicName::from(cluster.name("out")), 0), Position::Earliest)];
    let mut consumer = cluster.client.consumer().read_committed().assign(at).await.unwrap();
    let mut keys = Vec::new();
    let all = async {
        while keys.len() < count {
            let batch = consumer.next_batch().await.unwrap().unwrap();
            keys.extend(batch.into_iter().map(|record| String::from_utf8(record.key.unwrap().to_vec()).unwrap()));
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(60), all).await;
    keys
}

/// Dies in a punctuation, some punctuations after it has processed the first slice of a batch.
struct DiesInAPunctuation {
    processed: Arc<AtomicU64>,
    punctuations_since: Arc<AtomicU64>,
}

impl Processor for DiesInAPunctuation {
    type Input = (String, String);
    type Output = (String, String);

    fn process(
        &mut self,
        record: Record<String, String>,
        _: &mut Stores<'_>,
        output: &mut Forward<'_, (String, String)>,
    ) -> Result<(), ProcessorError> {
        self.processed.fetch_add(1, Ordering::SeqCst);
        output.forward(record);
        Ok(())
    }

    fn schedules(&self) -> Vec<Schedule> {
        vec![Schedule::wall_clock(Duration::from_millis(1))]
    }

    fn punctuate(
        &mut self,
        _: Punctuation,
        _: &mut Stores<'_>,
        _: &mut Forward<'_, (String, String)>,
    ) -> Result<(), ProcessorError> {
        if self.processed.load(Ordering::SeqCst) == SLICE {
            let before = self.punctuations_since.fetch_add(1, Ordering::SeqCst);
            // Longer than the schedule and the commit interval: the next punctuation and a commit are due before the next record.
            std::thread::sleep(Duration::from_millis(5));
            assert!(before < 5, "dies here");
        }
        Ok(())
    }
}

/// The consumer has read the whole batch, the task has processed a part of it, and then come commits that hold only punctuations: they must
/// not pass over what waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_of_punctuations_alone_stands_before_what_waits_and_a_crash_after_it_loses_nothing() {
    let cluster = Cluster::start("punctuations").await;
    let state = tempfile::tempdir().unwrap();
    load(&cluster).await;
    let (processed, punctuations_since) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let builder = TopologyBuilder::new();
    let (seen, since) = (Arc::clone(&processed), Arc::clone(&punctuations_since));
    builder
        .stream::<String, String>(cluster.name("in"))
        .process(
            move || DiesInAPunctuation { processed: Arc::clone(&seen), punctuations_since: Arc::clone(&since) },
            [] as [&str; 0],
        )
        .to(cluster.name("out"));
    let running = application(&cluster, builder.build().unwrap(), &state)
        .commit_interval(Duration::from_millis(1))
        .commit_after_records(1)
        .start()
        .await
        .unwrap();
    let ended = running.run_until(std::future::pending()).await;
    assert!(matches!(ended, Err(Error::Worker { source: WorkerError::Panicked(_), .. })), "{ended:?}");
    assert_eq!(processed.load(Ordering::SeqCst), SLICE);
    assert_eq!(committed(&cluster).await, SLICE as i64);

    let builder = TopologyBuilder::new();
    builder.stream::<String, String>(cluster.name("in")).to(cluster.name("out"));
    let running = application(&cluster, builder.build().unwrap(), &state).start().await.unwrap();
    let expected: Vec<String> = (0..RECORDS).map(|number| number.to_string()).collect();
    assert_eq!(output(&cluster, RECORDS as usize).await, expected);
    running.close().await.unwrap();
}

/// What a processor does outside is not undone by a crash: it must not be done again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_most_once_commits_a_batch_before_it_processes_any_of_it() {
    let cluster = Cluster::start("most").await;
    let state = tempfile::tempdir().unwrap();
    load(&cluster).await;
    let done: Arc<Mutex<BTreeMap<String, u32>>> = Arc::default();
    let start = async |dies_at: &'static str| {
        let builder = TopologyBuilder::new();
        let done = Arc::clone(&done);
        builder
            .stream::<String, String>(cluster.name("in"))
            .peek(move |key, _| {
                *done.lock().unwrap().entry(key.clone()).or_default() += 1;
                assert_ne!(key, dies_at, "dies here");
            })
            .to(cluster.name("out"));
        let application = application(&cluster, builder.build().unwrap(), &state);
        application.guarantee(Guarantee::AtMostOnce).start().await.unwrap()
    };
    let ended = start("400").await.run_until(std::future::pending()).await;
    assert!(matches!(ended, Err(Error::Worker { source: WorkerError::Panicked(_), .. })), "{ended:?}");
    assert!(committed(&cluster).await > 400, "the batch was committed before");

    let producer = cluster.client.producer().start().await.unwrap();
    let _delivery = producer.send(ProducerRecord::to(cluster.name("in")).key("last").value("")).await.unwrap();
    producer.close().await.unwrap();
    let running = start("never").await;
    let started = std::time::Instant::now();
    while !done.lock().unwrap().contains_key("last") {
        assert!(started.elapsed() < Duration::from_secs(60), "the last record is not processed");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    running.close().await.unwrap();
    let done = std::mem::take(&mut *done.lock().unwrap());
    assert!(done.len() > 400);
    let twice: Vec<&String> = done.iter().filter(|(_, times)| **times > 1).map(|(key, _)| key).collect();
    assert!(twice.is_empty(), "{} were done twice: {twice:?}", twice.len());
}
