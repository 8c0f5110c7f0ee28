//! `wfctl __complete`: words that complete a command line, for the completion scripts.
//!
//! Says nothing on any error: whoever presses the tab key wants words, not explanations. The number of words is
//! bounded, and so is the number of runs that are looked at for them.

use super::super::Session;
use crate::{
    cli::args::{CompleteArgs, CompleteWhat, Line},
    engine::{
        EngineError,
        query::{
            LoadedRun, Names, PageRequest, RunFilter, Stand, find_run, list_runs, load_run, load_schedule,
        },
    },
    state::run::{Phase, Status},
    store::{Store, schedules, snapshots},
};

/// How many words are given.
const WORDS: usize = 200;
/// How many runs are looked at for them.
const RUNS: usize = 1000;

pub(in crate::cli::commands) fn complete(session: &Session<'_>, args: &CompleteArgs) -> u8 {
    let line = args.line();
    let path = line.store.clone().map_or_else(|| session.store_path(), Ok);
    let store = path.ok().and_then(|path| Store::open(&path, session.name).ok());
    let words = store.and_then(|store| words(session, &store, args.what, &line).ok()).unwrap_or_default();
    let fitting = words.iter().filter(|word| word.starts_with(args.prefix()));
    fitting.take(WORDS).for_each(|word| session.out.line(word));
    0
}

fn words(
    session: &Session<'_>,
    store: &Store,
    what: CompleteWhat,
    line: &Line,
) -> Result<Vec<String>, EngineError> {
    let stand = |stand| RunFilter { stand: Some(stand), ..RunFilter::default() };
    match what {
        CompleteWhat::Runs => runs(session, store, &RunFilter::default()),
        CompleteWhat::Unfinished => {
            let active = crate::store::runs::list_active(&**store.disk())?;
            Ok(active.iter().rev().take(RUNS).map(ToString::to_string).collect())
        }
        CompleteWhat::Interrupted => runs(session, store, &stand(Stand::Interrupted)),
        CompleteWhat::Ambiguous => runs(session, store, &stand(Stand::Ambiguous)),
        CompleteWhat::Failed => failed(session, store),
        CompleteWhat::Schedules => {
            let ids = schedules::list(&**store.disk())?;
            let known = ids.into_iter().filter(|id| load_schedule(store, id.as_str()).is_ok());
            Ok(known.take(RUNS).map(|id| id.to_string()).collect())
        }
        CompleteWhat::Steps => steps(session, store, line),
        CompleteWhat::Outcomes => outcomes(session, store, line),
    }
}

fn runs(session: &Session<'_>, store: &Store, filter: &RunFilter) -> Result<Vec<String>, EngineError> {
    let request = PageRequest { limit: RUNS, cursor: None };
    let page = list_runs(store, session.now(), filter, &request)?;
    Ok(page.items.into_iter().map(|run| run.run).collect())
}

/// Those of the newest runs; a filter by status would read all runs that there ever were.
fn failed(session: &Session<'_>, store: &Store) -> Result<Vec<String>, EngineError> {
    let request = PageRequest { limit: RUNS, cursor: None };
    let page = list_runs(store, session.now(), &RunFilter::default(), &request)?;
    let failed = page.items.into_iter().filter(|run| run.status == Status::Failed.as_str() && !run.ambiguous);
    Ok(failed.map(|run| run.run).collect())
}

/// The run that the line names.
fn run_of(session: &Session<'_>, store: &Store, line: &Line) -> Result<LoadedRun, EngineError> {
    let text = line.positionals.first().map_or("", String::as_str);
    let run = find_run(store, text, Names::RunsAndSchedules)?;
    load_run(store, &run, session.now())
}

fn steps(session: &Session<'_>, store: &Store, line: &Line) -> Result<Vec<String>, EngineError> {
    let run = run_of(session, store, line)?;
    let text = snapshots::load(&**store.disk(), &run.state.admitted.workflow)?;
    let workflow = crate::domain::workflow::Workflow::parse(&text).ok();
    let names = workflow.iter().flat_map(|workflow| workflow.steps().iter().map(|step| step.id.to_string()));
    Ok(names.collect())
}

fn outcomes(session: &Session<'_>, store: &Store, line: &Line) -> Result<Vec<String>, EngineError> {
    let run = run_of(session, store, line)?;
    Ok(match &run.state.phase {
        Phase::Interrupted(gate) => gate.asked.outcomes.iter().map(ToString::to_string).collect(),
        Phase::Queued(_)
        | Phase::Executing(_)
        | Phase::Completed { .. }
        | Phase::Failed(_)
        | Phase::Cancelled { .. } => Vec::new(),
    })
}
