//! Triggers: when a schedule is due.
//!
//! A [`Trigger`] is a rule (cron, a period, one time) in a zone with bounds. It answers what comes
//! next, what came before and how much lies between, in bounded work and constant memory, whatever
//! the distance. Invariants: occurrences are whole seconds of the years 1970 to 9999 UTC, strictly
//! increasing; next, previous and count agree. Deliberately not here: the clock (now is always a
//! parameter), what is admitted ([`policy`](super::policy)), printing, and storage formats.
//!
//! Reading order: `cron.rs` and `calendar.rs` (local matches), `zone.rs` (spans of constant offset),
//! `wall.rs` (both together: gaps and folds), `window.rs` (what came due). `parse.rs`, `every.rs`
//! and `time.rs` read text; `error.rs` says why they did not.

mod calendar;
mod cron;
mod error;
mod every;
mod parse;
mod time;
mod wall;
mod window;
mod zone;

use std::iter::FusedIterator;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

pub use self::cron::CronExpr;
pub use self::error::TriggerError;
pub use self::every::parse_every;
pub use self::time::parse_time;
pub use self::wall::{DstFold, DstGap};
pub use self::window::Window;
pub use self::zone::Zone;

use self::every::Grid;
use self::wall::Wall;

/// 1970-01-01T00:00:00Z, the first second that can be an occurrence.
const FIRST_SECOND: i64 = 0;
/// 9999-12-31T23:59:59Z, the last second that can be an occurrence: ids of runs hold four digits.
const LAST_SECOND: i64 = 253_402_300_799;

/// What makes times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// Matches on the wall clock of the zone.
    Cron(CronExpr),
    /// Elapsed time, aligned to an anchor before or after.
    Every {
        /// Whole seconds, at least one; what is below a second is ignored.
        period: Duration,
        /// One point of the grid, cut to whole seconds.
        anchor: DateTime<Utc>,
    },
    /// Once, cut to whole seconds.
    At(DateTime<Utc>),
}

/// The parts of a [`Trigger`], as somebody defined it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// What makes times.
    pub rule: Rule,
    /// Where cron expressions are read.
    pub zone: Zone,
    /// No occurrence before it; one at exactly this time counts. Without it: 1970.
    pub start: Option<DateTime<Utc>>,
    /// No occurrence after it; one at exactly this time counts. Without it: the end of 9999.
    pub until: Option<DateTime<Utc>>,
    /// At most so many occurrences, counted from `start`, whether or not they were admitted.
    pub count: Option<u64>,
    /// The longest delay of an occurrence; whole seconds, what is below is ignored.
    pub jitter: Duration,
    /// What becomes of local times that do not exist.
    pub dst_gap: DstGap,
    /// What becomes of local times that exist twice.
    pub dst_fold: DstFold,
}

impl Definition {
    /// A rule in UTC, without bounds and jitter, with the default policies.
    pub fn new(rule: Rule) -> Self {
        Self {
            rule,
            zone: Zone::utc(),
            start: None,
            until: None,
            count: None,
            jitter: Duration::ZERO,
            dst_gap: DstGap::default(),
            dst_fold: DstFold::default(),
        }
    }
}

/// A definition with its bounds worked out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trigger {
    definition: Definition,
    /// No occurrence before this second.
    first: i64,
    /// No occurrence after this second; below `first` if there is none at all.
    last: i64,
}

impl Trigger {
    /// Works out the bounds. A definition without any occurrence is accepted, because a stored
    /// schedule must still load; [`Trigger::check`] refuses it.
    ///
    /// An occurrence of `start`'s own second counts only if `start` has no fraction, so that nothing
    /// is due before it; the one time of [`Rule::At`] is exempt, because `--at now` is cut too.
    pub fn new(definition: Definition) -> Self {
        let cut = matches!(definition.rule, Rule::At(_));
        let first = definition
            .start
            .map_or(FIRST_SECOND, |at| at.timestamp() + i64::from(at.timestamp_subsec_nanos() > 0 && !cut));
        let last = definition.until.map_or(LAST_SECOND, |at| at.timestamp());
        let mut trigger = Self { definition, first: first.max(FIRST_SECOND), last: last.min(LAST_SECOND) };
        if let Some(count) = trigger.definition.count {
            trigger.last = trigger.nth(count);
        }
        trigger
    }

    /// The definition it was made from.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Refuses a trigger without a single occurrence, saying what rules all of them out.
    pub fn check(&self) -> Result<(), TriggerError> {
        if self.next_in(FIRST_SECOND, LAST_SECOND).is_some() {
            return Ok(());
        }
        let Definition { rule, start, until, count, .. } = &self.definition;
        let (why, hint) = match (start, until) {
            (Some(start), Some(until)) if start > until => ("its start is after its until", "swap them"),
            _ if *count == Some(0) => ("its count is 0", "leave the count out, or write 1 or more"),
            _ => match rule {
                Rule::At(_) => ("its one time is outside of its bounds", "move the time, or start and until"),
                _ if self.raw_next(FIRST_SECOND, LAST_SECOND).is_some() => {
                    ("it has no occurrence between its start and its until", "move start or until")
                }
                Rule::Cron(_) => ("no date matches it", "check the day against the month: 30 2 is no date"),
                Rule::Every { .. } => {
                    ("its period does not end before the year 10000", "use a shorter period")
                }
            },
        };
        Err(TriggerError::NeverFires { why: why.into(), hint: hint.into() })
    }

    /// The first occurrence strictly after `t`; `None` if there will never be one again.
    pub fn next_after(&self, t: DateTime<Utc>) -> Option<DateTime<Utc>> {
        self.next_in(t.timestamp().saturating_add(1), LAST_SECOND).map(instant)
    }

    /// The last occurrence at or before `t`.
    pub fn last_until(&self, t: DateTime<Utc>) -> Option<DateTime<Utc>> {
        self.prev_in(FIRST_SECOND, t.timestamp()).map(instant)
    }

    /// The occurrences strictly after `t`, in order.
    pub fn occurrences_after(&self, t: DateTime<Utc>) -> Occurrences<'_> {
        Occurrences { trigger: self, after: Some(t) }
    }

    /// How many occurrences lie strictly after `after`, up to and with `through`.
    pub fn count_between(&self, after: DateTime<Utc>, through: DateTime<Utc>) -> u64 {
        self.count_in(after.timestamp().saturating_add(1), through.timestamp())
    }

    /// When an occurrence comes due: its nominal time and a delay of 0 to `jitter` seconds that
    /// depends on nothing but the schedule's id and the nominal time, and so never changes.
    pub fn due_time(&self, schedule: &str, occurrence: DateTime<Utc>) -> DateTime<Utc> {
        let delay = window::delay(schedule, occurrence.timestamp(), self.definition.jitter);
        occurrence + TimeDelta::seconds(delay)
    }

    /// What came due after `cursor` up to `now`, in order of nominal time; see [`Window`].
    pub fn window(&self, schedule: &str, cursor: DateTime<Utc>, now: DateTime<Utc>) -> Window<'_> {
        Window::new(self, schedule, cursor, now)
    }

    /// All nominal times after `cursor` up to `now`, whether or not their delay is over: for schedules
    /// that are paused or replaced.
    pub fn nominal_window(&self, cursor: DateTime<Utc>, now: DateTime<Utc>) -> Window<'_> {
        Window::nominal(self, cursor, now)
    }

    /// The cursor of a schedule that has done nothing yet: the second before its start.
    pub fn initial_cursor(&self) -> DateTime<Utc> {
        instant(self.first.min(LAST_SECOND) - 1)
    }

    fn next_in(&self, from: i64, until: i64) -> Option<i64> {
        self.raw_next(from.max(self.first), until.min(self.last))
    }

    fn prev_in(&self, from: i64, until: i64) -> Option<i64> {
        let (from, until) = (from.max(self.first), until.min(self.last));
        match &self.definition.rule {
            _ if from > until => None,
            Rule::Cron(cron) => self.wall(cron).prev(from, until),
            Rule::Every { period, anchor } => Grid::new(anchor.timestamp(), *period).prev(from, until),
            Rule::At(at) => Some(at.timestamp()).filter(|at| (from..=until).contains(at)),
        }
    }

    fn count_in(&self, from: i64, until: i64) -> u64 {
        self.raw_count(from.max(self.first), until.min(self.last))
    }

    fn skipped_in(&self, from: i64, until: i64) -> Vec<i64> {
        match &self.definition.rule {
            Rule::Cron(cron) => self.wall(cron).skipped(from.max(self.first), until.min(self.last)),
            Rule::Every { .. } | Rule::At(_) => Vec::new(),
        }
    }

    fn raw_next(&self, from: i64, until: i64) -> Option<i64> {
        match &self.definition.rule {
            _ if from > until => None,
            Rule::Cron(cron) => self.wall(cron).next(from, until),
            Rule::Every { period, anchor } => Grid::new(anchor.timestamp(), *period).next(from, until),
            Rule::At(at) => Some(at.timestamp()).filter(|at| (from..=until).contains(at)),
        }
    }

    fn raw_count(&self, from: i64, until: i64) -> u64 {
        match &self.definition.rule {
            _ if from > until => 0,
            Rule::Cron(cron) => self.wall(cron).count(from, until),
            Rule::Every { period, anchor } => Grid::new(anchor.timestamp(), *period).count(from, until),
            Rule::At(at) => u64::from((from..=until).contains(&at.timestamp())),
        }
    }

    /// The second of the `n`-th occurrence, or the last second if there are fewer; before the first
    /// second for 0. Doubles the stretch until it holds enough, then halves towards the place, and
    /// counts no second more than twice.
    fn nth(&self, n: u64) -> i64 {
        let (mut from, mut end, mut stretch, mut wanted) = (self.first, self.first - 1, 3600, n);
        if n == 0 || from > self.last {
            return end;
        }
        loop {
            if end >= self.last {
                return self.last;
            }
            from = end + 1;
            end = self.last.min(end + stretch);
            let held = self.raw_count(from, end);
            if held >= wanted {
                break;
            }
            wanted -= held;
            stretch *= 2;
        }
        while from < end {
            let middle = from + (end - from) / 2;
            let held = self.raw_count(from, middle);
            if held >= wanted {
                end = middle;
            } else {
                wanted -= held;
                from = middle + 1;
            }
        }
        end
    }

    fn wall<'a>(&'a self, cron: &'a CronExpr) -> Wall<'a> {
        let Definition { zone, dst_gap, dst_fold, .. } = &self.definition;
        Wall { cron, zone, gap: *dst_gap, fold: *dst_fold }
    }
}

/// The occurrences of a [`Trigger`] in order; made by [`Trigger::occurrences_after`].
#[derive(Debug, Clone)]
pub struct Occurrences<'a> {
    trigger: &'a Trigger,
    after: Option<DateTime<Utc>>,
}

impl Iterator for Occurrences<'_> {
    type Item = DateTime<Utc>;

    fn next(&mut self) -> Option<DateTime<Utc>> {
        self.after = self.trigger.next_after(self.after?);
        self.after
    }
}

impl FusedIterator for Occurrences<'_> {}

/// The instant of a second inside the supported years.
fn instant(second: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(second.clamp(FIRST_SECOND - 1, LAST_SECOND), 0).unwrap_or_default()
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
