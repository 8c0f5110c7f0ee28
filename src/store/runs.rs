//! The folders of runs: found, listed, created, moved between `active` and `done`.
//!
//! The exclusive creation of a run's folder is its admission, so a run that exists anywhere is never
//! admitted again. A folder without a whole first record is what a crash left of an admission
//! that nobody was told of; it counts as nothing and is taken over or swept.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use chrono::{DateTime, NaiveDate, Utc};

use super::{
    StoreError,
    disk::{Disk, Kind, LARGEST_FILE, Replace},
    journal::{self, Journal, Opened, Record},
    layout,
    lock::StoreLock,
};
use crate::{
    domain::{
        event::{Admitted, Event, Seq},
        ids::RunId,
    },
    state::run::RunState,
};

/// A run that the holder of this value owns: its journal is open for appending.
#[derive(Debug)]
pub struct OpenRun {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    journal: Journal,
    state: RunState,
    is_new: bool,
}

/// What became of an admission.
#[derive(Debug)]
pub enum Creation {
    /// The run exists now.
    Created(OpenRun),
    /// It existed already.
    Exists,
}

/// The folder of a run, wherever it is; none where it does not exist.
///
/// # Errors
/// When the store cannot be read.
pub fn find(disk: &dyn Disk, run: &RunId) -> Result<Option<PathBuf>, StoreError> {
    // Finished runs move from active to done, so the second look at active catches a retry on its way back.
    let active = layout::active_run(run);
    if is_folder(disk, &active)? {
        return Ok(Some(active));
    }
    if let Some(done) = find_done(disk, run)? {
        return Ok(Some(done));
    }
    Ok(is_folder(disk, &active)?.then_some(active))
}

fn find_done(disk: &dyn Disk, run: &RunId) -> Result<Option<PathBuf>, StoreError> {
    if let Some(date) = run.date() {
        let path = layout::done_day(date).join(run.as_str());
        return Ok(is_folder(disk, &path)?.then_some(path));
    }
    for date in done_days(disk)? {
        let path = layout::done_day(date).join(run.as_str());
        if is_folder(disk, &path)? {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

fn is_folder(disk: &dyn Disk, path: &Path) -> Result<bool, StoreError> {
    Ok(disk.kind(path).map_err(|e| StoreError::io("look for", path, e))? == Some(Kind::Folder))
}

/// The ids of the runs in `active`, sorted; strange entries are passed over (`fsck` names them).
///
/// # Errors
/// When the folder cannot be read.
pub fn list_active(disk: &dyn Disk) -> Result<Vec<RunId>, StoreError> {
    list_folder(disk, layout::ACTIVE.as_ref())
}

/// The ids of the finished runs of one day, sorted.
///
/// # Errors
/// When the folder cannot be read.
pub fn list_done(disk: &dyn Disk, day: NaiveDate) -> Result<Vec<RunId>, StoreError> {
    list_folder(disk, &layout::done_day(day))
}

fn list_folder(disk: &dyn Disk, path: &Path) -> Result<Vec<RunId>, StoreError> {
    let entries = match disk.list(path) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound && path != Path::new(layout::ACTIVE) => Vec::new(),
        Err(e) => return Err(StoreError::io("list", path, e)),
    };
    let folders = entries.iter().filter(|entry| entry.kind == Kind::Folder);
    let mut runs: Vec<RunId> = folders.filter_map(|entry| entry.name.parse().ok()).collect();
    runs.sort_unstable();
    Ok(runs)
}

/// The days that have finished runs, newest first.
///
/// # Errors
/// When the folder cannot be read.
pub fn done_days(disk: &dyn Disk) -> Result<Vec<NaiveDate>, StoreError> {
    let entries = disk.list(layout::DONE.as_ref()).map_err(|e| StoreError::io("list", layout::DONE, e))?;
    let mut days: Vec<NaiveDate> = entries
        .iter()
        .filter(|entry| entry.kind == Kind::Folder)
        .filter_map(|entry| NaiveDate::parse_from_str(&entry.name, "%Y-%m-%d").ok())
        .collect();
    days.sort_unstable_by(|a, b| b.cmp(a));
    Ok(days)
}

/// The state of a run without taking any lock; none where there is no such run.
///
/// # Errors
/// When the journal cannot be read or is corrupt.
pub fn load(disk: &dyn Disk, run: &RunId) -> Result<Option<RunState>, StoreError> {
    Ok(read_journal(disk, run)?.map(|(_, state, _)| state))
}

/// The state of a run in a folder that is known; none where it is not there.
///
/// # Errors
/// When the journal cannot be read or is corrupt.
pub fn load_at(disk: &dyn Disk, dir: &Path, run: &RunId) -> Result<Option<RunState>, StoreError> {
    let path = layout::journal(dir);
    let bytes = match disk.read(&path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(StoreError::io("read", path, e)),
    };
    let corrupt = |e: journal::Corrupt| StoreError::Corrupt { path: path.clone(), why: e.to_string() };
    let Some(state) = journal::fold(&bytes).map_err(corrupt)? else { return Ok(None) };
    check_name(run, &state, &path)?;
    Ok(Some(state))
}

/// A run's folder, state and records without taking any lock; none where there is no such run.
///
/// # Errors
/// When the journal cannot be read or is corrupt.
pub fn read_journal(
    disk: &dyn Disk,
    run: &RunId,
) -> Result<Option<(PathBuf, RunState, Vec<Record>)>, StoreError> {
    for _ in 0..8 {
        let Some(dir) = find(disk, run)? else { return Ok(None) };
        let path = layout::journal(&dir);
        let bytes = match disk.read(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                if is_folder(disk, &dir)? {
                    return Ok(None); // an admission that never was
                }
                continue; // it moved between the two looks
            }
            Err(e) => return Err(StoreError::io("read", path, e)),
        };
        let corrupt = |e: journal::Corrupt| StoreError::Corrupt { path: path.clone(), why: e.to_string() };
        let records = journal::parse(&bytes).map_err(corrupt)?.records;
        let Some(state) = journal::fold_records(&records).map_err(corrupt)? else { return Ok(None) };
        check_name(run, &state, &path)?;
        return Ok(Some((dir, state, records)));
    }
    Ok(None)
}

/// A journal in another run's folder must not speak for it.
fn check_name(run: &RunId, state: &RunState, path: &Path) -> Result<(), StoreError> {
    if state.admitted.run == *run {
        return Ok(());
    }
    let why = format!("it is the journal of {}", state.admitted.run);
    Err(StoreError::Corrupt { path: path.to_owned(), why })
}

/// Begins to admit a run: creates its folder exclusively and stages `admitted`. The run is admitted
/// once [`OpenRun::commit`] has returned; until then it counts as nothing.
///
/// # Errors
/// When anything cannot be created; what was begun is taken back as far as that is possible.
pub fn create(
    _lock: &StoreLock<'_>,
    disk: &Arc<dyn Disk>,
    admitted: Admitted,
    at: DateTime<Utc>,
) -> Result<Creation, StoreError> {
    let dir = layout::active_run(&admitted.run);
    if find_done(&**disk, &admitted.run)?.is_some() {
        return Ok(Creation::Exists);
    }
    match disk.create_dir(&dir) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            if !sweep_unadmitted(&**disk, &dir)? {
                return Ok(Creation::Exists);
            }
            disk.create_dir(&dir).map_err(|e| StoreError::io("create", &dir, e))?;
        }
        Err(e) => return Err(StoreError::io("create", &dir, e)),
    }
    let path = layout::journal(&dir);
    match Journal::create(&**disk, &path, &Event::Admitted(Box::new(admitted)), at) {
        Ok((journal, state)) => {
            let disk = Arc::clone(disk);
            Ok(Creation::Created(OpenRun { disk, dir, journal, state, is_new: true }))
        }
        Err(error) => {
            let _ = disk.remove_dir(&dir);
            Err(error)
        }
    }
}

/// Writes the folders of new runs below `dir`, to be admitted together. Nothing of it is durable before
/// the caller has synced the whole disk, and nothing of it counts before it is in `active`.
///
/// # Errors
/// When anything cannot be written.
pub fn write_batch(
    _lock: &StoreLock<'_>,
    disk: &dyn Disk,
    dir: &Path,
    admitted: impl IntoIterator<Item = Admitted>,
    at: DateTime<Utc>,
) -> Result<(), StoreError> {
    for admitted in admitted {
        let run = dir.join(admitted.run.as_str());
        disk.create_dir(&run).map_err(|e| StoreError::io("create", &run, e))?;
        let event = Event::Admitted(Box::new(admitted));
        let (journal, _) = Journal::create(disk, &layout::journal(&run), &event, at)?;
        journal.write_unsynced()?;
    }
    Ok(())
}

/// Removes a run's folder that holds no whole first record. False where it holds one, or something
/// that is no trace of an admission.
///
/// # Errors
/// When it cannot be read or removed.
pub fn sweep_unadmitted(disk: &dyn Disk, dir: &Path) -> Result<bool, StoreError> {
    let io = |what| move |e| StoreError::io(what, dir, e);
    let entries = disk.list(dir).map_err(io("list"))?;
    match entries.as_slice() {
        [] => {}
        files if files.iter().all(|entry| entry.kind == Kind::File) => {
            let path = layout::journal(dir);
            if files.iter().any(|entry| entry.name == layout::JOURNAL) {
                let bytes = disk.read(&path).map_err(io("read"))?;
                // A complete line that fails its checksum may be damage to an acknowledged run rather than
                // a torn write; only what a crash can leave is swept.
                if bytes.contains(&b'\n') {
                    return Ok(false);
                }
            }
            // The files of a first step are made before it starts; without a record none ever did.
            for entry in files {
                if entry.name != layout::JOURNAL && !layout::is_step_file(&entry.name) {
                    return Ok(false);
                }
            }
            for entry in files {
                disk.remove_file(&dir.join(&entry.name)).map_err(io("sweep"))?;
            }
        }
        _ => return Ok(false),
    }
    disk.remove_dir(dir).map_err(io("sweep"))?;
    Ok(true)
}

/// Removes the files of a step execution that never began. Best effort.
pub fn remove_step_files(disk: &dyn Disk, dir: &Path, seq: Seq) {
    let digits = seq.to_string();
    let is_its = |name: &str| {
        layout::is_step_file(name)
            && name.strip_prefix(&digits).is_some_and(|rest| rest.starts_with(['.', '-']))
    };
    for entry in disk.list(dir).unwrap_or_default() {
        if is_its(&entry.name) {
            let _ = disk.remove_file(&dir.join(&entry.name));
        }
    }
}

/// Opens a run for appending; none where there is no such run. A finished run's folder stays in `done`.
///
/// # Errors
/// When the journal cannot be opened or is corrupt.
pub fn open(_lock: &StoreLock<'_>, disk: &Arc<dyn Disk>, run: &RunId) -> Result<Option<OpenRun>, StoreError> {
    // Most runs that are opened are unfinished, and while the lock is held no run comes back there.
    let active = layout::active_run(run);
    let (dir, opened) = match Journal::open(&**disk, &layout::journal(&active))? {
        Opened::Absent => {
            let Some(dir) = find(&**disk, run)?.filter(|dir| *dir != active) else { return Ok(None) };
            let opened = Journal::open(&**disk, &layout::journal(&dir))?;
            (dir, opened)
        }
        opened => (active, opened),
    };
    let path = layout::journal(&dir);
    let Opened::Journal(journal, state) = opened else { return Ok(None) };
    let state = *state;
    check_name(run, &state, &path)?;
    Ok(Some(OpenRun { disk: Arc::clone(disk), dir, journal, state, is_new: false }))
}

/// Makes the folder of a run that is in `active` durable.
///
/// # Errors
/// When that cannot be done.
pub fn sync_admission(disk: &dyn Disk, run: &RunId) -> Result<(), StoreError> {
    let dir = layout::active_run(run);
    if !is_folder(disk, &dir)? {
        return Ok(());
    }
    for folder in [dir.as_path(), Path::new(layout::ACTIVE)] {
        disk.sync_dir(folder).map_err(|e| StoreError::io("sync", folder, e))?;
    }
    Ok(())
}

impl OpenRun {
    /// The run's id.
    pub fn id(&self) -> &RunId {
        &self.state.admitted.run
    }

    /// The folded state.
    pub fn state(&self) -> &RunState {
        &self.state
    }

    /// Whether the journal has room for more than what must be recorded: outputs and payloads.
    pub fn has_room(&self) -> bool {
        self.journal.len() < LARGEST_FILE / 2
    }

    /// The run's folder, below the store.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Applies an event and stages its record, to become durable with the next [`OpenRun::commit`].
    ///
    /// # Errors
    /// When the event cannot follow, which is a bug of the caller.
    pub fn stage(&mut self, event: &Event, at: DateTime<Utc>) -> Result<(), StoreError> {
        self.journal.stage(&mut self.state, event, at)
    }

    /// Makes what is staged durable.
    ///
    /// # Errors
    /// When that fails the run is not owned any more; what is on disk decides, after the next lock. A
    /// run that was being admitted is taken back as far as that is possible.
    pub fn commit(self) -> Result<Self, StoreError> {
        let Self { disk, dir, journal, state, is_new } = self;
        let synced = journal.commit().and_then(|journal| {
            for folder in [dir.as_path(), Path::new(layout::ACTIVE)].into_iter().filter(|_| is_new) {
                disk.sync_dir(folder).map_err(|e| StoreError::io("sync", folder, e))?;
            }
            Ok(journal)
        });
        match synced {
            Ok(journal) => Ok(Self { disk, dir, journal, state, is_new: false }),
            Err(error) => {
                if is_new {
                    // The first record goes last, so that what is left is never a run with a hole.
                    let _ = remove_tree(&*disk, &dir);
                }
                Err(error)
            }
        }
    }

    /// Stages one event and makes it durable.
    ///
    /// # Errors
    /// As [`OpenRun::commit`].
    pub fn append(mut self, event: &Event, at: DateTime<Utc>) -> Result<Self, StoreError> {
        self.stage(event, at)?;
        self.commit()
    }

    /// Sets room aside for the records that end a step, see [`Journal::reserve_headroom`].
    ///
    /// # Errors
    /// When the disk is too full to start anything.
    pub fn reserve_headroom(&mut self) -> Result<(), StoreError> {
        self.journal.reserve_headroom()
    }

    /// Removes what only an execution needs: contexts, outputs and a request to cancel. What a step whose
    /// outcome is unknown has written stays for whoever finds out what it did. Best effort: nothing that is
    /// decided depends on it.
    pub fn sweep_scratch(&self) {
        let is_scratch = |name: &str| {
            name == layout::CANCEL_REQUEST
                || layout::is_context(name)
                || (layout::is_output(name) && !self.state.is_ambiguous())
        };
        for entry in self.disk.list(&self.dir).unwrap_or_default() {
            if is_scratch(&entry.name) {
                let _ = self.disk.remove_file(&self.dir.join(&entry.name));
            }
        }
    }

    /// Moves the folder to where the state belongs: finished runs to `done`, others to `active`. Needs no
    /// sync: after a crash, whoever next finds the folder in the wrong place moves it again.
    ///
    /// # Errors
    /// When the folder cannot be moved.
    pub fn file_away(self) -> Result<Self, StoreError> {
        if self.state.is_finished() { self.into_done() } else { self.into_active() }
    }

    /// Moves the folder to `active`, before a finished run is sent back: a run that is queued must never
    /// stay where no tick looks.
    ///
    /// # Errors
    /// When the folder cannot be moved or the move not be made durable.
    pub fn into_active(self) -> Result<Self, StoreError> {
        let target = layout::active_run(self.id());
        if self.dir == target {
            return Ok(self);
        }
        let run = self.moved(target)?;
        run.disk.sync_dir(layout::ACTIVE.as_ref()).map_err(|e| StoreError::io("sync", layout::ACTIVE, e))?;
        Ok(run)
    }

    fn into_done(self) -> Result<Self, StoreError> {
        let day = layout::done_day(done_date(&self.state));
        let target = day.join(self.id().as_str());
        if self.dir == target {
            return Ok(self);
        }
        match self.disk.create_dir(&day) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(StoreError::io("create", day, e)),
        }
        self.moved(target)
    }

    fn moved(self, target: PathBuf) -> Result<Self, StoreError> {
        self.disk
            .rename(&self.dir, &target, Replace::Refused)
            .map_err(|e| StoreError::io("move to its place", &target, e))?;
        let journal = self.journal.moved_to(layout::journal(&target));
        Ok(Self { journal, dir: target, ..self })
    }
}

/// The day under which a finished run is filed: that of its id, or else of its admission.
pub fn done_date(state: &RunState) -> NaiveDate {
    state.admitted.run.date().unwrap_or_else(|| state.created_at.date_naive())
}

/// Removes all files of a run but its journal. Whether there were any.
///
/// # Errors
/// As for [`remove_tree`].
pub fn remove_attachments(disk: &dyn Disk, dir: &Path) -> Result<bool, StoreError> {
    let io = |e| StoreError::io("remove", dir, e);
    let mut removed = false;
    for entry in disk.list(dir).map_err(io)? {
        if entry.name != layout::JOURNAL {
            disk.remove_file(&dir.join(&entry.name)).map_err(io)?;
            removed = true;
        }
    }
    Ok(removed)
}

/// Removes a run's folder and all files in it, the journal last: what is left after a crash half-way is
/// still a run, or nothing.
///
/// # Errors
/// When something cannot be removed; folders inside are strange and stop it.
pub fn remove_tree(disk: &dyn Disk, dir: &Path) -> Result<(), StoreError> {
    let io = |e| StoreError::io("remove", dir, e);
    remove_attachments(disk, dir)?;
    match disk.remove_file(&layout::journal(dir)) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(io(e)),
    }
    disk.remove_dir(dir).map_err(io)
}
