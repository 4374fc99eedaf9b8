//! ListPartitionReassignments (key 46), version 0: which partitions are being moved. One node moves none.

use atonce_protocol::ApiKey;
use atonce_protocol::messages::list_partition_reassignments_request::ListPartitionReassignmentsRequest;
use atonce_protocol::messages::list_partition_reassignments_response::ListPartitionReassignmentsResponse;

use super::{Api, Call};

pub(super) const API: Api =
    Api { key: ApiKey::ListPartitionReassignments, versions: 0..=0, run: |incoming| incoming.in_place(handle) };

async fn handle(_call: Call, _request: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse {
    ListPartitionReassignmentsResponse { error_message: None, ..Default::default() }
}
