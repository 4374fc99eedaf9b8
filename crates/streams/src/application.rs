//! What a user calls: an application is a topology that runs, in workers of this process, beside other processes of the same id.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use atonce_client::admin::{Admin, ConfigResource};
use atonce_client::{Client, ConnectError};
use atonce_kernel::GroupId;
use atonce_streams_core::topology::is_topic_name;
use atonce_streams_core::{FailureHandler, Guarantee, Topology};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinError, JoinHandle};

use crate::error::Error;
use crate::internal_topics;
use crate::listeners::RestoreListener;
use crate::metrics::{self, Metrics, PageServer};
use crate::state::{ApplicationState, StateBoard, StateListener, WorkerState};
use crate::state_folder::StateFolder;
use crate::statistics::{Counters, Statistics};
use crate::supervisor::{Command, OnWorkerError, Seats, Supervisor};
use crate::worker::{CommitAfter, GroupMembership, Shared};
use crate::writer::Writer;

pub use crate::supervisor::WorkerVerdict;

/// Settings of an [`Application`] to be.
#[must_use = "an application runs once it is started"]
pub struct ApplicationBuilder {
    application_id: String,
    topology: Topology,
    cluster: Option<Cluster>,
    guarantee: Guarantee,
    commit_interval: Duration,
    commit_after: CommitAfter,
    repartition_purge_interval: Duration,
    state_cleanup_delay: Duration,
    on_failure: FailureHandler,
    on_worker_error: Option<Arc<OnWorkerError>>,
    on_state_change: Option<Arc<StateListener>>,
    restore_listener: Option<Arc<dyn RestoreListener>>,
    metrics_listener: Option<String>,
    workers: usize,
    state_dir: Option<PathBuf>,
    transaction_timeout: Duration,
    session_timeout: Duration,
    heartbeat_interval: Duration,
    call_timeout: Duration,
    process_id: Option<String>,
    topics_refresh_interval: Duration,
    on_close: GroupMembership,
}

/// Bytes of store changes, and of output that is held, at which an interval ends whatever its time.
const UNCOMMITTED_BYTES_MAX: usize = 64 << 20;

enum Cluster {
    Servers(String),
    Client(Client),
    #[cfg(feature = "embedded")]
    Embedded(PathBuf),
    #[cfg(feature = "embedded")]
    InProcess(Arc<atonce_broker::Broker>),
}

impl ApplicationBuilder {
    /// Where the cluster is: `host:port`, several separated by commas.
    pub fn bootstrap_servers(self, servers: impl Into<String>) -> Self {
        Self { cluster: Some(Cluster::Servers(servers.into())), ..self }
    }

    /// A client that is connected already, instead of [`bootstrap_servers`](Self::bootstrap_servers).
    pub fn client(self, client: Client) -> Self {
        Self { cluster: Some(Cluster::Client(client)), ..self }
    }

    /// A durable broker inside this process, which keeps its data in `path` and ends with the application. Topics that the topology names are
    /// made if they are not there, with one partition. Others reach it at [`Application::bootstrap_servers`].
    ///
    /// For more than that (settings, an address of one's own, topics with more partitions), start one by hand: [`crate::broker`].
    #[cfg(feature = "embedded")]
    pub fn embedded(self, path: impl Into<PathBuf>) -> Self {
        Self { cluster: Some(Cluster::Embedded(path.into())), ..self }
    }

    /// A broker of this process that was started by hand, instead of [`bootstrap_servers`](Self::bootstrap_servers): it is reached without a
    /// socket, which costs less. It does not end with the application.
    #[cfg(feature = "embedded")]
    pub fn broker(self, broker: Arc<atonce_broker::Broker>) -> Self {
        Self { cluster: Some(Cluster::InProcess(broker)), ..self }
    }

    /// What is promised; exactly once unless set.
    pub fn guarantee(self, guarantee: Guarantee) -> Self {
        Self { guarantee, ..self }
    }

    /// How often is committed; every 100 ms unless set. It is also how late committed output comes.
    pub fn commit_interval(self, interval: Duration) -> Self {
        Self { commit_interval: interval, ..self }
    }

    /// Commits earlier once so many records have been processed since the last commit; however many unless set.
    pub fn commit_after_records(mut self, records: u64) -> Self {
        self.commit_after.records = records.max(1);
        self
    }

    /// Commits earlier once the stores' changes since the last commit take so many bytes, of one worker; 64 MiB unless set. They are kept in
    /// memory until they are committed.
    pub fn commit_after_bytes(mut self, bytes: usize) -> Self {
        self.commit_after.bytes = bytes;
        self
    }

    /// How often what was read from repartition topics and is committed is deleted from them; every 30 s unless set.
    pub fn repartition_purge_interval(self, interval: Duration) -> Self {
        Self { repartition_purge_interval: interval, ..self }
    }

    /// After how long without them the stores of tasks that have gone to other processes are thrown away; 10 min unless set. A task that comes
    /// back sooner finds its state, and replays only a tail.
    pub fn state_cleanup_delay(self, delay: Duration) -> Self {
        Self { state_cleanup_delay: delay, ..self }
    }

    /// How often is looked for topics that match the topology's patterns; every 30 s unless set. What one process has seen the others of the
    /// application hear of at once.
    pub fn topics_refresh_interval(self, interval: Duration) -> Self {
        Self { topics_refresh_interval: interval.max(Duration::from_millis(1)), ..self }
    }

    /// What becomes of this process's place in the group when it closes; it is given up unless set. To restart soon, and have one's tasks
    /// again without a rebalance, remain.
    pub fn on_close(self, membership: GroupMembership) -> Self {
        Self { on_close: membership, ..self }
    }

    /// What becomes of records that cannot be read, processed or written; each ends its worker unless set.
    ///
    /// ```
    /// # use atonce::{Application, FailureHandler, Stage, Topology, Verdict};
    /// # fn settings(topology: Topology) -> atonce::ApplicationBuilder {
    /// Application::builder("payments", topology).on_failure(FailureHandler::new(|failure| match failure.stage {
    ///     Stage::Reading => Verdict::DeadLetter("payments-unreadable".into()),
    ///     Stage::Processing | Stage::Writing => Verdict::Fail,
    /// }))
    /// # }
    /// ```
    pub fn on_failure(self, on_failure: FailureHandler) -> Self {
        Self { on_failure, ..self }
    }

    /// What to do when a worker cannot go on; it stops the application in this process unless set. One that was
    /// [fenced](crate::error::WorkerError::Fenced) is not replaced, whatever this says: another process has its name.
    pub fn on_worker_error(self, decide: impl Fn(&Error) -> WorkerVerdict + Send + Sync + 'static) -> Self {
        Self { on_worker_error: Some(Arc::new(decide)), ..self }
    }

    /// Calls `listener` with the new state and the old one, whenever the state changes: each change once, in order.
    ///
    /// ```
    /// # fn settings(topology: atonce::Topology) -> atonce::ApplicationBuilder {
    /// atonce::Application::builder("payments", topology).on_state_change(|new, old| println!("{old} -> {new}"))
    /// # }
    /// ```
    pub fn on_state_change(
        self,
        listener: impl Fn(ApplicationState, ApplicationState) + Send + Sync + 'static,
    ) -> Self {
        Self { on_state_change: Some(Arc::new(listener)), ..self }
    }

    /// Who hears how stores follow their change logs, and which were set aside.
    pub fn restore_listener(self, listener: impl RestoreListener + 'static) -> Self {
        Self { restore_listener: Some(Arc::new(listener)), ..self }
    }

    /// Serves metrics as Prometheus text by HTTP, at `http://ADDRESS/metrics`; not unless set. Port 0 takes any that is free: see
    /// [`Application::metrics_address`]. Nothing asks who reads: choose an address that only those reach who may.
    pub fn metrics_listener(self, address: impl Into<String>) -> Self {
        Self { metrics_listener: Some(address.into()), ..self }
    }

    /// How many workers run in this process; 1 unless set. More than there are tasks stand by.
    pub fn workers(self, workers: usize) -> Self {
        Self { workers, ..self }
    }

    /// Where stores and this process's id are kept, in a folder named for the application; in the system's temporary folder unless
    /// set. What is lost with it comes back from the change logs.
    pub fn state_dir(self, path: impl Into<PathBuf>) -> Self {
        Self { state_dir: Some(path.into()), ..self }
    }

    /// After how long the cluster aborts the transaction of a worker that is not heard of; 10 s unless set. Others wait for as long
    /// before they read what it has changed.
    pub fn transaction_timeout(self, timeout: Duration) -> Self {
        Self { transaction_timeout: timeout, ..self }
    }

    /// After how long the group gives a silent worker's tasks to others; 45 s unless set. A worker that restarts is back at once,
    /// whatever this says.
    pub fn session_timeout(self, timeout: Duration) -> Self {
        Self { session_timeout: timeout, heartbeat_interval: (timeout / 10).min(Duration::from_secs(3)), ..self }
    }

    /// How long a call waits for the cluster before it counts as unanswered; a minute unless set. A commit without an answer is in
    /// doubt then, and is settled before anything else is done.
    pub fn call_timeout(self, timeout: Duration) -> Self {
        Self { call_timeout: timeout, ..self }
    }

    /// The name of this process among those of the application, instead of the one that its state folder keeps. Two processes that
    /// share it take each other's work.
    pub fn process_id(self, process_id: impl Into<String>) -> Self {
        Self { process_id: Some(process_id.into()), ..self }
    }

    /// Looks up topics, makes the internal ones, opens the stores, and starts the workers.
    ///
    /// Errors: a setting cannot work, by itself or with this cluster (a transaction time-out above the brokers' maximum), the cluster is not there, a topic that is read is missing, the state folder is in use. What
    /// goes wrong later is told by [`Application::run_until`].
    pub async fn start(self) -> Result<Application, Error> {
        self.check()?;
        let connect = |servers: &str| Client::builder(servers).client_id(self.application_id.as_str()).connect();
        #[cfg(feature = "embedded")]
        let mut embedded = None;
        let client = match self.cluster {
            Some(Cluster::Client(client)) => client,
            Some(Cluster::Servers(servers)) => connect(&servers).await?,
            #[cfg(feature = "embedded")]
            Some(Cluster::Embedded(path)) => {
                let broker = Arc::new(embedded::start(path).await?);
                let client = embedded::connect(&broker, &self.application_id).await?;
                internal_topics::create_missing(&client.admin(), &self.topology).await?;
                embedded = Some(broker);
                client
            }
            #[cfg(feature = "embedded")]
            Some(Cluster::InProcess(broker)) => embedded::connect(&broker, &self.application_id).await?,
            None => return Err(Error::Connect(ConnectError::NotAnAddress { text: String::new() })),
        };
        let state_dir = self.state_dir.unwrap_or_else(|| std::env::temp_dir().join("atonce-streams"));
        let (application_id, process_id) = (self.application_id.clone(), self.process_id);
        // Beside each other: after a crash the stores' journal is replayed here, and the group is waiting.
        let admin = client.admin();
        let timeout = (self.guarantee == Guarantee::ExactlyOnce).then_some(self.transaction_timeout);
        let (allowed, topics, folder) = tokio::join!(
            check_transaction_timeout(&admin, timeout),
            internal_topics::prepare(&admin, &self.topology, &self.application_id, self.on_failure),
            tokio::task::spawn_blocking(move || StateFolder::open(&state_dir, &application_id, process_id)),
        );
        allowed?;
        let topics = topics?;
        let folder = match folder {
            Ok(folder) => folder?,
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        };
        let board = Arc::new(StateBoard::new(self.on_state_change));
        let shared = Arc::new(Shared {
            application_id: self.application_id,
            client,
            topics: watch::Sender::new(Arc::new(topics)),
            topics_refresh_interval: self.topics_refresh_interval,
            look_again: Arc::default(),
            is_paused: AtomicBool::new(false),
            is_shutdown_asked: AtomicBool::new(false),
            folder,
            counters: Arc::new(Counters::new()),
            metrics: Arc::new(metrics::Registry::new(Arc::clone(&board))),
            restore_listener: self.restore_listener,
            guarantee: self.guarantee,
            commit_interval: self.commit_interval,
            commit_after: self.commit_after,
            repartition_purge_interval: self.repartition_purge_interval,
            state_cleanup_delay: self.state_cleanup_delay,
            transaction_timeout: self.transaction_timeout,
            session_timeout: self.session_timeout,
            heartbeat_interval: self.heartbeat_interval,
            call_timeout: self.call_timeout,
        });
        let reader = MetricsReader::of(&shared);
        let page_server = match self.metrics_listener {
            Some(address) => {
                let started = PageServer::start(&address, move || reader.prometheus_text()).await;
                Some(started.map_err(|source| Error::MetricsListener { address, source })?)
            }
            None => None,
        };
        settle_former_workers(&shared, self.workers).await?;
        shared.folder.write_workers(self.workers)?;

        let (control, supervisor) = Supervisor::new(shared, board, self.on_worker_error, self.workers);
        Ok(Application {
            control,
            on_close: self.on_close,
            supervisor: tokio::spawn(supervisor.run()),
            page_server,
            #[cfg(feature = "embedded")]
            embedded,
        })
    }

    fn check(&self) -> Result<(), Error> {
        let refuse = |setting, reason: String| Err(Error::Setting { setting, reason });
        if !is_topic_name(&self.application_id) {
            let reason =
                format!("\"{}\" becomes part of topics' names: 1 to 249 of a-z A-Z 0-9 . _ -", self.application_id);
            return refuse("application id", reason);
        }
        if let Some(process_id) = &self.process_id
            && !is_topic_name(process_id)
        {
            return refuse("process id", format!("\"{process_id}\": 1 to 249 of a-z A-Z 0-9 . _ -"));
        }
        if self.cluster.is_none() {
            return refuse("bootstrap servers", "none are set: call bootstrap_servers(\"host:port\")".to_owned());
        }
        if self.workers == 0 {
            return refuse("workers", "at least one has to work".to_owned());
        }
        if self.guarantee == Guarantee::ExactlyOnce && self.transaction_timeout <= self.commit_interval {
            let reason = format!(
                "{:?} is not longer than the commit interval, {:?}: every transaction would be aborted before it is committed",
                self.transaction_timeout, self.commit_interval
            );
            return refuse("transaction time-out", reason);
        }
        Ok(())
    }
}

/// No broker may keep a transaction open for less long than it may take: any of them may come to coordinate it. A cluster that does not tell is
/// asked by the workers, which then end with its refusal.
async fn check_transaction_timeout(admin: &Admin, timeout: Option<Duration>) -> Result<(), Error> {
    const MAXIMUM: &str = "transaction.max.timeout.ms";
    let Some(timeout) = timeout else { return Ok(()) };
    let described = async {
        let brokers = admin.describe_cluster().await?.brokers;
        let brokers: Vec<ConfigResource> = brokers.iter().map(|broker| ConfigResource::Broker(broker.id)).collect();
        admin.describe_configs(&brokers).await
    };
    let described = match described.await {
        Ok(described) => described,
        Err(error) => {
            tracing::debug!("the brokers do not tell how long a transaction may take: {error}");
            return Ok(());
        }
    };
    for (broker, configs) in described {
        let maximum = configs.ok().and_then(|configs| configs.get(MAXIMUM)?.value.as_ref()?.parse().ok());
        if let Some(maximum) = maximum.map(Duration::from_millis).filter(|maximum| timeout > *maximum) {
            let reason = format!(
                "{timeout:?} is longer than {broker} lets a transaction take, {maximum:?}: set a shorter one, or raise {MAXIMUM} there"
            );
            return Err(Error::Setting { setting: "transaction time-out", reason });
        }
    }
    Ok(())
}

/// Workers that ran in this process's last life and run no more: their transactions are ended, and the group need not wait for them.
async fn settle_former_workers(shared: &Shared, workers: usize) -> Result<(), Error> {
    let former = workers..shared.folder.former_workers();
    if former.is_empty() {
        return Ok(());
    }
    let group = GroupId::from(shared.application_id.as_str());
    let instances: Vec<_> = former.clone().map(|worker| shared.instance_id(worker)).collect();
    match shared.client.admin().remove_group_members(&group, &instances).await {
        Ok(_) => {}
        Err(error) if error.is_not_there() => {}
        Err(source) => {
            return Err(Error::Admin { what: "former workers cannot be taken out of the group".to_owned(), source });
        }
    }
    if shared.guarantee == Guarantee::ExactlyOnce {
        for worker in former {
            let transactional_id = shared.transactional_id(worker);
            Writer::initialise(shared, transactional_id)
                .await
                .map_err(|error| Error::Worker { worker, source: error.into() })?;
        }
    }
    Ok(())
}

/// A topology that runs.
///
/// Dropping it ends it as a crash would: what was not committed is undone, and the group waits for a session to end.
#[must_use = "an application that is dropped ends as in a crash"]
pub struct Application {
    control: ApplicationControl,
    on_close: GroupMembership,
    supervisor: JoinHandle<Result<(), Error>>,
    /// Serves metrics as long as the application is there.
    page_server: Option<PageServer>,
    /// Ends last: the workers commit to it until they are gone.
    #[cfg(feature = "embedded")]
    embedded: Option<Arc<atonce_broker::Broker>>,
}

impl Drop for Application {
    fn drop(&mut self) {
        self.supervisor.abort();
    }
}

impl Application {
    /// An application of this id: the name of its group, and the beginning of its internal topics' names.
    pub fn builder(application_id: impl Into<String>, topology: Topology) -> ApplicationBuilder {
        ApplicationBuilder {
            application_id: application_id.into(),
            topology,
            cluster: None,
            guarantee: Guarantee::ExactlyOnce,
            commit_interval: Duration::from_millis(100),
            commit_after: CommitAfter { records: u64::MAX, bytes: UNCOMMITTED_BYTES_MAX },
            repartition_purge_interval: Duration::from_secs(30),
            state_cleanup_delay: Duration::from_secs(600),
            on_failure: FailureHandler::default(),
            on_worker_error: None,
            on_state_change: None,
            restore_listener: None,
            metrics_listener: None,
            workers: 1,
            state_dir: None,
            transaction_timeout: Duration::from_secs(10),
            session_timeout: Duration::from_secs(45),
            heartbeat_interval: Duration::from_secs(3),
            call_timeout: Duration::from_secs(60),
            process_id: None,
            topics_refresh_interval: Duration::from_secs(30),
            on_close: GroupMembership::Leave,
        }
    }

    /// Runs until `signal` comes, then closes.
    ///
    /// Errors: a worker could not go on, and was not to be [replaced](ApplicationBuilder::on_worker_error); the others are closed then.
    pub async fn run_until(mut self, signal: impl Future<Output = ()>) -> Result<(), Error> {
        tokio::select! {
            () = signal => self.close().await,
            ended = &mut self.supervisor => {
                let ended = outcome(ended);
                ended.and(self.end_broker().await)
            }
        }
    }

    /// Commits what is open, closes the stores, and leaves the group unless it was [told](ApplicationBuilder::on_close) to remain.
    ///
    /// Errors: the first that a worker met.
    pub async fn close(self) -> Result<(), Error> {
        let membership = self.on_close;
        self.close_with(membership).await
    }

    /// As [`close`](Self::close), and says what becomes of its place in the group.
    pub async fn close_with(mut self, membership: GroupMembership) -> Result<(), Error> {
        self.control.send(Command::Close(membership));
        let ended = outcome((&mut self.supervisor).await);
        ended.and(self.end_broker().await)
    }

    /// Ends as a crash would: for tests. Nothing is committed, the group is not told; the state folder is free once this returns.
    pub async fn crash(mut self) {
        self.control.send(Command::Crash);
        let _ = (&mut self.supervisor).await;
    }

    #[cfg(feature = "embedded")]
    async fn end_broker(&mut self) -> Result<(), Error> {
        match self.embedded.take() {
            None => Ok(()),
            Some(broker) => embedded::end(&broker).await,
        }
    }

    #[cfg(not(feature = "embedded"))]
    async fn end_broker(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Where others reach the [embedded](ApplicationBuilder::embedded) broker; `None` without one.
    #[cfg(feature = "embedded")]
    #[must_use]
    pub fn bootstrap_servers(&self) -> Option<String> {
        self.embedded.as_ref().map(|broker| broker.bootstrap_servers())
    }

    /// Pauses, adds workers and asks from elsewhere, while [`run_until`](Self::run_until) has the application.
    #[must_use]
    pub fn control(&self) -> ApplicationControl {
        self.control.clone()
    }

    /// See [`ApplicationControl::pause`].
    pub fn pause(&self) {
        self.control.pause();
    }

    /// See [`ApplicationControl::resume`].
    pub fn resume(&self) {
        self.control.resume();
    }

    /// See [`ApplicationControl::is_paused`].
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.control.is_paused()
    }

    /// See [`ApplicationControl::add_worker`].
    pub async fn add_worker(&self) -> Result<usize, Error> {
        self.control.add_worker().await
    }

    /// See [`ApplicationControl::remove_worker`].
    pub async fn remove_worker(&self) -> Result<Option<usize>, Error> {
        self.control.remove_worker().await
    }

    /// What it does; of several workers, what the one that is furthest behind does.
    #[must_use]
    pub fn state(&self) -> ApplicationState {
        self.control.state()
    }

    /// Waits until all workers process.
    ///
    /// Returns early if one has ended: [`run_until`](Self::run_until) or [`close`](Self::close) then says why.
    pub async fn wait_until_running(&mut self) {
        for mut state in self.control.seats.states() {
            // An error means that the worker is gone, which `Ended` was sent before.
            let _ = state.wait_for(|state| matches!(state, WorkerState::Running | WorkerState::Ended)).await;
        }
    }

    /// Counts since the start.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.control.shared.counters.read()
    }

    /// A handle to the counts, for others to read while [`run_until`](Self::run_until) has the application.
    #[must_use]
    pub fn statistics_reader(&self) -> StatisticsReader {
        StatisticsReader { counters: Arc::clone(&self.control.shared.counters) }
    }

    /// What its workers, tasks and stores are at. Numbers that are looked up (lags, what waits) are at most half a second old while a worker is not held
    /// up.
    ///
    /// ```
    /// # fn look(application: &atonce::Application) {
    /// for (task, numbers) in application.metrics().tasks {
    ///     println!("{task}: {} records, {} behind", numbers.process.total, numbers.lag_sum());
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.control.shared.metrics.read()
    }

    /// A handle to the metrics, for others to read while [`run_until`](Self::run_until) has the application.
    #[must_use]
    pub fn metrics_reader(&self) -> MetricsReader {
        MetricsReader::of(&self.control.shared)
    }

    /// Where metrics are served, if they [are](ApplicationBuilder::metrics_listener).
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.page_server.as_ref().map(PageServer::address)
    }

    /// This process's name among those of the application.
    #[must_use]
    pub fn process_id(&self) -> &str {
        self.control.shared.folder.process_id()
    }
}

/// What the supervisor's task came to.
fn outcome(ended: Result<Result<(), Error>, JoinError>) -> Result<(), Error> {
    match ended {
        Ok(ended) => ended,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // Cancelled, with the runtime it ran in.
        Err(_) => Err(Error::Ended),
    }
}

/// Pauses, adds workers and asks, from anywhere; see [`Application::control`].
#[derive(Clone)]
pub struct ApplicationControl {
    pub(crate) shared: Arc<Shared>,
    pub(crate) commands: mpsc::UnboundedSender<Command>,
    pub(crate) seats: Arc<Seats>,
    pub(crate) board: Arc<StateBoard>,
}

impl std::fmt::Debug for ApplicationControl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApplicationControl").field("state", &self.state()).finish_non_exhaustive()
    }
}

impl ApplicationControl {
    /// Stops processing in this process until [`resume`](Self::resume): what has been processed is committed, and no record and no punctuation
    /// comes after that. Its workers keep their places in the group, their tasks and their stores, and stores that were being restored are
    /// restored to their end (KIP-834).
    pub fn pause(&self) {
        self.shared.is_paused.store(true, Ordering::Relaxed);
    }

    /// Processes again.
    pub fn resume(&self) {
        self.shared.is_paused.store(false, Ordering::Relaxed);
    }

    /// Whether it was told to [`pause`](Self::pause).
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.shared.is_paused.load(Ordering::Relaxed)
    }

    /// Starts one more worker, which takes the lowest number that is free, and returns it. Tasks come to it by a rebalance (KIP-663).
    ///
    /// Errors: the application has ended, or the state folder cannot keep the number of workers.
    pub async fn add_worker(&self) -> Result<usize, Error> {
        let (answer, answered) = oneshot::channel();
        self.send(Command::AddWorker(answer));
        answered.await.unwrap_or(Err(Error::Ended))
    }

    /// Closes the worker with the highest number, and returns that once it is gone: it has committed, and has left the group, which gives its
    /// tasks to others. `None` if there is none left.
    ///
    /// An application without workers runs on, and does nothing.
    ///
    /// Errors: the application has ended, or the worker could not close cleanly; it is gone all the same.
    pub async fn remove_worker(&self) -> Result<Option<usize>, Error> {
        let (answer, answered) = oneshot::channel();
        self.send(Command::RemoveWorker(answer));
        answered.await.unwrap_or(Err(Error::Ended))
    }

    /// What the application does; of several workers, what the one that is furthest behind does.
    #[must_use]
    pub fn state(&self) -> ApplicationState {
        self.board.state()
    }

    /// Counts since the start.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.shared.counters.read()
    }

    fn send(&self, command: Command) {
        // An error means that the application has ended, which whoever waits for an answer learns by there being none.
        let _ = self.commands.send(command);
    }
}

/// Reads an application's counts from elsewhere.
#[derive(Clone, Debug)]
pub struct StatisticsReader {
    counters: Arc<Counters>,
}

impl StatisticsReader {
    /// Counts since the start.
    #[must_use]
    pub fn read(&self) -> Statistics {
        self.counters.read()
    }
}

/// Reads an application's metrics from elsewhere.
#[derive(Clone, Debug)]
pub struct MetricsReader {
    registry: Arc<metrics::Registry>,
    counters: Arc<Counters>,
    client: Arc<atonce_client::metrics::Metrics>,
}

impl MetricsReader {
    fn of(shared: &Shared) -> Self {
        let (registry, counters) = (Arc::clone(&shared.metrics), Arc::clone(&shared.counters));
        Self { registry, counters, client: shared.client.metrics() }
    }

    /// Everything at this moment.
    #[must_use]
    pub fn read(&self) -> Metrics {
        self.registry.read()
    }

    /// The same in the text format of Prometheus (OpenMetrics), with the client's metrics.
    #[must_use]
    pub fn prometheus_text(&self) -> String {
        let client = self.client.prometheus_text();
        // One end for both.
        let client = client.strip_suffix("# EOF\n").unwrap_or(&client);
        format!("{client}{}", metrics::text(self.registry.read(), self.counters.read()))
    }
}

#[cfg(feature = "embedded")]
mod embedded {
    //! A broker inside the application's process, which reaches it without a socket.

    use std::io;
    use std::path::PathBuf;
    use std::sync::{Arc, Weak};

    use atonce_broker::Broker;
    use atonce_client::connector::Connecting;
    use atonce_client::{BrokerAddress, Client, Connector, Transport};

    use crate::error::Error;

    /// Whatever the address: there is one node. It does not keep the broker: an application that is dropped takes its own along.
    struct InProcess(Weak<Broker>);

    impl Connector for InProcess {
        fn connect<'a>(&'a self, _: &'a BrokerAddress) -> Connecting<'a> {
            Box::pin(async move {
                let gone = || io::Error::new(io::ErrorKind::NotConnected, "the broker of this process is gone");
                let broker = self.0.upgrade().ok_or_else(gone)?;
                let stream = broker.connect_in_process().map_err(io::Error::other)?;
                Ok(Box::new(stream) as Box<dyn Transport>)
            })
        }
    }

    pub(super) async fn connect(broker: &Arc<Broker>, application_id: &str) -> Result<Client, Error> {
        let connector = Arc::new(InProcess(Arc::downgrade(broker)));
        let client = Client::builder(broker.bootstrap_servers()).client_id(application_id).connector(connector);
        Ok(client.connect().await?)
    }

    pub(super) async fn start(path: PathBuf) -> Result<Broker, Error> {
        // Only the application's own workers are waited for, and they come at once.
        let broker = Broker::builder().data_path(&path).property("group.initial.rebalance.delay.ms", "0");
        broker.start().await.map_err(|error| Error::EmbeddedBroker { path, cause: error.to_string() })
    }

    pub(super) async fn end(broker: &Broker) -> Result<(), Error> {
        let path = broker.data_path().to_owned();
        broker.shutdown().await.map_err(|error| Error::EmbeddedBroker { path, cause: error.to_string() })
    }
}

/// Ends when the process is asked to: by SIGINT (Ctrl-C) or SIGTERM.
pub async fn shutdown_signal() {
    let interrupt = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut terminate) => {
                tokio::select! {
                    _ = interrupt => {}
                    _ = terminate.recv() => {}
                }
            }
            Err(_) => {
                let _ = interrupt.await;
            }
        }
    }
    #[cfg(not(unix))]
    {
        let _ = interrupt.await;
    }
}
