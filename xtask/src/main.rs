//! The chores of the workspace: `cargo xtask <chore>`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line talks to its user")]

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask generate            write the protocol's code from its declarations
cargo xtask generate --check    say which generated file is not what its declaration gives
cargo xtask import-schemas JAR… take the declarations out of Kafka's jars (clients, group and transaction coordinator)
cargo xtask tidy                check what the compiler cannot: arrows between crates, texts, freshness
cargo xtask ci [JOB…]           what CI runs, here: fmt clippy tidy test doc deny demo (all but deny and demo, if none is named)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        ["generate"] => xtask::generate::write().map_err(|error| format!("{error:#}")),
        ["generate", "--check"] => xtask::generate::check().map_err(|error| format!("{error:#}")),
        ["import-schemas", jars @ ..] => xtask::import_schemas::run(jars).map_err(|error| format!("{error:#}")),
        ["tidy"] => xtask::tidy::run(),
        ["ci", jobs @ ..] => xtask::ci::run(jobs),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
