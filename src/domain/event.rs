//! What can happen to a run, in the past tense.
//!
//! These are facts: the journal of a run is a list of them and nothing else. Which order is legal is
//! decided by [`crate::state::run::RunState::apply`]; how they look on disk by the store.

use std::{collections::BTreeMap, fmt};

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::{
    ids::{Digest, RunId, ScheduleId, SlotIndex, StepId},
    workflow::Outcome,
};

/// The number of an attempt inside its run, from 1.
pub type AttemptNo = u32;
/// The number of a step execution inside its run, from 1.
pub type Seq = u32;

/// A fact about one run.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The run exists and is queued.
    Admitted(Box<Admitted>),
    /// An attempt began: the run is executing from here on.
    AttemptStarted(Box<AttemptStarted>),
    /// A step may have taken effect from here on.
    StepStarted {
        /// The attempt.
        attempt: AttemptNo,
        /// The number of this execution.
        seq: Seq,
        /// The step.
        step: StepId,
        /// 1, 2, … inside `retry`.
        try_no: u32,
        /// The idempotency key.
        key: String,
    },
    /// The outcome of a step execution is known.
    StepFinished(Box<StepFinished>),
    /// The run waits for a person or a script.
    Interrupted(Box<Interrupted>),
    /// The run reached its end.
    Completed {
        /// The attempt.
        attempt: AttemptNo,
        /// The outcome of the step that ended the run.
        outcome: Outcome,
    },
    /// The run failed, or nobody can know how its attempt ended.
    Failed {
        /// The attempt.
        attempt: AttemptNo,
        /// Why, as a word.
        reason: Reason,
        /// Why, as a sentence.
        error: String,
        /// Who concluded it, where it was not the execution itself.
        by: Option<String>,
    },
    /// A person sent a failed run back.
    Retried {
        /// The step it goes on from.
        from: StepId,
        /// What the person said.
        note: Option<String>,
        /// Who.
        by: String,
    },
    /// An execution was stopped and left for recovery to decide.
    Fenced {
        /// The attempt.
        attempt: AttemptNo,
        /// The signal's name.
        signal: String,
    },
    /// Recovery found that nothing unknown is in flight.
    Requeued {
        /// The attempt that is withdrawn.
        attempt: AttemptNo,
        /// Where the run goes on; none: where it stood.
        at: Option<RequeuedAt>,
    },
    /// The run was given up while no attempt was in flight.
    Cancelled {
        /// Who.
        by: String,
        /// What they said.
        note: Option<String>,
    },
    /// A person closed the ambiguity.
    Resolved {
        /// What they found.
        resolution: Resolution,
        /// What they said.
        note: Option<String>,
        /// Who.
        by: String,
    },
}

/// The body of [`Event::Admitted`].
#[derive(Debug, Clone, PartialEq)]
pub struct Admitted {
    /// The run.
    pub run: RunId,
    /// The schedule, where the run came from one.
    pub schedule: Option<ScheduleId>,
    /// The nominal time; of a manual start, the second of the start.
    pub occurrence: DateTime<Utc>,
    /// Whether a person or script started it rather than its trigger.
    pub manual: bool,
    /// The name that the workflow gave itself.
    pub name: String,
    /// The pinned workflow.
    pub workflow: Digest,
    /// The input, any JSON value.
    pub input: Value,
    /// The pinned environment.
    pub env: BTreeMap<String, String>,
    /// The folder that relative step folders start from.
    pub cwd: String,
}

/// The body of [`Event::AttemptStarted`].
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptStarted {
    /// The number of the attempt.
    pub attempt: AttemptNo,
    /// Why it began.
    pub kind: AttemptKind,
    /// The slot; none where a gate expired into an end and nothing was executed.
    pub slot: Option<SlotIndex>,
    /// The process that drives it.
    pub pid: u32,
    /// The host of that process.
    pub host: String,
    /// Who resumed.
    pub by: Option<String>,
    /// The answer to the gate, of a resume.
    pub outcome: Option<Outcome>,
    /// The payload of the answer.
    pub payload: Option<Value>,
    /// What the person said.
    pub note: Option<String>,
}

/// The body of [`Event::StepFinished`].
#[derive(Debug, Clone, PartialEq)]
pub struct StepFinished {
    /// The attempt.
    pub attempt: AttemptNo,
    /// The number of the execution.
    pub seq: Seq,
    /// The step.
    pub step: StepId,
    /// Its outcome.
    pub outcome: Outcome,
    /// How the process ended.
    pub ending: StepEnding,
    /// The JSON value that the step wrote.
    pub output: Option<Value>,
    /// How long it took, in milliseconds of the monotonic clock.
    pub ms: u64,
}

/// How the process of a step ended, as far as it was observed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StepEnding {
    /// The exit status.
    pub exit: Option<u8>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Anything to say besides.
    pub error: Option<String>,
}

/// The body of [`Event::Interrupted`].
#[derive(Debug, Clone, PartialEq)]
pub struct Interrupted {
    /// The attempt.
    pub attempt: AttemptNo,
    /// The gate.
    pub step: StepId,
    /// What is asked.
    pub question: String,
    /// The possible answers, never empty.
    pub outcomes: Vec<Outcome>,
    /// The JSON Schema of the payload.
    pub schema: Option<Value>,
    /// When the gate answers itself with `expired`.
    pub expires_at: Option<DateTime<Utc>>,
}

/// Where a requeued run goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequeuedAt {
    /// The step.
    pub step: StepId,
    /// Its next try.
    pub try_no: u32,
    /// The idempotency key to use again, of an idempotent step.
    pub key: Option<String>,
}

/// Why an attempt began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptKind {
    /// The run was queued.
    Dispatch,
    /// A gate was answered, or expired.
    Resume,
}

/// Why a run failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The outcome of a started step is unknown.
    Ambiguous,
    /// A step ended with `error` and nothing routes that.
    Error,
    /// A step or the attempt took too long.
    Timeout,
    /// A gate expired and nothing routes that.
    Expired,
    /// An outcome was routed to `fail`.
    Fail,
    /// The step budget is used up.
    MaxSteps,
}

/// What a person found out about an ambiguous run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// It did what it should.
    Completed,
    /// It did not.
    Failed,
}

macro_rules! words {
    ($type:ty { $($variant:ident = $word:literal),+ $(,)? }) => {
        impl $type {
            /// The word in files and JSON.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            /// The value that `word` names.
            pub fn from_word(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

words!(AttemptKind { Dispatch = "dispatch", Resume = "resume" });
words!(Resolution { Completed = "completed", Failed = "failed" });
words!(Reason {
    Ambiguous = "ambiguous",
    Error = "error",
    Timeout = "timeout",
    Expired = "expired",
    Fail = "fail",
    MaxSteps = "max_steps",
});
