//! The producer: records are collected into batches, batches get sequences when they leave, and keep them until their
//! fate is known.
//!
//! **What it does not know**: sockets, who waits for a record, how metadata is fetched. Its host appends records, sends
//! what [`Producer::poll_request`] says, and hands back every answer, or says that it was lost.
//!
//! Per partition a batch goes `queued -> in flight -> acknowledged`, or back from `in flight` to `retry`, in the order of
//! its sequence. While something is to be sent again, nothing new leaves, so that order holds.
//!
//! Invariants: a sequence, once it has left, is never given to other content under the same identity; at most
//! [`IN_FLIGHT_MAX`] requests are in flight to a node, and so at most as many batches of a partition; a batch whose fate
//! is unknown is never sent under another identity.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use atonce_kernel::{Monotonic, Offset, ProducerIdentity, Sequence, Timestamp, TopicName, TopicPartition};
use atonce_protocol::ErrorCode;
use atonce_protocol::records::{
    BATCH_HEADER_BYTES, BatchBuilder, BatchOptions, BatchView, Compression, record_bytes_max, set_producer,
};
use bytes::{Bytes, BytesMut};

use crate::backoff::Backoff;
use crate::classify::{Operation, Verdict};
use crate::error::{RecordError, Refusal, TransactionError};
use crate::metadata::Metadata;
use crate::transaction::{
    CONCURRENT_TRANSACTIONS_BACKOFF, CoordinatorCall, CoordinatorReply, CoordinatorRequest, Protocol,
    TransactionManager,
};

/// Requests in flight to a node. Five, because a broker remembers the last five batches of a producer and a partition:
/// with more, a repeated one could be older than its memory.
pub const IN_FLIGHT_MAX: usize = 5;

/// The most that a batch may decompress to when it must be split; it was built by ourselves, so this only bounds a mistake.
const SPLIT_BYTES_MAX: usize = 256 * 1024 * 1024;

/// A record's header. Several of one key may stand in a record; their order is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The key.
    pub key: String,
    /// The value; it may be absent.
    pub value: Option<Bytes>,
}

/// What a producer is told once.
#[derive(Clone, Debug)]
pub struct ProducerConfig {
    /// How long a batch waits for more records.
    pub linger: Duration,
    /// How batches are compressed.
    pub compression: Compression,
    /// The size a batch is closed at, before compression.
    pub batch_bytes_max: usize,
    /// The size of a request, and so of a single record's batch.
    pub request_bytes_max: usize,
    /// How long a record may take to be acknowledged.
    pub delivery_timeout: Duration,
    /// How long to wait before something is sent again.
    pub retry_backoff: Backoff,
}

/// A batch, by the order in which batches were opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchId(pub u64);

/// A request to write, by the order in which they were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// Where a record went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Its batch.
    pub batch: BatchId,
    /// Its place in the batch.
    pub index: u32,
    /// It opened the batch.
    pub is_first: bool,
    /// Another batch of the partition was closed for it.
    pub has_closed_another: bool,
}

/// A record that no batch may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record of {bytes} bytes is larger than the {bytes_max} that may be sent")]
pub struct TooLarge {
    /// Its size.
    pub bytes: usize,
    /// What may be.
    pub bytes_max: usize,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// Ask a coordinator; for a producer that is not transactional, any broker.
    Coordinator(CoordinatorCall),
    /// Write batches.
    Produce(ProduceCall),
    /// Look these topics up, then call [`Producer::handle_metadata`].
    RefreshMetadata(Vec<TopicName>),
}

/// Batches to write, at most one of each partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProduceCall {
    /// Names the answer.
    pub id: CallId,
    /// The leader of them all.
    pub node: i32,
    /// The transaction's protocol, which bounds the version; `None` outside transactions.
    pub protocol: Option<Protocol>,
    /// The batches.
    pub batches: Vec<(TopicPartition, Bytes)>,
}

/// A broker's yes to a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The first record's offset, if the broker says it.
    pub base_offset: Option<Offset>,
    /// When it was appended, if the topic is to say that instead of the records' own time.
    pub log_append_time: Option<Timestamp>,
}

/// A broker's answer for one batch.
pub type BatchReply = Result<Ack, (ErrorCode, Option<String>)>;

/// What became of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// Their batch.
    pub batch: BatchId,
    /// The first of them in the batch; 0 unless the batch had to be split.
    pub first_index: u32,
    /// How many.
    pub count: u32,
    /// Where they went.
    pub topic_partition: TopicPartition,
    /// In the log, or why not.
    pub result: Result<Ack, RecordError>,
}

/// Where the producer's identity comes from.
#[expect(clippy::large_enum_variant, reason = "there is one per producer")]
#[derive(Clone, Debug)]
pub enum Role {
    /// From any broker, for this producer's lifetime or until a partition needs a new one.
    Idempotent(IdentityRequest),
    /// From the transaction coordinator.
    Transactional(TransactionManager),
}

/// A producer id without a transactional id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentityRequest {
    /// To be asked for.
    Wanted {
        /// Not before.
        not_before: Monotonic,
    },
    /// Asked for.
    InFlight,
    /// Got.
    Have(ProducerIdentity),
    /// Refused for good.
    Refused(Refusal),
}

/// A batch that has no sequence yet.
#[derive(Clone, Debug)]
struct Queued {
    id: BatchId,
    builder: BatchBuilder,
    created: Monotonic,
    is_closed: bool,
}

/// A batch with a sequence.
#[derive(Clone, Debug)]
struct Sealed {
    id: BatchId,
    first_index: u32,
    count: u32,
    bytes: Bytes,
    reserved_bytes: usize,
    sequence: Sequence,
    created: Monotonic,
    attempts: u32,
    /// It was sent, and no clear "no" came to that sending.
    may_be_written: bool,
    call: CallId,
}

#[derive(Clone, Debug)]
struct Queue {
    queued: VecDeque<Queued>,
    retry: VecDeque<Sealed>,
    in_flight: VecDeque<Sealed>,
    identity: ProducerIdentity,
    next_sequence: Sequence,
    not_before: Monotonic,
    /// A batch of this identity is in the log. Until then only one may be in flight: a broker that has no state of a
    /// producer takes any sequence for its first, so a second batch could pass the first one by.
    is_known: bool,
    /// A sequence was given up, so that no later one can be taken: a new identity is needed (not in transactions, where
    /// the abort brings it).
    is_broken: bool,
    size_hint: usize,
}

impl Queue {
    fn new() -> Self {
        Self {
            queued: VecDeque::new(),
            retry: VecDeque::new(),
            in_flight: VecDeque::new(),
            identity: ProducerIdentity::NONE,
            next_sequence: Sequence::FIRST,
            not_before: Monotonic::START,
            is_known: false,
            is_broken: false,
            size_hint: 0,
        }
    }

    fn is_idle(&self) -> bool {
        self.queued.is_empty() && self.retry.is_empty() && self.in_flight.is_empty()
    }

    /// Puts a batch back where its sequence belongs.
    fn put_back(&mut self, batch: Sealed) {
        // Batches leave in order, so the distance from the first one that is waiting orders them, over the wrap too.
        let first = self.retry.front().map_or(batch.sequence, |first| first.sequence);
        let distance = |sequence: Sequence| sequence.0.wrapping_sub(first.0);
        let place = self.retry.partition_point(|other| distance(other.sequence) < distance(batch.sequence));
        self.retry.insert(place, batch);
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Producer {
    config: ProducerConfig,
    role: Role,
    queues: BTreeMap<TopicPartition, Queue>,
    calls: BTreeMap<CallId, (i32, Vec<TopicPartition>)>,
    in_flight_by_node: BTreeMap<i32, usize>,
    outbox: VecDeque<ProduceCall>,
    /// Batches whose fate is not known, and how many parts of each.
    outstanding: BTreeMap<BatchId, u32>,
    done: VecDeque<Done>,
    buffered_bytes: usize,
    next_batch: u64,
    next_call: u64,
    stale_topics: BTreeSet<TopicName>,
    is_refreshing: bool,
    refresh_not_before: Monotonic,
}

impl Producer {
    /// A producer.
    #[must_use]
    pub fn new(config: ProducerConfig, role: Role) -> Self {
        Self {
            config,
            role,
            queues: BTreeMap::new(),
            calls: BTreeMap::new(),
            in_flight_by_node: BTreeMap::new(),
            outbox: VecDeque::new(),
            outstanding: BTreeMap::new(),
            done: VecDeque::new(),
            buffered_bytes: 0,
            next_batch: 0,
            next_call: 0,
            stale_topics: BTreeSet::new(),
            is_refreshing: false,
            refresh_not_before: Monotonic::START,
        }
    }

    // --- ask ---

    /// Bytes of records whose fate is not known.
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        self.buffered_bytes
    }

    /// Where the identity comes from.
    #[must_use]
    pub fn role(&self) -> &Role {
        &self.role
    }

    /// The transaction manager, for commands.
    pub fn transaction(&mut self) -> Option<&mut TransactionManager> {
        match &mut self.role {
            Role::Transactional(manager) => Some(manager),
            Role::Idempotent(_) => None,
        }
    }

    /// The batch opened last, if any: what is to be flushed now ends with it.
    #[must_use]
    pub fn last_batch(&self) -> Option<BatchId> {
        self.next_batch.checked_sub(1).map(BatchId)
    }

    /// Whether the fate of all batches up to `last` is known.
    #[must_use]
    pub fn is_flushed(&self, last: BatchId) -> bool {
        self.outstanding.first_key_value().is_none_or(|(first, _)| *first > last)
    }

    /// Whether the fate of a batch, or of a part of it, is not known yet.
    #[must_use]
    pub fn is_outstanding(&self, batch: BatchId) -> bool {
        self.outstanding.contains_key(&batch)
    }

    // --- command ---

    /// Adds a record to its partition's batch.
    ///
    /// Panics: if the record cannot be written at all, which its size was checked for.
    pub fn append(
        &mut self,
        now: Monotonic,
        topic_partition: &TopicPartition,
        timestamp: Timestamp,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[Header],
    ) -> Result<Appended, TooLarge> {
        let header_pairs = headers.iter().map(|header| (header.key.as_bytes(), header.value.as_deref()));
        let bytes = record_bytes_max(key, value, header_pairs.clone());
        let bytes_max = self.config.request_bytes_max;
        if bytes.saturating_add(BATCH_HEADER_BYTES) > bytes_max {
            return Err(TooLarge { bytes, bytes_max });
        }
        if let Role::Transactional(manager) = &mut self.role {
            manager.add_partition(topic_partition);
        }
        if !self.queues.contains_key(topic_partition) {
            self.queues.insert(topic_partition.clone(), Queue::new());
        }
        let queue = self.queues.get_mut(topic_partition).expect("it was just made sure of");
        let mut has_closed_another = false;
        if let Some(last) = queue.queued.back_mut()
            && !last.is_closed
            && last.builder.size_bytes() + bytes > self.config.batch_bytes_max
        {
            last.is_closed = true;
            queue.size_hint = self.config.batch_bytes_max;
            has_closed_another = true;
        }
        let is_first = queue.queued.back().is_none_or(|last| last.is_closed);
        if is_first {
            let id = BatchId(self.next_batch);
            self.next_batch += 1;
            self.outstanding.insert(id, 1);
            let builder = BatchBuilder::with_capacity(queue.size_hint.max(bytes));
            self.buffered_bytes += builder.size_bytes();
            queue.queued.push_back(Queued { id, builder, created: now, is_closed: false });
        }
        let last = queue.queued.back_mut().expect("a batch is open");
        let before = last.builder.size_bytes();
        last.builder
            .append(timestamp.0, key, value, header_pairs)
            .expect("a record within the request's size, in a batch that was begun for it, can be written");
        self.buffered_bytes += last.builder.size_bytes() - before;
        let index = u32::try_from(last.builder.records_count() - 1).expect("a count is not negative");
        if last.builder.size_bytes() >= self.config.batch_bytes_max {
            last.is_closed = true;
            has_closed_another = true;
        }
        Ok(Appended { batch: last.id, index, is_first, has_closed_another })
    }

    /// Closes all open batches, so that none waits for more records.
    pub fn flush(&mut self) {
        for queue in self.queues.values_mut() {
            if let Some(last) = queue.queued.back_mut() {
                last.is_closed = true;
            }
        }
    }

    // --- it happened ---

    /// Topics were looked up.
    pub fn handle_metadata(&mut self, now: Monotonic) {
        self.is_refreshing = false;
        self.refresh_not_before = now + self.config.retry_backoff.initial();
    }

    /// A coordinator answered.
    pub fn handle_coordinator_reply(&mut self, now: Monotonic, reply: CoordinatorReply) {
        match &mut self.role {
            Role::Transactional(manager) => manager.handle_reply(now, reply),
            Role::Idempotent(request) => {
                let CoordinatorReply::InitProducerId(result) = reply else {
                    unreachable!("nothing else is asked for outside transactions")
                };
                *request = match result {
                    Ok(identity) => IdentityRequest::Have(identity),
                    Err(code) => {
                        let refusal = Refusal::new(Operation::InitProducerId, code);
                        match refusal.verdict() {
                            Verdict::Retry | Verdict::RefreshThenRetry => {
                                IdentityRequest::Wanted { not_before: now + self.config.retry_backoff.initial() }
                            }
                            Verdict::Done | Verdict::Abort | Verdict::Reinitialize | Verdict::Fatal => {
                                IdentityRequest::Refused(refusal)
                            }
                        }
                    }
                };
            }
        }
    }

    /// A coordinator did not answer.
    pub fn handle_coordinator_lost(&mut self, now: Monotonic, was_sent: bool) {
        match &mut self.role {
            Role::Transactional(manager) => manager.handle_lost(now, was_sent),
            Role::Idempotent(request) => {
                *request = IdentityRequest::Wanted { not_before: now + self.config.retry_backoff.initial() };
            }
        }
    }

    /// A leader answered.
    pub fn handle_produce_reply(&mut self, now: Monotonic, call: CallId, replies: Vec<(TopicPartition, BatchReply)>) {
        let Some(partitions) = self.end_call(call) else { return };
        let mut replies: BTreeMap<TopicPartition, BatchReply> = replies.into_iter().collect();
        for topic_partition in partitions {
            match replies.remove(&topic_partition) {
                Some(reply) => self.handle_batch_reply(now, call, &topic_partition, reply),
                // A broker that leaves a partition out has told nothing about it.
                None => self.handle_batch_lost(now, call, &topic_partition, true),
            }
        }
    }

    /// A leader did not answer. `was_sent` if it may have the request nonetheless.
    pub fn handle_produce_lost(&mut self, now: Monotonic, call: CallId, was_sent: bool) {
        let Some(partitions) = self.end_call(call) else { return };
        for topic_partition in partitions {
            self.handle_batch_lost(now, call, &topic_partition, was_sent);
        }
    }

    /// Time has passed: what has waited too long is given up.
    pub fn handle_timeout(&mut self, now: Monotonic) {
        let timeout = self.config.delivery_timeout;
        let mut given_up = Vec::new();
        for (topic_partition, queue) in &mut self.queues {
            while let Some(first) = queue.retry.front()
                && now.since(first.created) >= timeout
            {
                let Some(batch) = queue.retry.pop_front() else { break };
                queue.is_broken = true;
                given_up.push((topic_partition.clone(), batch.may_be_written, Ok(batch)));
            }
            if queue.retry.is_empty() {
                while let Some(first) = queue.queued.front()
                    && now.since(first.created) >= timeout
                {
                    let Some(batch) = queue.queued.pop_front() else { break };
                    given_up.push((topic_partition.clone(), false, Err(batch)));
                }
            }
        }
        for (topic_partition, may_be_written, batch) in given_up {
            let error = RecordError::TimedOut { waited: timeout, may_be_written };
            let sequence_lost = batch.is_ok();
            match batch {
                Ok(sealed) => self.finish_sealed(&topic_partition, &sealed, Err(error.clone())),
                Err(queued) => self.finish_queued(&topic_partition, queued, error.clone()),
            }
            self.fail_transaction(TransactionError::RecordFailed { topic_partition, cause: error }, sequence_lost);
        }
    }

    // --- do this ---

    /// What to send now.
    pub fn poll_request(&mut self, now: Monotonic, metadata: &Metadata) -> Option<Outgoing> {
        self.handle_timeout(now);
        self.drop_what_is_lost();
        if let Some(call) = self.poll_coordinator(now) {
            return Some(Outgoing::Coordinator(call));
        }
        // The end of a transaction that no broker heard of needs no request, and frees what comes next.
        if self.outbox.is_empty() {
            self.mend_broken_queues(now);
            self.fill_outbox(now, metadata);
        }
        if let Some(call) = self.outbox.pop_front() {
            return Some(Outgoing::Produce(call));
        }
        if !self.stale_topics.is_empty() && !self.is_refreshing && now >= self.refresh_not_before {
            self.is_refreshing = true;
            return Some(Outgoing::RefreshMetadata(std::mem::take(&mut self.stale_topics).into_iter().collect()));
        }
        None
    }

    /// When to poll again, if nothing happens before. What was due at `now` has been looked at by
    /// [`poll_request`](Self::poll_request), and waits for something else.
    #[must_use]
    pub fn poll_timeout(&self, now: Monotonic) -> Option<Monotonic> {
        let coordinator = match &self.role {
            Role::Transactional(manager) => manager.poll_timeout(),
            Role::Idempotent(IdentityRequest::Wanted { not_before }) => Some(*not_before),
            Role::Idempotent(IdentityRequest::InFlight | IdentityRequest::Have(_) | IdentityRequest::Refused(_)) => {
                None
            }
        };
        let refresh = (!self.stale_topics.is_empty() && !self.is_refreshing).then_some(self.refresh_not_before);
        let queues = self.queues.values().flat_map(|queue| self.queue_timeouts(queue));
        [coordinator, refresh].into_iter().chain(queues).flatten().filter(|time| *time > now).min()
    }

    /// The end of the back-off, of the first batch's linger, and of its life.
    fn queue_timeouts(&self, queue: &Queue) -> [Option<Monotonic>; 3] {
        let queued = queue.queued.front().map(|batch| batch.created);
        let first = queue.retry.front().map(|batch| batch.created).or(queued);
        [
            first.map(|_| queue.not_before),
            queued.map(|created| created + self.config.linger),
            first.map(|created| created + self.config.delivery_timeout),
        ]
    }

    /// What became of records since the last call.
    pub fn poll_done(&mut self) -> Option<Done> {
        self.done.pop_front()
    }

    // --- the coordinator ---

    fn poll_coordinator(&mut self, now: Monotonic) -> Option<CoordinatorCall> {
        let is_flushed = self.outstanding.is_empty();
        match &mut self.role {
            Role::Transactional(manager) => manager.poll_request(now, is_flushed),
            Role::Idempotent(request) => match request {
                IdentityRequest::Wanted { not_before } if now >= *not_before => {
                    *request = IdentityRequest::InFlight;
                    let request = CoordinatorRequest::InitProducerId { expected: ProducerIdentity::NONE };
                    Some(CoordinatorCall { request, refresh: false })
                }
                IdentityRequest::Wanted { .. }
                | IdentityRequest::InFlight
                | IdentityRequest::Have(_)
                | IdentityRequest::Refused(_) => None,
            },
        }
    }

    fn fail_transaction(&mut self, error: TransactionError, sequence_lost: bool) {
        if let Role::Transactional(manager) = &mut self.role {
            manager.handle_record_failure(error, sequence_lost);
        }
    }

    /// Gives up what a lost transaction has not sent. What is in flight is waited for.
    fn drop_what_is_lost(&mut self) {
        let refused = match &self.role {
            Role::Transactional(manager) if manager.drops_unsent() => None,
            Role::Idempotent(IdentityRequest::Refused(refusal)) => Some(refusal.clone()),
            Role::Transactional(_)
            | Role::Idempotent(IdentityRequest::Wanted { .. } | IdentityRequest::InFlight | IdentityRequest::Have(_)) =>
            {
                return;
            }
        };
        if self.outstanding.is_empty() {
            return;
        }
        let error = |may_be_written| match &refused {
            Some(refusal) => RecordError::Refused { refusal: refusal.clone(), may_be_written },
            None => RecordError::Dropped,
        };
        let mut dropped = Vec::new();
        for (topic_partition, queue) in &mut self.queues {
            let retry = std::mem::take(&mut queue.retry);
            let queued = std::mem::take(&mut queue.queued);
            if !retry.is_empty() || !queued.is_empty() {
                queue.is_broken |= !retry.is_empty();
                dropped.push((topic_partition.clone(), retry, queued));
            }
        }
        for (topic_partition, retry, queued) in dropped {
            if !retry.is_empty()
                && let Role::Transactional(manager) = &mut self.role
            {
                manager.handle_sequences_dropped();
            }
            for batch in &retry {
                self.finish_sealed(&topic_partition, batch, Err(error(batch.may_be_written)));
            }
            for batch in queued {
                self.finish_queued(&topic_partition, batch, error(false));
            }
        }
    }

    // --- sending ---

    /// Outside transactions, gives a partition whose sequence is broken a new identity, once nothing of the old one is in
    /// flight. What may be written is given up, for a new identity would write it twice; the rest is sent under it.
    fn mend_broken_queues(&mut self, now: Monotonic) {
        let Role::Idempotent(request) = &mut self.role else { return };
        let mut given_up = Vec::new();
        for (topic_partition, queue) in &mut self.queues {
            if !queue.is_broken || !queue.in_flight.is_empty() {
                continue;
            }
            match request {
                IdentityRequest::Have(identity) if *identity != queue.identity => {
                    let identity = *identity;
                    queue.is_broken = false;
                    queue.is_known = false;
                    queue.identity = identity;
                    queue.next_sequence = Sequence::FIRST;
                    for mut batch in std::mem::take(&mut queue.retry) {
                        if batch.may_be_written {
                            given_up.push((topic_partition.clone(), batch));
                            continue;
                        }
                        let sequence = queue.next_sequence;
                        let mut bytes = BytesMut::from(batch.bytes);
                        set_producer(&mut bytes, identity, sequence);
                        batch.bytes = bytes.freeze();
                        batch.sequence = sequence;
                        queue.next_sequence = sequence.plus(count_of(batch.count));
                        queue.retry.push_back(batch);
                    }
                }
                IdentityRequest::Have(_) => *request = IdentityRequest::Wanted { not_before: now },
                IdentityRequest::Wanted { .. } | IdentityRequest::InFlight | IdentityRequest::Refused(_) => {}
            }
        }
        for (topic_partition, batch) in given_up {
            let error = RecordError::TimedOut { waited: now.since(batch.created), may_be_written: true };
            self.finish_sealed(&topic_partition, &batch, Err(error));
        }
    }

    /// Makes a request for each node that has room for one: one batch of each partition that it leads.
    fn fill_outbox(&mut self, now: Monotonic, metadata: &Metadata) {
        let Some(identity) = self.identity() else { return };
        let mut drafts: BTreeMap<i32, (usize, Vec<TopicPartition>)> = BTreeMap::new();
        for (topic_partition, queue) in &self.queues {
            if !self.is_due(now, topic_partition, queue, identity) {
                continue;
            }
            let Some(leader) = metadata.leader(topic_partition) else {
                if !self.stale_topics.contains(&topic_partition.topic) {
                    self.stale_topics.insert(topic_partition.topic.clone());
                }
                continue;
            };
            if self.in_flight_by_node.get(&leader.node).copied().unwrap_or(0) >= IN_FLIGHT_MAX {
                continue;
            }
            let size = queue.retry.front().map_or_else(
                || queue.queued.front().map_or(0, |batch| batch.builder.size_bytes()),
                |batch| batch.bytes.len(),
            );
            let (total, partitions) = drafts.entry(leader.node).or_default();
            if partitions.is_empty() || *total + size <= self.config.request_bytes_max {
                *total += size;
                partitions.push(topic_partition.clone());
            }
        }
        for (node, (_, partitions)) in drafts {
            let call = self.make_call(now, node, partitions, identity);
            self.outbox.push_back(call);
        }
    }

    fn identity(&self) -> Option<ProducerIdentity> {
        match &self.role {
            Role::Transactional(manager) => Some(manager.identity()),
            Role::Idempotent(IdentityRequest::Have(identity)) => Some(*identity),
            Role::Idempotent(
                IdentityRequest::Wanted { .. } | IdentityRequest::InFlight | IdentityRequest::Refused(_),
            ) => None,
        }
    }

    fn protocol(&self) -> Option<Protocol> {
        match &self.role {
            Role::Transactional(manager) => Some(manager.protocol()),
            Role::Idempotent(_) => None,
        }
    }

    /// Whether a batch of this partition may leave now.
    fn is_due(
        &self,
        now: Monotonic,
        topic_partition: &TopicPartition,
        queue: &Queue,
        identity: ProducerIdentity,
    ) -> bool {
        if now < queue.not_before {
            return false;
        }
        let is_flushing = match &self.role {
            Role::Idempotent(_) if queue.is_broken => return false,
            Role::Idempotent(_) => false,
            Role::Transactional(manager) if manager.may_send_to(topic_partition) => manager.is_flushing(),
            Role::Transactional(_) => return false,
        };
        if !queue.retry.is_empty() {
            // One at a time, until all is in order again.
            return queue.in_flight.is_empty();
        }
        let Some(first) = queue.queued.front() else { return false };
        if queue.in_flight.iter().any(|batch| batch.attempts > 1) {
            return false;
        }
        // (In the new transaction protocol brokers take nothing but 0 for the first sequence of an epoch.)
        let may_be_first = !queue.is_known && self.protocol() != Some(Protocol::V2);
        if may_be_first && !queue.in_flight.is_empty() {
            return false;
        }
        if queue.identity != identity && !queue.in_flight.is_empty() {
            // Batches of the old identity must be settled before the sequence begins anew.
            return false;
        }
        is_flushing || first.is_closed || now.since(first.created) >= self.config.linger
    }

    fn make_call(
        &mut self,
        now: Monotonic,
        node: i32,
        partitions: Vec<TopicPartition>,
        identity: ProducerIdentity,
    ) -> ProduceCall {
        let id = CallId(self.next_call);
        self.next_call += 1;
        *self.in_flight_by_node.entry(node).or_default() += 1;
        if let Role::Transactional(manager) = &mut self.role {
            manager.handle_batch_sent();
        }
        let protocol = self.protocol();
        let mut batches = Vec::with_capacity(partitions.len());
        for topic_partition in &partitions {
            let queue = self.queues.get_mut(topic_partition).expect("it has a batch that is due");
            let mut batch = match queue.retry.pop_front() {
                Some(batch) => batch,
                None => seal(queue, identity, protocol.is_some(), &self.config),
            };
            batch.attempts += 1;
            batch.call = id;
            batches.push((topic_partition.clone(), batch.bytes.clone()));
            queue.in_flight.push_back(batch);
            queue.not_before = now;
        }
        self.calls.insert(id, (node, partitions));
        ProduceCall { id, node, protocol, batches }
    }

    // --- answers ---

    fn end_call(&mut self, call: CallId) -> Option<Vec<TopicPartition>> {
        let (node, partitions) = self.calls.remove(&call)?;
        if let Some(count) = self.in_flight_by_node.get_mut(&node) {
            *count = count.saturating_sub(1);
        }
        Some(partitions)
    }

    fn take_in_flight(&mut self, call: CallId, topic_partition: &TopicPartition) -> Option<Sealed> {
        let queue = self.queues.get_mut(topic_partition)?;
        let place = queue.in_flight.iter().position(|batch| batch.call == call)?;
        queue.in_flight.remove(place)
    }

    fn handle_batch_lost(&mut self, now: Monotonic, call: CallId, topic_partition: &TopicPartition, was_sent: bool) {
        let Some(mut batch) = self.take_in_flight(call, topic_partition) else { return };
        batch.may_be_written |= was_sent;
        self.stale_topics.insert(topic_partition.topic.clone());
        self.put_back(now, topic_partition, batch);
    }

    fn put_back(&mut self, now: Monotonic, topic_partition: &TopicPartition, batch: Sealed) {
        // Batches of one partition wait together; other partitions', and other producers', by other lengths.
        let salt = batch.id.0 ^ u64::from(now.since_start().subsec_nanos());
        let backoff = self.config.retry_backoff.after(batch.attempts, salt);
        if let Some(queue) = self.queues.get_mut(topic_partition) {
            queue.not_before = now + backoff;
            queue.put_back(batch);
        }
    }

    fn handle_batch_reply(
        &mut self,
        now: Monotonic,
        call: CallId,
        topic_partition: &TopicPartition,
        reply: BatchReply,
    ) {
        let Some(batch) = self.take_in_flight(call, topic_partition) else { return };
        let (code, message) = match reply {
            Ok(ack) => return self.finish_sealed(topic_partition, &batch, Ok(ack)),
            Err(refusal) => refusal,
        };
        let refusal = Refusal::with_message(Operation::Produce, code, message);
        if matches!(code, ErrorCode::OutOfOrderSequenceNumber | ErrorCode::UnknownProducerId) {
            return self.handle_out_of_order(now, topic_partition, batch, refusal);
        }
        // Not one that may be in the log already: its halves would have other sequences than it had, and be written again.
        if code == ErrorCode::MessageTooLarge && batch.count > 1 && !batch.may_be_written {
            return self.split(now, topic_partition, batch, refusal);
        }
        if matches!(code, ErrorCode::InvalidProducerEpoch | ErrorCode::ProducerFenced) {
            return self.handle_epoch_refused(topic_partition, batch, refusal);
        }
        match refusal.verdict() {
            // It was written before; where, the broker does not say.
            Verdict::Done => {
                self.finish_sealed(topic_partition, &batch, Ok(Ack { base_offset: None, log_append_time: None }));
            }
            Verdict::Retry => {
                let mut batch = batch;
                // These are said after the append too.
                batch.may_be_written |=
                    matches!(code, ErrorCode::RequestTimedOut | ErrorCode::NotEnoughReplicasAfterAppend);
                self.put_back(now, topic_partition, batch);
                if code == ErrorCode::ConcurrentTransactions
                    && let Some(queue) = self.queues.get_mut(topic_partition)
                {
                    queue.not_before = now + CONCURRENT_TRANSACTIONS_BACKOFF;
                }
            }
            Verdict::RefreshThenRetry => {
                self.stale_topics.insert(topic_partition.topic.clone());
                self.put_back(now, topic_partition, batch);
            }
            Verdict::Abort | Verdict::Reinitialize | Verdict::Fatal => {
                self.handle_batch_refused(topic_partition, &batch, refusal);
            }
        }
    }

    fn handle_batch_refused(&mut self, topic_partition: &TopicPartition, batch: &Sealed, refusal: Refusal) {
        if let Some(queue) = self.queues.get_mut(topic_partition) {
            queue.is_broken = true;
        }
        let cause = RecordError::Refused { refusal: refusal.clone(), may_be_written: batch.may_be_written };
        self.finish_sealed(topic_partition, batch, Err(cause.clone()));
        let is_of_transaction = matches!(refusal.code(), ErrorCode::InvalidTxnState | ErrorCode::TransactionAbortable);
        let error = if is_of_transaction {
            TransactionError::Abortable(refusal)
        } else {
            TransactionError::RecordFailed { topic_partition: topic_partition.clone(), cause }
        };
        self.fail_transaction(error, true);
    }

    fn handle_out_of_order(
        &mut self,
        now: Monotonic,
        topic_partition: &TopicPartition,
        mut batch: Sealed,
        refusal: Refusal,
    ) {
        let Some(queue) = self.queues.get_mut(topic_partition) else { return };
        // One that was sent before this one waits for its answer, or to be sent again: then this "no" only says that the
        // broker does not have that one yet.
        let earlier = |other: &Sealed| other.sequence.0.wrapping_sub(batch.sequence.0) < 0;
        let waits_for_another = queue.retry.iter().chain(&queue.in_flight).any(earlier);
        if waits_for_another {
            return self.put_back(now, topic_partition, batch);
        }
        match &self.role {
            Role::Transactional(_) => self.handle_batch_refused(topic_partition, &batch, refusal),
            Role::Idempotent(_) => {
                queue.is_broken = true;
                // If it was sent only once, it is certainly not written.
                batch.may_be_written &= batch.attempts > 1;
                self.put_back(now, topic_partition, batch);
            }
        }
    }

    fn handle_epoch_refused(&mut self, topic_partition: &TopicPartition, batch: Sealed, refusal: Refusal) {
        if let Some(queue) = self.queues.get_mut(topic_partition) {
            queue.is_broken = true;
        }
        match &mut self.role {
            Role::Transactional(manager) => {
                manager.handle_epoch_refused(refusal.clone());
                // Its sequence was not taken; should the epoch go on after all, it must not go on behind the gap.
                manager.handle_sequences_dropped();
                let may_be_written = batch.may_be_written;
                self.finish_sealed(topic_partition, &batch, Err(RecordError::Refused { refusal, may_be_written }));
            }
            // Nobody raises the epoch of a producer without transactional id; a new id is the way out.
            Role::Idempotent(_) => {
                if let Some(queue) = self.queues.get_mut(topic_partition) {
                    queue.put_back(batch);
                }
            }
        }
    }

    /// Cuts a batch that is too large for the topic in two. Both halves together have the sequences of the whole, so
    /// what was sent after it stays valid.
    fn split(&mut self, now: Monotonic, topic_partition: &TopicPartition, batch: Sealed, refusal: Refusal) {
        let Some((left, right)) = halves(&batch, &self.config) else {
            return self.handle_batch_refused(topic_partition, &batch, refusal);
        };
        *self.outstanding.entry(batch.id).or_insert(1) += 1;
        self.put_back(now, topic_partition, right);
        self.put_back(now, topic_partition, left);
        if let Some(queue) = self.queues.get_mut(topic_partition) {
            queue.not_before = now;
        }
    }

    fn finish_sealed(&mut self, topic_partition: &TopicPartition, batch: &Sealed, result: Result<Ack, RecordError>) {
        if result.is_ok()
            && let Some(queue) = self.queues.get_mut(topic_partition)
        {
            queue.is_known = true;
        }
        self.finish(Done {
            batch: batch.id,
            first_index: batch.first_index,
            count: batch.count,
            topic_partition: topic_partition.clone(),
            result,
        });
        self.buffered_bytes = self.buffered_bytes.saturating_sub(batch.reserved_bytes);
        self.forget_if_idle(topic_partition);
    }

    fn finish_queued(&mut self, topic_partition: &TopicPartition, batch: Queued, error: RecordError) {
        self.buffered_bytes = self.buffered_bytes.saturating_sub(batch.builder.size_bytes());
        self.finish(Done {
            batch: batch.id,
            first_index: 0,
            count: u32::try_from(batch.builder.records_count()).unwrap_or(0),
            topic_partition: topic_partition.clone(),
            result: Err(error),
        });
    }

    fn finish(&mut self, done: Done) {
        if let Some(parts) = self.outstanding.get_mut(&done.batch) {
            *parts -= 1;
            if *parts == 0 {
                self.outstanding.remove(&done.batch);
            }
        }
        self.done.push_back(done);
    }

    /// In a transaction's new epoch every sequence begins anew, so nothing need be remembered of an idle partition whose
    /// identity is gone. Of others the next sequence must be.
    fn forget_if_idle(&mut self, topic_partition: &TopicPartition) {
        let Role::Transactional(manager) = &self.role else { return };
        let is_forgettable = self
            .queues
            .get(topic_partition)
            .is_some_and(|queue| queue.is_idle() && queue.identity != manager.identity());
        if is_forgettable {
            self.queues.remove(topic_partition);
        }
    }
}

/// Gives the first queued batch its sequence.
fn seal(queue: &mut Queue, identity: ProducerIdentity, is_transactional: bool, config: &ProducerConfig) -> Sealed {
    if queue.identity != identity {
        assert!(
            queue.in_flight.is_empty() && queue.retry.is_empty(),
            "a sequence begins anew only when nothing of the old identity is outstanding"
        );
        queue.identity = identity;
        queue.next_sequence = Sequence::FIRST;
        queue.is_known = false;
        queue.is_broken = false;
    }
    let queued = queue.queued.pop_front().expect("a batch is due");
    let count = queued.builder.records_count();
    let reserved_bytes = queued.builder.size_bytes();
    queue.size_hint = reserved_bytes.min(config.batch_bytes_max);
    let sequence = queue.next_sequence;
    let options = BatchOptions {
        producer: identity,
        base_sequence: sequence,
        is_transactional,
        compression: config.compression,
        ..BatchOptions::default()
    };
    let bytes = queued.builder.finish(&options).expect("the compression is built in, which was checked at the start");
    queue.next_sequence = sequence.plus(count);
    Sealed {
        id: queued.id,
        first_index: 0,
        count: u32::try_from(count).expect("a count is not negative"),
        bytes,
        reserved_bytes,
        sequence,
        created: queued.created,
        attempts: 0,
        may_be_written: false,
        call: CallId(0),
    }
}

fn count_of(count: u32) -> i32 {
    i32::try_from(count).expect("a batch has at most 2^31 - 1 records")
}

/// A batch as two, with the sequences of the one.
fn halves(batch: &Sealed, config: &ProducerConfig) -> Option<(Sealed, Sealed)> {
    let view = BatchView::new(&batch.bytes).ok()?;
    let payload = view.decompress(SPLIT_BYTES_MAX).ok()?;
    let left_count = batch.count / 2;
    let mut builders = (BatchBuilder::default(), BatchBuilder::default());
    for (index, record) in (0_u32..).zip(view.records_in(&payload)) {
        let record = record.ok()?;
        let builder = if index < left_count { &mut builders.0 } else { &mut builders.1 };
        let headers = record.headers().map(|header| (header.key, header.value));
        builder.append(record.timestamp, record.key, record.value, headers).ok()?;
    }
    let half = |builder: BatchBuilder, first: u32, count: u32| {
        let sequence = batch.sequence.plus(count_of(first));
        let options = BatchOptions {
            producer: view.producer(),
            base_sequence: sequence,
            is_transactional: view.is_transactional(),
            compression: config.compression,
            ..BatchOptions::default()
        };
        Some(Sealed {
            first_index: batch.first_index + first,
            count,
            bytes: builder.finish(&options).ok()?,
            reserved_bytes: if first == 0 { batch.reserved_bytes } else { 0 },
            sequence,
            may_be_written: false,
            ..batch.clone()
        })
    };
    Some((half(builders.0, 0, left_count)?, half(builders.1, left_count, batch.count - left_count)?))
}
