//! What the proofs share: a place with a store that can be copied, the program, the tracer that kills it at
//! any point, the list of commands to be attacked, and the one checker of all promises.

#![allow(dead_code, reason = "each proof uses a part of it")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::case_sensitive_file_extension_comparisons,
    unreachable_pub,
    missing_docs
)]

pub mod check;
pub mod scenarios;
pub mod sim;
pub mod tracer;

use std::{
    fs,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

/// Whether everything is tried, rather than a sample.
pub fn is_full() -> bool {
    std::env::var("WFCTL_PROOF").is_ok_and(|value| value == "full")
}

/// The points to try of `count`: all of them, or so many, evenly spread, with the first and the last.
pub fn sample(count: u64, bounded: u64, offset: u64) -> Vec<u64> {
    if is_full() || count <= bounded {
        return (1..=count).collect();
    }
    let mut points: Vec<u64> = (0..bounded).map(|i| 1 + (i * count + offset) / bounded).collect();
    points.extend([1, count]);
    points.retain(|point| *point <= count);
    points.sort_unstable();
    points.dedup();
    points
}

/// A folder for a proof, in memory where that is possible: what is killed here is a process, not the machine.
pub fn base() -> TempDir {
    let shm = Path::new("/dev/shm");
    let mut builder = tempfile::Builder::new();
    builder.prefix("wfctl-proof.");
    if shm.is_dir()
        && let Ok(dir) = builder.tempdir_in(shm)
    {
        return dir;
    }
    builder.tempdir().unwrap()
}

/// What one call came to.
#[derive(Debug)]
pub struct Done {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Done {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("no JSON ({e}): {self:?}"))
    }
}

/// A place with a store, its effects, and what its steps are told.
///
/// `effects`: a line for each time that a step took effect. `pids`: the processes of steps that may
/// outlive the program. `misbehave`: exists while the steps may kill the program that started them.
#[derive(Debug, Clone)]
pub struct Site {
    pub dir: PathBuf,
    pub store: PathBuf,
    /// The folder of the workflow files, shared with all copies.
    pub work: PathBuf,
}

impl Site {
    pub fn new(dir: PathBuf, work: PathBuf) -> Self {
        fs::create_dir_all(&dir).unwrap();
        fs::create_dir_all(&work).unwrap();
        Self { store: dir.join("store"), dir, work }
    }

    pub fn copy_to(&self, dir: PathBuf) -> Self {
        copy_tree(&self.dir, &dir);
        Self { store: dir.join("store"), dir, work: self.work.clone() }
    }

    pub fn command<S: AsRef<str>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wfctl"));
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", &self.work)
            .env("USER", "tester")
            .env("LANG", "C.UTF-8")
            .env("WFCTL_STORE", &self.store)
            .current_dir(&self.work)
            .stdin(Stdio::null())
            .args(args.iter().map(AsRef::as_ref));
        command
    }

    /// Runs to the end, or fails loudly where it hangs.
    #[track_caller]
    pub fn run<S: AsRef<str>>(&self, args: &[S]) -> Done {
        let mut command = self.command(args);
        let (out, err) = (self.dir.join("call.out"), self.dir.join("call.err"));
        command.stdout(fs::File::create(&out).unwrap()).stderr(fs::File::create(&err).unwrap());
        let mut child = command.spawn().unwrap();
        let limit = Instant::now() + Duration::from_secs(60);
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > limit {
                let _ = child.kill();
                let _ = child.wait();
                let args: Vec<&str> = args.iter().map(AsRef::as_ref).collect();
                panic!("{args:?} hangs in {}: {}", self.dir.display(), fs::read_to_string(&err).unwrap());
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let read = |path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
        let code =
            status.code().unwrap_or_else(|| -std::os::unix::process::ExitStatusExt::signal(&status).unwrap());
        Done { code, stdout: read(&out), stderr: read(&err) }
    }

    #[track_caller]
    pub fn ok<S: AsRef<str>>(&self, args: &[S]) -> Done {
        let done = self.run(args);
        let args: Vec<&str> = args.iter().map(AsRef::as_ref).collect();
        assert_eq!(done.code, 0, "{args:?} in {}: {done:?}", self.dir.display());
        done
    }

    #[track_caller]
    pub fn json<S: AsRef<str>>(&self, args: &[S]) -> Value {
        let mut all = vec!["--json"];
        all.extend(args.iter().map(AsRef::as_ref));
        self.ok(&all).json()
    }

    #[track_caller]
    pub fn show(&self, run: &str) -> Value {
        self.json(&["show", run])
    }

    /// A workflow file. Steps say their effects by `$effect`.
    pub fn workflow(&self, name: &str, steps: &str) -> String {
        let path = self.work.join(format!("{name}.toml"));
        let text = format!("name = \"{name}\"\n{steps}");
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub fn misbehave(&self, may: bool) {
        let path = self.dir.join("misbehave");
        if may {
            fs::write(path, "").unwrap();
        } else {
            let _ = fs::remove_file(path);
        }
    }

    /// Ends the steps that a killed program left, as time would.
    #[allow(unsafe_code)]
    pub fn end_orphans(&self) {
        let pids = fs::read_to_string(self.dir.join("pids")).unwrap_or_default();
        for pid in pids.lines().filter_map(|pid| pid.parse::<i32>().ok()).filter(|pid| *pid > 1) {
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let is_ours = environ
                .windows(self.store.as_os_str().len())
                .any(|window| window == self.store.as_os_str().as_encoded_bytes());
            if is_ours {
                // SAFETY: plain system call on a process that our step is.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
        }
        let limit = Instant::now() + Duration::from_secs(30);
        while !self.locked_slots().is_empty() {
            assert!(Instant::now() < limit, "slots stay locked: {:?}", self.locked_slots());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The slots whose lock somebody holds.
    pub fn locked_slots(&self) -> Vec<String> {
        use rustix::fs::{FlockOperation, flock};
        let Ok(entries) = fs::read_dir(self.store.join("slots")) else { return Vec::new() };
        let paths = entries.map(|entry| entry.unwrap().path());
        let locked = paths.filter(|path| {
            let file = fs::File::options().read(true).write(true).open(path).unwrap();
            flock(&file, FlockOperation::NonBlockingLockExclusive).is_err()
        });
        locked.map(|path| path.display().to_string()).collect()
    }
}

/// What a step does to say that it took effect.
pub const EFFECT: &str =
    "echo \\\"$WFCTL_RUN $WFCTL_STEP $WFCTL_IDEMPOTENCY_KEY\\\" >> \\\"$WFCTL_STORE/../effects\\\"";

/// One step that takes effect, then does something else.
pub fn step(id: &str, then: &str, more: &str) -> String {
    format!("[[step]]\nid = \"{id}\"\nrun = \"{EFFECT}; {then}\"\n{more}\n")
}

/// What a step does to signal the program that started it, where it may, and to live on. Where the program
/// is dead already, the step has another parent, which is none of ours.
pub fn signal_parent(signal: &str, then: &str) -> String {
    format!(
        "if [ -e \\\"$WFCTL_STORE/../misbehave\\\" ]; then echo $$ >> \\\"$WFCTL_STORE/../pids\\\"; \
         read name < /proc/$PPID/comm; if [ \\\"$name\\\" = wfctl ]; then kill -{signal} $PPID; fi; {then}; fi"
    )
}

pub fn copy_tree(from: &Path, to: &Path) {
    let mode = fs::metadata(from).unwrap().mode() & 0o7777;
    fs::DirBuilder::new().mode(mode).create(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
        }
    }
}
