//! OffsetCommit (key 8), versions 2 to 10: stores a group's offsets, at once.
//!
//! - 2 to 4: how long to keep them. 3: throttle time. 6: leader epochs. 7: static members. 8: flexible.
//! - 9: GROUP_ID_NOT_FOUND. 10: topic ids.

use atonce_coordinator::group::{Command, Reply as Decided, wire};
use atonce_protocol::messages::offset_commit_request::OffsetCommitRequest;
use atonce_protocol::messages::offset_commit_response::OffsetCommitResponse;
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call, Reply};
use crate::engine::Engine;

pub(super) const API: Api =
    Api { key: ApiKey::OffsetCommit, versions: 2..=10, run: |incoming| incoming.on_engine(handle) };

fn handle(engine: &mut Engine, call: &Call, request: OffsetCommitRequest, reply: Reply<OffsetCommitResponse>) {
    let (commit, asked) = wire::offset_commit(&request, call.version, engine);
    let response = if asked.is_all_refused() {
        asked.offset_commit_response(Ok(&[]))
    } else {
        let partition = engine.group_partition(&commit.group);
        match engine.groups_now(partition, &Command::OffsetCommit(commit), None) {
            Ok(Decided::OffsetsCommitted(answers)) => asked.offset_commit_response(Ok(&answers)),
            Ok(_) => asked.offset_commit_response(Err(ErrorCode::UnknownServerError)),
            Err(code) => asked.offset_commit_response(Err(code)),
        }
    };
    engine.answer(reply, response);
}
