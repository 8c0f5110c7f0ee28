//! Looking at a store: nothing here takes the store lock or changes anything, and all of it works on a
//! read-only store.
//!
//! In reading order: [`find`] (what a person's text names), [`run`] and [`readiness`] (one run and how it
//! stands now), [`view`] (the JSON of all answers), [`page`] (cursors), [`walk`] (runs newest first), and
//! the listings [`list`], [`history`], [`schedules`] and [`status`].
//!
//! Invariants: what is damaged is reported beside the items and stops nothing else; a page reads its page
//! and not what is behind it. Deliberately not here: tables and colours, and checking the whole store
//! ([`super::fsck`]).

pub mod find;
pub mod history;
pub mod list;
pub mod page;
pub mod readiness;
pub mod run;
pub mod schedules;
pub mod status;
#[cfg(test)]
mod tests;
pub mod view;
mod walk;

pub use find::{Names, find_run};
pub use history::{HistoryFilter, list_history};
pub use list::{RunFilter, Stand, list_runs};
pub use page::{Damage, Page, PageRequest};
pub use readiness::Readiness;
pub use run::{Liveness, LoadedRun, Reader, load_run};
pub use schedules::{list_schedules, load_schedule, next_due, next_due_of};
pub use status::{capacity_of, read_status};
