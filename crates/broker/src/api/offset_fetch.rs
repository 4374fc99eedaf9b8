//! OffsetFetch (key 9), versions 1 to 10: what groups have committed.
//!
//! - 2: all topics. 3: throttle time. 5: leader epochs. 6: flexible. 7: refuse what a transaction has not decided yet
//!   (KIP-447). 8: several groups. 9: member and epoch of the newer group protocol (KIP-848). 10: topic ids.

//!
//! A request may name millions of partitions: the writer is asked for some thousands at a time, and does others' work between.

use atonce_coordinator::group::command::OffsetFetch;
use atonce_coordinator::group::reply::FetchedOffset;
use atonce_coordinator::group::{Command, Reply as Decided, wire};
use atonce_protocol::messages::offset_fetch_request::OffsetFetchRequest;
use atonce_protocol::messages::offset_fetch_response::OffsetFetchResponse;
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call};
use crate::engine::Engine;

pub(super) const API: Api =
    Api { key: ApiKey::OffsetFetch, versions: 1..=10, run: |incoming| incoming.in_place(handle) };

/// Partitions and groups that are looked up in one piece of the writer's work: a few milliseconds of it.
const LOOK_UPS_PER_PIECE: usize = 5_000;

type Fetched = Result<Vec<FetchedOffset>, ErrorCode>;

async fn handle(call: Call, request: OffsetFetchRequest) -> OffsetFetchResponse {
    let topics = call.shared.directory.topics();
    let mut answers = Vec::new();
    let (mut piece, mut look_ups) = (Vec::new(), 0);
    for (fetch, asked) in wire::offset_fetch(&request, call.version, &*topics) {
        let group = answers.len();
        answers.push((asked, Ok(Vec::new())));
        for part in in_parts(fetch) {
            look_ups += 1 + part.partitions.as_ref().map_or(0, Vec::len);
            piece.push((group, part));
            if look_ups >= LOOK_UPS_PER_PIECE {
                look_up(&call, std::mem::take(&mut piece), &mut answers).await;
                look_ups = 0;
            }
        }
    }
    if !piece.is_empty() {
        look_up(&call, piece, &mut answers).await;
    }
    wire::offset_fetch_response(&answers, call.version, &*topics)
}

/// A fetch as several, each of which names so many partitions at most.
fn in_parts(mut fetch: OffsetFetch) -> Vec<OffsetFetch> {
    match fetch.partitions.take() {
        Some(partitions) if partitions.len() > LOOK_UPS_PER_PIECE => partitions
            .chunks(LOOK_UPS_PER_PIECE)
            .map(|part| OffsetFetch { partitions: Some(part.to_vec()), ..fetch.clone() })
            .collect(),
        partitions => vec![OffsetFetch { partitions, ..fetch }],
    }
}

/// Has the writer look up one piece, whose parts name the answers that they belong to.
async fn look_up<A>(call: &Call, piece: Vec<(usize, OffsetFetch)>, answers: &mut [(A, Fetched)]) {
    let groups: Vec<usize> = piece.iter().map(|(group, _)| *group).collect();
    let found = call.on_engine(move |engine| piece.into_iter().map(|(_, fetch)| one(engine, fetch)).collect());
    // The broker is stopping. No answer may look as if there were no offsets.
    let stopping = || groups.iter().map(|_| Err(ErrorCode::CoordinatorNotAvailable)).collect();
    let found: Vec<Fetched> = found.await.unwrap_or_else(stopping);
    for (group, found) in groups.into_iter().zip(found) {
        let Some((_, answer)) = answers.get_mut(group) else { continue };
        match (found, answer) {
            (Ok(more), Ok(offsets)) => offsets.extend(more),
            (Err(code), answer) => *answer = Err(code),
            (Ok(_), Err(_)) => {}
        }
    }
}

fn one(engine: &mut Engine, fetch: OffsetFetch) -> Fetched {
    let partition = engine.group_partition(&fetch.group);
    match engine.groups_now(partition, &Command::OffsetFetch(fetch), None) {
        Ok(Decided::OffsetsFetched(offsets)) => offsets,
        Ok(_) => Err(ErrorCode::UnknownServerError),
        Err(code) => Err(code),
    }
}
