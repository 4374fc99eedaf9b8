//! The client against a real broker: Apache Kafka, if `ATONCE_TEST_BOOTSTRAP_SERVERS` says where one is; else our own, in
//! this process.
//!
//! Every test makes topics, groups and transactional ids of its own, so they may run side by side and again.

mod world;

use std::collections::BTreeMap;
use std::time::Duration;

use atonce_client::{
    Client, CommitError, ConsumerError, ConsumerEvent, ErrorClass, GroupId, GroupMetadata, Isolation, NewTopic,
    OffsetSpec, Position, Positions, ProducerRecord, SendOffsetsError, Settled, TopicName, TopicPartition,
    TransactionError,
};
use world::{World, assigned, read, revoking, text, until};

#[tokio::test(flavor = "multi_thread")]
async fn records_are_written_once_and_in_order() {
    let world = World::new().await;
    let topic = world.topic("plain", 3).await;
    let producer = world.client.producer().linger(Duration::from_millis(1)).start().await.expect("starts");
    let mut deliveries = Vec::new();
    for number in 0..10_000 {
        let record = ProducerRecord::to(topic.clone()).partition(number % 3).value(number.to_string());
        deliveries.push((number, producer.send(record).await.expect("is taken")));
    }
    producer.flush().await.expect("all is written");
    for (number, delivery) in deliveries {
        let written = delivery.await.expect("is written");
        assert_eq!(written.offset, Some(i64::from(number / 3)));
        assert_eq!(written.topic_partition.partition, number % 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_compressions_are_taken() {
    use atonce_client::Compression;
    let world = World::new().await;
    let topic = world.topic("compressed", 1).await;
    for compression in [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd]
    {
        let producer = world.client.producer().compression(compression).start().await.expect("starts");
        for number in 0..100 {
            let record =
                ProducerRecord::to(topic.clone()).key("key").value(vec![7; 100]).header("n", number.to_string());
            producer.send(record).await.expect("is taken").await.map(drop).or(Ok::<(), ()>(())).expect("fine");
            if number > 2 {
                break;
            }
        }
        producer.close().await.expect("all is written");
    }
    assert_eq!(world.end(&topic, Isolation::ReadUncommitted).await, 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_is_seen_when_it_is_committed_and_never_when_it_is_aborted() {
    let world = World::new().await;
    let topic = world.topic("transactional", 1).await;
    let mut producer = world.client.transactional_producer(world.name("id")).start().await.expect("starts");

    let transaction = producer.begin().await.expect("begins");
    transaction.send(ProducerRecord::to(topic.clone()).value("one")).await.expect("is taken");
    transaction.flush().await.expect("is written");
    assert_eq!(world.end(&topic, Isolation::ReadCommitted).await, 0);
    assert_eq!(world.end(&topic, Isolation::ReadUncommitted).await, 1);
    transaction.commit().await.expect("commits");
    assert_eq!(world.settled_end(&topic).await, 2, "a record and a marker");

    let transaction = producer.begin().await.expect("begins");
    assert_eq!(transaction.settled(), None);
    transaction.send(ProducerRecord::to(topic.clone()).value("two")).await.expect("is taken");
    transaction.flush().await.expect("is written");
    transaction.abort().await.expect("aborts");
    assert_eq!(world.settled_end(&topic).await, 4);
    assert_eq!((producer.statistics().committed, producer.statistics().aborted), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_small_transactions_follow_each_other() {
    let world = World::new().await;
    let topic = world.topic("small", 1).await;
    let mut producer = world.client.transactional_producer(world.name("id")).start().await.expect("starts");
    for number in 0..100 {
        let transaction = producer.begin().await.expect("begins");
        transaction.send(ProducerRecord::to(topic.clone()).value(number.to_string())).await.expect("is taken");
        transaction.commit().await.expect("commits");
    }
    assert_eq!(world.settled_end(&topic).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_transaction_costs_nothing_and_harms_nothing() {
    let world = World::new().await;
    let topic = world.topic("empty", 1).await;
    let mut producer = world.client.transactional_producer(world.name("id")).start().await.expect("starts");
    producer.begin().await.expect("begins").commit().await.expect("commits");
    producer.begin().await.expect("begins").abort().await.expect("aborts");
    let transaction = producer.begin().await.expect("begins");
    transaction.send(ProducerRecord::to(topic.clone()).value("one")).await.expect("is taken");
    transaction.commit().await.expect("commits");
    assert_eq!(world.settled_end(&topic).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_are_committed_with_the_records_or_not_at_all() {
    let world = World::new().await;
    let (input, output) = (world.topic("input", 1).await, world.topic("output", 1).await);
    let group = GroupId::from(world.name("group"));
    let mut producer = world.client.transactional_producer(world.name("id")).start().await.expect("starts");
    let mut positions = Positions::new(GroupMetadata::without_member(group.clone()));

    positions.insert(TopicPartition::new(input.clone(), 0), 5);
    let transaction = producer.begin().await.expect("begins");
    transaction.send(ProducerRecord::to(output.clone()).value("one")).await.expect("is taken");
    transaction.send_offsets(positions.clone()).await.expect("are taken");
    transaction.commit().await.expect("commits");
    assert_eq!(world.committed(&group, &input).await, Some(5));

    positions.insert(TopicPartition::new(input.clone(), 0), 9);
    let transaction = producer.begin().await.expect("begins");
    transaction.send_offsets(positions).await.expect("are taken");
    transaction.abort().await.expect("aborts");
    assert_eq!(world.committed(&group, &input).await, Some(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_is_dropped_is_aborted_by_the_next() {
    let world = World::new().await;
    let topic = world.topic("dropped", 1).await;
    let mut producer = world.client.transactional_producer(world.name("id")).start().await.expect("starts");
    let transaction = producer.begin().await.expect("begins");
    transaction.send(ProducerRecord::to(topic.clone()).value("lost")).await.expect("is taken");
    transaction.flush().await.expect("is written");
    drop(transaction);
    let transaction = producer.begin().await.expect("begins");
    assert_eq!(transaction.settled(), Some(Settled::Aborted));
    transaction.commit().await.expect("commits");
    assert_eq!(world.settled_end(&topic).await, 2, "the record, and the marker that hides it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_dropped_is_settled_by_the_next_begin() {
    let world = World::new().await;
    let topic = world.topic("dropped-commit", 1).await;
    let mut producer = world.client.transactional_producer(world.name("id")).start().await.expect("starts");
    let transaction = producer.begin().await.expect("begins");
    transaction.send(ProducerRecord::to(topic.clone()).value("kept")).await.expect("is taken");
    // On a machine that is busy elsewhere it may be done before it is given up; then there is nothing to settle.
    let is_done = tokio::time::timeout(Duration::ZERO, transaction.commit()).await.is_ok();
    let transaction = producer.begin().await.expect("begins");
    assert_eq!(transaction.settled(), (!is_done).then_some(Settled::Committed));
    transaction.commit().await.expect("commits");
    assert_eq!(world.settled_end(&topic).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_takes_an_id_over_fences_who_had_it() {
    let world = World::new().await;
    let topic = world.topic("fenced", 1).await;
    let mut zombie = world.client.transactional_producer(world.name("id")).start().await.expect("starts");
    let transaction = zombie.begin().await.expect("begins");
    transaction.send(ProducerRecord::to(topic.clone()).value("zombie")).await.expect("is taken");
    transaction.flush().await.expect("is written");

    let mut heir = world.client.transactional_producer(world.name("id")).start().await.expect("takes over");
    let error = transaction.commit().await.expect_err("is refused");
    assert!(matches!(error, CommitError::NotCommitted(TransactionError::Fenced(_))), "{error}");
    assert_eq!((error.class(), error.may_have_taken_effect()), (ErrorClass::ApplicationRecoverable, false));
    zombie.begin().await.expect_err("stays refused");
    assert_eq!(zombie.statistics().fenced, 1);

    let transaction = heir.begin().await.expect("begins");
    transaction.send(ProducerRecord::to(topic.clone()).value("heir")).await.expect("is taken");
    transaction.commit().await.expect("commits");
    assert_eq!(world.settled_end(&topic).await, 4, "two records, two markers");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zombie_that_writes_is_told_so() {
    let world = World::new().await;
    let topic = world.topic("fenced-send", 1).await;
    let mut zombie = world.client.transactional_producer(world.name("id")).start().await.expect("starts");
    let _heir = world.client.transactional_producer(world.name("id")).start().await.expect("takes over");
    let transaction = zombie.begin().await.expect("begins");
    transaction.send(ProducerRecord::to(topic.clone()).value("zombie")).await.expect("is taken");
    let error = transaction.commit().await.expect_err("is refused");
    assert!(matches!(error, CommitError::NotCommitted(TransactionError::Fenced(_))), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_outlives_its_time_out_is_told_apart_from_a_fence() {
    let world = World::new().await;
    let topic = world.topic("timed-out", 1).await;
    let builder = world.client.transactional_producer(world.name("id"));
    let mut producer = builder.transaction_timeout(Duration::from_millis(500)).start().await.expect("starts");
    let transaction = producer.begin().await.expect("begins");
    transaction.send(ProducerRecord::to(topic.clone()).value("late")).await.expect("is taken");
    transaction.flush().await.expect("is written");
    // The coordinator looks at its transactions now and then.
    let end = world.settled_end(&topic).await;
    assert_eq!(end, 2, "aborted by the coordinator");
    let error = transaction.commit().await.expect_err("is refused");
    assert!(!error.may_have_taken_effect());
    if world.has_old_protocol().await {
        return assert_eq!(error.class(), ErrorClass::ApplicationRecoverable, "{error}");
    }
    assert!(matches!(error, CommitError::NotCommitted(TransactionError::TimedOut(_))), "{error}");
    assert_eq!(error.class(), ErrorClass::Abortable);

    let transaction = producer.begin().await.expect("the same producer goes on");
    transaction.send(ProducerRecord::to(topic.clone()).value("again")).await.expect("is taken");
    transaction.commit().await.expect("commits");
    assert_eq!(world.settled_end(&topic).await, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_after_the_time_out_is_told_apart_from_a_fence() {
    let world = World::new().await;
    let topic = world.topic("timed-out-send", 1).await;
    let builder = world.client.transactional_producer(world.name("id"));
    let mut producer = builder.transaction_timeout(Duration::from_millis(500)).start().await.expect("starts");
    let transaction = producer.begin().await.expect("begins");
    transaction.send(ProducerRecord::to(topic.clone()).value("late")).await.expect("is taken");
    transaction.flush().await.expect("is written");
    world.settled_end(&topic).await;
    transaction.send(ProducerRecord::to(topic.clone()).value("later")).await.expect("is taken");
    let error = transaction.commit().await.expect_err("is refused");
    if world.has_old_protocol().await {
        return assert_eq!(error.class(), ErrorClass::ApplicationRecoverable, "{error}");
    }
    assert!(matches!(error, CommitError::NotCommitted(TransactionError::TimedOut(_))), "{error}");
    producer.begin().await.expect("begins").commit().await.expect("commits");
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_of_an_unknown_member_are_refused_and_the_producer_goes_on() {
    let world = World::new().await;
    let input = world.topic("input", 1).await;
    let mut group = GroupMetadata::without_member(world.name("group"));
    group.generation_id = 3;
    group.member_id = "nobody".into();
    let mut positions = Positions::new(group);
    positions.insert(TopicPartition::new(input.clone(), 0), 5);

    let mut producer = world.client.transactional_producer(world.name("id")).start().await.expect("starts");
    let transaction = producer.begin().await.expect("begins");
    let error = transaction.send_offsets(positions).await.expect_err("are refused");
    assert!(matches!(error, SendOffsetsError::Transaction(TransactionError::CommitFailed(_))), "{error}");
    assert_eq!(error.class(), ErrorClass::Abortable);
    transaction.abort().await.expect("aborts");
    assert_eq!(producer.statistics().fenced, 1);
    producer.begin().await.expect("begins").commit().await.expect("commits");
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_are_made_described_and_deleted() {
    let world = World::new().await;
    let admin = world.client.admin();
    let topic = world.topic("administered", 2).await;
    let again = admin.create_topics(&[NewTopic::new(topic.clone(), 2)]).await.expect("is answered");
    assert!(again[&topic].as_ref().expect_err("is there").is_already_there());
    admin.create_partitions(&topic, 3).await.expect("grows");
    let missing = TopicName::from(world.name("missing"));
    let described = admin.describe_topics(&[topic.clone(), missing.clone()]).await.expect("is answered");
    assert_eq!(described[&topic].as_ref().expect("is there").name, topic);
    assert!(described[&missing].as_ref().expect_err("is not there").is_not_there());
    assert!(admin.list_topics().await.expect("is answered").iter().any(|listing| listing.name == topic));
    let configs = admin.topic_configs(&topic).await.expect("is answered");
    assert!(configs.contains_key("cleanup.policy"), "{configs:?}");
    let cluster = admin.describe_cluster().await.expect("is answered");
    assert!(cluster.features.contains_key("transaction.version"), "{cluster:?}");
    let deleted = admin.delete_topics(&[topic.clone(), missing.clone()]).await.expect("is answered");
    assert_eq!(deleted[&topic], Ok(()));
    assert!(deleted[&missing].as_ref().expect_err("is not there").is_not_there());
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_deleted_up_to_an_offset() {
    let world = World::new().await;
    let topic = world.topic("purged", 1).await;
    let producer = world.client.producer().start().await.expect("starts");
    for _ in 0..10 {
        producer.send(ProducerRecord::to(topic.clone()).value("x")).await.map(drop).expect("is taken");
    }
    producer.close().await.expect("all is written");
    let topic_partition = TopicPartition::new(topic.clone(), 0);
    let admin = world.client.admin();
    let deleted = admin.delete_records(&[(topic_partition.clone(), 4)]).await.expect("is answered");
    assert_eq!(deleted, BTreeMap::from([(topic_partition.clone(), Ok(4))]));
    let specs = [(topic_partition.clone(), OffsetSpec::Earliest)];
    let listed = admin.list_offsets(&specs, Isolation::ReadUncommitted).await.expect("is answered");
    assert_eq!(listed[&topic_partition].offset, Some(4));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_not_there_is_named() {
    let world = World::new().await;
    let producer = world.client.producer().max_block(Duration::from_millis(300)).start().await.expect("starts");
    let error = producer.send(ProducerRecord::to(world.name("missing")).value("x")).await.expect_err("is refused");
    assert_eq!(error.class(), ErrorClass::RefreshRetriable);
    assert!(error.to_string().contains("missing"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_by_assignment_reads_from_where_it_is_told() {
    let world = World::new().await;
    let topic = world.topic("read", 1).await;
    world.write(&topic, 0..10).await;
    let partition = TopicPartition::new(topic.clone(), 0);
    for (position, first) in
        [(Position::Earliest, 0), (Position::Offset(7), 7), (Position::Timestamp(atonce_client::Timestamp(0)), 0)]
    {
        let mut consumer = world.consumer().assign([(partition.clone(), position)]).await.expect("starts");
        let values = read(&mut consumer, 10 - first).await;
        assert_eq!(values, (first..10).map(|value| value.to_string()).collect::<Vec<_>>());
        assert_eq!(consumer.position(&partition), Some(10));
        assert_eq!(consumer.last_seen_end(&partition), Some(10));
    }
    let mut consumer = world.consumer().assign([(partition.clone(), Position::Latest)]).await.expect("starts");
    while consumer.position(&partition).is_none() {
        assert!(consumer.next_event(Duration::from_millis(10)).await.expect("waits").is_none());
    }
    world.write(&topic, 10..11).await;
    assert_eq!(read(&mut consumer, 1).await, ["10"]);
    consumer.seek(&partition, Position::Offset(9)).expect("is assigned");
    assert_eq!(read(&mut consumer, 2).await, ["9", "10"]);
    consumer.pause(std::slice::from_ref(&partition));
    world.write(&topic, 11..12).await;
    assert!(consumer.next_event(Duration::from_millis(300)).await.expect("waits").is_none());
    consumer.resume(std::slice::from_ref(&partition));
    assert_eq!(read(&mut consumer, 1).await, ["11"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn read_committed_hides_what_was_aborted_and_steps_over_markers() {
    let world = World::new().await;
    let topic = world.topic("isolated", 1).await;
    let partition = TopicPartition::new(topic.clone(), 0);
    let mut producer = world.client.transactional_producer(world.name("id")).start().await.expect("starts");
    for number in 0..10 {
        let transaction = producer.begin().await.expect("begins");
        transaction.send(ProducerRecord::to(topic.clone()).value(number.to_string())).await.expect("is taken");
        transaction.flush().await.expect("is written");
        if number % 3 == 0 {
            transaction.abort().await.expect("aborts")
        } else {
            transaction.commit().await.expect("commits")
        }
    }
    assert_eq!(world.settled_end(&topic).await, 20);
    let mut committed = world.consumer().assign([(partition.clone(), Position::Earliest)]).await.expect("starts");
    assert_eq!(read(&mut committed, 6).await, ["1", "2", "4", "5", "7", "8"]);
    while committed.position(&partition) != Some(20) {
        committed.next_event(Duration::from_secs(10)).await.expect("goes on").expect("moves over what nobody sees");
    }
    let all = world.consumer().isolation(Isolation::ReadUncommitted);
    let mut all = all.assign([(partition.clone(), Position::Earliest)]).await.expect("starts");
    assert_eq!(read(&mut all, 10).await.len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_codecs_are_read() {
    use atonce_client::Compression;
    let world = World::new().await;
    let topic = world.topic("codecs", 1).await;
    let codecs = [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
    for compression in codecs {
        let producer = world.client.producer().compression(compression).start().await.expect("starts");
        for number in 0..10 {
            let value = format!("{number} {}", "x".repeat(1000));
            let record =
                ProducerRecord::to(topic.clone()).key("k").value(value).header("h", "1").header("h", None::<&str>);
            drop(producer.send(record).await.expect("is taken"));
        }
        producer.close().await.expect("all is written");
    }
    let partition = TopicPartition::new(topic.clone(), 0);
    let mut consumer = world.consumer().assign([(partition, Position::Earliest)]).await.expect("starts");
    let mut records = Vec::new();
    while records.len() < 50 {
        records.extend(consumer.next_batch().await.expect("reads").expect("is not stopped"));
    }
    for (place, record) in records.iter().enumerate() {
        assert_eq!(record.offset, i64::try_from(place).expect("fits"));
        assert!(text(record).starts_with(&format!("{} x", place % 10)));
        assert_eq!(record.headers.len(), 2, "two headers of one key");
        assert_eq!(record.headers[1].value, None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn read_process_write_takes_each_record_into_account_once() {
    let world = World::new().await;
    let (input, output) = (world.topic("input", 2).await, world.topic("output", 1).await);
    world.write(&input, 0..100).await;
    let group = world.name("group");
    let mut producer = world.client.transactional_producer(world.name("id")).start().await.expect("starts");
    let mut consumer =
        world.consumer().group(group.clone()).batch_records_max(7).subscribe([input.clone()]).await.expect("starts");
    let mut done = 0;
    let mut round = 0;
    while done < 100 {
        let batch = consumer.next_batch().await.expect("reads").expect("is not stopped");
        let transaction = producer.begin().await.expect("begins");
        for record in &batch {
            let copy = ProducerRecord::to(output.clone()).key(record.key()).value(record.value());
            drop(transaction.send(copy).await.expect("is taken"));
        }
        transaction.send_offsets(batch.positions()).await.expect("are taken");
        round += 1;
        if round % 3 == 0 {
            transaction.abort().await.expect("aborts");
            consumer.rewind().await.expect("goes back");
        } else {
            transaction.commit().await.expect("commits");
            done += batch.len();
        }
    }
    consumer.close().await.expect("leaves");
    let mut check =
        world.consumer().assign([(TopicPartition::new(output, 0), Position::Earliest)]).await.expect("starts");
    let mut values: Vec<i32> =
        read(&mut check, 100).await.iter().map(|value| value.parse().expect("a number")).collect();
    values.sort_unstable();
    assert_eq!(values, (0..100).collect::<Vec<_>>());
    assert!(check.next_event(Duration::from_millis(300)).await.expect("waits").is_none_or(|event| match event {
        ConsumerEvent::Batch(batch) => batch.is_empty(),
        ConsumerEvent::Assigned(..) | ConsumerEvent::Revoking(_) | ConsumerEvent::Lost(_) => false,
    }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_member_gets_its_share_after_the_first_had_the_chance_to_commit() {
    let world = World::new().await;
    let topic = world.topic("shared", 2).await;
    world.write(&topic, 0..20).await;
    let group = world.name("group");
    let builder = || world.consumer().group(group.clone()).heartbeat_interval(Duration::from_millis(100));
    let mut first = builder().subscribe([topic.clone()]).await.expect("starts");
    assert_eq!(until(&mut first, assigned).await.len(), 2);
    assert_eq!(read(&mut first, 20).await.len(), 20);

    let mut second = builder().subscribe([topic.clone()]).await.expect("starts");
    let joining = tokio::spawn(async move {
        let partitions = until(&mut second, assigned).await;
        (second, partitions)
    });
    let revoked = until(&mut first, revoking).await;
    assert_eq!(revoked.len(), 2);
    // The group waits for this member, which commits first.
    first.commit(first.positions()).await.expect("may commit while it is being revoked");
    let mine = until(&mut first, assigned).await;
    let (mut second, others) = joining.await.expect("joins");
    assert_eq!((mine.len(), others.len()), (1, 1));
    assert_ne!(mine, others);
    assert!(second.next_event(Duration::from_millis(300)).await.expect("waits").is_none(), "all was committed");

    second.close().await.expect("leaves");
    until(&mut first, revoking).await;
    assert_eq!(until(&mut first, assigned).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zombie_member_cannot_commit_in_a_transaction_and_rejoins() {
    let world = World::new().await;
    let topic = world.topic("stale", 1).await;
    world.write(&topic, 0..5).await;
    let group = world.name("group");
    let builder = || world.consumer().group(group.clone()).heartbeat_interval(Duration::from_millis(100));
    let mut first = builder().subscribe([topic.clone()]).await.expect("starts");
    let batch = first.next_batch().await.expect("reads").expect("is not stopped");
    let stale = batch.positions();
    // A rebalance: the generation rises.
    first.enforce_rebalance();
    until(&mut first, assigned).await;

    let mut producer = world.client.transactional_producer(world.name("id")).start().await.expect("starts");
    let transaction = producer.begin().await.expect("begins");
    let error = transaction.send_offsets(stale.clone()).await.expect_err("are refused");
    assert!(matches!(error, SendOffsetsError::Transaction(TransactionError::CommitFailed(_))), "{error}");
    transaction.abort().await.expect("aborts");

    let error = first.commit(stale).await.expect_err("is refused");
    assert!(matches!(error, ConsumerError::CommitFailed(_)), "{error}");
    assert_eq!(read(&mut first, 5).await.len(), 5, "and it is read again");
    let transaction = producer.begin().await.expect("begins");
    transaction.send_offsets(first.positions()).await.expect("are taken");
    transaction.commit().await.expect("commits");
    assert_eq!(world.committed(&GroupId::from(group), &topic).await, Some(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_static_member_that_is_replaced_is_told_so() {
    let world = World::new().await;
    let topic = world.topic("static", 1).await;
    world.write(&topic, 0..3).await;
    let group = world.name("group");
    let builder = || {
        let builder = world.consumer().group(group.clone()).instance_id("instance-1");
        builder.heartbeat_interval(Duration::from_millis(100))
    };
    let mut zombie = builder().subscribe([topic.clone()]).await.expect("starts");
    let batch = zombie.next_batch().await.expect("reads").expect("is not stopped");
    let mut heir = builder().subscribe([topic.clone()]).await.expect("starts");
    assert_eq!(until(&mut heir, assigned).await.len(), 1, "at once, without waiting for a session to end");

    let mut producer = world.client.transactional_producer(world.name("id")).start().await.expect("starts");
    let transaction = producer.begin().await.expect("begins");
    let error = transaction.send_offsets(batch.positions()).await.expect_err("are refused");
    assert!(matches!(error, SendOffsetsError::Transaction(TransactionError::CommitFailed(_))), "{error}");
    assert!(error.to_string().contains("FENCED_INSTANCE_ID"), "{error}");
    transaction.abort().await.expect("aborts");
    let error = loop {
        match zombie.next_event(Duration::from_secs(30)).await {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ConsumerError::Fenced(_)), "{error}");
    assert_eq!(read(&mut heir, 3).await.len(), 3);
    heir.close_and_leave().await.expect("leaves");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_static_member_that_comes_back_rejoins_at_once() {
    let world = World::new().await;
    let topic = world.topic("returning", 1).await;
    world.write(&topic, 0..3).await;
    let builder = || world.consumer().group(world.name("group")).instance_id("instance-1");
    let mut member = builder().subscribe([topic.clone()]).await.expect("starts");
    until(&mut member, assigned).await;
    member.close().await.expect("ends, and stays in the group");
    let mut member = builder().subscribe([topic.clone()]).await.expect("starts");
    assert_eq!(until(&mut member, assigned).await.len(), 1);
    assert_eq!(read(&mut member, 3).await.len(), 3);
    let group = GroupId::from(world.name("group"));
    let removed = world.client.admin().remove_group_members(&group, &["instance-1".into(), "nobody".into()]).await;
    let removed = removed.expect("is answered");
    assert_eq!(removed[&atonce_client::GroupInstanceId::from("instance-1")], Ok(()));
    assert!(
        removed[&atonce_client::GroupInstanceId::from("nobody")].as_ref().expect_err("is not there").is_not_there()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_stays_away_loses_the_partitions_and_gets_them_back() {
    let world = World::new().await;
    let topic = world.topic("away", 1).await;
    world.write(&topic, 0..3).await;
    let builder = world.consumer().group(world.name("group")).max_poll_interval(Duration::from_millis(500));
    let mut member = builder.subscribe([topic.clone()]).await.expect("starts");
    let batch = member.next_batch().await.expect("reads").expect("is not stopped");
    let generation = member.group_metadata().expect("has a group").generation_id;
    // Without a call: the client leaves by itself.
    while member.group_metadata().expect("has a group").generation_id == generation {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let error = member.commit(batch.positions()).await.expect_err("is refused");
    assert!(matches!(error, ConsumerError::CommitFailed(_)), "{error}");
    let lost = until(&mut member, |event| match event {
        ConsumerEvent::Lost(partitions) => Some(partitions),
        ConsumerEvent::Batch(_) | ConsumerEvent::Assigned(..) | ConsumerEvent::Revoking(_) => None,
    });
    assert_eq!(lost.await, [TopicPartition::new(topic.clone(), 0)]);
    assert_eq!(read(&mut member, 3).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_consumer_ends_its_loop() {
    let world = World::new().await;
    let topic = world.topic("stopped", 1).await;
    let partition = TopicPartition::new(topic, 0);
    let mut consumer = world.consumer().assign([(partition, Position::Earliest)]).await.expect("starts");
    let stopper = consumer.stopper();
    let reading = tokio::spawn(async move { consumer.next_batch().await });
    stopper.stop();
    assert!(reading.await.expect("ends").expect("without error").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_that_a_transaction_is_about_to_commit_are_waited_for() {
    let world = World::new().await;
    let topic = world.topic("pending", 1).await;
    world.write(&topic, 0..10).await;
    let group = world.name("group");
    let mut producer = world.client.transactional_producer(world.name("id")).start().await.expect("starts");
    let transaction = producer.begin().await.expect("begins");
    let mut positions = Positions::new(GroupMetadata::without_member(group.clone()));
    positions.insert(TopicPartition::new(topic.clone(), 0), 6);
    transaction.send_offsets(positions).await.expect("are taken");
    let partition = TopicPartition::new(topic.clone(), 0);
    let mut consumer = world.consumer().group(group).assign([(partition, Position::Committed)]).await.expect("starts");
    assert!(consumer.next_event(Duration::from_millis(300)).await.expect("waits").is_none());
    transaction.commit().await.expect("commits");
    assert_eq!(read(&mut consumer, 4).await, ["6", "7", "8", "9"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_made_after_its_reader_is_found() {
    let world = World::new().await;
    let name = world.name("later");
    let builder = world.consumer().group(world.name("group")).heartbeat_interval(Duration::from_millis(100));
    let mut consumer = builder.subscribe([name.clone()]).await.expect("starts");
    assert_eq!(until(&mut consumer, assigned).await, []);
    let created = world.client.admin().create_topics(&[NewTopic::new(name.clone(), 1)]).await.expect("is answered");
    assert!(created.values().all(Result::is_ok));
    let topic = TopicName::from(name);
    world.write(&topic, 0..3).await;
    assert_eq!(read(&mut consumer, 3).await, ["0", "1", "2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_time_out_above_the_brokers_maximum_is_named() {
    let world = World::new().await;
    let builder = world.client.transactional_producer(world.name("id"));
    let error = builder.transaction_timeout(Duration::from_secs(100_000)).start().await.expect_err("is refused");
    assert!(error.to_string().contains("100000s"), "{error}");
    assert_eq!(error.class(), ErrorClass::InvalidConfiguration);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_assignor_that_panics_ends_its_consumer_and_nobody_waits_for_ever() {
    struct Broken;

    impl atonce_client::Assignor for Broken {
        fn name(&self) -> &str {
            "broken"
        }

        fn assign(
            &self,
            _: &atonce_client::ClusterTopics,
            _: &[atonce_client::MemberSubscription],
        ) -> Vec<atonce_client::MemberAssignment> {
            panic!("this assignor is broken")
        }
    }

    let world = World::new().await;
    let topic = world.topic("broken", 1).await;
    let builder = world.consumer().group(world.name("group")).assignor(std::sync::Arc::new(Broken));
    let mut consumer = builder.subscribe([topic]).await.expect("starts");
    let error = consumer.next_batch().await.expect_err("has ended");
    assert_eq!(error, ConsumerError::Closed);
}

/// Every future can be spawned: none holds what cannot move between threads.
#[tokio::test]
async fn futures_can_be_spawned() {
    fn spawnable<T: Send + 'static>(_: impl Future<Output = T> + Send) {}

    let world = World::new().await;
    let topic = world.topic("spawned", 1).await;
    let (admin, group) = (world.client.admin(), GroupId::from("g"));
    let partition = TopicPartition::new(topic.clone(), 0);
    spawnable(Client::builder("localhost:1").connect());
    spawnable(admin.create_topics(&[]));
    spawnable(admin.delete_topics(&[]));
    spawnable(admin.list_topics());
    spawnable(admin.describe_topics(&[]));
    spawnable(admin.create_partitions(&topic, 1));
    spawnable(admin.topic_configs(&topic));
    spawnable(admin.list_offsets(&[], Isolation::ReadCommitted));
    spawnable(admin.committed_offsets(&group, &[], true));
    spawnable(admin.delete_records(&[]));
    spawnable(admin.describe_cluster());
    spawnable(admin.remove_group_members(&group, &[]));
    spawnable(admin.delete_groups(&[]));
    let producer = world.client.producer().start().await.expect("starts");
    spawnable(producer.send(ProducerRecord::to(topic.clone())));
    spawnable(producer.flush());
    spawnable(producer.close());
    let mut producer = world.client.transactional_producer(world.name("id")).start().await.expect("starts");
    spawnable(producer.settle());
    {
        let transaction = producer.begin().await.expect("begins");
        spawnable(transaction.send_offsets(Positions::new(GroupMetadata::without_member("g"))));
        spawnable(transaction.flush());
        spawnable(transaction.commit());
    }
    spawnable(producer.begin_owned());
    let mut consumer =
        world.consumer().group("g").assign([(partition.clone(), Position::Earliest)]).await.expect("starts");
    spawnable(consumer.next_batch());
    spawnable(consumer.next_event(Duration::ZERO));
    spawnable(consumer.rewind());
    spawnable(consumer.commit(Positions::new(GroupMetadata::without_member("g"))));
    spawnable(consumer.end_offsets(&[]));
    spawnable(consumer.close());
}
