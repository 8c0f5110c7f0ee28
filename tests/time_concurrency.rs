//! Many processes at once: each thing is admitted and executed exactly once, within the capacity.
//!
//! Steps append lines to files, which is how executions are counted. Nothing is said about who does what, only
//! about what all of them together have done.

#![allow(clippy::unwrap_used)]

mod time_support;

use std::{collections::BTreeSet, time::Duration};

use serde_json::json;
use time_support::{Bench, NOTE, Said, column};

/// What a busy machine must not make of waiting for the lock.
const PATIENT: [&str; 2] = ["--lock-timeout", "120s"];

/// A step that notes its start and its end, and itself.
const SPAN: &str = "name = \"job\"\n[[step]]\nid = \"go\"\n\
    run = \"echo + >> span; echo $WFCTL_RUN >> ran; sleep 0.02; echo - >> span\"\n";

/// A gate before a step that notes that it ran.
const ASK: &str = "name = \"job\"\n[[step]]\nid = \"ask\"\ninterrupt = \"Go on?\"\n\
    [[step]]\nid = \"go\"\nrun = \"echo + >> span; echo $WFCTL_RUN >> ran; sleep 0.02; echo - >> span\"\n";

const PAST: [&str; 4] = ["--at", "2001-01-01T00:00Z", "--start", "2001-01-01T00:00Z"];

fn patient<'a>(args: &[&'a str]) -> Vec<&'a str> {
    args.iter().copied().chain(PATIENT).collect()
}

fn codes(said: &[Said]) -> Vec<i32> {
    said.iter().map(|said| said.code.unwrap_or(-1)).collect()
}

/// Expects that each run is in the file once, and nothing else is.
#[track_caller]
fn ran_once(bench: &Bench, wanted: &BTreeSet<String>) {
    let mut ran = bench.lines("ran");
    ran.sort_unstable();
    assert_eq!(ran, wanted.iter().cloned().collect::<Vec<_>>());
}

/// The most steps that were at work at once.
fn most_at_once(bench: &Bench) -> i64 {
    let mut at_once = 0;
    let mut most = 0;
    for line in bench.lines("span") {
        at_once += if line == "+" { 1 } else { -1 };
        most = most.max(at_once);
    }
    assert_eq!(at_once, 0);
    most
}

#[test]
fn eight_ticks_share_fifty_due_schedules() {
    let bench = Bench::with_capacity(3);
    let mut wanted = BTreeSet::new();
    for n in 0..50 {
        let id = format!("s{n:02}");
        bench.schedule(&id, SPAN, &PAST);
        wanted.insert(format!("{id}@20010101T000000Z"));
    }
    let said = bench.at_once(&vec![patient(&["tick", "--json"]); 8]);
    assert_eq!(codes(&said), [0; 8], "{said:?}");
    let admitted: Vec<_> = said.iter().map(Said::json).collect();
    let mut admitted: Vec<_> =
        admitted.iter().flat_map(|report| column(&report["admitted"], "run")).collect();
    admitted.sort_unstable();
    assert_eq!(admitted, wanted.iter().map(String::as_str).collect::<Vec<_>>());
    // Nothing is left for a ninth.
    let report = bench.json(&["tick"]);
    assert_eq!(
        (&report["queued"], &report["runs"], &report["admitted"]),
        (&json!(0), &json!([]), &json!([]))
    );
    ran_once(&bench, &wanted);
    assert!(most_at_once(&bench) <= 3);
    bench.is_sound();
}

#[test]
fn ticks_triggers_and_resumes_at_once_do_each_thing_once() {
    let bench = Bench::with_capacity(3);
    let mut wanted = BTreeSet::new();
    for n in 0..6 {
        let id = format!("gate{n}");
        bench.schedule(&id, ASK, &PAST);
        wanted.insert(format!("{id}@20010101T000000Z"));
    }
    bench.json(&["tick"]);
    for n in 0..6 {
        let id = format!("due{n}");
        bench.schedule(&id, SPAN, &PAST);
        wanted.insert(format!("{id}@20010101T000000Z"));
    }
    bench.schedule("extra", SPAN, &["--every", "1d", "--start", "2999-01-01"]);
    let gates: Vec<String> = (0..6).map(|n| format!("gate{n}@20010101T000000Z")).collect();
    let mut commands = Vec::new();
    for gate in &gates {
        commands.push(patient(&["tick", "--json"]));
        commands.push(patient(&["trigger", "extra", "--json"]));
        commands.push(patient(&["resume", gate, "--wait=120s", "--json"]));
        commands.push(patient(&["resume", gate, "--wait=120s", "--json"]));
    }
    let said = bench.at_once(&commands);
    for (command, said) in commands.iter().zip(&said) {
        match command[0] {
            "resume" => assert!(matches!(said.code, Some(0 | 75 | 76)), "{said:?}"),
            _ => assert_eq!(said.code, Some(0), "{said:?}"),
        }
        if command[0] == "trigger" {
            assert!(wanted.insert(said.json()["run"].as_str().unwrap().to_owned()));
        }
    }
    let resumed = commands.iter().zip(&said).filter(|(command, _)| command[0] == "resume");
    assert_eq!(resumed.filter(|(_, said)| said.code == Some(0)).count(), 6);
    bench.json(&["tick"]);
    ran_once(&bench, &wanted);
    assert!(most_at_once(&bench) <= 3);
    bench.has_no_errors();
}

#[test]
fn one_of_twenty_resumes_dispatches() {
    let bench = Bench::with_capacity(4);
    bench.schedule("s", ASK, &PAST);
    bench.json(&["tick"]);
    let run = "s@20010101T000000Z";
    let said = bench.at_once(&vec![patient(&["resume", run, "--json"]); 20]);
    let mut codes = codes(&said);
    codes.sort_unstable();
    assert_eq!(codes[0], 0, "{said:?}");
    assert!(codes[1..].iter().all(|code| matches!(code, 75 | 76)), "{said:?}");
    assert_eq!(bench.lines("ran"), [run]);
    let shown = bench.json(&["show", run]);
    assert_eq!(shown["status"], "completed");
    assert_eq!(column(&shown["attempts"], "kind"), ["dispatch", "resume"]);
    bench.is_sound();
}

#[test]
fn one_of_eight_runs_with_an_id_runs() {
    let bench = Bench::with_capacity(8);
    let file = bench.file("w.toml", SPAN);
    let said = bench.at_once(&vec![patient(&["run", &file, "--id", "only", "--json"]); 8]);
    let mut codes = codes(&said);
    codes.sort_unstable();
    assert_eq!(codes, [0, 73, 73, 73, 73, 73, 73, 73], "{said:?}");
    assert_eq!(bench.lines("ran"), ["only"]);
    bench.is_sound();
}

#[test]
fn runs_at_once_never_exceed_the_capacity() {
    let bench = Bench::with_capacity(2);
    let file = bench.file("w.toml", SPAN);
    let said = bench.at_once(&vec![patient(&["run", &file, "--json"]); 12]);
    let done = said.iter().filter(|said| said.code == Some(0)).count();
    assert!(said.iter().all(|said| matches!(said.code, Some(0 | 75))), "{said:?}");
    let ran = bench.lines("ran");
    assert_eq!((ran.len(), ran.iter().collect::<BTreeSet<_>>().len()), (done, done));
    assert!(most_at_once(&bench) <= 2);
}

#[test]
fn one_of_eight_definitions_is_stored() {
    let bench = Bench::new();
    let file = bench.file("w.toml", NOTE);
    let args = ["schedule", &file, "--id", "s", "--cron", "0 4 * * *", "--start", "2001-01-01", "--json"];
    let said = bench.at_once(&vec![patient(&args); 8]);
    let mut results: Vec<_> =
        said.iter().map(|said| said.json()["result"].as_str().unwrap().to_owned()).collect();
    results.sort_unstable();
    assert_eq!(results.iter().filter(|result| *result == "created").count(), 1, "{said:?}");
    assert_eq!(results.iter().filter(|result| *result == "unchanged").count(), 7, "{said:?}");
    bench.is_sound();
}

#[test]
fn many_inputs_are_admitted_together_or_not_at_all_whenever_they_are_killed() {
    const EACH: usize = 12;
    let bench = Bench::new();
    bench.schedule("s", NOTE, &["--every", "1d", "--start", "2999-01-01"]);
    bench.file("in.jsonl", &(0..EACH).fold(String::new(), |lines, n| lines + &n.to_string() + "\n"));
    let args = patient(&["trigger", "s", "--inputs", "@in.jsonl"]);
    let started = std::time::Instant::now();
    bench.run(&args).exits(0);
    let whole = started.elapsed() + Duration::from_millis(5);
    let count = || std::fs::read_dir(bench.store().join("runs/active")).unwrap().count();
    let mut before = count();
    assert_eq!(before, EACH);
    let mut killed = 0;
    for part in 0..24 {
        let mut child = bench.start(&args);
        // A moment of its life to be killed in; whichever it turns out to be, the promise holds.
        std::thread::sleep(whole * part / 24);
        let _ = child.kill();
        let ended = child.wait().unwrap();
        killed += u32::from(ended.code().is_none());
        bench.json(&["tick", "--no-dispatch"]);
        let after = count();
        assert!(after == before || after == before + EACH, "{after} after {before}");
        assert!(!ended.success() || after == before + EACH);
        before = after;
        // Extra runs of the same second do not get in the way of what is filed late.
        bench.run(&["trigger", "s"]).exits(0);
        before += 1;
        assert_eq!(count(), before);
    }
    assert!(killed > 0);
    bench.has_no_errors();
}

#[test]
fn an_extra_run_files_a_committed_batch_first() {
    let bench = Bench::new();
    bench.schedule("s", NOTE, &["--every", "1d", "--start", "2999-01-01"]);
    bench.file("in.jsonl", "1\n2\n3\n");
    // What a crash between the commit and the filing leaves.
    bench.run(&["trigger", "s", "--inputs", "@in.jsonl"]).exits(0);
    let store = bench.store();
    let batch = store.join("runs/batches/1-1.committed");
    std::fs::create_dir_all(&batch).unwrap();
    let runs: Vec<_> = std::fs::read_dir(store.join("runs/active")).unwrap().map(Result::unwrap).collect();
    for run in &runs {
        std::fs::rename(run.path(), batch.join(run.file_name())).unwrap();
    }
    let report = bench.json(&["trigger", "s"]);
    let mut wanted: BTreeSet<String> =
        runs.iter().map(|run| run.file_name().into_string().unwrap()).collect();
    assert!(wanted.insert(report["run"].as_str().unwrap().to_owned()), "{report}");
    bench.json(&["tick"]);
    ran_once(&bench, &wanted);
    bench.has_no_errors();
}
