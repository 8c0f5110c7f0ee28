//! `wfctl show`: all that is known of one run.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::{
    super::{Done, Session, show_gate_commands},
    word,
};
use crate::{
    cli::{
        args::ShowArgs,
        table::{Cell, Fit, Table, Tone},
        text,
    },
    engine::query::{
        Names,
        view::{AttemptView, RunShow, StepView},
    },
};

/// Values that are longer are cut where people read them; JSON has them whole.
const LONGEST_VALUE: usize = 2000;

pub(in crate::cli::commands) fn show(session: &Session<'_>, args: &ShowArgs) -> Done {
    let store = session.open_store()?;
    let run = session.find(&store, &args.run, Names::RunsAndSchedules)?;
    let loaded = session.load(&store, &run)?;
    let shown = RunShow::of(&store, &loaded);
    if session.out.is_json() {
        session.out.json(&shown);
        return Ok(0);
    }
    let now = session.now();
    print_facts(session, &shown, now);
    print_attempts(session, &shown.attempts, now);
    print_steps(session, &shown.steps, now);
    print_value(session, "Input", Some(&shown.input).filter(|input| !input.is_null()));
    print_value(session, "Output", shown.output.as_ref());
    print_gate(session, &shown, now);
    print_next(session, &shown);
    Ok(0)
}

/// What a run came to, and what can be done about it.
pub(in crate::cli::commands) fn print_outcome(session: &Session<'_>, shown: &RunShow, now: DateTime<Utc>) {
    print_head(session, shown);
    if let Some(gate) = &shown.interrupt {
        session.out.field("question", &text::one_line(&gate.question), Tone::Waiting);
        if let Some(at) = &gate.expires_at {
            session.out.field("expires", &text::moment(at.0, now), Tone::Plain);
        }
    }
    for (label, command) in next_commands(session, shown) {
        session.out.paragraph(0, label, Tone::Plain);
        session.out.command(2, &command);
    }
    if let Some(gate) = &shown.interrupt {
        session.out.paragraph(0, "answer it:", Tone::Plain);
        show_gate_commands(session, 2, &shown.item.run, &gate.outcomes, gate.schema.is_some());
    }
}

fn print_head(session: &Session<'_>, shown: &RunShow) {
    let out = session.out;
    let item = &shown.item;
    let word = word(item);
    out.field("run", &item.run, Tone::Plain);
    out.field("status", word, Tone::of_status(word));
    if let Some(outcome) = &item.outcome {
        out.field("outcome", outcome, Tone::of_status(outcome));
    }
    if let Some(reason) = item.reason.filter(|reason| *reason != word) {
        out.field("reason", reason, Tone::Plain);
    }
    if let Some(error) = &item.error {
        out.field("error", &text::one_line(error), Tone::Bad);
    }
}

fn print_facts(session: &Session<'_>, shown: &RunShow, now: DateTime<Utc>) {
    print_head(session, shown);
    let out = session.out;
    let item = &shown.item;
    if let Some(by) = &shown.by {
        out.field("by", &text::one_line(by), Tone::Plain);
    }
    if let Some(note) = &shown.note {
        out.field("note", &text::one_line(note), Tone::Plain);
    }
    let digest = item.workflow.digest.get(..12).unwrap_or(&item.workflow.digest);
    out.field("workflow", &format!("{} ({digest})", item.workflow.name), Tone::Plain);
    let origin = if item.manual { ", started by hand" } else { "" };
    match &item.schedule {
        Some(schedule) => out.field("schedule", &format!("{schedule}{origin}"), Tone::Plain),
        None => out.field("schedule", "none: an ad-hoc run", Tone::Dim),
    }
    out.field("occurrence", &text::moment(item.occurrence.0, now), Tone::Plain);
    out.field("created", &text::moment(item.created_at.0, now), Tone::Plain);
    out.field("updated", &text::moment(item.updated_at.0, now), Tone::Plain);
    if let Some(slot) = item.slot {
        out.field("slot", &slot.to_string(), Tone::Plain);
    }
    out.field("folder", &shown.folder, Tone::Dim);
}

fn print_attempts(session: &Session<'_>, attempts: &[AttemptView], now: DateTime<Utc>) {
    let columns = [
        ("#", Fit::Number),
        ("kind", Fit::Whole),
        ("state", Fit::Whole),
        ("started", Fit::Moment),
        ("took", Fit::Number),
        ("slot", Fit::Number),
        ("answer", Fit::Wrap),
    ];
    let mut table = Table::new(&columns);
    for attempt in attempts {
        let end = attempt.ended_at.map_or(now, |at| at.0);
        let took = (end - attempt.started_at.0).to_std().ok();
        let parts =
            [attempt.outcome.clone(), attempt.by.as_ref().map(|by| format!("by {by}")), attempt.note.clone()];
        let answer: Vec<String> = parts.into_iter().flatten().map(|part| text::one_line(&part)).collect();
        let answer = Some(answer.join(", ")).filter(|answer| !answer.is_empty());
        table.row([
            Cell::from(attempt.attempt.to_string()),
            Cell::from(attempt.kind),
            Cell::status(attempt.state),
            Cell::moment(Some(attempt.started_at.0), now),
            took.map_or_else(Cell::none, Cell::elapsed),
            Cell::optional(attempt.slot),
            Cell::optional(answer),
        ]);
    }
    print_table(session, "Attempts", &table);
}

fn print_steps(session: &Session<'_>, steps: &[StepView], now: DateTime<Utc>) {
    let columns = [
        ("#", Fit::Number),
        ("step", Fit::Whole),
        ("try", Fit::Number),
        ("outcome", Fit::Whole),
        ("ended with", Fit::Wrap),
        ("took", Fit::Number),
        ("started", Fit::Moment),
    ];
    let mut table = Table::new(&columns);
    for step in steps {
        table.row([
            Cell::from(step.seq.to_string()),
            Cell::from(step.step.as_str()),
            Cell::from(step.r#try.to_string()),
            step.outcome.as_deref().map_or_else(|| Cell::status("unknown"), Cell::status),
            Cell::optional(ending(step)),
            step.ms.map_or_else(Cell::none, |ms| Cell::elapsed(Duration::from_millis(ms))),
            Cell::moment(Some(step.started_at.0), now),
        ]);
    }
    print_table(session, "Steps", &table);
    for step in steps {
        if let Some(log) = &step.log {
            session.out.paragraph(0, &format!("log of {}: {log}", step.seq), Tone::Dim);
        }
    }
}

fn ending(step: &StepView) -> Option<String> {
    let code = step.exit.map(|exit| format!("exit {exit}"));
    let signal = step.signal.map(|signal| format!("signal {signal}"));
    let error = step.error.as_deref().map(text::one_line);
    let parts: Vec<String> = [code, signal, error].into_iter().flatten().collect();
    Some(parts.join(", ")).filter(|ending| !ending.is_empty())
}

fn print_table(session: &Session<'_>, heading: &str, table: &Table) {
    if !table.is_empty() {
        session.out.heading(heading);
        session.out.table(table);
    }
}

fn print_value(session: &Session<'_>, heading: &str, value: Option<&Value>) {
    let Some(value) = value else { return };
    session.out.heading(heading);
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    if let Some((at, _)) = text.char_indices().nth(LONGEST_VALUE) {
        text.truncate(at);
        text.push_str(" … (--json has all of it)");
    }
    text.lines().for_each(|line| session.out.line(line));
}

fn print_gate(session: &Session<'_>, shown: &RunShow, now: DateTime<Utc>) {
    let Some(gate) = &shown.interrupt else { return };
    let out = session.out;
    out.heading(&format!("Gate {} ({})", gate.step, gate.gate));
    out.paragraph(0, &text::one_line(&gate.question), Tone::Waiting);
    out.paragraph(0, &format!("open since {}", text::moment(gate.since.0, now)), Tone::Plain);
    if let Some(at) = &gate.expires_at {
        out.paragraph(0, &format!("expires {}", text::moment(at.0, now)), Tone::Plain);
    }
    if let Some(schema) = &gate.schema {
        out.paragraph(0, &format!("the payload must fit {schema}"), Tone::Plain);
    }
    show_gate_commands(session, 2, &shown.item.run, &gate.outcomes, gate.schema.is_some());
}

fn print_next(session: &Session<'_>, shown: &RunShow) {
    // What ambiguous and abandoned runs need is said below.
    if shown.interrupt.is_some() && !shown.diagnostics.is_empty() {
        session.out.heading("Blocked");
        for diagnostic in &shown.diagnostics {
            session.out.paragraph(0, &text::one_line(diagnostic), Tone::Bad);
        }
    }
    let commands = next_commands(session, shown);
    if !commands.is_empty() {
        session.out.heading("Next");
    }
    for (label, command) in commands {
        session.out.paragraph(0, label, Tone::Plain);
        session.out.command(2, &command);
    }
}

/// The commands that make sense now, with why; those of a gate are apart.
fn next_commands(session: &Session<'_>, shown: &RunShow) -> Vec<(&'static str, String)> {
    let run = &shown.item.run;
    let command = |text: String| session.command(&text);
    match word(&shown.item) {
        "running" => vec![("watch it:", command(format!("logs {run} -f")))],
        "abandoned" => vec![("have it reconciled:", command(format!("recover --run {run}")))],
        "ambiguous" => {
            let [completed, failed] = session.resolve_commands(run);
            vec![
                ("find out what it did; if nothing is left to do, this ends the run:", completed),
                ("if something is, this lets `wfctl retry` go on:", failed),
            ]
        }
        "queued" => vec![("the next tick executes it:", command("tick".to_owned()))],
        "failed" => vec![
            ("see why:", command(format!("logs {run}"))),
            ("send it back to the queue:", command(format!("retry {run}"))),
        ],
        _ => Vec::new(),
    }
}
