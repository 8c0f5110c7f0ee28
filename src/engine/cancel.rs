//! Giving a run up, and what people may say about a run afterwards: cancel, resolve, retry.
//!
//! A run without an attempt in flight is cancelled here. A live one is cancelled by the process that
//! executes it, which is asked through a file in the run's folder; where that process is dead and only its
//! step lives on, the step is stopped from here and the run reconciled as ambiguous.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{
    Engine, EngineError,
    admit::{self, Taken},
    attempt, notify, resume,
};
use crate::{
    domain::{
        event::{Event, Reason, Resolution},
        ids::{RunId, SlotIndex, StepId},
        time,
        workflow::Workflow,
    },
    process::{Pid, SlotIdentity, StopWatch, process_start, stop_orphans, stop_pair},
    state::run::{Failure, Phase, RunState},
    store::{
        atomic, layout,
        lock::{Patience, StoreLock},
        runs,
        slots::{self, Holder},
        watch::{Watch, Woken},
    },
};

/// How much longer than the grace a cancel waits for the executing process to be done, beside the lock
/// timeout: the join after SIGKILL has its own limit.
const MARGIN: Duration = Duration::from_secs(15);

/// Gives a run up.
///
/// # Errors
/// When its state does not allow it, or the process that executes it does not come to an end.
pub fn cancel(
    engine: &Engine<'_>,
    id: &RunId,
    by: &str,
    note: Option<&str>,
) -> Result<RunState, EngineError> {
    let lock = engine.lock()?;
    let run = match admit::take(engine, &lock, id)? {
        Taken::Idle(run) => run,
        Taken::Live(index, Some(holder)) if is_orphaned(engine, &holder) => {
            drop(lock);
            return cancel_orphan(engine, id, index, &holder, by);
        }
        Taken::Live(_, Some(_)) => {
            request(&lock, engine, id, by, note)?;
            drop(lock);
            return wait_until_cancelled(engine, id);
        }
        Taken::Live(index, None) => {
            let why = admit::describe_holder(index, None);
            return Err(EngineError::Live { run: id.clone(), why });
        }
        Taken::Abandoned(..) => return Err(admit::abandoned(id)),
    };
    if let Some(why) = finished(run.state()) {
        return Err(EngineError::WrongState {
            run: id.clone(),
            why: format!("{why}, so there is nothing to cancel"),
            hint: format!("wfctl show {id}"),
        });
    }
    let event = Event::Cancelled { by: by.to_owned(), note: note.map(str::to_owned) };
    let run = run.append(&event, engine.now())?.file_away()?;
    Ok(run.state().clone())
}

/// Why a run is finished; none where it is not.
fn finished(state: &RunState) -> Option<&'static str> {
    match &state.phase {
        Phase::Completed { .. } => Some("is completed"),
        Phase::Failed(Failure { unresolved: true, .. }) => Some("is ambiguous"),
        Phase::Failed(_) => Some("has failed"),
        Phase::Cancelled { .. } => Some("was cancelled already"),
        Phase::Queued(_) | Phase::Interrupted(_) | Phase::Executing(_) => None,
    }
}

/// Whether the `wfctl` that claimed a slot is certainly gone, though its step holds the lock.
fn is_orphaned(engine: &Engine<'_>, holder: &Holder) -> bool {
    holder.host == engine.process.host
        && match (process_start(holder.pid), holder.pid_start) {
            (None, _) => true,
            (Some(now), Some(then)) => now != then,
            (Some(_), None) => false,
        }
}

/// Asks the executing process to cancel. The file appears as a whole, by a rename, which wakes it.
fn request(
    lock: &StoreLock<'_>,
    engine: &Engine<'_>,
    id: &RunId,
    by: &str,
    note: Option<&str>,
) -> Result<(), EngineError> {
    let Some(dir) = runs::find(&**engine.disk(), id)? else {
        return Err(EngineError::NoRun(id.to_string()));
    };
    let request = json!({ "by": by, "note": note, "at": time::format_instant(engine.now()) });
    let path = dir.join(layout::CANCEL_REQUEST);
    Ok(atomic::write(lock, &**engine.disk(), &path, request.to_string().as_bytes())?)
}

fn wait_until_cancelled(engine: &Engine<'_>, id: &RunId) -> Result<RunState, EngineError> {
    let limit = engine.store.settings().grace + engine.lock_timeout + MARGIN;
    let deadline = Instant::now() + limit;
    loop {
        // Watches first, then looks: a change in between wakes the next wait.
        let mut watch = Watch::new();
        watch.add(&engine.store.root().join(layout::SLOTS));
        if let Some(dir) = runs::find(&**engine.disk(), id)? {
            watch.add(&engine.store.root().join(dir));
        }
        let state = runs::load(&**engine.disk(), id)?.ok_or_else(|| EngineError::NoRun(id.to_string()))?;
        // A slot that merely names the run is for recovery; only one that is held is waited for.
        let held = slots::is_held_for(&**engine.disk(), id)?;
        if !state.is_executing() && !held {
            return cancelled(id, state);
        }
        refuse_unless_live(engine, &state)?;
        let timeout = deadline.saturating_duration_since(Instant::now());
        match watch.wait(Patience { timeout, abort: Some(engine.signals.first_fd()) }) {
            Woken::Changed => {}
            Woken::TimedOut => {
                let why = "it was asked to cancel and has not ended yet".to_owned();
                return Err(EngineError::Live { run: id.clone(), why });
            }
            Woken::Aborted => engine.check_signals()?,
        }
    }
}

/// Fails if the execution that was asked ended by a fence, or died, rather than by cancelling.
fn refuse_unless_live(engine: &Engine<'_>, state: &RunState) -> Result<(), EngineError> {
    let Phase::Executing(executing) = &state.phase else { return Ok(()) };
    let is_gone = matches!(resume::executing(engine, state), EngineError::WrongState { .. });
    match (&executing.fenced, is_gone) {
        (Some(_), true) if engine.store.is_draining()? => Err(EngineError::Draining),
        (_, true) => Err(admit::abandoned(&state.admitted.run)),
        (_, false) => Ok(()),
    }
}

fn cancelled(id: &RunId, state: RunState) -> Result<RunState, EngineError> {
    if state.is_ambiguous() {
        return Ok(state);
    }
    let why = match finished(&state) {
        Some(why) => format!("{why}: it came to that before it could be cancelled"),
        None => "stopped by itself before it could be cancelled".to_owned(),
    };
    Err(EngineError::WrongState { run: id.clone(), why, hint: format!("wfctl show {id}") })
}

/// Caller cancellation of a run whose `wfctl` is dead and whose step is alive.
fn cancel_orphan(
    engine: &Engine<'_>,
    id: &RunId,
    index: SlotIndex,
    holder: &Holder,
    by: &str,
) -> Result<RunState, EngineError> {
    let system = |what| move |source| EngineError::System { what, source };
    let slot = SlotIdentity::at(&engine.store.root().join(layout::slot(index)))
        .map_err(system("look at the slot"))?;
    let (_handle, watch): (_, StopWatch) = stop_pair().map_err(system("stop the step"))?;
    let spare: Vec<Pid> =
        i32::try_from(engine.process.pid).ok().and_then(Pid::from_raw).into_iter().collect();
    let _ = stop_orphans(slot, &spare, engine.store.settings().grace, &watch)
        .map_err(|source| EngineError::NotStopped { run: id.clone(), source })?;
    let reconciled = reconcile_orphan(engine, id, index, holder, by);
    if let Ok(state) = &reconciled {
        // Nobody watches; a failure is told by the log beside the run.
        notify::settled(engine, state, &attempt::Unobserved);
    }
    reconciled.map_err(|error| EngineError::NotReclaimed { run: id.clone(), why: error.to_string() })
}

fn reconcile_orphan(
    engine: &Engine<'_>,
    id: &RunId,
    index: SlotIndex,
    holder: &Holder,
    by: &str,
) -> Result<RunState, EngineError> {
    let lock = engine.lock_to_settle()?;
    engine.refuse_draining()?;
    let run = match admit::take(engine, &lock, id)? {
        Taken::Abandoned(run, _) => run,
        Taken::Idle(run) => return Ok(run.state().clone()), // a recovery was faster
        Taken::Live(index, holder) => {
            let why = admit::describe_holder(index, holder.as_ref());
            return Err(EngineError::Live { run: id.clone(), why });
        }
    };
    let Phase::Executing(executing) = &run.state().phase else { return Ok(run.state().clone()) };
    let event = Event::Failed {
        attempt: executing.attempt,
        reason: Reason::Ambiguous,
        error: format!(
            "cancelled by {by} after the wfctl that executed it had died; nobody can know what its step did"
        ),
        by: Some("caller_cancellation".to_owned()),
    };
    let run = run.append(&event, engine.now())?;
    run.sweep_scratch();
    slots::release_abandoned(&lock, &**engine.disk(), index, Some(holder))?;
    Ok(run.state().clone())
}

/// Records what a person found out about an ambiguous run. Executes nothing.
///
/// # Errors
/// When the run is not ambiguous.
pub fn resolve(
    engine: &Engine<'_>,
    id: &RunId,
    resolution: Resolution,
    by: &str,
    note: Option<&str>,
) -> Result<RunState, EngineError> {
    let lock = engine.lock()?;
    let run = admit::take_idle(engine, &lock, id)?;
    if !run.state().is_ambiguous() {
        return Err(EngineError::WrongState {
            run: id.clone(),
            why: format!(
                "is {} and not ambiguous, so there is nothing to resolve",
                run.state().status().as_str()
            ),
            hint: format!("wfctl show {id}"),
        });
    }
    let event = Event::Resolved { resolution, note: note.map(str::to_owned), by: by.to_owned() };
    let run = run.append(&event, engine.now())?.file_away()?;
    Ok(run.state().clone())
}

/// Sends a failed run back: it is queued at the failed or the named step.
///
/// # Errors
/// When the run has not failed, is ambiguous, or has no such step.
pub fn retry(
    engine: &Engine<'_>,
    id: &RunId,
    from: Option<&StepId>,
    by: &str,
    note: Option<&str>,
) -> Result<RunState, EngineError> {
    let lock = engine.lock()?;
    engine.refuse_draining()?;
    let run = admit::take_idle(engine, &lock, id)?;
    let wrong = |why: String, hint: String| EngineError::WrongState { run: id.clone(), why, hint };
    match &run.state().phase {
        Phase::Failed(Failure { unresolved: false, .. }) => {}
        Phase::Failed(Failure { unresolved: true, .. }) => {
            let attempt = run.state().attempts.len();
            return Err(wrong(
                format!("is ambiguous: nobody can know what attempt {attempt} did"),
                format!("find out, then wfctl resolve {id} --as completed --note TEXT (or --as failed)"),
            ));
        }
        Phase::Executing(_)
        | Phase::Queued(_)
        | Phase::Interrupted(_)
        | Phase::Completed { .. }
        | Phase::Cancelled { .. } => {
            let why = format!("is {}; only a failed run can be retried", run.state().status().as_str());
            return Err(wrong(why, format!("wfctl show {id}")));
        }
    }
    let workflow = engine.workflow_of(run.state()).map_err(|error| error.below(engine.store.root()))?;
    let from = place(run.state(), &workflow, from)?;
    let event = Event::Retried { from, note: note.map(str::to_owned), by: by.to_owned() };
    // Moved first: a run that is queued must never be where no tick looks.
    let run = run.into_active()?.append(&event, engine.now())?;
    Ok(run.state().clone())
}

fn place(state: &RunState, workflow: &Workflow, from: Option<&StepId>) -> Result<StepId, EngineError> {
    // What nobody knows comes before what ended last, which may be a gate.
    let default = || match state.unknown_execution() {
        Some((_, execution)) => Some(execution.step.clone()),
        None => state.last_step.clone(),
    };
    let step = match from {
        Some(step) => step.clone(),
        None => default().unwrap_or_else(|| workflow.step(workflow.first()).id.clone()),
    };
    if workflow.index_of(step.as_str()).is_some() {
        return Ok(step);
    }
    let names: Vec<&str> = workflow.steps().iter().map(|step| step.id.as_str()).collect();
    Err(EngineError::BadInput {
        what: format!("step {step}"),
        why: format!("the workflow has no such step; it has {}", names.join(", ")),
        hint: "name one of them with --from".to_owned(),
    })
}

/// Starts or ends draining. False where it was so already.
///
/// # Errors
/// When the marker cannot be written.
pub fn set_draining(engine: &Engine<'_>, draining: bool) -> Result<bool, EngineError> {
    let lock = engine.lock()?;
    Ok(engine.store.set_draining(&lock, draining)?)
}

/// Waits until nothing executes any more.
///
/// # Errors
/// [`EngineError::Full`] when the time is over.
pub fn wait_idle(engine: &Engine<'_>, timeout: Duration) -> Result<(), EngineError> {
    let deadline = Instant::now().checked_add(timeout);
    let capacity = engine.store.settings().capacity;
    let mut watch = Watch::new();
    watch.add(&engine.store.root().join(layout::SLOTS));
    loop {
        let live = slots::probe_all(&**engine.disk(), capacity)?
            .into_iter()
            .filter(|(_, state)| matches!(state, slots::SlotState::Live(_)))
            .count();
        if live == 0 {
            return Ok(());
        }
        let timeout = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
        // The death of an orphan changes no file, so a look from time to time is needed beside the watch.
        let step = timeout.min(Duration::from_secs(1));
        match watch.wait(Patience { timeout: step, abort: Some(engine.signals.first_fd()) }) {
            Woken::Aborted => engine.check_signals()?,
            Woken::Changed | Woken::TimedOut if timeout.is_zero() => {
                let busy = u32::try_from(live).unwrap_or(u32::MAX);
                return Err(EngineError::Full { busy, capacity });
            }
            Woken::Changed | Woken::TimedOut => {}
        }
    }
}
