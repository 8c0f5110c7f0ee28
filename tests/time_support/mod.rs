//! What the tests of time share: a store in a temporary folder, driven through the real program in a cleared
//! environment, and the same store driven through the library with a clock that the test sets.
//!
//! Nothing here waits for time to pass: due times are measured against `--now` or a given start.

#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use chrono::{DateTime, Utc};
use serde_json::Value;
use tempfile::TempDir;
use wfctl::{
    domain::{schedule::Unrun, time::parse_instant},
    engine::{
        Engine, EngineError, ProcessName,
        attempt::Unobserved,
        tick::{self, Dispatch, Options, Report},
    },
    process::Signals,
    store::{Store, schedules},
};

/// A workflow of one step that does nothing.
pub const TRUE: &str = "name = \"job\"\n[[step]]\nid = \"go\"\nrun = \"true\"\n";

/// A workflow of one gate, which needs no process.
pub const GATE: &str = "name = \"job\"\n[[step]]\nid = \"ask\"\ninterrupt = \"Go on?\"\n";

/// A workflow whose step appends its occurrence to the file `ran` beside the workflow.
pub const NOTE: &str = "name = \"job\"\n[[step]]\nid = \"go\"\nrun = \"echo $WFCTL_RUN >> ran\"\n";

pub fn at(text: &str) -> DateTime<Utc> {
    parse_instant(text).unwrap_or_else(|| panic!("{text} is no time"))
}

/// What the program said.
#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Said {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    #[track_caller]
    pub fn says(self, part: &str) -> Self {
        assert!(self.out.contains(part) || self.err.contains(part), "{part:?} is not in {self:?}");
        self
    }
}

/// A store below a temporary folder.
pub struct Bench {
    dir: TempDir,
}

impl Bench {
    /// With two slots.
    pub fn new() -> Self {
        Self::with_capacity(2)
    }

    pub fn with_capacity(capacity: u32) -> Self {
        let bench = Self { dir: tempfile::tempdir().unwrap() };
        assert!(Store::create(&bench.store(), Some(capacity)).unwrap());
        bench
    }

    pub fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file beside the store and gives its path.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// The program, ready to be started. The zone of the host is one that no test asks for.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wfctl"));
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.dir.path())
            .env("TZ", "Asia/Tokyo")
            .arg("--store")
            .arg(self.store())
            .args(args)
            .current_dir(self.dir.path())
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, args: &[&str]) -> Said {
        Said::of(self.command(args).output().unwrap())
    }

    /// Runs with `--json`, expects success and gives the document.
    #[track_caller]
    pub fn json(&self, args: &[&str]) -> Value {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        self.run(&args).exits(0).json()
    }

    /// Starts the program and does not wait for it.
    pub fn start(&self, args: &[&str]) -> Child {
        self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Starts so many at once and gives what all of them said.
    pub fn at_once(&self, commands: &[Vec<&str>]) -> Vec<Said> {
        let children: Vec<Child> = commands.iter().map(|args| self.start(args)).collect();
        children.into_iter().map(|child| Said::of(child.wait_with_output().unwrap())).collect()
    }

    /// Schedules `text` as `id` and expects success.
    #[track_caller]
    pub fn schedule(&self, id: &str, text: &str, args: &[&str]) -> Said {
        let file = self.file(&format!("{id}.toml"), text);
        let args: Vec<&str> =
            ["schedule", &file, "--id", id].into_iter().chain(args.iter().copied()).collect();
        self.run(&args).exits(0)
    }

    /// The report of a tick at `now`, which is expected to succeed.
    #[track_caller]
    pub fn tick(&self, now: &str, more: &[&str]) -> Value {
        let args: Vec<&str> = ["tick", "--now", now].into_iter().chain(more.iter().copied()).collect();
        self.json(&args)
    }

    /// Ticks until something is admitted, and gives the report of that tick.
    #[track_caller]
    pub fn tick_until_admitted(&self) -> Value {
        let limit = Instant::now() + Duration::from_secs(60);
        loop {
            let report = self.json(&["tick"]);
            if report["admitted"] != serde_json::json!([]) {
                return report;
            }
            assert!(Instant::now() < limit, "nothing becomes due: {report}");
        }
    }

    /// The lines of a file beside the store; none where it does not exist.
    pub fn lines(&self, name: &str) -> Vec<String> {
        lines(&self.path(name))
    }

    /// Expects that `fsck` finds nothing at all.
    #[track_caller]
    pub fn is_sound(&self) {
        let said = self.run(&["fsck", "--json"]).exits(0);
        assert_eq!(said.json()["items"], serde_json::json!([]), "{said:?}");
    }

    /// Expects that `fsck` finds no error, whatever it warns of: most stores here are ahead of the host's clock.
    #[track_caller]
    pub fn has_no_errors(&self) {
        self.run(&["fsck"]).exits(0).says("0 errors");
    }

    /// The receipts of a schedule, oldest first, in short.
    pub fn receipts(&self, id: &str) -> Vec<String> {
        let store = Store::open(&self.store(), "test").unwrap();
        let receipts = schedules::load_history(&**store.disk(), &id.parse().unwrap()).unwrap();
        receipts.iter().map(in_short).collect()
    }

    /// Every path below the store with its content, save the lock's, which names its last holder.
    pub fn snapshot(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        collect(&self.store(), &mut files);
        // Notes about commands, not about anything that they decided.
        for note in ["lock", "last_tick.json"] {
            files.remove(&self.store().join(note));
        }
        files
    }

    /// Expects that nothing below the store is other than it was.
    #[track_caller]
    pub fn is_as(&self, before: &BTreeMap<PathBuf, Vec<u8>>) {
        let after = self.snapshot();
        let paths: BTreeSet<_> = before.keys().chain(after.keys()).collect();
        let changed: Vec<_> =
            paths.into_iter().filter(|path| before.get(*path) != after.get(*path)).collect();
        assert!(changed.is_empty(), "{changed:?}");
    }
}

/// A receipt as `first..last xN reason` or `first..last xN by RUN`.
pub fn in_short(receipt: &Unrun) -> String {
    use wfctl::domain::schedule::WhyUnrun;
    let times = &receipt.times;
    let why = match &receipt.why {
        WhyUnrun::Skipped { by } => format!("skipped by {by}"),
        WhyUnrun::Missed(reason) => reason.as_str().to_owned(),
    };
    let text = |at: DateTime<Utc>| at.format("%Y-%m-%dT%H:%M:%SZ").to_string();
    if times.count == 1 {
        format!("{} {why}", text(times.first))
    } else {
        format!("{}..{} x{} {why}", text(times.first), text(times.last), times.count)
    }
}

pub fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn collect(path: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.insert(path.clone(), Vec::new());
            collect(&path, files);
        } else {
            files.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
}

/// The strings in an array of objects, by one of their fields.
pub fn column<'a>(items: &'a Value, field: &str) -> Vec<&'a str> {
    items.as_array().unwrap().iter().map(|item| item[field].as_str().unwrap_or("null")).collect()
}

/// The library on a bench's store, at a time that the test sets.
pub struct Clocked {
    store: Store,
    signals: Signals,
    now: Arc<Mutex<DateTime<Utc>>>,
}

impl Clocked {
    pub fn new(bench: &Bench, now: DateTime<Utc>) -> Self {
        Self {
            store: Store::open(&bench.store(), "test").unwrap(),
            signals: Signals::detached().unwrap(),
            now: Arc::new(Mutex::new(now)),
        }
    }

    pub fn set(&self, now: DateTime<Utc>) {
        *self.now.lock().unwrap() = now;
    }

    pub fn now(&self) -> DateTime<Utc> {
        *self.now.lock().unwrap()
    }

    pub fn with<T>(&self, work: impl FnOnce(&Engine<'_>) -> T) -> T {
        let now = Arc::clone(&self.now);
        let clock = move || *now.lock().unwrap();
        let engine = Engine {
            store: &self.store,
            clock: &clock,
            signals: &self.signals,
            process: ProcessName { pid: std::process::id(), start: None, host: "test".to_owned() },
            env: BTreeMap::new(),
            lock_timeout: Duration::from_secs(10),
        };
        work(&engine)
    }

    pub fn tick(&self, dispatch: Dispatch) -> Result<Report, EngineError> {
        let options = Options { dispatch, ..Options::default() };
        self.with(|engine| tick::tick(engine, &options, &Unobserved))
    }
}
