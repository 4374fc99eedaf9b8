//! A client that says exactly what a test wants said: one request, one answer, over the in-process transport or TCP.

#![allow(dead_code, reason = "each test uses its own part")]

use atonce_broker::Broker;
use atonce_kernel::{ProducerIdentity, Sequence};
use atonce_protocol::ErrorCode;
use atonce_protocol::frame::{self, RequestHeader};
use atonce_protocol::messages::add_partitions_to_txn_request::{AddPartitionsToTxnRequest, AddPartitionsToTxnTopic};
use atonce_protocol::messages::create_topics_request::{CreatableTopic, CreateTopicsRequest};
use atonce_protocol::messages::delete_topics_request::{DeleteTopicState, DeleteTopicsRequest};
use atonce_protocol::messages::end_txn_request::EndTxnRequest;
use atonce_protocol::messages::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
use atonce_protocol::messages::fetch_response::FetchResponse;
use atonce_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use atonce_protocol::messages::init_producer_id_request::InitProducerIdRequest;
use atonce_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use atonce_protocol::messages::offset_fetch_request::{OffsetFetchRequest, OffsetFetchRequestTopic};
use atonce_protocol::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use atonce_protocol::messages::produce_response::PartitionProduceResponse;
use atonce_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use atonce_protocol::records::{BatchBuilder, BatchOptions, batches};
use atonce_protocol::wire::{Message, Reader, Request};
use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

pub(crate) struct RawClient {
    stream: Box<dyn Stream>,
    next_correlation_id: i32,
}

/// A broker for a test: small internal topics, groups that do not wait.
pub(crate) async fn broker() -> Broker {
    Broker::builder()
        .temporary()
        .property("group.initial.rebalance.delay.ms", "0")
        .property("offsets.topic.num.partitions", "4")
        .property("transaction.state.log.num.partitions", "4")
        .start()
        .await
        .expect("a broker starts")
}

impl RawClient {
    pub(crate) fn of(broker: &Broker) -> Self {
        Self::over(broker.connect_in_process().expect("the broker runs"))
    }

    pub(crate) fn over(stream: impl Stream + 'static) -> Self {
        Self { stream: Box::new(stream), next_correlation_id: 1 }
    }

    pub(crate) async fn send<R: Request>(&mut self, version: i16, request: &R) -> i32 {
        let correlation_id = self.next_correlation_id;
        self.next_correlation_id += 1;
        let header = RequestHeader::new(R::KEY, version, correlation_id, Some("raw"));
        let frame = frame::encode_request(&header, request).expect("the request can be encoded");
        self.stream.write_all(&frame).await.expect("the connection is open");
        correlation_id
    }

    pub(crate) async fn receive<R: Request>(&mut self, version: i16) -> (i32, R::Response) {
        let frame = self.receive_frame().await.expect("an answer, not a closed connection");
        let mut reader = Reader::new(frame);
        let header = frame::decode_response_header(&mut reader, R::KEY, version).expect("a response header");
        let response = R::Response::decode(&mut reader, version).expect("a response");
        reader.finish().expect("nothing behind the response");
        (header.correlation_id, response)
    }

    pub(crate) async fn call<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        let sent = self.send(version, request).await;
        let (answered, response) = self.receive::<R>(version).await;
        assert_eq!(sent, answered, "answers come in order");
        response
    }

    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) {
        // The broker may have closed the connection already: the answer, or its absence, tells.
        let _ = self.stream.write_all(bytes).await;
    }

    /// The next frame without its length; nothing if the connection was closed.
    pub(crate) async fn receive_frame(&mut self) -> Option<Bytes> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).await.ok()?;
        let mut frame = BytesMut::zeroed(usize::try_from(i32::from_be_bytes(length)).expect("a length"));
        self.stream.read_exact(&mut frame).await.ok()?;
        Some(frame.freeze())
    }

    /// The length of the next answer, of which nothing more is taken.
    pub(crate) async fn receive_length(&mut self) -> usize {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).await.expect("an answer");
        usize::try_from(i32::from_be_bytes(length)).expect("a length")
    }

    /// So many bytes of it.
    pub(crate) async fn receive_bytes(&mut self, length: usize) -> Bytes {
        let mut bytes = BytesMut::zeroed(length);
        self.stream.read_exact(&mut bytes).await.expect("the rest of an answer");
        bytes.freeze()
    }

    pub(crate) async fn delete_topic(&mut self, name: &str) {
        let topics = vec![DeleteTopicState { name: Some(name.to_owned()), ..Default::default() }];
        let response = self.call(6, &DeleteTopicsRequest { topics, ..Default::default() }).await;
        assert_eq!(response.responses[0].error_code, 0, "{:?}", response.responses[0].error_message);
    }

    pub(crate) async fn create_topic(&mut self, name: &str, partitions: i32) {
        let topic = CreatableTopic {
            name: name.to_owned(),
            num_partitions: partitions,
            replication_factor: 1,
            ..Default::default()
        };
        let response = self.call(7, &CreateTopicsRequest { topics: vec![topic], ..Default::default() }).await;
        assert_eq!(response.topics[0].error_code, 0, "{:?}", response.topics[0].error_message);
    }

    pub(crate) async fn init(&mut self, transactional_id: Option<&str>) -> ProducerIdentity {
        self.init_for(transactional_id, 60_000).await
    }

    pub(crate) async fn init_for(
        &mut self,
        transactional_id: Option<&str>,
        transaction_timeout_ms: i32,
    ) -> ProducerIdentity {
        let request = InitProducerIdRequest {
            transactional_id: transactional_id.map(str::to_owned),
            transaction_timeout_ms,
            ..Default::default()
        };
        let response = self.call(5, &request).await;
        assert_eq!(ErrorCode::from_wire(response.error_code), ErrorCode::None);
        ProducerIdentity::new(response.producer_id, response.producer_epoch)
    }

    /// Version 12 adds the partition to the transaction, version 11 wants it added.
    pub(crate) async fn produce(
        &mut self,
        version: i16,
        transactional_id: Option<&str>,
        topic: &str,
        partition: i32,
        batch: Bytes,
    ) -> PartitionProduceResponse {
        let request = produce_request(transactional_id, topic, partition, batch);
        let mut response = self.call(version, &request).await;
        response.responses.remove(0).partition_responses.remove(0)
    }

    /// Appends `values` in one batch, and says where they begin, or why not.
    pub(crate) async fn append(
        &mut self,
        transactional_id: Option<&str>,
        producer: ProducerIdentity,
        sequence: i32,
        topic: &str,
        partition: i32,
        values: &[&str],
    ) -> Result<i64, ErrorCode> {
        let batch = batch(producer, sequence, transactional_id.is_some(), values);
        let response = self.produce(12, transactional_id, topic, partition, batch).await;
        ErrorCode::from_wire(response.error_code).into_result().map(|()| response.base_offset)
    }

    pub(crate) async fn end(
        &mut self,
        version: i16,
        transactional_id: &str,
        producer: ProducerIdentity,
        committed: bool,
    ) -> Result<ProducerIdentity, ErrorCode> {
        let request = EndTxnRequest {
            transactional_id: transactional_id.to_owned(),
            producer_id: producer.id.0,
            producer_epoch: producer.epoch.0,
            committed,
            ..Default::default()
        };
        let response = self.call(version, &request).await;
        let next = ProducerIdentity::new(response.producer_id, response.producer_epoch);
        ErrorCode::from_wire(response.error_code).into_result().map(|()| next)
    }

    /// Adds a partition to a transaction of protocol 1.
    pub(crate) async fn add_partition(
        &mut self,
        transactional_id: &str,
        producer: ProducerIdentity,
        topic: &str,
        partition: i32,
    ) -> Result<(), ErrorCode> {
        let topics =
            vec![AddPartitionsToTxnTopic { name: topic.to_owned(), partitions: vec![partition], ..Default::default() }];
        let request = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: transactional_id.to_owned(),
            v3_and_below_producer_id: producer.id.0,
            v3_and_below_producer_epoch: producer.epoch.0,
            v3_and_below_topics: topics,
            ..Default::default()
        };
        let response = self.call(3, &request).await;
        ErrorCode::from_wire(response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)
            .into_result()
    }

    /// Sends a position of a group without members along with a transaction of protocol 2.
    pub(crate) async fn send_offset(
        &mut self,
        transactional_id: &str,
        producer: ProducerIdentity,
        group: &str,
        topic: &str,
        offset: i64,
    ) -> Result<(), ErrorCode> {
        let partitions = vec![TxnOffsetCommitRequestPartition { committed_offset: offset, ..Default::default() }];
        let topics = vec![TxnOffsetCommitRequestTopic { name: topic.to_owned(), partitions, ..Default::default() }];
        let request = TxnOffsetCommitRequest {
            transactional_id: transactional_id.to_owned(),
            group_id: group.to_owned(),
            producer_id: producer.id.0,
            producer_epoch: producer.epoch.0,
            topics,
            ..Default::default()
        };
        let response = self.call(5, &request).await;
        ErrorCode::from_wire(response.topics[0].partitions[0].error_code).into_result()
    }

    /// The position of a group in partition 0, -1 if there is none; only a stable one if that is asked for.
    pub(crate) async fn committed(&mut self, group: &str, topic: &str, require_stable: bool) -> Result<i64, ErrorCode> {
        let topics = Some(vec![OffsetFetchRequestTopic {
            name: topic.to_owned(),
            partition_indexes: vec![0],
            ..Default::default()
        }]);
        let request = OffsetFetchRequest { group_id: group.to_owned(), topics, require_stable, ..Default::default() };
        let response = self.call(7, &request).await;
        let found = &response.topics[0].partitions[0];
        ErrorCode::from_wire(found.error_code).into_result().map(|()| found.committed_offset)
    }

    pub(crate) async fn fetch(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
        is_committed: bool,
    ) -> FetchResponse {
        self.call(12, &fetch_request(topic, partition, offset, is_committed, 0)).await
    }

    /// All values below the end for that isolation, as a client sees them: without what was aborted.
    pub(crate) async fn read(&mut self, topic: &str, partition: i32, is_committed: bool) -> Vec<String> {
        let mut values = Vec::new();
        let mut offset = 0;
        loop {
            let response = self.fetch(topic, partition, offset, is_committed).await;
            let data = &response.responses[0].partitions[0];
            assert_eq!(ErrorCode::from_wire(data.error_code), ErrorCode::None);
            let before = offset;
            let mut aborted: Vec<(i64, i64)> = data
                .aborted_transactions
                .iter()
                .flatten()
                .map(|aborted| (aborted.producer_id, aborted.first_offset))
                .collect();
            for view in batches(&data.records.clone().unwrap_or_default()) {
                let view = view.expect("a whole batch");
                view.validate().expect("a good batch");
                offset = view.next_offset();
                let producer = view.producer().id.0;
                if view.is_control() {
                    aborted.retain(|(id, first)| !(*id == producer && *first < view.base_offset()));
                    continue;
                }
                let is_aborted = view.is_transactional()
                    && aborted.iter().any(|(id, first)| *id == producer && *first <= view.base_offset());
                if is_committed && is_aborted {
                    continue;
                }
                for record in view.records().expect("uncompressed") {
                    let value = record.expect("a good record").value.unwrap_or_default().to_vec();
                    values.push(String::from_utf8(value).expect("text"));
                }
            }
            if offset == before {
                return values;
            }
        }
    }

    /// Has the broker keep so many bytes of the disk free: with more than there are, it is full as far as new data goes.
    pub(crate) async fn keep_free(&mut self, bytes: Option<&str>) {
        let config = AlterableConfig {
            name: "disk.keep.free.bytes".to_owned(),
            config_operation: i8::from(bytes.is_none()),
            value: bytes.map(str::to_owned),
            ..Default::default()
        };
        let resource = AlterConfigsResource { resource_type: 4, configs: vec![config], ..Default::default() };
        let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
        assert_eq!(self.call(1, &request).await.responses[0].error_code, 0);
    }

    /// The end of a partition: the last stable offset, or the high watermark.
    pub(crate) async fn end_offset(&mut self, topic: &str, partition: i32, is_committed: bool) -> i64 {
        let request = ListOffsetsRequest {
            replica_id: -1,
            isolation_level: i8::from(is_committed),
            topics: vec![ListOffsetsTopic {
                name: topic.to_owned(),
                partitions: vec![ListOffsetsPartition {
                    partition_index: partition,
                    timestamp: -1,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let response = self.call(7, &request).await;
        let found = &response.topics[0].partitions[0];
        assert_eq!(found.error_code, 0);
        found.offset
    }
}

pub(crate) fn produce_request(
    transactional_id: Option<&str>,
    topic: &str,
    partition: i32,
    batch: Bytes,
) -> ProduceRequest {
    ProduceRequest {
        transactional_id: transactional_id.map(str::to_owned),
        acks: -1,
        timeout_ms: 10_000,
        topic_data: vec![TopicProduceData {
            name: topic.to_owned(),
            partition_data: vec![PartitionProduceData { index: partition, records: Some(batch), ..Default::default() }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

pub(crate) fn fetch_request(
    topic: &str,
    partition: i32,
    offset: i64,
    is_committed: bool,
    max_wait_ms: i32,
) -> FetchRequest {
    FetchRequest {
        max_wait_ms,
        min_bytes: 1,
        max_bytes: 50 << 20,
        isolation_level: i8::from(is_committed),
        topics: vec![FetchTopic {
            topic: topic.to_owned(),
            partitions: vec![FetchPartition {
                partition,
                fetch_offset: offset,
                partition_max_bytes: 1 << 20,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

pub(crate) fn batch(producer: ProducerIdentity, sequence: i32, is_transactional: bool, values: &[&str]) -> Bytes {
    let mut builder = BatchBuilder::default();
    for value in values {
        builder.append(1_700_000_000_000, None, Some(value.as_bytes()), []).expect("it fits");
    }
    let options =
        BatchOptions { producer, base_sequence: Sequence(sequence), is_transactional, ..BatchOptions::default() };
    builder.finish(&options).expect("a batch")
}

/// A batch of a producer that is not idempotent.
pub(crate) fn plain_batch(values: &[&str]) -> Bytes {
    batch(ProducerIdentity::NONE, -1, false, values)
}
