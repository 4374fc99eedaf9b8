//! What real clients once said to Apache Kafka 4.4, said again to this broker: its answers carry the same error codes, and the
//! offsets, epochs and generations that clients act upon.
//!
//! Ids are not ours to choose, so they are translated on the way in: topic ids and member ids, byte for byte, since they are
//! as long as ours; producer ids are drawn until ours are at the recorded ones. Left out is what Kafka answered because it was
//! not ready yet (a coordinator that loads, markers not yet written: the client asked again at once), what its broker said to
//! itself, and what hangs on a fetch session, which we do not keep.

mod raw_client;

use std::collections::BTreeMap;
use std::time::Duration;

use atonce_broker::Broker;
use atonce_protocol::frame::{self, RequestHeader};
use atonce_protocol::messages::api_versions_request::ApiVersionsRequest;
use atonce_protocol::messages::api_versions_response::ApiVersionsResponse;
use atonce_protocol::wire::Reader;
use atonce_protocol::{AnyRequest, AnyResponse, ApiKey, ErrorCode};
use bytes::Bytes;
use raw_client::{RawClient, plain_batch};

/// A request with its answer, and where both stand in the recording.
struct Exchange {
    connection: i64,
    asked_after_ms: i64,
    asked_at: usize,
    answered_at: usize,
    header: RequestHeader,
    key: ApiKey,
    request: Bytes,
    recorded: AnyResponse,
}

fn exchanges(recording: &str) -> Vec<Exchange> {
    let mut open: BTreeMap<(i64, i32), (usize, i64, Bytes)> = BTreeMap::new();
    let mut found = Vec::new();
    for (place, line) in recording.lines().enumerate() {
        let line: serde_json::Value = serde_json::from_str(line).expect("a line of JSON");
        let Some(hex) = line["x"].as_str() else { continue };
        let connection = line["c"].as_i64().expect("a connection");
        let bytes = from_hex(hex);
        let mut reader = Reader::new(bytes.clone());
        if line["d"] == ">" {
            let header = frame::decode_request_header(&mut reader).expect("a request");
            let ms = line["ms"].as_i64().expect("a time");
            open.insert((connection, header.correlation_id), (place, ms, bytes));
            continue;
        }
        let correlation_id = frame::correlation_id_of(&bytes).expect("a response");
        let (asked_at, asked_after_ms, request) =
            open.remove(&(connection, correlation_id)).expect("an answer to a request");
        let header = frame::decode_request_header(&mut Reader::new(request.clone())).expect("a request");
        let key = header.key().expect("an API that we know");
        frame::decode_response_header(&mut reader, key, header.api_version).expect("a response header");
        let recorded = AnyResponse::decode(key, &mut reader, header.api_version).expect("a response");
        found.push(Exchange {
            connection,
            asked_after_ms,
            asked_at,
            answered_at: place,
            header,
            key,
            request,
            recorded,
        });
    }
    found.sort_by_key(|exchange| exchange.asked_at);
    found
}

fn from_hex(text: &str) -> Bytes {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("hex")).collect()
}

impl Exchange {
    /// Whether the broker spoke to itself: one node of Kafka adds partitions and writes markers through its own listener.
    fn is_of_the_broker(&self) -> bool {
        let name = self.header.client_id.as_deref().unwrap_or_default();
        name.starts_with("AddPartitionsManager") || name == "broker-1-txn-marker-sender"
    }

    /// Whether Kafka was not ready, so that the client came again with the same.
    fn is_to_be_repeated(&self) -> bool {
        const NOT_READY: [ErrorCode; 6] = [
            ErrorCode::CoordinatorLoadInProgress,
            ErrorCode::CoordinatorNotAvailable,
            ErrorCode::NotCoordinator,
            ErrorCode::ConcurrentTransactions,
            ErrorCode::LeaderNotAvailable,
            ErrorCode::NotLeaderOrFollower,
        ];
        let codes = facts(&self.recorded, &["error_code"]);
        codes.iter().any(|(_, code)| NOT_READY.iter().any(|not_ready| not_ready.to_i16().to_string() == *code))
    }

    /// Whether this broker says that it does not serve it. Then a client would not ask.
    fn is_served(&self, served: &ApiVersionsResponse) -> bool {
        let version = self.header.api_version;
        let mut apis = served.api_keys.iter();
        apis.any(|api| api.api_key == self.header.api_key && (api.min_version..=api.max_version).contains(&version))
    }

    /// The question as a frame. A fetch that was woken by what others wrote waits here until they have, however slow the machine is.
    fn frame(&self, body: &Bytes) -> Bytes {
        let mut reader = Reader::new(body.clone());
        let header = frame::decode_request_header(&mut reader).expect("a header");
        if let AnyResponse::Fetch(recorded) = &self.recorded
            && recorded
                .responses
                .iter()
                .flat_map(|it| &it.partitions)
                .any(|it| it.records.as_ref().is_some_and(|it| !it.is_empty()))
            && let Ok(AnyRequest::Fetch(mut request)) =
                AnyRequest::decode(self.key, &mut reader, self.header.api_version)
        {
            request.max_wait_ms = 30_000;
            return frame::encode_request(&header, &request).expect("as it was, but for a number").freeze();
        }
        let length = i32::try_from(body.len()).expect("short").to_be_bytes();
        [&length[..], body].concat().into()
    }

    fn needs_a_fetch_session(&self) -> bool {
        let mut reader = Reader::new(self.request.clone());
        frame::decode_request_header(&mut reader).expect("a header");
        match AnyRequest::decode(self.key, &mut reader, self.header.api_version).expect("a request") {
            AnyRequest::Fetch(request) => request.session_id != 0,
            _ => false,
        }
    }
}

/// The values of all fields whose names end so, in order, out of what a response prints.
fn facts(response: &AnyResponse, names: &[&str]) -> Vec<(String, String)> {
    let text = format!("{response:?}");
    let mut found = Vec::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find(": ") {
        let name = rest[..at].rsplit([' ', '{', '(', '[']).next().unwrap_or_default();
        rest = &rest[at + 2..];
        if names.iter().any(|wanted| name.ends_with(wanted)) {
            let end = rest.find([',', ' ', '}']).unwrap_or(rest.len());
            found.push((name.to_owned(), rest[..end].to_owned()));
        }
    }
    found
}

/// Answers that cannot be the same, and why.
const LEFT_OUT: [(&str, &str); 10] = [
    ("java-admin:34 ", "a group of a conversation that is left out"),
    ("java-admin:36 ", "the same group"),
    ("java-admin:44 ", "the same group"),
    ("java-admin:64 ", "the same group"),
    ("kafka-tools:8 ", "all topics there are, of which that cluster had more"),
    ("kafka-tools:44 ", "a group of a conversation that is left out"),
    ("kafka-tools:70 ", "the same group"),
    ("kafka-tools:48 ", "a group that read on in a conversation that is left out"),
    ("kafka-tools:184 ", "a group of the streams protocol, which is not served"),
    ("kafkajs-txn:4 ", "all topics there are, of which that cluster had more"),
];

/// What must be the same in an answer to `key`.
fn compared(key: ApiKey) -> &'static [&'static str] {
    match key {
        // What is served differs by intent; so do settings, and the nodes of a cluster.
        ApiKey::ApiVersions => &[],
        ApiKey::Produce => &["error_code", "base_offset", "partition_index", "index"],
        ApiKey::Fetch => &["error_code", "high_watermark", "last_stable_offset", "first_offset", "partition_index"],
        ApiKey::ListOffsets => &["error_code", "offset", "partition_index"],
        ApiKey::OffsetFetch => &["error_code", "committed_offset", "partition_index"],
        ApiKey::JoinGroup => &["error_code", "generation_id"],
        ApiKey::InitProducerId | ApiKey::EndTxn => &["error_code", "producer_id", "producer_epoch"],
        _ => &["error_code"],
    }
}

/// Kafka answers about partitions in an order of its own: each one's facts stay together, and are sorted by its index.
fn sorted(facts: Vec<(String, String)>) -> Vec<Vec<(String, String)>> {
    let mut partitions: Vec<Vec<(String, String)>> = Vec::new();
    for fact in facts {
        let begins = fact.0 == "partition_index" || fact.0 == "index";
        match partitions.last_mut() {
            Some(last) if !begins => last.push(fact),
            Some(_) | None => partitions.push(vec![fact]),
        }
    }
    partitions.sort();
    partitions
}

/// Recorded bytes, and ours in their place.
#[derive(Default)]
struct Translation(Vec<(Vec<u8>, Vec<u8>)>);

impl Translation {
    fn learn(&mut self, recorded: &[u8], ours: &[u8]) {
        let is_id = recorded.len() >= 16 && recorded.len() == ours.len() && recorded.iter().any(|byte| *byte != 0);
        if is_id && recorded != ours && !self.0.iter().any(|(known, _)| known == recorded) {
            self.0.push((recorded.to_vec(), ours.to_vec()));
        }
    }

    /// Topic ids and member ids that both answers name in the same place.
    fn learn_from(&mut self, recorded: &AnyResponse, ours: &AnyResponse) {
        match (recorded, ours) {
            (AnyResponse::Metadata(recorded), AnyResponse::Metadata(ours)) => {
                for topic in &recorded.topics {
                    if let Some(own) = ours.topics.iter().find(|own| own.name == topic.name) {
                        self.learn(&topic.topic_id.0, &own.topic_id.0);
                    }
                }
            }
            (AnyResponse::CreateTopics(recorded), AnyResponse::CreateTopics(ours)) => {
                for (topic, own) in recorded.topics.iter().zip(&ours.topics) {
                    self.learn(&topic.topic_id.0, &own.topic_id.0);
                }
            }
            (AnyResponse::JoinGroup(recorded), AnyResponse::JoinGroup(ours)) => {
                self.learn(recorded.member_id.as_bytes(), ours.member_id.as_bytes());
            }
            _ => {}
        }
    }

    fn translate(&self, bytes: &Bytes) -> Bytes {
        let mut bytes = bytes.to_vec();
        for (recorded, ours) in &self.0 {
            let places: Vec<usize> = (0..bytes.len().saturating_sub(recorded.len() - 1))
                .filter(|at| bytes[*at..].starts_with(recorded))
                .collect();
            for at in places {
                bytes[at..at + recorded.len()].copy_from_slice(ours);
            }
        }
        bytes.into()
    }
}

/// A broker that hears one recording after the other.
struct Replay {
    broker: Broker,
    translation: Translation,
    next_producer_id: i64,
    compared: usize,
    differences: Vec<String>,
}

impl Replay {
    async fn new() -> Self {
        let broker = Broker::builder()
            .temporary()
            .property("group.initial.rebalance.delay.ms", "0")
            .start()
            .await
            .expect("a broker starts");
        Self { broker, translation: Translation::default(), next_producer_id: 0, compared: 0, differences: Vec::new() }
    }

    async fn hear(&mut self, name: &str, recording: &str) {
        let served = RawClient::of(&self.broker).call(0, &ApiVersionsRequest::default()).await;
        let is_heard = |exchange: &Exchange| {
            !exchange.is_of_the_broker()
                && !exchange.is_to_be_repeated()
                && !exchange.needs_a_fetch_session()
                && exchange.is_served(&served)
        };
        let exchanges: Vec<Exchange> = exchanges(recording).into_iter().filter(is_heard).collect();
        let mut clients: BTreeMap<i64, RawClient> = BTreeMap::new();
        // Each is asked where it was asked, and its answer awaited where that came: what waited for others waits for them again.
        let mut events: Vec<(usize, bool, &Exchange)> = Vec::new();
        for exchange in &exchanges {
            events.push((exchange.asked_at, true, exchange));
            events.push((exchange.answered_at, false, exchange));
        }
        events.sort_by_key(|(place, _, _)| *place);
        let mut last_asked_ms = i64::MAX;
        for (place, is_question, exchange) in events {
            let client = clients.entry(exchange.connection).or_insert_with(|| RawClient::of(&self.broker));
            if is_question {
                // A client that let its transaction time out took its time; the others were only slow.
                let pause_ms = u64::try_from(exchange.asked_after_ms - last_asked_ms).unwrap_or(0);
                last_asked_ms = exchange.asked_after_ms;
                if name == "java-timeout" && pause_ms > 1000 {
                    tokio::time::sleep(Duration::from_millis(pause_ms)).await;
                }
                self.draw_producer_ids(exchange).await;
                let body = self.translation.translate(&exchange.request);
                client.send_bytes(&exchange.frame(&body)).await;
                continue;
            }
            let what = format!("{name}:{} {:?} v{}", place + 1, exchange.key, exchange.header.api_version);
            let answer = tokio::time::timeout(Duration::from_secs(60), client.receive_frame())
                .await
                .unwrap_or_else(|_| panic!("{what}: no answer"))
                .unwrap_or_else(|| panic!("{what}: the connection was closed"));
            let mut reader = Reader::new(answer);
            frame::decode_response_header(&mut reader, exchange.key, exchange.header.api_version).expect("a header");
            let ours = AnyResponse::decode(exchange.key, &mut reader, exchange.header.api_version).expect("a response");
            self.translation.learn_from(&exchange.recorded, &ours);
            let names = compared(exchange.key);
            let (expected, found) = (sorted(facts(&exchange.recorded, names)), sorted(facts(&ours, names)));
            self.compared += 1;
            if expected != found && !LEFT_OUT.iter().any(|(left_out, _)| what.starts_with(left_out)) {
                self.differences.push(format!("{what}\n  Kafka: {expected:?}\n  ours:  {found:?}"));
            }
        }
    }

    /// Draws ids until ours is the next that Kafka gave.
    async fn draw_producer_ids(&mut self, exchange: &Exchange) {
        let AnyResponse::InitProducerId(recorded) = &exchange.recorded else { return };
        if recorded.error_code != 0 || recorded.producer_id < self.next_producer_id {
            return;
        }
        let mut client = RawClient::of(&self.broker);
        while self.next_producer_id < recorded.producer_id {
            assert_eq!(client.init(None).await.id.0, self.next_producer_id);
            self.next_producer_id += 1;
        }
        self.next_producer_id += 1;
    }
}

#[tokio::test]
async fn real_clients_hear_what_apache_kafka_told_them() {
    let mut replay = Replay::new().await;
    for (name, recording) in [
        ("java-setup", include_str!("recorded/java-setup.jsonl")),
        ("java-plain", include_str!("recorded/java-plain.jsonl")),
        ("java-txn", include_str!("recorded/java-txn.jsonl")),
        ("java-fence", include_str!("recorded/java-fence.jsonl")),
        ("java-timeout", include_str!("recorded/java-timeout.jsonl")),
        ("java-read", include_str!("recorded/java-read.jsonl")),
        ("java-admin", include_str!("recorded/java-admin.jsonl")),
        ("streams-classic", include_str!("recorded/streams-classic.jsonl")),
        ("librdkafka-txn", include_str!("recorded/librdkafka-txn.jsonl")),
        ("librdkafka-fence", include_str!("recorded/librdkafka-fence.jsonl")),
        ("kafka-python-txn", include_str!("recorded/kafka-python-txn.jsonl")),
        ("kafkajs-txn", include_str!("recorded/kafkajs-txn.jsonl")),
        ("kafka-tools", include_str!("recorded/kafka-tools.jsonl")),
    ] {
        replay.hear(name, recording).await;
        // Conversations that are left out wrote here in between.
        let written_between = match name {
            "java-admin" => Some((0, 3)),
            "librdkafka-fence" => Some((2, 6)),
            _ => None,
        };
        if let Some((partition, records)) = written_between {
            let batch = plain_batch(&vec!["x"; records]);
            RawClient::of(&replay.broker).produce(9, None, "out", partition, batch).await;
        }
    }
    assert!(replay.differences.is_empty(), "{}", replay.differences.join("\n"));
    assert!(replay.compared > 300, "{} answers were compared", replay.compared);
}
