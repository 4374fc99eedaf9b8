//! What runs behind the three types: sources, sinks, steps, the nodes that keep state; and how they are put into the graph.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use atonce_kernel::{Timestamp, TopicName};
use bytes::Bytes;

use super::table::{Change, WantsOld};
use super::{Building, Predicate, StoreName};
use crate::failure::{Failure, Stage, UnwritableError, Verdict, bytes_alone_in_a_batch};
use crate::partitioner::partition_for_key;
use crate::processor::{Context, Node, ProcessorError, SourceNode, any_node, any_source};
use crate::record::{OutputRecord, Record, SourceRecord};
use crate::store::{StoreError, TaskStore};
use crate::topology::{NodeKind, RepartitionTopic, SourceTopics, Surroundings, is_topic_name};
use crate::wire::Wire;

pub(super) fn add_source<K: Wire, V: Wire>(building: &mut Building, name: String, topics: SourceTopics) -> usize {
    let kind = NodeKind::Source { topics };
    building.add(name, kind, &[], |_| any_source(Source::<K, V> { types: PhantomData }))
}

pub(super) fn add_sink<K: Wire, V: Wire>(
    building: &mut Building,
    name: String,
    topic: TopicName,
    parent: usize,
    is_internal: bool,
) {
    let kind = NodeKind::Sink { topic: Some(topic.clone()) };
    building.add(name, kind, &[parent], move |surroundings| {
        let topic = if is_internal { surroundings.internal_topic(topic.as_str()) } else { topic.clone() };
        let to = Destination::Fixed(Place::new(topic, surroundings));
        any_node(Sink::<K, V> { to, types: PhantomData })
    });
}

/// A sink whose topic each record says.
pub(super) fn add_choosing_sink<K: Wire, V: Wire, F>(building: &mut Building, name: String, parent: usize, topic: F)
where
    F: Fn(&K, &V) -> TopicName + Send + Sync + 'static,
{
    let topic: Arc<Chooser<K, V>> = Arc::new(topic);
    building.add(name, NodeKind::Sink { topic: None }, &[parent], move |surroundings| {
        let to = Destination::Chosen { choose: Arc::clone(&topic), surroundings: Box::new(surroundings.clone()) };
        any_node(Sink::<K, V> { to, types: PhantomData })
    });
}

/// Filter, sink, topic, source: as Kafka Streams builds it, with its names.
pub(super) fn add_repartition<K: Wire, V: Wire>(
    building: &mut Building,
    prefix: &str,
    wanted: RepartitionTopic,
    parent: usize,
) -> usize {
    let topic = format!("{prefix}-repartition");
    // Taken also where they are not used: Kafka Streams counts on.
    let generated =
        [building.generate("KSTREAM-SINK"), building.generate("KSTREAM-FILTER"), building.generate("KSTREAM-SOURCE")];
    // A prefix that was itself generated does not name nodes.
    let [sink, filter, source] = if prefix.starts_with("KSTREAM-") {
        generated
    } else {
        ["sink", "filter", "source"].map(|part| format!("{topic}-{part}"))
    };
    let topic = TopicName::from(topic);
    building.repartition_topics.insert(topic.clone(), wanted);
    let kind = NodeKind::Processor { stores: Vec::new() };
    let filter = building.add(filter, kind, &[parent], |_| any_node(DropNullKeys::<K, V> { types: PhantomData }));
    add_sink::<K, V>(building, sink, topic.clone(), filter, true);
    add_source::<K, V>(building, source, SourceTopics::Named(vec![topic]))
}

/// The node that keeps a table's last values. `into` says which of what comes in deletes.
pub(super) fn add_table<K: Wire, V: Wire, I: Clone + Send + 'static>(
    building: &mut Building,
    name: String,
    (store, generated): (StoreName, String),
    parent: usize,
    wants_old: &WantsOld,
    into: fn(I) -> Option<V>,
) -> usize {
    let is_cached = store.is_cached;
    let store = building.add_store(store, generated, &name);
    let wants_old = Arc::clone(wants_old);
    building.add(name, NodeKind::Processor { stores: vec![store] }, &[parent], move |_| {
        let kept = Kept { store, is_cached, wants_old: wants_old.load(Ordering::Relaxed) };
        any_node(Keep::<K, V, I> { kept, into, types: PhantomData })
    })
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

type Chooser<K, V> = dyn Fn(&K, &V) -> TopicName + Send + Sync;

/// Types to bytes.
struct Sink<K, V> {
    to: Destination<K, V>,
    types: PhantomData<fn(K, V)>,
}

enum Destination<K, V> {
    Fixed(Place),
    Chosen { choose: Arc<Chooser<K, V>>, surroundings: Box<Surroundings> },
}

/// A topic, and what is known of it.
#[derive(Clone)]
struct Place {
    topic: TopicName,
    /// `None`: not known here, so the producer chooses, by the same function.
    partitions: Option<i32>,
    max_message_bytes: Option<usize>,
}

impl Place {
    fn new(topic: TopicName, surroundings: &Surroundings) -> Self {
        let partitions = surroundings.partitions.get(&topic).copied();
        let max_message_bytes = surroundings.max_message_bytes.get(&topic).copied();
        Self { topic, partitions, max_message_bytes }
    }

    /// What would be refused for ever, and poison the transaction: it is found before it is sent.
    fn check(&self, record: &OutputRecord) -> Result<(), UnwritableError> {
        if let Some(max) = self.max_message_bytes {
            let bytes = bytes_alone_in_a_batch(record);
            if bytes > max {
                return Err(UnwritableError::TooLarge { topic: self.topic.clone(), bytes, max });
            }
        }
        Ok(())
    }
}

impl<K: Wire, V: Wire> Node<K, V> for Sink<K, V> {
    fn process(&mut self, record: Record<K, V>, context: &mut Context<'_>) -> Result<(), ProcessorError> {
        let chosen;
        let place = match &self.to {
            Destination::Fixed(place) => place,
            Destination::Chosen { choose, surroundings } => {
                chosen = Place::new(choose(&record.key, &record.value), surroundings);
                &chosen
            }
        };
        let key = record.key.encode();
        let partition = match (&key, place.partitions) {
            (Some(key), Some(partitions)) => Some(partition_for_key(key, partitions)),
            (None, _) | (_, None) => None,
        };
        let output = OutputRecord {
            topic: place.topic.clone(),
            partition,
            timestamp: record.timestamp,
            key,
            value: record.value.encode(),
            headers: record.headers,
        };
        let written = match &self.to {
            Destination::Chosen { .. } if !is_topic_name(output.topic.as_str()) => {
                Err(UnwritableError::IllegalTopic { name: output.topic.to_string() })
            }
            Destination::Chosen { .. } | Destination::Fixed(_) => place.check(&output),
        };
        match written {
            Ok(()) => {
                context.outputs.push(output);
                Ok(())
            }
            Err(error) => leave_out(&output, error, context),
        }
    }
}

/// A record that cannot be written: it alone is left out, if the user says so; its input stands.
fn leave_out(output: &OutputRecord, error: UnwritableError, context: &mut Context<'_>) -> Result<(), ProcessorError> {
    let node = context.graph.nodes.get(context.current).map(|node| node.name.as_str()).unwrap_or_default();
    let failure = Failure {
        stage: Stage::Writing,
        task: context.task,
        node,
        origin: context.origin,
        timestamp: output.timestamp,
        key: output.key.as_ref(),
        value: output.value.as_ref(),
        headers: &output.headers,
        cause: &error,
    };
    match context.on_failure.judge(&failure) {
        Verdict::Fail => Err(error.into()),
        Verdict::Skip => {
            context.counts.skipped += 1;
            Ok(())
        }
        Verdict::DeadLetter(topic) => {
            context.outputs.push(failure.dead_letter(topic));
            context.counts.dead_letters += 1;
            Ok(())
        }
    }
}

/// A step that a closure does.
pub(super) struct Step<F> {
    pub(super) function: Arc<F>,
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

/// Hands each record to the first child whose predicate holds; the last child, if there is one more, has the rest.
pub(super) struct Branch<K, V> {
    pub(super) predicates: Arc<Vec<Predicate<K, V>>>,
}

impl<K: Clone + Send + 'static, V: Clone + Send + 'static> Node<K, V> for Branch<K, V> {
    fn process(&mut self, record: Record<K, V>, context: &mut Context<'_>) -> Result<(), ProcessorError> {
        let holds = self.predicates.iter().position(|predicate| predicate(&record.key, &record.value));
        context.forward_to(holds.unwrap_or(self.predicates.len()), record);
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
            context.counts.dropped += 1;
        } else {
            context.forward(record);
        }
        Ok(())
    }
}

/// The store of a node that makes a table, and how its changes go on.
#[derive(Clone, Copy)]
pub(super) struct Kept {
    pub(super) store: usize,
    /// At the commit, not at once.
    pub(super) is_cached: bool,
    pub(super) wants_old: bool,
}

impl Kept {
    /// Of each key that the interval has changed, its last value, if that is how it goes on.
    fn flush<K: Wire, V: Wire>(self, context: &mut Context<'_>) -> Result<(), ProcessorError> {
        if !self.is_cached {
            return Ok(());
        }
        let store = context.store(self.store);
        let changes: Vec<_> = store.borrow().changes().collect();
        for (key, new, timestamp) in changes {
            let old = if self.wants_old { store.borrow().committed(&key)? } else { None };
            let new = new.map(|value| decode(&store.borrow(), value)).transpose()?;
            let old = old.map(|stamped| decode::<V>(&store.borrow(), stamped.value)).transpose()?;
            let key: K = decode(&store.borrow(), key)?;
            context.forward(Record { key, value: Change { new, old }, timestamp, headers: Vec::new() });
        }
        Ok(())
    }
}

fn decode<T: Wire>(store: &TaskStore, bytes: Bytes) -> Result<T, StoreError> {
    T::decode_shared(Some(bytes)).map_err(|source| StoreError::Bytes { store: store.name().to_owned(), source })
}

/// A value for each key, kept in a store; one read and one write for each record.
pub(super) struct Fold<K, V, A, I, F> {
    pub(super) kept: Kept,
    /// What a key has before its first record, if anything. As in Kafka Streams it counts as its old value: a filter that lets it through
    /// lets a deletion follow.
    pub(super) initial: Arc<I>,
    pub(super) function: Arc<F>,
    pub(super) types: PhantomData<fn(K, V) -> A>,
}

impl<K: Wire, V: Wire, A: Wire, I, F> Node<K, V> for Fold<K, V, A, I, F>
where
    I: Fn() -> Option<A> + Send + Sync,
    F: Fn(&K, V, Option<A>) -> A + Send + Sync,
{
    fn process(&mut self, record: Record<K, V>, context: &mut Context<'_>) -> Result<(), ProcessorError> {
        let Some(key) = record.key.encode() else {
            context.counts.dropped += 1;
            return Ok(());
        };
        if record.value.is_null() {
            context.counts.dropped += 1;
            return Ok(());
        }
        let mut store = context.store(self.kept.store).borrow_mut();
        let (before, since) = match store.get(&key)? {
            None => ((self.initial)(), Timestamp::NONE),
            Some(stamped) => (Some(decode::<A>(&store, stamped.value)?), stamped.timestamp),
        };
        let old = if self.kept.wants_old { before.clone() } else { None };
        // The time of an aggregate is the latest of what went into it, as in Kafka Streams: a late record does not set it back.
        let timestamp = record.timestamp.max(since);
        let after = (self.function)(&record.key, record.value, before);
        let bytes = after.encode();
        let new = bytes.is_some().then_some(after);
        store.put(key, bytes, timestamp)?;
        drop(store);
        if !self.kept.is_cached {
            let value = Change { new, old };
            context.forward(Record { key: record.key, value, timestamp, headers: record.headers });
        }
        Ok(())
    }

    fn flush(&mut self, context: &mut Context<'_>) -> Result<(), ProcessorError> {
        self.kept.flush::<K, A>(context)
    }
}

/// The last value of each key, kept in a store.
struct Keep<K, V, I> {
    kept: Kept,
    into: fn(I) -> Option<V>,
    types: PhantomData<fn(K)>,
}

impl<K: Wire, V: Wire, I: Send> Node<K, I> for Keep<K, V, I> {
    fn process(&mut self, record: Record<K, I>, context: &mut Context<'_>) -> Result<(), ProcessorError> {
        let Record { key, value, timestamp, headers } = record;
        let Some(bytes) = key.encode() else {
            context.counts.dropped += 1;
            return Ok(());
        };
        let new = (self.into)(value);
        let mut store = context.store(self.kept.store).borrow_mut();
        let before = if self.kept.wants_old { store.get(&bytes)? } else { None };
        let old = before.map(|stamped| decode(&store, stamped.value)).transpose()?;
        store.put(bytes, new.as_ref().and_then(V::encode), timestamp)?;
        drop(store);
        if !self.kept.is_cached {
            context.forward(Record { key, value: Change { new, old }, timestamp, headers });
        }
        Ok(())
    }

    fn flush(&mut self, context: &mut Context<'_>) -> Result<(), ProcessorError> {
        self.kept.flush::<K, V>(context)
    }
}
