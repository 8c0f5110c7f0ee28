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
    let targets: Vec<Target> = workflow.step(start).routes().map(|(_, target)| target).collect();
    obstacles(state, workflow, &targets)
}

/// What keeps the steps that can follow `targets` from being started: programs and folders that are gone.
/// What an earlier step may make (a program or folder below the workflow's own) is not held against a
/// later one.
pub fn obstacles(state: &RunState, workflow: &Workflow, targets: &[Target]) -> Vec<String> {
    let (first, later) = reachable(workflow, targets);
    let check = |index: &StepIndex| {
        let step = workflow.step(*index);
        match &step.kind {
            StepKind::Command(command) => Some((step, command)),
            StepKind::Gate(_) => None,
        }
    };
    let now = first.iter().filter_map(check);
    let lasting = later.iter().filter_map(check).filter(|(_, command)| !may_be_made(command));
    now.chain(lasting).filter_map(|(step, command)| check_command(state, workflow, step, command)).collect()
}

/// Whether the program or folder of a command may be made by another step.
fn may_be_made(command: &CommandStep) -> bool {
    let is_relative = |path: &str| !path.starts_with('/');
    command.cwd.as_deref().is_some_and(is_relative)
        || matches!(&command.run, CommandLine::Argv(argv)
            if argv.first().is_some_and(|program| program.contains('/') && is_relative(program)))
}

/// The steps that can come first behind `targets`, gates left aside, and those that only come later; both
/// in the order of the file.
fn reachable(workflow: &Workflow, targets: &[Target]) -> (Vec<StepIndex>, Vec<StepIndex>) {
    let first = closure(workflow, targets, |step| matches!(step.kind, StepKind::Gate(_)));
    let all = closure(workflow, targets, |_| true);
    let later = all.into_iter().filter(|index| !first.contains(index)).collect();
    (first, later)
}

/// The steps that can be reached from `targets`, going on behind those that `passes` lets through.
fn closure(workflow: &Workflow, targets: &[Target], passes: impl Fn(&Step) -> bool) -> Vec<StepIndex> {
    let mut seen = vec![false; workflow.steps().len()];
    let mut found = Vec::new();
    let mut waiting = targets.to_vec();
    while let Some(target) = waiting.pop() {
        let Target::Step(index) = target else { continue };
        if std::mem::replace(&mut seen[index.get()], true) {
            continue;
        }
        found.push(index);
        if passes(workflow.step(index)) {
            waiting.extend(workflow.step(index).routes().map(|(_, target)| target));
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
