//! Many at once: slow readers, thousands of connections and partitions, topics that go under load. What one does must not cost
//! the others.

mod raw_client;

use std::time::Duration;

use atonce_broker::Broker;
use atonce_protocol::ErrorCode;
use atonce_protocol::messages::fetch_request::FetchRequest;
use atonce_protocol::messages::produce_request::ProduceRequest;
use atonce_protocol::records::{BatchBuilder, BatchOptions, Compression};
use raw_client::{RawClient, fetch_request, plain_batch, produce_request};

/// Bytes of answers that the broker under test keeps for those who do not take them.
const ANSWERS_BYTES_MAX: usize = 4 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_nobody_takes_fill_no_memory_and_others_go_on_reading() {
    const READERS: usize = 40;
    const BATCH_BYTES: usize = 256 << 10;
    let broker = Broker::builder()
        .temporary()
        .property("queued.max.response.bytes", ANSWERS_BYTES_MAX.to_string())
        .start()
        .await
        .expect("started");
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    for _ in 0..12 {
        let value = "x".repeat(BATCH_BYTES - 100);
        assert_eq!(client.produce(9, None, "t", 0, plain_batch(&[&value])).await.error_code, 0);
    }
    // Each asks for all there is, several times, and takes no more than the length of the first answer.
    let mut request = fetch_request("t", 0, 0, false, 0);
    request.topics[0].partitions[0].partition_max_bytes = 50 << 20;
    let mut slow = Vec::new();
    let mut answered = 0;
    for _ in 0..READERS {
        let mut reader = RawClient::of(&broker);
        for _ in 0..3 {
            reader.send(12, &request).await;
        }
        answered += reader.receive_length().await;
        slow.push(reader);
    }
    let bound = ANSWERS_BYTES_MAX + READERS * BATCH_BYTES + READERS * 1024;
    assert!(answered <= bound, "{answered} bytes of answers are kept, and {bound} may be");
    assert!(answered > ANSWERS_BYTES_MAX, "{answered}: the slow readers are not slow enough to tell");
    // Whoever takes what he is given goes on, if in smaller steps.
    let found = client.read("t", 0, true).await;
    assert_eq!(found.len(), 12);
    // And when the slow ones are gone, in whole ones again.
    drop(slow);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    loop {
        let response = client.call(12, &request).await;
        let bytes = response.responses[0].partitions[0].records.as_ref().map_or(0, bytes::Bytes::len);
        if bytes > 11 * BATCH_BYTES {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "the room of those who are gone is not given back: {bytes}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_connections_and_partitions_are_served_side_by_side() {
    const CONNECTIONS: usize = 2000;
    const PARTITIONS: i32 = 2000;
    let broker = Broker::builder().temporary().start().await.expect("started");
    let mut client = RawClient::of(&broker);
    client.create_topic("wide", PARTITIONS).await;
    client.create_topic("narrow", 1).await;
    // All wait for the same partition, and each for one of its own.
    let mut waiting = Vec::new();
    for number in 0..CONNECTIONS {
        let mut reader = RawClient::of(&broker);
        let mut request = fetch_request("narrow", 0, 0, false, 60_000);
        let partition = i32::try_from(number).expect("small") % PARTITIONS;
        request.topics.extend(fetch_request("wide", partition, 0, false, 0).topics);
        reader.send(12, &request).await;
        waiting.push(reader);
    }
    for partition in [0, PARTITIONS / 2, PARTITIONS - 1] {
        assert_eq!(client.produce(9, None, "wide", partition, plain_batch(&["one"])).await.error_code, 0);
        let (_, response) = waiting[usize::try_from(partition).expect("small")].receive::<FetchRequest>(12).await;
        let with_records = response.responses.iter().flat_map(|topic| &topic.partitions);
        let found: Vec<bool> = with_records.map(|it| it.records.as_ref().is_some_and(|it| !it.is_empty())).collect();
        assert_eq!(found, [false, true]);
    }
    // One write wakes all others.
    assert_eq!(client.produce(9, None, "narrow", 0, plain_batch(&["all"])).await.error_code, 0);
    let mut woken = 0;
    for (number, mut reader) in waiting.into_iter().enumerate() {
        if [0, CONNECTIONS / 2, CONNECTIONS - 1].contains(&number) {
            continue;
        }
        let (_, response) = reader.receive::<FetchRequest>(12).await;
        let data = &response.responses[0].partitions[0];
        assert_eq!((data.error_code, data.high_watermark), (0, 1));
        woken += 1;
    }
    assert_eq!(woken, CONNECTIONS - 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_deleted_under_load_is_unknown_from_then_on_and_nothing_else_suffers() {
    let broker = Broker::builder().temporary().start().await.expect("started");
    let mut client = RawClient::of(&broker);
    client.create_topic("going", 4).await;
    client.create_topic("staying", 1).await;
    let mut at_work = Vec::new();
    for partition in 0..4 {
        let mut writer = RawClient::of(&broker);
        at_work.push(tokio::spawn(async move {
            // Until it is gone: nothing but success before, nothing but its absence after.
            let mut written = 0;
            loop {
                let code = writer.produce(9, None, "going", partition, plain_batch(&["v"])).await.error_code;
                match ErrorCode::from_wire(code) {
                    ErrorCode::None => written += 1,
                    ErrorCode::UnknownTopicOrPartition => return written,
                    other => panic!("{other}"),
                }
            }
        }));
        let mut reader = RawClient::of(&broker);
        at_work.push(tokio::spawn(async move {
            let mut offset = 0;
            loop {
                let response = reader.call(12, &fetch_request("going", partition, offset, false, 60_000)).await;
                let data = &response.responses[0].partitions[0];
                match ErrorCode::from_wire(data.error_code) {
                    ErrorCode::None => offset = data.high_watermark,
                    ErrorCode::UnknownTopicOrPartition => return offset,
                    other => panic!("{other}"),
                }
            }
        }));
    }
    let mut written = 0;
    for _ in 0..50 {
        assert_eq!(client.produce(9, None, "staying", 0, plain_batch(&["kept"])).await.error_code, 0);
        written += 1;
    }
    client.delete_topic("going").await;
    for work in at_work {
        assert!(work.await.expect("ends by itself") >= 0);
    }
    assert_eq!(client.read("staying", 0, true).await.len(), written);
    broker.crash().await.expect("crashed");
    broker.restart().await.expect("restarted");
    let mut client = RawClient::of(&broker);
    assert_eq!(client.read("staying", 0, true).await.len(), written);
    let gone = client.fetch("going", 0, 0, false).await;
    let code = gone.responses[0].partitions[0].error_code;
    assert_eq!(ErrorCode::from_wire(code), ErrorCode::UnknownTopicOrPartition);
}

/// On one thread: whoever unpacked there would hold up everybody.
#[tokio::test]
async fn unpacking_much_for_one_producer_holds_up_nobody_else() {
    const UNPACKED_BYTES: usize = 100 << 20;
    let broker = Broker::builder().temporary().start().await.expect("started");
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let mut builder = BatchBuilder::default();
    builder.append(1_700_000_000_000, None, Some(&vec![0; UNPACKED_BYTES]), []).expect("it fits");
    let options = BatchOptions { compression: Compression::Zstd, ..BatchOptions::default() };
    let batch = builder.finish(&options).expect("a batch");
    let mut producers = Vec::new();
    for _ in 0..6 {
        let mut producer = RawClient::of(&broker);
        producer.send(9, &produce_request(None, "t", 0, batch.clone())).await;
        producers.push(producer);
    }
    let answers = all_answered(producers);
    tokio::pin!(answers);
    // Others are answered while that goes on.
    for _ in 0..20 {
        tokio::select! {
            biased;
            _ = client.fetch("t", 0, 0, false) => {}
            () = &mut answers => panic!("all were unpacked before one fetch was answered"),
        }
    }
    answers.await;
    assert_eq!(client.end_offset("t", 0, false).await, 6);
}

async fn all_answered(producers: Vec<RawClient>) {
    for mut producer in producers {
        let (_, response) = producer.receive::<ProduceRequest>(9).await;
        assert_eq!(response.responses[0].partition_responses[0].error_code, 0);
    }
}

#[tokio::test]
async fn a_full_disk_refuses_writes_goes_on_reading_loses_nothing_and_serves_again_when_there_is_room() {
    let broker = raw_client::broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let producer = client.init(Some("id")).await;
    client.append(Some("id"), producer, 0, "t", 0, &["open"]).await.expect("appended");
    assert_eq!(client.produce(9, None, "t", 0, plain_batch(&["before"])).await.error_code, 0);
    // As full as a disk can be, as far as new data is concerned.
    client.keep_free(Some("9000000000000000000")).await;
    for _ in 0..2 {
        let refused = client.produce(9, None, "t", 0, plain_batch(&["refused"])).await.error_code;
        assert_eq!(ErrorCode::from_wire(refused), ErrorCode::KafkaStorageError);
        assert_eq!(client.read("t", 0, false).await, ["open", "before"]);
        // A start does not need room, and says the same.
        broker.crash().await.expect("crashed");
        broker.restart().await.expect("restarted");
        client = RawClient::of(&broker);
    }
    // What is open can be ended: readers wait for it.
    client.end(5, "id", producer, true).await.expect("room is kept for the ends of transactions");
    assert_eq!(client.read("t", 0, true).await, ["open", "before"]);
    client.keep_free(None).await;
    assert_eq!(client.produce(9, None, "t", 0, plain_batch(&["after"])).await.error_code, 0);
    assert_eq!(client.read("t", 0, true).await, ["open", "before", "after"]);
}
