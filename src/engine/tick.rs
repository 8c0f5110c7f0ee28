//! One tick: recover, expire gates, admit what is due, dispatch.
//!
//! Order on disk for each schedule: receipts of times that never become runs, then the runs themselves, then
//! the cursor. A tick that dies in between is made up for by the next: receipts behind the length that the
//! cursor stands for, and runs beyond the cursor, count as done.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::{
    Engine, EngineError, admit,
    attempt::Observer,
    dispatch::{self, Executed, Failure, New, Prepared, Queue},
    expire::{self, Expired},
    notify, prune,
    recover::{self, Decision, Mode, Recovered},
    supervise::{OnInterrupt, Supervisor},
};
use crate::{
    domain::{
        ids::{RunId, RunIdParts, ScheduleId},
        policy::{self, MissedReason, Overlap, Plan, Present, Receipt, Standing, Stretch, Unfinished},
        schedule::{Schedule, Unrun, WhyUnrun},
        time,
    },
    state::run::{Phase, RunState},
    store::{
        StoreError,
        disk::Disk,
        due::{self, Line, Look},
        lock::StoreLock,
        runs::{self, Creation},
        schedules,
    },
};

/// What a tick is asked to do.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What due times are measured against; none: the time now.
    pub now: Option<DateTime<Utc>>,
    /// How many runs are dispatched at most.
    pub max_runs: Option<u64>,
    /// Whether abandoned runs are recovered first.
    pub recover: Recover,
    /// Whether anything is dispatched.
    pub dispatch: Dispatch,
    /// Whether anything is done at all.
    pub mode: TickMode,
}

/// Whether a tick begins with a recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recover {
    /// It does.
    #[default]
    First,
    /// It does not.
    Never,
}

/// Whether a tick dispatches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dispatch {
    /// It does.
    #[default]
    Queued,
    /// It only admits.
    Nothing,
}

/// Whether a tick acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TickMode {
    /// It does.
    #[default]
    Act,
    /// It tells what it would admit, skip and miss.
    DryRun,
}

/// What a tick did.
#[derive(Debug, Default)]
pub struct Report {
    /// The instant that due times were measured against.
    pub now: DateTime<Utc>,
    /// What recovery decided.
    pub recovered: Vec<Recovered>,
    /// Gates that nobody answered in time.
    pub expired: Vec<Expired>,
    /// New runs.
    pub admitted: Vec<(ScheduleId, RunId, DateTime<Utc>)>,
    /// Occurrences with a run in their way.
    pub skipped: Vec<(ScheduleId, Stretch, RunId)>,
    /// Occurrences that passed.
    pub missed: Vec<(ScheduleId, Stretch, MissedReason)>,
    /// Executed runs.
    pub runs: Vec<Executed>,
    /// Runs that stay queued because their pinned workflow cannot be used.
    pub blocked: Vec<(RunId, String)>,
    /// What could not be done.
    pub failures: Vec<Failure>,
    /// What a person should know.
    pub warnings: Vec<String>,
    /// Whether the store is draining.
    pub draining: bool,
}

/// A schedule with what came due.
struct Due {
    schedule: Schedule,
    plan: Plan,
    failed: bool,
}

/// What the unfinished runs of the store mean for a tick.
#[derive(Default)]
struct Survey {
    waiting: Vec<dispatch::Waiting>,
    unfinished: BTreeMap<ScheduleId, Vec<(DateTime<Utc>, Unfinished)>>,
    /// The nominal times of runs that are in `active`: a tick that died may have admitted them.
    admitted: BTreeMap<ScheduleId, Vec<DateTime<Utc>>>,
}

/// Does one tick.
///
/// # Errors
/// When the store as a whole cannot be used; what concerns single runs or schedules is in the report.
pub fn tick(engine: &Engine<'_>, options: &Options, observer: &dyn Observer) -> Result<Report, EngineError> {
    let supervisor = Supervisor::new(engine, OnInterrupt::Fence)?;
    let lock = engine.lock()?;
    let now = options.now.unwrap_or_else(|| engine.now());
    let mut report = Report { now, draining: engine.store.is_draining()?, ..Report::default() };
    if options.mode == TickMode::DryRun {
        dry_run(engine, &lock, options, &mut report)?;
        return Ok(report);
    }
    recover::sweep(engine, &lock)?;
    if options.recover == Recover::First {
        let recovery = recover::recover_all(engine, &lock, Mode::Act)?;
        report.recovered = recovery.items;
        report
            .failures
            .extend(recovery.failures.into_iter().map(|(run, error)| Failure { run: Some(run), error }));
    }
    if report.draining {
        drop(lock);
        notify::each(engine, &settled_under_lock(&report), observer);
        return Ok(report);
    }
    let queue = Queue::new(engine, &supervisor, observer, now, options.max_runs);
    expire::expire_finally(engine, &lock, now, &mut report)?;
    let survey = survey(engine, now, &mut report)?;
    let mut due = plan_all(engine, Some(&lock), now, &survey, &mut report)?;
    queue.add(survey.waiting.iter().cloned());
    let prepared = admit_all(engine, &lock, options, &queue, &survey, &mut due, &mut report);
    if let Err(error) = prune::prune_slice(engine, &lock, prune::TICK_SLICE) {
        report.failures.push(Failure { run: None, error });
    }
    drop(lock);
    let to_notify = settled_under_lock(&report);
    std::thread::scope(|scope| {
        if !to_notify.is_empty() {
            scope.spawn(|| notify::each(engine, &to_notify, observer));
        }
        // What has begun is executed, or fenced, in any case.
        let dispatches = options.dispatch == Dispatch::Queued && engine.signals.pending().is_none();
        if dispatches || !prepared.is_empty() {
            let dispatched = queue.execute(prepared);
            report.runs = dispatched.runs;
            report.blocked = dispatched.blocked;
            report.expired.extend(dispatched.expired);
            report.failures.extend(dispatched.failures);
        }
    });
    Ok(report)
}

/// The runs that this tick settled without executing them: of these nobody has been notified yet.
fn settled_under_lock(report: &Report) -> Vec<RunId> {
    let ambiguous = report.recovered.iter().filter(|item| item.decision == Decision::Ambiguous);
    let ambiguous = ambiguous.filter_map(|item| item.run.clone());
    ambiguous.chain(report.expired.iter().map(|gate| gate.run.clone())).collect()
}

fn dry_run(
    engine: &Engine<'_>,
    lock: &StoreLock<'_>,
    options: &Options,
    report: &mut Report,
) -> Result<(), EngineError> {
    if options.recover == Recover::First {
        let recovery = recover::recover_all(engine, lock, Mode::DryRun)?;
        report.recovered = recovery.items;
    }
    let ending = expire::foresee(engine, report.now, report)?;
    let mut survey = survey(engine, report.now, report)?;
    for unfinished in survey.unfinished.values_mut() {
        unfinished.retain(|(_, unfinished)| !ending.contains(&unfinished.run));
    }
    let due = plan_all(engine, None, report.now, &survey, report)?;
    for Due { schedule, plan, .. } in &due {
        for receipt in &plan.receipts {
            note(report, &schedule.id, receipt);
            if let Receipt::Admitted(at) = receipt {
                let run = RunId::for_occurrence(&schedule.id, *at);
                report.admitted.push((schedule.id.clone(), run, *at));
            }
        }
    }
    Ok(())
}

/// Looks at every unfinished run once.
fn survey(engine: &Engine<'_>, now: DateTime<Utc>, report: &mut Report) -> Result<Survey, EngineError> {
    let disk = &**engine.disk();
    let mut survey = Survey::default();
    for run in runs::list_active(disk)? {
        let state = match runs::load(disk, &run) {
            Ok(Some(state)) => state,
            Ok(None) => continue,
            Err(error @ (StoreError::Corrupt { .. } | StoreError::Io { .. })) => {
                let error = error.below(engine.store.root());
                report.warnings.push(format!("run {run} is passed over: {error}"));
                survey.note_unreadable(&run);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        survey.waiting.extend(dispatch::waiting(&state, now));
        survey.note(&state);
    }
    Ok(survey)
}

impl Survey {
    /// A run exists whatever its record says, so its time is never told to be missed.
    fn note_unreadable(&mut self, run: &RunId) {
        if let RunIdParts::Occurrence { name, at } = run.parts()
            && let Ok(schedule) = name.parse::<ScheduleId>()
        {
            self.admitted.entry(schedule).or_default().push(at);
        }
    }

    fn note(&mut self, state: &RunState) {
        let admitted = &state.admitted;
        let Some(schedule) = &admitted.schedule else { return };
        if !admitted.manual {
            self.admitted.entry(schedule.clone()).or_default().push(admitted.occurrence);
        }
        let standing = match &state.phase {
            Phase::Queued(_) => Standing::Waiting,
            Phase::Executing(_) | Phase::Interrupted(_) => Standing::Begun,
            Phase::Completed { .. } | Phase::Failed(_) | Phase::Cancelled { .. } => return,
        };
        let unfinished = Unfinished { run: admitted.run.clone(), standing };
        self.unfinished.entry(schedule.clone()).or_default().push((admitted.occurrence, unfinished));
    }
}

/// Decides about every schedule that is due. Only with the lock is anything tidied up on the way.
fn plan_all(
    engine: &Engine<'_>,
    lock: Option<&StoreLock<'_>>,
    now: DateTime<Utc>,
    survey: &Survey,
    report: &mut Report,
) -> Result<Vec<Due>, EngineError> {
    let disk = &**engine.disk();
    let mut due = Vec::new();
    let clock = engine.now().max(now);
    let mut index = Index::load(disk);
    for id in index.to_look_at(disk, now, clock)? {
        let schedule = match schedules::load(disk, &id) {
            Ok(Some(schedule)) => schedule,
            Ok(None) => {
                if let Some(lock) = lock {
                    schedules::sweep_undefined(lock, disk, &id);
                }
                index.note(&id, Look::Always);
                continue;
            }
            Err(error) => {
                let error = error.below(engine.store.root());
                report.warnings.push(format!("schedule {id} is passed over: {error}"));
                index.note(&id, Look::Always);
                continue;
            }
        };
        index.note(&id, Look::of(&schedule));
        if !schedule.is_active() {
            continue;
        }
        if let Some(warning) = ahead_of_clock(&schedule, clock) {
            report.warnings.push(warning);
        }
        let mut admitted = schedule.ahead.clone();
        admitted.extend(survey.admitted.get(&id).into_iter().flatten());
        let cursor = match covered(engine, &schedule) {
            Ok(cursor) => cursor,
            Err(error) => {
                let error = error.below(engine.store.root());
                report.warnings.push(format!("schedule {id} is passed over: {error}"));
                continue;
            }
        };
        let window = schedule.definition.trigger.window(id.as_str(), cursor, now);
        if window.is_empty() && cursor == schedule.cursor {
            continue;
        }
        let mut in_the_way = survey.unfinished.get(&id).cloned().unwrap_or_default();
        in_the_way.sort_unstable_by_key(|(at, _)| *at);
        let in_the_way: Vec<Unfinished> = in_the_way.into_iter().map(|(_, run)| run).collect();
        let present = Present { unfinished: &in_the_way, admitted: &admitted };
        let plan = policy::plan(&window, &id, &schedule.definition.policies, present);
        due.push(Due { schedule, plan, failed: false });
    }
    if let Some(lock) = lock {
        index.save(lock, disk)?;
    }
    Ok(due)
}

/// The schedules that a tick looks at, all of them where no index tells which, and what it learns about when
/// to look again.
struct Index {
    known: Option<BTreeMap<ScheduleId, Look>>,
    seen: Vec<Line>,
}

impl Index {
    fn load(disk: &dyn Disk) -> Self {
        let known = due::load(disk);
        let known = known.map(|lines| lines.into_iter().map(|line| (line.id, line.look)).collect());
        Self { known, seen: Vec::new() }
    }

    fn to_look_at(
        &self,
        disk: &dyn Disk,
        now: DateTime<Utc>,
        clock: DateTime<Utc>,
    ) -> Result<Vec<ScheduleId>, StoreError> {
        match &self.known {
            None => schedules::list(disk),
            Some(known) => {
                let due = known.iter().filter(|(_, look)| look.is_due(now, clock));
                Ok(due.map(|(id, _)| id.clone()).collect())
            }
        }
    }

    fn note(&mut self, id: &ScheduleId, look: Look) {
        self.seen.push(Line { id: id.clone(), look });
    }

    /// Keeps what was learnt, before any of these schedules changes.
    fn save(&self, lock: &StoreLock<'_>, disk: &dyn Disk) -> Result<(), StoreError> {
        let Some(known) = &self.known else {
            return due::write(lock, disk, &self.seen);
        };
        let learnt = self.seen.iter().filter(|line| known.get(&line.id) != Some(&line.look));
        for line in learnt {
            due::set(lock, disk, line)?;
        }
        Ok(())
    }
}

/// The warning for a schedule whose cursor a wrong clock has moved into the future.
pub fn ahead_of_clock(schedule: &Schedule, now: DateTime<Utc>) -> Option<String> {
    schedule.is_ahead_of(now).then(|| {
        format!(
            "schedule {} is not due before {}: its cursor is ahead of the clock; `wfctl rewind {}` sets it back",
            schedule.id,
            time::format_seconds(schedule.cursor),
            schedule.id
        )
    })
}

/// The cursor of a schedule, with the receipts that a command wrote which died before it came to advance it.
/// They count whatever the clock says now: a time has one receipt, also after the clock went backwards.
///
/// # Errors
/// When the store cannot be read.
pub fn covered(engine: &Engine<'_>, schedule: &Schedule) -> Result<DateTime<Utc>, StoreError> {
    let uncovered = schedules::load_uncovered(&**engine.disk(), schedule)?;
    let last = uncovered.iter().map(|receipt| receipt.times.last).max();
    Ok(last.map_or(schedule.cursor, |last| last.max(schedule.cursor)))
}

/// The nominal times of the runs of a schedule that are in `active`, and of those ahead of its cursor.
///
/// # Errors
/// When the folder cannot be read.
pub fn admitted_occurrences(
    engine: &Engine<'_>,
    schedule: &Schedule,
) -> Result<Vec<DateTime<Utc>>, EngineError> {
    let disk = &**engine.disk();
    let mut occurrences = schedule.ahead.clone();
    for run in runs::list_active(disk)? {
        let Some(at) = occurrence_of(&run, &schedule.id) else { continue };
        // A folder without a whole first record counts as nothing; one with a corrupt record is a run.
        if !matches!(runs::load(disk, &run), Ok(None)) {
            occurrences.push(at);
        }
    }
    Ok(occurrences)
}

/// The nominal time of a run of this schedule that is no manual one.
pub fn occurrence_of(run: &RunId, schedule: &ScheduleId) -> Option<DateTime<Utc>> {
    match run.parts() {
        RunIdParts::Occurrence { name, at } if name == schedule.as_str() => Some(at),
        RunIdParts::Occurrence { .. } | RunIdParts::Manual { .. } | RunIdParts::Chosen { .. } => None,
    }
}

/// One thing to make durable: receipts of times that never become runs, or a run.
struct Deed {
    at: DateTime<Utc>,
    due: usize,
    what: What,
}

enum What {
    Unrun(Vec<Receipt>),
    Admit,
}

/// All deeds in the order of nominal time. For one schedule this order is what makes a tick that died
/// half-way continue exactly behind what it has done.
fn deeds(due: &[Due]) -> Vec<Deed> {
    let mut deeds: Vec<Deed> = Vec::new();
    for (index, due) in due.iter().enumerate() {
        let first_of_this = deeds.len();
        for receipt in &due.plan.receipts {
            let at = receipt.first();
            match (receipt, deeds[first_of_this..].last_mut()) {
                (Receipt::AlreadyAdmitted(_), _) => {}
                (Receipt::Admitted(_), _) => deeds.push(Deed { at, due: index, what: What::Admit }),
                (_, Some(Deed { what: What::Unrun(receipts), .. })) => receipts.push(receipt.clone()),
                _ => deeds.push(Deed { at, due: index, what: What::Unrun(vec![receipt.clone()]) }),
            }
        }
    }
    deeds.sort_by_key(|deed| deed.at);
    deeds
}

/// Makes receipts and runs durable, in the order of nominal time, then the cursors, and begins runs for
/// which a slot is free.
fn admit_all(
    engine: &Engine<'_>,
    lock: &StoreLock<'_>,
    options: &Options,
    queue: &Queue<'_>,
    survey: &Survey,
    due: &mut [Due],
    report: &mut Report,
) -> Vec<Prepared> {
    let mut prepared = Vec::new();
    for Deed { at, due: index, what } in deeds(due) {
        let Some(Due { schedule, failed, .. }) = due.get_mut(index).filter(|due| !due.failed) else {
            continue;
        };
        let done = match what {
            What::Unrun(receipts) => record_unrun(engine, lock, schedule, &receipts, report),
            What::Admit => {
                let waits = options.dispatch == Dispatch::Nothing
                    || engine.signals.pending().is_some()
                    || !goes_at_once(schedule, survey);
                admit_one(engine, lock, queue, schedule, at, waits).map(|admission| {
                    let begun = match admission {
                        Admission::Existed => return,
                        Admission::Begun(begun) => Some(*begun),
                        Admission::Queued => None,
                    };
                    prepared.extend(begun);
                    let run = RunId::for_occurrence(&schedule.id, at);
                    report.admitted.push((schedule.id.clone(), run, at));
                })
            }
        };
        if let Err(error) = done {
            // What comes later stays due, so that the next tick goes on from here.
            *failed = true;
            report.failures.push(Failure { run: Some(RunId::for_occurrence(&schedule.id, at)), error });
        }
    }
    for Due { schedule, plan, .. } in due.iter_mut().filter(|due| !due.failed) {
        schedule.advance(plan.cursor);
        if let Err(error) = schedules::save(lock, &**engine.disk(), schedule) {
            report.failures.push(Failure { run: None, error: error.into() });
        }
    }
    prepared
}

fn record_unrun(
    engine: &Engine<'_>,
    lock: &StoreLock<'_>,
    schedule: &mut Schedule,
    receipts: &[Receipt],
    report: &mut Report,
) -> Result<(), EngineError> {
    let now = engine.now();
    let unrun: Vec<Unrun> = receipts.iter().filter_map(|receipt| unrun(receipt, now)).collect();
    if let Some(len) = schedules::append_history(lock, &**engine.disk(), &schedule.id, &unrun)? {
        schedule.receipts_len = len;
    }
    receipts.iter().for_each(|receipt| note(report, &schedule.id, receipt));
    Ok(())
}

/// Whether a new run of the schedule need not wait for an earlier one.
fn goes_at_once(schedule: &Schedule, survey: &Survey) -> bool {
    match schedule.definition.policies.overlap {
        Overlap::Skip | Overlap::Allow => true,
        // The dispatcher, which goes in order, decides.
        Overlap::Queue | Overlap::QueueOne => {
            !survey.unfinished.contains_key(&schedule.id)
                && matches!(schedule.definition.policies.overlap, Overlap::QueueOne)
        }
    }
}

enum Admission {
    Begun(Box<Prepared>),
    Queued,
    Existed,
}

fn admit_one(
    engine: &Engine<'_>,
    lock: &StoreLock<'_>,
    queue: &Queue<'_>,
    schedule: &Schedule,
    at: DateTime<Utc>,
    waits: bool,
) -> Result<Admission, EngineError> {
    let id = RunId::for_occurrence(&schedule.id, at);
    let admitted = admit::admitted_by(schedule, id, at, false, None);
    let run = match runs::create(lock, engine.disk(), admitted, engine.now())? {
        Creation::Created(run) => run,
        Creation::Exists => return Ok(Admission::Existed),
    };
    let run = match queue.workflow(&schedule.definition.workflow) {
        Ok(workflow) if !waits => match queue.begin_new(lock, run, workflow)? {
            New::Begun(begun) => return Ok(Admission::Begun(begun)),
            New::Waits(run) => run,
        },
        // A workflow that cannot be used is told when the run is to be dispatched.
        Ok(_) | Err(_) => run,
    };
    let run = run.commit()?;
    queue.add(dispatch::waiting(run.state(), engine.now()));
    Ok(Admission::Queued)
}

/// The receipt as it is stored; none for times that are runs.
pub fn unrun(receipt: &Receipt, at: DateTime<Utc>) -> Option<Unrun> {
    let at = time::whole_millis(at);
    match receipt {
        Receipt::Admitted(_) | Receipt::AlreadyAdmitted(_) => None,
        Receipt::Skipped { times, by } => {
            Some(Unrun { at, times: *times, why: WhyUnrun::Skipped { by: by.clone() } })
        }
        Receipt::Missed { times, reason } => {
            Some(Unrun { at, times: *times, why: WhyUnrun::Missed(*reason) })
        }
    }
}

fn note(report: &mut Report, id: &ScheduleId, receipt: &Receipt) {
    match receipt {
        Receipt::Admitted(_) | Receipt::AlreadyAdmitted(_) => {}
        Receipt::Skipped { times, by } => report.skipped.push((id.clone(), *times, by.clone())),
        Receipt::Missed { times, reason } => report.missed.push((id.clone(), *times, *reason)),
    }
}
