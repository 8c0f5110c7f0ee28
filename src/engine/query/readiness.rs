//! Whether an interrupted run could be resumed now, and if not, why.
//!
//! Looks at what can be seen without executing anything: the pinned workflow, and of every command that
//! can follow the gate its folder and its program, found as an attempt would find them. What a shell
//! script calls cannot be seen; neither can a `PATH` that the executing process will pass.

use std::{ffi::OsStr, path::Path, rc::Rc};

use chrono::{DateTime, Utc};

use crate::{
    domain::{
        ids::Digest,
        time,
        workflow::{CommandLine, CommandStep, Step, StepIndex, StepKind, Target, Workflow},
    },
    process::{child::check_folder, resolve_program},
    state::run::{Gate, Phase, RunState},
};

/// Whether an interrupted run could be resumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// It could.
    Ready,
    /// It could not, for these reasons.
    Blocked(Vec<String>),
    /// No gate is open.
    NotApplicable,
}

impl Readiness {
    /// The word in JSON.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Blocked(_) => "blocked",
            Self::NotApplicable => "not_applicable",
        }
    }

    /// Why it could not.
    pub fn diagnostics(&self) -> &[String] {
        match self {
            Self::Blocked(why) => why,
            Self::Ready | Self::NotApplicable => &[],
        }
    }
}

/// Assesses a run; `workflow` gives the pinned workflow or says why it cannot be used.
pub fn assess(
    state: &RunState,
    now: DateTime<Utc>,
    workflow: impl FnOnce(&Digest) -> Rc<Result<Workflow, String>>,
) -> Readiness {
    let gate = match &state.phase {
        Phase::Interrupted(gate) => gate,
        Phase::Queued(_)
        | Phase::Executing(_)
        | Phase::Completed { .. }
        | Phase::Failed(_)
        | Phase::Cancelled { .. } => return Readiness::NotApplicable,
    };
    let mut why = Vec::new();
    if let Some(at) = gate.asked.expires_at.filter(|at| *at <= now) {
        why.push(format!("the gate expired at {}; the next tick settles it", time::format_instant(at)));
    }
    match &*workflow(&state.admitted.workflow) {
        Ok(workflow) => why.extend(check_steps(state, gate, workflow)),
        Err(error) => why.push(error.clone()),
    }
    if why.is_empty() { Readiness::Ready } else { Readiness::Blocked(why) }
}

/// What is wrong with the commands that can follow the gate.
fn check_steps(state: &RunState, gate: &Gate, workflow: &Workflow) -> Vec<String> {
    let Some(start) = workflow.index_of(gate.asked.step.as_str()) else {
        return vec![format!("the pinned workflow has no step {}", gate.asked.step)];
    };
    let mut why = Vec::new();
    for index in reachable(workflow, start) {
        let step = workflow.step(index);
        if let StepKind::Command(command) = &step.kind {
            why.extend(check_command(state, workflow, step, command));
        }
    }
    why
}

/// The steps that can follow `start`, in the order of the file.
fn reachable(workflow: &Workflow, start: StepIndex) -> Vec<StepIndex> {
    let mut seen = vec![false; workflow.steps().len()];
    let mut found = Vec::new();
    let mut waiting = vec![start];
    while let Some(index) = waiting.pop() {
        for (_, target) in workflow.step(index).routes() {
            if let Target::Step(next) = target
                && !std::mem::replace(&mut seen[next.get()], true)
            {
                found.push(next);
                waiting.push(next);
            }
        }
    }
    found.sort_unstable();
    found
}

fn check_command(
    state: &RunState,
    workflow: &Workflow,
    step: &Step,
    command: &CommandStep,
) -> Option<String> {
    let base = Path::new(&state.admitted.cwd);
    let cwd = command.cwd.as_ref().map_or_else(|| base.to_owned(), |cwd| base.join(cwd));
    let program = match &command.run {
        CommandLine::Shell(_) => "/bin/sh",
        CommandLine::Argv(argv) => argv.first().map_or("", String::as_str),
    };
    let path = [&command.env, &workflow.env, &state.admitted.env].into_iter().find_map(|env| env.get("PATH"));
    let path_is_passed = command.pass_env.iter().any(|name| name == "PATH");
    let checked = check_folder(&cwd).and_then(|()| {
        if path_is_passed && !program.contains('/') {
            return Ok(());
        }
        resolve_program(OsStr::new(program), path.map(OsStr::new), &cwd).map(drop)
    });
    checked.err().map(|error| format!("step {}: {error}", step.id))
}
