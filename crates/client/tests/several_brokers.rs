//! A cluster whose brokers are killed and come back one after the other, under load: leaders, coordinators of transactions
//! and of groups move, and every record counts once.
//!
//! On three nodes of Apache Kafka, if `ATONCE_TEST_KAFKA` names the folder that `dev/interop/kafka start --nodes 3 --data
//! FOLDER` was given, and `ATONCE_TEST_BOOTSTRAP_SERVERS` their addresses; nothing is tested without them. The nodes that are
//! killed are all three, or those that `ATONCE_TEST_KAFKA_KILLED` names (`2`, `3 1`).

mod world;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use atonce_client::{ConsumerRecord, CooperativeStickyAssignor, Position, ProducerRecord, TopicPartition};
use world::World;

const PARTITIONS: i32 = 6;

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

#[tokio::test(flavor = "multi_thread")]
async fn brokers_that_are_killed_one_after_the_other_cost_no_record_and_repeat_none() {
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
    for place in 0..2 {
        let work = world.client.read_process_write(world.name("loop")).instance(place.to_string());
        let work = work.from([input.clone()]).consumer(|consumer| {
            let consumer = consumer.assignor(Arc::new(CooperativeStickyAssignor)).batch_records_max(100);
            consumer.heartbeat_interval(Duration::from_millis(500)).session_timeout(Duration::from_secs(20))
        });
        let to = output.clone();
        loops.push(tokio::spawn(work.run(move |batch, output| {
            let to = to.clone();
            async move {
                for record in batch {
                    let copy = ProducerRecord::to(to.clone()).partition(record.partition()).value(record.value());
                    output.send(copy).await?;
                }
                Ok(())
            }
        })));
    }

    let killed = std::env::var("ATONCE_TEST_KAFKA_KILLED").unwrap_or_else(|_| "1 2 3".to_owned());
    for node in killed.split_whitespace().map(|node| node.parse().expect("a node is a number")) {
        tokio::time::sleep(Duration::from_secs(3)).await;
        kafka("kill", node, folder.clone()).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        kafka("restart", node, folder.clone()).await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
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
