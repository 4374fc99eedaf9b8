//! The administrator's commands, as people run them, against a broker in a process of its own: values and JSON.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use atonce::{Application, TopologyBuilder, store};
use atonce_kernel::{ProducerIdentity, Sequence};
use atonce_protocol::frame::{self, RequestHeader};
use atonce_protocol::messages::init_producer_id_request::InitProducerIdRequest;
use atonce_protocol::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use atonce_protocol::records::{BatchBuilder, BatchOptions};
use atonce_protocol::{Message as _, Reader, Request};
use serde_json::{Value, json};
use support::{Running, Served, atonce, fail, run, succeed};

/// The lines of JSON that a command prints.
fn lines(broker: &Served, arguments: &[&str]) -> Vec<Value> {
    let printed = succeed(&mut broker.atonce(arguments), "");
    printed.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
}

fn only(broker: &Served, arguments: &[&str]) -> Value {
    let mut lines = lines(broker, arguments);
    assert_eq!(lines.len(), 1, "{arguments:?}: {lines:?}");
    lines.remove(0)
}

/// Of each object these fields.
fn fields(values: &[Value], names: &[&str]) -> Value {
    values.iter().map(|it| names.iter().map(|name| it[*name].clone()).collect::<Value>()).collect()
}

fn start(data: &tempfile::TempDir) -> Served {
    Served::start(data.path(), "os")
}

fn produce(broker: &Served, partition: &str, lines: &str) {
    succeed(&mut broker.atonce(&["produce", "orders", "--partition", partition]), lines);
}

#[test]
fn topics_are_altered_and_checked_before() {
    let data = tempfile::tempdir().expect("a folder");
    let broker = start(&data);
    let create = ["topics", "create", "orders", "--partitions", "2", "--config", "cleanup.policy=compact"];
    succeed(&mut broker.atonce(&[&create[..], &["--validate-only"]].concat()), "");
    assert_eq!(lines(&broker, &["topics", "list", "--json"]), [] as [Value; 0], "nothing is made yet");
    succeed(&mut broker.atonce(&create), "");

    let alter = ["topics", "alter", "orders", "--partitions", "3", "--config", "retention.ms=1000"];
    succeed(&mut broker.atonce(&[&alter[..], &["--validate-only"]].concat()), "");
    let count = || only(&broker, &["topics", "list", "--json"])["partitions"].clone();
    assert_eq!(count(), json!(2));
    succeed(&mut broker.atonce(&[&alter[..], &["--delete-config", "cleanup.policy"]].concat()), "");
    assert_eq!(count(), json!(3));
    let configs = only(&broker, &["topics", "describe", "orders", "--json"])["configs"].clone();
    assert_eq!((&configs["retention.ms"], &configs["cleanup.policy"]), (&json!("1000"), &json!("delete")));

    let told = fail(&mut broker.atonce(&["topics", "alter", "orders", "--partitions", "1"]), 1);
    assert!(told.contains("INVALID_PARTITIONS") && told.contains("atonce topics describe"), "{told}");
    let told = fail(&mut broker.atonce(&["topics", "alter", "orders", "--config", "no.such=1"]), 1);
    assert!(told.contains("no.such") && told.contains("atonce configs describe"), "{told}");
    let told = fail(&mut broker.atonce(&["topics", "alter", "nothing", "--partitions", "9"]), 1);
    assert!(told.contains("UNKNOWN_TOPIC_OR_PARTITION"), "{told}");
    let told = fail(&mut broker.atonce(&["topics", "delete", "one", "two"]), 1);
    assert!(
        told.contains("one, two") && told.contains("one: ") && told.contains("two: "),
        "each has its cause: {told}"
    );
}

#[test]
fn configs_are_shown_with_their_sources_and_changed() {
    let data = tempfile::tempdir().expect("a folder");
    let broker = start(&data);
    succeed(&mut broker.atonce(&["topics", "create", "orders", "--config", "retention.ms=1000"]), "");
    let describe = ["configs", "describe", "topic", "orders", "--json"];
    // As on Apache Kafka, one key is always set for all brokers.
    let for_all = json!(["min.insync.replicas", "1", "DYNAMIC_DEFAULT_BROKER_CONFIG"]);
    let set = fields(&lines(&broker, &describe), &["key", "value", "source"]);
    assert_eq!(set, json!([for_all, ["retention.ms", "1000", "DYNAMIC_TOPIC_CONFIG"]]));
    let all = lines(&broker, &[&describe[..], &["--all"]].concat());
    let policy: Vec<Value> = all.into_iter().filter(|it| it["key"] == "cleanup.policy").collect();
    assert_eq!(fields(&policy, &["value", "source"]), json!([["delete", "DEFAULT_CONFIG"]]));

    let alter = |arguments: &[&str]| broker.atonce(&[&["configs", "alter", "topic", "orders"][..], arguments].concat());
    succeed(&mut alter(&["--set", "retention.ms=2000", "--validate-only"]), "");
    succeed(&mut alter(&["--append", "cleanup.policy=compact", "--set", "segment.ms=5000"]), "");
    let set_for_it = || {
        let set = lines(&broker, &describe).into_iter().filter(|it| it["source"] == "DYNAMIC_TOPIC_CONFIG");
        fields(&set.collect::<Vec<_>>(), &["key", "value"])
    };
    let expected = json!([["cleanup.policy", "delete,compact"], ["retention.ms", "1000"], ["segment.ms", "5000"]]);
    assert_eq!(set_for_it(), expected);
    succeed(&mut alter(&["--subtract", "cleanup.policy=delete", "--delete", "segment.ms"]), "");
    assert_eq!(set_for_it(), json!([["cleanup.policy", "compact"], ["retention.ms", "1000"]]));
    assert!(succeed(&mut broker.atonce(&["configs", "describe", "topic", "orders"]), "").contains("DYNAMIC_TOPIC"));

    let told = fail(&mut alter(&["--set", "retention.ms=soon"]), 1);
    assert!(told.contains("INVALID_CONFIG") && told.contains("topic orders"), "{told}");
    let told = fail(&mut broker.atonce(&["configs", "describe", "topic", "nothing"]), 1);
    assert!(told.contains("UNKNOWN_TOPIC_OR_PARTITION"), "{told}");
    let node = only(&broker, &["cluster", "describe", "--json"])["brokers"][0]["node"].to_string();
    let of_broker = lines(&broker, &["configs", "describe", "broker", &node, "--all", "--json"]);
    assert!(of_broker.iter().any(|it| it["key"] == "num.partitions" && it["value"] == "1"), "{of_broker:?}");
}

#[test]
fn records_are_deleted_below_an_offset() {
    let data = tempfile::tempdir().expect("a folder");
    let broker = start(&data);
    succeed(&mut broker.atonce(&["topics", "create", "orders", "--partitions", "2"]), "");
    produce(&broker, "0", "a\nb\nc\n");
    produce(&broker, "1", "d\n");
    let deleted = lines(&broker, &["records", "delete", "orders:0", "--before", "2", "--json"]);
    assert_eq!(fields(&deleted, &["topic", "partition", "log_start_offset"]), json!([["orders", 0, 2]]));
    let read = ["consume", "orders", "--from", "beginning", "--until-end", "--partition", "0"];
    assert_eq!(succeed(&mut broker.atonce(&read), ""), "c\n");
    let deleted = lines(&broker, &["records", "delete", "orders", "--before", "end", "--json"]);
    assert_eq!(fields(&deleted, &["partition", "log_start_offset"]), json!([[0, 3], [1, 1]]));
    let told = fail(&mut broker.atonce(&["records", "delete", "orders:0", "--before", "9"]), 1);
    assert!(told.contains("OFFSET_OUT_OF_RANGE") && told.contains("atonce topics describe"), "{told}");
    let told = fail(&mut broker.atonce(&["records", "delete", "orders:7", "--before", "1"]), 1);
    assert!(told.contains("no partition 7"), "{told}");
}

/// Three records in each partition of `orders`, of which `payments` has read two of partition 0.
fn with_a_group(broker: &Served) {
    succeed(&mut broker.atonce(&["topics", "create", "orders", "--partitions", "2"]), "");
    produce(broker, "0", "a\nb\nc\n");
    let read = ["consume", "orders", "--group", "payments", "--from", "beginning", "--count", "2"];
    assert_eq!(succeed(&mut broker.atonce(&read), ""), "a\nb\n");
    produce(broker, "1", "d\ne\nf\n");
}

#[test]
fn a_group_is_described_with_how_far_it_is_behind() {
    let data = tempfile::tempdir().expect("a folder");
    let broker = start(&data);
    with_a_group(&broker);
    // A transaction that stays open holds the last stable offset at 3.
    let mut open =
        Running::start(&mut broker.atonce(&["produce", "orders", "--transactional-id", "t", "--partition", "0"]));
    open.write("x\n");
    let described = || only(&broker, &["groups", "describe", "payments", "--json"]);
    let mut group = described();
    while group["offsets"][0]["high_watermark"] != json!(4) {
        group = described();
    }
    assert_eq!(
        fields(std::slice::from_ref(&group), &["group", "state", "type"]),
        json!([["payments", "Empty", "Classic"]])
    );
    let names = ["partition", "committed_offset", "log_start_offset", "last_stable_offset", "high_watermark", "lag"];
    assert_eq!(fields(group["offsets"].as_array().expect("some")[..1].as_ref(), &names), json!([[0, 2, 0, 3, 4, 1]]));
    let uncommitted = only(&broker, &["groups", "describe", "payments", "--json", "--isolation", "uncommitted"]);
    assert_eq!(uncommitted["offsets"][0]["lag"], json!(2), "to those who read uncommitted it is farther");
    open.end_input();
    assert!(open.ended().success());

    let mut member =
        Running::start(&mut broker.atonce(&["consume", "orders", "--group", "payments", "--from", "beginning"]));
    assert_eq!(member.line(), "c\n");
    let group = described();
    assert_eq!(group["state"], json!("Stable"));
    let of_member = &group["members"][0];
    assert_eq!(fields(std::slice::from_ref(of_member), &["client_id", "instance_id"]), json!([["atonce", null]]));
    let assigned = fields(of_member["assignment"].as_array().expect("some"), &["topic", "partition"]);
    assert_eq!(assigned, json!([["orders", 0], ["orders", 1]]));
    assert_eq!(group["offsets"][1]["member_id"], of_member["member_id"]);
    let table = succeed(&mut broker.atonce(&["groups", "describe", "payments"]), "");
    assert!(table.contains("payments: Stable (Classic), 1 members") && table.contains("last stable"), "{table}");
    let table = succeed(&mut broker.atonce(&["groups", "describe", "payments", "--members"]), "");
    assert!(table.contains("orders-0, orders-1"), "{table}");
    let listed = lines(&broker, &["groups", "list", "--state", "stable", "--json"]);
    assert_eq!(fields(&listed, &["group", "protocol_type"]), json!([["payments", "consumer"]]));
    assert_eq!(lines(&broker, &["groups", "list", "--state", "empty", "--json"]), [] as [Value; 0]);

    // While it has a member it cannot be moved or deleted.
    let reset = ["groups", "reset", "payments", "--all-topics", "--to-earliest", "--execute"];
    let told = fail(&mut broker.atonce(&reset), 1);
    assert!(told.contains("Stable") && told.contains("stop its members first"), "{told}");
    let told = fail(&mut broker.atonce(&["groups", "delete", "payments"]), 1);
    assert!(told.contains("NON_EMPTY_GROUP"), "{told}");
    succeed(&mut broker.atonce(&["groups", "remove-members", "payments", "--all"]), "");
    member.signal("TERM");
    member.ended();
    succeed(&mut broker.atonce(&["groups", "delete", "payments"]), "");
    let told = fail(&mut broker.atonce(&["groups", "describe", "payments"]), 1);
    assert!(told.contains("GROUP_ID_NOT_FOUND") && told.contains("atonce groups list"), "{told}");
    fail(&mut broker.atonce(&["groups", "delete", "payments"]), 1);
    succeed(&mut broker.atonce(&["groups", "delete", "payments", "--if-exists"]), "");
}

#[test]
fn a_group_is_reset_when_it_is_told_to_execute() {
    let data = tempfile::tempdir().expect("a folder");
    let broker = start(&data);
    with_a_group(&broker);
    let reset = |arguments: &[&str]| {
        let all = [&["groups", "reset", "payments", "--json"][..], arguments].concat();
        fields(&lines(&broker, &all), &["partition", "committed_offset", "new_offset"])
    };
    let committed = || {
        let group = only(&broker, &["groups", "describe", "payments", "--json"]);
        fields(group["offsets"].as_array().expect("some"), &["partition", "committed_offset"])
    };
    let before = committed();
    assert_eq!(before[0], json!([0, 2]));
    assert_eq!(reset(&["--topic", "orders:0", "--to-earliest"]), json!([[0, 2, 0]]));
    assert_eq!(committed(), before, "nothing is changed without --execute");
    assert_eq!(reset(&["--topic", "orders:0", "--to-latest", "--execute"]), json!([[0, 2, 3]]));
    assert_eq!(committed()[0], json!([0, 3]));
    assert_eq!(reset(&["--topic", "orders:0", "--shift-by", "-2", "--execute"]), json!([[0, 3, 1]]));
    assert_eq!(reset(&["--topic", "orders:0", "--shift-by=-9"]), json!([[0, 1, 0]]), "not before the log begins");
    assert_eq!(reset(&["--topic", "orders:0", "--to-offset", "99"]), json!([[0, 1, 3]]), "nor behind its end");
    assert_eq!(reset(&["--topic", "orders:0", "--to-datetime", "1970-01-02T00:00:00"]), json!([[0, 1, 0]]));
    assert_eq!(reset(&["--topic", "orders:0", "--to-datetime", "2999-01-01T00:00:00+01:00"]), json!([[0, 1, 3]]));
    assert_eq!(reset(&["--topic", "orders:0", "--by-duration", "PT1H"]), json!([[0, 1, 0]]));
    assert_eq!(reset(&["--topic", "orders", "--to-earliest", "--execute"]), json!([[0, 1, 0], [1, before[1][1], 0]]));

    let export = ["groups", "reset", "payments", "--all-topics", "--to-current", "--export"];
    let exported = succeed(&mut broker.atonce(&export), "");
    assert_eq!(exported, "orders,0,0\norders,1,0\n");
    let file = data.path().join("offsets.csv");
    std::fs::write(&file, exported.replace("orders,1,0", "orders,1,2")).expect("it is written");
    let file = file.to_str().expect("is text");
    assert_eq!(reset(&["--from-file", file, "--execute"]), json!([[0, 0, 0], [1, 0, 2]]));
    assert_eq!(committed(), json!([[0, 0], [1, 2]]));
    // What is read now begins there.
    let read = ["consume", "orders", "--group", "payments", "--count", "4"];
    let mut read: Vec<String> = succeed(&mut broker.atonce(&read), "").lines().map(str::to_owned).collect();
    read.sort();
    assert_eq!(read, ["a", "b", "c", "f"]);

    succeed(&mut broker.atonce(&["groups", "delete-offsets", "payments", "--topic", "orders:1"]), "");
    assert_eq!(committed(), json!([[0, 3]]));
    let told = fail(&mut broker.atonce(&["groups", "delete-offsets", "payments", "--topic", "orders:1"]), 1);
    assert!(told.contains("has committed nothing there"), "{told}");
    let told = fail(&mut broker.atonce(&["groups", "reset", "nobody", "--topic", "orders", "--shift-by", "1"]), 1);
    assert!(told.contains("no committed offset to shift from"), "{told}");
    let told = fail(&mut broker.atonce(&["groups", "reset", "payments", "--topic", "nothing", "--to-latest"]), 1);
    assert!(told.contains("nothing") && told.contains("atonce topics list"), "{told}");
    let told = fail(&mut broker.atonce(&["groups", "reset", "payments", "--from-file", "/no/such/file"]), 1);
    assert!(told.contains("/no/such/file"), "{told}");
}

#[test]
fn transactions_are_listed_described_and_ended() {
    let data = tempfile::tempdir().expect("a folder");
    let broker = start(&data);
    succeed(&mut broker.atonce(&["topics", "create", "orders", "--partitions", "1"]), "");
    let mut open = Running::start(&mut broker.atonce(&["produce", "orders", "--transactional-id", "loader"]));
    open.write("x\n");
    let ongoing = || lines(&broker, &["transactions", "list", "--state", "ongoing", "--json"]);
    while ongoing().is_empty() {}
    assert_eq!(fields(&ongoing(), &["transactional_id", "state"]), json!([["loader", "Ongoing"]]));
    assert_eq!(lines(&broker, &["transactions", "list", "--open-for", "1h", "--json"]), [] as [Value; 0]);
    let described = only(&broker, &["transactions", "describe", "loader", "--json"]);
    assert_eq!(
        fields(std::slice::from_ref(&described), &["transactional_id", "state"]),
        json!([["loader", "Ongoing"]])
    );
    assert_eq!(described["partitions"], json!([{"topic": "orders", "partition": 0}]));
    assert!(described["started_ms"].is_i64() && described["timeout_ms"].is_i64(), "{described}");
    let table = succeed(&mut broker.atonce(&["transactions", "describe", "loader"]), "");
    assert!(table.contains("loader: Ongoing") && table.contains("orders-0"), "{table}");

    // Its coordinator knows it: it does not hang, and is not torn apart unless one insists.
    let hanging = ["transactions", "hanging", "--silent-for", "0s", "--json"];
    assert_eq!(lines(&broker, &hanging), [] as [Value; 0]);
    assert_eq!(lines(&broker, &["transactions", "list", "--hanging", "--json"]), [] as [Value; 0]);
    let abort = ["transactions", "abort", "--topic", "orders", "--partition", "0", "--start-offset"];
    let told = fail(&mut broker.atonce(&[&abort[..], &["0"]].concat()), 1);
    assert!(told.contains("does not hang") && told.contains("atonce transactions fence"), "{told}");
    let told = fail(&mut broker.atonce(&[&abort[..], &["7"]].concat()), 1);
    assert!(told.contains("no transaction that begins at 7"), "{told}");

    succeed(&mut broker.atonce(&["transactions", "fence", "loader"]), "");
    open.end_input();
    assert_eq!(open.ended().code(), Some(1), "whoever is fenced must stop");
    let read = ["consume", "orders", "--from", "beginning", "--until-end"];
    assert_eq!(succeed(&mut broker.atonce(&read), ""), "");

    let mut torn = Running::start(&mut broker.atonce(&["produce", "orders", "--transactional-id", "loader"]));
    torn.write("y\n");
    while ongoing().is_empty() {}
    let start =
        only(&broker, &["topics", "describe", "orders", "--json"])["partitions"][0]["last_stable_offset"].clone();
    succeed(&mut broker.atonce(&[&abort[..], &[&start.to_string(), "--force"]].concat()), "");
    let ends = only(&broker, &["topics", "describe", "orders", "--json"])["partitions"][0].clone();
    assert_eq!(ends["last_stable_offset"], ends["high_watermark"], "nobody waits for it any more");
    drop(torn);
    let told = fail(&mut broker.atonce(&["transactions", "describe", "nobody"]), 1);
    assert!(told.contains("TRANSACTIONAL_ID_NOT_FOUND") && told.contains("atonce transactions list"), "{told}");
}

/// A batch of the older protocol whose partition never was in its transaction, which the broker takes where it is told not to look.
#[test]
fn a_transaction_that_no_coordinator_will_end_is_found_hanging_and_ended() {
    let data = tempfile::tempdir().expect("a folder");
    let broker = start(&data);
    succeed(&mut broker.atonce(&["topics", "create", "orders", "--partitions", "1"]), "");
    let unverified = "transaction.partition.verification.enable=false";
    succeed(&mut broker.atonce(&["configs", "alter", "brokers", "--set", unverified]), "");
    let init = InitProducerIdRequest {
        transactional_id: Some("late".to_owned()),
        transaction_timeout_ms: 60_000,
        producer_id: -1,
        producer_epoch: -1,
        ..Default::default()
    };
    let init = ask(&broker, 4, &init);
    assert_eq!(init.error_code, 0);
    let mut batch = BatchBuilder::default();
    batch.append(1000, None, Some(b"late"), []).expect("small");
    let options = BatchOptions {
        producer: ProducerIdentity::new(init.producer_id, init.producer_epoch),
        base_sequence: Sequence::FIRST,
        is_transactional: true,
        ..Default::default()
    };
    let records = Some(batch.finish(&options).expect("a batch"));
    let partition_data = vec![PartitionProduceData { index: 0, records, ..Default::default() }];
    let topic_data = vec![TopicProduceData { name: "orders".to_owned(), partition_data, ..Default::default() }];
    let produce = ProduceRequest {
        transactional_id: Some("late".to_owned()),
        acks: -1,
        timeout_ms: 10_000,
        topic_data,
        ..Default::default()
    };
    assert_eq!(ask(&broker, 11, &produce).responses[0].partition_responses[0].error_code, 0);
    produce_behind(&broker);

    let found = lines(&broker, &["transactions", "hanging", "--silent-for", "0s", "--json"]);
    assert_eq!(
        fields(&found, &["topic", "partition", "start_offset", "producer_id"]),
        json!([["orders", 0, 0, init.producer_id]])
    );
    let read = ["consume", "orders", "--from", "beginning", "--until-end"];
    let abort = ["transactions", "abort", "--topic", "orders", "--partition", "0", "--start-offset", "0"];
    succeed(&mut broker.atonce(&abort), "");
    assert_eq!(lines(&broker, &["transactions", "hanging", "--silent-for", "0s", "--json"]), [] as [Value; 0]);
    assert_eq!(succeed(&mut broker.atonce(&read), ""), "behind it\n");
}

fn produce_behind(broker: &Served) {
    produce(broker, "0", "behind it\n");
    let ends = only(broker, &["topics", "describe", "orders", "--json"])["partitions"][0].clone();
    assert_eq!((&ends["last_stable_offset"], &ends["high_watermark"]), (&json!(0), &json!(2)), "readers wait");
}

/// Sends a request that no client of ours would, and reads the answer.
fn ask<R: Request>(broker: &Served, version: i16, request: &R) -> R::Response {
    let mut stream = TcpStream::connect(&broker.address).expect("it listens");
    let header = RequestHeader::new(R::KEY, version, 1, Some("by hand"));
    stream.write_all(&frame::encode_request(&header, request).expect("it can be written")).expect("sent");
    let mut length = [0; 4];
    stream.read_exact(&mut length).expect("an answer");
    let mut answer = vec![0; usize::try_from(i32::from_be_bytes(length)).expect("a length")];
    stream.read_exact(&mut answer).expect("all of it");
    let mut reader = Reader::new(answer.into());
    frame::decode_response_header(&mut reader, R::KEY, version).expect("its header");
    R::Response::decode(&mut reader, version).expect("an answer")
}

#[test]
fn the_cluster_is_described() {
    let data = tempfile::tempdir().expect("a folder");
    let broker = start(&data);
    let cluster = only(&broker, &["cluster", "describe", "--json"]);
    let (host, port) = broker.address.rsplit_once(':').expect("host and port");
    assert_eq!(cluster["brokers"][0]["host"], json!(host));
    assert_eq!(cluster["brokers"][0]["port"].to_string(), port);
    assert_eq!(cluster["controller"], cluster["brokers"][0]["node"]);
    assert_eq!(cluster["features"]["transaction.version"], json!(2));
    assert_eq!(cluster["supported_features"]["transaction.version"][1], json!(2));
    let table = succeed(&mut broker.atonce(&["cluster", "describe"]), "");
    assert!(table.contains("transaction.version") && table.contains(port), "{table}");
    assert!(broker.end("TERM").success());
}

#[test]
fn nobody_needs_to_listen() {
    let data = tempfile::tempdir().expect("a folder");
    let broker = start(&data);
    with_a_group(&broker);
    let gone = || {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        writer
    };
    for command in [
        &["groups", "list"][..],
        &["groups", "describe", "payments"],
        &["groups", "describe", "payments", "--json"],
        &["groups", "reset", "payments", "--all-topics", "--to-earliest"],
        &["transactions", "list"],
        &["transactions", "hanging"],
        &["configs", "describe", "topic", "orders", "--all"],
        &["cluster", "describe"],
    ] {
        let output = broker.atonce(command).stdout(gone()).output().expect("the binary starts");
        assert!(output.status.success(), "{command:?}: {}", output.status);
        // Nor to what is said beside it: remarks, failures, logs.
        let output = broker.atonce(command).env("RUST_LOG", "debug").stderr(gone()).output().expect("it starts");
        assert!(output.status.success(), "{command:?}: {}", output.status);
    }
    for (command, status) in [
        (&["groups", "describe", "nobody"][..], 1),
        (&["topics", "describe", "nothing"], 1),
        (&["groups", "reset", "payments", "--to-latest"], 2),
        (&["topics", "create", "a b"], 2),
        (&["demo", "/no/such/file"], 1),
    ] {
        let output = broker.atonce(command).stdin(Stdio::null()).stderr(gone()).output().expect("it starts");
        assert_eq!(output.status.code(), Some(status), "{command:?}");
    }
}

#[test]
fn what_cannot_be_is_refused_before_anybody_is_asked() {
    // Nobody listens there: had anybody been asked, the status were 1.
    let nobody = |arguments: &[&str]| {
        let mut command = atonce();
        command.args(arguments).env("ATONCE_BOOTSTRAP_SERVERS", "127.0.0.1:1");
        command
    };
    for (wrong, told) in [
        (&["topics", "create", "a b"][..], "' ' cannot stand in a topic's name"),
        (&["topics", "delete", "a/b"], "'/' cannot stand in a topic's name"),
        (&["topics", "alter", "orders"], "--partitions"),
        (&["consume", ".."], "cannot be called"),
        (&["produce", ""], "at least one character"),
        (&["records", "delete", "orders:x", "--before", "1"], "orders:0,2"),
        (&["records", "delete", "orders", "--before=-1"], "offset from 0"),
        (&["groups", "list", "--state", "lazy"], "Stable"),
        (&["groups", "describe", ""], "at least one character"),
        (&["groups", "reset", "payments", "--to-latest"], "--all-topics"),
        (&["groups", "reset", "payments", "--all-topics"], "--to-earliest"),
        (&["groups", "reset", "payments", "--all-topics", "--to-latest", "--to-earliest"], "cannot be used with"),
        (&["groups", "reset", "payments", "--all-topics", "--to-datetime", "noon"], "YYYY-MM-DD"),
        (&["groups", "reset", "payments", "--all-topics", "--by-duration", "long"], "PT1H30M"),
        (&["groups", "remove-members", "payments"], "--instance-id"),
        (&["transactions", "list", "--state", "going"], "Ongoing"),
        (&["transactions", "abort", "--topic", "orders", "--partition", "0"], "--start-offset"),
        (&["configs", "describe", "topic"], "<NAME>"),
        (&["configs", "describe", "broker", "x"], "is no node id"),
        (&["configs", "describe", "brokers", "1"], "names one"),
        (&["configs", "alter", "topic", "orders"], "--set"),
        (&["configs", "alter", "topic", "orders", "--set", "x"], "KEY=VALUE"),
    ] {
        let text = fail(&mut nobody(wrong), 2);
        assert!(text.contains(told), "{wrong:?}: {text}");
    }
    let output = run(&mut nobody(&["groups", "list"]), "");
    assert_eq!(output.status.code(), Some(1));
}

/// A word count runs, is stopped, and is started over: what it counts begins at one again.
#[test]
fn a_streams_application_is_started_over_when_it_is_told_to_execute() {
    let (data, state) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let broker = start(&data);
    for topic in ["lines", "counts"] {
        succeed(&mut broker.atonce(&["topics", "create", topic, "--partitions", "1"]), "");
    }
    succeed(&mut broker.atonce(&["produce", "lines"]), "a\nb\na\n");
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().expect("a runtime");
    let start_application = || {
        let builder = TopologyBuilder::new();
        builder
            .stream::<Option<String>, String>("lines")
            .group_by(|_, word| word.clone())
            .count(store("words"))
            .to_stream()
            .map_values(|count| count.unwrap_or_default().to_string())
            .to("counts");
        let application = Application::builder("word-count", builder.build().expect("a topology"))
            .bootstrap_servers(broker.address.as_str())
            .state_dir(state.path())
            .start();
        runtime.block_on(application).expect("it starts")
    };
    let counted = |count: &str| {
        let read = ["consume", "counts", "--from", "beginning", "--isolation", "committed", "--count", count];
        let mut read: Vec<String> = succeed(&mut broker.atonce(&read), "").lines().map(str::to_owned).collect();
        read.sort();
        read.concat()
    };
    let reset = ["streams", "reset", "word-count", "--to-earliest", "--state-dir"];
    let reset = [&reset[..], &[state.path().to_str().expect("is text")]].concat();
    let topics = || {
        let names = lines(&broker, &["topics", "list", "--json"]).into_iter();
        let names = names.map(|it| it["topic"].as_str().expect("a name").to_owned());
        names.filter(|it| it.starts_with("word-count-")).collect::<Vec<String>>()
    };

    let running = start_application();
    assert_eq!(counted("3"), "112");
    let told = fail(&mut broker.atonce(&reset), 1);
    assert!(told.contains("has 1 members"), "{told}");
    // Long words are broken where a line ends.
    assert!(told.replace(' ', "").contains(&format!("{}-0", running.process_id())), "{told}");
    runtime.block_on(running.close()).expect("it closes");

    let plan = lines(&broker, &[&reset[..], &["--json"]].concat());
    assert_eq!(
        fields(&plan[..3], &["action", "topic", "new_offset"]),
        json!([
            ["reset_offset", "lines", 0],
            ["delete_topic", "word-count-words-changelog", null],
            ["delete_topic", "word-count-words-repartition", null],
        ])
    );
    assert_eq!(plan.last().expect("there is one")["action"], "delete_state");
    assert_eq!(topics(), ["word-count-words-changelog", "word-count-words-repartition"], "nothing is changed yet");
    let told = fail(&mut broker.atonce(&[&reset[..], &["--internal-topic", "lines"]].concat()), 2);
    assert!(told.contains("lines is no internal topic of word-count"), "{told}");

    succeed(&mut broker.atonce(&[&reset[..], &["--execute"]].concat()), "");
    assert_eq!((topics(), state.path().join("word-count").exists()), (Vec::new(), false));
    let group = only(&broker, &["groups", "describe", "word-count", "--json"]);
    let offsets = group["offsets"].as_array().expect("some");
    assert_eq!(fields(offsets, &["topic", "committed_offset"]), json!([["lines", 0]]));
    // Twice is once.
    succeed(&mut broker.atonce(&[&reset[..], &["--execute"]].concat()), "");

    let running = start_application();
    assert_eq!(counted("6"), "111122", "each word was counted from one again");
    runtime.block_on(running.close()).expect("it closes");
}
