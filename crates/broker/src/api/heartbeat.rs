//! Heartbeat (key 12), versions 0 to 4: a member's sign of life; the answer says whether to join again.
//!
//! - 1: throttle time. 3: static members. 4: flexible.

use atonce_coordinator::group::{Command, Reply as Decided, wire};
use atonce_protocol::messages::heartbeat_request::HeartbeatRequest;
use atonce_protocol::messages::heartbeat_response::HeartbeatResponse;
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call, Reply};
use crate::engine::Engine;

pub(super) const API: Api = Api { key: ApiKey::Heartbeat, versions: 0..=4, run: |incoming| incoming.on_engine(handle) };

fn handle(engine: &mut Engine, _call: &Call, request: HeartbeatRequest, reply: Reply<HeartbeatResponse>) {
    let heartbeat = wire::heartbeat(&request);
    let partition = engine.group_partition(&heartbeat.group);
    let code = match engine.groups_now(partition, &Command::Heartbeat(heartbeat), None) {
        Ok(Decided::Heartbeat(code)) | Err(code) => code,
        Ok(_) => ErrorCode::UnknownServerError,
    };
    engine.answer(reply, wire::heartbeat_response(code));
}
