//! What can go wrong with an application: who, where, and what to do.

use std::path::PathBuf;

use atonce_client::{AdminError, BeginError, ConnectError, ConsumerError, StartError};
use atonce_kernel::{GroupInstanceId, TopicName};
use atonce_streams_core::TaskError;
use atonce_streams_core::TopologyError;
use atonce_streams_core::store::StoreError;
use atonce_streams_core::topology::LayoutError;

/// Anything that ends an application, or keeps it from starting.
///
/// Its `Debug` is its message: a `main` that returns it prints what a person can read.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The topology cannot work.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// A setting cannot work.
    #[error("{setting}: {reason}")]
    Setting {
        /// Which one.
        setting: &'static str,
        /// Why not, and what to do.
        reason: String,
    },
    /// The cluster cannot be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A topic that is read is not there.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The cluster could not be asked for topics and offsets, or would not make the application's own topics.
    #[error("{what}: {source}")]
    Admin {
        /// What was to be done.
        what: String,
        /// Why it was not.
        source: AdminError,
    },
    /// An internal topic is there, but not as this topology needs it.
    #[error(
        "topic {topic} has {found} partitions and needs {expected}: the topics that are read have changed; reset the application \
         (delete its internal topics and its group), or give it another application id"
    )]
    InternalTopic {
        /// The topic.
        topic: TopicName,
        /// Its partitions.
        found: i32,
        /// The partitions it should have.
        expected: i32,
    },
    /// The state folder cannot be used.
    #[error("state folder {}: {source}", path.display())]
    StateFolder {
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Another process works in the state folder.
    #[error("state folder {} is in use by another process: give each process of an application a folder of its own", path.display())]
    StateFolderInUse {
        /// Where.
        path: PathBuf,
    },
    /// The broker inside this process cannot run.
    #[error("the embedded broker in {}: {cause}", path.display())]
    EmbeddedBroker {
        /// Its data folder.
        path: PathBuf,
        /// Why, in its words.
        cause: String,
    },
    /// The application has ended meanwhile.
    #[error("the application has ended")]
    Ended,
    /// The store engine cannot work.
    #[error("stores in {}: {cause}", path.display())]
    Stores {
        /// Where.
        path: PathBuf,
        /// Why, in the engine's words.
        cause: String,
    },
    /// Metrics cannot be served where they were to be.
    #[error("metrics cannot be served at {address}: {source}; choose another address, or port 0 for any that is free")]
    MetricsListener {
        /// Where.
        address: String,
        /// Why.
        source: std::io::Error,
    },
    /// A worker has ended.
    #[error("worker {worker}: {source}")]
    Worker {
        /// Which one, from 0.
        worker: usize,
        /// Why.
        source: WorkerError,
    },
}

impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Why a worker has ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// A record could not be processed. The interval it came in is undone.
    #[error(transparent)]
    Processing(#[from] TaskError),
    /// A store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The group has another member of this worker's name.
    #[error(
        "another process has taken {instance_id} over: two processes must not share a process id; this one has stopped, and has \
         committed nothing since ({source})"
    )]
    Fenced {
        /// This worker's name in the group.
        instance_id: GroupInstanceId,
        /// What the group said.
        source: ConsumerError,
    },
    /// The group has members that do not speak this assignor.
    #[error(
        "group {group} has members of another kind, a JVM application for instance: stop them, and wait until their sessions have \
         ended ({source})"
    )]
    OtherMembers {
        /// The group.
        group: String,
        /// What the group said.
        source: ConsumerError,
    },
    /// The consumer cannot go on.
    #[error(transparent)]
    Consumer(#[from] ConsumerError),
    /// The producer could not be started.
    #[error(transparent)]
    ProducerStart(#[from] StartError),
    /// The last commit's outcome was not learnt before the application was closed. The next start settles it.
    #[error("closed while in doubt about the last commit ({0}); the next start settles it")]
    InDoubt(BeginError),
    /// Output could not be written, and never will be.
    #[error("output cannot be written: {0}")]
    Output(String),
    /// Stores could not be brought up to their change logs.
    #[error("restoring failed: {0}")]
    Restore(String),
    /// A worker of the application, here or elsewhere, has asked that all of it stop.
    #[error("a worker of the application asked all of its processes to stop (that one's own log says why)")]
    ShutdownRequested,
    /// The worker's task panicked.
    #[error("it panicked: {0}")]
    Panicked(String),
}
