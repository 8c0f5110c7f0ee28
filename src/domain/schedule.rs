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
    /// Whether a tick looks at it.
    pub fn is_active(&self) -> bool {
        self.paused.is_none() && self.removed.is_none()
    }
}
