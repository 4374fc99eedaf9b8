//! JoinGroup (key 11), versions 0 to 9: becomes a member of a classic group; the answer comes when the generation is complete.
//!
//! - 1: a time-out for rebalances. 2: throttle time. 4: MEMBER_ID_REQUIRED. 5: static members. 6: flexible.
//! - 7: the protocol's type. 8: a reason. 9: the leader may be told not to assign.

use atonce_coordinator::group::reply::JoinRefused;
use atonce_coordinator::group::{Command, Reply as Decided, wire};
use atonce_protocol::messages::join_group_request::JoinGroupRequest;
use atonce_protocol::messages::join_group_response::JoinGroupResponse;
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call, Reply};
use crate::engine::{Engine, Held};

pub(super) const API: Api =
    Api { key: ApiKey::JoinGroup, versions: 0..=9, run: |incoming| incoming.on_engine_held(handle) };

fn handle(engine: &mut Engine, call: &Call, request: JoinGroupRequest, reply: Reply<JoinGroupResponse>, held: &Held) {
    let version = call.version;
    let caller = wire::Caller { client_id: call.client_id.as_deref().unwrap_or_default(), host: &call.peer.host };
    let join = wire::join_group(&request, version, &caller);
    let group = join.group.clone();
    engine.ask_groups(&group, &Command::JoinGroup(join), held, move |engine, decided| {
        let joined = match decided {
            Ok(Decided::JoinGroup(joined)) => joined,
            Ok(_) => Err(JoinRefused { error: ErrorCode::UnknownServerError, member: None }),
            Err(error) => Err(JoinRefused { error, member: None }),
        };
        engine.answer(reply, wire::join_group_response(&joined, version));
    });
}
