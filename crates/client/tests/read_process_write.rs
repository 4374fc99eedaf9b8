//! The loop as one call: whatever happens to it, each input's output is committed once, and in order. On Apache Kafka if
//! `ATONCE_TEST_BOOTSTRAP_SERVERS` says where one is, else on our own broker in this process.

mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use atonce_broker::{Broker, Durability};
use atonce_client::{
    Batch, Client, ConsumerError, ConsumerRecord, CooperativeStickyAssignor, ErrorClass, GroupId, GroupProtocol,
    NewTopic, OffsetReset, Output, Position, ProcessError, ProducerRecord, ReadProcessWrite, RunError, SendError,
    TopicName, TopicPartition,
};
use atonce_kernel::chance::Chance;
use tokio::sync::oneshot;
use world::World;

const PARTITIONS: i32 = 3;

fn number(record: &ConsumerRecord) -> u32 {
    std::str::from_utf8(&record.value().expect("has a value")).expect("is text").parse().expect("is a number")
}

/// Copies a batch, partition to partition.
async fn copy(batch: Batch, output: Output, to: TopicName) -> Result<(), ProcessError> {
    for record in batch {
        output.send(ProducerRecord::to(to.clone()).partition(record.partition()).value(record.value())).await?;
    }
    Ok(())
}

async fn write_numbers(client: &Client, topic: &TopicName, count: u32) {
    let producer = client.producer().start().await.expect("starts");
    for number in 0..count {
        let partition = i32::try_from(number).expect("fits") % PARTITIONS;
        let record = ProducerRecord::to(topic.clone()).partition(partition).value(number.to_string());
        drop(producer.send(record).await.expect("is taken"));
    }
    producer.close().await.expect("all is written");
}

/// Waits for `count` committed records, and checks that they are the input's, in order, and no more.
async fn check_copy(client: &Client, topic: &TopicName, count: u32) {
    let places = (0..PARTITIONS).map(|partition| (TopicPartition::new(topic.clone(), partition), Position::Earliest));
    let mut reader = client.consumer().read_committed().assign(places).await.expect("starts");
    let mut values = vec![Vec::new(); usize::try_from(PARTITIONS).expect("fits")];
    let reading = async {
        while values.iter().map(Vec::len).sum::<usize>() < count as usize {
            let batch = reader.next_batch().await.expect("reads").expect("is not stopped");
            for record in &batch {
                values[usize::try_from(record.partition()).expect("fits")].push(number(record));
            }
        }
    };
    let is_done = tokio::time::timeout(Duration::from_secs(90), reading).await;
    let found: usize = values.iter().map(Vec::len).sum();
    is_done.unwrap_or_else(|_| panic!("{found} of {count} after 90 s"));
    for (partition, found) in (0_u32..).zip(&values) {
        let step = usize::try_from(PARTITIONS).expect("fits");
        assert_eq!(*found, (partition..count).step_by(step).collect::<Vec<_>>(), "partition {partition}");
    }
}

fn quick(work: ReadProcessWrite) -> ReadProcessWrite {
    work.consumer(|consumer| {
        let consumer = consumer.heartbeat_interval(Duration::from_millis(100)).batch_records_max(20);
        consumer.session_timeout(Duration::from_secs(6))
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_fails_now_and_then_counts_once() {
    let world = World::new().await;
    let (input, output) = (world.topic("in", PARTITIONS).await, world.topic("out", PARTITIONS).await);
    write_numbers(&world.client, &input, 600).await;
    let (calls, to) = (Arc::new(AtomicU32::new(0)), output.clone());
    let counter = Arc::clone(&calls);
    let work = quick(world.client.read_process_write(world.name("loop"))).from([input]).attempts_max(3);
    let running = tokio::spawn(work.run(move |batch, output| {
        let (call, to) = (counter.fetch_add(1, Ordering::Relaxed), to.clone());
        async move {
            copy(batch, output, to).await?;
            // What it has sent by now is never seen.
            if call % 5 == 3 { Err("the fifth".into()) } else { Ok(()) }
        }
    }));
    check_copy(&world.client, &output, 600).await;
    assert!(!running.is_finished());
    running.abort();
    assert!(calls.load(Ordering::Relaxed) > 30);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_fails_too_often_ends_the_loop_with_its_error() {
    let world = World::new().await;
    let (input, output) = (world.topic("in", PARTITIONS).await, world.topic("out", PARTITIONS).await);
    write_numbers(&world.client, &input, 1).await;
    let to = output.clone();
    let work = world.client.read_process_write(world.name("loop")).from([input.clone()]).attempts_max(2);
    let (kept, calls) = (Arc::new(std::sync::Mutex::new(None)), Arc::new(AtomicU32::new(0)));
    let (keep, counter) = (Arc::clone(&kept), Arc::clone(&calls));
    let ended = work.run(move |batch, output| {
        counter.fetch_add(1, Ordering::Relaxed);
        *keep.lock().expect("is not poisoned") = Some(output.clone());
        let to = to.clone();
        async move {
            copy(batch, output, to).await?;
            Err("it is Sunday".into())
        }
    });
    let error = ended.await.expect_err("has failed");
    assert!(matches!(&error, RunError::Process(cause) if cause.to_string() == "it is Sunday"), "{error}");
    assert_eq!((error.class(), calls.load(Ordering::Relaxed)), (ErrorClass::ApplicationRecoverable, 2));
    // An output that outlives its batch writes nothing.
    let late = kept.lock().expect("is not poisoned").take().expect("was kept");
    let refused = late.send(ProducerRecord::to(output.clone()).partition(0).value("7")).await;
    assert!(matches!(refused, Err(SendError::Closed)), "{refused:?}");
    // Nothing was committed: the next loop begins at the beginning.
    let to = output.clone();
    let work = world.client.read_process_write(world.name("loop")).from([input]);
    let running = tokio::spawn(work.run(move |batch, output| copy(batch, output, to.clone())));
    check_copy(&world.client, &output, 1).await;
    running.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_that_is_used_in_another_batch_is_refused() {
    let world = World::new().await;
    let (input, output) = (world.topic("in", PARTITIONS).await, world.topic("out", PARTITIONS).await);
    write_numbers(&world.client, &input, 30).await;
    let (to, mut first) = (output.clone(), None::<Output>);
    let work = quick(world.client.read_process_write(world.name("loop"))).consumer(|it| it.batch_records_max(5));
    let running = tokio::spawn(work.from([input]).run(move |batch, output| {
        let (to, stale) = (to.clone(), first.clone());
        first.get_or_insert(output.clone());
        async move {
            if let Some(stale) = stale {
                let refused = stale.send(ProducerRecord::to(to.clone()).partition(0).value("7")).await;
                assert!(matches!(refused, Err(SendError::Closed)), "{refused:?}");
            }
            copy(batch, output, to).await
        }
    }));
    check_copy(&world.client, &output, 30).await;
    assert!(!running.is_finished());
    running.abort();
}

/// Whatever the group's protocol, loops come and go, and some batches outlive their transaction. `may_be_killed`: a classic
/// group knows a static member that comes back, one of KIP-848 only once its former session has ended.
async fn check_comings_and_goings(may_be_killed: bool, kind: fn(ReadProcessWrite) -> ReadProcessWrite) {
    let world = World::new().await;
    let (input, output) = (world.topic("in", PARTITIONS).await, world.topic("out", PARTITIONS).await);
    write_numbers(&world.client, &input, 6_000).await;
    let (name, done) = (world.name("loop"), Arc::new(AtomicBool::new(false)));
    let mut workers = tokio::task::JoinSet::new();
    let chance = Chance::from_seed(3);
    for place in 0..3_u64 {
        let (client, name, input, to) = (world.client.clone(), name.clone(), input.clone(), output.clone());
        let (done, mut chance) = (Arc::clone(&done), chance.derive(place));
        workers.spawn(async move {
            while !done.load(Ordering::Relaxed) {
                let work = kind(quick(client.read_process_write(name.clone())));
                let work = work.instance(place.to_string()).from([input.clone()]);
                let work = work.producer(|it| it.transaction_timeout(Duration::from_secs(2)));
                let (to, mut slow) = (to.clone(), chance.derive(7));
                let process = move |batch, output| {
                    let (to, is_slow) = (to.clone(), slow.one_in(1, 150));
                    async move {
                        copy(batch, output, to).await?;
                        tokio::time::sleep(Duration::from_millis(if is_slow { 3500 } else { 5 })).await;
                        Ok(())
                    }
                };
                let life = Duration::from_millis(300 + chance.below(1000));
                let ended = if !may_be_killed || chance.one_in(1, 2) {
                    work.run_until(tokio::time::sleep(life), process).await
                } else {
                    // As if it were killed: it comes back under its name.
                    tokio::time::timeout(life, work.run(process)).await.unwrap_or(Ok(()))
                };
                ended.expect("nothing of this ends a loop");
            }
        });
    }
    check_copy(&world.client, &output, 6_000).await;
    done.store(true, Ordering::Relaxed);
    while let Some(worker) = workers.join_next().await {
        worker.expect("no worker fails");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn loops_that_come_and_go_take_each_record_into_account_once() {
    check_comings_and_goings(true, |work| work).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn loops_of_a_cooperative_group_take_each_record_into_account_once() {
    check_comings_and_goings(true, |work| work.consumer(|it| it.assignor(Arc::new(CooperativeStickyAssignor)))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn loops_of_a_consumer_group_take_each_record_into_account_once() {
    let world = World::new().await;
    let cluster = world.client.admin().describe_cluster().await.expect("is answered");
    if cluster.features.get("group.version").copied().unwrap_or(0) >= 1 {
        check_comings_and_goings(false, |work| work.consumer(|it| it.group_protocol(GroupProtocol::Consumer))).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_later_of_two_under_one_name_stops_the_earlier() {
    let world = World::new().await;
    let (input, output) = (world.topic("in", PARTITIONS).await, world.topic("out", PARTITIONS).await);
    write_numbers(&world.client, &input, 300).await;
    let (has_begun, begun) = oneshot::channel();
    let mut has_begun = Some(has_begun);
    let work = || quick(world.client.read_process_write(world.name("loop"))).instance("1").from([input.clone()]);
    let to = output.clone();
    let earlier = tokio::spawn(work().run(move |batch, output| {
        if let Some(has_begun) = has_begun.take() {
            let _ = has_begun.send(());
        }
        let to = to.clone();
        async move {
            copy(batch, output, to).await?;
            tokio::time::sleep(Duration::from_millis(200)).await;
            Ok(())
        }
    }));
    begun.await.expect("begins");
    let to = output.clone();
    let later = tokio::spawn(work().run(move |batch, output| copy(batch, output, to.clone())));
    let error = earlier.await.expect("does not panic").expect_err("is stopped");
    assert!(matches!(error, RunError::Fenced(_) | RunError::Consumer(ConsumerError::Fenced(_))), "{error}");
    check_copy(&world.client, &output, 300).await;
    assert!(!later.is_finished());
    later.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_whose_broker_is_killed_again_and_again_takes_each_record_into_account_once() {
    let broker = Broker::builder().temporary().durability(Durability::Os);
    let broker = broker.property("group.initial.rebalance.delay.ms", "0").start().await.expect("starts");
    let client = Client::builder(broker.bootstrap_servers()).request_timeout(Duration::from_secs(5));
    let client = client.connect().await.expect("is there");
    let (input, output) = (TopicName::from("in"), TopicName::from("out"));
    let topics = [NewTopic::new(input.clone(), PARTITIONS), NewTopic::new(output.clone(), PARTITIONS)];
    assert!(client.admin().create_topics(&topics).await.expect("is answered").values().all(Result::is_ok));
    write_numbers(&client, &input, 6_000).await;
    let to = output.clone();
    let work = quick(client.read_process_write("loop")).instance("1").from([input]);
    let running = tokio::spawn(work.run(move |batch, output| {
        let to = to.clone();
        async move {
            copy(batch, output, to).await?;
            tokio::time::sleep(Duration::from_millis(3)).await;
            Ok(())
        }
    }));
    for crash in 0..6 {
        tokio::time::sleep(Duration::from_millis(200 + 37 * crash)).await;
        broker.crash().await.expect("crashes");
        tokio::time::sleep(Duration::from_millis(20 * crash)).await;
        broker.restart().await.expect("comes back");
    }
    check_copy(&client, &output, 6_000).await;
    assert!(!running.is_finished(), "{:?}", running.await);
    running.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_begins_where_it_is_told_and_leaves_when_it_is_told() {
    let world = World::new().await;
    let (input, output) = (world.topic("in", PARTITIONS).await, world.topic("out", PARTITIONS).await);
    write_numbers(&world.client, &input, 3).await;
    let (stop, stopped) = oneshot::channel::<()>();
    let work = quick(world.client.read_process_write(world.name("loop"))).from([input.clone()]);
    let work = work.consumer(|consumer| consumer.auto_offset_reset(OffsetReset::Earliest));
    let to = output.clone();
    let shutdown = async { drop(stopped.await) };
    let running = tokio::spawn(work.run_until(shutdown, move |batch, output| copy(batch, output, to.clone())));
    check_copy(&world.client, &output, 3).await;
    stop.send(()).expect("it runs");
    running.await.expect("does not panic").expect("ends well");
    let group = GroupId::from(world.name("loop"));
    let described = world.client.admin().describe_groups(std::slice::from_ref(&group)).await.expect("is answered");
    let described = described[&group].as_ref().expect("is there");
    assert!(described.members.is_empty(), "{described:?}");
}
