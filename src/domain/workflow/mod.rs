//! Workflows: the text of a file in, a checked [`Workflow`] out.
//!
//! Invariants: a [`Workflow`] has at least one step, every step can be reached, and every outcome that
//! a step can have leads somewhere, so that routing never fails at run time. No text, however broken,
//! makes [`Workflow::parse`] panic. Deliberately not here: file names, reading files, whether a program
//! or folder exists, and printing.
//!
//! Reading order: this file (the checked types), `parse.rs` (the file as a whole), `step.rs` (one
//! step), `routes.rs` (where outcomes lead), `table.rs` (typed reads of TOML), `report.rs` (errors).

mod parse;
mod report;
mod routes;
mod step;
mod table;
#[cfg(test)]
mod tests;

use std::{
    borrow::{Borrow, Cow},
    collections::{BTreeMap, HashMap},
    fmt,
    str::FromStr,
    time::Duration,
};

use super::ids::{InvalidId, ScheduleId, StepId};

pub use report::WorkflowError;

/// The largest workflow file, in bytes.
pub const MAX_FILE_SIZE: usize = 1024 * 1024;

/// A checked workflow.
#[derive(Debug, Clone, PartialEq)]
pub struct Workflow {
    /// Its name; the id of a schedule that is not given another one.
    pub name: ScheduleId,
    /// What it does, for people.
    pub description: Option<String>,
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
    /// How many step executions one run may have.
    pub max_steps: u32,
    /// What is added to the pinned environment of every step.
    pub env: BTreeMap<String, String>,
    /// What is run when a run stops.
    pub notify: Notify,
    steps: Vec<Step>,
    index: HashMap<String, StepIndex>,
}

/// The commands that tell people about a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notify {
    /// Run when a gate opens.
    pub on_interrupt: Option<CommandLine>,
    /// Run when a run fails.
    pub on_failure: Option<CommandLine>,
    /// Run when a run completes.
    pub on_success: Option<CommandLine>,
}

/// What is executed. No text of it holds a NUL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandLine {
    /// A script for `/bin/sh -c`, not blank.
    Shell(String),
    /// A program and its arguments; neither the list nor the program is empty.
    Argv(Vec<String>),
}

/// One step, with its routes.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Its name, unique in the workflow.
    pub id: StepId,
    /// What it does.
    pub kind: StepKind,
    /// Where each outcome that it can have leads, defaults included.
    routes: BTreeMap<Outcome, Target>,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq)]
pub enum StepKind {
    /// It executes something.
    Command(CommandStep),
    /// It stops the run until somebody decides.
    Gate(GateStep),
}

/// A step that executes something.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandStep {
    /// What it executes.
    pub run: CommandLine,
    /// The working folder; the folder of the workflow file where it is not given.
    pub cwd: Option<String>,
    /// What is added to the environment of the workflow.
    pub env: BTreeMap<String, String>,
    /// Names that are taken from the environment of the executing process.
    pub pass_env: Vec<String>,
    /// How long one try may take.
    pub timeout: Option<Duration>,
    /// What happens after a known failure.
    pub retry: Retry,
    /// Outcomes of exit statuses other than 0.
    pub exit: BTreeMap<u8, Outcome>,
    /// Whether it may be started again after an unknown outcome.
    pub idempotent: bool,
}

/// When a step is tried again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Retry {
    /// How many times after the first try; 0 means never.
    pub max: u32,
    /// The wait before the second try.
    pub delay: Duration,
    /// What each further wait is multiplied with; finite, at least 1.
    pub backoff: f64,
    /// The longest wait; never shorter than `delay`.
    pub max_delay: Duration,
}

/// A step that stops the run until somebody decides.
#[derive(Debug, Clone, PartialEq)]
pub struct GateStep {
    /// What is asked.
    pub question: String,
    /// What may be answered; not empty, no duplicates.
    pub outcomes: Vec<Outcome>,
    /// The JSON Schema of the payload; every JSON value is fine where there is none.
    pub schema: Option<serde_json::Value>,
    /// How long the question stays open.
    pub expires: Option<Duration>,
}

/// How a step ended, as a name. It follows the grammar of step ids.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Outcome(Cow<'static, str>);

/// Where an outcome leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// To a step.
    Step(StepIndex),
    /// The run is complete.
    End,
    /// The run has failed.
    Fail,
}

/// The place of a step in its workflow. Only the workflow that gave it can use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepIndex(usize);

impl Workflow {
    /// Reads the text of a workflow file. The errors are sorted by position; a text that is not TOML
    /// has one error only.
    pub fn parse(text: &str) -> Result<Self, Vec<WorkflowError>> {
        parse::parse(text)
    }

    /// The steps, in the order of the file.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The step at `index`, which this workflow gave.
    pub fn step(&self, index: StepIndex) -> &Step {
        &self.steps[index.0]
    }

    /// The place of the step called `id`.
    pub fn index_of(&self, id: &str) -> Option<StepIndex> {
        self.index.get(id).copied()
    }

    /// Where every run begins.
    pub fn first(&self) -> StepIndex {
        StepIndex(0)
    }

    /// Where `outcome` of the step at `from` leads. An outcome that the step cannot have fails the run,
    /// because nobody said where it should lead.
    pub fn route(&self, from: StepIndex, outcome: &Outcome) -> Target {
        self.step(from).routes.get(outcome).copied().unwrap_or(Target::Fail)
    }
}

impl Step {
    /// Where each outcome that the step can have leads, defaults included.
    pub fn routes(&self) -> impl Iterator<Item = (&Outcome, Target)> {
        self.routes.iter().map(|(outcome, target)| (outcome, *target))
    }
}

impl CommandStep {
    /// The outcome of an exit status.
    pub fn exit_outcome(&self, code: i32) -> Outcome {
        if code == 0 {
            return Outcome::OK;
        }
        u8::try_from(code).ok().and_then(|code| self.exit.get(&code).cloned()).unwrap_or(Outcome::ERROR)
    }
}

impl Retry {
    /// No retries.
    pub const NONE: Self = Self { max: 0, delay: Duration::ZERO, backoff: 1.0, max_delay: Duration::ZERO };

    /// How long to wait before the `try_number`-th try, counted from 1. The first waits for nothing.
    pub fn delay_before(&self, try_number: u32) -> Duration {
        let Some(waits_before) = try_number.checked_sub(2) else { return Duration::ZERO };
        let factor = self.backoff.powf(f64::from(waits_before)); // infinite at worst, capped below
        let seconds = self.delay.as_secs_f64() * factor;
        if seconds < self.max_delay.as_secs_f64() {
            Duration::try_from_secs_f64(seconds).unwrap_or(self.max_delay)
        } else if self.delay.is_zero() {
            Duration::ZERO
        } else {
            self.max_delay
        }
    }
}

impl Outcome {
    /// A command ended with status 0.
    pub const OK: Self = Self(Cow::Borrowed("ok"));
    /// A command ended otherwise.
    pub const ERROR: Self = Self(Cow::Borrowed("error"));
    /// A command took too long.
    pub const TIMEOUT: Self = Self(Cow::Borrowed("timeout"));
    /// Nobody answered a gate in time.
    pub const EXPIRED: Self = Self(Cow::Borrowed("expired"));
    /// Somebody answered a gate that declares no outcomes.
    pub const SUBMITTED: Self = Self(Cow::Borrowed("submitted"));

    /// The outcome as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Outcome {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        text.parse::<StepId>().map_err(|invalid| InvalidId { kind: "outcome", ..invalid })?;
        Ok(Self(Cow::Owned(text.to_owned())))
    }
}

impl Borrow<str> for Outcome {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Outcome {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StepIndex {
    /// The number of the step, from 0.
    pub fn get(self) -> usize {
        self.0
    }
}
