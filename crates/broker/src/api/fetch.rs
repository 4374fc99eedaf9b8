//! Fetch (key 1), versions 4 to 18: record batches, whole, as they stand in the log.
//!
//! Waits up to `max_wait_ms` until `min_bytes` are there: below the high watermark, or below the last stable offset for
//! those who read committed. The first batch is returned whatever its size, so that a reader is never stuck behind one.
//! Sessions are not kept: every answer says session 0, which is right for every client.
//!
//! - 4: isolation level, aborted transactions. 5: log start offset. 7: sessions. 9: the leader epoch that the client knows.
//! - 11: rack. 12: flexible; the last epoch fetched. 13: topic ids. 15 to 18: for replicas, which there are none of.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use atonce_log::{IsolationLevel, ReadError};
use atonce_protocol::messages::fetch_request::{FetchPartition, FetchRequest};
use atonce_protocol::messages::fetch_response::{
    AbortedTransaction, FetchResponse, FetchableTopicResponse, PartitionData,
};
use atonce_protocol::{ApiKey, ErrorCode};
use bytes::{Bytes, BytesMut};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{Api, Call};
use crate::directory::{Partition, Topic};
use crate::leader_epoch_error;

pub(super) const API: Api = Api { key: ApiKey::Fetch, versions: 4..=18, run: |incoming| incoming.in_place(handle) };

/// Longest that a fetch waits, whatever it asks for: an answer that comes early is right for every client, and one that waits
/// for weeks only holds memory.
const WAIT_MS_MAX: i32 = 60_000;

async fn handle(call: Call, request: FetchRequest) -> FetchResponse {
    // A session that we never gave.
    if request.session_id != 0 && request.session_epoch > 0 {
        return FetchResponse { error_code: ErrorCode::FetchSessionIdNotFound.to_i16(), ..Default::default() };
    }
    if request.session_id == 0 && request.session_epoch > 0 {
        return FetchResponse { error_code: ErrorCode::InvalidFetchSessionEpoch.to_i16(), ..Default::default() };
    }
    let request = Arc::new(without_repetition(request));
    let wait_ms = request.max_wait_ms.clamp(0, WAIT_MS_MAX);
    let deadline = Instant::now() + Duration::from_millis(u64::try_from(wait_ms).unwrap_or(0));
    let bell = Bell::default();
    loop {
        let attempt = read_where_it_belongs(&call, &request).await;
        if attempt.is_enough || attempt.bytes >= request.min_bytes.max(0) as usize {
            return attempt.response;
        }
        // The bells are left before the read that counts: what moves in between rings them.
        if bell.leave(&attempt.partitions) {
            continue;
        }
        if tokio::time::timeout_at(deadline, bell.notify.notified()).await.is_err() {
            return read_where_it_belongs(&call, &request).await.response;
        }
    }
}

/// Each partition once, and without what we do not use: reading one again and again, and waiting at it as often, would be much
/// work for a few bytes.
fn without_repetition(mut request: FetchRequest) -> FetchRequest {
    request.forgotten_topics_data = Vec::new();
    let mut seen = BTreeSet::new();
    for topic in &mut request.topics {
        let (name, id) = (topic.topic.clone(), topic.topic_id);
        topic.partitions.retain(|partition| seen.insert((name.clone(), id, partition.partition)));
    }
    request.topics.retain(|topic| !topic.partitions.is_empty());
    request
}

/// What one pass over the request found.
struct Attempt {
    response: FetchResponse,
    bytes: usize,
    /// An error, or nothing asked for: waiting would change nothing.
    is_enough: bool,
    partitions: Vec<Arc<Partition>>,
}

/// Reads here what is in memory, and what needs a file on another thread.
async fn read_where_it_belongs(call: &Call, request: &Arc<FetchRequest>) -> Attempt {
    if !needs_file(call, request) {
        return read(call, request);
    }
    let (asking, asked) = (call.clone(), Arc::clone(request));
    let found = call.shared.read_aside(move || read(&asking, &asked)).await;
    found.unwrap_or_else(|| Attempt {
        response: FetchResponse { error_code: ErrorCode::KafkaStorageError.to_i16(), ..Default::default() },
        bytes: 0,
        is_enough: true,
        partitions: Vec::new(),
    })
}

fn needs_file(call: &Call, request: &FetchRequest) -> bool {
    let topics = call.shared.directory.topics();
    request.topics.iter().any(|asked| {
        let topic = if call.version >= 13 { topics.by_id(asked.topic_id) } else { topics.by_name(&asked.topic) };
        topic.is_some_and(|topic| {
            asked.partitions.iter().any(|partition| {
                let found = topic.partition(partition.partition);
                found.is_some_and(|found| !found.reader.is_in_memory(partition.fetch_offset))
            })
        })
    })
}

fn read(call: &Call, request: &FetchRequest) -> Attempt {
    let topics = call.shared.directory.topics();
    let isolation =
        if request.isolation_level == 1 { IsolationLevel::ReadCommitted } else { IsolationLevel::ReadUncommitted };
    let mut room = request.max_bytes.min(call.shared.settings.fetch_bytes_max).max(0) as usize;
    let mut attempt = Attempt {
        response: FetchResponse::default(),
        bytes: 0,
        is_enough: request.topics.iter().all(|topic| topic.partitions.is_empty()),
        partitions: Vec::new(),
    };
    for asked in &request.topics {
        let topic = if call.version >= 13 { topics.by_id(asked.topic_id) } else { topics.by_name(&asked.topic) };
        let unknown = if call.version >= 13 { ErrorCode::UnknownTopicId } else { ErrorCode::UnknownTopicOrPartition };
        let partitions = asked
            .partitions
            .iter()
            .map(|partition| {
                let found = match find(topic.map(Arc::as_ref), partition, unknown) {
                    Ok(found) => found,
                    Err(code) => {
                        attempt.is_enough = true;
                        return refuse(partition, code);
                    }
                };
                let data = read_partition(found, partition, isolation, room, attempt.bytes == 0);
                let bytes = data.records.as_ref().map_or(0, Bytes::len);
                attempt.bytes += bytes;
                room = room.saturating_sub(bytes);
                attempt.is_enough |= data.error_code != ErrorCode::None.to_i16();
                attempt.partitions.push(Arc::clone(found));
                data
            })
            .collect();
        attempt.response.responses.push(FetchableTopicResponse {
            topic: asked.topic.clone(),
            topic_id: asked.topic_id,
            partitions,
            ..Default::default()
        });
    }
    attempt
}

fn find<'a>(
    topic: Option<&'a Topic>,
    asked: &FetchPartition,
    unknown: ErrorCode,
) -> Result<&'a Arc<Partition>, ErrorCode> {
    let partition = topic.ok_or(unknown)?.partition(asked.partition).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    leader_epoch_error(asked.current_leader_epoch).map_or(Ok(partition), Err)
}

fn read_partition(
    partition: &Partition,
    asked: &FetchPartition,
    isolation: IsolationLevel,
    room: usize,
    is_first: bool,
) -> PartitionData {
    let wanted = usize::try_from(asked.partition_max_bytes).unwrap_or(0).min(room);
    // With no room left only the watermarks are told; the first batch comes whatever its size.
    let bytes_max = if is_first { wanted.max(1) } else { wanted };
    let read = match partition.reader.read(asked.fetch_offset, bytes_max, isolation) {
        Ok(read) => read,
        Err(error) => {
            let code = match &error {
                ReadError::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
                ReadError::Deleted(_) => ErrorCode::UnknownTopicOrPartition,
                ReadError::Disk { .. } | ReadError::Corrupt { .. } => {
                    tracing::error!(partition = %partition.topic_partition, %error, "a read failed");
                    ErrorCode::KafkaStorageError
                }
            };
            return refuse(asked, code);
        }
    };
    let watermarks = read.watermarks;
    let aborted_transactions = read.aborted.map(|aborted| {
        aborted
            .iter()
            .map(|aborted| AbortedTransaction {
                producer_id: aborted.producer_id.0,
                first_offset: aborted.first_offset,
                ..Default::default()
            })
            .collect()
    });
    // Later partitions keep to what is left; a single batch that is larger would break the limit for nothing.
    let is_too_much = !is_first && read.batches.iter().map(Bytes::len).sum::<usize>() > wanted;
    PartitionData {
        partition_index: asked.partition,
        high_watermark: watermarks.high_watermark,
        last_stable_offset: watermarks.last_stable_offset,
        log_start_offset: watermarks.log_start_offset,
        aborted_transactions,
        records: Some(if is_too_much { Bytes::new() } else { joined(read.batches) }),
        ..Default::default()
    }
}

fn joined(mut batches: Vec<Bytes>) -> Bytes {
    if batches.len() <= 1 {
        return batches.pop().unwrap_or_default();
    }
    let mut bytes = BytesMut::with_capacity(batches.iter().map(Bytes::len).sum());
    batches.iter().for_each(|batch| bytes.extend_from_slice(batch));
    bytes.freeze()
}

fn refuse(asked: &FetchPartition, code: ErrorCode) -> PartitionData {
    PartitionData {
        partition_index: asked.partition,
        error_code: code.to_i16(),
        high_watermark: -1,
        last_stable_offset: -1,
        log_start_offset: -1,
        records: Some(Bytes::new()),
        ..Default::default()
    }
}

/// Rung by any partition of one fetch; taken away from all of them when dropped.
#[derive(Default)]
struct Bell {
    notify: Arc<Notify>,
    left: std::sync::Mutex<BTreeMap<u64, Arc<Partition>>>,
}

/// Every bell left anywhere has a number of its own.
static BELLS: AtomicU64 = AtomicU64::new(0);

impl Bell {
    /// Leaves the bell at `partitions`. True the first time, when something may have moved before it hung.
    fn leave(&self, partitions: &[Arc<Partition>]) -> bool {
        let mut left = self.left.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !left.is_empty() {
            return false;
        }
        for partition in partitions {
            let number = BELLS.fetch_add(1, Ordering::Relaxed);
            partition.leave_bell(number, Arc::clone(&self.notify));
            left.insert(number, Arc::clone(partition));
        }
        !partitions.is_empty()
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        let left = self.left.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        for (number, partition) in std::mem::take(left) {
            partition.take_bell(number);
        }
    }
}
