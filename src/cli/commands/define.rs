//! Commands that define things: stores, workflows, schedules.

use std::{path::Path, time::Duration};

use serde_json::{Value, json};

use super::{Done, Session, Stdin, json_value, parse_json, read_file};
use crate::{
    cli::{
        args::{
            ByArgs, CatchUpWord, CheckArgs, InitArgs, PolicyArgs, ScheduleArgs, ScheduleChangeArgs,
            ScheduleIdArgs, TriggerArgs, TriggerNowArgs,
        },
        error::Failure,
        text,
    },
    domain::{
        ids::RunId,
        policy::{CatchUp, DEFAULT_CATCH_UP_LIMIT, Policies},
        trigger::{CronExpr, Definition, Rule, Zone, parse_every, parse_time},
    },
    engine::{
        EngineError, admit,
        query::view::ScheduleItem,
        schedule::{self, Alteration, Existing, Inputs, Repeatable, Request, Scheduled},
    },
    store::Store,
};

pub(super) fn init(session: &Session<'_>, args: &InitArgs) -> Done {
    let path = session.store_path()?;
    let created = Store::create(&path, args.capacity).map_err(|error| Failure::of_store(&error))?;
    let store = Store::open(&path, session.name).map_err(|error| Failure::of_store(&error))?;
    let capacity = store.settings().capacity;
    if !created && args.capacity.is_some_and(|wanted| wanted != capacity) {
        return Err(Failure::new(
            73,
            "exists",
            format!("the store {} exists already, with capacity {capacity}", path.display()),
        )
        .with_hint("wfctl config capacity N changes it"));
    }
    if session.out.is_json() {
        session.out.json(&json!({ "store": path, "created": created, "capacity": capacity }));
    } else {
        let what = if created { "created" } else { "there is already" };
        let path = path.to_string_lossy();
        session.out.line(&format!("{what} the store {} (capacity {capacity})", text::escape(&path)));
    }
    Ok(0)
}

pub(super) fn check(session: &Session<'_>, args: &CheckArgs) -> Done {
    let mut bad: Option<Failure> = None;
    let mut good = Vec::new();
    for file in &args.files {
        match admit::read_workflow(session.env, file) {
            Ok(source) => {
                let steps = source.workflow.steps().len();
                if !session.out.is_json() {
                    session.out.line(&format!(
                        "{}: {} is a valid workflow of {steps} step{}",
                        text::escape(&file.to_string_lossy()),
                        source.workflow.name,
                        if steps == 1 { "" } else { "s" }
                    ));
                }
                missing_programs(session, &source);
                good.push(json!({ "file": file, "name": source.workflow.name.as_str(), "steps": steps }));
            }
            Err(error) => {
                let failure = Failure::of(&error);
                bad = Some(match bad {
                    None => failure,
                    Some(mut first) => {
                        if session.out.is_json() {
                            first.details.extend(failure.details);
                            first
                        } else {
                            session.out.failure(&first);
                            failure
                        }
                    }
                });
            }
        }
    }
    match bad {
        Some(failure) => Err(failure),
        None => {
            if session.out.is_json() {
                session.out.json(&super::items(good));
            }
            Ok(0)
        }
    }
}

/// Says what would not be found at 3 a.m.: programs that the pinned environment does not lead to.
fn missing_programs(session: &Session<'_>, source: &admit::Source) {
    for warning in admit::missing_programs(source) {
        session.out.warn(&warning);
    }
}

pub(super) fn schedule(session: &Session<'_>, args: &ScheduleArgs) -> Done {
    let source = admit::read_workflow(session.env, &args.file).map_err(|error| Failure::of(&error))?;
    let input = match &args.input {
        Some(text) => json_value("--input", text, Stdin::Refused)?,
        None => Value::Null,
    };
    let store = session.open_or_create_store()?;
    let asked_at = session.now();
    let (trigger, repeatable) = trigger_of(session, &args.trigger, &store.settings().timezone)?;
    let engine = session.engine(&store);
    missing_programs(session, &source);
    let request = Request {
        id: args.id.clone().unwrap_or_else(|| source.workflow.name.clone()),
        source,
        trigger,
        asked_at,
        policies: policies_of(&args.policy)?,
        input,
        paused: args.paused.then(|| session.by(&ByArgs { by: None })),
        existing: if args.replace { Existing::Replace } else { Existing::Refuse },
        repeatable,
    };
    let scheduled = schedule::schedule(&engine, request).map_err(|error| Failure::of(&error))?;
    let item = ScheduleItem::of(scheduled.schedule(), None);
    let what = match &scheduled {
        Scheduled::Created(_) => "created",
        Scheduled::Unchanged(_) => "unchanged",
        Scheduled::Replaced(_) => "replaced",
    };
    if session.out.is_json() {
        let mut document = serde_json::to_value(&item).unwrap_or_default();
        document["schedule"] = json!(item.id);
        document["result"] = json!(what);
        session.out.json(&document);
    } else {
        let next = match &item.next_due {
            Some(at) if !item.paused => format!("next due {}", text::moment(at.0, session.now())),
            Some(_) => "paused".to_owned(),
            None => "not due again".to_owned(),
        };
        session.out.line(&format!("{what} schedule {}: {}, {next}", item.id, item.trigger));
    }
    Ok(0)
}

/// The trigger that the options define, and whether they mean the same at any time.
pub(super) fn trigger_of(
    session: &Session<'_>,
    args: &TriggerArgs,
    default_zone: &str,
) -> Result<(Definition, Repeatable), Failure> {
    let zone = Zone::parse(args.tz.as_deref().unwrap_or(default_zone))
        .map_err(|error| Failure::of_trigger(&error))?;
    let now = session.now();
    let mut repeatable = Repeatable::Yes;
    let mut time = |option: &str, text: &str| {
        if text.trim() == "now" || text.trim().starts_with(['+', '-']) {
            repeatable = Repeatable::No;
        }
        parse_time(text, &zone, now).map_err(|error| Failure::of_trigger(&error).about(option))
    };
    let rule = match (&args.cron, &args.every, &args.at) {
        (Some(expr), _, _) => Rule::Cron(CronExpr::parse(expr).map_err(|error| Failure::of_trigger(&error))?),
        (_, Some(period), _) => {
            let period = parse_every(period).map_err(|error| Failure::of_trigger(&error))?;
            let anchor = match &args.anchor {
                Some(text) => time("--anchor", text)?,
                None => zone.midnight_of_epoch(),
            };
            Rule::Every { period, anchor }
        }
        (_, _, Some(at)) => Rule::At(time("--at", at)?),
        (None, None, None) => return Err(Failure::usage("a trigger is needed: --cron, --every or --at")),
    };
    let start = args.start.as_deref().map(|text| time("--start", text)).transpose()?;
    let until = args.until.as_deref().map(|text| time("--until", text)).transpose()?;
    let definition = Definition {
        rule,
        zone,
        start,
        until,
        count: args.count,
        jitter: args.jitter.unwrap_or(Duration::ZERO),
        dst_gap: args.dst_gap.into(),
        dst_fold: args.dst_fold.into(),
    };
    Ok((definition, repeatable))
}

fn policies_of(args: &PolicyArgs) -> Result<Policies, Failure> {
    let catch_up = match args.catchup {
        CatchUpWord::Latest => CatchUp::Latest,
        CatchUpWord::All => CatchUp::All { limit: args.catchup_limit.unwrap_or(DEFAULT_CATCH_UP_LIMIT) },
        CatchUpWord::None => CatchUp::None,
    };
    if args.catchup_limit.is_some() && args.catchup != CatchUpWord::All {
        return Err(Failure::usage("--catchup-limit goes with --catchup all"));
    }
    Ok(Policies { overlap: args.overlap.into(), catch_up, deadline: args.deadline })
}

pub(super) fn trigger(session: &Session<'_>, args: &TriggerNowArgs) -> Done {
    let inputs = match (&args.input, &args.inputs) {
        (_, Some(file)) => Inputs::Many(input_lines(file)?),
        (Some(text), None) => Inputs::One(Some(json_value("--input", text, Stdin::Refused)?)),
        (None, None) => Inputs::One(None),
    };
    let store = session.open_store()?;
    let engine = session.engine(&store);
    let runs = schedule::trigger(&engine, args.id.as_str(), inputs).map_err(|error| Failure::of(&error))?;
    if session.out.is_json() {
        let admitted: Vec<Value> = runs.iter().map(|run| json!({ "run": run.as_str() })).collect();
        session.out.json(&json!({
            "run": runs.first().map(RunId::as_str),
            "schedule": args.id.as_str(),
            "admitted": admitted,
        }));
    } else {
        for run in &runs {
            session.out.line(&format!("admitted {run}"));
        }
    }
    Ok(0)
}

/// One JSON value a line; an error names the line.
fn input_lines(file: &str) -> Result<Vec<Value>, Failure> {
    let path = file.strip_prefix('@').unwrap_or(file);
    let text = read_file(Path::new(path))?;
    let mut inputs = Vec::new();
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        inputs.push(parse_json("--inputs", &format!("{path}, line {}", index + 1), line)?);
    }
    if inputs.is_empty() {
        return Err(Failure::new(65, "bad_input", format!("--inputs: {path} has no line of JSON")));
    }
    Ok(inputs)
}

pub(super) fn pause(session: &Session<'_>, args: &ScheduleChangeArgs) -> Done {
    let by = session.by(&args.by);
    alter(session, args.id.as_str(), Alteration::Pause, &by, ["paused", "was paused already"])
}

pub(super) fn unpause(session: &Session<'_>, args: &ScheduleChangeArgs) -> Done {
    let by = session.by(&args.by);
    alter(session, args.id.as_str(), Alteration::Unpause, &by, ["unpaused", "is not paused"])
}

pub(super) fn remove(session: &Session<'_>, args: &ScheduleChangeArgs) -> Done {
    let by = session.by(&args.by);
    alter(session, args.id.as_str(), Alteration::Remove, &by, ["removed", "was removed already"])
}

pub(super) fn rewind(session: &Session<'_>, args: &ScheduleIdArgs) -> Done {
    let by = session.by(&ByArgs { by: None });
    alter(session, args.id.as_str(), Alteration::Rewind, &by, ["rewound", "is not ahead of the clock"])
}

fn alter(
    session: &Session<'_>,
    id: &str,
    alteration: Alteration,
    by: &str,
    [done, already]: [&str; 2],
) -> Done {
    let store = session.open_store()?;
    let engine = session.engine(&store);
    let altered: Result<_, EngineError> = schedule::alter(&engine, id, alteration, by);
    let (schedule, changed) = altered.map_err(|error| Failure::of(&error))?;
    if session.out.is_json() {
        let item = ScheduleItem::of(&schedule, None);
        let mut document = serde_json::to_value(&item).unwrap_or_default();
        document["schedule"] = json!(item.id);
        document["changed"] = json!(changed);
        session.out.json(&document);
    } else {
        let said = if changed { format!("{done} schedule {id}") } else { format!("schedule {id} {already}") };
        session.out.line(&said);
    }
    Ok(0)
}
