//! `wfctl` killed at every call to the kernel that matters, one after the other: whatever the moment, the next
//! commands find a store that is sound, no step was started twice, and no capacity is lost.
//!
//! Needs strace and the right to trace; where either is missing the tests say so and pass.

#![allow(clippy::unwrap_used)]

mod support;

use serde_json::json;
use support::{TestStore, wait_until};

/// The calls at whose entry `wfctl` is killed.
const CALLS: [&str; 11] = [
    "openat2",
    "mkdirat",
    "write",
    "pwrite64",
    "fdatasync",
    "fsync",
    "renameat",
    "renameat2",
    "unlinkat",
    "ftruncate",
    "clone3",
];

const TWO_STEPS: &str =
    "[[step]]\nid = \"a\"\nrun = \"echo a >> effect\"\n[[step]]\nid = \"b\"\nrun = \"echo b >> effect\"\n";

/// Kills a command of a fresh store at the first, second, … of each call until it outlives one, and
/// checks the store each time.
fn at_every_call(prepare: impl Fn(&TestStore) -> Vec<String>, check: impl Fn(&TestStore, &str)) {
    if !support::can_trace() {
        return;
    }
    let mut points = 0;
    for call in CALLS {
        // Most of its many calls only read.
        let stride = if call == "openat2" { 6 } else { 1 };
        for when in (1..200).step_by(stride) {
            let store = TestStore::new(1);
            let args = prepare(&store);
            let mut command = store.program("strace".as_ref());
            command.args(["-f", "-qq", "-o", "/dev/null"]);
            command.arg(format!("--inject={call}:signal=SIGKILL:when={when}"));
            command.arg(env!("CARGO_BIN_EXE_wfctl")).arg("--store").arg(&store.dir).args(args);
            let done = store.start(command).wait();
            // What the killed one left alive holds the slot; nothing is decided before it is gone.
            wait_until("the slot to be unlocked", || {
                !store.slot_path(0).exists() || store.slot_is_unlocked(0)
            });
            check(&store, &format!("{call} {when} ({})", done.code));
            store.fsck_clean();
            if done.code >= 0 {
                break;
            }
            points += 1;
        }
    }
    assert!(points > 5, "only {points} crash points: nothing was killed");
}

/// A run of the two steps that has come to its end: each was started at most once, and both if it completed.
#[track_caller]
fn assert_settled(store: &TestStore, run: &str, at: &str) {
    let shown = store.show(run);
    let effect = store.read("effect");
    match shown["status"].as_str().unwrap() {
        "completed" => assert_eq!(effect, "a\nb\n", "{at}: {shown}"),
        "failed" => assert!(["", "a\n", "a\nb\n"].contains(&effect.as_str()), "{at}: {effect:?}"),
        other => panic!("{at}: the run is {other}: {shown}"),
    }
    if store.slot_path(0).exists() {
        store.assert_slot_free(0);
    }
    assert_eq!(store.status()["capacity"]["free"], 1, "{at}");
    assert_eq!(store.status()["abandoned"], json!([]), "{at}");
}

#[test]
fn a_tick_may_die_anywhere() {
    at_every_call(
        |store| {
            store.ok(&["schedule", &store.workflow("w", TWO_STEPS), "--at", "now"]);
            vec!["tick".to_owned()]
        },
        |store, at| {
            for _ in 0..2 {
                let tick = store.run(&["tick"]);
                assert!([0, 1].contains(&tick.code), "{at}: {tick:?}");
            }
            assert_settled(store, &store.run_of("w"), at);
        },
    );
}

#[test]
fn a_resume_may_die_anywhere() {
    at_every_call(
        |store| {
            let steps = format!("[[step]]\nid = \"ask\"\ninterrupt = \"?\"\n{TWO_STEPS}");
            store.ok(&["run", &store.workflow("w", &steps), "--id", "w-1"]);
            vec!["resume".to_owned(), "w-1".to_owned()]
        },
        |store, at| {
            store.ok(&["recover"]);
            let status = store.show("w-1")["status"].as_str().unwrap().to_owned();
            match status.as_str() {
                "interrupted" => {
                    assert_eq!(store.read("effect"), "", "{at}: the gate is open, so nothing has run");
                    store.ok(&["resume", "w-1"]);
                }
                "queued" => {
                    store.ok(&["tick"]);
                }
                _ => {}
            }
            assert_settled(store, "w-1", at);
        },
    );
}

#[test]
fn a_recovery_may_die_anywhere() {
    at_every_call(
        |store| {
            let run = store.admit(&store.workflow("w", TWO_STEPS));
            store.append(&run, &[support::craft::dispatched(1), support::craft::started(&run, 1, "a", 1)]);
            store.occupy(0, &run, 1);
            vec!["recover".to_owned()]
        },
        |store, at| {
            let run = store.run_of("w");
            store.ok(&["recover"]);
            assert_eq!(store.kinds(&run), ["admitted", "failed"], "{at}");
            assert_eq!(store.read("effect"), "", "{at}");
            assert_settled(store, &run, at);
        },
    );
}

#[test]
fn a_retry_may_die_anywhere() {
    at_every_call(
        |store| {
            let steps = "[[step]]\nid = \"a\"\nrun = \"echo a >> effect; [ -e fixed ]\"\n";
            store.run(&["run", &store.workflow("w", steps), "--id", "w-1"]).expect(1);
            store.file("fixed", "");
            vec!["retry".to_owned(), "w-1".to_owned()]
        },
        |store, at| {
            store.ok(&["recover"]);
            let done = store.run(&["retry", "w-1"]);
            assert!([0, 76].contains(&done.code), "{at}: {done:?}");
            store.ok(&["tick"]);
            assert_eq!(store.show("w-1")["status"], "completed", "{at}");
            assert_eq!(store.read("effect"), "a\na\n", "{at}");
        },
    );
}
