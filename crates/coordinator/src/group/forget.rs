//! The ways that offsets and groups go: OffsetDelete, DeleteGroups, partitions that are no more.

use std::collections::BTreeSet;

use atonce_kernel::{GroupId, TopicPartition};
use atonce_protocol::ErrorCode;

use super::command::{DeleteGroups, OffsetDelete};
use super::record::Record;
use super::reply::Reply;
use super::{GroupCoordinator, Kind, consumer};
use crate::shard::{Context, Decision};

/// Forgets offsets, those that open transactions hold too.
///
/// Shape: none; a tombstone for each offset that is there.
/// Retry: safe; what is not there is deleted without an error.
/// Refuses all with `InvalidGroupId` if empty, `GroupIdNotFound`, `NonEmptyGroup` if the members are not consumers, as
///   then nobody knows what they read. Refuses one with `GroupSubscribedToTopic`.
/// Source: KIP-496.
pub(super) fn offset_delete(
    shard: &GroupCoordinator,
    context: &Context,
    delete: &OffsetDelete,
) -> Decision<GroupCoordinator> {
    let refuse = |error| Decision::reply(context.waiter, Reply::OffsetsDeleted(Err(error)));
    if delete.group.as_str().is_empty() {
        return refuse(ErrorCode::InvalidGroupId);
    }
    let Some(group) = shard.groups.get(&delete.group) else { return refuse(ErrorCode::GroupIdNotFound) };
    let has_consumers = match &group.kind {
        Kind::Classic { classic, .. } => classic.has_consumers(),
        Kind::Consumer(_) => true,
    };
    if !group.is_empty() && !has_consumers {
        return refuse(ErrorCode::NonEmptyGroup);
    }
    let subscribed = group.subscribed();
    let mut doomed = BTreeSet::new();
    let answers = delete
        .partitions
        .iter()
        .map(|at| {
            let error = if subscribed.contains(&at.topic) {
                ErrorCode::GroupSubscribedToTopic
            } else {
                doomed.insert((delete.group.clone(), at.clone()));
                ErrorCode::None
            };
            (at.clone(), error)
        })
        .collect();
    Decision {
        records: tombstones(doomed.into_iter().filter(|(group, at)| shard.has_offset(group, at))),
        ..Decision::reply(context.waiter, Reply::OffsetsDeleted(Ok(answers)))
    }
}

/// Removes groups without members, with all their offsets.
///
/// Shape: `Empty → Dead`: tombstones, the offsets' first, so that a crash between them leaves a group that can be deleted again.
/// Retry: a group that is gone is `GroupIdNotFound`. A group asked for twice is answered once.
/// Refuses one with `GroupIdNotFound`, or `NonEmptyGroup` if it has members.
/// Source: KIP-229.
pub(super) fn delete_groups(
    shard: &GroupCoordinator,
    context: &Context,
    delete: &DeleteGroups,
) -> Decision<GroupCoordinator> {
    let mut records = Vec::new();
    let mut answers: Vec<(GroupId, ErrorCode)> = Vec::with_capacity(delete.groups.len());
    let mut asked = BTreeSet::new();
    for id in delete.groups.iter().filter(|id| asked.insert(*id)) {
        let error = match shard.groups.get(id) {
            None => ErrorCode::GroupIdNotFound,
            Some(group) if group.is_empty() => {
                records.extend(remove_group(shard, context, id));
                ErrorCode::None
            }
            Some(_) => ErrorCode::NonEmptyGroup,
        };
        answers.push((id.clone(), error));
    }
    Decision { records, ..Decision::reply(context.waiter, Reply::GroupsDeleted(answers)) }
}

/// Nobody can read these partitions any more: no group keeps an offset in them, nor does an open transaction.
///
/// Shape: none; a tombstone for each offset.
/// Retry: safe.
pub(super) fn partitions_deleted(
    shard: &GroupCoordinator,
    partitions: &[TopicPartition],
) -> Decision<GroupCoordinator> {
    let gone: BTreeSet<&TopicPartition> = partitions.iter().collect();
    Decision { records: tombstones(shard.offsets.within(&gone)), ..Decision::nothing() }
}

/// Tombstones for a group and all its offsets, pending ones too.
pub(super) fn remove_group(shard: &GroupCoordinator, context: &Context, id: &GroupId) -> Vec<Record> {
    let committed = shard.offsets.of_group(id).map(|(at, _)| at);
    let all: BTreeSet<_> = committed.chain(shard.offsets.pending_of_group(id)).collect();
    let mut records = tombstones(all.into_iter().map(|at| (id.clone(), at.clone())));
    match shard.groups.get(id).map(|group| &group.kind) {
        Some(Kind::Consumer(group)) => records.extend(consumer::tombstones(shard, context, id, group)),
        Some(Kind::Classic { .. }) | None => records.push(Record::Group { group: id.clone(), metadata: None }),
    }
    records
}

pub(super) fn tombstones(doomed: impl IntoIterator<Item = (GroupId, TopicPartition)>) -> Vec<Record> {
    doomed.into_iter().map(|(group, topic_partition)| Record::Offset { group, topic_partition, value: None }).collect()
}
