//! The store at a glance: its slots, what waits, what needs a person, what comes next.
//!
//! Reads `runs/active`, the slots and the schedules; everything unfinished or ambiguous is there. Of finished
//! runs only the newest [`RECENT`] of the last day are looked at, so the cost does not grow with history.

use chrono::{DateTime, TimeDelta, Utc};

use super::{
    list::{RunFilter, list_runs},
    page::{Damage, PageRequest},
    run::{Liveness, LoadedRun, Reader},
    schedules::{each, earlier, next_due_of},
    view::{
        AbandonedView, AmbiguousView, CapacityView, FailedView, QueuedView, ScheduleCounts, SlotView,
        StatusView, Time, UpcomingView, WaitingView, open_gate,
    },
};
use crate::{
    domain::{
        ids::{RunId, SlotIndex},
        time,
    },
    engine::EngineError,
    state::run::{Phase, Status},
    store::{
        Store, runs, schedules,
        slots::{Holder, SlotState},
    },
};

/// How many of the newest runs are looked at for failures.
const RECENT: usize = 100;
/// How much of the queue, of the failures and of what comes next is told.
const SHOWN: usize = 5;

/// The state of the store at `now`.
///
/// # Errors
/// When its folders cannot be listed or its slots not be read.
pub fn read_status(store: &Store, now: DateTime<Utc>) -> Result<StatusView, EngineError> {
    let reader = Reader::new(store, now);
    let slots = reader.slots()?;
    let mut status = StatusView {
        store: store.root().display().to_string(),
        capacity: capacity_of(store.settings().capacity, slots),
        slots: slots.iter().map(|(index, state)| slot_view(*index, state)).collect(),
        queued: 0,
        queue: Vec::new(),
        interrupted: Vec::new(),
        ambiguous: Vec::new(),
        abandoned: Vec::new(),
        failed: Vec::new(),
        schedules: ScheduleCounts::default(),
        upcoming: Vec::new(),
        next_due: None,
        draining: store.is_draining()?,
        warnings: Vec::new(),
        corrupt: Vec::new(),
    };
    for run in runs::list_active(&**store.disk())? {
        match reader.load(&run) {
            Ok(Some(loaded)) => status.count(&loaded),
            Ok(None) => {}
            Err(error) => status.corrupt.push(Damage::of(store, format!("run {run}"), error)),
        }
    }
    status.interrupted.sort_by(|a, b| (a.since, &a.run).cmp(&(b.since, &b.run)));
    status.ambiguous.sort_by(|a, b| (a.since, &a.run).cmp(&(b.since, &b.run)));
    status.queue.sort();
    status.queue.truncate(SHOWN);
    status.look_at_slots(slots);
    status.look_at_failures(store, now)?;
    status.look_at_schedules(store, now)?;
    let damage = status.corrupt.iter().map(|damage| format!("{damage}; see `wfctl fsck`"));
    status.warnings.extend(damage);
    Ok(status)
}

impl StatusView {
    fn count(&mut self, loaded: &LoadedRun) {
        let state = &loaded.state;
        let run = state.admitted.run.to_string();
        if state.status() == Status::Queued && !state.is_executing() {
            self.queued += 1;
            self.queue.push(QueuedView { occurrence: Time(state.admitted.occurrence), run: run.clone() });
        }
        if loaded.liveness == Liveness::Live
            && let Some(slot) = self.slots.iter_mut().find(|slot| slot.run.as_deref() == Some(&run))
        {
            let step = state.unknown_execution().map(|(_, execution)| execution);
            slot.step = step.map(|step| step.step.to_string());
            slot.r#try = step.map(|step| step.try_no);
            slot.step_since = step.map(|step| Time(step.started_at));
        }
        if let Some(gate) = open_gate(state) {
            self.interrupted.push(WaitingView {
                run: run.clone(),
                step: gate.asked.step.to_string(),
                question: gate.asked.question.clone(),
                since: Time(gate.at),
                expires_at: gate.asked.expires_at.map(Time),
                resume_readiness: loaded.readiness.as_str(),
                gate: gate.number,
                outcomes: gate.asked.outcomes.iter().map(ToString::to_string).collect(),
                has_schema: gate.asked.schema.is_some(),
                diagnostics: loaded.readiness.diagnostics().to_vec(),
            });
        }
        let attempt = state.attempts.last();
        let attempt_no = attempt.map_or(0, |attempt| attempt.started.attempt);
        let unknown = state.unknown_execution().map(|(_, execution)| execution.step.to_string());
        if let (true, Phase::Failed(failure)) = (state.is_ambiguous(), &state.phase) {
            self.ambiguous.push(AmbiguousView {
                run: run.clone(),
                step: unknown.clone(),
                attempt: attempt_no,
                error: failure.error.clone(),
                since: Time(state.updated_at),
            });
        }
        if loaded.liveness == Liveness::Abandoned {
            self.abandoned.push(AbandonedView {
                run,
                attempt: attempt_no,
                step: unknown,
                slot: loaded.slot().map(|SlotIndex(index)| index),
                since: Time(attempt.map_or(state.created_at, |attempt| attempt.started_at)),
            });
        }
    }

    fn look_at_slots(&mut self, slots: &[(SlotIndex, SlotState)]) {
        for (index, state) in slots {
            match state {
                SlotState::Free | SlotState::Live(_) => {}
                SlotState::Abandoned(None) => self.warnings.push(format!(
                    "slot {index} holds garbage and counts as taken: `wfctl recover` gives it back"
                )),
                SlotState::Abandoned(Some(Holder { run, .. })) => {
                    self.warnings.push(format!(
                        "slot {index} was abandoned by run {run}: `wfctl recover --run {run}` decides"
                    ));
                }
            }
        }
        let lost: Vec<&AbandonedView> = self.abandoned.iter().filter(|run| !names(slots, &run.run)).collect();
        let warnings: Vec<String> = lost
            .into_iter()
            .map(|AbandonedView { run, .. }| {
                format!("run {run} is executing and no slot names it: `wfctl recover --run {run}` decides")
            })
            .collect();
        self.warnings.extend(warnings);
    }

    fn look_at_schedules(&mut self, store: &Store, now: DateTime<Utc>) -> Result<(), EngineError> {
        let mut damage = Vec::new();
        each(store, &mut damage, |schedule| {
            self.schedules.total += 1;
            self.schedules.paused += u64::from(schedule.paused.is_some());
            let receipt = schedules::last_receipt(&**store.disk(), &schedule.id).unwrap_or_default();
            let due = next_due_of(schedule, receipt);
            self.next_due = earlier(self.next_due.map(|due| due.0), due).map(Time);
            self.upcoming
                .extend(due.map(|due| UpcomingView { due: Time(due), schedule: schedule.id.to_string() }));
            if self.upcoming.len() > 64 * SHOWN {
                self.upcoming.sort();
                self.upcoming.truncate(SHOWN);
            }
            if schedule.is_ahead_of(now) {
                self.warnings.push(format!(
                    "schedule {id} is settled up to {cursor}, which is ahead of the clock: \
                     `wfctl rewind {id}` sets it back to now",
                    id = schedule.id,
                    cursor = time::format_instant(schedule.cursor),
                ));
            }
        })?;
        self.upcoming.sort();
        self.upcoming.truncate(SHOWN);
        self.corrupt.append(&mut damage);
        Ok(())
    }

    fn look_at_failures(&mut self, store: &Store, now: DateTime<Utc>) -> Result<(), EngineError> {
        let filter = RunFilter { since: now.checked_sub_signed(TimeDelta::days(1)), ..RunFilter::default() };
        let page = list_runs(store, now, &filter, &PageRequest { limit: RECENT, cursor: None })?;
        let failed = page.items.into_iter().filter(|run| run.status == "failed" && !run.ambiguous);
        self.failed = failed
            .take(SHOWN)
            .map(|run| FailedView { at: run.updated_at, run: run.run, reason: run.reason, error: run.error })
            .collect();
        Ok(())
    }
}

fn names(slots: &[(SlotIndex, SlotState)], run: &str) -> bool {
    slots.iter().any(|(_, state)| holder_of(state).is_some_and(|holder| is_run(&holder.run, run)))
}

fn is_run(run: &RunId, text: &str) -> bool {
    run.as_str() == text
}

/// How much of `total` is taken by live and abandoned slots; those beyond the capacity count too.
pub fn capacity_of(total: u32, slots: &[(SlotIndex, SlotState)]) -> CapacityView {
    let busy = slots.iter().filter(|(_, state)| *state != SlotState::Free).count();
    let busy = u32::try_from(busy).unwrap_or(u32::MAX);
    CapacityView { total, busy, free: total.saturating_sub(busy) }
}

fn holder_of(state: &SlotState) -> Option<&Holder> {
    match state {
        SlotState::Free => None,
        SlotState::Live(holder) | SlotState::Abandoned(holder) => holder.as_ref(),
    }
}

fn slot_view(index: SlotIndex, state: &SlotState) -> SlotView {
    let holder = holder_of(state);
    SlotView {
        slot: index.0,
        state: match state {
            SlotState::Free => "free",
            SlotState::Live(_) => "live",
            SlotState::Abandoned(_) => "abandoned",
        },
        run: holder.map(|holder| holder.run.to_string()),
        attempt: holder.map(|holder| holder.attempt),
        pid: holder.map(|holder| holder.pid),
        since: holder.map(|holder| Time(holder.at)),
        step: None,
        r#try: None,
        step_since: None,
    }
}
