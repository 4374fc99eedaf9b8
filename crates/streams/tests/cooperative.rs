//! Rebalances in which members keep what they keep: it goes on while the group divides, for as long as that may take, and what moves is with one
//! member at a time.

#[allow(dead_code, reason = "other tests use the rest")]
mod cluster;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use atonce::client::admin::GroupState;
use atonce::client::{ConsumerEvent, GroupId, Position, ProducerRecord, TopicName, TopicPartition};
use atonce::{Application, ApplicationState, Topology, TopologyBuilder, store};
use atonce_protocol::ApiKey;
use atonce_testkit::proxy::Proxy;
use cluster::Cluster;

/// Holds up whoever comes to it while it is closed.
#[derive(Default)]
struct Gate {
    is_closed: Mutex<bool>,
    waiting: Mutex<usize>,
    opened: Condvar,
}

impl Gate {
    fn close(&self) {
        *self.is_closed.lock().unwrap() = true;
    }

    fn open(&self) {
        *self.is_closed.lock().unwrap() = false;
        self.opened.notify_all();
    }

    fn waiting(&self) -> usize {
        *self.waiting.lock().unwrap()
    }

    fn pass(&self) {
        *self.waiting.lock().unwrap() += 1;
        let closed = self.is_closed.lock().unwrap();
        drop(self.opened.wait_while(closed, |is_closed| *is_closed).unwrap());
        *self.waiting.lock().unwrap() -= 1;
    }
}

/// Counts the records of each key; "hold" is held at the gate.
fn topology(cluster: &Cluster, gate: &Arc<Gate>) -> Topology {
    let builder = TopologyBuilder::new();
    let gate = Arc::clone(gate);
    builder
        .stream::<String, String>(cluster.name("in"))
        .peek(move |_, value| {
            if value == "hold" {
                // Other tasks of this thread go on: heartbeats, for one.
                tokio::task::block_in_place(|| gate.pass());
            }
        })
        .group_by_key()
        .count(store("counts"))
        .to_stream()
        .to(cluster.name("out"));
    builder.build().unwrap()
}

async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !condition().await {
        assert!(started.elapsed() < Duration::from_secs(60), "waited a minute: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

struct World {
    cluster: Cluster,
    partitions: i32,
    written: BTreeMap<i32, i64>,
}

impl World {
    async fn start(test: &str, partitions: i32) -> Self {
        let cluster = Cluster::start(test).await;
        cluster.create("in", partitions).await;
        cluster.create("out", partitions).await;
        Self { cluster, partitions, written: BTreeMap::new() }
    }

    async fn process(&self, servers: &str, gate: &Arc<Gate>, state: &tempfile::TempDir) -> Application {
        self.process_of(1, servers, gate, state).await
    }

    async fn process_of(
        &self,
        workers: usize,
        servers: &str,
        gate: &Arc<Gate>,
        state: &tempfile::TempDir,
    ) -> Application {
        Application::builder(self.cluster.name("app"), topology(&self.cluster, gate))
            .bootstrap_servers(servers)
            .commit_interval(Duration::from_millis(20))
            .session_timeout(Duration::from_secs(20))
            // What is held at the gate is not to be aborted for it.
            .transaction_timeout(Duration::from_secs(120))
            .workers(workers)
            .state_dir(state.path())
            .start()
            .await
            .unwrap()
    }

    /// Writes to the partition's own key.
    async fn write(&mut self, partition: i32, value: &str) {
        let producer = self.cluster.client.producer().start().await.unwrap();
        let record = ProducerRecord::to(self.cluster.name("in")).partition(partition);
        let record = record.key(format!("key-{partition}")).value(value.to_owned());
        let _delivery = producer.send(record).await.unwrap();
        producer.close().await.unwrap();
        *self.written.entry(partition).or_default() += 1;
    }

    /// The counts that a reader of committed records sees, by key.
    async fn counts(&self) -> BTreeMap<String, Vec<i64>> {
        let topic = TopicName::from(self.cluster.name("out"));
        let partitions: Vec<_> = (0..self.partitions).map(|index| TopicPartition::new(topic.clone(), index)).collect();
        let all = partitions.iter().map(|partition| (partition.clone(), Position::Earliest));
        let mut consumer = self.cluster.client.consumer().read_committed().assign(all).await.unwrap();
        let ends = consumer.end_offsets(&partitions).await.unwrap();
        let mut counts: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        while !ends.iter().all(|(partition, end)| consumer.position(partition) >= Some(*end)) {
            let event = consumer.next_event(Duration::from_millis(100)).await.unwrap();
            let Some(ConsumerEvent::Batch(batch)) = event else { continue };
            for record in batch {
                let key = String::from_utf8(record.key.unwrap().to_vec()).unwrap();
                let count = i64::from_be_bytes(record.value.unwrap().as_ref().try_into().unwrap());
                counts.entry(key).or_default().push(count);
            }
        }
        counts
    }

    /// Waits until all that was written to these partitions has been counted, once and in order.
    async fn counted(&self, partitions: impl IntoIterator<Item = i32>) {
        for partition in partitions {
            let expected: Vec<i64> = (1..=self.written[&partition]).collect();
            let mut found = Vec::new();
            until(&format!("partition {partition} is counted"), async || {
                found = self.counts().await.remove(&format!("key-{partition}")).unwrap_or_default();
                found.len() >= expected.len()
            })
            .await;
            assert_eq!(found, expected, "partition {partition}");
        }
    }

    async fn group_state(&self) -> GroupState {
        let group = GroupId::from(self.cluster.name("app"));
        let described = self.cluster.client.admin().describe_groups(std::slice::from_ref(&group)).await.unwrap();
        described[&group].as_ref().unwrap().state
    }

    async fn until_stable(&self) {
        until("the group is stable", async || self.group_state().await == GroupState::Stable).await;
    }
}

fn partitions_of(application: &Application) -> BTreeSet<i32> {
    application.metrics().tasks.keys().map(|task| task.partition).collect()
}

/// One process is held up in the middle of a record, so that it does not join, and the division that another one asks for by coming (then by going) stays
/// open for as long as the gate is closed. The process that has joined already counts on meanwhile, and what it counts is committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tasks_that_stay_are_processed_and_committed_while_the_group_rebalances() {
    let mut world = World::start("cooperative", 6).await;
    let proxy = Proxy::start(&world.cluster.bootstrap_servers, 1).await.unwrap();
    let states: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let (open, gate) = (Arc::new(Gate::default()), Arc::new(Gate::default()));
    let servers = world.cluster.bootstrap_servers.clone();
    let stays = world.process(&proxy.bootstrap_servers(), &open, &states[0]).await;
    until("it has all tasks", async || partitions_of(&stays).len() == 6).await;
    let slow = world.process(&servers, &gate, &states[1]).await;
    until("each has half", async || partitions_of(&slow).len() == 3 && partitions_of(&stays).len() == 3).await;
    world.until_stable().await;
    for partition in 0..6 {
        world.write(partition, "first").await;
    }
    world.counted(0..6).await;

    let mut comes: Option<Application> = None;
    for is_coming in [true, false] {
        gate.close();
        let held = *partitions_of(&slow).first().unwrap();
        world.write(held, "hold").await;
        until("it is held up", async || gate.waiting() == 1).await;
        let (kept, joinings) = (partitions_of(&stays), proxy.requests(ApiKey::JoinGroup));
        let going = if is_coming {
            comes = Some(world.process(&servers, &open, &states[2]).await);
            None
        } else {
            comes.take().map(|application| tokio::spawn(application.close()))
        };
        until("who is not held up joins", async || proxy.requests(ApiKey::JoinGroup) > joinings).await;
        for round in 0..3 {
            assert_eq!(world.group_state().await, GroupState::PreparingRebalance, "round {round}");
            for partition in &kept {
                world.write(*partition, "meanwhile").await;
            }
            world.counted(kept.clone()).await;
            assert_eq!(world.group_state().await, GroupState::PreparingRebalance, "round {round}");
            assert_eq!(partitions_of(&stays), kept);
        }
        if let Some(comes) = &comes {
            assert_eq!((comes.state(), partitions_of(comes).len()), (ApplicationState::Rebalancing, 0));
        }
        gate.open();
        if let Some(going) = going {
            going.await.unwrap().unwrap();
        }
        let expected = if is_coming { 2 } else { 3 };
        until("all is divided", async || {
            let all = [Some(&stays), Some(&slow), comes.as_ref()];
            all.into_iter().flatten().all(|it| partitions_of(it).len() == expected)
        })
        .await;
        let now = partitions_of(&stays);
        assert!(if is_coming { kept.is_superset(&now) } else { now.is_superset(&kept) }, "{kept:?}, then {now:?}");
        for partition in 0..6 {
            world.write(partition, "after").await;
        }
        world.counted(0..6).await;
    }
    for process in [stays, slow] {
        let seen = process.statistics();
        assert_eq!((seen.aborted, seen.fenced), (0, 0), "nothing was undone");
        process.close().await.unwrap();
    }
}

/// An owner that is killed after it was told to give tasks up, and comes back as the same static member, does not know that anybody waits for them.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tasks_whose_owner_was_killed_while_it_gave_them_up_do_not_stay_with_nobody() {
    let mut world = World::start("killed-owner", 3).await;
    let servers = world.cluster.bootstrap_servers.clone();
    let (before_stays, before_slow) =
        (Proxy::start(&servers, 1).await.unwrap(), Proxy::start(&servers, 2).await.unwrap());
    let states: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let (open, gate) = (Arc::new(Gate::default()), Arc::new(Gate::default()));
    let slow = world.process(&before_slow.bootstrap_servers(), &gate, &states[1]).await;
    until("it has all tasks", async || partitions_of(&slow).len() == 3).await;
    let stays = world.process(&before_stays.bootstrap_servers(), &open, &states[0]).await;
    until("the first keeps two", async || partitions_of(&slow).len() == 2 && partitions_of(&stays).len() == 1).await;
    world.until_stable().await;

    // The division is held open until the owner is held up in a record, so that it hears of it and cannot act.
    let held = before_stays.next(ApiKey::JoinGroup).hold_request();
    let joinings = before_slow.requests(ApiKey::JoinGroup);
    let comes = world.process(&servers, &open, &states[2]).await;
    until("the owner joins", async || before_slow.requests(ApiKey::JoinGroup) > joinings).await;
    gate.close();
    let had = partitions_of(&slow);
    world.write(*had.first().unwrap(), "hold").await;
    until("it is held up", async || gate.waiting() == 1).await;
    held.happened().await;
    let synced = before_slow.requests(ApiKey::SyncGroup);
    held.release();
    until("the owner is told", async || before_slow.requests(ApiKey::SyncGroup) > synced).await;
    world.until_stable().await;
    assert_eq!((comes.state(), partitions_of(&comes).len()), (ApplicationState::Rebalancing, 0), "it awaits one");
    assert_eq!(partitions_of(&slow), had, "it has not given anything up yet");
    let crashed = tokio::spawn(slow.crash());
    gate.open();
    crashed.await.unwrap();
    let slow = world.process(&servers, &open, &states[1]).await;
    until("all is divided", async || [&stays, &slow, &comes].iter().all(|it| partitions_of(it).len() == 1)).await;
    for partition in 0..3 {
        world.write(partition, "after").await;
    }
    world.counted(0..3).await;
    for process in [stays, slow, comes] {
        process.close().await.unwrap();
    }
}

/// KAFKA-14419: members that missed a division, and those who had something to give up, asked for one after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_members_that_come_at_once_cost_a_few_divisions_and_then_none() {
    let mut world = World::start("storm", 12).await;
    let proxy = Proxy::start(&world.cluster.bootstrap_servers, 1).await.unwrap();
    let states: Vec<_> = (0..2).map(|_| tempfile::tempdir().unwrap()).collect();
    let open = Arc::new(Gate::default());
    let servers = world.cluster.bootstrap_servers.clone();
    let stays = world.process(&proxy.bootstrap_servers(), &open, &states[0]).await;
    until("it has all tasks", async || partitions_of(&stays).len() == 12).await;
    // A member joins once for each division.
    let joinings = || proxy.requests(ApiKey::JoinGroup);
    let before = joinings();
    let come = world.process_of(9, &servers, &open, &states[1]).await;
    until("all is divided", async || {
        let all_run = come.state() == ApplicationState::Running && stays.state() == ApplicationState::Running;
        all_run && partitions_of(&stays).len() <= 2 && partitions_of(&come).len() + partitions_of(&stays).len() == 12
    })
    .await;
    world.until_stable().await;
    let settled = joinings();
    assert!(settled - before <= 9, "{} divisions for nine members that came together", settled - before);
    for partition in 0..12 {
        world.write(partition, "after").await;
    }
    world.counted(0..12).await;
    assert_eq!(joinings(), settled, "nobody asks for another one");
    come.close().await.unwrap();
    stays.close().await.unwrap();
}
