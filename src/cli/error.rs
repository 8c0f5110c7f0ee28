//! The one place that says what an error means to a caller: exit status, kind, message, hint.
//!
//! Kinds are stable words for scripts:
//!
//! | exit | kinds |
//! |---|---|
//! | 2 | `usage`, `bad_trigger`, `bad_time`, `unknown_zone` |
//! | 65 | `bad_workflow`, `bad_input`, `never_fires`, `corrupt`, `snapshot` |
//! | 66 | `no_store`, `no_run`, `many_runs`, `no_schedule`, `no_file` |
//! | 69 | `draining` |
//! | 70 | `bug` |
//! | 73 | `exists`, `not_a_store` |
//! | 74 | `io`, `system`, `not_reclaimed`, `not_stopped`, `untracked` |
//! | 75 | `lock_busy`, `full`, `live`, `timeout` |
//! | 76 | `wrong_state` |
//! | 77 | `not_private` |
//! | 78 | `settings`, `format`, `network_fs` |
//! | 129, 130, 143 | `interrupted` |
//!
//! Deliberately not here: printing, which is [`super::output`]'s.

use std::{io, path::Path};

use serde::Serialize;

use super::text::{one_line, shell_word};
use crate::{
    domain::{duration::InvalidDuration, ids::InvalidId, trigger::TriggerError, workflow::WorkflowError},
    engine::EngineError,
    process::Interruption,
    store::StoreError,
};

/// Exit statuses, as `sysexits.h` has them and the manual lists them.
mod exit {
    pub(super) const USAGE: u8 = 2;
    pub(super) const DATA: u8 = 65;
    pub(super) const NO_INPUT: u8 = 66;
    pub(super) const DRAINING: u8 = 69;
    pub(super) const BUG: u8 = 70;
    pub(super) const EXISTS: u8 = 73;
    pub(super) const IO: u8 = 74;
    pub(super) const LATER: u8 = 75;
    pub(super) const STATE: u8 = 76;
    pub(super) const NOT_PERMITTED: u8 = 77;
    pub(super) const CONFIG: u8 = 78;
}

/// An error as its caller is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The exit status.
    pub code: u8,
    /// A stable word for scripts.
    pub kind: &'static str,
    /// What, which, why.
    pub message: String,
    /// What helps, with the command where there is one.
    pub hint: Option<String>,
    /// Lines that come before the message, each complete in itself.
    pub details: Vec<String>,
    /// The errors of a workflow file, for scripts.
    faults: Vec<Fault>,
}

/// The JSON form of a [`Failure`].
#[derive(Debug, Clone, Serialize)]
pub struct FailureDocument {
    error: FailureBody,
}

#[derive(Debug, Clone, Serialize)]
struct FailureBody {
    code: u8,
    kind: &'static str,
    message: String,
    hint: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<Fault>,
}

/// One error of a workflow file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Failure {
    /// A failure without a hint.
    pub fn new(code: u8, kind: &'static str, message: impl Into<String>) -> Self {
        Self { code, kind, message: message.into(), hint: None, details: Vec::new(), faults: Vec::new() }
    }

    /// The same with a hint; an empty one is none.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into()).filter(|hint| !hint.is_empty());
        self
    }

    /// The same failure, with what it is about in front.
    #[must_use]
    pub fn about(mut self, subject: &str) -> Self {
        self.message = format!("{subject}: {}", self.message);
        self
    }

    /// A command line that is wrong in a way that clap cannot see.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(exit::USAGE, "usage", message)
    }

    /// A wait that came to its end without what was waited for.
    pub fn timeout(message: impl Into<String>) -> Self {
        Self::new(exit::LATER, "timeout", message)
    }

    /// A signal that ended the command.
    pub fn interrupted(signal: Interruption, message: impl Into<String>) -> Self {
        Self::new(signal.exit_code(), "interrupted", message)
    }

    /// A file outside of the store that cannot be read or written.
    pub fn file(what: &str, path: &Path, error: &io::Error) -> Self {
        let message = format!("cannot {what} {}: {error}", path.display());
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                Self::new(exit::NO_INPUT, "no_file", message).with_hint("check the path")
            }
            _ => Self::new(exit::IO, "io", message),
        }
    }

    /// What the engine could not do.
    pub fn of(error: &EngineError) -> Self {
        let message = error.to_string();
        let new = |code, kind| Self::new(code, kind, message.clone());
        match error {
            EngineError::Store(error) => Self::of_store(error),
            EngineError::Trigger(error) => Self::of_trigger(error),
            EngineError::Interrupted(signal) => new(signal.exit_code(), "interrupted")
                .with_hint("nothing was changed; give the command again"),
            EngineError::NoRun(_) => new(exit::NO_INPUT, "no_run").with_hint("`wfctl list` names the runs"),
            EngineError::ManyRuns { .. } => {
                new(exit::NO_INPUT, "many_runs").with_hint("write more of the run's id")
            }
            EngineError::NoSchedule { id, nearest } => {
                new(exit::NO_INPUT, "no_schedule").with_hint(match nearest {
                    Some(nearest) if nearest == id => {
                        "it was removed; `wfctl schedule` defines it again".to_owned()
                    }
                    Some(nearest) => format!("there is one called {nearest}"),
                    None => "`wfctl schedules` names the schedules".to_owned(),
                })
            }
            EngineError::Exists { what, id } => new(exit::EXISTS, "exists").with_hint(match *what {
                "schedule" => "--replace replaces it, --id gives the new one another name".to_owned(),
                _ => format!("`wfctl show {}` shows it", shell_word(id)),
            }),
            EngineError::Draining => new(exit::DRAINING, "draining").with_hint("`wfctl undrain` ends it"),
            EngineError::Full { .. } => new(exit::LATER, "full")
                .with_hint("`wfctl status` shows who holds the slots; `wfctl resume` can --wait for one"),
            EngineError::Live { run, .. } => new(exit::LATER, "live")
                .with_hint(format!("`wfctl wait {run}` waits for it, `wfctl cancel {run}` stops it")),
            EngineError::WrongState { hint, .. } => new(exit::STATE, "wrong_state").with_hint(hint),
            EngineError::BadWorkflow { path, errors } => Self::bad_workflow(path, errors),
            EngineError::BadInput { hint, .. } => new(exit::DATA, "bad_input").with_hint(hint),
            EngineError::Unreadable { path, source } => Self::file("read", path, source),
            EngineError::NotReclaimed { run, .. } => {
                new(exit::IO, "not_reclaimed").with_hint(format!("`wfctl recover --run {run}` tries again"))
            }
            EngineError::NotStopped { run, .. } => new(exit::IO, "not_stopped")
                .with_hint(format!("end those processes, then `wfctl recover --run {run}`")),
            EngineError::Untracked { run, .. } => new(exit::IO, "untracked")
                .with_hint(format!("`wfctl recover --run {run}` records what is known")),
            EngineError::System { .. } => new(exit::IO, "system"),
        }
    }

    /// What the store could not do.
    pub fn of_store(error: &StoreError) -> Self {
        let message = error.to_string();
        let new = |code, kind| Self::new(code, kind, message.clone());
        match error {
            StoreError::Io { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied => new(exit::IO, "io")
                    .with_hint("the store and all in it must belong to the user who calls wfctl"),
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => new(exit::IO, "io")
                    .with_hint("make room, for example with `wfctl prune`; what was durable before stays so"),
                io::ErrorKind::ReadOnlyFilesystem => new(exit::IO, "io")
                    .with_hint("on a read-only store only commands that read work, such as `wfctl status`"),
                _ => new(exit::IO, "io").with_hint("what was durable before stays so"),
            },
            StoreError::Corrupt { .. } => new(exit::DATA, "corrupt")
                .with_hint("`wfctl fsck` names all damage; nothing else is affected by this"),
            StoreError::Snapshot { .. } => new(exit::DATA, "snapshot")
                .with_hint("put the file back as it was, or schedule the workflow again with --replace"),
            StoreError::NoStore { path } => new(exit::NO_INPUT, "no_store").with_hint(format!(
                "`wfctl --store {} init` creates it; --store or WFCTL_STORE names another",
                shell_word(&path.to_string_lossy())
            )),
            StoreError::NotAStore { .. } => {
                new(exit::EXISTS, "not_a_store").with_hint("name a new or an empty folder")
            }
            StoreError::NotPrivate { path, why } => {
                new(exit::NOT_PERMITTED, "not_private").with_hint(if why.contains("writable") {
                    format!("`chmod go-w {}` makes it private", shell_word(&path.to_string_lossy()))
                } else {
                    "call wfctl as the owner of the store, or name another with --store".to_owned()
                })
            }
            StoreError::NetworkFs { .. } => new(exit::CONFIG, "network_fs").with_hint(
                "put the store on a local disk; allow_network_fs = true in wfctl.toml overrides this",
            ),
            StoreError::Format { .. } => new(exit::CONFIG, "format")
                .with_hint("use the newer wfctl that wrote it; nothing was changed"),
            StoreError::Settings { .. } => new(exit::CONFIG, "settings")
                .with_hint("wfctl-store(5) lists the settings; `wfctl config KEY VALUE` sets one"),
            StoreError::LockBusy { .. } => {
                new(exit::LATER, "lock_busy").with_hint("try again, or wait longer with --lock-timeout")
            }
            StoreError::Aborted => new(Interruption::Int.exit_code(), "interrupted")
                .with_hint("nothing was changed; give the command again"),
            StoreError::Bug(_) => {
                new(exit::BUG, "bug").with_hint("please report it, with what `wfctl fsck` says")
            }
        }
    }

    /// A trigger, time or zone of the command line. One that is written wrongly is wrong usage; one that is
    /// written well and can never fire is bad data.
    pub fn of_trigger(error: &TriggerError) -> Self {
        let (code, kind) = match error {
            TriggerError::NeverFires { .. } => (exit::DATA, "never_fires"),
            TriggerError::Zone { .. } => (exit::USAGE, "unknown_zone"),
            TriggerError::Time { .. } => (exit::USAGE, "bad_time"),
            TriggerError::Field { .. } | TriggerError::Expression { .. } | TriggerError::Duration { .. } => {
                (exit::USAGE, "bad_trigger")
            }
        };
        Self::new(code, kind, error.to_string()).with_hint(error.hint())
    }

    /// A workflow file that is none: its errors are lines of their own.
    pub fn bad_workflow(path: &Path, errors: &[WorkflowError]) -> Self {
        let file = path.display().to_string();
        let mut failure = Self::new(
            exit::DATA,
            "bad_workflow",
            format!(
                "{file} is not a valid workflow: {}",
                match errors {
                    [] | [_] => "1 error".to_owned(),
                    many => format!("{} errors", many.len()),
                }
            ),
        )
        .with_hint("wfctl-workflow(5) says what a workflow file holds; nothing was stored");
        for WorkflowError { line, column, message, hint } in errors {
            failure.details.push(format!("{file}:{line}:{column}: {message}"));
            failure.details.extend(hint.iter().map(|hint| format!("hint: {hint}")));
            failure.faults.push(Fault {
                file: file.clone(),
                line: *line,
                column: *column,
                message: message.clone(),
                hint: hint.clone(),
            });
        }
        failure
    }

    /// A command line that clap refused, for scripts; people read clap's own text.
    pub fn of_usage(error: &clap::Error) -> Self {
        let text = error.render().to_string();
        let mut paragraphs = text.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty());
        let first = paragraphs.next().unwrap_or_default();
        // Without arguments clap answers with the whole help.
        let message = match first.strip_prefix("error:") {
            Some(message) => one_line(message),
            None => "no command was given".to_owned(),
        };
        let tip = paragraphs.find_map(|paragraph| paragraph.strip_prefix("tip:"));
        let hint = tip.map_or_else(|| "`wfctl --help` lists commands and options".to_owned(), one_line);
        Self::usage(message.trim()).with_hint(hint.trim())
    }

    /// The JSON form.
    pub fn document(&self) -> FailureDocument {
        FailureDocument {
            error: FailureBody {
                code: self.code,
                kind: self.kind,
                message: one_line(&self.message),
                hint: self.hint.as_deref().map(one_line),
                errors: self.faults.clone(),
            },
        }
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Self::of(&error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::of_store(&error)
    }
}

impl From<TriggerError> for Failure {
    fn from(error: TriggerError) -> Self {
        Self::of_trigger(&error)
    }
}

impl From<InvalidId> for Failure {
    fn from(error: InvalidId) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<InvalidDuration> for Failure {
    fn from(error: InvalidDuration) -> Self {
        let hint = error.hint.clone();
        Self::usage(error.to_string()).with_hint(hint)
    }
}

#[cfg(test)]
mod tests;
