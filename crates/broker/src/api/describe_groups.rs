//! DescribeGroups (key 15), versions 0 to 6: groups with their members.
//!
//! - 1: throttle time. 3: authorised operations. 4: static members. 5: flexible. 6: GROUP_ID_NOT_FOUND, with a message.

use atonce_coordinator::group::command::DescribeGroups;
use atonce_coordinator::group::reply::DescribedGroup;
use atonce_coordinator::group::{Command, GroupState, Reply as Decided, wire};
use atonce_kernel::GroupId;
use atonce_protocol::messages::describe_groups_request::DescribeGroupsRequest;
use atonce_protocol::messages::describe_groups_response::DescribeGroupsResponse;
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call, Reply};
use crate::engine::Engine;

pub(super) const API: Api =
    Api { key: ApiKey::DescribeGroups, versions: 0..=6, run: |incoming| incoming.on_engine_in_turn(handle) };

/// What one may do with a group, where nobody is denied anything: a bit for each of read, delete and describe, and for
/// describing and altering its settings.
pub(super) const ALL_GROUP_OPERATIONS: i32 = 0b1101_0100_1000;

fn handle(engine: &mut Engine, call: &Call, mut request: DescribeGroupsRequest, reply: Reply<DescribeGroupsResponse>) {
    super::with_few_repetitions(&mut request.groups, String::clone);
    let groups: Vec<DescribedGroup> =
        request.groups.iter().map(|group| describe(engine, call.version, &GroupId::from(group))).collect();
    let mut response = wire::describe_groups_response(&groups);
    if request.include_authorized_operations {
        for group in &mut response.groups {
            group.authorized_operations = ALL_GROUP_OPERATIONS;
        }
    }
    engine.answer(reply, response);
}

fn describe(engine: &mut Engine, version: i16, group: &GroupId) -> DescribedGroup {
    let refuse = |error| DescribedGroup {
        group: group.clone(),
        error,
        message: Some(error.message().to_owned()),
        state: GroupState::Dead,
        protocol_type: String::new(),
        protocol: String::new(),
        members: Vec::new(),
    };
    let command = Command::DescribeGroups(DescribeGroups { version, groups: vec![group.clone()] });
    match engine.groups_now(engine.group_partition(group), &command, None) {
        Ok(Decided::GroupsDescribed(mut described)) => {
            described.pop().unwrap_or_else(|| refuse(ErrorCode::UnknownServerError))
        }
        Ok(_) => refuse(ErrorCode::UnknownServerError),
        Err(code) => refuse(code),
    }
}
