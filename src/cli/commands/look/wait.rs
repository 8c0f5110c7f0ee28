//! `wfctl wait`: until runs are finished or interrupted.

use std::time::{Duration, Instant};

use serde_json::json;

use super::super::{Done, Session, or_forever};
use crate::{
    cli::{args::WaitArgs, error::Failure, progress::Progress},
    domain::ids::RunId,
    engine::query::{LoadedRun, Names, view::RunShow},
    process::{Interruption, Signals},
    state::run::Status,
    store::{
        Store, layout,
        lock::Patience,
        runs,
        watch::{Watch, Woken},
    },
};

/// How often to look where no change is told: the death of an executing process changes no file.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub(in crate::cli::commands) fn wait(session: &Session<'_>, args: &WaitArgs) -> Done {
    let store = session.open_store()?;
    let mut runs = Vec::new();
    for text in &args.runs {
        runs.push(session.find(&store, text, Names::RunsAndSchedules)?);
    }
    let deadline = Instant::now().checked_add(or_forever(args.timeout));
    let progress = Progress::new(session.out);
    let rested = wait_for_all(session, &store, &runs, deadline, &progress);
    progress.clear();
    let rested = rested?;
    let failed = rested.iter().any(|run| run.state.status() == Status::Failed);
    let shown: Vec<RunShow> = rested.iter().map(|run| RunShow::of(&store, run)).collect();
    if session.out.is_json() {
        session.out.json(&json!({ "items": shown }));
    } else {
        for (index, run) in shown.iter().enumerate() {
            if index > 0 {
                session.out.line("");
            }
            super::print_outcome(session, run, session.now());
        }
    }
    Ok(u8::from(failed))
}

/// Waits until all runs are finished or interrupted, and gives them as they were then.
fn wait_for_all(
    session: &Session<'_>,
    store: &Store,
    runs: &[RunId],
    deadline: Option<Instant>,
    progress: &Progress<'_>,
) -> Result<Vec<LoadedRun>, Failure> {
    let mut rested: Vec<Option<LoadedRun>> = runs.iter().map(|_| None).collect();
    loop {
        // Watches first, then looks: a change in between wakes the next wait.
        let mut watch = Watch::new();
        for (place, run) in rested.iter_mut().zip(runs).filter(|(place, _)| place.is_none()) {
            watch_run(&mut watch, store, run);
            let loaded = session.load(store, run)?;
            if rests(&loaded) {
                progress.rested(run);
                *place = Some(loaded);
            } else {
                tell(session, progress, run, &loaded);
            }
        }
        let Some(open) = rested.iter().position(Option::is_none) else {
            return Ok(rested.into_iter().flatten().collect());
        };
        let timeout = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
        if timeout.is_zero() {
            let run = &runs[open];
            return Err(Failure::timeout(format!("run {run} is not finished yet"))
                .with_hint(session.command(&format!("show {run}"))));
        }
        pause(&session.signals, &watch, timeout.min(LOOK_EVERY))?;
    }
}

fn rests(run: &LoadedRun) -> bool {
    !run.state.is_executing() && run.state.status() != Status::Queued
}

fn tell(session: &Session<'_>, progress: &Progress<'_>, run: &RunId, loaded: &LoadedRun) {
    let state = &loaded.state;
    let (doing, since) = match (state.is_executing(), state.unknown_execution()) {
        (true, Some((_, step))) if step.try_no > 1 => {
            (format!("{} (try {})", step.step, step.try_no), step.started_at)
        }
        (true, Some((_, step))) => (step.step.to_string(), step.started_at),
        (true, None) => ("between two steps".to_owned(), state.updated_at),
        (false, _) => ("queued".to_owned(), state.updated_at),
    };
    progress.watched(run, &doing, (session.now() - since).to_std().unwrap_or_default());
}

/// Watches the folder and journal of a run wherever it is now.
pub(super) fn watch_run(watch: &mut Watch, store: &Store, run: &RunId) {
    if let Ok(Some(dir)) = runs::find(&**store.disk(), run) {
        let dir = store.root().join(dir);
        watch.add(&layout::journal(&dir));
        watch.add(&dir);
    }
}

/// Waits for a change; fails if a signal came.
pub(super) fn pause(signals: &Signals, watch: &Watch, timeout: Duration) -> Result<(), Failure> {
    match watch.wait(Patience { timeout, abort: Some(signals.first_fd()) }) {
        Woken::Changed | Woken::TimedOut => Ok(()),
        Woken::Aborted => {
            let signal = signals.pending().map_or(Interruption::Int, |(signal, _)| signal);
            Err(Failure::interrupted(signal, format!("interrupted by {}; the runs go on", signal.name())))
        }
    }
}
