//! The one table of error classes: what a client does about each code, for each operation.
//!
//! **What it does not know**: how often to try, and how long to wait: that is the machines'. Nor whether a refusal is
//! final for the transaction at hand: the transaction manager asks further before it believes that it is fenced.
//!
//! The table is a base row, which says what a code means wherever it turns up, and exceptions by operation. The whole
//! product of both stands in `testdata/error_classes.txt`, and a test compares.
//!
//! Source: KIP-1050 for the classes; Kafka's clients for the rows.

use std::fmt;

use atonce_protocol::ErrorCode;

use crate::error::ErrorClass;

/// What was asked when the code came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Opening a connection and agreeing on versions.
    ApiVersions,
    /// Asking for topics and brokers.
    Metadata,
    /// Asking for a coordinator.
    FindCoordinator,
    /// Writing records.
    Produce,
    /// Getting a producer id.
    InitProducerId,
    /// Adding partitions to a transaction.
    AddPartitionsToTxn,
    /// Adding a group to a transaction.
    AddOffsetsToTxn,
    /// Sending offsets into a transaction.
    TxnOffsetCommit,
    /// Ending a transaction.
    EndTxn,
    /// Reading records.
    Fetch,
    /// Looking offsets up.
    ListOffsets,
    /// Committing offsets.
    OffsetCommit,
    /// Reading committed offsets.
    OffsetFetch,
    /// Joining a group.
    JoinGroup,
    /// Getting an assignment.
    SyncGroup,
    /// Saying "I live" to a group.
    Heartbeat,
    /// Leaving a group.
    LeaveGroup,
    /// Being a member of a group of the consumer protocol (KIP-848).
    ConsumerGroupHeartbeat,
    /// An administrator's call.
    Admin,
}

impl Operation {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::ApiVersions,
        Self::Metadata,
        Self::FindCoordinator,
        Self::Produce,
        Self::InitProducerId,
        Self::AddPartitionsToTxn,
        Self::AddOffsetsToTxn,
        Self::TxnOffsetCommit,
        Self::EndTxn,
        Self::Fetch,
        Self::ListOffsets,
        Self::OffsetCommit,
        Self::OffsetFetch,
        Self::JoinGroup,
        Self::SyncGroup,
        Self::Heartbeat,
        Self::LeaveGroup,
        Self::ConsumerGroupHeartbeat,
        Self::Admin,
    ];

    /// Kafka's name of the request.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ApiVersions => "ApiVersions",
            Self::Metadata => "Metadata",
            Self::FindCoordinator => "FindCoordinator",
            Self::Produce => "Produce",
            Self::InitProducerId => "InitProducerId",
            Self::AddPartitionsToTxn => "AddPartitionsToTxn",
            Self::AddOffsetsToTxn => "AddOffsetsToTxn",
            Self::TxnOffsetCommit => "TxnOffsetCommit",
            Self::EndTxn => "EndTxn",
            Self::Fetch => "Fetch",
            Self::ListOffsets => "ListOffsets",
            Self::OffsetCommit => "OffsetCommit",
            Self::OffsetFetch => "OffsetFetch",
            Self::JoinGroup => "JoinGroup",
            Self::SyncGroup => "SyncGroup",
            Self::Heartbeat => "Heartbeat",
            Self::LeaveGroup => "LeaveGroup",
            Self::ConsumerGroupHeartbeat => "ConsumerGroupHeartbeat",
            Self::Admin => "Admin",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the client does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// It is done: no error, or what was asked for is so already.
    Done,
    /// Ask the same broker again, a little later.
    Retry,
    /// Look up the leader or the coordinator, then ask again.
    RefreshThenRetry,
    /// Abort the transaction.
    Abort,
    /// Get a new producer identity, or join the group again: this one is finished.
    Reinitialize,
    /// Tell the user.
    Fatal,
}

impl Verdict {
    /// The class that the user is told, should the client give up.
    #[must_use]
    pub const fn class(self, code: ErrorCode) -> ErrorClass {
        match self {
            Self::Done | Self::Retry => ErrorClass::Retriable,
            Self::RefreshThenRetry => ErrorClass::RefreshRetriable,
            Self::Abort => ErrorClass::Abortable,
            Self::Reinitialize => ErrorClass::ApplicationRecoverable,
            Self::Fatal if is_of_the_broker(code) => ErrorClass::ApplicationRecoverable,
            Self::Fatal => ErrorClass::InvalidConfiguration,
        }
    }
}

/// Whether it is the broker that failed, and not what was asked.
const fn is_of_the_broker(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::UnknownServerError | ErrorCode::CorruptMessage | ErrorCode::KafkaStorageError)
}

/// What to do about `code`, as the answer to `operation`.
///
/// ```
/// use atonce_client_core::classify::{Operation, Verdict, classify};
/// use atonce_protocol::ErrorCode;
///
/// assert_eq!(classify(Operation::Produce, ErrorCode::NotLeaderOrFollower), Verdict::RefreshThenRetry);
/// assert_eq!(classify(Operation::Produce, ErrorCode::DuplicateSequenceNumber), Verdict::Done);
/// assert_eq!(classify(Operation::TxnOffsetCommit, ErrorCode::IllegalGeneration), Verdict::Abort);
/// ```
#[must_use]
pub fn classify(operation: Operation, code: ErrorCode) -> Verdict {
    let exception =
        EXCEPTIONS.iter().find(|(code_of, operations, _)| *code_of == code && operations.contains(&operation));
    exception.map_or_else(|| base(code), |(_, _, verdict)| *verdict)
}

use Operation::{
    AddOffsetsToTxn, AddPartitionsToTxn, Admin, ConsumerGroupHeartbeat, EndTxn, Fetch, Heartbeat, InitProducerId,
    JoinGroup, LeaveGroup, ListOffsets, Metadata, OffsetCommit, OffsetFetch, Produce, SyncGroup, TxnOffsetCommit,
};

/// Where an operation differs from the base row, and why.
const EXCEPTIONS: &[(ErrorCode, &[Operation], Verdict)] = &[
    // The batch is in the log already: that is what was asked for (KIP-98).
    (ErrorCode::DuplicateSequenceNumber, &[Produce], Verdict::Done),
    // A zombie's record, or one that came after a time-out: aborting finds out which (KIP-588).
    (ErrorCode::InvalidProducerEpoch, &[Produce], Verdict::Abort),
    (ErrorCode::InvalidTxnState, &[Produce, TxnOffsetCommit], Verdict::Abort),
    (ErrorCode::OutOfOrderSequenceNumber, &[Produce], Verdict::Abort),
    (ErrorCode::UnknownProducerId, &[Produce, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn], Verdict::Abort),
    // Not allowed on a topic or a group: the rest of the transaction's life is well after an abort.
    (ErrorCode::TopicAuthorizationFailed, &[Produce, AddPartitionsToTxn, TxnOffsetCommit], Verdict::Abort),
    (ErrorCode::GroupAuthorizationFailed, &[AddOffsetsToTxn, TxnOffsetCommit], Verdict::Abort),
    (ErrorCode::OperationNotAttempted, &[AddPartitionsToTxn], Verdict::Retry),
    // The group has moved on; the producer has not.
    (ErrorCode::IllegalGeneration, &[TxnOffsetCommit], Verdict::Abort),
    (ErrorCode::UnknownMemberId, &[TxnOffsetCommit], Verdict::Abort),
    (ErrorCode::FencedInstanceId, &[TxnOffsetCommit], Verdict::Abort),
    (ErrorCode::StaleMemberEpoch, &[TxnOffsetCommit], Verdict::Abort),
    (ErrorCode::GroupIdNotFound, &[TxnOffsetCommit], Verdict::Abort),
    (ErrorCode::RebalanceInProgress, &[TxnOffsetCommit], Verdict::Abort),
    (ErrorCode::OffsetMetadataTooLarge, &[TxnOffsetCommit], Verdict::Abort),
    // A coordinator that timed out may have moved.
    (ErrorCode::RequestTimedOut, &[TxnOffsetCommit, EndTxn, InitProducerId], Verdict::RefreshThenRetry),
    (ErrorCode::UnknownServerError, &[Fetch, ListOffsets, Metadata, OffsetFetch], Verdict::Retry),
    // That leader is not in the epoch that we believe in: it has not heard of it yet, or it never was.
    (ErrorCode::UnknownLeaderEpoch, &[Fetch, ListOffsets], Verdict::RefreshThenRetry),
    // The position is not in the log: the reset policy decides.
    (ErrorCode::OffsetOutOfRange, &[Fetch], Verdict::Reinitialize),
    // Join again: with what the answer says, as a new member, or because the group asks for it.
    (ErrorCode::MemberIdRequired, &[JoinGroup], Verdict::Retry),
    (ErrorCode::RebalanceInProgress, &[JoinGroup], Verdict::Retry),
    (
        ErrorCode::FencedInstanceId,
        &[JoinGroup, SyncGroup, Heartbeat, OffsetCommit, LeaveGroup, ConsumerGroupHeartbeat],
        Verdict::Fatal,
    ),
    // Who leaves a group that does not have it has left it.
    (ErrorCode::UnknownMemberId, &[LeaveGroup], Verdict::Done),
    (ErrorCode::StaleMemberEpoch, &[OffsetFetch], Verdict::Retry),
    // An administrator names things that may not be there: asking again does not make them.
    (ErrorCode::UnknownTopicOrPartition, &[Admin], Verdict::Fatal),
    (ErrorCode::UnknownTopicId, &[Admin], Verdict::Fatal),
    (ErrorCode::UnknownMemberId, &[Admin], Verdict::Fatal),
    (ErrorCode::FencedInstanceId, &[Admin], Verdict::Fatal),
];

/// What a code means wherever it turns up.
#[expect(clippy::too_many_lines, reason = "one flat match that lists all codes")]
const fn base(code: ErrorCode) -> Verdict {
    match code {
        ErrorCode::None => Verdict::Done,

        ErrorCode::CorruptMessage
        | ErrorCode::RequestTimedOut
        | ErrorCode::NetworkException
        | ErrorCode::ReplicaNotAvailable
        | ErrorCode::CoordinatorLoadInProgress
        | ErrorCode::NotEnoughReplicas
        | ErrorCode::NotEnoughReplicasAfterAppend
        | ErrorCode::ConcurrentTransactions
        | ErrorCode::FetchSessionIdNotFound
        | ErrorCode::InvalidFetchSessionEpoch
        | ErrorCode::UnknownLeaderEpoch
        | ErrorCode::OffsetNotAvailable
        | ErrorCode::PreferredLeaderNotAvailable
        | ErrorCode::EligibleLeadersNotAvailable
        | ErrorCode::UnstableOffsetCommit
        | ErrorCode::ThrottlingQuotaExceeded
        | ErrorCode::OffsetMovedToTieredStorage
        | ErrorCode::UnreleasedInstanceId
        | ErrorCode::ReassignmentInProgress
        | ErrorCode::ShareSessionNotFound
        | ErrorCode::InvalidShareSessionEpoch
        | ErrorCode::ShareSessionLimitReached => Verdict::Retry,

        ErrorCode::UnknownTopicOrPartition
        | ErrorCode::LeaderNotAvailable
        | ErrorCode::NotLeaderOrFollower
        | ErrorCode::BrokerNotAvailable
        | ErrorCode::StaleControllerEpoch
        | ErrorCode::CoordinatorNotAvailable
        | ErrorCode::NotCoordinator
        | ErrorCode::NotController
        | ErrorCode::KafkaStorageError
        | ErrorCode::ListenerNotFound
        | ErrorCode::FencedLeaderEpoch
        | ErrorCode::StaleBrokerEpoch
        | ErrorCode::UnknownTopicId
        | ErrorCode::InconsistentTopicId
        | ErrorCode::FetchSessionTopicIdError
        | ErrorCode::NewLeaderElected
        | ErrorCode::RebootstrapRequired => Verdict::RefreshThenRetry,

        ErrorCode::TransactionAbortable => Verdict::Abort,

        ErrorCode::IllegalGeneration
        | ErrorCode::UnknownMemberId
        | ErrorCode::RebalanceInProgress
        | ErrorCode::OutOfOrderSequenceNumber
        | ErrorCode::InvalidProducerEpoch
        | ErrorCode::InvalidTxnState
        | ErrorCode::InvalidProducerIdMapping
        | ErrorCode::UnknownProducerId
        | ErrorCode::MemberIdRequired
        | ErrorCode::FencedInstanceId
        | ErrorCode::ProducerFenced
        | ErrorCode::FencedMemberEpoch
        | ErrorCode::StaleMemberEpoch => Verdict::Reinitialize,

        ErrorCode::UnknownServerError
        | ErrorCode::OffsetOutOfRange
        | ErrorCode::InvalidFetchSize
        | ErrorCode::MessageTooLarge
        | ErrorCode::OffsetMetadataTooLarge
        | ErrorCode::InvalidTopicException
        | ErrorCode::RecordListTooLarge
        | ErrorCode::InvalidRequiredAcks
        | ErrorCode::InconsistentGroupProtocol
        | ErrorCode::InvalidGroupId
        | ErrorCode::InvalidSessionTimeout
        | ErrorCode::InvalidCommitOffsetSize
        | ErrorCode::TopicAuthorizationFailed
        | ErrorCode::GroupAuthorizationFailed
        | ErrorCode::ClusterAuthorizationFailed
        | ErrorCode::InvalidTimestamp
        | ErrorCode::UnsupportedSaslMechanism
        | ErrorCode::IllegalSaslState
        | ErrorCode::UnsupportedVersion
        | ErrorCode::TopicAlreadyExists
        | ErrorCode::InvalidPartitions
        | ErrorCode::InvalidReplicationFactor
        | ErrorCode::InvalidReplicaAssignment
        | ErrorCode::InvalidConfig
        | ErrorCode::InvalidRequest
        | ErrorCode::UnsupportedForMessageFormat
        | ErrorCode::PolicyViolation
        | ErrorCode::DuplicateSequenceNumber
        | ErrorCode::InvalidTransactionTimeout
        | ErrorCode::TransactionCoordinatorFenced
        | ErrorCode::TransactionalIdAuthorizationFailed
        | ErrorCode::SecurityDisabled
        | ErrorCode::OperationNotAttempted
        | ErrorCode::LogDirNotFound
        | ErrorCode::SaslAuthenticationFailed
        | ErrorCode::DelegationTokenAuthDisabled
        | ErrorCode::DelegationTokenNotFound
        | ErrorCode::DelegationTokenOwnerMismatch
        | ErrorCode::DelegationTokenRequestNotAllowed
        | ErrorCode::DelegationTokenAuthorizationFailed
        | ErrorCode::DelegationTokenExpired
        | ErrorCode::InvalidPrincipalType
        | ErrorCode::NonEmptyGroup
        | ErrorCode::GroupIdNotFound
        | ErrorCode::TopicDeletionDisabled
        | ErrorCode::UnsupportedCompressionType
        | ErrorCode::GroupMaxSizeReached
        | ErrorCode::ElectionNotNeeded
        | ErrorCode::NoReassignmentInProgress
        | ErrorCode::GroupSubscribedToTopic
        | ErrorCode::InvalidRecord
        | ErrorCode::ResourceNotFound
        | ErrorCode::DuplicateResource
        | ErrorCode::UnacceptableCredential
        | ErrorCode::InconsistentVoterSet
        | ErrorCode::InvalidUpdateVersion
        | ErrorCode::FeatureUpdateFailed
        | ErrorCode::PrincipalDeserializationFailure
        | ErrorCode::SnapshotNotFound
        | ErrorCode::PositionOutOfRange
        | ErrorCode::DuplicateBrokerRegistration
        | ErrorCode::BrokerIdNotRegistered
        | ErrorCode::InconsistentClusterId
        | ErrorCode::TransactionalIdNotFound
        | ErrorCode::IneligibleReplica
        | ErrorCode::UnsupportedAssignor
        | ErrorCode::MismatchedEndpointType
        | ErrorCode::UnsupportedEndpointType
        | ErrorCode::UnknownControllerId
        | ErrorCode::UnknownSubscriptionId
        | ErrorCode::TelemetryTooLarge
        | ErrorCode::InvalidRegistration
        | ErrorCode::InvalidRecordState
        | ErrorCode::FencedStateEpoch
        | ErrorCode::InvalidVoterKey
        | ErrorCode::DuplicateVoter
        | ErrorCode::VoterNotFound
        | ErrorCode::InvalidRegularExpression
        | ErrorCode::StreamsInvalidTopology
        | ErrorCode::StreamsInvalidTopologyEpoch
        | ErrorCode::StreamsTopologyFenced
        | ErrorCode::GroupDeletionFailed
        | ErrorCode::StreamsTopologyDescriptionUpdateFailed
        | ErrorCode::ControllerIdNotRegistered => Verdict::Fatal,
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    /// One line per code: its verdict for each operation that differs from most, then the most common one.
    fn table() -> String {
        let mut text = String::new();
        for code in ErrorCode::ALL {
            write!(text, "{:<45}", code.name()).expect("writes to a string");
            for operation in Operation::ALL {
                let letter = match classify(*operation, *code) {
                    Verdict::Done => '.',
                    Verdict::Retry => 'r',
                    Verdict::RefreshThenRetry => 'R',
                    Verdict::Abort => 'A',
                    Verdict::Reinitialize => 'I',
                    Verdict::Fatal => 'F',
                };
                write!(text, " {letter}").expect("writes to a string");
            }
            text.push('\n');
        }
        text
    }

    /// Regenerate with `ATONCE_REGENERATE=1`, and review the difference.
    #[test]
    fn every_code_has_a_verdict_for_every_operation() {
        let mut expected =
            String::from("# . done, r retry, R refresh then retry, A abort, I reinitialize, F fatal. Columns:\n#");
        for operation in Operation::ALL {
            write!(expected, " {operation}").expect("writes to a string");
        }
        expected.push('\n');
        expected.push_str(&table());
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/error_classes.txt");
        if std::env::var_os("ATONCE_REGENERATE").is_some() {
            std::fs::write(path, &expected).expect("the table is written");
        }
        let kept = std::fs::read_to_string(path).expect("testdata/error_classes.txt is there");
        assert_eq!(kept, expected);
    }

    #[test]
    fn no_exception_repeats_the_base_row_or_another_exception() {
        for (place, (code, operations, verdict)) in EXCEPTIONS.iter().enumerate() {
            assert_ne!(base(*code), *verdict, "{code} needs no exception");
            for (other_code, others, _) in &EXCEPTIONS[..place] {
                assert!(
                    code != other_code || !others.iter().any(|other| operations.contains(other)),
                    "{code} has two exceptions for one operation"
                );
            }
        }
    }
}
