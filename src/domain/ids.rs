//! Names that the rest of the program trusts: parsed once at the edge, then passed as types.
//!
//! Invariant: no value of these types can name a path outside the store, because none can hold a
//! slash, start with a dot, or be empty. Deliberately not here: whether the named thing exists.

use std::{fmt, str::FromStr};

use chrono::{DateTime, NaiveDate, NaiveDateTime, Utc};

/// The longest schedule or step id, in bytes.
pub const MAX_ID_LEN: usize = 64;

const STAMP: &str = "%Y%m%dT%H%M%SZ";

/// A name that does not follow the grammar of its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a {kind}: {why}")]
pub struct InvalidId {
    /// What was to be named, as an article-less noun ("schedule id").
    pub kind: &'static str,
    /// The text that was refused.
    pub text: String,
    /// Which rule it breaks.
    pub why: &'static str,
}

fn check_id(kind: &'static str, text: &str) -> Result<(), InvalidId> {
    let refuse = |why| Err(InvalidId { kind, text: text.chars().take(80).collect(), why });
    let Some(first) = text.bytes().next() else { return refuse("it is empty") };
    if text.len() > MAX_ID_LEN {
        return refuse("it is longer than 64 characters");
    }
    if !(first.is_ascii_alphanumeric() || first == b'_') {
        return refuse("it must start with a letter, a digit or '_'");
    }
    if !text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-')) {
        return refuse("only letters, digits, '_', '.' and '-' are allowed");
    }
    Ok(())
}

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                check_id($kind, text)?;
                Ok(Self(text.to_owned()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}

id_type! {
    /// The id of a schedule; also the name part of a run id.
    ScheduleId, "schedule id"
}
id_type! {
    /// The id of a step inside one workflow.
    StepId, "step id"
}

/// The id of a run: `<name>@<YYYYMMDDTHHMMSSZ>` for an occurrence, with `-m<k>` for a manual start,
/// or a plain id that a caller of `run --id` chose.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(String);

/// What the text of a run id says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunIdParts<'a> {
    /// The run of one occurrence of a schedule.
    Occurrence {
        /// The schedule.
        name: &'a str,
        /// The nominal time, whole seconds.
        at: DateTime<Utc>,
    },
    /// A manual start.
    Manual {
        /// The schedule or workflow.
        name: &'a str,
        /// When it was started, whole seconds.
        at: DateTime<Utc>,
        /// Which of the starts of that second, from 1.
        k: u32,
    },
    /// An id that the caller chose.
    Chosen {
        /// The whole id.
        name: &'a str,
    },
}

impl RunId {
    /// The run of an occurrence of `schedule`; `at` is cut to whole seconds.
    pub fn for_occurrence(schedule: &ScheduleId, at: DateTime<Utc>) -> Self {
        Self(format!("{schedule}@{}", at.format(STAMP)))
    }

    /// The `k`-th manual start of `name` in the second of `at`.
    pub fn for_manual(name: &ScheduleId, at: DateTime<Utc>, k: u32) -> Self {
        Self(format!("{name}@{}-m{k}", at.format(STAMP)))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What the id says.
    pub fn parts(&self) -> RunIdParts<'_> {
        let Some((name, rest)) = self.0.split_once('@') else {
            return RunIdParts::Chosen { name: &self.0 };
        };
        match parse_stamp(rest) {
            Some((at, None)) => RunIdParts::Occurrence { name, at },
            Some((at, Some(k))) => RunIdParts::Manual { name, at, k },
            None => RunIdParts::Chosen { name: &self.0 },
        }
    }

    /// The part before `@`.
    pub fn name(&self) -> &str {
        match self.parts() {
            RunIdParts::Occurrence { name, .. }
            | RunIdParts::Manual { name, .. }
            | RunIdParts::Chosen { name } => name,
        }
    }

    /// The UTC date that the id carries; a chosen id carries none.
    pub fn date(&self) -> Option<NaiveDate> {
        self.stamp().map(|at| at.date_naive())
    }

    /// The UTC second that the id carries; a chosen id carries none.
    pub fn stamp(&self) -> Option<DateTime<Utc>> {
        match self.parts() {
            RunIdParts::Occurrence { at, .. } | RunIdParts::Manual { at, .. } => Some(at),
            RunIdParts::Chosen { .. } => None,
        }
    }
}

/// `<stamp>` or `<stamp>-m<k>`, in exactly the form that the constructors write.
fn parse_stamp(text: &str) -> Option<(DateTime<Utc>, Option<u32>)> {
    let (stamp, k) = match text.split_once("-m") {
        Some((stamp, k)) => (stamp, Some(k)),
        None => (text, None),
    };
    let shape_holds = stamp.len() == 16
        && stamp.bytes().enumerate().all(|(i, b)| match i {
            8 => b == b'T',
            15 => b == b'Z',
            _ => b.is_ascii_digit(),
        });
    if !shape_holds {
        return None;
    }
    let at = NaiveDateTime::parse_from_str(stamp, STAMP).ok()?.and_utc();
    if at.timestamp_subsec_nanos() != 0 {
        return None; // a leap second has no instant of its own
    }
    match k {
        None => Some((at, None)),
        Some(k) if !k.is_empty() && !k.starts_with('0') && k.bytes().all(|b| b.is_ascii_digit()) => {
            Some((at, Some(k.parse().ok()?)))
        }
        Some(_) => None,
    }
}

impl FromStr for RunId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        const KIND: &str = "run id";
        if let Some((name, rest)) = text.split_once('@') {
            check_id(KIND, name)?;
            if parse_stamp(rest).is_none() {
                return Err(InvalidId {
                    kind: KIND,
                    text: text.chars().take(120).collect(),
                    why: "after '@' it must be YYYYMMDDTHHMMSSZ, with -m1, -m2, … for a manual start",
                });
            }
        } else {
            check_id(KIND, text)?;
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The index of a slot, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotIndex(pub u32);

impl fmt::Display for SlotIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The SHA-256 of a pinned workflow, as 64 lowercase hex digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(String);

impl Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        use sha2::Digest as _;
        use std::fmt::Write as _;
        let mut hex = String::with_capacity(64);
        for byte in sha2::Sha256::digest(bytes) {
            let _ = write!(hex, "{byte:02x}");
        }
        Self(hex)
    }

    /// The digest as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Digest {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        if text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidId {
                kind: "digest",
                text: text.chars().take(80).collect(),
                why: "it must be 64 lowercase hex digits",
            })
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_id_can_leave_the_store() {
        for bad in ["", ".", "..", "../x", "a/b", "/a", ".hidden", "-x", "a\0b", "a b", "é", &"x".repeat(65)]
        {
            assert!(bad.parse::<ScheduleId>().is_err(), "{bad:?}");
            assert!(bad.parse::<StepId>().is_err(), "{bad:?}");
            assert!(bad.parse::<RunId>().is_err(), "{bad:?}");
            assert!(format!("{bad}@20261201T040000Z").parse::<RunId>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn run_ids_say_their_occurrence_and_go_back_to_the_same_text() {
        let run: RunId = "nightly@20261201T040000Z".parse().unwrap();
        assert!(matches!(run.parts(), RunIdParts::Occurrence { name: "nightly", .. }));
        assert_eq!(run.date().unwrap().to_string(), "2026-12-01");
        let at = run.stamp().unwrap();
        assert_eq!(RunId::for_occurrence(&"nightly".parse().unwrap(), at), run);
        let manual = RunId::for_manual(&"nightly".parse().unwrap(), at, 3);
        assert_eq!(manual.as_str(), "nightly@20261201T040000Z-m3");
        assert!(matches!(manual.parts(), RunIdParts::Manual { k: 3, .. }));
    }

    #[test]
    fn malformed_stamps_are_refused() {
        for bad in [
            "a@",
            "a@2026",
            "a@20261301T000000Z",
            "a@20261201T000060Z",
            "a@20261201T000000Z-m0",
            "a@20261201T000000Z-m",
            "a@20261201T000000Z-x1",
            "a@b@20261201T000000Z",
            "a@+0261201T000000Z",
        ] {
            assert!(bad.parse::<RunId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_digest_is_the_sha256_in_hex() {
        let empty = Digest::of(b"");
        assert_eq!(empty.as_str(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(empty.as_str().parse::<Digest>().unwrap(), empty);
        assert!("E3".parse::<Digest>().is_err());
    }
}
