//! What a group coordinator answers: data, without a version's shape.

use std::fmt;
use std::sync::Arc;

use atonce_kernel::{GroupId, GroupInstanceId, MemberId, Offset, TopicId, TopicPartition};
use atonce_protocol::ErrorCode;
use bytes::Bytes;

use super::consumer::wire::Described;
pub use super::consumer::{Beat, Refused};

/// An answer of a [`GroupCoordinator`](super::GroupCoordinator). A refusal is data, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To JoinGroup.
    JoinGroup(Result<Joined, JoinRefused>),
    /// To SyncGroup.
    SyncGroup(Result<Synced, ErrorCode>),
    /// To Heartbeat.
    Heartbeat(ErrorCode),
    /// To LeaveGroup: one by one, in the order asked, or one error for all.
    LeaveGroup(Result<Vec<MemberLeft>, ErrorCode>),
    /// To ConsumerGroupHeartbeat.
    ConsumerGroupHeartbeat(Result<Beat, Refused>),
    /// To ConsumerGroupDescribe, in the order asked.
    ConsumerGroupsDescribed(Vec<Described>),
    /// To OffsetCommit and TxnOffsetCommit: each partition asked for, in that order. An error of the whole request stands at
    /// each of them.
    OffsetsCommitted(Vec<(TopicPartition, ErrorCode)>),
    /// To OffsetFetch: each partition asked for, in that order, or all that there are, sorted; or one error for all.
    OffsetsFetched(Result<Vec<FetchedOffset>, ErrorCode>),
    /// To OffsetDelete.
    OffsetsDeleted(Result<Vec<(TopicPartition, ErrorCode)>, ErrorCode>),
    /// To DescribeGroups, in the order asked.
    GroupsDescribed(Vec<DescribedGroup>),
    /// To ListGroups, sorted.
    GroupsListed(Vec<ListedGroup>),
    /// To DeleteGroups, in the order asked, each once.
    GroupsDeleted(Vec<(GroupId, ErrorCode)>),
}

/// A member is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The generation that it is a member of.
    pub generation: i32,
    /// The kind of group.
    pub protocol_type: Option<String>,
    /// What all members agree on.
    pub protocol: Option<String>,
    /// Who assigns. Who reads its own id here must send the assignment with SyncGroup.
    pub leader: Option<MemberId>,
    /// The leader need not assign: what was assigned holds (KIP-814).
    pub skip_assignment: bool,
    /// The member's id.
    pub member: MemberId,
    /// All members, for the leader; empty for others.
    pub members: Vec<JoinedMember>,
}

/// A member, as the leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedMember {
    /// Its id.
    pub member: MemberId,
    /// A static member's own name.
    pub instance: Option<GroupInstanceId>,
    /// What it said for the protocol that was chosen.
    pub metadata: Bytes,
}

/// A member is not in, or not yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinRefused {
    /// Why. With `MEMBER_ID_REQUIRED` it should come again under the id given here.
    pub error: ErrorCode,
    /// The member's id, if it has one now.
    pub member: Option<MemberId>,
}

/// A member's assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synced {
    /// The kind of group.
    pub protocol_type: Option<String>,
    /// What all members agreed on.
    pub protocol: Option<String>,
    /// What the leader gave this member; empty if it forgot it.
    pub assignment: Bytes,
}

/// What became of one who wanted to leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberLeft {
    /// As asked.
    pub member: Option<MemberId>,
    /// As asked.
    pub instance: Option<GroupInstanceId>,
    /// `NONE` if it left.
    pub error: ErrorCode,
}

/// A partition's committed offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedOffset {
    /// Where.
    pub topic_partition: TopicPartition,
    /// The id as asked, or as stored where all were asked for.
    pub topic_id: TopicId,
    /// The next record to read, −1 if there is none.
    pub offset: Offset,
    /// As committed, −1 if not known.
    pub leader_epoch: i32,
    /// As committed.
    pub metadata: Arc<str>,
    /// `UNSTABLE_OFFSET_COMMIT` while a transaction is undecided.
    pub error: ErrorCode,
}

/// A group, shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedGroup {
    /// Which.
    pub group: GroupId,
    /// `GROUP_ID_NOT_FOUND` from version 6 on; before, a missing group is `Dead`.
    pub error: ErrorCode,
    /// The error in words.
    pub message: Option<String>,
    /// Where it stands.
    pub state: GroupState,
    /// The kind of group, empty if never told.
    pub protocol_type: String,
    /// The protocol that was chosen; empty but in `Stable`.
    pub protocol: String,
    /// All members.
    pub members: Vec<DescribedMember>,
}

/// A member, shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedMember {
    /// Its id.
    pub member: MemberId,
    /// A static member's own name.
    pub instance: Option<GroupInstanceId>,
    /// What the client calls itself.
    pub client_id: Arc<str>,
    /// Where it calls from.
    pub client_host: Arc<str>,
    /// What it said for the protocol chosen; empty but in `Stable`.
    pub metadata: Bytes,
    /// What it was given last.
    pub assignment: Bytes,
}

/// A group in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedGroup {
    /// Which.
    pub group: GroupId,
    /// The kind of group, empty if never told.
    pub protocol_type: String,
    /// Where it stands.
    pub state: GroupState,
    /// Its kind.
    pub group_type: GroupType,
}

/// Where a group stands. Some are of classic groups only, some of consumer groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupState {
    /// No members; offsets, perhaps.
    Empty,
    /// Members are (re)joining.
    PreparingRebalance,
    /// A generation has begun; the leader's assignment is awaited.
    CompletingRebalance,
    /// The target assignment is older than the group's epoch.
    Assigning,
    /// Members are on their way to the target assignment.
    Reconciling,
    /// All know what is theirs.
    Stable,
    /// Not there (any more).
    Dead,
}

impl GroupState {
    /// Those that a group can be in while it is there, by the protocol that manages its members.
    pub const OF_TYPES: [(GroupType, &'static [Self]); 2] = [
        (GroupType::Classic, &[Self::Empty, Self::PreparingRebalance, Self::CompletingRebalance, Self::Stable]),
        (GroupType::Consumer, &[Self::Empty, Self::Assigning, Self::Reconciling, Self::Stable]),
    ];
}

impl fmt::Display for GroupState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Assigning => "Assigning",
            Self::Reconciling => "Reconciling",
            Self::Stable => "Stable",
            Self::Dead => "Dead",
        })
    }
}

/// Which protocol manages the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupType {
    /// JoinGroup and SyncGroup; the leader, a client, assigns.
    Classic,
    /// ConsumerGroupHeartbeat; the coordinator assigns.
    Consumer,
}

impl fmt::Display for GroupType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Classic => "classic",
            Self::Consumer => "consumer",
        })
    }
}
