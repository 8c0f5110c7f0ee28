//! The one checker of what is promised about a store, whatever was killed, failed or lost.
//!
//! It reads the files by itself and asks the program only for `fsck`, so that a fault of the program's readers
//! does not hide one of its writers.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;

use super::Site;

/// The promises that a scenario bends on purpose.
#[derive(Debug, Clone, Copy, Default)]
pub struct Allow {
    /// Finished runs may be deleted.
    pub prune: bool,
    /// Receipts may be taken back, and runs may stand beyond the cursor.
    pub rewind: bool,
}

/// One run as its files tell it.
#[derive(Debug, Clone)]
pub struct Run {
    pub dir: PathBuf,
    pub journal: Vec<u8>,
    pub events: Vec<Value>,
}

/// The runs and receipts of a store at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    pub runs: BTreeMap<String, Run>,
    pub histories: BTreeMap<String, Vec<u8>>,
    pub schedules: BTreeSet<String>,
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// The bytes of a regular file; nothing where it is anything else.
fn read_file(path: &Path) -> Vec<u8> {
    let is_file = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file());
    if is_file { fs::read(path).unwrap() } else { Vec::new() }
}

fn whole_lines(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1)]
}

impl Snapshot {
    pub fn of(store: &Path) -> Self {
        let mut snapshot = Self::default();
        let mut dirs = entries(&store.join("runs/active"));
        for day in entries(&store.join("runs/done")) {
            dirs.extend(entries(&day));
        }
        for dir in dirs {
            let journal = read_file(&dir.join("journal.jsonl"));
            let events = whole_lines(&journal)
                .split(|b| *b == b'\n')
                .filter(|line| !line.is_empty())
                .map(|line| serde_json::from_slice(line).unwrap_or(Value::Null))
                .collect();
            let run = Run { dir: dir.clone(), journal, events };
            let twice = snapshot.runs.insert(name(&dir), run);
            assert!(twice.is_none(), "run {} is in two places", dir.display());
        }
        for dir in entries(&store.join("schedules")) {
            if dir.join("schedule.json").exists() {
                snapshot.schedules.insert(name(&dir));
            }
            let history = read_file(&dir.join("history.jsonl"));
            snapshot.histories.insert(name(&dir), history);
        }
        snapshot
    }
}

/// What is broken, as sentences; empty where nothing is.
#[derive(Debug, Default)]
pub struct Broken(pub Vec<String>);

impl Broken {
    fn say(&mut self, what: impl Into<String>) {
        self.0.push(what.into());
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        for what in &self.0 {
            let _ = writeln!(text, "  - {what}");
        }
        text
    }
}

/// Lets an operator go over the store (recover and tick, twice), then checks every promise. `before` is what
/// was durable before the attack.
pub fn heal_and_check(site: &Site, before: &Snapshot, allow: Allow) -> Broken {
    let mut broken = Broken::default();
    site.misbehave(false);
    site.end_orphans();
    for _ in 0..2 {
        let recovered = site.run(&["recover"]);
        if recovered.code != 0 {
            broken.say(format!("recover ends with {recovered:?}"));
        }
        let ticked = site.run(&["tick"]);
        if !matches!(ticked.code, 0 | 1) {
            broken.say(format!("tick ends with {ticked:?}"));
        }
    }
    check(site, before, allow, &mut broken);
    broken
}

/// Checks every promise about a store at rest.
pub fn check(site: &Site, before: &Snapshot, allow: Allow, broken: &mut Broken) {
    let store = &site.store;
    let now = Snapshot::of(store);
    check_kept(before, &now, allow, broken);
    check_debris(store, broken);
    check_slots(site, broken);
    for (id, run) in &now.runs {
        check_run(id, run, broken);
    }
    check_effects(site, &now, broken);
    for id in &now.schedules {
        check_receipts(store, id, &now, allow, broken);
    }
    let fsck = site.run(&["--json", "fsck"]);
    match serde_json::from_str::<Value>(&fsck.stdout) {
        Ok(told) if fsck.code == 0 => {
            for item in told["items"].as_array().unwrap() {
                // Nobody writes to a run at rest, so what a torn write left there stays until somebody does.
                let is_torn = item["what"].as_str().is_some_and(|what| what.contains("last line is torn"));
                if !(is_torn && item["severity"] == "warning") {
                    broken.say(format!("fsck: {item}"));
                }
            }
        }
        _ => broken.say(format!("fsck ends with {fsck:?}")),
    }
}

fn check_kept(before: &Snapshot, now: &Snapshot, allow: Allow, broken: &mut Broken) {
    for (id, old) in &before.runs {
        match now.runs.get(id) {
            Some(run) => {
                if !run.journal.starts_with(whole_lines(&old.journal)) {
                    broken.say(format!("the journal of {id} was not only appended to"));
                }
            }
            None if allow.prune || old.events.is_empty() => {}
            None => broken.say(format!("run {id} is gone")),
        }
    }
    for id in &before.schedules {
        if !now.schedules.contains(id) {
            broken.say(format!("schedule {id} is gone"));
        }
        if allow.rewind {
            continue;
        }
        let empty = Vec::new();
        let history = now.histories.get(id).unwrap_or(&empty);
        if !history.starts_with(whole_lines(&before.histories[id])) {
            broken.say(format!("the history of {id} was not only appended to"));
        }
    }
}

fn check_debris(store: &Path, broken: &mut Broken) {
    let known = [
        "wfctl.toml",
        "lock",
        "draining",
        "last_tick.json",
        "due.index",
        "workflows",
        "schedules",
        "slots",
        "runs",
    ];
    for path in entries(store) {
        if !known.contains(&name(&path).as_str()) {
            broken.say(format!("debris: {}", path.display()));
        }
    }
    for path in entries(&store.join("runs/batches")) {
        broken.say(format!("debris: {}", path.display()));
    }
    for path in entries(&store.join("schedules")) {
        if entries(&path).is_empty() {
            broken.say(format!("debris: {}", path.display()));
        }
    }
}

fn check_slots(site: &Site, broken: &mut Broken) {
    for path in entries(&site.store.join("slots")) {
        let text = fs::read_to_string(&path).unwrap();
        if !text.is_empty() {
            broken.say(format!("{} is not free: {text}", path.display()));
        }
    }
    for slot in site.locked_slots() {
        broken.say(format!("{slot} is locked"));
    }
}

fn word(event: &Value) -> &str {
    event["event"].as_str().unwrap_or("?")
}

fn check_run(id: &str, run: &Run, broken: &mut Broken) {
    for (index, event) in run.events.iter().enumerate() {
        if event["n"].as_u64() != Some(index as u64 + 1) {
            broken.say(format!("line {} of {id} is {event}", index + 1));
        }
    }
    let Some(last) = run.events.last() else { return broken.say(format!("{id} has no record")) };
    let stays = match word(last) {
        "interrupted" | "completed" | "cancelled" | "resolved" | "failed" => true,
        // Back at its gate.
        "requeued" => run.events.iter().rev().any(|event| word(event) == "interrupted"),
        _ => false,
    };
    if !stays {
        broken.say(format!("{id} comes to no rest: its journal ends with {last}"));
    }
    let is_ambiguous = word(last) == "failed" && last["reason"] == "ambiguous";
    let is_done = matches!(word(last), "completed" | "cancelled" | "resolved" | "failed") && !is_ambiguous;
    if is_done == run.dir.parent().unwrap().ends_with("active") {
        broken.say(format!("{} is in the wrong place", run.dir.display()));
    }
    for path in entries(&run.dir) {
        let name = name(&path);
        let is_evidence = is_ambiguous && name.ends_with(".output.json");
        if name != "journal.jsonl" && !name.ends_with(".log") && !is_evidence {
            broken.say(format!("debris: {}", path.display()));
        }
    }
    check_starts(id, run, broken);
}

/// No ordinary step is started again while the outcome of its last start is unknown, and an ambiguous run
/// is never dispatched.
fn check_starts(id: &str, run: &Run, broken: &mut Broken) {
    let mut in_flight: Option<&Value> = None;
    let mut is_over = false;
    let mut done: BTreeSet<&str> = BTreeSet::new();
    for event in &run.events {
        match word(event) {
            "attempt_started" if is_over => broken.say(format!("{id} is dispatched after its end")),
            "step_started" => {
                if let Some(started) = in_flight
                    && (started["step"] != event["step"] || started["key"] != event["key"])
                {
                    broken.say(format!("{id} starts {event} while {started} is unknown"));
                }
                if !done.insert(event["step"].as_str().unwrap_or("?")) && in_flight.is_none() {
                    broken.say(format!("{id} starts {} again", event["step"]));
                }
                in_flight = Some(event);
            }
            "step_finished" => in_flight = None,
            "retried" => {
                (in_flight, is_over) = (None, false);
                done.clear();
            }
            "completed" | "cancelled" | "failed" | "resolved" => is_over = true,
            _ => {}
        }
    }
}

/// Each effect has a record of its start; a step that is known to have ended took effect; an ordinary one at
/// most once for each start.
fn check_effects(site: &Site, now: &Snapshot, broken: &mut Broken) {
    let text = fs::read_to_string(site.dir.join("effects")).unwrap_or_default();
    let mut effects: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [run, _, key] = words.as_slice() else { return broken.say(format!("strange effect {line:?}")) };
        *effects.entry((run, key)).or_default() += 1;
    }
    let mut starts: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    let mut ends: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for (id, run) in &now.runs {
        let mut keys: BTreeMap<u64, &str> = BTreeMap::new();
        for event in &run.events {
            if word(event) == "step_started" {
                let key = event["key"].as_str().unwrap();
                keys.insert(event["seq"].as_u64().unwrap(), key);
                *starts.entry((id, key)).or_default() += 1;
            } else if word(event) == "step_finished" && event["exit"].is_u64() {
                *ends.entry((id, keys[&event["seq"].as_u64().unwrap()])).or_default() += 1;
            }
        }
    }
    for ((run, key), count) in &effects {
        // The record of a deleted run is gone, and so is what it says of its effects.
        if now.runs.contains_key(*run) && starts.get(&(*run, *key)).copied().unwrap_or(0) < *count {
            broken.say(format!("{key} took effect {count} times, started {:?}", starts.get(&(*run, *key))));
        }
    }
    for ((run, key), count) in &ends {
        if effects.get(&(*run, *key)).copied().unwrap_or(0) < *count {
            broken.say(format!("{key} of {run} is recorded as done and took no effect"));
        }
    }
}

fn instant(value: &Value) -> DateTime<Utc> {
    value.as_str().unwrap().parse().unwrap()
}

/// Every nominal time up to the cursor has exactly one receipt: a run, or an entry of the history. Knows
/// triggers of whole days only.
fn check_receipts(store: &Path, id: &str, now: &Snapshot, allow: Allow, broken: &mut Broken) {
    let dir = store.join("schedules").join(id);
    let schedule: Value = serde_json::from_slice(&fs::read(dir.join("schedule.json")).unwrap()).unwrap();
    let every = schedule["trigger"]["every"].as_str();
    let mut receipts: BTreeMap<DateTime<Utc>, Vec<String>> = BTreeMap::new();
    for (run, found) in &now.runs {
        let Some(admitted) = found.events.first() else { continue };
        if admitted["schedule"] == id && admitted["manual"] == false {
            receipts.entry(instant(&admitted["occurrence"])).or_default().push(run.clone());
        }
    }
    let history = now.histories.get(id).cloned().unwrap_or_default();
    for line in whole_lines(&history).split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
        let line: Value = serde_json::from_slice(line).unwrap();
        let (first, last) = (instant(&line["first"]), instant(&line["last"]));
        let mut count = 0;
        let mut at = first;
        while at <= last {
            count += 1;
            receipts.entry(at).or_default().push(line["kind"].to_string());
            at += TimeDelta::days(1);
        }
        if line["count"].as_u64() != Some(count) {
            broken.say(format!("{id}: strange receipt {line}"));
        }
    }
    for (at, receipts) in &receipts {
        if receipts.len() > 1 {
            broken.say(format!("{id} at {at} has the receipts {receipts:?}"));
        }
    }
    let (cursor, start) = (instant(&schedule["cursor"]), &schedule["trigger"]["start"]);
    if every != Some("1d") || start.is_null() {
        return;
    }
    if let Some((at, _)) = receipts.range(cursor + TimeDelta::milliseconds(1)..).next()
        && !allow.rewind
    {
        broken.say(format!("{id} has a receipt for {at}, beyond its cursor {cursor}"));
    }
    let midnight = instant(start).date_naive().and_hms_opt(0, 0, 0).unwrap().and_utc();
    let mut at = if midnight < instant(start) { midnight + TimeDelta::days(1) } else { midnight };
    while at <= cursor {
        if !receipts.contains_key(&at) && !allow.prune {
            broken.say(format!("{id} at {at} has no receipt, and its cursor is {cursor}"));
        }
        at += TimeDelta::days(1);
    }
}
