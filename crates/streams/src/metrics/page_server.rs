//! Just enough HTTP for who scrapes: one GET a connection, the one page, closed.
//!
//! **What it does not know**: what is on the page.
//!
//! A request head of more than [`HEAD_BYTES_MAX`], or one that takes longer than [`PATIENCE`], closes its connection.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Heads of requests are read up to here.
const HEAD_BYTES_MAX: usize = 8 * 1024;

/// How long a connection may take in all.
const PATIENCE: Duration = Duration::from_secs(10);

/// Connections served at once; more wait.
const CONNECTIONS_MAX: usize = 8;

/// A server of a page; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct PageServer {
    address: SocketAddr,
    serving: tokio::task::JoinHandle<()>,
}

impl Drop for PageServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl PageServer {
    /// Serves `GET /metrics` at `address`. Errors: it cannot be listened on.
    pub(crate) async fn start(address: &str, page: impl Fn() -> String + Send + Sync + 'static) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let serving = tokio::spawn(serve(listener, Arc::new(page)));
        Ok(Self { address, serving })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn serve(listener: TcpListener, page: Arc<impl Fn() -> String + Send + Sync + 'static>) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let page = Arc::clone(&page);
                tokio::spawn(async move {
                    let _permit = permit;
                    let _ = tokio::time::timeout(PATIENCE, answer(stream, &*page)).await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection for metrics could not be accepted");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

/// Reads one request and answers it.
async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, page: &impl Fn() -> String) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() >= HEAD_BYTES_MAX || stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let text = "text/plain; charset=utf-8";
    let (status, content_type, body) = match std::str::from_utf8(line).ok().and_then(request) {
        None => ("400 Bad Request", text, "not a request\n".to_owned()),
        Some(("GET" | "HEAD", "/metrics")) => {
            ("200 OK", "application/openmetrics-text; version=1.0.0; charset=utf-8", page())
        }
        Some(("GET" | "HEAD", _)) => ("404 Not Found", text, "no such page: GET /metrics\n".to_owned()),
        Some(_) => ("405 Method Not Allowed", text, "only GET\n".to_owned()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    if !line.starts_with(b"HEAD ") {
        stream.write_all(body.as_bytes()).await?;
    }
    stream.shutdown().await
}

/// Method and path, without what follows a question mark.
fn request(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let is_whole = words.next().is_none() && version.starts_with("HTTP/1.");
    is_whole.then(|| (method, target.split('?').next().unwrap_or(target)))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ask(request: &str) -> String {
        let (mut client, server) = tokio::io::duplex(64 * 1024);
        let answering = tokio::spawn(async move { answer(server, &|| "numbers\n".to_owned()).await });
        client.write_all(request.as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        let _ = answering.await;
        answer
    }

    #[tokio::test]
    async fn the_page_is_got_and_nothing_else_is() {
        for (request, first, last) in [
            ("GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n", "HTTP/1.1 200 OK", "numbers"),
            ("GET /metrics?x=1 HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK", "numbers"),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK", "connection: close"),
            ("GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found", "no such page: GET /metrics"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405 Method Not Allowed", "only GET"),
            ("nonsense\r\n\r\n", "HTTP/1.1 400 Bad Request", "not a request"),
        ] {
            let answer = ask(request).await;
            assert_eq!(answer.lines().next(), Some(first), "{request}");
            assert_eq!(answer.trim_end().lines().next_back(), Some(last), "{request}");
        }
        assert_eq!(ask("GET /metrics HTTP/1.1\r\n").await, "", "cut off");
        assert_eq!(ask(&"x".repeat(2 * HEAD_BYTES_MAX)).await, "", "without an end");
    }
}
