//! Brokers to measure: ours, as the `atonce` binary, and Apache Kafka, each a process of its own with data on the same disk.
//!
//! It does not know what is done with them.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::{fs, thread};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;

use crate::processes;

/// What an acknowledgement survives, on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Durability {
    /// The loss of power: every append is synced before it is acknowledged.
    Sync,
    /// The death of the process: the system syncs when it likes. Kafka's default.
    Os,
}

impl Durability {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sync => "synced",
            Self::Os => "not synced",
        }
    }

    /// As ours is told.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Os => "os",
        }
    }
}

/// A broker that serves; dropped, it ends.
#[derive(Debug)]
pub(crate) struct Broker {
    pub name: &'static str,
    pub address: String,
    pub pid: u32,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Ours {
        binary: PathBuf,
        data: PathBuf,
        durability: Durability,
        child: Option<Child>,
    },
    /// In the hands of `dev/interop/kafka`.
    ApacheKafka {
        script: PathBuf,
        data: PathBuf,
    },
}

pub(crate) const OURS: &str = "atonce";
pub(crate) const APACHE_KAFKA: &str = "Apache Kafka";
pub(crate) const STUB: &str = "a stub";

/// How often Apache Kafka is started, where it does not come up.
const KAFKA_STARTS_MAX: u32 = 3;

impl Broker {
    /// Starts ours, with a new data folder.
    pub(crate) fn ours(binary: &Path, data: &Path, durability: Durability) -> Result<Self> {
        let _ = fs::remove_dir_all(data);
        let kind = Kind::Ours { binary: binary.to_owned(), data: data.to_owned(), durability, child: None };
        let mut broker = Self { name: OURS, address: String::new(), pid: 0, kind };
        broker.start()?;
        Ok(broker)
    }

    /// Starts Apache Kafka by `dev/interop/kafka`, with a new data folder and a heap of 1 GiB.
    pub(crate) fn apache_kafka(script: &Path, data: &Path, durability: Durability) -> Result<Self> {
        let mut attempts = 1..=KAFKA_STARTS_MAX;
        loop {
            match Self::start_apache_kafka(script, data, durability) {
                // Somebody else may have taken one of its ports since they were found free.
                Err(_) if attempts.next().is_some() => {}
                started => return started,
            }
        }
    }

    fn start_apache_kafka(script: &Path, data: &Path, durability: Durability) -> Result<Self> {
        let _ = fs::remove_dir_all(data);
        let port = two_free_ports()?;
        let mut command = Command::new(script);
        command.args(["start", "--data"]).arg(data).args(["--port", &port.to_string()]);
        // Else a deleted topic's files stay for a minute, and the disk may be small.
        command.args(["--set", "log.segment.delete.delay.ms=1000"]);
        if durability == Durability::Sync {
            command.args(["--set", "log.flush.interval.messages=1"]);
        }
        run(command)?;
        let kind = Kind::ApacheKafka { script: script.to_owned(), data: data.to_owned() };
        let mut broker = Self { name: APACHE_KAFKA, address: format!("127.0.0.1:{port}"), pid: 0, kind };
        broker.find_kafka()?;
        Ok(broker)
    }

    /// Starts it on the data that are there, after [`stop`](Self::stop).
    pub(crate) fn start(&mut self) -> Result<()> {
        match &mut self.kind {
            Kind::Ours { binary, data, durability, child } => {
                let (started, address) = start_ours(binary, data, *durability)?;
                (self.pid, self.address) = (started.id(), address);
                *child = Some(started);
                Ok(())
            }
            Kind::ApacheKafka { script, data } => {
                let mut command = Command::new(script);
                command.args(["restart", "1", "--data"]).arg(data);
                run(command)?;
                self.find_kafka()
            }
        }
    }

    /// Ends it in good order.
    pub(crate) fn stop(&mut self) -> Result<()> {
        match &mut self.kind {
            Kind::Ours { child, .. } => {
                if let Some(mut child) = child.take() {
                    processes::signal(self.pid, Signal::TERM);
                    child.wait()?;
                }
            }
            Kind::ApacheKafka { script, data } => {
                let mut command = Command::new(script);
                command.args(["stop", "--data"]).arg(data);
                run(command)?;
            }
        }
        processes::forget(self.pid);
        Ok(())
    }

    fn find_kafka(&mut self) -> Result<()> {
        if let Kind::ApacheKafka { data, .. } = &self.kind {
            let path = data.join("node-1.pid");
            self.pid = fs::read_to_string(&path)?.trim().parse().with_context(|| path.display().to_string())?;
            processes::remember(self.pid);
        }
        Ok(())
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.stop();
        let (Kind::Ours { data, .. } | Kind::ApacheKafka { data, .. }) = &self.kind;
        let _ = fs::remove_dir_all(data);
    }
}

/// Starts the binary, and returns the address that it says it serves on.
fn start_ours(binary: &Path, data: &Path, durability: Durability) -> Result<(Child, String)> {
    let mut child = Command::new(binary)
        .arg("broker")
        .arg("--data-dir")
        .arg(data)
        .args(["--listen", "127.0.0.1:0", "--durability"])
        .arg(durability.key())
        // As `dev/interop/kafka` sets it for Apache Kafka.
        .args(["-s", "group.initial.rebalance.delay.ms=0"])
        .env("RUST_LOG", "warn")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", binary.display()))?;
    processes::remember(child.id());
    let mut said = String::new();
    let mut lines = BufReader::new(child.stdout.take().context("its stdout is piped")?);
    lines.read_line(&mut said)?;
    let Some(address) = said.split_whitespace().last() else { bail!("the broker ended without a word") };
    // Whatever else it says must not fill the pipe.
    thread::spawn(move || lines.lines().for_each(drop));
    Ok((child, address.to_owned()))
}

fn run(mut command: Command) -> Result<()> {
    let output = command.stderr(Stdio::inherit()).output().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stdout));
    Ok(())
}

/// Ports below those that Linux gives to outgoing connections (from 32768 on): one of these could take the port of a broker that is away for a
/// moment, and whoever connects to it meanwhile could even meet himself.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// A free port whose neighbour, which Apache Kafka's controller takes, is free too.
pub(crate) fn two_free_ports() -> Result<u16> {
    // Two runs side by side begin elsewhere, and so do two calls of one.
    static CALLS: AtomicU16 = AtomicU16::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let begin = std::process::id() * 38 + u32::from(call) * 2;
    for step in 0..1_000 {
        let place = u16::try_from((begin + step * 2) % u32::from(PORTS.end - PORTS.start))?;
        let port = PORTS.start + place;
        let is_free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if is_free(port) && is_free(port + 1) {
            return Ok(port);
        }
    }
    bail!("no two free ports side by side")
}
