//! FindCoordinator (key 10), versions 0 to 6: where a group's or a transactional id's coordinator is. Always here.
//!
//! - 1: the kind of key (group or transaction). 3: flexible. 4: several keys at once.
//! - 5: TRANSACTION_ABORTABLE may be answered (it is not). 6: share groups (not served: INVALID_REQUEST).

use atonce_protocol::messages::find_coordinator_request::FindCoordinatorRequest;
use atonce_protocol::messages::find_coordinator_response::{Coordinator, FindCoordinatorResponse};
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call};

pub(super) const API: Api =
    Api { key: ApiKey::FindCoordinator, versions: 0..=6, run: |incoming| incoming.in_place(handle) };

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;

async fn handle(call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse {
    let code = match request.key_type {
        GROUP | TRANSACTION => ErrorCode::None,
        _ => ErrorCode::InvalidRequest,
    };
    let (host, port) = call.peer.advertised.clone();
    let here = code == ErrorCode::None;
    let (node_id, host, port) =
        if here { (call.shared.settings.node_id, host, i32::from(port)) } else { (-1, String::new(), -1) };
    if call.version <= 3 {
        return FindCoordinatorResponse { error_code: code.to_i16(), node_id, host, port, ..Default::default() };
    }
    let coordinators = request
        .coordinator_keys
        .into_iter()
        .map(|key| Coordinator {
            key,
            node_id,
            host: host.clone(),
            port,
            error_code: code.to_i16(),
            error_message: None,
            ..Default::default()
        })
        .collect();
    FindCoordinatorResponse { coordinators, ..Default::default() }
}
