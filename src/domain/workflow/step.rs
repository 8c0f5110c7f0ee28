//! One `[[step]]` of the file: what it does. Where its outcomes lead is read here and checked in
//! `routes.rs`, because that takes the names of all steps.
//!
//! Invariant: a part of a [`Draft`] is `None` only where the report says why.

use std::collections::BTreeMap;
use std::time::Duration;

use toml::de::DeValue;

use super::report::{Report, quote};
use super::table::{
    Field, Table, locate, read_array, read_bool, read_command_line, read_count, read_duration, read_env,
    read_env_names, read_factor, read_filled_text, read_json, read_outcome, read_str, read_table,
    read_timeout,
};
use super::{CommandStep, GateStep, Outcome, Retry, StepKind};
use crate::domain::{ids::StepId, schema::check_schema};

const COMMON_KEYS: [&str; 2] = ["id", "next"];
const COMMAND_KEYS: [&str; 8] = ["run", "cwd", "env", "pass_env", "timeout", "retry", "exit", "idempotent"];
const GATE_KEYS: [&str; 4] = ["interrupt", "outcomes", "schema", "expires"];

const DEFAULT_RETRY_DELAY: Duration = Duration::from_secs(1);
const DEFAULT_MAX_DELAY: Duration = Duration::from_secs(3600);

/// A step as it was read, with the places that later errors point to.
pub(super) struct Draft<'a> {
    /// What it is called in messages.
    pub(super) label: String,
    /// Its id as written, even if it breaks the grammar, and where.
    pub(super) name: Option<(&'a str, usize)>,
    /// Its id.
    pub(super) id: Option<StepId>,
    /// What it does; `None` if that was refused.
    pub(super) kind: Option<StepKind>,
    /// The outcomes that the author named, and where. `None` if some could not be read.
    pub(super) declared: Option<Vec<(Outcome, usize)>>,
    /// The entries of `next`. `None` if some could not be read.
    pub(super) next: Option<Vec<NextEntry<'a>>>,
}

/// One entry of `next`.
pub(super) struct NextEntry<'a> {
    pub(super) outcome: &'a str,
    pub(super) outcome_at: usize,
    pub(super) target: &'a str,
    pub(super) target_at: usize,
}

/// Reads the `number`-th step, counted from 1.
pub(super) fn read_step<'a>(
    field: &Field<'a, '_>,
    number: usize,
    report: &mut Report<'_>,
) -> Option<Draft<'a>> {
    let mut table = read_table(field, report)?;
    table.owner = format!("step {number}");
    let mut name = None;
    let mut id = None;
    if let Some(field) = table.field("id") {
        if let Some(text) = read_str(&field, report) {
            table.owner = format!("step {}", quote(text));
            name = Some((text, field.at));
            id = read_id(text, field.at, report);
        }
    } else {
        let message = format!("step {number} has no `id`");
        report.refuse_with_hint(table.at, message, "give it a name: id = \"build\"");
    }
    let mut draft = Draft {
        label: table.owner.clone(),
        name,
        id,
        kind: None,
        declared: None,
        next: read_next(&table, report),
    };
    read_kind(&table, &mut draft, report);
    Some(draft)
}

fn read_id(text: &str, at: usize, report: &mut Report<'_>) -> Option<StepId> {
    if matches!(text, "end" | "fail") {
        let message = format!("{} cannot be the id of a step: `next` uses it to stop the run", quote(text));
        report.refuse_with_hint(at, message, "choose another id");
        return None;
    }
    match text.parse() {
        Ok(id) => Some(id),
        Err(invalid) => {
            report.refuse(at, format!("{} is not a step id: {}", quote(text), invalid.why));
            None
        }
    }
}

fn read_next<'a>(table: &Table<'a, '_>, report: &mut Report<'_>) -> Option<Vec<NextEntry<'a>>> {
    let Some(field) = table.field("next") else { return Some(Vec::new()) };
    let entries = read_table(&field, report)?;
    let read: Vec<_> = entries
        .fields()
        .map(|(outcome, field)| {
            let target = read_str(&field, report)?;
            Some(NextEntry { outcome, outcome_at: field.key_at, target, target_at: field.at })
        })
        .collect();
    read.into_iter().collect()
}

fn read_kind(table: &Table<'_, '_>, draft: &mut Draft<'_>, report: &mut Report<'_>) {
    match (table.field("run"), table.field("interrupt")) {
        (Some(run), None) => {
            refuse_foreign_keys(table, &COMMAND_KEYS, &GATE_KEYS, report);
            let before = report.count();
            let declared = read_exit(table, report);
            draft.declared = (report.count() == before).then(|| declared.values().cloned().collect());
            let exit = declared.into_iter().map(|(code, (outcome, _))| (code, outcome)).collect();
            draft.kind = read_command(table, &run, exit, report).map(StepKind::Command);
        }
        (None, Some(question)) => {
            refuse_foreign_keys(table, &GATE_KEYS, &COMMAND_KEYS, report);
            draft.declared = read_outcomes(table, report);
            let outcomes = draft.declared.iter().flatten().map(|(outcome, _)| outcome.clone()).collect();
            draft.kind = read_gate(table, &question, outcomes, report).map(StepKind::Gate);
        }
        (Some(run), Some(question)) => {
            let at = run.key_at.max(question.key_at);
            let message = format!("{} has both `run` and `interrupt`", table.owner);
            report.refuse_with_hint(at, message, "make two steps of it");
        }
        (None, None) => {
            let message = format!("{} has neither `run` nor `interrupt`", table.owner);
            let hint = "`run` executes a command, `interrupt` asks a person";
            report.refuse_with_hint(table.at, message, hint);
            let all = [&COMMON_KEYS[..], &COMMAND_KEYS[..], &GATE_KEYS[..]].concat();
            table.refuse_unknown_keys(&all, report, |_| None);
        }
    }
}

fn refuse_foreign_keys(table: &Table<'_, '_>, own: &[&str], other: &[&str], report: &mut Report<'_>) {
    let known = [&COMMON_KEYS[..], own].concat();
    let is_gate = own.contains(&"interrupt");
    table.refuse_unknown_keys(&known, report, |key| {
        if !other.contains(&key) {
            return None;
        }
        let (kind, belongs) = if is_gate { ("a gate", "`run`") } else { ("a command", "`interrupt`") };
        let hint = match key {
            "timeout" => "to bound how long the question stays open, use `expires`".to_owned(),
            "expires" => "to bound how long the command may take, use `timeout`".to_owned(),
            _ => format!("`{key}` belongs to a step with {belongs}"),
        };
        Some((format!("{} is {kind} and cannot have `{key}`", table.owner), hint))
    });
}

fn read_command(
    table: &Table<'_, '_>,
    run: &Field<'_, '_>,
    exit: BTreeMap<u8, Outcome>,
    report: &mut Report<'_>,
) -> Option<CommandStep> {
    // Every part is read before any is missed, so that all errors are found.
    let run = read_command_line(run, report);
    let cwd = table.read("cwd", report, read_filled_text);
    let env = table.read("env", report, read_env).unwrap_or_default();
    let pass_env = table.read("pass_env", report, read_env_names).unwrap_or_default();
    let timeout = table.read("timeout", report, read_timeout);
    let retry = table.read("retry", report, read_retry).unwrap_or(Retry::NONE);
    let idempotent = table.read("idempotent", report, read_bool).unwrap_or(false);
    Some(CommandStep { run: run?, cwd, env, pass_env, timeout, retry, exit, idempotent })
}

fn read_retry(field: &Field<'_, '_>, report: &mut Report<'_>) -> Option<Retry> {
    let table = read_table(field, report)?;
    table.refuse_unknown_keys(&["max", "delay", "backoff", "max_delay"], report, |_| None);
    let max = table.read("max", report, |field, report| read_count(field, report, 0));
    if table.field("max").is_none() {
        let message = format!("{} has no `max`", table.owner);
        report.refuse_with_hint(table.at, message, "say how often: retry = { max = 3 }");
    }
    let delay = table.read("delay", report, read_duration).unwrap_or(DEFAULT_RETRY_DELAY);
    let backoff = table.read("backoff", report, read_factor).unwrap_or(1.0);
    let max_delay = table.read("max_delay", report, read_duration);
    if let (Some(longest), Some(field)) = (max_delay, table.field("max_delay"))
        && longest < delay
    {
        report.refuse(field.at, format!("{} is shorter than the delay itself", field.label));
    }
    Some(Retry { max: max?, delay, backoff, max_delay: max_delay.unwrap_or(DEFAULT_MAX_DELAY.max(delay)) })
}

fn read_exit(table: &Table<'_, '_>, report: &mut Report<'_>) -> BTreeMap<u8, (Outcome, usize)> {
    let mut exit = BTreeMap::new();
    let Some(entries) = table.read("exit", report, read_table) else { return exit };
    for (key, field) in entries.fields() {
        let code = read_exit_code(key, &field, report);
        let Some(outcome) = read_outcome(&field, report) else { continue };
        if outcome == Outcome::TIMEOUT || outcome == Outcome::EXPIRED {
            let message = format!("{} cannot be `{outcome}`: no exit status means that", field.label);
            report.refuse_with_hint(field.at, message, "choose another name for the outcome");
        } else if let Some(code) = code {
            exit.insert(code, (outcome, field.at));
        }
    }
    exit
}

/// Exit statuses are written one way only, so that no two keys mean the same.
fn read_exit_code(key: &str, field: &Field<'_, '_>, report: &mut Report<'_>) -> Option<u8> {
    let code = key.parse::<u8>().ok().filter(|code| code.to_string() == key);
    match code {
        Some(0) => {
            let message = format!("{}: exit status 0 is always `ok`", field.label);
            report.refuse_with_hint(field.key_at, message, "to route it, write next = { ok = \"…\" }");
            None
        }
        Some(code) => Some(code),
        None => {
            let message = format!("{}: {} is not an exit status from 1 to 255", field.label, quote(key));
            report.refuse(field.key_at, message);
            None
        }
    }
}

fn read_outcomes(table: &Table<'_, '_>, report: &mut Report<'_>) -> Option<Vec<(Outcome, usize)>> {
    let Some(field) = table.field("outcomes") else { return Some(vec![(Outcome::SUBMITTED, table.at)]) };
    let items = read_array(&field, report)?;
    if items.is_empty() {
        let message = format!("{} must not be empty", field.label);
        report.refuse_with_hint(field.at, message, "leave it out for [\"submitted\"]");
        return None;
    }
    let before = report.count();
    let mut seen = std::collections::HashSet::new();
    let mut outcomes = Vec::with_capacity(items.len());
    for item in items {
        let Some(outcome) = read_outcome(&item, report) else { continue };
        if outcome == Outcome::EXPIRED {
            let message = format!("{} cannot name `expired`: nobody can answer that", item.label);
            report.refuse_with_hint(item.at, message, "set `expires` and the gate has that outcome");
        } else if !seen.insert(outcome.clone()) {
            report.refuse(item.at, format!("{} names {} twice", item.label, quote(outcome.as_str())));
        }
        outcomes.push((outcome, item.at));
    }
    (report.count() == before).then_some(outcomes)
}

fn read_gate(
    table: &Table<'_, '_>,
    question: &Field<'_, '_>,
    outcomes: Vec<Outcome>,
    report: &mut Report<'_>,
) -> Option<GateStep> {
    let question = read_filled_text(question, report);
    let schema = table.read("schema", report, read_schema);
    let expires = table.read("expires", report, read_timeout);
    Some(GateStep { question: question?, outcomes, schema, expires })
}

fn read_schema(field: &Field<'_, '_>, report: &mut Report<'_>) -> Option<serde_json::Value> {
    if !matches!(field.value, DeValue::Table(_) | DeValue::Boolean(_)) {
        report.refuse(field.at, format!("{} must be a table or a boolean", field.label));
        return None;
    }
    let schema = read_json(field, report)?;
    if let Err(invalid) = check_schema(&schema) {
        let message = format!("{} is not a schema that can be used: {}", field.label, invalid.why);
        let at = locate(field, &invalid.pointer);
        match invalid.hint {
            Some(hint) => report.refuse_with_hint(at, message, hint),
            None => report.refuse(at, message),
        }
    }
    Some(schema)
}
