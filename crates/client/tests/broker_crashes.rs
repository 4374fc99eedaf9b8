//! The client while its broker is killed and comes back, again and again: what it says is true afterwards.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use atonce_broker::{Broker, Durability};
use atonce_client::{
    Client, Consumer, ErrorClass, NewTopic, OffsetReset, Position, ProducerRecord, Settled, TopicPartition,
};

const CRASHES: u64 = 6;

async fn world() -> (Arc<Broker>, Client) {
    let broker = Broker::builder().temporary().durability(Durability::Os);
    let broker = broker.property("group.initial.rebalance.delay.ms", "0").start().await.expect("starts");
    let builder = Client::builder(broker.bootstrap_servers()).request_timeout(Duration::from_secs(5));
    let client = builder.connect().await.expect("is there");
    let topics = [NewTopic::new("input", 2), NewTopic::new("output", 2)];
    let created = client.admin().create_topics(&topics).await.expect("is answered");
    assert!(created.values().all(Result::is_ok));
    (Arc::new(broker), client)
}

/// Kills the broker now and then; says when it is done.
fn crash_now_and_then(broker: Arc<Broker>) -> Arc<AtomicBool> {
    let done = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&done);
    tokio::spawn(async move {
        for crash in 0..CRASHES {
            tokio::time::sleep(Duration::from_millis(150 + 37 * crash)).await;
            broker.crash().await.expect("crashes");
            tokio::time::sleep(Duration::from_millis(20 * crash)).await;
            broker.restart().await.expect("comes back");
        }
        flag.store(true, Ordering::Relaxed);
    });
    done
}

async fn reader(client: &Client, topic: &str) -> Consumer {
    let builder = client.consumer().read_committed().auto_offset_reset(OffsetReset::Earliest);
    let places = (0..2).map(|partition| (TopicPartition::new(topic, partition), Position::Earliest));
    builder.assign(places).await.expect("starts")
}

/// All committed values, by partition in order.
async fn read_all(client: &Client, topic: &str) -> [Vec<u32>; 2] {
    let mut values = [Vec::new(), Vec::new()];
    let mut consumer = reader(client, topic).await;
    let partitions: Vec<TopicPartition> = (0..2).map(|partition| TopicPartition::new(topic, partition)).collect();
    let ends = consumer.end_offsets(&partitions).await.expect("are told");
    while !partitions.iter().all(|partition| consumer.position(partition) >= ends.get(partition).copied()) {
        let Some(batch) = consumer.next_batch().await.expect("reads") else { unreachable!("nobody stops it") };
        for record in &batch {
            let text = String::from_utf8(record.value().expect("has a value").to_vec()).expect("is text");
            let partition = usize::try_from(record.partition()).expect("is not negative");
            values[partition].push(text.parse().expect("is a number"));
        }
    }
    values
}

#[tokio::test(flavor = "multi_thread")]
async fn every_acknowledged_record_is_there_once_and_in_order() {
    let (broker, client) = world().await;
    let producer = client.producer().linger(Duration::from_millis(1)).start().await.expect("starts");
    let done = crash_now_and_then(Arc::clone(&broker));
    let mut deliveries = Vec::new();
    let mut number = 0;
    while !done.load(Ordering::Relaxed) {
        let partition = i32::try_from(number % 2).expect("fits");
        let record = ProducerRecord::to("output").partition(partition).value(number.to_string());
        deliveries.push((number, producer.send(record).await.expect("is taken")));
        number += 1;
        if number % 50 == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    producer.flush().await.expect("all is written in the end");
    let mut acknowledged = BTreeSet::new();
    for (number, delivery) in deliveries {
        delivery.await.expect("is written");
        acknowledged.insert(number);
    }
    let values = read_all(&client, "output").await;
    for partition in &values {
        assert!(partition.windows(2).all(|pair| pair[0] < pair[1]), "each once, in order");
    }
    let all: BTreeSet<u32> = values.into_iter().flatten().collect();
    assert_eq!(all, acknowledged);
    assert!(number > 100, "there was some load");
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_processing_and_writing_counts_each_record_once() {
    let (broker, client) = world().await;
    let producer = client.producer().start().await.expect("starts");
    for number in 0..2000_u32 {
        let partition = i32::try_from(number % 2).expect("fits");
        let record = ProducerRecord::to("input").partition(partition).value(number.to_string());
        drop(producer.send(record).await.expect("is taken"));
    }
    producer.close().await.expect("all is written");

    // So little patience that commits are given up, and settled later.
    let builder = client.transactional_producer("copier").max_block(Duration::from_millis(60));
    let mut producer = builder.start().await.expect("starts");
    let builder = client.consumer().group("copiers").read_committed().auto_offset_reset(OffsetReset::Earliest);
    let builder = builder.batch_records_max(5).instance_id("one").heartbeat_interval(Duration::from_millis(100));
    let mut consumer = builder.subscribe(["input"]).await.expect("starts");
    let done = crash_now_and_then(Arc::clone(&broker));
    let (mut in_doubt, mut copied, mut committed_count) = (0, 0, 0);
    while !done.load(Ordering::Relaxed) || copied < 2000 {
        let event = match consumer.next_event(Duration::from_millis(300)).await {
            Ok(event) => event,
            Err(error) if error.class() == ErrorClass::Retriable => continue,
            Err(error) => panic!("the consumer fails: {error}"),
        };
        let Some(atonce_client::ConsumerEvent::Batch(batch)) = event else { continue };
        let committed = async {
            let transaction = producer.begin().await?;
            for record in &batch {
                let copy = ProducerRecord::to("output").partition(record.partition()).value(record.value());
                drop(transaction.send(copy).await?);
            }
            transaction.send_offsets(batch.positions()).await?;
            transaction.commit().await?;
            Ok::<(), atonce_client::Error>(())
        };
        if let Err(error) = committed.await {
            assert_ne!(error.class(), ErrorClass::InvalidConfiguration, "{error}");
            in_doubt += u32::from(error.may_have_taken_effect());
            let settled = loop {
                match producer.settle().await {
                    Ok(settled) => break settled,
                    Err(error) => assert_eq!(error.class(), ErrorClass::Retriable, "{error}"),
                }
            };
            if settled != Some(Settled::Committed) {
                consumer.rewind().await.expect("goes back");
                continue;
            }
        }
        copied += batch.len();
        committed_count += 1;
    }
    assert_eq!(producer.statistics().committed, committed_count, "and what was said is what was counted");
    let [even, odd] = read_all(&client, "output").await;
    assert_eq!(even, (0..2000).step_by(2).collect::<Vec<u32>>(), "{copied} copied, {in_doubt} in doubt");
    assert_eq!(odd, (1..2000).step_by(2).collect::<Vec<u32>>(), "{copied} copied, {in_doubt} in doubt");
    assert_eq!(copied, 2000);
}
