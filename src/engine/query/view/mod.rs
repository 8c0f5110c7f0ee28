//! What the answers look like as JSON: structs of their own, so that neither files nor types of the program
//! are promised to scripts. Fields are only ever added.
//!
//! Times are RFC 3339 in UTC with milliseconds ([`Time`]). `run.rs` has what shows runs, `store.rs`
//! the rest. Deliberately not here: tables for people.

mod run;
mod store;

use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Serialize, Serializer};

use crate::domain::{ids::Digest, time};

pub(in crate::engine::query) use run::open_gate;
pub use run::{AttemptView, InterruptView, RunItem, RunShow, StepView};
pub use store::{
    AbandonedView, AmbiguousView, CapacityView, FailedView, HistoryItem, PoliciesView, QueuedView,
    ScheduleCounts, ScheduleItem, SlotView, StatusView, UpcomingView, WaitingView,
};

/// An instant that is shown as RFC 3339 in UTC with milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub DateTime<Utc>);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&time::format_instant(self.0))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A workflow's name and digest.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkflowName {
    /// The name that it gave itself.
    pub name: String,
    /// The digest of its text.
    pub digest: String,
}

impl WorkflowName {
    /// The view of a workflow.
    pub fn new(name: &str, digest: &Digest) -> Self {
        Self { name: name.to_owned(), digest: digest.to_string() }
    }
}
