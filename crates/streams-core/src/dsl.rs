//! What a user writes: [`TopologyBuilder`], [`KStream`], [`KGroupedStream`], [`KTable`].
//!
//! The types do the checking that types can do: a sink of a type without bytes does not compile. Generated names are Kafka
//! Streams', and count as Kafka Streams counts (a name that is not used still takes its number), so that an application keeps its
//! topics and stores when it changes its runtime.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use atonce_kernel::{Timestamp, TopicName};

use crate::partitioner::partition_for_key;
use crate::processor::{
    AnyNode, Context, Node, Pair, Processor, ProcessorError, ProcessorNode, SourceNode, any_node, any_source,
};
use crate::record::{OutputRecord, Record, SourceRecord};
use crate::store::{KeyValueStore, StoreError, StoreHandle};
use crate::topology::{Graph, GraphNode, NodeKind, StoreSpecification, Surroundings, Topology, TopologyError};
use crate::wire::Wire;

/// Names a store.
///
/// ```
/// # use atonce_streams_core::store;
/// store("counts");               // on disk, with a change log <application id>-counts-changelog
/// store("counts").in_memory();   // restored from its change log at each start
/// ```
#[must_use]
pub fn store(name: impl Into<String>) -> StoreName {
    StoreName { name: Some(name.into()), is_persistent: true, has_changelog: true }
}

/// A store's name and kind; see [`store`].
#[derive(Clone, Debug)]
pub struct StoreName {
    name: Option<String>,
    is_persistent: bool,
    has_changelog: bool,
}

impl StoreName {
    /// A name made up as Kafka Streams makes it up. It changes when the topology does: name what must survive that.
    #[must_use]
    pub fn generated() -> Self {
        Self { name: None, is_persistent: true, has_changelog: true }
    }

    /// Keeps the store in memory only.
    #[must_use]
    pub fn in_memory(self) -> Self {
        Self { is_persistent: false, ..self }
    }

    /// Keeps no change log: a store that a crash of the disk may lose.
    #[must_use]
    pub fn without_changelog(self) -> Self {
        Self { has_changelog: false, ..self }
    }
}

/// Where a topology begins.
///
/// ```
/// use atonce_streams_core::*;
///
/// let builder = TopologyBuilder::new();
/// builder
///     .stream::<Option<String>, String>("lines")
///     .flat_map_values(|line| line.split_whitespace().map(String::from).collect::<Vec<_>>())
///     .group_by(|_, word| word.clone())
///     .count(store("counts"))
///     .to_stream()
///     .to("word-counts");
/// let topology = builder.build()?;
/// assert!(topology.describe().contains("Source: counts-repartition-source (topics: [counts-repartition])"));
/// # Ok::<(), TopologyError>(())
/// ```
#[derive(Clone, Default)]
pub struct TopologyBuilder {
    shared: Rc<RefCell<Building>>,
}

#[derive(Default)]
struct Building {
    nodes: Vec<GraphNode>,
    stores: Vec<StoreSpecification>,
    repartition_topics: std::collections::BTreeSet<TopicName>,
    next_name: u32,
    /// The first thing that cannot work, kept for `build`.
    refused: Option<TopologyError>,
}

impl Building {
    /// Kafka's form: the kind, and a number of ten digits that every use of a name raises.
    fn generate(&mut self, kind: &str) -> String {
        let name = format!("{kind}-{:010}", self.next_name);
        self.next_name += 1;
        name
    }

    fn add(
        &mut self,
        name: String,
        kind: NodeKind,
        parents: &[usize],
        supplier: impl Fn(&Surroundings) -> AnyNode + Send + Sync + 'static,
    ) -> usize {
        let index = self.nodes.len();
        for parent in parents {
            if let Some(parent) = self.nodes.get_mut(*parent) {
                parent.children.push(index);
            }
        }
        let parents = parents.to_vec();
        self.nodes.push(GraphNode { name, kind, parents, children: Vec::new(), supplier: Arc::new(supplier) });
        index
    }

    fn add_store(&mut self, store: StoreName, generated: String, node: &str) -> usize {
        let name = store.name.unwrap_or(generated);
        if self.stores.iter().any(|other| other.name == name) {
            self.refuse(TopologyError::StoreNamedTwice { store: name.clone(), node: node.to_owned() });
        }
        self.stores.push(StoreSpecification {
            name,
            has_changelog: store.has_changelog,
            is_persistent: store.is_persistent,
        });
        self.stores.len() - 1
    }

    fn refuse(&mut self, error: TopologyError) {
        self.refused.get_or_insert(error);
    }
}

impl TopologyBuilder {
    /// An empty topology.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The records of a topic.
    pub fn stream<K: Wire, V: Wire>(&self, topic: impl Into<TopicName>) -> KStream<K, V> {
        let mut building = self.shared.borrow_mut();
        let name = building.generate("KSTREAM-SOURCE");
        let node = add_source::<K, V>(&mut building, name, topic.into());
        drop(building);
        self.stream_at(node, false)
    }

    /// A store for processors of one's own.
    pub fn add_store<K: Wire, V: Wire>(&self, store: StoreName) -> StoreHandle<KeyValueStore<K, V>> {
        let mut building = self.shared.borrow_mut();
        let generated = match &store.name {
            Some(_) => String::new(),
            None => building.generate("KSTREAM-STATE-STORE"),
        };
        let index = building.add_store(store, generated, "add_store");
        let name = building.stores.get(index).map(|store| store.name.as_str()).unwrap_or_default();
        StoreHandle { index, name: Arc::from(name), kind: PhantomData }
    }

    /// The finished topology.
    ///
    /// Errors: something in it cannot work; the error names the node, and the cure.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        let building = self.shared.borrow();
        if let Some(error) = &building.refused {
            return Err(error.clone());
        }
        let nodes = building.nodes.iter().map(|node| GraphNode {
            name: node.name.clone(),
            kind: match &node.kind {
                NodeKind::Source { topic } => NodeKind::Source { topic: topic.clone() },
                NodeKind::Processor { stores } => NodeKind::Processor { stores: stores.clone() },
                NodeKind::Sink { topic } => NodeKind::Sink { topic: topic.clone() },
            },
            parents: node.parents.clone(),
            children: node.children.clone(),
            supplier: Arc::clone(&node.supplier),
        });
        let mut graph = Graph {
            nodes: nodes.collect(),
            stores: building.stores.clone(),
            repartition_topics: building.repartition_topics.clone(),
            ..Graph::default()
        };
        graph.divide();
        graph.check()?;
        Ok(Topology { graph: Arc::new(graph) })
    }

    fn stream_at<K, V>(&self, node: usize, is_key_changed: bool) -> KStream<K, V> {
        KStream { builder: self.clone(), node, is_key_changed, types: PhantomData }
    }
}

/// A stream of records: each is a fact of its own.
///
/// Named as Kafka Streams names it; `Stream` means something else in Rust.
#[must_use = "a stream does nothing until it ends somewhere, as in .to(\"topic\")"]
pub struct KStream<K, V> {
    builder: TopologyBuilder,
    node: usize,
    /// Records of one key may lie in several partitions: a step that needs them together goes through a topic.
    is_key_changed: bool,
    types: PhantomData<fn() -> (K, V)>,
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
        let node = building.add(name, NodeKind::Processor { stores: Vec::new() }, &parents, |_| {
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

    fn step<K2, V2, F>(self, kind: &str, is_key_changed: bool, function: F) -> KStream<K2, V2>
    where
        F: Fn(Record<K, V>, &mut Context<'_>) + Send + Sync + 'static,
    {
        let function = Arc::new(function);
        let mut building = self.builder.shared.borrow_mut();
        let name = building.generate(kind);
        let node = building.add(name, NodeKind::Processor { stores: Vec::new() }, &[self.node], move |_| {
            any_node(Step { function: Arc::clone(&function) })
        });
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

/// A stream whose records of one key come together.
#[must_use = "a grouping does nothing until it is counted, reduced or aggregated"]
pub struct KGroupedStream<K, V> {
    stream: KStream<K, V>,
    repartition: Option<String>,
}

impl<K: Wire, V: Wire> KGroupedStream<K, V> {
    /// Names the topic that the records go through, if they must: `<application id>-<name>-repartition`.
    pub fn repartition(self, name: impl Into<String>) -> Self {
        Self { repartition: Some(name.into()), ..self }
    }

    /// How many records each key had. Records with a null key or value are not counted, as in Kafka Streams.
    pub fn count(self, store: StoreName) -> KTable<K, i64> {
        self.fold("KSTREAM-AGGREGATE", store, |_, _, count: Option<i64>| count.unwrap_or(0) + 1)
    }

    /// All values of each key made one, two at a time, from the first on.
    pub fn reduce<F>(self, function: F, store: StoreName) -> KTable<K, V>
    where
        F: Fn(V, V) -> V + Send + Sync + 'static,
    {
        self.fold("KSTREAM-REDUCE", store, move |_, value, before: Option<V>| match before {
            Some(before) => function(before, value),
            None => value,
        })
    }

    /// All values of each key folded into something else, which `initial` begins.
    pub fn aggregate<A, I, F>(self, initial: I, function: F, store: StoreName) -> KTable<K, A>
    where
        A: Wire,
        I: Fn() -> A + Send + Sync + 'static,
        F: Fn(&K, V, A) -> A + Send + Sync + 'static,
    {
        self.fold("KSTREAM-AGGREGATE", store, move |key, value, before: Option<A>| {
            function(key, value, before.unwrap_or_else(&initial))
        })
    }

    fn fold<A, F>(self, kind: &str, store: StoreName, function: F) -> KTable<K, A>
    where
        A: Wire,
        F: Fn(&K, V, Option<A>) -> A + Send + Sync + 'static,
    {
        let Self { stream, repartition } = self;
        let function = Arc::new(function);
        let mut building = stream.builder.shared.borrow_mut();
        // In Kafka Streams a store that has a name takes no number, all else does.
        let generated = match &store.name {
            Some(_) => String::new(),
            None => building.generate(&format!("{kind}-STATE-STORE")),
        };
        let name = building.generate(kind);
        let store_index = building.add_store(store, generated, &name);
        let store_name = building.stores.get(store_index).map(|store| store.name.clone()).unwrap_or_default();
        let parent = if stream.is_key_changed {
            add_repartition::<K, V>(&mut building, &repartition.unwrap_or(store_name), stream.node)
        } else {
            stream.node
        };
        let node = building.add(name, NodeKind::Processor { stores: vec![store_index] }, &[parent], move |_| {
            any_node(Fold::<K, V, A, F> { store: store_index, function: Arc::clone(&function), types: PhantomData })
        });
        drop(building);
        KTable { stream: stream.builder.stream_at(node, false) }
    }
}

/// A table: of each key, the last value counts.
#[must_use = "a table does nothing until it is read, as by .to_stream().to(\"topic\")"]
pub struct KTable<K, V> {
    stream: KStream<K, V>,
}

impl<K: Wire, V: Wire> KTable<K, V> {
    /// Every change of the table as a record.
    pub fn to_stream(self) -> KStream<K, V> {
        self.stream.step("KTABLE-TOSTREAM", false, |record: Record<K, V>, context| context.forward(record))
    }
}

fn add_source<K: Wire, V: Wire>(building: &mut Building, name: String, topic: TopicName) -> usize {
    let kind = NodeKind::Source { topic };
    building.add(name, kind, &[], |_| any_source(Source::<K, V> { types: PhantomData }))
}

fn add_sink<K: Wire, V: Wire>(
    building: &mut Building,
    name: String,
    topic: TopicName,
    parent: usize,
    is_internal: bool,
) {
    let kind = NodeKind::Sink { topic: topic.clone() };
    building.add(name, kind, &[parent], move |surroundings| {
        let topic = if is_internal { surroundings.internal_topic(topic.as_str()) } else { topic.clone() };
        let partitions = surroundings.partitions.get(&topic).copied();
        any_node(Sink::<K, V> { topic, partitions, types: PhantomData })
    });
}

/// Filter, sink, topic, source: as Kafka Streams builds it, with its names.
fn add_repartition<K: Wire, V: Wire>(building: &mut Building, prefix: &str, parent: usize) -> usize {
    let topic = format!("{prefix}-repartition");
    let generated =
        [building.generate("KSTREAM-SINK"), building.generate("KSTREAM-FILTER"), building.generate("KSTREAM-SOURCE")];
    // A prefix that was itself generated does not name nodes.
    let [sink, filter, source] = if prefix.starts_with("KSTREAM-") {
        generated
    } else {
        ["sink", "filter", "source"].map(|part| format!("{topic}-{part}"))
    };
    let topic = TopicName::from(topic);
    building.repartition_topics.insert(topic.clone());
    let kind = NodeKind::Processor { stores: Vec::new() };
    let filter = building.add(filter, kind, &[parent], |_| any_node(DropNullKeys::<K, V> { types: PhantomData }));
    add_sink::<K, V>(building, sink, topic.clone(), filter, true);
    add_source::<K, V>(building, source, topic)
}

/// Bytes to types.
struct Source<K, V> {
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: Wire, V: Wire> SourceNode for Source<K, V> {
    fn process(&mut self, record: SourceRecord, context: &mut Context<'_>) -> Result<(), ProcessorError> {
        let SourceRecord { timestamp, key, value, headers, .. } = record;
        let unreadable = |part: &str, error| ProcessorError::new(format!("the {part} cannot be read: {error}"));
        let key = K::decode_shared(key).map_err(|error| unreadable("key", error))?;
        let value = V::decode_shared(value).map_err(|error| unreadable("value", error))?;
        context.forward(Record { key, value, timestamp, headers });
        Ok(())
    }
}

/// Types to bytes.
struct Sink<K, V> {
    topic: TopicName,
    /// `None`: not known here, so the producer chooses, by the same function.
    partitions: Option<i32>,
    types: PhantomData<fn(K, V)>,
}

impl<K: Wire, V: Wire> Node<K, V> for Sink<K, V> {
    fn process(&mut self, record: Record<K, V>, context: &mut Context<'_>) -> Result<(), ProcessorError> {
        let key = record.key.encode();
        let partition = match (&key, self.partitions) {
            (Some(key), Some(partitions)) => Some(partition_for_key(key, partitions)),
            (None, _) | (_, None) => None,
        };
        context.outputs.push(OutputRecord {
            topic: self.topic.clone(),
            partition,
            timestamp: record.timestamp,
            key,
            value: record.value.encode(),
            headers: record.headers,
        });
        Ok(())
    }
}

/// A step that a closure does.
struct Step<F> {
    function: Arc<F>,
}

impl<K, V, F> Node<K, V> for Step<F>
where
    F: Fn(Record<K, V>, &mut Context<'_>) + Send + Sync,
{
    fn process(&mut self, record: Record<K, V>, context: &mut Context<'_>) -> Result<(), ProcessorError> {
        (self.function)(record, context);
        Ok(())
    }
}

/// Records without a key cannot be brought together with any: they end here, counted.
struct DropNullKeys<K, V> {
    types: PhantomData<fn(K, V)>,
}

impl<K: Wire, V: Wire> Node<K, V> for DropNullKeys<K, V> {
    fn process(&mut self, record: Record<K, V>, context: &mut Context<'_>) -> Result<(), ProcessorError> {
        if record.key.is_null() {
            *context.dropped += 1;
        } else {
            context.forward(record);
        }
        Ok(())
    }
}

/// A value for each key, kept in a store; one read and one write for each record.
struct Fold<K, V, A, F> {
    store: usize,
    function: Arc<F>,
    types: PhantomData<fn(K, V) -> A>,
}

impl<K: Wire, V: Wire, A: Wire, F> Node<K, V> for Fold<K, V, A, F>
where
    F: Fn(&K, V, Option<A>) -> A + Send + Sync,
{
    fn process(&mut self, record: Record<K, V>, context: &mut Context<'_>) -> Result<(), ProcessorError> {
        let Some(key) = record.key.encode() else {
            *context.dropped += 1;
            return Ok(());
        };
        if record.value.is_null() {
            *context.dropped += 1;
            return Ok(());
        }
        let mut store = context.store(self.store).borrow_mut();
        let (before, since) = match store.get(&key)? {
            None => (None, Timestamp::NONE),
            Some(stamped) => {
                let before = A::decode_shared(Some(stamped.value))
                    .map_err(|source| StoreError::Bytes { store: store.name().to_owned(), source })?;
                (Some(before), stamped.timestamp)
            }
        };
        // The time of an aggregate is the latest of what went into it, as in Kafka Streams: a late record does not set it back.
        let timestamp = record.timestamp.max(since);
        let after = (self.function)(&record.key, record.value, before);
        store.put(key, after.encode(), timestamp);
        drop(store);
        context.forward(Record { key: record.key, value: after, timestamp, headers: record.headers });
        Ok(())
    }
}

impl<S> StoreHandle<S> {
    /// The store's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl<S> AsRef<str> for StoreHandle<S> {
    fn as_ref(&self) -> &str {
        &self.name
    }
}

#[cfg(test)]
mod tests;
