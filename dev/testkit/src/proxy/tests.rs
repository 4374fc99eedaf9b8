use std::time::Duration;

use atonce_protocol::frame::{
    FrameSplitter, RequestHeader, decode_request_header, decode_response_header, encode_any_response, encode_request,
};
use atonce_protocol::messages::api_versions_request::ApiVersionsRequest;
use atonce_protocol::messages::api_versions_response::{ApiVersion, ApiVersionsResponse};
use atonce_protocol::messages::heartbeat_request::HeartbeatRequest;
use atonce_protocol::messages::heartbeat_response::HeartbeatResponse;
use atonce_protocol::messages::metadata_request::MetadataRequest;
use atonce_protocol::messages::metadata_response::{MetadataResponse, MetadataResponseBroker};
use atonce_protocol::{AnyResponse, ApiKey, Message, Reader, Request};
use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::{Path, Proxy, Weather};

/// What the broker behind the proxy saw of a connection.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Request(i32),
    /// It ended, with so many bytes of a frame that never was whole.
    End(usize),
}

/// A broker that answers what it is asked, and tells what that was.
async fn broker() -> (String, mpsc::UnboundedReceiver<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("is bound").port();
    let (seen, receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("accepts");
            tokio::spawn(serve(stream, port, seen.clone()));
        }
    });
    (format!("127.0.0.1:{port}"), receiver)
}

async fn serve(mut stream: TcpStream, port: u16, seen: mpsc::UnboundedSender<Seen>) {
    let mut received = BytesMut::new();
    loop {
        while let Some(frame) = FrameSplitter::new(1 << 20).next_frame(&mut received).expect("frames") {
            let header = decode_request_header(&mut Reader::new(frame)).expect("a header");
            let key = |api: ApiKey| ApiVersion { api_key: api.to_i16(), max_version: 99, ..Default::default() };
            let answer = match header.key().expect("an API") {
                ApiKey::Metadata => AnyResponse::Metadata(MetadataResponse {
                    brokers: vec![MetadataResponseBroker {
                        node_id: 4,
                        host: "localhost".to_owned(),
                        port: i32::from(port),
                        ..Default::default()
                    }],
                    ..Default::default()
                }),
                ApiKey::ApiVersions => AnyResponse::ApiVersions(ApiVersionsResponse {
                    api_keys: vec![key(ApiKey::Metadata), key(ApiKey::Heartbeat)],
                    ..Default::default()
                }),
                _ => AnyResponse::Heartbeat(HeartbeatResponse::default()),
            };
            let answer = encode_any_response(header.api_version, header.correlation_id, &answer).expect("encodes");
            let _ = seen.send(Seen::Request(header.correlation_id));
            let _ = stream.write_all(&answer).await;
        }
        if !matches!(stream.read_buf(&mut received).await, Ok(1..)) {
            let _ = seen.send(Seen::End(received.len()));
            return;
        }
    }
}

struct Client {
    stream: TcpStream,
    received: BytesMut,
}

impl Client {
    async fn to(proxy: &Proxy) -> Self {
        let stream = TcpStream::connect(proxy.bootstrap_servers()).await.expect("connects");
        Self { stream, received: BytesMut::new() }
    }

    async fn send<R: Request>(&mut self, version: i16, id: i32, request: &R) -> usize {
        let frame = encode_request(&RequestHeader::new(R::KEY, version, id, Some("me")), request).expect("encodes");
        self.stream.write_all(&frame).await.expect("writes");
        frame.len()
    }

    /// The next answer; or how many bytes of one there were when the connection ended.
    async fn answer(&mut self) -> Result<Bytes, usize> {
        loop {
            if let Some(frame) = FrameSplitter::new(1 << 20).next_frame(&mut self.received).expect("frames") {
                return Ok(frame);
            }
            if !matches!(self.stream.read_buf(&mut self.received).await, Ok(1..)) {
                return Err(self.received.len());
            }
        }
    }

    async fn ask<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        self.send(version, 1, request).await;
        let mut reader = Reader::new(self.answer().await.expect("is answered"));
        decode_response_header(&mut reader, R::KEY, version).expect("a header");
        R::Response::decode(&mut reader, version).expect("a response")
    }

    async fn heartbeat(&mut self, id: i32) -> usize {
        self.send(4, id, &HeartbeatRequest::default()).await
    }
}

#[tokio::test]
async fn clients_stay_on_the_proxy_and_speak_versions_that_it_reads() {
    let (address, _seen) = broker().await;
    let proxy = Proxy::start(&address, 1).await.expect("starts");
    let mut client = Client::to(&proxy).await;
    let metadata = client.ask(12, &MetadataRequest::default()).await;
    let told = &metadata.brokers[0];
    assert_eq!((told.node_id, told.host.as_str()), (4, "127.0.0.1"));
    assert_ne!(format!("127.0.0.1:{}", told.port), address, "not the broker's own");
    let again = client.ask(9, &MetadataRequest::default()).await;
    assert_eq!(again.brokers[0].port, told.port, "one port for one broker");
    let there = TcpStream::connect(("127.0.0.1", u16::try_from(told.port).expect("a port"))).await.expect("listens");
    let mut other = Client { stream: there, received: BytesMut::new() };
    assert_eq!(other.ask(4, &HeartbeatRequest::default()).await, HeartbeatResponse::default());

    let versions = client.ask(4, &ApiVersionsRequest::default()).await;
    let highest: Vec<i16> = versions.api_keys.iter().map(|key| key.max_version).collect();
    assert_eq!(highest, [*ApiKey::Metadata.versions().end(), 99]);
    assert_eq!((proxy.requests(ApiKey::Metadata), proxy.connections()), (2, 2));
}

#[tokio::test]
async fn what_is_planned_happens_to_the_requests_that_were_named() {
    let (address, mut seen) = broker().await;
    let proxy = Proxy::start(&address, 1).await.expect("starts");

    // The second request does not arrive.
    let lost = proxy.nth(ApiKey::Heartbeat, 2).lose_request();
    let mut client = Client::to(&proxy).await;
    client.heartbeat(1).await;
    client.answer().await.expect("the first is answered");
    client.heartbeat(2).await;
    assert_eq!(client.answer().await, Err(0));
    lost.happened().await;
    assert_eq!((seen.recv().await, seen.recv().await), (Some(Seen::Request(1)), Some(Seen::End(0))));

    // The broker has it, the client not its answer.
    let lost = proxy.next(ApiKey::Heartbeat).of_client("me").lose_answer();
    let other = proxy.next(ApiKey::Heartbeat).of_client("you").lose_request();
    let mut client = Client::to(&proxy).await;
    client.heartbeat(3).await;
    assert_eq!(client.answer().await, Err(0));
    assert_eq!((lost.count(), other.count()), (1, 0));
    assert_eq!((seen.recv().await, seen.recv().await), (Some(Seen::Request(3)), Some(Seen::End(0))));

    // A part of it, in either direction; never the whole.
    for (wanted, found) in [(0, 0), (7, 7), (usize::MAX, usize::MAX)] {
        let _cut = proxy.next(ApiKey::Heartbeat).cut_request(wanted);
        let mut client = Client::to(&proxy).await;
        let length = client.heartbeat(4).await;
        assert_eq!(client.answer().await, Err(0));
        assert_eq!(seen.recv().await, Some(Seen::End(found.min(length - 1))));

        let _cut = proxy.next(ApiKey::Heartbeat).cut_answer(wanted);
        let mut client = Client::to(&proxy).await;
        client.heartbeat(5).await;
        // Length, correlation id, no tagged fields, throttle time, error code, no tagged fields.
        assert_eq!(client.answer().await, Err(found.min(4 + 4 + 1 + 4 + 2 + 1 - 1)));
        assert_eq!((seen.recv().await, seen.recv().await), (Some(Seen::Request(5)), Some(Seen::End(0))));
    }
}

#[tokio::test]
async fn a_request_that_is_held_reaches_the_broker_when_it_is_released_though_its_client_has_gone() {
    let (address, mut seen) = broker().await;
    let proxy = Proxy::start(&address, 1).await.expect("starts");
    let held = proxy.next(ApiKey::Heartbeat).hold_request();
    let mut client = Client::to(&proxy).await;
    client.heartbeat(1).await;
    held.happened().await;
    drop(client);
    let mut other = Client::to(&proxy).await;
    other.heartbeat(2).await;
    other.answer().await.expect("is not held");
    assert_eq!(seen.recv().await, Some(Seen::Request(2)));
    held.release();
    assert_eq!((seen.recv().await, seen.recv().await), (Some(Seen::Request(1)), Some(Seen::End(0))));

    let held = proxy.next(ApiKey::Heartbeat).hold_answer();
    other.heartbeat(3).await;
    held.happened().await;
    assert_eq!(seen.recv().await, Some(Seen::Request(3)));
    held.release();
    other.answer().await.expect("is answered in the end");
}

#[tokio::test]
async fn a_black_hole_lets_nothing_through_and_its_connections_end_with_it() {
    let (address, mut seen) = broker().await;
    let proxy = Proxy::start(&address, 1).await.expect("starts");
    let mut before = Client::to(&proxy).await;
    before.heartbeat(1).await;
    before.answer().await.expect("is answered");
    assert_eq!(seen.recv().await, Some(Seen::Request(1)));

    proxy.set_path_to(&address, Path::BlackHole);
    let mut within = Client::to(&proxy).await;
    within.heartbeat(2).await;
    before.heartbeat(3).await;
    let silence = async { tokio::join!(before.answer(), within.answer()) };
    tokio::time::timeout(Duration::from_millis(50), silence).await.expect_err("nobody answers, nobody hangs up");
    proxy.set_path(Path::Open);
    assert_eq!((before.answer().await, within.answer().await), (Err(0), Err(0)));
    assert_eq!(seen.recv().await, Some(Seen::End(0)), "nothing of it came");

    // Of a swallowed request too.
    let swallowed = proxy.next(ApiKey::Heartbeat).swallow_request();
    let mut client = Client::to(&proxy).await;
    client.heartbeat(4).await;
    swallowed.happened().await;
    tokio::time::timeout(Duration::from_millis(50), client.answer()).await.expect_err("nobody answers");
    proxy.set_path(Path::Refused);
    assert_eq!(client.answer().await, Err(0));
    let mut refused = Client::to(&proxy).await;
    assert_eq!(refused.answer().await, Err(0));
    proxy.set_path(Path::Open);
    let mut after = Client::to(&proxy).await;
    after.heartbeat(5).await;
    after.answer().await.expect("all is well again");
    proxy.cut_all();
    assert_eq!(after.answer().await, Err(0));
}

/// How many heartbeats of each connection are answered in such a network.
async fn answered(seed: u64) -> Vec<u32> {
    let (address, _seen) = broker().await;
    let proxy = Proxy::start(&address, seed).await.expect("starts");
    proxy.set_weather(Weather {
        delay_max: Duration::from_millis(1),
        bytes_per_second: Some(100_000),
        cut_one_frame_in: 4,
    });
    let mut counts = Vec::new();
    for _ in 0..10 {
        let mut client = Client::to(&proxy).await;
        let mut count = 0;
        loop {
            client.heartbeat(1).await;
            if client.answer().await.is_err() {
                break;
            }
            count += 1;
        }
        counts.push(count);
    }
    assert_eq!(proxy.cuts(), 10);
    counts
}

#[tokio::test]
async fn one_seed_spoils_the_same_frames() {
    let found = answered(1).await;
    assert_eq!(found, answered(1).await);
    assert_ne!(found, answered(2).await);
    assert!(found.iter().any(|count| *count > 0), "{found:?}");
}
