//! The transaction manager: which request the coordinator is asked next, and what its answers make of the transaction.
//!
//! It speaks both protocols. In the old one (`V1`) partitions and groups are added by requests of their own, and a producer
//! keeps its epoch; in the new one (`V2`, KIP-890) the broker adds them with the first record or offset, and every end
//! raises the epoch, so that nothing late can touch the next transaction.
//!
//! **What it does not know**: batches (the producer tells when all are flushed), sockets, who waits. Whoever drives it
//! sends what [`TransactionManager::poll_request`] says and hands every answer back, or says that it was lost.
//!
//! ```text
//!  Uninitialized ─initialize─> Initializing ──> Ready ─begin─> InTransaction ──end──> Ending ──> Ready
//!                               (also renews)                     │  │ epoch refused    │ answer lost, or
//!                                    │ fenced             refused │  └────> InDoubt <───┘ it makes no sense
//!                                    v                            v          │  │
//!                               FatalError <────── fenced ────────│──────────┘  └─ outcome learnt ─> Ready
//!                                                             AbortableError ─end(abort)─> Ending
//! ```
//!
//! Invariants: at most one coordinator request is in flight, for there is one place for it; success names the true outcome:
//! `Committed` is said only after a coordinator's yes to this transaction's commit, `Aborted` only if no commit was asked
//! for, or the coordinator's state excludes it; all else is `Unknown`. No transaction begins while one is in doubt.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use atonce_kernel::{GroupId, GroupInstanceId, MemberId, Monotonic, Offset, Outcome, ProducerIdentity, TopicPartition};
use atonce_protocol::ErrorCode;

use crate::classify::{Operation, Verdict, classify};
use crate::error::{Refusal, TransactionError};

/// How long a client waits after `CONCURRENT_TRANSACTIONS`: markers of the last transaction are being written.
/// Twenty milliseconds, as Kafka's clients do for the first partition of a transaction.
pub(crate) const CONCURRENT_TRANSACTIONS_BACKOFF: Duration = Duration::from_millis(20);

/// How long a client waits before it asks again after any other passing failure.
const RETRY_BACKOFF: Duration = Duration::from_millis(100);

/// Which transaction protocol is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// KIP-98: partitions are added by request, the epoch stays.
    V1,
    /// KIP-890: partitions are added implicitly, the epoch rises with each end. Needs `transaction.version` 2.
    V2,
}

/// Who in a group speaks: fences offsets that a former member sends (KIP-447).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMetadata {
    /// The group.
    pub group_id: GroupId,
    /// Its generation when this was taken; -1 for a consumer by assignment.
    pub generation_id: i32,
    /// The member; empty for a consumer by assignment.
    pub member_id: MemberId,
    /// The member's own name, if it is static.
    pub instance_id: Option<GroupInstanceId>,
}

impl GroupMetadata {
    /// A group without members that speak: offsets are taken without a check of generation.
    pub fn without_member(group_id: impl Into<GroupId>) -> Self {
        Self { group_id: group_id.into(), generation_id: -1, member_id: MemberId::from(""), instance_id: None }
    }
}

/// A position to commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitPosition {
    /// The next offset to read. Not "last record + 1": control records take offsets too.
    pub offset: Offset,
    /// The leader's epoch of the record before it; -1 if not known.
    pub leader_epoch: i32,
    /// A text kept beside it.
    pub metadata: String,
}

/// What the coordinator is to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CoordinatorRequest {
    /// A producer id and epoch; `expected` is what this producer has, or none when it takes the id over.
    InitProducerId {
        /// What this producer has.
        expected: ProducerIdentity,
    },
    /// To add partitions (`V1`).
    AddPartitions {
        /// Who asks.
        identity: ProducerIdentity,
        /// All that are not added yet, sorted.
        partitions: Vec<TopicPartition>,
    },
    /// To add a group (`V1`).
    AddOffsets {
        /// Who asks.
        identity: ProducerIdentity,
        /// The group.
        group_id: GroupId,
    },
    /// To take offsets: the *group's* coordinator.
    CommitOffsets {
        /// Who asks.
        identity: ProducerIdentity,
        /// For whom.
        group: GroupMetadata,
        /// The positions, sorted.
        offsets: Vec<(TopicPartition, CommitPosition)>,
        /// Which protocol: it bounds the request's version.
        protocol: Protocol,
    },
    /// To end the transaction.
    EndTxn {
        /// Who asks, by the epoch that the transaction was begun with.
        identity: ProducerIdentity,
        /// How.
        outcome: Outcome,
        /// Which protocol: it bounds the request's version.
        protocol: Protocol,
    },
}

/// A coordinator's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CoordinatorReply {
    /// To [`CoordinatorRequest::InitProducerId`].
    InitProducerId(Result<ProducerIdentity, ErrorCode>),
    /// To [`CoordinatorRequest::AddPartitions`]: a code for each.
    AddPartitions(Vec<(TopicPartition, ErrorCode)>),
    /// To [`CoordinatorRequest::AddOffsets`].
    AddOffsets(ErrorCode),
    /// To [`CoordinatorRequest::CommitOffsets`]: a code for each.
    CommitOffsets(Vec<(TopicPartition, ErrorCode)>),
    /// To [`CoordinatorRequest::EndTxn`], with the identity of the next transaction if the protocol is `V2`.
    EndTxn(Result<Option<ProducerIdentity>, ErrorCode>),
}

impl CoordinatorRequest {
    fn operation(&self) -> Operation {
        match self {
            Self::InitProducerId { .. } => Operation::InitProducerId,
            Self::AddPartitions { .. } => Operation::AddPartitionsToTxn,
            Self::AddOffsets { .. } => Operation::AddOffsetsToTxn,
            Self::CommitOffsets { .. } => Operation::TxnOffsetCommit,
            Self::EndTxn { .. } => Operation::EndTxn,
        }
    }
}

impl CoordinatorReply {
    fn operation(&self) -> Operation {
        match self {
            Self::InitProducerId(_) => Operation::InitProducerId,
            Self::AddPartitions(_) => Operation::AddPartitionsToTxn,
            Self::AddOffsets(_) => Operation::AddOffsetsToTxn,
            Self::CommitOffsets(_) => Operation::TxnOffsetCommit,
            Self::EndTxn(_) => Operation::EndTxn,
        }
    }
}

/// A request to send, and whether its coordinator must be looked up again before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoordinatorCall {
    /// What to ask.
    pub request: CoordinatorRequest,
    /// The last answer said, or suggested, that another broker coordinates.
    pub refresh: bool,
}

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It was committed.
    Committed,
    /// It was aborted, or will be when its time-out ends: it is not and never will be committed.
    Aborted,
    /// It has ended, and nobody can say how: the coordinator does not tell. What it wrote to a group's offsets does: read
    /// the committed offsets.
    Unknown,
}

/// How a transaction ended, for whoever asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// What was asked for.
    pub wanted: Outcome,
    /// What became of it.
    pub settled: Settled,
    /// Why it is not what was asked for.
    pub error: Option<TransactionError>,
}

/// Counts since the producer started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Transactions known to be committed.
    pub committed: u64,
    /// Transactions known to be aborted.
    pub aborted: u64,
    /// Refusals that said another has taken over, or the group has moved on.
    pub fenced: u64,
    /// Transactions whose end could not be learnt.
    pub unknown: u64,
}

/// Where the producer is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It has no identity, and has not asked for one.
    Uninitialized,
    /// It asks for an identity.
    Initializing(Initializing),
    /// No transaction is open.
    Ready,
    /// One is.
    InTransaction,
    /// It is being ended; nobody has refused yet, and no answer was lost.
    Ending {
        /// How.
        outcome: Outcome,
    },
    /// The answer to its end was lost, or made no sense. No processing, no new transaction.
    InDoubt(InDoubt),
    /// It can only be aborted.
    AbortableError(TransactionError),
    /// The producer is finished.
    FatalError(TransactionError),
}

/// Why an identity is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Initializing {
    /// The producer starts: it takes the id over, whoever has it.
    First,
    /// Between transactions: the last one leaves something behind that only a new epoch shuts out.
    Renew,
    /// The end was refused in a way that no table of the protocol explains, though the epoch was not: only a new epoch
    /// makes a clean start.
    EndRefused {
        /// What was asked for.
        wanted: Outcome,
        /// The refusal.
        refusal: Refusal,
        /// What became of the transaction, whoever refused.
        settled: Settled,
    },
}

/// How the outcome is being learnt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InDoubt {
    /// The same end again: a coordinator answers it from its state.
    Repeat {
        /// What was asked for.
        outcome: Outcome,
    },
    /// The epoch was refused, or a commit was answered INVALID_TXN_STATE (`V2`): either somebody took the id over, or the
    /// transaction outlived its time-out. An abort of the same epoch tells: it is answered with success only if nobody
    /// took over and that epoch's transaction is not committed, and never can be any more. (Asking for a new epoch would
    /// tell too, but a coordinator that is asked so by a zombie aborts the open transaction of its heir.)
    Probe {
        /// How the transaction was to end; `None` while its user still has it.
        wanted: Option<Outcome>,
        /// What was refused.
        refusal: Refusal,
    },
}

/// The one place for a coordinator request: what cannot be held twice is never in flight twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Free,
    Waiting { until: Monotonic },
    InFlight { asked: Operation },
}

#[derive(Clone, Debug)]
struct OffsetsToSend {
    group: GroupMetadata,
    offsets: BTreeMap<TopicPartition, CommitPosition>,
    /// Whoever sends them may send them again, as the member that he is by then.
    is_renewable: bool,
}

/// What the open transaction holds.
#[derive(Clone, Debug, Default)]
struct Contents {
    added: BTreeSet<TopicPartition>,
    to_add: BTreeSet<TopicPartition>,
    groups_added: BTreeSet<GroupId>,
    offsets: Option<OffsetsToSend>,
    /// The group has gone on since offsets were handed out, and whoever sent them is to say whether he sends them again.
    outdated_offsets: Option<Refusal>,
    /// A coordinator or a log may have heard of it, so it must be ended there.
    touched: bool,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct TransactionManager {
    state: State,
    slot: Slot,
    identity: ProducerIdentity,
    protocol: Protocol,
    /// The protocol of the last transaction that the broker heard of.
    last_protocol: Option<Protocol>,
    contents: Contents,
    /// A sequence, or a delayed request of `V1`, is left over: take a new epoch before the next transaction.
    needs_renewal: bool,
    /// An end of this transaction may have reached the coordinator, though no answer came.
    may_have_ended: bool,
    refresh: bool,
    ended: Option<Ended>,
    statistics: Statistics,
}

impl Default for TransactionManager {
    fn default() -> Self {
        Self::new()
    }
}

impl TransactionManager {
    /// A producer without identity.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: State::Uninitialized,
            slot: Slot::Free,
            identity: ProducerIdentity::NONE,
            protocol: Protocol::V1,
            last_protocol: None,
            contents: Contents::default(),
            needs_renewal: false,
            may_have_ended: false,
            refresh: false,
            ended: None,
            statistics: Statistics::default(),
        }
    }

    // --- ask ---

    /// Where it is.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The identity that batches carry now.
    #[must_use]
    pub fn identity(&self) -> ProducerIdentity {
        self.identity
    }

    /// The protocol of this transaction.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Counts.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Whether batches of this partition may be sent now.
    #[must_use]
    pub fn may_send_to(&self, topic_partition: &TopicPartition) -> bool {
        let open = match &self.state {
            State::InTransaction | State::Ending { outcome: Outcome::Commit } => true,
            State::Uninitialized
            | State::Initializing(_)
            | State::Ready
            | State::Ending { outcome: Outcome::Abort }
            | State::InDoubt(_)
            | State::AbortableError(_)
            | State::FatalError(_) => false,
        };
        open && match self.protocol {
            Protocol::V1 => self.contents.added.contains(topic_partition),
            Protocol::V2 => true,
        }
    }

    /// Whether what was not yet sent will never be: the transaction is lost.
    #[must_use]
    pub fn drops_unsent(&self) -> bool {
        match &self.state {
            State::Ending { outcome: Outcome::Abort }
            | State::AbortableError(_)
            | State::FatalError(_)
            | State::Initializing(_)
            | State::InDoubt(_) => true,
            State::Uninitialized | State::Ready | State::InTransaction | State::Ending { outcome: Outcome::Commit } => {
                false
            }
        }
    }

    /// Whether batches must not wait for more records.
    #[must_use]
    pub fn is_flushing(&self) -> bool {
        matches!(self.state, State::Ending { outcome: Outcome::Commit })
    }

    /// Whether all offsets given so far have been taken.
    #[must_use]
    pub fn has_sent_offsets(&self) -> bool {
        self.contents.offsets.is_none() && self.contents.outdated_offsets.is_none()
    }

    /// Why [renewable](Self::send_renewable_offsets) offsets were not taken, if their group has only gone on to another generation: they are to be sent
    /// again, or [given up](Self::give_offsets_up).
    #[must_use]
    pub fn outdated_offsets(&self) -> Option<&Refusal> {
        self.contents.outdated_offsets.as_ref()
    }

    /// Takes how the last transaction ended, once it has.
    pub fn take_ended(&mut self) -> Option<Ended> {
        self.ended.take()
    }

    // --- command ---

    /// Asks for an identity. Only the first call does something.
    pub fn initialize(&mut self) {
        if self.state == State::Uninitialized {
            self.state = State::Initializing(Initializing::First);
        }
    }

    /// Opens a transaction, if the producer is ready; false if it has to be waited for.
    pub fn begin(&mut self, protocol: Protocol) -> bool {
        if self.state != State::Ready {
            return false;
        }
        // A broker that learnt the new protocol between two transactions could take a late request of the old one for part
        // of the next; a new epoch shuts it out (KAFKA-18227).
        if self.last_protocol.is_some_and(|last| last != protocol) {
            self.last_protocol = None;
            self.renew();
            return false;
        }
        self.protocol = protocol;
        self.contents = Contents::default();
        self.may_have_ended = false;
        self.ended = None;
        self.state = State::InTransaction;
        true
    }

    /// A record goes to this partition.
    pub fn add_partition(&mut self, topic_partition: &TopicPartition) {
        match self.protocol {
            Protocol::V1 if !self.contents.added.contains(topic_partition) => {
                if !self.contents.to_add.contains(topic_partition) {
                    self.contents.to_add.insert(topic_partition.clone());
                }
            }
            Protocol::V1 | Protocol::V2 => {}
        }
    }

    /// A batch is about to be sent: from here on the broker may know of the transaction.
    pub fn handle_batch_sent(&mut self) {
        self.touch();
    }

    /// Sends offsets into the transaction.
    ///
    /// Panics: if the last ones are still on their way; who sends waits for them.
    pub fn send_offsets(&mut self, group: GroupMetadata, offsets: BTreeMap<TopicPartition, CommitPosition>) {
        self.take_offsets(OffsetsToSend { group, offsets, is_renewable: false });
    }

    /// As [`send_offsets`](Self::send_offsets); but if all that is wrong is that the group has gone on to another generation, the transaction
    /// does not fail of it: see [`outdated_offsets`](Self::outdated_offsets).
    pub fn send_renewable_offsets(&mut self, group: GroupMetadata, offsets: BTreeMap<TopicPartition, CommitPosition>) {
        self.take_offsets(OffsetsToSend { group, offsets, is_renewable: true });
    }

    fn take_offsets(&mut self, sending: OffsetsToSend) {
        assert!(self.contents.offsets.is_none(), "offsets are sent one call after the other");
        self.contents.outdated_offsets = None;
        if !sending.offsets.is_empty() {
            self.contents.offsets = Some(sending);
        }
    }

    /// Outdated offsets are not sent again: the transaction fails of it.
    pub fn give_offsets_up(&mut self) {
        if let Some(refusal) = self.contents.outdated_offsets.take()
            && self.state == State::InTransaction
        {
            self.statistics.fenced += 1;
            self.state = State::AbortableError(TransactionError::CommitFailed(refusal));
        }
    }

    /// Whoever sent offsets does not wait for them any more: what is on its way may or may not arrive, so the
    /// transaction can only be aborted.
    pub fn abandon_offsets(&mut self) {
        let is_left_over = self.contents.offsets.take().is_some() || self.contents.outdated_offsets.take().is_some();
        if is_left_over && self.state == State::InTransaction {
            self.state = State::AbortableError(TransactionError::OffsetsAbandoned);
        }
    }

    /// Ends the transaction, once all is flushed.
    ///
    /// Refuses: a commit of a transaction that can only be aborted; anything if the producer is finished.
    pub fn end(&mut self, outcome: Outcome) -> Result<(), TransactionError> {
        match (&self.state, outcome) {
            (State::InTransaction, _) => self.state = State::Ending { outcome },
            (State::AbortableError(_), Outcome::Abort) => self.state = State::Ending { outcome },
            (State::AbortableError(error), Outcome::Commit) | (State::FatalError(error), _) => {
                return Err(error.clone());
            }
            // The epoch was refused a moment ago, so the transaction is over in any case; why, is being asked.
            (State::InDoubt(InDoubt::Probe { wanted: None, refusal }), _) => {
                let refusal = refusal.clone();
                self.state = State::InDoubt(InDoubt::Probe { wanted: Some(outcome), refusal });
            }
            (
                State::Uninitialized | State::Initializing(_) | State::Ready | State::Ending { .. } | State::InDoubt(_),
                _,
            ) => {}
        }
        Ok(())
    }

    // --- it happened ---

    /// A record is not in the log, so the transaction cannot be committed. `sequence_lost` if the batch had been given a
    /// sequence, which the broker may or may not have seen.
    pub fn handle_record_failure(&mut self, error: TransactionError, sequence_lost: bool) {
        self.needs_renewal |= sequence_lost && self.protocol == Protocol::V1;
        match self.state {
            State::InTransaction | State::Ending { outcome: Outcome::Commit } => {
                self.needs_renewal |= self.protocol == Protocol::V1;
                self.state = State::AbortableError(error);
            }
            State::Uninitialized
            | State::Initializing(_)
            | State::Ready
            | State::Ending { outcome: Outcome::Abort }
            | State::InDoubt(_)
            | State::AbortableError(_)
            | State::FatalError(_) => {}
        }
    }

    /// A broker refused this producer's epoch, in answer to a batch or an addition.
    pub fn handle_epoch_refused(&mut self, refusal: Refusal) {
        let wanted = match self.state {
            State::InTransaction => None,
            State::Ending { outcome: Outcome::Commit } => Some(Outcome::Commit),
            // The abort will tell.
            State::AbortableError(_) | State::Ending { outcome: Outcome::Abort } => return,
            State::Uninitialized | State::Initializing(_) | State::Ready | State::InDoubt(_) | State::FatalError(_) => {
                return;
            }
        };
        self.contents.offsets = None;
        self.state = State::InDoubt(InDoubt::Probe { wanted, refusal });
    }

    /// Batches with sequences were dropped: their numbers are gone.
    pub fn handle_sequences_dropped(&mut self) {
        self.needs_renewal |= self.protocol == Protocol::V1;
    }

    /// The coordinator answered.
    ///
    /// Panics: if nothing was asked, or something else.
    pub fn handle_reply(&mut self, now: Monotonic, reply: CoordinatorReply) {
        assert_eq!(self.slot, Slot::InFlight { asked: reply.operation() }, "an answer follows its request");
        self.slot = Slot::Free;
        match reply {
            CoordinatorReply::InitProducerId(result) => self.handle_init_reply(now, result),
            CoordinatorReply::AddPartitions(results) => self.handle_partitions_reply(now, results),
            CoordinatorReply::AddOffsets(code) => self.handle_add_offsets_reply(now, code),
            CoordinatorReply::CommitOffsets(results) => self.handle_offsets_reply(now, results),
            CoordinatorReply::EndTxn(result) => self.handle_end_reply(now, result),
        }
    }

    /// No answer came: the connection ended, the coordinator was not found, or took too long. `was_sent` if the
    /// coordinator may have the request nonetheless.
    pub fn handle_lost(&mut self, now: Monotonic, was_sent: bool) {
        let Slot::InFlight { asked } = self.slot else { unreachable!("what is lost was asked") };
        self.refresh = true;
        self.slot = Slot::Waiting { until: now + RETRY_BACKOFF };
        if !was_sent {
            return;
        }
        match self.state {
            State::Ending { outcome } if asked == Operation::EndTxn => {
                self.may_have_ended = true;
                self.state = State::InDoubt(InDoubt::Repeat { outcome });
            }
            State::Ending { .. }
            | State::Uninitialized
            | State::Initializing(_)
            | State::Ready
            | State::InTransaction
            | State::InDoubt(_)
            | State::AbortableError(_)
            | State::FatalError(_) => {}
        }
    }

    // --- do this ---

    /// What to ask the coordinator now. `is_flushed`: no batch of the transaction is waiting or in flight.
    pub fn poll_request(&mut self, now: Monotonic, is_flushed: bool) -> Option<CoordinatorCall> {
        match self.slot {
            Slot::InFlight { .. } => return None,
            Slot::Waiting { until } if now < until => return None,
            Slot::Waiting { .. } | Slot::Free => {}
        }
        let request = self.next_request(is_flushed)?;
        self.slot = Slot::InFlight { asked: request.operation() };
        Some(CoordinatorCall { request, refresh: std::mem::take(&mut self.refresh) })
    }

    /// When to poll again, if nothing happens before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Monotonic> {
        match self.slot {
            Slot::Waiting { until } => Some(until),
            Slot::InFlight { .. } | Slot::Free => None,
        }
    }

    fn next_request(&mut self, is_flushed: bool) -> Option<CoordinatorRequest> {
        match self.state.clone() {
            State::Uninitialized | State::Ready | State::AbortableError(_) | State::FatalError(_) => None,
            State::Initializing(Initializing::First) => {
                Some(CoordinatorRequest::InitProducerId { expected: ProducerIdentity::NONE })
            }
            // With what this producer has: a zombie must be told so, and never fence who came after it.
            State::Initializing(Initializing::Renew | Initializing::EndRefused { .. }) => {
                Some(CoordinatorRequest::InitProducerId { expected: self.identity })
            }
            State::InTransaction => self.next_addition(),
            State::Ending { outcome } => {
                if outcome == Outcome::Commit
                    && let Some(addition) = self.next_addition()
                {
                    return Some(addition);
                }
                if !is_flushed {
                    return None;
                }
                if !self.contents.touched {
                    // No broker has heard of it: there is nothing to end, and asking would be refused (KAFKA-18401).
                    self.finish(outcome, settled_as(outcome), None);
                    // What the next transaction needs first is asked for now: nothing else would wake whoever sends it.
                    return self.next_request(is_flushed);
                }
                Some(self.end_request(outcome))
            }
            State::InDoubt(InDoubt::Repeat { outcome }) => Some(self.end_request(outcome)),
            State::InDoubt(InDoubt::Probe { .. }) => Some(self.end_request(Outcome::Abort)),
        }
    }

    /// A partition, a group, or offsets that the transaction does not have yet.
    fn next_addition(&mut self) -> Option<CoordinatorRequest> {
        let identity = self.identity;
        if !self.contents.to_add.is_empty() {
            self.touch();
            let partitions = self.contents.to_add.iter().cloned().collect();
            return Some(CoordinatorRequest::AddPartitions { identity, partitions });
        }
        let OffsetsToSend { group, offsets, is_renewable: _ } = self.contents.offsets.clone()?;
        self.touch();
        match self.protocol {
            Protocol::V1 if !self.contents.groups_added.contains(&group.group_id) => {
                Some(CoordinatorRequest::AddOffsets { identity, group_id: group.group_id })
            }
            Protocol::V1 | Protocol::V2 => {
                let offsets = offsets.into_iter().collect();
                Some(CoordinatorRequest::CommitOffsets { identity, group, offsets, protocol: self.protocol })
            }
        }
    }

    fn end_request(&self, outcome: Outcome) -> CoordinatorRequest {
        CoordinatorRequest::EndTxn { identity: self.identity, outcome, protocol: self.protocol }
    }

    fn touch(&mut self) {
        self.contents.touched = true;
        self.last_protocol = Some(self.protocol);
    }

    fn wait(&mut self, now: Monotonic, code: ErrorCode) {
        let backoff =
            if code == ErrorCode::ConcurrentTransactions { CONCURRENT_TRANSACTIONS_BACKOFF } else { RETRY_BACKOFF };
        self.slot = Slot::Waiting { until: now + backoff };
    }

    fn renew(&mut self) {
        self.state = State::Initializing(Initializing::Renew);
    }

    fn finish(&mut self, wanted: Outcome, settled: Settled, error: Option<TransactionError>) {
        match settled {
            Settled::Committed => self.statistics.committed += 1,
            Settled::Aborted => self.statistics.aborted += 1,
            Settled::Unknown => self.statistics.unknown += 1,
        }
        self.ended = Some(Ended { wanted, settled, error });
        // An end of the old protocol that was lost may still be under way, and would end the next transaction
        // (KAFKA-17754): only a new epoch shuts it out.
        let late_end = self.may_have_ended && self.protocol == Protocol::V1;
        self.contents = Contents::default();
        self.may_have_ended = false;
        self.state = State::Ready;
        if self.needs_renewal || late_end {
            self.renew();
        }
    }

    fn fail(&mut self, error: TransactionError) {
        if error.is_fenced() {
            self.statistics.fenced += 1;
        }
        self.state = State::FatalError(error);
    }

    // --- answers ---

    fn handle_init_reply(&mut self, now: Monotonic, result: Result<ProducerIdentity, ErrorCode>) {
        let State::Initializing(why) = self.state.clone() else {
            unreachable!("an identity is asked for only while initializing, and left only by its answer")
        };
        match result {
            Ok(identity) => self.handle_identity(identity, why),
            Err(code) => self.handle_init_refused(now, code, why),
        }
    }

    fn handle_identity(&mut self, identity: ProducerIdentity, why: Initializing) {
        self.identity = identity;
        self.needs_renewal = false;
        match why {
            Initializing::First | Initializing::Renew => self.state = State::Ready,
            Initializing::EndRefused { wanted, refusal, settled } => {
                let error = match wanted {
                    Outcome::Abort => None,
                    Outcome::Commit => Some(TransactionError::Abortable(refusal)),
                };
                self.may_have_ended = false;
                self.finish(wanted, settled, error);
            }
        }
    }

    fn handle_init_refused(&mut self, now: Monotonic, code: ErrorCode, why: Initializing) {
        match classify(Operation::InitProducerId, code) {
            Verdict::Retry => self.wait(now, code),
            Verdict::RefreshThenRetry => {
                self.refresh = true;
                self.wait(now, code);
            }
            Verdict::Done | Verdict::Abort | Verdict::Reinitialize | Verdict::Fatal => {
                let refusal = Refusal::new(Operation::InitProducerId, code);
                let error = if is_epoch_refusal(code) {
                    TransactionError::Fenced(refusal)
                } else {
                    TransactionError::Fatal(refusal)
                };
                match why {
                    Initializing::EndRefused { wanted, settled, .. } => self.give_up(wanted, settled, error),
                    Initializing::First | Initializing::Renew => self.fail(error),
                }
            }
        }
    }

    fn handle_partitions_reply(&mut self, now: Monotonic, results: Vec<(TopicPartition, ErrorCode)>) {
        let mut worst = ErrorCode::None;
        for (topic_partition, code) in results {
            if code == ErrorCode::None {
                self.contents.to_add.remove(&topic_partition);
                self.contents.added.insert(topic_partition);
            } else if worst == ErrorCode::None || worst == ErrorCode::OperationNotAttempted {
                worst = code;
            }
        }
        self.handle_addition_refused(now, Operation::AddPartitionsToTxn, worst);
    }

    fn handle_add_offsets_reply(&mut self, now: Monotonic, code: ErrorCode) {
        if code == ErrorCode::None
            && let Some(offsets) = &self.contents.offsets
        {
            self.contents.groups_added.insert(offsets.group.group_id.clone());
        }
        self.handle_addition_refused(now, Operation::AddOffsetsToTxn, code);
    }

    fn handle_offsets_reply(&mut self, now: Monotonic, results: Vec<(TopicPartition, ErrorCode)>) {
        let mut worst = ErrorCode::None;
        if let Some(sending) = &mut self.contents.offsets {
            for (topic_partition, code) in results {
                if code == ErrorCode::None {
                    sending.offsets.remove(&topic_partition);
                } else if worst == ErrorCode::None {
                    worst = code;
                }
            }
            if sending.offsets.is_empty() {
                self.contents.offsets = None;
            }
        }
        self.handle_addition_refused(now, Operation::TxnOffsetCommit, worst);
    }

    fn handle_addition_refused(&mut self, now: Monotonic, operation: Operation, code: ErrorCode) {
        match self.state {
            State::InTransaction | State::Ending { outcome: Outcome::Commit } => {}
            // The transaction is lost already, or being given up; what one more answer says changes nothing.
            State::Uninitialized
            | State::Initializing(_)
            | State::Ready
            | State::Ending { outcome: Outcome::Abort }
            | State::InDoubt(_)
            | State::AbortableError(_)
            | State::FatalError(_) => return,
        }
        let refusal = Refusal::new(operation, code);
        match refusal.verdict() {
            Verdict::Done => {}
            Verdict::Retry => self.wait(now, code),
            Verdict::RefreshThenRetry => {
                self.refresh = true;
                self.wait(now, code);
            }
            Verdict::Abort if is_outdated(code) && self.has_renewable_offsets() => {
                self.contents.offsets = None;
                self.contents.outdated_offsets = Some(refusal);
            }
            Verdict::Abort => {
                let error = if is_group_refusal(code) {
                    self.statistics.fenced += 1;
                    TransactionError::CommitFailed(refusal)
                } else {
                    TransactionError::Abortable(refusal)
                };
                self.contents.offsets = None;
                self.state = State::AbortableError(error);
            }
            Verdict::Reinitialize if is_epoch_refusal(code) => self.handle_epoch_refused(refusal),
            Verdict::Reinitialize | Verdict::Fatal => self.fail(TransactionError::Fatal(refusal)),
        }
    }

    /// Nobody waits for them any more once the transaction is ending.
    fn has_renewable_offsets(&self) -> bool {
        self.state == State::InTransaction && self.contents.offsets.as_ref().is_some_and(|it| it.is_renewable)
    }

    fn handle_end_reply(&mut self, now: Monotonic, result: Result<Option<ProducerIdentity>, ErrorCode>) {
        let code = match result {
            Ok(next) => {
                if let Some(next) = next {
                    self.identity = next;
                    self.needs_renewal = false;
                }
                return self.handle_end_done();
            }
            Err(code) => code,
        };
        let refusal = Refusal::new(Operation::EndTxn, code);
        match refusal.verdict() {
            Verdict::Done => unreachable!("an error is no success"),
            Verdict::Retry | Verdict::RefreshThenRetry => {
                // "Not available" may be said after the decision was written: it is no clear "no".
                self.may_have_ended |= matches!(code, ErrorCode::CoordinatorNotAvailable | ErrorCode::RequestTimedOut);
                self.refresh |= refusal.verdict() == Verdict::RefreshThenRetry;
                self.wait(now, code);
            }
            Verdict::Abort | Verdict::Reinitialize | Verdict::Fatal => match self.state.clone() {
                State::Ending { outcome } | State::InDoubt(InDoubt::Repeat { outcome }) => {
                    self.handle_end_refused(outcome, refusal);
                }
                State::InDoubt(InDoubt::Probe { wanted, refusal: first }) => {
                    self.handle_probe_refused(wanted, first, refusal);
                }
                State::Uninitialized
                | State::Initializing(_)
                | State::Ready
                | State::InTransaction
                | State::AbortableError(_)
                | State::FatalError(_) => unreachable!("an end that was asked for is waited for"),
            },
        }
    }

    fn handle_end_done(&mut self) {
        match self.state.clone() {
            State::Ending { outcome } | State::InDoubt(InDoubt::Repeat { outcome }) => {
                self.finish(outcome, settled_as(outcome), None);
            }
            // Nobody took the id over, so it was the time-out. The coordinator had ended the transaction, or has now.
            State::InDoubt(InDoubt::Probe { wanted, refusal }) => {
                let error = TransactionError::TimedOut(refusal);
                match wanted {
                    None => self.be_abortable(error),
                    Some(Outcome::Commit) => self.finish(Outcome::Commit, Settled::Aborted, Some(error)),
                    Some(Outcome::Abort) => self.finish(Outcome::Abort, Settled::Aborted, None),
                }
            }
            State::Uninitialized
            | State::Initializing(_)
            | State::Ready
            | State::InTransaction
            | State::AbortableError(_)
            | State::FatalError(_) => unreachable!("an end that was asked for is waited for"),
        }
    }

    /// The transaction is over at the coordinator, and its user still has it.
    fn be_abortable(&mut self, error: TransactionError) {
        self.contents = Contents::default();
        // Sequences of the old protocol's unchanged epoch were lost with it.
        self.needs_renewal |= self.protocol == Protocol::V1;
        self.state = State::AbortableError(error);
    }

    fn handle_end_refused(&mut self, asked: Outcome, refusal: Refusal) {
        let code = refusal.code();
        // Of the first end that was sent, a refusal says that it did not happen. A repeated one may have been the second
        // of two that arrived, so its refusal says nothing of a commit. Who asked for an abort only has no commit.
        let settled = match asked {
            Outcome::Commit if self.may_have_ended => Settled::Unknown,
            Outcome::Commit | Outcome::Abort => Settled::Aborted,
        };
        if makes_no_sense(code) && asked == Outcome::Commit && self.protocol == Protocol::V2 {
            self.state = State::InDoubt(InDoubt::Probe { wanted: Some(asked), refusal });
        } else if makes_no_sense(code) {
            self.state = State::Initializing(Initializing::EndRefused { wanted: asked, refusal, settled });
        } else if is_epoch_refusal(code) {
            self.give_up(asked, settled, TransactionError::Fenced(refusal));
        } else {
            self.give_up(asked, settled, TransactionError::Fatal(refusal));
        }
    }

    fn handle_probe_refused(&mut self, wanted: Option<Outcome>, first: Refusal, refusal: Refusal) {
        let code = refusal.code();
        let Some(wanted) = wanted else {
            return match code {
                code if makes_no_sense(code) => self.be_abortable(TransactionError::Abortable(first)),
                code if is_epoch_refusal(code) => self.fail(TransactionError::Fenced(refusal)),
                _ => self.fail(TransactionError::Fatal(refusal)),
            };
        };
        let may_be_committed = wanted == Outcome::Commit && self.may_have_ended;
        let settled = if may_be_committed { Settled::Unknown } else { Settled::Aborted };
        if makes_no_sense(code) {
            // Neither commit nor abort: the coordinator contradicts itself.
            let settled = if wanted == Outcome::Commit { Settled::Unknown } else { Settled::Aborted };
            self.state = State::Initializing(Initializing::EndRefused { wanted, refusal, settled });
        } else if is_epoch_refusal(code) {
            self.give_up(wanted, settled, TransactionError::Fenced(refusal));
        } else {
            self.give_up(wanted, settled, TransactionError::Fatal(refusal));
        }
    }

    /// The transaction is over, and so is the producer.
    fn give_up(&mut self, wanted: Outcome, settled: Settled, error: TransactionError) {
        self.finish(wanted, settled, Some(error.clone()));
        self.fail(error);
    }
}

/// Whether the code says that the state does not allow this end, though the epoch does.
fn makes_no_sense(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::InvalidTxnState | ErrorCode::TransactionAbortable)
}

fn settled_as(outcome: Outcome) -> Settled {
    match outcome {
        Outcome::Commit => Settled::Committed,
        Outcome::Abort => Settled::Aborted,
    }
}

/// Whether the code says that this epoch is not the current one.
fn is_epoch_refusal(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::ProducerFenced | ErrorCode::InvalidProducerEpoch)
}

/// Whether the code says that the group counts on, and nothing of the member.
fn is_outdated(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::IllegalGeneration | ErrorCode::StaleMemberEpoch | ErrorCode::RebalanceInProgress)
}

/// Whether the code says that the member or its generation is not the group's.
fn is_group_refusal(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::IllegalGeneration
            | ErrorCode::UnknownMemberId
            | ErrorCode::FencedInstanceId
            | ErrorCode::StaleMemberEpoch
            | ErrorCode::GroupIdNotFound
            | ErrorCode::RebalanceInProgress
    )
}
