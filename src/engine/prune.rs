//! Deleting finished runs. Never an unfinished or ambiguous one, and never one whose occurrence could be
//! admitted again: the schedule's cursor must stand behind it for good first.

use std::{collections::HashMap, time::Duration};

use chrono::{DateTime, Utc};

use super::{Engine, EngineError, admit, recover::Mode};
use crate::{
    domain::ids::RunId,
    state::run::RunState,
    store::{StoreError, layout, lock::StoreLock, runs},
};

/// How many runs are deleted under one hold of the lock, so that others get their turn.
const SLICE: usize = 200;

/// How many days a tick looks at: one that holds something that may not go must not keep the others.
const DAYS: usize = 4;
/// How many runs a tick looks at.
pub const TICK_SLICE: usize = 50;

/// What is deleted.
#[derive(Debug, Clone)]
pub struct Options {
    /// Runs whose last record is older than this; none: the store's `keep`.
    pub older_than: Option<Duration>,
    /// The newest so many of each schedule are kept whatever their age.
    pub keep: Option<u64>,
    /// Whether anything is deleted.
    pub mode: Mode,
}

/// What was, or would be, deleted.
#[derive(Debug, Default)]
pub struct Pruned {
    /// The first of the runs, newest first; no more than [`NAMED`], whatever the number.
    pub runs: Vec<RunId>,
    /// How many there were.
    pub count: u64,
}

/// How many deleted runs are named.
pub const NAMED: usize = 1000;

/// Deletes finished runs by age and number.
///
/// # Errors
/// When something cannot be deleted; what can be is deleted all the same, for on a full disk that is what
/// makes room for the rest.
pub fn prune(engine: &Engine<'_>, options: &Options, progress: &dyn Fn(u64)) -> Result<Pruned, EngineError> {
    let age = options.older_than.or(engine.store.settings().keep);
    // By number alone, age plays no part.
    let age = if options.keep.is_some() && options.older_than.is_none() { Some(Duration::ZERO) } else { age };
    let Some(before) = age.and_then(|age| before(engine.now(), age)) else { return Ok(Pruned::default()) };
    let mut pruned = Pruned::default();
    let mut kept: HashMap<String, u64> = HashMap::new();
    let mut failed: Option<EngineError> = None;
    for day in runs::done_days(&**engine.disk())? {
        let mut ids = runs::list_done(&**engine.disk(), day)?;
        ids.sort_unstable_by(|a, b| (b.stamp(), b).cmp(&(a.stamp(), a)));
        for slice in ids.chunks(SLICE) {
            let lock = engine.lock()?;
            for id in slice {
                let of_this = kept.entry(id.name().to_owned()).or_default();
                if *of_this < options.keep.unwrap_or(0) {
                    *of_this += 1;
                    continue;
                }
                match prune_one(engine, &lock, day, id, before, options.mode) {
                    Ok(true) => {
                        pruned.count += 1;
                        if pruned.runs.len() < NAMED {
                            pruned.runs.push(id.clone());
                        }
                    }
                    Ok(false) => {}
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
            progress(pruned.count);
        }
        if options.mode == Mode::Act {
            let _lock = engine.lock()?;
            // Only succeeds once the day is empty.
            let _ = engine.disk().remove_dir(&layout::done_day(day));
        }
    }
    failed.map_or(Ok(pruned), Err)
}

/// Applies the store's `keep` to at most `limit` of the oldest runs, as a tick does.
///
/// # Errors
/// When something cannot be deleted; the rest is deleted all the same.
pub fn prune_slice(engine: &Engine<'_>, lock: &StoreLock<'_>, limit: usize) -> Result<u64, EngineError> {
    let Some(keep) = engine.store.settings().keep else { return Ok(0) };
    let Some(before) = before(engine.now(), keep) else { return Ok(0) };
    let disk = &**engine.disk();
    let mut left = limit;
    let mut count = 0;
    let mut failed: Option<EngineError> = None;
    // A run is written after the day of its id began, so younger days hold nothing that is old enough.
    let old = runs::done_days(disk)?.into_iter().rev().take_while(|day| *day <= before.date_naive());
    for day in old.take(DAYS) {
        let ids = runs::list_done(disk, day)?;
        let mut pruned = 0;
        for id in ids.iter().take(left) {
            match prune_one(engine, lock, day, id, before, Mode::Act) {
                Ok(is_pruned) => pruned += u64::from(is_pruned),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        if pruned == ids.len() as u64 {
            let _ = disk.remove_dir(&layout::done_day(day));
        }
        count += pruned;
        left = left.saturating_sub(ids.len());
        if left == 0 {
            break;
        }
    }
    failed.map_or(Ok(count), Err)
}

fn before(now: DateTime<Utc>, age: Duration) -> Option<DateTime<Utc>> {
    now.checked_sub_signed(chrono::TimeDelta::from_std(age).ok()?)
}

fn prune_one(
    engine: &Engine<'_>,
    lock: &StoreLock<'_>,
    day: chrono::NaiveDate,
    id: &RunId,
    before: DateTime<Utc>,
    mode: Mode,
) -> Result<bool, EngineError> {
    let disk = &**engine.disk();
    let dir = layout::done_day(day).join(id.as_str());
    // A run of a time to come, which a wrong clock has admitted, keeps that time from being admitted again.
    let is_to_come = |state: &RunState| !state.admitted.manual && state.admitted.occurrence > engine.now();
    let is_old = |state: &RunState| state.is_finished() && state.updated_at <= before && !is_to_come(state);
    match runs::load_at(disk, &dir, id) {
        Ok(Some(state)) if is_old(&state) => {
            if mode == Mode::Act {
                if let Err(error) = admit::outlive_occurrence(engine, lock, &state) {
                    // On a full disk the cursor cannot be written before something else is gone.
                    if !runs::remove_attachments(disk, &dir)? {
                        return Err(error);
                    }
                    admit::outlive_occurrence(engine, lock, &state)?;
                }
                runs::remove_tree(disk, &dir)?;
            }
            Ok(true)
        }
        // What an interrupted prune left of a folder; the run in it was deleted before.
        Ok(None) => {
            if mode == Mode::Act {
                runs::sweep_unadmitted(disk, &dir)?;
            }
            Ok(false)
        }
        // A corrupt record is evidence; `fsck` names it and a person decides.
        Ok(_) | Err(StoreError::Corrupt { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
