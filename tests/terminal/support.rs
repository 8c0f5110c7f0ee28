//! A store whose times are long past, so that what is shown of it does not change while a test runs, and the
//! program called upon it.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::Duration,
};

use chrono::{DateTime, Utc};
use serde_json::Value;
use wfctl::{
    domain::{
        event::{
            Admitted, AttemptKind, AttemptStarted, Event, Interrupted, Reason, StepEnding, StepFinished,
        },
        ids::{Digest, RunId, SlotIndex},
        time::parse_instant,
        workflow::Outcome,
    },
    store::{
        Store,
        lock::{Patience, StoreLock},
        runs::{self, Creation, OpenRun},
        slots::{self, Holder, SlotGuard},
        snapshots,
    },
};

const WORKFLOW: &str = r#"
name = "nightly-report"
[[step]]
id = "extract"
run = "true"
[[step]]
id = "approve"
interrupt = "Publish the report?"
outcomes = ["approved", "rejected"]
next = { rejected = "end" }
[[step]]
id = "publish"
run = "true"
"#;

fn at(text: &str) -> DateTime<Utc> {
    parse_instant(text).unwrap()
}

/// A store, and a folder beside it.
pub(crate) struct TestStore {
    folder: tempfile::TempDir,
}

impl TestStore {
    pub(crate) fn new() -> Self {
        let test = Self { folder: tempfile::tempdir().unwrap() };
        Store::create(&test.root(), Some(2)).unwrap();
        test
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A workflow file beside the store.
    pub(crate) fn workflow(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// The program upon this store, without a terminal.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wfctl"));
        let path = env::var_os("PATH").unwrap_or_default();
        command.args(args).env_clear().env("PATH", path).env("TERM", "xterm").env("WFCTL_STORE", self.root());
        command.env("HOME", self.folder()).stdin(Stdio::null()).current_dir(self.folder());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// The output of a call that must succeed.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn store(&self) -> Store {
        Store::open(&self.root(), "test").unwrap()
    }

    /// One run of each kind that a person has to know of; the slot of the live one is held by the result.
    pub(crate) fn populate(&self) -> SlotGuard {
        let store = self.store();
        let lock = lock(&store);
        let workflow = snapshots::pin(&lock, &**store.disk(), WORKFLOW.as_bytes()).unwrap();
        let run = |id: &str| admit(&store, &lock, &workflow, id);
        let _queued = run("nightly-report@20200104T040000Z");
        interrupt(begin(run("nightly-report@20200101T040000Z"), 0));
        let ambiguous = step(begin(run("nightly-report@20200102T040000Z"), 0));
        let event = Event::Failed {
            attempt: 1,
            reason: Reason::Ambiguous,
            error: "step extract (execution 1) was started and nobody can know what it did".to_owned(),
            by: Some("recovery".to_owned()),
        };
        let _ = ambiguous.append(&event, at("2020-01-02T04:10:00Z")).unwrap();
        let id = "nightly-report@20200103T040000Z";
        let holder = Holder {
            run: id.parse().unwrap(),
            attempt: 1,
            pid: std::process::id(),
            pid_start: None,
            host: "host".to_owned(),
            at: at("2020-01-03T04:00:01Z"),
        };
        let slot = slots::claim(&lock, store.disk(), 2, &holder).unwrap().unwrap();
        let _ = step(begin(run(id), slot.index().0));
        slot
    }
}

fn lock(store: &Store) -> StoreLock<'_> {
    store.lock(Patience { timeout: Duration::from_secs(5), abort: None }).unwrap()
}

fn admit(store: &Store, lock: &StoreLock<'_>, workflow: &Digest, id: &str) -> OpenRun {
    let run: RunId = id.parse().unwrap();
    let occurrence = run.stamp().unwrap();
    let admitted = Admitted {
        run,
        schedule: Some("nightly-report".parse().unwrap()),
        occurrence,
        manual: false,
        name: "nightly-report".to_owned(),
        workflow: workflow.clone(),
        input: Value::Null,
        env: BTreeMap::from([("PATH".to_owned(), "/bin:/usr/bin".to_owned())]),
        cwd: "/".to_owned(),
    };
    match runs::create(lock, store.disk(), admitted, occurrence).unwrap() {
        Creation::Created(open) => open.commit().unwrap(),
        Creation::Exists => panic!("{id} exists"),
    }
}

fn begin(run: OpenRun, slot: u32) -> OpenRun {
    let now = run.state().created_at;
    let started = AttemptStarted {
        attempt: 1,
        kind: AttemptKind::Dispatch,
        slot: Some(SlotIndex(slot)),
        pid: 1,
        host: "host".to_owned(),
        by: None,
        outcome: None,
        payload: None,
        note: None,
    };
    run.append(&Event::AttemptStarted(Box::new(started)), now).unwrap()
}

fn step(run: OpenRun) -> OpenRun {
    let now = run.state().created_at;
    let key = format!("{}/1", run.id());
    let event = Event::StepStarted { attempt: 1, seq: 1, step: "extract".parse().unwrap(), try_no: 1, key };
    run.append(&event, now).unwrap()
}

fn interrupt(run: OpenRun) {
    let run = step(run);
    let now = run.state().created_at;
    let finished = StepFinished {
        attempt: 1,
        seq: 1,
        step: "extract".parse().unwrap(),
        outcome: Outcome::OK,
        ending: StepEnding { exit: Some(0), ..StepEnding::default() },
        output: None,
        ms: 12,
    };
    let asked = Interrupted {
        attempt: 1,
        step: "approve".parse().unwrap(),
        question: "Publish the report that the whole department waits for?\u{1b}[2J".to_owned(),
        outcomes: vec!["approved".parse().unwrap(), "rejected".parse().unwrap()],
        schema: None,
        expires_at: None,
    };
    let run = run.append(&Event::StepFinished(Box::new(finished)), now).unwrap();
    let _ = run.append(&Event::Interrupted(Box::new(asked)), now).unwrap();
}

/// What differs from one call to the next, made the same, at the same width where that can be told.
pub(crate) fn normalised(text: &str, test: &TestStore) -> String {
    let root = test.root().display().to_string();
    let mut normal = String::new();
    for line in text.replace(&root, "STORE").lines() {
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        for index in 1..words.len() {
            let is_years = words[index].starts_with("year");
            let number = words[index - 1].trim_start_matches('(').to_owned();
            if is_years && number.bytes().all(|b| b.is_ascii_digit()) && !number.is_empty() {
                words[index - 1] = words[index - 1].replace(&number, &"N".repeat(number.len()));
            }
        }
        // How long a run of the past has been at work.
        let words = words.iter().map(|word| {
            let is_elapsed = word.len() > 4
                && word.ends_with('m')
                && word.contains('h')
                && word.bytes().all(|b| b.is_ascii_digit() || b == b'h' || b == b'm');
            if is_elapsed { "H".repeat(word.len()) } else { word.clone() }
        });
        normal.push_str(words.collect::<Vec<_>>().join(" ").trim_end());
        normal.push('\n');
    }
    normal
}

/// Compares with the committed snapshot; writes it where `WFCTL_SNAPSHOTS=update`.
pub(crate) fn assert_snapshot(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(format!("{name}.txt"));
    let shown = text.replace('\u{1b}', "\\e");
    if env::var_os("WFCTL_SNAPSHOTS").is_some_and(|value| value == "update") {
        fs::write(&path, shown).unwrap();
        return;
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        shown, committed,
        "{name}; if it should be so: WFCTL_SNAPSHOTS=update cargo test --test terminal"
    );
}
