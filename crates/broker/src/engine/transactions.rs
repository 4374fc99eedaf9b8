//! The host of the transaction coordinator's shards, one for each partition of `__transaction_state`.
//!
//! For each command: decide, stage the records, apply them, note; then do what is owed until nothing is. Markers go into the
//! same journal group as the decision, so a whole commit is one sync and nobody ever meets a prepared transaction.
//!
//! **What it does not know**: what any command means.

use std::collections::{BTreeMap, BTreeSet};

use atonce_coordinator::transaction::{
    Command, Limits, ListFilter, ListedTransaction, MarkersReport, Obligation, Protocol, Record, Reply, State,
    StateName, TransactionCoordinator,
};
use atonce_coordinator::{Context, Entry, Shard, Waiter};
use atonce_kernel::{Offset, ProducerIdentity, Timestamp, TopicName, TopicPartition, TransactionalId};
use atonce_log::{AppendError, Marker, Origin, TransactionVersion};
use atonce_protocol::ErrorCode;

use super::hashing::partition_for;
use super::held::{Held, HeldBy};
use super::{Engine, append_error_code};
use crate::LEADER_EPOCH;
use crate::configuration::Settings;
use crate::coordinator_batch;
use crate::topic_name::{CONSUMER_OFFSETS, TRANSACTION_STATE};

/// How long to wait before a marker that could not be written is tried again: a disk that is full takes a while to be emptied.
const MARKER_RETRY_MS: i64 = 1000;

/// A transaction in the way is aborted, then the id begins anew; once more leaves room for one that is prepared.
const RENEWALS_MAX: usize = 3;

/// How long to wait after a tick whose records could not be logged.
const TICK_RETRY_MS: i64 = 1000;

/// Runs once the coordinator has answered.
type Continuation = Box<dyn FnOnce(&mut Engine, Reply) + Send>;

/// The shards, and who waits for them.
pub(super) struct TransactionHost {
    pub(super) shards: Vec<TransactionCoordinator>,
    /// Those whose log cannot be read: they know nothing, and are asked nothing.
    offline: BTreeSet<i32>,
    waiting: BTreeMap<Waiter, Continuation>,
    /// When to try again what is owed in a shard.
    retries: BTreeMap<i32, Timestamp>,
    /// After a tick that could not be logged: no other before this.
    no_tick_before: Timestamp,
}

fn limits(settings: &Settings) -> Limits {
    Limits {
        transaction_timeout_ms_max: settings.transaction_timeout_ms_max,
        transactional_id_expiration_ms: settings.transactional_id_expiration_ms,
    }
}

impl TransactionHost {
    pub(super) fn new(settings: &Settings) -> Self {
        let limits = limits(settings);
        let shards = (0..settings.transaction_state_partitions).map(|_| TransactionCoordinator::new(limits)).collect();
        Self {
            shards,
            offline: BTreeSet::new(),
            waiting: BTreeMap::new(),
            retries: BTreeMap::new(),
            no_tick_before: Timestamp::NONE,
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        let deadlines =
            self.shards.iter().filter_map(Shard::next_deadline).map(|deadline| deadline.max(self.no_tick_before));
        deadlines.chain(self.retries.values().copied()).min()
    }

    fn shard(&self, partition: i32) -> Option<&TransactionCoordinator> {
        let index = usize::try_from(partition).ok().filter(|_| !self.offline.contains(&partition))?;
        self.shards.get(index)
    }

    fn shard_mut(&mut self, partition: i32) -> Option<&mut TransactionCoordinator> {
        let index = usize::try_from(partition).ok().filter(|_| !self.offline.contains(&partition))?;
        self.shards.get_mut(index)
    }

    fn first_online(&self) -> i32 {
        (0..self.partitions()).find(|partition| !self.offline.contains(partition)).unwrap_or(0)
    }

    /// Half of what a shard knew is worse than nothing: it forgets all, and is asked nothing more.
    pub(super) fn take_offline(&mut self, partition: i32, settings: &Settings) {
        self.offline.insert(partition);
        if let Some(shard) = usize::try_from(partition).ok().and_then(|index| self.shards.get_mut(index)) {
            *shard = TransactionCoordinator::new(limits(settings));
        }
    }

    pub(super) fn partitions(&self) -> i32 {
        i32::try_from(self.shards.len()).unwrap_or(i32::MAX)
    }
}

impl Engine {
    /// Asks the coordinator of `id`; `then` runs with its answer, perhaps at once, perhaps when what stands in the way is done.
    pub(crate) fn ask_transactions(
        &mut self,
        id: Option<&TransactionalId>,
        command: &Command,
        then: impl FnOnce(&mut Self, Result<Reply, ErrorCode>) + Send + 'static,
    ) {
        self.ask_transactions_held(id, command, &Held::default(), then);
    }

    /// The same for a request that may be held; `held` is told.
    pub(crate) fn ask_transactions_held(
        &mut self,
        id: Option<&TransactionalId>,
        command: &Command,
        held: &Held,
        then: impl FnOnce(&mut Self, Result<Reply, ErrorCode>) + Send + 'static,
    ) {
        let partition = match id {
            Some(id) => partition_for(id.as_str(), self.transactions.partitions()),
            // Anyone can hand out a producer id.
            None => self.transactions.first_online(),
        };
        let waiter = self.new_waiter();
        match self.run_transactions(partition, waiter, command) {
            Err(code) => then(self, Err(code)),
            Ok(Some(reply)) => then(self, Ok(reply)),
            Ok(None) => {
                held.by(HeldBy::Transaction { partition, waiter });
                self.transactions.waiting.insert(waiter, Box::new(move |engine, reply| then(engine, Ok(reply))));
            }
        }
    }

    /// Nobody listens any more to the answer that `waiter` was promised.
    pub(super) fn transaction_caller_gone(&mut self, partition: i32, gone: &Command, waiter: Waiter) {
        if self.transactions.waiting.remove(&waiter).is_none() {
            return;
        }
        let asking = self.new_waiter();
        if let Err(code) = self.run_transactions(partition, asking, gone) {
            tracing::debug!(partition, %code, "who hung up stays held until its transaction has ended");
        }
    }

    /// Asks the coordinator of `id` something that it answers at once.
    pub(crate) fn transactions_now(&mut self, id: &TransactionalId, command: &Command) -> Result<Reply, ErrorCode> {
        let partition = partition_for(id.as_str(), self.transactions.partitions());
        let waiter = self.new_waiter();
        self.run_transactions(partition, waiter, command)?.ok_or(ErrorCode::UnknownServerError)
    }

    /// What is known of a transactional id.
    pub(crate) fn transaction_shard(&self, id: &TransactionalId) -> Option<&TransactionCoordinator> {
        self.transactions.shard(partition_for(id.as_str(), self.transactions.partitions()))
    }

    /// Transactional ids that are remembered, by where their transactions stand.
    pub(super) fn count_transactions(&self) -> BTreeMap<StateName, usize> {
        let mut counts = BTreeMap::new();
        for shard in &self.transactions.shards {
            for transaction in shard.transactional_ids().filter_map(|id| shard.transaction(id)) {
                *counts.entry(transaction.state.name()).or_default() += 1;
            }
        }
        counts
    }

    /// All transactions that pass the filter.
    pub(crate) fn list_transactions(&self, filter: &ListFilter) -> Vec<ListedTransaction> {
        self.transactions.shards.iter().flat_map(|shard| shard.list(filter, self.now)).collect()
    }

    /// Runs a command and all that follows from it. Returns the waiter's own answer, if there is one yet.
    fn run_transactions(
        &mut self,
        partition: i32,
        waiter: Waiter,
        command: &Command,
    ) -> Result<Option<Reply>, ErrorCode> {
        self.begin_unit();
        let mut replies = Vec::new();
        let owed_before = self.owed_in(partition);
        let decided = self.decide_transactions(partition, waiter, command, &mut replies);
        if decided.is_ok() {
            self.settle_transactions(partition, owed_before, &mut replies);
        }
        self.end_unit();
        decided?;
        let mut own = None;
        for (to, reply) in replies {
            if to == waiter {
                own = Some(reply);
            } else if let Some(then) = self.transactions.waiting.remove(&to) {
                then(self, reply);
            }
        }
        Ok(own)
    }

    fn decide_transactions(
        &mut self,
        partition: i32,
        waiter: Waiter,
        command: &Command,
        replies: &mut Vec<(Waiter, Reply)>,
    ) -> Result<(), ErrorCode> {
        let context =
            Context { now: self.now, waiter, fresh_producer_id: self.fresh_producer_id()?, fresh_uuid: self.uuid() };
        let shard = self.transactions.shard(partition).ok_or(ErrorCode::NotCoordinator)?;
        let decision = shard.decide(&context, command);
        if !decision.records.is_empty() {
            self.log_transactions(partition, &decision.records)?;
        }
        if decision.took_producer_id {
            self.take_producer_id();
        }
        let shard = self.transactions.shard_mut(partition).ok_or(ErrorCode::NotCoordinator)?;
        for note in &decision.notes {
            shard.note(note);
        }
        replies.extend(decision.replies);
        Ok(())
    }

    /// Stages the records as one batch, and applies them.
    fn log_transactions(&mut self, partition: i32, records: &[Record]) -> Result<(), ErrorCode> {
        self.make_internal_topic(TRANSACTION_STATE)?;
        let to = TopicPartition::new(TRANSACTION_STATE, partition);
        let pairs = records.iter().map(Record::encode);
        let batch = coordinator_batch::encode(pairs, None, self.now).map_err(|error| not_encoded(&to, &error))?;
        // Whatever the disk has left: readers wait for the ends of transactions.
        let ends = |record: &Record| match record.transaction().map(|transaction| &transaction.state) {
            None | Some(State::Prepared { .. } | State::Complete { .. }) => true,
            Some(State::Empty | State::Ongoing { .. }) => false,
        };
        let origin = if records.iter().all(ends) { Origin::Ending } else { Origin::COORDINATOR };
        let appended = self.append(&to, &batch, origin).map_err(|error| not_logged(&to, &error))?;
        let timestamp = self.now;
        let shard = self.transactions.shard_mut(partition).ok_or(ErrorCode::NotCoordinator)?;
        for (offset, record) in (appended.base_offset..).zip(records) {
            tracing::debug!(partition, %record, "transaction");
            let entry = Entry::Record { record, producer: None, offset, timestamp };
            shard.apply(&entry).expect("what the shard decided follows its own state");
        }
        Ok(())
    }

    /// The transactions of a shard that are owed markers, by where they were decided.
    fn owed_in(&self, partition: i32) -> BTreeSet<Offset> {
        let shard = self.transactions.shard(partition);
        shard.into_iter().flat_map(Shard::obligations).map(|owed| owed.prepared_at).collect()
    }

    /// Writes the markers that are owed, until none is, or none can be written for now. For those in `tried` this is not the
    /// first time.
    fn settle_transactions(&mut self, partition: i32, mut tried: BTreeSet<Offset>, replies: &mut Vec<(Waiter, Reply)>) {
        self.transactions.retries.remove(&partition);
        loop {
            let Some(shard) = self.transactions.shard(partition) else { return };
            let owed: Vec<Obligation> = shard.obligations().collect();
            if owed.is_empty() {
                return;
            }
            let mut is_stuck = false;
            for obligation in owed {
                let is_again = !tried.insert(obligation.prepared_at);
                is_stuck |= !self.write_markers(partition, &obligation, is_again, replies);
            }
            if is_stuck {
                self.transactions.retries.insert(partition, self.now.plus_ms(MARKER_RETRY_MS));
                return;
            }
        }
    }

    /// Writes the markers of one transaction, and reports them. False if some could not be written. `is_again`: some may
    /// stand there already.
    fn write_markers(
        &mut self,
        partition: i32,
        owed: &Obligation,
        is_again: bool,
        replies: &mut Vec<(Waiter, Reply)>,
    ) -> bool {
        let marker = Marker {
            producer: owed.producer,
            outcome: owed.outcome,
            coordinator_epoch: LEADER_EPOCH,
            version: match owed.protocol {
                Protocol::V1 => TransactionVersion::V1,
                Protocol::V2 => TransactionVersion::V2,
            },
        };
        let (mut written, mut gone, mut is_whole) = (Vec::new(), Vec::new(), true);
        for to in &owed.partitions {
            if is_again && self.is_ended_in(to, owed.producer) {
                written.push(to.clone());
                continue;
            }
            // An administrator's marker may have named a later coordinator than any we have: ours must not be taken for an old one's.
            let known =
                self.storage.producer_state(to, owed.producer.id).map_or(LEADER_EPOCH, |it| it.coordinator_epoch());
            let marker = Marker { coordinator_epoch: marker.coordinator_epoch.max(known), ..marker };
            match self.write_marker(to, &marker) {
                Ok(()) => written.push(to.clone()),
                Err(AppendError::UnknownPartition(_)) => gone.push(to.clone()),
                // A newer epoch has ended or begun something here (an administrator's marker, say): nothing of this
                // transaction is open, so nothing is owed.
                Err(error @ AppendError::Producer { .. }) => {
                    tracing::warn!(partition = %to, %error, "a marker is not needed");
                    written.push(to.clone());
                }
                // An offline partition is owed its marker until it is back, or its topic is deleted: what is in it may
                // be read again one day, and must then be committed or aborted as everywhere else.
                Err(AppendError::Offline { .. }) => is_whole = false,
                Err(error @ (AppendError::Batch { .. } | AppendError::Storage(_))) => {
                    tracing::error!(partition = %to, %error, "a marker cannot be written now");
                    is_whole = false;
                }
            }
        }
        let report = |partitions| MarkersReport {
            transactional_id: owed.transactional_id.clone(),
            prepared_at: owed.prepared_at,
            partitions,
        };
        let mut commands = Vec::new();
        if !gone.is_empty() {
            commands.push(Command::PartitionsGone(report(gone)));
        }
        if !written.is_empty() || owed.partitions.is_empty() {
            commands.push(Command::MarkersWritten(report(written)));
        }
        for command in commands {
            let waiter = self.new_waiter();
            is_whole &= self.decide_transactions(partition, waiter, &command, replies).is_ok();
        }
        is_whole
    }

    /// Whether the end of a transaction that is being settled once more stands in a partition. A completion that cannot be
    /// logged is tried every second: without this question each time would add a marker to every partition.
    ///
    /// Nobody writes under this identity before the completion, so where it has nothing open there is nothing left to end.
    fn is_ended_in(&self, to: &TopicPartition, marked: ProducerIdentity) -> bool {
        // What an offline partition seems to know is not all that its files say.
        let is_online = self.storage.reader(to).is_some_and(|reader| reader.damage().is_none());
        let state = self.storage.producer_state(to, marked.id);
        is_online && state.is_some_and(|it| it.epoch() == marked.epoch && it.transaction_first_offset().is_none())
    }

    /// Writes one marker. In a partition of `__consumer_offsets` the group shard follows, so that offsets become visible.
    pub(crate) fn write_marker(&mut self, to: &TopicPartition, marker: &Marker) -> Result<(), AppendError> {
        let appended = self.append_marker(to, marker)?;
        if to.topic.as_str() == CONSUMER_OFFSETS && !appended.duplicate {
            self.end_transaction_in_group(to.partition, marker, appended.base_offset);
        }
        Ok(())
    }

    /// Sends each shard its tick while one is due, and tries again what is still owed.
    pub(super) fn tick_transactions(&mut self) {
        let now = self.now;
        if self.transactions.next_deadline().is_none_or(|deadline| deadline > now) {
            return;
        }
        for partition in 0..self.transactions.partitions() {
            let is_due = |engine: &Self| {
                let shard = engine.transactions.shard(partition);
                shard.and_then(Shard::next_deadline).is_some_and(|deadline| deadline <= now)
            };
            while is_due(self) {
                let waiter = self.new_waiter();
                if self.run_transactions(partition, waiter, &Command::Tick).is_err() {
                    self.transactions.no_tick_before = now.plus_ms(TICK_RETRY_MS);
                    return;
                }
            }
            if self.transactions.retries.get(&partition).is_some_and(|at| *at <= now) {
                self.settle_again(partition);
            }
        }
    }

    /// Does what a shard owes, whoever it was before.
    pub(super) fn settle_again(&mut self, partition: i32) {
        self.begin_unit();
        let mut replies = Vec::new();
        let tried = self.owed_in(partition);
        self.settle_transactions(partition, tried, &mut replies);
        self.end_unit();
        for (to, reply) in replies {
            if let Some(then) = self.transactions.waiting.remove(&to) {
                then(self, reply);
            }
        }
    }

    /// Gives every id of a shard a new producer, aborting what is open. A raised old epoch would not do: it could meet a
    /// producer that had been given it already.
    pub(super) fn renew_transactions(&mut self, partition: i32) -> Result<(), String> {
        let Some(shard) = self.transactions.shard(partition) else { return Ok(()) };
        let ids: Vec<TransactionalId> = shard.transactional_ids().cloned().collect();
        for id in ids {
            // More than once where a transaction was in the way: first it is aborted.
            for _ in 0..RENEWALS_MAX {
                let waiter = self.new_waiter();
                self.run_transactions(partition, waiter, &Command::Renew(id.clone()))
                    .map_err(|code| format!("transactional id {id} cannot be renewed after power loss: {code}"))?;
                let shard = self.transactions.shard(partition);
                match shard.and_then(|shard| shard.transaction(&id)).map(|transaction| &transaction.state) {
                    Some(State::Empty) | None => break,
                    Some(State::Ongoing { .. } | State::Prepared { .. } | State::Complete { .. }) => {}
                }
            }
        }
        Ok(())
    }

    /// Takes a deleted topic out of open transactions.
    pub(super) fn forget_topic_in_transactions(&mut self, name: &TopicName) {
        for partition in 0..self.transactions.partitions() {
            let waiter = self.new_waiter();
            if let Err(code) = self.run_transactions(partition, waiter, &Command::TopicDeleted(name.clone())) {
                tracing::error!(%name, %code, "a deleted topic stays in open transactions; their ends will drop it");
            }
        }
    }
}

/// The code for a coordinator's record that is not logged.
pub(super) fn not_logged(to: &TopicPartition, error: &AppendError) -> ErrorCode {
    tracing::error!(partition = %to, %error, "a coordinator's record is not logged");
    match append_error_code(error) {
        ErrorCode::InvalidProducerEpoch => ErrorCode::InvalidProducerEpoch,
        ErrorCode::InvalidTxnState => ErrorCode::InvalidTxnState,
        _ => ErrorCode::CoordinatorNotAvailable,
    }
}

/// The code for a coordinator's record that is too long to be one.
pub(super) fn not_encoded(to: &TopicPartition, error: &str) -> ErrorCode {
    tracing::error!(partition = %to, error, "a coordinator's record cannot be encoded");
    ErrorCode::UnknownServerError
}
