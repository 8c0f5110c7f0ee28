//! The slots: each free, live, or waiting for recovery; none for a run that has another.

use std::path::Path;

use super::check::{Check, repeated};
use crate::{
    domain::ids::SlotIndex,
    state::run::Phase,
    store::{
        disk::Kind,
        layout, runs,
        slots::{self, Holder, SlotState},
    },
};

pub(super) fn check(check: &mut Check<'_>) {
    let mut holders = Vec::new();
    for entry in check.entries(Path::new(layout::SLOTS)) {
        let path = Path::new(layout::SLOTS).join(&entry.name);
        let index = entry.name.parse::<u32>().ok().map(SlotIndex);
        let Some(index) = index.filter(|index| layout::slot(*index) == path) else {
            check.unknown(&path);
            continue;
        };
        if !check.expect(&path, entry.kind, Kind::File) {
            continue;
        }
        match slots::probe_twice(check.disk(), index) {
            Ok(state) => holders.extend(check_slot(check, &path, index, state)),
            Err(error) => check.error(&path, error.to_string(), "check its permissions"),
        }
    }
    for run in repeated(holders.into_iter().map(|holder| holder.run)) {
        let what = format!("more than one slot names run {run}");
        check.error(Path::new(layout::SLOTS), what, format!("wfctl recover --run {run}"));
    }
}

/// Checks one slot, and says who holds it.
fn check_slot(check: &mut Check<'_>, path: &Path, index: SlotIndex, state: SlotState) -> Option<Holder> {
    let capacity = check.store.settings().capacity;
    if index.0 >= capacity && state != SlotState::Free {
        let what = format!("it is taken and beyond the capacity of {capacity}");
        check.warning(path, what, "it is given up when its run ends");
    }
    match state {
        SlotState::Free => None,
        SlotState::Live(holder) => holder,
        SlotState::Abandoned(None) => {
            let what = "its content is garbage, so it counts as taken";
            check.warning(path, what, "wfctl recover gives it back");
            None
        }
        SlotState::Abandoned(Some(holder)) => {
            check_abandoned(check, path, &holder);
            Some(holder)
        }
    }
}

fn check_abandoned(check: &mut Check<'_>, path: &Path, holder: &Holder) {
    let run = &holder.run;
    let why = match runs::load(check.disk(), run) {
        Ok(Some(state)) => match &state.phase {
            Phase::Executing(executing) if executing.attempt == holder.attempt => {
                format!("attempt {} of run {run} was abandoned", holder.attempt)
            }
            Phase::Executing(_)
            | Phase::Queued(_)
            | Phase::Interrupted(_)
            | Phase::Completed { .. }
            | Phase::Failed(_)
            | Phase::Cancelled { .. } => {
                format!("it was not released after attempt {} of run {run}", holder.attempt)
            }
        },
        Ok(None) => format!("it was left by run {run}, which does not exist"),
        Err(_) => format!("it was left by run {run}, whose record cannot be read"),
    };
    check.warning(path, format!("{why}, and it counts as taken"), format!("wfctl recover --run {run}"));
}
