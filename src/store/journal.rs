//! The journal of one run: read, checked, appended to.
//!
//! Invariants: what [`Journal::append`] returned from is durable; after any failed write or sync the
//! writer is gone, and what it may have left behind is cut off where that is possible, so that nothing
//! is taken for durable that is not. A torn last line is ignored by readers and cut off by the next writer.
//! Deliberately not here: what the events mean ([`crate::state::run`]).

use std::{
    io,
    path::{Path, PathBuf},
};

use chrono::{DateTime, Utc};

use super::{
    StoreError,
    disk::{Disk, DiskFile, Open},
    record::{self, BadLine},
};
use crate::{
    domain::{event::Event, time},
    state::run::RunState,
};

/// A record and when it was written.
pub type Record = (DateTime<Utc>, Event);

/// How much room is set aside behind the records before a step starts, in bytes: enough to note how
/// it ended even on a disk that fills up meanwhile.
const HEADROOM: u64 = 2048;
/// The block size that reservations are rounded to.
const BLOCK: u64 = 4096;
/// The longest single record that is read back, in bytes; longer ones cannot have been written.
const LONGEST: usize = 16 << 20;

/// No interrupted write leaves a whole record and then something else in one line: a line end was lost, and
/// taking the line for torn would forget a step that has started.
const HIDES: &str = "a whole record is followed by something else in its line";

/// What a journal's bytes say.
#[derive(Debug, Clone, PartialEq)]
pub struct Contents {
    /// The records, in order.
    pub records: Vec<Record>,
    /// How many bytes of the file they cover; what is behind is torn.
    pub valid_len: u64,
}

/// Why a journal's bytes are no journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct Corrupt {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
}

/// Reads a journal's bytes. A last line that is incomplete or fails its checksum is torn.
///
/// # Errors
/// At any earlier bad line, and at a last line whose checksum holds but whose content is senseless.
pub fn parse(bytes: &[u8]) -> Result<Contents, Corrupt> {
    let mut records = Vec::new();
    let mut offset = 0;
    while offset < bytes.len() {
        let line_no = records.len() + 1;
        let corrupt = |why: String| Corrupt { line: line_no, why };
        let rest = &bytes[offset..];
        let Some(end) = rest.iter().position(|b| *b == b'\n') else {
            if record::hides_record(rest) {
                return Err(corrupt(HIDES.to_owned()));
            }
            break;
        };
        let is_last = offset + end + 1 == bytes.len();
        if end > LONGEST {
            return Err(corrupt("the line is too long".to_owned()));
        }
        match record::decode(&rest[..end]) {
            Ok((n, at, event)) => {
                if n != line_no as u64 {
                    return Err(corrupt(format!("its number is {n}")));
                }
                records.push((at, event));
            }
            Err(BadLine::Checksum) if is_last && record::hides_record(&rest[..end]) => {
                return Err(corrupt(HIDES.to_owned()));
            }
            Err(BadLine::Checksum) if is_last => break,
            Err(bad) => return Err(corrupt(bad.to_string())),
        }
        offset += end + 1;
    }
    Ok(Contents { records, valid_len: offset as u64 })
}

/// Folds what a journal's bytes say; none where no record is whole.
///
/// # Errors
/// When a line is bad or an event cannot follow.
pub fn fold(bytes: &[u8]) -> Result<Option<RunState>, Corrupt> {
    fold_records(&parse(bytes)?.records)
}

/// Folds records; none where there are none.
///
/// # Errors
/// At the first event that cannot follow.
pub fn fold_records(records: &[Record]) -> Result<Option<RunState>, Corrupt> {
    let mut folded: Option<RunState> = None;
    for (index, (at, event)) in records.iter().enumerate() {
        let step = match folded.as_mut() {
            None => RunState::begin(event, *at).map(|state| folded = Some(state)),
            Some(state) => state.apply(event, *at),
        };
        step.map_err(|illegal| Corrupt { line: index + 1, why: illegal.to_string() })?;
    }
    Ok(folded)
}

/// What became of opening a journal.
#[derive(Debug)]
pub enum Opened {
    /// It is open, and this is what it says.
    Journal(Journal, Box<RunState>),
    /// No record is whole: the run was never admitted.
    Unadmitted,
    /// There is no such file.
    Absent,
}

/// A journal that is open for appending. Whoever holds one owns the run: it holds the store lock
/// and has seen that no slot names the run, or it holds the slot that does.
///
/// Events are staged first, which applies them to the state, and become durable together by
/// [`Journal::commit`]; nothing may be done on the strength of an event before that.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: Box<dyn DiskFile>,
    len: u64,
    reserved: u64,
    staged: Vec<u8>,
    /// Whether something torn follows the records; it is cut off before the first write.
    torn: bool,
}

impl Journal {
    /// Creates the journal of a new run with its first event staged.
    ///
    /// # Errors
    /// When the file exists or cannot be created; an illegal event is a bug and reported as such.
    pub fn create(
        disk: &dyn Disk,
        path: &Path,
        admitted: &Event,
        at: DateTime<Utc>,
    ) -> Result<(Self, RunState), StoreError> {
        let at = time::whole_millis(at);
        let state = RunState::begin(admitted, at).map_err(|e| StoreError::Bug(e.to_string()))?;
        let file = disk.open(path, Open::New).map_err(|e| StoreError::io("create", path, e))?;
        let mut staged = Vec::with_capacity(2048);
        record::encode(1, at, admitted, &mut staged);
        Ok((Self { path: path.to_owned(), file, len: 0, reserved: BLOCK, staged, torn: false }, state))
    }

    /// Opens the journal of a run for appending and folds it; a torn last line is cut off before the
    /// first write.
    ///
    /// # Errors
    /// When the file cannot be read, or the record is corrupt.
    pub fn open(disk: &dyn Disk, path: &Path) -> Result<Opened, StoreError> {
        let io = |what| move |e: io::Error| StoreError::io(what, path, e);
        let mut file = match disk.open(path, Open::Existing) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Opened::Absent),
            Err(e) => return Err(io("open")(e)),
        };
        let bytes = file.read_all().map_err(io("read"))?;
        let corrupt = |e: Corrupt| StoreError::Corrupt { path: path.to_owned(), why: e.to_string() };
        let contents = parse(&bytes).map_err(corrupt)?;
        let Some(state) = fold_records(&contents.records).map_err(corrupt)? else {
            return Ok(Opened::Unadmitted);
        };
        let len = contents.valid_len;
        let torn = len < bytes.len() as u64;
        let reserved = round_up(len);
        let journal = Self { path: path.to_owned(), file, len, reserved, staged: Vec::new(), torn };
        Ok(Opened::Journal(journal, Box::new(state)))
    }

    /// Applies an event to `state` and stages its record.
    ///
    /// # Errors
    /// When the event cannot follow, which is a bug of the caller.
    pub fn stage(
        &mut self,
        state: &mut RunState,
        event: &Event,
        at: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        // A clock that went back must not make a run end before it began.
        let at = time::whole_millis(at).max(state.updated_at);
        state.apply(event, at).map_err(|e| StoreError::Bug(e.to_string()))?;
        record::encode(state.n, at, event, &mut self.staged);
        Ok(())
    }

    /// Makes what is staged durable, in one write and one sync.
    ///
    /// # Errors
    /// When writing or syncing fails the writer is gone and the state that was staged must not be used
    /// any more: what is on disk decides, after the next lock.
    pub fn commit(mut self) -> Result<Self, StoreError> {
        if self.staged.is_empty() {
            return Ok(self);
        }
        if self.torn {
            self.file.truncate(self.len).map_err(|e| StoreError::io("cut the torn end of", &self.path, e))?;
            self.torn = false;
        }
        let written = self.file.append(&self.staged).map_err(|e| ("append to", e));
        match written.and_then(|()| self.file.sync().map_err(|e| ("sync", e))) {
            Ok(()) => {
                self.len += self.staged.len() as u64;
                self.staged.clear();
                Ok(self)
            }
            Err((what, error)) => {
                // What was not synced must not be believed by the next reader. Where even this fails,
                // the record stands as if a crash had come a moment later, which recovery copes with.
                let _ = self.file.truncate(self.len).and_then(|()| self.file.sync());
                Err(StoreError::io(what, &self.path, error))
            }
        }
    }

    /// Writes what is staged without a sync: the caller syncs many journals at once.
    ///
    /// # Errors
    /// When writing fails.
    pub fn write_unsynced(mut self) -> Result<(), StoreError> {
        self.file.append(&self.staged).map_err(|e| StoreError::io("append to", &self.path, e))
    }

    /// Sets room aside behind what is staged, so that the end of a step can be noted on a disk that has
    /// filled up meanwhile.
    ///
    /// # Errors
    /// When the disk is too full now; nothing was started yet, so nothing is lost.
    pub fn reserve_headroom(&mut self) -> Result<(), StoreError> {
        let wanted = self.len + self.staged.len() as u64 + HEADROOM;
        if wanted > self.reserved {
            let reserve = round_up(wanted);
            self.file.reserve(reserve).map_err(|e| StoreError::io("reserve room in", &self.path, e))?;
            self.reserved = reserve;
        }
        Ok(())
    }

    /// How many bytes its records take.
    #[expect(clippy::len_without_is_empty, reason = "a journal is never empty")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Where the journal is now; its folder was renamed.
    #[must_use]
    pub fn moved_to(self, path: PathBuf) -> Self {
        Self { path, ..self }
    }
}

fn round_up(len: u64) -> u64 {
    len.div_ceil(BLOCK) * BLOCK
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use proptest::prelude::*;

    use super::*;
    use crate::domain::event::{AttemptKind, AttemptStarted, Reason, Resolution};

    fn events() -> Vec<Event> {
        let started = AttemptStarted {
            attempt: 1,
            kind: AttemptKind::Dispatch,
            slot: None,
            pid: 1,
            host: "h".to_owned(),
            by: None,
            outcome: None,
            payload: Some(serde_json::Value::Null),
            note: Some("a \"note\"\nwith lines, \u{1F980} and \u{1b}[31m".to_owned()),
        };
        vec![
            Event::AttemptStarted(Box::new(started)),
            Event::StepStarted {
                attempt: 1,
                seq: 1,
                step: "a".parse().unwrap(),
                try_no: 1,
                key: "r/1".to_owned(),
            },
            Event::Fenced { attempt: 1, signal: "SIGTERM".to_owned() },
            Event::Failed { attempt: 1, reason: Reason::Ambiguous, error: "?".to_owned(), by: None },
            Event::Resolved { resolution: Resolution::Failed, note: None, by: "me".to_owned() },
        ]
    }

    fn journal() -> (Vec<u8>, Vec<Record>) {
        let mut bytes = Vec::new();
        let mut records = Vec::new();
        for (n, event) in (1..).zip(events()) {
            let at = DateTime::UNIX_EPOCH + TimeDelta::milliseconds(n);
            record::encode(u64::try_from(n).unwrap(), at, &event, &mut bytes);
            records.push((at, event));
        }
        (bytes, records)
    }

    #[test]
    fn what_was_written_is_read_back() {
        let (bytes, records) = journal();
        assert_eq!(parse(&bytes).unwrap(), Contents { records, valid_len: bytes.len() as u64 });
    }

    #[test]
    fn a_journal_that_was_cut_anywhere_is_the_records_before_the_cut() {
        let (bytes, records) = journal();
        for cut in 0..bytes.len() {
            let whole = bytes[..cut].split(|byte| *byte == b'\n').count() - 1;
            let contents = parse(&bytes[..cut]).unwrap();
            assert_eq!(contents.records, records[..whole], "cut at {cut}");
            assert!(contents.valid_len <= cut as u64);
        }
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let (bytes, records) = journal();
        for index in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[index] ^= 1 << (index % 8);
            if let Ok(contents) = parse(&flipped) {
                // Only the last record can be taken for torn.
                assert_eq!(contents.records, records[..records.len() - 1], "flipped at {index}");
            }
        }
    }

    proptest! {
        #[test]
        fn garbage_is_no_journal_and_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            if let Ok(contents) = parse(&bytes) {
                prop_assert!(contents.records.is_empty());
            }
        }

        #[test]
        fn a_damaged_journal_never_gains_a_record(
            index in 0usize..10_000,
            insert in proptest::collection::vec(any::<u8>(), 0..40),
            remove in 0usize..40,
        ) {
            let (mut bytes, records) = journal();
            let start = index % bytes.len();
            let end = (start + remove).min(bytes.len());
            bytes.splice(start..end, insert);
            if let Ok(contents) = parse(&bytes) {
                prop_assert!(contents.records.len() <= records.len());
                prop_assert_eq!(&records[..contents.records.len()], &contents.records[..]);
            }
        }
    }
}
