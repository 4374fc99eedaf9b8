//! ListOffsets (key 2), versions 1 to 11: the offset at a time, or one of the named ends of a partition.
//!
//! The latest offset is the high watermark, and the last stable offset for those who read committed; a time is looked up
//! below the same bound.
//!
//! - 2: isolation level. 4: leader epochs. 6: flexible. 7: the offset of the largest timestamp (-3).
//! - 8: earliest local (-4), the earliest here. 9: latest tiered (-5) and 11: earliest not yet tiered (-6): without tiers
//!   there is no such offset. 10: a time-out.

use std::collections::BTreeMap;
use std::sync::Arc;

use atonce_kernel::Timestamp;
use atonce_log::IsolationLevel;
use atonce_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsRequest};
use atonce_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse,
};
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call};
use crate::directory::Partition;
use crate::{LEADER_EPOCH, isolation_level, leader_epoch_error};

pub(super) const API: Api =
    Api { key: ApiKey::ListOffsets, versions: 1..=11, run: |incoming| incoming.in_place(handle) };

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;

async fn handle(call: Call, request: ListOffsetsRequest) -> ListOffsetsResponse {
    let mut partitions = request.topics.iter().flat_map(|topic| &topic.partitions);
    if !partitions.any(|partition| partition.timestamp >= 0 || partition.timestamp == MAX_TIMESTAMP) {
        return answer(&call, &request);
    }
    // A look-up by time reads files and unpacks batches.
    let shared = Arc::clone(&call.shared);
    let found = shared.look_up_aside(move || answer(&call, &request)).await;
    found.unwrap_or_default()
}

fn answer(call: &Call, request: &ListOffsetsRequest) -> ListOffsetsResponse {
    // As Kafka does: a partition that is named twice is answered once, and looked up for neither.
    let mut times_named: BTreeMap<(&str, i32), u32> = BTreeMap::new();
    for topic in &request.topics {
        for partition in &topic.partitions {
            *times_named.entry((&topic.name, partition.partition_index)).or_default() += 1;
        }
    }
    let topics = call.shared.directory.topics();
    let isolation = isolation_level(request.isolation_level);
    let mut response = ListOffsetsResponse::default();
    for topic in &request.topics {
        let mut partitions = Vec::new();
        for asked in &topic.partitions {
            // Taken by the first that names it.
            let found = match times_named.remove(&(topic.name.as_str(), asked.partition_index)) {
                None => continue,
                Some(1) => isolation.and_then(|isolation| {
                    let partition = topics.partition(&topic.name, asked.partition_index);
                    look_up(call, partition.ok_or(ErrorCode::UnknownTopicOrPartition)?, asked, isolation)
                }),
                Some(_) => Err(ErrorCode::InvalidRequest),
            };
            partitions.push(respond(call, asked, found));
        }
        if !partitions.is_empty() {
            response.topics.push(ListOffsetsTopicResponse {
                name: topic.name.clone(),
                partitions,
                ..Default::default()
            });
        }
    }
    response
}

/// A timestamp and its offset; -1 and -1 where there is none.
fn look_up(
    call: &Call,
    partition: &Partition,
    asked: &ListOffsetsPartition,
    isolation: IsolationLevel,
) -> Result<(i64, i64), ErrorCode> {
    if let Some(code) = leader_epoch_error(asked.current_leader_epoch) {
        return Err(code);
    }
    if partition.reader.damage().is_some() {
        return Err(ErrorCode::KafkaStorageError);
    }
    let failed = |error| {
        tracing::error!(partition = %partition.topic_partition, %error, "a lookup failed");
        ErrorCode::KafkaStorageError
    };
    let ends = partition.reader.watermarks();
    let found = match asked.timestamp {
        LATEST => return Ok((-1, ends.end(isolation))),
        EARLIEST => return Ok((-1, ends.log_start_offset)),
        EARLIEST_LOCAL if call.version >= 8 => return Ok((-1, ends.log_start_offset)),
        LATEST_TIERED if call.version >= 9 => None,
        EARLIEST_PENDING_UPLOAD if call.version >= 11 => None,
        MAX_TIMESTAMP if call.version >= 7 => partition.reader.offset_of_max_timestamp(isolation).map_err(failed)?,
        timestamp if timestamp >= 0 => {
            partition.reader.offset_for_timestamp(Timestamp(timestamp), isolation).map_err(failed)?
        }
        _ => return Err(ErrorCode::UnsupportedVersion),
    };
    Ok(found.map_or((-1, -1), |found| (found.timestamp.0, found.offset)))
}

fn respond(
    call: &Call,
    asked: &ListOffsetsPartition,
    found: Result<(i64, i64), ErrorCode>,
) -> ListOffsetsPartitionResponse {
    let mut response = ListOffsetsPartitionResponse { partition_index: asked.partition_index, ..Default::default() };
    match found {
        Ok((timestamp, offset)) => {
            response.timestamp = timestamp;
            response.offset = offset;
            if call.version >= 4 && offset >= 0 {
                response.leader_epoch = LEADER_EPOCH;
            }
        }
        Err(code) => response.error_code = code.to_i16(),
    }
    response
}
