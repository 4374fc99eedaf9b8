//! A processor of one's own, and how a record travels from node to node.
//!
//! Inside a subtopology records are values with types, never bytes: forwarding moves a record to the one child, or clones it for
//! several. A node is lent out of the arena while it runs, so a child can run inside its parent's call; a topology has no cycles.
//!
//! No `async` here: a processor runs inside a transaction, and what it would wait for is no part of that.

use std::any::Any;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::time::Duration;

use atonce_kernel::{Offset, Timestamp, TopicPartition};

use crate::failure::FailureHandler;
use crate::record::{OutputRecord, Record, SourceRecord};
use crate::store::{KeyValueStore, KeyValueView, StoreHandle, TaskStore};
use crate::task::{TaskCounts, TaskId};
use crate::topology::Graph;
use crate::wire::Wire;

/// A step of a topology, written by hand.
///
/// A topology takes a supplier, not a processor: after an abort each is built anew, so that fields never hold what did not commit.
///
/// ```
/// use atonce_streams_core::*;
///
/// struct FirstOfEach { seen: StoreHandle<KeyValueStore<String, i64>> }
///
/// impl Processor for FirstOfEach {
///     type Input = (String, i64);
///     type Output = (String, i64);
///
///     fn process(&mut self, record: Record<String, i64>, stores: &mut Stores<'_>, output: &mut Forward<'_, (String, i64)>)
///         -> Result<(), ProcessorError>
///     {
///         if stores.get(&self.seen).insert_if_absent(&record.key, &record.value)? {
///             output.forward(record);
///         }
///         Ok(())
///     }
/// }
///
/// let builder = TopologyBuilder::new();
/// let seen = builder.add_store::<String, i64>(store("seen"));
/// let handle = seen.clone();
/// builder
///     .stream::<String, i64>("orders")
///     .process(move || FirstOfEach { seen: handle.clone() }, [seen])
///     .to("first-orders");
/// assert!(builder.build().is_ok());
/// ```
pub trait Processor: Send + 'static {
    /// The types of key and value that come in, as a pair.
    type Input: Pair;
    /// The types that go out.
    type Output: Pair;

    /// Handles one record.
    ///
    /// Errors: end the interval; everything since the last commit is undone.
    fn process(
        &mut self,
        record: Record<<Self::Input as Pair>::Key, <Self::Input as Pair>::Value>,
        stores: &mut Stores<'_>,
        output: &mut Forward<'_, Self::Output>,
    ) -> Result<(), ProcessorError>;

    /// When [`punctuate`](Self::punctuate) is to be called. Asked once for each task.
    fn schedules(&self) -> Vec<Schedule> {
        Vec::new()
    }

    /// A schedule's time has come. What is written to stores bears the punctuation's time; what it does belongs to the open interval like the effects
    /// of a record.
    ///
    /// Errors: end the interval; everything since the last commit is undone.
    fn punctuate(
        &mut self,
        punctuation: Punctuation,
        stores: &mut Stores<'_>,
        output: &mut Forward<'_, Self::Output>,
    ) -> Result<(), ProcessorError> {
        let _ = (punctuation, stores, output);
        Ok(())
    }
}

/// Which clock a schedule follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The largest time of a record that the task has seen: stands still while nothing comes, and runs the same when input is
    /// processed again.
    StreamTime,
    /// The time of day: runs also while nothing comes, and differently each time.
    WallClock,
}

/// A call of [`Processor::punctuate`] again and again.
///
/// As in Kafka Streams, one by stream time is first due with the first record, then at multiples of its interval; one by the wall clock
/// an interval after the task has started. Times that were missed are made up for by one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The clock.
    pub clock: Clock,
    /// The time between two calls; less than a millisecond counts as one.
    pub interval: Duration,
}

impl Schedule {
    /// By the time of the records.
    #[must_use]
    pub fn stream_time(interval: Duration) -> Self {
        Self { clock: Clock::StreamTime, interval }
    }

    /// By the time of day.
    #[must_use]
    pub fn wall_clock(interval: Duration) -> Self {
        Self { clock: Clock::WallClock, interval }
    }

    pub(crate) fn interval_ms(self) -> i64 {
        i64::try_from(self.interval.as_millis()).unwrap_or(i64::MAX).max(1)
    }
}

/// Which schedule has come due, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Punctuation {
    /// Its place in [`Processor::schedules`], from 0.
    pub schedule: usize,
    /// Its clock.
    pub clock: Clock,
    /// What that clock shows.
    pub time: Timestamp,
}

/// Key and value as one type, `(K, V)`.
pub trait Pair: 'static {
    /// The key's type.
    type Key: Clone + Send + 'static;
    /// The value's type.
    type Value: Clone + Send + 'static;
}

impl<K: Clone + Send + 'static, V: Clone + Send + 'static> Pair for (K, V) {
    type Key = K;
    type Value = V;
}

/// Why a processor cannot go on: any error, by `?`.
pub struct ProcessorError(Box<dyn std::error::Error + Send + Sync>);

impl ProcessorError {
    /// In words.
    pub fn new(message: impl Into<String>) -> Self {
        Self(Box::from(message.into()))
    }

    /// The error itself.
    #[must_use]
    pub fn into_inner(self) -> Box<dyn std::error::Error + Send + Sync> {
        self.0
    }
}

impl std::fmt::Debug for ProcessorError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&self.0, f)
    }
}

impl std::fmt::Display for ProcessorError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(&self.0, f)
    }
}

/// `ProcessorError` is not itself an `Error`: that is what lets every error become one.
impl<E: std::error::Error + Send + Sync + 'static> From<E> for ProcessorError {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}

/// The stores a processor was given.
pub struct Stores<'a> {
    cells: &'a [Option<RefCell<TaskStore>>],
    connected: &'a [usize],
    timestamp: Timestamp,
}

impl Stores<'_> {
    /// The store of this handle. What is written to it bears the record's time.
    pub fn get<K: Wire, V: Wire>(&self, handle: &StoreHandle<KeyValueStore<K, V>>) -> KeyValueView<'_, K, V> {
        let cell = self.cells.get(handle.index).and_then(Option::as_ref);
        // The name is compared too: a handle of another builder has an index that means something else here.
        let cell = cell
            .filter(|cell| self.connected.contains(&handle.index) && cell.borrow().name() == &*handle.name)
            .ok_or_else(|| handle.name.to_string());
        KeyValueView { cell, timestamp: self.timestamp, types: PhantomData }
    }
}

/// Where a processor's results go: the nodes after it.
pub struct Forward<'a, O: Pair> {
    deliver: &'a mut dyn FnMut(Record<O::Key, O::Value>),
    stream_time: Timestamp,
}

impl<O: Pair> Forward<'_, O> {
    /// Hands `record` on; it is processed before this returns. A failure downstream ends the interval after this processor returns.
    pub fn forward(&mut self, record: Record<O::Key, O::Value>) {
        (self.deliver)(record);
    }

    /// The largest time of a record that this task has seen.
    #[must_use]
    pub fn stream_time(&self) -> Timestamp {
        self.stream_time
    }
}

/// A node of a running task that takes records of one pair of types.
pub(crate) trait Node<K, V>: Send {
    fn process(&mut self, record: Record<K, V>, context: &mut Context<'_>) -> Result<(), ProcessorError>;

    /// Lets go of what it has kept back: a commit is near.
    fn flush(&mut self, _context: &mut Context<'_>) -> Result<(), ProcessorError> {
        Ok(())
    }

    fn schedules(&self) -> Vec<Schedule> {
        Vec::new()
    }

    fn punctuate(&mut self, _punctuation: Punctuation, _context: &mut Context<'_>) -> Result<(), ProcessorError> {
        Ok(())
    }
}

/// A node of a running task that takes bytes.
pub(crate) trait SourceNode: Send {
    fn process(&mut self, record: SourceRecord, context: &mut Context<'_>) -> Result<(), ProcessorError>;
}

/// What can be asked of a node without knowing its types, which only those that forward to it know.
pub(crate) trait ErasedNode: Any + Send {
    fn flush(&mut self, context: &mut Context<'_>) -> Result<(), ProcessorError>;
    fn schedules(&self) -> Vec<Schedule>;
    fn punctuate(&mut self, punctuation: Punctuation, context: &mut Context<'_>) -> Result<(), ProcessorError>;
}

pub(crate) type AnyNode = Box<dyn ErasedNode>;

struct Typed<K, V>(Box<dyn Node<K, V>>);

impl<K: 'static, V: 'static> ErasedNode for Typed<K, V> {
    fn flush(&mut self, context: &mut Context<'_>) -> Result<(), ProcessorError> {
        self.0.flush(context)
    }

    fn schedules(&self) -> Vec<Schedule> {
        self.0.schedules()
    }

    fn punctuate(&mut self, punctuation: Punctuation, context: &mut Context<'_>) -> Result<(), ProcessorError> {
        self.0.punctuate(punctuation, context)
    }
}

struct TypedSource(Box<dyn SourceNode>);

impl ErasedNode for TypedSource {
    fn flush(&mut self, _context: &mut Context<'_>) -> Result<(), ProcessorError> {
        Ok(())
    }

    fn schedules(&self) -> Vec<Schedule> {
        Vec::new()
    }

    fn punctuate(&mut self, _punctuation: Punctuation, _context: &mut Context<'_>) -> Result<(), ProcessorError> {
        Ok(())
    }
}

/// A place in the arena: empty while its node runs.
#[derive(Default)]
pub(crate) struct NodeSlot(Option<AnyNode>);

impl NodeSlot {
    pub(crate) fn new(node: AnyNode) -> Self {
        Self(Some(node))
    }

    pub(crate) fn schedules(&self) -> Vec<Schedule> {
        self.0.as_ref().map(|node| node.schedules()).unwrap_or_default()
    }
}

pub(crate) fn any_node<K: 'static, V: 'static>(node: impl Node<K, V> + 'static) -> AnyNode {
    Box::new(Typed::<K, V>(Box::new(node)))
}

pub(crate) fn any_source(node: impl SourceNode + 'static) -> AnyNode {
    Box::new(TypedSource(Box::new(node)))
}

/// Which node failed, and why.
pub(crate) struct NodeFailure {
    pub(crate) node: usize,
    pub(crate) cause: ProcessorError,
}

/// Everything that a record meets on its way through one task.
pub(crate) struct Context<'a> {
    pub(crate) task: TaskId,
    pub(crate) graph: &'a Graph,
    pub(crate) nodes: &'a mut [NodeSlot],
    pub(crate) stores: &'a [Option<RefCell<TaskStore>>],
    pub(crate) on_failure: &'a FailureHandler,
    pub(crate) outputs: &'a mut Vec<OutputRecord>,
    pub(crate) counts: &'a mut TaskCounts,
    /// The record that all this comes from; none in a punctuation or a flush.
    pub(crate) origin: Option<(&'a TopicPartition, Offset)>,
    pub(crate) stream_time: Timestamp,
    pub(crate) current: usize,
    pub(crate) failure: Option<NodeFailure>,
}

impl<'a> Context<'a> {
    /// To every child of the node that runs.
    pub(crate) fn forward<K: Clone + 'static, V: Clone + 'static>(&mut self, record: Record<K, V>) {
        let graph: &'a Graph = self.graph;
        let Some((last, others)) = graph.children.get(self.current).and_then(|children| children.split_last()) else {
            return;
        };
        for child in others {
            self.deliver(*child, record.clone());
        }
        self.deliver(*last, record);
    }

    /// To one child of the node that runs, by its place among them.
    pub(crate) fn forward_to<K: 'static, V: 'static>(&mut self, place: usize, record: Record<K, V>) {
        let child = self.graph.children.get(self.current).and_then(|children| children.get(place)).copied();
        if let Some(child) = child {
            self.deliver(child, record);
        }
    }

    fn deliver<K: 'static, V: 'static>(&mut self, child: usize, record: Record<K, V>) {
        self.run(child, |node, context| {
            let node: &mut dyn Any = node;
            let Typed(node) = node.downcast_mut::<Typed<K, V>>().expect("the builder joins nodes of one type only");
            node.process(record, context)
        });
    }

    pub(crate) fn deliver_to_source(&mut self, source: usize, record: SourceRecord) {
        self.run(source, |node, context| {
            let node: &mut dyn Any = node;
            let TypedSource(node) = node.downcast_mut::<TypedSource>().expect("a partition is routed to a source");
            node.process(record, context)
        });
    }

    pub(crate) fn punctuate(&mut self, node: usize, punctuation: Punctuation) {
        self.run(node, |node, context| node.punctuate(punctuation, context));
    }

    pub(crate) fn flush(&mut self, node: usize) {
        self.run(node, |node, context| node.flush(context));
    }

    fn run(&mut self, index: usize, work: impl FnOnce(&mut dyn ErasedNode, &mut Self) -> Result<(), ProcessorError>) {
        if self.failure.is_some() {
            return;
        }
        let mut node = self
            .nodes
            .get_mut(index)
            .and_then(|slot| slot.0.take())
            .expect("a child belongs to its parent's subtopology, and a topology has no cycles");
        let parent = std::mem::replace(&mut self.current, index);
        let result = work(node.as_mut(), self);
        self.current = parent;
        if let Some(slot) = self.nodes.get_mut(index) {
            slot.0 = Some(node);
        }
        if let (Err(cause), None) = (result, &self.failure) {
            self.failure = Some(NodeFailure { node: index, cause });
        }
    }

    /// The store `index` of the topology, which the builder connected to the node that asks.
    pub(crate) fn store(&self, index: usize) -> &'a RefCell<TaskStore> {
        let stores: &'a [Option<RefCell<TaskStore>>] = self.stores;
        stores.get(index).and_then(Option::as_ref).expect("a store is in its processor's subtopology")
    }
}

/// A [`Processor`] as a node.
pub(crate) struct ProcessorNode<P> {
    pub(crate) processor: P,
    pub(crate) stores: Vec<usize>,
}

impl<P: Processor> ProcessorNode<P> {
    /// Calls the processor with its stores, which take `timestamp`, and with a way out.
    fn call(
        &mut self,
        timestamp: Timestamp,
        context: &mut Context<'_>,
        work: impl FnOnce(&mut P, &mut Stores<'_>, &mut Forward<'_, P::Output>) -> Result<(), ProcessorError>,
    ) -> Result<(), ProcessorError> {
        let mut stores = Stores { cells: context.stores, connected: &self.stores, timestamp };
        let stream_time = context.stream_time;
        let mut deliver = |record| context.forward(record);
        let mut output = Forward::<P::Output> { deliver: &mut deliver, stream_time };
        work(&mut self.processor, &mut stores, &mut output)
    }
}

impl<P: Processor> Node<<P::Input as Pair>::Key, <P::Input as Pair>::Value> for ProcessorNode<P> {
    fn process(
        &mut self,
        record: Record<<P::Input as Pair>::Key, <P::Input as Pair>::Value>,
        context: &mut Context<'_>,
    ) -> Result<(), ProcessorError> {
        self.call(record.timestamp, context, |processor, stores, output| processor.process(record, stores, output))
    }

    fn schedules(&self) -> Vec<Schedule> {
        self.processor.schedules()
    }

    fn punctuate(&mut self, punctuation: Punctuation, context: &mut Context<'_>) -> Result<(), ProcessorError> {
        self.call(punctuation.time, context, |processor, stores, output| {
            processor.punctuate(punctuation, stores, output)
        })
    }
}
