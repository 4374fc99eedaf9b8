//! What a user writes: [`TopologyBuilder`], [`KStream`], [`KGroupedStream`], [`KTable`].
//!
//! In files: `stream`, `grouped`, `table` hold the three types, `nodes` what runs behind them.
//!
//! The types do the checking that types can do: a sink of a type without bytes does not compile. Generated names are Kafka
//! Streams', and count as Kafka Streams counts (a name that is not used still takes its number), so that an application keeps its
//! topics and stores when it changes its runtime.

mod grouped;
mod nodes;
mod stream;
mod table;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use atonce_kernel::TopicName;

use crate::processor::AnyNode;
use crate::store::{KeyValueStore, StoreHandle};
use crate::topology::{
    Graph, GraphNode, NodeKind, RepartitionTopic, SourceTopics, StoreSpecification, Surroundings, TopicPattern,
    Topology, TopologyError,
};
use crate::wire::Wire;

pub use grouped::KGroupedStream;
pub use stream::{KStream, Predicate, predicate};
use table::WantsOld;

pub use table::KTable;

/// Names a store.
///
/// ```
/// # use atonce_streams_core::store;
/// store("counts");               // on disk, with a change log <application id>-counts-changelog
/// store("counts").in_memory();   // restored from its change log at each start
/// ```
#[must_use]
pub fn store(name: impl Into<String>) -> StoreName {
    StoreName { name: Some(name.into()), is_persistent: true, has_changelog: true, is_cached: false }
}

/// A store's name and kind; see [`store`].
#[derive(Clone, Debug)]
pub struct StoreName {
    name: Option<String>,
    is_persistent: bool,
    has_changelog: bool,
    is_cached: bool,
}

impl StoreName {
    /// A name made up as Kafka Streams makes it up. It changes when the topology does: name what must survive that.
    #[must_use]
    pub fn generated() -> Self {
        Self { name: None, is_persistent: true, has_changelog: true, is_cached: false }
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

    /// Hands on, of each key, only the last change of an interval, when it is committed: what is downstream works once for each key that
    /// changed instead of once for each record. Without it every change goes on at once.
    ///
    /// Of headers nothing is left then: a change stands for several records.
    #[must_use]
    pub fn cached(self) -> Self {
        Self { is_cached: true, ..self }
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
    repartition_topics: BTreeMap<TopicName, RepartitionTopic>,
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
        self.stream_of([topic])
    }

    /// The records of several topics, each in its own order. Of topics with different numbers of partitions, task *n* has partition *n* of
    /// those that have one.
    pub fn stream_of<K: Wire, V: Wire>(&self, topics: impl IntoIterator<Item = impl Into<TopicName>>) -> KStream<K, V> {
        let topics = topics.into_iter().map(Into::into).collect();
        self.source(SourceTopics::Named(topics))
    }

    /// The records of all topics whose names match a regular expression as a whole: those that are there at the start, and those that are made
    /// later, which join by a rebalance. The expression is Rust's, without look-around and references back. Kafka's own topics and the
    /// application's never match.
    ///
    /// ```
    /// # use atonce_streams_core::*;
    /// let builder = TopologyBuilder::new();
    /// builder.stream_of_pattern::<String, String>("orders-.*").to("all-orders");
    /// let text = builder.build()?.describe();
    /// assert!(text.contains("Source: KSTREAM-SOURCE-0000000000 (topics: orders-.*)"));
    /// # Ok::<(), TopologyError>(())
    /// ```
    pub fn stream_of_pattern<K: Wire, V: Wire>(&self, pattern: &str) -> KStream<K, V> {
        let topics = match TopicPattern::new(pattern) {
            Ok(pattern) => SourceTopics::Matching { pattern, found: Vec::new() },
            Err(reason) => {
                let mut building = self.shared.borrow_mut();
                let node = format!("KSTREAM-SOURCE-{:010}", building.next_name);
                building.refuse(TopologyError::IllegalPattern { node, pattern: pattern.to_owned(), reason });
                SourceTopics::Named(Vec::new())
            }
        };
        self.source(topics)
    }

    fn source<K: Wire, V: Wire>(&self, topics: SourceTopics) -> KStream<K, V> {
        let mut building = self.shared.borrow_mut();
        let name = building.generate("KSTREAM-SOURCE");
        let node = nodes::add_source::<K, V>(&mut building, name, topics);
        drop(building);
        self.stream_at(node, false)
    }

    /// A topic as a table: of each key, the last record counts, and a null value deletes it. Records without a key are dropped, and counted.
    pub fn table<K: Wire, V: Wire>(&self, topic: impl Into<TopicName>, store: StoreName) -> KTable<K, V> {
        let topic = topic.into();
        let mut building = self.shared.borrow_mut();
        let generated = match &store.name {
            Some(_) => String::new(),
            None => building.generate(&format!("{topic}-STATE-STORE")),
        };
        let source = building.generate("KSTREAM-SOURCE");
        let name = building.generate("KTABLE-SOURCE");
        let source = nodes::add_source::<K, Option<V>>(&mut building, source, SourceTopics::Named(vec![topic]));
        let wants_old = WantsOld::default();
        let node =
            nodes::add_table::<K, V, Option<V>>(&mut building, name, (store, generated), source, &wants_old, |value| {
                value
            });
        drop(building);
        KTable::at(self.stream_at(node, false), wants_old)
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
            kind: node.kind.clone(),
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

#[cfg(test)]
mod tests;
