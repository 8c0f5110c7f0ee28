//! A store in a temporary folder with runs and schedules in any state, for unit tests. All times are given.

use std::{collections::BTreeMap, path::Path, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;

use crate::{
    domain::{
        event::{
            Admitted, AttemptKind, AttemptStarted, Event, Interrupted, Reason, StepEnding, StepFinished,
        },
        ids::{Digest, RunId, RunIdParts, ScheduleId, SlotIndex},
        policy::{MissedReason, Policies, Stretch},
        schedule::{Definition, Schedule, Unrun, WhyUnrun},
        time::parse_instant,
        trigger::{self, CronExpr, Rule, Trigger},
        workflow::Outcome,
    },
    store::{
        Store,
        lock::{Patience, StoreLock},
        runs::{self, Creation, OpenRun},
        schedules,
        slots::{self, Holder, SlotGuard},
        snapshots,
    },
};

const WORKFLOW: &str = r#"
name = "nightly"
[[step]]
id = "make"
run = "true"
[[step]]
id = "ask"
interrupt = "Go on?"
outcomes = ["yes", "no"]
next = { no = "end" }
[[step]]
id = "publish"
run = ["/bin/sh", "-c", "true"]
"#;

pub(crate) fn at(text: &str) -> DateTime<Utc> {
    parse_instant(text).unwrap()
}

pub(crate) struct TestStore {
    folder: tempfile::TempDir,
    pub(crate) store: Store,
    pub(crate) workflow: Digest,
}

impl TestStore {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("store");
        Store::create(&root, Some(2)).unwrap();
        let store = Store::open(&root, "test").unwrap();
        let lock = lock(&store);
        let workflow = snapshots::pin(&lock, &**store.disk(), WORKFLOW.as_bytes()).unwrap();
        drop(lock);
        Self { folder, store, workflow }
    }

    pub(crate) fn root(&self) -> &Path {
        self.store.root()
    }

    /// A folder outside of the store.
    pub(crate) fn outside(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn lock(&self) -> StoreLock<'_> {
        lock(&self.store)
    }

    /// What the first record of `run` says, as its id has it.
    pub(crate) fn admitted(&self, run: &RunId, now: DateTime<Utc>) -> Admitted {
        let (schedule, occurrence, manual) = match run.parts() {
            RunIdParts::Occurrence { name, at } => (Some(name.parse().unwrap()), at, false),
            RunIdParts::Manual { at, .. } => (None, at, true),
            RunIdParts::Chosen { .. } => (None, now, true),
        };
        Admitted {
            run: run.clone(),
            schedule,
            occurrence,
            manual,
            name: "nightly".to_owned(),
            workflow: self.workflow.clone(),
            input: Value::Null,
            env: BTreeMap::from([("PATH".to_owned(), "/bin:/usr/bin".to_owned())]),
            cwd: "/".to_owned(),
        }
    }

    fn create(&self, run: &str, now: DateTime<Utc>) -> OpenRun {
        let run: RunId = run.parse().unwrap();
        let lock = self.lock();
        match runs::create(&lock, self.store.disk(), self.admitted(&run, now), now).unwrap() {
            Creation::Created(open) => open.commit().unwrap(),
            Creation::Exists => panic!("{run} exists"),
        }
    }

    /// When a run is admitted unless the test says so: a moment after its occurrence.
    fn moment(run: &str) -> DateTime<Utc> {
        let run: RunId = run.parse().unwrap();
        run.stamp().unwrap_or_else(|| at("2026-01-01T00:00:00Z")) + TimeDelta::milliseconds(500)
    }

    pub(crate) fn queued(&self, run: &str) {
        self.create(run, Self::moment(run));
    }

    pub(crate) fn completed_at(&self, run: &str, now: DateTime<Utc>) {
        let open = self.create(run, now).append(&started(0, None), now).unwrap();
        let open = open.append(&Event::Completed { attempt: 1, outcome: Outcome::OK }, now).unwrap();
        open.file_away().unwrap();
    }

    pub(crate) fn completed(&self, run: &str) {
        self.completed_at(run, Self::moment(run));
    }

    /// Ends what was left queued.
    pub(crate) fn cancel(&self, run: &str) {
        let now = Self::moment(run);
        let lock = self.lock();
        let open = runs::open(&lock, self.store.disk(), &run.parse().unwrap()).unwrap().unwrap();
        let event = Event::Cancelled { by: "me".to_owned(), note: None };
        open.append(&event, now).unwrap().file_away().unwrap();
    }

    pub(crate) fn interrupted(&self, run: &str, expires_at: Option<DateTime<Utc>>) -> OpenRun {
        let now = Self::moment(run);
        let asked = Interrupted {
            attempt: 1,
            step: "ask".parse().unwrap(),
            question: "Go on?".to_owned(),
            outcomes: vec!["yes".parse().unwrap(), "no".parse().unwrap()],
            schema: None,
            expires_at,
        };
        let mut open = self.create(run, now).append(&started(0, None), now).unwrap();
        for event in [step_started(run), step_finished(), Event::Interrupted(Box::new(asked))] {
            open = open.append(&event, now).unwrap();
        }
        open
    }

    /// A run whose first step is in flight in `slot`, which nobody holds.
    pub(crate) fn executing(&self, run: &str, slot: u32) -> OpenRun {
        let now = Self::moment(run);
        let open = self.create(run, now).append(&started(slot, None), now).unwrap();
        open.append(&step_started(run), now).unwrap()
    }

    pub(crate) fn ambiguous(&self, run: &str) {
        let event = Event::Failed {
            attempt: 1,
            reason: Reason::Ambiguous,
            error: "nobody knows".to_owned(),
            by: Some("recovery".to_owned()),
        };
        self.executing(run, 0).append(&event, Self::moment(run)).unwrap();
    }

    /// Takes a slot for the first attempt of `run`.
    pub(crate) fn claim(&self, run: &str) -> SlotGuard {
        let holder = Holder {
            run: run.parse().unwrap(),
            attempt: 1,
            pid: 1,
            pid_start: None,
            host: "host".to_owned(),
            at: Self::moment(run),
        };
        slots::claim(&self.lock(), self.store.disk(), 2, &holder).unwrap().unwrap()
    }

    pub(crate) fn schedule(&self, id: &str, cron: &str, cursor: DateTime<Utc>) -> Schedule {
        let rule = Rule::Cron(CronExpr::parse(cron).unwrap());
        let schedule = Schedule {
            id: id.parse().unwrap(),
            definition: Definition {
                workflow: self.workflow.clone(),
                name: "nightly".to_owned(),
                trigger: Trigger::new(trigger::Definition::new(rule)),
                policies: Policies::default(),
                input: Value::Null,
                env: BTreeMap::new(),
                cwd: "/".to_owned(),
            },
            cursor,
            receipts_len: 0,
            ahead: Vec::new(),
            paused: None,
            removed: None,
            created_at: cursor,
            updated_at: cursor,
        };
        self.save(&schedule);
        schedule
    }

    pub(crate) fn save(&self, schedule: &Schedule) {
        schedules::save(&self.lock(), &**self.store.disk(), schedule).unwrap();
    }

    pub(crate) fn missed(&self, id: &str, first: DateTime<Utc>, last: DateTime<Utc>, count: u64) {
        let why = WhyUnrun::Missed(MissedReason::CatchUp);
        let receipt = Unrun { at: last, times: Stretch { first, last, count }, why };
        let id: ScheduleId = id.parse().unwrap();
        schedules::append_history(&self.lock(), &**self.store.disk(), &id, &[receipt]).unwrap();
    }
}

fn lock(store: &Store) -> StoreLock<'_> {
    store.lock(Patience { timeout: Duration::from_secs(5), abort: None }).unwrap()
}

pub(crate) fn started(slot: u32, outcome: Option<Outcome>) -> Event {
    let kind = if outcome.is_some() { AttemptKind::Resume } else { AttemptKind::Dispatch };
    Event::AttemptStarted(Box::new(AttemptStarted {
        attempt: if outcome.is_some() { 2 } else { 1 },
        kind,
        slot: Some(SlotIndex(slot)),
        pid: 1,
        host: "host".to_owned(),
        by: None,
        outcome,
        payload: None,
        note: None,
    }))
}

fn step_started(run: &str) -> Event {
    let key = format!("{run}/1");
    Event::StepStarted { attempt: 1, seq: 1, step: "make".parse().unwrap(), try_no: 1, key }
}

fn step_finished() -> Event {
    Event::StepFinished(Box::new(StepFinished {
        attempt: 1,
        seq: 1,
        step: "make".parse().unwrap(),
        outcome: Outcome::OK,
        ending: StepEnding { exit: Some(0), ..StepEnding::default() },
        output: None,
        ms: 12,
    }))
}
