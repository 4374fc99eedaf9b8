//! DescribeCluster (key 60), versions 0 to 2: this node, which is the whole cluster.
//!
//! - 1: brokers or controllers (the node is both; controllers are not asked for at a broker: UNSUPPORTED_ENDPOINT_TYPE).
//! - 2: fenced brokers, which there are none of.

use atonce_protocol::messages::describe_cluster_request::DescribeClusterRequest;
use atonce_protocol::messages::describe_cluster_response::{DescribeClusterBroker, DescribeClusterResponse};
use atonce_protocol::{ApiKey, ErrorCode};

use super::metadata::{ALL_CLUSTER_OPERATIONS, OPERATIONS_NOT_ASKED};
use super::{Api, Call};

pub(super) const API: Api =
    Api { key: ApiKey::DescribeCluster, versions: 0..=2, run: |incoming| incoming.in_place(handle) };

const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

async fn handle(call: Call, request: DescribeClusterRequest) -> DescribeClusterResponse {
    let refused = match request.endpoint_type {
        BROKERS => None,
        CONTROLLERS => {
            let message =
                "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER";
            Some((ErrorCode::MismatchedEndpointType, message.to_owned()))
        }
        other => Some((ErrorCode::UnsupportedEndpointType, format!("Unsupported endpoint type {other}"))),
    };
    if let Some((code, message)) = refused {
        return DescribeClusterResponse {
            error_code: code.to_i16(),
            error_message: Some(message),
            ..Default::default()
        };
    }
    let (host, port) = call.peer.advertised.clone();
    let node_id = call.shared.settings.node_id;
    DescribeClusterResponse {
        cluster_id: call.shared.cluster_id.clone(),
        controller_id: node_id,
        brokers: vec![DescribeClusterBroker { broker_id: node_id, host, port: i32::from(port), ..Default::default() }],
        cluster_authorized_operations: if request.include_cluster_authorized_operations {
            ALL_CLUSTER_OPERATIONS
        } else {
            OPERATIONS_NOT_ASKED
        },
        ..Default::default()
    }
}
