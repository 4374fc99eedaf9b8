//! What a partition knows of its producers: epochs, the window of recent batches, open transactions, and
//! verifications under way. It decides whether a batch may be appended, and follows what was.
//!
//! **What it does not know**: where batches are stored, coordinators, the clock.
//!
//! Invariants: an open transaction's producer is never forgotten; `open` holds exactly the open
//! transactions of `states`; an epoch never falls.
//!
//! Source: the rules and their order are those of Apache Kafka 4.4 (`ProducerStateManager`, `ProducerAppendInfo`),
//! checked against what it answers.

use std::collections::{BTreeMap, VecDeque};

use atonce_kernel::{Offset, Outcome, ProducerEpoch, ProducerId, ProducerIdentity, Sequence, Timestamp};
use bytes::{BufMut, BytesMut};

use crate::batch::{BatchHeader, EndTransactionMarker};
use crate::fields::Fields;

/// Batches remembered per producer and partition, for recognising duplicates.
/// Five, because that is the most a client may have in flight; fewer would turn a retry into an error.
pub const RECENT_BATCHES: usize = 5;

/// The coordinator epoch of a producer that no marker has named yet.
const NO_COORDINATOR_EPOCH: i32 = -1;

/// What a partition knows of one producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerState {
    epoch: ProducerEpoch,
    coordinator_epoch: i32,
    last_timestamp: Timestamp,
    transaction_first_offset: Option<Offset>,
    recent: VecDeque<RecentBatch>,
}

/// A batch that a producer appended under its present epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecentBatch {
    /// Sequence of its last record.
    pub last_sequence: Sequence,
    /// Offset of its last record.
    pub last_offset: Offset,
    /// Last offset minus base offset.
    pub offset_delta: i32,
    /// Its largest timestamp, or the time of append.
    pub timestamp: Timestamp,
}

impl RecentBatch {
    /// Sequence of its first record.
    #[must_use]
    pub fn base_sequence(&self) -> Sequence {
        self.last_sequence.plus(-self.offset_delta)
    }

    /// Offset of its first record.
    #[must_use]
    pub fn base_offset(&self) -> Offset {
        self.last_offset - i64::from(self.offset_delta)
    }
}

impl ProducerState {
    fn new() -> Self {
        Self {
            epoch: ProducerEpoch::NONE,
            coordinator_epoch: NO_COORDINATOR_EPOCH,
            last_timestamp: Timestamp::NONE,
            transaction_first_offset: None,
            recent: VecDeque::new(),
        }
    }

    /// The newest epoch seen.
    #[must_use]
    pub fn epoch(&self) -> ProducerEpoch {
        self.epoch
    }

    /// The epoch of the coordinator that wrote the last marker; -1 before the first.
    #[must_use]
    pub fn coordinator_epoch(&self) -> i32 {
        self.coordinator_epoch
    }

    /// Timestamp of its last batch or marker.
    #[must_use]
    pub fn last_timestamp(&self) -> Timestamp {
        self.last_timestamp
    }

    /// First offset of the open transaction, if one is open.
    #[must_use]
    pub fn transaction_first_offset(&self) -> Option<Offset> {
        self.transaction_first_offset
    }

    /// Sequence of the last record under the present epoch; `NONE` if there is none.
    #[must_use]
    pub fn last_sequence(&self) -> Sequence {
        self.recent.back().map_or(Sequence::NONE, |batch| batch.last_sequence)
    }

    /// The last batches under the present epoch, oldest first; at most five.
    pub fn recent_batches(&self) -> impl Iterator<Item = &RecentBatch> {
        self.recent.iter()
    }

    /// Whether a transaction of this very epoch is open.
    #[must_use]
    pub fn has_open_transaction(&self, epoch: ProducerEpoch) -> bool {
        self.transaction_first_offset.is_some() && self.epoch == epoch
    }

    fn duplicate_of(&self, header: &BatchHeader) -> Option<RecentBatch> {
        if header.producer.epoch != self.epoch {
            return None;
        }
        let (first, last) = (header.base_sequence, header.last_sequence());
        self.recent.iter().find(|batch| batch.base_sequence() == first && batch.last_sequence == last).copied()
    }

    /// A new epoch counts sequences anew: batches of the old one are no duplicates of anything to come.
    fn enter_epoch(&mut self, epoch: ProducerEpoch) {
        if epoch != self.epoch {
            self.recent.clear();
            self.epoch = epoch;
        }
    }

    fn remember(&mut self, batch: RecentBatch) {
        if self.recent.len() == RECENT_BATCHES {
            self.recent.pop_front();
        }
        self.recent.push_back(batch);
    }
}

/// A place kept for a transaction's first batch while its coordinator is asked whether the partition belongs to it.
///
/// Compared at the append: if a marker was written in between, the answer is about a transaction that is over,
/// and the guard does not fit any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerificationGuard(u64);

/// Whether a coordinator must be asked before a transactional batch may be appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verification {
    /// The producer's transaction is open in this partition.
    NotNeeded,
    /// Ask, then append with this.
    Needed(VerificationGuard),
}

/// Who appends, and so what is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A client's Produce: duplicates, verification, epoch, sequence.
    Client {
        /// What [`Verification`] gave, if the coordinator agreed.
        guard: Option<VerificationGuard>,
    },
    /// A coordinator's record: verification and epoch; it has no sequences.
    Coordinator {
        /// What [`Verification`] gave, if the coordinator agreed.
        guard: Option<VerificationGuard>,
    },
    /// A coordinator's record that ends a transaction or forgets something: when the disk is full, it may use the room that
    /// is kept for that.
    Ending,
}

impl Origin {
    /// A client's batch outside of any transaction, or in one that is open here already.
    pub const CLIENT: Self = Self::Client { guard: None };
    /// A coordinator's record outside of any transaction, or in one that is open here already.
    pub const COORDINATOR: Self = Self::Coordinator { guard: None };

    fn guard(self) -> Option<VerificationGuard> {
        match self {
            Self::Client { guard } | Self::Coordinator { guard } => guard,
            Self::Ending => None,
        }
    }
}

/// Which epochs a marker may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TransactionVersion {
    /// A marker carries the epoch of the transaction (`transaction.version` 0 and 1).
    V1,
    /// A marker carries an epoch of its own, above that of the transaction (KIP-890, `transaction.version` 2).
    V2,
}

/// The end of a transaction in one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    /// The producer, with the epoch that the marker carries.
    pub producer: ProducerIdentity,
    /// How it ended.
    pub outcome: Outcome,
    /// The epoch of the coordinator that writes it.
    pub coordinator_epoch: i32,
    /// The rules for its epoch.
    pub version: TransactionVersion,
}

/// Why a batch or a marker is refused for its producer's sake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProducerRefusal {
    /// INVALID_PRODUCER_EPOCH: a newer incarnation has written, or ended a transaction, here.
    #[error("producer {producer} is fenced: this partition has seen epoch {current}; initialise the producer again")]
    StaleEpoch {
        /// Who was refused.
        producer: ProducerIdentity,
        /// The newest epoch seen.
        current: ProducerEpoch,
    },
    /// OUT_OF_ORDER_SEQUENCE_NUMBER: a batch before it is missing, or it is an old duplicate.
    #[error("batch starts at sequence {found}, expected {expected}, from {producer}")]
    OutOfOrder {
        /// Who was refused.
        producer: ProducerIdentity,
        /// What would have been right.
        expected: Sequence,
        /// What came.
        found: Sequence,
    },
    /// INVALID_TXN_STATE: no transaction is open here, and the coordinator was not asked or did not agree.
    #[error("{producer} has no open transaction here, and its coordinator has not verified one")]
    NotVerified {
        /// Who was refused.
        producer: ProducerIdentity,
    },
    /// INVALID_TXN_STATE: a plain batch in the middle of a transaction.
    #[error(
        "{producer} has had a transaction open since offset {first_offset}; a batch outside it cannot come between"
    )]
    InsideTransaction {
        /// Who was refused.
        producer: ProducerIdentity,
        /// The transaction's first offset.
        first_offset: Offset,
    },
    /// TRANSACTION_COORDINATOR_FENCED: a newer coordinator has written a marker here.
    #[error("coordinator epoch {found} is old: a marker of epoch {current} was written for {producer}")]
    CoordinatorFenced {
        /// Whose transaction.
        producer: ProducerIdentity,
        /// The newest coordinator epoch seen.
        current: i32,
        /// The marker's.
        found: i32,
    },
}

/// What becomes of a batch that is not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It was appended before, as this.
    Duplicate(RecentBatch),
    /// It is to be appended.
    Append,
}

/// A transaction with data that a marker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Completed {
    pub(crate) first_offset: Offset,
    /// What the last stable offset is now, apart from the high watermark: the first offset of the earliest
    /// transaction still open, or the offset after the marker.
    pub(crate) last_stable_offset: Offset,
}

/// A verification under way.
#[derive(Clone, Copy, Debug)]
struct VerificationEntry {
    guard: VerificationGuard,
    epoch: ProducerEpoch,
    /// A later batch of the transaction must not slip in before its first (KAFKA-14920).
    lowest_sequence: Sequence,
    version: TransactionVersion,
    since: Timestamp,
}

/// All producers of one partition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Producers {
    states: BTreeMap<ProducerId, ProducerState>,
    /// First offset of each open transaction.
    open: BTreeMap<Offset, ProducerId>,
    verifications: BTreeMap<ProducerId, VerificationEntry>,
    last_guard: u64,
}

impl Producers {
    pub(crate) fn get(&self, id: ProducerId) -> Option<&ProducerState> {
        self.states.get(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ProducerId, &ProducerState)> {
        self.states.iter().map(|(id, state)| (*id, state))
    }

    /// First offset of the earliest open transaction.
    pub(crate) fn first_unstable_offset(&self) -> Option<Offset> {
        self.open.first_key_value().map(|(offset, _)| *offset)
    }

    /// Begins, or joins, the verification of a producer's next transaction in this partition.
    pub(crate) fn start_verification(
        &mut self,
        producer: ProducerIdentity,
        base_sequence: Sequence,
        version: TransactionVersion,
        now: Timestamp,
    ) -> Verification {
        if self.states.get(&producer.id).is_some_and(|state| state.has_open_transaction(producer.epoch)) {
            return Verification::NotNeeded;
        }
        let last_guard = &mut self.last_guard;
        let entry = self.verifications.entry(producer.id).or_insert_with(|| {
            *last_guard += 1;
            VerificationEntry {
                guard: VerificationGuard(*last_guard),
                epoch: producer.epoch,
                lowest_sequence: base_sequence,
                version,
                since: now,
            }
        });
        if producer.epoch > entry.epoch {
            (entry.epoch, entry.lowest_sequence, entry.version) = (producer.epoch, base_sequence, version);
        }
        entry.lowest_sequence = entry.lowest_sequence.min(base_sequence);
        Verification::Needed(entry.guard)
    }

    /// Reads; changes nothing. The order of the checks is behaviour that clients rely on.
    pub(crate) fn check_batch(&self, header: &BatchHeader, origin: Origin) -> Result<Verdict, ProducerRefusal> {
        if !header.has_producer() {
            return Ok(Verdict::Append);
        }
        let state = self.states.get(&header.producer.id);
        if let Origin::Client { .. } = origin
            && let Some(original) = state.and_then(|state| state.duplicate_of(header))
        {
            return Ok(Verdict::Duplicate(original));
        }
        self.check_transaction(header, state, origin)?;
        if let Some(state) = state {
            check_epoch(header, state)?;
        }
        match origin {
            Origin::Client { .. } => self.check_sequence(header, state)?,
            Origin::Coordinator { .. } | Origin::Ending => {}
        }
        match state.and_then(ProducerState::transaction_first_offset) {
            Some(first_offset) if !header.is_transactional() => {
                Err(ProducerRefusal::InsideTransaction { producer: header.producer, first_offset })
            }
            Some(_) | None => Ok(Verdict::Append),
        }
    }

    fn check_transaction(
        &self,
        header: &BatchHeader,
        state: Option<&ProducerState>,
        origin: Origin,
    ) -> Result<(), ProducerRefusal> {
        let producer = header.producer;
        if !header.is_transactional() || state.is_some_and(|state| state.has_open_transaction(producer.epoch)) {
            return Ok(());
        }
        // A zombie is told that it is one, whatever became of its verification.
        if let Some(state) = state {
            check_epoch(header, state)?;
        }
        let verification = self.verifications.get(&producer.id).map(|entry| entry.guard);
        if verification.is_some() && verification == origin.guard() {
            Ok(())
        } else {
            Err(ProducerRefusal::NotVerified { producer })
        }
    }

    fn check_sequence(&self, header: &BatchHeader, state: Option<&ProducerState>) -> Result<(), ProducerRefusal> {
        let (producer, found) = (header.producer, header.base_sequence);
        let out_of_order = |expected| Err(ProducerRefusal::OutOfOrder { producer, expected, found });
        if let Some(verification) = self.verifications.get(&producer.id) {
            let nothing_known = state.is_none_or(|state| state.recent.is_empty());
            if verification.version == TransactionVersion::V2 && nothing_known && found != Sequence::FIRST {
                return out_of_order(Sequence::FIRST);
            }
            if found > verification.lowest_sequence {
                return out_of_order(verification.lowest_sequence);
            }
        }
        // Nothing known: the state may have expired, or all records were deleted. Any sequence may begin.
        let Some(state) = state else { return Ok(()) };
        let expected = if producer.epoch == state.epoch { state.last_sequence().next() } else { Sequence::FIRST };
        if found == expected { Ok(()) } else { out_of_order(expected) }
    }

    /// Follows a batch that is appended at `base_offset`.
    pub(crate) fn apply_batch(&mut self, header: &BatchHeader, base_offset: Offset) {
        if !header.has_producer() {
            return;
        }
        let state = self.states.entry(header.producer.id).or_insert_with(ProducerState::new);
        state.enter_epoch(header.producer.epoch);
        state.remember(RecentBatch {
            last_sequence: header.last_sequence(),
            last_offset: base_offset + i64::from(header.last_offset_delta),
            offset_delta: header.last_offset_delta,
            timestamp: header.max_timestamp,
        });
        state.last_timestamp = header.max_timestamp;
        if header.is_transactional() {
            if state.transaction_first_offset.is_none() {
                state.transaction_first_offset = Some(base_offset);
                self.open.insert(base_offset, header.producer.id);
            }
            self.verifications.remove(&header.producer.id);
        }
    }

    /// Reads; changes nothing.
    pub(crate) fn check_marker(&self, marker: &Marker) -> Result<(), ProducerRefusal> {
        let producer = marker.producer;
        // A producer that never wrote here (its partition was added and got nothing) gets its marker.
        let Some(state) = self.states.get(&producer.id) else { return Ok(()) };
        let is_open = state.transaction_first_offset.is_some();
        let stale = match marker.version {
            TransactionVersion::V1 => producer.epoch < state.epoch,
            // The marker's epoch is above that of the transaction. An equal one is the same marker once more, if
            // nothing is open (KAFKA-19999), or an exhausted producer's.
            TransactionVersion::V2 => {
                producer.epoch < state.epoch
                    || (producer.epoch == state.epoch && is_open && producer.epoch.0 != i16::MAX)
            }
        };
        if stale {
            return Err(ProducerRefusal::StaleEpoch { producer, current: state.epoch });
        }
        if marker.coordinator_epoch < state.coordinator_epoch {
            return Err(ProducerRefusal::CoordinatorFenced {
                producer,
                current: state.coordinator_epoch,
                found: marker.coordinator_epoch,
            });
        }
        Ok(())
    }

    /// Follows a marker that is appended at `offset`. An empty transaction completes nothing.
    pub(crate) fn apply_marker(
        &mut self,
        header: &BatchHeader,
        marker: EndTransactionMarker,
        offset: Offset,
    ) -> Option<Completed> {
        let id = header.producer.id;
        let state = self.states.entry(id).or_insert_with(ProducerState::new);
        state.enter_epoch(header.producer.epoch);
        state.coordinator_epoch = marker.coordinator_epoch;
        // The marker's time counts for expiry: else a long transaction's producer would be forgotten at its end
        // (KAFKA-9144).
        state.last_timestamp = header.max_timestamp;
        let first_offset = state.transaction_first_offset.take();
        if let Some(first_offset) = first_offset {
            self.open.remove(&first_offset);
        }
        // In V2 the marker's epoch is that of the producer's next transaction, whose verification may have begun.
        if self
            .verifications
            .get(&id)
            .is_some_and(|entry| entry.version == TransactionVersion::V1 || entry.epoch != header.producer.epoch)
        {
            self.verifications.remove(&id);
        }
        first_offset.map(|first_offset| Completed {
            first_offset,
            last_stable_offset: self.first_unstable_offset().unwrap_or(offset + 1),
        })
    }

    /// Forgets producers without an open transaction that have not written since `before`, and verifications begun
    /// before it.
    pub(crate) fn expire(&mut self, before: Timestamp) {
        self.states.retain(|_, state| state.transaction_first_offset.is_some() || state.last_timestamp >= before);
        self.verifications.retain(|_, entry| entry.since >= before);
    }

    /// Layout: `count u32`, then per producer `id i64 | epoch i16 | coordinator_epoch i32 | last_timestamp i64 |
    /// transaction_first_offset i64 (-1: none) | batches u8`, then per batch, oldest first, `last_sequence i32 |
    /// last_offset i64 | offset_delta i32 | timestamp i64`. Verifications are not kept: the client asks again.
    pub(crate) fn encode(&self, buffer: &mut BytesMut) {
        buffer.put_u32(u32::try_from(self.states.len()).expect("fewer than 2^32 producers fit in memory"));
        for (id, state) in &self.states {
            buffer.put_i64(id.0);
            buffer.put_i16(state.epoch.0);
            buffer.put_i32(state.coordinator_epoch);
            buffer.put_i64(state.last_timestamp.0);
            buffer.put_i64(state.transaction_first_offset.unwrap_or(-1));
            buffer.put_u8(state.recent.len() as u8);
            for batch in &state.recent {
                buffer.put_i32(batch.last_sequence.0);
                buffer.put_i64(batch.last_offset);
                buffer.put_i32(batch.offset_delta);
                buffer.put_i64(batch.timestamp.0);
            }
        }
    }

    pub(crate) fn decode(fields: &mut Fields<'_>) -> Option<Self> {
        let mut producers = Self::default();
        for _ in 0..fields.u32()? {
            let id = ProducerId(fields.i64()?);
            let mut state = ProducerState::new();
            state.epoch = ProducerEpoch(fields.i16()?);
            state.coordinator_epoch = fields.i32()?;
            state.last_timestamp = Timestamp(fields.i64()?);
            let first_offset = fields.i64()?;
            if first_offset >= 0 {
                state.transaction_first_offset = Some(first_offset);
                producers.open.insert(first_offset, id);
            }
            for _ in 0..fields.u8()? {
                state.remember(RecentBatch {
                    last_sequence: Sequence(fields.i32()?),
                    last_offset: fields.i64()?,
                    offset_delta: fields.i32()?,
                    timestamp: Timestamp(fields.i64()?),
                });
            }
            producers.states.insert(id, state);
        }
        Some(producers)
    }
}

fn check_epoch(header: &BatchHeader, state: &ProducerState) -> Result<(), ProducerRefusal> {
    if header.producer.epoch < state.epoch {
        Err(ProducerRefusal::StaleEpoch { producer: header.producer, current: state.epoch })
    } else {
        Ok(())
    }
}

#[cfg(test)]
#[path = "producer_tests.rs"]
mod tests;
