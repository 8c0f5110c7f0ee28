//! `wfctl tick`, and what it says.

use std::time::Instant;

use serde_json::{Value, json};

use super::{Done, Session, settle, show_gate_commands};
use crate::{
    cli::{args::TickArgs, error::Failure, progress::Progress, text},
    domain::{ids::RunId, time::format_instant, trigger::Zone},
    engine::{
        Engine, EngineError,
        attempt::Ended,
        dispatch::Executed,
        metrics::LastTick,
        query::{next_due, status::capacity_of},
        recover::Decision,
        tick::{self as engine_tick, Dispatch, Options, Recover, Report, TickMode},
    },
    state::run::{Phase, RunState},
    store::{Store, runs, schedules, slots},
};

pub(super) fn tick(session: &Session<'_>, args: &TickArgs) -> Done {
    let store = session.open_store()?;
    let engine = session.engine(&store);
    let zone = Zone::parse(&store.settings().timezone).unwrap_or_else(|_| Zone::utc());
    let now = args.now.as_deref().map(|text| session.time("--now", text, &zone)).transpose()?;
    let options = Options {
        now,
        max_runs: args.max_runs.map(u64::from),
        recover: if args.no_recover { Recover::Never } else { Recover::First },
        dispatch: if args.no_dispatch { Dispatch::Nothing } else { Dispatch::Queued },
        mode: if args.dry_run { TickMode::DryRun } else { TickMode::Act },
    };
    let (at, began) = (session.now(), Instant::now());
    let progress = Progress::new(session.out);
    let report = engine_tick::tick(&engine, &options, &progress);
    progress.clear();
    let done = report
        .map_err(|error| Failure::of(&error))
        .and_then(|report| tell(session, &store, &engine, &report));
    if !args.dry_run {
        let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let exit = done.as_ref().map_or_else(|failure| failure.code, |code| *code);
        LastTick { at, ms, exit }.save(&store);
    }
    done
}

/// Prints what a tick did and gives the exit status that it means.
fn tell(session: &Session<'_>, store: &Store, engine: &Engine<'_>, report: &Report) -> Done {
    let trouble = tell_trouble(session, report);
    if session.out.is_json() {
        session.out.json(&document(store, report)?);
    } else {
        print(session, store, report);
    }
    Ok(exit_status(engine, report, trouble))
}

fn exit_status(engine: &Engine<'_>, report: &Report, trouble: Option<u8>) -> u8 {
    if let Some((signal, _)) = engine.signals.pending() {
        return signal.exit_code();
    }
    if report.draining {
        return 69;
    }
    let failed = report.runs.iter().any(|run| run.ended.as_ref().is_ok_and(Ended::is_failed));
    trouble.unwrap_or(u8::from(failed))
}

/// Says on stderr what could not be done; gives the exit status that it means.
fn tell_trouble(session: &Session<'_>, report: &Report) -> Option<u8> {
    let mut code = None;
    let mut tell = |subject: Option<String>, error: &EngineError| {
        let failure = Failure::of(error);
        let subject = subject.map_or_else(String::new, |subject| format!("{subject}: "));
        session.out.warn(&format!("{subject}{}", failure.message));
        code.get_or_insert(failure.code);
    };
    for failure in &report.failures {
        tell(failure.run.as_ref().map(|run| format!("run {run}")), &failure.error);
    }
    for run in &report.runs {
        if let Err(error) = &run.ended {
            tell(None, error);
        }
    }
    for (run, why) in &report.blocked {
        session.out.warn(&format!("run {run} stays queued: {why}"));
    }
    for warning in &report.warnings {
        session.out.warn(warning);
    }
    if report.draining {
        session.out.note("the store is draining: nothing is admitted, dispatched or resumed");
    }
    code
}

fn document(store: &Store, report: &Report) -> Result<Value, Failure> {
    let fail = |error: crate::store::StoreError| Failure::of_store(&error.below(store.root()));
    let total = store.settings().capacity;
    let slots = slots::probe_all(&**store.disk(), total).map_err(fail)?;
    let queued = count_queued(store).map_err(fail)?;
    let next_due = next_due(store).map_err(|error| Failure::of(&error))?;
    Ok(json!({
        "now": format_instant(report.now),
        "recovered": report.recovered.iter().map(settle::decision).collect::<Vec<_>>(),
        "expired": report.expired.iter()
            .map(|gate| json!({ "run": gate.run.as_str(), "step": gate.step.as_str() }))
            .collect::<Vec<_>>(),
        "admitted": report.admitted.iter()
            .map(|(schedule, run, at)| json!({
                "run": run.as_str(),
                "schedule": schedule.as_str(),
                "occurrence": format_instant(*at),
            }))
            .collect::<Vec<_>>(),
        "skipped": report.skipped.iter()
            .map(|(schedule, times, by)| json!({
                "schedule": schedule.as_str(),
                "occurrence": format_instant(times.first),
                "first": format_instant(times.first),
                "last": format_instant(times.last),
                "count": times.count,
                "run": by.as_str(),
            }))
            .collect::<Vec<_>>(),
        "missed": report.missed.iter()
            .map(|(schedule, times, reason)| json!({
                "schedule": schedule.as_str(),
                "occurrence": format_instant(times.first),
                "first": format_instant(times.first),
                "last": format_instant(times.last),
                "count": times.count,
                "reason": schedules::missed_word(*reason),
            }))
            .collect::<Vec<_>>(),
        "runs": report.runs.iter().map(run_document).collect::<Vec<_>>(),
        "blocked": report.blocked.iter()
            .map(|(run, why)| json!({ "run": run.as_str(), "why": why }))
            .collect::<Vec<_>>(),
        "warnings": report.warnings,
        "capacity": capacity_of(total, &slots),
        "queued": queued,
        "next_due": next_due.map(format_instant),
        "draining": report.draining,
    }))
}

fn count_queued(store: &Store) -> Result<u64, crate::store::StoreError> {
    let disk = &**store.disk();
    let mut queued = 0;
    for run in runs::list_active(disk)? {
        if let Ok(Some(state)) = runs::load(disk, &run) {
            queued += u64::from(matches!(state.phase, Phase::Queued(_)));
        }
    }
    Ok(queued)
}

fn run_document(run: &Executed) -> Value {
    match &run.ended {
        Ok(ended) => match ended.state() {
            Some(state) => json!({
                "run": run.run.as_str(),
                "status": state.status().as_str(),
                "outcome": outcome(state),
                "reason": reason(state),
            }),
            None => json!({ "run": run.run.as_str(), "status": null, "outcome": null, "reason": "fenced" }),
        },
        Err(error) => json!({
            "run": run.run.as_str(),
            "status": null,
            "outcome": null,
            "reason": "error",
            "error": error.to_string(),
        }),
    }
}

fn outcome(state: &RunState) -> Option<&str> {
    match &state.phase {
        Phase::Completed { outcome } => outcome.as_ref().map(crate::domain::workflow::Outcome::as_str),
        Phase::Queued(_)
        | Phase::Interrupted(_)
        | Phase::Executing(_)
        | Phase::Failed(_)
        | Phase::Cancelled { .. } => None,
    }
}

fn reason(state: &RunState) -> Option<&'static str> {
    match &state.phase {
        Phase::Failed(failure) => Some(failure.reason.as_str()),
        Phase::Queued(_)
        | Phase::Interrupted(_)
        | Phase::Executing(_)
        | Phase::Completed { .. }
        | Phase::Cancelled { .. } => None,
    }
}

/// Prints the report; quietly, only what needs a person.
fn print(session: &Session<'_>, store: &Store, report: &Report) {
    let quiet = session.global.quiet;
    let line = |text: &str| session.out.line(text);
    for item in &report.recovered {
        let needs_person = matches!(item.decision, Decision::Ambiguous | Decision::Corrupt);
        if needs_person || !quiet {
            line(&format!("recovered {}", settle::decision_line(item)));
        }
        if let (Decision::Ambiguous, Some(run)) = (item.decision, &item.run) {
            print_resolve(session, run);
        }
    }
    for gate in &report.expired {
        if !quiet {
            line(&format!("expired   {}: gate {}", gate.run, gate.step));
        }
        // What came of it may need a person: the run may have failed, or the next gate be open.
        if let Ok(Some(state)) = runs::load(&**store.disk(), &gate.run) {
            print_state(session, &state, quiet);
        }
    }
    if !quiet {
        for (_, run, _) in &report.admitted {
            line(&format!("admitted  {run}"));
        }
        for (schedule, times, by) in &report.skipped {
            line(&format!("skipped   {schedule} {}: {by} is in the way", span(times)));
        }
        for (schedule, times, reason) in &report.missed {
            line(&format!("missed    {schedule} {}: {}", span(times), schedules::missed_word(*reason)));
        }
    }
    for run in &report.runs {
        print_run(session, run, quiet);
    }
}

fn span(times: &crate::domain::policy::Stretch) -> String {
    if times.count == 1 {
        return text::exact(times.first);
    }
    format!("{} to {} ({} times)", text::exact(times.first), text::exact(times.last), times.count)
}

fn print_run(session: &Session<'_>, run: &Executed, quiet: bool) {
    let Ok(ended) = &run.ended else { return };
    if let Some(state) = ended.state() {
        print_state(session, state, quiet);
    } else {
        session.out.line(&format!("fenced    {}: stopped; what became of it is decided by", run.run));
        session.out.command(INDENT, &session.command(&format!("recover --run {}", run.run)));
    }
}

/// The width of the word at the beginning of each line.
const INDENT: usize = 10;

fn print_state(session: &Session<'_>, state: &RunState, quiet: bool) {
    let run = &state.admitted.run;
    match &state.phase {
        Phase::Interrupted(gate) => {
            session.out.line(&format!("waiting   {run}: {}", text::one_line(&gate.asked.question)));
            let outcomes: Vec<String> = gate.asked.outcomes.iter().map(ToString::to_string).collect();
            show_gate_commands(session, INDENT, run.as_str(), &outcomes, gate.asked.schema.is_some());
        }
        Phase::Failed(failure) => {
            session.out.line(&format!("failed    {run}: {}", text::one_line(&failure.error)));
            if failure.unresolved {
                print_resolve(session, run);
            }
        }
        Phase::Completed { .. } | Phase::Queued(_) | Phase::Executing(_) | Phase::Cancelled { .. } => {
            if !quiet {
                session.out.line(&format!("{:<9} {run}", state.status().as_str()));
            }
        }
    }
}

fn print_resolve(session: &Session<'_>, run: &RunId) {
    for command in session.resolve_commands(run.as_str()) {
        session.out.command(INDENT, &command);
    }
}
