//! Fetch and ListOffsets, to the last rule that a reader depends on.

mod raw_client;

use atonce_kernel::Uuid;
use atonce_protocol::ErrorCode;
use atonce_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use atonce_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use atonce_protocol::records::{BatchBuilder, BatchOptions, BatchView, Compression};
use raw_client::{RawClient, broker, fetch_request, plain_batch};

#[tokio::test]
async fn a_fetch_in_the_middle_of_a_batch_returns_the_whole_batch() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    client.produce(9, None, "t", 0, plain_batch(&["a", "b", "c"])).await;
    let response = client.fetch("t", 0, 2, false).await;
    let records = response.responses[0].partitions[0].records.clone().expect("records");
    assert_eq!(BatchView::new(&records).expect("a batch").base_offset(), 0);
}

#[tokio::test]
async fn the_first_batch_comes_whatever_its_size_and_later_ones_keep_to_the_limit() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 2).await;
    let large = "x".repeat(10_000);
    for partition in 0..2 {
        for _ in 0..2 {
            client.produce(9, None, "t", partition, plain_batch(&[&large])).await;
        }
    }
    let mut request = fetch_request("t", 0, 0, false, 0);
    request.topics[0].partitions.push(FetchPartition {
        partition: 1,
        partition_max_bytes: 1 << 20,
        ..Default::default()
    });
    let sizes = |response: &atonce_protocol::messages::fetch_response::FetchResponse| -> Vec<usize> {
        let partitions = &response.responses[0].partitions;
        partitions.iter().map(|data| data.records.as_ref().map_or(0, |bytes| bytes.len() / 10_000)).collect()
    };
    request.max_bytes = 1;
    assert_eq!(sizes(&client.call(12, &request).await), [1, 0]);
    request.max_bytes = 35_000;
    assert_eq!(sizes(&client.call(12, &request).await), [2, 1]);
    request.topics[0].partitions[0].partition_max_bytes = 1;
    request.max_bytes = 1 << 20;
    assert_eq!(sizes(&client.call(12, &request).await), [1, 2]);
}

#[tokio::test]
async fn committed_readers_stop_at_the_first_open_transaction_and_hear_of_aborted_ones() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let aborted = client.init(Some("aborted")).await;
    client.append(Some("aborted"), aborted, 0, "t", 0, &["x", "y"]).await.expect("appended");
    client.end(5, "aborted", aborted, false).await.expect("aborted");
    client.produce(9, None, "t", 0, plain_batch(&["plain"])).await;
    let open = client.init(Some("open")).await;
    client.append(Some("open"), open, 0, "t", 0, &["o"]).await.expect("appended");
    client.produce(9, None, "t", 0, plain_batch(&["behind"])).await;

    let response = client.fetch("t", 0, 0, true).await;
    let data = &response.responses[0].partitions[0];
    assert_eq!((data.high_watermark, data.last_stable_offset, data.log_start_offset), (6, 4, 0));
    let found: Vec<(i64, i64)> =
        data.aborted_transactions.iter().flatten().map(|aborted| (aborted.producer_id, aborted.first_offset)).collect();
    assert_eq!(found, [(aborted.id.0, 0)]);
    assert_eq!(client.read("t", 0, true).await, ["plain"]);
    // At the last stable offset there is nothing, which is no error; between it and the high watermark neither.
    for offset in [4, 5, 6] {
        let response = client.fetch("t", 0, offset, true).await;
        let data = &response.responses[0].partitions[0];
        assert_eq!((data.error_code, data.records.clone().unwrap_or_default().len()), (0, 0), "offset {offset}");
    }
    // Who reads all hears of no aborted ones: null, not an empty list.
    let response = client.fetch("t", 0, 0, false).await;
    assert_eq!(response.responses[0].partitions[0].aborted_transactions, None);
    assert_eq!(client.read("t", 0, false).await, ["x", "y", "plain", "o", "behind"]);
    for offset in [-1, 7] {
        let response = client.fetch("t", 0, offset, true).await;
        let code = ErrorCode::from_wire(response.responses[0].partitions[0].error_code);
        assert_eq!(code, ErrorCode::OffsetOutOfRange, "offset {offset}");
    }
}

#[tokio::test]
async fn refusals_name_what_is_unknown_and_do_not_wait() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let code_of = |response: &atonce_protocol::messages::fetch_response::FetchResponse| {
        ErrorCode::from_wire(response.responses[0].partitions[0].error_code)
    };
    // Each would wait for a minute, if it waited.
    let by_name = fetch_request("absent", 0, 0, false, 60_000);
    assert_eq!(code_of(&client.call(12, &by_name).await), ErrorCode::UnknownTopicOrPartition);
    let by_index = fetch_request("t", 1, 0, false, 60_000);
    assert_eq!(code_of(&client.call(12, &by_index).await), ErrorCode::UnknownTopicOrPartition);
    let mut by_id = fetch_request("", 0, 0, false, 60_000);
    by_id.topics[0] = FetchTopic { topic: String::new(), topic_id: Uuid([7; 16]), ..by_id.topics[0].clone() };
    assert_eq!(code_of(&client.call(13, &by_id).await), ErrorCode::UnknownTopicId);
    let mut epoch = fetch_request("t", 0, 0, false, 60_000);
    epoch.topics[0].partitions[0].current_leader_epoch = 5;
    assert_eq!(code_of(&client.call(12, &epoch).await), ErrorCode::UnknownLeaderEpoch);
    // A session that was never given.
    let mut session = fetch_request("t", 0, 0, false, 60_000);
    (session.session_id, session.session_epoch) = (77, 3);
    let response = client.call(12, &session).await;
    assert_eq!(ErrorCode::from_wire(response.error_code), ErrorCode::FetchSessionIdNotFound);
    // Nothing asked for is nothing to wait for.
    let mut nothing = fetch_request("t", 0, 0, false, 60_000);
    nothing.topics.clear();
    assert!(client.call(12, &nothing).await.responses.is_empty());
}

#[tokio::test]
async fn offsets_are_found_by_time_below_the_end_that_the_reader_sees() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    client.produce(9, None, "t", 0, plain_batch(&["a", "b"])).await;
    let open = client.init(Some("open")).await;
    client.append(Some("open"), open, 0, "t", 0, &["o"]).await.expect("appended");
    let mut look_up = async |isolation_level: i8, timestamp: i64| {
        let request = ListOffsetsRequest {
            replica_id: -1,
            isolation_level,
            topics: vec![ListOffsetsTopic {
                name: "t".to_owned(),
                partitions: vec![ListOffsetsPartition { timestamp, ..Default::default() }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let response = client.call(8, &request).await;
        let found = &response.topics[0].partitions[0];
        assert_eq!(found.error_code, 0);
        found.offset
    };
    let written_at = 1_700_000_000_000;
    for (isolation, latest) in [(0, 3), (1, 2)] {
        assert_eq!(look_up(isolation, -1).await, latest);
        assert_eq!(look_up(isolation, -2).await, 0);
        assert_eq!(look_up(isolation, -4).await, 0);
        assert_eq!(look_up(isolation, 0).await, 0);
        assert_eq!(look_up(isolation, written_at).await, 0);
        assert_eq!(look_up(isolation, written_at + 1).await, -1);
    }
}

#[tokio::test]
async fn a_partition_named_twice_in_list_offsets_is_answered_once_as_an_invalid_request() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 2).await;
    let named = |partition_index| ListOffsetsPartition { partition_index, timestamp: 0, ..Default::default() };
    let topic = |partitions| ListOffsetsTopic { name: "t".to_owned(), partitions, ..Default::default() };
    let topics = vec![topic(vec![named(0), named(0), named(1)]), topic(vec![named(0)])];
    let request = ListOffsetsRequest { replica_id: -1, topics, ..Default::default() };
    let response = client.call(7, &request).await;
    let found: Vec<(i32, i16)> = response
        .topics
        .iter()
        .flat_map(|topic| &topic.partitions)
        .map(|partition| (partition.partition_index, partition.error_code))
        .collect();
    assert_eq!(found, [(0, ErrorCode::InvalidRequest.to_i16()), (1, 0)]);
}

/// One thread runs the whole broker but for the writer: as long as it unpacks, nobody else is answered.
#[tokio::test]
async fn look_ups_by_time_hold_up_nobody() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    // Small on the wire, and long to unpack.
    let value = "0".repeat(1 << 20);
    let mut builder = BatchBuilder::with_capacity(64 << 20);
    for timestamp in 0..48 {
        builder.append(timestamp, None, Some(value.as_bytes()), []).expect("appended");
    }
    let options = BatchOptions { compression: Compression::Gzip, ..BatchOptions::default() };
    let batch = builder.finish(&options).expect("a batch");
    assert!(batch.len() < 1 << 20, "{} bytes", batch.len());
    assert_eq!(client.produce(9, None, "t", 0, batch).await.error_code, 0);
    let partition = ListOffsetsPartition { timestamp: 47, ..Default::default() };
    let topics = vec![ListOffsetsTopic { name: "t".to_owned(), partitions: vec![partition], ..Default::default() }];
    let request = ListOffsetsRequest { replica_id: -1, topics, ..Default::default() };
    let mut asking = RawClient::of(&broker);
    for _ in 0..4 {
        asking.send(7, &request).await;
    }
    // Whatever the machine's speed: others are answered before the last of them.
    let looked_up = async {
        for _ in 0..4 {
            let (_, response) = asking.receive::<ListOffsetsRequest>(7).await;
            assert_eq!(response.topics[0].partitions[0].offset, 47);
        }
    };
    let others = async {
        for _ in 0..20 {
            client.end_offset("t", 0, false).await;
        }
    };
    tokio::pin!(looked_up);
    tokio::select! {
        biased;
        () = &mut looked_up => panic!("all look-ups were done before anybody else was answered"),
        () = others => {}
    }
    looked_up.await;
}
