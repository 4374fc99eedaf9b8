//! The client over a network that loses, cuts, holds and swallows: what a reader with a network of its own finds on the
//! topic afterwards is what the calls said.
//!
//! On Apache Kafka, if `ATONCE_TEST_BOOTSTRAP_SERVERS` says where one is.

mod world;

use std::time::{Duration, Instant};

use atonce_client::consumer::GroupMetadata;
use atonce_client::{
    AbortError, BeginError, Client, CommitError, ErrorClass, GroupId, Positions, ProducerRecord, SendOffsetsError,
    Settled, StartError, TopicName, TopicPartition, TransactionalProducer,
};
use atonce_protocol::{AnyResponse, ApiKey};
use atonce_testkit::proxy::{Path, Planned, Proxy, Weather};
use tokio::task::JoinSet;
use world::World;

/// Which transaction protocol the client is to believe that the cluster has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Old,
    Asked,
}

async fn proxy(world: &World, protocol: Protocol) -> Proxy {
    let proxy = Proxy::start(&world.servers, 1).await.expect("starts");
    if protocol == Protocol::Old {
        proxy.change_answers(ApiKey::ApiVersions, |answer, _| {
            if let AnyResponse::ApiVersions(answer) = answer {
                answer.finalized_features.retain(|feature| feature.name != "transaction.version");
            }
        });
    }
    proxy
}

async fn client(proxy: &Proxy) -> Client {
    let builder = Client::builder(proxy.bootstrap_servers()).request_timeout(Duration::from_secs(2));
    builder.connect().await.expect("the broker is there")
}

/// What a reader of what is committed finds, and the offset that the group has.
async fn seen(world: &World, topic: &TopicName, group: &GroupId, count: usize) -> (Vec<String>, Option<i64>) {
    let places = [(TopicPartition::new(topic.clone(), 0), atonce_client::Position::Earliest)];
    let mut reader = world.consumer().assign(places).await.expect("starts");
    let values = tokio::time::timeout(Duration::from_secs(60), world::read(&mut reader, count)).await;
    let values = values.unwrap_or_else(|_| panic!("{topic}: not {count} records"));
    // Nothing is open any more, and nothing comes behind.
    world.settled_end(topic).await;
    (values, world.committed(group, topic).await)
}

/// One transaction; `Err` if it must be done once more.
async fn transaction(
    producer: &mut TransactionalProducer,
    topic: &TopicName,
    group: &GroupId,
    value: &str,
    offset: i64,
) -> Result<(), CommitError> {
    let transaction = producer.begin().await.expect("begins");
    transaction.send(ProducerRecord::to(topic.clone()).partition(0).value(value)).await.expect("is taken");
    let mut positions = Positions::new(GroupMetadata::without_member(group.clone()));
    positions.insert(TopicPartition::new(topic.clone(), 0), offset);
    transaction.send_offsets(positions).await.expect("are taken");
    transaction.commit().await
}

// --- every unknown end of every request ---

const REQUESTS: [ApiKey; 8] = [
    ApiKey::Metadata,
    ApiKey::FindCoordinator,
    ApiKey::InitProducerId,
    ApiKey::AddPartitionsToTxn,
    ApiKey::AddOffsetsToTxn,
    ApiKey::TxnOffsetCommit,
    ApiKey::Produce,
    ApiKey::EndTxn,
];

#[derive(Clone, Copy, Debug)]
enum End {
    RequestLost,
    RequestCut,
    RequestSwallowed,
    AnswerLost,
    AnswerCut,
    AnswerSwallowed,
}

const ENDS: [End; 6] =
    [End::RequestLost, End::RequestCut, End::RequestSwallowed, End::AnswerLost, End::AnswerCut, End::AnswerSwallowed];

fn plan(proxy: &Proxy, request: ApiKey, end: End) -> Planned {
    let next = proxy.next(request);
    match end {
        End::RequestLost => next.lose_request(),
        // Behind its header, before its end.
        End::RequestCut => next.cut_request(30),
        End::RequestSwallowed => next.swallow_request(),
        End::AnswerLost => next.lose_answer(),
        End::AnswerCut => next.cut_answer(9),
        End::AnswerSwallowed => next.swallow_answer(),
    }
}

async fn spoil_one(world: &World, topic: &TopicName, protocol: Protocol, request: ApiKey, end: End) {
    let what = format!("{protocol:?} {request:?} {end:?}");
    let group = GroupId::from(world.name(&format!("group-{topic}")));
    let proxy = proxy(world, protocol).await;
    let client = client(&proxy).await;
    let spoilt = plan(&proxy, request, end);
    let id = world.name(&format!("id-{topic}"));
    let mut producer =
        client.transactional_producer(id).start().await.unwrap_or_else(|error| panic!("{what}: {error}"));
    // The one that is spoilt, unless it was the start, and one after it.
    for (value, offset) in [("a", 1), ("b", 2)] {
        let committed = transaction(&mut producer, topic, &group, value, offset).await;
        committed.unwrap_or_else(|error| panic!("{what}: {value}: {error}"));
    }
    // What does not happen is not tested: in the new protocol partitions join by being written to.
    let is_needed = protocol == Protocol::Old
        || world.has_old_protocol().await
        || !matches!(request, ApiKey::AddPartitionsToTxn | ApiKey::AddOffsetsToTxn);
    assert_eq!(spoilt.count(), u64::from(is_needed), "{what}");
    let (values, offset) = seen(world, topic, &group, 2).await;
    assert_eq!((values.join(" ").as_str(), offset), ("a b", Some(2)), "{what}");
    let transactions = producer.statistics();
    assert_eq!((transactions.committed, transactions.aborted), (2, 0), "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_request_of_a_transaction_is_lost_in_whatever_way_its_values_are_there_once() {
    let world = std::sync::Arc::new(World::new().await);
    let mut running = JoinSet::new();
    for protocol in [Protocol::Old, Protocol::Asked] {
        for request in REQUESTS {
            for end in ENDS {
                // Those cost a time-out each: once is enough, in the protocol that has the request.
                let is_slow = matches!(end, End::RequestSwallowed | End::AnswerSwallowed);
                let is_old = matches!(request, ApiKey::AddPartitionsToTxn | ApiKey::AddOffsetsToTxn);
                if is_slow && is_old != (protocol == Protocol::Old) {
                    continue;
                }
                let topic = world.topic(&format!("{protocol:?}-{request:?}-{end:?}"), 1).await;
                let world = std::sync::Arc::clone(&world);
                running.spawn(async move { spoil_one(&world, &topic, protocol, request, end).await });
                // Not all at once: a machine that is busy elsewhere must not run into the requests' time-outs.
                while running.len() >= 16 {
                    running.join_next().await.expect("one runs").expect("its values are there");
                }
            }
        }
    }
    while let Some(done) = running.join_next().await {
        done.expect("its values are there");
    }
}

// --- calls end in time, and go on where they were ---

/// More than a call that is to give up after `SHORT` may take on a machine that is busy elsewhere; much less than for ever.
const SOON: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(500);

async fn start_short(client: &Client, world: &World, what: &str) -> TransactionalProducer {
    let producer = client.transactional_producer(world.name(what)).max_block(SHORT);
    // The first answer may take longer than that.
    loop {
        match producer.clone().start().await {
            Ok(producer) => return producer,
            Err(StartError::TimedOut { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_into_a_black_hole_gives_up_in_time_and_called_again_goes_on() {
    let world = World::new().await;
    let (topic, group) = (world.topic("hole-commit", 1).await, GroupId::from(world.name("group")));
    let proxy = proxy(&world, Protocol::Asked).await;
    let client = client(&proxy).await;
    let mut producer = start_short(&client, &world, "id").await;
    let transaction = producer.begin().await.expect("begins");
    transaction.send(ProducerRecord::to(topic.clone()).value("kept")).await.expect("is taken");
    while transaction.flush().await.is_err() {}
    proxy.set_path(Path::BlackHole);

    let before = Instant::now();
    let error = transaction.commit().await.expect_err("nobody answers");
    assert!(matches!(error, CommitError::InDoubt { .. }), "{error}");
    assert!(error.may_have_taken_effect() && before.elapsed() < SOON, "{:?}", before.elapsed());
    // Nothing else begins: the same end is gone on with.
    let error = producer.begin().await.map(drop).expect_err("is in doubt");
    assert!(matches!(error, BeginError::TimedOut { .. }) && before.elapsed() < SOON, "{error}");

    proxy.set_path(Path::Open);
    let settled = loop {
        match producer.settle().await {
            Ok(settled) => break settled,
            Err(BeginError::TimedOut { .. }) => assert!(before.elapsed() < Duration::from_secs(60)),
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(settled, Some(Settled::Committed));
    assert_eq!(seen(&world, &topic, &group, 1).await.0, ["kept"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_abort_into_a_black_hole_gives_up_in_time_and_called_again_goes_on() {
    let world = World::new().await;
    let (topic, group) = (world.topic("hole-abort", 1).await, GroupId::from(world.name("group")));
    let proxy = proxy(&world, Protocol::Asked).await;
    let client = client(&proxy).await;
    let mut producer = start_short(&client, &world, "id").await;
    let transaction = producer.begin().await.expect("begins");
    transaction.send(ProducerRecord::to(topic.clone()).value("dropped")).await.expect("is taken");
    while transaction.flush().await.is_err() {}
    proxy.set_path(Path::BlackHole);

    let before = Instant::now();
    let error = transaction.abort().await.expect_err("nobody answers");
    assert!(matches!(error, AbortError::TimedOut { .. }) && before.elapsed() < SOON, "{error}");
    proxy.set_path(Path::Open);
    loop {
        match producer.begin().await {
            Ok(transaction) => {
                assert_eq!(transaction.settled(), Some(Settled::Aborted));
                transaction.send(ProducerRecord::to(topic.clone()).value("kept")).await.expect("is taken");
                match transaction.commit().await {
                    Ok(()) | Err(CommitError::InDoubt { .. }) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            Err(BeginError::TimedOut { .. }) => assert!(before.elapsed() < Duration::from_secs(60)),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(seen(&world, &topic, &group, 1).await.0, ["kept"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_and_positions_into_a_black_hole_give_up_in_time() {
    let world = World::new().await;
    let topic = world.topic("hole-start", 1).await;
    let proxy = proxy(&world, Protocol::Asked).await;
    let client = client(&proxy).await;
    let mut producer = start_short(&client, &world, "id").await;
    let transaction = producer.begin().await.expect("begins");
    transaction.send(ProducerRecord::to(topic.clone()).value("one")).await.expect("is taken");
    while transaction.flush().await.is_err() {}
    proxy.set_path(Path::BlackHole);
    let before = Instant::now();
    let mut positions = Positions::new(GroupMetadata::without_member(GroupId::from(world.name("group"))));
    positions.insert(TopicPartition::new(topic, 0), 1);
    let error = transaction.send_offsets(positions).await.expect_err("nobody answers");
    assert!(matches!(error, SendOffsetsError::TimedOut { .. }), "{error}");
    let other = client.transactional_producer(world.name("other")).max_block(SHORT).start().await;
    let error = other.map(drop).expect_err("nobody answers");
    assert!(matches!(error, StartError::TimedOut { .. }), "{error}");
    assert!(before.elapsed() < SOON, "{:?}", before.elapsed());
}

/// A client of brokers that do not have this request, or not in these versions.
async fn without(world: &World, request: ApiKey) -> Client {
    let proxy = proxy(world, Protocol::Asked).await;
    proxy.change_answers(ApiKey::ApiVersions, move |answer, _| {
        if let AnyResponse::ApiVersions(answer) = answer {
            answer.api_keys.retain(|key| key.api_key != request.to_i16());
        }
    });
    client(&proxy).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_the_broker_does_not_have_is_named_at_once_and_not_tried_until_the_time_is_up() {
    let world = World::new().await;
    let topic = world.topic("without", 1).await;
    world.write(&topic, 0..1).await;
    let group = GroupId::from(world.name("group"));
    let id = world.name("id");
    let before = Instant::now();
    let names = |error: &dyn std::fmt::Display, request: ApiKey| {
        let text = error.to_string();
        assert!(text.contains("UNSUPPORTED_VERSION") && text.contains(request.name()), "{text}");
    };
    for request in [ApiKey::FindCoordinator, ApiKey::InitProducerId] {
        let started = without(&world, request).await.transactional_producer(id.clone()).start().await;
        let error = started.map(drop).expect_err("cannot start");
        // Without a coordinator there is no identity: that is what was wanted.
        names(&error, ApiKey::InitProducerId);
        assert_eq!(error.class(), ErrorClass::InvalidConfiguration);
    }
    for request in [ApiKey::Produce, ApiKey::TxnOffsetCommit, ApiKey::EndTxn] {
        // The new protocol is for brokers that have its versions of all of these.
        let client = without(&world, request).await;
        let mut producer = client.transactional_producer(id.clone()).start().await.expect("starts");
        let error = transaction_of_parts(&mut producer, &topic, &group).await;
        names(&error, request);
    }
    for request in [ApiKey::JoinGroup, ApiKey::Fetch, ApiKey::OffsetFetch, ApiKey::ListOffsets] {
        let consumer = without(&world, request).await.consumer().group(world.name(request.name()));
        let consumer = consumer.auto_offset_reset(atonce_client::OffsetReset::Earliest);
        let mut consumer = if request == ApiKey::JoinGroup {
            consumer.subscribe([topic.clone()]).await.expect("starts")
        } else {
            consumer.assign([committed(&topic)]).await.expect("starts")
        };
        let error = loop {
            match consumer.next_batch().await {
                Ok(_) => assert!(before.elapsed() < Duration::from_secs(60), "nobody says so"),
                Err(error) => break error,
            }
        };
        let text = error.to_string();
        assert!(text.contains(request.name()), "{text}");
    }
    let mut consumer = without(&world, ApiKey::OffsetCommit).await.consumer().group(world.name("OffsetCommit"));
    consumer = consumer.auto_offset_reset(atonce_client::OffsetReset::Earliest);
    let mut consumer = consumer.assign([committed(&topic)]).await.expect("starts");
    let batch = consumer.next_batch().await.expect("reads").expect("is not stopped");
    names(&consumer.commit(batch.positions()).await.expect_err("cannot commit"), ApiKey::OffsetCommit);
    assert!(before.elapsed() < Duration::from_secs(50), "{:?}", before.elapsed());
}

/// Where a group that nobody has to join has got to.
fn committed(topic: &TopicName) -> (TopicPartition, atonce_client::Position) {
    (TopicPartition::new(topic.clone(), 0), atonce_client::Position::Committed)
}

/// The first error of a transaction.
async fn transaction_of_parts(
    producer: &mut TransactionalProducer,
    topic: &TopicName,
    group: &GroupId,
) -> Box<dyn std::error::Error> {
    let transaction = producer.begin().await.expect("begins");
    let delivery = transaction.send(ProducerRecord::to(topic.clone()).value("one")).await.expect("is taken");
    if let Err(error) = delivery.await {
        return error.into();
    }
    let mut positions = Positions::new(GroupMetadata::without_member(group.clone()));
    positions.insert(TopicPartition::new(topic.clone(), 0), 1);
    if let Err(error) = transaction.send_offsets(positions).await {
        return error.into();
    }
    transaction.commit().await.expect_err("something fails").into()
}

// --- what comes late ---

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_is_held_back_does_not_end_the_next_transaction() {
    for protocol in [Protocol::Old, Protocol::Asked] {
        let world = World::new().await;
        let (topic, group) = (world.topic("late-end", 1).await, GroupId::from(world.name("group")));
        let proxy = proxy(&world, protocol).await;
        let client = client(&proxy).await;
        let mut producer = client.transactional_producer(world.name("id")).start().await.expect("starts");
        let held = proxy.next(ApiKey::EndTxn).hold_request();
        // Given up after two seconds, and repeated over another connection.
        transaction(&mut producer, &topic, &group, "a", 1).await.expect("commits");
        assert_eq!(held.count(), 1);
        let next = producer.begin().await.expect("begins");
        next.send(ProducerRecord::to(topic.clone()).partition(0).value("b")).await.expect("is taken");
        next.flush().await.expect("is written");
        held.release();
        // The broker has dealt with the late one when a later question on any connection is answered, but for a moment.
        tokio::time::sleep(Duration::from_millis(100)).await;
        next.abort().await.expect("is not committed by what came late");
        transaction(&mut producer, &topic, &group, "c", 3).await.expect("commits");
        let found = seen(&world, &topic, &group, 2).await;
        assert_eq!(found, (vec!["a".to_owned(), "c".to_owned()], Some(3)), "{protocol:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_is_held_back_until_after_the_abort_opens_nothing_and_joins_nothing() {
    for protocol in [Protocol::Old, Protocol::Asked] {
        let world = World::new().await;
        let (topic, group) = (world.topic("late-record", 1).await, GroupId::from(world.name("group")));
        let proxy = proxy(&world, protocol).await;
        let client = client(&proxy).await;
        let producer = client.transactional_producer(world.name("id")).delivery_timeout(Duration::from_millis(2500));
        let mut producer = producer.start().await.expect("starts");
        let held = proxy.next(ApiKey::Produce).hold_request();
        // Every repetition is lost too: it is given up, and nobody knows whether it is written.
        let lost = proxy.every(ApiKey::Produce).lose_request();
        let first = producer.begin().await.expect("begins");
        let delivery =
            first.send(ProducerRecord::to(topic.clone()).partition(0).value("late")).await.expect("is taken");
        let error = delivery.await.expect_err("is given up");
        assert!(error.may_have_taken_effect(), "{error}");
        first.abort().await.expect("aborts");
        lost.cancel();
        let next = producer.begin().await.expect("begins");
        next.send(ProducerRecord::to(topic.clone()).partition(0).value("b")).await.expect("is taken");
        held.release();
        next.commit().await.expect("commits");
        transaction(&mut producer, &topic, &group, "c", 3).await.expect("commits");
        let found = seen(&world, &topic, &group, 2).await;
        assert_eq!(found, (vec!["b".to_owned(), "c".to_owned()], Some(3)), "{protocol:?}");
    }
}

// --- bad weather ---

#[tokio::test(flavor = "multi_thread")]
async fn reading_processing_and_writing_in_bad_weather_takes_each_record_into_account_once() {
    const CUTS: u64 = 5;
    let world = World::new().await;
    let (input, output) = (world.topic("weather-in", 2).await, world.topic("weather-out", 2).await);
    let mut proxies = Vec::new();
    let mut loops = Vec::new();
    for place in 0..2 {
        let proxy = Proxy::start(&world.servers, 1 + place).await.expect("starts");
        proxy.set_weather(Weather {
            delay_max: Duration::from_millis(3),
            bytes_per_second: Some(2_000_000),
            cut_one_frame_in: 20,
        });
        // Reaching it the first time is not what is tested.
        let client = loop {
            let builder = Client::builder(proxy.bootstrap_servers()).request_timeout(Duration::from_secs(5));
            match builder.retry_backoff(Duration::from_millis(20)).connect().await {
                Ok(client) => break client,
                Err(error) => drop(error),
            }
        };
        let work = client.read_process_write(world.name("loop")).instance(place.to_string()).from([input.clone()]);
        let work = work.consumer(|consumer| consumer.batch_records_max(20));
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
        proxies.push(proxy);
    }
    let writer = world.client.producer().start().await.expect("starts");
    // Until enough has been cut on each way.
    let mut count = 0;
    while count < 100 || proxies.iter().any(|proxy| proxy.cuts() < CUTS) {
        assert!(count < 20_000, "nothing is cut");
        let number = count;
        count += 1;
        let record = ProducerRecord::to(input.clone()).partition(number % 2).value(number.to_string());
        drop(writer.send(record).await.expect("is taken"));
        if number % 10 == 0 {
            writer.flush().await.expect("is written");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    writer.close().await.expect("all is written");
    for partition in 0..2 {
        let places = [(TopicPartition::new(output.clone(), partition), atonce_client::Position::Earliest)];
        let mut reader = world.consumer().assign(places).await.expect("starts");
        let expected: Vec<String> = (partition..count).step_by(2).map(|number| number.to_string()).collect();
        let reading = world::read(&mut reader, expected.len());
        let found = tokio::time::timeout(Duration::from_secs(120), reading).await.expect("all comes");
        assert_eq!(found, expected);
    }
    assert!(loops.iter().all(|it| !it.is_finished()), "nothing of this ends a loop");
}

// --- what brokers say of themselves ---

#[tokio::test(flavor = "multi_thread")]
async fn when_all_known_brokers_are_gone_or_ask_for_it_the_bootstrap_servers_are_asked_again() {
    let world = World::new().await;
    let topic = world.topic("moved", 1).await;
    world.write(&topic, 0..1).await;
    // The bootstrap server by a name, the broker by the address that it tells: two ways to one place.
    let Some(port) = world.servers.strip_prefix("127.0.0.1:") else { return };
    let proxy = Proxy::start(&format!("localhost:{port}"), 1).await.expect("starts");
    let client = client(&proxy).await;
    let ends = || async { client.admin().describe_cluster().await.expect("is answered").brokers.len() };
    assert_eq!(ends().await, 1);

    // They have moved: nothing is to be found at the addresses that the client knows.
    let new = proxy.bootstrap_servers().rsplit_once(':').expect("a port").1.parse::<i32>().expect("a number");
    let told = move |answer: &mut AnyResponse, _: i16| {
        if let AnyResponse::Metadata(answer) = answer {
            answer.brokers.iter_mut().for_each(|broker| broker.port = new);
        }
    };
    proxy.change_answers(ApiKey::Metadata, told);
    proxy.set_path_to(&world.servers, Path::Refused);
    let place = [(TopicPartition::new(topic.clone(), 0), atonce_client::Position::Earliest)];
    let mut reader = client.consumer().assign(place).await.expect("starts");
    let read = tokio::time::timeout(Duration::from_secs(60), world::read(&mut reader, 1)).await;
    assert_eq!(read.expect("finds the broker where it is now"), ["0"]);

    // A broker that is none of this cluster any more says so once (KIP-1102).
    let asked = std::sync::atomic::AtomicBool::new(false);
    proxy.change_answers(ApiKey::Metadata, move |answer, version| {
        if let AnyResponse::Metadata(answer) = answer
            && version >= 13
            && !asked.swap(true, std::sync::atomic::Ordering::Relaxed)
        {
            answer.error_code = 129;
        }
    });
    let described = client.admin().describe_topics(std::slice::from_ref(&topic)).await.expect("is answered");
    assert!(described[&topic].is_ok());
    let producer = client.producer().start().await.expect("starts");
    drop(producer.send(ProducerRecord::to(topic.clone()).value("1")).await.expect("is taken"));
    producer.close().await.expect("is written");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_committed_offset_that_is_refused_for_a_while_is_not_taken_for_none() {
    let world = World::new().await;
    let topic = world.topic("refused-offset", 1).await;
    world.write(&topic, 0..5).await;
    let group = GroupId::from(world.name("group"));
    let place = (TopicPartition::new(topic.clone(), 0), atonce_client::admin::NewOffset::at(3));
    world.client.admin().alter_committed_offsets(&group, &[place]).await.expect("is answered");
    // STALE_MEMBER_EPOCH, UNSTABLE_OFFSET_COMMIT, COORDINATOR_LOAD_IN_PROGRESS.
    for code in [113, 88, 14] {
        let proxy = proxy(&world, Protocol::Asked).await;
        let left = std::sync::atomic::AtomicU32::new(3);
        proxy.change_answers(ApiKey::OffsetFetch, move |answer, _| {
            use std::sync::atomic::Ordering::Relaxed;
            if let AnyResponse::OffsetFetch(answer) = answer
                && left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
            {
                for group in &mut answer.groups {
                    group.error_code = code;
                    group.topics.clear();
                }
            }
        });
        let consumer = client(&proxy).await.consumer().group(group.clone());
        // What a reader that took it for none would begin behind.
        let consumer = consumer.auto_offset_reset(atonce_client::OffsetReset::Latest);
        let mut consumer = consumer.assign([committed(&topic)]).await.expect("starts");
        let before = Instant::now();
        let first = loop {
            // The user may be told; he asks again.
            match consumer.next_batch().await {
                Ok(batch) => {
                    let batch = batch.expect("is not stopped");
                    if let Some(record) = batch.iter().next() {
                        break record.offset;
                    }
                }
                Err(error) => assert!(before.elapsed() < Duration::from_secs(60), "{error}"),
            }
        };
        assert_eq!(first, 3, "after {code}");
        consumer.close().await.expect("leaves");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_of_an_epoch_that_never_was_does_not_stop_its_partition() {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    let world = World::new().await;
    let topic = world.topic("never", 1).await;
    world.write(&topic, 0..3).await;
    let proxy = proxy(&world, Protocol::Asked).await;
    let (left, told) = (AtomicU32::new(2), std::sync::Arc::new(AtomicU32::new(0)));
    let count = std::sync::Arc::clone(&told);
    // NOT_LEADER_OR_FOLLOWER, and a leader from the far future.
    proxy.change_answers(ApiKey::Fetch, move |answer, version| {
        let AnyResponse::Fetch(answer) = answer else { return };
        for partition in answer.responses.iter_mut().flat_map(|topic| &mut topic.partitions) {
            if version >= 12 && left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
                (partition.error_code, partition.records) = (6, None);
                (partition.current_leader.leader_id, partition.current_leader.leader_epoch) = (1, 1_000_000);
                count.fetch_add(1, Relaxed);
            }
        }
    });
    let reader = client(&proxy).await.consumer();
    let mut reader = reader.assign([(TopicPartition::new(topic.clone(), 0), atonce_client::Position::Earliest)]).await;
    let reader = reader.as_mut().expect("starts");
    let values = tokio::time::timeout(Duration::from_secs(60), world::read(reader, 3)).await;
    assert_eq!(values.expect("it is not stopped"), ["0", "1", "2"]);
    assert_eq!(told.load(Relaxed), 2);
}

// --- bytes in flight ---

/// KAFKA-19012: records are given up while they are being written to a slow connection, and others are sent at once. What comes to a topic is what was sent
/// to it.
#[tokio::test(flavor = "multi_thread")]
async fn records_that_time_out_while_they_are_sent_come_to_no_other_topic() {
    const TOPICS: usize = 4;
    let world = World::new().await;
    let proxy = proxy(&world, Protocol::Asked).await;
    let client = client(&proxy).await;
    let mut topics = Vec::new();
    for index in 0..TOPICS {
        topics.push(world.topic(&format!("slow-{index}"), 1).await);
    }
    let producer = client.producer().delivery_timeout(Duration::from_millis(250)).batch_bytes_max(8 * 1024);
    let producer = producer.start().await.expect("starts");
    // All topics are known before it gets slow.
    for topic in &topics {
        producer
            .send(ProducerRecord::to(topic.clone()).value(topic.as_str()))
            .await
            .expect("is taken")
            .await
            .expect("is there");
    }
    proxy.set_weather(Weather { bytes_per_second: Some(60_000), ..Weather::default() });
    let mut given_up = 0;
    let started = Instant::now();
    while given_up < 8 {
        assert!(started.elapsed() < Duration::from_secs(60), "{given_up} given up");
        let mut deliveries = Vec::new();
        for number in 0..48 {
            let topic = &topics[number % TOPICS];
            let value = format!("{topic}/").repeat(4000 / (topic.as_str().len() + 1));
            deliveries.extend(producer.send(ProducerRecord::to(topic.clone()).value(value)).await.ok());
        }
        for delivery in deliveries {
            given_up += usize::from(delivery.await.is_err());
        }
    }
    proxy.set_weather(Weather::default());
    drop(producer);
    for topic in &topics {
        let places = [(TopicPartition::new(topic.clone(), 0), atonce_client::Position::Earliest)];
        let mut reader = world.consumer().assign(places).await.expect("starts");
        let end = world.settled_end(topic).await;
        while reader.position(&TopicPartition::new(topic.clone(), 0)).is_none_or(|position| position < end) {
            for record in reader.next_batch().await.expect("reads").expect("is not stopped") {
                let value = world::text(&record);
                assert!(value.split('/').all(|part| part.is_empty() || part == topic.as_str()), "{topic}: {value}");
            }
        }
    }
}
