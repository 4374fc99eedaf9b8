//! DeleteRecords (key 21), versions 0 to 2: moves the start of partitions up. An offset of -1 means the high watermark.
//!
//! Of a topic that is compacted and nothing else the records are kept: whoever reads it wants the last of every key.
//!
//! - 1: none. 2: flexible.

use std::collections::BTreeMap;

use atonce_kernel::TopicPartition;
use atonce_log::DeleteRecordsError;
use atonce_protocol::messages::delete_records_request::DeleteRecordsRequest;
use atonce_protocol::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsResponse, DeleteRecordsTopicResult,
};
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call, Reply};
use crate::engine::Engine;
use crate::topic_name;

pub(super) const API: Api =
    Api { key: ApiKey::DeleteRecords, versions: 0..=2, run: |incoming| incoming.on_engine(handle) };

fn handle(engine: &mut Engine, call: &Call, request: DeleteRecordsRequest, reply: Reply<DeleteRecordsResponse>) {
    // Of a partition that is named twice the last offset counts. A topic of which nothing is asked has no place in the answer.
    let mut asked: BTreeMap<String, BTreeMap<i32, i64>> = BTreeMap::new();
    for topic in request.topics.into_iter().filter(|topic| !topic.partitions.is_empty()) {
        let partitions = topic.partitions.iter().map(|it| (it.partition_index, it.offset));
        asked.entry(topic.name).or_default().extend(partitions);
    }
    let topics = asked
        .into_iter()
        .map(|(name, partitions)| DeleteRecordsTopicResult {
            partitions: partitions
                .into_iter()
                .map(|(partition_index, offset)| {
                    let partition = TopicPartition::new(name.as_str(), partition_index);
                    let (code, low_watermark) = match delete(engine, call, &partition, offset) {
                        Ok(low_watermark) => (ErrorCode::None, low_watermark),
                        Err(code) => (code, -1),
                    };
                    DeleteRecordsPartitionResult {
                        partition_index,
                        low_watermark,
                        error_code: code.to_i16(),
                        ..Default::default()
                    }
                })
                .collect(),
            name,
            ..Default::default()
        })
        .collect();
    engine.answer(reply, DeleteRecordsResponse { topics, ..Default::default() });
}

fn delete(engine: &mut Engine, call: &Call, partition: &TopicPartition, offset: i64) -> Result<i64, ErrorCode> {
    if topic_name::is_internal(partition.topic.as_str()) {
        return Err(ErrorCode::InvalidTopicException);
    }
    let topics = call.shared.directory.topics();
    if topics
        .by_name(partition.topic.as_str())
        .is_some_and(|topic| topic.settings.is_compacted && !topic.settings.is_deleted)
    {
        return Err(ErrorCode::PolicyViolation);
    }
    let offset = match offset {
        -1 => None,
        offset if offset < 0 => return Err(ErrorCode::OffsetOutOfRange),
        offset => Some(offset),
    };
    match engine.storage().delete_records(partition, offset) {
        Ok((log_start_offset, _)) => Ok(log_start_offset),
        Err(DeleteRecordsError::UnknownPartition(_)) => Err(ErrorCode::UnknownTopicOrPartition),
        Err(DeleteRecordsError::OutOfRange { .. }) => Err(ErrorCode::OffsetOutOfRange),
        Err(DeleteRecordsError::Offline { .. }) => Err(ErrorCode::KafkaStorageError),
        Err(DeleteRecordsError::Storage(error)) => {
            tracing::error!(%partition, %error, "records cannot be deleted");
            Err(ErrorCode::KafkaStorageError)
        }
    }
}
