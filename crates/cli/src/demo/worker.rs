//! The worker: the word count as a streams application in a process of its own. Started by the demo, not by people.
//!
//! This is what a user of the library writes: a topology, an application, `run_until`. Around it: a line of JSON on standard output whenever
//! the statistics changed, and an end when the demo is gone.

use std::path::PathBuf;
use std::time::Duration;

use atonce_client::GroupInstanceId;
use bytes::Bytes;
use clap::Args;
use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal};

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

/// Counts words until it is told to end.
pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let _ = (&arguments, words(b""), Bytes::new(), Status::default(), Duration::ZERO);
    ended().await?;
    Err(Failure::new("the worker cannot run an application yet", "wait for the next version"))
}

/// SIGTERM, SIGINT, or the end of the demo: then standard input, a pipe from it, ends.
async fn ended() -> Result<(), Failure> {
    let next = "this system refuses signal handlers; run it where they are allowed";
    let mut terminate = signal(SignalKind::terminate()).or_failure(|| "cannot listen for SIGTERM".into(), next)?;
    let mut interrupt = signal(SignalKind::interrupt()).or_failure(|| "cannot listen for SIGINT".into(), next)?;
    let mut parent = tokio::io::stdin();
    let mut nothing = [0];
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        _ = parent.read(&mut nothing) => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        arguments: Arguments,
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
