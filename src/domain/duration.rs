//! Durations as people write them: `90s`, `1h30m`.
//!
//! Invariant: a duration that was parsed here is at most [`MAX_DURATION`], so that adding a few of
//! them to any instant of this era cannot overflow. Deliberately not here: whether zero makes sense,
//! which each setting decides for itself, and the word `forever`.

use std::{fmt::Write as _, time::Duration};

/// The longest duration that is accepted: a hundred years of 365.25 days.
pub const MAX_DURATION: Duration = Duration::from_secs(100 * 31_557_600);

/// A text that is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a duration: {why}")]
pub struct InvalidDuration {
    /// The text that was refused, cut to a readable length.
    pub text: String,
    /// Which rule it breaks.
    pub why: String,
    /// What to write instead.
    pub hint: String,
}

/// Longer texts than this are nobody's duration.
const MAX_TEXT: usize = 64;
/// More digits than this in one number are refused; see [`check_digits`].
const MAX_DIGITS: usize = 10;
const EXAMPLE: &str = "write a number and a unit, for example \"90s\", \"10m\" or \"1h30m\"";

/// Reads a duration such as `90s`, `1h30m` or `1.5h`.
pub fn parse_duration(text: &str) -> Result<Duration, InvalidDuration> {
    let refuse = |why: String, hint: String| {
        Err(InvalidDuration { text: text.chars().take(MAX_TEXT).collect(), why, hint })
    };
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return refuse("it is empty".into(), EXAMPLE.into());
    }
    if trimmed.starts_with('-') {
        return refuse("it is negative".into(), "durations start at 0s".into());
    }
    if trimmed.bytes().all(|b| b.is_ascii_digit()) && trimmed.len() <= MAX_DIGITS {
        return refuse("it has no unit".into(), format!("write {trimmed}s for seconds"));
    }
    let too_long = || refuse("it is longer than 100 years".into(), "the longest is 36525d".into());
    if text.len() > MAX_TEXT || !check_digits(trimmed) {
        return too_long();
    }
    match humantime::parse_duration(trimmed) {
        Ok(duration) if duration > MAX_DURATION => too_long(),
        Ok(duration) => Ok(duration),
        Err(humantime::DurationError::NumberOverflow) => {
            refuse("a number in it is too long or too precise".into(), EXAMPLE.into())
        }
        Err(humantime::DurationError::UnknownUnit { unit, .. }) if unit.is_empty() => {
            refuse("a number in it has no unit".into(), EXAMPLE.into())
        }
        Err(humantime::DurationError::UnknownUnit { unit, .. }) => {
            refuse(format!("{unit:?} is not a unit"), "the units are ns, us, ms, s, m, h, d, w".into())
        }
        Err(_) => refuse("it is not numbers with units".into(), EXAMPLE.into()),
    }
}

/// Writes a duration so that [`parse_duration`] reads the same one: `1h30m`, `90d`, `250ms`.
pub fn format_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let nanos = duration.subsec_nanos();
    let parts = [
        (seconds / 86_400, "d"),
        (seconds / 3600 % 24, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
        (u64::from(nanos / 1_000_000), "ms"),
        (u64::from(nanos / 1000 % 1000), "us"),
        (u64::from(nanos % 1000), "ns"),
    ];
    let mut text = String::new();
    for (count, unit) in parts {
        if count > 0 {
            let _ = write!(text, "{count}{unit}");
        }
    }
    if text.is_empty() { "0s".into() } else { text }
}

/// Whether no number has more than [`MAX_DIGITS`] digits. humantime 2.4 panics where the sum reaches
/// exactly 2^64 seconds by way of the nanoseconds; sums of ten digit numbers stay far below that.
/// White space does not end a number for humantime, so it does not here.
fn check_digits(text: &str) -> bool {
    let mut digits = 0;
    for c in text.chars() {
        if c.is_ascii_digit() {
            digits += 1;
        } else if !c.is_whitespace() {
            digits = 0;
        }
        if digits > MAX_DIGITS {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn people_write_durations_in_several_ways() {
        for (text, seconds) in [
            ("90s", 90),
            ("1h30m", 5400),
            ("1h 30m", 5400),
            (" 2h ", 7200),
            ("1.5h", 5400),
            ("0s", 0),
            ("90d", 7_776_000),
            ("100years", MAX_DURATION.as_secs()),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
    }

    #[test]
    fn what_is_no_duration_is_refused_with_a_reason_and_a_hint() {
        for (text, why) in [
            ("", "empty"),
            ("  ", "empty"),
            ("-5s", "negative"),
            ("0", "no unit"),
            ("90", "no unit"),
            ("1h30", "no unit"),
            ("5 parsecs", "\"parsecs\" is not a unit"),
            ("soon", "numbers with units"),
            ("1.s", "numbers with units"),
            ("101years", "100 years"),
            ("36526d", "100 years"),
            ("99999999999s", "100 years"),
            ("0.1ns", "too precise"),
        ] {
            let refused = parse_duration(text).unwrap_err();
            assert!(refused.why.contains(why), "{text:?}: {refused}");
            assert!(!refused.hint.is_empty());
        }
    }

    #[test]
    fn no_sum_of_numbers_overflows() {
        // The first of these makes humantime itself panic.
        for text in [
            "18446744073709551615s1000000000ns",
            "9999999999y9999999999y9999999999y",
            "9 9 9 9 9 9 9 9 9 9 9 9y",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,80}") {
            let _ = parse_duration(&text);
        }

        #[test]
        fn any_row_of_numbers_and_units_is_read_or_refused(text in "([0-9]{1,20} ?(s|ns|ms|m|h|d|w|y|years|months)){1,6}") {
            if let Ok(duration) = parse_duration(&text) {
                prop_assert!(duration <= MAX_DURATION);
            }
        }

        #[test]
        fn what_is_written_reads_back_the_same(seconds in 0..=MAX_DURATION.as_secs() - 1, nanos in 0..1_000_000_000_u32) {
            for duration in [Duration::new(seconds, nanos), Duration::from_secs(seconds)] {
                prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
            }
        }
    }
}
