//! All runs from the newest to the oldest, by the names of their folders alone.
//!
//! The key of a run is the time in its id, or of a chosen id the time of its admission, then the id. A day's
//! folder in `done` holds exactly the runs whose keys lie on that day, so days are listed one after the
//! other, each at most once and only when the walk gets there. `active` is listed first: a run that
//! finishes meanwhile is then seen in both places, never in none, and given out once. (A finished run that
//! is retried in that very moment may be missed until the next listing.)

use std::{io, iter::Peekable, vec};

use chrono::{DateTime, NaiveDate, Utc};

use super::page::{Damage, Key};
use crate::{
    domain::ids::{RunId, RunIdParts},
    store::{Store, StoreError, journal, layout, runs},
};

/// Which runs a walk is about.
#[derive(Debug, Clone, Default)]
pub(super) struct Scope {
    /// Only runs whose id has this name before its time.
    pub(super) name: Option<String>,
    /// Only runs whose key (without the event) is at most this.
    pub(super) from: Option<Key>,
    /// Only runs that are not older.
    pub(super) since: Option<DateTime<Utc>>,
    /// Whether finished runs are wanted.
    pub(super) finished: Finished,
}

/// Whether a walk goes through `runs/done`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Finished {
    #[default]
    Included,
    Excluded,
}

/// One run on the way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Found {
    /// Its place.
    pub(super) key: Key,
    /// Which it is.
    pub(super) run: RunId,
}

/// Runs, newest first.
pub(super) struct Walk<'a> {
    store: &'a Store,
    scope: Scope,
    /// Oldest first, taken from the end.
    active: Vec<Found>,
    /// The day that is being walked, oldest first.
    day: Vec<Found>,
    /// The days before it, newest first.
    days: Peekable<vec::IntoIter<NaiveDate>>,
    last: Option<RunId>,
    /// What could not be read on the way.
    pub(super) damage: Vec<Damage>,
}

impl<'a> Walk<'a> {
    /// Begins a walk.
    pub(super) fn new(store: &'a Store, scope: Scope) -> Result<Self, StoreError> {
        let disk = &**store.disk();
        let active = runs::list_active(disk)?;
        let mut days = match scope.finished {
            Finished::Included => runs::done_days(disk)?,
            Finished::Excluded => Vec::new(),
        };
        let newest = scope.from.as_ref().map(|key| key.instant().date_naive());
        let oldest = scope.since.map(|since| since.date_naive());
        days.retain(|day| newest.is_none_or(|newest| *day <= newest));
        days.retain(|day| oldest.is_none_or(|oldest| *day >= oldest));
        let mut walk = Self {
            store,
            scope,
            active: Vec::new(),
            day: Vec::new(),
            days: days.into_iter().peekable(),
            last: None,
            damage: Vec::new(),
        };
        walk.active = walk.place(active, None);
        Ok(walk)
    }

    /// The keys of those runs that are wanted, oldest first. `day` is the folder they are in.
    fn place(&mut self, found: Vec<RunId>, day: Option<NaiveDate>) -> Vec<Found> {
        let mut placed = Vec::with_capacity(found.len());
        for run in found {
            if !self.is_named(&run) {
                continue;
            }
            let at = match run.stamp() {
                Some(at) => Ok(Some(at)),
                None => admitted_at(self.store, &run),
            };
            match at {
                Ok(Some(at)) if day.is_none_or(|day| day == at.date_naive()) => {
                    let key = Key::new(at, run.as_str(), 0);
                    if self.is_wanted(&key, at) {
                        placed.push(Found { key, run });
                    }
                }
                Ok(Some(_)) => self.damage.push(Damage {
                    subject: format!("run {run}"),
                    why: "it is in the folder of another day; see `wfctl fsck`".to_owned(),
                }),
                Ok(None) => {}
                Err(error) => self.damage.push(Damage::of(self.store, format!("run {run}"), error)),
            }
        }
        placed.sort_unstable();
        placed
    }

    fn is_named(&self, run: &RunId) -> bool {
        let Some(wanted) = self.scope.name.as_deref() else { return true };
        match run.parts() {
            RunIdParts::Occurrence { name, .. } | RunIdParts::Manual { name, .. } => name == wanted,
            RunIdParts::Chosen { .. } => false,
        }
    }

    fn is_wanted(&self, key: &Key, at: DateTime<Utc>) -> bool {
        let from = self.scope.from.as_ref();
        from.is_none_or(|from| (key.at, &key.id) <= (from.at, &from.id))
            && self.scope.since.is_none_or(|since| at >= since)
    }

    /// Lists the next day if it can hold a run that comes before the next active one.
    fn list_day_if_next(&mut self) -> bool {
        if !self.day.is_empty() {
            return false;
        }
        let active = self.active.last().map(|found| found.key.instant().date_naive());
        let Some(day) = self.days.next_if(|day| active.is_none_or(|active| *day >= active)) else {
            return false;
        };
        match runs::list_done(&**self.store.disk(), day) {
            Ok(found) => self.day = self.place(found, Some(day)),
            Err(error) => self.damage.push(Damage::of(self.store, format!("day {day}"), error)),
        }
        true
    }
}

impl Iterator for Walk<'_> {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        loop {
            if self.list_day_if_next() {
                continue;
            }
            let from_day = match (self.active.last(), self.day.last()) {
                (Some(active), Some(done)) => done.key >= active.key,
                (None, Some(_)) => true,
                (Some(_), None) => false,
                (None, None) => return None,
            };
            let found = if from_day { self.day.pop()? } else { self.active.pop()? };
            if self.last.as_ref() != Some(&found.run) {
                self.last = Some(found.run.clone());
                return Some(found);
            }
        }
    }
}

/// When a run was admitted, from the first line of its journal; none where it was not.
fn admitted_at(store: &Store, run: &RunId) -> Result<Option<DateTime<Utc>>, StoreError> {
    /// Most first lines are shorter.
    const HEAD: usize = 16 << 10;
    let disk = &**store.disk();
    for _ in 0..4 {
        let Some(dir) = runs::find(disk, run)? else { return Ok(None) };
        let path = layout::journal(&dir);
        let read = disk.read_at(&path, 0, HEAD).and_then(|(bytes, size)| {
            let is_whole = bytes.contains(&b'\n') || bytes.len() as u64 == size;
            if is_whole { Ok(bytes) } else { disk.read(&path) }
        });
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue, // moved, or never admitted
            Err(e) => return Err(StoreError::io("read", path, e)),
        };
        let Some(end) = bytes.iter().position(|b| *b == b'\n') else { return Ok(None) };
        let contents = journal::parse(&bytes[..=end])
            .map_err(|e| StoreError::Corrupt { path: path.clone(), why: e.to_string() })?;
        if let Some((at, _)) = contents.records.first() {
            return Ok(Some(*at));
        }
        let why = "line 1: the checksum does not match".to_owned();
        return Err(StoreError::Corrupt { path, why });
    }
    Ok(None)
}
