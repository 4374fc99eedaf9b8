//! `atonce broker check` and `salvage`, on a folder that a broker has left.

#[expect(dead_code, reason = "each test file uses its part")]
mod support;

use std::fs;

use support::{Served, atonce, fail, succeed};

#[test]
fn damage_is_named_and_what_is_whole_is_kept_only_when_told_so() {
    let data = tempfile::tempdir().expect("a temporary folder");
    let broker = Served::start(data.path(), "sync");
    succeed(&mut broker.atonce(&["topics", "create", "orders", "--partitions", "1"]), "");
    for value in ["one\n", "two\n", "three\n"] {
        succeed(&mut broker.atonce(&["produce", "orders"]), value);
    }
    let folder = |verb: &str| {
        let mut command = atonce();
        command.args(["broker", verb, "--data-dir"]).arg(data.path());
        command
    };
    assert!(fail(&mut folder("check"), 1).contains("in use by a broker"));
    assert!(broker.end("TERM").success());
    assert!(succeed(&mut folder("check"), "").contains("orders-0"));
    assert!(succeed(&mut folder("salvage"), "").contains("nothing is damaged"));
    let segment = data.path().join("orders-0/00000000000000000000.log");
    let mut bytes = fs::read(&segment).expect("a segment");
    let place = bytes.windows(3).position(|window| window == b"two").expect("the record");
    bytes[place] = b'#';
    fs::write(&segment, &bytes).expect("damaged");
    assert!(fail(&mut folder("check"), 1).contains("is damaged"));
    let failed = support::run(folder("check").arg("--json"), "");
    let line: serde_json::Value = serde_json::from_slice(&failed.stdout).expect("a line of JSON");
    assert_eq!(line["is_whole"], false);
    let orders = line["partitions"].as_array().expect("partitions").iter().find(|it| it["partition"] == "orders-0");
    let orders = orders.expect("the partition");
    assert_eq!((&orders["records"], orders["damages"].as_array().map(Vec::len)), (&serde_json::json!(2), Some(1)));
    assert!(succeed(&mut folder("salvage"), "").contains("Nothing was changed."));
    assert_eq!(fs::read(&segment).expect("a segment"), bytes);
    assert!(succeed(folder("salvage").arg("--yes"), "").contains("orders-0: 2 offsets kept"));
    succeed(&mut folder("check"), "");
    let broker = Served::start(data.path(), "sync");
    let read = ["consume", "orders", "--from", "beginning", "--until-end"];
    assert_eq!(succeed(&mut broker.atonce(&read), ""), "one\nthree\n");
}
