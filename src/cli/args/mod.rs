//! What can be said on the command line; the one definition that help, manual and completions come from.
//!
//! Invariant: clap alone refuses what is said wrongly, with exit status 2. Deliberately not here: what any
//! of it does, and whatever takes the clock, a zone or the store to understand; such values stay text.
//!
//! Reading order: this file (the program and its commands), `schedules.rs`, `runs.rs`, `views.rs` (their
//! options), `values.rs` (closed sets of words, and readers of single values), `line.rs` (what an unfinished
//! command line says so far).

#![allow(
    clippy::doc_markdown,
    rustdoc::broken_intra_doc_links,
    reason = "doc comments are the help texts here"
)]

mod line;
mod runs;
mod schedules;
mod values;
mod views;

use std::{path::PathBuf, time::Duration};

use clap::{ArgAction, Parser, Subcommand, ValueHint};

pub use line::Line;
pub use runs::{
    ByArgs, CancelArgs, DrainArgs, RecoverArgs, ResolveArgs, ResumeArgs, RetryArgs, RunArgs, TickArgs,
    WaitArgs,
};
pub use schedules::{
    CheckArgs, InitArgs, NextArgs, PolicyArgs, ScheduleArgs, ScheduleChangeArgs, ScheduleIdArgs, TriggerArgs,
    TriggerNowArgs,
};
pub use values::{CatchUpWord, ColorWord, DstFoldWord, DstGapWord, OverlapWord, Resolved, Shell, StatusWord};
pub use views::{
    CompleteArgs, CompleteWhat, CompletionsArgs, ConfigArgs, HistoryArgs, ListArgs, LogsArgs, ManArgs,
    MetricsArgs, PageArgs, PruneArgs, ShowArgs,
};

const ABOUT: &str = "Run multi-step jobs on a schedule, with human gates, without a daemon";

const LONG_ABOUT: &str = "\
Run multi-step jobs on a schedule, with human gates, without a daemon.

Cron, a timer or a person calls wfctl; it does what is due, writes it down in a store folder and exits. A \
started step is never started again unless its author said it may be: where nobody can know how an execution \
ended, wfctl says so, gives its capacity back and leaves the decision to a person.

Results go to stdout, everything else to stderr. With --json, stdout holds one JSON document.";

const AFTER_HELP: &str = "\
Examples:
  wfctl schedule report.toml --cron '0 4 * * *' --tz Europe/Berlin
  * * * * *  wfctl tick --quiet                    (in a crontab)
  wfctl resume nightly@20261201T040000Z --outcome approved";

const AFTER_LONG_HELP: &str = "\
Examples:
  wfctl schedule report.toml --cron '0 4 * * *' --tz Europe/Berlin
  * * * * *  wfctl tick --quiet                    (in a crontab)
  wfctl resume nightly@20261201T040000Z --outcome approved

Exit status:
    0  done
    1  done, and a run that this command executed ended failed
    2  wrong usage
   65  bad data: workflow, payload, corrupt record
   66  no such store, run, schedule or file
   69  the store is draining
   70  a bug in wfctl
   73  it exists already
   74  input or output error; what was durable before stays so
   75  try later: the lock is busy, no slot is free, the run is live
   76  not possible in the run's state
   77  not permitted: the owner or mode of the store
   78  configuration, store format
  129, 130, 143  ended by SIGHUP, SIGINT, SIGTERM

Environment:
  WFCTL_STORE      the store, where --store is not given
  XDG_STATE_HOME   else the store is wfctl in this folder, by default ~/.local/state
  NO_COLOR         no colours, where --color is not given
  COLUMNS          the width of tables";

/// The command line.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "wfctl",
    bin_name = "wfctl",
    version,
    about = ABOUT,
    long_about = LONG_ABOUT,
    after_help = AFTER_HELP,
    after_long_help = AFTER_LONG_HELP,
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    propagate_version = false,
    max_term_width = 100
)]
pub struct Cli {
    /// What holds for every command.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command, before or after its name.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// Use the store in this folder [default: $WFCTL_STORE, else ~/.local/state/wfctl]
    #[arg(long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub store: Option<PathBuf>,
    /// Print one JSON document on stdout, errors included
    #[arg(long, global = true)]
    pub json: bool,
    /// Print results and errors only
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say more on stderr; twice says still more
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
    /// Use colours: auto means where a terminal shows them and `NO_COLOR` is not set
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = ColorWord::Auto)]
    pub color: ColorWord,
    /// Wait at most this long for the store lock, for example 30s [default: the setting `lock_timeout`, 10s]
    #[arg(long, global = true, value_name = "DUR", value_parser = values::duration)]
    pub lock_timeout: Option<Duration>,
}

/// The commands.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Create a store
    ///
    /// The folder is created with mode 0700. `schedule` and `run` do the same by themselves where there is
    /// none; init is for choosing the capacity. A store that is there already is left as it is.
    Init(InitArgs),
    /// Validate workflow files
    ///
    /// Names every error with its file, line, column and a hint. Needs no store and changes nothing. Exits 65
    /// if a file is no valid workflow.
    Check(CheckArgs),
    /// Schedule a workflow
    ///
    /// Pins the file as it is now, with the environment and input, and stores when it is due. Later edits of
    /// the file change nothing until it is scheduled again with --replace. The same definition again is no
    /// error; another one under the same id exits 73. Creates the store where there is none.
    Schedule(Box<ScheduleArgs>),
    /// Start one run now and execute it
    ///
    /// Returns when the run ends or a gate interrupts it. Exits 1 if it failed, 75 if no slot is free, 73 if a
    /// run with the given id exists. Ctrl-C stops the step and records its outcome as unknown. Creates the
    /// store where there is none.
    Run(RunArgs),
    /// Admit an extra run of a schedule
    ///
    /// The run is queued; the next tick executes it. Neither the trigger nor the policies of the schedule are
    /// touched.
    Trigger(TriggerNowArgs),
    /// Do what is due: recover, admit, dispatch
    ///
    /// Made to be called by cron or a timer, once a minute or as often as the finest schedule needs. Recovers
    /// abandoned runs, expires gates, admits, skips or misses what came due, and executes queued runs on all
    /// free slots until none is left. A second tick meanwhile admits and leaves the rest to the first. Deletes
    /// some of the finished runs that are older than the setting `keep`. Exits 1 if a run that it executed failed.
    Tick(TickArgs),
    /// Answer a gate and continue the run
    ///
    /// Checks the answer first; what is refused changes nothing. Then executes the run until it ends or the
    /// next gate interrupts it. Exits 65 if the payload does not fit its schema, 75 if no slot is free, 76 if
    /// the run is not interrupted.
    Resume(ResumeArgs),
    /// Reconcile abandoned runs with what is known
    ///
    /// Decides from the journals alone and executes nothing: a run goes back to the queue where nothing unknown
    /// is in flight, and fails as ambiguous where a started step may or may not have ended. Live runs are never
    /// touched. Every tick begins with it.
    Recover(RecoverArgs),
    /// Cancel a run
    ///
    /// A queued or interrupted run is cancelled. The step of a live one is stopped, and the run fails as
    /// ambiguous, because nobody knows how far the step had come. In a draining store the step is stopped too,
    /// but `recover` decides about the run, and this exits 69. Exits 76 if the run is finished.
    Cancel(CancelArgs),
    /// Record what became of an ambiguous run
    ///
    /// For a person who looked. Executes nothing: a run that is resolved as completed ends there, also where
    /// steps are left. To go on with those, resolve it as failed, then `wfctl retry --from` the next of them.
    /// Exits 76 if the run is not ambiguous.
    Resolve(ResolveArgs),
    /// Send a failed run back to the queue
    ///
    /// It goes on from the step that failed, or from a named one, with new idempotency keys. Exits 76 if the run
    /// has not failed, or is ambiguous and unresolved.
    Retry(RetryArgs),
    /// Wait until runs are finished or interrupted
    ///
    /// Exits 1 if one of them failed, 75 if the time is over.
    Wait(WaitArgs),
    /// Stop admitting, dispatching and resuming
    ///
    /// Runs that execute finish. Until `undrain`, run, trigger, tick, resume and retry exit 69; a run that is
    /// stopped meanwhile, also by Ctrl-C or `cancel`, is left to `recover`.
    Drain(DrainArgs),
    /// End draining
    Undrain,
    /// Pause a schedule
    ///
    /// What comes due meanwhile is missed, and never caught up.
    Pause(ScheduleChangeArgs),
    /// End the pause of a schedule
    Unpause(ScheduleChangeArgs),
    /// Remove a schedule and keep its runs
    ///
    /// Its past stays guarded: the same id scheduled again never repeats an occurrence.
    Remove(ScheduleChangeArgs),
    /// Set a cursor that is ahead of the clock back to now
    ///
    /// For after a tick while the clock was wrong. It goes back to now, never further.
    Rewind(ScheduleIdArgs),
    /// Show what runs, what waits for you, what went wrong and what is next
    ///
    /// Each with the command that helps. Of runs that failed for a known reason only those of the last day are
    /// shown, and only if they are among the newest 100 runs.
    Status,
    /// List schedules
    Schedules(PageArgs),
    /// List runs, newest first
    ///
    /// With --json, `status` is what the record of the run says: while a run executes, it is still queued or
    /// interrupted there, and `executing` is true. Such a run is running if `live` is true too, else abandoned.
    List(ListArgs),
    /// List what happened to occurrences, newest first
    ///
    /// Runs that were admitted, interrupted, completed, failed, cancelled, resolved and retried, and occurrences
    /// that were skipped or missed.
    History(HistoryArgs),
    /// Show a run: status, attempts, steps, gate
    Show(ShowArgs),
    /// Print the output of a run's steps
    ///
    /// As it is, or with control characters made visible on a terminal. Headers tell steps apart where there are
    /// several and a terminal shows them, or with -v.
    Logs(LogsArgs),
    /// Print upcoming occurrences
    ///
    /// Of a schedule, or of a trigger that is given like that of `schedule`; the latter needs no store. The times
    /// are nominal: --jitter, which `status` and `schedules` count in, is left out. Exits 65 for a trigger that can
    /// never fire.
    Next(Box<NextArgs>),
    /// Read or set settings
    ///
    /// Without arguments prints all settings, with a key its value, with a value sets it. Comments in the file
    /// are kept.
    Config(ConfigArgs),
    /// Delete old finished runs
    ///
    /// Never an unfinished or an ambiguous one. Admission stays at most once: what is deleted is not run again.
    /// Every tick deletes some of what is older than the setting `keep`; this deletes all of it at once.
    Prune(PruneArgs),
    /// Check the whole store, changing nothing
    ///
    /// Exits 65 if anything is wrong, and names it.
    Fsck,
    /// Print metrics in the Prometheus text format
    ///
    /// Everything unfinished is counted. Finished runs, skipped and missed times are counted where they are
    /// nominally of today or yesterday (UTC), and of finished runs the newest 10000 at most, so that the cost does
    /// not grow with history; therefore all metrics are gauges.
    Metrics(MetricsArgs),
    /// Print a completion script
    Completions(CompletionsArgs),
    /// Print the manual, or write all its pages into a folder
    Man(ManArgs),
    /// Print words that complete a command line, one a line
    ///
    /// For the scripts that `completions` prints.
    #[command(name = "__complete", hide = true)]
    Complete(CompleteArgs),
}

#[cfg(test)]
mod tests;
