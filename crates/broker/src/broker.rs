//! [`Broker`]: starts, stops and crashes the whole; listens; hands out in-process connections.
//!
//! **What it does not know**: any request. It owns the tasks and the writer thread, and nothing else.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::DuplexStream;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::Durability;
use crate::configuration::{self, ConfigurationError, HostAndPort, Properties};
use crate::connection::{self, Peer};
use crate::disk::StdFile;
use crate::engine::{self, EngineThread, Stop};
use crate::folder_lock::{FolderLock, FolderLockError};
use crate::operations::{Health, HealthBoard, Offers, Server};
use crate::shared::Shared;

/// Bytes that fit into each direction of an in-process connection.
const IN_PROCESS_BUFFER_BYTES: usize = 256 * 1024;

/// How a broker is set up. Made by [`Broker::builder`].
#[derive(Clone, Debug)]
pub struct BrokerBuilder {
    data: Option<DataPlace>,
    listen: Option<String>,
    advertised: Option<HostAndPort>,
    durability: Durability,
    properties: Vec<(String, String)>,
    allow_unauthenticated: bool,
    health: Option<String>,
    metrics: Option<String>,
}

#[derive(Clone, Debug)]
enum DataPlace {
    Folder(PathBuf),
    Temporary,
}

/// Why a broker did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Another broker uses the folder.
    #[error("the data folder {0} is in use by another broker: stop that one, or choose another folder")]
    FolderInUse(PathBuf),
    /// The folder cannot be used.
    #[error("the data folder {path} cannot be used: {source}")]
    Folder {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The address can be reached from elsewhere, and nobody would have to say who they are.
    #[error(
        "{0} can be reached from other machines, and there is no authentication: listen on a loopback address, or allow unauthenticated access"
    )]
    Unauthenticated(SocketAddr),
    /// A setting is wrong.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// What is in the folder cannot be served.
    #[error("the data in {path} cannot be served: {reason}")]
    Recovery {
        /// The folder.
        path: PathBuf,
        /// What is wrong, and where.
        reason: String,
    },
    /// The thread that writes could not be started.
    #[error("the writer thread could not be started: {0}")]
    Thread(io::Error),
    /// It runs already.
    #[error("the broker is running")]
    Running,
}

/// The broker is not running, so there is nothing to talk to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the broker is not running")]
pub struct NotRunning;

/// The broker could not stop cleanly; the next start will recover as after a crash.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the broker did not stop cleanly, and recovers at its next start: {0}")]
pub struct StopError(pub(crate) String);

/// A broker in this process.
///
/// Dropping it is a crash: nothing that was acknowledged is lost, and the next start recovers. A temporary one takes its
/// data with it.
#[derive(Debug)]
pub struct Broker {
    builder: BrokerBuilder,
    folder: PathBuf,
    /// Where it listens, with the port that was found: a restart comes back to the same one.
    address: SocketAddr,
    running: Mutex<Option<Running>>,
    /// What the probes look at, and the servers of their pages.
    health_board: Arc<HealthBoard>,
    health: Option<Arc<Server>>,
    metrics: Option<Arc<Server>>,
    /// Removed when this is dropped, which is after `running`.
    _temporary: Option<tempfile::TempDir>,
}

#[derive(Debug)]
struct Running {
    shared: Arc<Shared>,
    /// Flips to true when the connections are to end.
    closing: watch::Sender<bool>,
    listening: tokio::task::JoinHandle<()>,
    /// Ends with the connections.
    _watching: Vec<tokio::task::JoinHandle<()>>,
    advertised: Option<HostAndPort>,
    engine: Option<EngineThread>,
    _lock: FolderLock,
}

impl Broker {
    /// A broker to be set up. Without a data folder it is [temporary](BrokerBuilder::temporary).
    #[must_use]
    pub fn builder() -> BrokerBuilder {
        BrokerBuilder {
            data: None,
            listen: None,
            advertised: None,
            durability: Durability::Sync,
            properties: Vec::new(),
            allow_unauthenticated: false,
            health: None,
            metrics: None,
        }
    }

    /// A broker for a test: a free port, a temporary folder, gone when dropped. A group's first rebalance does not wait
    /// for more members.
    pub async fn temporary() -> Result<Self, StartError> {
        Self::builder().temporary().property("group.initial.rebalance.delay.ms", "0").start().await
    }

    /// `HOST:PORT`, for clients.
    #[must_use]
    pub fn bootstrap_servers(&self) -> String {
        let (host, port) = self.advertised();
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    /// Where clients are told to connect.
    fn advertised(&self) -> HostAndPort {
        let advertised = self.running().as_ref().and_then(|running| running.advertised.clone());
        advertised.or_else(|| self.builder.advertised.clone()).unwrap_or_else(|| host_and_port(reachable(self.address)))
    }

    /// Where the probes `/live` and `/ready` are answered, if they were asked for.
    #[must_use]
    pub fn health_address(&self) -> Option<SocketAddr> {
        self.health.as_ref().map(|server| server.address())
    }

    /// Where `/metrics` is answered, if it was asked for.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(|server| server.address())
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the data is.
    #[must_use]
    pub fn data_path(&self) -> &Path {
        &self.folder
    }

    /// A connection without a socket: the same protocol, byte for byte.
    pub fn connect_in_process(&self) -> Result<DuplexStream, NotRunning> {
        let running = self.running();
        let running = running.as_ref().ok_or(NotRunning)?;
        let (ours, theirs) = tokio::io::duplex(IN_PROCESS_BUFFER_BYTES);
        let advertised = running.advertised.clone().unwrap_or_else(|| host_and_port(reachable(self.address)));
        let peer = Peer { host: "in-process".to_owned(), advertised, takes_files: false };
        let shared = Arc::clone(&running.shared);
        let mut closing = running.closing.subscribe();
        tokio::spawn(async move {
            tokio::select! {
                () = connection::serve(tokio::io::split(ours), peer, shared) => {}
                () = closed(&mut closing) => {}
            }
        });
        Ok(theirs)
    }

    /// Ends cleanly: connections close, a checkpoint is written, the folder is free. Twice is once.
    pub async fn shutdown(&self) -> Result<(), StopError> {
        self.stop(Stop::Clean).await
    }

    /// Ends as SIGKILL would: nothing more is written, nothing is finished. [`Broker::restart`] recovers.
    pub async fn crash(&self) -> Result<(), StopError> {
        self.stop(Stop::Crash).await
    }

    /// Starts again, at the same address, with the same data and settings.
    pub async fn restart(&self) -> Result<(), StartError> {
        if self.running().is_some() {
            return Err(StartError::Running);
        }
        let builder = BrokerBuilder { listen: Some(self.address.to_string()), ..self.builder.clone() };
        self.health_board.set(Health::Starting);
        let (_, running) = builder.run(&self.folder, &self.health_board).await?;
        *self.running() = Some(running);
        Ok(())
    }

    /// Waits until the broker has stopped by itself, because its disk failed, and says why. Never returns while it serves,
    /// nor after it was stopped in words.
    pub async fn failure(&self) -> StopError {
        let failure = self.running().as_ref().and_then(|running| running.engine.as_ref()).map(EngineThread::failure);
        if let Some(mut failure) = failure
            && let Ok(failed) = failure.wait_for(Option::is_some).await
            && let Some(error) = &*failed
        {
            return error.clone();
        }
        std::future::pending().await
    }

    async fn stop(&self, how: Stop) -> Result<(), StopError> {
        let Some(mut running) = self.running().take() else { return Ok(()) };
        self.health_board.set(Health::Stopping);
        running.closing.send_replace(true);
        running.listening.abort();
        // Until the listening task is gone its port is taken.
        let _ = (&mut running.listening).await;
        let Some(engine) = running.engine.take() else { return Ok(()) };
        let stopped = tokio::task::spawn_blocking(move || engine.stop(how))
            .await
            .map_err(|error| StopError(error.to_string()))?;
        drop(running);
        stopped
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.closing.send_replace(true);
        self.listening.abort();
        if let Some(engine) = self.engine.take() {
            // Waits for the write in hand, if there is one: the folder must not be removed, nor locked again, under it.
            let _ = engine.stop(Stop::Crash);
        }
    }
}

impl BrokerBuilder {
    /// Keeps its data in `path`, which is made if need be.
    #[must_use]
    pub fn data_path(mut self, path: impl Into<PathBuf>) -> Self {
        self.data = Some(DataPlace::Folder(path.into()));
        self
    }

    /// Keeps its data in a folder that is removed with the broker.
    #[must_use]
    pub fn temporary(mut self) -> Self {
        self.data = Some(DataPlace::Temporary);
        self
    }

    /// Listens on `address`, `HOST:PORT`; port 0 finds a free one. Default: the property `listeners`, else `127.0.0.1:0`.
    #[must_use]
    pub fn listen(mut self, address: impl Into<String>) -> Self {
        self.listen = Some(address.into());
        self
    }

    /// Tells clients to reach this node at `host:port`, when that is not where it listens.
    #[must_use]
    pub fn advertise(mut self, host: impl Into<String>, port: u16) -> Self {
        self.advertised = Some((host.into(), port));
        self
    }

    /// What an acknowledgement survives. Default: power loss.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets one of Kafka's dotted keys. Unknown ones are refused at the start.
    #[must_use]
    pub fn property(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.push((key.into(), value.into()));
        self
    }

    /// Sets what a file in Kafka's form says: a key and a value a line, `#` for comments. What is set later holds.
    ///
    /// Errors: a line that is no setting. Keys are looked at when the broker starts.
    pub fn configuration(mut self, text: &str) -> Result<Self, ConfigurationError> {
        let lines = configuration::parse_properties(text)?;
        self.properties.extend(lines.into_iter().map(|(_, key, value)| (key, value)));
        Ok(self)
    }

    /// Whether one of Kafka's keys was set, here or in a file.
    #[must_use]
    pub fn is_set(&self, key: &str) -> bool {
        self.properties.iter().any(|(set, _)| set == key)
    }

    /// Answers probes at `address`, `HOST:PORT`: `/live` and `/ready`, over HTTP. Off unless asked for.
    #[must_use]
    pub fn health(mut self, address: impl Into<String>) -> Self {
        self.health = Some(address.into());
        self
    }

    /// Shows numbers at `address`, `HOST:PORT`: `/metrics`, for Prometheus. Off unless asked for.
    #[must_use]
    pub fn metrics(mut self, address: impl Into<String>) -> Self {
        self.metrics = Some(address.into());
        self
    }

    /// Lets an address be listened on that others can reach, though nobody has to say who they are.
    #[must_use]
    pub fn allow_unauthenticated(mut self) -> Self {
        self.allow_unauthenticated = true;
        self
    }

    /// Takes the folder, recovers what is in it, and listens.
    pub async fn start(self) -> Result<Broker, StartError> {
        let properties = self.read_properties()?;
        let said = properties.given("log.dirs").or_else(|| properties.given("log.dir"));
        let data = match (&self.data, said) {
            (Some(data), _) => data.clone(),
            (None, Some(path)) => DataPlace::Folder(PathBuf::from(path)),
            (None, None) => DataPlace::Temporary,
        };
        let (folder, temporary) = match data {
            DataPlace::Folder(path) => (path, None),
            DataPlace::Temporary => {
                let temporary = tempfile::Builder::new()
                    .prefix("atonce-")
                    .tempdir()
                    .map_err(|source| StartError::Folder { path: std::env::temp_dir(), source })?;
                (temporary.path().to_owned(), Some(temporary))
            }
        };
        let health_board = Arc::new(HealthBoard::default());
        let (health, metrics) = self.serve_pages(&health_board).await?;
        let (address, running) = self.run(&folder, &health_board).await?;
        let running = Mutex::new(Some(running));
        Ok(Broker { builder: self, folder, address, running, health_board, health, metrics, _temporary: temporary })
    }

    /// Before anything else: whoever waits for the broker to be ready can ask from the beginning.
    async fn serve_pages(
        &self,
        board: &Arc<HealthBoard>,
    ) -> Result<(Option<Arc<Server>>, Option<Arc<Server>>), StartError> {
        let start = async |address: &str, health, metrics| {
            let offers = Offers { health, metrics };
            let started = Server::start(address, offers, Arc::clone(board)).await;
            started.map(Arc::new).map_err(|source| StartError::Listen { address: address.to_owned(), source })
        };
        match (&self.health, &self.metrics) {
            (Some(health), Some(metrics)) if health == metrics => {
                let both = start(health, true, true).await?;
                Ok((Some(Arc::clone(&both)), Some(both)))
            }
            (health, metrics) => {
                let health = match health {
                    Some(address) => Some(start(address, true, false).await?),
                    None => None,
                };
                let metrics = match metrics {
                    Some(address) => Some(start(address, false, true).await?),
                    None => None,
                };
                Ok((health, metrics))
            }
        }
    }

    fn read_properties(&self) -> Result<Properties, ConfigurationError> {
        let mut properties = Properties::default();
        for (key, value) in &self.properties {
            properties.set(key, value)?;
        }
        Ok(properties)
    }

    /// Where to listen: as said in words, else as the property says, else at any free port of this machine.
    fn listen_address(&self, properties: &Properties) -> Result<String, ConfigurationError> {
        if let Some(address) = &self.listen {
            return Ok(address.clone());
        }
        let Some(listeners) = properties.given("listeners") else { return Ok("127.0.0.1:0".to_owned()) };
        let (host, port) = configuration::parse_listeners("listeners", listeners, &controllers(properties))?;
        Ok(match host.as_str() {
            "" => format!("0.0.0.0:{port}"),
            host if host.contains(':') => format!("[{host}]:{port}"),
            host => format!("{host}:{port}"),
        })
    }

    /// Where clients are told to connect, if that is not where each of them has reached us.
    fn advertised_address(&self, properties: &Properties) -> Result<Option<HostAndPort>, ConfigurationError> {
        if self.advertised.is_some() {
            return Ok(self.advertised.clone());
        }
        let Some(said) = properties.given("advertised.listeners") else { return Ok(None) };
        let found = configuration::parse_listeners("advertised.listeners", said, &controllers(properties))?;
        Ok(Some(found).filter(|(host, _)| !host.is_empty()))
    }

    async fn run(&self, folder: &Path, board: &Arc<HealthBoard>) -> Result<(SocketAddr, Running), StartError> {
        let mut properties = self.read_properties()?;
        let advertised = self.advertised_address(&properties)?;
        let listen_on = self.listen_address(&properties)?;
        let listener = self.listener(&listen_on).await?;
        let address =
            listener.local_addr().map_err(|source| StartError::Listen { address: listen_on.clone(), source })?;
        let (host, port) = advertised.clone().unwrap_or_else(|| host_and_port(reachable(address)));
        // Tools ask for these, however they were said.
        properties.set("listeners", &format!("PLAINTEXT://{address}"))?;
        properties.set("advertised.listeners", &format!("PLAINTEXT://{host}:{port}"))?;
        for key in properties.without_effect() {
            tracing::warn!(
                key,
                "this setting has no effect here; it is accepted so that a file of Kafka's may stay as it is"
            );
        }
        let settings = Arc::new(properties.settings());
        let lock = FolderLock::take(folder).map_err(|error| match error {
            FolderLockError::InUse(path) => StartError::FolderInUse(path),
            FolderLockError::Io { path, source } => StartError::Folder { path, source },
        })?;
        let (engine, shared) = engine::start(folder.to_owned(), self.durability, settings).await?;
        let (closing, _) = watch::channel(false);
        let listening = tokio::spawn(listen(listener, advertised.clone(), Arc::clone(&shared), closing.subscribe()));
        let watching = vec![
            tokio::spawn(watch_folder(folder.to_owned(), Arc::clone(&shared), closing.subscribe())),
            tokio::spawn(tell_of_failure(engine.failure(), Arc::clone(board), closing.subscribe())),
        ];
        board.set(Health::Serving(Arc::clone(&shared)));
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            address = %address,
            folder = %folder.display(),
            durability = ?self.durability,
            node_id = shared.settings.node_id,
            cluster_id = shared.cluster_id,
            "serving"
        );
        let engine = Some(engine);
        Ok((address, Running { shared, closing, listening, _watching: watching, advertised, engine, _lock: lock }))
    }

    async fn listener(&self, listen: &str) -> Result<TcpListener, StartError> {
        let failed = |source| StartError::Listen { address: listen.to_owned(), source };
        let addresses: Vec<SocketAddr> = tokio::net::lookup_host(listen).await.map_err(failed)?.collect();
        if !self.allow_unauthenticated
            && let Some(open) = addresses.iter().find(|address| !address.ip().is_loopback())
        {
            return Err(StartError::Unauthenticated(*open));
        }
        TcpListener::bind(&addresses[..]).await.map_err(failed)
    }
}

/// How often to look whether the data folder is still there.
const FOLDER_INTERVAL: Duration = Duration::from_secs(1);

/// Names of listeners that are for controllers only.
fn controllers(properties: &Properties) -> Vec<&str> {
    let names = properties.given("controller.listener.names").unwrap_or_default();
    names.split(',').map(str::trim).filter(|name| !name.is_empty()).collect()
}

/// Stops the writer when the data folder is gone or another one is in its place: files that are open would go on taking what
/// nobody will ever find again.
async fn watch_folder(folder: PathBuf, shared: Arc<Shared>, mut closing: watch::Receiver<bool>) {
    let identity = {
        let folder = folder.clone();
        move || std::fs::metadata(&folder).map(|metadata| (metadata.dev(), metadata.ino()))
    };
    let Ok(first) = identity() else { return };
    loop {
        tokio::select! {
            () = tokio::time::sleep(FOLDER_INTERVAL) => {}
            () = closed(&mut closing) => return,
        }
        let look = identity.clone();
        let what = match tokio::task::spawn_blocking(look).await {
            Ok(Ok(now)) if now == first => continue,
            Ok(Ok(_)) => "another folder is in the place of the data folder".to_owned(),
            Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => "the data folder is gone".to_owned(),
            // It may be well again at the next look.
            Ok(Err(error)) => {
                tracing::warn!(folder = %folder.display(), %error, "the data folder cannot be looked at");
                continue;
            }
            Err(_) => return,
        };
        let reason = format!("{what}: {}; what was acknowledged lately is lost with it", folder.display());
        shared.engine.submit(Box::new(move |engine| engine.fail(reason)));
        return;
    }
}

/// Shows to probes that the writer has ended by itself.
async fn tell_of_failure(
    mut failure: watch::Receiver<Option<StopError>>,
    board: Arc<HealthBoard>,
    mut closing: watch::Receiver<bool>,
) {
    tokio::select! {
        failed = failure.wait_for(Option::is_some) => {
            if let Ok(failed) = failed && let Some(error) = &*failed {
                board.set(Health::Failed(error.to_string()));
            }
        }
        () = closed(&mut closing) => {}
    }
}

/// Accepts connections, one task each. They end with this task, or when `closing` says so.
async fn listen(
    listener: TcpListener,
    advertised: Option<HostAndPort>,
    shared: Arc<Shared>,
    mut closing: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) if connections.len() < shared.settings.connections_max => {
                    let advertised = advertised.clone();
                    let shared = Arc::clone(&shared);
                    connections.spawn(async move { serve_tcp(stream, peer, advertised, shared).await });
                }
                Ok((_, peer)) => {
                    shared.metrics.connection_refused();
                    tracing::warn!(%peer, "too many connections (connections.max): closed");
                }
                // Out of file handles, or a connection that was gone before it was taken: the next one may do better.
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                }
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            () = closed(&mut closing) => break,
        }
    }
}

/// Returns when the connections are to end, also when nobody is left to say so.
async fn closed(closing: &mut watch::Receiver<bool>) {
    let _ = closing.wait_for(|closing| *closing).await;
}

async fn serve_tcp(stream: TcpStream, peer: SocketAddr, advertised: Option<HostAndPort>, shared: Arc<Shared>) {
    // Answers are small and awaited: do not hold them back to fill a packet.
    let _ = stream.set_nodelay(true);
    let Ok(local) = stream.local_addr() else { return };
    let advertised = advertised.unwrap_or_else(|| host_and_port(local));
    let peer = Peer { host: format!("/{}", peer.ip()), advertised, takes_files: StdFile::SENDS };
    connection::serve(stream.into_split(), peer, shared).await;
}

/// An address that one can connect to, where `address` may be "all of this machine's".
fn reachable(address: SocketAddr) -> SocketAddr {
    let loopback = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::from([127, 0, 0, 1]),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    SocketAddr::new(loopback, address.port())
}

fn host_and_port(address: SocketAddr) -> (String, u16) {
    (address.ip().to_string(), address.port())
}
