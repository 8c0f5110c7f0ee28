//! Bringing runs into being, and taking hold of them later.
//!
//! The exclusive creation of a run's folder is its admission. A schedule's cursor is advanced behind it;
//! whoever takes hold of a run whose schedule's cursor lags (a crash came between) advances it first, so
//! that a run can never leave `active` while its occurrence could still be admitted again.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::{Engine, EngineError};
use crate::{
    domain::{
        event::Admitted,
        ids::{Digest, RunId, ScheduleId, SlotIndex},
        schedule::Schedule,
        time,
        workflow::{CommandLine, MAX_FILE_SIZE, StepKind, Workflow},
    },
    process::resolve_program,
    state::run::{Executing, Phase, RunState},
    store::{
        StoreError,
        disk::{read_outside, real_path},
        lock::StoreLock,
        runs::{self, Creation, OpenRun},
        schedules,
        slots::{self, Holder, SlotState},
    },
};

/// The variables of the scheduling process that are pinned.
pub const PINNED: [&str; 8] = ["PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "SHELL"];

/// A workflow file, read and checked, with what is pinned beside it.
#[derive(Debug, Clone)]
pub struct Source {
    /// The bytes of the file.
    pub text: String,
    /// What they say.
    pub workflow: Workflow,
    /// The folder of the file, absolute.
    pub cwd: String,
    /// The pinned environment.
    pub env: BTreeMap<String, String>,
}

/// Reads and checks a workflow file.
///
/// # Errors
/// When it cannot be read or is not a valid workflow.
pub fn read_workflow(
    engine_env: &BTreeMap<std::ffi::OsString, std::ffi::OsString>,
    path: &Path,
) -> Result<Source, EngineError> {
    let unreadable = |source| EngineError::Unreadable { path: path.to_owned(), source };
    let limit = u64::try_from(MAX_FILE_SIZE).unwrap_or(u64::MAX) + 1;
    let bytes = read_outside(path, limit).map_err(unreadable)?;
    let text = String::from_utf8(bytes).map_err(|error| EngineError::BadInput {
        what: path.display().to_string(),
        why: format!("it is not UTF-8 (byte {})", error.utf8_error().valid_up_to() + 1),
        hint: "a workflow is a TOML file; save it as UTF-8".to_owned(),
    })?;
    let workflow = Workflow::parse(&text)
        .map_err(|errors| EngineError::BadWorkflow { path: path.to_owned(), errors })?;
    let absolute = std::path::absolute(path).map_err(unreadable)?;
    let folder = absolute.parent().unwrap_or(Path::new("/")).to_owned();
    // A link to the file keeps its own folder, as `dirname` would have it; only the folder is resolved.
    let folder = real_path(&folder).map_err(unreadable)?;
    let cwd = folder.into_os_string().into_string().map_err(|folder| EngineError::BadInput {
        what: format!("the folder {}", PathBuf::from(folder).display()),
        why: "its name is not UTF-8, so it cannot be recorded".to_owned(),
        hint: "move the workflow file to another folder".to_owned(),
    })?;
    let env = PINNED
        .iter()
        .filter_map(|name| {
            let value = engine_env.get(std::ffi::OsStr::new(name))?.to_str()?;
            Some(((*name).to_owned(), value.to_owned()))
        })
        .collect();
    Ok(Source { text, workflow, cwd, env })
}

/// What a step would not find: programs that the pinned environment does not lead to, as warnings. A file
/// that is not there yet may be there when the step starts, so none of it is an error.
pub fn missing_programs(source: &Source) -> Vec<String> {
    let base = Path::new(&source.cwd);
    let mut warnings = Vec::new();
    for step in source.workflow.steps() {
        let StepKind::Command(command) = &step.kind else { continue };
        let CommandLine::Argv(argv) = &command.run else { continue };
        if command.pass_env.iter().any(|name| name == "PATH") {
            continue;
        }
        let cwd = command.cwd.as_ref().map_or_else(|| base.to_owned(), |cwd| base.join(cwd));
        let path = command.env.get("PATH").or(source.workflow.env.get("PATH")).or(source.env.get("PATH"));
        if let Err(error) = resolve_program(argv[0].as_ref(), path.map(AsRef::as_ref), &cwd) {
            warnings.push(format!("step {}: {error}, as things are now", step.id));
        }
    }
    warnings
}

/// What a run of `schedule` is admitted with.
pub fn admitted_by(
    schedule: &Schedule,
    run: RunId,
    occurrence: DateTime<Utc>,
    manual: bool,
    input: Option<Value>,
) -> Admitted {
    let definition = &schedule.definition;
    Admitted {
        run,
        schedule: Some(schedule.id.clone()),
        occurrence: time::whole_seconds(occurrence),
        manual,
        name: definition.name.clone(),
        workflow: definition.workflow.clone(),
        input: input.unwrap_or_else(|| definition.input.clone()),
        env: definition.env.clone(),
        cwd: definition.cwd.clone(),
    }
}

/// What an ad-hoc run of a workflow file is admitted with.
pub fn admitted_ad_hoc(
    source: &Source,
    digest: Digest,
    run: RunId,
    at: DateTime<Utc>,
    input: Value,
) -> Admitted {
    Admitted {
        run,
        schedule: None,
        occurrence: time::whole_seconds(at),
        manual: true,
        name: source.workflow.name.to_string(),
        workflow: digest,
        input,
        env: source.env.clone(),
        cwd: source.cwd.clone(),
    }
}

/// Creates the run of a manual start under the first free number of its second.
///
/// # Errors
/// When it cannot be created.
pub fn create_manual(
    engine: &Engine<'_>,
    lock: &StoreLock<'_>,
    name: &ScheduleId,
    at: DateTime<Utc>,
    admitted: &dyn Fn(RunId) -> Admitted,
) -> Result<OpenRun, EngineError> {
    // What a batch has committed holds its numbers, also where a crash kept it from being filed.
    super::batch::finish(engine, lock)?;
    for k in 1..=u32::MAX {
        let run = RunId::for_manual(name, at, k);
        if let Creation::Created(run) = runs::create(lock, engine.disk(), admitted(run), engine.now())? {
            return Ok(run);
        }
    }
    Err(EngineError::Store(StoreError::Bug("no manual run number is free".to_owned())))
}

/// Opens a run that the caller knows to be nobody's: see [`take`].
///
/// # Errors
/// When there is none, it is corrupt, or its schedule's cursor cannot be advanced.
pub fn open_run(engine: &Engine<'_>, lock: &StoreLock<'_>, id: &RunId) -> Result<OpenRun, EngineError> {
    let run = runs::open(lock, engine.disk(), id)?.ok_or_else(|| EngineError::NoRun(id.to_string()))?;
    cover_occurrence(engine, lock, run.state())?;
    Ok(run)
}

/// Advances the cursor of the run's schedule to the run's occurrence, where it lags behind.
///
/// # Errors
/// When the cursor cannot be advanced.
pub fn cover_occurrence(
    engine: &Engine<'_>,
    lock: &StoreLock<'_>,
    state: &RunState,
) -> Result<(), EngineError> {
    let admitted = &state.admitted;
    let Some(id) = admitted.schedule.as_ref().filter(|_| !admitted.manual) else { return Ok(()) };
    // A schedule whose file is damaged admits nothing anyway, and must not keep its runs from people.
    let Ok(Some(mut schedule)) = schedules::load(&**engine.disk(), id) else { return Ok(()) };
    // A run of a time ahead of a cursor that was set back is remembered there, and moves nothing.
    if schedule.cursor < admitted.occurrence && !schedule.ahead.contains(&admitted.occurrence) {
        // The tick that admitted it may have died before it had synced the folders.
        runs::sync_admission(&**engine.disk(), &admitted.run)?;
        schedule.advance(admitted.occurrence);
        schedules::save(lock, &**engine.disk(), &schedule)?;
    }
    Ok(())
}

/// Makes the cursor the guard of the run's occurrence for good, before its folder is deleted.
///
/// # Errors
/// When the schedule cannot be stored.
pub fn outlive_occurrence(
    engine: &Engine<'_>,
    lock: &StoreLock<'_>,
    state: &RunState,
) -> Result<(), EngineError> {
    let Admitted { schedule: Some(id), occurrence, manual: false, .. } = &state.admitted else {
        return Ok(());
    };
    let Ok(Some(mut schedule)) = schedules::load(&**engine.disk(), id) else { return Ok(()) };
    if schedule.ahead.contains(occurrence)
        || schedule.deleted_until.is_some_and(|until| until >= *occurrence && schedule.cursor >= until)
    {
        return Ok(());
    }
    schedule.advance(*occurrence);
    // Further than needed, so that the other runs of that day cost no further write.
    let day_end = occurrence.date_naive().and_hms_opt(23, 59, 59).map_or(*occurrence, |end| end.and_utc());
    let until = day_end.min(schedule.cursor).min(time::whole_seconds(engine.now())).max(*occurrence);
    schedule.deleted_until = Some(schedule.deleted_until.map_or(until, |before| before.max(until)));
    schedules::save(lock, &**engine.disk(), &schedule)?;
    Ok(())
}

/// Whose a run is, as its slots tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Something of an attempt is alive. The holder is unknown where the slot's content was lost.
    Live(SlotIndex, Option<Holder>),
    /// Nobody owns it; these slots name it all the same.
    Idle(Vec<(SlotIndex, Holder)>),
}

/// Whose a run is. While the store lock is held nobody becomes its owner, but an owner may come to an end
/// at any moment, and then its records have changed: so this is asked before the journal is read, never
/// after.
///
/// # Errors
/// When the slots cannot be read.
pub fn standing(_lock: &StoreLock<'_>, engine: &Engine<'_>, id: &RunId) -> Result<Standing, EngineError> {
    let disk = &**engine.disk();
    let mut idle = Vec::new();
    for index in slots::list(disk)? {
        match slots::probe_named(disk, index, id)? {
            SlotState::Live(Some(holder)) if holder.run == *id => {
                return Ok(Standing::Live(index, Some(holder)));
            }
            SlotState::Abandoned(Some(holder)) if holder.run == *id => idle.push((index, holder)),
            SlotState::Free | SlotState::Live(_) | SlotState::Abandoned(_) => {}
        }
    }
    Ok(Standing::Idle(idle))
}

/// The slot of the attempt in progress, where the slot's content was lost but its lock is held.
///
/// # Errors
/// When the slot cannot be read.
pub fn held_without_name(engine: &Engine<'_>, state: &RunState) -> Result<Option<SlotIndex>, EngineError> {
    let Some(index) = attempt_slot(state) else { return Ok(None) };
    let held = slots::probe_twice(&**engine.disk(), index)? == SlotState::Live(None);
    Ok(held.then_some(index))
}

/// A run that somebody asked for, under the lock.
#[derive(Debug)]
pub enum Taken {
    /// Nobody owns it; now the caller does.
    Idle(OpenRun),
    /// Something of an attempt is alive.
    Live(SlotIndex, Option<Holder>),
    /// An attempt is in progress, or a slot says so, and nothing of it is alive.
    Abandoned(OpenRun, Vec<(SlotIndex, Holder)>),
}

/// Takes hold of a run, unless it is live.
///
/// # Errors
/// When there is none, it is corrupt, or the store cannot be read.
pub fn take(engine: &Engine<'_>, lock: &StoreLock<'_>, id: &RunId) -> Result<Taken, EngineError> {
    let slots = match standing(lock, engine, id)? {
        Standing::Live(index, holder) => return Ok(Taken::Live(index, holder)),
        Standing::Idle(slots) => slots,
    };
    let run = open_run(engine, lock, id)?;
    if !run.state().is_executing() && slots.is_empty() {
        return Ok(Taken::Idle(run));
    }
    if let Some(index) = held_without_name(engine, run.state())? {
        return Ok(Taken::Live(index, None));
    }
    Ok(Taken::Abandoned(run, slots))
}

/// Takes hold of a run that nobody owns.
///
/// # Errors
/// As [`take`], and when the run is live or abandoned.
pub fn take_idle(engine: &Engine<'_>, lock: &StoreLock<'_>, id: &RunId) -> Result<OpenRun, EngineError> {
    match take(engine, lock, id)? {
        Taken::Idle(run) => Ok(run),
        Taken::Live(index, holder) => {
            Err(EngineError::Live { run: id.clone(), why: describe_holder(index, holder.as_ref()) })
        }
        Taken::Abandoned(..) => Err(abandoned(id)),
    }
}

/// The refusal of a run whose execution nobody holds any more.
pub fn abandoned(run: &RunId) -> EngineError {
    EngineError::WrongState {
        run: run.clone(),
        why: "is abandoned: its execution ended without a word".to_owned(),
        hint: format!("wfctl recover --run {run} decides from its journal"),
    }
}

/// The slot of the attempt in progress.
pub fn attempt_slot(state: &RunState) -> Option<SlotIndex> {
    let Phase::Executing(Executing { .. }) = &state.phase else { return None };
    state.attempts.last().and_then(|attempt| attempt.started.slot)
}

/// Who holds a live run, for messages.
pub fn describe_holder(index: SlotIndex, holder: Option<&Holder>) -> String {
    match holder {
        Some(holder) => format!("slot {index} is held by pid {} on {}", holder.pid, holder.host),
        None => format!("slot {index} is held"),
    }
}
