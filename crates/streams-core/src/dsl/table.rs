//! [`KTable`]: of each key, the last value counts.

use super::KStream;
use crate::processor::Context;
use crate::record::Record;
use crate::wire::Wire;

/// A table: of each key, the last value counts, and a key may be deleted.
#[must_use = "a table does nothing until it is read, as by .to_stream().to(\"topic\")"]
pub struct KTable<K, V> {
    /// Its changes: the new value, or `None` where the key is deleted.
    changes: KStream<K, Option<V>>,
}

impl<K, V> Clone for KTable<K, V> {
    fn clone(&self) -> Self {
        Self { changes: self.changes.clone() }
    }
}

impl<K: Clone + Send + 'static, V: Clone + Send + 'static> KTable<K, V> {
    pub(super) fn at(changes: KStream<K, Option<V>>) -> Self {
        Self { changes }
    }

    /// Only the keys whose value `predicate` lets through: a change to another value deletes the key downstream.
    pub fn filter<F>(self, predicate: F) -> Self
    where
        F: Fn(&K, &V) -> bool + Send + Sync + 'static,
    {
        self.step("KTABLE-FILTER", move |key, value| Some(value).filter(|value| predicate(key, value)))
    }

    /// Only the keys whose value `predicate` does not let through.
    pub fn filter_not<F>(self, predicate: F) -> Self
    where
        F: Fn(&K, &V) -> bool + Send + Sync + 'static,
    {
        self.step("KTABLE-FILTER", move |key, value| Some(value).filter(|value| !predicate(key, value)))
    }

    /// Another value for each key.
    pub fn map_values<V2, F>(self, function: F) -> KTable<K, V2>
    where
        V2: Clone + Send + 'static,
        F: Fn(V) -> V2 + Send + Sync + 'static,
    {
        self.step("KTABLE-MAPVALUES", move |_, value| Some(function(value)))
    }

    /// Every change of the table as a record: the new value, or `None` (a tombstone, once it is written) where a key is deleted.
    pub fn to_stream(self) -> KStream<K, Option<V>> {
        self.changes.step("KTABLE-TOSTREAM", false, |record: Record<K, Option<V>>, context| context.forward(record))
    }

    /// Gives the node that makes this table a name of its own, in the description and in errors.
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { changes: self.changes.named(name) }
    }

    fn step<V2, F>(self, kind: &str, function: F) -> KTable<K, V2>
    where
        V2: Clone + Send + 'static,
        F: Fn(&K, V) -> Option<V2> + Send + Sync + 'static,
    {
        let forward = move |record: Record<K, Option<V>>, context: &mut Context<'_>| {
            let Record { key, value, timestamp, headers } = record;
            let value = value.and_then(|value| function(&key, value));
            context.forward(Record { key, value, timestamp, headers });
        };
        KTable { changes: self.changes.step(kind, false, forward) }
    }
}

impl<K: Wire, V: Wire> KTable<K, V> {
    /// Writes every change to a topic: [`to_stream`](Self::to_stream) and [`KStream::to`] in one.
    pub fn to(self, topic: impl Into<atonce_kernel::TopicName>) {
        self.to_stream().to(topic);
    }
}
