//! What the client knows of the cluster: brokers, topics, leaders.
//!
//! **What it does not know**: when to ask (whoever meets a refusal asks), connections.
//!
//! Invariants: a topic's id and its partitions come from one answer; a leader of an older epoch does not replace one of a
//! newer epoch of the same topic id, unless that one was only named in passing and [`CONTRADICTIONS_MAX`] answers in a row do
//! not know of it.

use std::collections::BTreeMap;

use atonce_kernel::{TopicId, TopicName, TopicPartition};
use atonce_protocol::ErrorCode;
use atonce_protocol::messages::metadata_response::MetadataResponse;

/// How many answers in a row may know an older epoch than that of a leader who was named in passing. Brokers hear of a new
/// leader one after the other, so one such answer proves nothing; but an epoch that never was would stop the partition for ever.
pub const CONTRADICTIONS_MAX: u32 = 3;

/// A broker, and where it listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    /// A host name or an IP address.
    pub host: String,
    /// The port.
    pub port: i32,
    /// Its rack, if it has one.
    pub rack: Option<String>,
}

/// A partition's leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leader {
    /// Its node; -1 if there is none now.
    pub node: i32,
    /// Its epoch; -1 if not known.
    pub epoch: i32,
}

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Its id; zero if the broker is too old to say.
    pub id: TopicId,
    /// Leaders, by partition.
    pub leaders: Vec<Leader>,
    /// Whether it belongs to the cluster itself.
    pub is_internal: bool,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    cluster_id: Option<String>,
    controller: Option<i32>,
    brokers: BTreeMap<i32, Broker>,
    topics: BTreeMap<TopicName, Topic>,
    names: BTreeMap<TopicId, TopicName>,
    /// Partitions whose leader was named in passing and is not confirmed yet, with how many answers contradicted it.
    hints: BTreeMap<TopicPartition, u32>,
    refusals: BTreeMap<TopicName, ErrorCode>,
}

impl Metadata {
    /// The cluster's id.
    #[must_use]
    pub fn cluster_id(&self) -> Option<&str> {
        self.cluster_id.as_deref()
    }

    /// The broker that changes topics, or passes the wish on.
    #[must_use]
    pub fn controller(&self) -> Option<i32> {
        self.controller
    }

    /// The brokers by node.
    #[must_use]
    pub fn brokers(&self) -> &BTreeMap<i32, Broker> {
        &self.brokers
    }

    /// A topic, if it is known.
    #[must_use]
    pub fn topic(&self, name: &TopicName) -> Option<&Topic> {
        self.topics.get(name)
    }

    /// Why a topic that was asked for is not known.
    #[must_use]
    pub fn refusal(&self, name: &TopicName) -> Option<ErrorCode> {
        self.refusals.get(name).copied()
    }

    /// All topics.
    #[must_use]
    pub fn topics(&self) -> &BTreeMap<TopicName, Topic> {
        &self.topics
    }

    /// The name of a topic id.
    #[must_use]
    pub fn name_of(&self, id: TopicId) -> Option<&TopicName> {
        self.names.get(&id)
    }

    /// A partition's leader, if it has one.
    #[must_use]
    pub fn leader(&self, topic_partition: &TopicPartition) -> Option<Leader> {
        let leaders = &self.topics.get(&topic_partition.topic)?.leaders;
        let leader = *leaders.get(usize::try_from(topic_partition.partition).ok()?)?;
        (leader.node >= 0).then_some(leader)
    }

    /// How many partitions a topic has.
    #[must_use]
    pub fn partition_count(&self, topic: &TopicName) -> Option<i32> {
        self.topics.get(topic).and_then(|topic| i32::try_from(topic.leaders.len()).ok())
    }

    /// An answer came. Topics that it does not speak of stay as they are.
    pub fn handle_response(&mut self, response: &MetadataResponse) {
        if ErrorCode::from_wire(response.error_code) == ErrorCode::RebootstrapRequired {
            // These brokers are another cluster's by now, or none's (KIP-1102).
            self.brokers.clear();
            return;
        }
        if response.cluster_id.is_some() {
            self.cluster_id.clone_from(&response.cluster_id);
        }
        self.controller = (response.controller_id >= 0).then_some(response.controller_id);
        self.brokers = response
            .brokers
            .iter()
            .map(|it| (it.node_id, Broker { host: it.host.clone(), port: it.port, rack: it.rack.clone() }))
            .collect();
        for answered in &response.topics {
            let Some(name) = answered.name.as_deref().map(TopicName::from) else { continue };
            let code = ErrorCode::from_wire(answered.error_code);
            if code != ErrorCode::None {
                // A topic whose leaders are being chosen is still there.
                if code != ErrorCode::LeaderNotAvailable {
                    self.hints.retain(|it, _| it.topic != name);
                    self.forget(&name);
                }
                self.refusals.insert(name, code);
                continue;
            }
            self.refusals.remove(&name);
            let mut leaders = Vec::new();
            let mut partitions: Vec<_> = answered.partitions.iter().collect();
            partitions.sort_by_key(|partition| partition.partition_index);
            for partition in partitions {
                let found = Leader { node: partition.leader_id, epoch: partition.leader_epoch };
                leaders.push(self.newer(&name, answered.topic_id, partition.partition_index, found));
            }
            self.forget(&name);
            if !answered.topic_id.is_zero() {
                self.names.insert(answered.topic_id, name.clone());
            }
            self.topics.insert(name, Topic { id: answered.topic_id, leaders, is_internal: answered.is_internal });
        }
    }

    /// A broker was named in passing, as a coordinator or a leader, perhaps at another address than before.
    pub fn handle_broker(&mut self, node: i32, broker: Broker) {
        let rack = self.brokers.get(&node).and_then(|known| known.rack.clone());
        self.brokers.insert(node, Broker { rack: broker.rack.or(rack), ..broker });
    }

    /// A broker said in passing who leads a partition now (KIP-951).
    pub fn handle_leader(&mut self, topic_partition: &TopicPartition, leader: Leader) {
        if leader.node < 0 || !self.brokers.contains_key(&leader.node) {
            return;
        }
        if let Some(topic) = self.topics.get_mut(&topic_partition.topic)
            && let Ok(place) = usize::try_from(topic_partition.partition)
            && let Some(known) = topic.leaders.get_mut(place)
            && known.epoch < leader.epoch
        {
            *known = leader;
            self.hints.insert(topic_partition.clone(), 0);
        }
    }

    fn newer(&mut self, name: &TopicName, id: TopicId, partition: i32, found: Leader) -> Leader {
        let known = self
            .topics
            .get(name)
            .filter(|topic| topic.id == id)
            .and_then(|topic| topic.leaders.get(usize::try_from(partition).ok()?).copied());
        let topic_partition = TopicPartition::new(name.clone(), partition);
        match known {
            Some(known) if known.epoch > found.epoch && found.epoch >= 0 => {
                let Some(contradictions) = self.hints.get_mut(&topic_partition) else { return known };
                *contradictions += 1;
                if *contradictions < CONTRADICTIONS_MAX {
                    return known;
                }
                self.hints.remove(&topic_partition);
                found
            }
            Some(_) | None => {
                self.hints.remove(&topic_partition);
                found
            }
        }
    }

    fn forget(&mut self, name: &TopicName) {
        if let Some(topic) = self.topics.remove(name) {
            self.names.remove(&topic.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use atonce_kernel::Uuid;
    use atonce_protocol::messages::metadata_response::{
        MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
    };

    use super::*;

    fn answer(id: u8, leaders: &[(i32, i32)]) -> MetadataResponse {
        let partition = |(index, (leader_id, leader_epoch)): (usize, &(i32, i32))| MetadataResponsePartition {
            partition_index: i32::try_from(index).unwrap(),
            leader_id: *leader_id,
            leader_epoch: *leader_epoch,
            ..MetadataResponsePartition::default()
        };
        MetadataResponse {
            brokers: vec![MetadataResponseBroker { node_id: 1, ..MetadataResponseBroker::default() }],
            topics: vec![MetadataResponseTopic {
                name: Some("t".to_owned()),
                topic_id: Uuid([id; 16]),
                partitions: leaders.iter().enumerate().map(partition).collect(),
                ..MetadataResponseTopic::default()
            }],
            ..MetadataResponse::default()
        }
    }

    fn leader(metadata: &Metadata) -> Option<(i32, i32)> {
        metadata.leader(&TopicPartition::new("t", 0)).map(|leader| (leader.node, leader.epoch))
    }

    #[test]
    fn an_answer_from_a_broker_that_lags_behind_does_not_bring_an_old_leader_back() {
        let mut metadata = Metadata::default();
        metadata.handle_response(&answer(7, &[(2, 5)]));
        metadata.handle_response(&answer(7, &[(1, 4)]));
        assert_eq!(leader(&metadata), Some((2, 5)));
        metadata.handle_response(&answer(7, &[(1, 6)]));
        assert_eq!(leader(&metadata), Some((1, 6)));
    }

    #[test]
    fn a_topic_made_again_begins_its_epochs_anew() {
        let mut metadata = Metadata::default();
        metadata.handle_response(&answer(7, &[(2, 5)]));
        metadata.handle_response(&answer(8, &[(1, 0)]));
        assert_eq!(leader(&metadata), Some((1, 0)));
        assert_eq!(metadata.name_of(Uuid([7; 16])), None);
        assert_eq!(metadata.name_of(Uuid([8; 16])).map(TopicName::as_str), Some("t"));
    }

    #[test]
    fn a_topic_that_is_gone_is_forgotten_with_the_reason() {
        let mut metadata = Metadata::default();
        metadata.handle_response(&answer(7, &[(2, 5)]));
        let mut gone = answer(0, &[]);
        gone.topics[0].error_code = ErrorCode::UnknownTopicOrPartition.to_i16();
        metadata.handle_response(&gone);
        assert_eq!(leader(&metadata), None);
        assert_eq!(metadata.refusal(&"t".into()), Some(ErrorCode::UnknownTopicOrPartition));
    }

    #[test]
    fn a_broker_that_moved_is_known_at_its_new_address() {
        let mut metadata = Metadata::default();
        metadata.handle_response(&answer(7, &[(1, 5)]));
        metadata.handle_broker(1, Broker { host: "elsewhere".to_owned(), port: 7, rack: None });
        assert_eq!(metadata.brokers()[&1].host, "elsewhere");
    }

    #[test]
    fn a_broker_that_asks_to_begin_anew_makes_all_brokers_be_forgotten() {
        let mut metadata = Metadata::default();
        metadata.handle_response(&answer(7, &[(1, 5)]));
        let again =
            MetadataResponse { error_code: ErrorCode::RebootstrapRequired.to_i16(), ..MetadataResponse::default() };
        metadata.handle_response(&again);
        assert!(metadata.brokers().is_empty());
        assert_eq!(leader(&metadata), Some((1, 5)), "topics are looked up again when they are needed");
    }

    #[test]
    fn a_hint_is_taken_only_if_it_is_newer() {
        let mut metadata = Metadata::default();
        metadata.handle_response(&answer(7, &[(2, 5)]));
        metadata.handle_leader(&TopicPartition::new("t", 0), Leader { node: 1, epoch: 5 });
        assert_eq!(leader(&metadata), Some((2, 5)));
        metadata.handle_leader(&TopicPartition::new("t", 0), Leader { node: 1, epoch: 6 });
        assert_eq!(leader(&metadata), Some((1, 6)));
    }

    #[test]
    fn a_hint_that_no_answer_confirms_is_given_up_and_one_that_was_confirmed_is_not() {
        let mut metadata = Metadata::default();
        let hint = |metadata: &mut Metadata, epoch| {
            metadata.handle_leader(&TopicPartition::new("t", 0), Leader { node: 1, epoch });
        };
        metadata.handle_response(&answer(7, &[(2, 5)]));
        hint(&mut metadata, 99);
        for _ in 1..CONTRADICTIONS_MAX {
            metadata.handle_response(&answer(7, &[(2, 5)]));
            assert_eq!(leader(&metadata), Some((1, 99)), "that broker may not have heard of it yet");
        }
        metadata.handle_response(&answer(7, &[(2, 5)]));
        assert_eq!(leader(&metadata), Some((2, 5)), "an epoch that never was");

        hint(&mut metadata, 6);
        metadata.handle_response(&answer(7, &[(1, 6)]));
        for _ in 0..2 * CONTRADICTIONS_MAX {
            metadata.handle_response(&answer(7, &[(2, 5)]));
        }
        assert_eq!(leader(&metadata), Some((1, 6)), "confirmed: who says otherwise lags behind");
    }
}
