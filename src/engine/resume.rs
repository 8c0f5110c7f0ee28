//! Executing one run in the foreground: an ad-hoc start, or a gate that is answered.
//!
//! Everything that can be refused is refused before the attempt is durable; until then a signal changes
//! nothing and the answer is not consumed. From then on SIGINT is caller cancellation.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::{
    Engine, EngineError,
    admit::{self, Source},
    attempt::{self, Ended, Observer},
    dispatch::{self, Prepared},
    query::readiness,
    supervise::{OnInterrupt, Supervisor},
};
use crate::{
    domain::{
        event::{AttemptKind, AttemptStarted},
        ids::{RunId, SlotIndex},
        schema, time,
        workflow::{Outcome, Target},
    },
    state::run::{Failure, Gate, Phase, RunState},
    store::{
        StoreError, layout,
        lock::{Patience, StoreLock},
        runs::{self, Creation, OpenRun},
        slots::{self, SlotGuard, SlotState},
        snapshots,
        watch::{Watch, Woken},
    },
};

/// An answer to a gate.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The outcome; none: the first that the gate declares.
    pub outcome: Option<String>,
    /// The payload; none: null.
    pub payload: Option<Value>,
    /// The number that the gate must have.
    pub gate: Option<u64>,
    /// What the person said.
    pub note: Option<String>,
    /// Who.
    pub by: String,
    /// How long to wait for a slot; none: not at all.
    pub wait: Option<Duration>,
}

/// Starts one run of a workflow file now and executes it until it stops.
///
/// # Errors
/// When it cannot be begun: then it does not exist. As [`attempt::Attempt::execute`] from then on.
pub fn run(
    engine: &Engine<'_>,
    source: &Source,
    input: Value,
    id: Option<RunId>,
    observer: &dyn Observer,
) -> Result<(RunId, Ended), EngineError> {
    let supervisor = Supervisor::new(engine, OnInterrupt::Cancel)?;
    let lock = engine.lock()?;
    engine.refuse_draining()?;
    if let Some(id) = &id
        && runs::load(&**engine.disk(), id)?.is_some()
    {
        return Err(EngineError::Exists { what: "run", id: id.to_string() });
    }
    let now = engine.now();
    // The slot comes first: of a run that cannot be executed now nothing is stored.
    let placeholder = id.clone().unwrap_or_else(|| RunId::for_manual(&source.workflow.name, now, 1));
    let slot = claim(engine, &lock, &placeholder, 1)?;
    let (run, slot) = match create(engine, &lock, source, input, id, now) {
        Ok(run) => {
            let holder = engine.holder(run.id(), 1);
            (run, slot.rename(holder).map_err(EngineError::Store)?)
        }
        Err(error) => {
            slot.release()?;
            return Err(error);
        }
    };
    let run_id = run.id().clone();
    let started = AttemptStarted { slot: Some(slot.index()), ..dispatch::dispatch_of(engine, run.state()) };
    if let Err(error) = engine.check_signals() {
        slot.release()?;
        runs::remove_tree(&**engine.disk(), run.dir())?;
        return Err(error);
    }
    let watch = supervisor.add(&run_id, run.dir())?;
    let attempt = attempt::begin(engine, run, slot, source.workflow.clone(), started, Some(&watch))?;
    drop(lock);
    let ended = dispatch::execute_one(engine, &supervisor, Prepared { attempt, watch }, observer)?;
    Ok((run_id, ended))
}

/// Pins the workflow and begins to admit a run of it, under the given id or one of its own.
fn create(
    engine: &Engine<'_>,
    lock: &StoreLock<'_>,
    source: &Source,
    input: Value,
    id: Option<RunId>,
    now: DateTime<Utc>,
) -> Result<OpenRun, EngineError> {
    let digest = snapshots::pin(lock, &**engine.disk(), source.text.as_bytes())?;
    let admitted = |run: RunId| admit::admitted_ad_hoc(source, digest.clone(), run, now, input.clone());
    let Some(id) = id else {
        return admit::create_manual(engine, lock, &source.workflow.name, now, &admitted);
    };
    match runs::create(lock, engine.disk(), admitted(id.clone()), now)? {
        Creation::Created(run) => Ok(run),
        Creation::Exists => Err(EngineError::Exists { what: "run", id: id.to_string() }),
    }
}

/// Answers the gate of an interrupted run and executes it until it stops.
///
/// # Errors
/// When the answer or the moment does not do: nothing is changed then. As
/// [`attempt::Attempt::execute`] from then on.
pub fn resume(
    engine: &Engine<'_>,
    id: &RunId,
    answer: &Answer,
    observer: &dyn Observer,
) -> Result<Ended, EngineError> {
    let supervisor = Supervisor::new(engine, OnInterrupt::Cancel)?;
    engine.refuse_draining()?;
    // Validation may take long (a schema is the author's), so it is done before the lock is taken, and the
    // gate must still be the same under it.
    let state = runs::load(&**engine.disk(), id)?.ok_or_else(|| EngineError::NoRun(id.to_string()))?;
    let checked = check(engine, &state, answer)?;
    let deadline = answer.wait.map(|wait| Instant::now().checked_add(wait));
    loop {
        match begin(engine, &supervisor, id, answer, &checked) {
            Ok(prepared) => return dispatch::execute_one(engine, &supervisor, prepared, observer),
            Err(EngineError::Full { busy, capacity }) => match deadline {
                None => return Err(EngineError::Full { busy, capacity }),
                Some(deadline) => wait_for_slot(engine, deadline)
                    .map_err(|error| error.unwrap_or(EngineError::Full { busy, capacity }))?,
            },
            Err(error) => return Err(error),
        }
    }
}

struct Checked {
    gate: u64,
    outcome: Outcome,
}

fn begin(
    engine: &Engine<'_>,
    supervisor: &Supervisor<'_>,
    id: &RunId,
    answer: &Answer,
    checked: &Checked,
) -> Result<Prepared, EngineError> {
    let lock = engine.lock()?;
    engine.refuse_draining()?;
    let run = admit::take_idle(engine, &lock, id)?;
    if answer.payload.is_some() && !run.has_room() {
        return Err(EngineError::BadInput {
            what: "the payload".to_owned(),
            why: "the record of the run has become too large to take it".to_owned(),
            hint: "resume without a payload, or cancel the run".to_owned(),
        });
    }
    let gate = open_gate(engine, run.state(), Some(checked.gate))?;
    refuse_expired(id, gate, engine.now())?;
    let workflow = engine.workflow_of(run.state()).map_err(|error| error.below(engine.store.root()))?;
    let slot = claim(engine, &lock, id, run.state().next_attempt())?;
    if let Err(error) = engine.check_signals() {
        slot.release()?;
        return Err(error);
    }
    let started = AttemptStarted {
        kind: AttemptKind::Resume,
        slot: Some(slot.index()),
        by: Some(answer.by.clone()),
        outcome: Some(checked.outcome.clone()),
        payload: answer.payload.clone(),
        note: answer.note.clone(),
        ..dispatch::dispatch_of(engine, run.state())
    };
    let watch = supervisor.add(id, run.dir())?;
    let attempt = attempt::begin(engine, run, slot, workflow, started, Some(&watch))?;
    Ok(Prepared { attempt, watch })
}

fn claim(
    engine: &Engine<'_>,
    lock: &StoreLock<'_>,
    id: &RunId,
    attempt: u32,
) -> Result<SlotGuard, EngineError> {
    let capacity = engine.store.settings().capacity;
    slots::claim(lock, engine.disk(), capacity, &engine.holder(id, attempt))?
        .ok_or(EngineError::Full { busy: capacity, capacity })
}

/// Checks an answer against the open gate of a run.
fn check(engine: &Engine<'_>, state: &RunState, answer: &Answer) -> Result<Checked, EngineError> {
    let id = &state.admitted.run;
    let gate = open_gate(engine, state, answer.gate)?;
    refuse_expired(id, gate, engine.now())?;
    let declared = || gate.asked.outcomes.iter().map(Outcome::as_str).collect::<Vec<_>>().join(", ");
    let outcome = match &answer.outcome {
        None => gate.asked.outcomes.first().cloned(),
        Some(word) => gate.asked.outcomes.iter().find(|outcome| outcome.as_str() == word).cloned(),
    };
    let outcome = outcome.ok_or_else(|| EngineError::BadInput {
        what: format!("outcome {:?}", answer.outcome.as_deref().unwrap_or_default()),
        why: format!("the gate {} knows only: {}", gate.asked.step, declared()),
        hint: format!("wfctl show {id} tells what is asked"),
    })?;
    if let Some(schema) = &gate.asked.schema {
        let payload = answer.payload.clone().unwrap_or(Value::Null);
        schema::validate_payload(schema, &payload).map_err(|faults| EngineError::BadInput {
            what: format!("the payload does not follow the schema of gate {}", gate.asked.step),
            why: faults.join("; "),
            hint: format!("wfctl show {id} tells the schema; give the payload with --payload JSON or @FILE"),
        })?;
    }
    let workflow = engine.workflow_of(state).map_err(|error| error.below(engine.store.root()))?;
    let target = workflow
        .index_of(gate.asked.step.as_str())
        .map_or(Target::Fail, |step| workflow.route(step, &outcome));
    if let Some(first) = readiness::obstacles(state, &workflow, &[target]).first() {
        return Err(EngineError::WrongState {
            run: id.clone(),
            why: format!("is blocked: {first}"),
            hint: format!("put that right, then resume again; wfctl show {id} tells all that blocks it"),
        });
    }
    Ok(Checked { gate: gate.number, outcome })
}

/// The open gate of a run that can be resumed.
fn open_gate<'s>(
    engine: &Engine<'_>,
    state: &'s RunState,
    expected: Option<u64>,
) -> Result<&'s Gate, EngineError> {
    let run = state.admitted.run.clone();
    let wrong = |why: String, hint: String| Err(EngineError::WrongState { run: run.clone(), why, hint });
    match &state.phase {
        Phase::Interrupted(gate) => match expected {
            Some(number) if number != gate.number => wrong(
                format!("has another question open by now: gate {} rather than {number}", gate.number),
                format!("wfctl show {run} tells what is asked now"),
            ),
            _ => Ok(gate),
        },
        Phase::Failed(Failure { unresolved: true, .. }) => {
            let attempt = state.attempts.len();
            wrong(
                format!("is ambiguous: nobody can know what attempt {attempt} did, so it is never replayed"),
                format!("find out, then wfctl resolve {run} --as completed --note TEXT (or --as failed)"),
            )
        }
        Phase::Executing(_) => Err(executing(engine, state)),
        Phase::Queued(_) => {
            wrong("is queued, no question is open".to_owned(), "wfctl tick dispatches it".to_owned())
        }
        Phase::Completed { .. } => {
            wrong("is completed, no question is open".to_owned(), format!("wfctl show {run}"))
        }
        Phase::Failed(_) => {
            wrong("has failed, no question is open".to_owned(), format!("wfctl retry {run} sends it back"))
        }
        Phase::Cancelled { .. } => {
            wrong("was cancelled, no question is open".to_owned(), format!("wfctl show {run}"))
        }
    }
}

/// Why a run that was seen in an attempt cannot be touched: it is live or abandoned.
///
/// Its end is durable before its slot is released, so a free slot proves something only about what is read
/// after it: a run that has moved on meanwhile is live as far as the caller is concerned.
pub fn executing(engine: &Engine<'_>, state: &RunState) -> EngineError {
    let run = state.admitted.run.clone();
    match admit::attempt_slot(state) {
        Some(index) if is_live(engine, index) => {
            EngineError::Live { run, why: format!("slot {index} is held") }
        }
        _ if has_moved_on(engine, state) => {
            EngineError::Live { run, why: "its attempt has just ended".to_owned() }
        }
        _ => admit::abandoned(&run),
    }
}

fn has_moved_on(engine: &Engine<'_>, state: &RunState) -> bool {
    runs::load(&**engine.disk(), &state.admitted.run).is_ok_and(|now| now.is_none_or(|now| now.n != state.n))
}

fn is_live(engine: &Engine<'_>, index: SlotIndex) -> bool {
    matches!(slots::probe_twice(&**engine.disk(), index), Ok(SlotState::Live(_)))
}

fn refuse_expired(run: &RunId, gate: &Gate, now: DateTime<Utc>) -> Result<(), EngineError> {
    match gate.asked.expires_at {
        Some(at) if at <= now => Err(EngineError::WrongState {
            run: run.clone(),
            why: format!("cannot be resumed: its gate expired at {}", time::format_instant(at)),
            hint: "the next wfctl tick routes the outcome `expired`".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Waits until a slot may be free. The error is none where the time is over.
fn wait_for_slot(engine: &Engine<'_>, deadline: Option<Instant>) -> Result<(), Option<EngineError>> {
    let mut watch = Watch::new();
    watch.add(&engine.store.root().join(layout::SLOTS));
    let timeout = match deadline {
        Some(deadline) => deadline.saturating_duration_since(Instant::now()),
        None => Duration::MAX,
    };
    let free = slots::probe_all(&**engine.disk(), engine.store.settings().capacity)
        .map_err(|error| Some(error.into()))?;
    if free
        .iter()
        .any(|(index, state)| index.0 < engine.store.settings().capacity && *state == SlotState::Free)
        && !timeout.is_zero()
    {
        return Ok(());
    }
    let patience = Patience { timeout, abort: Some(engine.signals.first_fd()) };
    match watch.wait(patience) {
        Woken::Changed => Ok(()),
        Woken::TimedOut => Err(None),
        Woken::Aborted => {
            Err(Some(engine.check_signals().err().unwrap_or(EngineError::Store(StoreError::Aborted))))
        }
    }
}
