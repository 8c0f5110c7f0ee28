//! Pages: how many items, from where, and what was too damaged to be one.
//!
//! A cursor is the sort key of the last item that was given out, not an offset, so that items that come and
//! go between two pages neither repeat nor hide others. It is opaque: the hexadecimal digits of a
//! version, the kind of listing and the key, and a checksum that refuses what was cut or mistyped.

use std::fmt::{self, Write as _};

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::{
    engine::EngineError,
    store::{Store, StoreError},
};

/// Which part of a listing is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// At most so many items; 0 counts as 1.
    pub limit: usize,
    /// The `next_cursor` of the page before; none: from the newest.
    pub cursor: Option<String>,
}

/// A part of a listing, newest first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// Where the next page starts; none at the end.
    pub next_cursor: Option<String>,
    /// What could not be read on the way; for stderr.
    #[serde(skip)]
    pub corrupt: Vec<Damage>,
}

/// Something that could not be read, and did not stop the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// What, such as "run nightly@20261201T040000Z".
    pub subject: String,
    /// Why, with the file.
    pub why: String,
}

impl Damage {
    /// The damage that `error` tells of.
    pub fn of(store: &Store, subject: impl Into<String>, error: StoreError) -> Self {
        Self { subject: subject.into(), why: error.below(store.root()).to_string() }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.why)
    }
}

/// The place of an item in a listing. Listings go from the greatest key to the least.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// Milliseconds since the epoch.
    pub(super) at: i64,
    /// The run, or what would be the run.
    pub(super) id: String,
    /// The number of the event inside the run.
    pub(super) n: u64,
}

/// What a cursor belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listing {
    Runs,
    History,
    Schedules,
}

impl Listing {
    fn letter(self) -> &'static str {
        match self {
            Self::Runs => "r",
            Self::History => "h",
            Self::Schedules => "s",
        }
    }
}

impl Key {
    /// The key of something that happened at `at`.
    pub(super) fn new(at: DateTime<Utc>, id: &str, n: u64) -> Self {
        Self { at: at.timestamp_millis(), id: id.to_owned(), n }
    }

    /// The instant that the key holds.
    pub(super) fn instant(&self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.at).unwrap_or_default()
    }

    /// The cursor behind this item.
    pub(super) fn to_cursor(&self, listing: Listing) -> String {
        let text = format!("1 {} {} {} {}", listing.letter(), self.at, self.n, self.id);
        let crc = crc32c::crc32c(text.as_bytes());
        let mut hex = String::with_capacity(text.len() * 2 + 8);
        for byte in text.bytes().chain(crc.to_be_bytes()) {
            let _ = write!(hex, "{byte:02x}");
        }
        hex
    }

    /// The key that a request starts behind.
    ///
    /// # Errors
    /// [`EngineError::BadInput`] when the cursor is none of this listing.
    pub(super) fn of_request(request: &PageRequest, listing: Listing) -> Result<Option<Self>, EngineError> {
        let Some(cursor) = request.cursor.as_deref() else { return Ok(None) };
        match Self::parse(cursor, listing) {
            Some(key) => Ok(Some(key)),
            None => Err(EngineError::BadInput {
                what: "cursor".to_owned(),
                why: format!(
                    "{:?} is no cursor of this listing",
                    cursor.chars().take(40).collect::<String>()
                ),
                hint: "pass a next_cursor as it was given, or leave it out to start from the newest"
                    .to_owned(),
            }),
        }
    }

    fn parse(cursor: &str, listing: Listing) -> Option<Self> {
        let hex = cursor.as_bytes();
        if !hex.len().is_multiple_of(2) || hex.len() > 1024 {
            return None;
        }
        let digit = |b: u8| match b {
            b'0'..=b'9' => Some(b - b'0'),
            b'a'..=b'f' => Some(b - b'a' + 10),
            _ => None,
        };
        let bytes: Option<Vec<u8>> =
            hex.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect();
        let bytes = bytes?;
        let (text, crc) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
        if crc32c::crc32c(text).to_be_bytes() != crc {
            return None;
        }
        let mut parts = std::str::from_utf8(text).ok()?.splitn(5, ' ');
        if parts.next()? != "1" || parts.next()? != listing.letter() {
            return None;
        }
        let (at, n) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(Self { at, n, id: parts.next()?.to_owned() })
    }
}
