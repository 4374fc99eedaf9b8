//! OffsetDelete (key 47), version 0: forgets a group's offsets in topics that it does not read any more.

use atonce_coordinator::group::{Command, Reply as Decided, wire};
use atonce_protocol::messages::offset_delete_request::OffsetDeleteRequest;
use atonce_protocol::messages::offset_delete_response::OffsetDeleteResponse;
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call, Reply};
use crate::engine::Engine;

pub(super) const API: Api =
    Api { key: ApiKey::OffsetDelete, versions: 0..=0, run: |incoming| incoming.on_engine(handle) };

fn handle(engine: &mut Engine, _call: &Call, request: OffsetDeleteRequest, reply: Reply<OffsetDeleteResponse>) {
    let (delete, asked) = wire::offset_delete(&request, engine);
    let deleted = if asked.is_all_refused() {
        Ok(Vec::new())
    } else {
        let partition = engine.group_partition(&delete.group);
        match engine.groups_now(partition, &Command::OffsetDelete(delete), None) {
            Ok(Decided::OffsetsDeleted(deleted)) => deleted,
            Ok(_) => Err(ErrorCode::UnknownServerError),
            Err(code) => Err(code),
        }
    };
    engine.answer(reply, asked.offset_delete_response(&deleted));
}
