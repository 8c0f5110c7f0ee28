//! Many calls of `wfctl` at once: everything happens once, and capacity is never exceeded.

#![allow(clippy::unwrap_used)]

mod support;

use support::{Running, TestStore};

#[test]
fn ticks_at_once_start_everything_once() {
    let store = TestStore::new(2);
    for index in 0..8 {
        let name = format!("w{index}");
        let steps = format!("[[step]]\nid = \"one\"\nrun = \"echo {name} >> effect\"\n");
        store.ok(&["schedule", &store.workflow(&name, &steps), "--at", "now"]);
    }
    let ticks: Vec<Running> = (0..6).map(|_| store.popen(&["tick", "--lock-timeout", "1m"])).collect();
    for tick in ticks {
        tick.wait().expect(0);
    }
    let mut effects: Vec<_> = store.read("effect").lines().map(str::to_owned).collect();
    effects.sort();
    assert_eq!(effects, (0..8).map(|index| format!("w{index}")).collect::<Vec<_>>());
    assert_eq!(store.status()["capacity"]["free"], 2);
    store.fsck_clean();
}

#[test]
fn no_more_than_the_capacity_execute_at_once() {
    let store = TestStore::new(2);
    for index in 0..6 {
        let name = format!("w{index}");
        // Each step takes a seat; a third would find none.
        let steps = "[[step]]\nid = \"one\"\nrun = \"mkdir seat1 2>/dev/null && seat=seat1 || { mkdir seat2 && seat=seat2; } || exit 9; sleep 0.05; rmdir $seat\"\n";
        store.ok(&["schedule", &store.workflow(&name, steps), "--at", "now"]);
    }
    let ticks: Vec<Running> = (0..4).map(|_| store.popen(&["tick", "--lock-timeout", "1m"])).collect();
    for tick in ticks {
        tick.wait().expect(0);
    }
    let runs = store.json(&["list"])["items"].clone();
    assert!(runs.as_array().unwrap().iter().all(|run| run["status"] == "completed"), "{runs}");
}

#[test]
fn one_of_many_answers_to_a_gate_counts() {
    let store = TestStore::new(4);
    let run = store.interrupted("g");
    store.file("g.open", "");
    let answers: Vec<Running> =
        (0..5).map(|_| store.popen(&["resume", &run, "--lock-timeout", "1m"])).collect();
    let mut codes: Vec<_> = answers.into_iter().map(|answer| answer.wait().code).collect();
    codes.sort_unstable();
    assert_eq!(codes[0], 0);
    assert!(codes[1..].iter().all(|code| [75, 76].contains(code)), "{codes:?}");
    assert_eq!(store.read("g.effect").lines().filter(|line| *line == "end").count(), 1);
    store.fsck_clean();
}

#[test]
fn one_of_many_starts_under_an_id_counts() {
    let store = TestStore::new(4);
    let file = store.quick("q");
    let starts: Vec<Running> =
        (0..5).map(|_| store.popen(&["run", &file, "--id", "q-1", "--lock-timeout", "1m"])).collect();
    let mut codes: Vec<_> = starts.into_iter().map(|start| start.wait().code).collect();
    codes.sort_unstable();
    assert_eq!(codes, [0, 73, 73, 73, 73]);
    assert_eq!(store.read("q.effect"), "x\n");
    store.fsck_clean();
}

#[test]
fn cancelling_twice_at_once_leaves_one_entry() {
    let store = TestStore::new(1);
    let run = store.interrupted("g");
    let resume = store.popen(&["resume", &run]);
    store.wait_live(&run, "g.effect");
    let cancels: Vec<Running> = (0..3).map(|_| store.popen(&["cancel", &run])).collect();
    let codes: Vec<_> = cancels.into_iter().map(|cancel| cancel.wait().code).collect();
    assert!(codes.contains(&0) && codes.iter().all(|code| [0, 76].contains(code)), "{codes:?}");
    resume.wait().expect(130);
    assert_eq!(store.kinds(&run), ["admitted", "failed", "interrupted"]);
    store.assert_slot_free(0);
    store.fsck_clean();
}

#[test]
fn recovering_twice_at_once_leaves_one_entry() {
    let store = TestStore::new(1);
    let run = store.admit(&store.quick("q"));
    store.append(&run, &[support::craft::dispatched(1), support::craft::started(&run, 1, "one", 1)]);
    store.occupy(0, &run, 1);
    let recoveries: Vec<Running> = (0..4)
        .map(|index| store.popen(if index % 2 == 0 { &["recover"] as &[&str] } else { &["tick"] }))
        .collect();
    for recovery in recoveries {
        recovery.wait().expect(0);
    }
    assert_eq!(store.kinds(&run), ["admitted", "failed"]);
    store.assert_slot_free(0);
    store.fsck_clean();
}
