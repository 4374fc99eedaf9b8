//! `atonce completions`: what a shell needs to complete a command line of ours.

use clap::{Args, Command};
use clap_complete::{Shell, generate};

use crate::failure::Failure;
use crate::output;

/// Prints the completions of a shell.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atonce completions bash > ~/.local/share/bash-completion/completions/atonce
  atonce completions zsh > \"${fpath[1]}/_atonce\"
  atonce completions fish > ~/.config/fish/completions/atonce.fish")]
pub(crate) struct Arguments {
    /// Which shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints them; what is hidden stays so.
pub(crate) fn run(arguments: &Arguments, whole: &Command) -> Result<(), Failure> {
    let mut command = Command::new("atonce")
        .args(whole.get_arguments().cloned())
        .subcommands(whole.get_subcommands().filter(|it| !it.is_hide_set()).cloned());
    let mut script = Vec::new();
    generate(arguments.shell, &mut command, "atonce", &mut script);
    output::write(&script)
}
