//! What a user calls: an application is a topology that runs, in workers of this process, beside other processes of the same id.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use atonce_client::{Client, ConnectError};
use atonce_kernel::GroupId;
use atonce_streams_core::topology::is_topic_name;
use atonce_streams_core::{Guarantee, Topology};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::error::{Error, WorkerError};
use crate::internal_topics;
use crate::state_folder::StateFolder;
use crate::statistics::{Counters, Statistics};
use crate::worker::{Shared, Worker, WorkerState};
use crate::writer::Writer;

/// Settings of an [`Application`] to be.
#[must_use = "an application runs once it is started"]
pub struct ApplicationBuilder {
    application_id: String,
    topology: Topology,
    cluster: Option<Cluster>,
    guarantee: Guarantee,
    commit_interval: Duration,
    workers: usize,
    state_dir: Option<PathBuf>,
    transaction_timeout: Duration,
    session_timeout: Duration,
    heartbeat_interval: Duration,
    call_timeout: Duration,
    process_id: Option<String>,
}

enum Cluster {
    Servers(String),
    Client(Client),
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

    /// What is promised; exactly once unless set.
    pub fn guarantee(self, guarantee: Guarantee) -> Self {
        Self { guarantee, ..self }
    }

    /// How often is committed; every 100 ms unless set. It is also how late committed output comes.
    pub fn commit_interval(self, interval: Duration) -> Self {
        Self { commit_interval: interval, ..self }
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
    /// Errors: a setting cannot work, the cluster is not there, a topic that is read is missing, the state folder is in use. What
    /// goes wrong later is told by [`Application::run_until`].
    pub async fn start(self) -> Result<Application, Error> {
        self.check()?;
        let client = match self.cluster {
            Some(Cluster::Client(client)) => client,
            Some(Cluster::Servers(servers)) => {
                Client::builder(servers).client_id(self.application_id.as_str()).connect().await?
            }
            None => return Err(Error::Connect(ConnectError::NotAnAddress { text: String::new() })),
        };
        let state_dir = self.state_dir.unwrap_or_else(|| std::env::temp_dir().join("atonce-streams"));
        let (application_id, process_id) = (self.application_id.clone(), self.process_id);
        // Beside each other: after a crash the stores' journal is replayed here, and the group is waiting.
        let admin = client.admin();
        let (topics, folder) = tokio::join!(
            internal_topics::prepare(&admin, &self.topology, &self.application_id),
            tokio::task::spawn_blocking(move || StateFolder::open(&state_dir, &application_id, process_id)),
        );
        let topics = topics?;
        let folder = match folder {
            Ok(folder) => folder?,
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        };
        let shared = Arc::new(Shared {
            application_id: self.application_id,
            client,
            topology: self.topology,
            topics: Arc::new(topics),
            folder,
            counters: Arc::new(Counters::new()),
            guarantee: self.guarantee,
            commit_interval: self.commit_interval,
            transaction_timeout: self.transaction_timeout,
            session_timeout: self.session_timeout,
            heartbeat_interval: self.heartbeat_interval,
            call_timeout: self.call_timeout,
        });
        settle_former_workers(&shared, self.workers).await?;
        shared.folder.write_workers(self.workers)?;

        let (stop, _) = watch::channel(false);
        let mut workers = JoinSet::new();
        let mut states = Vec::new();
        for index in 0..self.workers {
            let (state, seen) = watch::channel(WorkerState::Joining);
            states.push(seen);
            workers.spawn(work(Arc::clone(&shared), index, state, stop.subscribe()));
        }
        Ok(Application {
            counters: Arc::clone(&shared.counters),
            process_id: shared.folder.process_id().to_owned(),
            workers,
            states,
            stop,
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

async fn work(
    shared: Arc<Shared>,
    index: usize,
    state: watch::Sender<WorkerState>,
    stop: watch::Receiver<bool>,
) -> Result<(), Error> {
    let failed = |source| Error::Worker { worker: index, source };
    let worker = Worker::start(shared, index, state, stop).await.map_err(failed)?;
    worker.run().await.map_err(failed)
}

/// A topology that runs.
///
/// Dropping it ends it as a crash would: what was not committed is undone, and the group waits for a session to end.
#[must_use = "an application that is dropped ends as in a crash"]
pub struct Application {
    workers: JoinSet<Result<(), Error>>,
    states: Vec<watch::Receiver<WorkerState>>,
    stop: watch::Sender<bool>,
    counters: Arc<Counters>,
    process_id: String,
}

/// What an application does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApplicationState {
    /// A worker is joining the group.
    Joining,
    /// A worker brings stores up to their change logs.
    Restoring,
    /// All workers process.
    Running,
    /// It was told to stop.
    Closing,
    /// No worker runs any more.
    Closed,
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
            workers: 1,
            state_dir: None,
            transaction_timeout: Duration::from_secs(10),
            session_timeout: Duration::from_secs(45),
            heartbeat_interval: Duration::from_secs(3),
            call_timeout: Duration::from_secs(60),
            process_id: None,
        }
    }

    /// Runs until `signal` comes, then closes.
    ///
    /// Errors: a worker could not go on; the others are closed then.
    pub async fn run_until(mut self, signal: impl Future<Output = ()>) -> Result<(), Error> {
        let ended_early = tokio::select! {
            () = signal => None,
            ended = self.workers.join_next() => ended.map(flatten),
        };
        let closed = self.close().await;
        match ended_early {
            Some(Err(error)) => Err(error),
            Some(Ok(())) | None => closed,
        }
    }

    /// Commits what is open, closes the stores, leaves the group.
    ///
    /// Errors: the first that a worker met.
    pub async fn close(mut self) -> Result<(), Error> {
        self.stop.send_replace(true);
        let mut first = Ok(());
        while let Some(ended) = self.workers.join_next().await {
            if let (Err(error), true) = (flatten(ended), first.is_ok()) {
                first = Err(error);
            }
        }
        first
    }

    /// Ends as a crash would: for tests. Nothing is committed, the group is not told; the state folder is free once this returns.
    pub async fn crash(mut self) {
        self.workers.shutdown().await;
    }

    /// What it does; of several workers, what the one that is furthest behind does.
    #[must_use]
    pub fn state(&self) -> ApplicationState {
        let states = self.states.iter().map(|state| *state.borrow());
        match states.min() {
            None | Some(WorkerState::Ended) => ApplicationState::Closed,
            Some(_) if *self.stop.borrow() => ApplicationState::Closing,
            Some(WorkerState::Joining) => ApplicationState::Joining,
            Some(WorkerState::Restoring) => ApplicationState::Restoring,
            Some(WorkerState::Running) => ApplicationState::Running,
        }
    }

    /// Waits until all workers process.
    ///
    /// Returns early if one has ended: [`run_until`](Self::run_until) or [`close`](Self::close) then says why.
    pub async fn wait_until_running(&mut self) {
        for state in &mut self.states {
            // An error means that the worker is gone, which `Ended` was sent before.
            let _ = state.wait_for(|state| matches!(state, WorkerState::Running | WorkerState::Ended)).await;
        }
    }

    /// Counts since the start.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.counters.read()
    }

    /// A handle to the counts, for others to read while [`run_until`](Self::run_until) has the application.
    #[must_use]
    pub fn statistics_reader(&self) -> StatisticsReader {
        StatisticsReader { counters: Arc::clone(&self.counters) }
    }

    /// This process's name among those of the application.
    #[must_use]
    pub fn process_id(&self) -> &str {
        &self.process_id
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

fn flatten(ended: Result<Result<(), Error>, tokio::task::JoinError>) -> Result<(), Error> {
    match ended {
        Ok(result) => result,
        Err(error) if error.is_cancelled() => Ok(()),
        Err(error) => {
            let panic = error.into_panic();
            let message = panic.downcast_ref::<String>().map(String::as_str);
            let message = message.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message");
            // Which worker it was is in the panic's own message, on standard error.
            Err(Error::Worker { worker: 0, source: WorkerError::Panicked(message.to_owned()) })
        }
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
