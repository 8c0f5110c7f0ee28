//! The state of a store as metrics in the text format of Prometheus.
//!
//! What is counted: everything unfinished, by one pass over `runs/active`; and of finished runs, skipped and
//! missed times those that are nominally of today or yesterday (UTC), at most [`NEWEST`] runs. So the cost
//! does not grow with history, and no counter has to be kept that a crash could falsify. All metrics are
//! gauges, because a window can shrink.
//! Deliberately not here: where the text goes.

mod text;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use serde_json::{Value, json};

use super::{
    EngineError,
    query::{read_status, view::StatusView},
};
use crate::{
    domain::{schedule::WhyUnrun, time},
    state::run::RunState,
    store::{
        Store, StoreError,
        disk::{Disk, Replace},
        layout, receipts, runs, schedules,
    },
};

/// How many finished runs are read at most.
pub const NEWEST: usize = 10_000;

/// What the last tick came to, as it is kept in the store for metrics and `status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastTick {
    /// When it began.
    pub at: DateTime<Utc>,
    /// How long it took, in milliseconds.
    pub ms: u64,
    /// Its exit status.
    pub exit: u8,
}

impl LastTick {
    /// What the store says; none where no tick has been or the file is of no use.
    pub fn load(store: &Store) -> Option<Self> {
        let bytes = store.disk().read(Path::new(layout::LAST_TICK)).ok()?;
        let value: Value = serde_json::from_slice(&bytes).ok()?;
        Some(Self {
            at: time::parse_instant(value["at"].as_str()?)?,
            ms: value["ms"].as_u64()?,
            exit: value["exit"].as_u64()?.try_into().ok()?,
        })
    }

    /// Keeps it. Nothing relies on it, so it is not synced, and where it cannot be written nothing happens.
    pub fn save(&self, store: &Store) {
        let document = json!({ "at": time::format_instant(self.at), "ms": self.ms, "exit": self.exit });
        let bytes = format!("{document}\n");
        let disk = &**store.disk();
        let name = format!("{}{}-{}", layout::TEMP_PREFIX, std::process::id(), layout::LAST_TICK);
        let temp = PathBuf::from(name);
        let _ = disk.remove_file(&temp);
        let written = disk
            .write_scratch(&temp, bytes.as_bytes())
            .and_then(|()| disk.rename(&temp, Path::new(layout::LAST_TICK), Replace::Allowed));
        if written.is_err() {
            let _ = disk.remove_file(&temp);
        }
    }
}

/// All that is measured.
#[derive(Debug)]
struct Measured {
    now: DateTime<Utc>,
    status: StatusView,
    /// By schedule and status.
    runs: BTreeMap<(String, &'static str), u64>,
    /// When the newest run of a schedule came to a status.
    last: BTreeMap<(String, &'static str), DateTime<Utc>>,
    /// By schedule and reason.
    unrun: BTreeMap<(String, &'static str, &'static str), u64>,
    is_complete: bool,
    unreadable: u64,
    last_tick: Option<LastTick>,
}

/// The metrics of the store at `now`.
///
/// # Errors
/// When its folders cannot be listed.
pub fn render(store: &Store, now: DateTime<Utc>) -> Result<String, EngineError> {
    Ok(text::render(&measure(store, now)?))
}

fn measure(store: &Store, now: DateTime<Utc>) -> Result<Measured, EngineError> {
    let status = read_status(store, now)?;
    let unreadable = status.corrupt.len() as u64;
    let mut measured = Measured {
        now,
        status,
        runs: BTreeMap::new(),
        last: BTreeMap::new(),
        unrun: BTreeMap::new(),
        is_complete: true,
        unreadable,
        last_tick: LastTick::load(store),
    };
    let disk = &**store.disk();
    for run in runs::list_active(disk)? {
        if let Ok(Some(state)) = runs::load(disk, &run) {
            measured.count(&state);
        }
    }
    measured.count_finished(disk, first_day(now))?;
    measured.count_unrun(disk, first_day(now))?;
    Ok(measured)
}

/// The first day of the window.
fn first_day(now: DateTime<Utc>) -> NaiveDate {
    (now - TimeDelta::days(1)).date_naive()
}

impl Measured {
    fn count(&mut self, state: &RunState) {
        let admitted = &state.admitted;
        let schedule = admitted.schedule.as_ref().map_or_else(String::new, ToString::to_string);
        let status = if state.is_executing() {
            "executing"
        } else if state.is_ambiguous() {
            "ambiguous"
        } else {
            state.status().as_str()
        };
        let key = (schedule, status);
        let last = self.last.entry(key.clone()).or_insert(state.updated_at);
        *last = state.updated_at.max(*last);
        *self.runs.entry(key).or_default() += 1;
    }

    fn count_finished(&mut self, disk: &dyn Disk, first: NaiveDate) -> Result<(), StoreError> {
        let mut left = NEWEST;
        for day in runs::done_days(disk)?.into_iter().filter(|day| *day >= first) {
            let mut found = runs::list_done(disk, day)?;
            found.sort_unstable_by(|a, b| (b.stamp(), b).cmp(&(a.stamp(), a)));
            for run in found {
                if left == 0 {
                    self.is_complete = false;
                    return Ok(());
                }
                left -= 1;
                match runs::load_at(disk, &layout::done_day(day).join(run.as_str()), &run) {
                    Ok(Some(state)) => self.count(&state),
                    Ok(None) => {}
                    Err(_) => self.unreadable += 1,
                }
            }
        }
        Ok(())
    }

    fn count_unrun(&mut self, disk: &dyn Disk, first: NaiveDate) -> Result<(), StoreError> {
        for id in schedules::list(disk)? {
            let Ok(receipts) = receipts::newest_first(disk, &id, None) else {
                self.unreadable += 1;
                continue;
            };
            // An entry that began before the window and reaches into it counts as a whole.
            for receipt in receipts.flatten().take_while(|receipt| receipt.times.last.date_naive() >= first) {
                let reason = match &receipt.why {
                    WhyUnrun::Skipped { .. } => "overlap",
                    WhyUnrun::Missed(reason) => schedules::missed_word(*reason),
                };
                let key = (id.to_string(), receipt.why.kind(), reason);
                *self.unrun.entry(key).or_default() += receipt.times.count;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::test_store::{TestStore, at};

    fn now() -> DateTime<Utc> {
        at("2026-12-02T12:00:00Z")
    }

    #[test]
    fn runs_are_counted_by_schedule_and_status_within_the_window() {
        let test = TestStore::new();
        test.completed("a@20261130T040000Z");
        test.completed("a@20261201T040000Z");
        test.completed("a@20261202T040000Z");
        test.queued("a@20261202T050000Z");
        test.interrupted("b@20261001T040000Z", None);
        test.ambiguous("b@20261002T040000Z");
        let text = render(&test.store, now()).unwrap();
        for line in [
            "wfctl_runs{schedule=\"a\",status=\"completed\"} 2",
            "wfctl_runs{schedule=\"a\",status=\"queued\"} 1",
            "wfctl_runs{schedule=\"b\",status=\"interrupted\"} 1",
            "wfctl_runs{schedule=\"b\",status=\"ambiguous\"} 1",
            "wfctl_ambiguous_runs 1",
            "wfctl_open_gates 1",
            "wfctl_runs_window_complete 1",
            "wfctl_slots{state=\"free\"} 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn skipped_and_missed_times_are_counted_by_reason_within_the_window() {
        let test = TestStore::new();
        test.schedule("a", "0 4 * * *", at("2026-12-02T11:00:00Z"));
        test.missed("a", at("2026-11-01T00:00:00Z"), at("2026-11-02T00:00:00Z"), 5);
        test.missed("a", at("2026-12-01T00:00:00Z"), at("2026-12-01T02:00:00Z"), 3);
        let text = render(&test.store, now()).unwrap();
        let line = "wfctl_unrun_occurrences{schedule=\"a\",kind=\"missed\",reason=\"catchup\"} 3";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("wfctl_next_due_seconds 57600"), "{text}");
    }

    #[test]
    fn the_last_tick_is_kept_and_damage_to_it_harms_nothing() {
        let test = TestStore::new();
        assert_eq!(LastTick::load(&test.store), None);
        let tick = LastTick { at: now(), ms: 12, exit: 1 };
        tick.save(&test.store);
        tick.save(&test.store);
        assert_eq!(LastTick::load(&test.store), Some(tick));
        assert!(render(&test.store, now()).unwrap().contains("wfctl_last_tick_exit_status 1"));
        std::fs::write(test.root().join(layout::LAST_TICK), "{").unwrap();
        assert_eq!(LastTick::load(&test.store), None);
    }
}
