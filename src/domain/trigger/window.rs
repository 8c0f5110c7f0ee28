//! What came due between a cursor and now.
//!
//! The cursor of a schedule is an instant; everything nominal at or before it has its receipt. An
//! occurrence is due once its due time (nominal + jitter) has come. A delay longer than the period
//! can make a later occurrence due before an earlier one, yet receipts go in nominal order: a window
//! ends just before its first occurrence that is not yet due, and what is behind that one waits, at
//! most for the jitter. So the cursor never passes an occurrence without a receipt, and never goes
//! back. Deliberately not here: what is admitted ([`policy`](crate::domain::policy)).

use std::time::Duration;

use chrono::{DateTime, Utc};
use sha2::{Digest as _, Sha256};

use super::{Trigger, instant};

/// What came due after a cursor, asked piece by piece, so that years of missed seconds cost no more
/// than one. All times are nominal; made by [`Trigger::window`].
#[derive(Debug, Clone)]
pub struct Window<'a> {
    trigger: &'a Trigger,
    /// Nothing at or before this second is in the window.
    cursor: i64,
    /// Nothing after this second is in the window.
    through: i64,
    now: DateTime<Utc>,
}

impl<'a> Window<'a> {
    pub(super) fn new(
        trigger: &'a Trigger,
        schedule: &str,
        cursor: DateTime<Utc>,
        now: DateTime<Utc>,
    ) -> Self {
        let jitter = trigger.definition.jitter;
        let (cursor, through) = (cursor.timestamp(), now.timestamp());
        // Only what is younger than the jitter can still be pending. The chance that k in a row are
        // all due falls with the square of k, so the first pending one is found after few.
        let pending_from = through.saturating_sub_unsigned(jitter.as_secs().max(1) - 1);
        let mut pending = pending_from.max(cursor.saturating_add(1));
        let through = loop {
            match trigger.next_in(pending, through) {
                Some(nominal) if nominal + delay(schedule, nominal, jitter) > through => break nominal - 1,
                Some(nominal) => pending = nominal + 1,
                None => break through,
            }
        };
        Self { trigger, cursor, through: through.max(cursor), now }
    }

    /// Without regard to delays.
    pub(super) fn nominal(trigger: &'a Trigger, cursor: DateTime<Utc>, now: DateTime<Utc>) -> Self {
        let cursor = cursor.timestamp();
        Self { trigger, cursor, through: now.timestamp().max(cursor), now }
    }

    /// The cursor before the window.
    pub fn cursor(&self) -> DateTime<Utc> {
        instant(self.cursor)
    }

    /// The cursor once everything in the window has its receipt. It is never before [`Self::cursor`].
    pub fn through(&self) -> DateTime<Utc> {
        instant(self.through)
    }

    /// The instant that due times were measured against.
    pub fn now(&self) -> DateTime<Utc> {
        self.now
    }

    /// The longest delay of an occurrence.
    pub fn jitter(&self) -> Duration {
        self.trigger.definition.jitter
    }

    /// Whether no occurrence came due and none was skipped.
    pub fn is_empty(&self) -> bool {
        self.first_in(self.cursor(), self.through()).is_none() && self.skipped_by_gap().is_empty()
    }

    /// How many occurrences came due.
    pub fn count(&self) -> u64 {
        self.count_in(self.cursor(), self.through())
    }

    /// The occurrences strictly after `after`, up to and with `through`.
    pub fn count_in(&self, after: DateTime<Utc>, through: DateTime<Utc>) -> u64 {
        let (from, until) = self.clip(after, through);
        self.trigger.count_in(from, until)
    }

    /// The first occurrence strictly after `after`, if it is not after `through`.
    pub fn first_in(&self, after: DateTime<Utc>, through: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let (from, until) = self.clip(after, through);
        self.trigger.next_in(from, until).map(instant)
    }

    /// The last occurrence at or before `through`, if it is strictly after `after`.
    pub fn last_in(&self, after: DateTime<Utc>, through: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let (from, until) = self.clip(after, through);
        self.trigger.prev_in(from, until).map(instant)
    }

    /// The newest `limit` occurrences strictly after `after`, oldest of them first.
    pub fn newest(&self, limit: u64, after: DateTime<Utc>) -> Vec<DateTime<Utc>> {
        let (from, mut until) = self.clip(after, self.through());
        let mut newest = Vec::new();
        for _ in 0..limit {
            let Some(nominal) = self.trigger.prev_in(from, until) else { break };
            newest.push(instant(nominal));
            until = nominal - 1;
        }
        newest.reverse();
        newest
    }

    /// The nominal times that fell into a gap and were skipped ([`DstGap::Skip`](super::DstGap)),
    /// each given as the first instant after its gap; several in one gap are one. None of them is
    /// also an occurrence. At most a few a year, so a list holds them.
    pub fn skipped_by_gap(&self) -> Vec<DateTime<Utc>> {
        let skipped = self.trigger.skipped_in(self.cursor.saturating_add(1), self.through);
        skipped.into_iter().map(instant).collect()
    }

    fn clip(&self, after: DateTime<Utc>, through: DateTime<Utc>) -> (i64, i64) {
        let from = after.timestamp().max(self.cursor).saturating_add(1);
        (from, through.timestamp().min(self.through))
    }
}

/// The delay of an occurrence in seconds, from 0 to `jitter`: the first eight bytes of the SHA-256 of
/// `<schedule>@<seconds since the epoch>`, as a big-endian number modulo `jitter` + 1. Stored
/// schedules rely on it, so it must never change.
pub(super) fn delay(schedule: &str, nominal: i64, jitter: Duration) -> i64 {
    if jitter.as_secs() == 0 {
        return 0;
    }
    let hash = Sha256::digest(format!("{schedule}@{nominal}"));
    let number = hash.iter().take(8).fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    let seconds = number % jitter.as_secs().saturating_add(1).max(1);
    i64::try_from(seconds).unwrap_or(i64::MAX).min(super::LAST_SECOND)
}
