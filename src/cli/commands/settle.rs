//! Commands that settle runs and look after the store.

use serde_json::{Value, json};

use super::{Done, Session, or_forever};
use crate::{
    cli::{
        args::{CancelArgs, ConfigArgs, DrainArgs, PruneArgs, RecoverArgs, ResolveArgs, RetryArgs},
        error::Failure,
        progress::Progress,
        table::Tone,
        text,
    },
    domain::ids::RunId,
    engine::{
        EngineError, cancel as engine_cancel, notify,
        query::Names,
        recover::{self as engine_recover, Decision, Mode, Recovered},
    },
    store::{StoreError, settings},
};

pub(super) fn recover(session: &Session<'_>, args: &RecoverArgs) -> Done {
    let store = session.open_store()?;
    let engine = session.engine(&store);
    let mode = if args.dry_run { Mode::DryRun } else { Mode::Act };
    let fail = |error: EngineError| Failure::of(&error);
    let (items, failures) = match &args.run {
        Some(run) => {
            let run = session.find(&store, run, Names::Runs)?;
            let lock = engine.lock().map_err(fail)?;
            let item = engine_recover::reconcile(&engine, &lock, &run, mode).map_err(fail)?;
            drop(lock);
            if let Some(Recovered { decision: Decision::Live, detail, .. }) = &item {
                return Err(fail(EngineError::Live { run, why: detail.clone() }));
            }
            (item.into_iter().collect(), Vec::new())
        }
        None => {
            let lock = engine.lock().map_err(fail)?;
            let recovery = engine_recover::recover_all(&engine, &lock, mode).map_err(fail)?;
            (recovery.items, recovery.failures)
        }
    };
    if mode == Mode::Act {
        let ambiguous = items.iter().filter(|item| item.decision == Decision::Ambiguous);
        let ambiguous: Vec<_> = ambiguous.filter_map(|item| item.run.clone()).collect();
        notify::each(&engine, &ambiguous, &Progress::new(session.out));
    }
    if session.out.is_json() {
        session.out.json(&super::items(items.iter().map(decision).collect()));
    } else {
        for item in &items {
            session.out.paragraph(0, &decision_line(item), Tone::of_status(item.decision.as_str()));
            if let (Decision::Ambiguous, Some(run)) = (item.decision, &item.run) {
                for command in session.resolve_commands(run.as_str()) {
                    session.out.command(2, &command);
                }
            }
        }
        if items.is_empty() && failures.is_empty() {
            session.out.note("nothing needs recovery");
        }
    }
    let mut code = 0;
    for (run, error) in &failures {
        let failure = fail_with(error, &format!("run {run} was not recovered"));
        session.out.warn(&failure.message);
        code = failure.code;
    }
    let is_corrupt = items.iter().any(|item| item.decision == Decision::Corrupt);
    Ok(if code == 0 && is_corrupt { 65 } else { code })
}

fn fail_with(error: &EngineError, what: &str) -> Failure {
    Failure::of(error).about(what)
}

/// A decision of recovery in JSON.
pub(super) fn decision(item: &Recovered) -> Value {
    json!({
        "run": item.run.as_ref().map(RunId::as_str),
        "decision": item.decision.as_str(),
        "detail": item.detail,
    })
}

/// A decision of recovery in one line.
pub(super) fn decision_line(item: &Recovered) -> String {
    let subject = item.run.as_ref().map_or_else(|| "a slot".to_owned(), ToString::to_string);
    format!("{subject}: {} ({})", item.decision.as_str(), text::escape(&item.detail))
}

pub(super) fn cancel(session: &Session<'_>, args: &CancelArgs) -> Done {
    let store = session.open_store()?;
    let run = session.find(&store, &args.run, Names::Runs)?;
    let engine = session.engine(&store);
    let by = session.by(&args.by);
    engine_cancel::cancel(&engine, &run, &by, args.note.as_deref()).map_err(|error| Failure::of(&error))?;
    session.print_run(&store, &run)?;
    Ok(0)
}

pub(super) fn resolve(session: &Session<'_>, args: &ResolveArgs) -> Done {
    let store = session.open_store()?;
    let run = session.find(&store, &args.run, Names::Runs)?;
    let engine = session.engine(&store);
    let by = session.by(&args.by);
    engine_cancel::resolve(&engine, &run, args.resolution.into(), &by, args.note.as_deref())
        .map_err(|error| Failure::of(&error))?;
    session.print_run(&store, &run)?;
    Ok(0)
}

pub(super) fn retry(session: &Session<'_>, args: &RetryArgs) -> Done {
    let store = session.open_store()?;
    let run = session.find(&store, &args.run, Names::Runs)?;
    let engine = session.engine(&store);
    let by = session.by(&args.by);
    engine_cancel::retry(&engine, &run, args.from.as_ref(), &by, args.note.as_deref())
        .map_err(|error| Failure::of(&error))?;
    session.print_run(&store, &run)?;
    Ok(0)
}

pub(super) fn drain(session: &Session<'_>, args: &DrainArgs) -> Done {
    let store = session.open_store()?;
    let engine = session.engine(&store);
    let changed = engine_cancel::set_draining(&engine, true).map_err(|error| Failure::of(&error))?;
    if let Some(wait) = args.wait {
        engine_cancel::wait_idle(&engine, or_forever(wait)).map_err(|error| match error {
            EngineError::Full { busy, .. } => {
                let runs = if busy == 1 { "1 run is".to_owned() } else { format!("{busy} runs are") };
                Failure::timeout(format!("the store is draining, and {runs} still executing"))
                    .with_hint("`wfctl status` tells which; `wfctl drain --wait` waits for them")
            }
            error => Failure::of(&error),
        })?;
    }
    print_draining(session, true, changed);
    Ok(0)
}

pub(super) fn undrain(session: &Session<'_>) -> Done {
    let store = session.open_store()?;
    let engine = session.engine(&store);
    let changed = engine_cancel::set_draining(&engine, false).map_err(|error| Failure::of(&error))?;
    print_draining(session, false, changed);
    Ok(0)
}

fn print_draining(session: &Session<'_>, draining: bool, changed: bool) {
    if session.out.is_json() {
        session.out.json(&json!({ "draining": draining, "changed": changed }));
    } else {
        session.out.line(match (draining, changed) {
            (true, true) => "the store is draining: nothing is admitted, dispatched or resumed",
            (true, false) => "the store was draining already",
            (false, true) => "the store is not draining any more",
            (false, false) => "the store was not draining",
        });
    }
}

pub(super) fn config(session: &Session<'_>, args: &ConfigArgs) -> Done {
    let store = session.open_store()?;
    let current = store.settings();
    match (&args.key, &args.value) {
        (Some(key), Some(value)) => {
            let engine = session.engine(&store);
            let lock = engine.lock().map_err(|error| Failure::of(&error))?;
            let fail = |error: StoreError| Failure::of_store(&error.below(store.root()));
            let path = std::path::Path::new(crate::store::layout::SETTINGS);
            let text = store.disk().read(path).map_err(|e| Failure::file("read", path, &e))?;
            let text = String::from_utf8_lossy(&text).into_owned();
            let changed = settings::set(&text, key, value).map_err(|error| {
                let why = match error {
                    StoreError::Settings { why } => why,
                    error => fail(error).message,
                };
                Failure::new(65, "bad_input", why)
                    .with_hint("`wfctl config` lists the settings and their values")
            })?;
            settings::save(&lock, &**store.disk(), &changed).map_err(fail)?;
            let value = settings::parse(&changed).ok().and_then(|settings| settings.get(key));
            print_settings(session, &[(key.clone(), value.unwrap_or_default())]);
        }
        (Some(key), None) => {
            let value =
                current.get(key).ok_or_else(|| Failure::usage(format!("there is no setting {key:?}")))?;
            if session.out.is_json() {
                print_settings(session, &[(key.clone(), value)]);
            } else {
                session.out.line(&value);
            }
        }
        (None, _) => {
            let all: Vec<_> = settings::KEYS
                .iter()
                .map(|(key, _)| ((*key).to_owned(), current.get(key).unwrap_or_default()))
                .collect();
            print_settings(session, &all);
        }
    }
    Ok(0)
}

fn print_settings(session: &Session<'_>, settings: &[(String, String)]) {
    if session.out.is_json() {
        let map: serde_json::Map<String, Value> =
            settings.iter().map(|(key, value)| (key.clone(), typed(key, value))).collect();
        session.out.json(&map);
    } else {
        for (key, value) in settings {
            session.out.line(&format!("{key} = {value}"));
        }
    }
}

fn typed(key: &str, value: &str) -> Value {
    match key {
        "format" | "capacity" => value.parse::<u64>().map_or(Value::Null, Value::from),
        "allow_network_fs" => Value::Bool(value == "true"),
        _ => Value::String(value.to_owned()),
    }
}

pub(super) fn prune(session: &Session<'_>, args: &PruneArgs) -> Done {
    let store = session.open_store()?;
    let engine = session.engine(&store);
    let options = crate::engine::prune::Options {
        older_than: args.older_than,
        keep: args.keep,
        mode: if args.dry_run { Mode::DryRun } else { Mode::Act },
    };
    let progress = Progress::new(session.out);
    let pruned =
        crate::engine::prune::prune(&engine, &options, &|done| progress.counted("runs pruned:", done));
    progress.clear();
    let pruned = pruned.map_err(|error| Failure::of(&error))?;
    if session.out.is_json() {
        let runs: Vec<Value> = pruned.runs.iter().map(|run| json!({ "run": run.as_str() })).collect();
        session.out.json(&json!({ "items": runs, "pruned": pruned.count, "dry_run": args.dry_run }));
    } else {
        let what = if args.dry_run { "would prune" } else { "pruned" };
        session.out.line(&format!(
            "{what} {} finished run{}",
            pruned.count,
            if pruned.count == 1 { "" } else { "s" }
        ));
    }
    Ok(0)
}
