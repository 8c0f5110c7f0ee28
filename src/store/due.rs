//! When each schedule is to be looked at next, in one file, so that an idle tick reads one file and not all
//! schedules.
//!
//! The index is a copy that can always be made again from the schedules. Invariant: it never says a later time
//! than a schedule itself would. [`lower`] comes before a schedule changes and [`settle`] after it, both under
//! the store lock, so whatever dies in between leaves a line that says "look". Nothing of it is synced: it
//! counts only for the boot, and for the folder of schedules, that its first line names, so that what a power
//! loss leaves of it is not believed. Small stores have none. Lines have one width and are sorted by id.
//! Deliberately not here: what is due ([`crate::domain::trigger`]).

use std::{fs::File, io, os::unix::fs::FileExt as _, path::Path};

use chrono::{DateTime, SubsecRound as _, TimeDelta, Utc};

use super::{
    StoreError,
    disk::{Create, Disk, Kind, Replace, read_outside},
    layout,
    lock::StoreLock,
};
use crate::domain::{ids::ScheduleId, schedule::Schedule, time, trigger::DstGap};

/// From how many schedules on there is an index: fewer are read faster than anybody notices.
pub const KEEP_FROM: usize = 200;

const ID: usize = 64;
const TIME: usize = 20;
/// An id, three times, blanks between them and a line end.
const WIDTH: usize = ID + 3 * (1 + TIME) + 1;
const HEAD: usize = 160;
const LOOK: &str = "look";
const NEVER: &str = "never";

/// What the index says of one schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The schedule.
    pub id: ScheduleId,
    /// When it is to be looked at.
    pub look: Look,
}

/// When a schedule is to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// At every tick: it changes just now, or cannot be read.
    Always,
    /// At the times that follow from its definition.
    At {
        /// From its next nominal time on, or one that its zone skips before; none: never again.
        from: Option<DateTime<Utc>>,
        /// When its next occurrence comes due, delay included.
        due: Option<DateTime<Utc>>,
        /// Before this time the clock must be wrong, which is worth a warning.
        ahead_until: Option<DateTime<Utc>>,
    },
}

impl Look {
    /// What `schedule` says of itself, where the last receipt of its history is for a time up to its cursor.
    pub fn of(schedule: &Schedule) -> Self {
        if !schedule.is_active() {
            return Self::At { from: None, due: None, ahead_until: None };
        }
        let trigger = &schedule.definition.trigger;
        let next = trigger.next_after(schedule.cursor);
        let skipped = match (trigger.definition().dst_gap, next) {
            (DstGap::Skip, Some(next)) => {
                trigger.nominal_window(schedule.cursor, next).skipped_by_gap().first().copied()
            }
            (DstGap::Skip | DstGap::Next, _) => None,
        };
        let from = match (next, skipped) {
            (Some(next), Some(skipped)) => Some(next.min(skipped)),
            (next, _) => next,
        };
        Self::At {
            from,
            due: next.map(|next| trigger.due_time(schedule.id.as_str(), next)),
            ahead_until: (schedule.cursor > trigger.initial_cursor()).then_some(schedule.cursor),
        }
    }

    /// Whether a tick at `now` looks, whose clock says `clock`.
    pub fn is_due(&self, now: DateTime<Utc>, clock: DateTime<Utc>) -> bool {
        match self {
            Self::Always => true,
            Self::At { from, ahead_until, .. } => {
                from.is_some_and(|from| from <= now) || ahead_until.is_some_and(|until| until > clock)
            }
        }
    }

    /// Whether nothing that `truth` asks for is missed by whoever believes this.
    pub fn covers(&self, truth: &Self) -> bool {
        let soon = |line: Option<DateTime<Utc>>, truth: Option<DateTime<Utc>>| {
            truth.is_none_or(|truth| line.is_some_and(|line| line <= truth))
        };
        match (self, truth) {
            (Self::Always, _) => true,
            (_, Self::Always) => false,
            (Self::At { from: a, ahead_until: x, .. }, Self::At { from: b, ahead_until: y, .. }) => {
                soon(*a, *b) && y.is_none_or(|y| x.is_some_and(|x| x >= y))
            }
        }
    }
}

/// The lines of the index; none where there is none that can be believed.
pub fn load(disk: &dyn Disk) -> Option<Vec<Line>> {
    let bytes = disk.read(Path::new(layout::DUE)).ok()?;
    let (head, lines) = bytes.split_at_checked(HEAD)?;
    if head != head_of(disk)?.as_bytes() || lines.len() % WIDTH != 0 {
        return None;
    }
    let parsed: Vec<Line> = lines.chunks_exact(WIDTH).map(parse).collect::<Option<_>>()?;
    parsed.is_sorted_by(|a, b| a.id < b.id).then_some(parsed)
}

/// Writes the whole index from the sorted lines of all schedules; that of a small store is removed. Where it
/// cannot be written there is none.
///
/// # Errors
/// When one that must not be believed cannot be removed.
pub fn write(_lock: &StoreLock<'_>, disk: &dyn Disk, lines: &[Line]) -> Result<(), StoreError> {
    let path = Path::new(layout::DUE);
    let head = head_of(disk).filter(|_| lines.len() >= KEEP_FROM);
    let Some(mut text) = head else {
        return match disk.kind(path) {
            Ok(Some(Kind::File)) => disk.remove_file(path).map_err(|e| StoreError::io("remove", path, e)),
            Ok(_) => Ok(()),
            Err(e) => Err(StoreError::io("look for", path, e)),
        };
    };
    for line in lines {
        text.push_str(&text_of(&line.id, line.look));
    }
    let temp = format!("{}{}-{}", layout::TEMP_PREFIX, std::process::id(), layout::DUE);
    let temp = Path::new(&temp);
    let _ = disk.remove_file(temp);
    let written = disk
        .write_scratch(temp, text.as_bytes())
        .and_then(|()| disk.rename(temp, Path::new(layout::DUE), Replace::Allowed));
    if written.is_err() {
        let _ = disk.remove_file(temp);
    }
    Ok(())
}

/// Replaces the line of a schedule that does not change.
///
/// # Errors
/// When it cannot be replaced and the index not be removed either.
pub fn set(_lock: &StoreLock<'_>, disk: &dyn Disk, line: &Line) -> Result<(), StoreError> {
    put(disk, &line.id, line.look)
}

/// Says that a schedule is to be looked at, before it changes.
///
/// # Errors
/// When that cannot be said and the index not be removed either.
pub fn lower(_lock: &StoreLock<'_>, disk: &dyn Disk, id: &ScheduleId) -> Result<(), StoreError> {
    put(disk, id, Look::Always)
}

/// Says when a schedule is to be looked at, once that is certain.
///
/// # Errors
/// When that cannot be said and the index not be removed either.
pub fn settle(_lock: &StoreLock<'_>, disk: &dyn Disk, schedule: &Schedule) -> Result<(), StoreError> {
    put(disk, &schedule.id, Look::of(schedule))
}

/// Replaces one line. An index that has no such line, or cannot be changed, is removed.
fn put(disk: &dyn Disk, id: &ScheduleId, look: Look) -> Result<(), StoreError> {
    let path = Path::new(layout::DUE);
    match disk.kind(path) {
        // Nobody believes what is no file.
        Ok(None | Some(Kind::Folder | Kind::Other)) => return Ok(()),
        Ok(Some(Kind::File)) if replace_line(disk, path, id, look).is_ok_and(|found| found.is_some()) => {
            return Ok(());
        }
        Ok(Some(Kind::File)) => {}
        Err(e) => return Err(StoreError::io("look for", path, e)),
    }
    disk.remove_file(path).map_err(|e| StoreError::io("remove", path, e))
}

fn replace_line(disk: &dyn Disk, path: &Path, id: &ScheduleId, look: Look) -> io::Result<Option<()>> {
    let file = disk.lock_file(path, Create::IfMissing)?;
    let Some(offset) = find(&file, id)? else { return Ok(None) };
    file.write_all_at(text_of(id, look).as_bytes(), offset)?;
    Ok(Some(()))
}

/// Where the line of `id` is, found by halving.
fn find(file: &File, id: &ScheduleId) -> io::Result<Option<u64>> {
    let count = file.metadata()?.len().saturating_sub(HEAD as u64) / WIDTH as u64;
    let (mut low, mut high) = (0, count);
    let mut name = [0; ID];
    while low < high {
        let middle = low + (high - low) / 2;
        let offset = HEAD as u64 + middle * WIDTH as u64;
        file.read_exact_at(&mut name, offset)?;
        let found = name.split(|byte| *byte == b' ').next().unwrap_or_default();
        match found.cmp(id.as_str().as_bytes()) {
            std::cmp::Ordering::Equal => return Ok(Some(offset)),
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
        }
    }
    Ok(None)
}

/// The first line: what the index counts for. None where the system does not tell.
fn head_of(disk: &dyn Disk) -> Option<String> {
    let boot = read_outside(Path::new("/proc/sys/kernel/random/boot_id"), 64).ok()?;
    let boot = std::str::from_utf8(&boot).ok()?.trim();
    let folder = disk.stamp(Path::new(layout::SCHEDULES)).ok()??;
    let head = format!("wfctl-due 1 boot {boot} schedules {folder}");
    (head.len() < HEAD).then(|| format!("{head:<width$}\n", width = HEAD - 1))
}

fn text_of(id: &ScheduleId, look: Look) -> String {
    let [from, due, ahead] = match look {
        Look::Always => [LOOK; 3].map(str::to_owned),
        Look::At { from, due, ahead_until } => {
            // A cursor inside of a second counts as its end, which only makes a tick look once more.
            let ahead = ahead_until.map(|at| match at.trunc_subsecs(0) {
                whole if whole == at => at,
                whole => whole + TimeDelta::seconds(1),
            });
            [from, due, ahead].map(|at| at.map_or_else(|| NEVER.to_owned(), time::format_seconds))
        }
    };
    let line = format!("{:<ID$} {from:<TIME$} {due:<TIME$} {ahead:<TIME$}\n", id.as_str());
    // A year of more than four digits is nobody's business to wait for.
    if line.len() == WIDTH || look == Look::Always { line } else { text_of(id, Look::Always) }
}

fn parse(line: &[u8]) -> Option<Line> {
    let line = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let mut words = line.split_ascii_whitespace();
    let id = words.next()?.parse().ok()?;
    let [from, due, ahead] = [words.next()?, words.next()?, words.next()?];
    let time = |word: &str| match word {
        NEVER => Some(None),
        _ => time::parse_instant(word).map(Some),
    };
    let look = match (from, due, ahead) {
        (LOOK, LOOK, LOOK) => Look::Always,
        _ => Look::At { from: time(from)?, due: time(due)?, ahead_until: time(ahead)? },
    };
    words.next().is_none().then_some(Line { id, look })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        time::parse_instant(text).unwrap()
    }

    #[test]
    fn a_line_is_read_back_and_has_one_width() {
        let far = at("2026-12-01T04:00:00Z");
        let looks = [
            Look::Always,
            Look::At { from: None, due: None, ahead_until: None },
            Look::At { from: Some(far), due: Some(far), ahead_until: Some(far) },
        ];
        for id in ["a", "A_long.id-with_sixty.four-characters_in.it-is_the.longest-there-"] {
            for look in looks {
                let id: ScheduleId = id.parse().unwrap();
                let text = text_of(&id, look);
                assert_eq!(text.len(), WIDTH);
                assert_eq!(parse(text.as_bytes()), Some(Line { id, look }));
            }
        }
        assert_eq!(parse(&[b' '; WIDTH]), None);
    }

    #[test]
    fn a_line_covers_what_comes_no_earlier() {
        let (soon, late) = (Some(at("2026-12-01T04:00:00Z")), Some(at("2026-12-02T04:00:00Z")));
        let look = |from, ahead_until| Look::At { from, due: from, ahead_until };
        assert!(look(soon, None).covers(&look(late, None)));
        assert!(look(soon, None).covers(&look(None, None)));
        assert!(!look(late, None).covers(&look(soon, None)));
        assert!(!look(None, None).covers(&look(soon, None)));
        assert!(Look::Always.covers(&look(soon, late)) && !look(soon, late).covers(&Look::Always));
        assert!(!look(soon, soon).covers(&look(soon, late)));
    }
}
