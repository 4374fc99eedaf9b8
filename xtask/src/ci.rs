//! What CI runs, job by job, the same on a laptop.

use std::path::Path;
use std::process::Command;

/// A job: its name, and the command lines it runs, with what they need in the environment.
struct Job {
    name: &'static str,
    /// Whether it runs when no job is named.
    by_default: bool,
    environment: &'static [(&'static str, &'static str)],
    commands: &'static [&'static str],
}

/// Cheapest first: what fails soon costs least.
const JOBS: &[Job] = &[
    Job { name: "fmt", by_default: true, environment: &[], commands: &["cargo fmt --all --check"] },
    Job {
        name: "clippy",
        by_default: true,
        environment: &[],
        commands: &["cargo clippy --workspace --all-targets --locked -- -D warnings"],
    },
    Job { name: "tidy", by_default: true, environment: &[], commands: &["cargo test --package xtask --locked"] },
    Job { name: "test", by_default: true, environment: &[], commands: &["cargo test --workspace --locked"] },
    Job {
        name: "doc",
        by_default: true,
        // A module comment may name private parts: it is read in the source too.
        environment: &[("RUSTDOCFLAGS", "-D warnings -A rustdoc::private-intra-doc-links")],
        commands: &["cargo doc --workspace --no-deps --locked"],
    },
    Job {
        name: "deny",
        by_default: false,
        environment: &[],
        // Not its advisory database: that is fetched from the network at every run.
        commands: &["cargo deny --locked check bans licenses sources"],
    },
    Job {
        name: "demo",
        by_default: false,
        environment: &[],
        commands: &[
            "cargo run --release --locked -- demo --kills 10 --durability sync",
            "cargo run --release --locked -- demo --kills 10 --durability os --guarantee exactly_once --partitions 3 --workers 2 LICENSE",
        ],
    },
];

/// Runs the jobs of these names in the order of the table, or the default ones.
///
/// Errors: a name that is no job's; the first job that fails.
pub fn run(names: &[&str]) -> Result<(), String> {
    if let Some(unknown) = names.iter().find(|name| JOBS.iter().all(|job| job.name != **name)) {
        let known: Vec<&str> = JOBS.iter().map(|job| job.name).collect();
        return Err(format!("no job is named {unknown}; there are: {}", known.join(" ")));
    }
    let chosen = |job: &&Job| if names.is_empty() { job.by_default } else { names.contains(&job.name) };
    JOBS.iter().filter(chosen).try_for_each(run_job)
}

fn run_job(job: &Job) -> Result<(), String> {
    for line in job.commands {
        let mut words = line.split_whitespace();
        let program = words.next().ok_or("a job without a command")?;
        let status = Command::new(program)
            .args(words)
            .envs(job.environment.iter().copied())
            .current_dir(root())
            .status()
            .map_err(|error| format!("{}: cannot start `{line}`: {error}", job.name))?;
        if !status.success() {
            return Err(format!("{}: `{line}` ended with {status}", job.name));
        }
    }
    Ok(())
}

/// The folder of the workspace.
#[must_use]
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}
