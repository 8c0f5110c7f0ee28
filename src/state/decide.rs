//! Pure decisions: what an attempt does next, and what recovery concludes about an abandoned one.
//!
//! The live path and recovery share these functions, so that a crash can never lead anywhere that
//! an undisturbed run could not. Deliberately not here: files, clocks, processes.

use std::time::Duration;

use crate::{
    domain::{
        event::{Reason, RequeuedAt, Seq},
        ids::StepId,
        workflow::{CommandStep, Outcome, StepIndex, StepKind, Target, Workflow},
    },
    state::run::{Before, Executing, Phase, Point, Position, RunState},
};

/// What an attempt does next.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Start a step.
    Start(Start),
    /// Put the question of a gate.
    Ask(StepIndex),
    /// The run is complete.
    Complete(Outcome),
    /// The run failed.
    Fail(Reason, String),
}

/// A step to start.
#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    /// The step.
    pub step: StepIndex,
    /// 1, 2, … inside `retry`.
    pub try_no: u32,
    /// The idempotency key to use again; none: a new one.
    pub key: Option<String>,
    /// How long to wait first.
    pub delay: Duration,
}

/// A run that stands where nothing can come next, or whose workflow does not know its steps.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Undecidable {
    /// No attempt is in progress or the outcome of a step is unknown.
    #[error("the run is not at a point where something can come next")]
    NotBetweenSteps,
    /// The pinned workflow has no such step.
    #[error("the pinned workflow has no step {0:?}")]
    UnknownStep(String),
}

/// What comes next in the attempt that is in progress.
///
/// # Errors
/// When a step is in flight, when no attempt is in progress, or when the workflow is not the one
/// that the run was admitted with.
pub fn next(state: &RunState, workflow: &Workflow) -> Result<Next, Undecidable> {
    let Phase::Executing(executing) = &state.phase else { return Err(Undecidable::NotBetweenSteps) };
    let next = match (executing.point, &executing.before) {
        (Point::InFlight(_), _) => return Err(Undecidable::NotBetweenSteps),
        (Point::Finished(seq), _) => after_execution(state, workflow, seq)?,
        (Point::Begun, Before::Queued(position)) => from_position(state, workflow, position)?,
        (Point::Begun, Before::Interrupted(gate, outcome)) => {
            let step = index(workflow, &gate.asked.step)?;
            follow(workflow, step, outcome, None)
        }
    };
    Ok(within_budget(next, state, workflow))
}

/// What comes next for a queued run whose attempt would begin now.
///
/// # Errors
/// When the workflow is not the one that the run was admitted with.
pub fn from_position(
    state: &RunState,
    workflow: &Workflow,
    position: &Position,
) -> Result<Next, Undecidable> {
    Ok(match position {
        Position::First => enter(workflow, workflow.first()),
        Position::At(place) => match enter(workflow, index(workflow, &place.step)?) {
            Next::Start(start) => {
                Next::Start(Start { try_no: place.try_no, key: place.key.clone(), ..start })
            }
            other => other,
        },
        Position::After(seq) => after_execution(state, workflow, *seq)?,
    })
}

/// What follows the outcome of a gate.
///
/// # Errors
/// When the workflow has no such step.
pub fn after_gate(workflow: &Workflow, gate: &StepId, outcome: &Outcome) -> Result<Next, Undecidable> {
    Ok(follow(workflow, index(workflow, gate)?, outcome, None))
}

fn index(workflow: &Workflow, step: &StepId) -> Result<StepIndex, Undecidable> {
    workflow.index_of(step.as_str()).ok_or_else(|| Undecidable::UnknownStep(step.to_string()))
}

fn enter(workflow: &Workflow, step: StepIndex) -> Next {
    match &workflow.step(step).kind {
        StepKind::Command(_) => Next::Start(Start { step, try_no: 1, key: None, delay: Duration::ZERO }),
        StepKind::Gate(_) => Next::Ask(step),
    }
}

fn after_execution(state: &RunState, workflow: &Workflow, seq: Seq) -> Result<Next, Undecidable> {
    let execution = state.execution(seq).ok_or(Undecidable::NotBetweenSteps)?;
    let finished = execution.finished.as_ref().ok_or(Undecidable::NotBetweenSteps)?;
    let step = index(workflow, &execution.step)?;
    if let StepKind::Command(command) = &workflow.step(step).kind
        && is_known_failure(&finished.outcome)
        && execution.try_no <= command.retry.max
    {
        let try_no = execution.try_no + 1;
        return Ok(Next::Start(Start {
            step,
            try_no,
            key: command.idempotent.then(|| execution.key.clone()),
            delay: command.retry.delay_before(try_no),
        }));
    }
    Ok(follow(workflow, step, &finished.outcome, finished.ending.error.as_deref()))
}

fn is_known_failure(outcome: &Outcome) -> bool {
    matches!(outcome.as_str(), "error" | "timeout")
}

fn follow(workflow: &Workflow, step: StepIndex, outcome: &Outcome, detail: Option<&str>) -> Next {
    match workflow.route(step, outcome) {
        Target::Step(next) => enter(workflow, next),
        Target::End => Next::Complete(outcome.clone()),
        Target::Fail => {
            let id = &workflow.step(step).id;
            let reason = match outcome.as_str() {
                "error" => Reason::Error,
                "timeout" => Reason::Timeout,
                "expired" => Reason::Expired,
                _ => Reason::Fail,
            };
            let error = match detail {
                Some(detail) => format!("step {id} ended with outcome {outcome}: {detail}"),
                None => format!("step {id} ended with outcome {outcome}"),
            };
            Next::Fail(reason, error)
        }
    }
}

/// Loops are legal, but not for ever.
fn within_budget(next: Next, state: &RunState, workflow: &Workflow) -> Next {
    match next {
        Next::Start(_) if state.spent_steps >= workflow.max_steps => Next::Fail(
            Reason::MaxSteps,
            format!("the step budget is used up: max_steps = {}", workflow.max_steps),
        ),
        other => other,
    }
}

/// What recovery concludes about a run from its journal alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conclusion {
    /// No attempt is in progress: whatever slot names the run is just released.
    Settled,
    /// Nothing unknown is in flight.
    Requeue(Option<RequeuedAt>),
    /// Nobody can know what the step in flight did.
    Ambiguous(Seq, StepId),
}

/// Concludes what became of an abandoned run. Without its workflow a step in flight counts as not
/// idempotent, and a run behind a finished step is requeued there without naming the next one.
pub fn conclude(state: &RunState, workflow: Option<&Workflow>) -> Conclusion {
    let Phase::Executing(Executing { point, .. }) = &state.phase else { return Conclusion::Settled };
    match *point {
        Point::Begun => Conclusion::Requeue(None),
        Point::Finished(seq) => Conclusion::Requeue(workflow.and_then(|w| place_after(state, w, seq))),
        Point::InFlight(seq) => {
            let Some(execution) = state.execution(seq) else { return Conclusion::Settled };
            if workflow.and_then(|w| command(w, &execution.step)).is_some_and(|c| c.idempotent) {
                Conclusion::Requeue(Some(RequeuedAt {
                    step: execution.step.clone(),
                    try_no: execution.try_no,
                    key: Some(execution.key.clone()),
                }))
            } else {
                Conclusion::Ambiguous(seq, execution.step.clone())
            }
        }
    }
}

fn command<'w>(workflow: &'w Workflow, step: &StepId) -> Option<&'w CommandStep> {
    match &workflow.step(workflow.index_of(step.as_str())?).kind {
        StepKind::Command(command) => Some(command),
        StepKind::Gate(_) => None,
    }
}

fn place_after(state: &RunState, workflow: &Workflow, seq: Seq) -> Option<RequeuedAt> {
    match after_execution(state, workflow, seq).ok()? {
        Next::Start(Start { step, try_no, key, .. }) => {
            Some(RequeuedAt { step: workflow.step(step).id.clone(), try_no, key })
        }
        Next::Ask(step) => Some(RequeuedAt { step: workflow.step(step).id.clone(), try_no: 1, key: None }),
        Next::Complete(_) | Next::Fail(..) => None,
    }
}
