//! The durable facts about a group of the consumer protocol, and their bytes in `__consumer_offsets`.
//!
//! A key's type says what the fact is about: 3 the group's epoch, 5 a member's subscription, 6 the epoch of the target
//! assignment, 7 a member's part of it, 8 what a member has now, 16 what a pattern matches. Type 4 (topics as the group saw them) is
//! Kafka's until 4.0, and is skipped.
//!
//! Lists come in Kafka in the order of its hash tables. Here maps keep them sorted, so a record of Kafka's is read for what it means
//! and may be written in another order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use atonce_kernel::{GroupId, GroupInstanceId, MemberId, Timestamp, TopicId, TopicName};
use atonce_protocol::messages::consumer_group_current_member_assignment_key::ConsumerGroupCurrentMemberAssignmentKey;
use atonce_protocol::messages::consumer_group_current_member_assignment_value::{
    self, ConsumerGroupCurrentMemberAssignmentValue,
};
use atonce_protocol::messages::consumer_group_member_metadata_key::ConsumerGroupMemberMetadataKey;
use atonce_protocol::messages::consumer_group_member_metadata_value::{
    ClassicMemberMetadata, ClassicProtocol, ConsumerGroupMemberMetadataValue,
};
use atonce_protocol::messages::consumer_group_metadata_key::ConsumerGroupMetadataKey;
use atonce_protocol::messages::consumer_group_metadata_value::ConsumerGroupMetadataValue;
use atonce_protocol::messages::consumer_group_regular_expression_key::ConsumerGroupRegularExpressionKey;
use atonce_protocol::messages::consumer_group_regular_expression_value::ConsumerGroupRegularExpressionValue;
use atonce_protocol::messages::consumer_group_target_assignment_member_key::ConsumerGroupTargetAssignmentMemberKey;
use atonce_protocol::messages::consumer_group_target_assignment_member_value::{
    ConsumerGroupTargetAssignmentMemberValue, TopicPartition as TargetTopic,
};
use atonce_protocol::messages::consumer_group_target_assignment_metadata_key::ConsumerGroupTargetAssignmentMetadataKey;
use atonce_protocol::messages::consumer_group_target_assignment_metadata_value::ConsumerGroupTargetAssignmentMetadataValue;
use atonce_protocol::{DecodeError, EncodeError, Message, Reader};
use bytes::Bytes;

use super::super::classic::JoinProtocol;
use super::super::record::{decode_key, encode_key};
use super::{AssignedPartitions, MemberState, Partitions};

pub(in super::super) const EPOCH_KEY: i16 = 3;
pub(in super::super) const MEMBER_KEY: i16 = 5;
pub(in super::super) const TARGET_KEY: i16 = 6;
pub(in super::super) const TARGET_MEMBER_KEY: i16 = 7;
pub(in super::super) const CURRENT_KEY: i16 = 8;
pub(in super::super) const PATTERN_KEY: i16 = 16;

/// All values have one version so far.
const VALUE_VERSION: i16 = 0;

/// A fact about one group. No value: it is no more.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Fact {
    /// The group's epoch; without one the group is no more.
    Epoch(Option<GroupEpoch>),
    /// What a member wants. Without it, the member is no more.
    Member(MemberId, Option<Subscription>),
    /// The epoch for which the target assignment was made.
    Target(Option<TargetEpoch>),
    /// A member's part of the target assignment.
    TargetMember(MemberId, Option<Partitions>),
    /// What a member has, and must give up.
    Current(MemberId, Option<Current>),
    /// The topics that a pattern matched.
    Pattern(Arc<str>, Option<Resolved>),
}

/// The epoch of a group, and the topics that it was raised for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupEpoch {
    /// Raised with each change of members, of what they want, or of topics.
    pub epoch: i32,
    /// A hash of the topics read: another one, and the group needs another assignment.
    pub metadata_hash: i64,
}

/// The epoch of a target assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TargetEpoch {
    /// The group's epoch at that time.
    pub epoch: i32,
    /// When it was made; 0 if there was nobody to make it for.
    pub timestamp: Timestamp,
}

/// What a member said of itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Subscription {
    /// A static member's own name.
    pub instance: Option<GroupInstanceId>,
    /// The rack it runs in; kept for those who ask.
    pub rack: Option<Arc<str>>,
    /// What the client calls itself.
    pub client_id: Arc<str>,
    /// Where it calls from.
    pub client_host: Arc<str>,
    /// Topics by name.
    pub topics: BTreeSet<TopicName>,
    /// Topics by pattern; empty if there is none.
    pub pattern: Arc<str>,
    /// How long it may take to give partitions up.
    pub rebalance_timeout_ms: i32,
    /// The assignor it votes for.
    pub assignor: Option<Arc<str>>,
    /// Only of a member that speaks the classic protocol.
    pub classic: Option<ClassicMember>,
}

/// What only a member of the classic protocol has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClassicMember {
    /// How long it may be silent.
    pub session_timeout_ms: i32,
    /// What it can do, the one it likes best first.
    pub protocols: Arc<[JoinProtocol]>,
}

/// What a member has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Current {
    /// The member's epoch; −2 while a static member is away.
    pub epoch: i32,
    /// The one before: an answer that was lost leaves the member there.
    pub previous_epoch: i32,
    /// How far its reconciliation is.
    pub state: MemberState,
    /// What it may read, with the epoch in which it got each.
    pub assigned: AssignedPartitions,
    /// What it must give up first.
    pub revoking: AssignedPartitions,
}

/// What a pattern matched.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resolved {
    /// The topics.
    pub topics: BTreeSet<TopicName>,
    /// The version of the broker's topics then.
    pub version: i64,
    /// When.
    pub timestamp: Timestamp,
}

impl Fact {
    /// Whether it says that something is no more.
    pub(in super::super) fn is_an_end(&self) -> bool {
        match self {
            Self::Epoch(value) => value.is_none(),
            Self::Member(_, value) => value.is_none(),
            Self::Target(value) => value.is_none(),
            Self::TargetMember(_, value) => value.is_none(),
            Self::Current(_, value) => value.is_none(),
            Self::Pattern(_, value) => value.is_none(),
        }
    }

    /// Whether the group's next deadline may be another now.
    pub(in super::super) fn wants_a_look(&self) -> bool {
        match self {
            Self::Member(_, value) => value.is_some(),
            Self::Current(_, value) => value.is_some(),
            Self::Pattern(..) => true,
            Self::Epoch(_) | Self::Target(_) | Self::TargetMember(..) => false,
        }
    }

    /// Key and value. Errors: as those of [`Record::encode`](super::super::Record::encode).
    pub(in super::super) fn encode(&self, group: &GroupId) -> Result<(Bytes, Option<Bytes>), EncodeError> {
        let group_id = group.to_string();
        Ok(match self {
            Self::Epoch(value) => {
                let value = value.map(|value| ConsumerGroupMetadataValue {
                    epoch: value.epoch,
                    metadata_hash: value.metadata_hash,
                    ..ConsumerGroupMetadataValue::default()
                });
                (encode_key(EPOCH_KEY, &ConsumerGroupMetadataKey { group_id })?, encode_value(value)?)
            }
            Self::Member(member, value) => {
                let key = ConsumerGroupMemberMetadataKey { group_id, member_id: member.to_string() };
                (encode_key(MEMBER_KEY, &key)?, encode_value(value.as_ref().map(Subscription::to_value))?)
            }
            Self::Target(value) => {
                let value = value.map(|value| ConsumerGroupTargetAssignmentMetadataValue {
                    assignment_epoch: value.epoch,
                    assignment_timestamp: value.timestamp.0,
                    ..ConsumerGroupTargetAssignmentMetadataValue::default()
                });
                let key = ConsumerGroupTargetAssignmentMetadataKey { group_id };
                (encode_key(TARGET_KEY, &key)?, encode_value(value)?)
            }
            Self::TargetMember(member, value) => {
                let key = ConsumerGroupTargetAssignmentMemberKey { group_id, member_id: member.to_string() };
                (encode_key(TARGET_MEMBER_KEY, &key)?, encode_value(value.as_ref().map(target_to_value))?)
            }
            Self::Current(member, value) => {
                let key = ConsumerGroupCurrentMemberAssignmentKey { group_id, member_id: member.to_string() };
                (encode_key(CURRENT_KEY, &key)?, encode_value(value.as_ref().map(Current::to_value))?)
            }
            Self::Pattern(pattern, value) => {
                let key =
                    ConsumerGroupRegularExpressionKey { group_id, regular_expression: pattern.as_ref().to_owned() };
                (encode_key(PATTERN_KEY, &key)?, encode_value(value.as_ref().map(Resolved::to_value))?)
            }
        })
    }

    /// Reads a fact whose key has this type. `None`: it is of no type of ours.
    pub(in super::super) fn decode(
        key_type: i16,
        key: Reader,
        value: Option<Bytes>,
    ) -> Result<Option<(GroupId, Self)>, DecodeError> {
        Ok(Some(match key_type {
            EPOCH_KEY => {
                let key: ConsumerGroupMetadataKey = decode_key(key)?;
                let value: Option<ConsumerGroupMetadataValue> = decode_value(value)?;
                let epoch = |value: ConsumerGroupMetadataValue| GroupEpoch {
                    epoch: value.epoch,
                    metadata_hash: value.metadata_hash,
                };
                (GroupId::from(key.group_id), Self::Epoch(value.map(epoch)))
            }
            MEMBER_KEY => {
                let key: ConsumerGroupMemberMetadataKey = decode_key(key)?;
                let value = decode_value(value)?.map(Subscription::from_value);
                (GroupId::from(key.group_id), Self::Member(MemberId::from(key.member_id), value))
            }
            TARGET_KEY => {
                let key: ConsumerGroupTargetAssignmentMetadataKey = decode_key(key)?;
                let value: Option<ConsumerGroupTargetAssignmentMetadataValue> = decode_value(value)?;
                let target = |value: ConsumerGroupTargetAssignmentMetadataValue| TargetEpoch {
                    epoch: value.assignment_epoch,
                    timestamp: Timestamp(value.assignment_timestamp),
                };
                (GroupId::from(key.group_id), Self::Target(value.map(target)))
            }
            TARGET_MEMBER_KEY => {
                let key: ConsumerGroupTargetAssignmentMemberKey = decode_key(key)?;
                let value = decode_value(value)?.map(target_from_value);
                (GroupId::from(key.group_id), Self::TargetMember(MemberId::from(key.member_id), value))
            }
            CURRENT_KEY => {
                let key: ConsumerGroupCurrentMemberAssignmentKey = decode_key(key)?;
                let value = decode_value(value)?.map(Current::from_value);
                (GroupId::from(key.group_id), Self::Current(MemberId::from(key.member_id), value))
            }
            PATTERN_KEY => {
                let key: ConsumerGroupRegularExpressionKey = decode_key(key)?;
                let value = decode_value(value)?.map(Resolved::from_value);
                (GroupId::from(key.group_id), Self::Pattern(Arc::from(key.regular_expression), value))
            }
            _ => return Ok(None),
        }))
    }
}

fn encode_value<V: Message>(value: Option<V>) -> Result<Option<Bytes>, EncodeError> {
    value.map(|value| value.encode_versioned(VALUE_VERSION)).transpose()
}

fn decode_value<V: Message>(value: Option<Bytes>) -> Result<Option<V>, DecodeError> {
    value.map(|bytes| V::decode_versioned(bytes).map(|(_, value)| value)).transpose()
}

impl Subscription {
    fn to_value(&self) -> ConsumerGroupMemberMetadataValue {
        ConsumerGroupMemberMetadataValue {
            instance_id: self.instance.clone().map(String::from),
            rack_id: self.rack.as_deref().map(str::to_owned),
            client_id: self.client_id.as_ref().to_owned(),
            client_host: self.client_host.as_ref().to_owned(),
            subscribed_topic_names: self.topics.iter().map(ToString::to_string).collect(),
            subscribed_topic_regex: Some(self.pattern.as_ref().to_owned()),
            rebalance_timeout_ms: self.rebalance_timeout_ms,
            server_assignor: self.assignor.as_deref().map(str::to_owned),
            classic_member_metadata: self.classic.as_ref().map(|classic| ClassicMemberMetadata {
                session_timeout_ms: classic.session_timeout_ms,
                supported_protocols: classic
                    .protocols
                    .iter()
                    .map(|protocol| ClassicProtocol {
                        name: protocol.name.clone(),
                        metadata: protocol.metadata.clone(),
                        ..ClassicProtocol::default()
                    })
                    .collect(),
                ..ClassicMemberMetadata::default()
            }),
            ..ConsumerGroupMemberMetadataValue::default()
        }
    }

    fn from_value(value: ConsumerGroupMemberMetadataValue) -> Self {
        Self {
            instance: value.instance_id.map(GroupInstanceId::from),
            rack: value.rack_id.map(Arc::from),
            client_id: Arc::from(value.client_id),
            client_host: Arc::from(value.client_host),
            topics: value.subscribed_topic_names.into_iter().map(TopicName::from).collect(),
            pattern: Arc::from(value.subscribed_topic_regex.unwrap_or_default()),
            rebalance_timeout_ms: value.rebalance_timeout_ms,
            assignor: value.server_assignor.map(Arc::from),
            classic: value.classic_member_metadata.map(|classic| ClassicMember {
                session_timeout_ms: classic.session_timeout_ms,
                protocols: classic
                    .supported_protocols
                    .into_iter()
                    .map(|protocol| JoinProtocol { name: protocol.name, metadata: protocol.metadata })
                    .collect(),
            }),
        }
    }
}

fn target_to_value(target: &Partitions) -> ConsumerGroupTargetAssignmentMemberValue {
    ConsumerGroupTargetAssignmentMemberValue {
        topic_partitions: target
            .iter()
            .map(|(topic_id, partitions)| TargetTopic {
                topic_id: *topic_id,
                partitions: partitions.iter().copied().collect(),
                ..TargetTopic::default()
            })
            .collect(),
        ..ConsumerGroupTargetAssignmentMemberValue::default()
    }
}

fn target_from_value(value: ConsumerGroupTargetAssignmentMemberValue) -> Partitions {
    let topics = value.topic_partitions.into_iter();
    topics.map(|topic| (topic.topic_id, topic.partitions.into_iter().collect())).collect()
}

impl Current {
    fn to_value(&self) -> ConsumerGroupCurrentMemberAssignmentValue {
        ConsumerGroupCurrentMemberAssignmentValue {
            member_epoch: self.epoch,
            previous_member_epoch: self.previous_epoch,
            state: self.state.to_i8(),
            assigned_partitions: assigned_to_value(&self.assigned),
            partitions_pending_revocation: assigned_to_value(&self.revoking),
            ..ConsumerGroupCurrentMemberAssignmentValue::default()
        }
    }

    fn from_value(value: ConsumerGroupCurrentMemberAssignmentValue) -> Self {
        let epoch = value.member_epoch;
        Self {
            epoch,
            previous_epoch: value.previous_member_epoch,
            state: MemberState::from_i8(value.state),
            assigned: assigned_from_value(value.assigned_partitions, epoch),
            revoking: assigned_from_value(value.partitions_pending_revocation, epoch),
        }
    }
}

type CurrentTopic = consumer_group_current_member_assignment_value::TopicPartitions;

fn assigned_to_value(assigned: &AssignedPartitions) -> Vec<CurrentTopic> {
    let topic = |(topic_id, partitions): (&TopicId, &BTreeMap<i32, i32>)| CurrentTopic {
        topic_id: *topic_id,
        partitions: partitions.keys().copied().collect(),
        assignment_epochs: Some(partitions.values().copied().collect()),
        ..CurrentTopic::default()
    };
    assigned.iter().map(topic).collect()
}

/// Until 4.2 nobody wrote in which epoch a partition was assigned: the member's own is the latest that it can have been.
fn assigned_from_value(topics: Vec<CurrentTopic>, member_epoch: i32) -> AssignedPartitions {
    let topic = |topic: CurrentTopic| {
        let known = topic.assignment_epochs.filter(|epochs| epochs.len() == topic.partitions.len());
        let epochs = known.unwrap_or_else(|| vec![member_epoch.max(0); topic.partitions.len()]);
        (topic.topic_id, topic.partitions.into_iter().zip(epochs).collect())
    };
    topics.into_iter().map(topic).collect()
}

impl Resolved {
    fn to_value(&self) -> ConsumerGroupRegularExpressionValue {
        ConsumerGroupRegularExpressionValue {
            topics: self.topics.iter().map(ToString::to_string).collect(),
            version: self.version,
            timestamp: self.timestamp.0,
            ..ConsumerGroupRegularExpressionValue::default()
        }
    }

    fn from_value(value: ConsumerGroupRegularExpressionValue) -> Self {
        Self {
            topics: value.topics.into_iter().map(TopicName::from).collect(),
            version: value.version,
            timestamp: Timestamp(value.timestamp),
        }
    }
}
