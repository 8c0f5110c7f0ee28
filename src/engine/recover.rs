//! Recovery: abandoned runs are reconciled with what is durably known. It never executes anything.
//!
//! Each run is reconciled by itself, from its journal alone; what fails for one is reported and does not
//! stop the others. A live run is never touched. Doing it again changes nothing.

use super::{
    Engine, EngineError,
    admit::{self, Standing},
    batch,
};
use crate::{
    domain::{
        event::{Event, Reason},
        ids::{RunId, SlotIndex},
    },
    state::{
        decide::{self, Conclusion},
        run::{Phase, RunState},
    },
    store::{
        StoreError, atomic, layout,
        lock::StoreLock,
        runs,
        slots::{self, Holder, SlotState},
    },
};

/// What recovery decided about one run.
#[derive(Debug)]
pub struct Recovered {
    /// The run; none for a slot whose content is garbage.
    pub run: Option<RunId>,
    /// The decision.
    pub decision: Decision,
    /// What it rests on, as a sentence.
    pub detail: String,
}

/// The decisions of recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Nobody can know what the step in flight did.
    Ambiguous,
    /// Nothing unknown is in flight: the gate is open again or the run is queued again.
    Requeued,
    /// The attempt was settled; the slot was given back or the folder moved.
    Released,
    /// Something of it is alive.
    Live,
    /// Its record is corrupt.
    Corrupt,
}

impl Decision {
    /// The word in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ambiguous => "ambiguous",
            Self::Requeued => "requeued",
            Self::Released => "released",
            Self::Live => "live",
            Self::Corrupt => "corrupt",
        }
    }
}

/// Whether decisions are carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// They are.
    Act,
    /// They are only told.
    DryRun,
}

/// What a recovery of everything came to.
#[derive(Debug, Default)]
pub struct Recovery {
    /// The decisions, by run.
    pub items: Vec<Recovered>,
    /// What could not be done; those runs are as they were.
    pub failures: Vec<(RunId, EngineError)>,
}

/// Reconciles all abandoned runs.
///
/// # Errors
/// When the store as a whole cannot be read; failures of single runs are in the result.
pub fn recover_all(engine: &Engine<'_>, lock: &StoreLock<'_>, mode: Mode) -> Result<Recovery, EngineError> {
    let disk = &**engine.disk();
    let mut recovery = Recovery::default();
    if mode == Mode::Act {
        sweep(engine, lock)?;
    }
    let mut candidates = Vec::new();
    for (index, state) in slots::probe_all(disk, 0)? {
        match state {
            SlotState::Abandoned(Some(holder)) => candidates.push(holder.run),
            SlotState::Abandoned(None) => {
                if mode == Mode::Act {
                    slots::release_abandoned(lock, disk, index, None)?;
                }
                recovery.items.push(garbage(index));
            }
            SlotState::Free | SlotState::Live(_) => {}
        }
    }
    for id in runs::list_active(disk)? {
        match runs::load(disk, &id) {
            Ok(Some(state)) if !state.is_executing() && !state.is_finished() => {}
            Ok(_) | Err(StoreError::Corrupt { .. } | StoreError::Io { .. }) => candidates.push(id),
            Err(error) => return Err(error.into()),
        }
    }
    candidates.sort_unstable();
    candidates.dedup();
    for id in candidates {
        match reconcile(engine, lock, &id, mode) {
            Ok(Some(item)) if item.decision != Decision::Live => recovery.items.push(item),
            Ok(_) => {}
            Err(error) => recovery.failures.push((id, error)),
        }
    }
    Ok(recovery)
}

/// Clears away what commands left that died: temporary files, and batches, which are finished or forgotten.
///
/// # Errors
/// When that cannot be done.
pub fn sweep(engine: &Engine<'_>, lock: &StoreLock<'_>) -> Result<(), EngineError> {
    atomic::sweep(lock, &**engine.disk())?;
    batch::finish(engine, lock)
}

fn garbage(index: SlotIndex) -> Recovered {
    Recovered {
        run: None,
        decision: Decision::Released,
        detail: format!("slot {index} held nothing readable and nobody holds its lock"),
    }
}

/// Reconciles one run and nothing else; none where it needs nothing.
///
/// # Errors
/// When there is no such run, or the decision cannot be recorded; the run is then as it was.
pub fn reconcile(
    engine: &Engine<'_>,
    lock: &StoreLock<'_>,
    id: &RunId,
    mode: Mode,
) -> Result<Option<Recovered>, EngineError> {
    let live = |index, holder: Option<&Holder>| {
        let detail = admit::describe_holder(index, holder);
        Ok(Some(Recovered { run: Some(id.clone()), decision: Decision::Live, detail }))
    };
    let slots = match admit::standing(lock, engine, id)? {
        Standing::Live(index, holder) => return live(index, holder.as_ref()),
        Standing::Idle(slots) => slots,
    };
    let (dir, state) = match runs::read_journal(&**engine.disk(), id) {
        Ok(Some((dir, state, _))) => (dir, state),
        Ok(None) => return unadmitted(engine, lock, id, mode, &slots),
        Err(StoreError::Corrupt { path, why }) => {
            // A corrupt run is never executed again, so its slot need not wait for a person.
            if mode == Mode::Act {
                release(engine, lock, &slots)?;
            }
            let detail = format!("{}: {why}", engine.store.root().join(path).display());
            return Ok(Some(Recovered { run: Some(id.clone()), decision: Decision::Corrupt, detail }));
        }
        Err(error) => return Err(error.into()),
    };
    if let Some(index) = admit::held_without_name(engine, &state)? {
        return live(index, None);
    }
    let is_misplaced = dir.starts_with(layout::ACTIVE) == state.is_finished();
    if !state.is_executing() && slots.is_empty() && !is_misplaced {
        return Ok(None);
    }
    // A missing snapshot makes a step count as not idempotent; it must not cost the slot.
    let workflow = engine.workflow_of(&state).ok();
    let (decision, detail, event) = decided(&state, &decide::conclude(&state, workflow.as_ref()));
    if mode == Mode::Act {
        let run = admit::open_run(engine, lock, id)?;
        let run = match &event {
            Some(event) => run.append(event, engine.now())?,
            None => run,
        };
        run.sweep_scratch();
        let filed = run.file_away();
        release(engine, lock, &slots)?;
        filed?;
    }
    Ok(Some(Recovered { run: Some(id.clone()), decision, detail }))
}

fn decided(state: &RunState, conclusion: &Conclusion) -> (Decision, String, Option<Event>) {
    let attempt = match &state.phase {
        Phase::Executing(executing) => executing.attempt,
        _ => return (Decision::Released, "its last attempt was settled".to_owned(), None),
    };
    match conclusion {
        Conclusion::Settled => (Decision::Released, "its last attempt was settled".to_owned(), None),
        Conclusion::Requeue(None) => {
            let detail = "no outcome is unknown".to_owned();
            (Decision::Requeued, detail, Some(Event::Requeued { attempt, at: None }))
        }
        Conclusion::Requeue(Some(place)) => {
            let detail = format!("it goes on at step {}", place.step);
            (Decision::Requeued, detail, Some(Event::Requeued { attempt, at: Some(place.clone()) }))
        }
        Conclusion::Ambiguous(seq, step) => {
            let detail = format!("step {step} (execution {seq}) was started and nobody can know what it did");
            let event = Event::Failed {
                attempt,
                reason: Reason::Ambiguous,
                error: detail.clone(),
                by: Some("recovery".to_owned()),
            };
            (Decision::Ambiguous, detail, Some(event))
        }
    }
}

/// A slot may name a run that a crash kept from being admitted: nothing of it ever ran.
fn unadmitted(
    engine: &Engine<'_>,
    lock: &StoreLock<'_>,
    id: &RunId,
    mode: Mode,
    slots: &[(SlotIndex, Holder)],
) -> Result<Option<Recovered>, EngineError> {
    if mode == Mode::Act {
        if runs::find(&**engine.disk(), id)?.is_some() {
            runs::sweep_unadmitted(&**engine.disk(), &layout::active_run(id))?;
        }
        release(engine, lock, slots)?;
    }
    let detail = "a slot named it, but it was never admitted".to_owned();
    let item = Recovered { run: Some(id.clone()), decision: Decision::Released, detail };
    Ok((!slots.is_empty()).then_some(item))
}

fn release(
    engine: &Engine<'_>,
    lock: &StoreLock<'_>,
    slots: &[(SlotIndex, Holder)],
) -> Result<(), EngineError> {
    for (index, holder) in slots {
        slots::release_abandoned(lock, &**engine.disk(), *index, Some(holder))?;
    }
    Ok(())
}
