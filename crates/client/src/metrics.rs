//! What a client counts and measures: to be read in the program, and as Prometheus text.
//!
//! **What it does not know**: what an answer says. It counts requests as they leave and as they end.
//!
//! Counters only rise. Latencies go from the moment a request is queued on its connection to its answer, and so contain
//! what a broker holds back on purpose (a fetch without records, a JoinGroup).

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Upper bounds of the latencies' buckets, in seconds: from what one machine answers to what a broker holds.
const LATENCY_BUCKETS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    request: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

/// Requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestMetrics {
    /// How many were asked.
    pub asked: u64,
    /// How many were answered, be it by a refusal.
    pub answered: u64,
    /// How many were not answered.
    pub lost: u64,
    /// How long those that were answered took together.
    pub latency_total: Duration,
    /// How long the slowest took.
    pub latency_max: Duration,
}

impl RequestMetrics {
    /// How long one took on average; zero if none was answered.
    #[must_use]
    pub fn latency_mean(&self) -> Duration {
        u32::try_from(self.answered).ok().and_then(|count| self.latency_total.checked_div(count)).unwrap_or_default()
    }
}

/// See the module.
///
/// ```no_run
/// # async fn example() -> Result<(), atonce_client::Error> {
/// let client = atonce_client::Client::builder("localhost:9092").connect().await?;
/// let metrics = client.metrics();
/// println!("{:?}", metrics.requests()["Metadata"].latency_mean());
/// println!("{}", metrics.prometheus_text());
/// # Ok(())
/// # }
/// ```
pub struct Metrics {
    registry: Registry,
    requests: Mutex<BTreeMap<&'static str, RequestMetrics>>,
    latency: Family<RequestLabels, Histogram>,
    asked: Family<RequestLabels, Counter>,
    lost: Family<RequestLabels, Counter>,
    connections: Family<OutcomeLabels, Counter>,
    bytes_sent: Counter<u64, AtomicU64>,
    bytes_received: Counter<u64, AtomicU64>,
    records_sent: Counter<u64, AtomicU64>,
    records_failed: Counter<u64, AtomicU64>,
    records_consumed: Counter<u64, AtomicU64>,
    rebalances: Counter<u64, AtomicU64>,
    transactions: Family<OutcomeLabels, Counter>,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").field("requests", &self.requests()).finish_non_exhaustive()
    }
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("atonce_client");
        let latency = Family::<RequestLabels, Histogram>::new_with_constructor(|| Histogram::new(LATENCY_BUCKETS));
        let metrics = Self {
            requests: Mutex::default(),
            latency: latency.clone(),
            asked: Family::default(),
            lost: Family::default(),
            connections: Family::default(),
            bytes_sent: Counter::default(),
            bytes_received: Counter::default(),
            records_sent: Counter::default(),
            records_failed: Counter::default(),
            records_consumed: Counter::default(),
            rebalances: Counter::default(),
            transactions: Family::default(),
            registry: Registry::default(),
        };
        registry.register("requests", "Requests asked", metrics.asked.clone());
        registry.register("requests_lost", "Requests that were not answered", metrics.lost.clone());
        registry.register_with_unit("request_latency", "From asking to the answer", Unit::Seconds, latency);
        registry.register("connections", "Attempts to connect, by how they ended", metrics.connections.clone());
        registry.register("sent_bytes", "Bytes sent to brokers", metrics.bytes_sent.clone());
        registry.register("received_bytes", "Bytes received from brokers", metrics.bytes_received.clone());
        registry.register("records_sent", "Records acknowledged", metrics.records_sent.clone());
        registry.register("records_failed", "Records given up", metrics.records_failed.clone());
        registry.register("records_consumed", "Records handed to consumers' users", metrics.records_consumed.clone());
        registry.register("assignments", "Assignments got from groups", metrics.rebalances.clone());
        registry.register("transactions", "Transactions, by how they ended", metrics.transactions.clone());
        Self { registry, ..metrics }
    }

    /// Requests by Kafka's names of them.
    #[must_use]
    pub fn requests(&self) -> BTreeMap<&'static str, RequestMetrics> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Bytes sent to brokers.
    #[must_use]
    pub fn bytes_sent(&self) -> u64 {
        self.bytes_sent.get()
    }

    /// Bytes received from brokers.
    #[must_use]
    pub fn bytes_received(&self) -> u64 {
        self.bytes_received.get()
    }

    /// Records acknowledged.
    #[must_use]
    pub fn records_sent(&self) -> u64 {
        self.records_sent.get()
    }

    /// Records given up.
    #[must_use]
    pub fn records_failed(&self) -> u64 {
        self.records_failed.get()
    }

    /// Records handed to consumers' users.
    #[must_use]
    pub fn records_consumed(&self) -> u64 {
        self.records_consumed.get()
    }

    /// All of it in the text format of Prometheus (OpenMetrics).
    #[must_use]
    pub fn prometheus_text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }

    fn change(&self, request: &'static str, change: impl FnOnce(&mut RequestMetrics)) {
        change(self.requests.lock().unwrap_or_else(PoisonError::into_inner).entry(request).or_default());
    }

    pub(crate) fn handle_connecting(&self) {
        self.connections.get_or_create(&OutcomeLabels { outcome: "begun" }).inc();
    }

    pub(crate) fn handle_connected(&self) {
        self.connections.get_or_create(&OutcomeLabels { outcome: "open" }).inc();
    }

    pub(crate) fn handle_asked(&self, request: &'static str) {
        self.change(request, |it| it.asked += 1);
        self.asked.get_or_create(&RequestLabels { request }).inc();
    }

    pub(crate) fn handle_answered(&self, request: &'static str, latency: Duration) {
        self.change(request, |it| {
            it.answered += 1;
            it.latency_total += latency;
            it.latency_max = it.latency_max.max(latency);
        });
        self.latency.get_or_create(&RequestLabels { request }).observe(latency.as_secs_f64());
    }

    pub(crate) fn handle_lost(&self, request: &'static str) {
        self.change(request, |it| it.lost += 1);
        self.lost.get_or_create(&RequestLabels { request }).inc();
    }

    pub(crate) fn handle_bytes_sent(&self, bytes: usize) {
        self.bytes_sent.inc_by(bytes as u64);
    }

    pub(crate) fn handle_bytes_received(&self, bytes: usize) {
        self.bytes_received.inc_by(bytes as u64);
    }

    pub(crate) fn handle_records_done(&self, records: u32, is_written: bool) {
        let counter = if is_written { &self.records_sent } else { &self.records_failed };
        counter.inc_by(u64::from(records));
    }

    pub(crate) fn handle_records_consumed(&self, records: usize) {
        self.records_consumed.inc_by(records as u64);
    }

    pub(crate) fn handle_assigned(&self) {
        self.rebalances.inc();
    }

    pub(crate) fn handle_transaction_ended(&self, outcome: &'static str) {
        self.transactions.get_or_create(&OutcomeLabels { outcome }).inc();
    }
}
