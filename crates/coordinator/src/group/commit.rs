//! OffsetCommit and TxnOffsetCommit: store offsets, now or with a transaction.

use std::sync::Arc;

use atonce_kernel::{GroupId, GroupInstanceId, MemberId, Timestamp, TopicPartition};
use atonce_protocol::ErrorCode;

use super::classic::{Classic, State};
use super::command::{OffsetCommit, OffsetToCommit, TxnOffsetCommit};
use super::record::{CommittedOffset, NAME_BYTES_MAX, Record};
use super::reply::Reply;
use super::{GroupCoordinator, Kind, Note, consumer};
use crate::shard::{Context, Decision};

/// Stores offsets: one record each.
///
/// Shape: none of the group's; a group that is not there is made by the record (a simple group: no members, ever), if the
///   caller claims no generation. In `Stable` and `PreparingRebalance` a member's session is renewed.
/// Retry: safe; the same offsets are stored again.
/// Refuses all, in this order: `InvalidGroupId` if longer than a record can say; `IllegalGeneration` (from version 9 on `GroupIdNotFound`) for a generation of no group; nobody who
///   claims no generation while the group is `Empty`; `UnknownMemberId` or `FencedInstanceId`; `IllegalGeneration`;
///   `UnknownMemberId` to a stranger while there are members; `RebalanceInProgress` in `CompletingRebalance`. Refuses one with
///   `OffsetMetadataTooLarge`.
/// Durability: the answer leaves when the records are durable.
///   In a consumer group, as [`consumer`](super::consumer) says: by the member's epoch.
/// Source: KIP-62, KIP-211 (expiry), KIP-345; KIP-848 for the error of version 9, KIP-1251 for older epochs.
pub(super) fn decide(shard: &GroupCoordinator, context: &Context, commit: &OffsetCommit) -> Decision<GroupCoordinator> {
    if commit.group.as_str().len() > NAME_BYTES_MAX {
        return refuse_all(context, &commit.offsets, ErrorCode::InvalidGroupId);
    }
    let group = shard.groups.get(&commit.group).map(|group| &group.kind);
    let claim = Claim {
        generation: commit.generation,
        member: commit.member.as_ref(),
        instance: commit.instance.as_ref(),
        names_missing_groups: commit.version >= 9,
        transactional: false,
        version: commit.version,
    };
    if let Err(error) = claim.validate(group, &commit.offsets) {
        return refuse_all(context, &commit.offsets, error);
    }
    let expire_timestamp = commit.retention_ms.map(|retention_ms| context.now.plus_ms(retention_ms));
    let mut decision = store(shard, context, &commit.group, &commit.offsets, expire_timestamp);
    if let (Some(Kind::Classic { classic: group, .. }), Some(member)) = (group, &commit.member) {
        match group.state {
            State::Stable { .. } | State::PreparingRebalance { .. } => {
                decision.notes.extend(Note::seen(context, &commit.group, group, member));
            }
            State::Empty | State::CompletingRebalance { .. } => {}
        }
    }
    decision
}

/// Stores offsets as part of a transaction: they count from its commit on, and never if it is aborted.
///
/// Shape: as [`decide`], but for sessions, which it does not renew.
/// Retry: safe; within a transaction the last offset of a partition counts.
/// Refuses all, in this order: `InvalidGroupId` if empty or too long; `IllegalGeneration` (from version 6 on `GroupIdNotFound`) for a generation
///   of no group; nobody who claims no generation while the group is `Empty`; `UnknownMemberId` or `FencedInstanceId`;
///   `IllegalGeneration`, if any of generation, member and own name is given. A caller that gives none of them (before version 3)
///   is let in. A rebalance is no reason to refuse: the generation is what fences. Refuses one with `OffsetMetadataTooLarge`.
/// Durability: pending offsets survive a crash, as the transaction does.
/// Source: KIP-98, KIP-447 (fencing by generation), KIP-1319 (the error of version 6).
pub(super) fn decide_in_transaction(
    shard: &GroupCoordinator,
    context: &Context,
    commit: &TxnOffsetCommit,
) -> Decision<GroupCoordinator> {
    if commit.group.as_str().is_empty() || commit.group.as_str().len() > NAME_BYTES_MAX {
        return refuse_all(context, &commit.offsets, ErrorCode::InvalidGroupId);
    }
    let claim = Claim {
        generation: commit.generation,
        member: commit.member.as_ref(),
        instance: commit.instance.as_ref(),
        names_missing_groups: commit.version >= 6,
        transactional: true,
        version: commit.version,
    };
    let group = shard.groups.get(&commit.group).map(|group| &group.kind);
    if let Err(error) = claim.validate(group, &commit.offsets) {
        // Older versions do not know the word.
        let is_unknown = error == ErrorCode::StaleMemberEpoch && commit.version < 6;
        let error = if is_unknown { ErrorCode::IllegalGeneration } else { error };
        return refuse_all(context, &commit.offsets, error);
    }
    store(shard, context, &commit.group, &commit.offsets, None)
}

/// Who the caller says it is.
struct Claim<'a> {
    generation: i32,
    member: Option<&'a MemberId>,
    instance: Option<&'a GroupInstanceId>,
    /// Its version knows `GroupIdNotFound`.
    names_missing_groups: bool,
    transactional: bool,
    version: i16,
}

impl Claim<'_> {
    fn validate(&self, group: Option<&Kind>, offsets: &[OffsetToCommit]) -> Result<(), ErrorCode> {
        match group {
            Some(Kind::Classic { classic, .. }) => self.validate_in(classic),
            Some(Kind::Consumer(group)) => {
                let committer = consumer::Committer {
                    member: self.member,
                    has_instance: self.instance.is_some(),
                    epoch: self.generation,
                    is_transactional: self.transactional,
                    version: self.version,
                };
                let partitions = offsets.iter().map(|offset| (offset.topic_id, offset.topic_partition.partition));
                consumer::validate_commit(group, committer, partitions)
            }
            None => match self.generation {
                ..0 => Ok(()),
                0.. if self.names_missing_groups => Err(ErrorCode::GroupIdNotFound),
                0.. => Err(ErrorCode::IllegalGeneration),
            },
        }
    }

    fn validate_in(&self, group: &Classic) -> Result<(), ErrorCode> {
        if self.generation < 0 && group.state == State::Empty {
            return Ok(());
        }
        if self.generation >= 0 || self.member.is_some() || self.instance.is_some() {
            group.validate_member(self.member, self.instance)?;
            if self.generation != group.generation {
                return Err(ErrorCode::IllegalGeneration);
            }
        } else if !self.transactional {
            // Not a member, and there are members: they would read on from where a stranger says.
            return Err(ErrorCode::UnknownMemberId);
        }
        match group.state {
            State::CompletingRebalance { .. } if !self.transactional => Err(ErrorCode::RebalanceInProgress),
            State::Empty
            | State::PreparingRebalance { .. }
            | State::CompletingRebalance { .. }
            | State::Stable { .. } => Ok(()),
        }
    }
}

fn refuse_all(context: &Context, offsets: &[OffsetToCommit], error: ErrorCode) -> Decision<GroupCoordinator> {
    let all = offsets.iter().map(|offset| (offset.topic_partition.clone(), error)).collect();
    Decision::reply(context.waiter, Reply::OffsetsCommitted(all))
}

fn store(
    shard: &GroupCoordinator,
    context: &Context,
    group: &GroupId,
    offsets: &[OffsetToCommit],
    expire_timestamp: Option<Timestamp>,
) -> Decision<GroupCoordinator> {
    let mut records = Vec::with_capacity(offsets.len());
    let mut answers: Vec<(TopicPartition, ErrorCode)> = Vec::with_capacity(offsets.len());
    for offset in offsets {
        let metadata = offset.metadata.as_deref().unwrap_or_default();
        let error = if metadata.encode_utf16().count() > shard.config.offset_metadata_max {
            ErrorCode::OffsetMetadataTooLarge
        } else {
            let value = CommittedOffset {
                offset: offset.offset,
                leader_epoch: offset.leader_epoch,
                metadata: Arc::from(metadata),
                commit_timestamp: context.now,
                expire_timestamp,
                topic_id: offset.topic_id,
            };
            let topic_partition = offset.topic_partition.clone();
            records.push(Record::Offset { group: group.clone(), topic_partition, value: Some(value) });
            ErrorCode::None
        };
        answers.push((offset.topic_partition.clone(), error));
    }
    Decision { records, ..Decision::reply(context.waiter, Reply::OffsetsCommitted(answers)) }
}
