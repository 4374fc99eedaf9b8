//! A consumer as a member of its group, whichever protocol the group speaks.
//!
//! **What it does not know**: sockets; what the machines decide.

use atonce_client_core::classify::Operation;
use atonce_client_core::consumer_group::{self, BeatCall, BeatReply, ConsumerMembership};
use atonce_client_core::error::Refusal;
use atonce_client_core::membership::{self, Event, GroupCall, GroupReply, JoinedMember, Membership};
use atonce_client_core::transaction::GroupMetadata;
use atonce_kernel::{MemberId, Monotonic, TopicPartition};
use atonce_protocol::ErrorCode;
use bytes::Bytes;

/// See the module.
#[derive(Debug)]
pub(crate) enum Member {
    /// Of a classic group: its leader divides.
    Classic(Membership),
    /// Of a KIP-848 group: its coordinator divides.
    Consumer(ConsumerMembership),
}

/// What to ask the group's coordinator.
#[derive(Clone, Debug)]
pub(crate) enum MemberCall {
    Classic(GroupCall),
    Consumer(BeatCall),
}

/// What the group's coordinator answered.
#[derive(Debug)]
pub(crate) enum MemberReply {
    Classic(GroupReply),
    Consumer(Result<BeatReply, Refusal>),
}

impl MemberCall {
    pub(crate) fn operation(&self) -> Operation {
        match self {
            Self::Classic(call) => call.request.operation(),
            Self::Consumer(_) => Operation::ConsumerGroupHeartbeat,
        }
    }

    pub(crate) fn refresh(&self) -> bool {
        match self {
            Self::Classic(call) => call.refresh,
            Self::Consumer(call) => call.refresh,
        }
    }
}

impl Member {
    pub(crate) fn group_metadata(&self) -> GroupMetadata {
        match self {
            Self::Classic(member) => member.group_metadata(),
            Self::Consumer(member) => member.group_metadata(),
        }
    }

    pub(crate) fn holds(&self, topic_partition: &TopicPartition) -> bool {
        match self {
            Self::Classic(member) => member.holds(topic_partition),
            Self::Consumer(member) => member.holds(topic_partition),
        }
    }

    /// Whether commits that are refused are worth repeating, since the member is on its way into another generation.
    pub(crate) fn is_joining_with_partitions(&self) -> bool {
        match self {
            Self::Classic(member) => member.is_joining_with_partitions(),
            Self::Consumer(_) => false,
        }
    }

    pub(crate) fn is_leader(&self) -> bool {
        match self {
            Self::Classic(member) => member.is_leader(),
            Self::Consumer(_) => false,
        }
    }

    pub(crate) fn protocol_name(&self) -> Option<&str> {
        match self {
            Self::Classic(member) => member.protocol_name(),
            Self::Consumer(_) => None,
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Self::Classic(member) => *member.state() == membership::State::Closed,
            Self::Consumer(member) => *member.state() == consumer_group::State::Closed,
        }
    }

    /// Why it cannot be a member.
    pub(crate) fn failure(&self) -> Option<&Refusal> {
        use consumer_group::State as Consumer;
        use membership::State as Classic;
        match self {
            Self::Classic(member) => match member.state() {
                Classic::Failed(refusal) => Some(refusal),
                Classic::Unjoined
                | Classic::Joining
                | Classic::Assigning { .. }
                | Classic::Syncing { .. }
                | Classic::Stable
                | Classic::Summoned
                | Classic::Revoking
                | Classic::Leaving
                | Classic::Closed => None,
            },
            Self::Consumer(member) => match member.state() {
                Consumer::Failed(refusal) => Some(refusal),
                Consumer::Unjoined
                | Consumer::Joining
                | Consumer::Stable
                | Consumer::Revoking
                | Consumer::Leaving
                | Consumer::Closed => None,
            },
        }
    }

    pub(crate) fn handle_user_called(&mut self) {
        match self {
            Self::Classic(member) => member.handle_user_called(),
            Self::Consumer(member) => member.handle_user_called(),
        }
    }

    pub(crate) fn handle_user_left(&mut self, now: Monotonic) {
        match self {
            Self::Classic(member) => member.handle_user_left(now),
            Self::Consumer(member) => member.handle_user_left(now),
        }
    }

    /// In KIP-848 groups the coordinator divides when it sees a reason: members cannot ask it to.
    pub(crate) fn enforce_rebalance(&mut self) {
        match self {
            Self::Classic(member) => member.enforce_rebalance(),
            Self::Consumer(_) => {}
        }
    }

    /// Ends; `for_good` gives a static member's place up too.
    pub(crate) fn close(&mut self, for_good: bool) {
        match self {
            Self::Classic(member) => member.close(for_good),
            Self::Consumer(member) => member.close(for_good),
        }
    }

    pub(crate) fn handle_commit_refused(&mut self, code: ErrorCode) {
        match self {
            Self::Classic(member) => member.handle_commit_refused(code),
            Self::Consumer(member) => member.handle_commit_refused(code),
        }
    }

    pub(crate) fn handle_assignments(&mut self, assignments: Vec<(MemberId, Bytes)>) {
        match self {
            Self::Classic(member) => member.handle_assignments(assignments),
            Self::Consumer(_) => {}
        }
    }

    pub(crate) fn handle_assigning_failed(&mut self, now: Monotonic) {
        match self {
            Self::Classic(member) => member.handle_assigning_failed(now),
            Self::Consumer(_) => {}
        }
    }

    pub(crate) fn handle_reply(&mut self, now: Monotonic, reply: MemberReply) {
        match (self, reply) {
            (Self::Classic(member), MemberReply::Classic(reply)) => member.handle_reply(now, reply),
            (Self::Consumer(member), MemberReply::Consumer(reply)) => member.handle_reply(now, reply),
            (Self::Classic(_), MemberReply::Consumer(_)) | (Self::Consumer(_), MemberReply::Classic(_)) => {
                unreachable!("an answer follows its request")
            }
        }
    }

    pub(crate) fn handle_lost(&mut self, now: Monotonic, asked: Operation) {
        match self {
            Self::Classic(member) => member.handle_lost(now, asked),
            Self::Consumer(member) => member.handle_lost(now),
        }
    }

    pub(crate) fn poll_request(&mut self, now: Monotonic) -> Option<MemberCall> {
        match self {
            Self::Classic(member) => member.poll_request(now).map(MemberCall::Classic),
            Self::Consumer(member) => member.poll_request(now).map(MemberCall::Consumer),
        }
    }

    pub(crate) fn poll_assigning(&mut self, now: Monotonic) -> Option<Vec<JoinedMember>> {
        match self {
            Self::Classic(member) => member.poll_assigning(now),
            Self::Consumer(_) => None,
        }
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        match self {
            Self::Classic(member) => member.poll_event(),
            Self::Consumer(member) => member.poll_event(),
        }
    }

    pub(crate) fn poll_timeout(&self, now: Monotonic) -> Option<Monotonic> {
        match self {
            Self::Classic(member) => member.poll_timeout(now),
            Self::Consumer(member) => member.poll_timeout(now),
        }
    }
}
