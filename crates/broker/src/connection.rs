//! One connection, over TCP or in process: frames in, answers out, in order.
//!
//! A reader takes frames and hands each to [`crate::api::dispatch`], which answers with a future. Requests for the writer
//! thread are on their way as soon as they are read (so a producer may pipeline), all others run when their turn comes;
//! a second loop awaits the futures in order and writes. What a client may have in flight is bounded by
//! [`REQUESTS_IN_FLIGHT`] and the size of the largest request; what waits for the writer, over all connections, by
//! `queued.max.request.bytes`. A connection on which nothing moves for `connections.max.idle.ms`, while nothing is being
//! answered, is closed; so is one whose client takes none of an answer for so long.
//!
//! **What it does not know**: what the requests mean. A frame that is too long, or one that dispatch cannot make sense of,
//! closes this connection and no other.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use atonce_log::FileBatches;
use atonce_protocol::ApiKey;
use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, Interest, WriteHalf};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::mpsc;

use crate::api::{self, Taken};
use crate::disk::StdFile;
use crate::operations::api_name;
use crate::shared::{Budget, Room, Shared};

/// Requests of one connection that may wait for their answers. Clients keep five in flight, some a hundred.
const REQUESTS_IN_FLIGHT: usize = 128;

/// A buffer grows by at most this much ahead of the bytes that have really come, so that a length on the wire never sizes
/// an allocation.
const READ_AHEAD_BYTES: usize = 64 * 1024;

/// Who is at the other end, and how they reached us.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// As Kafka prints it in group descriptions: `/127.0.0.1`, or `in-process`.
    pub(crate) host: String,
    /// The address that this client should use for this node.
    pub(crate) advertised: (String, u16),
    /// Whether it can be answered with [`Answer::Pieces`].
    pub(crate) takes_files: bool,
}

/// A part of an answer.
#[derive(Debug)]
pub(crate) enum Piece {
    /// These bytes.
    Bytes(BytesMut),
    /// Batches, from where they stand.
    File(FileBatches<StdFile>),
}

impl Piece {
    fn bytes(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::File(batches) => batches.bytes(),
        }
    }
}

/// Where answers go.
pub(crate) trait Sink: AsyncWrite + Unpin + Send + 'static {
    /// Sends some of what the file has from `position` on, at most `count` bytes; returns how many. For a peer that
    /// [takes files](Peer::takes_files).
    fn send_file(
        &mut self,
        file: &StdFile,
        position: u64,
        count: usize,
    ) -> impl Future<Output = io::Result<usize>> + Send;
}

impl Sink for OwnedWriteHalf {
    async fn send_file(&mut self, file: &StdFile, position: u64, count: usize) -> io::Result<usize> {
        let socket = self.as_ref();
        loop {
            socket.writable().await?;
            match socket.try_io(Interest::WRITABLE, || file.send_to(socket, position, count)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => return sent,
            }
        }
    }
}

impl Sink for WriteHalf<DuplexStream> {
    async fn send_file(&mut self, _file: &StdFile, _position: u64, _count: usize) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// What becomes of a request.
#[derive(Debug)]
pub(crate) enum Answer {
    /// These bytes, length prefix included.
    Frame(BytesMut),
    /// The same, with the room that its bytes take until the client has them.
    Large(BytesMut, Room),
    /// The same, of which some stands in files.
    Pieces(Vec<Piece>, Room),
    /// Nothing at all (a produce request with `acks=0`).
    Nothing,
    /// The connection ends, for this reason.
    Close(String),
}

/// An answer to come.
pub(crate) type PendingAnswer = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// Serves a connection until it ends. Dropping the future ends it at once.
pub(crate) async fn serve<R, W>((read_half, write_half): (R, W), peer: Peer, shared: Arc<Shared>)
where
    R: AsyncRead + Unpin,
    W: Sink,
{
    let peer = Arc::new(peer);
    let (sender, receiver) = mpsc::channel(REQUESTS_IN_FLIGHT);
    let idle_max = Duration::from_millis(shared.settings.connection_idle_ms_max);
    shared.metrics.connections.inc();
    let _counted = Counted(Arc::clone(&shared));
    let writing = write_answers(write_half, receiver, idle_max, Arc::clone(&shared));
    let reading = read_requests(read_half, Arc::clone(&peer), shared, sender);
    let end = tokio::select! {
        end = reading => end,
        end = writing => end,
    };
    match end {
        Ok(()) => tracing::debug!(host = peer.host, "connection ended"),
        Err(error) => tracing::debug!(host = peer.host, %error, "connection closed"),
    }
}

/// Counts a connection until it is dropped, however it ends.
struct Counted(Arc<Shared>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.metrics.connections.dec();
    }
}

/// A request that waits for its answer.
struct Queued {
    pending: PendingAnswer,
    /// Given back when the answer is on its way.
    room: Room,
    api: &'static str,
    came: Instant,
}

async fn read_requests<R>(
    mut stream: R,
    peer: Arc<Peer>,
    shared: Arc<Shared>,
    answers: mpsc::Sender<Queued>,
) -> io::Result<()>
where
    R: AsyncRead + Unpin,
{
    let mut buffer = BytesMut::new();
    let own = Budget::new(shared.settings.request_bytes_max);
    let idle_max = Duration::from_millis(shared.settings.connection_idle_ms_max);
    let mut stream = Patient { stream: &mut stream, idle_max, own: &own };
    while let Some(frame) = read_frame(&mut stream, &mut buffer, shared.settings.request_bytes_max).await? {
        // Two bounds on what waits. The connection's own goes with the answer: whoever asks much and reads nothing waits for
        // himself. The one over all connections goes when the writer has taken the request in, and never depends on a client:
        // else a few fetches that wait for ever could hold all of it.
        let came = Instant::now();
        let api = api_of(&frame);
        shared.metrics.received(frame.len());
        let room = own.room_for(frame.len()).await;
        let permit = shared.requests.room_for(frame.len()).await;
        let pending = match api::dispatch(&shared, &peer, frame, permit) {
            Taken::Now(pending) => pending,
            Taken::Aside(taking) => taking.await,
        };
        if answers.send(Queued { pending, room, api, came }).await.is_err() {
            break;
        }
    }
    Ok(())
}

/// The name of the API that a frame asks for.
fn api_of(frame: &[u8]) -> &'static str {
    let key = frame.first_chunk::<2>().and_then(|key| ApiKey::from_i16(i16::from_be_bytes(*key)));
    key.map_or("Unknown", api_name)
}

/// Where bytes come from.
trait Source {
    /// Reads some bytes; 0 at the end.
    async fn read_some(&mut self, buffer: &mut BytesMut) -> io::Result<usize>;
}

/// A stream that is read as long as something moves, or is being answered.
struct Patient<'a, R> {
    stream: &'a mut R,
    idle_max: Duration,
    own: &'a Budget,
}

impl<R: AsyncRead + Unpin> Source for Patient<'_, R> {
    async fn read_some(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        loop {
            let was_unused = self.own.is_unused();
            match tokio::time::timeout(self.idle_max, self.stream.read_buf(buffer)).await {
                Ok(read) => return read,
                // What was answered meanwhile begins the time anew.
                Err(_) if !was_unused || !self.own.is_unused() => {}
                Err(_) => return Err(io::Error::new(io::ErrorKind::TimedOut, "idle (connections.max.idle.ms)")),
            }
        }
    }
}

/// The next frame without its length, or nothing when the peer has closed between frames.
async fn read_frame(stream: &mut impl Source, buffer: &mut BytesMut, bytes_max: usize) -> io::Result<Option<Bytes>> {
    loop {
        if let Some(prefix) = buffer.first_chunk::<4>() {
            let announced = i32::from_be_bytes(*prefix);
            let length = usize::try_from(announced)
                .ok()
                .filter(|length| *length <= bytes_max)
                .ok_or_else(|| invalid(format!("a request of {announced} bytes is not allowed (0 to {bytes_max})")))?;
            if buffer.len() >= 4 + length {
                let mut frame = buffer.split_to(4 + length);
                return Ok(Some(frame.split_off(4).freeze()));
            }
            // Bytes of something else altogether are not collected until the frame that they seem to announce is whole.
            if let Some(key) = buffer.get(4..).and_then(|head| head.first_chunk::<2>()) {
                let key = i16::from_be_bytes(*key);
                if !api::is_served(key) {
                    return Err(invalid(format!("API key {key} is not served")));
                }
            }
            buffer.reserve((4 + length - buffer.len()).min(READ_AHEAD_BYTES.max(buffer.len())));
        } else {
            buffer.reserve(READ_AHEAD_BYTES / 8);
        }
        if stream.read_some(buffer).await? == 0 {
            return if buffer.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        }
    }
}

async fn write_answers<W>(
    mut stream: W,
    mut answers: mpsc::Receiver<Queued>,
    idle_max: Duration,
    shared: Arc<Shared>,
) -> io::Result<()>
where
    W: Sink,
{
    while let Some(Queued { pending, room, api, came }) = answers.recv().await {
        let answer = pending.await;
        let count = |bytes: usize| shared.metrics.answered(api, came.elapsed(), bytes);
        match answer {
            Answer::Frame(bytes) => {
                count(bytes.len());
                write_frame(&mut stream, bytes, idle_max).await?;
            }
            Answer::Large(bytes, taken) => {
                count(bytes.len());
                write_frame(&mut stream, bytes, idle_max).await?;
                drop(taken);
            }
            Answer::Pieces(pieces, taken) => {
                count(pieces.iter().map(Piece::bytes).sum());
                for piece in pieces {
                    match piece {
                        Piece::Bytes(bytes) => write_frame(&mut stream, bytes, idle_max).await?,
                        Piece::File(batches) => write_batches(&mut stream, &batches, idle_max).await?,
                    }
                }
                drop(taken);
            }
            Answer::Nothing => count(0),
            Answer::Close(reason) => return Err(invalid(reason)),
        }
        drop(room);
    }
    stream.shutdown().await
}

/// Writes a whole answer, as long as its client takes some of it now and then.
async fn write_frame<W: AsyncWrite + Unpin>(stream: &mut W, mut bytes: BytesMut, idle_max: Duration) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = tokio::time::timeout(idle_max, stream.write_buf(&mut bytes)).await;
        if written.map_err(|_| late())?? == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
    }
    Ok(())
}

/// So many bytes of a file at once: where they are not in memory yet, the thread waits for the disk.
const SENT_BYTES_MAX: usize = 256 << 10;

/// Writes batches from where they stand, as above.
async fn write_batches<W: Sink>(stream: &mut W, batches: &FileBatches<StdFile>, idle_max: Duration) -> io::Result<()> {
    let (mut position, mut left) = (batches.position(), batches.bytes());
    while left > 0 {
        let sending = stream.send_file(batches.file(), position, left.min(SENT_BYTES_MAX));
        let sent = tokio::time::timeout(idle_max, sending).await.map_err(|_| late())??;
        if sent == 0 {
            // The length is told already.
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a segment is shorter than what was found in it"));
        }
        position += sent as u64;
        left -= sent;
    }
    Ok(())
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "an answer was not taken")
}

fn invalid(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl<R: AsyncRead + Unpin> Source for R {
        async fn read_some(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
            self.read_buf(buffer).await
        }
    }

    #[tokio::test]
    async fn frames_come_whole_however_they_were_cut() {
        let (mut client, mut server) = tokio::io::duplex(3);
        let writing = tokio::spawn(async move {
            client.write_all(&[0, 0, 0, 2, 7, 8, 0, 0, 0, 0, 0, 0, 0, 1, 9]).await.expect("written");
        });
        let mut buffer = BytesMut::new();
        let mut frames = Vec::new();
        while let Some(frame) = read_frame(&mut server, &mut buffer, 10).await.expect("whole frames") {
            frames.push(frame.to_vec());
        }
        writing.await.expect("done");
        assert_eq!(frames, [vec![7, 8], vec![], vec![9]]);
    }

    #[tokio::test]
    async fn a_frame_longer_than_allowed_or_of_negative_length_is_refused_before_it_is_read() {
        for prefix in [[0, 0, 0, 11], [0xff, 0xff, 0xff, 0xff], [0x7f, 0xff, 0xff, 0xff]] {
            let mut input = &prefix[..];
            let mut buffer = BytesMut::new();
            assert!(read_frame(&mut input, &mut buffer, 10).await.is_err(), "{prefix:?}");
            assert!(buffer.capacity() <= READ_AHEAD_BYTES);
        }
    }

    #[tokio::test]
    async fn a_large_frame_of_no_api_is_refused_before_it_is_read() {
        let (mut client, mut server) = tokio::io::duplex(1000);
        // 16 MB for an API that there is not, of which the first bytes have come; no more ever will.
        client.write_all(&[1, 0, 0, 0, 0x7f, 0xff]).await.expect("written");
        let refused = read_frame(&mut server, &mut BytesMut::new(), 100 << 20).await;
        assert_eq!(refused.expect_err("refused").kind(), io::ErrorKind::InvalidData);
    }

    #[tokio::test]
    async fn a_frame_cut_off_is_an_error_and_allocates_no_more_than_came() {
        let mut input: &[u8] = &[0x06, 0, 0, 0, 1];
        let mut buffer = BytesMut::new();
        assert!(read_frame(&mut input, &mut buffer, 100 << 20).await.is_err());
        assert!(buffer.capacity() <= 2 * READ_AHEAD_BYTES);
    }
}
