//! `wfctl next`: upcoming occurrences.

use serde_json::json;

use super::super::{Done, Session, define::trigger_of};
use crate::{
    cli::{args::NextArgs, error::Failure, text},
    domain::trigger::Trigger,
    engine::query::load_schedule,
};

pub(in crate::cli::commands) fn next(session: &Session<'_>, args: &NextArgs) -> Done {
    let (trigger, zone) = if let Some(id) = &args.id {
        let store = session.open_store()?;
        let schedule = load_schedule(&store, id.as_str()).map_err(|error| Failure::of(&error))?;
        let zone = schedule.definition.trigger.definition().zone.clone();
        (schedule.definition.trigger, zone)
    } else {
        let (definition, _) = trigger_of(session, &args.trigger, "UTC")?;
        let zone = definition.zone.clone();
        (Trigger::new(definition), zone)
    };
    trigger.check().map_err(|error| Failure::of_trigger(&error))?;
    let now = session.now();
    let from = match &args.from {
        Some(text) => session.time("--from", text, &zone)?,
        None => now,
    };
    let times = trigger.occurrences_after(from).take(args.limit as usize);
    if session.out.is_json() {
        let local: Vec<String> =
            times.map(|at| zone.local(at).to_rfc3339_opts(chrono::SecondsFormat::Secs, false)).collect();
        session.out.json(&json!({ "items": local }));
        return Ok(0);
    }
    for at in times {
        // The form of the JSON first, so that a script may cut it off; the rest is for people.
        let local = zone.local(at);
        let exact = local.to_rfc3339_opts(chrono::SecondsFormat::Secs, false);
        session.out.line(&format!("{exact}  {}  {}", local.format("%a"), text::relative(at, now)));
    }
    Ok(0)
}
