//! Exact periods of elapsed time: `--every`.
//!
//! The grid is `anchor + k * period` for every whole k, in seconds since the epoch, indifferent to
//! daylight saving. Deliberately not here: calendar periods; a month has no fixed length.

use std::time::Duration;

use super::error::{TriggerError, quote};

/// Reads the period of `--every`: a whole number of seconds, at least one, in the notation of
/// `humantime` (`90s`, `1h 30m`, `2days`). Months and years are refused.
pub fn parse_every(text: &str) -> Result<Duration, TriggerError> {
    let period = parse_length(text)?;
    let refuse = |why: &str, hint: &str| {
        Err(TriggerError::Duration { text: quote(text), why: why.into(), hint: hint.into() })
    };
    if period.is_zero() {
        return refuse("a period must be at least one second", "write 1s or more");
    }
    if period.subsec_nanos() != 0 {
        return refuse("a period must be whole seconds", "write 1s, 90s, 15m, 2h, 1day");
    }
    Ok(period)
}

/// A duration of `humantime` without units of varying length.
pub(super) fn parse_length(text: &str) -> Result<Duration, TriggerError> {
    let error =
        |why: String, hint: &str| TriggerError::Duration { text: quote(text), why, hint: hint.into() };
    let mut units = text.split(|c: char| !c.is_ascii_alphabetic());
    if units.any(|unit| matches!(unit, "M" | "month" | "months" | "y" | "yr" | "yrs" | "year" | "years")) {
        let hint = "use days, or a cron expression such as '0 0 1 * *' for the first of each month";
        return Err(error("months and years have no fixed length".into(), hint));
    }
    humantime::parse_duration(text).map_err(|why| error(why.to_string(), "write 90s, 15m, 1h 30m, 2days"))
}

/// A grid of instants. The arithmetic is 128 bits wide, so no period or anchor can overflow it.
#[derive(Clone, Copy)]
pub(super) struct Grid {
    anchor: i128,
    period: i128,
}

impl Grid {
    /// A period below one second counts as one.
    pub(super) fn new(anchor: i64, period: Duration) -> Self {
        Self { anchor: i128::from(anchor), period: i128::from(period.as_secs().max(1)) }
    }

    /// The first point in `from..=until`.
    pub(super) fn next(self, from: i64, until: i64) -> Option<i64> {
        let point = self.point(-((self.anchor - i128::from(from)).div_euclid(self.period)));
        i64::try_from(point).ok().filter(|point| *point <= until)
    }

    /// The last point in `from..=until`.
    pub(super) fn prev(self, from: i64, until: i64) -> Option<i64> {
        let point = self.point((i128::from(until) - self.anchor).div_euclid(self.period));
        i64::try_from(point).ok().filter(|point| *point >= from)
    }

    /// How many points there are in `from..=until`.
    pub(super) fn count(self, from: i64, until: i64) -> u64 {
        let up_to = |utc: i64| (i128::from(utc) - self.anchor).div_euclid(self.period);
        if from > until { 0 } else { u64::try_from(up_to(until) - up_to(from - 1)).unwrap_or(0) }
    }

    fn point(self, k: i128) -> i128 {
        self.anchor.saturating_add(k.saturating_mul(self.period))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_whole_seconds_of_fixed_length() {
        assert_eq!(parse_every("1h 30m").unwrap().as_secs(), 5400);
        assert_eq!(parse_every("2days").unwrap().as_secs(), 172_800);
        for bad in
            ["", "0s", "500ms", "1500ms", "1month", "2M", "1y", "-5m", "5", "m", "99999999999999999999h"]
        {
            assert!(parse_every(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_grid_reaches_both_ways_from_its_anchor() {
        let grid = Grid::new(1000, Duration::from_secs(300));
        assert_eq!(grid.next(0, 5000), Some(100));
        assert_eq!(grid.next(1000, 5000), Some(1000));
        assert_eq!(grid.next(1001, 1299), None);
        assert_eq!(grid.prev(0, 1299), Some(1000));
        assert_eq!(grid.prev(1001, 1299), None);
        assert_eq!(grid.count(100, 1000), 4);
        assert_eq!(grid.count(101, 999), 2);
        assert_eq!(Grid::new(0, Duration::MAX).next(1, i64::MAX), None);
    }
}
