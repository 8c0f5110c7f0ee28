//! Every nominal time has exactly one receipt, whatever happens: the engine against a model.
//!
//! The model knows which trigger was in force over which stretch of time that the cursor has passed, and so
//! which nominal times must have a receipt. The store holds runs and history entries. After every command
//! both must say the same, no time twice. A command that dies is imitated by taking back what it would not
//! have come to write: everything behind a point in its order of receipts and runs, and the schedule's file.

#![allow(clippy::unwrap_used)]

mod time_support;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    time::Duration,
};

use chrono::{DateTime, TimeDelta, Utc};
use proptest::prelude::*;
use serde_json::Value;
use time_support::{Bench, Clocked, GATE, at};
use wfctl::{
    domain::{
        ids::{RunId, RunIdParts, ScheduleId},
        policy::{CatchUp, Overlap, Policies},
        schedule::{Schedule, Unrun},
        trigger::{Definition, Rule, Trigger},
    },
    engine::{
        admit,
        cancel::cancel,
        fsck,
        schedule::{Alteration, Existing, Repeatable, Request, alter, schedule},
        tick::Dispatch,
    },
    store::{Store, runs, schedules},
};

/// A command, and the time that passes before it.
#[derive(Debug, Clone)]
enum Deed {
    Tick,
    /// A tick of which only so much, in hundredths, came to be written, and maybe half a line more.
    DyingTick {
        permille: u64,
        torn: bool,
    },
    Pause,
    Unpause,
    /// Dies after the receipts.
    DyingUnpause,
    Replace(Shape),
    DyingReplace(Shape),
    Remove,
    DyingRemove,
    Rewind,
    /// Dies between taking back receipts and the cursor; done again by the next one.
    DyingRewind,
    /// Ends unfinished runs, so many in hundredths.
    Finish {
        permille: u64,
    },
    Prune,
}

#[derive(Debug, Clone)]
struct Shape {
    period: u64,
    overlap: Overlap,
    catch_up: CatchUp,
    deadline: Option<Duration>,
    count: Option<u64>,
    jitter: u64,
    /// How long before the moment it starts.
    early: Option<i64>,
}

fn shapes() -> impl Strategy<Value = Shape> {
    let overlap =
        prop_oneof![Just(Overlap::Skip), Just(Overlap::Queue), Just(Overlap::QueueOne), Just(Overlap::Allow)];
    let catch_up = prop_oneof![
        Just(CatchUp::Latest),
        (1..6u64).prop_map(|limit| CatchUp::All { limit }),
        Just(CatchUp::None)
    ];
    let deadline = proptest::option::weighted(0.3, (0..600u64).prop_map(Duration::from_secs));
    let jitter = prop_oneof![3 => Just(0), 1 => 1..200u64];
    let early = proptest::option::weighted(0.3, 0..900i64);
    (20..200u64, overlap, catch_up, deadline, proptest::option::weighted(0.2, 1..8u64), jitter, early)
        .prop_map(|(period, overlap, catch_up, deadline, count, jitter, early)| Shape {
            period,
            overlap,
            catch_up,
            deadline,
            count,
            jitter,
            early,
        })
}

fn deeds() -> impl Strategy<Value = Deed> {
    let permille = || 0..=1000u64;
    prop_oneof![
        6 => Just(Deed::Tick),
        4 => (permille(), any::<bool>()).prop_map(|(permille, torn)| Deed::DyingTick { permille, torn }),
        1 => Just(Deed::Pause),
        2 => Just(Deed::Unpause),
        1 => Just(Deed::DyingUnpause),
        1 => shapes().prop_map(Deed::Replace),
        1 => shapes().prop_map(Deed::DyingReplace),
        1 => Just(Deed::Remove),
        1 => Just(Deed::DyingRemove),
        2 => Just(Deed::Rewind),
        1 => Just(Deed::DyingRewind),
        2 => permille().prop_map(|permille| Deed::Finish { permille }),
        1 => Just(Deed::Prune),
    ]
}

/// Seconds that pass, backwards too; mostly a little, sometimes an outage or a wrong clock.
fn passing() -> impl Strategy<Value = i64> {
    prop_oneof![6 => 0..120i64, 2 => 120..2000i64, 1 => -600..0i64, 1 => 2000..8000i64, 1 => -8000..-600i64]
}

/// A stretch of time that the cursor has passed, and the trigger that was in force.
struct Era {
    after: DateTime<Utc>,
    through: DateTime<Utc>,
    trigger: Trigger,
}

struct World {
    bench: Bench,
    clock: Clocked,
    id: ScheduleId,
    source: admit::Source,
    eras: Vec<Era>,
    /// Every time that was ever a run: pruned ones count.
    ran: BTreeSet<DateTime<Utc>>,
}

impl World {
    fn new(shape: &Shape) -> Self {
        let bench = Bench::new();
        let clock = Clocked::new(&bench, at("2027-01-01T12:00:00.250Z"));
        let path = PathBuf::from(bench.file("s.toml", GATE));
        let source = admit::read_workflow(&BTreeMap::new(), &path).unwrap();
        let mut world =
            Self { bench, clock, id: "s".parse().unwrap(), source, eras: Vec::new(), ran: BTreeSet::new() };
        world.define(shape);
        world
    }

    fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    fn disk_store(&self) -> Store {
        Store::open(&self.bench.store(), "test").unwrap()
    }

    fn schedule(&self) -> Schedule {
        schedules::load(&**self.disk_store().disk(), &self.id).unwrap().unwrap()
    }

    fn define(&mut self, shape: &Shape) {
        let mut trigger = Definition::new(Rule::Every {
            period: Duration::from_secs(shape.period),
            anchor: at("2027-01-01T00:00:07Z"),
        });
        trigger.count = shape.count;
        trigger.jitter = Duration::from_secs(shape.jitter);
        trigger.start = shape.early.map(|early| self.now() - TimeDelta::seconds(early));
        let request = Request {
            asked_at: self.now(),
            id: self.id.clone(),
            source: self.source.clone(),
            trigger,
            policies: Policies { overlap: shape.overlap, catch_up: shape.catch_up, deadline: shape.deadline },
            input: Value::Null,
            paused: None,
            existing: Existing::Replace,
            repeatable: Repeatable::No,
        };
        self.clock.with(|engine| schedule(engine, request)).unwrap();
    }

    /// The times that must have a receipt.
    fn expected(&self) -> BTreeSet<DateTime<Utc>> {
        let times = |era: &Era| {
            let through = era.through;
            let times: Vec<_> =
                era.trigger.occurrences_after(era.after).take_while(|at| *at <= through).collect();
            times
        };
        self.eras.iter().flat_map(times).collect()
    }

    fn history(&self) -> Vec<Unrun> {
        schedules::load_history(&**self.disk_store().disk(), &self.id).unwrap()
    }

    fn runs(&self) -> Vec<RunId> {
        let store = self.disk_store();
        let disk = &**store.disk();
        let mut found = runs::list_active(disk).unwrap();
        // What holds no whole first record is no run.
        found.retain(|run| runs::load(disk, run).unwrap().is_some());
        for day in runs::done_days(disk).unwrap() {
            found.extend(runs::list_done(disk, day).unwrap());
        }
        found
    }

    /// The era that a command has closed: from the cursor as it was to the cursor as it is.
    fn settle(&mut self, trigger: &Trigger, before: DateTime<Utc>) {
        let through = self.schedule().cursor;
        if through > before {
            self.eras.push(Era { after: before, through, trigger: trigger.clone() });
        }
    }

    fn forget_after(&mut self, to: DateTime<Utc>) {
        self.eras.retain(|era| era.after < to);
        for era in &mut self.eras {
            era.through = era.through.min(to);
        }
    }

    fn check(&mut self) {
        for run in self.runs() {
            if let RunIdParts::Occurrence { at, .. } = run.parts() {
                self.ran.insert(at);
            }
        }
        // What a dying command told stands for itself until the next one takes it over.
        if !self.is_settled() {
            return;
        }
        let mut open: BTreeSet<_> = self.expected().difference(&self.ran).copied().collect();
        for receipt in self.history() {
            let times = receipt.times;
            let covered: Vec<_> = open.range(times.first..=times.last).copied().collect();
            assert_eq!(covered.len() as u64, times.count, "{receipt:?} does not add up; open are {open:?}");
            assert_eq!(covered.first(), Some(&times.first), "{receipt:?}");
            assert_eq!(covered.last(), Some(&times.last), "{receipt:?}");
            covered.iter().for_each(|at| assert!(open.remove(at)));
            let between = self.ran.range(times.first..=times.last).next();
            // Runs of a wrong clock may lie between the times of another trigger, but never on one.
            assert!(between.is_none_or(|at| !covered.contains(at)), "{receipt:?} and a run at {between:?}");
        }
        assert!(open.is_empty(), "these have no receipt: {open:?}");
    }

    fn is_settled(&self) -> bool {
        let cursor = self.schedule().cursor;
        self.history().last().is_none_or(|receipt| receipt.times.last <= cursor)
    }

    fn is_sound(&self) {
        let mut findings = Vec::new();
        fsck::check_store(&self.disk_store(), self.now(), &mut |finding| findings.push(finding));
        findings.retain(|finding| finding.severity == fsck::Severity::Error);
        assert!(findings.is_empty(), "{findings:?}");
    }

    fn finish(&self, permille: u64) {
        let store = self.disk_store();
        let disk = &**store.disk();
        let mut runs = runs::list_active(disk).unwrap();
        runs.retain(|run| wfctl::store::runs::load(disk, run).unwrap().is_some());
        let n = (runs.len() as u64 * permille).div_ceil(1000);
        for run in runs.iter().take(usize::try_from(n).unwrap()) {
            self.clock.with(|engine| cancel(engine, run, "me", None)).unwrap();
        }
    }

    fn file(&self) -> PathBuf {
        self.bench.store().join("schedules/s/schedule.json")
    }

    fn tick(&self) {
        let report = self.clock.tick(Dispatch::Nothing).unwrap();
        assert!(report.failures.is_empty(), "{:?}", report.failures);
    }

    /// Ticks, then takes back all but the first part of what it did.
    fn dying_tick(&self, permille: u64, torn: bool) {
        let definition = fs::read(self.file()).unwrap();
        let (runs_before, told_before) = (self.runs(), self.history());
        self.tick();
        fs::write(self.file(), definition).unwrap();
        let new_runs: Vec<_> = self.runs().into_iter().filter(|run| !runs_before.contains(run)).collect();
        let told = self.history();
        let new_told = &told[told_before.len()..];
        let mut done: Vec<DateTime<Utc>> = new_runs.iter().filter_map(RunId::stamp).collect();
        done.extend(new_told.iter().map(|receipt| receipt.times.first));
        done.sort_unstable();
        let kept = usize::try_from(done.len() as u64 * permille / 1000).unwrap();
        let Some(first_lost) = done.get(kept) else { return };
        for run in new_runs.iter().filter(|run| run.stamp().unwrap() >= *first_lost) {
            let dir = self.bench.store().join("runs/active").join(run.as_str());
            fs::remove_dir_all(&dir).unwrap();
            if torn && run.stamp() == Some(*first_lost) {
                fs::create_dir(&dir).unwrap();
                fs::write(dir.join("journal.jsonl"), "{\"n\":1,\"at\":\"2027").unwrap();
            }
        }
        let path = self.bench.store().join("schedules/s/history.jsonl");
        if let Ok(text) = fs::read_to_string(&path) {
            let keep = told_before.len() + new_told.iter().filter(|r| r.times.first < *first_lost).count();
            let mut lines = text.split_inclusive('\n').skip(keep);
            let mut kept: String = text.split_inclusive('\n').take(keep).collect();
            if let Some(lost) = lines.next().filter(|_| torn) {
                kept.push_str(&lost[..lost.len() / 2]);
            }
            fs::write(&path, kept).unwrap();
        }
    }

    fn act(&mut self, deed: &Deed) {
        let before = self.schedule();
        let removed = before.removed.is_some();
        let trigger = before.definition.trigger.clone();
        let alter = |world: &Self, alteration| {
            world.clock.with(|engine| alter(engine, "s", alteration, "me")).map(drop)
        };
        let file = fs::read(self.file()).unwrap();
        match deed {
            Deed::Tick => {
                self.tick();
                self.settle(&trigger, before.cursor);
                let jitter = TimeDelta::from_std(trigger.definition().jitter).unwrap();
                if before.is_active() {
                    let cursor = self.schedule().cursor;
                    let due = trigger.count_between(cursor, self.now() - jitter);
                    assert_eq!(due, 0, "{due} are due and not settled");
                }
            }
            Deed::DyingTick { permille, torn } if !removed => {
                self.dying_tick(*permille, *torn);
                return;
            }
            Deed::Pause if !removed => alter(self, Alteration::Pause).unwrap(),
            Deed::Unpause if !removed => {
                alter(self, Alteration::Unpause).unwrap();
                self.settle(&trigger, before.cursor);
            }
            Deed::DyingUnpause if !removed => {
                alter(self, Alteration::Unpause).unwrap();
                fs::write(self.file(), file).unwrap();
                return;
            }
            Deed::Remove if !removed => {
                alter(self, Alteration::Remove).unwrap();
                self.settle(&trigger, before.cursor);
            }
            Deed::DyingRemove if !removed => {
                alter(self, Alteration::Remove).unwrap();
                fs::write(self.file(), file).unwrap();
                return;
            }
            Deed::Replace(shape) => {
                let now = self.now();
                self.define(shape);
                let after = self.schedule();
                // What a wrong clock has told of times to come is not true of the new definition.
                if before.cursor > now {
                    let told = self.history().last().map_or(now, |receipt| receipt.times.last);
                    self.forget_after(at_whole(now).max(told));
                }
                if before.cursor < now && !removed {
                    let through = after.cursor.min(at_whole(now));
                    self.eras.push(Era { after: before.cursor, through, trigger });
                }
                let again = after.definition.trigger.count_between(after.cursor, after.cursor);
                assert_eq!(again, 0);
            }
            Deed::DyingReplace(shape) if !removed && before.cursor <= self.now() => {
                self.define(shape);
                fs::write(self.file(), file).unwrap();
                return;
            }
            Deed::Rewind | Deed::DyingRewind if !removed => {
                alter(self, Alteration::Rewind).unwrap();
                if matches!(deed, Deed::DyingRewind) {
                    fs::write(self.file(), file).unwrap();
                    alter(self, Alteration::Rewind).unwrap();
                }
                let cursor = self.schedule().cursor;
                assert!(cursor <= before.cursor.max(at_whole(self.now())));
                self.forget_after(cursor);
                // Receipts of a tick that died with a wrong clock stand for more than the cursor did.
                self.settle(&trigger, before.cursor);
            }
            Deed::Finish { permille } => {
                self.finish(*permille);
                // Taking hold of a run may have moved a cursor that a dying tick had left behind.
                return;
            }
            Deed::Prune => {
                self.check_runs();
                let options = wfctl::engine::prune::Options {
                    older_than: Some(Duration::ZERO),
                    keep: None,
                    mode: wfctl::engine::recover::Mode::Act,
                };
                self.clock.with(|engine| wfctl::engine::prune::prune(engine, &options, &|_| ())).unwrap();
                return;
            }
            _ => return,
        }
        self.check();
    }

    fn check_runs(&mut self) {
        for run in self.runs() {
            if let RunIdParts::Occurrence { at, .. } = run.parts() {
                self.ran.insert(at);
            }
        }
    }
}

fn at_whole(at: DateTime<Utc>) -> DateTime<Utc> {
    wfctl::domain::time::whole_seconds(at)
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        max_shrink_iters: 2000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_nominal_time_has_exactly_one_receipt(
        shape in shapes(),
        story in proptest::collection::vec((passing(), deeds()), 1..20),
    ) {
        let mut world = World::new(&shape);
        for (seconds, deed) in &story {
            let now = world.now() + TimeDelta::seconds(*seconds);
            world.clock.set(now);
            world.act(deed);
        }
        for deed in [Deed::Tick, Deed::Rewind, Deed::Unpause, Deed::Tick] {
            world.clock.set(world.now() + TimeDelta::seconds(300));
            world.act(&deed);
        }
        prop_assert!(world.is_settled());
        world.is_sound();
    }
}
