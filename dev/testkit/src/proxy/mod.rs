//! A network that drops, delays and cuts: a proxy between clients and the brokers of a cluster, commanded by a test.
//!
//! **What it does not know**: which client, which broker; what a request means. It cuts the streams into frames, keeps
//! which request an answer belongs to, and puts its own addresses in the place of the brokers' wherever an answer tells
//! them, so that clients stay on it. Everything else goes through byte by byte.
//!
//! Two ways to spoil things:
//!
//! - a [`Plan`] for a chosen request: the third Produce, every EndTxn of one client. It is lost, or goes through while its
//!   answer is lost; is cut after so many bytes, in either direction; is held until the test releases it; is swallowed;
//!   or its answer is changed.
//! - the [`Weather`], for all: delays, a slow line, cuts in the middle of a frame by chance. Chance comes from the seed
//!   given, for each connection and direction a stream of its own, so that one seed spoils the same frames of the same
//!   conversation. And the [`Path`] to one broker or all: open, refused, or a black hole.
//!
//! ```no_run
//! # async fn example() -> std::io::Result<()> {
//! use atonce_protocol::ApiKey;
//! use atonce_testkit::proxy::Proxy;
//!
//! let proxy = Proxy::start("127.0.0.1:9092", 7).await?;
//! let servers = proxy.bootstrap_servers(); // for the client
//! let lost = proxy.next(ApiKey::EndTxn).lose_answer();
//! // … commit …
//! lost.happened().await;
//! # Ok(())
//! # }
//! ```
//!
//! Invariants: what a plan says happens to exactly the requests that it names, whatever the weather; a request that was
//! held reaches the broker when it is released, also if its client has gone; answers come in the broker's order.

mod pump;
mod rewrite;
mod rules;

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atonce_kernel::chance::Chance;
use atonce_protocol::{AnyResponse, ApiKey};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::watch;

use rules::Rule;
pub use rules::{Plan, Planned};

/// What all connections suffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weather {
    /// The most that a frame is late, in either direction; how much it is, is drawn.
    pub delay_max: Duration,
    /// How much a connection carries in a direction; no limit if `None`. Not zero.
    pub bytes_per_second: Option<u32>,
    /// One frame in so many, of either direction, is cut in the middle, and its connection closed; none if zero.
    pub cut_one_frame_in: u64,
}

/// The way to a broker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Path {
    /// As it should be.
    #[default]
    Open,
    /// Connections are closed, and new ones as soon as they are opened.
    Refused,
    /// Connections stay and are opened, and nothing comes through, either way. When the path changes, those that lost
    /// something by it are closed.
    BlackHole,
}

/// Paths by broker, and for those that are not named.
#[derive(Clone, Debug, Default)]
struct Paths {
    all: Path,
    one: BTreeMap<String, Path>,
}

impl Paths {
    fn to(&self, broker: &str) -> Path {
        self.one.get(broker).copied().unwrap_or(self.all)
    }
}

/// Changes an answer, given the version it is in.
type Change = dyn Fn(&mut AnyResponse, i16) + Send + Sync;

struct Shared {
    runtime: Handle,
    chance: Chance,
    weather: Mutex<Weather>,
    paths: watch::Sender<Paths>,
    /// Counts up whenever all connections are to be closed.
    cuts: watch::Sender<u64>,
    /// The port here for each broker's address there.
    ports: Mutex<BTreeMap<String, u16>>,
    /// Brokers that are reached at another address than the one that they tell.
    moved: Mutex<BTreeMap<String, String>>,
    rules: Mutex<Vec<Arc<Rule>>>,
    changes: Mutex<Vec<(ApiKey, Arc<Change>)>>,
    seen: Mutex<BTreeMap<ApiKey, u64>>,
    connections: AtomicU64,
    cut_frames: AtomicU64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The proxy. Clones are the same one; it ends with its runtime.
#[derive(Clone)]
pub struct Proxy {
    shared: Arc<Shared>,
    bootstrap: String,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy").field("bootstrap", &self.bootstrap).finish_non_exhaustive()
    }
}

impl Proxy {
    /// Stands before the brokers of these addresses (`host:port`, several separated by commas), and of those that their
    /// answers tell of.
    ///
    /// Panics: outside a tokio runtime.
    pub async fn start(servers: &str, seed: u64) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            runtime: Handle::current(),
            chance: Chance::from_seed(seed),
            weather: Mutex::default(),
            paths: watch::Sender::new(Paths::default()),
            cuts: watch::Sender::new(0),
            ports: Mutex::default(),
            moved: Mutex::default(),
            rules: Mutex::default(),
            changes: Mutex::default(),
            seen: Mutex::default(),
            connections: AtomicU64::new(0),
            cut_frames: AtomicU64::new(0),
        });
        let mut bootstrap = Vec::new();
        for server in servers.split(',').map(str::trim).filter(|server| !server.is_empty()) {
            bootstrap.push(format!("127.0.0.1:{}", shared.port_for(server)?));
        }
        Ok(Self { shared, bootstrap: bootstrap.join(",") })
    }

    /// What a client is to be given in the place of the brokers' addresses.
    #[must_use]
    pub fn bootstrap_servers(&self) -> String {
        self.bootstrap.clone()
    }

    /// The next request of this API that comes.
    pub fn next(&self, api: ApiKey) -> Plan {
        self.nth(api, 1)
    }

    /// The `nth` request of this API from now on; the first is 1.
    pub fn nth(&self, api: ApiKey, nth: u64) -> Plan {
        Plan::new(self.clone(), api, nth.saturating_sub(1), 1)
    }

    /// All requests of this API, until [`Planned::cancel`].
    pub fn every(&self, api: ApiKey) -> Plan {
        Plan::new(self.clone(), api, 0, u64::MAX)
    }

    /// Changes all answers of this API from now on; `change` is given the version too. Changes of one API add up.
    pub fn change_answers(&self, api: ApiKey, change: impl Fn(&mut AnyResponse, i16) + Send + Sync + 'static) {
        locked(&self.shared.changes).push((api, Arc::new(change)));
    }

    /// From now on, for all connections.
    pub fn set_weather(&self, weather: Weather) {
        *locked(&self.shared.weather) = weather;
    }

    /// The way to all brokers, whatever was said of single ones.
    pub fn set_path(&self, path: Path) {
        self.shared.paths.send_replace(Paths { all: path, one: BTreeMap::new() });
    }

    /// The way to the broker that says that its address is `broker` (`host:port`).
    pub fn set_path_to(&self, broker: &str, path: Path) {
        self.shared.paths.send_modify(|paths| {
            paths.one.insert(broker.to_owned(), path);
        });
    }

    /// Closes all connections; new ones can be opened.
    pub fn cut_all(&self) {
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// The broker that says that its address is `broker` is in truth found at `address`: it was started again elsewhere.
    /// Connections that are open stay where they are.
    pub fn move_broker(&self, broker: &str, address: &str) {
        locked(&self.shared.moved).insert(broker.to_owned(), address.to_owned());
    }

    /// How many requests of this API came.
    #[must_use]
    pub fn requests(&self, api: ApiKey) -> u64 {
        locked(&self.shared.seen).get(&api).copied().unwrap_or(0)
    }

    /// How many connections were opened.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// How many frames the weather has cut.
    #[must_use]
    pub fn cuts(&self) -> u64 {
        self.shared.cut_frames.load(Ordering::Relaxed)
    }

    fn plan(&self, rule: Arc<Rule>) {
        locked(&self.shared.rules).push(rule);
    }
}

impl Shared {
    /// The port that stands for a broker; made when it is asked for the first time.
    fn port_for(self: &Arc<Self>, broker: &str) -> io::Result<u16> {
        let mut ports = locked(&self.ports);
        if let Some(port) = ports.get(broker) {
            return Ok(*port);
        }
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let _in_runtime = self.runtime.enter();
        let listener = TcpListener::from_std(listener)?;
        ports.insert(broker.to_owned(), port);
        self.runtime.spawn(Arc::clone(self).accept(listener, broker.to_owned()));
        Ok(port)
    }

    async fn accept(self: Arc<Self>, listener: TcpListener, broker: String) {
        // An error of `accept` is that of one connection, or passes (too many open files): a short rest, and on.
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let number = self.connections.fetch_add(1, Ordering::Relaxed);
                    tokio::spawn(pump::run(Arc::clone(&self), stream, broker.clone(), self.chance.derive(number)));
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }

    /// Where a broker is to be found.
    fn address_of(&self, broker: &str) -> String {
        locked(&self.moved).get(broker).cloned().unwrap_or_else(|| broker.to_owned())
    }

    fn weather(&self) -> Weather {
        *locked(&self.weather)
    }

    /// A request came: whether a plan is about it.
    fn rule_for(&self, api: ApiKey, client_id: Option<&str>) -> Option<Arc<Rule>> {
        *locked(&self.seen).entry(api).or_default() += 1;
        let mut rules = locked(&self.rules);
        rules.retain(|rule| !rule.is_over());
        // Every rule counts every request; the one that was planned first has it.
        let mut found = None;
        for rule in rules.iter() {
            if rule.is_due(api, client_id, found.is_some()) {
                found = Some(Arc::clone(rule));
            }
        }
        found
    }

    fn changes_of(&self, api: ApiKey) -> Vec<Arc<Change>> {
        let changes = locked(&self.changes);
        changes.iter().filter(|(key, _)| *key == api).map(|(_, change)| Arc::clone(change)).collect()
    }
}

#[cfg(test)]
mod tests;
