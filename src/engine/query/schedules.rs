//! Schedules and when they are next due.
//!
//! The listing goes from the newest to the oldest by creation, then by id. Removed schedules are not
//! listed: only their history is left.

use chrono::{DateTime, Utc};

use super::{
    page::{Damage, Key, Listing, Page, PageRequest},
    view::{PoliciesView, ScheduleItem, Time, WorkflowName},
};
use crate::{
    domain::{
        duration::format_duration, ids::ScheduleId, policy::CatchUp, schedule::Schedule, time, trigger::Rule,
    },
    engine::{EngineError, query::find::nearest},
    store::{
        Store, StoreError,
        due::{self, Look},
        schedules,
    },
};

/// A page of the schedules.
///
/// # Errors
/// When the cursor is none, or the folder cannot be listed.
pub fn list_schedules(store: &Store, request: &PageRequest) -> Result<Page<ScheduleItem>, EngineError> {
    let from = Key::of_request(request, Listing::Schedules)?;
    let mut page = Page { items: Vec::new(), next_cursor: None, corrupt: Vec::new() };
    let mut places = Vec::new();
    let loaded = each(store, &mut page.corrupt, |schedule| {
        let key = Key::new(schedule.created_at, schedule.id.as_str(), 0);
        if from.as_ref().is_none_or(|from| key < *from) {
            places.push((key, schedule.id.clone()));
        }
    });
    loaded?;
    places.sort_unstable_by(|a, b| b.cmp(a));
    let limit = request.limit.max(1);
    if places.len() > limit {
        places.truncate(limit);
        page.next_cursor = places.last().map(|(key, _)| key.to_cursor(Listing::Schedules));
    }
    for (_, id) in places {
        match item_of(store, &id) {
            Ok(Some(item)) => page.items.push(item),
            Ok(None) => {}
            Err(error) => page.corrupt.push(Damage::of(store, format!("schedule {id}"), error)),
        }
    }
    Ok(page)
}

/// A schedule that was not removed.
///
/// # Errors
/// [`EngineError::NoSchedule`] with the nearest name; when it is corrupt or cannot be read.
pub fn load_schedule(store: &Store, text: &str) -> Result<Schedule, EngineError> {
    let disk = &**store.disk();
    if let Ok(id) = text.parse::<ScheduleId>()
        && let Some(schedule) = schedules::load(disk, &id).map_err(|error| error.below(store.root()))?
        && schedule.removed.is_none()
    {
        return Ok(schedule);
    }
    let mut known = Vec::new();
    for id in schedules::list(disk)? {
        known.push(id.to_string());
    }
    known.retain(|id| id != text);
    let nearest = nearest(text, &known).map(str::to_owned);
    Err(EngineError::NoSchedule { id: text.to_owned(), nearest })
}

/// When a tick next has something to do for any schedule.
///
/// # Errors
/// When the schedules cannot be listed; those that cannot be read are passed over.
pub fn next_due(store: &Store) -> Result<Option<DateTime<Utc>>, EngineError> {
    let mut earliest = None;
    if let Some(lines) = due::load(&**store.disk()) {
        for line in lines {
            let due = match line.look {
                Look::At { due, .. } => due,
                Look::Always => schedules::load(&**store.disk(), &line.id)
                    .unwrap_or_default()
                    .and_then(|schedule| next_due_of(&schedule, None)),
            };
            earliest = earlier(earliest, due);
        }
        return Ok(earliest);
    }
    each(store, &mut Vec::new(), |schedule| {
        // What cannot be read is for `fsck`; the definition alone still tells.
        let receipt = schedules::last_receipt(&**store.disk(), &schedule.id).unwrap_or_default();
        earliest = earlier(earliest, next_due_of(schedule, receipt));
    })?;
    Ok(earliest)
}

/// When a tick next has something to do for one schedule: when the first occurrence comes due that has no
/// receipt yet. It lies in the past where a tick is overdue. `last_receipt` is the last time in its history,
/// which a crash may have left ahead of the cursor.
pub fn next_due_of(schedule: &Schedule, last_receipt: Option<DateTime<Utc>>) -> Option<DateTime<Utc>> {
    if !schedule.is_active() {
        return None;
    }
    let cursor = last_receipt.map_or(schedule.cursor, |last| last.max(schedule.cursor));
    let trigger = &schedule.definition.trigger;
    let occurrence = trigger.next_after(cursor)?;
    Some(trigger.due_time(schedule.id.as_str(), occurrence))
}

pub(super) fn earlier(a: Option<DateTime<Utc>>, b: Option<DateTime<Utc>>) -> Option<DateTime<Utc>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    }
}

/// Does something with every schedule that was not removed; what cannot be read goes to `damage`.
pub(super) fn each(
    store: &Store,
    damage: &mut Vec<Damage>,
    mut work: impl FnMut(&Schedule),
) -> Result<(), StoreError> {
    let disk = &**store.disk();
    for id in schedules::list(disk)? {
        match schedules::load(disk, &id) {
            Ok(Some(schedule)) if schedule.removed.is_none() => work(&schedule),
            Ok(_) => {}
            Err(error) => damage.push(Damage::of(store, format!("schedule {id}"), error)),
        }
    }
    Ok(())
}

fn item_of(store: &Store, id: &ScheduleId) -> Result<Option<ScheduleItem>, StoreError> {
    let disk = &**store.disk();
    let Some(schedule) = schedules::load(disk, id)?.filter(|schedule| schedule.removed.is_none()) else {
        return Ok(None);
    };
    let receipt = schedules::last_receipt(disk, id)?;
    Ok(Some(ScheduleItem::of(&schedule, receipt)))
}

impl ScheduleItem {
    /// The view of a schedule whose history ends with a receipt for `last_receipt`.
    pub fn of(schedule: &Schedule, last_receipt: Option<DateTime<Utc>>) -> Self {
        let definition = &schedule.definition;
        let trigger = definition.trigger.definition();
        let policies = &definition.policies;
        let (catchup, catchup_limit) = match policies.catch_up {
            CatchUp::Latest => ("latest", None),
            CatchUp::All { limit } => ("all", Some(limit)),
            CatchUp::None => ("none", None),
        };
        Self {
            id: schedule.id.to_string(),
            workflow: WorkflowName::new(&definition.name, &definition.workflow),
            trigger: describe(&trigger.rule),
            tz: trigger.zone.name().to_owned(),
            start: trigger.start.map(Time),
            until: trigger.until.map(Time),
            count: trigger.count,
            jitter: format_duration(trigger.jitter),
            dst_gap: schedules::dst_gap_word(trigger.dst_gap),
            dst_fold: schedules::dst_fold_word(trigger.dst_fold),
            policies: PoliciesView {
                overlap: schedules::overlap_word(policies.overlap),
                catchup,
                catchup_limit,
                deadline: policies.deadline.map(format_duration),
            },
            paused: schedule.paused.is_some(),
            paused_at: schedule.paused.as_ref().map(|change| Time(change.at)),
            paused_by: schedule.paused.as_ref().map(|change| change.by.clone()),
            cursor: Time(schedule.cursor),
            next_due: next_due_of(schedule, last_receipt).map(Time),
            input: definition.input.clone(),
            cwd: definition.cwd.clone(),
            created_at: Time(schedule.created_at),
            updated_at: Time(schedule.updated_at),
        }
    }
}

/// A rule in the words of the options that make it.
fn describe(rule: &Rule) -> String {
    match rule {
        Rule::Cron(expr) => format!("cron {}", expr.as_str()),
        Rule::Every { period, .. } => format!("every {}", format_duration(*period)),
        Rule::At(at) => format!("at {}", time::format_seconds(*at)),
    }
}
