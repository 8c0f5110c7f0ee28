//! Journals and slots as a crash would have left them, written by hand with right checksums.

use std::{fs, path::Path};

use serde_json::{Value, json};

use super::TestStore;

/// The line of a journal that follows `journal` at once: number, time and checksum added.
pub fn line(journal: &[u8], event: &Value) -> Vec<u8> {
    let lines: Vec<_> = journal.split_inclusive(|byte| *byte == b'\n').collect();
    let last: Value = serde_json::from_slice(lines.last().unwrap()).unwrap();
    let mut object = serde_json::Map::new();
    object.insert("n".to_owned(), (lines.len() + 1).into());
    object.insert("at".to_owned(), last["at"].clone());
    object.extend(event.as_object().unwrap().clone());
    let text = serde_json::to_vec(&object).unwrap();
    sealed(&text[..text.len() - 1])
}

/// The line that begins with `text`, an object without its closing brace, with the right checksum.
pub fn sealed(text: &[u8]) -> Vec<u8> {
    let crc = crc32c::crc32c(text);
    [text, format!(",\"crc\":\"{crc:08x}\"}}\n").as_bytes()].concat()
}

pub fn dispatched(attempt: u32) -> Value {
    json!({"event": "attempt_started", "attempt": attempt, "kind": "dispatch", "slot": 0, "pid": 1, "host": "gone"})
}

pub fn resumed(attempt: u32, outcome: &str) -> Value {
    json!({"event": "attempt_started", "attempt": attempt, "kind": "resume", "slot": 0, "pid": 1, "host": "gone",
        "by": "tester", "outcome": outcome})
}

pub fn started(run: &str, seq: u32, step: &str, try_no: u32) -> Value {
    json!({"event": "step_started", "attempt": 1, "seq": seq, "step": step, "try": try_no,
        "key": format!("{run}/{seq}")})
}

pub fn finished(seq: u32, step: &str, outcome: &str, exit: u8) -> Value {
    json!({"event": "step_finished", "attempt": 1, "seq": seq, "step": step, "outcome": outcome,
        "exit": exit, "ms": 3})
}

impl TestStore {
    /// Appends events to a run's journal, as a `wfctl` that was killed afterwards did.
    #[track_caller]
    pub fn append(&self, run: &str, events: &[Value]) {
        let path = self.folder(run).join("journal.jsonl");
        let mut journal = fs::read(&path).unwrap();
        for event in events {
            journal.extend(line(&journal, event));
        }
        fs::write(&path, journal).unwrap();
    }

    /// Writes a slot file, as a `wfctl` that was killed left it.
    pub fn occupy(&self, slot: u32, run: &str, attempt: u32) {
        let holder = json!({"run": run, "attempt": attempt, "pid": 1, "host": "gone", "at": "2026-12-01T04:00:00.000Z"});
        fs::write(self.slot_path(slot), format!("{holder}\n")).unwrap();
        make_private(&self.slot_path(slot));
    }
}

fn make_private(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}
