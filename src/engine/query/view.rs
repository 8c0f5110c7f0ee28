//! What the answers look like as JSON: structs of their own, so that neither files nor types of the program
//! are promised to scripts. Fields are only ever added.
//!
//! Times are RFC 3339 in UTC with milliseconds ([`Time`]). Deliberately not here: tables for people.

use std::{fmt, path::Path};

use chrono::{DateTime, Utc};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::run::{Liveness, LoadedRun};
use crate::{
    domain::{
        event::Reason,
        ids::{Digest, SlotIndex},
        time,
        workflow::Outcome,
    },
    state::run::{Attempt, Execution, Failure, Gate, Phase, RunState},
    store::{Store, disk::Kind, layout},
};

/// An instant that is shown as RFC 3339 in UTC with milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub DateTime<Utc>);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&time::format_instant(self.0))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A workflow's name and digest.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkflowName {
    /// The name that it gave itself.
    pub name: String,
    /// The digest of its text.
    pub digest: String,
}

impl WorkflowName {
    /// The view of a workflow.
    pub fn new(name: &str, digest: &Digest) -> Self {
        Self { name: name.to_owned(), digest: digest.to_string() }
    }
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunItem {
    /// Its id.
    pub run: String,
    /// Its schedule; none of an ad-hoc run.
    pub schedule: Option<String>,
    /// Its nominal time.
    pub occurrence: Time,
    /// Whether a person or script started it.
    pub manual: bool,
    /// The status word.
    pub status: &'static str,
    /// Whether an attempt has begun and has not been settled.
    pub executing: bool,
    /// Whether, besides, some process holds its slot.
    pub live: bool,
    /// Whether it could be resumed.
    pub resume_readiness: &'static str,
    /// Whether a person has to say what happened.
    pub ambiguous: bool,
    /// The outcome that ended it, where that is known.
    pub outcome: Option<String>,
    /// Why it failed, as a word.
    pub reason: Option<&'static str>,
    /// Why it failed, as a sentence.
    pub error: Option<String>,
    /// The pinned workflow.
    pub workflow: WorkflowName,
    /// Its slot, while it is executing.
    pub slot: Option<u32>,
    /// When it was admitted.
    pub created_at: Time,
    /// When anything happened to it last.
    pub updated_at: Time,
}

/// A run with everything that is known of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunShow {
    /// What a list shows.
    #[serde(flatten)]
    pub item: RunItem,
    /// Its input.
    pub input: Value,
    /// Its attempts, oldest first.
    pub attempts: Vec<AttemptView>,
    /// Its step executions, oldest first.
    pub steps: Vec<StepView>,
    /// The open question.
    pub interrupt: Option<InterruptView>,
    /// What stands in its way.
    pub diagnostics: Vec<String>,
    /// The output of the step that ended last.
    pub output: Option<Value>,
    /// Who cancelled, resolved or otherwise concluded it.
    pub by: Option<String>,
    /// What they said.
    pub note: Option<String>,
    /// The folder of its journal and logs.
    pub folder: String,
}

/// One attempt.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AttemptView {
    /// Its number.
    pub attempt: u32,
    /// Why it began.
    pub kind: &'static str,
    /// What became of it.
    pub state: &'static str,
    /// When it began.
    pub started_at: Time,
    /// When it ended.
    pub ended_at: Option<Time>,
    /// Its slot; none where nothing was executed.
    pub slot: Option<u32>,
    /// The answer to the gate that it resumed.
    pub outcome: Option<String>,
    /// The payload of that answer.
    pub payload: Option<Value>,
    /// Who resumed.
    pub by: Option<String>,
    /// What they said.
    pub note: Option<String>,
    /// The process that drove it.
    pub pid: u32,
    /// That process's host.
    pub host: String,
}

/// One step execution.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepView {
    /// Its number.
    pub seq: u32,
    /// Its attempt.
    pub attempt: u32,
    /// The step.
    pub step: String,
    /// 1, 2, … inside `retry`.
    pub r#try: u32,
    /// Its outcome, where that is known.
    pub outcome: Option<String>,
    /// Its exit status.
    pub exit: Option<u8>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Anything to say besides.
    pub error: Option<String>,
    /// When it was started.
    pub started_at: Time,
    /// How long it took, in milliseconds.
    pub ms: Option<u64>,
    /// Its idempotency key.
    pub key: String,
    /// Where its output is, if it wrote any.
    pub log: Option<String>,
}

/// An open question.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InterruptView {
    /// The number of the `interrupted` event.
    pub gate: u64,
    /// The step.
    pub step: String,
    /// What is asked.
    pub question: String,
    /// What may be answered.
    pub outcomes: Vec<String>,
    /// The JSON Schema of the payload.
    pub schema: Option<Value>,
    /// When the question was put.
    pub since: Time,
    /// When it answers itself with `expired`.
    pub expires_at: Option<Time>,
}

impl RunItem {
    /// The view of a run in a list.
    pub fn of(run: &LoadedRun) -> Self {
        let state = &run.state;
        let admitted = &state.admitted;
        let failure = failure(state);
        Self {
            run: admitted.run.to_string(),
            schedule: admitted.schedule.as_ref().map(ToString::to_string),
            occurrence: Time(admitted.occurrence),
            manual: admitted.manual,
            status: state.status().as_str(),
            executing: state.is_executing(),
            live: run.liveness == Liveness::Live,
            resume_readiness: run.readiness.as_str(),
            ambiguous: state.is_ambiguous(),
            outcome: outcome(state).map(|outcome| outcome.to_string()),
            reason: failure.map(|failure| failure.reason.as_str()),
            error: failure.map(|failure| failure.error.clone()),
            workflow: WorkflowName::new(&admitted.name, &admitted.workflow),
            slot: run.slot().map(|slot| slot.0),
            created_at: Time(state.created_at),
            updated_at: Time(state.updated_at),
        }
    }
}

impl RunShow {
    /// The view of one run.
    pub fn of(store: &Store, run: &LoadedRun) -> Self {
        let state = &run.state;
        let steps = (1..).zip(&state.steps).map(|(seq, step)| step_view(store, &run.dir, seq, step));
        let (by, note) = conclusion(state);
        Self {
            item: RunItem::of(run),
            input: state.admitted.input.clone(),
            attempts: state.attempts.iter().map(attempt_view).collect(),
            steps: steps.collect(),
            interrupt: open_gate(state).map(InterruptView::of),
            diagnostics: diagnostics(run),
            output: state.output().cloned(),
            by,
            note,
            folder: store.root().join(&run.dir).display().to_string(),
        }
    }
}

impl InterruptView {
    /// The view of an open question.
    pub fn of(gate: &Gate) -> Self {
        Self {
            gate: gate.number,
            step: gate.asked.step.to_string(),
            question: gate.asked.question.clone(),
            outcomes: gate.asked.outcomes.iter().map(ToString::to_string).collect(),
            schema: gate.asked.schema.clone(),
            since: Time(gate.at),
            expires_at: gate.asked.expires_at.map(Time),
        }
    }
}

/// The question that is open now.
pub(super) fn open_gate(state: &RunState) -> Option<&Gate> {
    match &state.phase {
        Phase::Interrupted(gate) => Some(gate),
        Phase::Queued(_)
        | Phase::Executing(_)
        | Phase::Completed { .. }
        | Phase::Failed(_)
        | Phase::Cancelled { .. } => None,
    }
}

fn failure(state: &RunState) -> Option<&Failure> {
    match &state.phase {
        Phase::Failed(failure) => Some(failure),
        Phase::Queued(_)
        | Phase::Interrupted(_)
        | Phase::Executing(_)
        | Phase::Completed { .. }
        | Phase::Cancelled { .. } => None,
    }
}

/// The outcome of the step that ended the run. Of an ambiguous run none is known, even where a person has
/// said since what happened; a used up budget is no outcome of a step.
fn outcome(state: &RunState) -> Option<Outcome> {
    match &state.phase {
        Phase::Completed { outcome } => outcome.clone(),
        Phase::Failed(failure) => match failure.reason {
            Reason::Ambiguous | Reason::MaxSteps => None,
            Reason::Error => Some(Outcome::ERROR),
            Reason::Timeout => Some(Outcome::TIMEOUT),
            Reason::Expired => Some(Outcome::EXPIRED),
            Reason::Fail => {
                let last = state.last_step.as_ref()?;
                Some(state.results.get(last)?.outcome.clone())
            }
        },
        Phase::Queued(_) | Phase::Interrupted(_) | Phase::Executing(_) | Phase::Cancelled { .. } => None,
    }
}

fn conclusion(state: &RunState) -> (Option<String>, Option<String>) {
    match &state.phase {
        Phase::Cancelled { by, note } => (Some(by.clone()), note.clone()),
        Phase::Failed(failure) => (failure.by.clone(), None),
        Phase::Queued(_) | Phase::Interrupted(_) | Phase::Executing(_) | Phase::Completed { .. } => {
            (None, None)
        }
    }
}

/// What stands in the way of the run, each with what helps.
fn diagnostics(run: &LoadedRun) -> Vec<String> {
    let mut found = run.readiness.diagnostics().to_vec();
    let id = &run.state.admitted.run;
    if run.liveness == Liveness::Abandoned {
        found.push(format!("it is executing and nobody holds its slot: wfctl recover --run {id}"));
    }
    if run.state.is_ambiguous() {
        let step = match run.state.unknown_execution() {
            Some((seq, execution)) => format!("the outcome of step {} (execution {seq})", execution.step),
            None => "how the last attempt ended".to_owned(),
        };
        found.push(format!(
            "{step} is unknown; find out, then: wfctl resolve {id} --as completed|failed --note TEXT"
        ));
    }
    found
}

fn attempt_view(attempt: &Attempt) -> AttemptView {
    let started = &attempt.started;
    AttemptView {
        attempt: started.attempt,
        kind: started.kind.as_str(),
        state: attempt.state.as_str(),
        started_at: Time(attempt.started_at),
        ended_at: attempt.ended_at.map(Time),
        slot: started.slot.map(|SlotIndex(index)| index),
        outcome: started.outcome.as_ref().map(ToString::to_string),
        payload: started.payload.clone(),
        by: started.by.clone(),
        note: started.note.clone(),
        pid: started.pid,
        host: started.host.clone(),
    }
}

fn step_view(store: &Store, dir: &Path, seq: u32, step: &Execution) -> StepView {
    let log = layout::log(dir, seq, &step.step);
    let has_log = matches!(store.disk().kind(&log), Ok(Some(Kind::File)));
    let finished = step.finished.as_ref();
    StepView {
        seq,
        attempt: step.attempt,
        step: step.step.to_string(),
        r#try: step.try_no,
        outcome: finished.map(|finished| finished.outcome.to_string()),
        exit: finished.and_then(|finished| finished.ending.exit),
        signal: finished.and_then(|finished| finished.ending.signal),
        error: finished.and_then(|finished| finished.ending.error.clone()),
        started_at: Time(step.started_at),
        ms: finished.map(|finished| finished.ms),
        key: step.key.clone(),
        log: has_log.then(|| store.root().join(log).display().to_string()),
    }
}

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
    /// Open questions, oldest first.
    pub interrupted: Vec<WaitingView>,
    /// Runs of unknown outcome, oldest first.
    pub ambiguous: Vec<AmbiguousView>,
    /// Runs that need recovery.
    pub abandoned: Vec<AbandonedView>,
    /// How many schedules there are.
    pub schedules: ScheduleCounts,
    /// When a tick next has something to do.
    pub next_due: Option<Time>,
    /// Whether the store is draining.
    pub draining: bool,
    /// What a person should look at.
    pub warnings: Vec<String>,
    /// What could not be read on the way; for stderr.
    #[serde(skip)]
    pub corrupt: Vec<super::page::Damage>,
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
