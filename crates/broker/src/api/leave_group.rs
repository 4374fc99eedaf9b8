//! LeaveGroup (key 13), versions 0 to 5: members leave, or have static members removed.
//!
//! - 1: throttle time. 3: several members, static ones by their own names. 4: flexible. 5: a reason.

use atonce_coordinator::group::{Command, Reply as Decided, wire};
use atonce_protocol::messages::leave_group_request::LeaveGroupRequest;
use atonce_protocol::messages::leave_group_response::LeaveGroupResponse;
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call, Reply};
use crate::engine::Engine;

pub(super) const API: Api =
    Api { key: ApiKey::LeaveGroup, versions: 0..=5, run: |incoming| incoming.on_engine(handle) };

fn handle(engine: &mut Engine, call: &Call, request: LeaveGroupRequest, reply: Reply<LeaveGroupResponse>) {
    let leave = wire::leave_group(&request, call.version);
    let partition = engine.group_partition(&leave.group);
    let left = match engine.groups_now(partition, &Command::LeaveGroup(leave), None) {
        Ok(Decided::LeaveGroup(left)) => left,
        Ok(_) => Err(ErrorCode::UnknownServerError),
        Err(code) => Err(code),
    };
    engine.answer(reply, wire::leave_group_response(&left, call.version));
}
