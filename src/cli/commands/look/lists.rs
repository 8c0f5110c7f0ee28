//! Pages of runs, schedules and history, as tables.

use serde_json::Value;

use super::{
    super::{Done, Session},
    word,
};
use crate::{
    cli::{
        args::{HistoryArgs, ListArgs, PageArgs, StatusWord},
        error::Failure,
        table::{Cell, Fit, Table},
        text,
    },
    domain::{time::parse_instant, trigger::Zone},
    engine::query::{
        HistoryFilter, Names, Page, PageRequest, RunFilter, Stand, list_history, list_runs, list_schedules,
    },
    state::run::Status,
};

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
    let table = table();
    if table.is_empty() {
        session.out.note("there is nothing to list");
    } else {
        session.out.table(&table);
    }
    if let Some(cursor) = &page.next_cursor {
        session.out.note(&format!("more with --cursor {cursor}"));
    }
}

pub(in crate::cli::commands) fn schedules(session: &Session<'_>, args: &PageArgs) -> Done {
    let store = session.open_store()?;
    let page = list_schedules(&store, &page_request(args)).map_err(|error| Failure::of(&error))?;
    let now = session.now();
    print_page(session, &page, || {
        let columns = [
            ("schedule", Fit::Whole),
            ("trigger", Fit::Wrap),
            ("zone", Fit::Wrap),
            ("next due", Fit::Wrap),
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

pub(in crate::cli::commands) fn list(session: &Session<'_>, args: &ListArgs) -> Done {
    let store = session.open_store()?;
    let zone = Zone::parse(&store.settings().timezone).unwrap_or_else(|_| Zone::utc());
    let since = args.since.as_deref().map(|text| session.time("--since", text, &zone)).transpose()?;
    let filter = RunFilter { schedule: args.schedule.clone(), since, ..filter_of(args.status) };
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

/// The word as people mean it: a run that executes is not queued, whatever its status says.
fn filter_of(word: Option<StatusWord>) -> RunFilter {
    let status = |status| RunFilter { status: Some(status), ..RunFilter::default() };
    let stand = |stand| RunFilter { stand: Some(stand), ..RunFilter::default() };
    match word {
        None => RunFilter::default(),
        Some(StatusWord::Queued) => stand(Stand::Queued),
        Some(StatusWord::Running) => stand(Stand::Running),
        Some(StatusWord::Abandoned) => stand(Stand::Abandoned),
        Some(StatusWord::Interrupted) => stand(Stand::Interrupted),
        Some(StatusWord::Ambiguous) => stand(Stand::Ambiguous),
        Some(StatusWord::Completed) => status(Status::Completed),
        Some(StatusWord::Failed) => status(Status::Failed),
        Some(StatusWord::Cancelled) => status(Status::Cancelled),
    }
}

pub(in crate::cli::commands) fn history(session: &Session<'_>, args: &HistoryArgs) -> Done {
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
        let columns =
            [("at", Fit::Wrap), ("kind", Fit::Whole), ("run or schedule", Fit::Whole), ("detail", Fit::Wrap)];
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
    let is_said =
        |name: &str, value: &Value| name != "digest" && !matches!(value, Value::Null | Value::Bool(false));
    let said = fields.iter().filter(|(name, value)| is_said(name, value)).map(|(name, value)| match value {
        Value::String(value) => match parse_instant(value) {
            Some(at) => format!("{name} {}", text::exact(at)),
            None => format!("{name} {}", text::one_line(value)),
        },
        Value::Bool(true) => name.clone(),
        other => format!("{name} {other}"),
    });
    said.collect::<Vec<_>>().join(", ")
}
