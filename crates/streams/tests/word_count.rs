//! A word count on a cluster: two workers, crashes, restarts, zombies. What a reader of committed records sees must be every count
//! of every word, once and in order.

mod cluster;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use atonce::client::TopicName;
use atonce::{Application, ApplicationBuilder, Guarantee, Topology, TopologyBuilder, store};
use bytes::Bytes;
use cluster::{Cluster, assert_exact, lines, total};

const PARTITIONS: i32 = 4;

async fn cluster(test: &str) -> Cluster {
    let cluster = Cluster::start(test).await;
    cluster.create("lines", PARTITIONS).await;
    cluster.create("word-counts", PARTITIONS).await;
    cluster
}

fn application(cluster: &Cluster, topology: Topology, state: &tempfile::TempDir) -> ApplicationBuilder {
    Application::builder(cluster.name("app"), topology)
        .bootstrap_servers(cluster.bootstrap_servers.as_str())
        .commit_interval(Duration::from_millis(30))
        .session_timeout(Duration::from_secs(6))
        .state_dir(state.path())
        .workers(2)
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = std::time::Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_secs(60), "waited a minute: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_workers_count_every_word_once_and_in_order() {
    let cluster = cluster("two").await;
    let state = tempfile::tempdir().unwrap();
    let lines = lines(1, 2000);
    cluster.load(&lines, PARTITIONS).await;
    let running = application(&cluster, cluster.word_count(), &state).start().await.unwrap();
    assert_exact(&cluster.counts(total(&lines)).await, &lines);
    let statistics = running.statistics();
    assert!(statistics.committed > 0 && statistics.aborted == 0 && statistics.fenced == 0, "{statistics:?}");
    assert_eq!(statistics.records, (lines.len() + total(&lines)) as u64);
    running.close().await.unwrap();

    // Everything was applied, so nothing is to be replayed; and counting goes on where it stopped.
    let more = cluster::lines(2, 500);
    cluster.load(&more, PARTITIONS).await;
    let running = application(&cluster, cluster.word_count(), &state).start().await.unwrap();
    let all = [lines, more].concat();
    assert_exact(&cluster.counts(total(&all)).await, &all);
    assert_eq!(running.statistics().restored_records, 0);
    running.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_read_from_a_repartition_topic_is_purged_and_nothing_else() {
    let cluster = cluster("purge").await;
    let state = tempfile::tempdir().unwrap();
    let lines = lines(7, 500);
    cluster.load(&lines, PARTITIONS).await;
    let running = application(&cluster, cluster.word_count(), &state)
        .repartition_purge_interval(Duration::from_millis(1))
        .start()
        .await
        .unwrap();
    assert_exact(&cluster.counts(total(&lines)).await, &lines);
    running.close().await.unwrap();
    let group = atonce::client::GroupId::from(cluster.name("app"));
    let topic = TopicName::from(format!("{}-counts-repartition", cluster.name("app")));
    let partitions: Vec<_> =
        (0..PARTITIONS).map(|index| atonce::client::TopicPartition::new(topic.clone(), index)).collect();
    let admin = cluster.client.admin();
    let committed = admin.committed_offsets(&group, &partitions, true).await.unwrap();
    let earliest: Vec<_> = partitions.iter().map(|it| (it.clone(), atonce::client::OffsetSpec::Earliest)).collect();
    let starts = admin.list_offsets(&earliest, atonce::client::Isolation::ReadUncommitted).await.unwrap();
    let mut purged = 0;
    for partition in &partitions {
        let (start, committed) = (starts[partition].offset.unwrap(), committed[partition].offset);
        assert!(start <= committed, "{partition} begins at {start}, and {committed} is committed");
        purged += start;
    }
    assert!(purged > 0);
    // And with what is left it goes on, as if nothing had been taken away.
    let more = cluster::lines(8, 200);
    cluster.load(&more, PARTITIONS).await;
    let running = application(&cluster, cluster.word_count(), &state).start().await.unwrap();
    let all = [lines, more].concat();
    assert_exact(&cluster.counts(total(&all)).await, &all);
    running.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashes_lose_nothing_repeat_nothing_and_replay_only_a_tail() {
    let cluster = cluster("crash").await;
    let state = tempfile::tempdir().unwrap();
    let mut all = Vec::new();
    let mut restored = 0;
    for round in 0..6 {
        let lines = lines(10 + round, 1000);
        cluster.load(&lines, PARTITIONS).await;
        all.extend(lines);
        let running = application(&cluster, cluster.word_count(), &state).start().await.unwrap();
        let reader = running.statistics_reader();
        // Somewhere in the middle, each time elsewhere.
        until("some commits", || reader.read().committed > round % 3).await;
        restored += reader.read().restored_records;
        running.crash().await;
    }
    let running = application(&cluster, cluster.word_count(), &state).start().await.unwrap();
    assert_exact(&cluster.counts(total(&all)).await, &all);
    restored += running.statistics().restored_records;
    let logged = cluster.end_of(&format!("{}-counts-changelog", cluster.name("app"))).await;
    assert!(
        restored < logged as u64 / 2,
        "{restored} records were replayed, of {logged} in the change log: a tail is less"
    );
    running.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_disk_is_rebuilt_from_the_change_log() {
    let cluster = cluster("disk").await;
    let lines = lines(20, 500);
    cluster.load(&lines, PARTITIONS).await;
    let first = tempfile::tempdir().unwrap();
    let running = application(&cluster, cluster.word_count(), &first).start().await.unwrap();
    cluster.counts(total(&lines)).await;
    running.close().await.unwrap();
    drop(first);

    let second = tempfile::tempdir().unwrap();
    let more = cluster::lines(21, 100);
    cluster.load(&more, PARTITIONS).await;
    let running = application(&cluster, cluster.word_count(), &second).start().await.unwrap();
    let all = [lines, more].concat();
    assert_exact(&cluster.counts(total(&all)).await, &all);
    assert!(running.statistics().restored_records > 0);
    running.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_move_to_a_second_process_and_back_without_loss_or_repetition() {
    let cluster = cluster("move").await;
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut all = lines(30, 1000);
    cluster.load(&all, PARTITIONS).await;
    let mut first = application(&cluster, cluster.word_count(), &here)
        .state_cleanup_delay(Duration::from_millis(100))
        .start()
        .await
        .unwrap();
    let first_reader = first.statistics_reader();
    first.wait_until_running().await;
    let mut second = application(&cluster, cluster.word_count(), &there).workers(1).start().await.unwrap();
    let reader = second.statistics_reader();
    second.wait_until_running().await;
    let more = lines(31, 2000);
    cluster.load(&more, PARTITIONS).await;
    all.extend(more);
    until("the second process has work", || reader.read().committed > 0).await;
    until("the first has thrown away what is no longer its own", || first_reader.read().cleaned_stores > 0).await;
    second.close().await.unwrap();
    let more = lines(32, 500);
    cluster.load(&more, PARTITIONS).await;
    all.extend(more);
    assert_exact(&cluster.counts(total(&all)).await, &all);
    first.close().await.unwrap();
}

/// Stops whoever passes, and all its thread with it, until it is opened.
#[derive(Default)]
struct Gate {
    is_shut: Mutex<bool>,
    opened: Condvar,
    has_someone: AtomicBool,
}

impl Gate {
    fn pass(&self) {
        let mut is_shut = self.is_shut.lock().unwrap();
        while *is_shut {
            self.has_someone.store(true, Ordering::SeqCst);
            is_shut = self.opened.wait(is_shut).unwrap();
        }
    }

    fn set(&self, is_shut: bool) {
        *self.is_shut.lock().unwrap() = is_shut;
        self.opened.notify_all();
    }
}

/// The first process is frozen in mid-transaction, heartbeats and all (its runtime has one thread, and that thread waits). Another
/// process takes over. Then the first one wakes up, and wants to commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zombie_is_refused_counts_itself_fenced_and_does_no_harm() {
    let cluster = cluster("zombie").await;
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let gate = Arc::new(Gate::default());
    let topology = {
        let builder = TopologyBuilder::new();
        let gate = Arc::clone(&gate);
        builder
            .stream::<Option<Bytes>, String>(cluster.name("lines"))
            .peek(move |_, _| gate.pass())
            .flat_map_values(|line| line.split_whitespace().map(String::from).collect::<Vec<_>>())
            .group_by(|_, word| word.clone())
            .count(store("counts"))
            .to_stream()
            .to(cluster.name("word-counts"));
        builder.build().unwrap()
    };
    let mut all = lines(40, 1000);
    cluster.load(&all, PARTITIONS).await;

    let zombie = application(&cluster, topology, &here).transaction_timeout(Duration::from_secs(3)).workers(1);
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let zombie = zombie.start().await.unwrap();
            tell.send(zombie.statistics_reader()).unwrap();
            zombie.run_until(async { drop(stopped.await) }).await
        })
    });
    let zombie = told.recv().await.unwrap();
    until("the zombie works", || zombie.read().committed > 1).await;
    gate.set(true);
    let more = lines(41, 1000);
    cluster.load(&more, PARTITIONS).await;
    all.extend(more);
    until("the zombie is frozen", || gate.has_someone.load(Ordering::SeqCst)).await;

    let successor = application(&cluster, cluster.word_count(), &there).workers(1).start().await.unwrap();
    let reader = successor.statistics_reader();
    until("the successor has taken over", || reader.read().committed > 1).await;
    assert_eq!(zombie.read().fenced, 0, "it cannot know yet");
    gate.set(false);
    until("the zombie was refused", || zombie.read().fenced > 0).await;

    let more = lines(42, 500);
    cluster.load(&more, PARTITIONS).await;
    all.extend(more);
    assert_exact(&cluster.counts(total(&all)).await, &all);
    let _ = stop.send(());
    tokio::task::spawn_blocking(move || thread.join().unwrap()).await.unwrap().unwrap();
    successor.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_least_once_and_at_most_once_are_exact_too_as_long_as_nothing_crashes() {
    for (guarantee, name) in [(Guarantee::AtLeastOnce, "least"), (Guarantee::AtMostOnce, "most")] {
        let cluster = cluster(name).await;
        let state = tempfile::tempdir().unwrap();
        let lines = lines(50, 500);
        cluster.load(&lines, PARTITIONS).await;
        let running = application(&cluster, cluster.word_count(), &state).guarantee(guarantee).start().await.unwrap();
        assert_exact(&cluster.counts(total(&lines)).await, &lines);
        running.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_crashes_and_comes_back_costs_nothing() {
    let cluster = cluster("broker").await;
    // Whoever runs the tests elsewhere does not lend us their cluster to kill.
    let Some(broker) = &cluster.broker else { return };
    let state = tempfile::tempdir().unwrap();
    let running = application(&cluster, cluster.word_count(), &state).start().await.unwrap();
    let reader = running.statistics_reader();
    let mut all = Vec::new();
    for round in 0..3 {
        let lines = lines(60 + round, 1000);
        cluster.load(&lines, PARTITIONS).await;
        all.extend(lines);
        let before = reader.read().committed;
        until("a commit", || reader.read().committed > before).await;
        broker.crash().await.unwrap();
        broker.restart().await.unwrap();
    }
    assert_exact(&cluster.counts(total(&all)).await, &all);
    running.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_start_says_why() {
    let cluster = Cluster::start("start").await;
    let state = tempfile::tempdir().unwrap();
    let missing = application(&cluster, cluster.word_count(), &state).start().await.err().unwrap().to_string();
    let topic = cluster.name("lines");
    assert_eq!(
        missing,
        format!("KSTREAM-SOURCE-0000000000 reads topic {topic}, which does not exist: create it first")
    );

    cluster.create("lines", 1).await;
    cluster.create("word-counts", 1).await;
    let too_short = application(&cluster, cluster.word_count(), &state).transaction_timeout(Duration::from_millis(10));
    let too_short = too_short.start().await.err().unwrap().to_string();
    assert!(
        too_short.starts_with("transaction time-out: 10ms is not longer than the commit interval, 30ms"),
        "{too_short}"
    );

    let running = application(&cluster, cluster.word_count(), &state).start().await.unwrap();
    let twice = application(&cluster, cluster.word_count(), &state).start().await.err().unwrap().to_string();
    assert!(twice.contains("is in use by another process"), "{twice}");
    running.close().await.unwrap();
    let changelog = TopicName::from(format!("{}-counts-changelog", cluster.name("app")));
    let configs = cluster.client.admin().topic_configs(&changelog).await.unwrap();
    assert_eq!(configs.get("cleanup.policy").map(String::as_str), Some("compact"));
}

/// Crashes at any moment: while it joins, initialises, restores, in the middle of a transaction or of its end.
/// `ATONCE_TEST_CRASHES` asks for more of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashes_at_any_moment_do_no_harm() {
    let crashes = std::env::var("ATONCE_TEST_CRASHES").ok().and_then(|crashes| crashes.parse().ok()).unwrap_or(8);
    let cluster = cluster("moment").await;
    let states = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut chance = atonce_kernel::chance::Chance::from_seed(crashes);
    let mut all = Vec::new();
    for round in 0..crashes {
        let lines = lines(100 + round, 300);
        cluster.load(&lines, PARTITIONS).await;
        all.extend(lines);
        // Sometimes two processes, which crash together or one after the other.
        let both = chance.one_in(1, 3);
        let mut running = Vec::new();
        for state in &states[..if both { 2 } else { 1 }] {
            running.push(application(&cluster, cluster.word_count(), state).start().await.unwrap());
        }
        for process in running {
            tokio::time::sleep(Duration::from_millis(chance.below(300))).await;
            process.crash().await;
        }
    }
    let last = application(&cluster, cluster.word_count(), &states[0]).start().await.unwrap();
    assert_exact(&cluster.counts(total(&all)).await, &all);
    last.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_processes_with_one_id_the_first_ends_and_says_why() {
    let cluster = cluster("twins").await;
    let states = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let lines = lines(70, 300);
    cluster.load(&lines, PARTITIONS).await;
    let twin = |state| application(&cluster, cluster.word_count(), state).workers(1).process_id("same").start();
    let mut first = twin(&states[0]).await.unwrap();
    first.wait_until_running().await;
    let second = twin(&states[1]).await.unwrap();
    let error = first.run_until(std::future::pending()).await.unwrap_err().to_string();
    assert!(
        error.starts_with("worker 0: another process has taken same-0 over: two processes must not share"),
        "{error}"
    );
    assert_exact(&cluster.counts(total(&lines)).await, &lines);
    second.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_cannot_be_processed_ends_the_application_and_is_named() {
    let cluster = cluster("poison").await;
    let state = tempfile::tempdir().unwrap();
    let builder = TopologyBuilder::new();
    builder.stream::<Option<Bytes>, i64>(cluster.name("lines")).to(cluster.name("word-counts"));
    let topology = builder.build().unwrap();
    cluster.load(&["8 bytes.".to_owned()], 1).await;
    let running = application(&cluster, topology.clone(), &state).start().await.unwrap();
    let reader = running.statistics_reader();
    until("the good record is through", || reader.read().committed > 0).await;
    cluster.load(&["not 8 bytes".to_owned()], 1).await;
    let error = running.run_until(std::future::pending()).await.unwrap_err().to_string();
    let expected = format!(
        "task 0_0, {}-0 offset 1, at KSTREAM-SOURCE-0000000000: the value cannot be read: 11 bytes are no i64, which has 8",
        cluster.name("lines")
    );
    assert!(error.ends_with(&expected), "{error}");
    assert_eq!(reader.read().records, 1, "what came before stands");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_of_any_length_are_counted() {
    let cluster = cluster("long").await;
    let state = tempfile::tempdir().unwrap();
    let (a, b) = ("x".repeat(70_000), "x".repeat(69_999) + "y");
    let lines = vec![format!("{a} {b} short"), format!("{b} {a}"), format!("short {a}")];
    cluster.load(&lines, PARTITIONS).await;
    let running = application(&cluster, cluster.word_count(), &state).start().await.unwrap();
    assert_exact(&cluster.counts(total(&lines)).await, &lines);
    running.close().await.unwrap();
    let running = application(&cluster, cluster.word_count(), &state).start().await.unwrap();
    cluster.load(&lines, PARTITIONS).await;
    let all = [lines.clone(), lines].concat();
    assert_exact(&cluster.counts(total(&all)).await, &all);
    running.close().await.unwrap();
}

/// What the other two guarantees promise when processes die, and no more than that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashes_repeat_but_never_lose_at_least_once_and_lose_but_never_repeat_at_most_once() {
    for guarantee in [Guarantee::AtLeastOnce, Guarantee::AtMostOnce] {
        let cluster = cluster("crash-other").await;
        let state = tempfile::tempdir().unwrap();
        let mut chance = atonce_kernel::chance::Chance::from_seed(7);
        let start = || application(&cluster, cluster.word_count(), &state).guarantee(guarantee).start();
        let mut all = Vec::new();
        for round in 0..6 {
            let lines = lines(200 + round, 300);
            cluster.load(&lines, PARTITIONS).await;
            all.extend(lines);
            let running = start().await.unwrap();
            tokio::time::sleep(Duration::from_millis(chance.below(250))).await;
            running.crash().await;
        }
        let running = start().await.unwrap();
        // At most once, no one knows how many are to come: it ends when nothing moves any more.
        let wanted = if guarantee == Guarantee::AtLeastOnce { total(&all) } else { 0 };
        let reader = running.statistics_reader();
        let mut seen = u64::MAX;
        while seen != reader.read().records {
            seen = reader.read().records;
            tokio::time::sleep(Duration::from_millis(800)).await;
        }
        let found = cluster.counts(wanted).await;
        running.close().await.unwrap();
        for (word, expected) in cluster::expected(&all) {
            let found = found.get(&word).cloned().unwrap_or_default();
            match guarantee {
                Guarantee::AtLeastOnce => {
                    assert!(
                        found.iter().max() >= expected.iter().max(),
                        "{word} was lost: {found:?} of {}",
                        expected.len()
                    );
                }
                Guarantee::AtMostOnce => {
                    assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "{word} was repeated: {found:?}");
                    assert!(found.last() <= expected.last(), "{word} was counted too often: {found:?}");
                }
                Guarantee::ExactlyOnce => {}
            }
        }
    }
}
