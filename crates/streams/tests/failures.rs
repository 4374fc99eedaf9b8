//! Records that cannot be read, processed or written; workers that cannot go on; and work that no record asks for. On a cluster: our own
//! broker, or the one that `ATONCE_TEST_BOOTSTRAP_SERVERS` names.

#[allow(dead_code, reason = "the word counts need more of it")]
mod cluster;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use atonce::client::{ConsumerEvent, ConsumerRecord, Position, ProducerRecord, TopicName, TopicPartition};
use atonce::error::WorkerError;
use atonce::prelude::*;
use atonce::{ApplicationBuilder, Error, Stage, WorkerVerdict};
use cluster::Cluster;

fn application(cluster: &Cluster, topology: Topology, state: &tempfile::TempDir) -> ApplicationBuilder {
    Application::builder(cluster.name("app"), topology)
        .bootstrap_servers(cluster.bootstrap_servers.as_str())
        .commit_interval(Duration::from_millis(30))
        .session_timeout(Duration::from_secs(6))
        .state_dir(state.path())
}

async fn send(cluster: &Cluster, topic: &str, values: &[&str]) {
    let producer = cluster.client.producer().start().await.unwrap();
    for value in values {
        let record = ProducerRecord::to(cluster.name(topic)).partition(0).key("k").value((*value).to_owned());
        let _delivery = producer.send(record).await.unwrap();
    }
    producer.close().await.unwrap();
}

/// The first `count` committed records of a topic with one partition.
async fn committed(cluster: &Cluster, topic: &str, count: usize) -> Vec<ConsumerRecord> {
    let partition = TopicPartition::new(TopicName::from(cluster.name(topic)), 0);
    let mut consumer =
        cluster.client.consumer().read_committed().assign([(partition, Position::Earliest)]).await.unwrap();
    let mut records = Vec::new();
    let started = Instant::now();
    while records.len() < count {
        assert!(started.elapsed() < Duration::from_secs(40), "{} of {count} records in {topic}", records.len());
        if let Some(ConsumerEvent::Batch(batch)) = consumer.next_event(Duration::from_millis(200)).await.unwrap() {
            records.extend(batch);
        }
    }
    records
}

fn values(records: &[ConsumerRecord]) -> Vec<String> {
    records.iter().map(|record| String::from_utf8(record.value.clone().unwrap().to_vec()).unwrap()).collect()
}

/// Numbers as text, doubled. What is no number fails.
fn doubled(cluster: &Cluster) -> Topology {
    struct Double;
    impl Processor for Double {
        type Input = (String, String);
        type Output = (String, String);

        fn process(
            &mut self,
            record: Record<String, String>,
            _: &mut Stores<'_>,
            output: &mut Forward<'_, (String, String)>,
        ) -> Result<(), ProcessorError> {
            let number: u64 = record.value.parse()?;
            output.forward(record.with_value((number * 2).to_string()));
            Ok(())
        }
    }
    let builder = TopologyBuilder::new();
    let stores: [&str; 0] = [];
    builder.stream::<String, String>(cluster.name("in")).process(|| Double, stores).to(cluster.name("out"));
    builder.build().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_is_committed_with_the_position_that_passes_it() {
    let cluster = Cluster::start("dead").await;
    for topic in ["in", "out", "dead"] {
        cluster.create(topic, 1).await;
    }
    let state = tempfile::tempdir().unwrap();
    send(&cluster, "in", &["1", "two", "3"]).await;
    let dead: TopicName = cluster.name("dead").into();
    let handler = FailureHandler::new(move |failure| match failure.stage {
        Stage::Processing => Verdict::DeadLetter(dead.clone()),
        Stage::Reading | Stage::Writing => Verdict::Fail,
    });
    let running = application(&cluster, doubled(&cluster), &state).on_failure(handler.clone()).start().await.unwrap();
    assert_eq!(values(&committed(&cluster, "out", 2).await), ["2", "6"]);
    let letters = committed(&cluster, "dead", 1).await;
    assert_eq!(values(&letters), ["two"]);
    let reason = letters[0].headers.iter().find(|header| header.key == "__streams.errors.message").unwrap();
    assert_eq!(reason.value.as_deref(), Some(&b"invalid digit found in string"[..]));
    let reader = running.statistics_reader();
    running.close().await.unwrap();
    assert_eq!(reader.read().dead_letters, 1);

    // It is behind the committed position: it does not come again.
    send(&cluster, "in", &["4"]).await;
    let running = application(&cluster, doubled(&cluster), &state).on_failure(handler).start().await.unwrap();
    assert_eq!(values(&committed(&cluster, "out", 3).await), ["2", "6", "8"]);
    let reader = running.statistics_reader();
    running.close().await.unwrap();
    assert_eq!((reader.read().dead_letters, reader.read().records), (0, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_too_large_for_its_topic_is_left_out_and_the_transaction_lives() {
    let cluster = Cluster::start("large").await;
    cluster.create("in", 1).await;
    let small = atonce::client::NewTopic::new(cluster.name("out"), 1).config("max.message.bytes", "200");
    for (_, outcome) in cluster.client.admin().create_topics(&[small]).await.unwrap() {
        outcome.unwrap();
    }
    let state = tempfile::tempdir().unwrap();
    let large = "x".repeat(300);
    send(&cluster, "in", &["a", &large, "b"]).await;
    let builder = TopologyBuilder::new();
    builder.stream::<String, String>(cluster.name("in")).to(cluster.name("out"));
    let handler = FailureHandler::new(|failure| match failure.stage {
        Stage::Writing => Verdict::Skip,
        Stage::Reading | Stage::Processing => Verdict::Fail,
    });
    let running = application(&cluster, builder.build().unwrap(), &state).on_failure(handler).start().await.unwrap();
    assert_eq!(values(&committed(&cluster, "out", 2).await), ["a", "b"]);
    let reader = running.statistics_reader();
    running.close().await.unwrap();
    assert_eq!((reader.read().skipped_records, reader.read().aborted), (1, 0));
}

/// Fails so many times, then works.
struct Fragile {
    left: Arc<AtomicU64>,
    panics: bool,
}

impl Processor for Fragile {
    type Input = (String, String);
    type Output = (String, String);

    fn process(
        &mut self,
        record: Record<String, String>,
        _: &mut Stores<'_>,
        output: &mut Forward<'_, (String, String)>,
    ) -> Result<(), ProcessorError> {
        output.forward(record);
        if self.left.try_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            assert!(!self.panics, "as it was told");
            return Err(ProcessorError::new("not yet"));
        }
        Ok(())
    }
}

fn fragile(cluster: &Cluster, failures: u64, panics: bool) -> Topology {
    let left = Arc::new(AtomicU64::new(failures));
    let builder = TopologyBuilder::new();
    let stores: [&str; 0] = [];
    builder
        .stream::<String, String>(cluster.name("in"))
        .process(move || Fragile { left: Arc::clone(&left), panics }, stores)
        .to(cluster.name("out"));
    builder.build().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_replaced_goes_on_where_the_last_commit_stands() {
    let cluster = Cluster::start("replaced").await;
    cluster.create("in", 1).await;
    cluster.create("out", 1).await;
    let state = tempfile::tempdir().unwrap();
    send(&cluster, "in", &["a", "b"]).await;
    let running = application(&cluster, fragile(&cluster, 3, false), &state)
        .on_worker_error(|_| WorkerVerdict::Replace)
        .start()
        .await
        .unwrap();
    let reader = running.statistics_reader();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(running.run_until(async move {
        let _ = stopped.await;
    }));
    // Each of the three failures came after its record was forwarded: none of that is to be seen.
    assert_eq!(values(&committed(&cluster, "out", 2).await), ["a", "b"]);
    assert_eq!(reader.read().replaced_workers, 3);
    stop.send(()).unwrap();
    running.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_panics_ends_the_application_and_is_named() {
    let cluster = Cluster::start("panics").await;
    cluster.create("in", 1).await;
    cluster.create("out", 1).await;
    let state = tempfile::tempdir().unwrap();
    send(&cluster, "in", &["a"]).await;
    let running = application(&cluster, fragile(&cluster, 1, true), &state)
        .on_worker_error(|_| WorkerVerdict::Replace)
        .start()
        .await
        .unwrap();
    let error = running.run_until(std::future::pending()).await.unwrap_err();
    let Error::Worker { worker: 0, source: WorkerError::Panicked(message) } = &error else { panic!("{error}") };
    assert_eq!(message, "as it was told");
}

/// Says the time, and that it has, whether anything comes or not.
struct Clockwork {
    ticks: StoreHandle<KeyValueStore<String, i64>>,
}

impl Processor for Clockwork {
    type Input = (String, String);
    type Output = (String, String);

    fn process(
        &mut self,
        _: Record<String, String>,
        _: &mut Stores<'_>,
        _: &mut Forward<'_, (String, String)>,
    ) -> Result<(), ProcessorError> {
        Ok(())
    }

    fn schedules(&self) -> Vec<Schedule> {
        vec![Schedule::wall_clock(Duration::from_millis(20))]
    }

    fn punctuate(
        &mut self,
        punctuation: Punctuation,
        stores: &mut Stores<'_>,
        output: &mut Forward<'_, (String, String)>,
    ) -> Result<(), ProcessorError> {
        let mut ticks = stores.get(&self.ticks);
        let key = "ticks".to_owned();
        let count = ticks.get(&key)?.unwrap_or(0) + 1;
        ticks.put(&key, &count)?;
        output.forward(Record::new(key, count.to_string(), punctuation.time));
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn punctuations_without_any_input_commit_and_survive_crashes_exactly_once() {
    let cluster = Cluster::start("clockwork").await;
    cluster.create("in", 1).await;
    cluster.create("out", 1).await;
    let state = tempfile::tempdir().unwrap();
    let topology = || {
        let builder = TopologyBuilder::new();
        let ticks = builder.add_store::<String, i64>(store("ticks"));
        let handle = ticks.clone();
        builder
            .stream::<String, String>(cluster.name("in"))
            .process(move || Clockwork { ticks: handle.clone() }, [ticks])
            .to(cluster.name("out"));
        builder.build().unwrap()
    };
    let mut seen = 0;
    for _ in 0..3 {
        let running = application(&cluster, topology(), &state).start().await.unwrap();
        seen += 5;
        committed(&cluster, "out", seen).await;
        running.crash().await;
    }
    let running = application(&cluster, topology(), &state).start().await.unwrap();
    let found = values(&committed(&cluster, "out", seen + 5).await);
    let expected: Vec<String> = (1..=found.len()).map(|tick| tick.to_string()).collect();
    assert_eq!(found, expected);
    running.close().await.unwrap();
}
