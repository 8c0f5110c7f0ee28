//! What happened to runs and to times that never became runs, newest first.
//!
//! The order is that of occurrences: by nominal time (of a chosen id: the time of admission), then by run id,
//! then by the number of the event, all descending; a receipt for skipped or missed times stands where the
//! run of its first time would. So a run's items stay together, however late a person resolved it, and
//! a page reads only the journals and lines it shows. Attempts, fences and requeues are no items.

use std::collections::BinaryHeap;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::{
    page::{Damage, Key, Listing, Page, PageRequest},
    view::{HistoryItem, Time},
    walk::{Finished, Found, Scope, Walk},
};
use crate::{
    domain::{
        event::{Event, Reason},
        ids::{RunId, ScheduleId},
        schedule::{Unrun, WhyUnrun},
        time,
    },
    engine::EngineError,
    store::{Store, StoreError, journal::Record, receipts, receipts::NewestFirst, runs, schedules},
};

/// Whose history is wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistoryFilter {
    /// Only this schedule's.
    pub schedule: Option<ScheduleId>,
    /// Only this run's.
    pub run: Option<RunId>,
}

/// A page of history.
///
/// # Errors
/// When the cursor is none, the folders cannot be listed, or the one run asked for cannot be read.
pub fn list_history(
    store: &Store,
    filter: &HistoryFilter,
    request: &PageRequest,
) -> Result<Page<HistoryItem>, EngineError> {
    let from = Key::of_request(request, Listing::History)?;
    let mut source = match &filter.run {
        Some(run) => Source::of_run(store, run, filter, from)?,
        None => Source::of_all(store, filter, from)?,
    };
    let limit = request.limit.max(1);
    let mut page = Page { items: Vec::new(), next_cursor: None, corrupt: Vec::new() };
    let mut last = None;
    while let Some((key, item)) = source.next(page.items.len() == limit) {
        if page.items.len() == limit {
            page.next_cursor = last.map(|key: Key| key.to_cursor(Listing::History));
            break;
        }
        last = Some(key);
        page.items.push(item);
    }
    page.corrupt = source.into_damage();
    Ok(page)
}

/// Where items come from, in order.
struct Source<'a> {
    store: &'a Store,
    schedule: Option<ScheduleId>,
    from: Option<Key>,
    walk: Option<Walk<'a>>,
    next_run: Option<Found>,
    /// The items of one run that are left, oldest first.
    run: Vec<(Key, HistoryItem)>,
    receipts: Vec<(ScheduleId, NewestFirst<'a>)>,
    /// The next receipt of each schedule.
    heads: BinaryHeap<Head>,
    damage: Vec<Damage>,
}

/// The next receipt of one schedule, ordered by its key.
struct Head {
    key: Key,
    schedule: usize,
    receipt: Unrun,
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key && self.schedule == other.schedule
    }
}

impl Eq for Head {}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (&self.key, self.schedule).cmp(&(&other.key, other.schedule))
    }
}

impl<'a> Source<'a> {
    fn empty(store: &'a Store, filter: &HistoryFilter, from: Option<Key>) -> Self {
        Self {
            store,
            schedule: filter.schedule.clone(),
            from,
            walk: None,
            next_run: None,
            run: Vec::new(),
            receipts: Vec::new(),
            heads: BinaryHeap::new(),
            damage: Vec::new(),
        }
    }

    fn of_run(
        store: &'a Store,
        run: &RunId,
        filter: &HistoryFilter,
        from: Option<Key>,
    ) -> Result<Self, EngineError> {
        let read = runs::read_journal(&**store.disk(), run).map_err(|error| error.below(store.root()))?;
        let (_, state, records) = read.ok_or_else(|| EngineError::NoRun(run.to_string()))?;
        let mut source = Self::empty(store, filter, from);
        let at = run.stamp().unwrap_or(state.created_at);
        source.take_run(at, &records);
        Ok(source)
    }

    fn of_all(store: &'a Store, filter: &HistoryFilter, from: Option<Key>) -> Result<Self, EngineError> {
        let mut source = Self::empty(store, filter, from);
        let ids = match &filter.schedule {
            Some(id) => vec![id.clone()],
            None => schedules::list(&**store.disk())?,
        };
        let not_after = source.from.as_ref().map(Key::instant);
        for id in ids {
            match receipts::newest_first(&**store.disk(), &id, not_after) {
                Ok(receipts) => {
                    source.receipts.push((id, receipts));
                    source.refill(source.receipts.len() - 1);
                }
                Err(error) => source.damage.push(Damage::of(store, format!("schedule {id}"), error)),
            }
        }
        let scope = Scope {
            name: filter.schedule.as_ref().map(ToString::to_string),
            from: source.from.clone(),
            since: None,
            finished: Finished::Included,
        };
        source.walk = Some(Walk::new(store, scope)?);
        source.step();
        Ok(source)
    }

    /// The next item. `is_peek`: whether only its existence is asked for; what is damaged behind the page is
    /// left for the next one to tell.
    fn next(&mut self, is_peek: bool) -> Option<(Key, HistoryItem)> {
        let told = self.damage.len();
        let item = self.next_item();
        if is_peek {
            self.damage.truncate(told);
        }
        item
    }

    fn next_item(&mut self) -> Option<(Key, HistoryItem)> {
        loop {
            let run_key = self.run.last().map(|(key, _)| key).or(self.next_run.as_ref().map(|run| &run.key));
            let receipt_key = self.heads.peek().map(|head| &head.key);
            // The walk's key has no event number, so compare what both have.
            let place = |key: &'_ Key| (key.at, key.id.clone());
            let receipt_first = match (run_key, receipt_key) {
                (None, None) => return None,
                (Some(_), None) => false,
                (None, Some(_)) => true,
                (Some(run), Some(receipt)) => place(receipt) > place(run),
            };
            if receipt_first {
                return self.next_receipt();
            }
            if let Some(item) = self.run.pop() {
                return Some(item);
            }
            self.read_next_run();
        }
    }

    fn next_receipt(&mut self) -> Option<(Key, HistoryItem)> {
        let Head { key, schedule, receipt } = self.heads.pop()?;
        let item = receipt_item(&self.receipts[schedule].0, &receipt);
        self.refill(schedule);
        Some((key, item))
    }

    /// Puts the next receipt of a schedule among the heads.
    fn refill(&mut self, schedule: usize) {
        let (id, receipts) = &mut self.receipts[schedule];
        for receipt in receipts.by_ref() {
            match receipt {
                Ok(receipt) => {
                    let run = RunId::for_occurrence(id, receipt.times.first);
                    let key = Key::new(receipt.times.first, run.as_str(), 0);
                    if self.from.as_ref().is_none_or(|from| key < *from) {
                        self.heads.push(Head { key, schedule, receipt });
                        return;
                    }
                }
                Err(error) => self.damage.push(Damage::of(self.store, format!("schedule {id}"), error)),
            }
        }
    }

    fn step(&mut self) {
        self.next_run = self.walk.as_mut().and_then(Iterator::next);
    }

    fn read_next_run(&mut self) {
        let Some(found) = self.next_run.take() else { return };
        match runs::read_journal(&**self.store.disk(), &found.run) {
            Ok(Some((_, state, records))) => {
                let is_wanted = self.schedule.is_none() || self.schedule == state.admitted.schedule;
                if is_wanted {
                    self.take_run(found.key.instant(), &records);
                }
            }
            Ok(None) => {}
            Err(error) => self.tell(&found.run, error),
        }
        self.step();
    }

    fn tell(&mut self, run: &RunId, error: StoreError) {
        self.damage.push(Damage::of(self.store, format!("run {run}"), error));
    }

    fn take_run(&mut self, at: DateTime<Utc>, records: &[Record]) {
        let from = self.from.clone();
        self.run = run_items(records)
            .into_iter()
            .filter_map(|(n, item)| {
                let key = Key::new(at, item.run.as_deref().unwrap_or_default(), n);
                from.as_ref().is_none_or(|from| key < *from).then_some((key, item))
            })
            .collect();
    }

    fn into_damage(mut self) -> Vec<Damage> {
        if let Some(walk) = &mut self.walk {
            self.damage.append(&mut walk.damage);
        }
        self.damage
    }
}

/// The items of one run with the numbers of their events, oldest first.
fn run_items(records: &[Record]) -> Vec<(u64, HistoryItem)> {
    let Some((_, Event::Admitted(admitted))) = records.first() else { return Vec::new() };
    let mut has_expired = false;
    let mut items = Vec::new();
    for (n, (at, event)) in (1..).zip(records) {
        if let Event::AttemptStarted(started) = event {
            has_expired = started.outcome.as_ref().is_some_and(|outcome| outcome.as_str() == "expired");
        }
        let Some(mut detail) = detail_of(event) else { continue };
        let ends_attempt =
            matches!(event, Event::Interrupted(_) | Event::Completed { .. } | Event::Failed { .. });
        if ends_attempt && std::mem::take(&mut has_expired) {
            detail["expired"] = json!(true);
        }
        let item = HistoryItem {
            at: Time(*at),
            kind: event.word(),
            schedule: admitted.schedule.as_ref().map(ToString::to_string),
            occurrence: Time(admitted.occurrence),
            run: Some(admitted.run.to_string()),
            detail,
        };
        items.push((n, item));
    }
    items
}

/// What there is to say of an event; none where it is no item.
fn detail_of(event: &Event) -> Option<Value> {
    Some(match event {
        Event::Admitted(admitted) => {
            json!({ "manual": admitted.manual, "workflow": admitted.name, "digest": admitted.workflow.as_str() })
        }
        Event::Interrupted(asked) => json!({
            "step": asked.step.as_str(),
            "question": asked.question,
            "expires_at": asked.expires_at.map(Time),
        }),
        Event::Completed { outcome, .. } => json!({ "outcome": outcome.as_str() }),
        Event::Failed { attempt, reason, error, by } => {
            let ambiguous_attempt = (*reason == Reason::Ambiguous).then_some(attempt);
            json!({
                "reason": reason.as_str(),
                "error": error,
                "by": by,
                "ambiguous_attempt": ambiguous_attempt,
            })
        }
        Event::Retried { from, note, by } => json!({ "from": from.as_str(), "by": by, "note": note }),
        Event::Cancelled { by, note } => json!({ "by": by, "note": note }),
        Event::Resolved { resolution, note, by } => {
            json!({ "as": resolution.as_str(), "by": by, "note": note })
        }
        Event::AttemptStarted(_)
        | Event::StepStarted { .. }
        | Event::StepFinished(_)
        | Event::Fenced { .. }
        | Event::Requeued { .. } => return None,
    })
}

fn receipt_item(schedule: &ScheduleId, receipt: &Unrun) -> HistoryItem {
    let times = &receipt.times;
    let mut detail = json!({
        "first": time::format_instant(times.first),
        "last": time::format_instant(times.last),
        "count": times.count,
    });
    match &receipt.why {
        WhyUnrun::Skipped { by } => detail["in_the_way"] = json!(by.as_str()),
        WhyUnrun::Missed(reason) => detail["reason"] = json!(schedules::missed_word(*reason)),
    }
    HistoryItem {
        at: Time(receipt.at),
        kind: receipt.why.kind(),
        schedule: Some(schedule.to_string()),
        occurrence: Time(times.first),
        run: None,
        detail,
    }
}
