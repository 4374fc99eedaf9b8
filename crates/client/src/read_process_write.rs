//! The loop that reads, processes and writes, exactly once, as one call: what can go wrong in it is handled inside.
//!
//! **What it does not know**: what is processed. It only uses this crate's public consumer and producer.
//!
//! Each batch is a transaction: begin, process, send the batch's positions, commit. Whatever fails, the way back is one:
//! *settle* (abort what is open, learn what became of what is in doubt), then *rewind* to what the group has committed.
//! Positions and results are committed together, so the committed positions say which of the two happened, also when
//! nobody else does.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use atonce_kernel::TopicName;
use atonce_kernel::chance::Chance;
use thiserror::Error as ThisError;
use tracing::{debug, info, warn};

use crate::client::Client;
use crate::consumer::{Batch, Consumer, ConsumerBuilder, ConsumerEvent, OffsetReset};
use crate::error::{
    BeginError, CommitError, ConsumerError, ErrorClass, SendError, SendOffsetsError, StartError, TransactionError,
};
use crate::producer::Delivery;
use crate::producer_host::{ProducerHost, seed};
use crate::record::ProducerRecord;
use crate::transaction::{TransactionalProducer, TransactionalProducerBuilder};

/// How long a call waits for something to happen before it looks whether it shall end.
const WAIT: Duration = Duration::from_secs(1);

/// How long to wait before the cluster is asked again for what it could not do.
const BACKOFF: Duration = Duration::from_millis(200);

/// Why a batch was not processed: any error. (As it takes any, it is none itself.)
#[derive(Debug)]
pub struct ProcessError(Box<dyn std::error::Error + Send + Sync>);

impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> From<E> for ProcessError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl fmt::Display for ProcessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The loop cannot go on. What was not committed is not in the log for whoever reads what is committed, and is read again
/// by whoever goes on.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum RunError {
    /// The process failed, and was not to be tried again.
    #[error("the process failed: {0}")]
    Process(ProcessError),
    /// Somebody else goes on under this name.
    #[error("somebody else goes on under this name ({0}); this one must stop")]
    Fenced(TransactionError),
    /// The consumer cannot go on.
    #[error(transparent)]
    Consumer(#[from] ConsumerError),
    /// The producer could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The producer cannot go on.
    #[error(transparent)]
    Transaction(#[from] TransactionError),
    /// The consumer's positions cannot go into a transaction.
    #[error(transparent)]
    SendOffsets(SendOffsetsError),
}

impl RunError {
    /// What the caller should do.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Process(_) | Self::Fenced(_) => ErrorClass::ApplicationRecoverable,
            Self::Consumer(error) => error.class(),
            Self::Start(error) => error.class(),
            Self::Transaction(error) => error.class(),
            Self::SendOffsets(error) => error.class(),
        }
    }

    /// Whether the world may have changed: never by halves. The last batch is committed with all that it wrote, or not.
    #[must_use]
    pub fn may_have_taken_effect(&self) -> bool {
        false
    }
}

/// Where a process writes to: into the transaction of its batch.
#[derive(Clone)]
pub struct Output {
    host: Arc<ProducerHost>,
    turn: u64,
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output").field("turn", &self.turn).finish_non_exhaustive()
    }
}

impl Output {
    /// Takes a record into the batch's transaction; waits for room, not for the broker. The [`Delivery`] may be dropped:
    /// a record that is not written makes the commit fail, and the batch be processed again.
    ///
    /// Errors: [`SendError::Closed`] once the batch's process has ended; nothing gets into another batch's transaction.
    pub async fn send(&self, record: ProducerRecord) -> Result<Delivery, SendError> {
        self.host.send_in_turn(record, Some(self.turn)).await
    }
}

/// Settings of a loop to be run.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use atonce_client::{Client, ProducerRecord};
///
/// let client = Client::builder("localhost:9092").connect().await?;
/// client
///     .read_process_write("payments")
///     .instance("1")
///     .from(["orders"])
///     .run(|batch, output| async move {
///         for record in batch {
///             output.send(ProducerRecord::to("receipts").key(record.key()).value(record.value())).await?;
///         }
///         Ok(())
///     })
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "nothing happens before `run`"]
pub struct ReadProcessWrite {
    name: String,
    instance: Option<String>,
    topics: Vec<TopicName>,
    consumer: ConsumerBuilder,
    producer: TransactionalProducerBuilder,
    attempts_max: u32,
}

impl ReadProcessWrite {
    pub(crate) fn new(client: &Client, name: String) -> Self {
        let consumer = client.consumer().group(name.clone()).read_committed();
        // Beginning at the end would skip what is written to a partition before it is first read.
        let consumer = consumer.auto_offset_reset(OffsetReset::Earliest);
        // Nobody knows this id but this loop; an instance's name replaces it.
        let id = format!("{name}-{}", Chance::from_seed(seed()).uuid());
        let producer = client.transactional_producer(id);
        Self { name, instance: None, topics: Vec::new(), consumer, producer, attempts_max: 1 }
    }

    /// Names this process among those that run the same loop, for instance by a number. A process that comes back under
    /// its name fences its former life at once, and finds its partitions as a static member. Without a name its former
    /// life's open transaction holds its partitions back until the transaction time-out.
    ///
    /// No two may run under one name: the later one stops the earlier one.
    pub fn instance(mut self, instance: impl Into<String>) -> Self {
        let instance = instance.into();
        self.consumer = self.consumer.instance_id(instance.clone());
        self.producer = self.producer.transactional_id(format!("{}-{instance}", self.name));
        self.instance = Some(instance);
        self
    }

    /// The topics to read.
    pub fn from<T: Into<TopicName>>(mut self, topics: impl IntoIterator<Item = T>) -> Self {
        self.topics = topics.into_iter().map(Into::into).collect();
        self
    }

    /// Changes the consumer's settings: its assignor, the size of batches, where to begin without a committed offset (at
    /// the first record, unless set).
    pub fn consumer(mut self, change: impl FnOnce(ConsumerBuilder) -> ConsumerBuilder) -> Self {
        self.consumer = change(self.consumer);
        self
    }

    /// Changes the producer's settings: its compression, the transaction time-out. A batch that takes longer than that is
    /// aborted and processed again.
    pub fn producer(
        mut self,
        change: impl FnOnce(TransactionalProducerBuilder) -> TransactionalProducerBuilder,
    ) -> Self {
        self.producer = change(self.producer);
        self
    }

    /// How often a process may fail in succession before the loop ends with its error; 1 unless set. In between, its
    /// transaction is aborted, and its records are read again after a pause that doubles from 200 ms on.
    pub fn attempts_max(mut self, attempts: u32) -> Self {
        self.attempts_max = attempts;
        self
    }

    /// Runs until it cannot go on.
    ///
    /// `process` gets each batch with an [`Output`]; what it sends there is committed together with the batch's positions,
    /// once it returns `Ok`. If it returns an error, or anything else fails, nothing of it is, and the records are processed
    /// again: so `process` may be called more than once with a record, but its output counts once.
    ///
    /// Handled inside: refused and lost requests, transactions that took too long, rebalances in mid-batch, commits whose
    /// answer was lost (it finds out), a producer id that is gone. Dropping the future is like a crash: what was not
    /// committed is aborted, and read again.
    ///
    /// Errors: see [`RunError`].
    pub async fn run<F, Fut>(self, process: F) -> Result<(), RunError>
    where
        F: FnMut(Batch, Output) -> Fut + Send,
        Fut: Future<Output = Result<(), ProcessError>> + Send,
    {
        self.run_until(std::future::pending(), process).await
    }

    /// As [`run`](Self::run), until `shutdown` is ready: then the batch at hand is finished, and the group left.
    pub async fn run_until<F, Fut>(self, shutdown: impl Future<Output = ()> + Send, process: F) -> Result<(), RunError>
    where
        F: FnMut(Batch, Output) -> Fut + Send,
        Fut: Future<Output = Result<(), ProcessError>> + Send,
    {
        let consumer = self.consumer.subscribe(self.topics).await?;
        if consumer.has_auto_commit() {
            return Err(RunError::SendOffsets(SendOffsetsError::AutoCommitted));
        }
        let is_private = self.instance.is_none();
        let producer = Writer { builder: self.producer, is_private, producer: None };
        let mut work = Loop { consumer, writer: producer, attempts: 0, attempts_max: self.attempts_max.max(1) };
        let ended = work.run(shutdown, process).await;
        let closed = work.consumer.close().await;
        ended?;
        match closed {
            // The coordinator notices by itself.
            Ok(()) | Err(ConsumerError::TimedOut { .. } | ConsumerError::Closed) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The producer, made anew when one is finished.
struct Writer {
    builder: TransactionalProducerBuilder,
    /// Whether nobody else can have taken its id over.
    is_private: bool,
    producer: Option<TransactionalProducer>,
}

struct Loop {
    consumer: Consumer,
    writer: Writer,
    attempts: u32,
    attempts_max: u32,
}

/// Why a batch was not committed.
enum Setback {
    /// Settle, rewind, and go on.
    Again(String),
    /// The process failed.
    Process(ProcessError),
    /// The loop ends.
    End(RunError),
}

impl From<RunError> for Setback {
    fn from(error: RunError) -> Self {
        Self::End(error)
    }
}

impl Loop {
    async fn run<F, Fut>(&mut self, shutdown: impl Future<Output = ()> + Send, mut process: F) -> Result<(), RunError>
    where
        F: FnMut(Batch, Output) -> Fut + Send,
        Fut: Future<Output = Result<(), ProcessError>> + Send,
    {
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            let event = tokio::select! {
                biased;
                () = &mut shutdown => return Ok(()),
                event = self.consumer.next_event(WAIT) => event,
            };
            let batch = match event {
                Ok(Some(ConsumerEvent::Batch(batch))) => batch,
                // Each batch is committed before the next call, so there is nothing left to commit. A named producer's
                // former life may hold back the offsets of what was assigned: it is fenced now.
                Ok(Some(ConsumerEvent::Assigned(..))) => {
                    self.writer.ready().await?;
                    continue;
                }
                Ok(Some(ConsumerEvent::Revoking(_) | ConsumerEvent::Lost(_)) | None) => continue,
                Err(error) => {
                    self.wait_out(error).await?;
                    continue;
                }
            };
            match self.turn(batch, &mut process).await {
                Ok(()) => self.attempts = 0,
                Err(Setback::Again(reason)) => {
                    info!(%reason, "the batch is aborted, and read again");
                    self.go_back().await?;
                }
                Err(Setback::Process(error)) => {
                    self.attempts += 1;
                    if self.attempts >= self.attempts_max {
                        self.go_back().await?;
                        return Err(RunError::Process(error));
                    }
                    warn!(%error, attempt = self.attempts, "the process failed; its batch is read again");
                    self.go_back().await?;
                    tokio::time::sleep(BACKOFF * 2_u32.saturating_pow(self.attempts.min(8) - 1)).await;
                }
                Err(Setback::End(error)) => return Err(error),
            }
        }
    }

    /// One batch: one transaction.
    async fn turn<F, Fut>(&mut self, batch: Batch, process: &mut F) -> Result<(), Setback>
    where
        F: FnMut(Batch, Output) -> Fut + Send,
        Fut: Future<Output = Result<(), ProcessError>> + Send,
    {
        let writer = &mut self.writer;
        let producer = writer.ready().await?;
        let host = producer.host();
        let transaction = match producer.begin().await {
            Ok(transaction) => transaction,
            Err(BeginError::Transaction(error)) => return Err(writer.transaction_failed(error)),
            Err(error) => return Err(Setback::Again(error.to_string())),
        };
        let positions = batch.positions();
        // A batch without records only moves positions, over what nobody may see.
        if !batch.is_empty() {
            let turn = host.open_turn();
            let processed = process(batch, Output { host: Arc::clone(&host), turn }).await;
            host.close_turn();
            if let Err(error) = processed {
                // If the transaction failed beneath it, the process is not to blame.
                return Err(match transaction.failure() {
                    Some(failure) => writer.transaction_failed(failure),
                    None => Setback::Process(error),
                });
            }
        }
        match transaction.send_offsets(positions).await {
            Ok(()) => {}
            Err(SendOffsetsError::Transaction(error)) => return Err(writer.transaction_failed(error)),
            Err(error) => return Err(Setback::Again(error.to_string())),
        }
        match transaction.commit().await {
            Ok(()) => Ok(()),
            Err(CommitError::NotCommitted(error) | CommitError::OutcomeUnknown(error)) => {
                Err(writer.transaction_failed(error))
            }
            // Going back finds out.
            Err(error) => Err(Setback::Again(error.to_string())),
        }
    }

    /// Settles the last transaction, and goes on from what the group has committed.
    async fn go_back(&mut self) -> Result<(), RunError> {
        loop {
            let producer = self.writer.ready().await?;
            match producer.settle().await {
                Ok(settled) => {
                    debug!(?settled, "settled");
                    break;
                }
                Err(BeginError::Transaction(error)) => match self.writer.transaction_failed(error) {
                    Setback::End(error) => return Err(error),
                    Setback::Again(_) | Setback::Process(_) => {}
                },
                Err(error) => warn!(%error, "the last transaction is not settled yet"),
            }
        }
        while let Err(error) = self.consumer.rewind().await {
            self.wait_out(error).await?;
        }
        Ok(())
    }

    /// Waits a little, if the consumer may go on by itself.
    async fn wait_out(&self, error: ConsumerError) -> Result<(), RunError> {
        match error.class() {
            ErrorClass::Retriable | ErrorClass::RefreshRetriable => {
                warn!(%error, "the consumer tries again");
                tokio::time::sleep(BACKOFF).await;
                Ok(())
            }
            ErrorClass::Abortable | ErrorClass::ApplicationRecoverable | ErrorClass::InvalidConfiguration => {
                Err(error.into())
            }
        }
    }
}

impl Writer {
    /// The producer, started if there is none.
    async fn ready(&mut self) -> Result<&mut TransactionalProducer, RunError> {
        let Some(producer) = self.producer.take() else {
            let producer = self.start().await?;
            return Ok(self.producer.insert(producer));
        };
        Ok(self.producer.insert(producer))
    }

    async fn start(&self) -> Result<TransactionalProducer, RunError> {
        loop {
            let error = match self.builder.clone().start().await {
                Ok(producer) => return Ok(producer),
                Err(error) => error,
            };
            match error.class() {
                ErrorClass::Retriable | ErrorClass::RefreshRetriable => {
                    warn!(%error, "the producer tries again");
                    tokio::time::sleep(BACKOFF).await;
                }
                ErrorClass::Abortable | ErrorClass::ApplicationRecoverable | ErrorClass::InvalidConfiguration => {
                    return Err(error.into());
                }
            }
        }
    }

    /// What a failed transaction means for the loop. A producer that is finished is dropped; the next one takes its id.
    fn transaction_failed(&mut self, error: TransactionError) -> Setback {
        match (error.class(), &error) {
            (_, TransactionError::Fenced(_)) if !self.is_private => Setback::End(RunError::Fenced(error)),
            (ErrorClass::ApplicationRecoverable, _) => {
                self.producer = None;
                Setback::Again(error.to_string())
            }
            (ErrorClass::Retriable | ErrorClass::RefreshRetriable | ErrorClass::Abortable, _) => {
                Setback::Again(error.to_string())
            }
            (ErrorClass::InvalidConfiguration, _) => Setback::End(RunError::Transaction(error)),
        }
    }
}
