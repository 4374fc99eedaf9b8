//! For those who run a broker: whether it is well, and what it does. Off unless asked for.
//!
//! **What it does not know**: requests, storage. It is told numbers, and asks the shared state for others when somebody looks.

mod http;
mod metrics;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::TcpListener;
use tokio::sync::watch;

pub(crate) use http::Status;
pub(crate) use metrics::{Metrics, WriterMetrics, api_name};

use crate::shared::Shared;
use http::{Page, Pages};

/// How a broker is, as its probes see it.
#[derive(Clone, Debug)]
pub(crate) enum Health {
    /// It recovers, or waits for its folder.
    Starting,
    /// It serves.
    Serving(Arc<Shared>),
    /// It has ended by itself, and why.
    Failed(String),
    /// It ends.
    Stopping,
}

/// What the probes look at.
#[derive(Debug)]
pub(crate) struct HealthBoard(Mutex<Health>);

impl Default for HealthBoard {
    fn default() -> Self {
        Self(Mutex::new(Health::Starting))
    }
}

impl HealthBoard {
    pub(crate) fn set(&self, health: Health) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = health;
    }

    fn get(&self) -> Health {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// `GET /live`: whether it makes sense to let this process run on.
    fn live(&self) -> Page {
        match self.get() {
            Health::Starting => Page::text(Status::Ok, "starting\n"),
            Health::Serving(_) => Page::text(Status::Ok, "live\n"),
            Health::Stopping => Page::text(Status::Ok, "stopping\n"),
            Health::Failed(reason) => Page::text(Status::Unavailable, format!("failed: {reason}\n")),
        }
    }

    /// `GET /ready`: whether clients may be sent here.
    fn ready(&self) -> Page {
        match self.get() {
            Health::Starting => Page::text(Status::Unavailable, "starting\n"),
            Health::Serving(_) => Page::text(Status::Ok, "ready\n"),
            Health::Stopping => Page::text(Status::Unavailable, "stopping\n"),
            Health::Failed(reason) => Page::text(Status::Unavailable, format!("failed: {reason}\n")),
        }
    }
}

/// What a server of pages has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offers {
    pub(crate) health: bool,
    pub(crate) metrics: bool,
}

/// A server of pages that was started; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    _ending: watch::Sender<bool>,
}

impl Server {
    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves at `address` what `offers` says. Errors: the address cannot be listened on.
    pub(crate) async fn start(address: &str, offers: Offers, board: Arc<HealthBoard>) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let (ending, ended) = watch::channel(false);
        tokio::spawn(http::serve(listener, Arc::new(Board { offers, board }), ended));
        Ok(Self { address, _ending: ending })
    }
}

struct Board {
    offers: Offers,
    board: Arc<HealthBoard>,
}

impl Pages for Board {
    async fn page(&self, path: &str) -> Option<Page> {
        match path {
            "/live" if self.offers.health => Some(self.board.live()),
            "/ready" if self.offers.health => Some(self.board.ready()),
            "/metrics" if self.offers.metrics => Some(match self.board.get() {
                Health::Serving(shared) => Page::metrics(metrics::text(&shared).await),
                Health::Starting | Health::Stopping | Health::Failed(_) => {
                    Page::text(Status::Unavailable, "not serving\n")
                }
            }),
            _ => None,
        }
    }
}
