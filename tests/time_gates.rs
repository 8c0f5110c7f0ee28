//! Gates that nobody answers in time, through the program: ticks that come later than the gate expires.

#![allow(clippy::unwrap_used)]

mod time_support;

use serde_json::{Value, json};
use time_support::{Bench, column};

/// Far behind the expiry of any gate that a test opens now, and before the next occurrence.
const LATER: &str = "2199-01-01T00:00:00Z";

/// A workflow whose gate expires, with what follows it, and a step that notes that it ran.
fn workflow(next: &str, more: &str) -> String {
    format!(
        "name = \"job\"\n[[step]]\nid = \"ask\"\ninterrupt = \"Go on?\"\noutcomes = [\"yes\", \"no\"]\n\
         expires = \"1h\"\nnext = {{ no = \"end\"{next} }}\n\
         [[step]]\nid = \"go\"\nrun = \"echo $WFCTL_STEP >> ran\"\n{more}"
    )
}

/// A run that waits at its gate.
fn waiting(bench: &Bench, text: &str) -> String {
    bench.schedule("s", text, &["--at", "2001-01-01T00:00Z", "--start", "2001-01-01T00:00Z"]);
    let report = bench.tick("2001-01-01T00:00:00Z", &[]);
    assert_eq!(column(&report["runs"], "status"), ["interrupted"]);
    "s@20010101T000000Z".to_owned()
}

fn history(bench: &Bench, run: &str) -> Vec<String> {
    let history = bench.json(&["history", "--run", run]);
    let mut kinds: Vec<_> = column(&history["items"], "kind").into_iter().map(str::to_owned).collect();
    kinds.reverse();
    kinds
}

fn shown(bench: &Bench, run: &str) -> Value {
    bench.json(&["show", run])
}

#[track_caller]
fn cannot_be_resumed(bench: &Bench, run: &str) {
    let before = bench.snapshot();
    bench.run(&["resume", run, "--outcome", "yes"]).exits(76);
    bench.is_as(&before);
}

#[test]
fn a_gate_does_not_expire_early() {
    let bench = Bench::new();
    let run = waiting(&bench, &workflow(", expired = \"end\"", ""));
    let expires = shown(&bench, &run)["interrupt"]["expires_at"].as_str().unwrap().to_owned();
    let expires = time_support::at(&expires);
    let before = wfctl::domain::time::format_instant(expires - chrono::TimeDelta::milliseconds(1));
    assert_eq!(bench.tick(&before, &[])["expired"], json!([]));
    assert_eq!(shown(&bench, &run)["status"], "interrupted");
    let at = wfctl::domain::time::format_instant(expires);
    assert_eq!(column(&bench.tick(&at, &[])["expired"], "step"), ["ask"]);
    assert_eq!(shown(&bench, &run)["status"], "completed");
}

#[test]
fn an_expired_gate_may_end_the_run() {
    let bench = Bench::new();
    let run = waiting(&bench, &workflow(", expired = \"end\"", ""));
    let report = bench.tick(LATER, &[]);
    assert_eq!(column(&report["expired"], "run"), [run.as_str()]);
    let now = shown(&bench, &run);
    assert_eq!((&now["status"], &now["outcome"]), (&json!("completed"), &json!("expired")));
    assert_eq!(history(&bench, &run), ["admitted", "interrupted", "completed"]);
    cannot_be_resumed(&bench, &run);
    // Nothing expires a second time.
    assert_eq!(bench.tick(LATER, &[])["expired"], json!([]));
    assert_eq!(history(&bench, &run).len(), 3);
    assert!(bench.lines("ran").is_empty());
    bench.is_sound();
}

#[test]
fn an_expired_gate_fails_the_run_by_default() {
    let bench = Bench::new();
    let run = waiting(&bench, &workflow("", ""));
    let report = bench.tick(LATER, &[]);
    assert_eq!(column(&report["expired"], "run"), [run.as_str()]);
    let now = shown(&bench, &run);
    assert_eq!((&now["status"], &now["ambiguous"]), (&json!("failed"), &json!(false)));
    assert_eq!(history(&bench, &run), ["admitted", "interrupted", "failed"]);
    cannot_be_resumed(&bench, &run);
    assert!(bench.lines("ran").is_empty());
    bench.is_sound();
}

#[test]
fn an_expired_gate_may_lead_to_a_step() {
    let bench = Bench::with_capacity(1);
    let run = waiting(&bench, &workflow(", expired = \"go\"", ""));
    let report = bench.tick(LATER, &[]);
    assert_eq!(column(&report["expired"], "run"), [run.as_str()]);
    assert_eq!(column(&report["runs"], "status"), ["completed"]);
    assert_eq!(bench.lines("ran"), ["go"]);
    assert_eq!(history(&bench, &run), ["admitted", "interrupted", "completed"]);
    let attempts = shown(&bench, &run)["attempts"].clone();
    assert_eq!(column(&attempts, "kind"), ["dispatch", "resume"]);
    assert_eq!(attempts[1]["outcome"], "expired");
    cannot_be_resumed(&bench, &run);
    bench.is_sound();
}

#[test]
fn an_expired_gate_that_leads_to_a_step_waits_for_a_dispatch() {
    let bench = Bench::with_capacity(1);
    let run = waiting(&bench, &workflow(", expired = \"go\"", ""));
    let report = bench.tick(LATER, &["--no-dispatch"]);
    assert_eq!(report["expired"], json!([]));
    assert_eq!(shown(&bench, &run)["status"], "interrupted");
    assert_eq!(history(&bench, &run), ["admitted", "interrupted"]);
    assert_eq!(column(&bench.tick(LATER, &[])["expired"], "run"), [run.as_str()]);
    assert_eq!(bench.lines("ran"), ["go"]);
}

#[test]
fn an_expired_gate_may_lead_to_another_gate() {
    let bench = Bench::new();
    let second = "[[step]]\nid = \"again\"\ninterrupt = \"Really?\"\noutcomes = [\"yes\"]\n";
    let text = workflow(", expired = \"again\"", second);
    let run = waiting(&bench, &text);
    let report = bench.tick(LATER, &[]);
    assert_eq!(column(&report["expired"], "step"), ["ask"]);
    let now = shown(&bench, &run);
    assert_eq!((&now["status"], &now["interrupt"]["step"]), (&json!("interrupted"), &json!("again")));
    assert_eq!(history(&bench, &run), ["admitted", "interrupted", "interrupted"]);
    assert!(bench.lines("ran").is_empty());
    bench.run(&["resume", &run, "--outcome", "yes"]).exits(0);
    assert_eq!(shown(&bench, &run)["status"], "completed");
    bench.is_sound();
}

#[test]
fn overlap_sees_the_gate_gone_in_the_same_tick() {
    let bench = Bench::new();
    let text = workflow(", expired = \"end\"", "");
    bench.schedule("s", &text, &["--cron", "0 0 1 1 *", "--start", "2198-06-01", "--until", "2300-01-01"]);
    let file = bench.file("t.toml", &text);
    drop(file);
    bench.schedule("t", &text, &["--at", "2001-01-01T00:00Z", "--start", "2001-01-01T00:00Z"]);
    // A manual run of the schedule is in the way of its occurrence, until its gate expires.
    let run = bench.json(&["trigger", "s"])["run"].as_str().unwrap().to_owned();
    bench.tick("2001-01-01T00:00:00Z", &[]);
    assert_eq!(shown(&bench, &run)["status"], "interrupted");
    let report = bench.tick(LATER, &[]);
    assert_eq!(report["expired"].as_array().unwrap().len(), 2);
    assert_eq!(column(&report["admitted"], "run"), ["s@21990101T000000Z"]);
    assert_eq!(report["skipped"], json!([]));
}

#[test]
fn an_answered_gate_never_expires() {
    let bench = Bench::new();
    let run = waiting(&bench, &workflow(", expired = \"go\"", ""));
    bench.run(&["resume", &run, "--outcome", "no"]).exits(0);
    let report = bench.tick(LATER, &[]);
    assert_eq!((&report["expired"], &report["runs"]), (&json!([]), &json!([])));
    assert_eq!(history(&bench, &run), ["admitted", "interrupted", "completed"]);
    assert!(bench.lines("ran").is_empty());
}

#[test]
fn an_answer_after_the_expiry_is_refused_once_a_tick_has_told() {
    let bench = Bench::with_capacity(1);
    let run = waiting(&bench, &workflow(", expired = \"end\"", ""));
    // Many at once: one of them settles the gate, all others leave it alone.
    let commands: Vec<Vec<&str>> = (0..8).map(|_| vec!["tick", "--now", LATER, "--json"]).collect();
    let said = bench.at_once(&commands);
    let told: usize = said.iter().map(|said| said.json()["expired"].as_array().unwrap().len()).sum();
    assert_eq!(told, 1);
    assert_eq!(history(&bench, &run), ["admitted", "interrupted", "completed"]);
    cannot_be_resumed(&bench, &run);
}
