//! The index of due times: with many schedules a tick looks at those that are due and at no others, and whatever
//! becomes of the index, nothing is late.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;

use support::TestStore;

const MANY: usize = 250;
const INDEX: &str = "due.index";

/// A store with many schedules that are due once a year, and the index that a tick made of them.
fn many() -> (TestStore, String) {
    let store = TestStore::new(1);
    let file = store.quick("w");
    store.ok(&["schedule", &file, "--id", "s0", "--cron", "0 0 1 1 *", "--start", "2090-01-02T00:00:00Z"]);
    let folder = store.dir.join("schedules");
    let text = fs::read_to_string(folder.join("s0/schedule.json")).unwrap();
    for k in 1..MANY {
        let one = folder.join(format!("s{k}"));
        fs::create_dir(&one).unwrap();
        fs::write(one.join("schedule.json"), text.replacen("\"s0\"", &format!("\"s{k}\""), 1)).unwrap();
    }
    store.ok(&["tick", "--now", "2090-02-01T00:00:00Z"]);
    assert!(store.dir.join(INDEX).exists());
    (store, file)
}

fn admitted(store: &TestStore, now: &str) -> Vec<String> {
    let report = store.json(&["tick", "--now", now]);
    let runs = report["admitted"].as_array().unwrap();
    runs.iter().map(|run| run["schedule"].as_str().unwrap().to_owned()).collect()
}

/// What an edit of the index of a store that stands still comes to.
fn edit(store: &TestStore, change: impl FnOnce(String) -> String) {
    let path = store.dir.join(INDEX);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(path, change(text)).unwrap();
}

#[test]
fn an_idle_tick_reads_no_schedule() {
    let (store, _) = many();
    if !support::can_trace() {
        return;
    }
    let out = store.work.join("trace");
    let mut command = store.program("strace".as_ref());
    command.args(["-f", "-qq", "-s", "256", "-e", "trace=openat2,getdents64", "-o"]);
    command.arg(&out).arg(env!("CARGO_BIN_EXE_wfctl")).arg("--store").arg(&store.dir);
    command.args(["tick", "--now", "2090-03-01T00:00:00Z", "--json"]);
    store.start(command).wait().expect(0);
    let trace = fs::read_to_string(out).unwrap();
    assert!(trace.contains(INDEX), "{trace}");
    assert!(!trace.contains("schedule.json"), "{trace}");
    assert!(trace.lines().count() < 60, "{trace}");
}

#[test]
fn what_comes_due_among_many_is_admitted_once() {
    let (store, file) = many();
    store.ok(&[
        "schedule",
        &file,
        "--id",
        "s7",
        "--cron",
        "0 4 * * *",
        "--start",
        "2090-02-02T00:00:00Z",
        "--replace",
    ]);
    store.ok(&["schedule", &file, "--id", "new", "--cron", "0 5 * * *", "--start", "2090-02-02T00:00:00Z"]);
    assert_eq!(
        store.json(&["tick", "--now", "2090-02-02T03:00:00Z"])["next_due"],
        "2090-02-02T04:00:00.000Z"
    );
    assert_eq!(admitted(&store, "2090-02-02T04:30:00Z"), ["s7"]);
    assert_eq!(admitted(&store, "2090-02-02T05:30:00Z"), ["new"]);
    assert!(admitted(&store, "2090-02-02T06:00:00Z").is_empty());
    assert_eq!(admitted(&store, "2090-02-03T06:00:00Z"), ["s7", "new"]);
    store.ok(&["pause", "s7"]);
    assert_eq!(admitted(&store, "2090-02-04T06:00:00Z"), ["new"]);
    assert_eq!(admitted(&store, "2091-01-01T00:00:30Z").len(), MANY);
    store.fsck_clean();
}

#[test]
fn an_index_that_cannot_be_believed_is_made_again() {
    let (store, _) = many();
    let due = "2091-01-01T00:00:30Z";
    let before = fs::read_to_string(store.dir.join(INDEX)).unwrap();
    let never = |text: &str| text.replace("2091-01-01T00:00:00Z", "2099-01-01T00:00:00Z");
    let changes: [&dyn Fn(String) -> String; 5] = [
        &|_| String::new(),
        &|text| text[..text.len() - 1].to_owned(),
        &|text| never(&text).replacen("boot ", "boot 0", 1),
        &|text| never(&text).replacen("schedules ", "schedules 1", 1),
        &|text| text.replacen("s17 ", "s99 ", 1),
    ];
    for change in changes {
        edit(&store, change);
        store.ok(&["tick", "--now", "2090-02-01T00:00:00Z"]);
        assert_eq!(fs::read_to_string(store.dir.join(INDEX)).unwrap(), before);
    }
    fs::remove_file(store.dir.join(INDEX)).unwrap();
    assert_eq!(admitted(&store, due).len(), MANY);
    store.fsck_clean();
}

#[test]
fn an_index_that_would_make_something_late_is_found_by_fsck() {
    let (store, _) = many();
    store.fsck_clean();
    edit(&store, |text| {
        let at = text.find("s17 ").unwrap();
        text[..at].to_owned() + &text[at..].replacen("2091-01-01T00:00:00Z", "2091-01-01T00:00:01Z", 1)
    });
    let found = store.json_code(65, &["fsck"]);
    assert!(found.to_string().contains("schedule s17"), "{found}");
    fs::remove_file(store.dir.join(INDEX)).unwrap();
    store.fsck_clean();
}

#[test]
fn a_command_that_died_before_it_changed_a_schedule_leaves_it_to_be_looked_at() {
    let (store, _) = many();
    let before = fs::read_to_string(store.dir.join(INDEX)).unwrap();
    edit(&store, |text| {
        let at = text.find("s17 ").unwrap();
        let line = format!("{:<64} {:<20} {:<20} {:<20}\n", "s17", "look", "look", "look");
        text[..at].to_owned() + &line + &text[at + line.len()..]
    });
    store.ok(&["tick", "--now", "2090-02-01T00:00:00Z"]);
    assert_eq!(fs::read_to_string(store.dir.join(INDEX)).unwrap(), before);
}
