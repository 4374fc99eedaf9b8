//! `docs/command-line.md`: the help of every command, as one page. Regenerate it with `ATONCE_REGENERATE=1`, and review the difference.

use std::fmt::Write as _;

use clap::{Command, CommandFactory};

use crate::CommandLine;

const HEAD: &str = "\
# The command line

The help of every command, as `--help` prints it. A test compares; `ATONCE_REGENERATE=1 cargo test -p atonce-cli reference` writes it anew.

Exit status: 0 it worked, 1 it failed, 2 it was asked wrongly. Results go to standard output, everything else to standard error. With
`--json` each result is a line.
";

fn page() -> String {
    let mut page = HEAD.to_owned();
    let mut command = CommandLine::command().term_width(110);
    command.build();
    append(&command, &mut page);
    page
}

/// A chapter for the command, and for those below it.
fn append(command: &Command, page: &mut String) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    let help = command.clone().render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    let help = lines.join("\n").replace(concat!("atonce ", env!("CARGO_PKG_VERSION")), "atonce");
    write!(page, "\n## {name}\n\n```text\n{}\n```\n", help.trim_end()).expect("writes to a string");
    for below in command.get_subcommands().filter(|it| !it.is_hide_set() && it.get_name() != "help") {
        append(below, page);
    }
}

#[test]
fn the_reference_is_what_help_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/command-line.md");
    let expected = page();
    if std::env::var_os("ATONCE_REGENERATE").is_some() {
        std::fs::write(path, &expected).expect("the page is written");
    }
    let kept = std::fs::read_to_string(path).expect("docs/command-line.md is there");
    assert!(kept == expected, "docs/command-line.md is old: ATONCE_REGENERATE=1 cargo test -p atonce-cli reference");
}

#[test]
fn every_command_teaches_and_every_option_is_explained() {
    fn check(command: &Command) {
        let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
        assert!(command.get_about().is_some(), "{name} says what it does");
        for option in command.get_arguments().filter(|it| !it.is_hide_set()) {
            assert!(option.get_help().is_some(), "{name}: {} is explained", option.get_id());
        }
        command.get_subcommands().filter(|it| !it.is_hide_set()).for_each(check);
    }
    let mut command = CommandLine::command();
    command.build();
    check(&command);
}
