//! Whoever reads the output of `wfctl` may go away at any time: executions settle as usual.

#![allow(clippy::unwrap_used)]

mod support;

use std::{
    fs::File,
    process::{Command, Stdio},
};

use rustix::process::Signal;
use support::TestStore;

/// Calls of the program whose streams have no reader, or one that takes nothing.
fn without_readers(store: &TestStore, args: &[&str]) -> Vec<Command> {
    let closed_pipe = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        Stdio::from(writer)
    };
    let full = || Stdio::from(File::options().write(true).open("/dev/full").unwrap());
    let mut calls = Vec::new();
    for (stdout, stderr) in [(closed_pipe(), closed_pipe()), (full(), full()), (closed_pipe(), full())] {
        let mut command = store.command(args);
        command.stdout(stdout).stderr(stderr);
        calls.push(command);
    }
    calls
}

#[test]
fn a_run_settles_without_readers() {
    let store = TestStore::new(1);
    let file = store.quick("q");
    for json in [&[][..], &["--json"], &["-vv"]] {
        let args: Vec<_> = json.iter().copied().chain(["run", &file]).collect();
        for mut command in without_readers(&store, &args) {
            assert_eq!(command.status().unwrap().code(), Some(0), "{args:?}");
        }
    }
    assert_eq!(store.read("q.effect").lines().count(), 9);
    let runs = store.json(&["list"])["items"].clone();
    assert!(runs.as_array().unwrap().iter().all(|run| run["status"] == "completed"), "{runs}");
    store.assert_slot_free(0);
    store.fsck_clean();
}

#[test]
fn a_tick_and_a_resume_settle_without_readers() {
    let store = TestStore::new(1);
    for index in 0..3 {
        let run = store.interrupted(&format!("g{index}"));
        store.file(&format!("g{index}.open"), "");
        let mut command = without_readers(&store, &["resume", &run]).remove(index);
        assert_eq!(command.status().unwrap().code(), Some(0));
        assert_eq!(store.show(&run)["status"], "completed");
        let queued = store.admit(&store.quick(&format!("q{index}")));
        let mut command = without_readers(&store, &["tick"]).remove(index);
        assert_eq!(command.status().unwrap().code(), Some(0));
        assert_eq!(store.show(&queued)["status"], "completed");
    }
}

#[test]
fn a_cancellation_is_recorded_without_readers() {
    let store = TestStore::new(1);
    let file = store.slow("w");
    for (index, mut command) in without_readers(&store, &["run", &file]).into_iter().enumerate() {
        let _ = std::fs::remove_file(store.work.join("w.effect"));
        let mut child = command.spawn().unwrap();
        support::wait_until("the step", || store.read("w.effect").ends_with('\n'));
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::INT).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert_eq!(store.status()["ambiguous"].as_array().unwrap().len(), index + 1);
        store.assert_slot_free(0);
    }
}

#[test]
fn a_list_whose_reader_leaves_ends_quietly() {
    let store = TestStore::new(1);
    store.ok(&["run", &store.quick("q")]);
    for args in [&["list"][..], &["status"], &["--json", "list"], &["history"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = store.command(args);
        let out = command.stdout(Stdio::from(writer)).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(
            (out.status.code(), String::from_utf8_lossy(&out.stderr).as_ref()),
            (Some(0), ""),
            "{args:?}"
        );
        // A full device is an error of a command that only reads.
        let mut command = store.command(args);
        command.stdout(File::options().write(true).open("/dev/full").unwrap());
        assert_eq!(command.stderr(Stdio::piped()).output().unwrap().status.code(), Some(74), "{args:?}");
    }
}
