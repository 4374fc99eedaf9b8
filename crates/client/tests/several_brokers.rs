//! A cluster whose brokers are stopped or killed and come back one after the other, under load: leaders, coordinators of
//! transactions and of groups move, and every record counts once.
//!
//! On three nodes of Apache Kafka, which `dev/interop/on-three-nodes FOLDER cargo test …` starts: `ATONCE_TEST_KAFKA` names
//! their folder, `ATONCE_TEST_BOOTSTRAP_SERVERS` their addresses. Nothing is tested without them.

mod world;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use atonce_client::admin::PartitionDescription;
use atonce_client::{ConsumerRecord, CooperativeStickyAssignor, Position, ProducerRecord, TopicName, TopicPartition};
use world::World;

const PARTITIONS: i32 = 6;

/// What befalls the nodes, one after the other: a rolling restart of all three, of which two do not say good-bye.
const BLOWS: [(&str, u32); 3] = [("kill", 1), ("stop", 2), ("kill", 3)];

/// How long the cluster may take to be whole, and the work to go on: it takes some seconds, on a busy machine many.
const LIMIT: Duration = Duration::from_secs(100);

/// How much is done between two blows: the work goes on with a node less, too.
const STEP: u32 = 300;

fn number(record: &ConsumerRecord) -> u32 {
    std::str::from_utf8(&record.value().expect("has a value")).expect("is text").parse().expect("is a number")
}

/// Calls `dev/interop/kafka`.
async fn kafka(what: &'static str, node: u32, folder: String) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dev/interop/kafka");
    let status = tokio::task::spawn_blocking(move || {
        Command::new(script).args([what, &node.to_string(), "--data", &folder]).status()
    });
    assert!(status.await.expect("does not panic").expect("can be run").success(), "{what} of node {node}");
}

/// Waits until all partitions, those of the coordinators' logs too, are as `is_so` says.
async fn until_all(world: &World, what: &str, is_so: impl Fn(&PartitionDescription) -> bool) {
    let mut others = Vec::new();
    let waiting = async {
        loop {
            let listed = world.client.admin().list_topics().await;
            let names: Vec<TopicName> = listed.iter().flatten().map(|topic| topic.name.clone()).collect();
            let described = world.client.admin().describe_topics(&names).await.unwrap_or_default();
            let count = described.values().filter(|topic| topic.is_ok()).count();
            others.clear();
            for (name, topic) in described {
                let partitions = topic.map(|topic| topic.partitions).unwrap_or_default();
                others.extend(partitions.iter().filter(|it| !is_so(it)).map(|it| format!("{name}-{}", it.partition)));
            }
            if !names.is_empty() && count == names.len() && others.is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let is_done = tokio::time::timeout(LIMIT, waiting).await.is_ok();
    assert!(is_done, "{what}: not after {LIMIT:?}: {others:?}");
}

/// Every replica is in step: the next blow meets no second one that is not over.
async fn until_all_are_in_step(world: &World) {
    let is_in_step = |it: &PartitionDescription| it.leader >= 0 && it.in_sync_replicas.len() == it.replicas.len();
    until_all(world, "in step", is_in_step).await;
}

/// Others lead, and coordinate, what a node that is down did.
async fn until_others_lead(world: &World, down: u32) {
    let down = i32::try_from(down).expect("fits");
    until_all(world, "led by others", |it| it.leader >= 0 && it.leader != down).await;
}

/// Waits until so much more is done.
async fn until_done(what: &str, done: &AtomicU32) {
    let goal = done.load(Ordering::Relaxed) + STEP;
    let waiting = async {
        while done.load(Ordering::Relaxed) < goal {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let is_done = tokio::time::timeout(LIMIT, waiting).await.is_ok();
    assert!(is_done, "{what}: the work stands still at {} of {goal}", done.load(Ordering::Relaxed));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_of_all_brokers_under_load_costs_no_record_and_repeats_none() {
    let Ok(folder) = std::env::var("ATONCE_TEST_KAFKA") else { return };
    let world = World::new().await;
    let (input, output) = (world.topic("in", PARTITIONS).await, world.topic("out", PARTITIONS).await);
    let done = Arc::new(AtomicBool::new(false));

    // A writer that goes on through all of it.
    let (written, is_done, to) = (Arc::new(AtomicU32::new(0)), Arc::clone(&done), input.clone());
    let (count, client) = (Arc::clone(&written), world.client.clone());
    let writer = tokio::spawn(async move {
        let producer = client.producer().start().await.expect("starts");
        let mut deliveries = Vec::new();
        while !is_done.load(Ordering::Relaxed) {
            let number = count.fetch_add(1, Ordering::Relaxed);
            let partition = i32::try_from(number).expect("fits") % PARTITIONS;
            let record = ProducerRecord::to(to.clone()).partition(partition).value(number.to_string());
            deliveries.push(producer.send(record).await.expect("is taken"));
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        producer.flush().await.expect("all is written");
        for delivery in deliveries {
            delivery.await.expect("is written");
        }
    });

    // Two loops that share the work.
    let mut loops = Vec::new();
    let copied = Arc::new(AtomicU32::new(0));
    for place in 0..2 {
        let work = world.client.read_process_write(world.name("loop")).instance(place.to_string());
        let work = work.from([input.clone()]).consumer(|consumer| {
            let consumer = consumer.assignor(Arc::new(CooperativeStickyAssignor)).batch_records_max(100);
            consumer.heartbeat_interval(Duration::from_millis(500)).session_timeout(Duration::from_secs(20))
        });
        let (to, copied) = (output.clone(), Arc::clone(&copied));
        loops.push(tokio::spawn(work.run(move |batch, output| {
            let (to, copied) = (to.clone(), Arc::clone(&copied));
            async move {
                copied.fetch_add(u32::try_from(batch.len()).expect("fits"), Ordering::Relaxed);
                for record in batch {
                    let copy = ProducerRecord::to(to.clone()).partition(record.partition()).value(record.value());
                    output.send(copy).await?;
                }
                Ok(())
            }
        })));
    }

    until_done("before any blow", &copied).await;
    for (what, node) in BLOWS {
        until_all_are_in_step(&world).await;
        kafka(what, node, folder.clone()).await;
        until_others_lead(&world, node).await;
        until_done(&format!("{what} {node}"), &copied).await;
        kafka("restart", node, folder.clone()).await;
        until_done(&format!("restart {node}"), &copied).await;
    }
    until_all_are_in_step(&world).await;
    done.store(true, Ordering::Relaxed);
    writer.await.expect("the writer does not fail");

    let count = written.load(Ordering::Relaxed);
    let places = (0..PARTITIONS).map(|partition| (TopicPartition::new(output.clone(), partition), Position::Earliest));
    let mut reader = world.client.consumer().read_committed().assign(places).await.expect("starts");
    let mut values = vec![Vec::new(); usize::try_from(PARTITIONS).expect("fits")];
    let reading = async {
        while values.iter().map(Vec::len).sum::<usize>() < count as usize {
            let batch = reader.next_batch().await.expect("reads").expect("is not stopped");
            for record in &batch {
                values[usize::try_from(record.partition()).expect("fits")].push(number(record));
            }
        }
    };
    let is_done = tokio::time::timeout(Duration::from_secs(120), reading).await;
    let found: usize = values.iter().map(Vec::len).sum();
    is_done.unwrap_or_else(|_| panic!("{found} of {count} after 120 s"));
    for (partition, found) in (0_u32..).zip(&values) {
        let step = usize::try_from(PARTITIONS).expect("fits");
        assert_eq!(*found, (partition..count).step_by(step).collect::<Vec<_>>(), "partition {partition}");
    }
    assert!(loops.iter().all(|it| !it.is_finished()), "nothing of this ends a loop");
    assert!(count > 1000, "there was load: {count}");
}
