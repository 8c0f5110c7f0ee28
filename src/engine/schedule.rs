//! Schedules as people change them: schedule, replace, pause, remove, rewind, trigger.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::{
    Engine, EngineError,
    admit::{self, Source},
    batch,
};
use crate::{
    domain::{
        ids::{RunId, ScheduleId},
        policy::{self, MissedReason, Policies},
        schedule::{Change, Definition, Schedule, Unrun},
        time,
        trigger::{self, Rule, Trigger},
    },
    store::{lock::StoreLock, runs, schedules, snapshots},
};

/// What a person asks to be scheduled.
#[derive(Debug, Clone)]
pub struct Request {
    /// The id.
    pub id: ScheduleId,
    /// The workflow file.
    pub source: Source,
    /// When; without a start it begins at the moment of scheduling.
    pub trigger: trigger::Definition,
    /// The instant that its relative times were reckoned from.
    pub asked_at: DateTime<Utc>,
    /// The policies.
    pub policies: Policies,
    /// The input of its runs.
    pub input: Value,
    /// Whether it begins paused, and by whom.
    pub paused: Option<String>,
    /// Whether a schedule of the same id is replaced.
    pub existing: Existing,
    /// Whether the times are the same whenever it is asked: an identical request is then a no-op.
    pub repeatable: Repeatable,
}

/// What becomes of a schedule of the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// It stands, and the request is refused.
    Refuse,
    /// It is replaced.
    Replace,
}

/// Whether a request means the same at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeatable {
    /// It does.
    Yes,
    /// It names relative times.
    No,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Scheduled {
    /// It is new.
    Created(Schedule),
    /// The same definition stood already.
    Unchanged(Schedule),
    /// Another definition was replaced.
    Replaced(Schedule),
}

impl Scheduled {
    /// The schedule as it stands now.
    pub fn schedule(&self) -> &Schedule {
        match self {
            Self::Created(schedule) | Self::Unchanged(schedule) | Self::Replaced(schedule) => schedule,
        }
    }
}

/// Pins the workflow and stores a schedule.
///
/// # Errors
/// When the trigger can never fire, or the id is taken.
pub fn schedule(engine: &Engine<'_>, request: Request) -> Result<Scheduled, EngineError> {
    let lock = engine.lock()?;
    let now = engine.now();
    let existing = load_existing(engine, &request.id)?;
    if let Some(existing) = existing.as_ref().filter(|existing| existing.removed.is_none()) {
        if request.repeatable == Repeatable::Yes && is_same(existing, &request) {
            // The snapshot is put right where it was damaged.
            snapshots::pin(&lock, &**engine.disk(), request.source.text.as_bytes())?;
            schedules::sync(&**engine.disk(), &existing.id)?;
            return Ok(Scheduled::Unchanged(existing.clone()));
        }
        if request.existing == Existing::Refuse {
            return Err(EngineError::Exists { what: "schedule", id: request.id.to_string() });
        }
    }
    let setback = existing.as_ref().map(|existing| setback(engine, existing, now)).transpose()?.flatten();
    let cursor = match (&setback, &existing) {
        (Some(setback), _) => Some(setback.cursor),
        (None, Some(removed)) if removed.removed.is_some() => Some(super::tick::covered(engine, removed)?),
        // What is due under the old definition will have its receipt.
        (None, Some(existing)) => Some(super::tick::covered(engine, existing)?.max(time::whole_seconds(now))),
        (None, None) => None,
    };
    // Replacing gives all times up to now a receipt.
    let is_replaced = existing.as_ref().is_some_and(|existing| existing.removed.is_none());
    let covered = cursor.map(|at| if is_replaced { at.max(time::whole_seconds(now)) } else { at });
    let trigger = start_of(&request, cursor, covered, now)?;
    let workflow = snapshots::pin(&lock, &**engine.disk(), request.source.text.as_bytes())?;
    let definition = Definition {
        workflow,
        name: request.source.workflow.name.to_string(),
        trigger,
        asked_start: request.trigger.start,
        policies: request.policies,
        input: request.input,
        env: request.source.env,
        cwd: request.source.cwd,
    };
    let paused = request.paused.map(|by| Change { at: now, by });
    match existing {
        None => {
            let cursor = definition.trigger.initial_cursor();
            let schedule = Schedule {
                id: request.id,
                cursor,
                receipts_len: 0,
                ahead: Vec::new(),
                deleted_until: None,
                definition,
                paused,
                removed: None,
                created_at: now,
                updated_at: now,
            };
            schedules::save(&lock, &**engine.disk(), &schedule)?;
            Ok(Scheduled::Created(schedule))
        }
        Some(mut old) => {
            let was_removed = old.removed.is_some();
            if let Some(setback) = setback {
                set_back(engine, &lock, &mut old, setback)?;
            }
            if !was_removed {
                miss_until(engine, &lock, &mut old, now, MissedReason::Replaced)?;
            }
            let cursor = old.cursor.max(definition.trigger.initial_cursor());
            let schedule = Schedule { definition, cursor, paused, removed: None, updated_at: now, ..old };
            schedules::save(&lock, &**engine.disk(), &schedule)?;
            Ok(if was_removed { Scheduled::Created(schedule) } else { Scheduled::Replaced(schedule) })
        }
    }
}

fn load_existing(engine: &Engine<'_>, id: &ScheduleId) -> Result<Option<Schedule>, EngineError> {
    Ok(schedules::load(&**engine.disk(), id)?)
}

fn is_same(existing: &Schedule, request: &Request) -> bool {
    let definition = &existing.definition;
    // The trigger's own start was filled in or moved when it was scheduled.
    let asked =
        trigger::Definition { start: definition.trigger.definition().start, ..request.trigger.clone() };
    definition.workflow == crate::domain::ids::Digest::of(request.source.text.as_bytes())
        && *definition.trigger.definition() == asked
        && definition.asked_start == request.trigger.start
        && definition.policies == request.policies
        && definition.input == request.input
        && definition.env == request.source.env
        && definition.cwd == request.source.cwd
        && existing.paused.is_some() == request.paused.is_some()
}

/// The trigger with its start: the moment of scheduling unless another was asked for, always behind the
/// `cursor` of an earlier schedule of the id, up to which there are receipts; all times up to `covered` have one
/// once the request is carried out.
fn start_of(
    request: &Request,
    cursor: Option<DateTime<Utc>>,
    covered: Option<DateTime<Utc>>,
    now: DateTime<Utc>,
) -> Result<Trigger, EngineError> {
    let mut definition = request.trigger.clone();
    let is_once = matches!(definition.rule, Rule::At(_));
    let given = definition.start;
    let mut start = given.unwrap_or(now);
    if let Some(cursor) = cursor {
        start = start.max(cursor + chrono::TimeDelta::seconds(1));
    }
    if !is_once || given.is_some() || cursor.is_some() {
        definition.start = Some(start);
    }
    let (asked_at, now) = (time::whole_seconds(request.asked_at), time::whole_seconds(now));
    if let Rule::At(at) = definition.rule
        && given.is_none()
        && (asked_at..=now).contains(&time::whole_seconds(at))
    {
        // `--at now` fires once, however long this command waited for the lock, and also in the very second
        // in which the schedule was changed before: at the first moment that has no receipt.
        let free = covered.map(|covered| covered + chrono::TimeDelta::seconds(1));
        definition.rule = Rule::At(free.map_or(now, |free| free.max(now)));
    }
    if let Rule::At(at) = definition.rule
        && given.is_none()
        && at < now
    {
        return Err(EngineError::BadInput {
            what: "the trigger".to_owned(),
            why: format!("its one time {} has passed", time::format_seconds(at)),
            hint: "name a time to come, or `--at now`".to_owned(),
        });
    }
    let trigger = Trigger::new(definition);
    trigger.check()?;
    Ok(trigger)
}

/// Gives every nominal time up to `now` that has no receipt one that says it was missed.
fn miss_until(
    engine: &Engine<'_>,
    lock: &StoreLock<'_>,
    schedule: &mut Schedule,
    now: DateTime<Utc>,
    reason: MissedReason,
) -> Result<(), EngineError> {
    let disk = &**engine.disk();
    let covered = super::tick::covered(engine, schedule)?;
    let window = schedule.definition.trigger.nominal_window(covered, now);
    let admitted = super::tick::admitted_occurrences(engine, schedule)?;
    let plan = policy::plan_missed(&window, reason, &admitted);
    let receipts: Vec<Unrun> =
        plan.receipts.iter().filter_map(|receipt| super::tick::unrun(receipt, now)).collect();
    if let Some(len) = schedules::append_history(lock, disk, &schedule.id, &receipts)? {
        schedule.receipts_len = len;
    }
    schedule.advance(plan.cursor.max(time::whole_seconds(now)));
    Ok(())
}

/// A schedule that exists and was not removed.
///
/// # Errors
/// When there is none.
pub fn load(engine: &Engine<'_>, id: &str) -> Result<Schedule, EngineError> {
    let disk = &**engine.disk();
    let found = match id.parse::<ScheduleId>() {
        Ok(id) => schedules::load(disk, &id)?.filter(|schedule| schedule.removed.is_none()),
        Err(_) => None,
    };
    match found {
        Some(schedule) => Ok(schedule),
        None => Err(EngineError::NoSchedule { id: id.to_owned(), nearest: nearest(engine, id) }),
    }
}

fn nearest(engine: &Engine<'_>, id: &str) -> Option<String> {
    let ids = schedules::list(&**engine.disk()).ok()?;
    let (distance, best) = ids
        .iter()
        .take(10_000)
        .map(|known| (strsim::damerau_levenshtein(known.as_str(), id), known))
        .min_by_key(|(distance, _)| *distance)?;
    (distance <= 1 + id.len() / 4).then(|| best.to_string())
}

/// A change to a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alteration {
    /// Times pass and are missed.
    Pause,
    /// It goes on from now.
    Unpause,
    /// It is gone; its runs and its past stay.
    Remove,
    /// Its cursor is set back to now.
    Rewind,
}

/// What was so already may have been left by a command that died before its sync; saying so is a promise.
fn already(engine: &Engine<'_>, schedule: Schedule) -> Result<(Schedule, bool), EngineError> {
    schedules::sync(&**engine.disk(), &schedule.id)?;
    Ok((schedule, false))
}

/// Changes a schedule. False where it was so already.
///
/// # Errors
/// When there is no such schedule, or the change cannot be stored.
pub fn alter(
    engine: &Engine<'_>,
    id: &str,
    alteration: Alteration,
    by: &str,
) -> Result<(Schedule, bool), EngineError> {
    let lock = engine.lock()?;
    let mut schedule = load(engine, id)?;
    let now = engine.now();
    let change = || Some(Change { at: now, by: by.to_owned() });
    match alteration {
        Alteration::Pause if schedule.paused.is_some() => return already(engine, schedule),
        Alteration::Pause => schedule.paused = change(),
        Alteration::Unpause if schedule.paused.is_none() => return already(engine, schedule),
        Alteration::Unpause => {
            miss_until(engine, &lock, &mut schedule, now, MissedReason::Paused)?;
            schedule.paused = None;
        }
        Alteration::Remove => {
            let reason =
                if schedule.paused.is_some() { MissedReason::Paused } else { MissedReason::Replaced };
            miss_until(engine, &lock, &mut schedule, now, reason)?;
            schedule.removed = change();
        }
        Alteration::Rewind => {
            let covered = Schedule { cursor: super::tick::covered(engine, &schedule)?, ..schedule.clone() };
            match setback(engine, &schedule, now)? {
                Some(setback) if covered.is_ahead_of(now) && setback.cursor < covered.cursor => {
                    set_back(engine, &lock, &mut schedule, setback)?;
                }
                Some(_) | None => return already(engine, schedule),
            }
        }
    }
    schedule.updated_at = now;
    schedules::save(&lock, &**engine.disk(), &schedule)?;
    Ok((schedule, true))
}

/// What sets a cursor back that is ahead of the clock.
struct Setback {
    /// The receipts that stay true.
    receipts: Vec<Unrun>,
    /// Now, or what there are receipts for from before the definition, or where runs were deleted.
    cursor: DateTime<Utc>,
}

/// What it takes to set the cursor back to `now`; none where it is not ahead.
///
/// Only the receipts of the present definition can be taken back. They begin with its start, because no
/// schedule starts before the cursor that it finds.
fn setback(
    engine: &Engine<'_>,
    schedule: &Schedule,
    now: DateTime<Utc>,
) -> Result<Option<Setback>, EngineError> {
    if super::tick::covered(engine, schedule)? <= now {
        return Ok(None);
    }
    let now = time::whole_seconds(now);
    let to = schedule.deleted_until.map_or(now, |deleted| deleted.max(now));
    let trigger = &schedule.definition.trigger;
    let receipts = receipts_until(engine, schedule, to.max(trigger.initial_cursor()))?;
    let cursor = receipts.last().map_or(to, |receipt| receipt.times.last.max(to));
    Ok(Some(Setback { receipts, cursor }))
}

/// Sets the cursor back. What was told of times to come is taken back while the cursor still stands for it,
/// so that a crash in between leaves a cursor that is ahead, to be set back again. The times that have
/// become runs are remembered, because the cursor stands for them no more.
fn set_back(
    engine: &Engine<'_>,
    lock: &StoreLock<'_>,
    schedule: &mut Schedule,
    Setback { receipts, cursor }: Setback,
) -> Result<(), EngineError> {
    let covered = super::tick::covered(engine, schedule)?;
    if schedule.cursor < covered {
        schedule.advance(covered);
        schedules::save(lock, &**engine.disk(), schedule)?;
    }
    schedule.ahead = ran_after(engine, schedule, cursor)?;
    schedule.receipts_len = schedules::replace_history(lock, &**engine.disk(), &schedule.id, &receipts)?;
    schedule.cursor = cursor;
    Ok(())
}

/// The nominal times after `to` that have become runs, ascending.
fn ran_after(
    engine: &Engine<'_>,
    schedule: &Schedule,
    to: DateTime<Utc>,
) -> Result<Vec<DateTime<Utc>>, EngineError> {
    let disk = &**engine.disk();
    let mut ran = super::tick::admitted_occurrences(engine, schedule)?;
    for day in runs::done_days(disk)?.into_iter().take_while(|day| *day >= to.date_naive()) {
        let runs = runs::list_done(disk, day)?;
        ran.extend(runs.iter().filter_map(|run| super::tick::occurrence_of(run, &schedule.id)));
    }
    ran.retain(|at| *at > to);
    ran.sort_unstable();
    ran.dedup();
    Ok(ran)
}

/// The receipts of times up to and with `to`, which may cut a receipt of the present definition.
fn receipts_until(
    engine: &Engine<'_>,
    schedule: &Schedule,
    to: DateTime<Utc>,
) -> Result<Vec<Unrun>, EngineError> {
    let receipts = schedules::load_history(&**engine.disk(), &schedule.id)?;
    let before = chrono::TimeDelta::seconds(1);
    let trigger = &schedule.definition.trigger;
    let cut = |mut receipt: Unrun| {
        let times = &mut receipt.times;
        if times.last > to {
            times.count = trigger.count_between(times.first - before, to).max(1);
            times.last = trigger.last_until(to).unwrap_or(times.first).max(times.first);
        }
        receipt
    };
    Ok(receipts.into_iter().filter(|receipt| receipt.times.first <= to).map(cut).collect())
}

/// Admits one extra run now for each input; without inputs one with the schedule's own.
///
/// # Errors
/// When there is no such schedule, the store is draining, or not all can be admitted; then none is.
pub fn trigger(engine: &Engine<'_>, id: &str, inputs: Inputs) -> Result<Vec<RunId>, EngineError> {
    let lock = engine.lock()?;
    engine.refuse_draining()?;
    let schedule = load(engine, id)?;
    // A run whose workflow is gone could never be dispatched.
    engine.pinned_workflow(&schedule.definition.workflow).map_err(|e| e.below(engine.store.root()))?;
    match inputs {
        Inputs::Many(inputs) => batch::admit(engine, &lock, &schedule, inputs),
        Inputs::One(input) => {
            let now = engine.now();
            let admitted = |run| admit::admitted_by(&schedule, run, now, true, input.clone());
            let run = admit::create_manual(engine, &lock, &schedule.id, now, &admitted)?.commit()?;
            Ok(vec![run.id().clone()])
        }
    }
}

/// The inputs of extra runs.
#[derive(Debug, Clone)]
pub enum Inputs {
    /// One run; none: with the schedule's own input.
    One(Option<Value>),
    /// One run for each.
    Many(Vec<Value>),
}
