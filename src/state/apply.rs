//! How events change a run: the only way that state changes.
//!
//! An event that cannot follow is refused and leaves the state as it was. Deliberately not here: what the
//! states are ([`super::run`]), and which event should come next ([`super::decide`]).

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::run::{
    Attempt, AttemptState, Before, Executing, Execution, Failure, Finished, Gate, IllegalEvent, Phase, Point,
    Position, RunState, StepResult,
};
use crate::domain::{
    event::{
        AttemptKind, AttemptNo, AttemptStarted, Event, Interrupted, Reason, RequeuedAt, Resolution, Seq,
        StepFinished,
    },
    ids::StepId,
};

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
