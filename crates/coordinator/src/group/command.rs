//! What a group coordinator is asked. Requests come in Kafka's terms; what a version lacks is `None` or negative.

use std::sync::Arc;

use atonce_kernel::{GroupId, GroupInstanceId, MemberId, Offset, ProducerIdentity, TopicId, TopicPartition};
use bytes::Bytes;

use super::classic::JoinProtocol;
use super::consumer::command::{ConsumerGroupDescribe, ConsumerGroupHeartbeat};
use super::consumer::topics::TopicsImage;
use crate::shard::Waiter;

/// A command to a [`GroupCoordinator`](super::GroupCoordinator).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Become a member, or go on being one in the next generation.
    JoinGroup(JoinGroup),
    /// Bring (leader) and fetch (all) the assignment of a generation.
    SyncGroup(SyncGroup),
    /// "I live"; the answer says whether to join again.
    Heartbeat(Heartbeat),
    /// Leave, or have static members removed.
    LeaveGroup(LeaveGroup),
    /// Join, stay in, or leave a consumer group.
    ConsumerGroupHeartbeat(ConsumerGroupHeartbeat),
    /// Show consumer groups with their members.
    ConsumerGroupDescribe(ConsumerGroupDescribe),
    /// Store offsets, at once.
    OffsetCommit(OffsetCommit),
    /// Store offsets as part of a transaction: pending until its marker. The host appends the decision's records as
    /// a transactional batch of [`TxnOffsetCommit::producer`].
    TxnOffsetCommit(TxnOffsetCommit),
    /// Read offsets.
    OffsetFetch(OffsetFetch),
    /// Remove offsets of topics that the group does not read (any more).
    OffsetDelete(OffsetDelete),
    /// Show groups with their members.
    DescribeGroups(DescribeGroups),
    /// List this shard's groups.
    ListGroups(ListGroups),
    /// Remove groups that have no members, with their offsets.
    DeleteGroups(DeleteGroups),
    /// These partitions are no more: nobody needs offsets in them. Answered with nothing.
    PartitionsDeleted(Vec<TopicPartition>),
    /// The broker's topics are others now. Answered with nothing. The host says it before the first command, too.
    TopicsChanged(Arc<TopicsImage>),
    /// Whoever is held has hung up. Answered with nothing.
    WaiterGone(WaiterGone),
    /// Time has passed. Answered with nothing to this caller.
    Tick,
}

impl Command {
    /// Under whose transaction the host has to append what is decided, if under any.
    #[must_use]
    pub fn producer(&self) -> Option<ProducerIdentity> {
        match self {
            Self::TxnOffsetCommit(commit) => Some(commit.producer),
            Self::JoinGroup(_)
            | Self::SyncGroup(_)
            | Self::Heartbeat(_)
            | Self::LeaveGroup(_)
            | Self::ConsumerGroupHeartbeat(_)
            | Self::ConsumerGroupDescribe(_)
            | Self::TopicsChanged(_)
            | Self::OffsetCommit(_)
            | Self::OffsetFetch(_)
            | Self::OffsetDelete(_)
            | Self::DescribeGroups(_)
            | Self::ListGroups(_)
            | Self::DeleteGroups(_)
            | Self::PartitionsDeleted(_)
            | Self::WaiterGone(_)
            | Self::Tick => None,
        }
    }
}

/// A JoinGroup request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinGroup {
    /// Of the request: 4 sends dynamic newcomers away with an id (KIP-394), 9 lets a static leader skip assigning (KIP-814).
    pub version: i16,
    /// Which group.
    pub group: GroupId,
    /// The id that we gave the member before, if we did.
    pub member: Option<MemberId>,
    /// The static member's own name.
    pub instance: Option<GroupInstanceId>,
    /// The client's name for itself; a dynamic member's id begins with it.
    pub client_id: Arc<str>,
    /// Where it calls from, as Kafka prints it (`/127.0.0.1`).
    pub client_host: Arc<str>,
    /// After that long without a sign of life the member is out.
    pub session_timeout_ms: i32,
    /// How long the member may take to come back in a rebalance. Version 0 has none: the session's is meant.
    pub rebalance_timeout_ms: i32,
    /// What kind of group, `consumer` for consumers.
    pub protocol_type: String,
    /// What the member can do, the one it likes best first.
    pub protocols: Arc<[JoinProtocol]>,
}

/// A SyncGroup request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncGroup {
    /// Of the request: from 5 on, protocol type and name are mandatory.
    pub version: i16,
    /// Which group.
    pub group: GroupId,
    /// The generation that JoinGroup named.
    pub generation: i32,
    /// Who.
    pub member: Option<MemberId>,
    /// The static member's own name.
    pub instance: Option<GroupInstanceId>,
    /// The type that JoinGroup named.
    pub protocol_type: Option<String>,
    /// The protocol that JoinGroup named.
    pub protocol: Option<String>,
    /// What each member gets. Empty, but from the leader.
    pub assignments: Vec<(MemberId, Bytes)>,
}

/// A Heartbeat request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Which group.
    pub group: GroupId,
    /// The generation that the member believes in.
    pub generation: i32,
    /// Who.
    pub member: Option<MemberId>,
    /// The static member's own name.
    pub instance: Option<GroupInstanceId>,
}

/// A LeaveGroup request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaveGroup {
    /// Which group.
    pub group: GroupId,
    /// Who leaves, each judged alone.
    pub members: Vec<MemberIdentity>,
}

/// One who leaves: by id, or (an administrator's way) a static one by its own name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberIdentity {
    /// The member's id.
    pub member: Option<MemberId>,
    /// The static member's own name.
    pub instance: Option<GroupInstanceId>,
}

/// An OffsetCommit request; topics are known by name here, whatever the version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetCommit {
    /// Of the request: from 9 on, a missing group has an error of its own.
    pub version: i16,
    /// Which group.
    pub group: GroupId,
    /// The generation; negative from those who are not members.
    pub generation: i32,
    /// Who, if a member.
    pub member: Option<MemberId>,
    /// The static member's own name.
    pub instance: Option<GroupInstanceId>,
    /// Versions 2 to 4 could say how long to keep the offsets; `None` is the broker's choice (−1 on the wire).
    pub retention_ms: Option<i64>,
    /// What to store.
    pub offsets: Vec<OffsetToCommit>,
}

/// A TxnOffsetCommit request. That the producer may write in this transaction is verified by the host before, and its
/// epoch by the log after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxnOffsetCommit {
    /// Of the request: from 6 on, a missing group has an error of its own.
    pub version: i16,
    /// Whose transaction.
    pub producer: ProducerIdentity,
    /// Which group.
    pub group: GroupId,
    /// The generation; negative from those who are not members and from versions below 3.
    pub generation: i32,
    /// Who, if a member.
    pub member: Option<MemberId>,
    /// The static member's own name.
    pub instance: Option<GroupInstanceId>,
    /// What to store.
    pub offsets: Vec<OffsetToCommit>,
}

/// One partition's offset, to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetToCommit {
    /// Where.
    pub topic_partition: TopicPartition,
    /// The topic's id, as the broker knows it; zero if it does not.
    pub topic_id: TopicId,
    /// The next record to read.
    pub offset: Offset,
    /// The leader epoch of the last record read, −1 if not known.
    pub leader_epoch: i32,
    /// What the client wants to remember with it.
    pub metadata: Option<String>,
}

/// An OffsetFetch request, of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetFetch {
    /// Which group.
    pub group: GroupId,
    /// Which partitions; `None`: all that have an offset.
    pub partitions: Option<Vec<OffsetToFetch>>,
    /// Who asks, if a member of a consumer group.
    pub member: Option<MemberId>,
    /// The epoch that it is in; negative from others.
    pub epoch: i32,
    /// Refuse a partition for which a transaction holds an offset that is not decided yet (KIP-447).
    pub require_stable: bool,
}

/// One partition whose offset is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetToFetch {
    /// Where.
    pub topic_partition: TopicPartition,
    /// The id that the caller means (zero: any). An offset stored for another topic of that name is not its.
    pub topic_id: TopicId,
}

/// An OffsetDelete request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetDelete {
    /// Which group.
    pub group: GroupId,
    /// What to forget.
    pub partitions: Vec<TopicPartition>,
}

/// A DescribeGroups request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribeGroups {
    /// Of the request: from 6 on, a missing group is an error.
    pub version: i16,
    /// Which groups.
    pub groups: Vec<GroupId>,
}

/// A ListGroups request. An empty filter lets all pass; both compare without regard to case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListGroups {
    /// States to show.
    pub states: Vec<String>,
    /// Types to show.
    pub types: Vec<String>,
}

/// A DeleteGroups request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteGroups {
    /// Which groups.
    pub groups: Vec<GroupId>,
}

/// A caller that waits for its generation or its assignment is there no longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaiterGone {
    /// The group that it asked about.
    pub group: GroupId,
    /// Whom nobody need tell any more.
    pub waiter: Waiter,
}
