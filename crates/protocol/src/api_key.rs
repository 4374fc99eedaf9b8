//! The APIs by key, their versions and their headers.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.

use std::fmt;
use std::ops::RangeInclusive;

/// What can be asked of a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i16)]
pub enum ApiKey {
    /// Versions 3-13.
    Produce = 0,
    /// Versions 4-18.
    Fetch = 1,
    /// Versions 1-11.
    ListOffsets = 2,
    /// Versions 0-13.
    Metadata = 3,
    /// Versions 2-10.
    OffsetCommit = 8,
    /// Versions 1-10.
    OffsetFetch = 9,
    /// Versions 0-6.
    FindCoordinator = 10,
    /// Versions 0-9.
    JoinGroup = 11,
    /// Versions 0-4.
    Heartbeat = 12,
    /// Versions 0-5.
    LeaveGroup = 13,
    /// Versions 0-5.
    SyncGroup = 14,
    /// Versions 0-6.
    DescribeGroups = 15,
    /// Versions 0-5.
    ListGroups = 16,
    /// Versions 0-1.
    SaslHandshake = 17,
    /// Versions 0-5.
    ApiVersions = 18,
    /// Versions 2-7.
    CreateTopics = 19,
    /// Versions 1-6.
    DeleteTopics = 20,
    /// Versions 0-2.
    DeleteRecords = 21,
    /// Versions 0-6.
    InitProducerId = 22,
    /// Versions 2-4.
    OffsetForLeaderEpoch = 23,
    /// Versions 0-5.
    AddPartitionsToTxn = 24,
    /// Versions 0-4.
    AddOffsetsToTxn = 25,
    /// Versions 0-5.
    EndTxn = 26,
    /// Versions 1-2.
    WriteTxnMarkers = 27,
    /// Versions 0-6.
    TxnOffsetCommit = 28,
    /// Versions 1-3.
    DescribeAcls = 29,
    /// Versions 1-3.
    CreateAcls = 30,
    /// Versions 1-3.
    DeleteAcls = 31,
    /// Versions 1-4.
    DescribeConfigs = 32,
    /// Versions 0-2.
    AlterConfigs = 33,
    /// Versions 1-2.
    AlterReplicaLogDirs = 34,
    /// Versions 1-5.
    DescribeLogDirs = 35,
    /// Versions 0-2.
    SaslAuthenticate = 36,
    /// Versions 0-3.
    CreatePartitions = 37,
    /// Versions 0-3.
    DeleteGroups = 42,
    /// Versions 0-2.
    ElectLeaders = 43,
    /// Versions 0-1.
    IncrementalAlterConfigs = 44,
    /// Versions 0-1.
    AlterPartitionReassignments = 45,
    /// Versions 0.
    ListPartitionReassignments = 46,
    /// Versions 0.
    OffsetDelete = 47,
    /// Versions 0-2.
    DescribeQuorum = 55,
    /// Versions 0-2.
    UpdateFeatures = 57,
    /// Versions 0-2.
    DescribeCluster = 60,
    /// Versions 0.
    DescribeProducers = 61,
    /// Versions 0.
    DescribeTransactions = 65,
    /// Versions 0-2.
    ListTransactions = 66,
    /// Versions 0-1.
    ConsumerGroupHeartbeat = 68,
    /// Versions 0-1.
    ConsumerGroupDescribe = 69,
    /// Versions 0-1.
    ListConfigResources = 74,
    /// Versions 0.
    DescribeTopicPartitions = 75,
    /// Versions 0-1.
    StreamsGroupHeartbeat = 88,
    /// Versions 0-1.
    StreamsGroupDescribe = 89,
}

impl ApiKey {
    /// All of them, by number.
    pub const ALL: &'static [Self] = &[
        Self::Produce,
        Self::Fetch,
        Self::ListOffsets,
        Self::Metadata,
        Self::OffsetCommit,
        Self::OffsetFetch,
        Self::FindCoordinator,
        Self::JoinGroup,
        Self::Heartbeat,
        Self::LeaveGroup,
        Self::SyncGroup,
        Self::DescribeGroups,
        Self::ListGroups,
        Self::SaslHandshake,
        Self::ApiVersions,
        Self::CreateTopics,
        Self::DeleteTopics,
        Self::DeleteRecords,
        Self::InitProducerId,
        Self::OffsetForLeaderEpoch,
        Self::AddPartitionsToTxn,
        Self::AddOffsetsToTxn,
        Self::EndTxn,
        Self::WriteTxnMarkers,
        Self::TxnOffsetCommit,
        Self::DescribeAcls,
        Self::CreateAcls,
        Self::DeleteAcls,
        Self::DescribeConfigs,
        Self::AlterConfigs,
        Self::AlterReplicaLogDirs,
        Self::DescribeLogDirs,
        Self::SaslAuthenticate,
        Self::CreatePartitions,
        Self::DeleteGroups,
        Self::ElectLeaders,
        Self::IncrementalAlterConfigs,
        Self::AlterPartitionReassignments,
        Self::ListPartitionReassignments,
        Self::OffsetDelete,
        Self::DescribeQuorum,
        Self::UpdateFeatures,
        Self::DescribeCluster,
        Self::DescribeProducers,
        Self::DescribeTransactions,
        Self::ListTransactions,
        Self::ConsumerGroupHeartbeat,
        Self::ConsumerGroupDescribe,
        Self::ListConfigResources,
        Self::DescribeTopicPartitions,
        Self::StreamsGroupHeartbeat,
        Self::StreamsGroupDescribe,
    ];

    /// The API of that number, if we know it.
    #[must_use]
    pub const fn from_i16(key: i16) -> Option<Self> {
        match key {
            0 => Some(Self::Produce),
            1 => Some(Self::Fetch),
            2 => Some(Self::ListOffsets),
            3 => Some(Self::Metadata),
            8 => Some(Self::OffsetCommit),
            9 => Some(Self::OffsetFetch),
            10 => Some(Self::FindCoordinator),
            11 => Some(Self::JoinGroup),
            12 => Some(Self::Heartbeat),
            13 => Some(Self::LeaveGroup),
            14 => Some(Self::SyncGroup),
            15 => Some(Self::DescribeGroups),
            16 => Some(Self::ListGroups),
            17 => Some(Self::SaslHandshake),
            18 => Some(Self::ApiVersions),
            19 => Some(Self::CreateTopics),
            20 => Some(Self::DeleteTopics),
            21 => Some(Self::DeleteRecords),
            22 => Some(Self::InitProducerId),
            23 => Some(Self::OffsetForLeaderEpoch),
            24 => Some(Self::AddPartitionsToTxn),
            25 => Some(Self::AddOffsetsToTxn),
            26 => Some(Self::EndTxn),
            27 => Some(Self::WriteTxnMarkers),
            28 => Some(Self::TxnOffsetCommit),
            29 => Some(Self::DescribeAcls),
            30 => Some(Self::CreateAcls),
            31 => Some(Self::DeleteAcls),
            32 => Some(Self::DescribeConfigs),
            33 => Some(Self::AlterConfigs),
            34 => Some(Self::AlterReplicaLogDirs),
            35 => Some(Self::DescribeLogDirs),
            36 => Some(Self::SaslAuthenticate),
            37 => Some(Self::CreatePartitions),
            42 => Some(Self::DeleteGroups),
            43 => Some(Self::ElectLeaders),
            44 => Some(Self::IncrementalAlterConfigs),
            45 => Some(Self::AlterPartitionReassignments),
            46 => Some(Self::ListPartitionReassignments),
            47 => Some(Self::OffsetDelete),
            55 => Some(Self::DescribeQuorum),
            57 => Some(Self::UpdateFeatures),
            60 => Some(Self::DescribeCluster),
            61 => Some(Self::DescribeProducers),
            65 => Some(Self::DescribeTransactions),
            66 => Some(Self::ListTransactions),
            68 => Some(Self::ConsumerGroupHeartbeat),
            69 => Some(Self::ConsumerGroupDescribe),
            74 => Some(Self::ListConfigResources),
            75 => Some(Self::DescribeTopicPartitions),
            88 => Some(Self::StreamsGroupHeartbeat),
            89 => Some(Self::StreamsGroupDescribe),
            _ => None,
        }
    }

    /// The number in the header.
    #[must_use]
    pub const fn to_i16(self) -> i16 {
        self as i16
    }

    /// The name, as Kafka's schemas spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Produce => "Produce",
            Self::Fetch => "Fetch",
            Self::ListOffsets => "ListOffsets",
            Self::Metadata => "Metadata",
            Self::OffsetCommit => "OffsetCommit",
            Self::OffsetFetch => "OffsetFetch",
            Self::FindCoordinator => "FindCoordinator",
            Self::JoinGroup => "JoinGroup",
            Self::Heartbeat => "Heartbeat",
            Self::LeaveGroup => "LeaveGroup",
            Self::SyncGroup => "SyncGroup",
            Self::DescribeGroups => "DescribeGroups",
            Self::ListGroups => "ListGroups",
            Self::SaslHandshake => "SaslHandshake",
            Self::ApiVersions => "ApiVersions",
            Self::CreateTopics => "CreateTopics",
            Self::DeleteTopics => "DeleteTopics",
            Self::DeleteRecords => "DeleteRecords",
            Self::InitProducerId => "InitProducerId",
            Self::OffsetForLeaderEpoch => "OffsetForLeaderEpoch",
            Self::AddPartitionsToTxn => "AddPartitionsToTxn",
            Self::AddOffsetsToTxn => "AddOffsetsToTxn",
            Self::EndTxn => "EndTxn",
            Self::WriteTxnMarkers => "WriteTxnMarkers",
            Self::TxnOffsetCommit => "TxnOffsetCommit",
            Self::DescribeAcls => "DescribeAcls",
            Self::CreateAcls => "CreateAcls",
            Self::DeleteAcls => "DeleteAcls",
            Self::DescribeConfigs => "DescribeConfigs",
            Self::AlterConfigs => "AlterConfigs",
            Self::AlterReplicaLogDirs => "AlterReplicaLogDirs",
            Self::DescribeLogDirs => "DescribeLogDirs",
            Self::SaslAuthenticate => "SaslAuthenticate",
            Self::CreatePartitions => "CreatePartitions",
            Self::DeleteGroups => "DeleteGroups",
            Self::ElectLeaders => "ElectLeaders",
            Self::IncrementalAlterConfigs => "IncrementalAlterConfigs",
            Self::AlterPartitionReassignments => "AlterPartitionReassignments",
            Self::ListPartitionReassignments => "ListPartitionReassignments",
            Self::OffsetDelete => "OffsetDelete",
            Self::DescribeQuorum => "DescribeQuorum",
            Self::UpdateFeatures => "UpdateFeatures",
            Self::DescribeCluster => "DescribeCluster",
            Self::DescribeProducers => "DescribeProducers",
            Self::DescribeTransactions => "DescribeTransactions",
            Self::ListTransactions => "ListTransactions",
            Self::ConsumerGroupHeartbeat => "ConsumerGroupHeartbeat",
            Self::ConsumerGroupDescribe => "ConsumerGroupDescribe",
            Self::ListConfigResources => "ListConfigResources",
            Self::DescribeTopicPartitions => "DescribeTopicPartitions",
            Self::StreamsGroupHeartbeat => "StreamsGroupHeartbeat",
            Self::StreamsGroupDescribe => "StreamsGroupDescribe",
        }
    }

    /// The versions that are settled: what may be offered and asked for. (A last version which Kafka
    /// still calls unstable can be read and written, and is not in here.)
    #[must_use]
    pub const fn versions(self) -> RangeInclusive<i16> {
        match self {
            Self::Produce => 3..=13,
            Self::Fetch => 4..=18,
            Self::ListOffsets => 1..=11,
            Self::Metadata => 0..=13,
            Self::OffsetCommit => 2..=10,
            Self::OffsetFetch => 1..=10,
            Self::FindCoordinator => 0..=6,
            Self::JoinGroup => 0..=9,
            Self::Heartbeat => 0..=4,
            Self::LeaveGroup => 0..=5,
            Self::SyncGroup => 0..=5,
            Self::DescribeGroups => 0..=6,
            Self::ListGroups => 0..=5,
            Self::SaslHandshake => 0..=1,
            Self::ApiVersions => 0..=5,
            Self::CreateTopics => 2..=7,
            Self::DeleteTopics => 1..=6,
            Self::DeleteRecords => 0..=2,
            Self::InitProducerId => 0..=5,
            Self::OffsetForLeaderEpoch => 2..=4,
            Self::AddPartitionsToTxn => 0..=5,
            Self::AddOffsetsToTxn => 0..=4,
            Self::EndTxn => 0..=5,
            Self::WriteTxnMarkers => 1..=2,
            Self::TxnOffsetCommit => 0..=6,
            Self::DescribeAcls => 1..=3,
            Self::CreateAcls => 1..=3,
            Self::DeleteAcls => 1..=3,
            Self::DescribeConfigs => 1..=4,
            Self::AlterConfigs => 0..=2,
            Self::AlterReplicaLogDirs => 1..=2,
            Self::DescribeLogDirs => 1..=5,
            Self::SaslAuthenticate => 0..=2,
            Self::CreatePartitions => 0..=3,
            Self::DeleteGroups => 0..=3,
            Self::ElectLeaders => 0..=2,
            Self::IncrementalAlterConfigs => 0..=1,
            Self::AlterPartitionReassignments => 0..=1,
            Self::ListPartitionReassignments => 0..=0,
            Self::OffsetDelete => 0..=0,
            Self::DescribeQuorum => 0..=2,
            Self::UpdateFeatures => 0..=2,
            Self::DescribeCluster => 0..=2,
            Self::DescribeProducers => 0..=0,
            Self::DescribeTransactions => 0..=0,
            Self::ListTransactions => 0..=2,
            Self::ConsumerGroupHeartbeat => 0..=1,
            Self::ConsumerGroupDescribe => 0..=1,
            Self::ListConfigResources => 0..=1,
            Self::DescribeTopicPartitions => 0..=0,
            Self::StreamsGroupHeartbeat => 0..=1,
            Self::StreamsGroupDescribe => 0..=1,
        }
    }

    /// Whether `version` has compact lengths and tagged fields.
    #[must_use]
    pub const fn is_flexible(self, version: i16) -> bool {
        let from = match self {
            Self::Produce => 9,
            Self::Fetch => 12,
            Self::ListOffsets => 6,
            Self::Metadata => 9,
            Self::OffsetCommit => 8,
            Self::OffsetFetch => 6,
            Self::FindCoordinator => 3,
            Self::JoinGroup => 6,
            Self::Heartbeat => 4,
            Self::LeaveGroup => 4,
            Self::SyncGroup => 4,
            Self::DescribeGroups => 5,
            Self::ListGroups => 3,
            Self::SaslHandshake => i16::MAX,
            Self::ApiVersions => 3,
            Self::CreateTopics => 5,
            Self::DeleteTopics => 4,
            Self::DeleteRecords => 2,
            Self::InitProducerId => 2,
            Self::OffsetForLeaderEpoch => 4,
            Self::AddPartitionsToTxn => 3,
            Self::AddOffsetsToTxn => 3,
            Self::EndTxn => 3,
            Self::WriteTxnMarkers => 1,
            Self::TxnOffsetCommit => 3,
            Self::DescribeAcls => 2,
            Self::CreateAcls => 2,
            Self::DeleteAcls => 2,
            Self::DescribeConfigs => 4,
            Self::AlterConfigs => 2,
            Self::AlterReplicaLogDirs => 2,
            Self::DescribeLogDirs => 2,
            Self::SaslAuthenticate => 2,
            Self::CreatePartitions => 2,
            Self::DeleteGroups => 2,
            Self::ElectLeaders => 2,
            Self::IncrementalAlterConfigs => 1,
            Self::AlterPartitionReassignments => 0,
            Self::ListPartitionReassignments => 0,
            Self::OffsetDelete => i16::MAX,
            Self::DescribeQuorum => 0,
            Self::UpdateFeatures => 0,
            Self::DescribeCluster => 0,
            Self::DescribeProducers => 0,
            Self::DescribeTransactions => 0,
            Self::ListTransactions => 0,
            Self::ConsumerGroupHeartbeat => 0,
            Self::ConsumerGroupDescribe => 0,
            Self::ListConfigResources => 0,
            Self::DescribeTopicPartitions => 0,
            Self::StreamsGroupHeartbeat => 0,
            Self::StreamsGroupDescribe => 0,
        };
        version >= from
    }

    /// The version of the header before such a request: 2 if flexible, else 1.
    #[must_use]
    pub const fn request_header_version(self, version: i16) -> i16 {
        if self.is_flexible(version) { 2 } else { 1 }
    }

    /// The version of the header before such a response: 1 if flexible, else 0. Before an answer to
    /// ApiVersions it is always 0: the client does not know yet what the broker speaks.
    #[must_use]
    pub const fn response_header_version(self, version: i16) -> i16 {
        match self {
            Self::ApiVersions => 0,
            Self::Produce
            | Self::Fetch
            | Self::ListOffsets
            | Self::Metadata
            | Self::OffsetCommit
            | Self::OffsetFetch
            | Self::FindCoordinator
            | Self::JoinGroup
            | Self::Heartbeat
            | Self::LeaveGroup
            | Self::SyncGroup
            | Self::DescribeGroups
            | Self::ListGroups
            | Self::SaslHandshake
            | Self::CreateTopics
            | Self::DeleteTopics
            | Self::DeleteRecords
            | Self::InitProducerId
            | Self::OffsetForLeaderEpoch
            | Self::AddPartitionsToTxn
            | Self::AddOffsetsToTxn
            | Self::EndTxn
            | Self::WriteTxnMarkers
            | Self::TxnOffsetCommit
            | Self::DescribeAcls
            | Self::CreateAcls
            | Self::DeleteAcls
            | Self::DescribeConfigs
            | Self::AlterConfigs
            | Self::AlterReplicaLogDirs
            | Self::DescribeLogDirs
            | Self::SaslAuthenticate
            | Self::CreatePartitions
            | Self::DeleteGroups
            | Self::ElectLeaders
            | Self::IncrementalAlterConfigs
            | Self::AlterPartitionReassignments
            | Self::ListPartitionReassignments
            | Self::OffsetDelete
            | Self::DescribeQuorum
            | Self::UpdateFeatures
            | Self::DescribeCluster
            | Self::DescribeProducers
            | Self::DescribeTransactions
            | Self::ListTransactions
            | Self::ConsumerGroupHeartbeat
            | Self::ConsumerGroupDescribe
            | Self::ListConfigResources
            | Self::DescribeTopicPartitions
            | Self::StreamsGroupHeartbeat
            | Self::StreamsGroupDescribe => {
                if self.is_flexible(version) {
                    1
                } else {
                    0
                }
            }
        }
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
