//! OffsetForLeaderEpoch (key 23), versions 2 to 4: where an epoch of a partition's leader ended.
//!
//! One node has had one epoch, so it ends at the high watermark. - 3: the replica id. 4: flexible.

use atonce_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderEpochRequest, OffsetForLeaderPartition,
};
use atonce_protocol::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderEpochResponse, OffsetForLeaderTopicResult,
};
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call};
use crate::directory::Partition;
use crate::{LEADER_EPOCH, leader_epoch_error};

pub(super) const API: Api =
    Api { key: ApiKey::OffsetForLeaderEpoch, versions: 2..=4, run: |incoming| incoming.in_place(handle) };

async fn handle(call: Call, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse {
    let topics = call.shared.directory.topics();
    let topics = request
        .topics
        .into_iter()
        .map(|topic| OffsetForLeaderTopicResult {
            partitions: topic
                .partitions
                .iter()
                .map(|asked| {
                    let found = topics.partition(&topic.topic, asked.partition).map(AsRef::as_ref);
                    let (code, leader_epoch, end_offset) = look_up(found, asked);
                    EpochEndOffset {
                        error_code: code.to_i16(),
                        partition: asked.partition,
                        leader_epoch,
                        end_offset,
                        ..Default::default()
                    }
                })
                .collect(),
            topic: topic.topic,
            ..Default::default()
        })
        .collect();
    OffsetForLeaderEpochResponse { topics, ..Default::default() }
}

fn look_up(partition: Option<&Partition>, asked: &OffsetForLeaderPartition) -> (ErrorCode, i32, i64) {
    let Some(partition) = partition else { return (ErrorCode::UnknownTopicOrPartition, -1, -1) };
    if let Some(code) = leader_epoch_error(asked.current_leader_epoch) {
        return (code, -1, -1);
    }
    if partition.reader.damage().is_some() {
        return (ErrorCode::KafkaStorageError, -1, -1);
    }
    if asked.leader_epoch < -1 {
        // An epoch before the first: all of the log came after it.
        return (ErrorCode::None, asked.leader_epoch, partition.reader.watermarks().log_start_offset);
    }
    if asked.leader_epoch != LEADER_EPOCH {
        return (ErrorCode::None, -1, -1);
    }
    (ErrorCode::None, LEADER_EPOCH, partition.reader.watermarks().high_watermark)
}
