//! What a broker counts, in the words of Prometheus. Counting costs a few atomic additions a request; everything else is looked
//! up when somebody asks.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use atonce_coordinator::group::GroupState;
use atonce_coordinator::transaction::StateName;
use atonce_protocol::{ApiKey, ErrorCode};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::engine::EngineNumbers;
use crate::shared::Shared;

/// How long the writer may take to say its numbers; without them the others are still told.
const PATIENCE: Duration = Duration::from_secs(2);

type Labels = [(&'static str, &'static str); 1];
type Labels2 = [(&'static str, &'static str); 2];
type OwnedLabels<const N: usize> = [(&'static str, String); N];

/// Counted as things happen.
#[derive(Debug)]
pub(crate) struct Metrics {
    requests: Family<Labels, Counter>,
    request_seconds: Family<Labels, Histogram>,
    errors: Family<Labels2, Counter>,
    received_bytes: Counter,
    sent_bytes: Counter,
    pub(crate) connections: Gauge,
    refused_connections: Counter,
    /// Told by the writer, which shares this.
    pub(crate) writer: Arc<WriterMetrics>,
}

/// Counted by the writer.
#[derive(Debug)]
pub(crate) struct WriterMetrics {
    commits: Counter,
    commit_seconds: Histogram,
    work_per_commit: Histogram,
    committed_bytes: Counter,
}

fn seconds() -> Histogram {
    // From 50 µs to 13 s, each twice the one before.
    Histogram::new(exponential_buckets(0.000_05, 2.0, 19))
}

impl Default for WriterMetrics {
    fn default() -> Self {
        Self {
            commits: Counter::default(),
            commit_seconds: seconds(),
            work_per_commit: Histogram::new(exponential_buckets(1.0, 2.0, 11)),
            committed_bytes: Counter::default(),
        }
    }
}

impl WriterMetrics {
    /// A group of so much work and so many bytes was made durable.
    pub(crate) fn committed(&self, took: Duration, work: usize, bytes: usize) {
        self.commits.inc();
        self.commit_seconds.observe(took.as_secs_f64());
        #[expect(clippy::cast_precision_loss, reason = "a count of at most some thousands")]
        self.work_per_commit.observe(work as f64);
        self.committed_bytes.inc_by(bytes as u64);
    }
}

impl Metrics {
    pub(crate) fn new(writer: Arc<WriterMetrics>) -> Self {
        Self {
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(seconds),
            errors: Family::default(),
            received_bytes: Counter::default(),
            sent_bytes: Counter::default(),
            connections: Gauge::default(),
            refused_connections: Counter::default(),
            writer,
        }
    }

    /// A request of so many bytes came.
    pub(crate) fn received(&self, bytes: usize) {
        self.received_bytes.inc_by(bytes as u64);
    }

    /// It was answered, so long after it came.
    pub(crate) fn answered(&self, api: &'static str, took: Duration, bytes: usize) {
        let label = [("api", api)];
        self.requests.get_or_create(&label).inc();
        self.request_seconds.get_or_create(&label).observe(took.as_secs_f64());
        self.sent_bytes.inc_by(bytes as u64);
    }

    /// A part of an answer said this code. `None` is no error, and is not counted.
    pub(crate) fn refused(&self, api: ApiKey, code: i16) {
        let code = ErrorCode::from_wire(code);
        if code.is_error() {
            self.errors.get_or_create(&[("api", api_name(api)), ("code", code.name())]).inc();
        }
    }

    /// A connection too many came.
    pub(crate) fn connection_refused(&self) {
        self.refused_connections.inc();
    }
}

/// The name of an API, for a label.
pub(crate) fn api_name(api: ApiKey) -> &'static str {
    static NAMES: std::sync::OnceLock<Vec<(ApiKey, String)>> = std::sync::OnceLock::new();
    let names = NAMES.get_or_init(|| ApiKey::ALL.iter().map(|key| (*key, format!("{key:?}"))).collect());
    names.iter().find(|(key, _)| *key == api).map_or("", |(_, name)| name.as_str())
}

/// All of it, as Prometheus reads it.
pub(crate) async fn text(shared: &Shared) -> String {
    let numbers = tokio::time::timeout(PATIENCE, shared.engine_numbers()).await.ok().flatten();
    let mut registry = Registry::with_prefix("atonce");
    register_counted(&mut registry, &shared.metrics);
    register_seen(&mut registry, shared, numbers.as_ref());
    let mut text = String::new();
    // Writing into a string does not fail.
    let _ = encode(&mut text, &registry);
    text
}

fn register_counted(registry: &mut Registry, metrics: &Metrics) {
    registry.register("requests", "Requests answered", metrics.requests.clone());
    registry.register_with_unit(
        "request_duration",
        "From the last byte of a request to its answer",
        Unit::Seconds,
        metrics.request_seconds.clone(),
    );
    registry.register("errors", "Error codes in answers, for each partition or other part", metrics.errors.clone());
    registry.register("received_bytes", "Bytes of requests", metrics.received_bytes.clone());
    registry.register("sent_bytes", "Bytes of answers", metrics.sent_bytes.clone());
    registry.register("connections", "Connections that are open", metrics.connections.clone());
    registry.register(
        "refused_connections",
        "Connections closed because there were too many",
        metrics.refused_connections.clone(),
    );
    let writer = &metrics.writer;
    registry.register("commits", "Groups of writes made durable", writer.commits.clone());
    registry.register_with_unit(
        "commit_duration",
        "Writing and syncing one group",
        Unit::Seconds,
        writer.commit_seconds.clone(),
    );
    registry.register("commit_work", "Pieces of work in one group", writer.work_per_commit.clone());
    registry.register("committed_bytes", "Bytes of groups", writer.committed_bytes.clone());
}

fn register_seen(registry: &mut Registry, shared: &Shared, numbers: Option<&EngineNumbers>) {
    let mut gauge = |name: &str, help: &str, value: usize| {
        let gauge: Gauge<u64, AtomicU64> = Gauge::default();
        gauge.set(value as u64);
        registry.register(name, help, gauge);
    };
    let topics = shared.directory.topics();
    let (mut partitions, mut offline, mut lag_sum, mut lag_max) = (0, 0, 0, 0);
    for partition in topics.iter().flat_map(|topic| &topic.partitions) {
        let watermarks = partition.reader.watermarks();
        let lag = usize::try_from(watermarks.high_watermark - watermarks.last_stable_offset).unwrap_or(0);
        partitions += 1;
        offline += usize::from(partition.reader.damage().is_some());
        lag_sum += lag;
        lag_max = lag_max.max(lag);
    }
    gauge("topics", "Topics, with the broker's own", topics.iter().count());
    gauge("partitions", "Partitions of all topics", partitions);
    gauge("offline_partitions", "Partitions that are not served, because their log is damaged", offline);
    gauge("last_stable_offset_lag", "Records behind open transactions, over all partitions", lag_sum);
    gauge("last_stable_offset_lag_max", "The same in the partition that has most", lag_max);
    for (what, budget) in [("request", &shared.requests), ("answer", &shared.answers)] {
        let (used, all) = budget.bytes();
        gauge(&format!("{what}_memory_bytes"), "Bytes held for what is on its way", used);
        gauge(&format!("{what}_memory_limit_bytes"), "Bytes that may be held so", all);
    }
    let (sessions, entries) = shared.fetch_sessions.counts();
    gauge("fetch_sessions", "Fetch sessions that are kept", sessions);
    gauge("fetch_session_partitions", "Partitions in them", entries);
    if let Some(numbers) = numbers {
        let in_states = |states: &[StateName]| states.iter().filter_map(|state| numbers.transactions.get(state)).sum();
        let open = in_states(&[StateName::Ongoing, StateName::PrepareCommit, StateName::PrepareAbort]);
        gauge("open_transactions", "Transactions that are open or being ended", open);
        gauge("transactional_ids", "Transactional ids that are remembered", numbers.transactions.values().sum());
        gauge("group_members_max", "Members of the largest group", numbers.group_members_max);
        gauge("group_requests_held", "Requests of members that wait for others", numbers.group_requests_held);
        gauge("journal_bytes", "Bytes of the journal since its beginning", numbers.journal_bytes);
        gauge("disk_full", "1 while new data is refused because the disk is full", usize::from(numbers.is_disk_full));
        register_by_state(registry, numbers);
    }
}

/// What has states, by state: those too in which nothing is, so that an alarm on one has a line to look at.
fn register_by_state(registry: &mut Registry, numbers: &EngineNumbers) {
    let transactions: Family<OwnedLabels<1>, Gauge> = Family::default();
    for state in StateName::HELD {
        let count = numbers.transactions.get(&state).copied().unwrap_or(0);
        transactions.get_or_create(&[("state", state.to_string())]).set(as_gauge(count));
    }
    registry.register("transactions", "Transactional ids by where their transactions stand", transactions);
    let (groups, members) = (Family::<OwnedLabels<2>, Gauge>::default(), Family::<OwnedLabels<2>, Gauge>::default());
    for (group_type, states) in GroupState::OF_TYPES {
        for state in states {
            let (count, of_them) = numbers.groups.get(&(group_type, *state)).copied().unwrap_or((0, 0));
            let labels = [("type", group_type.to_string()), ("state", state.to_string())];
            groups.get_or_create(&labels).set(as_gauge(count));
            members.get_or_create(&labels).set(as_gauge(of_them));
        }
    }
    registry.register("groups", "Groups, by their protocol and state", groups);
    registry.register("group_members", "Members of all groups, by their group's protocol and state", members);
}

fn as_gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
