//! Each invariant, broken, is named; a store that nothing happened to has no findings.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

use chrono::{DateTime, Utc};

use super::{Finding, Severity, Summary, check_store};
use crate::engine::test_store::{TestStore, at};

fn now() -> DateTime<Utc> {
    at("2026-12-10T00:00:00Z")
}

fn findings(test: &TestStore) -> (Vec<Finding>, Summary) {
    let mut found = Vec::new();
    let summary = check_store(&test.store, now(), &mut |finding| found.push(finding));
    (found, summary)
}

/// A store with one of everything, and nothing wrong.
fn healthy() -> TestStore {
    let test = TestStore::new();
    test.schedule("a", "0 4 * * *", at("2026-12-09T04:00:00Z"));
    test.completed("a@20261201T040000Z");
    test.missed("a", at("2026-12-02T04:00:00Z"), at("2026-12-03T04:00:00Z"), 2);
    test.missed("a", at("2026-12-04T04:00:00Z"), at("2026-12-04T04:00:00Z"), 1);
    test.completed("nightly@20261205T040000Z-m1");
    test.completed_at("chosen", at("2026-12-02T12:00:00Z"));
    test.ambiguous("a@20261206T040000Z");
    test.interrupted("a@20261207T040000Z", None);
    test.queued("a@20261208T040000Z");
    let run = "a@20261209T040000Z";
    let guard = test.claim(run);
    test.executing(run, guard.index().0);
    guard.release().unwrap();
    test
}

const EXECUTING: &str = "runs/active/a@20261209T040000Z";
const QUEUED: &str = "runs/active/a@20261208T040000Z";
const DONE: &str = "runs/done/2026-12-01/a@20261201T040000Z";

/// Breaks a healthy store and expects a finding at `path` that says `what`.
fn expect(path: &str, what: &str, severity: Severity, damage: impl FnOnce(&TestStore, &Path)) {
    let test = healthy();
    damage(&test, test.root());
    let (found, summary) = findings(&test);
    let is_named = found.iter().any(|finding| {
        finding.path == Path::new(path)
            && finding.what.contains(what)
            && finding.severity == severity
            && !finding.hint.is_empty()
    });
    assert!(is_named, "{path}: {what}: {found:#?}");
    let errors = found.iter().filter(|finding| finding.severity == Severity::Error).count();
    assert_eq!((summary.errors, summary.warnings), (errors as u64, (found.len() - errors) as u64));
}

fn edit(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(path, text.replacen(from, to, 1)).unwrap();
}

#[test]
fn a_healthy_store_has_no_findings_but_what_needs_recovery() {
    let test = healthy();
    let (found, summary) = findings(&test);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!((found[0].path.as_path(), found[0].severity), (Path::new(EXECUTING), Severity::Warning));
    assert!(found[0].hint.contains("wfctl recover --run a@20261209T040000Z"));
    assert_eq!((summary.runs, summary.schedules), (7, 1));
}

#[test]
fn a_live_run_is_no_finding() {
    let test = TestStore::new();
    test.schedule("a", "0 4 * * *", at("2026-12-09T04:00:00Z"));
    let guard = test.claim("a@20261209T040000Z");
    test.executing("a@20261209T040000Z", guard.index().0);
    assert_eq!(findings(&test).0, []);
    drop(guard);
    let (found, _) = findings(&test);
    let paths: Vec<_> = found.iter().map(|finding| finding.path.display().to_string()).collect();
    assert_eq!(paths, ["slots/0", EXECUTING]);
}

#[test]
fn what_is_in_the_wrong_place_is_named() {
    let error = Severity::Error;
    let warning = Severity::Warning;
    expect("wfctl.toml", "wfctl.toml cannot be used", error, |_, root| {
        fs::write(root.join("wfctl.toml"), "capacity = 0").unwrap();
    });
    expect("notes.txt", "nothing that belongs here", warning, |_, root| {
        fs::write(root.join("notes.txt"), "").unwrap();
    });
    expect(".tmp-1-x", "temporary file", warning, |_, root| {
        fs::write(root.join(".tmp-1-x"), "").unwrap();
    });
    expect("lock", "it is a link", error, |test, root| {
        fs::remove_file(root.join("lock")).unwrap();
        symlink(test.outside(), root.join("lock")).unwrap();
    });
    expect("draining", "it is a folder", error, |_, root| fs::create_dir(root.join("draining")).unwrap());
    expect("workflows", "missing", error, |_, root| fs::remove_dir_all(root.join("workflows")).unwrap());
    expect("runs/done", "missing", error, |_, root| fs::remove_dir_all(root.join("runs/done")).unwrap());
    expect("runs/other", "nothing that belongs", warning, |_, root| {
        fs::create_dir(root.join("runs/other")).unwrap();
    });
    expect("", "other users have access", warning, |_, root| {
        fs::set_permissions(root, fs::Permissions::from_mode(0o755)).unwrap();
    });
    expect(&format!("{DONE}/journal.jsonl"), "other users", warning, |_, root| {
        let path = root.join(DONE).join("journal.jsonl");
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    });
    expect("workflows/x.toml", "nothing that belongs", warning, |_, root| {
        fs::write(root.join("workflows/x.toml"), "").unwrap();
    });
}

#[test]
fn a_slot_that_needs_recovery_is_named() {
    let warning = Severity::Warning;
    expect("slots/0", "garbage", warning, |_, root| fs::write(root.join("slots/0"), "\0\0").unwrap());
    expect("slots/0", "attempt 1 of run a@20261209T040000Z was abandoned", warning, |test, _| {
        drop(test.claim("a@20261209T040000Z"));
    });
    expect("slots/0", "not released after attempt 1", warning, |test, _| {
        drop(test.claim("a@20261201T040000Z"));
    });
    expect("slots/0", "does not exist", warning, |test, _| drop(test.claim("a@20261231T040000Z")));
    expect("slots", "more than one slot names run", Severity::Error, |test, root| {
        drop(test.claim("a@20261209T040000Z"));
        fs::copy(root.join("slots/0"), root.join("slots/1")).unwrap();
    });
    expect("slots/7", "beyond the capacity of 2", warning, |test, root| {
        drop(test.claim("a@20261209T040000Z"));
        fs::rename(root.join("slots/0"), root.join("slots/7")).unwrap();
    });
    expect("slots/01", "nothing that belongs", warning, |_, root| {
        fs::write(root.join("slots/01"), "").unwrap();
    });
    expect("slots/1", "it is a folder", Severity::Error, |_, root| {
        fs::create_dir(root.join("slots/1")).unwrap();
    });
}

#[test]
fn a_damaged_run_is_named() {
    let error = Severity::Error;
    let warning = Severity::Warning;
    let done = format!("{DONE}/journal.jsonl");
    let queued = format!("{QUEUED}/journal.jsonl");
    expect(&done, "line 1: the checksum", error, |_, root| {
        edit(&root.join(DONE).join("journal.jsonl"), "nightly", "nightlx");
    });
    expect(&done, "its last line is torn", warning, |_, root| {
        let path = root.join(DONE).join("journal.jsonl");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text + "{\"n\":4,").unwrap();
    });
    expect(&done, "no whole first record", error, |_, root| {
        fs::write(root.join(DONE).join("journal.jsonl"), "").unwrap();
    });
    expect(&done, "cannot follow", error, |_, root| {
        // The second run's first line behind the first one's: a sound record in a senseless order.
        let path = root.join(DONE).join("journal.jsonl");
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        let resealed = reseal(lines[2], "\"n\":3", "\"n\":2");
        fs::write(&path, format!("{}\n{resealed}\n", lines[0])).unwrap();
    });
    expect(&queued, "contradicts the id", error, |_, root| {
        let path = root.join(QUEUED).join("journal.jsonl");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, reseal(text.trim(), "\"manual\":false", "\"manual\":true") + "\n").unwrap();
    });
    expect(&queued, "contradicts the id", error, |_, root| {
        let path = root.join(QUEUED).join("journal.jsonl");
        let text = fs::read_to_string(&path).unwrap();
        let from = "\"occurrence\":\"2026-12-08";
        fs::write(&path, reseal(text.trim(), from, "\"occurrence\":\"2026-12-07") + "\n").unwrap();
    });
    expect("runs/active/b@20261208T040000Z/journal.jsonl", "it is the journal of", error, |_, root| {
        fs::rename(root.join(QUEUED), root.join("runs/active/b@20261208T040000Z")).unwrap();
    });
    expect("runs/active/strange name", "nothing that belongs", warning, |_, root| {
        fs::create_dir(root.join("runs/active/strange name")).unwrap();
    });
    expect(&format!("{DONE}/core"), "nothing that belongs", warning, |_, root| {
        fs::write(root.join(DONE).join("core"), "").unwrap();
    });
    expect(&format!("{DONE}/1-make.log"), "it is a link", error, |test, root| {
        symlink(test.outside(), root.join(DONE).join("1-make.log")).unwrap();
    });
    expect("runs/active/x", "never admitted", warning, |_, root| {
        fs::create_dir(root.join("runs/active/x")).unwrap();
    });
    expect(&format!("{EXECUTING}/journal.jsonl"), "idempotency key", error, |_, root| {
        let path = root.join(EXECUTING).join("journal.jsonl");
        let text = fs::read_to_string(&path).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines[2] = reseal(&lines[2], "Z/1\"", "Z/9\"");
        fs::write(&path, lines.join("\n") + "\n").unwrap();
    });
}

/// Changes a record and gives it the right checksum.
fn reseal(line: &str, from: &str, to: &str) -> String {
    let body = &line[..line.len() - r#","crc":"00000000"}"#.len()];
    assert!(body.contains(from), "{body}");
    let body = body.replacen(from, to, 1);
    format!("{body},\"crc\":\"{:08x}\"}}", crc32c::crc32c(body.as_bytes()))
}

#[test]
fn a_run_in_the_wrong_folder_is_named() {
    let error = Severity::Error;
    let moved = |from: &'static str, to: &'static str| {
        move |_: &TestStore, root: &Path| {
            fs::create_dir_all(root.join(to).parent().unwrap()).unwrap();
            fs::rename(root.join(from), root.join(to)).unwrap();
        }
    };
    let active = "runs/active/a@20261201T040000Z";
    expect(active, "not moved to runs/done", Severity::Warning, moved(DONE, active));
    let done = "runs/done/2026-12-08/a@20261208T040000Z";
    expect(done, "the run is not finished", error, moved(QUEUED, done));
    let other_day = "runs/done/2026-12-03/a@20261201T040000Z";
    expect(other_day, "another day", error, moved(DONE, other_day));
    expect("runs/done/2026-1-1", "nothing that belongs", Severity::Warning, |_, root| {
        fs::create_dir(root.join("runs/done/2026-1-1")).unwrap();
    });
    expect(DONE, "exists a second time", error, |_, root| {
        fs::create_dir(root.join(active)).unwrap();
        fs::copy(root.join(DONE).join("journal.jsonl"), root.join(active).join("journal.jsonl")).unwrap();
    });
}

#[test]
fn a_snapshot_that_is_missing_or_altered_is_named() {
    let queued = format!("{QUEUED}/journal.jsonl");
    let done = format!("{DONE}/journal.jsonl");
    let remove = |test: &TestStore, root: &Path| {
        fs::remove_file(root.join(format!("workflows/{}.toml", test.workflow))).unwrap();
    };
    expect(&queued, "missing", Severity::Error, remove);
    expect(&done, "missing", Severity::Warning, remove);
    expect("schedules/a/schedule.json", "missing", Severity::Error, remove);
    let test = healthy();
    let path = format!("workflows/{}.toml", test.workflow);
    expect(&path, "altered", Severity::Error, |_, root| fs::write(root.join(&path), "x").unwrap());
}

#[test]
fn a_schedule_that_contradicts_itself_is_named() {
    let error = Severity::Error;
    let warning = Severity::Warning;
    let definition = "schedules/a/schedule.json";
    let history = "schedules/a/history.jsonl";
    expect(definition, "overlap \"never\" is unknown", error, |_, root| {
        edit(&root.join(definition), "\"overlap\": \"skip\"", "\"overlap\": \"never\"");
    });
    expect("schedules/b/schedule.json", "it is the definition of a", error, |_, root| {
        fs::create_dir(root.join("schedules/b")).unwrap();
        fs::copy(root.join(definition), root.join("schedules/b/schedule.json")).unwrap();
    });
    expect("schedules/b", "holds no definition", warning, |_, root| {
        fs::create_dir(root.join("schedules/b")).unwrap();
    });
    expect("schedules/a/notes", "nothing that belongs", warning, |_, root| {
        fs::write(root.join("schedules/a/notes"), "").unwrap();
    });
    expect(definition, "ahead of the clock", warning, |test, _| {
        test.schedule("a", "0 4 * * *", at("2027-01-01T00:00:00Z"));
    });
    expect(history, "checksum or content", error, |_, root| {
        edit(&root.join(history), "catchup", "catchux");
    });
    expect(history, "torn", warning, |_, root| {
        let text = fs::read_to_string(root.join(history)).unwrap();
        fs::write(root.join(history), text + "{\"at").unwrap();
    });
    expect(history, "overlaps", error, |test, _| {
        test.missed("a", at("2026-12-03T04:00:00Z"), at("2026-12-05T04:00:00Z"), 3);
    });
    expect(history, "cannot count 1 times", error, |test, _| {
        test.missed("a", at("2026-12-08T04:00:00Z"), at("2026-12-09T04:00:00Z"), 1);
    });
    expect(history, "beyond the cursor", warning, |test, _| {
        test.missed("a", at("2026-12-11T04:00:00Z"), at("2026-12-11T04:00:00Z"), 1);
    });
}

#[test]
fn a_run_that_its_schedule_contradicts_is_named() {
    let done = format!("{DONE}/journal.jsonl");
    expect(&done, "cursor of a is still before", Severity::Error, |test, _| {
        test.schedule("a", "0 4 * * *", at("2026-11-30T04:00:00Z"));
    });
    expect(&done, "its schedule a does not exist", Severity::Warning, |_, root| {
        fs::remove_dir_all(root.join("schedules/a")).unwrap();
    });
    let doubled = "runs/done/2026-12-03/a@20261203T040000Z/journal.jsonl";
    expect(doubled, "both a run and a receipt", Severity::Error, |test, _| {
        test.completed("a@20261203T040000Z");
    });
}
