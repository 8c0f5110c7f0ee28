//! The exit status of every kind of refusal, its words on stderr and in JSON, and that a refusal leaves the
//! store as it was.

#![allow(clippy::unwrap_used)]

mod support;

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::Value;
use support::{TestStore, craft};

/// Refused twice, in words and in JSON, without a trace in the store.
#[track_caller]
fn refused(store: &TestStore, code: i32, kind: &str, args: &[&str]) -> String {
    let before = store.tree();
    let done = store.run(args).expect(code);
    assert_eq!(done.stdout, "", "{args:?}");
    let lines: Vec<_> = done.stderr.lines().collect();
    let message = lines.iter().position(|line| line.starts_with("wfctl: ")).expect(&done.stderr);
    if kind != "usage" {
        assert!(
            lines[message + 1..].iter().all(|line| line.starts_with("hint: ")),
            "{args:?}: {}",
            done.stderr
        );
        assert!(lines.len() <= message + 2, "{args:?}: {}", done.stderr);
    }

    let mut command = store.command(&["--json"]);
    command.args(args);
    let json = store.start(command).wait().expect(code);
    let error = json.json()["error"].clone();
    assert_eq!(
        (&error["code"], &error["kind"]),
        (&Value::from(code), &Value::from(kind)),
        "{args:?}: {json:?}"
    );
    let text = error["message"].as_str().unwrap();
    assert!(!text.is_empty() && !text.contains('\n') && !text.ends_with('.'), "{args:?}: {text:?}");
    assert!(error["hint"].is_string() || error["hint"].is_null());
    if kind != "usage" {
        assert_eq!(lines[message], format!("wfctl: {text}"));
        if let Some(hint) = error["hint"].as_str() {
            assert_eq!(lines[message + 1], format!("hint: {hint}"), "{args:?}");
        }
    }
    assert_eq!(store.tree(), before, "{args:?} left a trace");
    done.stderr
}

#[test]
fn usage_is_2() {
    let store = TestStore::new(1);
    for args in [
        &["frobnicate"][..],
        &["resume"],
        &["tick", "--max-runs", "0"],
        &["resolve", "x", "--as", "maybe"],
        &["show", "x", "--no-such-option"],
        &["--lock-timeout", "soon", "tick"],
    ] {
        refused(&store, 2, "usage", args);
    }
    let file = store.quick("q");
    refused(&store, 2, "bad_trigger", &["schedule", &file, "--cron", "61 * * * *"]);
    refused(&store, 2, "unknown_zone", &["schedule", &file, "--cron", "@daily", "--tz", "Mars/Olympus"]);
}

#[test]
fn bad_data_is_65() {
    let store = TestStore::new(1);
    let bad = store.file("bad.toml", "name = \"x\"\n[[step]]\nid = \"a\"\nrum = \"true\"\n");
    let bad = bad.to_str().unwrap();
    for args in [&["check", bad][..], &["schedule", bad, "--at", "now"], &["run", bad]] {
        let said = refused(&store, 65, "bad_workflow", args);
        assert!(said.contains(&format!("{bad}:4:1: ")), "{said}");
    }
    let good = store.quick("q");
    refused(&store, 65, "bad_input", &["run", &good, "--input", "{oops"]);
    refused(&store, 65, "never_fires", &["schedule", &good, "--cron", "0 0 30 2 *"]);
    refused(&store, 65, "never_fires", &["next", "--cron", "0 0 30 2 *"]);
    assert_eq!(store.run(&["schedule", &good, "--at", "2001-01-01T00:00:00Z"]).code, 65);
}

#[test]
fn a_corrupt_record_is_65_and_only_that_run_is_refused() {
    let store = TestStore::new(1);
    let run = store.interrupted("g");
    let path = store.folder(&run).join("journal.jsonl");
    let mut journal = store.journal(&run);
    journal[30] ^= 4;
    fs::write(&path, journal).unwrap();
    for args in [&["resume", &run][..], &["show", &run], &["cancel", &run], &["retry", &run]] {
        refused(&store, 65, "corrupt", args);
    }
    store.ok(&["run", &store.quick("q")]);
}

#[test]
fn what_does_not_exist_is_66() {
    let store = TestStore::without_store();
    for args in [&["status"][..], &["tick"], &["list"], &["fsck"], &["drain"], &["recover"], &["show", "x"]] {
        let said = refused(&store, 66, "no_store", args);
        assert!(said.contains("init"), "{said}");
    }
    assert!(!store.dir.exists());
    let store = TestStore::new(1);
    for args in
        [&["show", "x"][..], &["resume", "x"], &["cancel", "x"], &["recover", "--run", "x"], &["logs", "x"]]
    {
        refused(&store, 66, "no_run", args);
    }
    for args in [
        &["pause", "x"][..],
        &["unpause", "x"],
        &["remove", "x"],
        &["trigger", "x"],
        &["rewind", "x"],
        &["next", "x"],
    ] {
        refused(&store, 66, "no_schedule", args);
    }
    refused(&store, 66, "no_file", &["check", "absent.toml"]);
    refused(&store, 66, "no_file", &["run", "absent.toml"]);
}

#[test]
fn a_draining_store_is_69() {
    let store = TestStore::new(1);
    let run = store.interrupted("g");
    store.ok(&["drain"]);
    refused(&store, 69, "draining", &["resume", &run]);
    refused(&store, 69, "draining", &["run", &store.quick("q")]);
    refused(&store, 69, "draining", &["trigger", "g"]);
}

#[test]
fn what_exists_already_is_73() {
    let store = TestStore::new(1);
    let file = store.quick("q");
    store.ok(&["schedule", &file, "--every", "1h"]);
    refused(&store, 73, "exists", &["schedule", &file, "--every", "2h"]);
    store.ok(&["schedule", &file, "--every", "1h"]);
    store.ok(&["run", &file, "--id", "q-1"]);
    refused(&store, 73, "exists", &["run", &file, "--id", "q-1"]);
    // A folder that is something else is not taken over.
    let other = TestStore::without_store();
    fs::create_dir(&other.dir).unwrap();
    fs::write(other.dir.join("thesis.txt"), "precious").unwrap();
    refused(&other, 73, "not_a_store", &["init"]);
}

#[test]
fn an_io_error_is_74() {
    let store = TestStore::new(1);
    let run = store.interrupted("g");
    let journal = store.folder(&run).join("journal.jsonl");
    fs::rename(&journal, store.work.join("aside")).unwrap();
    fs::create_dir(&journal).unwrap();
    refused(&store, 74, "io", &["resume", &run]);
    refused(&store, 74, "io", &["show", &run]);
}

#[test]
fn try_later_is_75() {
    let store = TestStore::new(1);
    let waiting = store.interrupted("g");
    let file = store.slow("busy");
    let busy = store.popen(&["run", &file, "--id", "busy-1"]);
    store.wait_live("busy-1", "busy.effect");
    refused(&store, 75, "full", &["resume", &waiting]);
    refused(&store, 75, "full", &["run", &store.quick("q")]);
    refused(&store, 75, "live", &["recover", "--run", "busy-1"]);
    refused(&store, 75, "live", &["resume", "busy-1"]);
    refused(&store, 75, "timeout", &["wait", "busy-1", "--timeout", "10ms"]);
    let lock = store.hold_lock("pid 4711 (test)\n");
    let said = refused(&store, 75, "lock_busy", &["tick", "--lock-timeout", "10ms"]);
    assert!(said.contains("4711"), "{said}");
    drop(lock);
    store.file("busy.open", "");
    busy.wait().expect(0);
}

#[test]
fn what_the_runs_state_does_not_allow_is_76() {
    let store = TestStore::new(1);
    let queued = store.admit(&store.quick("q"));
    refused(&store, 76, "wrong_state", &["resume", &queued]);
    refused(&store, 76, "wrong_state", &["retry", &queued]);
    refused(&store, 76, "wrong_state", &["resolve", &queued, "--as", "failed"]);
    store.append(&queued, &[craft::dispatched(1), craft::started(&queued, 1, "one", 1)]);
    store.occupy(0, &queued, 1);
    refused(&store, 76, "wrong_state", &["resume", &queued]);
    refused(&store, 76, "wrong_state", &["retry", &queued]);
    refused(&store, 76, "wrong_state", &["cancel", &queued]);
    store.ok(&["recover"]);
    let said = refused(&store, 76, "wrong_state", &["resume", &queued]);
    assert!(said.contains("ambiguous") && said.contains("resolve"), "{said}");
    store.ok(&["run", &store.quick("c"), "--id", "c-1"]);
    for args in [&["resume", "c-1"][..], &["cancel", "c-1"], &["retry", "c-1"]] {
        refused(&store, 76, "wrong_state", args);
    }
}

#[test]
fn a_store_that_others_can_write_is_77() {
    let store = TestStore::new(1);
    for mode in [0o770, 0o707, 0o720] {
        fs::set_permissions(&store.dir, fs::Permissions::from_mode(mode)).unwrap();
        refused(&store, 77, "not_private", &["tick"]);
        refused(&store, 77, "not_private", &["status"]);
    }
    fs::set_permissions(&store.dir, fs::Permissions::from_mode(0o700)).unwrap();
    store.ok(&["status"]);
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&store.dir, Some(12345), None).unwrap();
        refused(&store, 77, "not_private", &["tick"]);
    }
}

#[test]
fn a_newer_format_and_bad_settings_are_78() {
    let store = TestStore::new(1);
    let path = store.dir.join("wfctl.toml");
    let settings = fs::read_to_string(&path).unwrap();
    let newer = settings.lines().map(|line| if line.starts_with("format") { "format = 999" } else { line });
    fs::write(&path, newer.collect::<Vec<_>>().join("\n")).unwrap();
    for args in [&["tick"][..], &["status"], &["config", "capacity", "3"], &["init"]] {
        refused(&store, 78, "format", args);
    }
    for bad in ["capacity = 0\n", "capacity = \"many\"\n", "grace = \"soon\"\n", "unknown = 1\n", "[[[\n"] {
        let without: Vec<_> =
            settings.lines().filter(|line| !bad.starts_with(line.split(' ').next().unwrap_or("-"))).collect();
        fs::write(&path, format!("{}\n{bad}", without.join("\n"))).unwrap();
        refused(&store, 78, "settings", &["tick"]);
    }
    fs::write(&path, settings).unwrap();
    store.ok(&["status"]);
}

#[test]
fn a_run_that_failed_is_1_and_one_that_did_not_is_0() {
    let store = TestStore::new(1);
    let failing = store.workflow("f", "[[step]]\nid = \"a\"\nrun = \"exit 5\"\n");
    store.run(&["run", &failing, "--id", "f-1"]).expect(1);
    store.ok(&["schedule", &failing, "--at", "now"]);
    store.run(&["tick"]).expect(1);
    store.ok(&["tick"]);
    store.run(&["wait", "f-1"]).expect(1);
    store.ok(&["run", &store.quick("q"), "--id", "q-1"]);
    store.ok(&["wait", "q-1"]);
}

#[test]
fn no_id_leaves_the_store() {
    let store = TestStore::new(1);
    let file = store.quick("q");
    let around = || {
        support::tree_of(store.dir.parent().unwrap())
            .into_keys()
            .filter(|path| !path.iter().any(|part| part == "calls"))
            .collect::<Vec<_>>()
    };
    let before = around();
    for id in ["../x", "..", ".", "a/b", "/etc/x", "", "-x", ".hidden", "a b", "a\nb", "ä", &"x".repeat(65)]
    {
        for args in [
            vec!["schedule", &file, "--at", "now", "--id", id],
            vec!["run", &file, "--id", id],
            vec!["pause", id],
            vec!["trigger", id],
            vec!["remove", id],
            vec!["next", id],
        ] {
            let done = store.run(&args);
            assert!([2, 65, 66].contains(&done.code), "{args:?}: {done:?}");
        }
        for command in ["show", "resume", "cancel", "logs", "recover", "wait"] {
            let args = if command == "recover" { vec!["recover", "--run", id] } else { vec![command, id] };
            let done = store.run(&args);
            assert!([2, 65, 66].contains(&done.code), "{args:?}: {done:?}");
        }
        let name = store.file(
            "named.toml",
            &format!("name = {}\n[[step]]\nid = \"a\"\nrun = \"true\"\n", Value::from(id)),
        );
        store.run(&["check", name.to_str().unwrap()]).expect(65);
        fs::remove_file(name).unwrap();
    }
    assert_eq!(around(), before);
}

/// A copy of `inside` becomes something outside of the store that `inside` links to.
fn link_outside(store: &TestStore, inside: &Path) {
    let outside = store.work.join("outside");
    fs::rename(inside, &outside).unwrap();
    symlink(&outside, inside).unwrap();
}

#[track_caller]
fn untouched(store: &TestStore, commands: &[&[&str]]) {
    let outside = support::tree_of(&store.work.join("outside"));
    let text = fs::read(store.work.join("outside")).ok();
    for args in commands {
        let done = store.run(args);
        assert!(done.code != 70 && done.code >= 0, "{args:?}: {done:?}");
    }
    assert_eq!(support::tree_of(&store.work.join("outside")), outside);
    assert_eq!(fs::read(store.work.join("outside")).ok(), text);
}

#[test]
fn a_linked_run_folder_is_not_followed() {
    let store = TestStore::new(1);
    let run = store.interrupted("g");
    store.file("g.open", "");
    link_outside(&store, &store.folder(&run));
    for args in [&["resume", &run][..], &["cancel", &run], &["show", &run]] {
        let done = store.run(args);
        assert!([65, 66, 74].contains(&done.code), "{args:?}: {done:?}");
    }
    untouched(&store, &[&["tick"], &["recover"], &["prune", "--older-than", "0s"], &["fsck"], &["list"]]);
    assert_eq!(store.read("g.effect"), "");
}

#[test]
fn a_linked_journal_is_not_followed() {
    let store = TestStore::new(1);
    let run = store.interrupted("g");
    store.file("g.open", "");
    link_outside(&store, &store.folder(&run).join("journal.jsonl"));
    for args in [&["resume", &run][..], &["cancel", &run], &["show", &run]] {
        let done = store.run(args);
        assert!([65, 74].contains(&done.code), "{args:?}: {done:?}");
    }
    untouched(&store, &[&["tick"], &["recover"], &["fsck"], &["list"]]);
    assert_eq!(store.read("g.effect"), "");
}

#[test]
fn a_linked_slot_is_not_followed() {
    let store = TestStore::new(1);
    let run = store.interrupted("g");
    store.file("g.open", "");
    if !store.slot_path(0).exists() {
        fs::write(store.slot_path(0), "").unwrap();
    }
    link_outside(&store, &store.slot_path(0));
    // It is nobody's free slot, and the only one.
    store.run(&["resume", &run]).expect(75);
    untouched(&store, &[&["tick"], &["recover"], &["fsck"], &["status"]]);
    assert_eq!(store.read("g.effect"), "");
    assert_eq!(store.show(&run)["status"], "interrupted");
}

#[test]
fn a_linked_schedule_is_not_followed() {
    for part in ["", "schedule.json"] {
        let store = TestStore::new(1);
        store.ok(&["schedule", &store.quick("q"), "--at", "now"]);
        let mut inside = store.dir.join("schedules/q");
        if !part.is_empty() {
            inside.push(part);
        }
        link_outside(&store, &inside);
        untouched(
            &store,
            &[&["tick"], &["pause", "q"], &["trigger", "q"], &["remove", "q"], &["fsck"], &["schedules"]],
        );
        assert_eq!(store.read("q.effect"), "", "{part}");
    }
}

#[test]
fn linked_top_level_parts_are_not_followed() {
    for part in ["lock", "wfctl.toml", "workflows", "schedules", "slots", "runs", "runs/active", "runs/done"]
    {
        let store = TestStore::new(1);
        store.ok(&["schedule", &store.quick("q"), "--at", "now"]);
        link_outside(&store, &store.dir.join(part));
        untouched(&store, &[&["tick"], &["run", "q.toml"], &["recover"], &["status"], &["fsck"]]);
    }
}

#[test]
fn a_fifo_in_place_of_a_file_hangs_nobody() {
    for part in ["lock", "wfctl.toml", "schedules/q/schedule.json", "slots/0", "draining", "journal"] {
        let store = TestStore::new(1);
        let run = store.interrupted("g");
        store.file("g.open", "");
        store.ok(&["schedule", &store.quick("q"), "--every", "1h"]);
        let path =
            if part == "journal" { store.folder(&run).join("journal.jsonl") } else { store.dir.join(part) };
        let _ = fs::remove_file(&path);
        mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        for args in [
            &["tick"][..],
            &["status"],
            &["resume", &run],
            &["recover"],
            &["fsck"],
            &["show", &run],
            &["pause", "q"],
            &["list"],
        ] {
            let done = store.run(args);
            assert!(done.code >= 0 && done.code != 70, "{part}: {args:?}: {done:?}");
        }
    }
}
