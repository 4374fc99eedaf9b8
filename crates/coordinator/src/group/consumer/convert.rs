//! A group changes its protocol while its members go on: classic → consumer when the first member of the consumer protocol joins, and
//! back when the last of them is gone.
//!
//! Consumers that still speak the classic protocol are served in the consumer group by the files of [`classic_member`](super). Offsets
//! do not notice anything.
//!
//! Source: KIP-848, "Upgrade" and "Downgrade"; `group.consumer.migration.policy`.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use atonce_kernel::{GroupId, MemberId, Timestamp, TopicName};
use atonce_protocol::messages::consumer_protocol_assignment::{ConsumerProtocolAssignment, TopicPartition};
use atonce_protocol::messages::consumer_protocol_subscription::ConsumerProtocolSubscription;
use atonce_protocol::{ErrorCode, Message};
use bytes::Bytes;

use super::super::GroupCoordinator;
use super::super::classic::{self, Classic, State, Waiting};
use super::super::draft::Draft as ClassicDraft;
use super::super::record::Record;
use super::super::reply::{JoinRefused, Reply};
use super::draft::{Draft, Refused};
use super::record::{ClassicMember, Current, Fact, GroupEpoch, Subscription, TargetEpoch};
use super::topics::TopicsImage;
use super::{AssignedPartitions, Consumer, Member, MemberState, Partitions};
use crate::shard::{Context, Decision};

/// Makes a consumer group of a classic one with members. Those who wait for a generation or an assignment are called back.
///
/// Refuses with `GroupIdNotFound`: if the policy does not allow it, for what are no consumers, for more members than the group may
///   have, for members whose protocol cannot be read, or has data of an assignor of their own, which would be lost. With
///   `UnknownServerError` before the first generation has begun: then nobody knows yet what the members agree on, and Kafka's code
///   fails inside.
pub(super) fn upgrade<'a>(
    shard: &'a GroupCoordinator,
    context: &'a Context,
    id: &'a GroupId,
    classic: &Classic,
) -> Result<Draft<'a>, Refused> {
    let refuse = |why: &str| {
        let message = format!("Cannot upgrade classic group {id} to consumer group because {why}.");
        Err(Refused::new(ErrorCode::GroupIdNotFound, message))
    };
    if !shard.config.consumer.migration.is_upgrade_enabled() {
        return refuse("online upgrade is disabled");
    }
    if !classic.has_consumers() {
        return refuse("the group does not use the consumer embedded protocol");
    }
    if classic.members.len() > shard.config.consumer.members_max {
        return refuse("the group size exceeds the consumer group maximum size");
    }
    let Some(protocol) = classic.protocol.as_deref() else {
        let message = format!("Group {id} has not begun its first generation yet. Join again when it has.");
        return Err(Refused::new(ErrorCode::UnknownServerError, message));
    };
    let mut members = Vec::with_capacity(classic.members.len());
    for (member_id, member) in &classic.members {
        match converted(member, protocol, classic.generation, &shard.topics) {
            Ok((member, target)) => members.push((member_id.clone(), member, target)),
            Err(NotConverted::Malformed) => return refuse("the embedded consumer protocol is malformed"),
            Err(NotConverted::CustomAssignor) => {
                return refuse(
                    "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default \
                     assignor before re-attempting the upgrade",
                );
            }
        }
    }
    let mut draft = Draft::of_new(shard, context, id);
    draft.replies.extend(called_back(classic));
    draft.records.push(Record::Group { group: id.clone(), metadata: None });
    draft.begin_with(classic.generation, members);
    Ok(draft)
}

enum NotConverted {
    Malformed,
    CustomAssignor,
}

fn converted(
    member: &classic::Member,
    protocol: &str,
    generation: i32,
    topics: &TopicsImage,
) -> Result<(Member, Partitions), NotConverted> {
    let said = member.metadata(protocol).and_then(read_subscription).ok_or(NotConverted::Malformed)?;
    let target = if member.assignment.is_empty() {
        Partitions::new()
    } else {
        let read = ConsumerProtocolAssignment::decode_versioned_or_later(member.assignment.clone());
        let (_, assignment) = read.map_err(|_| NotConverted::Malformed)?;
        if assignment.user_data.is_some_and(|data| !data.is_empty()) {
            return Err(NotConverted::CustomAssignor);
        }
        by_id(assignment.assigned_partitions.into_iter().map(|it| (it.topic, it.partitions)), topics)
    };
    let assigned = |(topic, all): (&_, &BTreeSet<i32>)| (*topic, all.iter().map(|it| (*it, generation)).collect());
    let member = Member {
        subscription: Subscription {
            instance: member.instance.clone(),
            rack: said.rack_id.filter(|rack| !rack.is_empty()).map(Arc::from),
            client_id: Arc::clone(&member.client_id),
            client_host: Arc::clone(&member.client_host),
            topics: said.topics.into_iter().map(TopicName::from).collect(),
            pattern: Arc::from(""),
            rebalance_timeout_ms: member.rebalance_timeout_ms,
            assignor: None,
            classic: Some(ClassicMember {
                session_timeout_ms: member.session_timeout_ms,
                protocols: Arc::clone(&member.protocols),
            }),
        },
        current: Current {
            epoch: generation,
            previous_epoch: generation,
            state: MemberState::Stable,
            assigned: target.iter().map(assigned).collect::<AssignedPartitions>(),
            revoking: AssignedPartitions::new(),
        },
    };
    Ok((member, target))
}

/// What a consumer says in JoinGroup, if it makes sense.
pub(super) fn read_subscription(metadata: &Bytes) -> Option<ConsumerProtocolSubscription> {
    let (version, said) = ConsumerProtocolSubscription::decode_versioned_or_later(metadata.clone()).ok()?;
    (version >= 0).then_some(said)
}

/// Partitions by their topics' ids; topics that are not there are left out.
pub(super) fn by_id(topics: impl IntoIterator<Item = (String, Vec<i32>)>, image: &TopicsImage) -> Partitions {
    let mut partitions = Partitions::new();
    for (name, indexes) in topics {
        if let Some(shape) = image.by_name(&name) {
            partitions.entry(shape.id).or_default().extend(indexes);
        }
    }
    partitions
}

/// An assignment as a consumer of the classic protocol reads it, in the version in which it speaks.
///
/// Layout: `version i16 | ConsumerProtocolAssignment`.
pub(super) fn write_assignment<'a>(
    topics: impl IntoIterator<Item = (&'a atonce_kernel::TopicId, Vec<i32>)>,
    protocols: &[classic::JoinProtocol],
    chosen: Option<&str>,
    image: &TopicsImage,
) -> Bytes {
    let metadata = chosen.map_or_else(|| protocols.first(), |name| protocols.iter().find(|it| it.name == name));
    let version =
        metadata.and_then(|protocol| protocol.metadata.first_chunk::<2>()).map_or(0, |it| i16::from_be_bytes(*it));
    let version = version.clamp(0, *ConsumerProtocolAssignment::VERSIONS.end());
    let assigned_partitions = topics
        .into_iter()
        .filter_map(|(id, partitions)| Some(TopicPartition { topic: image.name_of(*id)?.to_string(), partitions }))
        .collect();
    let assignment = ConsumerProtocolAssignment { assigned_partitions, ..ConsumerProtocolAssignment::default() };
    // Names come from topics that exist, so they fit.
    assignment.encode_versioned(version).unwrap_or_default()
}

fn called_back(classic: &Classic) -> Vec<(crate::Waiter, Reply)> {
    let error = ErrorCode::RebalanceInProgress;
    let reply = |(id, member): (&MemberId, &classic::Member)| match member.waiting {
        Waiting::No | Waiting::JoinGone => None,
        Waiting::Join { waiter, .. } => {
            Some((waiter, Reply::JoinGroup(Err(JoinRefused { error, member: Some(id.clone()) }))))
        }
        Waiting::Sync { waiter } => Some((waiter, Reply::SyncGroup(Err(error)))),
    };
    classic.members.iter().filter_map(reply).collect()
}

impl Draft<'_> {
    /// Records the members of a generation as those of an epoch.
    fn begin_with(&mut self, generation: i32, members: Vec<(MemberId, Member, Partitions)>) {
        for (id, member, _) in &members {
            self.push(Fact::Member(id.clone(), Some(member.subscription.clone())));
        }
        let metadata_hash = self.group.metadata_hash_now(self.topics);
        self.push(Fact::Epoch(Some(GroupEpoch { epoch: generation, metadata_hash })));
        for (id, _, target) in &members {
            self.push(Fact::TargetMember(id.clone(), Some(target.clone())));
        }
        self.push(Fact::Target(Some(TargetEpoch { epoch: generation, timestamp: Timestamp(0) })));
        for (id, member, _) in members {
            let clocks = self.whole_time_of(&member);
            self.push(Fact::Current(id.clone(), Some(member.current)));
            self.set_clocks(&id, clocks);
        }
    }
}

/// Whether the group as the draft has it may become a classic one: all that are left speak the classic protocol.
pub(super) fn can_downgrade(draft: &Draft<'_>) -> bool {
    let members = draft.group.members.len();
    members > 0
        && draft.group.classic_members() == members
        && draft.config.consumer.migration.is_downgrade_enabled()
        && members <= draft.config.members_max
}

/// The group goes on as a classic one, without some of its members. The others have to join again.
pub(super) fn downgrade_without(
    shard: &GroupCoordinator,
    context: &Context,
    id: &GroupId,
    group: &Consumer,
    gone: &BTreeSet<MemberId>,
) -> Decision<GroupCoordinator> {
    let mut draft = Draft::of(shard, context, id, Cow::Borrowed(group));
    let mut rest = group.clone();
    rest.members.retain(|member, _| !gone.contains(member));
    draft.remove_all();
    downgrade(draft, &rest, true)
}

/// Ends the consumer group, whose records the draft has removed, and begins a classic one with the same members.
pub(super) fn downgrade(draft: Draft<'_>, group: &Consumer, has_to_rebalance: bool) -> Decision<GroupCoordinator> {
    let Draft { shard, context, id, records, mut notes, replies, topics, now, .. } = draft;
    let mut classic = Classic::new(now);
    classic.generation = group.epoch;
    classic.protocol_type = Some("consumer".to_owned());
    for (member_id, member) in &group.members {
        let Some(said) = member.classic() else { continue };
        let member = classic::Member {
            instance: member.subscription.instance.clone(),
            client_id: Arc::clone(&member.subscription.client_id),
            client_host: Arc::clone(&member.subscription.client_host),
            rebalance_timeout_ms: member.subscription.rebalance_timeout_ms,
            session_timeout_ms: said.session_timeout_ms,
            protocols: Arc::clone(&said.protocols),
            assignment: Bytes::new(),
            waiting: Waiting::No,
            session_deadline: Some(now.plus_ms(i64::from(said.session_timeout_ms))),
        };
        classic.insert(member_id.clone(), member);
    }
    classic.protocol = classic.select_protocol();
    classic.reads = classic.topics_now();
    let protocol = classic.protocol.clone();
    for (member_id, member) in &mut classic.members {
        let target = group.targets.get(member_id).into_iter().flatten();
        let target = target.map(|(topic, partitions)| (topic, partitions.iter().copied().collect()));
        member.assignment = write_assignment(target, &member.protocols, protocol.as_deref(), topics);
    }
    classic.state = State::Stable { unsynced: BTreeSet::new(), deadline: now };
    let mut next = ClassicDraft::beginning_with(shard, context, id, classic);
    next.record();
    if has_to_rebalance {
        next.prepare_rebalance();
    }
    // Clocks of the consumer group's members mean nothing any more.
    notes.clear();
    Decision { records, notes, replies, ..Decision::nothing() }.then(next.finish())
}
