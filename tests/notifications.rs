//! Notifications tell of what is durable, and change nothing.

#![allow(clippy::unwrap_used)] // the rule exempts test functions, but not what they share

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

struct TestStore {
    folder: tempfile::TempDir,
}

impl TestStore {
    fn new() -> Self {
        let test = Self { folder: tempfile::tempdir().unwrap() };
        test.call(&["init", "--capacity", "1"]);
        test
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wfctl"));
        command.args(args).env_clear().env("PATH", "/bin:/usr/bin").env("WFCTL_STORE", self.path("store"));
        command.env("NOT_PINNED", "1").stdin(Stdio::null());
        command
    }

    fn call(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Writes a workflow whose notifications all do the same, and gives its path.
    fn workflow(&self, notification: &str, steps: &str) -> String {
        let text = format!(
            "name = \"n\"\n[notify]\non_interrupt = '''{notification}'''\non_failure = '''{notification}'''\n\
             on_success = '''{notification}'''\n{steps}"
        );
        fs::write(self.path("n.toml"), text).unwrap();
        self.path("n.toml").to_str().unwrap().to_owned()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn logs(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        collect(&self.path("store/runs"), &mut found);
        found.sort();
        found
    }
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.path().is_dir() {
            collect(&entry.path(), found);
        } else if entry.file_name().to_str().unwrap().starts_with("notify-") {
            found.push(entry.path());
        }
    }
}

const GATE: &str = "[[step]]\nid = \"ask\"\ninterrupt = \"Well?\"\noutcomes = [\"yes\", \"no\"]\nnext = { no = \"fail\" }\n\
    [[step]]\nid = \"work\"\nrun = \"true\"\n";

#[test]
fn each_end_of_an_attempt_is_told_with_names_and_the_run_on_stdin() {
    let test = TestStore::new();
    let out = test.path("told");
    let notification = format!(
        "cat > {0}.json; echo $WFCTL_RUN $WFCTL_STATUS $WFCTL_REASON $WFCTL_STEP ${{NOT_PINNED-none}} >> {0}",
        out.display()
    );
    let file = test.workflow(&notification, GATE);
    test.call(&["run", &file, "--id", "a"]);
    assert_eq!(test.read("told"), "a interrupted ask none\n");
    let told: serde_json::Value = serde_json::from_str(&test.read("told.json")).unwrap();
    assert_eq!((&told["run"], &told["interrupt"]["question"]), (&"a".into(), &"Well?".into()));
    test.call(&["resume", "a", "--outcome", "yes"]);
    test.call(&["run", &file, "--id", "b"]);
    let output = test.call(&["resume", "b", "--outcome", "no"]);
    assert_eq!(output.status.code(), Some(1));
    let told = test.read("told");
    let told: Vec<_> = told.lines().skip(1).collect();
    assert_eq!(told, ["a completed work none", "b interrupted ask none", "b failed fail ask none"]);
    assert_eq!(test.logs(), Vec::<PathBuf>::new(), "what said nothing leaves nothing");
}

#[test]
fn a_failing_notification_is_logged_and_changes_nothing() {
    let test = TestStore::new();
    let file = test.workflow("echo oops; exit 7", GATE);
    let output = test.call(&["run", &file, "--id", "a"]);
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("wfctl: warning: run a: a notification failed: it exited with status 7"), "{said}");
    let logs = test.logs();
    assert_eq!(logs.len(), 1);
    let log = fs::read_to_string(&logs[0]).unwrap();
    assert_eq!(log, "oops\nwfctl: the notification failed: it exited with status 7\n");
    assert_eq!(test.call(&["fsck"]).status.code(), Some(0));
    assert!(String::from_utf8(test.call(&["fsck"]).stdout).unwrap().contains("0 errors, 0 warnings"));
}

#[test]
fn a_notification_holds_neither_the_slot_nor_the_lock() {
    let test = TestStore::new();
    let step = "[[step]]\nid = \"work\"\nrun = \"true\"\n";
    let slow = format!("touch {}; sleep 20", test.path("begun").display());
    let file = test.workflow(&slow, step);
    let mut child = test.command(&["run", &file, "--id", "a"]).stdout(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while !test.path("begun").exists() {
        assert!(Instant::now() < deadline);
        thread::sleep(Duration::from_millis(10));
    }
    let plain = test.path("plain.toml");
    fs::write(&plain, format!("name = \"p\"\n{step}")).unwrap();
    let output = test.call(&["run", plain.to_str().unwrap(), "--lock-timeout", "1s"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    // Whoever is out of patience interrupts twice, and the run stays what it is.
    for _ in 0..2 {
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        thread::sleep(Duration::from_millis(50));
    }
    let began = Instant::now();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(10));
    let shown = String::from_utf8(test.call(&["show", "a"]).stdout).unwrap();
    assert!(shown.contains("completed"), "{shown}");
}

#[test]
fn a_tick_tells_of_what_recovery_found_and_of_gates_that_expired() {
    let test = TestStore::new();
    let out = test.path("told");
    let notification = format!("echo $WFCTL_RUN $WFCTL_STATUS $WFCTL_REASON >> {}", out.display());
    let gate = GATE.replace("\"yes\", \"no\"]\n", "\"yes\", \"no\"]\nexpires = \"1s\"\n");
    let file = test.workflow(&notification, &gate);
    test.call(&["run", &file, "--id", "gate"]);
    let stuck = test.workflow(&notification, "[[step]]\nid = \"work\"\nrun = \"sleep 60\"\n");
    let mut child = test.command(&["run", &stuck, "--id", "stuck"]).stdout(Stdio::null()).spawn().unwrap();
    let journal = test.path("store/runs/active/stuck/journal.jsonl");
    let deadline = Instant::now() + Duration::from_secs(10);
    while !fs::read_to_string(&journal).unwrap_or_default().contains("step_started") {
        assert!(Instant::now() < deadline);
        thread::sleep(Duration::from_millis(10));
    }
    thread::sleep(Duration::from_millis(1100));
    // A fence leaves the run to recovery.
    Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    fs::write(&out, "").unwrap();
    test.call(&["tick", "--no-dispatch"]);
    let told = test.read("told");
    let mut told: Vec<_> = told.lines().collect();
    told.sort_unstable();
    assert_eq!(told, ["gate failed expired", "stuck failed ambiguous"]);
}
