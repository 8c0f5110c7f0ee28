//! Years that were slept through cost one tick no more than a minute does, in entries and in work.
//!
//! That each of these ends within the patience of a test is part of what they show: one occurrence after the
//! other, they would not.

#![allow(clippy::unwrap_used)]

mod time_support;

use serde_json::json;
use time_support::{Bench, GATE, column};

/// Schedules with every way of catching up; all of them start with 2001.
fn sleepers(bench: &Bench, trigger: &[&str]) {
    let ways: [(&str, &[&str]); 5] = [
        ("latest", &[]),
        ("all", &["--catchup", "all", "--overlap", "allow"]),
        ("none", &["--catchup", "none"]),
        ("dated", &["--catchup", "all", "--overlap", "queue", "--deadline", "1000days"]),
        ("jittery", &["--jitter", "10m"]),
    ];
    for (id, way) in ways {
        let start = ["--start", "2001-01-01T00:00:00Z"];
        bench.schedule(id, GATE, &trigger.iter().chain(&start).chain(way).copied().collect::<Vec<_>>());
    }
}

/// How many receipts a schedule has, and for how many times.
fn told(bench: &Bench, report: &serde_json::Value, id: &str) -> (usize, u64) {
    let admitted = column(&report["admitted"], "schedule").iter().filter(|s| **s == id).count();
    let unrun = ["missed", "skipped"].map(|kind| report[kind].as_array().unwrap().clone()).concat();
    let counts: Vec<u64> = unrun
        .iter()
        .filter(|item| item["schedule"] == id)
        .map(|item| item["count"].as_u64().unwrap())
        .collect();
    assert_eq!(bench.receipts(id).len(), counts.len());
    (admitted, counts.iter().sum())
}

#[test]
fn ten_years_of_minutes_are_a_few_entries() {
    let bench = Bench::new();
    sleepers(&bench, &["--cron", "* * * * *"]);
    let report = bench.tick("2011-01-01T00:00:30Z", &["--no-dispatch"]);
    // 3652 days, and both ends.
    let all = 3652 * 1440 + 1;
    assert_eq!(told(&bench, &report, "latest"), (1, all - 1));
    assert_eq!(told(&bench, &report, "all"), (100, all - 100));
    assert_eq!(told(&bench, &report, "none"), (1, all - 1));
    assert_eq!(told(&bench, &report, "dated"), (100, all - 100));
    let (admitted, missed) = told(&bench, &report, "jittery");
    assert!(admitted == 1 && missed < all && missed > all - 12, "{missed}");
    assert_eq!(bench.tick("2011-01-01T00:00:59Z", &["--no-dispatch"])["missed"], json!([]));
}

#[test]
fn three_years_of_seconds_are_a_few_entries() {
    let bench = Bench::new();
    sleepers(&bench, &["--cron", "* * * * * *"]);
    bench.schedule("every", GATE, &["--every", "1s", "--start", "2001-01-01T00:00:00Z"]);
    let report = bench.tick("2004-01-01T00:00:00Z", &["--no-dispatch"]);
    let all = 1095 * 86_400 + 1;
    assert_eq!(told(&bench, &report, "latest"), (1, all - 1));
    assert_eq!(told(&bench, &report, "every"), (1, all - 1));
    assert_eq!(told(&bench, &report, "all"), (100, all - 100));
    // All of the last minute are fresh, and the first of them is in the way of the others.
    assert_eq!(told(&bench, &report, "none"), (1, all - 1));
    assert_eq!(told(&bench, &report, "dated"), (100, all - 100));
    assert_eq!(bench.receipts("latest").len(), 1);
    bench.has_no_errors();
}

#[test]
fn years_in_a_pause_are_one_entry() {
    let bench = Bench::new();
    bench.schedule(
        "s",
        GATE,
        &["--cron", "* * * * * *", "--start", "2001-01-01", "--until", "2004-01-01", "--paused"],
    );
    bench.run(&["unpause", "s"]).exits(0);
    assert_eq!(bench.receipts("s"), ["2001-01-01T00:00:00Z..2004-01-01T00:00:00Z x94608001 paused"]);
    bench.is_sound();
}
