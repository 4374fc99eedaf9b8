//! What can go wrong, one enum per operation, and two questions about each: what to do ([`ErrorClass`]), and whether the
//! world may have changed.

use std::time::Duration;

use atonce_kernel::{Offset, TopicPartition};
use atonce_protocol::ErrorCode;
use atonce_protocol::records::Compression;
use thiserror::Error as ThisError;

pub use atonce_client_core::classify::{Operation, Verdict, classify};
pub use atonce_client_core::error::{ErrorClass, RecordError, Refusal, TransactionError};

/// The client could not reach the cluster.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum ConnectError {
    /// The list of servers is empty, or an entry is not `host:port`.
    #[error("bootstrap servers {text:?}: expected host:port, several separated by commas")]
    NotAnAddress {
        /// What was given.
        text: String,
    },
    /// No server answered.
    #[error("none of {addresses} can be reached ({cause}); is a broker running there?")]
    Unreachable {
        /// All that were tried.
        addresses: String,
        /// What the last one's failure was.
        cause: String,
    },
}

/// A producer could not be started.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum StartError {
    /// A broker refused.
    #[error("no producer id: {0}")]
    Refused(Refusal),
    /// The transaction coordinator refused.
    #[error("no producer id: {0}")]
    Transaction(TransactionError),
    /// The transaction time-out is outside the broker's bounds.
    #[error(
        "a transaction time-out of {timeout:?} is above the broker's transaction.max.timeout.ms, or not above zero ({refusal})"
    )]
    TransactionTimeout {
        /// What was asked for.
        timeout: Duration,
        /// What the broker said.
        refusal: Refusal,
    },
    /// The compression is left out of this build.
    #[error("this build cannot compress by {compression}; switch the feature on")]
    CompressionNotBuilt {
        /// What was asked for.
        compression: Compression,
    },
    /// The coordinator did not answer, or asked to wait, for too long.
    #[error("no producer id after {waited:?}: {cause}")]
    TimedOut {
        /// How long was waited.
        waited: Duration,
        /// What it failed of last.
        cause: String,
    },
    /// The client is closed.
    #[error("the client is closed")]
    Closed,
}

/// A record was not taken, or not written.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum SendError {
    /// The topic, or the partition in it, did not appear in the cluster's metadata in time.
    #[error("{topic_partition} is not there after {waited:?}; create it first")]
    UnknownTopicOrPartition {
        /// Where the record was to go; partition -1 if the whole topic is missing.
        topic_partition: TopicPartition,
        /// How long was waited.
        waited: Duration,
    },
    /// The record is larger than a batch may be at all.
    #[error("a record of {bytes} bytes for {topic_partition} is larger than the {bytes_max} that may be sent")]
    TooLarge {
        /// Where the record was to go.
        topic_partition: TopicPartition,
        /// Its size.
        bytes: usize,
        /// What may be.
        bytes_max: usize,
    },
    /// The record was not acknowledged in time.
    #[error("{topic_partition}: not acknowledged after {waited:?}")]
    TimedOut {
        /// Where the record was to go.
        topic_partition: TopicPartition,
        /// The delivery time-out.
        waited: Duration,
        /// Whether it was sent at least once, and so may be in the log.
        may_be_written: bool,
    },
    /// The broker refused it.
    #[error("{topic_partition}: {refusal}")]
    Refused {
        /// Where the record was to go.
        topic_partition: TopicPartition,
        /// What the broker said.
        refusal: Refusal,
        /// Whether an earlier attempt got no clear answer, so that the record may be in the log nonetheless.
        may_be_written: bool,
    },
    /// The buffer had no room in time.
    #[error("no room in the producer's buffer after {waited:?}")]
    BufferFull {
        /// How long was waited.
        waited: Duration,
    },
    /// The transaction was aborted before the record was sent.
    #[error("{topic_partition}: dropped, for its transaction was aborted")]
    Dropped {
        /// Where the record was to go.
        topic_partition: TopicPartition,
    },
    /// The transaction cannot go on.
    #[error(transparent)]
    Transaction(TransactionError),
    /// The producer is closed.
    #[error("the producer is closed")]
    Closed,
}

/// Offsets were not taken into the transaction.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum SendOffsetsError {
    /// The positions name no group.
    #[error("the positions belong to no group; give the consumer one")]
    NoGroup,
    /// The consumer commits its positions by itself, before the transaction is: one that is aborted would lose its input.
    #[error("the positions are of a consumer that commits them by itself; do not ask it to (`auto_commit`)")]
    AutoCommitted,
    /// The transaction cannot go on.
    #[error(transparent)]
    Transaction(TransactionError),
    /// The coordinator did not answer in time. Whether it has the offsets is not known; the transaction must be aborted.
    #[error("offsets not taken after {waited:?}; the transaction must be aborted")]
    TimedOut {
        /// How long was waited.
        waited: Duration,
    },
    /// The producer is closed.
    #[error("the producer is closed")]
    Closed,
}

/// A transaction was not begun, since what was before it is not settled.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum BeginError {
    /// The producer cannot go on.
    #[error(transparent)]
    Transaction(TransactionError),
    /// The coordinator did not answer in time. Begin again: it goes on where it was.
    #[error("the last transaction is not settled after {waited:?}: {cause}")]
    TimedOut {
        /// How long was waited.
        waited: Duration,
        /// What it waits for.
        cause: String,
    },
    /// The producer is closed.
    #[error("the producer is closed")]
    Closed,
}

/// A transaction was not seen to be committed.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum CommitError {
    /// It is not committed and never will be. The next `begin` aborts what is left of it.
    #[error("not committed: {0}")]
    NotCommitted(TransactionError),
    /// The coordinator did not answer in time: it may be committed or not. `settle`, or the next `begin`, finds out.
    #[error("in doubt: no answer to the commit after {waited:?}")]
    InDoubt {
        /// How long was waited.
        waited: Duration,
    },
    /// It has ended, and the coordinator cannot or will not say how. Only what it wrote tells: read the committed offsets.
    #[error("the outcome cannot be learnt: {0}")]
    OutcomeUnknown(TransactionError),
    /// The producer is closed.
    #[error("the producer is closed")]
    Closed,
}

/// A transaction was not seen to be aborted. It is not committed in any case.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum AbortError {
    /// The producer cannot go on.
    #[error(transparent)]
    Transaction(TransactionError),
    /// The coordinator did not answer in time. The next `begin` goes on with it.
    #[error("no answer to the abort after {waited:?}")]
    TimedOut {
        /// How long was waited.
        waited: Duration,
    },
    /// The producer is closed.
    #[error("the producer is closed")]
    Closed,
}

/// Reading, joining or committing failed.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum ConsumerError {
    /// There is no offset to begin at, and the reset policy is [`OffsetReset::Fail`](crate::OffsetReset::Fail).
    #[error("{topic_partition}: no committed offset, and no reset policy; seek, or choose one")]
    NoOffset {
        /// The partition.
        topic_partition: TopicPartition,
    },
    /// The position lies outside the log, and the reset policy is [`OffsetReset::Fail`](crate::OffsetReset::Fail).
    #[error(
        "{topic_partition}: position {offset} is not in the log any more, or not yet; seek, or choose a reset policy"
    )]
    OffsetOutOfRange {
        /// The partition.
        topic_partition: TopicPartition,
        /// The position.
        offset: Offset,
    },
    /// What the broker sent is not a sound batch.
    #[error("{topic_partition}: bytes at offset {offset} are not a sound batch: {reason}")]
    Corrupt {
        /// The partition.
        topic_partition: TopicPartition,
        /// The position that was read.
        offset: Offset,
        /// What is wrong.
        reason: String,
    },
    /// Another member has taken this one's instance id: this one is a zombie.
    #[error("another member has taken this instance id over ({0}); this one must stop")]
    Fenced(Refusal),
    /// The group has moved on: the member or its generation is not the group's any more. Call `next_event` to join again.
    #[error("offsets are refused, for the group has moved on: {0}")]
    CommitFailed(Refusal),
    /// The partition is not one of those that are read.
    #[error("{topic_partition} is not assigned to this consumer")]
    NotAssigned {
        /// The partition.
        topic_partition: TopicPartition,
    },
    /// A group is needed, and none was given.
    #[error("this needs a group: name one when the consumer is made")]
    NoGroup,
    /// The call is for consumers by assignment only, or for members of a group only.
    #[error("{call} is not for a consumer that {how}")]
    WrongKind {
        /// The call.
        call: &'static str,
        /// How the consumer was made.
        how: &'static str,
    },
    /// The cluster has no groups of the consumer protocol.
    #[error(
        "this cluster does not offer groups of the consumer protocol of KIP-848, or not what is asked of it ({0}); \
         use GroupProtocol::Classic, or brokers from Apache Kafka 4.0 on with the feature group.version at 1"
    )]
    GroupProtocolNotOffered(Refusal),
    /// A broker refused.
    #[error("{0}")]
    Refused(Refusal),
    /// The cluster did not answer in time.
    #[error("{operation}: no answer after {waited:?}: {cause}")]
    TimedOut {
        /// What was asked.
        operation: &'static str,
        /// How long was waited.
        waited: Duration,
        /// What it failed of last.
        cause: String,
    },
    /// Something that has no case of its own here.
    #[error("{reason}")]
    Unexpected {
        /// What it is.
        reason: String,
    },
    /// The consumer is closed.
    #[error("the consumer is closed")]
    Closed,
}

impl ConsumerError {
    /// Of an offset that could not be looked up.
    pub(crate) fn from_lookup(error: AdminError) -> Self {
        match error {
            AdminError::Refused { refusal, .. } => Self::Refused(refusal),
            AdminError::TimedOut { operation, waited, cause, .. } => Self::TimedOut { operation, waited, cause },
            AdminError::Unsupported { .. } | AdminError::Closed => Self::Unexpected { reason: error.to_string() },
        }
    }
}

/// An administrator's call failed.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum AdminError {
    /// The broker refused.
    #[error("{subject}: {refusal}")]
    Refused {
        /// The topic, partition, group or member.
        subject: String,
        /// What the broker said.
        refusal: Refusal,
    },
    /// The cluster did not answer in time.
    #[error("{operation}: no answer after {waited:?}: {cause}")]
    TimedOut {
        /// What was asked.
        operation: &'static str,
        /// How long was waited.
        waited: Duration,
        /// What it failed of last.
        cause: String,
        /// Whether it was sent at least once, and so may have happened.
        may_have_taken_effect: bool,
    },
    /// The broker does not know the call, or no version of it that this client knows.
    #[error("{operation}: the broker does not support it, or not in this form")]
    Unsupported {
        /// What was asked.
        operation: &'static str,
    },
    /// The client is closed.
    #[error("the client is closed")]
    Closed,
}

impl AdminError {
    /// Whether what was to be made is there already.
    #[must_use]
    pub fn is_already_there(&self) -> bool {
        matches!(self, Self::Refused { refusal, .. } if refusal.code() == ErrorCode::TopicAlreadyExists)
    }

    /// Whether what was named is not there.
    #[must_use]
    pub fn is_not_there(&self) -> bool {
        matches!(self, Self::Refused { refusal, .. } if matches!(
            refusal.code(),
            ErrorCode::UnknownTopicOrPartition
                | ErrorCode::UnknownTopicId
                | ErrorCode::GroupIdNotFound
                | ErrorCode::UnknownMemberId
                | ErrorCode::TransactionalIdNotFound
        ))
    }
}

impl ConnectError {
    /// What the caller should do.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::NotAnAddress { .. } => ErrorClass::InvalidConfiguration,
            Self::Unreachable { .. } => ErrorClass::Retriable,
        }
    }

    /// Whether the world may have changed: never.
    #[must_use]
    pub fn may_have_taken_effect(&self) -> bool {
        false
    }
}

impl StartError {
    /// What the caller should do.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Refused(refusal) => refusal.class(),
            Self::Transaction(error) => error.class(),
            Self::TimedOut { .. } => ErrorClass::Retriable,
            Self::TransactionTimeout { .. } | Self::CompressionNotBuilt { .. } | Self::Closed => {
                ErrorClass::InvalidConfiguration
            }
        }
    }

    /// Whether the world may have changed: the id may have been taken over, which a repetition does again.
    #[must_use]
    pub fn may_have_taken_effect(&self) -> bool {
        match self {
            Self::TimedOut { .. } => true,
            Self::Refused(_)
            | Self::Transaction(_)
            | Self::TransactionTimeout { .. }
            | Self::CompressionNotBuilt { .. }
            | Self::Closed => false,
        }
    }
}

impl SendError {
    pub(crate) fn of_record(topic_partition: TopicPartition, cause: RecordError) -> Self {
        match cause {
            RecordError::TimedOut { waited, may_be_written } => {
                Self::TimedOut { topic_partition, waited, may_be_written }
            }
            RecordError::Refused { refusal, may_be_written } => {
                Self::Refused { topic_partition, refusal, may_be_written }
            }
            _ => Self::Dropped { topic_partition },
        }
    }

    /// What the caller should do.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::UnknownTopicOrPartition { .. } => ErrorClass::RefreshRetriable,
            Self::TooLarge { .. } | Self::Closed => ErrorClass::InvalidConfiguration,
            Self::TimedOut { .. } | Self::BufferFull { .. } => ErrorClass::Retriable,
            Self::Refused { refusal, .. } => refusal.class(),
            Self::Dropped { .. } => ErrorClass::Abortable,
            Self::Transaction(error) => error.class(),
        }
    }

    /// Whether the record may be in the log nonetheless.
    #[must_use]
    pub fn may_have_taken_effect(&self) -> bool {
        match self {
            Self::TimedOut { may_be_written, .. } | Self::Refused { may_be_written, .. } => *may_be_written,
            Self::UnknownTopicOrPartition { .. }
            | Self::TooLarge { .. }
            | Self::BufferFull { .. }
            | Self::Dropped { .. }
            | Self::Transaction(_)
            | Self::Closed => false,
        }
    }
}

impl SendOffsetsError {
    /// What the caller should do.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::NoGroup | Self::AutoCommitted | Self::Closed => ErrorClass::InvalidConfiguration,
            Self::Transaction(error) => error.class(),
            Self::TimedOut { .. } => ErrorClass::Abortable,
        }
    }

    /// Whether offsets may have changed: never, for the transaction is not committed.
    #[must_use]
    pub fn may_have_taken_effect(&self) -> bool {
        false
    }
}

impl BeginError {
    /// What the caller should do.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Transaction(error) => error.class(),
            Self::TimedOut { .. } => ErrorClass::Retriable,
            Self::Closed => ErrorClass::InvalidConfiguration,
        }
    }

    /// Whether the last transaction may have been committed: as long as it is not settled.
    #[must_use]
    pub fn may_have_taken_effect(&self) -> bool {
        match self {
            Self::TimedOut { .. } => true,
            Self::Transaction(_) | Self::Closed => false,
        }
    }
}

impl CommitError {
    /// What the caller should do. In doubt, the same producer settles it: `Retriable`.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::NotCommitted(error) => error.class(),
            Self::InDoubt { .. } => ErrorClass::Retriable,
            Self::OutcomeUnknown(_) => ErrorClass::ApplicationRecoverable,
            Self::Closed => ErrorClass::InvalidConfiguration,
        }
    }

    /// Whether it may be committed nonetheless.
    #[must_use]
    pub fn may_have_taken_effect(&self) -> bool {
        match self {
            Self::InDoubt { .. } | Self::OutcomeUnknown(_) => true,
            Self::NotCommitted(_) | Self::Closed => false,
        }
    }
}

impl AbortError {
    /// What the caller should do.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Transaction(error) => error.class(),
            Self::TimedOut { .. } => ErrorClass::Retriable,
            Self::Closed => ErrorClass::InvalidConfiguration,
        }
    }

    /// Whether the transaction may be committed: never.
    #[must_use]
    pub fn may_have_taken_effect(&self) -> bool {
        false
    }
}

impl ConsumerError {
    /// What the caller should do.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::NoOffset { .. }
            | Self::OffsetOutOfRange { .. }
            | Self::NotAssigned { .. }
            | Self::NoGroup
            | Self::WrongKind { .. }
            | Self::GroupProtocolNotOffered(_)
            | Self::Closed => ErrorClass::InvalidConfiguration,
            Self::Corrupt { .. } | Self::Fenced(_) | Self::CommitFailed(_) | Self::Unexpected { .. } => {
                ErrorClass::ApplicationRecoverable
            }
            Self::Refused(refusal) => refusal.class(),
            Self::TimedOut { .. } => ErrorClass::Retriable,
        }
    }

    /// Whether offsets may have been committed nonetheless. Reading changes nothing.
    #[must_use]
    pub fn may_have_taken_effect(&self) -> bool {
        match self {
            Self::TimedOut { .. } => true,
            Self::NoOffset { .. }
            | Self::OffsetOutOfRange { .. }
            | Self::NotAssigned { .. }
            | Self::NoGroup
            | Self::WrongKind { .. }
            | Self::Closed
            | Self::Corrupt { .. }
            | Self::Fenced(_)
            | Self::CommitFailed(_)
            | Self::Unexpected { .. }
            | Self::GroupProtocolNotOffered(_)
            | Self::Refused(_) => false,
        }
    }
}

impl AdminError {
    /// What the caller should do.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Refused { refusal, .. } => refusal.class(),
            Self::TimedOut { .. } => ErrorClass::Retriable,
            Self::Unsupported { .. } | Self::Closed => ErrorClass::InvalidConfiguration,
        }
    }

    /// Whether it may have happened nonetheless.
    #[must_use]
    pub fn may_have_taken_effect(&self) -> bool {
        match self {
            Self::TimedOut { may_have_taken_effect, .. } => *may_have_taken_effect,
            Self::Refused { .. } | Self::Unsupported { .. } | Self::Closed => false,
        }
    }
}

/// Writes the superset of all operations' errors.
macro_rules! superset {
    ($($(#[$doc:meta])* $name:ident($error:ident)),+ $(,)?) => {
        /// Any of this crate's errors.
        #[derive(Clone, Debug, PartialEq, Eq, ThisError)]
        #[non_exhaustive]
        pub enum Error {
            $($(#[$doc])* #[error(transparent)] $name(#[from] $error),)+
        }

        impl Error {
            /// What the caller should do.
            #[must_use]
            pub fn class(&self) -> ErrorClass {
                match self {
                    $(Self::$name(error) => error.class(),)+
                }
            }

            /// Whether the world may have changed nonetheless.
            #[must_use]
            pub fn may_have_taken_effect(&self) -> bool {
                match self {
                    $(Self::$name(error) => error.may_have_taken_effect(),)+
                }
            }
        }
    };
}

superset! {
    /// The cluster could not be reached.
    Connect(ConnectError),
    /// A producer could not be started.
    Start(StartError),
    /// A record was not taken, or not written.
    Send(SendError),
    /// Offsets were not taken into a transaction.
    SendOffsets(SendOffsetsError),
    /// A transaction was not begun.
    Begin(BeginError),
    /// A transaction was not seen to be committed.
    Commit(CommitError),
    /// A transaction was not seen to be aborted.
    Abort(AbortError),
    /// Reading, joining or committing failed.
    Consumer(ConsumerError),
    /// An administrator's call failed.
    Admin(AdminError),
}
