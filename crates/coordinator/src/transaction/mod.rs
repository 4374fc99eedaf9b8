//! The transaction coordinator: who may write under a transactional id, and how each transaction ends.
//!
//! ```text
//!  InitProducerId ─┐                                                            ┌─► reply
//!  AddPartitions ──┤                     ┌──────────────┐   record, ...        │
//!  EndTxn ─────────┼─► decide(command) ──┤   Decision   ├──────────────► log ──┴─► apply ──► obligations
//!  Tick ───────────┤                     └──────────────┘                                    (markers owed)
//!  MarkersWritten ─┘                                                                              │
//!        ▲                                                                                       │
//!        └──────────────────────────── the host writes markers ◄──────────────────────────────────┘
//! ```
//!
//! A transaction is decided by one record, [`State::Prepared`]; all that follows, markers and completion, is owed
//! whatever happens in between. The host may write the markers in the same group of its log, so that nobody ever sees
//! a prepared transaction, or spread them over time: the machine is right in both.
//!
//! One instance serves one partition of `__transaction_state`. Both protocols run through it, request by request:
//! v1 (KIP-98, 360, 447, 588) and v2 (KIP-890).
//!
//! **What it does not know**: which topics exist (each [`AddPartitions`] says so), who may write where, offsets,
//! groups, the clock.
//!
//! Invariants, each asserted by `tests/explore_transaction.rs` over every interleaving of a small world: one outcome
//! per transaction; an epoch never falls; completed means a marker everywhere; prepared means that it drains; a reply
//! of success names the true outcome; an initialisation that is held is answered once, and at last.
//!
//! Read in this order: [`state`](State), [`command`](Command), [`Record`], then the commands, a file each.

mod command;
mod fencing;
mod record;
mod state;

mod add_partitions;
mod end_txn;
mod init_producer_id;
mod markers;
mod prepare;
mod renew;
mod tick;
mod topic_deleted;
mod verify_partitions;
mod waiter_gone;

mod describe;
mod list;

use std::collections::{BTreeMap, BTreeSet};

use atonce_kernel::{Offset, ProducerIdentity, Timestamp, TopicPartition, TransactionalId};

pub use command::{
    AddPartitions, Admission, Caller, Command, EndTxn, InitProducerId, MarkersReport, Obligation, Reply,
    VerifyPartitions,
};
pub use describe::TransactionDescription;
pub use list::{ListFilter, ListedTransaction};
pub use record::{DecodeRecordError, Record};
pub use state::{Protocol, State, StateName, Transaction};

use crate::{Context, Corrupt, Decision, Entry, Shard, Waiter};

/// The coordinator of all transactional ids of one partition of `__transaction_state`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TransactionCoordinator {
    limits: Limits,
    registrations: BTreeMap<TransactionalId, Registration>,
    /// Derived: the ids that are [`State::Prepared`], so that [`Shard::obligations`] need not walk the others.
    prepared: BTreeSet<TransactionalId>,
    /// Derived: when each id needs a [`Command::Tick`], the earliest first.
    deadlines: BTreeSet<(Timestamp, TransactionalId)>,
}

/// What a broker's configuration says about transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// `transaction.max.timeout.ms`: the longest timeout that a producer may ask for.
    pub transaction_timeout_ms_max: i32,
    /// `transactional.id.expiration.ms`: an id that was not used for so long is forgotten.
    pub transactional_id_expiration_ms: i64,
}

impl Default for Limits {
    /// Kafka's defaults: 15 minutes and 7 days.
    fn default() -> Self {
        Self { transaction_timeout_ms_max: 15 * 60 * 1000, transactional_id_expiration_ms: 7 * 24 * 60 * 60 * 1000 }
    }
}

/// A transactional id that has a producer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Registration {
    /// The latest record.
    transaction: Transaction,
    /// Where that record stands. For a prepared transaction it is its name in [`MarkersReport::prepared_at`].
    recorded_at: Offset,
    /// What was noted since. Soft.
    noted: Noted,
}

/// Soft state: what was noted about a transaction since its latest record. The next record begins it anew.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
struct Noted {
    /// Of an initialised id: the identity that its producer gave up for the present one. The request that named it
    /// may come again.
    retired: Option<ProducerIdentity>,
    /// Of a prepared transaction: where the marker has been written. As records these would be a partition list
    /// for each marker of a wide commit; after a crash all markers are written again.
    written: BTreeSet<TopicPartition>,
    /// Of a prepared transaction: who waits for its completion to be initialised. The latest only.
    held: Option<HeldInit>,
}

/// An initialisation that waits until the transaction in its way is completed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct HeldInit {
    waiter: Waiter,
    request: InitProducerId,
}

/// A change of soft state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Note {
    transactional_id: TransactionalId,
    change: Change,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Change {
    /// The producer gave up this identity for the present one.
    Retired(ProducerIdentity),
    /// Markers are there, or need not be.
    Written(Vec<TopicPartition>),
    /// This initialisation waits, in the place of any other.
    Holds(Box<HeldInit>),
    /// Nobody waits.
    HoldsNone,
}

impl Note {
    /// The note in a few words, for logs and tests; `name` names a waiter.
    pub fn describe(&self, name: impl Fn(Waiter) -> String) -> String {
        match &self.change {
            Change::Retired(identity) => format!("retired {identity}"),
            Change::Written(partitions) => format!("written {partitions:?}"),
            Change::Holds(held) => format!("holds {}", name(held.waiter)),
            Change::HoldsNone => "holds none".to_owned(),
        }
    }
}

impl TransactionCoordinator {
    /// A coordinator that knows no transactional id yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, registrations: BTreeMap::new(), prepared: BTreeSet::new(), deadlines: BTreeSet::new() }
    }

    /// What is durable about `transactional_id`; `None` if it has no producer.
    #[must_use]
    pub fn transaction(&self, transactional_id: &TransactionalId) -> Option<&Transaction> {
        self.registrations.get(transactional_id).map(|registration| &registration.transaction)
    }

    /// Every transactional id that has a producer.
    pub fn transactional_ids(&self) -> impl Iterator<Item = &TransactionalId> {
        self.registrations.keys()
    }

    /// Every transactional id with what is durable about it: what a snapshot of this shard has to hold, each as a
    /// [`Record`] at the offset given.
    pub fn snapshot(&self) -> impl Iterator<Item = (Offset, Record)> {
        self.registrations.iter().map(|(transactional_id, registration)| {
            let record = Record::registered(transactional_id, registration.transaction.clone());
            (registration.recorded_at, record)
        })
    }

    /// When `transaction` needs a tick.
    fn deadline(&self, transaction: &Transaction) -> Option<Timestamp> {
        match transaction.state {
            State::Ongoing { since, .. } => transaction.open_until(since),
            State::Empty | State::Complete { .. } => {
                Some(transaction.last_update.plus_ms(self.limits.transactional_id_expiration_ms))
            }
            State::Prepared { .. } => None,
        }
    }

    fn forget(&mut self, transactional_id: &TransactionalId) {
        if let Some(registration) = self.registrations.remove(transactional_id) {
            self.prepared.remove(transactional_id);
            if let Some(deadline) = self.deadline(&registration.transaction) {
                self.deadlines.remove(&(deadline, transactional_id.clone()));
            }
        }
    }

    fn register(&mut self, transactional_id: &TransactionalId, transaction: Transaction, recorded_at: Offset) {
        self.forget(transactional_id);
        if let State::Prepared { .. } = transaction.state {
            self.prepared.insert(transactional_id.clone());
        }
        if let Some(deadline) = self.deadline(&transaction) {
            self.deadlines.insert((deadline, transactional_id.clone()));
        }
        let registration = Registration { transaction, recorded_at, noted: Noted::default() };
        self.registrations.insert(transactional_id.clone(), registration);
    }
}

impl Shard for TransactionCoordinator {
    type Command = Command;
    type Record = Record;
    type Note = Note;
    type Reply = Reply;
    type Obligation = Obligation;

    fn decide(&self, context: &Context, command: &Command) -> Decision<Self> {
        match command {
            Command::InitProducerId(request) => self.init_producer_id(context, request),
            Command::AddPartitions(request) => self.add_partitions(context, request),
            Command::VerifyPartitions(request) => self.verify_partitions(context, request),
            Command::EndTxn(request) => self.end_txn(context, request),
            Command::MarkersWritten(report) | Command::PartitionsGone(report) => self.markers(context, report),
            Command::TopicDeleted(topic) => self.topic_deleted(context, topic),
            Command::WaiterGone(waiter) => self.waiter_gone(*waiter),
            Command::Tick => self.tick(context),
            Command::Renew(transactional_id) => self.renew(context, transactional_id),
        }
    }

    fn apply(&mut self, entry: &Entry<'_, Record>) -> Result<(), Corrupt> {
        let (record, offset) = match *entry {
            Entry::Record { record, producer: None, offset, .. } => (record, offset),
            Entry::Record { producer: Some(producer), offset, .. } => {
                return Err(Corrupt {
                    offset,
                    reason: format!("a record inside a transaction, of producer {producer}"),
                });
            }
            Entry::Marker { producer, offset, .. } => {
                return Err(Corrupt { offset, reason: format!("an end of a transaction, of producer {producer}") });
            }
        };
        let transactional_id = record.transactional_id();
        let follows = match (self.transaction(transactional_id), record.transaction()) {
            // The first record that compaction left may be any.
            (None, _) => Ok(()),
            (Some(before), Some(after)) => before.admits(after),
            (Some(before), None) => before.admits_expiry(),
        };
        follows.map_err(|reason| Corrupt { offset, reason: format!("{record}: {reason}") })?;
        match record.transaction() {
            Some(transaction) => self.register(transactional_id, transaction.clone(), offset),
            None => self.forget(transactional_id),
        }
        Ok(())
    }

    fn note(&mut self, note: &Note) {
        let Some(registration) = self.registrations.get_mut(&note.transactional_id) else { return };
        let noted = &mut registration.noted;
        match &note.change {
            Change::Retired(identity) => noted.retired = Some(*identity),
            Change::Written(partitions) => noted.written.extend(partitions.iter().cloned()),
            Change::Holds(held) => noted.held = Some((**held).clone()),
            Change::HoldsNone => noted.held = None,
        }
    }

    fn obligations(&self) -> impl Iterator<Item = Obligation> {
        self.prepared.iter().filter_map(|transactional_id| {
            let Registration { transaction, recorded_at, noted } = self.registrations.get(transactional_id)?;
            match &transaction.state {
                State::Prepared { outcome, partitions, .. } => Some(Obligation {
                    transactional_id: transactional_id.clone(),
                    prepared_at: *recorded_at,
                    producer: transaction.producer,
                    outcome: *outcome,
                    protocol: transaction.protocol,
                    partitions: partitions.difference(&noted.written).cloned().collect(),
                }),
                State::Empty | State::Ongoing { .. } | State::Complete { .. } => None,
            }
        })
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }
}
