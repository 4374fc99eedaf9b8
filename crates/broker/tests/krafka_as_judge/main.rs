//! krafka, a client by other people, against the broker: what it believes about Kafka must hold here.

mod administration;
mod groups;
mod killed;

use std::collections::BTreeMap;
use std::time::Duration;

use atonce_broker::Broker;
use krafka::admin::NewTopic;
use krafka::consumer::{AutoOffsetReset, Consumer, IsolationLevel};
use krafka::producer::{TopicPartitionOffset, TransactionalProducer};
use krafka::{Kafka, KrafkaError, Record};

/// What is waited for comes in moments; a machine may be busy.
const PATIENCE: Duration = Duration::from_secs(120);

async fn broker(transaction_version: &str) -> Broker {
    Broker::builder()
        .temporary()
        .property("group.initial.rebalance.delay.ms", "0")
        .property("transaction.version", transaction_version)
        .start()
        .await
        .expect("a broker starts")
}

async fn connect(broker: &Broker) -> Kafka {
    Kafka::builder(broker.bootstrap_servers()).client_id("judge").connect().await.expect("krafka connects")
}

async fn create(kafka: &Kafka, name: &str, partitions: i32) {
    let topic = NewTopic::new(name, partitions, 1).expect("a topic");
    let created = kafka.admin().create_topics(vec![topic], Default::default()).await.expect("asked");
    for (_, result) in created {
        result.expect("created");
    }
}

async fn transactional(kafka: &Kafka, id: &str) -> TransactionalProducer {
    kafka
        .producer()
        .transaction_timeout(Duration::from_secs(60))
        .delivery_timeout(Duration::from_secs(45))
        .build_transactional(id)
        .await
        .expect("the id is registered")
}

async fn reader(kafka: &Kafka, topic: &str, partitions: i32, isolation: IsolationLevel) -> Consumer {
    let consumer = kafka
        .consumer_without_group()
        .isolation_level(isolation)
        .auto_offset_reset(AutoOffsetReset::Earliest)
        .build()
        .await
        .expect("a consumer");
    consumer.assign(topic, (0..partitions).collect()).await.expect("assigned");
    consumer
}

/// The values of a partition up to a record that says `end`, which the caller writes outside of any transaction.
async fn values_until_end(consumer: &Consumer) -> Vec<String> {
    let mut values = Vec::new();
    tokio::time::timeout(PATIENCE, async {
        loop {
            for record in consumer.poll(Duration::from_millis(200)).await.expect("polled") {
                let value = String::from_utf8(record.value.clone().unwrap_or_default().to_vec()).expect("text");
                if value == "end" {
                    return;
                }
                values.push(value);
            }
        }
    })
    .await
    .unwrap_or_else(|_| panic!("the end was not read; so far: {values:?}"));
    values
}

async fn write_end(kafka: &Kafka, topic: &str) {
    let producer = kafka.producer().build().await.expect("a producer");
    let _ = producer.send(Record::new(topic, "end")).await.expect("written");
    producer.close().await.expect("closed");
}

#[tokio::test]
async fn idempotent_records_arrive_once_and_in_the_order_of_their_keys() {
    let broker = broker("2").await;
    let kafka = connect(&broker).await;
    create(&kafka, "t", 4).await;
    let producer = kafka.producer().build().await.expect("a producer");
    let mut acknowledgements = Vec::new();
    for i in 0..1000 {
        let record = Record::new("t", format!("{i}")).key(format!("{}", i % 10)).header("h", "1").header("h", "2");
        acknowledgements.push(producer.enqueue(record).await.expect("taken"));
    }
    for acknowledgement in acknowledgements {
        let _ = acknowledgement.await.expect("acknowledged");
    }
    producer.close().await.expect("closed");

    let consumer = reader(&kafka, "t", 4, IsolationLevel::ReadCommitted).await;
    let mut by_key: BTreeMap<Vec<u8>, Vec<u32>> = BTreeMap::new();
    tokio::time::timeout(PATIENCE, async {
        while by_key.values().map(Vec::len).sum::<usize>() < 1000 {
            for record in consumer.poll(Duration::from_millis(200)).await.expect("polled") {
                let number = String::from_utf8_lossy(record.value.as_deref().unwrap_or_default()).parse().expect("one");
                by_key.entry(record.key.clone().unwrap_or_default().to_vec()).or_default().push(number);
            }
        }
    })
    .await
    .expect("all records");
    for (key, numbers) in by_key {
        let first: u32 = String::from_utf8_lossy(&key).parse().expect("a number");
        assert_eq!(numbers, (0..100).map(|i| first + 10 * i).collect::<Vec<_>>());
    }
}

/// Commit, abort and commit, seen in both isolations.
async fn transactions(transaction_version: &str) {
    let broker = broker(transaction_version).await;
    let kafka = connect(&broker).await;
    create(&kafka, "t", 1).await;
    let producer = transactional(&kafka, "writer").await;
    assert_eq!(producer.transaction_version().is_v2(), transaction_version == "2");
    for (round, commits) in [true, false, true].into_iter().enumerate() {
        producer.begin().expect("begun");
        for i in 0..5 {
            let _ = producer.send(Record::new("t", format!("{round}-{i}"))).await.expect("sent");
        }
        if commits {
            producer.commit().await.expect("committed");
        } else {
            producer.abort().await.expect("aborted");
        }
    }
    write_end(&kafka, "t").await;
    let values = |rounds: &[usize]| -> Vec<String> {
        rounds.iter().flat_map(|round| (0..5).map(move |i| format!("{round}-{i}"))).collect()
    };
    let committed = reader(&kafka, "t", 1, IsolationLevel::ReadCommitted).await;
    assert_eq!(values_until_end(&committed).await, values(&[0, 2]));
    let uncommitted = reader(&kafka, "t", 1, IsolationLevel::ReadUncommitted).await;
    assert_eq!(values_until_end(&uncommitted).await, values(&[0, 1, 2]));
}

/// Commits and aborts over several partitions, with readers of both isolations beside them from before the first record on.
async fn several_partitions(transaction_version: &str) {
    let broker = broker(transaction_version).await;
    let kafka = connect(&broker).await;
    create(&kafka, "t", 3).await;
    let committed = reader(&kafka, "t", 3, IsolationLevel::ReadCommitted).await;
    let uncommitted = reader(&kafka, "t", 3, IsolationLevel::ReadUncommitted).await;
    let writing = async {
        let producer = transactional(&kafka, "writer").await;
        for (round, commits) in [true, false, true, false].into_iter().enumerate() {
            producer.begin().expect("begun");
            for partition in 0..3 {
                for i in 0..2 {
                    let value = format!("{round}-{partition}-{i}");
                    let metadata = producer.send(Record::new("t", value).partition(partition)).await.expect("sent");
                    assert_eq!(metadata.partition, partition);
                    // Two records and a marker for each round before.
                    assert_eq!(metadata.offset, 3 * round as i64 + i);
                }
            }
            if commits { producer.commit().await.expect("committed") } else { producer.abort().await.expect("aborted") }
        }
        for partition in 0..3 {
            let plain = kafka.producer().build().await.expect("a producer");
            let _ = plain.send(Record::new("t", "end").partition(partition)).await.expect("written");
            plain.close().await.expect("closed");
        }
    };
    let ((), of_committed, of_uncommitted) =
        tokio::join!(writing, by_partition(&committed, 3), by_partition(&uncommitted, 3));
    let expected = |rounds: &[usize]| -> BTreeMap<i32, Vec<String>> {
        let values = |partition| rounds.iter().flat_map(move |it| (0..2).map(move |i| format!("{it}-{partition}-{i}")));
        (0..3).map(|partition| (partition, values(partition).collect())).collect()
    };
    assert_eq!(of_committed, expected(&[0, 2]));
    assert_eq!(of_uncommitted, expected(&[0, 1, 2, 3]));
}

/// The values of each partition, until `end` was read from all of them.
async fn by_partition(consumer: &Consumer, partitions: usize) -> BTreeMap<i32, Vec<String>> {
    let mut values: BTreeMap<i32, Vec<String>> = BTreeMap::new();
    let mut ended = 0;
    tokio::time::timeout(PATIENCE, async {
        while ended < partitions {
            for record in consumer.poll(Duration::from_millis(200)).await.expect("polled") {
                let value = String::from_utf8(record.value.clone().unwrap_or_default().to_vec()).expect("text");
                if value == "end" {
                    ended += 1;
                } else {
                    values.entry(record.partition).or_default().push(value);
                }
            }
        }
    })
    .await
    .unwrap_or_else(|_| panic!("{ended} ends were read; so far: {values:?}"));
    values
}

#[tokio::test]
async fn transactions_over_several_partitions_end_in_all_of_them() {
    for transaction_version in ["1", "2"] {
        several_partitions(transaction_version).await;
    }
}

#[tokio::test]
async fn transactions_of_protocol_2_commit_and_abort() {
    transactions("2").await;
}

#[tokio::test]
async fn transactions_of_protocol_1_commit_and_abort() {
    transactions("1").await;
}

/// A group reads, a transaction writes and takes the group's offsets with it; an aborted one takes none.
async fn read_process_write(transaction_version: &str) {
    let broker = broker(transaction_version).await;
    let kafka = connect(&broker).await;
    create(&kafka, "in", 1).await;
    create(&kafka, "out", 1).await;
    let plain = kafka.producer().build().await.expect("a producer");
    for i in 0..20 {
        let _ = plain.send(Record::new("in", format!("{i}"))).await.expect("written");
    }
    let consumer = kafka
        .consumer("loop")
        .auto_offset_reset(AutoOffsetReset::Earliest)
        .isolation_level(IsolationLevel::ReadCommitted)
        .enable_auto_commit(false)
        .build()
        .await
        .expect("a consumer");
    consumer.subscribe(["in"]).await.expect("subscribed");
    let producer = transactional(&kafka, "loop").await;
    let mut done = 0;
    let mut has_aborted = false;
    tokio::time::timeout(PATIENCE, async {
        while done < 20 {
            let records = consumer.poll(Duration::from_millis(500)).await.expect("polled");
            let Some(last) = records.last() else { continue };
            let next = last.offset + 1;
            producer.begin().expect("begun");
            for record in &records {
                let value = String::from_utf8_lossy(record.value.as_deref().unwrap_or_default()).into_owned();
                let _ = producer.send(Record::new("out", value)).await.expect("sent");
            }
            let group = consumer.group_metadata().await.expect("a member");
            producer.send_offsets(&[TopicPartitionOffset::new("in", 0, next)], &group).await.expect("offsets sent");
            if has_aborted {
                producer.commit().await.expect("committed");
                done = next;
            } else {
                has_aborted = true;
                producer.abort().await.expect("aborted");
                consumer.seek("in", 0, records[0].offset).await.expect("back to the first");
            }
        }
    })
    .await
    .expect("all is processed");
    write_end(&kafka, "out").await;
    let committed = reader(&kafka, "out", 1, IsolationLevel::ReadCommitted).await;
    assert_eq!(values_until_end(&committed).await, (0..20).map(|i| i.to_string()).collect::<Vec<_>>());
    consumer.close().await.expect("closed");

    // Whoever comes next in the group goes on behind what was committed.
    let after = kafka.consumer("loop").enable_auto_commit(false).build().await.expect("a consumer");
    after.subscribe(["in"]).await.expect("subscribed");
    let plain_record = plain.send(Record::new("in", "end")).await.expect("written");
    assert_eq!(plain_record.offset, 20);
    assert_eq!(values_until_end(&after).await, Vec::<String>::new());
}

#[tokio::test]
async fn offsets_go_with_the_transaction_in_protocol_2() {
    read_process_write("2").await;
}

#[tokio::test]
async fn offsets_go_with_the_transaction_in_protocol_1() {
    read_process_write("1").await;
}

#[tokio::test]
async fn a_zombie_is_fenced_by_its_successor() {
    for transaction_version in ["1", "2"] {
        let broker = broker(transaction_version).await;
        let kafka = connect(&broker).await;
        create(&kafka, "t", 1).await;
        let zombie = transactional(&kafka, "one").await;
        zombie.begin().expect("begun");
        let _ = zombie.send(Record::new("t", "of the zombie")).await.expect("sent");
        let successor = transactional(&kafka, "one").await;
        successor.begin().expect("begun");
        let _ = successor.send(Record::new("t", "of its successor")).await.expect("sent");
        successor.commit().await.expect("committed");
        let refused = zombie.commit().await.expect_err("fenced");
        assert!(
            matches!(refused, KrafkaError::Fenced { .. }) || refused.is_fatal() || refused.requires_abort(),
            "{refused:?}"
        );
        write_end(&kafka, "t").await;
        let committed = reader(&kafka, "t", 1, IsolationLevel::ReadCommitted).await;
        assert_eq!(values_until_end(&committed).await, ["of its successor"]);
    }
}
