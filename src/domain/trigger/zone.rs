//! Time zones: names of the IANA database, and the spans of constant offset from UTC.
//!
//! Facts come from the copy of the database inside `chrono-tz`, which lists changes up to 2099; from
//! 2100 on, a zone keeps its last offset. Invariants: spans are in order, without holes or overlaps,
//! and neighbours differ in their offset. Deliberately not here: what a schedule does in a gap or a
//! fold (`wall.rs`), and the zone of the machine, which is never consulted.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use chrono::{DateTime, NaiveDateTime, Offset, TimeZone, Utc};
use chrono_tz::{TZ_VARIANTS, Tz};

use super::error::{TriggerError, quote};

/// The step of the search for offset changes. The shortest time between two changes in any zone
/// since 1970 is just under seven days (America/Recife in October 2000), so none is stepped over.
const SEARCH_STEP: i64 = 4 * 86_400;
/// A week before 1970: a change just before the epoch still shapes the first local day.
const SEARCH_FROM: i64 = -7 * 86_400;
/// 2101-01-01T00:00:00Z; the database lists no change from 2100 on.
const SEARCH_TO: i64 = 4_133_980_800;
/// Far outside of all supported times, yet safe to add offsets to.
const FOREVER: i64 = i64::MAX / 4;

/// A time zone of the IANA database.
#[derive(Clone)]
pub struct Zone {
    tz: Tz,
    changes: Arc<[Change]>,
}

/// From `at` (seconds since the epoch) on, local time is UTC plus `offset` seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Change {
    at: i64,
    offset: i64,
}

/// A stretch of constant offset: `start <= utc < end`, in seconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: i64,
    pub(super) end: i64,
    /// Seconds east of UTC.
    pub(super) offset: i64,
    /// The offset before `start`; the same as `offset` in the first span.
    pub(super) offset_before: i64,
    /// The offset from `end` on; the same as `offset` in the last span.
    pub(super) offset_after: i64,
}

impl Zone {
    /// Coordinated universal time.
    pub fn utc() -> Self {
        Self::from_tz(Tz::UTC)
    }

    /// The zone of an IANA name, in any case. Legacy names (`US/Pacific`, `EST`) are links of the
    /// database and mean what it says; abbreviations that it lacks (`PST`, `CEST`) are refused.
    pub fn parse(name: &str) -> Result<Self, TriggerError> {
        match Tz::from_str_insensitive(name) {
            Ok(tz) => Ok(Self::from_tz(tz)),
            Err(_) => Err(TriggerError::Zone { text: quote(name), hint: suggest(name) }),
        }
    }

    /// The name as the database spells it.
    pub fn name(&self) -> &'static str {
        self.tz.name()
    }

    /// `instant` as it reads in this zone, with its offset.
    pub fn local(&self, instant: DateTime<Utc>) -> DateTime<Tz> {
        instant.with_timezone(&self.tz)
    }

    /// The instant of a local time. Inside a gap it is the first instant after the gap; of a time
    /// that exists twice it is the first.
    pub fn instant_of(&self, local: NaiveDateTime) -> DateTime<Utc> {
        let seconds = self.seconds_of(local.and_utc().timestamp());
        DateTime::from_timestamp(seconds, 0).unwrap_or_else(|| local.and_utc())
    }

    /// 1970-01-01T00:00 in this zone, the default anchor of periods.
    pub fn midnight_of_epoch(&self) -> DateTime<Utc> {
        self.instant_of(DateTime::UNIX_EPOCH.naive_utc())
    }

    /// As [`Self::instant_of`], both in seconds since the epoch.
    pub(super) fn seconds_of(&self, local: i64) -> i64 {
        const FARTHEST_OFFSET: i64 = 2 * 86_400;
        for index in self.index_of(local - FARTHEST_OFFSET)..self.changes.len() {
            let span = self.span(index);
            if local < span.start + span.offset {
                return span.start; // the spans before ended without reaching it: a gap
            }
            if local < span.end + span.offset {
                return local - span.offset;
            }
        }
        local // not reached: the last span has no end
    }

    /// How many spans there are.
    pub(super) fn len(&self) -> usize {
        self.changes.len()
    }

    /// The index of the span that holds `utc`.
    pub(super) fn index_of(&self, utc: i64) -> usize {
        self.changes.partition_point(|change| change.at <= utc).saturating_sub(1)
    }

    /// The span of that index, which must be below [`Self::len`].
    pub(super) fn span(&self, index: usize) -> Span {
        let Change { at, offset } = self.changes[index];
        let before = index.checked_sub(1).map_or(offset, |i| self.changes[i].offset);
        let next = self.changes.get(index + 1);
        Span {
            start: at,
            end: next.map_or(FOREVER, |change| change.at),
            offset,
            offset_before: before,
            offset_after: next.map_or(offset, |change| change.offset),
        }
    }

    fn from_tz(tz: Tz) -> Self {
        // A pure function of the name that costs about a millisecond: remembered for the process.
        static KNOWN: LazyLock<Mutex<HashMap<Tz, Arc<[Change]>>>> = LazyLock::new(Mutex::default);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = known.entry(tz).or_insert_with(|| find_changes(tz).into());
        Self { tz, changes: Arc::clone(changes) }
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        self.tz == other.tz
    }
}

impl Eq for Zone {}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zone({})", self.tz.name())
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.tz.name())
    }
}

fn offset_at(tz: Tz, utc: i64) -> i64 {
    let naive = DateTime::from_timestamp(utc, 0).unwrap_or_default().naive_utc();
    i64::from(tz.offset_from_utc_datetime(&naive).fix().local_minus_utc())
}

fn find_changes(tz: Tz) -> Vec<Change> {
    let mut offset = offset_at(tz, SEARCH_FROM);
    let mut changes = vec![Change { at: -FOREVER, offset }];
    let mut known_until = SEARCH_FROM;
    while known_until < SEARCH_TO {
        let probe = known_until + SEARCH_STEP;
        let found = offset_at(tz, probe);
        if found != offset {
            let (mut before, mut after) = (known_until, probe);
            while after - before > 1 {
                let middle = before + (after - before) / 2;
                if offset_at(tz, middle) == offset {
                    before = middle;
                } else {
                    after = middle;
                }
            }
            offset = found;
            changes.push(Change { at: after, offset });
        }
        known_until = probe;
    }
    changes
}

/// The nearest name, also by its last part ("Berlin"), or what kind of name is wanted.
fn suggest(name: &str) -> String {
    const CLOSE_ENOUGH: f64 = 0.84;
    let wanted: String = name.chars().take(64).flat_map(char::to_lowercase).collect();
    let wanted = wanted.trim().replace(' ', "_");
    let closeness = |tz: &Tz| {
        let known = tz.name().to_lowercase();
        let city = known.rsplit('/').next().unwrap_or(&known);
        strsim::jaro_winkler(&wanted, &known).max(strsim::jaro_winkler(&wanted, city))
    };
    let best = TZ_VARIANTS.iter().map(|tz| (closeness(tz), tz)).max_by(|a, b| a.0.total_cmp(&b.0));
    match best {
        // Three letters are an abbreviation; the nearest name would be a guess at another place.
        Some((score, tz)) if score >= CLOSE_ENOUGH && wanted.len() > 4 => {
            format!("did you mean {}?", tz.name())
        }
        _ => "use a name of the IANA database, such as Europe/Berlin or UTC".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(name: &str) -> Zone {
        Zone::parse(name).unwrap()
    }

    #[test]
    fn names_are_found_in_any_case() {
        assert_eq!(zone("europe/berlin").name(), "Europe/Berlin");
        assert_eq!(zone("utc"), Zone::utc());
    }

    #[test]
    fn legacy_names_mean_what_the_database_says() {
        for (name, hours) in [("EST", -5), ("MST", -7), ("HST", -10), ("US/Pacific", -8), ("Etc/GMT+5", -5)] {
            assert_eq!(offset_at(zone(name).tz, 1_768_435_200), hours * 3600, "{name}");
        }
    }

    #[test]
    fn unknown_names_are_refused_with_the_nearest() {
        for (bad, hint) in [
            ("Europe/Berln", "did you mean Europe/Berlin?"),
            ("Berlin", "did you mean Europe/Berlin?"),
            ("new york", "did you mean America/New_York?"),
        ] {
            assert_eq!(Zone::parse(bad).unwrap_err().hint(), hint);
        }
        for bad in ["", "PST", "CEST", "UTC+2", "GMT+1", "localtime", "+01:00", ":UTC", " UTC", "\0", "é"] {
            assert!(Zone::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn offsets_by_span_are_those_of_the_database() {
        for tz in TZ_VARIANTS.iter().step_by(7) {
            let zone = Zone::from_tz(*tz);
            for utc in (0..4_102_444_800).step_by(5_000_011) {
                let span = zone.span(zone.index_of(utc));
                assert!(span.start <= utc && utc < span.end);
                assert_eq!(span.offset, offset_at(*tz, utc), "{} {utc}", tz.name());
            }
        }
    }

    #[test]
    fn local_times_in_gaps_and_folds_have_one_instant() {
        let at = |text: &str| {
            let local = NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M").unwrap();
            zone("Europe/Berlin").instant_of(local).to_rfc3339()
        };
        assert_eq!(at("2027-03-28T02:30"), "2027-03-28T01:00:00+00:00");
        assert_eq!(at("2027-10-31T02:30"), "2027-10-31T00:30:00+00:00");
        assert_eq!(at("2027-07-01T12:00"), "2027-07-01T10:00:00+00:00");
        assert_eq!(zone("Europe/Berlin").midnight_of_epoch().timestamp(), -3600);
        assert_eq!(zone("America/New_York").midnight_of_epoch().timestamp(), 5 * 3600);
    }
}
