//! The examples of whole applications, run as their heads say.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use atonce::client::{Client, NewTopic, Position, ProducerRecord, TopicPartition};
use atonce_broker::{Broker, Durability};

/// The program of an example. `cargo test` has built it, unless it was told to run this file only.
fn program(name: &str) -> Command {
    // This test is in target/PROFILE/deps.
    let mut path: PathBuf = std::env::current_exe().expect("it has a path");
    path.pop();
    path.pop();
    path.extend(["examples", name]);
    let changed = |path: &Path| path.metadata().and_then(|it| it.modified()).ok();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name).with_extension("rs");
    if changed(&path) < changed(&source) {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--package", env!("CARGO_PKG_NAME"), "--example", name]);
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        assert!(build.status().expect("cargo runs").success(), "{name} can be built");
    }
    Command::new(path)
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn word_count_exactly_once_counts_one_by_one_though_it_is_killed() {
    let broker = Broker::builder().temporary().durability(Durability::Os);
    let broker = broker.property("group.initial.rebalance.delay.ms", "0").start().await.expect("starts");
    let client = Client::builder(broker.bootstrap_servers()).connect().await.expect("is there");
    let topics = ["lines", "word-counts"].map(|topic| NewTopic::new(topic, 2));
    assert!(client.admin().create_topics(&topics).await.expect("is answered").values().all(Result::is_ok));
    let state = tempfile::tempdir().expect("a folder");
    let mut example = program("word_count_exactly_once");
    example.arg(broker.bootstrap_servers()).arg(state.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut example = Some((Killed(example.spawn().expect("it starts")), example));

    let producer = client.producer().start().await.expect("starts");
    let places = [0, 1].map(|partition| (TopicPartition::new("word-counts", partition), Position::Earliest));
    let mut consumer = client.consumer().read_committed().assign(places).await.expect("reads");
    let mut counts: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for round in 1..=2 {
        for _ in 0..10 {
            drop(producer.send(ProducerRecord::to("lines").value("to be or not to be")).await.expect("is taken"));
        }
        producer.flush().await.expect("is written");
        while counts.values().map(Vec::len).sum::<usize>() < 60 * round {
            for record in &consumer.next_batch().await.expect("reads").expect("is not stopped") {
                let word = String::from_utf8(record.key.clone().expect("has a key").to_vec()).expect("is text");
                let count = record.value.as_deref().and_then(|it| it.try_into().ok()).expect("eight bytes");
                counts.entry(word).or_default().push(i64::from_be_bytes(count));
            }
        }
        // It takes its partitions back at once, for it keeps its name in the group.
        let (killed, mut command) = example.take().expect("it runs");
        drop(killed);
        example = Some((Killed(command.spawn().expect("it starts again")), command));
    }
    let up_to = |count: i64| (1..=count).collect::<Vec<_>>();
    let expected = [("be", 40), ("not", 20), ("or", 20), ("to", 40)];
    let expected = expected.into_iter().map(|(word, count)| (word.to_owned(), up_to(count))).collect();
    assert_eq!(counts, expected);
}

#[test]
fn hourly_totals_are_those_of_the_records_times() {
    let output = program("hourly_totals").output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // With the first record, then with the first record of each hour.
    let expected = "\
1700000000000 ann 10
1700003600000 ann 20
1700003600000 bob 20
1700007200000 ann 20
1700007200000 bob 20
1700010800000 ann 20
1700010800000 bob 20
";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}
