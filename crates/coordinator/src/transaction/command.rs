//! What can be asked of the transaction coordinator, and what it answers.
//!
//! A command has the fields of its request and the request's version, since older clients know fewer error codes
//! ([`Caller`]). Nothing here decides: each command has a file of its own that does.

use std::collections::BTreeSet;

use atonce_kernel::{Offset, Outcome, ProducerIdentity, TopicName, TopicPartition, TransactionalId};
use atonce_protocol::ErrorCode;

use super::state::Protocol;
use crate::Waiter;

/// A request, or news from the world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// A producer presents itself.
    InitProducerId(InitProducerId),
    /// Partitions join a transaction: on request, or because they are being written to (v2).
    AddPartitions(AddPartitions),
    /// Are these partitions in the transaction? Asked before writing to them in v1; changes nothing.
    VerifyPartitions(VerifyPartitions),
    /// A producer ends its transaction.
    EndTxn(EndTxn),
    /// Markers that were owed have been written.
    MarkersWritten(MarkersReport),
    /// Markers that were owed cannot be written any more: there is no such partition.
    PartitionsGone(MarkersReport),
    /// A topic was deleted. Open transactions forget it, so that a new one of that name inherits nothing.
    TopicDeleted(TopicName),
    /// Nobody waits for this answer any more: the connection is gone.
    WaiterGone(Waiter),
    /// Time has passed. Serves the one id whose deadline is the earliest, if it is due.
    Tick,
    /// The log lost records that were acknowledged: nobody may go on under this id who did before.
    Renew(TransactionalId),
}

/// `InitProducerId` (key 22).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InitProducerId {
    /// The version of the request.
    pub version: i16,
    /// `None`: an idempotent producer without transactions, which any shard serves.
    pub transactional_id: Option<TransactionalId>,
    /// How long each transaction may stay open.
    pub transaction_timeout_ms: i32,
    /// Who the producer was so far; both fields `-1` if it begins anew. From version 3.
    pub expected: ProducerIdentity,
    /// Whether a transaction may stay prepared for an outside coordinator (KIP-939). From version 6.
    pub enable_two_phase_commit: bool,
    /// Whether a prepared transaction is to be taken over (KIP-939). From version 6.
    pub keep_prepared_transaction: bool,
}

/// `AddPartitionsToTxn` (key 24, one transaction of it) and all else that adds partitions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AddPartitions {
    /// Which request, in which version.
    pub caller: Caller,
    /// Whose transaction.
    pub transactional_id: TransactionalId,
    /// Who adds.
    pub producer: ProducerIdentity,
    /// The partitions, with what the host knows of each.
    pub partitions: Vec<(TopicPartition, Admission)>,
}

/// What the host knows of a partition that a client names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Admission {
    /// It is there.
    Exists,
    /// There is no such topic, or it has no such partition.
    Unknown,
    /// The client may not write to it.
    Unauthorized,
}

/// The question behind a write in v1: `AddPartitionsToTxn` with `verify_only`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VerifyPartitions {
    /// Which request, in which version.
    pub caller: Caller,
    /// Whose transaction.
    pub transactional_id: TransactionalId,
    /// Who writes.
    pub producer: ProducerIdentity,
    /// Where to.
    pub partitions: Vec<TopicPartition>,
}

/// `EndTxn` (key 26).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EndTxn {
    /// The version of the request; from 5 the producer speaks protocol v2.
    pub version: i16,
    /// Whose transaction.
    pub transactional_id: TransactionalId,
    /// Who ends it.
    pub producer: ProducerIdentity,
    /// How.
    pub outcome: Outcome,
}

impl EndTxn {
    /// The protocol that the client speaks.
    pub(super) fn protocol(&self) -> Protocol {
        if self.version >= 5 { Protocol::V2 } else { Protocol::V1 }
    }
}

/// What became of markers that were owed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MarkersReport {
    /// Whose transaction.
    pub transactional_id: TransactionalId,
    /// Which of its transactions: [`Obligation::prepared_at`]. A late report on an earlier one says nothing of this.
    pub prepared_at: Offset,
    /// Where.
    pub partitions: Vec<TopicPartition>,
}

/// Markers owed for one transaction: to every partition named here write that it ended so.
///
/// No partitions: nothing is left to be written, only to be reported, with no partitions either.
/// Retry: writing a marker twice is harmless; after a crash all are owed again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Obligation {
    /// Whose transaction.
    pub transactional_id: TransactionalId,
    /// Names this transaction in [`MarkersReport`]: where the decision stands in the shard's log.
    pub prepared_at: Offset,
    /// What the markers carry; in v2 an epoch above that of the transaction's records.
    pub producer: ProducerIdentity,
    /// Which kind of marker.
    pub outcome: Outcome,
    /// In v2 a partition refuses a marker whose epoch is not above the one it knows (KIP-1228).
    pub protocol: Protocol,
    /// Where.
    pub partitions: BTreeSet<TopicPartition>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// To [`Command::InitProducerId`]: who the producer is from now on.
    InitProducerId(Result<ProducerIdentity, ErrorCode>),
    /// To [`Command::AddPartitions`] and [`Command::VerifyPartitions`]: for each partition, in the order asked.
    Partitions(Vec<(TopicPartition, ErrorCode)>),
    /// To [`Command::EndTxn`]: under whom the next transaction begins, which version 5 tells the producer.
    EndTxn(Result<ProducerIdentity, ErrorCode>),
}

/// Which request asks for partitions, and hence how a refusal is put.
///
/// The coordinator thinks in the newest codes. `Caller` alone knows what older clients can make sense of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Caller {
    /// `AddPartitionsToTxn` (key 24).
    AddPartitionsToTxn {
        /// Of the request.
        version: i16,
    },
    /// `AddOffsetsToTxn` (key 25).
    AddOffsetsToTxn {
        /// Of the request.
        version: i16,
    },
    /// `Produce` (key 0); from version 12 writing adds the partition.
    Produce {
        /// Of the request.
        version: i16,
    },
    /// `TxnOffsetCommit` (key 28); from version 5 writing adds the partition.
    TxnOffsetCommit {
        /// Of the request.
        version: i16,
    },
}

impl Caller {
    /// The protocol that a client speaks who sends this.
    ///
    /// Source: KIP-890 part 2 (the versions from which partitions are added implicitly). `AddPartitionsToTxn` from
    /// version 4 is spoken by brokers, on behalf of clients who write in v2; `AddOffsetsToTxn` has no v2.
    #[must_use]
    pub fn protocol(self) -> Protocol {
        let first_of_v2 = match self {
            Self::AddPartitionsToTxn { version } => version >= 4,
            Self::AddOffsetsToTxn { .. } => false,
            Self::Produce { version } => version >= 12,
            Self::TxnOffsetCommit { version } => version >= 5,
        };
        if first_of_v2 { Protocol::V2 } else { Protocol::V1 }
    }

    /// Whether a client names the partitions, and not a broker those that are being written to. Clients name topics of
    /// their own; the offsets topic joins through `AddOffsetsToTxn` only.
    pub(super) fn is_client_naming_partitions(self) -> bool {
        match self {
            Self::AddPartitionsToTxn { version } => version < 4,
            Self::AddOffsetsToTxn { .. } | Self::Produce { .. } | Self::TxnOffsetCommit { .. } => false,
        }
    }

    /// How `error` is put to this client.
    ///
    /// Source: KIP-588 (`PRODUCER_FENCED` from version 2 of the transaction requests), KIP-890 part 1 (writers: a
    /// fenced one hears `INVALID_PRODUCER_EPOCH`, `TRANSACTION_ABORTABLE` came with Produce 11 and TxnOffsetCommit 4).
    #[must_use]
    pub fn put(self, error: ErrorCode) -> ErrorCode {
        match self {
            Self::AddPartitionsToTxn { version } | Self::AddOffsetsToTxn { version } => {
                put_to_client(version, 2, error)
            }
            Self::Produce { version } => self.put_to_writer(version >= 11, ErrorCode::NotEnoughReplicas, error),
            Self::TxnOffsetCommit { version } => {
                self.put_to_writer(version >= 4, ErrorCode::CoordinatorNotAvailable, error)
            }
        }
    }

    fn put_to_writer(self, knows_abortable: bool, try_again: ErrorCode, error: ErrorCode) -> ErrorCode {
        if error == ErrorCode::ProducerFenced {
            ErrorCode::InvalidProducerEpoch
        } else if error == ErrorCode::TransactionAbortable && !knows_abortable {
            ErrorCode::InvalidTxnState
        } else if error == ErrorCode::ConcurrentTransactions && self.protocol() == Protocol::V1 {
            try_again
        } else {
            error
        }
    }
}

/// `PRODUCER_FENCED` as clients before version `since` know it.
///
/// Source: KIP-588.
pub(super) fn put_to_client(version: i16, since: i16, error: ErrorCode) -> ErrorCode {
    if error == ErrorCode::ProducerFenced && version < since { ErrorCode::InvalidProducerEpoch } else { error }
}
