//! The way in: one [`Client`] for a cluster, from which producers, consumers and the administrator's calls are made.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use atonce_kernel::TransactionalId;

use crate::admin::Admin;
use crate::cluster::{Cluster, Settings, addresses};
use crate::connector::{Connector, TcpConnector};
use crate::consumer::ConsumerBuilder;
use crate::error::ConnectError;
use crate::producer::ProducerBuilder;
use crate::transaction::TransactionalProducerBuilder;

/// Settings of a [`Client`] to be.
#[derive(Clone)]
pub struct ClientBuilder {
    bootstrap_servers: String,
    client_id: String,
    connector: Arc<dyn Connector>,
    request_timeout: Duration,
    connect_timeout: Duration,
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
        }
    }

    pub(crate) fn cluster(&self) -> Arc<Cluster> {
        Arc::clone(&self.cluster)
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

    /// A consumer.
    #[must_use]
    pub fn consumer(&self) -> ConsumerBuilder {
        ConsumerBuilder::new(self.clone())
    }
}
