//! Errors that the machines speak of, and what a caller should do about them.

use std::fmt;
use std::time::Duration;

use atonce_kernel::TopicPartition;
use atonce_protocol::ErrorCode;
use thiserror::Error as ThisError;

use crate::classify::{Operation, Verdict, classify};

/// What a caller should do about an error.
///
/// Source: KIP-1050, whose five classes these are; what it leaves open is `ApplicationRecoverable`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorClass {
    /// The same call may succeed later. The client has already retried for as long as it was told to.
    Retriable,
    /// As `Retriable`, once the cluster's metadata or a coordinator has been looked up again.
    RefreshRetriable,
    /// The transaction must be aborted, and what it read be read again; the producer itself is well.
    Abortable,
    /// This producer, or member, is finished: make a new one, and go on from the committed offsets.
    ApplicationRecoverable,
    /// Asking again is useless until someone changes a setting, a permission or the program.
    InvalidConfiguration,
}

impl fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Retriable => "retriable",
            Self::RefreshRetriable => "retriable after a refresh",
            Self::Abortable => "abort the transaction",
            Self::ApplicationRecoverable => "start anew",
            Self::InvalidConfiguration => "invalid configuration",
        })
    }
}

/// A broker's "no", as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    operation: Operation,
    code: ErrorCode,
    message: Option<String>,
}

impl Refusal {
    /// What a broker answered to `operation`.
    #[must_use]
    pub fn new(operation: Operation, code: ErrorCode) -> Self {
        Self { operation, code, message: None }
    }

    /// The same, with what the broker said beside the code.
    #[must_use]
    pub fn with_message(operation: Operation, code: ErrorCode, message: Option<String>) -> Self {
        Self { operation, code, message: message.filter(|message| !message.is_empty()) }
    }

    /// What was asked.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// The code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// The code's name as Kafka writes it, for instance `TOPIC_ALREADY_EXISTS`.
    #[must_use]
    pub fn code_name(&self) -> &'static str {
        self.code.name()
    }

    /// What the client does about it.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        classify(self.operation, self.code)
    }

    /// What the caller should do, now that the client has done what it can.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        self.verdict().class(self.code)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An administrator's calls are no request of Kafka's.
        if self.operation == Operation::Admin {
            write!(f, "the broker answered {}: ", self.code)?;
        } else {
            write!(f, "{} answered {}: ", self.operation, self.code)?;
        }
        f.write_str(self.message.as_deref().unwrap_or_else(|| self.code.message()))
    }
}

impl std::error::Error for Refusal {}

/// Why a record is not in the log, or not known to be.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum RecordError {
    /// Not acknowledged in time.
    #[error("not acknowledged after {waited:?}")]
    TimedOut {
        /// The delivery time-out.
        waited: Duration,
        /// Whether it was sent at least once without a clear answer, and so may be in the log.
        may_be_written: bool,
    },
    /// A broker refused it.
    #[error("{refusal}{}", if *may_be_written { " (and an earlier attempt was not answered)" } else { "" })]
    Refused {
        /// What the broker said.
        refusal: Refusal,
        /// Whether an earlier attempt got no clear answer, so that the record may be in the log nonetheless.
        may_be_written: bool,
    },
    /// Its transaction was aborted, or its producer ended, before it was sent.
    #[error("dropped, for its transaction was aborted or its producer ended")]
    Dropped,
}

impl RecordError {
    /// Whether the record may be in the log nonetheless.
    #[must_use]
    pub fn may_have_taken_effect(&self) -> bool {
        match self {
            Self::TimedOut { may_be_written, .. } | Self::Refused { may_be_written, .. } => *may_be_written,
            Self::Dropped => false,
        }
    }
}

/// What ails a transaction.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum TransactionError {
    /// Another producer has taken the transactional id over: this one is a zombie. (In the old transaction protocol a
    /// broker may say the same of a transaction that outlived its time-out.)
    #[error("another producer has taken the transactional id over ({0}); this one must stop")]
    Fenced(Refusal),
    /// The transaction outlived its time-out, so the coordinator aborted it. Nobody took the id over.
    #[error("the coordinator aborted the transaction, for it outlived its time-out ({0})")]
    TimedOut(Refusal),
    /// The group has moved on: the member or its generation is not the group's any more.
    #[error("offsets are refused, for the group has moved on ({0}); abort, and join again")]
    CommitFailed(Refusal),
    /// A record could not be written, so the transaction cannot be committed.
    #[error("a record for {topic_partition} is not in the log, so the transaction must be aborted: {cause}")]
    RecordFailed {
        /// Where the record was to go.
        topic_partition: TopicPartition,
        /// Why it is not there.
        cause: RecordError,
    },
    /// A broker refused a step, so the transaction must be aborted.
    #[error("the transaction must be aborted: {0}")]
    Abortable(Refusal),
    /// Nobody waited for offsets to be taken, so the transaction must be aborted.
    #[error("offsets were sent and not waited for, so the transaction must be aborted")]
    OffsetsAbandoned,
    /// A broker refused a step in a way that aborting does not cure.
    #[error("{0}")]
    Fatal(Refusal),
}

impl TransactionError {
    /// What the caller should do.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Fenced(_) => ErrorClass::ApplicationRecoverable,
            Self::TimedOut(_)
            | Self::CommitFailed(_)
            | Self::RecordFailed { .. }
            | Self::Abortable(_)
            | Self::OffsetsAbandoned => ErrorClass::Abortable,
            Self::Fatal(refusal) => match refusal.class() {
                ErrorClass::InvalidConfiguration => ErrorClass::InvalidConfiguration,
                ErrorClass::Retriable
                | ErrorClass::RefreshRetriable
                | ErrorClass::Abortable
                | ErrorClass::ApplicationRecoverable => ErrorClass::ApplicationRecoverable,
            },
        }
    }

    /// Whether somebody else is in charge now: of the transactional id, or of the group's partitions.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        match self {
            Self::Fenced(_) | Self::CommitFailed(_) => true,
            Self::TimedOut(_)
            | Self::RecordFailed { .. }
            | Self::Abortable(_)
            | Self::OffsetsAbandoned
            | Self::Fatal(_) => false,
        }
    }
}
