//! The receipts of a schedule from the newest to the oldest, without reading what nobody asked for.
//!
//! A history only grows and its times only increase, so a place in it is found by halving, and from
//! there it is read backwards in small pieces: memory does not grow with history. A torn last line is
//! passed over; an earlier bad line is an error of its own, behind which the reading goes on.
//! Deliberately not here: writing receipts ([`super::schedules`]).

use std::{collections::VecDeque, io, path::PathBuf};

use chrono::{DateTime, Utc};

use super::{StoreError, disk::Disk, layout, schedules};
use crate::domain::{ids::ScheduleId, schedule::Unrun};

/// How much is read at once, in bytes: some lines. Small, because a listing holds a piece for each schedule.
const PIECE: u64 = 1024;

/// The receipts of one schedule, newest first.
#[derive(Debug)]
pub struct NewestFirst<'a> {
    disk: &'a dyn Disk,
    path: PathBuf,
    /// Where the unread part of the file ends, always at the end of a line.
    end: u64,
    /// Whether the next line that is read is the last one of the file.
    at_tail: bool,
    /// Lines that were read and not yet given out, newest first.
    lines: VecDeque<Vec<u8>>,
    /// Whether a torn last line was passed over.
    is_torn: bool,
}

/// The receipts of `id` whose first time is not after `not_after`, newest first. A schedule without a
/// history has none.
///
/// # Errors
/// When the history cannot be read.
pub fn newest_first<'a>(
    disk: &'a dyn Disk,
    id: &ScheduleId,
    not_after: Option<DateTime<Utc>>,
) -> Result<NewestFirst<'a>, StoreError> {
    let path = layout::schedule_history(id);
    let size = match disk.read_at(&path, 0, 0) {
        Ok((_, size)) => size,
        Err(e) if e.kind() == io::ErrorKind::NotFound => 0,
        Err(e) => return Err(StoreError::io("read", path, e)),
    };
    let mut found =
        NewestFirst { disk, path, end: size, at_tail: true, lines: VecDeque::new(), is_torn: false };
    if let Some(limit) = not_after {
        found.seek(limit)?;
    }
    Ok(found)
}

impl NewestFirst<'_> {
    /// Whether a torn last line was passed over so far.
    pub fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// Moves the end to a line that is not far behind the last one with a first time up to `limit`.
    fn seek(&mut self, limit: DateTime<Utc>) -> Result<(), StoreError> {
        let mut low = 0;
        while self.end - low > PIECE {
            let middle = low + (self.end - low) / 2;
            let Some((start, line)) = self.line_behind(middle)? else { return Ok(()) };
            let Some(receipt) = schedules::read_line(&line) else { return Ok(()) };
            if start >= self.end {
                return Ok(());
            }
            if receipt.times.first <= limit {
                low = start;
            } else {
                self.end = start;
                self.at_tail = false;
            }
        }
        Ok(())
    }

    /// The first whole line that starts behind `offset`, and where it starts.
    fn line_behind(&self, offset: u64) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
        let (bytes, _) = self.read(offset, PIECE * 4)?;
        let mut ends = bytes.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at);
        let (Some(before), Some(end)) = (ends.next(), ends.next()) else { return Ok(None) };
        Ok(Some((offset + before as u64 + 1, bytes[before + 1..end].to_vec())))
    }

    fn read(&self, offset: u64, len: u64) -> Result<(Vec<u8>, u64), StoreError> {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        self.disk.read_at(&self.path, offset, len).map_err(|e| StoreError::io("read", &self.path, e))
    }

    /// Reads the lines before the end, at least one where there is one.
    fn fill(&mut self) -> Result<(), StoreError> {
        let mut len = PIECE.min(self.end);
        while self.lines.is_empty() && self.end > 0 {
            let start = self.end - len;
            let (bytes, _) = self.read(start, len)?;
            if (bytes.len() as u64) < len {
                self.end = 0; // the file was replaced by a shorter one
                return Ok(());
            }
            // What is before the first line end belongs to a line that starts earlier.
            let inside = bytes[..bytes.len() - 1].iter().position(|b| *b == b'\n');
            let from = match inside {
                _ if start == 0 => 0,
                Some(at) => at + 1,
                None => {
                    len = (len * 2).min(self.end);
                    continue;
                }
            };
            let whole = bytes[from..].split_inclusive(|b| *b == b'\n');
            for line in whole {
                self.lines.push_front(line.to_vec());
            }
            self.end = start + from as u64;
        }
        Ok(())
    }
}

impl Iterator for NewestFirst<'_> {
    type Item = Result<Unrun, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.lines.is_empty()
                && let Err(error) = self.fill()
            {
                self.end = 0;
                return Some(Err(error));
            }
            let line = self.lines.pop_front()?;
            let was_tail = std::mem::replace(&mut self.at_tail, false);
            match line.strip_suffix(b"\n").and_then(schedules::read_line) {
                Some(receipt) => return Some(Ok(receipt)),
                None if was_tail => self.is_torn = true,
                None => {
                    let why = "a line's checksum or content is wrong".to_owned();
                    return Some(Err(StoreError::Corrupt { path: self.path.clone(), why }));
                }
            }
        }
    }
}
