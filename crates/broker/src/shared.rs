//! What the connections' tasks share with the thread that writes: settings, the way to it, the directory of what may be
//! read, and the budget of requests in flight.
//!
//! **What it does not know**: sockets, files, what a request means.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::configuration::Settings;
use crate::directory::Directory;
use crate::engine::EngineHandle;

/// One permit stands for so many bytes of requests.
const BYTES_PER_PERMIT: usize = 1024;

/// Shared by all connections of a running broker.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Arc<Settings>,
    pub(crate) cluster_id: String,
    pub(crate) engine: EngineHandle,
    pub(crate) directory: Arc<Directory>,
    /// For requests on their way to the writer.
    pub(crate) requests: Budget,
}

impl Shared {
    pub(crate) fn new(
        settings: Arc<Settings>,
        cluster_id: String,
        engine: EngineHandle,
        directory: Arc<Directory>,
    ) -> Self {
        let requests = Budget::new(settings.queued_request_bytes_max);
        Self { settings, cluster_id, engine, directory, requests }
    }
}

/// Bytes of requests that may wait.
#[derive(Debug)]
pub(crate) struct Budget {
    permits: Arc<Semaphore>,
    all: u32,
}

/// Room for a request; given back when dropped.
#[derive(Debug)]
pub(crate) struct Room {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Budget {
    pub(crate) fn new(bytes: usize) -> Self {
        // Half of what fits a semaphore at most: far more than any memory.
        let all = u32::try_from(bytes / BYTES_PER_PERMIT).unwrap_or(u32::MAX / 2).clamp(1, u32::MAX / 2);
        Self { permits: Arc::new(Semaphore::new(all as usize)), all }
    }

    /// Waits until there is room for a request of `bytes`. One that is larger than all room there is takes all of it.
    pub(crate) async fn room_for(&self, bytes: usize) -> Room {
        let permits = u32::try_from(bytes / BYTES_PER_PERMIT + 1).unwrap_or(u32::MAX).min(self.all);
        Room { _permit: Arc::clone(&self.permits).acquire_many_owned(permits).await.ok() }
    }
}
