//! Options of the commands that execute, continue and settle runs.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueHint, value_parser};

use super::values::{self, Resolved};
use crate::domain::{
    ids::{RunId, StepId},
    workflow::Outcome,
};

/// Who does something, for the record.
#[derive(Debug, Clone, Args)]
pub struct ByArgs {
    /// Record this name as who did it [default: $SUDO_USER, else the login name]
    #[arg(long, value_name = "NAME", value_parser = values::name)]
    pub by: Option<String>,
}

/// `run`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    wfctl run report.toml --input '{\"day\":\"2026-12-01\"}'\n  \
    wfctl run report.toml --id report-2026-12-01       (at most once, however often it is called)")]
pub struct RunArgs {
    /// The workflow file
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// The input of the run: JSON, or @FILE with JSON in it [default: null]
    #[arg(long, value_name = "JSON|@FILE")]
    pub input: Option<String>,
    /// The id of the run; exits 73 if there is one already [default: NAME@TIME-m1]
    #[arg(long, value_name = "RUN-ID", value_parser = values::chosen_run_id)]
    pub id: Option<RunId>,
}

/// `tick`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    wfctl tick\n  \
    wfctl tick --dry-run --now 2026-12-24T04:00:00Z    (what would it do then?)")]
pub struct TickArgs {
    /// Measure due times against this instant instead of the clock; a later one admits times to come
    #[arg(long, value_name = "TIME")]
    pub now: Option<String>,
    /// Execute at most this many runs, then leave the rest queued
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    pub max_runs: Option<u32>,
    /// Admit what is due, execute nothing
    #[arg(long)]
    pub no_dispatch: bool,
    /// Leave abandoned runs alone
    #[arg(long)]
    pub no_recover: bool,
    /// Say what would be done, change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// `resume`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    wfctl resume nightly-report@20261201T040000Z --outcome approved --payload '{\"comment\":\"fine\"}'\n  \
    wfctl resume report-7 --outcome rejected --note 'numbers are off' --wait=5m")]
pub struct ResumeArgs {
    /// The run: its id, or a unique prefix of it
    #[arg(value_name = "RUN", value_parser = values::run)]
    pub run: String,
    /// The answer, one of the outcomes of the gate [default: the first that the gate declares]
    #[arg(long, value_name = "OUTCOME", value_parser = values::id::<Outcome>)]
    pub outcome: Option<Outcome>,
    /// What comes with the answer: JSON, @FILE with JSON in it, or - for stdin [default: null]
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    pub payload: Option<String>,
    /// Answer only this question, by its number as `show` gives it; exits 76 if another one is open
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    pub gate: Option<u64>,
    /// Record this text with the answer
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
    /// Wait for a free slot, at most this long where a duration is given, instead of exiting 75
    #[arg(long, value_name = "DUR", num_args = 0..=1, require_equals = true, value_parser = values::duration)]
    pub wait: Option<Option<Duration>>,
    /// Who does this.
    #[command(flatten)]
    pub by: ByArgs,
}

/// `recover`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    wfctl recover --dry-run\n  \
    wfctl recover --run nightly-report@20261201T040000Z")]
pub struct RecoverArgs {
    /// Reconcile this run and nothing else; exits 75 if it is live
    #[arg(long, value_name = "RUN", value_parser = values::run)]
    pub run: Option<String>,
    /// Show the decisions, change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// `cancel`.
#[derive(Debug, Clone, Args)]
pub struct CancelArgs {
    /// The run: its id, or a unique prefix of it
    #[arg(value_name = "RUN", value_parser = values::run)]
    pub run: String,
    /// Record this text
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
    /// Who does this.
    #[command(flatten)]
    pub by: ByArgs,
}

/// `resolve`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Example:\n  wfctl resolve nightly-report@20261201T040000Z --as completed --note 'it is published'"
)]
pub struct ResolveArgs {
    /// The run: its id, or a unique prefix of it
    #[arg(value_name = "RUN", value_parser = values::run)]
    pub run: String,
    /// What a person found out
    #[arg(long = "as", value_name = "HOW", value_enum)]
    pub resolution: Resolved,
    /// Record how that was found out
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
    /// Who does this.
    #[command(flatten)]
    pub by: ByArgs,
}

/// `retry`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Example:\n  wfctl retry nightly-report@20261201T040000Z --from extract --note 'disk was full'"
)]
pub struct RetryArgs {
    /// The run: its id, or a unique prefix of it
    #[arg(value_name = "RUN", value_parser = values::run)]
    pub run: String,
    /// Go on from this step [default: the one that failed]
    #[arg(long, value_name = "STEP", value_parser = values::id::<StepId>)]
    pub from: Option<StepId>,
    /// Record this text
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
    /// Who does this.
    #[command(flatten)]
    pub by: ByArgs,
}

/// `wait`.
#[derive(Debug, Clone, Args)]
pub struct WaitArgs {
    /// The runs: ids, unique prefixes of them, or schedules for their latest runs
    #[arg(required = true, value_name = "RUN", value_parser = values::run)]
    pub runs: Vec<String>,
    /// Give up after this long, with exit status 75 [default: never]
    #[arg(long, value_name = "DUR", value_parser = values::duration)]
    pub timeout: Option<Duration>,
}

/// `drain`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  wfctl drain --wait=10m && reboot")]
pub struct DrainArgs {
    /// Wait until nothing executes any more, at most this long where a duration is given; exits 75 then
    #[arg(long, value_name = "DUR", num_args = 0..=1, require_equals = true, value_parser = values::duration)]
    pub wait: Option<Option<Duration>>,
}
