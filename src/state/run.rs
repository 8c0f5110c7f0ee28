//! The state of one run: a fold over its events and nothing else.
//!
//! [`RunState::apply`] is the only way state changes; an event that cannot follow is an error and
//! leaves the state as it was. Deliberately not here: files, clocks, and what should happen next.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::domain::{
    event::{Admitted, AttemptNo, AttemptStarted, Event, Interrupted, Reason, RequeuedAt, Seq, StepEnding},
    ids::StepId,
    workflow::Outcome,
};

/// An event that cannot follow the state it was applied to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {event:?} cannot follow: {why}")]
pub struct IllegalEvent {
    /// The event's word.
    pub event: &'static str,
    /// Which rule it breaks.
    pub why: &'static str,
}

/// One run, as its journal tells it.
#[derive(Debug, Clone, PartialEq)]
pub struct RunState {
    /// How the run was admitted.
    pub admitted: Admitted,
    /// Where the run stands.
    pub phase: Phase,
    /// The attempts, oldest first; attempt `k` is at index `k - 1`.
    pub attempts: Vec<Attempt>,
    /// The step executions, oldest first; execution `k` is at index `k - 1`.
    pub steps: Vec<Execution>,
    /// What each step that ended last said, gates included.
    pub results: BTreeMap<StepId, StepResult>,
    /// The step that ended last, and so decided where the run went.
    pub last_step: Option<StepId>,
    /// Step executions since the run was admitted or retried; bounded by the workflow's `max_steps`.
    pub spent_steps: u32,
    /// The number of the last event.
    pub n: u64,
    /// When the run was admitted.
    pub created_at: DateTime<Utc>,
    /// When its last event was written.
    pub updated_at: DateTime<Utc>,
}

/// Where a run stands. Each variant holds exactly its own facts.
#[derive(Debug, Clone, PartialEq)]
pub enum Phase {
    /// Waits for a slot.
    Queued(Position),
    /// Waits for an answer.
    Interrupted(Gate),
    /// An attempt has begun and has not been settled.
    Executing(Executing),
    /// Reached its end.
    Completed {
        /// The outcome of the step that ended it, or none where a person resolved it.
        outcome: Option<Outcome>,
    },
    /// Failed, or of unknown outcome.
    Failed(Failure),
    /// Given up while nothing was in flight.
    Cancelled {
        /// Who.
        by: String,
        /// What they said.
        note: Option<String>,
    },
}

/// Where a queued run goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Position {
    /// At the first step.
    First,
    /// At a named step.
    At(RequeuedAt),
    /// Behind a finished execution, wherever its outcome leads.
    After(Seq),
}

/// An open question.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    /// The number of the `interrupted` event.
    pub number: u64,
    /// When the question was put.
    pub at: DateTime<Utc>,
    /// The question itself.
    pub asked: Interrupted,
}

/// An attempt in progress.
#[derive(Debug, Clone, PartialEq)]
pub struct Executing {
    /// The attempt.
    pub attempt: AttemptNo,
    /// Where the run stood before it.
    pub before: Before,
    /// How far it has come.
    pub point: Point,
    /// The signal of a fence, if one was noted.
    pub fenced: Option<String>,
}

/// Where a run stood when its attempt began.
#[derive(Debug, Clone, PartialEq)]
pub enum Before {
    /// It was queued.
    Queued(Position),
    /// It was interrupted; with the outcome that answered the gate.
    Interrupted(Gate, Outcome),
}

/// How far an attempt has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// No step was started.
    Begun,
    /// A step was started and its outcome is not known.
    InFlight(Seq),
    /// The last started step's outcome is known.
    Finished(Seq),
}

/// Why a run is `failed`.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// As a word.
    pub reason: Reason,
    /// As a sentence.
    pub error: String,
    /// Who concluded it.
    pub by: Option<String>,
    /// Whether a person still has to say what happened.
    pub unresolved: bool,
}

/// One attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// How it began.
    pub started: AttemptStarted,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// What became of it.
    pub state: AttemptState,
    /// When that was written.
    pub ended_at: Option<DateTime<Utc>>,
}

/// What became of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptState {
    /// In progress, or the record that forbids a replay.
    Active,
    /// Ended with a known result.
    Settled,
    /// Taken back by recovery: nothing unknown was in flight.
    Withdrawn,
    /// Its ambiguity was closed by a person.
    Resolved,
}

impl AttemptState {
    /// The word in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Settled => "settled",
            Self::Withdrawn => "withdrawn",
            Self::Resolved => "resolved",
        }
    }
}

/// One step execution.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    /// The attempt that started it.
    pub attempt: AttemptNo,
    /// The step.
    pub step: StepId,
    /// 1, 2, … inside `retry`.
    pub try_no: u32,
    /// Its idempotency key.
    pub key: String,
    /// When it was started.
    pub started_at: DateTime<Utc>,
    /// How it ended, where that is known.
    pub finished: Option<Finished>,
}

/// How a step execution ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// Its outcome.
    pub outcome: Outcome,
    /// The process's end.
    pub ending: StepEnding,
    /// How long it took, in milliseconds.
    pub ms: u64,
}

/// What a step said last.
#[derive(Debug, Clone, PartialEq)]
pub struct StepResult {
    /// Its outcome.
    pub outcome: Outcome,
    /// Its output, or a gate's payload.
    pub output: Option<Value>,
}

/// The status word of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// Waits for a slot, or is dispatched for the first time.
    Queued,
    /// Waits for an answer, or is being resumed.
    Interrupted,
    /// Reached its end.
    Completed,
    /// Failed or ambiguous.
    Failed,
    /// Given up.
    Cancelled,
}

impl Status {
    /// All of them, in the order of a run's life.
    pub const ALL: [Self; 5] =
        [Self::Queued, Self::Interrupted, Self::Completed, Self::Failed, Self::Cancelled];

    /// The word in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Interrupted => "interrupted",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl RunState {
    /// The status word.
    pub fn status(&self) -> Status {
        match &self.phase {
            Phase::Queued(_) | Phase::Executing(Executing { before: Before::Queued(_), .. }) => {
                Status::Queued
            }
            Phase::Interrupted(_) | Phase::Executing(Executing { before: Before::Interrupted(..), .. }) => {
                Status::Interrupted
            }
            Phase::Completed { .. } => Status::Completed,
            Phase::Failed(_) => Status::Failed,
            Phase::Cancelled { .. } => Status::Cancelled,
        }
    }

    /// Whether the executing marker is set.
    pub fn is_executing(&self) -> bool {
        matches!(self.phase, Phase::Executing(_))
    }

    /// Whether the run failed as ambiguous and nobody has resolved that yet.
    pub fn is_ambiguous(&self) -> bool {
        matches!(self.phase, Phase::Failed(Failure { unresolved: true, .. }))
    }

    /// Whether the run needs nothing any more: terminal, and nothing is left for a person to say.
    pub fn is_finished(&self) -> bool {
        match &self.phase {
            Phase::Completed { .. } | Phase::Cancelled { .. } => true,
            Phase::Failed(failure) => !failure.unresolved,
            Phase::Queued(_) | Phase::Interrupted(_) | Phase::Executing(_) => false,
        }
    }

    /// Whether the status is terminal; an ambiguous run's is, though it still needs a person.
    pub fn is_terminal(&self) -> bool {
        matches!(self.status(), Status::Completed | Status::Failed | Status::Cancelled)
    }

    /// The execution with number `seq`.
    pub fn execution(&self, seq: Seq) -> Option<&Execution> {
        self.steps.get((seq as usize).checked_sub(1)?)
    }

    /// The execution whose outcome is unknown: in flight, or behind an ambiguity.
    pub fn unknown_execution(&self) -> Option<(Seq, &Execution)> {
        let last = self.steps.last()?;
        let seq = Seq::try_from(self.steps.len()).unwrap_or(Seq::MAX);
        last.finished.is_none().then_some((seq, last))
    }

    /// The number that the next attempt gets.
    pub fn next_attempt(&self) -> AttemptNo {
        AttemptNo::try_from(self.attempts.len()).unwrap_or(AttemptNo::MAX) + 1
    }

    /// The number that the next step execution gets.
    pub fn next_seq(&self) -> Seq {
        Seq::try_from(self.steps.len()).unwrap_or(Seq::MAX) + 1
    }

    /// The output of the step that ended last.
    pub fn output(&self) -> Option<&Value> {
        self.results.get(self.last_step.as_ref()?)?.output.as_ref()
    }
}

impl Event {
    /// The event's word in the journal.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Admitted(_) => "admitted",
            Self::AttemptStarted(_) => "attempt_started",
            Self::StepStarted { .. } => "step_started",
            Self::StepFinished(_) => "step_finished",
            Self::Interrupted(_) => "interrupted",
            Self::Completed { .. } => "completed",
            Self::Failed { .. } => "failed",
            Self::Retried { .. } => "retried",
            Self::Fenced { .. } => "fenced",
            Self::Requeued { .. } => "requeued",
            Self::Cancelled { .. } => "cancelled",
            Self::Resolved { .. } => "resolved",
        }
    }
}
