//! A client that does one request after the other and nothing by itself: where a real client would add times and memory of its own.
//!
//! It does not know any broker: versions are those that both speak.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use atonce_kernel::{ProducerIdentity, Sequence, Timestamp};
use atonce_protocol::ErrorCode;
use atonce_protocol::frame::{FrameSplitter, RequestHeader, decode_response_header, encode_request};
use atonce_protocol::messages::api_versions_request::ApiVersionsRequest;
use atonce_protocol::messages::create_topics_request::{CreatableTopic, CreateTopicsRequest};
use atonce_protocol::messages::delete_topics_request::DeleteTopicsRequest;
use atonce_protocol::messages::end_txn_request::EndTxnRequest;
use atonce_protocol::messages::find_coordinator_request::FindCoordinatorRequest;
use atonce_protocol::messages::init_producer_id_request::InitProducerIdRequest;
use atonce_protocol::messages::offset_fetch_request::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use atonce_protocol::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use atonce_protocol::records::{BatchBuilder, BatchOptions};
use atonce_protocol::wire::{Message as _, Reader, Request};
use bytes::BytesMut;

const FRAME_BYTES_MAX: usize = 100 << 20;

/// How long to ask again what a broker that has just started cannot answer yet.
const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(1);

const TRANSACTIONAL_ID: &str = "first";

/// A connection to a broker.
#[derive(Debug)]
pub(crate) struct RawClient {
    stream: TcpStream,
    received: BytesMut,
}

impl RawClient {
    pub(crate) fn connect(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, received: BytesMut::new() })
    }

    /// Sends a request, and waits for its answer.
    pub(crate) fn call<R: Request>(&mut self, version: i16, request: &R) -> Result<R::Response> {
        let header = RequestHeader::new(R::KEY, version, 1, Some("bench"));
        self.stream.write_all(&encode_request(&header, request)?)?;
        let mut chunk = [0; 16 << 10];
        let frame = loop {
            if let Some(frame) = FrameSplitter::new(FRAME_BYTES_MAX).next_frame(&mut self.received)? {
                break frame;
            }
            let read = self.stream.read(&mut chunk)?;
            ensure!(read > 0, "the broker closed the connection after {}", R::NAME);
            self.received.extend_from_slice(&chunk[..read]);
        };
        let mut reader = Reader::new(frame);
        decode_response_header(&mut reader, R::KEY, version)?;
        Ok(R::Response::decode(&mut reader, version)?)
    }

    /// What every client says first.
    pub(crate) fn greet(&mut self) -> Result<()> {
        let request = ApiVersionsRequest {
            client_software_name: "bench".to_owned(),
            client_software_version: "1".to_owned(),
            ..Default::default()
        };
        accepted("ApiVersions", self.call(3, &request)?.error_code)
    }

    /// Makes a topic; one that is there already will do.
    pub(crate) fn create_topic(&mut self, name: &str, num_partitions: i32) -> Result<()> {
        let topic =
            CreatableTopic { name: name.to_owned(), num_partitions, replication_factor: 1, ..Default::default() };
        let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 60_000, ..Default::default() };
        until_accepted("CreateTopics", || {
            let code = self.call(7, &request)?.topics.first().context("a topic")?.error_code;
            Ok(if code == ErrorCode::TopicAlreadyExists.to_i16() { 0 } else { code })
        })
    }

    /// Deletes a topic; one that is not there will do.
    pub(crate) fn delete_topic(&mut self, name: &str) -> Result<()> {
        let request =
            DeleteTopicsRequest { topic_names: vec![name.to_owned()], timeout_ms: 60_000, ..Default::default() };
        let answer = self.call(5, &request)?;
        let code = answer.responses.first().context("a topic")?.error_code;
        accepted("DeleteTopics", if code == ErrorCode::UnknownTopicOrPartition.to_i16() { 0 } else { code })
    }

    /// The sum of what a group has committed in the partitions of a topic: how many records of it are done, if there are only records in it.
    pub(crate) fn committed(&mut self, group: &str, topic: &str, partitions: i32) -> Result<u64> {
        let topics = OffsetFetchRequestTopics {
            name: topic.to_owned(),
            partition_indexes: (0..partitions).collect(),
            ..Default::default()
        };
        let group =
            OffsetFetchRequestGroup { group_id: group.to_owned(), topics: Some(vec![topics]), ..Default::default() };
        let answer = self.call(8, &OffsetFetchRequest { groups: vec![group], ..Default::default() })?;
        let of_topics = answer.groups.iter().flat_map(|group| &group.topics);
        // Before the first commit there is none: −1.
        Ok(of_topics
            .flat_map(|topic| &topic.partitions)
            .map(|it| u64::try_from(it.committed_offset).unwrap_or(0))
            .sum())
    }

    /// A transaction of one record in the first partition of `topic`, acknowledged.
    pub(crate) fn transaction(&mut self, topic: &str) -> Result<()> {
        const TRANSACTION: i8 = 1;
        let find = FindCoordinatorRequest {
            key_type: TRANSACTION,
            coordinator_keys: vec![TRANSACTIONAL_ID.to_owned()],
            ..Default::default()
        };
        until_accepted("FindCoordinator", || {
            Ok(self.call(4, &find)?.coordinators.first().context("a coordinator")?.error_code)
        })?;
        let init = InitProducerIdRequest {
            transactional_id: Some(TRANSACTIONAL_ID.to_owned()),
            transaction_timeout_ms: 60_000,
            producer_id: -1,
            producer_epoch: -1,
            ..Default::default()
        };
        let mut producer = ProducerIdentity::NONE;
        until_accepted("InitProducerId", || {
            let answer = self.call(4, &init)?;
            producer = ProducerIdentity::new(answer.producer_id, answer.producer_epoch);
            Ok(answer.error_code)
        })?;
        let produce = produce(topic, producer)?;
        until_accepted("Produce", || {
            let answer = self.call(12, &produce)?;
            Ok(answer
                .responses
                .first()
                .and_then(|it| it.partition_responses.first())
                .context("a partition")?
                .error_code)
        })?;
        let end = EndTxnRequest {
            transactional_id: TRANSACTIONAL_ID.to_owned(),
            producer_id: producer.id.0,
            producer_epoch: producer.epoch.0,
            committed: true,
            ..Default::default()
        };
        until_accepted("EndTxn", || Ok(self.call(5, &end)?.error_code))
    }
}

fn produce(topic: &str, producer: ProducerIdentity) -> Result<ProduceRequest> {
    let mut batch = BatchBuilder::with_capacity(100);
    batch.append(now().0, None, Some(&[b'x'; 100]), [])?;
    let options = BatchOptions { producer, base_sequence: Sequence(0), is_transactional: true, ..Default::default() };
    let records = Some(batch.finish(&options)?);
    let partition_data = vec![PartitionProduceData { index: 0, records, ..Default::default() }];
    let topic_data = vec![TopicProduceData { name: topic.to_owned(), partition_data, ..Default::default() }];
    Ok(ProduceRequest {
        transactional_id: Some(TRANSACTIONAL_ID.to_owned()),
        acks: -1,
        timeout_ms: 30_000,
        topic_data,
        ..Default::default()
    })
}

fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn accepted(what: &str, code: i16) -> Result<()> {
    ensure!(code == 0, "{what} was answered with error {code}");
    Ok(())
}

/// Asks until there is no error: a broker that has just started lacks something for a while.
fn until_accepted(what: &str, mut ask: impl FnMut() -> Result<i16>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let code = ask()?;
        if code == 0 {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("{what} is still answered with error {code} after {} s", PATIENCE.as_secs());
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stub;

    #[test]
    fn a_transaction_is_four_requests_that_a_broker_understands() {
        let mut client = RawClient::connect(&stub::start().unwrap()).unwrap();
        client.greet().unwrap();
        client.transaction("first-1").unwrap();
    }

    #[test]
    fn the_record_is_transactional_and_the_producer_s_first() {
        let producer = ProducerIdentity::new(7, 3);
        let request = produce("t", producer).unwrap();
        let records = request.topic_data[0].partition_data[0].records.clone().unwrap();
        let batch = atonce_protocol::records::BatchView::new(&records).unwrap();
        assert_eq!((batch.producer(), batch.base_sequence(), batch.is_transactional()), (producer, Sequence(0), true));
    }

    #[test]
    fn what_is_refused_for_a_while_is_asked_again() {
        let mut codes = [15, 51, 0, 15].into_iter();
        until_accepted("it", || Ok(codes.next().unwrap())).unwrap();
        assert_eq!(codes.next(), Some(15));
    }
}
