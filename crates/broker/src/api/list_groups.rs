//! ListGroups (key 16), versions 0 to 5: all groups, or those of certain states and types.
//!
//! - 1: throttle time. 3: flexible. 4: states. 5: types.

use atonce_coordinator::group::command::ListGroups;
use atonce_coordinator::group::{Command, Reply as Decided, wire};
use atonce_protocol::messages::list_groups_request::ListGroupsRequest;
use atonce_protocol::messages::list_groups_response::ListGroupsResponse;
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call, Reply};
use crate::engine::Engine;

pub(super) const API: Api =
    Api { key: ApiKey::ListGroups, versions: 0..=5, run: |incoming| incoming.on_engine_in_turn(handle) };

fn handle(engine: &mut Engine, _call: &Call, request: ListGroupsRequest, reply: Reply<ListGroupsResponse>) {
    let command = Command::ListGroups(ListGroups { states: request.states_filter, types: request.types_filter });
    let mut groups = Vec::new();
    let mut refused = None;
    for partition in engine.group_partitions() {
        match engine.groups_now(partition, &command, None) {
            Ok(Decided::GroupsListed(listed)) => groups.extend(listed),
            Ok(_) => refused = Some(ErrorCode::UnknownServerError),
            Err(code) => refused = Some(code),
        }
    }
    let mut response = wire::list_groups_response(&groups);
    response.error_code = refused.unwrap_or(ErrorCode::None).to_i16();
    engine.answer(reply, response);
}
