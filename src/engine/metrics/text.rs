//! The text format: families with HELP and TYPE, samples with labels.

use std::fmt::{Display, Write as _};

use chrono::{DateTime, Utc};

use super::Measured;

/// One document under construction.
#[derive(Default)]
struct Document(String);

impl Document {
    /// Begins a family of gauges.
    fn family(&mut self, name: &str, help: &str) {
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} gauge\n");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (index, (label, value)) in labels.iter().enumerate() {
            let open = if index == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{open}{label}=\"{}\"", escape(value));
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }

    /// A family with one sample.
    fn single(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, help);
        self.sample(name, &[], value);
    }
}

/// Label values may hold anything but these as they are.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn seconds(at: DateTime<Utc>) -> String {
    let millis = at.timestamp_millis();
    format!("{}.{:03}", millis.div_euclid(1000), millis.rem_euclid(1000))
}

pub(super) fn render(measured: &Measured) -> String {
    let mut document = Document::default();
    slots(&mut document, measured);
    waiting(&mut document, measured);
    runs(&mut document, measured);
    ticks(&mut document, measured);
    document.0
}

fn slots(document: &mut Document, measured: &Measured) {
    let status = &measured.status;
    document.single("wfctl_capacity", "How many runs may execute at once.", status.capacity.total);
    document.family("wfctl_slots", "Slots by state.");
    for state in ["free", "live", "abandoned"] {
        let count = status.slots.iter().filter(|slot| slot.state == state).count();
        document.sample("wfctl_slots", &[("state", state)], count);
    }
    let draining = u8::from(status.draining);
    document.single("wfctl_draining", "Whether nothing is admitted, dispatched or resumed.", draining);
}

fn waiting(document: &mut Document, measured: &Measured) {
    let status = &measured.status;
    document.single("wfctl_queued_runs", "Runs that wait for a slot.", status.queued);
    document.single("wfctl_open_gates", "Runs that wait for an answer.", status.interrupted.len());
    let blocked = status.interrupted.iter().filter(|gate| gate.resume_readiness == "blocked").count();
    document.single("wfctl_blocked_gates", "Runs that wait for an answer and could not go on.", blocked);
    if let Some(oldest) = status.interrupted.iter().map(|gate| gate.since).min() {
        let age = (measured.now - oldest.0).num_seconds().max(0);
        document.single("wfctl_oldest_gate_age_seconds", "How long the oldest gate has been open.", age);
    }
    document.single(
        "wfctl_ambiguous_runs",
        "Runs whose outcome is unknown until a person settles it.",
        status.ambiguous.len(),
    );
    document.single("wfctl_abandoned_runs", "Runs that need recovery.", status.abandoned.len());
    document.single(
        "wfctl_unreadable_records",
        "Runs and schedules whose record could not be read.",
        measured.unreadable,
    );
}

fn runs(document: &mut Document, measured: &Measured) {
    let name = "wfctl_runs";
    document.family(
        name,
        "Runs by schedule and status: all unfinished ones, and finished ones of today and yesterday (UTC).",
    );
    for ((schedule, status), count) in &measured.runs {
        document.sample(name, &[("schedule", schedule), ("status", status)], count);
    }
    let name = "wfctl_last_run_timestamp_seconds";
    document.family(name, "When a run of the schedule last came to the status, within the same window.");
    for ((schedule, status), at) in &measured.last {
        document.sample(name, &[("schedule", schedule), ("status", status)], seconds(*at));
    }
    document.single(
        "wfctl_runs_window_complete",
        "Whether all finished runs of the window were counted, and not only the newest.",
        u8::from(measured.is_complete),
    );
    let name = "wfctl_unrun_occurrences";
    document.family(name, "Occurrences of today and yesterday (UTC) that never became runs.");
    for ((schedule, kind, reason), count) in &measured.unrun {
        document.sample(name, &[("schedule", schedule), ("kind", kind), ("reason", reason)], count);
    }
}

fn ticks(document: &mut Document, measured: &Measured) {
    let status = &measured.status;
    document.family("wfctl_schedules", "Schedules by whether they are paused.");
    let active = status.schedules.total - status.schedules.paused;
    document.sample("wfctl_schedules", &[("state", "active")], active);
    document.sample("wfctl_schedules", &[("state", "paused")], status.schedules.paused);
    if let Some(due) = status.next_due {
        let left = (due.0 - measured.now).num_seconds();
        document.single(
            "wfctl_next_due_seconds",
            "Seconds until a tick has something to do; negative where it is late.",
            left,
        );
        document.single(
            "wfctl_next_due_timestamp_seconds",
            "When a tick next has something to do.",
            seconds(due.0),
        );
    }
    if let Some(tick) = &measured.last_tick {
        document.single("wfctl_last_tick_timestamp_seconds", "When the last tick began.", seconds(tick.at));
        let took = format!("{}.{:03}", tick.ms / 1000, tick.ms % 1000);
        document.single("wfctl_last_tick_duration_seconds", "How long the last tick took.", took);
        document.single("wfctl_last_tick_exit_status", "The exit status of the last tick.", tick.exit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut document = Document::default();
        document.sample("a", &[("b", "x\"y\\z\n"), ("c", "")], 1);
        assert_eq!(document.0, "a{b=\"x\\\"y\\\\z\\n\",c=\"\"} 1\n");
    }
}
