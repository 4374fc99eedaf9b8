//! The `atonce` binary: the demo, the broker, and everyday tools for topics, records, groups and transactions.
//!
//! It puts the layers together and talks to people. It does not know the wire, the log or the coordinators: it uses the
//! public interfaces of `atonce`, `atonce-client` and `atonce-broker` as any user would.
//!
//! Read in this order: `demo`, the proof; then `commands`, one file per command; `failure`, what errors look like, and `output`.

mod demo;
mod commands;
mod failure;
mod output;
mod time;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use commands::broker::LogFormat;
use failure::Failure;

/// Exactly-once stream processing for Kafka: all at once, or not at all.
#[derive(Debug, Parser)]
#[command(name = "atonce", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = "\
Begin with:
  atonce demo                                    see exactly-once survive kill -9
  atonce broker --data-dir ./data                a durable Kafka-compatible broker on 127.0.0.1:9092
  atonce topics create orders --partitions 8
  atonce produce orders < orders.txt
  atonce consume orders --from beginning --until-end

Exit status: 0 it worked, 1 it failed, 2 it was asked wrongly. RUST_LOG=debug shows what happens inside.")]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Arguments),
    #[command(hide = true)]
    DemoWorker(demo::worker::Arguments),
    Broker(commands::broker::Arguments),
    Topics(commands::topics::Arguments),
    Produce(commands::produce::Arguments),
    Consume(commands::consume::Arguments),
    Groups(commands::groups::Arguments),
    Streams(commands::streams::Arguments),
    Transactions(commands::transactions::Arguments),
    Records(commands::records::Arguments),
    Configs(commands::configs::Arguments),
    Cluster(commands::cluster::Arguments),
    Completions(commands::completions::Arguments),
}

fn main() -> ExitCode {
    // Asked wrongly: clap says so and ends with status 2.
    let CommandLine { command } = CommandLine::parse();
    begin_logging(&command);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::remark(format_args!(
                "atonce: cannot start its threads: {error}; see the limits of this system (ulimit -u)"
            ));
            return ExitCode::FAILURE;
        }
    };
    let result = runtime.block_on(run(command));
    // A blocked read of standard input would hold the process for ever.
    runtime.shutdown_background();
    match result {
        Ok(exit) => exit,
        Err(failure) => {
            let status = failure.status();
            if status != 0 {
                output::remark(format_args!("{:?}", miette::Report::new(failure)));
            }
            ExitCode::from(status)
        }
    }
}

/// What is logged goes to standard error. A broker says when it serves; all others speak of trouble only.
fn begin_logging(command: &Command) {
    let (filter, format) = match command {
        Command::Broker(arguments) => ("warn,atonce_broker=info", arguments.log_format()),
        _ => ("warn", LogFormat::Text),
    };
    let logs = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(filter)))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        // Nobody may hear that nobody hears.
        .log_internal_errors(false);
    match format {
        LogFormat::Text => logs.init(),
        LogFormat::Json => logs.json().init(),
    }
}

async fn run(command: Command) -> Result<ExitCode, Failure> {
    let done = |()| ExitCode::SUCCESS;
    match command {
        Command::Demo(arguments) => demo::run(arguments).await,
        Command::DemoWorker(arguments) => demo::worker::run(arguments).await.map(done),
        Command::Broker(arguments) => commands::broker::run(arguments).await.map(done),
        Command::Topics(arguments) => commands::topics::run(arguments).await.map(done),
        Command::Produce(arguments) => commands::produce::run(arguments).await.map(done),
        Command::Consume(arguments) => commands::consume::run(arguments).await,
        Command::Groups(arguments) => commands::groups::run(arguments).await.map(done),
        Command::Streams(arguments) => commands::streams::run(arguments).await.map(done),
        Command::Transactions(arguments) => commands::transactions::run(arguments).await.map(done),
        Command::Records(arguments) => commands::records::run(arguments).await.map(done),
        Command::Configs(arguments) => commands::configs::run(arguments).await.map(done),
        Command::Cluster(arguments) => commands::cluster::run(arguments).await.map(done),
        Command::Completions(arguments) => commands::completions::run(&arguments, &CommandLine::command()).map(done),
    }
}

#[cfg(test)]
mod reference;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        CommandLine::command().debug_assert();
    }
}
