//! Each policy on small windows, and the promise that receipts add up.

use chrono::{DateTime, TimeDelta, Utc};
use proptest::prelude::*;

use super::*;
use crate::domain::trigger::{CronExpr, Definition, DstGap, Rule, Trigger, Zone, parse_time};

fn at(text: &str) -> DateTime<Utc> {
    parse_time(text, &Zone::utc(), DateTime::UNIX_EPOCH).unwrap()
}

fn cron(expr: &str, start: &str) -> Definition {
    Definition { start: Some(at(start)), ..Definition::new(Rule::Cron(CronExpr::parse(expr).unwrap())) }
}

fn minutely() -> Trigger {
    Trigger::new(cron("* * * * *", "2027-01-01"))
}

fn id() -> ScheduleId {
    "s".parse().unwrap()
}

fn run(text: &str) -> RunId {
    text.parse().unwrap()
}

/// The receipts of a first tick, as short text.
fn first_tick(trigger: &Trigger, now: &str, policies: Policies, unfinished: &[Unfinished]) -> Vec<String> {
    let window = trigger.window("s", trigger.initial_cursor(), at(now));
    plan(&window, &id(), &policies, Present { unfinished, admitted: &[] })
        .receipts
        .iter()
        .map(brief)
        .collect()
}

fn brief(receipt: &Receipt) -> String {
    let times = |times: &Stretch| {
        format!("{}..{} {}", times.first.format("%H:%M"), times.last.format("%H:%M"), times.count)
    };
    match receipt {
        Receipt::Admitted(at) => format!("admitted {}", at.format("%H:%M")),
        Receipt::AlreadyAdmitted(at) => format!("already {}", at.format("%H:%M")),
        Receipt::Skipped { times: t, by } => format!("skipped {} by {by}", times(t)),
        Receipt::Missed { times: t, reason } => format!("missed {} {reason:?}", times(t)),
    }
}

fn all(limit: u64, overlap: Overlap) -> Policies {
    Policies { overlap, catch_up: CatchUp::All { limit }, deadline: None }
}

#[test]
fn by_default_only_the_newest_goes_on_and_the_rest_share_one_receipt() {
    let receipts = first_tick(&minutely(), "2027-01-01T00:10:30Z", Policies::default(), &[]);
    assert_eq!(receipts, ["missed 00:00..00:09 10 CatchUp", "admitted 00:10"]);
}

#[test]
fn an_unfinished_run_makes_it_skipped() {
    for standing in [Standing::Waiting, Standing::Begun] {
        let in_the_way = [Unfinished { run: run("s@20261231T000000Z"), standing }];
        let receipts = first_tick(&minutely(), "2027-01-01T00:02:30Z", Policies::default(), &in_the_way);
        assert_eq!(
            receipts,
            ["missed 00:00..00:01 2 CatchUp", "skipped 00:02..00:02 1 by s@20261231T000000Z"]
        );
    }
}

#[test]
fn the_first_admitted_is_in_the_way_of_later_ones() {
    for overlap in [Overlap::Skip, Overlap::QueueOne] {
        let receipts = first_tick(&minutely(), "2027-01-01T00:04:30Z", all(3, overlap), &[]);
        assert_eq!(
            receipts,
            [
                "missed 00:00..00:01 2 CatchUp",
                "admitted 00:02",
                "skipped 00:03..00:04 2 by s@20270101T000200Z"
            ]
        );
    }
}

#[test]
fn queue_and_allow_admit_all_that_catch_up_lets_through() {
    let in_the_way = [Unfinished { run: run("s@20261231T000000Z"), standing: Standing::Begun }];
    for overlap in [Overlap::Queue, Overlap::Allow] {
        let receipts = first_tick(&minutely(), "2027-01-01T00:02:30Z", all(100, overlap), &in_the_way);
        assert_eq!(receipts, ["admitted 00:00", "admitted 00:01", "admitted 00:02"]);
    }
}

#[test]
fn queue_one_lets_one_wait_behind_the_one_that_has_begun() {
    let standing = |standing| [Unfinished { run: run("s@20261231T000000Z"), standing }];
    let latest = Policies { overlap: Overlap::QueueOne, ..Policies::default() };
    let tick =
        |in_the_way: &[Unfinished]| first_tick(&minutely(), "2027-01-01T00:00:30Z", latest, in_the_way);
    assert_eq!(tick(&standing(Standing::Begun)), ["admitted 00:00"]);
    assert_eq!(tick(&standing(Standing::Waiting)), ["skipped 00:00..00:00 1 by s@20261231T000000Z"]);
}

#[test]
fn without_catch_up_only_fresh_ones_go_on() {
    let none = Policies { overlap: Overlap::Allow, catch_up: CatchUp::None, deadline: None };
    let tick = |now, policies| first_tick(&minutely(), now, policies, &[]);
    // 60 seconds old is still fresh.
    assert_eq!(
        tick("2027-01-01T00:03:00Z", none),
        ["missed 00:00..00:01 2 Deadline", "admitted 00:02", "admitted 00:03"]
    );
    assert_eq!(tick("2027-01-01T00:03:00.001Z", none), ["missed 00:00..00:02 3 Deadline", "admitted 00:03"]);
    let brief = Policies { deadline: Some(Duration::from_secs(5)), ..none };
    assert_eq!(tick("2027-01-01T00:01:30Z", brief), ["missed 00:00..00:01 2 Deadline"]);
}

#[test]
fn a_deadline_bounds_the_other_policies_too() {
    let deadline = Some(Duration::from_secs(150));
    let bounded = Policies { deadline, ..all(100, Overlap::Queue) };
    assert_eq!(
        first_tick(&minutely(), "2027-01-01T00:04:00Z", bounded, &[]),
        ["missed 00:00..00:01 2 Deadline", "admitted 00:02", "admitted 00:03", "admitted 00:04"]
    );
    let latest = Policies { deadline, ..Policies::default() };
    assert_eq!(
        first_tick(&minutely(), "2027-01-01T00:04:00Z", latest, &[]),
        ["missed 00:00..00:01 2 Deadline", "missed 00:02..00:03 2 CatchUp", "admitted 00:04"]
    );
    let hourly = Trigger::new(cron("0 * * * *", "2027-01-01"));
    assert_eq!(first_tick(&hourly, "2027-01-01T01:04:00Z", latest, &[]), ["missed 00:00..01:00 2 Deadline"]);
}

#[test]
fn a_skipped_gap_has_its_own_receipt_in_its_place() {
    let definition = Definition {
        zone: Zone::parse("Europe/Berlin").unwrap(),
        dst_gap: DstGap::Skip,
        ..cron("30 2 * * *", "2027-03-26T12:00Z")
    };
    let trigger = Trigger::new(definition);
    assert_eq!(
        first_tick(&trigger, "2027-03-30T12:00Z", Policies::default(), &[]),
        [
            "missed 01:30..01:30 1 CatchUp",
            "missed 01:00..01:00 1 DstGap",
            "missed 00:30..00:30 1 CatchUp",
            "admitted 00:30"
        ]
    );
    let window = trigger.nominal_window(trigger.initial_cursor(), at("2027-03-30T12:00Z"));
    let receipts: Vec<_> =
        plan_missed(&window, MissedReason::Paused, &[]).receipts.iter().map(brief).collect();
    assert_eq!(
        receipts,
        ["missed 01:30..01:30 1 Paused", "missed 01:00..01:00 1 DstGap", "missed 00:30..00:30 2 Paused"]
    );
}

#[test]
fn a_delay_is_not_held_against_an_occurrence() {
    let jitter = Duration::from_secs(600);
    let trigger = Trigger::new(Definition { jitter, ..cron("* * * * *", "2027-01-01") });
    let none = Policies { overlap: Overlap::Allow, catch_up: CatchUp::None, deadline: None };
    let mut cursor = trigger.initial_cursor();
    let mut admitted = 0;
    for minute in 0..120 {
        let window = trigger.window("s", cursor, at("2027-01-01") + TimeDelta::minutes(minute));
        let plan = plan(&window, &id(), &none, Present::default());
        assert_eq!(plan.admitted().count(), plan.receipts.len(), "nothing is missed while ticks are regular");
        admitted += plan.receipts.len();
        cursor = plan.cursor;
    }
    assert!(admitted >= 110);
}

#[test]
fn ten_years_of_minutes_cost_nothing() {
    let receipts = first_tick(&minutely(), "2037-01-01", all(100, Overlap::Queue), &[]);
    assert_eq!(receipts.len(), 101);
    let seconds = Trigger::new(cron("* * * * * *", "2027-01-01"));
    assert_eq!(first_tick(&seconds, "2030-01-01", Policies::default(), &[]).len(), 2);
    // A deadline without end admits no more than the program can hold.
    let none = Policies { overlap: Overlap::Queue, catch_up: CatchUp::None, deadline: Some(Duration::MAX) };
    assert_eq!(first_tick(&seconds, "2030-01-01", none, &[]).len(), 10_001);
}

#[test]
fn a_clock_that_goes_back_changes_nothing() {
    let trigger = minutely();
    let window = trigger.window("s", at("2027-06-01"), at("2027-05-01"));
    let plan = plan(&window, &id(), &Policies::default(), Present::default());
    assert_eq!(plan, Plan { receipts: Vec::new(), cursor: at("2027-06-01") });
}

#[test]
fn what_was_admitted_before_a_crash_keeps_its_run_and_no_second_receipt() {
    let trigger = minutely();
    let window = trigger.window("s", trigger.initial_cursor(), at("2027-01-01T00:05Z"));
    let admitted = [at("2027-01-01T00:04Z"), at("2027-01-01T00:02Z"), at("2027-02-01")];
    let unfinished = [Unfinished { run: run("s@20270101T000400Z"), standing: Standing::Begun }];
    let present = Present { unfinished: &unfinished, admitted: &admitted };
    let brief = |plan: Plan| plan.receipts.iter().map(brief).collect::<Vec<_>>();
    assert_eq!(
        brief(plan(&window, &id(), &all(3, Overlap::Skip), present)),
        [
            "missed 00:00..00:01 2 CatchUp",
            "already 00:02",
            "skipped 00:03..00:03 1 by s@20270101T000400Z",
            "already 00:04",
            "skipped 00:05..00:05 1 by s@20270101T000400Z"
        ]
    );
    assert_eq!(
        brief(plan_missed(&window, MissedReason::Replaced, &admitted)),
        [
            "missed 00:00..00:01 2 Replaced",
            "already 00:02",
            "missed 00:03..00:03 1 Replaced",
            "already 00:04",
            "missed 00:05..00:05 1 Replaced"
        ]
    );
}

fn any_policies() -> impl Strategy<Value = Policies> {
    let overlap =
        prop_oneof![Just(Overlap::Skip), Just(Overlap::Queue), Just(Overlap::QueueOne), Just(Overlap::Allow)];
    let catch_up = prop_oneof![
        Just(CatchUp::Latest),
        Just(CatchUp::None),
        (0u64..40).prop_map(|limit| CatchUp::All { limit })
    ];
    let deadline = proptest::option::of((0u64..200_000).prop_map(Duration::from_secs));
    (overlap, catch_up, deadline).prop_map(|(overlap, catch_up, deadline)| Policies {
        overlap,
        catch_up,
        deadline,
    })
}

proptest! {
    /// nominal = admitted + skipped + missed, in order, and no time twice.
    #[test]
    fn receipts_add_up(
        policies in any_policies(),
        expr in prop_oneof![Just("*/7 * * * *"), Just("30 2 * * *"), Just("0,30 1,2 * * *"), Just("15 */3 * * 1-5")],
        jitter in prop_oneof![Just(0u64), 0u64..20_000],
        cursor in 0i64..864_000,
        length in 0i64..864_000,
        skip_gaps: bool,
        waiting: bool,
        every_nth_admitted in 1usize..20,
    ) {
        let definition = Definition {
            zone: Zone::parse("Europe/Berlin").unwrap(),
            jitter: Duration::from_secs(jitter),
            dst_gap: if skip_gaps { DstGap::Skip } else { DstGap::Next },
            ..cron(expr, "2027-03-20")
        };
        let trigger = Trigger::new(definition);
        let cursor = at("2027-03-20") + TimeDelta::seconds(cursor);
        let window = trigger.window("s", cursor, cursor + TimeDelta::seconds(length));
        let standing = Standing::Waiting;
        let in_the_way = [Unfinished { run: run("s@20261231T000000Z"), standing }];
        let mut nominal: Vec<_> = trigger
            .occurrences_after(cursor)
            .take_while(|at| *at <= window.through())
            .collect();
        let admitted: Vec<_> = nominal.iter().copied().skip(1).step_by(every_nth_admitted).collect();
        let unfinished: &[Unfinished] = if waiting { &in_the_way } else { &[] };
        let plan = plan(&window, &id(), &policies, Present { unfinished, admitted: &admitted });

        nominal.extend(window.skipped_by_gap());
        nominal.sort();
        let mut rest = nominal.as_slice();
        for receipt in &plan.receipts {
            let (first, last, count) = match receipt {
                Receipt::Admitted(at) | Receipt::AlreadyAdmitted(at) => (*at, *at, 1),
                Receipt::Skipped { times, .. } | Receipt::Missed { times, .. } => {
                    (times.first, times.last, usize::try_from(times.count).unwrap())
                }
            };
            let (these, others) = rest.split_at(count);
            prop_assert_eq!(these.first(), Some(&first));
            prop_assert_eq!(these.last(), Some(&last));
            rest = others;
        }
        prop_assert!(rest.is_empty());
        let already = plan.receipts.iter().filter_map(|receipt| match receipt {
            Receipt::AlreadyAdmitted(at) => Some(*at),
            _ => None,
        });
        prop_assert!(already.eq(admitted));
        prop_assert_eq!(plan.cursor, window.through());
        let alike = plan.receipts.windows(2).any(|pair| match pair {
            [Receipt::Missed { reason: a, .. }, Receipt::Missed { reason: b, .. }] => a == b,
            [Receipt::Skipped { by: a, .. }, Receipt::Skipped { by: b, .. }] => a == b,
            _ => false,
        });
        prop_assert!(!alike, "neighbours of one kind share a receipt: {:?}", plan.receipts);
        let admitted = plan.admitted().count();
        match policies.overlap {
            Overlap::Skip | Overlap::QueueOne => prop_assert!(admitted <= usize::from(!waiting)),
            Overlap::Queue | Overlap::Allow => {}
        }
    }
}
