//! The bytes of one journal line, and back.
//!
//! A line is `{"n":…,"at":"…","event":"…",…,"crc":"xxxxxxxx"}`. The checksum is CRC-32C over all bytes of
//! the line before `,"crc"`. These structs mirror the file and are private to the store; unknown
//! fields are ignored, so that a newer program may add some.

use std::{borrow::Cow, collections::BTreeMap};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::{
    event::{
        Admitted, AttemptKind, AttemptStarted, Event, Interrupted, Reason, RequeuedAt, Resolution,
        StepEnding, StepFinished,
    },
    ids::SlotIndex,
    time,
};

/// Why a line is not a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadLine {
    /// The checksum is missing or wrong.
    #[error("the checksum does not match")]
    Checksum,
    /// The checksum is right and the content makes no sense.
    #[error("{0}")]
    Content(String),
}

#[derive(Deserialize)]
struct Envelope<'a> {
    n: u64,
    #[serde(borrow)]
    at: Cow<'a, str>,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Line {
    Admitted {
        run: String,
        schedule: Option<String>,
        occurrence: String,
        manual: bool,
        name: String,
        workflow: String,
        input: Value,
        env: BTreeMap<String, String>,
        cwd: String,
    },
    AttemptStarted {
        attempt: u32,
        kind: String,
        slot: Option<u32>,
        pid: u32,
        host: String,
        by: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outcome: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
        payload: Option<Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    StepStarted {
        attempt: u32,
        seq: u32,
        step: String,
        r#try: u32,
        key: String,
    },
    StepFinished {
        attempt: u32,
        seq: u32,
        step: String,
        outcome: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit: Option<u8>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
        output: Option<Value>,
        ms: u64,
    },
    Interrupted {
        attempt: u32,
        step: String,
        question: String,
        outcomes: Vec<String>,
        schema: Option<Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_at: Option<String>,
    },
    Completed {
        attempt: u32,
        outcome: String,
    },
    Failed {
        attempt: u32,
        reason: String,
        error: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    Retried {
        from: String,
        note: Option<String>,
        by: String,
    },
    Fenced {
        attempt: u32,
        signal: String,
    },
    Requeued {
        attempt: u32,
        at_step: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        r#try: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    Cancelled {
        by: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    Resolved {
        r#as: String,
        note: Option<String>,
        by: String,
    },
}

/// Keeps a JSON null that is there apart from a field that is not.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

const CRC_LEN: usize = r#","crc":"00000000"}"#.len();

/// Writes one record and its line end to `out`.
pub(super) fn encode(n: u64, at: DateTime<Utc>, event: &Event, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(format!("{{\"n\":{n},\"at\":\"{}\",", time::format_instant(at)).as_bytes());
    let body = serde_json::to_vec(&line_of(event)).expect("plain data has a JSON form");
    out.extend_from_slice(&body[1..body.len() - 1]);
    append_crc(start, out);
}

/// Writes a JSON object with a checksum as its last field, and a line end.
pub(super) fn seal(object: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&object[..object.len().saturating_sub(1)]);
    append_crc(start, out);
}

fn append_crc(start: usize, out: &mut Vec<u8>) {
    let crc = crc32c::crc32c(&out[start..]);
    out.extend_from_slice(format!(",\"crc\":\"{crc:08x}\"}}\n").as_bytes());
}

/// The object in a line that [`seal`] wrote, without its checksum, if that is right.
pub(super) fn unseal(line: &[u8]) -> Option<Vec<u8>> {
    let mut object = checked(line)?.to_vec();
    object.push(b'}');
    Some(object)
}

/// Reads one record from a line without its line end.
///
/// # Errors
/// When the checksum or the content is wrong.
pub(super) fn decode(line: &[u8]) -> Result<(u64, DateTime<Utc>, Event), BadLine> {
    let text = unseal(line).ok_or(BadLine::Checksum)?;
    let bad = |error: serde_json::Error| BadLine::Content(error.to_string());
    let envelope: Envelope<'_> = serde_json::from_slice(&text).map_err(bad)?;
    let at = time::parse_instant(&envelope.at)
        .ok_or_else(|| BadLine::Content(format!("{:?} is no time", envelope.at)))?;
    let n = envelope.n;
    let line: Line = serde_json::from_slice(&text).map_err(bad)?;
    Ok((n, at, event_of(line).map_err(BadLine::Content)?))
}

/// Whether a line that is no record begins with a whole one, followed by more than the zeros that a file
/// system may leave behind a torn write.
pub(super) fn hides_record(line: &[u8]) -> bool {
    (CRC_LEN..line.len()).any(|end| {
        line[..end].ends_with(b"\"}")
            && checked(&line[..end]).is_some()
            && line[end..].iter().any(|b| *b != 0)
    })
}

/// The bytes that the checksum covers, if it is there and right.
fn checked(line: &[u8]) -> Option<&[u8]> {
    let (covered, tail) = line.split_at_checked(line.len().checked_sub(CRC_LEN)?)?;
    let hex = tail.strip_prefix(br#","crc":""#)?.strip_suffix(br#""}"#)?;
    if !hex.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let crc = u32::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()?;
    (crc32c::crc32c(covered) == crc).then_some(covered)
}

fn line_of(event: &Event) -> Line {
    match event.clone() {
        Event::Admitted(a) => Line::Admitted {
            run: a.run.to_string(),
            schedule: a.schedule.map(|s| s.to_string()),
            occurrence: time::format_instant(a.occurrence),
            manual: a.manual,
            name: a.name,
            workflow: a.workflow.to_string(),
            input: a.input,
            env: a.env,
            cwd: a.cwd,
        },
        Event::AttemptStarted(a) => Line::AttemptStarted {
            attempt: a.attempt,
            kind: a.kind.to_string(),
            slot: a.slot.map(|s| s.0),
            pid: a.pid,
            host: a.host,
            by: a.by,
            outcome: a.outcome.map(|o| o.to_string()),
            payload: a.payload,
            note: a.note,
        },
        Event::StepStarted { attempt, seq, step, try_no, key } => {
            Line::StepStarted { attempt, seq, step: step.to_string(), r#try: try_no, key }
        }
        Event::StepFinished(f) => Line::StepFinished {
            attempt: f.attempt,
            seq: f.seq,
            step: f.step.to_string(),
            outcome: f.outcome.to_string(),
            exit: f.ending.exit,
            signal: f.ending.signal,
            error: f.ending.error,
            output: f.output,
            ms: f.ms,
        },
        Event::Interrupted(i) => Line::Interrupted {
            attempt: i.attempt,
            step: i.step.to_string(),
            question: i.question,
            outcomes: i.outcomes.iter().map(ToString::to_string).collect(),
            schema: i.schema,
            expires_at: i.expires_at.map(time::format_instant),
        },
        Event::Completed { attempt, outcome } => Line::Completed { attempt, outcome: outcome.to_string() },
        Event::Failed { attempt, reason, error, by } => {
            Line::Failed { attempt, reason: reason.to_string(), error, by }
        }
        Event::Retried { from, note, by } => Line::Retried { from: from.to_string(), note, by },
        Event::Fenced { attempt, signal } => Line::Fenced { attempt, signal },
        Event::Requeued { attempt, at: None } => {
            Line::Requeued { attempt, at_step: None, r#try: None, key: None }
        }
        Event::Requeued { attempt, at: Some(place) } => Line::Requeued {
            attempt,
            at_step: Some(place.step.to_string()),
            r#try: (place.try_no != 1).then_some(place.try_no),
            key: place.key,
        },
        Event::Cancelled { by, note } => Line::Cancelled { by, note },
        Event::Resolved { resolution, note, by } => Line::Resolved { r#as: resolution.to_string(), note, by },
    }
}

fn parse<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

fn instant(text: &str) -> Result<DateTime<Utc>, String> {
    time::parse_instant(text).ok_or_else(|| format!("{text:?} is no time"))
}

fn word<T>(found: Option<T>, text: &str) -> Result<T, String> {
    found.ok_or_else(|| format!("{text:?} is an unknown word"))
}

fn event_of(line: Line) -> Result<Event, String> {
    Ok(match line {
        Line::Admitted { run, schedule, occurrence, manual, name, workflow, input, env, cwd } => {
            Event::Admitted(Box::new(Admitted {
                run: parse(&run)?,
                schedule: schedule.as_deref().map(parse).transpose()?,
                occurrence: instant(&occurrence)?,
                manual,
                name,
                workflow: parse(&workflow)?,
                input,
                env,
                cwd,
            }))
        }
        Line::AttemptStarted { attempt, kind, slot, pid, host, by, outcome, payload, note } => {
            Event::AttemptStarted(Box::new(AttemptStarted {
                attempt,
                kind: word(AttemptKind::from_word(&kind), &kind)?,
                slot: slot.map(SlotIndex),
                pid,
                host,
                by,
                outcome: outcome.as_deref().map(parse).transpose()?,
                payload,
                note,
            }))
        }
        Line::StepStarted { attempt, seq, step, r#try, key } => {
            Event::StepStarted { attempt, seq, step: parse(&step)?, try_no: r#try, key }
        }
        Line::StepFinished { attempt, seq, step, outcome, exit, signal, error, output, ms } => {
            Event::StepFinished(Box::new(StepFinished {
                attempt,
                seq,
                step: parse(&step)?,
                outcome: parse(&outcome)?,
                ending: StepEnding { exit, signal, error },
                output,
                ms,
            }))
        }
        Line::Interrupted { attempt, step, question, outcomes, schema, expires_at } => {
            Event::Interrupted(Box::new(Interrupted {
                attempt,
                step: parse(&step)?,
                question,
                outcomes: outcomes.iter().map(|o| parse(o)).collect::<Result<_, _>>()?,
                schema,
                expires_at: expires_at.as_deref().map(instant).transpose()?,
            }))
        }
        Line::Completed { attempt, outcome } => Event::Completed { attempt, outcome: parse(&outcome)? },
        Line::Failed { attempt, reason, error, by } => {
            Event::Failed { attempt, reason: word(Reason::from_word(&reason), &reason)?, error, by }
        }
        Line::Retried { from, note, by } => Event::Retried { from: parse(&from)?, note, by },
        Line::Fenced { attempt, signal } => Event::Fenced { attempt, signal },
        Line::Requeued { attempt, at_step, r#try, key } => Event::Requeued {
            attempt,
            at: match at_step {
                Some(step) => Some(RequeuedAt { step: parse(&step)?, try_no: r#try.unwrap_or(1), key }),
                None => None,
            },
        },
        Line::Cancelled { by, note } => Event::Cancelled { by, note },
        Line::Resolved { r#as, note, by } => {
            Event::Resolved { resolution: word(Resolution::from_word(&r#as), &r#as)?, note, by }
        }
    })
}
