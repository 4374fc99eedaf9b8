//! The worker: the word count as a streams application in a process of its own. Started by the demo, not by people.
//!
//! This is what a user of the library writes: a topology, an application, `run_until`. Around it: a line of JSON on standard output whenever
//! the statistics changed, and an end when the demo is gone.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use atonce::{Application, Statistics, Topology, TopologyBuilder, TopologyError, store};
use atonce_client::GroupInstanceId;
use bytes::Bytes;
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use super::Guarantee;
use super::words::words;
use super::worker_process::Status;
use crate::failure::{Failure, OrFailure};

/// What the demo tells its worker.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub(crate) struct Arguments {
    #[arg(long)]
    pub bootstrap_servers: String,
    #[arg(long)]
    pub application_id: String,
    #[arg(long)]
    pub process_id: String,
    #[arg(long)]
    pub source: String,
    #[arg(long)]
    pub sink: String,
    #[arg(long, value_enum)]
    pub guarantee: Guarantee,
    #[arg(long)]
    pub workers: u16,
    #[arg(long)]
    pub state_dir: PathBuf,
    #[arg(long)]
    pub commit_interval_ms: u64,
    #[arg(long)]
    pub session_timeout_ms: u64,
    #[arg(long)]
    pub transaction_timeout_ms: u64,
}

impl Arguments {
    /// The command line that is parsed back into these.
    pub(crate) fn to_command_line(&self) -> Vec<String> {
        let flag = |name: &str, value: &dyn ToString| format!("--{name}={}", value.to_string());
        vec![
            "demo-worker".to_owned(),
            flag("bootstrap-servers", &self.bootstrap_servers),
            flag("application-id", &self.application_id),
            flag("process-id", &self.process_id),
            flag("source", &self.source),
            flag("sink", &self.sink),
            flag("guarantee", &self.guarantee.name()),
            flag("workers", &self.workers),
            flag("state-dir", &self.state_dir.display()),
            flag("commit-interval-ms", &self.commit_interval_ms),
            flag("session-timeout-ms", &self.session_timeout_ms),
            flag("transaction-timeout-ms", &self.transaction_timeout_ms),
        ]
    }
}

/// What a worker of a process is called in its group.
pub(crate) fn instance_id(process_id: &str, worker: u16) -> GroupInstanceId {
    GroupInstanceId::from(format!("{process_id}-{worker}"))
}

/// Lines to words to counts: the key is the word, the value how often it has come, as an eight-byte big-endian integer.
fn word_count(source: &str, sink: &str) -> Result<Topology, TopologyError> {
    let builder = TopologyBuilder::new();
    builder
        .stream::<Option<Bytes>, Bytes>(source)
        .flat_map_values(|line| words(&line).map(|word| line.slice_ref(word)).collect::<Vec<_>>())
        .group_by(|_, word| word.clone())
        .count(store("counts"))
        .to_stream()
        .to(sink);
    builder.build()
}

/// Counts words until it is told to end.
pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let failed = || format!("the worker {} cannot run", arguments.process_id);
    let next = "see the cause above";
    let end = ended()?;
    let topology = word_count(&arguments.source, &arguments.sink).or_failure(failed, next)?;
    let application = Application::builder(&arguments.application_id, topology)
        .bootstrap_servers(&arguments.bootstrap_servers)
        .guarantee(arguments.guarantee.into())
        .workers(arguments.workers.into())
        .state_dir(&arguments.state_dir)
        .process_id(&arguments.process_id)
        .commit_interval(Duration::from_millis(arguments.commit_interval_ms))
        .session_timeout(Duration::from_millis(arguments.session_timeout_ms))
        .transaction_timeout(Duration::from_millis(arguments.transaction_timeout_ms))
        .start()
        .await
        .or_failure(failed, next)?;
    let statistics = application.statistics_reader();
    let telling = tokio::spawn(async move {
        let mut told = Status::default();
        loop {
            told = tell(&statistics.read(), told);
            tokio::time::sleep(TELL_INTERVAL).await;
        }
    });
    let statistics = application.statistics_reader();
    let result = application.run_until(end).await.or_failure(failed, next);
    telling.abort();
    tell(&statistics.read(), Status::default());
    result
}

/// How often the worker looks whether there is something to tell. A kill hides what happened since.
const TELL_INTERVAL: Duration = Duration::from_millis(5);

/// How long a worker whose demo is gone has for ending cleanly.
const ORPHAN_END_LIMIT: Duration = Duration::from_secs(2);

/// Prints what changed, at once: the next instruction may be the last.
fn tell(statistics: &Statistics, told: Status) -> Status {
    let status = Status {
        committed: statistics.committed,
        aborted: statistics.aborted,
        fenced: statistics.fenced,
        records: statistics.records,
    };
    if status != told {
        let line = serde_json::to_string(&status).expect("numbers are JSON");
        // If nobody listens any more, the demo is gone, and standard input says so too.
        let _ = writeln!(std::io::stdout().lock(), "{line}");
    }
    status
}

/// SIGTERM, SIGINT, or the end of the demo: then standard input, a pipe from it, ends.
fn ended() -> Result<impl Future<Output = ()>, Failure> {
    let next = "this system refuses signal handlers; run it where they are allowed";
    let mut terminate = signal(SignalKind::terminate()).or_failure(|| "cannot listen for SIGTERM".into(), next)?;
    let mut interrupt = signal(SignalKind::interrupt()).or_failure(|| "cannot listen for SIGINT".into(), next)?;
    let (gone, parent_gone) = oneshot::channel();
    std::thread::Builder::new()
        .name("atonce-parent".to_owned())
        .spawn(move || {
            let _ = std::io::stdin().lock().read(&mut [0]);
            let _ = gone.send(());
            // With the demo its broker is gone, too, for which a clean end would wait long.
            std::thread::sleep(ORPHAN_END_LIMIT);
            std::process::exit(1);
        })
        .or_failure(|| "cannot watch standard input".into(), "see the limits of this system (ulimit -u)")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = parent_gone => {}
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use atonce::test_driver::TestDriver;
    use clap::Parser;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn words_are_counted_as_they_stand() {
        let topology = word_count("lines", "word-counts").expect("it can work");
        let mut driver = TestDriver::new(&topology);
        driver.input("lines").send((), Bytes::from_static(b"to be or\tnot  to \xff"));
        driver.input("lines").send((), Bytes::new());
        driver.commit();
        let mut counts = driver.output::<Bytes, i64>("word-counts").committed();
        counts.sort();
        let expected = [(&b"be"[..], 1), (b"not", 1), (b"or", 1), (b"to", 1), (b"to", 2), (b"\xff", 1)];
        assert_eq!(counts, expected.map(|(word, count)| (Bytes::from_static(word), count)));
    }

    #[test]
    fn what_the_demo_tells_is_what_the_worker_hears() {
        let arguments = Arguments {
            bootstrap_servers: "127.0.0.1:9092".into(),
            application_id: "demo.exactly_once.1".into(),
            process_id: "-a".into(),
            source: "lines".into(),
            sink: "word counts".into(),
            guarantee: Guarantee::AtLeastOnce,
            workers: 3,
            state_dir: "a folder/x".into(),
            commit_interval_ms: 1,
            session_timeout_ms: 2,
            transaction_timeout_ms: 3,
        };
        let heard = CommandLine::try_parse_from(arguments.to_command_line()).map(|line| line.arguments);
        assert_eq!(heard.ok(), Some(arguments));
    }
}
