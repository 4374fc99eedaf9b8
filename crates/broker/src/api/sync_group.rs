//! SyncGroup (key 14), versions 0 to 5: brings the leader's assignment, and fetches one's own.
//!
//! - 1: throttle time. 3: static members. 4: flexible. 5: the protocol's type and name, which must be the group's.

use atonce_coordinator::group::{Command, Reply as Decided, wire};
use atonce_protocol::messages::sync_group_request::SyncGroupRequest;
use atonce_protocol::messages::sync_group_response::SyncGroupResponse;
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call, Reply};
use crate::engine::{Engine, Held};

pub(super) const API: Api =
    Api { key: ApiKey::SyncGroup, versions: 0..=5, run: |incoming| incoming.on_engine_held(handle) };

fn handle(engine: &mut Engine, call: &Call, request: SyncGroupRequest, reply: Reply<SyncGroupResponse>, held: &Held) {
    let sync = wire::sync_group(&request, call.version);
    let group = sync.group.clone();
    engine.ask_groups(&group, &Command::SyncGroup(sync), held, move |engine, decided| {
        let synced = match decided {
            Ok(Decided::SyncGroup(synced)) => synced,
            Ok(_) => Err(ErrorCode::UnknownServerError),
            Err(code) => Err(code),
        };
        engine.answer(reply, wire::sync_group_response(&synced));
    });
}
