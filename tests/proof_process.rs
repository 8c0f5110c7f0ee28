//! Hostile steps and hostile surroundings, through the real program: whatever a step does to escape, a timeout
//! and a Ctrl-C take its whole family; whatever it prints or cannot start, the run comes to a known end; and
//! whatever `wfctl` itself is started with, nothing of it reaches a step or the store.
//!
//! Much output is 20 MB unless `WFCTL_PROOF=full`, which prints 400 MB.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod support;

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::Read as _,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use support::{TestStore, is_alive, wait_until};

/// A step's way to hide, and how many processes it has; each leaves a line in `pids`.
struct Family {
    name: &'static str,
    members: usize,
    script: &'static str,
}

/// What the scripts share: `here` names the process, `stay` waits until the store is gone, as the last thing.
const PRELUDE: &str = "here() { echo $BASHPID >> pids; }\n\
    stay() { while [ -e ./await ]; do sleep 0.02; done; }\n\
    deaf() { trap '' TERM HUP INT; }\n\
    export -f here stay deaf\n";

const FAMILIES: &[Family] = &[
    Family { name: "deaf processes", members: 3, script: "deaf; (here; stay) & (here; stay) & here; stay" },
    Family {
        name: "processes that stop themselves",
        members: 3,
        script: "(here; kill -STOP $BASHPID; stay) & (deaf; here; kill -STOP $BASHPID; stay) & here; kill -STOP $$; stay",
    },
    Family {
        name: "new sessions",
        members: 4,
        script: "setsid bash -c 'here; stay' & setsid bash -c 'deaf; here; kill -STOP $$; stay' &\n\
                 (setsid bash -c '(here; deaf; stay) &' &) ; here; stay",
    },
    Family {
        name: "a closed slot",
        members: 3,
        script: "exec 223>&-; (deaf; here; stay) & (here; kill -STOP $BASHPID; stay) & here; stay",
    },
    Family {
        name: "an unlocked slot",
        members: 3,
        script: "flock -u 223; setsid bash -c 'flock -u 223; here; stay' & setsid bash -c 'deaf; here; stay' & here; stay",
    },
    Family {
        name: "a slot that is claimed alone",
        members: 2,
        script: "flock -x -n 223; setsid bash -c 'flock -x -n 223; deaf; here; stay' & here; stay",
    },
    Family {
        name: "a leader that closes its slot beside a new session",
        members: 2,
        script: "setsid bash -c 'here; stay' & exec 223>&-; deaf; here; stay",
    },
    Family {
        name: "held pipes",
        members: 4,
        script: "mkfifo fifo; (here; exec 9<>fifo; stay) & (here; exec cat < <(here; deaf; exec 9<>fifo; stay)) & here; wait",
    },
    Family { name: "full pipes", members: 2, script: "here; yes | (here; deaf; stay)" },
];

/// Processes whose current folder is this one, with what they execute.
fn processes_in(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let pid = entry.file_name().to_string_lossy().into_owned();
        if pid.bytes().all(|b| b.is_ascii_digit())
            && fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == dir)
            && is_alive(&pid)
        {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            found.push(format!("{pid} {}", String::from_utf8_lossy(&line).replace('\0', " ")));
        }
    }
    found
}

/// Kills what a failed test would leave behind, stopped processes above all.
struct Cleanup<'a>(&'a TestStore);

impl Drop for Cleanup<'_> {
    fn drop(&mut self) {
        for line in processes_in(&self.0.work) {
            let pid = line.split(' ').next().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
            let _ = pid.map(|pid| kill_process(pid, Signal::KILL));
        }
    }
}

/// A step that bash executes.
fn bash(script: &str, rest: &str) -> String {
    format!("[[step]]\nid = \"work\"\nrun = {}\n{rest}", json!(["bash", "-c", script]))
}

/// A step that executes a program directly.
fn argv(run: &[&str]) -> String {
    format!("[[step]]\nid = \"work\"\nrun = {}\n", json!(run))
}

fn count(store: &TestStore) -> usize {
    store.read("pids").lines().count()
}

#[track_caller]
fn assert_all_gone(store: &TestStore, name: &str) {
    let left = processes_in(&store.work);
    assert!(left.is_empty(), "{name}: {left:?} are alive");
    for pid in store.read("pids").lines() {
        assert!(!is_alive(pid), "{name}: {pid} is alive");
    }
    store.assert_slot_free(0);
}

#[test]
fn a_timeout_takes_the_whole_family() {
    for family in FAMILIES {
        // A loaded machine may need longer than the timeout to have the family complete.
        let complete = ["1s", "5s", "25s"].into_iter().any(|timeout| {
            let store = TestStore::new(1);
            let _cleanup = Cleanup(&store);
            store.ok(&["config", "grace", "200ms"]);
            let script = format!("{PRELUDE}{}", family.script);
            let file = store.workflow("w", &bash(&script, &format!("timeout = \"{timeout}\"\n")));
            store.run(&["run", &file, "--id", "w-1"]).expect(1);
            assert_all_gone(&store, family.name);
            let shown = store.show("w-1");
            let end = (&shown["status"], &shown["reason"], &shown["ambiguous"]);
            assert_eq!(end, (&json!("failed"), &json!("timeout"), &json!(false)), "{}: {shown}", family.name);
            store.fsck_clean();
            count(&store) >= family.members
        });
        assert!(complete, "{}: there were never all {} of it", family.name, family.members);
    }
}

#[test]
fn a_ctrl_c_takes_the_whole_family() {
    for family in FAMILIES {
        let store = TestStore::new(1);
        let _cleanup = Cleanup(&store);
        store.ok(&["config", "grace", "200ms"]);
        let file = store.workflow("w", &bash(&format!("{PRELUDE}{}", family.script), ""));
        let running = store.popen(&["run", &file, "--id", "w-1"]);
        wait_until(family.name, || count(&store) >= family.members);
        running.signal(Signal::INT);
        running.wait().expect(130);
        assert_all_gone(&store, family.name);
        assert_eq!(store.show("w-1")["ambiguous"], true, "{}", family.name);
        store.fsck_clean();
    }
}

#[test]
fn a_step_that_keeps_forking_into_new_sessions_does_not_outrun_a_ctrl_c() {
    let store = TestStore::new(1);
    let _cleanup = Cleanup(&store);
    store.ok(&["config", "grace", "200ms"]);
    store.file(
        "hop",
        "trap '' TERM\necho $$ >> pids\n[ -e ./await ] || exit\nsetsid bash ./hop &\nsetsid bash ./stay &\nexit 0\n",
    );
    store.file("stay", "while [ -e ./await ] && [ ! -e ./enough ]; do sleep 0.02; done\n");
    let file = store.workflow("w", &bash("setsid bash ./hop & sh ./await never", ""));
    let running = store.popen(&["run", &file, "--id", "w-1"]);
    wait_until("a few generations", || count(&store) >= 10);
    running.signal(Signal::INT);
    running.wait().expect(130);
    assert_all_gone(&store, "a chain of sessions");
    assert_eq!(store.show("w-1")["ambiguous"], true);
}

#[test]
fn what_a_step_leaves_behind_holds_neither_the_slot_nor_the_callers_pipe() {
    let store = TestStore::new(1);
    let _cleanup = Cleanup(&store);
    let script = format!(
        "{PRELUDE}setsid bash -c 'deaf; here; sh ./await open; echo late; echo end > end' &\n\
         until [ -s pids ]; do sleep 0.02; done"
    );
    let file = store.workflow("w", &bash(&script, ""));
    // Reads both pipes to their ends: the orphan must have neither.
    let done = store.command(&["run", &file, "--id", "w-1"]).output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert!(is_alive(&store.read("pids")), "a step that ends leaves its background processes alone");
    store.assert_slot_free(0);
    store.ok(&["run", &store.quick("q")]);
    store.file("open", "");
    store.wait_for("end");
    assert_eq!(store.show("w-1")["status"], "completed");
}

/// Whoever closes the slot *and* leaves the group is no process of the step any more: nothing tells it from a
/// stranger. It is not joined, but it holds nothing either.
#[test]
fn who_leaves_the_group_without_the_slot_escapes_and_holds_nothing() {
    let store = TestStore::new(1);
    let _cleanup = Cleanup(&store);
    store.ok(&["config", "grace", "200ms"]);
    let script = format!(
        "{PRELUDE}setsid bash -c 'exec 223>&-; here; sh ./await open; echo end > end' & sh ./await never"
    );
    let file = store.workflow("w", &bash(&script, ""));
    let running = store.popen(&["run", &file, "--id", "w-1"]);
    wait_until("the escape", || count(&store) == 1);
    running.signal(Signal::INT);
    running.wait().expect(130);
    assert!(is_alive(&store.read("pids")));
    store.assert_slot_free(0);
    assert_eq!(store.show("w-1")["ambiguous"], true);
    store.ok(&["run", &store.quick("q")]);
    store.file("open", "");
    store.wait_for("end");
    store.fsck_clean();
}

#[test]
fn much_output_is_kept_and_given_back_whole() {
    let size: u64 =
        if std::env::var("WFCTL_PROOF").is_ok_and(|v| v == "full") { 400 << 20 } else { 20 << 20 };
    let store = TestStore::new(1);
    let script = format!("yes 0123456789abcde | head -c {size}");
    store.ok(&["run", &store.workflow("w", &bash(&script, "")), "--id", "w-1"]);
    assert_eq!(fs::metadata(store.folder("w-1").join("1-work.log")).unwrap().len(), size);
    let mut child = store.command(&["logs", "w-1"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut reader = child.stdout.take().unwrap();
    let expected = b"0123456789abcde\n".repeat(1 << 12);
    let (mut piece, mut total) = (vec![0; expected.len()], 0_u64);
    loop {
        let mut filled = 0;
        while filled < piece.len() {
            let got = reader.read(&mut piece[filled..]).unwrap();
            if got == 0 {
                break;
            }
            filled += got;
        }
        assert!(piece[..filled] == expected[..filled], "different bytes behind {total}");
        total += filled as u64;
        if filled < piece.len() {
            break;
        }
    }
    assert_eq!((child.wait().unwrap().code(), total), (Some(0), size));
    store.json(&["show", "w-1"]);
}

#[test]
fn bytes_that_are_no_text_are_given_back_unchanged_and_json_stays_json() {
    let mut bytes: Vec<u8> = (0..=255).collect();
    bytes.extend(b"\xc3\n\xed\xa0\x80\xf5\x80\0\x1b[31m\x1b]0;title\x07\r\r\n\xff\xfe".repeat(5000));
    let store = TestStore::new(1);
    fs::write(store.work.join("bytes"), &bytes).unwrap();
    let file = store.workflow("w", &bash("cat bytes; cat bytes >&2; exit 3", ""));
    let said = store.json_code(1, &["run", &file, "--id", "w-1"]);
    assert!(said.is_object(), "{said}");
    let logs = store.command(&["logs", "w-1"]).output().unwrap();
    assert_eq!(logs.status.code(), Some(0));
    assert!(logs.stdout == bytes.repeat(2), "{} bytes came back of {}", logs.stdout.len(), 2 * bytes.len());
    let shown = store.command(&["--json", "show", "w-1"]).output().unwrap();
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!((&shown["status"], &shown["steps"][0]["outcome"]), (&json!("failed"), &json!("error")));
    for args in [&["show", "w-1"][..], &["list"], &["history"], &["status"]] {
        let out = store.command(args).output().unwrap();
        assert_eq!(out.status.code(), Some(0), "{args:?}");
        assert!(String::from_utf8(out.stdout).is_ok_and(|text| !text.contains('\x1b')), "{args:?}");
    }
}

#[test]
fn what_cannot_be_executed_is_a_known_failure() {
    let store = TestStore::new(1);
    let script = |name: &str, text: &[u8], mode: u32| {
        fs::write(store.work.join(name), text).unwrap();
        fs::set_permissions(store.work.join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    script("plain", b"#!/bin/sh\necho x > ran\n", 0o644);
    script("badinterp", b"#!/no/such/interpreter\n", 0o755);
    script("selfinterp", b"#!./selfinterp\n", 0o755);
    script("elf", b"\x7fELF\x02\x01\x01 and no more", 0o755);
    fs::create_dir(store.work.join("folder")).unwrap();
    std::os::unix::fs::symlink("loop", store.work.join("loop")).unwrap();
    let long = format!("./{}", "x".repeat(300));
    let cases: [&[&str]; 11] = [
        &["./absent"],
        &["no-such-program-anywhere"],
        &["/no/such/folder/program"],
        &["./plain/below-a-file"],
        &["./plain"],
        &["./badinterp"],
        &["./selfinterp"],
        &["./elf"],
        &["./folder"],
        &["./loop"],
        &[&long],
    ];
    for (index, run) in cases.into_iter().enumerate() {
        let (name, id) = (format!("w{index}"), format!("w{index}-1"));
        let direct = store.workflow(&name, &argv(run));
        store.run(&["run", &direct, "--id", &id]).expect(1);
        let shown = store.show(&id);
        let end = (&shown["status"], &shown["steps"][0]["outcome"], &shown["ambiguous"]);
        assert_eq!(end, (&json!("failed"), &json!("error"), &json!(false)), "{run:?}: {shown}");
        assert!(shown["error"].as_str().is_some_and(|text| !text.is_empty()), "{run:?}: {shown}");
        store.assert_slot_free(0);
        // The same through a shell, and with somewhere to go.
        let steps = format!(
            "[[step]]\nid = \"work\"\nrun = {}\nnext = {{ error = \"after\" }}\n\
             [[step]]\nid = \"after\"\nrun = \"echo {index} >> after\"\n",
            json!(run)
        );
        store.ok(&["run", &store.workflow(&format!("n{index}"), &steps)]);
    }
    assert_eq!(store.read("after").lines().count(), cases.len());
    assert!(!store.exists("ran"));
    store.fsck_clean();
}

/// `wfctl` as the first process of its own pid namespace; none where that is not permitted.
fn as_pid_1(store: &TestStore, args: &[&str]) -> Option<Command> {
    let unshare = || {
        let mut command = store.program(OsStr::new("unshare"));
        command.args(["-pf", "--mount-proc"]);
        command
    };
    if !unshare().arg("true").stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: a pid namespace needs unshare and root");
        return None;
    }
    let mut command = unshare();
    command.arg(env!("CARGO_BIN_EXE_wfctl")).arg("--store").arg(&store.dir).args(args);
    Some(command)
}

/// Lists the living processes of its own namespace, as a step.
const LOOK: &str = "[[step]]\nid = \"look\"\nrun = \"\"\"\n\
    for stat in /proc/[0-9]*/stat; do read -r line < $stat && echo \"$line\" >> stats; done; true\"\"\"\n";

#[test]
fn the_first_process_of_a_container_outlives_orphans_and_joins_a_step_that_takes_too_long() {
    let store = TestStore::new(1);
    let _cleanup = Cleanup(&store);
    store.ok(&["config", "grace", "200ms"]);
    // Orphans that end at once, orphans that stay, then a step that takes too long with orphans of its own.
    let steps = format!(
        "[[step]]\nid = \"orphans\"\nrun = {}\n\
         [[step]]\nid = \"slow\"\ntimeout = \"2s\"\nrun = {}\nnext = {{ timeout = \"look\" }}\n{LOOK}",
        json!(["bash", "-c", "for i in $(seq 30); do (setsid true &); done; (setsid sh -c 'exit 7' &)"]),
        json!([
            "bash",
            "-c",
            format!("{PRELUDE}(setsid bash -c 'deaf; here; stay' &); (deaf; here; stay) & here; stay")
        ]),
    );
    let file = store.workflow("w", &steps);
    let Some(command) = as_pid_1(&store, &["run", &file, "--id", "w-1"]) else { return };
    store.start(command).wait().expect(0);
    let shown = store.show("w-1");
    let outcomes: Vec<_> = shown["steps"].as_array().unwrap().iter().map(|step| &step["outcome"]).collect();
    assert_eq!(outcomes, ["ok", "timeout", "ok"], "{shown}");
    let stats = store.read("stats");
    let living: Vec<_> = stats.lines().filter(|line| !line.contains(") Z ")).collect();
    assert!(living[0].starts_with("1 (wfctl)"), "{stats}");
    assert_eq!(living.len(), 2, "only wfctl and the step that looks are alive: {stats}");
    store.assert_slot_free(0);
    store.fsck_clean();
}

#[test]
fn the_first_process_of_a_container_can_be_interrupted() {
    let store = TestStore::new(1);
    let _cleanup = Cleanup(&store);
    store.ok(&["config", "grace", "200ms"]);
    let script = format!("{PRELUDE}(setsid bash -c 'deaf; here; stay' &); here; stay");
    let file = store.workflow("w", &bash(&script, ""));
    let Some(command) = as_pid_1(&store, &["run", &file, "--id", "w-1"]) else { return };
    let running = store.start(command);
    wait_until("the family", || count(&store) == 2);
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", running.pid())).unwrap();
    let wfctl = Pid::from_raw(children.trim().parse().unwrap()).unwrap();
    kill_process(wfctl, Signal::INT).unwrap();
    running.wait().expect(130);
    assert!(processes_in(&store.work).is_empty());
    assert_eq!(store.show("w-1")["ambiguous"], true);
    store.assert_slot_free(0);
}

/// The program, started by bash after it has changed its descriptors.
fn behind(store: &TestStore, descriptors: &str, args: &[&str]) -> Command {
    let mut command = store.program(OsStr::new("bash"));
    command.arg("-c").arg(format!("{descriptors}\nexec \"$@\"")).arg("bash");
    command.arg(env!("CARGO_BIN_EXE_wfctl")).arg("--store").arg(&store.dir).args(args);
    command
}

#[test]
fn closed_streams_never_become_files_of_the_store() {
    let store = TestStore::new(1);
    let script = "for fd in 0 1 2; do readlink /proc/$PPID/fd/$fd >> streams || echo closed >> streams; done; echo said";
    let file = store.workflow("w", &bash(script, ""));
    for closed in 1..8 {
        let close = |bit: u8, what: &str| if closed & bit == 0 { "" } else { what }.to_owned();
        let descriptors = format!("exec {} {} {}", close(1, "<&-"), close(2, ">&-"), close(4, "2>&-"));
        for (index, more) in [&[][..], &["--json"], &["-vv"]].into_iter().enumerate() {
            let id = format!("w-{closed}{index}");
            let args: Vec<_> = more.iter().copied().chain(["run", &file, "--id", &id]).collect();
            store.start(behind(&store, &descriptors, &args)).wait().expect(0);
            assert_eq!(store.show(&id)["status"], "completed", "{descriptors}");
            assert_eq!(store.event_names(&id).last().unwrap(), "completed", "{descriptors}");
            let log = fs::read_to_string(store.folder(&id).join("1-work.log")).unwrap();
            assert_eq!(log, "said\n", "{descriptors}");
        }
        // A refusal has nowhere to be said, and must not be said into a file either.
        store.start(behind(&store, &descriptors, &["run", &file, "--id", "w-10"])).wait();
    }
    let streams = store.read("streams");
    let root = store.dir.to_str().unwrap();
    assert_eq!(streams.lines().count(), 7 * 3 * 3, "{streams}");
    assert!(!streams.lines().any(|to| to == "closed" || to.starts_with(root)), "{streams}");
    store.assert_slot_free(0);
    store.fsck_clean();
}

#[test]
fn what_wfctl_inherited_reaches_no_step() {
    let store = TestStore::new(2);
    store.file("foreign", "");
    // At 223 too, where a step gets its slot, and so many that those of wfctl itself have high numbers.
    let descriptors =
        "for fd in {3..120} 223 255 300; do eval \"exec $fd<>./foreign\"; done\nexec 222>./other";
    let list = |name: &str| {
        // Both look while both execute, so that one could see the other's slot.
        let script = format!(
            "touch {name}.up; until [ -e a.up ] && [ -e b.up ]; do [ -e ./await ] || exit; sleep 0.02; done; exec ls -l /proc/self/fd"
        );
        store.workflow(name, &bash(&script, ""))
    };
    let runs = [store.admit(&list("a")), store.admit(&list("b"))];
    store.start(behind(&store, descriptors, &["tick"])).wait().expect(0);
    let mut slots = Vec::new();
    for run in &runs {
        let log = fs::read_to_string(store.folder(run).join("1-work.log")).unwrap();
        let mut fds: Vec<(u32, &str)> = log
            .lines()
            .filter_map(|line| line.split_once(" -> "))
            .map(|(left, to)| (left.rsplit(' ').next().unwrap().parse().unwrap(), to))
            .collect();
        fds.sort_unstable();
        let numbers: Vec<_> = fds.iter().map(|(fd, _)| *fd).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 223], "3 is the folder that ls reads: {log}");
        assert_eq!(fds[0].1, "/dev/null");
        assert!(fds[1].1.ends_with("1-work.log") && fds[1].1 == fds[2].1, "{log}");
        assert!(fds[3].1.starts_with("/proc/"), "{log}");
        slots.push(fds[4].1.to_owned());
    }
    slots.sort();
    assert_eq!(slots, [0, 1].map(|slot| store.slot_path(slot).to_str().unwrap().to_owned()));
}

#[test]
fn readers_that_leave_in_the_middle_disturb_no_run() {
    let store = TestStore::new(1);
    for (index, more) in [&[][..], &["--json"], &["-vv"]].into_iter().enumerate() {
        let name = format!("s{index}");
        let (file, id) = (store.slow(&name), format!("{name}-1"));
        let args: Vec<_> = more.iter().copied().chain(["run", &file, "--id", &id]).collect();
        let mut child = store.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_until("the step", || store.read(&format!("{name}.effect")).ends_with('\n'));
        drop((child.stdout.take(), child.stderr.take()));
        store.file(&format!("{name}.open"), "");
        assert_eq!(child.wait().unwrap().code(), Some(0), "{more:?}");
        assert_eq!(store.show(&id)["status"], "completed", "{more:?}");
    }
    store.assert_slot_free(0);
    store.fsck_clean();
}

#[test]
fn under_nohup_a_hangup_changes_nothing_and_an_interrupt_still_cancels() {
    let store = TestStore::new(1);
    for (name, ends_by) in [("a", None), ("b", Some(Signal::INT))] {
        let (file, id) = (store.slow(name), format!("{name}-1"));
        let mut command = store.program(OsStr::new("nohup"));
        command.arg(env!("CARGO_BIN_EXE_wfctl")).arg("--store").arg(&store.dir);
        command.args(["run", &file, "--id", &id]).stdout(File::create(store.work.join("out")).unwrap());
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        wait_until("the step", || store.read(&format!("{name}.effect")).ends_with('\n'));
        for _ in 0..3 {
            kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
        }
        assert_eq!(store.show(&id)["live"], true);
        if let Some(signal) = ends_by {
            kill_process(Pid::from_child(&child), signal).unwrap();
            assert_eq!(child.wait().unwrap().code(), Some(130));
            assert_eq!(store.show(&id)["ambiguous"], true);
        } else {
            store.file(&format!("{name}.open"), "");
            assert_eq!(child.wait().unwrap().code(), Some(0));
            assert_eq!(store.show(&id)["status"], "completed");
        }
        store.assert_slot_free(0);
    }
}
