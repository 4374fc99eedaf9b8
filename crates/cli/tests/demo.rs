//! The main job, small: few kills, short time-outs, a short text.

#[expect(dead_code, reason = "each test file uses its part")]
mod support;

use serde_json::Value;
use support::{Served, atonce, succeed};

const TEXT: &str =
    "to be or not to be\nthat is the question\n\n  whether 'tis nobler\tin the mind to suffer  \nto be\n";

/// Waits that are long enough for a test: a zombie's successor must wait for both.
const SHORT: [&str; 4] = ["--session-timeout-ms", "1500", "--transaction-timeout-ms", "2000"];

/// The lines of JSON that a demo prints. It ends well, which says that its exactly-once row is 0 and 0.
fn demo(arguments: &[&str]) -> Vec<Value> {
    let printed = succeed(atonce().args(["demo", "-", "--json"]).args(arguments), TEXT);
    printed.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

fn assert_exactly_once(line: &Value, kills: u64) {
    assert_eq!(line["guarantee"], "exactly_once", "{line}");
    assert_eq!(
        (&line["lost"], &line["duplicated"], &line["out_of_order"]),
        (&0.into(), &0.into(), &0.into()),
        "{line}"
    );
    assert_eq!(line["kills"], kills, "{line}");
    let repeats = line["repeats"].as_u64().expect("a number");
    assert!(repeats >= 1, "{line}");
    assert_eq!(line["words"], repeats * 20, "{line}");
    assert_eq!(line["distinct"], 14, "{line}");
    assert!(line["committed"].as_u64() > Some(0), "{line}");
}

#[test]
fn exactly_once_survives_kills_and_a_zombie() {
    let lines = demo(&[&["--guarantee", "exactly_once", "--kills", "4", "--partitions", "2"], &SHORT[..]].concat());
    assert_eq!(lines.len(), 1);
    assert_exactly_once(&lines[0], 4);
    assert_eq!(lines[0]["zombie"], "refused", "{}", lines[0]);
    assert!(lines[0]["fenced"].as_u64() > Some(0), "{}", lines[0]);
    assert!(lines[0]["recovery_ms_p50"].as_u64().is_some(), "{}", lines[0]);
}

#[test]
fn every_guarantee_is_shown_under_os_durability() {
    let lines = demo(&["--kills", "1", "--durability", "os", "--partitions", "1", "--workers", "2"]);
    let names: Vec<_> = lines.iter().map(|line| line["guarantee"].as_str().expect("a name").to_owned()).collect();
    assert_eq!(names, ["at_most_once", "at_least_once", "exactly_once"]);
    assert_exactly_once(&lines[2], 1);
    assert_eq!(lines[0]["words"].as_u64().map(|words| words % 20), Some(0), "{}", lines[0]);
}

#[test]
fn on_a_broker_that_is_there_topics_are_kept_if_asked_for_and_replaced_by_the_next_run() {
    let data = tempfile::tempdir().expect("a folder");
    let broker = Served::start(data.path(), "sync");
    let arguments = ["--guarantee", "exactly_once", "--kills", "1", "--bootstrap-servers", broker.address.as_str()];
    assert_exactly_once(&demo(&[&arguments[..], &["--keep"]].concat())[0], 1);
    let topics = succeed(&mut broker.atonce(&["topics", "list"]), "");
    assert!(topics.contains("demo.exactly_once.lines") && topics.contains("demo.exactly_once.word-counts"), "{topics}");
    let counts = [
        "consume",
        "demo.exactly_once.word-counts",
        "--from",
        "beginning",
        "--until-end",
        "--value-format",
        "long",
        "--print-keys",
    ];
    let counts = succeed(&mut broker.atonce(&counts), "");
    assert_eq!(counts.lines().filter(|line| *line == "question\t1").count(), 1, "{counts}");

    assert_exactly_once(&demo(&arguments)[0], 1);
    let topics = succeed(&mut broker.atonce(&["topics", "list"]), "");
    assert!(!topics.contains("demo."), "without --keep nothing is left: {topics}");
}
