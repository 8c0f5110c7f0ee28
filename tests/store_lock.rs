//! Before anything is durable: waiting for the store lock or a slot, and reading beside whoever holds them.

#![allow(clippy::unwrap_used)]

mod support;

use std::{
    fs,
    time::{SystemTime, UNIX_EPOCH},
};

use rustix::process::Signal;
use support::{Running, TestStore, wait_until};

const READERS: &[&[&str]] = &[
    &["status"],
    &["list"],
    &["history"],
    &["schedules"],
    &["fsck"],
    &["config"],
    &["next", "g"],
    &["--json", "status"],
    &["--json", "list"],
];

/// Waits until a process sleeps in a wait for a file lock.
fn wait_blocked(running: &Running) {
    wait_until("a wait for the lock", || {
        let tasks = fs::read_dir(format!("/proc/{}/task", running.pid())).unwrap();
        let calls = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("stat")).ok());
        // More than the main and the signal threads: the one that blocks in the kernel's queue.
        calls.count() >= 4
    });
}

#[test]
fn signals_while_waiting_for_the_lock_change_nothing() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let store = TestStore::new(1);
        let run = store.interrupted("g");
        let lock = store.hold_lock("pid 1 (somebody)\n");
        let before = store.tree();
        for args in [&["resume", &run, "--lock-timeout", "1h"][..], &["tick", "--lock-timeout", "1h"]] {
            let waiting = store.popen(args);
            wait_blocked(&waiting);
            waiting.signal(signal);
            waiting.wait().expect(code);
        }
        assert_eq!(store.tree(), before);
        drop(lock);
        assert_eq!(store.show(&run)["resume_readiness"], "ready");
        store.file("g.open", "");
        store.ok(&["resume", &run]);
    }
}

#[test]
fn signals_while_waiting_for_a_slot_leave_the_gate_open() {
    let store = TestStore::new(1);
    let run = store.interrupted("g");
    let file = store.slow("busy");
    let busy = store.popen(&["run", &file, "--id", "busy-1"]);
    store.wait_live("busy-1", "busy.effect");
    let before = store.tree();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let resume = store.popen(&["resume", &run, "--wait", "--payload", "{\"a\": 1}"]);
        wait_until("the signal handlers", || catches(&resume, signal));
        resume.signal(signal);
        resume.wait().expect(code);
    }
    assert_eq!(store.tree(), before);
    let shown = store.show(&run);
    assert_eq!((&shown["status"], &shown["resume_readiness"]), (&"interrupted".into(), &"ready".into()));
    store.file("busy.open", "");
    busy.wait().expect(0);
}

fn catches(running: &Running, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", running.pid())).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
    u64::from_str_radix(caught, 16).unwrap() & (1 << (signal.as_raw() - 1)) != 0
}

#[test]
fn a_lock_that_stays_busy_names_its_holder() {
    let store = TestStore::new(1);
    let run = store.interrupted("g");
    let _lock = store.hold_lock("pid 4711 (prune)\n");
    let before = store.tree();
    for args in
        [&["tick"][..], &["resume", &run], &["recover"], &["cancel", &run], &["drain"], &["pause", "g"]]
    {
        let mut command = store.command(&["--lock-timeout", "50ms"]);
        command.args(args);
        let refused = store.start(command).wait().expect(75);
        assert!(refused.stderr.contains("pid 4711 (prune)"), "{refused:?}");
    }
    assert_eq!(store.tree(), before);
}

#[test]
fn whoever_waits_for_the_lock_gets_it_once_it_is_free() {
    let store = TestStore::new(1);
    let lock = store.hold_lock("pid 1 (somebody)\n");
    let drain = store.popen(&["--lock-timeout", "1h", "drain"]);
    wait_until("a wait for the lock", || {
        fs::read_dir(format!("/proc/{}/task", drain.pid())).unwrap().count() >= 2
    });
    drop(lock);
    drain.wait().expect(0);
    assert_eq!(store.status()["draining"], true);
}

#[test]
fn now_does_not_pass_while_a_schedule_waits_for_the_lock() {
    for replace in [false, true] {
        let store = TestStore::new(1);
        let file = store.quick("q");
        if replace {
            store.ok(&["schedule", &file, "--every", "1h"]);
        }
        let lock = store.hold_lock("pid 1 (somebody)\n");
        let mut args = vec!["--lock-timeout", "1h", "schedule", &file, "--at", "now"];
        args.extend(replace.then_some("--replace"));
        let schedule = store.popen(&args);
        wait_until("a wait for the lock", || {
            fs::read_dir(format!("/proc/{}/task", schedule.pid())).unwrap().count() >= 2
        });
        let second = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let began = second();
        wait_until("the next second", || second() > began);
        drop(lock);
        schedule.wait().expect(0);
        wait_until("the run", || {
            store.ok(&["tick"]);
            store.exists("q.effect")
        });
        store.ok(&["tick"]);
        assert_eq!(store.read("q.effect"), "x\n");
    }
}

#[test]
fn now_fires_once_in_the_second_of_another_change_too() {
    let store = TestStore::new(1);
    let file = store.quick("q");
    store.ok(&["schedule", &file, "--every", "1h"]);
    store.ok(&["schedule", &file, "--at", "now", "--replace"]);
    store.ok(&["remove", "q"]);
    store.ok(&["schedule", &file, "--at", "now"]);
    wait_until("the run", || {
        store.ok(&["tick"]);
        store.exists("q.effect")
    });
    store.ok(&["tick"]);
    assert_eq!(store.read("q.effect"), "x\n");
    store.fsck_clean();
}

#[test]
fn reading_needs_no_lock_and_changes_nothing() {
    let store = TestStore::new(1);
    let run = store.interrupted("g");
    let lock = store.hold_lock("pid 1 (somebody)\n");
    let before = store.tree();
    for args in READERS {
        store.ok(args);
    }
    store.ok(&["show", &run]);
    store.ok(&["wait", &run]);
    store.ok(&["logs", &run]);
    assert_eq!(store.tree(), before);
    drop(lock);
}

#[test]
fn reading_works_on_a_store_that_cannot_be_written() {
    let store = TestStore::new(1);
    let run = store.interrupted("g");
    let done = store.admit(&store.quick("q"));
    store.ok(&["tick"]);
    set_writable(&store, false);
    let before = store.tree();
    for args in READERS {
        store.ok(args);
    }
    store.ok(&["show", &run]);
    store.ok(&["show", &done]);
    assert_eq!(store.tree(), before);
    set_writable(&store, true);
}

fn set_writable(store: &TestStore, writable: bool) {
    use std::os::unix::fs::PermissionsExt as _;
    for (path, (mode, _)) in store.tree() {
        let mode = if writable { mode | 0o200 } else { mode & !0o222 } & 0o7777;
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let mode = if writable { 0o700 } else { 0o500 };
    fs::set_permissions(&store.dir, fs::Permissions::from_mode(mode)).unwrap();
}
