//! WriteTxnMarkers (key 27), versions 1 and 2: an administrator ends a hanging transaction, partition by partition.
//!
//! (Our own coordinator writes its markers without a request.) - 1: flexible. 2: the transaction's version, by which the
//! marker's epoch is judged.

use std::collections::BTreeMap;

use atonce_kernel::{Outcome, ProducerIdentity, TopicPartition};
use atonce_log::{Marker, TransactionVersion};
use atonce_protocol::messages::write_txn_markers_request::WriteTxnMarkersRequest;
use atonce_protocol::messages::write_txn_markers_response::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult, WriteTxnMarkersResponse,
};
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call, Reply};
use crate::engine::{Engine, append_error_code};
use crate::topic_name::TRANSACTION_STATE;

pub(super) const API: Api =
    Api { key: ApiKey::WriteTxnMarkers, versions: 1..=2, run: |incoming| incoming.on_engine(handle) };

/// By producer, topic and partition: what is named twice is written twice, and answered once.
type Written = BTreeMap<i64, BTreeMap<String, BTreeMap<i32, ErrorCode>>>;

fn handle(engine: &mut Engine, _call: &Call, request: WriteTxnMarkersRequest, reply: Reply<WriteTxnMarkersResponse>) {
    let mut written = Written::new();
    for asked in request.markers {
        let marker = Marker {
            producer: ProducerIdentity::new(asked.producer_id, asked.producer_epoch),
            outcome: if asked.transaction_result { Outcome::Commit } else { Outcome::Abort },
            coordinator_epoch: asked.coordinator_epoch,
            version: if asked.transaction_version >= 2 { TransactionVersion::V2 } else { TransactionVersion::V1 },
        };
        let is_of_nobody = asked.producer_id == -1 || asked.producer_epoch == -1 || asked.transaction_version == -1;
        for topic in asked.topics.into_iter().filter(|topic| !topic.partition_indexes.is_empty()) {
            let of_topic = written.entry(asked.producer_id).or_default().entry(topic.name.clone()).or_default();
            for index in topic.partition_indexes {
                // A marker of nobody: Kafka's own code for what it does not expect.
                let code = if is_of_nobody {
                    ErrorCode::UnknownServerError
                } else if topic.name == TRANSACTION_STATE {
                    // There are no transactions in it: whoever follows it would take a marker for damage.
                    ErrorCode::TopicAuthorizationFailed
                } else {
                    match engine.write_marker(&TopicPartition::new(topic.name.as_str(), index), &marker) {
                        Ok(()) => ErrorCode::None,
                        Err(error) => append_error_code(&error),
                    }
                };
                of_topic.insert(index, code);
            }
        }
    }
    engine.answer(reply, respond(written));
}

fn respond(written: Written) -> WriteTxnMarkersResponse {
    let partition = |(partition_index, code): (i32, ErrorCode)| WritableTxnMarkerPartitionResult {
        partition_index,
        error_code: code.to_i16(),
        ..Default::default()
    };
    let topic = |(name, partitions): (String, BTreeMap<i32, ErrorCode>)| WritableTxnMarkerTopicResult {
        name,
        partitions: partitions.into_iter().map(partition).collect(),
        ..Default::default()
    };
    let markers = written.into_iter().map(|(producer_id, topics)| WritableTxnMarkerResult {
        producer_id,
        topics: topics.into_iter().map(topic).collect(),
        ..Default::default()
    });
    WriteTxnMarkersResponse { markers: markers.collect(), ..Default::default() }
}
