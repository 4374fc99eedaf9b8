//! What may be read, as the connections see it: topics, their partitions, and a reader for each. The writer thread
//! replaces the picture after a commit; connections read it without asking anyone.
//!
//! Nothing stands here before it is durable. A waiting fetch leaves a bell at each of its partitions; the writer rings it
//! when a watermark has moved.
//!
//! **What it does not know**: the protocol, the journal, how a reader reads.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use atonce_kernel::{TopicId, TopicName, TopicPartition};
use tokio::sync::Notify;

use crate::configuration::TopicSettings;
use crate::engine::Reader;

/// The picture, replaced as a whole.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    current: RwLock<Arc<Topics>>,
}

/// All topics, at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Topics {
    by_name: BTreeMap<TopicName, Arc<Topic>>,
    by_id: BTreeMap<TopicId, TopicName>,
}

/// A topic as clients may see it.
#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) name: TopicName,
    pub(crate) id: TopicId,
    pub(crate) is_internal: bool,
    pub(crate) configs: BTreeMap<String, String>,
    /// What holds for it now, with what the broker says for all topics.
    pub(crate) settings: TopicSettings,
    pub(crate) partitions: Vec<Arc<Partition>>,
}

/// A partition that can be read.
pub(crate) struct Partition {
    pub(crate) topic_partition: TopicPartition,
    pub(crate) reader: Reader,
    bells: Mutex<BTreeMap<u64, Arc<Notify>>>,
}

impl Directory {
    /// The picture of now.
    pub(crate) fn topics(&self) -> Arc<Topics> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another one in its place.
    pub(crate) fn replace(&self, topics: Topics) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(topics);
    }
}

impl atonce_coordinator::group::wire::Topics for Topics {
    fn name_of(&self, id: TopicId) -> Option<TopicName> {
        self.by_id.get(&id).cloned()
    }

    fn id_of(&self, name: &str) -> Option<TopicId> {
        self.by_name(name).map(|topic| topic.id)
    }

    fn has_partition(&self, name: &str, partition: i32) -> bool {
        self.partition(name, partition).is_some()
    }
}

impl Topics {
    /// The topic of that name.
    pub(crate) fn by_name(&self, name: &str) -> Option<&Arc<Topic>> {
        self.by_name.get(name)
    }

    /// The topic of that id.
    pub(crate) fn by_id(&self, id: TopicId) -> Option<&Arc<Topic>> {
        self.by_id.get(&id).and_then(|name| self.by_name.get(name))
    }

    /// The partition, if there is one.
    pub(crate) fn partition(&self, topic: &str, partition: i32) -> Option<&Arc<Partition>> {
        self.by_name(topic)?.partition(partition)
    }

    /// All topics, sorted by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.by_name.values()
    }

    /// Adds a topic, or puts it in the place of what it was before.
    pub(crate) fn insert(&mut self, topic: Arc<Topic>) {
        self.by_id.insert(topic.id, topic.name.clone());
        if let Some(before) = self.by_name.insert(topic.name.clone(), Arc::clone(&topic))
            && before.id != topic.id
        {
            self.by_id.remove(&before.id);
        }
    }

    /// Takes a topic out. Fetches that wait for it are woken, to say so.
    pub(crate) fn remove(&mut self, name: &str) {
        if let Some(topic) = self.by_name.remove(name) {
            self.by_id.remove(&topic.id);
            topic.partitions.iter().for_each(|partition| partition.ring());
        }
    }
}

impl Topic {
    /// The partition of that index.
    pub(crate) fn partition(&self, index: i32) -> Option<&Arc<Partition>> {
        usize::try_from(index).ok().and_then(|index| self.partitions.get(index))
    }
}

impl std::fmt::Debug for Partition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Partition").field(&self.topic_partition).finish()
    }
}

impl Partition {
    pub(crate) fn new(topic_partition: TopicPartition, reader: Reader) -> Self {
        Self { topic_partition, reader, bells: Mutex::default() }
    }

    /// Wakes all that wait here.
    pub(crate) fn ring(&self) {
        for bell in self.bells.lock().unwrap_or_else(PoisonError::into_inner).values() {
            bell.notify_one();
        }
    }

    /// Leaves a bell here under a number of the caller's.
    pub(crate) fn leave_bell(&self, number: u64, bell: Arc<Notify>) {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner).insert(number, bell);
    }

    /// Takes the bell of that number away.
    pub(crate) fn take_bell(&self, number: u64) {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
    }
}
