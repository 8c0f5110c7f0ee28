//! The runs: each a journal that folds, in the one folder where it belongs.

use std::path::{Path, PathBuf};

use chrono::{DateTime, NaiveDate, Utc};

use super::check::Check;
use crate::{
    domain::{
        ids::{RunId, RunIdParts, ScheduleId},
        time,
    },
    engine::query::Liveness,
    state::run::RunState,
    store::{
        disk::{Entry, Kind},
        journal::{self, Contents},
        layout, receipts, runs,
    },
};

/// Where a run's folder was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Active,
    Done(NaiveDate),
}

pub(super) fn check(check: &mut Check<'_>) {
    check_folder(check, Path::new(layout::ACTIVE), Place::Active);
    for entry in check.entries(Path::new(layout::DONE)) {
        let path = Path::new(layout::DONE).join(&entry.name);
        let day = NaiveDate::parse_from_str(&entry.name, "%Y-%m-%d").ok();
        let Some(day) = day.filter(|day| layout::done_day(*day) == path) else {
            check.unknown(&path);
            continue;
        };
        if check.expect(&path, entry.kind, Kind::Folder) {
            check_folder(check, &path, Place::Done(day));
        }
    }
}

fn check_folder(check: &mut Check<'_>, folder: &Path, place: Place) {
    for entry in check.entries(folder) {
        let dir = folder.join(&entry.name);
        let Ok(run) = entry.name.parse::<RunId>() else {
            check.unknown(&dir);
            continue;
        };
        if check.expect(&dir, entry.kind, Kind::Folder) {
            check_run(check, &run, &dir, place);
        }
    }
}

fn check_run(check: &mut Check<'_>, run: &RunId, dir: &Path, place: Place) {
    check.summary.runs += 1;
    (check.progress)(check.summary.runs);
    let files = check.entries(dir);
    for file in &files {
        check_file(check, dir, file);
    }
    let path = layout::journal(dir);
    let Some(state) = read_state(check, &path, dir, &files, place) else { return };
    let admitted = &state.admitted;
    if admitted.run != *run {
        let what = format!("it is the journal of {}", admitted.run);
        return check.error(&path, what, "move the folder back to its own name");
    }
    check_id(check, &path, &state);
    check_place(check, dir, &state, place);
    check_schedule(check, &path, &state);
    check_keys(check, &path, &state);
    if let Some(fault) = check.workflow_fault(&admitted.workflow) {
        let hint = "schedule or run the original workflow file again: that pins it again";
        if state.is_finished() {
            check.warning(&path, fault, hint);
        } else {
            check.error(&path, fault, hint);
        }
    }
    if state.is_executing() && place == Place::Active {
        check_execution(check, run, dir);
    }
}

fn check_file(check: &mut Check<'_>, dir: &Path, file: &Entry) {
    let path = dir.join(&file.name);
    let is_known = file.name == layout::JOURNAL
        || file.name == layout::CANCEL_REQUEST
        || layout::is_step_file(&file.name)
        || Path::new(&file.name).extension().is_some_and(|extension| extension == "log");
    if is_known || file.kind != Kind::File {
        if check.is_there(&path) {
            check.expect(&path, file.kind, Kind::File);
        }
    } else {
        check.unknown(&path);
    }
}

/// The folded journal; none where it is damaged, which is reported, or where there is no run (any more).
fn read_state(
    check: &mut Check<'_>,
    path: &Path,
    dir: &Path,
    files: &[Entry],
    place: Place,
) -> Option<RunState> {
    let bytes = match check.disk().read(path) {
        Ok(bytes) => bytes,
        // It finished and moved while we looked.
        Err(_) if !check.is_there(dir) => return None,
        Err(_) if !check.is_there(path) => Vec::new(),
        Err(error) => {
            check.error(path, format!("it cannot be read: {error}"), "check the file and the disk");
            return None;
        }
    };
    let corrupt_hint = "restore the file from a backup; until then every command refuses this run";
    let contents = match journal::parse(&bytes) {
        Ok(contents) => contents,
        Err(corrupt) => {
            check.error(path, corrupt.to_string(), corrupt_hint);
            return None;
        }
    };
    if contents.records.is_empty() {
        report_no_record(check, path, dir, &bytes, files, place);
        return None;
    }
    warn_of_torn_tail(check, path, &bytes, &contents);
    if let Some(pair) = contents.records.windows(2).position(|pair| pair[0].0 > pair[1].0) {
        check.error(path, format!("line {}: it is older than the line before", pair + 2), corrupt_hint);
    }
    match journal::fold_records(&contents.records) {
        Ok(state) => state,
        Err(corrupt) => {
            check.error(path, corrupt.to_string(), corrupt_hint);
            None
        }
    }
}

/// A folder without a whole first record is what a crash leaves of an admission, or what is left of a run.
fn report_no_record(
    check: &mut Check<'_>,
    path: &Path,
    dir: &Path,
    bytes: &[u8],
    files: &[Entry],
    place: Place,
) {
    if place == Place::Active && !bytes.contains(&b'\n') {
        // A run that is being admitted right now looks the same for a moment.
        let what = "an interrupted command left the folder of a run that was never admitted";
        check.warning(dir, what, "the next tick sweeps it");
    } else if files.is_empty() {
        check.warning(dir, "an interrupted prune left an empty folder", "the next prune removes it");
    } else {
        check.error(path, "it has no whole first record", "restore the file from a backup");
    }
}

fn warn_of_torn_tail(check: &mut Check<'_>, path: &Path, bytes: &[u8], contents: &Contents) {
    let is_torn = contents.valid_len < bytes.len() as u64;
    // What is being written right now looks torn for a moment.
    if is_torn && check.disk().read(path).is_ok_and(|again| again == bytes) {
        let what = "its last line is torn: a crash came while it was written";
        check.warning(path, what, "nothing relies on it; the next writer cuts it off");
    }
}

/// The id must say the same as the first record.
fn check_id(check: &mut Check<'_>, path: &Path, state: &RunState) {
    let admitted = &state.admitted;
    let schedule = admitted.schedule.as_ref().map(ScheduleId::as_str);
    let says = |what: &str| format!("its first record contradicts the id {}: {what}", admitted.run);
    let mut wrong = Vec::new();
    match admitted.run.parts() {
        RunIdParts::Occurrence { name, at } => {
            wrong.extend((admitted.manual).then_some("it says that the run is manual"));
            wrong.extend((schedule != Some(name)).then_some("the schedule is another one"));
            wrong.extend((admitted.occurrence != at).then_some("the occurrence is another one"));
        }
        RunIdParts::Manual { name, at, .. } => {
            wrong.extend((!admitted.manual).then_some("it says that the run is not manual"));
            let is_other = schedule.is_some_and(|schedule| schedule != name);
            wrong.extend(is_other.then_some("the schedule is another one"));
            wrong.extend((admitted.occurrence != at).then_some("the occurrence is another one"));
        }
        RunIdParts::Chosen { .. } => {
            wrong.extend((!admitted.manual).then_some("it says that the run is not manual"));
        }
    }
    for what in wrong {
        check.error(path, says(what), "restore the file from a backup");
    }
}

fn check_place(check: &mut Check<'_>, dir: &Path, state: &RunState, place: Place) {
    let run = &state.admitted.run;
    let belongs = layout::done_day(runs::done_date(state)).join(run.as_str());
    match place {
        Place::Active if state.is_finished() => {
            let what = "the run is finished and was not moved to runs/done";
            check.warning(dir, what, "the next tick or recover moves it");
        }
        Place::Done(_) if !state.is_finished() => {
            let what = "the run is not finished, and no command looks for it here";
            let hint = format!("move the folder to {}", layout::active_run(run).display());
            check.error(dir, what, hint);
        }
        Place::Done(_) if dir != belongs => {
            let hint = format!("move the folder to {}", belongs.display());
            check.error(dir, "the run is in the folder of another day", hint);
        }
        Place::Active | Place::Done(_) => {}
    }
    if let Place::Done(_) = place {
        for other in other_places(check, state, dir, belongs) {
            let what = format!("the run exists a second time at {}", other.display());
            check.error(dir, what, "compare both, and move one of them out of the store");
        }
    }
}

/// Where else the folder of a finished run is.
fn other_places(check: &Check<'_>, state: &RunState, dir: &Path, belongs: PathBuf) -> Vec<PathBuf> {
    let mut places = vec![layout::active_run(&state.admitted.run), belongs];
    places.retain(|place| place != dir && check.is_there(place) && check.is_there(dir));
    places
}

/// What the schedule says of the occurrence must agree with there being a run.
fn check_schedule(check: &mut Check<'_>, path: &Path, state: &RunState) {
    let Some(id) = &state.admitted.schedule else { return };
    let Some(schedule) = check.schedules.get(id).cloned() else {
        let what = format!("its schedule {id} does not exist; a removed one would have left a tombstone");
        return check.warning(path, what, "restore the folder of the schedule from a backup");
    };
    let RunIdParts::Occurrence { at, .. } = state.admitted.run.parts() else { return };
    let behind = schedule.cursor.is_some_and(|cursor| cursor < at);
    // After a clock that ran ahead and a rewind, the runs of that time are ahead of the cursor.
    if behind && state.is_finished() && at <= check.now {
        let what = format!("the run is finished, and the cursor of {id} is still before its time");
        check.error(path, what, "the next tick puts that right; do not prune before");
    }
    if schedule.has_history && has_receipt(check, id, at) {
        let at = time::format_seconds(at);
        let what = format!("{at} has both a run and a receipt for skipped or missed times");
        check.error(path, what, format!("look at wfctl history --schedule {id}"));
    }
}

fn has_receipt(check: &Check<'_>, id: &ScheduleId, at: DateTime<Utc>) -> bool {
    let Ok(receipts) = receipts::newest_first(check.disk(), id, Some(at)) else { return false };
    let last = receipts.flatten().find(|receipt| receipt.times.first <= at);
    last.is_some_and(|receipt| receipt.times.last >= at)
}

/// A key is that of the execution itself, or of an earlier one of the same step.
fn check_keys(check: &mut Check<'_>, path: &Path, state: &RunState) {
    for (index, execution) in state.steps.iter().enumerate() {
        let own = format!("{}/{}", state.admitted.run, index + 1);
        let earlier = &state.steps[..index];
        let is_known = execution.key == own
            || earlier.iter().any(|other| other.step == execution.step && other.key == execution.key);
        if !is_known {
            let what = format!("execution {} has the idempotency key {:?}", index + 1, execution.key);
            check.error(path, what, "restore the file from a backup");
        }
    }
}

fn check_execution(check: &mut Check<'_>, run: &RunId, dir: &Path) {
    let is_abandoned =
        matches!(check.reader.load(run), Ok(Some(loaded)) if loaded.liveness == Liveness::Abandoned);
    if is_abandoned {
        let what = "the run is executing and nobody holds its slot: it was abandoned";
        check.warning(dir, what, format!("wfctl recover --run {run}"));
    }
}
