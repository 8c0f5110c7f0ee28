//! The views of history, schedules and the store as a whole.

use serde::Serialize;
use serde_json::Value;

use super::{Time, WorkflowName};
use crate::engine::query::page::Damage;

/// Something that happened, or did not.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HistoryItem {
    /// When it was recorded.
    pub at: Time,
    /// What: `admitted interrupted completed failed cancelled resolved retried skipped missed`.
    pub kind: &'static str,
    /// The schedule; none of an ad-hoc run.
    pub schedule: Option<String>,
    /// The nominal time; of several that share an entry the first.
    pub occurrence: Time,
    /// The run; none where there never was one.
    pub run: Option<String>,
    /// What there is to say besides.
    pub detail: Value,
}

/// A schedule.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScheduleItem {
    /// Its id.
    pub id: String,
    /// The pinned workflow.
    pub workflow: WorkflowName,
    /// When it is due, in words of the options.
    pub trigger: String,
    /// The zone.
    pub tz: String,
    /// No occurrence before it.
    pub start: Option<Time>,
    /// No occurrence after it.
    pub until: Option<Time>,
    /// At most so many occurrences.
    pub count: Option<u64>,
    /// The longest delay.
    pub jitter: String,
    /// What becomes of local times that do not exist.
    pub dst_gap: &'static str,
    /// What becomes of local times that exist twice.
    pub dst_fold: &'static str,
    /// How its runs get on with each other and with lost time.
    pub policies: PoliciesView,
    /// Whether it is paused.
    pub paused: bool,
    /// Since when.
    pub paused_at: Option<Time>,
    /// By whom.
    pub paused_by: Option<String>,
    /// Everything nominal up to this has its receipt.
    pub cursor: Time,
    /// When a tick next has something to do; in the past where a tick is overdue.
    pub next_due: Option<Time>,
    /// The input of its runs.
    pub input: Value,
    /// The folder of its steps.
    pub cwd: String,
    /// When it was first scheduled.
    pub created_at: Time,
    /// When it was last replaced.
    pub updated_at: Time,
}

/// The policies of a schedule.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PoliciesView {
    /// About runs in the way.
    pub overlap: &'static str,
    /// About time that was slept through.
    pub catchup: &'static str,
    /// How many catch-up `all` admits at most.
    pub catchup_limit: Option<u64>,
    /// The greatest age of an occurrence that may be admitted.
    pub deadline: Option<String>,
}

/// The state of the whole store.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StatusView {
    /// Where it is.
    pub store: String,
    /// How much of its capacity is taken.
    pub capacity: CapacityView,
    /// All slots.
    pub slots: Vec<SlotView>,
    /// How many runs wait for a slot.
    pub queued: u64,
    /// The first of them, in the order in which they go.
    pub queue: Vec<QueuedView>,
    /// Open questions, oldest first.
    pub interrupted: Vec<WaitingView>,
    /// Runs of unknown outcome, oldest first.
    pub ambiguous: Vec<AmbiguousView>,
    /// Runs that need recovery.
    pub abandoned: Vec<AbandonedView>,
    /// Runs of the last day that failed for a known reason, newest first; only the newest runs are looked at.
    pub failed: Vec<FailedView>,
    /// How many schedules there are.
    pub schedules: ScheduleCounts,
    /// What is due next, soonest first.
    pub upcoming: Vec<UpcomingView>,
    /// When a tick next has something to do.
    pub next_due: Option<Time>,
    /// Whether the store is draining.
    pub draining: bool,
    /// What a person should look at.
    pub warnings: Vec<String>,
    /// What could not be read on the way; for stderr.
    #[serde(skip)]
    pub corrupt: Vec<Damage>,
}

/// How much of the capacity is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CapacityView {
    /// How many runs may execute at once.
    pub total: u32,
    /// How many slots are live or abandoned.
    pub busy: u32,
    /// How many are left.
    pub free: u32,
}

/// A slot.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SlotView {
    /// Its index.
    pub slot: u32,
    /// `free`, `live` or `abandoned`.
    pub state: &'static str,
    /// The run that holds it.
    pub run: Option<String>,
    /// That run's attempt.
    pub attempt: Option<u32>,
    /// The process that claimed it.
    pub pid: Option<u32>,
    /// Since when.
    pub since: Option<Time>,
    /// The step that the run is at.
    pub step: Option<String>,
    /// Which try of it.
    pub r#try: Option<u32>,
    /// Since when it is at that step.
    pub step_since: Option<Time>,
}

/// A run that waits for a slot or its turn.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct QueuedView {
    /// Its nominal time, which decides the order.
    pub occurrence: Time,
    /// The run.
    pub run: String,
}

/// A run that failed and whose outcome is known.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FailedView {
    /// The run.
    pub run: String,
    /// Why, as a word.
    pub reason: Option<&'static str>,
    /// Why, as a sentence.
    pub error: Option<String>,
    /// When.
    pub at: Time,
}

/// When a schedule is due.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct UpcomingView {
    /// When.
    pub due: Time,
    /// Which.
    pub schedule: String,
}

/// A run that waits for an answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WaitingView {
    /// The run.
    pub run: String,
    /// The gate.
    pub step: String,
    /// What is asked.
    pub question: String,
    /// Since when.
    pub since: Time,
    /// When it answers itself.
    pub expires_at: Option<Time>,
    /// Whether it could be resumed.
    pub resume_readiness: &'static str,
    /// The number of the gate.
    pub gate: u64,
    /// What may be answered.
    pub outcomes: Vec<String>,
    /// Whether the answer needs a payload that fits a schema.
    pub has_schema: bool,
    /// What stands in the way of resuming it.
    pub diagnostics: Vec<String>,
}

/// A run of unknown outcome.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AmbiguousView {
    /// The run.
    pub run: String,
    /// The step whose outcome is unknown.
    pub step: Option<String>,
    /// The attempt that forbids a replay.
    pub attempt: u32,
    /// Why, as a sentence.
    pub error: String,
    /// Since when.
    pub since: Time,
}

/// A run that is executing while nobody holds its slot.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AbandonedView {
    /// The run.
    pub run: String,
    /// The attempt in progress.
    pub attempt: u32,
    /// The step that was started last, if its outcome is unknown.
    pub step: Option<String>,
    /// The slot that it had.
    pub slot: Option<u32>,
    /// When the attempt began.
    pub since: Time,
}

/// How many schedules there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ScheduleCounts {
    /// All that were not removed.
    pub total: u64,
    /// Those of them that are paused.
    pub paused: u64,
}
