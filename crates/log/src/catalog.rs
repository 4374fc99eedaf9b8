//! Topics, their ids, partitions and settings, and the producer ids handed out: all that is durable and is not a batch.
//!
//! **What it does not know**: files, batches, which settings mean something.
//!
//! Invariants: names and ids are unique; an id is never used again; partitions only grow.

use std::collections::BTreeMap;

use atonce_kernel::{PartitionIndex, ProducerId, TopicId, TopicName};

/// A topic's name is at most this long, because a folder's name is at most 255 bytes and a suffix must fit.
pub const TOPIC_NAME_BYTES_MAX: usize = 249;

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// The id, never used again.
    pub id: TopicId,
    /// The name, which another topic may have once this one is deleted.
    pub name: TopicName,
    /// How many partitions, from index 0.
    pub partitions: PartitionIndex,
    /// Settings that were given, by Kafka's names. What is not here has the broker's default.
    pub configs: BTreeMap<String, String>,
}

/// Producer ids, none of which was handed out before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerIdBlock {
    /// The first.
    pub first: ProducerId,
    /// How many.
    pub count: u32,
}

/// Why the catalog does not change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// TOPIC_ALREADY_EXISTS.
    #[error("topic {0} exists already")]
    TopicExists(TopicName),
    /// TOPIC_ALREADY_EXISTS: the id is taken.
    #[error("a topic with id {0} exists or existed")]
    TopicIdExists(TopicId),
    /// UNKNOWN_TOPIC_ID.
    #[error("there is no topic with id {0}")]
    UnknownTopic(TopicId),
    /// INVALID_TOPIC_EXCEPTION.
    #[error("topic name {0:?} is not legal: 1 to 249 of a-z A-Z 0-9 . _ -, and neither . nor ..")]
    InvalidName(TopicName),
    /// INVALID_PARTITIONS.
    #[error("topic {topic} cannot have {requested} partitions; it has {current}, and they only grow, from 1")]
    InvalidPartitions {
        /// Which topic.
        topic: TopicName,
        /// How many it has; 0 if it is new.
        current: PartitionIndex,
        /// How many were asked for.
        requested: PartitionIndex,
    },
    /// KAFKA_STORAGE_ERROR.
    #[error(transparent)]
    Storage(#[from] crate::error::StageError),
}

/// All topics, as of everything staged. A reply that says what is here waits for the staged position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog {
    topics: BTreeMap<TopicId, Topic>,
    ids: BTreeMap<TopicName, TopicId>,
    next_producer_id: i64,
}

impl Catalog {
    /// The topic of this name.
    #[must_use]
    pub fn topic(&self, name: &str) -> Option<&Topic> {
        self.ids.get(name).and_then(|id| self.topics.get(id))
    }

    /// The topic of this id.
    #[must_use]
    pub fn topic_by_id(&self, id: TopicId) -> Option<&Topic> {
        self.topics.get(&id)
    }

    /// All topics, by name.
    pub fn topics(&self) -> impl Iterator<Item = &Topic> {
        self.ids.values().filter_map(|id| self.topics.get(id))
    }

    /// The producer id that will be handed out next.
    #[must_use]
    pub fn next_producer_id(&self) -> ProducerId {
        ProducerId(self.next_producer_id)
    }

    pub(crate) fn check_create(
        &self,
        name: &TopicName,
        id: TopicId,
        partitions: PartitionIndex,
    ) -> Result<(), CatalogError> {
        if !is_legal_name(name.as_str()) {
            return Err(CatalogError::InvalidName(name.clone()));
        }
        if self.ids.contains_key(name) {
            return Err(CatalogError::TopicExists(name.clone()));
        }
        if id.is_zero() || self.topics.contains_key(&id) {
            return Err(CatalogError::TopicIdExists(id));
        }
        if partitions < 1 {
            return Err(CatalogError::InvalidPartitions { topic: name.clone(), current: 0, requested: partitions });
        }
        Ok(())
    }

    pub(crate) fn check_partitions(&self, id: TopicId, requested: PartitionIndex) -> Result<(), CatalogError> {
        let topic = self.topics.get(&id).ok_or(CatalogError::UnknownTopic(id))?;
        if requested <= topic.partitions {
            return Err(CatalogError::InvalidPartitions {
                topic: topic.name.clone(),
                current: topic.partitions,
                requested,
            });
        }
        Ok(())
    }

    pub(crate) fn insert(&mut self, topic: Topic) {
        self.ids.insert(topic.name.clone(), topic.id);
        self.topics.insert(topic.id, topic);
    }

    pub(crate) fn remove(&mut self, id: TopicId) -> Option<Topic> {
        let topic = self.topics.remove(&id)?;
        self.ids.remove(&topic.name);
        Some(topic)
    }

    pub(crate) fn set_partitions(&mut self, id: TopicId, partitions: PartitionIndex) {
        if let Some(topic) = self.topics.get_mut(&id) {
            topic.partitions = partitions;
        }
    }

    pub(crate) fn set_config(&mut self, id: TopicId, key: &str, value: Option<&str>) {
        if let Some(topic) = self.topics.get_mut(&id) {
            match value {
                Some(value) => topic.configs.insert(key.to_owned(), value.to_owned()),
                None => topic.configs.remove(key),
            };
        }
    }

    pub(crate) fn set_next_producer_id(&mut self, next: i64) {
        self.next_producer_id = next;
    }
}

/// Whether a topic may be called this. Folders are named after topics, so this also keeps paths inside the data folder.
#[must_use]
pub fn is_legal_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= TOPIC_NAME_BYTES_MAX
        && name != "."
        && name != ".."
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_leave_the_folder_are_not_legal() {
        for name in ["", ".", "..", "a/b", "../x", "a b", "ä", "a\0"] {
            assert!(!is_legal_name(name), "{name:?}");
        }
        assert!(!is_legal_name(&"x".repeat(250)));
        assert!(is_legal_name(&"x".repeat(249)));
        assert!(is_legal_name("demo.exactly_once.word-counts"));
    }
}
