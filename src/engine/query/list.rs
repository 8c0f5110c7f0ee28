//! Runs, newest first: by the time in their id (a chosen id: of its admission), then by their id.

use chrono::{DateTime, Utc};

use super::{
    page::{Damage, Key, Listing, Page, PageRequest},
    run::{Liveness, LoadedRun, Reader},
    view::RunItem,
    walk::{Finished, Scope, Walk},
};
use crate::{domain::ids::ScheduleId, engine::EngineError, state::run::Status, store::Store};

/// How a run stands, more precisely than its status says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stand {
    /// Queued, and no attempt of it has begun.
    Queued,
    /// Executing, and some process holds its slot.
    Running,
    /// Executing, and nobody holds its slot.
    Abandoned,
    /// Waiting at a gate, and no attempt to answer it has begun.
    Interrupted,
    /// Failed, and a person still has to say what happened.
    Ambiguous,
}

/// Which runs are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Only with this status.
    pub status: Option<Status>,
    /// Only those that stand like this.
    pub stand: Option<Stand>,
    /// Only of this schedule.
    pub schedule: Option<ScheduleId>,
    /// Only from this time on, by the key of the order.
    pub since: Option<DateTime<Utc>>,
}

impl Stand {
    fn fits(self, run: &LoadedRun) -> bool {
        let is_idle = run.liveness == Liveness::Idle;
        match self {
            Self::Queued => is_idle && run.state.status() == Status::Queued,
            Self::Running => run.liveness == Liveness::Live,
            Self::Abandoned => run.liveness == Liveness::Abandoned,
            Self::Interrupted => is_idle && run.state.status() == Status::Interrupted,
            Self::Ambiguous => run.state.is_ambiguous(),
        }
    }
}

impl RunFilter {
    /// Whether a run's journal has to be read to know whether it is wanted.
    fn needs_journal(&self) -> bool {
        self.status.is_some() || self.stand.is_some() || self.schedule.is_some()
    }

    fn admits(&self, run: &LoadedRun) -> bool {
        self.status.is_none_or(|status| run.state.status() == status)
            && self.stand.is_none_or(|stand| stand.fits(run))
            && (self.schedule.is_none() || self.schedule == run.state.admitted.schedule)
    }

    fn scope(&self, from: Option<&Key>) -> Scope {
        let finished = match self.status {
            // Whatever stands in one of these ways is in `active`.
            _ if self.stand.is_some() => Finished::Excluded,
            Some(Status::Queued | Status::Interrupted) => Finished::Excluded,
            Some(Status::Completed | Status::Failed | Status::Cancelled) | None => Finished::Included,
        };
        let name = self.schedule.as_ref().map(ToString::to_string);
        Scope { name, from: from.cloned(), since: self.since, finished }
    }
}

/// A page of the runs that are wanted.
///
/// # Errors
/// When the cursor is none, or the folders cannot be listed.
pub fn list_runs(
    store: &Store,
    now: DateTime<Utc>,
    filter: &RunFilter,
    request: &PageRequest,
) -> Result<Page<RunItem>, EngineError> {
    let from = Key::of_request(request, Listing::Runs)?;
    let limit = request.limit.max(1);
    let reader = Reader::new(store, now);
    let mut walk = Walk::new(store, filter.scope(from.as_ref()))?;
    let mut page = Page { items: Vec::new(), next_cursor: None, corrupt: Vec::new() };
    let mut last = None;
    for found in walk.by_ref() {
        if from.as_ref() == Some(&found.key) {
            continue;
        }
        let is_full = page.items.len() == limit;
        // Whether there is anything behind a full page is seen without reading it where that is possible.
        if is_full && !filter.needs_journal() {
            page.next_cursor = last;
            break;
        }
        match reader.load(&found.run) {
            Ok(Some(run)) if filter.admits(&run) => {
                if is_full {
                    page.next_cursor = last;
                    break;
                }
                page.items.push(RunItem::of(&run));
                last = Some(found.key.to_cursor(Listing::Runs));
            }
            Ok(_) => {}
            Err(_) if is_full => {} // the next page tells
            Err(error) => page.corrupt.push(Damage::of(store, format!("run {}", found.run), error)),
        }
    }
    page.corrupt.append(&mut walk.damage);
    Ok(page)
}
