//! A decision about one consumer group while it is being made: each fact is taken into a copy of the group at once, so that what comes next
//! looks at the group as it will be. The copy is made with the first fact; a heartbeat that changes nothing costs none.

use std::borrow::Cow;

use atonce_kernel::{GroupId, MemberId, Timestamp};
use atonce_protocol::ErrorCode;

use super::super::config::GroupConfig;
use super::super::record::Record;
use super::super::reply::Reply;
use super::super::{GroupCoordinator, Note};
use super::record::{Fact, GroupEpoch, TargetEpoch};
use super::topics::TopicsImage;
use super::{Clocks, Consumer};
use crate::shard::{Context, Decision, Waiter};

/// Why somebody is refused: a code for programs, words for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The code.
    pub error: ErrorCode,
    /// The words.
    pub message: String,
}

impl Refused {
    pub(super) fn new(error: ErrorCode, message: impl Into<String>) -> Self {
        Self { error, message: message.into() }
    }
}

pub(super) struct Draft<'a> {
    pub(super) shard: &'a GroupCoordinator,
    pub(super) config: &'a GroupConfig,
    pub(super) topics: &'a TopicsImage,
    pub(super) now: Timestamp,
    pub(super) context: &'a Context,
    pub(super) id: &'a GroupId,
    pub(super) group: Cow<'a, Consumer>,
    pub(super) records: Vec<Record>,
    pub(super) notes: Vec<Note>,
    pub(super) replies: Vec<(Waiter, Reply)>,
}

impl<'a> Draft<'a> {
    /// Begins with a group as it stands.
    pub(super) fn of(
        shard: &'a GroupCoordinator,
        context: &'a Context,
        id: &'a GroupId,
        group: Cow<'a, Consumer>,
    ) -> Self {
        Self {
            shard,
            config: &shard.config,
            topics: &shard.topics,
            now: context.now,
            context,
            id,
            group,
            records: Vec::new(),
            notes: Vec::new(),
            replies: Vec::new(),
        }
    }

    /// Begins with a group that is made here.
    pub(super) fn of_new(shard: &'a GroupCoordinator, context: &'a Context, id: &'a GroupId) -> Self {
        Self::of(shard, context, id, Cow::Owned(Consumer::new()))
    }

    pub(super) fn finish(self) -> Decision<GroupCoordinator> {
        Decision { records: self.records, notes: self.notes, replies: self.replies, ..Decision::nothing() }
    }

    /// Answers the caller.
    pub(super) fn reply(&mut self, reply: Reply) {
        self.replies.push((self.context.waiter, reply));
    }

    /// Writes a fact down.
    pub(super) fn push(&mut self, fact: Fact) {
        let applied = self.group.to_mut().apply(&fact);
        debug_assert!(applied.is_ok(), "{}: {:?}", self.id, applied.err());
        self.records.push(Record::Consumer { group: self.id.clone(), fact });
    }

    /// Sets a member's deadlines.
    pub(super) fn set_clocks(&mut self, member: &MemberId, clocks: Clocks) {
        self.notes.push(Note::Clocks { group: self.id.clone(), member: member.clone(), clocks });
    }

    /// Removes a member from the records. Its clocks go with it.
    pub(super) fn remove_member(&mut self, member: &MemberId) {
        self.push(Fact::Current(member.clone(), None));
        self.push(Fact::TargetMember(member.clone(), None));
        self.push(Fact::Member(member.clone(), None));
    }

    /// Raises the group's epoch.
    pub(super) fn raise_epoch(&mut self) {
        let metadata_hash = self.group.metadata_hash_now(self.topics);
        let epoch = self.group.epoch.saturating_add(1);
        self.push(Fact::Epoch(Some(GroupEpoch { epoch, metadata_hash })));
        self.note_checked();
    }

    /// Looks at the topics, if they may be others than when they were looked at last. Raises the epoch if they are, or if `changed`.
    pub(super) fn look_at_topics(&mut self, changed: bool) {
        if changed {
            return self.raise_epoch();
        }
        if self.group.soft.checked == Some(self.topics.version()) {
            return;
        }
        if self.group.metadata_hash_now(self.topics) == self.group.metadata_hash {
            self.note_checked();
        } else {
            self.raise_epoch();
        }
    }

    fn note_checked(&mut self) {
        self.notes.push(Note::Checked { group: self.id.clone(), version: self.topics.version() });
    }

    /// All members are gone: the target is of nobody, and done.
    pub(super) fn end_target(&mut self) {
        let epoch = self.group.epoch;
        self.push(Fact::Target(Some(TargetEpoch { epoch, timestamp: Timestamp(0) })));
    }

    /// Tombstones for all that is recorded of the group.
    pub(super) fn remove_all(&mut self) {
        let members: Vec<MemberId> = self.group.members.keys().cloned().collect();
        let targets: Vec<MemberId> = self.group.targets.keys().cloned().collect();
        for member in &members {
            self.push(Fact::Current(member.clone(), None));
        }
        for member in targets {
            self.push(Fact::TargetMember(member, None));
        }
        self.push(Fact::Target(None));
        for member in members {
            self.push(Fact::Member(member, None));
        }
        let patterns: Vec<_> = self.group.patterns.keys().cloned().collect();
        for pattern in patterns {
            self.push(Fact::Pattern(pattern, None));
        }
        self.push(Fact::Epoch(None));
    }
}

/// Tombstones for a group without members.
pub(in super::super) fn tombstones(
    shard: &GroupCoordinator,
    context: &Context,
    id: &GroupId,
    group: &Consumer,
) -> Vec<Record> {
    let mut draft = Draft::of(shard, context, id, Cow::Borrowed(group));
    draft.remove_all();
    draft.records
}
