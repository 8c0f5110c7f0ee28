//! `wfctl cancel`: what it does to a run in each of its states, and to nothing else.

#![allow(clippy::unwrap_used)]

mod support;

use rustix::process::Signal;
use support::{TestStore, is_alive, wait_until};

#[test]
fn cancelling_one_run_of_a_tick_frees_its_slot_for_the_next_while_siblings_go_on() {
    let store = TestStore::new(2);
    let cancelled = store.admit(&store.slow("a"));
    let sibling = store.admit(&store.slow("b"));
    let next = store.admit(&store.slow("c"));
    let tick = store.popen(&["tick"]);
    store.wait_live(&cancelled, "a.effect");
    store.wait_live(&sibling, "b.effect");
    assert_eq!(store.show(&next)["status"], "queued");
    let (journal, slot) = (store.journal(&sibling), store.slot_text(slot_of(&store, &sibling)));

    store.ok(&["cancel", &cancelled, "--note", "not today"]);
    store.wait_live(&next, "c.effect");
    let shown = store.show(&cancelled);
    assert_eq!((&shown["status"], &shown["ambiguous"]), (&"failed".into(), &true.into()), "{shown}");
    assert_eq!(store.kinds(&cancelled), ["admitted", "failed"]);
    assert!(!is_alive(store.read("a.effect").trim()));
    assert_eq!(store.journal(&sibling), journal);
    assert_eq!(store.slot_text(slot_of(&store, &sibling)), slot);
    assert_eq!(store.show(&sibling)["live"], true);

    store.file("b.open", "");
    store.file("c.open", "");
    tick.wait().expect(1);
    for run in [&sibling, &next] {
        assert_eq!(store.show(run)["status"], "completed");
        assert_eq!(store.kinds(run), ["admitted", "completed"]);
    }
    store.assert_slot_free(0);
    store.assert_slot_free(1);
    store.fsck_clean();
}

fn slot_of(store: &TestStore, run: &str) -> u32 {
    store.show(run)["slot"].as_u64().unwrap().try_into().unwrap()
}

#[test]
fn cancelling_a_resume_from_elsewhere_is_caller_cancellation() {
    let store = TestStore::new(1);
    let run = store.interrupted("g");
    let resume = store.popen(&["resume", &run]);
    store.wait_live(&run, "g.effect");
    store.ok(&["cancel", &run]);
    resume.wait().expect(130);
    let failed = store.events(&run).pop().unwrap();
    assert_eq!((&failed["reason"], &failed["by"]), (&"ambiguous".into(), &"caller_cancellation".into()));
    store.assert_slot_free(0);
    store.run(&["resume", &run]).expect(76);
    store.fsck_clean();
}

#[test]
fn a_queued_run_is_cancelled_and_never_dispatched() {
    let store = TestStore::new(1);
    let run = store.admit(&store.quick("q"));
    store.ok(&["cancel", &run, "--note", "no need", "--by", "ann"]);
    let shown = store.show(&run);
    assert_eq!((&shown["status"], &shown["ambiguous"]), (&"cancelled".into(), &false.into()));
    assert_eq!((&shown["by"], &shown["note"]), (&"ann".into(), &"no need".into()));
    store.ok(&["tick"]);
    assert_eq!(store.read("q.effect"), "");
    assert_eq!(store.kinds(&run), ["admitted", "cancelled"]);
    store.fsck_clean();
}

#[test]
fn an_interrupted_run_is_cancelled_and_cannot_be_resumed() {
    let store = TestStore::new(1);
    let run = store.interrupted("g");
    store.ok(&["cancel", &run]);
    assert_eq!(store.show(&run)["status"], "cancelled");
    assert_eq!(store.kinds(&run), ["admitted", "cancelled", "interrupted"]);
    store.run(&["resume", &run]).expect(76);
    store.fsck_clean();
}

#[test]
fn an_abandoned_run_is_left_to_recovery() {
    let store = TestStore::new(1);
    let run = store.interrupted("g");
    let resume = store.popen(&["resume", &run]);
    store.wait_live(&run, "g.effect");
    resume.signal(Signal::TERM);
    resume.wait().expect(143);
    let before = store.tree();
    let refused = store.run(&["cancel", &run]).expect(76);
    assert!(refused.stderr.contains(&format!("wfctl recover --run {run}")), "{refused:?}");
    assert_eq!(store.tree(), before);
}

#[test]
fn a_finished_run_is_not_cancelled() {
    let store = TestStore::new(1);
    let completed = store.admit(&store.quick("q"));
    let failing = store.workflow("f", "[[step]]\nid = \"one\"\nrun = \"exit 3\"\n");
    let failed = store.admit(&failing);
    store.run(&["tick"]).expect(1);
    let cancelled = store.admit(&store.quick("c"));
    store.ok(&["cancel", &cancelled]);
    let before = store.tree();
    for run in [&completed, &failed, &cancelled] {
        store.run(&["cancel", run]).expect(76);
    }
    assert_eq!(store.tree(), before);
}

#[test]
fn a_step_whose_wfctl_was_killed_is_stopped_and_its_run_ambiguous() {
    let store = TestStore::new(1);
    let run = store.interrupted("g");
    let resume = store.popen(&["resume", &run]);
    store.wait_live(&run, "g.effect");
    let step = store.read("g.effect");
    resume.kill9();
    assert!(is_alive(&step));
    assert_eq!(store.show(&run)["live"], true);
    store.ok(&["cancel", &run]);
    assert!(!is_alive(&step));
    let failed = store.events(&run).pop().unwrap();
    assert_eq!((&failed["reason"], &failed["by"]), (&"ambiguous".into(), &"caller_cancellation".into()));
    assert_eq!(store.show(&run)["attempts"][1]["state"], "active");
    store.assert_slot_free(0);
    store.fsck_clean();
}

#[test]
fn an_orphan_that_ignores_sigterm_is_killed_after_the_grace() {
    let store = TestStore::new(1);
    store.ok(&["config", "grace", "200ms"]);
    let steps = "[[step]]\nid = \"w\"\nrun = \"trap '' TERM; echo $$ > pid; while [ -e ./await ]; do sleep 0.02; done\"\n";
    let file = store.workflow("w", steps);
    let run = store.popen(&["run", &file, "--id", "w-1"]);
    wait_until("the step", || store.read("pid").ends_with('\n'));
    run.kill9();
    store.ok(&["cancel", "w-1"]);
    assert!(!is_alive(&store.read("pid")));
    assert_eq!(store.show("w-1")["ambiguous"], true);
    store.assert_slot_free(0);
}

#[test]
fn cancelling_an_orphan_while_draining_leaves_it_to_recovery() {
    let store = TestStore::new(1);
    let run = store.interrupted("g");
    let resume = store.popen(&["resume", &run]);
    store.wait_live(&run, "g.effect");
    resume.kill9();
    store.ok(&["drain"]);
    let done = store.run(&["cancel", &run]);
    assert!([69, 74].contains(&done.code), "{done:?}");
    assert_eq!(store.show(&run)["executing"], true);
    store.ok(&["recover", "--run", &run]);
    assert_eq!(store.show(&run)["ambiguous"], true);
    store.assert_slot_free(0);
}
