//! Ctrl-C while `wfctl resume` executes: the run is durably ambiguous, its capacity is back, nothing is replayed,
//! and nothing else in the store has changed.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;

use rustix::process::Signal;
use support::{TestStore, is_alive, wait_until};

/// A run behind its gate, executed by a `wfctl resume` that is live.
fn resumed(store: &TestStore, name: &str) -> (String, support::Running) {
    let run = store.interrupted(name);
    let resume = store.popen(&["resume", &run]);
    store.wait_live(&run, &format!("{name}.effect"));
    (run, resume)
}

#[test]
fn interrupting_a_resume_gives_its_capacity_back_and_never_replays() {
    let store = TestStore::new(1);
    let run = store.interrupted("gated");
    let before = store.kinds(&run);
    assert_eq!(before, ["admitted", "interrupted"]);

    let resume = store.popen(&["resume", &run]);
    store.wait_live(&run, "gated.effect");
    let status = store.status();
    assert_eq!(status["capacity"]["busy"], 1, "{status}");
    assert_eq!(store.show(&run)["status"], "interrupted");
    assert!(!store.slot_is_unlocked(0));
    let step = store.read("gated.effect");

    resume.signal(Signal::INT);
    let done = resume.wait().expect(130);
    assert!(done.stderr.contains("ambiguous"), "{done:?}");
    assert!(!is_alive(&step), "the step is joined before anything is released");

    let shown = store.show(&run);
    assert_eq!(shown["status"], "failed");
    assert_eq!(shown["reason"], "ambiguous");
    assert_eq!(shown["ambiguous"], true);
    assert_eq!((&shown["executing"], &shown["live"]), (&false.into(), &false.into()));
    let attempt = shown["attempts"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&attempt["kind"], &attempt["state"]), (&"resume".into(), &"active".into()));
    let failed: Vec<_> = store.events(&run).into_iter().filter(|e| e["event"] == "failed").collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0]["by"], "caller_cancellation");
    assert_eq!(store.kinds(&run), ["admitted", "failed", "interrupted"]);

    store.assert_slot_free(0);
    let status = store.status();
    assert_eq!(status["capacity"]["free"], 1, "{status}");
    assert!(status["ambiguous"].to_string().contains(&run), "{status}");

    // The capacity is usable: an unrelated run completes on the next tick.
    store.ok(&["schedule", &store.quick("sibling"), "--at", "now"]);
    let tick = store.json(&["tick"]);
    assert_eq!(tick["recovered"], serde_json::json!([]), "{tick}");
    let sibling = store.run_of("sibling");
    assert_eq!(store.show(&sibling)["status"], "completed");
    assert_eq!(store.kinds(&sibling), ["admitted", "completed"]);
    assert_eq!(store.read("sibling.effect"), "x\n");

    // Nothing ever starts it again, and refusing leaves no trace.
    fs::write(store.work.join("gated.open"), "").unwrap();
    let (journal, effect) = (store.journal(&run), store.read("gated.effect"));
    let refused = store.run(&["resume", &run]).expect(76);
    assert!(refused.stderr.contains("ambiguous") && refused.stderr.contains("attempt 2"), "{refused:?}");
    assert!(refused.stderr.contains(&format!("wfctl resolve {run}")), "{refused:?}");
    for args in [&["tick"][..], &["recover"], &["recover", "--run", &run], &["tick"]] {
        store.ok(args);
    }
    store.run(&["resume", &run]).expect(76);
    store.run(&["retry", &run]).expect(76);
    store.run(&["cancel", &run]).expect(76);
    assert_eq!(store.journal(&run), journal);
    assert_eq!(store.read("gated.effect"), effect);
    assert_eq!(store.kinds(&run), ["admitted", "failed", "interrupted"]);
    store.fsck_clean();
}

#[test]
fn an_ambiguous_run_is_closed_by_resolve_alone() {
    let store = TestStore::new(1);
    let (run, resume) = resumed(&store, "g");
    resume.signal(Signal::INT);
    resume.wait().expect(130);
    store.ok(&["resolve", &run, "--as", "completed", "--note", "seen by hand", "--by", "ann"]);
    let shown = store.show(&run);
    assert_eq!(shown["status"], "completed");
    assert_eq!(shown["attempts"][1]["state"], "resolved");
    assert_eq!(store.read("g.effect").lines().count(), 1, "resolving executes nothing");
    store.run(&["resolve", &run, "--as", "failed"]).expect(76);
    store.fsck_clean();
}

#[test]
fn a_foreground_run_is_cancelled_the_same_way() {
    let store = TestStore::new(1);
    let file = store.slow("adhoc");
    let running = store.popen(&["run", &file, "--id", "adhoc-1"]);
    store.wait_live("adhoc-1", "adhoc.effect");
    running.signal(Signal::INT);
    running.wait().expect(130);
    let shown = store.show("adhoc-1");
    assert_eq!((&shown["status"], &shown["ambiguous"]), (&"failed".into(), &true.into()));
    assert_eq!(shown["attempts"][0]["state"], "active");
    store.assert_slot_free(0);
    store.run(&["run", &file, "--id", "adhoc-1"]).expect(73);
    store.fsck_clean();
}

#[test]
fn what_cannot_be_reconciled_keeps_marker_and_slot_and_says_so() {
    let store = TestStore::new(1);
    let (run, resume) = resumed(&store, "g");
    let slot = store.slot_text(0);
    // A folder in the journal's place can be written by nobody, whoever runs this test.
    let journal = store.folder(&run).join("journal.jsonl");
    let aside = store.work.join("journal.aside");
    fs::rename(&journal, &aside).unwrap();
    fs::create_dir(&journal).unwrap();
    resume.signal(Signal::INT);
    let done = resume.wait().expect(74);
    assert!(done.stderr.contains("NOT reclaimed"), "{done:?}");
    assert!(done.stderr.contains(&format!("wfctl recover --run {run}")), "{done:?}");
    assert_eq!(store.slot_text(0), slot, "the slot file is evidence");
    assert!(!is_alive(&store.read("g.effect")), "the step was stopped all the same");
    fs::remove_dir(&journal).unwrap();
    fs::rename(&aside, &journal).unwrap();

    let shown = store.show(&run);
    assert_eq!((&shown["executing"], &shown["live"]), (&true.into(), &false.into()));
    store.run(&["resume", &run]).expect(76);
    let recovered = store.json(&["recover", "--run", &run]);
    assert_eq!(recovered["items"][0]["decision"], "ambiguous", "{recovered}");
    store.assert_slot_free(0);
    assert_eq!(store.kinds(&run), ["admitted", "failed", "interrupted"]);
    store.fsck_clean();
}

#[test]
fn a_slot_that_is_not_ours_any_more_is_not_released() {
    let store = TestStore::new(1);
    let (run, resume) = resumed(&store, "g");
    let foreign = store.slot_text(0).replace("\"attempt\":2", "\"attempt\":7");
    fs::write(store.slot_path(0), &foreign).unwrap();
    resume.signal(Signal::INT);
    let done = resume.wait().expect(74);
    assert!(done.stderr.contains("NOT reclaimed") && done.stderr.contains("recover --run"), "{done:?}");
    assert_eq!(store.slot_text(0), foreign);
    assert_eq!(store.show(&run)["executing"], true);
}

#[test]
fn a_busy_store_lock_keeps_the_capacity_until_recovery() {
    let store = TestStore::new(1);
    let run = store.interrupted("g");
    let resume = store.popen(&["--lock-timeout", "300ms", "resume", &run]);
    store.wait_live(&run, "g.effect");
    let lock = store.hold_lock("pid 1 (somebody)\n");
    resume.signal(Signal::INT);
    let done = resume.wait().expect(74);
    assert!(done.stderr.contains("NOT reclaimed") && done.stderr.contains("recover --run"), "{done:?}");
    assert!(store.slot_text(0).contains(&run));
    drop(lock);
    assert_eq!(store.show(&run)["executing"], true);
    store.ok(&["recover", "--run", &run]);
    assert_eq!(store.show(&run)["ambiguous"], true);
    store.assert_slot_free(0);
}

/// A run of one step, `script`, under `wfctl run`, once the step has written `pid`.
fn executing(store: &TestStore, script: &str) -> support::Running {
    let steps = format!("[[step]]\nid = \"work\"\nrun = {}\n", serde_json::json!(script));
    let file = store.workflow("w", &steps);
    let running = store.popen(&["run", &file, "--id", "w-1"]);
    wait_until("the step's pid", || store.read("pid").ends_with('\n'));
    running
}

#[test]
fn a_process_that_left_the_steps_group_is_stopped_and_joined_too() {
    let store = TestStore::new(1);
    let script = "setsid sh -c 'echo $$ > pid; sh ./await never' & sh ./await never";
    let running = executing(&store, script);
    running.signal(Signal::INT);
    running.wait().expect(130);
    assert!(!is_alive(&store.read("pid")));
    store.assert_slot_free(0);
    assert_eq!(store.show("w-1")["ambiguous"], true);
}

#[test]
fn a_step_that_ignores_sigterm_is_killed_after_the_grace() {
    let store = TestStore::new(1);
    store.ok(&["config", "grace", "300ms"]);
    let script = "trap 'echo told >> told' TERM; echo $$ > pid; while [ -e ./await ]; do sleep 0.02; done";
    let running = executing(&store, script);
    running.signal(Signal::INT);
    running.wait().expect(130);
    assert!(store.read("told").starts_with("told"), "it was asked first");
    assert!(!is_alive(&store.read("pid")));
    store.assert_slot_free(0);
}

#[test]
fn a_second_interrupt_kills_at_once() {
    let store = TestStore::new(1);
    store.ok(&["config", "grace", "1h"]);
    let script = "trap 'echo told >> told' TERM; echo $$ > pid; while [ -e ./await ]; do sleep 0.02; done";
    let running = executing(&store, script);
    running.signal(Signal::INT);
    store.wait_for("told");
    running.signal(Signal::INT);
    running.wait().expect(130);
    assert!(!is_alive(&store.read("pid")));
    assert_eq!(store.show("w-1")["ambiguous"], true);
    store.assert_slot_free(0);
}

#[test]
fn a_result_that_comes_while_stopping_is_not_believed() {
    let store = TestStore::new(1);
    let script = "trap 'exit 0' TERM; echo $$ > pid; while [ -e ./await ]; do sleep 0.02; done";
    let running = executing(&store, script);
    running.signal(Signal::INT);
    running.wait().expect(130);
    assert_eq!(store.show("w-1")["ambiguous"], true);
    assert!(!store.event_names("w-1").contains(&"step_finished".to_owned()));
}
