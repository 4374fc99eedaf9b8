//! Who may commit and fetch offsets of a consumer group.

use atonce_kernel::{MemberId, TopicId};
use atonce_protocol::ErrorCode;

use super::{Consumer, Member};

/// One who commits, as it says itself.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Committer<'a> {
    pub(in super::super) member: Option<&'a MemberId>,
    pub(in super::super) has_instance: bool,
    pub(in super::super) epoch: i32,
    pub(in super::super) is_transactional: bool,
    /// Of OffsetCommit.
    pub(in super::super) version: i16,
}

/// Whether the offsets of these partitions may be stored.
///
/// A member that has been moved on may still commit what it had before in the epoch in which it had it (KIP-1251): its answer may have been
/// under way. So an older epoch counts for a partition that it got in that epoch or before.
///
/// Refuses, in this order: `UnknownMemberId`; `UnsupportedVersion` before version 9 to members of this protocol; `StaleMemberEpoch`
///   (`IllegalGeneration` to members of the classic protocol) for an epoch to come, or one too old for one of the partitions.
pub(in super::super) fn validate(
    group: &Consumer,
    committer: Committer<'_>,
    partitions: impl IntoIterator<Item = (TopicId, i32)>,
) -> Result<(), ErrorCode> {
    if committer.epoch < 0 && group.members.is_empty() {
        return Ok(());
    }
    let is_nobody = committer.member.is_none() && !committer.has_instance && committer.epoch == -1;
    if committer.is_transactional && is_nobody {
        return Ok(());
    }
    let member = member_of(group, committer.member)?;
    if !committer.is_transactional && member.classic().is_none() && committer.version < 9 {
        return Err(ErrorCode::UnsupportedVersion);
    }
    let known = member.current.epoch;
    if committer.epoch == known {
        return Ok(());
    }
    let had = |(topic, partition)| {
        member.assignment_epoch(topic, partition).is_some_and(|assigned| committer.epoch >= assigned)
    };
    if committer.epoch < known && partitions.into_iter().all(had) { Ok(()) } else { Err(stale(member)) }
}

/// Whether the member may fetch offsets. Nobody in particular may, too.
///
/// Refuses: `UnknownServerError` for an epoch of no member, over which Kafka stumbles; `UnknownMemberId`; `StaleMemberEpoch`
///   (`IllegalGeneration`) in another epoch than the member's.
pub(in super::super) fn validate_fetch(
    group: &Consumer,
    member: Option<&MemberId>,
    epoch: i32,
) -> Result<(), ErrorCode> {
    let Some(id) = member else { return if epoch < 0 { Ok(()) } else { Err(ErrorCode::UnknownServerError) } };
    let member = member_of(group, Some(id))?;
    if member.current.epoch == epoch { Ok(()) } else { Err(stale(member)) }
}

fn member_of<'a>(group: &'a Consumer, member: Option<&MemberId>) -> Result<&'a Member, ErrorCode> {
    member.and_then(|id| group.members.get(id)).ok_or(ErrorCode::UnknownMemberId)
}

fn stale(member: &Member) -> ErrorCode {
    if member.classic().is_some() { ErrorCode::IllegalGeneration } else { ErrorCode::StaleMemberEpoch }
}
