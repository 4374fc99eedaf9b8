//! A broker that crashes again and again under load: every acknowledged record is read back once and in order, committed
//! transactions are whole, aborted and open ones are never seen, and the offsets sent with them say the same.

mod raw_client;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use atonce_broker::{Broker, Durability};
use atonce_kernel::ProducerIdentity;
use atonce_protocol::ErrorCode;
use atonce_protocol::frame::{self, RequestHeader};
use atonce_protocol::messages::end_txn_request::EndTxnRequest;
use atonce_protocol::messages::init_producer_id_request::InitProducerIdRequest;
use atonce_protocol::messages::offset_fetch_request::{OffsetFetchRequest, OffsetFetchRequestTopic};
use atonce_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use atonce_protocol::wire::{Message, Reader, Request};
use raw_client::{RawClient, batch, produce_request};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

const PARTITIONS: i32 = 3;
const CRASHES: usize = 15;

/// A client that asks until it is answered, over as many connections as it takes.
struct Stubborn {
    broker: Arc<Broker>,
    stream: Option<DuplexStream>,
}

impl Stubborn {
    fn new(broker: &Arc<Broker>) -> Self {
        Self { broker: Arc::clone(broker), stream: None }
    }

    async fn call<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        loop {
            if let Some(response) = self.try_call(version, request).await {
                return response;
            }
            self.stream = None;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn try_call<R: Request>(&mut self, version: i16, request: &R) -> Option<R::Response> {
        if self.stream.is_none() {
            self.stream = self.broker.connect_in_process().ok();
        }
        let stream = self.stream.as_mut()?;
        let header = RequestHeader::new(R::KEY, version, 1, Some("stubborn"));
        let bytes = frame::encode_request(&header, request).expect("encodes");
        stream.write_all(&bytes).await.ok()?;
        let mut length = [0; 4];
        stream.read_exact(&mut length).await.ok()?;
        let mut answer = vec![0; usize::try_from(i32::from_be_bytes(length)).expect("a length")];
        stream.read_exact(&mut answer).await.ok()?;
        let mut reader = Reader::new(answer.into());
        frame::decode_response_header(&mut reader, R::KEY, version).expect("a header");
        Some(R::Response::decode(&mut reader, version).expect("a response"))
    }

    async fn init(&mut self, transactional_id: Option<&str>) -> ProducerIdentity {
        let request = InitProducerIdRequest {
            transactional_id: transactional_id.map(str::to_owned),
            transaction_timeout_ms: 60_000,
            ..Default::default()
        };
        let response = self.call(4, &request).await;
        assert_eq!(ErrorCode::from_wire(response.error_code), ErrorCode::None);
        ProducerIdentity::new(response.producer_id, response.producer_epoch)
    }

    async fn append(
        &mut self,
        transactional_id: Option<&str>,
        producer: ProducerIdentity,
        sequence: i32,
        topic: &str,
        partition: i32,
        value: &str,
    ) {
        let batch = batch(producer, sequence, transactional_id.is_some(), &[value]);
        let response = self.call(12, &produce_request(transactional_id, topic, partition, batch)).await;
        let code = ErrorCode::from_wire(response.responses[0].partition_responses[0].error_code);
        assert_eq!(code, ErrorCode::None, "{topic}-{partition} {value}");
    }
}

/// Numbers, one after the other, each repeated until it is acknowledged.
async fn write_numbers(broker: Arc<Broker>, partition: i32, stop: Arc<AtomicBool>) -> i32 {
    let mut client = Stubborn::new(&broker);
    let producer = client.init(None).await;
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        client.append(None, producer, number, "numbers", partition, &number.to_string()).await;
        number += 1;
    }
    number
}

/// Transactions over all partitions, with an offset; every third is aborted. Returns how many there were.
async fn write_transactions(broker: Arc<Broker>, id: &'static str, stop: Arc<AtomicBool>) -> i64 {
    let mut client = Stubborn::new(&broker);
    let mut producer = client.init(Some(id)).await;
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        for partition in 0..PARTITIONS {
            for sequence in 0..2 {
                let value = format!("{id} {number} {sequence}");
                client.append(Some(id), producer, sequence, "transactions", partition, &value).await;
            }
        }
        let offsets = TxnOffsetCommitRequest {
            transactional_id: id.to_owned(),
            group_id: id.to_owned(),
            producer_id: producer.id.0,
            producer_epoch: producer.epoch.0,
            topics: vec![TxnOffsetCommitRequestTopic {
                name: "numbers".to_owned(),
                partitions: vec![TxnOffsetCommitRequestPartition {
                    committed_offset: number,
                    committed_metadata: Some(String::new()),
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let sent = client.call(5, &offsets).await;
        assert_eq!(ErrorCode::from_wire(sent.topics[0].partitions[0].error_code), ErrorCode::None);
        let end = EndTxnRequest {
            transactional_id: id.to_owned(),
            producer_id: producer.id.0,
            producer_epoch: producer.epoch.0,
            committed: commits(number),
            ..Default::default()
        };
        // Said again after a crash, the end is answered from state: with success, whichever time it was taken in.
        let ended = client.call(5, &end).await;
        assert_eq!(ErrorCode::from_wire(ended.error_code), ErrorCode::None, "{id} {number}");
        producer = ProducerIdentity::new(ended.producer_id, ended.producer_epoch);
        number += 1;
    }
    number
}

fn commits(number: i64) -> bool {
    number % 3 != 2
}

async fn crash_again_and_again(durability: Durability) {
    let broker = Broker::builder()
        .temporary()
        .durability(durability)
        .property("offsets.topic.num.partitions", "4")
        .property("transaction.state.log.num.partitions", "4")
        .start()
        .await
        .expect("a broker starts");
    let broker = Arc::new(broker);
    let mut client = RawClient::of(&broker);
    client.create_topic("numbers", PARTITIONS).await;
    client.create_topic("transactions", PARTITIONS).await;
    let stop = Arc::new(AtomicBool::new(false));
    let numbers: Vec<_> = (0..PARTITIONS)
        .map(|partition| tokio::spawn(write_numbers(Arc::clone(&broker), partition, Arc::clone(&stop))))
        .collect();
    let ids = ["first", "second"];
    let transactions = ids.map(|id| tokio::spawn(write_transactions(Arc::clone(&broker), id, Arc::clone(&stop))));
    for crash in 0..CRASHES {
        // As much as there was time for: a crash is not to wait for anything in particular.
        tokio::time::sleep(Duration::from_millis(20 + 13 * (crash as u64 % 7))).await;
        broker.crash().await.expect("crashed");
        broker.restart().await.expect("restarted");
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    stop.store(true, Ordering::Relaxed);

    let mut client = RawClient::of(&broker);
    let mut written = 0;
    for (partition, task) in (0..).zip(numbers) {
        let count = tokio::time::timeout(Duration::from_secs(60), task).await.expect("it ends").expect("no refusal");
        let expected: Vec<String> = (0..count).map(|number| number.to_string()).collect();
        assert_eq!(client.read("numbers", partition, true).await, expected, "partition {partition}");
        written += count;
    }
    assert!(written > 100, "only {written} records were written");
    let mut counts = Vec::new();
    for (id, task) in ids.into_iter().zip(transactions) {
        let count = tokio::time::timeout(Duration::from_secs(60), task).await.expect("it ends").expect("no refusal");
        assert!(count > 10, "only {count} transactions were written");
        counts.push((id, count));
    }
    for partition in 0..PARTITIONS {
        let values = client.read("transactions", partition, true).await;
        for (id, count) in &counts {
            let own: Vec<&String> = values.iter().filter(|value| value.starts_with(id)).collect();
            let expected: Vec<String> = (0..*count)
                .filter(|number| commits(*number))
                .flat_map(|number| (0..2).map(move |sequence| format!("{id} {number} {sequence}")))
                .collect();
            assert_eq!(own, expected.iter().collect::<Vec<_>>(), "{id} in partition {partition}");
        }
    }
    for (id, count) in counts {
        let request = OffsetFetchRequest {
            group_id: id.to_owned(),
            topics: Some(vec![OffsetFetchRequestTopic {
                name: "numbers".to_owned(),
                partition_indexes: vec![0],
                ..Default::default()
            }]),
            require_stable: true,
            ..Default::default()
        };
        let response = client.call(7, &request).await;
        let found = &response.topics[0].partitions[0];
        let last_committed = (0..count).rev().find(|number| commits(*number)).expect("one was committed");
        assert_eq!((found.error_code, found.committed_offset), (0, last_committed), "{id}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_doubled_or_torn_by_crashes_with_synced_commits() {
    crash_again_and_again(Durability::Sync).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_doubled_or_torn_by_crashes_with_commits_left_to_the_operating_system() {
    crash_again_and_again(Durability::Os).await;
}
