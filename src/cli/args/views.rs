//! Options of the commands that look, count, clean up and generate.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum, ValueHint, builder::PossibleValuesParser, value_parser};

use super::values::{self, Shell, StatusWord};
use crate::{
    domain::ids::{ScheduleId, StepId},
    store::settings::KEYS,
};

/// One page of a list.
#[derive(Debug, Clone, Args)]
pub struct PageArgs {
    /// Print at most this many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = value_parser!(u32).range(1..))]
    pub limit: u32,
    /// Go on where the page before ended: its `next_cursor`
    #[arg(long, value_name = "CURSOR")]
    pub cursor: Option<String>,
}

/// `list`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    wfctl list --status interrupted\n  \
    wfctl list --schedule nightly-report --since 2026-12-01 --json")]
pub struct ListArgs {
    /// Only runs in this state
    #[arg(long, value_name = "STATUS", value_enum)]
    pub status: Option<StatusWord>,
    /// Only runs of this schedule
    #[arg(long, value_name = "ID", value_parser = values::id::<ScheduleId>)]
    pub schedule: Option<ScheduleId>,
    /// Only runs of this time or later: 2026-12-01, 2026-12-01T04:00, or RFC 3339
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Which page.
    #[command(flatten)]
    pub page: PageArgs,
}

/// `history`.
#[derive(Debug, Clone, Args)]
pub struct HistoryArgs {
    /// Only of this schedule
    #[arg(long, value_name = "ID", value_parser = values::id::<ScheduleId>)]
    pub schedule: Option<ScheduleId>,
    /// Only of this run
    #[arg(long, value_name = "RUN", value_parser = values::run, conflicts_with = "schedule")]
    pub run: Option<String>,
    /// Which page.
    #[command(flatten)]
    pub page: PageArgs,
}

/// `show`.
#[derive(Debug, Clone, Args)]
pub struct ShowArgs {
    /// The run: its id, a unique prefix of it, or a schedule for its latest run
    #[arg(value_name = "RUN", value_parser = values::run)]
    pub run: String,
}

/// `logs`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Examples:\n  wfctl logs nightly-report --step extract\n  wfctl logs nightly-report -f"
)]
pub struct LogsArgs {
    /// The run: its id, a unique prefix of it, or a schedule for its latest run
    #[arg(value_name = "RUN", value_parser = values::run)]
    pub run: String,
    /// Only the output of this step
    #[arg(long, value_name = "STEP", value_parser = values::id::<StepId>)]
    pub step: Option<StepId>,
    /// Go on printing until the run stops
    #[arg(short, long)]
    pub follow: bool,
}

/// `config`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  wfctl config capacity 8\n  wfctl config keep forever")]
pub struct ConfigArgs {
    /// The setting
    #[arg(value_name = "KEY", value_parser = PossibleValuesParser::new(KEYS.map(|(key, _)| key)))]
    pub key: Option<String>,
    /// Its new value
    #[arg(value_name = "VALUE", requires = "key")]
    pub value: Option<String>,
}

/// `prune`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  wfctl prune --dry-run\n  wfctl prune --older-than 30d --keep 100")]
pub struct PruneArgs {
    /// Delete what ended longer ago than this, for example 30d [default: the setting `keep`, 90d; with --keep, any age]
    #[arg(long, value_name = "DUR", value_parser = values::duration)]
    pub older_than: Option<Duration>,
    /// Keep this many of the newest runs of each schedule, and of each workflow that was run without one
    #[arg(long, value_name = "N")]
    pub keep: Option<u64>,
    /// Say how many would be deleted, delete nothing; --json names them
    #[arg(long)]
    pub dry_run: bool,
}

/// `metrics`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Example:\n  wfctl metrics --output /var/lib/node_exporter/textfile_collector/wfctl.prom"
)]
pub struct MetricsArgs {
    /// Write to this file, atomically, instead of stdout
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// `completions`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    source <(wfctl completions bash)\n  \
    wfctl completions fish > ~/.config/fish/completions/wfctl.fish")]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    pub shell: Shell,
}

/// `man`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  wfctl man | man -l -\n  wfctl man ~/.local/share/man/man1")]
pub struct ManArgs {
    /// Write wfctl.1 and a page for every command into this folder
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
}

/// `__complete`.
#[derive(Debug, Clone, Args)]
pub struct CompleteArgs {
    /// What kind of words
    #[arg(value_name = "WHAT", value_enum)]
    pub what: CompleteWhat,
    /// What the word begins with so far
    #[arg(long, value_name = "TEXT", default_value = "", allow_hyphen_values = true)]
    pub prefix: String,
    /// The words before it, as they were typed, without the name of the program
    #[arg(last = true, value_name = "WORD")]
    pub line: Vec<String>,
}

/// What `__complete` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompleteWhat {
    /// Ids of runs, the newest first
    Runs,
    /// Ids of runs that are not finished
    Unfinished,
    /// Ids of runs that wait at a gate
    Interrupted,
    /// Ids of runs that are ambiguous and unresolved
    Ambiguous,
    /// Ids of runs that failed
    Failed,
    /// Ids of schedules
    Schedules,
    /// Names of the steps of a run
    Steps,
    /// Outcomes of the open gate of a run
    Outcomes,
}
