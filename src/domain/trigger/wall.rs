//! A cron expression on the wall clock of a zone: local matches become instants.
//!
//! The time line is cut into spans of constant offset. Inside a span every local match is one
//! instant; at its edges the policies for gaps and folds decide. Next, previous and count all read
//! the same spans, so they cannot disagree. Instants are seconds since the epoch.
//! Deliberately not here: start, until and count (`mod.rs`), and the zone data (`zone.rs`).

use super::cron::CronExpr;
use super::zone::{Span, Zone};

/// What becomes of a fixed local time that a zone skips.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DstGap {
    /// Once, at the first instant after the gap; several times in one gap make one occurrence.
    #[default]
    Next,
    /// Not at all; the gap is reported by [`Window::skipped_by_gap`](super::Window::skipped_by_gap).
    Skip,
}

/// What becomes of a fixed local time that a zone has twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DstFold {
    /// The first of the two instants.
    #[default]
    First,
    /// The last of the two instants.
    Last,
    /// Both instants.
    Both,
}

/// An expression, where it is read, and how it treats gaps and folds.
#[derive(Clone, Copy)]
pub(super) struct Wall<'a> {
    pub(super) cron: &'a CronExpr,
    pub(super) zone: &'a Zone,
    pub(super) gap: DstGap,
    pub(super) fold: DstFold,
}

impl Wall<'_> {
    /// The first occurrence in `from..=until`.
    pub(super) fn next(&self, from: i64, until: i64) -> Option<i64> {
        for index in self.zone.index_of(from)..self.zone.len() {
            let span = self.zone.span(index);
            if span.start > until {
                break;
            }
            if span.start >= from && self.fires_after_gap(span) {
                return Some(span.start);
            }
            let (head, tail) = self.counted(span);
            let (first, end) = (head.max(from), tail.min(until + 1));
            if let Some(local) = self.cron.next_local(first + span.offset, end + span.offset) {
                return Some(local - span.offset);
            }
        }
        None
    }

    /// The last occurrence in `from..=until`.
    pub(super) fn prev(&self, from: i64, until: i64) -> Option<i64> {
        for index in (0..=self.zone.index_of(until)).rev() {
            let span = self.zone.span(index);
            if span.end <= from {
                break;
            }
            let (head, tail) = self.counted(span);
            let (first, last) = (head.max(from), (tail - 1).min(until));
            if let Some(local) = self.cron.prev_local(last + span.offset, first + span.offset) {
                return Some(local - span.offset);
            }
            if span.start >= from && self.fires_after_gap(span) {
                return Some(span.start);
            }
        }
        None
    }

    /// How many occurrences there are in `from..=until`.
    pub(super) fn count(&self, from: i64, until: i64) -> u64 {
        let mut count = 0;
        for index in self.zone.index_of(from)..self.zone.len() {
            let span = self.zone.span(index);
            if span.start > until {
                break;
            }
            let (head, tail) = self.counted(span);
            let (first, end) = (head.max(from), tail.min(until + 1));
            count += self.cron.count_local(first + span.offset, end + span.offset);
            count += u64::from(span.start >= from && self.fires_after_gap(span));
        }
        count
    }

    /// The ends of those gaps in `from..=until` that swallowed an occurrence, rising.
    pub(super) fn skipped(&self, from: i64, until: i64) -> Vec<i64> {
        if self.gap != DstGap::Skip || from > until {
            return Vec::new();
        }
        (self.zone.index_of(from)..=self.zone.index_of(until))
            .map(|index| self.zone.span(index))
            .filter(|span| span.start >= from && self.swallowed_by_gap(*span))
            .map(|span| span.start)
            .collect()
    }

    /// The instants of a span whose local matches count, as `head..tail`: of a local time that
    /// exists twice, the policy may rule out the pass at the head or at the tail.
    fn counted(&self, span: Span) -> (i64, i64) {
        let repeated_head = (span.offset_before - span.offset).max(0);
        let repeated_tail = (span.offset - span.offset_after).max(0);
        match self.fold {
            _ if !self.cron.is_fixed() => (span.start, span.end),
            DstFold::Both => (span.start, span.end),
            DstFold::First => (span.start + repeated_head, span.end),
            DstFold::Last => (span.start, span.end - repeated_tail),
        }
    }

    fn fires_after_gap(&self, span: Span) -> bool {
        self.gap == DstGap::Next && self.swallowed_by_gap(span)
    }

    /// Whether the gap before this span holds a local match, and its first instant is not an
    /// occurrence by itself.
    fn swallowed_by_gap(&self, span: Span) -> bool {
        let (gap, after) = (span.start + span.offset_before, span.start + span.offset);
        self.cron.is_fixed()
            && self.cron.next_local(gap, after).is_some()
            && self.cron.next_local(after, after + 1).is_none()
    }
}
