//! Produce (key 0), versions 3 to 13: appends record batches, one to a partition. (0 to 2 are listed and refused.)
//!
//! What can be said of a batch by itself is checked on the connection's task; what depends on state, on the writer:
//! the transaction (asked of its coordinator when none is open here yet), epoch, sequence, duplicates.
//!
//! - 3: transactions; batches of format 2. 4: none. 5: log start offset. 6: none. 7: zstd. 8: errors of single records.
//! - 9: flexible. 10: the leader, when it moved. 11: TRANSACTION_ABORTABLE. 12: writing adds the partition to the
//!   transaction (KIP-890). 13: topic ids.

use std::collections::BTreeMap;

use atonce_coordinator::transaction::{AddPartitions, Admission, Caller, Command, Reply as Decided, VerifyPartitions};
use atonce_kernel::{ProducerIdentity, Sequence, TopicPartition, TransactionalId};
use atonce_log::{Origin, TransactionVersion, Verification, VerificationGuard};
use atonce_protocol::messages::produce_request::ProduceRequest;
use atonce_protocol::messages::produce_response::{
    BatchIndexAndErrorMessage, PartitionProduceResponse, ProduceResponse, TopicProduceResponse,
};
use atonce_protocol::records::{
    BatchView, Compression, ProducedBatch, ProducedRules, RecordError, RecordView, recompress, renumber,
    validate_produced,
};
use atonce_protocol::wire::{Message as _, Reader};
use atonce_protocol::{ApiKey, ErrorCode};
use bytes::Bytes;

use super::{Api, Call, Incoming, Reply, Taken};
use crate::connection::PendingAnswer;
use crate::directory::{Topic, Topics};
use crate::engine::{Engine, Refusal, append_error_code, wall_clock};
use crate::topic_name;

pub(super) const API: Api = Api { key: ApiKey::Produce, versions: 3..=13, run };

/// Records that are looked at on the runtime's thread: more than so many bytes, or any that are compressed (a few may unpack to
/// very many), are looked at elsewhere, while all other connections go on.
const BYTES_LOOKED_AT_HERE: usize = 256 << 10;

#[expect(
    clippy::async_yields_async,
    reason = "the answer is awaited in its turn, after the next requests are taken in"
)]
fn run(mut incoming: Incoming) -> Taken {
    let request = match ProduceRequest::decode(&mut incoming.body, incoming.call.version) {
        Ok(request) => request,
        Err(error) => return Taken::Now(super::undecodable(&incoming.call, &error)),
    };
    if is_light(&incoming.call, &request) {
        let prepared = prepare(&incoming.call, request);
        return Taken::Now(incoming.prepared_on_engine::<ProduceRequest, Prepared>(prepared, handle));
    }
    Taken::Aside(Box::pin(async move {
        let call = incoming.call.clone();
        match incoming.call.shared.unpack_aside(move || prepare(&call, request)).await {
            Some(prepared) => incoming.prepared_on_engine::<ProduceRequest, Prepared>(prepared, handle),
            None => super::close("the request could not be unpacked: the broker is stopping".to_owned()),
        }
    }))
}

/// Whether all that is to be done with the batches is to walk over a few bytes.
fn is_light(call: &Call, request: &ProduceRequest) -> bool {
    let directory = call.shared.directory.topics();
    let mut bytes = 0;
    request.topic_data.iter().all(|data| {
        let topic = find_topic(call, &directory, &data.name, data.topic_id).ok();
        let is_packed_anew =
            topic.is_some_and(|topic| topic.settings.compression.is_some_and(|it| it != Compression::None));
        data.partition_data.iter().filter_map(|partition| partition.records.as_ref()).all(|records| {
            bytes += records.len();
            let compression = BatchView::new(records).ok().and_then(|batch| batch.compression().ok());
            !is_packed_anew && compression.is_none_or(|it| it == Compression::None) && bytes <= BYTES_LOOKED_AT_HERE
        })
    })
}

/// Most bytes that a compressed batch may hold.
const DECOMPRESSED_BYTES_MAX: usize = 256 << 20;

/// A version that is listed only because librdkafka reads more into the list than it says.
pub(super) fn of_a_version_gone(call: &Call, body: Reader) -> PendingAnswer {
    drop(body);
    super::close(format!("Produce version {} is not served any more", call.version))
}

/// A request whose batches have been looked at.
struct Prepared {
    /// Nobody waits for an answer.
    is_silent: bool,
    transactional_id: Option<TransactionalId>,
    topics: Vec<PreparedTopic>,
}

struct PreparedTopic {
    name: String,
    id: atonce_kernel::TopicId,
    partitions: Vec<PreparedPartition>,
}

struct PreparedPartition {
    partition: TopicPartition,
    /// What the head of the batch says, right or wrong.
    is_transactional: bool,
    batch: Result<PreparedBatch, Refused>,
}

/// A batch that is refused, and which of its records are to blame, by their index.
#[derive(Clone)]
struct Refused {
    refusal: Refusal,
    records: Vec<i32>,
    /// Where the log begins, if it came so far that the log was looked at; else -1.
    log_start_offset: i64,
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, records: Vec::new(), log_start_offset: -1 }
    }
}

struct PreparedBatch {
    bytes: Bytes,
    producer: ProducerIdentity,
    base_sequence: Sequence,
    is_transactional: bool,
}

fn prepare(call: &Call, request: ProduceRequest) -> Prepared {
    let directory = call.shared.directory.topics();
    let topics = request
        .topic_data
        .into_iter()
        // A topic to which nothing is written has no place in the answer.
        .filter(|data| !data.partition_data.is_empty())
        .map(|data| {
            let topic = find_topic(call, &directory, &data.name, data.topic_id);
            let name = topic.as_ref().map_or_else(|_| data.name.clone(), |topic| topic.name.as_str().to_owned());
            let partitions = data
                .partition_data
                .into_iter()
                .map(|partition| PreparedPartition {
                    partition: TopicPartition::new(name.as_str(), partition.index),
                    is_transactional: partition
                        .records
                        .as_ref()
                        .is_some_and(|bytes| BatchView::new(bytes).is_ok_and(|batch| batch.is_transactional())),
                    batch: topic
                        .clone()
                        .map_err(Refused::from)
                        .and_then(|topic| check_batch(call, topic, partition.index, partition.records)),
                })
                .collect();
            PreparedTopic { name: data.name, id: data.topic_id, partitions }
        })
        .collect();
    let mut prepared = Prepared {
        is_silent: request.acks == 0,
        transactional_id: request.transactional_id.map(TransactionalId::from),
        topics,
    };
    let refused = match request.acks {
        -1..=1 => check_transaction(&prepared),
        acks => {
            Err(Refusal::new(ErrorCode::InvalidRequiredAcks, format!("acks may be 0, 1 or -1 (all), and not {acks}.")))
        }
    };
    if let Err(refusal) = refused {
        for partition in prepared.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
            partition.batch = Err(refusal.clone().into());
        }
    }
    prepared
}

fn find_topic<'a>(
    call: &Call,
    directory: &'a Topics,
    name: &str,
    id: atonce_kernel::TopicId,
) -> Result<&'a Topic, Refusal> {
    let (found, unknown) = if call.version >= 13 {
        (directory.by_id(id), ErrorCode::UnknownTopicId)
    } else {
        (directory.by_name(name), ErrorCode::UnknownTopicOrPartition)
    };
    let topic = found.ok_or_else(|| Refusal::of(unknown))?;
    if topic_name::is_internal(topic.name.as_str()) {
        return Err(Refusal::new(
            ErrorCode::InvalidTopicException,
            format!("{} belongs to the broker, and clients may not write to it.", topic.name),
        ));
    }
    Ok(topic)
}

/// What can be said of a batch without any state.
fn check_batch(call: &Call, topic: &Topic, partition: i32, records: Option<Bytes>) -> Result<PreparedBatch, Refused> {
    let found = topic.partition(partition).ok_or_else(|| Refusal::of(ErrorCode::UnknownTopicOrPartition))?;
    let bytes = records.filter(|bytes| !bytes.is_empty()).ok_or_else(|| {
        Refusal::new(ErrorCode::InvalidRecord, "A partition gets exactly one batch, and this one got none.")
    })?;
    check_size(topic, bytes.len())?;
    // Keys are asked for below, where each record without one is found and named.
    let rules = ProducedRules { requires_keys: false, decompressed_bytes_max: decompressed_bytes_max(topic) };
    let judged_by_the_log =
        |refused: Refused| Refused { log_start_offset: found.reader.watermarks().log_start_offset, ..refused };
    let ProducedBatch { batch, is_numbered } = validate_produced(&bytes, rules).map_err(|error| {
        let refused = Refused::from(Refusal::new(code_of(&error), error.to_string()));
        // Up to version 6 the compression is looked at before: zstd is not allowed there.
        let is_told_before = call.version < 7 && matches!(error, RecordError::UnknownCompression { .. });
        if !is_told_before && is_seen_by_the_log(&bytes, &error) { judged_by_the_log(refused) } else { refused }
    })?;
    if call.version < 7 && batch.compression() == Ok(Compression::Zstd) {
        let message = "Produce requests up to version 6 may not carry zstd.";
        return Err(Refusal::new(ErrorCode::UnsupportedCompressionType, message).into());
    }
    if topic.settings.is_compacted {
        check_keys(topic, &batch).map_err(judged_by_the_log)?;
    }
    check_timestamps(topic, &batch).map_err(judged_by_the_log)?;
    let (producer, base_sequence, is_transactional) =
        (batch.producer(), batch.base_sequence(), batch.is_transactional());
    let bytes = if is_numbered { bytes.slice(..batch.size_bytes()) } else { number_anew(topic, &batch)? };
    let bytes = match topic.settings.compression {
        Some(asked) if batch.compression() != Ok(asked) => pack_anew(topic, &bytes, asked)?,
        Some(_) | None => bytes,
    };
    Ok(PreparedBatch { bytes, producer, base_sequence, is_transactional })
}

/// The batch with its records numbered from 0 on. Kafka does so where they are compressed, for the sake of old clients, and serves others
/// with the numbers they came with: two records of one offset.
fn number_anew(topic: &Topic, batch: &BatchView<'_>) -> Result<Bytes, Refusal> {
    let bytes = renumber(batch, decompressed_bytes_max(topic))
        .map_err(|error| Refusal::new(error.error_code(), error.to_string()))?;
    check_size(topic, bytes.len())?;
    Ok(bytes)
}

/// The batch as the topic wants it compressed. What was small enough before may have grown.
fn pack_anew(topic: &Topic, batch: &Bytes, compression: Compression) -> Result<Bytes, Refusal> {
    let bytes = BatchView::new(batch)
        .and_then(|batch| recompress(&batch, compression, decompressed_bytes_max(topic)))
        .map_err(|error| Refusal::new(error.error_code(), error.to_string()))?;
    check_size(topic, bytes.len())?;
    Ok(bytes)
}

fn decompressed_bytes_max(topic: &Topic) -> usize {
    topic.settings.decompressed_bytes_max.min(DECOMPRESSED_BYTES_MAX)
}

fn check_size(topic: &Topic, bytes: usize) -> Result<(), Refusal> {
    let bytes_max = topic.settings.batch_bytes_max;
    if i64::try_from(bytes).is_ok_and(|bytes| bytes <= i64::from(bytes_max)) {
        return Ok(());
    }
    let what = "bytes long, and max.message.bytes of";
    let message = format!("The batch is {bytes} {what} {} is {bytes_max}.", topic.name);
    Err(Refusal::new(ErrorCode::MessageTooLarge, message))
}

/// Kafka looks at the number of batches and their checksum before it opens the log, and at all else after.
fn is_seen_by_the_log(bytes: &[u8], error: &RecordError) -> bool {
    let is_one = BatchView::new(bytes).is_ok_and(|batch| batch.size_bytes() == bytes.len());
    is_one && error.error_code() != ErrorCode::CorruptMessage
}

/// A record from the far future would keep its segment for ever, one from the far past would lose it at once. A topic that
/// stamps its records itself does not mind.
fn check_timestamps(topic: &Topic, batch: &BatchView<'_>) -> Result<(), Refused> {
    if topic.settings.is_log_append_time {
        return Ok(());
    }
    let now = wall_clock().0;
    let latest = now.saturating_add(topic.settings.timestamp_after_ms_max);
    let earliest = now.saturating_sub(topic.settings.timestamp_before_ms_max);
    for timestamp in [batch.base_timestamp(), batch.max_timestamp()] {
        if timestamp >= 0 && !(earliest..=latest).contains(&timestamp) {
            let message =
                format!("Timestamp {timestamp} is out of the range {earliest} to {latest} of {}.", topic.name);
            let records = records_like(topic, batch, |record| !(earliest..=latest).contains(&record.timestamp))?;
            return Err(Refused { records, ..Refusal::new(ErrorCode::InvalidTimestamp, message).into() });
        }
    }
    Ok(())
}

/// A record without a key could never be replaced, so a compacted topic takes none.
fn check_keys(topic: &Topic, batch: &BatchView<'_>) -> Result<(), Refused> {
    let records = records_like(topic, batch, |record| record.key.is_none())?;
    if records.is_empty() {
        return Ok(());
    }
    let message =
        format!("Compacted topic {} cannot accept a record without a key: {} came.", topic.name, records.len());
    Err(Refused { records, ..Refusal::new(ErrorCode::InvalidRecord, message).into() })
}

/// The places of the records of which `is_meant` is true.
fn records_like(
    topic: &Topic,
    batch: &BatchView<'_>,
    is_meant: impl Fn(&RecordView<'_>) -> bool,
) -> Result<Vec<i32>, Refusal> {
    let unreadable = |error: RecordError| Refusal::new(code_of(&error), error.to_string());
    let payload = batch.decompress(decompressed_bytes_max(topic)).map_err(unreadable)?;
    let mut records = Vec::new();
    for record in batch.records_in(&payload) {
        let record = record.map_err(unreadable)?;
        if is_meant(&record) {
            records.push(record.offset_delta);
        }
    }
    Ok(records)
}

/// Kafka has no code of its own for what it cannot unpack.
fn code_of(error: &RecordError) -> ErrorCode {
    match error {
        RecordError::UnknownCompression { .. } | RecordError::Decompression { .. } => ErrorCode::UnknownServerError,
        error => error.error_code(),
    }
}

/// A request is part of one transaction at most, and says of which.
fn check_transaction(prepared: &Prepared) -> Result<(), Refusal> {
    let partitions = || prepared.topics.iter().flat_map(|topic| &topic.partitions);
    if prepared.transactional_id.is_none() && partitions().any(|partition| partition.is_transactional) {
        return Err(Refusal::new(
            ErrorCode::TransactionalIdAuthorizationFailed,
            "A transactional batch came in a request without a transactional id.",
        ));
    }
    let mut producers = partitions()
        .filter_map(|partition| partition.batch.as_ref().ok())
        .filter(|batch| batch.is_transactional)
        .map(|batch| batch.producer);
    let Some(first) = producers.next() else { return Ok(()) };
    if producers.any(|producer| producer != first) {
        return Err(Refusal::new(
            ErrorCode::InvalidProducerIdMapping,
            "Transactional batches of more than one producer came in one request.",
        ));
    }
    Ok(())
}

fn handle(engine: &mut Engine, call: &Call, prepared: Prepared, reply: Reply<ProduceResponse>) {
    let guards = verify(engine, call.version, &prepared);
    let responses: Vec<TopicProduceResponse> = prepared
        .topics
        .into_iter()
        .map(|topic| TopicProduceResponse {
            name: topic.name,
            topic_id: topic.id,
            partition_responses: topic
                .partitions
                .into_iter()
                .map(|prepared| {
                    let verified = guards.get(&prepared.partition).cloned().unwrap_or(Ok(None));
                    let appended =
                        prepared.batch.and_then(|batch| append(engine, &prepared.partition, &batch, verified));
                    respond(prepared.partition.partition, appended)
                })
                .collect(),
            ..Default::default()
        })
        .collect();
    if prepared.is_silent {
        responses.iter().for_each(|topic| {
            topic.partition_responses.iter().for_each(|it| {
                call.shared.metrics.refused(call.key, it.error_code);
            })
        });
        // Nobody reads an error here: only a closed connection tells that something was not written.
        let mut partitions = responses.iter().flat_map(|topic| &topic.partition_responses);
        let is_refused = partitions.any(|partition| partition.error_code != ErrorCode::None.to_i16());
        engine.release(move || if is_refused { drop(reply) } else { reply.send(None) });
    } else {
        engine.answer(reply, ProduceResponse { responses, ..Default::default() });
    }
}

/// For each partition where no transaction of this producer is open yet: the guard to append with, or the refusal.
type Guards = BTreeMap<TopicPartition, Result<Option<VerificationGuard>, Refusal>>;

/// Asks the coordinator about all partitions that the transaction is new to: whether they are in it, or, from version 12 on,
/// to add them.
fn verify(engine: &mut Engine, version: i16, prepared: &Prepared) -> Guards {
    let mut guards = Guards::new();
    let Some(transactional_id) = &prepared.transactional_id else { return guards };
    let caller = Caller::Produce { version };
    let adds = version >= 12;
    let rules = if adds { TransactionVersion::V2 } else { TransactionVersion::V1 };
    let mut asked = Vec::new();
    let mut producer = ProducerIdentity::NONE;
    for PreparedPartition { partition, batch, .. } in prepared.topics.iter().flat_map(|topic| &topic.partitions) {
        let Ok(batch) = batch else { continue };
        if !batch.is_transactional {
            continue;
        }
        producer = batch.producer;
        let now = engine.now;
        let verification = engine.storage().start_verification(partition, producer, batch.base_sequence, rules, now);
        match verification {
            Some(Verification::Needed(guard)) if adds || engine.verifies_transactions() => {
                asked.push((partition.clone(), guard))
            }
            Some(Verification::Needed(guard)) => {
                guards.insert(partition.clone(), Ok(Some(guard)));
            }
            Some(Verification::NotNeeded) => {
                guards.insert(partition.clone(), Ok(None));
            }
            None => {
                guards.insert(partition.clone(), Err(Refusal::of(ErrorCode::UnknownTopicOrPartition)));
            }
        }
    }
    if asked.is_empty() {
        return guards;
    }
    let command = if adds {
        Command::AddPartitions(AddPartitions {
            caller,
            transactional_id: transactional_id.clone(),
            producer,
            partitions: asked.iter().map(|(partition, _)| (partition.clone(), Admission::Exists)).collect(),
        })
    } else {
        Command::VerifyPartitions(VerifyPartitions {
            caller,
            transactional_id: transactional_id.clone(),
            producer,
            partitions: asked.iter().map(|(partition, _)| partition.clone()).collect(),
        })
    };
    let verdicts = match engine.transactions_now(transactional_id, &command) {
        Ok(Decided::Partitions(verdicts)) => verdicts.into_iter().map(|(_, code)| code).collect(),
        Ok(Decided::InitProducerId(_) | Decided::EndTxn(_)) => vec![ErrorCode::UnknownServerError; asked.len()],
        Err(code) => vec![put_to_writer(code); asked.len()],
    };
    for ((partition, guard), code) in asked.into_iter().zip(verdicts) {
        let verdict = if code.is_error() { Err(Refusal::of(code)) } else { Ok(Some(guard)) };
        guards.insert(partition, verdict);
    }
    guards
}

/// A writer does not look for coordinators: what of them may be tried again is put to it in its own words, as Kafka does.
fn put_to_writer(code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::CoordinatorNotAvailable | ErrorCode::NotCoordinator => ErrorCode::NotEnoughReplicas,
        code => code,
    }
}

fn append(
    engine: &mut Engine,
    partition: &TopicPartition,
    batch: &PreparedBatch,
    verified: Result<Option<VerificationGuard>, Refusal>,
) -> Result<atonce_log::Appended, Refused> {
    let guard = verified?;
    engine.append(partition, &batch.bytes, Origin::Client { guard }).map_err(|error| {
        let log = engine.storage().reader(partition);
        Refused {
            log_start_offset: log.map_or(-1, |log| log.watermarks().log_start_offset),
            ..Refusal::new(append_error_code(&error), error.to_string()).into()
        }
    })
}

fn respond(index: i32, appended: Result<atonce_log::Appended, Refused>) -> PartitionProduceResponse {
    match appended {
        Ok(appended) => PartitionProduceResponse {
            index,
            base_offset: appended.base_offset,
            log_append_time_ms: appended.log_append_time.0,
            log_start_offset: appended.log_start_offset,
            ..Default::default()
        },
        Err(Refused { refusal, records, log_start_offset }) => PartitionProduceResponse {
            index,
            error_code: refusal.code.to_i16(),
            base_offset: -1,
            log_start_offset,
            record_errors: records
                .into_iter()
                .map(|batch_index| BatchIndexAndErrorMessage { batch_index, ..Default::default() })
                .collect(),
            error_message: Some(refusal.message),
            ..Default::default()
        },
    }
}
