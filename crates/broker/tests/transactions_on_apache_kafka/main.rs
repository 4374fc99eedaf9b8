//! Some 270 small questions about transactions, sequences, offsets, fencing, time-outs, the last stable
//! offset and the end of the epochs, each with the answer of Apache Kafka 4.4.0
//! (`testdata/transactions_on_apache_kafka.txt`). Our broker must say the same, line by line.
//!
//! With `ATONCE_TEST_BOOTSTRAP_SERVERS=HOST:PORT` the questions go to that broker instead. To ask Apache Kafka
//! itself, start it with `transaction.abort.timed.out.transaction.cleanup.interval.ms=1000`.

mod ask;
mod connection;

use std::time::{Duration, Instant};

use ask::Asker;
use atonce_broker::{Broker, Durability};

const QUESTIONS: &str = include_str!("../../testdata/transactions_on_apache_kafka.txt");

#[tokio::test(flavor = "multi_thread")]
async fn our_broker_answers_as_apache_kafka_does() {
    let given = std::env::var("ATONCE_TEST_BOOTSTRAP_SERVERS").ok();
    let broker = match &given {
        Some(_) => None,
        // To the end of the epochs it takes 32,766 answers: without a sync for each.
        None => Some(Broker::builder().temporary().durability(Durability::Os).start().await.expect("a broker starts")),
    };
    let address = given.unwrap_or_else(|| broker.as_ref().expect("started").bootstrap_servers());
    let transcript =
        tokio::task::spawn_blocking(move || answer_all(&address, QUESTIONS)).await.expect("the questions are put");
    let expected: Vec<&str> = QUESTIONS.lines().map(str::trim_end).collect();
    let differences: Vec<String> = expected
        .iter()
        .zip(&transcript)
        .enumerate()
        .filter(|(_, (expected, got))| squeezed(expected) != squeezed(got))
        .map(|(number, (expected, got))| format!("line {}:\n  kafka: {expected}\n  here:  {got}", number + 1))
        .collect();
    assert!(differences.is_empty(), "{} answers differ:\n{}", differences.len(), differences.join("\n"));
}

/// The text again, with the answers of the broker at `address`.
fn answer_all(address: &str, questions: &str) -> Vec<String> {
    let mut asker = Asker::connect(address);
    questions
        .lines()
        .map(|line| match line.split_once("->") {
            _ if line.starts_with('#') || line.trim().is_empty() => line.trim_end().to_owned(),
            _ if line.starts_with("==") => {
                asker.begin_case();
                line.trim_end().to_owned()
            }
            Some((question, _)) => format!("{question}-> {}", asker.ask(question)),
            None => {
                asker.ask(line);
                line.trim_end().to_owned()
            }
        })
        .collect()
}

fn squeezed(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Repeats `attempt` until it gives a value; panics, saying for what it waited, after ten seconds.
fn wait_until<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(Instant::now() < deadline, "waited ten seconds for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
