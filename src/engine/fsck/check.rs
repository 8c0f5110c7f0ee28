//! Findings, and what all checks share: the store, the time, and what was learnt on the way.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    path::{Path, PathBuf},
};

use chrono::{DateTime, Utc};
use serde::{Serialize, Serializer};

use crate::{
    domain::{
        ids::{Digest, ScheduleId},
        workflow::Workflow,
    },
    engine::query::Reader,
    store::{
        Store,
        disk::{Disk, Entry, Kind},
        snapshots,
    },
};

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Where, below the store.
    #[serde(serialize_with = "as_text")]
    pub path: PathBuf,
    /// What is wrong.
    pub what: String,
    /// What helps.
    pub hint: String,
    /// How bad it is.
    pub severity: Severity,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The record is damaged or contradicts itself.
    Error,
    /// A crash or a person left something; nothing is lost.
    Warning,
}

/// What was looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// How many errors were found.
    pub errors: u64,
    /// How many warnings.
    pub warnings: u64,
    /// How many runs were read.
    pub runs: u64,
    /// How many schedules.
    pub schedules: u64,
}

fn as_text<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

/// A check in progress.
pub(super) struct Check<'a> {
    pub(super) store: &'a Store,
    pub(super) now: DateTime<Utc>,
    pub(super) reader: Reader<'a>,
    pub(super) summary: Summary,
    /// What the schedules say, for the checks of their runs.
    pub(super) schedules: HashMap<ScheduleId, KnownSchedule>,
    /// The pinned workflows that were looked at, and what is wrong with them.
    workflows: HashMap<Digest, Option<String>>,
    report: &'a mut dyn FnMut(Finding),
    pub(super) progress: &'a dyn Fn(u64),
}

/// What the check of a run needs of its schedule.
#[derive(Debug, Clone)]
pub(super) struct KnownSchedule {
    /// None where the definition cannot be read.
    pub(super) cursor: Option<DateTime<Utc>>,
    pub(super) has_history: bool,
}

impl fmt::Debug for Check<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check").field("summary", &self.summary).finish_non_exhaustive()
    }
}

impl<'a> Check<'a> {
    pub(super) fn new(
        store: &'a Store,
        now: DateTime<Utc>,
        report: &'a mut dyn FnMut(Finding),
        progress: &'a dyn Fn(u64),
    ) -> Self {
        Self {
            store,
            now,
            reader: Reader::new(store, now),
            summary: Summary::default(),
            schedules: HashMap::new(),
            workflows: HashMap::new(),
            report,
            progress,
        }
    }

    pub(super) fn disk(&self) -> &'a dyn Disk {
        &**self.store.disk()
    }

    pub(super) fn error(&mut self, path: &Path, what: impl Into<String>, hint: impl Into<String>) {
        self.summary.errors += 1;
        self.find(path, what.into(), hint.into(), Severity::Error);
    }

    pub(super) fn warning(&mut self, path: &Path, what: impl Into<String>, hint: impl Into<String>) {
        self.summary.warnings += 1;
        self.find(path, what.into(), hint.into(), Severity::Warning);
    }

    fn find(&mut self, path: &Path, what: String, hint: String, severity: Severity) {
        (self.report)(Finding { path: path.to_owned(), what, hint, severity });
    }

    /// The entries of a folder, sorted; one that cannot be listed is an error and has none.
    pub(super) fn entries(&mut self, path: &Path) -> Vec<Entry> {
        match self.disk().list(path) {
            Ok(mut entries) => {
                entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
                entries
            }
            Err(error) => {
                if self.is_there(path) {
                    let what = format!("the folder cannot be listed: {error}");
                    self.error(path, what, "check its permissions");
                }
                Vec::new()
            }
        }
    }

    /// Whether there is anything at `path`; things move while a store is checked.
    pub(super) fn is_there(&self, path: &Path) -> bool {
        !matches!(self.disk().kind(path), Ok(None))
    }

    /// Checks that an entry is what it should be, and private. False where it is something else.
    pub(super) fn expect(&mut self, path: &Path, found: Kind, expected: Kind) -> bool {
        if found != expected {
            let should = if expected == Kind::Folder { "a folder" } else { "a regular file" };
            let what = match found {
                Kind::File => format!("it is a file and should be {should}"),
                Kind::Folder => format!("it is a folder and should be {should}"),
                Kind::Other => format!("it is a link or a special file and should be {should}"),
            };
            self.error(path, what, "move it out of the store");
            return false;
        }
        self.check_mode(path);
        true
    }

    /// Warns of what other users could read or change.
    pub(super) fn check_mode(&mut self, path: &Path) {
        let Ok(mode) = self.disk().mode(path) else { return };
        if mode & 0o077 != 0 {
            let what = format!("other users have access to it (mode {mode:04o})");
            self.warning(path, what, "chmod go= it");
        }
    }

    /// Warns of an entry that does not belong where it is.
    pub(super) fn unknown(&mut self, path: &Path) {
        self.warning(path, "it is nothing that belongs here", "move it out of the store");
    }

    /// What is wrong with a pinned workflow.
    pub(super) fn workflow_fault(&mut self, digest: &Digest) -> Option<String> {
        if let Some(known) = self.workflows.get(digest) {
            return known.clone();
        }
        let fault = match snapshots::load(self.disk(), digest) {
            Err(error) => Some(error.to_string()),
            Ok(text) => Workflow::parse(&text).err().map(|errors| {
                let why = errors.first().map_or("", |error| error.message.as_str());
                format!("the pinned workflow {digest} is not valid: {why}")
            }),
        };
        self.workflows.insert(digest.clone(), fault.clone());
        fault
    }
}

/// Gives out each value that comes a second time.
pub(super) fn repeated<T: std::hash::Hash + Eq + Clone>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut seen = HashSet::new();
    values.into_iter().filter(|value| !seen.insert(value.clone())).collect()
}
