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
//! A tick may be killed between an admission and the move of the cursor. So a plan takes the nominal
//! times that have a run already: they keep it, and no policy applies to them. Because receipts are
//! in order, a caller who makes them durable in order loses and repeats none.
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

const SECOND: TimeDelta = TimeDelta::seconds(1);

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

/// The runs of a schedule that a plan for it has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Present<'a> {
    /// Its unfinished runs, oldest first; the first that matters is named in receipts.
    pub unfinished: &'a [Unfinished],
    /// The nominal times after the cursor that have a run already, finished or not, in any order.
    pub admitted: &'a [DateTime<Utc>],
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

impl MissedReason {
    /// The word for it in history and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CatchUp => "catchup",
            Self::Deadline => "deadline",
            Self::Paused => "paused",
            Self::Replaced => "replaced",
            Self::DstGap => "dst_gap",
        }
    }
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
    /// This one has become a run before; there is nothing to do.
    AlreadyAdmitted(DateTime<Utc>),
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
            Receipt::AlreadyAdmitted(_) | Receipt::Skipped { .. } | Receipt::Missed { .. } => None,
        })
    }
}

/// Decides about everything in the window.
pub fn plan(window: &Window<'_>, schedule: &ScheduleId, policies: &Policies, present: Present<'_>) -> Plan {
    let fresh_after = fresh_after(window, policies);
    let limit = match policies.catch_up {
        CatchUp::Latest => 1,
        CatchUp::All { limit } => limit.min(MAX_ADMITTED),
        CatchUp::None => MAX_ADMITTED,
    };
    let candidates = window.newest(limit, fresh_after);
    let superseded_until = candidates.first().map_or(window.through(), |first| *first - SECOND);

    let mut ledger = Ledger::new(window, present.admitted);
    ledger.miss(window.cursor(), fresh_after, MissedReason::Deadline);
    ledger.miss(fresh_after, superseded_until, MissedReason::CatchUp);
    let mut blocker = first_blocker(policies.overlap, present.unfinished);
    for at in candidates {
        if ledger.pass_marks(at) == Passed::Occurrence {
            continue;
        }
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

/// Misses everything in the window for one reason, except what has a run (`admitted`, in any order)
/// and what a gap swallowed: for schedules that are paused or replaced. The window should be
/// [`Trigger::nominal_window`], for which a delay that is not over yet does not matter.
///
/// [`Trigger::nominal_window`]: super::trigger::Trigger::nominal_window
pub fn plan_missed(window: &Window<'_>, reason: MissedReason, admitted: &[DateTime<Utc>]) -> Plan {
    let mut ledger = Ledger::new(window, admitted);
    ledger.miss(window.cursor(), window.through(), reason);
    ledger.close()
}

/// The run that makes the next occurrence `skipped`, if any does.
fn first_blocker(overlap: Overlap, unfinished: &[Unfinished]) -> Option<RunId> {
    let blocks = |run: &&Unfinished| match overlap {
        Overlap::Skip => true,
        Overlap::QueueOne => run.standing == Standing::Waiting,
        Overlap::Queue | Overlap::Allow => false,
    };
    unfinished.iter().find(blocks).map(|unfinished| unfinished.run.clone())
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

impl Receipt {
    /// The first nominal time that it is about.
    pub fn first(&self) -> DateTime<Utc> {
        match self {
            Self::Admitted(at) | Self::AlreadyAdmitted(at) => *at,
            Self::Skipped { times, .. } | Self::Missed { times, .. } => times.first,
        }
    }
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

/// Receipts in order of time. Marks are the nominal times whose receipt no policy decides.
struct Ledger<'a> {
    window: &'a Window<'a>,
    marks: Peekable<vec::IntoIter<Receipt>>,
    receipts: Vec<Receipt>,
}

/// Whether a mark took the place of an occurrence.
#[derive(PartialEq, Eq)]
enum Passed {
    Nothing,
    Occurrence,
}

impl<'a> Ledger<'a> {
    fn new(window: &'a Window<'a>, admitted: &[DateTime<Utc>]) -> Self {
        let inside = |at: &DateTime<Utc>| window.cursor() < *at && *at <= window.through();
        let mut marks: Vec<_> =
            admitted.iter().copied().filter(inside).map(Receipt::AlreadyAdmitted).collect();
        let gaps = window.skipped_by_gap().into_iter().filter(|gap| !admitted.contains(gap));
        let reason = MissedReason::DstGap;
        marks.extend(gaps.map(|gap| Receipt::Missed { times: Stretch::of(gap), reason }));
        marks.sort_by_key(Receipt::first);
        marks.dedup();
        Self { window, marks: marks.into_iter().peekable(), receipts: Vec::new() }
    }

    /// Misses the occurrences after `after`, up to and with `through`, around the marks.
    fn miss(&mut self, mut after: DateTime<Utc>, through: DateTime<Utc>, reason: MissedReason) {
        while let Some(mark) = self.marks.next_if(|mark| mark.first() <= through) {
            let at = mark.first();
            self.miss_stretch(after, at - SECOND, reason);
            self.push(mark);
            after = after.max(at);
        }
        self.miss_stretch(after, through, reason);
    }

    /// Takes over the marks up to and with `until`.
    fn pass_marks(&mut self, until: DateTime<Utc>) -> Passed {
        let mut passed = Passed::Nothing;
        while let Some(mark) = self.marks.next_if(|mark| mark.first() <= until) {
            if mark == Receipt::AlreadyAdmitted(until) {
                passed = Passed::Occurrence;
            }
            self.push(mark);
        }
        passed
    }

    fn miss_stretch(&mut self, after: DateTime<Utc>, through: DateTime<Utc>, reason: MissedReason) {
        let first = self.window.first_in(after, through);
        let last = self.window.last_in(after, through);
        if let (Some(first), Some(last)) = (first, last) {
            let times = Stretch { first, last, count: self.window.count_in(after, through) };
            self.push(Receipt::Missed { times, reason });
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
        self.pass_marks(self.window.through());
        Plan { receipts: self.receipts, cursor: self.window.through() }
    }
}

#[cfg(test)]
mod tests;
