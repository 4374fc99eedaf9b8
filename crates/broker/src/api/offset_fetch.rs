//! OffsetFetch (key 9), versions 1 to 10: what groups have committed.
//!
//! - 2: all topics. 3: throttle time. 5: leader epochs. 6: flexible. 7: refuse what a transaction has not decided yet
//!   (KIP-447). 8: several groups. 9: member and epoch of the newer group protocol (KIP-848). 10: topic ids.

use atonce_coordinator::group::{Command, Reply as Decided, wire};
use atonce_protocol::messages::offset_fetch_request::OffsetFetchRequest;
use atonce_protocol::messages::offset_fetch_response::OffsetFetchResponse;
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call, Reply};
use crate::engine::Engine;

pub(super) const API: Api =
    Api { key: ApiKey::OffsetFetch, versions: 1..=10, run: |incoming| incoming.on_engine_in_turn(handle) };

fn handle(engine: &mut Engine, call: &Call, request: OffsetFetchRequest, reply: Reply<OffsetFetchResponse>) {
    let answers: Vec<_> = wire::offset_fetch(&request, call.version, engine)
        .into_iter()
        .map(|(fetch, asked)| {
            let partition = engine.group_partition(&fetch.group);
            let answer = match engine.groups_now(partition, &Command::OffsetFetch(fetch), None) {
                Ok(Decided::OffsetsFetched(offsets)) => offsets,
                Ok(_) => Err(ErrorCode::UnknownServerError),
                Err(code) => Err(code),
            };
            (asked, answer)
        })
        .collect();
    let response = wire::offset_fetch_response(&answers, call.version, engine);
    engine.answer(reply, response);
}
