//! What members of a classic group tell each other through their coordinator: subscriptions and assignments.
//!
//! **What it does not know**: what is done with them. Versions from the future are read as the newest known one, whose
//! fields they begin with.

use std::collections::BTreeSet;

use atonce_kernel::{TopicName, TopicPartition};
use atonce_protocol::messages::consumer_protocol_assignment::{self, ConsumerProtocolAssignment};
use atonce_protocol::messages::consumer_protocol_subscription::{self, ConsumerProtocolSubscription};
use atonce_protocol::{DecodeError, EncodeError, Message};
use bytes::Bytes;

/// What a member wants, as it stands in its JoinGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The topics, sorted.
    pub topics: Vec<TopicName>,
    /// What its assignor has to say.
    pub userdata: Bytes,
    /// What it owns while it joins, sorted; nothing in eager rebalances.
    pub owned: Vec<TopicPartition>,
    /// The generation that it owns that from; -1 if none, or if its version does not say.
    pub generation_id: i32,
    /// The rack it runs in, if it says.
    pub rack_id: Option<String>,
}

/// The version of subscriptions and assignments that we write: the one that says of which generation what is owned is,
/// and the rack.
const CONSUMER_PROTOCOL_VERSION: i16 = 3;

/// Writes a subscription. Layout: `version i16 | ConsumerProtocolSubscription`.
pub fn encode_subscription(subscription: &Subscription) -> Result<Bytes, EncodeError> {
    let message = ConsumerProtocolSubscription {
        topics: subscription.topics.iter().map(|topic| topic.as_str().to_owned()).collect(),
        user_data: Some(subscription.userdata.clone()),
        owned_partitions: by_topic(&subscription.owned)
            .map(|(topic, partitions)| consumer_protocol_subscription::TopicPartition { topic, partitions })
            .collect(),
        generation_id: subscription.generation_id,
        rack_id: subscription.rack_id.clone(),
    };
    message.encode_versioned(CONSUMER_PROTOCOL_VERSION)
}

/// Reads a subscription, of any version that is known; a newer one as the newest. Topics and owned partitions are sorted, each there once,
/// whatever the member wrote.
pub fn decode_subscription(bytes: &Bytes) -> Result<Subscription, DecodeError> {
    let message: ConsumerProtocolSubscription = decode_tolerantly(bytes)?;
    let topics: BTreeSet<TopicName> = message.topics.into_iter().map(TopicName::from).collect();
    let owned = message.owned_partitions.into_iter().map(|it| (it.topic, it.partitions));
    Ok(Subscription {
        topics: topics.into_iter().collect(),
        userdata: message.user_data.unwrap_or_default(),
        owned: in_order(owned),
        generation_id: message.generation_id,
        rack_id: message.rack_id,
    })
}

/// Writes an assignment. Layout: `version i16 | ConsumerProtocolAssignment`.
pub fn encode_assignment(partitions: &[TopicPartition], userdata: &Bytes) -> Result<Bytes, EncodeError> {
    let message = ConsumerProtocolAssignment {
        assigned_partitions: by_topic(partitions)
            .map(|(topic, partitions)| consumer_protocol_assignment::TopicPartition { topic, partitions })
            .collect(),
        user_data: Some(userdata.clone()),
    };
    message.encode_versioned(CONSUMER_PROTOCOL_VERSION)
}

/// Reads an assignment: partitions, sorted, and userdata. No bytes are no partitions: a member the leader forgot.
pub fn decode_assignment(bytes: &Bytes) -> Result<(Vec<TopicPartition>, Bytes), DecodeError> {
    if bytes.is_empty() {
        return Ok((Vec::new(), Bytes::new()));
    }
    let message: ConsumerProtocolAssignment = decode_tolerantly(bytes)?;
    let assigned = message.assigned_partitions.into_iter().map(|it| (it.topic, it.partitions));
    Ok((in_order(assigned), message.user_data.unwrap_or_default()))
}

/// Partitions by topic as a sorted list with each of them once.
fn in_order(by_topic: impl Iterator<Item = (String, Vec<i32>)>) -> Vec<TopicPartition> {
    let partitions: BTreeSet<TopicPartition> = by_topic
        .flat_map(|(topic, partitions)| {
            let topic = TopicName::from(topic);
            partitions.into_iter().map(move |partition| TopicPartition::new(topic.clone(), partition))
        })
        .collect();
    partitions.into_iter().collect()
}

/// Reads what follows its own version; a version from the future as the newest known, whose fields it begins with.
fn decode_tolerantly<M: Message>(bytes: &Bytes) -> Result<M, DecodeError> {
    let mut reader = atonce_protocol::Reader::new(bytes.clone());
    let version = reader.i16()?.min(*M::VERSIONS.end());
    M::decode(&mut reader, version)
}

fn by_topic(partitions: &[TopicPartition]) -> impl Iterator<Item = (String, Vec<i32>)> {
    let mut topics: std::collections::BTreeMap<&TopicName, Vec<i32>> = std::collections::BTreeMap::new();
    for topic_partition in partitions {
        topics.entry(&topic_partition.topic).or_default().push(topic_partition.partition);
    }
    topics.into_iter().map(|(topic, partitions)| (topic.as_str().to_owned(), partitions))
}
