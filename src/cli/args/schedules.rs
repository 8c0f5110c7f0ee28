//! Options of the commands that define schedules and start their runs.

use std::{path::PathBuf, time::Duration};

use clap::{ArgGroup, Args, ValueHint, value_parser};

use super::values::{self, CatchUpWord, DstFoldWord, DstGapWord, OverlapWord};
use crate::{
    cli::args::ByArgs,
    domain::{
        ids::ScheduleId,
        policy::{CatchUp, DEFAULT_CATCH_UP_LIMIT, Policies},
    },
    store::settings::MAX_CAPACITY,
};

/// `init`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  wfctl init --capacity 4")]
pub struct InitArgs {
    /// How many runs may execute at once, 1 to 10000 [default: the number of CPUs]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=i64::from(MAX_CAPACITY)))]
    pub capacity: Option<u32>,
}

/// `check`.
#[derive(Debug, Clone, Args)]
pub struct CheckArgs {
    /// Workflow files
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
}

/// `schedule`.
#[derive(Debug, Clone, Args)]
#[command(
    group(ArgGroup::new("when").args(["cron", "every", "at"]).required(true)),
    after_help = "Examples:\n  \
        wfctl schedule report.toml --cron '0 4 * * MON-FRI' --tz Europe/Berlin\n  \
        wfctl schedule sync.toml --id sync-eu --every 15m --overlap queue-one --input '{\"region\":\"eu\"}'\n  \
        wfctl schedule once.toml --at +10m"
)]
pub struct ScheduleArgs {
    /// The workflow file
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// The id of the schedule [default: the name of the workflow]
    #[arg(long, value_name = "ID", value_parser = values::id::<ScheduleId>)]
    pub id: Option<ScheduleId>,
    /// The input of every run: JSON, or @FILE with JSON in it [default: null]
    #[arg(long, value_name = "JSON|@FILE")]
    pub input: Option<String>,
    /// Start paused; `wfctl unpause` begins
    #[arg(long)]
    pub paused: bool,
    /// Replace a schedule of the same id; what was due under it and not admitted is missed
    #[arg(long)]
    pub replace: bool,
    /// When it is due.
    #[command(flatten)]
    pub trigger: TriggerArgs,
    /// How its runs get on with each other and with lost time.
    #[command(flatten)]
    pub policy: PolicyArgs,
}

/// A trigger, as `schedule` and `next` take it.
#[derive(Debug, Clone, Args)]
#[command(
    next_help_heading = "Trigger",
    group(ArgGroup::new("rule").args(["cron", "every", "at"]).multiple(false))
)]
pub struct TriggerArgs {
    /// Due when the wall clock matches: 5 fields, or 6 with seconds first, or @daily and the like
    ///
    /// Names, lists, ranges, steps, L, W and # are understood as in cron. A day of month and a weekday that are
    /// both restricted mean either.
    #[arg(long, value_name = "EXPR")]
    pub cron: Option<String>,
    /// Due again and again after this long, for example 15m
    #[arg(long, value_name = "DUR")]
    pub every: Option<String>,
    /// Due once: now, +10m, 2027-03-27T04:00 in the zone, or RFC 3339
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub at: Option<String>,
    /// The time zone of the trigger and its times, for example Europe/Berlin [default: the setting `timezone`, UTC]
    #[arg(long, value_name = "ZONE", requires = "rule")]
    pub tz: Option<String>,
    /// A point in time that --every counts from, forwards and backwards [default: midnight of 1970-01-01]
    #[arg(long, value_name = "TIME", requires = "rule", conflicts_with_all = ["cron", "at"])]
    pub anchor: Option<String>,
    /// The first time that counts, inclusive; an earlier one makes the times since then due [default: now]
    #[arg(long, value_name = "TIME", requires = "rule")]
    pub start: Option<String>,
    /// The last time that counts, inclusive
    #[arg(long, value_name = "TIME", requires = "rule")]
    pub until: Option<String>,
    /// At most this many occurrences, counted from the start
    #[arg(long, value_name = "N", requires = "rule", value_parser = value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Delay each occurrence by up to this long, always the same for the same occurrence [default: 0s]
    #[arg(long, value_name = "DUR", requires = "rule", value_parser = values::duration)]
    pub jitter: Option<Duration>,
    /// What becomes of a fixed local time that does not exist, when clocks go forward
    #[arg(long, value_name = "HOW", requires = "rule", conflicts_with_all = ["every", "at"], value_enum, default_value_t = DstGapWord::Next)]
    pub dst_gap: DstGapWord,
    /// What becomes of a fixed local time that exists twice, when clocks go back
    #[arg(long, value_name = "HOW", requires = "rule", conflicts_with_all = ["every", "at"], value_enum, default_value_t = DstFoldWord::First)]
    pub dst_fold: DstFoldWord,
}

/// The policies of a schedule.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Policies")]
pub struct PolicyArgs {
    /// What becomes of an occurrence while a run of the same schedule is unfinished
    #[arg(long, value_name = "HOW", value_enum, default_value_t = OverlapWord::Skip)]
    pub overlap: OverlapWord,
    /// Which of the occurrences that came due since the last tick are admitted
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = CatchUpWord::Latest)]
    pub catchup: CatchUpWord,
    /// With --catchup all: at most this many, the newest, up to 10000 [default: 100]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=crate::domain::policy::MAX_ADMITTED))]
    pub catchup_limit: Option<u64>,
    /// Miss what is older than this [default: 60s with --catchup none, otherwise no limit]
    #[arg(long, value_name = "DUR", value_parser = values::duration)]
    pub deadline: Option<Duration>,
}

/// `trigger`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    wfctl trigger sync --input '{\"region\":\"us\"}'\n  \
    wfctl trigger sync --inputs @regions.jsonl")]
pub struct TriggerNowArgs {
    /// The schedule
    #[arg(value_name = "ID", value_parser = values::id::<ScheduleId>)]
    pub id: ScheduleId,
    /// The input of the run: JSON, or @FILE with JSON in it [default: that of the schedule]
    #[arg(long, value_name = "JSON|@FILE")]
    pub input: Option<String>,
    /// Admit one run per line of a file of JSON lines: all of them or none
    #[arg(long, value_name = "@FILE", conflicts_with = "input")]
    pub inputs: Option<String>,
}

/// A schedule and who changes it.
#[derive(Debug, Clone, Args)]
pub struct ScheduleChangeArgs {
    /// The schedule
    #[arg(value_name = "ID", value_parser = values::id::<ScheduleId>)]
    pub id: ScheduleId,
    /// Who does this.
    #[command(flatten)]
    pub by: ByArgs,
}

/// A schedule.
#[derive(Debug, Clone, Args)]
pub struct ScheduleIdArgs {
    /// The schedule
    #[arg(value_name = "ID", value_parser = values::id::<ScheduleId>)]
    pub id: ScheduleId,
}

/// `next`.
#[derive(Debug, Clone, Args)]
#[command(
    group(ArgGroup::new("what").args(["id", "cron", "every", "at"]).required(true).multiple(false)),
    after_help = "Examples:\n  \
        wfctl next nightly-report\n  \
        wfctl next --cron '0 2 * * *' --tz Europe/Berlin --from 2027-03-27 -n 3"
)]
pub struct NextArgs {
    /// A schedule of the store
    #[arg(value_name = "ID", value_parser = values::id::<ScheduleId>)]
    pub id: Option<ScheduleId>,
    /// Print at most this many
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10, value_parser = value_parser!(u32).range(1..))]
    pub limit: u32,
    /// Print what is strictly after this time [default: now]
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// A trigger.
    #[command(flatten)]
    pub trigger: TriggerArgs,
}

impl PolicyArgs {
    /// The policies that are meant; else why they make no sense together.
    ///
    /// # Errors
    /// When there is a limit that nothing uses.
    pub fn policies(&self) -> Result<Policies, &'static str> {
        let catch_up = match (self.catchup, self.catchup_limit) {
            (CatchUpWord::All, limit) => CatchUp::All { limit: limit.unwrap_or(DEFAULT_CATCH_UP_LIMIT) },
            (_, Some(_)) => return Err("--catchup-limit is for --catchup all"),
            (CatchUpWord::Latest, None) => CatchUp::Latest,
            (CatchUpWord::None, None) => CatchUp::None,
        };
        Ok(Policies { overlap: self.overlap.into(), catch_up, deadline: self.deadline })
    }
}
