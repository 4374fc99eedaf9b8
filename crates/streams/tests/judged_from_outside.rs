//! An application of several processes, which are killed, frozen and closed while they work, behind a network that delays and cuts in the middle of a
//! frame, on a broker that crashes; and a judge who knows only what went in, what came out committed, and what the group has committed:
//!
//! - each input's effect is there once, and the order of each key is kept;
//! - the stores are what their change logs come to;
//! - the positions of the group are behind everything that was processed, and there is nothing else.
//!
//! `cargo test` does it for some seconds; `ATONCE_TEST_JUDGED_SECONDS` asks for more, `ATONCE_TEST_SEED` for another course of things. On Apache Kafka
//! (`ATONCE_TEST_BOOTSTRAP_SERVERS`) no broker is killed, unless `ATONCE_TEST_KAFKA_DATA` names the folder of nodes that `dev/interop/kafka start --nodes 3 --data
//! FOLDER` has started: then leaders and coordinators are killed one after the other, and at the end each node is restarted once.

#[allow(dead_code, reason = "other tests use the rest")]
mod cluster;
mod judge;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use atonce_kernel::chance::Chance;
use atonce_protocol::ApiKey;
use atonce_testkit::proxy::{Path, Proxy, Weather};
use cluster::Cluster;
use judge::process::{Process, Settings, run_until_standard_input_ends};
use judge::{Judge, PARTITIONS, until};

/// A process of the application: this program, started again by the judge.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the judge starts it as a process of its own"]
async fn a_process_of_the_application() {
    if let Some(settings) = Settings::of_environment() {
        run_until_standard_input_ends(settings).await;
    }
}

/// What can befall the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Blow {
    /// A process is killed, and started again soon.
    Kill,
    /// A process does nothing for a while, and does not know it.
    Freeze,
    /// A process is closed, and comes back: twice a rebalance.
    Close,
    /// All connections are closed.
    Cut,
    /// The answer to a commit is lost.
    LoseAnswer,
    /// Nothing comes through for a while.
    Silence,
    /// A broker crashes and is started again.
    Broker,
}

const BLOWS: [Blow; 7] =
    [Blow::Kill, Blow::Freeze, Blow::Close, Blow::Cut, Blow::LoseAnswer, Blow::Silence, Blow::Broker];

/// Each blow at least so often, before it is over.
const LEAST: u64 = 1;

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_effect_is_there_once_and_in_order_whatever_befalls_processes_network_and_broker() {
    let cluster = Cluster::start("judged").await;
    let seed = number_of("ATONCE_TEST_SEED").unwrap_or(1);
    let duration = Duration::from_secs(number_of("ATONCE_TEST_JUDGED_SECONDS").unwrap_or(6));
    let mut chance = Chance::from_seed(seed);
    let mut judge = Judge::new(cluster).await;
    let proxy = Proxy::start(&judge.cluster.bootstrap_servers, seed).await.unwrap();
    let weather = Weather { delay_max: Duration::from_millis(3), cut_one_frame_in: 400, ..Weather::default() };
    proxy.set_weather(weather);
    let folder = tempfile::tempdir().unwrap();
    let mut processes: Vec<Process> = (0..2)
        .map(|index| {
            let settings = judge.settings(&proxy.bootstrap_servers(), &folder.path().join(format!("state-{index}")));
            Process::start(settings, &folder.path().join(format!("log-{index}")))
        })
        .collect();
    judge.load(200).await;

    let mut dealt: BTreeMap<Blow, u64> = BTreeMap::new();
    let begun = Instant::now();
    let mut turn = 0;
    while begun.elapsed() < duration || dealt.len() < BLOWS.len() || dealt.values().any(|times| *times < LEAST) {
        judge.load(40).await;
        // Each in turn at first, so that none is left out; then by chance.
        let blow = BLOWS.get(turn).copied().unwrap_or_else(|| BLOWS[chance.below(BLOWS.len() as u64) as usize]);
        turn += 1;
        *dealt.entry(blow).or_default() += 1;
        let victim = chance.below(processes.len() as u64) as usize;
        // In long runs sometimes longer than a session and a transaction may last: others take over, and a zombie wakes.
        let is_long = duration > Duration::from_secs(30) && chance.one_in(1, 3);
        let a_while = Duration::from_millis(100 + chance.below(if is_long { 12_000 } else { 400 }));
        match blow {
            Blow::Kill => {
                processes[victim].kill();
                tokio::time::sleep(a_while).await;
                processes[victim].start_again();
            }
            Blow::Freeze => {
                processes[victim].signal("STOP");
                tokio::time::sleep(a_while).await;
                processes[victim].signal("CONT");
            }
            Blow::Close => {
                processes[victim].close().await;
                processes[victim].start_again();
            }
            Blow::Cut => proxy.cut_all(),
            Blow::LoseAnswer => drop(proxy.next(ApiKey::EndTxn).lose_answer()),
            Blow::Silence => {
                proxy.set_path(Path::BlackHole);
                tokio::time::sleep(a_while / 2).await;
                proxy.set_path(Path::Open);
            }
            Blow::Broker => judge.crash_a_broker(&mut chance).await,
        }
        tokio::time::sleep(Duration::from_millis(chance.below(300))).await;
    }
    judge.restart_all_nodes().await;

    // Calm: everything comes through in the end.
    proxy.set_weather(Weather::default());
    let ended_by_themselves: Vec<String> = processes.iter_mut().filter_map(Process::ended_by_itself).collect();
    assert!(ended_by_themselves.is_empty(), "{}", ended_by_themselves.join("\n"));
    let words = |processes: &[Process]| processes.iter().map(Process::last_words).collect::<Vec<_>>().join("\n");
    if let Err(missing) = judge.wait_for_effects(Duration::from_secs(90)).await {
        panic!("seed {seed}, after {dealt:?}: {missing}\n{}", words(&processes));
    }
    for process in &mut processes {
        process.close().await;
    }
    assert!(proxy.connections() > 2, "they went through the proxy");

    judge.assert_effects().await;
    // One process takes all tasks, and all stores with them.
    let state = folder.path().join("state-0");
    let mut last = judge.application(&judge.settings(&judge.cluster.bootstrap_servers, &state)).start().await.unwrap();
    last.wait_until_running().await;
    until("one process has all tasks", || last.metrics().tasks.len() == 2 * PARTITIONS as usize).await;
    until("nothing is left to restore", || last.state() == atonce::ApplicationState::Running).await;
    last.close().await.unwrap();
    judge.assert_effects().await;
    judge.assert_positions().await;
    judge.assert_stores(&state).await;
}
