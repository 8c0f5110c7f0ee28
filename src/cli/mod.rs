//! Words in, words out: arguments, tables, JSON, exit codes.
//!
//! The only part of the program that knows of the command line and of the terminal. Reading order:
//! [`args`] (what can be said), [`error`] (how it is refused), [`output`] (what is printed, and how),
//! [`generate`] (manual pages and completions, made from the arguments).

pub mod args;
