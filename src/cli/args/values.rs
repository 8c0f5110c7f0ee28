//! Closed sets of words, and readers of single values that say why they refuse one.

use std::{str::FromStr, time::Duration};

use clap::ValueEnum;

use crate::domain::{
    duration::parse_duration,
    event::Resolution,
    ids::RunId,
    policy::Overlap,
    trigger::{DstFold, DstGap},
};

/// `--color`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorWord {
    /// Where a terminal shows them
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// `--overlap`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OverlapWord {
    /// Skip the new occurrence
    Skip,
    /// Let it wait its turn
    Queue,
    /// Let one wait and skip newer ones
    QueueOne,
    /// Let it run beside the others
    Allow,
}

/// `--catchup`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CatchUpWord {
    /// Only the newest is admitted
    Latest,
    /// All are, up to --catchup-limit
    All,
    /// Only those that are younger than --deadline
    None,
}

/// `--dst-gap`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DstGapWord {
    /// Once, at the first instant after the gap
    Next,
    /// Not at all
    Skip,
}

/// `--dst-fold`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DstFoldWord {
    /// The first time
    First,
    /// The second time
    Last,
    /// Both times
    Both,
}

/// `--status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StatusWord {
    /// Waiting for a slot or its turn
    Queued,
    /// Executing, and live
    Running,
    /// Waiting at a gate
    Interrupted,
    /// Ended well
    Completed,
    /// Ended badly, or nobody knows how
    Failed,
    /// Given up before it ended
    Cancelled,
    /// Failed with an unknown outcome, and unresolved
    Ambiguous,
    /// Executing, but nobody does: needs recovery
    Abandoned,
}

/// `--as`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Resolved {
    /// It did all it should: the run ends, also where steps are left
    Completed,
    /// It did not: `wfctl retry` can go on, from any step
    Failed,
}

/// A shell that completions are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// GNU bash 4 or newer
    Bash,
    /// zsh
    Zsh,
    /// fish 3 or newer
    Fish,
}

impl From<OverlapWord> for Overlap {
    fn from(word: OverlapWord) -> Self {
        match word {
            OverlapWord::Skip => Self::Skip,
            OverlapWord::Queue => Self::Queue,
            OverlapWord::QueueOne => Self::QueueOne,
            OverlapWord::Allow => Self::Allow,
        }
    }
}

impl From<DstGapWord> for DstGap {
    fn from(word: DstGapWord) -> Self {
        match word {
            DstGapWord::Next => Self::Next,
            DstGapWord::Skip => Self::Skip,
        }
    }
}

impl From<DstFoldWord> for DstFold {
    fn from(word: DstFoldWord) -> Self {
        match word {
            DstFoldWord::First => Self::First,
            DstFoldWord::Last => Self::Last,
            DstFoldWord::Both => Self::Both,
        }
    }
}

impl From<Resolved> for Resolution {
    fn from(word: Resolved) -> Self {
        match word {
            Resolved::Completed => Self::Completed,
            Resolved::Failed => Self::Failed,
        }
    }
}

/// A duration.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|refused| format!("{}; {}", refused.why, refused.hint))
}

/// A run id, a prefix of one, or the id of a schedule.
pub(super) fn run(text: &str) -> Result<String, &'static str> {
    let is_fine = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-' | b'@');
    match text.as_bytes() {
        [] => Err("it is empty; `wfctl list` names the runs"),
        [first, ..] if !(first.is_ascii_alphanumeric() || *first == b'_') => {
            Err("a run id starts with a letter, a digit or '_'")
        }
        bytes if !bytes.iter().all(|b| is_fine(*b)) => {
            Err("a run id is made of letters, digits, '_', '.', '-' and '@'")
        }
        _ => Ok(text.to_owned()),
    }
}

/// An id of any kind, without repeating the text that clap quotes already.
pub(super) fn id<T: FromStr<Err = crate::domain::ids::InvalidId>>(text: &str) -> Result<T, &'static str> {
    text.parse().map_err(|refused: crate::domain::ids::InvalidId| refused.why)
}

/// A run id that a caller may choose. The ones with a time belong to `wfctl`: a run under the id of an
/// occurrence would be taken for that occurrence, which then never ran.
pub(super) fn chosen_run_id(text: &str) -> Result<RunId, &'static str> {
    if text.contains('@') {
        return Err("ids with '@' are given by wfctl itself");
    }
    id(text)
}

/// Text for people, on one line and not blank.
pub(super) fn name(text: &str) -> Result<String, &'static str> {
    if text.trim().is_empty() {
        Err("it is empty")
    } else if text.chars().any(char::is_control) {
        Err("it holds a control character")
    } else {
        Ok(text.to_owned())
    }
}
