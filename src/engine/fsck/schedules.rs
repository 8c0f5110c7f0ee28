//! The schedules: their definitions, their cursors, and the receipts of times that never became runs.

use std::path::Path;

use super::check::{Check, KnownSchedule};
use crate::{
    domain::{
        ids::ScheduleId,
        schedule::{Schedule, Unrun},
        time,
    },
    store::{
        StoreError,
        disk::Kind,
        due::{self, Line, Look},
        layout,
        receipts::{self, NewestFirst},
        schedules,
    },
};

pub(super) fn check(check: &mut Check<'_>) {
    check_index(check);
    for entry in check.entries(Path::new(layout::SCHEDULES)) {
        let path = Path::new(layout::SCHEDULES).join(&entry.name);
        let Ok(id) = entry.name.parse::<ScheduleId>() else {
            check.unknown(&path);
            continue;
        };
        if check.expect(&path, entry.kind, Kind::Folder) {
            check_schedule(check, &id, &path);
        }
    }
}

/// The index of due times must not let a tick look at a schedule later than the schedule itself would.
fn check_index(check: &mut Check<'_>) {
    let disk = check.disk();
    for Line { id, look } in due::load(disk).unwrap_or_default() {
        let truth = |id| match schedules::load(disk, id) {
            Ok(Some(schedule)) => Look::of(&schedule),
            Ok(None) | Err(_) => Look::Always,
        };
        if look.covers(&truth(&id)) {
            continue;
        }
        // It may have changed meanwhile; what is wrong stays wrong while the schedule stands still.
        let before = truth(&id);
        let again = due::load(disk).and_then(|lines| lines.into_iter().find(|line| line.id == id));
        if before == truth(&id) && again.is_some_and(|line| !line.look.covers(&before)) {
            let what = format!("it lets schedule {id} wait for longer than the schedule itself says");
            check.error(Path::new(layout::DUE), what, "remove the file: the next tick makes it again");
        }
    }
}

fn check_schedule(check: &mut Check<'_>, id: &ScheduleId, dir: &Path) {
    check.summary.schedules += 1;
    let (definition, history) = (layout::schedule(id), layout::schedule_history(id));
    let mut has_history = false;
    for entry in check.entries(dir) {
        let path = dir.join(&entry.name);
        if path == definition {
            check.expect(&path, entry.kind, Kind::File);
        } else if path == history {
            has_history = check.expect(&path, entry.kind, Kind::File);
        } else {
            check.unknown(&path);
        }
    }
    let schedule = match schedules::load(check.disk(), id) {
        Ok(Some(schedule)) => Some(schedule),
        Ok(None) => {
            let what = "it holds no definition: a command was interrupted, or the file was removed";
            check.warning(dir, what, format!("wfctl schedule FILE --id {id} writes one"));
            None
        }
        Err(error) => {
            check.error(&definition, why_of(error), "restore the file from a backup");
            None
        }
    };
    if let Some(schedule) = &schedule {
        check_definition(check, schedule, &definition);
    }
    if let Some(schedule) = &schedule {
        check_length(check, schedule, &history);
    }
    if has_history {
        check_history(check, id, schedule.as_ref(), &history);
    }
    let (cursor, ahead) = schedule.map(|schedule| (schedule.cursor, schedule.ahead)).unzip();
    let ahead = ahead.unwrap_or_default();
    check.schedules.insert(id.clone(), KnownSchedule { cursor, ahead, has_history });
}

/// The rule that was broken, without the path that the finding names already.
fn why_of(error: StoreError) -> String {
    match error {
        StoreError::Corrupt { why, .. } => why,
        other => other.to_string(),
    }
}

fn check_definition(check: &mut Check<'_>, schedule: &Schedule, path: &Path) {
    let id = &schedule.id;
    if schedule.removed.is_some() {
        return;
    }
    if let Some(fault) = check.workflow_fault(&schedule.definition.workflow) {
        check.error(path, fault, format!("wfctl schedule FILE --id {id} --replace pins it again"));
    }
    if schedule.is_ahead_of(check.now) {
        let cursor = time::format_instant(schedule.cursor);
        let what = format!("it is settled up to {cursor}, which is ahead of the clock");
        check.warning(path, what, format!("wfctl rewind {id} sets it back to now"));
    }
}

/// A history is only ever appended to, so it is never shorter than the cursor was told.
fn check_length(check: &mut Check<'_>, schedule: &Schedule, path: &Path) {
    let size = check.disk().read_at(path, 0, 0).map_or(0, |(_, size)| size);
    if size < schedule.receipts_len {
        let what = format!("receipts are missing: it has {size} of at least {} bytes", schedule.receipts_len);
        check.error(path, what, "restore the file from a backup");
    }
}

fn check_history(check: &mut Check<'_>, id: &ScheduleId, schedule: Option<&Schedule>, path: &Path) {
    let mut lines = match receipts::newest_first(check.disk(), id, None) {
        Ok(lines) => lines,
        Err(error) => return check.error(path, error.to_string(), "check its permissions"),
    };
    let mut newer: Option<Unrun> = None;
    for line in lines.by_ref() {
        let receipt = match line {
            Ok(receipt) => receipt,
            Err(error) => {
                check.error(path, why_of(error), "restore the file from a backup, or cut the line out");
                continue;
            }
        };
        check_receipt(check, path, &receipt, newer.as_ref());
        if newer.is_none()
            && let Some(schedule) = schedule.filter(|schedule| receipt.times.last > schedule.cursor)
        {
            let last = time::format_instant(receipt.times.last);
            let what = format!("it has a receipt for {last}, which is beyond the cursor of {}", schedule.id);
            check.warning(path, what, "the next tick of the schedule puts that right");
        }
        newer = Some(receipt);
    }
    warn_of_torn_tail(check, &lines, path);
}

fn warn_of_torn_tail(check: &mut Check<'_>, lines: &NewestFirst<'_>, path: &Path) {
    if lines.is_torn() {
        let what = "its last line is torn: a crash came while it was written";
        check.warning(path, what, "nothing relies on it; the next writer cuts it off");
    }
}

fn check_receipt(check: &mut Check<'_>, path: &Path, receipt: &Unrun, newer: Option<&Unrun>) {
    let times = &receipt.times;
    let (first, last) = (time::format_seconds(times.first), time::format_seconds(times.last));
    let is_sound = times.count > 0 && times.first <= times.last && (times.count == 1) == (first == last);
    if !is_sound {
        let what = format!("the receipt of {first} to {last} cannot count {} times", times.count);
        check.error(path, what, "restore the file from a backup");
    }
    if newer.is_some_and(|newer| newer.times.first <= times.last) {
        let what = format!("the receipt of {first} to {last} overlaps with the one behind it");
        check.error(path, what, "restore the file from a backup");
    }
}
