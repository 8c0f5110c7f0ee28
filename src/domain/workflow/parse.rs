//! The file as a whole: its own keys, then its steps, then their routes.
//!
//! Invariant: a workflow comes out only where the report is empty, so that nothing that was refused
//! is ever run with a default in its place. Deliberately not here: what a step may hold.

use toml::de::{DeTable, DeValue};

use super::report::{Report, quote};
use super::routes::{index_names, resolve};
use super::step::{Draft, read_step};
use super::table::{
    Field, Table, read_array, read_command_line, read_count, read_env, read_str, read_table, read_timeout,
};
use super::{MAX_FILE_SIZE, Notify, Step, StepIndex, Workflow, WorkflowError};
use crate::domain::ids::ScheduleId;

const KEYS: [&str; 7] = ["name", "description", "timeout", "max_steps", "env", "notify", "step"];
const NOTIFY_KEYS: [&str; 3] = ["on_interrupt", "on_failure", "on_success"];
const DEFAULT_MAX_STEPS: u32 = 1000;

pub(super) fn parse(text: &str) -> Result<Workflow, Vec<WorkflowError>> {
    if text.len() > MAX_FILE_SIZE {
        let message = "the file is larger than 1 MiB".to_owned();
        let hint = Some("move the data that it holds into files of its own".to_owned());
        return Err(vec![WorkflowError { line: 1, column: 1, message, hint }]);
    }
    let mut report = Report::new(text);
    match DeTable::parse(text) {
        Ok(document) => {
            let top = Table::new("the workflow".to_owned(), 0, document.get_ref());
            let workflow = read_workflow(&top, &mut report);
            match workflow {
                Some(workflow) if report.count() == 0 => return Ok(workflow),
                _ => {}
            }
        }
        Err(error) => {
            let at = error.span().map_or(0, |span| span.start);
            report.refuse(at, format!("this is not TOML: {}", error.message()));
        }
    }
    Err(report.into_errors())
}

fn read_workflow(top: &Table<'_, '_>, report: &mut Report<'_>) -> Option<Workflow> {
    top.refuse_unknown_keys(&KEYS, report, |_| None);
    let name = top.read("name", report, read_name);
    if top.field("name").is_none() {
        report.refuse_with_hint(
            top.at,
            "the workflow has no `name`".to_owned(),
            "begin with name = \"nightly\"",
        );
    }
    let description =
        top.read("description", report, |field, report| read_str(field, report).map(str::to_owned));
    let timeout = top.read("timeout", report, read_timeout);
    let max_steps = top
        .read("max_steps", report, |field, report| read_count(field, report, 1))
        .unwrap_or(DEFAULT_MAX_STEPS);
    let env = top.read("env", report, read_env).unwrap_or_default();
    let notify = top.read("notify", report, read_notify).unwrap_or_default();
    let drafts = read_steps(top, report)?;
    let names = index_names(&drafts, report);
    let routes = resolve(&drafts, &names, report);
    let steps: Vec<Step> = drafts
        .into_iter()
        .zip(routes)
        .map(|(draft, routes)| Some(Step { id: draft.id?, kind: draft.kind?, routes }))
        .collect::<Option<_>>()?;
    let index =
        steps.iter().enumerate().map(|(i, step)| (step.id.as_str().to_owned(), StepIndex(i))).collect();
    Some(Workflow { name: name?, description, timeout, max_steps, env, notify, steps, index })
}

fn read_name(field: &Field<'_, '_>, report: &mut Report<'_>) -> Option<ScheduleId> {
    let text = read_str(field, report)?;
    match text.parse::<ScheduleId>() {
        Ok(name) => Some(name),
        Err(invalid) => {
            report.refuse(field.at, format!("{} cannot name a workflow: {}", quote(text), invalid.why));
            None
        }
    }
}

fn read_notify(field: &Field<'_, '_>, report: &mut Report<'_>) -> Option<Notify> {
    let table = read_table(field, report)?;
    table.refuse_unknown_keys(&NOTIFY_KEYS, report, |_| None);
    Some(Notify {
        on_interrupt: table.read("on_interrupt", report, read_command_line),
        on_failure: table.read("on_failure", report, read_command_line),
        on_success: table.read("on_success", report, read_command_line),
    })
}

/// Every step that is a table; `None` if there is none.
fn read_steps<'a>(top: &Table<'a, '_>, report: &mut Report<'_>) -> Option<Vec<Draft<'a>>> {
    let Some(field) = top.field("step") else {
        // `[[steps]]` has been refused as an unknown key already.
        let is_misspelt = top.fields().any(|(key, _)| report.nearest(key, KEYS.into_iter()) == Some("step"));
        if !is_misspelt {
            refuse_empty(top.at, report);
        }
        return None;
    };
    let items = match field.value {
        DeValue::Array(_) => read_array(&field, report)?,
        DeValue::Table(_) => {
            let message = "`step` must be an array of tables".to_owned();
            report.refuse_with_hint(field.key_at, message, "write [[step]] with two brackets");
            return None;
        }
        _ => return read_array(&field, report).and(None),
    };
    if items.is_empty() {
        refuse_empty(field.key_at, report);
        return None;
    }
    let drafts: Vec<_> = items.iter().enumerate().map(|(i, item)| read_step(item, i + 1, report)).collect();
    drafts.into_iter().collect()
}

fn refuse_empty(at: usize, report: &mut Report<'_>) {
    let hint = "add [[step]] with `id` and `run`";
    report.refuse_with_hint(at, "the workflow has no steps".to_owned(), hint);
}
