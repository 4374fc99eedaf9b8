//! The commands, as people run them, against a broker in a process of its own.

#[expect(dead_code, reason = "each test file uses its part")]
mod support;

use std::time::{Duration, Instant};

use support::{Running, Served, atonce, fail, succeed};

#[test]
fn what_is_produced_is_consumed() {
    let data = tempfile::tempdir().expect("a folder");
    let broker = Served::start(data.path(), "os");
    succeed(&mut broker.atonce(&["topics", "create", "orders", "--partitions", "3"]), "");
    assert!(succeed(&mut broker.atonce(&["topics", "list", "--json"]), "").contains(r#""topic":"orders""#));
    let described = succeed(&mut broker.atonce(&["topics", "describe", "orders", "--json"]), "");
    let described: serde_json::Value = serde_json::from_str(&described).expect("a line of JSON");
    assert_eq!(described["partitions"].as_array().map(Vec::len), Some(3), "{described}");

    succeed(&mut broker.atonce(&["produce", "orders", "--partition", "1"]), "one\ntwo\n\nfour");
    let read = ["consume", "orders", "--from", "beginning", "--until-end"];
    assert_eq!(succeed(&mut broker.atonce(&read), ""), "one\ntwo\n\nfour\n");
    assert_eq!(succeed(&mut broker.atonce(&[&read[..], &["--count", "2"]].concat()), ""), "one\ntwo\n");
    let from_two = ["consume", "orders", "--from", "2", "--partition", "1", "--count", "2"];
    assert_eq!(succeed(&mut broker.atonce(&from_two), ""), "\nfour\n");
    let empty = ["consume", "orders", "--from", "beginning", "--partition", "0", "--until-end"];
    assert_eq!(succeed(&mut broker.atonce(&empty), ""), "");

    succeed(&mut broker.atonce(&["topics", "delete", "orders"]), "");
    assert!(!succeed(&mut broker.atonce(&["topics", "list"]), "").contains("orders"));
}

#[test]
fn keys_are_split_off_and_printed() {
    let data = tempfile::tempdir().expect("a folder");
    let broker = Served::start(data.path(), "os");
    succeed(&mut broker.atonce(&["topics", "create", "totals", "--partitions", "1"]), "");
    succeed(&mut broker.atonce(&["produce", "totals", "--key-separator", "="]), "alice=3\nbob=5=6\nnobody\n");
    let read = ["consume", "totals", "--from", "beginning", "--until-end", "--print-keys"];
    assert_eq!(succeed(&mut broker.atonce(&read), ""), "alice\t3\nbob\t5=6\nnull\tnobody\n");
}

#[test]
fn transactional_lines_are_there_as_committed() {
    let data = tempfile::tempdir().expect("a folder");
    let broker = Served::start(data.path(), "sync");
    succeed(&mut broker.atonce(&["topics", "create", "orders", "--partitions", "2"]), "");
    let produce =
        ["produce", "orders", "--transactional-id", "loader", "--lines-per-transaction", "2", "--partition", "0"];
    succeed(&mut broker.atonce(&produce), "1\n2\n3\n4\n5\n");
    let read = ["consume", "orders", "--from", "beginning", "--until-end", "--isolation", "committed"];
    assert_eq!(succeed(&mut broker.atonce(&read), ""), "1\n2\n3\n4\n5\n");
}

#[test]
fn a_group_goes_on_where_it_left_off() {
    let data = tempfile::tempdir().expect("a folder");
    let broker = Served::start(data.path(), "os");
    succeed(&mut broker.atonce(&["topics", "create", "orders", "--partitions", "1"]), "");
    succeed(&mut broker.atonce(&["produce", "orders"]), "1\n2\n3\n");
    let two = ["consume", "orders", "--from", "beginning", "--group", "printers", "--count", "2"];
    assert_eq!(succeed(&mut broker.atonce(&two), ""), "1\n2\n");
    let one = ["consume", "orders", "--from", "beginning", "--group", "printers", "--count", "1"];
    assert_eq!(succeed(&mut broker.atonce(&one), ""), "3\n");
}

#[test]
fn a_broker_ends_cleanly_at_a_signal_and_keeps_what_it_had() {
    let data = tempfile::tempdir().expect("a folder");
    for (round, signal) in ["TERM", "INT", "KILL"].into_iter().enumerate() {
        let broker = Served::start(data.path(), "sync");
        if round == 0 {
            succeed(&mut broker.atonce(&["topics", "create", "orders", "--partitions", "1"]), "");
        }
        succeed(&mut broker.atonce(&["produce", "orders"]), &format!("{round}\n"));
        let status = broker.end(signal);
        assert_eq!(status.success(), signal != "KILL", "{signal}: {status}");
    }
    let broker = Served::start(data.path(), "sync");
    let read = ["consume", "orders", "--from", "beginning", "--until-end"];
    assert_eq!(succeed(&mut broker.atonce(&read), ""), "0\n1\n2\n");
}

#[test]
fn a_member_that_is_told_to_end_commits_what_it_printed_and_leaves() {
    let data = tempfile::tempdir().expect("a folder");
    let broker = Served::start(data.path(), "os");
    succeed(&mut broker.atonce(&["topics", "create", "orders", "--partitions", "1"]), "");
    let read = ["consume", "orders", "--from", "beginning", "--group", "printers"];
    for (signal, status, line) in [("INT", 130, "1\n"), ("TERM", 143, "2\n")] {
        succeed(&mut broker.atonce(&["produce", "orders"]), line);
        let started = Instant::now();
        let mut consume = Running::start(&mut broker.atonce(&read));
        assert_eq!(consume.line(), line);
        consume.signal(signal);
        assert_eq!(consume.ended().code(), Some(status), "{signal}");
        // Had the first member stayed in the group, the second would have got nothing before its session's end.
        assert!(started.elapsed() < Duration::from_secs(40), "{signal}: {:?}", started.elapsed());
    }
}

#[test]
fn a_demo_that_is_told_to_end_leaves_no_folder() {
    for signal in ["INT", "TERM", "HUP"] {
        let temporary = tempfile::tempdir().expect("a folder");
        let is_empty = || std::fs::read_dir(temporary.path()).expect("it is there").next().is_none();
        // The first guarantee's line says that it is in the midst of the second.
        let mut demo = Running::start(
            atonce().args(["demo", "--json", "--kills", "0", "--durability", "os"]).env("TMPDIR", temporary.path()),
        );
        assert!(demo.line().contains("at_most_once"), "{signal}");
        assert!(!is_empty(), "{signal}: the demo keeps its data there");
        demo.signal(signal);
        assert_eq!(demo.ended().code(), Some(1), "{signal}");
        assert!(is_empty(), "{signal}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_demo_under_nohup_outlives_its_terminal() {
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", r#"trap '' HUP; exec "$0" "$@""#]).arg(env!("CARGO_BIN_EXE_atonce"));
    shell.args(["demo", "--json", "--kills", "0", "--durability", "os"]);
    let mut demo = Running::start(&mut shell);
    assert!(demo.line().contains("at_most_once"));
    demo.signal("HUP");
    assert!(demo.line().contains("at_least_once"));
    assert!(demo.line().contains("exactly_once"));
    assert!(demo.ended().success());
}

#[test]
fn a_worker_whose_demo_is_gone_ends_soon() {
    // It takes connections and answers nothing, as a broker that is gone for good.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = silent.local_addr().expect("an address").to_string();
    let state = tempfile::tempdir().expect("a folder");
    let mut worker = Running::start(
        atonce()
            .args(["demo-worker", "--bootstrap-servers", &address, "--application-id", "a", "--process-id", "p"])
            .args(["--source", "lines", "--sink", "counts", "--guarantee", "exactly_once", "--workers", "1"])
            .args(["--commit-interval-ms", "50", "--session-timeout-ms", "6000", "--transaction-timeout-ms", "10000"])
            .arg("--state-dir")
            .arg(state.path()),
    );
    let _connection = silent.accept().expect("the worker connects");
    let gone = Instant::now();
    worker.end_input();
    assert!(!worker.ended().success());
    assert!(gone.elapsed() < Duration::from_secs(15), "{:?}", gone.elapsed());
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let data = tempfile::tempdir().expect("a folder");
    let broker = Served::start(data.path(), "os");
    succeed(&mut broker.atonce(&["topics", "create", "orders", "--partitions", "3"]), "");
    succeed(&mut broker.atonce(&["produce", "orders"]), "1\n");
    for command in [
        &["topics", "list"][..],
        &["topics", "list", "--json"],
        &["topics", "describe", "orders"],
        &["topics", "describe", "orders", "--json"],
        &["consume", "orders", "--from", "beginning"],
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = broker.atonce(command).stdout(writer).output().expect("the binary starts");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && told.is_empty(), "{command:?}: {} {told}", output.status);
    }
}

#[test]
fn whoever_asks_wrongly_is_told_and_gets_status_two() {
    for wrong in [
        &["nonsense"][..],
        &["topics", "create"],
        &["topics", "create", "x", "--partitions", "0"],
        &["consume", "x", "--from", "yesterday"],
        &["consume", "x", "--until-end", "--group", "g"],
        &["produce", "x", "--lines-per-transaction", "5"],
        &["broker"],
        &["broker", "--data-dir", "x", "-s", "no-equals-sign"],
        &["broker", "--data-dir", "x", "--listen", "foo"],
        &["topics", "list", "--bootstrap-servers", "foo"],
        &["topics", "list", "--bootstrap-servers", "localhost:9092,:1"],
        &["demo", "--bootstrap-servers", "localhost:http"],
        &["demo", "--guarantee", "twice"],
        &["demo", "--partitions", "0"],
        &["demo", "--durability", "os", "--bootstrap-servers", "127.0.0.1:1"],
    ] {
        let told = fail(atonce().args(wrong), 2);
        assert!(told.contains("--help") || told.contains("Usage"), "{wrong:?}: {told}");
    }
}

#[test]
fn what_fails_says_what_to_do_and_gets_status_one() {
    // Nobody listens on a port that was just given back.
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("an address").port();
    let nobody = format!("127.0.0.1:{port}");
    let told = fail(atonce().args(["topics", "list", "--bootstrap-servers", &nobody]), 1);
    assert!(told.contains(&nobody) && told.contains("atonce broker"), "{told}");

    let told = fail(atonce().args(["demo", "/no/such/file"]), 1);
    assert!(told.contains("/no/such/file") && told.contains("name a file"), "{told}");

    let data = tempfile::tempdir().expect("a folder");
    let broker = Served::start(data.path(), "os");
    for command in [
        &["consume", "nothing"][..],
        &["produce", "nothing"],
        &["topics", "describe", "nothing"],
        &["topics", "delete", "nothing"],
    ] {
        let told = fail(&mut broker.atonce(command), 1);
        assert!(told.contains("nothing") && told.contains("atonce topics"), "{command:?}: {told}");
    }
    succeed(&mut broker.atonce(&["topics", "create", "once"]), "");
    let told = fail(&mut broker.atonce(&["topics", "create", "once"]), 1);
    assert!(told.contains("once"), "{told}");
    succeed(&mut broker.atonce(&["topics", "create", "once", "--if-not-exists"]), "");
    succeed(&mut broker.atonce(&["topics", "delete", "nothing", "--if-exists"]), "");
    for verb in ["consume", "produce"] {
        let told = fail(&mut broker.atonce(&[verb, "once", "--partition", "99"]), 1);
        assert!(told.contains("no partition 99"), "{verb}: {told}");
    }
    let told = fail(&mut broker.atonce(&["topics", "delete", "nothing"]), 1);
    assert!(told.contains("the broker answered UNKNOWN_TOPIC_OR_PARTITION"), "{told}");

    let told = fail(atonce().args(["broker", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data.path()), 1);
    assert!(told.contains("--data-dir"), "a folder has one broker: {told}");
}

#[test]
fn a_broker_that_does_not_start_says_what_fits_the_cause_and_says_it_once() {
    let data = tempfile::tempdir().expect("a folder");
    let served = Served::start(&data.path().join("taken"), "os");
    let fresh = data.path().join("fresh");
    let start = |arguments: &[&str], status| {
        fail(atonce().args(["broker", "--durability", "os"]).args(arguments).arg("--data-dir").arg(&fresh), status)
    };
    let told = start(&["--listen", &served.address], 1);
    assert!(told.contains("port 0 takes a free one") && !told.contains("--data-dir"), "{told}");
    assert_eq!(told.matches("in use").count(), 1, "{told}");
    let told = start(&["--listen", "0.0.0.0:0"], 2);
    assert!(told.contains("--allow-unauthenticated") && !told.contains("--data-dir"), "{told}");
    let told = start(&["--listen", "127.0.0.1:0", "-s", "foo.bar=1"], 2);
    assert!(told.contains("foo.bar") && told.contains("-s num.partitions=4"), "{told}");
    let taken = data.path().join("taken");
    let told = fail(atonce().args(["broker", "--listen", "127.0.0.1:0", "--data-dir"]).arg(taken), 1);
    assert!(told.contains("or stop that broker") && !told.contains("--listen"), "{told}");
}

#[test]
fn a_broker_is_set_up_by_a_file_of_kafkas_and_refuses_what_it_does_not_know_by_the_nearest_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("server.properties");
    let data = folder.path().join("data");
    let write = |more: &str| {
        let text = format!("listeners=PLAINTEXT://127.0.0.1:0\nlog.dirs={}\n{more}", data.display());
        std::fs::write(&file, text).expect("written");
    };
    write("num.partitions=3\n");
    let broker = Served::of(atonce().args(["broker", "--log-format", "json", "--config"]).arg(&file));
    succeed(&mut broker.atonce(&["topics", "create", "orders"]), "");
    let described = succeed(&mut broker.atonce(&["topics", "describe", "orders", "--json"]), "");
    assert_eq!(described.matches("\"partition\":").count(), 3, "{described}");
    assert!(broker.end("TERM").success());

    write("num.partition=3\n");
    let told = fail(atonce().args(["broker", "--config"]).arg(&file), 2);
    assert!(told.contains("num.partition") && told.contains("Did you mean num.partitions?"), "{told}");
    write("nonsense\n");
    let told = fail(atonce().args(["broker", "--config"]).arg(&file), 1);
    assert!(told.contains("line 3") && told.contains("nonsense"), "{told}");
    std::fs::write(&file, "num.partitions=3\n").expect("written");
    let told = fail(atonce().args(["broker", "--config"]).arg(&file), 2);
    assert!(told.contains("--data-dir") && told.contains("log.dirs"), "{told}");
}

#[test]
fn a_shell_learns_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = succeed(atonce().args(["completions", shell]), "");
        assert!(script.contains("delete-offsets") && script.contains("to-datetime"), "{shell}");
        assert!(!script.contains("demo-worker"), "{shell}: what is hidden stays so");
    }
    assert!(fail(atonce().args(["completions", "tcsh"]), 2).contains("fish"));
}

#[test]
fn help_teaches_with_examples() {
    for command in [
        &["--help"][..],
        &["demo", "--help"],
        &["broker", "--help"],
        &["topics", "--help"],
        &["produce", "--help"],
        &["consume", "--help"],
        &["groups", "--help"],
        &["groups", "reset", "--help"],
        &["transactions", "--help"],
        &["records", "--help"],
        &["configs", "--help"],
        &["cluster", "--help"],
    ] {
        let told = succeed(atonce().args(command), "");
        assert!(told.contains("atonce "), "{told}");
    }
}
