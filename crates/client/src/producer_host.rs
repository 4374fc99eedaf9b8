//! Runs the producer machine: takes records from users, sends what the machine says, hands answers back, and lets users
//! wait for what they asked.
//!
//! **What it does not know**: what an answer means: the machine does.
//!
//! One driver task per producer; one sender task per node, so that requests leave in the order the machine made them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use atonce_client_core::classify::{Operation, classify};
use atonce_client_core::error::{RecordError, TransactionError};
use atonce_client_core::metadata::{Broker, Leader};
use atonce_client_core::partitioner::{StickyPartitioner, partition_of_key};
use atonce_client_core::producer::{
    Ack, BatchId, BatchReply, CallId, IdentityRequest, Outgoing, ProduceCall, Producer, ProducerConfig, Role,
};
use atonce_client_core::transaction::{
    CoordinatorCall, CoordinatorReply, CoordinatorRequest, Protocol, State, TransactionManager,
};
use atonce_kernel::chance::Chance;
use atonce_kernel::{Outcome, ProducerIdentity, Timestamp, TopicName, TopicPartition, TransactionalId};
use atonce_protocol::ErrorCode;
use atonce_protocol::messages::add_offsets_to_txn_request::AddOffsetsToTxnRequest;
use atonce_protocol::messages::add_partitions_to_txn_request::{AddPartitionsToTxnRequest, AddPartitionsToTxnTopic};
use atonce_protocol::messages::end_txn_request::EndTxnRequest;
use atonce_protocol::messages::init_producer_id_request::InitProducerIdRequest;
use atonce_protocol::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use atonce_protocol::messages::produce_response::ProduceResponse;
use atonce_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use bytes::Bytes;
use tokio::sync::Notify;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::cluster::{Cluster, CoordinatorOf, FindError, Lane};
use crate::error::{SendError, StartError};
use crate::fate::{Delivery, Fate};
use crate::link::Lost;
use crate::metrics::Metrics;
use crate::producer::ProducerSettings;
use crate::record::ProducerRecord;

/// How long to wait before a failed request is repeated.
const RETRY_BACKOFF: Duration = Duration::from_millis(100);

/// Acknowledged by all replicas in sync: what idempotence needs.
const ACKS_ALL: i16 = -1;

/// What a broker may take to write before it answers, in milliseconds; the connection gives up later.
const PRODUCE_TIMEOUT_MS: i32 = 30_000;

/// The highest Produce version of the old transaction protocol: by a higher one the broker takes the new one (KIP-890).
const PRODUCE_VERSION_MAX_V1: i16 = 11;

/// The transactional half of a producer's settings.
#[derive(Clone, Debug)]
pub(crate) struct TransactionalSettings {
    pub(crate) id: TransactionalId,
    pub(crate) timeout: Duration,
}

/// See the module.
pub(crate) struct ProducerHost {
    cluster: Arc<Cluster>,
    lane: Lane,
    pub(crate) settings: ProducerSettings,
    pub(crate) transactional: Option<TransactionalSettings>,
    inner: Mutex<Inner>,
    /// Something for the driver to do.
    work: Notify,
    /// Something that users may wait for has changed.
    change: Notify,
}

pub(crate) struct Inner {
    pub(crate) machine: Producer,
    fates: BTreeMap<BatchId, Arc<Fate>>,
    sticky: StickyPartitioner,
    first_failure: Option<(TopicPartition, RecordError)>,
    is_closed: bool,
    /// Whose turn it is to write, among those that were given one.
    turn: u64,
}

impl Inner {
    /// The transaction manager. Only for producers that are transactional.
    pub(crate) fn transaction(&mut self) -> &mut TransactionManager {
        self.machine.transaction().expect("a transactional producer has a transaction manager")
    }
}

impl std::fmt::Debug for ProducerHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProducerHost").field("transactional", &self.transactional).finish_non_exhaustive()
    }
}

impl ProducerHost {
    /// Starts the driver, and waits for an identity.
    pub(crate) async fn start(
        cluster: Arc<Cluster>,
        settings: ProducerSettings,
        transactional: Option<TransactionalSettings>,
    ) -> Result<Arc<Self>, StartError> {
        if !settings.compression.is_built() {
            return Err(StartError::CompressionNotBuilt { compression: settings.compression });
        }
        let role = match &transactional {
            Some(_) => {
                let mut manager = TransactionManager::new();
                manager.initialize();
                Role::Transactional(manager)
            }
            None => Role::Idempotent(IdentityRequest::Wanted { not_before: cluster.clock.now() }),
        };
        let config = ProducerConfig {
            linger: settings.linger,
            compression: settings.compression,
            batch_bytes_max: settings.batch_bytes_max,
            request_bytes_max: settings.request_bytes_max,
            delivery_timeout: settings.delivery_timeout,
            retry_backoff: cluster.retry_backoff(),
        };
        let lane = cluster.new_lane();
        let inner = Inner {
            machine: Producer::new(config, role),
            fates: BTreeMap::new(),
            sticky: StickyPartitioner::new(Chance::from_seed(seed())),
            first_failure: None,
            is_closed: false,
            turn: 0,
        };
        let host = Arc::new(Self {
            cluster,
            lane,
            settings,
            transactional,
            inner: Mutex::new(inner),
            work: Notify::new(),
            change: Notify::new(),
        });
        tokio::spawn(drive(Arc::clone(&host)));
        let started = host.wait_for_identity().await;
        if started.is_err() {
            host.close();
        }
        started.map(|()| host)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the driver.
    pub(crate) fn wake(&self) {
        self.work.notify_one();
    }

    /// Ends the driver. What was not acknowledged fails.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.work.notify_one();
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.cluster.metrics
    }

    /// Whether the driver has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// The protocol of the next transaction.
    pub(crate) fn protocol(&self) -> Protocol {
        self.cluster.transaction_protocol()
    }

    /// When a call that begins now has waited long enough.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.settings.max_block
    }

    /// Looks until `look` has something, each time that something has changed; `None` at the deadline, or when the producer
    /// ends.
    pub(crate) async fn wait_until<T>(
        &self,
        deadline: Instant,
        mut look: impl FnMut(&mut Inner) -> Option<T>,
    ) -> Option<T> {
        loop {
            let change = self.change.notified();
            tokio::pin!(change);
            // Enlisted before the look, so that no change falls between the two.
            change.as_mut().enable();
            {
                let mut inner = self.lock();
                if let Some(found) = look(&mut inner) {
                    return Some(found);
                }
                if inner.is_closed {
                    return None;
                }
            }
            if tokio::time::timeout_at(deadline, change).await.is_err() {
                return look(&mut self.lock());
            }
        }
    }

    async fn wait_for_identity(&self) -> Result<(), StartError> {
        let waited = self.settings.max_block;
        let found = self.wait_until(self.deadline(), |inner| match inner.machine.role() {
            Role::Idempotent(IdentityRequest::Have(_)) => Some(Ok(())),
            Role::Idempotent(IdentityRequest::Refused(refusal)) => Some(Err(StartError::Refused(refusal.clone()))),
            Role::Idempotent(IdentityRequest::Wanted { .. } | IdentityRequest::InFlight) => None,
            Role::Transactional(manager) => match manager.state() {
                State::Ready => Some(Ok(())),
                State::FatalError(error) => Some(Err(self.start_refused(error))),
                State::Uninitialized
                | State::Initializing(_)
                | State::InTransaction
                | State::Ending { .. }
                | State::InDoubt(_)
                | State::AbortableError(_) => None,
            },
        });
        found.await.unwrap_or_else(|| {
            let cause = "the coordinator did not answer, or was still settling what the id had left open".to_owned();
            Err(StartError::TimedOut { waited, cause })
        })
    }

    /// Names the value, if it is one of ours that was refused.
    fn start_refused(&self, error: &TransactionError) -> StartError {
        match (error, &self.transactional) {
            (TransactionError::Fatal(refusal), Some(transactional))
                if refusal.code() == ErrorCode::InvalidTransactionTimeout =>
            {
                StartError::TransactionTimeout { timeout: transactional.timeout, refusal: refusal.clone() }
            }
            _ => StartError::Transaction(error.clone()),
        }
    }

    // --- records ---

    /// A turn to write: who has it may do so until [`close_turn`](Self::close_turn).
    pub(crate) fn open_turn(&self) -> u64 {
        self.lock().turn
    }

    /// Ends the turn: nothing that was sent in it, or still waits to be taken, gets in any more.
    pub(crate) fn close_turn(&self) {
        self.lock().turn += 1;
        self.change.notify_waiters();
    }

    /// Takes a record in; waits for metadata and room.
    pub(crate) async fn send(&self, record: ProducerRecord) -> Result<Delivery, SendError> {
        self.send_in_turn(record, None).await
    }

    /// As [`send`](Self::send), as long as it is `turn`.
    pub(crate) async fn send_in_turn(&self, record: ProducerRecord, turn: Option<u64>) -> Result<Delivery, SendError> {
        // Nearly always there is room, and nothing to wait for.
        if let Some(partitions) = self.cluster.with_metadata(|metadata| metadata.partition_count(&record.topic))
            && let Appending::Done(result) = self.try_append(&record, partitions, turn)
        {
            return result;
        }
        let deadline = self.deadline();
        loop {
            let change = self.change.notified();
            tokio::pin!(change);
            change.as_mut().enable();
            let Some(partitions) = self.cluster.with_metadata(|metadata| metadata.partition_count(&record.topic))
            else {
                self.look_up(&record, deadline).await?;
                continue;
            };
            match self.try_append(&record, partitions, turn) {
                Appending::Done(result) => return result,
                Appending::NotThere => self.look_up(&record, deadline).await?,
                Appending::Full => {
                    if tokio::time::timeout_at(deadline, change).await.is_err() {
                        return Err(SendError::BufferFull { waited: self.settings.max_block });
                    }
                }
            }
        }
    }

    /// Asks for the record's topic, at most every back-off until the deadline.
    async fn look_up(&self, record: &ProducerRecord, deadline: Instant) -> Result<(), SendError> {
        let topics = [record.topic.clone()];
        let _ = tokio::time::timeout_at(deadline, self.cluster.refresh(Some(&topics))).await;
        let is_there = self.cluster.with_metadata(|metadata| {
            metadata
                .partition_count(&record.topic)
                .is_some_and(|count| record.partition.is_none_or(|partition| (0..count).contains(&partition)))
        });
        if is_there {
            return Ok(());
        }
        if Instant::now() + RETRY_BACKOFF >= deadline {
            let topic_partition = TopicPartition::new(record.topic.clone(), record.partition.unwrap_or(-1));
            return Err(SendError::UnknownTopicOrPartition { topic_partition, waited: self.settings.max_block });
        }
        tokio::time::sleep(RETRY_BACKOFF).await;
        Ok(())
    }

    fn try_append(&self, record: &ProducerRecord, partitions: i32, turn: Option<u64>) -> Appending {
        let now = self.cluster.clock.now();
        let mut inner = self.lock();
        if inner.is_closed || turn.is_some_and(|turn| turn != inner.turn) {
            return Appending::Done(Err(SendError::Closed));
        }
        if let Some(manager) = inner.machine.transaction() {
            match manager.state() {
                State::InTransaction => {}
                State::AbortableError(error) | State::FatalError(error) => {
                    return Appending::Done(Err(SendError::Transaction(error.clone())));
                }
                // The epoch was refused; whether that is a fence or a time-out is being asked.
                State::Uninitialized
                | State::Initializing(_)
                | State::Ready
                | State::Ending { .. }
                | State::InDoubt(_) => return Appending::Full,
            }
        }
        if inner.machine.buffered_bytes() >= self.settings.buffer_bytes_max {
            return Appending::Full;
        }
        let own = self.settings.partitioner.as_ref().filter(|_| record.partition.is_none());
        let drawn = own
            .and_then(|own| own.0.partition(&record.topic, record.key.as_deref(), record.value.as_deref(), partitions));
        let partition = match (record.partition.or(drawn), &record.key) {
            (Some(partition), _) => partition,
            (None, Some(key)) if own.is_none() => partition_of_key(key, partitions),
            (None, _) => inner.sticky.partition(&record.topic, partitions),
        };
        if !(0..partitions).contains(&partition) {
            return Appending::NotThere;
        }
        let topic_partition = TopicPartition::new(record.topic.clone(), partition);
        let timestamp = record.timestamp.unwrap_or_else(wall_clock);
        let (key, value) = (record.key.as_deref(), record.value.as_deref());
        let appended = inner.machine.append(now, &topic_partition, timestamp, key, value, &record.headers);
        let appended = match appended {
            Ok(appended) => appended,
            Err(too_large) => {
                let (bytes, bytes_max) = (too_large.bytes, too_large.bytes_max);
                return Appending::Done(Err(SendError::TooLarge { topic_partition, bytes, bytes_max }));
            }
        };
        if appended.has_closed_another {
            inner.sticky.handle_batch_closed(&record.topic, partition, partitions);
        }
        let fate = if appended.is_first {
            let fate = Arc::new(Fate::new(topic_partition));
            inner.fates.insert(appended.batch, Arc::clone(&fate));
            fate
        } else {
            Arc::clone(inner.fates.get(&appended.batch).expect("an open batch has a fate"))
        };
        drop(inner);
        if appended.is_first || appended.has_closed_another {
            self.wake();
        }
        Appending::Done(Ok(Delivery::new(fate, appended.index, timestamp)))
    }

    /// Sends what waits, and waits until its fate is known.
    pub(crate) async fn flush(&self) -> Result<(), SendError> {
        let last = {
            let mut inner = self.lock();
            inner.machine.flush();
            inner.machine.last_batch()
        };
        self.wake();
        if let Some(last) = last {
            // Every batch has an end of its own, by its delivery time-out.
            let forever = Instant::now() + Duration::from_secs(60 * 60 * 24 * 365);
            let is_done = |inner: &mut Inner| (inner.is_closed || inner.machine.is_flushed(last)).then_some(());
            self.wait_until(forever, is_done).await;
        }
        let mut inner = self.lock();
        match inner.first_failure.take() {
            Some((topic_partition, cause)) => Err(SendError::of_record(topic_partition, cause)),
            None if inner.is_closed && !last.is_none_or(|last| inner.machine.is_flushed(last)) => {
                Err(SendError::Closed)
            }
            None => Ok(()),
        }
    }
}

enum Appending {
    Done(Result<Delivery, SendError>),
    /// No room, or not now: wait for a change.
    Full,
    /// The partition is not in the metadata.
    NotThere,
}

// --- the driver ---

enum Completion {
    Produced { call: CallId, result: Result<Vec<(TopicPartition, BatchReply)>, Lost> },
    Coordinated { result: Result<CoordinatorReply, Lost> },
    Refreshed,
}

async fn drive(host: Arc<ProducerHost>) {
    let (completions, mut completed) = mpsc::unbounded_channel();
    let mut senders: BTreeMap<i32, mpsc::UnboundedSender<ProduceCall>> = BTreeMap::new();
    let _end = End(Arc::clone(&host));
    while let Some(timeout) = host.pump(&completions, &mut senders) {
        tokio::select! {
            completion = completed.recv() => {
                let mut next = completion;
                while let Some(completion) = next {
                    host.handle(completion);
                    next = completed.try_recv().ok();
                }
            }
            () = host.work.notified() => {}
            () = host.cluster.clock.sleep_until(timeout) => {}
        }
    }
}

/// The end of the driver, however it comes: whoever waits for something is told that it will not come.
struct End(Arc<ProducerHost>);

impl Drop for End {
    fn drop(&mut self) {
        let Self(host) = self;
        host.cluster.close_lane(host.lane);
        let fates = {
            let mut inner = host.lock();
            inner.is_closed = true;
            std::mem::take(&mut inner.fates)
        };
        for fate in fates.into_values() {
            fate.close();
        }
        host.change.notify_waiters();
    }
}

impl ProducerHost {
    /// Sends all that the machine wants sent now. Returns when to look again; `None` if the producer has ended.
    #[expect(clippy::option_option, reason = "the outer one is the end, the inner one a time that may never come")]
    fn pump(
        self: &Arc<Self>,
        completions: &mpsc::UnboundedSender<Completion>,
        senders: &mut BTreeMap<i32, mpsc::UnboundedSender<ProduceCall>>,
    ) -> Option<Option<atonce_kernel::Monotonic>> {
        let now = self.cluster.clock.now();
        let mut outgoing = Vec::new();
        let timeout = {
            let mut inner = self.lock();
            if inner.is_closed {
                return None;
            }
            self.cluster.with_metadata(|metadata| {
                while let Some(next) = inner.machine.poll_request(now, metadata) {
                    outgoing.push(next);
                }
            });
            settle(&mut inner, &self.cluster.metrics);
            inner.machine.poll_timeout(now)
        };
        self.change.notify_waiters();
        for next in outgoing {
            match next {
                Outgoing::Produce(call) => {
                    let sender = senders.entry(call.node).or_insert_with(|| {
                        let (sender, calls) = mpsc::unbounded_channel();
                        tokio::spawn(send_to_node(Arc::clone(self), call.node, calls, completions.clone()));
                        sender
                    });
                    // A sender ends only with its driver.
                    let _ = sender.send(call);
                }
                Outgoing::Coordinator(call) => {
                    let (host, completions) = (Arc::clone(self), completions.clone());
                    tokio::spawn(async move {
                        let result = host.ask_coordinator(call).await;
                        let _ = completions.send(Completion::Coordinated { result });
                    });
                }
                Outgoing::RefreshMetadata(topics) => {
                    let (host, completions) = (Arc::clone(self), completions.clone());
                    tokio::spawn(async move {
                        // A refusal shows in the metadata, a failure in that nothing changes; both are asked again.
                        let _ = host.cluster.refresh(Some(&topics)).await;
                        let _ = completions.send(Completion::Refreshed);
                    });
                }
            }
        }
        Some(timeout)
    }

    fn handle(&self, completion: Completion) {
        let now = self.cluster.clock.now();
        let mut inner = self.lock();
        match completion {
            Completion::Produced { call, result: Ok(replies) } => {
                inner.machine.handle_produce_reply(now, call, replies)
            }
            Completion::Produced { call, result: Err(lost) } => {
                tracing::debug!(?call, cause = %lost, "no answer to records");
                inner.machine.handle_produce_lost(now, call, lost.was_sent);
            }
            Completion::Coordinated { result: Ok(reply) } => inner.machine.handle_coordinator_reply(now, reply),
            Completion::Coordinated { result: Err(lost) } => {
                tracing::debug!(cause = %lost, "no answer from the coordinator");
                inner.machine.handle_coordinator_lost(now, lost.was_sent);
            }
            Completion::Refreshed => inner.machine.handle_metadata(now),
        }
        settle(&mut inner, &self.cluster.metrics);
    }

    // --- coordinators ---

    async fn ask_coordinator(&self, call: CoordinatorCall) -> Result<CoordinatorReply, Lost> {
        let Some(transactional) = &self.transactional else {
            return self.ask_for_identity().await;
        };
        let of = match &call.request {
            CoordinatorRequest::CommitOffsets { group, .. } => CoordinatorOf::Group(group.group_id.as_str().to_owned()),
            CoordinatorRequest::InitProducerId { .. }
            | CoordinatorRequest::AddPartitions { .. }
            | CoordinatorRequest::AddOffsets { .. }
            | CoordinatorRequest::EndTxn { .. } => CoordinatorOf::Transaction(transactional.id.as_str().to_owned()),
        };
        let node = match self.cluster.coordinator(&of, call.refresh).await {
            Ok(node) => node,
            Err(FindError::Lost(lost)) => return Err(Lost { was_sent: false, ..lost }),
            Err(FindError::Refused { code, .. }) => {
                return match classify(Operation::FindCoordinator, code) {
                    atonce_client_core::classify::Verdict::Fatal => Ok(refused(&call.request, code)),
                    _ => Err(Lost::unsent(format!("the coordinator is not known: {code}"))),
                };
            }
        };
        match self.ask_node(node, transactional, call.request.clone()).await {
            Err(lost) if lost.is_unsupported => Ok(refused(&call.request, ErrorCode::UnsupportedVersion)),
            Err(lost) => {
                self.cluster.forget_coordinator(&of);
                Err(lost)
            }
            Ok(reply) => Ok(reply),
        }
    }

    async fn ask_for_identity(&self) -> Result<CoordinatorReply, Lost> {
        let request =
            InitProducerIdRequest { transactional_id: None, transaction_timeout_ms: i32::MAX, ..Default::default() };
        let (response, _) = match self.cluster.ask_any(0..=5, |_| request).await {
            Err(lost) if lost.is_unsupported => {
                return Ok(CoordinatorReply::InitProducerId(Err(ErrorCode::UnsupportedVersion)));
            }
            answered => answered?,
        };
        let identity = ProducerIdentity::new(response.producer_id, response.producer_epoch);
        Ok(CoordinatorReply::InitProducerId(result_of(response.error_code).map(|()| identity)))
    }

    async fn ask_node(
        &self,
        node: i32,
        transactional: &TransactionalSettings,
        request: CoordinatorRequest,
    ) -> Result<CoordinatorReply, Lost> {
        let transactional_id = transactional.id.as_str().to_owned();
        match request {
            CoordinatorRequest::InitProducerId { expected } => {
                let request = InitProducerIdRequest {
                    transactional_id: Some(transactional_id),
                    transaction_timeout_ms: i32::try_from(transactional.timeout.as_millis()).unwrap_or(i32::MAX),
                    producer_id: expected.id.0,
                    producer_epoch: expected.epoch.0,
                    ..Default::default()
                };
                // Version 3 can say what this producer has (KIP-360).
                let (response, _) = self.cluster.ask(node, self.lane, 3..=5, |_| request).await?;
                let identity = ProducerIdentity::new(response.producer_id, response.producer_epoch);
                Ok(CoordinatorReply::InitProducerId(result_of(response.error_code).map(|()| identity)))
            }
            CoordinatorRequest::AddPartitions { identity, partitions } => {
                let mut topics: Vec<AddPartitionsToTxnTopic> = Vec::new();
                for topic_partition in &partitions {
                    let name = topic_partition.topic.as_str();
                    if topics.last().is_none_or(|last| last.name != name) {
                        topics.push(AddPartitionsToTxnTopic { name: name.to_owned(), ..Default::default() });
                    }
                    if let Some(last) = topics.last_mut() {
                        last.partitions.push(topic_partition.partition);
                    }
                }
                let request = AddPartitionsToTxnRequest {
                    v3_and_below_transactional_id: transactional_id,
                    v3_and_below_producer_id: identity.id.0,
                    v3_and_below_producer_epoch: identity.epoch.0,
                    v3_and_below_topics: topics,
                    ..Default::default()
                };
                // Higher versions are between brokers.
                let (response, _) = self.cluster.ask(node, self.lane, 0..=3, |_| request).await?;
                let codes = response.results_by_topic_v3_and_below.into_iter().flat_map(|topic| {
                    let name = TopicName::from(topic.name);
                    topic.results_by_partition.into_iter().map(move |partition| {
                        let topic_partition = TopicPartition::new(name.clone(), partition.partition_index);
                        (topic_partition, ErrorCode::from_wire(partition.partition_error_code))
                    })
                });
                Ok(CoordinatorReply::AddPartitions(codes.collect()))
            }
            CoordinatorRequest::AddOffsets { identity, group_id } => {
                let request = AddOffsetsToTxnRequest {
                    transactional_id,
                    producer_id: identity.id.0,
                    producer_epoch: identity.epoch.0,
                    group_id: group_id.into(),
                    ..Default::default()
                };
                let (response, _) = self.cluster.ask(node, self.lane, 0..=4, |_| request).await?;
                Ok(CoordinatorReply::AddOffsets(ErrorCode::from_wire(response.error_code)))
            }
            CoordinatorRequest::CommitOffsets { identity, group, offsets, protocol } => {
                let mut topics: Vec<TxnOffsetCommitRequestTopic> = Vec::new();
                for (topic_partition, position) in offsets {
                    let name = topic_partition.topic.as_str();
                    if topics.last().is_none_or(|last| last.name != name) {
                        topics.push(TxnOffsetCommitRequestTopic { name: name.to_owned(), ..Default::default() });
                    }
                    if let Some(last) = topics.last_mut() {
                        last.partitions.push(TxnOffsetCommitRequestPartition {
                            partition_index: topic_partition.partition,
                            committed_offset: position.offset,
                            committed_leader_epoch: position.leader_epoch,
                            committed_metadata: Some(position.metadata),
                            ..Default::default()
                        });
                    }
                }
                let request = TxnOffsetCommitRequest {
                    transactional_id,
                    group_id: group.group_id.into(),
                    producer_id: identity.id.0,
                    producer_epoch: identity.epoch.0,
                    generation_id_or_member_epoch: group.generation_id,
                    member_id: group.member_id.into(),
                    group_instance_id: group.instance_id.map(Into::into),
                    topics,
                    ..Default::default()
                };
                // Version 3 fences by member and generation (KIP-447); 5 adds the group by itself; 6 names topics by id.
                let versions = match protocol {
                    Protocol::V1 => 3..=4,
                    Protocol::V2 => 5..=5,
                };
                let (response, _) = self.cluster.ask(node, self.lane, versions, |_| request).await?;
                let codes = response.topics.into_iter().flat_map(|topic| {
                    let name = TopicName::from(topic.name);
                    topic.partitions.into_iter().map(move |partition| {
                        let topic_partition = TopicPartition::new(name.clone(), partition.partition_index);
                        (topic_partition, ErrorCode::from_wire(partition.error_code))
                    })
                });
                Ok(CoordinatorReply::CommitOffsets(codes.collect()))
            }
            CoordinatorRequest::EndTxn { identity, outcome, protocol } => {
                let request = EndTxnRequest {
                    transactional_id,
                    producer_id: identity.id.0,
                    producer_epoch: identity.epoch.0,
                    committed: outcome == Outcome::Commit,
                    ..Default::default()
                };
                let versions = match protocol {
                    Protocol::V1 => 0..=4,
                    Protocol::V2 => 5..=5,
                };
                let (response, _) = self.cluster.ask(node, self.lane, versions, |_| request).await?;
                let next = ProducerIdentity::new(response.producer_id, response.producer_epoch);
                let next = (protocol == Protocol::V2 && next.id.is_some()).then_some(next);
                Ok(CoordinatorReply::EndTxn(result_of(response.error_code).map(|()| next)))
            }
        }
    }
}

/// Tells the futures of records what became of them.
fn settle(inner: &mut Inner, metrics: &Metrics) {
    while let Some(done) = inner.machine.poll_done() {
        metrics.handle_records_done(done.count, done.result.is_ok());
        if let Err(error) = &done.result
            && inner.first_failure.is_none()
        {
            inner.first_failure = Some((done.topic_partition.clone(), error.clone()));
        }
        let batch = done.batch;
        if let Some(fate) = inner.fates.get(&batch) {
            fate.resolve(done);
        }
        if !inner.machine.is_outstanding(batch) {
            inner.fates.remove(&batch);
        }
    }
}

/// A coordinator's answer that refuses what was asked.
fn refused(request: &CoordinatorRequest, code: ErrorCode) -> CoordinatorReply {
    match request {
        CoordinatorRequest::InitProducerId { .. } => CoordinatorReply::InitProducerId(Err(code)),
        CoordinatorRequest::AddPartitions { partitions, .. } => {
            CoordinatorReply::AddPartitions(partitions.iter().map(|it| (it.clone(), code)).collect())
        }
        CoordinatorRequest::AddOffsets { .. } => CoordinatorReply::AddOffsets(code),
        CoordinatorRequest::CommitOffsets { offsets, .. } => {
            CoordinatorReply::CommitOffsets(offsets.iter().map(|(it, _)| (it.clone(), code)).collect())
        }
        CoordinatorRequest::EndTxn { .. } => CoordinatorReply::EndTxn(Err(code)),
    }
}

fn result_of(code: i16) -> Result<(), ErrorCode> {
    ErrorCode::from_wire(code).into_result()
}

// --- records to a node ---

/// Sends the calls to one node in their order, and waits for each answer beside the next call.
async fn send_to_node(
    host: Arc<ProducerHost>,
    node: i32,
    mut calls: mpsc::UnboundedReceiver<ProduceCall>,
    completions: mpsc::UnboundedSender<Completion>,
) {
    while let Some(call) = calls.recv().await {
        let id = call.id;
        let partitions: Vec<TopicPartition> = call.batches.iter().map(|(it, _)| it.clone()).collect();
        let asked = match host.cluster.link(node, host.lane).await {
            Ok(link) => host.ask_to_write(&link, call),
            Err(lost) => Err(lost),
        };
        match asked {
            Ok(reply) => {
                let (host, completions) = (Arc::clone(&host), completions.clone());
                tokio::spawn(async move {
                    let result = reply.wait().await.map(|(response, version)| host.read_answer(response, version));
                    let _ = completions.send(Completion::Produced { call: id, result });
                });
            }
            Err(lost) => {
                let unsupported = |it| (it, Err((ErrorCode::UnsupportedVersion, Some(lost.cause.clone()))));
                let result =
                    if lost.is_unsupported { Ok(partitions.into_iter().map(unsupported).collect()) } else { Err(lost) };
                let _ = completions.send(Completion::Produced { call: id, result });
            }
        }
    }
}

impl ProducerHost {
    fn ask_to_write(
        &self,
        link: &crate::link::Link,
        call: ProduceCall,
    ) -> Result<crate::link::Reply<ProduceResponse>, Lost> {
        let mut topics: Vec<(TopicName, Vec<(i32, Bytes)>)> = Vec::new();
        for (topic_partition, bytes) in call.batches {
            match topics.last_mut() {
                Some((name, partitions)) if *name == topic_partition.topic => {
                    partitions.push((topic_partition.partition, bytes));
                }
                Some(_) | None => topics.push((topic_partition.topic, vec![(topic_partition.partition, bytes)])),
            }
        }
        // From version 13 on topics go by id, if all ids are known.
        let ids: Option<Vec<_>> = self.cluster.with_metadata(|metadata| {
            topics.iter().map(|(name, _)| metadata.topic(name).map(|it| it.id).filter(|id| !id.is_zero())).collect()
        });
        let highest = if ids.is_some() { 13 } else { 12 };
        let versions = match call.protocol {
            Some(Protocol::V1) => 3..=PRODUCE_VERSION_MAX_V1,
            Some(Protocol::V2) => PRODUCE_VERSION_MAX_V1 + 1..=highest,
            None => 3..=highest,
        };
        let transactional_id = self.transactional.as_ref().map(|it| it.id.as_str().to_owned());
        link.ask(versions, self.cluster.request_timeout(), |_| ProduceRequest {
            transactional_id,
            acks: ACKS_ALL,
            timeout_ms: PRODUCE_TIMEOUT_MS,
            topic_data: topics
                .into_iter()
                .enumerate()
                .map(|(place, (name, partitions))| TopicProduceData {
                    name: name.into(),
                    topic_id: ids.as_ref().and_then(|ids| ids.get(place).copied()).unwrap_or_default(),
                    partition_data: partitions
                        .into_iter()
                        .map(|(index, records)| PartitionProduceData {
                            index,
                            records: Some(records),
                            ..Default::default()
                        })
                        .collect(),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        })
    }

    fn read_answer(&self, response: ProduceResponse, version: i16) -> Vec<(TopicPartition, BatchReply)> {
        let mut replies = Vec::new();
        let endpoints: Vec<(i32, Broker)> = response
            .node_endpoints
            .into_iter()
            .map(|it| (it.node_id, Broker { host: it.host, port: it.port, rack: it.rack }))
            .collect();
        for topic in response.responses {
            let name = if version >= 13 {
                self.cluster.with_metadata(|metadata| metadata.name_of(topic.topic_id).cloned())
            } else {
                Some(TopicName::from(topic.name))
            };
            // A topic that was made again meanwhile: its partitions count as not answered, and are sent again.
            let Some(name) = name else { continue };
            for partition in topic.partition_responses {
                let topic_partition = TopicPartition::new(name.clone(), partition.index);
                let hint =
                    Leader { node: partition.current_leader.leader_id, epoch: partition.current_leader.leader_epoch };
                self.cluster.learn_leader(&topic_partition, hint, endpoints.iter().cloned());
                let reply = match ErrorCode::from_wire(partition.error_code) {
                    ErrorCode::None => Ok(Ack {
                        base_offset: (partition.base_offset >= 0).then_some(partition.base_offset),
                        log_append_time: (partition.log_append_time_ms >= 0)
                            .then_some(Timestamp(partition.log_append_time_ms)),
                    }),
                    code => Err((code, partition.error_message)),
                };
                replies.push((topic_partition, reply));
            }
        }
        replies
    }
}

/// Wall-clock time, for records that bring none.
pub(crate) fn wall_clock() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// A seed for choices that need not be repeated: where records without a key go.
pub(crate) fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}
