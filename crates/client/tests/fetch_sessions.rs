//! A consumer's fetch sessions (KIP-227) with a broker: they save what they are for, their end is told, and whatever becomes
//! of them each record comes once and in order.
//!
//! On Apache Kafka, if `ATONCE_TEST_BOOTSTRAP_SERVERS` says where one is; what needs a broker with room for a single session
//! uses our own.

mod world;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use atonce_broker::{Broker, Durability};
use atonce_client::{Client, Consumer, NewTopic, Position, ProducerRecord, TopicName, TopicPartition};
use atonce_protocol::messages::fetch_response::FetchResponse;
use atonce_protocol::{AnyResponse, ApiKey, ErrorCode};
use atonce_testkit::proxy::Proxy;
use world::World;

const LIMIT: Duration = Duration::from_secs(60);

/// The sessions that answers to fetches belonged to, in their order, and how many partitions each answer spoke of.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<(i32, usize)>>>);

impl Seen {
    fn of(proxy: &Proxy) -> Self {
        let seen = Self::default();
        let list = Arc::clone(&seen.0);
        proxy.change_answers(ApiKey::Fetch, move |answer, _| {
            if let AnyResponse::Fetch(answer) = answer {
                let count = answer.responses.iter().map(|topic| topic.partitions.len()).sum();
                list.lock().expect("nobody panics").push((answer.session_id, count));
            }
        });
        seen
    }

    fn list(&self) -> Vec<(i32, usize)> {
        self.0.lock().expect("nobody panics").clone()
    }
}

fn everywhere(topic: &TopicName, partitions: i32) -> Vec<(TopicPartition, Position)> {
    (0..partitions).map(|it| (TopicPartition::new(topic.clone(), it), Position::Earliest)).collect()
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, waiting).await.unwrap_or_else(|_| panic!("{what}: not within {LIMIT:?}"));
}

/// Reads `count` records, and their numbers by partition.
async fn numbers(consumer: &mut Consumer, count: usize) -> BTreeMap<i32, Vec<u32>> {
    let mut found: BTreeMap<i32, Vec<u32>> = BTreeMap::new();
    let reading = async {
        while found.values().map(Vec::len).sum::<usize>() < count {
            let batch = consumer.next_batch().await.expect("reads").expect("is not stopped");
            for record in &batch {
                found.entry(record.partition()).or_default().push(world::text(record).parse().expect("is a number"));
            }
        }
    };
    let is_done = tokio::time::timeout(LIMIT, reading).await.is_ok();
    assert!(is_done, "not {count} records within {LIMIT:?}: {found:?}");
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_many_partitions_names_them_once_and_its_end_ends_the_session() {
    const PARTITIONS: i32 = 100;
    let world = World::new().await;
    let topic = world.topic("many", PARTITIONS).await;
    let proxy = Proxy::start(&world.servers, 1).await.expect("starts");
    let seen = Seen::of(&proxy);
    let client = Client::builder(proxy.bootstrap_servers()).connect().await.expect("the broker is there");
    let reader = client.consumer().fetch_wait_max(Duration::from_millis(20)).assign(everywhere(&topic, PARTITIONS));
    let mut reader = reader.await.expect("starts");
    // A record in each, so that all of them are in the session, then silence.
    let producer = world.client.producer().start().await.expect("starts");
    for partition in 0..PARTITIONS {
        let record = ProducerRecord::to(topic.clone()).partition(partition).value("7");
        drop(producer.send(record).await.expect("is taken"));
    }
    producer.close().await.expect("all is written");
    let found = numbers(&mut reader, usize::try_from(PARTITIONS).expect("fits")).await;
    assert!(found.values().all(|numbers| *numbers == [7]), "{found:?}");

    let so_far = seen.list().len();
    until("twenty silent fetches", || seen.list().iter().skip(so_far).filter(|(_, count)| *count == 0).count() >= 20)
        .await;
    let silent = |list: &[(i32, usize)]| list.iter().rev().take(5).all(|(id, count)| *id != 0 && *count == 0);
    until("silence in a session", || silent(&seen.list())).await;
    let (bytes, fetches) = (client.metrics().bytes_sent(), proxy.requests(ApiKey::Fetch));
    until("twenty more", || proxy.requests(ApiKey::Fetch) >= fetches + 20).await;
    let each = (client.metrics().bytes_sent() - bytes) / (proxy.requests(ApiKey::Fetch) - fetches);
    // A hundred partitions take over 2,000 bytes to name.
    assert!(each < 300, "{each} bytes a fetch");

    reader.close().await.expect("ends");
    until("the end of the session is answered", || seen.list().last() == Some(&(0, 0))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_becomes_of_sessions_each_record_comes_once_and_in_order() {
    const PARTITIONS: i32 = 4;
    const RECORDS: u32 = 2000;
    let world = World::new().await;
    let topic = world.topic("spoilt", PARTITIONS).await;
    let proxy = Proxy::start(&world.servers, 2).await.expect("starts");
    let (answers, refused) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let count_refused = Arc::clone(&refused);
    proxy.change_answers(ApiKey::Fetch, move |answer, _| {
        let AnyResponse::Fetch(answer) = answer else { return };
        if answer.error_code == ErrorCode::FetchSessionIdNotFound.to_i16() {
            count_refused.fetch_add(1, Ordering::Relaxed);
        }
        let refusal = |code: ErrorCode| FetchResponse { error_code: code.to_i16(), ..FetchResponse::default() };
        match answers.fetch_add(1, Ordering::Relaxed) % 11 {
            2 => *answer = refusal(ErrorCode::InvalidFetchSessionEpoch),
            // A session that the broker does not have.
            4 if answer.session_id != 0 => answer.session_id ^= 0x5555,
            6 => *answer = refusal(ErrorCode::FetchSessionTopicIdError),
            8 => *answer = refusal(ErrorCode::FetchSessionIdNotFound),
            10 => answer.session_id = 0,
            _ => {}
        }
    });
    let client = Client::builder(proxy.bootstrap_servers()).retry_backoff(Duration::from_millis(5));
    let client = client.connect().await.expect("the broker is there");
    let reader = client.consumer().fetch_wait_max(Duration::from_millis(50)).assign(everywhere(&topic, PARTITIONS));
    let mut reader = reader.await.expect("starts");

    let (writer, to) = (world.client.clone(), topic.clone());
    let writer = tokio::spawn(async move {
        let producer = writer.producer().linger(Duration::ZERO).start().await.expect("starts");
        for number in 0..RECORDS {
            let partition = i32::try_from(number).expect("fits") % PARTITIONS;
            let record = ProducerRecord::to(to.clone()).partition(partition).value(number.to_string());
            drop(producer.send(record).await.expect("is taken"));
            if number % 20 == 0 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        producer.close().await.expect("all is written");
    });
    let found = numbers(&mut reader, usize::try_from(RECORDS).expect("fits")).await;
    writer.await.expect("does not fail");
    for partition in 0..PARTITIONS {
        let first = u32::try_from(partition).expect("fits");
        let expected: Vec<u32> = (first..RECORDS).step_by(usize::try_from(PARTITIONS).expect("fits")).collect();
        assert_eq!(found[&partition], expected, "partition {partition}");
    }
    // The broker has refused some by itself too.
    until("a session that the broker does not have", || refused.load(Ordering::Relaxed) > 0).await;
    reader.close().await.expect("ends");
}

/// A broker with room for a session, a topic of one record on it, and what it answers fetches.
async fn with_room_for_one() -> (Broker, Client, TopicName, Seen) {
    let broker = Broker::builder().temporary().durability(Durability::Os);
    let broker = broker.property("max.incremental.fetch.session.cache.slots", "1").start().await.expect("starts");
    let proxy = Proxy::start(&broker.bootstrap_servers(), 3).await.expect("starts");
    let seen = Seen::of(&proxy);
    let client = Client::builder(proxy.bootstrap_servers()).connect().await.expect("the broker is there");
    let topic = TopicName::from("t");
    client.admin().create_topics(&[NewTopic::new(topic.clone(), 1)]).await.expect("is answered");
    let producer = client.producer().start().await.expect("starts");
    drop(producer.send(ProducerRecord::to(topic.clone()).value("1")).await.expect("is taken"));
    producer.close().await.expect("is written");
    (broker, client, topic, seen)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_room_of_a_consumer_that_has_ended_is_free_for_the_next_one() {
    let (_broker, client, topic, seen) = with_room_for_one().await;
    let reader = || client.consumer().fetch_wait_max(Duration::from_millis(20)).assign(everywhere(&topic, 1));
    let mut first = reader().await.expect("starts");
    numbers(&mut first, 1).await;
    until("the first has the session", || seen.list().last().is_some_and(|(id, _)| *id != 0)).await;
    let before = seen.list();
    let mut second = reader().await.expect("starts");
    numbers(&mut second, 1).await;
    // It reads all the same: everything is said each time.
    until("the second reads without", || seen.list().iter().skip(before.len()).filter(|(id, _)| *id == 0).count() > 2)
        .await;
    first.close().await.expect("ends");
    let held = before.last().expect("it has one").0;
    let is_next = |(id, _): &(i32, usize)| *id != 0 && *id != held;
    until("the second has one now", || seen.list().iter().any(is_next)).await;
    second.close().await.expect("ends");
}
