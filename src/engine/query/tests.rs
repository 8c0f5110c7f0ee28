//! What looking at a store promises.

use std::fs;

use chrono::{DateTime, TimeDelta, Utc};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    find::{Names, find_run},
    history::{HistoryFilter, list_history},
    list::{RunFilter, list_runs},
    page::{Page, PageRequest},
    run::{Liveness, load_run},
    schedules::{list_schedules, next_due, next_due_of},
    status::read_status,
    view::{HistoryItem, RunItem, RunShow},
};
use crate::{
    domain::{
        event::{Event, Reason, Resolution},
        ids::RunId,
        schedule::Change,
        workflow::Outcome,
    },
    engine::{
        EngineError,
        test_store::{TestStore, at, started},
    },
    state::run::Status,
    store::runs,
};

fn now() -> DateTime<Utc> {
    at("2026-12-10T00:00:00Z")
}

fn request(limit: usize, cursor: Option<&String>) -> PageRequest {
    PageRequest { limit, cursor: cursor.cloned() }
}

fn list(test: &TestStore, filter: &RunFilter, limit: usize, cursor: Option<&String>) -> Page<RunItem> {
    list_runs(&test.store, now(), filter, &request(limit, cursor)).unwrap()
}

fn ids(page: &Page<RunItem>) -> Vec<&str> {
    page.items.iter().map(|item| item.run.as_str()).collect()
}

fn all_history(test: &TestStore, filter: &HistoryFilter, limit: usize) -> Vec<HistoryItem> {
    let mut items = Vec::new();
    let mut cursor = None;
    loop {
        let page = list_history(&test.store, filter, &request(limit, cursor.as_ref())).unwrap();
        assert!(page.items.len() <= limit);
        items.extend(page.items);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return items;
        }
    }
}

fn show(test: &TestStore, run: &str) -> Value {
    let loaded = load_run(&test.store, &run.parse().unwrap(), now()).unwrap();
    serde_json::to_value(RunShow::of(&test.store, &loaded)).unwrap()
}

#[test]
fn runs_are_listed_newest_first_wherever_they_are() {
    let test = TestStore::new();
    test.completed("a@20261201T040000Z");
    test.queued("a@20261202T040000Z");
    test.completed("b@20261202T040000Z-m1");
    test.completed("b@20261203T000000Z");
    test.completed_at("chosen", at("2026-12-02T12:00:00Z"));
    let page = list(&test, &RunFilter::default(), 50, None);
    assert_eq!(
        ids(&page),
        ["b@20261203T000000Z", "chosen", "b@20261202T040000Z-m1", "a@20261202T040000Z", "a@20261201T040000Z"]
    );
    assert_eq!(page.next_cursor, None);
    assert_eq!(page.corrupt, []);
}

#[test]
fn a_list_can_be_narrowed_by_status_schedule_and_time() {
    let test = TestStore::new();
    for run in ["a@20261201T040000Z", "a@20261203T040000Z", "a@20261203T040000Z-m1", "b@20261202T040000Z"] {
        test.completed(run);
    }
    test.queued("a@20261204T040000Z");
    let schedule = Some("a".parse().unwrap());
    // A manual start of a workflow that happens to be called like the schedule is not the schedule's.
    let page = list(&test, &RunFilter { schedule: schedule.clone(), ..RunFilter::default() }, 50, None);
    assert_eq!(ids(&page), ["a@20261204T040000Z", "a@20261203T040000Z", "a@20261201T040000Z"]);
    let filter = RunFilter { status: Some(Status::Completed), schedule, ..RunFilter::default() };
    let page = list(&test, &filter, 1, None);
    assert_eq!(ids(&page), ["a@20261203T040000Z"]);
    let page = list(&test, &filter, 1, page.next_cursor.as_ref());
    assert_eq!(ids(&page), ["a@20261201T040000Z"]);
    assert_eq!(page.next_cursor, None);
    let filter = RunFilter { since: Some(at("2026-12-03T04:00:00Z")), ..RunFilter::default() };
    let page = list(&test, &filter, 50, None);
    assert_eq!(ids(&page), ["a@20261204T040000Z", "a@20261203T040000Z-m1", "a@20261203T040000Z"]);
}

#[test]
fn a_page_does_not_read_what_is_behind_it() {
    let test = TestStore::new();
    for day in 1..=3 {
        test.completed(&format!("a@2026120{day}T040000Z"));
    }
    fs::write(test.root().join("runs/done/2026-12-01/a@20261201T040000Z/journal.jsonl"), "rubbish\n\n")
        .unwrap();
    let page = list(&test, &RunFilter::default(), 2, None);
    assert_eq!((page.items.len(), page.corrupt.len()), (2, 0));
    let page = list(&test, &RunFilter::default(), 2, page.next_cursor.as_ref());
    assert_eq!((page.items.len(), page.corrupt.len(), page.next_cursor), (0, 1, None));
}

#[test]
fn a_corrupt_run_is_reported_beside_the_others() {
    let test = TestStore::new();
    test.completed("a@20261201T040000Z");
    test.queued("a@20261202T040000Z");
    fs::write(test.root().join("runs/active/a@20261202T040000Z/journal.jsonl"), "rubbish\n\n").unwrap();
    let page = list(&test, &RunFilter::default(), 50, None);
    assert_eq!(ids(&page), ["a@20261201T040000Z"]);
    assert_eq!(page.corrupt.len(), 1);
    assert_eq!(page.corrupt[0].subject, "run a@20261202T040000Z");
    let history = list_history(&test.store, &HistoryFilter::default(), &request(50, None)).unwrap();
    assert_eq!((history.items.len(), history.corrupt.len()), (2, 1));
    let status = read_status(&test.store, now()).unwrap();
    assert_eq!((status.queued, status.corrupt.len()), (0, 1));
}

#[test]
fn garbage_is_no_cursor() {
    let test = TestStore::new();
    test.completed("a@20261201T040000Z");
    test.completed("a@20261202T040000Z");
    let page = list(&test, &RunFilter::default(), 1, None);
    let good = page.next_cursor.unwrap();
    let cut = good[..good.len() - 2].to_owned();
    for bad in ["", "x", "abc", "00", "é", cut.as_str(), &good.replace('3', "4")] {
        let result = list_runs(&test.store, now(), &RunFilter::default(), &request(1, Some(&bad.to_owned())));
        assert!(matches!(result, Err(EngineError::BadInput { .. })), "{bad:?}");
    }
    let result = list_history(&test.store, &HistoryFilter::default(), &request(1, Some(&good)));
    assert!(matches!(result, Err(EngineError::BadInput { .. })));
}

#[test]
fn a_run_is_found_by_id_prefix_or_schedule() {
    let test = TestStore::new();
    test.completed("nightly@20261201T040000Z");
    test.completed("nightly@20261202T040000Z");
    test.queued("nightly@20261203T040000Z");
    test.completed("nightly2@20261205T040000Z");
    let find = |text: &str, names| find_run(&test.store, text, names).map(|run| run.to_string());
    for (text, run) in [
        ("nightly@20261201T040000Z", "nightly@20261201T040000Z"),
        ("nightly@20261202", "nightly@20261202T040000Z"),
        ("nightly@20261203T04", "nightly@20261203T040000Z"),
        ("nightly2", "nightly2@20261205T040000Z"),
    ] {
        assert_eq!(find(text, Names::Runs).unwrap(), run);
    }
    assert_eq!(find("nightly", Names::RunsAndSchedules).unwrap(), "nightly@20261203T040000Z");
    assert!(
        matches!(find("nightly", Names::Runs), Err(EngineError::ManyRuns { found, .. }) if found.len() == 4)
    );
    assert!(
        matches!(find("nightly@202612", Names::Runs), Err(EngineError::ManyRuns { found, .. }) if found.len() == 3)
    );
    for text in ["", "../x", "nightly@20261204", "other", "a/b"] {
        assert!(matches!(find(text, Names::RunsAndSchedules), Err(EngineError::NoRun(_))), "{text}");
    }
    let error = find("nightli@20261203T040000Z", Names::Runs).unwrap_err();
    assert!(error.to_string().contains("did you mean nightly@20261203T040000Z?"), "{error}");
}

#[test]
fn executing_is_live_only_while_its_slot_is_held_for_it() {
    let test = TestStore::new();
    let run = "a@20261201T040000Z";
    let guard = test.claim(run);
    test.executing(run, guard.index().0);
    let load = || load_run(&test.store, &run.parse().unwrap(), now()).unwrap();
    assert_eq!(load().liveness, Liveness::Live);
    let view = show(&test, run);
    assert_eq!((&view["live"], &view["slot"], &view["status"]), (&json!(true), &json!(0), &json!("queued")));
    drop(guard);
    assert_eq!(load().liveness, Liveness::Abandoned);
    let view = show(&test, run);
    assert_eq!((&view["executing"], &view["live"]), (&json!(true), &json!(false)));
    assert!(view["diagnostics"][0].as_str().unwrap().contains(&format!("wfctl recover --run {run}")));
    let status = read_status(&test.store, now()).unwrap();
    assert_eq!(status.capacity.busy, 1);
    assert_eq!(status.abandoned[0].step.as_deref(), Some("make"));
    assert_eq!(status.slots[0].state, "abandoned");
    assert_eq!(status.queued, 0);
}

#[test]
fn an_open_gate_is_ready_unless_something_is_gone() {
    let test = TestStore::new();
    let run = "a@20261201T040000Z";
    test.interrupted(run, Some(at("2026-12-20T00:00:00Z")));
    let view = show(&test, run);
    assert_eq!(view["resume_readiness"], "ready");
    assert_eq!(view["interrupt"]["gate"], 5);
    assert_eq!(view["interrupt"]["expires_at"], "2026-12-20T00:00:00.000Z");
    assert_eq!(view["attempts"][0]["state"], "settled");
    assert_eq!(view["steps"][0]["log"], Value::Null);
    let expired = load_run(&test.store, &run.parse().unwrap(), at("2026-12-20T00:00:00Z")).unwrap();
    assert!(expired.readiness.diagnostics()[0].contains("expired"));
    let snapshot = test.root().join(format!("workflows/{}.toml", test.workflow));
    fs::write(&snapshot, "altered").unwrap();
    let view = show(&test, run);
    assert_eq!(view["resume_readiness"], "blocked");
    assert!(view["diagnostics"][0].as_str().unwrap().contains("altered"));
    fs::remove_file(snapshot).unwrap();
    assert!(show(&test, run)["diagnostics"][0].as_str().unwrap().contains("missing"));
}

#[test]
fn what_nobody_knows_has_no_outcome() {
    let test = TestStore::new();
    let run = "a@20261201T040000Z";
    test.ambiguous(run);
    let view = show(&test, run);
    assert_eq!((&view["status"], &view["ambiguous"]), (&json!("failed"), &json!(true)));
    assert_eq!((&view["outcome"], &view["reason"]), (&Value::Null, &json!("ambiguous")));
    assert_eq!(view["attempts"][0]["state"], "active");
    let status = read_status(&test.store, now()).unwrap();
    assert_eq!(status.ambiguous[0].step.as_deref(), Some("make"));
    let lock = test.lock();
    let open = runs::open(&lock, test.store.disk(), &run.parse().unwrap()).unwrap().unwrap();
    let resolution = Resolution::Failed;
    let event = Event::Resolved { resolution, note: Some("looked".to_owned()), by: "me".to_owned() };
    open.append(&event, now()).unwrap().file_away().unwrap();
    drop(lock);
    let view = show(&test, run);
    assert_eq!((&view["ambiguous"], &view["reason"]), (&json!(false), &json!("ambiguous")));
    assert_eq!((&view["outcome"], &view["by"]), (&Value::Null, &json!("me")));
    let items = all_history(&test, &HistoryFilter::default(), 50);
    let kinds: Vec<_> = items.iter().map(|item| item.kind).collect();
    assert_eq!(kinds, ["resolved", "failed", "admitted"]);
}

#[test]
fn history_holds_runs_and_receipts_in_order_of_occurrence() {
    let test = TestStore::new();
    let mut schedule = test.schedule("a", "0 4 * * *", at("2026-12-05T04:00:00Z"));
    test.completed("a@20261201T040000Z");
    test.missed("a", at("2026-12-02T04:00:00Z"), at("2026-12-03T04:00:00Z"), 2);
    test.completed("a@20261204T040000Z");
    test.missed("a", at("2026-12-05T04:00:00Z"), at("2026-12-05T04:00:00Z"), 1);
    test.completed("other@20261202T040000Z");
    let kinds = |filter: &HistoryFilter, limit| {
        let items = all_history(&test, filter, limit);
        items
            .iter()
            .map(|i| format!("{} {}", i.occurrence.to_string()[8..10].to_owned(), i.kind))
            .collect::<Vec<_>>()
    };
    let of_a = HistoryFilter { schedule: Some("a".parse().unwrap()), run: None };
    let expected = ["05 missed", "04 completed", "04 admitted", "02 missed", "01 completed", "01 admitted"];
    for limit in 1..8 {
        assert_eq!(kinds(&of_a, limit), expected);
        assert_eq!(kinds(&HistoryFilter::default(), limit).len(), 8);
    }
    let of_run = HistoryFilter { schedule: None, run: Some("a@20261204T040000Z".parse().unwrap()) };
    assert_eq!(kinds(&of_run, 1), ["04 completed", "04 admitted"]);
    let missed = &all_history(&test, &of_a, 50)[3];
    assert_eq!(missed.run, None);
    assert_eq!(missed.detail["count"], 2);
    assert_eq!(missed.detail["reason"], "catchup");
    // What is left of a removed schedule still tells its past.
    schedule.removed = Some(Change { at: now(), by: "me".to_owned() });
    test.save(&schedule);
    assert_eq!(kinds(&of_a, 3), expected);
    assert!(list_schedules(&test.store, &request(50, None)).unwrap().items.is_empty());
}

#[test]
fn an_expired_gate_is_one_item_that_says_so() {
    let test = TestStore::new();
    let run = "a@20261201T040000Z";
    let open = test.interrupted(run, Some(at("2026-12-02T00:00:00Z")));
    let mut open = open.append(&started(0, Some(Outcome::EXPIRED)), now()).unwrap();
    let reason = Reason::Expired;
    open.stage(&Event::Failed { attempt: 2, reason, error: "expired".to_owned(), by: None }, now()).unwrap();
    open.commit().unwrap().file_away().unwrap();
    let items = all_history(&test, &HistoryFilter::default(), 50);
    let kinds: Vec<_> = items.iter().map(|item| item.kind).collect();
    assert_eq!(kinds, ["failed", "interrupted", "admitted"]);
    assert_eq!(items[0].detail["expired"], true);
    assert_eq!(items[1].detail.get("expired"), None);
    assert_eq!(show(&test, run)["outcome"], "expired");
}

#[test]
fn receipts_are_found_in_a_long_history() {
    let test = TestStore::new();
    let start = at("2026-01-01T00:00:00Z");
    test.schedule("a", "0 * * * *", now());
    let hour = |n: i64| start + TimeDelta::hours(n);
    for n in 0..200 {
        test.missed("a", hour(n), hour(n), 1);
    }
    let path = test.root().join("schedules/a/history.jsonl");
    let mut text = fs::read_to_string(&path).unwrap();
    text.push_str("{\"torn");
    fs::write(&path, &text).unwrap();
    for limit in [1, 7, 199, 200, 500] {
        let items = all_history(&test, &HistoryFilter::default(), limit);
        let found: Vec<_> = items.iter().map(|item| item.occurrence.0).collect();
        let expected: Vec<_> = (0..200).rev().map(hour).collect();
        assert_eq!(found, expected, "{limit}");
    }
    // A bad line in the middle is told and hides no other.
    let bad = text.replacen("\"first\":\"2026-01-03T00", "\"first\":\"2026-01-03T99", 1);
    fs::write(&path, bad).unwrap();
    let page = list_history(&test.store, &HistoryFilter::default(), &request(500, None)).unwrap();
    assert_eq!((page.items.len(), page.corrupt.len()), (199, 1));
}

#[test]
fn schedules_say_when_they_are_due() {
    let test = TestStore::new();
    let mut a = test.schedule("a", "0 4 * * *", at("2026-12-09T04:00:00Z"));
    test.schedule("b", "0 5 * * *", at("2026-12-09T05:00:00Z"));
    assert_eq!(next_due(&test.store).unwrap(), Some(at("2026-12-10T04:00:00Z")));
    // A crash may leave receipts ahead of the cursor.
    assert_eq!(next_due_of(&a, Some(at("2026-12-11T04:00:00Z"))), Some(at("2026-12-12T04:00:00Z")));
    a.paused = Some(Change { at: now(), by: "me".to_owned() });
    test.save(&a);
    assert_eq!(next_due(&test.store).unwrap(), Some(at("2026-12-10T05:00:00Z")));
    let page = list_schedules(&test.store, &request(1, None)).unwrap();
    assert_eq!((page.items[0].id.as_str(), page.items[0].trigger.as_str()), ("b", "cron 0 5 * * *"));
    let page = list_schedules(&test.store, &request(1, page.next_cursor.as_ref())).unwrap();
    assert_eq!((page.items[0].id.as_str(), page.items[0].paused, page.items[0].next_due), ("a", true, None));
    assert_eq!(page.next_cursor, None);
    let status = read_status(&test.store, at("2026-12-08T00:00:00Z")).unwrap();
    assert_eq!((status.schedules.total, status.schedules.paused), (2, 1));
    assert!(
        status.warnings.iter().any(|warning| warning.contains("wfctl rewind a")),
        "{:?}",
        status.warnings
    );
}

#[test]
fn looking_changes_nothing() {
    let test = TestStore::new();
    test.completed("a@20261201T040000Z");
    test.interrupted("a@20261202T040000Z", None);
    let listing = || {
        let mut found: Vec<_> = fs::read_dir(test.root()).unwrap().map(|e| e.unwrap().file_name()).collect();
        found.sort();
        found
    };
    let before = listing();
    list(&test, &RunFilter::default(), 50, None);
    all_history(&test, &HistoryFilter::default(), 50);
    read_status(&test.store, now()).unwrap();
    assert_eq!(listing(), before);
    assert!(fs::read_dir(test.root().join("slots")).unwrap().next().is_none());
}

/// A small world of runs: (day, hour, name, is it finished).
fn some_runs() -> impl Strategy<Value = Vec<(u8, u8, u8, bool)>> {
    prop::collection::vec((1..5_u8, 0..3_u8, 0..3_u8, any::<bool>()), 1..25)
}

fn put(test: &TestStore, run: (u8, u8, u8, bool)) -> Option<String> {
    let (day, hour, name, is_finished) = run;
    let id = match name {
        2 => format!("chosen-{day}-{hour}"),
        name => format!("s{name}@202612{day:02}T{hour:02}0000Z"),
    };
    if runs::find(&**test.store.disk(), &id.parse::<RunId>().unwrap()).unwrap().is_some() {
        return None;
    }
    let moment = at(&format!("2026-12-{day:02}T{hour:02}:00:00Z"));
    if is_finished || name == 2 {
        test.completed_at(&id, moment);
    } else {
        test.queued(&id);
    }
    Some(id)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn paging_gives_each_run_once_in_order(
        first in some_runs(), later in some_runs(), limit in 1..6_usize
    ) {
        let test = TestStore::new();
        let mut expected: Vec<String> = first.iter().filter_map(|run| put(&test, *run)).collect();
        let mut later = later.into_iter();
        let mut seen: Vec<String> = Vec::new();
        let mut keys = Vec::new();
        let mut cursor = None;
        loop {
            let page = list(&test, &RunFilter::default(), limit, cursor.as_ref());
            prop_assert!(page.items.len() <= limit && page.corrupt.is_empty());
            for item in &page.items {
                seen.push(item.run.clone());
                let id: RunId = item.run.parse().unwrap();
                keys.push((id.stamp().unwrap_or(item.created_at.0), item.run.clone()));
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
            // Between two pages a run comes and one ends.
            if let Some(run) = later.next() {
                put(&test, run);
            }
            if let Some(run) = runs::list_active(&**test.store.disk()).unwrap().first() {
                test.cancel(run.as_str());
            }
        }
        prop_assert!(keys.windows(2).all(|pair| pair[0] > pair[1]), "{:?}", keys);
        expected.retain(|run| !seen.contains(run));
        prop_assert!(expected.is_empty(), "missing {:?}", expected);
    }

    #[test]
    fn paging_gives_each_history_item_once(
        runs in some_runs(), missed in prop::collection::btree_set(0..60_u8, 0..12), limit in 1..6_usize
    ) {
        let test = TestStore::new();
        test.schedule("s0", "30 * * * *", now());
        for run in runs {
            put(&test, run);
        }
        for hour in missed {
            let time = at("2026-12-01T00:30:00Z") + TimeDelta::hours(hour.into());
            test.missed("s0", time, time, 1);
        }
        let whole = all_history(&test, &HistoryFilter::default(), 1000);
        let paged = all_history(&test, &HistoryFilter::default(), limit);
        prop_assert!(whole.windows(2).all(|pair| pair[0].occurrence >= pair[1].occurrence));
        prop_assert_eq!(whole, paged);
    }
}
