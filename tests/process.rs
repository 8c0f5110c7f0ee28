//! What `process` promises, shown with real children.
//!
//! Every wait here is for a condition; the limit of [`until`] is only for a broken promise.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Signal, getpgid, kill_process};
use tempfile::TempDir;
use wfctl::process::{
    Child, Ending, Fate, Interruption, LocalExecutor, Pid, SLOT_FD, Signals, Slept, SlotIdentity, SlotLock,
    SpawnError, SpawnSpec, StepExecutor, StopError, StopHandle, StopKind, StopWatch, Wake, resolve_program,
    spawn, stop_child, stop_orphans, stop_pair, wait,
};

const LONG: Duration = Duration::from_secs(3600);

/// A folder with a slot that is held as an executing run holds it, and a log.
struct Bench {
    dir: TempDir,
    _held: File,
    slot: File,
    log: File,
    handle: StopHandle,
    watch: StopWatch,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("17");
        fs::write(&path, "").unwrap();
        let locked = || {
            let file = File::open(&path).unwrap();
            flock(&file, FlockOperation::NonBlockingLockShared).unwrap();
            file
        };
        let log = File::options().create(true).append(true).open(dir.path().join("log")).unwrap();
        let (handle, watch) = stop_pair().unwrap();
        Self { _held: locked(), slot: locked(), log, handle, watch, dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn spec<'a>(&'a self, argv: &'a [OsString], env: &'a [(OsString, OsString)]) -> SpawnSpec<'a> {
        SpawnSpec {
            program: Path::new(&argv[0]),
            argv,
            env,
            cwd: self.dir.path(),
            stdin: None,
            output: self.log.as_fd(),
            slot: Some(self.slot.as_fd()),
        }
    }

    fn start(&self, argv: &[&str]) -> Child {
        let env = [("PATH".into(), std::env::var_os("PATH").unwrap())];
        let argv: Vec<OsString> = argv.iter().map(OsString::from).collect();
        spawn(&self.spec(&argv, &env)).unwrap()
    }

    fn bash(&self, script: &str) -> Child {
        self.start(&["/bin/bash", "-c", script])
    }

    fn end_of(&self, mut child: Child) -> Ending {
        match wait(&mut child, None, &self.watch).unwrap() {
            Wake::ChildExited(ending) => ending,
            other => panic!("{other:?}"),
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap()
    }

    fn stop(&self, child: Child, grace: Duration) -> Option<Ending> {
        stop_child(child, Some(&self.slot), grace, &self.watch).unwrap().ending
    }

    /// The process whose number a script has written to this file.
    fn pid_in(&self, name: &str) -> Pid {
        let path = self.path(name);
        until("a pid file", || fs::read_to_string(&path).is_ok_and(|text| text.ends_with('\n')));
        Pid::from_raw(fs::read_to_string(&path).unwrap().trim().parse().unwrap()).unwrap()
    }

    fn wait_for(&self, name: &str) {
        until(name, || self.path(name).exists());
    }
}

fn until(what: &str, condition: impl Fn() -> bool) {
    let limit = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < limit, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

fn proc_file(pid: Pid, name: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/{}/{name}", pid.as_raw_nonzero())).ok()
}

/// The letter in the third field of `stat`; `-` if there is no such process.
fn state(pid: Pid) -> char {
    let stat = proc_file(pid, "stat").unwrap_or_default();
    stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap_or('-')
}

fn is_gone(pid: Pid) -> bool {
    matches!(state(pid), 'Z' | 'X' | '-')
}

fn descriptors(pid: Pid) -> BTreeMap<i32, PathBuf> {
    let entries = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let number = |path: &Path| path.file_name().unwrap().to_str().unwrap().parse().unwrap();
    paths.map(|path| (number(&path), fs::read_link(path).unwrap_or_default())).collect()
}

fn is_running(pid: Pid, program: &str) {
    until(program, || proc_file(pid, "comm").is_some_and(|name| name.trim() == program));
}

/// Runs one of the ignored tests below in a process of its own, by way of a shell script in
/// which `"$@"` is that test.
///
/// Not with [`Command`]: its children have, for the moment before they exec, all descriptors of
/// this process, and a test that stops the holders of its slot would hit them.
fn run_helper(script: &str, helper: &str) {
    let bench = Bench::new();
    let exe = std::env::current_exe().unwrap();
    let fixed = ["/bin/bash", "-c", script, "bash"].into_iter().chain([exe.to_str().unwrap()]);
    let argv: Vec<_> = fixed.chain(["--ignored", "--exact", helper, "--nocapture"]).collect();
    let ending = bench.end_of(bench.start(&argv));
    let text = bench.log();
    assert!(ending == Ending::Exited(0) && text.contains("1 passed"), "{ending:?} {text}");
}

#[test]
fn exit_statuses_and_signals_are_told_apart() {
    let bench = Bench::new();
    assert_eq!(bench.end_of(bench.bash("exit 0")), Ending::Exited(0));
    assert_eq!(bench.end_of(bench.bash("exit 137")), Ending::Exited(137));
    assert_eq!(bench.end_of(bench.bash("kill -9 $$")), Ending::Signalled(9));
    assert_eq!(bench.end_of(bench.bash("kill -PIPE $$")), Ending::Signalled(13));
}

#[test]
fn an_ending_is_told_again_and_reaped_once() {
    let bench = Bench::new();
    let mut child = bench.bash("exit 5");
    for _ in 0..2 {
        let wake = wait(&mut child, None, &bench.watch).unwrap();
        assert_eq!(wake, Wake::ChildExited(Ending::Exited(5)));
    }
    assert_eq!(child.ending(), Some(Ending::Exited(5)));
    assert_eq!(state(child.pid()), '-');
}

#[test]
fn the_environment_is_exactly_what_was_given() {
    let bench = Bench::new();
    let env = [("A".into(), "1=2".into()), ("EMPTY".into(), "".into())];
    let argv = ["/usr/bin/env".into()];
    let child = spawn(&bench.spec(&argv, &env)).unwrap();
    assert_eq!(bench.end_of(child), Ending::Exited(0));
    assert_eq!(bench.log(), "A=1=2\nEMPTY=\n");
}

#[test]
fn a_step_starts_in_its_folder_with_both_streams_in_the_log() {
    let bench = Bench::new();
    let child = bench.bash("pwd -P; echo to stderr >&2; cat");
    assert_eq!(bench.end_of(child), Ending::Exited(0));
    let folder = bench.dir.path().canonicalize().unwrap();
    assert_eq!(bench.log(), format!("{}\nto stderr\n", folder.display()));
}

#[test]
fn a_step_inherits_its_streams_and_its_slot_and_nothing_else() {
    let bench = Bench::new();
    // Not close-on-exec, as a careless parent leaves them.
    let _leak = rustix::io::dup(&bench.log).unwrap();
    let child = bench.start(&["/bin/sleep", "1000"]);
    let dir = bench.dir.path().canonicalize().unwrap();
    let expected =
        [(0, "/dev/null".into()), (1, dir.join("log")), (2, dir.join("log")), (SLOT_FD, dir.join("17"))];
    let expected = BTreeMap::from(expected);
    // The loader of the program has a library open now and then, at the start.
    until("just the expected descriptors", || descriptors(child.pid()) == expected);
    bench.stop(child, LONG);
}

#[test]
fn descriptors_that_sit_at_their_targets_are_handed_down_right() {
    let bench = Bench::new();
    let slot = rustix::io::fcntl_dupfd_cloexec(&bench.slot, SLOT_FD).unwrap();
    let argv = ["/bin/sleep", "1000"].map(OsString::from);
    let spec = SpawnSpec { slot: Some(slot.as_fd()), ..bench.spec(&argv, &[]) };
    let child = spawn(&spec).unwrap();
    let to = fs::read_link(format!("/proc/{}/fd/{SLOT_FD}", child.pid().as_raw_nonzero())).unwrap();
    assert_eq!(to.file_name(), Some(OsStr::new("17")));
    bench.stop(child, LONG);
}

#[test]
fn a_given_stdin_is_read() {
    let bench = Bench::new();
    fs::write(bench.path("in"), "hello").unwrap();
    let stdin = File::open(bench.path("in")).unwrap();
    let argv = ["/bin/cat".into()];
    let spec = SpawnSpec { stdin: Some(stdin.as_fd()), slot: None, ..bench.spec(&argv, &[]) };
    assert_eq!(bench.end_of(spawn(&spec).unwrap()), Ending::Exited(0));
    assert_eq!(bench.log(), "hello");
}

#[test]
fn a_step_has_default_dispositions_an_empty_mask_and_its_own_group() {
    let bench = Bench::new();
    let child = bench.start(&["/bin/sleep", "1000"]);
    let status = proc_file(child.pid(), "status").unwrap();
    for set in ["SigBlk", "SigIgn", "SigCgt"] {
        assert!(status.contains(&format!("{set}:\t0000000000000000\n")), "{status}");
    }
    assert_eq!(getpgid(Some(child.pid())).unwrap(), child.pid());
    bench.stop(child, LONG);
}

#[test]
fn programs_are_found_as_the_step_would_find_them() {
    let dir = tempfile::tempdir().unwrap();
    let cwd = dir.path();
    fs::create_dir_all(cwd.join("bin/tool")).unwrap();
    fs::create_dir_all(cwd.join("more")).unwrap();
    fs::write(cwd.join("bin/plain"), "").unwrap();
    fs::copy("/bin/true", cwd.join("more/tool")).unwrap();
    let resolve = |name: &str, path: Option<&str>| resolve_program(name.as_ref(), path.map(OsStr::new), cwd);

    assert_eq!(resolve("sh", None).unwrap(), Path::new("/bin/sh"));
    assert_eq!(resolve("./more/tool", None).unwrap(), cwd.join("./more/tool"));
    assert_eq!(resolve("tool", Some("bin:more")).unwrap(), cwd.join("more/tool"));
    assert!(matches!(resolve("tool", Some("bin")), Err(SpawnError::IsFolder { .. })));
    assert!(matches!(resolve("plain", Some("more:bin")), Err(SpawnError::NotExecutable { .. })));
    assert!(matches!(resolve("bin/plain", None), Err(SpawnError::NotExecutable { .. })));
    assert!(matches!(resolve("bin/none", None), Err(SpawnError::NotFound { path: None, .. })));
    assert!(matches!(resolve("", Some("bin")), Err(SpawnError::NotFound { .. })));
    let error = resolve("tool", Some("/nowhere")).unwrap_err();
    assert_eq!(error.to_string(), "cannot start tool: not found in PATH /nowhere");
}

#[test]
fn what_cannot_be_started_says_why() {
    let bench = Bench::new();
    // Written by another process: a file that is open for writing in a child that is just being
    // created elsewhere in this one could not be executed.
    let write = "printf '#!/no/such/thing -x\n' > script; printf 'text' > text; chmod +x script text";
    assert_eq!(bench.end_of(bench.bash(write)), Ending::Exited(0));
    let start = |program: &str, cwd: &Path| {
        let argv = [OsString::from(bench.path(program))];
        spawn(&SpawnSpec { cwd, ..bench.spec(&argv, &[]) }).unwrap_err()
    };
    let error = start("script", bench.dir.path());
    assert!(error.to_string().ends_with("its interpreter /no/such/thing is missing"), "{error}");
    let error = start("text", bench.dir.path());
    assert!(matches!(error, SpawnError::BadInterpreter { interpreter: None, .. }), "{error}");
    assert!(matches!(start("none", bench.dir.path()), SpawnError::NotFound { .. }));
    assert!(matches!(start("log", bench.dir.path()), SpawnError::NotExecutable { .. }));
    assert!(matches!(start(".", bench.dir.path()), SpawnError::IsFolder { .. }));
    assert!(matches!(start("script", &bench.path("gone")), SpawnError::NoFolder { .. }));
    assert!(matches!(start("script", &bench.path("log")), SpawnError::NoFolder { .. }));
    assert!(matches!(start("a\0b", bench.dir.path()), SpawnError::Malformed { .. }));
}

#[test]
fn a_wait_ends_at_its_deadline_and_leaves_the_child_alone() {
    let bench = Bench::new();
    let mut child = bench.start(&["/bin/sleep", "1000"]);
    let deadline = Instant::now() + Duration::from_millis(50);
    assert_eq!(wait(&mut child, Some(deadline), &bench.watch).unwrap(), Wake::Deadline);
    assert!(Instant::now() >= deadline);
    assert!(!is_gone(child.pid()));
    bench.stop(child, LONG);
}

#[test]
fn the_first_request_wakes_the_wait_and_counts() {
    let bench = Bench::new();
    let mut child = bench.start(&["/bin/sleep", "1000"]);
    let handle = bench.handle.clone();
    let asking = thread::spawn(move || {
        handle.request(StopKind::Cancel);
        handle.request(StopKind::Fence { signal: Interruption::Term });
    });
    let wake = wait(&mut child, Some(Instant::now() + LONG), &bench.watch).unwrap();
    assert_eq!(wake, Wake::StopRequested(StopKind::Cancel));
    asking.join().unwrap();
    assert_eq!(bench.watch.requested(), Some(StopKind::Cancel));
    assert_eq!(bench.stop(child, LONG), Some(Ending::Signalled(15)));
}

#[test]
fn a_known_ending_is_worth_more_than_a_request() {
    let bench = Bench::new();
    let mut child = bench.bash("exit 4");
    until("the end", || state(child.pid()) == 'Z');
    bench.handle.request(StopKind::Cancel);
    let wake = wait(&mut child, Some(Instant::now()), &bench.watch).unwrap();
    assert_eq!(wake, Wake::ChildExited(Ending::Exited(4)));
}

#[test]
fn a_sleep_ends_by_itself_or_by_a_request() {
    let bench = Bench::new();
    let soon = Instant::now() + Duration::from_millis(20);
    assert_eq!(wfctl::process::sleep_until(soon, &bench.watch).unwrap(), Slept::Through);
    assert!(Instant::now() >= soon);
    bench.handle.request(StopKind::Cancel);
    let slept = wfctl::process::sleep_until(Instant::now() + LONG, &bench.watch).unwrap();
    assert_eq!(slept, Slept::StopRequested(StopKind::Cancel));
}

#[test]
fn a_step_may_clean_up_within_its_grace() {
    let bench = Bench::new();
    let script = "trap 'sleep 0.2; echo done > cleaned; exit 7' TERM; echo > ready; \
                  while :; do sleep 1000 & wait; done";
    let child = bench.bash(script);
    bench.wait_for("ready");
    assert_eq!(bench.stop(child, LONG), Some(Ending::Exited(7)));
    assert!(bench.path("cleaned").exists());
}

#[test]
fn a_step_that_ignores_sigterm_is_killed_after_the_grace() {
    let bench = Bench::new();
    let child = bench.bash("trap '' TERM; sleep 1000 & echo $! > pid; while :; do wait; done");
    let other = bench.pid_in("pid");
    let began = Instant::now();
    let grace = Duration::from_millis(100);
    assert_eq!(bench.stop(child, grace), Some(Ending::Signalled(9)));
    assert!(began.elapsed() >= grace);
    assert!(is_gone(other));
}

#[test]
fn a_stopped_step_is_woken_to_end() {
    let bench = Bench::new();
    let child = bench.bash("trap 'exit 3' TERM; kill -STOP $$; while :; do :; done");
    until("a stopped shell", || state(child.pid()) == 'T');
    assert_eq!(bench.stop(child, LONG), Some(Ending::Exited(3)));
}

#[test]
fn a_process_in_another_session_is_found_by_the_descriptor() {
    let bench = Bench::new();
    let child = bench.bash("setsid sleep 1000 & echo $! > pid; exec sleep 1000");
    let escaped = bench.pid_in("pid");
    is_running(escaped, "sleep");
    assert_ne!(getpgid(Some(escaped)).unwrap(), child.pid());
    assert_eq!(bench.stop(child, LONG), Some(Ending::Signalled(15)));
    assert!(is_gone(escaped));
}

#[test]
fn unlocking_the_descriptor_hides_nobody() {
    let bench = Bench::new();
    let child =
        bench.bash(&format!("flock -u {SLOT_FD}; setsid sleep 1000 & echo $! > pid; exec sleep 1000"));
    let escaped = bench.pid_in("pid");
    is_running(escaped, "sleep");
    bench.stop(child, LONG);
    assert!(is_gone(escaped));
}

#[test]
fn closing_the_descriptor_hides_nobody_in_the_group() {
    let bench = Bench::new();
    let child = bench.bash(&format!("exec {SLOT_FD}>&-; sleep 1000 & echo $! > pid; wait"));
    let other = bench.pid_in("pid");
    is_running(other, "sleep");
    assert_eq!(bench.stop(child, LONG), Some(Ending::Signalled(15)));
    assert!(is_gone(other));
}

#[test]
fn the_step_itself_belongs_to_the_step_whatever_it_does() {
    let bench = Bench::new();
    // A group that it leads no longer, and no descriptor.
    let script = "import os, time\nos.close(223)\npid = os.fork()\nif pid == 0: time.sleep(1000)\n\
                  os.setpgid(pid, pid)\nos.setpgid(0, pid)\n\
                  open('pid', 'w').write(f'{pid}\\n')\ntime.sleep(1000)";
    let child = bench.start(&["/usr/bin/env", "python3", "-c", script]);
    let stranger = bench.pid_in("pid");
    assert_eq!(getpgid(Some(child.pid())).unwrap(), stranger);
    assert_eq!(bench.stop(child, LONG), Some(Ending::Signalled(15)));
    assert!(!is_gone(stranger));
    kill_process(stranger, Signal::KILL).unwrap();
}

#[test]
fn a_process_whose_first_thread_has_ended_is_alive() {
    let bench = Bench::new();
    let script = "import os, threading, time, ctypes\nif os.fork(): os._exit(0)\nos.setsid()\n\
                  threading.Thread(target=time.sleep, args=(1000,)).start()\n\
                  open('pid', 'w').write(f'{os.getpid()}\\n')\n\
                  ctypes.CDLL(None).pthread_exit(None)";
    let child = bench.start(&["/usr/bin/env", "python3", "-c", script]);
    let escaped = bench.pid_in("pid");
    until("a leader that is gone", || state(escaped) == 'Z');
    bench.stop(child, LONG);
    until("the other threads", || {
        !Path::new(&format!("/proc/{}/task", escaped.as_raw_nonzero())).exists()
            || fs::read_dir(format!("/proc/{}/task", escaped.as_raw_nonzero())).unwrap().count() == 1
    });
}

#[test]
fn processes_born_during_the_stop_are_found_again() {
    let bench = Bench::new();
    let script = "trap 'setsid sleep 1000 & echo $! > late; exit 1' TERM; echo > ready; \
                  while :; do sleep 1000 & wait; done";
    let child = bench.bash(script);
    bench.wait_for("ready");
    assert_eq!(bench.stop(child, Duration::from_millis(200)), Some(Ending::Exited(1)));
    assert!(is_gone(bench.pid_in("late")));
}

#[test]
fn a_step_that_keeps_forking_away_is_stopped() {
    let bench = Bench::new();
    let script = "trap '' TERM; echo > ready; \
                  while :; do setsid bash -c 'echo $$ >> pids; exec sleep 1000' & sleep 0.005; done";
    let child = bench.bash(script);
    bench.wait_for("pids");
    assert_eq!(bench.stop(child, Duration::from_millis(100)), Some(Ending::Signalled(9)));
    let pids = fs::read_to_string(bench.path("pids")).unwrap();
    assert!(pids.lines().all(|pid| is_gone(Pid::from_raw(pid.parse().unwrap()).unwrap())), "{pids}");
}

#[test]
fn haste_ends_the_grace_at_once() {
    let bench = Bench::new();
    let child = bench.bash("trap 'echo > told' TERM; echo > ready; while :; do sleep 1000 & wait $!; done");
    bench.wait_for("ready");
    thread::scope(|scope| {
        let stopping = scope.spawn(|| bench.stop(child, LONG));
        bench.wait_for("told");
        bench.handle.hasten();
        assert_eq!(stopping.join().unwrap(), Some(Ending::Signalled(9)));
    });
}

#[test]
fn haste_before_the_stop_leaves_no_grace() {
    let bench = Bench::new();
    let child = bench.bash("trap 'echo > told' TERM; echo > ready; while :; do sleep 1000 & wait $!; done");
    bench.wait_for("ready");
    bench.handle.hasten();
    assert_eq!(bench.watch.requested(), None);
    assert_eq!(bench.stop(child, LONG), Some(Ending::Signalled(9)));
    assert!(!bench.path("told").exists());
}

#[test]
fn readers_of_the_slot_are_never_signalled() {
    let bench = Bench::new();
    let other = Bench::new();
    let slot = bench.path("17");
    let reader = other.bash(&format!(
        "exec 5<{}; flock -n 5 || echo > {}; exec sleep 1000",
        slot.display(),
        "refused"
    ));
    is_running(reader.pid(), "sleep");
    let child = bench.start(&["/bin/sleep", "1000"]);
    bench.stop(child, LONG);
    assert!(other.path("refused").exists() && !is_gone(reader.pid()));
    other.stop(reader, LONG);
}

#[test]
fn a_step_that_has_ended_is_joined_with_its_ending() {
    let bench = Bench::new();
    let child = bench.bash("exit 6");
    until("the end", || state(child.pid()) == 'Z');
    assert_eq!(bench.stop(child, LONG), Some(Ending::Exited(6)));
}

#[test]
fn orphans_are_found_by_the_lock_and_the_spared_are_spared() {
    let bench = Bench::new();
    let orphan = bench.bash("setsid sleep 1000 & echo $! > pid; exec sleep 1000");
    let spared = bench.pid_in("pid");
    is_running(spared, "sleep");
    let slot = SlotIdentity::at(&bench.path("17")).unwrap();
    assert_eq!(slot, SlotIdentity::of(&bench.slot).unwrap());
    let stopped = stop_orphans(slot.clone(), &[spared], LONG, &bench.watch).unwrap();
    assert_eq!(stopped.ending, None);
    assert!(is_gone(orphan.pid()) && !is_gone(spared));
    let stopped = stop_orphans(slot, &[], LONG, &bench.watch).unwrap();
    assert_eq!(stopped.ending, None);
    assert!(is_gone(spared));
}

#[test]
fn a_stop_never_hits_what_is_being_started_for_another_run() {
    let stopping = Bench::new();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let bench = Bench::new();
                for _ in 0..150 {
                    assert_eq!(bench.end_of(bench.start(&["/bin/true"])), Ending::Exited(0));
                }
            });
        }
        for _ in 0..40 {
            let child = stopping.start(&["/bin/sleep", "1000"]);
            assert_eq!(stopping.stop(child, LONG), Some(Ending::Signalled(15)));
        }
    });
}

#[test]
fn the_local_executor_starts_waits_stops_and_knows_what_it_cannot_know() {
    let bench = Bench::new();
    let argv = ["/bin/sleep", "1000"].map(OsString::from);
    let mut child = LocalExecutor.start("r@1/1", &bench.spec(&argv, &[])).unwrap();
    let wake = LocalExecutor.wait(&mut child, Some(Instant::now()), &bench.watch).unwrap();
    assert_eq!(wake, Wake::Deadline);
    let stopped = LocalExecutor.stop(child, &bench.slot, LONG, &bench.watch).unwrap();
    assert_eq!(stopped.ending, Some(Ending::Signalled(15)));
    assert_eq!(LocalExecutor.ask("r@1/1", SlotLock::Held), Fate::StillRunning);
    assert_eq!(LocalExecutor.ask("r@1/1", SlotLock::Free), Fate::Unknown);
}

#[test]
fn what_may_not_be_signalled_is_reported_and_the_rest_is_stopped() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can make a program that changes its user");
        return;
    }
    // The test becomes nobody, and its step root again.
    let script = "chmod 755 . && cp \"$1\" exe && cp \"$(command -v setpriv)\" elevate && chmod 4755 elevate && \
                  mkdir -m 777 tmp && shift && TMPDIR=$PWD/tmp ELEVATE=$PWD/elevate \
                  setpriv --reuid=65534 --clear-groups ./exe \"$@\"";
    run_helper(script, "helper_has_a_step_of_another_user");
}

#[test]
#[ignore = "needs a process of its own; started by the test above"]
fn helper_has_a_step_of_another_user() {
    let bench = Bench::new();
    let elevate = std::env::var("ELEVATE").unwrap();
    let script = format!("{elevate} --reuid=0 sleep 5 & echo $! > pid; wait");
    let child = bench.bash(&script);
    let elevated = bench.pid_in("pid");
    is_running(elevated, "sleep");
    if proc_file(elevated, "status").unwrap().contains("Uid:\t65534") {
        eprintln!("skipped: set-user-ID programs are not honoured here");
        return;
    }
    let step = child.pid();
    match stop_child(child, Some(&bench.slot), Duration::from_millis(50), &bench.watch) {
        Err(StopError::NotPermitted { processes }) => {
            assert_eq!(processes, [(elevated.as_raw_nonzero().get(), "sleep".to_owned())]);
        }
        other => panic!("{other:?}"),
    }
    assert!(is_gone(step) && !is_gone(elevated));
}

fn readable(fd: std::os::fd::BorrowedFd<'_>) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&Timespec::default())).unwrap() == 1
}

#[test]
fn interruptions_are_counted_and_the_first_one_names_them() {
    let signals = Signals::detached().unwrap();
    assert_eq!(signals.pending(), None);
    assert!(!readable(signals.first_fd()));
    signals.inject(Interruption::Term);
    assert!(readable(signals.first_fd()) && !readable(signals.second_fd()));
    signals.inject(Interruption::Int);
    assert!(readable(signals.first_fd()) && readable(signals.second_fd()));
    assert_eq!(signals.pending(), Some((Interruption::Term, 2)));
    let codes = [Interruption::Hup, Interruption::Int, Interruption::Term].map(Interruption::exit_code);
    assert_eq!(codes, [129, 130, 143]);
}

#[test]
fn signals_of_the_system_are_recorded() {
    run_helper("exec \"$@\"", "helper_is_signalled_int_then_term");
}

#[test]
#[ignore = "needs a process of its own; started by signals_of_the_system_are_recorded"]
fn helper_is_signalled_int_then_term() {
    let signals = Signals::install().unwrap();
    kill_process(rustix::process::getpid(), Signal::INT).unwrap();
    until("SIGINT", || readable(signals.first_fd()));
    assert_eq!(signals.pending(), Some((Interruption::Int, 1)));
    kill_process(rustix::process::getpid(), Signal::TERM).unwrap();
    until("SIGTERM", || readable(signals.second_fd()));
    assert_eq!(signals.pending(), Some((Interruption::Int, 2)));
}

#[test]
fn only_a_hangup_that_was_ignored_on_entry_stays_ignored() {
    run_helper("trap '' HUP INT; exec \"$@\"", "helper_is_signalled_while_ignoring");
}

#[test]
#[ignore = "needs a process of its own; started by only_a_hangup_that_was_ignored_on_entry_stays_ignored"]
fn helper_is_signalled_while_ignoring() {
    let signals = Signals::install().unwrap();
    for signal in [Signal::HUP, Signal::INT] {
        kill_process(rustix::process::getpid(), signal).unwrap();
    }
    until("SIGINT", || readable(signals.first_fd()));
    assert_eq!(signals.pending(), Some((Interruption::Int, 1)));
    // A step has the defaults even so.
    let bench = Bench::new();
    assert_eq!(bench.end_of(bench.bash("kill -HUP $$")), Ending::Signalled(1));
}

#[test]
fn inherited_descriptors_stay_here_and_streams_are_open() {
    run_helper("exec 7</dev/null \"$@\" 0<&-", "helper_was_given_descriptor_7");
}

#[test]
#[ignore = "needs a process of its own; started by inherited_descriptors_stay_here_and_streams_are_open"]
fn helper_was_given_descriptor_7() {
    assert!(Path::new("/proc/self/fd/7").exists());
    wfctl::process::sanitize_inherited_fds().unwrap();
    assert!((0..=2).all(|fd| fs::read_link(format!("/proc/self/fd/{fd}")).is_ok()));
    let status = Command::new("/bin/bash").args(["-c", "test ! -e /proc/self/fd/7"]).status().unwrap();
    assert!(status.success());
}

#[test]
fn a_limit_of_open_files_that_is_too_low_is_named() {
    run_helper("ulimit -n 200; exec \"$@\"", "helper_may_open_few_files");
}

#[test]
#[ignore = "needs a process of its own; started by a_limit_of_open_files_that_is_too_low_is_named"]
fn helper_may_open_few_files() {
    let bench = Bench::new();
    let argv = ["/bin/true".into()];
    let error = spawn(&bench.spec(&argv, &[])).unwrap_err();
    assert!(error.never_started() && error.to_string().contains("ulimit -n"), "{error}");
    let without_slot = SpawnSpec { slot: None, ..bench.spec(&argv, &[]) };
    assert_eq!(bench.end_of(spawn(&without_slot).unwrap()), Ending::Exited(0));
}

#[test]
fn an_inherited_ignored_sigchld_loses_no_ending() {
    let script = "exec python3 -c 'import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); \
                  os.execv(sys.argv[1], sys.argv[1:])' \"$@\"";
    run_helper(script, "helper_was_told_to_ignore_sigchld");
}

#[test]
#[ignore = "needs a process of its own; started by an_inherited_ignored_sigchld_loses_no_ending"]
fn helper_was_told_to_ignore_sigchld() {
    let bench = Bench::new();
    assert_eq!(bench.end_of(bench.bash("exit 3")), Ending::Exited(3));
}
