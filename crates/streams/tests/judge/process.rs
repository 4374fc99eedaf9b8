//! A process of the application, held by its child: started, killed, frozen, closed.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What a process is told, by its environment.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) bootstrap_servers: String,
    /// In the names of the application and its topics.
    pub(crate) prefix: String,
    pub(crate) state_dir: PathBuf,
}

const SERVERS: &str = "ATONCE_JUDGED_SERVERS";
const PREFIX: &str = "ATONCE_JUDGED_PREFIX";
const STATE: &str = "ATONCE_JUDGED_STATE";

impl Settings {
    /// `None`: this is no process that a judge has started.
    pub(crate) fn of_environment() -> Option<Self> {
        let variable = |name: &str| std::env::var(name).ok();
        let state_dir = variable(STATE)?.into();
        Some(Self { bootstrap_servers: variable(SERVERS)?, prefix: variable(PREFIX)?, state_dir })
    }
}

/// What a process does.
#[expect(clippy::print_stderr, reason = "the judge keeps it as the process's log")]
pub(crate) async fn run_until_standard_input_ends(settings: Settings) {
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    // A thread that nobody waits for: the runtime would, for work that may block.
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = end.send(());
    });
    let ended = async {
        let _ = ended.await;
    };
    tokio::pin!(ended);
    let application = loop {
        let starting = super::application(&settings).start();
        let started = tokio::select! {
            started = starting => started,
            () = &mut ended => return,
        };
        match started {
            Ok(application) => break application,
            // The network of this test may be the reason.
            Err(error) => eprintln!("not started: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    if let Err(error) = application.run_until(ended).await {
        eprintln!("ended by itself: {error}");
        std::process::exit(3);
    }
}

/// See the module. Killed when dropped.
pub(crate) struct Process {
    settings: Settings,
    log: PathBuf,
    child: Option<Child>,
    ended_by_itself: Option<String>,
}

impl Process {
    pub(crate) fn start(settings: Settings, log: &Path) -> Self {
        let mut process = Self { settings, log: log.to_owned(), child: None, ended_by_itself: None };
        process.start_again();
        process
    }

    pub(crate) fn start_again(&mut self) {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&self.log).unwrap();
        let Settings { bootstrap_servers, prefix, state_dir } = &self.settings;
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_process_of_the_application", "--ignored", "--nocapture"])
            .env(SERVERS, bootstrap_servers)
            .env(PREFIX, prefix)
            .env(STATE, state_dir)
            .stdin(Stdio::piped())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
    }

    /// SIGKILL, and waits until it is dead.
    pub(crate) fn kill(&mut self) {
        self.look();
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            child.wait().unwrap();
        }
    }

    /// `STOP` or `CONT`.
    pub(crate) fn signal(&self, signal: &str) {
        if let Some(child) = &self.child {
            let sent = Command::new("kill").arg(format!("-{signal}")).arg(child.id().to_string()).status();
            assert!(sent.unwrap().success() || self.child.is_none(), "signals can be sent");
        }
    }

    /// Lets it end, and waits for that.
    pub(crate) async fn close(&mut self) {
        self.look();
        let Some(mut child) = self.child.take() else { return };
        drop(child.stdin.take());
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if begun.elapsed() > Duration::from_secs(90) {
                let _ = child.kill();
                let _ = child.wait();
                panic!("a process does not end: {}", self.last_words());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        if !status.success() {
            self.ended_by_itself = Some(self.last_words());
        }
    }

    /// What it said, if it has ended and nobody told it to.
    pub(crate) fn ended_by_itself(&mut self) -> Option<String> {
        self.look();
        self.ended_by_itself.clone()
    }

    fn look(&mut self) {
        if let Some(child) = &mut self.child
            && child.try_wait().unwrap().is_some()
        {
            self.child = None;
            self.ended_by_itself = Some(self.last_words());
        }
    }

    /// The end of what it said.
    pub(crate) fn last_words(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log).into_owned();
        let lines: Vec<&str> = log.lines().collect();
        format!("{}:\n{}", self.log.display(), lines[lines.len().saturating_sub(30)..].join("\n"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
