//! What an unfinished command line says so far, for completing its next word.
//!
//! clap refuses an unfinished line, so this reads it by clap's definition, but leniently. Deliberately not
//! here: the words that complete it.

use std::{env, path::PathBuf};

use clap::{Arg, Command, CommandFactory as _};

use super::{Cli, CompleteArgs};

/// An unfinished command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    /// The value of `--store`.
    pub store: Option<PathBuf>,
    /// The command.
    pub command: Option<String>,
    /// Its arguments that are no options; RUN is the first where a command takes one.
    pub positionals: Vec<String>,
}

impl Line {
    /// Reads the words after the name of the program.
    pub fn read(words: &[String]) -> Self {
        let program = Cli::command();
        let mut line = Self::default();
        let mut words = words.iter().take_while(|word| *word != "--");
        while let Some(word) = words.next() {
            if let Some(option) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) {
                let command = line.command.as_deref().and_then(|name| program.find_subcommand(name));
                let (name, value) = match option.strip_prefix('-') {
                    Some(long) => {
                        long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)))
                    }
                    None => (option, None),
                };
                let arg = command.and_then(|command| find(command, name)).or_else(|| find(&program, name));
                let takes_next = |arg: &Arg| {
                    arg.get_action().takes_values() && !arg.is_require_equals_set() && value.is_none()
                };
                let next = if arg.is_some_and(takes_next) { words.next().map(String::as_str) } else { None };
                if name == "store" {
                    line.store = value.or(next).map(from_home);
                }
            } else if line.command.is_none() {
                line.command = Some(word.clone());
            } else {
                line.positionals.push(word.clone());
            }
        }
        line
    }
}

impl CompleteArgs {
    /// What the words before say.
    pub fn line(&self) -> Line {
        Line::read(&self.line)
    }

    /// What the word begins with so far; of `--option=value`, the value.
    pub fn prefix(&self) -> &str {
        match self.prefix.split_once('=') {
            Some((option, value)) if option.starts_with("--") => value,
            _ => &self.prefix,
        }
    }
}

/// The option called `name`, without its hyphens.
fn find<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    let mut chars = name.chars();
    let short = chars.next().filter(|_| chars.next().is_none());
    command
        .get_arguments()
        .find(|arg| arg.get_long() == Some(name) || (short.is_some() && arg.get_short() == short))
}

/// The shell has not replaced `~` yet.
fn from_home(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), env::var_os("HOME")) {
        (Some(below), Some(home)) => PathBuf::from(home).join(below),
        _ => PathBuf::from(path),
    }
}
