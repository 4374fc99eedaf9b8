//! [`KStream`]: each record is a fact of its own.

use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use atonce_kernel::TopicName;

use super::nodes::{Branch, Step, add_choosing_sink, add_repartition, add_sink, add_table};
use super::table::WantsOld;
use super::{KGroupedStream, KTable, StoreName, TopologyBuilder};
use crate::processor::{Context, Pair, Processor, ProcessorNode, any_node};
use crate::record::Record;
use crate::topology::{NodeKind, RepartitionTopic, TopologyError};
use crate::wire::Wire;

/// Says whether a record belongs somewhere; see [`KStream::branch`].
pub type Predicate<K, V> = Box<dyn Fn(&K, &V) -> bool + Send + Sync>;

/// A closure as a [`Predicate`].
pub fn predicate<K, V>(function: impl Fn(&K, &V) -> bool + Send + Sync + 'static) -> Predicate<K, V> {
    Box::new(function)
}

/// A stream of records: each is a fact of its own.
///
/// Named as Kafka Streams names it; `Stream` means something else in Rust.
#[must_use = "a stream does nothing until it ends somewhere, as in .to(\"topic\")"]
pub struct KStream<K, V> {
    pub(super) builder: TopologyBuilder,
    pub(super) node: usize,
    /// Records of one key may lie in several partitions: a step that needs them together goes through a topic.
    pub(super) is_key_changed: bool,
    pub(super) types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Clone for KStream<K, V> {
    fn clone(&self) -> Self {
        Self { builder: self.builder.clone(), node: self.node, is_key_changed: self.is_key_changed, types: PhantomData }
    }
}

impl<K: Clone + Send + 'static, V: Clone + Send + 'static> KStream<K, V> {
    /// Another key and value for each record.
    pub fn map<K2, V2, F>(self, function: F) -> KStream<K2, V2>
    where
        K2: Clone + Send + 'static,
        V2: Clone + Send + 'static,
        F: Fn(K, V) -> (K2, V2) + Send + Sync + 'static,
    {
        self.step("KSTREAM-MAP", true, move |record: Record<K, V>, context| {
            let Record { key, value, timestamp, headers } = record;
            let (key, value) = function(key, value);
            context.forward(Record { key, value, timestamp, headers });
        })
    }

    /// Another value for each record. The key stays, so records stay where they are.
    pub fn map_values<V2, F>(self, function: F) -> KStream<K, V2>
    where
        V2: Clone + Send + 'static,
        F: Fn(V) -> V2 + Send + Sync + 'static,
    {
        let is_key_changed = self.is_key_changed;
        self.step("KSTREAM-MAPVALUES", is_key_changed, move |record: Record<K, V>, context| {
            let Record { key, value, timestamp, headers } = record;
            context.forward(Record { key, value: function(value), timestamp, headers });
        })
    }

    /// Any number of records for each.
    pub fn flat_map<K2, V2, I, F>(self, function: F) -> KStream<K2, V2>
    where
        K2: Clone + Send + 'static,
        V2: Clone + Send + 'static,
        I: IntoIterator<Item = (K2, V2)>,
        F: Fn(K, V) -> I + Send + Sync + 'static,
    {
        self.step("KSTREAM-FLATMAP", true, move |record: Record<K, V>, context| {
            let Record { key, value, timestamp, headers } = record;
            for (key, value) in function(key, value) {
                context.forward(Record { key, value, timestamp, headers: headers.clone() });
            }
        })
    }

    /// Any number of values for each record.
    pub fn flat_map_values<V2, I, F>(self, function: F) -> KStream<K, V2>
    where
        V2: Clone + Send + 'static,
        I: IntoIterator<Item = V2>,
        F: Fn(V) -> I + Send + Sync + 'static,
    {
        let is_key_changed = self.is_key_changed;
        self.step("KSTREAM-FLATMAPVALUES", is_key_changed, move |record: Record<K, V>, context| {
            let Record { key, value, timestamp, headers } = record;
            for value in function(value) {
                context.forward(Record { key: key.clone(), value, timestamp, headers: headers.clone() });
            }
        })
    }

    /// Only the records for which `predicate` holds.
    pub fn filter<F>(self, predicate: F) -> Self
    where
        F: Fn(&K, &V) -> bool + Send + Sync + 'static,
    {
        let is_key_changed = self.is_key_changed;
        self.step("KSTREAM-FILTER", is_key_changed, move |record: Record<K, V>, context| {
            if predicate(&record.key, &record.value) {
                context.forward(record);
            }
        })
    }

    /// Only the records for which `predicate` does not hold.
    pub fn filter_not<F>(self, predicate: F) -> Self
    where
        F: Fn(&K, &V) -> bool + Send + Sync + 'static,
    {
        self.filter(move |key, value| !predicate(key, value))
    }

    /// Another value for each record, with a look at the key, which stays.
    pub fn map_values_with_key<V2, F>(self, function: F) -> KStream<K, V2>
    where
        V2: Clone + Send + 'static,
        F: Fn(&K, V) -> V2 + Send + Sync + 'static,
    {
        let is_key_changed = self.is_key_changed;
        self.step("KSTREAM-MAPVALUES", is_key_changed, move |record: Record<K, V>, context| {
            let Record { key, value, timestamp, headers } = record;
            let value = function(&key, value);
            context.forward(Record { key, value, timestamp, headers });
        })
    }

    /// Does something with each record, and ends the stream. What it does outside is no part of any transaction: after an abort it is
    /// done again.
    pub fn for_each<F>(self, function: F)
    where
        F: Fn(&K, &V) + Send + Sync + 'static,
    {
        let _ended: KStream<K, V> = self.step("KSTREAM-FOREACH", false, move |record: Record<K, V>, _| {
            function(&record.key, &record.value);
        });
    }

    /// Divides the stream: each record goes into the stream of the first predicate that holds, and ends here if none does.
    ///
    /// ```
    /// use atonce_streams_core::*;
    ///
    /// let builder = TopologyBuilder::new();
    /// let [large, small] = builder
    ///     .stream::<String, i64>("amounts")
    ///     .branch([predicate(|_, amount| *amount >= 1000), predicate(|_, amount| *amount >= 0)]);
    /// large.to("large");
    /// small.to("small");
    /// assert!(builder.build().is_ok());
    /// ```
    pub fn branch<const N: usize>(self, predicates: [Predicate<K, V>; N]) -> [Self; N] {
        let (branches, _) = self.divide(predicates, false);
        branches
    }

    /// As [`branch`](Self::branch), with a stream of the records for which no predicate holds.
    pub fn branch_with_rest<const N: usize>(self, predicates: [Predicate<K, V>; N]) -> ([Self; N], Self) {
        let (branches, rest) = self.clone().divide(predicates, true);
        (branches, rest.unwrap_or(self))
    }

    /// The names are Kafka Streams': those of `split()`, the branches numbered from 1, the rest 0.
    fn divide<const N: usize>(self, predicates: [Predicate<K, V>; N], with_rest: bool) -> ([Self; N], Option<Self>) {
        let predicates = Arc::new(Vec::from(predicates));
        let mut building = self.builder.shared.borrow_mut();
        let name = building.generate("KSTREAM-BRANCH");
        let split = building.add(name.clone(), no_stores(), &[self.node], move |_| {
            any_node(Branch { predicates: Arc::clone(&predicates) })
        });
        let mut pass = |number: usize| {
            // Kafka Streams takes a number for it, and names it after the split all the same.
            let _ = building.generate("KSTREAM-BRANCH");
            building.add(format!("{name}{number}"), no_stores(), &[split], |_| {
                any_node(Step {
                    function: Arc::new(|record: Record<K, V>, context: &mut Context<'_>| context.forward(record)),
                })
            })
        };
        let nodes: [usize; N] = std::array::from_fn(|place| pass(place + 1));
        let rest = with_rest.then(|| pass(0));
        drop(building);
        let branch = |node| self.builder.stream_at(node, self.is_key_changed);
        (nodes.map(branch), rest.map(branch))
    }

    /// Gives the node that makes this stream a name of its own, in the description and in errors, instead of a generated one.
    pub fn named(self, name: impl Into<String>) -> Self {
        if let Some(node) = self.builder.shared.borrow_mut().nodes.get_mut(self.node) {
            node.name = name.into();
        }
        self
    }

    /// Looks at each record as it goes by. What it does outside is no part of any transaction: after an abort it is done again.
    pub fn peek<F>(self, look: F) -> Self
    where
        F: Fn(&K, &V) + Send + Sync + 'static,
    {
        let is_key_changed = self.is_key_changed;
        self.step("KSTREAM-PEEK", is_key_changed, move |record: Record<K, V>, context| {
            look(&record.key, &record.value);
            context.forward(record);
        })
    }

    /// Another key for each record.
    pub fn select_key<K2, F>(self, key: F) -> KStream<K2, V>
    where
        K2: Clone + Send + 'static,
        F: Fn(&K, &V) -> K2 + Send + Sync + 'static,
    {
        self.step("KSTREAM-KEY-SELECT", true, move |record: Record<K, V>, context| {
            let key = key(&record.key, &record.value);
            context.forward(record.with_key(key));
        })
    }

    /// The records of both streams, each in its own order.
    pub fn merge(self, other: Self) -> Self {
        let mut building = self.builder.shared.borrow_mut();
        let name = building.generate("KSTREAM-MERGE");
        let mut parents = vec![self.node, other.node];
        if !Rc::ptr_eq(&self.builder.shared, &other.builder.shared) {
            building.refuse(TopologyError::TwoBuilders { node: name.clone() });
            parents.truncate(1);
        }
        parents.sort_unstable();
        parents.dedup();
        let node = building.add(name, no_stores(), &parents, |_| {
            any_node(Step {
                function: Arc::new(|record: Record<K, V>, context: &mut Context<'_>| context.forward(record)),
            })
        });
        drop(building);
        let is_key_changed = self.is_key_changed || other.is_key_changed;
        self.builder.stream_at(node, is_key_changed)
    }

    /// A processor of one's own, and the stores it uses. `supplier` makes it anew for each task, and after each abort.
    pub fn process<P, S>(
        self,
        supplier: impl Fn() -> P + Send + Sync + 'static,
        stores: S,
    ) -> KStream<<P::Output as Pair>::Key, <P::Output as Pair>::Value>
    where
        P: Processor<Input = (K, V)>,
        S: IntoIterator,
        S::Item: AsRef<str>,
    {
        let mut building = self.builder.shared.borrow_mut();
        let name = building.generate("KSTREAM-PROCESSOR");
        let mut connected = Vec::new();
        for store in stores {
            let store = store.as_ref();
            match building.stores.iter().position(|known| known.name == store) {
                Some(index) => connected.push(index),
                None => building.refuse(TopologyError::NoSuchStore { node: name.clone(), store: store.to_owned() }),
            }
        }
        let kind = NodeKind::Processor { stores: connected.clone() };
        let node = building.add(name, kind, &[self.node], move |_| {
            any_node::<K, V>(ProcessorNode { processor: supplier(), stores: connected.clone() })
        });
        drop(building);
        self.builder.stream_at(node, true)
    }

    pub(super) fn step<K2, V2, F>(self, kind: &str, is_key_changed: bool, function: F) -> KStream<K2, V2>
    where
        F: Fn(Record<K, V>, &mut Context<'_>) + Send + Sync + 'static,
    {
        let function = Arc::new(function);
        let mut building = self.builder.shared.borrow_mut();
        let name = building.generate(kind);
        let node =
            building.add(name, no_stores(), &[self.node], move |_| any_node(Step { function: Arc::clone(&function) }));
        drop(building);
        self.builder.stream_at(node, is_key_changed)
    }
}

impl<K: Wire, V: Wire> KStream<K, V> {
    /// Writes each record to a topic, to the partition that its key says.
    pub fn to(self, topic: impl Into<TopicName>) {
        let mut building = self.builder.shared.borrow_mut();
        let name = building.generate("KSTREAM-SINK");
        add_sink::<K, V>(&mut building, name, topic.into(), self.node, false);
    }

    /// Writes each record to the topic that it says itself. A name that no topic can have fails the record (see
    /// [`failure`](crate::failure)); the topics must exist.
    pub fn to_chosen<F>(self, topic: F)
    where
        F: Fn(&K, &V) -> TopicName + Send + Sync + 'static,
    {
        let mut building = self.builder.shared.borrow_mut();
        let name = building.generate("KSTREAM-SINK");
        add_choosing_sink::<K, V, F>(&mut building, name, self.node, topic);
    }

    /// Sends the records through a topic of the application's own, `<application id>-<name>-repartition`, so that those of one key come
    /// together, with as many partitions as the widest topic above. Records without a key are dropped, and counted.
    pub fn repartition(self, name: impl Into<String>) -> Self {
        self.through(name.into(), RepartitionTopic::default())
    }

    /// As [`repartition`](Self::repartition), with so many partitions: what comes after it runs in as many tasks.
    pub fn repartition_into(self, name: impl Into<String>, partitions: i32) -> Self {
        self.through(name.into(), RepartitionTopic { partitions: Some(partitions.max(1)) })
    }

    fn through(self, name: String, wanted: RepartitionTopic) -> Self {
        let mut building = self.builder.shared.borrow_mut();
        let node = add_repartition::<K, V>(&mut building, &name, wanted, self.node);
        drop(building);
        self.builder.stream_at(node, false)
    }

    /// The stream as a table: of each key, the last value counts, and one whose bytes are null deletes it. After a step that changes keys it
    /// goes through a topic first.
    pub fn to_table(self, store: StoreName) -> KTable<K, V> {
        let mut building = self.builder.shared.borrow_mut();
        let name = building.generate("KSTREAM-TOTABLE");
        let generated = match &store.name {
            Some(_) => String::new(),
            None => building.generate("KSTREAM-TOTABLE-STATE-STORE"),
        };
        let parent = if self.is_key_changed {
            add_repartition::<K, V>(&mut building, &name, RepartitionTopic::default(), self.node)
        } else {
            self.node
        };
        let wants_old = WantsOld::default();
        let node = add_table::<K, V, V>(&mut building, name, (store, generated), parent, &wants_old, |value| {
            (!value.is_null()).then_some(value)
        });
        drop(building);
        KTable::at(self.builder.stream_at(node, false), wants_old)
    }

    /// Groups by the key that each record has.
    pub fn group_by_key(self) -> KGroupedStream<K, V> {
        KGroupedStream { stream: self, repartition: None }
    }
}

impl<K: Clone + Send + 'static, V: Wire> KStream<K, V> {
    /// Groups by another key. What is grouped goes through a topic of its own, so that records of one key come together.
    pub fn group_by<K2, F>(self, key: F) -> KGroupedStream<K2, V>
    where
        K2: Wire,
        F: Fn(&K, &V) -> K2 + Send + Sync + 'static,
    {
        KGroupedStream { stream: self.select_key(key), repartition: None }
    }
}

fn no_stores() -> NodeKind {
    NodeKind::Processor { stores: Vec::new() }
}
