//! Commands that look and tell.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::{Done, Session, define::trigger_of, or_forever};
use crate::{
    cli::{
        args::{
            CompleteArgs, CompletionsArgs, HistoryArgs, ListArgs, LogsArgs, ManArgs, MetricsArgs, NextArgs,
            PageArgs, ShowArgs, StatusWord, WaitArgs,
        },
        error::Failure,
        output::Output,
        table::{Cell, Fit, Table, Tone},
        text,
    },
    domain::{
        ids::RunId,
        trigger::{Trigger, Zone},
    },
    engine::{
        fsck::{self, Severity},
        query::{
            HistoryFilter, LoadedRun, Names, Page, PageRequest, RunFilter, list_history, list_runs,
            list_schedules, load_schedule, read_status, view::RunShow,
        },
    },
    process::Signals,
    state::run::Status,
    store::{
        Store, layout,
        lock::Patience,
        watch::{Watch, Woken},
    },
};

pub(super) fn status(session: &Session<'_>) -> Done {
    let store = session.open_store()?;
    let now = session.now();
    let view = read_status(&store, now).map_err(|error| Failure::of(&error))?;
    for warning in &view.warnings {
        session.out.warn(warning);
    }
    if session.out.is_json() {
        session.out.json(&view);
        return Ok(0);
    }
    let out = session.out;
    out.field("store", &view.store, Tone::Plain);
    let capacity = &view.capacity;
    out.field(
        "capacity",
        &format!("{} ({} busy, {} free)", capacity.total, capacity.busy, capacity.free),
        Tone::Plain,
    );
    out.field("queued", &view.queued.to_string(), Tone::Plain);
    out.field(
        "schedules",
        &format!("{} ({} paused)", view.schedules.total, view.schedules.paused),
        Tone::Plain,
    );
    let next = view.next_due.as_ref().map_or_else(|| "nothing".to_owned(), |at| text::moment(at.0, now));
    out.field("next due", &next, Tone::Plain);
    if view.draining {
        out.field("draining", "yes: nothing is admitted, dispatched or resumed", Tone::Waiting);
    }
    for slot in view.slots.iter().filter(|slot| slot.run.is_some()) {
        let since = slot.since.as_ref().map_or_else(String::new, |at| text::moment(at.0, now));
        let run = slot.run.as_deref().unwrap_or("-");
        out.line(&format!("slot {}  {}  {run}  since {since}", slot.slot, slot.state));
    }
    for gate in &view.interrupted {
        out.line(&format!("waiting  {}  {}: {}", gate.run, gate.step, text::one_line(&gate.question)));
        out.line(&format!("         wfctl resume {}", gate.run));
    }
    for run in &view.ambiguous {
        out.line(&format!("ambiguous  {}  {}", run.run, text::one_line(&run.error)));
        out.line(&format!("           wfctl resolve {} --as completed|failed --note TEXT", run.run));
    }
    for run in &view.abandoned {
        out.line(&format!("abandoned  {}", run.run));
        out.line(&format!("           wfctl recover --run {}", run.run));
    }
    Ok(0)
}

fn page_request(args: &PageArgs) -> PageRequest {
    PageRequest { limit: usize::try_from(args.limit).unwrap_or(usize::MAX), cursor: args.cursor.clone() }
}

fn print_page<T: serde::Serialize>(session: &Session<'_>, page: &Page<T>, table: impl FnOnce() -> Table) {
    for damage in &page.corrupt {
        session.out.warn(&damage.to_string());
    }
    if session.out.is_json() {
        session.out.json(page);
        return;
    }
    session.out.table(&table());
    if let Some(cursor) = &page.next_cursor {
        session.out.note(&format!("more with --cursor {cursor}"));
    }
}

pub(super) fn schedules(session: &Session<'_>, args: &PageArgs) -> Done {
    let store = session.open_store()?;
    let page = list_schedules(&store, &page_request(args)).map_err(|error| Failure::of(&error))?;
    let now = session.now();
    print_page(session, &page, || {
        let columns = [
            ("schedule", Fit::Whole),
            ("trigger", Fit::Wrap),
            ("zone", Fit::Wrap),
            ("next due", Fit::Whole),
            ("workflow", Fit::Wrap),
        ];
        let mut table = Table::new(&columns);
        for item in &page.items {
            let due = if item.paused {
                Cell::status("paused")
            } else {
                Cell::moment(item.next_due.as_ref().map(|at| at.0), now)
            };
            table.row([
                Cell::from(item.id.as_str()),
                Cell::from(item.trigger.as_str()),
                Cell::from(item.tz.as_str()),
                due,
                Cell::from(item.workflow.name.as_str()),
            ]);
        }
        table
    });
    Ok(0)
}

pub(super) fn list(session: &Session<'_>, args: &ListArgs) -> Done {
    let store = session.open_store()?;
    let zone = Zone::parse(&store.settings().timezone).unwrap_or_else(|_| Zone::utc());
    let since = args.since.as_deref().map(|text| session.time("--since", text, &zone)).transpose()?;
    let filter = RunFilter { status: args.status.map(status_of), schedule: args.schedule.clone(), since };
    let now = session.now();
    let page =
        list_runs(&store, now, &filter, &page_request(&args.page)).map_err(|error| Failure::of(&error))?;
    print_page(session, &page, || {
        let columns =
            [("run", Fit::Whole), ("status", Fit::Whole), ("outcome", Fit::Wrap), ("updated", Fit::Wrap)];
        let mut table = Table::new(&columns);
        for item in &page.items {
            let outcome = item.outcome.as_deref().or(item.reason);
            table.row([
                Cell::from(item.run.as_str()),
                Cell::status(word(item)),
                Cell::optional(outcome),
                Cell::moment(Some(item.updated_at.0), now),
            ]);
        }
        table
    });
    Ok(0)
}

fn word(item: &crate::engine::query::view::RunItem) -> &'static str {
    match (item.executing, item.live, item.ambiguous) {
        (true, true, _) => "running",
        (true, false, _) => "abandoned",
        (false, _, true) => "ambiguous",
        (false, _, false) => item.status,
    }
}

fn status_of(word: StatusWord) -> Status {
    match word {
        StatusWord::Queued | StatusWord::Running => Status::Queued,
        StatusWord::Interrupted => Status::Interrupted,
        StatusWord::Completed => Status::Completed,
        StatusWord::Failed | StatusWord::Ambiguous => Status::Failed,
        StatusWord::Cancelled => Status::Cancelled,
    }
}

pub(super) fn history(session: &Session<'_>, args: &HistoryArgs) -> Done {
    let store = session.open_store()?;
    let run = match &args.run {
        Some(text) => Some(session.find(&store, text, Names::RunsAndSchedules)?),
        None => None,
    };
    let filter = HistoryFilter { schedule: args.schedule.clone(), run };
    let page =
        list_history(&store, &filter, &page_request(&args.page)).map_err(|error| Failure::of(&error))?;
    let now = session.now();
    print_page(session, &page, || {
        let columns = [
            ("at", Fit::Whole),
            ("kind", Fit::Whole),
            ("run or schedule", Fit::Whole),
            ("detail", Fit::Wrap),
        ];
        let mut table = Table::new(&columns);
        for item in &page.items {
            let subject = item.run.as_deref().or(item.schedule.as_deref());
            table.row([
                Cell::moment(Some(item.at.0), now),
                Cell::status(item.kind),
                Cell::optional(subject),
                Cell::from(brief(&item.detail)),
            ]);
        }
        table
    });
    Ok(0)
}

/// The fields of a detail that hold something, in one line.
fn brief(detail: &Value) -> String {
    let Some(fields) = detail.as_object() else { return String::new() };
    let said = fields.iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| match value {
        Value::String(text) => format!("{name} {text}"),
        other => format!("{name} {other}"),
    });
    said.collect::<Vec<_>>().join(", ")
}

pub(super) fn show(session: &Session<'_>, args: &ShowArgs) -> Done {
    let store = session.open_store()?;
    let run = session.find(&store, &args.run, Names::RunsAndSchedules)?;
    let loaded = session.load(&store, &run)?;
    let shown = RunShow::of(&store, &loaded);
    if session.out.is_json() {
        session.out.json(&shown);
        return Ok(0);
    }
    let now = session.now();
    print_outcome(session.out, &shown, now);
    let out = session.out;
    out.field(
        "workflow",
        &format!(
            "{} ({})",
            shown.item.workflow.name,
            &shown.item.workflow.digest[..12.min(shown.item.workflow.digest.len())]
        ),
        Tone::Plain,
    );
    out.field("created", &text::moment(shown.item.created_at.0, now), Tone::Plain);
    out.field("updated", &text::moment(shown.item.updated_at.0, now), Tone::Plain);
    let mut table = Table::new(&[
        ("#", Fit::Number),
        ("step", Fit::Whole),
        ("try", Fit::Number),
        ("outcome", Fit::Whole),
        ("started", Fit::Wrap),
        ("took", Fit::Whole),
    ]);
    for step in &shown.steps {
        table.row([
            Cell::from(step.seq.to_string()),
            Cell::from(step.step.as_str()),
            Cell::from(step.r#try.to_string()),
            step.outcome.as_deref().map_or_else(|| Cell::status("unknown"), Cell::status),
            Cell::moment(Some(step.started_at.0), now),
            step.ms.map_or_else(Cell::none, |ms| Cell::elapsed(Duration::from_millis(ms))),
        ]);
    }
    if !table.is_empty() {
        out.table(&table);
    }
    for diagnostic in &shown.diagnostics {
        out.line(&format!("blocked: {}", text::one_line(diagnostic)));
    }
    Ok(0)
}

/// What a run came to, and what can be done about it.
pub(super) fn print_outcome(out: &Output, shown: &RunShow, now: DateTime<Utc>) {
    let item = &shown.item;
    let word = word(item);
    out.field("run", &item.run, Tone::Plain);
    out.field("status", word, Tone::of_status(word));
    if let Some(outcome) = &item.outcome {
        out.field("outcome", outcome, Tone::of_status(outcome));
    }
    if let Some(error) = &item.error {
        out.field("error", &text::one_line(error), Tone::Bad);
    }
    if let Some(gate) = &shown.interrupt {
        out.field("question", &text::one_line(&gate.question), Tone::Waiting);
        out.field(
            "answer",
            &format!("wfctl resume {} --outcome {}", item.run, gate.outcomes.join("|")),
            Tone::Plain,
        );
        if let Some(at) = &gate.expires_at {
            out.field("expires", &text::moment(at.0, now), Tone::Plain);
        }
    }
    if item.ambiguous {
        out.field(
            "settle",
            &format!("wfctl resolve {} --as completed|failed --note TEXT", item.run),
            Tone::Waiting,
        );
    }
}

pub(super) fn wait(session: &Session<'_>, args: &WaitArgs) -> Done {
    let store = session.open_store()?;
    let mut runs = Vec::new();
    for text in &args.runs {
        runs.push(session.find(&store, text, Names::RunsAndSchedules)?);
    }
    let deadline = Instant::now().checked_add(or_forever(args.timeout));
    let mut failed = false;
    let mut shown = Vec::new();
    for run in &runs {
        let loaded = wait_for(session, &store, run, deadline)?;
        failed |= loaded.state.status() == Status::Failed;
        shown.push(RunShow::of(&store, &loaded));
    }
    if session.out.is_json() {
        session.out.json(&json!({ "items": shown }));
    } else {
        for run in &shown {
            print_outcome(session.out, run, session.now());
        }
    }
    Ok(u8::from(failed))
}

/// Waits until a run is finished or interrupted.
fn wait_for(
    session: &Session<'_>,
    store: &Store,
    run: &RunId,
    deadline: Option<Instant>,
) -> Result<LoadedRun, Failure> {
    loop {
        let mut watch = Watch::new();
        watch_run(&mut watch, store, run);
        let loaded = session.load(store, run)?;
        let rests = !loaded.state.is_executing() && loaded.state.status() != Status::Queued;
        if rests {
            return Ok(loaded);
        }
        let timeout = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
        if timeout.is_zero() {
            return Err(Failure::timeout(format!("run {run} is not finished yet"))
                .with_hint(format!("wfctl show {run} tells where it stands")));
        }
        pause(&session.signals, &watch, timeout.min(Duration::from_secs(1)))?;
    }
}

fn watch_run(watch: &mut Watch, store: &Store, run: &RunId) {
    if let Ok(Some(dir)) = crate::store::runs::find(&**store.disk(), run) {
        let dir = store.root().join(dir);
        watch.add(&layout::journal(&dir));
        watch.add(&dir);
    }
}

fn pause(signals: &Signals, watch: &Watch, timeout: Duration) -> Result<(), Failure> {
    match watch.wait(Patience { timeout, abort: Some(signals.first_fd()) }) {
        Woken::Changed | Woken::TimedOut => Ok(()),
        Woken::Aborted => {
            let signal = signals.pending().map_or(crate::process::Interruption::Int, |(signal, _)| signal);
            Err(Failure::interrupted(signal, format!("interrupted by {}; the runs go on", signal.name())))
        }
    }
}

pub(super) fn logs(session: &Session<'_>, args: &LogsArgs) -> Done {
    let store = session.open_store()?;
    let run = session.find(&store, &args.run, Names::RunsAndSchedules)?;
    let mut written: std::collections::BTreeMap<u32, u64> = std::collections::BTreeMap::new();
    let wanted = args.step.as_ref().map(ToString::to_string);
    loop {
        let mut watch = Watch::new();
        watch_run(&mut watch, &store, &run);
        let loaded = session.load(&store, &run)?;
        for (seq, step) in (1u32..).zip(&loaded.state.steps) {
            if wanted.as_deref().is_some_and(|wanted| wanted != step.step.as_str()) {
                continue;
            }
            let path = layout::log(&loaded.dir, seq, &step.step);
            let offset = written.entry(seq).or_default();
            watch.add(&store.root().join(&path));
            while let Ok((bytes, _)) = store.disk().read_at(&path, *offset, 64 * 1024) {
                if bytes.is_empty() {
                    break;
                }
                *offset += bytes.len() as u64;
                session.out.bytes(&bytes);
            }
        }
        let goes_on = loaded.state.is_executing() || loaded.state.status() == Status::Queued;
        if !args.follow || !goes_on || !session.out.is_open() {
            return Ok(0);
        }
        session.out.flush();
        pause(&session.signals, &watch, Duration::from_secs(1))?;
    }
}

pub(super) fn next(session: &Session<'_>, args: &NextArgs) -> Done {
    let (trigger, zone) = match &args.id {
        Some(id) => {
            let store = session.open_store()?;
            let schedule = load_schedule(&store, id.as_str()).map_err(|error| Failure::of(&error))?;
            let zone = schedule.definition.trigger.definition().zone.clone();
            (schedule.definition.trigger, zone)
        }
        None => {
            let (definition, _) = trigger_of(session, &args.trigger, "UTC")?;
            let zone = definition.zone.clone();
            (Trigger::new(definition), zone)
        }
    };
    trigger.check().map_err(|error| Failure::of_trigger(&error))?;
    let from = match &args.from {
        Some(text) => session.time("--from", text, &zone)?,
        None => session.now(),
    };
    let times = trigger.occurrences_after(from).take(args.limit as usize);
    let local: Vec<String> =
        times.map(|at| zone.local(at).to_rfc3339_opts(chrono::SecondsFormat::Secs, false)).collect();
    if session.out.is_json() {
        session.out.json(&json!({ "items": local }));
    } else {
        local.iter().for_each(|at| session.out.line(at));
    }
    Ok(0)
}

pub(super) fn fsck(session: &Session<'_>) -> Done {
    let store = session.open_store()?;
    let mut findings = Vec::new();
    let summary = fsck::check_store(&store, session.now(), &mut |finding| findings.push(finding));
    for finding in &findings {
        let word = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        if !session.out.is_json() {
            session.out.line(&format!(
                "{word}: {}: {}",
                finding.path.display(),
                text::one_line(&finding.what)
            ));
            session.out.line(&format!("  hint: {}", text::one_line(&finding.hint)));
        }
    }
    if session.out.is_json() {
        session.out.json(&json!({ "items": findings, "summary": summary }));
    } else {
        session.out.line(&format!(
            "{} errors, {} warnings in {} runs and {} schedules",
            summary.errors, summary.warnings, summary.runs, summary.schedules
        ));
    }
    Ok(if summary.errors > 0 { 65 } else { 0 })
}

pub(super) fn metrics(_session: &Session<'_>, _args: &MetricsArgs) -> Done {
    Err(Failure::new(70, "bug", "metrics are not written yet"))
}

pub(super) fn completions(_session: &Session<'_>, _args: &CompletionsArgs) -> Done {
    Err(Failure::new(70, "bug", "completions are not written yet"))
}

pub(super) fn man(_session: &Session<'_>, _args: &ManArgs) -> Done {
    Err(Failure::new(70, "bug", "man pages are not written yet"))
}

pub(super) fn complete(_session: &Session<'_>, _args: &CompleteArgs) -> Done {
    Ok(0)
}
