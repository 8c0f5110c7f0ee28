//! Gates that nobody answered in time.
//!
//! An expired gate whose outcome `expired` ends the run or opens another gate needs no slot and is settled
//! under the lock. One that leads to a step waits for a slot like a queued run ([`super::dispatch`]).

use chrono::{DateTime, Utc};

use super::{
    Engine, EngineError, admit, attempt,
    dispatch::{self, Failure},
    tick::Report,
};
use crate::{
    domain::{
        event::Event,
        ids::{RunId, StepId},
        workflow::{Outcome, Workflow},
    },
    state::{
        decide::{self, Next},
        run::{Phase, RunState},
    },
    store::{
        StoreError,
        lock::StoreLock,
        runs::{self, OpenRun},
        slots,
    },
};

/// A gate that expired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expired {
    /// The run.
    pub run: RunId,
    /// The gate.
    pub step: StepId,
}

/// Settles all expired gates that need no slot.
///
/// # Errors
/// When the store as a whole cannot be read; what concerns a single run is in the report.
pub fn expire_finally(
    engine: &Engine<'_>,
    lock: &StoreLock<'_>,
    now: DateTime<Utc>,
    report: &mut Report,
) -> Result<(), EngineError> {
    let disk = &**engine.disk();
    for id in runs::list_active(disk)? {
        // What cannot be read is told by the survey.
        let Ok(Some(state)) = runs::load(disk, &id) else { continue };
        let Some(step) = expired_gate(&state, now) else { continue };
        let settled = match engine.workflow_of(&state) {
            Ok(workflow) => expire_one(engine, lock, &id, &workflow, &step, now),
            Err(error @ StoreError::Snapshot { .. }) => {
                let error = error.below(engine.store.root());
                report
                    .warnings
                    .push(format!("the expired gate {step} of run {id} cannot be routed: {error}"));
                continue;
            }
            Err(error) => Err(error.into()),
        };
        match settled {
            Ok(true) => report.expired.push(Expired { run: id, step }),
            Ok(false) => {}
            Err(error) => report.failures.push(Failure { run: Some(id), error }),
        }
    }
    Ok(())
}

/// The gate of a run, where it has expired.
pub fn expired_gate(state: &RunState, now: DateTime<Utc>) -> Option<StepId> {
    match &state.phase {
        Phase::Interrupted(gate) if gate.asked.expires_at.is_some_and(|at| at <= now) => {
            Some(gate.asked.step.clone())
        }
        Phase::Interrupted(_)
        | Phase::Queued(_)
        | Phase::Executing(_)
        | Phase::Completed { .. }
        | Phase::Failed(_)
        | Phase::Cancelled { .. } => None,
    }
}

/// Settles the gate unless it leads to a step. Whether it did.
fn expire_one(
    engine: &Engine<'_>,
    lock: &StoreLock<'_>,
    id: &RunId,
    workflow: &Workflow,
    step: &StepId,
    now: DateTime<Utc>,
) -> Result<bool, EngineError> {
    let next = decide::after_gate(workflow, step, &Outcome::EXPIRED)
        .map_err(|error| EngineError::undecidable(id, &error))?;
    if matches!(next, Next::Start(_)) || slots::is_named(&**engine.disk(), id)? {
        return Ok(false);
    }
    let mut run = admit::open_run(engine, lock, id)?;
    // Somebody may have answered the gate between the first look and the second.
    if expired_gate(run.state(), now).as_ref() != Some(step) {
        return Ok(false);
    }
    let attempt = run.state().next_attempt();
    let started = dispatch::expiry_of(engine, run.state());
    run.stage(&Event::AttemptStarted(Box::new(started)), engine.now())?;
    let event = match next {
        Next::Start(_) => return Ok(false),
        Next::Ask(gate) => attempt::asked(workflow, gate, attempt, engine.now()),
        Next::Complete(outcome) => Event::Completed { attempt, outcome },
        Next::Fail(reason, error) => Event::Failed { attempt, reason, error, by: None },
    };
    let run: OpenRun = run.append(&event, engine.now())?;
    run.file_away()?;
    Ok(true)
}
