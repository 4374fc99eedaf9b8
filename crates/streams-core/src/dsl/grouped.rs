//! [`KGroupedStream`]: records of one key come together, and are counted, reduced or aggregated into a table.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::nodes::{Fold, Kept, add_repartition};
use super::table::WantsOld;
use super::{KStream, KTable, StoreName};
use crate::processor::any_node;
use crate::topology::{NodeKind, RepartitionTopic};
use crate::wire::Wire;

/// A stream whose records of one key come together.
#[must_use = "a grouping does nothing until it is counted, reduced or aggregated"]
pub struct KGroupedStream<K, V> {
    pub(super) stream: KStream<K, V>,
    pub(super) repartition: Option<String>,
}

impl<K: Wire, V: Wire> KGroupedStream<K, V> {
    /// Names the topic that the records go through, if they must: `<application id>-<name>-repartition`.
    pub fn repartition(self, name: impl Into<String>) -> Self {
        Self { repartition: Some(name.into()), ..self }
    }

    /// How many records each key had. Records with a null key or value are not counted, as in Kafka Streams.
    pub fn count(self, store: StoreName) -> KTable<K, i64> {
        self.fold("KSTREAM-AGGREGATE", store, || Some(0), |_, _, count: Option<i64>| count.unwrap_or(0) + 1)
    }

    /// All values of each key made one, two at a time, from the first on.
    pub fn reduce<F>(self, function: F, store: StoreName) -> KTable<K, V>
    where
        F: Fn(V, V) -> V + Send + Sync + 'static,
    {
        self.fold(
            "KSTREAM-REDUCE",
            store,
            || None,
            move |_, value, before: Option<V>| match before {
                Some(before) => function(before, value),
                None => value,
            },
        )
    }

    /// All values of each key folded into something else, which `initial` begins.
    pub fn aggregate<A, I, F>(self, initial: I, function: F, store: StoreName) -> KTable<K, A>
    where
        A: Wire,
        I: Fn() -> A + Send + Sync + 'static,
        F: Fn(&K, V, A) -> A + Send + Sync + 'static,
    {
        let initial = Arc::new(initial);
        let again = Arc::clone(&initial);
        self.fold(
            "KSTREAM-AGGREGATE",
            store,
            move || Some(initial()),
            move |key, value, before: Option<A>| function(key, value, before.unwrap_or_else(|| again())),
        )
    }

    fn fold<A, I, F>(self, kind: &str, store: StoreName, initial: I, function: F) -> KTable<K, A>
    where
        A: Wire,
        I: Fn() -> Option<A> + Send + Sync + 'static,
        F: Fn(&K, V, Option<A>) -> A + Send + Sync + 'static,
    {
        let Self { stream, repartition } = self;
        let (initial, function) = (Arc::new(initial), Arc::new(function));
        let is_cached = store.is_cached;
        let wants_old = WantsOld::default();
        let mut building = stream.builder.shared.borrow_mut();
        // In Kafka Streams a store that has a name takes no number, all else does.
        let generated = match &store.name {
            Some(_) => String::new(),
            None => building.generate(&format!("{kind}-STATE-STORE")),
        };
        let name = building.generate(kind);
        let store = building.add_store(store, generated, &name);
        let store_name = building.stores.get(store).map(|store| store.name.clone()).unwrap_or_default();
        let parent = if stream.is_key_changed {
            let prefix = repartition.unwrap_or(store_name);
            add_repartition::<K, V>(&mut building, &prefix, RepartitionTopic::default(), stream.node)
        } else {
            stream.node
        };
        let asked = Arc::clone(&wants_old);
        let node = building.add(name, NodeKind::Processor { stores: vec![store] }, &[parent], move |_| {
            let kept = Kept { store, is_cached, wants_old: asked.load(Ordering::Relaxed) };
            let (initial, function) = (Arc::clone(&initial), Arc::clone(&function));
            any_node(Fold::<K, V, A, I, F> { kept, initial, function, types: PhantomData })
        });
        drop(building);
        KTable::at(stream.builder.stream_at(node, false), wants_old)
    }
}
