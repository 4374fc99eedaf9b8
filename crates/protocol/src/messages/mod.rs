//! The messages of the protocol: one module each, named like Kafka's schema.
//!
//! Written by `cargo xtask generate` from `declarations`: change it there.
//!
//! **What it does not know**: what a message means, and who may send it.

#![allow(clippy::field_reassign_with_default, reason = "read in the order of the wire, some fields on condition")]

pub mod add_offsets_to_txn_request;
pub mod add_offsets_to_txn_response;
pub mod add_partitions_to_txn_request;
pub mod add_partitions_to_txn_response;
pub mod alter_configs_request;
pub mod alter_configs_response;
pub mod alter_partition_reassignments_request;
pub mod alter_partition_reassignments_response;
pub mod alter_replica_log_dirs_request;
pub mod alter_replica_log_dirs_response;
pub mod api_versions_request;
pub mod api_versions_response;
pub mod consumer_group_current_member_assignment_key;
pub mod consumer_group_current_member_assignment_value;
pub mod consumer_group_describe_request;
pub mod consumer_group_describe_response;
pub mod consumer_group_heartbeat_request;
pub mod consumer_group_heartbeat_response;
pub mod consumer_group_member_metadata_key;
pub mod consumer_group_member_metadata_value;
pub mod consumer_group_metadata_key;
pub mod consumer_group_metadata_value;
pub mod consumer_group_regular_expression_key;
pub mod consumer_group_regular_expression_value;
pub mod consumer_group_target_assignment_member_key;
pub mod consumer_group_target_assignment_member_value;
pub mod consumer_group_target_assignment_metadata_key;
pub mod consumer_group_target_assignment_metadata_value;
pub mod consumer_protocol_assignment;
pub mod consumer_protocol_subscription;
pub mod control_record_type_schema;
pub mod create_acls_request;
pub mod create_acls_response;
pub mod create_partitions_request;
pub mod create_partitions_response;
pub mod create_topics_request;
pub mod create_topics_response;
pub mod delete_acls_request;
pub mod delete_acls_response;
pub mod delete_groups_request;
pub mod delete_groups_response;
pub mod delete_records_request;
pub mod delete_records_response;
pub mod delete_topics_request;
pub mod delete_topics_response;
pub mod describe_acls_request;
pub mod describe_acls_response;
pub mod describe_cluster_request;
pub mod describe_cluster_response;
pub mod describe_configs_request;
pub mod describe_configs_response;
pub mod describe_groups_request;
pub mod describe_groups_response;
pub mod describe_log_dirs_request;
pub mod describe_log_dirs_response;
pub mod describe_producers_request;
pub mod describe_producers_response;
pub mod describe_quorum_request;
pub mod describe_quorum_response;
pub mod describe_topic_partitions_request;
pub mod describe_topic_partitions_response;
pub mod describe_transactions_request;
pub mod describe_transactions_response;
pub mod elect_leaders_request;
pub mod elect_leaders_response;
pub mod end_txn_marker;
pub mod end_txn_request;
pub mod end_txn_response;
pub mod fetch_request;
pub mod fetch_response;
pub mod find_coordinator_request;
pub mod find_coordinator_response;
pub mod group_metadata_key;
pub mod group_metadata_value;
pub mod heartbeat_request;
pub mod heartbeat_response;
pub mod incremental_alter_configs_request;
pub mod incremental_alter_configs_response;
pub mod init_producer_id_request;
pub mod init_producer_id_response;
pub mod join_group_request;
pub mod join_group_response;
pub mod leave_group_request;
pub mod leave_group_response;
pub mod list_config_resources_request;
pub mod list_config_resources_response;
pub mod list_groups_request;
pub mod list_groups_response;
pub mod list_offsets_request;
pub mod list_offsets_response;
pub mod list_partition_reassignments_request;
pub mod list_partition_reassignments_response;
pub mod list_transactions_request;
pub mod list_transactions_response;
pub mod metadata_request;
pub mod metadata_response;
pub mod offset_commit_key;
pub mod offset_commit_request;
pub mod offset_commit_response;
pub mod offset_commit_value;
pub mod offset_delete_request;
pub mod offset_delete_response;
pub mod offset_fetch_request;
pub mod offset_fetch_response;
pub mod offset_for_leader_epoch_request;
pub mod offset_for_leader_epoch_response;
pub mod produce_request;
pub mod produce_response;
pub mod sasl_authenticate_request;
pub mod sasl_authenticate_response;
pub mod sasl_handshake_request;
pub mod sasl_handshake_response;
pub mod streams_group_describe_request;
pub mod streams_group_describe_response;
pub mod streams_group_heartbeat_request;
pub mod streams_group_heartbeat_response;
pub mod sync_group_request;
pub mod sync_group_response;
pub mod transaction_log_key;
pub mod transaction_log_value;
pub mod txn_offset_commit_request;
pub mod txn_offset_commit_response;
pub mod update_features_request;
pub mod update_features_response;
pub mod write_txn_markers_request;
pub mod write_txn_markers_response;

use bytes::BytesMut;

use crate::ApiKey;
use crate::wire::{DecodeError, EncodeError, Message, Reader, Request};

impl Request for produce_request::ProduceRequest {
    const KEY: ApiKey = ApiKey::Produce;
    type Response = produce_response::ProduceResponse;
}

impl Request for fetch_request::FetchRequest {
    const KEY: ApiKey = ApiKey::Fetch;
    type Response = fetch_response::FetchResponse;
}

impl Request for list_offsets_request::ListOffsetsRequest {
    const KEY: ApiKey = ApiKey::ListOffsets;
    type Response = list_offsets_response::ListOffsetsResponse;
}

impl Request for metadata_request::MetadataRequest {
    const KEY: ApiKey = ApiKey::Metadata;
    type Response = metadata_response::MetadataResponse;
}

impl Request for offset_commit_request::OffsetCommitRequest {
    const KEY: ApiKey = ApiKey::OffsetCommit;
    type Response = offset_commit_response::OffsetCommitResponse;
}

impl Request for offset_fetch_request::OffsetFetchRequest {
    const KEY: ApiKey = ApiKey::OffsetFetch;
    type Response = offset_fetch_response::OffsetFetchResponse;
}

impl Request for find_coordinator_request::FindCoordinatorRequest {
    const KEY: ApiKey = ApiKey::FindCoordinator;
    type Response = find_coordinator_response::FindCoordinatorResponse;
}

impl Request for join_group_request::JoinGroupRequest {
    const KEY: ApiKey = ApiKey::JoinGroup;
    type Response = join_group_response::JoinGroupResponse;
}

impl Request for heartbeat_request::HeartbeatRequest {
    const KEY: ApiKey = ApiKey::Heartbeat;
    type Response = heartbeat_response::HeartbeatResponse;
}

impl Request for leave_group_request::LeaveGroupRequest {
    const KEY: ApiKey = ApiKey::LeaveGroup;
    type Response = leave_group_response::LeaveGroupResponse;
}

impl Request for sync_group_request::SyncGroupRequest {
    const KEY: ApiKey = ApiKey::SyncGroup;
    type Response = sync_group_response::SyncGroupResponse;
}

impl Request for describe_groups_request::DescribeGroupsRequest {
    const KEY: ApiKey = ApiKey::DescribeGroups;
    type Response = describe_groups_response::DescribeGroupsResponse;
}

impl Request for list_groups_request::ListGroupsRequest {
    const KEY: ApiKey = ApiKey::ListGroups;
    type Response = list_groups_response::ListGroupsResponse;
}

impl Request for sasl_handshake_request::SaslHandshakeRequest {
    const KEY: ApiKey = ApiKey::SaslHandshake;
    type Response = sasl_handshake_response::SaslHandshakeResponse;
}

impl Request for api_versions_request::ApiVersionsRequest {
    const KEY: ApiKey = ApiKey::ApiVersions;
    type Response = api_versions_response::ApiVersionsResponse;
}

impl Request for create_topics_request::CreateTopicsRequest {
    const KEY: ApiKey = ApiKey::CreateTopics;
    type Response = create_topics_response::CreateTopicsResponse;
}

impl Request for delete_topics_request::DeleteTopicsRequest {
    const KEY: ApiKey = ApiKey::DeleteTopics;
    type Response = delete_topics_response::DeleteTopicsResponse;
}

impl Request for delete_records_request::DeleteRecordsRequest {
    const KEY: ApiKey = ApiKey::DeleteRecords;
    type Response = delete_records_response::DeleteRecordsResponse;
}

impl Request for init_producer_id_request::InitProducerIdRequest {
    const KEY: ApiKey = ApiKey::InitProducerId;
    type Response = init_producer_id_response::InitProducerIdResponse;
}

impl Request for offset_for_leader_epoch_request::OffsetForLeaderEpochRequest {
    const KEY: ApiKey = ApiKey::OffsetForLeaderEpoch;
    type Response = offset_for_leader_epoch_response::OffsetForLeaderEpochResponse;
}

impl Request for add_partitions_to_txn_request::AddPartitionsToTxnRequest {
    const KEY: ApiKey = ApiKey::AddPartitionsToTxn;
    type Response = add_partitions_to_txn_response::AddPartitionsToTxnResponse;
}

impl Request for add_offsets_to_txn_request::AddOffsetsToTxnRequest {
    const KEY: ApiKey = ApiKey::AddOffsetsToTxn;
    type Response = add_offsets_to_txn_response::AddOffsetsToTxnResponse;
}

impl Request for end_txn_request::EndTxnRequest {
    const KEY: ApiKey = ApiKey::EndTxn;
    type Response = end_txn_response::EndTxnResponse;
}

impl Request for write_txn_markers_request::WriteTxnMarkersRequest {
    const KEY: ApiKey = ApiKey::WriteTxnMarkers;
    type Response = write_txn_markers_response::WriteTxnMarkersResponse;
}

impl Request for txn_offset_commit_request::TxnOffsetCommitRequest {
    const KEY: ApiKey = ApiKey::TxnOffsetCommit;
    type Response = txn_offset_commit_response::TxnOffsetCommitResponse;
}

impl Request for describe_acls_request::DescribeAclsRequest {
    const KEY: ApiKey = ApiKey::DescribeAcls;
    type Response = describe_acls_response::DescribeAclsResponse;
}

impl Request for create_acls_request::CreateAclsRequest {
    const KEY: ApiKey = ApiKey::CreateAcls;
    type Response = create_acls_response::CreateAclsResponse;
}

impl Request for delete_acls_request::DeleteAclsRequest {
    const KEY: ApiKey = ApiKey::DeleteAcls;
    type Response = delete_acls_response::DeleteAclsResponse;
}

impl Request for describe_configs_request::DescribeConfigsRequest {
    const KEY: ApiKey = ApiKey::DescribeConfigs;
    type Response = describe_configs_response::DescribeConfigsResponse;
}

impl Request for alter_configs_request::AlterConfigsRequest {
    const KEY: ApiKey = ApiKey::AlterConfigs;
    type Response = alter_configs_response::AlterConfigsResponse;
}

impl Request for alter_replica_log_dirs_request::AlterReplicaLogDirsRequest {
    const KEY: ApiKey = ApiKey::AlterReplicaLogDirs;
    type Response = alter_replica_log_dirs_response::AlterReplicaLogDirsResponse;
}

impl Request for describe_log_dirs_request::DescribeLogDirsRequest {
    const KEY: ApiKey = ApiKey::DescribeLogDirs;
    type Response = describe_log_dirs_response::DescribeLogDirsResponse;
}

impl Request for sasl_authenticate_request::SaslAuthenticateRequest {
    const KEY: ApiKey = ApiKey::SaslAuthenticate;
    type Response = sasl_authenticate_response::SaslAuthenticateResponse;
}

impl Request for create_partitions_request::CreatePartitionsRequest {
    const KEY: ApiKey = ApiKey::CreatePartitions;
    type Response = create_partitions_response::CreatePartitionsResponse;
}

impl Request for delete_groups_request::DeleteGroupsRequest {
    const KEY: ApiKey = ApiKey::DeleteGroups;
    type Response = delete_groups_response::DeleteGroupsResponse;
}

impl Request for elect_leaders_request::ElectLeadersRequest {
    const KEY: ApiKey = ApiKey::ElectLeaders;
    type Response = elect_leaders_response::ElectLeadersResponse;
}

impl Request for incremental_alter_configs_request::IncrementalAlterConfigsRequest {
    const KEY: ApiKey = ApiKey::IncrementalAlterConfigs;
    type Response = incremental_alter_configs_response::IncrementalAlterConfigsResponse;
}

impl Request for alter_partition_reassignments_request::AlterPartitionReassignmentsRequest {
    const KEY: ApiKey = ApiKey::AlterPartitionReassignments;
    type Response = alter_partition_reassignments_response::AlterPartitionReassignmentsResponse;
}

impl Request for list_partition_reassignments_request::ListPartitionReassignmentsRequest {
    const KEY: ApiKey = ApiKey::ListPartitionReassignments;
    type Response = list_partition_reassignments_response::ListPartitionReassignmentsResponse;
}

impl Request for offset_delete_request::OffsetDeleteRequest {
    const KEY: ApiKey = ApiKey::OffsetDelete;
    type Response = offset_delete_response::OffsetDeleteResponse;
}

impl Request for describe_quorum_request::DescribeQuorumRequest {
    const KEY: ApiKey = ApiKey::DescribeQuorum;
    type Response = describe_quorum_response::DescribeQuorumResponse;
}

impl Request for update_features_request::UpdateFeaturesRequest {
    const KEY: ApiKey = ApiKey::UpdateFeatures;
    type Response = update_features_response::UpdateFeaturesResponse;
}

impl Request for describe_cluster_request::DescribeClusterRequest {
    const KEY: ApiKey = ApiKey::DescribeCluster;
    type Response = describe_cluster_response::DescribeClusterResponse;
}

impl Request for describe_producers_request::DescribeProducersRequest {
    const KEY: ApiKey = ApiKey::DescribeProducers;
    type Response = describe_producers_response::DescribeProducersResponse;
}

impl Request for describe_transactions_request::DescribeTransactionsRequest {
    const KEY: ApiKey = ApiKey::DescribeTransactions;
    type Response = describe_transactions_response::DescribeTransactionsResponse;
}

impl Request for list_transactions_request::ListTransactionsRequest {
    const KEY: ApiKey = ApiKey::ListTransactions;
    type Response = list_transactions_response::ListTransactionsResponse;
}

impl Request for consumer_group_heartbeat_request::ConsumerGroupHeartbeatRequest {
    const KEY: ApiKey = ApiKey::ConsumerGroupHeartbeat;
    type Response = consumer_group_heartbeat_response::ConsumerGroupHeartbeatResponse;
}

impl Request for consumer_group_describe_request::ConsumerGroupDescribeRequest {
    const KEY: ApiKey = ApiKey::ConsumerGroupDescribe;
    type Response = consumer_group_describe_response::ConsumerGroupDescribeResponse;
}

impl Request for list_config_resources_request::ListConfigResourcesRequest {
    const KEY: ApiKey = ApiKey::ListConfigResources;
    type Response = list_config_resources_response::ListConfigResourcesResponse;
}

impl Request for describe_topic_partitions_request::DescribeTopicPartitionsRequest {
    const KEY: ApiKey = ApiKey::DescribeTopicPartitions;
    type Response = describe_topic_partitions_response::DescribeTopicPartitionsResponse;
}

impl Request for streams_group_heartbeat_request::StreamsGroupHeartbeatRequest {
    const KEY: ApiKey = ApiKey::StreamsGroupHeartbeat;
    type Response = streams_group_heartbeat_response::StreamsGroupHeartbeatResponse;
}

impl Request for streams_group_describe_request::StreamsGroupDescribeRequest {
    const KEY: ApiKey = ApiKey::StreamsGroupDescribe;
    type Response = streams_group_describe_response::StreamsGroupDescribeResponse;
}

/// Any request: for dispatch by key.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "one at a time is decoded, and taken apart at once")]
pub enum AnyRequest {
    /// Key 0.
    Produce(produce_request::ProduceRequest),
    /// Key 1.
    Fetch(fetch_request::FetchRequest),
    /// Key 2.
    ListOffsets(list_offsets_request::ListOffsetsRequest),
    /// Key 3.
    Metadata(metadata_request::MetadataRequest),
    /// Key 8.
    OffsetCommit(offset_commit_request::OffsetCommitRequest),
    /// Key 9.
    OffsetFetch(offset_fetch_request::OffsetFetchRequest),
    /// Key 10.
    FindCoordinator(find_coordinator_request::FindCoordinatorRequest),
    /// Key 11.
    JoinGroup(join_group_request::JoinGroupRequest),
    /// Key 12.
    Heartbeat(heartbeat_request::HeartbeatRequest),
    /// Key 13.
    LeaveGroup(leave_group_request::LeaveGroupRequest),
    /// Key 14.
    SyncGroup(sync_group_request::SyncGroupRequest),
    /// Key 15.
    DescribeGroups(describe_groups_request::DescribeGroupsRequest),
    /// Key 16.
    ListGroups(list_groups_request::ListGroupsRequest),
    /// Key 17.
    SaslHandshake(sasl_handshake_request::SaslHandshakeRequest),
    /// Key 18.
    ApiVersions(api_versions_request::ApiVersionsRequest),
    /// Key 19.
    CreateTopics(create_topics_request::CreateTopicsRequest),
    /// Key 20.
    DeleteTopics(delete_topics_request::DeleteTopicsRequest),
    /// Key 21.
    DeleteRecords(delete_records_request::DeleteRecordsRequest),
    /// Key 22.
    InitProducerId(init_producer_id_request::InitProducerIdRequest),
    /// Key 23.
    OffsetForLeaderEpoch(offset_for_leader_epoch_request::OffsetForLeaderEpochRequest),
    /// Key 24.
    AddPartitionsToTxn(add_partitions_to_txn_request::AddPartitionsToTxnRequest),
    /// Key 25.
    AddOffsetsToTxn(add_offsets_to_txn_request::AddOffsetsToTxnRequest),
    /// Key 26.
    EndTxn(end_txn_request::EndTxnRequest),
    /// Key 27.
    WriteTxnMarkers(write_txn_markers_request::WriteTxnMarkersRequest),
    /// Key 28.
    TxnOffsetCommit(txn_offset_commit_request::TxnOffsetCommitRequest),
    /// Key 29.
    DescribeAcls(describe_acls_request::DescribeAclsRequest),
    /// Key 30.
    CreateAcls(create_acls_request::CreateAclsRequest),
    /// Key 31.
    DeleteAcls(delete_acls_request::DeleteAclsRequest),
    /// Key 32.
    DescribeConfigs(describe_configs_request::DescribeConfigsRequest),
    /// Key 33.
    AlterConfigs(alter_configs_request::AlterConfigsRequest),
    /// Key 34.
    AlterReplicaLogDirs(alter_replica_log_dirs_request::AlterReplicaLogDirsRequest),
    /// Key 35.
    DescribeLogDirs(describe_log_dirs_request::DescribeLogDirsRequest),
    /// Key 36.
    SaslAuthenticate(sasl_authenticate_request::SaslAuthenticateRequest),
    /// Key 37.
    CreatePartitions(create_partitions_request::CreatePartitionsRequest),
    /// Key 42.
    DeleteGroups(delete_groups_request::DeleteGroupsRequest),
    /// Key 43.
    ElectLeaders(elect_leaders_request::ElectLeadersRequest),
    /// Key 44.
    IncrementalAlterConfigs(incremental_alter_configs_request::IncrementalAlterConfigsRequest),
    /// Key 45.
    AlterPartitionReassignments(alter_partition_reassignments_request::AlterPartitionReassignmentsRequest),
    /// Key 46.
    ListPartitionReassignments(list_partition_reassignments_request::ListPartitionReassignmentsRequest),
    /// Key 47.
    OffsetDelete(offset_delete_request::OffsetDeleteRequest),
    /// Key 55.
    DescribeQuorum(describe_quorum_request::DescribeQuorumRequest),
    /// Key 57.
    UpdateFeatures(update_features_request::UpdateFeaturesRequest),
    /// Key 60.
    DescribeCluster(describe_cluster_request::DescribeClusterRequest),
    /// Key 61.
    DescribeProducers(describe_producers_request::DescribeProducersRequest),
    /// Key 65.
    DescribeTransactions(describe_transactions_request::DescribeTransactionsRequest),
    /// Key 66.
    ListTransactions(list_transactions_request::ListTransactionsRequest),
    /// Key 68.
    ConsumerGroupHeartbeat(consumer_group_heartbeat_request::ConsumerGroupHeartbeatRequest),
    /// Key 69.
    ConsumerGroupDescribe(consumer_group_describe_request::ConsumerGroupDescribeRequest),
    /// Key 74.
    ListConfigResources(list_config_resources_request::ListConfigResourcesRequest),
    /// Key 75.
    DescribeTopicPartitions(describe_topic_partitions_request::DescribeTopicPartitionsRequest),
    /// Key 88.
    StreamsGroupHeartbeat(streams_group_heartbeat_request::StreamsGroupHeartbeatRequest),
    /// Key 89.
    StreamsGroupDescribe(streams_group_describe_request::StreamsGroupDescribeRequest),
}

impl AnyRequest {
    /// Its API.
    #[must_use]
    pub fn key(&self) -> ApiKey {
        match self {
            Self::Produce(_) => ApiKey::Produce,
            Self::Fetch(_) => ApiKey::Fetch,
            Self::ListOffsets(_) => ApiKey::ListOffsets,
            Self::Metadata(_) => ApiKey::Metadata,
            Self::OffsetCommit(_) => ApiKey::OffsetCommit,
            Self::OffsetFetch(_) => ApiKey::OffsetFetch,
            Self::FindCoordinator(_) => ApiKey::FindCoordinator,
            Self::JoinGroup(_) => ApiKey::JoinGroup,
            Self::Heartbeat(_) => ApiKey::Heartbeat,
            Self::LeaveGroup(_) => ApiKey::LeaveGroup,
            Self::SyncGroup(_) => ApiKey::SyncGroup,
            Self::DescribeGroups(_) => ApiKey::DescribeGroups,
            Self::ListGroups(_) => ApiKey::ListGroups,
            Self::SaslHandshake(_) => ApiKey::SaslHandshake,
            Self::ApiVersions(_) => ApiKey::ApiVersions,
            Self::CreateTopics(_) => ApiKey::CreateTopics,
            Self::DeleteTopics(_) => ApiKey::DeleteTopics,
            Self::DeleteRecords(_) => ApiKey::DeleteRecords,
            Self::InitProducerId(_) => ApiKey::InitProducerId,
            Self::OffsetForLeaderEpoch(_) => ApiKey::OffsetForLeaderEpoch,
            Self::AddPartitionsToTxn(_) => ApiKey::AddPartitionsToTxn,
            Self::AddOffsetsToTxn(_) => ApiKey::AddOffsetsToTxn,
            Self::EndTxn(_) => ApiKey::EndTxn,
            Self::WriteTxnMarkers(_) => ApiKey::WriteTxnMarkers,
            Self::TxnOffsetCommit(_) => ApiKey::TxnOffsetCommit,
            Self::DescribeAcls(_) => ApiKey::DescribeAcls,
            Self::CreateAcls(_) => ApiKey::CreateAcls,
            Self::DeleteAcls(_) => ApiKey::DeleteAcls,
            Self::DescribeConfigs(_) => ApiKey::DescribeConfigs,
            Self::AlterConfigs(_) => ApiKey::AlterConfigs,
            Self::AlterReplicaLogDirs(_) => ApiKey::AlterReplicaLogDirs,
            Self::DescribeLogDirs(_) => ApiKey::DescribeLogDirs,
            Self::SaslAuthenticate(_) => ApiKey::SaslAuthenticate,
            Self::CreatePartitions(_) => ApiKey::CreatePartitions,
            Self::DeleteGroups(_) => ApiKey::DeleteGroups,
            Self::ElectLeaders(_) => ApiKey::ElectLeaders,
            Self::IncrementalAlterConfigs(_) => ApiKey::IncrementalAlterConfigs,
            Self::AlterPartitionReassignments(_) => ApiKey::AlterPartitionReassignments,
            Self::ListPartitionReassignments(_) => ApiKey::ListPartitionReassignments,
            Self::OffsetDelete(_) => ApiKey::OffsetDelete,
            Self::DescribeQuorum(_) => ApiKey::DescribeQuorum,
            Self::UpdateFeatures(_) => ApiKey::UpdateFeatures,
            Self::DescribeCluster(_) => ApiKey::DescribeCluster,
            Self::DescribeProducers(_) => ApiKey::DescribeProducers,
            Self::DescribeTransactions(_) => ApiKey::DescribeTransactions,
            Self::ListTransactions(_) => ApiKey::ListTransactions,
            Self::ConsumerGroupHeartbeat(_) => ApiKey::ConsumerGroupHeartbeat,
            Self::ConsumerGroupDescribe(_) => ApiKey::ConsumerGroupDescribe,
            Self::ListConfigResources(_) => ApiKey::ListConfigResources,
            Self::DescribeTopicPartitions(_) => ApiKey::DescribeTopicPartitions,
            Self::StreamsGroupHeartbeat(_) => ApiKey::StreamsGroupHeartbeat,
            Self::StreamsGroupDescribe(_) => ApiKey::StreamsGroupDescribe,
        }
    }

    /// Reads the message of this API, and leaves `reader` behind it.
    pub fn decode(key: ApiKey, reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        Ok(match key {
            ApiKey::Produce => Self::Produce(Message::decode(reader, version)?),
            ApiKey::Fetch => Self::Fetch(Message::decode(reader, version)?),
            ApiKey::ListOffsets => Self::ListOffsets(Message::decode(reader, version)?),
            ApiKey::Metadata => Self::Metadata(Message::decode(reader, version)?),
            ApiKey::OffsetCommit => Self::OffsetCommit(Message::decode(reader, version)?),
            ApiKey::OffsetFetch => Self::OffsetFetch(Message::decode(reader, version)?),
            ApiKey::FindCoordinator => Self::FindCoordinator(Message::decode(reader, version)?),
            ApiKey::JoinGroup => Self::JoinGroup(Message::decode(reader, version)?),
            ApiKey::Heartbeat => Self::Heartbeat(Message::decode(reader, version)?),
            ApiKey::LeaveGroup => Self::LeaveGroup(Message::decode(reader, version)?),
            ApiKey::SyncGroup => Self::SyncGroup(Message::decode(reader, version)?),
            ApiKey::DescribeGroups => Self::DescribeGroups(Message::decode(reader, version)?),
            ApiKey::ListGroups => Self::ListGroups(Message::decode(reader, version)?),
            ApiKey::SaslHandshake => Self::SaslHandshake(Message::decode(reader, version)?),
            ApiKey::ApiVersions => Self::ApiVersions(Message::decode(reader, version)?),
            ApiKey::CreateTopics => Self::CreateTopics(Message::decode(reader, version)?),
            ApiKey::DeleteTopics => Self::DeleteTopics(Message::decode(reader, version)?),
            ApiKey::DeleteRecords => Self::DeleteRecords(Message::decode(reader, version)?),
            ApiKey::InitProducerId => Self::InitProducerId(Message::decode(reader, version)?),
            ApiKey::OffsetForLeaderEpoch => Self::OffsetForLeaderEpoch(Message::decode(reader, version)?),
            ApiKey::AddPartitionsToTxn => Self::AddPartitionsToTxn(Message::decode(reader, version)?),
            ApiKey::AddOffsetsToTxn => Self::AddOffsetsToTxn(Message::decode(reader, version)?),
            ApiKey::EndTxn => Self::EndTxn(Message::decode(reader, version)?),
            ApiKey::WriteTxnMarkers => Self::WriteTxnMarkers(Message::decode(reader, version)?),
            ApiKey::TxnOffsetCommit => Self::TxnOffsetCommit(Message::decode(reader, version)?),
            ApiKey::DescribeAcls => Self::DescribeAcls(Message::decode(reader, version)?),
            ApiKey::CreateAcls => Self::CreateAcls(Message::decode(reader, version)?),
            ApiKey::DeleteAcls => Self::DeleteAcls(Message::decode(reader, version)?),
            ApiKey::DescribeConfigs => Self::DescribeConfigs(Message::decode(reader, version)?),
            ApiKey::AlterConfigs => Self::AlterConfigs(Message::decode(reader, version)?),
            ApiKey::AlterReplicaLogDirs => Self::AlterReplicaLogDirs(Message::decode(reader, version)?),
            ApiKey::DescribeLogDirs => Self::DescribeLogDirs(Message::decode(reader, version)?),
            ApiKey::SaslAuthenticate => Self::SaslAuthenticate(Message::decode(reader, version)?),
            ApiKey::CreatePartitions => Self::CreatePartitions(Message::decode(reader, version)?),
            ApiKey::DeleteGroups => Self::DeleteGroups(Message::decode(reader, version)?),
            ApiKey::ElectLeaders => Self::ElectLeaders(Message::decode(reader, version)?),
            ApiKey::IncrementalAlterConfigs => Self::IncrementalAlterConfigs(Message::decode(reader, version)?),
            ApiKey::AlterPartitionReassignments => Self::AlterPartitionReassignments(Message::decode(reader, version)?),
            ApiKey::ListPartitionReassignments => Self::ListPartitionReassignments(Message::decode(reader, version)?),
            ApiKey::OffsetDelete => Self::OffsetDelete(Message::decode(reader, version)?),
            ApiKey::DescribeQuorum => Self::DescribeQuorum(Message::decode(reader, version)?),
            ApiKey::UpdateFeatures => Self::UpdateFeatures(Message::decode(reader, version)?),
            ApiKey::DescribeCluster => Self::DescribeCluster(Message::decode(reader, version)?),
            ApiKey::DescribeProducers => Self::DescribeProducers(Message::decode(reader, version)?),
            ApiKey::DescribeTransactions => Self::DescribeTransactions(Message::decode(reader, version)?),
            ApiKey::ListTransactions => Self::ListTransactions(Message::decode(reader, version)?),
            ApiKey::ConsumerGroupHeartbeat => Self::ConsumerGroupHeartbeat(Message::decode(reader, version)?),
            ApiKey::ConsumerGroupDescribe => Self::ConsumerGroupDescribe(Message::decode(reader, version)?),
            ApiKey::ListConfigResources => Self::ListConfigResources(Message::decode(reader, version)?),
            ApiKey::DescribeTopicPartitions => Self::DescribeTopicPartitions(Message::decode(reader, version)?),
            ApiKey::StreamsGroupHeartbeat => Self::StreamsGroupHeartbeat(Message::decode(reader, version)?),
            ApiKey::StreamsGroupDescribe => Self::StreamsGroupDescribe(Message::decode(reader, version)?),
        })
    }

    /// Writes it as `version`.
    pub fn encode(&self, writer: &mut BytesMut, version: i16) -> Result<(), EncodeError> {
        match self {
            Self::Produce(message) => message.encode(writer, version),
            Self::Fetch(message) => message.encode(writer, version),
            Self::ListOffsets(message) => message.encode(writer, version),
            Self::Metadata(message) => message.encode(writer, version),
            Self::OffsetCommit(message) => message.encode(writer, version),
            Self::OffsetFetch(message) => message.encode(writer, version),
            Self::FindCoordinator(message) => message.encode(writer, version),
            Self::JoinGroup(message) => message.encode(writer, version),
            Self::Heartbeat(message) => message.encode(writer, version),
            Self::LeaveGroup(message) => message.encode(writer, version),
            Self::SyncGroup(message) => message.encode(writer, version),
            Self::DescribeGroups(message) => message.encode(writer, version),
            Self::ListGroups(message) => message.encode(writer, version),
            Self::SaslHandshake(message) => message.encode(writer, version),
            Self::ApiVersions(message) => message.encode(writer, version),
            Self::CreateTopics(message) => message.encode(writer, version),
            Self::DeleteTopics(message) => message.encode(writer, version),
            Self::DeleteRecords(message) => message.encode(writer, version),
            Self::InitProducerId(message) => message.encode(writer, version),
            Self::OffsetForLeaderEpoch(message) => message.encode(writer, version),
            Self::AddPartitionsToTxn(message) => message.encode(writer, version),
            Self::AddOffsetsToTxn(message) => message.encode(writer, version),
            Self::EndTxn(message) => message.encode(writer, version),
            Self::WriteTxnMarkers(message) => message.encode(writer, version),
            Self::TxnOffsetCommit(message) => message.encode(writer, version),
            Self::DescribeAcls(message) => message.encode(writer, version),
            Self::CreateAcls(message) => message.encode(writer, version),
            Self::DeleteAcls(message) => message.encode(writer, version),
            Self::DescribeConfigs(message) => message.encode(writer, version),
            Self::AlterConfigs(message) => message.encode(writer, version),
            Self::AlterReplicaLogDirs(message) => message.encode(writer, version),
            Self::DescribeLogDirs(message) => message.encode(writer, version),
            Self::SaslAuthenticate(message) => message.encode(writer, version),
            Self::CreatePartitions(message) => message.encode(writer, version),
            Self::DeleteGroups(message) => message.encode(writer, version),
            Self::ElectLeaders(message) => message.encode(writer, version),
            Self::IncrementalAlterConfigs(message) => message.encode(writer, version),
            Self::AlterPartitionReassignments(message) => message.encode(writer, version),
            Self::ListPartitionReassignments(message) => message.encode(writer, version),
            Self::OffsetDelete(message) => message.encode(writer, version),
            Self::DescribeQuorum(message) => message.encode(writer, version),
            Self::UpdateFeatures(message) => message.encode(writer, version),
            Self::DescribeCluster(message) => message.encode(writer, version),
            Self::DescribeProducers(message) => message.encode(writer, version),
            Self::DescribeTransactions(message) => message.encode(writer, version),
            Self::ListTransactions(message) => message.encode(writer, version),
            Self::ConsumerGroupHeartbeat(message) => message.encode(writer, version),
            Self::ConsumerGroupDescribe(message) => message.encode(writer, version),
            Self::ListConfigResources(message) => message.encode(writer, version),
            Self::DescribeTopicPartitions(message) => message.encode(writer, version),
            Self::StreamsGroupHeartbeat(message) => message.encode(writer, version),
            Self::StreamsGroupDescribe(message) => message.encode(writer, version),
        }
    }
}

/// Any response: its key is that of the request, which the bytes do not say.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "one at a time is decoded, and taken apart at once")]
pub enum AnyResponse {
    /// Key 0.
    Produce(produce_response::ProduceResponse),
    /// Key 1.
    Fetch(fetch_response::FetchResponse),
    /// Key 2.
    ListOffsets(list_offsets_response::ListOffsetsResponse),
    /// Key 3.
    Metadata(metadata_response::MetadataResponse),
    /// Key 8.
    OffsetCommit(offset_commit_response::OffsetCommitResponse),
    /// Key 9.
    OffsetFetch(offset_fetch_response::OffsetFetchResponse),
    /// Key 10.
    FindCoordinator(find_coordinator_response::FindCoordinatorResponse),
    /// Key 11.
    JoinGroup(join_group_response::JoinGroupResponse),
    /// Key 12.
    Heartbeat(heartbeat_response::HeartbeatResponse),
    /// Key 13.
    LeaveGroup(leave_group_response::LeaveGroupResponse),
    /// Key 14.
    SyncGroup(sync_group_response::SyncGroupResponse),
    /// Key 15.
    DescribeGroups(describe_groups_response::DescribeGroupsResponse),
    /// Key 16.
    ListGroups(list_groups_response::ListGroupsResponse),
    /// Key 17.
    SaslHandshake(sasl_handshake_response::SaslHandshakeResponse),
    /// Key 18.
    ApiVersions(api_versions_response::ApiVersionsResponse),
    /// Key 19.
    CreateTopics(create_topics_response::CreateTopicsResponse),
    /// Key 20.
    DeleteTopics(delete_topics_response::DeleteTopicsResponse),
    /// Key 21.
    DeleteRecords(delete_records_response::DeleteRecordsResponse),
    /// Key 22.
    InitProducerId(init_producer_id_response::InitProducerIdResponse),
    /// Key 23.
    OffsetForLeaderEpoch(offset_for_leader_epoch_response::OffsetForLeaderEpochResponse),
    /// Key 24.
    AddPartitionsToTxn(add_partitions_to_txn_response::AddPartitionsToTxnResponse),
    /// Key 25.
    AddOffsetsToTxn(add_offsets_to_txn_response::AddOffsetsToTxnResponse),
    /// Key 26.
    EndTxn(end_txn_response::EndTxnResponse),
    /// Key 27.
    WriteTxnMarkers(write_txn_markers_response::WriteTxnMarkersResponse),
    /// Key 28.
    TxnOffsetCommit(txn_offset_commit_response::TxnOffsetCommitResponse),
    /// Key 29.
    DescribeAcls(describe_acls_response::DescribeAclsResponse),
    /// Key 30.
    CreateAcls(create_acls_response::CreateAclsResponse),
    /// Key 31.
    DeleteAcls(delete_acls_response::DeleteAclsResponse),
    /// Key 32.
    DescribeConfigs(describe_configs_response::DescribeConfigsResponse),
    /// Key 33.
    AlterConfigs(alter_configs_response::AlterConfigsResponse),
    /// Key 34.
    AlterReplicaLogDirs(alter_replica_log_dirs_response::AlterReplicaLogDirsResponse),
    /// Key 35.
    DescribeLogDirs(describe_log_dirs_response::DescribeLogDirsResponse),
    /// Key 36.
    SaslAuthenticate(sasl_authenticate_response::SaslAuthenticateResponse),
    /// Key 37.
    CreatePartitions(create_partitions_response::CreatePartitionsResponse),
    /// Key 42.
    DeleteGroups(delete_groups_response::DeleteGroupsResponse),
    /// Key 43.
    ElectLeaders(elect_leaders_response::ElectLeadersResponse),
    /// Key 44.
    IncrementalAlterConfigs(incremental_alter_configs_response::IncrementalAlterConfigsResponse),
    /// Key 45.
    AlterPartitionReassignments(alter_partition_reassignments_response::AlterPartitionReassignmentsResponse),
    /// Key 46.
    ListPartitionReassignments(list_partition_reassignments_response::ListPartitionReassignmentsResponse),
    /// Key 47.
    OffsetDelete(offset_delete_response::OffsetDeleteResponse),
    /// Key 55.
    DescribeQuorum(describe_quorum_response::DescribeQuorumResponse),
    /// Key 57.
    UpdateFeatures(update_features_response::UpdateFeaturesResponse),
    /// Key 60.
    DescribeCluster(describe_cluster_response::DescribeClusterResponse),
    /// Key 61.
    DescribeProducers(describe_producers_response::DescribeProducersResponse),
    /// Key 65.
    DescribeTransactions(describe_transactions_response::DescribeTransactionsResponse),
    /// Key 66.
    ListTransactions(list_transactions_response::ListTransactionsResponse),
    /// Key 68.
    ConsumerGroupHeartbeat(consumer_group_heartbeat_response::ConsumerGroupHeartbeatResponse),
    /// Key 69.
    ConsumerGroupDescribe(consumer_group_describe_response::ConsumerGroupDescribeResponse),
    /// Key 74.
    ListConfigResources(list_config_resources_response::ListConfigResourcesResponse),
    /// Key 75.
    DescribeTopicPartitions(describe_topic_partitions_response::DescribeTopicPartitionsResponse),
    /// Key 88.
    StreamsGroupHeartbeat(streams_group_heartbeat_response::StreamsGroupHeartbeatResponse),
    /// Key 89.
    StreamsGroupDescribe(streams_group_describe_response::StreamsGroupDescribeResponse),
}

impl AnyResponse {
    /// Its API.
    #[must_use]
    pub fn key(&self) -> ApiKey {
        match self {
            Self::Produce(_) => ApiKey::Produce,
            Self::Fetch(_) => ApiKey::Fetch,
            Self::ListOffsets(_) => ApiKey::ListOffsets,
            Self::Metadata(_) => ApiKey::Metadata,
            Self::OffsetCommit(_) => ApiKey::OffsetCommit,
            Self::OffsetFetch(_) => ApiKey::OffsetFetch,
            Self::FindCoordinator(_) => ApiKey::FindCoordinator,
            Self::JoinGroup(_) => ApiKey::JoinGroup,
            Self::Heartbeat(_) => ApiKey::Heartbeat,
            Self::LeaveGroup(_) => ApiKey::LeaveGroup,
            Self::SyncGroup(_) => ApiKey::SyncGroup,
            Self::DescribeGroups(_) => ApiKey::DescribeGroups,
            Self::ListGroups(_) => ApiKey::ListGroups,
            Self::SaslHandshake(_) => ApiKey::SaslHandshake,
            Self::ApiVersions(_) => ApiKey::ApiVersions,
            Self::CreateTopics(_) => ApiKey::CreateTopics,
            Self::DeleteTopics(_) => ApiKey::DeleteTopics,
            Self::DeleteRecords(_) => ApiKey::DeleteRecords,
            Self::InitProducerId(_) => ApiKey::InitProducerId,
            Self::OffsetForLeaderEpoch(_) => ApiKey::OffsetForLeaderEpoch,
            Self::AddPartitionsToTxn(_) => ApiKey::AddPartitionsToTxn,
            Self::AddOffsetsToTxn(_) => ApiKey::AddOffsetsToTxn,
            Self::EndTxn(_) => ApiKey::EndTxn,
            Self::WriteTxnMarkers(_) => ApiKey::WriteTxnMarkers,
            Self::TxnOffsetCommit(_) => ApiKey::TxnOffsetCommit,
            Self::DescribeAcls(_) => ApiKey::DescribeAcls,
            Self::CreateAcls(_) => ApiKey::CreateAcls,
            Self::DeleteAcls(_) => ApiKey::DeleteAcls,
            Self::DescribeConfigs(_) => ApiKey::DescribeConfigs,
            Self::AlterConfigs(_) => ApiKey::AlterConfigs,
            Self::AlterReplicaLogDirs(_) => ApiKey::AlterReplicaLogDirs,
            Self::DescribeLogDirs(_) => ApiKey::DescribeLogDirs,
            Self::SaslAuthenticate(_) => ApiKey::SaslAuthenticate,
            Self::CreatePartitions(_) => ApiKey::CreatePartitions,
            Self::DeleteGroups(_) => ApiKey::DeleteGroups,
            Self::ElectLeaders(_) => ApiKey::ElectLeaders,
            Self::IncrementalAlterConfigs(_) => ApiKey::IncrementalAlterConfigs,
            Self::AlterPartitionReassignments(_) => ApiKey::AlterPartitionReassignments,
            Self::ListPartitionReassignments(_) => ApiKey::ListPartitionReassignments,
            Self::OffsetDelete(_) => ApiKey::OffsetDelete,
            Self::DescribeQuorum(_) => ApiKey::DescribeQuorum,
            Self::UpdateFeatures(_) => ApiKey::UpdateFeatures,
            Self::DescribeCluster(_) => ApiKey::DescribeCluster,
            Self::DescribeProducers(_) => ApiKey::DescribeProducers,
            Self::DescribeTransactions(_) => ApiKey::DescribeTransactions,
            Self::ListTransactions(_) => ApiKey::ListTransactions,
            Self::ConsumerGroupHeartbeat(_) => ApiKey::ConsumerGroupHeartbeat,
            Self::ConsumerGroupDescribe(_) => ApiKey::ConsumerGroupDescribe,
            Self::ListConfigResources(_) => ApiKey::ListConfigResources,
            Self::DescribeTopicPartitions(_) => ApiKey::DescribeTopicPartitions,
            Self::StreamsGroupHeartbeat(_) => ApiKey::StreamsGroupHeartbeat,
            Self::StreamsGroupDescribe(_) => ApiKey::StreamsGroupDescribe,
        }
    }

    /// Reads the message of this API, and leaves `reader` behind it.
    pub fn decode(key: ApiKey, reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        Ok(match key {
            ApiKey::Produce => Self::Produce(Message::decode(reader, version)?),
            ApiKey::Fetch => Self::Fetch(Message::decode(reader, version)?),
            ApiKey::ListOffsets => Self::ListOffsets(Message::decode(reader, version)?),
            ApiKey::Metadata => Self::Metadata(Message::decode(reader, version)?),
            ApiKey::OffsetCommit => Self::OffsetCommit(Message::decode(reader, version)?),
            ApiKey::OffsetFetch => Self::OffsetFetch(Message::decode(reader, version)?),
            ApiKey::FindCoordinator => Self::FindCoordinator(Message::decode(reader, version)?),
            ApiKey::JoinGroup => Self::JoinGroup(Message::decode(reader, version)?),
            ApiKey::Heartbeat => Self::Heartbeat(Message::decode(reader, version)?),
            ApiKey::LeaveGroup => Self::LeaveGroup(Message::decode(reader, version)?),
            ApiKey::SyncGroup => Self::SyncGroup(Message::decode(reader, version)?),
            ApiKey::DescribeGroups => Self::DescribeGroups(Message::decode(reader, version)?),
            ApiKey::ListGroups => Self::ListGroups(Message::decode(reader, version)?),
            ApiKey::SaslHandshake => Self::SaslHandshake(Message::decode(reader, version)?),
            ApiKey::ApiVersions => Self::ApiVersions(Message::decode(reader, version)?),
            ApiKey::CreateTopics => Self::CreateTopics(Message::decode(reader, version)?),
            ApiKey::DeleteTopics => Self::DeleteTopics(Message::decode(reader, version)?),
            ApiKey::DeleteRecords => Self::DeleteRecords(Message::decode(reader, version)?),
            ApiKey::InitProducerId => Self::InitProducerId(Message::decode(reader, version)?),
            ApiKey::OffsetForLeaderEpoch => Self::OffsetForLeaderEpoch(Message::decode(reader, version)?),
            ApiKey::AddPartitionsToTxn => Self::AddPartitionsToTxn(Message::decode(reader, version)?),
            ApiKey::AddOffsetsToTxn => Self::AddOffsetsToTxn(Message::decode(reader, version)?),
            ApiKey::EndTxn => Self::EndTxn(Message::decode(reader, version)?),
            ApiKey::WriteTxnMarkers => Self::WriteTxnMarkers(Message::decode(reader, version)?),
            ApiKey::TxnOffsetCommit => Self::TxnOffsetCommit(Message::decode(reader, version)?),
            ApiKey::DescribeAcls => Self::DescribeAcls(Message::decode(reader, version)?),
            ApiKey::CreateAcls => Self::CreateAcls(Message::decode(reader, version)?),
            ApiKey::DeleteAcls => Self::DeleteAcls(Message::decode(reader, version)?),
            ApiKey::DescribeConfigs => Self::DescribeConfigs(Message::decode(reader, version)?),
            ApiKey::AlterConfigs => Self::AlterConfigs(Message::decode(reader, version)?),
            ApiKey::AlterReplicaLogDirs => Self::AlterReplicaLogDirs(Message::decode(reader, version)?),
            ApiKey::DescribeLogDirs => Self::DescribeLogDirs(Message::decode(reader, version)?),
            ApiKey::SaslAuthenticate => Self::SaslAuthenticate(Message::decode(reader, version)?),
            ApiKey::CreatePartitions => Self::CreatePartitions(Message::decode(reader, version)?),
            ApiKey::DeleteGroups => Self::DeleteGroups(Message::decode(reader, version)?),
            ApiKey::ElectLeaders => Self::ElectLeaders(Message::decode(reader, version)?),
            ApiKey::IncrementalAlterConfigs => Self::IncrementalAlterConfigs(Message::decode(reader, version)?),
            ApiKey::AlterPartitionReassignments => Self::AlterPartitionReassignments(Message::decode(reader, version)?),
            ApiKey::ListPartitionReassignments => Self::ListPartitionReassignments(Message::decode(reader, version)?),
            ApiKey::OffsetDelete => Self::OffsetDelete(Message::decode(reader, version)?),
            ApiKey::DescribeQuorum => Self::DescribeQuorum(Message::decode(reader, version)?),
            ApiKey::UpdateFeatures => Self::UpdateFeatures(Message::decode(reader, version)?),
            ApiKey::DescribeCluster => Self::DescribeCluster(Message::decode(reader, version)?),
            ApiKey::DescribeProducers => Self::DescribeProducers(Message::decode(reader, version)?),
            ApiKey::DescribeTransactions => Self::DescribeTransactions(Message::decode(reader, version)?),
            ApiKey::ListTransactions => Self::ListTransactions(Message::decode(reader, version)?),
            ApiKey::ConsumerGroupHeartbeat => Self::ConsumerGroupHeartbeat(Message::decode(reader, version)?),
            ApiKey::ConsumerGroupDescribe => Self::ConsumerGroupDescribe(Message::decode(reader, version)?),
            ApiKey::ListConfigResources => Self::ListConfigResources(Message::decode(reader, version)?),
            ApiKey::DescribeTopicPartitions => Self::DescribeTopicPartitions(Message::decode(reader, version)?),
            ApiKey::StreamsGroupHeartbeat => Self::StreamsGroupHeartbeat(Message::decode(reader, version)?),
            ApiKey::StreamsGroupDescribe => Self::StreamsGroupDescribe(Message::decode(reader, version)?),
        })
    }

    /// Writes it as `version`.
    pub fn encode(&self, writer: &mut BytesMut, version: i16) -> Result<(), EncodeError> {
        match self {
            Self::Produce(message) => message.encode(writer, version),
            Self::Fetch(message) => message.encode(writer, version),
            Self::ListOffsets(message) => message.encode(writer, version),
            Self::Metadata(message) => message.encode(writer, version),
            Self::OffsetCommit(message) => message.encode(writer, version),
            Self::OffsetFetch(message) => message.encode(writer, version),
            Self::FindCoordinator(message) => message.encode(writer, version),
            Self::JoinGroup(message) => message.encode(writer, version),
            Self::Heartbeat(message) => message.encode(writer, version),
            Self::LeaveGroup(message) => message.encode(writer, version),
            Self::SyncGroup(message) => message.encode(writer, version),
            Self::DescribeGroups(message) => message.encode(writer, version),
            Self::ListGroups(message) => message.encode(writer, version),
            Self::SaslHandshake(message) => message.encode(writer, version),
            Self::ApiVersions(message) => message.encode(writer, version),
            Self::CreateTopics(message) => message.encode(writer, version),
            Self::DeleteTopics(message) => message.encode(writer, version),
            Self::DeleteRecords(message) => message.encode(writer, version),
            Self::InitProducerId(message) => message.encode(writer, version),
            Self::OffsetForLeaderEpoch(message) => message.encode(writer, version),
            Self::AddPartitionsToTxn(message) => message.encode(writer, version),
            Self::AddOffsetsToTxn(message) => message.encode(writer, version),
            Self::EndTxn(message) => message.encode(writer, version),
            Self::WriteTxnMarkers(message) => message.encode(writer, version),
            Self::TxnOffsetCommit(message) => message.encode(writer, version),
            Self::DescribeAcls(message) => message.encode(writer, version),
            Self::CreateAcls(message) => message.encode(writer, version),
            Self::DeleteAcls(message) => message.encode(writer, version),
            Self::DescribeConfigs(message) => message.encode(writer, version),
            Self::AlterConfigs(message) => message.encode(writer, version),
            Self::AlterReplicaLogDirs(message) => message.encode(writer, version),
            Self::DescribeLogDirs(message) => message.encode(writer, version),
            Self::SaslAuthenticate(message) => message.encode(writer, version),
            Self::CreatePartitions(message) => message.encode(writer, version),
            Self::DeleteGroups(message) => message.encode(writer, version),
            Self::ElectLeaders(message) => message.encode(writer, version),
            Self::IncrementalAlterConfigs(message) => message.encode(writer, version),
            Self::AlterPartitionReassignments(message) => message.encode(writer, version),
            Self::ListPartitionReassignments(message) => message.encode(writer, version),
            Self::OffsetDelete(message) => message.encode(writer, version),
            Self::DescribeQuorum(message) => message.encode(writer, version),
            Self::UpdateFeatures(message) => message.encode(writer, version),
            Self::DescribeCluster(message) => message.encode(writer, version),
            Self::DescribeProducers(message) => message.encode(writer, version),
            Self::DescribeTransactions(message) => message.encode(writer, version),
            Self::ListTransactions(message) => message.encode(writer, version),
            Self::ConsumerGroupHeartbeat(message) => message.encode(writer, version),
            Self::ConsumerGroupDescribe(message) => message.encode(writer, version),
            Self::ListConfigResources(message) => message.encode(writer, version),
            Self::DescribeTopicPartitions(message) => message.encode(writer, version),
            Self::StreamsGroupHeartbeat(message) => message.encode(writer, version),
            Self::StreamsGroupDescribe(message) => message.encode(writer, version),
        }
    }
}
