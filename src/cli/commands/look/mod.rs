//! Commands that look and tell.
//!
//! In reading order: [`status`] (the store at a glance), [`lists`] (pages of runs, schedules, history), [`show`]
//! (one run), [`logs`], [`wait`], [`next`], [`check`] (`fsck`), [`generate`] (metrics, manual, completions).
//! Invariant: what people read names the exact command that helps; what scripts read are the views of
//! [`crate::engine::query::view`]. Deliberately not here: how a value looks.

mod check;
mod complete;
mod generate;
mod lists;
mod logs;
mod next;
mod show;
mod status;
mod wait;

use crate::engine::query::view::RunItem;

pub(super) use check::fsck;
pub(super) use complete::complete;
pub(super) use generate::{completions, man, metrics};
pub(super) use lists::{history, list, schedules};
pub(super) use logs::logs;
pub(super) use next::next;
pub(super) use show::{print_outcome, show};
pub(super) use status::status;
pub(super) use wait::wait;

/// How a run stands, in the word that people use.
fn word(item: &RunItem) -> &'static str {
    match (item.executing, item.live, item.ambiguous) {
        (true, true, _) => "running",
        (true, false, _) => "abandoned",
        (false, _, true) => "ambiguous",
        (false, _, false) => item.status,
    }
}
