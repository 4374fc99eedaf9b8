//! The rows of the table: what each measures, what it needs, and the workbench on which it runs.
//!
//! A row is a function from the workbench to lines. It starts the brokers that it needs and ends them, so that nobody's idle
//! process takes time from another row.

mod client_loop;
mod footprint;
mod latency;
mod produce_fetch;
mod read_process_write;
mod recovery;
mod streams;
mod transactions;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fmt, fs};

use anyhow::{Context as _, Result, ensure};

use crate::arguments::Arguments;
use crate::brokers::{Broker, Durability};
use crate::clients::{Client, Jvm, Librdkafka};
use crate::figures::Line;
use crate::report;
use crate::rounds::Progress;

/// A row that can be asked for by its number.
#[derive(Debug)]
pub(crate) struct Row {
    pub number: u8,
    pub what: &'static str,
    needs: &'static [Need],
    /// Seconds that it takes, about: quick, whole.
    takes: (u64, u64),
    run: fn(&mut Workbench) -> Result<Vec<Line>>,
}

impl Row {
    pub(crate) fn expected_seconds(&self, quick: bool) -> u64 {
        if quick { self.takes.0 } else { self.takes.1 }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let programs: Vec<&str> = self.needs.iter().flat_map(|need| need.programs()).copied().collect();
        let (quick, whole) = self.takes;
        write!(f, "{}  {}; {whole} s, quick {quick} s; needs {}", self.number, self.what, programs.join(", "))
    }
}

/// What a row needs that may not be on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// A JDK, Maven and python3: for Apache Kafka, and for the clients of the JVM.
    Jvm,
    /// A C compiler, and pip for the wheel.
    Librdkafka,
}

impl Need {
    fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Jvm => &["java", "javac", "mvn", "python3"],
            Self::Librdkafka => &["cc", "python3"],
        }
    }
}

/// In the order of the table.
pub(crate) const ROWS: &[Row] = &[
    Row {
        number: 1,
        what: "broker: produce and fetch by the Java clients",
        needs: &[Need::Jvm],
        takes: (75, 300),
        run: produce_fetch::run,
    },
    Row {
        number: 2,
        what: "broker: transactions a second, and their latency, by the Java producer",
        needs: &[Need::Jvm],
        takes: (55, 900),
        run: transactions::run,
    },
    Row {
        number: 3,
        what: "broker: the read-process-write loop of librdkafka",
        needs: &[Need::Jvm, Need::Librdkafka],
        takes: (45, 240),
        run: read_process_write::run,
    },
    Row {
        number: 4,
        what: "client: the read-process-write loop, beside librdkafka",
        needs: &[Need::Jvm, Need::Librdkafka],
        takes: (25, 200),
        run: client_loop::run,
    },
    Row {
        number: 5,
        what: "streams: records a second, and a second of CPU, beside Kafka Streams",
        needs: &[Need::Jvm],
        takes: (50, 1_800),
        run: streams::run,
    },
    Row {
        number: 6,
        what: "streams: latency from end to end, beside Kafka Streams",
        needs: &[Need::Jvm],
        takes: (45, 1_000),
        run: latency::run,
    },
    Row {
        number: 7,
        what: "streams: SIGKILL to the first new commit, beside Kafka Streams",
        needs: &[Need::Jvm],
        takes: (30, 1_500),
        run: recovery::run,
    },
    Row {
        number: 8,
        what: "broker: start, and what it takes when there is nothing to do",
        needs: &[Need::Jvm],
        takes: (45, 240),
        run: footprint::run,
    },
];

/// Why a row has no lines.
#[derive(Debug)]
pub(crate) enum Failure {
    /// This is not on the machine.
    Missing(String),
    Broken(anyhow::Error),
}

const SCRATCH_PREFIX: &str = "data-";

/// What all rows work with.
#[derive(Debug)]
pub(crate) struct Workbench {
    pub quick: bool,
    /// How many rounds count.
    pub counted_rounds: usize,
    pub progress: Progress,
    /// On the disk of the build's results, since a system's folder for temporary files may be memory.
    scratch: tempfile::TempDir,
    atonce: PathBuf,
    jvm: Option<Jvm>,
    librdkafka: Option<Librdkafka>,
}

impl Workbench {
    pub(crate) fn new(arguments: &Arguments, progress: Progress) -> Result<Self> {
        let folder = report::folder();
        fs::create_dir_all(&folder)?;
        remove_what_an_interrupted_run_left(&folder)?;
        let atonce = match &arguments.atonce {
            Some(path) => path.clone(),
            None => {
                progress.say("building the atonce binary");
                build_atonce()?
            }
        };
        Ok(Self {
            quick: arguments.quick,
            counted_rounds: arguments.counted_rounds(),
            progress,
            scratch: tempfile::Builder::new().prefix(SCRATCH_PREFIX).tempdir_in(folder)?,
            atonce,
            jvm: None,
            librdkafka: None,
        })
    }

    /// Runs a row, if all that it needs is here.
    pub(crate) fn run(&mut self, row: &Row) -> Result<Vec<Line>, Failure> {
        let missing = row.needs.iter().flat_map(|need| need.programs()).find(|program| !is_on_path(program));
        if let Some(program) = missing {
            return Err(Failure::Missing((*program).to_owned()));
        }
        (row.run)(self).map_err(Failure::Broken)
    }

    /// Ours and Apache Kafka, fresh.
    pub(crate) fn both_brokers(&self, durability: Durability) -> Result<[Broker; 2]> {
        Ok([self.ours(durability)?, self.apache_kafka(durability)?])
    }

    /// Ours, as a process of its own.
    pub(crate) fn ours(&self, durability: Durability) -> Result<Broker> {
        self.progress.say(&format!("starting atonce, {}", durability.name()));
        Broker::ours(&self.atonce, &self.scratch.path().join("atonce"), durability)
    }

    pub(crate) fn apache_kafka(&self, durability: Durability) -> Result<Broker> {
        self.progress.say(&format!("starting Apache Kafka, {}", durability.name()));
        Broker::apache_kafka(&kafka_script(), &self.scratch.path().join("kafka"), durability)
    }

    /// A folder for a row's own data, empty.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.scratch.path().join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// A process with the JVM's clients, of which each contender has its own.
    pub(crate) fn java_client(&mut self) -> Result<Client> {
        let jvm = match &self.jvm {
            Some(jvm) => jvm,
            None => {
                self.progress.say("preparing the JVM's clients");
                let classes = report::folder().join("classes");
                self.jvm.insert(Jvm::prepare(&kafka_script(), &peer("Peer.java"), &classes)?)
            }
        };
        Client::start(jvm.command())
    }

    /// librdkafka's loop.
    pub(crate) fn librdkafka(&mut self) -> Result<Librdkafka> {
        let librdkafka = match &self.librdkafka {
            Some(librdkafka) => librdkafka,
            None => {
                self.progress.say("preparing librdkafka");
                self.librdkafka.insert(Librdkafka::prepare(&peer("loop.c"), &report::folder())?)
            }
        };
        Ok(librdkafka.clone())
    }
}

fn remove_what_an_interrupted_run_left(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(SCRATCH_PREFIX) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

fn peer(file: &str) -> PathBuf {
    report::root().join("dev/bench/peer").join(file)
}

/// A broker, and a client of the JVM's that works on it.
#[derive(Debug)]
pub(crate) struct Contender {
    // Dropped in this order: the client goes first.
    pub client: Client,
    pub broker: Broker,
}

impl Contender {
    /// Ours and Apache Kafka, each with such a client.
    pub(crate) fn both(workbench: &mut Workbench, durability: Durability) -> Result<[Self; 2]> {
        let [ours, kafka] = workbench.both_brokers(durability)?;
        Ok([
            Self { client: workbench.java_client()?, broker: ours },
            Self { client: workbench.java_client()?, broker: kafka },
        ])
    }
}

fn kafka_script() -> PathBuf {
    report::root().join("dev/interop/kafka")
}

/// The shipped binary, as a release.
fn build_atonce() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(report::root())
        .args(["build", "--release", "--quiet", "--package", "atonce-cli"])
        .stdin(Stdio::null())
        .status()?;
    ensure!(status.success(), "cannot build the atonce binary: {status}");
    let binary = report::folder().parent().context("it is a folder's folder")?.join("release/atonce");
    ensure!(binary.exists(), "the atonce binary is not at {}", binary.display());
    Ok(binary)
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| Path::new(&folder).join(program).is_file())
}
