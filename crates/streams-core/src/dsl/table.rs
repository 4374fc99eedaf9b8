//! [`KTable`]: of each key, the last value counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use atonce_kernel::TopicName;

use super::KStream;
use crate::processor::Context;
use crate::record::Record;
use crate::wire::Wire;

/// A change of a table's key.
#[derive(Clone)]
pub(super) struct Change<V> {
    /// The value from now on; `None` where the key is deleted.
    pub(super) new: Option<V>,
    /// The value before, if anything downstream wants to know it.
    pub(super) old: Option<V>,
}

/// Whether a table's store has to say what a key's value was before each change. Set while the topology is built, read when it runs.
pub(super) type WantsOld = Arc<AtomicBool>;

/// A table: of each key, the last value counts, and a key may be deleted.
#[must_use = "a table does nothing until it is read, as by .to_stream().to(\"topic\")"]
pub struct KTable<K, V> {
    changes: KStream<K, Change<V>>,
    wants_old: WantsOld,
}

impl<K, V> Clone for KTable<K, V> {
    fn clone(&self) -> Self {
        Self { changes: self.changes.clone(), wants_old: Arc::clone(&self.wants_old) }
    }
}

impl<K: Clone + Send + 'static, V: Clone + Send + 'static> KTable<K, V> {
    pub(super) fn at(changes: KStream<K, Change<V>>, wants_old: WantsOld) -> Self {
        Self { changes, wants_old }
    }

    /// Only the keys whose value `predicate` lets through: a change from one that it lets through to one that it does not deletes the key
    /// downstream. `predicate` is asked about the value before as well.
    pub fn filter<F>(self, predicate: F) -> Self
    where
        F: Fn(&K, &V) -> bool + Send + Sync + 'static,
    {
        self.wants_old.store(true, Ordering::Relaxed);
        self.step("KTABLE-FILTER", move |key, Change { new, old }| {
            let new = new.filter(|value| predicate(key, value));
            let old = old.filter(|value| predicate(key, value));
            // Who never saw the key need not hear that it is gone.
            (new.is_some() || old.is_some()).then_some(Change { new, old })
        })
    }

    /// Only the keys whose value `predicate` does not let through.
    pub fn filter_not<F>(self, predicate: F) -> Self
    where
        F: Fn(&K, &V) -> bool + Send + Sync + 'static,
    {
        self.filter(move |key, value| !predicate(key, value))
    }

    /// Another value for each key.
    pub fn map_values<V2, F>(self, function: F) -> KTable<K, V2>
    where
        V2: Clone + Send + 'static,
        F: Fn(V) -> V2 + Send + Sync + 'static,
    {
        self.step("KTABLE-MAPVALUES", move |_, Change { new, old }| {
            Some(Change { new: new.map(&function), old: old.map(&function) })
        })
    }

    /// Every change of the table as a record: the new value, or `None` (a tombstone, once it is written) where a key is deleted.
    pub fn to_stream(self) -> KStream<K, Option<V>> {
        self.changes.step("KTABLE-TOSTREAM", false, |record: Record<K, Change<V>>, context| {
            let Record { key, value, timestamp, headers } = record;
            context.forward(Record { key, value: value.new, timestamp, headers });
        })
    }

    /// Gives the node that makes this table a name of its own, in the description and in errors.
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { changes: self.changes.named(name), wants_old: self.wants_old }
    }

    fn step<V2, F>(self, kind: &str, function: F) -> KTable<K, V2>
    where
        V2: Clone + Send + 'static,
        F: Fn(&K, Change<V>) -> Option<Change<V2>> + Send + Sync + 'static,
    {
        let forward = move |record: Record<K, Change<V>>, context: &mut Context<'_>| {
            let Record { key, value, timestamp, headers } = record;
            if let Some(value) = function(&key, value) {
                context.forward(Record { key, value, timestamp, headers });
            }
        };
        KTable { changes: self.changes.step(kind, false, forward), wants_old: self.wants_old }
    }
}

impl<K: Wire, V: Wire> KTable<K, V> {
    /// Writes every change to a topic: [`to_stream`](Self::to_stream) and [`KStream::to`] in one.
    pub fn to(self, topic: impl Into<TopicName>) {
        self.to_stream().to(topic);
    }
}
