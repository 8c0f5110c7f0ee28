//! Every path name of a store, relative to it.

use std::path::{Path, PathBuf};

use chrono::NaiveDate;

use crate::domain::{
    event::Seq,
    ids::{Digest, RunId, ScheduleId, SlotIndex, StepId},
};

/// The settings.
pub const SETTINGS: &str = "wfctl.toml";
/// The store lock.
pub const LOCK: &str = "lock";
/// Exists while the store is draining.
pub const DRAINING: &str = "draining";
/// What the last tick came to; replaced as a whole, and worth no sync.
pub const LAST_TICK: &str = "last_tick.json";
/// When each schedule is to be looked at next, in stores with many of them; made again where it is missing.
pub const DUE: &str = "due.index";
/// The pinned workflows.
pub const WORKFLOWS: &str = "workflows";
/// The schedules.
pub const SCHEDULES: &str = "schedules";
/// The slots.
pub const SLOTS: &str = "slots";
/// The folder of both kinds of runs.
pub const RUNS: &str = "runs";
/// Unfinished runs.
pub const ACTIVE: &str = "runs/active";
/// Finished runs, by date.
pub const DONE: &str = "runs/done";
/// Where several runs are written before all of them are admitted at once.
pub const BATCHES: &str = "runs/batches";
/// The journal inside a run's folder.
pub const JOURNAL: &str = "journal.jsonl";
/// A request to cancel, inside a live run's folder.
pub const CANCEL_REQUEST: &str = "cancel.json";
/// What temporary files of atomic writes start with; they live in the store's own folder.
pub const TEMP_PREFIX: &str = ".tmp-";

const CONTEXT: &str = ".context.json";
const OUTPUT: &str = ".output.json";

/// The folders that a store consists of.
pub const FOLDERS: [&str; 6] = [WORKFLOWS, SCHEDULES, SLOTS, RUNS, ACTIVE, DONE];

/// A pinned workflow.
pub fn workflow(digest: &Digest) -> PathBuf {
    Path::new(WORKFLOWS).join(format!("{digest}.toml"))
}

/// The folder of a schedule.
pub fn schedule_dir(id: &ScheduleId) -> PathBuf {
    Path::new(SCHEDULES).join(id.as_str())
}

/// The definition of a schedule.
pub fn schedule(id: &ScheduleId) -> PathBuf {
    schedule_dir(id).join("schedule.json")
}

/// The receipts of a schedule's occurrences that never became runs.
pub fn schedule_history(id: &ScheduleId) -> PathBuf {
    schedule_dir(id).join("history.jsonl")
}

/// A slot.
pub fn slot(index: SlotIndex) -> PathBuf {
    Path::new(SLOTS).join(index.to_string())
}

/// The folder of an unfinished run.
pub fn active_run(run: &RunId) -> PathBuf {
    Path::new(ACTIVE).join(run.as_str())
}

/// The folder of the finished runs of one day.
pub fn done_day(date: NaiveDate) -> PathBuf {
    Path::new(DONE).join(date.format("%Y-%m-%d").to_string())
}

/// The journal in a run's folder.
pub fn journal(run_dir: &Path) -> PathBuf {
    run_dir.join(JOURNAL)
}

/// The output of one step execution, in a run's folder.
pub fn log(run_dir: &Path, seq: Seq, step: &StepId) -> PathBuf {
    run_dir.join(format!("{seq}-{step}.log"))
}

/// The log of the notification about the event with this number, in a run's folder.
pub fn notification_log(run_dir: &Path, event: u64) -> PathBuf {
    run_dir.join(format!("notify-{event}.log"))
}

/// The context file of one step execution, in a run's folder; exists while it runs.
pub fn context(run_dir: &Path, seq: Seq) -> PathBuf {
    run_dir.join(format!("{seq}{CONTEXT}"))
}

/// Where one step execution may write its output, in a run's folder; exists while it runs.
pub fn output(run_dir: &Path, seq: Seq) -> PathBuf {
    run_dir.join(format!("{seq}{OUTPUT}"))
}

/// Whether `name` is that of a file of a step execution in a run's folder.
pub fn is_step_file(name: &str) -> bool {
    behind_seq(name).is_some_and(|rest| {
        rest == CONTEXT
            || rest == OUTPUT
            || rest.strip_prefix('-').is_some_and(|step| step.strip_suffix(".log").is_some())
    })
}

/// Whether `name` is that of a context, which is of no use once its step has ended.
pub fn is_context(name: &str) -> bool {
    behind_seq(name) == Some(CONTEXT)
}

/// Whether `name` is that of the file where a step execution may write its output.
pub fn is_output(name: &str) -> bool {
    behind_seq(name) == Some(OUTPUT)
}

fn behind_seq(name: &str) -> Option<&str> {
    let digits = name.bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0 && !name.starts_with('0')).then(|| &name[digits..])
}
