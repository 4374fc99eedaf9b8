//! A broker that does nothing, and says at once that it is done: what a client does with it is all that the client can do.
//!
//! It serves what a (transactional) producer asks for, and a consumer in a group of its own ([`reading`]). A topic called `NAME-N` is there, with N partitions. Nothing is kept.

mod reading;

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use anyhow::{Context as _, Result, bail};
use atonce_kernel::Uuid;
use atonce_protocol::frame::{FrameSplitter, decode_request_header, encode_any_response};
use atonce_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnRequest;
use atonce_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResponse, AddPartitionsToTxnTopicResult,
};
use atonce_protocol::messages::api_versions_response::{
    ApiVersion, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};
use atonce_protocol::messages::end_txn_response::EndTxnResponse;
use atonce_protocol::messages::find_coordinator_response::{Coordinator, FindCoordinatorResponse};
use atonce_protocol::messages::init_producer_id_response::InitProducerIdResponse;
use atonce_protocol::messages::metadata_response::{
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use atonce_protocol::messages::produce_response::{PartitionProduceResponse, ProduceResponse, TopicProduceResponse};
use atonce_protocol::messages::txn_offset_commit_request::TxnOffsetCommitRequest;
use atonce_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponse, TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use atonce_protocol::wire::Reader;
use atonce_protocol::{AnyRequest, AnyResponse, ApiKey};
use bytes::BytesMut;

const FRAME_BYTES_MAX: usize = 100 << 20;
const NODE: i32 = 1;
const HOST: &str = "127.0.0.1";

/// The APIs served, in these versions: those of reading up to the last that names topics, and one group.
const SERVED: [(ApiKey, i16, i16); 16] = [
    (ApiKey::Produce, 3, 13),
    (ApiKey::Metadata, 0, 13),
    (ApiKey::FindCoordinator, 0, 6),
    (ApiKey::ApiVersions, 0, 5),
    (ApiKey::InitProducerId, 0, 5),
    (ApiKey::EndTxn, 0, 5),
    (ApiKey::Fetch, 4, 12),
    (ApiKey::ListOffsets, 1, 7),
    (ApiKey::OffsetFetch, 1, 7),
    (ApiKey::JoinGroup, 0, 9),
    (ApiKey::SyncGroup, 0, 5),
    (ApiKey::Heartbeat, 0, 4),
    (ApiKey::LeaveGroup, 0, 5),
    (ApiKey::AddPartitionsToTxn, 0, 3),
    (ApiKey::AddOffsetsToTxn, 0, 4),
    (ApiKey::TxnOffsetCommit, 0, 5),
];

/// Starts it, for as long as this process lives. Returns its address.
pub(crate) fn start() -> Result<String> {
    let listener = TcpListener::bind((HOST, 0))?;
    let address = listener.local_addr()?.to_string();
    thread::spawn(move || accept(&listener));
    Ok(address)
}

/// Says its address, and serves until the process is ended.
pub(crate) fn serve_alone(say: impl FnOnce(&str)) -> Result<()> {
    let listener = TcpListener::bind((HOST, 0))?;
    say(&listener.local_addr()?.to_string());
    accept(&listener);
    Ok(())
}

fn accept(listener: &TcpListener) {
    let Ok(port) = listener.local_addr().map(|address| i32::from(address.port())) else { return };
    for connection in listener.incoming().flatten() {
        thread::spawn(move || {
            if let Err(error) = serve(connection, port)
                // A client that has been measured ends as it likes.
                && error.downcast_ref().map(io::Error::kind) != Some(io::ErrorKind::ConnectionReset)
            {
                let _ = writeln!(std::io::stderr(), "the stub ends a connection: {error:#}");
            }
        });
    }
}

fn serve(mut connection: TcpStream, port: i32) -> Result<()> {
    connection.set_nodelay(true)?;
    let splitter = FrameSplitter::new(FRAME_BYTES_MAX);
    let (mut received, mut chunk) = (BytesMut::new(), vec![0; 256 << 10]);
    loop {
        let read = connection.read(&mut chunk)?;
        if read == 0 {
            return Ok(());
        }
        received.extend_from_slice(&chunk[..read]);
        while let Some(frame) = splitter.next_frame(&mut received)? {
            let mut reader = Reader::new(frame);
            let header = decode_request_header(&mut reader)?;
            let key = header.key().context("an API that nobody knows")?;
            let request = AnyRequest::decode(key, &mut reader, header.api_version)?;
            let response = answer(request, port)?;
            connection.write_all(&encode_any_response(header.api_version, header.correlation_id, &response)?)?;
        }
    }
}

fn answer(request: AnyRequest, port: i32) -> Result<AnyResponse> {
    Ok(match request {
        AnyRequest::ApiVersions(_) => AnyResponse::ApiVersions(api_versions()),
        AnyRequest::Metadata(request) => {
            let asked = request.topics.unwrap_or_default();
            AnyResponse::Metadata(MetadataResponse {
                brokers: vec![MetadataResponseBroker {
                    node_id: NODE,
                    host: HOST.to_owned(),
                    port,
                    ..Default::default()
                }],
                controller_id: NODE,
                topics: asked.into_iter().filter_map(|topic| described(&topic.name?)).collect(),
                ..Default::default()
            })
        }
        // In the old form one is asked for, in the new one any number.
        AnyRequest::FindCoordinator(request) if request.coordinator_keys.is_empty() => {
            let host = HOST.to_owned();
            AnyResponse::FindCoordinator(FindCoordinatorResponse { node_id: NODE, host, port, ..Default::default() })
        }
        AnyRequest::FindCoordinator(request) => {
            let here = |key| Coordinator { key, node_id: NODE, host: HOST.to_owned(), port, ..Default::default() };
            AnyResponse::FindCoordinator(FindCoordinatorResponse {
                coordinators: request.coordinator_keys.into_iter().map(here).collect(),
                ..Default::default()
            })
        }
        AnyRequest::InitProducerId(_) => AnyResponse::InitProducerId(InitProducerIdResponse {
            producer_id: 1,
            producer_epoch: 0,
            ..Default::default()
        }),
        AnyRequest::EndTxn(request) => {
            // As a broker does when the epochs of an id are used up.
            let is_last = request.producer_epoch >= i16::MAX - 1;
            AnyResponse::EndTxn(EndTxnResponse {
                producer_id: request.producer_id + i64::from(is_last),
                producer_epoch: if is_last { 0 } else { request.producer_epoch + 1 },
                ..Default::default()
            })
        }
        AnyRequest::Produce(request) => AnyResponse::Produce(ProduceResponse {
            responses: request
                .topic_data
                .into_iter()
                .map(|topic| TopicProduceResponse {
                    name: topic.name,
                    topic_id: topic.topic_id,
                    partition_responses: topic
                        .partition_data
                        .into_iter()
                        .map(|partition| PartitionProduceResponse { index: partition.index, ..Default::default() })
                        .collect(),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        }),
        AnyRequest::Fetch(request) => AnyResponse::Fetch(reading::fetch(request)),
        AnyRequest::ListOffsets(request) => AnyResponse::ListOffsets(reading::offsets(request)),
        AnyRequest::OffsetFetch(request) => AnyResponse::OffsetFetch(reading::committed(request)),
        AnyRequest::JoinGroup(request) => AnyResponse::JoinGroup(reading::join(request)),
        AnyRequest::SyncGroup(request) => AnyResponse::SyncGroup(reading::sync(request)),
        AnyRequest::Heartbeat(_) => AnyResponse::Heartbeat(Default::default()),
        AnyRequest::LeaveGroup(_) => AnyResponse::LeaveGroup(Default::default()),
        AnyRequest::AddPartitionsToTxn(request) => AnyResponse::AddPartitionsToTxn(partitions_added(request)),
        AnyRequest::AddOffsetsToTxn(_) => AnyResponse::AddOffsetsToTxn(Default::default()),
        AnyRequest::TxnOffsetCommit(request) => AnyResponse::TxnOffsetCommit(offsets_taken(request)),
        other => bail!("{:?} is not served", other.key()),
    })
}

fn partitions_added(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse {
    let topics = request.v3_and_below_topics.into_iter().map(|topic| AddPartitionsToTxnTopicResult {
        name: topic.name,
        results_by_partition: topic
            .partitions
            .into_iter()
            .map(|partition_index| AddPartitionsToTxnPartitionResult { partition_index, ..Default::default() })
            .collect(),
        ..Default::default()
    });
    AddPartitionsToTxnResponse { results_by_topic_v3_and_below: topics.collect(), ..Default::default() }
}

fn offsets_taken(request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse {
    let taken = |partition_index| TxnOffsetCommitResponsePartition { partition_index, ..Default::default() };
    let topics = request.topics.into_iter().map(|topic| TxnOffsetCommitResponseTopic {
        name: topic.name,
        partitions: topic.partitions.into_iter().map(|partition| taken(partition.partition_index)).collect(),
        ..Default::default()
    });
    TxnOffsetCommitResponse { topics: topics.collect(), ..Default::default() }
}

fn api_versions() -> ApiVersionsResponse {
    let transactions = "transaction.version".to_owned();
    ApiVersionsResponse {
        api_keys: SERVED
            .iter()
            .map(|(key, min_version, max_version)| ApiVersion {
                api_key: *key as i16,
                min_version: *min_version,
                max_version: *max_version,
                ..Default::default()
            })
            .collect(),
        supported_features: vec![SupportedFeatureKey {
            name: transactions.clone(),
            max_version: 2,
            ..Default::default()
        }],
        finalized_features_epoch: 1,
        finalized_features: vec![FinalizedFeatureKey {
            name: transactions,
            max_version_level: 2,
            min_version_level: 2,
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// A topic as its name describes it.
fn described(name: &str) -> Option<MetadataResponseTopic> {
    let partitions: i32 = name.rsplit_once('-')?.1.parse().ok()?;
    // Another name, another id, as far as names of benchmarks go.
    let mut id = [0; 16];
    for (place, byte) in id.iter_mut().zip(name.bytes().rev()) {
        *place = byte;
    }
    let partitions = (0..partitions).map(|partition_index| MetadataResponsePartition {
        partition_index,
        leader_id: NODE,
        leader_epoch: 0,
        replica_nodes: vec![NODE],
        isr_nodes: vec![NODE],
        ..Default::default()
    });
    Some(MetadataResponseTopic {
        name: Some(name.to_owned()),
        topic_id: Uuid(id),
        partitions: partitions.collect(),
        ..Default::default()
    })
}

#[cfg(test)]
mod tests {
    use atonce_protocol::messages::describe_groups_request::DescribeGroupsRequest;
    use atonce_protocol::messages::end_txn_request::EndTxnRequest;
    use atonce_protocol::messages::find_coordinator_request::FindCoordinatorRequest;
    use atonce_protocol::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
    use atonce_protocol::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};

    use super::*;

    #[test]
    fn every_partition_that_was_written_to_is_acknowledged() {
        let partition_data = [3, 7].map(|index| PartitionProduceData { index, ..Default::default() }).to_vec();
        let topic_data = vec![TopicProduceData { name: "t".to_owned(), partition_data, ..Default::default() }];
        let request = AnyRequest::Produce(ProduceRequest { topic_data, ..Default::default() });
        let AnyResponse::Produce(response) = answer(request, 1).unwrap() else { panic!("another answer") };
        let partitions: Vec<(i32, i16)> =
            response.responses[0].partition_responses.iter().map(|it| (it.index, it.error_code)).collect();
        assert_eq!(partitions, [(3, 0), (7, 0)]);
    }

    #[test]
    fn an_end_raises_the_epoch_until_there_is_none_left() {
        let end = |producer_epoch| {
            let request = EndTxnRequest { producer_id: 5, producer_epoch, ..Default::default() };
            let AnyResponse::EndTxn(response) = answer(AnyRequest::EndTxn(request), 1).unwrap() else {
                panic!("another answer")
            };
            (response.producer_id, response.producer_epoch)
        };
        assert_eq!(end(0), (5, 1));
        assert_eq!(end(i16::MAX - 1), (6, 0));
    }

    #[test]
    fn a_topic_is_as_its_name_says() {
        let (wide, other) = (described("wide-1000").unwrap(), described("wide-100").unwrap());
        assert_eq!(wide.partitions.len(), 1000);
        assert_ne!(wide.topic_id, other.topic_id);
        assert_eq!(described("wide"), None);
    }

    #[test]
    fn every_version_that_is_served_can_carry_the_answer() {
        let requests = [
            AnyRequest::Produce(ProduceRequest {
                topic_data: vec![TopicProduceData { partition_data: vec![Default::default()], ..Default::default() }],
                ..Default::default()
            }),
            AnyRequest::Metadata(MetadataRequest {
                topics: Some(vec![MetadataRequestTopic { name: Some("t-2".to_owned()), ..Default::default() }]),
                ..Default::default()
            }),
            AnyRequest::FindCoordinator(FindCoordinatorRequest::default()),
            AnyRequest::ApiVersions(Default::default()),
            AnyRequest::InitProducerId(Default::default()),
            AnyRequest::EndTxn(EndTxnRequest { producer_id: 5, producer_epoch: 3, ..Default::default() }),
            AnyRequest::Fetch(Default::default()),
            AnyRequest::ListOffsets(Default::default()),
            AnyRequest::OffsetFetch(Default::default()),
            AnyRequest::JoinGroup(Default::default()),
            AnyRequest::SyncGroup(Default::default()),
            AnyRequest::Heartbeat(Default::default()),
            AnyRequest::LeaveGroup(Default::default()),
            AnyRequest::AddPartitionsToTxn(Default::default()),
            AnyRequest::AddOffsetsToTxn(Default::default()),
            AnyRequest::TxnOffsetCommit(Default::default()),
        ];
        for ((key, least, most), request) in SERVED.into_iter().zip(requests) {
            assert_eq!(request.key(), key);
            for version in least..=most {
                let mut request = request.clone();
                if let AnyRequest::FindCoordinator(request) = &mut request
                    && version >= 4
                {
                    request.coordinator_keys.push("id".to_owned());
                }
                let response = answer(request, 1).unwrap();
                encode_any_response(version, 1, &response).unwrap_or_else(|error| panic!("{key:?} {version}: {error}"));
            }
        }
    }

    #[test]
    fn every_key_has_its_coordinator_here() {
        let coordinator_keys = vec!["a".to_owned(), "b".to_owned()];
        let request = AnyRequest::FindCoordinator(FindCoordinatorRequest { coordinator_keys, ..Default::default() });
        let AnyResponse::FindCoordinator(response) = answer(request, 9).unwrap() else { panic!("another answer") };
        let of: Vec<(&str, i32)> = response.coordinators.iter().map(|it| (it.key.as_str(), it.port)).collect();
        assert_eq!(of, [("a", 9), ("b", 9)]);
        let request = AnyRequest::FindCoordinator(FindCoordinatorRequest::default());
        let AnyResponse::FindCoordinator(response) = answer(request, 9).unwrap() else { panic!("another answer") };
        assert_eq!((response.port, response.coordinators.len()), (9, 0), "for those who ask in the old form");
    }

    #[test]
    fn what_is_not_served_is_named() {
        let error = answer(AnyRequest::DescribeGroups(DescribeGroupsRequest::default()), 1).unwrap_err();
        assert_eq!(error.to_string(), "DescribeGroups is not served");
    }
}
