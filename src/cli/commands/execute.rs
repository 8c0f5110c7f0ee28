//! Commands that execute one run in the foreground.

use serde_json::Value;

use super::{Done, Session, Stdin, json_value, or_forever};
use crate::{
    cli::{
        args::{ResumeArgs, RunArgs},
        error::Failure,
        progress::Progress,
    },
    domain::ids::RunId,
    engine::{
        Engine, EngineError, admit,
        attempt::Ended,
        query::Names,
        resume::{self, Answer},
    },
    process::Interruption,
    store::Store,
};

pub(super) fn run(session: &Session<'_>, args: &RunArgs) -> Done {
    let source = admit::read_workflow(session.env, &args.file).map_err(|error| Failure::of(&error))?;
    let input = match &args.input {
        Some(text) => json_value("--input", text, Stdin::Refused)?,
        None => Value::Null,
    };
    let store = session.open_or_create_store()?;
    let engine = session.engine(&store);
    let progress = Progress::new(session.out);
    let executed = resume::run(&engine, &source, input, args.id.clone(), &progress);
    progress.clear();
    let (run, ended) = executed.map_err(|error| Failure::of(&error))?;
    report(session, &store, &engine, &run, Ok(ended))
}

pub(super) fn resume(session: &Session<'_>, args: &ResumeArgs) -> Done {
    let payload = match &args.payload {
        Some(text) => Some(json_value("--payload", text, Stdin::Allowed)?),
        None => None,
    };
    let store = session.open_store()?;
    let run = session.find(&store, &args.run, Names::Runs)?;
    let engine = session.engine(&store);
    let answer = Answer {
        outcome: args.outcome.as_ref().map(ToString::to_string),
        payload,
        gate: args.gate,
        note: args.note.clone(),
        by: session.by(&args.by),
        wait: args.wait.map(or_forever),
    };
    let progress = Progress::new(session.out);
    let ended = resume::resume(&engine, &run, &answer, &progress);
    progress.clear();
    report(session, &store, &engine, &run, ended)
}

/// Prints the run and gives the exit status that its end means.
fn report(
    session: &Session<'_>,
    store: &Store,
    engine: &Engine<'_>,
    run: &RunId,
    ended: Result<Ended, EngineError>,
) -> Done {
    let ended = ended.map_err(|error| Failure::of(&error))?;
    session.print_run(store, run)?;
    Ok(match ended {
        Ended::Settled(_) => u8::from(ended.is_failed()),
        Ended::Cancelled(_) => {
            session.out.note(&format!(
                "run {run} is ambiguous: nobody can know what its step did; find out, then settle it"
            ));
            // Cancelled is cancelled, whether by Ctrl-C here or by `wfctl cancel` elsewhere.
            Interruption::Int.exit_code()
        }
        Ended::Fenced(signal) => {
            session.out.note(&format!(
                "run {run} was stopped and fenced; wfctl recover --run {run} decides what became of it"
            ));
            engine.signals.pending().map_or(signal, |(signal, _)| signal).exit_code()
        }
    })
}
