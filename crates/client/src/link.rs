//! One connection, driven by a task of its own: frames out in the order they were asked for, answers in.
//!
//! **What it does not know**: which broker this is to the cluster, what requests mean. After any failure the link is
//! dead, and all that wait on it are told so; whoever asks next opens another.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use atonce_client_core::connection::{Connection, Versions};
use atonce_kernel::Monotonic;
use atonce_protocol::frame::{FrameSplitter, RequestHeader, encode_request};
use atonce_protocol::messages::api_versions_request::ApiVersionsRequest;
use atonce_protocol::messages::api_versions_response::ApiVersionsResponse;
use atonce_protocol::{ApiKey, ErrorCode, Message, Reader, Request};
use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tracing::{debug, warn};

use crate::cluster::{Clock, Settings};
use crate::connector::{BrokerAddress, Transport};
use crate::metrics::Metrics;

/// The largest answer that is taken: above the most that a fetch asks for, with room for one oversized batch.
const FRAME_BYTES_MAX: usize = 512 * 1024 * 1024;

/// Where the correlation id stands in a request's frame: behind length, API key and version.
const CORRELATION_ID_AT: std::ops::Range<usize> = 8..12;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub(crate) struct Lost {
    /// The broker may have the request nonetheless.
    pub(crate) was_sent: bool,
    /// The broker and this client have no version of the request in common: to ask again would be of no use.
    pub(crate) is_unsupported: bool,
    /// What happened.
    pub(crate) cause: String,
}

impl Lost {
    pub(crate) fn unsent(cause: impl Into<String>) -> Self {
        Self { was_sent: false, is_unsupported: false, cause: cause.into() }
    }

    pub(crate) fn sent(cause: impl Into<String>) -> Self {
        Self { was_sent: true, is_unsupported: false, cause: cause.into() }
    }
}

struct Ask {
    frame: BytesMut,
    key: ApiKey,
    version: i16,
    timeout: Duration,
    reply: oneshot::Sender<Result<Bytes, Lost>>,
}

/// A live connection to a broker.
#[derive(Debug)]
pub(crate) struct Link {
    asks: mpsc::UnboundedSender<Ask>,
    address: BrokerAddress,
    versions: Versions,
    is_dead: Arc<AtomicBool>,
    client_id: String,
    clock: Clock,
    metrics: Arc<Metrics>,
}

/// An answer to come.
pub(crate) struct Reply<M> {
    receiver: oneshot::Receiver<Result<Bytes, Lost>>,
    version: i16,
    request: &'static str,
    asked_at: Monotonic,
    clock: Clock,
    metrics: Arc<Metrics>,
    _message: std::marker::PhantomData<fn() -> M>,
}

impl<M: Message> Reply<M> {
    /// Waits for it.
    pub(crate) async fn wait(self) -> Result<(M, i16), Lost> {
        let answer = self.receiver.await;
        let body = match answer {
            Ok(Ok(body)) => body,
            Ok(Err(lost)) => {
                self.metrics.handle_lost(self.request);
                return Err(lost);
            }
            Err(_) => {
                self.metrics.handle_lost(self.request);
                return Err(Lost::sent("the connection was closed before the answer"));
            }
        };
        self.metrics.handle_answered(self.request, self.clock.now().since(self.asked_at));
        let message = M::decode(&mut Reader::new(body), self.version);
        // Trailing bytes are left alone: a newer broker may know more of this version than we do.
        message.map(|message| (message, self.version)).map_err(|error| Lost::sent(error.to_string()))
    }
}

impl Link {
    /// Connects, and agrees on versions.
    pub(crate) async fn open(
        settings: &Settings,
        address: &BrokerAddress,
        clock: Clock,
        metrics: &Arc<Metrics>,
    ) -> Result<Arc<Self>, Lost> {
        let Settings { connector, client_id, connect_timeout: timeout, idle_max, .. } = settings;
        let timeout = *timeout;
        metrics.handle_connecting();
        let opened = tokio::time::timeout(timeout, async {
            let mut transport = connector.connect(address).await.map_err(|error| Lost::unsent(error.to_string()))?;
            let versions = agree(&mut transport, client_id).await?;
            Ok((transport, versions))
        });
        let (transport, versions) = match opened.await {
            Ok(opened) => opened.map_err(|lost: Lost| Lost::unsent(format!("{address}: {}", lost.cause)))?,
            Err(_) => return Err(Lost::unsent(format!("{address}: no connection after {timeout:?}"))),
        };
        metrics.handle_connected();
        let (asks, receiver) = mpsc::unbounded_channel();
        let is_dead = Arc::new(AtomicBool::new(false));
        let driver = Driver {
            address: address.clone(),
            clock,
            connection: Connection::default(),
            idle_max: *idle_max,
            metrics: Arc::clone(metrics),
        };
        let dead = Arc::clone(&is_dead);
        tokio::spawn(async move {
            driver.run(transport, receiver, &dead).await;
            dead.store(true, Ordering::Release);
        });
        let (client_id, metrics) = (client_id.clone(), Arc::clone(metrics));
        Ok(Arc::new(Self { asks, address: address.clone(), versions, is_dead, client_id, clock, metrics }))
    }

    /// What the broker can do.
    pub(crate) fn versions(&self) -> &Versions {
        &self.versions
    }

    /// Whether it is of no use any more.
    pub(crate) fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::Acquire) || self.asks.is_closed()
    }

    /// Sends a request; those of one caller leave in the order of the calls. `make` gets the version that was chosen.
    pub(crate) fn ask<R: Request>(
        &self,
        versions: std::ops::RangeInclusive<i16>,
        timeout: Duration,
        make: impl FnOnce(i16) -> R,
    ) -> Result<Reply<R::Response>, Lost> {
        let Some(version) = self.versions.choose(R::KEY, versions.clone()) else {
            return Err(self.unsupported(R::KEY, R::NAME, versions));
        };
        let header = RequestHeader::new(R::KEY, version, 0, Some(&self.client_id));
        let frame = encode_request(&header, &make(version)).map_err(|error| Lost::unsent(error.to_string()))?;
        let (reply, receiver) = oneshot::channel();
        let ask = Ask { frame, key: R::KEY, version, timeout, reply };
        self.asks.send(ask).map_err(|_| Lost::unsent("the connection is closed"))?;
        let request = R::NAME.strip_suffix("Request").unwrap_or(R::NAME);
        self.metrics.handle_asked(request);
        Ok(Reply {
            receiver,
            version,
            request,
            asked_at: self.clock.now(),
            clock: self.clock,
            metrics: Arc::clone(&self.metrics),
            _message: std::marker::PhantomData,
        })
    }
}

impl Link {
    /// Says so in the log too: the error that the user gets has a code and an operation, and no broker.
    fn unsupported(&self, key: ApiKey, name: &str, versions: std::ops::RangeInclusive<i16>) -> Lost {
        let name = name.strip_suffix("Request").unwrap_or(name);
        let (least, most) = (*versions.start(), (*versions.end()).min(*key.versions().end()));
        let has = match self.versions.range(key) {
            Some((low, high)) => format!("has versions {low} to {high}"),
            None => "does not have it".to_owned(),
        };
        let cause = format!("{}: {name} is needed in version {least} to {most}, and the broker {has}", self.address);
        warn!(%cause, "a request cannot be made");
        Lost { was_sent: false, is_unsupported: true, cause }
    }
}

/// Asks for the broker's versions; a broker that does not know ours answers in version 0, with what it knows.
async fn agree(transport: &mut Box<dyn Transport>, client_id: &str) -> Result<Versions, Lost> {
    let mut version = 4;
    loop {
        let request = ApiVersionsRequest {
            client_software_name: "atonce".to_owned(),
            client_software_version: env!("CARGO_PKG_VERSION").to_owned(),
            ..ApiVersionsRequest::default()
        };
        let header = RequestHeader::new(ApiKey::ApiVersions, version, 0, Some(client_id));
        let frame = encode_request(&header, &request).map_err(|error| Lost::unsent(error.to_string()))?;
        transport.write_all(&frame).await.map_err(|error| Lost::unsent(error.to_string()))?;
        transport.flush().await.map_err(|error| Lost::unsent(error.to_string()))?;
        let mut received = BytesMut::new();
        let splitter = FrameSplitter::new(FRAME_BYTES_MAX);
        let answer = loop {
            match splitter.next_frame(&mut received) {
                Ok(Some(answer)) => break answer,
                Ok(None) => {}
                Err(error) => return Err(Lost::unsent(error.to_string())),
            }
            match transport.read_buf(&mut received).await {
                Ok(0) => return Err(Lost::unsent("closed by the broker before it told its versions")),
                Ok(_) => {}
                Err(error) => return Err(Lost::unsent(error.to_string())),
            }
        };
        let body = answer.slice(answer.len().min(4)..);
        let code = body.first_chunk::<2>().map(|code| ErrorCode::from_wire(i16::from_be_bytes(*code)));
        let is_too_new = code == Some(ErrorCode::UnsupportedVersion) && version > 0;
        let response = match ApiVersionsResponse::decode(&mut Reader::new(body), if is_too_new { 0 } else { version }) {
            Ok(response) => response,
            // librdkafka's mock cluster knows version 3, and says so in a form that is that of no version.
            Err(_) if is_too_new => {
                version = if version > 3 { 3 } else { 0 };
                continue;
            }
            Err(error) => return Err(Lost::unsent(format!("the broker's versions cannot be read: {error}"))),
        };
        if is_too_new {
            version = Versions::from_response(&response).choose(ApiKey::ApiVersions, 0..=version - 1).unwrap_or(0);
            continue;
        }
        match ErrorCode::from_wire(response.error_code) {
            ErrorCode::None => return Ok(Versions::from_response(&response)),
            code => return Err(Lost::unsent(format!("the broker does not tell its versions: {code}"))),
        }
    }
}

struct Driver {
    address: BrokerAddress,
    clock: Clock,
    connection: Connection<oneshot::Sender<Result<Bytes, Lost>>>,
    /// How long nothing may happen before the connection is closed.
    idle_max: Duration,
    metrics: Arc<Metrics>,
}

impl Driver {
    async fn run(mut self, transport: Box<dyn Transport>, mut asks: mpsc::UnboundedReceiver<Ask>, dead: &AtomicBool) {
        let cause = self.pump(transport, &mut asks).await;
        dead.store(true, Ordering::Release);
        asks.close();
        debug!(address = %self.address, %cause, in_flight = self.connection.in_flight(), "connection closed");
        let cause = format!("{}: {cause}", self.address);
        for reply in self.connection.close() {
            let _ = reply.send(Err(Lost::sent(cause.clone())));
        }
        while let Ok(ask) = asks.try_recv() {
            let _ = ask.reply.send(Err(Lost::unsent(cause.clone())));
        }
    }

    /// Moves bytes both ways until something ends it; says what.
    async fn pump(&mut self, transport: Box<dyn Transport>, asks: &mut mpsc::UnboundedReceiver<Ask>) -> String {
        let (mut reader, mut writer) = tokio::io::split(transport);
        let splitter = FrameSplitter::new(FRAME_BYTES_MAX);
        let mut received = BytesMut::with_capacity(16 * 1024);
        let mut unsent: VecDeque<Bytes> = VecDeque::new();
        let mut busy_at = self.clock.now();
        loop {
            let deadline = self.connection.poll_timeout();
            let is_idle = unsent.is_empty() && self.connection.in_flight() == 0;
            if !is_idle {
                busy_at = self.clock.now();
            }
            tokio::select! {
                ask = asks.recv() => match ask {
                    Some(ask) => unsent.push_back(self.register(ask)),
                    None => return "not needed any more".to_owned(),
                },
                written = async { writer.write_buf(unsent.front_mut().unwrap_or(&mut Bytes::new())).await },
                    if !unsent.is_empty() =>
                {
                    match written {
                        Ok(0) => return "the broker takes no more bytes".to_owned(),
                        Ok(bytes) => self.metrics.handle_bytes_sent(bytes),
                        Err(error) => return error.to_string(),
                    }
                    if unsent.front().is_some_and(|front| !front.has_remaining()) {
                        unsent.pop_front();
                        if unsent.is_empty() && let Err(error) = writer.flush().await {
                            return error.to_string();
                        }
                    }
                },
                read = reader.read_buf(&mut received) => {
                    match read {
                        Ok(0) => return "closed by the broker".to_owned(),
                        Ok(bytes) => self.metrics.handle_bytes_received(bytes),
                        Err(error) => return error.to_string(),
                    }
                    if let Err(cause) = self.answer(&splitter, &mut received) {
                        return cause;
                    }
                },
                () = self.clock.sleep_until(deadline) => return "no answer in time".to_owned(),
                // Sooner than a firewall in between forgets it, and says nothing.
                () = self.clock.sleep_until(Some(busy_at + self.idle_max)), if is_idle => {
                    return "nothing was asked for a long time".to_owned();
                }
            }
        }
    }

    fn register(&mut self, ask: Ask) -> Bytes {
        let deadline = self.clock.now() + ask.timeout;
        let correlation_id = self.connection.register(ask.key, ask.version, deadline, ask.reply);
        let mut frame = ask.frame;
        if let Some(place) = frame.get_mut(CORRELATION_ID_AT) {
            place.copy_from_slice(&correlation_id.to_be_bytes());
        }
        frame.freeze()
    }

    fn answer(&mut self, splitter: &FrameSplitter, received: &mut BytesMut) -> Result<(), String> {
        while let Some(frame) = splitter.next_frame(received).map_err(|error| error.to_string())? {
            let answer = self.connection.handle_frame(frame).map_err(|violation| violation.to_string())?;
            // Whoever does not wait any more needs no answer.
            let _ = answer.who.send(Ok(answer.body));
        }
        Ok(())
    }
}
