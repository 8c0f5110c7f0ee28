//! Overlap and catch-up: what came due, and what is in the way, become receipts.
//!
//! A [`Plan`] gives every nominal time of a [`Window`] exactly one receipt, in order: it is admitted,
//! skipped because a run was in the way, or missed for a reason. Neighbours with the same fate share
//! one receipt, so a plan stays small however long the schedule slept. Three questions are asked, in
//! this order:
//!
//! 1. Is it too old? Age counts from the latest moment at which the occurrence could have come due
//!    (nominal time + jitter), so that a delay of our own making is never held against it. Catch-up
//!    `none` has a deadline always (60 s by default), `latest` and `all` only if one is given.
//! 2. Is it among the newest that catch-up lets through: one, the limit, or all that are fresh?
//! 3. Is a run of the same schedule in the way? Runs admitted earlier in the same plan count as
//!    unfinished and waiting.
//!
//! Deliberately not here: writing receipts, finding unfinished runs, and dispatching (`queue` admits
//! everything; that the runs go one at a time is the dispatcher's work).

use std::iter::Peekable;
use std::time::Duration;
use std::vec;

use chrono::{DateTime, TimeDelta, Utc};

use super::ids::{RunId, ScheduleId};
use super::trigger::Window;

/// How many occurrences catch-up `all` admits at most, unless told otherwise.
pub const DEFAULT_CATCH_UP_LIMIT: u64 = 100;
/// How old an occurrence may be with catch-up `none`, unless told otherwise.
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(60);
/// No plan admits more than this, whatever the limit or the deadline; what is older is missed by
/// `catchup`. It keeps a generous deadline on a schedule of seconds from filling memory and disk.
pub const MAX_ADMITTED: u64 = 10_000;

/// What an unfinished run of the same schedule does to a new occurrence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overlap {
    /// The occurrence is skipped; interrupted runs count as unfinished.
    #[default]
    Skip,
    /// It is admitted and waits its turn.
    Queue,
    /// It is admitted if no other run waits; a newer one is skipped. The run that executes, or that
    /// is interrupted, does not wait.
    QueueOne,
    /// It is admitted and may execute beside the others.
    Allow,
}

/// What becomes of the occurrences that came due since the last tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CatchUp {
    /// Only the newest goes on.
    #[default]
    Latest,
    /// The newest `limit` go on.
    All {
        /// At most so many, and never more than [`MAX_ADMITTED`].
        limit: u64,
    },
    /// Those that are at most as old as the deadline go on.
    None,
}

/// The policies of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Policies {
    /// About runs in the way.
    pub overlap: Overlap,
    /// About time that was slept through.
    pub catch_up: CatchUp,
    /// The greatest age of an occurrence that may be admitted, inclusive. Without it there is none,
    /// save that catch-up `none` takes [`DEFAULT_DEADLINE`].
    pub deadline: Option<Duration>,
}

/// An unfinished run of the schedule that is planned for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// Which run.
    pub run: RunId,
    /// Whether it waits.
    pub standing: Standing,
}

/// How far an unfinished run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Queued, and not executing.
    Waiting,
    /// Executing or interrupted.
    Begun,
}

/// Why an occurrence never became a run, other than by a run in its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MissedReason {
    /// Newer ones took its place.
    CatchUp,
    /// It was too old.
    Deadline,
    /// The schedule was paused.
    Paused,
    /// The schedule was replaced before it was admitted.
    Replaced,
    /// Its local time did not exist, and `--dst-gap skip` was asked for.
    DstGap,
}

/// Neighbouring nominal times: all occurrences from `first` to `last`, `count` of them, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// The first nominal time.
    pub first: DateTime<Utc>,
    /// The last nominal time.
    pub last: DateTime<Utc>,
    /// How many there are.
    pub count: u64,
}

/// What became of nominal times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Receipt {
    /// This one becomes a run.
    Admitted(DateTime<Utc>),
    /// A run was in the way.
    Skipped {
        /// Which times.
        times: Stretch,
        /// The run that was in the way.
        by: RunId,
    },
    /// They passed.
    Missed {
        /// Which times.
        times: Stretch,
        /// Why.
        reason: MissedReason,
    },
}

/// The receipts of a window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// In order of nominal time; together they hold every nominal time of the window once.
    pub receipts: Vec<Receipt>,
    /// The cursor once all receipts are durable.
    pub cursor: DateTime<Utc>,
}

impl Plan {
    /// The nominal times that become runs, in order.
    pub fn admitted(&self) -> impl Iterator<Item = DateTime<Utc>> + '_ {
        self.receipts.iter().filter_map(|receipt| match receipt {
            Receipt::Admitted(at) => Some(*at),
            Receipt::Skipped { .. } | Receipt::Missed { .. } => None,
        })
    }
}

/// Decides about everything in the window. `in_the_way` are the unfinished runs of the schedule,
/// oldest first; the first that matters is named in the receipts.
pub fn plan(
    window: &Window<'_>,
    schedule: &ScheduleId,
    policies: &Policies,
    in_the_way: &[Unfinished],
) -> Plan {
    let fresh_after = fresh_after(window, policies);
    let limit = match policies.catch_up {
        CatchUp::Latest => 1,
        CatchUp::All { limit } => limit.min(MAX_ADMITTED),
        CatchUp::None => MAX_ADMITTED,
    };
    let candidates = window.newest(limit, fresh_after);
    let superseded_until =
        candidates.first().map_or(window.through(), |first| *first - TimeDelta::seconds(1));

    let mut ledger = Ledger::new(window);
    ledger.miss(window.cursor(), fresh_after, MissedReason::Deadline);
    ledger.miss(fresh_after, superseded_until, MissedReason::CatchUp);
    let mut blocker = first_blocker(policies.overlap, in_the_way);
    for at in candidates {
        ledger.miss_gaps(at);
        if let Some(by) = &blocker {
            ledger.push(Receipt::Skipped { times: Stretch::of(at), by: by.clone() });
            continue;
        }
        ledger.push(Receipt::Admitted(at));
        if matches!(policies.overlap, Overlap::Skip | Overlap::QueueOne) {
            blocker = Some(RunId::for_occurrence(schedule, at));
        }
    }
    ledger.close()
}

/// Misses everything in the window for one reason, except what a gap swallowed: for schedules that
/// are paused or replaced. The window should be [`Trigger::nominal_window`], for which a delay that
/// is not over yet does not matter.
///
/// [`Trigger::nominal_window`]: super::trigger::Trigger::nominal_window
pub fn plan_missed(window: &Window<'_>, reason: MissedReason) -> Plan {
    let mut ledger = Ledger::new(window);
    ledger.miss(window.cursor(), window.through(), reason);
    ledger.close()
}

/// The run that makes the next occurrence `skipped`, if any does.
fn first_blocker(overlap: Overlap, in_the_way: &[Unfinished]) -> Option<RunId> {
    let blocks = |run: &&Unfinished| match overlap {
        Overlap::Skip => true,
        Overlap::QueueOne => run.standing == Standing::Waiting,
        Overlap::Queue | Overlap::Allow => false,
    };
    in_the_way.iter().find(blocks).map(|unfinished| unfinished.run.clone())
}

/// Nominal times at or before this instant are too old; it lies inside the window.
fn fresh_after(window: &Window<'_>, policies: &Policies) -> DateTime<Utc> {
    let deadline = match (policies.deadline, policies.catch_up) {
        (Some(deadline), _) => deadline,
        (None, CatchUp::None) => DEFAULT_DEADLINE,
        (None, CatchUp::Latest | CatchUp::All { .. }) => return window.cursor(),
    };
    let oldest = deadline
        .checked_add(window.jitter())
        .and_then(|age| TimeDelta::from_std(age).ok())
        .and_then(|age| window.now().checked_sub_signed(age))
        .and_then(|oldest| oldest.checked_sub_signed(TimeDelta::nanoseconds(1)));
    oldest.map_or(window.cursor(), |oldest| oldest.clamp(window.cursor(), window.through()))
}

impl Stretch {
    fn of(at: DateTime<Utc>) -> Self {
        Self { first: at, last: at, count: 1 }
    }

    fn join(&mut self, next: Self) {
        self.last = next.last;
        self.count += next.count;
    }
}

/// Receipts in order of time, with the gaps put where they belong.
struct Ledger<'a> {
    window: &'a Window<'a>,
    gaps: Peekable<vec::IntoIter<DateTime<Utc>>>,
    receipts: Vec<Receipt>,
}

impl<'a> Ledger<'a> {
    fn new(window: &'a Window<'a>) -> Self {
        let gaps = window.skipped_by_gap().into_iter().peekable();
        Self { window, gaps, receipts: Vec::new() }
    }

    /// Misses the occurrences after `after`, up to and with `through`.
    fn miss(&mut self, mut after: DateTime<Utc>, through: DateTime<Utc>, reason: MissedReason) {
        while let Some(gap) = self.gaps.next_if(|gap| *gap <= through) {
            self.miss_stretch(after, gap, reason);
            self.push(Receipt::Missed { times: Stretch::of(gap), reason: MissedReason::DstGap });
            after = after.max(gap);
        }
        self.miss_stretch(after, through, reason);
    }

    fn miss_stretch(&mut self, after: DateTime<Utc>, through: DateTime<Utc>, reason: MissedReason) {
        let first = self.window.first_in(after, through);
        let last = self.window.last_in(after, through);
        if let (Some(first), Some(last)) = (first, last) {
            let times = Stretch { first, last, count: self.window.count_in(after, through) };
            self.push(Receipt::Missed { times, reason });
        }
    }

    /// Misses the times that were swallowed before `until`.
    fn miss_gaps(&mut self, until: DateTime<Utc>) {
        while let Some(gap) = self.gaps.next_if(|gap| *gap <= until) {
            self.push(Receipt::Missed { times: Stretch::of(gap), reason: MissedReason::DstGap });
        }
    }

    /// Adds a receipt, or widens the last one if it says the same.
    fn push(&mut self, receipt: Receipt) {
        match (self.receipts.last_mut(), &receipt) {
            (Some(Receipt::Missed { times, reason }), Receipt::Missed { times: next, reason: same })
                if reason == same =>
            {
                times.join(*next);
            }
            (Some(Receipt::Skipped { times, by }), Receipt::Skipped { times: next, by: same })
                if by == same =>
            {
                times.join(*next);
            }
            _ => self.receipts.push(receipt),
        }
    }

    fn close(mut self) -> Plan {
        self.miss_gaps(self.window.through());
        Plan { receipts: self.receipts, cursor: self.window.through() }
    }
}

#[cfg(test)]
mod tests;
