//! Recovery decides about abandoned runs from their journals alone, each by itself.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;

use serde_json::{Value, json};
use support::{TestStore, craft, wait_until};

const TWO_STEPS: &str = "[[step]]\nid = \"first\"\nrun = \"echo first $WFCTL_IDEMPOTENCY_KEY $WFCTL_TRY >> effect\"\n\
    [[step]]\nid = \"second\"\nrun = \"echo second $WFCTL_IDEMPOTENCY_KEY $WFCTL_TRY >> effect\"\n";

const IDEMPOTENT: &str = "[[step]]\nid = \"first\"\nidempotent = true\n\
    run = \"echo first $WFCTL_IDEMPOTENCY_KEY $WFCTL_TRY >> effect\"\n";

const RETRIED: &str = "[[step]]\nid = \"first\"\nretry = { max = 2, delay = \"1ms\" }\n\
    run = \"echo first $WFCTL_IDEMPOTENCY_KEY $WFCTL_TRY >> effect\"\n";

/// An admitted run whose journal goes on with `events`, its slot as the crash left it.
#[track_caller]
fn crashed(store: &TestStore, steps: &str, events: impl FnOnce(&str) -> Vec<Value>) -> String {
    let run = store.admit(&store.workflow("w", steps));
    store.append(&run, &events(&run));
    store.occupy(0, &run, 1);
    assert_eq!(store.show(&run)["executing"], true);
    run
}

/// Recovers one run. Shows that `--dry-run` tells the same and changes nothing, and that doing it again does
/// nothing more.
#[track_caller]
fn recover(store: &TestStore, run: &str) -> String {
    let before = store.tree();
    let told = store.json(&["recover", "--run", run, "--dry-run"]);
    assert_eq!(store.tree(), before, "--dry-run changes nothing");
    let recovered = store.json(&["recover", "--run", run]);
    assert_eq!(recovered["items"][0]["run"], run);
    assert_eq!(told, recovered);
    store.assert_slot_free(0);
    let after = store.tree();
    assert_eq!(store.json(&["recover"])["items"], json!([]));
    assert_eq!(store.json(&["recover", "--run", run])["items"], json!([]));
    assert_eq!(store.tree(), after, "recovery is idempotent");
    store.fsck_clean();
    recovered["items"][0]["decision"].as_str().unwrap().to_owned()
}

#[test]
fn a_dispatch_that_started_no_step_is_queued_again() {
    let store = TestStore::new(1);
    let run = crashed(&store, TWO_STEPS, |_| vec![craft::dispatched(1)]);
    assert_eq!(recover(&store, &run), "requeued");
    let shown = store.show(&run);
    assert_eq!((&shown["status"], &shown["executing"]), (&"queued".into(), &false.into()));
    assert_eq!(shown["attempts"][0]["state"], "withdrawn");
    store.ok(&["tick"]);
    assert_eq!(store.show(&run)["status"], "completed");
    assert_eq!(store.read("effect"), format!("first {run}/1 1\nsecond {run}/2 1\n"));
}

#[test]
fn a_resume_that_started_no_step_opens_its_gate_again() {
    let store = TestStore::new(1);
    let run = store.interrupted("g");
    let gate = store.show(&run)["interrupt"].clone();
    store.append(&run, &[craft::resumed(2, "submitted")]);
    store.occupy(0, &run, 2);
    assert_eq!(recover(&store, &run), "requeued");
    let shown = store.show(&run);
    assert_eq!((&shown["status"], &shown["interrupt"]), (&"interrupted".into(), &gate));
    assert_eq!(shown["attempts"][1]["state"], "withdrawn");
    assert_eq!(shown["resume_readiness"], "ready");
    store.file("g.open", "");
    store.ok(&["resume", &run]);
    assert_eq!(store.show(&run)["status"], "completed");
}

#[test]
fn a_started_step_is_ambiguous_and_never_started_again() {
    let store = TestStore::new(1);
    let run =
        crashed(&store, TWO_STEPS, |run| vec![craft::dispatched(1), craft::started(run, 1, "first", 1)]);
    assert_eq!(recover(&store, &run), "ambiguous");
    let failed = store.events(&run).pop().unwrap();
    assert_eq!((&failed["reason"], &failed["by"]), (&"ambiguous".into(), &"recovery".into()));
    assert_eq!(store.show(&run)["attempts"][0]["state"], "active");
    store.ok(&["tick"]);
    assert_eq!(store.read("effect"), "");
    assert_eq!(store.kinds(&run), ["admitted", "failed"]);
}

#[test]
fn a_started_idempotent_step_is_started_again_with_the_same_key() {
    let store = TestStore::new(1);
    let run =
        crashed(&store, IDEMPOTENT, |run| vec![craft::dispatched(1), craft::started(run, 1, "first", 1)]);
    assert_eq!(recover(&store, &run), "requeued");
    assert_eq!(store.show(&run)["status"], "queued");
    store.ok(&["tick"]);
    assert_eq!(store.show(&run)["status"], "completed");
    assert_eq!(store.read("effect"), format!("first {run}/1 1\n"));
}

#[test]
fn an_idempotent_step_whose_snapshot_is_gone_is_ambiguous() {
    let store = TestStore::new(1);
    let run =
        crashed(&store, IDEMPOTENT, |run| vec![craft::dispatched(1), craft::started(run, 1, "first", 1)]);
    let snapshots = fs::read_dir(store.dir.join("workflows")).unwrap();
    snapshots.for_each(|snapshot| fs::remove_file(snapshot.unwrap().path()).unwrap());
    let recovered = store.json(&["recover"]);
    assert_eq!(recovered["items"][0]["decision"], "ambiguous", "{recovered}");
    assert_eq!(store.show(&run)["ambiguous"], true);
    store.assert_slot_free(0);
}

#[test]
fn a_finished_step_is_not_replayed() {
    let store = TestStore::new(1);
    let run = crashed(&store, TWO_STEPS, |run| {
        vec![craft::dispatched(1), craft::started(run, 1, "first", 1), craft::finished(1, "first", "ok", 0)]
    });
    assert_eq!(recover(&store, &run), "requeued");
    assert_eq!(store.events(&run).pop().unwrap()["at_step"], "second");
    store.ok(&["tick"]);
    assert_eq!(store.show(&run)["status"], "completed");
    assert_eq!(store.read("effect"), format!("second {run}/2 1\n"));
}

#[test]
fn a_finished_last_step_completes_without_starting_anything() {
    let store = TestStore::new(1);
    let run = crashed(&store, IDEMPOTENT, |run| {
        vec![craft::dispatched(1), craft::started(run, 1, "first", 1), craft::finished(1, "first", "ok", 0)]
    });
    assert_eq!(recover(&store, &run), "requeued");
    store.ok(&["tick"]);
    assert_eq!(store.show(&run)["status"], "completed");
    assert_eq!(store.read("effect"), "");
}

#[test]
fn a_known_failure_goes_on_with_its_next_try() {
    let store = TestStore::new(1);
    let run = crashed(&store, RETRIED, |run| {
        vec![
            craft::dispatched(1),
            craft::started(run, 1, "first", 1),
            craft::finished(1, "first", "error", 1),
        ]
    });
    assert_eq!(recover(&store, &run), "requeued");
    store.ok(&["tick"]);
    assert_eq!(store.show(&run)["status"], "completed");
    assert_eq!(store.read("effect"), format!("first {run}/2 2\n"));
}

#[test]
fn the_slot_of_a_settled_attempt_is_just_released() {
    let store = TestStore::new(1);
    let run = store.interrupted("g");
    store.occupy(0, &run, 1);
    let journal = store.journal(&run);
    assert_eq!(recover(&store, &run), "released");
    assert_eq!(store.journal(&run), journal);
    assert_eq!(store.show(&run)["status"], "interrupted");
}

#[test]
fn a_finished_run_that_was_not_moved_is_moved() {
    let store = TestStore::new(1);
    let run = store.admit(&store.quick("q"));
    store.append(
        &run,
        &[
            craft::dispatched(1),
            craft::started(&run, 1, "one", 1),
            craft::finished(1, "one", "ok", 0),
            json!({"event": "completed", "attempt": 1, "outcome": "ok"}),
        ],
    );
    store.occupy(0, &run, 1);
    assert_eq!(recover(&store, &run), "released");
    assert!(store.folder(&run).starts_with(store.dir.join("runs/done")));
}

#[test]
fn an_abandoned_run_whose_slot_was_lost_is_found_by_its_journal() {
    let store = TestStore::new(1);
    let run =
        crashed(&store, TWO_STEPS, |run| vec![craft::dispatched(1), craft::started(run, 1, "first", 1)]);
    fs::write(store.slot_path(0), "").unwrap();
    assert_eq!(store.json(&["recover"])["items"][0]["decision"], "ambiguous");
    assert_eq!(store.show(&run)["ambiguous"], true);
}

#[test]
fn a_slot_that_names_a_run_that_never_was_is_released() {
    let store = TestStore::new(1);
    store.occupy(0, "ghost@20261201T040000Z", 1);
    assert_eq!(store.json(&["recover"])["items"][0]["decision"], "released");
    store.assert_slot_free(0);
}

#[test]
fn recovering_one_run_touches_nothing_else() {
    let store = TestStore::new(3);
    let live = store.admit(&store.slow("live"));
    let tick = store.popen(&["tick"]);
    store.wait_live(&live, "live.effect");
    let mut abandoned = Vec::new();
    for (slot, name) in [(1, "a"), (2, "b")] {
        let run = store.admit(&store.quick(name));
        store.append(&run, &[craft::dispatched(1), craft::started(&run, 1, "one", 1)]);
        store.occupy(slot, &run, 1);
        abandoned.push(run);
    }
    let untouched = [store.folder(&live), store.folder(&abandoned[1])].map(|dir| support::tree_of(&dir));
    let slots = [store.slot_text(0), store.slot_text(2)];
    store.ok(&["recover", "--run", &abandoned[0]]);
    assert_eq!(
        [store.folder(&live), store.folder(&abandoned[1])].map(|dir| support::tree_of(&dir)),
        untouched
    );
    assert_eq!([store.slot_text(0), store.slot_text(2)], slots);
    assert_eq!(store.show(&live)["live"], true);
    assert_eq!(store.show(&abandoned[1])["executing"], true);
    store.assert_slot_free(1);
    // That of everything leaves the live one alone, too.
    let recovered = store.json(&["recover"]);
    assert_eq!(recovered["items"].as_array().unwrap().len(), 1, "{recovered}");
    assert_eq!(
        (support::tree_of(&store.folder(&live)), store.slot_text(0)),
        (untouched[0].clone(), slots[0].clone())
    );
    store.file("live.open", "");
    tick.wait().expect(0);
    assert_eq!(store.kinds(&live), ["admitted", "completed"]);
    store.fsck_clean();
}

#[test]
fn a_wfctl_that_was_killed_with_its_step_is_abandoned_at_once() {
    let store = TestStore::new(1);
    let run = store.interrupted("g");
    let resume = store.popen(&["resume", &run]);
    store.wait_live(&run, "g.effect");
    resume.kill9();
    let group = rustix::process::Pid::from_raw(store.read("g.effect").trim().parse().unwrap()).unwrap();
    rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
    wait_until("the slot to be unlocked", || store.slot_is_unlocked(0));
    assert_eq!(recover(&store, &run), "ambiguous");
    assert_eq!(store.kinds(&run), ["admitted", "failed", "interrupted"]);
}

#[test]
fn a_torn_last_line_is_ignored_at_every_length_and_cut_off_by_the_next_writer() {
    let store = TestStore::new(1);
    let run = store.interrupted("g");
    let path = store.folder(&run).join("journal.jsonl");
    let journal = store.journal(&run);
    let shown = store.show(&run);
    let mut torn = craft::line(&journal, &craft::resumed(2, "submitted"));
    assert_eq!(torn.pop(), Some(b'\n'));
    for len in 1..=torn.len() {
        fs::write(&path, [&journal[..], &torn[..len]].concat()).unwrap();
        assert_eq!(store.show(&run), shown, "{len} bytes of a torn line");
        assert_eq!(store.journal(&run).len(), journal.len() + len, "readers change nothing");
    }
    // A line of the right length whose bytes never reached the disk is torn as well.
    fs::write(&path, [&journal[..], &vec![0; torn.len()], b"\n"].concat()).unwrap();
    assert_eq!(store.show(&run), shown);
    store.fsck_clean();
    store.file("g.open", "");
    store.ok(&["resume", &run]);
    assert!(store.journal(&run).starts_with(&journal));
    assert_eq!(store.show(&run)["status"], "completed");
    assert_eq!(
        store.events(&run)[journal.split(|byte| *byte == b'\n').count() - 1]["event"],
        "attempt_started"
    );
}

#[test]
fn a_torn_line_of_an_abandoned_run_is_cut_at_every_length_by_recovery() {
    let store = TestStore::new(1);
    let run = store.admit(&store.workflow("w", TWO_STEPS));
    let path = store.folder(&run).join("journal.jsonl");
    let admitted = store.journal(&run);
    let begun = [&admitted[..], &craft::line(&admitted, &craft::dispatched(1))].concat();
    let torn = craft::line(&begun, &craft::started(&run, 1, "first", 1));
    // `step_started` was not durable, so nothing ran.
    for len in (0..torn.len()).step_by(7).chain([torn.len() - 1]) {
        fs::write(&path, [&begun[..], &torn[..len]].concat()).unwrap();
        store.occupy(0, &run, 1);
        let recovered = store.json(&["recover", "--run", &run]);
        assert_eq!(recovered["items"][0]["decision"], "requeued", "{len} bytes: {recovered}");
        assert!(store.journal(&run).starts_with(&begun));
        assert_eq!(store.event_names(&run), ["admitted", "attempt_started", "requeued"]);
    }
}

#[test]
fn a_corrupt_record_is_refused_and_named_while_others_go_on() {
    let store = TestStore::new(1);
    let bad = store.interrupted("bad");
    let path = store.folder(&bad).join("journal.jsonl");
    let mut journal = store.journal(&bad);
    journal[20] ^= 1;
    fs::write(&path, &journal).unwrap();
    let good = store.admit(&store.quick("good"));
    store.ok(&["schedule", &store.quick("due"), "--at", "now"]);

    for args in [&["show", &bad][..], &["resume", &bad], &["cancel", &bad], &["retry", &bad]] {
        let refused = store.run(args).expect(65);
        assert!(refused.stderr.contains("fsck"), "{refused:?}");
    }
    store.run(&["recover", "--run", &bad]).expect(65);
    let fsck = store.run(&["fsck"]).expect(65);
    assert!(format!("{}{}", fsck.stdout, fsck.stderr).contains(&bad), "{fsck:?}");
    let tick = store.run(&["tick"]);
    assert!(tick.stderr.contains(&bad), "{tick:?}");
    assert_eq!(store.show(&good)["status"], "completed");
    assert_eq!(store.read("due.effect"), "x\n");
    assert_eq!(fs::read(&path).unwrap(), journal, "nobody repairs it silently");
    store.ok(&["status"]);
    store.ok(&["list"]);
}

#[test]
fn a_corrupt_run_that_held_a_slot_gives_it_back_on_recovery() {
    let store = TestStore::new(1);
    let run =
        crashed(&store, TWO_STEPS, |run| vec![craft::dispatched(1), craft::started(run, 1, "first", 1)]);
    let path = store.folder(&run).join("journal.jsonl");
    let mut journal = store.journal(&run);
    journal[20] ^= 1;
    fs::write(&path, &journal).unwrap();
    let recovered = store.json_code(65, &["recover"]);
    assert_eq!(recovered["items"][0]["decision"], "corrupt", "{recovered}");
    assert_eq!(fs::read(&path).unwrap(), journal);
    store.assert_slot_free(0);
}

#[test]
fn one_run_that_cannot_be_recovered_does_not_stop_the_others() {
    let store = TestStore::new(2);
    let mut runs = Vec::new();
    for (slot, name) in [(0, "a"), (1, "b")] {
        let run = store.admit(&store.quick(name));
        store.append(&run, &[craft::dispatched(1), craft::started(&run, 1, "one", 1)]);
        store.occupy(slot, &run, 1);
        runs.push(run);
    }
    let journal = store.folder(&runs[0]).join("journal.jsonl");
    fs::rename(&journal, store.work.join("aside")).unwrap();
    fs::create_dir(&journal).unwrap();
    let done = store.run(&["recover"]);
    assert!([65, 74].contains(&done.code) && done.stderr.contains(&runs[0]), "{done:?}");
    assert_eq!(store.show(&runs[1])["ambiguous"], true);
    assert!(store.slot_text(0).contains(&runs[0]), "what could not be recovered keeps its slot");
    store.assert_slot_free(1);
}
