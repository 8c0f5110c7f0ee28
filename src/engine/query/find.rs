//! What run a person's text names: an exact id, a schedule for its latest run, or a unique prefix.
//!
//! An exact name always wins over a prefix. The exact id costs a look or two; a prefix is looked for among the
//! unfinished runs and in the days of `done` that its date allows. Deliberately not here: reading the run.

use chrono::NaiveDate;

use super::walk::{Scope, Walk};
use crate::{
    domain::ids::RunId,
    engine::EngineError,
    store::{Store, runs, schedules},
};

/// What kinds of names a command takes for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// An id or a unique prefix: for commands that change something.
    Runs,
    /// Also the name of a schedule or of an ad-hoc workflow, for its latest run: for reading commands.
    RunsAndSchedules,
}

/// How many of the runs that a prefix fits are named.
const SHOWN: usize = 5;
/// How alike a suggestion must be, from 0 to 1.
const ALIKE: f64 = 0.85;

/// The run that `text` names.
///
/// # Errors
/// [`EngineError::NoRun`] or [`EngineError::ManyRuns`].
pub fn find_run(store: &Store, text: &str, names: Names) -> Result<RunId, EngineError> {
    let disk = &**store.disk();
    if let Ok(run) = text.parse::<RunId>()
        && runs::find(disk, &run)?.is_some()
    {
        return Ok(run);
    }
    if names == Names::RunsAndSchedules && !text.contains('@') {
        let scope = Scope { name: Some(text.to_owned()), ..Scope::default() };
        if let Some(found) = Walk::new(store, scope)?.next() {
            return Ok(found.run);
        }
    }
    let mut found = with_prefix(store, text)?;
    match found.len() {
        0 => Err(EngineError::NoRun(with_suggestion(store, text, names)?)),
        1 => Ok(found.remove(0)),
        _ => {
            let found = found.iter().map(ToString::to_string).collect();
            Err(EngineError::ManyRuns { prefix: text.to_owned(), found })
        }
    }
}

/// Some of the runs whose ids start with `prefix`, unfinished ones first, then the newest days.
fn with_prefix(store: &Store, prefix: &str) -> Result<Vec<RunId>, EngineError> {
    let disk = &**store.disk();
    let mut found = Vec::new();
    if prefix.is_empty() || prefix.contains('/') {
        return Ok(found);
    }
    let mut add = |runs: Vec<RunId>| {
        for run in runs {
            if found.len() < SHOWN && run.as_str().starts_with(prefix) && !found.contains(&run) {
                found.push(run);
            }
        }
        found.len() == SHOWN
    };
    if !add(runs::list_active(disk)?) {
        for day in runs::done_days(disk)?.into_iter().filter(|day| allows(prefix, *day)) {
            if add(runs::list_done(disk, day)?) {
                break;
            }
        }
    }
    Ok(found)
}

/// Whether runs of `day` can start with `prefix`.
fn allows(prefix: &str, day: NaiveDate) -> bool {
    let Some((_, time)) = prefix.split_once('@') else { return true };
    let day = day.format("%Y%m%d").to_string();
    day.starts_with(time) || time.starts_with(&day)
}

/// The text, with the nearest name where one is near.
fn with_suggestion(store: &Store, text: &str, names: Names) -> Result<String, EngineError> {
    let disk = &**store.disk();
    let mut known: Vec<String> = runs::list_active(disk)?.iter().map(ToString::to_string).collect();
    if names == Names::RunsAndSchedules {
        known.extend(schedules::list(disk)?.iter().map(ToString::to_string));
    }
    Ok(match nearest(text, &known) {
        Some(name) if name == text => format!("of schedule {text}"),
        Some(name) => format!("{text} (did you mean {name}?)"),
        None => text.to_owned(),
    })
}

/// The name that is most like `text`, if any is like it.
pub fn nearest<'a>(text: &str, known: &'a [String]) -> Option<&'a str> {
    let scored = known.iter().map(|name| (strsim::jaro_winkler(text, name), name));
    let best = scored.filter(|(score, _)| *score >= ALIKE).max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(best.1)
}
