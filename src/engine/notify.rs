//! Notifications: what a workflow wants to be called when a run waits, fails or completes.
//!
//! They run after the state is durable, without a slot and without the store lock, get the run as JSON on
//! stdin, and live for at most [`LIFETIME`]. Invariants: nothing here changes a run or an exit status, and
//! at most [`WORKERS`] notifications run at once, however many runs settle. A notification is tried once:
//! what dies between the record and the call is not made up for, because nobody could know whether it
//! was made.
//! Deliberately not here: when a run settles ([`super::dispatch`], [`super::tick`]).

use std::{
    collections::{BTreeMap, VecDeque},
    ffi::OsString,
    fs::File,
    io::{self, Write as _},
    os::fd::AsFd as _,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    thread::Scope,
    time::{Duration, Instant},
};

use super::{
    Engine, EngineError,
    attempt::{Observer, run_variables},
    query::{load_run, view::RunShow},
};
use crate::{
    domain::{
        ids::RunId,
        workflow::{CommandLine, Workflow},
    },
    process::{self, Ending, SpawnSpec, Wake, child, resolve_program, spawn, stop_child, stop_pair},
    state::run::{Phase, RunState},
    store::{disk::memory_file, layout, runs},
};

/// How long a notification may take.
pub const LIFETIME: Duration = Duration::from_secs(30);
/// How many notifications run at once.
pub const WORKERS: usize = 8;
/// How long one that is stopped gets to end by itself.
const GRACE: Duration = Duration::from_secs(2);
/// How often to look whether somebody is out of patience.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The command that the workflow wants to be called about this state; none where it wants none.
pub fn command<'w>(workflow: &'w Workflow, state: &RunState) -> Option<&'w CommandLine> {
    let notify = &workflow.notify;
    match &state.phase {
        Phase::Interrupted(_) => notify.on_interrupt.as_ref(),
        Phase::Failed(_) => notify.on_failure.as_ref(),
        Phase::Completed { .. } => notify.on_success.as_ref(),
        Phase::Queued(_) | Phase::Executing(_) | Phase::Cancelled { .. } => None,
    }
}

/// Notifies about one run that has just settled, and returns when that is over.
pub fn settled(engine: &Engine<'_>, state: &RunState, observer: &dyn Observer) {
    // A run whose snapshot is missing has nobody who could be notified; `show` and `fsck` tell of it.
    if let Ok(workflow) = engine.workflow_of(state)
        && let Some(command) = command(&workflow, state)
    {
        call(engine, state, &workflow, command, observer);
    }
}

/// Notifies about runs as they stand now, several at once, and returns when all that is over.
pub fn each(engine: &Engine<'_>, runs: &[RunId], observer: &dyn Observer) {
    if runs.is_empty() {
        return;
    }
    let notifier = Notifier::new(engine, observer);
    std::thread::scope(|scope| {
        for run in runs {
            if let Ok(Some(state)) = runs::load(&**engine.disk(), run) {
                notifier.send(scope, state);
            }
        }
    });
}

/// Notifies beside other work: what is sent waits for one of a few threads.
pub struct Notifier<'e> {
    engine: &'e Engine<'e>,
    observer: &'e dyn Observer,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    waiting: VecDeque<RunState>,
    workers: usize,
}

impl<'e> Notifier<'e> {
    /// A notifier with nothing to do.
    pub fn new(engine: &'e Engine<'e>, observer: &'e dyn Observer) -> Self {
        Self { engine, observer, inner: Mutex::default() }
    }

    /// Notifies about a run that has just settled, in a thread of `scope`.
    pub fn send<'s>(&'s self, scope: &'s Scope<'s, '_>, state: RunState) {
        let mut inner = self.inner();
        inner.waiting.push_back(state);
        if inner.workers < WORKERS {
            inner.workers += 1;
            drop(inner);
            let started = std::thread::Builder::new().spawn_scoped(scope, || self.work());
            if started.is_err() {
                self.work(); // rather late than never
            }
        }
    }

    fn work(&self) {
        loop {
            let next = {
                let mut inner = self.inner();
                let next = inner.waiting.pop_front();
                if next.is_none() {
                    inner.workers -= 1;
                }
                next
            };
            let Some(state) = next else { return };
            settled(self.engine, &state, self.observer);
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a notification did not do what it should.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("it could not be started: {0}")]
    NotStarted(#[from] process::SpawnError),
    #[error("it exited with status {0}")]
    Exited(u8),
    #[error("signal {0} ended it")]
    Signalled(i32),
    #[error("it took longer than {} s and was stopped", LIFETIME.as_secs())]
    TimedOut,
    #[error("it was stopped, because wfctl was interrupted twice")]
    Interrupted,
    #[error("{0}")]
    Engine(#[from] EngineError),
    #[error("cannot {what}: {source}")]
    System { what: &'static str, source: io::Error },
}

/// Calls the command, and tells of a failure in the log beside the run and to the observer.
fn call(
    engine: &Engine<'_>,
    state: &RunState,
    workflow: &Workflow,
    command: &CommandLine,
    observer: &dyn Observer,
) {
    let run = &state.admitted.run;
    let mut log = match Log::create(engine, state) {
        Ok(log) => log,
        Err(error) => {
            observer.notification_failed(run, &format!("its log cannot be written: {error}"));
            return;
        }
    };
    match execute(engine, state, workflow, command, &log.file) {
        Ok(()) => log.remove_if_empty(engine, state),
        Err(failed) => {
            let _ = writeln!(log.file, "wfctl: the notification failed: {failed}");
            observer.notification_failed(run, &failed.to_string());
        }
    }
}

fn execute(
    engine: &Engine<'_>,
    state: &RunState,
    workflow: &Workflow,
    command: &CommandLine,
    log: &File,
) -> Result<(), Failed> {
    let env = environment(engine, state, workflow);
    // A notification that the folder of the steps is gone must still be possible.
    let cwd = PathBuf::from(&state.admitted.cwd);
    let cwd = if child::check_folder(&cwd).is_ok() { cwd } else { PathBuf::from("/") };
    let argv: Vec<OsString> = match command {
        CommandLine::Shell(script) => vec!["/bin/sh".into(), "-c".into(), script.into()],
        CommandLine::Argv(argv) => argv.iter().map(Into::into).collect(),
    };
    let path = env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
    let program = resolve_program(&argv[0], path, &cwd)?;
    let document = document(engine, state)?;
    let spec = SpawnSpec {
        program: &program,
        argv: &argv,
        env: &env,
        cwd: &cwd,
        stdin: Some(document.as_fd()),
        output: log.as_fd(),
        slot: None,
    };
    let mut child = spawn(&spec)?;
    let system = |what| move |source| Failed::System { what, source };
    let (handle, watch) = stop_pair().map_err(system("watch it"))?;
    let interruptions = || engine.signals.pending().map_or(0, |(_, times)| times);
    // The first interruption may be what this tells of; the next one means that nobody wants to wait.
    let enough = interruptions().max(1) + 1;
    let deadline = Instant::now() + LIFETIME;
    let failed = loop {
        let until = deadline.min(Instant::now() + LOOK_EVERY);
        let woken = process::wait(&mut child, Some(until), &watch)
            .map_err(|error| system("wait for it")(io::Error::other(error.to_string())))?;
        match woken {
            Wake::ChildExited(Ending::Exited(0)) => return Ok(()),
            Wake::ChildExited(Ending::Exited(code)) => return Err(Failed::Exited(code)),
            Wake::ChildExited(Ending::Signalled(signal)) => return Err(Failed::Signalled(signal)),
            Wake::Deadline | Wake::StopRequested(_) if interruptions() >= enough => {
                handle.hasten();
                break Failed::Interrupted;
            }
            Wake::Deadline | Wake::StopRequested(_) if Instant::now() >= deadline => break Failed::TimedOut,
            Wake::Deadline | Wake::StopRequested(_) => {}
        }
    };
    match stop_child(child, None, GRACE, &watch) {
        Ok(_) => Err(failed),
        Err(error) => Err(system("stop it")(io::Error::other(format!("{failed}; {error}")))),
    }
}

/// The run's JSON as `show` gives it, in a file that blocks nobody who does not read it.
fn document(engine: &Engine<'_>, state: &RunState) -> Result<File, Failed> {
    let loaded = load_run(engine.store, &state.admitted.run, engine.now())?;
    let shown = RunShow::of(engine.store, &loaded);
    let system = |source| Failed::System { what: "prepare its stdin", source };
    let mut bytes = serde_json::to_vec_pretty(&shown).map_err(|error| system(error.into()))?;
    bytes.push(b'\n');
    memory_file("wfctl-run", &bytes).map_err(system)
}

fn environment(engine: &Engine<'_>, state: &RunState, workflow: &Workflow) -> Vec<(OsString, OsString)> {
    let mut env: BTreeMap<OsString, OsString> = BTreeMap::new();
    for (name, value) in state.admitted.env.iter().chain(&workflow.env) {
        env.insert(name.into(), value.into());
    }
    for (name, value) in run_variables(engine, state) {
        env.insert(name.into(), value);
    }
    let (step, reason) = match &state.phase {
        Phase::Interrupted(gate) => (Some(&gate.asked.step), "interrupt"),
        Phase::Failed(failure) => {
            (state.steps.last().map(|step| &step.step).or(state.last_step.as_ref()), failure.reason.as_str())
        }
        Phase::Queued(_) | Phase::Executing(_) | Phase::Completed { .. } | Phase::Cancelled { .. } => {
            (state.last_step.as_ref(), "")
        }
    };
    let mut set = |name: &str, value: &str| env.insert(name.into(), value.into());
    set("WFCTL_STEP", step.map_or("", |step| step.as_str()));
    set("WFCTL_ATTEMPT", &state.attempts.len().to_string());
    set("WFCTL_STATUS", state.status().as_str());
    set("WFCTL_REASON", reason);
    env.into_iter().collect()
}

/// The log of one notification, beside the run wherever that is by now.
struct Log {
    file: File,
    name: PathBuf,
}

impl Log {
    fn create(engine: &Engine<'_>, state: &RunState) -> io::Result<Self> {
        let disk = engine.disk();
        let gone = || io::Error::new(io::ErrorKind::NotFound, "the run is gone");
        // The number of the event that is told of: one notification an event.
        let name = layout::notification_log(Path::new(""), state.n);
        for _ in 0..4 {
            let dir = runs::find(&**disk, &state.admitted.run).map_err(io::Error::other)?.ok_or_else(gone)?;
            let _ = disk.remove_file(&dir.join(&name));
            match disk.create_log(&dir.join(&name)) {
                Ok(file) => return Ok(Self { file, name }),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {} // it moves right now
                Err(error) => return Err(error),
            }
        }
        Err(gone())
    }

    fn remove_if_empty(self, engine: &Engine<'_>, state: &RunState) {
        if self.file.metadata().is_ok_and(|metadata| metadata.len() == 0)
            && let Ok(Some(dir)) = runs::find(&**engine.disk(), &state.admitted.run)
        {
            let _ = engine.disk().remove_file(&dir.join(&self.name));
        }
    }
}
