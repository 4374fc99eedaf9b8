//! Several members of a group that come and go, cleanly and not, while each reads, processes and writes in transactions:
//! every record is taken into account once, and in order.
//!
//! On Apache Kafka if `ATONCE_TEST_BOOTSTRAP_SERVERS` says where one is, else on our own broker in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use atonce_broker::{Broker, Durability};
use atonce_client::{
    Client, ConsumerEvent, CooperativeStickyAssignor, ErrorClass, GroupProtocol, NewTopic, OffsetReset, Position,
    ProducerRecord, Settled, TopicName, TopicPartition,
};
use atonce_kernel::chance::Chance;

const PARTITIONS: i32 = 4;
const RECORDS: u32 = 10_000;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Eager,
    Cooperative,
    Consumer,
}

struct Job {
    kind: Kind,
    client: Client,
    input: TopicName,
    output: TopicName,
    group: String,
    done: AtomicBool,
    rebalances: AtomicUsize,
}

/// Copies until told to stop; `is_clean` says whether it then leaves, or just vanishes.
async fn copy(job: Arc<Job>, name: String, life: Duration, is_clean: bool) {
    let mut producer = job.client.transactional_producer(name).start().await.expect("starts");
    let builder = job.client.consumer().group(job.group.clone()).read_committed();
    let builder = builder.auto_offset_reset(OffsetReset::Earliest).batch_records_max(20);
    let builder = builder.session_timeout(Duration::from_secs(6)).heartbeat_interval(Duration::from_millis(100));
    let builder = match job.kind {
        Kind::Eager => builder,
        Kind::Cooperative => builder.assignor(Arc::new(CooperativeStickyAssignor)),
        Kind::Consumer => builder.group_protocol(GroupProtocol::Consumer),
    };
    let mut consumer = builder.subscribe([job.input.clone()]).await.expect("starts");
    let end = tokio::time::Instant::now() + life;
    while tokio::time::Instant::now() < end && !job.done.load(Ordering::Relaxed) {
        let batch = match consumer.next_event(Duration::from_millis(100)).await.expect("goes on") {
            Some(ConsumerEvent::Batch(batch)) => batch,
            // What was handed out is committed before the next call, so there is nothing to do.
            Some(ConsumerEvent::Revoking(_) | ConsumerEvent::Lost(_)) => continue,
            Some(ConsumerEvent::Assigned(..)) => {
                job.rebalances.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            None => continue,
        };
        let copied = async {
            let transaction = producer.begin().await?;
            for record in &batch {
                let copy = ProducerRecord::to(job.output.clone()).partition(record.partition()).value(record.value());
                drop(transaction.send(copy).await?);
            }
            // Time for the group to move on in the meantime.
            tokio::time::sleep(Duration::from_millis(5)).await;
            transaction.send_offsets(batch.positions()).await?;
            transaction.commit().await?;
            Ok::<(), atonce_client::Error>(())
        };
        if let Err(error) = copied.await {
            assert_eq!(error.class(), ErrorClass::Abortable, "the group may have moved on, no more: {error}");
            let settled = producer.settle().await.expect("is settled");
            assert_ne!(settled, Some(Settled::Unknown));
            if settled != Some(Settled::Committed) && !consumer.assignment().is_empty() {
                consumer.rewind().await.expect("goes back");
            }
        }
    }
    if is_clean {
        consumer.close().await.expect("leaves");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_that_come_and_go_take_each_record_into_account_once() {
    check(Kind::Eager).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_a_cooperative_group_take_each_record_into_account_once() {
    check(Kind::Cooperative).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_a_consumer_group_take_each_record_into_account_once() {
    check(Kind::Consumer).await;
}

async fn check(kind: Kind) {
    let (servers, _broker) = match std::env::var("ATONCE_TEST_BOOTSTRAP_SERVERS") {
        Ok(servers) => (servers, None),
        Err(_) => {
            let broker = Broker::builder().temporary().durability(Durability::Os);
            let broker = broker.property("group.initial.rebalance.delay.ms", "0").start().await.expect("starts");
            (broker.bootstrap_servers(), Some(broker))
        }
    };
    let client = Client::builder(servers).connect().await.expect("is there");
    let cluster = client.admin().describe_cluster().await.expect("is answered");
    if kind == Kind::Consumer && cluster.features.get("group.version").copied().unwrap_or(0) < 1 {
        return;
    }
    let suffix = SystemTime::now().duration_since(UNIX_EPOCH).expect("is after 1970").as_nanos();
    let name = |what: &str| TopicName::from(format!("{what}-{suffix}"));
    let (input, output) = (name("in"), name("out"));
    let topics = [NewTopic::new(input.clone(), PARTITIONS), NewTopic::new(output.clone(), PARTITIONS)];
    let created = client.admin().create_topics(&topics).await.expect("is answered");
    assert!(created.values().all(Result::is_ok));
    let producer = client.producer().start().await.expect("starts");
    for number in 0..RECORDS {
        let partition = i32::try_from(number).expect("fits") % PARTITIONS;
        let record = ProducerRecord::to(input.clone()).partition(partition).value(number.to_string());
        drop(producer.send(record).await.expect("is taken"));
    }
    producer.close().await.expect("all is written");

    let job = Arc::new(Job {
        kind,
        client: client.clone(),
        input,
        output: output.clone(),
        group: format!("g-{suffix}"),
        done: AtomicBool::new(false),
        rebalances: AtomicUsize::new(0),
    });
    let mut workers = tokio::task::JoinSet::new();
    let chance = Chance::from_seed(7);
    for place in 0..3 {
        let job = Arc::clone(&job);
        let mut chance = chance.derive(place);
        workers.spawn(async move {
            let mut life = 0;
            while !job.done.load(Ordering::Relaxed) {
                life += 1;
                let duration = Duration::from_millis(200 + chance.below(800));
                // One that vanishes is waited for until its session ends; that may be seldom.
                let is_clean = !(place == 0 && life == 2);
                copy(Arc::clone(&job), format!("{}-{place}", job.group), duration, is_clean).await;
            }
        });
    }

    let reader = client.consumer().read_committed();
    let places = (0..PARTITIONS).map(|partition| (TopicPartition::new(output.clone(), partition), Position::Earliest));
    let mut reader = reader.assign(places).await.expect("starts");
    let mut values = vec![Vec::new(); usize::try_from(PARTITIONS).expect("fits")];
    let reading = async {
        while values.iter().map(Vec::len).sum::<usize>() < RECORDS as usize {
            let batch = reader.next_batch().await.expect("reads").expect("is not stopped");
            for record in &batch {
                let text = String::from_utf8(record.value().expect("has a value").to_vec()).expect("is text");
                let number: u32 = text.parse().expect("is a number");
                values[usize::try_from(record.partition()).expect("fits")].push(number);
            }
        }
    };
    let is_done = tokio::time::timeout(Duration::from_secs(90), reading).await;
    job.done.store(true, Ordering::Relaxed);
    let count: usize = values.iter().map(Vec::len).sum();
    is_done.unwrap_or_else(|_| panic!("{count} of {RECORDS} after 90 s"));
    while let Some(worker) = workers.join_next().await {
        worker.expect("no worker fails");
    }
    for (partition, found) in (0_u32..).zip(&values) {
        let expected: Vec<u32> = (partition..RECORDS).step_by(usize::try_from(PARTITIONS).expect("fits")).collect();
        assert_eq!(*found, expected, "partition {partition}");
    }
    assert!(job.rebalances.load(Ordering::Relaxed) > 6, "there was something to survive");
}
