//! What is on the disk before a step begins, as the kernel sees it: the records of a start are synced before
//! the step's process executes anything, and a step's end before the next one begins.
//!
//! Needs strace and the right to trace; where either is missing the tests say so and pass.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;

use support::TestStore;

/// The traced calls of `wfctl ARGS` in the order in which they began; none where nothing can be traced.
fn traced(store: &TestStore, args: &[&str]) -> Option<Vec<String>> {
    if !support::can_trace() {
        return None;
    }
    let out = store.work.join("trace");
    let mut command = store.program("strace".as_ref());
    command.args(["-f", "-y", "-qq", "-s", "256", "-e", "trace=fdatasync,fsync,execve,write,pwrite64", "-o"]);
    command.arg(&out).arg(env!("CARGO_BIN_EXE_wfctl")).arg("--store").arg(&store.dir).args(args);
    store.start(command).wait().expect(0);
    Some(fs::read_to_string(out).unwrap().lines().map(str::to_owned).collect())
}

/// Where calls end: the line itself, or the line that resumes it.
fn finished_at(trace: &[String], begun: usize) -> usize {
    if !trace[begun].contains("<unfinished") {
        return begun;
    }
    let pid = trace[begun].split_whitespace().next().unwrap();
    let resumed = trace[begun..].iter().position(|line| line.starts_with(pid) && line.contains("resumed>"));
    begun + resumed.unwrap()
}

/// The places at which a sync of the journal has come to its end.
fn journal_syncs(trace: &[String]) -> Vec<usize> {
    let is_sync = |line: &str| {
        (line.contains("fdatasync(") || line.contains("fsync(")) && line.contains("journal.jsonl")
    };
    (0..trace.len()).filter(|at| is_sync(&trace[*at])).map(|at| finished_at(trace, at)).collect()
}

/// The places at which the shell of a step begins to be executed.
fn steps(trace: &[String]) -> Vec<usize> {
    let is_step = |line: &String| line.contains("execve(\"/bin/sh\"") && !line.contains("resumed>");
    (0..trace.len()).filter(|at| is_step(&trace[*at])).collect()
}

#[test]
fn a_run_is_durable_before_its_step_begins_and_costs_two_syncs() {
    let store = TestStore::new(1);
    let file = store.workflow("w", "[[step]]\nid = \"one\"\nrun = \": > effect\"\n");
    store.ok(&["schedule", &file, "--at", "now"]);
    let Some(trace) = traced(&store, &["tick"]) else { return };
    assert!(store.exists("effect"));
    let (syncs, steps) = (journal_syncs(&trace), steps(&trace));
    assert_eq!(steps.len(), 1, "{trace:#?}");
    assert!(syncs[0] < steps[0], "the records of the start come first: {trace:#?}");
    assert!(syncs.len() <= 2, "{} syncs: {trace:#?}", syncs.len());
    assert!(steps[0] < syncs[1], "its end is synced after it: {trace:#?}");
    store.fsck_clean();
}

#[test]
fn a_steps_end_is_durable_before_the_next_step_begins() {
    let store = TestStore::new(1);
    let file = store.workflow(
        "w",
        "[[step]]\nid = \"one\"\nrun = \": > one\"\n[[step]]\nid = \"two\"\nrun = \": > two\"\n[[step]]\nid = \"three\"\nrun = \": > three\"\n",
    );
    let Some(trace) = traced(&store, &["run", &file, "--id", "w-1"]) else { return };
    let (syncs, steps) = (journal_syncs(&trace), steps(&trace));
    assert_eq!(steps.len(), 3, "{trace:#?}");
    assert!(syncs.len() <= 4, "one sync between two steps: {trace:#?}");
    for (index, step) in steps.iter().enumerate() {
        assert!(syncs[index] < *step && *step < syncs[index + 1], "step {index}: {trace:#?}");
    }
    assert_eq!(store.show("w-1")["status"], "completed");
}

#[test]
fn the_end_of_a_run_is_durable_before_its_slot_is_free() {
    let store = TestStore::new(1);
    let out = store.work.join("trace");
    if !support::can_trace() {
        return;
    }
    let file = store.quick("q");
    let mut command = store.program("strace".as_ref());
    command.args(["-f", "-y", "-qq", "-e", "trace=fdatasync,ftruncate", "-o"]);
    command.arg(&out).arg(env!("CARGO_BIN_EXE_wfctl")).arg("--store").arg(&store.dir).args(["run", &file]);
    store.start(command).wait().expect(0);
    let trace: Vec<_> = fs::read_to_string(&out).unwrap().lines().map(str::to_owned).collect();
    let last_sync = *journal_syncs(&trace).last().unwrap();
    let released =
        trace.iter().rposition(|line| line.contains("/slots/0>") && line.contains("ftruncate(")).unwrap();
    assert!(last_sync < released, "{trace:#?}");
}
