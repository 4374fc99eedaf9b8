//! A worker process, held by its pid: started, killed, stopped, woken, and listened to.
//!
//! It says on its standard output, a line of JSON each time something changed, what it has done ([`Status`]). Its standard input is a pipe
//! that closes with the demo, however that ends, and the worker ends with it: no worker outlives its demo.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;

use crate::failure::{Failure, OrFailure};

/// What a worker has done since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Status {
    /// Transactions, or commits of positions.
    pub committed: u64,
    pub aborted: u64,
    /// Refusals.
    pub fenced: u64,
    /// Records processed, whether committed or not.
    pub records: u64,
}

impl Status {
    /// The sum.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            committed: self.committed + other.committed,
            aborted: self.aborted + other.aborted,
            fenced: self.fenced + other.fenced,
            records: self.records + other.records,
        }
    }
}

/// A running worker.
pub(crate) struct WorkerProcess {
    child: Child,
    /// Held apart from the child, which would close it when it is waited for.
    _standard_input: Option<ChildStdin>,
    pid: Pid,
    status: watch::Receiver<Status>,
    log: PathBuf,
    name: String,
}

const SIGNAL_NEXT: &str = "see the cause above; the demo must be allowed to send signals to its own child processes";

impl WorkerProcess {
    /// Starts this binary again as a worker, with these arguments. What it logs goes to the file `log`.
    pub(crate) fn start(name: &str, arguments: &[String], log: &Path) -> Result<Self, Failure> {
        let next = "see the cause above; the demo starts its own binary again as a child, and needs room for its log in --data-dir";
        let failed = || format!("cannot start the worker {name}");
        let log_file = std::fs::OpenOptions::new().create(true).append(true).open(log).or_failure(failed, next)?;
        let binary = std::env::current_exe().or_failure(failed, next)?;
        let mut child = Command::new(binary)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log_file)
            .kill_on_drop(true)
            .spawn()
            .or_failure(failed, next)?;
        let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let pid = pid.ok_or_else(|| Failure::new(failed(), "it ended at once; try again"))?;
        let output =
            child.stdout.take().ok_or_else(|| Failure::new(failed(), "it has no standard output; try again"))?;
        let standard_input = child.stdin.take();
        let (sender, status) = watch::channel(Status::default());
        tokio::spawn(async move {
            let mut lines = BufReader::new(output).lines();
            // A line that a kill cut short is not the last one's business.
            while let Ok(Some(line)) = lines.next_line().await {
                if let Ok(status) = serde_json::from_str(&line) {
                    sender.send_replace(status);
                }
            }
        });
        Ok(Self { child, _standard_input: standard_input, pid, status, log: log.to_owned(), name: name.to_owned() })
    }

    /// What it said last.
    pub(crate) fn status(&self) -> Status {
        *self.status.borrow()
    }

    /// Waits until what it says satisfies `wanted`, at most `limit` long. False if that did not happen in time; an error if
    /// the worker ended meanwhile.
    pub(crate) async fn until(&mut self, limit: Duration, wanted: impl Fn(&Status) -> bool) -> Result<bool, Failure> {
        let mut status = self.status.clone();
        let seen = async move {
            match status.wait_for(|status| wanted(status)).await {
                Ok(_) => {}
                // It has ended; the other arm says so.
                Err(_) => std::future::pending().await,
            }
        };
        self.alive(async { tokio::time::timeout(limit, seen).await.is_ok() }).await
    }

    /// Waits for `work`, unless the worker ends by itself meanwhile: that is an error, and its last words are part of it.
    pub(crate) async fn alive<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Failure> {
        tokio::select! {
            done = work => Ok(done),
            ended = self.child.wait() => {
                let ended = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
                Err(Failure::new(
                    format!("the worker {} ended by itself ({ended}); its last words:\n{}", self.name, self.last_words()),
                    "that should not happen: please report it with the words above",
                ))
            }
        }
    }

    /// SIGKILL, and waits until it is dead.
    pub(crate) async fn kill(&mut self) -> Result<Status, Failure> {
        self.child.kill().await.or_failure(|| format!("cannot kill the worker {}", self.name), SIGNAL_NEXT)?;
        Ok(self.last_status().await)
    }

    /// SIGSTOP: from now on it does nothing, and does not know it.
    pub(crate) fn stop(&self) -> Result<(), Failure> {
        self.signal(Signal::STOP)
    }

    /// SIGCONT: it goes on as if no time had passed.
    pub(crate) fn wake(&self) -> Result<(), Failure> {
        self.signal(Signal::CONT)
    }

    /// SIGTERM, and waits until it has ended; kills it after `limit`. Says whether it ended by itself and cleanly.
    pub(crate) async fn end(&mut self, limit: Duration) -> Result<(Status, bool), Failure> {
        self.signal(Signal::TERM)?;
        let clean = match tokio::time::timeout(limit, self.child.wait()).await {
            Ok(Ok(status)) => status.success(),
            Ok(Err(_)) | Err(_) => {
                self.child.kill().await.or_failure(|| format!("cannot kill the worker {}", self.name), SIGNAL_NEXT)?;
                false
            }
        };
        Ok((self.last_status().await, clean))
    }

    /// The end of what it logged.
    pub(crate) fn last_words(&self) -> String {
        const LINES: usize = 20;
        let log = std::fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log[log.len().saturating_sub(8 * 1024)..]);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }

    fn signal(&self, signal: Signal) -> Result<(), Failure> {
        kill_process(self.pid, signal)
            .or_failure(|| format!("cannot send {signal:?} to the worker {}", self.name), SIGNAL_NEXT)
    }

    /// What it said last, once its standard output has been read to the end.
    async fn last_status(&mut self) -> Status {
        while self.status.changed().await.is_ok() {}
        self.status()
    }
}
