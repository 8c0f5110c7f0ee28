//! Executing attempts: one thread for each slot that this process holds, and the loop that may stop them.
//!
//! A worker claims under the store lock and makes records outside of it, so that the syncs of several
//! workers share the disk. It goes on with the next queued run until none is left, no slot is free,
//! or everything is being stopped.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    thread::{self, Scope},
};

use chrono::{DateTime, Utc};

use super::{
    Engine, EngineError, admit,
    attempt::{self, Attempt, Ended, Observer},
    expire::{self, Expired},
    notify::{self, Notifier},
    supervise::Supervisor,
};
use crate::{
    domain::{
        event::{AttemptKind, AttemptStarted},
        ids::{Digest, RunId, ScheduleId, SlotIndex, StepId},
        policy::Overlap,
        workflow::{Outcome, Workflow},
    },
    process::StopWatch,
    state::run::{Phase, RunState},
    store::{
        StoreError,
        lock::StoreLock,
        runs::{self, OpenRun},
        schedules,
        slots::{self, SlotGuard},
    },
};

/// An attempt that is about to be executed, and the watch that may stop it.
#[derive(Debug)]
pub struct Prepared {
    /// The attempt.
    pub attempt: Attempt,
    /// Its watch.
    pub watch: StopWatch,
}

/// What became of one executed run.
#[derive(Debug)]
pub struct Executed {
    /// The run.
    pub run: RunId,
    /// How its attempt ended.
    pub ended: Result<Ended, EngineError>,
}

/// Something that could not be done, and the run that it concerned, if it was one.
#[derive(Debug)]
pub struct Failure {
    /// The run.
    pub run: Option<RunId>,
    /// Why.
    pub error: EngineError,
}

/// A run that waits for a slot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiting {
    /// Its nominal time, which decides the order.
    pub occurrence: DateTime<Utc>,
    /// The run.
    pub run: RunId,
    /// Its schedule.
    pub schedule: Option<ScheduleId>,
    /// Whether it waits at a gate that has expired, rather than queued.
    pub expired: bool,
}

/// The attempt that would begin now.
pub fn dispatch_of(engine: &Engine<'_>, state: &RunState) -> AttemptStarted {
    AttemptStarted {
        attempt: state.next_attempt(),
        kind: AttemptKind::Dispatch,
        slot: None,
        pid: engine.process.pid,
        host: engine.process.host.clone(),
        by: None,
        outcome: None,
        payload: None,
        note: None,
    }
}

/// The attempt that the expiry of its gate begins.
pub fn expiry_of(engine: &Engine<'_>, state: &RunState) -> AttemptStarted {
    AttemptStarted {
        kind: AttemptKind::Resume,
        by: Some("expiry".to_owned()),
        outcome: Some(Outcome::EXPIRED),
        ..dispatch_of(engine, state)
    }
}

/// Executes one attempt in this thread, with the supervising loop beside it.
///
/// # Errors
/// As [`Attempt::execute`].
pub fn execute_one(
    engine: &Engine<'_>,
    supervisor: &Supervisor<'_>,
    prepared: Prepared,
    observer: &dyn Observer,
) -> Result<Ended, EngineError> {
    let run = prepared.attempt.run().clone();
    let ended = thread::scope(|scope| {
        let watching = scope.spawn(|| supervisor.run());
        let ended = prepared.attempt.execute(engine, &prepared.watch, observer);
        supervisor.remove(&run);
        supervisor.finish();
        let watched = watching.join();
        if let Ok(Err(error)) = watched {
            return ended.and(Err(error));
        }
        ended
    });
    if let Some(state) = ended.as_ref().ok().and_then(Ended::state) {
        notify::settled(engine, state, observer);
    }
    ended
}

/// The runs that wait for a slot, and what bounds their dispatch.
pub struct Queue<'e> {
    engine: &'e Engine<'e>,
    supervisor: &'e Supervisor<'e>,
    observer: &'e dyn Observer,
    /// The instant that gates expire against.
    now: DateTime<Utc>,
    inner: Mutex<Inner>,
}

/// The unfinished runs of a schedule, in their order.
type Unfinished = BTreeSet<(DateTime<Utc>, RunId)>;

#[derive(Default)]
struct Inner {
    waiting: VecDeque<Waiting>,
    seen: BTreeSet<RunId>,
    /// The unfinished runs of each schedule, where those must go one at a time.
    one_at_a_time: BTreeMap<ScheduleId, Option<Unfinished>>,
    workflows: HashMap<Digest, Workflow>,
    begun: u64,
    max_runs: Option<u64>,
    results: Vec<Executed>,
    failures: Vec<Failure>,
    blocked: Vec<(RunId, String)>,
    expired: Vec<Expired>,
}

/// What became of a run that is just being admitted.
#[derive(Debug)]
pub enum New {
    /// It was admitted and its first attempt has begun.
    Begun(Box<Prepared>),
    /// It is not admitted yet; nothing but its folder exists.
    Waits(OpenRun),
}

enum Claim {
    Claimed(Box<Claimed>),
    /// It does not wait any more.
    Gone,
    /// No slot is free.
    Full,
    /// Its workflow cannot be used.
    Blocked(String),
}

struct Claimed {
    run: OpenRun,
    slot: SlotGuard,
    workflow: Workflow,
    started: AttemptStarted,
    watch: StopWatch,
    /// The gate whose expiry the attempt is about.
    expired: Option<StepId>,
}

/// The run as one that waits for a slot now; none where it does not.
pub fn waiting(state: &RunState, now: DateTime<Utc>) -> Option<Waiting> {
    let expired = match &state.phase {
        Phase::Queued(_) => false,
        Phase::Interrupted(gate) if gate.asked.expires_at.is_some_and(|at| at <= now) => true,
        Phase::Interrupted(_)
        | Phase::Executing(_)
        | Phase::Completed { .. }
        | Phase::Failed(_)
        | Phase::Cancelled { .. } => return None,
    };
    let admitted = &state.admitted;
    Some(Waiting {
        occurrence: admitted.occurrence,
        run: admitted.run.clone(),
        schedule: admitted.schedule.clone(),
        expired,
    })
}

/// What a dispatch came to.
#[derive(Debug, Default)]
pub struct Dispatched {
    /// The runs that were executed.
    pub runs: Vec<Executed>,
    /// What could not be begun; runs are as they were.
    pub failures: Vec<Failure>,
    /// Runs whose pinned workflow cannot be used; they stay queued.
    pub blocked: Vec<(RunId, String)>,
    /// Gates whose expiry began an attempt.
    pub expired: Vec<Expired>,
}

impl<'e> Queue<'e> {
    /// A queue of nothing yet.
    pub fn new(
        engine: &'e Engine<'e>,
        supervisor: &'e Supervisor<'e>,
        observer: &'e dyn Observer,
        now: DateTime<Utc>,
        max_runs: Option<u64>,
    ) -> Self {
        let inner = Mutex::new(Inner { max_runs, ..Inner::default() });
        Self { engine, supervisor, observer, now, inner }
    }

    /// Adds waiting runs, kept in the order of their nominal times.
    pub fn add(&self, runs: impl IntoIterator<Item = Waiting>) {
        let mut inner = self.inner();
        let mut waiting: Vec<Waiting> = inner.waiting.drain(..).collect();
        for run in runs {
            if inner.seen.insert(run.run.clone()) {
                waiting.push(run);
            }
        }
        waiting.sort_unstable();
        inner.waiting = waiting.into();
        let waiting = inner.waiting.len();
        drop(inner);
        self.observer.queued(waiting);
    }

    /// How many runs wait here.
    pub fn len(&self) -> usize {
        self.inner().waiting.len()
    }

    /// Whether no run waits here.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Begins a run that is just being admitted, in the same write that admits it. Gives it back where
    /// older runs wait or no slot is free; the caller then admits it alone.
    ///
    /// # Errors
    /// When it could not be admitted.
    pub fn begin_new(
        &self,
        lock: &StoreLock<'_>,
        run: OpenRun,
        workflow: Workflow,
    ) -> Result<New, EngineError> {
        let engine = self.engine;
        let may_begin = {
            let inner = self.inner();
            inner.waiting.is_empty() && inner.max_runs.is_none_or(|max| inner.begun < max)
        };
        if !may_begin {
            return Ok(New::Waits(run));
        }
        let holder = engine.holder(run.id(), run.state().next_attempt());
        let capacity = engine.store.settings().capacity;
        let Some(slot) = slots::claim(lock, engine.disk(), capacity, &holder)? else {
            return Ok(New::Waits(run));
        };
        let started = AttemptStarted { slot: Some(slot.index()), ..dispatch_of(engine, run.state()) };
        let id = run.id().clone();
        // Only now: one that waits is yet to be added to this queue.
        self.inner().seen.insert(id.clone());
        let watch = self.supervisor.add(&id, run.dir())?;
        match attempt::begin(engine, run, slot, workflow, started, Some(&watch)) {
            Ok(attempt) => {
                let mut inner = self.inner();
                inner.begun += 1;
                inner.seen.insert(id);
                drop(inner);
                Ok(New::Begun(Box::new(Prepared { attempt, watch })))
            }
            Err(error) => {
                self.supervisor.remove(&id);
                Err(error)
            }
        }
    }

    /// Executes prepared attempts and then whatever waits, in as many threads as slots can be had.
    pub fn execute(&self, prepared: Vec<Prepared>) -> Dispatched {
        let capacity = self.engine.store.settings().capacity as usize;
        let workers = (prepared.len() + self.len()).min(capacity.max(prepared.len()));
        let mut prepared = prepared.into_iter();
        let notifier = Notifier::new(self.engine, self.observer);
        let notifier = &notifier;
        thread::scope(|scope| {
            let watching = scope.spawn(|| self.supervisor.run());
            let threads: Vec<_> = (0..workers)
                .map(|_| {
                    let first = prepared.next();
                    thread::Builder::new().stack_size(512 * 1024).spawn_scoped(scope, move || {
                        self.work(scope, notifier, first);
                    })
                })
                .collect();
            for thread in threads {
                match thread {
                    Ok(thread) => {
                        let _ = thread.join();
                    }
                    // The others go on with the queue.
                    Err(source) => self.fail(None, EngineError::System { what: "start a thread", source }),
                }
            }
            self.supervisor.finish();
            let _ = watching.join();
        });
        let mut inner = self.inner();
        Dispatched {
            runs: std::mem::take(&mut inner.results),
            failures: std::mem::take(&mut inner.failures),
            blocked: std::mem::take(&mut inner.blocked),
            expired: std::mem::take(&mut inner.expired),
        }
    }

    fn fail(&self, run: Option<RunId>, error: EngineError) {
        self.inner().failures.push(Failure { run, error });
    }

    fn work<'s>(&self, scope: &'s Scope<'s, '_>, notifier: &'s Notifier<'_>, first: Option<Prepared>) {
        let mut next = first;
        let mut slot = SlotIndex(0);
        loop {
            let prepared = match next.take() {
                Some(prepared) => prepared,
                None => match self.wait_for_next(slot) {
                    Some(prepared) => prepared,
                    None => return,
                },
            };
            slot = prepared.attempt.slot();
            self.observer.queued(self.len());
            let run = prepared.attempt.run().clone();
            let ended = prepared.attempt.execute(self.engine, &prepared.watch, self.observer);
            self.supervisor.remove(&run);
            self.settled(&run, &ended);
            if let Some(state) = ended.as_ref().ok().and_then(Ended::state)
                && let Ok(workflow) = self.workflow(&state.admitted.workflow)
                && notify::command(&workflow, state).is_some()
            {
                notifier.send(scope, state.clone());
            }
            self.inner().results.push(Executed { run, ended });
        }
    }

    /// Takes the lock, claims and begins; none where this worker has nothing more to do.
    fn wait_for_next(&self, near: SlotIndex) -> Option<Prepared> {
        loop {
            if self.supervisor.is_stopping() {
                return None;
            }
            let claimed = self.engine.lock().and_then(|lock| self.claim_next(&lock, near));
            match claimed {
                Ok(Some(claimed)) => {
                    if let Some(prepared) = self.begin(claimed) {
                        return Some(prepared);
                    }
                }
                Ok(None) | Err(EngineError::Interrupted(_)) => return None,
                Err(error) => {
                    self.fail(None, error);
                    return None;
                }
            }
        }
    }

    fn claim_next(&self, lock: &StoreLock<'_>, near: SlotIndex) -> Result<Option<Claimed>, EngineError> {
        if self.engine.store.is_draining()? {
            return Ok(None);
        }
        let mut rescanned = false;
        loop {
            let mut inner = self.inner();
            if inner.max_runs.is_some_and(|max| inner.begun >= max) {
                return Ok(None);
            }
            let Some(candidate) = self.pop(&mut inner)? else {
                drop(inner);
                // Somebody else may have admitted runs meanwhile and left them to us.
                if rescanned || !self.rescan()? {
                    return Ok(None);
                }
                rescanned = true;
                continue;
            };
            drop(inner);
            match self.claim(lock, &candidate, near) {
                Ok(Claim::Claimed(claimed)) => {
                    self.inner().begun += 1;
                    return Ok(Some(*claimed));
                }
                Ok(Claim::Gone) => {}
                Ok(Claim::Full) => {
                    let mut inner = self.inner();
                    inner.waiting.push_front(candidate);
                    return Ok(None);
                }
                Ok(Claim::Blocked(why)) => self.inner().blocked.push((candidate.run, why)),
                Err(error) => self.fail(Some(candidate.run), error),
            }
        }
    }

    /// The oldest run that may begin now.
    fn pop(&self, inner: &mut Inner) -> Result<Option<Waiting>, EngineError> {
        for index in 0..inner.waiting.len() {
            let Some(candidate) = inner.waiting.get(index).cloned() else { break };
            if self.has_turn(inner, &candidate)? {
                return Ok(inner.waiting.remove(index));
            }
        }
        Ok(None)
    }

    /// Whether no earlier run of a schedule that goes one at a time is unfinished.
    fn has_turn(&self, inner: &mut Inner, candidate: &Waiting) -> Result<bool, EngineError> {
        let Some(schedule) = candidate.schedule.as_ref().filter(|_| !candidate.expired) else {
            return Ok(true);
        };
        if !inner.one_at_a_time.contains_key(schedule) {
            let unfinished = self.unfinished_of(schedule)?;
            inner.one_at_a_time.insert(schedule.clone(), unfinished);
        }
        let Some(Some(unfinished)) = inner.one_at_a_time.get(schedule) else { return Ok(true) };
        Ok(unfinished.first().is_none_or(|(at, run)| (at, run) >= (&candidate.occurrence, &candidate.run)))
    }

    fn unfinished_of(&self, schedule: &ScheduleId) -> Result<Option<Unfinished>, EngineError> {
        let disk = &**self.engine.disk();
        let overlap = schedules::load(disk, schedule).ok().flatten().map(|s| s.definition.policies.overlap);
        match overlap {
            Some(Overlap::Queue | Overlap::QueueOne) => {}
            Some(Overlap::Skip | Overlap::Allow) | None => return Ok(None),
        }
        let mut unfinished = BTreeSet::new();
        for run in runs::list_active(disk)?.into_iter().filter(|run| run.name() == schedule.as_str()) {
            if let Ok(Some(state)) = runs::load(disk, &run)
                && !state.is_terminal()
                && state.admitted.schedule.as_ref() == Some(schedule)
            {
                unfinished.insert((state.admitted.occurrence, run));
            }
        }
        Ok(Some(unfinished))
    }

    /// Looks for queued runs that were not seen before. Whether there were any.
    fn rescan(&self) -> Result<bool, EngineError> {
        let disk = &**self.engine.disk();
        let mut found = Vec::new();
        self.inner().one_at_a_time.clear();
        for run in runs::list_active(disk)? {
            if self.inner().seen.contains(&run) {
                continue;
            }
            // What is corrupt was told by the recovery that the tick began with, or will be by the next.
            if let Ok(Some(state)) = runs::load(disk, &run)
                && let Some(waiting) = waiting(&state, self.now)
            {
                found.push(waiting);
            }
        }
        let any = !found.is_empty();
        self.add(found);
        Ok(any || !self.is_empty())
    }

    fn claim(
        &self,
        lock: &StoreLock<'_>,
        candidate: &Waiting,
        near: SlotIndex,
    ) -> Result<Claim, EngineError> {
        let engine = self.engine;
        // Asked before the journal is read: an owner's records change until it has given the slot back.
        if slots::is_named(&**engine.disk(), &candidate.run)? {
            return Ok(Claim::Gone);
        }
        let run = match admit::open_run(engine, lock, &candidate.run) {
            Ok(run) => run,
            Err(EngineError::NoRun(_)) => return Ok(Claim::Gone),
            Err(error) => return Err(error),
        };
        let is_ready = waiting(run.state(), self.now).is_some_and(|now| now.expired == candidate.expired);
        if !is_ready {
            return Ok(Claim::Gone);
        }
        let workflow = match self.workflow(&run.state().admitted.workflow) {
            Ok(workflow) => workflow,
            Err(error @ StoreError::Snapshot { .. }) => {
                return Ok(Claim::Blocked(error.below(engine.store.root()).to_string()));
            }
            Err(error) => return Err(error.into()),
        };
        let holder = engine.holder(run.id(), run.state().next_attempt());
        let capacity = engine.store.settings().capacity;
        let Some(slot) = slots::claim_near(lock, engine.disk(), capacity, near, &holder)? else {
            return Ok(Claim::Full);
        };
        let started =
            if candidate.expired { expiry_of(engine, run.state()) } else { dispatch_of(engine, run.state()) };
        let started = AttemptStarted { slot: Some(slot.index()), ..started };
        let watch = self.supervisor.add(run.id(), run.dir())?;
        let expired = expire::expired_gate(run.state(), self.now);
        Ok(Claim::Claimed(Box::new(Claimed { run, slot, workflow, started, watch, expired })))
    }

    /// A pinned workflow, read once for each queue.
    ///
    /// # Errors
    /// When it cannot be used.
    pub fn workflow(&self, digest: &Digest) -> Result<Workflow, StoreError> {
        if let Some(workflow) = self.inner().workflows.get(digest) {
            return Ok(workflow.clone());
        }
        let workflow = self.engine.pinned_workflow(digest)?;
        self.inner().workflows.insert(digest.clone(), workflow.clone());
        Ok(workflow)
    }

    fn begin(&self, claimed: Claimed) -> Option<Prepared> {
        let Claimed { run, slot, workflow, started, watch, expired } = claimed;
        let id = run.id().clone();
        match attempt::begin(self.engine, run, slot, workflow, started, Some(&watch)) {
            Ok(attempt) => {
                self.inner().expired.extend(expired.map(|step| Expired { run: id, step }));
                Some(Prepared { attempt, watch })
            }
            Err(error) => {
                self.supervisor.remove(&id);
                self.fail(Some(id), error);
                None
            }
        }
    }

    fn settled(&self, run: &RunId, ended: &Result<Ended, EngineError>) {
        let Ok(ended) = ended else { return };
        let Some(state) = ended.state().filter(|state| state.is_terminal()) else { return };
        let Some(schedule) = &state.admitted.schedule else { return };
        let mut inner = self.inner();
        if let Some(Some(unfinished)) = inner.one_at_a_time.get_mut(schedule) {
            unfinished.remove(&(state.admitted.occurrence, run.clone()));
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
