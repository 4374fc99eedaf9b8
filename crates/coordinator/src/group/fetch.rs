//! OffsetFetch: read committed offsets.

use std::sync::Arc;

use atonce_kernel::{TopicId, TopicPartition};
use atonce_protocol::ErrorCode;

use super::command::OffsetFetch;
use super::offsets::Stored;
use super::reply::{FetchedOffset, Reply};
use super::{GroupCoordinator, consumer};
use crate::shard::{Context, Decision};

/// Reads offsets. A group that is not there has none; that is not an error.
///
/// Shape: nothing changes.
/// Retry: safe.
/// Refuses all, in a consumer group: `UnknownMemberId`, `StaleMemberEpoch` if a member and its epoch are named, `UnknownServerError` if only an
///   epoch is. Refuses one with `UnstableOffsetCommit` if only stable ones are wanted and a transaction that is still open would move it.
/// Durability: the offsets read may be staged only; the answer waits for the journal position that holds them, like
///   any other.
/// Source: KIP-447 (`require_stable`), KIP-709 (many groups), KIP-848 (topic ids).
pub(super) fn decide(shard: &GroupCoordinator, context: &Context, fetch: &OffsetFetch) -> Decision<GroupCoordinator> {
    let one = |at: &TopicPartition, topic_id: TopicId, stored: Option<&Stored>| {
        if fetch.require_stable && shard.offsets.is_pending(&fetch.group, at) {
            return FetchedOffset { error: ErrorCode::UnstableOffsetCommit, ..no_offset(at, topic_id) };
        }
        // An offset of a topic that was deleted, and whose name another one has now, is nobody's.
        let is_same_topic = |stored: &&Stored| {
            let known = stored.value.topic_id;
            known.is_zero() || topic_id.is_zero() || known == topic_id
        };
        stored.filter(is_same_topic).map_or_else(|| no_offset(at, topic_id), |stored| found(at, topic_id, stored))
    };
    if let Some(group) = shard.consumer_group(&fetch.group)
        && let Err(error) = consumer::validate_fetch(group, fetch.member.as_ref(), fetch.epoch)
    {
        return Decision::reply(context.waiter, Reply::OffsetsFetched(Err(error)));
    }
    let offsets = match &fetch.partitions {
        Some(partitions) => partitions
            .iter()
            .map(|asked| {
                let stored = shard.offsets.get(&fetch.group, &asked.topic_partition);
                one(&asked.topic_partition, asked.topic_id, stored)
            })
            .collect(),
        None => shard
            .offsets
            .of_group(&fetch.group)
            .map(|(at, stored)| one(at, stored.value.topic_id, Some(stored)))
            .collect(),
    };
    Decision::reply(context.waiter, Reply::OffsetsFetched(Ok(offsets)))
}

fn no_offset(at: &TopicPartition, topic_id: TopicId) -> FetchedOffset {
    FetchedOffset {
        topic_partition: at.clone(),
        topic_id,
        offset: -1,
        leader_epoch: -1,
        metadata: Arc::from(""),
        error: ErrorCode::None,
    }
}

fn found(at: &TopicPartition, topic_id: TopicId, stored: &Stored) -> FetchedOffset {
    FetchedOffset {
        offset: stored.value.offset,
        leader_epoch: stored.value.leader_epoch,
        metadata: Arc::clone(&stored.value.metadata),
        ..no_offset(at, topic_id)
    }
}
