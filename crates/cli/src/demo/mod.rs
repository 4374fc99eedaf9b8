//! `atonce demo`: runs a word count while its worker is killed again and again, under three guarantees, and counts what was
//! lost and what came twice.
//!
//! The parts, from the pure ones up: [`words`] says what a word is, [`input`] what is counted, [`checker`] judges,
//! [`schedule`] draws the kills, [`report`] says it to people and programs. Around them are loops that only do: [`loader`] writes
//! lines, [`worker`] is the application in a process of its own, [`worker_process`] holds it by its pid, [`reader`] takes what came
//! out, [`cluster`] is where it happens, and [`mod@run`] is one guarantee from beginning to end.
//!
//! The demo uses nothing that a user of the libraries could not use, and its judge looks at the results from outside only. It knows
//! neither how the worker reaches its guarantee nor whether the broker is ours.

mod run;
mod checker;
mod schedule;
mod input;
mod words;
mod report;
mod loader;
pub(crate) mod worker;
mod worker_process;
mod reader;
mod cluster;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use clap::{Args, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};

use crate::commands::broker::DurabilityChoice;
use crate::failure::{Failure, OrFailure};
use crate::output::say;
use checker::DirectCount;
use cluster::Cluster;
use input::{Input, Source};

/// Counts the words of a text while the worker is killed again and again, and says what was lost and what came twice.
///
/// A broker starts inside this process. A loader writes the lines of FILE to a topic; a worker process counts words with a streams
/// application, its state in a persistent store. The worker is killed with SIGKILL at random moments, often inside a transaction, and started
/// again. One kill is replaced by a zombie: the worker is stopped, another takes over, then the first wakes up and must be refused. A kill
/// counts only while there is input that is not committed yet; short input is loaded again until every kill has struck.
///
/// In the end a read_committed reader takes all results. For each word the counts must be 1, 2, 3 … n, each once and in order, and n must be
/// what a direct count of the text says. This is done under three guarantees in turn. The exit status is 0 only if `exactly_once` lost
/// nothing, duplicated nothing and kept the order.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  atonce demo                                                     the documentation of atonce, 10 kills
  atonce demo war-and-peace.txt --kills 100 --partitions 8
  cat *.txt | atonce demo - --guarantee exactly_once --json
  atonce demo --durability os
  atonce demo --bootstrap-servers 127.0.0.1:9092                  on a cluster that is there, such as Apache Kafka

What the columns and the fields of --json mean:
  lost           counts that had to come (1 … n for a word loaded n times) and never did
  duplicated     counts that came again, or had no right to come
  out_of_order   counts that came after a higher one of the same word
  committed, aborted, fenced
                 transactions, as the workers reported them; under the other two guarantees, commits of positions, and those refused.
                 A worker that is killed takes with it what it had not reported yet; a transaction that it left open counts as aborted.
  recovery_ms_p50
                 median time from a kill to the first result after it that a read_committed reader sees
  records_per_second
                 words counted per second, kills and recoveries included")]
pub(crate) struct Arguments {
    /// The text: a file, or `-` for standard input. The documentation of atonce, if not given.
    file: Option<PathBuf>,
    /// How often the worker is killed under each guarantee, the zombie included (from two kills on).
    #[arg(long, value_name = "N", default_value_t = 10)]
    kills: u32,
    /// How many partitions the topics have.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(i32).range(1..=1000))]
    partitions: i32,
    /// How many workers (threads of processing, each with a transactional producer) a worker process has.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: u16,
    /// Only this guarantee. May be given again.
    #[arg(long = "guarantee", value_enum, value_name = "GUARANTEE")]
    guarantees: Vec<Guarantee>,
    /// When the broker inside acknowledges a write.
    #[arg(long, value_enum, default_value_t = DurabilityChoice::Sync, conflicts_with = "bootstrap_servers")]
    durability: DurabilityChoice,
    /// Where broker and workers keep their data; a temporary folder, if not given.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Runs on this cluster instead of a broker inside. (ATONCE_BOOTSTRAP_SERVERS is not looked at: the demo deletes and creates topics.)
    #[arg(long, value_name = "HOST:PORT", value_parser = crate::commands::addresses)]
    bootstrap_servers: Option<String>,
    /// What the names of the demo's topics begin with. Topics that are there under these names are deleted first.
    #[arg(long, value_name = "TEXT", default_value = "demo")]
    prefix: String,
    /// Keeps topics and folders at the end, to look at.
    #[arg(long)]
    keep: bool,
    /// Prints a line of JSON for each guarantee instead of a table.
    #[arg(long)]
    json: bool,
    /// Draws the same moments for the kills as an earlier run; by default, new ones each time.
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// How often the workers commit.
    #[arg(long, value_name = "MS", default_value_t = 50, hide = true, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    commit_interval_ms: u64,
    /// After how long a silent worker's partitions go to another one.
    #[arg(long, value_name = "MS", default_value_t = 6_000, hide = true, value_parser = clap::value_parser!(u64).range(500..=60_000))]
    session_timeout_ms: u64,
    /// After how long a silent worker's transaction is aborted.
    #[arg(long, value_name = "MS", default_value_t = 10_000, hide = true, value_parser = clap::value_parser!(u64).range(500..=60_000))]
    transaction_timeout_ms: u64,
    /// A kill falls up to this long after the worker's first commit.
    #[arg(long, value_name = "MS", default_value_t = 500, hide = true, value_parser = clap::value_parser!(u64).range(0..=60_000))]
    kill_wait_ms_max: u64,
}

/// In which order results and positions become visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
#[value(rename_all = "snake_case")]
#[expect(clippy::enum_variant_names, reason = "these are the field's names")]
pub(crate) enum Guarantee {
    /// Positions first: a crash loses results.
    AtMostOnce,
    /// Results first: a crash repeats them.
    AtLeastOnce,
    /// Both in one transaction.
    ExactlyOnce,
}

impl Guarantee {
    const ALL: [Self; 3] = [Self::AtMostOnce, Self::AtLeastOnce, Self::ExactlyOnce];

    /// The name, as on the command line and in topics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::AtMostOnce => "at_most_once",
            Self::AtLeastOnce => "at_least_once",
            Self::ExactlyOnce => "exactly_once",
        }
    }
}

impl Arguments {
    /// Those asked for, each once, in the order of the table.
    fn chosen_guarantees(&self) -> Vec<Guarantee> {
        Guarantee::ALL.into_iter().filter(|g| self.guarantees.is_empty() || self.guarantees.contains(g)).collect()
    }
}

impl From<Guarantee> for atonce::Guarantee {
    fn from(guarantee: Guarantee) -> Self {
        match guarantee {
            Guarantee::AtMostOnce => Self::AtMostOnce,
            Guarantee::AtLeastOnce => Self::AtLeastOnce,
            Guarantee::ExactlyOnce => Self::ExactlyOnce,
        }
    }
}

/// What all guarantees have in common: the text, where it runs, how it is disturbed.
struct Setup {
    arguments: Arguments,
    lines: Arc<Vec<bytes::Bytes>>,
    direct: DirectCount,
    cluster: Cluster,
    seed: u64,
    /// Part of names that no other run uses, so that nothing of an earlier run (offsets, transactions) has a say in this one.
    run_id: String,
}

/// Runs the demo.
pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    let source = Source::from_argument(arguments.file.as_deref());
    let text = source
        .read()
        .or_failure(|| format!("cannot read {source}"), "name a file that can be read, or `-` for standard input")?;
    let Input { lines, cut_lines, cut_words } = Input::of(&text);
    let direct = DirectCount::of(lines.iter());
    if direct.words() == 0 {
        return Err(Failure::new(
            format!("{source} has no words, so there is nothing to count"),
            "give the demo a text",
        ));
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // Small enough to be typed again.
    let seed = arguments.seed.unwrap_or_else(|| u64::from(now.subsec_nanos()));
    crate::output::remark(format_args!("{source}: {} words in {} lines; seed {seed}", direct.words(), lines.len()));
    if cut_lines > 0 {
        crate::output::remark(format_args!(
            "{cut_lines} lines are too long for one record, and become several; {cut_words} words are, and become several words"
        ));
    }

    // From here on there is something to clear away; before, the text may be awaited, and a signal just ends that.
    let interrupted = interrupted()?;
    tokio::pin!(interrupted);
    let cluster = tokio::select! {
        cluster = Cluster::start(&arguments) => cluster?,
        failure = &mut interrupted => return Err(failure),
    };
    let run_id = format!("{:x}", now.as_millis());
    let setup = Setup { arguments, lines: Arc::new(lines), direct, cluster, seed, run_id };
    let result = tokio::select! {
        result = all_guarantees(&setup) => result,
        failure = &mut interrupted => Err(failure),
    };
    setup.cluster.end(&setup.arguments).await?;
    result
}

/// Waits for Ctrl-C, for a polite kill, or for the terminal's end.
fn interrupted() -> Result<impl Future<Output = Failure>, Failure> {
    let next = "this system refuses signal handlers; run it where they are allowed";
    let listen = |kind, name| signal(kind).or_failure(|| format!("cannot listen for {name}"), next);
    let mut interrupt = listen(SignalKind::interrupt(), "SIGINT")?;
    let mut terminate = listen(SignalKind::terminate(), "SIGTERM")?;
    let mut hang_up = if is_hang_up_ignored() { None } else { Some(listen(SignalKind::hangup(), "SIGHUP")?) };
    Ok(async move {
        let hung_up = async {
            match &mut hang_up {
                Some(hang_up) => hang_up.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hung_up => {}
        }
        Failure::new("interrupted", "start it again; what it left behind goes at the next start")
    })
}

/// Whether whoever started this wants it to outlive its terminal, as `nohup` does. Linux says so; elsewhere it is not known.
fn is_hang_up_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

async fn all_guarantees(setup: &Setup) -> Result<ExitCode, Failure> {
    let mut reports = Vec::new();
    for guarantee in setup.arguments.chosen_guarantees() {
        let report = run::run(setup, guarantee).await?;
        if setup.arguments.json {
            heard_or_not(say(report.json()))?;
        }
        reports.push(report);
    }
    if !setup.arguments.json {
        heard_or_not(say(report::table(&reports)))?;
    }
    report::notes(&reports).iter().for_each(crate::output::remark);
    let holds = reports
        .iter()
        .filter(|report| report.guarantee == Guarantee::ExactlyOnce)
        .all(|report| report.verdict.is_exactly_once());
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The verdict is the exit status too: it stands even if nobody reads the table.
fn heard_or_not(said: Result<(), Failure>) -> Result<(), Failure> {
    said.or_else(|failure| if failure.status() == 0 { Ok(()) } else { Err(failure) })
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

    fn parse(line: &[&str]) -> Arguments {
        CommandLine::try_parse_from([&["demo"], line].concat()).expect("a good line").arguments
    }

    #[test]
    fn guarantees_are_run_once_each_in_the_order_of_the_table() {
        assert_eq!(parse(&[]).chosen_guarantees(), Guarantee::ALL);
        let some =
            parse(&["--guarantee", "exactly_once", "--guarantee", "at_most_once", "--guarantee", "exactly_once"]);
        assert_eq!(some.chosen_guarantees(), [Guarantee::AtMostOnce, Guarantee::ExactlyOnce]);
    }

    #[test]
    fn names_on_the_command_line_are_the_names_everywhere() {
        for guarantee in Guarantee::ALL {
            let value = guarantee.to_possible_value().expect("none is hidden");
            assert_eq!(value.get_name(), guarantee.name());
        }
    }
}
