//! The one text form of an instant in files and JSON: RFC 3339, UTC, milliseconds.

use chrono::{DateTime, DurationRound, SecondsFormat, TimeDelta, Utc};

/// `at` as RFC 3339 in UTC with milliseconds.
pub fn format_instant(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// An instant as RFC 3339 in UTC with whole seconds, as `WFCTL_OCCURRENCE` holds it.
pub fn format_seconds(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// The instant that `text` names, in RFC 3339 with any offset.
pub fn parse_instant(text: &str) -> Option<DateTime<Utc>> {
    Some(DateTime::parse_from_rfc3339(text).ok()?.to_utc())
}

/// `at` cut to whole seconds, the grain of occurrences.
pub fn whole_seconds(at: DateTime<Utc>) -> DateTime<Utc> {
    at.duration_trunc(TimeDelta::seconds(1)).unwrap_or(at)
}

/// `at` cut to whole milliseconds, the grain of journals.
pub fn whole_millis(at: DateTime<Utc>) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(at.timestamp_millis()).unwrap_or(at)
}
