//! A broker to test against (Apache Kafka, if `ATONCE_TEST_BOOTSTRAP_SERVERS` says where one is; else our own, in this
//! process), and names that no other test has.

#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of it")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use atonce_broker::{Broker, Durability};
use atonce_client::{
    Client, Consumer, ConsumerBuilder, ConsumerEvent, GroupId, Isolation, NewTopic, OffsetReset, OffsetSpec,
    ProducerRecord, TopicName, TopicPartition,
};

/// A client, and names that no other test has.
pub struct World {
    pub client: Client,
    pub servers: String,
    pub suffix: String,
    _broker: Option<Broker>,
}

impl World {
    pub async fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (servers, broker) = match std::env::var("ATONCE_TEST_BOOTSTRAP_SERVERS") {
            Ok(servers) => (servers, None),
            Err(_) => {
                let broker = Broker::builder().temporary().durability(Durability::Os);
                // Looked at often, for the tests that wait for it.
                let broker = broker.property("transaction.abort.timed.out.transaction.cleanup.interval.ms", "100");
                // No test is about the time that a group waits for its first members, or about how seldom members speak.
                let broker = broker.property("group.initial.rebalance.delay.ms", "0");
                let broker = broker.property("group.consumer.min.heartbeat.interval.ms", "500");
                let broker = broker.property("group.consumer.heartbeat.interval.ms", "500");
                let broker = broker.start().await.expect("a broker starts in this process");
                (broker.bootstrap_servers(), Some(broker))
            }
        };
        let client =
            Client::builder(servers.clone()).client_id("atonce-test").connect().await.expect("the broker is there");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_millis();
        let suffix = format!("{now}-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        Self { client, servers, suffix, _broker: broker }
    }

    pub fn name(&self, what: &str) -> String {
        format!("{what}-{}", self.suffix)
    }

    pub async fn topic(&self, what: &str, partitions: i32) -> TopicName {
        let name = TopicName::from(self.name(what));
        let created = self.client.admin().create_topics(&[NewTopic::new(name.clone(), partitions)]).await;
        created.expect("topics can be made").remove(&name).expect("an answer for each").expect("it is new");
        name
    }

    pub async fn write(&self, topic: &TopicName, values: std::ops::Range<i32>) {
        let producer = self.client.producer().linger(Duration::ZERO).start().await.expect("starts");
        for value in values {
            let record = ProducerRecord::to(topic.clone()).key(value.to_string()).value(value.to_string());
            drop(producer.send(record).await.expect("is taken"));
        }
        producer.close().await.expect("all is written");
    }

    pub fn consumer(&self) -> ConsumerBuilder {
        self.client.consumer().read_committed().auto_offset_reset(OffsetReset::Earliest)
    }

    pub async fn end(&self, topic: &TopicName, isolation: Isolation) -> i64 {
        let topic_partition = TopicPartition::new(topic.clone(), 0);
        let specs = [(topic_partition.clone(), OffsetSpec::Latest)];
        let listed = self.client.admin().list_offsets(&specs, isolation).await.expect("offsets are listed");
        listed[&topic_partition].offset.expect("a partition has an end")
    }

    /// Waits until all transactions of the partition have ended, and returns its end.
    pub async fn settled_end(&self, topic: &TopicName) -> i64 {
        loop {
            let stable = self.end(topic, Isolation::ReadCommitted).await;
            if stable == self.end(topic, Isolation::ReadUncommitted).await {
                return stable;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// In the old transaction protocol a broker says of a transaction that outlived its time-out what it says of a zombie's.
    pub async fn has_old_protocol(&self) -> bool {
        let cluster = self.client.admin().describe_cluster().await.expect("is answered");
        cluster.features.get("transaction.version").copied().unwrap_or(0) < 2
    }

    pub async fn committed(&self, group: &GroupId, topic: &TopicName) -> Option<i64> {
        let topic_partition = TopicPartition::new(topic.clone(), 0);
        let offsets = self.client.admin().committed_offsets(group, std::slice::from_ref(&topic_partition), true).await;
        offsets.expect("offsets are told").get(&topic_partition).map(|committed| committed.offset)
    }
}

/// Values until there are `count`, with the positions after them.
pub async fn read(consumer: &mut Consumer, count: usize) -> Vec<String> {
    let mut values = Vec::new();
    while values.len() < count {
        let batch = consumer.next_batch().await.expect("reads").expect("is not stopped");
        values.extend(batch.iter().map(text));
    }
    values
}

pub fn text(record: &atonce_client::ConsumerRecord) -> String {
    String::from_utf8(record.value().expect("has a value").to_vec()).expect("is text")
}

/// Events until `look` has something.
pub async fn until<T>(consumer: &mut Consumer, mut look: impl FnMut(ConsumerEvent) -> Option<T>) -> T {
    loop {
        let event = consumer.next_event(Duration::from_secs(60)).await.expect("goes on").expect("something happens");
        if let Some(found) = look(event) {
            return found;
        }
    }
}

pub fn assigned(event: ConsumerEvent) -> Option<Vec<TopicPartition>> {
    match event {
        ConsumerEvent::Assigned(partitions, _) => Some(partitions),
        ConsumerEvent::Batch(_) | ConsumerEvent::Revoking(_) | ConsumerEvent::Lost(_) => None,
    }
}

pub fn revoking(event: ConsumerEvent) -> Option<Vec<TopicPartition>> {
    match event {
        ConsumerEvent::Revoking(partitions) => Some(partitions),
        ConsumerEvent::Batch(_) | ConsumerEvent::Assigned(..) | ConsumerEvent::Lost(_) => None,
    }
}
