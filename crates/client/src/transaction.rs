//! The transactional producer: `begin` borrows it, `commit` and `abort` consume the transaction.
//!
//! A [`Transaction`] that is dropped, or whose `commit` is dropped half way, leaves the producer *in doubt*: dropping
//! only sets a flag. The next [`begin`](TransactionalProducer::begin), or [`settle`](TransactionalProducer::settle),
//! finds out (or decides) what became of it and says so.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use atonce_client_core::error::TransactionError;
use atonce_client_core::transaction::{CommitPosition, Ended, GroupMetadata, InDoubt, State, TransactionManager};
use atonce_kernel::{Outcome, TopicPartition, TransactionalId};
use tokio::time::Instant;

use crate::client::Client;
use crate::consumer::Positions;
use crate::error::{AbortError, BeginError, CommitError, SendError, SendOffsetsError, StartError};
use crate::producer::{Delivery, ProducerSettings, producer_settings};
use crate::producer_host::{ProducerHost, TransactionalSettings};
use crate::record::ProducerRecord;

pub use atonce_client_core::transaction::{Settled, Statistics};

/// How long to wait before it is looked again whether a member has heard of its new generation, which is on its way to it.
const RENEWAL_BACKOFF: Duration = Duration::from_millis(10);

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

    /// Another id than the one it was made with.
    #[must_use]
    pub fn transactional_id(mut self, id: impl Into<TransactionalId>) -> Self {
        self.transactional_id = id.into();
        self
    }

    /// After how long the coordinator aborts a transaction that was not ended; 1 minute unless set. The broker has a
    /// maximum (`transaction.max.timeout.ms`).
    #[must_use]
    pub fn transaction_timeout(mut self, timeout: Duration) -> Self {
        self.transaction_timeout = timeout;
        self
    }

    /// Takes the id over: fences whoever had it, and waits until what that one left open is aborted or committed.
    pub async fn start(self) -> Result<TransactionalProducer, StartError> {
        let id = self.transactional_id.clone();
        let transactional = TransactionalSettings { id, timeout: self.transaction_timeout };
        let host = ProducerHost::start(self.client.cluster(), self.settings, Some(transactional)).await?;
        Ok(TransactionalProducer { host, transactional_id: self.transactional_id, settled: None })
    }
}

/// Writes in transactions, one after the other.
#[derive(Debug)]
pub struct TransactionalProducer {
    host: Arc<ProducerHost>,
    transactional_id: TransactionalId,
    /// What was learnt of the last transaction, and not told yet.
    settled: Option<Settled>,
}

impl TransactionalProducer {
    /// Begins a transaction. If the last one was left open, it is aborted first; if its end was not seen, that is
    /// settled first, and [`Transaction::settled`] says what became of it.
    ///
    /// The broker hears of it with the first record, so a transaction without records costs nothing.
    ///
    /// Retry: safe; it goes on where it was.
    pub async fn begin(&mut self) -> Result<Transaction<'_>, BeginError> {
        let settled = self.open().await?;
        Ok(Transaction { producer: self, settled })
    }

    /// Like [`begin`](Self::begin), for tasks that must own what they use; the producer comes back with the end.
    pub async fn begin_owned(mut self) -> Result<OwnedTransaction, (Self, BeginError)> {
        match self.open().await {
            Ok(settled) => Ok(OwnedTransaction { producer: self, settled }),
            Err(error) => Err((self, error)),
        }
    }

    /// Settles what was left, if anything was: aborts a transaction that was dropped, learns the outcome of one in doubt.
    ///
    /// Retry: safe; it goes on where it was.
    pub async fn settle(&mut self) -> Result<Option<Settled>, BeginError> {
        self.wait_until_ready(|_| true).await?;
        Ok(self.settled.take())
    }

    /// The id.
    #[must_use]
    pub fn transactional_id(&self) -> &TransactionalId {
        &self.transactional_id
    }

    /// Counts since the start.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.host.lock().transaction().statistics()
    }

    /// Settles what was left, and ends.
    pub async fn close(mut self) -> Result<(), BeginError> {
        self.settle().await.map(|_| ())
    }

    pub(crate) fn host(&self) -> Arc<ProducerHost> {
        Arc::clone(&self.host)
    }

    #[tracing::instrument(level = "debug", name = "begin", skip_all, fields(transactional_id = %self.transactional_id))]
    async fn open(&mut self) -> Result<Option<Settled>, BeginError> {
        let protocol = self.host.protocol();
        self.wait_until_ready(|manager| manager.begin(protocol)).await?;
        Ok(self.settled.take())
    }

    /// Waits until no transaction is open or in doubt, and `take` takes it.
    async fn wait_until_ready(
        &mut self,
        mut take: impl FnMut(&mut TransactionManager) -> bool,
    ) -> Result<(), BeginError> {
        let (host, settled) = (&self.host, &mut self.settled);
        let ready = host.wait_until(host.deadline(), |inner| {
            let manager = inner.transaction();
            if let Some(ended) = manager.take_ended() {
                count(host, &ended);
                *settled = Some(ended.settled);
            }
            match manager.state() {
                State::Ready => {
                    let is_taken = take(manager);
                    // A new epoch may be needed first: let the driver ask for it.
                    host.wake();
                    is_taken.then_some(Ok(()))
                }
                State::FatalError(error) => Some(Err(BeginError::Transaction(error.clone()))),
                // Nobody holds the transaction any more, or this could not be called: it was dropped.
                State::InTransaction
                | State::AbortableError(_)
                | State::InDoubt(InDoubt::Probe { wanted: None, .. }) => {
                    let _ = manager.end(Outcome::Abort);
                    host.wake();
                    None
                }
                State::Uninitialized
                | State::Initializing(_)
                | State::Ending { .. }
                | State::InDoubt(InDoubt::Repeat { .. } | InDoubt::Probe { wanted: Some(_), .. }) => None,
            }
        });
        ready.await.unwrap_or_else(|| {
            if host.is_closed() {
                return Err(BeginError::Closed);
            }
            let cause = "the transaction coordinator has not said what became of the last transaction".to_owned();
            Err(BeginError::TimedOut { waited: host.settings.max_block, cause })
        })
    }

    #[tracing::instrument(level = "debug", skip_all, fields(transactional_id = %self.transactional_id))]
    async fn send_offsets(&self, positions: Positions) -> Result<(), SendOffsetsError> {
        if positions.are_auto_committed() {
            return Err(SendOffsetsError::AutoCommitted);
        }
        let host = &self.host;
        let deadline = host.deadline();
        let guard = Abandon { host };
        loop {
            let (group, offsets) = positions.clone().into_parts();
            let group = group.ok_or(SendOffsetsError::NoGroup)?;
            let sending = Sending { group: group.clone(), offsets, is_renewable: positions.is_renewable() };
            match self.send_offsets_once(deadline, sending).await? {
                Sent::Taken => break,
                Sent::Outdated => self.wait_for_renewal(deadline, &positions, &group).await,
            }
        }
        drop(guard);
        Ok(())
    }

    /// The group has gone on to another generation. So may the member have, with all that it kept, or it is on its way; else they are given up.
    async fn wait_for_renewal(&self, deadline: Instant, positions: &Positions, sent: &GroupMetadata) {
        while positions.current_group().as_ref() == Some(sent) {
            if !positions.may_be_renewed() || Instant::now() + RENEWAL_BACKOFF >= deadline {
                return self.host.lock().transaction().give_offsets_up();
            }
            tokio::time::sleep(RENEWAL_BACKOFF).await;
        }
    }

    async fn send_offsets_once(&self, deadline: Instant, sending: Sending) -> Result<Sent, SendOffsetsError> {
        let host = &self.host;
        // The epoch may have been refused a moment ago; then it is being asked why.
        let mut sending = Some(sending);
        let sent = host.wait_until(deadline, |inner| match look(inner.transaction()) {
            Going::On => {
                let Sending { group, offsets, is_renewable } = sending.take()?;
                let manager = inner.transaction();
                if is_renewable {
                    manager.send_renewable_offsets(group, offsets);
                } else {
                    manager.send_offsets(group, offsets);
                }
                Some(Ok(()))
            }
            Going::Wait => None,
            Going::Failed(error) => Some(Err(error)),
        });
        match sent.await {
            Some(Ok(())) => {}
            Some(Err(error)) => return Err(SendOffsetsError::Transaction(error)),
            None => return Err(SendOffsetsError::TimedOut { waited: host.settings.max_block }),
        }
        host.wake();
        let taken = host.wait_until(deadline, |inner| {
            let manager = inner.transaction();
            match look(manager) {
                Going::On if manager.outdated_offsets().is_some() => Some(Ok(Sent::Outdated)),
                Going::On => manager.has_sent_offsets().then_some(Ok(Sent::Taken)),
                Going::Wait => None,
                Going::Failed(error) => Some(Err(error)),
            }
        });
        match taken.await {
            Some(Ok(sent)) => Ok(sent),
            Some(Err(error)) => Err(SendOffsetsError::Transaction(error)),
            None => Err(SendOffsetsError::TimedOut { waited: host.settings.max_block }),
        }
    }

    async fn flush(&self) -> Result<(), SendError> {
        let flushed = self.host.flush().await;
        match look(self.host.lock().transaction()) {
            Going::Failed(error) => Err(SendError::Transaction(error)),
            Going::On | Going::Wait => flushed,
        }
    }

    #[tracing::instrument(level = "debug", skip_all, fields(transactional_id = %self.transactional_id))]
    async fn commit(&self) -> Result<(), CommitError> {
        let host = &self.host;
        let asked = host.lock().transaction().end(Outcome::Commit);
        if let Err(error) = asked {
            return Err(CommitError::NotCommitted(error));
        }
        host.wake();
        let ended = host.wait_until(host.deadline(), |inner| {
            let manager = inner.transaction();
            if let Some(ended) = manager.take_ended() {
                count(host, &ended);
                return Some(committed(ended));
            }
            match manager.state() {
                State::AbortableError(error) | State::FatalError(error) => {
                    Some(Err(CommitError::NotCommitted(error.clone())))
                }
                State::Uninitialized
                | State::Initializing(_)
                | State::Ready
                | State::InTransaction
                | State::Ending { .. }
                | State::InDoubt(_) => None,
            }
        });
        ended.await.unwrap_or_else(|| Err(CommitError::InDoubt { waited: host.settings.max_block }))
    }

    #[tracing::instrument(level = "debug", skip_all, fields(transactional_id = %self.transactional_id))]
    async fn abort(&self) -> Result<(), AbortError> {
        let host = &self.host;
        let asked = host.lock().transaction().end(Outcome::Abort);
        if let Err(error) = asked {
            return Err(AbortError::Transaction(error));
        }
        host.wake();
        let ended = host.wait_until(host.deadline(), |inner| {
            let manager = inner.transaction();
            if let Some(ended) = manager.take_ended() {
                count(host, &ended);
                return Some(ended.error.map_or(Ok(()), |error| Err(AbortError::Transaction(error))));
            }
            match manager.state() {
                State::FatalError(error) => Some(Err(AbortError::Transaction(error.clone()))),
                State::Uninitialized
                | State::Initializing(_)
                | State::Ready
                | State::InTransaction
                | State::Ending { .. }
                | State::InDoubt(_)
                | State::AbortableError(_) => None,
            }
        });
        ended.await.unwrap_or_else(|| Err(AbortError::TimedOut { waited: host.settings.max_block }))
    }
}

impl Drop for TransactionalProducer {
    fn drop(&mut self) {
        self.host.close();
    }
}

/// Offsets on their way into a transaction.
struct Sending {
    group: GroupMetadata,
    offsets: BTreeMap<TopicPartition, CommitPosition>,
    /// Whether who sends them may be a member that has gone on with its group.
    is_renewable: bool,
}

/// What became of them.
enum Sent {
    Taken,
    /// They are of a generation that is over.
    Outdated,
}

/// Whether an open transaction can go on.
enum Going {
    On,
    /// Its epoch was refused, and why is being asked.
    Wait,
    Failed(TransactionError),
}

fn look(manager: &TransactionManager) -> Going {
    match manager.state() {
        State::InTransaction => Going::On,
        State::AbortableError(error) | State::FatalError(error) => Going::Failed(error.clone()),
        State::Uninitialized | State::Initializing(_) | State::Ready | State::Ending { .. } | State::InDoubt(_) => {
            Going::Wait
        }
    }
}

fn count(host: &ProducerHost, ended: &Ended) {
    host.metrics().handle_transaction_ended(match ended.settled {
        Settled::Committed => "committed",
        Settled::Aborted => "aborted",
        Settled::Unknown => "unknown",
    });
}

fn committed(ended: Ended) -> Result<(), CommitError> {
    match (ended.settled, ended.error) {
        (Settled::Committed, _) => Ok(()),
        (Settled::Aborted, Some(error)) => Err(CommitError::NotCommitted(error)),
        (Settled::Unknown, Some(error)) => Err(CommitError::OutcomeUnknown(error)),
        (Settled::Aborted | Settled::Unknown, None) => {
            unreachable!("a commit that did not succeed has a reason")
        }
    }
}

/// Tells the manager, when its future is dropped half way, that nobody waits for the offsets any more.
struct Abandon<'host> {
    host: &'host ProducerHost,
}

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        // Nothing happens if they were taken.
        self.host.lock().transaction().abandon_offsets();
    }
}

/// A transaction that borrows its producer.
///
/// ```no_run
/// # async fn example() -> Result<(), atonce_client::Error> {
/// use atonce_client::{Client, ErrorClass, ProducerRecord, Settled};
///
/// let client = Client::builder("localhost:9092").connect().await?;
/// let mut producer = client.transactional_producer("payments-1").start().await?;
/// let transaction = producer.begin().await?;
/// transaction.send(ProducerRecord::to("receipts").value("paid")).await?;
/// if let Err(error) = transaction.commit().await {
///     // Was it committed? The same producer finds out.
///     match producer.settle().await? {
///         Some(Settled::Committed) => {}
///         Some(Settled::Aborted | Settled::Unknown) | None => return Err(error.into()),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a transaction that is dropped is aborted by the next `begin`"]
pub struct Transaction<'producer> {
    producer: &'producer mut TransactionalProducer,
    settled: Option<Settled>,
}

impl Transaction<'_> {
    /// What became of the transaction before this one, if its end had not been seen.
    #[must_use]
    pub fn settled(&self) -> Option<Settled> {
        self.settled
    }

    /// Why it cannot be committed, if that is known by now.
    #[must_use]
    pub fn failure(&self) -> Option<TransactionError> {
        match look(self.producer.host.lock().transaction()) {
            Going::Failed(error) => Some(error),
            Going::On | Going::Wait => None,
        }
    }

    /// Takes a record into the transaction; waits for room, not for the broker.
    pub async fn send(&self, record: ProducerRecord) -> Result<Delivery, SendError> {
        self.producer.host.send(record).await
    }

    /// Adds a group's positions: they are committed with the records, or not at all. Waits for the answer.
    ///
    /// Errors: a member or generation that is not the group's any more is `Abortable`: abort, rejoin, read again.
    pub async fn send_offsets(&self, positions: Positions) -> Result<(), SendOffsetsError> {
        self.producer.send_offsets(positions).await
    }

    /// Waits until all records so far are in the log (not yet committed), or one has failed.
    pub async fn flush(&self) -> Result<(), SendError> {
        self.producer.flush().await
    }

    /// Flushes, and commits.
    ///
    /// Errors: see [`CommitError`]; `may_have_taken_effect` says whether it may have been committed nonetheless.
    pub async fn commit(self) -> Result<(), CommitError> {
        self.producer.commit().await
    }

    /// Drops what was not yet sent, and aborts.
    pub async fn abort(self) -> Result<(), AbortError> {
        self.producer.abort().await
    }
}

/// A transaction that owns its producer, and gives it back at its end.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let broker = atonce_broker::Broker::temporary().await?;
/// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
/// # client.admin().create_topics(&[atonce_client::NewTopic::new("orders", 1)]).await?;
/// use atonce_client::ProducerRecord;
///
/// let producer = client.transactional_producer("payments-1").start().await?;
/// let transaction = producer.begin_owned().await.map_err(|(_, error)| error)?;
/// // It may be moved into a task, which a borrowing one may not.
/// let writing = tokio::spawn(async move {
///     transaction.send(ProducerRecord::to("orders").value("two lamps")).await?;
///     let (producer, committed) = transaction.commit().await;
///     committed?;
///     Ok::<_, atonce_client::Error>(producer)
/// });
/// let producer = writing.await??;
/// assert_eq!(producer.statistics().committed, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a transaction that is dropped takes its producer with it"]
pub struct OwnedTransaction {
    producer: TransactionalProducer,
    settled: Option<Settled>,
}

impl OwnedTransaction {
    /// As [`Transaction::settled`].
    #[must_use]
    pub fn settled(&self) -> Option<Settled> {
        self.settled
    }

    /// As [`Transaction::send`].
    pub async fn send(&self, record: ProducerRecord) -> Result<Delivery, SendError> {
        self.producer.host.send(record).await
    }

    /// As [`Transaction::send_offsets`].
    pub async fn send_offsets(&self, positions: Positions) -> Result<(), SendOffsetsError> {
        self.producer.send_offsets(positions).await
    }

    /// As [`Transaction::flush`].
    pub async fn flush(&self) -> Result<(), SendError> {
        self.producer.flush().await
    }

    /// As [`Transaction::commit`]; the producer comes back in any case.
    pub async fn commit(self) -> (TransactionalProducer, Result<(), CommitError>) {
        let ended = self.producer.commit().await;
        (self.producer, ended)
    }

    /// As [`Transaction::abort`]; the producer comes back in any case.
    pub async fn abort(self) -> (TransactionalProducer, Result<(), AbortError>) {
        let ended = self.producer.abort().await;
        (self.producer, ended)
    }
}
