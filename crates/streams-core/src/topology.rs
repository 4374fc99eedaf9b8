//! The graph that a builder made: nodes, stores, its parts (subtopologies), its text, and what it needs of topics.
//!
//! A subtopology is what hangs together without a topic between: its nodes share tasks, one for each partition of its sources.
//! Names, numbers and text are Kafka Streams', so that an application can change its runtime and keep its topics and task ids.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use atonce_kernel::{TopicName, TopicPartition};
use regex::Regex;

use crate::failure::FailureHandler;
use crate::processor::AnyNode;
use crate::task::TaskId;

/// What can be run: an immutable graph, cheap to clone.
#[derive(Clone)]
pub struct Topology {
    pub(crate) graph: Arc<Graph>,
}

impl std::fmt::Debug for Topology {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.describe())
    }
}

/// Why a topology cannot work, and what to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// Nothing to do.
    #[error("the topology reads no topic: begin with stream(\"topic\")")]
    NoSource,
    /// Two nodes of one name.
    #[error("two nodes are named {node}: give one of them another name")]
    NodeNamedTwice {
        /// The name.
        node: String,
    },
    /// Two stores of one name.
    #[error("two stores are named {store}, the second one by {node}: give it another name with store(\"…\")")]
    StoreNamedTwice {
        /// The name.
        store: String,
        /// The node that came second.
        node: String,
    },
    /// Two sources of one topic: which of them moves the position?
    #[error(
        "{node} reads {topic}, which {other} reads already: call stream(\"{topic}\") once, and use the stream it gives twice"
    )]
    TopicReadTwice {
        /// The topic.
        topic: TopicName,
        /// The second source.
        node: String,
        /// The first.
        other: String,
    },
    /// A processor asks for a store that is not there.
    #[error("{node} asks for store {store}, which this builder has not: add it with add_store(store(\"{store}\"))")]
    NoSuchStore {
        /// The processor.
        node: String,
        /// The store.
        store: String,
    },
    /// A store that nothing uses.
    #[error("store {store} is used by no processor: connect it, or leave it out")]
    UnusedStore {
        /// The store.
        store: String,
    },
    /// A name that is no topic name.
    #[error("{node}: \"{name}\" cannot be part of a topic's name: 1 to 249 of the characters a-z A-Z 0-9 . _ - can")]
    IllegalName {
        /// The node.
        node: String,
        /// The name.
        name: String,
    },
    /// A topic that feeds itself.
    #[error("{node} writes {topic}, from which its records come: they would go round for ever; write another topic")]
    Cycle {
        /// The sink.
        node: String,
        /// The topic.
        topic: TopicName,
    },
    /// A pattern that cannot be read.
    #[error("{node}: \"{pattern}\" is no pattern of topics: {reason}")]
    IllegalPattern {
        /// The node.
        node: String,
        /// The pattern.
        pattern: String,
        /// Why not.
        reason: String,
    },
    /// Streams of two builders in one.
    #[error("{node} joins streams of two builders: make both with one")]
    TwoBuilders {
        /// The node.
        node: String,
    },
}

/// The graph itself.
#[derive(Default)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<GraphNode>,
    pub(crate) stores: Vec<StoreSpecification>,
    /// Names of repartition topics without the application's prefix.
    pub(crate) repartition_topics: BTreeMap<TopicName, RepartitionTopic>,
    pub(crate) subtopologies: Vec<Subtopology>,
    /// The children of each node, for [`crate::processor::Context`].
    pub(crate) children: Vec<Vec<usize>>,
}

pub(crate) struct GraphNode {
    pub(crate) name: String,
    pub(crate) kind: NodeKind,
    pub(crate) parents: Vec<usize>,
    pub(crate) children: Vec<usize>,
    pub(crate) supplier: Supplier,
}

/// A topic between two subtopologies, as the builder was told of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RepartitionTopic {
    /// The partitions that the user wants; else as many as the widest topic above it has.
    pub(crate) partitions: Option<i32>,
}

/// Makes a fresh node of a task. The argument tells what only the running application knows.
pub(crate) type Supplier = Arc<dyn Fn(&Surroundings) -> AnyNode + Send + Sync>;

/// What a node may need to know of the world around its task.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// The application's id, the prefix of internal topics; `None` leaves them without.
    pub application_id: Option<String>,
    /// Partitions of the topics that are written to. A record to a topic that is not here leaves its partition to the producer.
    pub partitions: BTreeMap<TopicName, i32>,
    /// Of the topics that are written to, the largest batch each takes (`max.message.bytes`). Where nothing is known nothing is refused here.
    pub max_message_bytes: BTreeMap<TopicName, usize>,
    /// What becomes of records that fail.
    pub on_failure: FailureHandler,
}

impl Surroundings {
    /// The full name of an internal topic.
    #[must_use]
    pub fn internal_topic(&self, name: &str) -> TopicName {
        match &self.application_id {
            Some(application_id) => TopicName::from(format!("{application_id}-{name}")),
            None => TopicName::from(name),
        }
    }
}

/// What a source reads.
#[derive(Clone)]
pub(crate) enum SourceTopics {
    Named(Vec<TopicName>),
    /// Whatever matches, once it is there: `found` holds what is there now.
    Matching {
        pattern: TopicPattern,
        found: Vec<TopicName>,
    },
}

impl SourceTopics {
    /// The topics that are read now.
    pub(crate) fn names(&self) -> &[TopicName] {
        match self {
            Self::Named(topics) => topics,
            Self::Matching { found, .. } => found,
        }
    }

    /// Whether it reads a topic of this name, should there be one.
    fn reads(&self, topic: &TopicName) -> bool {
        match self {
            Self::Named(topics) => topics.contains(topic),
            Self::Matching { pattern, .. } => pattern.matches(topic.as_str()),
        }
    }
}

/// A regular expression that the whole of a topic's name must match. It is read in linear time, whatever it is: no look-around and no
/// references back.
#[derive(Clone, Debug)]
pub(crate) struct TopicPattern {
    text: String,
    whole: Regex,
}

impl TopicPattern {
    /// Errors: the text is no regular expression; says why not.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        // By itself first: "a)(b" would become one by what is put around it.
        Regex::new(text).map_err(|error| error.to_string())?;
        let whole = Regex::new(&format!("^(?:{text})$")).map_err(|error| error.to_string())?;
        Ok(Self { text: text.to_owned(), whole })
    }

    fn matches(&self, topic: &str) -> bool {
        self.whole.is_match(topic)
    }
}

/// Kafka's own topics, which no pattern means.
const KAFKAS_TOPICS: [&str; 3] = ["__consumer_offsets", "__transaction_state", "__share_group_state"];

#[derive(Clone)]
pub(crate) enum NodeKind {
    Source {
        topics: SourceTopics,
    },
    Processor {
        stores: Vec<usize>,
    },
    Sink {
        /// `None`: each record says it.
        topic: Option<TopicName>,
    },
}

/// A store as the builder was told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSpecification {
    /// Its name.
    pub name: String,
    /// Whether its changes are logged to a topic. Without, a crash loses it.
    pub has_changelog: bool,
    /// Whether it lies on disk; else it is restored at each start.
    pub is_persistent: bool,
}

/// A part of the topology that runs as a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subtopology {
    /// Sorted, by place in the graph.
    pub(crate) nodes: Vec<usize>,
    /// Sorted, by place in the graph's stores.
    pub(crate) stores: Vec<usize>,
}

impl Topology {
    /// The topology as text, in Kafka's form.
    #[must_use]
    pub fn describe(&self) -> String {
        let graph = &*self.graph;
        let sizes = graph.sizes();
        let mut text = String::from("Topologies:\n ");
        for (id, subtopology) in graph.subtopologies.iter().enumerate() {
            let _ = writeln!(text, "  Sub-topology: {id}");
            for index in graph.in_order(&subtopology.nodes, &sizes) {
                let Some(node) = graph.nodes.get(index) else { continue };
                let name = &node.name;
                let _ = match &node.kind {
                    NodeKind::Source { topics: SourceTopics::Named(topics) } => {
                        let topics: Vec<&str> = topics.iter().map(TopicName::as_str).collect();
                        writeln!(text, "    Source: {name} (topics: [{}])", topics.join(", "))
                    }
                    NodeKind::Source { topics: SourceTopics::Matching { pattern, .. } } => {
                        writeln!(text, "    Source: {name} (topics: {})", pattern.text)
                    }
                    NodeKind::Processor { stores } => {
                        let stores: Vec<&str> =
                            stores.iter().filter_map(|store| Some(graph.stores.get(*store)?.name.as_str())).collect();
                        writeln!(text, "    Processor: {name} (stores: [{}])", stores.join(", "))
                    }
                    NodeKind::Sink { topic: Some(topic) } => writeln!(text, "    Sink: {name} (topic: {topic})"),
                    NodeKind::Sink { topic: None } => writeln!(text, "    Sink: {name} (extractor class: closure)"),
                };
                let names = |indexes: &[usize]| {
                    let names: Vec<&str> = graph
                        .in_order(indexes, &sizes)
                        .into_iter()
                        .filter_map(|index| Some(graph.nodes.get(index)?.name.as_str()))
                        .collect();
                    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
                };
                let is_source = matches!(node.kind, NodeKind::Source { .. });
                if !matches!(node.kind, NodeKind::Sink { .. }) {
                    let _ = writeln!(text, "      --> {}", names(&node.children));
                }
                if !is_source {
                    let _ = writeln!(text, "      <-- {}", names(&node.parents));
                }
            }
            text.push('\n');
        }
        text
    }

    /// Whether any source reads topics by a pattern: which those are, [`with_topics`](Self::with_topics) says.
    #[must_use]
    pub fn has_patterns(&self) -> bool {
        self.graph.sources().any(|(_, topics)| matches!(topics, SourceTopics::Matching { .. }))
    }

    /// This topology, in which each source that has a pattern reads those of the topics `existing` that match it; never Kafka's own topics,
    /// and never those of the application, which would feed itself.
    ///
    /// Errors: a topic matches the patterns of two sources.
    pub fn with_topics<'topic>(
        &self,
        application_id: Option<&str>,
        existing: impl IntoIterator<Item = &'topic TopicName>,
    ) -> Result<Self, LayoutError> {
        let own = self.own_topics(application_id);
        let mut graph = self.graph.again();
        for node in &mut graph.nodes {
            if let NodeKind::Source { topics: SourceTopics::Matching { found, .. } } = &mut node.kind {
                found.clear();
            }
        }
        for topic in existing.into_iter().collect::<BTreeSet<_>>() {
            // One that is named as a repartition topic is here, before it has its full name, would be taken for it.
            let is_own = own.contains(topic) || graph.repartition_topics.contains_key(topic);
            if is_own || KAFKAS_TOPICS.contains(&topic.as_str()) {
                continue;
            }
            let mut reader: Option<String> = None;
            for node in &mut graph.nodes {
                let NodeKind::Source { topics } = &mut node.kind else { continue };
                if !topics.reads(topic) {
                    continue;
                }
                if let Some(other) = reader.replace(node.name.clone()) {
                    return Err(LayoutError::MatchedTwice { topic: topic.clone(), node: node.name.clone(), other });
                }
                if let SourceTopics::Matching { found, .. } = topics {
                    found.push(topic.clone());
                }
            }
        }
        Ok(Self { graph: Arc::new(graph) })
    }

    /// The full names of the topics that this application makes itself, whether they are there or not.
    #[must_use]
    pub fn own_topics(&self, application_id: Option<&str>) -> BTreeSet<TopicName> {
        let surroundings =
            Surroundings { application_id: application_id.map(str::to_owned), ..Surroundings::default() };
        let repartition = self.graph.repartition_topics.keys().map(|topic| surroundings.internal_topic(topic.as_str()));
        let logged = self.graph.stores.iter().filter(|store| store.has_changelog);
        let changelogs = logged.map(|store| surroundings.internal_topic(&format!("{}-changelog", store.name)));
        repartition.chain(changelogs).collect()
    }

    /// The topics that are read and are not the application's own; of patterns, those that were found.
    #[must_use]
    pub fn source_topics(&self) -> BTreeSet<TopicName> {
        let graph = &*self.graph;
        let sources = graph.nodes.iter().flat_map(|node| match &node.kind {
            NodeKind::Source { topics } => topics.names(),
            NodeKind::Processor { .. } | NodeKind::Sink { .. } => &[],
        });
        sources.filter(|topic| !graph.repartition_topics.contains_key(*topic)).cloned().collect()
    }

    /// The topics that are written and are not the application's own; without those that only a record names.
    #[must_use]
    pub fn sink_topics(&self) -> BTreeSet<TopicName> {
        let graph = &*self.graph;
        let sinks = graph.nodes.iter().filter_map(|node| match &node.kind {
            NodeKind::Sink { topic } => topic.as_ref(),
            NodeKind::Processor { .. } | NodeKind::Source { .. } => None,
        });
        sinks.filter(|topic| !graph.repartition_topics.contains_key(*topic)).cloned().collect()
    }

    /// The stores, in the order in which they were named.
    #[must_use]
    pub fn stores(&self) -> &[StoreSpecification] {
        &self.graph.stores
    }

    /// What the topology needs of topics, once the partitions of the topics it reads are known.
    ///
    /// Errors: a topic that is read is not there.
    pub fn layout(
        &self,
        application_id: Option<&str>,
        partitions_of: impl Fn(&TopicName) -> Option<i32>,
    ) -> Result<Layout, LayoutError> {
        Layout::choose(&self.graph, application_id, partitions_of)
    }
}

impl Graph {
    /// The same graph, to be changed.
    fn again(&self) -> Self {
        let nodes = self.nodes.iter().map(|node| GraphNode {
            name: node.name.clone(),
            kind: node.kind.clone(),
            parents: node.parents.clone(),
            children: node.children.clone(),
            supplier: Arc::clone(&node.supplier),
        });
        Self {
            nodes: nodes.collect(),
            stores: self.stores.clone(),
            repartition_topics: self.repartition_topics.clone(),
            subtopologies: self.subtopologies.clone(),
            children: self.children.clone(),
        }
    }

    /// The sources, and what they read.
    fn sources(&self) -> impl Iterator<Item = (&GraphNode, &SourceTopics)> {
        self.nodes.iter().filter_map(|node| match &node.kind {
            NodeKind::Source { topics } => Some((node, topics)),
            NodeKind::Processor { .. } | NodeKind::Sink { .. } => None,
        })
    }

    /// Nodes below each node, itself included, by paths: what Kafka orders a description by.
    fn sizes(&self) -> Vec<usize> {
        let mut sizes = vec![1_usize; self.nodes.len()];
        // Children always come after their parents in the graph.
        for (index, node) in self.nodes.iter().enumerate().rev() {
            let below: usize = node.children.iter().filter_map(|child| sizes.get(*child)).sum();
            if let Some(size) = sizes.get_mut(index) {
                *size += below;
            }
        }
        sizes
    }

    /// The larger part of the graph first, then by name.
    fn in_order(&self, indexes: &[usize], sizes: &[usize]) -> Vec<usize> {
        let mut indexes = indexes.to_vec();
        indexes.sort_by_key(|index| {
            let size = sizes.get(*index).copied().unwrap_or(1);
            (std::cmp::Reverse(size), self.nodes.get(*index).map(|node| node.name.clone()))
        });
        indexes.dedup();
        indexes
    }

    /// Divides the nodes into subtopologies, numbered as Kafka numbers them: by the smallest name of a source.
    pub(crate) fn divide(&mut self) {
        let mut group: Vec<usize> = (0..self.nodes.len()).collect();
        fn root(group: &[usize], mut index: usize) -> usize {
            while let Some(parent) = group.get(index).filter(|parent| **parent != index) {
                index = *parent;
            }
            index
        }
        let mut join = |a: usize, b: usize| {
            let (a, b) = (root(&group, a), root(&group, b));
            if let Some(parent) = group.get_mut(a.max(b)) {
                *parent = a.min(b);
            }
        };
        let mut owners: BTreeMap<usize, usize> = BTreeMap::new();
        for (index, node) in self.nodes.iter().enumerate() {
            for child in &node.children {
                join(index, *child);
            }
            if let NodeKind::Processor { stores } = &node.kind {
                for store in stores {
                    join(*owners.entry(*store).or_insert(index), index);
                }
            }
        }
        let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for index in 0..self.nodes.len() {
            members.entry(root(&group, index)).or_default().push(index);
        }
        let first_source = |nodes: &[usize]| {
            let nodes = nodes.iter().filter_map(|index| self.nodes.get(*index));
            nodes.filter(|node| matches!(node.kind, NodeKind::Source { .. })).map(|node| node.name.clone()).min()
        };
        let mut subtopologies: Vec<(Option<String>, Subtopology)> = members
            .into_values()
            .map(|nodes| {
                let stores: BTreeSet<usize> = nodes
                    .iter()
                    .filter_map(|index| match &self.nodes.get(*index)?.kind {
                        NodeKind::Processor { stores } => Some(stores.clone()),
                        NodeKind::Source { .. } | NodeKind::Sink { .. } => None,
                    })
                    .flatten()
                    .collect();
                (first_source(&nodes), Subtopology { nodes, stores: stores.into_iter().collect() })
            })
            .collect();
        subtopologies.sort_by(|a, b| a.0.cmp(&b.0));
        self.subtopologies = subtopologies.into_iter().map(|(_, subtopology)| subtopology).collect();
        self.children = self.nodes.iter().map(|node| node.children.clone()).collect();
    }

    /// What cannot work.
    pub(crate) fn check(&self) -> Result<(), TopologyError> {
        let mut names = BTreeSet::new();
        let mut read_by: BTreeMap<&TopicName, &str> = BTreeMap::new();
        for node in &self.nodes {
            let name = node.name.clone();
            if !names.insert(&node.name) {
                return Err(TopologyError::NodeNamedTwice { node: name });
            }
            match &node.kind {
                NodeKind::Source { topics } => {
                    for topic in topics.names() {
                        if !is_topic_name(topic.as_str()) {
                            return Err(TopologyError::IllegalName { node: name, name: topic.to_string() });
                        }
                        if let Some(other) = read_by.insert(topic, &node.name) {
                            return Err(TopologyError::TopicReadTwice {
                                topic: topic.clone(),
                                node: name,
                                other: other.to_owned(),
                            });
                        }
                    }
                }
                NodeKind::Sink { topic: None } => {}
                NodeKind::Sink { topic: Some(topic) } => {
                    if !is_topic_name(topic.as_str()) {
                        return Err(TopologyError::IllegalName { node: name, name: topic.to_string() });
                    }
                }
                NodeKind::Processor { .. } => {}
            }
        }
        for (topic, node) in &read_by {
            // Repartition topics have other names once they are there.
            let is_own = self.repartition_topics.contains_key(*topic);
            let matching = self.sources().find(|(other, topics)| other.name != **node && topics.reads(topic));
            if let (false, Some((other, _))) = (is_own, matching) {
                let (topic, node, other) = ((*topic).clone(), other.name.clone(), (*node).to_owned());
                return Err(TopologyError::TopicReadTwice { topic, node, other });
            }
        }
        if self.sources().next().is_none() {
            return Err(TopologyError::NoSource);
        }
        for (index, store) in self.stores.iter().enumerate() {
            let mut users = self
                .nodes
                .iter()
                .filter(|node| matches!(&node.kind, NodeKind::Processor { stores } if stores.contains(&index)));
            let Some(user) = users.next() else {
                return Err(TopologyError::UnusedStore { store: store.name.clone() });
            };
            if !is_topic_name(&store.name) {
                return Err(TopologyError::IllegalName { node: user.name.clone(), name: store.name.clone() });
            }
        }
        self.check_cycles()
    }

    /// A topic that is written by what reads it, over however many subtopologies.
    fn check_cycles(&self) -> Result<(), TopologyError> {
        let nodes = |subtopology: &Subtopology| -> Vec<&GraphNode> {
            subtopology.nodes.iter().filter_map(|index| self.nodes.get(*index)).collect()
        };
        let reads = |subtopology: &Subtopology, topic: &TopicName| {
            nodes(subtopology).into_iter().any(|node| match &node.kind {
                NodeKind::Source { topics: topics @ SourceTopics::Named(_) } => topics.reads(topic),
                // A pattern never means the application's own topics.
                NodeKind::Source { topics } => !self.repartition_topics.contains_key(topic) && topics.reads(topic),
                NodeKind::Processor { .. } | NodeKind::Sink { .. } => false,
            })
        };
        for start in &self.subtopologies {
            let mut reached: BTreeSet<&TopicName> = BTreeSet::new();
            let mut open: Vec<&Subtopology> = vec![start];
            while let Some(subtopology) = open.pop() {
                for node in nodes(subtopology) {
                    let NodeKind::Sink { topic: Some(topic) } = &node.kind else { continue };
                    if reads(start, topic) {
                        return Err(TopologyError::Cycle { node: node.name.clone(), topic: topic.clone() });
                    }
                    if reached.insert(topic) {
                        open.extend(self.subtopologies.iter().filter(|next| reads(next, topic)));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Kafka's rule for a topic's name.
#[must_use]
pub fn is_topic_name(name: &str) -> bool {
    (1..=249).contains(&name.len())
        && name != "."
        && name != ".."
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

/// A topic that belongs to the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InternalTopic {
    /// The full name.
    pub name: TopicName,
    /// The partitions it must have.
    pub partitions: i32,
    /// What it is for.
    pub kind: InternalTopicKind,
}

/// What an internal topic is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InternalTopicKind {
    /// Records on their way from one subtopology to another.
    Repartition,
    /// The changes of a store.
    Changelog,
}

impl InternalTopic {
    /// The topic's configuration, as Kafka Streams makes it: a repartition topic keeps everything (it is purged by name, never by
    /// time: the application may be stopped for long), a change log the last value of each key.
    #[must_use]
    pub fn configs(&self) -> &'static [(&'static str, &'static str)] {
        match self.kind {
            InternalTopicKind::Repartition => &[
                ("cleanup.policy", "delete"),
                ("message.timestamp.type", "CreateTime"),
                ("retention.ms", "-1"),
                ("segment.bytes", "52428800"),
            ],
            InternalTopicKind::Changelog => &[("cleanup.policy", "compact"), ("message.timestamp.type", "CreateTime")],
        }
    }
}

/// Why the topics do not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// A topic that is read is not there.
    #[error("{node} reads topic {topic}, which does not exist: create it first")]
    NoTopic {
        /// The source.
        node: String,
        /// The topic.
        topic: TopicName,
    },
    /// A topic that two sources read: which of them moves the position?
    #[error("topic {topic} matches what {node} reads, and what {other} reads already: make the patterns apart")]
    MatchedTwice {
        /// The topic.
        topic: TopicName,
        /// The second source.
        node: String,
        /// The first.
        other: String,
    },
}

/// Topics, partitions and tasks of a topology on a given cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The application's own topics.
    pub internal_topics: Vec<InternalTopic>,
    /// The topics of each subtopology's sources, with their full names and partitions, by the subtopology's number.
    pub sources: Vec<BTreeMap<TopicName, i32>>,
    /// The tasks of each subtopology: as many as the source with the most partitions has; none while no topic matches its patterns.
    pub tasks: Vec<i32>,
}

impl Layout {
    fn choose(
        graph: &Graph,
        application_id: Option<&str>,
        partitions_of: impl Fn(&TopicName) -> Option<i32>,
    ) -> Result<Self, LayoutError> {
        let surroundings =
            Surroundings { application_id: application_id.map(str::to_owned), ..Surroundings::default() };
        let mut repartition: BTreeMap<&TopicName, i32> = BTreeMap::new();
        // A repartition topic has the partitions of the widest topic above it. One round for each topic is enough: there are no cycles.
        for _ in 0..=graph.repartition_topics.len() {
            for subtopology in &graph.subtopologies {
                let width = graph.width(subtopology, &repartition, &partitions_of)?;
                for node in subtopology.nodes.iter().filter_map(|index| graph.nodes.get(*index)) {
                    match &node.kind {
                        NodeKind::Sink { topic: Some(topic) } => {
                            let Some(wanted) = graph.repartition_topics.get(topic) else { continue };
                            let partitions = repartition.entry(topic).or_insert(0);
                            *partitions = wanted.partitions.unwrap_or(width.max(*partitions));
                        }
                        NodeKind::Sink { topic: None } | NodeKind::Source { .. } | NodeKind::Processor { .. } => {}
                    }
                }
            }
        }
        let mut layout = Self { internal_topics: Vec::new(), sources: Vec::new(), tasks: Vec::new() };
        // Above a topic without partitions, no topic has matched yet.
        for (topic, partitions) in repartition.iter().filter(|(_, partitions)| **partitions > 0) {
            layout.internal_topics.push(InternalTopic {
                name: surroundings.internal_topic(topic.as_str()),
                partitions: *partitions,
                kind: InternalTopicKind::Repartition,
            });
        }
        for subtopology in &graph.subtopologies {
            let tasks = graph.width(subtopology, &repartition, &partitions_of)?;
            let mut sources = BTreeMap::new();
            for node in subtopology.nodes.iter().filter_map(|index| graph.nodes.get(*index)) {
                let NodeKind::Source { topics } = &node.kind else { continue };
                for topic in topics.names() {
                    match repartition.get(topic) {
                        Some(partitions) => sources.insert(surroundings.internal_topic(topic.as_str()), *partitions),
                        None => sources.insert(topic.clone(), partitions_of(topic).unwrap_or(0)),
                    };
                }
            }
            for store in subtopology.stores.iter().filter_map(|index| graph.stores.get(*index)) {
                if store.has_changelog && tasks > 0 {
                    layout.internal_topics.push(InternalTopic {
                        name: surroundings.internal_topic(&format!("{}-changelog", store.name)),
                        partitions: tasks,
                        kind: InternalTopicKind::Changelog,
                    });
                }
            }
            layout.sources.push(sources);
            layout.tasks.push(tasks);
        }
        Ok(layout)
    }

    /// Every task, sorted.
    #[must_use]
    pub fn task_ids(&self) -> Vec<TaskId> {
        let with_number = self.tasks.iter().zip(0_i32..);
        with_number
            .flat_map(|(tasks, subtopology)| (0..*tasks).map(move |partition| TaskId { subtopology, partition }))
            .collect()
    }

    /// The partitions that a task reads.
    #[must_use]
    pub fn partitions_of(&self, task: TaskId) -> Vec<TopicPartition> {
        let sources = usize::try_from(task.subtopology).ok().and_then(|index| self.sources.get(index));
        let topics = sources.into_iter().flatten().filter(|(_, partitions)| task.partition < **partitions);
        topics.map(|(topic, _)| TopicPartition::new(topic.clone(), task.partition)).collect()
    }

    /// The task that reads a partition.
    #[must_use]
    pub fn task_of(&self, partition: &TopicPartition) -> Option<TaskId> {
        let mut sources = (0_i32..).zip(&self.sources);
        let is_read = |sources: &BTreeMap<TopicName, i32>| {
            sources.get(&partition.topic).is_some_and(|partitions| (0..*partitions).contains(&partition.partition))
        };
        let (subtopology, _) = sources.find(|(_, sources)| is_read(sources))?;
        Some(TaskId { subtopology, partition: partition.partition })
    }

    /// Every topic that the application's consumers subscribe to.
    #[must_use]
    pub fn subscription(&self) -> BTreeSet<TopicName> {
        self.sources.iter().flat_map(BTreeMap::keys).cloned().collect()
    }
}

impl Graph {
    fn width(
        &self,
        subtopology: &Subtopology,
        repartition: &BTreeMap<&TopicName, i32>,
        partitions_of: &impl Fn(&TopicName) -> Option<i32>,
    ) -> Result<i32, LayoutError> {
        let mut width = 0;
        for node in subtopology.nodes.iter().filter_map(|index| self.nodes.get(*index)) {
            let NodeKind::Source { topics } = &node.kind else { continue };
            for topic in topics.names() {
                let partitions = if self.repartition_topics.contains_key(topic) {
                    repartition.get(topic).copied().unwrap_or(0)
                } else {
                    partitions_of(topic)
                        .ok_or_else(|| LayoutError::NoTopic { node: node.name.clone(), topic: topic.clone() })?
                };
                width = width.max(partitions);
            }
        }
        Ok(width)
    }
}
