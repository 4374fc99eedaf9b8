//! Clients in processes of their own, that SIGKILL ends in the middle of what they do.
//!
//! Such a process is this test's program again: it runs [`the_client_that_is_killed`] alone, told by its environment whose client to be.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use atonce_broker::Broker;
use krafka::Record;
use krafka::admin::{ListOffsetsOptions, OffsetSpec, TopicPartition};
use krafka::consumer::{GroupProtocol, IsolationLevel};

use crate::{PATIENCE, broker, connect, create, groups, reader, transactional, values_until_end, write_end};

const ADDRESS: &str = "ATONCE_TEST_KILLED_CLIENT_ADDRESS";
const ROLE: &str = "ATONCE_TEST_KILLED_CLIENT_ROLE";
/// Longer than a busy machine takes from a transaction's first record to the next question about it.
const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(4);
const SESSION_TIMEOUT: Duration = Duration::from_secs(6);

/// A client that runs.
pub(crate) struct Client(Child);

impl Client {
    pub(crate) fn start(broker: &Broker, role: &str) -> Self {
        let program = std::env::current_exe().expect("this program");
        let child = Command::new(program)
            .args(["--exact", "killed::the_client_that_is_killed", "--nocapture", "--test-threads=1"])
            .env(ADDRESS, broker.bootstrap_servers())
            .env(ROLE, role)
            .stdout(Stdio::piped())
            .spawn();
        Self(child.expect("it starts"))
    }

    /// Sends SIGKILL once it has printed a line that ends so.
    pub(crate) async fn kill_when_it_says(mut self, words: &'static str) {
        // The broker that it talks to runs on this thread.
        let killed = tokio::task::spawn_blocking(move || {
            let mut lines = BufReader::new(self.0.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
            assert!(lines.any(|line| line.ends_with(words)), "it ended without having said `{words}`");
            self.0.kill().expect("it runs");
            self.0.wait().expect("it ended");
        });
        killed.await.expect("killed");
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Does what its environment says, for longer than anybody waits for it. In a test run of its own it has nothing to do.
#[tokio::test]
#[expect(clippy::print_stdout, reason = "whoever started it reads it")]
async fn the_client_that_is_killed() {
    let (Ok(address), Ok(role)) = (std::env::var(ADDRESS), std::env::var(ROLE)) else { return };
    let kafka = krafka::Kafka::builder(address).connect().await.expect("connected");
    let say = |words: &str| {
        println!("{words}");
        std::io::stdout().flush().expect("somebody reads");
    };
    match role.as_str() {
        "writer" => {
            let builder = kafka.producer().transaction_timeout(TRANSACTION_TIMEOUT);
            let producer = builder.build_transactional("killed").await.expect("registered");
            producer.begin().expect("begun");
            let _ = producer.send(Record::new("t", "of the dead")).await.expect("sent");
            say("sent");
            tokio::time::sleep(PATIENCE).await;
        }
        "member" => {
            let consumer = groups::join(&kafka, GroupProtocol::Classic, None, SESSION_TIMEOUT).await;
            let mut said = 0;
            let end = tokio::time::Instant::now() + PATIENCE;
            while tokio::time::Instant::now() < end {
                consumer.poll(Duration::from_millis(200)).await.expect("polled");
                let count = consumer.assignment().await.values().map(Vec::len).sum();
                if count != said {
                    say(&format!("assigned {count}"));
                    said = count;
                }
            }
        }
        other => panic!("what is a {other}"),
    }
}

#[tokio::test]
async fn a_killed_clients_transaction_is_aborted_when_its_time_is_up_and_its_id_goes_on() {
    for transaction_version in ["1", "2"] {
        let broker = broker(transaction_version).await;
        let kafka = connect(&broker).await;
        create(&kafka, "t", 1).await;
        Client::start(&broker, "writer").kill_when_it_says("sent").await;
        // Written outside of any transaction, and yet behind the open one for who reads committed.
        write_end(&kafka, "t").await;
        let committed = reader(&kafka, "t", 1, IsolationLevel::ReadCommitted).await;
        assert_eq!(values_until_end(&committed).await, Vec::<String>::new());
        let uncommitted = reader(&kafka, "t", 1, IsolationLevel::ReadUncommitted).await;
        assert_eq!(values_until_end(&uncommitted).await, ["of the dead"]);
        // The record, the end, and the marker of the time-out.
        let at = TopicPartition::new("t", 0);
        let options = ListOffsetsOptions::default().read_committed(true);
        let admin = kafka.admin();
        let ends = tokio::time::timeout(PATIENCE, admin.list_offsets([(at.clone(), OffsetSpec::Latest)], options));
        assert_eq!(ends.await.expect("in time").expect("asked")[&at].as_ref().expect("found").offset, 3);

        let heir = transactional(&kafka, "killed").await;
        heir.begin().expect("begun");
        let _ = heir.send(Record::new("t", "of the heir")).await.expect("sent");
        heir.commit().await.expect("committed");
        write_end(&kafka, "t").await;
        // Goes on behind the first end.
        assert_eq!(values_until_end(&committed).await, ["of the heir"]);
    }
}
