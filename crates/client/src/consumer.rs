//! The consumer: by assignment, or as a member of a classic group.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use atonce_client_core::consumer_group::Interest;
use atonce_client_core::membership::{Event, RebalanceProtocol};
use atonce_kernel::{GroupId, GroupInstanceId, Offset, TopicName, TopicPartition};
use bytes::Bytes;
use futures_core::Stream;
use tokio::time::Instant;

use crate::admin::{OffsetSpec, list_offsets};
use crate::assignor::{Assignor, RangeAssignor};
use crate::client::Client;
use crate::consumer_host::{ConsumerHost, Inner};
use crate::error::ConsumerError;
use crate::member::Member;
use crate::record::ConsumerRecord;

pub use atonce_client_core::fetch::{Isolation, OffsetReset, Position};
pub use atonce_client_core::transaction::{CommitPosition, GroupMetadata};

/// Positions, with who says so: what `send_offsets` and `commit` take.
///
/// ```
/// use atonce_client::{GroupMetadata, Positions, TopicPartition};
///
/// let mut positions = Positions::new(GroupMetadata::without_member("payments"));
/// positions.insert(TopicPartition::new("orders", 0), 42);
/// assert_eq!(positions.offset(&TopicPartition::new("orders", 0)), Some(42));
/// ```
#[derive(Clone, Debug)]
pub struct Positions {
    group: Option<GroupMetadata>,
    offsets: BTreeMap<TopicPartition, CommitPosition>,
    renewal: Option<Renewal>,
}

impl PartialEq for Positions {
    fn eq(&self, other: &Self) -> bool {
        (&self.group, &self.offsets) == (&other.group, &other.offsets)
    }
}

impl Eq for Positions {}

/// Where to ask who the member is by now: a group may go on to the next generation while its members keep what they have.
#[derive(Clone)]
pub(crate) struct Renewal {
    host: Weak<ConsumerHost>,
    /// When the positions were handed out, counted by what the member was given since.
    stamp: u64,
}

impl std::fmt::Debug for Renewal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Renewal").field("stamp", &self.stamp).finish_non_exhaustive()
    }
}

impl Positions {
    /// No positions yet, of `group`.
    #[must_use]
    pub fn new(group: GroupMetadata) -> Self {
        Self { group: Some(group), offsets: BTreeMap::new(), renewal: None }
    }

    pub(crate) fn of(
        group: Option<GroupMetadata>,
        offsets: BTreeMap<TopicPartition, CommitPosition>,
        renewal: Renewal,
    ) -> Self {
        Self { group, offsets, renewal: Some(renewal) }
    }

    pub(crate) fn into_parts(self) -> (Option<GroupMetadata>, BTreeMap<TopicPartition, CommitPosition>) {
        (self.current_group(), self.offsets)
    }

    /// Whether the consumer commits them by itself.
    pub(crate) fn are_auto_committed(&self) -> bool {
        let host = self.renewal.as_ref().and_then(|renewal| renewal.host.upgrade());
        host.is_some_and(|host| host.settings.auto_commit.is_some())
    }

    /// Whether they come from a consumer, which knows who it is by now.
    pub(crate) fn is_renewable(&self) -> bool {
        self.renewal.is_some()
    }

    /// Whether the member that was handed them is on its way into another generation, with what it holds.
    pub(crate) fn may_be_renewed(&self) -> bool {
        let host = self.renewal.as_ref().and_then(|renewal| renewal.host.upgrade());
        host.is_some_and(|host| host.lock().membership.as_ref().is_some_and(Member::is_joining_with_partitions))
    }

    /// Who says so: the member as it is by now, if all of these partitions have been its own all the time since the
    /// positions were handed out; else as it was then, and the group refuses it.
    pub(crate) fn current_group(&self) -> Option<GroupMetadata> {
        let then = self.group.clone()?;
        let Some(renewal) = &self.renewal else { return Some(then) };
        let Some(host) = renewal.host.upgrade() else { return Some(then) };
        let inner = host.lock();
        let Some(membership) = &inner.membership else { return Some(then) };
        let is_held = |it: &TopicPartition| membership.holds(it) && inner.is_held_since(it, renewal.stamp);
        Some(if self.offsets.keys().all(is_held) { membership.group_metadata() } else { then })
    }

    /// Sets a position: the next offset to read.
    pub fn insert(&mut self, topic_partition: TopicPartition, offset: Offset) {
        self.insert_with_metadata(topic_partition, offset, String::new());
    }

    /// Sets a position, and a text that is kept beside it.
    pub fn insert_with_metadata(&mut self, topic_partition: TopicPartition, offset: Offset, metadata: String) {
        self.offsets.insert(topic_partition, CommitPosition { offset, leader_epoch: -1, metadata });
    }

    /// Takes over all positions of `later`, and its group metadata.
    pub fn merge(&mut self, later: Self) {
        self.renewal = match (self.renewal.take(), later.renewal) {
            (None, renewal) if self.offsets.is_empty() => renewal,
            (Some(mine), Some(its)) if Weak::ptr_eq(&mine.host, &its.host) => {
                Some(Renewal { stamp: mine.stamp.min(its.stamp), host: mine.host })
            }
            (Some(_) | None, _) => None,
        };
        self.group = later.group.or(self.group.take());
        self.offsets.extend(later.offsets);
    }

    /// Keeps only what `keep` says, for instance what a rebalance has left.
    pub fn retain(&mut self, mut keep: impl FnMut(&TopicPartition) -> bool) {
        self.offsets.retain(|topic_partition, _| keep(topic_partition));
    }

    /// The position in a partition.
    #[must_use]
    pub fn offset(&self, topic_partition: &TopicPartition) -> Option<Offset> {
        self.offsets.get(topic_partition).map(|position| position.offset)
    }

    /// Who says so; `None` if the consumer has no group.
    #[must_use]
    pub fn group(&self) -> Option<&GroupMetadata> {
        self.group.as_ref()
    }

    /// All positions, sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&TopicPartition, &CommitPosition)> {
        self.offsets.iter()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }
}

/// Records in the order of their partitions, and the positions after them.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The records. There may be none: then only positions have moved, over control records or aborted ones.
    pub records: Vec<ConsumerRecord>,
    positions: Positions,
}

impl Batch {
    /// A batch; for tests of what reads batches.
    #[must_use]
    pub fn new(records: Vec<ConsumerRecord>, positions: Positions) -> Self {
        Self { records, positions }
    }

    /// The positions after this batch in the partitions it touches, with the group's metadata. Whoever commits them does
    /// so as the member that was handed them; in its present generation, if it has kept the partitions all the while.
    #[must_use]
    pub fn positions(&self) -> Positions {
        self.positions.clone()
    }

    /// Whether there is no record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// How many records there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// The records.
    pub fn iter(&self) -> std::slice::Iter<'_, ConsumerRecord> {
        self.records.iter()
    }
}

impl<'batch> IntoIterator for &'batch Batch {
    type Item = &'batch ConsumerRecord;
    type IntoIter = std::slice::Iter<'batch, ConsumerRecord>;

    fn into_iter(self) -> Self::IntoIter {
        self.records.iter()
    }
}

impl IntoIterator for Batch {
    type Item = ConsumerRecord;
    type IntoIter = std::vec::IntoIter<ConsumerRecord>;

    fn into_iter(self) -> Self::IntoIter {
        self.records.into_iter()
    }
}

/// What happens to a consumer.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let broker = atonce_broker::Broker::temporary().await?;
/// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
/// # client.admin().create_topics(&[atonce_client::NewTopic::new("orders", 1)]).await?;
/// use std::time::Duration;
///
/// use atonce_client::ConsumerEvent;
///
/// let mut consumer = client.consumer().group("billing").subscribe(["orders"]).await?;
/// let mut is_ours = false;
/// while !is_ours {
///     match consumer.next_event(Duration::from_secs(1)).await? {
///         Some(ConsumerEvent::Assigned(partitions, _)) => is_ours = !partitions.is_empty(),
///         Some(ConsumerEvent::Batch(batch)) => consumer.commit(batch.positions()).await?,
///         // They go with the next call: what is done may still be committed.
///         Some(ConsumerEvent::Revoking(_)) => consumer.commit(consumer.positions()).await?,
///         // They are another's already: commit nothing.
///         Some(ConsumerEvent::Lost(_)) | None => {}
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub enum ConsumerEvent {
    /// Records, or moved positions.
    Batch(Batch),
    /// The group rebalances: these partitions will be given away (all of them in eager rebalances, what others get in
    /// cooperative ones). Commit now; this member joins again at the next call of `next_event`, not before.
    Revoking(Vec<TopicPartition>),
    /// These partitions are this member's from now on (all of them, not a difference), with what the leader's assignor
    /// had to say.
    Assigned(Vec<TopicPartition>, Bytes),
    /// These partitions are no longer this member's, and others may have them already: do not commit, forget what was
    /// not committed. This member joins again at the next call.
    Lost(Vec<TopicPartition>),
}

/// Which protocol a group speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupProtocol {
    /// Members join together, and one of them, the leader, divides with its [`Assignor`]. Every broker has it.
    #[default]
    Classic,
    /// The coordinator divides, and moves partitions one by one (KIP-848). Brokers from Apache Kafka 4.0 on have it.
    Consumer,
}

#[derive(Clone)]
pub(crate) struct ConsumerSettings {
    pub(crate) group: Option<GroupId>,
    pub(crate) instance_id: Option<GroupInstanceId>,
    pub(crate) isolation: Isolation,
    pub(crate) assignors: Vec<Arc<dyn Assignor>>,
    pub(crate) rack: Option<String>,
    pub(crate) group_protocol: GroupProtocol,
    pub(crate) remote_assignor: Option<String>,
    pub(crate) session_timeout: Duration,
    pub(crate) heartbeat_interval: Duration,
    pub(crate) max_poll_interval: Duration,
    pub(crate) offset_reset: OffsetReset,
    pub(crate) fetch_bytes_max: i32,
    pub(crate) partition_bytes_max: i32,
    pub(crate) prefetch_bytes_max: usize,
    pub(crate) fetch_wait_max: Duration,
    pub(crate) batch_records_max: usize,
    pub(crate) call_timeout: Duration,
    pub(crate) auto_commit: Option<Duration>,
}

/// Settings of a [`Consumer`] to be.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let broker = atonce_broker::Broker::temporary().await?;
/// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
/// # client.admin().create_topics(&[atonce_client::NewTopic::new("orders", 1)]).await?;
/// use atonce_client::{OffsetReset, Position, ProducerRecord, TopicPartition};
///
/// let producer = client.producer().start().await?;
/// producer.send(ProducerRecord::to("orders").value("two lamps")).await?.await?;
///
/// // As a member of a group:
/// let consumer = client.consumer().group("billing").read_committed().auto_offset_reset(OffsetReset::Earliest);
/// let mut consumer = consumer.subscribe(["orders"]).await?;
/// let batch = consumer.next_batch().await?.expect("nobody stops it");
/// consumer.commit(batch.positions()).await?;
/// consumer.close().await?;
///
/// // Or by oneself:
/// let place = (TopicPartition::new("orders", 0), Position::Earliest);
/// let mut consumer = client.consumer().read_committed().assign([place]).await?;
/// let batch = consumer.next_batch().await?.expect("nobody stops it");
/// assert_eq!(batch.records[0].value().as_deref(), Some(&b"two lamps"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ConsumerBuilder {
    client: Client,
    settings: ConsumerSettings,
}

impl std::fmt::Debug for ConsumerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConsumerBuilder").field("group", &self.settings.group).finish_non_exhaustive()
    }
}

impl ConsumerBuilder {
    pub(crate) fn new(client: Client) -> Self {
        let settings = ConsumerSettings {
            group: None,
            instance_id: None,
            isolation: Isolation::default(),
            assignors: vec![Arc::new(RangeAssignor)],
            rack: None,
            group_protocol: GroupProtocol::default(),
            remote_assignor: None,
            session_timeout: Duration::from_secs(45),
            heartbeat_interval: Duration::from_secs(3),
            max_poll_interval: Duration::from_secs(300),
            offset_reset: OffsetReset::default(),
            fetch_bytes_max: 50 * 1024 * 1024,
            partition_bytes_max: 1024 * 1024,
            prefetch_bytes_max: 16 * 1024 * 1024,
            fetch_wait_max: Duration::from_millis(500),
            batch_records_max: 500,
            call_timeout: Duration::from_secs(60),
            auto_commit: None,
        };
        Self { client, settings }
    }

    /// The group whose offsets are read and committed, and whose member this is if it subscribes.
    #[must_use]
    pub fn group(mut self, group: impl Into<GroupId>) -> Self {
        self.settings.group = Some(group.into());
        self
    }

    /// Makes this a static member (KIP-345): a restart under the same name within the session rejoins at once.
    #[must_use]
    pub fn instance_id(mut self, instance_id: impl Into<GroupInstanceId>) -> Self {
        self.settings.instance_id = Some(instance_id.into());
        self
    }

    /// Which records of transactions are read; all unless set.
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.settings.isolation = isolation;
        self
    }

    /// Reads only what is committed.
    #[must_use]
    pub fn read_committed(self) -> Self {
        self.isolation(Isolation::ReadCommitted)
    }

    /// Who divides the partitions if this member leads the group; [`RangeAssignor`] unless set.
    #[must_use]
    pub fn assignor(self, assignor: Arc<dyn Assignor>) -> Self {
        self.assignors([assignor])
    }

    /// Several assignors, the best first: the group takes one that all its members have, so that a group can move from
    /// one to another member by member. [`RangeAssignor`] unless set, or if there is none.
    #[must_use]
    pub fn assignors(mut self, assignors: impl IntoIterator<Item = Arc<dyn Assignor>>) -> Self {
        self.settings.assignors = assignors.into_iter().collect();
        if self.settings.assignors.is_empty() {
            self.settings.assignors.push(Arc::new(RangeAssignor));
        }
        self
    }

    /// Which protocol the group speaks; [`GroupProtocol::Classic`] unless set. With [`GroupProtocol::Consumer`] the broker
    /// divides and sets the pace: assignors, the session time-out and the heartbeat interval set here are not used.
    #[must_use]
    pub fn group_protocol(mut self, protocol: GroupProtocol) -> Self {
        self.settings.group_protocol = protocol;
        self
    }

    /// How the coordinator divides (`group.remote.assignor`), `uniform` or `range` on Apache Kafka; as the group's other
    /// members wish, or as the broker does by default, unless set. Only for [`GroupProtocol::Consumer`].
    #[must_use]
    pub fn remote_assignor(mut self, name: impl Into<String>) -> Self {
        self.settings.remote_assignor = Some(name.into());
        self
    }

    /// The rack this consumer runs in (`client.rack`): brokers may then send it to a replica nearby, and assignors may
    /// give it partitions that are nearby.
    #[must_use]
    pub fn rack(mut self, rack: impl Into<String>) -> Self {
        self.settings.rack = Some(rack.into());
        self
    }

    /// After how long without a heartbeat the group gives this member up; 45 s unless set. The broker has bounds.
    #[must_use]
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.settings.session_timeout = timeout;
        self
    }

    /// How often a heartbeat is sent; 3 s unless set. Keep it below a third of the session time-out.
    #[must_use]
    pub fn heartbeat_interval(mut self, interval: Duration) -> Self {
        self.settings.heartbeat_interval = interval;
        self
    }

    /// How long the user may take between two calls before this member leaves the group, and how long a rebalance waits
    /// for it; 5 minutes unless set.
    #[must_use]
    pub fn max_poll_interval(mut self, interval: Duration) -> Self {
        self.settings.max_poll_interval = interval;
        self
    }

    /// Where to begin without a committed offset; at the end unless set.
    #[must_use]
    pub fn auto_offset_reset(mut self, reset: OffsetReset) -> Self {
        self.settings.offset_reset = reset;
        self
    }

    /// The most bytes of one answer; 50 MiB unless set. A single larger batch comes nonetheless.
    #[must_use]
    pub fn fetch_bytes_max(mut self, bytes: i32) -> Self {
        self.settings.fetch_bytes_max = bytes;
        self
    }

    /// The most bytes of one partition in one answer; 1 MiB unless set. A single larger batch comes nonetheless.
    #[must_use]
    pub fn partition_bytes_max(mut self, bytes: i32) -> Self {
        self.settings.partition_bytes_max = bytes;
        self
    }

    /// How many bytes are fetched ahead of the user; 16 MiB unless set.
    #[must_use]
    pub fn prefetch_bytes_max(mut self, bytes: usize) -> Self {
        self.settings.prefetch_bytes_max = bytes;
        self
    }

    /// How long a broker may hold a fetch that has nothing to answer; 500 ms unless set.
    #[must_use]
    pub fn fetch_wait_max(mut self, wait: Duration) -> Self {
        self.settings.fetch_wait_max = wait;
        self
    }

    /// The most records of one batch; 500 unless set.
    #[must_use]
    pub fn batch_records_max(mut self, records: usize) -> Self {
        self.settings.batch_records_max = records;
        self
    }

    /// How long calls that ask the cluster wait for the answer; 1 minute unless set.
    #[must_use]
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.settings.call_timeout = timeout;
        self
    }

    /// Commits by itself what was handed out before, every so often as the user calls, before partitions are given away,
    /// and at the end; never unless set. A batch counts as processed with the call after the one that brought it.
    ///
    /// Such a consumer's positions cannot go into transactions: `send_offsets` refuses them.
    #[must_use]
    pub fn auto_commit(mut self, interval: Duration) -> Self {
        self.settings.auto_commit = Some(interval);
        self
    }

    /// Becomes a member of the group for these topics. Joining begins with the first call of `next_batch` or `next_event`.
    ///
    /// Errors: without a group.
    pub async fn subscribe<T: Into<TopicName>>(
        self,
        topics: impl IntoIterator<Item = T>,
    ) -> Result<Consumer, ConsumerError> {
        if self.settings.group.is_none() {
            return Err(ConsumerError::NoGroup);
        }
        let topics: BTreeSet<TopicName> = topics.into_iter().map(Into::into).collect();
        let interest = Interest::Topics(topics.into_iter().collect());
        let host = ConsumerHost::start(self.client.cluster(), self.settings, Some(interest));
        Ok(Consumer::new(host))
    }

    /// Becomes a member of the group for all topics, of now and later, whose names match a regular expression of RE2 as a
    /// whole. The coordinator matches, so this needs [`GroupProtocol::Consumer`].
    ///
    /// Errors: without a group; in a classic group. A pattern that the coordinator cannot read is refused by it, at the
    /// first call of `next_batch` or `next_event`.
    pub async fn subscribe_pattern(self, pattern: impl Into<String>) -> Result<Consumer, ConsumerError> {
        if self.settings.group.is_none() {
            return Err(ConsumerError::NoGroup);
        }
        match self.settings.group_protocol {
            GroupProtocol::Classic => {
                Err(ConsumerError::WrongKind { call: "subscribe_pattern", how: "is a member of a classic group" })
            }
            GroupProtocol::Consumer => {
                let interest = Interest::Pattern(pattern.into());
                let host = ConsumerHost::start(self.client.cluster(), self.settings, Some(interest));
                Ok(Consumer::new(host))
            }
        }
    }

    /// Reads these partitions, from these places, whatever a group does. With a group, its offsets are read and committed.
    ///
    /// Errors: [`Position::Committed`] without a group.
    pub async fn assign(
        self,
        partitions: impl IntoIterator<Item = (TopicPartition, Position)>,
    ) -> Result<Consumer, ConsumerError> {
        let host = ConsumerHost::start(self.client.cluster(), self.settings, None);
        let mut consumer = Consumer::new(host);
        consumer.assign_more(partitions)?;
        Ok(consumer)
    }
}

/// Reads records. Batches are fetched ahead, within a bound; heartbeats are sent while the user works.
///
/// ```no_run
/// # async fn example() -> Result<(), atonce_client::Error> {
/// use atonce_client::{Client, OffsetReset};
///
/// let client = Client::builder("localhost:9092").connect().await?;
/// let builder = client.consumer().group("payments").read_committed().auto_offset_reset(OffsetReset::Earliest);
/// let mut consumer = builder.subscribe(["orders"]).await?;
/// while let Some(batch) = consumer.next_batch().await? {
///     for record in &batch {
///         println!("{} {}: {:?}", record.topic_partition, record.offset, record.value);
///     }
///     consumer.commit(batch.positions()).await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Consumer {
    host: Arc<ConsumerHost>,
    /// When positions are to be committed next without being asked.
    next_auto_commit: Instant,
    auto_committed: BTreeMap<TopicPartition, Offset>,
}

impl Consumer {
    fn new(host: Arc<ConsumerHost>) -> Self {
        let next_auto_commit = Instant::now() + host.settings.auto_commit.unwrap_or_default();
        Self { host, next_auto_commit, auto_committed: BTreeMap::new() }
    }

    /// Commits what was handed out, if the consumer is to do so by itself and it is time, or `is_due` anyway.
    async fn auto_commit(&mut self, is_due: bool) {
        let Some(interval) = self.host.settings.auto_commit else { return };
        let now = Instant::now();
        if self.host.settings.group.is_none() || (now < self.next_auto_commit && !is_due) {
            return;
        }
        self.next_auto_commit = now + interval;
        let mut positions = self.positions();
        positions.offsets.retain(|it, position| self.auto_committed.get(it) != Some(&position.offset));
        let offsets: Vec<(TopicPartition, Offset)> =
            positions.iter().map(|(it, position)| (it.clone(), position.offset)).collect();
        match self.host.commit(positions).await {
            Ok(()) => self.auto_committed.extend(offsets),
            // What was not committed is read again by whoever gets the partition; events say what becomes of it.
            Err(error) => tracing::warn!(%error, "positions were not committed"),
        }
    }

    /// The next records, waiting for them. Rebalances are handled inside: positions that were not committed when a
    /// partition is given away are read again by whoever gets it. `None` once [`ConsumerStop::stop`] was called.
    ///
    /// Cancelling is safe: a batch that was not returned is returned by the next call.
    pub async fn next_batch(&mut self) -> Result<Option<Batch>, ConsumerError> {
        loop {
            match self.next(None).await? {
                Some(ConsumerEvent::Batch(batch)) => return Ok(Some(batch)),
                Some(ConsumerEvent::Revoking(_) | ConsumerEvent::Assigned(..) | ConsumerEvent::Lost(_)) => {}
                None => return Ok(None),
            }
        }
    }

    /// What happens next; `None` if nothing does within `wait_max`, or once [`ConsumerStop::stop`] was called.
    ///
    /// A call is this member's sign of life to its own client: after `max_poll_interval` without one it leaves the group.
    ///
    /// Cancelling is safe.
    pub async fn next_event(&mut self, wait_max: Duration) -> Result<Option<ConsumerEvent>, ConsumerError> {
        let now = Instant::now();
        self.next(Some(now.checked_add(wait_max).unwrap_or(now + Duration::from_secs(60 * 60 * 24 * 365)))).await
    }

    async fn next(&mut self, deadline: Option<Instant>) -> Result<Option<ConsumerEvent>, ConsumerError> {
        self.auto_commit(false).await;
        let next = self.next_unless_committed(deadline).await;
        if let Ok(Some(ConsumerEvent::Revoking(_))) = next {
            self.auto_commit(true).await;
        }
        if let Ok(Some(ConsumerEvent::Revoking(gone) | ConsumerEvent::Lost(gone))) = &next {
            self.auto_committed.retain(|it, _| !gone.contains(it));
        }
        next
    }

    async fn next_unless_committed(
        &mut self,
        deadline: Option<Instant>,
    ) -> Result<Option<ConsumerEvent>, ConsumerError> {
        let host = &self.host;
        {
            let inner = &mut *host.lock();
            if let Some(membership) = &mut inner.membership {
                membership.handle_user_called();
                inner.fetcher.retain(|it| membership.holds(it));
            }
        }
        host.wake();
        let away = Away { host };
        let records_max = host.settings.batch_records_max;
        let next = host.wait_until(deadline, |inner| {
            if inner.is_stopped {
                return Some(Ok(None));
            }
            match inner.next_group_event(&host.cluster.metrics) {
                Some(Event::Revoking(partitions)) => return Some(Ok(Some(ConsumerEvent::Revoking(partitions)))),
                Some(Event::Assigned(partitions, userdata)) => {
                    return Some(Ok(Some(ConsumerEvent::Assigned(partitions, userdata))));
                }
                Some(Event::Lost(partitions)) => return Some(Ok(Some(ConsumerEvent::Lost(partitions)))),
                None => {}
            }
            if let Some(error) = ConsumerHost::next_error(inner) {
                return Some(Err(error));
            }
            let taken = inner.fetcher.take(records_max)?;
            host.cluster.metrics.handle_records_consumed(taken.records.len());
            let group = group_metadata(inner, &host.settings);
            let positions = Positions::of(group, taken.positions, renewal(host, inner));
            Some(Ok(Some(ConsumerEvent::Batch(Batch::new(taken.records, positions)))))
        });
        let next = next.await;
        drop(away);
        // What was taken makes room for more.
        host.wake();
        match next {
            Some(next) => next,
            None if host.is_closed() => Err(ConsumerError::Closed),
            None => Ok(None),
        }
    }

    /// A handle that ends `next_batch` and `next_event` from elsewhere.
    #[must_use]
    pub fn stopper(&self) -> ConsumerStop {
        ConsumerStop { host: Arc::clone(&self.host) }
    }

    /// Who this is in its group, now; `None` without a group.
    #[must_use]
    pub fn group_metadata(&self) -> Option<GroupMetadata> {
        group_metadata(&self.host.lock(), &self.host.settings)
    }

    /// The partitions that are read, sorted.
    #[must_use]
    pub fn assignment(&self) -> Vec<TopicPartition> {
        self.host.lock().fetcher.assignment().cloned().collect()
    }

    /// The next offset that the user has not been handed; `None` if it is not known yet, or the partition is not this
    /// consumer's.
    #[must_use]
    pub fn position(&self, topic_partition: &TopicPartition) -> Option<Offset> {
        self.host.lock().fetcher.position(topic_partition).map(|position| position.offset)
    }

    /// The positions of all partitions that are read, as far as they are known, with the group's metadata.
    #[must_use]
    pub fn positions(&self) -> Positions {
        let inner = self.host.lock();
        let renewal = renewal(&self.host, &inner);
        Positions::of(group_metadata(&inner, &self.host.settings), inner.fetcher.positions(), renewal)
    }

    /// How many offsets lie between a partition's position and its end at this consumer's isolation, as the last fetch saw
    /// it; `None` before one has. Control records and aborted records count too, and go with the next batch.
    #[must_use]
    pub fn lag(&self, topic_partition: &TopicPartition) -> Option<i64> {
        let inner = self.host.lock();
        let end = inner.fetcher.end(topic_partition)?;
        let position = inner.fetcher.position(topic_partition)?;
        Some(end.saturating_sub(position.offset).max(0))
    }

    /// A handle that commits positions while the consumer is elsewhere, for instance in a [`BatchStream`].
    #[must_use]
    pub fn committer(&self) -> Committer {
        Committer { host: Arc::clone(&self.host) }
    }

    /// The batches as a stream, which ends once [`ConsumerStop::stop`] was called. Rebalances are handled inside, as in
    /// [`next_batch`](Self::next_batch).
    #[must_use]
    pub fn into_stream(self) -> BatchStream {
        BatchStream { next: Some(next_of(self)) }
    }

    /// The end of a partition at this consumer's isolation, as the last fetch saw it.
    #[must_use]
    pub fn last_seen_end(&self, topic_partition: &TopicPartition) -> Option<Offset> {
        self.host.lock().fetcher.end(topic_partition)
    }

    /// Goes to another place; what was fetched ahead is dropped.
    pub fn seek(&mut self, topic_partition: &TopicPartition, position: Position) -> Result<(), ConsumerError> {
        self.check(position)?;
        let is_assigned = self.host.lock().fetcher.seek(topic_partition, position);
        self.host.wake();
        if is_assigned { Ok(()) } else { Err(ConsumerError::NotAssigned { topic_partition: topic_partition.clone() }) }
    }

    /// Hands out nothing of these partitions until [`resume`](Self::resume). What was fetched ahead is kept.
    pub fn pause(&mut self, partitions: &[TopicPartition]) {
        let mut inner = self.host.lock();
        for topic_partition in partitions {
            inner.fetcher.pause(topic_partition, true);
        }
    }

    /// Goes on with these partitions.
    pub fn resume(&mut self, partitions: &[TopicPartition]) {
        {
            let mut inner = self.host.lock();
            for topic_partition in partitions {
                inner.fetcher.pause(topic_partition, false);
            }
        }
        self.host.wake();
    }

    /// Reads more partitions. Only for a consumer by assignment.
    pub fn assign_more(
        &mut self,
        partitions: impl IntoIterator<Item = (TopicPartition, Position)>,
    ) -> Result<(), ConsumerError> {
        self.check_assigned("assign_more")?;
        for (topic_partition, position) in partitions {
            self.check(position)?;
            self.host.lock().fetcher.assign(topic_partition, position);
        }
        self.host.wake();
        Ok(())
    }

    /// Reads these partitions no longer. Only for a consumer by assignment.
    pub fn unassign(&mut self, partitions: &[TopicPartition]) -> Result<(), ConsumerError> {
        self.check_assigned("unassign")?;
        let mut inner = self.host.lock();
        for topic_partition in partitions {
            inner.fetcher.unassign(topic_partition);
        }
        Ok(())
    }

    fn check(&self, position: Position) -> Result<(), ConsumerError> {
        match position {
            Position::Committed if self.host.settings.group.is_none() => Err(ConsumerError::NoGroup),
            Position::Committed
            | Position::Earliest
            | Position::Latest
            | Position::Offset(_)
            | Position::Timestamp(_)
            | Position::Ago(_) => Ok(()),
        }
    }

    fn check_assigned(&self, call: &'static str) -> Result<(), ConsumerError> {
        match self.host.lock().membership {
            Some(_) => Err(ConsumerError::WrongKind { call, how: "is a member of a group" }),
            None => Ok(()),
        }
    }

    /// Whether it commits by itself.
    pub(crate) fn has_auto_commit(&self) -> bool {
        self.host.settings.auto_commit.is_some()
    }

    /// Goes back to what the group has committed in every partition, or to where reading began if it has nothing: call
    /// it after a transaction was aborted. Waits until the places are known.
    #[tracing::instrument(level = "debug", skip_all)]
    pub async fn rewind(&mut self) -> Result<(), ConsumerError> {
        self.check(Position::Committed)?;
        let host = &self.host;
        {
            let mut inner = host.lock();
            let partitions: Vec<TopicPartition> = inner.fetcher.assignment().cloned().collect();
            for topic_partition in &partitions {
                inner.fetcher.seek(topic_partition, Position::Committed);
            }
        }
        host.wake();
        let settled = host.wait_until(Some(host.deadline()), |inner| {
            if let Some(error) = ConsumerHost::next_error(inner) {
                return Some(Err(error));
            }
            inner.fetcher.is_settled().then_some(Ok(()))
        });
        settled.await.unwrap_or_else(|| {
            let cause = "the committed offsets are not known".to_owned();
            Err(ConsumerError::TimedOut { operation: "OffsetFetch", waited: host.settings.call_timeout, cause })
        })
    }

    /// Commits positions by themselves, outside any transaction. Waits for the answer.
    ///
    /// Errors: [`ConsumerError::CommitFailed`] if the group has moved on: `next_event` says what becomes of the partitions.
    ///
    /// Retry: safe.
    pub async fn commit(&mut self, positions: Positions) -> Result<(), ConsumerError> {
        self.host.commit(positions).await
    }

    /// The ends of partitions at this consumer's isolation, asked for now.
    pub async fn end_offsets(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<BTreeMap<TopicPartition, Offset>, ConsumerError> {
        let settings = &self.host.settings;
        let specs: Vec<_> = partitions.iter().map(|it| (it.clone(), OffsetSpec::Latest)).collect();
        let listed = list_offsets(&self.host.cluster, &specs, settings.isolation, settings.call_timeout).await;
        let listed = listed.map_err(ConsumerError::from_lookup)?;
        Ok(listed.into_iter().filter_map(|(topic_partition, listed)| Some((topic_partition, listed.offset?))).collect())
    }

    /// Joins the group again, by way of `Revoking`, for instance because what the assignor would say has changed. Nothing
    /// happens in a group of [`GroupProtocol::Consumer`], whose coordinator sees by itself what it needs to see.
    pub fn enforce_rebalance(&mut self) {
        if let Some(membership) = &mut self.host.lock().membership {
            membership.enforce_rebalance();
        }
        self.host.wake();
    }

    /// Wants other topics from now on: the member of a classic group joins again, by way of `Revoking`, and its group divides anew.
    ///
    /// Errors: it is no member of a classic group, or was subscribed with a pattern.
    pub fn resubscribe<T: Into<TopicName>>(
        &mut self,
        topics: impl IntoIterator<Item = T>,
    ) -> Result<(), ConsumerError> {
        let is_classic = matches!(&self.host.lock().membership, Some(Member::Classic(_)));
        if !is_classic {
            return Err(ConsumerError::WrongKind { call: "resubscribe", how: "is no member of a classic group" });
        }
        let topics: BTreeSet<TopicName> = topics.into_iter().map(Into::into).collect();
        self.host.set_topics(topics.into_iter().collect());
        self.enforce_rebalance();
        Ok(())
    }

    /// Ends. A dynamic member leaves the group; a static one stays in it until its session ends, so that it can come back.
    pub async fn close(self) -> Result<(), ConsumerError> {
        let is_static = self.host.settings.instance_id.is_some();
        self.end(!is_static).await
    }

    /// Ends, and leaves the group, a static member too.
    pub async fn close_and_leave(self) -> Result<(), ConsumerError> {
        self.end(true).await
    }

    async fn end(mut self, leave: bool) -> Result<(), ConsumerError> {
        self.auto_commit(true).await;
        let host = &self.host;
        {
            let mut inner = host.lock();
            inner.fetcher.unassign_all();
            if let Some(membership) = &mut inner.membership {
                membership.close(leave);
            }
        }
        host.wake();
        let left = host.wait_until(Some(host.deadline()), |inner| {
            inner.membership.as_ref().is_none_or(Member::is_closed).then_some(())
        });
        let (left, ()) = tokio::join!(left, host.end_sessions());
        left.ok_or_else(|| {
            let cause = "the group's coordinator does not answer; it will notice by itself".to_owned();
            ConsumerError::TimedOut { operation: "LeaveGroup", waited: host.settings.call_timeout, cause }
        })
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.host.shut_down();
    }
}

fn renewal(host: &Arc<ConsumerHost>, inner: &Inner) -> Renewal {
    Renewal { host: Arc::downgrade(host), stamp: inner.stamp() }
}

impl ConsumerSettings {
    /// What all of the assignors can do.
    pub(crate) fn rebalance_protocol(&self) -> RebalanceProtocol {
        let is_cooperative = |assignor: &Arc<dyn Assignor>| match assignor.rebalance_protocol() {
            RebalanceProtocol::Eager => false,
            RebalanceProtocol::Cooperative => true,
        };
        if self.assignors.iter().all(is_cooperative) {
            RebalanceProtocol::Cooperative
        } else {
            RebalanceProtocol::Eager
        }
    }

    /// The assignor that the group chose; the first, if its coordinator does not say.
    pub(crate) fn assignor(&self, name: Option<&str>) -> Option<&Arc<dyn Assignor>> {
        let named = self.assignors.iter().find(|assignor| Some(assignor.name()) == name);
        named.or_else(|| self.assignors.first())
    }
}

fn group_metadata(inner: &Inner, settings: &ConsumerSettings) -> Option<GroupMetadata> {
    match &inner.membership {
        Some(membership) => Some(membership.group_metadata()),
        None => settings.group.clone().map(GroupMetadata::without_member),
    }
}

/// Tells the membership when the user goes away to work, also by dropping the call's future.
struct Away<'host> {
    host: &'host ConsumerHost,
}

impl Drop for Away<'_> {
    fn drop(&mut self) {
        let now = self.host.cluster.clock.now();
        if let Some(membership) = &mut self.host.lock().membership {
            membership.handle_user_left(now);
        }
    }
}

/// Commits positions from elsewhere than where the consumer is.
#[derive(Clone, Debug)]
pub struct Committer {
    host: Arc<ConsumerHost>,
}

impl Committer {
    /// As [`Consumer::commit`].
    pub async fn commit(&self, positions: Positions) -> Result<(), ConsumerError> {
        self.host.commit(positions).await
    }
}

type NextBatch = Pin<Box<dyn Future<Output = (Consumer, Result<Option<Batch>, ConsumerError>)> + Send>>;

fn next_of(mut consumer: Consumer) -> NextBatch {
    Box::pin(async move {
        let next = consumer.next_batch().await;
        (consumer, next)
    })
}

/// A consumer's batches as a [`Stream`]. An error does not end it.
///
/// ```no_run
/// # async fn example() -> Result<(), atonce_client::Error> {
/// # async fn next(stream: &mut atonce_client::BatchStream) -> Option<Result<atonce_client::Batch, atonce_client::ConsumerError>> {
/// #     std::future::poll_fn(|context| futures_core::Stream::poll_next(std::pin::Pin::new(&mut *stream), context)).await
/// # }
/// let client = atonce_client::Client::builder("localhost:9092").connect().await?;
/// let consumer = client.consumer().group("payments").subscribe(["orders"]).await?;
/// let committer = consumer.committer();
/// let mut stream = consumer.into_stream();
/// // `next` is that of `futures::StreamExt`.
/// while let Some(batch) = next(&mut stream).await {
///     committer.commit(batch?.positions()).await?;
/// }
/// # Ok(())
/// # }
/// ```
pub struct BatchStream {
    next: Option<NextBatch>,
}

impl std::fmt::Debug for BatchStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchStream").finish_non_exhaustive()
    }
}

impl Stream for BatchStream {
    type Item = Result<Batch, ConsumerError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(next) = &mut self.next else { return Poll::Ready(None) };
        let Poll::Ready((consumer, batch)) = next.as_mut().poll(context) else { return Poll::Pending };
        match batch {
            Ok(Some(batch)) => {
                self.next = Some(next_of(consumer));
                Poll::Ready(Some(Ok(batch)))
            }
            Ok(None) | Err(ConsumerError::Closed) => {
                self.next = None;
                Poll::Ready(None)
            }
            Err(error) => {
                self.next = Some(next_of(consumer));
                Poll::Ready(Some(Err(error)))
            }
        }
    }
}

/// Stops a consumer from elsewhere, for instance at a signal.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let broker = atonce_broker::Broker::temporary().await?;
/// # let client = atonce_client::Client::builder(broker.bootstrap_servers()).connect().await?;
/// # client.admin().create_topics(&[atonce_client::NewTopic::new("orders", 1)]).await?;
/// let mut consumer = client.consumer().group("billing").subscribe(["orders"]).await?;
/// let stopper = consumer.stopper();
/// tokio::spawn(async move { stopper.stop() });
/// while let Some(batch) = consumer.next_batch().await? {
///     consumer.commit(batch.positions()).await?;
/// }
/// consumer.close().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ConsumerStop {
    host: Arc<ConsumerHost>,
}

impl ConsumerStop {
    /// Ends `next_batch` and `next_event`, now and from now on, with `None`.
    pub fn stop(&self) {
        self.host.stop();
    }
}
