//! Cron expressions: what they match in local time, without any zone.
//!
//! Local times are seconds since 1970-01-01T00:00 on the wall clock. Invariants: a parsed expression
//! has at least one second, minute and hour; every search is bounded by its own arguments or by one
//! cycle of the calendar (400 years), so an expression that names no date (30 February) ends at
//! once. Counting works by whole months and cycles, never one occurrence after the other.
//! Deliberately not here: the grammar (`parse.rs`), daylight saving (`wall.rs`).

use std::fmt;

use super::calendar::{CYCLE_DAYS, CYCLE_MONTHS, DayRule, first_day, month_of};
use super::error::TriggerError;
use super::parse;

const DAY: i64 = 86_400;

/// A parsed cron expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronExpr {
    pub(super) text: String,
    pub(super) seconds: u64,
    pub(super) minutes: u64,
    pub(super) hours: u64,
    pub(super) days: DayRule,
    /// Bit m: month m, January being 1.
    pub(super) months: u32,
    pub(super) fixed: bool,
}

impl CronExpr {
    /// Reads five fields (minute, hour, day of month, month, weekday), six with seconds in front, or
    /// one of `@yearly @annually @monthly @weekly @daily @midnight @hourly`. Names and the letters
    /// `L` and `W` are taken in any case.
    ///
    /// What cron implementations disagree about is refused, never guessed: reversed ranges, steps
    /// of 0 or above the field's highest value, steps on single values, `?`, a bare `L` as weekday.
    pub fn parse(text: &str) -> Result<Self, TriggerError> {
        parse::expression(text)
    }

    /// The expression as it was written, with single spaces.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether minutes and hours are single values or comma lists of them. Such entries name times
    /// on the wall clock, so that gaps and folds need a policy; all others follow elapsed time.
    /// Seconds have no say: `*/10 30 2 * * *` is fixed.
    pub fn is_fixed(&self) -> bool {
        self.fixed
    }

    /// The first match in `from..end`.
    pub(super) fn next_local(&self, from: i64, end: i64) -> Option<i64> {
        if from >= end {
            return None;
        }
        let day = from.div_euclid(DAY);
        let found = if self.matches_day(day)
            && let Some(time) = self.first_time(from.rem_euclid(DAY))
        {
            day * DAY + time
        } else {
            self.next_day(day + 1, (end - 1).div_euclid(DAY))? * DAY + self.first_time(0)?
        };
        (found < end).then_some(found)
    }

    /// The last match in `floor..=until`.
    pub(super) fn prev_local(&self, until: i64, floor: i64) -> Option<i64> {
        if floor > until {
            return None;
        }
        let day = until.div_euclid(DAY);
        let found = if self.matches_day(day)
            && let Some(time) = self.last_time(until.rem_euclid(DAY))
        {
            day * DAY + time
        } else {
            self.prev_day(day - 1, floor.div_euclid(DAY))? * DAY + self.last_time(DAY - 1)?
        };
        (found >= floor).then_some(found)
    }

    /// How many matches there are in `from..end`.
    pub(super) fn count_local(&self, from: i64, end: i64) -> u64 {
        if from >= end {
            return 0;
        }
        let (first, last) = (from.div_euclid(DAY), end.div_euclid(DAY));
        let whole = self.count_days(first, last) * self.times_before(DAY);
        let before = if self.matches_day(first) { self.times_before(from.rem_euclid(DAY)) } else { 0 };
        let after = if self.matches_day(last) { self.times_before(end.rem_euclid(DAY)) } else { 0 };
        whole + after - before
    }

    fn mask(&self, month: i64) -> u32 {
        if self.months >> (month.rem_euclid(12) + 1) & 1 == 1 { self.days.mask(month) } else { 0 }
    }

    fn matches_day(&self, day: i64) -> bool {
        let (month, day_of_month) = month_of(day);
        self.mask(month) >> day_of_month & 1 == 1
    }

    /// The first matching day in `from..=last`.
    fn next_day(&self, from: i64, last: i64) -> Option<i64> {
        if from > last {
            return None;
        }
        let (month, day_of_month) = month_of(from);
        let end = month_of(last).0.min(month + CYCLE_MONTHS);
        let mut open = u32::MAX << day_of_month;
        for month in month..=end {
            let mask = self.mask(month) & open;
            if mask != 0 {
                let day = first_day(month) + i64::from(mask.trailing_zeros()) - 1;
                return (day <= last).then_some(day);
            }
            open = u32::MAX;
        }
        None
    }

    /// The last matching day in `first..=until`.
    fn prev_day(&self, until: i64, first: i64) -> Option<i64> {
        if first > until {
            return None;
        }
        let (month, day_of_month) = month_of(until);
        let end = month_of(first).0.max(month - CYCLE_MONTHS);
        let mut open = u32::MAX >> (31 - day_of_month);
        for month in (end..=month).rev() {
            let mask = self.mask(month) & open;
            if mask != 0 {
                let day = first_day(month) + i64::from(mask.ilog2()) - 1;
                return (day >= first).then_some(day);
            }
            open = u32::MAX;
        }
        None
    }

    /// The matching days in `first..end`.
    fn count_days(&self, first: i64, end: i64) -> u64 {
        let cycles = (end - first).max(0) / CYCLE_DAYS;
        if cycles > 0 {
            let in_cycle = self.count_days_by_month(first, first + CYCLE_DAYS);
            let rest = first + cycles * CYCLE_DAYS;
            return in_cycle * cycles.unsigned_abs() + self.count_days_by_month(rest, end);
        }
        self.count_days_by_month(first, end)
    }

    fn count_days_by_month(&self, first: i64, end: i64) -> u64 {
        if first >= end {
            return 0;
        }
        let (first_month, from_day) = month_of(first);
        let (last_month, to_day) = month_of(end);
        let mut count = 0;
        for month in first_month..=last_month {
            let mut mask = self.mask(month);
            if month == first_month {
                mask &= u32::MAX << from_day;
            }
            if month == last_month {
                mask &= (1 << to_day) - 1;
            }
            count += u64::from(mask.count_ones());
        }
        count
    }

    /// The first matching second of the day from `time` on.
    fn first_time(&self, time: i64) -> Option<i64> {
        let (hour, minute, second) = split(time);
        if bit(self.hours, hour) {
            if bit(self.minutes, minute)
                && let Some(second) = bit_from(self.seconds, second)
            {
                return Some(join(hour, minute, second));
            }
            if let Some(minute) = bit_from(self.minutes, minute + 1) {
                return Some(join(hour, minute, bit_from(self.seconds, 0)?));
            }
        }
        let hour = bit_from(self.hours, hour + 1)?;
        Some(join(hour, bit_from(self.minutes, 0)?, bit_from(self.seconds, 0)?))
    }

    /// The last matching second of the day up to and with `time`.
    fn last_time(&self, time: i64) -> Option<i64> {
        let (hour, minute, second) = split(time);
        let last = |mask| bit_below(mask, 64);
        if bit(self.hours, hour) {
            if bit(self.minutes, minute)
                && let Some(second) = bit_below(self.seconds, second + 1)
            {
                return Some(join(hour, minute, second));
            }
            if let Some(minute) = bit_below(self.minutes, minute) {
                return Some(join(hour, minute, last(self.seconds)?));
            }
        }
        let hour = bit_below(self.hours, hour)?;
        Some(join(hour, last(self.minutes)?, last(self.seconds)?))
    }

    /// How many matching seconds of the day come before `time`, which is at most a whole day.
    fn times_before(&self, time: i64) -> u64 {
        let (hour, minute, second) = split(time);
        let below = |mask: u64, end: u32| u64::from((mask & ((1u64 << end) - 1)).count_ones());
        let (per_minute, minutes) = (below(self.seconds, 60), below(self.minutes, 60));
        let mut count = below(self.hours, hour) * minutes * per_minute;
        if bit(self.hours, hour) {
            count += below(self.minutes, minute) * per_minute;
            if bit(self.minutes, minute) {
                count += below(self.seconds, second);
            }
        }
        count
    }
}

impl fmt::Display for CronExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn split(time: i64) -> (u32, u32, u32) {
    let time = u32::try_from(time).unwrap_or(0);
    (time / 3600, time / 60 % 60, time % 60)
}

fn join(hour: u32, minute: u32, second: u32) -> i64 {
    i64::from(hour * 3600 + minute * 60 + second)
}

fn bit(mask: u64, index: u32) -> bool {
    mask >> index & 1 == 1
}

/// The lowest set bit from `index` on; `index` is at most 60.
fn bit_from(mask: u64, index: u32) -> Option<u32> {
    let rest = mask >> index << index;
    (rest != 0).then(|| rest.trailing_zeros())
}

/// The highest set bit below `end`; `end` is at most 64.
fn bit_below(mask: u64, end: u32) -> Option<u32> {
    let rest = if end >= 64 { mask } else { mask & ((1 << end) - 1) };
    rest.checked_ilog2()
}
