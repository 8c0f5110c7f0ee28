//! The seam behind which steps could run elsewhere: what an executor of steps must be able to
//! do, and the one that runs them as children of this process.
//!
//! Deliberately not here: anything about another engine. An engine that remembers executions by
//! their idempotency key can answer all four [`Fate`]s; children of a process that is gone can
//! only be seen to be alive or not.

use std::fs::File;
use std::time::{Duration, Instant};

use super::child::{Child, SpawnError, SpawnSpec, spawn};
use super::stop::{StopError, Stopped, stop_child};
use super::wake::{StopWatch, WaitError, Wake, wait};

use super::child::Ending;

/// What became of an execution that nobody waited for to the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Processes of it are alive.
    StillRunning,
    /// It ended like this.
    Ended(Ending),
    /// It is certain that it was never started.
    NeverStarted,
    /// Nobody can know.
    Unknown,
}

/// What the kernel says of the lock that an execution's processes inherit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotLock {
    /// Some process holds it.
    Held,
    /// The asker has it exclusively.
    Free,
}

/// Starts, waits for and stops executions of steps.
pub trait StepExecutor {
    /// An execution under way.
    type Execution;

    /// Starts a step under its idempotency key, which must be durable by now.
    fn start(&self, key: &str, spec: &SpawnSpec<'_>) -> Result<Self::Execution, SpawnError>;

    /// Waits as [`wait`] does.
    fn wait(
        &self,
        execution: &mut Self::Execution,
        deadline: Option<Instant>,
        stop: &StopWatch,
    ) -> Result<Wake, WaitError>;

    /// Stops and joins all of an execution. `slot` is the description it inherited.
    fn stop(
        &self,
        execution: Self::Execution,
        slot: &File,
        grace: Duration,
        stop: &StopWatch,
    ) -> Result<Stopped, StopError>;

    /// Tells, after a crash, what became of the execution with this key.
    fn ask(&self, key: &str, lock: SlotLock) -> Fate;
}

/// Runs steps as children of this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct LocalExecutor;

impl StepExecutor for LocalExecutor {
    type Execution = Child;

    fn start(&self, _key: &str, spec: &SpawnSpec<'_>) -> Result<Child, SpawnError> {
        spawn(spec)
    }

    fn wait(
        &self,
        execution: &mut Child,
        deadline: Option<Instant>,
        stop: &StopWatch,
    ) -> Result<Wake, WaitError> {
        wait(execution, deadline, stop)
    }

    fn stop(
        &self,
        execution: Child,
        slot: &File,
        grace: Duration,
        stop: &StopWatch,
    ) -> Result<Stopped, StopError> {
        stop_child(execution, Some(slot), grace, stop)
    }

    /// The kernel keeps no record of processes that are gone, so a free lock proves nothing.
    fn ask(&self, _key: &str, lock: SlotLock) -> Fate {
        match lock {
            SlotLock::Held => Fate::StillRunning,
            SlotLock::Free => Fate::Unknown,
        }
    }
}
