//! Signals that end `wfctl` without a decision: the step is stopped, its run kept for recovery to decide.

#![allow(clippy::unwrap_used)]

mod support;

use rustix::process::Signal;
use serde_json::json;
use support::{Running, TestStore, is_alive};

fn resumed(store: &TestStore, name: &str) -> (String, Running) {
    let run = store.interrupted(name);
    let resume = store.popen(&["resume", &run]);
    store.wait_live(&run, &format!("{name}.effect"));
    (run, resume)
}

/// A fenced run is abandoned: marker, active attempt and slot file are there, nobody holds the slot.
#[track_caller]
fn assert_fenced(store: &TestStore, run: &str, effect: &str, signal: &str) {
    let shown = store.show(run);
    assert_eq!((&shown["executing"], &shown["live"]), (&true.into(), &false.into()), "{shown}");
    assert_eq!(shown["attempts"].as_array().unwrap().last().unwrap()["state"], "active");
    let last = store.events(run).pop().unwrap();
    assert_eq!((&last["event"], &last["signal"]), (&"fenced".into(), &signal.into()));
    assert!(store.slot_text(0).contains(run), "the slot file stays");
    assert!(store.slot_is_unlocked(0));
    assert!(!is_alive(store.read(effect).lines().next().unwrap()), "the step is joined");
    assert!(store.status()["abandoned"].to_string().contains(run));
}

#[test]
fn sigterm_fences_a_resume_and_recovery_calls_it_ambiguous() {
    let store = TestStore::new(1);
    let (run, resume) = resumed(&store, "g");
    resume.signal(Signal::TERM);
    let done = resume.wait().expect(143);
    assert!(done.stderr.contains(&format!("wfctl recover --run {run}")), "{done:?}");
    assert_fenced(&store, &run, "g.effect", "SIGTERM");
    assert_eq!(store.kinds(&run), ["admitted", "interrupted"], "a fence decides nothing");
    store.run(&["resume", &run]).expect(76);

    let recovered = store.json(&["recover", "--run", &run]);
    assert_eq!(recovered["items"][0]["decision"], "ambiguous", "{recovered}");
    assert_eq!(store.show(&run)["ambiguous"], true);
    assert_eq!(store.kinds(&run), ["admitted", "failed", "interrupted"]);
    store.assert_slot_free(0);
    store.fsck_clean();
}

#[test]
fn sighup_fences_and_exits_129() {
    let store = TestStore::new(1);
    let (run, resume) = resumed(&store, "g");
    resume.signal(Signal::HUP);
    resume.wait().expect(129);
    assert_fenced(&store, &run, "g.effect", "SIGHUP");
}

#[test]
fn a_sighup_that_was_ignored_on_entry_stays_ignored() {
    let store = TestStore::new(1);
    let run = store.interrupted("g");
    let mut command = store.program("/bin/sh".as_ref());
    command.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]);
    command.arg(env!("CARGO_BIN_EXE_wfctl")).arg("--store").arg(&store.dir).args(["resume", &run]);
    let mut resume = store.start(command);
    store.wait_live(&run, "g.effect");
    resume.signal(Signal::HUP);
    // A signal that is not ignored would be seen before one that comes later.
    assert!(!resume.has_ended());
    resume.signal(Signal::TERM);
    resume.wait().expect(143);
    assert_fenced(&store, &run, "g.effect", "SIGTERM");
}

#[test]
fn a_run_that_ignores_hangups_completes() {
    let store = TestStore::new(1);
    let file = store.slow("w");
    let mut command = store.program("/bin/sh".as_ref());
    command.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]);
    command.arg(env!("CARGO_BIN_EXE_wfctl")).arg("--store").arg(&store.dir).args(["run", &file]);
    let run = store.start(command);
    store.wait_for("w.effect");
    run.signal(Signal::HUP);
    store.file("w.open", "");
    run.wait().expect(0);
}

#[test]
fn interrupting_a_tick_fences_all_that_it_executes() {
    let store = TestStore::new(2);
    let runs = [store.admit(&store.slow("a")), store.admit(&store.slow("b"))];
    let tick = store.popen(&["tick"]);
    store.wait_live(&runs[0], "a.effect");
    store.wait_live(&runs[1], "b.effect");
    tick.signal(Signal::INT);
    tick.wait().expect(130);
    for (run, effect) in runs.iter().zip(["a.effect", "b.effect"]) {
        let shown = store.show(run);
        assert_eq!((&shown["executing"], &shown["live"]), (&true.into(), &false.into()), "{shown}");
        assert_eq!(store.event_names(run).pop().unwrap(), "fenced");
        assert!(!is_alive(store.read(effect).lines().next().unwrap()));
    }
    assert!(!store.slot_text(0).is_empty() && !store.slot_text(1).is_empty());
    // The next tick begins with recovery, which never executes a step by itself.
    let tick = store.json(&["tick"]);
    assert_eq!(tick["recovered"].as_array().unwrap().len(), 2, "{tick}");
    assert!(runs.iter().all(|run| store.show(run)["ambiguous"] == true));
    store.assert_slot_free(0);
    store.assert_slot_free(1);
    store.fsck_clean();
}

#[test]
fn sigterm_fences_a_tick_and_leaves_queued_runs_queued() {
    let store = TestStore::new(1);
    let first = store.admit(&store.slow("a"));
    let second = store.admit(&store.quick("b"));
    let tick = store.popen(&["tick"]);
    store.wait_live(&first, "a.effect");
    tick.signal(Signal::TERM);
    tick.wait().expect(143);
    assert_fenced(&store, &first, "a.effect", "SIGTERM");
    assert_eq!(store.show(&second)["status"], "queued");
    assert_eq!(store.read("b.effect"), "");
}

#[test]
fn draining_rejects_a_resume_without_consuming_the_answer() {
    let store = TestStore::new(1);
    let run = store.interrupted("g");
    store.ok(&["drain"]);
    let before = store.tree();
    let refused = store.run(&["resume", &run]).expect(69);
    assert!(refused.stderr.contains("undrain"), "{refused:?}");
    store.run(&["run", &store.quick("q")]).expect(69);
    assert_eq!(store.tree(), before);
    store.ok(&["undrain"]);
    store.file("g.open", "");
    store.ok(&["resume", &run]);
    assert_eq!(store.show(&run)["status"], "completed");
}

#[test]
fn draining_makes_an_interrupt_a_fence() {
    let store = TestStore::new(1);
    let (run, resume) = resumed(&store, "g");
    store.ok(&["drain"]);
    resume.signal(Signal::INT);
    resume.wait().expect(130);
    assert_fenced(&store, &run, "g.effect", "SIGINT");
    store.ok(&["recover", "--run", &run]);
    assert_eq!(store.show(&run)["ambiguous"], true);
    store.assert_slot_free(0);
}

#[test]
fn a_tick_admits_and_dispatches_nothing_while_draining() {
    let store = TestStore::new(1);
    let queued = store.admit(&store.quick("a"));
    store.ok(&["schedule", &store.quick("b"), "--at", "now"]);
    store.ok(&["drain"]);
    let tick = store.json_code(69, &["tick"]);
    assert_eq!((&tick["draining"], &tick["admitted"], &tick["runs"]), (&true.into(), &json!([]), &json!([])));
    assert_eq!(store.show(&queued)["status"], "queued");
    store.ok(&["undrain"]);
    store.ok(&["tick"]);
    assert_eq!((store.read("a.effect"), store.read("b.effect")), ("x\n".to_owned(), "x\n".to_owned()));
}

#[test]
fn running_runs_finish_while_draining() {
    let store = TestStore::new(1);
    let (run, resume) = resumed(&store, "g");
    store.run(&["drain", "--wait=10ms"]).expect(75);
    let drain = store.popen(&["drain", "--wait"]);
    store.file("g.open", "");
    resume.wait().expect(0);
    drain.wait().expect(0);
    assert_eq!(store.show(&run)["status"], "completed");
}

#[test]
fn a_second_signal_kills_the_steps_of_a_tick_at_once() {
    let store = TestStore::new(1);
    store.ok(&["config", "grace", "1h"]);
    let steps = "[[step]]\nid = \"w\"\nrun = \"trap 'echo told >> told' TERM; echo $$ > pid; while [ -e ./await ]; do sleep 0.02; done\"\n";
    let run = store.admit(&store.workflow("w", steps));
    let tick = store.popen(&["tick"]);
    support::wait_until("the step", || store.read("pid").ends_with('\n'));
    tick.signal(Signal::TERM);
    store.wait_for("told");
    tick.signal(Signal::TERM);
    tick.wait().expect(143);
    assert!(!is_alive(&store.read("pid")));
    assert_eq!(store.event_names(&run).pop().unwrap(), "fenced");
}

const LONG_DELAY: &str = "[[step]]\nid = \"a\"\nretry = { max = 3, delay = \"1h\" }\n\
    run = \"echo $WFCTL_TRY >> tries; [ $WFCTL_TRY = 2 ]\"\n";

/// A run that waits before its second try.
fn waiting_to_try_again(store: &TestStore) -> Running {
    let file = store.workflow("w", LONG_DELAY);
    let run = store.popen(&["run", &file, "--id", "w-1"]);
    support::wait_until("the first failure to be durable", || {
        store.read("tries") == "1\n" && store.event_names("w-1").last().unwrap() == "step_finished"
    });
    run
}

#[test]
fn a_fence_between_two_tries_loses_nothing() {
    let store = TestStore::new(1);
    let run = waiting_to_try_again(&store);
    run.signal(Signal::TERM);
    run.wait().expect(143);
    let recovered = store.json(&["recover"]);
    assert_eq!(recovered["items"][0]["decision"], "requeued", "{recovered}");
    store.assert_slot_free(0);
    store.ok(&["tick"]);
    assert_eq!(store.show("w-1")["status"], "completed");
    assert_eq!(store.read("tries"), "1\n2\n");
    store.fsck_clean();
}

#[test]
fn caller_cancellation_between_two_tries_is_ambiguous_like_any_other() {
    let store = TestStore::new(1);
    let run = waiting_to_try_again(&store);
    run.signal(Signal::INT);
    run.wait().expect(130);
    let shown = store.show("w-1");
    assert_eq!((&shown["ambiguous"], &shown["attempts"][0]["state"]), (&true.into(), &"active".into()));
    store.assert_slot_free(0);
    store.ok(&["tick"]);
    assert_eq!(store.read("tries"), "1\n");
    store.fsck_clean();
}

#[test]
fn a_killed_wfctl_between_two_tries_loses_nothing() {
    let store = TestStore::new(1);
    waiting_to_try_again(&store).kill9();
    let tick = store.json(&["tick"]);
    assert_eq!(tick["recovered"][0]["decision"], "requeued", "{tick}");
    assert_eq!(store.show("w-1")["status"], "completed");
    assert_eq!(store.read("tries"), "1\n2\n");
}

#[test]
fn waiting_commands_end_by_signals_and_leave_the_run_alone() {
    let store = TestStore::new(1);
    let (run, resume) = resumed(&store, "g");
    for args in [&["wait", &run][..], &["drain", "--wait"], &["logs", &run, "-f"]] {
        let waiting = store.popen(args);
        support::wait_until("the signal handlers", || {
            let status = std::fs::read_to_string(format!("/proc/{}/status", waiting.pid())).unwrap();
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
            u64::from_str_radix(caught, 16).unwrap() & 0x4002 == 0x4002
        });
        waiting.signal(Signal::INT);
        waiting.wait().expect(130);
        assert_eq!(store.show(&run)["live"], true);
    }
    store.file("g.open", "");
    resume.wait().expect(0);
}
