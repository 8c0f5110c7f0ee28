//! A schedule: a pinned workflow, when it is due, and what its times have become so far.
//!
//! Everything nominal at or before the cursor has its receipt. The cursor never runs ahead of the
//! admission of a run. Deliberately not here: how it is stored, and what is due ([`super::trigger`]).

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::{
    ids::{Digest, ScheduleId},
    policy::{MissedReason, Policies, Stretch},
    trigger::Trigger,
};

/// A schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// Its id.
    pub id: ScheduleId,
    /// What it runs, when, and how.
    pub definition: Definition,
    /// Everything nominal at or before this instant has its receipt.
    pub cursor: DateTime<Utc>,
    /// How many bytes of receipts the cursor already stands for; what is behind them was written by a
    /// command that did not come to advance the cursor.
    pub receipts_len: u64,
    /// Nominal times after the cursor that have become runs, ascending: a tick ran while the clock was
    /// wrong, and the cursor was set back since. They are never admitted again, nor told to be missed.
    pub ahead: Vec<DateTime<Utc>>,
    /// Since when it is paused, if it is.
    pub paused: Option<Change>,
    /// When it was removed; what is left then guards its past.
    pub removed: Option<Change>,
    /// When it was first scheduled.
    pub created_at: DateTime<Utc>,
    /// When its definition was last replaced.
    pub updated_at: DateTime<Utc>,
}

/// What a person defined.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// The pinned workflow.
    pub workflow: Digest,
    /// The name that the workflow gives itself.
    pub name: String,
    /// When it is due.
    pub trigger: Trigger,
    /// How its runs get on with each other and with lost time.
    pub policies: Policies,
    /// The input of its runs.
    pub input: Value,
    /// The pinned environment.
    pub env: BTreeMap<String, String>,
    /// The folder of the workflow file.
    pub cwd: String,
}

/// Who changed something, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// When.
    pub at: DateTime<Utc>,
    /// Who.
    pub by: String,
}

/// The receipt of occurrences that never became runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unrun {
    /// When it was written.
    pub at: DateTime<Utc>,
    /// Which nominal times.
    pub times: Stretch,
    /// Why.
    pub why: WhyUnrun,
}

/// Why occurrences never became runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhyUnrun {
    /// A run was in the way.
    Skipped {
        /// Which.
        by: super::ids::RunId,
    },
    /// They passed.
    Missed(MissedReason),
}

impl WhyUnrun {
    /// The word for the kind of receipt.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Skipped { .. } => "skipped",
            Self::Missed(_) => "missed",
        }
    }
}

impl Schedule {
    /// Moves the cursor to `to`, never back.
    pub fn advance(&mut self, to: DateTime<Utc>) {
        self.cursor = self.cursor.max(to);
        self.ahead.retain(|at| *at > self.cursor);
    }

    /// Whether the cursor stands for times to come, because a tick ran while the clock was wrong. That a
    /// schedule has not started yet is no such thing.
    pub fn is_ahead_of(&self, now: DateTime<Utc>) -> bool {
        self.cursor > now.max(self.definition.trigger.initial_cursor())
    }

    /// Whether a tick looks at it.
    pub fn is_active(&self) -> bool {
        self.paused.is_none() && self.removed.is_none()
    }
}
