//! What a command does to a store: admit, dispatch, resume, recover, cancel, prune.
//!
//! Knows nothing of arguments, tables or exit codes. Whatever changes state happens under the store lock
//! or by the owner of a slot, and is decided by the pure functions of [`crate::state`].

pub mod admit;
pub mod attempt;
pub mod batch;
pub mod cancel;
pub mod dispatch;
pub mod expire;
pub mod fsck;
pub mod metrics;
pub mod notify;
pub mod prune;
pub mod query;
pub mod recover;
pub mod resume;
pub mod schedule;
pub mod supervise;
#[cfg(test)]
mod test_store;
pub mod tick;

use std::{collections::BTreeMap, ffi::OsString, fmt, path::PathBuf, sync::Arc, time::Duration};

use chrono::{DateTime, Utc};

use crate::{
    domain::{
        event::AttemptNo,
        ids::{Digest, RunId},
        trigger::TriggerError,
        workflow::{Workflow, WorkflowError},
    },
    process::{Interruption, Signals, StopError, WaitError},
    state::{
        decide::Undecidable,
        run::{IllegalEvent, RunState},
    },
    store::{
        Store, StoreError,
        disk::Disk,
        lock::{Patience, StoreLock},
        slots::Holder,
        snapshots,
    },
};

/// Why a command could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The store could not.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A trigger that can never fire.
    #[error(transparent)]
    Trigger(#[from] TriggerError),
    /// A signal came before anything durable happened.
    #[error("interrupted by {} before anything was done", .0.name())]
    Interrupted(Interruption),
    /// There is no such run.
    #[error("there is no run {0}")]
    NoRun(String),
    /// A prefix fits more than one run.
    #[error("{prefix} fits more than one run: {}", .found.join(", "))]
    ManyRuns {
        /// What was asked for.
        prefix: String,
        /// Some of what fits.
        found: Vec<String>,
    },
    /// There is no such schedule.
    #[error("there is no schedule {id}")]
    NoSchedule {
        /// What was asked for.
        id: String,
        /// The nearest name that exists.
        nearest: Option<String>,
    },
    /// There is one already.
    #[error("{what} {id} exists already")]
    Exists {
        /// "run" or "schedule".
        what: &'static str,
        /// Its id.
        id: String,
    },
    /// The store is draining.
    #[error("the store is draining: nothing is admitted, dispatched or resumed")]
    Draining,
    /// No slot is free.
    #[error("no slot is free: {busy} of {capacity} are taken")]
    Full {
        /// Taken slots.
        busy: u32,
        /// The capacity.
        capacity: u32,
    },
    /// Somebody executes the run.
    #[error("run {run} is live: {why}")]
    Live {
        /// The run.
        run: RunId,
        /// Who, as far as that is known.
        why: String,
    },
    /// The run's state does not allow it.
    #[error("run {run} {why}")]
    WrongState {
        /// The run.
        run: RunId,
        /// Its state, and why that does not do.
        why: String,
        /// What helps.
        hint: String,
    },
    /// A workflow file has errors.
    #[error("{path} is not a valid workflow", path = .path.display())]
    BadWorkflow {
        /// The file.
        path: PathBuf,
        /// All that is wrong with it.
        errors: Vec<WorkflowError>,
    },
    /// A value that a caller gave does not do.
    #[error("{what}: {why}")]
    BadInput {
        /// Which value.
        what: String,
        /// Why not.
        why: String,
        /// What helps.
        hint: String,
    },
    /// A file that a caller named cannot be read.
    #[error("cannot read {path}: {source}", path = .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A cancelled execution could not be reconciled; marker and slot stay as they are.
    #[error("run {run} was stopped but could not be reconciled, so its capacity was NOT reclaimed: {why}")]
    NotReclaimed {
        /// The run.
        run: RunId,
        /// Why.
        why: String,
    },
    /// Processes of a step could not be stopped or joined; nothing was released.
    #[error("run {run}: {source}; nothing was released")]
    NotStopped {
        /// The run.
        run: RunId,
        /// Which, and why.
        source: StopError,
    },
    /// What became of a step cannot be told; recovery will call it ambiguous.
    #[error("run {run}: {why}")]
    Untracked {
        /// The run.
        run: RunId,
        /// Why.
        why: String,
    },
    /// The operating system refused something that concerns no file of the store.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried, as a verb.
        what: &'static str,
        /// The answer.
        source: std::io::Error,
    },
}

impl From<IllegalEvent> for EngineError {
    fn from(error: IllegalEvent) -> Self {
        Self::Store(StoreError::Bug(error.to_string()))
    }
}

impl EngineError {
    /// An undecidable run: the pinned workflow is not the one that the run was admitted with.
    pub fn undecidable(run: &RunId, error: &Undecidable) -> Self {
        Self::Store(StoreError::Bug(format!("run {run}: {error}")))
    }

    /// A failed wait.
    pub fn untracked(run: &RunId, error: &WaitError) -> Self {
        Self::Untracked { run: run.clone(), why: error.to_string() }
    }
}

/// Tells the time; only the program's outermost part knows how.
pub type Clock = dyn Fn() -> DateTime<Utc> + Sync;

/// What every command needs.
pub struct Engine<'a> {
    /// The store.
    pub store: &'a Store,
    /// The time.
    pub clock: &'a Clock,
    /// The signals that this process got.
    pub signals: &'a Signals,
    /// This process and its host, as slots and attempts name them.
    pub process: ProcessName,
    /// The variables of the executing process, for `pass_env`.
    pub env: BTreeMap<OsString, OsString>,
    /// How long to wait for the store lock.
    pub lock_timeout: Duration,
}

impl fmt::Debug for Engine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("store", &self.store.root()).finish_non_exhaustive()
    }
}

/// A process, told apart from later ones with the same number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessName {
    /// Its number.
    pub pid: u32,
    /// When it started, in clock ticks since boot.
    pub start: Option<u64>,
    /// Its host.
    pub host: String,
}

impl Engine<'_> {
    /// The time now.
    pub fn now(&self) -> DateTime<Utc> {
        (self.clock)()
    }

    /// The disk of the store.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        self.store.disk()
    }

    /// Takes the store lock; a signal ends the wait.
    ///
    /// # Errors
    /// When the lock stays busy, or a signal came.
    pub fn lock(&self) -> Result<StoreLock<'_>, EngineError> {
        self.check_signals()?;
        let patience = Patience { timeout: self.lock_timeout, abort: Some(self.signals.first_fd()) };
        match self.store.lock(patience) {
            Ok(lock) => Ok(lock),
            Err(StoreError::Aborted) => Err(self.interrupted()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the store lock whatever signals came, to settle what was begun.
    ///
    /// # Errors
    /// When the lock stays busy.
    pub fn lock_to_settle(&self) -> Result<StoreLock<'_>, StoreError> {
        self.store.lock(Patience { timeout: self.lock_timeout, abort: None })
    }

    /// Fails if a signal has come; for the moments before anything durable happens.
    ///
    /// # Errors
    /// [`EngineError::Interrupted`].
    pub fn check_signals(&self) -> Result<(), EngineError> {
        match self.signals.pending() {
            None => Ok(()),
            Some((signal, _)) => Err(EngineError::Interrupted(signal)),
        }
    }

    fn interrupted(&self) -> EngineError {
        EngineError::Interrupted(self.signals.pending().map_or(Interruption::Int, |(signal, _)| signal))
    }

    /// Fails while the store is draining.
    ///
    /// # Errors
    /// [`EngineError::Draining`].
    pub fn refuse_draining(&self) -> Result<(), EngineError> {
        if self.store.is_draining()? { Err(EngineError::Draining) } else { Ok(()) }
    }

    /// What a slot says while this process holds it for an attempt.
    pub fn holder(&self, run: &RunId, attempt: AttemptNo) -> Holder {
        Holder {
            run: run.clone(),
            attempt,
            pid: self.process.pid,
            pid_start: self.process.start,
            host: self.process.host.clone(),
            at: crate::domain::time::whole_millis(self.now()),
        }
    }

    /// The workflow that a run was admitted with.
    ///
    /// # Errors
    /// When the pinned snapshot is missing or altered.
    pub fn workflow_of(&self, state: &RunState) -> Result<Workflow, StoreError> {
        self.pinned_workflow(&state.admitted.workflow)
    }

    /// A pinned workflow.
    ///
    /// # Errors
    /// When the snapshot is missing, altered, or not a workflow for this program.
    pub fn pinned_workflow(&self, digest: &Digest) -> Result<Workflow, StoreError> {
        let text = snapshots::load(&**self.disk(), digest)?;
        Workflow::parse(&text).map_err(|errors| StoreError::Snapshot {
            path: crate::store::layout::workflow(digest),
            why: errors.first().map_or_else(String::new, |e| e.message.clone()),
        })
    }
}
