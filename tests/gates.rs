//! Answering a gate, and what people may do to a run afterwards.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;

use serde_json::json;
use support::TestStore;

const ASKING: &str = "[[step]]\nid = \"ask\"\ninterrupt = \"Publish?\"\noutcomes = [\"approved\", \"rejected\"]\n\
    schema = { type = \"object\", required = [\"comment\"], properties = { comment = { type = \"string\" } } }\n\
    next = { rejected = \"end\" }\n\
    [[step]]\nid = \"publish\"\nrun = \"cat $WFCTL_CONTEXT > context\"\n";

/// The run `w-1` at its gate.
#[track_caller]
fn asking(store: &TestStore) {
    store.ok(&["run", &store.workflow("w", ASKING), "--id", "w-1"]);
    let shown = store.show("w-1");
    assert_eq!((&shown["status"], &shown["resume_readiness"]), (&"interrupted".into(), &"ready".into()));
}

#[test]
fn the_first_declared_outcome_is_the_default() {
    let store = TestStore::new(1);
    asking(&store);
    store.ok(&["resume", "w-1", "--payload", "{\"comment\": \"fine\"}", "--by", "ann", "--note", "seen"]);
    let shown = store.show("w-1");
    assert_eq!(shown["status"], "completed");
    let attempt = &shown["attempts"][1];
    assert_eq!(
        (&attempt["outcome"], &attempt["by"], &attempt["note"]),
        (&"approved".into(), &"ann".into(), &"seen".into())
    );
}

#[test]
fn a_rejection_goes_where_it_is_routed() {
    let store = TestStore::new(1);
    asking(&store);
    store.ok(&["resume", "w-1", "--outcome", "rejected", "--payload", "{\"comment\": \"no\"}"]);
    let shown = store.show("w-1");
    assert_eq!((&shown["status"], &shown["outcome"]), (&"completed".into(), &"rejected".into()));
    assert!(!store.exists("context"), "a rejection never falls through");
}

#[test]
fn an_answer_that_does_not_do_changes_nothing() {
    let store = TestStore::new(1);
    asking(&store);
    let before = store.tree();
    let undeclared = store.run(&["resume", "w-1", "--outcome", "maybe"]).expect(65);
    assert!(undeclared.stderr.contains("approved, rejected"), "{undeclared:?}");
    let wrong = store.run(&["resume", "w-1", "--payload", "{\"comment\": 3}"]).expect(65);
    assert!(wrong.stderr.contains("/comment"), "{wrong:?}");
    store.run(&["resume", "w-1"]).expect(65);
    store.run(&["resume", "w-1", "--payload", "{oops"]).expect(65);
    store.run(&["resume", "w-1", "--payload", "@absent.json"]).expect(66);
    let gate = store.show("w-1")["interrupt"]["gate"].as_u64().unwrap();
    let other = (gate + 1).to_string();
    store.run(&["resume", "w-1", "--gate", &other, "--payload", "{\"comment\": \"x\"}"]).expect(76);
    assert_eq!(store.tree(), before);
    store.ok(&["resume", "w-1", "--gate", &gate.to_string(), "--payload", "{\"comment\": \"x\"}"]);
}

#[test]
fn a_payload_comes_from_a_file_or_stdin() {
    let store = TestStore::new(1);
    asking(&store);
    store.file("payload.json", "{\"comment\": \"from a file\"}\n");
    store.ok(&["resume", "w-1", "--payload", "@payload.json"]);
    assert!(store.read("context").contains("from a file"));
    store.ok(&["run", &store.workflow("w", ASKING), "--id", "w-2"]);
    store.run_with_stdin(&["resume", "w-2", "--payload", "-"], "{\"comment\": \"from stdin\"}").expect(0);
    assert!(store.read("context").contains("from stdin"));
}

#[test]
fn a_gate_that_was_answered_is_not_answered_again() {
    let store = TestStore::new(1);
    asking(&store);
    store.ok(&["resume", "w-1", "--payload", "{\"comment\": \"x\"}"]);
    let before = store.tree();
    store.run(&["resume", "w-1", "--payload", "{\"comment\": \"x\"}"]).expect(76);
    assert_eq!(store.tree(), before);
}

#[test]
fn an_altered_snapshot_blocks_a_resume() {
    let store = TestStore::new(1);
    asking(&store);
    let snapshot = fs::read_dir(store.dir.join("workflows")).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(&snapshot).unwrap();
    fs::write(&snapshot, text.replace("Publish?", "Delete?")).unwrap();
    assert_blocked(&store, "workflows/");
    fs::remove_file(&snapshot).unwrap();
    assert_blocked(&store, "workflows/");
    fs::write(&snapshot, text).unwrap();
    store.ok(&["resume", "w-1", "--payload", "{\"comment\": \"x\"}"]);
}

#[test]
fn a_program_or_folder_that_is_gone_blocks_a_resume() {
    use std::os::unix::fs::PermissionsExt as _;
    let store = TestStore::new(1);
    let program = store.file("publish", "");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(store.work.join("folder")).unwrap();
    let steps = format!(
        "[[step]]\nid = \"ask\"\ninterrupt = \"?\"\n\
         [[step]]\nid = \"publish\"\nrun = [\"./publish\"]\n\
         [[step]]\nid = \"made\"\ncwd = \"made\"\nrun = \"true\"\n\
         [[step]]\nid = \"there\"\ncwd = {}\nrun = \"true\"\n",
        json!(store.work.join("folder"))
    );
    // What an earlier step may make, such as the folder `made`, is not held against a later one.
    store.ok(&["run", &store.workflow("w", &steps), "--id", "w-1"]);
    assert_eq!(store.show("w-1")["resume_readiness"], "ready");
    fs::remove_file(&program).unwrap();
    assert_blocked(&store, "step publish");
    store.file("publish", "#!/bin/sh\n");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_dir(store.work.join("folder")).unwrap();
    assert_blocked(&store, "step there");
}

#[track_caller]
fn assert_blocked(store: &TestStore, by: &str) {
    let shown = store.show("w-1");
    assert_eq!(shown["resume_readiness"], "blocked");
    assert!(shown["diagnostics"][0].as_str().unwrap().contains(by), "{shown}");
    let before = store.tree();
    let refused = store.run(&["resume", "w-1", "--payload", "{\"comment\": \"x\"}"]);
    assert!([65, 76].contains(&refused.code), "{refused:?}");
    assert!(refused.stderr.contains(by), "{refused:?}");
    assert_eq!(store.tree(), before);
}

#[test]
fn a_gate_that_expired_is_routed_by_the_next_tick() {
    let store = TestStore::new(1);
    let steps = "[[step]]\nid = \"ask\"\ninterrupt = \"?\"\nexpires = \"1s\"\nnext = { expired = \"late\" }\n\
        [[step]]\nid = \"go\"\nrun = \"echo go > effect\"\nnext = { ok = \"end\" }\n\
        [[step]]\nid = \"late\"\nrun = \"echo late > effect\"\n";
    store.ok(&["run", &store.workflow("w", steps), "--id", "w-1"]);
    support::wait_until("the gate to expire", || {
        store.run(&["resume", "w-1", "--outcome", "nothing"]).code == 76
    });
    store.ok(&["tick"]);
    assert_eq!(store.show("w-1")["status"], "completed");
    assert_eq!(store.read("effect"), "late\n");
}

#[test]
fn an_expired_gate_without_a_route_fails_the_run() {
    let store = TestStore::new(1);
    let steps = "[[step]]\nid = \"ask\"\ninterrupt = \"?\"\nexpires = \"1s\"\n[[step]]\nid = \"go\"\nrun = \"true\"\n";
    store.ok(&["run", &store.workflow("w", steps), "--id", "w-1"]);
    support::wait_until("the gate to expire", || {
        store.run(&["tick"]);
        store.show("w-1")["status"] == "failed"
    });
    let shown = store.show("w-1");
    assert_eq!((&shown["reason"], &shown["ambiguous"]), (&"expired".into(), &false.into()));
    store.fsck_clean();
}

#[test]
fn a_failed_run_goes_on_from_its_failed_step_with_a_new_key() {
    let store = TestStore::new(1);
    let steps = "[[step]]\nid = \"a\"\nrun = \"echo a $WFCTL_IDEMPOTENCY_KEY >> order\"\n\
        [[step]]\nid = \"b\"\nrun = \"echo b $WFCTL_IDEMPOTENCY_KEY >> order; [ -e fixed ]\"\n";
    store.run(&["run", &store.workflow("w", steps), "--id", "w-1"]).expect(1);
    store.run(&["retry", "w-1", "--from", "absent"]).expect(65);
    store.ok(&["retry", "w-1", "--note", "fixed the disk", "--by", "ann"]);
    assert_eq!(store.show("w-1")["status"], "queued");
    store.run(&["retry", "w-1"]).expect(76);
    store.file("fixed", "");
    store.ok(&["tick"]);
    assert_eq!(store.show("w-1")["status"], "completed");
    assert_eq!(store.read("order"), "a w-1/1\nb w-1/2\nb w-1/3\n");
    assert_eq!(store.kinds("w-1"), ["admitted", "completed", "failed", "retried"]);
    store.run(&["retry", "w-1"]).expect(76);
    store.fsck_clean();
}

#[test]
fn a_run_can_be_retried_from_an_earlier_step() {
    let store = TestStore::new(1);
    let steps = "[[step]]\nid = \"a\"\nrun = \"echo a >> order\"\n[[step]]\nid = \"b\"\nrun = \"echo b >> order; [ -e fixed ]\"\n";
    store.run(&["run", &store.workflow("w", steps), "--id", "w-1"]).expect(1);
    store.file("fixed", "");
    store.ok(&["retry", "w-1", "--from", "a"]);
    store.ok(&["tick"]);
    assert_eq!(store.read("order"), "a\nb\na\nb\n");
}

#[test]
fn an_ambiguous_run_is_retried_only_after_a_person_resolved_it_as_failed() {
    let store = TestStore::new(1);
    let file = store.slow("w");
    let run = store.popen(&["run", &file, "--id", "w-1"]);
    store.wait_live("w-1", "w.effect");
    run.signal(rustix::process::Signal::INT);
    run.wait().expect(130);
    let before = store.tree();
    let refused = store.run(&["retry", "w-1"]).expect(76);
    assert!(refused.stderr.contains("resolve w-1"), "{refused:?}");
    assert_eq!(store.tree(), before);
    store.ok(&["resolve", "w-1", "--as", "failed", "--note", "nothing was done"]);
    let shown = store.show("w-1");
    assert_eq!((&shown["status"], &shown["ambiguous"]), (&"failed".into(), &false.into()));
    assert_eq!(store.status()["ambiguous"], json!([]));
    store.file("w.open", "");
    store.ok(&["retry", "w-1"]);
    store.ok(&["tick"]);
    assert_eq!(store.show("w-1")["status"], "completed");
    assert_eq!(store.kinds("w-1"), ["admitted", "completed", "failed", "resolved", "retried"]);
    store.fsck_clean();
}

#[test]
fn only_an_ambiguous_run_is_resolved() {
    let store = TestStore::new(1);
    asking(&store);
    let before = store.tree();
    store.run(&["resolve", "w-1", "--as", "failed"]).expect(76);
    assert_eq!(store.tree(), before);
}
