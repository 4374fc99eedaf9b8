//! A worker's producer: transactional under exactly once, else idempotent. What goes wrong is told in the words of the commit.

use atonce_client::error::RecordError;
use atonce_client::{
    BeginError, CommitError, Delivery, ErrorClass, OwnedTransaction, Positions, Producer, ProducerRecord, SendError,
    SendOffsetsError, Settled, StartError, TransactionError, TransactionalProducer,
};
use atonce_kernel::TransactionalId;

use crate::worker::Shared;

/// The producer, and where it stands.
pub(crate) enum Writer {
    /// No transactions.
    Plain(Producer),
    /// No transaction is open, as far as the broker has heard.
    Ready(TransactionalProducer),
    /// A transaction is open.
    Open(OwnedTransaction),
    /// None: not initialised yet, or given up. It is initialised after the group has been joined, never before: two instances
    /// that initialise first fence each other for ever.
    Absent,
}

/// A step that failed, told so that the worker knows what to do.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) message: String,
    /// Another is in charge now, or the coordinator has ended the transaction over this worker's head.
    pub(crate) is_fenced: bool,
    /// This worker's place in the group, or its producer, is no longer good: join again.
    pub(crate) must_rejoin: bool,
    /// The producer is finished: a new one is to be initialised, after joining.
    pub(crate) is_producer_lost: bool,
    /// Neither time nor joining cures it.
    pub(crate) is_fatal: bool,
}

/// How an end was answered.
pub(crate) enum Ended {
    Done,
    Refused(Failure),
    Unanswered,
    /// It has ended, and no one says how.
    Unknown(Failure),
}

impl Failure {
    fn of_transaction(error: &TransactionError) -> Self {
        if let TransactionError::RecordFailed { cause: RecordError::Refused { refusal, .. }, .. } = error {
            // The transaction can be aborted; whether another try may go better, the refusal says.
            return Self::of_class(refusal.class(), error.to_string());
        }
        let mut failure = Self::of_class(error.class(), error.to_string());
        failure.is_fenced = error.is_fenced() || matches!(error, TransactionError::TimedOut(_));
        failure.must_rejoin |= matches!(error, TransactionError::CommitFailed(_));
        failure
    }

    fn of_class(class: ErrorClass, message: String) -> Self {
        let is_producer_lost = class == ErrorClass::ApplicationRecoverable;
        Self {
            message,
            is_fenced: false,
            must_rejoin: is_producer_lost,
            is_producer_lost,
            is_fatal: class == ErrorClass::InvalidConfiguration,
        }
    }

    pub(crate) fn of_send(error: &SendError) -> Self {
        match error {
            SendError::Transaction(error) => Self::of_transaction(error),
            // The client has waited for the topic already: it does not come by itself, and without it no interval can end.
            SendError::UnknownTopicOrPartition { .. } => {
                Self::of_class(ErrorClass::InvalidConfiguration, error.to_string())
            }
            _ => Self::of_class(error.class(), error.to_string()),
        }
    }

    fn of_begin(error: &BeginError) -> Self {
        match error {
            BeginError::Transaction(error) => Self::of_transaction(error),
            _ => Self::of_class(error.class(), error.to_string()),
        }
    }

    fn of_offsets(error: &SendOffsetsError) -> Self {
        match error {
            SendOffsetsError::Transaction(error) => Self::of_transaction(error),
            _ => Self::of_class(error.class(), error.to_string()),
        }
    }

    fn absent() -> Self {
        Self::of_class(ErrorClass::ApplicationRecoverable, "the producer is not initialised".to_owned())
    }
}

impl Writer {
    /// Takes the transactional id over: fences whoever had it, and settles what it left.
    pub(crate) async fn initialise(shared: &Shared, transactional_id: TransactionalId) -> Result<Self, StartError> {
        let producer = shared.client.transactional_producer(transactional_id);
        // Small batches wait for the flush of the commit at most; larger ones are cheaper to send.
        let producer = producer.batch_bytes_max(BATCH_BYTES_MAX).max_block(shared.call_timeout);
        Ok(Self::Ready(producer.transaction_timeout(shared.transaction_timeout).start().await?))
    }

    /// The producer of the other two guarantees.
    pub(crate) async fn plain(shared: &Shared) -> Result<Self, StartError> {
        let producer = shared.client.producer();
        Ok(Self::Plain(producer.batch_bytes_max(BATCH_BYTES_MAX).max_block(shared.call_timeout).start().await?))
    }

    /// Takes a record; begins a transaction if there is none.
    pub(crate) async fn send(&mut self, record: ProducerRecord) -> Result<Delivery, Failure> {
        self.open().await?;
        match self {
            Self::Plain(producer) => producer.send(record).await,
            Self::Open(transaction) => transaction.send(record).await,
            Self::Ready(_) | Self::Absent => return Err(Failure::absent()),
        }
        .map_err(|error| Failure::of_send(&error))
    }

    /// Waits until everything sent is in the log.
    pub(crate) async fn flush(&mut self) -> Result<(), Failure> {
        match self {
            Self::Plain(producer) => producer.flush().await,
            Self::Open(transaction) => transaction.flush().await,
            Self::Ready(_) | Self::Absent => Ok(()),
        }
        .map_err(|error| Failure::of_send(&error))
    }

    /// Adds positions to the transaction; begins one if there is none, for an interval may have input and no output.
    pub(crate) async fn send_offsets(&mut self, positions: Positions) -> Result<(), Failure> {
        self.open().await?;
        match self {
            Self::Open(transaction) => {
                transaction.send_offsets(positions).await.map_err(|error| Failure::of_offsets(&error))
            }
            Self::Plain(_) | Self::Ready(_) | Self::Absent => Err(Failure::absent()),
        }
    }

    /// Commits the open transaction; there is nothing to commit without one.
    pub(crate) async fn commit(&mut self) -> Ended {
        let transaction = match std::mem::replace(self, Self::Absent) {
            Self::Open(transaction) => transaction,
            other @ (Self::Plain(_) | Self::Ready(_) | Self::Absent) => {
                *self = other;
                return Ended::Done;
            }
        };
        let (producer, result) = transaction.commit().await;
        *self = Self::Ready(producer);
        match result {
            Ok(()) => Ended::Done,
            Err(CommitError::InDoubt { .. }) => Ended::Unanswered,
            Err(CommitError::NotCommitted(error)) => Ended::Refused(Failure::of_transaction(&error)),
            Err(CommitError::OutcomeUnknown(error)) => Ended::Unknown(Failure::of_transaction(&error)),
            Err(error) if error.may_have_taken_effect() => Ended::Unanswered,
            Err(error) => Ended::Refused(Failure::of_class(error.class(), error.to_string())),
        }
    }

    /// Aborts the open transaction, if there is one. Whatever comes of it, nothing is committed.
    pub(crate) async fn abort(&mut self) -> Result<bool, Failure> {
        let transaction = match std::mem::replace(self, Self::Absent) {
            Self::Open(transaction) => transaction,
            other @ (Self::Plain(_) | Self::Ready(_) | Self::Absent) => {
                *self = other;
                return Ok(false);
            }
        };
        let (producer, result) = transaction.abort().await;
        *self = Self::Ready(producer);
        match result {
            Ok(()) => Ok(true),
            Err(atonce_client::AbortError::Transaction(error)) => Err(Failure::of_transaction(&error)),
            Err(error) => Err(Failure::of_class(error.class(), error.to_string())),
        }
    }

    /// Finds out what became of a commit without an answer.
    pub(crate) async fn settle(&mut self) -> Result<Option<Settled>, (BeginError, Failure)> {
        match self {
            Self::Ready(producer) => producer.settle().await.map_err(|error| {
                let failure = Failure::of_begin(&error);
                (error, failure)
            }),
            Self::Plain(_) | Self::Open(_) | Self::Absent => Ok(None),
        }
    }

    /// Begins a transaction if there is none and there can be one.
    async fn open(&mut self) -> Result<(), Failure> {
        let producer = match std::mem::replace(self, Self::Absent) {
            Self::Ready(producer) => producer,
            other @ (Self::Plain(_) | Self::Open(_) | Self::Absent) => {
                *self = other;
                return Ok(());
            }
        };
        match producer.begin_owned().await {
            Ok(transaction) => {
                *self = Self::Open(transaction);
                Ok(())
            }
            Err((producer, error)) => {
                *self = Self::Ready(producer);
                Err(Failure::of_begin(&error))
            }
        }
    }
}

/// Of one batch of output: large, since a commit flushes whatever waits.
const BATCH_BYTES_MAX: usize = 256 * 1024;
