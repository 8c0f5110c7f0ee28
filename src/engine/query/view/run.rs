//! The views of runs, and how they follow from a run as it stands.

use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::{Time, WorkflowName};
use crate::{
    domain::{event::Reason, ids::SlotIndex, workflow::Outcome},
    engine::query::run::{Liveness, LoadedRun},
    state::run::{Attempt, Execution, Failure, Gate, Phase, RunState},
    store::{Store, disk::Kind, layout},
};

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(clippy::struct_excessive_bools, reason = "the fields that scripts rely on")]
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
pub(in crate::engine::query) fn open_gate(state: &RunState) -> Option<&Gate> {
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
            "{step} is unknown; find out, then: wfctl resolve {id} --as completed --note TEXT (or --as failed)"
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
