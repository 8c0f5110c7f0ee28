//! What may be where: the store's own folder, its settings and locks, and the pinned workflows.

use std::path::Path;

use super::check::Check;
use crate::{
    domain::ids::Digest,
    store::{
        disk::{Entry, Kind},
        layout, settings,
    },
};

pub(super) fn check(check: &mut Check<'_>) {
    check.check_mode(Path::new(""));
    if let Err(error) = settings::load(check.disk()) {
        check.error(Path::new(layout::SETTINGS), error.to_string(), "correct the file by hand");
    }
    let entries = check.entries(Path::new(""));
    for entry in &entries {
        check_entry(check, entry);
    }
    for folder in [layout::WORKFLOWS, layout::SCHEDULES, layout::SLOTS, layout::RUNS] {
        if !entries.iter().any(|entry| entry.name == folder) {
            check.error(Path::new(folder), "the folder is missing", "restore it from a backup");
        }
    }
    check_runs_folder(check);
    check_workflows(check);
}

fn check_entry(check: &mut Check<'_>, entry: &Entry) {
    let path = Path::new(&entry.name);
    match entry.name.as_str() {
        layout::SETTINGS | layout::LOCK | layout::DRAINING | layout::LAST_TICK | layout::DUE => {
            check.expect(path, entry.kind, Kind::File);
        }
        layout::WORKFLOWS | layout::SCHEDULES | layout::SLOTS | layout::RUNS => {
            check.expect(path, entry.kind, Kind::Folder);
        }
        name if name.starts_with(layout::TEMP_PREFIX) => {
            let what = "it is a temporary file that an interrupted command left";
            check.warning(path, what, "the next tick removes it");
        }
        _ => check.unknown(path),
    }
}

fn check_runs_folder(check: &mut Check<'_>) {
    let entries = check.entries(Path::new(layout::RUNS));
    for entry in &entries {
        let path = Path::new(layout::RUNS).join(&entry.name);
        if [layout::ACTIVE, layout::DONE, layout::BATCHES].iter().any(|known| path == Path::new(known)) {
            check.expect(&path, entry.kind, Kind::Folder);
        } else {
            check.unknown(&path);
        }
        if path == Path::new(layout::BATCHES) {
            for left in check.entries(&path) {
                let what = "an interrupted command left runs that were never admitted";
                check.warning(&path.join(left.name), what, "the next tick removes them");
            }
        }
    }
    for folder in [layout::ACTIVE, layout::DONE] {
        if !check.is_there(Path::new(folder)) {
            check.error(Path::new(folder), "the folder is missing", "restore it from a backup");
        }
    }
}

fn check_workflows(check: &mut Check<'_>) {
    for entry in check.entries(Path::new(layout::WORKFLOWS)) {
        let path = Path::new(layout::WORKFLOWS).join(&entry.name);
        let digest = entry.name.strip_suffix(".toml").and_then(|name| name.parse::<Digest>().ok());
        let Some(digest) = digest else {
            check.unknown(&path);
            continue;
        };
        if !check.expect(&path, entry.kind, Kind::File) {
            continue;
        }
        match check.disk().read(&path) {
            Ok(bytes) if Digest::of(&bytes) == digest => {}
            Ok(_) => {
                let hint = "schedule the original file again: that puts the snapshot right";
                check.error(&path, "its content was altered: it does not hash to its name", hint);
            }
            Err(error) => check.error(&path, format!("it cannot be read: {error}"), "check the disk"),
        }
    }
}
