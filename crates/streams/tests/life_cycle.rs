//! The life of an application on a cluster: topics that come while it runs, pauses, workers that come and go, ends of all kinds.

#[expect(dead_code, reason = "other tests use the rest of it")]
mod cluster;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use atonce::client::{GroupId, ProducerRecord, TopicName};
use atonce::error::WorkerError;
use atonce::{
    Application, ApplicationBuilder, Error, GroupMembership, KStream, Topology, TopologyBuilder, WorkerVerdict, store,
};
use bytes::Bytes;
use cluster::{Cluster, assert_exact, lines, total};

const PARTITIONS: i32 = 4;

fn application(cluster: &Cluster, topology: Topology, state: &tempfile::TempDir) -> ApplicationBuilder {
    Application::builder(cluster.name("app"), topology)
        .bootstrap_servers(cluster.bootstrap_servers.as_str())
        .commit_interval(Duration::from_millis(30))
        .session_timeout(Duration::from_secs(6))
        .state_dir(state.path())
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = std::time::Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_secs(60), "waited a minute: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The instance ids of the members that the group has, sorted.
async fn members(cluster: &Cluster) -> Vec<String> {
    let group = GroupId::from(cluster.name("app"));
    let described = cluster.client.admin().describe_groups(std::slice::from_ref(&group)).await.unwrap();
    let described = described[&group].as_ref().unwrap();
    let mut ids: Vec<String> =
        described.members.iter().map(|member| member.instance_id.as_ref().unwrap().to_string()).collect();
    ids.sort();
    ids
}

/// Writes lines to the partitions of one topic in turn.
async fn load(cluster: &Cluster, topic: &str, lines: &[String], partitions: i32) {
    let producer = cluster.client.producer().start().await.unwrap();
    for (line, partition) in lines.iter().zip((0..partitions).cycle()) {
        let record = ProducerRecord::to(cluster.name(topic)).partition(partition).value(line.as_str());
        let _delivery = producer.send(record).await.unwrap();
    }
    producer.close().await.unwrap();
}

fn count_words(lines: KStream<Option<Bytes>, String>, to: String) {
    lines
        .flat_map_values(|line| line.split_whitespace().map(String::from).collect::<Vec<_>>())
        .group_by(|_, word| word.clone())
        .count(store("counts"))
        .to_stream()
        .to(to);
}

/// One topic is there at the start, one comes later with as many partitions, one with fewer; and one that only resembles them is never read.
/// The second process looks for topics once an hour: it hears of them from the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn topics_that_match_a_pattern_join_while_it_runs_in_every_process() {
    let cluster = Cluster::start("pattern").await;
    cluster.create("word-counts", PARTITIONS).await;
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let topology = || {
        let builder = TopologyBuilder::new();
        let prefix = cluster.name("lines-").replace('.', "\\.");
        count_words(builder.stream_of_pattern(&format!("{prefix}[a-z]+")), cluster.name("word-counts"));
        builder.build().unwrap()
    };
    // Nothing matches yet.
    let first = application(&cluster, topology(), &here)
        .workers(2)
        .topics_refresh_interval(Duration::from_millis(50))
        .start()
        .await
        .unwrap();
    let second = application(&cluster, topology(), &there)
        .topics_refresh_interval(Duration::from_secs(3600))
        .start()
        .await
        .unwrap();
    let reader = second.statistics_reader();
    let mut all = Vec::new();
    for (round, (topic, partitions)) in
        [("lines-a", PARTITIONS), ("lines-b", PARTITIONS), ("lines-c", 1)].into_iter().enumerate()
    {
        cluster.create(topic, partitions).await;
        let lines = lines(70 + round as u64, 500);
        load(&cluster, topic, &lines, partitions).await;
        all.extend(lines);
        assert_exact(&cluster.counts(total(&all)).await, &all);
        if round == 0 {
            cluster.create("lines-2", 1).await;
            load(&cluster, "lines-2", &["not read".to_owned()], 1).await;
        }
    }
    assert!(reader.read().records > 0, "the second process has never had anything to do");
    let (first, second) = tokio::join!(first.close(), second.close());
    first.unwrap();
    second.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_application_commits_and_processes_nothing_more_until_it_goes_on() {
    let cluster = Cluster::start("pause").await;
    cluster.create("lines", PARTITIONS).await;
    cluster.create("word-counts", PARTITIONS).await;
    let state = tempfile::tempdir().unwrap();
    // The session is shorter than the pause: who does not keep polling loses its place.
    let mut running = application(&cluster, cluster.word_count(), &state)
        .workers(2)
        .session_timeout(Duration::from_secs(1))
        .start()
        .await
        .unwrap();
    running.wait_until_running().await;
    let before = members(&cluster).await;
    let mut all = lines(80, 1000);
    cluster.load(&all, PARTITIONS).await;
    let reader = running.statistics_reader();
    until("it works", || reader.read().committed > 0).await;
    running.pause();
    assert!(running.is_paused());
    // Workers hear of it within a moment each; then nothing moves any more.
    let mut last = reader.read();
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = reader.read();
        if now == last {
            break;
        }
        last = now;
    }
    let more = lines(81, 1000);
    cluster.load(&more, PARTITIONS).await;
    all.extend(more);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let now = reader.read();
    assert_eq!((now.records, now.committed, now.aborted), (last.records, last.committed, 0));
    assert!((now.records as usize) < all.len() + total(&all), "all was done before the pause: it showed nothing");
    assert_eq!(members(&cluster).await, before);
    running.resume();
    assert_exact(&cluster.counts(total(&all)).await, &all);
    assert_eq!(reader.read().fenced, 0);
    running.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_come_and_go_while_it_runs_and_nothing_is_lost_or_repeated() {
    let cluster = Cluster::start("workers").await;
    cluster.create("lines", PARTITIONS).await;
    cluster.create("word-counts", PARTITIONS).await;
    let state = tempfile::tempdir().unwrap();
    let running = application(&cluster, cluster.word_count(), &state).workers(1).start().await.unwrap();
    let (control, reader) = (running.control(), running.statistics_reader());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let process_id = running.process_id().to_owned();
    // All of it works while `run_until` has the application.
    let run = tokio::spawn(running.run_until(async { drop(stopped.await) }));
    let mut all = Vec::new();
    let mut step = 0;
    let mut feed = async |all: &mut Vec<String>| {
        step += 1;
        let lines = lines(90 + step, 400);
        cluster.load(&lines, PARTITIONS).await;
        all.extend(lines);
        let before = reader.read().committed;
        until("it works on", || reader.read().committed > before).await;
    };
    feed(&mut all).await;
    for expected in [1, 2] {
        assert_eq!(control.add_worker().await.unwrap(), expected);
        feed(&mut all).await;
    }
    while members(&cluster).await.len() < 3 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for expected in [Some(2), Some(1)] {
        assert_eq!(control.remove_worker().await.unwrap(), expected);
        feed(&mut all).await;
    }
    // The group does not wait for those that went.
    assert_eq!(members(&cluster).await, [format!("{process_id}-0")]);
    assert_eq!(control.add_worker().await.unwrap(), 1, "a number that is free again");
    feed(&mut all).await;
    assert_exact(&cluster.counts(total(&all)).await, &all);
    assert_eq!((reader.read().aborted, reader.read().fenced), (0, 0));
    for expected in [Some(1), Some(0), None] {
        assert_eq!(control.remove_worker().await.unwrap(), expected);
    }
    assert!(!run.is_finished(), "an application without workers runs on");
    assert_eq!(control.add_worker().await.unwrap(), 0);
    feed(&mut all).await;
    assert_exact(&cluster.counts(total(&all)).await, &all);
    stop.send(()).unwrap();
    run.await.unwrap().unwrap();
    assert!(matches!(control.add_worker().await, Err(Error::Ended)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clean_close_leaves_the_group_at_once_or_keeps_its_place_as_it_is_told() {
    let cluster = Cluster::start("leave").await;
    cluster.create("lines", PARTITIONS).await;
    cluster.create("word-counts", PARTITIONS).await;
    let state = tempfile::tempdir().unwrap();
    let start = async || {
        let application = application(&cluster, cluster.word_count(), &state).workers(2);
        // Nobody's session ends by itself here.
        let mut running = application.session_timeout(Duration::from_secs(40)).start().await.unwrap();
        running.wait_until_running().await;
        running
    };
    let mut all = lines(100, 200);
    cluster.load(&all, PARTITIONS).await;
    let running = start().await;
    let names: Vec<String> = (0..2).map(|index| format!("{}-{index}", running.process_id())).collect();
    assert_exact(&cluster.counts(total(&all)).await, &all);
    running.close_with(GroupMembership::Remain).await.unwrap();
    assert_eq!(members(&cluster).await, names, "both places are kept");
    let more = lines(101, 200);
    cluster.load(&more, PARTITIONS).await;
    all.extend(more);
    let running = start().await;
    assert_exact(&cluster.counts(total(&all)).await, &all);
    running.close().await.unwrap();
    assert_eq!(members(&cluster).await, Vec::<String>::new(), "nobody is waited for");
}

/// A record that one process cannot bear ends all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_process_can_stop_all_of_the_application() {
    // Alone in its process, the worker that failed is gone when the group is to be told; with another one, that one tells.
    for workers in [1, 2] {
        let cluster = Cluster::start("shutdown").await;
        cluster.create("lines", PARTITIONS).await;
        cluster.create("word-counts", PARTITIONS).await;
        let states = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let asked = Arc::new(AtomicU64::new(0));
        let mut processes = Vec::new();
        for (place, state) in states.iter().enumerate() {
            let builder = TopologyBuilder::new();
            let lines = builder.stream::<Option<Bytes>, String>(cluster.name("lines"));
            let lines = lines.peek(|_, line| assert!(line != "unbearable", "a line that cannot be borne"));
            count_words(lines, cluster.name("word-counts"));
            let asked = Arc::clone(&asked);
            let mut running = application(&cluster, builder.build().unwrap(), state)
                .workers(workers)
                .session_timeout(Duration::from_secs(40))
                .on_worker_error(move |_| {
                    asked.fetch_add(1, Ordering::SeqCst);
                    WorkerVerdict::StopApplication
                })
                .start()
                .await
                .unwrap();
            running.wait_until_running().await;
            processes.push((place, tokio::spawn(running.run_until(std::future::pending()))));
        }
        let good = lines(110, 100);
        cluster.load(&good, PARTITIONS).await;
        assert_exact(&cluster.counts(total(&good)).await, &good);
        load(&cluster, "lines", &["unbearable".to_owned()], 1).await;
        let mut causes = Vec::new();
        for (place, process) in processes {
            let ended = tokio::time::timeout(Duration::from_secs(60), process).await;
            let ended = ended.unwrap_or_else(|_| panic!("process {place} goes on")).unwrap();
            match ended {
                Err(Error::Worker { source: WorkerError::ShutdownRequested, .. }) => causes.push("asked"),
                Err(Error::Worker { source: WorkerError::Panicked(_), .. }) => causes.push("failed"),
                other => panic!("process {place} ended with {other:?}"),
            }
        }
        causes.sort_unstable();
        assert_eq!(causes, ["asked", "asked", "failed"], "{workers} workers each");
        assert_eq!(asked.load(Ordering::SeqCst), 1, "what was asked for is not asked about again");
    }
}

/// The broker's data outlives it, in the folder it was given.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_can_bring_its_own_broker() {
    let (data, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let topology = || {
        let builder = TopologyBuilder::new();
        count_words(builder.stream("lines"), "word-counts".to_owned());
        builder.build().unwrap()
    };
    for round in 1..=2_i64 {
        let running = Application::builder("counter", topology())
            .embedded(data.path())
            .commit_interval(Duration::from_millis(10))
            .state_dir(state.path())
            .start()
            .await
            .unwrap();
        let client = atonce::client::Client::builder(running.bootstrap_servers().unwrap()).connect().await.unwrap();
        let producer = client.producer().start().await.unwrap();
        let _delivery = producer.send(ProducerRecord::to("lines").value("word")).await.unwrap();
        producer.close().await.unwrap();
        let reader = running.statistics_reader();
        until("it has counted", || reader.read().output_records > 0 && reader.read().committed > 0).await;
        let topic = TopicName::from("word-counts");
        let at = [(atonce::client::TopicPartition::new(topic, 0), atonce::client::Position::Earliest)];
        let mut consumer = client.consumer().read_committed().assign(at).await.unwrap();
        let mut counts: Vec<i64> = Vec::new();
        while counts.len() < round as usize {
            for record in consumer.next_batch().await.unwrap().unwrap() {
                counts.push(i64::from_be_bytes(record.value.unwrap()[..].try_into().unwrap()));
            }
        }
        assert_eq!(counts, (1..=round).collect::<Vec<_>>());
        running.close().await.unwrap();
    }
}
