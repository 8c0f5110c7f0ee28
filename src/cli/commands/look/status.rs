//! `wfctl status`: what is running, what waits for somebody, what went wrong, what comes next.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::super::{Done, Session, show_gate_commands};
use crate::{
    cli::{
        error::Failure,
        table::{Cell, Fit, Table, Tone},
        text,
    },
    engine::{
        metrics::LastTick,
        query::{read_status, view::StatusView},
    },
};

pub(in crate::cli::commands) fn status(session: &Session<'_>) -> Done {
    let store = session.open_store()?;
    let now = session.now();
    let view = read_status(&store, now).map_err(|error| Failure::of(&error))?;
    if session.out.is_json() {
        view.warnings.iter().for_each(|warning| session.out.warn(warning));
        session.out.json(&view);
        return Ok(0);
    }
    overview(session, &view, LastTick::load(&store).as_ref(), now);
    running(session, &view, now);
    waiting(session, &view, now);
    troubles(session, &view, now);
    upcoming(session, &view, now);
    Ok(0)
}

fn overview(session: &Session<'_>, view: &StatusView, last_tick: Option<&LastTick>, now: DateTime<Utc>) {
    let out = session.out;
    out.field("store", &view.store, Tone::Plain);
    let capacity = &view.capacity;
    let tone = if capacity.free == 0 { Tone::Waiting } else { Tone::Plain };
    let slots =
        format!("{} ({} busy, {} free)", counted(capacity.total, "slot"), capacity.busy, capacity.free);
    out.field("capacity", &slots, tone);
    let paused = match view.schedules.paused {
        0 => String::new(),
        paused => format!(" ({paused} paused)"),
    };
    out.field("schedules", &format!("{}{paused}", view.schedules.total), Tone::Plain);
    if let Some(tick) = last_tick {
        let tone = if tick.exit == 0 { Tone::Plain } else { Tone::Bad };
        let took = text::elapsed(Duration::from_millis(tick.ms));
        let said = format!("{}, took {took}, exit {}", text::moment(tick.at, now), tick.exit);
        out.field("last tick", &said, tone);
    }
    if view.draining {
        out.field("draining", "yes: nothing is admitted, dispatched or resumed", Tone::Waiting);
        out.command(12, &session.command("undrain"));
    }
}

fn running(session: &Session<'_>, view: &StatusView, now: DateTime<Utc>) {
    let columns = [
        ("run", Fit::Whole),
        ("step", Fit::Whole),
        ("elapsed", Fit::Number),
        ("slot", Fit::Number),
        ("since", Fit::Wrap),
    ];
    let mut table = Table::new(&columns);
    for slot in view.slots.iter().filter(|slot| slot.state == "live") {
        let elapsed = slot.step_since.or(slot.since).and_then(|since| (now - since.0).to_std().ok());
        let step = match (&slot.step, slot.r#try) {
            (Some(step), Some(2..)) => format!("{step} (try {})", slot.r#try.unwrap_or_default()),
            (Some(step), _) => step.clone(),
            (None, _) => "-".to_owned(),
        };
        table.row([
            Cell::toned(slot.run.as_deref().unwrap_or("-"), Tone::Busy),
            Cell::from(step),
            elapsed.map_or_else(Cell::none, Cell::elapsed),
            Cell::from(slot.slot.to_string()),
            Cell::moment(slot.since.map(|at| at.0), now),
        ]);
    }
    if !table.is_empty() {
        session.out.heading("Running");
        session.out.table(&table);
    }
}

fn waiting(session: &Session<'_>, view: &StatusView, now: DateTime<Utc>) {
    let out = session.out;
    if !view.interrupted.is_empty() {
        out.heading("Waiting for an answer");
    }
    for gate in &view.interrupted {
        let since = text::moment(gate.since.0, now);
        out.paragraph(0, &format!("{}  {}  since {since}", gate.run, gate.step), Tone::Waiting);
        out.paragraph(2, &text::one_line(&gate.question), Tone::Plain);
        if let Some(at) = gate.expires_at {
            out.paragraph(2, &format!("expires {}", text::moment(at.0, now)), Tone::Plain);
        }
        for why in &gate.diagnostics {
            out.paragraph(2, &format!("blocked: {}", text::one_line(why)), Tone::Bad);
        }
        show_gate_commands(session, 2, &gate.run, &gate.outcomes, gate.has_schema);
    }
}

fn troubles(session: &Session<'_>, view: &StatusView, now: DateTime<Utc>) {
    let out = session.out;
    if !(view.ambiguous.is_empty()
        && view.abandoned.is_empty()
        && view.failed.is_empty()
        && view.warnings.is_empty())
    {
        out.heading("Went wrong");
    }
    for run in &view.ambiguous {
        let since = text::moment(run.since.0, now);
        out.paragraph(0, &format!("{}  ambiguous  since {since}", run.run), Tone::Bad);
        out.paragraph(2, &text::one_line(&run.error), Tone::Plain);
        for command in session.resolve_commands(&run.run) {
            out.command(2, &command);
        }
    }
    for run in &view.abandoned {
        let since = text::moment(run.since.0, now);
        out.paragraph(0, &format!("{}  abandoned  began {since}", run.run), Tone::Bad);
        out.command(2, &session.command(&format!("recover --run {}", run.run)));
    }
    for run in &view.failed {
        let at = text::moment(run.at.0, now);
        out.paragraph(0, &format!("{}  failed  {at}", run.run), Tone::Bad);
        if let Some(error) = &run.error {
            out.paragraph(2, &text::one_line(error), Tone::Plain);
        }
        out.command(2, &session.command(&format!("logs {}", run.run)));
    }
    for warning in &view.warnings {
        out.paragraph(0, &format!("warning: {}", text::one_line(warning)), Tone::Waiting);
    }
}

fn upcoming(session: &Session<'_>, view: &StatusView, now: DateTime<Utc>) {
    let out = session.out;
    out.heading("Next");
    if view.queued > 0 {
        out.paragraph(0, &format!("{} for a slot:", counted_waiting(view.queued)), Tone::Plain);
        for run in &view.queue {
            out.paragraph(2, &run.run, Tone::Plain);
        }
        let more = view.queued.saturating_sub(view.queue.len() as u64);
        if more > 0 {
            out.paragraph(2, &format!("and {more} more"), Tone::Dim);
            out.command(2, &session.command("list --status queued"));
        }
    }
    let mut table = Table::new(&[("schedule", Fit::Whole), ("due", Fit::Wrap)]);
    for item in &view.upcoming {
        let due = text::moment(item.due.0, now);
        let due = if item.due.0 <= now { Cell::toned(&due, Tone::Waiting) } else { Cell::from(due) };
        table.row([Cell::from(item.schedule.as_str()), due]);
    }
    if table.is_empty() {
        out.paragraph(0, "no schedule is due", Tone::Plain);
    } else {
        out.table(&table);
    }
    if view.next_due.is_some_and(|due| (now - due.0).num_minutes() >= 5) {
        out.paragraph(0, "A tick is overdue: is cron running it?", Tone::Waiting);
        out.command(2, &session.command("tick"));
    }
}

fn counted(number: u32, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

fn counted_waiting(runs: u64) -> String {
    if runs == 1 { "1 run waits".to_owned() } else { format!("{runs} runs wait") }
}
