//! Words in, words out: arguments, tables, JSON, exit codes.
//!
//! The only part of the program that knows of the command line and of the terminal. Reading order:
//! [`args`] (what can be said), [`error`] (how it is refused), [`text`] and [`table`] (how values look),
//! [`output`] (where they go), [`progress`] (what is seen meanwhile), `commands` (what each does).

pub mod args;
mod commands;
pub mod error;
pub mod generate;
pub mod output;
pub mod progress;
pub mod table;
pub mod text;

use std::{collections::BTreeMap, ffi::OsString, io};

use clap::Parser as _;

use crate::engine::Clock;
use args::Cli;
use output::{Look, Output};

/// What the program finds around it.
pub struct World<'w> {
    /// The words it was called with, its own name first.
    pub args: Vec<OsString>,
    /// Its environment.
    pub env: BTreeMap<OsString, OsString>,
    /// The time.
    pub clock: &'w Clock,
    /// Whether inherited descriptors could be closed to steps.
    pub sanitized: io::Result<()>,
}

/// Does what the command line asks for and gives the exit status.
pub fn run(world: &World<'_>) -> u8 {
    match Cli::try_parse_from(&world.args) {
        Ok(cli) => {
            let out = Output::new(Look::from(&cli.global));
            if let Err(error) = &world.sanitized {
                out.warn(&format!("descriptors that wfctl inherited may reach steps: {error}"));
            }
            commands::dispatch(world, &cli, &out)
        }
        Err(error) => {
            let out = Output::new(Look::of_refused(&world.args));
            let code = out.usage(&error);
            out.finish(code, output::Effect::Reads)
        }
    }
}
