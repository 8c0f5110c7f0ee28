//! Capacity: what may execute at once, orphans included, and that a tick uses all of it.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;

use serde_json::json;
use support::{TestStore, is_alive, wait_until};

#[test]
fn a_tick_executes_all_that_it_admits_whatever_waited_before() {
    let store = TestStore::new(1);
    store.admit(&store.quick("a"));
    for name in ["b", "c"] {
        store.ok(&["schedule", &store.quick(name), "--at", "now"]);
    }
    let tick = store.json(&["tick"]);
    assert_eq!(tick["runs"].as_array().unwrap().len(), 3, "{tick}");
    assert_eq!(tick["queued"], 0);
    for name in ["a", "b", "c"] {
        assert_eq!(store.read(&format!("{name}.effect")), "x\n");
    }
}

#[test]
fn a_tick_with_more_due_than_slots_refills_until_nothing_is_queued() {
    let store = TestStore::new(2);
    for name in ["a", "b", "c", "d", "e"] {
        store.ok(&["schedule", &store.quick(name), "--at", "now"]);
    }
    let tick = store.json(&["tick"]);
    assert_eq!(tick["runs"].as_array().unwrap().len(), 5, "{tick}");
    assert_eq!((&tick["queued"], &tick["capacity"]["free"]), (&json!(0), &json!(2)));
    store.fsck_clean();
}

#[test]
fn max_runs_leaves_the_rest_queued_for_the_next_tick() {
    let store = TestStore::new(2);
    for name in ["a", "b", "c"] {
        store.ok(&["schedule", &store.quick(name), "--at", "now"]);
    }
    let tick = store.json(&["tick", "--max-runs", "1"]);
    assert_eq!((tick["runs"].as_array().unwrap().len(), &tick["queued"]), (1, &json!(2)), "{tick}");
    let tick = store.json(&["tick"]);
    assert_eq!((tick["runs"].as_array().unwrap().len(), &tick["queued"]), (2, &json!(0)), "{tick}");
}

#[test]
fn an_orphan_counts_as_capacity_until_it_is_gone() {
    let store = TestStore::new(1);
    let run = store.interrupted("g");
    let resume = store.popen(&["resume", &run]);
    store.wait_live(&run, "g.effect");
    resume.kill9();

    let shown = store.show(&run);
    assert_eq!((&shown["executing"], &shown["live"]), (&true.into(), &true.into()));
    store.run(&["recover", "--run", &run]).expect(75);
    assert_eq!(store.json(&["recover"])["items"], json!([]));
    let other = store.admit(&store.quick("other"));
    let tick = store.json(&["tick"]);
    assert_eq!((&tick["runs"], &tick["capacity"]["free"]), (&json!([]), &json!(0)), "{tick}");
    assert_eq!(store.show(&other)["status"], "queued");
    store.run(&["run", &store.quick("adhoc")]).expect(75);
    store.run(&["resume", &run]).expect(75);

    store.file("g.open", "");
    wait_until("the orphan to end", || !is_alive(store.read("g.effect").lines().next().unwrap()));
    let tick = store.json(&["tick"]);
    assert_eq!(tick["recovered"][0]["decision"], "ambiguous", "{tick}");
    assert_eq!(store.show(&run)["ambiguous"], true, "that it ended well is not known");
    assert_eq!(store.show(&other)["status"], "completed");
    store.assert_slot_free(0);
    assert_eq!(store.read("g.effect").lines().filter(|line| *line == "end").count(), 1);
    store.fsck_clean();
}

#[test]
fn a_second_tick_leaves_the_queue_to_the_first() {
    let store = TestStore::new(1);
    let first = store.admit(&store.slow("a"));
    let tick = store.popen(&["tick"]);
    store.wait_live(&first, "a.effect");
    store.ok(&["schedule", &store.quick("b"), "--at", "now"]);
    let second = store.json(&["tick"]);
    assert_eq!((second["admitted"].as_array().unwrap().len(), &second["runs"]), (1, &json!([])));
    store.file("a.open", "");
    tick.wait().expect(0);
    assert_eq!(store.read("b.effect"), "x\n", "the first tick dispatched it");
}

#[test]
fn a_full_store_refuses_a_resume_and_wait_waits_for_a_slot() {
    let store = TestStore::new(1);
    let waiting = store.interrupted("g");
    store.file("g.open", "");
    let file = store.slow("busy");
    let busy = store.popen(&["run", &file, "--id", "busy-1"]);
    store.wait_live("busy-1", "busy.effect");
    let before = store.journal(&waiting);
    store.run(&["resume", &waiting]).expect(75);
    store.run(&["resume", &waiting, "--wait=20ms"]).expect(75);
    assert_eq!(store.journal(&waiting), before, "the answer is not consumed");
    let resume = store.popen(&["resume", &waiting, "--wait"]);
    store.file("busy.open", "");
    busy.wait().expect(0);
    resume.wait().expect(0);
    assert_eq!(store.show(&waiting)["status"], "completed");
}

#[test]
fn lowering_the_capacity_kills_nothing_and_is_honoured_at_once() {
    let store = TestStore::new(2);
    let runs = [store.admit(&store.slow("a")), store.admit(&store.slow("b"))];
    let tick = store.popen(&["tick"]);
    store.wait_live(&runs[0], "a.effect");
    store.wait_live(&runs[1], "b.effect");
    store.ok(&["config", "capacity", "1"]);
    let (in_slot_0, in_slot_1) = if store.slot_text(0).contains(&runs[0]) { ("a", "b") } else { ("b", "a") };
    store.file(&format!("{in_slot_0}.open"), "");
    wait_until("slot 0 to be free", || store.slot_text(0).is_empty());
    store.run(&["run", &store.quick("c")]).expect(75);
    store.file(&format!("{in_slot_1}.open"), "");
    tick.wait().expect(0);
    store.ok(&["run", &store.quick("c")]);
    assert!(runs.iter().all(|run| store.show(run)["status"] == "completed"));
}

#[test]
fn garbage_in_a_slot_is_released_by_recovery() {
    let store = TestStore::new(1);
    fs::write(store.slot_path(0), "{half a li").unwrap();
    store.run(&["run", &store.quick("q")]).expect(75);
    let recovered = store.json(&["recover"]);
    assert_eq!(recovered["items"][0]["decision"], "released", "{recovered}");
    store.assert_slot_free(0);
    store.ok(&["run", &store.quick("q")]);
}

#[test]
fn background_processes_of_a_step_that_ended_do_not_hold_its_slot() {
    let store = TestStore::new(1);
    let steps = "[[step]]\nid = \"a\"\nrun = \"sh ./await stop & echo $! > pid\"\n";
    store.ok(&["run", &store.workflow("bg", steps)]);
    assert!(is_alive(&store.read("pid")), "it is left alone");
    store.assert_slot_free(0);
    store.ok(&["run", &store.quick("q")]);
    store.file("stop", "");
}
