//! The protocol of slots and attempts, searched exhaustively over the real fold and the real decisions: two
//! ticks, a resume, a cancel, a recovery, kills anywhere, power cuts, capacity 2.
//!
//! Each move is one thing that is atomic on disk or under the store lock; any process may be killed between
//! any two. The search keeps every state that can be reached and asserts, in each of them, that no ordinary step
//! was ever started twice, that the capacity is kept, and that no event is illegal; and in the end that from each
//! of them a state can be reached in which everything is settled and every slot is free.

#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::type_complexity)]

use std::collections::{BTreeMap, HashMap, VecDeque};

use chrono::{DateTime, Utc};
use serde_json::Value;
use wfctl::{
    domain::{
        event::{
            Admitted, AttemptKind, AttemptStarted, Event, Interrupted, Reason, StepEnding, StepFinished,
        },
        ids::{Digest, SlotIndex},
        workflow::{Outcome, StepKind, Workflow},
    },
    state::{
        decide::{self, Conclusion, Next},
        run::{Phase, RunState},
    },
};

const CAPACITY: usize = 2;

const WORKFLOWS: [&str; 3] = [
    r#"name = "a"
[[step]]
id = "one"
run = "x"
[[step]]
id = "ask"
interrupt = "?"
[[step]]
id = "two"
run = "x"
idempotent = true
"#,
    r#"name = "b"
[[step]]
id = "one"
run = "x"
[[step]]
id = "two"
run = "x"
"#,
    r#"name = "c"
[[step]]
id = "one"
run = "x"
"#,
];

/// A process that drives attempts: two ticks and a resume.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Worker {
    Idle,
    /// The slot is claimed, nothing is recorded. With the number of the record that was read last.
    Claimed {
        run: usize,
        slot: usize,
        n: u64,
        answer: bool,
    },
    /// `step_started` is durable, the process is not created.
    Ready {
        run: usize,
        slot: usize,
    },
    /// The process was created.
    Running {
        run: usize,
        slot: usize,
    },
    /// A stop was asked for; the step is joined.
    Joined {
        run: usize,
        slot: usize,
    },
    /// The end is durable, the slot is not released.
    Settled {
        slot: usize,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Slot {
    /// What the file says: run and attempt.
    content: Option<(usize, u32)>,
    /// The worker that holds the lock.
    owner: Option<usize>,
    /// The live process of a step, which holds it too: run, and whether it has taken effect.
    step: Option<(usize, bool)>,
}

#[derive(Debug, Clone)]
struct Run {
    /// What is durable.
    state: RunState,
    cancel_requested: bool,
    /// How often each step was created as a process, and took effect.
    starts: BTreeMap<String, u8>,
}

#[derive(Debug, Clone)]
struct World {
    runs: Vec<Run>,
    slots: Vec<Slot>,
    workers: Vec<Worker>,
    kills: u8,
    fences: u8,
}

struct Model {
    workflows: Vec<Workflow>,
    at: DateTime<Utc>,
}

impl Model {
    fn apply(&self, run: &mut Run, event: &Event) {
        run.state.apply(event, self.at).unwrap_or_else(|e| panic!("{e}: {:?}", run.state.phase));
    }

    /// What the attempt of a run does next, recorded: whether a step is to be created.
    fn stage_next(&self, world: &mut World, run: usize) -> bool {
        let workflow = &self.workflows[run];
        let attempt = u32::try_from(world.runs[run].state.attempts.len()).unwrap();
        let event = match decide::next(&world.runs[run].state, workflow).unwrap() {
            Next::Start(start) => {
                let seq = world.runs[run].state.next_seq();
                let id = &world.runs[run].state.admitted.run;
                let key = start.key.unwrap_or_else(|| format!("{id}/{seq}"));
                let step = workflow.step(start.step).id.clone();
                Event::StepStarted { attempt, seq, step, try_no: start.try_no, key }
            }
            Next::Ask(step) => {
                let StepKind::Gate(gate) = &workflow.step(step).kind else { panic!("no gate") };
                Event::Interrupted(Box::new(Interrupted {
                    attempt,
                    step: workflow.step(step).id.clone(),
                    question: gate.question.clone(),
                    outcomes: gate.outcomes.clone(),
                    schema: None,
                    expires_at: None,
                }))
            }
            Next::Complete(outcome) => Event::Completed { attempt, outcome },
            Next::Fail(reason, error) => Event::Failed { attempt, reason, error, by: None },
        };
        let starts = matches!(event, Event::StepStarted { .. });
        self.apply(&mut world.runs[run], &event);
        starts
    }

    fn begin(&self, world: &mut World, worker: usize, run: usize, slot: usize, answer: bool) {
        let state = &world.runs[run].state;
        let started = AttemptStarted {
            attempt: state.next_attempt(),
            kind: if answer { AttemptKind::Resume } else { AttemptKind::Dispatch },
            slot: Some(SlotIndex(u32::try_from(slot).unwrap())),
            pid: 1,
            host: "h".to_owned(),
            by: None,
            outcome: answer.then(|| "submitted".parse().unwrap()),
            payload: None,
            note: None,
        };
        self.apply(&mut world.runs[run], &Event::AttemptStarted(Box::new(started)));
        self.go_on(world, worker, run, slot);
    }

    fn go_on(&self, world: &mut World, worker: usize, run: usize, slot: usize) {
        let starts = self.stage_next(world, run);
        world.workers[worker] = if starts { Worker::Ready { run, slot } } else { Worker::Settled { slot } };
    }

    fn ambiguous(&self, world: &mut World, run: usize, by: &str) {
        let attempt = u32::try_from(world.runs[run].state.attempts.len()).unwrap();
        let event = Event::Failed {
            attempt,
            reason: Reason::Ambiguous,
            error: String::new(),
            by: Some(by.to_owned()),
        };
        self.apply(&mut world.runs[run], &event);
    }

    /// What recovery appends to an abandoned run; nothing where its attempt is settled.
    fn conclude(&self, world: &mut World, run: usize) {
        let state = &world.runs[run].state;
        let attempt = u32::try_from(state.attempts.len()).unwrap();
        match decide::conclude(state, Some(&self.workflows[run])) {
            Conclusion::Settled => {}
            Conclusion::Requeue(at) => self.apply(&mut world.runs[run], &Event::Requeued { attempt, at }),
            Conclusion::Ambiguous(..) => self.ambiguous(world, run, "recovery"),
        }
    }

    fn successors(&self, world: &World) -> Vec<(String, World)> {
        let mut found = Vec::new();
        let mut add = |what: String, change: &dyn Fn(&mut World)| {
            let mut next = world.clone();
            change(&mut next);
            found.push((what, next));
        };
        for (index, worker) in world.workers.iter().enumerate() {
            let is_resume = index == 2;
            match *worker {
                Worker::Idle => {
                    // A claim is made under the lock: on what is durable then, and on a free slot.
                    for (run, it) in world.runs.iter().enumerate() {
                        let waits = match &it.state.phase {
                            Phase::Queued(_) => !is_resume,
                            Phase::Interrupted(_) => is_resume,
                            _ => false,
                        };
                        let free = world.slots.iter().position(Slot::is_free);
                        let is_named = world.slots.iter().any(|slot| slot.names(run));
                        let Some(slot) = free.filter(|_| waits && !is_named) else { continue };
                        add(format!("{index} claims {slot} for {run}"), &|w| {
                            let attempt = w.runs[run].state.next_attempt();
                            w.slots[slot].content = Some((run, attempt));
                            w.slots[slot].owner = Some(index);
                            w.runs[run].cancel_requested = false;
                            let n = w.runs[run].state.n;
                            w.workers[index] = Worker::Claimed { run, slot, n, answer: is_resume };
                        });
                    }
                }
                Worker::Claimed { run, slot, n, answer } => {
                    assert_eq!(world.runs[run].state.n, n, "somebody else wrote to the journal of {run}");
                    add(format!("{index} begins {run}"), &|w| self.begin(w, index, run, slot, answer));
                    add(format!("{index} cannot begin {run}"), &|w| {
                        w.slots[slot] = Slot::default();
                        w.workers[index] = Worker::Idle;
                    });
                }
                Worker::Ready { run, slot } if world.runs[run].cancel_requested => {
                    add(format!("{index} stops {run} in time"), &|w| {
                        w.workers[index] = Worker::Joined { run, slot };
                    });
                }
                Worker::Ready { run, slot } => {
                    add(format!("{index} creates the step of {run}"), &|w| {
                        w.slots[slot].step = Some((run, false));
                        w.workers[index] = Worker::Running { run, slot };
                        let step = w.runs[run].state.steps.last().unwrap().step.to_string();
                        *w.runs[run].starts.entry(step).or_default() += 1;
                    });
                }
                Worker::Running { run, slot } => {
                    if world.slots[slot].step.is_none() {
                        add(format!("{index} records the end of the step of {run}"), &|w| {
                            let (seq, execution) = w.runs[run].state.unknown_execution().unwrap();
                            let finished = StepFinished {
                                attempt: u32::try_from(w.runs[run].state.attempts.len()).unwrap(),
                                seq,
                                step: execution.step.clone(),
                                outcome: Outcome::OK,
                                ending: StepEnding { exit: Some(0), ..StepEnding::default() },
                                output: None,
                                ms: 0,
                            };
                            self.apply(&mut w.runs[run], &Event::StepFinished(Box::new(finished)));
                            self.go_on(w, index, run, slot);
                        });
                    }
                    if world.runs[run].cancel_requested {
                        add(format!("{index} stops the step of {run}"), &|w| {
                            w.slots[slot].step = None;
                            w.workers[index] = Worker::Joined { run, slot };
                        });
                    }
                    if world.fences > 0 {
                        add(format!("{index} fences {run}"), &|w| {
                            w.fences -= 1;
                            let attempt = u32::try_from(w.runs[run].state.attempts.len()).unwrap();
                            let signal = "SIGTERM".to_owned();
                            self.apply(&mut w.runs[run], &Event::Fenced { attempt, signal });
                            w.slots[slot].step = None;
                            w.slots[slot].owner = None;
                            w.workers[index] = Worker::Idle;
                        });
                    }
                }
                Worker::Joined { run, slot } => {
                    add(format!("{index} reconciles {run}"), &|w| {
                        self.ambiguous(w, run, "caller_cancellation");
                        w.workers[index] = Worker::Settled { slot };
                    });
                }
                Worker::Settled { slot } => {
                    add(format!("{index} releases {slot}"), &|w| {
                        w.slots[slot] = Slot { step: w.slots[slot].step, ..Slot::default() };
                        w.workers[index] = Worker::Idle;
                    });
                }
            }
            if world.kills > 0 && *worker != Worker::Idle {
                add(format!("{index} is killed"), &|w| {
                    w.kills -= 1;
                    for slot in &mut w.slots {
                        if slot.owner == Some(index) {
                            slot.owner = None;
                        }
                    }
                    w.workers[index] = Worker::Idle;
                });
            }
        }
        for (index, slot) in world.slots.iter().enumerate() {
            match slot.step {
                Some((run, false)) => add(format!("the step of {run} takes effect"), &|w| {
                    w.slots[index].step = Some((run, true));
                }),
                Some((run, true)) => {
                    add(format!("the step of {run} ends"), &|w| w.slots[index].step = None);
                }
                None => {}
            }
        }
        for run in 0..world.runs.len() {
            self.recover(world, run, &mut add);
            Self::cancel(self, world, run, &mut add);
        }
        if world.kills > 0 {
            for keeps_slots in [false, true] {
                add("the power fails".to_owned(), &|w| {
                    w.kills -= 1;
                    w.workers.fill(Worker::Idle);
                    for slot in &mut w.slots {
                        *slot = Slot { content: slot.content.filter(|_| keeps_slots), ..Slot::default() };
                    }
                });
            }
        }
        found
    }

    /// Recovery of one run, under the lock; it may be killed behind its record.
    fn recover(&self, world: &World, run: usize, add: &mut dyn FnMut(String, &dyn Fn(&mut World))) {
        let is_live = world.slots.iter().any(|slot| slot.names(run) && slot.is_locked());
        let is_named = world.slots.iter().any(|slot| slot.names(run));
        if is_live || !(is_named || world.runs[run].state.is_executing()) {
            return;
        }
        add(format!("recovery of {run}"), &|w| {
            self.conclude(w, run);
            for slot in &mut w.slots {
                if slot.names(run) {
                    slot.content = None;
                }
            }
        });
        if world.kills > 0 {
            add(format!("recovery of {run}, killed behind its record"), &|w| {
                w.kills -= 1;
                self.conclude(w, run);
            });
        }
    }

    fn cancel(&self, world: &World, run: usize, add: &mut dyn FnMut(String, &dyn Fn(&mut World))) {
        let of_run = world.slots.iter().position(|slot| slot.names(run));
        match of_run.map(|slot| (slot, &world.slots[slot])) {
            Some((_, slot)) if slot.owner.is_some() => {
                if !world.runs[run].cancel_requested {
                    add(format!("{run} is asked to cancel"), &|w| w.runs[run].cancel_requested = true);
                }
            }
            Some((index, slot)) if slot.step.is_some() && world.runs[run].state.is_executing() => {
                add(format!("the orphan of {run} is cancelled"), &|w| {
                    w.slots[index] = Slot::default();
                    self.ambiguous(w, run, "caller_cancellation");
                });
            }
            Some(_) => {}
            None => {
                if matches!(world.runs[run].state.phase, Phase::Queued(_) | Phase::Interrupted(_)) {
                    let event = Event::Cancelled { by: "me".to_owned(), note: None };
                    add(format!("{run} is cancelled"), &|w| self.apply(&mut w.runs[run], &event));
                }
            }
        }
    }

    fn check(&self, world: &World, path: &dyn Fn() -> String) {
        let locked = world.slots.iter().filter(|slot| slot.is_locked()).count();
        assert!(locked <= CAPACITY, "{}", path());
        for (index, run) in world.runs.iter().enumerate() {
            let live = world.slots.iter().filter(|slot| slot.step.is_some_and(|(of, _)| of == index)).count();
            assert!(live <= 1, "two processes of run {index}: {}", path());
            let driving = world.workers.iter().filter(|worker| worker.run() == Some(index)).count();
            assert!(driving <= 1, "two workers drive run {index}: {}", path());
            for (step, starts) in &run.starts {
                let step = self.workflows[index].index_of(step).unwrap();
                let StepKind::Command(command) = &self.workflows[index].step(step).kind else { panic!() };
                assert!(*starts <= 1 || command.idempotent, "run {index} started a step twice: {}", path());
            }
            let keys: Vec<_> = run.state.steps.iter().filter(|e| e.step.as_str() == "two").collect();
            assert!(
                index != 0 || keys.windows(2).all(|pair| pair[0].key == pair[1].key),
                "new key: {}",
                path()
            );
            // An ambiguous run is not driven, and its process, if there is one, holds a slot that names it.
            if run.state.is_ambiguous() {
                let is_driven = world
                    .workers
                    .iter()
                    .any(|worker| worker.run() == Some(index) && !matches!(worker, Worker::Settled { .. }));
                assert!(!is_driven && live == 0, "an ambiguous run is driven: {}", path());
            }
            assert!(
                live == 0 || world.slots.iter().any(|slot| slot.step.is_some() && slot.names(index)),
                "a process whose slot does not name its run: {}",
                path()
            );
        }
    }
}

impl Slot {
    fn is_locked(&self) -> bool {
        self.owner.is_some() || self.step.is_some()
    }

    fn is_free(&self) -> bool {
        self.content.is_none() && !self.is_locked()
    }

    fn names(&self, run: usize) -> bool {
        self.content.is_some_and(|(named, _)| named == run)
    }
}

impl Worker {
    fn run(&self) -> Option<usize> {
        match *self {
            Self::Claimed { run, .. }
            | Self::Ready { run, .. }
            | Self::Running { run, .. }
            | Self::Joined { run, .. } => Some(run),
            Self::Idle | Self::Settled { .. } => None,
        }
    }
}

impl World {
    /// What tells this state from others, as text.
    fn key(&self) -> String {
        use std::fmt::Write as _;
        let mut key = String::with_capacity(512);
        for run in &self.runs {
            let state = &run.state;
            let place = match &state.phase {
                Phase::Queued(position) => format!("q{position:?}"),
                Phase::Interrupted(gate) => format!("i{}", gate.asked.step),
                Phase::Executing(executing) => format!("e{:?}{:?}", executing.point, executing.before),
                Phase::Completed { .. } => "c".to_owned(),
                Phase::Failed(failure) => format!("f{}", failure.unresolved),
                Phase::Cancelled { .. } => "x".to_owned(),
            };
            let steps: Vec<_> = state.steps.iter().map(|e| (e.step.as_str(), e.finished.is_some())).collect();
            let _ = write!(key, "{place}|{steps:?}|{:?}|{};", run.starts, run.cancel_requested);
        }
        let _ = write!(key, "{:?}{:?}{}{}", self.slots, self.workers, self.kills, self.fences);
        key
    }

    fn is_settled(&self) -> bool {
        let rests = |run: &Run| run.state.is_terminal() || matches!(run.state.phase, Phase::Interrupted(_));
        self.slots.iter().all(Slot::is_free)
            && self.workers.iter().all(|worker| *worker == Worker::Idle)
            && self.runs.iter().all(rests)
    }
}

fn search(runs: usize, kills: u8, fences: u8) -> usize {
    let at: DateTime<Utc> = "2026-12-01T04:00:00Z".parse().unwrap();
    let model =
        Model { workflows: WORKFLOWS.iter().map(|text| Workflow::parse(text).unwrap()).collect(), at };
    let admitted = |index: usize| {
        let admitted = Admitted {
            run: format!("r{index}@20261201T040000Z").parse().unwrap(),
            schedule: None,
            occurrence: at,
            manual: true,
            name: "w".to_owned(),
            workflow: Digest::of(b""),
            input: Value::Null,
            env: BTreeMap::new(),
            cwd: "/".to_owned(),
        };
        RunState::begin(&Event::Admitted(Box::new(admitted)), at).unwrap()
    };
    let run = |index| Run { state: admitted(index), cancel_requested: false, starts: BTreeMap::new() };
    let first = World {
        runs: (0..runs).map(run).collect(),
        slots: vec![Slot::default(); CAPACITY],
        workers: vec![Worker::Idle; 3],
        kills,
        fences,
    };
    let mut ids: HashMap<String, u32> = HashMap::from([(first.key(), 0)]);
    let mut came_from: Vec<(u32, String)> = vec![(0, "start".to_owned())];
    let mut settled: Vec<u32> = Vec::new();
    let mut backwards: Vec<Vec<u32>> = vec![Vec::new()];
    let mut queue = VecDeque::from([(0_u32, first)]);
    while let Some((id, world)) = queue.pop_front() {
        if world.is_settled() {
            settled.push(id);
        }
        for (what, next) in model.successors(&world) {
            let key = next.key();
            let next_id = if let Some(known) = ids.get(&key) {
                *known
            } else {
                let new = u32::try_from(ids.len()).unwrap();
                ids.insert(key, new);
                came_from.push((id, what));
                backwards.push(Vec::new());
                model.check(&next, &|| path_to(&came_from, new));
                queue.push_back((new, next));
                new
            };
            backwards[next_id as usize].push(id);
        }
    }
    // Everything settled and free must be in reach from everywhere.
    let mut reaches = vec![false; ids.len()];
    let mut from: VecDeque<u32> = settled.into();
    from.iter().for_each(|id| reaches[*id as usize] = true);
    while let Some(id) = from.pop_front() {
        for before in &backwards[id as usize] {
            if !std::mem::replace(&mut reaches[*before as usize], true) {
                from.push_back(*before);
            }
        }
    }
    if let Some(stuck) = reaches.iter().position(|reaches| !reaches) {
        panic!("nothing leads out of: {}", path_to(&came_from, u32::try_from(stuck).unwrap()));
    }
    ids.len()
}

/// How a state was reached.
fn path_to(came_from: &[(u32, String)], mut id: u32) -> String {
    let mut path = Vec::new();
    while id != 0 {
        let (before, what) = &came_from[id as usize];
        path.push(what.as_str());
        id = *before;
    }
    path.reverse();
    path.join(" → ")
}

#[test]
fn two_runs_with_kills_and_fences_never_start_a_step_twice_and_always_come_to_rest() {
    let full = std::env::var("WFCTL_PROOF").is_ok_and(|value| value == "full");
    let states = search(2, if full { 3 } else { 1 }, 1);
    eprintln!("two runs: {states} states");
}

#[test]
fn three_runs_keep_a_capacity_of_two() {
    let full = std::env::var("WFCTL_PROOF").is_ok_and(|value| value == "full");
    let states = search(3, u8::from(full), 0);
    eprintln!("three runs: {states} states");
}
