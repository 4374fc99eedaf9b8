//! Beside librdkafka and the Java client: what one of them writes we read, and the other way round, to the byte; and our
//! client on librdkafka's mock cluster, with errors injected.
//!
//! `librdkafka` needs a python with `confluent-kafka`, named in `ATONCE_TEST_CONFLUENT_KAFKA`; `java` needs `java`, and
//! Kafka's jars in `ATONCE_TEST_KAFKA_CLASSPATH`. So they run only when asked for (`-- --ignored`).

mod world;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Stdio;
use std::time::Duration;

use atonce_client::error::{Operation, Verdict, classify};
use atonce_client::{
    Client, Compression, ConsumerRecord, ErrorCode, Header, Position, ProducerRecord, TopicName, TopicPartition,
};
use atonce_protocol::ApiKey;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use world::World;

const CODECS: [Compression; 5] =
    [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

// --- what is written and read ---

fn hex(bytes: Option<&[u8]>) -> String {
    let Some(bytes) = bytes else { return "-".to_owned() };
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn line(key: Option<&[u8]>, value: Option<&[u8]>, timestamp: i64, headers: &[Header]) -> String {
    let pairs: Vec<String> =
        headers.iter().map(|header| format!("{}={}", header.key, hex(header.value.as_deref()))).collect();
    let pairs = if pairs.is_empty() { ".".to_owned() } else { pairs.join(",") };
    format!("{} {} {timestamp} {pairs}", hex(key), hex(value))
}

fn line_of(record: &ConsumerRecord) -> String {
    line(record.key.as_deref(), record.value.as_deref(), record.timestamp.0, &record.headers)
}

/// One of each kind that a record can be, the largest that a topic takes among them, and enough to fill batches.
fn records(topic: &TopicName) -> Vec<ProducerRecord> {
    let to = || ProducerRecord::to(topic.clone()).partition(0);
    // Not to be compressed, so that it stays as large as it is: nearly 1 MiB, with room for what codecs add.
    let mut state = 7_u32;
    let largest: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    })
    .take(1_040_000)
    .collect();
    let mut records = vec![
        to().key("key").value("value").header("h", "1").header("h", "2").header("null", None::<&str>).header("", ""),
        to().value("no key"),
        to().key("gone"),
        to(),
        to().key("").value(""),
        to().key(vec![0_u8, 0xff]).value(vec![0x80_u8]).header("\u{fc}n\u{ef}", vec![0_u8]),
    ];
    records.extend((0..300).map(|number| to().key(format!("k{}", number % 7)).value(format!("value {number}"))));
    records.push(to().value(largest));
    (0..).zip(records).map(|(place, record)| record.timestamp(1_700_000_000_000 + place * 977 % 10_007)).collect()
}

fn line_to_write(record: &ProducerRecord) -> String {
    let timestamp = record.timestamp.expect("each has one").0;
    line(record.key.as_deref(), record.value.as_deref(), timestamp, &record.headers)
}

async fn read_here(world: &World, topic: &TopicName, count: usize) -> Vec<String> {
    let places = [(TopicPartition::new(topic.clone(), 0), Position::Earliest)];
    let mut consumer = world.consumer().assign(places).await.expect("starts");
    let mut lines = Vec::new();
    while lines.len() < count {
        let batch = consumer.next_batch().await.expect("reads").expect("is not stopped");
        lines.extend(batch.iter().map(line_of));
    }
    lines
}

fn equal(found: &[String], wanted: &[String], what: &str) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    for (place, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        // Not a megabyte into the log.
        let (short, wanted_short) = (found.get(..200).unwrap_or(found), wanted.get(..200).unwrap_or(wanted));
        assert!(found == wanted, "{what}, record {place}: found {short}, wanted {wanted_short}");
    }
}

/// `foreign` makes the command for the words that follow.
async fn both_ways(who: &str, foreign: impl Fn(&[String]) -> Command) {
    let world = World::new().await;
    let (mut by_us, mut by_them) = (BTreeMap::new(), BTreeMap::new());
    let mut input = String::new();
    for codec in CODECS {
        let topic = world.topic(&format!("ours-{codec}"), 1).await;
        let producer = world.client.producer().compression(codec).request_bytes_max(2 << 20);
        let producer = producer.linger(Duration::from_millis(20)).start().await.expect("starts");
        let records = records(&topic);
        by_us.insert(topic, records.iter().map(line_to_write).collect::<Vec<_>>());
        for record in records {
            drop(producer.send(record).await.expect("is taken"));
        }
        producer.close().await.expect("all is written");

        let topic = world.topic(&format!("theirs-{codec}"), 1).await;
        let lines: Vec<String> = self::records(&topic).iter().map(line_to_write).collect();
        for line in &lines {
            let _ = writeln!(input, "{topic} {codec} {line}");
        }
        by_them.insert(topic, lines);
    }

    let wanted = by_us.iter().map(|(topic, lines)| format!("{topic}={}", lines.len()));
    let words: Vec<String> = [world.servers.clone(), "read".to_owned()].into_iter().chain(wanted).collect();
    let read = foreign(&words).stderr(Stdio::inherit()).output().await.expect("can be run");
    assert!(read.status.success(), "{who} could not read");
    let text = String::from_utf8(read.stdout).expect("is text");
    let mut found: BTreeMap<TopicName, Vec<String>> = BTreeMap::new();
    for line in text.lines() {
        let (topic, line) = line.split_once(' ').expect("a topic stands before each record");
        found.entry(topic.into()).or_default().push(line.to_owned());
    }
    for (topic, wanted) in &by_us {
        equal(found.get(topic).map_or(&[], Vec::as_slice), wanted, &format!("{who} reads {topic}"));
    }

    let mut writer = foreign(&[world.servers.clone(), "write".to_owned()]).stdin(Stdio::piped()).spawn().expect("runs");
    let mut stdin = writer.stdin.take().expect("is piped");
    stdin.write_all(input.as_bytes()).await.expect("takes all");
    drop(stdin);
    assert!(writer.wait().await.expect("ends").success(), "{who} could not write");
    for (topic, wanted) in &by_them {
        equal(&read_here(&world, topic, wanted.len()).await, wanted, &format!("we read {topic} of {who}"));
    }
}

fn python(words: &[String]) -> Command {
    let python = std::env::var("ATONCE_TEST_CONFLUENT_KAFKA").expect("a python with confluent-kafka is named");
    let mut command = Command::new(python);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/beside_others/librdkafka.py")).args(words);
    command.kill_on_drop(true);
    command
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a python with confluent-kafka in ATONCE_TEST_CONFLUENT_KAFKA"]
async fn librdkafka_reads_what_we_write_and_we_what_it_writes() {
    both_ways("librdkafka", python).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs java, and Kafka's jars in ATONCE_TEST_KAFKA_CLASSPATH"]
async fn java_reads_what_we_write_and_we_what_it_writes() {
    let classpath = std::env::var("ATONCE_TEST_KAFKA_CLASSPATH").expect("Kafka's jars are named");
    both_ways("the Java client", |words| {
        let mut command = Command::new("java");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/beside_others/Copies.java");
        command.args(["-cp", &classpath, source]).args(words).kill_on_drop(true);
        command
    })
    .await;
}

// --- librdkafka's mock cluster ---

struct Mock {
    process: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
    servers: String,
}

impl Mock {
    async fn start(brokers: u32) -> Self {
        let mut command = python(&["mock".to_owned(), brokers.to_string()]);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().expect("can be run");
        let stdin = process.stdin.take().expect("is piped");
        let mut stdout = BufReader::new(process.stdout.take().expect("is piped")).lines();
        let servers = stdout.next_line().await.expect("can be read").expect("tells its addresses");
        Self { process, stdin, stdout, servers }
    }

    async fn tell(&mut self, what: &str) {
        self.stdin.write_all(format!("{what}\n").as_bytes()).await.expect("takes it");
        assert_eq!(self.stdout.next_line().await.expect("can be read").as_deref(), Some("ok"), "{what}");
    }

    async fn client(&self) -> Client {
        let builder = Client::builder(self.servers.clone()).retry_backoff(Duration::from_millis(5));
        builder.retry_backoff_max(Duration::from_millis(50)).connect().await.expect("the mock is there")
    }

    async fn end(mut self) {
        drop(self.stdin);
        let _ = self.process.wait().await;
    }
}

/// What librdkafka reads: the mock's markers have no checksum, which it does not look at and we do.
async fn values(mock: &Mock, topic: &str, count: usize) -> Vec<String> {
    let words = [mock.servers.clone(), "read".to_owned(), format!("{topic}={count}")];
    let read = python(&words).stderr(Stdio::inherit()).output().await.expect("can be run");
    assert!(read.status.success(), "librdkafka could not read");
    let text = String::from_utf8(read.stdout).expect("is text");
    text.lines().map(|line| line.split(' ').nth(2).expect("has a value").to_owned()).collect()
}

fn hex_of(values: &[String]) -> Vec<String> {
    values.iter().map(|value| hex(Some(value.as_bytes()))).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a python with confluent-kafka in ATONCE_TEST_CONFLUENT_KAFKA"]
async fn librdkafkas_mock_cluster_may_answer_each_request_with_each_error_that_passes() {
    let mut mock = Mock::start(3).await;
    mock.tell("topic errors 1 3").await;
    let client = mock.client().await;
    let mut producer = client.transactional_producer("id").start().await.expect("starts");
    let mut expected = Vec::new();
    let requests = [
        (ApiKey::AddPartitionsToTxn, Operation::AddPartitionsToTxn),
        (ApiKey::Produce, Operation::Produce),
        (ApiKey::EndTxn, Operation::EndTxn),
        (ApiKey::FindCoordinator, Operation::FindCoordinator),
    ];
    for (api, operation) in requests {
        for code in (1..130).map(ErrorCode::from_wire).filter(|code| code.is_error() && code.to_i16() > 0) {
            if !matches!(classify(operation, code), Verdict::Retry | Verdict::RefreshThenRetry) {
                continue;
            }
            // A coordinator is looked for when the one that is known says that it is none.
            if api == ApiKey::FindCoordinator {
                mock.tell(&format!("errors {} {}", ApiKey::EndTxn.to_i16(), ErrorCode::NotCoordinator.to_i16())).await;
            }
            mock.tell(&format!("errors {} {1} {1}", api.to_i16(), code.to_i16())).await;
            let value = format!("{operation} {code}");
            let transaction = producer.begin().await.unwrap_or_else(|error| panic!("{value}: {error}"));
            let record = ProducerRecord::to("errors").partition(0).value(value.clone());
            transaction.send(record).await.unwrap_or_else(|error| panic!("{value}: {error}"));
            transaction.commit().await.unwrap_or_else(|error| panic!("{value}: {error}"));
            expected.push(value);
        }
    }
    assert!(expected.len() > 20, "{expected:?}");
    assert_eq!(values(&mock, "errors", expected.len()).await, hex_of(&expected));
    mock.end().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a python with confluent-kafka in ATONCE_TEST_CONFLUENT_KAFKA"]
async fn librdkafkas_mock_cluster_may_move_leaders_and_coordinators_and_stop_brokers() {
    let mut mock = Mock::start(3).await;
    mock.tell("topic moves 1 3").await;
    let client = mock.client().await;
    let mut producer = client.transactional_producer("id").start().await.expect("starts");
    let mut expected = Vec::new();
    for round in 0..6 {
        let node = 1 + round % 3;
        mock.tell(&format!("leader moves 0 {node}")).await;
        mock.tell(&format!("coordinator transaction id {}", 1 + (round + 1) % 3)).await;
        // Neither leads nor coordinates.
        let idle = 1 + (round + 2) % 3;
        mock.tell(&format!("down {idle}")).await;
        let transaction = producer.begin().await.expect("begins");
        for number in 0..3 {
            let value = format!("{round} {number}");
            expected.push(value.clone());
            transaction.send(ProducerRecord::to("moves").partition(0).value(value)).await.expect("is taken");
        }
        transaction.commit().await.expect("commits");
        mock.tell(&format!("up {idle}")).await;
    }
    assert_eq!(values(&mock, "moves", expected.len()).await, hex_of(&expected));

    mock.end().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a python with confluent-kafka in ATONCE_TEST_CONFLUENT_KAFKA"]
async fn librdkafkas_mock_cluster_may_send_readers_to_a_follower_and_hint_at_leaders() {
    let mut mock = Mock::start(3).await;
    mock.tell("topic plain 1 3").await;
    mock.tell("leader plain 0 1").await;
    let client = mock.client().await;
    let producer = client.producer().start().await.expect("starts");
    let mut expected = Vec::new();
    for number in 0..20 {
        expected.push(number.to_string());
        drop(producer.send(ProducerRecord::to("plain").value(number.to_string())).await.expect("is taken"));
    }
    producer.flush().await.expect("is written");
    let places = [(TopicPartition::new("plain", 0), Position::Earliest)];

    // A follower that is nearer, since the leader says so (KIP-392).
    mock.tell("follower plain 0 2").await;
    let mut consumer = client.consumer().rack("far").assign(places.clone()).await.expect("starts");
    let read = tokio::time::timeout(Duration::from_secs(60), world::read(&mut consumer, expected.len())).await;
    assert_eq!(read.expect("all comes"), expected);

    // Where the leader is now, told with the refusal (KIP-951).
    mock.tell("hint plain 0 3 2").await;
    mock.tell("leader plain 0 3").await;
    for number in 20..30 {
        expected.push(number.to_string());
        drop(producer.send(ProducerRecord::to("plain").value(number.to_string())).await.expect("is taken"));
    }
    producer.close().await.expect("is written");
    let mut consumer = client.consumer().assign(places).await.expect("starts");
    let read = tokio::time::timeout(Duration::from_secs(60), world::read(&mut consumer, expected.len())).await;
    assert_eq!(read.expect("all comes"), expected);
    mock.end().await;
}
