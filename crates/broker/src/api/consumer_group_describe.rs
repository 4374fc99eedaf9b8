//! ConsumerGroupDescribe (key 69), versions 0 and 1: consumer groups with their members (KIP-848).
//!
//! - 1: which protocol a member speaks.

use atonce_coordinator::group::consumer::command::ConsumerGroupDescribe;
use atonce_coordinator::group::consumer::wire::Described;
use atonce_coordinator::group::{Command, Reply as Decided, consumer};
use atonce_kernel::GroupId;
use atonce_protocol::messages::consumer_group_describe_request::ConsumerGroupDescribeRequest;
use atonce_protocol::messages::consumer_group_describe_response::ConsumerGroupDescribeResponse;
use atonce_protocol::{ApiKey, ErrorCode};

use super::describe_groups::ALL_GROUP_OPERATIONS;
use super::{Api, Call, Reply};
use crate::engine::Engine;
use crate::features;

pub(super) const API: Api =
    Api { key: ApiKey::ConsumerGroupDescribe, versions: 0..=1, run: |incoming| incoming.on_engine_in_turn(handle) };

fn handle(
    engine: &mut Engine,
    _call: &Call,
    mut request: ConsumerGroupDescribeRequest,
    reply: Reply<ConsumerGroupDescribeResponse>,
) {
    super::with_few_repetitions(&mut request.group_ids, String::clone);
    let groups: Vec<Described> = request.group_ids.iter().map(|id| describe(engine, &GroupId::from(id))).collect();
    let mut response = consumer::wire::describe_response(&groups);
    if request.include_authorized_operations {
        for group in response.groups.iter_mut().filter(|group| group.error_code == ErrorCode::None.to_i16()) {
            group.authorized_operations = ALL_GROUP_OPERATIONS;
        }
    }
    engine.answer(reply, response);
}

fn describe(engine: &mut Engine, group: &GroupId) -> Described {
    let refuse = |error: ErrorCode| Err((group.clone(), error, error.message().to_owned()));
    if !features::has_consumer_groups(&engine.dynamic()) {
        return refuse(ErrorCode::UnsupportedVersion);
    }
    if group.as_str().is_empty() {
        return refuse(ErrorCode::InvalidGroupId);
    }
    let command = Command::ConsumerGroupDescribe(ConsumerGroupDescribe { groups: vec![group.clone()] });
    match engine.groups_now(engine.group_partition(group), &command, None) {
        Ok(Decided::ConsumerGroupsDescribed(mut described)) => {
            described.pop().unwrap_or_else(|| refuse(ErrorCode::UnknownServerError))
        }
        Ok(_) => refuse(ErrorCode::UnknownServerError),
        Err(error) => refuse(error),
    }
}
