//! One run: its journal folded, whether anything of it lives, and whether it could be resumed.
//!
//! `abandoned` is believed only where the journal says the same before and after the slot was looked at;
//! otherwise a run that settles in that moment would look like one that needs recovery.

use std::{
    cell::{OnceCell, RefCell},
    collections::HashMap,
    fmt,
    path::PathBuf,
    rc::Rc,
};

use chrono::{DateTime, Utc};

use super::readiness::{self, Readiness};
use crate::{
    domain::{
        ids::{Digest, RunId, SlotIndex},
        workflow::Workflow,
    },
    engine::EngineError,
    state::run::{Phase, RunState},
    store::{
        Store, StoreError,
        journal::Record,
        layout, runs,
        slots::{self, SlotState},
        snapshots,
    },
};

/// A run as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedRun {
    /// Its folder, below the store.
    pub dir: PathBuf,
    /// Its folded state.
    pub state: RunState,
    /// Its records, oldest first.
    pub records: Vec<Record>,
    /// Whether anything of an execution lives.
    pub liveness: Liveness,
    /// Whether it could be resumed.
    pub readiness: Readiness,
}

/// Whether anything of an execution lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// The run is not executing.
    Idle,
    /// Some process holds its slot.
    Live,
    /// It is executing, and nobody holds its slot: it needs recovery.
    Abandoned,
}

impl LoadedRun {
    /// The slot of the attempt in progress.
    pub fn slot(&self) -> Option<SlotIndex> {
        match &self.state.phase {
            Phase::Executing(_) => self.state.attempts.last()?.started.slot,
            Phase::Queued(_)
            | Phase::Interrupted(_)
            | Phase::Completed { .. }
            | Phase::Failed(_)
            | Phase::Cancelled { .. } => None,
        }
    }
}

/// Reads several runs of one store, looking at its slots and parsing each workflow once.
pub struct Reader<'a> {
    store: &'a Store,
    now: DateTime<Utc>,
    slots: OnceCell<Vec<(SlotIndex, SlotState)>>,
    workflows: RefCell<HashMap<Digest, Rc<Result<Workflow, String>>>>,
}

impl fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("store", &self.store.root())
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

/// One run.
///
/// # Errors
/// [`EngineError::NoRun`] where there is none; when its record is corrupt or cannot be read.
pub fn load_run(store: &Store, run: &RunId, now: DateTime<Utc>) -> Result<LoadedRun, EngineError> {
    match Reader::new(store, now).load(run) {
        Ok(Some(loaded)) => Ok(loaded),
        Ok(None) => Err(EngineError::NoRun(run.to_string())),
        Err(error) => Err(error.below(store.root()).into()),
    }
}

impl<'a> Reader<'a> {
    /// A reader for runs as they stand at `now`.
    pub fn new(store: &'a Store, now: DateTime<Utc>) -> Self {
        Self { store, now, slots: OnceCell::new(), workflows: RefCell::default() }
    }

    /// One run; none where there is none.
    ///
    /// # Errors
    /// When its record is corrupt or cannot be read.
    pub fn load(&self, run: &RunId) -> Result<Option<LoadedRun>, StoreError> {
        let Some((mut dir, mut state, mut records)) = runs::read_journal(&**self.store.disk(), run)? else {
            return Ok(None);
        };
        let mut liveness = Liveness::Abandoned;
        for _ in 0..4 {
            if !state.is_executing() {
                liveness = Liveness::Idle;
                break;
            }
            if self.is_held(&state)? {
                liveness = Liveness::Live;
                break;
            }
            let seen = state.n;
            let Some(again) = runs::read_journal(&**self.store.disk(), run)? else { return Ok(None) };
            (dir, state, records) = again;
            if state.n == seen {
                liveness = Liveness::Abandoned;
                break;
            }
        }
        let readiness = readiness::assess(&state, self.now, |digest| self.workflow(digest));
        Ok(Some(LoadedRun { dir, state, records, liveness, readiness }))
    }

    /// All slots, as they were when they were first asked for.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn slots(&self) -> Result<&[(SlotIndex, SlotState)], StoreError> {
        if self.slots.get().is_none() {
            let found = slots::probe_all(&**self.store.disk(), self.store.settings().capacity)?;
            let _ = self.slots.set(found);
        }
        Ok(self.slots.get().map_or(&[], Vec::as_slice))
    }

    /// Whether some process holds the slot of the attempt in progress.
    fn is_held(&self, state: &RunState) -> Result<bool, StoreError> {
        let Some(index) = state.attempts.last().and_then(|attempt| attempt.started.slot) else {
            return Ok(false);
        };
        if self.slots()?.iter().any(|(at, slot)| *at == index && is_of(slot, state)) {
            return Ok(true);
        }
        Ok(is_of(&slots::probe_twice(&**self.store.disk(), index)?, state))
    }

    /// A pinned workflow, or why it cannot be used.
    fn workflow(&self, digest: &Digest) -> Rc<Result<Workflow, String>> {
        let mut known = self.workflows.borrow_mut();
        let entry = known.entry(digest.clone()).or_insert_with(|| Rc::new(load_workflow(self.store, digest)));
        Rc::clone(entry)
    }
}

/// Whether the slot is live and held for the last attempt of the run.
fn is_of(slot: &SlotState, state: &RunState) -> bool {
    match slot {
        SlotState::Live(Some(holder)) => {
            holder.run == state.admitted.run && holder.attempt as usize == state.attempts.len()
        }
        SlotState::Live(None) | SlotState::Free | SlotState::Abandoned(_) => false,
    }
}

fn load_workflow(store: &Store, digest: &Digest) -> Result<Workflow, String> {
    let text = snapshots::load(&**store.disk(), digest).map_err(|e| e.below(store.root()).to_string())?;
    Workflow::parse(&text).map_err(|errors| {
        let why = errors.first().map_or("", |error| error.message.as_str());
        let path = store.root().join(layout::workflow(digest));
        format!("the pinned workflow {} cannot be used: {why}", path.display())
    })
}
