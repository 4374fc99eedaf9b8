//! DeleteGroups (key 42), versions 0 to 3: removes groups without members, with their offsets; each once, however often it is named.
//!
//! - 1: throttle time. 2: flexible. 3: error messages.

use atonce_coordinator::group::command::DeleteGroups;
use atonce_coordinator::group::{Command, Reply as Decided, wire};
use atonce_kernel::GroupId;
use atonce_protocol::messages::delete_groups_request::DeleteGroupsRequest;
use atonce_protocol::messages::delete_groups_response::DeleteGroupsResponse;
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call, Reply};
use crate::engine::Engine;

pub(super) const API: Api =
    Api { key: ApiKey::DeleteGroups, versions: 0..=3, run: |incoming| incoming.on_engine(handle) };

fn handle(engine: &mut Engine, _call: &Call, mut request: DeleteGroupsRequest, reply: Reply<DeleteGroupsResponse>) {
    super::without_repetition(&mut request.groups_names, String::clone);
    let deleted: Vec<(GroupId, ErrorCode)> = request
        .groups_names
        .into_iter()
        .map(|name| {
            let group = GroupId::from(name);
            let command = Command::DeleteGroups(DeleteGroups { groups: vec![group.clone()] });
            let code = match engine.groups_now(engine.group_partition(&group), &command, None) {
                Ok(Decided::GroupsDeleted(deleted)) => deleted.first().map_or(ErrorCode::UnknownServerError, |it| it.1),
                Ok(_) => ErrorCode::UnknownServerError,
                Err(code) => code,
            };
            (group, code)
        })
        .collect();
    engine.answer(reply, wire::delete_groups_response(&deleted));
}
