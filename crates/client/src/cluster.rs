//! The cluster as one thing to ask: connections by node, metadata, coordinators.
//!
//! **What it does not know**: producers and consumers. Each of them has a [`Lane`], and so connections of its own: a
//! fetch that a broker holds must not hold back a record.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atonce_client_core::backoff::Backoff;
use atonce_client_core::metadata::{Broker, Leader, Metadata};
use atonce_client_core::transaction::Protocol;
use atonce_kernel::{Monotonic, TopicId, TopicName, TopicPartition};
use atonce_protocol::messages::find_coordinator_request::FindCoordinatorRequest;
use atonce_protocol::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use atonce_protocol::{ApiKey, ErrorCode, Request};
use tokio::time::Instant;
use tracing::debug;

use crate::connector::{BrokerAddress, Connector};
use crate::link::{Link, Lost};
use crate::metrics::Metrics;

/// Time for the machines: since the client was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now() }
    }

    pub(crate) fn now(self) -> Monotonic {
        Monotonic::at(self.start.elapsed())
    }

    /// Sleeps until then; for ever without a time.
    pub(crate) async fn sleep_until(self, time: Option<Monotonic>) {
        match time {
            Some(time) => tokio::time::sleep_until(self.start + time.since_start()).await,
            None => std::future::pending().await,
        }
    }
}

/// Whose connections: those of the client itself, of a producer, of a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Lane(u64);

impl Lane {
    /// The client's own.
    pub(crate) const SHARED: Self = Self(0);
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Peer {
    Node(i32),
    Bootstrap(BrokerAddress),
}

/// What a coordinator coordinates.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CoordinatorOf {
    Group(String),
    Transaction(String),
}

impl CoordinatorOf {
    pub(crate) fn parts(&self) -> (i8, &str) {
        match self {
            Self::Group(key) => (0, key),
            Self::Transaction(key) => (1, key),
        }
    }
}

/// What every connection of this client is made with.
pub(crate) struct Settings {
    pub(crate) bootstrap: Vec<BrokerAddress>,
    pub(crate) client_id: String,
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) request_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) retry_backoff: Backoff,
    pub(crate) idle_max: Duration,
}

/// How long a node that could not be reached is left alone: doubled with each failure, up to a second.
const RECONNECT_BACKOFF: Duration = Duration::from_millis(50);
const RECONNECT_BACKOFF_MAX: Duration = Duration::from_secs(1);

/// How long known metadata is believed without asking again.
const METADATA_AGE_MAX: Duration = Duration::from_secs(300);

#[derive(Default)]
struct State {
    metadata: Metadata,
    refreshed: BTreeMap<TopicName, Monotonic>,
    slots: BTreeMap<(Peer, Lane), Arc<Slot>>,
    lanes: BTreeSet<Lane>,
    coordinators: BTreeMap<CoordinatorOf, i32>,
    features: BTreeMap<String, i16>,
    features_epoch: i64,
    has_produce_v12: bool,
    next_node: usize,
}

#[derive(Default)]
struct Slot {
    link: tokio::sync::Mutex<Opening>,
}

#[derive(Default)]
struct Opening {
    link: Option<Arc<Link>>,
    failures: u32,
    not_before: Monotonic,
}

/// See the module.
pub(crate) struct Cluster {
    settings: Settings,
    pub(crate) clock: Clock,
    next_lane: AtomicU64,
    state: Mutex<State>,
    refreshing: tokio::sync::Mutex<()>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Cluster {
    /// A cluster, not yet reached.
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            clock: Clock::new(),
            next_lane: AtomicU64::new(1),
            state: Mutex::default(),
            refreshing: tokio::sync::Mutex::default(),
            metrics: Arc::new(Metrics::new()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while the lock was held left no half-made change behind: each change is one call.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connections of one's own.
    pub(crate) fn new_lane(&self) -> Lane {
        let lane = Lane(self.next_lane.fetch_add(1, Ordering::Relaxed));
        self.state().lanes.insert(lane);
        lane
    }

    /// Closes a lane's connections, and opens no more: whoever waits on one is told that it was lost.
    pub(crate) fn close_lane(&self, lane: Lane) {
        let mut state = self.state();
        state.lanes.remove(&lane);
        state.slots.retain(|(_, of), _| *of != lane);
    }

    /// Changes the metadata, by what a broker said in passing.
    pub(crate) fn change_metadata(&self, change: impl FnOnce(&mut Metadata)) {
        change(&mut self.state().metadata);
    }

    /// How long to wait before something is tried again.
    pub(crate) fn retry_backoff(&self) -> Backoff {
        self.settings.retry_backoff
    }

    /// How long a broker may take to answer.
    pub(crate) fn request_timeout(&self) -> Duration {
        self.settings.request_timeout
    }

    /// Looks at the metadata.
    pub(crate) fn with_metadata<T>(&self, look: impl FnOnce(&Metadata) -> T) -> T {
        look(&self.state().metadata)
    }

    /// Which transaction protocol the cluster has: the new one needs the feature, and brokers that know its requests.
    pub(crate) fn transaction_protocol(&self) -> Protocol {
        let state = self.state();
        let level = state.features.get("transaction.version").copied().unwrap_or(0);
        if level >= 2 && state.has_produce_v12 { Protocol::V2 } else { Protocol::V1 }
    }

    // --- connections ---

    /// The connection of a lane to a node, opened if need be.
    pub(crate) async fn link(&self, node: i32, lane: Lane) -> Result<Arc<Link>, Lost> {
        let address = self.with_metadata(|metadata| metadata.brokers().get(&node).and_then(address_of));
        let Some(address) = address else { return Err(Lost::unsent(format!("node {node} is not in the metadata"))) };
        self.link_to(Peer::Node(node), address, lane).await
    }

    async fn link_to(&self, peer: Peer, address: BrokerAddress, lane: Lane) -> Result<Arc<Link>, Lost> {
        let slot = {
            let mut state = self.state();
            if lane != Lane::SHARED && !state.lanes.contains(&lane) {
                return Err(Lost::unsent("whoever wanted the connection has ended"));
            }
            Arc::clone(state.slots.entry((peer, lane)).or_default())
        };
        let mut opening = slot.link.lock().await;
        if let Some(link) = &opening.link
            && !link.is_dead()
        {
            return Ok(Arc::clone(link));
        }
        opening.link = None;
        self.clock.sleep_until(Some(opening.not_before)).await;
        match Link::open(&self.settings, &address, self.clock, &self.metrics).await {
            Ok(link) => {
                self.learn_features(&link);
                *opening = Opening { link: Some(Arc::clone(&link)), ..Opening::default() };
                Ok(link)
            }
            Err(lost) => {
                debug!(%address, cause = %lost, "no connection");
                opening.failures += 1;
                let backoff = Backoff::new(RECONNECT_BACKOFF, RECONNECT_BACKOFF_MAX);
                let salt = u64::from(self.clock.now().since_start().subsec_nanos());
                opening.not_before = self.clock.now() + backoff.after(opening.failures, salt);
                Err(lost)
            }
        }
    }

    fn learn_features(&self, link: &Link) {
        let versions = link.versions();
        let mut state = self.state();
        if versions.features_epoch() >= state.features_epoch {
            state.features_epoch = versions.features_epoch();
            state.features = versions.features().clone();
        }
        state.has_produce_v12 = versions.choose(ApiKey::Produce, 12..=i16::MAX).is_some()
            && versions.choose(ApiKey::EndTxn, 5..=i16::MAX).is_some()
            && versions.choose(ApiKey::TxnOffsetCommit, 5..=i16::MAX).is_some();
    }

    /// A connection of the client itself to whichever broker can be reached.
    pub(crate) async fn any_link(&self) -> Result<Arc<Link>, Lost> {
        let nodes: Vec<i32> = {
            let mut state = self.state();
            state.next_node = state.next_node.wrapping_add(1);
            let mut nodes: Vec<i32> = state.metadata.brokers().keys().copied().collect();
            if !nodes.is_empty() {
                let by = state.next_node % nodes.len();
                nodes.rotate_left(by);
            }
            nodes
        };
        let mut last = Lost::unsent("no broker is known");
        for node in nodes {
            match self.link(node, Lane::SHARED).await {
                Ok(link) => return Ok(link),
                Err(lost) => last = lost,
            }
        }
        for address in &self.settings.bootstrap {
            match self.link_to(Peer::Bootstrap(address.clone()), address.clone(), Lane::SHARED).await {
                Ok(link) => return Ok(link),
                Err(lost) => last = lost,
            }
        }
        Err(last)
    }

    // --- requests ---

    /// Asks a node, and waits for the answer.
    pub(crate) async fn ask<R: Request>(
        &self,
        node: i32,
        lane: Lane,
        versions: RangeInclusive<i16>,
        make: impl FnOnce(i16) -> R,
    ) -> Result<(R::Response, i16), Lost> {
        self.ask_for(node, lane, versions, self.settings.request_timeout, make).await
    }

    /// Asks a node, and waits for the answer for so long.
    pub(crate) async fn ask_for<R: Request>(
        &self,
        node: i32,
        lane: Lane,
        versions: RangeInclusive<i16>,
        timeout: Duration,
        make: impl FnOnce(i16) -> R,
    ) -> Result<(R::Response, i16), Lost> {
        // The link is not held while waiting: closing the lane ends it, and the wait.
        let reply = self.link(node, lane).await?.ask(versions, timeout, make)?;
        reply.wait().await
    }

    /// Asks any broker, and waits for the answer.
    pub(crate) async fn ask_any<R: Request>(
        &self,
        versions: RangeInclusive<i16>,
        make: impl FnOnce(i16) -> R,
    ) -> Result<(R::Response, i16), Lost> {
        let reply = self.any_link().await?.ask(versions, self.settings.request_timeout, make)?;
        reply.wait().await
    }

    /// Looks topics up; all of them without names.
    pub(crate) async fn refresh(&self, topics: Option<&[TopicName]>) -> Result<(), Lost> {
        let _one_at_a_time = self.refreshing.lock().await;
        let named = |name: &TopicName| MetadataRequestTopic {
            name: Some(name.as_str().to_owned()),
            ..MetadataRequestTopic::default()
        };
        let request = MetadataRequest {
            topics: topics.map(|topics| topics.iter().map(named).collect()),
            allow_auto_topic_creation: false,
            ..MetadataRequest::default()
        };
        let (response, _) = self.ask_any(4..=i16::MAX, |_| request).await?;
        let now = self.clock.now();
        let mut state = self.state();
        state.metadata.handle_response(&response);
        if ErrorCode::from_wire(response.error_code) == ErrorCode::RebootstrapRequired {
            // No broker is known any more, so the next attempt begins at the bootstrap servers (KIP-1102).
            return Err(Lost::unsent("the broker asks to begin at the bootstrap servers again"));
        }
        for topic in topics.unwrap_or_default() {
            state.refreshed.insert(topic.clone(), now);
        }
        Ok(())
    }

    /// Looks topics up by their ids, for instance of an assignment that names none.
    pub(crate) async fn refresh_ids(&self, topics: &[TopicId]) -> Result<(), Lost> {
        let _one_at_a_time = self.refreshing.lock().await;
        let by_id =
            |id: &TopicId| MetadataRequestTopic { topic_id: *id, name: None, ..MetadataRequestTopic::default() };
        let request = MetadataRequest {
            topics: Some(topics.iter().map(by_id).collect()),
            allow_auto_topic_creation: false,
            ..MetadataRequest::default()
        };
        // Version 12 looks up by id.
        let (response, _) = self.ask_any(12..=i16::MAX, |_| request).await?;
        self.state().metadata.handle_response(&response);
        Ok(())
    }

    /// Makes sure that topics are known, and not from long ago. Those that do not exist stay unknown.
    pub(crate) async fn ensure_topics(&self, topics: &[TopicName]) -> Result<(), Lost> {
        let now = self.clock.now();
        let is_fresh = {
            let state = self.state();
            let fresh = |topic: &TopicName| {
                state.metadata.topic(topic).is_some_and(|topic| topic.leaders.iter().all(|leader| leader.node >= 0))
                    && state.refreshed.get(topic).is_some_and(|time| now.since(*time) < METADATA_AGE_MAX)
            };
            topics.iter().all(fresh)
        };
        if is_fresh { Ok(()) } else { self.refresh(Some(topics)).await }
    }

    /// The node that coordinates; asked for if it is not known, or `refresh`.
    pub(crate) async fn coordinator(&self, of: &CoordinatorOf, refresh: bool) -> Result<i32, FindError> {
        if !refresh && let Some(node) = self.state().coordinators.get(of) {
            return Ok(*node);
        }
        let (key_type, key) = of.parts();
        let make = |version| {
            if version >= 4 {
                FindCoordinatorRequest { key_type, coordinator_keys: vec![key.to_owned()], ..Default::default() }
            } else {
                FindCoordinatorRequest { key_type, key: key.to_owned(), ..Default::default() }
            }
        };
        let (response, version) = self.ask_any(1..=6, make).await?;
        let (code, message, node, host, port) = if version >= 4 {
            let Some(found) = response.coordinators.into_iter().next() else {
                return Err(FindError::Lost(Lost::unsent("the broker names no coordinator")));
            };
            (found.error_code, found.error_message, found.node_id, found.host, found.port)
        } else {
            (response.error_code, response.error_message, response.node_id, response.host, response.port)
        };
        match ErrorCode::from_wire(code) {
            ErrorCode::None => {}
            code => return Err(FindError::Refused { code, message }),
        }
        let mut state = self.state();
        state.metadata.handle_broker(node, Broker { host, port, rack: None });
        state.coordinators.insert(of.clone(), node);
        Ok(node)
    }

    /// The node that coordinates, if it is known already.
    pub(crate) fn known_coordinator(&self, of: &CoordinatorOf) -> Option<i32> {
        self.state().coordinators.get(of).copied()
    }

    /// A broker was named as a coordinator.
    pub(crate) fn learn_coordinator(&self, of: CoordinatorOf, node: i32, broker: Broker) {
        let mut state = self.state();
        state.metadata.handle_broker(node, broker);
        state.coordinators.insert(of, node);
    }

    /// Brokers, and a leader, that a broker named in passing (KIP-951).
    pub(crate) fn learn_leader(
        &self,
        topic_partition: &TopicPartition,
        leader: Leader,
        endpoints: impl IntoIterator<Item = (i32, Broker)>,
    ) {
        if leader.node < 0 {
            return;
        }
        let metadata = &mut self.state().metadata;
        for (node, broker) in endpoints {
            metadata.handle_broker(node, broker);
        }
        metadata.handle_leader(topic_partition, leader);
    }

    /// What was believed of a coordinator is wrong.
    pub(crate) fn forget_coordinator(&self, of: &CoordinatorOf) {
        self.state().coordinators.remove(of);
    }
}

/// Why a coordinator is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FindError {
    Lost(Lost),
    Refused { code: ErrorCode, message: Option<String> },
}

impl From<Lost> for FindError {
    fn from(lost: Lost) -> Self {
        if lost.is_unsupported {
            return Self::Refused { code: ErrorCode::UnsupportedVersion, message: Some(lost.cause) };
        }
        Self::Lost(lost)
    }
}

fn address_of(broker: &Broker) -> Option<BrokerAddress> {
    Some(BrokerAddress { host: broker.host.clone(), port: u16::try_from(broker.port).ok()? })
}

/// Reads `host:port,host:port`.
pub(crate) fn addresses(text: &str) -> Option<Vec<BrokerAddress>> {
    let addresses: Option<Vec<BrokerAddress>> = text
        .split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
        .map(|entry| {
            let (host, port) = entry.rsplit_once(':')?;
            let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
            if host.is_empty() {
                return None;
            }
            Some(BrokerAddress { host: host.to_owned(), port: port.parse().ok()? })
        })
        .collect();
    addresses.filter(|addresses| !addresses.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        let found = addresses(text).map(|found| {
            let texts: Vec<String> = found.iter().map(ToString::to_string).collect();
            texts.join(" ")
        });
        assert_eq!(found.as_deref(), expected, "{text:?}");
    }

    #[test]
    fn bootstrap_servers_are_read_or_refused() {
        check("localhost:9092", Some("localhost:9092"));
        check(" a:1 , b:2,", Some("a:1 b:2"));
        check("[::1]:9092", Some("[::1]:9092"));
        check("", None);
        check("localhost", None);
        check("localhost:port", None);
        check("a:1,:2", None);
    }
}
