//! The fold and the decisions, on states that sample events reach.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};

use super::{
    decide::{self, Conclusion, Next, Start},
    run::{AttemptState, Phase, Point, Position, RunState, Status},
};
use crate::domain::{
    event::{
        Admitted, AttemptKind, AttemptStarted, Event, Interrupted, Reason, RequeuedAt, Resolution,
        StepEnding, StepFinished,
    },
    ids::{Digest, SlotIndex, StepId},
    workflow::{Outcome, Workflow},
};

const WORKFLOW: &str = r#"
name = "w"
max_steps = 3
[[step]]
id = "ask"
interrupt = "go on?"
outcomes = ["yes", "no"]
next = { no = "end" }
[[step]]
id = "work"
run = "work"
retry = { max = 1, delay = "5s" }
exit = { 10 = "again" }
next = { again = "work" }
[[step]]
id = "pay"
run = "pay"
idempotent = true
retry = { max = 1, delay = "1s" }
"#;

fn workflow() -> Workflow {
    Workflow::parse(WORKFLOW).unwrap()
}

fn t(second: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::seconds(second)
}

fn step(id: &str) -> StepId {
    id.parse().unwrap()
}

fn admitted() -> Event {
    Event::Admitted(Box::new(Admitted {
        run: "w@19700101T000000Z".parse().unwrap(),
        schedule: Some("w".parse().unwrap()),
        occurrence: t(0),
        manual: false,
        name: "w".to_owned(),
        workflow: Digest::of(WORKFLOW.as_bytes()),
        input: Value::Null,
        env: BTreeMap::new(),
        cwd: "/".to_owned(),
    }))
}

fn started(attempt: u32, kind: AttemptKind) -> Event {
    Event::AttemptStarted(Box::new(AttemptStarted {
        attempt,
        kind,
        slot: Some(SlotIndex(0)),
        pid: 1,
        host: "h".to_owned(),
        by: None,
        outcome: (kind == AttemptKind::Resume).then(|| "yes".parse().unwrap()),
        payload: Some(json!({ "comment": "fine" })),
        note: None,
    }))
}

fn asked(attempt: u32) -> Event {
    Event::Interrupted(Box::new(Interrupted {
        attempt,
        step: step("ask"),
        question: "go on?".to_owned(),
        outcomes: vec!["yes".parse().unwrap(), "no".parse().unwrap()],
        schema: None,
        expires_at: None,
    }))
}

fn began(attempt: u32, seq: u32, id: &str, try_no: u32) -> Event {
    Event::StepStarted { attempt, seq, step: step(id), try_no, key: format!("w@19700101T000000Z/{seq}") }
}

fn ended(attempt: u32, seq: u32, id: &str, outcome: &str) -> Event {
    Event::StepFinished(Box::new(StepFinished {
        attempt,
        seq,
        step: step(id),
        outcome: outcome.parse().unwrap(),
        ending: StepEnding::default(),
        output: None,
        ms: 1,
    }))
}

fn failed(attempt: u32, reason: Reason) -> Event {
    Event::Failed { attempt, reason, error: "why".to_owned(), by: None }
}

fn fold(events: &[Event]) -> RunState {
    RunState::fold((0..).zip(events).map(|(second, event)| (t(second), event))).unwrap()
}

/// One event of every kind, with the numbers that could fit next.
fn every_event(state: &RunState) -> Vec<Event> {
    let attempt = state.next_attempt();
    let current = attempt.saturating_sub(1).max(1);
    let seq = state.next_seq();
    let open = seq.saturating_sub(1).max(1);
    let place = RequeuedAt { step: step("work"), try_no: 1, key: None };
    vec![
        admitted(),
        started(attempt, AttemptKind::Dispatch),
        started(attempt, AttemptKind::Resume),
        started(attempt + 1, AttemptKind::Dispatch),
        began(current, seq, "work", 1),
        began(current, seq + 1, "work", 1),
        began(current + 7, seq, "work", 1),
        ended(current, open, "work", "ok"),
        ended(current, open, "pay", "ok"),
        ended(current, open + 1, "work", "ok"),
        asked(current),
        Event::Completed { attempt: current, outcome: Outcome::OK },
        failed(current, Reason::Error),
        failed(current, Reason::Ambiguous),
        Event::Retried { from: step("work"), note: None, by: "me".to_owned() },
        Event::Fenced { attempt: current, signal: "SIGTERM".to_owned() },
        Event::Requeued { attempt: current, at: None },
        Event::Requeued { attempt: current, at: Some(place) },
        Event::Cancelled { by: "me".to_owned(), note: None },
        Event::Resolved { resolution: Resolution::Completed, note: None, by: "me".to_owned() },
        Event::Resolved { resolution: Resolution::Failed, note: Some("x".to_owned()), by: "me".to_owned() },
    ]
}

/// Every state that up to `depth` legal events reach.
fn reachable(depth: usize) -> Vec<RunState> {
    let mut all = vec![fold(&[admitted()])];
    let mut edge = all.clone();
    for _ in 0..depth {
        let mut next = Vec::new();
        for state in edge {
            for event in every_event(&state) {
                let mut after = state.clone();
                if after.apply(&event, t(9)).is_ok() {
                    next.push(after);
                }
            }
        }
        all.extend(next.iter().cloned());
        edge = next;
    }
    all
}

#[test]
fn an_event_that_cannot_follow_leaves_the_state_as_it_was() {
    let mut refused = 0;
    for state in reachable(5) {
        for event in every_event(&state) {
            let mut after = state.clone();
            if after.apply(&event, t(9)).is_err() {
                assert_eq!(after, state, "{event:?}");
                refused += 1;
            } else {
                assert_eq!(after.n, state.n + 1);
            }
        }
    }
    assert!(refused > 1000, "{refused}");
}

#[test]
fn no_step_begins_while_the_outcome_of_another_is_unknown() {
    for state in reachable(6) {
        let unknown = state.steps.iter().filter(|step| step.finished.is_none()).count();
        let withdrawn = state.attempts.iter().filter(|a| a.state == AttemptState::Withdrawn).count();
        let resolved = state.attempts.iter().filter(|a| a.state == AttemptState::Resolved).count();
        // An unknown outcome stands open at most once beside those that recovery or a person closed.
        assert!(unknown <= 1 + withdrawn + resolved, "{state:?}");
    }
}

#[test]
fn an_ambiguous_run_goes_nowhere_until_a_person_resolves_it() {
    let state = fold(&[
        admitted(),
        started(1, AttemptKind::Dispatch),
        began(1, 1, "work", 1),
        failed(1, Reason::Ambiguous),
    ]);
    assert!(state.is_ambiguous() && !state.is_executing() && !state.is_finished());
    assert_eq!((state.status(), state.attempts[0].state), (Status::Failed, AttemptState::Active));
    for event in every_event(&state) {
        let allowed = matches!(event, Event::Resolved { .. });
        assert_eq!(state.clone().apply(&event, t(9)).is_ok(), allowed, "{event:?}");
    }
    let mut resolved = state;
    let as_failed = Event::Resolved { resolution: Resolution::Failed, note: None, by: "me".to_owned() };
    resolved.apply(&as_failed, t(9)).unwrap();
    assert!(resolved.is_finished() && resolved.attempts[0].state == AttemptState::Resolved);
    resolved.apply(&Event::Retried { from: step("work"), note: None, by: "me".to_owned() }, t(9)).unwrap();
    assert!(matches!(resolved.phase, Phase::Queued(Position::At(_))));
}

#[test]
fn a_resume_shows_as_interrupted_and_carries_its_answer() {
    let state = fold(&[
        admitted(),
        started(1, AttemptKind::Dispatch),
        asked(1),
        started(2, AttemptKind::Resume),
        began(2, 1, "work", 1),
    ]);
    assert_eq!((state.status(), state.is_executing()), (Status::Interrupted, true));
    assert_eq!(state.results[&step("ask")].output, Some(json!({ "comment": "fine" })));
}

#[test]
fn recovery_concludes_from_the_journal_alone() {
    let workflow = workflow();
    let conclude = |events: &[Event]| decide::conclude(&fold(events), Some(&workflow));
    let begin = [admitted(), started(1, AttemptKind::Dispatch)];
    let with = |more: &[Event]| [&begin[..], more].concat();
    assert_eq!(conclude(&begin[..1]), Conclusion::Settled);
    assert_eq!(conclude(&begin), Conclusion::Requeue(None));
    assert_eq!(conclude(&with(&[began(1, 1, "work", 1)])), Conclusion::Ambiguous(1, step("work")));
    let key = Some("w@19700101T000000Z/1".to_owned());
    assert_eq!(
        conclude(&with(&[began(1, 1, "pay", 1)])),
        Conclusion::Requeue(Some(RequeuedAt { step: step("pay"), try_no: 1, key: key.clone() }))
    );
    let place = |id: &str, try_no, key| Conclusion::Requeue(Some(RequeuedAt { step: step(id), try_no, key }));
    let after = |id: &str, outcome: &str| conclude(&with(&[began(1, 1, id, 1), ended(1, 1, id, outcome)]));
    assert_eq!(after("work", "ok"), place("pay", 1, None));
    assert_eq!(after("work", "error"), place("work", 2, None));
    assert_eq!(after("work", "again"), place("work", 1, None));
    assert_eq!(after("pay", "error"), place("pay", 2, key));
    assert_eq!(after("pay", "ok"), Conclusion::Requeue(None));
    // Without its workflow nothing counts as idempotent, and nothing known is lost.
    let alone = |events: &[Event]| decide::conclude(&fold(events), None);
    assert_eq!(alone(&with(&[began(1, 1, "pay", 1)])), Conclusion::Ambiguous(1, step("pay")));
    assert_eq!(alone(&with(&[began(1, 1, "work", 1), ended(1, 1, "work", "ok")])), Conclusion::Requeue(None));
}

#[test]
fn what_recovery_concludes_can_be_applied_and_leaves_nothing_executing() {
    let workflow = workflow();
    for state in reachable(6).into_iter().filter(RunState::is_executing) {
        let attempt = state.next_attempt() - 1;
        let event = match decide::conclude(&state, Some(&workflow)) {
            Conclusion::Settled => panic!("an executing run is not settled: {state:?}"),
            Conclusion::Requeue(at) => Event::Requeued { attempt, at },
            Conclusion::Ambiguous(..) => failed(attempt, Reason::Ambiguous),
        };
        let mut after = state.clone();
        after.apply(&event, t(9)).unwrap();
        assert!(!after.is_executing());
        assert_eq!(decide::conclude(&after, Some(&workflow)), Conclusion::Settled);
    }
}

#[test]
fn a_known_failure_is_tried_again_and_an_idempotent_step_keeps_its_key() {
    let workflow = workflow();
    let next = |events: &[Event]| decide::next(&fold(events), &workflow).unwrap();
    let begin = [admitted(), started(1, AttemptKind::Dispatch)];
    let with = |more: &[Event]| [&begin[..], more].concat();
    assert!(matches!(next(&begin), Next::Ask(_)));
    let Next::Start(Start { try_no: 2, key: None, delay, .. }) =
        next(&with(&[began(1, 1, "work", 1), ended(1, 1, "work", "error")]))
    else {
        panic!()
    };
    assert_eq!(delay.as_secs(), 5);
    let paid = next(&with(&[began(1, 1, "pay", 1), ended(1, 1, "pay", "timeout")]));
    assert!(matches!(paid, Next::Start(Start { try_no: 2, key: Some(_), .. })), "{paid:?}");
    let spent = [
        began(1, 1, "pay", 1),
        ended(1, 1, "pay", "error"),
        began(1, 2, "pay", 2),
        ended(1, 2, "pay", "error"),
    ];
    assert!(matches!(next(&with(&spent)), Next::Fail(Reason::Error, _)));
    assert_eq!(next(&with(&[began(1, 1, "pay", 1), ended(1, 1, "pay", "ok")])), Next::Complete(Outcome::OK));
}

#[test]
fn loops_end_with_the_step_budget() {
    let workflow = workflow();
    let mut events = vec![admitted(), started(1, AttemptKind::Dispatch)];
    for seq in 1..=3 {
        events.push(began(1, seq, "work", 1));
        events.push(ended(1, seq, "work", "again"));
    }
    let state = fold(&events);
    assert!(matches!(decide::next(&state, &workflow), Ok(Next::Fail(Reason::MaxSteps, _))));
    assert!(matches!(&state.phase, Phase::Executing(e) if e.point == Point::Finished(3)));
}
