//! Several manual runs of one schedule, all of them admitted or none, whatever is killed when.
//!
//! They are written aside, made durable in one go, and admitted by one rename that marks the batch as
//! committed; moving the runs to `active` is only filing. Whoever next takes the lock for a tick finishes
//! a committed batch and forgets any other.

use std::{
    io,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{Engine, EngineError, admit};
use crate::{
    domain::{ids::RunId, schedule::Schedule, time},
    store::{
        StoreError,
        disk::{Disk, Kind, Replace},
        layout,
        lock::StoreLock,
        runs,
    },
};

const COMMITTED: &str = ".committed";

/// Admits one manual run of `schedule` for each input.
///
/// # Errors
/// When not all of them can be admitted; then none is.
pub fn admit(
    engine: &Engine<'_>,
    lock: &StoreLock<'_>,
    schedule: &Schedule,
    inputs: Vec<Value>,
) -> Result<Vec<RunId>, EngineError> {
    let disk = &**engine.disk();
    finish(engine, lock)?;
    let now = engine.now();
    let second = time::whole_seconds(now);
    let mut k = last_number(disk, schedule, second)?;
    let runs: Vec<RunId> = inputs
        .iter()
        .map(|_| {
            k += 1;
            RunId::for_manual(&schedule.id, second, k)
        })
        .collect();
    create_if_missing(disk, Path::new(layout::BATCHES))?;
    let dir = Path::new(layout::BATCHES).join(format!("{}-{}", engine.process.pid, second.timestamp()));
    create_if_missing(disk, &dir)?;
    let admitted = runs
        .iter()
        .zip(inputs)
        .map(|(run, input)| admit::admitted_by(schedule, run.clone(), second, true, Some(input)));
    let written = runs::write_batch(lock, disk, &dir, admitted, now)
        .and_then(|()| disk.sync_all().map_err(|e| StoreError::io("sync", &dir, e)));
    if let Err(error) = written {
        let _ = forget(disk, &dir);
        return Err(error.into());
    }
    let committed = committed_name(&dir);
    disk.rename(&dir, &committed, Replace::Refused).map_err(|e| StoreError::io("commit", &dir, e))?;
    if let Err(error) = sync_folder(disk, Path::new(layout::BATCHES)) {
        // Not known to be committed, and the caller will be told so: it must not come back by itself.
        let taken_back = disk.rename(&committed, &dir, Replace::Refused).is_ok();
        let _ = forget(disk, if taken_back { &dir } else { &committed });
        return Err(error.into());
    }
    // Committed is admitted, whether or not the runs can be filed now; the next tick files them.
    let _ = file_away(disk, &committed);
    Ok(runs)
}

/// Finishes what an earlier command left: a committed batch is filed, any other forgotten.
///
/// # Errors
/// When that cannot be done.
pub fn finish(engine: &Engine<'_>, _lock: &StoreLock<'_>) -> Result<(), EngineError> {
    let disk = &**engine.disk();
    let entries = match disk.list(Path::new(layout::BATCHES)) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(StoreError::io("list", layout::BATCHES, e).into()),
    };
    for entry in entries.iter().filter(|entry| entry.kind == Kind::Folder) {
        let dir = Path::new(layout::BATCHES).join(&entry.name);
        if entry.name.ends_with(COMMITTED) {
            file_away(disk, &dir)?;
        } else {
            forget(disk, &dir)?;
        }
    }
    Ok(())
}

fn committed_name(dir: &Path) -> PathBuf {
    let mut name = dir.as_os_str().to_owned();
    name.push(COMMITTED);
    PathBuf::from(name)
}

/// Moves the runs of a committed batch to `active`.
fn file_away(disk: &dyn Disk, dir: &Path) -> Result<(), StoreError> {
    for entry in disk.list(dir).map_err(|e| StoreError::io("list", dir, e))? {
        let from = dir.join(&entry.name);
        let to = Path::new(layout::ACTIVE).join(&entry.name);
        disk.rename(&from, &to, Replace::Refused)
            .map_err(|e| StoreError::io("move to its place", &from, e))?;
    }
    sync_folder(disk, Path::new(layout::ACTIVE))?;
    disk.remove_dir(dir).map_err(|e| StoreError::io("remove", dir, e))
}

fn forget(disk: &dyn Disk, dir: &Path) -> Result<(), StoreError> {
    for entry in disk.list(dir).map_err(|e| StoreError::io("list", dir, e))? {
        runs::remove_tree(disk, &dir.join(&entry.name))?;
    }
    disk.remove_dir(dir).map_err(|e| StoreError::io("remove", dir, e))
}

/// The highest number that a manual start of that second has.
fn last_number(
    disk: &dyn Disk,
    schedule: &Schedule,
    second: chrono::DateTime<chrono::Utc>,
) -> Result<u32, StoreError> {
    let prefix = format!("{}-m", RunId::for_occurrence(&schedule.id, second));
    let mut last = 0;
    for run in runs::list_active(disk)?.iter().chain(&runs::list_done(disk, second.date_naive())?) {
        if let Some(k) = run.as_str().strip_prefix(&prefix).and_then(|k| k.parse::<u32>().ok()) {
            last = last.max(k);
        }
    }
    Ok(last)
}

fn create_if_missing(disk: &dyn Disk, dir: &Path) -> Result<(), StoreError> {
    match disk.create_dir(dir) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(StoreError::io("create", dir, e)),
    }
}

fn sync_folder(disk: &dyn Disk, dir: &Path) -> Result<(), StoreError> {
    disk.sync_dir(dir).map_err(|e| StoreError::io("sync", dir, e))
}
