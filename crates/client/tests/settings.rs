//! What users set has its effect: partitioners, automatic commits, reset policies, streams; what is counted is true. On
//! Apache Kafka if `ATONCE_TEST_BOOTSTRAP_SERVERS` says where one is, else on our own broker in this process.

mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use atonce_client::{
    BatchStream, Client, Compression, ConsumerError, ErrorClass, GroupId, NewTopic, OffsetReset, Partitioner, Position,
    ProducerRecord, RunError, SendOffsetsError, TopicName, TopicPartition,
};
use futures_core::Stream;
use world::{World, assigned, read, text, until};

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    i64::try_from(now.as_millis()).expect("fits")
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_go_where_kafkas_own_clients_send_them_and_a_partitioner_of_ones_own_where_it_says() {
    struct ByLength;
    impl Partitioner for ByLength {
        fn partition(&self, _: &TopicName, key: Option<&[u8]>, _: Option<&[u8]>, partitions: i32) -> Option<i32> {
            key.map(|key| i32::try_from(key.len()).unwrap_or(0) % partitions)
        }
    }
    let world = World::new().await;
    let topic = world.topic("keys", 10).await;
    let producer = world.client.producer().start().await.expect("starts");
    // murmur2 of these keys, without the sign, over ten partitions.
    for (key, partition) in [("21", 0), ("foobar", 6), ("a-little-bit-long-string", 2), ("abc", 7)] {
        let written = producer.send(ProducerRecord::to(topic.clone()).key(key).value("x")).await.expect("is taken");
        assert_eq!(written.await.expect("is written").topic_partition.partition, partition, "{key}");
    }
    let own = world.client.producer().partitioner(Arc::new(ByLength)).start().await.expect("starts");
    for key in ["", "a", "abc", "twelve chars"] {
        let written = own.send(ProducerRecord::to(topic.clone()).key(key).value("x")).await.expect("is taken");
        let partition = i32::try_from(key.len()).expect("fits") % 10;
        assert_eq!(written.await.expect("is written").topic_partition.partition, partition, "{key}");
    }
    let record = ProducerRecord::to(topic.clone()).key("abc").partition(9).value("x");
    let written = own.send(record).await.expect("is taken").await.expect("is written");
    assert_eq!(written.topic_partition.partition, 9, "what the record says comes first");
}

#[tokio::test(flavor = "multi_thread")]
async fn records_without_a_key_fill_a_batch_before_they_go_elsewhere() {
    let world = World::new().await;
    let topic = world.topic("keyless", 4).await;
    let producer = world.client.producer().batch_bytes_max(1000).linger(Duration::from_millis(50));
    let producer = producer.start().await.expect("starts");
    let mut partitions = Vec::new();
    let mut deliveries = Vec::new();
    for _ in 0..200 {
        let record = ProducerRecord::to(topic.clone()).value(vec![7; 90]);
        deliveries.push(producer.send(record).await.expect("is taken"));
    }
    for delivery in deliveries {
        partitions.push(delivery.await.expect("is written").topic_partition.partition);
    }
    let changes = partitions.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!((10..=40).contains(&changes), "about ten records to a batch: {changes} changes");
    assert_eq!(partitions.iter().collect::<BTreeSet<_>>().len(), 4, "all partitions get some");
}

#[tokio::test(flavor = "multi_thread")]
async fn positions_are_committed_automatically_only_if_asked_for_and_never_into_transactions() {
    let world = World::new().await;
    let topic = world.topic("auto", 1).await;
    world.write(&topic, 0..5).await;
    let group = GroupId::from(world.name("group"));
    let member = || world.consumer().group(group.clone());
    let mut consumer = member().subscribe([topic.clone()]).await.expect("starts");
    assert_eq!(read(&mut consumer, 5).await.len(), 5);
    consumer.close().await.expect("leaves");
    assert_eq!(world.committed(&group, &topic).await, None, "nobody asked for it");

    let mut consumer = member().auto_commit(Duration::ZERO).subscribe([topic.clone()]).await.expect("starts");
    let batch = consumer.next_batch().await.expect("reads").expect("is not stopped");
    assert_eq!(world.committed(&group, &topic).await, None, "it may not be processed yet");
    let mut producer = world.client.transactional_producer(world.name("id")).start().await.expect("starts");
    let transaction = producer.begin().await.expect("begins");
    let refused = transaction.send_offsets(batch.positions()).await.expect_err("would be committed twice");
    assert_eq!(refused, SendOffsetsError::AutoCommitted);
    assert_eq!(refused.class(), ErrorClass::InvalidConfiguration);
    transaction.abort().await.expect("aborts");
    drop(consumer.next_event(Duration::from_millis(10)).await.expect("goes on"));
    let after = batch.positions().offset(&TopicPartition::new(topic.clone(), 0));
    assert_eq!(world.committed(&group, &topic).await, after, "the next call says that it is processed");
    consumer.close().await.expect("leaves");
    assert_eq!(world.committed(&group, &topic).await, Some(5));

    let work = world.client.read_process_write(world.name("loop")).from([topic]);
    let work = work.consumer(|consumer| consumer.auto_commit(Duration::from_secs(1)));
    let refused = work.run(|_, _| async { Ok(()) }).await.expect_err("cannot be");
    assert!(matches!(refused, RunError::SendOffsets(SendOffsetsError::AutoCommitted)), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_begins_where_the_policy_says() {
    let world = World::new().await;
    let topic = world.topic("reset", 1).await;
    let producer = world.client.producer().start().await.expect("starts");
    let hour = 60 * 60 * 1000;
    for (value, age) in [("old", 3 * hour), ("middle", hour), ("young", 0)] {
        let record = ProducerRecord::to(topic.clone()).value(value).timestamp(now_ms() - age);
        drop(producer.send(record).await.expect("is taken").await.expect("is written"));
    }
    let begins = |reset| {
        let (world, topic) = (&world, topic.clone());
        async move {
            let group = world.name(&format!("group-{reset:?}"));
            let builder = world.consumer().group(group).auto_offset_reset(reset);
            let mut consumer = builder.subscribe([topic]).await.expect("starts");
            read(&mut consumer, 1).await
        }
    };
    assert_eq!(begins(OffsetReset::Earliest).await[0], "old");
    assert_eq!(begins(OffsetReset::Ago(Duration::from_secs(2 * 60 * 60))).await[0], "middle");
    assert_eq!(begins(OffsetReset::Ago(Duration::from_secs(30 * 60))).await[0], "young");

    let builder = world.consumer().group(world.name("no-group")).auto_offset_reset(OffsetReset::Fail);
    let mut consumer = builder.subscribe([topic.clone()]).await.expect("starts");
    let error = consumer.next_batch().await.expect_err("there is no place to begin");
    assert!(matches!(error, ConsumerError::NoOffset { .. }), "{error}");

    let partition = TopicPartition::new(topic, 0);
    let mut consumer = world.consumer().assign([(partition.clone(), Position::Latest)]).await.expect("starts");
    consumer.seek(&partition, Position::Ago(Duration::from_secs(90 * 60))).expect("is assigned");
    assert_eq!(read(&mut consumer, 1).await[0], "middle");
    consumer.seek(&partition, Position::Timestamp(atonce_client::Timestamp(now_ms() + hour))).expect("is assigned");
    assert!(consumer.next_event(Duration::from_millis(300)).await.expect("goes on").is_none(), "none is that young");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lag_is_what_lies_between_and_falls_to_zero_over_markers() {
    let world = World::new().await;
    let topic = world.topic("lag", 1).await;
    let mut producer = world.client.transactional_producer(world.name("id")).start().await.expect("starts");
    for value in 0..3 {
        let transaction = producer.begin().await.expect("begins");
        drop(transaction.send(ProducerRecord::to(topic.clone()).value(value.to_string())).await.expect("is taken"));
        if value == 1 {
            transaction.abort().await.expect("aborts")
        } else {
            transaction.commit().await.expect("commits")
        }
    }
    world.settled_end(&topic).await;
    let partition = TopicPartition::new(topic, 0);
    let builder = world.consumer().batch_records_max(1);
    let mut consumer = builder.assign([(partition.clone(), Position::Earliest)]).await.expect("starts");
    assert_eq!(consumer.lag(&partition), None, "nothing is known before the first fetch");
    let first = consumer.next_batch().await.expect("reads").expect("is not stopped");
    assert_eq!(first.iter().map(text).collect::<Vec<_>>(), ["0"]);
    let lag = consumer.lag(&partition).expect("is known by now");
    assert!((2..=5).contains(&lag), "{lag}");
    assert_eq!(read(&mut consumer, 1).await, ["2"]);
    while consumer.lag(&partition) != Some(0) {
        drop(consumer.next_event(Duration::from_millis(20)).await.expect("goes on"));
    }
}

async fn next(stream: &mut BatchStream) -> Option<Result<atonce_client::Batch, ConsumerError>> {
    std::future::poll_fn(|context| Pin::new(&mut *stream).poll_next(context)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_brings_batches_until_it_is_stopped_and_commits_beside_it() {
    let world = World::new().await;
    let topic = world.topic("stream", 1).await;
    world.write(&topic, 0..20).await;
    let group = GroupId::from(world.name("group"));
    let builder = world.consumer().group(group.clone()).batch_records_max(5);
    let consumer = builder.subscribe([topic.clone()]).await.expect("starts");
    let (committer, stopper, mut stream) = (consumer.committer(), consumer.stopper(), consumer.into_stream());
    let mut values = Vec::new();
    while values.len() < 20 {
        let batch = next(&mut stream).await.expect("goes on").expect("reads");
        values.extend(batch.iter().map(text));
        committer.commit(batch.positions()).await.expect("is committed");
    }
    assert_eq!(values, (0..20).map(|value| value.to_string()).collect::<Vec<_>>());
    assert_eq!(world.committed(&group, &topic).await, Some(20));
    stopper.stop();
    assert!(next(&mut stream).await.is_none());
    assert!(next(&mut stream).await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_counted_is_what_happened() {
    let world = World::new().await;
    let topic = world.topic("counted", 1).await;
    let before = world.client.metrics().requests()["Metadata"].asked;
    world.write(&topic, 0..7).await;
    let mut producer = world.client.transactional_producer(world.name("id")).start().await.expect("starts");
    let transaction = producer.begin().await.expect("begins");
    drop(transaction.send(ProducerRecord::to(topic.clone()).value("7")).await.expect("is taken"));
    transaction.commit().await.expect("commits");
    let mut consumer = world.consumer().group(world.name("group")).subscribe([topic]).await.expect("starts");
    until(&mut consumer, assigned).await;
    assert_eq!(read(&mut consumer, 8).await.len(), 8);
    let metrics = world.client.metrics();
    assert_eq!((metrics.records_sent(), metrics.records_failed(), metrics.records_consumed()), (8, 0, 8));
    let requests = metrics.requests();
    assert!(requests["Metadata"].asked > before);
    let ends = requests["EndTxn"];
    assert_eq!((ends.asked, ends.answered, ends.lost), (1, 1, 0));
    assert!(ends.latency_max >= ends.latency_mean() && ends.latency_mean() > Duration::ZERO);
    assert!(metrics.bytes_sent() > 300 && metrics.bytes_received() > 300);
    let text = metrics.prometheus_text();
    for line in [
        "atonce_client_requests_total{request=\"EndTxn\"} 1",
        "atonce_client_request_latency_seconds_count{request=\"EndTxn\"} 1",
        "atonce_client_records_sent_total 8",
        "atonce_client_transactions_total{outcome=\"committed\"} 1",
        "atonce_client_assignments_total 1",
    ] {
        assert!(text.lines().any(|it| it == line), "{line} in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_nobody_needs_is_closed_and_opened_again() {
    let world = World::new().await;
    let topic = world.topic("idle", 1).await;
    let servers = world.servers.clone();
    let builder = Client::builder(servers).connections_idle_max(Duration::from_millis(50));
    let client = builder.connect().await.expect("is there");
    let producer = client.producer().start().await.expect("starts");
    let connections = || {
        let text = client.metrics().prometheus_text();
        let line = text.lines().find_map(|it| it.strip_prefix("atonce_client_connections_total{outcome=\"open\"} "));
        line.map_or(0, |count| count.parse::<u32>().expect("is a number"))
    };
    for round in 0..3 {
        let before = connections();
        let record = ProducerRecord::to(topic.clone()).value(round.to_string());
        let written = producer.send(record).await.expect("is taken").await.expect("is written");
        assert_eq!(written.offset, Some(round), "its sequence outlives its connections");
        if round > 0 {
            assert!(connections() > before, "it was closed meanwhile");
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_made_again_is_written_and_read_from_its_beginning() {
    let world = World::new().await;
    let topic = world.topic("again", 1).await;
    let producer = world.client.producer().start().await.expect("starts");
    for value in ["a", "b", "c"] {
        drop(producer.send(ProducerRecord::to(topic.clone()).value(value)).await.expect("is taken").await);
    }
    let partition = TopicPartition::new(topic.clone(), 0);
    let mut consumer = world.consumer().assign([(partition, Position::Earliest)]).await.expect("starts");
    assert_eq!(read(&mut consumer, 3).await, ["a", "b", "c"]);
    let admin = world.client.admin();
    drop(admin.delete_topics(std::slice::from_ref(&topic)).await.expect("is answered"));
    loop {
        let made = admin.create_topics(&[NewTopic::new(topic.clone(), 1)]).await.expect("is answered");
        if made[&topic].is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let written = producer.send(ProducerRecord::to(topic.clone()).value("new")).await.expect("is taken");
    assert_eq!(written.await.expect("is written").offset, Some(0));
    // Its position lies beyond the new one's end, so the reset policy decides: the beginning.
    assert_eq!(read(&mut consumer, 1).await, ["new"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_written_comes_back_whole_by_every_compression() {
    let world = World::new().await;
    let codecs = [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
    for compression in codecs {
        let topic = world.topic(&format!("whole-{compression}"), 1).await;
        let producer = world.client.producer().compression(compression).linger(Duration::from_millis(20));
        let producer = producer.start().await.expect("starts");
        let stamp = now_ms() - 12_345;
        let large = vec![b'x'; 900_000];
        let records = [
            ProducerRecord::to(topic.clone())
                .key("k")
                .value("v")
                .header("h", "1")
                .header("h", None::<&str>)
                .timestamp(stamp),
            ProducerRecord::to(topic.clone()).key("gone").timestamp(stamp),
            ProducerRecord::to(topic.clone()).key("").value("").timestamp(stamp),
            ProducerRecord::to(topic.clone()).value(large.clone()).timestamp(stamp),
        ];
        for record in &records {
            drop(producer.send(record.clone()).await.expect("is taken"));
        }
        producer.close().await.expect("all is written");
        let partition = TopicPartition::new(topic, 0);
        let mut consumer = world.consumer().assign([(partition, Position::Earliest)]).await.expect("starts");
        let mut found = BTreeMap::new();
        while found.len() < records.len() {
            let batch = consumer.next_batch().await.expect("reads").expect("is not stopped");
            found.extend(batch.into_iter().map(|record| (record.offset, record)));
        }
        for (record, found) in records.iter().zip(found.values()) {
            assert_eq!((&record.key, &record.value), (&found.key, &found.value), "{compression}");
            assert_eq!((&record.headers, found.timestamp.0), (&found.headers, stamp), "{compression}");
        }
    }
}
