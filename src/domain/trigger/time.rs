//! Points in time as people write them.
//!
//! The grammar is read by hand, because `chrono` takes more than it should (one-digit months, leap
//! seconds). Invariant: every result lies in the supported years. Deliberately not here: the clock;
//! now is a parameter.

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Utc};

use super::error::{TriggerError, quote};
use super::every::parse_length;
use super::{FIRST_SECOND, LAST_SECOND, Zone};

/// Reads `now`, `+DURATION` from now, RFC 3339 (seconds may be left out), or a local time in `zone`:
/// `2027-03-27`, `2027-03-27T00:00`, `2027-03-27 00:00:30`; a plain date is midnight.
///
/// A local time inside a gap is the first instant after it, one that exists twice is the first of
/// the two: the defaults of `--dst-gap` and `--dst-fold`. Fractions of a second are kept where an
/// offset is given. Times outside of the years 1970 to 9999 and leap seconds are refused.
pub fn parse_time(text: &str, zone: &Zone, now: DateTime<Utc>) -> Result<DateTime<Utc>, TriggerError> {
    const HINT: &str = "write now, +10m, 2027-03-27, 2027-03-27T04:00 or 2027-03-27T04:00:00+01:00";
    let error = |why: &str| TriggerError::Time { text: quote(text), why: why.into(), hint: HINT.into() };
    let trimmed = text.trim();
    let instant = if trimmed.eq_ignore_ascii_case("now") {
        now
    } else if let Some(length) = trimmed.strip_prefix('+') {
        let length = parse_length(length)?;
        let sum = TimeDelta::from_std(length).ok().and_then(|length| now.checked_add_signed(length));
        sum.ok_or_else(|| error("it is after the year 9999"))?
    } else {
        let (local, offset) = parse_stamp(trimmed).map_err(error)?;
        match offset {
            Some(offset) => (local - offset).and_utc(),
            None => zone.instant_of(local),
        }
    };
    match instant.timestamp() {
        ..FIRST_SECOND => Err(error("it is before 1970")),
        FIRST_SECOND..=LAST_SECOND => Ok(instant),
        _ => Err(error("it is after the year 9999")),
    }
}

/// The local time, and its offset from UTC if there is one.
fn parse_stamp(text: &str) -> Result<(NaiveDateTime, Option<TimeDelta>), &'static str> {
    const SHAPE: &str = "it is not a time";
    let (date, rest) = text.split_at_checked(10).ok_or(SHAPE)?;
    let &[year_hi, year_lo, month, day] = digits(date, "dddd-dd-dd").ok_or(SHAPE)?.as_slice() else {
        return Err(SHAPE);
    };
    let date = i32::try_from(year_hi * 100 + year_lo)
        .ok()
        .and_then(|year| NaiveDate::from_ymd_opt(year, month, day))
        .ok_or("there is no such date")?;
    let Some(rest) = rest.strip_prefix(['T', 't', ' ']) else {
        return if rest.is_empty() { Ok((date.and_time(NaiveTime::MIN), None)) } else { Err(SHAPE) };
    };
    let (clock, offset) = match rest.find(['Z', 'z', '+', '-']) {
        Some(at) => (&rest[..at], Some(parse_offset(&rest[at..]).ok_or("its offset is not Z or ±HH:MM")?)),
        None => (rest, None),
    };
    let time = parse_clock(clock)?;
    if offset.is_none() && clock.contains('.') {
        return Err("a local time takes whole seconds");
    }
    Ok((date.and_time(time), offset))
}

fn parse_clock(text: &str) -> Result<NaiveTime, &'static str> {
    const SHAPE: &str = "its time of day is not HH:MM or HH:MM:SS";
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) if whole.len() == 8 => (whole, fraction),
        Some(_) => return Err(SHAPE),
        None => (text, "0"),
    };
    if !(1..=9).contains(&fraction.len()) || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return Err("its fraction of a second is not one to nine digits");
    }
    let nanos = format!("{fraction:0<9}").parse().map_err(|_| SHAPE)?;
    let shape = if whole.len() == 5 { "dd:dd" } else { "dd:dd:dd" };
    let parts = digits(whole, shape).ok_or(SHAPE)?;
    let second = parts.get(2).copied().unwrap_or(0);
    NaiveTime::from_hms_nano_opt(parts[0], parts[1], second, nanos).ok_or("there is no such time of day")
}

fn parse_offset(text: &str) -> Option<TimeDelta> {
    if text.eq_ignore_ascii_case("Z") {
        return Some(TimeDelta::zero());
    }
    let (sign, rest) = text.split_at_checked(1)?;
    let parts = digits(rest, "dd:dd")?;
    let minutes = i64::from(parts[0] * 60 + parts[1]);
    let valid = parts[0] < 24 && parts[1] < 60;
    valid.then(|| TimeDelta::minutes(if sign == "-" { -minutes } else { minutes }))
}

/// The two-digit numbers of a text that has exactly this shape, `d` being a digit.
fn digits(text: &str, shape: &str) -> Option<Vec<u32>> {
    let fits = text.len() == shape.len()
        && text.bytes().zip(shape.bytes()).all(|(b, s)| if s == b'd' { b.is_ascii_digit() } else { b == s });
    let digits: Vec<u32> = text.bytes().filter(u8::is_ascii_digit).map(|b| u32::from(b - b'0')).collect();
    fits.then(|| digits.chunks(2).map(|pair| pair.iter().fold(0, |sum, digit| sum * 10 + digit)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, TriggerError> {
        let now = DateTime::from_timestamp(1_800_000_000, 500_000_000).unwrap();
        parse_time(text, &Zone::parse("Europe/Berlin").unwrap(), now).map(|at| at.to_rfc3339())
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        for (text, want) in [
            ("now", "2027-01-15T08:00:00.500+00:00"),
            ("+10m", "2027-01-15T08:10:00.500+00:00"),
            ("2027-03-27", "2027-03-26T23:00:00+00:00"),
            ("2027-03-27T00:00", "2027-03-26T23:00:00+00:00"),
            ("2027-07-01 00:00:30", "2027-06-30T22:00:30+00:00"),
            ("2027-03-27T00:00Z", "2027-03-27T00:00:00+00:00"),
            ("2027-03-27t00:00:00.250-03:30", "2027-03-27T03:30:00.250+00:00"),
            ("2027-03-28T02:30", "2027-03-28T01:00:00+00:00"),
            ("2027-10-31T02:30", "2027-10-31T00:30:00+00:00"),
            ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59+00:00"),
        ] {
            assert_eq!(read(text).unwrap(), want, "{text}");
        }
    }

    #[test]
    fn what_is_not_a_time_is_refused() {
        for bad in [
            "",
            "tomorrow",
            "2027",
            "2027-3-7",
            "2027-02-30",
            "2027-03-27T24:00",
            "2027-03-27T23:59:60Z",
            "2027-03-27T00:00+25:00",
            "2027-03-27T00:00+01",
            "2027-03-27T00:00:00.5",
            "1969-12-31",
            "+",
            "+1month",
            "+9000000days",
            "2027-03-27X",
            "2027-03-27T",
            "9999-12-31T23:59:59-01:00",
            "２０２７-03-27",
            "-10m",
        ] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }
}
