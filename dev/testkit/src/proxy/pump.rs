//! One connection: frames of a client to its broker, and the answers back.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use atonce_kernel::chance::Chance;
use atonce_protocol::frame::{FrameSplitter, correlation_id_of, decode_request_header};
use atonce_protocol::{ApiKey, Reader};
use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Instant;

use super::rules::{Fate, Rule};
use super::{Path, Paths, Shared, locked, rewrite};

/// The largest frame that goes through: above what tests send.
const FRAME_BYTES_MAX: usize = 256 * 1024 * 1024;

/// How often a slow line writes.
const SLOW_WRITE_INTERVAL: Duration = Duration::from_millis(10);

/// How long a broker may take to answer what a plan was about, once its client has gone.
const LAST_ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// A request that waits for its answer.
struct Asked {
    api: Option<ApiKey>,
    version: i16,
    rule: Option<Arc<Rule>>,
}

struct Conversation {
    shared: Arc<Shared>,
    broker: String,
    asked: Mutex<BTreeMap<i32, Asked>>,
    /// Something of it was lost in a black hole: it is of no use once the path is open again.
    is_holed: AtomicBool,
    /// Told of each answer.
    answered: watch::Sender<()>,
}

/// Why a direction ended.
enum End {
    /// The sender closed its side.
    Closed,
    /// A plan, the weather or an error says so: at once.
    Cut,
}

/// Carries a connection until its end.
pub(super) async fn run(shared: Arc<Shared>, client: TcpStream, broker: String, chance: Chance) {
    let mut paths = shared.paths.subscribe();
    let mut cuts = shared.cuts.subscribe();
    cuts.mark_unchanged();
    let asked = Mutex::default();
    let is_holed = AtomicBool::new(false);
    let conversation = Conversation { shared, broker, asked, is_holed, answered: watch::Sender::new(()) };
    let carried = conversation.carry(client, &chance);
    let spoilt = async {
        loop {
            let path = paths.borrow_and_update().to(&conversation.broker);
            match path {
                Path::Refused => return,
                Path::Open if conversation.is_holed.load(Ordering::Acquire) => return,
                Path::Open | Path::BlackHole => {}
            }
            if paths.changed().await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = carried => {}
        () = spoilt => {}
        _ = cuts.changed() => {}
    }
}

impl Conversation {
    fn path(&self) -> Path {
        let paths: watch::Ref<'_, Paths> = self.shared.paths.borrow();
        paths.to(&self.broker)
    }

    async fn carry(&self, client: TcpStream, chance: &Chance) {
        let (mut from_client, mut to_client) = client.into_split();
        if self.path() == Path::BlackHole {
            self.is_holed.store(true, Ordering::Release);
            let _ = swallow(&mut from_client).await;
            return;
        }
        let Ok(broker) = TcpStream::connect(self.shared.address_of(&self.broker)).await else { return };
        let _ = broker.set_nodelay(true);
        let (mut from_broker, mut to_broker) = broker.into_split();
        let (mut there, mut back) = (chance.derive(1), chance.derive(2));
        let requests = async {
            let end = self.requests(&mut from_client, &mut to_broker, &mut there).await;
            if matches!(end, Ok(End::Closed)) {
                self.last_answers().await;
            }
        };
        let answers = self.answers(&mut from_broker, &mut to_client, &mut back);
        tokio::select! {
            () = requests => {}
            _ = answers => {}
        }
    }

    /// The client has gone. What a plan was about is dealt with by the broker before it is told so.
    async fn last_answers(&self) {
        let mut changed = self.answered.subscribe();
        let is_planned = || locked(&self.asked).values().any(|asked| asked.rule.is_some());
        let answered = async {
            while is_planned() {
                if changed.changed().await.is_err() {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(LAST_ANSWER_TIMEOUT, answered).await;
    }

    async fn requests(
        &self,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
        chance: &mut Chance,
    ) -> io::Result<End> {
        let mut frames = Frames::default();
        while let Some((frame, came_at)) = frames.next(from).await {
            let mut reader = Reader::new(frame.clone());
            let Ok(header) = decode_request_header(&mut reader) else { return Ok(End::Cut) };
            let api = header.key();
            let rule = api.and_then(|api| self.shared.rule_for(api, header.client_id.as_deref()));
            let asked = Asked { api, version: header.api_version, rule: rule.clone() };
            locked(&self.asked).insert(header.correlation_id, asked);
            let mut bytes = BytesMut::with_capacity(frame.len() + 4);
            bytes.put_u32(u32::try_from(frame.len()).unwrap_or(u32::MAX));
            bytes.put_slice(&frame);
            if let Some(rule) = rule {
                match rule.fate {
                    Fate::LoseRequest => {
                        rule.handle_happened();
                        return Ok(End::Cut);
                    }
                    Fate::CutRequest(length) => {
                        to.write_all(up_to(&bytes, length)).await?;
                        to.flush().await?;
                        rule.handle_happened();
                        return Ok(End::Cut);
                    }
                    Fate::HoldRequest => {
                        rule.handle_happened();
                        rule.released().await;
                    }
                    Fate::SwallowRequest => {
                        rule.handle_happened();
                        self.is_holed.store(true, Ordering::Release);
                        return swallow(from).await.map(|()| End::Cut);
                    }
                    Fate::LoseAnswer | Fate::CutAnswer(_) | Fate::HoldAnswer | Fate::SwallowAnswer => {}
                }
            }
            if !self.pass(to, &bytes, came_at, chance).await? {
                return Ok(End::Cut);
            }
        }
        Ok(End::Closed)
    }

    async fn answers(
        &self,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
        chance: &mut Chance,
    ) -> io::Result<End> {
        let mut frames = Frames::default();
        let mut to = Some(to);
        while let Some((frame, came_at)) = frames.next(from).await {
            let Ok(correlation_id) = correlation_id_of(&frame) else { return Ok(End::Cut) };
            let asked = locked(&self.asked).remove(&correlation_id);
            let Some(Asked { api, version, rule }) = asked else { return Ok(End::Cut) };
            self.answered.send_replace(());
            let bytes = match api {
                Some(api) => match rewrite::answer(&self.shared, api, version, &frame) {
                    Ok(bytes) => bytes,
                    // A test that sees this has met an answer that we cannot read.
                    Err(_) => return Ok(End::Cut),
                },
                None => rewrite::framed(&frame),
            };
            if let Some(rule) = rule {
                match rule.fate {
                    Fate::LoseAnswer => {
                        rule.handle_happened();
                        return Ok(End::Cut);
                    }
                    Fate::CutAnswer(length) => {
                        if let Some(to) = &mut to {
                            to.write_all(up_to(&bytes, length)).await?;
                            to.flush().await?;
                        }
                        rule.handle_happened();
                        return Ok(End::Cut);
                    }
                    Fate::HoldAnswer => {
                        rule.handle_happened();
                        rule.released().await;
                    }
                    Fate::SwallowAnswer => {
                        rule.handle_happened();
                        self.is_holed.store(true, Ordering::Release);
                        return swallow(from).await.map(|()| End::Cut);
                    }
                    Fate::LoseRequest | Fate::CutRequest(_) | Fate::HoldRequest | Fate::SwallowRequest => {}
                }
            }
            // A client that is gone does not end it: a request of its may be held, and go to the broker yet.
            if let Some(client) = &mut to {
                match self.pass(client, &bytes, came_at, chance).await {
                    Ok(true) => {}
                    Ok(false) => return Ok(End::Cut),
                    Err(_) => to = None,
                }
            }
        }
        Ok(End::Closed)
    }

    /// Writes a frame as the weather will have it. `false`: it was cut.
    async fn pass(
        &self,
        to: &mut (impl AsyncWrite + Unpin),
        bytes: &[u8],
        came_at: Instant,
        chance: &mut Chance,
    ) -> io::Result<bool> {
        let weather = self.shared.weather();
        if !weather.delay_max.is_zero() {
            let nanos = u64::try_from(weather.delay_max.as_nanos()).unwrap_or(u64::MAX);
            tokio::time::sleep_until(came_at + Duration::from_nanos(chance.below(nanos))).await;
        }
        if self.path() == Path::BlackHole {
            self.is_holed.store(true, Ordering::Release);
            return Ok(true);
        }
        let is_cut = weather.cut_one_frame_in > 0 && chance.one_in(1, weather.cut_one_frame_in);
        let length = if is_cut {
            self.shared.cut_frames.fetch_add(1, Ordering::Relaxed);
            let below = chance.below(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
            usize::try_from(below).unwrap_or(0)
        } else {
            bytes.len()
        };
        let bytes = up_to_all(bytes, length);
        match weather.bytes_per_second {
            None => to.write_all(bytes).await?,
            Some(rate) => {
                let per_write = u128::from(rate) * SLOW_WRITE_INTERVAL.as_millis() / 1000;
                for part in bytes.chunks(usize::try_from(per_write).unwrap_or(usize::MAX).max(1)) {
                    to.write_all(part).await?;
                    tokio::time::sleep(SLOW_WRITE_INTERVAL).await;
                }
            }
        }
        to.flush().await?;
        Ok(!is_cut)
    }
}

/// The beginning of a frame, never all of it.
fn up_to(bytes: &[u8], length: usize) -> &[u8] {
    up_to_all(bytes, length.min(bytes.len().saturating_sub(1)))
}

fn up_to_all(bytes: &[u8], length: usize) -> &[u8] {
    bytes.get(..length).unwrap_or(bytes)
}

/// Reads, and forgets.
async fn swallow(from: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
    let mut forgotten = [0; 4096];
    while from.read(&mut forgotten).await? > 0 {}
    Ok(())
}

/// Cuts a stream into frames, and keeps when each had come.
struct Frames {
    received: BytesMut,
    splitter: FrameSplitter,
    read_at: Instant,
}

impl Default for Frames {
    fn default() -> Self {
        Self { received: BytesMut::new(), splitter: FrameSplitter::new(FRAME_BYTES_MAX), read_at: Instant::now() }
    }
}

impl Frames {
    /// The next one; `None` at the end of the stream, or of what can be read of it.
    async fn next(&mut self, from: &mut (impl AsyncRead + Unpin)) -> Option<(Bytes, Instant)> {
        loop {
            if let Some(frame) = self.splitter.next_frame(&mut self.received).ok()? {
                return Some((frame, self.read_at));
            }
            if from.read_buf(&mut self.received).await.ok()? == 0 {
                return None;
            }
            self.read_at = Instant::now();
        }
    }
}
