//! Words in, words out: arguments, tables, JSON, exit codes.
//!
//! The only part of the program that knows of the command line and of the terminal. Reading order:
//! [`args`] (what can be said), [`error`] (how it is refused), [`text`] and [`table`] (how values look),
//! [`output`] (where they go), [`generate`] (manual pages and completions, made from the arguments).

pub mod args;
pub mod error;
pub mod generate;
pub mod output;
pub mod table;
pub mod text;
