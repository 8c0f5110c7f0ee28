//! The proleptic Gregorian calendar in whole numbers, and the days that a cron expression picks.
//!
//! Days count from 1970-01-01, months from January of year 0. Everything is plain arithmetic, so no
//! date is out of range. Deliberately not here: times of day, zones, text.

/// After so many months dates and weekdays repeat exactly (400 years are 20,871 weeks).
pub(super) const CYCLE_MONTHS: i64 = 4800;
/// The days of [`CYCLE_MONTHS`].
pub(super) const CYCLE_DAYS: i64 = 146_097;

/// Which days of a month match: the day-of-month and the weekday field together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct DayRule {
    /// Bit d: day d.
    pub(super) days: u32,
    /// Bit n: the n-th day before the last; bit 0: the last day (`L`, `L-n`).
    pub(super) from_last: u32,
    /// Bit d: the weekday (Monday to Friday) nearest to day d in the same month (`dW`).
    pub(super) nearest: u32,
    /// The last weekday (Monday to Friday) of the month (`LW`).
    pub(super) last_workday: bool,
    /// Bit w: every such weekday, Sunday being 0.
    pub(super) weekdays: u8,
    /// `nth[n - 1]`, bit w: the n-th such weekday (`w#n`).
    pub(super) nth: [u8; 5],
    /// Bit w: the last such weekday (`wL`).
    pub(super) last: u8,
    /// Both fields must hold (one of them starts with `*`); otherwise either is enough.
    pub(super) both: bool,
}

impl DayRule {
    /// The matching days of a month: bit d is day d.
    pub(super) fn mask(&self, month: i64) -> u32 {
        let first = first_day(month);
        let len = u32::try_from(first_day(month + 1) - first).unwrap_or(31);
        let month_days = (u32::MAX >> (31 - len)) & !1;
        let by_date = self.by_date(weekday(first), len) & month_days;
        let by_weekday = self.by_weekday(weekday(first), len) & month_days;
        if self.both { by_date & by_weekday } else { by_date | by_weekday }
    }

    fn by_date(&self, first_weekday: u32, len: u32) -> u32 {
        let mut mask = self.days;
        for back in bits(self.from_last).filter(|back| *back < len) {
            mask |= 1 << (len - back);
        }
        // A day that the month does not have has no nearest weekday either.
        for day in bits(self.nearest).filter(|day| *day <= len) {
            mask |= 1 << nearest_workday(day, first_weekday, len);
        }
        if self.last_workday {
            mask |= 1 << nearest_workday(len, first_weekday, len);
        }
        mask
    }

    fn by_weekday(&self, first_weekday: u32, len: u32) -> u32 {
        let mut mask = 0;
        for w in 0..7 {
            let first = 1 + (w + 7 - first_weekday) % 7;
            if self.weekdays >> w & 1 == 1 {
                mask |= 0x1020_4081 << first; // days first, first + 7, … first + 28
            }
            for (weeks, nth) in (0..).zip(self.nth) {
                let day = first + 7 * weeks;
                if nth >> w & 1 == 1 && day <= len {
                    mask |= 1 << day;
                }
            }
            if self.last >> w & 1 == 1 {
                mask |= 1 << (first + (len - first) / 7 * 7);
            }
        }
        mask
    }
}

fn nearest_workday(day: u32, first_weekday: u32, len: u32) -> u32 {
    match (first_weekday + day - 1) % 7 {
        6 if day == 1 => 3,
        6 => day - 1,
        0 if day == len => day - 2,
        0 => day + 1,
        _ => day,
    }
}

/// The positions of the set bits, rising.
pub(super) fn bits(mask: u32) -> impl Iterator<Item = u32> {
    (0..32).filter(move |bit| mask >> bit & 1 == 1)
}

/// The weekday of a day, Sunday being 0.
pub(super) fn weekday(day: i64) -> u32 {
    u32::try_from((day + 4).rem_euclid(7)).unwrap_or(0)
}

/// The first day of a month.
pub(super) fn first_day(month: i64) -> i64 {
    // Years that begin in March put the leap day last, so that month lengths follow one formula
    // (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", days_from_civil).
    let from_march = month - 2;
    let (year, month) = (from_march.div_euclid(12), from_march.rem_euclid(12));
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * month + 2) / 5;
    era * CYCLE_DAYS + year * 365 + year / 4 - year / 100 + day_of_year - 719_468
}

/// The month of a day, and its day of month from 1.
pub(super) fn month_of(day: i64) -> (i64, u32) {
    let shifted = day + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(CYCLE_DAYS), shifted.rem_euclid(CYCLE_DAYS));
    let year = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    ((era * 400 + year) * 12 + month + 2, u32::try_from(day_of_month).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::{Datelike, NaiveDate};

    #[test]
    fn months_and_days_agree_with_chrono() {
        let epoch = NaiveDate::from_ymd_opt(1970, 1, 1).unwrap();
        for day in (-800_000..3_000_000).step_by(13).chain(-400..40_000) {
            let date = epoch + chrono::Duration::days(day);
            let (month, day_of_month) = month_of(day);
            assert_eq!(month, i64::from(date.year()) * 12 + i64::from(date.month0()), "{date}");
            assert_eq!(day_of_month, date.day(), "{date}");
            assert_eq!(first_day(month) + i64::from(date.day0()), day, "{date}");
            assert_eq!(weekday(day), date.weekday().num_days_from_sunday(), "{date}");
        }
    }
}
