//! One attempt of one run, from its first record to the release of its slot.
//!
//! The order on disk is the promise: `attempt_started` and `step_started` are durable before the process is
//! created, `step_finished` before the next `step_started` and before the slot is released. Consecutive
//! events go in one write. Whatever fails on the way leaves marker and slot as they are, for recovery
//! to decide. Deliberately not here: who is executed when ([`super::dispatch`]), and who asks for a stop
//! ([`super::supervise`]).

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::fd::AsFd,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::{Engine, EngineError};
use crate::{
    domain::{
        event::{AttemptNo, AttemptStarted, Event, Interrupted, Reason, Seq, StepEnding, StepFinished},
        ids::{RunId, SlotIndex, StepId},
        json, time,
        workflow::{CommandLine, CommandStep, GateStep, Outcome, StepIndex, StepKind, Workflow},
    },
    process::{
        Ending, Interruption, LocalExecutor, Slept, SpawnSpec, StepExecutor, StopKind, StopWatch, Wake,
        resolve_program, sleep_until,
    },
    state::{
        decide::{self, Next, Start},
        run::{Phase, RunState, Status},
    },
    store::{
        layout, runs,
        runs::OpenRun,
        slots::{self, SlotGuard},
    },
};

/// The largest output of a step that is recorded, in bytes.
pub const LARGEST_OUTPUT: usize = 1 << 20;

/// Is told what an attempt does, for progress on a terminal.
pub trait Observer: Sync {
    /// So many runs wait for a slot now.
    fn queued(&self, _waiting: usize) {}
    /// An attempt begins to be executed.
    fn attempt_started(&self, _run: &RunId) {}
    /// A step was started.
    fn step_started(&self, _run: &RunId, _step: &StepId, _try_no: u32) {}
    /// The attempt waits before it tries a step again.
    fn waiting(&self, _run: &RunId, _step: &StepId, _delay: Duration) {}
    /// The attempt ended.
    fn ended(&self, _run: &RunId) {}
    /// A notification about the run begins; it holds no slot.
    fn notifying(&self, _run: &RunId) {}
    /// The notification is over, however it went.
    fn notified(&self, _run: &RunId) {}
    /// A notification about the run failed; the run itself is as it was.
    fn notification_failed(&self, _run: &RunId, _why: &str) {}
}

/// Watches nothing.
#[derive(Debug, Clone, Copy)]
pub struct Unobserved;

impl Observer for Unobserved {}

/// A run that this process owns: its slot is claimed and its next action is durable.
#[derive(Debug)]
pub struct Attempt {
    run: OpenRun,
    slot: SlotGuard,
    workflow: Workflow,
    action: Action,
    deadline: Option<Instant>,
}

/// What an attempt does next, everything that leads up to it being durable.
#[derive(Debug)]
enum Action {
    /// Start the step whose `step_started` was recorded.
    Spawn(Box<ReadyStep>),
    /// Wait, then decide again.
    Delay(Start),
    /// Nothing more: the attempt is settled.
    Settled,
    /// A stop was requested between two steps.
    Stop(StopKind),
}

/// A step with everything that its process needs.
#[derive(Debug)]
struct ReadyStep {
    seq: Seq,
    step: StepIndex,
    log: File,
    log_path: PathBuf,
    context_path: PathBuf,
    output_path: PathBuf,
    slot: File,
    env: Vec<(OsString, OsString)>,
    cwd: PathBuf,
}

/// How an attempt ended.
#[derive(Debug)]
pub enum Ended {
    /// With a known result.
    Settled(Box<RunState>),
    /// By caller cancellation: the run is ambiguous, its slot free.
    Cancelled(Box<RunState>),
    /// By a fence: marker and slot stay.
    Fenced(Interruption),
}

impl Ended {
    /// The run's state, unless recovery still has to decide.
    pub fn state(&self) -> Option<&RunState> {
        match self {
            Self::Settled(state) | Self::Cancelled(state) => Some(state),
            Self::Fenced(_) => None,
        }
    }

    /// Whether the run ended `failed`.
    pub fn is_failed(&self) -> bool {
        self.state().is_some_and(|state| state.status() == Status::Failed)
    }
}

/// Begins an attempt of `run` in `slot`: makes everything up to its first action durable, in one write.
/// The caller holds the store lock or has just claimed the slot under it.
///
/// # Errors
/// When the first step cannot be prepared or the records not be written. Nothing was started then, and
/// the slot is given back.
pub fn begin(
    engine: &Engine<'_>,
    mut run: OpenRun,
    slot: SlotGuard,
    workflow: Workflow,
    started: AttemptStarted,
    watch: Option<&StopWatch>,
) -> Result<Attempt, EngineError> {
    let (dir, seq) = (run.dir().to_owned(), run.state().next_seq());
    run.stage(&Event::AttemptStarted(Box::new(started)), engine.now())?;
    let deadline = workflow.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut context = Context { engine, workflow: &workflow, slot: &slot, watch, deadline };
    let action = context.stage_next(&mut run, Duration::ZERO);
    match action.and_then(|action| Ok((action, run.commit()?))) {
        Ok((action, run)) => Ok(Attempt { run, slot, workflow, action, deadline }),
        Err(error) => {
            // Nobody may try again for long, so nothing waits for it.
            runs::remove_step_files(&**engine.disk(), &dir, seq);
            slot.release()?;
            Err(error)
        }
    }
}

impl Attempt {
    /// The run.
    pub fn run(&self) -> &RunId {
        self.run.id()
    }

    /// The run's state at the beginning of the action.
    pub fn state(&self) -> &RunState {
        self.run.state()
    }

    /// Its slot.
    pub fn slot(&self) -> SlotIndex {
        self.slot.index()
    }

    /// The run's folder, below the store.
    pub fn dir(&self) -> &Path {
        self.run.dir()
    }

    /// Executes the attempt to its end.
    ///
    /// # Errors
    /// When something could not be recorded, stopped or joined; marker and slot stay for recovery.
    pub fn execute(
        self,
        engine: &Engine<'_>,
        watch: &StopWatch,
        observer: &dyn Observer,
    ) -> Result<Ended, EngineError> {
        let id = self.run.id().clone();
        observer.attempt_started(&id);
        let ended = self.drive(engine, watch, observer);
        observer.ended(&id);
        ended
    }

    fn drive(
        self,
        engine: &Engine<'_>,
        watch: &StopWatch,
        observer: &dyn Observer,
    ) -> Result<Ended, EngineError> {
        let Self { mut run, slot, workflow, mut action, deadline } = self;
        let mut context = Context { engine, workflow: &workflow, slot: &slot, watch: Some(watch), deadline };
        loop {
            action = match (action, watch.requested()) {
                // Recorded and not started: a stop now is still in time to keep it from starting.
                (Action::Spawn(_), Some(kind)) => Action::Stop(kind),
                (Action::Spawn(ready), None) => {
                    let step = &workflow.step(ready.step).id;
                    if let Some(execution) = run.state().execution(ready.seq) {
                        observer.step_started(run.id(), step, execution.try_no);
                    }
                    match context.run_step(&run, *ready)? {
                        StepEnd::Finished(finished) => {
                            run.stage(&Event::StepFinished(Box::new(finished)), engine.now())?;
                            context.stage_next(&mut run, Duration::MAX)?
                        }
                        StepEnd::Stopped(kind) => Action::Stop(kind),
                    }
                }
                (Action::Delay(start), _) => {
                    observer.waiting(run.id(), &workflow.step(start.step).id, start.delay);
                    context.sleep(&mut run, &start)?
                }
                (Action::Settled, _) => return settle(run, slot),
                (Action::Stop(kind), _) => return stop(engine, run, slot, kind),
            };
            run = run.commit()?;
        }
    }
}

/// What is fixed for the length of an attempt.
struct Context<'c> {
    engine: &'c Engine<'c>,
    workflow: &'c Workflow,
    slot: &'c SlotGuard,
    watch: Option<&'c StopWatch>,
    deadline: Option<Instant>,
}

enum StepEnd {
    Finished(StepFinished),
    Stopped(StopKind),
}

impl Context<'_> {
    /// Decides what comes next and stages its records. A step that is due later than `patience` becomes a
    /// delay, so that what is known by now is durable before the wait.
    fn stage_next(&mut self, run: &mut OpenRun, patience: Duration) -> Result<Action, EngineError> {
        let id = run.id().clone();
        let attempt = current_attempt(run.state());
        let next = decide::next(run.state(), self.workflow)
            .map_err(|error| EngineError::undecidable(&id, &error))?;
        let event = match next {
            Next::Start(start) => {
                if self.is_overdue() {
                    self.overdue(attempt)
                } else if let Some(kind) = self.watch.and_then(StopWatch::requested) {
                    return Ok(Action::Stop(kind));
                } else if !start.delay.is_zero() && !patience.is_zero() {
                    return Ok(Action::Delay(start));
                } else {
                    return self.stage_start(run, &start).map(|ready| Action::Spawn(Box::new(ready)));
                }
            }
            Next::Ask(step) => asked(self.workflow, step, attempt, self.engine.now()),
            Next::Complete(outcome) => Event::Completed { attempt, outcome },
            Next::Fail(reason, error) => Event::Failed { attempt, reason, error, by: None },
        };
        run.stage(&event, self.engine.now())?;
        Ok(Action::Settled)
    }

    fn is_overdue(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn overdue(&self, attempt: AttemptNo) -> Event {
        let timeout = self.workflow.timeout.unwrap_or_default();
        let error = format!("the attempt took longer than {}", humantime::format_duration(timeout));
        Event::Failed { attempt, reason: Reason::Timeout, error, by: None }
    }

    /// Waits before another try.
    fn sleep(&mut self, run: &mut OpenRun, start: &Start) -> Result<Action, EngineError> {
        let wake = Instant::now().checked_add(start.delay);
        let until = match (wake, self.deadline) {
            (Some(wake), Some(deadline)) => wake.min(deadline),
            (Some(wake), None) => wake,
            (None, Some(deadline)) => deadline,
            (None, None) => Instant::now() + Duration::from_secs(u64::from(u32::MAX)),
        };
        if let Some(watch) = self.watch {
            let slept = sleep_until(until, watch)
                .map_err(|source| EngineError::System { what: "wait before another try", source })?;
            if let Slept::StopRequested(kind) = slept {
                return Ok(Action::Stop(kind));
            }
        }
        if self.is_overdue() {
            let event = self.overdue(current_attempt(run.state()));
            run.stage(&event, self.engine.now())?;
            return Ok(Action::Settled);
        }
        self.stage_start(run, start).map(|ready| Action::Spawn(Box::new(ready)))
    }

    /// Prepares all that the step's process needs, then stages `step_started`: what fails here fails
    /// before anything may have taken effect.
    fn stage_start(&self, run: &mut OpenRun, start: &Start) -> Result<ReadyStep, EngineError> {
        let seq = run.state().next_seq();
        let step = &self.workflow.step(start.step);
        let StepKind::Command(command) = &step.kind else { unreachable!("only a command is started") };
        let key = start.key.clone().unwrap_or_else(|| format!("{}/{seq}", run.id()));
        let event = Event::StepStarted {
            attempt: current_attempt(run.state()),
            seq,
            step: step.id.clone(),
            try_no: start.try_no,
            key: key.clone(),
        };
        let disk = self.engine.disk();
        let context_path = layout::context(run.dir(), seq);
        let output_path = layout::output(run.dir(), seq);
        let log_path = layout::log(run.dir(), seq, &step.id);
        let io = |what, path: &Path| {
            let path = path.to_owned();
            move |e| EngineError::Store(crate::store::StoreError::io(what, path, e))
        };
        let context = serde_json::to_vec(&context_of(run.state())).map_err(io_other)?;
        // What an attempt that was withdrawn left under the same number is of no use. It is rare, so it is found
        // by its being in the way; an output can only be where one of the others was.
        let clear = |path: &Path, error: io::Error| {
            if error.kind() != io::ErrorKind::AlreadyExists {
                return Err(error);
            }
            let _ = disk.remove_file(&output_path);
            disk.remove_file(path)
        };
        disk.write_scratch(&context_path, &context)
            .or_else(|error| {
                clear(&context_path, error).and_then(|()| disk.write_scratch(&context_path, &context))
            })
            .map_err(io("write", &context_path))?;
        let log = disk
            .create_log(&log_path)
            .or_else(|error| clear(&log_path, error).and_then(|()| disk.create_log(&log_path)))
            .map_err(io("create", &log_path))?;
        let slot = self.slot.inheritable()?;
        let env = self.environment(run, step, command, seq, &key, start.try_no);
        let cwd = folder_of(run.state(), command);
        run.stage(&event, self.engine.now())?;
        run.reserve_headroom()?;
        Ok(ReadyStep { seq, step: start.step, log, log_path, context_path, output_path, slot, env, cwd })
    }

    fn environment(
        &self,
        run: &OpenRun,
        step: &crate::domain::workflow::Step,
        command: &CommandStep,
        seq: Seq,
        key: &str,
        try_no: u32,
    ) -> Vec<(OsString, OsString)> {
        let mut env: BTreeMap<OsString, OsString> = BTreeMap::new();
        let admitted = &run.state().admitted;
        for (name, value) in admitted.env.iter().chain(&self.workflow.env).chain(&command.env) {
            env.insert(name.into(), value.into());
        }
        for name in &command.pass_env {
            if let Some(value) = self.engine.env.get(OsStr::new(name)) {
                env.insert(name.into(), value.clone());
            }
        }
        let root = self.engine.store.root();
        for (name, value) in run_variables(self.engine, run.state()) {
            env.insert(name.into(), value);
        }
        let mut set = |name: &str, value: OsString| env.insert(name.into(), value);
        set("WFCTL_STEP", step.id.as_str().into());
        set("WFCTL_ATTEMPT", current_attempt(run.state()).to_string().into());
        set("WFCTL_IDEMPOTENCY_KEY", key.into());
        set("WFCTL_TRY", try_no.to_string().into());
        set("WFCTL_CONTEXT", root.join(layout::context(run.dir(), seq)).into());
        set("WFCTL_OUTPUT", root.join(layout::output(run.dir(), seq)).into());
        env.into_iter().collect()
    }

    /// Starts the process and waits for its end, its timeout or a request to stop.
    fn run_step(&self, run: &OpenRun, ready: ReadyStep) -> Result<StepEnd, EngineError> {
        let step = self.workflow.step(ready.step);
        let StepKind::Command(command) = &step.kind else { unreachable!("only a command is started") };
        let began = Instant::now();
        let step_deadline = command.timeout.and_then(|timeout| began.checked_add(timeout));
        let deadline = match (step_deadline, self.deadline) {
            (Some(step), Some(attempt)) => Some(step.min(attempt)),
            (one, other) => one.or(other),
        };
        let executor = LocalExecutor;
        let key = run.state().execution(ready.seq).map(|e| e.key.clone()).unwrap_or_default();
        let started = spawn(executor, &key, &command.run, &ready);
        let end = match started {
            Err(error) if error.never_started() => Known {
                outcome: Outcome::ERROR,
                ending: StepEnding { error: Some(error.to_string()), ..StepEnding::default() },
            },
            Err(error) => {
                return Err(EngineError::Untracked { run: run.id().clone(), why: error.to_string() });
            }
            Ok(child) => match self.join(run, command, child, &ready.slot, deadline)? {
                JoinedAs::Known(known) => known,
                JoinedAs::Stopped(kind) => {
                    let _ = self.engine.disk().remove_file(&ready.output_path);
                    self.clean_up(&ready);
                    return Ok(StepEnd::Stopped(kind));
                }
            },
        };
        // Background processes that the step left keep its descriptor; they must not keep the slot.
        slots::unlock_inherited(&ready.slot);
        let Known { outcome, mut ending } = end;
        let output = self.take_output(run, &ready, &mut ending);
        self.clean_up(&ready);
        Ok(StepEnd::Finished(StepFinished {
            attempt: current_attempt(run.state()),
            seq: ready.seq,
            step: step.id.clone(),
            outcome,
            ending,
            output,
            ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        }))
    }

    fn join(
        &self,
        run: &OpenRun,
        command: &CommandStep,
        mut child: <LocalExecutor as StepExecutor>::Execution,
        slot: &File,
        deadline: Option<Instant>,
    ) -> Result<JoinedAs, EngineError> {
        let executor = LocalExecutor;
        let Some(watch) = self.watch else { unreachable!("an attempt is executed under a watch") };
        let woken = executor
            .wait(&mut child, deadline, watch)
            .map_err(|error| EngineError::untracked(run.id(), &error))?;
        let stopped = |child| {
            executor
                .stop(child, slot, self.engine.store.settings().grace, watch)
                .map_err(|source| EngineError::NotStopped { run: run.id().clone(), source })
        };
        Ok(match woken {
            Wake::ChildExited(ending) => JoinedAs::Known(known(command, ending)),
            Wake::Deadline => {
                let ending = stopped(child)?.ending;
                let mut ending = ending.map(step_ending).unwrap_or_default();
                ending.error = Some("it took too long and was stopped".to_owned());
                JoinedAs::Known(Known { outcome: Outcome::TIMEOUT, ending })
            }
            Wake::StopRequested(kind) => {
                let _ = stopped(child)?;
                JoinedAs::Stopped(kind)
            }
        })
    }

    /// The JSON value that the step wrote. What is no JSON or too large is not recorded, and said: the
    /// outcome is that of the exit status all the same, because the step may not be started again for it.
    fn take_output(&self, run: &OpenRun, ready: &ReadyStep, ending: &mut StepEnding) -> Option<Value> {
        let disk = self.engine.disk();
        let read = disk.read_at(&ready.output_path, 0, LARGEST_OUTPUT + 1);
        let is_there = !matches!(&read, Err(error) if error.kind() == io::ErrorKind::NotFound);
        if is_there && disk.remove_file(&ready.output_path).is_err() {
            // A step may have made a folder of it.
            let _ = disk.remove_dir(&ready.output_path);
        }
        let why = match read {
            Ok((bytes, _)) if bytes.is_empty() => return None,
            Ok((bytes, _)) if bytes.len() > LARGEST_OUTPUT => "it is larger than 1 MiB".to_owned(),
            Ok(_) if !run.has_room() => "the record of the run has become too large".to_owned(),
            Ok((bytes, _)) => match json::parse_value(&bytes) {
                Ok(value) => return Some(value),
                Err(why) => format!("it {why}"),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => error.to_string(),
        };
        let said = format!("its output was not recorded: {why}");
        ending.error = Some(match ending.error.take() {
            Some(error) => format!("{error}; {said}"),
            None => said,
        });
        None
    }

    fn clean_up(&self, ready: &ReadyStep) {
        let disk = self.engine.disk();
        let _ = disk.remove_file(&ready.context_path);
        if ready.log.metadata().is_ok_and(|metadata| metadata.len() == 0) {
            let _ = disk.remove_file(&ready.log_path);
        }
    }
}

enum JoinedAs {
    Known(Known),
    Stopped(StopKind),
}

struct Known {
    outcome: Outcome,
    ending: StepEnding,
}

fn known(command: &CommandStep, ending: Ending) -> Known {
    let outcome = match ending {
        Ending::Exited(code) => command.exit_outcome(i32::from(code)),
        Ending::Signalled(_) => Outcome::ERROR,
    };
    Known { outcome, ending: step_ending(ending) }
}

fn step_ending(ending: Ending) -> StepEnding {
    match ending {
        Ending::Exited(code) => StepEnding { exit: Some(code), ..StepEnding::default() },
        Ending::Signalled(signal) => StepEnding { signal: Some(signal), ..StepEnding::default() },
    }
}

fn spawn(
    executor: LocalExecutor,
    key: &str,
    run: &CommandLine,
    ready: &ReadyStep,
) -> Result<<LocalExecutor as StepExecutor>::Execution, crate::process::SpawnError> {
    let argv: Vec<OsString> = match run {
        CommandLine::Shell(script) => vec!["/bin/sh".into(), "-c".into(), script.into()],
        CommandLine::Argv(argv) => argv.iter().map(Into::into).collect(),
    };
    let path = ready.env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
    let program = resolve_program(&argv[0], path, &ready.cwd)?;
    executor.start(
        key,
        &SpawnSpec {
            program: &program,
            argv: &argv,
            env: &ready.env,
            cwd: &ready.cwd,
            stdin: None,
            output: ready.log.as_fd(),
            slot: Some(ready.slot.as_fd()),
        },
    )
}

/// The folder that a step starts in.
pub fn folder_of(state: &RunState, command: &CommandStep) -> PathBuf {
    let base = Path::new(&state.admitted.cwd);
    command.cwd.as_ref().map_or_else(|| base.to_owned(), |cwd| base.join(cwd))
}

/// The event that puts the question of the gate at `step`.
pub fn asked(workflow: &Workflow, step: StepIndex, attempt: AttemptNo, now: DateTime<Utc>) -> Event {
    let step = workflow.step(step);
    let StepKind::Gate(GateStep { question, outcomes, schema, expires }) = &step.kind else {
        unreachable!("only a gate asks")
    };
    let expires_at = expires
        .and_then(|after| chrono::TimeDelta::from_std(after).ok())
        .and_then(|after| now.checked_add_signed(after));
    Event::Interrupted(Box::new(Interrupted {
        attempt,
        step: step.id.clone(),
        question: question.clone(),
        outcomes: outcomes.clone(),
        schema: schema.clone(),
        expires_at,
    }))
}

/// The variables that name a run, for steps and notifications.
pub fn run_variables(engine: &Engine<'_>, state: &RunState) -> Vec<(&'static str, OsString)> {
    let admitted = &state.admitted;
    vec![
        ("WFCTL_STORE", engine.store.root().into()),
        ("WFCTL_RUN", admitted.run.as_str().into()),
        ("WFCTL_SCHEDULE", admitted.schedule.as_ref().map_or("", |id| id.as_str()).into()),
        ("WFCTL_OCCURRENCE", time::format_seconds(admitted.occurrence).into()),
    ]
}

/// What a step is told of the run: its input, and what each step said last.
pub fn context_of(state: &RunState) -> Value {
    let steps: serde_json::Map<String, Value> = state
        .results
        .iter()
        .map(|(step, result)| {
            (step.to_string(), json!({ "outcome": result.outcome.as_str(), "output": result.output }))
        })
        .collect();
    json!({ "input": state.admitted.input, "steps": steps })
}

fn current_attempt(state: &RunState) -> AttemptNo {
    AttemptNo::try_from(state.attempts.len()).unwrap_or(AttemptNo::MAX)
}

fn io_other(error: serde_json::Error) -> EngineError {
    EngineError::Store(crate::store::StoreError::Bug(error.to_string()))
}

/// Files the run away and gives its slot back; its records are durable.
fn settle(run: OpenRun, slot: SlotGuard) -> Result<Ended, EngineError> {
    let state = run.state().clone();
    // Where the folder cannot be moved now, the next recovery moves it; the slot is free all the same.
    let filed = if state.is_finished() { run.file_away().map(drop) } else { Ok(()) };
    slot.release()?;
    filed?;
    Ok(Ended::Settled(Box::new(state)))
}

/// Records why a stopped attempt ended. Its processes are joined.
fn stop(engine: &Engine<'_>, run: OpenRun, slot: SlotGuard, kind: StopKind) -> Result<Ended, EngineError> {
    match kind {
        StopKind::Fence { signal } => fence(engine, run, signal),
        StopKind::Cancel => cancel(engine, run, slot),
    }
}

fn fence(engine: &Engine<'_>, mut run: OpenRun, signal: Interruption) -> Result<Ended, EngineError> {
    let attempt = current_attempt(run.state());
    run.stage(&Event::Fenced { attempt, signal: signal.name().to_owned() }, engine.now())?;
    run.commit()?;
    Ok(Ended::Fenced(signal))
}

/// Caller cancellation, once the step is joined: under the store lock, and only while the slot is still
/// ours and the store is not draining, this run alone is reconciled as ambiguous and its slot released.
fn cancel(engine: &Engine<'_>, run: OpenRun, slot: SlotGuard) -> Result<Ended, EngineError> {
    let id = run.id().clone();
    // What is known of the last step must not be lost, whatever comes next.
    drop(run.commit().map_err(|error| not_reclaimed(&id, &error))?);
    let reconciled = reconcile_cancelled(engine, &id, &slot);
    match reconciled.map_err(|error| not_reclaimed(&id, &error))? {
        Ended::Cancelled(state) => {
            slot.release().map_err(|error| not_reclaimed(&id, &error))?;
            Ok(Ended::Cancelled(state))
        }
        other => Ok(other),
    }
}

fn not_reclaimed(run: &RunId, error: &dyn std::fmt::Display) -> EngineError {
    EngineError::NotReclaimed { run: run.clone(), why: error.to_string() }
}

fn reconcile_cancelled(engine: &Engine<'_>, id: &RunId, slot: &SlotGuard) -> Result<Ended, EngineError> {
    let lock = engine.lock_to_settle()?;
    if !slot.is_owned()? {
        let why = format!("slot {} is not this process's any more", slot.index());
        return Err(EngineError::NotReclaimed { run: id.clone(), why });
    }
    // Read again under the lock: what is on disk decides, not what this process remembers.
    let Some(run) = runs::open(&lock, engine.disk(), id)? else {
        return Err(EngineError::NoRun(id.to_string()));
    };
    if engine.store.is_draining()? {
        return fence(engine, run, Interruption::Int);
    }
    let Phase::Executing(executing) = &run.state().phase else {
        return Err(EngineError::NotReclaimed { run: id.clone(), why: "it is not executing".to_owned() });
    };
    let error = match run.state().unknown_execution() {
        Some((seq, execution)) => format!(
            "cancelled by the caller while step {} (execution {seq}) was under way; nobody can know what it did",
            execution.step
        ),
        None => "cancelled by the caller between two steps".to_owned(),
    };
    let event = Event::Failed {
        attempt: executing.attempt,
        reason: Reason::Ambiguous,
        error,
        by: Some("caller_cancellation".to_owned()),
    };
    let run = run.append(&event, engine.now())?;
    run.sweep_scratch();
    Ok(Ended::Cancelled(Box::new(run.state().clone())))
}
