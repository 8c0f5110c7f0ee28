//! Overlap, catch-up, pauses, replacements, removals and the options of `tick`, through the program.

#![allow(clippy::unwrap_used)]

mod time_support;

use serde_json::{Value, json};
use time_support::{Bench, Clocked, GATE, NOTE, TRUE, at, column};

/// Every minute from the first of 2027 on, with a gate, so that runs stay unfinished.
const MINUTELY: [&str; 4] = ["--cron", "* * * * *", "--start", "2027-01-01T00:00:00Z"];

fn minutely<'a>(more: &[&'a str]) -> Vec<&'a str> {
    MINUTELY.into_iter().chain(more.iter().copied()).collect()
}

fn admitted(report: &Value) -> Vec<&str> {
    column(&report["admitted"], "run")
}

fn statuses(bench: &Bench) -> Vec<(String, String)> {
    let list = bench.json(&["list"]);
    let mut runs: Vec<_> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| (run["run"].as_str().unwrap().to_owned(), run["status"].as_str().unwrap().to_owned()))
        .collect();
    runs.sort_unstable();
    runs
}

#[test]
fn overlap_skip_lets_an_unfinished_run_keep_others_out() {
    let bench = Bench::new();
    bench.schedule("s", GATE, &minutely(&[]));
    assert_eq!(admitted(&bench.tick("2027-01-01T00:00:00Z", &[])), ["s@20270101T000000Z"]);
    let report = bench.tick("2027-01-01T00:01:00Z", &[]);
    assert_eq!(report["admitted"], json!([]));
    assert_eq!(column(&report["skipped"], "run"), ["s@20270101T000000Z"]);
    // Three more passed: the newest is skipped, the others were missed.
    bench.tick("2027-01-01T00:04:00Z", &[]);
    assert_eq!(
        bench.receipts("s"),
        [
            "2027-01-01T00:01:00Z skipped by s@20270101T000000Z",
            "2027-01-01T00:02:00Z..2027-01-01T00:03:00Z x2 catchup",
            "2027-01-01T00:04:00Z skipped by s@20270101T000000Z",
        ]
    );
    bench.run(&["resume", "s@20270101T000000Z", "--outcome", "submitted"]).exits(0);
    assert_eq!(admitted(&bench.tick("2027-01-01T00:05:00Z", &[])), ["s@20270101T000500Z"]);
    bench.has_no_errors();
}

#[test]
fn overlap_skip_with_catch_up_all_admits_one_and_skips_the_others() {
    let bench = Bench::new();
    bench.schedule("s", GATE, &minutely(&["--catchup", "all"]));
    let report = bench.tick("2027-01-01T00:03:00Z", &[]);
    assert_eq!(admitted(&report), ["s@20270101T000000Z"]);
    assert_eq!(
        bench.receipts("s"),
        ["2027-01-01T00:01:00Z..2027-01-01T00:03:00Z x3 skipped by s@20270101T000000Z"]
    );
}

#[test]
fn overlap_queue_runs_one_at_a_time_in_order() {
    let bench = Bench::with_capacity(8);
    let busy = "name = \"job\"\n[[step]]\nid = \"go\"\n\
        run = \"mkdir busy && echo $WFCTL_RUN >> ran && rmdir busy\"\n";
    bench.schedule("s", busy, &minutely(&["--catchup", "all", "--overlap", "queue"]));
    let report = bench.tick("2027-01-01T00:19:00Z", &[]);
    assert_eq!(report["admitted"].as_array().unwrap().len(), 20);
    // A step that had found another one at work would have failed.
    assert!(column(&report["runs"], "status").iter().all(|status| *status == "completed"), "{report}");
    let wanted: Vec<String> = (0..20).map(|minute| format!("s@20270101T00{minute:02}00Z")).collect();
    assert_eq!(bench.lines("ran"), wanted);
    bench.has_no_errors();
}

#[test]
fn overlap_queue_waits_behind_a_gate() {
    let bench = Bench::with_capacity(8);
    bench.schedule("s", GATE, &minutely(&["--catchup", "all", "--overlap", "queue"]));
    bench.tick("2027-01-01T00:02:00Z", &[]);
    let status = |run: &str, status: &str| (run.to_owned(), status.to_owned());
    assert_eq!(
        statuses(&bench),
        [
            status("s@20270101T000000Z", "interrupted"),
            status("s@20270101T000100Z", "queued"),
            status("s@20270101T000200Z", "queued"),
        ]
    );
    bench.run(&["resume", "s@20270101T000000Z", "--outcome", "submitted"]).exits(0);
    bench.tick("2027-01-01T00:02:01Z", &[]);
    assert_eq!(
        statuses(&bench),
        [
            status("s@20270101T000000Z", "completed"),
            status("s@20270101T000100Z", "interrupted"),
            status("s@20270101T000200Z", "queued"),
        ]
    );
}

#[test]
fn overlap_queue_one_lets_one_wait() {
    let bench = Bench::new();
    bench.schedule("s", GATE, &minutely(&["--overlap", "queue-one"]));
    assert_eq!(admitted(&bench.tick("2027-01-01T00:00:00Z", &[])), ["s@20270101T000000Z"]);
    assert_eq!(admitted(&bench.tick("2027-01-01T00:01:00Z", &[])), ["s@20270101T000100Z"]);
    let report = bench.tick("2027-01-01T00:02:00Z", &[]);
    assert_eq!(report["admitted"], json!([]));
    assert_eq!(bench.receipts("s"), ["2027-01-01T00:02:00Z skipped by s@20270101T000100Z"]);
    let found = statuses(&bench);
    assert_eq!(
        found.iter().map(|(_, status)| status.as_str()).collect::<Vec<_>>(),
        ["interrupted", "queued"]
    );
}

#[test]
fn overlap_allow_runs_beside() {
    let bench = Bench::with_capacity(1);
    bench.schedule("s", GATE, &minutely(&["--catchup", "all", "--overlap", "allow"]));
    assert_eq!(bench.tick("2027-01-01T00:04:00Z", &[])["admitted"].as_array().unwrap().len(), 5);
    let found = statuses(&bench);
    assert!(found.iter().all(|(_, status)| status == "interrupted"), "{found:?}");
}

#[test]
fn catch_up_all_has_a_limit_and_a_deadline() {
    let bench = Bench::new();
    let all = ["--catchup", "all", "--overlap", "allow"];
    let with = |more: &[&'static str]| minutely(&all.iter().chain(more).copied().collect::<Vec<_>>());
    bench.schedule("default", GATE, &with(&[]));
    bench.schedule("limited", GATE, &with(&["--catchup-limit", "2"]));
    bench.schedule("dated", GATE, &with(&["--deadline", "90s"]));
    bench.schedule("both", GATE, &with(&["--deadline", "5m", "--catchup-limit", "3"]));
    let report = bench.tick("2027-01-01T03:00:00Z", &["--no-dispatch"]);
    let count = |id: &str| column(&report["admitted"], "schedule").iter().filter(|s| **s == id).count();
    assert_eq!([count("default"), count("limited"), count("dated"), count("both")], [100, 2, 2, 3]);
    assert_eq!(bench.receipts("default"), ["2027-01-01T00:00:00Z..2027-01-01T01:20:00Z x81 catchup"]);
    assert_eq!(bench.receipts("limited"), ["2027-01-01T00:00:00Z..2027-01-01T02:58:00Z x179 catchup"]);
    assert_eq!(bench.receipts("dated"), ["2027-01-01T00:00:00Z..2027-01-01T02:58:00Z x179 deadline"]);
    assert_eq!(
        bench.receipts("both"),
        [
            "2027-01-01T00:00:00Z..2027-01-01T02:54:00Z x175 deadline",
            "2027-01-01T02:55:00Z..2027-01-01T02:57:00Z x3 catchup",
        ]
    );
    bench.has_no_errors();
}

#[test]
fn catch_up_none_takes_what_is_fresh() {
    let bench = Bench::new();
    bench.schedule("s", TRUE, &minutely(&["--catchup", "none"]));
    bench.schedule("strict", TRUE, &minutely(&["--catchup", "none", "--deadline", "10s"]));
    // A minute old, inclusive.
    let report = bench.tick("2027-01-01T00:01:30Z", &[]);
    assert_eq!(admitted(&report), ["s@20270101T000100Z"]);
    assert_eq!(bench.receipts("s"), ["2027-01-01T00:00:00Z deadline"]);
    assert_eq!(bench.receipts("strict"), ["2027-01-01T00:00:00Z..2027-01-01T00:01:00Z x2 deadline"]);
    let report = bench.tick("2027-01-01T00:02:10Z", &[]);
    assert_eq!(admitted(&report), ["s@20270101T000200Z", "strict@20270101T000200Z"]);
}

#[test]
fn catch_up_latest_with_a_deadline_misses_what_is_older() {
    let bench = Bench::new();
    bench.schedule("s", TRUE, &["--cron", "0 * * * *", "--start", "2027-01-01", "--deadline", "30m"]);
    assert_eq!(admitted(&bench.tick("2027-01-01T02:31:00Z", &[])), Vec::<&str>::new());
    assert_eq!(bench.receipts("s"), ["2027-01-01T00:00:00Z..2027-01-01T02:00:00Z x3 deadline"]);
    assert_eq!(admitted(&bench.tick("2027-01-01T03:30:00Z", &[])), ["s@20270101T030000Z"]);
}

#[test]
fn time_that_passes_while_paused_is_missed() {
    let bench = Bench::new();
    // All of it is past, so that unpausing now comes after the last time.
    let past =
        ["--cron", "0 4 * * *", "--start", "2001-01-01", "--until", "2001-01-10T05:00", "--catchup", "all"];
    bench.schedule("s", NOTE, &past);
    let report = bench.tick("2001-01-02T05:00:00Z", &[]);
    assert_eq!(report["admitted"].as_array().unwrap().len(), 1);
    bench.run(&["pause", "s", "--by", "me"]).exits(0);
    bench.run(&["pause", "s"]).exits(0).says("already");
    let before = bench.snapshot();
    assert_eq!(bench.tick("2001-01-05T05:00:00Z", &[])["admitted"], json!([]));
    bench.is_as(&before);
    bench.run(&["unpause", "s"]).exits(0);
    bench.run(&["unpause", "s"]).exits(0).says("not paused");
    assert_eq!(
        bench.receipts("s"),
        [
            "2001-01-02T04:00:00Z skipped by s@20010101T040000Z",
            "2001-01-03T04:00:00Z..2001-01-10T04:00:00Z x8 paused",
        ]
    );
    let report = bench.json(&["tick"]);
    assert_eq!(report["admitted"], json!([]));
    assert_eq!(bench.lines("ran"), ["s@20010101T040000Z"]);
    bench.is_sound();
}

#[test]
fn a_schedule_may_begin_paused() {
    let bench = Bench::new();
    bench.schedule(
        "s",
        NOTE,
        &["--every", "1d", "--start", "2001-01-01", "--until", "2001-01-05", "--paused"],
    );
    assert_eq!(bench.json(&["tick"])["admitted"], json!([]));
    assert_eq!(bench.json(&["status"])["schedules"], json!({ "total": 1, "paused": 1 }));
    bench.run(&["unpause", "s"]).exits(0);
    assert_eq!(bench.receipts("s"), ["2001-01-01T00:00:00Z..2001-01-05T00:00:00Z x5 paused"]);
    assert_eq!(bench.json(&["tick"])["admitted"], json!([]));
    assert!(bench.lines("ran").is_empty());
    bench.is_sound();
}

#[test]
fn a_removed_schedule_leaves_its_past_behind() {
    let bench = Bench::new();
    bench.schedule("s", NOTE, &["--every", "1d", "--start", "2001-01-01", "--until", "2001-01-05"]);
    assert_eq!(admitted(&bench.tick("2001-01-03T00:00:00Z", &[])), ["s@20010103T000000Z"]);
    bench.run(&["remove", "s"]).exits(0);
    for command in ["remove", "pause", "unpause", "rewind", "trigger", "next"] {
        bench.run(&[command, "s"]).exits(66);
    }
    assert_eq!(bench.json(&["schedules"])["items"], json!([]));
    assert_eq!(bench.json(&["tick"])["admitted"], json!([]));
    // Its runs are kept.
    bench.run(&["show", "s@20010103T000000Z"]).exits(0);

    // The same id again, from the same start: everything before the removal has its receipt.
    bench.schedule("s", NOTE, &["--every", "1d", "--start", "2001-01-01"]);
    let report = bench.json(&["tick"]);
    assert_eq!(report["admitted"], json!([]));
    assert_eq!(report["missed"], json!([]));
    assert_eq!(
        bench.receipts("s"),
        [
            "2001-01-01T00:00:00Z..2001-01-02T00:00:00Z x2 catchup",
            "2001-01-04T00:00:00Z..2001-01-05T00:00:00Z x2 replaced",
        ]
    );
    assert_eq!(bench.lines("ran"), ["s@20010103T000000Z"]);
    bench.is_sound();
}

#[test]
fn a_start_in_the_past_makes_times_due_and_bounds_are_inclusive() {
    let bench = Bench::new();
    let all = ["--catchup", "all", "--overlap", "allow"];
    let bounded = ["--cron", "0 * * * *", "--start", "2001-01-01T01:00Z", "--until", "2001-01-01T03:00Z"];
    bench.schedule("bounded", TRUE, &bounded.into_iter().chain(all).collect::<Vec<_>>());
    let counted = ["--cron", "0 * * * *", "--start", "2001-01-01T01:00Z", "--count", "2"];
    bench.schedule("counted", TRUE, &counted.into_iter().chain(all).collect::<Vec<_>>());
    let once = ["--at", "2001-01-01T05:00Z", "--start", "2001-01-01T05:00Z"];
    bench.schedule("once", TRUE, &once);
    let report = bench.json(&["tick"]);
    let mut runs = admitted(&report);
    runs.sort_unstable();
    assert_eq!(
        runs,
        [
            "bounded@20010101T010000Z",
            "bounded@20010101T020000Z",
            "bounded@20010101T030000Z",
            "counted@20010101T010000Z",
            "counted@20010101T020000Z",
            "once@20010101T050000Z",
        ]
    );
    let report = bench.json(&["tick"]);
    assert_eq!((&report["admitted"], &report["missed"]), (&json!([]), &json!([])));
    bench.is_sound();
}

#[test]
fn jitter_delays_but_does_not_rename() {
    let bench = Bench::new();
    let jitter = ["--cron", "0 * * * *", "--start", "2027-01-01", "--count", "1", "--jitter", "30m"];
    for id in ["a", "b", "c", "d"] {
        bench.schedule(id, TRUE, &jitter);
    }
    // Each comes due in the minute that the hash of its name gives, the same in every store.
    let due = |bench: &Bench| {
        let mut due = Vec::new();
        for minute in 0..=30 {
            let report = bench.tick(&format!("2027-01-01T00:{minute:02}:00Z"), &["--no-dispatch"]);
            due.extend(admitted(&report).into_iter().map(|run| (minute, run.to_owned())));
        }
        due
    };
    let first = due(&bench);
    let mut runs: Vec<&str> = first.iter().map(|(_, run)| run.as_str()).collect();
    runs.sort_unstable();
    assert_eq!(
        runs,
        ["a@20270101T000000Z", "b@20270101T000000Z", "c@20270101T000000Z", "d@20270101T000000Z"]
    );
    assert!(first.iter().any(|(minute, _)| *minute > 0), "{first:?}");
    let other = Bench::new();
    for id in ["a", "b", "c", "d"] {
        other.schedule(id, TRUE, &jitter);
    }
    assert_eq!(due(&other), first);
}

#[test]
fn the_same_definition_again_changes_nothing() {
    let bench = Bench::new();
    let trigger = ["--cron", "0 4 * * *", "--tz", "Europe/Berlin", "--catchup", "all", "--deadline", "1h"];
    bench.schedule("s", TRUE, &trigger).says("created");
    let before = bench.snapshot();
    bench.schedule("s", TRUE, &trigger).says("unchanged");
    bench.schedule("s", TRUE, &trigger.iter().copied().chain(["--replace"]).collect::<Vec<_>>());
    bench.is_as(&before);

    let file = bench.file("s.toml", TRUE);
    let again = |more: &[&str]| {
        let args = ["schedule", &file, "--id", "s"].into_iter().chain(more.iter().copied());
        bench.run(&args.collect::<Vec<_>>())
    };
    again(&["--cron", "0 5 * * *", "--tz", "Europe/Berlin", "--catchup", "all", "--deadline", "1h"])
        .exits(73);
    let with = |more: &[&'static str]| trigger.iter().chain(more).copied().collect::<Vec<_>>();
    again(&with(&["--input", "1"])).exits(73);
    again(&with(&["--paused"])).exits(73);
    again(&with(&["--overlap", "allow"])).exits(73);
    bench.file("s.toml", GATE);
    again(&with(&[])).exits(73);
    bench.is_as(&before);
}

#[test]
fn relative_times_are_never_the_same() {
    let bench = Bench::new();
    let file = bench.file("s.toml", TRUE);
    for (id, trigger) in [
        ("now", &["--at", "now"][..]),
        ("soon", &["--at", "+10m"]),
        ("start", &["--every", "1h", "--start", "+10m"]),
        ("until", &["--every", "1h", "--until", "+10days"]),
    ] {
        let args: Vec<&str> =
            ["schedule", &file, "--id", id].into_iter().chain(trigger.iter().copied()).collect();
        bench.run(&args).exits(0);
        bench.run(&args).exits(73);
    }
}

#[test]
fn an_extra_run_leaves_trigger_and_policies_alone() {
    let bench = Bench::new();
    bench.schedule("s", NOTE, &minutely(&["--input", "{\"n\":1}"]));
    let before = bench.snapshot();
    let given = bench.json(&["trigger", "s", "--input", "{\"n\":2}"]);
    let own = bench.json(&["trigger", "s"]);
    let changed: Vec<_> = bench.snapshot().into_iter().filter(|file| !before.contains_key(&file.0)).collect();
    assert!(changed.iter().all(|(path, _)| path.starts_with(bench.store().join("runs"))), "{changed:?}");
    for (run, n) in [(&given, 2), (&own, 1)] {
        let shown = bench.json(&["show", run["run"].as_str().unwrap()]);
        assert_eq!(
            (&shown["input"], &shown["manual"], &shown["status"]),
            (&json!({ "n": n }), &json!(true), &json!("queued"))
        );
    }
    let report = bench.json(&["tick"]);
    assert_eq!(report["admitted"], json!([]));
    assert_eq!(report["runs"].as_array().unwrap().len(), 2);
    assert_eq!(bench.lines("ran").len(), 2);
}

#[test]
fn many_extra_runs_are_admitted_together_or_not_at_all() {
    let bench = Bench::new();
    bench.schedule("s", NOTE, &minutely(&[]));
    bench.file("bad.jsonl", "{\"n\":1}\n{\"n\":\n");
    bench.file("empty.jsonl", "\n\n");
    bench.file("good.jsonl", "{\"n\":1}\n\n2\n\"three\"\n");
    bench.run(&["trigger", "s", "--inputs", "@bad.jsonl"]).exits(65).says("line 2");
    bench.run(&["trigger", "s", "--inputs", "@empty.jsonl"]).exits(65);
    bench.run(&["trigger", "s", "--inputs", "@none.jsonl"]).exits(66);
    assert_eq!(bench.json(&["list"])["items"], json!([]));
    let report = bench.json(&["trigger", "s", "--inputs", "@good.jsonl"]);
    let runs: Vec<String> = admitted(&report).into_iter().map(str::to_owned).collect();
    let inputs: Vec<Value> = runs.iter().map(|run| bench.json(&["show", run])["input"].clone()).collect();
    assert_eq!(inputs, [json!({ "n": 1 }), json!(2), json!("three")]);
    bench.json(&["tick"]);
    assert_eq!(bench.lines("ran").len(), 3);
    bench.has_no_errors();
}

#[test]
fn a_dry_run_changes_no_byte() {
    let bench = Bench::new();
    bench.schedule(
        "s",
        GATE,
        &minutely(&["--catchup", "all", "--catchup-limit", "2", "--overlap", "queue-one"]),
    );
    let before = bench.snapshot();
    let told = bench.tick("2027-01-01T00:05:00Z", &["--dry-run"]);
    bench.is_as(&before);
    let done = bench.tick("2027-01-01T00:05:00Z", &[]);
    for what in ["now", "admitted", "skipped", "missed"] {
        assert_eq!(told[what], done[what]);
    }
    let before = bench.snapshot();
    let told = bench.tick("2027-01-01T00:06:00Z", &["--dry-run"]);
    bench.is_as(&before);
    assert_eq!(admitted(&told), ["s@20270101T000600Z"]);
}

#[test]
fn nothing_is_dispatched_where_that_was_asked_for() {
    let bench = Bench::new();
    bench.schedule("s", NOTE, &minutely(&["--catchup", "all", "--overlap", "allow"]));
    let report = bench.tick("2027-01-01T00:04:00Z", &["--no-dispatch"]);
    assert_eq!((admitted(&report).len(), &report["runs"]), (5, &json!([])));
    assert_eq!(report["queued"], 5);
    assert!(bench.lines("ran").is_empty());
    // The oldest come first.
    let report = bench.tick("2027-01-01T00:04:01Z", &["--max-runs", "2"]);
    assert_eq!(report["queued"], 3);
    let mut ran = bench.lines("ran");
    ran.sort_unstable();
    assert_eq!(ran, ["s@20270101T000000Z", "s@20270101T000100Z"]);
    bench.tick("2027-01-01T00:04:02Z", &[]);
    let mut ran = bench.lines("ran");
    ran.sort_unstable();
    ran.dedup();
    assert_eq!(ran.len(), 5);
}

#[test]
fn max_runs_counts_new_and_waiting_runs() {
    let bench = Bench::with_capacity(4);
    bench.schedule("s", NOTE, &minutely(&["--catchup", "all", "--overlap", "allow"]));
    let report = bench.tick("2027-01-01T00:04:00Z", &["--max-runs", "3"]);
    assert_eq!((admitted(&report).len(), report["runs"].as_array().unwrap().len()), (5, 3));
    assert_eq!(bench.lines("ran").len(), 3);
}

#[test]
fn abandoned_runs_are_left_alone_where_that_was_asked_for() {
    let bench = Bench::with_capacity(1);
    let kill = "name = \"job\"\n[[step]]\nid = \"go\"\nrun = \"kill -9 $PPID; exec sleep 0\"\n";
    bench.schedule("s", kill, &minutely(&["--overlap", "queue"]));
    assert_eq!(bench.run(&["tick", "--now", "2027-01-01T00:00:00Z"]).code, None);
    let report = bench.tick("2027-01-01T00:00:01Z", &["--no-recover"]);
    assert_eq!(report["recovered"], json!([]));
    let shown = bench.json(&["show", "s@20270101T000000Z"]);
    assert_eq!(shown["executing"], true);
    let report = bench.tick("2027-01-01T00:00:02Z", &[]);
    assert_eq!(column(&report["recovered"], "decision"), ["ambiguous"]);
    bench.has_no_errors();
}

#[test]
fn a_clock_that_goes_backwards_admits_nothing_again() {
    let bench = Bench::new();
    bench.schedule("s", NOTE, &minutely(&["--catchup", "all", "--overlap", "allow"]));
    bench.tick("2027-01-01T00:04:00Z", &[]);
    for now in ["2027-01-01T00:02:00Z", "2026-01-01T00:00:00Z", "2027-01-01T00:04:59Z"] {
        let report = bench.tick(now, &[]);
        assert_eq!((&report["admitted"], &report["missed"]), (&json!([]), &json!([])), "{now}");
    }
    assert_eq!(bench.lines("ran").len(), 5);
    assert_eq!(admitted(&bench.tick("2027-01-01T00:05:00Z", &[])), ["s@20270101T000500Z"]);
    bench.has_no_errors();
}

#[test]
fn a_rewind_takes_back_receipts_of_times_to_come_and_no_others() {
    use wfctl::engine::{
        schedule::{Alteration, alter},
        tick::Dispatch,
    };
    let bench = Bench::new();
    bench.schedule("s", GATE, &minutely(&[]));
    let clock = Clocked::new(&bench, at("2027-01-01T00:10:00Z"));
    clock.tick(Dispatch::Nothing).unwrap();
    clock.set(at("2027-01-01T01:00:00Z"));
    clock.tick(Dispatch::Nothing).unwrap();
    clock.set(at("2027-01-01T00:20:30Z"));
    clock.with(|engine| alter(engine, "s", Alteration::Rewind, "me")).unwrap();
    assert_eq!(
        bench.receipts("s"),
        [
            "2027-01-01T00:00:00Z..2027-01-01T00:09:00Z x10 catchup",
            "2027-01-01T00:11:00Z..2027-01-01T00:20:00Z x10 catchup",
        ]
    );
    clock.set(at("2027-01-01T00:21:00Z"));
    let report = clock.tick(Dispatch::Nothing).unwrap();
    assert_eq!(report.skipped.len(), 1);
    bench.has_no_errors();
}
