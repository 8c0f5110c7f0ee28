//! Known right values, and the promises of the module page.

use super::*;

fn at(text: &str) -> DateTime<Utc> {
    parse_time(text, &Zone::utc(), DateTime::UNIX_EPOCH).unwrap()
}

fn cron(expr: &str, zone: &str) -> Definition {
    let zone = Zone::parse(zone).unwrap();
    Definition { zone, ..Definition::new(Rule::Cron(CronExpr::parse(expr).unwrap())) }
}

/// The next occurrences as they read in the zone.
fn next(definition: &Definition, after: &str, n: usize) -> Vec<String> {
    let trigger = Trigger::new(definition.clone());
    let local = |t| definition.zone.local(t).format("%FT%T%:z").to_string();
    trigger.occurrences_after(at(after)).take(n).map(local).collect()
}

#[test]
fn a_time_in_a_gap_fires_once_after_it() {
    let daily = cron("30 2 * * *", "Europe/Berlin");
    assert_eq!(
        next(&daily, "2027-03-27T00:00+01:00", 3),
        ["2027-03-27T02:30:00+01:00", "2027-03-28T03:00:00+02:00", "2027-03-29T02:30:00+02:00"]
    );
    let sunday = cron("0 0 * * 0", "America/Santiago");
    assert_eq!(
        next(&sunday, "2027-08-20", 4),
        [
            "2027-08-22T00:00:00-04:00",
            "2027-08-29T00:00:00-04:00",
            "2027-09-05T01:00:00-03:00",
            "2027-09-12T00:00:00-03:00"
        ]
    );
    let late = cron("30 23 * * *", "America/Nuuk");
    assert_eq!(
        next(&late, "2027-03-26T12:00-02:00", 3),
        ["2027-03-26T23:30:00-02:00", "2027-03-28T00:00:00-01:00", "2027-03-28T23:30:00-01:00"]
    );
}

#[test]
fn a_skipped_time_is_absent_and_reported() {
    let skip = Definition { dst_gap: DstGap::Skip, ..cron("30 2 * * *", "Europe/Berlin") };
    assert_eq!(
        next(&skip, "2027-03-27T00:00+01:00", 2),
        ["2027-03-27T02:30:00+01:00", "2027-03-29T02:30:00+02:00"]
    );
    let trigger = Trigger::new(skip);
    let window = trigger.window("s", at("2027-03-27T00:00+01:00"), at("2027-03-30"));
    assert_eq!(window.skipped_by_gap(), [at("2027-03-28T03:00+02:00")]);
    // The first instant after the gap is an occurrence of its own here: nothing was lost.
    let both = Definition { dst_gap: DstGap::Skip, ..cron("0 2,3 * * *", "Europe/Berlin") };
    let trigger = Trigger::new(both);
    let window = trigger.window("s", at("2027-03-27T00:00+01:00"), at("2027-03-30"));
    assert!(window.skipped_by_gap().is_empty());
}

#[test]
fn several_times_in_one_gap_are_one_occurrence() {
    let several = cron("0,15,30 2,3 28 3 *", "Europe/Berlin");
    assert_eq!(
        next(&several, "2027-03-28", 4),
        [
            "2027-03-28T03:00:00+02:00",
            "2027-03-28T03:15:00+02:00",
            "2027-03-28T03:30:00+02:00",
            "2028-03-28T02:00:00+02:00"
        ]
    );
    let seconds = cron("*/10 30 2 28 3 *", "Europe/Berlin");
    assert_eq!(next(&seconds, "2027-03-28", 2), ["2027-03-28T03:00:00+02:00", "2028-03-28T02:30:00+02:00"]);
}

#[test]
fn a_time_that_exists_twice_follows_the_policy() {
    let daily = cron("30 2 * * *", "Europe/Berlin");
    let folded = |dst_fold| next(&Definition { dst_fold, ..daily.clone() }, "2027-10-30T12:00Z", 3);
    let (first, last, day_after) =
        ("2027-10-31T02:30:00+02:00", "2027-10-31T02:30:00+01:00", "2027-11-01T02:30:00+01:00");
    assert_eq!(folded(DstFold::First)[..2], [first, day_after]);
    assert_eq!(folded(DstFold::Last)[..2], [last, day_after]);
    assert_eq!(folded(DstFold::Both), [first, last, day_after]);
}

#[test]
fn wildcards_follow_elapsed_time() {
    let often = cron("*/10 * * * *", "Australia/Lord_Howe");
    let trigger = Trigger::new(often.clone());
    let times: Vec<_> = trigger.occurrences_after(at("2027-04-04T01:25+11:00")).take(12).collect();
    assert!(times.windows(2).all(|pair| (pair[1] - pair[0]).num_seconds() == 600));
    let local = next(&often, "2027-04-04T01:25+11:00", 12);
    for minute in ["01:30", "01:40", "01:50"] {
        assert_eq!(local.iter().filter(|time| time[11..16] == *minute).count(), 2, "{minute}");
    }
    let hourly = cron("30 * * * *", "Europe/Berlin");
    assert_eq!(
        next(&hourly, "2027-03-28T00:00Z", 2),
        ["2027-03-28T01:30:00+01:00", "2027-03-28T03:30:00+02:00"]
    );
}

#[test]
fn rare_dates_are_found() {
    assert_eq!(next(&cron("0 0 * 2 5#5", "UTC"), "2027-01-01", 1), ["2036-02-29T00:00:00+00:00"]);
    assert_eq!(next(&cron("0 0 29 2 *", "UTC"), "2096-03-01", 1), ["2104-02-29T00:00:00+00:00"]);
}

#[test]
fn day_and_weekday_mean_either_unless_one_starts_with_a_star() {
    let days = |expr| -> Vec<String> {
        next(&cron(expr, "UTC"), "2027-01-01", 4).iter().map(|time| time[5..10].to_owned()).collect()
    };
    assert_eq!(days("0 0 13 * 5"), ["01-08", "01-13", "01-15", "01-22"]);
    assert_eq!(days("0 0 */2 * 5"), ["01-15", "01-29", "02-05", "02-19"]);
    assert_eq!(days("0 0 13 * */2"), ["02-13", "03-13", "04-13", "05-13"]);
    assert_eq!(days("0 0 * * 7"), days("0 0 * * SUN"));
    assert_eq!(days("0 0 * * fri-sun"), days("0 0 * * 0,5,6"));
}

#[test]
fn letters_pick_days_of_the_month() {
    let days = |expr| -> Vec<String> {
        next(&cron(expr, "UTC"), "2027-01-01", 3).iter().map(|time| time[5..10].to_owned()).collect()
    };
    assert_eq!(days("0 0 L * *"), ["01-31", "02-28", "03-31"]);
    assert_eq!(days("0 0 L-2 * *"), ["01-29", "02-26", "03-29"]);
    assert_eq!(days("0 0 LW * *"), ["01-29", "02-26", "03-31"]); // 31 January 2027 is a Sunday
    assert_eq!(days("0 0 1W 5,8 *"), ["05-03", "08-02", "05-01"]); // 1 May 2027 is a Saturday
    assert_eq!(days("0 0 31w * *"), ["01-29", "03-31", "05-31"]);
    assert_eq!(days("0 0 * * 5L"), ["01-29", "02-26", "03-26"]);
    assert_eq!(days("0 0 * * fri#L"), days("0 0 * * fril"));
    assert_eq!(days("0 0 * * mon#2"), ["01-11", "02-08", "03-08"]);
}

#[test]
fn bad_expressions_say_which_field_and_why() {
    for (bad, message) in [
        ("61 * * * *", "minute field \"61\": 61 is above 59"),
        ("* * 0 * *", "day-of-month field \"0\": 0 is below 1"),
        ("* 22-4 * * *", "hour field \"22-4\": the range 22-4 runs backwards"),
        ("*/0 * * * *", "minute field \"*/0\": a step of 0 never moves on"),
        ("*/60 * * * *", "minute field \"*/60\": the step 60 is beyond the field, whose highest value is 59"),
        ("5/15 * * * *", "minute field \"5/15\": a step needs a range or * before it"),
        ("* * ? * *", "day-of-month field \"?\": '?' is not part of cron"),
        ("* * * * L", "weekday field \"L\": L needs a weekday before it"),
        ("* * * *", "cron expression \"* * * *\": it has 4 fields"),
        ("@reboot", "cron expression \"@reboot\": @reboot is a moment of the machine, not a time"),
    ] {
        let error = CronExpr::parse(bad).unwrap_err();
        assert_eq!(error.to_string(), message);
        assert!(!error.hint().is_empty(), "{bad}");
    }
    assert_eq!(CronExpr::parse("5/15 * * * *").unwrap_err().hint(), "write 5-59/15 to step from 5 on");
    assert_eq!(CronExpr::parse("* 22-4 * * *").unwrap_err().hint(), "split it: 22-23,0-4");
    for bad in [
        "",
        "@",
        "@never",
        "* * * * * * *",
        "-1 * * * *",
        "+1 * * * *",
        "1, * * * *",
        ",1 * * * *",
        "1- * * * *",
        "1-2-3 * * * *",
        "*/ * * * *",
        "*/1/2 * * * *",
        "* 24 * * *",
        "* * 32 * *",
        "* * * 13 *",
        "* * * * 8",
        "* * * FOO *",
        "* * * JANUARY *",
        "* * L-0 * *",
        "* * L-31 * *",
        "* * W * *",
        "* * 1-5W * *",
        "* * LL * *",
        "* * * * 5#0",
        "* * * * 5#6",
        "* * * * 1-5#2",
        "* * * * #2",
        "* * * * FRI-MON",
        "* * * * 5-0",
        "1.5 * * * *",
        "* * * * 5LL",
        "L * * * *",
        "* * * L *",
        "００ * * * *",
        "99999999999 * * * *",
    ] {
        assert!(CronExpr::parse(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn names_and_nicknames_are_taken_in_any_case() {
    let same = |a, b| {
        let (a, b) = (CronExpr::parse(a).unwrap(), CronExpr::parse(b).unwrap());
        assert_eq!(CronExpr { text: String::new(), ..a }, CronExpr { text: String::new(), ..b });
    };
    same("0 0 1 jan-MAR mon,Wed", "0 0 1 1-3 1,3");
    same("@Daily", "0 0 * * *");
    same("@weekly", "0 0 0 * * 0");
    assert_eq!(CronExpr::parse(" 0  0 1 Jan * ").unwrap().as_str(), "0 0 1 Jan *");
}

#[test]
fn a_trigger_that_can_never_fire_is_refused_at_once() {
    let refused = |definition| Trigger::new(definition).check().unwrap_err().to_string();
    assert!(refused(cron("0 0 30 2 *", "Europe/Berlin")).ends_with("no date matches it"));
    assert!(refused(cron("0 0 31 2,4,6,9,11 *", "UTC")).ends_with("no date matches it"));
    let bounded = |start, until| Definition {
        start: Some(at(start)),
        until: Some(at(until)),
        ..cron("0 0 1 1 *", "UTC")
    };
    assert!(refused(bounded("2028-01-01", "2027-01-01")).ends_with("its start is after its until"));
    assert!(refused(bounded("2027-01-02", "2027-12-31")).ends_with("between its start and its until"));
    assert!(Trigger::new(bounded("2027-01-01", "2027-01-01")).check().is_ok());
    assert!(refused(Definition { count: Some(0), ..cron("* * * * *", "UTC") }).ends_with("its count is 0"));
    assert_eq!(Trigger::new(cron("0 0 30 2 *", "UTC")).next_after(at("2027-01-01")), None);
}

#[test]
fn count_is_counted_from_the_start() {
    let three = Definition { start: Some(at("2027-01-01")), count: Some(3), ..cron("0 0 * * *", "UTC") };
    assert_eq!(next(&three, "2020-01-01", 9).len(), 3);
    assert_eq!(next(&three, "2027-01-02", 9), ["2027-01-03T00:00:00+00:00"]);
    assert!(next(&three, "2027-01-03", 9).is_empty());
}

#[test]
fn a_start_with_a_fraction_does_not_reach_back() {
    let scheduled = at("2027-01-01T00:00:00.7Z");
    let start = Some(scheduled);
    let minutely = Definition { start, ..cron("* * * * *", "UTC") };
    assert_eq!(next(&minutely, "2020-01-01", 1), ["2027-01-01T00:01:00+00:00"]);
    let once = Definition { start, ..Definition::new(Rule::At(scheduled)) };
    assert_eq!(next(&once, "2020-01-01", 2), ["2027-01-01T00:00:00+00:00"]);
}

#[test]
fn years_of_missed_seconds_are_counted_at_once() {
    let trigger = Trigger::new(cron("* * * * * *", "Europe/Berlin"));
    let window = trigger.window("s", at("2027-01-01"), at("2030-01-01"));
    assert_eq!(window.count(), 1096 * 86_400);
    assert_eq!(window.newest(2, window.cursor()), [at("2029-12-31T23:59:59Z"), at("2030-01-01")]);
    let minutely = Trigger::new(cron("* * * * *", "America/New_York"));
    let window = minutely.window("s", at("2027-01-01"), at("2037-01-01"));
    assert_eq!(window.count(), 3653 * 1440);
}

#[test]
fn delays_are_stable_and_within_the_jitter() {
    let jitter = Duration::from_secs(600);
    let trigger = Trigger::new(Definition { jitter, ..cron("* * * * *", "UTC") });
    let delays: Vec<i64> = (0..200)
        .map(|minute| at("2027-01-01") + TimeDelta::minutes(minute))
        .map(|nominal| (trigger.due_time("nightly", nominal) - nominal).num_seconds())
        .collect();
    assert!(delays.iter().all(|delay| (0..=600).contains(delay)));
    // Stored schedules rely on these: they must never change.
    assert_eq!(delays[..4], [382, 378, 23, 370]);
}

#[test]
fn a_pending_occurrence_holds_back_the_cursor() {
    let jitter = Duration::from_secs(600);
    let trigger = Trigger::new(Definition { jitter, ..cron("* * * * *", "UTC") });
    let mut cursor = at("2027-01-01");
    for second in 0..7200 {
        let now = at("2027-01-01") + TimeDelta::seconds(second);
        let window = trigger.window("s", cursor, now);
        assert!(window.through() >= cursor && window.through() <= now);
        for nominal in window.newest(u64::MAX, cursor) {
            assert!(trigger.due_time("s", nominal) <= now);
        }
        if let Some(next) = trigger.next_after(window.through()).filter(|next| *next <= now) {
            assert!(trigger.due_time("s", next) > now);
        }
        cursor = window.through();
    }
    assert!(cursor >= at("2027-01-01T01:49Z"));
}
