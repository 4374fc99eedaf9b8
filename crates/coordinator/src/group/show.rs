//! DescribeGroups and ListGroups: what there is.

use std::sync::Arc;

use atonce_kernel::GroupId;
use atonce_protocol::ErrorCode;
use bytes::Bytes;

use super::classic::Classic;
use super::command::{DescribeGroups, ListGroups};
use super::reply::{DescribedGroup, DescribedMember, GroupState, GroupType, ListedGroup, Reply};
use super::{GroupCoordinator, Kind, consumer};
use crate::shard::{Context, Decision};

/// Shows groups with their members.
///
/// Shape: nothing changes. A group that is not there, or a consumer group, is `Dead`.
/// Refuses one with `GroupIdNotFound`, from version 6 on.
/// Source: KIP-1043 for version 6.
pub(super) fn describe(
    shard: &GroupCoordinator,
    context: &Context,
    describe: &DescribeGroups,
) -> Decision<GroupCoordinator> {
    let groups = describe
        .groups
        .iter()
        .map(|id| match shard.group(id) {
            Some(group) => described(id, group),
            None => dead(shard, id, describe.version),
        })
        .collect();
    Decision::reply(context.waiter, Reply::GroupsDescribed(groups))
}

/// Lists groups by state and type.
///
/// Shape: nothing changes. A filter that names nothing we know lets nothing pass.
/// Source: KIP-518 (states), KIP-848 (types).
pub(super) fn list(shard: &GroupCoordinator, context: &Context, list: &ListGroups) -> Decision<GroupCoordinator> {
    let passes = |filter: &[String], name: String| {
        filter.is_empty() || filter.iter().any(|wanted| wanted.trim().eq_ignore_ascii_case(&name))
    };
    let groups = shard
        .groups
        .iter()
        .map(|(id, group)| match &group.kind {
            Kind::Classic { classic, .. } => ListedGroup {
                group: id.clone(),
                protocol_type: classic.protocol_type.clone().unwrap_or_default(),
                state: classic.name_of_state(),
                group_type: GroupType::Classic,
            },
            Kind::Consumer(group) => ListedGroup {
                group: id.clone(),
                protocol_type: "consumer".to_owned(),
                state: consumer::state_of(group),
                group_type: GroupType::Consumer,
            },
        })
        .filter(|group| passes(&list.states, group.state.to_string()))
        .filter(|group| passes(&list.types, group.group_type.to_string()))
        .collect();
    Decision::reply(context.waiter, Reply::GroupsListed(groups))
}

impl GroupCoordinator {
    /// Every group: its type, where it stands, and how many members it has.
    pub fn census(&self) -> impl Iterator<Item = (GroupType, GroupState, usize)> {
        self.groups.values().map(|group| match &group.kind {
            Kind::Classic { classic, .. } => (GroupType::Classic, classic.name_of_state(), classic.members.len()),
            Kind::Consumer(group) => (GroupType::Consumer, consumer::state_of(group), group.members.len()),
        })
    }
}

fn described(id: &GroupId, group: &Classic) -> DescribedGroup {
    let state = group.name_of_state();
    let is_stable = state == GroupState::Stable;
    DescribedGroup {
        group: id.clone(),
        error: ErrorCode::None,
        message: None,
        state,
        protocol_type: group.protocol_type.clone().unwrap_or_default(),
        protocol: group.protocol.clone().filter(|_| is_stable).unwrap_or_default(),
        members: group
            .members
            .iter()
            .map(|(member_id, member)| DescribedMember {
                member: member_id.clone(),
                instance: member.instance.clone(),
                client_id: Arc::clone(&member.client_id),
                client_host: Arc::clone(&member.client_host),
                metadata: if is_stable { group.metadata_of(member) } else { Bytes::new() },
                assignment: member.assignment.clone(),
            })
            .collect(),
    }
}

fn dead(shard: &GroupCoordinator, id: &GroupId, version: i16) -> DescribedGroup {
    let why = if shard.groups.contains_key(id) { "is not a classic group" } else { "not found" };
    DescribedGroup {
        group: id.clone(),
        error: if version >= 6 { ErrorCode::GroupIdNotFound } else { ErrorCode::None },
        message: (version >= 6).then(|| format!("Group {id} {why}.")),
        state: GroupState::Dead,
        protocol_type: String::new(),
        protocol: String::new(),
        members: Vec::new(),
    }
}
