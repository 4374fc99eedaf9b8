//! Just enough HTTP for probes and scrapers: one GET a connection, one page, closed.
//!
//! **What it does not know**: what is on the pages.
//!
//! A request head of more than [`HEAD_BYTES_MAX`], or one that takes longer than [`PATIENCE`], closes its connection.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

/// Heads of requests are read up to here.
const HEAD_BYTES_MAX: usize = 8 * 1024;

/// How long a connection may take in all.
const PATIENCE: Duration = Duration::from_secs(10);

/// Connections served at once; more wait.
const CONNECTIONS_MAX: usize = 16;

/// How a page is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Ok,
    Unavailable,
    NotFound,
    NotAllowed,
    Bad,
}

impl Status {
    fn line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::Unavailable => "503 Service Unavailable",
            Self::NotFound => "404 Not Found",
            Self::NotAllowed => "405 Method Not Allowed",
            Self::Bad => "400 Bad Request",
        }
    }
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    status: Status,
    content_type: &'static str,
    body: String,
}

impl Page {
    pub(crate) fn text(status: Status, body: impl Into<String>) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: body.into() }
    }

    pub(crate) fn metrics(body: String) -> Self {
        let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        Self { status: Status::Ok, content_type, body }
    }

    fn bytes(&self, with_body: bool) -> Vec<u8> {
        let Self { status, content_type, body } = self;
        let head = format!(
            "HTTP/1.1 {}\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            status.line(),
            body.len()
        );
        let mut bytes = head.into_bytes();
        if with_body {
            bytes.extend_from_slice(body.as_bytes());
        }
        bytes
    }
}

/// Where pages come from.
pub(crate) trait Pages: Send + Sync + 'static {
    /// The page at that path.
    fn page(&self, path: &str) -> impl Future<Output = Option<Page>> + Send;
}

/// Serves until `ended` has no sender any more.
pub(crate) async fn serve(listener: TcpListener, pages: Arc<impl Pages>, mut ended: watch::Receiver<bool>) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = ended.changed() => return,
        };
        match accepted {
            Ok((stream, _)) => {
                let pages = Arc::clone(&pages);
                tokio::spawn(async move {
                    let _permit = permit;
                    let _ = tokio::time::timeout(PATIENCE, answer(stream, &*pages)).await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a probe's connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

/// Reads one request and answers it.
async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, pages: &impl Pages) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() >= HEAD_BYTES_MAX || stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let (page, with_body) = match std::str::from_utf8(line).ok().and_then(request) {
        None => (Page::text(Status::Bad, "not a request\n"), true),
        Some((method @ ("GET" | "HEAD"), path)) => {
            let page = pages.page(path).await.unwrap_or_else(|| Page::text(Status::NotFound, "no such page\n"));
            (page, method == "GET")
        }
        Some(_) => (Page::text(Status::NotAllowed, "only GET\n"), true),
    };
    stream.write_all(&page.bytes(with_body)).await?;
    stream.shutdown().await
}

/// Method and path, without what follows a question mark.
fn request(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() || !version.starts_with("HTTP/1.") {
        return None;
    }
    Some((method, target.split('?').next().unwrap_or(target)))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One;

    impl Pages for One {
        async fn page(&self, path: &str) -> Option<Page> {
            (path == "/live").then(|| Page::text(Status::Ok, "live\n"))
        }
    }

    async fn ask(request: &str) -> String {
        let (mut client, server) = tokio::io::duplex(64 * 1024);
        let answering = tokio::spawn(async move { answer(server, &One).await });
        client.write_all(request.as_bytes()).await.expect("written");
        client.shutdown().await.expect("closed");
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.expect("read");
        let _ = answering.await;
        answer
    }

    #[tokio::test]
    async fn pages_are_got_and_nothing_else_is() {
        for (request, first, last) in [
            ("GET /live HTTP/1.1\r\nhost: x\r\n\r\n", "HTTP/1.1 200 OK", "live"),
            ("GET /live?x=1 HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK", "live"),
            ("HEAD /live HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK", "connection: close"),
            ("GET /other HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found", "no such page"),
            ("POST /live HTTP/1.1\r\n\r\n", "HTTP/1.1 405 Method Not Allowed", "only GET"),
            ("nonsense\r\n\r\n", "HTTP/1.1 400 Bad Request", "not a request"),
        ] {
            let answer = ask(request).await;
            assert_eq!(answer.lines().next(), Some(first), "{request}");
            assert_eq!(answer.trim_end().lines().next_back(), Some(last), "{request}");
        }
        assert_eq!(ask("GET /live HTTP/1.1\r\n").await, "", "cut off");
        assert_eq!(ask(&"x".repeat(2 * HEAD_BYTES_MAX)).await, "", "without an end");
    }
}
