//! Measures atonce beside its peers, and prints one table: `cargo run --release -p bench -- --help`.
//!
//! Read in this order: [`figures`], what a line of the table is; [`rows`], what is measured; [`rounds`], how the contenders take
//! turns. The rest starts and watches processes ([`brokers`], [`clients`], [`processes`]; [`stub`], a broker that does nothing; [`raw_client`], a client that does what it is told; [`application`], our own streams and client) and shows what came of it ([`table`], [`chart`],
//! [`report`]).
//!
//! It does not know how atonce works: it starts the binary, and others' clients speak to it; the library is used as its users do.

mod application;
mod arguments;
mod brokers;
mod chart;
mod clients;
mod figures;
mod processes;
mod raw_client;
mod report;
mod rounds;
mod rows;
mod stub;
mod table;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Context as _, Result};
use tokio::signal::unix::{SignalKind, signal};

use arguments::Arguments;
use figures::{Report, losses};
use rows::Workbench;

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(Some(arguments)) => arguments,
        Ok(None) => {
            say(arguments::HELP);
            return ExitCode::SUCCESS;
        }
        Err(wrong) => {
            complain(&format!("{wrong}\n\n{}", arguments::HELP));
            return ExitCode::from(2);
        }
    };
    if arguments.list {
        for row in rows::ROWS {
            say(&row.to_string());
        }
        return ExitCode::SUCCESS;
    }
    if arguments.stub {
        return match stub::serve_alone(say) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                complain(&format!("bench: {error:#}"));
                ExitCode::FAILURE
            }
        };
    }
    if arguments.application {
        return match application::serve(say) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                complain(&format!("bench: {error:#}"));
                ExitCode::FAILURE
            }
        };
    }
    end_all_when_ended();
    match measure(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            complain(&format!("bench: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Measures and shows. `false` if a row failed; one that lacks something on this machine has not failed.
fn measure(arguments: &Arguments) -> Result<bool> {
    let expected =
        rows::ROWS.iter().filter(|row| arguments.wants(row.number)).map(|row| row.expected_seconds(arguments.quick));
    let progress = rounds::Progress::new(expected.sum());
    let mut report = Report {
        when: report::utc(SystemTime::now()),
        commit: report::commit(),
        machine: report::machine(),
        load_before: report::load(),
        quick: arguments.quick,
        lines: Vec::new(),
        left_out: Vec::new(),
    };
    let mut all_well = true;
    let mut workbench = Workbench::new(arguments, progress)?;
    for row in rows::ROWS.iter().filter(|row| arguments.wants(row.number)) {
        match workbench.run(row) {
            Ok(lines) => report.lines.extend(lines),
            Err(rows::Failure::Missing(what)) => report.left_out.push((row.number, format!("there is no {what}"))),
            Err(rows::Failure::Broken(error)) => {
                all_well = false;
                report.left_out.push((row.number, format!("it failed: {error:#}")));
            }
        }
    }
    workbench.progress.end();
    let lost = report::last_recorded(arguments.quick)?.map_or_else(Vec::new, |earlier| losses(&earlier, &report));
    let text = table::render(&report, &lost);
    say(&text);
    let folder = report::write(&report, &text).context("cannot write the results")?;
    say(&format!("also in {}: table.txt, report.json, a chart for each row", folder.display()));
    if arguments.record {
        say(&format!("recorded: {}", report::record(&report)?.display()));
    }
    Ok(all_well)
}

/// What was started must not go on without us.
fn end_all_when_ended() {
    std::thread::spawn(|| {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            let signals = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
            let (Ok(mut interrupt), Ok(mut terminate)) = signals else { return };
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            processes::kill_all();
            std::process::exit(130);
        });
    });
}

/// Results, on stdout.
fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
