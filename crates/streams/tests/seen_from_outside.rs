//! What an application tells of itself: its states, its stores as they follow their change logs, its metrics.

#[allow(dead_code, reason = "other tests use the rest")]
mod cluster;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use atonce::{Application, ApplicationBuilder, ApplicationState, RestoreListener, RestoringStore, TaskId};
use cluster::{Cluster, assert_exact, lines, total};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const PARTITIONS: i32 = 2;

async fn cluster(test: &str) -> Cluster {
    let cluster = Cluster::start(test).await;
    cluster.create("lines", PARTITIONS).await;
    cluster.create("word-counts", PARTITIONS).await;
    cluster
}

fn application(cluster: &Cluster, state: &tempfile::TempDir) -> ApplicationBuilder {
    Application::builder(cluster.name("app"), cluster.word_count())
        .bootstrap_servers(cluster.bootstrap_servers.as_str())
        .commit_interval(Duration::from_millis(30))
        .session_timeout(Duration::from_secs(6))
        .state_dir(state.path())
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_secs(60), "waited a minute: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    fn add(&self, what: String) {
        self.0.lock().unwrap().push(what);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl RestoreListener for Heard {
    fn on_restore_start(&self, store: &RestoringStore<'_>, from: i64, to: i64) {
        self.add(format!("start {} {} {from} {to}", store.task, store.store));
    }

    fn on_batch_restored(&self, store: &RestoringStore<'_>, next: i64, records: u64) {
        self.add(format!("batch {} {} {next} {records}", store.task, store.store));
    }

    fn on_restore_end(&self, store: &RestoringStore<'_>, total: u64) {
        self.add(format!("end {} {} {total}", store.task, store.store));
    }

    fn on_restore_suspended(&self, store: &RestoringStore<'_>, total: u64) {
        self.add(format!("suspended {} {} {total}", store.task, store.store));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn states_are_told_in_order_and_restored_stores_with_their_offsets() {
    let cluster = cluster("listeners").await;
    let lines = lines(1, 300);
    cluster.load(&lines, PARTITIONS).await;
    let state = tempfile::tempdir().unwrap();
    let first = application(&cluster, &state).start().await.unwrap();
    assert_exact(&cluster.counts(total(&lines)).await, &lines);
    first.close().await.unwrap();

    let (states, restored) = (Heard::default(), Heard::default());
    let elsewhere = tempfile::tempdir().unwrap();
    let hears = states.clone();
    let second = application(&cluster, &elsewhere)
        .on_state_change(move |new, old| hears.add(format!("{old} {new}")))
        .restore_listener(restored.clone());
    let mut second = second.start().await.unwrap();
    second.wait_until_running().await;
    assert_eq!(second.state(), ApplicationState::Running);
    second.close().await.unwrap();
    // A worker that joins twice is running twice.
    let states = states.take();
    let states: Vec<&str> = states.iter().map(String::as_str).collect();
    let expected =
        ["CREATED REBALANCING", "REBALANCING RUNNING", "RUNNING PENDING_SHUTDOWN", "PENDING_SHUTDOWN NOT_RUNNING"];
    assert_eq!((&states[..2], &states[states.len() - 2..]), (&expected[..2], &expected[2..]));

    // Both counting tasks, from the beginning of their change logs to the end; every batch is told, and they add up.
    let heard = restored.take();
    let changelog = format!("{}-counts-changelog", cluster.name("app"));
    let changes = cluster.end_of(&changelog).await;
    let mut seen_to = 0;
    for task in ["1_0", "1_1"] {
        let of_task: Vec<Vec<&str>> = heard
            .iter()
            .map(|line| line.split(' ').collect::<Vec<_>>())
            .filter(|words| words[1] == task && words[2] == "counts")
            .collect();
        let (start, end) = (&of_task[0], &of_task[of_task.len() - 1]);
        assert_eq!((start[0], start[3], end[0]), ("start", "0", "end"), "{heard:?}");
        let batches = &of_task[1..of_task.len() - 1];
        assert!(!batches.is_empty() && batches.iter().all(|words| words[0] == "batch"), "{heard:?}");
        let records: u64 = batches.iter().map(|words| words[4].parse::<u64>().unwrap()).sum();
        assert_eq!(records.to_string(), end[3], "{heard:?}");
        assert_eq!(batches[batches.len() - 1][3], start[4], "the last batch ends where the change log did");
        seen_to += start[4].parse::<i64>().unwrap();
    }
    assert_eq!(seen_to, changes, "{heard:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_say_what_was_done_and_what_is_left() {
    let cluster = cluster("metrics").await;
    let lines = lines(2, 300);
    let state = tempfile::tempdir().unwrap();
    cluster.load(&lines, PARTITIONS).await;
    let running = application(&cluster, &state).metrics_listener("127.0.0.1:0").start().await.unwrap();
    assert_exact(&cluster.counts(total(&lines)).await, &lines);
    let reader = running.metrics_reader();
    let id = |subtopology, partition| TaskId { subtopology, partition };
    let is_seen = || {
        let tasks = reader.read().tasks;
        tasks.len() == 4
            && tasks.values().all(|task| task.lag.values().all(Option::is_some) && task.lag_sum() == 0)
            && tasks[&id(1, 0)].stores["counts"].uncommitted_bytes == 0
            && tasks[&id(1, 1)].stores["counts"].uncommitted_bytes == 0
    };
    until("all is read, and that was looked up", is_seen).await;
    let metrics = reader.read();
    assert_eq!((metrics.state, metrics.alive_workers), (ApplicationState::Running, 1));
    let words = total(&lines) as u64;
    let processed = |subtopology| {
        [0, 1].map(|partition| metrics.tasks[&id(subtopology, partition)].process.total).iter().sum::<u64>()
    };
    assert_eq!((processed(0), processed(1)), (lines.len() as u64, words));
    let worker = metrics.workers[&0];
    assert_eq!((worker.process.total, worker.task_created_total >= 4), (lines.len() as u64 + words, true));
    assert_eq!(worker.commit.total, running.statistics().committed, "{worker:?}");
    assert!(worker.commit.latency_max >= worker.commit.latency_avg && worker.commit.latency_avg > Duration::ZERO);
    assert!(worker.commit.rate > 0.0 && worker.poll.total > 0);
    for partition in [0, 1] {
        let task = &metrics.tasks[&id(1, partition)];
        let store = task.stores["counts"];
        // Each word read and set once; only the first time each is asked of the engine.
        assert_eq!((store.get_total, store.put_total), (task.process.total, task.process.total));
        assert_eq!((store.delete_total, store.range_total), (0, 0));
        let spared = (store.hit_ratio * store.get_total as f64).round() as u64;
        assert_eq!(store.engine_get.total, store.get_total - spared);
        assert!(store.flush.total > 0 && store.flush.latency_max > Duration::ZERO, "{store:?}");
        let latency = task.record_e2e_latency;
        assert!(latency.min <= latency.avg && latency.avg <= latency.max && latency.max > Duration::ZERO);
        assert_eq!(task.restore_remaining_records_total, 0);
    }

    // The same by HTTP, with the client's.
    let mut connection = tokio::net::TcpStream::connect(running.metrics_address().unwrap()).await.unwrap();
    connection.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut page = String::new();
    connection.read_to_string(&mut page).await.unwrap();
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.ends_with("# EOF\n"), "{page}");
    assert_eq!(page.matches("# EOF").count(), 1);
    let processed = metrics.tasks[&id(1, 1)].process.total;
    for line in [
        "atonce_streams_client_state{state=\"RUNNING\"} 1.0".to_owned(),
        format!("atonce_streams_task_process_total{{worker=\"0\",task=\"1_1\"}} {processed}"),
        format!("atonce_streams_state_put_total{{worker=\"0\",task=\"1_1\",store=\"counts\"}} {processed}"),
    ] {
        assert!(page.lines().any(|it| it == line), "{line} in\n{page}");
    }
    assert!(page.contains("atonce_client_records_sent_total"), "{page}");
    let reader = running.metrics_reader();
    running.close().await.unwrap();
    let metrics = reader.read();
    assert_eq!((metrics.state, metrics.tasks.len()), (ApplicationState::NotRunning, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_for_metrics_that_is_in_use_is_named() {
    let cluster = cluster("address").await;
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let state = tempfile::tempdir().unwrap();
    let refused = application(&cluster, &state).metrics_listener(address.as_str()).start().await;
    let refused = refused.err().unwrap().to_string();
    assert!(refused.starts_with(&format!("metrics cannot be served at {address}: ")), "{refused}");
}
