//! What the connections' tasks share with the thread that writes: settings, the way to it, the directory of what may be
//! read, and the budget of requests in flight.
//!
//! **What it does not know**: sockets, files, what a request means.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::configuration::Settings;
use crate::directory::Directory;
use crate::dynamic::Current;
use crate::engine::EngineNumbers;
use crate::engine::{EngineHandle, entropy};
use crate::fetch_sessions::FetchSessions;
use crate::operations::{Metrics, WriterMetrics};

/// Fetches that read files at once.
const READS_AT_ONCE: usize = 8;

/// Look-ups by time at once. Each may hold an unpacked batch in memory, and a processor for as long as that takes.
const LOOK_UPS_AT_ONCE: usize = 2;

/// Produce requests whose batches are unpacked, or packed anew, at once. Each may hold a whole batch in memory.
const UNPACKED_AT_ONCE: usize = 2;

/// One permit stands for so many bytes of requests.
const BYTES_PER_PERMIT: usize = 1024;

/// Shared by all connections of a running broker.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Arc<Settings>,
    pub(crate) cluster_id: String,
    pub(crate) data_path: PathBuf,
    /// What was set since the start.
    pub(crate) dynamic: Arc<Current>,
    pub(crate) engine: EngineHandle,
    pub(crate) directory: Arc<Directory>,
    /// For requests on their way to the writer.
    pub(crate) requests: Budget,
    /// For records in answers that their clients have not taken.
    pub(crate) answers: Budget,
    pub(crate) fetch_sessions: FetchSessions,
    pub(crate) metrics: Metrics,
    started: Instant,
    /// For fetches that read files.
    reads: Arc<Semaphore>,
    /// For look-ups by time, which unpack records: many of them must not hold up those who read.
    look_ups: Arc<Semaphore>,
    /// For produce requests that need more than a look.
    unpacking: Arc<Semaphore>,
}

impl Shared {
    pub(crate) fn new(
        settings: Arc<Settings>,
        cluster_id: String,
        data_path: PathBuf,
        dynamic: Arc<Current>,
        engine: EngineHandle,
        directory: Arc<Directory>,
        writer_metrics: Arc<WriterMetrics>,
    ) -> Self {
        let requests = Budget::new(settings.queued_request_bytes_max);
        let answers = Budget::new(settings.queued_response_bytes_max);
        let fetch_sessions = FetchSessions::new(settings.fetch_sessions_max, entropy());
        let reads = Arc::new(Semaphore::new(READS_AT_ONCE));
        let look_ups = Arc::new(Semaphore::new(LOOK_UPS_AT_ONCE));
        let unpacking = Arc::new(Semaphore::new(UNPACKED_AT_ONCE));
        Self {
            settings,
            cluster_id,
            data_path,
            dynamic,
            engine,
            directory,
            requests,
            answers,
            fetch_sessions,
            metrics: Metrics::new(writer_metrics),
            started: Instant::now(),
            reads,
            look_ups,
            unpacking,
        }
    }

    /// What the writer says of itself. `None`: it has stopped.
    pub(crate) async fn engine_numbers(&self) -> Option<EngineNumbers> {
        let (sender, receiver) = oneshot::channel();
        self.engine.submit(Box::new(move |engine| {
            let _ = sender.send(engine.numbers());
        }));
        receiver.await.ok()
    }

    /// Milliseconds since the start.
    pub(crate) fn uptime_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Reads files on a thread that may wait for them. `None`: it panicked, or the runtime ends.
    pub(crate) async fn read_aside<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        aside(&self.reads, work).await
    }

    /// Looks something up by unpacking records, on another thread than the runtime's. `None` as above.
    pub(crate) async fn look_up_aside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        aside(&self.look_ups, work).await
    }

    /// Unpacks what clients have packed, on another thread than the runtime's. `None` as above.
    pub(crate) async fn unpack_aside<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        aside(&self.unpacking, work).await
    }
}

/// Does work that may take long on a thread of its own, as many pieces at once as there are permits: the runtime's threads
/// serve all other connections meanwhile.
async fn aside<T: Send + 'static>(permits: &Arc<Semaphore>, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let permit = Arc::clone(permits).acquire_owned().await.ok()?;
    let work = move || {
        // Kept until the work is done, also when nobody waits for it any more.
        let _permit = permit;
        work()
    };
    tokio::task::spawn_blocking(work).await.ok()
}

/// Bytes of requests that may wait.
#[derive(Debug)]
pub(crate) struct Budget {
    permits: Arc<Semaphore>,
    all: u32,
}

/// Room for a request or an answer; given back when dropped.
#[derive(Debug, Default)]
pub(crate) struct Room {
    permit: Option<OwnedSemaphorePermit>,
}

impl Room {
    /// Gives back what goes beyond `bytes`.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        if let Some(permit) = &mut self.permit {
            let needed = bytes.div_ceil(BYTES_PER_PERMIT);
            drop(permit.split(permit.num_permits().saturating_sub(needed)));
        }
    }
}

impl Budget {
    pub(crate) fn new(bytes: usize) -> Self {
        // Half of what fits a semaphore at most: far more than any memory.
        let all = u32::try_from(bytes / BYTES_PER_PERMIT).unwrap_or(u32::MAX / 2).clamp(1, u32::MAX / 2);
        Self { permits: Arc::new(Semaphore::new(all as usize)), all }
    }

    /// Bytes that are taken, and bytes that there are.
    pub(crate) fn bytes(&self) -> (usize, usize) {
        let all = self.all as usize;
        let used = all.saturating_sub(self.permits.available_permits());
        (used * BYTES_PER_PERMIT, all * BYTES_PER_PERMIT)
    }

    /// Nothing waits.
    pub(crate) fn is_unused(&self) -> bool {
        self.permits.available_permits() == self.all as usize
    }

    /// Takes room for `bytes`, or for as many as there is room for, and says how many that is.
    pub(crate) fn up_to(&self, bytes: usize) -> (Room, usize) {
        loop {
            let wanted = bytes.div_ceil(BYTES_PER_PERMIT).min(self.permits.available_permits());
            if wanted == 0 {
                return (Room::default(), 0);
            }
            // Another may have been quicker: then there is less.
            let permits = u32::try_from(wanted).unwrap_or(u32::MAX);
            if let Ok(permit) = Arc::clone(&self.permits).try_acquire_many_owned(permits) {
                return (Room { permit: Some(permit) }, bytes.min(wanted * BYTES_PER_PERMIT));
            }
        }
    }

    /// Waits until there is room for a request of `bytes`. One that is larger than all room there is takes all of it.
    pub(crate) async fn room_for(&self, bytes: usize) -> Room {
        let permits = u32::try_from(bytes / BYTES_PER_PERMIT + 1).unwrap_or(u32::MAX).min(self.all);
        Room { permit: Arc::clone(&self.permits).acquire_many_owned(permits).await.ok() }
    }
}
