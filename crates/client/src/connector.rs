//! How bytes reach a broker: TCP by default; within one process, or through a faulty network in tests, by a
//! [`Connector`] of one's own.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
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

/// How long one address of several is tried: one that swallows packets must not use up the time for those that answer.
const ONE_OF_SEVERAL_TIMEOUT: Duration = Duration::from_secs(3);

/// Tries the addresses of a name in the resolver's order (`client.dns.lookup`'s `use_all_dns_ips`).
async fn connect_to_one_of(address: &BrokerAddress) -> io::Result<TcpStream> {
    let addresses = tokio::net::lookup_host((address.host.as_str(), address.port)).await?;
    connect_in_turn(&address.host, addresses).await
}

async fn connect_in_turn(host: &str, addresses: impl Iterator<Item = SocketAddr>) -> io::Result<TcpStream> {
    let mut addresses = addresses.peekable();
    let mut last = io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address"));
    while let Some(one) = addresses.next() {
        let attempt = TcpStream::connect(one);
        let connected = if addresses.peek().is_none() {
            attempt.await
        } else {
            let timed_out = |_| io::Error::new(io::ErrorKind::TimedOut, format!("{one} does not answer"));
            tokio::time::timeout(ONE_OF_SEVERAL_TIMEOUT, attempt).await.map_err(timed_out).flatten()
        };
        match connected {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Connects by TCP, without Nagle's delay and with keep-alive; a name with several addresses is tried in the resolver's
/// order.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpConnector;

impl Connector for TcpConnector {
    fn connect<'a>(&'a self, address: &'a BrokerAddress) -> Connecting<'a> {
        Box::pin(async move {
            let stream = connect_to_one_of(address).await?;
            stream.set_nodelay(true)?;
            let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL);
            SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
            Ok(Box::new(stream) as Box<dyn Transport>)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn of_several_addresses_the_first_that_answers_is_taken() {
        let listening = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let good = listening.local_addr().expect("is bound");
        // Bound, and not listening: whoever connects is refused, and nobody else gets the port.
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let refused = socket.local_addr().expect("is bound");
        let stream = connect_in_turn("name", [refused, good, refused].into_iter()).await.expect("connects");
        assert_eq!(stream.peer_addr().expect("is connected"), good);
        let error = connect_in_turn("name", [refused, refused].into_iter()).await.map(drop).expect_err("is refused");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        let error = connect_in_turn("name", std::iter::empty()).await.map(drop).expect_err("there is none");
        assert_eq!(error.to_string(), "name has no address");
    }
}
