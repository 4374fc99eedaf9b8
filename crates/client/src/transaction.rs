//! The transactional producer: `begin` borrows it, `commit` and `abort` consume the transaction.
//!
//! A [`Transaction`] that is dropped, or whose `commit` is dropped half way, leaves the producer *in doubt*: dropping
//! only sets a flag. The next [`begin`](TransactionalProducer::begin), or [`settle`](TransactionalProducer::settle),
//! finds out (or decides) what became of it and says so.

use std::time::Duration;

use atonce_kernel::TransactionalId;

use crate::client::Client;
use crate::consumer::Positions;
use crate::error::{AbortError, BeginError, CommitError, SendError, SendOffsetsError, StartError};
use crate::producer::{Delivery, ProducerSettings, producer_settings};
use crate::record::ProducerRecord;

/// What became of a transaction whose end its user did not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It was committed.
    Committed,
    /// It was aborted.
    Aborted,
    /// It has ended, and nobody can say how: the coordinator refused to tell. What it wrote to a group's offsets does: read
    /// the committed offsets.
    Unknown,
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

/// Settings of a [`TransactionalProducer`] to be.
#[derive(Clone, Debug)]
pub struct TransactionalProducerBuilder {
    client: Client,
    transactional_id: TransactionalId,
    transaction_timeout: Duration,
    settings: ProducerSettings,
}

impl TransactionalProducerBuilder {
    pub(crate) fn new(client: Client, transactional_id: TransactionalId) -> Self {
        let transaction_timeout = Duration::from_secs(60);
        Self { client, transactional_id, transaction_timeout, settings: ProducerSettings::default() }
    }

    producer_settings!();

    /// After how long the coordinator aborts a transaction that was not ended; 1 minute unless set. The broker has a
    /// maximum (`transaction.max.timeout.ms`).
    #[must_use]
    pub fn transaction_timeout(mut self, timeout: Duration) -> Self {
        self.transaction_timeout = timeout;
        self
    }

    /// Takes the id over: fences whoever had it, and waits until what that one left open is aborted or committed.
    pub async fn start(self) -> Result<TransactionalProducer, StartError> {
        let _ = (self.client, self.transactional_id, self.transaction_timeout, self.settings);
        Err(StartError::Closed)
    }
}

/// Writes in transactions, one after the other.
#[derive(Debug)]
pub struct TransactionalProducer {
    _private: (),
}

impl TransactionalProducer {
    /// Begins a transaction. If the last one was left open, it is aborted first; if its end was not seen, that is
    /// settled first, and [`Transaction::settled`] says what became of it.
    ///
    /// The broker hears of it with the first record, so a transaction without records costs nothing.
    ///
    /// Retry: safe.
    pub async fn begin(&mut self) -> Result<Transaction<'_>, BeginError> {
        Err(BeginError::Closed)
    }

    /// Like [`begin`](Self::begin), for tasks that must own what they use; the producer comes back with the end.
    pub async fn begin_owned(self) -> Result<OwnedTransaction, (Self, BeginError)> {
        Err((self, BeginError::Closed))
    }

    /// Settles what was left, if anything was: aborts a transaction that was dropped, learns the outcome of one in doubt.
    pub async fn settle(&mut self) -> Result<Option<Settled>, BeginError> {
        Err(BeginError::Closed)
    }

    /// The id.
    #[must_use]
    pub fn transactional_id(&self) -> &TransactionalId {
        unreachable!("no producer has been started")
    }

    /// Counts since the start.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        Statistics::default()
    }

    /// Settles what was left, and ends.
    pub async fn close(self) -> Result<(), BeginError> {
        let mut producer = self;
        producer.settle().await.map(|_| ())
    }
}

/// A transaction that borrows its producer.
#[derive(Debug)]
#[must_use = "a transaction that is dropped is aborted by the next `begin`"]
pub struct Transaction<'producer> {
    producer: &'producer mut TransactionalProducer,
}

impl Transaction<'_> {
    /// What became of the transaction before this one, if its end had not been seen.
    #[must_use]
    pub fn settled(&self) -> Option<Settled> {
        let _ = &self.producer;
        None
    }

    /// Takes a record into the transaction; waits for room, not for the broker.
    pub async fn send(&self, record: ProducerRecord) -> Result<Delivery, SendError> {
        let _ = record;
        Err(SendError::Closed)
    }

    /// Adds a group's positions: they are committed with the records, or not at all. Waits for the answer.
    ///
    /// Errors: a member or generation that is not the group's any more is `Abortable`: abort, rejoin, read again.
    pub async fn send_offsets(&self, positions: Positions) -> Result<(), SendOffsetsError> {
        let _ = positions;
        Err(SendOffsetsError::Closed)
    }

    /// Waits until all records so far are in the log (not yet committed), or one has failed.
    pub async fn flush(&self) -> Result<(), SendError> {
        Err(SendError::Closed)
    }

    /// Flushes, and commits.
    ///
    /// Errors: see [`CommitError`]; `may_have_taken_effect` says whether it may have been committed nonetheless.
    pub async fn commit(self) -> Result<(), CommitError> {
        Err(CommitError::Closed)
    }

    /// Drops what was not yet sent, and aborts.
    pub async fn abort(self) -> Result<(), AbortError> {
        Err(AbortError::Closed)
    }
}

/// A transaction that owns its producer, and gives it back at its end.
#[derive(Debug)]
#[must_use = "a transaction that is dropped takes its producer with it"]
pub struct OwnedTransaction {
    producer: TransactionalProducer,
}

impl OwnedTransaction {
    /// As [`Transaction::settled`].
    #[must_use]
    pub fn settled(&self) -> Option<Settled> {
        None
    }

    /// As [`Transaction::send`].
    pub async fn send(&self, record: ProducerRecord) -> Result<Delivery, SendError> {
        let _ = record;
        Err(SendError::Closed)
    }

    /// As [`Transaction::send_offsets`].
    pub async fn send_offsets(&self, positions: Positions) -> Result<(), SendOffsetsError> {
        let _ = positions;
        Err(SendOffsetsError::Closed)
    }

    /// As [`Transaction::flush`].
    pub async fn flush(&self) -> Result<(), SendError> {
        Err(SendError::Closed)
    }

    /// As [`Transaction::commit`]; the producer comes back in any case.
    pub async fn commit(self) -> (TransactionalProducer, Result<(), CommitError>) {
        (self.producer, Err(CommitError::Closed))
    }

    /// As [`Transaction::abort`]; the producer comes back in any case.
    pub async fn abort(self) -> (TransactionalProducer, Result<(), AbortError>) {
        (self.producer, Err(AbortError::Closed))
    }
}
