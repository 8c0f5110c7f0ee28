//! Schedules on disk: the definition with its cursor, and the receipts of times that never became runs.

use std::{collections::BTreeMap, io, path::Path, time::Duration};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    StoreError, atomic,
    disk::{Disk, Kind, Open},
    due, layout,
    lock::StoreLock,
    record,
};
use crate::domain::{
    duration::{format_duration, parse_duration},
    ids::{RunId, ScheduleId},
    policy::{CatchUp, MissedReason, Overlap, Policies, Stretch},
    schedule::{Change, Definition, Schedule, Unrun, WhyUnrun},
    time,
    trigger::{self, CronExpr, DstFold, DstGap, Rule, Trigger, Zone},
};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScheduleFile {
    format: u32,
    id: String,
    workflow: String,
    name: String,
    trigger: TriggerFile,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    asked_start: Option<String>,
    overlap: String,
    catchup: String,
    catchup_limit: Option<u64>,
    deadline: Option<String>,
    input: Value,
    env: BTreeMap<String, String>,
    cwd: String,
    cursor: String,
    receipts_len: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ahead: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deleted_until: Option<String>,
    paused: Option<ChangeFile>,
    removed: Option<ChangeFile>,
    created_at: String,
    updated_at: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TriggerFile {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cron: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    every: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    anchor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    tz: String,
    start: Option<String>,
    until: Option<String>,
    count: Option<u64>,
    jitter: String,
    dst_gap: String,
    dst_fold: String,
}

#[derive(Serialize, Deserialize)]
struct ChangeFile {
    at: String,
    by: String,
}

#[derive(Serialize, Deserialize)]
struct UnrunLine {
    at: String,
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    first: String,
    last: String,
    count: u64,
}

/// The ids of all schedules, removed ones included, sorted; strange entries are passed over.
///
/// # Errors
/// When the folder cannot be read.
pub fn list(disk: &dyn Disk) -> Result<Vec<ScheduleId>, StoreError> {
    let path = Path::new(layout::SCHEDULES);
    let entries = disk.list(path).map_err(|e| StoreError::io("list", path, e))?;
    let folders = entries.iter().filter(|entry| entry.kind == Kind::Folder);
    let mut ids: Vec<ScheduleId> = folders.filter_map(|entry| entry.name.parse().ok()).collect();
    ids.sort_unstable();
    Ok(ids)
}

/// A schedule; none where there is none. A removed one is found too.
///
/// # Errors
/// When it cannot be read or makes no sense.
pub fn load(disk: &dyn Disk, id: &ScheduleId) -> Result<Option<Schedule>, StoreError> {
    let path = layout::schedule(id);
    let bytes = match disk.read(&path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(StoreError::io("read", path, e)),
    };
    let corrupt = |why: String| StoreError::Corrupt { path: path.clone(), why };
    let file: ScheduleFile = serde_json::from_slice(&bytes).map_err(|e| corrupt(e.to_string()))?;
    if file.format > super::settings::FORMAT {
        return Err(StoreError::Format { found: file.format, known: super::settings::FORMAT });
    }
    let schedule = schedule_of(file).map_err(corrupt)?;
    if schedule.id != *id {
        return Err(corrupt(format!("it is the definition of {}", schedule.id)));
    }
    Ok(Some(schedule))
}

/// Makes the file of a schedule durable as it stands. Its content was synced before it got its name.
///
/// # Errors
/// When that cannot be done.
pub fn sync(disk: &dyn Disk, id: &ScheduleId) -> Result<(), StoreError> {
    for folder in [layout::schedule_dir(id).as_path(), Path::new(layout::SCHEDULES)] {
        disk.sync_dir(folder).map_err(|e| StoreError::io("sync", folder, e))?;
    }
    Ok(())
}

/// Stores a schedule, atomically.
///
/// # Errors
/// When it cannot be written.
pub fn save(lock: &StoreLock<'_>, disk: &dyn Disk, schedule: &Schedule) -> Result<(), StoreError> {
    let dir = layout::schedule_dir(&schedule.id);
    match disk.create_dir(&dir) {
        Ok(()) => disk
            .sync_dir(Path::new(layout::SCHEDULES))
            .map_err(|e| StoreError::io("sync", layout::SCHEDULES, e))?,
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(StoreError::io("create", dir, e)),
    }
    let mut text =
        serde_json::to_vec_pretty(&file_of(schedule)).map_err(|e| StoreError::Bug(e.to_string()))?;
    text.push(b'\n');
    due::lower(lock, disk, &schedule.id)?;
    atomic::write(lock, disk, &layout::schedule(&schedule.id), &text)?;
    due::settle(lock, disk, schedule)
}

/// Removes the folder of a schedule that a crash kept from being stored; one with anything in it stays.
pub fn sweep_undefined(_lock: &StoreLock<'_>, disk: &dyn Disk, id: &ScheduleId) {
    // Only succeeds where it is empty; `fsck` names what stays.
    let _ = disk.remove_dir(&layout::schedule_dir(id));
}

/// Appends receipts and makes them durable; a torn last line is cut off first. Gives the new length of the
/// history in bytes, where anything was written.
///
/// # Errors
/// When they cannot be written.
pub fn append_history(
    _lock: &StoreLock<'_>,
    disk: &dyn Disk,
    id: &ScheduleId,
    receipts: &[Unrun],
) -> Result<Option<u64>, StoreError> {
    if receipts.is_empty() {
        return Ok(None);
    }
    let path = layout::schedule_history(id);
    let io = |what| {
        let path = path.clone();
        move |e| StoreError::io(what, path, e)
    };
    let (mut file, len) = match disk.open(&path, Open::Existing) {
        Ok(mut file) => {
            let bytes = file.read_tail(TAIL).map_err(io("read"))?;
            let torn = bytes.text.len() - valid_tail(&bytes.text);
            let len = bytes.size - torn as u64;
            if torn > 0 {
                file.truncate(len).map_err(io("cut the torn end of"))?;
            }
            (file, len)
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let file = disk.open(&path, Open::New).map_err(io("create"))?;
            disk.sync_dir(&layout::schedule_dir(id)).map_err(io("sync the folder of"))?;
            (file, 0)
        }
        Err(e) => return Err(io("open")(e)),
    };
    let text = encode(receipts)?;
    match file.append(&text).and_then(|()| file.sync()) {
        Ok(()) => Ok(Some(len + text.len() as u64)),
        Err(e) => {
            let _ = file.truncate(len).and_then(|()| file.sync());
            Err(io("append to")(e))
        }
    }
}

/// How much of the end of a history is looked at to find its last whole line, in bytes.
const TAIL: usize = 4096;

/// How many of the bytes at the end of a history are whole lines, as far as the end shows.
fn valid_tail(tail: &[u8]) -> usize {
    let Some(end) = tail.iter().rposition(|b| *b == b'\n') else { return 0 };
    let line_start = tail[..end].iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    if record::unseal(&tail[line_start..end]).is_some() { end + 1 } else { line_start }
}

/// The last nominal time that the history has a receipt for; none where it is empty.
///
/// # Errors
/// When it cannot be read.
pub fn last_receipt(disk: &dyn Disk, id: &ScheduleId) -> Result<Option<DateTime<Utc>>, StoreError> {
    let path = layout::schedule_history(id);
    let io = |e| StoreError::io("read", &path, e);
    let size = match disk.read_at(&path, 0, 0) {
        Ok((_, size)) => size,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(io(e)),
    };
    let (tail, _) = disk.read_at(&path, size.saturating_sub(TAIL as u64), TAIL).map_err(io)?;
    let whole = &tail[..valid_tail(&tail)];
    let Some(line) = whole.split(|b| *b == b'\n').rfind(|line| !line.is_empty()) else { return Ok(None) };
    Ok(read_line(line).map(|receipt| receipt.times.last))
}

/// Replaces the whole history, atomically; for a rewind, which takes back what a wrong clock has written.
/// Gives its length in bytes.
///
/// # Errors
/// When it cannot be written.
pub fn replace_history(
    lock: &StoreLock<'_>,
    disk: &dyn Disk,
    id: &ScheduleId,
    receipts: &[Unrun],
) -> Result<u64, StoreError> {
    let text = encode(receipts)?;
    atomic::write(lock, disk, &layout::schedule_history(id), &text)?;
    Ok(text.len() as u64)
}

fn encode(receipts: &[Unrun]) -> Result<Vec<u8>, StoreError> {
    let mut text = Vec::new();
    for receipt in receipts {
        let body = serde_json::to_vec(&line_of(receipt)).map_err(|e| StoreError::Bug(e.to_string()))?;
        record::seal(&body, &mut text);
    }
    Ok(text)
}

/// The receipts behind the first `receipts_len` bytes of a history: what a command wrote before it came to
/// advance the cursor.
///
/// # Errors
/// When they cannot be read.
pub fn load_uncovered(disk: &dyn Disk, schedule: &Schedule) -> Result<Vec<Unrun>, StoreError> {
    let path = layout::schedule_history(&schedule.id);
    let io = |e| StoreError::io("read", &path, e);
    let size = match disk.read_at(&path, 0, 0) {
        Ok((_, size)) => size,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(io(e)),
    };
    let Some(len) = size.checked_sub(schedule.receipts_len).and_then(|len| usize::try_from(len).ok()) else {
        return Ok(Vec::new());
    };
    let (bytes, _) = disk.read_at(&path, schedule.receipts_len, len).map_err(io)?;
    Ok(bytes.split(|b| *b == b'\n').filter_map(read_line).collect())
}

/// The receipts in a history, oldest first. A torn last line is ignored.
///
/// # Errors
/// When it cannot be read, or an earlier line is bad.
pub fn load_history(disk: &dyn Disk, id: &ScheduleId) -> Result<Vec<Unrun>, StoreError> {
    let path = layout::schedule_history(id);
    let bytes = match disk.read(&path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(StoreError::io("read", path, e)),
    };
    let mut receipts = Vec::new();
    let mut lines = bytes.split_inclusive(|b| *b == b'\n').enumerate().peekable();
    while let Some((index, line)) = lines.next() {
        let whole = line.strip_suffix(b"\n");
        match whole.and_then(read_line) {
            Some(receipt) => receipts.push(receipt),
            None if lines.peek().is_none() => break,
            None => {
                let why = format!("line {}: the checksum or the content is wrong", index + 1);
                return Err(StoreError::Corrupt { path, why });
            }
        }
    }
    Ok(receipts)
}

pub(super) fn read_line(line: &[u8]) -> Option<Unrun> {
    let line: UnrunLine = serde_json::from_slice(&record::unseal(line)?).ok()?;
    let why = match line.kind.as_str() {
        "skipped" => WhyUnrun::Skipped { by: line.run?.parse::<RunId>().ok()? },
        "missed" => WhyUnrun::Missed(missed_reason(&line.reason?)?),
        _ => return None,
    };
    Some(Unrun {
        at: time::parse_instant(&line.at)?,
        times: Stretch {
            first: time::parse_instant(&line.first)?,
            last: time::parse_instant(&line.last)?,
            count: line.count,
        },
        why,
    })
}

fn line_of(receipt: &Unrun) -> UnrunLine {
    let (run, reason) = match &receipt.why {
        WhyUnrun::Skipped { by } => (Some(by.to_string()), None),
        WhyUnrun::Missed(reason) => (None, Some(missed_word(*reason).to_owned())),
    };
    UnrunLine {
        at: time::format_instant(receipt.at),
        kind: receipt.why.kind().to_owned(),
        run,
        reason,
        first: time::format_instant(receipt.times.first),
        last: time::format_instant(receipt.times.last),
        count: receipt.times.count,
    }
}

macro_rules! table {
    ($to:ident, $from:ident, $type:ty, $($variant:path = $word:literal),+) => {
        /// The word in files and JSON.
        pub fn $to(value: $type) -> &'static str {
            match value { $($variant => $word,)+ }
        }

        /// The value that a word in a file or option names.
        pub fn $from(word: &str) -> Option<$type> {
            match word { $($word => Some($variant),)+ _ => None }
        }
    };
}

table!(
    missed_word,
    missed_reason,
    MissedReason,
    MissedReason::CatchUp = "catchup",
    MissedReason::Deadline = "deadline",
    MissedReason::Paused = "paused",
    MissedReason::Replaced = "replaced",
    MissedReason::DstGap = "dst_gap"
);
table!(
    overlap_word,
    overlap,
    Overlap,
    Overlap::Skip = "skip",
    Overlap::Queue = "queue",
    Overlap::QueueOne = "queue-one",
    Overlap::Allow = "allow"
);
table!(dst_gap_word, dst_gap, DstGap, DstGap::Next = "next", DstGap::Skip = "skip");
table!(
    dst_fold_word,
    dst_fold,
    DstFold,
    DstFold::First = "first",
    DstFold::Last = "last",
    DstFold::Both = "both"
);

fn file_of(schedule: &Schedule) -> ScheduleFile {
    let definition = &schedule.definition;
    let Policies { overlap, catch_up, deadline } = definition.policies;
    let (catchup, catchup_limit) = match catch_up {
        CatchUp::Latest => ("latest", None),
        CatchUp::All { limit } => ("all", Some(limit)),
        CatchUp::None => ("none", None),
    };
    ScheduleFile {
        format: super::settings::FORMAT,
        id: schedule.id.to_string(),
        workflow: definition.workflow.to_string(),
        name: definition.name.clone(),
        trigger: trigger_file_of(definition.trigger.definition()),
        asked_start: definition.asked_start.map(time::format_instant),
        overlap: overlap_word(overlap).to_owned(),
        catchup: catchup.to_owned(),
        catchup_limit,
        deadline: deadline.map(format_duration),
        input: definition.input.clone(),
        env: definition.env.clone(),
        cwd: definition.cwd.clone(),
        cursor: time::format_instant(schedule.cursor),
        receipts_len: schedule.receipts_len,
        ahead: schedule.ahead.iter().copied().map(time::format_instant).collect(),
        deleted_until: schedule.deleted_until.map(time::format_instant),
        paused: schedule.paused.as_ref().map(change_file_of),
        removed: schedule.removed.as_ref().map(change_file_of),
        created_at: time::format_instant(schedule.created_at),
        updated_at: time::format_instant(schedule.updated_at),
    }
}

fn change_file_of(change: &Change) -> ChangeFile {
    ChangeFile { at: time::format_instant(change.at), by: change.by.clone() }
}

fn trigger_file_of(definition: &trigger::Definition) -> TriggerFile {
    let mut file = TriggerFile {
        cron: None,
        every: None,
        anchor: None,
        at: None,
        tz: definition.zone.name().to_owned(),
        start: definition.start.map(time::format_instant),
        until: definition.until.map(time::format_instant),
        count: definition.count,
        jitter: format_duration(definition.jitter),
        dst_gap: dst_gap_word(definition.dst_gap).to_owned(),
        dst_fold: dst_fold_word(definition.dst_fold).to_owned(),
    };
    match &definition.rule {
        Rule::Cron(expr) => file.cron = Some(expr.as_str().to_owned()),
        Rule::Every { period, anchor } => {
            file.every = Some(format_duration(*period));
            file.anchor = Some(time::format_instant(*anchor));
        }
        Rule::At(at) => file.at = Some(time::format_instant(*at)),
    }
    file
}

fn schedule_of(file: ScheduleFile) -> Result<Schedule, String> {
    let parse_deadline = |text: String| parse_duration(&text).map_err(|e| format!("deadline: {e}"));
    let catch_up = match (file.catchup.as_str(), file.catchup_limit) {
        ("latest", None) => CatchUp::Latest,
        ("all", Some(limit)) => CatchUp::All { limit },
        ("none", None) => CatchUp::None,
        (word, _) => return Err(format!("catchup {word:?} with that limit makes no sense")),
    };
    Ok(Schedule {
        id: file.id.parse().map_err(|e: crate::domain::ids::InvalidId| e.to_string())?,
        definition: Definition {
            workflow: file.workflow.parse().map_err(|e: crate::domain::ids::InvalidId| e.to_string())?,
            name: file.name,
            trigger: Trigger::new(trigger_of(&file.trigger)?),
            asked_start: file.asked_start.map(|text| instant(&text)).transpose()?,
            policies: Policies {
                overlap: overlap(&file.overlap)
                    .ok_or_else(|| format!("overlap {:?} is unknown", file.overlap))?,
                catch_up,
                deadline: file.deadline.map(parse_deadline).transpose()?,
            },
            input: file.input,
            env: file.env,
            cwd: file.cwd,
        },
        cursor: instant(&file.cursor)?,
        receipts_len: file.receipts_len,
        ahead: file.ahead.iter().map(|text| instant(text)).collect::<Result<_, _>>()?,
        deleted_until: file.deleted_until.map(|text| instant(&text)).transpose()?,
        paused: file.paused.map(change_of).transpose()?,
        removed: file.removed.map(change_of).transpose()?,
        created_at: instant(&file.created_at)?,
        updated_at: instant(&file.updated_at)?,
    })
}

fn change_of(file: ChangeFile) -> Result<Change, String> {
    Ok(Change { at: instant(&file.at)?, by: file.by })
}

fn instant(text: &str) -> Result<DateTime<Utc>, String> {
    time::parse_instant(text).ok_or_else(|| format!("{text:?} is no time"))
}

fn trigger_of(file: &TriggerFile) -> Result<trigger::Definition, String> {
    let optional = |text: &Option<String>| text.as_deref().map(instant).transpose();
    let rule = match (&file.cron, &file.every, &file.anchor, &file.at) {
        (Some(expr), None, None, None) => Rule::Cron(CronExpr::parse(expr).map_err(|e| e.to_string())?),
        (None, Some(period), Some(anchor), None) => Rule::Every {
            period: parse_duration(period).map_err(|e| e.to_string())?,
            anchor: instant(anchor)?,
        },
        (None, None, None, Some(at)) => Rule::At(instant(at)?),
        _ => return Err("the trigger must be one of cron, every with anchor, at".to_owned()),
    };
    let jitter = match file.jitter.as_str() {
        "0s" => Duration::ZERO,
        text => parse_duration(text).map_err(|e| e.to_string())?,
    };
    Ok(trigger::Definition {
        rule,
        zone: Zone::parse(&file.tz).map_err(|e| e.to_string())?,
        start: optional(&file.start)?,
        until: optional(&file.until)?,
        count: file.count,
        jitter,
        dst_gap: dst_gap(&file.dst_gap).ok_or_else(|| format!("dst_gap {:?} is unknown", file.dst_gap))?,
        dst_fold: dst_fold(&file.dst_fold)
            .ok_or_else(|| format!("dst_fold {:?} is unknown", file.dst_fold))?,
    })
}
