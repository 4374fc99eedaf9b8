//! The codes by which a broker says what went wrong: all that Apache Kafka 4.4 has.
//!
//! **What it does not know**: what a client should do about one. That depends on the operation.

use std::fmt;

macro_rules! error_codes {
    ($($(#[$attribute:meta])* $name:ident = $code:literal, $text:literal, $message:literal;)+) => {
        /// A broker's verdict. `None` is success.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(i16)]
        pub enum ErrorCode {
            $(
                #[doc = concat!("`", $text, "`: ", $message, ".")]
                $(#[$attribute])*
                $name = $code,
            )+
        }

        impl ErrorCode {
            /// All of them, by number.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The code of that number, if there is one.
            #[must_use]
            pub const fn from_i16(code: i16) -> Option<Self> {
                match code {
                    $($code => Some(Self::$name),)+
                    _ => None,
                }
            }

            /// The name in capitals, as Kafka's documentation has it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }

            /// What it means, in a few words without a full stop.
            #[must_use]
            pub const fn message(self) -> &'static str {
                match self {
                    $(Self::$name => $message,)+
                }
            }
        }
    };
}

impl ErrorCode {
    /// The number on the wire.
    #[must_use]
    pub const fn to_i16(self) -> i16 {
        self as i16
    }

    /// The code of that number; a code from a newer broker is taken for `UnknownServerError`, as Kafka's clients do.
    #[must_use]
    pub const fn from_wire(code: i16) -> Self {
        match Self::from_i16(code) {
            Some(known) => known,
            None => Self::UnknownServerError,
        }
    }

    /// Whether this is not `None`.
    #[must_use]
    pub const fn is_error(self) -> bool {
        !matches!(self, Self::None)
    }

    /// `Ok` for `None`.
    pub const fn into_result(self) -> Result<(), Self> {
        match Self::is_error(self) {
            true => Err(self),
            false => Ok(()),
        }
    }
}

impl From<ErrorCode> for i16 {
    fn from(code: ErrorCode) -> Self {
        code.to_i16()
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::error::Error for ErrorCode {}

error_codes! {
    UnknownServerError = -1, "UNKNOWN_SERVER_ERROR", "the broker failed in a way it has no code for";
    #[default]
    None = 0, "NONE", "no error";
    OffsetOutOfRange = 1, "OFFSET_OUT_OF_RANGE", "the partition does not have this offset";
    CorruptMessage = 2, "CORRUPT_MESSAGE", "a batch is damaged: wrong checksum or size, or no key where compaction needs one";
    UnknownTopicOrPartition = 3, "UNKNOWN_TOPIC_OR_PARTITION", "the broker does not have this partition";
    InvalidFetchSize = 4, "INVALID_FETCH_SIZE", "the size asked for is not one";
    LeaderNotAvailable = 5, "LEADER_NOT_AVAILABLE", "the partition has no leader now";
    NotLeaderOrFollower = 6, "NOT_LEADER_OR_FOLLOWER", "the broker does not lead, or does not hold, this partition";
    RequestTimedOut = 7, "REQUEST_TIMED_OUT", "the request took longer than it may";
    BrokerNotAvailable = 8, "BROKER_NOT_AVAILABLE", "the broker is not there";
    ReplicaNotAvailable = 9, "REPLICA_NOT_AVAILABLE", "the replica is not there";
    MessageTooLarge = 10, "MESSAGE_TOO_LARGE", "a batch is larger than the topic allows";
    StaleControllerEpoch = 11, "STALE_CONTROLLER_EPOCH", "the controller is another one by now";
    OffsetMetadataTooLarge = 12, "OFFSET_METADATA_TOO_LARGE", "the text committed with an offset is too long";
    NetworkException = 13, "NETWORK_EXCEPTION", "the connection ended before the answer";
    CoordinatorLoadInProgress = 14, "COORDINATOR_LOAD_IN_PROGRESS", "the coordinator is still reading its log";
    CoordinatorNotAvailable = 15, "COORDINATOR_NOT_AVAILABLE", "there is no coordinator now";
    NotCoordinator = 16, "NOT_COORDINATOR", "another broker coordinates this";
    InvalidTopicException = 17, "INVALID_TOPIC_EXCEPTION", "the topic's name is not allowed, or the topic may not be used so";
    RecordListTooLarge = 18, "RECORD_LIST_TOO_LARGE", "a batch is larger than a segment";
    NotEnoughReplicas = 19, "NOT_ENOUGH_REPLICAS", "too few replicas are in sync; nothing was written";
    NotEnoughReplicasAfterAppend = 20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "it was written, and too few replicas were in sync";
    InvalidRequiredAcks = 21, "INVALID_REQUIRED_ACKS", "acks must be -1, 0 or 1";
    IllegalGeneration = 22, "ILLEGAL_GENERATION", "the group's generation is another one";
    InconsistentGroupProtocol = 23, "INCONSISTENT_GROUP_PROTOCOL", "the member has no protocol in common with the group";
    InvalidGroupId = 24, "INVALID_GROUP_ID", "the group's name is not allowed";
    UnknownMemberId = 25, "UNKNOWN_MEMBER_ID", "the group does not have this member";
    InvalidSessionTimeout = 26, "INVALID_SESSION_TIMEOUT", "the session timeout is outside the broker's bounds";
    RebalanceInProgress = 27, "REBALANCE_IN_PROGRESS", "the group is rebalancing: join again";
    InvalidCommitOffsetSize = 28, "INVALID_COMMIT_OFFSET_SIZE", "the commit is too large";
    TopicAuthorizationFailed = 29, "TOPIC_AUTHORIZATION_FAILED", "not allowed on this topic";
    GroupAuthorizationFailed = 30, "GROUP_AUTHORIZATION_FAILED", "not allowed on this group";
    ClusterAuthorizationFailed = 31, "CLUSTER_AUTHORIZATION_FAILED", "not allowed on this cluster";
    InvalidTimestamp = 32, "INVALID_TIMESTAMP", "a timestamp is out of bounds";
    UnsupportedSaslMechanism = 33, "UNSUPPORTED_SASL_MECHANISM", "the broker does not have this SASL mechanism";
    IllegalSaslState = 34, "ILLEGAL_SASL_STATE", "the request does not fit the state of authentication";
    UnsupportedVersion = 35, "UNSUPPORTED_VERSION", "the broker does not speak this version of the API";
    TopicAlreadyExists = 36, "TOPIC_ALREADY_EXISTS", "there is a topic of this name";
    InvalidPartitions = 37, "INVALID_PARTITIONS", "the number of partitions is not allowed";
    InvalidReplicationFactor = 38, "INVALID_REPLICATION_FACTOR", "the replication factor is below 1 or above the number of brokers";
    InvalidReplicaAssignment = 39, "INVALID_REPLICA_ASSIGNMENT", "the assignment of replicas is not allowed";
    InvalidConfig = 40, "INVALID_CONFIG", "a setting is not allowed";
    NotController = 41, "NOT_CONTROLLER", "another broker is the controller";
    InvalidRequest = 42, "INVALID_REQUEST", "the request contradicts itself, or makes no sense to this broker";
    UnsupportedForMessageFormat = 43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", "the format of the records does not support this";
    PolicyViolation = 44, "POLICY_VIOLATION", "the cluster's policy forbids this";
    OutOfOrderSequenceNumber = 45, "OUT_OF_ORDER_SEQUENCE_NUMBER", "a batch does not continue the producer's sequence";
    DuplicateSequenceNumber = 46, "DUPLICATE_SEQUENCE_NUMBER", "the batch was written before";
    InvalidProducerEpoch = 47, "INVALID_PRODUCER_EPOCH", "the producer's epoch is old";
    InvalidTxnState = 48, "INVALID_TXN_STATE", "the transaction's state does not allow this";
    InvalidProducerIdMapping = 49, "INVALID_PRODUCER_ID_MAPPING", "the producer id is not that of this transactional id";
    InvalidTransactionTimeout = 50, "INVALID_TRANSACTION_TIMEOUT", "the transaction timeout is outside the broker's bounds";
    ConcurrentTransactions = 51, "CONCURRENT_TRANSACTIONS", "another operation on this transaction is not finished";
    TransactionCoordinatorFenced = 52, "TRANSACTION_COORDINATOR_FENCED", "a newer transaction coordinator has written here";
    TransactionalIdAuthorizationFailed = 53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "not allowed on this transactional id";
    SecurityDisabled = 54, "SECURITY_DISABLED", "the broker has no authorization";
    OperationNotAttempted = 55, "OPERATION_NOT_ATTEMPTED", "not tried, because another part of the request failed";
    KafkaStorageError = 56, "KAFKA_STORAGE_ERROR", "the broker cannot read or write its disk";
    LogDirNotFound = 57, "LOG_DIR_NOT_FOUND", "the broker does not have this log folder";
    SaslAuthenticationFailed = 58, "SASL_AUTHENTICATION_FAILED", "the credentials were refused";
    UnknownProducerId = 59, "UNKNOWN_PRODUCER_ID", "the partition has forgotten this producer";
    ReassignmentInProgress = 60, "REASSIGNMENT_IN_PROGRESS", "the partition is moving";
    DelegationTokenAuthDisabled = 61, "DELEGATION_TOKEN_AUTH_DISABLED", "delegation tokens are off";
    DelegationTokenNotFound = 62, "DELEGATION_TOKEN_NOT_FOUND", "there is no such delegation token";
    DelegationTokenOwnerMismatch = 63, "DELEGATION_TOKEN_OWNER_MISMATCH", "the delegation token belongs to another";
    DelegationTokenRequestNotAllowed = 64, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", "delegation tokens need an authenticated connection";
    DelegationTokenAuthorizationFailed = 65, "DELEGATION_TOKEN_AUTHORIZATION_FAILED", "not allowed on this delegation token";
    DelegationTokenExpired = 66, "DELEGATION_TOKEN_EXPIRED", "the delegation token has expired";
    InvalidPrincipalType = 67, "INVALID_PRINCIPAL_TYPE", "the principal is of no known kind";
    NonEmptyGroup = 68, "NON_EMPTY_GROUP", "the group has members";
    GroupIdNotFound = 69, "GROUP_ID_NOT_FOUND", "there is no such group";
    FetchSessionIdNotFound = 70, "FETCH_SESSION_ID_NOT_FOUND", "the broker has forgotten the fetch session";
    InvalidFetchSessionEpoch = 71, "INVALID_FETCH_SESSION_EPOCH", "the fetch session is at another epoch";
    ListenerNotFound = 72, "LISTENER_NOT_FOUND", "the leader does not have this listener";
    TopicDeletionDisabled = 73, "TOPIC_DELETION_DISABLED", "topics may not be deleted";
    FencedLeaderEpoch = 74, "FENCED_LEADER_EPOCH", "the leader epoch is older than the broker's";
    UnknownLeaderEpoch = 75, "UNKNOWN_LEADER_EPOCH", "the leader epoch is newer than the broker's";
    UnsupportedCompressionType = 76, "UNSUPPORTED_COMPRESSION_TYPE", "the version does not allow this compression";
    StaleBrokerEpoch = 77, "STALE_BROKER_EPOCH", "the broker has registered again since";
    OffsetNotAvailable = 78, "OFFSET_NOT_AVAILABLE", "the new leader does not know its high watermark yet";
    MemberIdRequired = 79, "MEMBER_ID_REQUIRED", "join again with the member id in this answer";
    PreferredLeaderNotAvailable = 80, "PREFERRED_LEADER_NOT_AVAILABLE", "the preferred leader is not there";
    GroupMaxSizeReached = 81, "GROUP_MAX_SIZE_REACHED", "the group is full";
    FencedInstanceId = 82, "FENCED_INSTANCE_ID", "another member has taken this group.instance.id";
    EligibleLeadersNotAvailable = 83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", "no replica may lead";
    ElectionNotNeeded = 84, "ELECTION_NOT_NEEDED", "the leader is the right one";
    NoReassignmentInProgress = 85, "NO_REASSIGNMENT_IN_PROGRESS", "the partition is not moving";
    GroupSubscribedToTopic = 86, "GROUP_SUBSCRIBED_TO_TOPIC", "the group still reads this topic";
    InvalidRecord = 87, "INVALID_RECORD", "a record is not allowed here";
    UnstableOffsetCommit = 88, "UNSTABLE_OFFSET_COMMIT", "offsets of an open transaction are pending";
    ThrottlingQuotaExceeded = 89, "THROTTLING_QUOTA_EXCEEDED", "the quota is used up";
    ProducerFenced = 90, "PRODUCER_FENCED", "a newer producer has this transactional id";
    ResourceNotFound = 91, "RESOURCE_NOT_FOUND", "the resource does not exist";
    DuplicateResource = 92, "DUPLICATE_RESOURCE", "the resource stands twice in the request";
    UnacceptableCredential = 93, "UNACCEPTABLE_CREDENTIAL", "the credential does not meet the rules";
    InconsistentVoterSet = 94, "INCONSISTENT_VOTER_SET", "one of the two is not a voter";
    InvalidUpdateVersion = 95, "INVALID_UPDATE_VERSION", "the update's version is not allowed";
    FeatureUpdateFailed = 96, "FEATURE_UPDATE_FAILED", "the feature's level was not changed";
    PrincipalDeserializationFailure = 97, "PRINCIPAL_DESERIALIZATION_FAILURE", "the forwarded principal cannot be read";
    SnapshotNotFound = 98, "SNAPSHOT_NOT_FOUND", "there is no such snapshot";
    PositionOutOfRange = 99, "POSITION_OUT_OF_RANGE", "the position is outside the snapshot";
    UnknownTopicId = 100, "UNKNOWN_TOPIC_ID", "the broker does not have a topic with this id";
    DuplicateBrokerRegistration = 101, "DUPLICATE_BROKER_REGISTRATION", "another broker has this id";
    BrokerIdNotRegistered = 102, "BROKER_ID_NOT_REGISTERED", "no broker has registered with this id";
    InconsistentTopicId = 103, "INCONSISTENT_TOPIC_ID", "the log belongs to another topic id";
    InconsistentClusterId = 104, "INCONSISTENT_CLUSTER_ID", "this is another cluster";
    TransactionalIdNotFound = 105, "TRANSACTIONAL_ID_NOT_FOUND", "the coordinator does not know this transactional id";
    FetchSessionTopicIdError = 106, "FETCH_SESSION_TOPIC_ID_ERROR", "the fetch session mixes topics with and without ids";
    IneligibleReplica = 107, "INELIGIBLE_REPLICA", "a replica may not be in sync now";
    NewLeaderElected = 108, "NEW_LEADER_ELECTED", "done, and the leader is another one now";
    OffsetMovedToTieredStorage = 109, "OFFSET_MOVED_TO_TIERED_STORAGE", "the offset is in tiered storage";
    FencedMemberEpoch = 110, "FENCED_MEMBER_EPOCH", "the coordinator has fenced the member: give all partitions up and join again";
    UnreleasedInstanceId = 111, "UNRELEASED_INSTANCE_ID", "another member still has this instance id";
    UnsupportedAssignor = 112, "UNSUPPORTED_ASSIGNOR", "the group does not have this assignor";
    StaleMemberEpoch = 113, "STALE_MEMBER_EPOCH", "the member's epoch has risen: ask again with the new one";
    MismatchedEndpointType = 114, "MISMATCHED_ENDPOINT_TYPE", "this endpoint is of the other kind";
    UnsupportedEndpointType = 115, "UNSUPPORTED_ENDPOINT_TYPE", "there is no endpoint of this kind";
    UnknownControllerId = 116, "UNKNOWN_CONTROLLER_ID", "there is no controller with this id";
    UnknownSubscriptionId = 117, "UNKNOWN_SUBSCRIPTION_ID", "the telemetry subscription is old";
    TelemetryTooLarge = 118, "TELEMETRY_TOO_LARGE", "the telemetry is too large";
    InvalidRegistration = 119, "INVALID_REGISTRATION", "the controller refused the broker";
    TransactionAbortable = 120, "TRANSACTION_ABORTABLE", "the transaction can only be aborted; the producer may go on after that";
    InvalidRecordState = 121, "INVALID_RECORD_STATE", "the record cannot be acknowledged any more";
    ShareSessionNotFound = 122, "SHARE_SESSION_NOT_FOUND", "the broker has forgotten the share session";
    InvalidShareSessionEpoch = 123, "INVALID_SHARE_SESSION_EPOCH", "the share session is at another epoch";
    FencedStateEpoch = 124, "FENCED_STATE_EPOCH", "the state's epoch is another one";
    InvalidVoterKey = 125, "INVALID_VOTER_KEY", "the voter's key is not that of this replica";
    DuplicateVoter = 126, "DUPLICATE_VOTER", "it is a voter already";
    VoterNotFound = 127, "VOTER_NOT_FOUND", "it is no voter";
    InvalidRegularExpression = 128, "INVALID_REGULAR_EXPRESSION", "the regular expression cannot be read";
    RebootstrapRequired = 129, "REBOOTSTRAP_REQUIRED", "what the client knows of the cluster is old: begin again at the bootstrap servers";
    StreamsInvalidTopology = 130, "STREAMS_INVALID_TOPOLOGY", "the topology is not allowed";
    StreamsInvalidTopologyEpoch = 131, "STREAMS_INVALID_TOPOLOGY_EPOCH", "the topology's epoch is not allowed";
    StreamsTopologyFenced = 132, "STREAMS_TOPOLOGY_FENCED", "the topology's epoch is old";
    ShareSessionLimitReached = 133, "SHARE_SESSION_LIMIT_REACHED", "the broker has no room for another share session";
    GroupDeletionFailed = 134, "GROUP_DELETION_FAILED", "the group was not deleted; its own message says why";
    StreamsTopologyDescriptionUpdateFailed = 135, "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED", "the topology's description was not taken; the message says why";
    ControllerIdNotRegistered = 136, "CONTROLLER_ID_NOT_REGISTERED", "no controller has registered with this id";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_go_to_the_wire_and_back_without_gaps() {
        for (code, expected) in ErrorCode::ALL.iter().zip(-1..) {
            assert_eq!(code.to_i16(), expected);
            assert_eq!(ErrorCode::from_i16(expected), Some(*code));
        }
        assert_eq!(ErrorCode::from_i16(-2), None);
        assert_eq!(ErrorCode::from_wire(9999), ErrorCode::UnknownServerError);
        assert_eq!(ErrorCode::default(), ErrorCode::None);
        assert_eq!(ErrorCode::InvalidTxnState.to_string(), "INVALID_TXN_STATE");
    }
}
