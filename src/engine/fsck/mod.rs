//! Checks every invariant of a store, read-only.
//!
//! Findings go out one by one and runs are read one by one, so memory grows with schedules and workflows but
//! not with history. An error is something that neither a crash nor a running command leaves behind; what
//! they may leave, and the next command puts right, is a warning. Deliberately not here: repairs.
//!
//! Reading order: [`check`] (findings), `places` (what may be where), `slots`, `schedules`, `runs`.

pub mod check;
mod places;
mod runs;
mod schedules;
mod slots;
#[cfg(test)]
mod tests;

use chrono::{DateTime, Utc};

use crate::store::Store;
use check::Check;
pub use check::{Finding, Severity, Summary};

/// Checks the whole store as it is at `now` and reports each finding.
pub fn check_store(store: &Store, now: DateTime<Utc>, report: &mut dyn FnMut(Finding)) -> Summary {
    watch_check(store, now, report, &|_| {})
}

/// The same, and `progress` is told how many runs were checked so far.
pub fn watch_check(
    store: &Store,
    now: DateTime<Utc>,
    report: &mut dyn FnMut(Finding),
    progress: &dyn Fn(u64),
) -> Summary {
    let mut check = Check::new(store, now, report, progress);
    places::check(&mut check);
    schedules::check(&mut check);
    slots::check(&mut check);
    runs::check(&mut check);
    check.summary
}
