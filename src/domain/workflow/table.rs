//! Typed reads of a TOML table that remember where everything stands, so that one pass finds every
//! error and each error has its place.
//!
//! Invariant: a read that gives `None` for a key that is there has reported why. Deliberately not here:
//! what the keys of a workflow are. (`serde` is not used, because it stops at its first error.)

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::report::{Report, quote};
use super::{CommandLine, Outcome};
use crate::domain::{duration::parse_duration, schema::MAX_SCHEMA_DEPTH};

/// A table of the file.
pub(super) struct Table<'a, 'd> {
    /// What it is called in messages: `step "build"`.
    pub(super) owner: String,
    /// Where it begins.
    pub(super) at: usize,
    entries: &'a DeTable<'d>,
}

/// One entry of a table.
pub(super) struct Field<'a, 'd> {
    /// What it is called in messages: `` `timeout` of step "build" ``.
    pub(super) label: String,
    /// Where its key stands.
    pub(super) key_at: usize,
    /// Where its value stands.
    pub(super) at: usize,
    /// Its value.
    pub(super) value: &'a DeValue<'d>,
}

impl<'a, 'd> Table<'a, 'd> {
    pub(super) fn new(owner: String, at: usize, entries: &'a DeTable<'d>) -> Self {
        Self { owner, at, entries }
    }

    /// The entry of `key`, if there is one.
    pub(super) fn field(&self, key: &str) -> Option<Field<'a, 'd>> {
        self.entries.get_key_value(key).map(|(key, value)| self.as_field(key, value))
    }

    /// Every entry with its key, in the order of the file.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&'a str, Field<'a, 'd>)> {
        self.entries.iter().map(|(key, value)| (key.get_ref().as_ref(), self.as_field(key, value)))
    }

    /// Reads the entry of `key`; `None` if there is none, or if `read` refused it.
    pub(super) fn read<T>(
        &self,
        key: &str,
        report: &mut Report<'_>,
        read: impl FnOnce(&Field<'a, 'd>, &mut Report<'_>) -> Option<T>,
    ) -> Option<T> {
        self.field(key).and_then(|field| read(&field, report))
    }

    /// Refuses every key that is not in `known`; `foreign` may say more about one than that it is unknown.
    pub(super) fn refuse_unknown_keys(
        &self,
        known: &[&str],
        report: &mut Report<'_>,
        foreign: impl Fn(&str) -> Option<(String, String)>,
    ) {
        for (key, field) in self.fields().filter(|(key, _)| !known.contains(key)) {
            if let Some((message, hint)) = foreign(key) {
                report.refuse_with_hint(field.key_at, message, hint);
                continue;
            }
            let message = format!("{} has an unknown key {}", self.owner, quote(key));
            let hint = match report.nearest(key, known.iter().copied()) {
                Some(name) => format!("did you mean `{name}`?"),
                None => format!("its keys are {}", known.join(", ")),
            };
            report.refuse_with_hint(field.key_at, message, hint);
        }
    }

    fn as_field(
        &self,
        key: &Spanned<std::borrow::Cow<'d, str>>,
        value: &'a Spanned<DeValue<'d>>,
    ) -> Field<'a, 'd> {
        let name = key.get_ref();
        let shown = if name.len() < 40 && name.chars().all(|c| c.is_ascii_graphic()) {
            format!("`{name}`")
        } else {
            quote(name)
        };
        Field {
            label: format!("{shown} of {}", self.owner),
            key_at: key.span().start,
            at: value.span().start,
            value: value.get_ref(),
        }
    }
}

impl<'a, 'd> Field<'a, 'd> {
    /// The items of an array, each as a field of the same name.
    fn items(&self, items: &'a [Spanned<DeValue<'d>>]) -> impl Iterator<Item = Field<'a, 'd>> {
        items.iter().map(|item| Field {
            label: self.label.clone(),
            key_at: item.span().start,
            at: item.span().start,
            value: item.get_ref(),
        })
    }

    fn refuse<T>(&self, report: &mut Report<'_>, why: &str) -> Option<T> {
        report.refuse(self.at, format!("{} {why}", self.label));
        None
    }

    fn refuse_type<T>(&self, report: &mut Report<'_>, wanted: &str, hint: Option<&str>) -> Option<T> {
        let found = match self.value {
            DeValue::Integer(_) => "an integer",
            DeValue::Array(_) => "an array",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date or time",
            DeValue::Float(_) => "a float",
            DeValue::String(_) => "a string",
            DeValue::Table(_) => "a table",
        };
        let message = format!("{} must be {wanted}, not {found}", self.label);
        match hint {
            Some(hint) => report.refuse_with_hint(self.at, message, hint),
            None => report.refuse(self.at, message),
        }
        None
    }
}

pub(super) fn read_table<'a, 'd>(field: &Field<'a, 'd>, report: &mut Report<'_>) -> Option<Table<'a, 'd>> {
    match field.value {
        DeValue::Table(entries) => Some(Table::new(field.label.clone(), field.at, entries)),
        _ => field.refuse_type(report, "a table", None),
    }
}

pub(super) fn read_array<'a, 'd>(
    field: &Field<'a, 'd>,
    report: &mut Report<'_>,
) -> Option<Vec<Field<'a, 'd>>> {
    match field.value {
        DeValue::Array(items) => Some(field.items(items).collect()),
        _ => field.refuse_type(report, "an array", None),
    }
}

pub(super) fn read_str<'a>(field: &Field<'a, '_>, report: &mut Report<'_>) -> Option<&'a str> {
    match field.value {
        DeValue::String(text) => Some(text.as_ref()),
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) => {
            field.refuse_type(report, "a string", Some("put it in quotes"))
        }
        _ => field.refuse_type(report, "a string", None),
    }
}

/// A string without NUL, which no environment, path or argument can hold.
pub(super) fn read_text(field: &Field<'_, '_>, report: &mut Report<'_>) -> Option<String> {
    let text = read_str(field, report)?;
    if text.contains('\0') {
        return field.refuse(report, "must not contain a NUL character");
    }
    Some(text.to_owned())
}

/// A text that says something.
pub(super) fn read_filled_text(field: &Field<'_, '_>, report: &mut Report<'_>) -> Option<String> {
    let text = read_text(field, report)?;
    if text.trim().is_empty() {
        return field.refuse(report, "must not be empty");
    }
    Some(text)
}

pub(super) fn read_bool(field: &Field<'_, '_>, report: &mut Report<'_>) -> Option<bool> {
    match field.value {
        DeValue::Boolean(value) => Some(*value),
        _ => field.refuse_type(report, "true or false", None),
    }
}

/// An integer of at least `min`.
pub(super) fn read_count(field: &Field<'_, '_>, report: &mut Report<'_>, min: u32) -> Option<u32> {
    let DeValue::Integer(integer) = field.value else {
        return field.refuse_type(report, "an integer", None);
    };
    match u32::from_str_radix(integer.as_str(), integer.radix()) {
        Ok(count) if count >= min => Some(count),
        _ => field.refuse(report, &format!("must be from {min} to {}", u32::MAX)),
    }
}

/// A finite factor of at least 1.
pub(super) fn read_factor(field: &Field<'_, '_>, report: &mut Report<'_>) -> Option<f64> {
    let factor = match field.value {
        DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str().parse().ok(),
        DeValue::Float(float) => float.as_str().parse().ok(),
        _ => return field.refuse_type(report, "a number", None),
    };
    match factor {
        Some(factor) if f64::is_finite(factor) && factor >= 1.0 => Some(factor),
        _ => field.refuse(report, "must be a finite number of at least 1"),
    }
}

pub(super) fn read_duration(field: &Field<'_, '_>, report: &mut Report<'_>) -> Option<Duration> {
    let DeValue::String(text) = field.value else {
        return field.refuse_type(report, "a duration", Some("write a string with a unit, such as \"90s\""));
    };
    match parse_duration(text) {
        Ok(duration) => Some(duration),
        Err(invalid) => {
            let message = format!("{} is not a duration: {} in {}", field.label, invalid.why, quote(text));
            report.refuse_with_hint(field.at, message, invalid.hint);
            None
        }
    }
}

/// A duration that is not zero.
pub(super) fn read_timeout(field: &Field<'_, '_>, report: &mut Report<'_>) -> Option<Duration> {
    let duration = read_duration(field, report)?;
    if duration.is_zero() {
        let message = format!("{} must be longer than zero", field.label);
        report.refuse_with_hint(field.at, message, "leave it out for no limit");
        return None;
    }
    Some(duration)
}

pub(super) fn read_outcome(field: &Field<'_, '_>, report: &mut Report<'_>) -> Option<Outcome> {
    match read_str(field, report)?.parse() {
        Ok(outcome) => Some(outcome),
        Err(invalid) => field.refuse(report, &format!("names an outcome that cannot be: {}", invalid.why)),
    }
}

pub(super) fn read_command_line(field: &Field<'_, '_>, report: &mut Report<'_>) -> Option<CommandLine> {
    match field.value {
        DeValue::String(_) => read_filled_text(field, report).map(CommandLine::Shell),
        DeValue::Array(items) => {
            let parts: Vec<_> = field.items(items).map(|item| read_text(&item, report)).collect();
            let argv: Vec<String> = parts.into_iter().collect::<Option<_>>()?;
            match argv.first() {
                None => field.refuse(report, "must name a program"),
                Some(program) if program.is_empty() => {
                    field.refuse(report, "must name a program, its first item is empty")
                }
                Some(_) => Some(CommandLine::Argv(argv)),
            }
        }
        _ => field.refuse_type(report, "a shell command or an array of arguments", None),
    }
}

/// A table of environment variables.
pub(super) fn read_env(field: &Field<'_, '_>, report: &mut Report<'_>) -> Option<BTreeMap<String, String>> {
    let table = read_table(field, report)?;
    let mut env = BTreeMap::new();
    for (name, field) in table.fields() {
        let name_holds = check_env_name(name, &field.label, field.key_at, report);
        if let (true, Some(value)) = (name_holds, read_text(&field, report)) {
            env.insert(name.to_owned(), value);
        }
    }
    Some(env)
}

/// An array of names of environment variables.
pub(super) fn read_env_names(field: &Field<'_, '_>, report: &mut Report<'_>) -> Option<Vec<String>> {
    let items = read_array(field, report)?;
    let mut names = Vec::with_capacity(items.len());
    for item in items {
        let Some(name) = read_str(&item, report) else { continue };
        if check_env_name(name, &item.label, item.at, report) {
            names.push(name.to_owned());
        }
    }
    Some(names)
}

fn check_env_name(name: &str, label: &str, at: usize, report: &mut Report<'_>) -> bool {
    let why = if name.is_empty() {
        "it is empty"
    } else if name.contains(['=', '\0']) {
        "it contains '=' or NUL"
    } else if name.starts_with("WFCTL_") {
        "names that start with WFCTL_ belong to wfctl"
    } else {
        return true;
    };
    report.refuse(at, format!("{label} is not a name of an environment variable: {} ({why})", quote(name)));
    false
}

/// A TOML value as the JSON value that it stands for.
pub(super) fn read_json(field: &Field<'_, '_>, report: &mut Report<'_>) -> Option<Value> {
    read_json_within(field, report, MAX_SCHEMA_DEPTH)
}

/// Dotted keys inside inline tables nest thousands of levels deep, so the depth is counted.
fn read_json_within(field: &Field<'_, '_>, report: &mut Report<'_>, depth: usize) -> Option<Value> {
    match field.value {
        DeValue::String(text) => Some(Value::from(text.as_ref())),
        DeValue::Boolean(value) => Some(Value::from(*value)),
        DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(number) => Some(Value::from(number)),
            Err(_) => field.refuse(report, "holds an integer that does not fit into 64 bits"),
        },
        DeValue::Float(float) => {
            let number = float.as_str().parse().ok().and_then(serde_json::Number::from_f64);
            match number {
                Some(number) => Some(Value::Number(number)),
                None => field.refuse(report, "holds a number that JSON does not have"),
            }
        }
        DeValue::Datetime(_) => {
            let message = format!("{} holds a date or time, which JSON does not have", field.label);
            report.refuse_with_hint(field.at, message, "write it as a string, in quotes");
            None
        }
        DeValue::Array(_) | DeValue::Table(_) if depth == 0 => {
            field.refuse(report, &format!("is nested deeper than {MAX_SCHEMA_DEPTH} levels"))
        }
        DeValue::Array(items) => {
            let items: Vec<_> =
                field.items(items).map(|item| read_json_within(&item, report, depth - 1)).collect();
            items.into_iter().collect::<Option<Vec<_>>>().map(Value::Array)
        }
        DeValue::Table(entries) => {
            let mut object = serde_json::Map::new();
            for (key, value) in entries {
                let (at, key_at) = (value.span().start, key.span().start);
                let entry = Field { label: field.label.clone(), key_at, at, value: value.get_ref() };
                object.insert(key.get_ref().to_string(), read_json_within(&entry, report, depth - 1)?);
            }
            Some(Value::Object(object))
        }
    }
}

/// Where the part of a value stands that a JSON pointer names; the nearest part around it, if the
/// pointer leads nowhere.
pub(super) fn locate(field: &Field<'_, '_>, pointer: &str) -> usize {
    let (mut value, mut at) = (field.value, field.at);
    for segment in pointer.split('/').skip(1) {
        let name = segment.replace("~1", "/").replace("~0", "~");
        let next = match value {
            DeValue::Table(entries) => entries.get(name.as_str()),
            DeValue::Array(items) => name.parse::<usize>().ok().and_then(|i| items.get(i)),
            _ => None,
        };
        let Some(next) = next else { break };
        (value, at) = (next.get_ref(), next.span().start);
    }
    at
}
