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
    requests: Arc<Semaphore>,
}

/// Room for a request; given back when dropped.
#[derive(Debug)]
pub(crate) struct RequestPermit {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Shared {
    pub(crate) fn new(
        settings: Arc<Settings>,
        cluster_id: String,
        engine: EngineHandle,
        directory: Arc<Directory>,
    ) -> Self {
        let permits = (settings.queued_request_bytes_max / BYTES_PER_PERMIT).clamp(1, u32::MAX as usize);
        Self { settings, cluster_id, engine, directory, requests: Arc::new(Semaphore::new(permits)) }
    }

    /// Waits until there is room for a request of `bytes`. One that is larger than all room there is takes all of it.
    pub(crate) async fn request_permit(&self, bytes: usize) -> RequestPermit {
        let all = (self.settings.queued_request_bytes_max / BYTES_PER_PERMIT).clamp(1, u32::MAX as usize);
        let permits = u32::try_from((bytes / BYTES_PER_PERMIT + 1).min(all)).unwrap_or(u32::MAX);
        RequestPermit { _permit: Arc::clone(&self.requests).acquire_many_owned(permits).await.ok() }
    }
}
