//! ConsumerGroupHeartbeat (key 68), versions 0 and 1: joins a consumer group, stays in it, leaves it (KIP-848).
//!
//! Refused with UNSUPPORTED_VERSION where the feature `group.version` was lowered to 0.
//!
//! - 1: subscription by pattern; the member chooses its id.

use atonce_coordinator::group::consumer::command::GroupSettings;
use atonce_coordinator::group::{Command, Reply as Decided, consumer, wire};
use atonce_protocol::messages::consumer_group_heartbeat_request::ConsumerGroupHeartbeatRequest;
use atonce_protocol::messages::consumer_group_heartbeat_response::ConsumerGroupHeartbeatResponse;
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call, Reply};
use crate::engine::Engine;
use crate::features;

pub(super) const API: Api =
    Api { key: ApiKey::ConsumerGroupHeartbeat, versions: 0..=1, run: |incoming| incoming.on_engine(handle) };

fn handle(
    engine: &mut Engine,
    call: &Call,
    request: ConsumerGroupHeartbeatRequest,
    reply: Reply<ConsumerGroupHeartbeatResponse>,
) {
    let caller = wire::Caller { client_id: call.client_id.as_deref().unwrap_or_default(), host: &call.peer.host };
    let refuse = |error: ErrorCode| consumer::wire::heartbeat_refusal(error, error.message().to_owned());
    if !features::has_consumer_groups(&engine.dynamic()) {
        return engine.answer(reply, refuse(ErrorCode::UnsupportedVersion));
    }
    let number = |key| engine.group_config(&request.group_id, key).and_then(|value| value.parse().ok());
    let settings = GroupSettings {
        heartbeat_interval_ms: number("consumer.heartbeat.interval.ms"),
        session_timeout_ms: number("consumer.session.timeout.ms"),
    };
    let beat = consumer::wire::heartbeat(&request, call.version, &caller, settings);
    let partition = engine.group_partition(&beat.group);
    let response = match engine.groups_now(partition, &Command::ConsumerGroupHeartbeat(beat), None) {
        Ok(Decided::ConsumerGroupHeartbeat(decided)) => consumer::wire::heartbeat_response(&decided),
        Ok(_) => refuse(ErrorCode::UnknownServerError),
        Err(error) => refuse(error),
    };
    engine.answer(reply, response);
}
