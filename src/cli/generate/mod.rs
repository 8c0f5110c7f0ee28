//! Manual pages and completion scripts, made from the definition of the command line.
//!
//! The copies in `man/` and `completions/` are what this makes; a test fails where they differ. The scripts
//! complete ids and names from the store by calling `wfctl __complete`, which gets the words that were typed so
//! far and says nothing on any error. Deliberately not here: what that command prints.
//!
//! Reading order: this file (what completes a value), `man.rs`, and one file a shell.

mod bash;
mod fish;
mod man;
mod zsh;

use clap::{Arg, Command, CommandFactory as _, ValueHint};

use super::args::{Cli, CompleteWhat, Shell};

pub use man::{man_page, man_pages};

/// The completion script for a shell.
pub fn completions(shell: Shell) -> String {
    let command = Cli::command();
    match shell {
        Shell::Bash => bash::script(&command),
        Shell::Zsh => zsh::script(&command),
        Shell::Fish => fish::script(&command),
    }
}

/// The name that the completion script for a shell has by convention.
pub fn completions_file(shell: Shell) -> &'static str {
    match shell {
        Shell::Bash => "wfctl.bash",
        Shell::Zsh => "_wfctl",
        Shell::Fish => "wfctl.fish",
    }
}

/// What completes a value.
enum Source {
    /// Nothing that is known.
    Nothing,
    /// One of these words.
    Words(Vec<String>),
    /// A file.
    Files,
    /// A folder.
    Folders,
    /// What the store holds.
    Store(CompleteWhat),
}

/// What completes the value of an option or positional argument of a command.
fn source(command: &str, arg: &Arg) -> Source {
    let words: Vec<_> = arg
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| value.get_name().to_owned())
        .collect();
    if !words.is_empty() {
        return Source::Words(words);
    }
    match arg.get_value_hint() {
        ValueHint::FilePath => return Source::Files,
        ValueHint::DirPath => return Source::Folders,
        _ => {}
    }
    let value_name = arg.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str());
    match value_name {
        "RUN" => Source::Store(runs_for(command)),
        "ID" => Source::Store(CompleteWhat::Schedules),
        "STEP" => Source::Store(CompleteWhat::Steps),
        "OUTCOME" => Source::Store(CompleteWhat::Outcomes),
        _ => Source::Nothing,
    }
}

/// The runs that a command makes sense for.
fn runs_for(command: &str) -> CompleteWhat {
    match command {
        "resume" => CompleteWhat::Interrupted,
        "resolve" => CompleteWhat::Ambiguous,
        "retry" => CompleteWhat::Failed,
        "cancel" | "wait" | "recover" => CompleteWhat::Unfinished,
        _ => CompleteWhat::Runs,
    }
}

/// The word for it on the command line.
fn word_for(what: CompleteWhat) -> String {
    use clap::ValueEnum as _;
    what.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// The commands that people see.
fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|sub| !sub.is_hide_set())
}

/// The ways to write an option: `-n`, `--limit`.
fn spellings(arg: &Arg) -> Vec<String> {
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    short.into_iter().chain(long).collect()
}
