//! The state of one run: a fold over its events and nothing else.
//!
//! [`RunState::apply`] is the only way state changes; an event that cannot follow is an error and
//! leaves the state as it was. Deliberately not here: files, clocks, and what should happen next.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::domain::{
    event::{
        Admitted, AttemptKind, AttemptNo, AttemptStarted, Event, Interrupted, Reason, RequeuedAt, Resolution,
        Seq, StepEnding, StepFinished,
    },
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
    /// The state after the first event.
    ///
    /// # Errors
    /// When the event is not `admitted`.
    pub fn begin(event: &Event, at: DateTime<Utc>) -> Result<Self, IllegalEvent> {
        let Event::Admitted(admitted) = event else {
            return Err(IllegalEvent { event: event.word(), why: "a run begins with 'admitted'" });
        };
        Ok(Self {
            admitted: (**admitted).clone(),
            phase: Phase::Queued(Position::First),
            attempts: Vec::new(),
            steps: Vec::new(),
            results: BTreeMap::new(),
            last_step: None,
            spent_steps: 0,
            n: 1,
            created_at: at,
            updated_at: at,
        })
    }

    /// The state that a whole journal tells.
    ///
    /// # Errors
    /// At the first event that cannot follow; an empty list has no state.
    pub fn fold<'a>(
        events: impl IntoIterator<Item = (DateTime<Utc>, &'a Event)>,
    ) -> Result<Self, IllegalEvent> {
        let mut events = events.into_iter();
        let Some((at, first)) = events.next() else {
            return Err(IllegalEvent { event: "nothing", why: "a run begins with 'admitted'" });
        };
        let mut state = Self::begin(first, at)?;
        for (at, event) in events {
            state.apply(event, at)?;
        }
        Ok(state)
    }

    /// Applies one event, the only way that state changes.
    ///
    /// # Errors
    /// When the event cannot follow; the state is then as it was.
    pub fn apply(&mut self, event: &Event, at: DateTime<Utc>) -> Result<(), IllegalEvent> {
        let illegal = |why| IllegalEvent { event: event.word(), why };
        match event {
            Event::Admitted(_) => return Err(illegal("the run was admitted already")),
            Event::AttemptStarted(started) => self.start_attempt(started, at).map_err(illegal)?,
            Event::StepStarted { attempt, seq, step, try_no, key } => {
                self.start_step(*attempt, *seq).map_err(illegal)?;
                self.steps.push(Execution {
                    attempt: *attempt,
                    step: step.clone(),
                    try_no: *try_no,
                    key: key.clone(),
                    started_at: at,
                    finished: None,
                });
            }
            Event::StepFinished(finished) => self.finish_step(finished).map_err(illegal)?,
            Event::Interrupted(asked) => self.interrupt(asked, at).map_err(illegal)?,
            Event::Completed { attempt, outcome } => {
                self.settling(*attempt).map_err(illegal)?;
                self.end_attempt(AttemptState::Settled, at);
                self.phase = Phase::Completed { outcome: Some(outcome.clone()) };
            }
            Event::Failed { attempt, reason, error, by } => {
                self.fail(*attempt, *reason, error, by.as_deref(), at).map_err(illegal)?;
            }
            Event::Retried { from, .. } => self.retry(from).map_err(illegal)?,
            Event::Fenced { attempt, signal } => {
                let executing = self.executing_mut(*attempt).map_err(illegal)?;
                executing.fenced = Some(signal.clone());
            }
            Event::Requeued { attempt, at: place } => {
                self.requeue(*attempt, place.as_ref(), at).map_err(illegal)?;
            }
            Event::Cancelled { by, note } => {
                if !matches!(self.phase, Phase::Queued(_) | Phase::Interrupted(_)) {
                    return Err(illegal("only a queued or interrupted run can be cancelled"));
                }
                self.phase = Phase::Cancelled { by: by.clone(), note: note.clone() };
            }
            Event::Resolved { resolution, note, by } => {
                self.resolve(*resolution, note.as_deref(), by, at).map_err(illegal)?;
            }
        }
        self.n += 1;
        self.updated_at = at;
        Ok(())
    }

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

    fn start_attempt(&mut self, started: &AttemptStarted, at: DateTime<Utc>) -> Result<(), &'static str> {
        if started.attempt != self.next_attempt() {
            return Err("attempts are numbered from 1 without a hole");
        }
        let before = match (&self.phase, started.kind) {
            (Phase::Queued(position), AttemptKind::Dispatch) => Before::Queued(position.clone()),
            (Phase::Interrupted(gate), AttemptKind::Resume) => {
                let outcome = started.outcome.clone().ok_or("a resume carries the gate's outcome")?;
                let result = StepResult { outcome: outcome.clone(), output: started.payload.clone() };
                self.results.insert(gate.asked.step.clone(), result);
                self.last_step = Some(gate.asked.step.clone());
                Before::Interrupted(gate.clone(), outcome)
            }
            (Phase::Queued(_), AttemptKind::Resume) => return Err("no gate is open"),
            (Phase::Interrupted(_), AttemptKind::Dispatch) => return Err("an open gate is resumed"),
            (Phase::Executing(_), _) => return Err("an attempt is in progress"),
            (Phase::Completed { .. } | Phase::Failed(_) | Phase::Cancelled { .. }, _) => {
                return Err("the run is finished");
            }
        };
        self.attempts.push(Attempt {
            started: started.clone(),
            started_at: at,
            state: AttemptState::Active,
            ended_at: None,
        });
        self.phase = Phase::Executing(Executing {
            attempt: started.attempt,
            before,
            point: Point::Begun,
            fenced: None,
        });
        Ok(())
    }

    fn start_step(&mut self, attempt: AttemptNo, seq: Seq) -> Result<(), &'static str> {
        if seq != self.next_seq() {
            return Err("step executions are numbered from 1 without a hole");
        }
        let executing = self.executing_mut(attempt)?;
        match executing.point {
            Point::Begun | Point::Finished(_) => executing.point = Point::InFlight(seq),
            Point::InFlight(_) => return Err("another step of the run is in flight"),
        }
        self.spent_steps += 1;
        Ok(())
    }

    fn finish_step(&mut self, finished: &StepFinished) -> Result<(), &'static str> {
        let executing = self.executing_mut(finished.attempt)?;
        if executing.point != Point::InFlight(finished.seq) {
            return Err("that step execution is not in flight");
        }
        let Some(execution) = self.steps.last_mut().filter(|e| e.step == finished.step) else {
            return Err("the step in flight is another one");
        };
        execution.finished = Some(Finished {
            outcome: finished.outcome.clone(),
            ending: finished.ending.clone(),
            ms: finished.ms,
        });
        self.executing_mut(finished.attempt)?.point = Point::Finished(finished.seq);
        let result = StepResult { outcome: finished.outcome.clone(), output: finished.output.clone() };
        self.results.insert(finished.step.clone(), result);
        self.last_step = Some(finished.step.clone());
        Ok(())
    }

    fn interrupt(&mut self, asked: &Interrupted, at: DateTime<Utc>) -> Result<(), &'static str> {
        if asked.outcomes.is_empty() {
            return Err("a gate has at least one outcome");
        }
        self.settling(asked.attempt)?;
        self.end_attempt(AttemptState::Settled, at);
        self.phase = Phase::Interrupted(Gate { number: self.n + 1, at, asked: asked.clone() });
        Ok(())
    }

    fn fail(
        &mut self,
        attempt: AttemptNo,
        reason: Reason,
        error: &str,
        by: Option<&str>,
        at: DateTime<Utc>,
    ) -> Result<(), &'static str> {
        let unresolved = reason == Reason::Ambiguous;
        if unresolved {
            // The attempt stays active: it is the record that forbids a replay.
            self.executing_mut(attempt)?;
        } else {
            self.settling(attempt)?;
            self.end_attempt(AttemptState::Settled, at);
        }
        let error = error.to_owned();
        self.phase = Phase::Failed(Failure { reason, error, by: by.map(str::to_owned), unresolved });
        Ok(())
    }

    fn retry(&mut self, from: &StepId) -> Result<(), &'static str> {
        match &self.phase {
            Phase::Failed(Failure { unresolved: false, .. }) => {}
            Phase::Failed(Failure { unresolved: true, .. }) => return Err("the run is ambiguous"),
            Phase::Queued(_)
            | Phase::Interrupted(_)
            | Phase::Executing(_)
            | Phase::Completed { .. }
            | Phase::Cancelled { .. } => return Err("only a failed run is retried"),
        }
        self.spent_steps = 0;
        let place = RequeuedAt { step: from.clone(), try_no: 1, key: None };
        self.phase = Phase::Queued(Position::At(place));
        Ok(())
    }

    fn requeue(
        &mut self,
        attempt: AttemptNo,
        place: Option<&RequeuedAt>,
        at: DateTime<Utc>,
    ) -> Result<(), &'static str> {
        let executing = self.executing_mut(attempt)?;
        let next = match (executing.point, place) {
            (Point::Begun, None) => match executing.before.clone() {
                Before::Queued(position) => Phase::Queued(position),
                Before::Interrupted(gate, _) => {
                    self.results.remove(&gate.asked.step);
                    Phase::Interrupted(gate)
                }
            },
            (Point::Begun, Some(_)) => return Err("nothing ran, so the run goes back to where it stood"),
            (Point::Finished(seq), None) => Phase::Queued(Position::After(seq)),
            (Point::InFlight(_), None) => return Err("the outcome of a started step is unknown"),
            (Point::InFlight(_) | Point::Finished(_), Some(place)) => {
                Phase::Queued(Position::At(place.clone()))
            }
        };
        self.end_attempt(AttemptState::Withdrawn, at);
        self.phase = next;
        Ok(())
    }

    fn resolve(
        &mut self,
        resolution: Resolution,
        note: Option<&str>,
        by: &str,
        at: DateTime<Utc>,
    ) -> Result<(), &'static str> {
        let Phase::Failed(failure) = &mut self.phase else {
            return Err("the run is not ambiguous");
        };
        if !failure.unresolved {
            return Err("the run is not ambiguous");
        }
        match resolution {
            Resolution::Completed => self.phase = Phase::Completed { outcome: None },
            Resolution::Failed => {
                failure.unresolved = false;
                failure.by = Some(by.to_owned());
                if let Some(note) = note {
                    failure.error = format!("{}; resolved as failed: {note}", failure.error);
                }
            }
        }
        self.end_attempt(AttemptState::Resolved, at);
        Ok(())
    }

    fn executing_mut(&mut self, attempt: AttemptNo) -> Result<&mut Executing, &'static str> {
        match &mut self.phase {
            Phase::Executing(executing) if executing.attempt == attempt => Ok(executing),
            Phase::Executing(_) => Err("another attempt is in progress"),
            Phase::Queued(_)
            | Phase::Interrupted(_)
            | Phase::Completed { .. }
            | Phase::Failed(_)
            | Phase::Cancelled { .. } => Err("no attempt is in progress"),
        }
    }

    /// Checks that `attempt` can end with a known result.
    fn settling(&mut self, attempt: AttemptNo) -> Result<(), &'static str> {
        match self.executing_mut(attempt)?.point {
            Point::Begun | Point::Finished(_) => Ok(()),
            Point::InFlight(_) => Err("the outcome of a started step is unknown"),
        }
    }

    fn end_attempt(&mut self, state: AttemptState, at: DateTime<Utc>) {
        if let Some(attempt) = self.attempts.last_mut() {
            attempt.state = state;
            attempt.ended_at = Some(at);
        }
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
