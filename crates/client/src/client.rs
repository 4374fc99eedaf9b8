//! The way in: one [`Client`] for a cluster, from which producers, consumers and the administrator's calls are made.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use atonce_client_core::backoff::Backoff;
use atonce_kernel::TransactionalId;

use crate::admin::Admin;
use crate::cluster::{Cluster, Settings, addresses};
use crate::connector::{Connector, TcpConnector};
use crate::consumer::ConsumerBuilder;
use crate::error::ConnectError;
use crate::metrics::Metrics;
use crate::producer::ProducerBuilder;
use crate::read_process_write::ReadProcessWrite;
use crate::transaction::TransactionalProducerBuilder;

/// Settings of a [`Client`] to be.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let broker = atonce_broker::Broker::temporary().await?;
/// use std::time::Duration;
///
/// use atonce_client::Client;
///
/// let client = Client::builder(broker.bootstrap_servers())
///     .client_id("billing")
///     .request_timeout(Duration::from_secs(10))
///     .connect()
///     .await?;
/// assert_eq!(client.admin().describe_cluster().await?.brokers.len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ClientBuilder {
    bootstrap_servers: String,
    client_id: String,
    connector: Arc<dyn Connector>,
    request_timeout: Duration,
    connect_timeout: Duration,
    retry_backoff: Duration,
    retry_backoff_max: Duration,
    idle_max: Duration,
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("bootstrap_servers", &self.bootstrap_servers)
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}

impl ClientBuilder {
    /// How this client calls itself; brokers log it. `atonce` unless set.
    #[must_use]
    pub fn client_id(mut self, client_id: impl Into<String>) -> Self {
        self.client_id = client_id.into();
        self
    }

    /// How connections are opened; [`TcpConnector`] unless set.
    #[must_use]
    pub fn connector(mut self, connector: Arc<dyn Connector>) -> Self {
        self.connector = connector;
        self
    }

    /// How long a broker may take to answer before its connection is given up; 30 s unless set.
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// How long opening a connection may take; 10 s unless set.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long to wait before something that failed is tried again, for the first time; doubled with each failure. 100 ms
    /// unless set (`retry.backoff.ms`, KIP-580).
    #[must_use]
    pub fn retry_backoff(mut self, backoff: Duration) -> Self {
        self.retry_backoff = backoff;
        self
    }

    /// The most that is waited before something is tried again; 1 s unless set (`retry.backoff.max.ms`).
    #[must_use]
    pub fn retry_backoff_max(mut self, backoff: Duration) -> Self {
        self.retry_backoff_max = backoff;
        self
    }

    /// After how long without a request a connection is closed; 9 minutes unless set (`connections.max.idle.ms`), less than
    /// brokers wait. It is opened again when it is needed.
    #[must_use]
    pub fn connections_idle_max(mut self, idle: Duration) -> Self {
        self.idle_max = idle;
        self
    }

    /// Reaches the cluster: asks the bootstrap servers, in turn, for its brokers.
    pub async fn connect(self) -> Result<Client, ConnectError> {
        let Some(bootstrap) = addresses(&self.bootstrap_servers) else {
            return Err(ConnectError::NotAnAddress { text: self.bootstrap_servers });
        };
        let cluster = Cluster::new(Settings {
            bootstrap,
            client_id: self.client_id,
            connector: self.connector,
            request_timeout: self.request_timeout,
            connect_timeout: self.connect_timeout,
            retry_backoff: Backoff::new(self.retry_backoff, self.retry_backoff_max),
            idle_max: self.idle_max,
        });
        match cluster.refresh(Some(&[])).await {
            Ok(()) => Ok(Client { cluster: Arc::new(cluster) }),
            Err(lost) => Err(ConnectError::Unreachable { addresses: self.bootstrap_servers, cause: lost.cause }),
        }
    }
}

/// A cluster, reached. Clones are the same client.
#[derive(Clone)]
pub struct Client {
    cluster: Arc<Cluster>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Client {
    /// A client of the cluster that these servers belong to: `host:port`, several separated by commas.
    #[must_use]
    pub fn builder(bootstrap_servers: impl Into<String>) -> ClientBuilder {
        ClientBuilder {
            bootstrap_servers: bootstrap_servers.into(),
            client_id: "atonce".to_owned(),
            connector: Arc::new(TcpConnector),
            request_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(10),
            retry_backoff: Duration::from_millis(100),
            retry_backoff_max: Duration::from_secs(1),
            idle_max: Duration::from_secs(9 * 60),
        }
    }

    pub(crate) fn cluster(&self) -> Arc<Cluster> {
        Arc::clone(&self.cluster)
    }

    /// What this client has done so far, with all its producers and consumers: see [`metrics`](crate::metrics).
    #[must_use]
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.cluster.metrics)
    }

    /// The administrator's calls.
    #[must_use]
    pub fn admin(&self) -> Admin {
        Admin::new(self.clone())
    }

    /// An idempotent producer.
    #[must_use]
    pub fn producer(&self) -> ProducerBuilder {
        ProducerBuilder::new(self.clone())
    }

    /// A producer that writes in transactions, under a name that outlives it.
    #[must_use]
    pub fn transactional_producer(&self, transactional_id: impl Into<TransactionalId>) -> TransactionalProducerBuilder {
        TransactionalProducerBuilder::new(self.clone(), transactional_id.into())
    }

    /// The loop that reads, processes and writes, exactly once, as one call. `name` is its group, and the beginning of its
    /// transactional id.
    pub fn read_process_write(&self, name: impl Into<String>) -> ReadProcessWrite {
        ReadProcessWrite::new(self, name.into())
    }

    /// A consumer.
    #[must_use]
    pub fn consumer(&self) -> ConsumerBuilder {
        ConsumerBuilder::new(self.clone())
    }
}
