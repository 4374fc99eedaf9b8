//! How bytes reach a broker: TCP by default; within one process, or through a faulty network in tests, by a
//! [`Connector`] of one's own.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// Where a broker listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BrokerAddress {
    /// A host name or an IP address.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl fmt::Display for BrokerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// A stream of bytes both ways.
pub trait Transport: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Transport for T {}

/// What [`Connector::connect`] returns.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = io::Result<Box<dyn Transport>>> + Send + 'a>>;

/// Opens streams to brokers.
///
/// ```
/// use std::sync::Arc;
///
/// use atonce_client::{BrokerAddress, Client, Connector};
/// use atonce_client::connector::Connecting;
///
/// /// Goes to one place, whatever address the cluster names: through a tunnel, say.
/// struct Tunnel(BrokerAddress);
///
/// impl Connector for Tunnel {
///     fn connect<'a>(&'a self, _: &'a BrokerAddress) -> Connecting<'a> {
///         atonce_client::TcpConnector.connect(&self.0)
///     }
/// }
///
/// let tunnel = Tunnel(BrokerAddress { host: "localhost".to_owned(), port: 19092 });
/// let builder = Client::builder("broker.example:9092").connector(Arc::new(tunnel));
/// # let _ = builder;
/// ```
pub trait Connector: Send + Sync + 'static {
    /// Opens a stream to the broker at `address`. The client bounds the time it waits.
    fn connect<'a>(&'a self, address: &'a BrokerAddress) -> Connecting<'a>;
}

/// How long a silent connection is left alone before the system asks whether the other side is still there, and how often
/// it asks then. A broker may hold an answer for minutes (JoinGroup does), so only this finds a machine that is gone.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// Connects by TCP, without Nagle's delay and with keep-alive; a name with several addresses is tried in the resolver's
/// order.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpConnector;

impl Connector for TcpConnector {
    fn connect<'a>(&'a self, address: &'a BrokerAddress) -> Connecting<'a> {
        Box::pin(async move {
            let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
            stream.set_nodelay(true)?;
            let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL);
            SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
            Ok(Box::new(stream) as Box<dyn Transport>)
        })
    }
}
