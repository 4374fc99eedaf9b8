//! Bytes that make no sense get an answer or a closed connection; they never stop another client.

mod raw_client;

use atonce_broker::Broker;
use atonce_protocol::messages::api_versions_request::ApiVersionsRequest;
use atonce_protocol::messages::describe_configs_request::{DescribeConfigsRequest, DescribeConfigsResource};
use atonce_protocol::messages::describe_groups_request::DescribeGroupsRequest;
use atonce_protocol::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use atonce_protocol::{ApiKey, ErrorCode};
use raw_client::{RawClient, batch, broker, fetch_request, plain_batch, produce_request};

async fn still_serves(broker: &Broker) {
    let response = RawClient::of(broker).call(4, &api_versions()).await;
    assert_eq!(response.error_code, 0);
}

fn api_versions() -> ApiVersionsRequest {
    ApiVersionsRequest {
        client_software_name: "raw".to_owned(),
        client_software_version: "1".to_owned(),
        ..Default::default()
    }
}

fn frame(parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    [&i32::try_from(body.len()).expect("short").to_be_bytes()[..], &body].concat()
}

#[tokio::test]
async fn frames_that_make_no_sense_close_their_connection_and_no_other() {
    let broker = broker().await;
    let mut bystander = RawClient::of(&broker);
    assert_eq!(bystander.call(4, &api_versions()).await.error_code, 0);
    let hostile: &[Vec<u8>] = &[
        frame(&[]),
        frame(&[&[0]]),
        frame(&[&[0, 18, 0, 3]]),
        // An API that does not exist, and one that only brokers have.
        frame(&[&[0x7f, 0xff, 0, 0, 0, 0, 0, 1, 0xff, 0xff]]),
        frame(&[&[0, 4, 0, 1, 0, 0, 0, 1, 0xff, 0xff]]),
        // Metadata with a count of two thousand million topics in four bytes.
        frame(&[&[0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]]),
        // The same in a flexible version, and a string longer than the frame.
        frame(&[&[0, 3, 0, 12, 0, 0, 0, 1, 0xff, 0xff, 0, 0xff, 0xff, 0xff, 0xff, 0x0f]]),
        frame(&[&[0, 10, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0x7f, 0xff, b'a']]),
        // Versions from the future and the past of an API that is served.
        frame(&[&[0, 3, 0, 99, 0, 0, 0, 1, 0xff, 0xff]]),
        frame(&[&[0, 19, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 0]]),
        frame(&[&[0, 0, 0, 2, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 0]]),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        0x7fff_ffff_i32.to_be_bytes().to_vec(),
        (-1_i32).to_be_bytes().to_vec(),
    ];
    for bytes in hostile {
        let mut client = RawClient::of(&broker);
        client.send_bytes(bytes).await;
        assert_eq!(client.receive_frame().await, None, "{bytes:?}");
        assert_eq!(bystander.call(4, &api_versions()).await.error_code, 0, "after {bytes:?}");
    }
    still_serves(&broker).await;
}

#[tokio::test]
async fn requests_cut_off_anywhere_or_with_any_byte_flipped_stop_nobody() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let producer = client.init(None).await;
    let request = produce_request(None, "t", 0, batch(producer, 0, false, &["a", "b"]));
    let header = atonce_protocol::frame::RequestHeader::new(ApiKey::Produce, 9, 1, None);
    let whole = atonce_protocol::frame::encode_request(&header, &request).expect("encodes");
    let body = &whole[4..];
    for cut in 0..body.len() {
        let mut client = RawClient::of(&broker);
        client.send_bytes(&frame(&[&body[..cut]])).await;
        if let Some(answer) = client.receive_frame().await {
            assert!(answer.len() >= 4, "cut at {cut}");
        }
    }
    for place in 8..body.len() {
        let mut bytes = body.to_vec();
        bytes[place] ^= 0xff;
        let mut client = RawClient::of(&broker);
        client.send_bytes(&frame(&[&bytes])).await;
        // Some flips ask for no answer (acks 0); the next request on the connection tells whether it is open.
        client.send_bytes(&frame(&[&[0, 18, 0, 0, 0, 0, 0, 2, 0xff, 0xff]])).await;
        let _ = client.receive_frame().await;
    }
    still_serves(&broker).await;
}

#[tokio::test]
async fn an_api_versions_request_from_the_future_is_answered_in_version_0() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.send_bytes(&frame(&[&[0, 18, 0, 77, 0, 0, 0, 5, 0xff, 0xff, 1, 2, 3]])).await;
    let answer = client.receive_frame().await.expect("an answer");
    assert_eq!(answer[..4], [0, 0, 0, 5]);
    assert_eq!(i16::from_be_bytes([answer[4], answer[5]]), ErrorCode::UnsupportedVersion.to_i16());
    let apis = i32::from_be_bytes([answer[6], answer[7], answer[8], answer[9]]);
    assert!(apis > 20, "{apis}");
    // The connection stays open: the client asks again.
    assert_eq!(client.call(3, &api_versions()).await.error_code, 0);
}

#[tokio::test]
async fn what_is_finalised_follows_the_setting_and_least_versions_suit_old_clients() {
    for (level, finalized) in [("0", None), ("1", Some(1)), ("2", Some(2))] {
        let broker =
            Broker::builder().temporary().property("transaction.version", level).start().await.expect("started");
        let response = RawClient::of(&broker).call(4, &api_versions()).await;
        let found = response.finalized_features.iter().find(|feature| feature.name == "transaction.version");
        assert_eq!(found.map(|feature| feature.max_version_level), finalized);
        assert!(response.finalized_features_epoch >= 0);
        assert!(response.supported_features.iter().any(|feature| feature.name == "transaction.version"));
        let produce = response.api_keys.iter().find(|api| api.api_key == 0).expect("Produce");
        assert_eq!((produce.min_version, produce.max_version), (0, 13));
        let older = RawClient::of(&broker).call(3, &api_versions()).await;
        assert!(older.supported_features.is_empty(), "a least version of 0 makes older clients throw (KAFKA-17492)");
    }
}

#[tokio::test]
async fn batches_that_are_none_are_refused_and_leave_nothing() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let good = plain_batch(&["v"]);
    let altered = |place: usize, value: u8| {
        let mut bytes = good.to_vec();
        bytes[place] = value;
        bytes::Bytes::from(bytes)
    };
    let cases: Vec<(&str, bytes::Bytes, ErrorCode)> = vec![
        ("none at all", bytes::Bytes::new(), ErrorCode::InvalidRecord),
        ("cut off", good.slice(..good.len() - 1), ErrorCode::InvalidRecord),
        ("a wrong checksum", altered(17, good[17] ^ 1), ErrorCode::CorruptMessage),
        ("a wrong byte", altered(good.len() - 1, good[good.len() - 1] ^ 1), ErrorCode::CorruptMessage),
        ("an old format", altered(16, 1), ErrorCode::InvalidRecord),
        ("two batches", [&good[..], &good[..]].concat().into(), ErrorCode::InvalidRecord),
        ("a length of 2 GB", altered(8, 0x7f), ErrorCode::InvalidRecord),
    ];
    for (what, bytes, expected) in cases {
        let response = client.produce(9, None, "t", 0, bytes).await;
        assert_eq!(ErrorCode::from_wire(response.error_code), expected, "{what}");
    }
    assert_eq!(client.end_offset("t", 0, false).await, 0);
    let response = client.produce(9, None, "t", 1, good.clone()).await;
    assert_eq!(ErrorCode::from_wire(response.error_code), ErrorCode::UnknownTopicOrPartition);
    let response = client.produce(9, None, "__transaction_state", 0, good).await;
    assert_ne!(ErrorCode::from_wire(response.error_code), ErrorCode::None, "clients do not write the broker's topics");
}

#[tokio::test]
async fn answers_come_in_the_order_of_requests_however_they_are_sent() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let producer = client.init(None).await;
    let mut sent = Vec::new();
    for i in 0..50 {
        let request = produce_request(None, "t", 0, batch(producer, i, false, &[&i.to_string()]));
        sent.push(client.send(9, &request).await);
        sent.push(client.send(9, &MetadataRequest { topics: Some(Vec::new()), ..Default::default() }).await);
    }
    for pair in sent.chunks(2) {
        let (id, response) = client.receive::<atonce_protocol::messages::produce_request::ProduceRequest>(9).await;
        assert_eq!((id, response.responses[0].partition_responses[0].error_code), (pair[0], 0));
        assert_eq!(client.receive::<MetadataRequest>(9).await.0, pair[1]);
    }
    let expected: Vec<String> = (0..50).map(|i| i.to_string()).collect();
    assert_eq!(client.read("t", 0, true).await, expected);
}

#[tokio::test]
async fn what_is_named_again_and_again_is_described_a_hundred_times_more_at_most() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 100).await;
    let topic = MetadataRequestTopic { name: Some("t".to_owned()), ..Default::default() };
    let request = MetadataRequest { topics: Some(vec![topic; 10_000]), ..Default::default() };
    assert_eq!(client.call(9, &request).await.topics.len(), 1);
    let resource = DescribeConfigsResource { resource_type: 4, resource_name: "1".to_owned(), ..Default::default() };
    let request = DescribeConfigsRequest { resources: vec![resource; 10_000], ..Default::default() };
    assert_eq!(client.call(4, &request).await.results.len(), 101);
    let request = DescribeGroupsRequest { groups: vec!["g".to_owned(); 10_000], ..Default::default() };
    assert_eq!(client.call(5, &request).await.groups.len(), 101);
}

#[tokio::test]
async fn clients_that_wait_or_do_not_read_hold_up_nobody() {
    // Room for a few requests only.
    let broker =
        Broker::builder().temporary().property("queued.max.request.bytes", "2048").start().await.expect("started");
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let mut waiting = Vec::new();
    for _ in 0..8 {
        let mut waiter = RawClient::of(&broker);
        let mut request = fetch_request("t", 0, 0, false, i32::MAX);
        request.min_bytes = i32::MAX;
        // One partition named again and again is read, and waited at, once.
        let partition = request.topics[0].partitions[0].clone();
        request.topics[0].partitions = vec![partition; 10_000];
        waiter.send(12, &request).await;
        // And questions behind it, whose answers nobody will read.
        for _ in 0..20 {
            waiter.send(9, &MetadataRequest { topics: None, ..Default::default() }).await;
        }
        waiting.push(waiter);
    }
    let served = async {
        for _ in 0..10 {
            assert_eq!(client.produce(9, None, "t", 0, plain_batch(&["v"])).await.error_code, 0);
            assert!(client.end_offset("t", 0, true).await > 0);
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), served).await.expect("others are served");
}

#[tokio::test]
async fn a_silent_connection_is_closed_and_one_that_waits_for_its_answer_is_not() {
    let broker =
        Broker::builder().temporary().property("connections.max.idle.ms", "100").start().await.expect("started");
    let mut waiter = RawClient::of(&broker);
    waiter.create_topic("t", 1).await;
    let mut silent = RawClient::of(&broker);
    // Half a frame is silence too, when nothing more comes.
    let mut halted = RawClient::of(&broker);
    halted.send_bytes(&[0, 0]).await;
    let mut request = fetch_request("t", 0, 0, false, 1000);
    request.min_bytes = 1;
    let answer = waiter.call(12, &request).await;
    assert_eq!(answer.responses[0].partitions[0].error_code, 0);
    assert!(silent.receive_frame().await.is_none(), "closed");
    assert!(halted.receive_frame().await.is_none(), "closed");
    assert!(waiter.receive_frame().await.is_none(), "closed, now that it is answered");
}
