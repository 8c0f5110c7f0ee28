//! One store for one test: a folder of its own with a store and a work folder, and the real program in a
//! cleared environment.
//!
//! Nothing here sleeps and hopes: whoever waits names a condition, and the limit is only for a broken promise.
//! Steps that have to wait use `sh ./await FILE`, which gives up once the work folder is gone, so that a
//! failed test leaves nothing running.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, unreachable_pub, missing_docs)]

pub mod craft;

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::{self, File},
    io::Write as _,
    os::unix::{
        fs::MetadataExt as _,
        process::{CommandExt as _, ExitStatusExt as _},
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{FlockOperation, flock},
    process::{Pid, Signal, kill_process},
};
use serde_json::Value;
use tempfile::TempDir;

/// How long anything may take before a promise counts as broken; machines are loaded.
const LIMIT: Duration = Duration::from_secs(60);

/// Waits until `condition` holds.
#[track_caller]
pub fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let limit = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < limit, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// What one call of the program came to.
#[derive(Debug)]
pub struct Done {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Done {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("no JSON ({e}): {self:?}"))
    }

    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }
}

/// A call of the program that goes on beside the test; killed if the test ends before it.
pub struct Running {
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
    ended: bool,
}

impl Running {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid().try_into().unwrap()).unwrap(), signal).unwrap();
    }

    /// Kills this process alone, as `kill -9` does, and waits for it to be gone.
    pub fn kill9(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.ended = true;
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub fn stderr_so_far(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap()
    }

    #[track_caller]
    pub fn wait(mut self) -> Done {
        let limit = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < limit, "it did not end: {}", self.stderr_so_far());
            thread::sleep(Duration::from_millis(5));
        };
        self.ended = true;
        done(status, &self.stdout, &self.stderr)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[track_caller]
fn done(status: ExitStatus, stdout: &Path, stderr: &Path) -> Done {
    let read = |path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
    let code = status.code().unwrap_or_else(|| -status.signal().unwrap());
    Done { code, stdout: read(stdout), stderr: read(stderr) }
}

/// A store with its work folder.
pub struct TestStore {
    tmp: TempDir,
    pub dir: PathBuf,
    pub work: PathBuf,
    calls: AtomicU32,
}

impl TestStore {
    /// A store of this capacity.
    #[track_caller]
    pub fn new(capacity: u32) -> Self {
        let store = Self::without_store();
        store.ok(&["init", "--capacity", &capacity.to_string()]);
        store
    }

    /// A work folder whose store does not exist yet.
    pub fn without_store() -> Self {
        let tmp = tempfile::Builder::new().prefix("wfctl-test.").tempdir().unwrap();
        let root = fs::canonicalize(tmp.path()).unwrap();
        let (dir, work) = (root.join("store"), root.join("work"));
        fs::create_dir(&work).unwrap();
        fs::create_dir(root.join("calls")).unwrap();
        fs::write(work.join("await"), "until [ -e \"$1\" ] || [ ! -e ./await ]; do sleep 0.02; done\n")
            .unwrap();
        Self { tmp, dir, work, calls: AtomicU32::new(0) }
    }

    /// The program with nothing of the test's environment and default signal dispositions.
    pub fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = self.program(env!("CARGO_BIN_EXE_wfctl").as_ref());
        command.arg("--store").arg(&self.dir).args(args);
        command
    }

    /// Any program, set up the same way.
    #[allow(unsafe_code)]
    pub fn program(&self, program: &OsStr) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", &self.work)
            .env("USER", "tester")
            .env("LOGNAME", "tester")
            .env("LANG", "C.UTF-8")
            .env("COLUMNS", "100")
            .current_dir(&self.work)
            .stdin(Stdio::null());
        // SAFETY: signal(2) is async-signal-safe and touches nothing that the parent shares.
        unsafe {
            command.pre_exec(|| {
                for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                    libc::signal(signal, libc::SIG_DFL);
                }
                Ok(())
            });
        }
        command
    }

    /// Starts a command that goes on beside the test.
    #[track_caller]
    pub fn start(&self, mut command: Command) -> Running {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let file = |name: &str| self.tmp.path().join("calls").join(format!("{call}.{name}"));
        let (stdout, stderr) = (file("out"), file("err"));
        command.stdout(File::create(&stdout).unwrap()).stderr(File::create(&stderr).unwrap());
        Running { child: command.spawn().unwrap(), stdout, stderr, ended: false }
    }

    #[track_caller]
    pub fn popen<S: AsRef<OsStr>>(&self, args: &[S]) -> Running {
        self.start(self.command(args))
    }

    #[track_caller]
    pub fn run<S: AsRef<OsStr>>(&self, args: &[S]) -> Done {
        self.popen(args).wait()
    }

    #[track_caller]
    pub fn run_with_stdin<S: AsRef<OsStr>>(&self, args: &[S], stdin: &str) -> Done {
        let mut command = self.command(args);
        command.stdin(Stdio::piped());
        let mut running = self.start(command);
        running.child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
        running.wait()
    }

    #[track_caller]
    pub fn ok<S: AsRef<OsStr>>(&self, args: &[S]) -> Done {
        self.run(args).expect(0)
    }

    /// The JSON document of a call that ends with `code`.
    #[track_caller]
    pub fn json_code<S: AsRef<OsStr>>(&self, code: i32, args: &[S]) -> Value {
        let mut command = self.command(&["--json"]);
        command.args(args);
        self.start(command).wait().expect(code).json()
    }

    #[track_caller]
    pub fn json<S: AsRef<OsStr>>(&self, args: &[S]) -> Value {
        self.json_code(0, args)
    }

    /// A file in the work folder.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.work.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.work.join(name)).unwrap_or_default()
    }

    pub fn exists(&self, name: &str) -> bool {
        self.work.join(name).exists()
    }

    #[track_caller]
    pub fn wait_for(&self, name: &str) {
        wait_until(name, || self.exists(name));
    }

    /// Writes a workflow file named `NAME.toml`: the name line, then `steps`.
    pub fn workflow(&self, name: &str, steps: &str) -> String {
        let path = self.file(&format!("{name}.toml"), &format!("name = \"{name}\"\n{steps}"));
        path.to_str().unwrap().to_owned()
    }

    /// A workflow of one step that leaves a line in `NAME.effect`.
    pub fn quick(&self, name: &str) -> String {
        self.workflow(name, &format!("[[step]]\nid = \"one\"\nrun = \"echo x >> {name}.effect\"\n"))
    }

    /// A workflow of one step that leaves a line in `NAME.effect` and waits for `NAME.open`.
    pub fn slow(&self, name: &str) -> String {
        let steps = format!(
            "[[step]]\nid = \"work\"\nrun = \"echo $$ >> {name}.effect; sh ./await {name}.open; echo end >> {name}.effect\"\n"
        );
        self.workflow(name, &steps)
    }

    /// The same behind a gate.
    pub fn gated(&self, name: &str) -> String {
        let steps = format!(
            "[[step]]\nid = \"ask\"\ninterrupt = \"go on?\"\n\
             [[step]]\nid = \"work\"\nrun = \"echo $$ >> {name}.effect; sh ./await {name}.open; echo end >> {name}.effect\"\n"
        );
        self.workflow(name, &steps)
    }

    /// Schedules a workflow file for now and admits its run without starting anything. The run's id.
    #[track_caller]
    pub fn admit(&self, file: &str) -> String {
        let id = Path::new(file).file_stem().unwrap().to_str().unwrap().to_owned();
        self.ok(&["schedule", file, "--at", "now"]);
        self.ok(&["tick", "--no-dispatch", "--no-recover"]);
        self.run_of(&id)
    }

    /// The run of a schedule that has one.
    #[track_caller]
    pub fn run_of(&self, schedule: &str) -> String {
        let items = self.json(&["list", "--schedule", schedule])["items"].clone();
        let items = items.as_array().unwrap();
        assert_eq!(items.len(), 1, "runs of {schedule}: {items:?}");
        items[0]["run"].as_str().unwrap().to_owned()
    }

    /// Schedules a gated workflow and ticks until its run is interrupted. The run's id.
    #[track_caller]
    pub fn interrupted(&self, name: &str) -> String {
        let run = self.admit(&self.gated(name));
        wait_until("the gate to open", || {
            self.ok(&["tick"]);
            self.show(&run)["status"] == "interrupted"
        });
        run
    }

    #[track_caller]
    pub fn show(&self, run: &str) -> Value {
        self.json(&["show", run])
    }

    #[track_caller]
    pub fn status(&self) -> Value {
        self.json(&["status"])
    }

    /// Waits until `status` and `show` say that a run is live and its step has begun.
    #[track_caller]
    pub fn wait_live(&self, run: &str, effect: &str) {
        wait_until("the step's first effect", || self.read(effect).ends_with('\n'));
        wait_until("a live slot", || {
            self.status()["slots"].as_array().unwrap().iter().any(|s| s["run"] == run && s["state"] == "live")
        });
        let shown = self.show(run);
        assert_eq!((&shown["executing"], &shown["live"]), (&true.into(), &true.into()), "{shown}");
    }

    /// The kinds of a run's history entries, sorted.
    #[track_caller]
    pub fn kinds(&self, run: &str) -> Vec<String> {
        let items = self.json(&["history", "--run", run])["items"].clone();
        let items = items.as_array().unwrap().iter();
        let mut kinds: Vec<_> = items.map(|item| item["kind"].as_str().unwrap().to_owned()).collect();
        kinds.sort();
        kinds
    }

    /// The folder of a run, wherever it is.
    #[track_caller]
    pub fn folder(&self, run: &str) -> PathBuf {
        let active = self.dir.join("runs/active").join(run);
        if active.is_dir() {
            return active;
        }
        let days = fs::read_dir(self.dir.join("runs/done")).unwrap();
        let mut folders = days.map(|day| day.unwrap().path().join(run));
        folders.find(|folder| folder.is_dir()).unwrap_or_else(|| panic!("there is no folder of {run}"))
    }

    #[track_caller]
    pub fn journal(&self, run: &str) -> Vec<u8> {
        fs::read(self.folder(run).join("journal.jsonl")).unwrap()
    }

    #[track_caller]
    pub fn events(&self, run: &str) -> Vec<Value> {
        let journal = String::from_utf8(self.journal(run)).unwrap();
        journal.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The names of a run's events, in order.
    #[track_caller]
    pub fn event_names(&self, run: &str) -> Vec<String> {
        self.events(run).iter().map(|event| event["event"].as_str().unwrap().to_owned()).collect()
    }

    pub fn slot_path(&self, slot: u32) -> PathBuf {
        self.dir.join("slots").join(slot.to_string())
    }

    pub fn slot_text(&self, slot: u32) -> String {
        fs::read_to_string(self.slot_path(slot)).unwrap_or_default()
    }

    /// Whether nobody holds the lock of a slot.
    pub fn slot_is_unlocked(&self, slot: u32) -> bool {
        let file = File::options().read(true).write(true).open(self.slot_path(slot)).unwrap();
        flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
    }

    #[track_caller]
    pub fn assert_slot_free(&self, slot: u32) {
        assert_eq!(self.slot_text(slot), "", "slot {slot} names somebody");
        assert!(self.slot_is_unlocked(slot), "slot {slot} is locked");
    }

    /// Takes the store lock as another process would, until the result is dropped.
    pub fn hold_lock(&self, says: &str) -> File {
        let file = File::options().read(true).write(true).open(self.dir.join("lock")).unwrap();
        flock(&file, FlockOperation::LockExclusive).unwrap();
        file.set_len(0).unwrap();
        (&file).write_all(says.as_bytes()).unwrap();
        file
    }

    #[track_caller]
    pub fn fsck_clean(&self) {
        self.ok(&["fsck"]);
    }

    /// Everything in the store: path to mode and content. Notes of who held the lock last and how the last tick
    /// ended are left out.
    pub fn tree(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        let mut tree = tree_of(&self.dir);
        tree.remove(&self.dir.join("lock"));
        tree.remove(&self.dir.join("last_tick.json"));
        tree
    }
}

/// Everything in a folder: path to mode and content.
pub fn tree_of(dir: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut tree = BTreeMap::new();
    add_tree(dir, &mut tree);
    tree
}

/// Whether system calls can be traced here; says so where not, and the caller passes without a test.
#[allow(clippy::print_stderr)]
pub fn can_trace() -> bool {
    let folders = ["/usr/local/bin", "/usr/bin", "/bin"];
    let found = folders.iter().any(|folder| Path::new(folder).join("strace").exists());
    let traces = found && {
        let store = TestStore::without_store();
        let mut command = store.program("strace".as_ref());
        command.args([
            "-f",
            "-qq",
            "-o",
            "/dev/null",
            "-e",
            "inject=sync:signal=SIGKILL:when=1",
            "/bin/true",
        ]);
        store.start(command).wait().code == 0
    };
    if !traces {
        eprintln!("skipped: strace is missing or ptrace is not permitted here");
    }
    traces
}

fn add_tree(dir: &Path, tree: &mut BTreeMap<PathBuf, (u32, Vec<u8>)>) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        let content = if metadata.is_symlink() {
            fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
        } else if metadata.is_file() {
            fs::read(&path).unwrap()
        } else {
            Vec::new()
        };
        tree.insert(path.clone(), (metadata.mode(), content));
        if metadata.is_dir() {
            add_tree(&path, tree);
        }
    }
}

/// Whether a process with this number runs; a zombie does not.
pub fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}
