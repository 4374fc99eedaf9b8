//! Fetch (key 1), versions 4 to 18: record batches, whole, as they stand in the log.
//!
//! Waits up to `max_wait_ms` until `min_bytes` are there: below the high watermark, or below the last stable offset for
//! those who read committed. The first batch is returned whatever its size, so that a reader is never stuck behind one.
//! Sessions (KIP-227) are [`crate::fetch_sessions`]'s. Records in answers that clients do not take are bounded over all
//! connections (`queued.max.response.bytes`): then a fetch returns one batch.
//!
//! - 4: isolation level, aborted transactions. 5: log start offset. 7: sessions. 9: the leader epoch that the client knows.
//! - 11: rack. 12: flexible; the last epoch fetched. 13: topic ids. 15 to 18: for replicas, which there are none of.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use atonce_kernel::{TopicName, Uuid};
use atonce_log::{Batches, FileBatches, IsolationLevel, ReadError};
use atonce_protocol::messages::fetch_request::{FetchRequest, FetchTopic, ForgottenTopic};
use atonce_protocol::messages::fetch_response::{
    AbortedTransaction, FetchResponse, FetchableTopicResponse, PartitionData,
};
use atonce_protocol::wire::Message as _;
use atonce_protocol::{ApiKey, ErrorCode, frame};
use bytes::{Bytes, BytesMut};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{Api, Call, Incoming, Taken};
use crate::connection::{Answer, Piece};
use crate::directory::{Partition, Topic, Topics};
use crate::disk::StdFile;
use crate::fetch_sessions::{self, Asked, Request, Told, TopicRef};
use crate::shared::Room;
use crate::{LEADER_EPOCH, isolation_level, leader_epoch_error};

pub(super) const API: Api = Api { key: ApiKey::Fetch, versions: 4..=18, run };

/// Longest that a fetch waits, whatever it asks for: an answer that comes early is right for every client, and one that waits
/// for weeks only holds memory.
const WAIT_MS_MAX: i32 = 60_000;

/// As an API that is handled in place, but for the room that the answer's bytes take until the client has them.
fn run(mut incoming: Incoming) -> Taken {
    let request = match FetchRequest::decode(&mut incoming.body, incoming.call.version) {
        Ok(request) => request,
        Err(error) => return Taken::Now(super::undecodable(&incoming.call, &error)),
    };
    let Incoming { call, permit, .. } = incoming;
    // Nothing of this goes to the writer, and it may wait for long.
    drop(permit);
    Taken::Now(Box::pin(async move {
        let (response, files, room) = handle(&call, request).await;
        if files.iter().any(Option::is_some) {
            return answer_with_files(&call, &response, files, room);
        }
        match super::answer(&call, &response) {
            Answer::Frame(bytes) => Answer::Large(bytes, room),
            other => other,
        }
    }))
}

/// Batches in files, for each partition of an answer that has its batches there.
type Files = Vec<Option<FileBatches<StdFile>>>;

/// The answer, around the batches that are sent from their files.
fn answer_with_files(call: &Call, response: &FetchResponse, files: Files, room: Room) -> Answer {
    response.error_codes(&mut |code| call.shared.metrics.refused(call.key, code));
    let lengths: Vec<usize> = files.iter().map(|file| file.as_ref().map_or(0, FileBatches::bytes)).collect();
    let around = frame::encode_response_around(call.key, call.version, call.correlation_id, response, &lengths);
    let around = match around {
        Ok(around) => around,
        Err(error) => return super::not_encoded(call.key, call.version, &error),
    };
    let mut files = files.into_iter().flatten();
    let with_file = |bytes| [Some(Piece::Bytes(bytes)), files.next().map(Piece::File)];
    Answer::Pieces(around.into_iter().flat_map(with_file).flatten().collect(), room)
}

async fn handle(call: &Call, request: FetchRequest) -> (FetchResponse, Files, Room) {
    let refuse = |code: ErrorCode| {
        (FetchResponse { error_code: code.to_i16(), ..Default::default() }, Files::new(), Room::default())
    };
    let limits = Limits {
        isolation: isolation_level(request.isolation_level),
        is_below_zero: request.max_bytes < 0,
        bytes_max: request.max_bytes.min(call.shared.settings.fetch_bytes_max).max(0) as usize,
    };
    let wait_ms = request.max_wait_ms.clamp(0, WAIT_MS_MAX);
    let bytes_min = request.min_bytes.max(0) as usize;
    let plan = match call.shared.fetch_sessions.begin(of_request(call, request), call.shared.uptime_ms()) {
        Ok(plan) => plan,
        Err(code) => return refuse(code),
    };
    let asked = Arc::new(plan.asked.clone());
    let deadline = Instant::now() + Duration::from_millis(u64::try_from(wait_ms).unwrap_or(0));
    let bell = Bell::default();
    let (attempt, room) = loop {
        let (attempt, room) = read_where_it_belongs(call, &asked, limits).await;
        if attempt.is_enough || attempt.bytes >= bytes_min {
            break (attempt, room);
        }
        // What waits holds no room.
        drop(room);
        // The bells are left before the read that counts: what moves in between rings them.
        if bell.leave(&attempt.partitions) {
            continue;
        }
        if tokio::time::timeout_at(deadline, bell.notify.notified()).await.is_err() {
            break read_where_it_belongs(call, &asked, limits).await;
        }
    };
    drop(bell);
    let Some(answers) = attempt.answers else { return refuse(ErrorCode::KafkaStorageError) };
    let told: Vec<Told> = answers.iter().map(told).collect();
    match call.shared.fetch_sessions.finish(plan, &told, call.shared.uptime_ms()) {
        Err(code) => refuse(code),
        Ok(answered) => {
            let included = asked.iter().zip(answers).zip(answered.included).filter(|(_, is_included)| *is_included);
            let (mut responses, mut files) = by_topic(included.map(|(answer, _)| answer));
            if call.version >= 13 && limits.isolation.is_err() {
                responses.clear();
                files.clear();
            }
            let code = limits.isolation.map_or_else(|code| code, |_| ErrorCode::None);
            let error_code = code.to_i16();
            (
                FetchResponse { error_code, session_id: answered.session_id, responses, ..Default::default() },
                files,
                room,
            )
        }
    }
}

/// What the request says, without what we do not use. Each partition once: reading one again and again, and waiting at it as
/// often, would be much work for a few bytes.
fn of_request(call: &Call, request: FetchRequest) -> Request {
    let uses_ids = call.version >= 13;
    let topic = |name: String, id| if uses_ids { TopicRef::Id(id) } else { TopicRef::Name(TopicName::from(name)) };
    let mut asked = Vec::new();
    for FetchTopic { topic: name, topic_id, partitions, .. } in request.topics {
        let topic = topic(name, topic_id);
        asked.extend(partitions.into_iter().map(|partition| Asked {
            topic: topic.clone(),
            partition: partition.partition,
            fetch_offset: partition.fetch_offset,
            bytes_max: partition.partition_max_bytes,
            leader_epoch: partition.current_leader_epoch,
            last_fetched_epoch: partition.last_fetched_epoch,
        }));
    }
    fetch_sessions::without_repetition(&mut asked);
    let mut forgotten = Vec::new();
    for ForgottenTopic { topic: name, topic_id, partitions, .. } in request.forgotten_topics_data {
        let topic = topic(name, topic_id);
        forgotten.extend(partitions.into_iter().map(|partition| (topic.clone(), partition)));
    }
    Request { session_id: request.session_id, epoch: request.session_epoch, uses_ids, asked, forgotten }
}

/// What is answered about a partition.
struct PartitionAnswer {
    data: PartitionData,
    /// Its batches, if they are sent from there: `data` has none then.
    file: Option<FileBatches<StdFile>>,
}

impl PartitionAnswer {
    fn bytes_in_memory(&self) -> usize {
        self.data.records.as_ref().map_or(0, Bytes::len)
    }

    fn bytes(&self) -> usize {
        self.file.as_ref().map_or(self.bytes_in_memory(), FileBatches::bytes)
    }
}

fn told(answer: &PartitionAnswer) -> Told {
    Told {
        is_error: answer.data.error_code != ErrorCode::None.to_i16(),
        has_records: answer.bytes() > 0,
        high_watermark: answer.data.high_watermark,
        log_start_offset: answer.data.log_start_offset,
    }
}

/// Neighbours of one topic stand together. Files are in the order of the partitions.
fn by_topic<'a>(answers: impl Iterator<Item = (&'a Asked, PartitionAnswer)>) -> (Vec<FetchableTopicResponse>, Files) {
    let mut responses: Vec<FetchableTopicResponse> = Vec::new();
    let mut files = Files::new();
    let mut last: Option<&TopicRef> = None;
    for (asked, PartitionAnswer { data, file }) in answers {
        if last != Some(&asked.topic) {
            let (topic, topic_id) = match &asked.topic {
                TopicRef::Name(name) => (name.as_str().to_owned(), Uuid::ZERO),
                TopicRef::Id(id) => (String::new(), *id),
            };
            responses.push(FetchableTopicResponse { topic, topic_id, ..Default::default() });
            last = Some(&asked.topic);
        }
        if let Some(response) = responses.last_mut() {
            response.partitions.push(data);
            files.push(file);
        }
    }
    (responses, files)
}

/// What one fetch may have.
#[derive(Clone, Copy)]
struct Limits {
    /// Or what all partitions are refused with, for a level that nobody has.
    isolation: Result<IsolationLevel, ErrorCode>,
    /// The request allows less than no bytes, which is answered as Kafka does.
    is_below_zero: bool,
    bytes_max: usize,
}

/// What one pass over the partitions found.
struct Attempt {
    /// In the order of what was asked. `None`: it could not be read at all.
    answers: Option<Vec<PartitionAnswer>>,
    bytes: usize,
    /// Those that are not in files.
    bytes_in_memory: usize,
    /// An error, or nothing asked for: waiting would change nothing.
    is_enough: bool,
    partitions: Vec<Arc<Partition>>,
}

/// Reads here what is in memory, and what needs a file on another thread. With it comes the room that was taken for the bytes.
async fn read_where_it_belongs(call: &Call, asked: &Arc<Vec<Asked>>, limits: Limits) -> (Attempt, Room) {
    // Where answers that nobody takes fill the memory, the next ones are short: one batch, so that all go on.
    let of_partitions = asked.iter().map(|asked| usize::try_from(asked.bytes_max).unwrap_or(0));
    let wanted = of_partitions.fold(0, usize::saturating_add).min(limits.bytes_max);
    let (mut room, bytes_max) = call.shared.answers.up_to(wanted);
    let limits = Limits { bytes_max, ..limits };
    let attempt = if needs_file(call, asked) {
        let (asking, asked) = (call.clone(), Arc::clone(asked));
        call.shared.read_aside(move || read(&asking, &asked, limits)).await.unwrap_or_else(|| Attempt {
            answers: None,
            bytes: 0,
            bytes_in_memory: 0,
            is_enough: true,
            partitions: Vec::new(),
        })
    } else {
        read(call, asked, limits)
    };
    room.shrink_to(attempt.bytes_in_memory);
    (attempt, room)
}

fn topic_of<'a>(topics: &'a Topics, asked: &TopicRef) -> Option<&'a Arc<Topic>> {
    match asked {
        TopicRef::Name(name) => topics.by_name(name.as_str()),
        TopicRef::Id(id) => topics.by_id(*id),
    }
}

fn needs_file(call: &Call, asked: &[Asked]) -> bool {
    let topics = call.shared.directory.topics();
    asked.iter().any(|asked| {
        let found = topic_of(&topics, &asked.topic).and_then(|topic| topic.partition(asked.partition));
        found.is_some_and(|found| !found.reader.is_in_memory(asked.fetch_offset))
    })
}

fn read(call: &Call, asked: &[Asked], limits: Limits) -> Attempt {
    let topics = call.shared.directory.topics();
    let mut room = limits.bytes_max;
    let is_enough = asked.is_empty();
    let mut attempt = Attempt { answers: None, bytes: 0, bytes_in_memory: 0, is_enough, partitions: Vec::new() };
    let mut answers = Vec::with_capacity(asked.len());
    for asked in asked {
        let topic = topic_of(&topics, &asked.topic).map(Arc::as_ref);
        let (found, isolation) = match limits.isolation.and_then(|isolation| Ok((find(topic, asked)?, isolation))) {
            Ok(found) => found,
            Err(code) => {
                attempt.is_enough = true;
                answers.push(refuse(asked, code));
                continue;
            }
        };
        let answer = if limits.is_below_zero || asked.bytes_max < 0 {
            refuse_read(asked, ErrorCode::UnknownServerError)
        } else {
            read_partition(call, found, asked, isolation, room, attempt.bytes == 0)
        };
        attempt.bytes += answer.bytes();
        attempt.bytes_in_memory += answer.bytes_in_memory();
        room = room.saturating_sub(answer.bytes());
        attempt.is_enough |= answer.data.error_code != ErrorCode::None.to_i16();
        attempt.partitions.push(Arc::clone(found));
        answers.push(answer);
    }
    attempt.answers = Some(answers);
    attempt
}

fn find<'a>(topic: Option<&'a Topic>, asked: &Asked) -> Result<&'a Arc<Partition>, ErrorCode> {
    let unknown = match asked.topic {
        TopicRef::Id(_) => ErrorCode::UnknownTopicId,
        TopicRef::Name(_) => ErrorCode::UnknownTopicOrPartition,
    };
    let partition = topic.ok_or(unknown)?.partition(asked.partition).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    Ok(partition)
}

/// Fewer bytes than these are read at once, also where they could be sent from their file.
const SENT_FROM_FILE_BYTES_MIN: usize = 16 << 10;

fn read_partition(
    call: &Call,
    partition: &Partition,
    asked: &Asked,
    isolation: IsolationLevel,
    room: usize,
    is_first: bool,
) -> PartitionAnswer {
    // Here, unlike elsewhere, all below zero is none.
    if let Some(code) = leader_epoch_error(asked.leader_epoch.max(-1)) {
        return refuse_read(asked, code);
    }
    // What was read under a leader that never was has no place in this log.
    if asked.last_fetched_epoch > LEADER_EPOCH {
        return refuse_read(asked, ErrorCode::OffsetOutOfRange);
    }
    let wanted = usize::try_from(asked.bytes_max).unwrap_or(0).min(room);
    // With no room left only the watermarks are told; the first batch comes whatever its size.
    let bytes_max = if is_first { wanted.max(1) } else { wanted };
    let found = match partition.reader.find(asked.fetch_offset, bytes_max, isolation) {
        Ok(found) => found,
        Err(error) => return refuse_read(asked, code_of(partition, &error)),
    };
    // Later partitions keep to what is left; a single batch that is larger would break the limit for nothing.
    let is_too_much = !is_first && found.batches.bytes() > wanted;
    let (records, file) = match found.batches {
        _ if is_too_much => (Bytes::new(), None),
        Batches::Memory(batches) => (joined(batches), None),
        Batches::File(batches) if call.peer.takes_files && batches.bytes() >= SENT_FROM_FILE_BYTES_MIN => {
            batches.file().announce(batches.position(), batches.bytes());
            (Bytes::new(), Some(batches))
        }
        Batches::File(batches) => match batches.read() {
            Ok(batches) => (joined(batches), None),
            Err(error) => return refuse_read(asked, code_of(partition, &error)),
        },
    };
    let watermarks = found.watermarks;
    let aborted_transactions = found.aborted.map(|aborted| {
        aborted
            .iter()
            .map(|aborted| AbortedTransaction {
                producer_id: aborted.producer_id.0,
                first_offset: aborted.first_offset,
                ..Default::default()
            })
            .collect()
    });
    let data = PartitionData {
        partition_index: asked.partition,
        high_watermark: watermarks.high_watermark,
        last_stable_offset: watermarks.last_stable_offset,
        log_start_offset: watermarks.log_start_offset,
        aborted_transactions,
        records: Some(records),
        ..Default::default()
    };
    PartitionAnswer { data, file }
}

fn code_of(partition: &Partition, error: &ReadError) -> ErrorCode {
    match error {
        ReadError::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
        ReadError::Deleted(_) => ErrorCode::UnknownTopicOrPartition,
        // Said once, at the start.
        ReadError::Offline { .. } => ErrorCode::KafkaStorageError,
        ReadError::Disk { .. } | ReadError::Corrupt { .. } => {
            tracing::error!(partition = %partition.topic_partition, %error, "a read failed");
            ErrorCode::KafkaStorageError
        }
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

fn refuse(asked: &Asked, code: ErrorCode) -> PartitionAnswer {
    let data = PartitionData {
        partition_index: asked.partition,
        error_code: code.to_i16(),
        high_watermark: -1,
        last_stable_offset: -1,
        log_start_offset: -1,
        records: Some(Bytes::new()),
        ..Default::default()
    };
    PartitionAnswer { data, file: None }
}

/// A refusal by the log itself: with no list of aborted transactions at all, as Kafka has it.
fn refuse_read(asked: &Asked, code: ErrorCode) -> PartitionAnswer {
    let mut answer = refuse(asked, code);
    answer.data.aborted_transactions = None;
    answer
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
