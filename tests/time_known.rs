//! Times whose right values are known, refusals, and what becomes of time that passed, through the program.

#![allow(clippy::unwrap_used)]

mod time_support;

use std::time::{Duration, Instant};

use chrono::DateTime;
use serde_json::json;
use time_support::{Bench, GATE, NOTE, TRUE, column};

/// The first `n` times of a trigger, by itself and as a schedule that was started before them.
#[track_caller]
fn next(trigger: &[&str], from: &str, n: usize) -> Vec<String> {
    let bench = Bench::new();
    let n = n.to_string();
    let bare: Vec<&str> =
        ["next"].into_iter().chain(trigger.iter().copied()).chain(["--from", from, "-n", &n]).collect();
    let bare = bench.json(&bare);
    let start = ["--start", "2001-01-01T00:00:00Z"];
    bench.schedule("s", GATE, &trigger.iter().copied().chain(start).collect::<Vec<_>>());
    assert_eq!(bench.json(&["next", "s", "--from", from, "-n", &n]), bare);
    assert_eq!(bare.as_object().unwrap().keys().collect::<Vec<_>>(), ["items"]);
    bare["items"].as_array().unwrap().iter().map(|at| at.as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_fixed_time_inside_a_gap_is_the_first_instant_after_it() {
    let berlin = ["--cron", "30 2 * * *", "--tz", "Europe/Berlin"];
    assert_eq!(
        next(&berlin, "2027-03-27T00:00+01:00", 3),
        ["2027-03-27T02:30:00+01:00", "2027-03-28T03:00:00+02:00", "2027-03-29T02:30:00+02:00"]
    );
    let santiago = ["--cron", "0 0 * * 0", "--tz", "America/Santiago"];
    assert_eq!(
        next(&santiago, "2027-08-20", 4),
        [
            "2027-08-22T00:00:00-04:00",
            "2027-08-29T00:00:00-04:00",
            "2027-09-05T01:00:00-03:00",
            "2027-09-12T00:00:00-03:00"
        ]
    );
    let nuuk = ["--cron", "30 23 * * *", "--tz", "America/Nuuk"];
    assert_eq!(
        next(&nuuk, "2027-03-26T12:00-02:00", 3),
        ["2027-03-26T23:30:00-02:00", "2027-03-28T00:00:00-01:00", "2027-03-28T23:30:00-01:00"]
    );
}

#[test]
fn a_skipped_gap_is_absent_and_has_its_receipt() {
    let berlin = ["--cron", "30 2 * * *", "--tz", "Europe/Berlin", "--dst-gap", "skip"];
    assert_eq!(
        next(&berlin, "2027-03-27T00:00+01:00", 2),
        ["2027-03-27T02:30:00+01:00", "2027-03-29T02:30:00+02:00"]
    );

    let bench = Bench::new();
    let start = ["--start", "2027-03-28T00:00:00+01:00"];
    bench.schedule("s", GATE, &berlin.iter().copied().chain(start).collect::<Vec<_>>());
    let report = bench.tick("2027-03-28T12:00:00Z", &[]);
    assert_eq!(report["admitted"], json!([]));
    assert_eq!(column(&report["missed"], "reason"), ["dst_gap"]);
    assert_eq!(bench.receipts("s"), ["2027-03-28T01:00:00Z dst_gap"]);
    let history = bench.json(&["history", "--schedule", "s"]);
    assert_eq!(column(&history["items"], "kind"), ["missed"]);
    assert_eq!(column(&history["items"], "occurrence"), ["2027-03-28T01:00:00.000Z"]);
    assert!(history["items"][0]["detail"].to_string().contains("dst_gap"), "{history}");

    // Once told, it is not told again.
    assert_eq!(bench.tick("2027-03-28T12:00:01Z", &[])["missed"], json!([]));
    assert_eq!(bench.receipts("s").len(), 1);
    bench.has_no_errors();
}

#[test]
fn a_wildcard_follows_elapsed_time_through_a_fold() {
    let times =
        next(&["--cron", "*/10 * * * *", "--tz", "Australia/Lord_Howe"], "2027-04-04T01:25+11:00", 12);
    let instants: Vec<i64> =
        times.iter().map(|at| DateTime::parse_from_rfc3339(at).unwrap().timestamp()).collect();
    assert!(instants.windows(2).all(|pair| pair[1] - pair[0] == 600), "{times:?}");
    for minute in ["01:30", "01:40", "01:50"] {
        let local = format!("2027-04-04T{minute}:00");
        let offsets: Vec<&str> = times.iter().filter_map(|at| at.strip_prefix(&local)).collect();
        assert_eq!(offsets, ["+11:00", "+10:30"], "{times:?}");
    }
}

#[test]
fn rare_days_are_found() {
    let fifth_friday = ["--cron", "0 0 * 2 5#5", "--tz", "UTC"];
    assert_eq!(next(&fifth_friday, "2027-01-01", 1), ["2036-02-29T00:00:00+00:00"]);
}

#[test]
fn a_star_in_one_day_field_means_both_and_values_in_both_mean_either() {
    assert_eq!(
        next(&["--cron", "0 0 */2 * 1"], "2027-01-01", 4),
        [
            "2027-01-11T00:00:00+00:00",
            "2027-01-25T00:00:00+00:00",
            "2027-02-01T00:00:00+00:00",
            "2027-02-15T00:00:00+00:00"
        ]
    );
    assert_eq!(
        next(&["--cron", "0 0 6 * 7"], "2027-01-01", 4),
        [
            "2027-01-03T00:00:00+00:00",
            "2027-01-06T00:00:00+00:00",
            "2027-01-10T00:00:00+00:00",
            "2027-01-17T00:00:00+00:00"
        ]
    );
}

#[test]
fn a_slept_through_stretch_is_one_run_and_one_entry() {
    let bench = Bench::new();
    bench.schedule("s", NOTE, &["--cron", "* * * * *", "--start", "2027-01-01T00:00:00Z"]);
    let report = bench.tick("2027-01-01T00:10:30Z", &[]);
    assert_eq!(column(&report["admitted"], "run"), ["s@20270101T001000Z"]);
    assert_eq!(column(&report["runs"], "status"), ["completed"]);
    assert_eq!(report["missed"][0]["count"], 10);
    assert_eq!(bench.receipts("s"), ["2027-01-01T00:00:00Z..2027-01-01T00:09:00Z x10 catchup"]);
    let history = bench.json(&["history", "--schedule", "s"]);
    let kinds = column(&history["items"], "kind");
    assert_eq!(kinds.iter().filter(|kind| **kind == "missed").count(), 1, "{history}");
    assert_eq!(kinds.iter().filter(|kind| **kind == "admitted").count(), 1, "{history}");
    assert_eq!(bench.lines("ran"), ["s@20270101T001000Z"]);
    bench.has_no_errors();
}

#[test]
fn a_replaced_schedule_does_not_fire_for_what_has_passed() {
    let bench = Bench::new();
    let file = bench.file("s.toml", NOTE);
    bench.schedule(
        "s",
        NOTE,
        &["--cron", "0 4 * * *", "--start", "2001-01-01T00:00:00Z", "--until", "2001-01-31"],
    );
    bench.run(&["schedule", &file, "--id", "s", "--cron", "0 5 * * *"]).exits(73).says("--replace");
    // The new hour matches on the same days; nothing before the moment of replacing counts.
    bench.run(&["schedule", &file, "--id", "s", "--cron", "0 5 1 1 *", "--replace"]).exits(0);
    assert_eq!(bench.receipts("s"), ["2001-01-01T04:00:00Z..2001-01-30T04:00:00Z x30 replaced"]);
    let report = bench.json(&["tick"]);
    assert_eq!(report["missed"], json!([]));
    assert_eq!(report["skipped"], json!([]));
    assert!(column(&report["admitted"], "run").iter().all(|run| !run.starts_with("s@2001")), "{report}");
    assert!(bench.lines("ran").iter().all(|run| !run.starts_with("s@2001")));
    bench.is_sound();
}

#[test]
fn a_tick_with_a_wrong_clock_is_warned_about_and_taken_back() {
    let bench = Bench::new();
    bench.schedule("s", NOTE, &["--every", "1s"]);
    let report = bench.tick("2098-01-01T00:00:00Z", &[]);
    assert_eq!(column(&report["admitted"], "run"), ["s@20980101T000000Z"]);

    let said = bench.run(&["tick", "--json"]).exits(0);
    assert_eq!(said.json()["admitted"], json!([]));
    said.says("rewind s");
    bench.run(&["status"]).exits(0).says("rewind s");
    bench.run(&["fsck"]).exits(0).says("rewind s");

    bench.run(&["rewind", "s"]).exits(0);
    bench.run(&["rewind", "s"]).exits(0).says("not ahead");
    let limit = Instant::now() + Duration::from_secs(30);
    loop {
        let report = bench.json(&["tick"]);
        if report["admitted"] != json!([]) {
            break;
        }
        assert!(Instant::now() < limit, "nothing becomes due: {report}");
    }
    let mut ran = bench.lines("ran");
    assert_eq!(ran.len(), 2, "{ran:?}");
    ran.sort_unstable();
    ran.dedup();
    assert_eq!(ran.len(), 2, "{ran:?}");
    let said = bench.run(&["tick"]).exits(0);
    assert!(!said.err.contains("ahead of the clock"), "{said:?}");
    bench.is_sound();
}

#[test]
fn what_can_never_be_meant_is_refused_at_once() {
    let bench = Bench::new();
    let file = bench.file("s.toml", TRUE);
    let cases: &[(&[&str], i32, &str)] = &[
        (&["--cron", "0 0 30 2 *"], 65, "no date"),
        (&["--cron", "0 0 31 4,6,9,11 *"], 65, "no date"),
        (&["--cron", "0 0 L-30 2 *"], 65, "no date"),
        (&["--cron", "*/0 * * * *"], 2, "step of 0"),
        (&["--cron", "*/61 * * * *"], 2, "beyond the field"),
        (&["--cron", "0 0 */32 * *"], 2, "beyond the field"),
        (&["--cron", "0 22-2 * * *"], 2, "22-23,0-2"),
        (&["--cron", "0 0 * * FRI-MON"], 2, "backwards"),
        (&["--cron", "0 24 * * *"], 2, "above 23"),
        (&["--cron", "0 0 0 * *"], 2, "below 1"),
        (&["--cron", "* * * *"], 2, "4 fields"),
        (&["--cron", "0 0 * * *", "--tz", "Europe/Berln"], 2, "Europe/Berlin"),
        (&["--cron", "0 0 * * *", "--tz", "PST"], 2, "IANA"),
        (&["--every", "0s"], 2, "at least one second"),
        (&["--every", "1month"], 2, "month"),
        (&["--every", "1h", "--count", "0"], 2, "--count"),
        (
            &["--every", "1h", "--start", "2027-02-01", "--until", "2027-01-01"],
            65,
            "start is after its until",
        ),
        (&["--cron", "0 0 1 1 *", "--start", "2027-01-02", "--until", "2027-12-31"], 65, "between its start"),
        (&["--at", "2027-01-01T12:00Z", "--until", "2027-01-01T11:00Z"], 65, "outside of its bounds"),
        (&["--at", "2027-02-30"], 2, "no such date"),
        (&["--at", "yesterday"], 2, "--at"),
    ];
    for (trigger, code, word) in cases {
        let scheduled: Vec<&str> = ["schedule", &file].into_iter().chain(trigger.iter().copied()).collect();
        bench.run(&scheduled).exits(*code).says(word);
        let next: Vec<&str> = ["next"].into_iter().chain(trigger.iter().copied()).collect();
        bench.run(&next).exits(*code).says(word);
    }
    bench.run(&["schedule", &file, "--at", "2020-01-01T00:00Z"]).exits(65).says("has passed");
    let said = bench.run(&["schedule", &file, "--cron", "0 0 30 2 *", "--json"]).exits(65);
    assert_eq!(said.json()["error"]["code"], 65);
    assert_eq!(bench.json(&["schedules"])["items"], json!([]));
}

#[test]
fn the_zone_of_the_host_plays_no_part() {
    let bench = Bench::new();
    for zone in ["Asia/Tokyo", "America/New_York", ":nonsense"] {
        let output = bench
            .command(&["next", "--cron", "0 0 * * *", "--from", "2027-01-01T00:00", "-n", "1", "--json"])
            .env("TZ", zone)
            .output()
            .unwrap();
        let items: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(items, json!({ "items": ["2027-01-02T00:00:00+00:00"] }), "{zone}");
    }
}
